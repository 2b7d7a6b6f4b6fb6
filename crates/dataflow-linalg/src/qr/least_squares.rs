//! Least squares: the X that makes ‖B − A·X‖ least, and of several the shortest.
//!
//! # Law
//! A tall A is factored, and R·X = Qᴴ·B solved. Of a wide one the adjoint is: Aᴴ = Q·R makes
//! A = Rᴴ·Qᴴ, the LQ factorisation, and X = Q·R⁻ᴴ·B. A must have full rank, as for LAPACK's `gels`;
//! but unlike there that is looked at. A column of R (of a wide matrix: a row of A) over its length
//! must not be a combination of those before it but for rounding errors: the condition of R with
//! columns of length 1 must be below 1/(2ε·√max(m, n)). So the units of columns do not matter, and a
//! matrix that is ill conditioned but not lost to rounding errors is solved.
//!
//! All of this is one graph: what follows a factor, the look at the rank among it, begins with its first
//! tiles.
//!
//! # Elsewhere
//! Whatever the rank: [`least_squares_minimum_norm`](super::least_squares_minimum_norm).

use super::adjoint::{Adjoint, room};
use super::apply::Apply;
use super::factor::Factor;
use super::leading::{Compare, Found, Leading, is_clearly_regular, leading_of_tile};
use super::reflectors::{Options, Reflectors, alike};
use super::solve::Solve;
use super::strongest::{default_rcond, rank_of_triangle};
use crate::error::LinalgError;
use crate::kernel::{Backend, Op, Side};
use crate::matrix::{Regular, Structure, Tile, TiledMatrix, expect_two};
use crate::scalar::Scalar;
use crate::succession::{joined, run_series};
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::space::Erased;
use std::sync::OnceLock;

/// The least-squares solution of A·X = B for m ≥ n, the shortest solution for m < n; and what all
/// graphs cost together.
///
/// - `a`: m × n; overwritten by its factors if m ≥ n
/// - `b`: m × nrhs, in tiles of the order of `a` and spread like it; overwritten, for m > n its
///   rows from n on by the rest that no X removes
///
/// 2·n²·(m − n/3) flops and 4·m·n for each column; for m < n with both exchanged, and a second
/// matrix. For m < n copies a tile of X that Q is applied to before all have read it: none where tasks run
/// in the order of their priorities.
///
/// # Errors
/// The first entry of A or B that is not finite; shapes that do not fit, or B that is A;
/// [`LinalgError::RankDeficient`] with the rank that QR with column pivoting finds, which is run for
/// that alone; [`LinalgError::Overflow`] with the first column of R or of X that is not finite.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::qr::{Options, least_squares};
/// // The line nearest to (0, 1), (1, 2), (2, 6)
/// let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| [1.0, i as f64][j]);
/// let b = TiledMatrix::from_fn(Layout::general(3, 1, 2)?, |i, _| [1.0, 2.0, 6.0][i]);
/// let (x, _) = least_squares(&a, &b, Options::of_order(2), Backend::Auto, &Inline)?;
/// assert!((x.get(0, 0).unwrap() - 0.5).abs() < 1e-14);
/// assert!((x.get(1, 0).unwrap() - 2.5).abs() < 1e-14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn least_squares<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    expect_fit(a, b)?;
    let looks = [
        a.scan(on)?,
        b.scan(on).map_err(LinalgError::in_right_hand_sides)?,
    ];
    let solution = alike(b.layout(), (a.cols(), b.cols()))?;
    let zeros = TiledMatrix::<T>::beside(solution, b.memory(), &|_, _| T::zero(), on);
    let (x, fill) = zeros.map_err(LinalgError::Run)?;
    let run = match a.rows() >= a.cols() {
        true => {
            let q = Reflectors::new(a.layout(), options);
            Factor::new(a, &q, backend)?.and_least_squares(b, &x, on)?
        }
        false => wide(a, b, &x, (options, backend), Look::First, on)?,
    };
    let last = expect_solution(&x, on)?;
    Ok((x, joined(looks.into_iter().chain([fill, run, last]))))
}

