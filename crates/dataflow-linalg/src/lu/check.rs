//! The check: are L, U and P the factors of A?
//!
//! # Law
//! The rows of A move to where P puts them. Then for each tile (P·A)[m,n], and k = 0 … min(m, n):
//! subtract L[m,k]·U[k,n]. The tiles' sums of moduli are added on rank 0 in the order of the
//! layout's slots. So the bits of the residual do not depend on grid, threads or schedule.
//!
//! A tile of the factors travels once to the ranks of its row or of its column.
//!
//! # Source
//! The ratio of LAPACK's TESTING/LIN DGET01: Anderson et al., *LAPACK Users' Guide*, SIAM 1999.

use super::flows::{made, optional};
use super::moving::Moving;
use super::pivots::{Pivots, Swaps, expect_general, of_words, order, words};
use super::rank_rows::RankRows;
use crate::error::LinalgError;
use crate::matrix::check::{BlockView, Form, Rounding, backward_error, subtract};
use crate::matrix::norm::Extent;
use crate::matrix::rest::{self, SumsView};
use crate::matrix::tiled::{column_major, empty_tile, fill};
use crate::matrix::{Entries, Format, Layout, Tile, TiledMatrix, column_by_column};
use crate::scalar::Scalar;
use dataflow_core::port::{Executor, Inline};
use dataflow_core::prelude::*;
use dataflow_core::space::{Slot, placed};
use dataflow_core::{Report, task_names};

/// ‖P·A − L·U‖₁ / (n ‖A‖₁ ε) of factors, on the calling thread; 0 for an empty matrix.
///
/// - `original`: A
/// - `lu`, `pivots`: its factors, all tiles on this rank
///
/// As many flops as the factorisation, and a copy of A.
///
/// # Errors
/// If a tile of `lu`, or a step of `pivots`, is not at hand, or they are not of one matrix.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::{kernel::Backend, lu, matrix::{Layout, TiledMatrix}};
/// let entry = |i: usize, j: usize| [[0.0, 4.0], [2.0, 8.0]][i][j];
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, entry);
/// let pivots = lu::Pivots::new(&a);
/// lu::factor(&a, &pivots, Backend::Auto, &Inline)?;
/// assert_eq!(lu::residual(&entry, &a, &pivots)?, 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn residual<T: Scalar>(
    original: &dyn Entries<T>,
    lu: &TiledMatrix<T>,
    pivots: &Pivots<T>,
) -> Result<f64, LinalgError> {
    let check = Check::new(original, lu, pivots)?;
    check.run(&Inline)?;
    Ok(check.residual().unwrap_or(f64::NAN))
}

task_names! {
    /// The tasks of the check: m and n are indices of tiles, k the step, r a row of ranks.
    pub enum CheckTask {
        Order { k }, Leave { r, n }, Begin { m, n },
        Give { m, n }, Subtract { m, n, k }, Add { m, n },
    }
}
use CheckTask::{Add, Begin, Give, Leave, Order, Subtract};

/// Begin and Subtract: what is left of the tile of P·A. Give: the tile. Add: the sums so far.
const PIECE: usize = 0;
/// Order: the order of rows from its step on, that from the next one on, and its swaps.
const ORDER: usize = 0;
const LATER: usize = 1;
const SWAPS: usize = 2;
/// Leave: the order of all rows, then the rows that go to each row of ranks.
pub(super) const OUTGOING: usize = 1;
/// Begin: the order of all rows, then the rows that come from each row of ranks.
const NEW_ORDER: usize = 1;
const INCOMING: usize = 2;
/// Subtract: the tile of L in its row, that of U in its column.
const LEFT: usize = 1;
const UPPER: usize = 2;
/// Add: the sums of a tile.
const PART: usize = 1;

/// The task space of the check.
///
/// # Examples
/// See [`residual`].
pub struct Check<'a, T: Scalar> {
    original: &'a dyn Entries<T>,
    pub(super) lu: &'a TiledMatrix<T>,
    pivots: &'a Pivots<T>,
    pub(super) rows: RankRows,
    nt: u32,
    /// Of all tiles, on whatever rank: sums are added in the order of its slots.
    all: Layout,
    total: Store<Tile<T>>,
}

impl<T: Scalar> std::fmt::Debug for Check<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check")
            .field("lu", &self.lu)
            .field("pivots", &self.pivots)
            .finish_non_exhaustive()
    }
}

