//! The same kernels as sequences of tasks on sub-tiles: the second level of a factorisation whose
//! blocks are tiles in [`Format::SubTiled`](crate::matrix::tile::Format::SubTiled).
//!
//! # Law
//! A task for each sub-tile that is written, which does to it what the sequential kernel does, in
//! the same order: so the bits are those of the sequential kernel. Sub-tiles are views into the
//! block, nothing is copied. Tasks of one precision have accesses of one shape, and their bodies lie
//! behind pointers: what inserts and runs a task is compiled once for each precision, not for each body.
//!
//! # Source
//! Zafari, Larsson, Tillenius, *DuctTeip*, Parallel Computing 90 (2019), §3 (paper 001).

use std::sync::{Mutex, PoisonError};

use dataflow_core::Error;
use dataflow_core::port::Executor;
use dataflow_core::sequence::{Access, Handle, Insertion, Read, Scope, read, scope_inside, write};
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{MatMut, MatRef};

use super::gemm::shapes_agree;
use super::herk::{herk_block, make_diagonal_real, square_agrees};
use super::potrf::{expect_square, potrf_block};
use super::product::product;
use super::trsm::{expect_triangle, trsm_block};
use super::{Backend, NotPositive, Op};
use crate::matrix::tile::{Rectangle, Tile, TileLayout, cuts};
use crate::scalar::Scalar;

type SubTile<'c, 'a, T> = Handle<'c, MatMut<'a, T>>;

/// What a task reads: sub-tiles of the block that is changed.
type SubTileReads<'h, 'c, 'a, T> = Vec<Access<'h, SubTile<'c, 'a, T>, Read>>;

/// The body of a task. It gets what the task reads, in the order of its accesses, and what it changes.
type SubTileBody<'a, T> =
    Box<dyn FnOnce(&[&MatMut<'a, T>], &mut MatMut<'a, T>) -> Result<(), String> + Send + 'a>;

/// A tile that is changed: a handle for each of its sub-tiles.
struct Changed<'c, 'a, T> {
    n_rows: usize,
    n_cols: usize,
    sub_tiles: Vec<SubTile<'c, 'a, T>>,
}

impl<'c, 'a, T: Scalar> Changed<'c, 'a, T> {
    fn new(s: &Scope<'c, 'a>, tile: &'a mut Tile<T>) -> Self {
        let layout = tile.layout();
        let mut rest = tile.as_mut_slice();
        let mut sub_tiles = Vec::new();
        for (.., place) in layout.sub_tiles() {
            let (own, after) = rest.split_at_mut(place.rows * place.cols);
            rest = after;
            sub_tiles.push(s.handle(Rectangle { start: 0, ..place }.of_mut(own)));
        }
        let n_rows = cuts(layout.rows, [layout.format]).count();
        Changed {
            n_rows,
            n_cols: sub_tiles.len().checked_div(n_rows).unwrap_or(0),
            sub_tiles,
        }
    }

    /// Sub-tile (i, j), as they lie in storage: column by column.
    fn at(&self, i: usize, j: usize) -> &SubTile<'c, 'a, T> {
        &self.sub_tiles[i + j * self.n_rows]
    }

    /// What lies left of sub-tile (i, j).
    fn left_of(&self, i: usize, j: usize) -> SubTileReads<'_, 'c, 'a, T> {
        (0..j).map(|k| read(self.at(i, k))).collect()
    }

    /// Inserts a task that changes sub-tile (i, j).
    fn insert(
        &self,
        task: Insertion<'_, 'c, 'a>,
        reads: SubTileReads<'_, 'c, 'a, T>,
        (i, j): (usize, usize),
        body: SubTileBody<'a, T>,
    ) {
        let accesses = (reads, write(self.at(i, j)));
        task.task(accesses, move |(read, target)| body(&read, target));
    }
}

/// A tile that is only read.
#[derive(Clone, Copy)]
struct ReadTile<'a, T> {
    layout: TileLayout,
    elements: &'a [T],
}

impl<'a, T: Scalar> ReadTile<'a, T> {
    fn new(tile: &'a Tile<T>) -> Self {
        let (layout, elements) = (tile.layout(), tile.as_slice());
        ReadTile { layout, elements }
    }

    fn n_cols(&self) -> usize {
        cuts(self.layout.cols, [self.layout.format]).count()
    }

    /// Sub-tile (i, j).
    fn at(&self, i: usize, j: usize) -> MatRef<'a, T> {
        let TileLayout { rows, cols, format } = self.layout;
        let range = |at: usize, length: usize| {
            let start = at.saturating_mul(format.order());
            start..length.min(start.saturating_add(format.order()))
        };
        self.layout
            .place(range(i, rows), range(j, cols))
            .of(self.elements)
    }
}

/// Panics unless tiles are cut alike: sub-tiles are numbered in all of them at once.
#[track_caller]
fn expect_alike<T: Scalar>(read: &[&Tile<T>], changed: &Tile<T>) {
    let format = changed.format();
    for tile in read {
        assert!(
            tile.format() == format,
            "nested kernels take tiles of one format, not {:?} beside {format:?}",
            tile.format()
        );
    }
}

