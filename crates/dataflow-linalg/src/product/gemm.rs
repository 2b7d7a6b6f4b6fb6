//! The product as a graph: each tile of C is a chain of updates; the tiles of A go along its rows,
//! those of B along its columns.
//!
//! # Law
//! C[m,n] is scaled, then updated for k = 0, 1, … in this order: its bits depend on the matrices,
//! the tile order and the backend only. A task runs where its tile of C lives; a tile of A or B is
//! given once to each rank that needs it, at most [`AHEAD`] steps before its first use there.
//!
//! # Source
//! Owner-computes with broadcasts along rows and columns: van de Geijn, Watts, *SUMMA: scalable
//! universal matrix multiplication algorithm*, Concurrency 9 (1997).

use super::operand::{Operand, mirrored};
use crate::error::LinalgError;
use crate::kernel::{Backend, gemm_add, scale};
use crate::matrix::{Distribution, Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Courier, Executor};
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of a product: i and j name a stored tile of an operand, m and n a tile of C, k the
    /// step.
    pub enum ProductTask {
        GiveA { i, j }, MirrorA { i }, GiveB { i, j }, MirrorB { i }, Scale { m, n }, Update { m, n, k },
    }
}
use ProductTask::{GiveA, GiveB, MirrorA, MirrorB, Scale, Update};

/// The tile that a task overwrites, or hands on.
const TILE: usize = 0;
/// Give and Mirror: not before this.
const AFTER: usize = 1;
/// Mirror: the lower triangle.
const TRIANGLE: usize = 2;
/// Update: the tile of A, the tile of B.
const LEFT: usize = 1;
const RIGHT: usize = 2;
/// Update: this step is done.
const DONE: usize = 3;

/// How many steps before its first use a tile may be given to other ranks: it bounds what a rank
/// holds of A and B.
const AHEAD: u32 = 4;

/// The task space of C ← α·op(A)·op(B) + β·C: a task for each tile of A, B and C, and one for each
/// step of each tile of C.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a, T: Scalar> {
    alpha: T,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    beta: T,
    c: &'a TiledMatrix<T>,
    backend: Backend,
    /// Tiles of C.
    mt: u32,
    nt: u32,
    /// Tiles in the sum; none if there is nothing to be added.
    kt: u32,
    /// Steps that tiles may be given ahead; all of them on one rank.
    ahead: u32,
}

/// Overwrites `c` by α·op(A)·op(B) + β·C. 2·m·n·k flops; copies no tile.
///
/// With β = 0 nothing is read of C; with α = 0 nothing of A and B.
///
/// # Errors
/// If shapes or tile orders disagree, C is one of the operands or not stored as
/// [`Structure::General`]; if the run fails.
pub fn gemm<T: Scalar>(
    alpha: T,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    beta: T,
    c: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    Gemm::new(alpha, a, b, beta, c, backend)?.run_across(on, &Alone, &Monitor::new())
}

impl<'a, T: Scalar> Gemm<'a, T> {
    /// The space for matrices with the same tile order; each may have a distribution of its own.
    ///
    /// # Errors
    /// As [`gemm`].
    pub fn new(
        alpha: T,
        a: Operand<'a, T>,
        b: Operand<'a, T>,
        beta: T,
        c: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        fits(&a, &b, c)?;
        let (mt, nt) = (c.mt() as u32, c.nt() as u32);
        let nothing = alpha == T::zero() || mt == 0 || nt == 0;
        let kt = if nothing { 0 } else { a.tiles().1 };
        let n_ranks = [a.matrix, b.matrix, c].map(|x| x.distribution().n_ranks());
        let ahead = if n_ranks == [1; 3] { kt } else { AHEAD };
        Ok(Gemm {
            alpha,
            a,
            b,
            beta,
            c,
            backend,
            mt,
            nt,
            kt,
            ahead,
        })
    }

