//! Numbered: rows of a matrix on their way, each with its number in a panel: where it comes from, or where
//! it goes to.
//!
//! # Law
//! In storage a row is a column: its elements, then its number, whose bits stand in the place of one more
//! element, since what flows is a tile. Nobody else knows.

use crate::matrix::{Format, Tile};
use crate::scalar::{Scalar, number, set_number};
use dataflow_core::port::Memory;
use std::sync::Arc;

/// Rows with their numbers, as they lie in storage.
#[derive(Clone, Copy)]
pub(super) struct Numbered<'t, T> {
    stored: &'t [T],
    width: usize,
}

/// The elements that a row of so many takes with its number.
pub(super) fn stored_width(width: usize) -> usize {
    width + 1
}

/// Room for `n` rows of `width` elements; what is in it is not specified.
pub(super) fn room<T: Scalar>(width: usize, n: usize, memory: &Arc<dyn Memory>) -> Tile<T> {
    Tile::unspecified(stored_width(width), n, Format::ColumnMajor, memory)
}

/// Where in storage each of some rows begins.
pub(super) fn places(width: usize) -> impl Iterator<Item = usize> {
    (0..).step_by(stored_width(width))
}

/// Writes the numbers of rows in storage, in order.
pub(super) fn set_numbers<T: Scalar>(
    stored: &mut [T],
    width: usize,
    numbers: impl Iterator<Item = u32>,
) {
    let rows = stored.chunks_exact_mut(stored_width(width));
    for (row, number) in rows.zip(numbers) {
        set_number(&mut row[width], number);
    }
}

impl<'t, T: Scalar> Numbered<'t, T> {
    /// What lies in a tile that [`room`] made.
    pub(super) fn of(tile: &'t Tile<T>) -> Self {
        Numbered {
            stored: tile.as_slice(),
            width: tile.rows() - 1,
        }
    }

    /// What lies in storage of another's.
    pub(super) fn stored(stored: &'t [T], width: usize) -> Self {
        Numbered { stored, width }
    }

    pub(super) fn len(&self) -> usize {
        self.stored.len() / stored_width(self.width)
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The rows as they are stored, to be copied with their numbers.
    pub(super) fn whole(&self) -> impl ExactSizeIterator<Item = &'t [T]> + Clone + use<'t, T> {
        self.stored.chunks_exact(stored_width(self.width))
    }

    /// The numbers, in order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + Clone + use<'t, T> {
        let width = self.width;
        self.whole().map(move |row| number(row[width]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::{c32, c64};
    use dataflow_core::port::Heap;

    #[test]
    fn rows_keep_their_numbers_in_every_precision() {
        fn check<T: Scalar>() {
            let heap: Arc<dyn Memory> = Arc::new(Heap);
            let (width, rows) = (3, [7, 0, u32::MAX]);
            let mut tile: Tile<T> = room(width, rows.len(), &heap);
            for (place, number) in places(width).zip(rows) {
                let row = &mut tile.as_mut_slice()[place..][..width];
                row.fill(T::from_real(f64::from(number % 5)));
            }
            set_numbers(tile.as_mut_slice(), width, rows.into_iter());
            let numbered = Numbered::of(&tile);
            assert_eq!((numbered.len(), numbered.width()), (3, width));
            assert!(numbered.numbers().eq(rows));
            for ((row, place), number) in numbered.whole().zip(places(width)).zip(rows) {
                assert_eq!(row[0], T::from_real(f64::from(number % 5)));
                assert_eq!(tile.as_slice()[place..][..width], row[..width]);
            }
        }
        check::<f32>();
        check::<f64>();
        check::<c32>();
        check::<c64>();
    }
}
