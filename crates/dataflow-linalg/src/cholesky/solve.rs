//! The solution of A·X = B from the factor: L·Y = B down the tiles, Lᴴ·X = Y back up, as one
//! graph; the backward part starts where the forward part is done, without a barrier.

use super::CholeskyError;
use crate::kernel::{Backend, Op, gemm_op, trsm_left};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::{Report, run, task_names};

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
#[derive(Debug)]
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
) -> Result<Report, CholeskyError> {
    run(&Solve::new(l, b, backend)?, on).map_err(CholeskyError::Run)
}

impl<'a, T: Scalar> Solve<'a, T> {
    /// The space for a factor and right-hand sides with the same tile order.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn new(
        l: &'a TiledMatrix<T>,
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, CholeskyError> {
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
            return Err(CholeskyError::Shape(text));
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
            ForwardUpdate { m, .. } => 4 * last - 2 * i64::from(m) + 3,
            Backward { k, .. } => 2 * i64::from(k) + 1,
            BackwardUpdate { m, .. } => 2 * i64::from(m) + 2,
        }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = SolveTask> + Send {
        let columns = if self.nt > 0 { self.columns } else { 0 };
        let first = (0..columns).map(|j| Forward { k: 0, j });
        first.filter(move |&task| self.rank(task) == on)
    }
}
