//! A⁻¹: Aᴴ·X = I is solved, without the zeros above the diagonal of U⁻ᴴ, and X is turned into the place
//! of the factors; as one graph without a barrier, with the factorisation or from its factors.
//!
//! # Law
//! The identity enters the solution of [`Solve`]; a tile of it above the diagonal is untouched until
//! the way back. That takes n³/3 flops down and n³ up, LAPACK's count for `getri`. The bits depend on
//! the factors, the tile order and the backend only.
//!
//! Rows of A⁻¹ are what is solved for; so it is A⁻¹·A that is near I, as with LAPACK's `getri`.

use super::columns::Columns;
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
use dataflow_core::space::Erased;

/// A⁻¹ of a square matrix, of which each rank gives its part and gets that of A⁻¹; and what the
/// graphs cost together. Uses up `a`. 2n³ flops.
///
/// # Errors
/// The first entry that is not finite. [`LinalgError::Singular`] if a pivot is zero,
/// [`LinalgError::Overflow`] if one is not finite. If the matrix is not square, or the run fails.
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
    expect_square(&a)?;
    a.scan(on)?;
    let (unit, made) = unit_like(&a, on)?;
    let columns = factor.by_columns_on(on);
    let run = factor.inverse_stages_by(columns, &unit, |all| run_series(all, &[&a], on))?;
    let run = run.map_err(|error| a.failed(error))?;
    drop(unit);
    Ok((a, joined([made, run])))
}

impl<T: Scalar> Factor<'_, T> {
    /// The graphs of which [`inverse`] makes one on ranks of so many workers, in their order: to be
    /// [counted](crate::weight), for instance. `unit` is I, of the shape of A. Answers what `hear` does.
    ///
    /// # Errors
    /// If A is not square, or cut or spread otherwise than I.
    pub fn inverse_stages<R>(
        &self,
        unit: &TiledMatrix<T>,
        n_workers: usize,
        hear: impl FnOnce(Vec<Erased<'_, Tile<T>>>) -> R,
    ) -> Result<R, LinalgError> {
        self.inverse_stages_by(self.by_columns(n_workers), unit, hear)
    }

    /// The same with the factorisation by columns, if there is one.
    fn inverse_stages_by<R>(
        &self,
        columns: Option<Columns<'_, T>>,
        unit: &TiledMatrix<T>,
        hear: impl FnOnce(Vec<Erased<'_, Tile<T>>>) -> R,
    ) -> Result<R, LinalgError> {
        let solve = Solve::of_unit(self.a, self.pivots, unit, self.backend)?;
        let (look, turn) = (Regular::new(self.a), Adjoint::over(unit, self.a)?);
        let [down_and_up, rows] = solve.parts();
        let first = vec![self.suited(&columns), look.erased()];
        let then = [down_and_up, rows, turn.erased()];
        Ok(hear(first.into_iter().chain(then).collect()))
    }
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
    expect_square(&lu)?;
    let (unit, made) = unit_like(&lu, on)?;
    let solve = Solve::of_unit(&lu, pivots, &unit, backend)?;
    let (relay, turn) = (Relay { a: &lu }, Adjoint::over(&unit, &lu)?);
    let [down_and_up, rows] = solve.parts();
    let all = [relay.erased(), down_and_up, rows, turn.erased()];
    let run = run_series(all, &[&lu], on).map_err(LinalgError::Run)?;
    drop(unit);
    Ok((lu, joined([made, run])))
}

/// Refuses a matrix that has no inverse for its shape, before it is looked at and I is made.
fn expect_square<T: Scalar>(a: &TiledMatrix<T>) -> Result<(), LinalgError> {
    if a.rows() == a.cols() {
        return Ok(());
    }
    Err(LinalgError::Shape(format!(
        "the inverse of a matrix{} of {} x {} (must be square)",
        a.label(),
        a.rows(),
        a.cols()
    )))
}

/// I, cut and spread like a matrix.
fn unit_like<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    let identity = |row: usize, col: usize| if row == col { T::one() } else { T::zero() };
    TiledMatrix::beside(*a.layout(), a.memory(), &identity, on).map_err(LinalgError::Run)
}

/// The task space that hands on each tile of a matrix: to those who read it, and to who overwrites it.
#[derive(Clone, Copy, Debug)]
pub struct Relay<'a, T: Scalar> {
    pub(super) a: &'a TiledMatrix<T>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Distribution, Grid, Layout};
    use crate::weight::Weight;
    use dataflow_core::port::Heap;
    use dataflow_core::space::counts::Counting;
    use std::sync::Arc;

    /// Each tile once to each rank of its row and column, as without it: its tasks send nothing more.
    #[test]
    fn factors_that_are_handed_on_weigh_what_they_weigh_at_home() {
        let (n, nb) = (23, 4);
        let grid = Distribution::BlockCyclic(Grid::new(2, 3).unwrap());
        let spread = || {
            let layout = Layout::general(n, n, nb).unwrap();
            let layout = layout.distributed(grid, Rank(0)).unwrap();
            TiledMatrix::<f64>::vacant(layout, Arc::new(Heap))
        };
        let (lu, unit) = (spread(), spread());
        let pivots = Pivots::new(&lu);
        let solve = Solve::of_unit(&lu, &pivots, &unit, Backend::Auto).unwrap();
        let relay = Relay { a: &lu };
        let sent = |first: Option<Erased<'_, Tile<f64>>>| {
            let all = Erased::series(first.into_iter().chain(solve.parts()), 0..6).unwrap();
            let bytes = |task, flow| Weight::bytes(&all, task, flow);
            Counting::of(&all, 6).bytes(&bytes).count().unwrap().sent()
        };
        assert_eq!(sent(Some(relay.erased())), sent(None));
        let bytes: u64 = relay.tasks(Rank(0)).map(|task| relay.bytes(task, 0)).sum();
        let own: usize = lu
            .tiles()
            .map(|(i, j)| lu.tile_rows(i) * lu.tile_cols(j))
            .sum();
        assert_eq!(bytes, 8 * own as u64);
    }
}
