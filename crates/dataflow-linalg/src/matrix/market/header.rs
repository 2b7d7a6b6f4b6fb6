//! The header: banner and size line.

use super::banner::{Field, Storage, Symmetry};
use super::error::Reason;
use super::lines::words;

/// What a file declares about its matrix.
///
/// # Examples
/// See the [module's](super) example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
            return Err(unknown(object, "matrix"));
        }
        let header = Header {
            storage: Storage::of(storage).ok_or_else(|| unknown(storage, Storage::ALLOWED))?,
            field: Field::of(field).ok_or_else(|| unknown(field, Field::ALLOWED))?,
            symmetry: Symmetry::of(symmetry).ok_or_else(|| unknown(symmetry, Symmetry::ALLOWED))?,
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

/// The fault of a banner's word that is none of those that are allowed.
fn unknown(word: &[u8], allowed: &'static str) -> Reason {
    let word = String::from_utf8_lossy(word).into_owned();
    Reason::BannerWord { word, allowed }
}

fn size(word: &[u8]) -> Result<usize, Reason> {
    let text = String::from_utf8_lossy(word);
    text.parse().map_err(|_| Reason::Size(text.into_owned()))
}
