//! The factorisation: tiles of A become tiles of R, and reflectors.
//!
//! # Law
//! In panel k, rows of tiles become triangles (geqrt) and vanish under others (tpqrt) as the tree
//! says; what is right of the panel follows (gemqrt, tpmqrt). The steps of a row of tiles form one
//! chain, the same in every column; so the bits of R, V and T depend on the matrix, the tile order,
//! the tree, the inner block size and the backend only.
//!
//! An elimination runs where the row that vanishes lies: the tile above it travels there, and on. In
//! the column of the panel that is R, which travels as a triangle; so do V of a triangle, with
//! neither zeros nor ones, and V of a triangle that vanished. Of T its triangles travel, one for
//! each inner block.
//!
//! # Source
//! Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
//! multicore architectures*, Parallel Computing 35 (2009); Dongarra et al., *Hierarchical QR
//! factorization algorithms for multi-core clusters*, Parallel Computing 39 (2013).

use super::elimination::{Elimination, RowStep};
use super::reflectors::{Options, Reflectors};
use super::tree::Tree;
use crate::error::LinalgError;
use crate::kernel::{Backend, Below, Op, Side, gemqrt, geqrt, tpmqrt, tpqrt};
use crate::lookahead::Lookahead;
use crate::matrix::{Distribution, Format, Grid, Part, Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use crate::spans::Spans;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::placed;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of tile QR: indices of tiles, k the panel.
    ///
    /// # Examples
    /// Of two tiles, one above the other, both become triangles, and the lower one vanishes under the other,
    /// which stays.
    /// ```
    /// use dataflow_core::prelude::*;
    /// use dataflow_linalg::kernel::Backend;
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix};
    /// use dataflow_linalg::qr::{Factor, Options, Reflectors, Task, Tree};
    /// let a = TiledMatrix::<f64>::zeros(Layout::general(4, 2, 2)?);
    /// let q = Reflectors::new(a.layout(), Options::of_order(2).with_tree(Tree::Binary));
    /// let factor = Factor::new(&a, &q, Backend::Auto)?;
    /// let mut tasks: Vec<Task> = factor.tasks(Rank(0)).collect();
    /// tasks.sort();
    /// let triangles = [0, 1].map(|m| Task::Geqrt { m, k: 0 });
    /// assert_eq!(tasks[..2], triangles);
    /// assert_eq!(tasks[2..], [Task::Tpqrt { m: 1, k: 0 }, Task::Stay { k: 0, n: 0 }]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub enum Task {
        Geqrt { m, k }, Tpqrt { m, k }, Gemqrt { m, k, n }, Tpmqrt { m, k, n }, Stay { k, n },
    }
}
use Task::{Gemqrt, Geqrt, Stay, Tpmqrt, Tpqrt};

/// Geqrt, Gemqrt and Stay: the tile.
const TILE: usize = 0;
/// Tpqrt and Tpmqrt: the tile in the row that stays.
const ABOVE: usize = 0;
/// Tpqrt and Tpmqrt: the tile in the row that vanishes.
const BELOW: usize = 1;
/// Geqrt: the reflectors.
const MADE_V: usize = 1;
/// Geqrt and Tpqrt: the triangle of the reflectors.
const MADE_T: usize = 2;

/// The task space of the factorisation.
///
/// # Examples
/// The graph by itself: unlike [`factor()`] it does not look for entries that are not finite.
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Random};
/// use dataflow_linalg::qr::{Factor, Options, Reflectors, check};
///
/// let random = Random::new(1);
/// let a = TiledMatrix::<f64>::from_entries(Layout::general(30, 20, 8)?, &random);
/// let q = Reflectors::new(a.layout(), Options::of_order(8));
/// Factor::new(&a, &q, Backend::Auto)?.run(&Inline)?;
/// assert!(check(&random, &a, &q, &Inline)?.residual < 10.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a, T: Scalar> {
    pub(crate) a: &'a TiledMatrix<T>,
    pub(crate) q: &'a Reflectors<T>,
    pub(super) backend: Backend,
    nt: u32,
    lookahead: Option<Lookahead>,
}

