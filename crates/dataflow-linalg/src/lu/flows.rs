//! Flows: which number each flow of the factorisation's tasks has, beside the description that gives it.
//!
//! # Law
//! A module for each class. Single flows are constants. A family of flows is a function: one for each tile
//! of a row of ranks or of a group, by tile row, or one for each row of ranks. Numbers follow the order in
//! which `describe` names them.

use super::rank_rows::RankRows;
use dataflow_core::prelude::*;
use dataflow_core::space::ClassBuilder;

/// A tile on its way from its home.
pub(super) mod begin {
    use super::*;
    pub const TILE: usize = 0;

    pub fn describe(about: &mut Description) {
        about.class("Begin").update("TILE");
    }
}

/// The tiles of a group, and the stack that they become; in a tournament the rows that it puts forward.
pub(super) mod gather {
    use super::*;

    #[inline(always)]
    pub fn tile(groups: RankRows, m: u32) -> usize {
        groups.at(m)
    }

    #[inline(always)]
    pub fn stack(groups: RankRows) -> usize {
        groups.most()
    }

    pub fn describe(about: &mut Description, groups: RankRows) {
        let gather = optional(about.class("Gather"), "ROWS", groups.most(), "");
        gather.new_flow("STACK").of("stack");
    }
}

/// A match: two sets of rows that play, and between them the winners.
pub(super) mod merge {
    use super::*;
    pub const FIRST: usize = 0;
    pub const WINNERS: usize = 1;
    pub const SECOND: usize = 2;

    pub fn describe(about: &mut Description) {
        let merge = about.class("Merge").read("FIRST").of("stack");
        let merge = merge.new_flow("WINNERS").of("stack");
        merge.read("SECOND").of("stack");
    }
}

/// The stack of the diagonal's row of ranks, the row swaps, the stacks of the other rows of ranks by their
/// distance from it as they come, and again as they go back.
pub(super) mod panel {
    use super::*;
    pub const STACK: usize = 0;
    pub const PIVOTS: usize = 1;
    const OTHERS: usize = 2;

    #[inline(always)]
    pub fn stack(distance: usize) -> usize {
        match distance {
            0 => STACK,
            d => OTHERS + d - 1,
        }
    }

    #[inline(always)]
    pub fn back(rows: RankRows, distance: usize) -> usize {
        match distance {
            0 => STACK,
            d => OTHERS + others(rows) + d - 1,
        }
    }

    /// The distance of the row of ranks to which a stack belongs, as it comes and as it goes back.
    pub fn distance(rows: RankRows, flow: usize) -> u32 {
        let of_others = flow.checked_sub(OTHERS);
        of_others.map_or(0, |at| (at % others(rows).max(1)) as u32 + 1)
    }

    fn others(rows: RankRows) -> usize {
        rows.p as usize - 1
    }

    pub fn describe(about: &mut Description, rows: RankRows) {
        let panel = about.class("Panel").update("STACK").of("stack");
        let panel = panel.new_flow("PIVOTS").of("pivots");
        let panel = optional(panel, "OTHER", others(rows), "stack");
        made(panel, "BACK", others(rows), "stack");
    }
}

/// A panel with a tournament: as of a match the sets of rows, with the row swaps between them; the diagonal
/// tile as it was; what goes to each row of ranks, by their distance from the diagonal's.
pub(super) mod crown {
    use super::*;
    pub const TOP: usize = 3;
    const SEATS: usize = 4;

    #[inline(always)]
    pub fn seat(distance: usize) -> usize {
        SEATS + distance
    }

    /// The distance of the row of ranks to which a seat goes.
    pub fn distance(flow: usize) -> u32 {
        flow.saturating_sub(SEATS) as u32
    }

    pub fn describe(about: &mut Description, rows: RankRows) {
        let panel = about.class("Panel").read("FIRST").of("stack");
        let panel = panel.new_flow("PIVOTS").of("pivots");
        let panel = panel.optional("SECOND").of("stack").read("TOP");
        made(panel, "SEAT", rows.p as usize, "stack");
    }
}

/// The tile, what the panel has made of it and its neighbours, and, on the diagonal, its L alone.
pub(super) mod scatter {
    use super::*;
    pub const TILE: usize = 0;
    pub const STACK: usize = 1;
    pub const TRIANGLE: usize = 2;

    pub fn describe(about: &mut Description) {
        let scatter = about.class("Scatter").update("TILE");
        let scatter = scatter.read("STACK").of("stack");
        scatter.new_flow("TRIANGLE").of("triangle");
    }
}

