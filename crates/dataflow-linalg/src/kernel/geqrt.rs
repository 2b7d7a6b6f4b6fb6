//! `geqrt`: a tile becomes Q·R; `gemqrt`: Q is applied to another tile.

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::basis::{Basis, blocks, copy_from, copy_to, fill, in_order};
use super::geqr2::{self, geqr2};
use super::larfg::contiguous;
use super::reflector::{panel, panel_scratch};
use super::scratch::with_scratch;
use super::{Backend, Op, Side};
use crate::matrix::tile::Tile;
use crate::scalar::Scalar;

/// `A = Q·R`: the first step of a panel of tile QR.
///
/// - `a`: `m × n`; becomes R, upper triangular with a real diagonal, zero below it
/// - `v`: `m × min(m, n)`, overwritten: the reflectors, unit lower triangular with zeros above
/// - `t`: `ib × min(m, n)`, overwritten: the triangles of the compact WY form, side by side; its
///   rows are the inner block size
///
/// Column by column up to 64 rows and columns that lie as columns, else in blocks.
/// `Q = (I − V₀·T₀·V₀ᴴ)·(I − V₁·T₁·V₁ᴴ)·…`. 2·n²·(m − n/3) flops for m ≥ n (4 times as many for
/// complex numbers), and those of T.
///
/// # Panics
/// If the shapes disagree, or `t` has no rows: a fault of the task space, never of the data.
///
/// # Source
/// Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
/// multicore architectures*, Parallel Computing 35 (2009); LAPACK's `geqrt`.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, geqrt};
/// use dataflow_linalg::matrix::tile::Tile;
/// let mut a = Tile::from_rows([[3.0], [4.0]]);
/// let (mut v, mut t) = (a.clone(), Tile::from_rows([[0.0]]));
/// geqrt(Backend::Auto, &mut a, &mut v, &mut t);
/// assert_eq!(a, Tile::from_rows([[-5.0], [0.0]]));
/// assert_eq!(v, Tile::from_rows([[1.0], [0.5]]));
/// assert_eq!(t, Tile::from_rows([[1.6]]));
/// ```
#[track_caller]
pub fn geqrt<T: Scalar>(backend: Backend, a: &mut Tile<T>, v: &mut Tile<T>, t: &mut Tile<T>) {
    let (m, n, v_layout, ib) = (a.rows(), a.cols(), v.layout(), t.rows());
    let k = m.min(n);
    let fits = (v_layout.rows, v_layout.cols) == (m, k) && t.cols() == k && (ib > 0 || k == 0);
    assert!(
        fits,
        "geqrt: {m} × {n} tile, V {} × {}, T {ib} × {}",
        v_layout.rows,
        v_layout.cols,
        t.cols()
    );
    if geqr2::suits(a, v, t) {
        return geqr2(a, v, t);
    }
    let widest = ib.min(k);
    let work = panel_scratch(widest).max(2 * widest * n);
    with_scratch((m + ib) * widest + work, |scratch: &mut [T]| {
        let (columns, rest) = scratch.split_at_mut(m * widest);
        let (triangle, work) = rest.split_at_mut(ib * widest);
        for block in blocks(k, ib, v_layout.format) {
            let (top, width) = (block.start..block.end, block.len());
            let (height, below) = (m - top.start, top.start..m);
            let columns = &mut columns[..height * width];
            let triangle = &mut triangle[..ib * width];
            let mut panel_of = MatMut::from_column_major_slice_mut(columns, height, width);
            copy_from(a, below.clone(), block.clone(), panel_of.rb_mut());
            let mut t_of = MatMut::from_column_major_slice_mut(triangle, ib, width);
            t_of.fill(T::zero());
            panel(backend, panel_of.rb_mut(), t_of.subrows_mut(0, width), work);
            // The panel is R and V in one: R stays in A, V goes apart.
            let r = split(panel_of.rb_mut(), work);
            copy_to(r, a, top.clone(), block.clone());
            fill(T::zero(), a, top.end..m, block.clone());
            copy_to(panel_of.rb(), v, below.clone(), block.clone());
            fill(T::zero(), v, 0..top.start, block.clone());
            let t_of = MatRef::from_column_major_slice(triangle, ib, width);
            copy_to(t_of, t, 0..ib, block.clone());
            let basis = Basis::of_columns(columns, below, width);
            let adjoint = (Side::Left, Op::ConjTranspose);
            let (t_of, others) = (t_of.subrows(0, width), block.end..n);
            basis.apply(backend, adjoint, t_of, None, (a, others), work);
        }
    });
}

/// Parts R and V: zeros and ones take the place of R in the panel. Returns R.
fn split<'a, T: Scalar>(mut panel: MatMut<'_, T>, r: &'a mut [T]) -> MatRef<'a, T> {
    let width = panel.ncols();
    let r = &mut r[..width * width];
    for (j, column) in r.chunks_exact_mut(width).enumerate() {
        let from = contiguous(&mut panel, j);
        let (top, below) = column.split_at_mut(j + 1);
        top.copy_from_slice(&from[..=j]);
        bytemuck::fill_zeroes(below);
        bytemuck::fill_zeroes(&mut from[..j]);
        from[j] = T::one();
    }
    MatRef::from_column_major_slice(r, width, width)
}