impl<'a, T: Scalar> Check<'a, T> {
    /// The check of `lu` and `pivots` against `original`, of which each rank reads the tiles that
    /// it has of `lu`.
    ///
    /// # Errors
    /// If they are not of one matrix, or it is not stored as general.
    pub fn new(
        original: &'a dyn Entries<T>,
        lu: &'a TiledMatrix<T>,
        pivots: &'a Pivots<T>,
    ) -> Result<Self, LinalgError> {
        expect_general(lu)?;
        pivots.expect_of(lu)?;
        // The sums are added on one rank.
        let zeros = || rest::zero_sums(shape_of_sums(lu), lu.memory());
        let total = (lu.layout().rank() == Rank(0)).then(zeros);
        Ok(Check {
            original,
            lu,
            pivots,
            rows: RankRows::of(lu),
            nt: lu.nt() as u32,
            all: lu.layout().alone(),
            total: Store::new("total", total),
        })
    }

    /// Checks what the factors are by now, with all ranks; as often as they change.
    ///
    /// # Errors
    /// If a tile of the factors is not at hand; and what
    /// [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        rest::keep_on_rank_0(&self.total, on);
        T::run_lu_check(self, self.lu, on).map_err(LinalgError::Run)
    }

    /// ‖P·A − L·U‖₁ / (n ‖A‖₁ ε) by the last run, once the space has run; on other ranks than 0 `None`.
    pub fn residual(&self) -> Option<f64> {
        let total = self.total.get(0)?;
        let (m, n) = (self.lu.rows(), self.lu.cols());
        let sums = SumsView::both(&total, shape_of_sums(self.lu));
        let [norm, difference] = sums.map(|sums| sums.largest_column());
        let rounding = Rounding::of::<T>();
        Some(backward_error(difference, (m, n), [norm, 1.0], rounding))
    }

    /// How many steps the factorisation had.
    fn steps(&self) -> u32 {
        self.rows.mt.min(self.nt)
    }

    /// How many rows there are from step k on.
    pub(super) fn rows_from(&self, k: u32) -> usize {
        self.lu.rows() - self.lu.row_range(k as usize).start
    }

    /// Whether all tiles are on this rank: then giving one costs nothing.
    fn is_alone(&self) -> bool {
        self.all == *self.lu.layout()
    }

    /// How all rows move, by an order that a task was given.
    fn moving<'o>(&self, order: &'o Tile<T>) -> Moving<'o> {
        Moving {
            order: &words(order)[..self.lu.rows()],
            first: 0,
            nb: self.lu.nb(),
            p: self.rows.p as usize,
        }
    }

    /// ORDER ← the order of the rows from step k on.
    fn order(&self, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [new, later, swaps] = flows.slots();
        let (pivots, later) = (Swaps::of(swaps.read()).pivots, later.get().map(words));
        let order = order(pivots, later, self.rows_from(k));
        new.put(of_words(&order, self.lu.memory()));
    }

    /// OUT ← the rows of A of rank row r, for each row of ranks those that go there.
    fn leave(&self, r: u32, n: u32, flows: &mut Flows<'_, Tile<T>>) {
        let (layout, memory) = (self.lu.layout(), self.lu.memory());
        let tiles = self.rows.tiles(r, 0).map(|m| {
            let (m, n) = (m as usize, n as usize);
            let mut tile = empty_tile(layout, memory, m, n);
            fill(&mut tile, layout, m, n, self.original, &mut Vec::new());
            tile
        });
        let ([order], slots, []) = flows.split();
        let moving = self.moving(order.read());
        let width = self.lu.tile_cols(n as usize);
        let stacks = moving.collect(r as usize, width, tiles, memory);
        for (slot, stack) in slots.zip(stacks) {
            slot.put(stack);
        }
    }

    /// PIECE ← (P·A)[m,n], and its sums.
    fn begin(&self, m: u32, n: u32, flows: &mut Flows<'_, Tile<T>>) {
        let ([piece, order], stacks, []) = flows.split();
        let stacks: Vec<_> = stacks.map(Slot::get).collect();
        let (rows, cols) = (self.lu.tile_rows(m as usize), self.lu.tile_cols(n as usize));
        let mut moved = Tile::new(rows, cols, Format::ColumnMajor, self.lu.memory());
        self.moving(order.read())
            .take(m as usize, &stacks, &mut moved);
        let (elements, memory) = (moved.as_slice(), self.lu.memory());
        piece.put(rest::begun(elements, (rows, cols), Extent::Whole, memory));
    }

    /// (P·A)[m,n] ← (P·A)[m,n] − L[m,k] · U[k,n]
    fn subtract(&self, (m, n, k): (u32, u32, u32), flows: &mut Flows<'_, Tile<T>>) {
        let [piece, left, upper] = flows.slots();
        let (piece, left, upper) = (piece.update(), left.read(), upper.read());
        let (rows, cols) = (left.rows(), upper.cols());
        let inner = self
            .lu
            .tile_rows(k as usize)
            .min(self.lu.tile_cols(k as usize));
        let (mut of_left, mut of_upper) = (Vec::new(), Vec::new());
        let left = match m == k {
            true => unit_lower(left, inner, &mut of_left),
            false => column_major(left, &mut of_left),
        };
        let upper = match k == n {
            true => upper_of(upper, inner, &mut of_upper),
            false => column_major(upper, &mut of_upper),
        };
        let (left, upper) = (
            BlockView(left, rows, inner, Form::Plain),
            BlockView(upper, inner, cols, Form::Plain),
        );
        let rest = rest::elements_mut(piece, (rows, cols));
        subtract(rest, (rows, cols), left, upper);
        if k + 1 == steps_of(m, n) {
            *piece = rest::ended(piece, (rows, cols), Extent::Whole, self.lu.memory());
        }
    }
}

