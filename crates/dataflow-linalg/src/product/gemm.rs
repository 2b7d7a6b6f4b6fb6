//! The product as a graph: each tile of C is a chain of updates; the tiles of A go along its rows,
//! those of B along its columns.
//!
//! # Law
//! C[m,n] is scaled, then updated for k = 0, 1, … in this order: its bits depend on the matrices,
//! the tile order and the backend only. A task runs where its tile of C lives; a tile of A or B is
//! given once to each rank that needs it; how early it comes there is the courier's to decide, by the
//! urgency of what waits for it.
//!
//! # Source
//! Owner-computes with broadcasts along rows and columns: van de Geijn, Watts, *SUMMA: scalable
//! universal matrix multiplication algorithm*, Concurrency 9 (1997).

use super::operand::{Operand, mirrored};
use crate::error::{LinalgError, MatrixLabel};
use crate::kernel::{Backend, gemm_add, scale};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::{Scalar, shown};
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::words::counted;

/// The task space of C ← α·op(A)·op(B) + β·C: a task for each tile of A and B, and one for each step
/// of each tile of C, of which the first scales; where nothing is added one that only scales.
///
/// # Examples
/// The graph of 2·A·B − C, verified, counted and run:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::space::verify;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::product::{Gemm, Operand};
///
/// let a = TiledMatrix::from_fn(Layout::general(5, 4, 2)?, |i, j| (i + j) as f64);
/// let b = TiledMatrix::from_fn(Layout::general(4, 3, 2)?, |i, j| (i * j) as f64);
/// let c = TiledMatrix::from_fn(Layout::general(5, 3, 2)?, |_, _| 1.0);
/// let graph = Gemm::new(2.0, Operand::plain(&a), Operand::plain(&b), -1.0, &c, Backend::Auto)?;
/// verify(&graph, 1)?;
/// let report = graph.run(&Inline)?;
/// assert_eq!(report.tasks, 6 + 4 + 3 * 2 * 2);    // tiles of A, tiles of B, two steps for each of C
/// assert_eq!(c.get(1, 1), Some(2.0 * (2.0 * 1.0 + 3.0 * 2.0 + 4.0 * 3.0) - 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a, T: Scalar> {
    alpha: T,
    pub(crate) a: Operand<'a, T>,
    b: Operand<'a, T>,
    beta: T,
    pub(crate) c: &'a TiledMatrix<T>,
    backend: Backend,
    /// Tiles of C.
    mt: u32,
    nt: u32,
    /// Tiles in the sum; none if there is nothing to be added.
    kt: u32,
    /// Whether there is but one rank.
    is_alone: bool,
}

/// Overwrites `c` by α·op(A)·op(B) + β·C. 2·m·n·k flops; copies no tile.
///
/// With β = 0 nothing is read of C; with α = 0 nothing of A and B.
///
/// # Errors
/// If shapes or tile orders disagree, C is one of the operands or not stored as
/// [`Structure::General`]; if the run fails.
pub fn gemm<T: Scalar>(
    alpha: T,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    beta: T,
    c: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    Gemm::new(alpha, a, b, beta, c, backend)?.run(on)
}

impl<'a, T: Scalar> Gemm<'a, T> {
    /// The space for matrices with the same tile order; each may have a distribution of its own.
    ///
    /// # Errors
    /// As [`gemm`].
    pub fn new(
        alpha: T,
        a: Operand<'a, T>,
        b: Operand<'a, T>,
        beta: T,
        c: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        fits(&a, &b, c)?;
        let (mt, nt) = (c.mt() as u32, c.nt() as u32);
        let nothing = alpha == T::zero() || mt == 0 || nt == 0;
        let kt = if nothing { 0 } else { a.tiles().1 };
        Ok(Gemm {
            alpha,
            a,
            b,
            beta,
            c,
            backend,
            mt,
            nt,
            kt,
            is_alone: !(a.matrix.is_spread() || b.matrix.is_spread() || c.is_spread()),
        })
    }

    /// Runs this rank's part of the product; every rank calls it with its parts of the matrices.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers, the same on every rank.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a.matrix, self.b.matrix, self.c], on)
            .map_err(LinalgError::Run)
    }
}

/// Fails unless matrices of these shapes have a product: to be asked before there is memory for it.
///
/// # Errors
/// [`LinalgError::Shape`], as [`gemm`] answers it.
///
/// # Examples
/// ```
/// use dataflow_linalg::product::expect_product;
/// assert!(expect_product((2, 3), (3, 4)).is_ok());
/// assert!(expect_product((2, 3), (2, 4)).is_err());
/// ```
pub fn expect_product(a: (usize, usize), b: (usize, usize)) -> Result<(), LinalgError> {
    let (into, unnamed) = ((a.0, b.1), [MatrixLabel(None); 3]);
    expect_into(a, b, into, Structure::General, unnamed)
}

