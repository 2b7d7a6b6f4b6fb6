//! The tile order that suits a product, where the user names none.

use crate::scalar::Scalar;

/// The tile order to take for a product of which the longest side is `longest`: a multiple of
/// [`Scalar::SUB_TILE_ORDER`], growing with it.
///
/// A function of the shape and the kind of number alone: if it depended on the number of threads,
/// so would the bits of the product.
///
/// # Examples
/// ```
/// use dataflow_linalg::product::default_tile_order;
/// assert_eq!(default_tile_order::<f64>(100), 96);
/// assert_eq!(default_tile_order::<f64>(4000), 384);
/// ```
pub fn default_tile_order<T: Scalar>(longest: usize) -> usize {
    crate::cholesky::default_tile_order::<T>(longest)
}
