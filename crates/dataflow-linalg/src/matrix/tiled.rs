//! The tiled matrix: the tiles of one rank, and the layout that says which they are.
//!
//! # Law
//! The tiles live in one [`Store`]; tile `(i, j)` is in slot [`Layout::slot`]. Tasks take tiles
//! from there and bring them back; between runs every slot that was filled is full.
//! Of a lower matrix nothing above the diagonal is read from a source or handed out: there are
//! zeros in its diagonal tiles until a kernel writes something else.
//!
//! # Elsewhere
//! Entries: [`entries`](super::entries). Other libraries' matrices: [`convert`](super::convert).

use super::layout::{Layout, Structure};
use super::{Distribution, Entries, Format, Part, Tile, column_major_of};
use crate::error::{LinalgError, MatrixLabel, ShapeError, TileError};
use crate::kernel::prepare;
use crate::scalar::Scalar;
use dataflow_core::Error;
use dataflow_core::data::{Store, Version};
use dataflow_core::port::{Executor, Heap, Memory};
use dataflow_core::words::counted;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A matrix in errors about what fits: its name, if it was given one, its shape, and how it is cut and spread.
#[derive(Clone, Copy)]
pub(crate) struct LaidOut<'a>(pub MatrixLabel<'a>, pub &'a Layout);

impl fmt::Display for LaidOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LaidOut(label, layout) = self;
        let (rows, cols, nb) = (layout.rows(), layout.cols(), layout.nb());
        let (structure, spread) = (layout.structure(), layout.distribution());
        write!(
            f,
            "{label} of {rows} x {cols} ({structure:?}, tiles of {nb}, on {spread})"
        )
    }
}

/// The name of a matrix that was given none.
const UNNAMED: &str = "matrix";

/// A matrix in tiles: those of this rank, in a store.
///
/// Dereferences to its [`Layout`].
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// let a = TiledMatrix::from_fn(Layout::lower(5, 2)?, |i, j| (10 * i + j) as f64);
/// assert_eq!(a.tile(2, 1).unwrap().get(0, 1), 43.0);      // entry (4, 3)
/// assert!(a.tile(1, 2).is_none());                        // above the diagonal
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
pub struct TiledMatrix<T: Scalar> {
    layout: Layout,
    memory: Arc<dyn Memory>,
    store: Store<Tile<T>>,
}

impl<T: Scalar> TiledMatrix<T> {
    /// A matrix whose tiles do not exist yet: each is made by [`fill_tile`](Self::fill_tile), from
    /// `memory`, on the thread that calls it.
    pub fn vacant(layout: Layout, memory: Arc<dyn Memory>) -> Self {
        let store = Store::empty(UNNAMED, layout.n_slots());
        TiledMatrix::of(layout, memory, store)
    }

    /// All matrices are made here; one of a single tile is worked on without a graph, and at once.
    fn of(layout: Layout, memory: Arc<dyn Memory>, store: Store<Tile<T>>) -> Self {
        if layout.mt().max(layout.nt()) > 1 {
            prepare();
        }
        TiledMatrix {
            layout,
            memory,
            store,
        }
    }

    /// The zero matrix, on the heap.
    pub fn zeros(layout: Layout) -> Self {
        TiledMatrix::zeros_in(layout, Arc::new(Heap))
    }

    /// The zero matrix, its tiles from `memory`.
    pub fn zeros_in(layout: Layout, memory: Arc<dyn Memory>) -> Self {
        let tiles = zero_tiles(&layout, &memory);
        TiledMatrix::from_tiles(layout, memory, tiles)
    }

    /// The matrix with `entry(row, col)` at each global row and column, on the heap, filled by the
    /// calling thread.
    pub fn from_fn(layout: Layout, entry: impl Fn(usize, usize) -> T + Sync) -> Self {
        TiledMatrix::from_entries(layout, &entry)
    }

    /// The matrix with the given entries, on the heap, filled by the calling thread.
    pub fn from_entries(layout: Layout, entries: &impl Entries<T>) -> Self {
        TiledMatrix::from_entries_in(layout, Arc::new(Heap), entries)
    }

    /// The matrix with the given entries, its tiles from `memory`, filled by the calling thread.
    pub fn from_entries_in(
        layout: Layout,
        memory: Arc<dyn Memory>,
        entries: &impl Entries<T>,
    ) -> Self {
        let mut buffer = Vec::new();
        let tiles: Vec<_> = layout
            .tiles()
            .map(|(i, j)| {
                let mut tile = empty_tile(&layout, &memory, i, j);
                fill(&mut tile, &layout, i, j, entries, &mut buffer);
                tile
            })
            .collect();
        TiledMatrix::from_tiles(layout, memory, tiles)
    }