/// How many steps reach tile (m, n).
pub(super) fn steps_of(m: u32, n: u32) -> u32 {
    m.min(n) + 1
}

/// Of what is summed: of a matrix without entries nothing, however long it is.
fn shape_of_sums<T: Scalar>(lu: &TiledMatrix<T>) -> (usize, usize) {
    match (lu.rows(), lu.cols()) {
        (0, _) | (_, 0) => (0, 0),
        shape => shape,
    }
}

/// The first `inner` columns of a tile with ones on the diagonal and zeros above, column-major.
fn unit_lower<'b, T: Scalar>(tile: &Tile<T>, inner: usize, buffer: &'b mut Vec<T>) -> &'b [T] {
    *buffer = column_major(tile, &mut Vec::new())[..tile.rows() * inner].to_vec();
    for (col, column) in buffer.chunks_exact_mut(tile.rows().max(1)).enumerate() {
        column[..col].fill(T::zero());
        column[col] = T::one();
    }
    buffer
}

/// The first `inner` rows of a tile with zeros below the diagonal, column-major.
fn upper_of<'b, T: Scalar>(tile: &Tile<T>, inner: usize, buffer: &'b mut Vec<T>) -> &'b [T] {
    let mut whole = Vec::new();
    let columns = column_major(tile, &mut whole).chunks_exact(tile.rows().max(1));
    for (col, column) in columns.enumerate() {
        let kept = inner.min(col + 1);
        buffer.extend_from_slice(&column[..kept]);
        buffer.resize(buffer.len() + inner - kept, T::zero());
    }
    buffer
}

/// The tasks of all ranks. First what all others wait for: roots are announced in this order.
fn all_tasks(rows: RankRows, nt: u32) -> impl Iterator<Item = CheckTask> + Send {
    let tiles = column_by_column(rows.mt, nt);
    let give = tiles.clone().map(|(m, n)| Give { m, n });
    let orders = (0..rows.mt.min(nt)).map(|k| Order { k });
    let leave = (0..nt).flat_map(move |n| rows.with_tiles(0).map(move |r| Leave { r, n }));
    let of_tile = |(m, n)| {
        let subtract = (0..steps_of(m, n)).map(move |k| Subtract { m, n, k });
        [Begin { m, n }, Add { m, n }].into_iter().chain(subtract)
    };
    let rest = tiles.flat_map(of_tile);
    give.chain(orders).chain(leave).chain(rest)
}

