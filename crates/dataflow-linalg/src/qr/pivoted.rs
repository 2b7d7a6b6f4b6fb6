//! QR with column pivoting: A·P = Q·R with the strongest columns first, the rank, and what follows
//! from both.
//!
//! # Law
//! A tall A becomes a triangle first, without pivoting: A = Q₁·S. The order of columns is then
//! [chosen](super::Choice) of the triangle (of a wide A, of A itself), and S·P factored as any other
//! matrix: S·P = Q₂·R. So Q = Q₁·Q₂, and all that is computed with Q and R is what other solutions
//! use.
//!
//! The rank is that of the largest leading triangle of R whose condition is below 1/rcond; what is
//! right of it and below is taken for zero: A·P ≈ Q·[R₁ R₂]. Where the rank is less than n,
//! [R₁ R₂] = L·Zᴴ is another factorisation, of the adjoint, and X = P·Z·L⁻¹·Qᴴ·B is the shortest of
//! all solutions.
//!
//! # Source
//! Golub and Van Loan, *Matrix Computations*, 4th ed., Johns Hopkins 2013, sections 5.4.7 and 5.5.2;
//! LAPACK's `gelsy`. The order: Demmel, Grigori, Gu, Xiang, *Communication avoiding rank revealing QR
//! factorization with column pivoting*, SIAM J. Matrix Anal. Appl. 36 (2015).

use super::apply::Apply;
use super::arrange::{Lines, arrange};
use super::factor::Factor;
use super::form::{form, triangle};
use super::leading::Found;
use super::least_squares::{Look, expect_fit, expect_solution, wide};
use super::reflectors::{Options, Reflectors, alike};
use super::solve::Solve;
use super::strongest::{Strongest, default_rcond, strongest_first};
use crate::error::LinalgError;
use crate::kernel::{Backend, Op, Side};
use crate::matrix::{Entries, TiledMatrix};
use crate::scalar::Scalar;
use crate::succession::joined;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use std::ops::Range;

/// A·P = Q·R, and the rank of A.
///
/// # Examples
/// See [`pivoted`].
#[derive(Debug)]
pub struct Pivoted<'a, T: Scalar> {
    /// A, overwritten by its factors if it is tall.
    a: &'a TiledMatrix<T>,
    /// Q₁, if A is tall.
    outer: Option<Reflectors<T>>,
    /// What became of S·P, and Q₂.
    inner: TiledMatrix<T>,
    q: Reflectors<T>,
    order: Vec<usize>,
    found: Found,
    report: Report,
}

/// Factors A with column pivoting; every rank calls it with its part.
///
/// - `a`: of any shape; overwritten by factors if it is higher than wide
/// - `rcond`: at least 0 and below 1; columns count as long as those before and they have a condition
///   below 1/rcond. [`default_rcond`] if none is given
///
/// The flops of [`factor`](super::factor()) for a tall A, and with k = min(m, n) about 5 times those
/// for k × n; up to four matrices of k × n beside A.
///
/// # Errors
/// The first entry that is not finite; [`LinalgError::Overflow`] with the first column of R that is not, in
/// the order of the columns of A·P; [`LinalgError::Argument`] for another rcond; a matrix that is not stored as
/// [`Structure::General`](crate::matrix::Structure::General).
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::qr::{Options, pivoted};
/// // The second column is twice the first.
/// let a = TiledMatrix::from_fn(Layout::general(3, 3, 2)?, |i, j| {
///     [[1.0, 2.0, 0.0], [1.0, 2.0, 3.0], [1.0, 2.0, 0.0]][i][j]
/// });
/// let factors = pivoted(&a, None, Options::of_order(2), Backend::Auto, &Inline)?;
/// assert_eq!((factors.rank(), factors.order()), (2, &[1, 2, 0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pivoted<'a, T: Scalar>(
    a: &'a TiledMatrix<T>,
    rcond: Option<f64>,
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Pivoted<'a, T>, LinalgError> {
    let outer = Reflectors::new(a.layout(), options);
    // Shapes are refused first.
    let factor = Factor::new(a, &outer, backend)?;
    let rcond = allowed(rcond, a)?;
    let mut reports = vec![a.scan(on)?];
    let is_tall = a.rows() > a.cols();
    if is_tall {
        reports.push(factor.run(on)?);
    }
    let strongest = match is_tall {
        true => strongest_first(&triangle(a, on)?, rcond, options, backend, on)?,
        false => strongest_first(a, rcond, options, backend, on)?,
    };
    let Strongest {
        matrix,
        reflectors,
        order,
        found,
        report,
    } = strongest;
    reports.push(report);
    Ok(Pivoted {
        a,
        outer: is_tall.then_some(outer),
        inner: matrix,
        q: reflectors,
        order,
        found,
        report: joined(reports),
    })
}

