//! Q and Qᴴ of a factorisation, applied from the left and from the right, tile by tile.
//!
//! # Law
//! The steps of the factorisation, in its order or backwards, for each column of tiles of C (from
//! the right: each row). So the bits depend on what the factorisation's depend on, and on C.
//!
//! Reflectors are given by tasks on the ranks where they lie.

use super::elimination::{Elimination, RowStep};
use super::reflectors::Reflectors;
use crate::error::LinalgError;
use crate::kernel::{Backend, Op, Side, gemqrt, tpmqrt};
use crate::matrix::{Structure, Tile, TiledMatrix, expect_two};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::placed;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks that apply Q: indices of tiles of the factorisation, n the column of tiles of C
    /// (from the right: the row).
    pub enum ApplyTask {
        Reflectors { m, k }, Eliminated { m, k }, Gemqrt { m, k, n }, Tpmqrt { m, k, n }, Stay { k, n },
    }
}
use ApplyTask::{Eliminated, Gemqrt, Stay, Tpmqrt};

/// Gemqrt and Stay: the tile.
const TILE: usize = 0;
/// Tpmqrt: the tile in the row that stayed.
const ABOVE: usize = 0;
/// Tpmqrt: the tile in the row that vanished.
const BELOW: usize = 1;

/// The task space of C ← op(Q)·C or C·op(Q).
///
/// # Examples
/// Qᴴ·C and then Q of it, which is C again:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::{Backend, Op, Side};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Random};
/// use dataflow_linalg::qr::{self, Apply, Options};
///
/// let a = TiledMatrix::<f64>::from_entries(Layout::general(30, 20, 8)?, &Random::new(1));
/// let (q, _) = qr::factor(&a, Options::of_order(8), Backend::Auto, &Inline)?;
/// let c = TiledMatrix::from_fn(Layout::general(30, 2, 8)?, |i, j| (i + 30 * j) as f64);
/// for op in [Op::ConjTranspose, Op::NoTranspose] {
///     Apply::new(&a, &q, (Side::Left, op), &c, Backend::Auto)?.run(&Inline)?;
/// }
/// assert!((c.get(7, 1).unwrap() - 37.0).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Apply<'a, T: Scalar> {
    pub(super) a: &'a TiledMatrix<T>,
    pub(super) q: &'a Reflectors<T>,
    pub(super) c: &'a TiledMatrix<T>,
    pub(super) way: (Side, Op),
    backend: Backend,
    /// Columns of tiles of C, from the right rows.
    lines: u32,
}

/// Overwrites `c` by Q·C, Qᴴ·C, C·Q or C·Qᴴ.
///
/// - `a`, `q`: what [`factor`](super::factor()) left and returned
/// - `way`: the side, and [`Op::NoTranspose`] or [`Op::ConjTranspose`]
/// - `c`: as many rows (from the right columns) as `a` has rows, in tiles of its order
///
/// 2·nrhs·k·(2m − k) flops with k = min(m, n).
///
/// # Errors
/// If the shapes or tile orders do not fit, or `c` is `a`; if the run fails.
pub fn apply<T: Scalar>(
    a: &TiledMatrix<T>,
    q: &Reflectors<T>,
    way: (Side, Op),
    c: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    Apply::new(a, q, way, c, backend)?.run(on)
}

impl<'a, T: Scalar> Apply<'a, T> {
    /// The space for a factored matrix, its reflectors, and what they are applied to.
    ///
    /// # Errors
    /// If the shapes, tile orders or numbers of ranks do not fit, `c` is `a`, or the operation is
    /// [`Op::Transpose`].
    pub fn new(
        a: &'a TiledMatrix<T>,
        q: &'a Reflectors<T>,
        way: (Side, Op),
        c: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        let (acted_on, called, lines) = match way.0 {
            Side::Left => (c.rows(), "rows", c.nt()),
            Side::Right => (c.cols(), "columns", c.mt()),
        };
        let fits = a.layout() == q.layout()
            && c.structure() == Structure::General
            && (acted_on, c.nb()) == (a.rows(), a.nb())
            && way.1 != Op::Transpose
            && c.distribution().n_ranks() == a.distribution().n_ranks();
        if !fits {
            let text = format!(
                "{way:?} of the Q of a factored matrix{} does not fit a matrix{} (which must be General, with \
                 {} {called}, in tiles of one order and on as many ranks; Q of reflectors of one layout with R, \
                 NoTranspose or ConjTranspose)",
                a.laid_out(),
                c.laid_out(),
                a.rows()
            );
            return Err(LinalgError::Shape(text));
        }
        expect_two(("A", a), ("C", c))?;
        let lines = lines as u32;
        Ok(Apply {
            a,
            q,
            c,
            way,
            backend,
            lines,
        })
    }

