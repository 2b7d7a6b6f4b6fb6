//! View: which tiles a rank has, and which it needs.

use super::product_of;
use crate::matrix::{Distribution, Grid, Layout};
use crate::scalar::Scalar;
use std::ops::Range;

/// A matrix as one rank sees it.
pub(super) struct MatrixView {
    pub(super) layout: Layout,
    pub(super) grid: Grid,
    place: (usize, usize),
    pub(super) element: u128,
    pub(super) mt: usize,
    pub(super) nt: usize,
}

impl MatrixView {
    pub(super) fn of<T: Scalar>(layout: &Layout) -> Self {
        let Distribution::BlockCyclic(grid) = *layout.distribution();
        MatrixView {
            layout: *layout,
            grid,
            place: grid.place(layout.rank()).unwrap_or_default(),
            element: size_of::<T>() as u128,
            mt: layout.mt(),
            nt: layout.nt(),
        }
    }

    /// Whether the rank has a part in row `m` of tiles.
    pub(super) fn in_row(&self, m: usize) -> bool {
        m % self.grid.p() == self.place.0
    }

    pub(super) fn in_col(&self, n: usize) -> bool {
        n % self.grid.q() == self.place.1
    }

    /// Whether it has a part in one of these rows.
    pub(super) fn meets_rows(&self, rows: Range<usize>) -> bool {
        let ahead = self.place.0 + self.grid.p() - rows.start % self.grid.p();
        rows.start + ahead % self.grid.p() < rows.end
    }

    pub(super) fn meets_cols(&self, cols: Range<usize>) -> bool {
        let ahead = self.place.1 + self.grid.q() - cols.start % self.grid.q();
        cols.start + ahead % self.grid.q() < cols.end
    }

    /// Whether an update of Cholesky reads tile (m, k) here: along its row, and down column m.
    pub(super) fn reads_column(&self, m: usize, k: usize) -> bool {
        let first = if m == k { m + 1 } else { m };
        let below = self.in_col(m) && self.meets_rows(first..self.nt);
        below || m > k && self.in_row(m) && self.meets_cols(k + 1..m + 1)
    }

    /// Whether the matrix is on other ranks, too.
    pub(super) fn is_spread(&self) -> bool {
        self.grid.n_ranks() > 1
    }

    /// Whether columns are on several ranks each.
    pub(super) fn is_spread_down(&self) -> bool {
        self.grid.p() > 1
    }

    pub(super) fn is_here(&self, m: usize, n: usize) -> bool {
        self.in_row(m) && self.in_col(n)
    }

    /// Rows of the matrix from tile row `first` on that the rank has a part in.
    pub(super) fn rows_here(&self, first: usize) -> u128 {
        let own = (first..self.mt).filter(|&m| self.in_row(m));
        own.map(|m| self.layout.tile_rows(m) as u128).sum()
    }

    /// Bytes of tile (m, n).
    pub(super) fn bytes(&self, m: usize, n: usize) -> u128 {
        let (rows, cols) = (self.layout.tile_rows(m), self.layout.tile_cols(n));
        product_of([rows as u128, cols as u128, self.element])
    }

    /// Bytes of the tiles of other ranks, each so many times.
    pub(super) fn sum(&self, times: impl Fn(usize, usize) -> usize) -> u128 {
        self.add(&|m, n| match self.is_here(m, n) {
            true => 0,
            false => times(m, n),
        })
    }

    /// What comes with so many steps in a row, where that is most, of what [`sum`](Self::sum) adds: tile
    /// (m, n) with step min(m, n).
    pub(super) fn sum_of_steps(
        &self,
        n_steps: usize,
        times: &dyn Fn(usize, usize) -> usize,
    ) -> u128 {
        let mut of_step = vec![0; self.mt.min(self.nt)];
        for (m, n) in (0..self.nt).flat_map(|n| (0..self.mt).map(move |m| (m, n))) {
            if !self.is_here(m, n) {
                of_step[m.min(n)] += times(m, n) as u128 * self.bytes(m, n);
            }
        }
        let n_steps = n_steps.min(of_step.len()).max(1);
        let windows = of_step.windows(n_steps);
        windows
            .map(|steps| steps.iter().sum())
            .max()
            .unwrap_or_default()
    }

    /// Bytes of the tiles of this rank.
    pub(super) fn sum_here(&self, times: impl Fn(usize, usize) -> usize) -> u128 {
        self.add(&|m, n| match self.is_here(m, n) {
            true => times(m, n),
            false => 0,
        })
    }

    /// Bytes of all tiles, each so many times; compiled once for all matrices.
    pub(super) fn add(&self, times: &dyn Fn(usize, usize) -> usize) -> u128 {
        let tiles = (0..self.nt).flat_map(|n| (0..self.mt).map(move |m| (m, n)));
        tiles
            .map(|(m, n)| times(m, n) as u128 * self.bytes(m, n))
            .sum()
    }

    /// Bytes of so many of the widest columns of tiles that are here.
    pub(super) fn columns(&self, n: u128) -> u128 {
        let width = self.layout.nb().min(self.layout.cols()) as u128;
        product_of([n, self.rows_here(0), width, self.element])
    }

    /// What checks on one rank hold of tiles of A: for each worker one that it works on, and one that
    /// another has taken over.
    pub(super) fn begun(&self, workers: usize) -> u128 {
        self.kernels(workers) / 2
    }

    /// The sums along rows and columns that checks take of each tile that is here, of what is and of
    /// what should be; and of the whole.
    pub(super) fn sums(&self) -> u128 {
        let sums =
            |rows: usize, cols: usize| 2 * (rows as u128 + cols as u128) * size_of::<f64>() as u128;
        let tiles = self.layout.tiles();
        let tiles = tiles.map(|(m, n)| sums(self.layout.tile_rows(m), self.layout.tile_cols(n)));
        tiles.sum::<u128>() + sums(self.layout.rows(), self.layout.cols())
    }

    /// Bytes of a tile that is not cut by an end of the matrix.
    pub(super) fn largest_tile(&self) -> u128 {
        let longest = self.layout.rows().max(self.layout.cols());
        let nb = self.layout.nb().min(longest) as u128;
        product_of([nb, nb, self.element])
    }

    /// What kernels work in: four tiles for each worker.
    pub(super) fn kernels(&self, workers: usize) -> u128 {
        product_of([4, workers as u128, self.largest_tile()])
    }
}
