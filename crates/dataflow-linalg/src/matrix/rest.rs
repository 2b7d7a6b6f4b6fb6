//! Rest: what is left of a tile in the check of a factor, and sums of moduli, both as tiles.
//!
//! # Law
//! What is left lies column-major behind the sums of the whole tile: along columns, then along rows. Once
//! nothing more is subtracted, the sums of what is left take the elements' place. Sums are `f64`, whose bits
//! stand in the place of elements, since what flows is a tile. Nobody else knows.

use super::layout::Layout;
use super::norm::{Extent, Sums};
use super::tile::{Format, Tile};
use crate::scalar::Scalar;
use dataflow_core::data::{Store, Version};
use dataflow_core::port::{Executor, Memory};
use dataflow_core::rank::Rank;
use dataflow_core::space::Flows;
use std::sync::Arc;

/// How many sums there are of a tile or a matrix of this shape.
fn n_sums((rows, cols): (usize, usize)) -> usize {
    rows + cols
}

/// The elements in whose place so many sums stand.
fn room<T>(sums: usize) -> usize {
    (sums * size_of::<f64>()).div_ceil(size_of::<T>())
}

/// Zeros for the sums of a matrix, and for those of what is left of it.
pub(crate) fn zero_sums<T: Scalar>(shape: (usize, usize), memory: &Arc<dyn Memory>) -> Tile<T> {
    Tile::new(room::<T>(2 * n_sums(shape)), 1, Format::ColumnMajor, memory)
}

/// Gives up the room for sums on other ranks than the one that adds them: there may be some under the mere
/// name of a matrix.
pub(crate) fn keep_on_rank_0<T: Scalar>(total: &Store<Tile<T>>, on: &dyn Executor) {
    if on.courier().rank() != Rank(0) {
        drop(total.take(0).map(Version::into_datum));
    }
}

/// A tile of which nothing is subtracted yet, given column-major without gaps.
pub(crate) fn begun<T: Scalar>(
    elements: &[T],
    (rows, cols): (usize, usize),
    extent: Extent,
    memory: &Arc<dyn Memory>,
) -> Tile<T> {
    let room = room::<T>(n_sums((rows, cols)));
    let mut tile = Tile::new(room + elements.len(), 1, Format::ColumnMajor, memory);
    let (sums, rest) = tile.as_mut_slice().split_at_mut(room);
    put(&Sums::of_block(elements, rows, cols, extent), sums);
    rest.copy_from_slice(elements);
    tile
}

/// What is left so far, column-major without gaps.
pub(crate) fn elements_mut<T: Scalar>(rest: &mut Tile<T>, shape: (usize, usize)) -> &mut [T] {
    &mut rest.as_mut_slice()[room::<T>(n_sums(shape))..]
}

/// The sums of the whole tile, and of what is left of it at last.
pub(crate) fn ended<T: Scalar>(
    rest: &Tile<T>,
    (rows, cols): (usize, usize),
    extent: Extent,
    memory: &Arc<dyn Memory>,
) -> Tile<T> {
    let n = n_sums((rows, cols));
    let (whole, elements) = rest.as_slice().split_at(room::<T>(n));
    let mut tile = zero_sums((rows, cols), memory);
    let both: &mut [f64] = bytemuck::cast_slice_mut(tile.as_mut_slice());
    let (of_whole, of_rest) = both.split_at_mut(n);
    of_whole.copy_from_slice(&bytemuck::cast_slice(whole)[..n]);
    put(&Sums::of_block(elements, rows, cols, extent), of_rest);
    tile
}

fn put<T: bytemuck::Pod>(sums: &Sums, to: &mut [T]) {
    let (columns, rows) = bytemuck::cast_slice_mut(to).split_at_mut(sums.columns.len());
    columns.copy_from_slice(&sums.columns);
    rows[..sums.rows.len()].copy_from_slice(&sums.rows);
}

/// Sums along columns and along rows.
pub(crate) struct SumsView<'t> {
    columns: &'t [f64],
    rows: &'t [f64],
}

