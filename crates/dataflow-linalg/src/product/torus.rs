//! The product as a pipeline around a torus of ranks: the tiles of A go from neighbour to neighbour
//! along the rows of the grid, those of B along its columns.
//!
//! # Law
//! C[m,n] is scaled, then updated for k = 0, 1, … in this order: the bits are those of
//! [`Gemm`](super::Gemm). A rank hands a tile of A to the right, and one of B down, when it has
//! multiplied by it, until all have had it; so what a rank holds follows from what its neighbours
//! have done, and nothing is given ahead. Each tile is sent once to each rank that needs it, as
//! by `Gemm`, but by its neighbour instead of its owner.
//! Old tasks come first: those of the smallest k, and of these the ones for which neighbours wait.
//!
//! # Source
//! MMULT, with its priorities: Sorensen, Baden, *Hiding communication latency with non-SPMD,
//! graph-based execution*, ICCS 2009.

use super::gemm::fits;
use super::operand::Operand;
use crate::error::LinalgError;
use crate::kernel::{Backend, gemm_add, scale};
use crate::matrix::{Layout, Tile, TiledMatrix};
use crate::scalar::{Scalar, shown};
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of a pipelined product: i and j name a stored tile of an operand, m and n a tile of
    /// C, k the step.
    pub enum TorusTask { GiveA { i, j }, GiveB { i, j }, Scale { m, n }, Update { m, n, k } }
}
use TorusTask::{GiveA, GiveB, Scale, Update};

/// The tile that a task overwrites, or hands on.
const TILE: usize = 0;
/// Update: the tile of A, the tile of B; both are handed on.
pub(super) const LEFT: usize = 1;
pub(super) const RIGHT: usize = 2;

/// The task space of C ← α·op(A)·op(B) + β·C, pipelined: a task for each tile of A, B and C, and one
/// for each step of each tile of C.
///
/// # Examples
/// See [`Gemm`](super::Gemm#examples), whose arguments it takes.
#[derive(Clone, Copy, Debug)]
pub struct Torus<'a, T: Scalar> {
    alpha: T,
    pub(super) a: Operand<'a, T>,
    pub(super) b: Operand<'a, T>,
    beta: T,
    pub(super) c: &'a TiledMatrix<T>,
    backend: Backend,
    /// Tiles in the sum; none if there is nothing to be added.
    kt: u32,
    /// Along the rows of tiles of C, and along its columns.
    across: RankRing,
    down: RankRing,
}

/// Ranks in a row or column of the grid that have a part in C, and the tiles there.
#[derive(Clone, Copy, Debug)]
struct RankRing {
    ranks: u32,
    tiles: u32,
}

impl RankRing {
    /// Where a tile that stands at `k` in its row enters.
    fn entry(self, k: u32, of_grid: u32) -> u32 {
        let owner = k % of_grid;
        if owner < self.ranks { owner } else { 0 }
    }

    /// Who has the tile before a rank; `None` at the entry.
    fn before(self, rank: u32, entry: u32) -> Option<u32> {
        (rank != entry).then_some((rank + self.ranks - 1) % self.ranks)
    }

    /// Who has it next; `None` behind the last.
    fn after(self, rank: u32, entry: u32) -> Option<u32> {
        let next = (rank + 1) % self.ranks;
        (next != entry).then_some(next)
    }

    /// How many tiles of a row a rank has.
    fn tiles_of(self, rank: u32) -> u32 {
        (self.tiles - rank).div_ceil(self.ranks)
    }
}