/// The rcond to take, if it is one.
fn allowed<T: Scalar>(rcond: Option<f64>, a: &TiledMatrix<T>) -> Result<f64, LinalgError> {
    match rcond {
        None => Ok(default_rcond::<T>(a.rows(), a.cols())),
        Some(rcond) if (0.0..1.0).contains(&rcond) => Ok(rcond),
        Some(rcond) => {
            let text = format!("rcond is {rcond} (must be at least 0 and less than 1)");
            Err(LinalgError::Argument(text))
        }
    }
}

impl<T: Scalar> Pivoted<'_, T> {
    /// How many columns are independent: the order of the largest leading triangle of R with a
    /// condition below 1/rcond.
    pub fn rank(&self) -> usize {
        self.found.rank
    }

    /// The condition of that triangle in the 2-norm, from estimates of its singular values; 0 for
    /// rank 0. Of a matrix of full rank it is that of A, estimated from below.
    pub fn condition(&self) -> f64 {
        match self.found.rank {
            0 => 0.0,
            _ => self.found.largest / self.found.smallest,
        }
    }

    /// P: column j of A·P is column `order()[j]` of A.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// What the graphs of the factorisation cost together.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// R with its zeros, min(m, n) × n; spread like A.
    ///
    /// # Errors
    /// If the run fails.
    pub fn r(&self, on: &dyn Executor) -> Result<TiledMatrix<T>, LinalgError> {
        triangle(&self.inner, on)
    }

    /// The first min(m, n) columns of Q; spread like A.
    ///
    /// # Errors
    /// If the run fails.
    pub fn q(&self, backend: Backend, on: &dyn Executor) -> Result<TiledMatrix<T>, LinalgError> {
        let k = self.inner.rows();
        let inner = form(&self.inner, &self.q, k, backend, on)?;
        let Some(outer) = &self.outer else {
            return Ok(inner);
        };
        let q = copy(&Corner(&inner), self.a, (self.a.rows(), k), on)?;
        let way = (Side::Left, Op::NoTranspose);
        let turn = Apply::new(self.a, outer, way, &q, backend)?;
        turn.run(on)?;
        Ok(q)
    }

    /// The shortest of the X that make ‖B − A·X‖ least, A of the rank that was found; and what that
    /// cost.
    ///
    /// - `b`: m × nrhs, in tiles of the order of `a` and spread like it; overwritten
    ///
    /// # Errors
    /// The first entry of B that is not finite, or a tile of it that is not at hand, on all ranks; shapes that
    /// do not fit, or B that is A; [`LinalgError::Overflow`] with the first column of X that is not finite;
    /// what [`run_across`](dataflow_core::run_across) answers.
    pub fn solve(
        &self,
        b: &TiledMatrix<T>,
        backend: Backend,
        on: &dyn Executor,
    ) -> Result<(TiledMatrix<T>, Report), LinalgError> {
        expect_fit(self.a, b)?;
        let look = b.scan(on).map_err(LinalgError::in_right_hand_sides)?;
        let (x, solved) = self.solve_finite(b, backend, on)?;
        Ok((x, joined([look, solved])))
    }

    /// The same for right-hand sides that are all there and finite: what copies them tells no other rank of
    /// a tile that is not.
    fn solve_finite(
        &self,
        b: &TiledMatrix<T>,
        backend: Backend,
        on: &dyn Executor,
    ) -> Result<(TiledMatrix<T>, Report), LinalgError> {
        let mut reports = Vec::new();
        if let Some(outer) = &self.outer {
            let way = (Side::Left, Op::ConjTranspose);
            reports.push(Apply::new(self.a, outer, way, b, backend)?.run(on)?);
        }
        let (x, solved) = self.solve_inner(b, backend, on)?;
        reports.push(solved);
        Ok((x, joined(reports)))
    }

    /// The same with S in place of A: of `b` the first rows are read, as many as S has.
    fn solve_inner(
        &self,
        b: &TiledMatrix<T>,
        backend: Backend,
        on: &dyn Executor,
    ) -> Result<(TiledMatrix<T>, Report), LinalgError> {
        let (k, n, nrhs) = (self.inner.rows(), self.a.cols(), b.cols());
        let c = copy(&Corner(b), b, (k, nrhs), on)?;
        let way = (Side::Left, Op::ConjTranspose);
        let turn = Apply::new(&self.inner, &self.q, way, &c, backend)?;
        let mut reports = vec![turn.run(on)?];
        let y = copy(&|_: usize, _: usize| T::zero(), b, (n, nrhs), on)?;
        if self.rank() == n {
            let solve = Solve::new(&self.inner, Op::NoTranspose, &c, &y, backend)?;
            reports.push(solve.run(on)?);
        } else if self.rank() > 0 {
            // [R₁ R₂]·Y = C, by the factors of the adjoint
            let r = triangle(&self.inner, on)?;
            let r = copy(&Corner(&r), &self.inner, (self.rank(), n), on)?;
            let c = copy(&Corner(&c), b, (self.rank(), nrhs), on)?;
            let options = self.q.options();
            reports.push(wide(&r, &c, &y, (options, backend), Look::Never, on)?);
        }
        let mut places = vec![0; n];
        let ordered = self.order.iter().enumerate();
        ordered.for_each(|(at, &column)| places[column] = at);
        let (x, moved) = arrange(&y, Lines::Rows, &places, on)?;
        reports.extend([moved, expect_solution(&x, on)?]);
        Ok((x, joined(reports)))
    }
}

