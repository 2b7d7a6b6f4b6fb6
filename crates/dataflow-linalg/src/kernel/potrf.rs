//! `potrf`: the Cholesky factorisation of a tile.
//!
//! # Law
//! INFO is LAPACK's: the first pivot that is not greater than 0, counted from 1; a NaN is not.
//! An infinite pivot is greater than 0.

use std::fmt;

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::herk::{half, herk_block};
use super::product::{is_by_rows, product};
use super::scratch::with_scratch;
use super::trsm::trsm_block;
use super::{Backend, Op, faer};
use crate::matrix::tile::{Format, Rectangle, Tile, TileLayout, bands, cuts};
use crate::scalar::Scalar;

/// The pivot at which a factorisation ended: the matrix is not positive definite.
///
/// # Examples
/// See [`potrf`](potrf#examples).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NotPositive {
    /// LAPACK's INFO: the order of the first leading minor that is not positive, from 1.
    pub index: usize,
    /// The pivot found there: 0, negative or NaN.
    pub pivot: f64,
}

impl fmt::Display for NotPositive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, pivot } = self;
        write!(
            f,
            "matrix is not positive definite: pivot {index} is {pivot:e} (must be > 0)"
        )
    }
}

impl std::error::Error for NotPositive {}

/// `A ← L` with `A = L·Lᴴ`: the diagonal step of the tile Cholesky factorisation.
///
/// - `a`: `n × n`; its lower triangle is overwritten, its strict upper triangle neither read nor
///   written; imaginary parts on its diagonal are not read and become 0
///
/// Left-looking over sub-tiles. `n³/3` flops (4 times as many for complex numbers).
///
/// # Errors
/// If a pivot is not greater than 0; the lower triangle is then partly factored.
///
/// # Panics
/// If the tile is not square: a fault of the task space, never of the data.
///
/// # Source
/// Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
/// multicore architectures*, Parallel Computing 35 (2009).
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, potrf};
/// use dataflow_linalg::matrix::tile::Tile;
/// let mut a = Tile::from_rows([[4.0, 0.0], [2.0, 10.0]]);
/// assert_eq!(potrf(Backend::Auto, &mut a), Ok(()));
/// assert_eq!(a, Tile::from_rows([[2.0, 0.0], [1.0, 3.0]]));
///
/// let mut a = Tile::from_rows([[4.0, 0.0], [2.0, -1.0]]);
/// let failed = potrf(Backend::Auto, &mut a).unwrap_err();
/// assert_eq!((failed.index, failed.pivot), (2, -2.0));
/// ```
#[track_caller]
pub fn potrf<T: Scalar>(backend: Backend, a: &mut Tile<T>) -> Result<(), NotPositive> {
    let layout = a.layout();
    let (n, formats) = (layout.rows, [layout.format]);
    expect_square(layout);
    let a = a.as_mut_slice();
    if let Format::CutColumns { order } = layout.format {
        let all = layout.place(0..n, 0..n).of_mut(a);
        return potrf_by_columns(backend, order, all);
    }
    for j in cuts(n, formats) {
        for i in cuts(n, formats).filter(|i| i.start >= j.start) {
            let here = layout.place(i.clone(), j.clone());
            // All that is read lies in columns of sub-tiles before, or above in this one.
            let (factored, rest) = a.split_at_mut(here.start);
            let mut target = Rectangle { start: 0, ..here }.of_mut(rest);
            for k in cuts(j.start, formats) {
                // A[i,j] ← A[i,j] − A[i,k]·A[j,k]ᴴ
                let left = layout.place(i.clone(), k.clone()).of(factored);
                if i == j {
                    herk_block(backend, -1.0, (Op::NoTranspose, left), target.rb_mut());
                } else {
                    let right = layout.place(j.clone(), k).of(factored);
                    let (left, right) = ((Op::NoTranspose, left), (Op::ConjTranspose, right));
                    product(backend, left, right, target.rb_mut());
                }
            }
            if i == j {
                potrf_block(backend, target).map_err(|failed| failed.after(j.start))?;
            } else {
                let triangle = layout.place(j.clone(), j.clone()).of(factored);
                trsm_block(backend, triangle, target);
            }
        }
    }
    Ok(())
}

