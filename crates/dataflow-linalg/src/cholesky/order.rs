//! The tile order that suits a factorisation, where the user names none.

use crate::scalar::{Scalar, tile_order};

/// Largest order of the matrix, and how many sub-tiles a side of its tiles has.
///
/// Small tiles keep the workers busy at the end, large ones spend less on everything but arithmetic. Of
/// those that are within a fiftieth of the best on two cores, about the smallest, for more workers.
const TABLE: [(usize, usize); 3] = [(700, 1), (2400, 2), (3600, 3)];

/// Sub-tiles a side for matrices beyond the table.
const LARGEST: usize = 4;

/// The tile order to take for the Cholesky factorisation of a matrix of order `n`: a multiple of
/// [`Scalar::SUB_TILE_ORDER`], growing with `n`.
///
/// A function of `n` and the kind of number alone: if it depended on the number of threads, so
/// would the bits of the factor.
///
/// # Examples
/// ```
/// use dataflow_linalg::cholesky::default_tile_order;
/// assert_eq!(default_tile_order::<f64>(500), 96);
/// assert_eq!(default_tile_order::<f64>(4000), 384);
/// ```
pub fn default_tile_order<T: Scalar>(n: usize) -> usize {
    tile_order::<T>(&TABLE, LARGEST, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_order_grows_with_the_matrix_by_whole_sub_tiles() {
        let orders: Vec<usize> = (0..10_000).map(default_tile_order::<f64>).collect();
        assert!(orders.is_sorted());
        assert!(
            orders
                .iter()
                .all(|nb| *nb > 0 && nb % f64::SUB_TILE_ORDER == 0)
        );
        for (n, nb) in [
            (500, 96),
            (1000, 192),
            (2000, 192),
            (3000, 288),
            (4000, 384),
            (8000, 384),
        ] {
            assert_eq!(orders[n], nb, "n = {n}");
        }
    }
}