impl<'a, T: Scalar> Torus<'a, T> {
    /// The space for matrices with the same tile order; each may have a distribution of its own, but
    /// tiles of A or B that lie in another row or column of ranks are sent once more.
    ///
    /// # Errors
    /// As [`gemm`](super::gemm); an operand stored as [`Lower`](crate::matrix::Structure::Lower) is
    /// refused.
    pub fn new(
        alpha: T,
        a: Operand<'a, T>,
        b: Operand<'a, T>,
        beta: T,
        c: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        fits(&a, &b, c)?;
        if a.is_hermitian() || b.is_hermitian() {
            let text = "a triangle in a pipelined product (both operands must be General)";
            return Err(LinalgError::Shape(text.to_owned()));
        }
        let (mt, nt) = (c.mt() as u32, c.nt() as u32);
        let nothing = alpha == T::zero() || mt == 0 || nt == 0;
        let (p, q) = c.grid();
        let ring = |ranks: u32, tiles: u32| RankRing {
            ranks: ranks.min(tiles),
            tiles,
        };
        Ok(Torus {
            alpha,
            a,
            b,
            beta,
            c,
            backend,
            kt: if nothing { 0 } else { a.tiles().1 },
            across: ring(q, nt),
            down: ring(p, mt),
        })
    }

    /// Runs this rank's part of the product; every rank calls it with its parts of the matrices.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers, the same on every rank.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a.matrix, self.b.matrix, self.c], on)
            .map_err(LinalgError::Run)
    }

    /// Where tiles of A of step k enter their row of ranks, and tiles of B their column.
    fn entries(&self, k: u32) -> (u32, u32) {
        let (p, q) = self.c.grid();
        (self.across.entry(k, q), self.down.entry(k, p))
    }

    /// The updates on a rank of the ring that read tile (m, k) of op(A).
    fn feed_a(&self, m: u32, k: u32, (flow, rank): (usize, u32), to: &mut impl Successors<Self>) {
        let step = self.across.ranks;
        let on_rank = 0..self.across.tiles_of(rank);
        let update = |x| Update {
            m,
            n: rank + x * step,
            k,
        };
        to.range(flow, on_rank, update, LEFT);
    }

    /// The updates on a rank of the ring that read tile (k, n) of op(B).
    fn feed_b(&self, k: u32, n: u32, (flow, rank): (usize, u32), to: &mut impl Successors<Self>) {
        let step = self.down.ranks;
        let on_rank = 0..self.down.tiles_of(rank);
        let update = |x| Update {
            m: rank + x * step,
            n,
            k,
        };
        to.range(flow, on_rank, update, RIGHT);
    }
}

/// The tasks of a rank, by the layouts of A, B and C.
fn tasks_of(
    [a, b, c]: [&Layout; 3],
    kt: u32,
    on: Rank,
) -> impl Iterator<Item = TorusTask> + Send + use<> {
    let given = |of: &Layout| of.tiles_of(on).filter(move |_| kt > 0);
    let of_a = given(a).map(|(i, j)| GiveA { i, j });
    let of_b = given(b).map(|(i, j)| GiveB { i, j });
    let updates = move |(m, n)| {
        let steps = (0..kt).map(move |k| Update { m, n, k });
        std::iter::once(Scale { m, n }).chain(steps)
    };
    let own = c.tiles_of(on).flat_map(updates);
    of_a.chain(of_b).chain(own)
}