/// Looks whether a solution is finite, which products with Q, of right-hand sides near the largest number,
/// need not be; every rank calls it with its part.
///
/// # Errors
/// [`LinalgError::Overflow`] with the first column that is not; what
/// [`run_across`](dataflow_core::run_across) answers.
pub(super) fn expect_solution<T: Scalar>(
    x: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    x.scan(on).map_err(LinalgError::in_result)
}

/// Fails unless A and B are two matrices, both stored whole, and B has the rows and the tile order of A and
/// is on as many ranks.
pub(super) fn expect_fit<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
) -> Result<(), LinalgError> {
    if (b.rows(), b.nb()) == (a.rows(), a.nb())
        && [a.structure(), b.structure()] == [Structure::General; 2]
        && b.distribution().n_ranks() == a.distribution().n_ranks()
    {
        return expect_two(("A", a), ("B", b));
    }
    let (of_a, of_b) = (a.laid_out(), b.laid_out());
    let text = format!(
        "right-hand sides{of_b} do not fit a matrix{of_a} (both must be General, with as many rows, in tiles of \
         one order and on as many ranks)"
    );
    Err(LinalgError::Shape(text))
}

/// Looks whether all columns of R are independent: whether R with columns of length 1 has a condition
/// of at most 1/(2ε·√max(m, n)); every rank calls it with its part.
///
/// - `r`: a factored matrix, m ≥ n, or its triangle
///
/// 4·n² flops; where the rank is not full, a [factorisation with pivoting](super::pivoted()) of R.
///
/// # Errors
/// [`LinalgError::RankDeficient`] with the rank; what [`run_across`](dataflow_core::run_across)
/// answers.
pub fn expect_full_rank<T: Scalar>(
    r: &TiledMatrix<T>,
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    expect_independent(r, (r.rows(), r.cols()), options, backend, on)
}

/// The same for the triangle alone of a matrix of m × n.
pub(super) fn expect_independent<T: Scalar>(
    r: &TiledMatrix<T>,
    (m, n): (usize, usize),
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let found = OnceLock::new();
    let space = independent(r, (m, n), &found);
    let report = space.run(on)?;
    expect_all(&found, (r, r.name()), (m, n), options, backend, on)?;
    Ok(report)
}

/// The look whether columns of R, of a matrix of m × n, are independent.
fn independent<'a, T: Scalar>(
    r: &'a TiledMatrix<T>,
    (m, n): (usize, usize),
    found: &'a OnceLock<Found>,
) -> Leading<'a, T> {
    Leading::new(r, (Compare::ByDirection, rounding::<T>(m, n)), found)
}

/// Fails unless all columns of R, of a matrix of m × n and of that name, were found to be independent.
fn expect_all<T: Scalar>(
    found: &OnceLock<Found>,
    (r, name): (&TiledMatrix<T>, Option<&str>),
    (m, n): (usize, usize),
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(), LinalgError> {
    // A run that ended well has told every rank.
    if found.get().is_some_and(|found| found.rank == n) {
        return Ok(());
    }
    let rcond = default_rcond::<T>(m, n);
    let rank = rank_of_triangle(r, rcond, options, backend, on)?;
    Err(LinalgError::RankDeficient {
        rank: rank.min(n - 1) as u64,
        full: n as u64,
        matrix: name.map(str::to_owned),
    })
}

/// Whether all columns of R are independent, as [`expect_full_rank`] looks at it, if R is one tile,
/// m ≥ n: without a graph, and without the rank.
pub(crate) fn has_full_rank<T: Scalar>(r: &Tile<T>) -> bool {
    let tolerance = rounding::<T>(r.rows(), r.cols());
    is_clearly_regular(r, tolerance)
        || leading_of_tile(r, (Compare::ByDirection, tolerance)).rank == r.cols()
}

/// What rounding errors leave of a column that depends on others, over its length.
fn rounding<T: Scalar>(m: usize, n: usize) -> f64 {
    2.0 * T::EPSILON * (m.max(n) as f64).sqrt()
}

/// Whether the rank is known to be full.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It is not.
    First,
    /// It is.
    Never,
}

