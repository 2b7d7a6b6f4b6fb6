//! The condition of A, from R and its reflectors.
//!
//! # Elsewhere
//! How ‖A⁻¹‖₁ is estimated: [`condition`](crate::condition).

use super::least_squares::run;
use super::reflectors::{Reflectors, alike};
use crate::condition::{condition_number, expect_norm};
use crate::error::LinalgError;
use crate::kernel::{Backend, Op};
use crate::matrix::TiledMatrix;
use crate::matrix::norm::entries;
use crate::scalar::Scalar;
use dataflow_core::port::Executor;

/// κ₁(A) = ‖A‖₁·‖A⁻¹‖₁, m = n, estimated from below, rarely by more than a factor 3; 1 for an empty matrix,
/// infinite if ‖A‖₁ is larger than any number.
///
/// - `a`, `q`: what [`factor`](super::factor()) left and returned; each rank gives its part, and gets the same
/// - `norm`: ‖A‖₁, taken [before](crate::matrix::norm::norm()) A was overwritten
///
/// At most 11 solutions of one column, mostly 4 or 5. The rank is not looked at: where it is not full but for
/// rounding errors the condition is as large as those leave it.
///
/// # Errors
/// If the matrix is not square, or the reflectors are of another one; [`LinalgError::Singular`] with the first
/// zero on R's diagonal, [`LinalgError::Overflow`] with the first number there that is not finite;
/// [`LinalgError::Argument`] for a norm that none is; if the run fails.
///
/// # Source
/// LAPACK's `gecon`, with Q and R for L and U; see [`condition`](crate::condition).
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, norm::{Norm, norm}};
/// use dataflow_linalg::qr::{Options, condition, factor};
/// // A⁻¹ = [−1 ½; ¼ 0]
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let norm = norm(&a, Norm::One, &Inline)?;
/// let (q, _) = factor(&a, Options::of_order(1), Backend::Auto, &Inline)?;
/// assert!((condition(&a, &q, norm, Backend::Auto, &Inline)? - 15.0).abs() < 1e-13);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn condition<T: Scalar>(
    a: &TiledMatrix<T>,
    q: &Reflectors<T>,
    norm: f64,
    backend: Backend,
    on: &dyn Executor,
) -> Result<f64, LinalgError> {
    let n = a.rows();
    if n != a.cols() || a.layout() != q.layout() {
        let (rows, cols) = (q.layout().rows(), q.layout().cols());
        return Err(LinalgError::Shape(format!(
            "the condition of a matrix{} of {n} x {} with reflectors of {rows} x {cols} \
             (must be square, its reflectors of its layout)",
            a.label(),
            a.cols()
        )));
    }
    expect_norm(norm)?;
    if n == 0 {
        return Ok(1.0);
    }
    a.expect_regular(on)?;
    let column = alike(a.layout(), (n, 1))?;
    condition_number(n, norm, |op: Op, x: &mut [T]| {
        let (given, zero) = (
            |row: usize, _: usize| x[row],
            |_: usize, _: usize| T::zero(),
        );
        let b = TiledMatrix::beside(column, a.memory(), &given, on);
        let (b, _) = b.map_err(LinalgError::Run)?;
        let solution = TiledMatrix::beside(column, a.memory(), &zero, on);
        let (solution, _) = solution.map_err(LinalgError::Run)?;
        run((a, q), op, (&b, &solution), backend, on)?;
        x.copy_from_slice(&entries(&solution, on).map_err(LinalgError::Run)?);
        Ok::<_, LinalgError>(())
    })
}
