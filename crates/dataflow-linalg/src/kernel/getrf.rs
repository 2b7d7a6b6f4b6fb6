//! `getrf`: the LU factorisation of a tile with partial pivoting, and `laswp`: its row swaps.
//!
//! # Law
//! The pivot is the entry of largest |re| + |im| in its column, of equals the one in the smallest
//! row. INFO is LAPACK's: the first pivot that is exactly zero, counted from 1; its column is left
//! as it is and the factorisation goes on. A pivot below the smallest normal number divides, any
//! other is inverted first.

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::larfg::contiguous;
use super::panel::{LEAF, PivotChoice, divide, factor_columns};
use super::pieces::right_of_piece;
use super::product::product;
use super::scratch::with_scratch;
use super::{Backend, Diagonal, Op, Side, Triangle, trsm_op};
use crate::matrix::tile::{Format, Tile};
use crate::scalar::{Scalar, smallest_normal};

/// `A ← L\U` with `P·A = L·U`: L unit lower below the diagonal, U on and above it.
///
/// - `a`: `m × n`, overwritten
/// - `pivots`: `min(m, n)` numbers, overwritten: row `i` was swapped with row `pivots[i] ≥ i`, one
///   after the other, counted from 0
///
/// Answers INFO: the first pivot that is zero, counted from 1. Recursive over halves of the columns; of a
/// tile that is worked on in pieces, of a column of them after the other.
/// About `n²·(m − n/3)` flops for `m ≥ n` (4 times as many for complex numbers).
///
/// # Panics
/// If there are not `min(m, n)` pivots, or more than 2³² − 1 rows: a fault of the task space, never of the
/// data.
///
/// # Source
/// Toledo, *Locality of reference in LU decomposition with partial pivoting*, SIAM J. Matrix Anal.
/// Appl. 18 (1997); LAPACK's `getrf2`.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, getrf};
/// use dataflow_linalg::matrix::tile::Tile;
/// let mut a = Tile::from_rows([[1.0, 2.0], [4.0, 4.0]]);
/// let mut pivots = [0; 2];
/// assert_eq!(getrf(Backend::Auto, &mut a, &mut pivots), None);
/// assert_eq!((a, pivots), (Tile::from_rows([[4.0, 4.0], [0.25, 1.0]]), [1, 1]));
/// ```
#[track_caller]
pub fn getrf<T: Scalar>(backend: Backend, a: &mut Tile<T>, pivots: &mut [u32]) -> Option<usize> {
    getrf_by(backend, a, pivots, PivotChoice::Largest)
}

/// `A ← L\U` with `A = L·U`, without row swaps: [`getrf`] that takes each pivot as it stands.
///
/// Answers the first pivot that is zero, counted from 1; what comes after it means nothing.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, getrf_unpivoted};
/// use dataflow_linalg::matrix::tile::Tile;
/// let mut a = Tile::from_rows([[1.0, 2.0], [4.0, 4.0]]);
/// assert_eq!(getrf_unpivoted(Backend::Auto, &mut a), None);
/// assert_eq!(a, Tile::from_rows([[1.0, 2.0], [4.0, -4.0]]));
/// ```
pub fn getrf_unpivoted<T: Scalar>(backend: Backend, a: &mut Tile<T>) -> Option<usize> {
    let mut unused = vec![0; a.rows().min(a.cols())];
    getrf_by(backend, a, &mut unused, PivotChoice::AsItStands)
}

/// `B ← B·U⁻¹`: the rows of L that belong to rows which were no pivots, as [`getrf`] makes them. A
/// column whose pivot is zero is not divided.
///
/// - `u`: the upper triangle of at least n rows and columns; the rest is not read
/// - `b`: `m × n`, overwritten
///
/// `m·n²` flops (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, eliminate};
/// use dataflow_linalg::matrix::tile::Tile;
/// let u = Tile::from_rows([[0.0, 1.0], [0.0, 4.0]]);
/// let mut b = Tile::from_rows([[0.0, 10.0]]);
/// eliminate(Backend::Auto, &u, &mut b);
/// assert_eq!(b, Tile::from_rows([[0.0, 2.5]]));
/// ```
#[track_caller]
pub fn eliminate<T: Scalar>(backend: Backend, u: &Tile<T>, b: &mut Tile<T>) {
    let (m, n) = (b.rows(), b.cols());
    if m == 0 {
        return;
    }
    let size = |x: T| x.re().abs().max(x.im().abs());
    let is_small = |j| size(u.get(j, j)) < smallest_normal::<T>();
    if !(0..n).any(is_small) {
        let upper = (Triangle::Upper, Diagonal::NonUnit);
        return trsm_op(backend, Side::Right, (Op::NoTranspose, upper, u), b);
    }
    with_scratch(m * n, |columns: &mut [T]| {
        b.write_column_major(columns, m);
        for j in 0..n {
            let (solved, rest) = columns.split_at_mut(j * m);
            let column = &mut rest[..m];
            for (i, solved) in solved.chunks_exact(m).enumerate() {
                let factor = u.get(i, j);
                let pairs = column.iter_mut().zip(solved);
                pairs.for_each(|(x, l)| *x -= *l * factor);
            }
            divide(column, u.get(j, j));
        }
        b.read_column_major(columns, m);
    });
}

