//! Layouts: how a matrix is cut into tiles, and where each tile lies.
//!
//! # Law
//! Everything here is arithmetic on indices. A tile's slot in its rank's store is a formula of
//! `(i, j)`; the slots of a rank are `0..n_slots()` without holes, column of tiles by column.
//!
//! # Elsewhere
//! The numbers themselves: [`TiledMatrix`](super::TiledMatrix).

use super::{Distribution, Format};
use dataflow_core::rank::Rank;
use dataflow_core::space::Description;
use std::fmt;
use std::ops::Range;

/// Which part of a matrix is stored and read.
///
/// # Examples
/// See [`Layout`](Layout#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// Every tile.
    General,
    /// The lower triangle of a square matrix: the tiles on and below the diagonal, and of the
    /// tiles on it the lower triangle. The matrix meant is symmetric, or Hermitian if complex
    /// (then the imaginary parts of the diagonal are not read), or lower triangular.
    Lower,
}

/// Shape, tile order, stored part, tile format and distribution of a matrix, seen from one rank.
///
/// The matrix is `rows × cols`; tile `(i, j)` begins at element `(i · nb, j · nb)` and is
/// `nb × nb`, smaller at the lower and right edges. Built step by step; the default is one rank: all
/// tiles are rank 0's. A run over ranks is refused if another rank than that from which a matrix is seen
/// has tiles of it ([`distributed`](Self::distributed) says from which).
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::Layout;
/// let layout = Layout::lower(10, 4)?;
/// assert_eq!((layout.mt(), layout.nt(), layout.n_slots()), (3, 3, 6));
/// assert_eq!(layout.tile_rows(2), 2);
/// assert_eq!(layout.slot(1, 0), Some(1));
/// assert_eq!(layout.slot(0, 1), None);           // above the diagonal
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    rows: usize,
    cols: usize,
    nb: usize,
    structure: Structure,
    format: Format,
    distribution: Distribution,
    rank: Rank,
    slots: TilesHere,
}

/// Where the tiles of this rank lie: rows `first_row + P·x`, columns `first_col + Q·y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TilesHere {
    first_row: usize,
    row_step: usize,
    /// Rows of tiles that this rank has a part in.
    n_rows: usize,
    first_col: usize,
    col_step: usize,
    /// Columns of tiles that this rank has a part in.
    n_cols: usize,
    structure: Structure,
}

impl Layout {
    /// All tiles of a `rows × cols` matrix in tiles of order `nb`, column-major, on one rank.
    ///
    /// # Errors
    /// If `nb` is 0, or the tiles are too many to be counted.
    pub fn general(rows: usize, cols: usize, nb: usize) -> Result<Self, LayoutError> {
        Layout::new(rows, cols, nb, Structure::General)
    }

    /// The lower triangle of a matrix of order `n` in tiles of order `nb`, column-major, on one
    /// rank.
    ///
    /// # Errors
    /// As [`Layout::general`].
    pub fn lower(n: usize, nb: usize) -> Result<Self, LayoutError> {
        Layout::new(n, n, nb, Structure::Lower)
    }

    fn new(rows: usize, cols: usize, nb: usize, structure: Structure) -> Result<Self, LayoutError> {
        if nb == 0 {
            return Err(LayoutError::ZeroTileOrder);
        }
        let alone = Distribution::ALONE;
        let format = Format::ColumnMajor;
        let (mt, nt) = (rows.div_ceil(nb), cols.div_ceil(nb));
        Ok(Layout {
            rows,
            cols,
            nb,
            structure,
            format,
            distribution: alone,
            rank: Rank(0),
            slots: TilesHere::new(mt, nt, structure, alone, Rank(0))?,
        })
    }

    /// The same with tiles of another format.
    ///
    /// # Panics
    /// If the format has sub-tiles or pieces of order 0.
    #[must_use]
    #[track_caller]
    pub fn with_format(self, format: Format) -> Self {
        format.expect_order();
        Layout { format, ..self }
    }

