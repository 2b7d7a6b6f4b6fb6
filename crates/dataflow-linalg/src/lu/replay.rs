//! The solution of A·X = B from factors with incremental pivoting: what was done to a column of A is
//! done to those of B, then U is solved.
//!
//! # Law
//! The steps on a tile form one chain in each direction; so the bits of X depend on the factors, B,
//! the tile order and the backend only. Aᵀ and Aᴴ are not solved for: L is a sequence of steps that
//! would have to be taken backwards, each transposed.

use super::exchanges::Exchanges;
use super::factor::expect_regular;
use super::incremental::{exchange, steps_shape};
use super::pivots::{expect_general, words_bytes};
use super::solve::expect_sides;
use crate::error::LinalgError;
use crate::kernel::{Backend, Diagonal, Op, Side, Triangle, gemm_op, ssssm, trsm_op};
use crate::matrix::{Part, Tile, TiledMatrix, column_by_column};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::placed;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of a solution: k is the step, m the tile row that is changed, j the tile column of
    /// right-hand sides; Give and GiveSteps have the indices of a tile of the factors.
    pub enum ReplayTask {
        Give { m, n }, GiveSteps { m, k },
        Forward { k, j }, Pair { m, k, j }, Backward { k, j }, Update { m, k, j },
    }
}
use ReplayTask::{Backward, Forward, Give, GiveSteps, Pair, Update};

/// The tile of B that a task overwrites, of Pair that of row k; of a giver what it gives.
const TILE: usize = 0;
/// Pair: the tile of row m.
pub(super) const BELOW: usize = 1;
/// Forward, Backward and Update: the tile of the factors.
const FACTOR: usize = 1;
/// Forward: the row swaps.
const SWAPS: usize = 2;
/// Update: the solved tile.
const SOLVED: usize = 2;
/// Pair: the multipliers, and the steps.
const LEFT: usize = 2;
const STEPS: usize = 3;

/// The task space of a solution: about nt² tasks for each tile column of B.
///
/// # Examples
/// See [`factor_incremental`](super::factor_incremental), for whose factors it is, and [`solve_incremental`].
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a, T: Scalar> {
    pub(super) lu: &'a TiledMatrix<T>,
    exchanges: &'a Exchanges<T>,
    pub(super) b: &'a TiledMatrix<T>,
    backend: Backend,
    nt: u32,
    columns: u32,
}

/// Overwrites `b` by the solution X of A·X = B; `lu` and `exchanges` are what
/// [`factor_incremental`](super::factor_incremental) left. 2n² flops for each column.
///
/// # Errors
/// As [`solve`](super::solve).
pub fn solve_incremental<T: Scalar>(
    lu: &TiledMatrix<T>,
    exchanges: &Exchanges<T>,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let solve = Replay::new(lu, exchanges, b, backend)?;
    expect_regular(lu, on)?;
    solve.run(on)
}

impl<'a, T: Scalar> Replay<'a, T> {
    /// The space for factors of a square matrix and right-hand sides of the same tile order, on
    /// the same grid.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn new(
        lu: &'a TiledMatrix<T>,
        exchanges: &'a Exchanges<T>,
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        expect_general(lu)?;
        exchanges.expect_of(lu)?;
        expect_sides(lu, b)?;
        Ok(Replay {
            lu,
            exchanges,
            b,
            backend,
            nt: lu.nt() as u32,
            columns: b.nt() as u32,
        })
    }

    /// Runs this rank's part of the solution; every rank calls it with its part of the matrices.
    /// Does not look for zero pivots.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.lu, self.b], on).map_err(LinalgError::Run)
    }

    /// Bytes of the steps by which tile (m, k) of the factors came about.
    pub(super) fn steps_bytes(&self, m: u32, k: u32) -> u64 {
        let (rows, cols) = self.lu.tile_shape((m, k));
        match m == k {
            true => words_bytes::<T>(rows.min(cols)),
            false => Part::Whole.bytes::<T>(steps_shape(cols)),
        }
    }

    /// Who changes tile (m, j) in step k on the way down, and by which flow.
    fn step(m: u32, k: u32, j: u32) -> (ReplayTask, usize) {
        match m == k {
            true => (Forward { k, j }, TILE),
            false => (Pair { m, k, j }, BELOW),
        }
    }

    /// Who changed the tile of row k in column j last on the way down.
    fn finished(&self, k: u32, j: u32) -> ReplayTask {
        match k + 1 < self.nt {
            true => Pair {
                m: self.nt - 1,
                k,
                j,
            },
            false => Forward { k, j },
        }
    }

    /// The first task on the way back that changes tile (m, j).
    fn back(&self, m: u32, j: u32) -> ReplayTask {
        match m + 1 < self.nt {
            true => Update {
                m,
                k: self.nt - 1,
                j,
            },
            false => Backward { k: m, j },
        }
    }
}

