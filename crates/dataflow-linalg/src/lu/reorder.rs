//! Reorder: the rows of right-hand sides change places as a factorisation swapped them.
//!
//! # Law
//! The order of rows from a step on is made from that of the next step; the order of all moves the rows,
//! those of one column of tiles at a time. From each row of ranks to each goes one datum.
//!
//! A tile is read by those who collect rows and changed by who takes them. From a store only one of both
//! could take it: so a task hands it on, unless the space comes after another in a series, whose tasks hand
//! on what they bring home.

use super::flows::{made, optional};
use super::moving::Moving;
use super::pivots::{Pivots, Swaps, inverse, of_words, order, words};
use super::rank_rows::RankRows;
use crate::matrix::{Tile, TiledMatrix, column_by_column};
use crate::scalar::Scalar;
use dataflow_core::prelude::*;
use dataflow_core::space::{Slot, placed};
use dataflow_core::task_names;

task_names! {
    /// The tasks: k is a step of the factorisation, (m, j) a tile of B, r a row of ranks.
    pub enum ReorderTask { Order { k }, Begin { m, j }, Leave { r, j }, Settle { m, j } }
}
use ReorderTask::{Begin, Leave, Order, Settle};

/// The tile of B.
const TILE: usize = 0;
/// Order: the order of rows from its step on, that from the next one on, and its swaps.
const ORDER: usize = 0;
const LATER: usize = 1;
const SWAPS: usize = 2;
/// Settle: the order of rows, then the rows that come from each row of ranks.
const NEW_ORDER: usize = 1;
const INCOMING: usize = 2;

/// The task space of B ← P·B; or of Pᵀ·B, after a space that brings B home.
///
/// # Examples
/// See [`solve`](super::solve), which reorders B by it before the solves with L and U.
#[derive(Clone, Copy, Debug)]
pub struct Reorder<'a, T: Scalar> {
    pivots: &'a Pivots<T>,
    pub(super) b: &'a TiledMatrix<T>,
    pub(super) rows: RankRows,
    columns: u32,
    /// As they were swapped; or back, as the second of a series.
    forwards: bool,
}

impl<'a, T: Scalar> Reorder<'a, T> {
    /// The space for the swaps of a square matrix, and right-hand sides that are cut and spread like it.
    pub fn new(pivots: &'a Pivots<T>, b: &'a TiledMatrix<T>) -> Self {
        Reorder {
            pivots,
            b,
            rows: RankRows::of(b),
            columns: b.nt() as u32,
            forwards: true,
        }
    }

    /// The rows back in their places, in what the space before it in a series brings home.
    pub(super) fn back(self) -> Self {
        Reorder {
            forwards: false,
            ..self
        }
    }

    /// Says where Leave and Settle have tile (m, j) from.
    fn take_tile(&self, flow: usize, (m, j): (u32, u32), from: &mut impl Inputs<Self>) {
        match self.forwards {
            true => from.task(flow, Begin { m, j }, TILE),
            false => from.home(flow, self.b.store(), self.b.place(m, j)),
        }
    }

    /// Steps of the factorisation; rows of tiles of B.
    fn nt(&self) -> u32 {
        self.rows.mt
    }

    /// How many rows there are from step k on.
    pub(super) fn rows_from(&self, k: u32) -> usize {
        self.b.rows() - self.b.row_range(k as usize).start
    }

    /// Leave: the flow by which tile row `m` comes.
    fn tile_in(&self, m: u32) -> usize {
        1 + self.rows.at(m)
    }

    /// Leave: the flow by which rows go to the rank row of tile row `m`.
    fn rows_out(&self, m: u32) -> usize {
        1 + self.rows.most() + self.rows.owner(m) as usize
    }

    /// Leave: the rank row to which rows go by a flow.
    pub(super) fn goes_to(&self, flow: usize) -> u32 {
        flow.saturating_sub(1 + self.rows.most()) as u32
    }

    fn moving<'o>(&self, order: &'o Tile<T>) -> Moving<'o> {
        Moving {
            order: &words(order)[..self.b.rows()],
            first: 0,
            nb: self.b.nb(),
            p: self.rows.p as usize,
        }
    }

    /// ORDER ← the order of rows from step k on; of all rows as it is needed.
    fn order(&self, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [new, later, swaps] = flows.slots();
        let rows = self.rows_from(k);
        let swaps = Swaps::of(swaps.read());
        let mut order = order(swaps.pivots, later.get().map(words), rows);
        if k == 0 && !self.forwards {
            order = inverse(&order);
        }
        new.put(of_words(&order, self.b.memory()));
    }

    /// OUT ← the rows of rank row r, for each row of ranks those that go there.
    fn leave(&self, r: u32, j: u32, flows: &mut Flows<'_, Tile<T>>) {
        let ([order], mut slots, []) = flows.split();
        let moving = self.moving(order.read());
        let tiles = slots.by_ref().take(self.rows.most());
        let tiles: Vec<_> = tiles.filter_map(Slot::get).collect();
        let width = self.b.tile_cols(j as usize);
        let stacks = moving.collect(r as usize, width, tiles.into_iter(), self.b.memory());
        for (slot, stack) in slots.zip(stacks) {
            slot.put(stack);
        }
    }

    /// TILE ← its rows, from wherever they come.
    fn settle(&self, m: u32, flows: &mut Flows<'_, Tile<T>>) {
        let ([tile, order], stacks, []) = flows.split();
        let stacks: Vec<_> = stacks.map(Slot::get).collect();
        self.moving(order.read())
            .take(m as usize, &stacks, tile.update());
    }
}

