//! The tile order that suits a product, where the user names none.

use crate::scalar::Scalar;

/// The tile order to take for a product of which the longest side is `longest`: about a third more
/// than for a factorisation, so that the last tiles are not much smaller than the others.
///
/// A function of the shape and the kind of number alone: if it depended on the number of threads,
/// so would the bits of the product.
///
/// # Examples
/// ```
/// use dataflow_linalg::product::default_tile_order;
/// assert_eq!(default_tile_order::<f64>(100), 104);
/// assert_eq!(default_tile_order::<f64>(4000), 504);
/// ```
pub fn default_tile_order<T: Scalar>(longest: usize) -> usize {
    let largest = crate::cholesky::default_tile_order::<T>(longest) * 4 / 3;
    let pieces = longest.div_ceil(largest).max(1);
    longest.div_ceil(pieces).next_multiple_of(8).max(8)
}
