//! The check: is Q·R the matrix, and is Q orthogonal?
//!
//! # Law
//! Q is formed; what is judged then are two plain matrices, by products with faer's kernels.
//! ‖A − Q·R‖ takes only the first min(m, n) columns of Q, and in the 2-norm it is ‖R − Qᴴ·A‖.
//! Sums run in one fixed order, so the bits do not depend on grid, threads or schedule. A NaN
//! anywhere makes a ratio NaN, which is below no bound; so does a norm that overflows.
//!
//! Ratios are judged alike at every scale, of subnormal numbers as [`matrix::check`](crate::matrix::check)
//! has it. Only where Aᴴ·(B − A·X) would overflow or underflow is B − A·X multiplied by a power of two
//! before that product, and divided by it behind.
//!
//! # Source
//! Tests 1 and 2 of LAPACK's TESTING/LIN DQRT01: Anderson et al., *LAPACK Users' Guide*, SIAM 1999.

use super::form::{form, triangle, unit};
use super::reflectors::{Reflectors, alike};
use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::matrix::ample::{Ample, power};
use crate::matrix::check::Rounding;
use crate::matrix::norm::{Norm, norm};
use crate::matrix::{Entries, TiledMatrix};
use crate::product::{Operand, Residual, gemm, residual};
use crate::scalar::{Scalar, smallest_normal};
use dataflow_core::port::Executor;

/// How good a factorisation is, in 1-norms over ε; below 30 for a backward stable one.
///
/// # Examples
/// See the [module's](super) example.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ratios {
    /// ‖A − Q·R‖ / (m ‖A‖ ε); 0 for an empty matrix.
    pub residual: f64,
    /// ‖I − Qᴴ·Q‖ / (m ε), for the first min(m, n) columns of Q.
    pub orthogonality: f64,
}

/// Judges a factorisation; every rank calls it with its part and gets the same.
///
/// - `original`: A
/// - `a`, `q`: what [`factor`](super::factor()) left and returned
///
/// About three times the flops of the factorisation, and three matrices like A.
///
/// # Errors
/// If a tile is not at hand; if a run fails, or an entry of A panics: on all ranks.
pub fn check<T: Scalar>(
    original: &impl Entries<T>,
    a: &TiledMatrix<T>,
    q: &Reflectors<T>,
    on: &dyn Executor,
) -> Result<Ratios, LinalgError> {
    let (m, k) = (a.rows(), a.rows().min(a.cols()));
    let rest = TiledMatrix::beside_of_user(*a.layout(), a.memory(), original, on);
    let rest = rest.map_err(LinalgError::Run)?;
    let norm = norm(&rest, Norm::One, on).map_err(LinalgError::Run)?;
    let (formed, r) = (form(a, q, k, Backend::Faer, on)?, triangle(a, on)?);
    // A ← A − Q·R
    let of = Operand::plain(&formed);
    let left = residual(of, Operand::plain(&r), &rest, on)?;
    // I ← I − Qᴴ·Q
    let gram = unit(a, (k, k), on)?;
    let turned = residual(Operand::adjoint(&formed), of, &gram, on)?;
    let norm = norm + Rounding::of::<T>().underflow(m);
    let [m, norm, epsilon] = [m as f64, norm, T::EPSILON].map(Ample::of);
    Ok(Ratios {
        residual: Ample::of(left.difference).over(m * norm * epsilon),
        orthogonality: Ample::of(turned.difference).over(m * epsilon),
    })
}

/// How far X is from a solution of A·X = B by least squares, or of a wide matrix from any solution,
/// in 1-norms over ε; every rank calls it with its part and gets the same.
///
/// For m ≥ n that of [`least_squares_ratio`] without tolerance, else ‖B − A·X‖ / (n ‖A‖ ‖X‖ ε).
/// `a` and `b` are the matrix and its right-hand sides as they were, `b` is overwritten by
/// B − A·X.
///
/// # Errors
/// If a tile is not at hand; if shapes do not fit or a run fails.
pub fn solution_ratio<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    x: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<f64, LinalgError> {
    if a.rows() < a.cols() {
        let rest = residual(Operand::plain(a), Operand::plain(x), b, on)?;
        return Ok(rest.over(a.cols()));
    }
    least_squares_ratio(a, b, x, 0.0, on)
}

