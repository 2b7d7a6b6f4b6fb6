//! From and to other libraries' matrices: ndarray and faer.
//!
//! # Law
//! Any memory order and any stride is read; what is made is column-major. Entries pass through one
//! tile of scratch at most, so tiles can be filled in parallel from one view
//! ([`TiledMatrix::fill_tile`]).
//! Of a lower matrix only the lower triangle is read, and zeros are handed out above it.
//!
//! # Elsewhere
//! Plain slices: [`TiledMatrix::from_column_major`].

use super::tiled::{no_memory, zero_entries};
use super::{Entries, Layout, TiledMatrix};
use crate::error::{ShapeError, TileError};
use crate::scalar::Scalar;
use faer::{Mat, MatRef};
use ndarray::{Array2, ArrayView2, ShapeBuilder, s};
use std::ops::Range;

/// A view of an ndarray array as a source of entries.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, convert::NdarrayEntries};
/// let array = ndarray::arr2(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// let transposed = NdarrayEntries(array.t());
/// let a = TiledMatrix::from_entries(Layout::general(3, 2, 2)?, &transposed);
/// assert_eq!(a.get(2, 0), Some(3.0));
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NdarrayEntries<'a, T>(pub ArrayView2<'a, T>);

impl<T: Scalar> Entries<T> for NdarrayEntries<'_, T> {
    fn entry(&self, row: usize, col: usize) -> T {
        self.0[(row, col)]
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        if let Some((elements, ld)) = self.as_column_major() {
            return into.copy_from_slice(&elements[col * ld..][..ld][rows]);
        }
        if let Some(elements) = self.0.to_slice() {
            // Row by row: a strided iterator of ndarray's takes twice as long.
            let n = self.0.ncols();
            let entries = elements[rows.start * n..rows.end * n].chunks_exact(n);
            let slots = into.iter_mut().zip(entries);
            return slots.for_each(|(slot, row)| *slot = row[col]);
        }
        let column = self.0.slice(s![rows, col]);
        match column.as_slice() {
            Some(column) => into.copy_from_slice(column),
            None => {
                let slots = into.iter_mut().zip(column);
                slots.for_each(|(slot, entry)| *slot = *entry);
            }
        }
    }

    fn as_column_major(&self) -> Option<(&[T], usize)> {
        // A transposed column-major array is in ndarray's standard order.
        let transposed = self.0.t();
        let elements = transposed.to_slice()?;
        Some((elements, self.0.nrows()))
    }
}

/// A view of a faer matrix as a source of entries.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, convert::FaerEntries};
/// let matrix = faer::mat![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// let transposed = FaerEntries(matrix.transpose());
/// let a = TiledMatrix::from_entries(Layout::general(3, 2, 2)?, &transposed);
/// assert_eq!(a.get(2, 0), Some(3.0));
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FaerEntries<'a, T>(pub MatRef<'a, T>);

impl<T: Scalar> Entries<T> for FaerEntries<'_, T> {
    fn entry(&self, row: usize, col: usize) -> T {
        *self.0.get(row, col)
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        match self.0.col(col).try_as_col_major() {
            Some(column) => into.copy_from_slice(&column.as_slice()[rows]),
            None => {
                for (slot, row) in into.iter_mut().zip(rows) {
                    *slot = self.entry(row, col);
                }
            }
        }
    }
}