/// The tasks of all ranks.
fn all_tasks(
    rows: RankRows,
    columns: u32,
    forwards: bool,
) -> impl Iterator<Item = ReorderTask> + Send {
    let orders = (0..if columns > 0 { rows.mt } else { 0 }).map(|k| Order { k });
    let of_tile = move |(m, j)| {
        let begin = forwards.then_some(Begin { m, j });
        begin.into_iter().chain([Settle { m, j }])
    };
    let tiles = column_by_column(rows.mt, columns).flat_map(of_tile);
    let leave = (0..columns).flat_map(move |j| rows.with_tiles(0).map(move |r| Leave { r, j }));
    orders.chain(tiles).chain(leave)
}

impl<T: Scalar> TaskSpace for Reorder<'_, T> {
    type Task = ReorderTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("rows in order").parameter("m", self.b.rows());
        self.b.layout().describe(about);
        about.parameter("forwards", self.forwards);
        about.parameter("precision", T::PRECISION);
        let order = about.class("Order").new_flow("ORDER").of("order");
        let order = order.optional("LATER").of("order");
        order.read("SWAPS").of("pivots");
        about.class("Begin").update("TILE");
        let leave = about.class("Leave").read("ORDER").of("order");
        let leave = optional(leave, "ROWS", self.rows.most(), "");
        made(leave, "OUT", self.rows.p as usize, "rows");
        let settle = about.class("Settle").update("TILE");
        let settle = settle.read("ORDER").of("order");
        optional(settle, "IN", self.rows.p as usize, "rows");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = ReorderTask> + Send {
        placed(self, on, all_tasks(self.rows, self.columns, self.forwards))
    }

    fn inputs(&self, task: ReorderTask, from: &mut impl Inputs<Self>) {
        match task {
            Order { k } => {
                if k + 1 < self.nt() {
                    from.task(LATER, Order { k: k + 1 }, ORDER);
                }
                from.home(SWAPS, self.pivots.store(), k as usize);
            }
            Begin { m, j } => from.home(TILE, self.b.store(), self.b.place(m, j)),
            Leave { r, j } => {
                from.task(ORDER, Order { k: 0 }, ORDER);
                for m in self.rows.tiles(r, 0) {
                    self.take_tile(self.tile_in(m), (m, j), from);
                }
            }
            Settle { m, j } => {
                self.take_tile(TILE, (m, j), from);
                from.task(NEW_ORDER, Order { k: 0 }, ORDER);
                for r in self.rows.with_tiles(0) {
                    from.task(INCOMING + r as usize, Leave { r, j }, self.rows_out(m));
                }
            }
        }
    }

    fn successors(&self, task: ReorderTask, to: &mut impl Successors<Self>) {
        let nt = self.nt();
        match task {
            Order { k: 0 } => {
                for j in 0..self.columns {
                    for r in self.rows.with_tiles(0) {
                        to.task(ORDER, Leave { r, j }, ORDER);
                    }
                    to.range(ORDER, 0..nt, |m| Settle { m, j }, NEW_ORDER);
                }
            }
            Order { k } => to.task(ORDER, Order { k: k - 1 }, LATER),
            Begin { m, j } => {
                let r = self.rows.owner(m);
                to.task(TILE, Leave { r, j }, self.tile_in(m));
                to.task(TILE, Settle { m, j }, TILE);
            }
            Leave { r, j } => {
                for m in 0..nt {
                    to.task(self.rows_out(m), Settle { m, j }, INCOMING + r as usize);
                }
            }
            Settle { m, j } => to.home(TILE, self.b.store(), self.b.place(m, j)),
        }
    }

    fn run(&self, task: ReorderTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            // The tile is only handed on: to those who read it and to the one who changes it.
            Begin { .. } => {}
            Order { k } => self.order(k, flows),
            Leave { r, j } => self.leave(r, j, flows),
            Settle { m, .. } => self.settle(m, flows),
        }
        Ok(())
    }

    fn rank(&self, task: ReorderTask) -> Rank {
        let (m, n) = match task {
            Order { k } => (k, k),
            Leave { r, j } => (r, j),
            Begin { m, j } | Settle { m, j } => (m, j),
        };
        self.b.rank_of(m as usize, n as usize)
    }

    fn priority(&self, task: ReorderTask) -> i64 {
        match task {
            Order { .. } | Begin { .. } => 3,
            // Other ranks wait for rows; alone, rows that have left should settle before more leave.
            Leave { .. } if self.rows.p > 1 => 2,
            Settle { .. } => 1,
            Leave { .. } => 0,
        }
    }
}
