//! The factorisation with incremental pivoting: rows are swapped within a diagonal tile, then
//! between it and one tile below after the other.
//!
//! # Law
//! For k = 0, 1, …: the diagonal tile is factored, the tiles right of it are swapped and solved
//! alike; then, from the top down, each tile of the column vanishes under the triangle, and the
//! same steps are done to the pairs of tiles right of it. No task waits for a whole column. The
//! steps on a tile form one chain; so the bits depend on the matrix, the tile order and the backend
//! only.
//!
//! The tiles above go down their columns from rank to rank; of a diagonal tile U alone does, as a
//! triangle, and joins at home the L that went along the row.
//!
//! The factor of growth increases with the number of tile rows, as that of pairwise pivoting does.
//! L is no triangle whose rows are permuted: it is a sequence of steps, and only solving without
//! transposition follows from it.
//!
//! # Source
//! Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
//! multicore architectures*, Parallel Computing 35 (2009).

use super::exchanges::Exchanges;
use super::factor::expect_regular;
use super::pivots::{expect_general, of_words, order, words, words_bytes};
use crate::error::LinalgError;
use crate::flops::{self, products};
use crate::kernel::{Backend, Diagonal, Op, Side, Triangle, getrf, ssssm, trsm_op, tstrf};
use crate::matrix::{Format, Layout, Part, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of tile LU with incremental pivoting: m and n are indices of tiles, k the step.
    /// Stay brings a tile of a finished row home, Join the U of its diagonal tile.
    pub enum IncrementalTask {
        Getrf { k }, Gessm { n, k }, Tstrf { m, k }, Ssssm { m, n, k }, Stay { n, k }, Join { k },
    }
}
use IncrementalTask::{Gessm, Getrf, Join, Ssssm, Stay, Tstrf};

/// The tile of row k that a task overwrites.
const ABOVE: usize = 0;
/// Tstrf and Ssssm: the tile below that they overwrite.
const BELOW: usize = 1;
/// Getrf: the row swaps, and the two triangles. Tstrf: the steps.
const MADE_SWAPS: usize = 1;
const MADE_LOWER: usize = 2;
const MADE_UPPER: usize = 3;
const MADE_STEPS: usize = 2;
/// Join: U as it comes back.
const UPPER: usize = 1;
/// Gessm: L of the diagonal tile, and its row swaps.
const LOWER: usize = 1;
const SWAPS: usize = 2;
/// Ssssm: the multipliers in its row, and the steps.
const LEFT: usize = 2;
const STEPS: usize = 3;

/// Columns that are eliminated at a time: few enough that what they cost twice is little, enough for
/// a product.
pub(crate) const INNER_BLOCK: usize = 32;

/// The task space of the factorisation: nt(nt+1)(2nt+1)/6 tasks for nt tiles a side, and one for each
/// tile on and above the diagonal. Of a diagonal tile L travels along its row, U down its column.
///
/// # Examples
/// See [`factor_incremental`].
#[derive(Clone, Copy, Debug)]
pub struct Incremental<'a, T: Scalar> {
    pub(super) a: &'a TiledMatrix<T>,
    pub(super) exchanges: &'a Exchanges<T>,
    pub(super) backend: Backend,
    mt: u32,
    nt: u32,
}

/// Overwrites `a` by U and multipliers, `exchanges` by what else it takes to do the same to another
/// column. About n²·(m − n/3) flops for m ≥ n rows, and 32/(2·nb) of that once more.
///
/// # Errors
/// As [`factor`](super::factor).
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::lu::{Exchanges, factor_incremental, solve_incremental};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let exchanges = Exchanges::new(&a);
/// factor_incremental(&a, &exchanges, Backend::Auto, &Inline)?;
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [4.0, 10.0][i]);
/// solve_incremental(&a, &exchanges, &b, Backend::Auto, &Inline)?;
/// assert_eq!(b.to_column_major()?, [1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn factor_incremental<T: Scalar>(
    a: &TiledMatrix<T>,
    exchanges: &Exchanges<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let factor = Incremental::new(a, exchanges, backend)?;
    a.scan(on)?;
    let report = factor.run(on)?;
    expect_regular(a, on)?;
    Ok(report)
}

