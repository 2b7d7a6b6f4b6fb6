//! Solves with R and Rᴴ: the tiles of X one after the other, from below or from above.
//!
//! # Law
//! The updates of a tile of B form one chain. A task runs where its tile of B lies; tiles of R are
//! given by tasks where they lie, those of X by the task that solved them.

use crate::error::LinalgError;
use crate::kernel::{Backend, Op, gemm_op, solve_leading};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Courier, Executor};
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of a solve with R: k is the step, m the row of tiles that is updated, j the column
    /// of tiles of right-hand sides.
    pub enum SolveTask { Give { m, k }, Solve { k, j }, Update { m, k, j } }
}
use SolveTask::{Give, Solve, Update};

/// Solve and Update: the tile of B.
const SIDE: usize = 0;
/// Solve and Update: the tile of R.
const FACTOR: usize = 1;
/// Solve: the tile of X that is made; Update: the one that is read.
const SOLVED: usize = 2;

/// The task space of X ← R⁻¹·B, or R⁻ᴴ·B, for the R of a factored matrix.
#[derive(Clone, Copy)]
pub struct Triangular<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    op: Op,
    b: &'a TiledMatrix<T>,
    x: &'a TiledMatrix<T>,
    backend: Backend,
    steps: u32,
    columns: u32,
}

impl<'a, T: Scalar> Triangular<'a, T> {
    /// The space for the leading square R of a factored matrix with k columns, m ≥ n.
    ///
    /// - `op`: [`Op::NoTranspose`] or [`Op::ConjTranspose`]
    /// - `b`: k rows, or more for R itself; the first k are overwritten
    /// - `x`: k rows, or more for Rᴴ; the first k are overwritten by the solution
    ///
    /// # Errors
    /// If the shapes, tile orders or distributions do not fit.
    pub fn new(
        a: &'a TiledMatrix<T>,
        op: Op,
        b: &'a TiledMatrix<T>,
        x: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        let k = a.cols();
        let sides = [b, x];
        let fits = a.rows() >= k
            && op != Op::Transpose
            && sides.iter().all(|side| side.nb() == a.nb())
            && sides
                .iter()
                .all(|side| side.structure() == Structure::General)
            && match op {
                Op::NoTranspose => b.rows() >= k && x.rows() == k,
                Op::Transpose | Op::ConjTranspose => b.rows() == k && x.rows() >= k,
            }
            && b.cols() == x.cols()
            && b.distribution() == x.distribution()
            && b.distribution().n_ranks() == a.distribution().n_ranks();
        if !fits {
            let text = format!(
                "R of {} x {} in tiles of {} does not fit right-hand sides of {} x {} and \
                 solutions of {} x {} in tiles of {} and {}",
                a.rows(),
                k,
                a.nb(),
                b.rows(),
                b.cols(),
                x.rows(),
                x.cols(),
                b.nb(),
                x.nb()
            );
            return Err(LinalgError::Shape(text));
        }
        Ok(Triangular {
            a,
            op,
            b,
            x,
            backend,
            steps: a.nt() as u32,
            columns: b.nt() as u32,
        })
    }

    /// Looks for a zero on the diagonal of R; every rank calls it with its part.
    ///
    /// # Errors
    /// [`LinalgError::Singular`] with the first zero, the same on every rank; what
    /// [`run_across`](dataflow_core::run_across) answers.
    pub fn expect_regular(
        &self,
        on: &dyn Executor,
        courier: &dyn Courier,
    ) -> Result<Report, LinalgError> {
        self.a.expect_regular(on, courier)
    }

    /// Solves with an R that has no zero on its diagonal; every rank calls it with its part.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run_across(
        &self,
        on: &dyn Executor,
        courier: &dyn Courier,
        monitor: &Monitor,
    ) -> Result<Report, LinalgError> {
        T::run_qr_solve(self, (on, courier, monitor)).map_err(LinalgError::Run)
    }

    /// Whether the last rows are solved first.
    fn upwards(&self) -> bool {
        self.op == Op::NoTranspose
    }

    /// The number of a step's row, counted in the order of the steps; its own inverse.
    fn turn(&self, k: u32) -> u32 {
        if self.upwards() {
            self.steps - 1 - k
        } else {
            k
        }
    }

    /// The rows that are updated with row k, as steps.
    fn after(&self, k: u32) -> std::ops::Range<u32> {
        self.turn(k) + 1..self.steps
    }

    /// The tile of R that an update of row m with row k reads.
    fn factor(&self, m: u32, k: u32) -> (u32, u32) {
        if self.upwards() { (m, k) } else { (k, m) }
    }
}

