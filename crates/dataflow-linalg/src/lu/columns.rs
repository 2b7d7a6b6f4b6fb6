//! The factorisation P·A = L·U with partial pivoting on one rank, by columns of tiles that lie whole.
//!
//! # Law
//! The tiles of a column are joined to one block as high as the matrix. A panel is factored where it
//! lies; a step of a column right of it (its rows swap, its top is solved with L, the product is
//! subtracted from the rest) is one task. Tops are written to their tiles at once. At last the rows from the
//! diagonal on go back to theirs, in the order that all later swaps come to: no rows are gathered, scattered
//! or sent between.
//!
//! Tiles and pivots get the bits that the graph of tiles gives them.
//!
//! # Elsewhere
//! The graph of tiles, for any grid: `factor`. A step on a column: `kernel::columns`.
//!
//! # Source
//! Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
//! multicore architectures*, Parallel Computing 35 (2009), for LAPACK's LU with lookahead as a graph.

use super::pivots::{Pivots, Swaps, expect_general, of_words, order, words};
use super::rank_rows::RankRows;
use crate::error::LinalgError;
use crate::flops::{self, products};
use crate::kernel::{Backend, FactoredPanel, RowMoves, getrf_from, getrf_right};
use crate::matrix::{Format, Layout, Tile, TiledMatrix};
use crate::scalar::Scalar;
use crate::spans::Spans;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::placed;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of LU by columns: n is a column of tiles, k the step.
    pub enum ColumnsTask {
        Join { n }, Panel { k }, Update { n, k }, Order { n }, Part { m, n },
    }
}
use ColumnsTask::{Join, Order, Panel, Part, Update};

/// The column that a panel or an update changes.
const COLUMN: usize = 0;
/// Panel: the row swaps, and the tile of L on the diagonal.
const PIVOTS: usize = 1;
const MADE_TRIANGLE: usize = 2;
/// Update: what the panel has left, and the tile of U that the step makes.
const LEFT: usize = 1;
const SWAPS: usize = 2;
const TRIANGLE: usize = 3;
const TOP: usize = 4;
/// Part: a tile, its column, and the order of its rows.
const TILE: usize = 0;
const WHOLE: usize = 1;
const ROWS: usize = 2;
/// Order: the order of rows below, that from the next step on, and the swaps of that step.
const ORDER: usize = 0;
const LATER: usize = 1;
const NEXT: usize = 2;

/// Largest number of rows, and of how many columns each worker should have more: or it would wait for others'
/// panels and updates, which in tiles it shares. In virtual time on 2 to 64 workers (`benches/HISTORY.md`).
const COLUMNS_A_WORKER: [(usize, usize); 2] = [(768, 0), (1536, 1)];
/// How many each should have of a higher matrix.
const OF_HIGH: usize = 2;
/// Bytes of the largest matrix: columns of a larger one are too high for the caches, and a copy of it is
/// not small.
const LARGEST: usize = 128 << 20;

/// Whether a matrix is factored by [`Columns`] on so many workers: on one rank, if there are two columns of
/// tiles or more for each (up to 1536 rows more than one, up to 768 in any case), and the matrix, of which there
/// is a copy, has at most 128 MiB.
pub fn suits_columns<T: Scalar>(layout: &Layout, workers: usize) -> bool {
    let elements = layout.rows() as u128 * layout.cols() as u128;
    let bytes = elements.saturating_mul(size_of::<T>() as u128);
    let steps = layout.mt().min(layout.nt());
    let row = COLUMNS_A_WORKER
        .iter()
        .find(|(rows, _)| layout.rows() <= *rows);
    let are_enough = match row {
        Some((_, columns)) => steps > workers.saturating_mul(*columns),
        None => steps >= workers.saturating_mul(OF_HIGH),
    };
    layout.distribution().n_ranks() == 1
        && steps > 1
        && are_enough
        && bytes <= LARGEST as u128
        && has_ample_pieces::<T>(layout.format())
}

/// Whether products of pieces have the same bits however far apart their columns lie: not of small ones.
fn has_ample_pieces<T: Scalar>(format: Format) -> bool {
    match format {
        Format::ColumnMajor => true,
        Format::SubTiled { order } | Format::CutColumns { order } => {
            order.is_multiple_of(T::SUB_TILE_ORDER)
        }
    }
}

