//! The header: banner and size line.

use super::error::Reason;
use super::lines::words;
use std::fmt;

/// How entries are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Row, column, value; what is not listed is 0.
    Coordinate,
    /// Values only, column by column; of the symmetric kinds the lower triangle.
    Array,
}

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// One number.
    Real,
    /// One whole number.
    Integer,
    /// No number: every listed entry is 1.
    Pattern,
    /// Two numbers, real and imaginary part.
    Complex,
}

/// What follows from an entry for its mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symmetry {
    /// Nothing.
    General,
    /// The same value.
    Symmetric,
    /// The value with the opposite sign.
    SkewSymmetric,
    /// The conjugate value.
    Hermitian,
}

macro_rules! words {
    ($type:ident, $allowed:literal, $($variant:ident = $word:literal),+) => {
        impl $type {
            /// The variant of a word in any case.
            fn of(word: &[u8]) -> Result<Self, Reason> {
                $(if word.eq_ignore_ascii_case($word.as_bytes()) {
                    return Ok($type::$variant);
                })+
                Err(Reason::BannerWord {
                    word: String::from_utf8_lossy(word).into_owned(),
                    allowed: $allowed,
                })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $($type::$variant => $word),+
                })
            }
        }
    };
}

words!(
    Storage,
    "coordinate or array",
    Coordinate = "coordinate",
    Array = "array"
);
words!(
    Field,
    "real, integer, pattern or complex",
    Real = "real",
    Integer = "integer",
    Pattern = "pattern",
    Complex = "complex"
);
words!(
    Symmetry,
    "general, symmetric, skew-symmetric or hermitian",
    General = "general",
    Symmetric = "symmetric",
    SkewSymmetric = "skew-symmetric",
    Hermitian = "hermitian"
);

/// What a file declares about its matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How entries are listed.
    pub storage: Storage,
    /// What the values are.
    pub field: Field,
    /// What follows from an entry for its mirror.
    pub symmetry: Symmetry,
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// Entries that the file should list. Only compared with those found, never trusted.
    pub entries: u128,
}

impl Header {
    /// Whether the matrix is complex.
    pub fn is_complex(&self) -> bool {
        self.field == Field::Complex
    }

    /// The header of a banner, still without sizes.
    pub(super) fn of_banner(line: &[u8]) -> Result<Self, Reason> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let found: Vec<&[u8]> = words(line).collect();
        if found.first() != Some(&b"%%MatrixMarket".as_slice()) {
            return Err(Reason::NotABanner);
        }
        let [_, object, storage, field, symmetry] = found[..] else {
            return Err(Reason::BannerWords(found.len()));
        };
        if !object.eq_ignore_ascii_case(b"matrix") {
            return Err(Reason::BannerWord {
                word: String::from_utf8_lossy(object).into_owned(),
                allowed: "matrix",
            });
        }
        let header = Header {
            storage: Storage::of(storage)?,
            field: Field::of(field)?,
            symmetry: Symmetry::of(symmetry)?,
            rows: 0,
            cols: 0,
            entries: 0,
        };
        match (header.storage, header.field, header.symmetry) {
            (Storage::Array, Field::Pattern, _) => Err(Reason::Unsuitable(
                "a pattern matrix in array storage (must be coordinate)",
            )),
            (_, Field::Pattern, Symmetry::SkewSymmetric) => Err(Reason::Unsuitable(
                "a pattern matrix that is skew-symmetric (must be general or symmetric)",
            )),
            (_, field, Symmetry::Hermitian) if field != Field::Complex => Err(Reason::Unsuitable(
                "a hermitian matrix that is not complex (must be complex)",
            )),
            _ => Ok(header),
        }
    }

    /// The same with the sizes of a size line.
    pub(super) fn sized(self, line: &[u8]) -> Result<Self, Reason> {
        let sizes: Vec<&[u8]> = words(line).collect();
        let (rows, cols, declared) = match (self.storage, &sizes[..]) {
            (Storage::Coordinate, [rows, cols, entries]) => (rows, cols, Some(entries)),
            (Storage::Array, [rows, cols]) => (rows, cols, None),
            (storage, _) => {
                return Err(Reason::SizeWords {
                    found: sizes.len(),
                    expected: match storage {
                        Storage::Coordinate => "three: rows, columns, entries",
                        Storage::Array => "two: rows, columns",
                    },
                });
            }
        };
        let (rows, cols) = (size(rows)?, size(cols)?);
        if self.symmetry != Symmetry::General && rows != cols {
            return Err(Reason::NotSquare {
                symmetry: self.symmetry,
                rows,
                cols,
            });
        }
        let (m, n) = (rows as u128, cols as u128);
        let entries = match (declared, self.symmetry) {
            (Some(entries), _) => size(entries)? as u128,
            (None, Symmetry::General) => m * n,
            (None, Symmetry::SkewSymmetric) => n * n.saturating_sub(1) / 2,
            // n ≤ 2⁶⁴ − 1, so n (n + 1) < 2¹²⁸
            (None, Symmetry::Symmetric | Symmetry::Hermitian) => n * (n + 1) / 2,
        };
        Ok(Header {
            rows,
            cols,
            entries,
            ..self
        })
    }
}

fn size(word: &[u8]) -> Result<usize, Reason> {
    let text = String::from_utf8_lossy(word);
    text.parse().map_err(|_| Reason::Size(text.into_owned()))
}
