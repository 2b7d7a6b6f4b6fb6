//! `trsm`: triangular solves with a triangle of a tile, from the right and from the left.

use std::ops::Range;

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::basis::pieces;
use super::herk::half;
use super::larfg::contiguous;
use super::product::{is_by_rows, product};
use super::scratch::with_scratch;
use super::strips::WIDEST;
use super::transpose::{transpose, transpose_into};
use super::{Backend, Diagonal, Op, Side, Triangle};
use crate::matrix::norm::all_finite;
use crate::matrix::tile::{Rectangle, Tile, TileLayout, bands, cuts};
use crate::scalar::Scalar;

/// `B ← B·L⁻ᴴ`: the panel step of the tile Cholesky factorisation.
///
/// - `l`: `n × n`, lower triangle, non-unit diagonal, of the factor of a matrix that `b` is part of;
///   the strict upper triangle is not read. With any other triangle numbers on the way may overflow where
///   those of [`trsm_op`] do not
/// - `b`: `m × n`, overwritten
///
/// `m·n²` flops (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Source
/// Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
/// multicore architectures*, Parallel Computing 35 (2009).
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, trsm};
/// use dataflow_linalg::matrix::tile::Tile;
/// let l = Tile::from_rows([[2.0, 0.0], [1.0, 4.0]]);
/// let mut b = Tile::from_rows([[4.0, 10.0]]);
/// trsm(Backend::Auto, &l, &mut b);
/// assert_eq!(b, Tile::from_rows([[2.0, 2.0]])); // [2, 2]·Lᵀ = [4, 10]
/// ```
#[track_caller]
pub fn trsm<T: Scalar>(backend: Backend, l: &Tile<T>, b: &mut Tile<T>) {
    let (l_layout, b_layout) = (l.layout(), b.layout());
    expect_triangle(l_layout, b_layout.cols, b_layout);
    let formats = [l_layout.format, b_layout.format];
    let (l, b) = (l.as_slice(), b.as_mut_slice());
    for i in bands(b_layout.rows, formats, is_by_rows(backend)) {
        for j in cuts(b_layout.cols, formats) {
            let here = b_layout.place(i.clone(), j.clone());
            // Within a row of blocks, columns lie in storage one after the other.
            let (solved, rest) = b.split_at_mut(here.start);
            let mut target = Rectangle { start: 0, ..here }.of_mut(rest);
            for k in cuts(j.start, formats) {
                // B[i,j] ← B[i,j] − B[i,k]·L[j,k]ᴴ
                let left = b_layout.place(i.clone(), k.clone()).of(solved);
                let right = l_layout.place(j.clone(), k).of(l);
                let (left, right) = ((Op::NoTranspose, left), (Op::ConjTranspose, right));
                product(backend, left, right, target.rb_mut());
            }
            trsm_block(backend, l_layout.place(j.clone(), j).of(l), target);
        }
    }
}

/// `B ← op(L)⁻¹·B`: a step of the solution with a factored matrix.
///
/// - `l`: `m × m`, lower triangle, non-unit diagonal; the strict upper triangle is not read
/// - `b`: `m × n`, overwritten
///
/// `n·m²` flops (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, Op, trsm_left};
/// use dataflow_linalg::matrix::tile::Tile;
/// let l = Tile::from_rows([[2.0, 0.0], [1.0, 4.0]]);
/// let mut b = Tile::from_rows([[4.0], [10.0]]);
/// trsm_left(Backend::Auto, &l, Op::NoTranspose, &mut b);
/// assert_eq!(b, Tile::from_rows([[2.0], [2.0]]));
/// ```
#[track_caller]
pub fn trsm_left<T: Scalar>(backend: Backend, l: &Tile<T>, op: Op, b: &mut Tile<T>) {
    let shape = (Triangle::Lower, Diagonal::NonUnit);
    trsm_op(backend, Side::Left, (op, shape, l), b);
}

