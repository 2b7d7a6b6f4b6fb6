//! The solution of A·X = B from the factor: L·Y = B down the tiles, Lᴴ·X = Y back up, as one
//! graph; the backward part starts where the forward part is done, without a barrier.
//!
//! # Over ranks
//! A task runs where its tile of B lives. On one rank it reads its tile of L from home; over ranks a
//! tile of L is given twice, down and back up, to those who own the row of B that it updates, at
//! most [`AHEAD`] steps before it is needed: no rank holds the whole factor.

use crate::error::LinalgError;
use crate::kernel::{Backend, Op, gemm_op, trsm_left};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Courier, Executor};
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of the two triangular solves: k is the step, m the tile row that is updated,
    /// j the tile column of right-hand sides. Over ranks, tile (i, k) of L is given down and up.
    pub enum SolveTask {
        Forward { k, j }, ForwardUpdate { m, k, j }, Backward { k, j }, BackwardUpdate { m, k, j },
        GiveDown { i, k }, GiveUp { i, k },
    }
}
use SolveTask::{Backward, BackwardUpdate, Forward, ForwardUpdate, GiveDown, GiveUp};

/// The tile of B that a task overwrites.
const TILE: usize = 0;
/// The tile of L that it reads.
const FACTOR: usize = 1;
/// Updates: the solved tile.
const SOLVED: usize = 2;
/// Give: not before this.
const AFTER: usize = 1;
/// Forward and Backward: this step is done.
const DONE: usize = 2;

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
    let solve = Solve::new(l, b, backend)?;
    T::run_solve(&solve, (on, &Alone, &Monitor::new())).map_err(LinalgError::Run)
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
    pub fn run_across(
        &self,
        on: &dyn Executor,
        courier: &dyn Courier,
        monitor: &Monitor,
    ) -> Result<Report, LinalgError> {
        T::run_solve(self, (on, courier, monitor)).map_err(LinalgError::Run)
    }

    /// The tile of L that a task reads: always of the lower triangle.
    fn factor_tile(task: SolveTask) -> (u32, u32) {
        match task {
            Forward { k, .. } | Backward { k, .. } => (k, k),
            ForwardUpdate { m, k, .. } => (m, k),
            BackwardUpdate { m, k, .. } => (k, m),
            GiveDown { i, k } | GiveUp { i, k } => (i, k),
        }
    }

    /// The task that gives a task its tile of L.
    fn giver(task: SolveTask) -> SolveTask {
        let (i, k) = Self::factor_tile(task);
        match task {
            Forward { .. } | ForwardUpdate { .. } => GiveDown { i, k },
            _ => GiveUp { i, k },
        }
    }

    /// The step that a giver waits for: down by columns of L, up by its rows.
    fn before(&self, task: SolveTask) -> Option<SolveTask> {
        let last = self.nt - 1;
        match task {
            GiveDown { k, .. } => Some(Forward {
                k: k.checked_sub(AHEAD)?,
                j: 0,
            }),
            GiveUp { i, .. } if i + AHEAD <= last => Some(Backward { k: i + AHEAD, j: 0 }),
            GiveUp { .. } => Some(Forward { k: last, j: 0 }),
            _ => None,
        }
    }

    /// The edges of a finished step to the givers that it lets pass.
    fn let_pass(&self, task: SolveTask, to: &mut impl Successors<Self>) {
        let (nt, last) = (self.nt, self.nt - 1);
        let rows = match task {
            Forward { k, j: 0 } => {
                if k + AHEAD < nt {
                    let column = k + AHEAD;
                    to.range(DONE, column..nt, |i| GiveDown { i, k: column }, AFTER);
                }
                // The last step down lets the first rows pass up.
                if k == last {
                    nt.saturating_sub(AHEAD)..nt
                } else {
                    0..0
                }
            }
            Backward { k, j: 0 } if k >= AHEAD => k - AHEAD..k - AHEAD + 1,
            _ => 0..0,
        };
        for i in rows {
            to.range(DONE, 0..i + 1, |k| GiveUp { i, k }, AFTER);
        }
    }

    /// The givers on a rank: none if there is nobody to give to.
    fn givers(&self, on: Rank) -> impl Iterator<Item = SolveTask> + Send {
        let any = self.spread && self.columns > 0;
        let tiles = self.l.layout().tiles_of(on).filter(move |_| any);
        tiles.flat_map(|(i, k)| [GiveDown { i, k }, GiveUp { i, k }])
    }
}

