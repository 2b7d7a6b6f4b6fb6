//! Pivots: which rows were swapped, and what follows from it.
//!
//! # Law
//! Step k swaps row `i` of its panel with row `pivots[i] ≥ i`, for i = 0, 1, …; both are counted
//! from the panel's first row. Rows travel as numbers of 32 bits in the storage of a tile, so that
//! everything that flows in a factorisation is a tile.

use crate::error::LinalgError;
use crate::matrix::digest::Digest;
use crate::matrix::{Format, Layout, Structure, Tile, TiledMatrix, expect_numbered};
use crate::scalar::Scalar;
use dataflow_core::data::{Store, Version};
use dataflow_core::port::Memory;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The row swaps of a factorisation, each step's on the rank that owns its diagonal tile.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::lu::{Pivots, factor};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// let a = TiledMatrix::from_fn(Layout::general(3, 3, 2)?, |i, j| (i == 2 - j) as u8 as f64);
/// let pivots = Pivots::new(&a);
/// factor(&a, &pivots, Backend::Auto, &Inline)?;
/// assert_eq!(pivots.rows().collect::<Vec<_>>(), [(0, 2), (1, 1), (2, 2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pivots<T: Scalar> {
    layout: Layout,
    store: Store<Tile<T>>,
}

impl<T: Scalar> fmt::Debug for Pivots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pivots")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl<T: Scalar> Pivots<T> {
    /// Room for the row swaps of the factorisation of `a`.
    pub fn new(a: &TiledMatrix<T>) -> Self {
        Pivots {
            layout: *a.layout(),
            store: Store::empty("pivots", a.mt().min(a.nt())),
        }
    }

    /// The row swaps of factors that others made: `rows[i]`, counted from 0, is the row that row i was
    /// swapped with, in order; of each rank the same. With them LAPACK's factors are solved with here.
    ///
    /// # Errors
    /// If they are not as many as rows or columns of `a`, or a row is swapped with one above it or
    /// below the matrix; if there are more than 2³² − 1 rows.
    pub fn of_rows(a: &TiledMatrix<T>, rows: &[usize]) -> Result<Self, LinalgError> {
        let pivots = Pivots::new(a);
        pivots.expect_of(a)?;
        let wrong = rows.iter().enumerate();
        let wrong = wrong.map(|(i, row)| (i, *row));
        let wrong = { wrong }.find(|(i, row)| !(*i..a.rows()).contains(row));
        if rows.len() != a.rows().min(a.cols()) || wrong.is_some() {
            return Err(LinalgError::Shape(format!(
                "{} row swaps do not fit a {} x {} matrix{}{}",
                rows.len(),
                a.rows(),
                a.cols(),
                a.label(),
                wrong.map_or(String::new(), |(i, row)| format!(
                    ": row {i} with row {row}"
                ))
            )));
        }
        let here = (0..pivots.store.len()).filter(|&k| a.slot(k, k).is_some());
        for k in here {
            let first = a.row_range(k).start;
            let last = a.col_range(k).end.min(rows.len());
            let below = rows[first..last].iter().map(|row| (row - first) as u32);
            let step: Vec<u32> = below.collect();
            let step = Version::new(Swaps::pack(&step, a.memory()));
            if pivots.store.put(k, step).is_none() {
                return Err(LinalgError::Shape(format!(
                    "no room for the swaps of step {k}"
                )));
            }
        }
        Ok(pivots)
    }

    /// LAPACK's IPIV, counted from 0: the rows and the rows that they were swapped with, in order;
    /// of this rank's steps.
    pub fn rows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.store.len()).flat_map(|k| {
            let first = self.layout.row_range(k).start;
            let step = self.store.get(k);
            let pivots = step.map(|step| Swaps::of(&step).pivots.to_vec());
            let rows = pivots.into_iter().flatten().enumerate();
            rows.map(move |(i, pivot)| (first + i, first + pivot as usize))
        })
    }

    /// The digest of this rank's pivots, as entries of column −1 of the matrix.
    pub fn digest(&self) -> Digest {
        let entry = |(row, pivot)| Digest::of_count::<T>(row as u64, u64::MAX, pivot as u64);
        self.rows().map(entry).sum()
    }

    /// Refuses a matrix of another shape, cut or distribution, or of more rows than have numbers.
    pub(crate) fn expect_of(&self, a: &TiledMatrix<T>) -> Result<(), LinalgError> {
        if a.cols() > 0 {
            expect_numbered("rows", a.rows())?;
        }
        expect_same_layout("pivots", &self.layout, a)
    }

    /// Refuses pivots of which no factorisation has made those of each step; all are this rank's.
    pub(super) fn expect_filled(&self) -> Result<(), LinalgError> {
        let mut steps = 0..self.store.len();
        match steps.find(|&k| self.store.get(k).is_none()) {
            None => Ok(()),
            Some(k) => Err(LinalgError::Shape(format!(
                "the row swaps of step {k} are not there (factor the matrix first)"
            ))),
        }
    }

    /// A slot for each step.
    pub(super) fn store(&self) -> &Store<Tile<T>> {
        &self.store
    }
}

