//! Bounds: how far X may be from the solution of A·X = B, column by column; and X corrected first.
//!
//! # Law
//! LAPACK's rules, with W = |A|·|X| + |B| entry by entry. The backward error is max |r|/w; it is the
//! smallest ω for which X solves a system whose entries differ from those of A and B by no more than
//! ω times their moduli. The forward error is bounded by ‖ |A⁻¹|·(|R| + (n+1)·ε·W) ‖_∞ / ‖X‖_∞; the
//! norm is that of A⁻¹·diag(…), which is [estimated](crate::condition) from solutions. So the bound,
//! too, may be too small by the factor that an estimate is, and mostly is several times too large.

use super::entrywise::{by_columns, combine, expect_system, mapped, moduli, rest};
use crate::condition::inverse_norm;
use crate::error::LinalgError;
use crate::kernel::{Backend, Op};
use crate::matrix::norm::{entries, peaks};
use crate::matrix::{Layout, TiledMatrix, expect_two};
use crate::product::{Gemm, Operand};
use crate::scalar::{Scalar, smallest_normal};
use dataflow_core::Report;
use dataflow_core::port::Executor;

/// LAPACK's ITMAX.
const MOST_CORRECTIONS: usize = 5;

/// How far a column of X is from the solution.
///
/// # Examples
/// See [`solve`](super::solve()#examples) and, of factors, [`lu::error_bounds`](crate::lu::error_bounds).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bounds {
    /// Bound of ‖x − x₀‖_∞ / ‖x‖_∞ where x₀ is the solution, estimated: LAPACK's FERR. Infinite or NaN if
    /// there is none.
    pub forward: f64,
    /// The largest relative change in an entry of A or B that makes x exact: LAPACK's BERR, which is 1 where
    /// x and its right-hand side are zeros. NaN if it is not known: where X is not finite, or |A|·|X| + |B|
    /// overflows.
    pub backward: f64,
}

/// Solves op(A)·X = B with whatever factors there are; X overwrites B.
pub type Solves<'a, T> = dyn FnMut(Op, &TiledMatrix<T>) -> Result<Report, LinalgError> + 'a;

/// How far each column of `x` is from the solution of A·X = B.
///
/// - `a`: the matrix itself, not its factors; of one that is stored as
///   [`Structure::Lower`](crate::matrix::Structure) the Hermitian one that it stands for
/// - `b`, `x`: laid out alike, in tiles of the order of `a`
/// - `solve`: overwrites a matrix, laid out like one column of `b`, by A⁻¹ ([`Op::NoTranspose`]) or
///   A⁻ᴴ ([`Op::ConjTranspose`]) times it
///
/// 4n² flops and 4 or 5 solutions for each column; |A| is held beside A.
///
/// # Errors
/// Shapes that do not fit; the first of `solve`; what [`run_across`](dataflow_core::run_across)
/// answers.
///
/// # Source
/// LAPACK's `porfs` and `gerfs`, without their corrections.
pub fn bounds<T: Scalar>(
    a: &TiledMatrix<T>,
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    backend: Backend,
    on: &dyn Executor,
    solve: &mut Solves<'_, T>,
) -> Result<Vec<Bounds>, LinalgError> {
    let system = LinearSystem::new(a, (b, x), backend, on)?;
    let judged = system.judged()?;
    system.bounded(judged, solve)
}

/// Corrects `x` by its residual, at most 5 times and as long as that halves the backward error of a
/// column; then says how far it is from the solution. Arguments, cost and errors as [`bounds`].
///
/// # Errors
/// As [`bounds`]; if `x` is `a` or `b`.
///
/// # Source
/// LAPACK's `porfs` and `gerfs`.
pub fn improve<T: Scalar>(
    a: &TiledMatrix<T>,
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    backend: Backend,
    on: &dyn Executor,
    solve: &mut Solves<'_, T>,
) -> Result<Vec<Bounds>, LinalgError> {
    expect_correctable(a, (b, x))?;
    let system = LinearSystem::new(a, (b, x), backend, on)?;
    let mut judged = system.judged()?;
    let mut last = vec![3.0; judged.backward.len()];
    for _ in 0..MOST_CORRECTIONS {
        let pairs = judged.backward.iter().zip(&last);
        let is_done = pairs.map(|(now, last)| !(*now > T::EPSILON && 2.0 * now <= *last));
        let is_done: Vec<bool> = is_done.collect();
        if is_done.iter().all(|done| *done) {
            break;
        }
        by_columns("clear columns", &judged.rest, on, |x, col| {
            match is_done[col] {
                true => T::zero(),
                false => x,
            }
        })?;
        solve(Op::NoTranspose, &judged.rest)?;
        combine("correct", x, &judged.rest, on, |x, correction| {
            x + correction
        })?;
        last = judged.backward;
        judged = system.judged()?;
    }
    system.bounded(judged, solve)
}

/// Refuses what [`improve`] cannot correct, before a value is looked at.
pub(crate) fn expect_correctable<T: Scalar>(
    a: &TiledMatrix<T>,
    (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
) -> Result<(), LinalgError> {
    expect_two(("A", a), ("X", x))?;
    expect_two(("B", b), ("X", x))?;
    expect_system(a, &[b, x])
}

/// A·X = B, and what all its judgements need.
struct LinearSystem<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    b: &'a TiledMatrix<T>,
    x: &'a TiledMatrix<T>,
    backend: Backend,
    on: &'a dyn Executor,
    /// |A|
    moduli: TiledMatrix<T>,
    /// Sums of up to n + 1 terms below this say nothing.
    negligible: f64,
}