    /// Runs this rank's part; every rank calls it with its part of the matrices.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a, self.c], on).map_err(LinalgError::Run)
    }

    /// Whether the steps run in the order of the factorisation.
    fn forward(&self) -> bool {
        let (side, op) = self.way;
        (side == Side::Left) == (op == Op::ConjTranspose)
    }

    fn step_before(&self, row: u32, step: RowStep) -> Option<RowStep> {
        match self.forward() {
            true => self.q.elimination.step_before(row, Some(step)),
            false => self.q.elimination.step_after(row, Some(step)),
        }
    }

    fn step_after(&self, row: u32, step: RowStep) -> Option<RowStep> {
        match self.forward() {
            true => self.q.elimination.step_after(row, Some(step)),
            false => self.q.elimination.step_before(row, Some(step)),
        }
    }

    /// The tile of C in a row of Q and a line.
    pub(super) fn tile(&self, row: u32, n: u32) -> (u32, u32) {
        match self.way.0 {
            Side::Left => (row, n),
            Side::Right => (n, row),
        }
    }

    /// The slot of that tile.
    fn place(&self, row: u32, n: u32) -> usize {
        let (i, j) = self.tile(row, n);
        self.c.place(i, j)
    }

    /// The rows that a task changes, by flow, its step and its line; none for what gives reflectors.
    fn changes(&self, task: ApplyTask) -> Option<([Option<u32>; 2], RowStep, u32)> {
        match task {
            ApplyTask::Reflectors { .. } | Eliminated { .. } => None,
            Gemqrt { m, k, n } => Some(([Some(m), None], RowStep::Reflect { k }, n)),
            Tpmqrt { m, k, n } => {
                let rows = [self.q.elimination.pivot(k, m), Some(m)];
                Some((rows, RowStep::Eliminate { m, k }, n))
            }
            Stay { k, n } => Some(([Some(k), None], RowStep::Stay { k }, n)),
        }
    }

    /// The task of a row's step in a line, and the flow of the row's tile in it.
    fn task(step: RowStep, row: u32, n: u32) -> (ApplyTask, usize) {
        match step {
            RowStep::Reflect { k } => (Gemqrt { m: row, k, n }, TILE),
            RowStep::Eliminate { m, k } => {
                let flow = if m == row { BELOW } else { ABOVE };
                (Tpmqrt { m, k, n }, flow)
            }
            RowStep::Stay { k } => (Stay { k, n }, TILE),
        }
    }
}

/// The tasks of all ranks.
fn all_tasks(q: &Elimination, lines: u32) -> impl Iterator<Item = ApplyTask> + Send {
    let each = givers(q, lines).flat_map(move |giver| {
        let beside = (0..lines).map(move |n| match giver {
            ApplyTask::Reflectors { m, k } => Gemqrt { m, k, n },
            Eliminated { m, k } | Gemqrt { m, k, .. } | Tpmqrt { m, k, .. } => Tpmqrt { m, k, n },
            Stay { .. } => giver,
        });
        std::iter::once(giver).chain(beside)
    });
    each.chain(stays(q.panels(), lines))
}

/// What gives the reflectors of the rows of tiles, panel by panel.
fn givers(q: &Elimination, lines: u32) -> impl Iterator<Item = ApplyTask> + Send {
    let panels = if lines > 0 { q.panels() } else { 0 };
    let rows = (0..panels).flat_map(|k| (k..q.mt()).map(move |m| (m, k)));
    rows.flat_map(|(m, k)| {
        let give = q
            .is_triangle(k, m)
            .then_some(ApplyTask::Reflectors { m, k });
        [give, (m > k).then_some(Eliminated { m, k })]
            .into_iter()
            .flatten()
    })
}

/// What stays in the first rows, so many.
fn stays(rows: u32, lines: u32) -> impl Iterator<Item = ApplyTask> + Send {
    (0..rows).flat_map(move |k| (0..lines).map(move |n| Stay { k, n }))
}

/// The classes of tasks, and their flows.
fn describe_classes(about: &mut Description) {
    about.class("Reflectors").read("V").read("T").of("triangle");
    about.class("Eliminated").read("V").read("T").of("triangle");
    let gemqrt = about.class("Gemqrt").update("TILE");
    gemqrt.read("V").read("T").of("triangle");
    let tpmqrt = about.class("Tpmqrt").update("ABOVE").update("BELOW");
    tpmqrt.read("V").read("T").of("triangle");
    about.class("Stay").update("TILE");
}