impl<'a, T: Scalar> Incremental<'a, T> {
    /// The space for a matrix of [`Structure::General`](crate::matrix::Structure::General).
    ///
    /// # Errors
    /// If the matrix is stored otherwise, or `exchanges` are of another one.
    pub fn new(
        a: &'a TiledMatrix<T>,
        exchanges: &'a Exchanges<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        expect_general(a)?;
        exchanges.expect_of(a)?;
        Ok(Incremental {
            a,
            exchanges,
            backend,
            mt: a.mt() as u32,
            nt: a.nt() as u32,
        })
    }

    /// Runs this rank's part of the factorisation; every rank calls it with its part of the matrix.
    /// Looks neither for entries that are not finite nor for zero pivots.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a], on).map_err(LinalgError::Run)
    }

    /// Bytes of what a task hands on through a flow.
    pub(crate) fn bytes_handed_on(&self, task: IncrementalTask, flow: usize) -> u64 {
        let shape = |m: u32, n: u32| (self.a.tile_rows(m as usize), self.a.tile_cols(n as usize));
        let part = |part: Part, shape| part.bytes::<T>(shape);
        match (task, flow) {
            (Getrf { k }, MADE_SWAPS) => {
                let (rows, cols) = shape(k, k);
                words_bytes::<T>(rows.min(cols))
            }
            (Getrf { k }, MADE_LOWER) => part(Part::UnitLower, shape(k, k)),
            (Getrf { k }, MADE_UPPER) | (Tstrf { k, .. }, ABOVE) => part(Part::Upper, shape(k, k)),
            (Gessm { n, k } | Ssssm { n, k, .. } | Stay { n, k }, ABOVE) => {
                part(Part::Whole, shape(k, n))
            }
            (Getrf { k } | Join { k }, ABOVE) => part(Part::Whole, shape(k, k)),
            (Tstrf { m, k: n } | Ssssm { m, n, .. }, BELOW) => part(Part::Whole, shape(m, n)),
            (Tstrf { m, k }, MADE_STEPS) => part(Part::Whole, steps_shape(shape(m, k).1)),
            _ => 0,
        }
    }

    /// Floating-point operations of a task.
    pub(crate) fn operations(&self, task: IncrementalTask) -> f64 {
        let (rows, cols) = (
            |m: u32| self.a.tile_rows(m as usize),
            |n: u32| self.a.tile_cols(n as usize),
        );
        match task {
            Getrf { k } => flops::getrf::<T>(rows(k), cols(k)) as f64,
            Gessm { n, k } => {
                // Half of a product where L is a triangle.
                let height = rows(k).min(cols(k));
                let below = products::<T>(rows(k) - height, cols(n), height);
                products::<T>(height, cols(n), height) / 2.0 + below
            }
            Tstrf { m, k } => products::<T>(rows(m), cols(k), cols(k)) / 2.0,
            Ssssm { m, n, k } => products::<T>(rows(m), cols(n), cols(k)),
            Stay { .. } | Join { .. } => 0.0,
        }
    }

    /// Who has the tile of row k in column n next, after row m of step k, and by which flow.
    fn after(&self, m: u32, n: u32, k: u32) -> (IncrementalTask, usize) {
        match m + 1 < self.mt {
            true => (pair(m + 1, n, k), ABOVE),
            false if n == k => (Join { k }, UPPER),
            false => (Stay { n, k }, ABOVE),
        }
    }
}

/// Who had it last, row m of step k, and by which flow.
fn before(m: u32, n: u32, k: u32) -> (IncrementalTask, usize) {
    match (m, n) == (k, k) {
        true => (Getrf { k }, MADE_UPPER),
        false => (pair(m, n, k), ABOVE),
    }
}

/// Who changes the tile of row k in column n together with that of row m, in step k.
fn pair(m: u32, n: u32, k: u32) -> IncrementalTask {
    match (m == k, n == k) {
        (true, true) => Getrf { k },
        (true, false) => Gessm { n, k },
        (false, true) => Tstrf { m, k },
        (false, false) => Ssssm { m, n, k },
    }
}

/// The tasks of a rank.
fn tasks_of(a: &Layout, on: Rank) -> impl Iterator<Item = IncrementalTask> + Send + use<> {
    a.tiles_of(on).flat_map(|(m, n)| {
        let stay = (m < n).then_some(Stay { n, k: m });
        let stay = stay.or((m == n).then_some(Join { k: m }));
        (0..=m.min(n)).map(move |k| pair(m, n, k)).chain(stay)
    })
}

/// How many they are.
fn count_of(a: &Layout, on: Rank) -> u64 {
    let of_tile = |(m, n): (u32, u32)| u64::from(m.min(n)) + 1 + u64::from(m <= n);
    a.tiles_of(on).map(of_tile).sum()
}