impl<T: Scalar> TaskSpace for Triangular<'_, T> {
    type Task = SolveTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("qr solve").parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("nrhs", self.b.cols());
        about.parameter("op", format!("{:?}", self.op));
        about.parameter("grid of B", self.b.distribution());
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend.on_this_machine());
        about.class("Give").read("R");
        about
            .class("Solve")
            .update("SIDE")
            .read("FACTOR")
            .update("SOLVED");
        about
            .class("Update")
            .update("SIDE")
            .read("FACTOR")
            .read("SOLVED");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = SolveTask> + Send {
        let (steps, columns) = (self.steps, self.columns);
        let given = if columns > 0 { steps } else { 0 };
        let give = (0..given).flat_map(|k| (0..=k).map(move |m| Give { m, k }));
        let of_step = move |k, j| {
            let updates = self.after(k).map(move |step| Update {
                m: self.turn(step),
                k,
                j,
            });
            std::iter::once(Solve { k, j }).chain(updates)
        };
        let solve = (0..columns).flat_map(move |j| (0..steps).flat_map(move |k| of_step(k, j)));
        give.chain(solve).filter(move |&task| self.rank(task) == on)
    }

    fn inputs(&self, task: SolveTask, from: &mut impl Inputs<Self>) {
        let (row, k, j) = match task {
            Give { m, k } => return from.home(0, self.a.store(), self.a.place(m, k)),
            Solve { k, j } => (k, k, j),
            Update { m, k, j } => (m, k, j),
        };
        // The step before that one in which the row is touched.
        match self.turn(k).checked_sub(1) {
            None => from.home(SIDE, self.b.store(), self.b.place(row, j)),
            Some(step) => {
                let k = self.turn(step);
                from.task(SIDE, Update { m: row, k, j }, SIDE);
            }
        }
        let (m, n) = self.factor(row, k);
        from.task(FACTOR, Give { m, k: n }, 0);
        match task {
            Update { .. } => from.task(SOLVED, Solve { k, j }, SOLVED),
            _ => from.home(SOLVED, self.x.store(), self.x.place(k, j)),
        }
    }

    fn successors(&self, task: SolveTask, to: &mut impl Successors<Self>) {
        match task {
            Give { m, k } if m == k => to.range(0, 0..self.columns, |j| Solve { k, j }, FACTOR),
            Give { m, k } => {
                let (row, step) = self.factor(m, k);
                to.range(
                    0,
                    0..self.columns,
                    |j| Update { m: row, k: step, j },
                    FACTOR,
                );
            }
            Solve { k, j } => {
                to.home(SIDE, self.b.store(), self.b.place(k, j));
                to.home(SOLVED, self.x.store(), self.x.place(k, j));
                to.range(
                    SOLVED,
                    self.after(k),
                    |s| Update {
                        m: self.turn(s),
                        k,
                        j,
                    },
                    SOLVED,
                );
            }
            Update { m, k, j } => match self.turn(k) + 1 {
                step if step == self.turn(m) => to.task(SIDE, Solve { k: m, j }, SIDE),
                step => to.task(
                    SIDE,
                    Update {
                        m,
                        k: self.turn(step),
                        j,
                    },
                    SIDE,
                ),
            },
        }
    }

    fn run(&self, task: SolveTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            // It hands on what it reads.
            Give { .. } => {}
            Solve { .. } => {
                // X[k,j] ← op(R[k,k])⁻¹·B[k,j]
                let [side, factor, solved] = flows.slots();
                solve_leading(self.op, factor.read(), side.update(), solved.update());
            }
            Update { .. } => {
                // B[m,j] ← B[m,j] − op(R)[m,k]·X[k,j]
                let [side, factor, solved] = flows.slots();
                let (factor, solved) = ((self.op, factor.read()), (Op::NoTranspose, solved.read()));
                gemm_op(self.backend, factor, solved, side.update());
            }
        }
        Ok(())
    }

    fn rank(&self, task: SolveTask) -> Rank {
        match task {
            Give { m, k } => self.a.rank_of(m as usize, k as usize),
            Solve { k: m, j } | Update { m, j, .. } => self.b.rank_of(m as usize, j as usize),
        }
    }

    /// Step by step, what is solved first.
    fn priority(&self, task: SolveTask) -> i64 {
        let steps = match task {
            Give { m, k } => 2 * self.turn(if self.upwards() { k } else { m }),
            Solve { k, .. } => 2 * self.turn(k),
            Update { m, .. } => 2 * self.turn(m) - 1,
        };
        -i64::from(steps)
    }
}
