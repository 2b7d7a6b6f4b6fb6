//! The factorisation P·A = L·U with partial pivoting: tiles of A become tiles of L\U, in place.
//!
//! # Law
//! For k = 0, 1, …: the panel, the tiles of column k from row k on, is gathered into one tall block
//! on the rank of the diagonal tile, factored there and scattered again. In each column right of
//! it the rows that leave for the top rise to the rank of tile (k, n), which puts them in their
//! places and solves with L; the rows that fall to make room travel back, and each update task
//! takes its own before it multiplies. Columns left of a panel are reordered once, at the end, by
//! all later swaps at a time.
//!
//! With tournament pivoting tiles are gathered by groups instead, whose best rows play for the top;
//! scattered are its factors and the rows that make room, and each tile is solved with U where it
//! lies. All else is the same.
//!
//! The panel has one arithmetic on every grid, and the updates of a tile form one chain in the
//! order of k; so the bits of L, U and P depend on the matrix, the tile order and the backend only; with partial
//! pivoting and faer's products, where tiles are worked on in pieces, on the order of these instead.
//!
//! # Elsewhere
//! Both ends of every edge: `edges`; the numbers of flows: `flows`; how rows play: `tournament`; the bodies:
//! `body`.
//!
//! # Source
//! Bosilca et al., *DAGuE*, Parallel Computing 38 (2012), for the form of the graph; LAPACK's
//! `getrf` for pivots, order and INFO.

use super::columns::{Columns, suits_columns};
use super::edges::{come, go};
use super::flows::{
    begin, crown, gather, leave, merge, order, panel, rise, scatter, settle, top, update,
};
use super::numbered::{self, Numbered};
use super::pivots::{Pivots, expect_general};
use super::rank_rows::RankRows;
use super::tournament::entrants;
use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::lookahead::Lookahead;
use crate::matrix::{Layout, Tile, TiledMatrix, column_by_column};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::{Erased, placed};
use dataflow_core::{Report, task_names};
use std::num::NonZeroU32;

task_names! {
    /// The tasks of tile LU with row swaps: m and n are indices of tiles, k the step, r a
    /// row of ranks or a group of a tournament, v a match of it.
    pub enum Task {
        Begin { m, n }, Gather { r, k }, Merge { v, k }, Panel { k }, Scatter { m, k },
        Rise { r, n, k }, Top { n, k }, Update { m, n, k },
        Order { n }, Leave { r, n }, Settle { m, n },
    }
}
use Task::{Begin, Gather, Leave, Merge, Order, Panel, Rise, Scatter, Settle, Top, Update};

/// The task space of the factorisation of an m × n matrix: about mt·nt²/2 − nt³/6 tasks for mt × nt
/// tiles, mt ≥ nt.
///
/// # Examples
/// See the [module's](super) example of [`factor`], and [`Unpivoted`](super::Unpivoted#examples) for a graph
/// that is run by itself.
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a, T: Scalar> {
    pub(super) a: &'a TiledMatrix<T>,
    pub(super) pivots: &'a Pivots<T>,
    pub(super) backend: Backend,
    nt: u32,
    pub(super) rows: RankRows,
    /// Whose tiles are gathered together: rows of ranks, or groups of a tournament.
    pub(super) groups: RankRows,
    pub(super) tournament: bool,
    lookahead: Option<Lookahead>,
    /// Even where columns suit.
    by_tiles: bool,
}

/// Overwrites `a` by L and U with P·A = L·U: L unit lower below the diagonal, U on and above it.
/// About n²·(m − n/3) flops for m ≥ n rows.
///
/// `a` may be of any shape; `pivots` get the rows that were swapped, as LAPACK's `getrf` says them.
/// Beside the tiles, a panel and the rows under way are held; by whole [`Columns`] a copy of the matrix.
///
/// # Errors
/// The first entry that is not finite. [`LinalgError::Singular`] if a pivot is exactly zero: the
/// factorisation is complete then, too. [`LinalgError::Overflow`] if one is not finite. A matrix of which
/// only a triangle is stored, or of more than 2³² − 1 rows, or pivots of another shape.
pub fn factor<T: Scalar>(
    a: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let factor = Factor::new(a, pivots, backend)?;
    a.scan(on)?;
    let report = factor.run(on)?;
    expect_regular(a, on)?;
    Ok(report)
}

