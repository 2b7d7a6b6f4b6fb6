//! What a factor says of its matrix: condition and determinant.

use super::solve::solve;
use crate::condition::inverse_norm;
use crate::determinant::{Determinant, of_diagonal};
use crate::error::{LinalgError, TileError};
use crate::kernel::{Backend, Op};
use crate::matrix::{Layout, LayoutError, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;

/// κ₁(A) = ‖A‖₁·‖A⁻¹‖₁, estimated from below, rarely by more than a factor 3; 1 for an empty matrix.
///
/// - `l`: what [`factor`](super::factor) left, all tiles on this rank
/// - `norm`: ‖A‖₁, taken [before](crate::matrix::norm::norm) A was overwritten
///
/// At most 11 solutions of one column, mostly 4 or 5.
///
/// # Errors
/// As [`solve`].
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
/// let norm = norm(&a, Norm::One)?;
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
    if l.rows() == 0 {
        return Ok(1.0);
    }
    let column = Layout::general(l.rows(), 1, l.nb());
    let column = column.map_err(|error: LayoutError| LinalgError::Shape(error.to_string()))?;
    let estimate = inverse_norm(l.rows(), |_: Op, x: &mut [T]| {
        // A is its own adjoint.
        let b = TiledMatrix::from_fn(column, |row, _| x[row]);
        solve(l, &b, backend, on)?;
        let written = b.write_column_major(x, l.rows());
        written.map_err(|error| LinalgError::Shape(error.to_string()))
    })?;
    Ok(norm * estimate)
}

/// The determinant of A from its factor, all tiles on this rank.
///
/// # Errors
/// If a tile is not at hand.
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
pub fn determinant<T: Scalar>(l: &TiledMatrix<T>) -> Result<Determinant, TileError> {
    Ok(of_diagonal(l)?.of_square())
}