    /// The matrix in a column-major slice: entry `(row, col)` at `row + col · ld`.
    ///
    /// # Errors
    /// If `ld` is less than the number of rows or the slice ends before the last entry.
    pub fn from_column_major(
        layout: Layout,
        elements: &[T],
        ld: usize,
    ) -> Result<Self, ShapeError> {
        expect_column_major("the slice", elements.len(), ld, &layout)?;
        let entries = super::ColumnMajor { elements, ld };
        Ok(TiledMatrix::from_entries(layout, &entries))
    }

    /// The matrix of the given tiles, one per slot in order.
    pub(crate) fn from_tiles(
        layout: Layout,
        memory: Arc<dyn Memory>,
        tiles: impl IntoIterator<Item = Tile<T>>,
    ) -> Self {
        let store = Store::new(UNNAMED, tiles);
        debug_assert_eq!(store.len(), layout.n_slots());
        TiledMatrix::of(layout, memory, store)
    }

    /// The same tiles under another name ("matrix" until then): in traces, and in errors about the matrix,
    /// its place, its shape or what is found in its numbers.
    pub fn named(self, name: impl Into<String>) -> Self {
        let TiledMatrix {
            layout,
            memory,
            store,
        } = self;
        let renamed = Store::empty(name, store.len());
        for slot in 0..store.len() {
            if let Some(tile) = store.get(slot) {
                // The slot exists: both stores have the same length.
                let _ = renamed.put(slot, tile);
            }
        }
        TiledMatrix {
            layout,
            memory,
            store: renamed,
        }
    }

    /// The name that it was [given](Self::named), if it was.
    pub fn name(&self) -> Option<&str> {
        Some(self.store.name()).filter(|name| *name != UNNAMED)
    }

    /// How it is cut and spread.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Rows and columns of the grid of ranks.
    pub(crate) fn grid(&self) -> (u32, u32) {
        let Distribution::BlockCyclic(grid) = self.layout.distribution();
        (grid.p() as u32, grid.q() as u32)
    }

    /// Where its tiles come from.
    pub fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// Home of the tiles.
    pub fn store(&self) -> &Store<Tile<T>> {
        &self.store
    }

    /// Home of the tiles, for changing one between runs.
    pub fn store_mut(&mut self) -> &mut Store<Tile<T>> {
        &mut self.store
    }

    /// Rows and columns of a tile.
    pub(crate) fn tile_shape(&self, (i, j): (u32, u32)) -> (usize, usize) {
        (self.tile_rows(i as usize), self.tile_cols(j as usize))
    }

    /// Bytes of a tile that travels whole.
    pub(crate) fn tile_bytes(&self, tile: (u32, u32)) -> u64 {
        Part::Whole.bytes::<T>(self.tile_shape(tile))
    }

    /// Tile `(i, j)`; `None` if it is not stored, not on this rank, not filled, or lent to a run.
    pub fn tile(&self, i: usize, j: usize) -> Option<Version<Tile<T>>> {
        self.store.get(self.layout.slot(i, j)?)
    }

    /// Tile `(i, j)`, or why it is not at hand.
    pub fn tile_at(&self, i: usize, j: usize) -> Result<Version<Tile<T>>, TileError> {
        self.tile(i, j).ok_or_else(|| self.why_not(i, j))
    }

    /// Writes the entries of tile `(i, j)`, making it if it does not exist yet.
    ///
    /// Other tiles may be filled at the same time, by other threads. One tile's worth of scratch.
    /// If an entry panics, the tile is as it was.
    ///
    /// # Errors
    /// If the tile is not stored or belongs to another rank.
    pub fn fill_tile(
        &self,
        i: usize,
        j: usize,
        entries: &impl Entries<T>,
    ) -> Result<(), TileError> {
        let slot = self.layout.slot(i, j).ok_or_else(|| self.why_not(i, j))?;
        let mut buffer = Vec::new();
        // First, since it may panic: the tile is at home until then.
        let (elements, ld) = lying(&self.layout, i, j, entries, &mut buffer);
        let mut tile = match self.store.take(slot) {
            Some(version) => version.into_datum(),
            None => empty_tile(&self.layout, &self.memory, i, j),
        };
        tile.read_column_major(elements, ld);
        self.store
            .put(slot, Version::new(tile))
            .ok_or_else(|| self.why_not(i, j))
    }

