//! Distributions: which rank owns which tile.
//!
//! # Law
//! An owner is a function of the tile's indices alone: every rank computes the same answer without
//! a message.
//!
//! # Elsewhere
//! Where a rank keeps the tiles it owns: [`Layout::slot`](super::Layout::slot).

use dataflow_core::rank::Rank;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A `p × q` grid of ranks, numbered row by row: rank `r · q + c` sits in row `r`, column `c`.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::Grid;
/// let grid: Grid = "2x3".parse()?;
/// assert_eq!((grid.p(), grid.q(), grid.n_ranks()), (2, 3, 6));
/// assert_eq!(Grid::squarest(8), Some("2x4".parse()?));
/// # Ok::<(), dataflow_linalg::matrix::GridError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    p: u32,
    q: u32,
}

impl Grid {
    /// One rank.
    pub const ALONE: Grid = Grid { p: 1, q: 1 };

    /// A grid of `p` rows and `q` columns.
    ///
    /// # Errors
    /// If a side is 0, or `p · q` exceeds the 2³² − 1 ranks that can be named.
    pub fn new(p: u32, q: u32) -> Result<Self, GridError> {
        match p.checked_mul(q) {
            Some(n_ranks) if n_ranks > 0 => Ok(Grid { p, q }),
            _ => Err(GridError::Size { p, q }),
        }
    }

    /// The grid of exactly `n_ranks` ranks that is nearest to a square, with `p ≤ q`.
    /// `None` for no ranks at all.
    pub fn squarest(n_ranks: u32) -> Option<Self> {
        let p = (1..=n_ranks.isqrt())
            .rev()
            .find(|p| n_ranks.is_multiple_of(*p))?;
        Some(Grid { p, q: n_ranks / p })
    }

    /// Rows.
    pub fn p(self) -> usize {
        self.p as usize
    }

    /// Columns.
    pub fn q(self) -> usize {
        self.q as usize
    }

    /// `p · q`.
    pub fn n_ranks(self) -> usize {
        self.p() * self.q()
    }

    /// Row and column of a rank; `None` if it is outside the grid.
    pub fn place(self, rank: Rank) -> Option<(usize, usize)> {
        let place = ((rank.0 / self.q) as usize, (rank.0 % self.q) as usize);
        (place.0 < self.p()).then_some(place)
    }

    /// How many of some rows of tiles are dealt out to a row of the grid.
    pub(crate) fn rows_in(self, row: usize, tiles: Range<usize>) -> usize {
        dealt(tiles, row, self.p())
    }

    /// How many of some columns of tiles are dealt out to a column of the grid.
    pub(crate) fn columns_in(self, column: usize, tiles: Range<usize>) -> usize {
        dealt(tiles, column, self.q())
    }
}

/// How many numbers of a range are `at` modulo `of`.
fn dealt(range: Range<usize>, at: usize, of: usize) -> usize {
    let below = |end: usize| (end + of - 1 - at) / of;
    below(range.end.max(range.start)) - below(range.start)
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.p, self.q)
    }
}

impl FromStr for Grid {
    type Err = GridError;

    /// Reads `PxQ`, like `2x3`.
    fn from_str(text: &str) -> Result<Self, GridError> {
        let side = |word: &str| word.parse().ok();
        text.split_once(['x', 'X'])
            .and_then(|(p, q)| Some((side(p)?, side(q)?)))
            .ok_or_else(|| GridError::Text(text.into()))
            .and_then(|(p, q)| Grid::new(p, q))
    }
}

/// Why there is no such grid.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::Grid;
/// let refused = "2 by 3".parse::<Grid>().unwrap_err();
/// assert_eq!(refused.to_string(), r#""2 by 3" is not a grid (two whole numbers joined by x, like 2x3)"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GridError {
    /// A side is 0, or the ranks are too many to be numbered.
    Size {
        /// Rows asked for.
        p: u32,
        /// Columns asked for.
        q: u32,
    },
    /// The text is not of the form `PxQ`.
    Text(String),
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GridError::Size { p, q } => write!(
                f,
                "a grid of {p} x {q} ranks does not exist (both at least 1, at most {} in all)",
                u32::MAX
            ),
            GridError::Text(text) => write!(
                f,
                "\"{text}\" is not a grid (two whole numbers joined by x, like 2x3)"
            ),
        }
    }
}

