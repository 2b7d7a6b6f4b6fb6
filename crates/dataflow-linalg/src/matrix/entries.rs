//! Entries: anything that can say what stands at a global row and column.
//!
//! # Law
//! An entry is a function of its global indices, so that every tile order, format and grid sees
//! the same matrix, and tiles can be filled in any order by any number of tasks.

use crate::scalar::Scalar;
use std::ops::Range;

/// A source of matrix entries by global row and column, counted from 0.
///
/// Every closure `Fn(usize, usize) -> T` is one; so are the [generators](super::generate), the
/// views of [`convert`](super::convert), [`ColumnMajor`] slices and [`TiledMatrix`] itself.
///
/// [`TiledMatrix`]: super::TiledMatrix
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::Entries;
/// let hilbert = |row: usize, col: usize| 1.0 / (row + col + 1) as f64;
/// let mut column = [0.0; 2];
/// hilbert.column(1..3, 0, &mut column);
/// assert_eq!(column, [1.0 / 2.0, 1.0 / 3.0]);
/// ```
pub trait Entries<T: Scalar>: Sync {
    /// The entry at `(row, col)`.
    fn entry(&self, row: usize, col: usize) -> T;

    /// Writes the entries of `rows` in column `col` into a slice of the same length.
    ///
    /// Sources that are faster at a run than at single entries override it; the result is the same.
    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        for (slot, row) in into.iter_mut().zip(rows) {
            *slot = self.entry(row, col);
        }
    }

    /// The whole source as a column-major slice with its leading dimension, if it is one: entry
    /// `(row, col)` at `row + col · ld`, and no more rows than `ld`. Spares a copy.
    fn as_column_major(&self) -> Option<(&[T], usize)> {
        None
    }
}

impl<T: Scalar, F: Fn(usize, usize) -> T + Sync> Entries<T> for F {
    fn entry(&self, row: usize, col: usize) -> T {
        self(row, col)
    }
}

/// The slice that a source is, if it is one of so many rows.
///
/// # Panics
/// If its columns are too close to each other for them: below the last row stands another column.
#[track_caller]
pub(crate) fn column_major_of<T: Scalar>(
    entries: &dyn Entries<T>,
    rows: usize,
) -> Option<(&[T], usize)> {
    let (elements, ld) = entries.as_column_major()?;
    expect_rows(rows, ld);
    Some((elements, ld))
}

/// Panics if a column-major slice is asked for rows that it does not have.
#[track_caller]
fn expect_rows(rows: usize, ld: usize) {
    assert!(
        rows <= ld,
        "a column-major slice of leading dimension {ld} has no {rows} rows"
    );
}

/// A column-major slice: entry `(row, col)` at `row + col · ld`. To ask for a row from `ld` on, or for an
/// entry behind the slice, panics.
///
/// # Examples
/// Two columns of two entries each, three apart:
/// ```
/// use dataflow_linalg::matrix::{ColumnMajor, Layout, TiledMatrix};
/// let slice = ColumnMajor { elements: &[1.0, 2.0, f64::NAN, 3.0, 4.0, f64::NAN], ld: 3 };
/// let a = TiledMatrix::from_entries(Layout::general(2, 2, 1)?, &slice);
/// assert_eq!(a.to_column_major()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ColumnMajor<'a, T> {
    /// The elements.
    pub elements: &'a [T],
    /// The leading dimension, at least the number of rows.
    pub ld: usize,
}

impl<T: Scalar> Entries<T> for ColumnMajor<'_, T> {
    fn entry(&self, row: usize, col: usize) -> T {
        expect_rows(row + 1, self.ld);
        self.elements[row + col * self.ld]
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        expect_rows(rows.end, self.ld);
        let start = rows.start + col * self.ld;
        into.copy_from_slice(&self.elements[start..][..rows.len()]);
    }

    fn as_column_major(&self) -> Option<(&[T], usize)> {
        Some((self.elements, self.ld))
    }
}

/// The adjoint of a source: entry `(row, col)` is the conjugate of entry `(col, row)`.
///
/// It is how a matrix of which the *upper* triangle is given is factored, solved with and inverted:
/// the lower triangle of the adjoint is read from it, and the factor U of A = Uᴴ·U is the adjoint of
/// the L that results.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{AdjointEntries, Entries, Layout, TiledMatrix};
/// use dataflow_linalg::{cholesky, kernel::Backend};
/// let upper = |i: usize, j: usize| [[4.0, 2.0], [f64::NAN, 10.0]][i][j]; // below: never read
/// let a = TiledMatrix::from_entries(Layout::lower(2, 1)?, &AdjointEntries(&upper));
/// cholesky::factor(&a, Backend::Auto, &Inline)?;
/// let u = AdjointEntries(&a);
/// assert_eq!([u.entry(0, 0), u.entry(0, 1), u.entry(1, 1)], [2.0, 1.0, 3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AdjointEntries<'a, E: ?Sized>(pub &'a E);

impl<T: Scalar, E: Entries<T> + ?Sized> Entries<T> for AdjointEntries<'_, E> {
    fn entry(&self, row: usize, col: usize) -> T {
        self.0.entry(col, row).conj()
    }
}
