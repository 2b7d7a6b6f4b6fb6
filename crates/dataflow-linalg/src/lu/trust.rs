//! What factors say of their matrix and of solutions: condition, determinant, bounds of errors.

use super::factor::expect_regular;
use super::pivots::{Pivots, expect_general};
use super::solve::{Solve, expect_fit};
use crate::condition::{condition_number, expect_norm};
use crate::determinant::{Determinant, diagonal_of};
use crate::error::{LinalgError, MatrixLabel};
use crate::kernel::{Backend, Op};
use crate::matrix::norm::entries;
use crate::matrix::{LaidOut, Layout, TiledMatrix, expect_two};
use crate::refine::{self, Bounds};
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::Executor;

/// κ₁(A) = ‖A‖₁·‖A⁻¹‖₁, estimated from below, rarely by more than a factor 3; 1 for an empty matrix,
/// infinite if ‖A‖₁ is larger than any number.
///
/// - `lu`, `pivots`: what [`factor`](super::factor) left; each rank gives its part, and gets the same
/// - `norm`: ‖A‖₁, taken [before](crate::matrix::norm::norm()) A was overwritten
///
/// At most 11 solutions of one column, mostly 4 or 5.
///
/// # Errors
/// As [`solve`](super::solve()): a singular matrix has none. [`LinalgError::Argument`] for a norm that none is.
///
/// # Source
/// LAPACK's `gecon`; see [`condition`](crate::condition).
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::lu::{Pivots, condition, factor};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, norm::{Norm, norm}};
/// // A⁻¹ = [−1 ½; ¼ 0]
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let (norm, pivots) = (norm(&a, Norm::One, &Inline)?, Pivots::new(&a));
/// factor(&a, &pivots, Backend::Auto, &Inline)?;
/// assert_eq!(condition(&a, &pivots, norm, Backend::Auto, &Inline)?, 15.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn condition<T: Scalar>(
    lu: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    norm: f64,
    backend: Backend,
    on: &dyn Executor,
) -> Result<f64, LinalgError> {
    let column = Layout::general(lu.rows(), 1, lu.nb())?;
    let column = column.distributed(*lu.distribution(), lu.layout().rank())?;
    expect_factors(lu, pivots, LaidOut(MatrixLabel(None), &column), on)?;
    expect_norm(norm)?;
    if lu.rows() == 0 {
        return Ok(1.0);
    }
    expect_regular(lu, on)?;
    let mut solve = solver(lu, pivots, backend, on);
    condition_number(lu.rows(), norm, |op: Op, x: &mut [T]| {
        let entry = |row: usize, _: usize| x[row];
        let b = TiledMatrix::beside(column, lu.memory(), &entry, on);
        let (b, _) = b.map_err(LinalgError::Run)?;
        solve(op, &b)?;
        x.copy_from_slice(&entries(&b, on).map_err(LinalgError::Run)?);
        Ok::<_, LinalgError>(())
    })
}

/// The determinant of A from its factors, all tiles on this rank.
///
/// # Errors
/// [`LinalgError::Overflow`] with the first pivot that is not finite, unless one before it is zero. If the
/// matrix is not square, the pivots are of another one or not filled, or a tile is not at hand.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::{kernel::Backend, lu, matrix::{Layout, TiledMatrix}};
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let pivots = lu::Pivots::new(&a);
/// lu::factor(&a, &pivots, Backend::Auto, &Inline)?;
/// let determinant = lu::determinant(&a, &pivots)?;
/// assert!((determinant.log_abs - 8f64.ln()).abs() < 1e-15);
/// assert_eq!(determinant.phase.re, -1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn determinant<T: Scalar>(
    lu: &TiledMatrix<T>,
    pivots: &Pivots<T>,
) -> Result<Determinant, LinalgError> {
    pivots.expect_of(lu)?;
    if lu.rows() != lu.cols() {
        return Err(LinalgError::Shape(format!(
            "the determinant of a matrix{} of {} x {} (must be square)",
            lu.label(),
            lu.rows(),
            lu.cols()
        )));
    }
    let of_u = Determinant::of_factor(&diagonal_of(lu)?)?;
    pivots.expect_filled()?;
    let swaps = pivots.rows().filter(|(row, pivot)| row != pivot);
    Ok(of_u.swapped(swaps.count()))
}

/// How far each column of `x` is from the solution of A·X = B.
///
/// - `a`: A itself; `lu`, `pivots`: its factors
/// - `b`, `x`: laid out alike, on the grid of the factors
///
/// 4n² flops and 4 or 5 solutions for each column; |A| is held beside A. Over ranks, too.
///
/// # Errors
/// [`LinalgError::Singular`] if a pivot is zero; if shapes or tile orders do not fit; what
/// [`run_across`](dataflow_core::run_across) answers.
///
/// # Source
/// LAPACK's `gerfs` without its corrections; see [`refine`].
pub fn error_bounds<T: Scalar>(
    a: &TiledMatrix<T>,
    (lu, pivots): (&TiledMatrix<T>, &Pivots<T>),
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    backend: Backend,
    on: &dyn Executor,
) -> Result<Vec<Bounds>, LinalgError> {
    refine::expect_system(a, &[b, x])?;
    expect_factors(lu, pivots, b.laid_out(), on)?;
    expect_regular(lu, on)?;
    let mut solve = solver(lu, pivots, backend, on);
    refine::bounds(a, (b, x), backend, on, &mut solve)
}

/// Corrects `x` by its residual, at most 5 times and as long as that helps; then says how far it is
/// from the solution. Arguments and cost as [`error_bounds`].
///
/// # Errors
/// As [`error_bounds`]; if `x` is `a`, its factors or `b`.
///
/// # Source
/// LAPACK's `gerfs`; see [`refine`].
pub fn improve<T: Scalar>(
    a: &TiledMatrix<T>,
    (lu, pivots): (&TiledMatrix<T>, &Pivots<T>),
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    backend: Backend,
    on: &dyn Executor,
) -> Result<Vec<Bounds>, LinalgError> {
    expect_two(("L\\U", lu), ("X", x))?;
    refine::expect_correctable(a, (b, x))?;
    expect_factors(lu, pivots, b.laid_out(), on)?;
    expect_regular(lu, on)?;
    let mut solve = solver(lu, pivots, backend, on);
    refine::improve(a, (b, x), backend, on, &mut solve)
}

/// Refuses factors, pivots and right-hand sides that do not fit, or were not made, as [`solve`](super::solve())
/// does: before a value is looked at.
fn expect_factors<T: Scalar>(
    lu: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    sides: LaidOut<'_>,
    on: &dyn Executor,
) -> Result<(), LinalgError> {
    expect_general(lu)?;
    pivots.expect_of(lu)?;
    expect_fit(lu.laid_out(), sides)?;
    match lu.n_told(on) {
        1 => pivots.expect_filled(),
        // Over ranks the run says it, on all of them.
        _ => Ok(()),
    }
}

/// Solves with A and its adjoint.
fn solver<'a, T: Scalar>(
    lu: &'a TiledMatrix<T>,
    pivots: &'a Pivots<T>,
    backend: Backend,
    on: &'a dyn Executor,
) -> impl FnMut(Op, &TiledMatrix<T>) -> Result<Report, LinalgError> + 'a {
    move |op, b| {
        let solve = Solve::new(lu, pivots, op, b, backend)?;
        solve.run(on)
    }
}
