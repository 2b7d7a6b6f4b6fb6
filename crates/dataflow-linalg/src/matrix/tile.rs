//! The tile: one owned, contiguous block of a matrix, the datum that flows between tasks.
//!
//! # Law
//! A tile is `rows × cols` elements without padding, in one [`Block`] of memory; its [`Format`] says
//! in which order they lie there. Kernels and element access hide the format.
//!
//! # Sub-tiled
//! In an `h × w` tile with sub-tiles of order `s`, sub-tile (i, j) starts at element
//! `j·s·h + i·s·c`, where `c` is the width of its column (`s`, or less in the last one).
//! Each sub-tile is column-major and as tall as itself; the last ones are smaller:
//!
//! ```text
//! 5 × 5, s = 2        0  2 |  10 12 | 20
//!                     1  3 |  11 13 | 21
//!                     -----+--------+---
//!                     4  6 |  14 16 | 22
//!                     5  7 |  15 17 | 23
//!                     -----+--------+---
//!                     8  9 |  18 19 | 24
//! ```
//!
//! # Elsewhere
//! Which rank owns a tile: [`distribution`](super::distribution). Arithmetic: [`kernel`](crate::kernel).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use dataflow_core::data::Datum;
use dataflow_core::port::{Block, Heap, Memory};
use faer::{MatMut, MatRef};

use crate::scalar::Scalar;

/// The order in which the elements of a tile lie in memory.
///
/// # Examples
/// See [`Tile`](Tile#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Column by column, no padding: the leading dimension is the number of rows.
    ColumnMajor,
    /// Contiguous column-major sub-tiles of this order (at least 1), column by column of sub-tiles.
    ///
    /// Small enough for three of them to stay in a core's cache, they keep the kernels' operands
    /// contiguous; [`Scalar::SUB_TILE_ORDER`] is the order to take.
    SubTiled {
        /// Rows and columns of a sub-tile.
        order: usize,
    },
    /// As [`ColumnMajor`](Self::ColumnMajor) in memory, but worked on in pieces of this order (at least 1).
    ///
    /// A sum has as many parts as with tiles of that order: so Cholesky, and LU with partial pivoting, have the
    /// same bits in all tiles whose order is a multiple of it.
    CutColumns {
        /// Rows and columns of a piece.
        order: usize,
    },
}

impl Format {
    /// Sub-tiled with the order that suits `T`.
    pub const fn sub_tiled<T: Scalar>() -> Self {
        Self::SubTiled {
            order: T::SUB_TILE_ORDER,
        }
    }

    /// Elements up to the next boundary in either direction; unbounded for column-major.
    pub(crate) const fn order(self) -> usize {
        match self {
            Self::ColumnMajor => usize::MAX,
            Self::SubTiled { order } | Self::CutColumns { order } => order,
        }
    }

    /// How elements lie in memory, however they are worked on.
    pub(crate) const fn in_memory(self) -> Self {
        match self {
            Self::ColumnMajor | Self::CutColumns { .. } => Self::ColumnMajor,
            Self::SubTiled { order } => Self::SubTiled { order },
        }
    }

    /// Panics if there are no sub-tiles or pieces of such an order.
    #[track_caller]
    pub(crate) fn expect_order(self) {
        assert!(
            self.order() > 0,
            "sub-tiles or pieces of order 0 (must be at least 1)"
        );
    }
}

/// The part of a tile that counts; no more of it travels between ranks.
///
/// # Examples
/// Of a triangle three of four elements travel:
/// ```
/// use dataflow_core::port::Wire;
/// use dataflow_linalg::matrix::{Part, Tile};
/// let mut l = Tile::from_rows([[2.0, 0.0], [1.0, 3.0]]);
/// assert_eq!(l.size(), 32);
/// l.set_part(Part::Lower);
/// assert_eq!(l.size(), 24);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Every element.
    #[default]
    Whole,
    /// On and below the diagonal: above are zeros, or what nobody reads.
    Lower,
    /// Below the diagonal: on it are ones, above are zeros.
    UnitLower,
    /// On and above the diagonal: below are zeros.
    Upper,
    /// On and above the diagonals of squares side by side, as many rows as the tile has: below are
    /// zeros.
    UpperBlocks,
}

