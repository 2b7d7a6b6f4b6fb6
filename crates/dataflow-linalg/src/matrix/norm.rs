//! Norms, and where a matrix stops being finite.
//!
//! # Law
//! Sums run in one fixed order: within a tile column by column, then tile by tile in column order.
//! So a norm depends on the matrix and its tile order, never on grid, threads or schedule.
//! A NaN entry makes the norm NaN, but a complex one with an infinite part counts as infinite, whatever
//! its other part. A lower matrix is measured as the Hermitian one it stands for;
//! imaginary parts on its diagonal are not read.
//!
//! # Elsewhere
//! Whether a factor or a solution is right: [`check`](super::check).

mod across;

pub use across::norm;
pub(crate) use across::{Measure, entries, infinity_norm, peaks};

use super::layout::Structure;
use super::tiled::{column_major, zeros};
use super::{Tile, TiledMatrix};
use crate::error::{NotFinite, TileError};
use crate::scalar::Scalar;
use pulp::{Arch, NullaryFnOnce};

/// Which norm.
///
/// # Examples
/// See [`norm`](norm()#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Norm {
    /// Largest sum of moduli in a column.
    One,
    /// Largest sum of moduli in a row.
    Infinity,
    /// Square root of the sum of squared moduli, without overflow on the way.
    Frobenius,
    /// Largest modulus.
    Max,
}

/// Which entries of a tile count.
///
/// # Examples
/// See [`Sums`](Sums#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of them.
    Whole,
    /// A square tile on the diagonal of a lower matrix: its lower triangle.
    Triangle,
    /// A tile below the diagonal of a lower matrix: all, and their mirrors.
    Mirrored,
}

impl Extent {
    /// The part that tile `(i, j)` of a matrix of this structure counts with.
    pub fn of(structure: Structure, i: usize, j: usize) -> Self {
        match structure {
            Structure::General => Extent::Whole,
            Structure::Lower if i == j => Extent::Triangle,
            Structure::Lower => Extent::Mirrored,
        }
    }
}

/// Sums of moduli along the columns and the rows of a tile or a matrix.
///
/// # Examples
/// Of a tile on the diagonal of a lower matrix the lower triangle counts, and its mirror:
/// ```
/// use dataflow_linalg::matrix::norm::{Extent, tile_sums};
/// use dataflow_linalg::matrix::tile::Tile;
/// let tile = Tile::from_rows([[1.0, 9.0], [2.0, -4.0]]);
/// let (half, whole) = (tile_sums(&tile, Extent::Triangle), tile_sums(&tile, Extent::Whole));
/// assert_eq!((half.columns, half.rows), (vec![3.0, 6.0], vec![3.0, 6.0]));
/// assert_eq!((whole.columns, whole.rows), (vec![3.0, 13.0], vec![10.0, 6.0]));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sums {
    /// One per column.
    pub columns: Vec<f64>,
    /// One per row.
    pub rows: Vec<f64>,
}

impl Sums {
    /// Zeros for `rows × cols`.
    ///
    /// # Panics
    /// If there is no memory for them.
    pub fn new(rows: usize, cols: usize) -> Self {
        Sums {
            columns: zeros(cols, 1),
            rows: zeros(rows, 1),
        }
    }

    /// The sums of a column-major block without gaps.
    pub(crate) fn of_block<T: Scalar>(
        block: &[T],
        rows: usize,
        cols: usize,
        extent: Extent,
    ) -> Self {
        let mut sums = Sums::new(rows, cols);
        for (j, column) in block.chunks_exact(rows.max(1)).enumerate().take(cols) {
            let first = match extent {
                Extent::Triangle => j,
                _ => 0,
            };
            let mut sum = 0.0;
            for (i, element) in column.iter().enumerate().skip(first) {
                let size = modulus(*element, extent, i == j);
                sum += size;
                // The diagonal of a triangle is its own mirror and counts once.
                if extent != Extent::Triangle || i != j {
                    sums.rows[i] += size;
                }
            }
            sums.columns[j] = sum;
        }
        if extent == Extent::Triangle {
            for (column, row) in sums.columns.iter_mut().zip(&mut sums.rows) {
                *column += *row;
                *row = *column;
            }
        }
        sums
    }