/// `C ← Q·C`, `Qᴴ·C`, `C·Q` or `C·Qᴴ` with the Q of [`geqrt`].
///
/// - `v`, `t`: what `geqrt` left, `m × k` and `ib × k`
/// - `c`: m rows, or from the right m columns; overwritten
///
/// About 4·m·k·n flops for n columns (rows) of C, and ib/(4·m) as much again for T.
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, Op, Side, gemqrt, geqrt};
/// use dataflow_linalg::matrix::tile::Tile;
/// let mut a = Tile::from_rows([[3.0_f64], [4.0]]);
/// let (mut v, mut t) = (a.clone(), Tile::from_rows([[0.0]]));
/// geqrt(Backend::Auto, &mut a, &mut v, &mut t);
/// let mut c = Tile::from_rows([[3.0], [4.0]]);
/// gemqrt(Backend::Auto, (Side::Left, Op::ConjTranspose), &v, &t, &mut c);
/// assert!((c.get(0, 0) + 5.0).abs() < 1e-14 && c.get(1, 0).abs() < 1e-14);
/// ```
#[track_caller]
pub fn gemqrt<T: Scalar>(
    backend: Backend,
    (side, op): (Side, Op),
    v: &Tile<T>,
    t: &Tile<T>,
    c: &mut Tile<T>,
) {
    let (layout, ib) = (v.layout(), t.rows());
    let (m, k) = (layout.rows, layout.cols);
    let (acted_on, others) = match side {
        Side::Left => (c.rows(), c.cols()),
        Side::Right => (c.cols(), c.rows()),
    };
    assert!(
        acted_on == m && t.cols() == k && op != Op::Transpose,
        "gemqrt: {op:?} of a Q of order {m} from the {side:?} for {} × {}, T {ib} × {}, V {m} × {k}",
        c.rows(),
        c.cols(),
        t.cols()
    );
    with_scratch(2 * ib.min(k) * others, |work: &mut [T]| {
        for block in in_order(blocks(k, ib, layout.format), (side, op)) {
            let basis = Basis {
                elements: v.as_slice(),
                layout,
                first_row: 0,
                rows: block.start..m,
                cols: block.clone(),
            };
            let triangle = t.layout().place(0..block.len(), block);
            let triangle = triangle.of(t.as_slice());
            basis.apply(backend, (side, op), triangle, None, (c, 0..others), work);
        }
    });
}

/// The first k columns of the Q of [`geqrt`]: `q` ← Q·I, without the zeros above the blocks.
///
/// - `v`, `t`: what `geqrt` left, `m × k` and `ib × k`
/// - `q`: `m × k`, overwritten
///
/// 4·k²·(m − k/3) flops at most (4 times as many for complex numbers), and those of T: those of
/// [`gemqrt`] on I that are not with zeros, with the same bits.
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, geqrt, orgqr};
/// use dataflow_linalg::matrix::tile::Tile;
/// let mut a = Tile::from_rows([[3.0_f64], [4.0]]);
/// let (mut v, mut t) = (a.clone(), Tile::from_rows([[0.0]]));
/// geqrt(Backend::Auto, &mut a, &mut v, &mut t);
/// let mut q = a.clone();
/// orgqr(Backend::Auto, &v, &t, &mut q);
/// assert!((q.get(0, 0) + 0.6).abs() < 1e-15 && (q.get(1, 0) + 0.8).abs() < 1e-15);
/// ```
#[track_caller]
pub fn orgqr<T: Scalar>(backend: Backend, v: &Tile<T>, t: &Tile<T>, q: &mut Tile<T>) {
    let (layout, ib) = (v.layout(), t.rows());
    let (m, k) = (layout.rows, layout.cols);
    assert!(
        (q.rows(), q.cols(), t.cols()) == (m, k, k),
        "orgqr: Q {} × {}, T {ib} × {}, V {m} × {k}",
        q.rows(),
        q.cols(),
        t.cols()
    );
    fill(T::zero(), q, 0..m, 0..k);
    (0..k).for_each(|d| q.set(d, d, T::one()));
    let from_the_left = (Side::Left, Op::NoTranspose);
    with_scratch(2 * ib.min(k) * k, |work: &mut [T]| {
        for block in blocks(k, ib, layout.format).rev() {
            let basis = Basis {
                elements: v.as_slice(),
                layout,
                first_row: 0,
                rows: block.start..m,
                cols: block.clone(),
            };
            // In the columns before there are zeros yet from this row on.
            let others = block.start..k;
            let triangle = t.layout().place(0..block.len(), block);
            let triangle = triangle.of(t.as_slice());
            basis.apply(backend, from_the_left, triangle, None, (q, others), work);
        }
    });
}