/// The same with tournament pivoting: a panel's rows play for its top in `groups` groups of tiles,
/// then the winners in pairs.
///
/// A little less stable than partial pivoting, and the panel is no chain: groups play side by side.
/// With one group the pivots are those of partial pivoting; more groups than rows of tiles are as many as
/// these. As many flops as [`factor`], and up to
/// 5·nb³/3 more for each match of a panel. The bits depend on `groups`, never on the grid; on a grid
/// take a multiple of its rows of ranks, so that each group's tiles are on one of them.
///
/// # Errors
/// As [`factor`].
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::lu::{Pivots, factor_by_tournament, residual};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Random};
/// use std::num::NonZeroU32;
/// let a = TiledMatrix::<f64>::from_entries(Layout::general(30, 30, 8)?, &Random::new(1));
/// let (pivots, groups) = (Pivots::new(&a), NonZeroU32::new(3).unwrap());
/// factor_by_tournament(&a, &pivots, groups, Backend::Auto, &Inline)?;
/// assert!(residual(&Random::new(1), &a, &pivots)? < 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn factor_by_tournament<T: Scalar>(
    a: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    groups: NonZeroU32,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let factor = Factor::new(a, pivots, backend)?.by_tournament(groups);
    a.scan(on)?;
    let report = factor.run(on)?;
    expect_regular(a, on)?;
    Ok(report)
}

/// Whether no pivot on the diagonal of a factored matrix is zero, and each is finite; asked by all ranks at
/// once.
///
/// # Errors
/// [`LinalgError::Singular`] with the first that is zero, [`LinalgError::Overflow`] with the first that is
/// not finite, whichever comes first, the same on every rank; and what
/// [`run_across`](dataflow_core::run_across) answers.
pub fn expect_regular<T: Scalar>(a: &TiledMatrix<T>, on: &dyn Executor) -> Result<(), LinalgError> {
    a.expect_regular(on).map(drop)
}

impl<'a, T: Scalar> Factor<'a, T> {
    /// The space for a matrix of [`Structure::General`](crate::matrix::Structure::General).
    ///
    /// # Errors
    /// If the matrix is stored otherwise or has more than 2³² − 1 rows, or `pivots` are of another one.
    pub fn new(
        a: &'a TiledMatrix<T>,
        pivots: &'a Pivots<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        expect_general(a)?;
        pivots.expect_of(a)?;
        Ok(Factor {
            a,
            pivots,
            backend,
            nt: a.nt() as u32,
            rows: RankRows::of(a),
            groups: RankRows::of(a),
            tournament: false,
            lookahead: None,
            by_tiles: false,
        })
    }

    /// The space in which pivots are chosen as by [`factor_by_tournament`].
    #[must_use]
    pub fn by_tournament(mut self, groups: NonZeroU32) -> Self {
        // Of more groups than tile rows each has at most one: the same as one group a tile row.
        self.groups.p = groups.get().min(self.groups.mt.max(1));
        self.tournament = true;
        self
    }

    /// The same with panels that run ahead of the other updates by so many columns only, as
    /// [`cholesky::Factor::with_lookahead`](crate::cholesky::Factor::with_lookahead).
    #[must_use]
    pub fn with_lookahead(mut self, columns: u32) -> Self {
        self.lookahead = Some(Lookahead { columns });
        self
    }

    /// The same graph even where one of [whole columns](Columns) suits better: by the same bits they differ
    /// in time and memory only.
    #[must_use]
    pub fn by_tiles(mut self) -> Self {
        self.by_tiles = true;
        self
    }

