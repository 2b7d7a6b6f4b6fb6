//! Reading: entries as they come, straight into tiles.

use super::banner::{Field, Storage, Symmetry};
use super::error::{ReadError, Reason};
use super::header::Header;
use super::lines::{FileLines, words};
use crate::error::ShapeError;
use crate::matrix::layout::{Layout, Structure};
use crate::matrix::tiled::zero_tiles;
use crate::matrix::{Tile, TiledMatrix};
use crate::needs::allowed;
use crate::scalar::{Precision, Scalar, c64};
use dataflow_core::port::{Heap, Memory};
use ndarray::Array2;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

/// An entry as it is stored in the file.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::market::Reader;
/// let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 -1.5\n";
/// for entry in Reader::new("small.mtx", text.as_bytes())? {
///     let entry = entry?;
///     assert_eq!((entry.row, entry.col, entry.value.re), (1, 0, -1.5));
/// }
/// # Ok::<(), dataflow_linalg::matrix::market::ReadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Row, from 0.
    pub row: usize,
    /// Column, from 0.
    pub col: usize,
    /// Value; 1 in a pattern matrix.
    pub value: c64,
    /// Whether this position was given before, so that the value is to be added.
    pub again: bool,
}

/// What was counted while reading.
///
/// # Examples
/// An entry below the diagonal of a symmetric matrix stands for two:
/// ```
/// use dataflow_linalg::matrix::market::Reader;
/// let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 0\n2 1 -1.5\n";
/// let mut reader = Reader::new("small.mtx", text.as_bytes())?;
/// for entry in &mut reader {
///     entry?;
/// }
/// let counts = reader.counts();
/// assert_eq!((counts.stored, counts.explicit_zeros, counts.expanded), (2, 1, 3));
/// # Ok::<(), dataflow_linalg::matrix::market::ReadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Entries in the file.
    pub stored: u64,
    /// Those of value 0.
    pub explicit_zeros: u64,
    /// Those at a position that was given before.
    pub duplicates: u64,
    /// Those of a symmetric kind that lie above the diagonal.
    pub above_diagonal: u64,
    /// Entries after mirroring.
    pub expanded: u64,
}

/// A file being read: the header at once, then entry by entry (it is an iterator), or
/// [into tiles](Reader::read_tiled) or [an array](Reader::read_ndarray).
///
/// Needs memory for one line and, for coordinate files, at most 300 bytes an entry to notice
/// positions given twice (where entries lie far apart; a bit per entry if the matrix is dense).
///
/// # Examples
/// See the [module's](super) example, and [`Entry`](Entry#examples).
pub struct Reader<R> {
    file: String,
    lines: FileLines<R>,
    header: Header,
    size_line: u64,
    counts: Counts,
    /// Where the next entry of an array stands.
    next: (usize, usize),
    seen: Positions,
    ended: bool,
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("file", &self.file)
            .field("header", &self.header)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Reader<BufReader<File>> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If the file cannot be opened, or its banner or size line breaks the rules.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        match File::open(path) {
            Ok(file) => Reader::new(path.display().to_string(), BufReader::new(file)),
            Err(error) => Err(ReadError {
                file: path.display().to_string(),
                line: None,
                reason: Reason::Io(error),
            }),
        }
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the header of a source that errors call `file`.
    ///
    /// # Errors
    /// If the source cannot be read, or its banner or size line breaks the rules.
    pub fn new(file: impl Into<String>, source: R) -> Result<Self, ReadError> {
        let file = file.into();
        let mut lines = FileLines::new(source);
        match read_header(&mut lines) {
            Ok(header) => Ok(Reader {
                file,
                size_line: lines.number(),
                lines,
                header,
                counts: Counts::default(),
                next: match header.symmetry {
                    Symmetry::SkewSymmetric => (1, 0),
                    _ => (0, 0),
                },
                seen: Positions::default(),
                ended: false,
            }),
            Err(reason) => Err(ReadError {
                file,
                line: match reason {
                    Reason::Io(_) | Reason::Empty => None,
                    _ => Some(lines.number()),
                },
                reason,
            }),
        }
    }

