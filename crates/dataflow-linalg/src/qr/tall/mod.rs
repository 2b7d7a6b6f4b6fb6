//! Least squares with many rows and few columns, in one pass over arrays as they lie.
//!
//! # Law
//! Blocks of rows become triangles, [R, Qᴴ·B] each, and sixteen triangles become one, up a tree; no
//! copy of A is made. Blocks and tree depend on the shape alone, and sums within a block on the block:
//! the bits are the same on any number of workers. They are the same for any memory order but one: rows of
//! 8 to 32 numbers in f64 that lie side by side are added up as they lie.
//!
//! # Elsewhere
//! How a block becomes a triangle, and why that is as good as Householder's: `block.rs`. Matrices in
//! tiles: [`least_squares`](super::least_squares()).
//!
//! # Source
//! Demmel, Grigori, Hoemmen, Langou, *Communication-optimal parallel and sequential QR and LU
//! factorizations*, SIAM J. Sci. Comput. 34 (2012).

mod block;
mod strip;
#[cfg(test)]
mod tests;

use super::least_squares::expect_independent;
use super::reflectors::Options;
use crate::error::{Given, LinalgError};
use crate::kernel::{Backend, Op, solve_leading};
use crate::matrix::{Format, Layout, Tile, TiledMatrix};
use crate::scalar::Scalar;
use crate::succession::joined;
use dataflow_core::port::{Executor, Heap, Memory};
use dataflow_core::prelude::*;
use dataflow_core::space::Slot;
use dataflow_core::{Report, task_names};
use ndarray::{Array2, ArrayView2, ShapeBuilder, s};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a block, or as many as columns if these are more; the last has up to twice as many less one.
const BLOCK: usize = 4096;
/// Triangles that become one.
const FAN_IN: u32 = 16;
/// Up to so many columns a matrix is skinny.
const WIDEST: usize = 64;

/// Whether [`tall_least_squares`] is the better way for a matrix of this shape: at least a block of
/// rows, and few columns.
///
/// A function of the shape alone, so that the number of threads does not change the bits.
pub fn is_tall_and_skinny(m: usize, n: usize) -> bool {
    m >= BLOCK && (1..=WIDEST).contains(&n)
}

/// The least-squares solution of A·X = B for an array with far more rows than columns, in any memory
/// order, which is read once and not copied; and what all graphs cost together.
///
/// - `a`: m × n with m ≥ n ≥ 1
/// - `b`: m × nrhs
///
/// m·n² flops and 2·m·n for each column of B if the blocks of rows are well conditioned, three times
/// as many if they are not. Where they are nearly rank deficient, 2·m·n² by reflectors beside these.
/// Of more than 256 columns it is by reflectors at once. Beside A and B it takes n·(n + nrhs) numbers for
/// each 4096 rows, and a few blocks for each worker.
///
/// # Errors
/// The first entry of A or B that is not finite; shapes that do not fit;
/// [`LinalgError::RankDeficient`] as [`least_squares`](super::least_squares()) has it;
/// [`LinalgError::Argument`] on more than one rank.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::qr::tall_least_squares;
/// use ndarray::Array2;
/// // The line through (i, 3 + 2·i)
/// let a = Array2::from_shape_fn((10_000, 2), |(i, j)| [1.0, i as f64][j]);
/// let b = Array2::from_shape_fn((10_000, 1), |(i, _)| 3.0 + 2.0 * i as f64);
/// let (x, _) = tall_least_squares(a.view(), b.view(), Backend::Auto, &Inline)?;
/// assert!((x[(0, 0)] - 3.0).abs() < 1e-9 && (x[(1, 0)] - 2.0).abs() < 1e-12);
/// # Ok::<(), dataflow_linalg::LinalgError>(())
/// ```
pub fn tall_least_squares<T: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(Array2<T>, Report), LinalgError> {
    let n_ranks = on.courier().n_ranks();
    if n_ranks != 1 {
        let text = format!("an array solved on {n_ranks} ranks (must be 1)");
        return Err(LinalgError::Argument(text));
    }
    Tall::new(a, b, backend)?.solved(on)
}

task_names! {
    /// The tasks of a tall matrix: a block of rows becomes a triangle, or several triangles one.
    pub enum TallTask { Block { i }, Join { level, i } }
}
use TallTask::{Block, Join};

/// The triangle that a task makes.
const MADE: usize = 0;
/// Join: what it is made of, from here on.
const PARTS: usize = 1;