    /// Writes tile column `j` into the columns of a column-major strip: entry `(row, col)` to
    /// `row + (col − first column of the strip) · ld`.
    ///
    /// What is not stored (above the diagonal of a lower matrix) becomes 0. Strips of different
    /// columns may be written at the same time: `elements.chunks_mut(ld * nb)` cuts them out.
    ///
    /// # Errors
    /// If a stored tile of the column is not at hand.
    ///
    /// # Panics
    /// If the strip is too small for the column.
    #[track_caller]
    pub fn write_strip(&self, j: usize, strip: &mut [T], ld: usize) -> Result<(), TileError> {
        for i in 0..self.mt() {
            let start = self.row_range(i).start;
            if self.stores(i, j) {
                let tile = self.tile_at(i, j)?;
                tile.write_column_major(&mut strip[start..], ld);
            }
            if self.structure() == Structure::Lower && i <= j {
                let rows = self.row_range(i);
                for (y, col) in self.col_range(j).enumerate() {
                    let above = rows.start..rows.end.min(col);
                    if !above.is_empty() {
                        strip[y * ld..][above].fill(T::zero());
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the matrix into a column-major slice; 0 above the diagonal of a lower matrix.
    ///
    /// # Errors
    /// If a stored tile is not at hand, or the slice or `ld` is too small.
    pub fn write_column_major(
        &self,
        elements: &mut [T],
        ld: usize,
    ) -> Result<(), crate::error::MatrixError> {
        expect_column_major("the slice", elements.len(), ld, &self.layout)?;
        if self.rows() == 0 {
            return Ok(()); // its columns begin where no slice ends
        }
        for j in 0..self.nt() {
            let start = self.col_range(j).start * ld;
            self.write_strip(j, &mut elements[start..], ld)?;
        }
        Ok(())
    }

    /// The matrix as one column-major vector, `ld` = number of rows; 0 above the diagonal of a
    /// lower matrix.
    ///
    /// # Errors
    /// If a stored tile is not at hand.
    ///
    /// # Panics
    /// If there is no memory for the vector.
    pub fn to_column_major(&self) -> Result<Vec<T>, TileError> {
        self.expect_whole()?;
        let (rows, cols) = (self.rows(), self.cols());
        // Pages that nobody has touched cost nothing yet.
        let elements = bytemuck::allocation::try_zeroed_vec(rows.saturating_mul(cols));
        let mut elements = elements.unwrap_or_else(|()| no_memory::<T>(rows, cols));
        for j in 0..self.nt() {
            let start = self.col_range(j).start * self.rows();
            self.write_strip(j, &mut elements[start..], self.rows())?;
        }
        Ok(elements)
    }

    /// Fails with the first stored tile that is not at hand: before room is made for the entries of all.
    pub(crate) fn expect_whole(&self) -> Result<(), TileError> {
        let (mt, nt) = (self.mt(), self.nt());
        let tiles = (0..nt).flat_map(|j| (0..mt).map(move |i| (i, j)));
        let mut stored = tiles.filter(|&(i, j)| self.stores(i, j));
        stored.try_for_each(|(i, j)| self.tile_at(i, j).map(drop))
    }

    /// The entry at `(row, col)`: of a lower matrix above the diagonal the conjugate of its mirror.
    /// `None` if there is no such entry or its tile is not at hand. For tests and small work.
    pub fn get(&self, row: usize, col: usize) -> Option<T> {
        if row >= self.rows() || col >= self.cols() {
            return None;
        }
        let nb = self.nb();
        let at = |row: usize, col: usize| {
            let tile = self.tile(row / nb, col / nb)?;
            Some(tile.get(row % nb, col % nb))
        };
        match self.structure() == Structure::Lower && row < col {
            true => at(col, row).map(Scalar::conj),
            false => at(row, col),
        }
    }

    /// Whether it lies on several ranks.
    pub(crate) fn is_spread(&self) -> bool {
        self.distribution().n_ranks() > 1
    }

    /// How many ranks are told what a run over it finds: all that take part, with tiles or without.
    pub(crate) fn n_told(&self, on: &dyn Executor) -> u32 {
        let n_ranks = self.distribution().n_ranks();
        n_ranks.max(on.courier().n_ranks()) as u32
    }

    /// Why it can take no part in a run, in words: it has tiles on this rank, yet is seen from another.
    pub(crate) fn misplaced(&self, on: &dyn Executor) -> Option<String> {
        let (there, here) = (self.layout.rank(), on.courier().rank());
        let is_there = |slot| self.store.get(slot).is_some();
        if there == here || !(0..self.store.len()).any(is_there) {
            return None;
        }
        let called = self.called();
        Some(format!(
            "on {here} {called} is seen from {there}: make its layout with .distributed(distribution, \
             runtime.rank()), or where a rank works by itself run on Context::new(runtime).across(&Alone)"
        ))
    }

    /// What errors call it: by its name, if it was given one, and its shape.
    pub(crate) fn called(&self) -> String {
        let (rows, cols) = (self.rows(), self.cols());
        match self.name() {
            None => format!("a matrix ({rows} x {cols})"),
            Some(name) => format!("matrix {name:?} ({rows} x {cols})"),
        }
    }

    /// Its name in errors, where words about it stand before and behind.
    pub(crate) fn label(&self) -> MatrixLabel<'_> {
        MatrixLabel(self.name())
    }

    /// How it is laid out, in errors, behind a word for it.
    pub(crate) fn laid_out(&self) -> LaidOut<'_> {
        LaidOut(self.label(), self.layout())
    }

    /// The failure behind an error of a run that had it for its matrix.
    pub(crate) fn failed(&self, error: Error) -> LinalgError {
        LinalgError::of_run(error, self.rows(), self.name())
    }

    #[cold]
    fn not_at_hand(&self, row: usize, col: usize) -> ! {
        let (i, j) = match self.structure() == Structure::Lower && row < col {
            true => (col / self.nb(), row / self.nb()),
            false => (row / self.nb(), col / self.nb()),
        };
        let name = self.store.name();
        panic!(
            "entry ({row}, {col}) of {name:?} is not at hand: {}",
            self.why_not(i, j)
        );
    }

    /// Why tile `(i, j)` is not at hand.
    fn why_not(&self, i: usize, j: usize) -> TileError {
        let owner = self.layout.rank_of(i, j);
        if !self.layout.stores(i, j) {
            TileError::NotStored { i, j }
        } else if owner != self.layout.rank() {
            TileError::Elsewhere { i, j, owner }
        } else {
            TileError::Absent { i, j }
        }
    }
}

/// Refuses two arguments that are one matrix, where a call overwrites one and reads the other.
pub(crate) fn expect_two<T: Scalar>(
    (first, a): (&str, &TiledMatrix<T>),
    (second, b): (&str, &TiledMatrix<T>),
) -> Result<(), LinalgError> {
    if !std::ptr::eq(a, b) {
        return Ok(());
    }
    let named = match a.name() {
        None => String::new(),
        Some(name) => format!(" {name:?} ({} x {})", a.rows(), a.cols()),
    };
    Err(LinalgError::Shape(format!(
        "{first} and {second} are one and the same matrix{named} (they must be two: one is overwritten)"
    )))
}

/// Refuses rows or columns that the 32 bits in which their numbers travel cannot tell apart.
pub(crate) fn expect_numbered(what: &str, n: usize) -> Result<(), LinalgError> {
    if u32::try_from(n).is_ok() {
        return Ok(());
    }
    let most = u32::MAX;
    Err(LinalgError::Shape(format!(
        "{n} {what} are too many to be numbered (must be at most {most})"
    )))
}

/// A tile of a layout, zero.
pub(crate) fn empty_tile<T: Scalar>(
    layout: &Layout,
    memory: &Arc<dyn Memory>,
    i: usize,
    j: usize,
) -> Tile<T> {
    Tile::new(
        layout.tile_rows(i),
        layout.tile_cols(j),
        layout.format(),
        memory,
    )
}

/// All tiles of this rank, zero, in the order of their slots.
pub(crate) fn zero_tiles<T: Scalar>(layout: &Layout, memory: &Arc<dyn Memory>) -> Vec<Tile<T>> {
    let tiles = layout.tiles();
    tiles
        .map(|(i, j)| empty_tile(layout, memory, i, j))
        .collect()
}

/// Overwrites tile `(i, j)` by the entries of a source.
pub(crate) fn fill<T: Scalar>(
    tile: &mut Tile<T>,
    layout: &Layout,
    i: usize,
    j: usize,
    entries: &dyn Entries<T>,
    buffer: &mut Vec<T>,
) {
    let (elements, ld) = lying(layout, i, j, entries, buffer);
    tile.read_column_major(elements, ld);
}

/// The entries of tile `(i, j)` as a column-major slice with its leading dimension: of the source itself
/// if they lie so there, else gathered in the buffer.
fn lying<'e, T: Scalar>(
    layout: &Layout,
    i: usize,
    j: usize,
    entries: &'e dyn Entries<T>,
    buffer: &'e mut Vec<T>,
) -> (&'e [T], usize) {
    let (rows, cols) = (layout.row_range(i), layout.col_range(j));
    let source = column_major_of(entries, layout.rows());
    let is_whole = layout.structure() == Structure::General || i != j;
    match source.filter(|_| is_whole) {
        Some((elements, ld)) => {
            let span = (cols.len() - 1) * ld + rows.len();
            (&elements[rows.start + cols.start * ld..][..span], ld)
        }
        None => {
            gather(layout, i, j, entries, buffer);
            (buffer, rows.len())
        }
    }
}

/// Reads tile `(i, j)` of a layout from a source into a column-major buffer without gaps; of a
/// diagonal tile of a lower matrix only the lower triangle, with zeros above.
pub(crate) fn gather<T: Scalar>(
    layout: &Layout,
    i: usize,
    j: usize,
    entries: &dyn Entries<T>,
    buffer: &mut Vec<T>,
) {
    let (rows, cols) = (layout.row_range(i), layout.col_range(j));
    let on_diagonal = layout.structure() == Structure::Lower && i == j;
    zero_entries(buffer, rows.len(), cols.len());
    for (column, col) in buffer.chunks_exact_mut(rows.len().max(1)).zip(cols) {
        let first = match on_diagonal {
            true => col,
            false => rows.start,
        };
        entries.column(first..rows.end, col, &mut column[first - rows.start..]);
    }
}

/// Fills a buffer with zeros, `rows × cols`. Where there is no memory for them, a panic that says so, as for
/// a block of [`Heap`](dataflow_core::port::Heap): in a task its error, where the allocator would end the
/// process.
pub(crate) fn zero_entries<T: Scalar>(buffer: &mut Vec<T>, rows: usize, cols: usize) {
    buffer.clear();
    let length = rows.saturating_mul(cols);
    if buffer.try_reserve_exact(length).is_err() {
        no_memory::<T>(rows, cols);
    }
    buffer.resize(length, T::zero());
}

/// The same in a vector of their own.
pub(crate) fn zeros<T: Scalar>(rows: usize, cols: usize) -> Vec<T> {
    let mut zeros = Vec::new();
    zero_entries(&mut zeros, rows, cols);
    zeros
}

#[track_caller]
pub(crate) fn no_memory<T>(rows: usize, cols: usize) -> ! {
    let bytes = rows as u128 * cols as u128 * size_of::<T>() as u128;
    panic!("there is no memory for {rows} × {cols} entries ({bytes} bytes)")
}

/// The elements of a tile, column-major without gaps: in place if they lie so, otherwise copied
/// into the buffer.
pub(crate) fn column_major<'a, T: Scalar>(tile: &'a Tile<T>, buffer: &'a mut Vec<T>) -> &'a [T] {
    if tile.format().in_memory() == Format::ColumnMajor {
        return tile.as_slice();
    }
    zero_entries(buffer, tile.rows(), tile.cols());
    tile.write_column_major(buffer, tile.rows());
    buffer
}

/// Whether a column-major slice of `length` elements holds a matrix of this layout.
fn expect_column_major(
    what: &'static str,
    length: usize,
    ld: usize,
    layout: &Layout,
) -> Result<(), ShapeError> {
    let (rows, cols) = (layout.rows(), layout.cols());
    let whole = match length.checked_sub(rows) {
        _ if rows == 0 || cols == 0 => cols,
        None => 0,
        Some(_) if ld == 0 => 0,
        Some(rest) => (rest / ld + 1).min(cols),
    };
    let refused = ShapeError::check(what, (rows.min(ld), whole), (rows, cols));
    refused.map_err(|error| {
        let of_columns = match ld < rows {
            true => format!("with ld = {ld}, which must be at least {rows}, no column is whole"),
            false => {
                let has = counted(length, "element");
                let needed = (cols as u128 - 1) * ld as u128 + rows as u128; // cols > 0: else it fits
                format!("it has {has}, and with ld = {ld} at least {needed} are needed")
            }
        };
        error.with_more(of_columns)
    })
}

impl<T: Scalar> Entries<T> for TiledMatrix<T> {
    /// See [`TiledMatrix::get`].
    ///
    /// # Panics
    /// If the tile is not at hand.
    fn entry(&self, row: usize, col: usize) -> T {
        self.get(row, col)
            .unwrap_or_else(|| self.not_at_hand(row, col))
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        let (nb, first) = (self.nb(), rows.start);
        let mut row = first;
        while row < rows.end {
            let end = (row - row % nb).saturating_add(nb).min(rows.end);
            let slots = &mut into[row - first..end - first];
            match self.tile(row / nb, col / nb) {
                Some(tile) if self.structure() == Structure::General || row >= col => {
                    for (slot, row) in slots.iter_mut().zip(row..end) {
                        *slot = tile.get(row % nb, col % nb);
                    }
                }
                _ => {
                    for (slot, row) in slots.iter_mut().zip(row..end) {
                        *slot = self.entry(row, col);
                    }
                }
            }
            row = end;
        }
    }
}

impl<T: Scalar> Deref for TiledMatrix<T> {
    type Target = Layout;
    fn deref(&self) -> &Layout {
        &self.layout
    }
}

impl<T: Scalar> fmt::Debug for TiledMatrix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TiledMatrix")
            .field("name", &self.store.name())
            .field("precision", &T::PRECISION)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::MatrixError;
    use crate::matrix::convert::{FaerEntries, NdarrayEntries};
    use crate::matrix::market::{Storage, Symmetry, WriteError, write};
    use crate::matrix::{ColumnMajor, Distribution, Format, Grid};
    use crate::scalar::c64;
    use crate::whole::tile_of;
    use dataflow_core::rank::Rank;
    use ndarray::{Array2, ShapeBuilder, s};
    use proptest::prelude::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn number(row: usize, col: usize) -> f64 {
        (1 + row + 1000 * col) as f64
    }

    proptest! {
        #[test]
        fn column_major_in_and_out_is_the_identity(
            m in 0usize..30, n in 0usize..30, nb in 1usize..12, gap in 0usize..4,
            sub_tiled: bool,
        ) {
            let format = match sub_tiled {
                true => Format::SubTiled { order: 3 },
                false => Format::ColumnMajor,
            };
            let layout = Layout::general(m, n, nb).unwrap().with_format(format);
            let ld = m + gap;
            let from: Vec<f64> = (0..ld * n).map(|x| x as f64).collect();
            let a = TiledMatrix::from_column_major(layout, &from, ld).unwrap();
            for row in 0..m {
                for col in 0..n {
                    prop_assert_eq!(a.get(row, col), Some(from[row + col * ld]));
                }
            }
            prop_assert_eq!(a.get(m, 0), None);
            let mut to = vec![-1.0; ld * n];
            a.write_column_major(&mut to, ld).unwrap();
            for (x, (before, after)) in from.iter().zip(&to).enumerate() {
                prop_assert_eq!(*after, if x % ld.max(1) < m { *before } else { -1.0 });
            }
        }

        #[test]
        fn a_lower_matrix_reads_and_hands_out_only_its_lower_triangle(
            n in 0usize..25, nb in 1usize..9,
        ) {
            let layout = Layout::lower(n, nb).unwrap();
            let entries = |row: usize, col: usize| {
                assert!(row >= col, "entry ({row}, {col}) was read");
                number(row, col)
            };
            let mut a = TiledMatrix::from_entries(layout, &entries);
            let garbage = a.store_mut().update(0, |tile| {
                if nb > 1 && n > 1 {
                    tile.set(0, 1, 777.0);
                }
            });
            prop_assert_eq!(garbage.is_some(), n > 0);
            let dense = a.to_column_major().unwrap();
            for row in 0..n {
                for col in 0..n {
                    let expected = if row >= col { number(row, col) } else { 0.0 };
                    prop_assert_eq!(dense[row + col * n], expected);
                    let mirrored = number(row.max(col), row.min(col));
                    prop_assert_eq!(a.get(row, col), Some(mirrored));
                }
            }
        }
    }

    #[test]
    fn tiles_filled_one_by_one_by_many_threads_are_the_whole_matrix() {
        let layout = Layout::general(17, 11, 4).unwrap();
        let whole = TiledMatrix::from_fn(layout, number);
        let parts = TiledMatrix::vacant(layout, Arc::new(Heap));
        assert_eq!(
            parts.tile_at(0, 0).unwrap_err(),
            TileError::Absent { i: 0, j: 0 }
        );
        std::thread::scope(|scope| {
            for first in 0..2 {
                let (parts, layout) = (&parts, &layout);
                scope.spawn(move || {
                    for (i, j) in layout.tiles().skip(first).step_by(2) {
                        parts.fill_tile(i, j, &number).unwrap();
                        parts.fill_tile(i, j, &number).unwrap(); // and once more, in place
                    }
                });
            }
        });
        assert_eq!(parts.to_column_major(), whole.to_column_major());
    }

    /// The allocator ended the process.
    #[test]
    fn a_tile_that_no_memory_is_left_to_gather_says_so() {
        let layout = Layout::general(1 << 23, 1 << 23, 1 << 23).unwrap();
        let vacant = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
        let filled = catch_unwind(AssertUnwindSafe(|| vacant.fill_tile(0, 0, &number)));
        let text = *filled.unwrap_err().downcast::<String>().unwrap();
        let told = "there is no memory for 8388608 × 8388608 entries";
        assert!(text.starts_with(told), "{text}");
    }

    #[test]
    fn every_grid_sees_the_same_matrix() {
        let whole = TiledMatrix::from_fn(Layout::lower(13, 3).unwrap(), number);
        let grid = Grid::new(2, 3).unwrap();
        let mut found = 0;
        for rank in 0..6 {
            let layout = Layout::lower(13, 3).unwrap();
            let layout = layout.distributed(Distribution::BlockCyclic(grid), Rank(rank));
            let part = TiledMatrix::from_fn(layout.unwrap(), number);
            for (i, j) in part.layout().tiles() {
                assert_eq!(*part.tile(i, j).unwrap(), *whole.tile(i, j).unwrap());
                found += 1;
            }
        }
        assert_eq!(found, whole.n_slots());
    }

    #[test]
    fn a_tile_that_is_not_at_hand_says_why() {
        let grid = Distribution::BlockCyclic(Grid::new(1, 2).unwrap());
        let layout = Layout::lower(6, 2).unwrap().distributed(grid, Rank(1));
        let a = TiledMatrix::<f64>::zeros(layout.unwrap());
        let _held = a.store().take(a.slot(1, 1).unwrap());
        let reason = |i, j| a.tile_at(i, j).unwrap_err().to_string();
        assert_eq!(reason(0, 1), "tile (0, 1) is not stored by this matrix");
        assert!(reason(2, 2).contains("belongs to rank 0"));
        assert!(reason(1, 1).contains("empty or lent"));
    }

    /// Room was made for all entries first.
    #[test]
    fn a_matrix_without_tiles_is_refused_before_there_is_room_for_its_entries() {
        let layout = Layout::general(1 << 40, 1 << 40, 1 << 39).unwrap();
        let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
        let absent = TileError::Absent { i: 0, j: 0 };
        assert_eq!(a.to_column_major(), Err(absent.clone()));
        assert_eq!(a.to_ndarray(), Err(absent.clone()));
        assert_eq!(a.to_faer().map(drop), Err(absent.clone()));
        let mut text = Vec::new();
        let refused = write(&mut text, &a, Storage::Array, Symmetry::General);
        assert!(matches!(refused, Err(WriteError::Tile(of)) if of == absent));
        assert!(text.is_empty());
    }

    #[test]
    fn a_slice_that_is_too_small_is_refused_with_both_shapes() {
        let layout = Layout::general(3, 2, 2).unwrap();
        let from = |length, ld| TiledMatrix::from_column_major(layout, &vec![0.0; length], ld);
        assert!(from(6, 3).is_ok());
        assert!(from(7, 4).is_ok(), "the last column need not be padded");
        assert_eq!(
            from(5, 3).unwrap_err().to_string(),
            "the slice is 3 x 1 (must be 3 x 2): it has 5 elements, and with ld = 3 at least 6 are needed"
        );
        assert!(from(6, 2).is_err());
        assert!(from(0, 0).is_err());
        let mut small = [0.0; 5];
        let a = TiledMatrix::<f64>::zeros(layout);
        let refused = a.write_column_major(&mut small, 3).unwrap_err();
        assert!(matches!(refused, MatrixError::Shape(_)));
    }

    /// Without rows the start of a column ran over, and without columns what was needed.
    #[test]
    fn a_matrix_without_entries_fits_any_slice_whose_leading_dimension_is_not_too_small() {
        let vacant = |rows, cols| {
            let layout = Layout::general(rows, cols, 1 << 40).unwrap();
            TiledMatrix::<f64>::vacant(layout, Arc::new(Heap))
        };
        for (rows, cols, ld) in [(0, usize::MAX, usize::MAX), (usize::MAX, 0, usize::MAX)] {
            let a = vacant(rows, cols);
            a.write_column_major(&mut [], ld).unwrap();
            assert!(TiledMatrix::<f64>::from_column_major(*a.layout(), &[], ld).is_ok());
            assert_eq!(a.to_column_major(), Ok(vec![]));
        }
        let refused = vacant(3, 0).write_column_major(&mut [], 2).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the slice is 2 x 0 (must be 3 x 0): with ld = 2, which must be at least 3, no column is whole"
        );
    }

