//! Moving: how the rows of a tile column get to new places, on whatever rank of the column.
//!
//! A row of ranks collects the rows that leave its tiles, one stack for each row of ranks that
//! they go to; there each tile takes its rows out of the stacks. In a stack each column is a row of
//! the matrix, in the order of the places that they go to.

use crate::matrix::{Format, Tile};
use crate::scalar::Scalar;
use dataflow_core::port::Memory;
use std::borrow::Borrow;
use std::sync::Arc;

/// New places for the rows of the tile rows from `first` on.
#[derive(Clone, Copy)]
pub(super) struct Moving<'a> {
    /// Row `i` comes from row `order[i]`, both counted from the first row of tile row `first`.
    pub(super) order: &'a [u32],
    /// The first tile row.
    pub(super) first: usize,
    /// Tile order.
    pub(super) nb: usize,
    /// Rows of ranks.
    pub(super) p: usize,
}

impl Moving<'_> {
    fn tile(&self, row: usize) -> usize {
        self.first + row / self.nb
    }

    fn rank_row(&self, row: usize) -> usize {
        self.tile(row) % self.p
    }

    /// Collects what leaves the tiles of rank row `from`, a stack for each rank row; `tiles` are
    /// those tiles, in order, from tile row `first` on.
    pub(super) fn collect<T: Scalar, B: Borrow<Tile<T>>>(
        &self,
        from: usize,
        width: usize,
        tiles: impl Iterator<Item = B>,
        memory: &Arc<dyn Memory>,
    ) -> Vec<Tile<T>> {
        let (leaving, counts) = self.leaving(from);
        let stack = |&n| Tile::unspecified(width, n, Format::ColumnMajor, memory);
        let mut stacks: Vec<Tile<T>> = counts.iter().map(stack).collect();
        let mut leaving = leaving.iter();
        for tile in tiles {
            let tile = tile.borrow();
            let mut rows = vec![Vec::new(); self.p];
            for (i, &(to, place)) in (0..tile.rows()).zip(leaving.by_ref()) {
                rows[to].push((i, place * width));
            }
            for (rows, stack) in rows.iter().zip(&mut stacks) {
                tile.copy_rows(rows, stack.as_mut_slice());
            }
        }
        stacks
    }

    /// Where the rows of rank row `from` go, in their order: to which rank row, and how many get there before;
    /// then how many go to each.
    fn leaving(&self, from: usize) -> (Vec<(usize, usize)>, Vec<usize>) {
        let mut counts = vec![0; self.p];
        let mut places = vec![None; self.order.len()];
        for (to, &source) in self.order.iter().enumerate() {
            if self.rank_row(source as usize) == from {
                let count = &mut counts[self.rank_row(to)];
                places[source as usize] = Some((self.rank_row(to), *count));
                *count += 1;
            }
        }
        (places.into_iter().flatten().collect(), counts)
    }

    /// Takes the rows of tile row `m` out of the stacks, of which there is one from each rank row.
    pub(super) fn take<T: Scalar>(
        &self,
        m: usize,
        stacks: &[Option<&Tile<T>>],
        tile: &mut Tile<T>,
    ) {
        for (rows, stack) in self.coming(m, tile.cols()).iter().zip(stacks) {
            if let Some(stack) = stack {
                tile.set_rows(rows, stack.as_slice());
            }
        }
    }

    /// Which rows of tile row `m` come in each stack, and where in it they begin, each so wide.
    fn coming(&self, m: usize, width: usize) -> Vec<Vec<(usize, usize)>> {
        let (mut counts, mut rows) = (vec![0; self.p], vec![Vec::new(); self.p]);
        for (to, &source) in self.order.iter().enumerate() {
            if self.rank_row(to) != m % self.p {
                continue;
            }
            let from = self.rank_row(source as usize);
            let place = counts[from];
            counts[from] += 1;
            if self.tile(to) == m {
                rows[from].push((to % self.nb, place * width));
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::port::Heap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_row_gets_to_its_place_whoever_owns_the_tiles(
            order in (1usize..23).prop_flat_map(|n| Just((0..n as u32).collect::<Vec<_>>()).prop_shuffle()),
            nb in 1usize..6, p in 1usize..4, first in 0usize..3,
        ) {
            let heap: Arc<dyn Memory> = Arc::new(Heap);
            let (rows, width) = (order.len(), 3);
            let tile_rows = |m: usize| nb.min(rows - (m - first) * nb);
            let tiles: Vec<usize> = (first..first + rows.div_ceil(nb)).collect();
            let entry = |m: usize, i: usize, j: usize| (((m - first) * nb + i) * 10 + j) as f64;
            let format = Format::SubTiled { order: 2 };
            let make = |m: usize| Tile::from_fn(tile_rows(m), width, format, &heap, |i, j| entry(m, i, j));
            let moving = Moving { order: &order, first, nb, p };
            let stacks: Vec<Vec<Tile<f64>>> = (0..p).map(|from| {
                let own: Vec<_> = tiles.iter().filter(|m| **m % p == from).map(|m| make(*m)).collect();
                moving.collect(from, width, own.iter(), &heap)
            }).collect();
            for &m in &tiles {
                let mut tile = make(m);
                let here: Vec<_> = stacks.iter().map(|stacks| Some(&stacks[m % p])).collect();
                moving.take(m, &here, &mut tile);
                for i in 0..tile.rows() {
                    let source = order[(m - first) * nb + i] as usize;
                    prop_assert_eq!(tile.get(i, 1), (source * 10 + 1) as f64);
                }
            }
        }
    }
}