/// The task space of a tall matrix: [R, Qᴴ·B] of [A, B].
///
/// # Examples
/// See [`tall_least_squares`].
pub struct Tall<'a, T: Scalar> {
    pub(super) a: ArrayView2<'a, T>,
    pub(super) b: ArrayView2<'a, T>,
    backend: Backend,
    memory: Arc<dyn Memory>,
    /// Rows of a block.
    height: usize,
    /// How many triangles are made: of blocks, then level by level.
    counts: Vec<u32>,
    made: Store<Tile<T>>,
}

impl<T: Scalar> std::fmt::Debug for Tall<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tall")
            .field("a", &self.a.dim())
            .field("b", &self.b.dim())
            .field("height", &self.height)
            .finish_non_exhaustive()
    }
}

impl<'a, T: Scalar> Tall<'a, T> {
    /// The space for arrays in any memory order.
    ///
    /// # Errors
    /// If A has no columns, fewer rows than columns, or other rows than B.
    pub fn new(
        a: ArrayView2<'a, T>,
        b: ArrayView2<'a, T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        Self::cut((a, b), backend, BLOCK.max(a.ncols()))
    }

    /// The same in blocks of so many rows, no fewer than columns.
    pub(super) fn cut(
        (a, b): (ArrayView2<'a, T>, ArrayView2<'a, T>),
        backend: Backend,
        height: usize,
    ) -> Result<Self, LinalgError> {
        let ((m, n), (rows, nrhs)) = (a.dim(), b.dim());
        if n == 0 || m < n || rows != m {
            let text = format!(
                "right-hand sides of {rows} x {nrhs} for a tall matrix of {m} x {n} (which must have as many rows, \
                 and from 1 to as many columns)"
            );
            return Err(LinalgError::Shape(text));
        }
        let blocks = u32::try_from((m / height).max(1));
        let blocks = blocks.map_err(|_| LinalgError::Shape(format!("{m} rows are too many")))?;
        let mut counts = vec![blocks];
        while let Some(&more @ 2..) = counts.last() {
            counts.push(more.div_ceil(FAN_IN));
        }
        Ok(Tall {
            a,
            b,
            backend,
            memory: Arc::new(Heap),
            height,
            counts,
            made: Store::empty("triangle", 1),
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// The first entry of A or B that is not finite; what [`run`](dataflow_core::run) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        let (m, n) = self.a.dim();
        let run = T::run_tiles(&self.erased(), &[], on);
        run.map_err(|error| match LinalgError::of_run(error, m, None) {
            // Columns of B are counted on from those of A.
            LinalgError::NotFinite {
                row,
                col,
                matrix,
                source,
                ..
            } if col >= n as u64 => LinalgError::NotFinite {
                of: Given::RightHandSides,
                row,
                col: col - n as u64,
                matrix,
                source,
            },
            error => error,
        })
    }

    /// X, from the triangle of the whole: R·X = Qᴴ·B.
    fn solved(&self, on: &dyn Executor) -> Result<(Array2<T>, Report), LinalgError> {
        let ((m, n), nrhs) = (self.a.dim(), self.b.ncols());
        let reduced = self.run(on)?;
        // A run that ended well has brought it home.
        let made = self.made.get(0);
        let made = made.ok_or_else(|| LinalgError::Shape("no triangle was made".to_owned()))?;
        let part = |cols: Range<usize>| {
            let entry = |i, j| made.get(i, cols.start + j);
            Tile::from_fn(n, cols.len(), Format::ColumnMajor, &self.memory, entry)
        };
        let (r, c) = (part(0..n), part(n..n + nrhs));
        let layout = Layout::general(n, n, n)?;
        let triangle = TiledMatrix::from_fn(layout, |i, j| r.get(i, j));
        let options = Options::of_order(n);
        let look = expect_independent(&triangle, (m, n), options, self.backend, on)?;
        let mut x = Tile::new(n, nrhs, Format::ColumnMajor, &self.memory);
        solve_leading(Op::NoTranspose, &r, &c, &mut x);
        let overflows = |col: &usize| (0..n).any(|row| !x.get(row, *col).is_finite());
        if let Some(col) = (0..nrhs).find(overflows) {
            return Err(LinalgError::overflow_in(col));
        }
        let x = Array2::from_shape_fn((n, nrhs).f(), |(i, j)| x.get(i, j));
        Ok((x, joined([reduced, look])))
    }

    pub(super) fn rows(&self, i: u32) -> Range<usize> {
        let top = i as usize * self.height;
        match i + 1 == self.counts[0] {
            true => top..self.a.nrows(),
            false => top..top + self.height,
        }
    }

    /// The triangles that one is made of, a level below.
    pub(super) fn parts(&self, level: u32, i: u32) -> impl Iterator<Item = TallTask> + use<T> {
        let all = self.counts[level as usize - 1];
        let parts = i * FAN_IN..all.min((i + 1) * FAN_IN);
        parts.map(move |i| task(level - 1, i))
    }

    /// [R, Qᴴ·B] of a block.
    fn block(&self, rows: Range<usize>) -> Result<Tile<T>, TaskError> {
        let of_block = s![rows.clone(), ..];
        let both = (self.a.slice(of_block), self.b.slice(of_block));
        if let Some(made) = block::by_products(both, &self.memory) {
            return Ok(made);
        }
        let columns = self.a.columns().into_iter().chain(self.b.columns());
        for (col, column) in columns.enumerate() {
            let mut entries = rows.clone().zip(column.slice(s![rows.clone()]));
            if let Some((row, _)) = entries.find(|(_, entry)| !entry.is_finite()) {
                return Err(LinalgError::not_finite(row, col, self.a.nrows()));
            }
        }
        Ok(block::by_reflectors(both, self.backend, &self.memory))
    }

    /// One triangle of several, one below the other.
    fn join(&self, parts: &[&Tile<T>]) -> Tile<T> {
        let (n, nrhs) = (self.a.ncols(), self.b.ncols());
        let entry = |(i, j): (usize, usize)| parts[i / n].get(i % n, j);
        let all = Array2::from_shape_fn((parts.len() * n, n + nrhs).f(), entry);
        let both = all.view().split_at(ndarray::Axis(1), n);
        block::by_products(both, &self.memory)
            .unwrap_or_else(|| block::by_reflectors(both, self.backend, &self.memory))
    }
}

/// The task that makes a triangle of a level, of which blocks are the lowest.
fn task(level: u32, i: u32) -> TallTask {
    match level {
        0 => Block { i },
        _ => Join { level, i },
    }
}

/// All tasks, of which each level has so many.
fn all_tasks(counts: &[u32]) -> impl Iterator<Item = TallTask> + Send {
    let levels = (0u32..).zip(counts);
    levels.flat_map(|(level, count)| (0..*count).map(move |i| task(level, i)))
}

/// Its level and number.
fn at(task: TallTask) -> (u32, u32) {
    match task {
        Block { i } => (0, i),
        Join { level, i } => (level, i),
    }
}

impl<T: Scalar> TaskSpace for Tall<'_, T> {
    type Task = TallTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("tall least squares");
        about.parameter("m", self.a.nrows());
        about.parameter("n", self.a.ncols());
        about.parameter("nrhs", self.b.ncols());
        about.parameter("precision", T::PRECISION);
        about.class("Block").new_flow("MADE");
        let mut join = about.class("Join").new_flow("MADE");
        for _ in 0..FAN_IN {
            join = join.optional("PART");
        }
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = TallTask> + Send {
        all_tasks(&self.counts)
    }

    fn inputs(&self, task: TallTask, from: &mut impl Inputs<Self>) {
        if let Join { level, i } = task {
            let parts = self.parts(level, i).enumerate();
            parts.for_each(|(part, source)| from.task(PARTS + part, source, MADE));
        }
    }

    fn successors(&self, of: TallTask, to: &mut impl Successors<Self>) {
        let (level, i) = at(of);
        match level as usize + 1 == self.counts.len() {
            true => to.home(MADE, &self.made, 0),
            false => {
                let target = task(level + 1, i / FAN_IN);
                to.task(MADE, target, PARTS + (i % FAN_IN) as usize);
            }
        }
    }

    fn run(&self, task: TallTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            Block { i } => {
                let [made] = flows.slots();
                made.put(self.block(self.rows(i))?);
            }
            Join { .. } => {
                let ([made], parts, []) = flows.split();
                let parts: Vec<&Tile<T>> = parts.filter_map(Slot::get).collect();
                made.put(self.join(&parts));
            }
        }
        Ok(())
    }

    /// What is made is joined, and gone, first.
    fn priority(&self, task: TallTask) -> i64 {
        at(task).0.into()
    }
}