/// The order of so many rows after swaps, one after the other: row `i` is then which one.
///
/// # Errors
/// If a row is swapped that is none of them; if there is no memory for them: of a matrix without columns they
/// may be more than it holds.
///
/// # Examples
/// ```
/// use dataflow_linalg::lu::permutation;
/// assert_eq!(permutation(3, [(0, 2), (1, 2)])?, [2, 0, 1]);
/// assert!(permutation(3, [(1, 3)]).is_err() && permutation(1 << 60, []).is_err());
/// # Ok::<(), dataflow_linalg::LinalgError>(())
/// ```
pub fn permutation(
    m: usize,
    swaps: impl IntoIterator<Item = (usize, usize)>,
) -> Result<Vec<usize>, LinalgError> {
    let mut rows = Vec::new();
    rows.try_reserve_exact(m).map_err(|_| {
        let text = format!("an order of {m} rows does not fit in memory (it takes 8 bytes a row)");
        LinalgError::Shape(text)
    })?;
    rows.extend(0..m);
    for (row, pivot) in swaps {
        if row.max(pivot) >= m {
            return Err(LinalgError::Shape(format!(
                "row {row} is swapped with row {pivot} of {m}, counted from 0 (both must be below {m})"
            )));
        }
        rows.swap(row, pivot);
    }
    Ok(rows)
}

/// Refuses a matrix of another shape, cut or distribution than `what` belongs to.
pub(super) fn expect_same_layout<T: Scalar>(
    what: &str,
    own: &Layout,
    a: &TiledMatrix<T>,
) -> Result<(), LinalgError> {
    if own == a.layout() {
        return Ok(());
    }
    let text = format!(
        "{what} of a {} x {} matrix do not fit one{} of {} x {}, or it is cut or spread otherwise",
        own.rows(),
        own.cols(),
        a.label(),
        a.rows(),
        a.cols()
    );
    Err(LinalgError::Shape(text))
}

/// Refuses a matrix of which only a triangle is stored.
pub(super) fn expect_general<T: Scalar>(a: &TiledMatrix<T>) -> Result<(), LinalgError> {
    if a.structure() == Structure::General {
        return Ok(());
    }
    let text = format!(
        "an LU factorisation takes a matrix stored as General, this one{} is {:?}, {} x {}",
        a.label(),
        a.structure(),
        a.rows(),
        a.cols()
    );
    Err(LinalgError::Shape(text))
}

/// A tile that holds numbers instead of elements; zeros may follow them.
pub(super) fn of_words<T: Scalar>(words: &[u32], memory: &Arc<dyn Memory>) -> Tile<T> {
    let elements = size_of_val(words).div_ceil(size_of::<T>());
    let mut tile = Tile::new(elements, 1, Format::ColumnMajor, memory);
    bytemuck::cast_slice_mut(tile.as_mut_slice())[..words.len()].copy_from_slice(words);
    tile
}