    /// Adds the sums of a tile whose first entry is `(row, col)`.
    pub fn add(&mut self, tile: &Sums, row: usize, col: usize, extent: Extent) {
        let to = (&mut self.columns[..], &mut self.rows[..]);
        add_sums(to, (&tile.columns, &tile.rows), (row, col), extent);
    }
}

/// Adds the sums along columns and rows of a tile whose first entry is `(row, col)`.
pub(crate) fn add_sums(
    to: (&mut [f64], &mut [f64]),
    tile: (&[f64], &[f64]),
    (row, col): (usize, usize),
    extent: Extent,
) {
    add(&mut to.0[col..], tile.0);
    add(&mut to.1[row..], tile.1);
    if extent == Extent::Mirrored {
        add(&mut to.0[row..], tile.1);
        add(&mut to.1[col..], tile.0);
    }
}

fn add(to: &mut [f64], from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

/// Sums of moduli of one tile: the piece of work that may run as a task.
pub fn tile_sums<T: Scalar>(tile: &Tile<T>, extent: Extent) -> Sums {
    let mut buffer = Vec::new();
    let block = column_major(tile, &mut buffer);
    Sums::of_block(block, tile.rows(), tile.cols(), extent)
}

/// The power of two below the largest modulus: dividing by it is exact. `None` if the norm is the
/// largest modulus itself: zero, infinite or NaN.
fn scale_of(largest: f64) -> Option<f64> {
    let exponent = f64::INFINITY.to_bits() & largest.to_bits();
    let scale = f64::from_bits(exponent).max(f64::MIN_POSITIVE);
    (largest != 0.0 && largest.is_finite()).then_some(scale)
}

/// The first entry, in column order, that is NaN or infinite among those a factorisation reads.
///
/// # Errors
/// If a stored tile is not at hand.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, norm::first_not_finite};
/// let a = TiledMatrix::from_fn(Layout::lower(4, 2)?, |i, j| [1.0, f64::NAN][(i * j == 3) as usize]);
/// let found = first_not_finite(&a)?.unwrap();
/// assert_eq!((found.row, found.col), (3, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn first_not_finite<T: Scalar>(a: &TiledMatrix<T>) -> Result<Option<NotFinite>, TileError> {
    for j in 0..a.nt() {
        let mut first: Option<NotFinite> = None;
        for i in (0..a.mt()).filter(|i| a.stores(*i, j)) {
            let (row, col) = (a.row_range(i).start, a.col_range(j).start);
            let extent = Extent::of(a.structure(), i, j);
            let tile = a.tile_at(i, j)?;
            let found = tile_first_not_finite(&tile, extent).map(|found| NotFinite {
                row: found.row + row,
                col: found.col + col,
                ..found
            });
            // Tiles come from top to bottom, so an equal column is further down.
            if let Some(found) = found
                && first.is_none_or(|first| found.col < first.col)
            {
                first = Some(found);
            }
        }
        if first.is_some() {
            return Ok(first);
        }
    }
    Ok(None)
}

/// The first entry of one tile that is NaN or infinite, its indices counted within the tile.
pub fn tile_first_not_finite<T: Scalar>(tile: &Tile<T>, extent: Extent) -> Option<NotFinite> {
    let mut buffer = Vec::new();
    let block = column_major(tile, &mut buffer);
    if all_finite(block) {
        return None;
    }
    let columns = block.chunks_exact(tile.rows().max(1)).enumerate();
    columns.take(tile.cols()).find_map(|(col, column)| {
        let first = match extent {
            Extent::Triangle => col,
            _ => 0,
        };
        let row = (first..column.len()).find(|row| {
            let im_counts = extent != Extent::Triangle || *row != col;
            let element = column[*row];
            !element.re().is_finite() || (im_counts && !element.im().is_finite())
        })?;
        let (re, im) = (column[row].re(), column[row].im());
        Some(NotFinite { row, col, re, im })
    })
}

/// Whether all numbers are finite: what is mostly so, on vectors as wide as the machine has.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::norm::all_finite;
/// assert!(all_finite(&[1.0, -2.0]) && !all_finite(&[1.0, f64::NAN]));
/// ```
pub fn all_finite<T: Scalar>(numbers: &[T]) -> bool {
    Arch::new().dispatch(AllFinite(numbers))
}

struct AllFinite<'a, T>(&'a [T]);

impl<T: Scalar> NullaryFnOnce for AllFinite<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        self.0.iter().fold(true, |all, x| all & x.is_finite())
    }
}

