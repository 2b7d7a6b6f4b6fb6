//! What a factor says of its matrix and of solutions: condition, determinant, bounds of errors.

use super::check::expect_lower;
use super::solve::{solve, substitution};
use crate::condition::{condition_number, expect_norm};
use crate::determinant::{Determinant, diagonal_of};
use crate::error::LinalgError;
use crate::kernel::{Backend, Op};
use crate::matrix::norm::entries;
use crate::matrix::{Layout, TiledMatrix};
use crate::refine::{self, Bounds};
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::Executor;

/// κ₁(A) = ‖A‖₁·‖A⁻¹‖₁, estimated from below, rarely by more than a factor 3; 1 for an empty matrix,
/// infinite if ‖A‖₁ is larger than any number.
///
/// - `l`: what [`factor`](super::factor) left; each rank gives its part, and gets the same
/// - `norm`: ‖A‖₁, taken [before](crate::matrix::norm::norm()) A was overwritten
///
/// Nothing tells a factor from another triangle: of a matrix that was never factored the answer is
/// ‖A‖₁·‖(L·Lᴴ)⁻¹‖₁ with its own lower triangle for L, and not its condition.
///
/// At most 11 solutions of one column, mostly 4 or 5.
///
/// # Errors
/// As [`solve`]. [`LinalgError::Argument`] for a norm that none is.
///
/// # Source
/// LAPACK's `pocon`; see [`condition`](crate::condition).
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, norm::{Norm, norm}};
/// use dataflow_linalg::cholesky::{condition, factor};
/// // A = [4 2; 2 2], A⁻¹ = [½ −½; −½ 1]
/// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 2.0], [2.0, 2.0]][i][j]);
/// let norm = norm(&a, Norm::One, &Inline)?;
/// // Not factored yet: with L = [4 0; 2 2].
/// assert!((condition(&a, norm, Backend::Auto, &Inline)? - 2.25).abs() < 1e-14);
/// factor(&a, Backend::Auto, &Inline)?;
/// assert!((condition(&a, norm, Backend::Auto, &Inline)? - 9.0).abs() < 1e-14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn condition<T: Scalar>(
    l: &TiledMatrix<T>,
    norm: f64,
    backend: Backend,
    on: &dyn Executor,
) -> Result<f64, LinalgError> {
    expect_lower(l)?;
    expect_norm(norm)?;
    if l.rows() == 0 {
        return Ok(1.0);
    }
    let column = Layout::general(l.rows(), 1, l.nb())?;
    let column = column.distributed(*l.distribution(), l.layout().rank())?;
    condition_number(l.rows(), norm, |_: Op, x: &mut [T]| {
        // A is its own adjoint.
        let entry = |row: usize, _: usize| x[row];
        let b = TiledMatrix::beside(column, l.memory(), &entry, on);
        let (b, _) = b.map_err(LinalgError::Run)?;
        solve(l, &b, backend, on)?;
        x.copy_from_slice(&entries(&b, on).map_err(LinalgError::Run)?);
        Ok::<_, LinalgError>(())
    })
}

/// The determinant of A from its factor, all tiles on this rank.
///
/// # Errors
/// If `l` is not stored as [`Structure::Lower`](crate::matrix::Structure), or a tile of it is not at hand.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::{cholesky, kernel::Backend};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Laplacian};
/// let laplacian = Laplacian { width: 6, height: 5 };
/// let a = TiledMatrix::<f64>::from_entries(Layout::lower(30, 8)?, &laplacian);
/// cholesky::factor(&a, Backend::Auto, &Inline)?;
/// let determinant = cholesky::determinant(&a)?;
/// assert!((determinant.log_abs - laplacian.log_det()).abs() < 1e-10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn determinant<T: Scalar>(l: &TiledMatrix<T>) -> Result<Determinant, LinalgError> {
    expect_lower(l)?;
    Ok(Determinant::of_triangle(diagonal_of(l)?).of_square())
}

/// How far each column of `x` is from the solution of A·X = B.
///
/// - `a`: A itself, stored as [`Structure::Lower`](crate::matrix::Structure); `l`: its factor
/// - `b`, `x`: laid out alike
///
/// 4n² flops and 4 or 5 solutions for each column; |A| is held beside A. Over ranks, too.
///
/// # Errors
/// If shapes or tile orders do not fit; what [`run_across`](dataflow_core::run_across) answers.
///
/// # Source
/// LAPACK's `porfs` without its corrections; see [`refine`].
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::{cholesky, kernel::Backend};
/// let entry = |i: usize, j: usize| [[4.0, 2.0], [2.0, 2.0]][i][j];
/// let (a, l) = (Layout::lower(2, 1)?, Layout::lower(2, 1)?);
/// let (a, l) = (TiledMatrix::from_fn(a, entry), TiledMatrix::from_fn(l, entry));
/// cholesky::factor(&l, Backend::Auto, &Inline)?;
/// let side = Layout::general(2, 1, 1)?;
/// let b = TiledMatrix::from_fn(side, |i, _| [6.0, 4.0][i]);
///
/// // The solution is (1, 1): this is 0.001 away from it, and corrected at once.
/// let x = TiledMatrix::from_fn(side, |i, _| [1.001, 1.0][i]);
/// let far = cholesky::error_bounds(&a, &l, (&b, &x), Backend::Auto, &Inline)?;
/// assert!((0.00099..0.01).contains(&far[0].forward) && far[0].backward > 1e-4);
/// let near = cholesky::improve(&a, &l, (&b, &x), Backend::Auto, &Inline)?;
/// assert!(near[0].forward < 1e-14 && near[0].backward < 1e-15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn error_bounds<T: Scalar>(
    a: &TiledMatrix<T>,
    l: &TiledMatrix<T>,
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    backend: Backend,
    on: &dyn Executor,
) -> Result<Vec<Bounds>, LinalgError> {
    // Before a value is looked at.
    substitution(l, b, backend)?;
    refine::bounds(a, (b, x), backend, on, &mut solver(l, backend, on))
}

/// Corrects `x` by its residual, at most 5 times and as long as that helps; then says how far it is
/// from the solution. Arguments and cost as [`error_bounds`].
///
/// # Errors
/// As [`error_bounds`]; if `x` is `b`.
///
/// # Source
/// LAPACK's `porfs`; see [`refine`].
pub fn improve<T: Scalar>(
    a: &TiledMatrix<T>,
    l: &TiledMatrix<T>,
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    backend: Backend,
    on: &dyn Executor,
) -> Result<Vec<Bounds>, LinalgError> {
    substitution(l, b, backend)?;
    refine::improve(a, (b, x), backend, on, &mut solver(l, backend, on))
}

/// Solves with A, which is its own adjoint.
fn solver<'a, T: Scalar>(
    l: &'a TiledMatrix<T>,
    backend: Backend,
    on: &'a dyn Executor,
) -> impl FnMut(Op, &TiledMatrix<T>) -> Result<Report, LinalgError> + 'a {
    move |_, b| solve(l, b, backend, on)
}
