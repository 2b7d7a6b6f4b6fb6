//! A step of LU on columns of tiles that lie whole: blocks as high as the matrix, column-major.
//!
//! # Law
//! The bits are those of the same step on tiles, and of tiles worked on in pieces those of tiles as small as the
//! pieces. What is solved and multiplied is cut where tiles and their pieces are cut, or where that changes no
//! bit is not; a product is the same however far apart the columns of its operands lie.

use std::ops::Range;

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::faer::with_row;
use super::gemm::shapes_agree;
use super::getrf::factor_block;
use super::panel::PivotChoice;
use super::product::{is_by_rows, product, product_from_left};
use super::scratch::{SCRATCH_MEMORY, with_scratch};
use super::transpose::{transpose, transpose_into};
use super::trsm::solve_block;
use super::{Backend, Diagonal, Op, Side, Triangle};
use crate::matrix::tile::{Format, Tile, bands, cuts};
use crate::scalar::Scalar;

/// `A ← L\U` in the rows from `top` on of a column-major block, as [`getrf`](super::getrf()) of these
/// rows in a tile of some format; `pivots` are counted from there.
///
/// # Panics
/// If there are not as many pivots as rows or columns: a fault of the task space, never of the data.
#[track_caller]
pub(crate) fn getrf_from<T: Scalar>(
    backend: Backend,
    (top, format): (usize, Format),
    a: &mut Tile<T>,
    pivots: &mut [u32],
) {
    let (m, n) = (a.rows(), a.cols());
    assert!(
        a.format() == Format::ColumnMajor && pivots.len() == (m - top).min(n),
        "getrf: {} pivots for rows {top}.. of {m} × {n}",
        pivots.len()
    );
    let block = MatMut::from_column_major_slice_mut(a.as_mut_slice(), m, n);
    let below = block.subrows_mut(top, m - top);
    let order = format.order();
    factor_block((backend, order), below, pivots, PivotChoice::Largest);
}

/// What a panel leaves for the columns right of it.
#[derive(Clone, Copy)]
pub(crate) struct FactoredPanel<'a, T> {
    /// Its first row in the matrix.
    pub(crate) top: usize,
    /// The whole column, with L below the top.
    pub(crate) column: &'a Tile<T>,
    /// The tile of L on the diagonal, in the format of the matrix.
    pub(crate) triangle: &'a Tile<T>,
    /// Where rows go, counted from the top.
    pub(crate) swaps: RowMoves<'a>,
    /// The tile order.
    pub(crate) nb: usize,
}

/// Swaps the rows of a column right of a panel, solves its top with L, and subtracts the product of
/// the rest of the panel and that. The top becomes the tile `u`, and is no part of the column any more.
///
/// # Panics
/// If the blocks are not column-major, or of different heights.
#[track_caller]
pub(crate) fn getrf_right<T: Scalar>(
    backend: Backend,
    panel: FactoredPanel<'_, T>,
    b: &mut Tile<T>,
    u: &mut Tile<T>,
) {
    let FactoredPanel { top, swaps, .. } = panel;
    let (m, n, height) = (b.rows(), b.cols(), swaps.sources.len());
    assert!(
        b.format() == Format::ColumnMajor && panel.column.rows() == m,
        "getrf: a panel of {} rows beside {m}",
        panel.column.rows()
    );
    // U is solved for as Uᵀ·Lᵀ: strips of its columns stand in vectors.
    let mut rows = Tile::unspecified(n, height, Format::ColumnMajor, &SCRATCH_MEMORY);
    let mut columns: Vec<_> = b.columns_mut().map(|column| &mut column[top..]).collect();
    exchange_rows(&mut columns, panel.swaps, rows.as_mut_slice());
    solve_unit_rows(backend, panel.triangle, &mut rows);
    set_columns(&rows, u);
    let below = rows_to_subtract(backend, top + height..m, panel.nb, u.format());
    let near = |rows| near_rows(backend, rows, (height, u.format()));
    for rows in below.into_iter().flat_map(near) {
        subtract(backend, panel, u, (b, rows));
    }
}

