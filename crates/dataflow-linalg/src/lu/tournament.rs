//! Tournament pivoting: rows play for the top of their panel, within groups of tiles first, then
//! the winners in pairs.
//!
//! # Law
//! The tile rows of a panel are dealt to the groups in turn. A group puts forward as many rows as
//! the panel has columns: those that partial pivoting would take to the top of its tiles. Pairs of
//! such sets play again, up a binary tree, by the same rule; the last winners are the panel's top.
//! What is put forward are rows as they were. Groups and tree know nothing of the grid, so the bits
//! do not depend on it.
//!
//! A set spans, in any number of leading columns, all rows that it was chosen from; so a pivot at
//! the top is exactly zero where one of the panel must be.
//!
//! # Source
//! Grigori, Demmel, Xiang, *CALU: a communication optimal LU factorization algorithm*, SIAM J.
//! Matrix Anal. Appl. 32 (2011).
//!
//! # Elsewhere
//! What becomes of the other columns and of the rows that lost: as with partial pivoting, in
//! `factor` and `body`.

use super::edges::{FlowOf, come};
use super::factor::Factor;
use super::factor::Task::{Gather, Merge, Panel};
use super::flows::{gather, merge};
use super::numbered::{self, Numbered, stored_width};
use super::pivots::{Swaps, order, raising};
use super::rank_rows::RankRows;
use crate::kernel::{eliminate, getrf};
use crate::matrix::{Format, Tile};
use crate::scalar::{Scalar, number, set_number};
use dataflow_core::prelude::*;
use std::ops::Range;

/// How many groups have rows in panel k: as many leaves has its tree, and as leaves they have
/// the numbers from there on. The root is 1, below `v` come `2·v` and `2·v + 1`.
pub(super) fn entrants(groups: RankRows, k: u32) -> u32 {
    groups.p.min(groups.mt - k)
}