/// Folds the moduli of the entries of a tile that count, each with the number of its occurrences.
fn of_tile<T: Scalar>(
    tile: &Tile<T>,
    extent: Extent,
    start: f64,
    fold: impl Fn(f64, f64, f64) -> f64,
) -> f64 {
    let mut buffer = Vec::new();
    let block = column_major(tile, &mut buffer);
    let columns = block.chunks_exact(tile.rows().max(1)).enumerate();
    let mut all = start;
    for (y, column) in columns.take(tile.cols()) {
        let first = match extent {
            Extent::Triangle => y,
            _ => 0,
        };
        for (x, element) in column.iter().enumerate().skip(first) {
            let times = match extent {
                Extent::Whole => 1.0,
                Extent::Triangle if x == y => 1.0,
                _ => 2.0,
            };
            all = fold(all, modulus(*element, extent, x == y), times);
        }
    }
    all
}

/// |x|; on the diagonal of a triangle |re x|.
#[inline]
fn modulus<T: Scalar>(x: T, extent: Extent, on_diagonal: bool) -> f64 {
    match T::IS_COMPLEX && !(extent == Extent::Triangle && on_diagonal) {
        true => x.modulus(),
        false => x.re().abs(),
    }
}

/// The larger of two sizes; NaN if one is.
#[inline]
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    match b > a || b.is_nan() {
        true => b,
        false => a,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate::Random;
    use crate::matrix::{Entries, Format, Layout};
    use crate::scalar::{c32, c64};
    use dataflow_core::port::Inline;
    use proptest::prelude::*;

    /// By the definitions, from the full matrix.
    fn by_definition<T: Scalar>(a: &TiledMatrix<T>) -> [f64; 4] {
        let (m, n) = (a.rows(), a.cols());
        let hermitian = a.structure() == Structure::Lower;
        let size = |i, j| {
            let entry = a.get(i, j).unwrap();
            if hermitian && i == j {
                entry.re().abs()
            } else {
                entry.modulus()
            }
        };
        let column = |j| (0..m).map(|i| size(i, j)).sum::<f64>();
        let row = |i| (0..n).map(|j| size(i, j)).sum::<f64>();
        let all = || (0..n).flat_map(|j| (0..m).map(move |i| (i, j)));
        [
            (0..n).map(column).fold(0.0, f64::max),
            (0..m).map(row).fold(0.0, f64::max),
            all().map(|(i, j)| size(i, j).powi(2)).sum::<f64>().sqrt(),
            all().map(|(i, j)| size(i, j)).fold(0.0, f64::max),
        ]
    }

    const NORMS: [Norm; 4] = [Norm::One, Norm::Infinity, Norm::Frobenius, Norm::Max];

    fn check<T: Scalar>(layout: Layout) {
        // The last rows weigh most, so that of a lower matrix the mirrored half decides.
        let entry = |i: usize, j: usize| {
            let random: T = Random::new(6).entry(i, j);
            random * T::from_real((1 + i) as f64)
        };
        let a = TiledMatrix::from_fn(layout, entry);
        for (which, expected) in NORMS.into_iter().zip(by_definition(&a)) {
            let found = norm(&a, which, &Inline).unwrap();
            assert!(
                (found - expected).abs() <= 1e-13 * expected,
                "{which:?} of {a:?}: {found}, expected {expected}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn norms_are_those_of_the_definitions(
            m in 0usize..20, n in 0usize..20, nb in 1usize..8, sub_tiled: bool,
        ) {
            let format = match sub_tiled {
                true => Format::SubTiled { order: 2 },
                false => Format::ColumnMajor,
            };
            for layout in [Layout::general(m, n, nb), Layout::lower(n, nb)] {
                let layout = layout.unwrap().with_format(format);
                check::<f64>(layout);
                check::<c64>(layout);
                check::<f32>(layout);
                check::<c32>(layout);
            }
        }

        #[test]
        fn the_first_entry_that_is_not_finite_is_found_in_column_order(
            n in 1usize..20, nb in 1usize..8,
            marks in proptest::collection::vec((0usize..20, 0usize..20), 0..4), lower: bool,
        ) {
            let layout = match lower {
                true => Layout::lower(n, nb),
                false => Layout::general(n, n, nb),
            };
            let a = TiledMatrix::from_fn(layout.unwrap(), |i, j| match marks.contains(&(i, j)) {
                true => c64::new(1.0, f64::NEG_INFINITY),
                false => c64::new(1.0, 2.0),
            });
            // The imaginary part of a diagonal entry of a lower matrix is not read.
            let read = |(i, j): &(usize, usize)| *i < n && *j < n && (!lower || i > j);
            let expected = marks.iter().copied().filter(read).min_by_key(|(i, j)| (*j, *i));
            let found = first_not_finite(&a).unwrap().map(|found| (found.row, found.col));
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn nan_and_infinity_come_through_wherever_they_stand() {
        for position in 0..9 {
            for (bad, is_bad) in [
                (f64::NAN, f64::is_nan as fn(f64) -> bool),
                (f64::NEG_INFINITY, |x| x == f64::INFINITY),
            ] {
                let a = TiledMatrix::from_fn(Layout::general(3, 3, 2).unwrap(), |i, j| {
                    if i + 3 * j == position { bad } else { 1e9 }
                });
                for which in NORMS {
                    let found = norm(&a, which, &Inline).unwrap();
                    assert!(is_bad(found), "{which:?} {bad} at {position}: {found}");
                }
            }
        }
    }

    #[test]
    fn an_infinite_part_counts_as_infinite_beside_a_nan() {
        for (re, im) in [(f64::INFINITY, f64::NAN), (f64::NAN, f64::NEG_INFINITY)] {
            let a = TiledMatrix::from_fn(Layout::general(3, 3, 2).unwrap(), |i, j| match (i, j) {
                (2, 1) => c64::new(re, im),
                _ => c64::new(1.0, 0.0),
            });
            for which in NORMS {
                assert_eq!(
                    norm(&a, which, &Inline).unwrap(),
                    f64::INFINITY,
                    "{which:?}"
                );
            }
        }
    }

    #[test]
    fn the_frobenius_norm_neither_overflows_nor_vanishes() {
        for size in [1e300, 1e-300, f64::MIN_POSITIVE / 8.0, f64::MAX / 4.0] {
            let a = TiledMatrix::from_fn(Layout::general(2, 2, 1).unwrap(), |_, _| size);
            assert_eq!(norm(&a, Norm::Frobenius, &Inline).unwrap(), 2.0 * size);
        }
    }

    #[test]
    fn what_lies_above_the_diagonal_of_a_lower_matrix_does_not_count() {
        let mut a = TiledMatrix::from_fn(Layout::lower(3, 3).unwrap(), |_, _| 1.0);
        a.store_mut()
            .update(0, |tile| tile.set(0, 2, f64::NAN))
            .unwrap();
        assert_eq!(norm(&a, Norm::One, &Inline).unwrap(), 3.0);
        assert_eq!(norm(&a, Norm::Max, &Inline).unwrap(), 1.0);
        assert_eq!(first_not_finite(&a).unwrap(), None);
    }

    #[test]
    fn a_missing_tile_is_an_error_not_a_zero() {
        let a = TiledMatrix::<f64>::zeros(Layout::lower(4, 2).unwrap());
        let _held = a.store().take(1);
        for which in NORMS {
            let absent = TileError::Absent { i: 1, j: 0 }.to_string();
            assert_eq!(norm(&a, which, &Inline).unwrap_err().message(), absent);
        }
    }

    /// Nothing of it is stored, but its sums took 8 bytes for each row and each column.
    #[test]
    fn a_matrix_without_entries_has_norm_0_and_no_sums_however_long_it_is() {
        for (rows, cols) in [(1 << 60, 0), (0, 1 << 60)] {
            let layout = Layout::general(rows, cols, 1 << 40).unwrap();
            let a = TiledMatrix::<f64>::zeros(layout);
            for which in NORMS {
                assert_eq!(norm(&a, which, &Inline).unwrap(), 0.0);
            }
        }
    }

    #[test]
    fn the_place_is_named_with_the_value() {
        let a = TiledMatrix::from_fn(Layout::general(2, 2, 1).unwrap(), |i, _| match i {
            1 => f64::INFINITY,
            _ => 0.0,
        });
        let found = first_not_finite(&a).unwrap().unwrap();
        assert_eq!(
            found.to_string(),
            "entry in row 1, column 0 (from 0) is inf (must be finite)"
        );
    }
}