impl Part {
    /// Bytes of this part of a `rows × cols` tile, or the largest number: a tile that is only counted may be
    /// larger than any memory.
    pub(crate) fn bytes<T>(self, shape: (usize, usize)) -> u64 {
        let bytes = self
            .n_elements(shape)
            .saturating_mul(size_of::<T>() as u128);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// How many elements it has of a `rows × cols` tile.
    fn n_elements(self, (rows, cols): (usize, usize)) -> u128 {
        let (rows, cols) = (rows as u128, cols as u128);
        let short = rows.min(cols);
        let triangle = |side: u128| side * (side + 1) / 2;
        match self {
            Part::Whole => rows * cols,
            Part::Lower => short * (rows - short) + triangle(short),
            Part::UnitLower => short * (rows - short) + triangle(short.saturating_sub(1)),
            Part::Upper => short * (cols - short) + triangle(short),
            Part::UpperBlocks => {
                let (blocks, rest) = (cols / rows.max(1), cols % rows.max(1));
                blocks * triangle(rows) + rows.min(1) * triangle(rest)
            }
        }
    }
}

/// Where the elements of a `rows × cols` tile lie: the one place that knows the formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileLayout {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) format: Format,
}

/// A rectangle of a tile that crosses no sub-tile boundary, as a strided piece of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rectangle {
    /// Index of its first element in the storage.
    pub(crate) start: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Elements from one column to the next.
    pub(crate) stride: usize,
}

impl TileLayout {
    /// The rectangle `rows × cols`, which must lie within one sub-tile.
    pub(crate) fn place(&self, rows: Range<usize>, cols: Range<usize>) -> Rectangle {
        let order = self.format.in_memory().order();
        let (top, left) = (rows.start / order, cols.start / order);
        debug_assert!(rows.end <= self.rows && cols.end <= self.cols);
        debug_assert!(rows.is_empty() || (rows.end - 1) / order == top);
        debug_assert!(cols.is_empty() || (cols.end - 1) / order == left);
        let (height, width) = self.sub_shape(top, left);
        let (i, j) = (top.wrapping_mul(order), left.wrapping_mul(order));
        Rectangle {
            start: j * self.rows + i * width + (cols.start - j) * height + (rows.start - i),
            rows: rows.len(),
            cols: cols.len(),
            stride: height,
        }
    }

    /// Where rows lie in the columns from `left` on, up to the end of their sub-tiles.
    fn rows_at(self, left: usize) -> RowPlaces {
        RowPlaces {
            layout: self,
            left,
            top: 0,
            end: 0,
            start: 0,
        }
    }

    /// Rows and columns of sub-tile (i, j).
    fn sub_shape(&self, i: usize, j: usize) -> (usize, usize) {
        let order = self.format.in_memory().order();
        (
            self.rows.saturating_sub(i * order).min(order),
            self.cols.saturating_sub(j * order).min(order),
        )
    }

    /// The elements of a part, column by column, as ranges of the storage; they cover a whole tile
    /// in its order.
    pub(crate) fn pieces(self, part: Part) -> impl Iterator<Item = Range<usize>> {
        let whole = (part == Part::Whole).then_some(0..self.rows * self.cols);
        let columns = if part == Part::Whole { 0 } else { self.cols };
        let of_columns = (0..columns).flat_map(move |j| {
            let rows = match part {
                Part::Whole => 0..self.rows,
                Part::Lower => j..self.rows,
                Part::UnitLower => j + 1..self.rows,
                Part::Upper => 0..self.rows.min(j + 1),
                Part::UpperBlocks => 0..self.rows.min(j % self.rows.max(1) + 1),
            };
            let cut = move |cut: Range<usize>| rows.start.max(cut.start)..rows.end.min(cut.end);
            let rows = cuts(self.rows, [self.format.in_memory()]).map(cut);
            rows.filter(|rows| !rows.is_empty()).map(move |rows| {
                let place = self.place(rows, j..j + 1);
                place.start..place.start + place.rows
            })
        });
        whole.into_iter().chain(of_columns)
    }

    /// How many elements a part has, or the largest number.
    pub(crate) fn n_elements(self, part: Part) -> usize {
        let elements = part.n_elements((self.rows, self.cols));
        usize::try_from(elements).unwrap_or(usize::MAX)
    }