/// C ← C − A·Bᴴ of blocks.
fn subtract<T: Scalar>(backend: Backend, a: MatRef<'_, T>, b: MatRef<'_, T>, c: MatMut<'_, T>) {
    product(backend, (Op::NoTranspose, a), (Op::ConjTranspose, b), c);
}

/// Subtracts from a sub-tile the product of a row of A and a row of B, conjugated.
fn gemm_body<'a, T: Scalar>(
    backend: Backend,
    (a, i): (ReadTile<'a, T>, usize),
    (b, j): (ReadTile<'a, T>, usize),
) -> SubTileBody<'a, T> {
    Box::new(move |_, target| {
        for l in 0..a.n_cols() {
            subtract(backend, a.at(i, l), b.at(j, l), target.rb_mut());
        }
        Ok(())
    })
}

/// As [`potrf`](super::potrf()), by tasks on the workers of `on`: for bodies of tasks.
///
/// # Errors
/// The outer ones are the runtime's.
///
/// # Panics
/// If the tile is not square.
#[track_caller]
pub fn potrf<T: Scalar>(
    on: &dyn Executor,
    backend: Backend,
    a: &mut Tile<T>,
) -> Result<Result<(), NotPositive>, Error> {
    expect_square(a.layout());
    let order = a.layout().format.order();
    let failed = Mutex::new(None);
    let ran = scope_inside(on, |s| {
        let a = Changed::new(s, a);
        let failed = &failed;
        for j in 0..a.n_cols {
            let urgent = (a.n_cols - j) as i64;
            let diagonal: SubTileBody<'_, T> = Box::new(move |left, target| {
                for left in left {
                    let left = (Op::NoTranspose, (**left).rb());
                    herk_block(backend, -1.0, left, target.rb_mut());
                }
                potrf_block(backend, target.rb_mut()).map_err(|fault| {
                    let fault = fault.after(j * order);
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
                    fault.to_string()
                })
            });
            let task = s.priority(urgent).name("Potrf");
            a.insert(task, a.left_of(j, j), (j, j), diagonal);
            for i in j + 1..a.n_rows {
                let below: SubTileBody<'_, T> = Box::new(move |read, target| {
                    let (left, upper) = read.split_at(j);
                    for (left, right) in left.iter().zip(upper) {
                        subtract(backend, (**left).rb(), (**right).rb(), target.rb_mut());
                    }
                    trsm_block(backend, (*upper[j]).rb(), target.rb_mut());
                    Ok(())
                });
                let mut reads = a.left_of(i, j);
                reads.extend(a.left_of(j, j + 1));
                let task = s.priority(urgent).name("Trsm");
                a.insert(task, reads, (i, j), below);
            }
        }
    });
    // Each diagonal sub-tile waits for the one before: no two fail.
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(fault) => Ok(Err(fault)),
        None => ran.map(Ok),
    }
}

/// As [`trsm`](super::trsm()), by tasks on the workers of `on`: for bodies of tasks.
///
/// # Errors
/// The runtime's.
///
/// # Panics
/// If the shapes disagree, or the tiles are not all of one format, which the sequential kernel does not
/// ask for.
#[track_caller]
pub fn trsm<T: Scalar>(
    on: &dyn Executor,
    backend: Backend,
    l: &Tile<T>,
    b: &mut Tile<T>,
) -> Result<(), Error> {
    expect_triangle(l.layout(), b.cols(), b.layout());
    expect_alike(&[l], b);
    let l = ReadTile::new(l);
    scope_inside(on, |s| {
        let b = Changed::new(s, b);
        for j in 0..b.n_cols {
            for i in 0..b.n_rows {
                let body: SubTileBody<'_, T> = Box::new(move |left, target| {
                    for (k, left) in left.iter().enumerate() {
                        subtract(backend, (**left).rb(), l.at(j, k), target.rb_mut());
                    }
                    trsm_block(backend, l.at(j, j), target.rb_mut());
                    Ok(())
                });
                b.insert(s.name("Trsm"), b.left_of(i, j), (i, j), body);
            }
        }
    })
}

/// As [`herk`](super::herk()), by tasks on the workers of `on`: for bodies of tasks.
///
/// # Errors
/// The runtime's.
///
/// # Panics
/// If the shapes disagree, or the tiles are not all of one format, which the sequential kernel does not
/// ask for.
#[track_caller]
pub fn herk<T: Scalar>(
    on: &dyn Executor,
    backend: Backend,
    a: &Tile<T>,
    c: &mut Tile<T>,
) -> Result<(), Error> {
    square_agrees(Op::NoTranspose, a.layout(), c.layout());
    expect_alike(&[a], c);
    let a = ReadTile::new(a);
    scope_inside(on, |s| {
        let c = Changed::new(s, c);
        for j in 0..c.n_cols {
            let diagonal: SubTileBody<'_, T> = Box::new(move |_, target| {
                make_diagonal_real(target.rb_mut());
                for l in 0..a.n_cols() {
                    let left = (Op::NoTranspose, a.at(j, l));
                    herk_block(backend, -1.0, left, target.rb_mut());
                }
                Ok(())
            });
            c.insert(s.name("Herk"), Vec::new(), (j, j), diagonal);
            for i in j + 1..c.n_rows {
                c.insert(
                    s.name("Gemm"),
                    Vec::new(),
                    (i, j),
                    gemm_body(backend, (a, i), (a, j)),
                );
            }
        }
    })
}

