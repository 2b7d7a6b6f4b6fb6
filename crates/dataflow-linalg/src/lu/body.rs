//! What the tasks of the factorisation do with their tiles.
//!
//! # Elsewhere
//! Which tiles a task gets, and what becomes of them: `factor` and `edges`.

use super::factor::Factor;
use super::moving::Moving;
use super::numbered::{self, Numbered};
use super::pivots::{Swaps, of_words, order, words};
use super::rank_rows::RankRows;
use crate::kernel::{SCRATCH_MEMORY, getrf_below, getrf_from, solve_unit_rows};
use crate::matrix::{Format, Layout, Part, Tile};
use crate::scalar::Scalar;
use dataflow_core::prelude::*;
use dataflow_core::space::Slot;

impl<T: Scalar> Factor<'_, T> {
    /// STACK ← the tiles (m, k) of group r, one below the other; in a tournament the rows that it
    /// puts forward.
    pub(super) fn gather(&self, r: u32, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let heights = self.groups.tiles(r, k);
        let heights = heights.map(|m| self.a.tile_rows(m as usize));
        let (height, width) = (heights.sum(), self.a.tile_cols(k as usize));
        let mut stack = Tile::unspecified(height, width, Format::ColumnMajor, self.a.memory());
        let elements = stack.as_mut_slice();
        let ([], tiles, [made]) = flows.split();
        let tiles: Vec<_> = tiles.filter_map(Slot::get).collect();
        let mut top = 0;
        for tile in &tiles {
            tile.write_column_major(&mut elements[top..], height);
            top += tile.rows();
        }
        if self.tournament {
            stack = self.entrants_of((r, k), &tiles, stack);
        }
        made.put(stack);
    }

    /// P·A = L·U of the tiles of all stacks, in the order of rows.
    pub(super) fn panel(&self, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let (format, memory) = (self.a.layout().format(), self.a.memory());
        let ([own, swaps], mut slots, []) = flows.split();
        let own = own.update();
        let others = slots.by_ref().take(self.rows.p as usize - 1);
        let others: Vec<_> = others.map(Slot::get).collect();
        let mut pivots = vec![0; (self.rows_from(k)).min(own.cols())];
        if others.iter().all(Option::is_none) {
            getrf_from(self.backend, (0, format), own, &mut pivots);
        } else {
            let (height, width) = (self.rows_from(k), own.cols());
            let mut whole = Tile::unspecified(height, width, Format::ColumnMajor, memory);
            for (d, stack) in [Some(&*own)]
                .into_iter()
                .chain(others.iter().copied())
                .enumerate()
            {
                let Some(stack) = stack else { continue };
                for (row, at, n) in interleave((self.a.layout(), self.rows), k, d) {
                    copy_rows((stack, at), (&mut whole, row), n);
                }
            }
            getrf_from(self.backend, (0, format), &mut whole, &mut pivots);
            for (row, at, n) in interleave((self.a.layout(), self.rows), k, 0) {
                copy_rows((&whole, row), (own, at), n);
            }
            for ((d, slot), stack) in (1..).zip(slots).zip(others) {
                let Some(stack) = stack else { continue };
                let (rows, cols) = (stack.rows(), stack.cols());
                let mut back = Tile::unspecified(rows, cols, Format::ColumnMajor, memory);
                for (row, at, n) in interleave((self.a.layout(), self.rows), k, d) {
                    copy_rows((&whole, row), (&mut back, at), n);
                }
                slot.put(back);
            }
        }
        swaps.put(Swaps::pack(&pivots, memory));
    }

    /// Rows of the matrix from tile row k on.
    pub(super) fn rows_from(&self, k: u32) -> usize {
        self.a.rows() - self.a.row_range(k as usize).start
    }

    /// TILE ← its rows of the stack; on the diagonal TRIANGLE ← its L.
    pub(super) fn scatter(&self, m: u32, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [tile, stack, triangle] = flows.slots();
        let (tile, stack) = (tile.update(), stack.read());
        let before = self.rows.tiles(m, k).take_while(|&above| above < m);
        let top: usize = before.map(|above| self.a.tile_rows(above as usize)).sum();
        if self.tournament {
            self.sit((m, k), tile, stack);
        } else if tile.rows() > 0 && tile.cols() > 0 {
            tile.read_column_major(&stack.as_slice()[top..], stack.rows());
        }
        if m == k {
            triangle.put(tile.copy_of(Part::UnitLower));
        }
    }

    /// RISEN ← the rows of rank row r that leave column n for the top, each a column.
    pub(super) fn rise(&self, r: u32, n: u32, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let ([swaps], tiles, [made]) = flows.split();
        let swaps = Swaps::of(swaps.read());
        let width = self.a.tile_cols(n as usize);
        let leaving = swaps.touched.iter().map(|&row| self.tile_of(row, k));
        let leaving = leaving.filter(|&(m, _)| self.rows.owner(m) == r);
        let mut risen = Tile::unspecified(
            width,
            leaving.clone().count(),
            Format::ColumnMajor,
            self.a.memory(),
        );
        let tiles: Vec<_> = tiles.map(Slot::get).collect();
        let leaving: Vec<_> = leaving.zip((0..).step_by(width)).collect();
        // Rows of one tile are neighbours.
        for rows in leaving.chunk_by(|((a, _), _), ((b, _), _)| a == b) {
            if let Some(tile) = tiles[self.rows.at(rows[0].0.0)] {
                let rows: Vec<_> = rows.iter().map(|&((_, i), at)| (i, at)).collect();
                tile.copy_rows(&rows, risen.as_mut_slice());
            }
        }
        made.put(risen);
    }

    /// A(k,n) ← L(k,k)⁻¹ · (P·A)(k,n); FALLEN ← the rows that make room, each a column that ends
    /// with the number of the row that it becomes.
    pub(super) fn top(&self, n: u32, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let p = self.rows.p as usize;
        let ([tile, swaps, triangle], mut slots, []) = flows.split();
        let (tile, swaps) = (tile.update(), Swaps::of(swaps.read()));
        let risen: Vec<_> = slots.by_ref().take(p).map(Slot::get).collect();
        let (width, height) = (self.a.tile_cols(n as usize), tile.rows());
        let memory = self.a.memory();

        // Rows of the top as columns: so the solution is from the right.
        let mut rows = Tile::unspecified(width, height, Format::ColumnMajor, &SCRATCH_MEMORY);
        let (places, counts) = self.places(swaps.touched, k);
        let mut stay = Vec::new();
        for (i, &source) in swaps.sources.iter().enumerate() {
            if (source as usize) < swaps.sources.len() {
                stay.push((source as usize, i * width));
            } else if let Ok(at) = swaps.touched.binary_search(&source) {
                let (r, place) = places[at];
                if let Some(risen) = risen[r] {
                    let row = &risen.as_slice()[place * width..][..width];
                    rows.as_mut_slice()[i * width..][..width].copy_from_slice(row);
                }
            }
        }
        tile.copy_rows(&stay, rows.as_mut_slice());
        for (r, slot) in slots.enumerate() {
            let mut fallen = numbered::room(width, counts[r], memory);
            let here = places.iter().enumerate().filter(|(_, place)| place.0 == r);
            let here = here.map(|(at, _)| at);
            let leaving = here.clone().map(|at| swaps.fillers[at] as usize);
            let leaving: Vec<_> = leaving.zip(numbered::places(width)).collect();
            tile.copy_rows(&leaving, fallen.as_mut_slice());
            let goals = here.map(|at| swaps.touched[at]);
            numbered::set_numbers(fallen.as_mut_slice(), width, goals);
            slot.put(fallen);
        }
        solve_unit_rows(self.backend, triangle.read(), &mut rows);
        let all: Vec<_> = (0..height).map(|i| (i, i * width)).collect();
        tile.set_rows(&all, rows.as_slice());
    }

    /// Which rank row each touched row of panel k belongs to, and how many of it come before; then how many
    /// belong to each.
    fn places(&self, touched: &[u32], k: u32) -> (Vec<(usize, usize)>, Vec<usize>) {
        let mut counts = vec![0; self.rows.p as usize];
        let place = |&row: &u32| {
            let r = self.rows.owner(self.tile_of(row, k).0) as usize;
            counts[r] += 1;
            (r, counts[r] - 1)
        };
        (touched.iter().map(place).collect(), counts)
    }

    /// A(m,n) ← (P·A)(m,n) − L(m,k)·U(k,n).
    pub(super) fn update(&self, m: u32, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [tile, left, upper, fallen] = flows.slots();
        let (tile, fallen) = (tile.update(), fallen.read());
        let rows = self.rows_of_tile((m, k), Numbered::of(fallen));
        tile.set_rows(&rows, fallen.as_slice());
        getrf_below(self.backend, left.read(), upper.read(), tile);
    }

    /// ORDER ← the order of the rows below tile row n after all steps that follow.
    pub(super) fn order(&self, n: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [new, later, swaps] = flows.slots();
        let pivots = Swaps::of(swaps.read()).pivots;
        let order = order(pivots, later.get().map(words), self.rows_from(n + 1));
        new.put(of_words(&order, self.a.memory()));
    }

    /// How the rows of column n move, once all steps are done.
    fn moving<'o>(&self, n: u32, order: &'o Tile<T>) -> Moving<'o> {
        Moving {
            order: &words(order)[..self.rows_from(n + 1)],
            first: n as usize + 1,
            nb: self.a.nb(),
            p: self.rows.p as usize,
        }
    }

    /// OUT ← the rows of rank row r, for each row of ranks those that go there.
    pub(super) fn leave(&self, r: u32, n: u32, flows: &mut Flows<'_, Tile<T>>) {
        let ([order], mut slots, []) = flows.split();
        let moving = self.moving(n, order.read());
        let tiles = slots.by_ref().take(self.rows.most());
        let tiles: Vec<_> = tiles.filter_map(Slot::get).collect();
        let width = self.a.tile_cols(n as usize);
        let stacks = moving.collect(r as usize, width, tiles.into_iter(), self.a.memory());
        for (slot, stack) in slots.zip(stacks) {
            slot.put(stack);
        }
    }

    /// TILE ← its rows, from wherever they come.
    pub(super) fn settle(&self, m: u32, n: u32, flows: &mut Flows<'_, Tile<T>>) {
        let ([tile, order], stacks, []) = flows.split();
        let stacks: Vec<_> = stacks.map(Slot::get).collect();
        self.moving(n, order.read())
            .take(m as usize, &stacks, tile.update());
    }
}

/// The rows of panel k that lie in the stack of the rank row at a distance, tile by tile: the
/// first in the panel, the first in the stack, how many.
fn interleave(
    (a, rows): (&Layout, RankRows),
    k: u32,
    distance: usize,
) -> impl Iterator<Item = (usize, usize, usize)> {
    let first = a.row_range(k as usize).start;
    let mut at = 0;
    let tiles = (k..rows.mt).skip(distance).step_by(rows.p as usize);
    tiles.map(move |m| {
        let rows = a.row_range(m as usize);
        at += rows.len();
        (rows.start - first, at - rows.len(), rows.len())
    })
}

/// Copies rows of a column-major tile, from one row on, to rows of another, from one row on.
fn copy_rows<T: Scalar>(
    (from, first): (&Tile<T>, usize),
    (to, at): (&mut Tile<T>, usize),
    n: usize,
) {
    let height = from.rows().max(1);
    let columns = from.as_slice().chunks_exact(height);
    for (from, to) in columns.zip(to.columns_mut()) {
        to[at..][..n].copy_from_slice(&from[first..][..n]);
    }
}