/// The numbers in a tile.
pub(super) fn words<T: Scalar>(tile: &Tile<T>) -> &[u32] {
    bytemuck::cast_slice(tile.as_slice())
}

/// Bytes of so many numbers in a tile of elements.
pub(super) fn words_bytes<T: Scalar>(words: usize) -> u64 {
    (words * size_of::<u32>()).next_multiple_of(size_of::<T>()) as u64
}

/// What the swaps of one step come to, for columns that they have not reached yet.
///
/// A row below the first `pivots.len()` that is swapped at all ends up as one of these; those that
/// leave it for the top are as many.
pub(super) struct Swaps<'a> {
    /// The swaps, one after the other.
    pub(super) pivots: &'a [u32],
    /// The row that ends at the top's row `i`.
    pub(super) sources: &'a [u32],
    /// The rows below the top that are swapped, ascending.
    pub(super) touched: &'a [u32],
    /// The row of the top that ends there.
    pub(super) fillers: &'a [u32],
}

impl<'a> Swaps<'a> {
    /// Works out what the swaps come to.
    pub(super) fn pack<T: Scalar>(pivots: &[u32], memory: &Arc<dyn Memory>) -> Tile<T> {
        of_words(&Self::worked_out(pivots), memory)
    }

    fn worked_out(pivots: &[u32]) -> Vec<u32> {
        let height = pivots.len() as u32;
        let mut top: Vec<u32> = (0..height).collect();
        let mut below = BTreeMap::new();
        for (i, &pivot) in pivots.iter().enumerate() {
            if pivot < height {
                top.swap(i, pivot as usize);
            } else {
                std::mem::swap(below.entry(pivot).or_insert(pivot), &mut top[i]);
            }
        }
        let counts = [height, below.len() as u32];
        let lists = [&counts[..], pivots, &top].concat();
        let words = lists.into_iter().chain(below.keys().copied());
        words.chain(below.values().copied()).collect()
    }

    /// What [`pack`](Self::pack) has written.
    pub(super) fn of<T: Scalar>(tile: &'a Tile<T>) -> Self {
        let words = words(tile);
        let (height, n) = (words[0] as usize, words[1] as usize);
        let (pivots, words) = words[2..].split_at(height);
        let (sources, words) = words.split_at(height);
        let (touched, words) = words.split_at(n);
        Swaps {
            pivots,
            sources,
            touched,
            fillers: &words[..n],
        }
    }
}

/// The order of the rows from a step on, after its swaps and all later ones: row `i` of the result
/// is row `order[i]`, both counted from the step's first row.
///
/// - `pivots`: of the step
/// - `later`: the order from the next step on; nothing after the last
/// - `rows`: how many there are
pub(super) fn order(pivots: &[u32], later: Option<&[u32]>, rows: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    for (i, &pivot) in pivots.iter().enumerate() {
        order.swap(i, pivot as usize);
    }
    if let Some(later) = later {
        let height = pivots.len();
        let swapped = order.split_off(height);
        let rest = later[..swapped.len()].iter();
        order.extend(rest.map(|&row| swapped[row as usize]));
    }
    order
}

/// The swaps that bring these rows to the top, in this order, one after the other.
pub(super) fn raising(rows: &[u32]) -> Vec<u32> {
    // Where a row is that was moved, and which row is at a place.
    let (mut places, mut held) = (BTreeMap::new(), BTreeMap::new());
    let swap = |(i, &row)| {
        let place = places.get(&row).copied().unwrap_or(row);
        let here = held.get(&i).copied().unwrap_or(i);
        places.insert(here, place);
        held.insert(place, here);
        place
    };
    (0..).zip(rows).map(swap).collect()
}