    /// A slice whose leading dimension was too small gave entries of the next column, and a tiled matrix of
    /// too few rows was never done with.
    #[test]
    fn rows_that_a_source_does_not_have_are_refused_whatever_it_is() {
        fn refuses(name: &str, source: &impl Entries<f64>) {
            let layouts = [Layout::general(4, 2, 2), Layout::lower(4, 4)];
            for layout in layouts.map(Result::unwrap) {
                let made = || TiledMatrix::from_entries(layout, source);
                let refused = catch_unwind(AssertUnwindSafe(made));
                assert!(refused.is_err(), "{name}, {:?}", layout.structure());
            }
            let memory: Arc<dyn Memory> = Arc::new(Heap);
            let whole = || tile_of((4, 2), source, &memory);
            assert!(catch_unwind(AssertUnwindSafe(whole)).is_err(), "{name}");
            let entry = || source.entry(3, 0);
            assert!(catch_unwind(AssertUnwindSafe(entry)).is_err(), "{name}");
        }
        let elements = [0.0; 12];
        let (rows, columns) = (Array2::<f64>::zeros((3, 4)), Array2::zeros((3, 4).f()));
        let faer = faer::Mat::<f64>::zeros(3, 4);
        refuses(
            "slice",
            &ColumnMajor {
                elements: &elements,
                ld: 3,
            },
        );
        refuses("by rows", &NdarrayEntries(rows.view()));
        refuses("by columns", &NdarrayEntries(columns.view()));
        refuses("spread", &NdarrayEntries(columns.slice(s![.., ..;2])));
        refuses("faer", &FaerEntries(faer.as_ref()));
        refuses(
            "tiled",
            &TiledMatrix::zeros(Layout::general(3, 4, 2).unwrap()),
        );
    }

