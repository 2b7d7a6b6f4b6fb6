//! The solution of A·X = B from the factor: L·Y = B down the tiles, Lᴴ·X = Y back up, as one
//! graph; the backward part starts where the forward part is done, without a barrier.
//!
//! # Over ranks
//! A task runs where its tile of B lives. On one rank it reads its tile of L from home; over ranks a
//! tile of L is given twice, down and back up, to those who own the row of B that it updates, at
//! most [`AHEAD`] steps before it is needed: no rank holds the whole factor.

use crate::error::LinalgError;
use crate::kernel::Op::{ConjTranspose, NoTranspose};
use crate::kernel::{Backend, gemm_op, trsm_left};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

/// How many steps before it is needed a tile of L may be given.
const AHEAD: u32 = 4;

/// The task space of both triangular solves: nt(nt+1) tasks for each tile column of B, and over
/// ranks two more for each tile of L.
#[derive(Clone, Copy, Debug)]
pub struct Solve<'a, T: Scalar> {
    l: &'a TiledMatrix<T>,
    b: &'a TiledMatrix<T>,
    backend: Backend,
    nt: u32,
    columns: u32,
    /// Whether L is given to ranks, or read from home.
    spread: bool,
}

/// Overwrites `b` by the solution X of L·Lᴴ·X = B; `l` is what [`factor`](super::factor) left.
/// 2n² flops for each column; copies no tile.
///
/// # Errors
/// If the shapes or tile orders of `l` and `b` do not fit, or `l` is not stored as
/// [`Structure::Lower`]; if the run fails.
pub fn solve<T: Scalar>(
    l: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    Solve::new(l, b, backend)?.run(on)
}

impl<'a, T: Scalar> Solve<'a, T> {
    /// The space for a factor and right-hand sides with the same tile order.
    ///
    /// Each may have a distribution of its own.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn new(
        l: &'a TiledMatrix<T>,
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        let fits = l.structure() == Structure::Lower
            && b.structure() == Structure::General
            && b.rows() == l.rows()
            && b.nb() == l.nb();
        if !fits {
            let text = format!(
                "right-hand sides of {} x {} ({:?}, tiles of {}) do not fit a factor of order {} \
                 ({:?}, tiles of {})",
                b.rows(),
                b.cols(),
                b.structure(),
                b.nb(),
                l.rows(),
                l.structure(),
                l.nb()
            );
            return Err(LinalgError::Shape(text));
        }
        Ok(Solve {
            l,
            b,
            backend,
            nt: l.nt() as u32,
            columns: b.nt() as u32,
            spread: l.distribution().n_ranks().max(b.distribution().n_ranks()) > 1,
        })
    }

    /// Runs this rank's part of the solution; every rank calls it with its parts of the matrices.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers, the same on every rank.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), on).map_err(LinalgError::Run)
    }
}

