//! The tiles that suit a factorisation, where the user names none.

use crate::matrix::tile::Format;
use crate::matrix::{Layout, LayoutError};
use crate::scalar::{Scalar, tile_order};

/// How to cut a matrix of order `n` for its Cholesky factorisation on `n_workers` workers, of all ranks
/// together: into tiles that leave each of them something to do, in [`Format::CutColumns`] of an order that
/// depends on `n` alone.
///
/// So L has the same bits on any number of workers. To be distributed over ranks, each of which must name the
/// same number of workers.
///
/// # Errors
/// If there are too many tiles to be numbered.
///
/// # Examples
/// ```
/// use dataflow_linalg::cholesky::default_layout;
/// use dataflow_linalg::matrix::Format;
/// let (few, many) = (default_layout::<f64>(4000, 2)?, default_layout::<f64>(4000, 64)?);
/// assert_eq!((few.nb(), many.nb()), (384, 192));
/// assert_eq!(few.format(), Format::CutColumns { order: 192 });
/// assert_eq!(few.format(), many.format());
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
pub fn default_layout<T: Scalar>(n: usize, n_workers: usize) -> Result<Layout, LayoutError> {
    let order = match n <= FINE {
        true => T::SUB_TILE_ORDER,
        false => 2 * T::SUB_TILE_ORDER,
    };
    let nt = n.div_ceil(2 * order);
    let is_enough = nt.saturating_mul(nt + 1) / 2 >= TILES_OF_A_WORKER.saturating_mul(n_workers);
    let nb = if is_enough { 2 * order } else { order };
    Ok(Layout::lower(n, nb)?.with_format(Format::CutColumns { order }))
}

/// Largest order of a matrix that is worked on in pieces of [`Scalar::SUB_TILE_ORDER`]: larger ones have
/// tiles enough.
const FINE: usize = 2400;

/// From which number of tiles for each worker on larger tiles are not slower: in virtual time on 2 to 64
/// workers, and on two real ones.
const TILES_OF_A_WORKER: usize = 9;

/// Largest order of the matrix, and how many sub-tiles a side of its tiles has.
///
/// Small tiles keep the workers busy at the end, large ones spend less on everything but arithmetic. Of
/// those that are within a fiftieth of the best on two cores, about the smallest, for more workers.
const TABLE: [(usize, usize); 3] = [(700, 1), (2400, 2), (3600, 3)];

/// Sub-tiles a side for matrices beyond the table.
const LARGEST: usize = 4;

/// The tile order to take for a matrix of order `n` of which more is wanted than L, as its inverse, on few
/// workers: a multiple of [`Scalar::SUB_TILE_ORDER`], growing with `n`. For L itself,
/// [`default_layout`] has tiles for many.
///
/// A function of `n` and the kind of number alone: if it depended on the number of threads, so
/// would the bits of the inverse.
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
    fn more_workers_get_smaller_tiles_in_pieces_of_the_same_order() {
        let layout = |n, n_workers| default_layout::<f64>(n, n_workers).unwrap();
        for (n, order) in [(500, 96), (1000, 96), (2400, 96), (2401, 192), (8000, 192)] {
            let tiles = [1, 2, 8, 16, 64, usize::MAX].map(|n_workers| layout(n, n_workers));
            let format = Format::CutColumns { order };
            assert!(tiles.iter().all(|tiles| tiles.format() == format), "{n}");
            assert!(tiles.is_sorted_by_key(|tiles| std::cmp::Reverse(tiles.nb())));
            assert!(tiles.iter().all(|tiles| tiles.nb() % order == 0));
        }
        let orders = |n| [2, 8, 16, 64].map(|n_workers| layout(n, n_workers).nb());
        assert_eq!(orders(500), [96; 4]);
        assert_eq!(orders(1000), [192, 96, 96, 96]);
        assert_eq!(orders(2000), [192, 96, 96, 96]);
        assert_eq!(orders(4000), [384, 192, 192, 192]);
        assert_eq!(orders(8000), [384, 384, 384, 192]);
        assert!(default_layout::<f64>(usize::MAX, 1).is_err());
    }

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