impl IncrementalTask {
    /// The lower tile that a task writes, and its step.
    fn place(self) -> (u32, u32, u32) {
        match self {
            Getrf { k } | Join { k } => (k, k, k),
            Gessm { n, k } | Stay { n, k } => (k, n, k),
            Tstrf { m, k } => (m, k, k),
            Ssssm { m, n, k } => (m, n, k),
        }
    }

    /// The flow by which a task has the lower tile.
    fn lower_flow(self) -> usize {
        match self {
            Tstrf { .. } | Ssssm { .. } => BELOW,
            Getrf { .. } | Gessm { .. } | Stay { .. } | Join { .. } => ABOVE,
        }
    }
}

/// The classes of tasks, and their flows.
fn describe_classes(about: &mut Description) {
    let getrf = about.class("Getrf").update("ABOVE");
    let getrf = getrf.new_flow("SWAPS").of("steps");
    let getrf = getrf.new_flow("LOWER").of("lower");
    getrf.new_flow("UPPER").of("upper");
    let gessm = about.class("Gessm").update("ABOVE");
    let gessm = gessm.read("LOWER").of("lower");
    gessm.read("SWAPS").of("steps");
    let tstrf = about.class("Tstrf").update("ABOVE").of("upper");
    let tstrf = tstrf.update("BELOW");
    tstrf.new_flow("STEPS").of("steps");
    let ssssm = about.class("Ssssm").update("ABOVE").update("BELOW");
    ssssm.read("LEFT").read("STEPS").of("steps");
    about.class("Stay").update("ABOVE");
    let join = about.class("Join").update("TILE");
    join.read("UPPER").of("upper");
}