impl<T: Scalar> TiledMatrix<T> {
    /// The matrix in an ndarray array of any memory order.
    ///
    /// # Errors
    /// If the array's shape is not the layout's.
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix};
    /// let array = ndarray::arr2(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let a = TiledMatrix::from_ndarray(Layout::general(2, 3, 2)?, array.view())?;
    /// assert_eq!(a.get(1, 2), Some(6.0));
    /// assert_eq!(a.to_ndarray()?, array);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_ndarray(layout: Layout, array: ArrayView2<'_, T>) -> Result<Self, ShapeError> {
        let expected = (layout.rows(), layout.cols());
        ShapeError::check("the array", array.dim(), expected)?;
        Ok(TiledMatrix::from_entries(layout, &NdarrayEntries(array)))
    }

    /// The matrix as a column-major ndarray array; 0 above the diagonal of a lower matrix.
    ///
    /// # Errors
    /// If a stored tile is not at hand.
    ///
    /// # Panics
    /// If there is no memory for the array, or it has no entries and a side longer than 2⁶³ − 1.
    #[track_caller]
    pub fn to_ndarray(&self) -> Result<Array2<T>, TileError> {
        let (rows, cols) = (self.rows(), self.cols());
        match Array2::from_shape_vec((rows, cols).f(), self.to_column_major()?) {
            Ok(array) => Ok(array),
            Err(error) => panic!("no array is {rows} × {cols}: {error}"),
        }
    }

    /// The matrix in a faer view of any stride.
    ///
    /// # Errors
    /// If the view's shape is not the layout's.
    pub fn from_faer(layout: Layout, matrix: MatRef<'_, T>) -> Result<Self, ShapeError> {
        let expected = (layout.rows(), layout.cols());
        ShapeError::check("the matrix", (matrix.nrows(), matrix.ncols()), expected)?;
        Ok(TiledMatrix::from_entries(layout, &FaerEntries(matrix)))
    }

    /// The matrix as a faer matrix; 0 above the diagonal of a lower matrix.
    ///
    /// # Errors
    /// If a stored tile is not at hand.
    ///
    /// # Panics
    /// If there is no memory for the matrix, or it has no entries and a side longer than 2³² − 1: faer counts
    /// columns one by one.
    #[track_caller]
    pub fn to_faer(&self) -> Result<Mat<T>, TileError> {
        self.expect_whole()?;
        let mut matrix = faer_zeros(self.rows(), self.cols());
        let mut strip = Vec::new();
        for j in 0..self.nt() {
            zero_entries(&mut strip, self.rows(), self.tile_cols(j));
            self.write_strip(j, &mut strip, self.rows())?;
            // faer pads its columns, so each is copied by itself.
            for (col, column) in self
                .col_range(j)
                .zip(strip.chunks_exact(self.rows().max(1)))
            {
                matrix.col_as_slice_mut(col).copy_from_slice(column);
            }
        }
        Ok(matrix)
    }
}

