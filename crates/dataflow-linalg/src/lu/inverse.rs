//! A⁻¹: Aᴴ·X = I is solved, without the zeros above the diagonal of U⁻ᴴ, and X is turned into the place
//! of the factors; as one graph without a barrier, with the factorisation or from its factors.
//!
//! # Law
//! The identity enters the solution of [`Solve`]; a tile of it above the diagonal is untouched until
//! the way back. That takes n³/3 flops down and n³ up, LAPACK's count for `getri`. The bits depend on
//! the factors, the tile order and the backend only.
//!
//! Rows of A⁻¹ are what is solved for; so it is A⁻¹·A that is near I, as with LAPACK's `getri`.

use super::factor::Factor;
use super::pivots::Pivots;
use super::solve::Solve;
use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::matrix::{Regular, Tile, TiledMatrix};
use crate::qr::Adjoint;
use crate::scalar::Scalar;
use crate::succession::{joined, run_series};
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

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
    let factor = Factor::new(&a, &pivots, backend)?;
    a.scan(on)?;
    let (unit, made) = unit_like(&a, on)?;
    let solve = Solve::of_unit(&a, &pivots, &unit, backend)?;
    let (look, turn) = (Regular::new(&a), Adjoint::over(&unit, &a)?);
    let [down_and_up, rows] = solve.parts();
    let columns = factor.by_columns(on);
    let all = [
        factor.suited(&columns),
        look.erased(),
        down_and_up,
        rows,
        turn.erased(),
    ];
    let run = run_series(all, on).map_err(|error| LinalgError::of_run(error, a.rows()))?;
    drop(unit);
    Ok((a, joined([made, run])))
}

/// A⁻¹ from what [`factor`](super::factor) left, in its place, on all ranks, each of which calls it with
/// its part; does not look for zero pivots.
///
/// No more than two matrices and some tiles are held at a time. 4n³/3 flops; copies a factor's tile that
/// is overwritten before all have read it: none where tasks run in the order of their priorities.
///
/// # Errors
/// If the factors are not of a square matrix, or the run fails.
pub fn invert<T: Scalar>(
    lu: TiledMatrix<T>,
    pivots: &Pivots<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    let (unit, made) = unit_like(&lu, on)?;
    let solve = Solve::of_unit(&lu, pivots, &unit, backend)?;
    let (relay, turn) = (Relay { a: &lu }, Adjoint::over(&unit, &lu)?);
    let [down_and_up, rows] = solve.parts();
    let all = [relay.erased(), down_and_up, rows, turn.erased()];
    let run = run_series(all, on).map_err(LinalgError::Run)?;
    drop(unit);
    Ok((lu, joined([made, run])))
}

/// I, cut and spread like a matrix.
fn unit_like<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    let unit = TiledMatrix::vacant(*a.layout(), a.memory().clone());
    let identity = |row: usize, col: usize| if row == col { T::one() } else { T::zero() };
    let made = unit.fill(&identity, on).map_err(LinalgError::Run)?;
    Ok((unit, made))
}

/// The task space that hands on each tile of a matrix: to those who read it, and to who overwrites it.
#[derive(Clone, Copy)]
pub struct Relay<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
}

task_space! {
    /// A task for each tile.
    pub enum HandTask;

    impl<T: Scalar> TaskSpace for Relay<'_, T> {
        type Datum = Tile<T>;
        let mt = self.a.mt() as u32;
        let nt = self.a.nt() as u32;
        data A[m, n]
            in self.a.store() at self.a.place(m, n)
            on self.a.rank_of(m as usize, n as usize);

        for n in 0..nt {
            for m in 0..mt {
                HandOn { m, n }: update A[m, n];
            }
        }

        fn describe(&self, about: &mut Description) {
            about.name("hand on").parameter("m", self.a.rows());
            self.a.layout().describe(about);
        }
    }
}