    /// What the file declares.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What was counted so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Reads all entries into the tiles of this rank: mirrored as the symmetry says, repeated
    /// positions summed in the order of the file.
    ///
    /// - `layout`: of the file's shape; with [`Structure::Lower`] what lies above the diagonal is
    ///   checked, mirrored and not kept, for matrices that are their adjoint, or general ones of which the
    ///   lower triangle is meant
    /// - `limit`: bytes that the tiles may take, see [`physical_memory`]
    ///
    /// Allocates the tiles and nothing else of the matrix's size. A file is read once: for another
    /// matrix, or another type, it is opened anew.
    ///
    /// # Errors
    /// [`Reason::AlreadyRead`] if an entry was read before, or looked for. If the matrix does not fit
    /// (before anything is allocated), a real type is asked for a complex matrix, or the layout has
    /// another shape, or keeps the lower triangle alone of a matrix that is skew-symmetric, or symmetric and
    /// complex: then no entry is read, and the reader may be asked again. If a value is out of
    /// range of `T`, or the sum of repeated ones is where it is kept, or an entry breaks the rules.
    pub fn read_tiled<T: Scalar>(
        &mut self,
        layout: Layout,
        memory: Arc<dyn Memory>,
        limit: u64,
    ) -> Result<TiledMatrix<T>, ReadError> {
        if self.counts.stored > 0 || self.ended {
            return Err(self.refusal(None, Reason::AlreadyRead));
        }
        self.expect_room::<T>(&layout, limit)
            .map_err(|reason| self.refusal(Some(self.size_line), reason))?;
        let mut tiles = zero_tiles::<T>(&layout, &memory);
        while let Some(entry) = self.next() {
            let entry = expect_range(entry?, T::PRECISION)
                .map_err(|reason| self.refusal(Some(self.lines.number()), reason))?;
            let Entry { row, col, .. } = entry;
            let mirror = self.mirror(entry.value).filter(|_| row != col);
            let mirror = mirror.map(|value| (col, row, Entry { value, ..entry }));
            for (row, col, entry) in [(row, col, entry)].into_iter().chain(mirror) {
                place(&mut tiles, &layout, row, col, entry)
                    .map_err(|reason| self.refusal(Some(self.lines.number()), reason))?;
            }
        }
        Ok(TiledMatrix::from_tiles(layout, memory, tiles))
    }

    /// Reads all entries, of both triangles, into an array in column-major order; while they are copied they
    /// are there twice.
    ///
    /// # Errors
    /// As [`read_tiled`](Self::read_tiled): [`Reason::DoesNotFit`] if the array takes more than half of
    /// [`physical_memory`]; and [`Reason::TooLong`].
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::matrix::market::Reader;
    /// let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 4\n2 1 -1.5\n";
    /// // Or Reader::open("small.mtx")
    /// let a = Reader::new("small.mtx", text.as_bytes())?.read_ndarray::<f64>()?;
    /// assert_eq!(a, ndarray::array![[4.0, -1.5], [-1.5, 0.0]]);
    /// # Ok::<(), dataflow_linalg::matrix::market::ReadError>(())
    /// ```
    pub fn read_ndarray<T: Scalar>(&mut self) -> Result<Array2<T>, ReadError> {
        let Header { rows, cols, .. } = self.header;
        let side = rows.max(cols);
        if rows.min(cols) == 0 && isize::try_from(side).is_err() {
            return Err(self.refusal(Some(self.size_line), Reason::TooLong(side)));
        }
        let one_tile = Layout::general(rows, cols, rows.max(cols).max(1));
        let one_tile = one_tile.unwrap_or_else(|error| unreachable!("a single tile: {error}"));
        let tile = self.read_tiled(one_tile, Arc::new(Heap), physical_memory() / 2)?;
        let array = tile.to_ndarray();
        Ok(array.unwrap_or_else(|absent| unreachable!("it was read: {absent}")))
    }

    /// Whether a matrix of `T` can be read into this layout.
    fn expect_room<T: Scalar>(&self, layout: &Layout, limit: u64) -> Result<(), Reason> {
        let Header { rows, cols, .. } = self.header;
        if self.header.is_complex() && !T::IS_COMPLEX {
            return Err(Reason::ComplexAsReal(T::PRECISION));
        }
        let symmetry = self.header.symmetry;
        let is_adjoint = match symmetry {
            Symmetry::General | Symmetry::Hermitian => true,
            Symmetry::Symmetric => !self.header.is_complex(),
            Symmetry::SkewSymmetric => false,
        };
        if layout.structure() == Structure::Lower && !is_adjoint {
            return Err(Reason::NotItsAdjoint(symmetry));
        }
        let (found, expected) = ((layout.rows(), layout.cols()), (rows, cols));
        ShapeError::check("the layout", found, expected).map_err(Reason::Shape)?;
        // A tile costs something beside its elements: matrices without any are bounded, too.
        let overhead = size_of::<Tile<T>>() as u128 * layout.n_slots() as u128;
        let elements = layout.n_elements().saturating_mul(size_of::<T>() as u128);
        let bytes = elements.saturating_add(overhead);
        match bytes > u128::from(limit) {
            true => Err(Reason::DoesNotFit {
                rows,
                cols,
                bytes,
                limit,
            }),
            false => Ok(()),
        }
    }

