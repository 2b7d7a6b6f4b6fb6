//! A⁻¹ from the factors: Aᴴ·X = I is solved, without the zeros above the diagonal of U⁻ᴴ, and X is
//! turned.
//!
//! # Law
//! The identity enters the solution of [`Solve`]; a tile of it above the diagonal is untouched until
//! the way back. That takes n³/3 flops down and n³ up, LAPACK's count for `getri`. The bits depend on
//! the factors, the tile order and the backend only.
//!
//! Rows of A⁻¹ are what is solved for; so it is A⁻¹·A that is near I, as with LAPACK's `getri`.

use super::factor::{Factor, expect_regular};
use super::pivots::Pivots;
use super::solve::Solve;
use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::matrix::TiledMatrix;
use crate::qr::Adjoint;
use crate::scalar::Scalar;
use crate::succession::joined;
use dataflow_core::Report;
use dataflow_core::port::Executor;

/// A⁻¹ of a square matrix, of which each rank gives its part and gets that of A⁻¹; and what the
/// graphs cost together. Uses up `a`. 2n³ flops.
///
/// # Errors
/// The first entry that is not finite. [`LinalgError::Singular`] if a pivot is zero. If the matrix is
/// not square, or the run fails.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::{kernel::Backend, lu, matrix::{Layout, TiledMatrix}};
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let (inverse, _) = lu::inverse(a, Backend::Auto, &Inline)?;
/// assert_eq!(inverse.to_column_major()?, [-1.0, 0.25, 0.5, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn inverse<T: Scalar>(
    a: TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    let pivots = Pivots::new(&a);
    a.scan(on)?;
    let factored = Factor::new(&a, &pivots, backend)?.run(on)?;
    expect_regular(&a, on)?;
    let (inverse, report) = invert(a, &pivots, backend, on)?;
    Ok((inverse, joined([factored, report])))
}

/// A⁻¹ from what [`factor`](super::factor) left, on all ranks, each of which calls it with its part;
/// does not look for zero pivots.
///
/// The factors are used up: no more than two matrices and some tiles are held at a time. 4n³/3
/// flops.
///
/// # Errors
/// If the factors are not of a square matrix, or a run fails.
pub fn invert<T: Scalar>(
    lu: TiledMatrix<T>,
    pivots: &Pivots<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    let adjoint = TiledMatrix::vacant(*lu.layout(), lu.memory().clone());
    let solve = Solve::of_unit(&lu, pivots, &adjoint, backend)?;
    let unit = |row: usize, col: usize| if row == col { T::one() } else { T::zero() };
    let made = adjoint.fill(&unit, on).map_err(LinalgError::Run)?;
    let solved = solve.run(on)?;
    drop(lu);
    let turn = Adjoint::new(&adjoint)?;
    let turned = turn.run(on)?;
    Ok((turn.into_matrix(), joined([made, solved, turned])))
}
