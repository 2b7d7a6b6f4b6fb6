//! Which tile rows of a column belong to which row of ranks.

use crate::matrix::{Distribution, TiledMatrix};
use crate::scalar::Scalar;

/// The rows of a grid of ranks, and the tile rows that are dealt to them in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankRows {
    /// Rows of ranks.
    pub(super) p: u32,
    /// Tile rows; none where there is no column for them.
    pub(super) mt: u32,
}

impl RankRows {
    /// Those over which the tiles of a matrix are spread.
    pub(super) fn of<T: Scalar>(a: &TiledMatrix<T>) -> Self {
        let Distribution::BlockCyclic(grid) = a.distribution();
        RankRows {
            p: grid.p() as u32,
            mt: if a.nt() > 0 { a.mt() as u32 } else { 0 },
        }
    }

    /// The rank row of tile row `m`.
    pub(super) fn owner(&self, m: u32) -> u32 {
        m % self.p
    }

    /// The tile rows from `first` on that belong to rank row `r`.
    pub(super) fn tiles(&self, r: u32, first: u32) -> impl Iterator<Item = u32> + Clone + use<> {
        let ahead = self.distance(r, first) as u32;
        (first + ahead..self.mt).step_by(self.p as usize)
    }

    /// The rank rows that have tiles from tile row `first` on.
    pub(super) fn with_tiles(&self, first: u32) -> impl Iterator<Item = u32> + use<> {
        let p = self.p;
        (0..p.min(self.mt.saturating_sub(first))).map(move |d| (first + d) % p)
    }

    /// The most tiles of a column that belong to one rank row.
    pub(super) fn most(&self) -> usize {
        self.mt.div_ceil(self.p) as usize
    }

    /// Where among the tiles of its rank row in a column tile row `m` stands.
    pub(super) fn at(&self, m: u32) -> usize {
        (m / self.p) as usize
    }

    /// How many rank rows `r` lies below that of tile row `k`, around the grid.
    pub(super) fn distance(&self, r: u32, k: u32) -> usize {
        ((r % self.p + self.p - k % self.p) % self.p) as usize
    }
}