    /// The same, spread over ranks and seen from `rank`.
    ///
    /// # Errors
    /// If the distribution has no such rank.
    pub fn distributed(self, distribution: Distribution, rank: Rank) -> Result<Self, LayoutError> {
        let slots = TilesHere::new(self.mt(), self.nt(), self.structure, distribution, rank)?;
        Ok(Layout {
            distribution,
            rank,
            slots,
            ..self
        })
    }

    /// The same, seen from another rank; `None` if there is no such rank.
    pub(crate) fn seen_from(&self, rank: Rank) -> Option<Self> {
        self.distributed(self.distribution, rank).ok()
    }

    /// What ranks must agree on: number of columns, tile order, distribution, which tiles are stored.
    pub(crate) fn describe(&self, about: &mut Description) {
        about.parameter("n", self.cols).parameter("nb", self.nb);
        about.parameter("grid", self.distribution);
        about.ranks(self.distribution.n_ranks() as u64);
        about.parameter("stored", format!("{:?}", self.structure));
    }

    /// The same with all tiles on one rank.
    pub(crate) fn alone(&self) -> Self {
        let (mt, nt, alone) = (self.mt(), self.nt(), Distribution::ALONE);
        let slots = TilesHere::new(mt, nt, self.structure, alone, Rank(0));
        Layout {
            distribution: alone,
            rank: Rank(0),
            slots: slots.unwrap_or_else(|error| unreachable!("{error}, though some were")),
            ..*self
        }
    }

    /// The layout of a square matrix with as many rows, cut alike.
    pub(crate) fn square(&self, structure: Structure) -> Self {
        let square = Layout::new(self.rows, self.rows, self.nb, structure);
        square.unwrap_or_else(|error| unreachable!("{error}, though its right-hand side exists"))
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the matrix.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Order of a tile.
    pub fn nb(&self) -> usize {
        self.nb
    }

    /// Rows of tiles.
    pub fn mt(&self) -> usize {
        self.rows.div_ceil(self.nb)
    }

    /// Columns of tiles.
    pub fn nt(&self) -> usize {
        self.cols.div_ceil(self.nb)
    }

    /// Rows in tile row `i`; 0 beyond the last.
    pub fn tile_rows(&self, i: usize) -> usize {
        self.row_range(i).len()
    }

    /// Columns in tile column `j`; 0 beyond the last.
    pub fn tile_cols(&self, j: usize) -> usize {
        self.col_range(j).len()
    }

    /// The rows of the matrix that tile row `i` holds.
    pub fn row_range(&self, i: usize) -> Range<usize> {
        cut(i, self.nb, self.rows)
    }

    /// The columns of the matrix that tile column `j` holds.
    pub fn col_range(&self, j: usize) -> Range<usize> {
        cut(j, self.nb, self.cols)
    }

    /// The part that is stored.
    pub fn structure(&self) -> Structure {
        self.structure
    }

    /// Format of the tiles.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The distribution.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The rank this layout is seen from.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The owner of tile `(i, j)`.
    pub fn rank_of(&self, i: usize, j: usize) -> Rank {
        self.distribution.rank_of(i, j)
    }

    /// Whether tile `(i, j)` is stored, on whatever rank.
    pub fn stores(&self, i: usize, j: usize) -> bool {
        i < self.mt() && j < self.nt() && (self.structure == Structure::General || i >= j)
    }

    /// Number of tiles that this rank stores.
    pub fn n_slots(&self) -> usize {
        self.slots.start(self.slots.n_cols)
    }

    /// The slot of tile `(i, j)`; `None` if it is not stored or belongs to another rank.
    pub fn slot(&self, i: usize, j: usize) -> Option<usize> {
        if !self.stores(i, j) || self.rank_of(i, j) != self.rank {
            return None;
        }
        let slots = &self.slots;
        let (x, y) = (i / slots.row_step, j / slots.col_step);
        Some(slots.start(y) + x - slots.first_row_of(y))
    }

    /// The slot of tile `(m, n)` on its rank; elsewhere a number that stands for it.
    pub(crate) fn place(&self, m: u32, n: u32) -> usize {
        let (m, n) = (m as usize, n as usize);
        self.slot(m, n).unwrap_or_else(|| m + n * self.mt())
    }

    /// The tile in a slot: the inverse of [`slot`](Self::slot).
    pub fn tile_of(&self, slot: usize) -> Option<(usize, usize)> {
        if slot >= self.n_slots() {
            return None;
        }
        let slots = &self.slots;
        let y = slots.column_of(slot);
        let x = slot - slots.start(y) + slots.first_row_of(y);
        let i = slots.first_row + x * slots.row_step;
        Some((i, slots.first_col + y * slots.col_step))
    }

    /// The tiles before and behind one of this rank in the order of slots.
    pub(crate) fn neighbours(&self, i: u32, j: u32) -> [Option<(u32, u32)>; 2] {
        let slot = self.slot(i as usize, j as usize);
        let at = |slot: Option<usize>| {
            let (i, j) = self.tile_of(slot?)?;
            Some((i as u32, j as u32))
        };
        let before = slot.and_then(|slot| slot.checked_sub(1));
        [at(before), at(slot.map(|slot| slot + 1))]
    }

    /// The tiles of this rank in the order of their slots.
    pub fn tiles(&self) -> impl Iterator<Item = (usize, usize)> + use<'_> {
        (0..self.n_slots()).filter_map(|slot| self.tile_of(slot))
    }