impl<T: Scalar> TaskSpace for Check<'_, T> {
    type Task = CheckTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("lu check").parameter("m", self.lu.rows());
        self.lu.layout().describe(about);
        let p = self.rows.p as usize;
        let order = about.class("Order").new_flow("ORDER").of("order");
        let order = order.optional("LATER").of("order");
        order.read("SWAPS").of("pivots");
        let leave = about.class("Leave").read("ORDER").of("order");
        made(leave, "OUT", p, "rows");
        let begin = about.class("Begin").new_flow("PIECE");
        let begin = begin.read("ORDER").of("order");
        optional(begin, "IN", p, "rows");
        about.class("Give").read("PIECE");
        let subtract = about.class("Subtract").update("PIECE");
        subtract.read("LEFT").read("UPPER");
        about.class("Add").update("PIECE").read("PART");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = CheckTask> + Send {
        placed(self, on, all_tasks(self.rows, self.nt))
    }

    fn inputs(&self, task: CheckTask, from: &mut impl Inputs<Self>) {
        match task {
            Order { k } => {
                if k + 1 < self.steps() {
                    from.task(LATER, Order { k: k + 1 }, ORDER);
                }
                from.home(SWAPS, self.pivots.store(), k as usize);
            }
            Leave { .. } => from.task(ORDER, Order { k: 0 }, ORDER),
            Begin { m, n } => {
                from.task(NEW_ORDER, Order { k: 0 }, ORDER);
                for r in self.rows.with_tiles(0) {
                    let out = OUTGOING + self.rows.owner(m) as usize;
                    from.task(INCOMING + r as usize, Leave { r, n }, out);
                }
            }
            Give { m, n } => from.home(PIECE, self.lu.store(), self.lu.place(m, n)),
            Subtract { m, n, k } => {
                match k.checked_sub(1) {
                    None => from.task(PIECE, Begin { m, n }, PIECE),
                    Some(k) => from.task(PIECE, Subtract { m, n, k }, PIECE),
                }
                from.task(LEFT, Give { m, n: k }, PIECE);
                from.task(UPPER, Give { m: k, n }, PIECE);
            }
            Add { m, n } => {
                match self.all.neighbours(m, n)[0] {
                    None => from.home(PIECE, &self.total, 0),
                    Some((m, n)) => from.task(PIECE, Add { m, n }, PIECE),
                }
                from.task(PART, Subtract { m, n, k: m.min(n) }, PIECE);
            }
        }
    }

    fn successors(&self, task: CheckTask, to: &mut impl Successors<Self>) {
        let (mt, nt) = (self.rows.mt, self.nt);
        match task {
            Order { k: 0 } => {
                for n in 0..nt {
                    for r in self.rows.with_tiles(0) {
                        to.task(ORDER, Leave { r, n }, ORDER);
                    }
                    to.range(ORDER, 0..mt, |m| Begin { m, n }, NEW_ORDER);
                }
            }
            Order { k } => to.task(ORDER, Order { k: k - 1 }, LATER),
            Leave { r, n } => {
                for m in 0..mt {
                    let out = OUTGOING + self.rows.owner(m) as usize;
                    to.task(out, Begin { m, n }, INCOMING + r as usize);
                }
            }
            Begin { m, n } => to.task(PIECE, Subtract { m, n, k: 0 }, PIECE),
            Give { m, n } => {
                if m >= n {
                    to.range(PIECE, n..nt, |i| Subtract { m, n: i, k: n }, LEFT);
                }
                if m <= n {
                    to.range(PIECE, m..mt, |i| Subtract { m: i, n, k: m }, UPPER);
                }
            }
            Subtract { m, n, k } => match k + 1 == steps_of(m, n) {
                true => to.task(PIECE, Add { m, n }, PART),
                false => to.task(PIECE, Subtract { m, n, k: k + 1 }, PIECE),
            },
            Add { m, n } => match self.all.neighbours(m, n)[1] {
                None => to.home(PIECE, &self.total, 0),
                Some((m, n)) => to.task(PIECE, Add { m, n }, PIECE),
            },
        }
    }

    fn run(&self, task: CheckTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            Order { k } => self.order(k, flows),
            Leave { r, n } => self.leave(r, n, flows),
            Begin { m, n } => self.begin(m, n, flows),
            Give { .. } => {}
            Subtract { m, n, k } => self.subtract((m, n, k), flows),
            Add { m, n } => {
                let is_first = self.all.neighbours(m, n)[0].is_none();
                let tile = (m as usize, n as usize);
                rest::sum_up(flows, is_first, &self.all, tile, Extent::Whole);
            }
        }
        Ok(())
    }

    fn rank(&self, task: CheckTask) -> Rank {
        let (m, n) = match task {
            Order { k } => (k, k),
            Leave { r, n } => (r, n),
            Begin { m, n } | Give { m, n } | Subtract { m, n, .. } => (m, n),
            Add { .. } => return Rank(0),
        };
        self.lu.rank_of(m as usize, n as usize)
    }

    /// Step by step; what is finished is added, and gone, first.
    fn priority(&self, task: CheckTask) -> i64 {
        match task {
            Add { .. } => 2,
            Order { .. } => 1,
            // On one rank column by column: then few copies of tiles are there at once.
            Leave { n, .. } | Begin { n, .. } if self.is_alone() => -i64::from(n),
            Leave { .. } | Begin { .. } => 0,
            Give { m, n } if self.is_alone() => 1 - i64::from(m.min(n)),
            Give { m, n } => -i64::from(m.min(n)),
            Subtract { k, .. } => -i64::from(k),
        }
    }
}