    /// Runs this rank's part of the product; every rank calls it with its parts of the matrices.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers, the same on every rank.
    pub fn run_across(
        &self,
        on: &dyn Executor,
        courier: &dyn Courier,
        monitor: &Monitor,
    ) -> Result<Report, LinalgError> {
        T::run_gemm(self, (on, courier, monitor)).map_err(LinalgError::Run)
    }

    /// The update that a tile of A, first used at (m, k), waits for: on the giver's rank where the
    /// grid allows it.
    fn before_a(&self, m: u32, k: u32) -> Option<ProductTask> {
        let k = k.checked_sub(self.ahead)?;
        let n = self.column_of(k);
        Some(Update { m, n, k })
    }

    /// The same of a tile of B, first used at (k, n).
    fn before_b(&self, k: u32, n: u32) -> Option<ProductTask> {
        let k = k.checked_sub(self.ahead)?;
        let m = self.row_of(k);
        Some(Update { m, n, k })
    }

    /// The column of C whose step k lets tiles of A pass.
    fn column_of(&self, k: u32) -> u32 {
        let Distribution::BlockCyclic(grid) = self.c.distribution();
        let column = (k + self.ahead) % grid.q() as u32;
        if column < self.nt { column } else { 0 }
    }

    /// The row of C whose step k lets tiles of B pass.
    fn row_of(&self, k: u32) -> u32 {
        let Distribution::BlockCyclic(grid) = self.c.distribution();
        let row = (k + self.ahead) % grid.p() as u32;
        if row < self.mt { row } else { 0 }
    }

    /// The task that hands on what stands at (i, k) of op(A).
    fn giver_a(&self, i: u32, k: u32) -> ProductTask {
        let stored = self.a.stored(i, k);
        let (i, j) = stored.tile;
        match stored.is_triangle {
            true => MirrorA { i },
            false => GiveA { i, j },
        }
    }

    /// The task that hands on what stands at (k, j) of op(B).
    fn giver_b(&self, k: u32, j: u32) -> ProductTask {
        let stored = self.b.stored(k, j);
        let (i, j) = stored.tile;
        match stored.is_triangle {
            true => MirrorB { i },
            false => GiveB { i, j },
        }
    }

    /// What a giver waits for: the first place of its tile decides.
    fn before(&self, task: ProductTask) -> Option<ProductTask> {
        match task {
            GiveA { i, j } => {
                let (m, k) = self.a.places((i, j)).min_by_key(|&(_, k)| k)?;
                self.before_a(m, k)
            }
            MirrorA { i } => self.before_a(i, i),
            GiveB { i, j } => {
                let (k, n) = self.b.places((i, j)).min_by_key(|&(k, _)| k)?;
                self.before_b(k, n)
            }
            MirrorB { i } => self.before_b(i, i),
            Scale { .. } | Update { .. } => None,
        }
    }

    /// The givers on a rank.
    fn givers(&self, on: Rank) -> impl Iterator<Item = ProductTask> + Send {
        let any = self.kt > 0;
        let of_a = self.a.matrix.layout().tiles_of(on).filter(move |_| any);
        let of_b = self.b.matrix.layout().tiles_of(on).filter(move |_| any);
        let (mirror_a, mirror_b) = (self.a.is_hermitian(), self.b.is_hermitian());
        let of_a = of_a.map(move |(i, j)| match mirror_a && i == j {
            true => MirrorA { i },
            false => GiveA { i, j },
        });
        let of_b = of_b.map(move |(i, j)| match mirror_b && i == j {
            true => MirrorB { i },
            false => GiveB { i, j },
        });
        of_a.chain(of_b)
    }
}