    /// The tiles of any rank in the order of their slots.
    pub(crate) fn tiles_of(&self, on: Rank) -> impl Iterator<Item = (u32, u32)> + Send + use<> {
        let there = self.seen_from(on);
        let tiles =
            there.map(|there| (0..there.n_slots()).filter_map(move |slot| there.tile_of(slot)));
        let tiles = tiles.into_iter().flatten();
        tiles.map(|(i, j)| (i as u32, j as u32))
    }

    /// Number of elements in the tiles of this rank.
    pub fn n_elements(&self) -> u128 {
        let slots = &self.slots;
        let nb = self.nb as u128;
        // By how much the last row and column of tiles are short, where this rank has a part in it.
        let short = |of_rank: (usize, usize, usize), n_tiles: usize, length: usize| {
            let (first, step, n_own) = of_rank;
            let last = first + n_own.saturating_sub(1) * step;
            let owns = n_own > 0 && last + 1 == n_tiles;
            if owns {
                nb * n_tiles as u128 - length as u128
            } else {
                0
            }
        };
        let rows = (slots.first_row, slots.row_step, slots.n_rows);
        let cols = (slots.first_col, slots.col_step, slots.n_cols);
        let (low, narrow) = (
            short(rows, self.mt(), self.rows),
            short(cols, self.nt(), self.cols),
        );
        // Every column of tiles reaches down to the last row, but only the last tile on the
        // diagonal of a lower matrix to the last column.
        let in_last_col = match self.structure {
            Structure::General => slots.n_rows as u128,
            Structure::Lower => u128::from(low > 0),
        };
        // Terms may exceed 128 bits where a tile is far larger than the matrix; the result, modulo
        // 2¹²⁸, does not.
        let times = u128::wrapping_mul;
        let full = times(times(nb, nb), self.n_slots() as u128);
        let of_rows = times(times(low, nb), slots.n_cols as u128);
        let of_cols = times(times(narrow, nb), in_last_col);
        let corner = times(low, narrow);
        let with_corner = full.wrapping_add(corner);
        with_corner.wrapping_sub(of_rows).wrapping_sub(of_cols)
    }
}