impl<T: Scalar> TaskSpace for Apply<'_, T> {
    type Task = ApplyTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("qr apply").parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("way", format!("{:?}", self.way));
        about.parameter("rows of C", self.c.rows());
        about.parameter("columns of C", self.c.cols());
        about.parameter("grid of C", self.c.distribution());
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend);
        about.parameter("tree", self.q.options.tree);
        about.parameter("ib", self.q.options.ib);
        describe_classes(about);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = ApplyTask> + Send {
        placed(self, on, all_tasks(&self.q.elimination, self.lines))
    }

    fn inputs(&self, task: ApplyTask, from: &mut impl Inputs<Self>) {
        if let Some((rows, step, n)) = self.changes(task) {
            for (flow, row) in rows.into_iter().enumerate() {
                let Some(row) = row else { continue };
                match self.step_before(row, step) {
                    None => from.home(flow, self.c.store(), self.place(row, n)),
                    Some(step) => {
                        let (source, its) = Self::task(step, row, n);
                        from.task(flow, source, its);
                    }
                }
            }
        }
        let q = self.q;
        match task {
            ApplyTask::Reflectors { m, k } => {
                from.home(0, &q.v, q.place(m, k));
                from.home(1, &q.t, q.place(m, k));
            }
            Eliminated { m, k } => {
                from.home(0, self.a.store(), q.place(m, k));
                from.home(1, &q.s, q.place(m, k));
            }
            Gemqrt { m, k, .. } => {
                from.task(1, ApplyTask::Reflectors { m, k }, 0);
                from.task(2, ApplyTask::Reflectors { m, k }, 1);
            }
            Tpmqrt { m, k, .. } => {
                from.task(2, Eliminated { m, k }, 0);
                from.task(3, Eliminated { m, k }, 1);
            }
            Stay { .. } => {}
        }
    }

    fn successors(&self, task: ApplyTask, to: &mut impl Successors<Self>) {
        if let Some((rows, step, n)) = self.changes(task) {
            for (flow, row) in rows.into_iter().enumerate() {
                let Some(row) = row else { continue };
                match self.step_after(row, step) {
                    None => to.home(flow, self.c.store(), self.place(row, n)),
                    Some(step) => {
                        let (target, its) = Self::task(step, row, n);
                        to.task(flow, target, its);
                    }
                }
            }
        }
        match task {
            ApplyTask::Reflectors { m, k } => {
                to.range(0, 0..self.lines, |n| Gemqrt { m, k, n }, 1);
                to.range(1, 0..self.lines, |n| Gemqrt { m, k, n }, 2);
            }
            Eliminated { m, k } => {
                to.range(0, 0..self.lines, |n| Tpmqrt { m, k, n }, 2);
                to.range(1, 0..self.lines, |n| Tpmqrt { m, k, n }, 3);
            }
            Gemqrt { .. } | Tpmqrt { .. } | Stay { .. } => {}
        }
    }

    fn run(&self, task: ApplyTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            // They hand on what they got.
            ApplyTask::Reflectors { .. } | Eliminated { .. } | Stay { .. } => {}
            Gemqrt { .. } => {
                // C[m,n] ← op(Q)·C[m,n], or C[n,m] ← C[n,m]·op(Q)
                let [tile, v, t] = flows.slots();
                gemqrt(self.backend, self.way, v.read(), t.read(), tile.update());
            }
            Tpmqrt { m, k, .. } => {
                // The same with the tiles in rows q and m
                let [above, below, v, t] = flows.slots();
                let (q, pair) = ((v.read(), t.read()), (above.update(), below.update()));
                tpmqrt(self.backend, self.way, self.q.below(k, m), q, pair);
            }
        }
        Ok(())
    }

    fn rank(&self, task: ApplyTask) -> Rank {
        match task {
            ApplyTask::Reflectors { m, k } | Eliminated { m, k } => {
                self.a.rank_of(m as usize, k as usize)
            }
            Gemqrt { m, n, .. } | Tpmqrt { m, n, .. } | Stay { k: m, n } => {
                let (i, j) = self.tile(m, n);
                self.c.rank_of(i as usize, j as usize)
            }
        }
    }

    /// Panel by panel, from the top (backwards from below).
    fn priority(&self, task: ApplyTask) -> i64 {
        let (m, k) = match task {
            ApplyTask::Reflectors { m, k }
            | Eliminated { m, k }
            | Gemqrt { m, k, .. }
            | Tpmqrt { m, k, .. } => (m, k),
            Stay { k, .. } => (self.q.elimination.mt(), k),
        };
        let at = i64::from(k) * i64::from(self.q.elimination.mt()) + i64::from(m);
        if self.forward() { -at } else { at }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = ApplyTask> + Send {
        let q = &self.q.elimination;
        let backwards = if self.forward() { 0 } else { q.panels() };
        let roots = givers(q, self.lines).chain(stays(backwards, self.lines));
        placed(self, on, roots)
    }
}