/// The bounds of so many columns without rows.
fn of_nothing(cols: usize) -> Result<Vec<Bounds>, LinalgError> {
    let (forward, backward) = (0.0, 0.0);
    let mut bounds = Vec::new();
    bounds.try_reserve_exact(cols).map_err(|_| {
        let text = format!("the bounds of {cols} columns do not fit in memory");
        LinalgError::Shape(text)
    })?;
    bounds.resize(cols, Bounds { forward, backward });
    Ok(bounds)
}

/// What is left of B, and how large that is.
struct Judged<T: Scalar> {
    /// R = B − A·X
    rest: TiledMatrix<T>,
    /// W = |A|·|X| + |B|
    scale: TiledMatrix<T>,
    /// max |r|/w of each column, the same on every rank
    backward: Vec<f64>,
}

impl<'a, T: Scalar> LinearSystem<'a, T> {
    fn new(
        a: &'a TiledMatrix<T>,
        (b, x): (&'a TiledMatrix<T>, &'a TiledMatrix<T>),
        backend: Backend,
        on: &'a dyn Executor,
    ) -> Result<Self, LinalgError> {
        expect_system(a, &[b, x])?;
        Ok(LinearSystem {
            a,
            b,
            x,
            backend,
            on,
            moduli: moduli(a, on)?,
            negligible: (a.rows() + 1) as f64 * smallest_normal::<T>(),
        })
    }

    /// R, W and the backward errors.
    fn judged(&self) -> Result<Judged<T>, LinalgError> {
        let on = self.on;
        let (rest, _) = rest(Operand::plain(self.a), self.b, self.x, self.backend, on)?;
        let (scale, of_x) = (moduli(self.b, on)?, moduli(self.x, on)?);
        let (a, x) = (Operand::plain(&self.moduli), Operand::plain(&of_x));
        let product = Gemm::new(T::one(), a, x, T::one(), &scale, self.backend)?;
        product.run(on)?;
        let (ratios, _) = mapped("moduli", &rest, on, |r: T| T::from_real(r.modulus()))?;
        let (least, negligible) = (self.negligible / T::EPSILON, self.negligible);
        combine("backward errors", &ratios, &scale, on, |r, w| {
            T::from_real(match w.re() > least {
                // Beside a sum that overflows, no rest says anything.
                true if w.re().is_infinite() => f64::NAN,
                true => r.re() / w.re(),
                // NaN stays NaN.
                false => (r.re() + negligible) / (w.re() + negligible),
            })
        })?;
        let (backward, _) = peaks(&ratios, on).map_err(LinalgError::Run)?;
        Ok(Judged {
            rest,
            scale,
            backward,
        })
    }

    /// The bounds of all columns.
    fn bounded(
        &self,
        judged: Judged<T>,
        solve: &mut Solves<'_, T>,
    ) -> Result<Vec<Bounds>, LinalgError> {
        let (on, n) = (self.on, self.a.rows());
        let (least, negligible) = (self.negligible / T::EPSILON, self.negligible);
        let terms = (n + 1) as f64 * T::EPSILON;
        let weights = judged.scale;
        combine("weights", &weights, &judged.rest, on, |w, r| {
            let small = if w.re() > least { 0.0 } else { negligible };
            T::from_real(r.modulus() + terms * w.re() + small)
        })?;
        let weights = entries(&weights, on).map_err(LinalgError::Run)?;
        let (sizes, _) = peaks(self.x, on).map_err(LinalgError::Run)?;
        if n == 0 {
            return of_nothing(self.b.cols());
        }
        let columns = weights.chunks_exact(n).zip(sizes).zip(judged.backward);
        let bounded = columns.map(|((weights, size), backward)| {
            let error = self.weighted_inverse_norm(weights, solve)?;
            let forward = if size == 0.0 { error } else { error / size };
            Ok(Bounds { forward, backward })
        });
        bounded.collect()
    }

    /// ‖A⁻¹·diag(w)‖_∞ = ‖diag(w)·A⁻ᴴ‖₁, estimated.
    fn weighted_inverse_norm(
        &self,
        weights: &[T],
        solve: &mut Solves<'_, T>,
    ) -> Result<f64, LinalgError> {
        let (on, n) = (self.on, self.a.rows());
        let of_b = self.b.layout();
        let column = Layout::general(n, 1, of_b.nb())?.with_format(of_b.format());
        let column = column.distributed(*of_b.distribution(), of_b.rank())?;
        let mut solved = |op: Op, x: &mut [T]| {
            let from: &[T] = x;
            let entry = |row: usize, _: usize| from[row];
            let b = TiledMatrix::beside(column, self.b.memory(), &entry, on);
            let (b, _) = b.map_err(LinalgError::Run)?;
            solve(op, &b)?;
            let solution = entries(&b, on).map_err(LinalgError::Run)?;
            x.copy_from_slice(&solution);
            Ok::<_, LinalgError>(())
        };
        let weigh = |x: &mut [T]| x.iter_mut().zip(weights).for_each(|(x, w)| *x *= *w);
        inverse_norm(n, |op, x: &mut [T]| match op {
            Op::NoTranspose => {
                solved(Op::ConjTranspose, x)?;
                weigh(x);
                Ok(())
            }
            Op::Transpose | Op::ConjTranspose => {
                weigh(x);
                solved(Op::NoTranspose, x)
            }
        })
    }
}
