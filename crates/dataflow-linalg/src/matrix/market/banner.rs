//! What the words of a banner say.

use std::fmt;

/// How entries are listed.
///
/// # Examples
/// See [`Header`](super::Header), which has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Row, column, value; what is not listed is 0.
    Coordinate,
    /// Values only, column by column; of the symmetric kinds the lower triangle.
    Array,
}

/// What the values are.
///
/// # Examples
/// See [`Header`](super::Header), which has one.
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
///
/// # Examples
/// See [`Header`](super::Header), which has one.
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
            /// Its words, for people.
            pub(super) const ALLOWED: &'static str = $allowed;

            /// The variant of a word in any case.
            pub(super) fn of(word: &[u8]) -> Option<Self> {
                $(if word.eq_ignore_ascii_case($word.as_bytes()) {
                    return Some($type::$variant);
                })+
                None
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