    /// Runs this rank's part of the factorisation, on one rank by [whole columns](Columns) where they
    /// [suit](suits_columns); every rank calls it with its part of the matrix. Looks neither for entries that
    /// are not finite nor for zero pivots.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        let columns = self.by_columns_on(on);
        T::run_tiles(&self.suited(&columns), &[self.a], on).map_err(LinalgError::Run)
    }

    /// The same by whole columns, where they suit an executor; never beside other ranks, which may have
    /// another number of workers and must run the same graph.
    pub(super) fn by_columns_on(&self, on: &dyn Executor) -> Option<Columns<'a, T>> {
        match on.courier().n_ranks() {
            1 => self.by_columns(on.n_workers()),
            _ => None,
        }
    }

    /// The same by whole columns, where they suit so many workers.
    pub(super) fn by_columns(&self, n_workers: usize) -> Option<Columns<'a, T>> {
        let suits = !(self.tournament || self.lookahead.is_some() || self.by_tiles)
            && suits_columns::<T>(self.a.layout(), n_workers);
        suits.then(|| Columns::of(self.a, self.pivots, self.backend))
    }

    /// The graph that is run: by columns, if there is one.
    pub(super) fn suited<'s>(&'s self, columns: &'s Option<Columns<'_, T>>) -> Erased<'s, Tile<T>> {
        match columns {
            Some(columns) => columns.erased(),
            None => self.erased(),
        }
    }

    /// How many panels there are.
    fn steps(&self) -> u32 {
        self.rows.mt.min(self.nt)
    }

    /// The tile, and the row in it, of a row counted from the first one of panel k.
    pub(super) fn tile_of(&self, row: u32, k: u32) -> (u32, usize) {
        let nb = self.a.nb();
        (k + (row as usize / nb) as u32, row as usize % nb)
    }

    /// Of rows with numbers in panel k those of tile (m, k): which of its rows, and where in storage.
    pub(super) fn rows_of_tile(
        &self,
        (m, k): (u32, u32),
        rows: Numbered<'_, T>,
    ) -> Vec<(usize, usize)> {
        let places = rows.numbers().map(|number| self.tile_of(number, k));
        let places = places.zip(numbered::places(rows.width()));
        let here = places.filter(|((tile, _), _)| *tile == m);
        here.map(|((_, i), from)| (i, from)).collect()
    }

    /// What panel k is made of: the stacks of all rows of ranks; or the sets of rows of the last match, and the
    /// diagonal tile.
    fn rows_of_panel(&self, k: u32, from: &mut impl Inputs<Self>) {
        if self.tournament {
            self.match_between(1, k, from);
            return self.tile_to_panel(k).comes(from);
        }
        come(self.rows.with_tiles(k), |r| self.stack_to_panel(r, k), from);
    }

    /// What the order of the rows below tile row n is made of: that of the steps after the next, if there are
    /// any, and the swaps of the next.
    fn steps_of_order(&self, n: u32, from: &mut impl Inputs<Self>) {
        if n + 2 < self.steps() {
            self.order_to_order(n).comes(from);
        }
        self.swaps_to_order(n).comes(from);
    }

    /// Hands tile (m, n) as it is before step k to those who read it and to the one who changes it.
    fn hand_on(&self, (m, n, k): (u32, u32, u32), to: &mut impl Successors<Self>) {
        if k == n {
            self.tile_to_gather(m, k).goes(to);
            if m == k && self.tournament {
                self.tile_to_panel(k).goes(to);
            }
            self.tile_to_scatter(m, k).goes(to);
        } else if k == m {
            self.tile_to_top(n, k).goes(to);
        } else {
            self.tile_to_rise(m, n, k).goes(to);
            self.tile_to_update(m, n, k).goes(to);
        }
    }

    /// Hands on what panel k makes: its factors to its tiles, the row swaps to all columns.
    fn hand_on_panel(&self, k: u32, to: &mut impl Successors<Self>) {
        for m in k..self.rows.mt {
            self.stack_to_scatter(m, k).goes(to);
        }
        for n in k + 1..self.nt {
            for r in self.rows.with_tiles(k + 1) {
                self.swaps_to_rise(r, n, k).goes(to);
            }
            self.swaps_to_top(n, k).goes(to);
        }
        if let Some(n) = k.checked_sub(1) {
            self.swaps_to_order(n).goes(to);
        }
        to.home(panel::PIVOTS, self.pivots.store(), k as usize);
    }

    /// Hands on tile (m, k) of L and U: to its row of tiles if it is L's, then to where its rows go or home.
    fn hand_on_factor(&self, m: u32, k: u32, to: &mut impl Successors<Self>) {
        let right = k + 1..self.nt;
        match m == k {
            true => go(right, |n| self.triangle_to_top(n, k), to),
            false => go(right, |n| self.left_to_update(m, n, k), to),
        }
        if m > k && k + 1 < self.steps() {
            self.tile_to_leave(m, k).goes(to);
            self.tile_to_settle(m, k).goes(to);
        } else {
            to.home(scatter::TILE, self.a.store(), self.a.place(m, k));
        }
    }

    fn all_tasks(&self) -> FactorTasks {
        FactorTasks {
            rows: self.rows,
            nt: self.nt,
            groups: self.groups,
            tournament: self.tournament,
        }
    }

    /// Hands on the order of the rows below tile row n.
    fn hand_on_order(&self, n: u32, to: &mut impl Successors<Self>) {
        if let Some(n) = n.checked_sub(1) {
            self.order_to_order(n).goes(to);
        }
        for r in self.rows.with_tiles(n + 1) {
            self.order_to_leave(r, n).goes(to);
        }
        go(n + 1..self.rows.mt, |m| self.order_to_settle(m, n), to);
    }
}

/// Which tasks there are: those of steps on tile rows and columns, of which panels are gathered by groups.
#[derive(Clone, Copy)]
struct FactorTasks {
    rows: RankRows,
    nt: u32,
    groups: RankRows,
    tournament: bool,
}

