//! The check: is Q·R the matrix, and is Q orthogonal?
//!
//! # Law
//! Q is formed; what is judged then are two plain matrices, by products with faer's kernels.
//! ‖A − Q·R‖ takes only the first min(m, n) columns of Q, and in the 2-norm it is ‖R − Qᴴ·A‖.
//! Sums run in one fixed order, so the bits do not depend on grid, threads or schedule. A NaN
//! anywhere makes a ratio NaN, which is below no bound.
//!
//! # Source
//! Tests 1 and 2 of LAPACK's TESTING/LIN DQRT01: Anderson et al., *LAPACK Users' Guide*, SIAM 1999.

use super::form::{form, triangle, unit};
use super::reflectors::{Reflectors, alike};
use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::matrix::check::ratio;
use crate::matrix::norm::{Norm, norm};
use crate::matrix::{Entries, TiledMatrix};
use crate::product::{Operand, residual};
use crate::scalar::Scalar;
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
    let m = m as f64;
    Ok(Ratios {
        residual: ratio(left.difference, m * norm * T::EPSILON),
        orthogonality: ratio(turned.difference, m * T::EPSILON),
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
    // 0 ← 0 − Aᴴ·(B − A·X)
    let left = residual(Operand::adjoint(a), Operand::plain(b), &none, on)?;
    let rounding = (m.max(n).max(nrhs) as f64 * T::EPSILON).max(tolerance);
    let scale = rounding * rest.a * (rest.a * rest.x + right);
    Ok(ratio(left.difference, scale))
}