/// Solves with factors that are kept, whose columns are independent, as one graph: X ← R⁻¹·Qᴴ·B, the
/// nearest solution, of a tall A; X ← Q·R⁻ᴴ·B, the shortest, if A is the adjoint of what was factored. What
/// that cost.
///
/// - `factors`: what [`factor`](super::factor()) left and returned, m ≥ n
/// - `op`: [`Op::NoTranspose`], or [`Op::ConjTranspose`] for the shortest solution
/// - `b`: overwritten
/// - `x`: zeros; overwritten by the solution
///
/// # Errors
/// If the shapes, tile orders or grids do not fit, or two of the matrices are one; [`LinalgError::Overflow`]
/// with the first column of X that is not finite; if the run fails.
pub fn solve<T: Scalar>(
    factors: (&TiledMatrix<T>, &Reflectors<T>),
    op: Op,
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let run = run(factors, op, (b, x), backend, on)?;
    Ok(joined([run, expect_solution(x, on)?]))
}

/// The same, finite or not.
pub(super) fn run<T: Scalar>(
    (a, q): (&TiledMatrix<T>, &Reflectors<T>),
    op: Op,
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let solve = Solve::new(a, op, b, x, backend)?;
    let run = match op {
        Op::NoTranspose => {
            let turn = Apply::new(a, q, (Side::Left, Op::ConjTranspose), b, backend)?;
            run_series([turn.erased(), solve.erased()], &[a, b, x], on)
        }
        Op::Transpose | Op::ConjTranspose => {
            let turn = Apply::new(a, q, (Side::Left, Op::NoTranspose), x, backend)?;
            run_series([solve.erased(), turn.erased()], &[a, b, x], on)
        }
    };
    run.map_err(|error| a.failed(error))
}