/// A tile ← what has its columns as rows.
fn set_columns<T: Scalar>(rows: &Tile<T>, tile: &mut Tile<T>) {
    let (height, width) = (tile.rows(), tile.cols());
    if tile.format().in_memory() == Format::ColumnMajor {
        let elements = tile.as_mut_slice();
        let whole = MatMut::from_column_major_slice_mut(elements, height, width);
        return transpose_into(rows.as_slice(), whole);
    }
    let all: Vec<_> = (0..height).map(|i| (i, i * width)).collect();
    tile.set_rows(&all, rows.as_slice());
}

/// What the swaps of a panel come to.
#[derive(Clone, Copy)]
pub(crate) struct RowMoves<'a> {
    /// The row that ends at the top's row `i`.
    pub(crate) sources: &'a [u32],
    /// Rows below the top, and the row of the top that ends there.
    pub(crate) fallen: (&'a [u32], &'a [u32]),
}

/// Columns that are gone through at a time: a cache line of `f64` in each row.
const STREAMS: usize = 8;

/// The rows that come to the top, one after the other; in the columns those that leave it have moved.
fn exchange_rows<T: Scalar>(columns: &mut [&mut [T]], moves: RowMoves<'_>, risen: &mut [T]) {
    let width = columns.len();
    for (left, columns) in (0..).step_by(STREAMS).zip(columns.chunks_mut(STREAMS)) {
        if let [a, b, c, d, e, f, g, h] = &*columns {
            // Of one length that the loop knows: a row is looked at once.
            let m = a.len();
            let (a, b, c, d) = (&a[..m], &b[..m], &c[..m], &d[..m]);
            let (e, f, g, h) = (&e[..m], &f[..m], &g[..m], &h[..m]);
            for (i, &source) in moves.sources.iter().enumerate() {
                let s = source as usize;
                if let Some(line) = risen[i * width + left..].first_chunk_mut() {
                    *line = [a[s], b[s], c[s], d[s], e[s], f[s], g[s], h[s]];
                }
            }
        } else {
            for (i, &source) in moves.sources.iter().enumerate() {
                for (j, column) in columns.iter().enumerate() {
                    risen[i * width + left + j] = column[source as usize];
                }
            }
        }
        for column in columns {
            for (&to, &from) in moves.fallen.0.iter().zip(moves.fallen.1) {
                column[to as usize] = column[from as usize];
            }
        }
    }
}

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
fn subtract_block<T: Scalar>(
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

/// The rows below a panel, as they are cut into tiles and sub-tiles; together where a row of a product does not
/// depend on the others.
fn rows_to_subtract(
    backend: Backend,
    below: Range<usize>,
    nb: usize,
    format: Format,
) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for tile in below.clone().step_by(nb.max(1)) {
        for rows in cuts(nb.min(below.end - tile), [format]) {
            let rows = tile + rows.start..tile + rows.end;
            match all.last_mut() {
                Some(last) if is_by_rows(backend) => last.end = rows.end,
                _ => all.push(rows),
            }
        }
    }
    all
}

/// Rows of a high block from which more than one piece of L and U is subtracted, as many at a time as stay in a
/// near cache meanwhile; where a row of a product does not depend on the others.
fn near_rows(
    backend: Backend,
    rows: Range<usize>,
    (inner, format): (usize, Format),
) -> impl Iterator<Item = Range<usize>> {
    const NEAR: usize = 192;
    let is_cut = inner > format.order() && is_by_rows(backend);
    let most = if is_cut { NEAR } else { rows.len().max(1) };
    let end = rows.end;
    rows.step_by(most).map(move |i| i..end.min(i + most))
}

/// B ← B − L·U in some rows.
fn subtract<T: Scalar>(
    backend: Backend,
    panel: FactoredPanel<'_, T>,
    u: &Tile<T>,
    (b, rows): (&mut Tile<T>, Range<usize>),
) {
    let (m, n, format) = (b.rows(), b.cols(), u.format());
    let (column, height) = (panel.column, u.rows());
    let l = MatRef::from_column_major_slice(column.as_slice(), m, column.cols());
    for cols in bands(n, [format], is_by_rows(backend)) {
        for inner in cuts(height, [format]) {
            let left = l.submatrix(rows.start, inner.start, rows.len(), inner.len());
            let right = u.layout().place(inner, cols.clone()).of(u.as_slice());
            let b = MatMut::from_column_major_slice_mut(b.as_mut_slice(), m, n);
            let target = b.submatrix_mut(rows.start, cols.start, rows.len(), cols.len());
            subtract_block(backend, left, right, target);
        }
    }
}
