//! A·X = B in mixed precision: factored in the lower one, corrected in the full one.
//!
//! # Law
//! LAPACK's rules. The factors of A rounded to [`Scalar::Lower`] give a first X and, from the residual
//! R = B − A·X in full precision, up to 30 corrections. It is done when in every column
//! ‖r‖_∞ ≤ ‖x‖_∞·‖A‖_∞·ε·√n; a NaN is never done, nor is (unlike LAPACK's) what is infinite. Where the
//! lower precision does not do, A is factored in the full one, as if nothing had been tried.

use super::entrywise::{by_columns, combine, expect_system, lower, lowered, mapped, raised, rest};
use crate::cholesky;
use crate::error::LinalgError;
use crate::kernel::{Backend, Op};
use crate::lu::{self, Pivots};
use crate::matrix::norm::{Norm, infinity_norm, norm, peaks};
use crate::matrix::{Structure, TiledMatrix, expect_two};
use crate::product::Operand;
use crate::scalar::{Scalar, power_of_two, smallest_normal};
use crate::succession::joined;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use std::fmt;

/// LAPACK's ITERMAX.
const MOST_CORRECTIONS: u32 = 30;

/// A solution, how it was found, and the factors that it was found with.
///
/// # Examples
/// See [`solve`](solve()#examples).
#[derive(Debug)]
#[non_exhaustive]
pub struct Mixed<T: Scalar> {
    /// The solution, laid out like B.
    pub x: TiledMatrix<T>,
    /// What happened.
    pub outcome: Refinement,
    /// For further solutions, or the condition.
    pub factors: Factors<T>,
    /// What all graphs cost together.
    pub report: Report,
}

/// Whether the lower precision did.
///
/// # Examples
/// See [`solve`](solve()#examples).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refinement {
    /// X has the accuracy of the full precision; A is as it was.
    Refined {
        /// How often X was corrected.
        corrections: u32,
    },
    /// X comes from factors in full precision, which A was overwritten by.
    FellBack(FallbackCause),
}

/// Why the lower precision did not do.
///
/// # Examples
/// No f32 is as large as the entries of this matrix, so it is factored in f64:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::refine::{Refinement, solve};
///
/// let entries = [[2e300, 0.0], [0.0, 4e300]];
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 2)?, |i, j| entries[i][j]);
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 2)?, |_, _| 2e300);
/// let solved = solve(&a, &b, Backend::Auto, &Inline)?;
/// assert_eq!(solved.x.to_column_major()?, [1.0, 0.5]);
/// let Refinement::FellBack(cause) = solved.outcome else { panic!("{}", solved.outcome) };
/// assert_eq!((cause.name(), cause.to_string().as_str()), ("overflow", "the lower one does not hold an entry"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FallbackCause {
    /// It does not hold an entry of A, of B, of a factor or of a residual.
    Overflow,
    /// There is no factor in it: the matrix, once rounded, is not definite, or singular.
    NoFactor(LinalgError),
    /// After 30 corrections the residual was still too large.
    NotConverged,
}

impl Refinement {
    /// LAPACK's ITER: the number of corrections, or −2, −3 and −31 for the three causes.
    pub fn lapack_iter(&self) -> i32 {
        match self {
            Refinement::Refined { corrections } => *corrections as i32,
            Refinement::FellBack(FallbackCause::Overflow) => -2,
            Refinement::FellBack(FallbackCause::NoFactor(_)) => -3,
            Refinement::FellBack(FallbackCause::NotConverged) => -1 - MOST_CORRECTIONS as i32,
        }
    }
}

impl FallbackCause {
    /// The cause in snake_case, as `--json` shows it.
    pub fn name(&self) -> &'static str {
        match self {
            FallbackCause::Overflow => "overflow",
            FallbackCause::NoFactor(_) => "no_factor",
            FallbackCause::NotConverged => "not_converged",
        }
    }
}

impl fmt::Display for Refinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refinement::Refined { corrections: 1 } => f.write_str("refined in 1 correction"),
            Refinement::Refined { corrections } => {
                write!(f, "refined in {corrections} corrections")
            }
            Refinement::FellBack(cause) => write!(f, "fell back to full precision: {cause}"),
        }
    }
}

impl fmt::Display for FallbackCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FallbackCause::Overflow => f.write_str("the lower one does not hold an entry"),
            FallbackCause::NoFactor(error) => write!(f, "in the lower one {error}"),
            FallbackCause::NotConverged => {
                write!(f, "not converged after {MOST_CORRECTIONS} corrections")
            }
        }
    }
}