/// The order that undoes another.
pub(super) fn inverse(order: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; order.len()];
    for (i, &row) in (0..).zip(order) {
        inverse[row as usize] = i;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::port::Heap;
    use proptest::prelude::*;

    /// Swaps as LAPACK does them.
    fn swapped(rows: usize, steps: &[(usize, Vec<u32>)]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..rows as u32).collect();
        for (first, pivots) in steps {
            for (i, &pivot) in pivots.iter().enumerate() {
                order.swap(first + i, first + pivot as usize);
            }
        }
        order
    }

    /// Swaps of `height` rows among `rows`.
    fn any_pivots(height: usize, rows: usize) -> impl Strategy<Value = Vec<u32>> {
        let one = move |i: usize| i as u32..rows as u32;
        (0..height).map(one).collect::<Vec<_>>()
    }

    /// Rows that no f32 tells apart had one digest.
    #[test]
    fn swaps_of_long_columns_are_told_apart() {
        let of = |row: usize| {
            let rows = u32::MAX as usize;
            let layout = Layout::general(rows, 1, rows).unwrap();
            let a = TiledMatrix::<f32>::vacant(layout, Arc::new(Heap));
            Pivots::of_rows(&a, &[row]).map(|pivots| pivots.digest())
        };
        let [even, odd] = [1 << 24, (1 << 24) + 1].map(|row| of(row).unwrap());
        assert_ne!(even, odd);
        assert_eq!(even, Digest::of_entry(0, u64::MAX, (1 << 24) as f32));
    }

    proptest! {
        #[test]
        fn what_swaps_come_to_is_what_they_do_one_by_one(
            (height, rows, pivots) in (1usize..9, 0usize..9).prop_flat_map(|(height, more)| {
                let rows = height + more;
                (Just(height), Just(rows), any_pivots(height, rows))
            })
        ) {
            let heap: Arc<dyn Memory> = Arc::new(Heap);
            let tile: Tile<f64> = Swaps::pack(&pivots, &heap);
            let swaps = Swaps::of(&tile);
            let after = swapped(rows, &[(0, pivots.clone())]);
            prop_assert_eq!(swaps.pivots, &pivots[..]);
            prop_assert_eq!(swaps.sources, &after[..height]);
            prop_assert!(swaps.touched.is_sorted());
            for row in height as u32..rows as u32 {
                let now = after[row as usize];
                match swaps.touched.binary_search(&row) {
                    Ok(at) => prop_assert_eq!(swaps.fillers[at], now),
                    Err(_) => prop_assert_eq!(row, now),
                }
            }
        }

        #[test]
        fn rows_on_top_are_brought_there_by_the_swaps_that_did_it(
            pivots in (1usize..9, 0usize..9).prop_flat_map(|(height, more)| {
                any_pivots(height, height + more)
            })
        ) {
            let after = swapped(17, &[(0, pivots.clone())]);
            prop_assert_eq!(raising(&after[..pivots.len()]), pivots);
        }

        #[test]
        fn orders_of_all_steps_join_into_one(
            first in any_pivots(4, 11), second in any_pivots(4, 7), third in any_pivots(3, 3),
        ) {
            let last = order(&third, None, 3);
            let from_second = order(&second, Some(&last), 7);
            let all = order(&first, Some(&from_second), 11);
            let steps = [(0, first), (4, second), (8, third)];
            prop_assert_eq!(all, swapped(11, &steps));
        }
    }

    #[test]
    fn numbers_come_out_of_tiles_of_every_scalar_as_they_went_in() {
        fn check<T: Scalar>() {
            let heap: Arc<dyn Memory> = Arc::new(Heap);
            for n in 0..9 {
                let numbers: Vec<u32> = (0..n).map(|i| u32::MAX - i).collect();
                let tile: Tile<T> = of_words(&numbers, &heap);
                assert_eq!(words(&tile)[..n as usize], numbers);
            }
        }
        check::<f32>();
        check::<f64>();
        check::<crate::scalar::c32>();
        check::<crate::scalar::c64>();
    }
}