impl TilesHere {
    fn new(
        mt: usize,
        nt: usize,
        structure: Structure,
        distribution: Distribution,
        rank: Rank,
    ) -> Result<Self, LayoutError> {
        let Distribution::BlockCyclic(grid) = distribution;
        let n_ranks = grid.n_ranks();
        let (first_row, first_col) = grid
            .place(rank)
            .ok_or(LayoutError::NoSuchRank { rank, n_ranks })?;
        let slots = TilesHere {
            first_row,
            row_step: grid.p(),
            n_rows: mt.saturating_sub(first_row).div_ceil(grid.p()),
            first_col,
            col_step: grid.q(),
            n_cols: nt.saturating_sub(first_col).div_ceil(grid.q()),
            structure,
        };
        // Names of tasks have 32 bits for a row or a column of tiles.
        let are_numbered = mt.max(nt) <= u32::MAX as usize;
        match slots.n_rows.checked_mul(slots.n_cols) {
            Some(_) if are_numbered => Ok(slots),
            _ => Err(LayoutError::TooManyTiles { mt, nt }),
        }
    }

    /// The first slot of this rank's column `y`, or the end of the last.
    fn start(&self, y: usize) -> usize {
        let all = y * self.n_rows;
        match self.structure {
            Structure::General => all,
            Structure::Lower => {
                // Σ first_row_of(t) for t < y
                let offset = self.first_col + (self.row_step - 1 - self.first_row);
                let above = floor_sum(y, self.row_step, self.col_step, offset);
                all - above
            }
        }
    }

    /// The first of this rank's rows in its column `y`: of a lower matrix, at or below the diagonal.
    fn first_row_of(&self, y: usize) -> usize {
        match self.structure {
            Structure::General => 0,
            Structure::Lower => {
                // ⌈(j − first_row) / row_step⌉; first_row < row_step, so it is never negative.
                let j = self.first_col + y * self.col_step;
                (j + (self.row_step - 1 - self.first_row)) / self.row_step
            }
        }
    }

    /// This rank's column that holds a slot: the last one that starts at or before it and is not
    /// empty.
    fn column_of(&self, slot: usize) -> usize {
        let (mut from, mut to) = (0, self.n_cols);
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            match self.start(middle) <= slot {
                true => from = middle,
                false => to = middle,
            }
        }
        from
    }
}

/// Σ ⌊(a·t + b) / m⌋ for t = 0 … n − 1, in as many steps as Euclid's algorithm takes for a and m.
fn floor_sum(n: usize, m: usize, a: usize, b: usize) -> usize {
    let (mut n, mut m, mut a, mut b) = (n as u128, m as u128, a as u128, b as u128);
    let mut sum = 0u128;
    loop {
        // Whole multiples of m.
        sum += n * n.saturating_sub(1) / 2 * (a / m) + n * (b / m);
        (a, b) = (a % m, b % m);
        let top = a * n + b;
        if top < m {
            // At most the number of tiles above the diagonal, which a usize holds.
            return sum as usize;
        }
        // Count the same lattice points along the other axis.
        (n, b) = (top / m, top % m);
        (a, m) = (m, a);
    }
}

fn cut(index: usize, nb: usize, length: usize) -> Range<usize> {
    let start = index.saturating_mul(nb).min(length);
    start..start.saturating_add(nb).min(length)
}

/// The tiles of so many rows and columns of tiles, column by column.
pub(crate) fn column_by_column(
    mt: u32,
    nt: u32,
) -> impl Iterator<Item = (u32, u32)> + Clone + Send {
    (0..nt).flat_map(move |n| (0..mt).map(move |m| (m, n)))
}

/// Why there is no such layout.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::Layout;
/// let refused = Layout::general(5, 5, 0).unwrap_err();
/// assert_eq!(refused.to_string(), "tile order is 0 (must be at least 1)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// Tiles of order 0.
    ZeroTileOrder,
    /// The distribution has fewer ranks.
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// How many there are.
        n_ranks: usize,
    },
    /// The tiles cannot be counted, or there are 2³² rows or columns of them, or more.
    TooManyTiles {
        /// Rows of tiles.
        mt: usize,
        /// Columns of tiles.
        nt: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::ZeroTileOrder => f.write_str("tile order is 0 (must be at least 1)"),
            LayoutError::NoSuchRank { rank, n_ranks } => write!(
                f,
                "{rank} is outside the distribution (ranks 0 to {})",
                n_ranks - 1
            ),
            LayoutError::TooManyTiles { mt, nt } => write!(
                f,
                "{mt} x {nt} tiles are too many to be numbered (choose a larger tile order)"
            ),
        }
    }
}