impl<T: Scalar> Factor<'_, T> {
    pub(super) fn entrants(&self, k: u32) -> u32 {
        entrants(self.groups, k)
    }

    /// Who made the set of rows at a node of the tree.
    pub(super) fn made(&self, v: u32, k: u32) -> FlowOf {
        match v.checked_sub(self.entrants(k)) {
            Some(i) => {
                let r = self.groups.owner(k + i);
                (Gather { r, k }, gather::stack(self.groups))
            }
            None => (Merge { v, k }, merge::WINNERS),
        }
    }

    /// The match in which it plays.
    pub(super) fn match_of(v: u32, k: u32) -> FlowOf {
        let flow = match v % 2 == 1 && v > 1 {
            true => merge::SECOND,
            false => merge::FIRST,
        };
        match v / 2 {
            0 | 1 => (Panel { k }, flow),
            v => (Merge { v, k }, flow),
        }
    }

    /// The nodes whose rows play at a node; a group that is alone plays against none.
    pub(super) fn players(&self, v: u32, k: u32) -> Range<u32> {
        match (v, self.entrants(k)) {
            (1, 1) => v..v + 1,
            _ => 2 * v..2 * v + 2,
        }
    }

    /// Says whose rows play at a node.
    pub(super) fn match_between(&self, v: u32, k: u32, from: &mut impl Inputs<Self>) {
        come(self.players(v, k), |v| self.rows_to_match(v, k), from);
    }

    /// The node of the rows that a group puts forward.
    pub(super) fn leaf(&self, r: u32, k: u32) -> u32 {
        self.entrants(k) + self.groups.distance(r, k) as u32
    }

    /// The tile row where a match is played: the first of its leftmost group.
    pub(super) fn place_of(&self, v: u32, k: u32) -> u32 {
        let entrants = self.entrants(k);
        k + first_entrant(v, entrants)
    }

    /// The rows that a group puts forward: each a column that ends with its number in the panel.
    ///
    /// - `stack`: its tiles, one below the other
    pub(super) fn entrants_of(
        &self,
        (r, k): (u32, u32),
        tiles: &[&Tile<T>],
        mut stack: Tile<T>,
    ) -> Tile<T> {
        let width = stack.cols();
        let winners = self.winners(&mut stack);
        let mut set = numbered::room(width, winners.len(), self.a.memory());
        // The row of the stack that each tile begins with.
        let mut top = 0;
        let tops = tiles.iter().map(|tile| {
            top += tile.rows();
            top - tile.rows()
        });
        let tops: Vec<usize> = tops.collect();
        let rows_above = self.a.row_range(k as usize).start;
        let first_rows = self
            .groups
            .tiles(r, k)
            .map(|m| self.a.row_range(m as usize).start);
        let first_rows: Vec<usize> = first_rows.map(|row| row - rows_above).collect();
        let mut rows = vec![Vec::new(); tiles.len()];
        let mut numbers = Vec::with_capacity(winners.len());
        for (&row, at) in winners.iter().zip(numbered::places(width)) {
            let row = row as usize;
            let tile = tops.partition_point(|&top| top <= row) - 1;
            let i = row - tops[tile];
            rows[tile].push((i, at));
            numbers.push((first_rows[tile] + i) as u32);
        }
        numbered::set_numbers(set.as_mut_slice(), width, numbers.into_iter());
        for (tile, rows) in tiles.iter().zip(&rows) {
            tile.copy_rows(rows, set.as_mut_slice());
        }
        set
    }

    /// The rows that partial pivoting takes to the top, in its order; overwrites all by the factors.
    fn winners(&self, stack: &mut Tile<T>) -> Vec<u32> {
        let n = stack.rows().min(stack.cols());
        let mut pivots = vec![0; n];
        getrf(self.backend, stack, &mut pivots);
        let mut order = order(&pivots, None, stack.rows());
        order.truncate(n);
        order
    }

    /// WINNERS ← of two sets the rows that win.
    pub(super) fn merge(&self, flows: &mut Flows<'_, Tile<T>>) {
        let [first, made, second] = flows.slots();
        let sets = [Numbered::of(first.read()), Numbered::of(second.read())];
        let winners = self.winners(&mut self.stacked(&sets));
        let mut set = numbered::room(sets[0].width(), winners.len(), self.a.memory());
        for (into, &row) in set.columns_mut().zip(&winners) {
            into.copy_from_slice(row_of(&sets, row));
        }
        made.put(set);
    }

    /// The rows of some sets, one below the other, without their numbers.
    fn stacked(&self, sets: &[Numbered<'_, T>]) -> Tile<T> {
        let (height, width) = (sets.iter().map(Numbered::len).sum(), sets[0].width());
        let mut stack = Tile::unspecified(height, width, Format::ColumnMajor, self.a.memory());
        for (j, into) in stack.columns_mut().enumerate() {
            let rows = sets.iter().flat_map(Numbered::whole);
            into.iter_mut().zip(rows).for_each(|(x, row)| *x = row[j]);
        }
        stack
    }

    /// The last match. PIVOTS ← the swaps that bring its winners to the top of the panel; SEAT ← for
    /// each row of ranks their factors, and the rows that fall there.
    pub(super) fn crown(&self, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let ([first, swaps, second, top], seats, []) = flows.split();
        let sets = [Some(first.read()), second.get()];
        let sets: Vec<_> = sets.into_iter().flatten().map(Numbered::of).collect();
        let mut factors = self.stacked(&sets);
        let winners = self.winners(&mut factors);
        let mut numbers = Vec::new();
        for set in &sets {
            numbers.extend(set.numbers());
        }
        let numbers: Vec<u32> = winners.iter().map(|&row| numbers[row as usize]).collect();
        let packed = Swaps::pack(&raising(&numbers), self.a.memory());
        let (moved, top) = (Swaps::of(&packed), top.read());
        for (r, slot) in (k..self.groups.mt).zip(seats) {
            let fallen = moved.touched.iter().zip(moved.fillers);
            let here = |row: &u32| self.rows.owner(self.tile_of(*row, k).0) == self.rows.owner(r);
            let fallen: Vec<_> = fallen.filter(|(row, _)| here(row)).collect();
            slot.put(self.seat(&factors, winners.len(), top, &fallen));
        }
        swaps.put(packed);
    }

    /// The factors of the winners, `height` rows; in the storage behind them how many rows fall, and
    /// those rows, each with the number of the row that it becomes.
    fn seat(
        &self,
        factors: &Tile<T>,
        height: usize,
        top: &Tile<T>,
        fallen: &[(&u32, &u32)],
    ) -> Tile<T> {
        let width = factors.cols();
        let behind = (1 + fallen.len() * stored_width(width)).div_ceil(height);
        let mut seat = Tile::new(height, width + behind, Format::ColumnMajor, self.a.memory());
        let (square, rest) = seat.as_mut_slice().split_at_mut(height * width);
        let columns = factors.as_slice().chunks_exact(factors.rows());
        for (into, from) in square.chunks_exact_mut(height).zip(columns) {
            into.copy_from_slice(&from[..height]);
        }
        let (count, rows) = rest.split_at_mut(1);
        set_number(&mut count[0], fallen.len() as u32);
        let fillers = fallen.iter().map(|&(_, &filler)| filler as usize);
        let fillers: Vec<_> = fillers.zip(numbered::places(width)).collect();
        top.copy_rows(&fillers, rows);
        numbered::set_numbers(rows, width, fallen.iter().map(|&(&touched, _)| touched));
        seat
    }

    /// TILE ← its part of the factors of panel k.
    pub(super) fn sit(&self, (m, k): (u32, u32), tile: &mut Tile<T>, seat: &Tile<T>) {
        let (height, width) = (seat.rows(), tile.cols());
        let (factors, behind) = seat.as_slice().split_at(height * width);
        let (count, rows) = behind.split_at(1);
        let fallen = &rows[..number(count[0]) as usize * stored_width(width)];
        let here = self.rows_of_tile((m, k), Numbered::stored(fallen, width));
        tile.set_rows(&here, fallen);
        if m != k {
            return eliminate(self.backend, seat, tile);
        }
        if tile.rows() == height {
            return tile.read_column_major(factors, height);
        }
        // A diagonal tile that is higher than wide: below its triangle stand rows that lost.
        let all = tile.rows();
        let memory = self.a.memory();
        let mut whole = Tile::unspecified(all, width, Format::ColumnMajor, memory);
        tile.write_column_major(whole.as_mut_slice(), all);
        let mut losers = Tile::unspecified(all - height, width, Format::ColumnMajor, memory);
        for (into, from) in losers.columns_mut().zip(whole.columns_mut()) {
            into.copy_from_slice(&from[height..]);
        }
        eliminate(self.backend, seat, &mut losers);
        let winners = factors.chunks_exact(height);
        let parts = winners.zip(losers.as_slice().chunks_exact(all - height));
        for (into, (winners, losers)) in whole.columns_mut().zip(parts) {
            let (top, below) = into.split_at_mut(height);
            top.copy_from_slice(winners);
            below.copy_from_slice(losers);
        }
        tile.read_column_major(whole.as_slice(), all);
    }
}

/// The first group whose rows play at a node of a tree of so many groups, or below it.
pub(crate) fn first_entrant(v: u32, entrants: u32) -> u32 {
    let leaf = std::iter::successors(Some(v), |v| Some(2 * v)).find(|v| *v >= entrants);
    leaf.map_or(0, |leaf| leaf - entrants)
}

/// A row of some sets with its number, counted through all of them.
fn row_of<'s, T: Scalar>(sets: &[Numbered<'s, T>], row: u32) -> &'s [T] {
    let mut rows = sets.iter().flat_map(Numbered::whole);
    rows.nth(row as usize).unwrap_or_default()
}