/// The task space of the factorisation by columns, on one rank: about mt·nt tasks for mt × nt tiles. The bits
/// are those of [`Factor`](super::Factor), which runs it where it [suits](suits_columns).
///
/// Takes a copy of the matrix, and n²·(m − n/3) flops for m ≥ n rows.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::lu::{Columns, Pivots, residual};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Random};
/// let a = TiledMatrix::<f64>::from_entries(Layout::general(30, 30, 8)?, &Random::new(1));
/// let pivots = Pivots::new(&a);
/// Columns::new(&a, &pivots, Backend::Auto)?.run(&Inline)?;
/// assert!(residual(&Random::new(1), &a, &pivots)? < 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    pivots: &'a Pivots<T>,
    backend: Backend,
    mt: u32,
    nt: u32,
}

impl<'a, T: Scalar> Columns<'a, T> {
    /// The space for a matrix of [`Structure::General`](crate::matrix::Structure::General) on one rank.
    ///
    /// # Errors
    /// If the matrix is stored otherwise, spread over ranks, or has more than 2³² − 1 rows, or `pivots` are of
    /// another one.
    pub fn new(
        a: &'a TiledMatrix<T>,
        pivots: &'a Pivots<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        expect_general(a)?;
        pivots.expect_of(a)?;
        match a.layout().distribution().n_ranks() {
            1 => Ok(Self::of(a, pivots, backend)),
            n_ranks => Err(LinalgError::Shape(format!(
                "LU by columns takes a matrix on one rank, this one{} is on {n_ranks}",
                a.label()
            ))),
        }
    }

    /// The space for what has been looked at.
    pub(super) fn of(a: &'a TiledMatrix<T>, pivots: &'a Pivots<T>, backend: Backend) -> Self {
        let (mt, nt) = (RankRows::of(a).mt, a.nt() as u32);
        Columns {
            a,
            pivots,
            backend,
            mt,
            nt,
        }
    }