impl std::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Grid;
    use proptest::prelude::*;

    fn layouts(n: (usize, usize), nb: usize, lower: bool, grid: Grid) -> Vec<Layout> {
        let n_ranks = grid.n_ranks() as u32;
        let whole = match lower {
            true => Layout::lower(n.0, nb),
            false => Layout::general(n.0, n.1, nb),
        };
        let whole = whole.unwrap();
        let spread = |rank| {
            let distribution = Distribution::BlockCyclic(grid);
            whole.distributed(distribution, Rank(rank)).unwrap()
        };
        (0..n_ranks).map(spread).collect()
    }

    /// Tasks of tiles above the diagonal were waited for in vain.
    #[test]
    fn ranks_that_store_other_tiles_disagree() {
        let told = |layout: Layout| {
            let mut about = Description::default();
            layout.describe(&mut about);
            about.parameters().to_vec()
        };
        let (lower, general) = (Layout::lower(5, 2), Layout::general(5, 5, 2));
        assert_ne!(told(lower.unwrap()), told(general.unwrap()));
    }

    proptest! {
        #[test]
        fn every_stored_tile_has_one_slot_on_one_rank_and_slots_have_no_holes(
            m in 0usize..60, n in 0usize..60, nb in 1usize..9, lower: bool,
            p in 1u32..5, q in 1u32..5,
        ) {
            let layouts = layouts((m, n), nb, lower, Grid::new(p, q).unwrap());
            let mut owners = std::collections::HashMap::new();
            for layout in &layouts {
                let mut elements = 0;
                for slot in 0..layout.n_slots() {
                    let (i, j) = layout.tile_of(slot).unwrap();
                    prop_assert!(layout.stores(i, j));
                    prop_assert_eq!(layout.slot(i, j), Some(slot));
                    prop_assert_eq!(layout.rank_of(i, j), layout.rank());
                    prop_assert_eq!(owners.insert((i, j), layout.rank()), None);
                    elements += layout.tile_rows(i) * layout.tile_cols(j);
                }
                prop_assert_eq!(layout.tile_of(layout.n_slots()), None);
                prop_assert_eq!(layout.n_elements(), elements as u128);
            }
            let whole = &layouts[0];
            for i in 0..whole.mt() + 2 {
                for j in 0..whole.nt() + 2 {
                    prop_assert_eq!(owners.contains_key(&(i, j)), whole.stores(i, j));
                }
            }
        }

        #[test]
        fn tile_rows_and_columns_add_up_to_the_matrix(
            m in 0usize..200, n in 0usize..200, nb in 1usize..50,
        ) {
            let layout = Layout::general(m, n, nb).unwrap();
            prop_assert_eq!((0..layout.mt()).map(|i| layout.tile_rows(i)).sum::<usize>(), m);
            prop_assert_eq!((0..layout.nt()).map(|j| layout.tile_cols(j)).sum::<usize>(), n);
            prop_assert_eq!(layout.tile_rows(layout.mt()), 0);
        }
    }

    #[test]
    fn more_ranks_than_tiles_leave_some_ranks_empty() {
        let layouts = layouts((3, 3), 2, true, Grid::new(3, 4).unwrap());
        let slots: usize = layouts.iter().map(Layout::n_slots).sum();
        assert_eq!(slots, 3);
        assert_eq!(layouts[11].n_slots(), 0);
    }

    #[test]
    fn impossible_layouts_are_named() {
        assert_eq!(Layout::lower(3, 0).unwrap_err(), LayoutError::ZeroTileOrder);
        let two = Distribution::BlockCyclic(Grid::squarest(2).unwrap());
        let error = Layout::lower(3, 1).unwrap().distributed(two, Rank(2));
        assert_eq!(
            error.unwrap_err().to_string(),
            "rank 2 is outside the distribution (ranks 0 to 1)"
        );
        for layout in [
            Layout::general(usize::MAX, usize::MAX, 1),
            Layout::lower(usize::MAX, 1),
        ] {
            assert!(matches!(layout, Err(LayoutError::TooManyTiles { .. })));
        }
    }

    /// Tasks number tiles by 32 bits: what lay behind was not computed, and nobody said so.
    #[test]
    fn a_matrix_of_more_tiles_along_a_side_than_can_be_numbered_is_refused_on_any_grid() {
        let most = u32::MAX as usize;
        let grid = Distribution::BlockCyclic(Grid::new(64, 1).unwrap());
        let of = |rows, cols| Layout::general(rows, cols, 1)?.distributed(grid, Rank(3));
        assert!(of(most, 1).is_ok() && of(1, most).is_ok());
        for (mt, nt) in [(most + 1, 1), (1, most + 1)] {
            assert_eq!(
                of(mt, nt).unwrap_err(),
                LayoutError::TooManyTiles { mt, nt }
            );
        }
    }

    #[test]
    fn a_huge_matrix_is_laid_out_without_a_table() {
        let n = 3_000_000_000;
        let grid = Distribution::BlockCyclic(Grid::new(3, 7).unwrap());
        let layout = Layout::lower(n, 1).unwrap().distributed(grid, Rank(20));
        let layout = layout.unwrap();
        let last = layout.n_slots() - 1;
        let (i, j) = layout.tile_of(last).unwrap();
        assert_eq!((layout.slot(i, j), i % 3, j % 7), (Some(last), 2, 6));
        let whole = Layout::lower(n, 1).unwrap();
        assert_eq!(whole.n_elements(), n as u128 * (n as u128 + 1) / 2);
    }

    #[test]
    fn a_tile_order_beyond_any_matrix_gives_one_tile() {
        let layout = Layout::general(3, 5, usize::MAX).unwrap();
        assert_eq!((layout.n_slots(), layout.n_elements()), (1, 15));
        let layout = Layout::lower(5, usize::MAX).unwrap();
        assert_eq!((layout.n_slots(), layout.n_elements()), (1, 25));
    }

    proptest! {
        #[test]
        fn floor_sums_are_sums_of_floors(
            n in 0usize..50, m in 1usize..20, a in 0usize..40, b in 0usize..40,
        ) {
            let expected: usize = (0..n).map(|t| (a * t + b) / m).sum();
            prop_assert_eq!(floor_sum(n, m, a, b), expected);
        }
    }

    #[test]
    fn a_huge_empty_matrix_has_no_tiles() {
        let layout = Layout::general(0, usize::MAX, 1 << 33).unwrap();
        assert_eq!((layout.n_slots(), layout.tiles().count()), (0, 0));
        assert_eq!(layout.n_elements(), 0);
    }

    #[test]
    #[should_panic(expected = "sub-tiles or pieces of order 0 (must be at least 1)")]
    fn sub_tiles_of_order_0_are_refused_before_there_is_a_tile() {
        let layout = Layout::general(0, 0, 1).unwrap();
        let _ = layout.with_format(Format::SubTiled { order: 0 });
    }

    /// Nothing is stored, but loops went over 2⁶⁴ columns of tiles, and names of tasks were cut off.
    #[test]
    fn rows_and_columns_of_tiles_are_numbered_by_32_bits_even_if_there_are_no_tiles() {
        let most = u32::MAX as usize;
        for (rows, cols) in [
            (0, usize::MAX),
            (usize::MAX, 0),
            (0, most + 1),
            (most + 1, 0),
        ] {
            let refused = Layout::general(rows, cols, 1).unwrap_err();
            let (mt, nt) = (rows, cols);
            assert_eq!(refused, LayoutError::TooManyTiles { mt, nt });
        }
        assert_eq!(Layout::general(most, 0, 1).unwrap().n_slots(), 0);
        assert_eq!(Layout::general(0, most, 1).unwrap().n_elements(), 0);
    }
}