impl<T: Scalar> TaskSpace for Solve<'_, T> {
    type Task = SolveTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("cholesky_solve");
        self.l.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend.on_this_machine());
        about.parameter("nrhs", self.b.cols());
        about.parameter("grid of B", self.b.distribution());
        let forward = about.class("Forward").update("TILE").read("FACTOR");
        forward.order("DONE");
        about
            .class("ForwardUpdate")
            .update("TILE")
            .read("FACTOR")
            .read("SOLVED");
        let backward = about.class("Backward").update("TILE").read("FACTOR");
        backward.order("DONE");
        about
            .class("BackwardUpdate")
            .update("TILE")
            .read("FACTOR")
            .read("SOLVED");
        for give in ["GiveDown", "GiveUp"] {
            about.class(give).read("TILE").order("AFTER");
        }
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
        let steps = steps.filter(move |&task| self.rank(task) == on);
        self.givers(on).chain(steps)
    }

    fn inputs(&self, task: SolveTask, from: &mut impl Inputs<Self>) {
        let last = self.nt - 1;
        let (m, n) = Self::factor_tile(task);
        match task {
            GiveDown { .. } | GiveUp { .. } => {
                from.home(TILE, self.l.store(), self.l.place(m, n));
                if let Some(before) = self.before(task) {
                    from.task(AFTER, before, DONE);
                }
            }
            _ if self.spread => from.task(FACTOR, Self::giver(task), TILE),
            _ => from.home(FACTOR, self.l.store(), self.l.place(m, n)),
        }
        match task {
            GiveDown { .. } | GiveUp { .. } => {}
            Forward { k: 0, j } => from.home(TILE, self.b.store(), self.b.place(0, j)),
            Forward { k, j } => from.task(TILE, ForwardUpdate { m: k, k: k - 1, j }, TILE),
            ForwardUpdate { m, k, j } => {
                from.task(SOLVED, Forward { k, j }, TILE);
                match k {
                    0 => from.home(TILE, self.b.store(), self.b.place(m, j)),
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
        let (last, columns) = (self.nt - 1, self.columns);
        if self.spread {
            self.let_pass(task, to);
        }
        match task {
            GiveDown { i, k } if i == k => to.range(TILE, 0..columns, |j| Forward { k, j }, FACTOR),
            GiveDown { i, k } => {
                to.range(TILE, 0..columns, |j| ForwardUpdate { m: i, k, j }, FACTOR);
            }
            GiveUp { i, k } if i == k => to.range(TILE, 0..columns, |j| Backward { k, j }, FACTOR),
            GiveUp { i, k } => {
                to.range(
                    TILE,
                    0..columns,
                    |j| BackwardUpdate { m: k, k: i, j },
                    FACTOR,
                );
            }
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
                to.home(TILE, self.b.store(), self.b.place(k, j));
            }
            BackwardUpdate { m, k, j } if k == m + 1 => to.task(TILE, Backward { k: m, j }, TILE),
            BackwardUpdate { m, k, j } => to.task(TILE, BackwardUpdate { m, k: k - 1, j }, TILE),
        }
    }

    fn run(&self, task: SolveTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        use Op::{ConjTranspose, NoTranspose};
        match task {
            GiveDown { .. } | GiveUp { .. } => {}
            Forward { .. } => {
                // B[k,j] ← L[k,k]⁻¹ · B[k,j]
                let [tile, factor, _] = flows.slots();
                trsm_left(self.backend, factor.read(), NoTranspose, tile.update());
            }
            Backward { .. } => {
                // B[k,j] ← L[k,k]⁻ᴴ · B[k,j]
                let [tile, factor, _] = flows.slots();
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
        match task {
            Forward { k: m, j }
            | Backward { k: m, j }
            | ForwardUpdate { m, j, .. }
            | BackwardUpdate { m, j, .. } => self.b.rank_of(m as usize, j as usize),
            GiveDown { i, k } | GiveUp { i, k } => self.l.rank_of(i as usize, k as usize),
        }
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

    fn roots(&self, on: Rank) -> impl Iterator<Item = SolveTask> + Send {
        let columns = if self.nt > 0 { self.columns } else { 0 };
        let alone = !self.spread;
        let first = (0..columns)
            .filter(move |_| alone)
            .map(|j| Forward { k: 0, j });
        let first = first.filter(move |&task| self.rank(task) == on);
        let givers = self.givers(on);
        first.chain(givers.filter(move |&giver| self.before(giver).is_none()))
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
