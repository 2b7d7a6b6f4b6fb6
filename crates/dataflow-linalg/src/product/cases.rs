//! What the tests of all products share.

use crate::kernel::Op;
use crate::matrix::{Distribution, Format, Grid, Layout, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::port::Heap;
use dataflow_core::prelude::*;
use std::sync::Arc;

pub const OPS: [Op; 3] = [Op::NoTranspose, Op::Transpose, Op::ConjTranspose];

pub const GRIDS: [(u32, u32); 5] = [(1, 1), (2, 1), (2, 2), (2, 3), (1, 4)];

/// A way to cut matrices.
pub fn cut(nb: usize, sub_tiled: bool) -> Layout {
    let format = match sub_tiled {
        true => Format::SubTiled { order: 3 },
        false => Format::ColumnMajor,
    };
    Layout::general(1, 1, nb).unwrap().with_format(format)
}

/// A matrix of this shape, cut as `cut` is.
pub fn general(rows: usize, cols: usize, cut: Layout) -> Layout {
    let layout = Layout::general(rows, cols, cut.nb()).unwrap();
    layout.with_format(cut.format())
}

/// A matrix without tiles, spread over a grid.
pub fn vacant(layout: Layout, (p, q): (u32, u32)) -> TiledMatrix<f64> {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    TiledMatrix::vacant(layout.distributed(grid, Rank(0)).unwrap(), Arc::new(Heap))
}

/// Fails unless both ends of every edge agree on this grid.
pub fn prove<S: TaskSpace>(space: &S, (p, q): (u32, u32), what: impl std::fmt::Debug) {
    verify(space, p * q).unwrap_or_else(|fault| panic!("{what:?} on {p} x {q}: {fault}"));
}

/// The entry of op(X) at (i, j).
pub fn applied<T: Scalar>(x: impl Fn(usize, usize) -> T, op: Op, i: usize, j: usize) -> T {
    match op {
        Op::NoTranspose => x(i, j),
        Op::Transpose => x(j, i),
        Op::ConjTranspose => x(j, i).conj(),
    }
}

/// The matrix with the shape of op(X) turned back: what is stored if op(X) is to be `rows × cols`.
pub fn stored((rows, cols): (usize, usize), op: Op) -> (usize, usize) {
    match op {
        Op::NoTranspose => (rows, cols),
        Op::Transpose | Op::ConjTranspose => (cols, rows),
    }
}