#[track_caller]
fn getrf_by<T: Scalar>(
    backend: Backend,
    a: &mut Tile<T>,
    pivots: &mut [u32],
    choice: PivotChoice,
) -> Option<usize> {
    let (m, n, order) = (a.rows(), a.cols(), a.format().order());
    assert!(
        u32::try_from(m).is_ok(),
        "getrf: {m} rows, whose numbers have 32 bits"
    );
    assert!(
        pivots.len() == m.min(n),
        "getrf: {} pivots for {m} × {n}",
        pivots.len()
    );
    let mut factor = |elements: &mut [T]| {
        let mut block = MatMut::from_column_major_slice_mut(elements, m, n);
        factor_block((backend, order), block.rb_mut(), pivots, choice);
        first_zero(block.rb())
    };
    match a.format() {
        Format::ColumnMajor | Format::CutColumns { .. } => factor(a.as_mut_slice()),
        Format::SubTiled { .. } => with_scratch(m * n, |copy: &mut [T]| {
            a.write_column_major(copy, m);
            let info = factor(copy);
            a.read_column_major(copy, m);
            info
        }),
    }
}

/// The first zero on the diagonal, counted from 1.
fn first_zero<T: Scalar>(a: MatRef<'_, T>) -> Option<usize> {
    let zero = (0..a.nrows().min(a.ncols())).find(|&i| a[(i, i)] == T::zero());
    zero.map(|i| i + 1)
}

/// Swaps row `i` with row `pivots[i]`, for i = 0, 1, …
///
/// # Panics
/// If a tile is not column-major, or has no such row.
#[track_caller]
pub fn laswp<T: Scalar>(a: &mut Tile<T>, pivots: &[u32]) {
    let (m, n) = (a.rows(), a.cols());
    assert!(
        a.format().in_memory() == Format::ColumnMajor,
        "laswp: sub-tiled"
    );
    swap_rows(
        MatMut::from_column_major_slice_mut(a.as_mut_slice(), m, n),
        pivots,
    );
}

fn swap_rows<T: Scalar>(mut a: MatMut<'_, T>, pivots: &[u32]) {
    for j in 0..a.ncols() {
        let column = contiguous(&mut a, j);
        for (i, &pivot) in pivots.iter().enumerate() {
            column.swap(i, pivot as usize);
        }
    }
}

/// `A ← L\U` on a block: its columns in pieces of `order`, and each of them in halves down to [`LEAF`].
///
/// What is right of a piece gets the step that tiles of that order get: so the bits are theirs.
pub(super) fn factor_block<T: Scalar>(
    (backend, order): (Backend, usize),
    a: MatMut<'_, T>,
    pivots: &mut [u32],
    choice: PivotChoice,
) {
    let (m, n) = (a.nrows(), a.ncols());
    if n <= LEAF.min(order) {
        return factor_columns(a, pivots, choice);
    }
    let is_cut = n > order;
    let width = match is_cut {
        true => order,
        // Of a wide block, what lies right of the last pivot is a row of U.
        false if n > m => m,
        false => half(n),
    };
    let steps = width.min(m);
    let (mut left, mut right) = a.split_at_col_mut(width);
    let (first, second) = pivots.split_at_mut(steps);
    factor_block((backend, order), left.rb_mut(), first, choice);
    swap_rows(right.rb_mut(), first);
    let (mut a01, mut a11) = right.split_at_row_mut(steps);
    let (a00, mut a10) = left.split_at_row_mut(steps);
    let l = (a00.rb().subcols(0, steps), a10.rb());
    match is_cut {
        true => right_of_piece((backend, order), l, a01, a11.rb_mut()),
        false => right_of_half(backend, l, a01.rb_mut(), a11.rb_mut()),
    }
    if second.is_empty() {
        return;
    }
    factor_block((backend, order), a11, second, choice);
    swap_rows(a10.rb_mut(), second);
    second.iter_mut().for_each(|pivot| *pivot += steps as u32);
}

/// `A01 ← L00⁻¹·A01`, `A11 ← A11 − L10·A01`.
fn right_of_half<T: Scalar>(
    backend: Backend,
    (l00, l10): (MatRef<'_, T>, MatRef<'_, T>),
    mut a01: MatMut<'_, T>,
    a11: MatMut<'_, T>,
) {
    let unit_lower = (Triangle::Lower, Diagonal::Unit);
    T::faer_trsm_op(Side::Left, Op::NoTranspose, unit_lower, l00, a01.rb_mut());
    let (l, u) = ((Op::NoTranspose, l10), (Op::NoTranspose, a01.rb()));
    product(backend, l, u, a11);
}

/// Where `n` columns are halved: at a power of two times [`LEAF`], so that leaves are full.
fn half(n: usize) -> usize {
    n.div_ceil(2).next_power_of_two().max(LEAF)
}