/// The factors that a solution was found with.
///
/// # Examples
/// A second right-hand side for the factors of a first one:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::{Backend, Op};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Laplacian};
/// use dataflow_linalg::refine::{self, Factors};
/// let a = TiledMatrix::from_entries(Layout::lower(30, 8)?, &Laplacian { width: 6, height: 5 });
/// let b = TiledMatrix::from_fn(Layout::general(30, 1, 8)?, |_, _| 1.0);
/// let solved = refine::solve(&a, &b, Backend::Auto, &Inline)?;
/// assert!(matches!(solved.factors, Factors::Lower(..)));
///
/// let x = TiledMatrix::from_fn(Layout::general(30, 1, 8)?, |i, _| [3.0, 0.0][i.min(1)]);
/// solved.factors.solve(&a, Op::NoTranspose, &x, Backend::Auto, &Inline)?;
/// let at = |i| x.get(i, 0).unwrap();
/// assert!((4.0 * at(0) - at(1) - at(6) - 3.0_f64).abs() < 1e-14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum Factors<T: Scalar> {
    /// Of A rounded to the lower precision.
    Lower(TiledMatrix<T::Lower>, Option<Pivots<T::Lower>>),
    /// A holds its factors itself; of LU these are the row swaps.
    Full(Option<Pivots<T>>),
}

impl<T: Scalar> Factors<T> {
    /// Overwrites `b` by the solution X of op(A)·X = B in the accuracy of `T`: with factors in the lower
    /// precision it is corrected as the first one was, but each column is scaled by a power of two to the
    /// size of the matrix on its way through them, so that right-hand sides may be of any size.
    ///
    /// - `a`: the matrix that was solved with; another that is laid out alike cannot be told from it, and B
    ///   is lost with the factors of the one and the entries of the other
    ///
    /// # Errors
    /// The first entry of B that is not finite, and that the factors are of a matrix of another shape, cut or
    /// spread: B is as it was; those of solutions by [`cholesky`] and [`lu`]; [`LinalgError::NotConverged`]
    /// if 30 corrections do not do, [`LinalgError::Overflow`] if a solution or its residual is not finite. The
    /// plain transpose of a complex Hermitian matrix is refused.
    pub fn solve(
        &self,
        a: &TiledMatrix<T>,
        op: Op,
        b: &TiledMatrix<T>,
        backend: Backend,
        on: &dyn Executor,
    ) -> Result<Report, LinalgError> {
        match self {
            Factors::Full(pivots) => {
                expect_fit(a, b)?;
                let look = b.scan(on).map_err(LinalgError::in_right_hand_sides)?;
                let solved = solve_with((a, pivots.as_ref()), op, b, backend, on)?;
                Ok(joined([look, solved]))
            }
            Factors::Lower(factors, pivots) => {
                let with = (factors, pivots.as_ref());
                refined_with(with, (a, op), b, backend, on)
            }
        }
    }
}

/// Overwrites `b` by the solution X of op(A)·X = B with factors of A in the lower precision, corrected
/// from X = 0 on.
fn refined_with<T: Scalar>(
    with: LowerFactors<'_, T>,
    (a, op): (&TiledMatrix<T>, Op),
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let (operand, which) = match op {
        Op::NoTranspose => (Operand::plain(a), Norm::Infinity),
        Op::Transpose => (Operand::transposed(a), Norm::One),
        Op::ConjTranspose => (Operand::adjoint(a), Norm::One),
    };
    // Before B is overwritten.
    expect_factors_of(a, with)?;
    expect_fit(a, b)?;
    expect_op::<T>(op, with.1.is_some())?;
    let look = b.scan(on).map_err(LinalgError::in_right_hand_sides)?;
    let norm = norm(a, which, on).map_err(LinalgError::Run)?;
    let tolerance = norm * T::EPSILON * (a.rows() as f64).sqrt();
    // Of the smallest numbers there are, a unit for each entry of X and for each product and sum: no
    // correction makes a residual smaller.
    let unit = 2.0 * T::EPSILON * smallest_normal::<T>();
    let spare = (norm + a.rows() as f64 + 1.0) * unit;
    let (side, copy) = mapped("copy", b, on, |x: T| x)?;
    let (mut left, again) = mapped("copy", b, on, |x: T| x)?;
    let clear = by_columns("clear", b, on, |_, _| T::zero())?;
    let mut reports = vec![look, copy, again, clear];
    for corrections in 0.. {
        let (columns, cost) = sizes(b, &left, on)?;
        reports.extend(cost);
        let is_lost = |(x, rest): &(f64, f64)| !(x.is_finite() && rest.is_finite());
        if let Some(col) = columns.iter().position(is_lost) {
            return Err(LinalgError::overflow_in(col));
        }
        // X = 0 is no solution that was tried.
        let spare = if corrections == 0 { 0.0 } else { spare };
        if are_done(&columns, tolerance, spare) {
            return Ok(joined(reports));
        }
        if corrections > MOST_CORRECTIONS {
            break;
        }
        reports.extend(correct(b, &left, (with, op, norm), backend, on)?);
        let (rest, cost) = rest(operand, &side, b, backend, on)?;
        reports.extend(cost);
        left = rest;
    }
    Err(LinalgError::NotConverged {
        corrections: MOST_CORRECTIONS,
    })
}

