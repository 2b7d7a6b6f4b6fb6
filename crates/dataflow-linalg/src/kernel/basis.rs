//! A basis of reflectors inside a tile, and how it is applied to tiles of any format.

use std::ops::Range;

use ::faer::{MatMut, MatRef};

use super::reflector::{Rows, reflect};
use super::{Backend, Op, Side};
use crate::matrix::tile::{Format, Tile, TileLayout, cuts};
use crate::scalar::Scalar;

/// The blocks of reflectors in a tile with `k` of them: cut at every `ib` and at sub-tiles.
pub(super) fn blocks(
    k: usize,
    ib: usize,
    format: Format,
) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let inner = Format::SubTiled { order: ib.max(1) };
    let blocks: Vec<_> = cuts(k, [inner, format]).collect();
    blocks.into_iter()
}

/// The order of the blocks in which I − V·op(T)·Vᴴ is applied.
pub(super) fn in_order<T>(
    blocks: impl DoubleEndedIterator<Item = T>,
    (side, op): (Side, Op),
) -> impl Iterator<Item = T> {
    // Q = Q₀·Q₁·…: from the left Qᴴ begins with Q₀ᴴ, from the right Q begins with Q₀.
    let forward = (side == Side::Left) == (op == Op::ConjTranspose);
    let (first, last) = match forward {
        true => (Some(blocks), None),
        false => (None, Some(blocks.rev())),
    };
    first
        .into_iter()
        .flatten()
        .chain(last.into_iter().flatten())
}

/// Some columns of V, as they lie in a tile or in scratch; the rows that are not zero.
pub(super) struct Basis<'a, T> {
    pub(super) elements: &'a [T],
    pub(super) layout: TileLayout,
    /// The row of V that is stored first.
    pub(super) first_row: usize,
    pub(super) rows: Range<usize>,
    pub(super) cols: Range<usize>,
}

/// Rows of an identity above a basis, which act on these rows (columns) of a tile.
pub(super) type RowsAbove<'a, T> = Option<(&'a mut Tile<T>, Range<usize>)>;

impl<'a, T: Scalar> Basis<'a, T> {
    /// A column-major block without gaps, its rows for `rows` of what it is applied to.
    pub(super) fn of_columns(elements: &'a [T], rows: Range<usize>, cols: usize) -> Self {
        let layout = TileLayout {
            rows: rows.len(),
            cols,
            format: Format::ColumnMajor,
        };
        Basis {
            elements,
            layout,
            first_row: rows.start,
            rows,
            cols: 0..cols,
        }
    }

    /// C ← (I − V·op(T)·Vᴴ)·C in the columns `others` (from the right: rows) of `c`.
    pub(super) fn apply(
        &self,
        backend: Backend,
        (side, op): (Side, Op),
        t: MatRef<'_, T>,
        mut above: RowsAbove<'_, T>,
        (c, others): (&mut Tile<T>, Range<usize>),
        work: &mut [T],
    ) {
        let layout = c.layout();
        let top = above
            .as_ref()
            .map_or(layout.format, |(top, _)| top.format());
        let place = |layout: TileLayout, i, j| match side {
            Side::Left => layout.place(i, j),
            Side::Right => layout.place(j, i),
        };
        for j in pieces(others, [layout.format, top]) {
            reflect(backend, (side, op), t, j.len(), work, |each| {
                if let Some((top, at)) = &mut above {
                    let layout = top.layout();
                    for i in pieces(at.clone(), [top.format(), top.format()]) {
                        let rows = i.start - at.start..i.end - at.start;
                        let here = place(layout, i, j.clone());
                        each(Rows::Unit(rows), here.of_mut(top.as_mut_slice()));
                    }
                }
                for i in pieces(self.rows.clone(), [self.layout.format, layout.format]) {
                    let stored = i.start - self.first_row..i.end - self.first_row;
                    let v = self.layout.place(stored, self.cols.clone());
                    let here = place(layout, i, j.clone()).of_mut(c.as_mut_slice());
                    each(Rows::Of(v.of(self.elements)), here);
                }
            });
        }
    }
}

/// A range cut wherever one of the formats has a sub-tile boundary.
pub(super) fn pieces(
    range: Range<usize>,
    formats: [Format; 2],
) -> impl Iterator<Item = Range<usize>> {
    let Range { start, end } = range;
    cuts(end, formats)
        .map(move |cut| cut.start.max(start)..cut.end)
        .filter(|cut| !cut.is_empty())
}

/// Copies a rectangle of a tile into a block.
pub(super) fn copy_from<T: Scalar>(
    tile: &Tile<T>,
    rows: Range<usize>,
    cols: Range<usize>,
    mut to: MatMut<'_, T>,
) {
    let (layout, formats) = (tile.layout(), [tile.format(), tile.format()]);
    for j in pieces(cols.clone(), formats) {
        for i in pieces(rows.clone(), formats) {
            let here = layout.place(i.clone(), j.clone()).of(tile.as_slice());
            let (top, left) = (i.start - rows.start, j.start - cols.start);
            let to = to.as_mut().submatrix_mut(top, left, i.len(), j.len());
            { to }.copy_from(here);
        }
    }
}

/// Copies a block into a rectangle of a tile.
pub(super) fn copy_to<T: Scalar>(
    from: MatRef<'_, T>,
    tile: &mut Tile<T>,
    rows: Range<usize>,
    cols: Range<usize>,
) {
    let (layout, formats) = (tile.layout(), [tile.format(), tile.format()]);
    for j in pieces(cols.clone(), formats) {
        for i in pieces(rows.clone(), formats) {
            let (top, left) = (i.start - rows.start, j.start - cols.start);
            let from = from.submatrix(top, left, i.len(), j.len());
            let mut here = layout.place(i, j.clone()).of_mut(tile.as_mut_slice());
            here.copy_from(from);
        }
    }
}

/// Overwrites a rectangle of a tile by one number.
pub(super) fn fill<T: Scalar>(
    value: T,
    tile: &mut Tile<T>,
    rows: Range<usize>,
    cols: Range<usize>,
) {
    let (layout, formats) = (tile.layout(), [tile.format(), tile.format()]);
    for j in pieces(cols, formats) {
        for i in pieces(rows.clone(), formats) {
            let mut here = layout.place(i, j.clone()).of_mut(tile.as_mut_slice());
            here.fill(value);
        }
    }
}