/// The row swaps, the tiles of a row of ranks, and the rows of them that rise.
pub(super) mod rise {
    use super::*;
    pub const SWAPS: usize = 0;

    #[inline(always)]
    pub fn tile(rows: RankRows, m: u32) -> usize {
        1 + rows.at(m)
    }

    #[inline(always)]
    pub fn risen(rows: RankRows) -> usize {
        1 + rows.most()
    }

    pub fn describe(about: &mut Description, rows: RankRows) {
        let rise = about.class("Rise").read("SWAPS").of("pivots");
        let rise = optional(rise, "ROWS", rows.most(), "");
        rise.new_flow("RISEN").of("rows");
    }
}

/// The tile, the row swaps, L of the diagonal tile; the rows that rise from each row of ranks, and those
/// that fall to each.
pub(super) mod top {
    use super::*;
    pub const TILE: usize = 0;
    pub const SWAPS: usize = 1;
    pub const TRIANGLE: usize = 2;

    #[inline(always)]
    pub fn risen(r: u32) -> usize {
        3 + r as usize
    }

    /// To the row of ranks of a tile row.
    #[inline(always)]
    pub fn fallen(rows: RankRows, m: u32) -> usize {
        risen(rows.p + rows.owner(m))
    }

    /// The row of ranks to which rows fall by a flow.
    pub fn falls_to(rows: RankRows, flow: usize) -> Option<u32> {
        let to = flow.checked_sub(risen(rows.p))?;
        Some(to as u32)
    }

    pub fn describe(about: &mut Description, rows: RankRows) {
        let top = about.class("Top").update("TILE").read("SWAPS").of("pivots");
        let top = top.read("TRIANGLE").of("triangle");
        let top = optional(top, "RISEN", rows.p as usize, "rows");
        made(top, "FALLEN", rows.p as usize, "rows");
    }
}

/// The tile, the panel's tile in its row, the tile of U in its column, and the rows that fall.
pub(super) mod update {
    use super::*;
    pub const TILE: usize = 0;
    pub const LEFT: usize = 1;
    pub const UPPER: usize = 2;
    pub const FALLEN: usize = 3;

    pub fn describe(about: &mut Description) {
        let update = about.class("Update").update("TILE").read("LEFT");
        update.read("UPPER").read("FALLEN").of("rows");
    }
}

/// The order of rows, that from the next step on, and the swaps of that step.
pub(super) mod order {
    use super::*;
    pub const ORDER: usize = 0;
    pub const LATER: usize = 1;
    pub const SWAPS: usize = 2;

    pub fn describe(about: &mut Description) {
        let order = about.class("Order").new_flow("ORDER").of("order");
        let order = order.optional("LATER").of("order");
        order.read("SWAPS").of("pivots");
    }
}

/// The order of rows, the tiles of a row of ranks, and the rows of them that go to each row of ranks.
pub(super) mod leave {
    use super::*;
    pub const ORDER: usize = 0;

    #[inline(always)]
    pub fn tile(rows: RankRows, m: u32) -> usize {
        1 + rows.at(m)
    }

    /// To the row of ranks of a tile row.
    #[inline(always)]
    pub fn rows_out(rows: RankRows, m: u32) -> usize {
        1 + rows.most() + rows.owner(m) as usize
    }

    /// The row of ranks to which rows go by a flow.
    pub fn goes_to(rows: RankRows, flow: usize) -> Option<u32> {
        let to = flow.checked_sub(1 + rows.most())?;
        Some(to as u32)
    }

    pub fn describe(about: &mut Description, rows: RankRows) {
        let leave = about.class("Leave").read("ORDER").of("order");
        let leave = optional(leave, "ROWS", rows.most(), "");
        made(leave, "OUT", rows.p as usize, "rows");
    }
}

/// The tile, the order of rows, and the rows that come from each row of ranks.
pub(super) mod settle {
    use super::*;
    pub const TILE: usize = 0;
    pub const ORDER: usize = 1;

    #[inline(always)]
    pub fn rows_in(r: u32) -> usize {
        2 + r as usize
    }

    pub fn describe(about: &mut Description, rows: RankRows) {
        let settle = about.class("Settle").update("TILE");
        let settle = settle.read("ORDER").of("order");
        optional(settle, "IN", rows.p as usize, "rows");
    }
}

/// Adds flows of one kind that need not be fed.
pub(super) fn optional<'d>(
    class: ClassBuilder<'d>,
    name: &str,
    n: usize,
    kind: &'static str,
) -> ClassBuilder<'d> {
    (0..n).fold(class, |class, i| {
        class.optional(&format!("{name}{i}")).of(kind)
    })
}