/// `B ← op(A)⁻¹·B` or `B ← B·op(A)⁻¹` with any triangle: LAPACK's `trsm` with α = 1.
///
/// - `a`: at least as high and as wide as `b` is high on the left, or wide on the right; what is
///   beyond, and the other triangle, is not read
/// - `b`: `m × n`, overwritten
///
/// `n·m²` flops on the left, `m·n²` on the right (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, Diagonal, Op, Side, Triangle, trsm_op};
/// use dataflow_linalg::matrix::tile::Tile;
/// let u = Tile::from_rows([[2.0, 1.0], [0.0, 4.0]]);
/// let mut b = Tile::from_rows([[4.0, 10.0]]);
/// let upper = (Op::NoTranspose, (Triangle::Upper, Diagonal::NonUnit), &u);
/// trsm_op(Backend::Auto, Side::Right, upper, &mut b);
/// assert_eq!(b, Tile::from_rows([[2.0, 2.0]])); // [2, 2]·U = [4, 10]
/// ```
#[track_caller]
pub fn trsm_op<T: Scalar>(
    backend: Backend,
    side: Side,
    (op, shape, a): (Op, (Triangle, Diagonal), &Tile<T>),
    b: &mut Tile<T>,
) {
    let (a_layout, b_layout) = (a.layout(), b.layout());
    let (solved, across) = match side {
        Side::Left => (b_layout.rows, b_layout.cols),
        Side::Right => (b_layout.cols, b_layout.rows),
    };
    assert!(
        a_layout.rows.min(a_layout.cols) >= solved,
        "trsm: {} × {} triangle for {} × {}",
        a_layout.rows,
        a_layout.cols,
        b_layout.rows,
        b_layout.cols
    );
    let formats = [a_layout.format, b_layout.format];
    for j in bands(across, formats, is_by_rows(backend)) {
        solve(backend, side, (op, shape, a), b, (0..solved, j));
    }
}

/// `B ← op(A)⁻¹`, where B is I: [`trsm_op`] from the left, without what is known to be zero. A triangle
/// that is solved from its first row on, `n³/3` flops and those of leaves (4 times as many for complex
/// numbers); any other as [`trsm_op`].
///
/// - `a`: as for [`trsm_op`]
/// - `b`: I of order n; overwritten
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, Diagonal, Op, Triangle, trsm_unit};
/// use dataflow_linalg::matrix::tile::Tile;
/// let l = Tile::from_rows([[2.0, 0.0], [1.0, 4.0]]);
/// let mut b = Tile::from_rows([[1.0, 0.0], [0.0, 1.0]]);
/// let lower = (Op::NoTranspose, (Triangle::Lower, Diagonal::NonUnit), &l);
/// trsm_unit(Backend::Auto, lower, &mut b);
/// assert_eq!(b, Tile::from_rows([[0.5, 0.0], [-0.125, 0.25]]));
/// ```
#[track_caller]
pub fn trsm_unit<T: Scalar>(
    backend: Backend,
    (op, shape, a): (Op, (Triangle, Diagonal), &Tile<T>),
    b: &mut Tile<T>,
) {
    if !solves_first_to_last(Side::Left, op, shape.0) {
        return trsm_op(backend, Side::Left, (op, shape, a), b);
    }
    let (layout, n) = (a.layout(), b.cols());
    assert!(
        b.rows() == n && layout.rows.min(layout.cols) >= n,
        "trsm: {} × {} triangle for a unit matrix of {} × {n}",
        layout.rows,
        layout.cols,
        b.rows()
    );
    for cols in cuts(n, [layout.format, b.format()]) {
        for left in cols.clone().step_by(LEAF) {
            let right = cols.end.min(left + LEAF);
            // Above stand zeros, and remain.
            let triangle = (op, shape, a);
            solve(backend, Side::Left, triangle, b, (left..n, left..right));
        }
    }
}