/// Overwrites `a` by R and part of the reflectors, and returns the rest of them.
///
/// 2·n²·(m − n/3) flops for m ≥ n; copies no tile.
///
/// # Errors
/// The first entry that is not finite; a matrix that is not stored as [`Structure::General`].
pub fn factor<T: Scalar>(
    a: &TiledMatrix<T>,
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(Reflectors<T>, Report), LinalgError> {
    let q = Reflectors::new(a.layout(), options);
    let factor = Factor::new(a, &q, backend)?;
    a.scan(on)?;
    let report = factor.run(on)?;
    Ok((q, report))
}

impl<'a, T: Scalar> Factor<'a, T> {
    /// The space for a matrix and the place of its reflectors.
    ///
    /// # Errors
    /// If the matrix is not stored as [`Structure::General`], or the reflectors are of another
    /// layout.
    pub fn new(
        a: &'a TiledMatrix<T>,
        q: &'a Reflectors<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        if a.structure() != Structure::General || a.layout() != q.layout() {
            let text = format!(
                "a QR factorisation takes a matrix stored as General and reflectors of its layout, \
                 this one{} is {:?}, {} x {}, its reflectors of {} x {}",
                a.label(),
                a.structure(),
                a.rows(),
                a.cols(),
                q.layout().rows(),
                q.layout().cols()
            );
            return Err(LinalgError::Shape(text));
        }
        Ok(Factor {
            a,
            q,
            backend,
            nt: a.nt() as u32,
            lookahead: None,
        })
    }

    /// The same with panels that run ahead of the other updates by so many columns only, as
    /// [`cholesky::Factor::with_lookahead`](crate::cholesky::Factor::with_lookahead).
    #[must_use]
    pub fn with_lookahead(self, columns: u32) -> Self {
        let lookahead = Some(Lookahead { columns });
        Factor { lookahead, ..self }
    }

    /// Runs this rank's part of the factorisation; every rank calls it with its part of the matrix.
    /// Does not look for entries that are not finite ([`TiledMatrix::scan`]).
    ///
    /// # Errors
    /// As [`factor`], the same on every rank; and what
    /// [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a], on).map_err(LinalgError::Run)
    }

    /// The rows of tiles that a task changes, by flow.
    fn rows(&self, task: Task) -> [Option<u32>; 2] {
        match task {
            Geqrt { m, .. } | Gemqrt { m, .. } | Stay { k: m, .. } => [Some(m), None],
            Tpqrt { m, k } | Tpmqrt { m, k, .. } => [self.q.elimination.pivot(k, m), Some(m)],
        }
    }

    /// The task of a row's step in a column, and the flow of the row's tile in it.
    fn task(step: RowStep, row: u32, n: u32) -> (Task, usize) {
        match step {
            RowStep::Reflect { k } if k == n => (Geqrt { m: row, k }, TILE),
            RowStep::Reflect { k } => (Gemqrt { m: row, k, n }, TILE),
            RowStep::Eliminate { m, k } => {
                let flow = if m == row { BELOW } else { ABOVE };
                match k == n {
                    true => (Tpqrt { m, k }, flow),
                    false => (Tpmqrt { m, k, n }, flow),
                }
            }
            RowStep::Stay { k } => (Stay { k, n }, TILE),
        }
    }
}

impl Task {
    pub(super) fn step(self) -> RowStep {
        match self {
            Geqrt { k, .. } | Gemqrt { k, .. } => RowStep::Reflect { k },
            Tpqrt { m, k } | Tpmqrt { m, k, .. } => RowStep::Eliminate { m, k },
            Stay { k, .. } => RowStep::Stay { k },
        }
    }

    /// The tile whose rank runs the task.
    pub(super) fn tile(self) -> (u32, u32) {
        match self {
            Geqrt { m, k } | Tpqrt { m, k } => (m, k),
            Gemqrt { m, n, .. } | Tpmqrt { m, n, .. } | Stay { k: m, n } => (m, n),
        }
    }
}

impl RowStep {
    pub(super) fn panel(self) -> u32 {
        let (RowStep::Reflect { k } | RowStep::Eliminate { k, .. } | RowStep::Stay { k }) = self;
        k
    }
}