/// The X of least length among those that make ‖B − A·X‖ least, whatever the shape and the rank of
/// A; its rank, and what all graphs cost together.
///
/// - `a`: m × n; overwritten by factors if m > n
/// - `b`: m × nrhs, in tiles of the order of `a` and spread like it; overwritten
/// - `rcond`: as for [`pivoted`]
///
/// Of a matrix of full rank X is that of [`least_squares`](super::least_squares()), but for rounding
/// errors. What rcond takes for zero changes the matrix by about rcond·‖A‖; near a gap of its singular
/// values the rank is not in doubt, elsewhere it is a choice.
///
/// # Errors
/// As [`pivoted`], and as [its solutions](Pivoted::solve).
///
/// # Source
/// LAPACK's `gelsy`; see the [factorisation](Pivoted).
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::qr::{Options, least_squares_minimum_norm};
/// // x + y = 1, three times: the shortest solution is (½, ½).
/// let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |_, _| 1.0);
/// let b = TiledMatrix::from_fn(Layout::general(3, 1, 2)?, |_, _| 1.0);
/// let options = Options::of_order(2);
/// let (x, rank, _) = least_squares_minimum_norm(&a, &b, None, options, Backend::Auto, &Inline)?;
/// assert_eq!(rank, 1);
/// assert!((0..2).all(|i| (x.get(i, 0).unwrap() - 0.5_f64).abs() < 1e-14));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn least_squares_minimum_norm<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    rcond: Option<f64>,
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, usize, Report), LinalgError> {
    expect_fit(a, b)?;
    let rcond = allowed(rcond, a)?;
    let look = b.scan(on).map_err(LinalgError::in_right_hand_sides)?;
    let factors = pivoted(a, Some(rcond), options, backend, on)?;
    let (x, solved) = factors.solve_finite(b, backend, on)?;
    let rank = factors.rank();
    Ok((x, rank, joined([look, factors.report, solved])))
}