/// The same of a column-major block in pieces of some order, what is right of a column of them after it.
fn potrf_by_columns<T: Scalar>(
    backend: Backend,
    order: usize,
    mut a: MatMut<'_, T>,
) -> Result<(), NotPositive> {
    let mut before = 0;
    while a.nrows() > 0 {
        let width = order.min(a.nrows());
        let (mut triangle, _, mut below, mut rest) = a.split_at_mut(width, width);
        potrf_block(backend, triangle.rb_mut()).map_err(|failed| failed.after(before))?;
        let formats = [Format::CutColumns { order }];
        for i in bands(below.nrows(), formats, is_by_rows(backend)) {
            trsm_block(
                backend,
                triangle.rb(),
                below.rb_mut().subrows_mut(i.start, i.len()),
            );
        }
        // A[i,j] ← A[i,j] − L[i]·L[j]ᴴ
        for j in cuts(rest.nrows(), formats) {
            let (top, height) = (j.end, rest.nrows() - j.end);
            let here = below.rb().subrows(j.start, j.len());
            let (diagonal, lower) = rest
                .rb_mut()
                .subcols_mut(j.start, j.len())
                .split_at_row_mut(top);
            let diagonal = diagonal.subrows_mut(j.start, j.len());
            herk_block(backend, -1.0, (Op::NoTranspose, here), diagonal);
            let mut lower = lower;
            for i in bands(height, formats, is_by_rows(backend)) {
                let left = (Op::NoTranspose, below.rb().subrows(top + i.start, i.len()));
                let target = lower.rb_mut().subrows_mut(i.start, i.len());
                product(backend, left, (Op::ConjTranspose, here), target);
            }
        }
        (a, before) = (rest, before + width);
    }
    Ok(())
}

/// Panics unless a tile is square.
#[track_caller]
pub(super) fn expect_square(TileLayout { rows, cols, .. }: TileLayout) {
    assert!(rows == cols, "potrf: {rows} × {cols} tile");
}

/// Largest order that [`potrf_whole`] takes, and the number of rows and columns up to which the calls on
/// arrays do without a graph ([`whole`](crate::whole)).
pub const LARGEST_WHOLE: usize = faer::LARGEST_POTRF;

/// L of A = L·Lᴴ by one call of faer: for small matrices that are no part of a larger one.
///
/// `lower` is called for each column j of A in turn and writes its rows from j on. The answer is
/// column-major without gaps, zeros above the diagonal: new memory is written once, all work is done
/// in scratch of the thread.
///
/// Not bit for bit what [`potrf`] gives. `None` if there is no factor, or faer does not take a pivot:
/// [`potrf`] says which.
///
/// # Panics
/// If n is larger than [`LARGEST_WHOLE`].
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::potrf_whole;
/// let a: [&[f64]; 2] = [&[4.0, 2.0], &[10.0]];
/// let l = potrf_whole(2, |j, column| column.copy_from_slice(a[j]));
/// assert_eq!(l, Some(vec![2.0, 1.0, 0.0, 3.0]));
/// ```
#[track_caller]
pub fn potrf_whole<T: Scalar>(n: usize, lower: impl FnMut(usize, &mut [T])) -> Option<Vec<T>> {
    with_potrf(n, lower, |a, ld| {
        let mut l = Vec::with_capacity(n * n);
        for (j, column) in a.chunks_exact(ld).enumerate() {
            l.resize(j * n + j, T::zero());
            l.extend_from_slice(&column[j..n]);
        }
        l
    })
}

/// The same L for `then`, in scratch: column-major with a leading dimension. What stands above the
/// diagonal means nothing.
#[track_caller]
pub(crate) fn with_potrf<T: Scalar, R>(
    n: usize,
    mut lower: impl FnMut(usize, &mut [T]),
    then: impl FnOnce(&[T], usize) -> R,
) -> Option<R> {
    assert!(n <= LARGEST_WHOLE, "potrf of order {n} as a whole");
    // Each column begins at a cache line, or at half of one.
    let ld = n.next_multiple_of(8).max(1);
    with_scratch(n * ld, |a: &mut [T]| {
        for (j, column) in a.chunks_exact_mut(ld).enumerate() {
            // What stands above the diagonal stays apart from the rest: faer goes by rows.
            lower(j, &mut column[j..n]);
            column[j] = T::from_real(column[j].re());
        }
        let block = MatMut::from_column_major_slice_with_stride_mut(a, n, n, ld);
        let is_factored = match n >= FEWEST_STRIPS && T::has_strips() {
            true => potrf_block(Backend::Auto, block).is_ok(),
            false => T::faer_potrf(block),
        };
        if !is_factored {
            return None;
        }
        for j in 0..n {
            let pivot = &mut a[j * ld + j];
            // An infinite one may have passed.
            if !pivot.is_finite() {
                return None;
            }
            // Rounding leaves imaginary parts, which are no part of the factor.
            *pivot = T::from_real(pivot.re());
        }
        Some(then(a, ld))
    })
}

