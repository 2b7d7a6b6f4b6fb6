//! A step of LU on columns of tiles that lie whole: blocks as high as the matrix, column-major.
//!
//! # Law
//! The bits are those of the same step on tiles. What is solved and multiplied is cut where tiles and their pieces
//! are cut, or where that changes no bit is not; a product is the same however far apart the columns of its
//! operands lie.

use std::ops::Range;

use ::faer::{MatMut, MatRef};

use super::Backend;
use super::getrf::factor_block;
use super::panel::PivotChoice;
use super::pieces::{solve_unit_rows, subtract_block};
use super::product::is_by_rows;
use super::scratch::SCRATCH_MEMORY;
use super::transpose::transpose_into;
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