/// The same for some columns of B (from the right: rows) between two cuts; of the solved side, and of
/// A, some of the last rows and columns.
fn solve<T: Scalar>(
    backend: Backend,
    side: Side,
    (op, shape, a): (Op, (Triangle, Diagonal), &Tile<T>),
    b: &mut Tile<T>,
    (solved, j): (Range<usize>, Range<usize>),
) {
    let (a_layout, b_layout) = (a.layout(), b.layout());
    let formats = [a_layout.format, b_layout.format];
    let blocks = || pieces(solved.clone(), formats);
    let steps = blocks().count();
    let first_to_last = solves_first_to_last(side, op, shape.0);
    let (a, b) = (a.as_slice(), b.as_mut_slice());
    // Block `i` along the solved side, `j` along the other.
    let place = |i: Range<usize>| match side {
        Side::Left => b_layout.place(i, j.clone()),
        Side::Right => b_layout.place(j.clone(), i),
    };
    for step in 0..steps {
        let (at, remaining) = match first_to_last {
            true => (step, step + 1..steps),
            false => (steps - 1 - step, 0..steps - 1 - step),
        };
        let Some(k) = blocks().nth(at) else { continue };
        let here = place(k.clone());
        // B[k] ← op(A[k,k])⁻¹·B[k], or from the right
        let triangle = a_layout.place(k.clone(), k.clone()).of(a);
        solve_block(backend, side, (op, shape, triangle), here.of_mut(b));
        if remaining.is_empty() {
            continue;
        }
        // A copy: in a column-major tile the rows of a column cannot be borrowed apart.
        with_scratch(here.rows * here.cols, |copy: &mut [T]| {
            let dense = Rectangle {
                start: 0,
                stride: here.rows,
                ..here
            };
            dense.of_mut(copy).copy_from(here.of(b));
            let solved = (Op::NoTranspose, dense.of(copy));
            for i in blocks().skip(remaining.start).take(remaining.len()) {
                // B[i] ← B[i] − op(A)[i,k]·B[k], or from the right
                let (row, col) = coupling(side, op, i.clone(), k.clone());
                let factor = (op, a_layout.place(row, col).of(a));
                let target = place(i).of_mut(b);
                match side {
                    Side::Left => product(backend, factor, solved, target),
                    Side::Right => product(backend, solved, factor, target),
                }
            }
        });
    }
}

/// Rows and columns of the block of A by which the unknowns `k` count in the equations of `i`.
#[inline]
fn coupling(side: Side, op: Op, i: Range<usize>, k: Range<usize>) -> (Range<usize>, Range<usize>) {
    match (side, op) {
        (Side::Left, Op::NoTranspose) | (Side::Right, Op::Transpose | Op::ConjTranspose) => (i, k),
        (Side::Right, Op::NoTranspose) | (Side::Left, Op::Transpose | Op::ConjTranspose) => (k, i),
    }
}

/// Whether the first unknown depends on no other.
fn solves_first_to_last(side: Side, op: Op, triangle: Triangle) -> bool {
    let lower = (triangle == Triangle::Lower) == (op == Op::NoTranspose);
    lower == (side == Side::Left)
}

/// Panics unless `l` is of order `n`, the side of `b` that it is applied to.
#[track_caller]
pub(super) fn expect_triangle(l: TileLayout, n: usize, b: TileLayout) {
    assert!(
        l.rows == n && l.cols == n,
        "trsm: {} × {} triangle for {} × {}",
        l.rows,
        l.cols,
        b.rows,
        b.cols
    );
}

/// `B ← op(A)⁻¹·B` or `B ← B·op(A)⁻¹` on blocks: in strips of rows of B, or from the left of Bᵀ, where there
/// are such.
pub(crate) fn solve_block<T: Scalar>(
    backend: Backend,
    side: Side,
    (op, shape, a): AppliedTriangle<'_, T>,
    mut b: MatMut<'_, T>,
) {
    let (m, n) = (b.nrows(), b.ncols());
    match side {
        _ if !T::has_strips() => T::faer_trsm_op(side, op, shape, a, b),
        Side::Left if n < FEW => solve_few((op, shape, a), b),
        Side::Right => solve_rows(backend, (op, shape, a), b),
        Side::Left => with_scratch(m * n, |copy: &mut [T]| {
            let op = match op {
                Op::NoTranspose => Op::Transpose,
                Op::Transpose | Op::ConjTranspose => Op::NoTranspose,
            };
            transpose(b.rb(), copy);
            let rows = MatMut::from_column_major_slice_mut(copy, n, m);
            solve_rows(backend, (op, shape, a), rows);
            transpose_into(copy, b.rb_mut());
        }),
    }
}

/// `B ← op(A)⁻¹·B` for few columns. One that comes out not finite is solved for again, as faer's leaves do it:
/// what adds up in lanes may overflow where one sum after the other does not.
fn solve_few<T: Scalar>(factor: AppliedTriangle<'_, T>, mut b: MatMut<'_, T>) {
    let (op, shape, a) = factor;
    if b.ncols() != 1 || b.row_stride() != 1 {
        return T::faer_trsm_op(Side::Left, op, shape, a, b);
    }
    with_scratch(b.nrows(), |given: &mut [T]| {
        let x = contiguous(&mut b, 0);
        given.copy_from_slice(x);
        if !(T::solve_vector(factor, x) && all_finite(x)) {
            x.copy_from_slice(given);
            T::faer_trsm_op(Side::Left, op, shape, a, b);
        }
    });
}