/// Whether there is such a product.
pub(super) fn fits<T: Scalar>(
    a: &Operand<'_, T>,
    b: &Operand<'_, T>,
    c: &TiledMatrix<T>,
) -> Result<(), LinalgError> {
    let ((m, k), (l, n)) = (a.shape(), b.shape());
    if k != l || (c.rows(), c.cols()) != (m, n) || c.structure() != Structure::General {
        return Err(LinalgError::Shape(format!(
            "a product of {m} x {k} and {l} x {n} does not fit into {} x {} ({:?})",
            c.rows(),
            c.cols(),
            c.structure()
        )));
    }
    let orders = [a.matrix.nb(), b.matrix.nb(), c.nb()];
    if orders != [c.nb(); 3] {
        return Err(LinalgError::Shape(format!(
            "a product of tiles of order {} and {} into tiles of order {} (all must be alike)",
            orders[0], orders[1], orders[2]
        )));
    }
    if a.is_conjugate() || b.is_conjugate() {
        let text = "the plain transpose of a Hermitian matrix is not stored (take its adjoint)";
        return Err(LinalgError::Shape(text.to_owned()));
    }
    if std::ptr::eq(a.matrix, c) || std::ptr::eq(b.matrix, c) {
        let text = "the result of a product is one of its operands (it must be another matrix)";
        return Err(LinalgError::Shape(text.to_owned()));
    }
    Ok(())
}

