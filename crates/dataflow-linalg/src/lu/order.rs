//! The default tile order.

use crate::scalar::{Scalar, tile_order};

/// Largest n, and how many sub-tiles a side a tile of such a matrix has: of those that are within a fiftieth
/// of the best on two cores the smallest, which is better by far on more (`benches/HISTORY.md`).
const TABLE: [(usize, usize); 3] = [(2500, 1), (4096, 2), (5000, 3)];
/// Of any larger matrix.
const LARGEST: usize = 4;

/// The tile order for the LU factorisation of a matrix of `m` rows and `n` columns: a multiple of
/// [`Scalar::SUB_TILE_ORDER`], growing with the smaller of the two.
///
/// A function of the shape and the kind of number alone: if it depended on the number of threads,
/// so would the bits of the factors.
///
/// # Examples
/// ```
/// use dataflow_linalg::lu::default_tile_order;
/// assert_eq!(default_tile_order::<f64>(500, 500), 96);
/// assert_eq!(default_tile_order::<f64>(4000, 4000), 192);
/// ```
pub fn default_tile_order<T: Scalar>(m: usize, n: usize) -> usize {
    tile_order::<T>(&TABLE, LARGEST, m.min(n))
}