    /// Runs the factorisation. Looks neither for entries that are not finite nor for zero pivots.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a], on).map_err(LinalgError::Run)
    }

    /// Floating-point operations of a task.
    pub(crate) fn operations(&self, task: ColumnsTask) -> f64 {
        let width = |n: u32| self.a.tile_cols(n as usize);
        let below = |k: u32| self.a.rows() - self.top(k);
        match task {
            Panel { k } => flops::getrf::<T>(below(k), width(k)) as f64,
            Update { n, k } => {
                let (height, width) = (below(k).min(width(k)), width(n));
                // Half of a product where L is a triangle.
                let product = |rows| products::<T>(rows, width, height);
                product(height) / 2.0 + product(below(k) - height)
            }
            Join { .. } | Order { .. } | Part { .. } => 0.0,
        }
    }

    /// How many panels there are.
    fn steps(&self) -> u32 {
        self.mt.min(self.nt)
    }

    /// The flow by which a column leaves Join; before it come its tiles.
    fn whole(&self) -> usize {
        self.mt as usize
    }

    /// The tiles of column n that go back at last: of all above the updates make U.
    fn parts(&self, n: u32) -> std::ops::Range<u32> {
        self.steps_of(n)..self.mt
    }

    /// How many steps change column n.
    fn steps_of(&self, n: u32) -> u32 {
        n.min(self.steps())
    }

    /// Who wrote column n before step k, and by which flow it comes.
    fn writer(&self, n: u32, k: u32) -> (ColumnsTask, usize) {
        match k.checked_sub(1) {
            None => (Join { n }, self.whole()),
            Some(k) => (Update { n, k }, COLUMN),
        }
    }

    /// Who takes column n as it is before step k, if it is not all U.
    fn taker(&self, n: u32, k: u32) -> Option<ColumnsTask> {
        match k < self.steps_of(n) {
            true => Some(Update { n, k }),
            false => (n < self.steps()).then_some(Panel { k: n }),
        }
    }

    /// Who takes tile (m, n) from Join, and by which flow.
    fn tile_taker(&self, m: u32, n: u32) -> (ColumnsTask, usize) {
        match m < self.steps_of(n) {
            true => (Update { n, k: m }, TOP),
            false => (Part { m, n }, TILE),
        }
    }

    /// Whether rows of column n move once more at the end.
    fn is_reordered(&self, n: u32) -> bool {
        n + 1 < self.steps()
    }

    /// COLUMN ← the tiles of column n, one below the other.
    fn join(&self, n: u32, flows: &mut Flows<'_, Tile<T>>) {
        let (rows, cols) = (self.a.rows(), self.a.tile_cols(n as usize));
        let mut column = Tile::unspecified(rows, cols, Format::ColumnMajor, self.a.memory());
        let elements = column.as_mut_slice();
        let ([], tiles, [made]) = flows.split();
        for (m, tile) in tiles.enumerate() {
            let top = self.a.row_range(m).start;
            tile.read().write_column_major(&mut elements[top..], rows);
        }
        made.put(column);
    }

    /// P·A = L·U of column k from its diagonal on.
    fn panel(&self, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [column, swaps, triangle] = flows.slots();
        let (column, top) = (column.update(), self.top(k));
        let (rows, cols) = (self.a.rows(), column.cols());
        let mut pivots = vec![0; (rows - top).min(cols)];
        let (format, memory) = (self.a.layout().format(), self.a.memory());
        getrf_from(self.backend, (top, format), column, &mut pivots);
        swaps.put(Swaps::pack(&pivots, memory));
        let height = self.a.tile_rows(k as usize);
        let mut l = Tile::unspecified(height, cols, format, memory);
        l.read_column_major(&column.as_slice()[top..], rows);
        l.complete(crate::matrix::Part::UnitLower);
        triangle.put(l);
    }

    /// Step k of column n.
    fn update(&self, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [column, left, swaps, triangle, u] = flows.slots();
        let swaps = Swaps::of(swaps.read());
        let panel = FactoredPanel {
            top: self.top(k),
            column: left.read(),
            triangle: triangle.read(),
            swaps: RowMoves {
                sources: swaps.sources,
                fallen: (swaps.touched, swaps.fillers),
            },
            nb: self.a.nb(),
        };
        getrf_right(self.backend, panel, column.update(), u.update());
    }

    /// ORDER ← the order of the rows below tile row n after all steps that follow.
    fn order(&self, n: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [new, later, swaps] = flows.slots();
        let pivots = Swaps::of(swaps.read()).pivots;
        let rows = self.a.rows() - self.top(n + 1);
        let order = order(pivots, later.get().map(words), rows);
        new.put(of_words(&order, self.a.memory()));
    }

    /// Tile (m, n) ← its rows of the column, below the diagonal in their final order.
    fn part(&self, (m, n): (u32, u32), flows: &mut Flows<'_, Tile<T>>) {
        let [tile, column, order] = flows.slots();
        let (tile, column, top) = (tile.update(), column.read(), self.top(m));
        let (rows, elements) = (column.rows(), column.as_slice());
        match order.get().map(words) {
            Some(order) => {
                let below = self.top(n + 1);
                tile.read_rows(&order[top - below..], &elements[below..], rows);
            }
            None => tile.read_column_major(&elements[top..], rows),
        }
    }

    /// The first row of a row of tiles.
    fn top(&self, m: u32) -> usize {
        self.a.row_range(m as usize).start
    }
}

/// All tasks.
fn all_tasks(mt: u32, nt: u32) -> impl Iterator<Item = ColumnsTask> + Send {
    let steps = mt.min(nt);
    let of_column = move |n: u32| {
        let updates = (0..n.min(steps)).map(move |k| Update { n, k });
        let parts = (n.min(steps)..mt).map(move |m| Part { m, n });
        updates.chain([Join { n }]).chain(parts)
    };
    let panels = (0..steps).map(|k| Panel { k });
    let orders = (1..steps).map(|k| Order { n: k - 1 });
    let columns = (0..nt).flat_map(of_column);
    columns.chain(panels).chain(orders)
}

