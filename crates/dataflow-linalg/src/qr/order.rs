//! Which tile order and inner block size to take: the best or as good on two workers in a sweep
//! (`benches/HISTORY.md`), and of those as good the smallest, which leaves more to do side by side.

use crate::scalar::{Scalar, tile_order};

/// Up to this order of the matrix (of its shorter side), so many sub-tiles a side.
const TABLE: [(usize, usize); 3] = [(480, 1), (2400, 2), (3600, 3)];
/// For larger matrices.
const LARGEST: usize = 4;

/// A good tile order for the QR factorisation of an `m × n` matrix: a multiple of
/// [`Scalar::SUB_TILE_ORDER`], growing with the shorter side.
///
/// A function of the shape and the kind of number alone: if it depended on the number of threads,
/// so would the bits of R.
pub fn default_tile_order<T: Scalar>(m: usize, n: usize) -> usize {
    tile_order::<T>(&TABLE, LARGEST, m.min(n))
}

/// A good inner block size for tiles of order `nb`.
pub fn default_inner_block(nb: usize) -> usize {
    nb.clamp(1, 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_orders_grow_with_the_shorter_side() {
        let orders: Vec<usize> = (0..10_000)
            .map(|n| default_tile_order::<f64>(20_000, n))
            .collect();
        assert!(orders.is_sorted() && orders.iter().all(|nb| *nb > 0));
        for (n, nb) in [(480, 96), (500, 192), (2400, 192), (2500, 288), (4000, 384)] {
            assert_eq!(
                (orders[n], default_tile_order::<f64>(n, 20_000)),
                (nb, nb),
                "n = {n}"
            );
        }
        assert_eq!([0, 1, 10, 1000].map(default_inner_block), [1, 1, 10, 24]);
    }
}
