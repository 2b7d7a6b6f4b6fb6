//! Why a file is refused, or cannot be written.

use super::Symmetry;
use crate::error::{ShapeError, TileError};
use crate::scalar::Precision;
use dataflow_core::words::counted;
use std::fmt;
use std::io;

/// A file that is refused: which, where and why.
///
/// # Examples
/// See the [module's](super) example.
#[derive(Debug)]
pub struct ReadError {
    pub(super) file: String,
    pub(super) line: Option<u64>,
    pub(super) reason: Reason,
}

impl ReadError {
    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1; `None` if the file as a whole is meant.
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// The reason.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// What kind of failure it is, in snake_case, as reports and `--json` show it.
    pub fn kind(&self) -> &'static str {
        match self.reason {
            Reason::Io(_) => "input_unreadable",
            Reason::DoesNotFit { .. } | Reason::TooLong(_) => "does_not_fit",
            Reason::ComplexAsReal(_) => "complex_as_real",
            Reason::Shape(_) | Reason::NotItsAdjoint(_) => "wrong_shape",
            Reason::AlreadyRead => "already_read",
            _ => "malformed_input",
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}: line {line}: {}", self.file, self.reason),
            None => write!(f, "{}: {}", self.file, self.reason),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            Reason::Io(error) => Some(error),
            Reason::Shape(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a file is refused.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::market::{Reader, Reason};
/// let text = "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n";
/// let refused = Reader::new("short.mtx", text.as_bytes())?.find_map(Result::err).unwrap();
/// assert!(matches!(refused.reason(), Reason::Truncated { declared: 4, found: 3 }));
/// assert_eq!(refused.reason().to_string(), "file ends after 3 of 4 declared entries");
/// # Ok::<(), dataflow_linalg::matrix::market::ReadError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The file cannot be opened or read.
    Io(io::Error),
    /// A line is longer than a mebibyte.
    LineTooLong,
    /// No bytes at all.
    Empty,
    /// The first line is something else.
    NotABanner,
    /// The banner does not have five words.
    BannerWords(usize),
    /// A word of the banner is unknown.
    BannerWord {
        /// The word.
        word: String,
        /// What would be allowed.
        allowed: &'static str,
    },
    /// The words of the banner are known but do not go together.
    Unsuitable(&'static str),
    /// The size line does not have the right number of words.
    SizeWords {
        /// How many it has.
        found: usize,
        /// What would be right.
        expected: &'static str,
    },
    /// A size is not a whole number from 0 on that can be counted to.
    Size(String),
    /// A symmetry needs a square matrix.
    NotSquare {
        /// The symmetry.
        symmetry: Symmetry,
        /// Rows declared.
        rows: usize,
        /// Columns declared.
        cols: usize,
    },
    /// An entry's line ends too early: what is missing.
    Missing(&'static str),
    /// An entry's line has more words than an entry.
    TooManyWords {
        /// How many it has.
        found: usize,
        /// How many an entry has.
        expected: usize,
    },
    /// An index is not a whole number or outside the matrix.
    Index {
        /// `row` or `column`.
        of: &'static str,
        /// As it stands in the file.
        word: String,
        /// How many rows or columns there are.
        length: usize,
    },
    /// A value is not a number.
    NotANumber(String),
    /// A value of an integer matrix is not an integer.
    NotAnInteger(String),
    /// A finite value is beyond the largest one of the type.
    OutOfRange {
        /// As it stands in the file; of repeated values their sum so far and the next.
        word: String,
        /// The type.
        precision: Precision,
    },
    /// A diagonal entry in a skew-symmetric matrix: its row, from 1.
    SkewDiagonal(usize),
    /// An imaginary part on the diagonal of a hermitian matrix.
    ComplexDiagonal {
        /// The row, from 1.
        row: usize,
        /// The imaginary part.
        im: f64,
    },
    /// A position was given before, itself or as its mirror.
    GivenTwice {
        /// The row, from 1.
        row: usize,
        /// The column, from 1.
        col: usize,
    },
    /// The file ends before the last declared entry.
    Truncated {
        /// Entries declared.
        declared: u128,
        /// Entries found.
        found: u128,
    },
    /// Something follows the last declared entry.
    MoreEntries {
        /// Entries declared.
        declared: u128,
    },
    /// The matrix takes more memory than allowed.
    DoesNotFit {
        /// Rows declared.
        rows: usize,
        /// Columns declared.
        cols: usize,
        /// Bytes that this rank's tiles would take.
        bytes: u128,
        /// Bytes that they may take.
        limit: u64,
    },
    /// A side of a matrix without entries is longer than one of an array can be.
    TooLong(usize),
    /// A real type was asked for a complex matrix.
    ComplexAsReal(Precision),
    /// The layout has another shape than the file.
    Shape(ShapeError),
    /// The layout keeps the lower triangle alone, of which the rest would be taken for the adjoint; the
    /// matrix has this symmetry instead.
    NotItsAdjoint(Symmetry),
    /// Entries were read before: not all are left.
    AlreadyRead,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Io(error) => write!(f, "cannot be read: {error}"),
            Reason::LineTooLong => f.write_str("line of more than 1048576 bytes"),
            Reason::Empty => f.write_str("file is empty (must begin with %%MatrixMarket)"),
            Reason::NotABanner => {
                f.write_str("first line is not a banner (must begin with %%MatrixMarket)")
            }
            Reason::BannerWords(found) => write!(
                f,
                "banner has {} (must be five: %%MatrixMarket matrix, \
                 coordinate or array, field, symmetry)",
                counted(*found, "word")
            ),
            Reason::BannerWord { word, allowed } => {
                write!(f, "\"{word}\" in the banner (must be {allowed})")
            }
            Reason::Unsuitable(rule) => f.write_str(rule),
            Reason::SizeWords { found: 0, expected } => {
                write!(f, "the size line is missing (must be {expected})")
            }
            Reason::SizeWords { found, expected } => {
                let found = counted(*found, "word");
                write!(f, "size line has {found} (must be {expected})")
            }
            Reason::Size(word) if word.starts_with('-') => {
                write!(f, "negative size {word} (must be at least 0)")
            }
            Reason::Size(word) => write!(
                f,
                "size \"{word}\" (must be a whole number from 0 to {})",
                usize::MAX
            ),
            Reason::NotSquare {
                symmetry,
                rows,
                cols,
            } => write!(f, "a {symmetry} matrix of {rows} x {cols} (must be square)"),
            Reason::Missing(what) => write!(f, "{what} missing"),
            Reason::TooManyWords { found, expected } => {
                write!(
                    f,
                    "{} (an entry has {expected}, one entry per line)",
                    counted(*found, "word")
                )
            }
            Reason::Index { of, word, length } => self::index(f, of, word, *length),
            Reason::NotANumber(word) => {
                write!(f, "\"{word}\" is not a number")?;
                let meant = word.replace(['D', 'd'], "E");
                match meant != *word && meant.parse::<f64>().is_ok() {
                    true => write!(f, ": an exponent is written with E, {meant}"),
                    false => Ok(()),
                }
            }
            Reason::NotAnInteger(word) => {
                write!(f, "\"{word}\" is not an integer, as the banner promises")
            }
            Reason::OutOfRange { word, precision } => {
                write!(f, "{word} is out of range of {precision}")
            }
            Reason::SkewDiagonal(row) => write!(
                f,
                "diagonal entry ({row}, {row}) in a skew-symmetric matrix (its diagonal is 0 and \
                 not stored)"
            ),
            Reason::ComplexDiagonal { row, im } => write!(
                f,
                "imaginary part {im} at ({row}, {row}) on the diagonal of a hermitian matrix \
                 (must be 0)"
            ),
            Reason::GivenTwice { row, col } if row == col => {
                write!(f, "({row}, {col}) is given twice (a position only once)")
            }
            Reason::GivenTwice { row, col } => write!(
                f,
                "({row}, {col}) was given before, or ({col}, {row}) was (a position or its \
                 mirror, only once)"
            ),
            Reason::Truncated { declared, found } => {
                let entries = if *declared == 1 { "entry" } else { "entries" };
                write!(
                    f,
                    "file ends after {found} of {declared} declared {entries}"
                )
            }
            Reason::MoreEntries { declared } => {
                write!(f, "more entries found than the {declared} declared")
            }
            Reason::DoesNotFit {
                rows,
                cols,
                bytes,
                limit,
            } => write!(
                f,
                "{rows} x {cols} does not fit: needs {bytes} bytes (at most {limit} are allowed)"
            ),
            Reason::TooLong(side) => write!(
                f,
                "no array has a side of {side} (at most {} are allowed)",
                isize::MAX
            ),
            Reason::ComplexAsReal(precision) => write!(
                f,
                "the matrix is complex, but was asked for in {precision} (must be c32 or c64)"
            ),
            Reason::Shape(error) => error.fmt(f),
            Reason::NotItsAdjoint(symmetry) => write!(
                f,
                "the upper triangle of a {symmetry} matrix is not the adjoint of the lower one, which alone \
                 was asked for (take Layout::general)"
            ),
            Reason::AlreadyRead => {
                f.write_str("entries were read before (a file is read once: open it anew)")
            }
        }
    }
}

fn index(f: &mut fmt::Formatter<'_>, of: &str, word: &str, length: usize) -> fmt::Result {
    match word.bytes().all(|byte| byte.is_ascii_digit()) {
        true if length == 0 => write!(f, "{of} index {word} in a matrix without {of}s"),
        true if word.bytes().all(|byte| byte == b'0') => {
            write!(
                f,
                "{of} index {word}, indices start at 1 (must be 1 to {length})"
            )
        }
        true => write!(
            f,
            "{of} index {word} is outside the matrix (must be 1 to {length})"
        ),
        false => write!(
            f,
            "{of} index \"{word}\" is not a whole number (must be 1 to {length})"
        ),
    }
}

/// Why a matrix cannot be written.
///
/// # Examples
/// See [`write`](super::write()).
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// Writing failed.
    Io(io::Error),
    /// A tile is not at hand.
    Tile(TileError),
    /// A symmetry was asked for that a matrix of this shape or type cannot have.
    Unsuitable(&'static str),
    /// A diagonal entry breaks the symmetry.
    Diagonal {
        /// Row and column, from 0.
        row: usize,
        /// Its real part.
        re: f64,
        /// Its imaginary part.
        im: f64,
        /// The symmetry.
        symmetry: Symmetry,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io(error) => write!(f, "cannot be written: {error}"),
            WriteError::Tile(error) => error.fmt(f),
            WriteError::Unsuitable(rule) => f.write_str(rule),
            WriteError::Diagonal {
                row,
                re,
                im,
                symmetry,
            } => write!(
                f,
                "diagonal entry in row {row} (from 0) is {re} + {im} i, in a {symmetry} matrix \
                 (must be {})",
                match symmetry {
                    Symmetry::SkewSymmetric => "0",
                    _ => "real",
                }
            ),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Io(error) => Some(error),
            WriteError::Tile(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}

impl From<TileError> for WriteError {
    fn from(error: TileError) -> Self {
        WriteError::Tile(error)
    }
}