impl<T: Scalar> TaskSpace for Incremental<'_, T> {
    type Task = IncrementalTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("lu by pairs").parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend);
        about.parameter("pivoting", "incremental");
        describe_classes(about);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = IncrementalTask> + Send {
        tasks_of(self.a.layout(), on)
    }

    fn inputs(&self, task: IncrementalTask, from: &mut impl Inputs<Self>) {
        let (m, n, k) = task.place();
        // The tile that no task of this step has changed.
        if !matches!(task, Stay { .. } | Join { .. }) {
            match k.checked_sub(1) {
                None => from.home(task.lower_flow(), self.a.store(), self.a.place(m, n)),
                Some(k) => from.task(task.lower_flow(), Ssssm { m, n, k }, BELOW),
            }
        }
        match task {
            Getrf { .. } => {}
            Gessm { k, .. } => {
                from.task(LOWER, Getrf { k }, MADE_LOWER);
                from.task(SWAPS, Getrf { k }, MADE_SWAPS);
            }
            Tstrf { m, k } => {
                let (above, its) = before(m - 1, k, k);
                from.task(ABOVE, above, its);
            }
            Ssssm { m, n, k } => {
                let (above, its) = before(m - 1, n, k);
                from.task(ABOVE, above, its);
                from.task(LEFT, Tstrf { m, k }, BELOW);
                from.task(STEPS, Tstrf { m, k }, MADE_STEPS);
            }
            Stay { n, k } => from.task(ABOVE, pair(self.mt - 1, n, k), ABOVE),
            Join { k } => {
                from.task(ABOVE, Getrf { k }, ABOVE);
                let (last, its) = before(self.mt - 1, k, k);
                from.task(UPPER, last, its);
            }
        }
    }

    fn successors(&self, task: IncrementalTask, to: &mut impl Successors<Self>) {
        let nt = self.nt;
        let (m, n, k) = task.place();
        let exchange = self.exchanges.slot(m, k);
        match task {
            Stay { .. } | Join { .. } => return to.home(ABOVE, self.a.store(), self.a.place(k, n)),
            Getrf { .. } => {
                to.task(ABOVE, Join { k }, ABOVE);
                to.range(MADE_LOWER, k + 1..nt, |n| Gessm { n, k }, LOWER);
                to.range(MADE_SWAPS, k + 1..nt, |n| Gessm { n, k }, SWAPS);
                to.home(MADE_SWAPS, self.exchanges.store(), exchange);
            }
            Gessm { .. } => {}
            Tstrf { .. } => {
                to.range(BELOW, k + 1..nt, |n| Ssssm { m, n, k }, LEFT);
                to.range(MADE_STEPS, k + 1..nt, |n| Ssssm { m, n, k }, STEPS);
                to.home(BELOW, self.a.store(), self.a.place(m, k));
                to.home(MADE_STEPS, self.exchanges.store(), exchange);
            }
            Ssssm { .. } => {
                let next = pair(m, n, k + 1);
                to.task(BELOW, next, next.lower_flow());
            }
        }
        let (_, own) = before(m, n, k);
        let (next, its) = self.after(m, n, k);
        to.task(own, next, its);
    }

    fn run(&self, task: IncrementalTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        let memory = self.a.memory();
        match task {
            // What comes is what goes home.
            Stay { .. } => {}
            Getrf { .. } => {
                // A[k,k] ← L\U with P·A[k,k] = L·U
                let [tile, made, lower, upper] = flows.slots();
                let tile = tile.update();
                let mut pivots = vec![0; tile.rows().min(tile.cols())];
                getrf(self.backend, tile, &mut pivots);
                made.put(of_words(&pivots, memory));
                lower.put(tile.copy_of(Part::UnitLower));
                upper.put(tile.copy_of(Part::Upper));
            }
            Join { .. } => {
                // A[k,k] ← U on and above the diagonal
                let [tile, upper] = flows.slots();
                tile.update().set_from(upper.read());
            }
            Gessm { .. } => {
                // A[k,n] ← L[k,k]⁻¹ · P·A[k,n]
                let [tile, lower, swaps] = flows.slots();
                exchange(self.backend, lower.read(), swaps.read(), tile.update());
            }
            Tstrf { .. } => {
                // [U[k,k]; A[m,k]] ← [U; L]
                let [above, below, made] = flows.slots();
                let (above, below) = (above.update(), below.update());
                let (rows, cols) = steps_shape(below.cols());
                let mut steps = Tile::new(rows, cols, Format::ColumnMajor, memory);
                tstrf(self.backend, above, below, &mut steps);
                above.set_part(Part::Upper);
                made.put(steps);
            }
            Ssssm { .. } => {
                // [A[k,n]; A[m,n]] ← the same steps
                let [above, below, left, steps] = flows.slots();
                let pair = (above.update(), below.update());
                ssssm(self.backend, left.read(), steps.read(), pair);
            }
        }
        Ok(())
    }

    fn rank(&self, task: IncrementalTask) -> Rank {
        let (m, n, _) = task.place();
        self.a.rank_of(m as usize, n as usize)
    }

    /// The nearest column of tiles first, in it the first step, then from the top.
    fn priority(&self, task: IncrementalTask) -> i64 {
        let (m, n, k) = task.place();
        let steps = i64::from(self.mt.min(self.nt));
        -((i64::from(n) * steps + i64::from(k)) * i64::from(self.mt) + i64::from(m))
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = IncrementalTask> + Send {
        let first = Getrf { k: 0 };
        let here = self.mt > 0 && self.nt > 0 && self.rank(first) == on;
        here.then_some(first).into_iter()
    }

    fn count(&self, on: Rank) -> u64 {
        count_of(self.a.layout(), on)
    }
}

/// Rows and columns of the steps that a tile of so many columns takes.
pub(super) fn steps_shape(cols: usize) -> (usize, usize) {
    (INNER_BLOCK.min(cols.max(1)) + 1, cols)
}

/// `tile` ← L⁻¹·P·`tile` with the L and the row swaps of a diagonal tile.
pub(super) fn exchange<T: Scalar>(
    backend: Backend,
    lower: &Tile<T>,
    swaps: &Tile<T>,
    tile: &mut Tile<T>,
) {
    let height = lower.rows().min(lower.cols());
    let order = order(&words(swaps)[..height], None, tile.rows());
    let rows = order.iter().map(|&row| row as usize * tile.cols());
    let rows: Vec<_> = rows.enumerate().collect();
    let old = rows_of(tile);
    tile.set_rows(&rows, &old);
    let unit_lower = (Op::NoTranspose, (Triangle::Lower, Diagonal::Unit), lower);
    trsm_op(backend, Side::Left, unit_lower, tile);
}

/// The rows of a tile, one after the other.
fn rows_of<T: Scalar>(tile: &Tile<T>) -> Vec<T> {
    let mut rows = vec![T::zero(); tile.rows() * tile.cols()];
    let each: Vec<_> = (0..tile.rows()).map(|i| (i, i * tile.cols())).collect();
    tile.copy_rows(&each, &mut rows);
    rows
}