/// A⁺, the pseudo-inverse of A (Moore and Penrose), n × m and spread like A; the rank that was found,
/// and what all graphs cost together. For A of full rank A⁺·A or A·A⁺ is the unit matrix.
///
/// Arguments and errors are those of [`least_squares_minimum_norm`]. The shortest solutions for all unit
/// vectors of the triangle, times Q₁ᴴ of a tall A. With k = min(m, n), beside the factorisation about
/// 4·m·n·k flops, A⁺ and up to five matrices of n × k.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::qr::{Options, pseudo_inverse};
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 2)?, |i, _| [2.0, 0.0][i]);
/// let (inverse, rank, _) = pseudo_inverse(&a, None, Options::of_order(2), Backend::Auto, &Inline)?;
/// assert_eq!(rank, 1);
/// let expected = [[0.25, 0.0], [0.25, 0.0]];
/// let off = |i: usize, j: usize| (inverse.get(i, j).unwrap() - expected[i][j] as f64).abs();
/// assert!((0..4).all(|at| off(at / 2, at % 2) < 1e-15));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pseudo_inverse<T: Scalar>(
    a: &TiledMatrix<T>,
    rcond: Option<f64>,
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, usize, Report), LinalgError> {
    let factors = pivoted(a, rcond, options, backend, on)?;
    let (m, n) = (a.rows(), a.cols());
    let one = |row: usize, col: usize| if row == col { T::one() } else { T::zero() };
    let unit = copy(&one, a, (m.min(n), m.min(n)), on)?;
    let (mut inverse, solved) = factors.solve_inner(&unit, backend, on)?;
    let rank = factors.rank();
    let mut reports = vec![solved];
    if let Some(outer) = &factors.outer {
        // A⁺ = [S⁺ 0]·Q₁ᴴ
        inverse = copy(&Corner(&inverse), a, (n, m), on)?;
        let way = (Side::Right, Op::ConjTranspose);
        reports.push(Apply::new(a, outer, way, &inverse, backend)?.run(on)?);
        reports.push(expect_solution(&inverse, on)?);
    }
    reports.push(factors.report);
    Ok((inverse, rank, joined(reports)))
}

/// A matrix of another shape that is cut and spread like one, with entries of which each rank knows
/// its own.
fn copy<T: Scalar>(
    entries: &impl Entries<T>,
    like: &TiledMatrix<T>,
    shape: (usize, usize),
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let copy = TiledMatrix::beside(alike(like.layout(), shape)?, like.memory(), entries, on);
    Ok(copy.map_err(LinalgError::Run)?.0)
}

/// A matrix, and zeros below and right of it. Whatever is cut and spread like the matrix has its
/// tiles where the matrix has them.
struct Corner<'a, T: Scalar>(&'a TiledMatrix<T>);

impl<T: Scalar> Entries<T> for Corner<'_, T> {
    fn entry(&self, row: usize, col: usize) -> T {
        match row < self.0.rows() && col < self.0.cols() {
            true => self.0.entry(row, col),
            false => T::zero(),
        }
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        if col >= self.0.cols() {
            return into.fill(T::zero());
        }
        let height = rows.end.min(self.0.rows()).saturating_sub(rows.start);
        let (above, below) = into.split_at_mut(height);
        self.0.column(rows.start..rows.start + height, col, above);
        below.fill(T::zero());
    }
}