impl<T: Scalar> TaskSpace for Gemm<'_, T> {
    type Task = ProductTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("gemm").parameter("m", self.c.rows());
        about.parameter("k", self.a.shape().1);
        self.c.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend.on_this_machine());
        about.parameter("alpha", format!("{:?}", self.alpha));
        about.parameter("beta", format!("{:?}", self.beta));
        for (operand, give, mirror) in [("A", "GiveA", "MirrorA"), ("B", "GiveB", "MirrorB")] {
            let of = if operand == "A" { self.a } else { self.b };
            about.parameter(format!("grid of {operand}"), of.matrix.distribution());
            about.class(give).read("TILE").order("AFTER");
            let mirror = about.class(mirror).new_flow("TILE");
            mirror.order("AFTER").read("TRIANGLE");
        }
        about.class("Scale").update("TILE");
        let update = about.class("Update").update("TILE");
        update.read("LEFT").read("RIGHT").order("DONE");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = ProductTask> + Send {
        let kt = self.kt;
        let updates = move |(m, n)| {
            let steps = (0..kt).map(move |k| Update { m, n, k });
            std::iter::once(Scale { m, n }).chain(steps)
        };
        let own = self.c.layout().tiles_of(on).flat_map(updates);
        self.givers(on).chain(own)
    }

    fn inputs(&self, task: ProductTask, from: &mut impl Inputs<Self>) {
        match task {
            GiveA { i, j } => from.home(TILE, self.a.matrix.store(), self.a.matrix.place(i, j)),
            GiveB { i, j } => from.home(TILE, self.b.matrix.store(), self.b.matrix.place(i, j)),
            MirrorA { i } => from.home(TRIANGLE, self.a.matrix.store(), self.a.matrix.place(i, i)),
            MirrorB { i } => from.home(TRIANGLE, self.b.matrix.store(), self.b.matrix.place(i, i)),
            Scale { m, n } => from.home(TILE, self.c.store(), self.c.place(m, n)),
            Update { m, n, k } => {
                match k.checked_sub(1) {
                    None => from.task(TILE, Scale { m, n }, TILE),
                    Some(k) => from.task(TILE, Update { m, n, k }, TILE),
                }
                from.task(LEFT, self.giver_a(m, k), TILE);
                from.task(RIGHT, self.giver_b(k, n), TILE);
            }
        }
        if let Some(before) = self.before(task) {
            from.task(AFTER, before, DONE);
        }
    }

    fn successors(&self, task: ProductTask, to: &mut impl Successors<Self>) {
        let (mt, nt, kt) = (self.mt, self.nt, self.kt);
        let tile = match task {
            GiveA { i, j } | GiveB { i, j } => (i, j),
            MirrorA { i } | MirrorB { i } => (i, i),
            Scale { m, n } | Update { m, n, .. } => (m, n),
        };
        match task {
            GiveA { .. } | MirrorA { .. } => {
                for (m, k) in self.a.places(tile) {
                    to.range(TILE, 0..nt, |n| Update { m, n, k }, LEFT);
                }
            }
            GiveB { .. } | MirrorB { .. } => {
                for (k, n) in self.b.places(tile) {
                    to.range(TILE, 0..mt, |m| Update { m, n, k }, RIGHT);
                }
            }
            Scale { m, n } if kt == 0 => to.home(TILE, self.c.store(), self.c.place(m, n)),
            Scale { m, n } => to.task(TILE, Update { m, n, k: 0 }, TILE),
            Update { m, n, k } => {
                match k + 1 == kt {
                    true => to.home(TILE, self.c.store(), self.c.place(m, n)),
                    false => to.task(TILE, Update { m, n, k: k + 1 }, TILE),
                }
                let ahead = k.saturating_add(self.ahead);
                if ahead < kt {
                    for giver in [self.giver_a(m, ahead), self.giver_b(ahead, n)] {
                        if self.before(giver) == Some(task) {
                            to.task(DONE, giver, AFTER);
                        }
                    }
                }
            }
        }
    }

    fn run(&self, task: ProductTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            GiveA { .. } | GiveB { .. } => {}
            MirrorA { .. } | MirrorB { .. } => {
                let [tile, _, triangle] = flows.slots();
                tile.put(mirrored(triangle.read()));
            }
            Scale { .. } => {
                // C[m,n] ← β · C[m,n]
                let [tile] = flows.slots();
                scale(self.beta, tile.update());
            }
            Update { m, n, k } => {
                // C[m,n] ← C[m,n] + α · op(A)[m,k] · op(B)[k,n]
                let [tile, left, right, _] = flows.slots();
                let (op_a, op_b) = (self.a.stored(m, k).op, self.b.stored(k, n).op);
                let (left, right) = ((op_a, left.read()), (op_b, right.read()));
                gemm_add(self.backend, self.alpha, left, right, tile.update());
            }
        }
        Ok(())
    }

    fn rank(&self, task: ProductTask) -> Rank {
        let (of, i, j) = match task {
            GiveA { i, j } => (self.a.matrix, i, j),
            MirrorA { i } => (self.a.matrix, i, i),
            GiveB { i, j } => (self.b.matrix, i, j),
            MirrorB { i } => (self.b.matrix, i, i),
            Scale { m, n } | Update { m, n, .. } => (self.c, m, n),
        };
        of.rank_of(i as usize, j as usize)
    }

    /// A few steps at a time, so that ranks need the same tiles at once; what is given comes first.
    /// A chain is begun when no other can go on, and from a queue, where every worker finds it: what
    /// has no priority stays with the worker that announced it.
    fn priority(&self, task: ProductTask) -> i64 {
        let turn = |k: u32| -3 * i64::from(k / self.ahead.max(1));
        match task {
            Scale { .. } => -1,
            Update { k, .. } => turn(k),
            giver => {
                let before = self.before(giver);
                let first = before.map_or(0, |before| match before {
                    Update { k, .. } => k + self.ahead,
                    _ => 0,
                });
                turn(first) + 1
            }
        }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = ProductTask> + Send {
        let givers = self.givers(on);
        let first = givers.filter(|&giver| self.before(giver).is_none());
        let own = self.c.layout().tiles_of(on);
        first.chain(own.map(|(m, n)| Scale { m, n }))
    }

    fn count(&self, on: Rank) -> u64 {
        let tiles = |of: &TiledMatrix<T>| of.layout().seen_from(on).map_or(0, |on| on.n_slots());
        let given = match self.kt {
            0 => 0,
            _ => tiles(self.a.matrix) + tiles(self.b.matrix),
        };
        given as u64 + tiles(self.c) as u64 * (1 + u64::from(self.kt))
    }
}

#[cfg(test)]
mod tests;