/// Factors in the lower precision, and of LU the row swaps.
type LowerFactors<'a, T> = (
    &'a TiledMatrix<<T as Scalar>::Lower>,
    Option<&'a Pivots<<T as Scalar>::Lower>>,
);

/// X ← X + 2ᵉ·op(A)⁻¹·(R/2ᵉ), with another e for each column of R; `norm` is that of op(A).
fn correct<T: Scalar>(
    x: &TiledMatrix<T>,
    left: &TiledMatrix<T>,
    (with, op, norm): (LowerFactors<'_, T>, Op, f64),
    backend: Backend,
    on: &dyn Executor,
) -> Result<[Report; 7], LinalgError> {
    let (sizes, measure) = peaks(left, on).map_err(LinalgError::Run)?;
    let down = by_columns("shrink", left, on, |x, col| {
        let by = divisor(sizes[col], norm);
        T::from_parts(x.re() / by, x.im() / by)
    })?;
    let (low, lower) = mapped("lower", left, on, lower::<T>)?;
    let solved = solve_with(with, op, &low, backend, on)?;
    let (correction, raise) = mapped("raise", &low, on, raised::<T>)?;
    let up = by_columns("grow", &correction, on, |x, col| {
        let by = divisor(sizes[col], norm);
        T::from_parts(x.re() * by, x.im() * by)
    })?;
    let correct = combine("correct", x, &correction, on, |x, y| x + y)?;
    Ok([measure, down, lower, solved, raise, up, correct])
}

/// What a column of this size is divided by on its way through factors of a matrix of norm `norm`: a power
/// of two, after which it is as large as the matrix, so that its solution is as large as the condition at
/// most. Beyond 10^±30 the lower precision has too little room above or below.
fn divisor(size: f64, norm: f64) -> f64 {
    /// The largest power of two that is a number: 2¹⁰²³.
    const LARGEST: f64 = 2.0 / f64::MIN_POSITIVE;
    let by = power_of_two(size) / power_of_two(norm.clamp(1e-30, 1e30));
    by.clamp(f64::MIN_POSITIVE, LARGEST)
}

/// Refuses factors in the lower precision of a matrix of another shape, cut or spread.
fn expect_factors_of<T: Scalar>(
    a: &TiledMatrix<T>,
    (factors, pivots): LowerFactors<'_, T>,
) -> Result<(), LinalgError> {
    let of_a = a.layout().with_format(factors.format());
    match (a.structure(), pivots) {
        (Structure::General, Some(pivots)) if *factors.layout() == of_a => {
            pivots.expect_of(factors)
        }
        (Structure::Lower, None) if *factors.layout() == of_a => Ok(()),
        _ => Err(LinalgError::Shape(format!(
            "factors{} do not fit a matrix{}, or their row swaps do not",
            factors.laid_out(),
            a.laid_out()
        ))),
    }
}

/// Refuses right-hand sides that A, or its factors, cannot be solved for.
fn expect_fit<T: Scalar>(a: &TiledMatrix<T>, b: &TiledMatrix<T>) -> Result<(), LinalgError> {
    expect_system(a, &[b])?;
    expect_two(("A", a), ("B", b))?;
    let (of_a, of_b) = (a.distribution(), b.distribution());
    if a.structure() == Structure::Lower || of_a == of_b {
        return Ok(());
    }
    let text = format!(
        "right-hand sides{} on {of_b} do not fit a matrix{} on {of_a}: LU takes both spread alike",
        b.label(),
        a.label()
    );
    Err(LinalgError::Shape(text))
}

/// The largest entry of each column of X, and of its residual.
type ColumnPeaks = Vec<(f64, f64)>;

/// The largest entries of all columns; the same on every rank.
fn sizes<T: Scalar>(
    x: &TiledMatrix<T>,
    rest: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(ColumnPeaks, [Report; 2]), LinalgError> {
    let peaks = |a| peaks(a, on).map_err(LinalgError::Run);
    let ((of_x, first), (of_rest, second)) = (peaks(x)?, peaks(rest)?);
    Ok((of_x.into_iter().zip(of_rest).collect(), [first, second]))
}

/// Whether every column's residual is small enough for its solution, or below `spare`, both being finite.
fn are_done(columns: &[(f64, f64)], tolerance: f64, spare: f64) -> bool {
    let is_done = |&(x, rest): &(f64, f64)| {
        x.is_finite() && rest.is_finite() && rest <= x * tolerance + spare
    };
    columns.iter().all(is_done)
}

/// The solution of A·X = B by factors in [`Scalar::Lower`], refined to the accuracy of `T`; by factors in
/// `T` where that does not do. LAPACK's `dsposv` and `dsgesv`, `zcposv` and `zcgesv`.
///
/// - `a`: by Cholesky if it is stored as [`Structure::Lower`], by LU otherwise; as it was if X was
///   refined, else overwritten by its factors
/// - `b`: in tiles of the order of `a` and, for LU, spread like it; as it was
///
/// n³/3 or 2n³/3 flops in the lower precision; for each correction 2n² in each of the two for each
/// column. Beside A its rounded copy is held. Of `f32` and `c32`, which have no lower precision here, it
/// is refinement in the same one.
///
/// # Errors
/// The first entry of A or B that is not finite; shapes that do not fit, or B that is A; that there is no
/// factor in full precision: [`LinalgError::NotPositiveDefinite`] or [`LinalgError::Singular`]; and what
/// [`run_across`](dataflow_core::run_across) answers.
///
/// # Source
/// LAPACK's `dsposv` and `dsgesv`.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Laplacian};
/// use dataflow_linalg::refine;
/// let laplacian = Laplacian { width: 6, height: 5 };
/// let a = TiledMatrix::<f64>::from_entries(Layout::lower(30, 8)?, &laplacian);
/// let b = TiledMatrix::from_fn(Layout::general(30, 1, 8)?, |_, _| 1.0);
/// let solved = refine::solve(&a, &b, Backend::Auto, &Inline)?;
/// assert!(solved.outcome.lapack_iter() > 0, "{}", solved.outcome);    // refined
/// let x = |i| solved.x.get(i, 0).unwrap();
/// assert!((4.0 * x(0) - x(1) - x(6) - 1.0).abs() < 1e-14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Mixed<T>, LinalgError> {
    expect_fit(a, b)?;
    let looks = vec![
        a.scan(on)?,
        b.scan(on).map_err(LinalgError::in_right_hand_sides)?,
    ];
    let mut attempt = Attempt {
        a,
        b,
        backend,
        on,
        reports: looks,
    };
    let (x, outcome, factors) = match attempt.refined() {
        Ok((x, corrections, factors)) => (x, Refinement::Refined { corrections }, factors),
        Err(Stop::FallBack(cause)) => {
            let (x, pivots) = attempt.in_full()?;
            (x, Refinement::FellBack(cause), Factors::Full(pivots))
        }
        Err(Stop::Failed(error)) => return Err(error),
    };
    Ok(Mixed {
        x,
        outcome,
        factors,
        report: joined(attempt.reports),
    })
}

/// Why there is no refined solution.
enum Stop {
    FallBack(FallbackCause),
    Failed(LinalgError),
}

impl From<LinalgError> for Stop {
    fn from(error: LinalgError) -> Self {
        Stop::Failed(error)
    }
}

/// What is solved, where, and what it has cost so far.
struct Attempt<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    b: &'a TiledMatrix<T>,
    backend: Backend,
    on: &'a dyn Executor,
    reports: Vec<Report>,
}