    #[test]
    fn a_tile_of_which_an_entry_panics_stays_as_it_was() {
        let layout = Layout::general(3, 2, 2).unwrap();
        let a = TiledMatrix::from_fn(layout, number);
        let before = a.to_column_major();
        let panics = |_: usize, _: usize| panic!("no entry");
        let short = ColumnMajor {
            elements: &[0.0; 3],
            ld: 3,
        };
        for tile in [(0, 0), (1, 0)] {
            let fill = || a.fill_tile(tile.0, tile.1, &panics);
            assert!(catch_unwind(AssertUnwindSafe(fill)).is_err());
            let fill = || a.fill_tile(tile.0, tile.1, &short);
            assert!(catch_unwind(AssertUnwindSafe(fill)).is_err());
            assert_eq!(a.to_column_major(), before);
        }
    }

    #[test]
    fn a_tiled_matrix_can_be_cut_anew() {
        let entries = |row: usize, col: usize| c64::new(row as f64, col as f64);
        let lower = TiledMatrix::from_fn(Layout::lower(11, 3).unwrap(), entries);
        let again = TiledMatrix::from_entries(Layout::lower(11, 4).unwrap(), &lower);
        assert_eq!(lower.to_column_major(), again.to_column_major());
        let full = TiledMatrix::from_entries(Layout::general(11, 11, 5).unwrap(), &lower);
        for (row, col) in [(0, 0), (10, 2), (2, 10), (4, 3), (3, 4)] {
            assert_eq!(full.get(row, col), lower.get(row, col));
        }
    }

    #[test]
    fn a_renamed_matrix_has_the_same_tiles() {
        let a = TiledMatrix::from_fn(Layout::lower(4, 3).unwrap(), |row, col| {
            c64::new(row as f64, col as f64)
        });
        let before = a.to_column_major();
        let a = a.named("L");
        assert_eq!((a.store().name(), a.to_column_major()), ("L", before));
    }
}