/// The zero matrix, as faer's.
#[track_caller]
fn faer_zeros<T: Scalar>(rows: usize, cols: usize) -> Mat<T> {
    let most = u32::MAX;
    if rows.min(cols) == 0 && rows.max(cols) > most as usize {
        panic!(
            "no faer matrix of {rows} × {cols} is made (without entries, sides of at most {most} are)"
        );
    }
    let mut matrix = Mat::new();
    if matrix.try_reserve(rows, cols).is_err() {
        no_memory::<T>(rows, cols);
    }
    matrix.resize_with(rows, cols, |_, _| T::zero());
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::c64;
    use dataflow_core::port::Heap;
    use proptest::prelude::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    fn number(row: usize, col: usize) -> c64 {
        c64::new(row as f64, col as f64)
    }

    fn expect(a: &TiledMatrix<c64>, entry: impl Fn(usize, usize) -> c64) {
        for row in 0..a.rows() {
            for col in 0..a.cols() {
                assert_eq!(a.get(row, col), Some(entry(row, col)), "({row}, {col})");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn an_array_of_any_order_is_read_and_comes_back(
            m in 0usize..20, n in 0usize..20, nb in 1usize..8,
        ) {
            let layout = Layout::general(m, n, nb).unwrap();
            let rows_first = Array2::from_shape_fn((m, n), |(i, j)| number(i, j));
            let columns_first = Array2::from_shape_fn((m, n).f(), |(i, j)| number(i, j));
            for array in [&rows_first, &columns_first] {
                let a = TiledMatrix::from_ndarray(layout, array.view()).unwrap();
                expect(&a, number);
                prop_assert_eq!(&a.to_ndarray().unwrap(), array);
                let reversed = array.slice(s![..;-1, ..;-1]);
                let a = TiledMatrix::from_ndarray(layout, reversed).unwrap();
                expect(&a, |i, j| number(m - 1 - i, n - 1 - j));
                let transposed = Layout::general(n, m, nb).unwrap();
                let a = TiledMatrix::from_ndarray(transposed, array.t()).unwrap();
                expect(&a, |i, j| number(j, i));
                let every_second = array.slice(s![..;2, 1.min(n)..]);
                let (rows, cols) = every_second.dim();
                let thinned = Layout::general(rows, cols, nb).unwrap();
                let a = TiledMatrix::from_ndarray(thinned, every_second).unwrap();
                expect(&a, |i, j| number(2 * i, j + 1));
            }
        }

        #[test]
        fn a_faer_matrix_of_any_stride_is_read_and_comes_back(
            m in 0usize..20, n in 0usize..20, nb in 1usize..8,
        ) {
            let matrix = Mat::from_fn(m, n, number);
            let layout = Layout::general(m, n, nb).unwrap();
            let a = TiledMatrix::from_faer(layout, matrix.as_ref()).unwrap();
            expect(&a, number);
            prop_assert_eq!(&a.to_faer().unwrap(), &matrix);
            let transposed = Layout::general(n, m, nb).unwrap();
            let a = TiledMatrix::from_faer(transposed, matrix.transpose()).unwrap();
            expect(&a, |i, j| number(j, i));
            let layout = Layout::general(m, n, nb).unwrap();
            let reversed = matrix.as_ref().reverse_rows_and_cols();
            let a = TiledMatrix::from_faer(layout, reversed).unwrap();
            expect(&a, |i, j| number(m - 1 - i, n - 1 - j));
        }
    }

    #[test]
    fn a_lower_matrix_comes_back_with_zeros_above_the_diagonal() {
        let array = Array2::from_shape_fn((7, 7), |(i, j)| number(i + 1, j + 1));
        let a = TiledMatrix::from_ndarray(Layout::lower(7, 3).unwrap(), array.view()).unwrap();
        let back = a.to_ndarray().unwrap();
        let faer = a.to_faer().unwrap();
        for ((i, j), entry) in array.indexed_iter() {
            let expected = if i >= j { *entry } else { c64::default() };
            assert_eq!((back[(i, j)], faer[(i, j)]), (expected, expected));
        }
    }

    /// faer counted the columns of no rows one by one, and of no memory it said `AllocError`.
    #[test]
    fn a_matrix_that_faer_cannot_hold_is_refused_and_any_other_without_entries_comes_back() {
        let panics = |rows: usize, cols: usize| {
            let layout = Layout::general(rows, cols, usize::MAX).unwrap();
            let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
            let made = catch_unwind(AssertUnwindSafe(|| a.to_faer().map(drop)));
            made.map_err(|panic| *panic.downcast::<String>().unwrap())
        };
        for (rows, cols) in [(0, 1 << 32), (1 << 32, 0), (usize::MAX, 0)] {
            let told = format!("no faer matrix of {rows} × {cols} is made");
            let text = panics(rows, cols).unwrap_err();
            assert!(text.starts_with(&told), "{text}");
        }
        assert_eq!(panics(0, 1 << 20), Ok(Ok(())));
        assert_eq!(panics(u32::MAX as usize, 0), Ok(Ok(())));
        let none = catch_unwind(|| faer_zeros::<f64>(1 << 40, 1 << 20));
        let text = *none.unwrap_err().downcast::<String>().unwrap();
        let told = "there is no memory for 1099511627776 × 1048576 entries";
        assert!(text.starts_with(told), "{text}");
    }

    #[test]
    fn a_wrong_shape_is_refused_with_both() {
        let array = Array2::from_elem((2, 3), 1.0);
        let refused = TiledMatrix::from_ndarray(Layout::general(3, 2, 1).unwrap(), array.view());
        assert_eq!(
            refused.unwrap_err().to_string(),
            "the array is 2 x 3 (must be 3 x 2)"
        );
        let faer = Mat::<f32>::zeros(2, 3);
        assert!(TiledMatrix::from_faer(Layout::lower(3, 1).unwrap(), faer.as_ref()).is_err());
    }
}