impl<T: Scalar> Attempt<'_, T> {
    /// X from factors in the lower precision, the number of corrections, and the factors.
    fn refined(&mut self) -> Result<(TiledMatrix<T>, u32, Factors<T>), Stop> {
        let (a, b, backend, on) = (self.a, self.b, self.backend, self.on);
        // ‖A‖_∞·ε·√n
        let norm = infinity_norm(a, on).map_err(LinalgError::Run);
        let (norm, measure) = norm?;
        self.reports.push(measure);
        let tolerance = norm * T::EPSILON * (a.rows() as f64).sqrt();
        let side = self.lowered(b)?;
        let factors = self.lowered(a)?;
        let pivots = match factor(&factors, backend, on) {
            Ok((pivots, report)) => {
                self.reports.push(report);
                pivots
            }
            Err(
                error @ (LinalgError::NotPositiveDefinite { .. } | LinalgError::Singular { .. }),
            ) => return Err(Stop::FallBack(FallbackCause::NoFactor(error))),
            Err(LinalgError::Overflow { .. }) => {
                return Err(Stop::FallBack(FallbackCause::Overflow));
            }
            Err(error) => return Err(error.into()),
        };
        let with = (&factors, pivots.as_ref());
        let solved = solve_with(with, Op::NoTranspose, &side, backend, on)?;
        let (x, raise) = mapped("raise", &side, on, raised::<T>)?;
        self.reports.extend([solved, raise]);
        for corrections in 0.. {
            let (rest, cost) = rest(Operand::plain(a), b, &x, backend, on)?;
            self.reports.extend(cost);
            let (columns, cost) = sizes(&x, &rest, on)?;
            self.reports.extend(cost);
            if are_done(&columns, tolerance, 0.0) {
                return Ok((x, corrections, Factors::Lower(factors, pivots)));
            }
            if corrections == MOST_CORRECTIONS {
                break;
            }
            let correction = self.lowered(&rest)?;
            let solved = solve_with(with, Op::NoTranspose, &correction, backend, on)?;
            let correct = |x, correction| x + raised::<T>(correction);
            let corrected = combine("correct", &x, &correction, on, correct)?;
            self.reports.extend([solved, corrected]);
        }
        Err(Stop::FallBack(FallbackCause::NotConverged))
    }

    /// A matrix in the lower precision.
    fn lowered(&mut self, a: &TiledMatrix<T>) -> Result<TiledMatrix<T::Lower>, Stop> {
        let made = lowered(a, self.on)?.ok_or(Stop::FallBack(FallbackCause::Overflow));
        made.map(|(matrix, report)| {
            self.reports.push(report);
            matrix
        })
    }

    /// X from factors in full precision, which A becomes.
    fn in_full(&mut self) -> Result<(TiledMatrix<T>, Option<Pivots<T>>), LinalgError> {
        let (a, backend, on) = (self.a, self.backend, self.on);
        let (pivots, factored) = factor(a, backend, on)?;
        let (x, copy) = mapped("copy", self.b, on, |x: T| x)?;
        let solved = solve_with((a, pivots.as_ref()), Op::NoTranspose, &x, backend, on)?;
        self.reports.extend([factored, copy, solved]);
        Ok((x, pivots))
    }
}