/// The tasks of all ranks.
fn all_tasks(nt: u32, columns: u32) -> impl Iterator<Item = ReplayTask> + Send {
    let needed = if columns > 0 { nt } else { 0 };
    let give = (0..needed).flat_map(move |n| {
        let steps = (n..nt).map(move |m| GiveSteps { m, k: n });
        (0..nt).map(move |m| Give { m, n }).chain(steps)
    });
    let of_step = move |(k, j)| {
        let below = (k + 1..nt).map(move |m| Pair { m, k, j });
        let above = (0..k).map(move |m| Update { m, k, j });
        let own = [Forward { k, j }, Backward { k, j }];
        own.into_iter().chain(below).chain(above)
    };
    give.chain(column_by_column(nt, columns).flat_map(of_step))
}

impl<T: Scalar> TaskSpace for Replay<'_, T> {
    type Task = ReplayTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("lu_solve");
        self.lu.layout().describe(about);
        about.parameter("nrhs", self.b.cols());
        about.parameter("backend", self.backend);
        about.parameter("pivoting", "incremental");
        about.class("Give").read("TILE");
        about.class("GiveSteps").read("STEPS").of("steps");
        let forward = about.class("Forward").update("TILE");
        let forward = forward.read("FACTOR");
        forward.read("SWAPS").of("steps");
        let pair = about.class("Pair").update("TILE").update("BELOW");
        let pair = pair.read("LEFT");
        pair.read("STEPS").of("steps");
        let backward = about.class("Backward").update("TILE");
        backward.read("FACTOR");
        let update = about.class("Update").update("TILE");
        update.read("FACTOR").read("SOLVED");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = ReplayTask> + Send {
        placed(self, on, all_tasks(self.nt, self.columns))
    }

    fn inputs(&self, task: ReplayTask, from: &mut impl Inputs<Self>) {
        match task {
            Give { m, n } => from.home(TILE, self.lu.store(), self.lu.place(m, n)),
            GiveSteps { m, k } => {
                from.home(TILE, self.exchanges.store(), self.exchanges.slot(m, k));
            }
            Forward { k: m, j } | Pair { m, j, .. } => {
                let (k, (_, flow)) = match task {
                    Pair { k, .. } => (k, Self::step(m, k, j)),
                    _ => (m, Self::step(m, m, j)),
                };
                match k.checked_sub(1) {
                    None => from.home(flow, self.b.store(), self.b.place(m, j)),
                    Some(k) => from.task(flow, Pair { m, k, j }, BELOW),
                }
                if m == k {
                    from.task(FACTOR, Give { m, n: k }, TILE);
                    from.task(SWAPS, GiveSteps { m, k }, TILE);
                } else {
                    let (above, _) = Self::step(m - 1, k, j);
                    from.task(TILE, above, TILE);
                    from.task(LEFT, Give { m, n: k }, TILE);
                    from.task(STEPS, GiveSteps { m, k }, TILE);
                }
            }
            Backward { k, j } => {
                let before = match k + 1 < self.nt {
                    true => Update { m: k, k: k + 1, j },
                    false => self.finished(k, j),
                };
                from.task(TILE, before, TILE);
                from.task(FACTOR, Give { m: k, n: k }, TILE);
            }
            Update { m, k, j } => {
                let before = match k + 1 < self.nt {
                    true => Update { m, k: k + 1, j },
                    false => self.finished(m, j),
                };
                from.task(TILE, before, TILE);
                from.task(FACTOR, Give { m, n: k }, TILE);
                from.task(SOLVED, Backward { k, j }, TILE);
            }
        }
    }

    fn successors(&self, task: ReplayTask, to: &mut impl Successors<Self>) {
        let nt = self.nt;
        match task {
            Give { m, n } => {
                for j in 0..self.columns {
                    if m == n {
                        to.task(TILE, Forward { k: m, j }, FACTOR);
                        to.task(TILE, Backward { k: m, j }, FACTOR);
                    } else if m > n {
                        to.task(TILE, Pair { m, k: n, j }, LEFT);
                    } else {
                        to.task(TILE, Update { m, k: n, j }, FACTOR);
                    }
                }
            }
            GiveSteps { m, k } if m == k => {
                to.range(TILE, 0..self.columns, |j| Forward { k, j }, SWAPS);
            }
            GiveSteps { m, k } => to.range(TILE, 0..self.columns, |j| Pair { m, k, j }, STEPS),
            Forward { k: m, j } | Pair { m, j, .. } => {
                let k = match task {
                    Pair { k, .. } => k,
                    _ => m,
                };
                if m > k {
                    let (next, flow) = Self::step(m, k + 1, j);
                    to.task(BELOW, next, flow);
                }
                match m + 1 < nt {
                    true => to.task(TILE, Pair { m: m + 1, k, j }, TILE),
                    false => to.task(TILE, self.back(k, j), TILE),
                }
            }
            Backward { k, j } => {
                to.range(TILE, 0..k, |m| Update { m, k, j }, SOLVED);
                to.home(TILE, self.b.store(), self.b.place(k, j));
            }
            Update { m, k, j } if k == m + 1 => to.task(TILE, Backward { k: m, j }, TILE),
            Update { m, k, j } => to.task(TILE, Update { m, k: k - 1, j }, TILE),
        }
    }

    fn run(&self, task: ReplayTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            // What it has is only handed on.
            Give { .. } | GiveSteps { .. } => {}
            Forward { .. } => {
                // B[k,j] ← L[k,k]⁻¹ · P·B[k,j]
                let [tile, factor, swaps] = flows.slots();
                exchange(self.backend, factor.read(), swaps.read(), tile.update());
            }
            Pair { .. } => {
                // [B[k,j]; B[m,j]] ← the steps of tile (m,k)
                let [above, below, left, steps] = flows.slots();
                let pair = (above.update(), below.update());
                ssssm(self.backend, left.read(), steps.read(), pair);
            }
            Backward { .. } => {
                // B[k,j] ← U[k,k]⁻¹ · B[k,j]
                let [tile, factor] = flows.slots();
                let upper = (Triangle::Upper, Diagonal::NonUnit);
                let factor = (Op::NoTranspose, upper, factor.read());
                trsm_op(self.backend, Side::Left, factor, tile.update());
            }
            Update { .. } => {
                // B[m,j] ← B[m,j] − U[m,k]·B[k,j]
                let [tile, factor, solved] = flows.slots();
                let factor = (Op::NoTranspose, factor.read());
                let solved = (Op::NoTranspose, solved.read());
                gemm_op(self.backend, factor, solved, tile.update());
            }
        }
        Ok(())
    }

    fn rank(&self, task: ReplayTask) -> Rank {
        let (m, n) = match task {
            Give { m, n } => (m, n),
            GiveSteps { m, k } => (m, k),
            Forward { k, j } | Backward { k, j } => (k, j),
            Pair { m, j, .. } | Update { m, j, .. } => (m, j),
        };
        self.lu.rank_of(m as usize, n as usize)
    }

    /// Steps that remain on the longest way, down to the last tile row and back up; tiles of the
    /// factors when they are needed.
    fn priority(&self, task: ReplayTask) -> i64 {
        let last = i64::from(self.nt) - 1;
        let forward = |m: u32, k: u32| 4 * last - i64::from(m) - i64::from(k) + 2;
        let backward = |m: u32, k: u32| i64::from(m) + i64::from(k) + 1;
        match task {
            Give { m, n } if m < n => backward(m, n),
            Give { m, n: k } | GiveSteps { m, k } | Pair { m, k, .. } => forward(m, k),
            Forward { k, .. } => forward(k, k),
            Backward { k, .. } => backward(k, k),
            Update { m, k, .. } => backward(m, k),
        }
    }
}
