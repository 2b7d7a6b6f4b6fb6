//! The solution of A·X = B from the factor: L·Y = B down the tiles, Lᴴ·X = Y back up, as one
//! graph; the backward part starts where the forward part is done, without a barrier.

use crate::error::LinalgError;
use crate::kernel::{Backend, Op, gemm_op, trsm_left};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of the two triangular solves: k is the step, m the tile row that is updated,
    /// j the tile column of right-hand sides.
    pub enum SolveTask {
        Forward { k, j }, ForwardUpdate { m, k, j }, Backward { k, j }, BackwardUpdate { m, k, j },
    }
}
use SolveTask::{Backward, BackwardUpdate, Forward, ForwardUpdate};

/// The tile of B that a task overwrites.
const TILE: usize = 0;
/// The tile of L that it reads.
const FACTOR: usize = 1;
/// Updates: the solved tile.
const SOLVED: usize = 2;

/// The task space of both triangular solves: nt(nt+1) tasks for each tile column of B.
#[derive(Clone, Copy, Debug)]
pub struct Solve<'a, T: Scalar> {
    l: &'a TiledMatrix<T>,
    b: &'a TiledMatrix<T>,
    backend: Backend,
    nt: u32,
    columns: u32,
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
    let solve = Solve::new(l, b, backend)?;
    T::run_solve(&solve, (on, None, &Monitor::new())).map_err(LinalgError::Run)
}

impl<'a, T: Scalar> Solve<'a, T> {
    /// The space for a factor and right-hand sides with the same tile order.
    ///
    /// # Errors
    /// If they do not fit, or are spread over several ranks.
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
        let n_ranks = l.distribution().n_ranks().max(b.distribution().n_ranks());
        if n_ranks > 1 {
            let text =
                format!("a solve runs on one rank, these matrices are spread over {n_ranks}");
            return Err(LinalgError::Shape(text));
        }
        Ok(Solve {
            l,
            b,
            backend,
            nt: l.nt() as u32,
            columns: b.nt() as u32,
        })
    }

    fn slot(a: &TiledMatrix<T>, m: u32, n: u32) -> usize {
        let (m, n) = (m as usize, n as usize);
        a.slot(m, n).unwrap_or_else(|| m + n * a.mt())
    }

    /// The tile of L that a task reads: always of the lower triangle.
    fn factor_tile(task: SolveTask) -> (u32, u32) {
        match task {
            Forward { k, .. } | Backward { k, .. } => (k, k),
            ForwardUpdate { m, k, .. } => (m, k),
            BackwardUpdate { m, k, .. } => (k, m),
        }
    }
}