impl NotPositive {
    /// The same pivot in a matrix with `before` rows above.
    pub(super) fn after(self, before: usize) -> Self {
        Self {
            index: before + self.index,
            ..self
        }
    }
}

/// Smallest order that strips are worth their copy for, of a matrix by itself.
const FEWEST_STRIPS: usize = 16;

/// Largest order of a block that is factored by one call.
const LEAF: usize = 48;
const _: () = assert!(LEAF <= faer::LARGEST_POTRF);

/// `A ← L` on a block: halves down to [`LEAF`].
pub(super) fn potrf_block<T: Scalar>(
    backend: Backend,
    mut a: MatMut<'_, T>,
) -> Result<(), NotPositive> {
    let n = a.nrows();
    if T::factor_in_strips(a.rb_mut()) {
        return Ok(());
    }
    if n <= LEAF {
        return potrf_leaf(a);
    }
    let half = half(n);
    let (mut a00, _, mut a10, mut a11) = a.split_at_mut(half, half);
    potrf_block(backend, a00.rb_mut())?;
    trsm_block(backend, a00.rb(), a10.rb_mut());
    herk_block(backend, -1.0, (Op::NoTranspose, a10.rb()), a11.rb_mut());
    potrf_block(backend, a11).map_err(|failed| failed.after(half))
}

/// Factors a copy, so that neither the upper triangle nor imaginary parts of the diagonal matter.
///
/// faer refuses an infinite pivot and does not tell the value of a bad one: in both cases LAPACK's
/// own arithmetic decides, on a fresh copy.
fn potrf_leaf<T: Scalar>(mut a: MatMut<'_, T>) -> Result<(), NotPositive> {
    let n = a.nrows();
    with_scratch(n * n, |copy: &mut [T]| {
        let mut copy = MatMut::from_column_major_slice_mut(copy, n, n);
        copy_lower(a.rb(), copy.rb_mut());
        let mut result = Ok(());
        if !T::faer_potrf(copy.rb_mut()) {
            copy_lower(a.rb(), copy.rb_mut());
            result = potrf_unblocked(copy.rb_mut());
        }
        for j in 0..n {
            a[(j, j)] = T::from_real(copy[(j, j)].re());
            for i in j + 1..n {
                a[(i, j)] = copy[(i, j)];
            }
        }
        result
    })
}

/// The lower triangle of `a` with a real diagonal, zeros above.
fn copy_lower<T: Scalar>(a: MatRef<'_, T>, mut copy: MatMut<'_, T>) {
    for j in 0..a.ncols() {
        for i in 0..j {
            copy[(i, j)] = T::zero();
        }
        copy[(j, j)] = T::from_real(a[(j, j)].re());
        for i in j + 1..a.nrows() {
            copy[(i, j)] = a[(i, j)];
        }
    }
}

/// The textbook factorisation, column by column.
pub(super) fn potrf_unblocked<T: Scalar>(mut a: MatMut<'_, T>) -> Result<(), NotPositive> {
    let n = a.nrows();
    for j in 0..n {
        for k in 0..j {
            let factor = a[(j, k)].conj();
            for i in j..n {
                let product = a[(i, k)] * factor;
                a[(i, j)] -= product;
            }
        }
        let pivot = a[(j, j)].re();
        if pivot <= 0.0 || pivot.is_nan() {
            return Err(NotPositive {
                index: j + 1,
                pivot,
            });
        }
        let root = pivot.sqrt();
        a[(j, j)] = T::from_real(root);
        for i in j + 1..n {
            let x = a[(i, j)];
            a[(i, j)] = T::from_parts(x.re() / root, x.im() / root);
        }
    }
    Ok(())
}