/// The tasks of all ranks.
fn all_tasks(q: &Elimination, nt: u32) -> impl Iterator<Item = Task> + Send {
    let of_row = move |k, m| {
        let reflect = q.is_triangle(k, m);
        let own = [
            reflect.then_some(Geqrt { m, k }),
            (m > k).then_some(Tpqrt { m, k }),
        ];
        let beside = (k + 1..nt).flat_map(move |n| {
            let gemqrt = reflect.then_some(Gemqrt { m, k, n });
            [gemqrt, (m > k).then_some(Tpmqrt { m, k, n })]
        });
        own.into_iter().chain(beside).flatten()
    };
    let of_panel = move |k| {
        let stay = (k..nt).map(move |n| Stay { k, n });
        stay.chain((k..q.mt()).flat_map(move |m| of_row(k, m)))
    };
    (0..q.panels()).flat_map(of_panel)
}

/// The roots of all ranks.
fn first_triangles(q: &Elimination) -> impl Iterator<Item = Task> + Send {
    let first = 0..if q.panels() > 0 { q.mt() } else { 0 };
    let triangles = first.filter(|&m| q.is_triangle(0, m));
    triangles.map(|m| Geqrt { m, k: 0 })
}

/// How many tasks a rank of a grid has.
fn count_of(q: &Elimination, nt: u32, grid: Grid, on: Rank) -> u64 {
    let Some((row, column)) = grid.place(on) else {
        return 0;
    };
    let of_panel = |k: u32| -> u64 {
        let columns = grid.columns_in(column, k as usize..nt as usize) as u64;
        let rows = (k..q.mt()).filter(|&m| m as usize % grid.p() == row);
        // In row k, what stays; in the others, what vanishes.
        let tasks = rows.map(|m| u64::from(q.is_triangle(k, m)) + 1);
        columns * tasks.sum::<u64>()
    };
    (0..q.panels()).map(of_panel).sum()
}