impl FactorTasks {
    /// All tasks, on all ranks.
    fn tasks(self) -> impl Iterator<Item = Task> + Send {
        let of_tile = |(m, n): (u32, u32)| (0..m.min(n)).map(move |k| Update { m, n, k });
        let updates = column_by_column(self.rows.mt, self.nt).flat_map(of_tile);
        self.beside_updates().chain(updates)
    }

    /// All tasks but the updates.
    fn beside_updates(self) -> impl Iterator<Item = Task> + Send {
        let (mt, nt, steps) = (self.rows.mt, self.nt, self.rows.mt.min(self.nt));
        let of_step = move |k| {
            let gather = self.groups.with_tiles(k).map(move |r| Gather { r, k });
            let entrants = if self.tournament {
                entrants(self.groups, k)
            } else {
                0
            };
            let matches = (2..entrants).map(move |v| Merge { v, k });
            let scatter = (k..mt).map(move |m| Scatter { m, k });
            let right = (k + 1..nt).flat_map(move |n| {
                let rise = self.rows.with_tiles(k + 1).map(move |r| Rise { r, n, k });
                rise.chain([Top { n, k }])
            });
            let panel = gather.chain(matches).chain([Panel { k }]);
            panel.chain(scatter).chain(right)
        };
        let of_column = move |n| {
            let leave = self.rows.with_tiles(n + 1).map(move |r| Leave { r, n });
            let settle = (n + 1..mt).map(move |m| Settle { m, n });
            leave.chain(settle).chain([Order { n }])
        };
        let reordered = 0..steps.saturating_sub(1);
        begin(mt, nt)
            .chain((0..steps).flat_map(of_step))
            .chain(reordered.flat_map(of_column))
    }
}

/// The roots.
fn begin(mt: u32, nt: u32) -> impl Iterator<Item = Task> + Send {
    column_by_column(mt, nt).map(|(m, n)| Begin { m, n })
}

/// How many updates a rank has.
fn updates_of(a: &Layout, on: Rank) -> u64 {
    a.tiles_of(on).map(|(m, n)| u64::from(m.min(n))).sum()
}