/// As [`gemm`](super::gemm()), by tasks on the workers of `on`: for bodies of tasks.
///
/// # Errors
/// The runtime's.
///
/// # Panics
/// If the shapes disagree, or the tiles are not all of one format, which the sequential kernel does not
/// ask for.
#[track_caller]
pub fn gemm<T: Scalar>(
    on: &dyn Executor,
    backend: Backend,
    a: &Tile<T>,
    b: &Tile<T>,
    c: &mut Tile<T>,
) -> Result<(), Error> {
    let (of_a, of_b) = (a.layout(), b.layout());
    shapes_agree(Op::NoTranspose, of_a, Op::ConjTranspose, of_b, c.layout());
    expect_alike(&[a, b], c);
    let (a, b) = (ReadTile::new(a), ReadTile::new(b));
    scope_inside(on, |s| {
        let c = Changed::new(s, c);
        for j in 0..c.n_cols {
            for i in 0..c.n_rows {
                c.insert(
                    s.name("Gemm"),
                    Vec::new(),
                    (i, j),
                    gemm_body(backend, (a, i), (b, j)),
                );
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Format;
    use dataflow_core::port::{Heap, Inline, Memory};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    /// One answered, the others failed in a task, in words of the library below.
    #[test]
    fn tiles_whose_shapes_disagree_are_refused_as_by_the_sequential_kernels() {
        let tile = |rows, cols| {
            let memory: Arc<dyn Memory> = Arc::new(Heap);
            Tile::<f64>::new(rows, cols, Format::SubTiled { order: 3 }, &memory)
        };
        let auto = Backend::Auto;
        let refused = |call: &mut dyn FnMut()| {
            let refused = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
            refused.downcast_ref::<String>().unwrap().clone()
        };
        let pairs: [[&mut dyn FnMut(); 2]; 4] = [
            [
                &mut || _ = potrf(&Inline, auto, &mut tile(7, 4)),
                &mut || _ = crate::kernel::potrf(auto, &mut tile(7, 4)),
            ],
            [
                &mut || trsm(&Inline, auto, &tile(7, 7), &mut tile(7, 4)).unwrap(),
                &mut || crate::kernel::trsm(auto, &tile(7, 7), &mut tile(7, 4)),
            ],
            [
                &mut || herk(&Inline, auto, &tile(7, 4), &mut tile(4, 4)).unwrap(),
                &mut || crate::kernel::herk(auto, &tile(7, 4), &mut tile(4, 4)),
            ],
            [
                &mut || gemm(&Inline, auto, &tile(7, 7), &tile(7, 4), &mut tile(7, 7)).unwrap(),
                &mut || crate::kernel::gemm(auto, &tile(7, 7), &tile(7, 4), &mut tile(7, 7)),
            ],
        ];
        for [nested, sequential] in pairs {
            assert_eq!(refused(nested), refused(sequential));
        }
    }

    #[test]
    fn tiles_of_two_formats_are_refused_in_words() {
        let tile = |format| {
            let memory: Arc<dyn Memory> = Arc::new(Heap);
            Tile::from_fn(7, 7, format, &memory, |i, j| f64::from(i == j))
        };
        let (whole, cut) = (Format::ColumnMajor, Format::SubTiled { order: 3 });
        let auto = Backend::Auto;
        type Call = fn(&Tile<f64>, &mut Tile<f64>);
        let calls: [Call; 4] = [
            |a, c| trsm(&Inline, Backend::Auto, a, c).unwrap(),
            |a, c| herk(&Inline, Backend::Auto, a, c).unwrap(),
            |a, c| gemm(&Inline, Backend::Auto, a, &c.clone(), c).unwrap(),
            |a, c| gemm(&Inline, Backend::Auto, &c.clone(), a, c).unwrap(),
        ];
        for call in calls {
            for (read, changed) in [(whole, cut), (cut, whole)] {
                let refused = catch_unwind(|| call(&tile(read), &mut tile(changed)));
                let text = refused.unwrap_err();
                let text = text.downcast_ref::<String>().unwrap();
                assert!(
                    text.starts_with("nested kernels take tiles of one format"),
                    "{text}"
                );
            }
            call(&tile(cut), &mut tile(cut));
        }
        let mut a = tile(cut);
        assert_eq!(potrf(&Inline, auto, &mut a).unwrap(), Ok(()));
    }
}