impl<T: Scalar> TaskSpace for Solve<'_, T> {
    type Task = SolveTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about
            .name("cholesky_solve")
            .parameter("n", self.l.rows())
            .parameter("nb", self.l.nb());
        about.parameter("nrhs", self.b.cols());
        about.class("Forward").update("TILE").read("FACTOR");
        about
            .class("ForwardUpdate")
            .update("TILE")
            .read("FACTOR")
            .read("SOLVED");
        about.class("Backward").update("TILE").read("FACTOR");
        about
            .class("BackwardUpdate")
            .update("TILE")
            .read("FACTOR")
            .read("SOLVED");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = SolveTask> + Send {
        let nt = self.nt;
        let of_step = move |k, j| {
            let below = (k + 1..nt).map(move |m| ForwardUpdate { m, k, j });
            let above = (0..k).map(move |m| BackwardUpdate { m, k, j });
            [Forward { k, j }, Backward { k, j }]
                .into_iter()
                .chain(below)
                .chain(above)
        };
        let steps = (0..self.columns).flat_map(move |j| (0..nt).flat_map(move |k| of_step(k, j)));
        steps.filter(move |&task| self.rank(task) == on)
    }

    fn inputs(&self, task: SolveTask, from: &mut impl Inputs<Self>) {
        let last = self.nt - 1;
        let (m, n) = Self::factor_tile(task);
        from.home(FACTOR, self.l.store(), Self::slot(self.l, m, n));
        match task {
            Forward { k: 0, j } => from.home(TILE, self.b.store(), Self::slot(self.b, 0, j)),
            Forward { k, j } => from.task(TILE, ForwardUpdate { m: k, k: k - 1, j }, TILE),
            ForwardUpdate { m, k, j } => {
                from.task(SOLVED, Forward { k, j }, TILE);
                match k {
                    0 => from.home(TILE, self.b.store(), Self::slot(self.b, m, j)),
                    _ => from.task(TILE, ForwardUpdate { m, k: k - 1, j }, TILE),
                }
            }
            Backward { k, j } if k == last => from.task(TILE, Forward { k, j }, TILE),
            Backward { k, j } => from.task(TILE, BackwardUpdate { m: k, k: k + 1, j }, TILE),
            BackwardUpdate { m, k, j } => {
                from.task(SOLVED, Backward { k, j }, TILE);
                if k == last {
                    from.task(TILE, Forward { k: m, j }, TILE);
                } else {
                    from.task(TILE, BackwardUpdate { m, k: k + 1, j }, TILE);
                }
            }
        }
    }

    fn successors(&self, task: SolveTask, to: &mut impl Successors<Self>) {
        let last = self.nt - 1;
        match task {
            Forward { k, j } => {
                to.range(TILE, k + 1..self.nt, |m| ForwardUpdate { m, k, j }, SOLVED);
                if k == last {
                    to.task(TILE, Backward { k, j }, TILE);
                } else {
                    to.task(TILE, BackwardUpdate { m: k, k: last, j }, TILE);
                }
            }
            ForwardUpdate { m, k, j } if m == k + 1 => to.task(TILE, Forward { k: m, j }, TILE),
            ForwardUpdate { m, k, j } => to.task(TILE, ForwardUpdate { m, k: k + 1, j }, TILE),
            Backward { k, j } => {
                to.range(TILE, 0..k, |m| BackwardUpdate { m, k, j }, SOLVED);
                to.home(TILE, self.b.store(), Self::slot(self.b, k, j));
            }
            BackwardUpdate { m, k, j } if k == m + 1 => to.task(TILE, Backward { k: m, j }, TILE),
            BackwardUpdate { m, k, j } => to.task(TILE, BackwardUpdate { m, k: k - 1, j }, TILE),
        }
    }

    fn run(&self, task: SolveTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        use Op::{ConjTranspose, NoTranspose};
        match task {
            Forward { .. } => {
                // B[k,j] ← L[k,k]⁻¹ · B[k,j]
                let [tile, factor] = flows.slots();
                trsm_left(self.backend, factor.read(), NoTranspose, tile.update());
            }
            Backward { .. } => {
                // B[k,j] ← L[k,k]⁻ᴴ · B[k,j]
                let [tile, factor] = flows.slots();
                trsm_left(self.backend, factor.read(), ConjTranspose, tile.update());
            }
            ForwardUpdate { .. } => {
                // B[m,j] ← B[m,j] − L[m,k] · B[k,j]
                let [tile, factor, solved] = flows.slots();
                let (factor, solved) = (factor.read(), solved.read());
                gemm_op(
                    self.backend,
                    (NoTranspose, factor),
                    (NoTranspose, solved),
                    tile.update(),
                );
            }
            BackwardUpdate { .. } => {
                // B[m,j] ← B[m,j] − L[k,m]ᴴ · B[k,j]
                let [tile, factor, solved] = flows.slots();
                let (factor, solved) = (factor.read(), solved.read());
                gemm_op(
                    self.backend,
                    (ConjTranspose, factor),
                    (NoTranspose, solved),
                    tile.update(),
                );
            }
        }
        Ok(())
    }

    fn rank(&self, task: SolveTask) -> Rank {
        let (Forward { k: m, j }
        | Backward { k: m, j }
        | ForwardUpdate { m, j, .. }
        | BackwardUpdate { m, j, .. }) = task;
        self.b.rank_of(m as usize, j as usize)
    }

    /// Steps that remain on the longest way: down to the last tile row and back up.
    fn priority(&self, task: SolveTask) -> i64 {
        let last = i64::from(self.nt) - 1;
        match task {
            Forward { k, .. } => 4 * last - 2 * i64::from(k) + 2,
            ForwardUpdate { m, k, .. } => 4 * last - i64::from(m) - i64::from(k) + 2,
            Backward { k, .. } => 2 * i64::from(k) + 1,
            BackwardUpdate { m, k, .. } => i64::from(m) + i64::from(k) + 1,
        }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = SolveTask> + Send {
        let columns = if self.nt > 0 { self.columns } else { 0 };
        let first = (0..columns).map(|j| Forward { k: 0, j });
        first.filter(move |&task| self.rank(task) == on)
    }
}

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
    fn matrices_that_are_spread_over_ranks_are_refused() {
        let grid = Distribution::BlockCyclic(Grid::new(2, 2).unwrap());
        let spread = |layout: Layout| layout.distributed(grid, Rank(0)).unwrap();
        let heap = Arc::new(Heap);
        let l = TiledMatrix::<f64>::vacant(spread(Layout::lower(4, 1).unwrap()), heap.clone());
        let b = TiledMatrix::vacant(spread(Layout::general(4, 1, 1).unwrap()), heap);
        let refused = Solve::new(&l, &b, Backend::Auto).unwrap_err();
        assert!(refused.to_string().contains("spread over 4"), "{refused}");
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