/// Adds flows of one kind that the task makes.
pub(super) fn made<'d>(
    class: ClassBuilder<'d>,
    name: &str,
    n: usize,
    kind: &'static str,
) -> ClassBuilder<'d> {
    (0..n).fold(class, |class, i| {
        class.new_flow(&format!("{name}{i}")).of(kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a class calls the flows of some numbers.
    fn names(describe: impl Fn(&mut Description), numbers: &[usize]) -> String {
        let mut about = Description::default();
        describe(&mut about);
        let flows = &about.classes()[0].flows;
        let named = numbers.iter().map(|number| flows[*number].name.as_str());
        named.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_number_is_that_of_the_flow_that_is_described_by_its_name() {
        // Tile row 5 is the second of rank row 2, of three.
        let (rows, m) = (RankRows { p: 3, mt: 7 }, 5);
        let of = |describe: fn(&mut Description), numbers: &[usize]| names(describe, numbers);
        let with = |describe: fn(&mut Description, RankRows), numbers: &[usize]| {
            names(|about| describe(about, rows), numbers)
        };
        assert_eq!(of(begin::describe, &[begin::TILE]), "TILE");
        let numbers = [gather::tile(rows, m), gather::stack(rows)];
        assert_eq!(with(gather::describe, &numbers), "ROWS1 STACK");
        let sets = [merge::FIRST, merge::WINNERS, merge::SECOND];
        assert_eq!(of(merge::describe, &sets), "FIRST WINNERS SECOND");
        let numbers = [panel::STACK, panel::PIVOTS, panel::stack(2)];
        assert_eq!(with(panel::describe, &numbers), "STACK PIVOTS OTHER1");
        let numbers = [panel::stack(0), panel::back(rows, 0), panel::back(rows, 2)];
        assert_eq!(with(panel::describe, &numbers), "STACK STACK BACK1");
        let numbers = [merge::FIRST, panel::PIVOTS, merge::SECOND];
        assert_eq!(with(crown::describe, &numbers), "FIRST PIVOTS SECOND");
        let numbers = [crown::TOP, crown::seat(2)];
        assert_eq!(with(crown::describe, &numbers), "TOP SEAT2");
        let numbers = [scatter::TILE, scatter::STACK, scatter::TRIANGLE];
        assert_eq!(of(scatter::describe, &numbers), "TILE STACK TRIANGLE");
        let numbers = [rise::SWAPS, rise::tile(rows, m), rise::risen(rows)];
        assert_eq!(with(rise::describe, &numbers), "SWAPS ROWS1 RISEN");
        let numbers = [top::TILE, top::SWAPS, top::TRIANGLE];
        assert_eq!(with(top::describe, &numbers), "TILE SWAPS TRIANGLE");
        let numbers = [top::risen(1), top::fallen(rows, m)];
        assert_eq!(with(top::describe, &numbers), "RISEN1 FALLEN2");
        let numbers = [update::TILE, update::LEFT, update::UPPER, update::FALLEN];
        assert_eq!(of(update::describe, &numbers), "TILE LEFT UPPER FALLEN");
        let numbers = [order::ORDER, order::LATER, order::SWAPS];
        assert_eq!(of(order::describe, &numbers), "ORDER LATER SWAPS");
        let numbers = [leave::ORDER, leave::tile(rows, m), leave::rows_out(rows, m)];
        assert_eq!(with(leave::describe, &numbers), "ORDER ROWS1 OUT2");
        let numbers = [settle::TILE, settle::ORDER, settle::rows_in(1)];
        assert_eq!(with(settle::describe, &numbers), "TILE ORDER IN1");
    }

    #[test]
    fn the_row_of_ranks_that_a_flow_is_for_is_read_from_its_number() {
        let rows = RankRows { p: 3, mt: 7 };
        for m in 0..rows.mt {
            let owner = rows.owner(m);
            assert_eq!(top::falls_to(rows, top::fallen(rows, m)), Some(owner));
            assert_eq!(leave::goes_to(rows, leave::rows_out(rows, m)), Some(owner));
            let distance = owner as usize;
            assert_eq!(panel::distance(rows, panel::stack(distance)), owner);
            assert_eq!(panel::distance(rows, panel::back(rows, distance)), owner);
            assert_eq!(crown::distance(crown::seat(distance)), owner);
        }
        assert_eq!(top::falls_to(rows, top::risen(2)), None);
        assert_eq!(leave::goes_to(rows, leave::tile(rows, 6)), None);
    }
}