task_space! {
    /// The tasks of the two triangular solves: k is the step, m the tile row that is updated,
    /// j the tile column of right-hand sides. Over ranks, tile (i, k) of L is given down and up.
    pub enum SolveTask;

    impl<T: Scalar> TaskSpace for Solve<'_, T> {
        type Datum = Tile<T>;
        let nt = self.nt;
        let columns = self.columns;
        let gives = u32::from(self.spread && self.columns > 0);
        let ahead = AHEAD;
        let p = self.l.grid().0;
        let q = self.l.grid().1;
        let rows = self.b.grid().0;
        let lines = self.b.grid().1;
        data B[m, j] in self.b.store() at self.b.place(m, j) on (m % rows, j % lines);
        // L as it is given on the way down, and on the way up.
        data Down[i, k] in self.l.store() at self.l.place(i, k) on (i % p, k % q);
        data Up[i, k] in self.l.store() at self.l.place(i, k) on (i % p, k % q);

        if gives > 0 {
            for i in 0..nt {
                for k in 0..=i {
                    GiveDown { i, k }: give tile = Down[i, k], order after;
                    GiveUp { i, k }: give tile = Up[i, k], order after;
                }
            }
        }
        for j in 0..columns {
            for k in 0..nt {
                // B[k,j] ← L[k,k]⁻¹ · B[k,j]
                Forward { k, j }: update tile = B[k, j], read factor = Down[k, k], order done
                    => trsm_left(self.backend, factor, NoTranspose, tile);
                for m in k + 1..nt {
                    // B[m,j] ← B[m,j] − L[m,k] · B[k,j]
                    ForwardUpdate { m, k, j }:
                        update tile = B[m, j], read factor = Down[m, k], read solved = B[k, j]
                        => gemm_op(self.backend, (NoTranspose, factor), (NoTranspose, solved), tile);
                }
            }
            for k in (0..nt).rev() {
                // B[k,j] ← L[k,k]⁻ᴴ · B[k,j]
                Backward { k, j }: update tile = B[k, j], read factor = Up[k, k], order done
                    => trsm_left(self.backend, factor, ConjTranspose, tile);
                for m in 0..k {
                    // B[m,j] ← B[m,j] − L[k,m]ᴴ · B[k,j]
                    BackwardUpdate { m, k, j }:
                        update tile = B[m, j], read factor = Up[k, m], read solved = B[k, j]
                        => gemm_op(self.backend, (ConjTranspose, factor), (NoTranspose, solved), tile);
                }
            }
        }
        // Down by columns of L, up by its rows; the last step down lets the first rows pass up.
        Forward { k, j: 0 }.done -> GiveDown { i, k: k + ahead }.after, for i in k + ahead..nt;
        Forward { k: nt - 1, j: 0 }.done -> GiveUp { i, k }.after, if i + ahead >= nt;
        Backward { k: i + ahead, j: 0 }.done -> GiveUp { i, k }.after;

        fn describe(&self, about: &mut Description) {
            about.name("cholesky_solve");
            self.l.layout().describe(about);
            about.parameter("precision", T::PRECISION);
            about.parameter("backend", self.backend);
            about.parameter("nrhs", self.b.cols());
            about.parameter("grid of B", self.b.distribution());
        }

        /// Steps that remain on the longest way: down to the last tile row and back up.
        fn priority(&self, task: SolveTask) -> i64 {
            let last = i64::from(self.nt) - 1;
            match task {
                Forward { k, .. } => 4 * last - 2 * i64::from(k) + 2,
                ForwardUpdate { m, k, .. } => 4 * last - i64::from(m) - i64::from(k) + 2,
                Backward { k, .. } => 2 * i64::from(k) + 1,
                BackwardUpdate { m, k, .. } => i64::from(m) + i64::from(k) + 1,
                // As urgent as what reads the tile.
                GiveDown { i, k } => 4 * last - i64::from(i) - i64::from(k) + 3,
                GiveUp { i, k } => i64::from(i) + i64::from(k) + 2,
            }
        }
    }
}
use SolveTask::{Backward, BackwardUpdate, Forward, ForwardUpdate, GiveDown, GiveUp};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Distribution, Grid, Layout};
    use dataflow_core::port::Heap;
    use std::collections::HashMap;
    use std::sync::Arc;

    /// A factor of `nt` tiles a side and `columns` tile columns of right-hand sides, without tiles.
    fn vacant(nt: usize, columns: usize) -> (TiledMatrix<f64>, TiledMatrix<f64>) {
        let l = Layout::lower(nt, 1).unwrap();
        let b = Layout::general(nt, columns, 1).unwrap();
        let heap = Arc::new(Heap);
        (
            TiledMatrix::vacant(l, heap.clone()),
            TiledMatrix::vacant(b, heap),
        )
    }

    #[test]
    fn the_space_is_proved_for_1_to_12_tiles() {
        for nt in 0..=12 {
            for columns in 0..=3 {
                let (l, b) = vacant(nt, columns);
                let space = Solve::new(&l, &b, Backend::Auto).unwrap();
                verify(&space, 1)
                    .unwrap_or_else(|fault| panic!("nt = {nt}, {columns} columns: {fault}"));
                assert_eq!(space.count(Rank(0)), (columns * nt * (nt + 1)) as u64);
            }
        }
    }

    /// Hears whom a task feeds.
    #[derive(Default)]
    struct Fed(Vec<SolveTask>);

    impl Successors<Solve<'_, f64>> for Fed {
        fn task(&mut self, _: usize, target: SolveTask, _: usize) {
            self.0.push(target);
        }
        fn home(&mut self, _: usize, _: &Store<Tile<f64>>, _: usize) {}
    }

    /// Tasks on the longest way from a task to the end, itself included.
    fn steps(space: &Solve<'_, f64>, task: SolveTask, known: &mut HashMap<SolveTask, i64>) -> i64 {
        if let Some(steps) = known.get(&task) {
            return *steps;
        }
        let mut fed = Fed::default();
        space.successors(task, &mut fed);
        let after = fed.0.into_iter().map(|next| steps(space, next, known));
        let all = 1 + after.max().unwrap_or(0);
        known.insert(task, all);
        all
    }

    #[test]
    fn priorities_are_the_steps_that_remain() {
        for nt in 1..=12 {
            let (l, b) = vacant(nt, 2);
            let space = Solve::new(&l, &b, Backend::Auto).unwrap();
            let mut known = HashMap::new();
            for task in space.tasks(Rank(0)) {
                let remain = steps(&space, task, &mut known);
                assert_eq!(space.priority(task), remain, "{task:?} of nt = {nt}");
            }
        }
    }

    #[test]
    fn the_space_is_proved_on_every_grid() {
        for (p, q) in [(2, 1), (1, 2), (2, 2), (2, 3)] {
            let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
            let spread = |layout: Layout| {
                let layout = layout.distributed(grid, Rank(0)).unwrap();
                TiledMatrix::<f64>::vacant(layout, Arc::new(Heap))
            };
            for (nt, columns) in (0..=9).flat_map(|nt| (0..=3).map(move |columns| (nt, columns))) {
                let l = spread(Layout::lower(nt, 1).unwrap());
                let b = spread(Layout::general(nt, columns, 1).unwrap());
                let space = Solve::new(&l, &b, Backend::Auto).unwrap();
                verify(&space, p * q)
                    .unwrap_or_else(|fault| panic!("{nt} x {columns} on {p} x {q}: {fault}"));
            }
        }
    }

    #[test]
    fn right_hand_sides_that_do_not_fit_are_refused() {
        let l = TiledMatrix::<f64>::zeros(Layout::lower(4, 2).unwrap());
        for wrong in [
            Layout::general(5, 1, 2).unwrap(), // rows
            Layout::general(4, 1, 3).unwrap(), // tile order
            Layout::lower(4, 2).unwrap(),      // structure
        ] {
            let b = TiledMatrix::zeros(wrong);
            let refused = Solve::new(&l, &b, Backend::Auto).unwrap_err();
            assert_eq!(refused.name(), "wrong_shape", "{wrong:?}");
        }
        let general = TiledMatrix::<f64>::zeros(Layout::general(4, 4, 2).unwrap());
        let b = TiledMatrix::zeros(Layout::general(4, 1, 2).unwrap());
        assert!(Solve::new(&general, &b, Backend::Auto).is_err());
    }
}