    /// Every sub-tile in storage order: its first row and column, and its place.
    pub(crate) fn sub_tiles(self) -> impl Iterator<Item = (usize, usize, Rectangle)> {
        let format = self.format.in_memory();
        cuts(self.cols, [format]).flat_map(move |cols| {
            cuts(self.rows, [format]).map(move |rows| {
                let place = self.place(rows.clone(), cols.clone());
                (rows.start, cols.start, place)
            })
        })
    }
}

/// Where the elements of rows lie in some columns of one sub-tile wide: those of the sub-tile of the row
/// before without a division, for moving rows is mostly finding them.
struct RowPlaces {
    layout: TileLayout,
    left: usize,
    /// Rows of the sub-tile of the row before, and where its first one lies.
    top: usize,
    end: usize,
    start: usize,
}

impl RowPlaces {
    /// Where row `i` lies in the first of the columns, and how far from it in the next.
    fn of(&mut self, i: usize) -> (usize, usize) {
        if !(self.top..self.end).contains(&i) {
            assert!(i < self.layout.rows, "row {i} of {}", self.layout.rows);
            let order = self.layout.format.in_memory().order();
            self.top = i - i % order;
            self.end = self.layout.rows.min(self.top.saturating_add(order));
            let column = self.left..self.left + 1;
            self.start = self.layout.place(self.top..self.top + 1, column).start;
        }
        (self.start + i - self.top, self.end - self.top)
    }
}

/// Columns that rows are moved in at a time: a cache line of each row where rows are contiguous.
const STRIP: Format = Format::SubTiled { order: 8 };