/// How far what X leaves of B is from orthogonal to A, whatever the shape and the rank: in 1-norms
///
/// ‖Aᴴ(B − A·X)‖ / (max(m, n, nrhs) ‖A‖ (‖A‖ ‖X‖ + ‖B‖) ε).
///
/// - `a`, `b`: the matrix and its right-hand sides as they were; `b` is overwritten by B − A·X
/// - `tolerance`: takes the place of max(m, n, nrhs)·ε where it is larger; X may ignore as much of A
///
/// A backward stable X is the solution for A + E and B + F, with E and F of the size of rounding
/// errors. So Aᴴ(B − A·X) is as large as Aᴴ(E·X − F): what is divided by holds ‖A‖ ‖X‖ beside ‖B‖,
/// and the ratio stays small however ill conditioned A is. Every rank calls it with its part and gets
/// the same.
///
/// # Errors
/// As [`solution_ratio`].
///
/// # Source
/// Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., SIAM 2002, theorem 20.3.
pub fn least_squares_ratio<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    x: &TiledMatrix<T>,
    tolerance: f64,
    on: &dyn Executor,
) -> Result<f64, LinalgError> {
    let (m, n, nrhs) = (a.rows(), a.cols(), b.cols());
    let right = norm(b, Norm::One, on).map_err(LinalgError::Run)?;
    let rest = residual(Operand::plain(a), Operand::plain(x), b, on)?;
    let layout = alike(a.layout(), (n, nrhs))?;
    let none = TiledMatrix::<T>::beside(layout, a.memory(), &|_, _| T::zero(), on);
    let (none, _) = none.map_err(LinalgError::Run)?;
    let shift = shift_of::<T>(&rest);
    multiply((a, x), shift, b, on)?;
    // 0 ← 0 − Aᴴ·(B − A·X)
    let left = residual(Operand::adjoint(a), Operand::plain(b), &none, on)?;
    multiply((a, x), -shift, b, on)?;
    let rounding = (m.max(n).max(nrhs) as f64 * T::EPSILON).max(tolerance);
    let underflow = Rounding::of::<T>().underflow(m.max(n));
    let [rounding, norm, left_over, floor] =
        [rounding, rest.a, rest.difference, underflow].map(Ample::of);
    let [of_a, of_x, of_b] = [rest.a, rest.x, right].map(|norm| Ample::of(norm + underflow));
    let scale = rounding * norm * (of_a * of_x + of_b) + rounding * floor * left_over;
    Ok(Ample::of(left.difference).shifted(-shift).over(scale))
}

/// The even power of two by which what is left of B is multiplied, so that its product with Aᴴ neither
/// overflows nor underflows; 0 if it does not as it is.
fn shift_of<T: Scalar>(rest: &Residual) -> i32 {
    let norms = [rest.a, rest.difference].map(|norm| Ample::of(norm).exponent());
    let [Some(of_a), Some(of_rest)] = norms else {
        return 0;
    };
    // Products that are as far from 1 neither overflow when they are added, nor lose what counts.
    let most = Ample::of(smallest_normal::<T>())
        .exponent()
        .unwrap_or(0)
        .abs()
        / 2;
    let exponent = of_a + of_rest;
    (exponent.clamp(-most, most) - exponent) / 2 * 2
}

/// B ← 2^by·B, for even `by`; in two steps, since the whole power need not be a number. A and X are those
/// of a product that fits B.
fn multiply<T: Scalar>(
    (a, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    by: i32,
    b: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(), LinalgError> {
    let (a, x, step) = (
        Operand::plain(a),
        Operand::plain(x),
        T::from_real(power(by / 2)),
    );
    for _ in 0..if by == 0 { 0 } else { 2 } {
        gemm(T::zero(), a, x, step, b, Backend::Faer, on)?;
    }
    Ok(())
}
