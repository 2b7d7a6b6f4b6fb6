//! The default tile order.

use crate::scalar::{Scalar, tile_order};

/// Largest n, and how many sub-tiles a side a tile of such a matrix has: the best or as good at 1000,
/// 2000 and 4000 in a sweep on two cores, the smallest of such by far on more (`benches/HISTORY.md`).
const TABLE: [(usize, usize); 2] = [(2500, 1), (3500, 3)];
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
/// assert_eq!(default_tile_order::<f64>(4000, 4000), 384);
/// ```
pub fn default_tile_order<T: Scalar>(m: usize, n: usize) -> usize {
    tile_order::<T>(&TABLE, LARGEST, m.min(n))
}