/// `0..length` cut wherever one of the formats has a sub-tile boundary.
pub(crate) fn cuts<const N: usize>(
    length: usize,
    formats: [Format; N],
) -> impl Iterator<Item = Range<usize>> + Clone {
    let mut start = 0;
    std::iter::from_fn(move || {
        let next = |format: &Format| (start / format.order() + 1).saturating_mul(format.order());
        let end = formats.iter().map(next).min()?.min(length);
        let piece = start..end;
        start = end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// `0..length` of a result in the ranges that one call computes: as [`cuts`], but of columns that are cut all
/// whole pieces together if `together`, and what is left of them behind.
///
/// So a call has as many rows and columns as one on small tiles, or a multiple of them: a product with one row
/// may have other bits than one with more.
pub(crate) fn bands<const N: usize>(
    length: usize,
    formats: [Format; N],
    together: bool,
) -> impl Iterator<Item = Range<usize>> + Clone {
    let mut cut = formats
        .into_iter()
        .filter(|format| *format != Format::ColumnMajor);
    let first = cut.next().unwrap_or(Format::ColumnMajor);
    let whole = match first {
        Format::CutColumns { order } if together && cut.all(|format| format == first) => {
            length - length % order
        }
        _ => 0,
    };
    let rest = cuts(length, formats).filter(move |range| range.start >= whole);
    (whole > 0).then_some(0..whole).into_iter().chain(rest)
}

impl Rectangle {
    /// The rectangle in the whole storage.
    pub(crate) fn of<T>(self, elements: &[T]) -> MatRef<'_, T> {
        let span = &elements[self.start..][..self.span()];
        MatRef::from_column_major_slice_with_stride(span, self.rows, self.cols, self.stride)
    }

    /// The rectangle in the whole storage, for writing.
    pub(crate) fn of_mut<T>(self, elements: &mut [T]) -> MatMut<'_, T> {
        let span = &mut elements[self.start..][..self.span()];
        MatMut::from_column_major_slice_with_stride_mut(span, self.rows, self.cols, self.stride)
    }

    /// Elements from the first to the last one, both included.
    fn span(self) -> usize {
        match (self.rows, self.cols) {
            (0, _) | (_, 0) => 0,
            (rows, cols) => (cols - 1) * self.stride + rows,
        }
    }
}

/// A `rows × cols` block of numbers, owned, contiguous, in one of the [`Format`]s.
///
/// It remembers the [`Memory`] that it came from; a clone comes from there, too.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::tile::{Format, Tile};
/// # use std::sync::Arc;
/// # use dataflow_core::port::{Heap, Memory};
/// let memory: Arc<dyn Memory> = Arc::new(Heap);
/// let format = Format::SubTiled { order: 2 };
/// let tile = Tile::from_fn(3, 3, format, &memory, |i, j| (10 * i + j) as f64);
/// assert_eq!(tile.get(2, 1), 21.0);
/// assert_eq!(tile.as_slice(), [0., 10., 1., 11., 20., 21., 2., 12., 22.]);
/// ```
pub struct Tile<T> {
    layout: TileLayout,
    block: Box<dyn Block>,
    memory: Arc<dyn Memory>,
    part: Part,
    elements: std::marker::PhantomData<T>,
}

impl<T: Scalar> Tile<T> {
    /// A tile of zeros. Zero rows or columns are allowed.
    ///
    /// # Panics
    /// If the format has sub-tiles or pieces of order 0, or the tile more bytes than can be addressed.
    #[track_caller]
    pub fn new(rows: usize, cols: usize, format: Format, memory: &Arc<dyn Memory>) -> Self {
        let mut tile = Self::unspecified(rows, cols, format, memory);
        tile.as_mut_slice().fill(T::zero());
        tile
    }

    /// The tile with element (i, j) = `element(i, j)`, called once for each, in storage order.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn from_fn(
        rows: usize,
        cols: usize,
        format: Format,
        memory: &Arc<dyn Memory>,
        mut element: impl FnMut(usize, usize) -> T,
    ) -> Self {
        let mut tile = Self::unspecified(rows, cols, format, memory);
        let layout = tile.layout;
        let mut slots = tile.as_mut_slice().iter_mut();
        for (top, left, place) in layout.sub_tiles() {
            for j in left..left + place.cols {
                for (i, slot) in (top..top + place.rows).zip(&mut slots) {
                    *slot = element(i, j);
                }
            }
        }
        tile
    }

    /// The tile with `of(x)` for each element x, in the same format, from the same memory.
    pub(crate) fn map<U: Scalar>(&self, of: impl Fn(T) -> U) -> Tile<U> {
        let TileLayout { rows, cols, format } = self.layout;
        let mut tile = Tile::unspecified(rows, cols, format, &self.memory);
        let elements = tile.as_mut_slice().iter_mut().zip(self.as_slice());
        elements.for_each(|(to, from)| *to = of(*from));
        tile
    }

    /// A small column-major tile on the heap, written row by row: for tests and documentation.
    pub fn from_rows<const ROWS: usize, const COLS: usize>(rows: [[T; COLS]; ROWS]) -> Self {
        let memory: Arc<dyn Memory> = Arc::new(Heap);
        Self::from_fn(ROWS, COLS, Format::ColumnMajor, &memory, |i, j| rows[i][j])
    }

    /// A tile whose elements are whatever the memory holds.
    #[track_caller]
    pub(crate) fn unspecified(
        rows: usize,
        cols: usize,
        format: Format,
        memory: &Arc<dyn Memory>,
    ) -> Self {
        format.expect_order();
        let bytes = rows
            .checked_mul(cols)
            .and_then(|n| n.checked_mul(size_of::<T>()));
        let Some(bytes) = bytes else {
            panic!("a tile of {rows} × {cols} {} is too large", T::PRECISION);
        };
        Self {
            layout: TileLayout { rows, cols, format },
            block: memory.allocate(bytes),
            memory: memory.clone(),
            part: Part::Whole,
            elements: std::marker::PhantomData,
        }
    }

    /// The tile that lies in a block of exactly its size.
    pub(crate) fn from_block(
        layout: TileLayout,
        block: Box<dyn Block>,
        memory: Arc<dyn Memory>,
    ) -> Self {
        debug_assert_eq!(
            block.bytes().len(),
            layout.rows * layout.cols * size_of::<T>()
        );
        Self {
            layout,
            block,
            memory,
            part: Part::Whole,
            elements: std::marker::PhantomData,
        }
    }

    /// The part that counts.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Says which part counts, until the tile is written again.
    pub fn set_part(&mut self, part: Part) {
        self.part = part;
    }

    /// A tile of the same shape and format with a part of this one, and the ones and zeros that
    /// belong to it.
    pub(crate) fn copy_of(&self, part: Part) -> Self {
        let TileLayout { rows, cols, format } = self.layout;
        let mut copy = Self::new(rows, cols, format, &self.memory);
        let from = self.as_slice();
        let to = copy.as_mut_slice();
        for piece in self.layout.pieces(part) {
            to[piece.clone()].copy_from_slice(&from[piece]);
        }
        copy.complete(part);
        copy
    }

    /// Overwrites the part that counts of a tile of the same shape and format.
    pub(crate) fn set_from(&mut self, other: &Self) {
        debug_assert_eq!(self.layout, other.layout);
        let from = other.as_slice();
        let to = self.as_mut_slice();
        for piece in other.layout.pieces(other.part) {
            to[piece.clone()].copy_from_slice(&from[piece]);
        }
    }

    /// Writes a unit triangle's ones and records which part is stored.
    pub(crate) fn complete(&mut self, part: Part) {
        if part == Part::UnitLower {
            for i in 0..self.rows().min(self.cols()) {
                self.set(i, i, T::one());
            }
        }
        self.part = part;
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.layout.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.layout.cols
    }

    /// The order in which the elements lie in memory.
    pub fn format(&self) -> Format {
        self.layout.format
    }

    /// The memory that the tile came from.
    pub fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// Where its elements lie.
    pub(crate) fn layout(&self) -> TileLayout {
        self.layout
    }

    /// Element (i, j), counted from 0.
    ///
    /// # Panics
    /// If the tile has no such element.
    #[track_caller]
    pub fn get(&self, i: usize, j: usize) -> T {
        self.as_slice()[self.index(i, j)]
    }

    /// Overwrites element (i, j), counted from 0.
    ///
    /// # Panics
    /// If the tile has no such element.
    #[track_caller]
    pub fn set(&mut self, i: usize, j: usize, value: T) {
        let index = self.index(i, j);
        self.as_mut_slice()[index] = value;
    }

    #[track_caller]
    fn index(&self, i: usize, j: usize) -> usize {
        let TileLayout { rows, cols, .. } = self.layout;
        assert!(
            i < rows && j < cols,
            "element ({i}, {j}) of a {rows} × {cols} tile"
        );
        self.layout.place(i..i + 1, j..j + 1).start
    }

    /// Copies rows, each with the index in `into` from which on it is written, as long as the tile is
    /// wide.
    ///
    /// Some columns at a time: so what is read of a column stays near until the next row needs it.
    ///
    /// # Panics
    /// If the tile has no such row, or `into` ends before.
    pub(crate) fn copy_rows(&self, rows: &[(usize, usize)], into: &mut [T]) {
        let (layout, elements) = (self.layout, self.as_slice());
        for cols in cuts(layout.cols, [layout.format.in_memory(), STRIP]) {
            let mut places = layout.rows_at(cols.start);
            for &(i, at) in rows {
                let (place, stride) = places.of(i);
                let to = &mut into[at + cols.start..at + cols.end];
                let from = &elements[place..];
                if let [a, b, c, d, e, f, g, h] = to {
                    (*a, *b, *c, *d) = (from[0], from[stride], from[2 * stride], from[3 * stride]);
                    let from = &from[4 * stride..];
                    (*e, *f, *g, *h) = (from[0], from[stride], from[2 * stride], from[3 * stride]);
                } else {
                    let from = from.iter().step_by(stride);
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// Overwrites rows, each with the index in `from` from which on it is read: the inverse of
    /// [`copy_rows`](Self::copy_rows).
    ///
    /// # Panics
    /// If the tile has no such row, or `from` ends before.
    pub(crate) fn set_rows(&mut self, rows: &[(usize, usize)], from: &[T]) {
        let layout = self.layout;
        let elements = self.as_mut_slice();
        for cols in cuts(layout.cols, [layout.format.in_memory(), STRIP]) {
            let mut places = layout.rows_at(cols.start);
            for &(i, at) in rows {
                let (place, stride) = places.of(i);
                let from = &from[at + cols.start..at + cols.end];
                let to = &mut elements[place..];
                if let [a, b, c, d, e, f, g, h] = *from {
                    (to[0], to[stride], to[2 * stride], to[3 * stride]) = (a, b, c, d);
                    let to = &mut to[4 * stride..];
                    (to[0], to[stride], to[2 * stride], to[3 * stride]) = (e, f, g, h);
                } else {
                    let to = to.iter_mut().step_by(stride);
                    to.zip(from).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// All elements in storage order: the payload of a message, the input of a digest.
    pub fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&self.block.bytes()[..self.bytes()])
    }

    /// All elements in storage order, for writing; from now on they count as a whole.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self.part = Part::Whole;
        let bytes = self.bytes();
        bytemuck::cast_slice_mut(&mut self.block.bytes_mut()[..bytes])
    }

    /// Overwrites the tile by a column-major block: element (i, j) ← `from[i + j·ld]`.
    ///
    /// One pass of sequential copies, each a column of a sub-tile.
    ///
    /// # Panics
    /// If `ld` is less than the number of rows or `from` ends before the last element.
    #[track_caller]
    pub fn read_column_major(&mut self, from: &[T], ld: usize) {
        let layout = self.layout;
        layout.expect_column_major(from.len(), ld);
        let mut rest = self.as_mut_slice();
        for (top, left, place) in layout.sub_tiles() {
            for j in left..left + place.cols {
                let (column, after) = rest.split_at_mut(place.rows);
                column.copy_from_slice(&from[top + j * ld..][..place.rows]);
                rest = after;
            }
        }
    }

    /// Overwrites the tile by rows of a column-major block: element (i, j) ← `from[rows[i] + j·ld]`.
    ///
    /// # Panics
    /// If there are fewer rows than the tile has, or `from` has no such row.
    #[track_caller]
    pub(crate) fn read_rows(&mut self, rows: &[u32], from: &[T], ld: usize) {
        let layout = self.layout;
        let mut rest = self.as_mut_slice();
        for (top, left, place) in layout.sub_tiles() {
            let rows = &rows[top..top + place.rows];
            for j in left..left + place.cols {
                let (column, after) = rest.split_at_mut(place.rows);
                let from = &from[j * ld..];
                let pairs = column.iter_mut().zip(rows);
                pairs.for_each(|(to, &row)| *to = from[row as usize]);
                rest = after;
            }
        }
    }

    /// The columns of a column-major tile.
    pub(crate) fn columns_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        debug_assert_eq!(self.format().in_memory(), Format::ColumnMajor);
        let height = self.rows().max(1);
        self.as_mut_slice().chunks_exact_mut(height)
    }

    /// Writes the tile into a column-major block: `to[i + j·ld]` ← element (i, j).
    ///
    /// What lies between the columns is left alone.
    ///
    /// # Panics
    /// If `ld` is less than the number of rows or `to` ends before the last element.
    #[track_caller]
    pub fn write_column_major(&self, to: &mut [T], ld: usize) {
        self.layout.expect_column_major(to.len(), ld);
        let mut rest = self.as_slice();
        for (top, left, place) in self.layout.sub_tiles() {
            for j in left..left + place.cols {
                let (column, after) = rest.split_at(place.rows);
                to[top + j * ld..][..place.rows].copy_from_slice(column);
                rest = after;
            }
        }
    }
}

impl TileLayout {
    /// Panics unless a column-major block of `length` elements holds a tile of this shape.
    #[track_caller]
    fn expect_column_major(&self, length: usize, ld: usize) {
        let Self { rows, cols, .. } = *self;
        if rows > 0 && cols > 0 {
            let enough = ld >= rows && length >= (cols - 1) * ld + rows;
            assert!(
                enough,
                "a {rows} × {cols} tile does not fit {length} elements with ld = {ld}"
            );
        }
    }
}

impl<T: Scalar> Clone for Tile<T> {
    fn clone(&self) -> Self {
        let TileLayout { rows, cols, format } = self.layout;
        let mut copy = Self::unspecified(rows, cols, format, &self.memory);
        copy.as_mut_slice().copy_from_slice(self.as_slice());
        copy.part = self.part;
        copy
    }
}

/// Equal are tiles of one shape with equal elements, whatever their formats.
impl<T: Scalar> PartialEq for Tile<T> {
    fn eq(&self, other: &Self) -> bool {
        let TileLayout { rows, cols, format } = self.layout;
        if (rows, cols) != (other.rows(), other.cols()) {
            return false;
        }
        if format.in_memory() == other.format().in_memory() {
            return self.as_slice() == other.as_slice();
        }
        (0..cols).all(|j| (0..rows).all(|i| self.get(i, j) == other.get(i, j)))
    }
}

impl<T: Scalar> fmt::Debug for Tile<T> {
    /// The shape and the format; up to 8 × 8, the elements row by row, too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TileLayout { rows, cols, format } = self.layout;
        write!(f, "{rows} × {cols} {} tile, {format:?}", T::PRECISION)?;
        if rows > 8 || cols > 8 {
            return Ok(());
        }
        let row = |i| (0..cols).map(|j| self.get(i, j)).collect::<Vec<T>>();
        write!(f, " ")?;
        f.debug_list().entries((0..rows).map(row)).finish()
    }
}

impl<T: Scalar> Datum for Tile<T> {
    fn bytes(&self) -> usize {
        self.layout.rows * self.layout.cols * size_of::<T>()
    }

    fn numa_node(&self) -> Option<usize> {
        self.block.numa_node()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::{c32, c64};

    fn heap() -> Arc<dyn Memory> {
        Arc::new(Heap)
    }

    const FORMATS: [Format; 6] = [
        Format::CutColumns { order: 2 },
        Format::ColumnMajor,
        Format::SubTiled { order: 1 },
        Format::SubTiled { order: 2 },
        Format::SubTiled { order: 3 },
        Format::SubTiled { order: 8 },
    ];
    const SHAPES: [(usize, usize); 9] = [
        (0, 0),
        (0, 3),
        (3, 0),
        (1, 1),
        (5, 5),
        (7, 2),
        (2, 7),
        (6, 9),
        (17, 8),
    ];

    #[test]
    fn the_drawing_in_the_header_is_the_layout() {
        let drawing = [
            [0., 2., 10., 12., 20.],
            [1., 3., 11., 13., 21.],
            [4., 6., 14., 16., 22.],
            [5., 7., 15., 17., 23.],
            [8., 9., 18., 19., 24.],
        ];
        let format = Format::SubTiled { order: 2 };
        let tile = Tile::from_fn(5, 5, format, &heap(), |i, j| drawing[i][j]);
        let expected: Vec<f64> = (0..25).map(f64::from).collect();
        assert_eq!(tile.as_slice(), expected);
    }

    /// The second one had none: what is only counted, or simulated, was sent for nothing.
    #[test]
    fn a_tile_that_no_memory_holds_is_counted_as_large_as_numbers_are() {
        let side = 1 << 31;
        for (part, shape, bytes) in [
            (Part::Whole, (side, side / 4), 1 << 63),
            (Part::Whole, (side, side / 2), u64::MAX),
            (Part::Whole, (usize::MAX, usize::MAX), u64::MAX),
            (Part::Lower, (side, side / 2), (3 << 62) + (1 << 32)),
            (Part::Upper, (2 * side, 2 * side), u64::MAX),
            (Part::UpperBlocks, (2 * side, side << 9), u64::MAX),
        ] {
            assert_eq!(part.bytes::<f64>(shape), bytes, "{part:?} of {shape:?}");
        }
    }

    #[test]
    fn every_element_has_its_own_place_in_every_format() {
        for format in FORMATS {
            for (rows, cols) in SHAPES {
                let mut tile = Tile::<f64>::new(rows, cols, format, &heap());
                for j in 0..cols {
                    for i in 0..rows {
                        assert_eq!(tile.get(i, j), 0.0, "{rows} × {cols} {format:?}");
                        tile.set(i, j, (1 + i + j * rows) as f64);
                    }
                }
                let mut seen: Vec<usize> = tile.as_slice().iter().map(|&x| x as usize).collect();
                seen.sort_unstable();
                assert_eq!(seen, (1..=rows * cols).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn column_major_in_and_out_is_the_identity_and_leaves_the_gaps_alone() {
        fn check<T: Scalar>() {
            for format in FORMATS {
                for (rows, cols) in SHAPES {
                    let ld = rows + 3;
                    let from: Vec<T> = (0..ld * cols)
                        .map(|n| T::from_parts(n as f64, -1.0))
                        .collect();
                    let mut tile = Tile::<T>::new(rows, cols, format, &heap());
                    tile.read_column_major(&from, ld);
                    let direct =
                        Tile::from_fn(rows, cols, format, &heap(), |i, j| from[i + j * ld]);
                    assert_eq!(tile.as_slice(), direct.as_slice());

                    let gap = T::from_real(-7.0);
                    let mut to = vec![gap; ld * cols];
                    tile.write_column_major(&mut to, ld);
                    for (n, &element) in to.iter().enumerate() {
                        let expected = if n % ld < rows { from[n] } else { gap };
                        assert_eq!(element, expected, "{rows} × {cols} {format:?}");
                    }
                }
            }
        }
        check::<f32>();
        check::<f64>();
        check::<c32>();
        check::<c64>();
    }

    #[test]
    fn tiles_are_equal_by_elements_whatever_the_format() {
        let of = |format, bias: f64| {
            Tile::from_fn(5, 4, format, &heap(), move |i, j| {
                (i + 10 * j) as f64 + if (i, j) == (4, 3) { bias } else { 0.0 }
            })
        };
        for a in FORMATS {
            for b in FORMATS {
                assert_eq!(of(a, 0.0), of(b, 0.0));
                assert_ne!(of(a, 0.0), of(b, 1.0));
            }
        }
        let wide = Tile::from_rows([[1.0, 2.0]]);
        assert_ne!(wide, Tile::from_rows([[1.0], [2.0]]));
    }

    #[test]
    fn a_clone_comes_from_the_same_memory_and_is_independent() {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
        struct Counting(AtomicUsize);
        impl Memory for Counting {
            fn allocate(&self, bytes: usize) -> Box<dyn Block> {
                self.0.fetch_add(bytes, Relaxed);
                Heap.allocate(bytes)
            }
        }
        let counting = Arc::new(Counting(AtomicUsize::new(0)));
        let memory: Arc<dyn Memory> = counting.clone();
        let tile = Tile::from_fn(3, 2, Format::ColumnMajor, &memory, |i, j| (i + j) as f32);
        let mut copy = tile.clone();
        assert_eq!(counting.0.load(Relaxed), 2 * 6 * 4);
        assert_eq!(copy, tile);
        copy.set(0, 0, 9.0);
        assert_eq!(tile.get(0, 0), 0.0);
    }

    #[test]
    fn a_tile_counts_its_payload_as_bytes() {
        let tile = Tile::<c64>::new(3, 5, Format::SubTiled { order: 2 }, &heap());
        assert_eq!(Datum::bytes(&tile), 3 * 5 * 16);
    }

    #[test]
    fn cuts_fall_on_every_boundary_once() {
        let of = |length, formats: [Format; 2]| cuts(length, formats).collect::<Vec<_>>();
        let (two, three) = (Format::SubTiled { order: 2 }, Format::SubTiled { order: 3 });
        assert_eq!(of(7, [two, three]), [0..2, 2..3, 3..4, 4..6, 6..7]);
        assert_eq!(of(4, [two, Format::ColumnMajor]), [0..2, 2..4]);
        assert_eq!(of(4, [Format::ColumnMajor, three]), [0..3, 3..4]);
        let whole = 0..4;
        assert_eq!(of(4, [Format::ColumnMajor; 2]), [whole]);
        assert_eq!(of(0, [two, three]), []);
    }

    #[test]
    fn whole_pieces_of_columns_that_are_cut_go_together_and_a_smaller_one_alone() {
        let of = |length, formats: [Format; 2], together| {
            bands(length, formats, together).collect::<Vec<_>>()
        };
        let cut = Format::CutColumns { order: 3 };
        let small = std::slice::from_ref(&(0..2));
        for formats in [
            [cut, cut],
            [cut, Format::ColumnMajor],
            [Format::ColumnMajor, cut],
        ] {
            assert_eq!(of(8, formats, true), [0..6, 6..8]);
            assert_eq!(of(2, formats, true), small);
            assert_eq!(of(8, formats, false), [0..3, 3..6, 6..8]);
        }
        let (other, sub_tiled) = (
            Format::CutColumns { order: 2 },
            Format::SubTiled { order: 4 },
        );
        assert_eq!(of(5, [cut, other], true), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(of(7, [cut, sub_tiled], true), [0..3, 3..4, 4..6, 6..7]);
        assert_eq!(of(0, [cut, cut], true), []);
        let whole = 0..7;
        assert_eq!(of(7, [Format::ColumnMajor; 2], true), [whole]);
    }

    #[test]
    #[should_panic(expected = "element (2, 0) of a 2 × 2 tile")]
    fn an_element_outside_is_refused() {
        Tile::from_rows([[1.0, 2.0], [3.0, 4.0]]).get(2, 0);
    }
}
