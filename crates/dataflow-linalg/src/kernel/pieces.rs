//! The steps of LU beside a panel, piece by piece.
//!
//! # Law
//! Tiles that are worked on in pieces, and panels of them, get the bits of tiles as small as these: what is right of
//! a piece is solved with the piece alone, and its product is subtracted from all below before the next piece is
//! begun. Rows move between blocks, so no row may have other bits by itself than beside others.
//!
//! # Elsewhere
//! The panel itself: `getrf`. A step on a column that lies whole: `columns`.

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::faer::with_row;
use super::gemm::shapes_agree;
use super::product::{is_by_rows, product, product_from_left};
use super::scratch::with_scratch;
use super::transpose::{transpose, transpose_into};
use super::trsm::solve_block;
use super::{Backend, Diagonal, Op, Side, Triangle};
use crate::matrix::tile::{Format, Tile, bands, cuts};
use crate::scalar::Scalar;

/// B ← L⁻¹·B for rows of B as columns, where L has ones on its diagonal: from the right strips of rows
/// stand in vectors, and it is as fast for all numbers that have none. Piece after piece of L, of which the
/// later ones get the product that tiles of that order get.
///
/// # Panics
/// If `rows` is not column-major, or has not as many columns as L.
#[track_caller]
pub(crate) fn solve_unit_rows<T: Scalar>(backend: Backend, l: &Tile<T>, rows: &mut Tile<T>) {
    let (n, height, format) = (rows.rows(), rows.cols(), l.format());
    assert!(
        rows.format() == Format::ColumnMajor && l.rows() == height,
        "getrf: L of {} rows for {height}",
        l.rows()
    );
    let (layout, elements) = (l.layout(), rows.as_mut_slice());
    let block = |i, k| layout.place(i, k).of(l.as_slice());
    for k in cuts(height, [format]) {
        let (above, below) = elements.split_at_mut(k.end * n);
        let top = MatMut::from_column_major_slice_mut(&mut above[k.start * n..], n, k.len());
        solve_piece((backend, format), block(k.clone(), k.clone()), top);
        if below.is_empty() {
            return;
        }
        // Upright, as in tiles: U of this piece, and each later one.
        with_scratch(2 * k.len() * n, |scratch: &mut [T]| {
            let (u, target) = scratch.split_at_mut(k.len() * n);
            let mut u = MatMut::from_column_major_slice_mut(u, k.len(), n);
            transpose_into(&above[k.start * n..], u.rb_mut());
            let later = cuts(height, [format]).skip_while(|i| i.start < k.end);
            for i in later {
                let rows = &mut below[(i.start - k.end) * n..][..i.len() * n];
                let target = &mut target[..rows.len()];
                let mut upright = MatMut::from_column_major_slice_mut(target, i.len(), n);
                transpose_into(rows, upright.rb_mut());
                let left = block(i.clone(), k.clone());
                subtract_piece((backend, format), left, u.rb(), upright.rb_mut());
                transpose(upright.rb(), rows);
            }
        });
    }
}

/// What is right of a piece of a panel, below the rows that were solved before: A01 ← L00⁻¹·A01,
/// A11 ← A11 − L10·A01.
pub(super) fn right_of_piece<T: Scalar>(
    (backend, order): (Backend, usize),
    (l00, l10): (MatRef<'_, T>, MatRef<'_, T>),
    mut a01: MatMut<'_, T>,
    a11: MatMut<'_, T>,
) {
    let (cut, (steps, n)) = (Format::CutColumns { order }, a01.shape());
    with_scratch(steps * n, |rows: &mut [T]| {
        transpose(a01.rb(), rows);
        let top = MatMut::from_column_major_slice_mut(rows, n, steps);
        solve_piece((backend, cut), l00, top);
        transpose_into(rows, a01.rb_mut());
    });
    subtract_piece((backend, cut), l10, a01.rb(), a11);
}

/// B ← L⁻¹·B for rows of B as columns, of one piece.
fn solve_piece<T: Scalar>(
    (backend, format): (Backend, Format),
    l: MatRef<'_, T>,
    mut rows: MatMut<'_, T>,
) {
    let unit_lower = (Triangle::Lower, Diagonal::Unit);
    for columns in bands(rows.nrows(), [format], is_by_rows(backend)) {
        let rows = rows.rb_mut().subrows_mut(columns.start, columns.len());
        let triangle = (Op::Transpose, unit_lower, l);
        with_row(rows, |rows| {
            solve_block(backend, Side::Right, triangle, rows)
        });
    }
}

/// B ← B − L·U for L and U of one piece, whose blocks begin where pieces do.
fn subtract_piece<T: Scalar>(
    (backend, format): (Backend, Format),
    l: MatRef<'_, T>,
    u: MatRef<'_, T>,
    mut b: MatMut<'_, T>,
) {
    let together = is_by_rows(backend);
    for i in bands(b.nrows(), [format], together) {
        let left = l.subrows(i.start, i.len());
        for j in bands(b.ncols(), [format], together) {
            let (right, b) = (u.subcols(j.start, j.len()), b.rb_mut());
            let target = b.submatrix_mut(i.start, j.start, i.len(), j.len());
            subtract_block(backend, left, right, target);
        }
    }
}

/// B ← B − L·U in one call.
///
/// Rows move between blocks, and whatever others a row stands beside, it has the same bits, unless it is alone:
/// so no row is. A column alone is made in one pass over L.
pub(super) fn subtract_block<T: Scalar>(
    backend: Backend,
    l: MatRef<'_, T>,
    u: MatRef<'_, T>,
    mut b: MatMut<'_, T>,
) {
    let (inner, n) = (l.ncols(), b.ncols());
    if l.nrows() == 1 && is_by_rows(backend) {
        return with_scratch(2 * (inner + n), |twice: &mut [T]| {
            let (left, target) = twice.split_at_mut(2 * inner);
            let mut left = MatMut::from_column_major_slice_mut(left, 2, inner);
            let mut target = MatMut::from_column_major_slice_mut(target, 2, n);
            for i in 0..2 {
                left.rb_mut().subrows_mut(i, 1).copy_from(l);
                target.rb_mut().subrows_mut(i, 1).copy_from(b.rb());
            }
            subtract_block(backend, left.rb(), u, target.rb_mut());
            b.copy_from(target.rb().subrows(0, 1));
        });
    }
    let left = (Op::NoTranspose, l);
    match n {
        1 => product_from_left(backend, left, u, b),
        _ => product(backend, left, (Op::NoTranspose, u), b),
    }
}

/// `C ← C − L·U`, the step of a tile below the top: with pieces the bits of tiles as small as these.
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
#[track_caller]
pub(crate) fn getrf_below<T: Scalar>(backend: Backend, l: &Tile<T>, u: &Tile<T>, c: &mut Tile<T>) {
    let (left, right, layout) = (l.layout(), u.layout(), c.layout());
    let inner = shapes_agree(Op::NoTranspose, left, Op::NoTranspose, right, layout);
    let formats = [left.format, right.format, layout.format];
    let (l, u, c) = (l.as_slice(), u.as_slice(), c.as_mut_slice());
    let together = is_by_rows(backend);
    for i in bands(layout.rows, formats, together) {
        for j in bands(layout.cols, formats, together) {
            let mut target = layout.place(i.clone(), j.clone()).of_mut(c);
            for k in cuts(inner, formats) {
                let l = left.place(i.clone(), k.clone()).of(l);
                let u = right.place(k, j.clone()).of(u);
                subtract_block(backend, l, u, target.rb_mut());
            }
        }
    }
}