impl<T: Scalar> TaskSpace for Factor<'_, T> {
    type Task = Task;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("qr").parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend);
        about.parameter("tree", self.q.options.tree);
        about.parameter("ib", self.q.options.ib);
        if let Some(ahead) = self.lookahead {
            about.parameter("lookahead", ahead.columns);
        }
        let geqrt = about.class("Geqrt").update("TILE");
        geqrt.new_flow("V").new_flow("T").of("triangle");
        let tpqrt = about.class("Tpqrt").update("ABOVE").update("BELOW");
        tpqrt.new_flow("T").of("triangle");
        let gemqrt = about.class("Gemqrt").update("TILE");
        gemqrt.read("V").read("T").of("triangle");
        let tpmqrt = about.class("Tpmqrt").update("ABOVE").update("BELOW");
        tpmqrt.read("V").read("T").of("triangle");
        about.class("Stay").update("TILE");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        placed(self, on, all_tasks(&self.q.elimination, self.nt))
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        let (_, n) = task.tile();
        for (flow, row) in self.rows(task).into_iter().enumerate() {
            let Some(row) = row else { continue };
            match self.q.elimination.step_before(row, Some(task.step())) {
                None => from.home(flow, self.a.store(), self.a.place(row, n)),
                Some(step) => {
                    let (source, its) = Self::task(step, row, n);
                    from.task(flow, source, its);
                }
            }
        }
        match task {
            Geqrt { .. } | Tpqrt { .. } | Stay { .. } => {}
            Gemqrt { m, k, .. } => {
                from.task(1, Geqrt { m, k }, MADE_V);
                from.task(2, Geqrt { m, k }, MADE_T);
            }
            Tpmqrt { m, k, .. } => {
                from.task(2, Tpqrt { m, k }, BELOW);
                from.task(3, Tpqrt { m, k }, MADE_T);
            }
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        let (_, n) = task.tile();
        let (q, nt) = (self.q, self.nt);
        for (flow, row) in self.rows(task).into_iter().enumerate() {
            let Some(row) = row else { continue };
            let after = q.elimination.step_after(row, Some(task.step()));
            match after.filter(|step| step.panel() <= n) {
                None => to.home(flow, self.a.store(), self.a.place(row, n)),
                Some(step) => {
                    let (target, its) = Self::task(step, row, n);
                    to.task(flow, target, its);
                }
            }
        }
        match task {
            Geqrt { m, k } => {
                to.range(MADE_V, k + 1..nt, |n| Gemqrt { m, k, n }, 1);
                to.range(MADE_T, k + 1..nt, |n| Gemqrt { m, k, n }, 2);
                to.home(MADE_V, &q.v, q.place(m, k));
                to.home(MADE_T, &q.t, q.place(m, k));
            }
            Tpqrt { m, k } => {
                to.range(BELOW, k + 1..nt, |n| Tpmqrt { m, k, n }, 2);
                to.range(MADE_T, k + 1..nt, |n| Tpmqrt { m, k, n }, 3);
                to.home(MADE_T, &q.s, q.place(m, k));
            }
            Gemqrt { .. } | Tpmqrt { .. } | Stay { .. } => {}
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        let (backend, ib) = (self.backend, self.q.options.ib);
        let adjoint = (Side::Left, Op::ConjTranspose);
        match task {
            Geqrt { .. } => {
                // A[m,k] ← R with A[m,k] = Q·R
                let [tile, made_v, made_t] = flows.slots();
                let tile = tile.update();
                let (rows, format, memory) = (tile.rows(), tile.format(), tile.memory().clone());
                let width = rows.min(tile.cols());
                let mut v = Tile::new(rows, width, format, &memory);
                let mut t = Tile::new(ib, width, Format::ColumnMajor, &memory);
                geqrt(backend, tile, &mut v, &mut t);
                tile.set_part(Part::Upper);
                v.set_part(Part::UnitLower);
                t.set_part(Part::UpperBlocks);
                made_v.put(v);
                made_t.put(t);
            }
            Tpqrt { m, k } => {
                // [A[q,k]; A[m,k]] ← [R; V] with [A[q,k]; A[m,k]] = Q·[R; 0]
                let [above, below, made_t] = flows.slots();
                let (above, below) = (above.update(), below.update());
                let (width, memory) = (below.cols(), below.memory().clone());
                let mut t = Tile::new(ib, width, Format::ColumnMajor, &memory);
                let shape = self.q.below(k, m);
                tpqrt(backend, shape, above, below, &mut t);
                above.set_part(Part::Upper);
                if shape == Below::Triangle {
                    below.set_part(Part::Upper);
                }
                t.set_part(Part::UpperBlocks);
                made_t.put(t);
            }
            Gemqrt { .. } => {
                // A[m,n] ← Qᴴ·A[m,n]
                let [tile, v, t] = flows.slots();
                gemqrt(backend, adjoint, v.read(), t.read(), tile.update());
            }
            Tpmqrt { m, k, .. } => {
                // [A[q,n]; A[m,n]] ← Qᴴ·[A[q,n]; A[m,n]]
                let [above, below, v, t] = flows.slots();
                let (q, pair) = ((v.read(), t.read()), (above.update(), below.update()));
                tpmqrt(backend, adjoint, self.q.below(k, m), q, pair);
            }
            // What comes is what goes home.
            Stay { .. } => {}
        }
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        let (m, n) = task.tile();
        self.a.rank_of(m as usize, n as usize)
    }

    /// Along the flat tree panels first, then updates by spans of steps. Along another a row waits for
    /// few others, so the longest way to the end, in units of nb³/3 flops with the own weight included.
    /// With a lookahead its order.
    fn priority(&self, task: Task) -> i64 {
        let ((m, n), step) = (task.tile(), task.step());
        if let Some(ahead) = self.lookahead {
            return ahead.urgency(self.nt, step.panel(), n);
        }
        if self.q.options.tree != Tree::Flat {
            return self.q.levels().of_step(step, m, n).into();
        }
        let spans = Spans::new(self.q.elimination.mt(), self.nt);
        match task {
            Geqrt { .. } | Tpqrt { .. } => spans.panel((m, n)),
            Gemqrt { .. } | Tpmqrt { .. } | Stay { .. } => spans.update((m, n), step.panel()),
        }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        placed(self, on, first_triangles(&self.q.elimination))
    }

    fn count(&self, on: Rank) -> u64 {
        let Distribution::BlockCyclic(grid) = *self.a.distribution();
        count_of(&self.q.elimination, self.nt, grid, on)
    }
}