impl<'t> SumsView<'t> {
    /// Those of a matrix or tile of this shape, and those of what is left of it.
    pub(crate) fn both<T: Scalar>(sums: &'t Tile<T>, (rows, cols): (usize, usize)) -> [Self; 2] {
        let numbers: &[f64] = bytemuck::cast_slice(sums.as_slice());
        let (of_whole, of_rest) = numbers.split_at(n_sums((rows, cols)));
        let view = |numbers: &'t [f64]| {
            let (columns, behind) = numbers.split_at(cols);
            let rows = &behind[..rows];
            SumsView { columns, rows }
        };
        [view(of_whole), view(of_rest)]
    }

    /// The largest sum of a column; NaN if there is one.
    pub(crate) fn largest_column(&self) -> f64 {
        super::check::largest(self.columns)
    }
}

/// Adds the sums of tile (m, n) of a matrix: its total is updated and they are read. The first tile forgets
/// what was added before.
pub(crate) fn sum_up<T: Scalar>(
    flows: &mut Flows<'_, Tile<T>>,
    is_first: bool,
    layout: &Layout,
    (m, n): (usize, usize),
    extent: Extent,
) {
    let [total, part] = flows.slots();
    let total = total.update();
    if is_first {
        bytemuck::fill_zeroes(total.as_mut_slice());
    }
    let shape = (layout.tile_rows(m), layout.tile_cols(n));
    let of_tile = SumsView::both(part.read(), shape);
    let place = (layout.row_range(m).start, layout.col_range(n).start);
    add(
        total,
        (layout.rows(), layout.cols()),
        of_tile,
        place,
        extent,
    );
}

/// Adds the sums of a tile, whose first entry is `(row, col)`, and those of what is left of it.
fn add<T: Scalar>(
    total: &mut Tile<T>,
    all: (usize, usize),
    of_tile: [SumsView<'_>; 2],
    (row, col): (usize, usize),
    extent: Extent,
) {
    let numbers: &mut [f64] = bytemuck::cast_slice_mut(total.as_mut_slice());
    let (of_whole, of_rest) = numbers.split_at_mut(n_sums(all));
    for (to, from) in [of_whole, of_rest].into_iter().zip(of_tile) {
        let to = to.split_at_mut(all.1);
        super::norm::add_sums(to, (from.columns, from.rows), (row, col), extent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::{c32, c64};
    use dataflow_core::port::Heap;

    /// Of each shape, odd and even, in numbers of 4 to 16 bytes.
    #[test]
    fn sums_and_elements_lie_side_by_side_in_any_precision() {
        fn check<T: Scalar>() {
            let memory: Arc<dyn Memory> = Arc::new(Heap);
            for shape in [(1, 1), (2, 3), (3, 2), (4, 4), (1, 6)] {
                let (rows, cols) = shape;
                let elements: Vec<T> = (1..=rows * cols).map(|i| T::from_real(i as f64)).collect();
                let sums = |elements: &[T]| Sums::of_block(elements, rows, cols, Extent::Whole);
                let mut rest = begun(&elements, shape, Extent::Whole, &memory);
                assert_eq!(*elements_mut(&mut rest, shape), elements);
                elements_mut(&mut rest, shape)[0] = T::from_real(-7.0);
                let mut left = elements.clone();
                left[0] = T::from_real(7.0);
                let ended = ended(&rest, shape, Extent::Whole, &memory);
                let (all, place) = ((rows + 2, cols + 1), (2, 1));
                let mut total: Tile<T> = zero_sums(all, &memory);
                for _ in 0..2 {
                    let of_tile = SumsView::both(&ended, shape);
                    add(&mut total, all, of_tile, place, Extent::Whole);
                }
                let expected = [&elements[..], &left].map(|elements| {
                    let mut all = Sums::new(all.0, all.1);
                    for _ in 0..2 {
                        all.add(&sums(elements), place.0, place.1, Extent::Whole);
                    }
                    all
                });
                for (found, expected) in SumsView::both(&total, all).iter().zip(&expected) {
                    assert_eq!(found.columns, expected.columns, "{shape:?}");
                    assert_eq!(found.rows, expected.rows, "{shape:?}");
                }
            }
        }
        check::<f32>();
        check::<f64>();
        check::<c32>();
        check::<c64>();
    }
}
