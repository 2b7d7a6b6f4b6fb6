//! The tiles that suit a factorisation, where the user names none.

use crate::matrix::tile::Format;
use crate::matrix::{Layout, LayoutError};
use crate::scalar::{Scalar, tile_order};

/// How to cut a matrix of `m` rows and `n` columns for its LU factorisation on `n_workers` workers, of all
/// ranks together: into tiles that leave each of them something to do, in [`Format::CutColumns`] of an order
/// that depends on the shape alone.
///
/// So L, U and P have the same bits on any number of workers, with the products of
/// [`Backend::Auto`](crate::kernel::Backend::Auto) and [`Backend::Faer`](crate::kernel::Backend::Faer): of a
/// row they do not depend on the others. To be distributed over ranks, each of which must name the same number
/// of workers.
///
/// # Errors
/// If there are too many tiles to be numbered.
///
/// # Examples
/// ```
/// use dataflow_linalg::lu::default_layout;
/// use dataflow_linalg::matrix::Format;
/// let (few, many) = (default_layout::<f64>(4000, 4000, 2)?, default_layout::<f64>(4000, 4000, 64)?);
/// assert_eq!((few.nb(), many.nb()), (192, 96));
/// assert_eq!(few.format(), Format::CutColumns { order: 96 });
/// assert_eq!(few.format(), many.format());
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
pub fn default_layout<T: Scalar>(
    m: usize,
    n: usize,
    n_workers: usize,
) -> Result<Layout, LayoutError> {
    let (smaller, sub_tile) = (m.min(n), T::SUB_TILE_ORDER);
    let (order, of_each) = match smaller <= FINE {
        true => (sub_tile, TILES_OF_A_WORKER),
        false => (2 * sub_tile, LARGE_TILES_OF_A_WORKER),
    };
    let [mt, nt] = [m, n].map(|length| length.div_ceil(2 * order));
    let is_enough = mt.saturating_mul(nt) >= of_each.saturating_mul(n_workers);
    let nb = match smaller > SMALL && is_enough {
        true => 2 * order,
        false => order,
    };
    Ok(Layout::general(m, n, nb)?.with_format(Format::CutColumns { order }))
}

/// Largest order of a matrix in tiles of one sub-tile, for any number of workers.
const SMALL: usize = 2500;
/// Largest order of a matrix that is worked on in pieces of [`Scalar::SUB_TILE_ORDER`], of a larger one in pieces
/// of twice that.
const FINE: usize = 4096;

/// From which number of tiles for each worker on those of two pieces a side are not slower than those of one: in
/// virtual time on 2 to 64 workers, and on two real ones (`benches/HISTORY.md`).
const TILES_OF_A_WORKER: usize = 40;
/// The same where pieces are larger.
const LARGE_TILES_OF_A_WORKER: usize = 80;

/// Largest n, and how many sub-tiles a side a tile of such a matrix has: of those that are within a fiftieth
/// of the best on two cores the smallest, which is better by far on more (`benches/HISTORY.md`).
const TABLE: [(usize, usize); 3] = [(SMALL, 1), (FINE, 2), (5000, 3)];
/// Of any larger matrix.
const LARGEST: usize = 4;

/// The tile order for the LU factorisation of a matrix of `m` rows and `n` columns on few workers: a multiple of
/// [`Scalar::SUB_TILE_ORDER`], growing with the smaller of the two. [`default_layout`] has tiles for many.
///
/// A function of the shape and the kind of number alone: if it depended on the number of threads,
/// so would the bits of whatever does not work in pieces.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_workers_get_smaller_tiles_in_pieces_of_one_order() {
        let layout = |n, n_workers| default_layout::<f64>(n, n, n_workers).unwrap();
        let numbers = [1, 2, 4, 8, 16, 32, 64, usize::MAX];
        let orders = [(0, 96), (1, 96), (2500, 96), (2501, 96), (4096, 96)];
        for (n, order) in { orders }.into_iter().chain([(4097, 192), (30_000, 192)]) {
            let tiles = numbers.map(|n_workers| layout(n, n_workers));
            let format = Format::CutColumns { order };
            assert!(tiles.iter().all(|tiles| tiles.format() == format), "{n}");
            assert!(tiles.is_sorted_by_key(|tiles| std::cmp::Reverse(tiles.nb())));
            assert!(tiles.iter().all(|tiles| tiles.nb() % order == 0));
        }
        let orders = |n| [2, 4, 8, 16, 32, 64].map(|n_workers| layout(n, n_workers).nb());
        assert_eq!(orders(2500), [96; 6]);
        assert_eq!(orders(3000), [192, 192, 96, 96, 96, 96]);
        assert_eq!(orders(4000), [192, 192, 192, 96, 96, 96]);
        assert_eq!(orders(5000), [384, 192, 192, 192, 192, 192]);
        assert_eq!(orders(8000), [384, 384, 192, 192, 192, 192]);
        assert!(default_layout::<f64>(usize::MAX, usize::MAX, 1).is_err());
    }
}