    /// What an entry says about its mirror.
    fn mirror(&self, value: c64) -> Option<c64> {
        match self.header.symmetry {
            Symmetry::General => None,
            Symmetry::Symmetric => Some(value),
            Symmetry::SkewSymmetric => Some(-value),
            Symmetry::Hermitian => Some(value.conj()),
        }
    }

    fn refusal(&self, line: Option<u64>, reason: Reason) -> ReadError {
        ReadError {
            file: self.file.clone(),
            line,
            reason,
        }
    }

    /// The next entry, `None` after the last.
    fn read_entry(&mut self) -> Result<Option<Entry>, Reason> {
        let declared = self.header.entries;
        let found = u128::from(self.counts.stored);
        if !self.lines.advance_to_content()? {
            return match found < declared {
                true => Err(Reason::Truncated { declared, found }),
                false => Ok(None),
            };
        }
        if found == declared {
            return Err(Reason::MoreEntries { declared });
        }
        let mut entry = self.parse_entry()?;
        self.expect_symmetry(&entry)?;
        if self.header.storage == Storage::Coordinate {
            entry.again = self.note_position(entry.row, entry.col)?;
        }
        self.count(&entry);
        Ok(Some(entry))
    }

    fn parse_entry(&mut self) -> Result<Entry, Reason> {
        let Header { rows, cols, .. } = self.header;
        let n_indices = match self.header.storage {
            Storage::Coordinate => 2,
            Storage::Array => 0,
        };
        let n_values = match self.header.field {
            Field::Pattern => 0,
            Field::Real | Field::Integer => 1,
            Field::Complex => 2,
        };
        let mut words = words(self.lines.line());
        let mut next = |what: &'static str| words.next().ok_or(Reason::Missing(what));
        let (row, col) = match self.header.storage {
            Storage::Coordinate => (
                index("row", next("row index")?, rows)?,
                index("column", next("column index")?, cols)?,
            ),
            Storage::Array => self.next,
        };
        let mut value = c64::new(1.0, 0.0);
        if n_values > 0 {
            value.re = number(next("value")?, self.header.field)?;
        }
        if n_values > 1 {
            value.im = number(next("imaginary part")?, self.header.field)?;
        }
        let (more, expected) = (words.count(), n_indices + n_values);
        if more > 0 {
            let found = expected + more;
            return Err(Reason::TooManyWords { found, expected });
        }
        if self.header.storage == Storage::Array {
            self.step_array();
        }
        Ok(Entry {
            row,
            col,
            value,
            again: false,
        })
    }

    /// Moves to the next position of an array: down the column, then to the top of the next.
    fn step_array(&mut self) {
        let (row, col) = self.next;
        self.next = match (row + 1 < self.header.rows, self.header.symmetry) {
            (true, _) => (row + 1, col),
            (false, Symmetry::General) => (0, col + 1),
            (false, Symmetry::SkewSymmetric) => (col + 2, col + 1),
            (false, Symmetry::Symmetric | Symmetry::Hermitian) => (col + 1, col + 1),
        };
    }

    /// What the symmetry demands of a diagonal entry.
    fn expect_symmetry(&self, entry: &Entry) -> Result<(), Reason> {
        let (row, im) = (entry.row + 1, entry.value.im);
        match self.header.symmetry {
            _ if entry.row != entry.col => Ok(()),
            Symmetry::SkewSymmetric => Err(Reason::SkewDiagonal(row)),
            Symmetry::Hermitian if im != 0.0 => Err(Reason::ComplexDiagonal { row, im }),
            _ => Ok(()),
        }
    }

    /// Whether a position was given before, which only a general matrix allows.
    fn note_position(&mut self, row: usize, col: usize) -> Result<bool, Reason> {
        if self.header.symmetry == Symmetry::General {
            return Ok(self.seen.insert(row, col));
        }
        match self.seen.insert(row.max(col), row.min(col)) {
            true => Err(Reason::GivenTwice {
                row: row + 1,
                col: col + 1,
            }),
            false => Ok(false),
        }
    }

    fn count(&mut self, entry: &Entry) {
        let general = self.header.symmetry == Symmetry::General;
        let counts = &mut self.counts;
        counts.stored += 1;
        counts.explicit_zeros += u64::from(entry.value == c64::new(0.0, 0.0));
        counts.duplicates += u64::from(entry.again);
        counts.above_diagonal += u64::from(!general && entry.row < entry.col);
        counts.expanded += match general || entry.row == entry.col {
            true => 1,
            false => 2,
        };
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry, ReadError>;

    /// The next entry; nothing more after the first error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let entry = self.read_entry();
        self.ended = !matches!(entry, Ok(Some(_)));
        let line = Some(self.lines.number());
        entry
            .map_err(|reason| self.refusal(line, reason))
            .transpose()
    }
}

