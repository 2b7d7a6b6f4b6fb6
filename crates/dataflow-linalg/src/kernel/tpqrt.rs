//! `tpqrt`: a tile is eliminated under the triangle of another; `tpmqrt`: their Q is applied to a
//! pair of tiles.

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::basis::{Basis, blocks, copy_from, copy_to, in_order};
use super::reflector::{Below, panel_scratch, stacked_panel};
use super::scratch::with_scratch;
use super::{Backend, Op, Side};
use crate::matrix::tile::Tile;
use crate::scalar::Scalar;

/// `[R; B] = Q·[R'; 0]`: the step of tile QR that makes a tile vanish under another.
///
/// - `shape`: of `b`; under the diagonal of a triangle there are zeros, and remain
/// - `r`: at least n rows, the upper triangle of the first n is replaced by R'
/// - `b`: `m × n`; becomes V, the reflectors without the identity that stands above them
/// - `t`: `ib × n`, overwritten, as for [`geqrt`](super::geqrt)
///
/// TSQRT of the papers for a square below, TTQRT for a triangle. 2·m·n² flops and those of T, for a
/// triangle of order n a third of that.
///
/// # Panics
/// If the shapes disagree, or `t` has no rows: a fault of the task space, never of the data.
///
/// # Source
/// Buttari et al. (see [`geqrt`](super::geqrt)); Bouwmeester, Jacquelin, Langou, Robert, *Tiled QR
/// factorization algorithms*, SC 2011; LAPACK's `tpqrt` with L = 0 and L = n.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, Below, tpqrt};
/// use dataflow_linalg::matrix::tile::Tile;
/// let (mut r, mut b) = (Tile::from_rows([[3.0]]), Tile::from_rows([[4.0]]));
/// let mut t = Tile::from_rows([[0.0]]);
/// tpqrt(Backend::Auto, Below::Square, &mut r, &mut b, &mut t);
/// assert_eq!((r.get(0, 0), b.get(0, 0), t.get(0, 0)), (-5.0, 0.5, 1.6));
/// ```
#[track_caller]
pub fn tpqrt<T: Scalar>(
    backend: Backend,
    shape: Below,
    r: &mut Tile<T>,
    b: &mut Tile<T>,
    t: &mut Tile<T>,
) {
    let (m, n, ib) = (b.rows(), b.cols(), t.rows());
    let fits = r.rows() >= n && r.cols() == n && t.cols() == n && (ib > 0 || n == 0);
    assert!(
        fits,
        "tpqrt: {m} × {n} tile under {} × {}, T {ib} × {}",
        r.rows(),
        r.cols(),
        t.cols()
    );
    let widest = ib.min(n);
    let work = panel_scratch(widest).max(2 * widest * n);
    with_scratch((m + ib + widest) * widest + work, |scratch: &mut [T]| {
        let (columns, rest) = scratch.split_at_mut(m * widest);
        let (triangle, rest) = rest.split_at_mut(ib * widest);
        let (top, work) = rest.split_at_mut(widest * widest);
        for block in blocks(n, ib, b.format()) {
            let (width, below) = (block.len(), 0..shape.rows(m, block.end));
            let columns = &mut columns[..below.len() * width];
            let triangle = &mut triangle[..ib * width];
            let mut v = MatMut::from_column_major_slice_mut(columns, below.len(), width);
            copy_from(b, below.clone(), block.clone(), v.rb_mut());
            let top = &mut top[..width * width];
            let mut r_of = MatMut::from_column_major_slice_mut(top, width, width);
            copy_from(r, block.clone(), block.clone(), r_of.rb_mut());
            let mut t_of = MatMut::from_column_major_slice_mut(triangle, ib, width);
            t_of.fill(T::zero());
            let square = t_of.subrows_mut(0, width);
            let offset = (shape, block.start);
            stacked_panel(backend, r_of.rb_mut(), v.rb_mut(), offset, square, work);
            copy_to(r_of.rb(), r, block.clone(), block.clone());
            copy_to(v.rb(), b, below.clone(), block.clone());
            let t_of = MatRef::from_column_major_slice(triangle, ib, width);
            copy_to(t_of, t, 0..ib, block.clone());
            let basis = Basis::of_columns(columns, below, width);
            let adjoint = (Side::Left, Op::ConjTranspose);
            let (t_of, others) = (t_of.subrows(0, width), block.end..n);
            let above = Some((&mut *r, block));
            basis.apply(backend, adjoint, t_of, above, (b, others), work);
        }
    });
}

/// `[C₁; C₂] ← Q·[C₁; C₂]` or `Qᴴ·[C₁; C₂]`, from the right `[C₁ C₂]·Q` or `[C₁ C₂]·Qᴴ`, with the Q
/// of [`tpqrt`].
///
/// - `shape`, `v`, `t`: what `tpqrt` got and left, V `m × k`
/// - `c1`: its first k rows (from the right columns) are overwritten
/// - `c2`: m rows (from the right columns), overwritten
///
/// TSMQR and TTMQR of the papers. About 4·m·k·n flops for n columns (rows) of C, for a triangle half
/// of that, and ib/(4·m) as much again for T.
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
#[track_caller]
pub fn tpmqrt<T: Scalar>(
    backend: Backend,
    (side, op): (Side, Op),
    shape: Below,
    (v, t): (&Tile<T>, &Tile<T>),
    (c1, c2): (&mut Tile<T>, &mut Tile<T>),
) {
    let (m, k, ib) = (v.rows(), v.cols(), t.rows());
    let across = |c: &Tile<T>| match side {
        Side::Left => (c.rows(), c.cols()),
        Side::Right => (c.cols(), c.rows()),
    };
    let ((first, others), (second, other)) = (across(c1), across(c2));
    assert!(
        first >= k && second == m && others == other && t.cols() == k && op != Op::Transpose,
        "tpmqrt: {op:?}, V {m} × {k}, T {ib} × {} from the {side:?} for {} × {} and {} × {}",
        t.cols(),
        c1.rows(),
        c1.cols(),
        c2.rows(),
        c2.cols()
    );
    with_scratch(2 * ib.min(k) * others, |work: &mut [T]| {
        for block in in_order(blocks(k, ib, v.format()), (side, op)) {
            let basis = Basis {
                elements: v.as_slice(),
                layout: v.layout(),
                first_row: 0,
                rows: 0..shape.rows(m, block.end),
                cols: block.clone(),
            };
            let triangle = t.layout().place(0..block.len(), block.clone());
            let triangle = triangle.of(t.as_slice());
            let above = Some((&mut *c1, block));
            basis.apply(backend, (side, op), triangle, above, (c2, 0..others), work);
        }
    });
}