impl<T: Scalar> TaskSpace for Factor<'_, T> {
    type Task = Task;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        // What its tasks do is another thing.
        let name = if self.tournament {
            "lu by tournament"
        } else {
            "lu"
        };
        about.name(name).parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend);
        match self.tournament {
            true => {
                let about = about.parameter("pivoting", "tournament");
                about.parameter("groups", self.groups.p)
            }
            false => about.parameter("pivoting", "partial"),
        };
        if let Some(ahead) = self.lookahead {
            about.parameter("lookahead", ahead.columns);
        }
        begin::describe(about);
        gather::describe(about, self.groups);
        merge::describe(about);
        match self.tournament {
            true => crown::describe(about, self.rows),
            false => panel::describe(about, self.rows),
        }
        scatter::describe(about);
        rise::describe(about, self.rows);
        top::describe(about, self.rows);
        update::describe(about);
        order::describe(about);
        leave::describe(about, self.rows);
        settle::describe(about, self.rows);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        placed(self, on, self.all_tasks().tasks())
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        match task {
            Begin { m, n } => from.home(begin::TILE, self.a.store(), self.a.place(m, n)),
            Gather { r, k } => come(self.groups.tiles(r, k), |m| self.tile_to_gather(m, k), from),
            Merge { v, k } => self.match_between(v, k, from),
            Panel { k } => self.rows_of_panel(k, from),
            Scatter { m, k } => {
                self.tile_to_scatter(m, k).comes(from);
                self.stack_to_scatter(m, k).comes(from);
            }
            Rise { r, n, k } => {
                self.swaps_to_rise(r, n, k).comes(from);
                let tiles = self.rows.tiles(r, k + 1);
                come(tiles, |m| self.tile_to_rise(m, n, k), from);
            }
            Top { n, k } => {
                self.tile_to_top(n, k).comes(from);
                self.swaps_to_top(n, k).comes(from);
                self.triangle_to_top(n, k).comes(from);
                let ranks = self.rows.with_tiles(k + 1);
                come(ranks, |r| self.risen_to_top(r, n, k), from);
            }
            Update { m, n, k } => {
                self.tile_to_update(m, n, k).comes(from);
                self.left_to_update(m, n, k).comes(from);
                self.upper_to_update(m, n, k).comes(from);
                self.fallen_to_update(m, n, k).comes(from);
            }
            Order { n } => self.steps_of_order(n, from),
            Leave { r, n } => {
                self.order_to_leave(r, n).comes(from);
                let tiles = self.rows.tiles(r, n + 1);
                come(tiles, |m| self.tile_to_leave(m, n), from);
            }
            Settle { m, n } => {
                self.tile_to_settle(m, n).comes(from);
                self.order_to_settle(m, n).comes(from);
                let ranks = self.rows.with_tiles(n + 1);
                come(ranks, |r| self.rows_to_settle(r, m, n), from);
            }
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        let below = |k: u32| k + 1..self.rows.mt;
        match task {
            Begin { m, n } => self.hand_on((m, n, 0), to),
            Gather { r, k } if self.tournament => {
                self.rows_to_match(self.leaf(r, k), k).goes(to);
            }
            Gather { r, k } => self.stack_to_panel(r, k).goes(to),
            Merge { v, k } => self.rows_to_match(v, k).goes(to),
            Panel { k } => self.hand_on_panel(k, to),
            Scatter { m, k } => self.hand_on_factor(m, k, to),
            Rise { r, n, k } => self.risen_to_top(r, n, k).goes(to),
            Top { n, k } => {
                for m in below(k) {
                    self.upper_to_update(m, n, k).goes(to);
                    self.fallen_to_update(m, n, k).goes(to);
                }
                to.home(top::TILE, self.a.store(), self.a.place(k, n));
            }
            Update { m, n, k } => self.hand_on((m, n, k + 1), to),
            Order { n } => self.hand_on_order(n, to),
            Leave { r, n } => below(n).for_each(|m| self.rows_to_settle(r, m, n).goes(to)),
            Settle { m, n } => to.home(settle::TILE, self.a.store(), self.a.place(m, n)),
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            // The tile is only handed on: to those who read it and to the one who changes it.
            Begin { .. } => {}
            Gather { r, k } => self.gather(r, k, flows),
            Merge { .. } => self.merge(flows),
            Panel { k } if self.tournament => self.crown(k, flows),
            Panel { k } => self.panel(k, flows),
            Scatter { m, k } => self.scatter(m, k, flows),
            Rise { r, n, k } => self.rise(r, n, k, flows),
            Top { n, k } => self.top(n, k, flows),
            Update { m, k, .. } => self.update(m, k, flows),
            Order { n } => self.order(n, flows),
            Leave { r, n } => self.leave(r, n, flows),
            Settle { m, n } => self.settle(m, n, flows),
        }
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        let (m, n) = match task {
            Begin { m, n } | Update { m, n, .. } | Settle { m, n } => (m, n),
            Scatter { m, k } => (m, k),
            Gather { r, k } => (k + self.groups.distance(r, k) as u32, k),
            Merge { v, k } => (self.place_of(v, k), k),
            Rise { r, n, .. } | Leave { r, n } => (r, n),
            Panel { k } => (k, k),
            Top { n, k } => (k, n),
            Order { n } => (n, n),
        };
        self.a.rank_of(m as usize, n as usize)
    }

    /// The longest way to the end, as if a panel were one chain of its tiles at half the speed of
    /// an update: 6 for each tile of a panel and for each update of a column; with a lookahead its order.
    /// What is left of the panels comes last.
    fn priority(&self, task: Task) -> i64 {
        let (mt, steps) = (i64::from(self.rows.mt), i64::from(self.steps()));
        // All panels from column n on.
        let panels = |n: i64| {
            let n = n.min(steps);
            3 * (steps - n) * (2 * mt - n - steps + 3)
        };
        let level = |n: u32, k: u32| match self.lookahead {
            None => 6 * i64::from(n.min(self.steps()) - k) + panels(n.into()),
            // Of a column, what ends an update and what begins one have two levels.
            Some(ahead) => 2 * ahead.urgency(self.nt, k, n),
        };
        match task {
            Begin { n, .. } => 4 + level(n, 0),
            Gather { k, .. } | Merge { k, .. } | Panel { k } => 4 + level(k, k),
            Scatter { k, .. } if self.lookahead.is_some() => 4 + level(k, k),
            Scatter { k, .. } => 4 + level(k + 1, k),
            Rise { n, k, .. } | Top { n, k } => 4 + level(n, k),
            Update { n, k, .. } => 3 + level(n, k),
            Settle { .. } => 2,
            Order { .. } => 1,
            Leave { .. } => 0,
        }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        placed(self, on, begin(self.rows.mt, self.nt))
    }

    fn count(&self, on: Rank) -> u64 {
        let beside = placed(self, on, self.all_tasks().beside_updates());
        beside.count() as u64 + updates_of(self.a.layout(), on)
    }
}