/// The first line must be the banner, the next one with content the sizes.
fn read_header<R: BufRead>(lines: &mut FileLines<R>) -> Result<Header, Reason> {
    if !lines.advance()? {
        return Err(Reason::Empty);
    }
    let header = Header::of_banner(lines.line())?;
    match lines.advance_to_content()? {
        true => header.sized(lines.line()),
        false => header.sized(b""),
    }
}

/// An index of the file, from 0.
fn index(of: &'static str, word: &[u8], length: usize) -> Result<usize, Reason> {
    let text = std::str::from_utf8(word).unwrap_or_default();
    match text.parse() {
        Ok(index) if (1..=length).contains(&index) => Ok(index - 1),
        _ => Err(Reason::Index {
            of,
            word: String::from_utf8_lossy(word).into_owned(),
            length,
        }),
    }
}

/// A part of a value.
fn number(word: &[u8], field: Field) -> Result<f64, Reason> {
    let shown = || String::from_utf8_lossy(word).into_owned();
    let text = std::str::from_utf8(word).unwrap_or_default();
    let value: f64 = text.parse().map_err(|_| Reason::NotANumber(shown()))?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if field == Field::Integer && !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Reason::NotAnInteger(shown()));
    }
    let is_spelled_out = unsigned.starts_with(['i', 'I']);
    match value.is_infinite() && !is_spelled_out {
        true => Err(Reason::OutOfRange {
            word: shown(),
            precision: Precision::F64,
        }),
        false => Ok(value),
    }
}

/// The same entry, if its finite parts are finite in this precision.
fn expect_range(entry: Entry, precision: Precision) -> Result<Entry, Reason> {
    let narrow = matches!(precision, Precision::F32 | Precision::C32);
    let overflows = |part: &f64| narrow && part.is_finite() && !(*part as f32).is_finite();
    match [entry.value.re, entry.value.im].into_iter().find(overflows) {
        Some(part) => Err(Reason::OutOfRange {
            word: format!("{part:?}"),
            precision,
        }),
        None => Ok(entry),
    }
}

/// Writes an entry into its tile, if it is kept on this rank. Fails if it is repeated and the sum overflows.
fn place<T: Scalar>(
    tiles: &mut [Tile<T>],
    layout: &Layout,
    row: usize,
    col: usize,
    entry: Entry,
) -> Result<(), Reason> {
    if layout.structure() == Structure::Lower && row < col {
        return Ok(());
    }
    let nb = layout.nb();
    let Some(slot) = layout.slot(row / nb, col / nb) else {
        return Ok(());
    };
    let (tile, i, j) = (&mut tiles[slot], row % nb, col % nb);
    let value = T::from_parts(entry.value.re, entry.value.im);
    // Not added to the zero that was there: 0 + (−0) would be 0.
    let value = match entry.again {
        true => sum(tile.get(i, j), value)?,
        false => value,
    };
    tile.set(i, j, value);
    Ok(())
}

/// The sum of two values, if its parts are finite where those of both are.
fn sum<T: Scalar>(one: T, other: T) -> Result<T, Reason> {
    let sum = one + other;
    for part in [T::re as fn(T) -> f64, T::im] {
        let (x, y) = (part(one), part(other));
        if !part(sum).is_finite() && x.is_finite() && y.is_finite() {
            return Err(Reason::OutOfRange {
                word: format!("{x:?} + {y:?}"),
                precision: T::PRECISION,
            });
        }
    }
    Ok(sum)
}

/// A set of positions: a bit each, in blocks of 512 rows of a column that exist once one is set.
#[derive(Default)]
struct Positions {
    blocks: HashMap<(usize, usize), [u64; 8]>,
}

impl Positions {
    /// Adds a position; whether it was there before.
    fn insert(&mut self, row: usize, col: usize) -> bool {
        let block = self.blocks.entry((col, row / 512)).or_default();
        let (word, bit) = (&mut block[row % 512 / 64], 1 << (row % 64));
        let before = *word & bit != 0;
        *word |= bit;
        before
    }
}

/// Bytes of memory that this process may hope for: the machine's, or the limit of a control group that
/// it is in, or its container, if that is less; 64 GiB where the system does not say.
pub fn physical_memory() -> u64 {
    allowed()
}

#[cfg(test)]
mod tests;
