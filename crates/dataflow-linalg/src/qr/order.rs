//! Which tile order and inner block size to take: tables of what was fastest.

use crate::scalar::Scalar;

/// Up to this order of the matrix (of its shorter side), so many sub-tiles a side.
const TABLE: [(usize, usize); 3] = [(700, 1), (2500, 2), (6000, 3)];
/// For larger matrices.
const LARGEST: usize = 4;

/// A good tile order for the QR factorisation of an `m × n` matrix: a multiple of
/// [`Scalar::SUB_TILE_ORDER`], growing with the shorter side.
///
/// A function of the shape and the kind of number alone: if it depended on the number of threads,
/// so would the bits of R.
pub fn default_tile_order<T: Scalar>(m: usize, n: usize) -> usize {
    let row = TABLE.iter().find(|(largest, _)| m.min(n) <= *largest);
    T::SUB_TILE_ORDER * row.map_or(LARGEST, |(_, sub_tiles)| *sub_tiles)
}

/// A good inner block size for tiles of order `nb`.
pub fn default_inner_block(nb: usize) -> usize {
    nb.clamp(1, 48)
}