/// The same for a product that there is a place for.
fn expect_into(
    (m, k): (usize, usize),
    (l, n): (usize, usize),
    (rows, cols): (usize, usize),
    structure: Structure,
    [a, b, c]: [MatrixLabel<'_>; 3],
) -> Result<(), LinalgError> {
    if k == l && (rows, cols) == (m, n) && structure == Structure::General {
        return Ok(());
    }
    if k != l {
        return Err(LinalgError::Shape(format!(
            "a product of {m} x {k}{a} and {l} x {n}{b}: the left one has {} and the right one {} \
             (must be as many)",
            counted(k, "column"),
            counted(l, "row")
        )));
    }
    Err(LinalgError::Shape(format!(
        "a product of {m} x {k}{a} and {l} x {n}{b} does not fit into {rows} x {cols}{c} ({structure:?})"
    )))
}

/// Fails unless the factors of a product, and the product, are cut into tiles of one order.
///
/// # Errors
/// [`LinalgError::Shape`], as [`gemm`] answers it.
///
/// # Examples
/// ```
/// use dataflow_linalg::product::expect_alike;
/// assert!(expect_alike([64, 64], 64).is_ok() && expect_alike([64, 32], 64).is_err());
/// ```
pub fn expect_alike([a, b]: [usize; 2], c: usize) -> Result<(), LinalgError> {
    match [a, b] == [c; 2] {
        true => Ok(()),
        false => Err(LinalgError::Shape(format!(
            "a product of tiles of order {a} and {b} into tiles of order {c} (all must be alike)"
        ))),
    }
}

/// Whether there is such a product.
pub(super) fn fits<T: Scalar>(
    a: &Operand<'_, T>,
    b: &Operand<'_, T>,
    c: &TiledMatrix<T>,
) -> Result<(), LinalgError> {
    let named = [a.matrix.label(), b.matrix.label(), c.label()];
    let into = (c.rows(), c.cols());
    expect_into(a.shape(), b.shape(), into, c.structure(), named)?;
    expect_alike([a.matrix.nb(), b.matrix.nb()], c.nb())?;
    if a.is_conjugate() || b.is_conjugate() {
        let text = "the plain transpose of a Hermitian matrix is not stored (take its adjoint)";
        return Err(LinalgError::Shape(text.to_owned()));
    }
    if std::ptr::eq(a.matrix, c) || std::ptr::eq(b.matrix, c) {
        let text = "the result of a product is one of its operands (it must be another matrix)";
        return Err(LinalgError::Shape(text.to_owned()));
    }
    Ok(())
}

/// How urgent a step of a tile of C is between ranks. They go step by step, so that they need the same tiles
/// at once; and within a step from a corner of what a rank has of C, so that few tiles of A and B, which
/// are asked for in this order, make many updates ready.
pub(super) fn turn<T: Scalar>(c: &TiledMatrix<T>, (m, n): (u32, u32), k: u32) -> i64 {
    let (p, q) = c.grid();
    -2 * (i64::from(k) * places(c) + i64::from((m / p).max(n / q)))
}

/// How urgent it is to give a tile that a step uses: more than all of the step before, less than what goes
/// before that.
pub(super) fn turn_to_give<T: Scalar>(c: &TiledMatrix<T>, k: u32) -> i64 {
    1 - 2 * (i64::from(k) - 1) * places(c)
}

/// Along the longer side of what a rank has of C, in tiles.
fn places<T: Scalar>(c: &TiledMatrix<T>) -> i64 {
    let (p, q) = c.grid();
    let (down, across) = (c.mt().div_ceil(p as usize), c.nt().div_ceil(q as usize));
    down.max(across) as i64
}

task_space! {
    /// The tasks of a product: (m, k) is a tile of op(A), (k, n) one of op(B), (m, n) one of C; k is the
    /// step. A tile of a Hermitian operand has two such places, and is named by the one with less k.
    pub enum ProductTask;

    impl<T: Scalar> TaskSpace for Gemm<'_, T> {
        type Datum = Tile<T>;
        let mt = self.mt;
        let nt = self.nt;
        let kt = self.kt;
        let mirror_a = u32::from(self.a.is_hermitian());
        let mirror_b = u32::from(self.b.is_hermitian());
        let p = self.c.grid().0;
        let q = self.c.grid().1;
        data A[m, k] in self.a.matrix.store() at self.a.slot(m, k) on self.a.rank_of(m, k);
        data B[k, n] in self.b.matrix.store() at self.b.slot(k, n) on self.b.rank_of(k, n);
        data C[m, n] in self.c.store() at self.c.place(m, n) on (m % p, n % q);

        GiveA { m, k } for k in 0..kt, m in 0..mt if mirror_a < 1 || mt == kt && k < m:
            give tile = A[m, k];
        MirrorA { m } for m in 0..mt if mirror_a > 0 && mt == kt:
            new tile, read triangle = A[m, m], on self.a.rank_of(m, m)
            => tile.put(mirrored(triangle));
        GiveB { k, n } for k in 0..kt, n in 0..nt if mirror_b < 1 || kt == nt && k < n:
            give tile = B[k, n];
        MirrorB { k } for k in 0..kt if mirror_b > 0 && kt == nt:
            new tile, read triangle = B[k, k], on self.b.rank_of(k, k)
            => tile.put(mirrored(triangle));
        // C[m,n] ← β · C[m,n]
        Scale { m, n } for m in 0..mt, n in 0..nt if kt < 1: update tile = C[m, n] => scale(self.beta, tile);
        // C[m,n] ← C[m,n] + α · op(A)[m,k] · op(B)[k,n], at first β · C[m,n]
        Update { m, n, k } for m in 0..mt, n in 0..nt, k in 0..kt
            if (mirror_a < 1 || mt == kt) && (mirror_b < 1 || kt == nt):
            update tile = C[m, n], read left, read right => {
                if k == 0 {
                    scale(self.beta, tile);
                }
                let left = (self.a.stored(m, k).op, left);
                let right = (self.b.stored(k, n).op, right);
                gemm_add(self.backend, self.alpha, left, right, tile);
            }

        GiveA { m, k }.tile -> Update { m, n, k }.left, for n in 0..nt;
        GiveA { m: k, k: m }.tile -> Update { m, n, k }.left, for n in 0..nt, if mirror_a > 0;
        MirrorA { m }.tile -> Update { m, n, k: m }.left, for n in 0..nt;
        GiveB { k, n }.tile -> Update { m, n, k }.right, for m in 0..mt;
        GiveB { k: n, n: k }.tile -> Update { m, n, k }.right, for m in 0..mt, if mirror_b > 0;
        MirrorB { k }.tile -> Update { m, n: k, k }.right, for m in 0..mt;
        Scale { m, n }.tile -> home;
        Update { m, n, k }.tile -> Update { m, n, k: k + 1 }.tile;
        Update { m, n, k }.tile -> home, if k + 1 == kt;

        fn describe(&self, about: &mut Description) {
            about.name("gemm").parameter("m", self.c.rows());
            about.parameter("k", self.a.shape().1);
            self.c.layout().describe(about);
            about.parameter("precision", T::PRECISION);
            about.parameter("backend", self.backend);
            about.parameter("alpha", shown(self.alpha));
            about.parameter("beta", shown(self.beta));
            about.parameter("grid of A", self.a.matrix.distribution());
            about.parameter("grid of B", self.b.matrix.distribution());
            about.parameter("ops", format!("{:?}", [self.a.op(), self.b.op()]));
            let structures = [self.a.matrix.structure(), self.b.matrix.structure()];
            about.parameter("structures", format!("{structures:?}"));
        }

        /// Between ranks by `turn`. On one rank what is given goes first, and a chain is begun when no other
        /// can go on, from a queue, where every worker finds it: what has no priority stays with the worker
        /// that made it ready.
        fn priority(&self, task: ProductTask) -> i64 {
            match task {
                Scale { .. } => 0,
                Update { k, .. } if self.is_alone => -i64::from(k == 0),
                Update { m, n, k } => turn(self.c, (m, n), k),
                GiveA { k, .. } | GiveB { k, .. } | MirrorB { k } | MirrorA { m: k } => match self.is_alone {
                    true => 1,
                    false => turn_to_give(self.c, k),
                },
            }
        }

        fn count(&self, on: Rank) -> u64 {
            let tiles = |of: &TiledMatrix<T>| of.layout().seen_from(on).map_or(0, |on| on.n_slots());
            let given = match self.kt {
                0 => 0,
                _ => tiles(self.a.matrix) + tiles(self.b.matrix),
            };
            given as u64 + tiles(self.c) as u64 * u64::from(self.kt.max(1))
        }
    }
}
use ProductTask::{GiveA, GiveB, MirrorA, MirrorB, Scale, Update};

#[cfg(test)]
mod tests;