/// The classes of tasks, and their flows.
fn describe_classes(about: &mut Description, mt: u32) {
    let mut join = about.class("Join");
    for m in 0..mt {
        join = join.update(&format!("TILE{m}"));
    }
    join.new_flow("COLUMN").of("column");
    let panel = about.class("Panel").update("COLUMN").of("column");
    let panel = panel.new_flow("PIVOTS").of("pivots");
    panel.new_flow("TRIANGLE").of("triangle");
    let update = about.class("Update").update("COLUMN").of("column");
    let update = update.read("LEFT").of("column");
    let update = update.read("SWAPS").of("pivots");
    update.read("TRIANGLE").of("triangle").update("TOP");
    let order = about.class("Order").new_flow("ORDER").of("order");
    let order = order.optional("LATER").of("order");
    order.read("SWAPS").of("pivots");
    let part = about.class("Part").update("TILE");
    let part = part.read("COLUMN").of("column");
    part.optional("ORDER").of("order");
}

impl<T: Scalar> TaskSpace for Columns<'_, T> {
    type Task = ColumnsTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("lu by columns").parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend);
        about.parameter("pivoting", "partial");
        describe_classes(about, self.mt);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = ColumnsTask> + Send {
        placed(self, on, all_tasks(self.mt, self.nt))
    }

    fn inputs(&self, task: ColumnsTask, from: &mut impl Inputs<Self>) {
        match task {
            Join { n } => {
                for m in 0..self.mt {
                    from.home(m as usize, self.a.store(), self.a.place(m, n));
                }
            }
            Panel { k } => {
                let (writer, flow) = self.writer(k, k);
                from.task(COLUMN, writer, flow);
            }
            Update { n, k } => {
                let (writer, flow) = self.writer(n, k);
                from.task(COLUMN, writer, flow);
                from.task(LEFT, Panel { k }, COLUMN);
                from.task(SWAPS, Panel { k }, PIVOTS);
                from.task(TRIANGLE, Panel { k }, MADE_TRIANGLE);
                from.task(TOP, Join { n }, k as usize);
            }
            Order { n } => {
                if self.is_reordered(n + 1) {
                    from.task(LATER, Order { n: n + 1 }, ORDER);
                }
                from.task(NEXT, Panel { k: n + 1 }, PIVOTS);
            }
            Part { m, n } => {
                from.task(TILE, Join { n }, m as usize);
                from.task(WHOLE, Panel { k: n }, COLUMN);
                if m > n && self.is_reordered(n) {
                    from.task(ROWS, Order { n }, ORDER);
                }
            }
        }
    }

    fn successors(&self, task: ColumnsTask, to: &mut impl Successors<Self>) {
        match task {
            Join { n } => {
                for m in 0..self.mt {
                    let (taker, flow) = self.tile_taker(m, n);
                    to.task(m as usize, taker, flow);
                }
                if let Some(taker) = self.taker(n, 0) {
                    to.task(self.whole(), taker, COLUMN);
                }
            }
            Panel { k } => {
                for n in k + 1..self.nt {
                    to.task(COLUMN, Update { n, k }, LEFT);
                    to.task(PIVOTS, Update { n, k }, SWAPS);
                    to.task(MADE_TRIANGLE, Update { n, k }, TRIANGLE);
                }
                for m in self.parts(k) {
                    to.task(COLUMN, Part { m, n: k }, WHOLE);
                }
                if let Some(n) = k.checked_sub(1) {
                    to.task(PIVOTS, Order { n }, NEXT);
                }
                to.home(PIVOTS, self.pivots.store(), k as usize);
            }
            Update { n, k } => {
                if let Some(taker) = self.taker(n, k + 1) {
                    to.task(COLUMN, taker, COLUMN);
                }
                to.home(TOP, self.a.store(), self.a.place(k, n));
            }
            Order { n } => {
                if let Some(n) = n.checked_sub(1) {
                    to.task(ORDER, Order { n }, LATER);
                }
                for m in n + 1..self.mt {
                    to.task(ORDER, Part { m, n }, ROWS);
                }
            }
            Part { m, n } => to.home(TILE, self.a.store(), self.a.place(m, n)),
        }
    }

    fn run(&self, task: ColumnsTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            Join { n } => self.join(n, flows),
            Panel { k } => self.panel(k, flows),
            Update { k, .. } => self.update(k, flows),
            Order { n } => self.order(n, flows),
            Part { m, n } => self.part((m, n), flows),
        }
        Ok(())
    }

    fn rank(&self, _: ColumnsTask) -> Rank {
        self.a.rank_of(0, 0)
    }

    /// Panels first. Then the longest way to the end, if a panel takes as long as an update of a column: each
    /// as its height, and a span of updates as if each were its first.
    fn priority(&self, task: ColumnsTask) -> i64 {
        // Heights of steps from the first to before the second.
        let heights = |first: u32, end: u32| -> i64 {
            let height = |k: u32| i64::from(self.mt - k);
            let n = i64::from(end - first);
            n * (height(first) + height(end) + 1) / 2
        };
        let steps = self.steps();
        let level = |n: u32, k: u32| {
            let own = n.min(steps);
            heights(k, own) + 2 * heights(own, steps)
        };
        match task {
            Join { n } => 3 + level(n, 0),
            Panel { k } => 3 + level(0, 0) + level(k, k),
            Update { n, k } => 3 + level(n, Spans::new(1, self.nt).first(k)),
            Order { .. } => 2,
            Part { .. } => 1,
        }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = ColumnsTask> + Send {
        placed(self, on, (0..self.nt).map(|n| Join { n }))
    }

    fn count(&self, on: Rank) -> u64 {
        if on != self.a.rank_of(0, 0) {
            return 0;
        }
        let [steps, mt, nt] = [self.steps(), self.mt, self.nt].map(u64::from);
        // A tile of U for each update, and the others go back.
        mt * nt + nt + steps + steps.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Factor;
    use super::*;
    use crate::matrix::digest::{Digest, digest};
    use crate::matrix::generate::Random;
    use crate::matrix::{Distribution, Grid};
    use crate::scalar::{c32, c64};
    use dataflow_core::port::{Heap, Shuffled};
    use proptest::prelude::*;
    use std::sync::Arc;

    #[test]
    fn the_space_is_proved_for_all_shapes_up_to_6_tiles() {
        for (m, n) in (1..=6).flat_map(|m| (1..=6).map(move |n| (m, n))) {
            let layout = Layout::general(m, n, 1).unwrap();
            let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
            let pivots = Pivots::new(&a);
            let space = Columns::of(&a, &pivots, Backend::Auto);
            verify(&space, 1).unwrap_or_else(|fault| panic!("{m} x {n} tiles: {fault}"));
        }
    }

    #[test]
    fn panels_come_first_and_the_steps_of_a_span_are_equally_urgent() {
        for (m, n) in [(1, 1), (9, 9), (9, 30), (30, 9)] {
            let layout = Layout::general(m, n, 1).unwrap();
            let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
            let pivots = Pivots::new(&a);
            let space = Columns::of(&a, &pivots, Backend::Auto);
            let of = |task| space.priority(task);
            let tasks: Vec<ColumnsTask> = space.tasks(Rank(0)).collect();
            let panels = tasks.iter().filter(|task| matches!(task, Panel { .. }));
            let last = panels.map(|&task| of(task)).min().unwrap();
            for task in tasks {
                if let Update { n: column, k } = task {
                    let length = if n < 20 { 4 } else { 7 };
                    let first = Update {
                        n: column,
                        k: k / length * length,
                    };
                    assert_eq!(of(task), of(first), "{task:?} of {m} x {n} tiles");
                    assert!(of(task) < last, "{task:?} of {m} x {n} tiles");
                }
            }
        }
    }

    /// What a run leaves, and a number for all of its bits.
    fn digests<T: Scalar>(layout: Layout, by_columns: bool) -> [Digest; 2] {
        let a = TiledMatrix::<T>::from_entries(layout, &Random::new(7));
        let pivots = Pivots::new(&a);
        let on = Shuffled::new(layout.rows() as u64).with_threads(2);
        let columns = Columns::of(&a, &pivots, Backend::Auto);
        let tiles = Factor::new(&a, &pivots, Backend::Auto).unwrap();
        let space = match by_columns {
            true => columns.erased(),
            false => tiles.erased(),
        };
        T::run_tiles(&space, &[&a], &on).unwrap();
        [digest(&a).unwrap(), pivots.digest()]
    }

    fn bits_are_those_of_tiles<T: Scalar>((m, n, nb): (usize, usize, usize)) {
        for format in [Format::ColumnMajor, Format::sub_tiled::<T>()] {
            let layout = Layout::general(m, n, nb).unwrap().with_format(format);
            let by = |columns| digests::<T>(layout, columns);
            assert_eq!(
                by(true),
                by(false),
                "{} {m} x {n}, {nb}, {format:?}",
                T::PRECISION
            );
        }
    }

    proptest! {
        #[test]
        fn bits_are_those_of_the_graph_of_tiles(
            nb in 1_usize..40, tiles in (0_usize..5, 0_usize..5), last in (0_usize..40, 0_usize..40),
        ) {
            let extent = |tiles, last: usize| tiles * nb + 1 + last % nb;
            let shape = (extent(tiles.0, last.0), extent(tiles.1, last.1), nb);
            bits_are_those_of_tiles::<f32>(shape);
            bits_are_those_of_tiles::<f64>(shape);
            bits_are_those_of_tiles::<c32>(shape);
            bits_are_those_of_tiles::<c64>(shape);
        }
    }

    #[test]
    fn bits_are_those_of_the_graph_of_tiles_where_tiles_are_cut() {
        for nb in [96, 97, 100, 192] {
            for (more_rows, more_cols) in [(0, 0), (1, 1), (1, 50), (50, 1), (97, 97), (95, 193)] {
                let shape = (2 * nb + more_rows, 2 * nb + more_cols, nb);
                bits_are_those_of_tiles::<f32>(shape);
                bits_are_those_of_tiles::<f64>(shape);
                bits_are_those_of_tiles::<c64>(shape);
            }
        }
    }

    #[test]
    fn columns_are_for_one_rank_with_enough_of_them_for_all_workers() {
        let suits = |layout: Layout, workers| suits_columns::<f64>(&layout, workers);
        let layout = |n: usize, nb: usize| Layout::general(n, n, nb).unwrap();
        assert!(!suits(layout(96, 96), 1), "a single one");
        assert!(suits(layout(768, 96), 64), "eight columns");
        assert!(suits(layout(769, 96), 8) && !suits(layout(769, 96), 9));
        assert!(suits(layout(1536, 96), 15) && !suits(layout(1536, 96), 16));
        assert!(suits(layout(1537, 96), 8) && !suits(layout(1537, 96), 9));
        assert!(suits(layout(3000, 192), 8) && !suits(layout(3000, 192), 9));
        assert!(suits(layout(4096, 192), 2), "128 MiB");
        assert!(!suits(layout(4097, 192), 2), "more");
        let grid = Distribution::BlockCyclic(Grid::new(1, 2).unwrap());
        let spread = layout(600, 96).distributed(grid, Rank(0)).unwrap();
        assert!(!suits(spread, 2));
        let a = TiledMatrix::<f64>::vacant(spread, Arc::new(Heap));
        let refused = Columns::new(&a, &Pivots::new(&a), Backend::Auto).err();
        assert_eq!(
            refused.map(|error| error.to_string()).as_deref(),
            Some("LU by columns takes a matrix on one rank, this one is on 2")
        );
        let small = Format::SubTiled { order: 3 };
        assert!(
            !suits(layout(600, 96).with_format(small), 2),
            "its bits may depend on strides"
        );
    }

    #[test]
    fn a_matrix_is_factored_by_columns_where_they_suit() {
        let layout = Layout::general(2000, 2000, 500).unwrap();
        let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
        let pivots = Pivots::new(&a);
        let factor = || Factor::new(&a, &pivots, Backend::Auto).unwrap();
        assert!(factor().by_columns(1).is_some());
        assert!(factor().with_lookahead(1).by_columns(1).is_none());
        let groups = std::num::NonZeroU32::MIN;
        assert!(factor().by_tournament(groups).by_columns(1).is_none());
        assert!(factor().by_columns(2).is_some() && factor().by_columns(3).is_none());
    }
}