impl std::error::Error for GridError {}

/// Maps tile indices to ranks.
///
/// # Examples
/// ```
/// use dataflow_core::rank::Rank;
/// use dataflow_linalg::matrix::{Distribution, Grid};
/// let owner = Distribution::BlockCyclic(Grid::new(2, 3)?);
/// assert_eq!(owner.rank_of(0, 0), Rank(0));
/// assert_eq!(owner.rank_of(5, 7), Rank(4));      // row 5 mod 2 = 1, column 7 mod 3 = 1
/// # Ok::<(), dataflow_linalg::matrix::GridError>(())
/// ```
///
/// # Source
/// The two-dimensional block-cyclic distribution is ScaLAPACK's: Blackford et al., *ScaLAPACK
/// Users' Guide*, SIAM 1997, chapter 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distribution {
    /// Tile `(i, j)` belongs to the rank in row `i mod p`, column `j mod q` of the grid.
    BlockCyclic(Grid),
}

impl Distribution {
    /// Everything on one rank.
    pub const ALONE: Distribution = Distribution::BlockCyclic(Grid::ALONE);

    /// Number of ranks that own tiles if there are enough of them.
    pub fn n_ranks(&self) -> usize {
        match self {
            Distribution::BlockCyclic(grid) => grid.n_ranks(),
        }
    }

    /// The owner of tile `(i, j)`.
    pub fn rank_of(&self, i: usize, j: usize) -> Rank {
        match self {
            Distribution::BlockCyclic(grid) => {
                let rank = (i % grid.p()) * grid.q() + j % grid.q();
                Rank(u32::try_from(rank).unwrap_or_else(|_| {
                    unreachable!("rank {rank} of a grid whose ranks are numbered in 32 bits")
                }))
            }
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::BlockCyclic(grid) => grid.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_and_columns_are_dealt_out_as_owners_say() {
        let grid = Grid::new(3, 4).unwrap();
        let owners = Distribution::BlockCyclic(grid);
        for rank in (0..12).map(Rank) {
            let (row, column) = grid.place(rank).unwrap();
            for (first, end) in (0..9).flat_map(|first| (0..15).map(move |end| (first, end))) {
                let rows = (first..end).filter(|&i| owners.rank_of(i, column) == rank);
                assert_eq!(grid.rows_in(row, first..end), rows.count());
                let columns = (first..end).filter(|&j| owners.rank_of(row, j) == rank);
                assert_eq!(grid.columns_in(column, first..end), columns.count());
            }
        }
    }

    #[test]
    fn the_squarest_grid_has_all_ranks_and_no_more_rows_than_columns() {
        for (n_ranks, p, q) in [
            (1, 1, 1),
            (2, 1, 2),
            (4, 2, 2),
            (6, 2, 3),
            (7, 1, 7),
            (12, 3, 4),
        ] {
            assert_eq!(Grid::squarest(n_ranks), Some(Grid { p, q }), "{n_ranks}");
        }
        assert_eq!(Grid::squarest(0), None);
    }

    #[test]
    fn text_that_is_not_a_grid_is_refused_with_the_text() {
        for text in [
            "", "2", "x", "2x", "x2", "2x3x4", "-1x2", "2*3", "2 x3", "1.5x2",
        ] {
            assert_eq!(text.parse::<Grid>(), Err(GridError::Text(text.into())));
        }
        assert_eq!("0x3".parse::<Grid>(), Err(GridError::Size { p: 0, q: 3 }));
        assert!("65536x65536".parse::<Grid>().is_err(), "2^32 ranks");
    }

    proptest! {
        #[test]
        fn a_grid_reads_what_it_writes(p in 1u32..1000, q in 1u32..1000) {
            let grid = Grid::new(p, q).unwrap();
            prop_assert_eq!(grid.to_string().parse(), Ok(grid));
        }

        #[test]
        fn the_owner_sits_at_the_tile_indices_modulo_the_grid(
            p in 1u32..9, q in 1u32..9, i in 0usize..1000, j in 0usize..1000,
        ) {
            let grid = Grid::new(p, q).unwrap();
            let owner = Distribution::BlockCyclic(grid).rank_of(i, j);
            prop_assert_eq!(grid.place(owner), Some((i % grid.p(), j % grid.q())));
            prop_assert_eq!(grid.place(Rank(p * q)), None);
        }
    }
}