impl<T: Scalar> TaskSpace for Torus<'_, T> {
    type Task = TorusTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("torus").parameter("m", self.c.rows());
        about.parameter("k", self.a.shape().1);
        self.c.layout().describe(about);
        about.parameter("grid of A", self.a.matrix.distribution());
        about.parameter("grid of B", self.b.matrix.distribution());
        about.parameter("ops", format!("{:?}", (self.a.op(), self.b.op())));
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend);
        about.parameter("alpha", shown(self.alpha));
        about.parameter("beta", shown(self.beta));
        for class in ["GiveA", "GiveB"] {
            about.class(class).read("TILE");
        }
        about.class("Scale").update("TILE");
        let update = about.class("Update").update("TILE");
        update.read("LEFT").read("RIGHT");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = TorusTask> + Send {
        let (a, b) = (self.a.matrix.layout(), self.b.matrix.layout());
        tasks_of([a, b, self.c.layout()], self.kt, on)
    }

    fn inputs(&self, task: TorusTask, from: &mut impl Inputs<Self>) {
        let (m, n, k) = match task {
            GiveA { i, j } => {
                return from.home(TILE, self.a.matrix.store(), self.a.matrix.place(i, j));
            }
            GiveB { i, j } => {
                return from.home(TILE, self.b.matrix.store(), self.b.matrix.place(i, j));
            }
            Scale { m, n } => return from.home(TILE, self.c.store(), self.c.place(m, n)),
            Update { m, n, k } => (m, n, k),
        };
        match k.checked_sub(1) {
            None => from.task(TILE, Scale { m, n }, TILE),
            Some(k) => from.task(TILE, Update { m, n, k }, TILE),
        }
        let (across, down) = self.entries(k);
        match self.across.before(n % self.across.ranks, across) {
            Some(n) => from.task(LEFT, Update { m, n, k }, LEFT),
            None => {
                let (i, j) = self.a.stored(m, k).tile;
                from.task(LEFT, GiveA { i, j }, TILE);
            }
        }
        match self.down.before(m % self.down.ranks, down) {
            Some(m) => from.task(RIGHT, Update { m, n, k }, RIGHT),
            None => {
                let (i, j) = self.b.stored(k, n).tile;
                from.task(RIGHT, GiveB { i, j }, TILE);
            }
        }
    }

    fn successors(&self, task: TorusTask, to: &mut impl Successors<Self>) {
        let (m, n, next) = match task {
            GiveA { i, j } => {
                for (m, k) in self.a.places((i, j)) {
                    self.feed_a(m, k, (TILE, self.entries(k).0), to);
                }
                return;
            }
            GiveB { i, j } => {
                for (k, n) in self.b.places((i, j)) {
                    self.feed_b(k, n, (TILE, self.entries(k).1), to);
                }
                return;
            }
            Scale { m, n } => (m, n, 0),
            Update { m, n, k } => (m, n, k + 1),
        };
        match next == self.kt {
            true => to.home(TILE, self.c.store(), self.c.place(m, n)),
            false => to.task(TILE, Update { m, n, k: next }, TILE),
        }
        if let Update { m, n, k } = task {
            let (across, down) = self.entries(k);
            // The first tile of a rank in a row, or column, hands on.
            let right = self.across.after(n % self.across.ranks, across);
            if let Some(right) = right.filter(|_| n < self.across.ranks) {
                self.feed_a(m, k, (LEFT, right), to);
            }
            let below = self.down.after(m % self.down.ranks, down);
            if let Some(below) = below.filter(|_| m < self.down.ranks) {
                self.feed_b(k, n, (RIGHT, below), to);
            }
        }
    }

    fn run(&self, task: TorusTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            GiveA { .. } | GiveB { .. } => {}
            Scale { .. } => {
                // C[m,n] ← β · C[m,n]
                let [tile] = flows.slots();
                scale(self.beta, tile.update());
            }
            Update { .. } => {
                // C[m,n] ← C[m,n] + α · op(A)[m,k] · op(B)[k,n]
                let [tile, left, right] = flows.slots();
                let left = (self.a.op(), left.read());
                let right = (self.b.op(), right.read());
                gemm_add(self.backend, self.alpha, left, right, tile.update());
            }
        }
        Ok(())
    }

    fn rank(&self, task: TorusTask) -> Rank {
        let (of, i, j) = match task {
            GiveA { i, j } => (self.a.matrix, i, j),
            GiveB { i, j } => (self.b.matrix, i, j),
            Scale { m, n } | Update { m, n, .. } => (self.c, m, n),
        };
        of.rank_of(i as usize, j as usize)
    }

    fn priority(&self, task: TorusTask) -> i64 {
        match task {
            Update { m, n, k } => {
                let hands_on = n < self.across.ranks || m < self.down.ranks;
                i64::from(hands_on) - 2 * i64::from(k)
            }
            GiveA { .. } | GiveB { .. } => 2,
            Scale { .. } => -1,
        }
    }
}

#[cfg(test)]
mod tests;