/// op(A) with one triangle of A.
type AppliedTriangle<'a, T> = (Op, (Triangle, Diagonal), MatRef<'a, T>);

/// Columns that are too few for their transposition to be worth it: less than a line.
const FEW: usize = 8;

/// `B ← B·op(A)⁻¹` for real numbers on blocks: halves of A, down to what strips take.
fn solve_rows<T: Scalar>(
    backend: Backend,
    (op, (triangle, diagonal), a): AppliedTriangle<'_, T>,
    mut b: MatMut<'_, T>,
) {
    let n = b.ncols();
    let factor = (op, (triangle, diagonal), a);
    if solve_leaf(factor, b.rb_mut()) {
        return;
    }
    if n <= LEAF {
        return T::faer_trsm_op(Side::Right, op, (triangle, diagonal), a, b);
    }
    let half = half(n);
    let (a00, a01, a10, a11) = a.split_at(half, half);
    let (b0, b1) = b.split_at_col_mut(half);
    let beside = match triangle {
        Triangle::Lower => a10,
        Triangle::Upper => a01,
    };
    let [mut first, mut second] = match solves_first_to_last(Side::Right, op, triangle) {
        true => [(a00, b0), (a11, b1)],
        false => [(a11, b1), (a00, b0)],
    };
    let shape = (triangle, diagonal);
    solve_rows(backend, (op, shape, first.0), first.1.rb_mut());
    // Y ← Y − X·op(A) beside
    let solved = (Op::NoTranspose, first.1.rb());
    product(backend, solved, (op, beside), second.1.rb_mut());
    solve_rows(backend, (op, shape, second.0), second.1);
}

/// The same by strips alone; `false`, and nothing is done, where they do not take it.
fn solve_leaf<T: Scalar>(
    (op, (triangle, diagonal), a): AppliedTriangle<'_, T>,
    b: MatMut<'_, T>,
) -> bool {
    let n = b.ncols();
    if triangle == Triangle::Lower && op != Op::NoTranspose {
        return T::solve_in_strips(diagonal, a, b);
    }
    if n > WIDEST {
        return false;
    }
    // L of X·Lᵀ = B; where the last unknown comes first, all is counted from the end.
    let down = solves_first_to_last(Side::Right, op, triangle);
    let at = |i: usize| if down { i } else { n - 1 - i };
    with_scratch(n * n, |l: &mut [T]| {
        for j in 0..n {
            let Some(column) = a.col(at(j)).try_as_col_major() else {
                return false;
            };
            let column = column.as_slice();
            match op {
                Op::NoTranspose => (0..=j).for_each(|k| l[k * n + j] = column[at(k)]),
                Op::Transpose | Op::ConjTranspose => {
                    (j..n).for_each(|i| l[j * n + i] = column[at(i)]);
                }
            }
        }
        let l = MatRef::from_column_major_slice(l, n, n);
        let b = if down { b } else { b.reverse_cols_mut() };
        T::solve_in_strips(diagonal, l, b)
    })
}

/// Largest order of a triangle that is left to one call.
const LEAF: usize = 48;

/// `B ← B·L⁻ᴴ` on blocks: halves of L down to [`LEAF`], the square below them as a product.
pub(super) fn trsm_block<T: Scalar>(backend: Backend, l: MatRef<'_, T>, mut b: MatMut<'_, T>) {
    let n = l.nrows();
    if T::solve_in_strips(Diagonal::NonUnit, l, b.rb_mut()) {
        return;
    }
    if n <= LEAF {
        return T::faer_trsm(l, b);
    }
    let half = half(n);
    let (l00, _, l10, l11) = l.split_at(half, half);
    let (mut b0, mut b1) = b.split_at_col_mut(half);
    trsm_block(backend, l00, b0.rb_mut());
    // B1 ← B1 − B0·L10ᴴ
    product(
        backend,
        (Op::NoTranspose, b0.rb()),
        (Op::ConjTranspose, l10),
        b1.rb_mut(),
    );
    trsm_block(backend, l11, b1);
}