/// Overwrites a matrix by its factors: by Cholesky's if it is stored so, else by those of LU.
fn factor<T: Scalar>(
    a: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(Option<Pivots<T>>, Report), LinalgError> {
    if a.structure() == Structure::Lower {
        let factor = cholesky::Factor::new(a, backend)?;
        return Ok((None, factor.run(on)?));
    }
    let pivots = Pivots::new(a);
    let report = lu::Factor::new(a, &pivots, backend)?.run(on)?;
    let look = a.expect_regular(on)?;
    Ok((Some(pivots), joined([report, look])))
}

/// Overwrites `b` by the solution with the factors of Cholesky, or of LU where there are pivots.
fn solve_with<T: Scalar>(
    (a, pivots): (&TiledMatrix<T>, Option<&Pivots<T>>),
    op: Op,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    expect_op::<T>(op, pivots.is_some())?;
    match pivots {
        Some(pivots) => lu::Solve::new(a, pivots, op, b, backend)?.run(on),
        None => cholesky::solve(a, b, backend, on),
    }
}

/// Fails for the plain transpose of a complex Hermitian matrix.
fn expect_op<T: Scalar>(op: Op, has_pivots: bool) -> Result<(), LinalgError> {
    if op == Op::Transpose && T::IS_COMPLEX && !has_pivots {
        let text = "the plain transpose of a Hermitian matrix is not solved with here";
        return Err(LinalgError::Shape(text.to_owned()));
    }
    Ok(())
}
