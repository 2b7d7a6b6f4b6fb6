//! Copy: a tiled matrix once more, in the same layout or another, so that a call can overwrite it.

use crate::calls::factored::steps::alike;
use dataflow_core::port::Executor;
use dataflow_linalg::LinalgError;
use dataflow_linalg::matrix::{Entries, Layout, Structure, TiledMatrix};
use dataflow_linalg::scalar::Scalar;
use std::ops::Range;

/// The entries of a matrix and its name in another layout of the same tiles, all of whose entries are on this rank. A
/// tile that is not at hand is not in the copy either: who looks at that says so on all ranks.
pub(crate) fn copy<T: Scalar>(
    a: &TiledMatrix<T>,
    layout: Layout,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    copy_as(a, a, layout, on)
}

/// The same with entries that stand for those of the matrix.
fn copy_as<T: Scalar>(
    a: &TiledMatrix<T>,
    entries: &impl Entries<T>,
    layout: Layout,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let is_here = |(i, j): (usize, usize)| match a.structure() {
        Structure::General => a.tile(i, j).is_some(),
        Structure::Lower => a.tile(i.max(j), i.min(j)).is_some(),
    };
    let tiles = TiledMatrix::vacant(layout, on.memory()).named(a.store().name());
    if layout.tiles().all(is_here) {
        tiles.fill(entries, on).map_err(LinalgError::Run)?;
        return Ok(tiles);
    }
    for (i, j) in layout.tiles().filter(|tile| is_here(*tile)) {
        tiles.fill_tile(i, j, entries)?;
    }
    Ok(tiles)
}

/// Both triangles of a matrix.
pub(crate) fn whole<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let layout = alike(a, Layout::general(a.rows(), a.cols(), a.nb()))?;
    match a.structure() {
        Structure::General => copy(a, layout, on),
        Structure::Lower => copy_as(a, &Hermitian(a), layout, on),
    }
}

/// What a lower triangle stands for: imaginary parts on its diagonal are not read.
struct Hermitian<'a, T: Scalar>(&'a TiledMatrix<T>);

impl<T: Scalar> Entries<T> for Hermitian<'_, T> {
    fn entry(&self, row: usize, col: usize) -> T {
        let entry = self.0.entry(row, col);
        match row == col {
            true => T::from_real(entry.re()),
            false => entry,
        }
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        self.0.column(rows.clone(), col, into);
        if rows.contains(&col) {
            let diagonal = &mut into[col - rows.start];
            *diagonal = T::from_real(diagonal.re());
        }
    }
}
