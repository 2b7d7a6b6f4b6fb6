//! Edges of the factorisation: each family of them once, with both its ends.
//!
//! # Law
//! A line is a family: who writes a datum, by which flow, and who reads it, by which. From it
//! [`inputs`](TaskSpace::inputs) has the one end and [`successors`](TaskSpace::successors) the other; all
//! that is left to them is which edges there are.
//!
//! # Elsewhere
//! What the flows are: `flows`. Homes of tiles and pivots: `factor`.

use super::factor::Factor;
use super::factor::Task::{
    self, Begin, Gather, Leave, Order, Panel, Rise, Scatter, Settle, Top, Update,
};
use super::flows::{begin, crown, gather, leave, order, panel, rise, scatter, settle, top, update};
use crate::scalar::Scalar;
use dataflow_core::prelude::*;
use std::ops::Range;

/// A task and one of its flows.
pub(super) type FlowOf = (Task, usize);

/// From a flow of a task to one of another.
#[derive(Clone, Copy)]
pub(super) struct LuEdge {
    from: FlowOf,
    to: FlowOf,
}

impl LuEdge {
    /// As its reader says it.
    #[inline(always)]
    pub(super) fn comes<S: TaskSpace<Task = Task>>(self, from: &mut impl Inputs<S>) {
        from.task(self.to.1, self.from.0, self.from.1);
    }

    /// As its writer says it.
    #[inline(always)]
    pub(super) fn goes<S: TaskSpace<Task = Task>>(self, to: &mut impl Successors<S>) {
        to.task(self.from.1, self.to.0, self.to.1);
    }
}

/// Edges of a family, as their reader says them.
#[inline(always)]
pub(super) fn come<S: TaskSpace<Task = Task>>(
    range: impl Iterator<Item = u32>,
    edge: impl Fn(u32) -> LuEdge,
    from: &mut impl Inputs<S>,
) {
    for i in range {
        edge(i).comes(from);
    }
}

/// Edges of a family that differ in nothing but their readers, as their writer says them.
#[inline(always)]
pub(super) fn go<S: TaskSpace<Task = Task>>(
    range: Range<u32>,
    edge: impl Fn(u32) -> LuEdge,
    to: &mut impl Successors<S>,
) {
    let any = edge(range.start);
    to.range(any.from.1, range, |i| edge(i).to.0, any.to.1);
}

/// Makes a function of each line `family(parameters): who writes => who reads`.
macro_rules! edges {
    ($($family:ident($this:ident $(, $parameter:ident)*): $from:expr => $to:expr;)*) => {
        impl<T: Scalar> Factor<'_, T> {
            $(
                #[inline(always)]
                pub(super) fn $family(&$this $(, $parameter: u32)*) -> LuEdge {
                    LuEdge { from: $from, to: $to }
                }
            )*
        }
    };
}

edges! {
    // Tile (m, n), as it is before step k: in the column of its panel, …
    tile_to_gather(self, m, k):
        self.tile(m, k, k) => (Gather { r: self.groups.owner(m), k }, gather::tile(self.groups, m));
    tile_to_panel(self, k): self.tile(k, k, k) => (Panel { k }, crown::TOP);
    tile_to_scatter(self, m, k): self.tile(m, k, k) => (Scatter { m, k }, scatter::TILE);
    // … in the row that becomes U's, or below it.
    tile_to_top(self, n, k): self.tile(k, n, k) => (Top { n, k }, top::TILE);
    tile_to_rise(self, m, n, k):
        self.tile(m, n, k) => (Rise { r: self.rows.owner(m), n, k }, rise::tile(self.rows, m));
    tile_to_update(self, m, n, k): self.tile(m, n, k) => (Update { m, n, k }, update::TILE);

    // The rows of a panel as they come, or those that play at a node of a tournament's tree.
    stack_to_panel(self, r, k):
        (Gather { r, k }, gather::stack(self.groups)) => (Panel { k }, self.stack_in(r, k));
    rows_to_match(self, v, k): self.made(v, k) => Self::match_of(v, k);

    // What a panel makes: the row swaps, and its tiles of L and U.
    swaps_to_rise(self, r, n, k): (Panel { k }, panel::PIVOTS) => (Rise { r, n, k }, rise::SWAPS);
    swaps_to_top(self, n, k): (Panel { k }, panel::PIVOTS) => (Top { n, k }, top::SWAPS);
    swaps_to_order(self, n): (Panel { k: n + 1 }, panel::PIVOTS) => (Order { n }, order::SWAPS);
    stack_to_scatter(self, m, k): (Panel { k }, self.stack_out(m, k)) => (Scatter { m, k }, scatter::STACK);
    triangle_to_top(self, n, k): (Scatter { m: k, k }, scatter::TRIANGLE) => (Top { n, k }, top::TRIANGLE);
    left_to_update(self, m, n, k): (Scatter { m, k }, scatter::TILE) => (Update { m, n, k }, update::LEFT);

    // Right of a panel: rows rise to the tile of U, which goes down its column, and rows fall.
    risen_to_top(self, r, n, k):
        (Rise { r, n, k }, rise::risen(self.rows)) => (Top { n, k }, top::risen(r));
    upper_to_update(self, m, n, k): (Top { n, k }, top::TILE) => (Update { m, n, k }, update::UPPER);
    fallen_to_update(self, m, n, k):
        (Top { n, k }, top::fallen(self.rows, m)) => (Update { m, n, k }, update::FALLEN);

    // Left of a panel: the order of rows, made from the last step back to the first …
    order_to_order(self, n): (Order { n: n + 1 }, order::ORDER) => (Order { n }, order::LATER);
    order_to_leave(self, r, n): (Order { n }, order::ORDER) => (Leave { r, n }, leave::ORDER);
    order_to_settle(self, m, n): (Order { n }, order::ORDER) => (Settle { m, n }, settle::ORDER);
    // … in which the rows of column n leave their tiles and settle in others.
    tile_to_leave(self, m, n): (Scatter { m, k: n }, scatter::TILE)
        => (Leave { r: self.rows.owner(m), n }, leave::tile(self.rows, m));
    tile_to_settle(self, m, n): (Scatter { m, k: n }, scatter::TILE) => (Settle { m, n }, settle::TILE);
    rows_to_settle(self, r, m, n):
        (Leave { r, n }, leave::rows_out(self.rows, m)) => (Settle { m, n }, settle::rows_in(r));
}

impl<T: Scalar> Factor<'_, T> {
    /// Who wrote tile (m, n) before step k.
    #[inline(always)]
    fn tile(&self, m: u32, n: u32, k: u32) -> FlowOf {
        match k.checked_sub(1) {
            None => (Begin { m, n }, begin::TILE),
            Some(k) => (Update { m, n, k }, update::TILE),
        }
    }

    /// The flow of a panel by which the stack of a rank row comes.
    #[inline(always)]
    fn stack_in(&self, r: u32, k: u32) -> usize {
        panel::stack(self.rows.distance(r, k))
    }

    /// The flow of a panel by which its factors go to the rank row of tile row m.
    fn stack_out(&self, m: u32, k: u32) -> usize {
        let distance = self.rows.distance(m, k);
        match self.tournament {
            true => crown::seat(distance),
            false => panel::back(self.rows, distance),
        }
    }
}