impl<T: Scalar> Factor<'_, T> {
    /// Runs the factorisation of a matrix with m ≥ n and, as one graph with it, the solution
    /// X = R⁻¹·Qᴴ·B; every rank calls it with its parts. Does not look for entries that are not finite.
    ///
    /// - `b`: m × nrhs; overwritten
    /// - `x`: n × nrhs zeros; overwritten by the solution
    ///
    /// # Errors
    /// Of a square matrix [`LinalgError::Singular`] if R has a zero on its diagonal, of others
    /// [`LinalgError::RankDeficient`]; [`LinalgError::Overflow`] with the first column of R or of X that is
    /// not finite; shapes, tile orders or grids that do not fit, or two of the matrices that are one; what
    /// [`run_across`](dataflow_core::run_across) answers.
    pub fn and_solve(
        &self,
        b: &TiledMatrix<T>,
        x: &TiledMatrix<T>,
        on: &dyn Executor,
    ) -> Result<Report, LinalgError> {
        let run = match self.a.rows() > self.a.cols() {
            true => self.and_least_squares(b, x, on)?,
            false => {
                let run = self.stages((b, x), |all| run_series(all, &[self.a, b, x], on))?;
                run.map_err(|error| self.a.failed(error))?
            }
        };
        Ok(joined([run, expect_solution(x, on)?]))
    }

    /// The graphs of which [`and_solve`](Self::and_solve) makes one, in their order: to be
    /// [counted](crate::weight), for instance. Answers what `hear` does.
    ///
    /// # Errors
    /// If shapes, tile orders or grids do not fit.
    pub fn stages<R>(
        &self,
        sides: (&TiledMatrix<T>, &TiledMatrix<T>),
        hear: impl FnOnce(Vec<Erased<'_, Tile<T>>>) -> R,
    ) -> Result<R, LinalgError> {
        if self.a.rows() > self.a.cols() {
            let found = OnceLock::new();
            return self.looked_at(self.independent(&found).erased(), sides, hear);
        }
        let look = Regular::new(self.a);
        self.looked_at(look.erased(), sides, hear)
    }

    /// The same for a matrix that must have full rank, square or not; X is not looked at.
    fn and_least_squares(
        &self,
        b: &TiledMatrix<T>,
        x: &TiledMatrix<T>,
        on: &dyn Executor,
    ) -> Result<Report, LinalgError> {
        let (a, found) = (self.a, OnceLock::new());
        let look = self.independent(&found).telling_all(on);
        let run = self.looked_at(look.erased(), (b, x), |all| run_series(all, &[a, b, x], on))?;
        let report = run.map_err(|error| a.failed(error))?;
        let shape = (a.rows(), a.cols());
        let named = (a, a.name());
        expect_all(&found, named, shape, self.q.options(), self.backend, on)?;
        Ok(report)
    }

    /// The look whether all columns of A are independent.
    fn independent<'f>(&'f self, found: &'f OnceLock<Found>) -> Leading<'f, T> {
        independent(self.a, (self.a.rows(), self.a.cols()), found)
    }

    /// The factorisation, a look at its diagonal, and the solution.
    fn looked_at<R>(
        &self,
        look: Erased<'_, Tile<T>>,
        (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
        hear: impl FnOnce(Vec<Erased<'_, Tile<T>>>) -> R,
    ) -> Result<R, LinalgError> {
        let way = (Side::Left, Op::ConjTranspose);
        let turn = Apply::new(self.a, self.q, way, b, self.backend)?;
        let solve = Solve::new(self.a, Op::NoTranspose, b, x, self.backend)?;
        let all = vec![self.erased(), look, turn.erased(), solve.erased()];
        Ok(hear(all))
    }
}

/// The graphs of which [`least_squares`] makes one, in their order: to be [counted](crate::weight), for
/// instance. `x` is what becomes the solution. Answers what `hear` does.
///
/// # Errors
/// If shapes, tile orders or grids do not fit.
pub fn least_squares_stages<T: Scalar, R>(
    a: &TiledMatrix<T>,
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    (options, backend): (Options, Backend),
    hear: impl FnOnce(Vec<Erased<'_, Tile<T>>>) -> R,
) -> Result<R, LinalgError> {
    expect_fit(a, b)?;
    let found = OnceLock::new();
    if a.rows() >= a.cols() {
        let q = Reflectors::new(a.layout(), options);
        let factor = Factor::new(a, &q, backend)?;
        return factor.looked_at(factor.independent(&found).erased(), (b, x), hear);
    }
    let adjoint = room(a)?;
    let look = independent(&adjoint, (a.cols(), a.rows()), &found);
    wide_stages((a, &adjoint), (b, x), (options, backend), Some(look), hear)
}

/// Aᴴ = Q·R, Rᴴ·Y = B, X = Q·Y
pub(super) fn wide<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    x: &TiledMatrix<T>,
    (options, backend): (Options, Backend),
    look: Look,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let (adjoint, found) = (room(a)?, OnceLock::new());
    let shape = (adjoint.rows(), adjoint.cols());
    let leading = independent(&adjoint, shape, &found).telling_all(on);
    let run = wide_stages(
        (a, &adjoint),
        (b, x),
        (options, backend),
        (look == Look::First).then_some(leading),
        |all| run_series(all, &[a, b, x], on),
    )?;
    let report = run.map_err(|error| a.failed(error))?;
    if look == Look::First {
        expect_all(&found, (&adjoint, a.name()), shape, options, backend, on)?;
    }
    Ok(report)
}

/// The graphs of that, with room for Aᴴ.
fn wide_stages<T: Scalar, R>(
    (a, adjoint): (&TiledMatrix<T>, &TiledMatrix<T>),
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    (options, backend): (Options, Backend),
    look: Option<Leading<'_, T>>,
    hear: impl FnOnce(Vec<Erased<'_, Tile<T>>>) -> R,
) -> Result<R, LinalgError> {
    let make = Adjoint::new(a, adjoint)?;
    let q = Reflectors::new(adjoint.layout(), options);
    let factor = Factor::new(adjoint, &q, backend)?;
    let solve = Solve::new(adjoint, Op::ConjTranspose, b, x, backend)?;
    let turn = Apply::new(adjoint, &q, (Side::Left, Op::NoTranspose), x, backend)?;
    let mut all = vec![make.erased(), factor.erased()];
    all.extend(look.as_ref().map(Leading::erased));
    all.extend([solve.erased(), turn.erased()]);
    Ok(hear(all))
}
