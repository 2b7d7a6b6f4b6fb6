//! Factored: a matrix that was factored once, to be solved with as often as there are right-hand
//! sides.
//!
//! # Law
//! A factor owns what it needs and changes nothing of it: threads may share one. Its answers have the
//! bits of the calls in one go ([`Dense`](crate::Dense), [`Tiled`](crate::Tiled)), which are made of
//! the same steps.
//!
//! # A file
//! Each has the factor of an array, that of a matrix in tiles, and what both keep (`KeptCholesky`, `KeptLu`,
//! `KeptQr`); then what calls in one go take of the same steps.
//!
//! # Elsewhere
//! In place, with a backend and a tree of one's choice, watched: [`linalg`](crate::linalg).

mod cholesky;
mod lu;
mod qr;
pub(crate) mod steps;

pub use cholesky::{CholeskyFactor, TiledCholeskyFactor};
pub use lu::{Lu, LuFactor, TiledLuFactor};
pub use qr::{QrFactor, TiledQrFactor};

pub(crate) use cholesky::{
    factor_alone, factor_at_once, inverted_definite, inverted_definite_at_once, solved_definite,
    solved_definite_at_once,
};
pub(crate) use lu::{
    Factors, inverted_at_once, inverted_by_lu, parts_at_once, solved_by_lu, solved_by_lu_at_once,
};
pub(crate) use qr::{least_squares_at_once, qr_at_once};
