//! `tstrf`: a tile is eliminated under the triangle of another, with row swaps between the two;
//! `ssssm`: the same steps on a pair of tiles beside them.

use std::ops::Range;

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::basis::{blocks, copy_from, copy_to, pieces};
use super::getrf::factor_block;
use super::panel::PivotChoice;
use super::product::product;
use super::scratch::with_scratch;
use super::{Backend, Diagonal, Op, Side, Triangle};
use crate::matrix::tile::{Format, Tile, TileLayout};
use crate::scalar::Scalar;

/// `[U; A] → [U'; L]`: the step of tile LU with incremental pivoting that makes a tile vanish under
/// the triangle of another.
///
/// - `u`: at least n rows; the upper triangle of the first n is replaced by U', the rest is neither
///   read nor written
/// - `a`: `m × n`; becomes the multipliers
/// - `steps`: column-major, `(ib + 1) × n`, overwritten: for each block of ib columns the unit lower
///   triangle of its steps, and in the last row whom each of them swapped, counted in the stack of
///   the block's rows of U and of the tile
///
/// About `(1 + ib/m)·m·n²` flops.
///
/// # Panics
/// If the shapes disagree, or ib is 0: a fault of the task space, never of the data.
///
/// # Source
/// Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
/// multicore architectures*, Parallel Computing 35 (2009).
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, ssssm, tstrf};
/// use dataflow_linalg::matrix::tile::Tile;
/// let (mut u, mut a) = (Tile::from_rows([[1.0]]), Tile::from_rows([[2.0]]));
/// let mut steps = Tile::from_rows([[0.0], [0.0]]);
/// tstrf(Backend::Auto, &mut u, &mut a, &mut steps);
/// assert_eq!((u.get(0, 0), a.get(0, 0)), (2.0, 0.5));
/// let (mut above, mut below) = (Tile::from_rows([[3.0]]), Tile::from_rows([[4.0]]));
/// ssssm(Backend::Auto, &a, &steps, (&mut above, &mut below));
/// assert_eq!((above.get(0, 0), below.get(0, 0)), (4.0, 1.0));
/// ```
#[track_caller]
pub fn tstrf<T: Scalar>(backend: Backend, u: &mut Tile<T>, a: &mut Tile<T>, steps: &mut Tile<T>) {
    let (m, n, ib) = (a.rows(), a.cols(), steps.rows().saturating_sub(1));
    let fits = u.rows() >= n && u.cols() == n && steps.cols() == n && (ib > 0 || n == 0);
    let columns = steps.format() == Format::ColumnMajor;
    assert!(
        fits && columns,
        "tstrf: {m} × {n} tile under {} × {}, steps {} × {}",
        u.rows(),
        u.cols(),
        steps.rows(),
        steps.cols()
    );
    let widest = ib.min(n);
    let mut pivots = vec![0; widest];
    with_scratch((widest + m) * widest, |stack: &mut [T]| {
        for block in blocks(n, ib, a.format()) {
            let width = block.len();
            let (height, pivots) = (width + m, &mut pivots[..width]);
            let stack = &mut stack[..height * width];
            let mut whole = MatMut::from_column_major_slice_mut(stack, height, width);
            let (mut top, below) = whole.rb_mut().split_at_row_mut(width);
            copy_from(u, block.clone(), block.clone(), top.rb_mut());
            for (j, i) in (0..width).flat_map(|j| (j + 1..width).map(move |i| (j, i))) {
                top[(i, j)] = T::zero();
            }
            copy_from(a, 0..m, block.clone(), below);
            factor_block((backend, usize::MAX), whole, pivots, PivotChoice::Largest);

            for (j, &pivot) in pivots.iter().enumerate() {
                let (at, column) = (block.start + j, &stack[j * height..][..height]);
                for (i, &x) in column[..=j].iter().enumerate() {
                    u.set(block.start + i, at, x);
                }
                let made = &mut steps.as_mut_slice()[at * (ib + 1)..][..ib + 1];
                made.fill(T::zero());
                made[j + 1..width].copy_from_slice(&column[j + 1..width]);
                bytemuck::cast_slice_mut(&mut made[ib..])[0] = pivot;
            }
            let whole = MatRef::from_column_major_slice(stack, height, width);
            let (square, below) = whole.split_at_row(width);
            copy_to(below, a, 0..m, block.clone());
            let step = InnerBlock {
                block: block.clone(),
                pivots,
                square,
            };
            let below = |rows: Range<usize>| below.subrows(rows.start, rows.len());
            step.apply(backend, below, (u, a), block.end..n);
        }
    });
}

/// `[C₁; C₂] ← ` the steps of [`tstrf`] on a pair of tiles: in columns right of its own.
///
/// - `l`, `steps`: what `tstrf` left, the multipliers `m × k`
/// - `c1`: its first k rows are overwritten
/// - `c2`: m rows, overwritten
///
/// About `(2 + ib/m)·m·k·n` flops for n columns of C.
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
#[track_caller]
pub fn ssssm<T: Scalar>(
    backend: Backend,
    l: &Tile<T>,
    steps: &Tile<T>,
    (c1, c2): (&mut Tile<T>, &mut Tile<T>),
) {
    let (m, k, n) = (l.rows(), l.cols(), c2.cols());
    let ib = steps.rows().saturating_sub(1);
    assert!(
        c1.rows() >= k && c1.cols() == n && c2.rows() == m && steps.cols() == k,
        "ssssm: {m} × {k}, steps {} × {} for {} × {} and {} × {n}",
        steps.rows(),
        steps.cols(),
        c1.rows(),
        c1.cols(),
        c2.rows()
    );
    let mut pivots = vec![0; ib.min(k)];
    for block in blocks(k, ib, l.format()) {
        let columns = steps.as_slice().chunks_exact(ib + 1).skip(block.start);
        for (pivot, column) in pivots.iter_mut().zip(columns) {
            *pivot = bytemuck::cast_slice(&column[ib..])[0];
        }
        let width = block.len();
        let square = steps.layout().place(0..width, block.clone());
        let step = InnerBlock {
            block: block.clone(),
            pivots: &pivots[..width],
            square: square.of(steps.as_slice()),
        };
        let (layout, elements): (TileLayout, _) = (l.layout(), l.as_slice());
        // A sub-tile's rows at a time: what is beyond lies elsewhere.
        let below = |rows: Range<usize>| layout.place(rows, block.clone()).of(elements);
        step.apply_cut(backend, below, l.format(), (&mut *c1, &mut *c2), 0..n);
    }
}

/// The steps of one block of columns.
struct InnerBlock<'a, T> {
    block: Range<usize>,
    pivots: &'a [u32],
    /// Their unit lower triangle.
    square: MatRef<'a, T>,
}

impl<T: Scalar> InnerBlock<'_, T> {
    /// Does the steps on some columns of a pair of tiles; `below` are rows of the multipliers.
    fn apply<'l>(
        &self,
        backend: Backend,
        below: impl Fn(Range<usize>) -> MatRef<'l, T>,
        pair: (&mut Tile<T>, &mut Tile<T>),
        cols: Range<usize>,
    ) where
        T: 'l,
    {
        self.apply_cut(backend, below, Format::ColumnMajor, pair, cols);
    }

    /// The same where the multipliers lie in a tile of a format.
    fn apply_cut<'l>(
        &self,
        backend: Backend,
        below: impl Fn(Range<usize>) -> MatRef<'l, T>,
        format: Format,
        (c1, c2): (&mut Tile<T>, &mut Tile<T>),
        cols: Range<usize>,
    ) where
        T: 'l,
    {
        let (width, n) = (self.block.len(), cols.len());
        if n == 0 {
            return;
        }
        with_scratch(width * n, |rows: &mut [T]| {
            let mut top = MatMut::from_column_major_slice_mut(rows, width, n);
            copy_from(c1, self.block.clone(), cols.clone(), top.rb_mut());
            self.swap(top.rb_mut(), c2, cols.start);
            // C₁ ← L₁⁻¹·C₁
            let unit_lower = (Triangle::Lower, Diagonal::Unit);
            let op = Op::NoTranspose;
            T::faer_trsm_op(Side::Left, op, unit_lower, self.square, top.rb_mut());
            // C₂ ← C₂ − L₂·C₁
            let (layout, formats) = (c2.layout(), [c2.format(), format]);
            for j in pieces(cols.clone(), formats) {
                for i in pieces(0..layout.rows, formats) {
                    let of_top = top.rb().subcols(j.start - cols.start, j.len());
                    let here = layout.place(i.clone(), j.clone());
                    let here = here.of_mut(c2.as_mut_slice());
                    product(backend, (op, below(i)), (op, of_top), here);
                }
            }
            copy_to(top.rb(), c1, self.block.clone(), cols.clone());
        });
    }

    /// Swaps rows of a block, and of the tile below it from one column on, as the steps did.
    fn swap(&self, mut top: MatMut<'_, T>, c2: &mut Tile<T>, first: usize) {
        let (layout, width, n) = (c2.layout(), self.block.len(), top.ncols());
        let formats = [c2.format(), c2.format()];
        for (i, &pivot) in self.pivots.iter().enumerate() {
            match (pivot as usize).checked_sub(width) {
                None => (0..n).for_each(|j| {
                    let x = top[(i, j)];
                    top[(i, j)] = top[(pivot as usize, j)];
                    top[(pivot as usize, j)] = x;
                }),
                Some(row) => {
                    for cols in pieces(first..first + n, formats) {
                        let place = layout.place(row..row + 1, cols.clone());
                        let elements = &mut c2.as_mut_slice()[place.start..];
                        let elements = elements.iter_mut().step_by(place.stride);
                        for (j, x) in (cols.start - first..).zip(elements).take(cols.len()) {
                            std::mem::swap(&mut top[(i, j)], x);
                        }
                    }
                }
            }
        }
    }
}
