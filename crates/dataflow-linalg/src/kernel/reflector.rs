//! Blocks of Householder reflectors, H₀·H₁·… = I − V·T·Vᴴ with T upper triangular: how columns
//! become one, and how it is applied.
//!
//! # Law
//! A panel is halved down to narrow ones; what one half does to the other is products, and so is the square of T above its two triangles. The diagonal of R is real.
//!
//! # Elsewhere
//! One reflector: `larfg.rs`. Narrow panels, column by column: `narrow.rs`. Whole tiles:
//! [`geqrt`](super::geqrt), [`tpqrt`](super::tpqrt), [`gemqrt`](super::gemqrt), [`tpmqrt`](super::tpmqrt).
//!
//! # Source
//! T: Schreiber and Van Loan, *A storage-efficient WY
//! representation for products of Householder transformations*, SIAM J. Sci. Stat. Comput. 10
//! (1989). Halves: Elmroth and Gustavson, *Applying recursion to serial and parallel QR
//! factorization leads to better performance*, IBM J. Res. Dev. 44 (2000).

use std::ops::Range;

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::herk::half;
use super::larfg::contiguous;
use super::narrow::{WIDEST, narrow_panel, narrow_under};
use super::product::{product, product_from_left};
use super::vectors::{self, InVectors};
use super::{Backend, Op, Side};
use crate::scalar::Scalar;

/// What stands below the triangle in a pair of blocks that is factored together.
///
/// # Examples
/// What trees of QR eliminate: the flat one squares, the binary one triangles.
/// ```
/// use dataflow_linalg::kernel::Below;
/// use dataflow_linalg::qr::Tree;
/// let first = |tree: Tree| tree.kills(2, 1)[0][0].below;
/// assert_eq!([first(Tree::Flat), first(Tree::Binary)], [Below::Square, Below::Triangle]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Below {
    /// A full block: LAPACK's `tpqrt` with L = 0, the TS kernels of tile QR.
    Square,
    /// An upper triangle (or trapezoid), zero below its diagonal: L = N, the TT kernels.
    Triangle,
}

impl Below {
    /// How many of `all` rows the columns before `end` reach.
    pub(super) fn rows(self, all: usize, end: usize) -> usize {
        match self {
            Below::Square => all,
            Below::Triangle => all.min(end),
        }
    }
}

/// Rows of V, for the rows (or from the right the columns) of what it is applied to.
pub(super) enum Rows<'a, T> {
    /// These rows of an identity.
    Unit(Range<usize>),
    /// Any.
    Of(MatRef<'a, T>),
}

/// C ← (I − V·op(T)·Vᴴ)·C, or from the right C·(I − V·op(T)·Vᴴ).
///
/// `pieces` tells, each time it is called, rows of V and the rows (columns) of C that they are for,
/// in the order of the sums. `others` is the number of columns (rows) of C. T with zeros below its
/// diagonal; `work` holds 2 · order of T · `others` elements.
pub(super) fn reflect<T: Scalar>(
    backend: Backend,
    (side, op): (Side, Op),
    t: MatRef<'_, T>,
    others: usize,
    work: &mut [T],
    mut pieces: impl FnMut(&mut dyn FnMut(Rows<'_, T>, MatMut<'_, T>)),
) {
    let k = t.ncols();
    let (rows, cols) = match side {
        Side::Left => (k, others),
        Side::Right => (others, k),
    };
    let (w, x) = work[..2 * k * others].split_at_mut(k * others);
    bytemuck::fill_zeroes(w);
    bytemuck::fill_zeroes(x);
    let mut w = MatMut::from_column_major_slice_mut(w, rows, cols);
    let mut x = MatMut::from_column_major_slice_mut(x, rows, cols);
    let plain = Op::NoTranspose;
    // W ← −Vᴴ·C, or −C·V
    pieces(&mut |v, c| match (side, v) {
        (Side::Left, Rows::Unit(at)) => {
            subtract(c.rb(), w.rb_mut().subrows_mut(at.start, at.len()))
        }
        (Side::Right, Rows::Unit(at)) => {
            subtract(c.rb(), w.rb_mut().subcols_mut(at.start, at.len()));
        }
        (Side::Left, Rows::Of(v)) => {
            product_from_left(backend, (Op::ConjTranspose, v), c.rb(), w.rb_mut());
        }
        (Side::Right, Rows::Of(v)) => product(backend, (plain, c.rb()), (plain, v), w.rb_mut()),
    });
    // X ← op(T)·Vᴴ·C, or C·V·op(T)
    match side {
        Side::Left => product_from_left(backend, (op, t), w.rb(), x.rb_mut()),
        Side::Right => product(backend, (plain, w.rb()), (op, t), x.rb_mut()),
    }
    let x = x.rb();
    // C ← C − V·X, or C − X·Vᴴ
    pieces(&mut |v, c| match (side, v) {
        (Side::Left, Rows::Unit(at)) => subtract(x.subrows(at.start, at.len()), c),
        (Side::Right, Rows::Unit(at)) => subtract(x.subcols(at.start, at.len()), c),
        (Side::Left, Rows::Of(v)) => product_from_left(backend, (plain, v), x, c),
        (Side::Right, Rows::Of(v)) => product(backend, (plain, x), (Op::ConjTranspose, v), c),
    });
}

/// C ← C − A.
fn subtract<T: Scalar>(a: MatRef<'_, T>, c: MatMut<'_, T>) {
    vectors::compute(Subtract { a, c });
}

struct Subtract<'a, T> {
    a: MatRef<'a, T>,
    c: MatMut<'a, T>,
}

impl<T: Scalar> InVectors for Subtract<'_, T> {
    #[inline(always)]
    fn compute<const LINES: usize>(mut self) {
        for j in 0..self.a.ncols() {
            let Some(from) = self.a.col(j).try_as_col_major() else {
                unreachable!("columns of blocks and scratch lie whole");
            };
            let (from, to) = (from.as_slice(), contiguous(&mut self.c, j));
            // By index: of a zip, columns that are short would be a call each.
            let from = &from[..to.len()];
            for i in 0..to.len() {
                to[i] -= from[i];
            }
        }
    }
}

/// Elements of scratch that a panel of `width` columns takes.
pub(super) const fn panel_scratch(width: usize) -> usize {
    3 * width * width
}

/// Makes what is below the diagonal of a panel vanish; `a` has no more columns than rows.
///
/// `a` becomes R on and above the diagonal and V below it; `t` becomes T, zero below its diagonal.
pub(super) fn panel<T: Scalar>(
    backend: Backend,
    a: MatMut<'_, T>,
    t: MatMut<'_, T>,
    scratch: &mut [T],
) {
    let n = a.ncols();
    if n <= WIDEST {
        return narrow_panel(a, t);
    }
    let h = half(n);
    let w = n - h;
    let (mut left, mut right) = a.split_at_col_mut(h);
    let (mut t00, t01, mut t10, mut t11) = t.split_at_mut(h, h);
    t10.fill(T::zero());
    panel(backend, left.rb_mut(), t00.rb_mut(), scratch);
    let (unit, work) = scratch.split_at_mut(h * h);
    let left = left.rb();
    let unit = unit_lower(left.subrows(0, h), unit);
    let adjoint = (Side::Left, Op::ConjTranspose);
    reflect(backend, adjoint, t00.rb(), w, work, |each| {
        let (top, below) = right.rb_mut().split_at_row_mut(h);
        each(Rows::Of(unit), top);
        each(Rows::Of(left.get(h.., ..)), below);
    });
    let mut right = right.get_mut(h.., ..);
    panel(backend, right.rb_mut(), t11.rb_mut(), scratch);
    let (unit, work) = scratch.split_at_mut(w * w);
    let right = right.rb();
    let unit = unit_lower(right.subrows(0, w), unit);
    let (below_left, below_right) = (left.get(h + w.., ..), right.get(w.., ..));
    let rows = [(left.subrows(h, w), unit), (below_left, below_right)];
    join(backend, (t00.rb(), t11.rb()), rows, t01, work);
}

/// Makes `below` vanish under the upper triangle `r` of as many columns.
///
/// `r` becomes the new R, `below` becomes V, which goes on above as an identity. Column j of a
/// triangle below has `offset + j + 1` rows and zeros under them.
pub(super) fn stacked_panel<T: Scalar>(
    backend: Backend,
    r: MatMut<'_, T>,
    below: MatMut<'_, T>,
    (shape, offset): (Below, usize),
    t: MatMut<'_, T>,
    scratch: &mut [T],
) {
    let n = r.ncols();
    if n <= WIDEST {
        let rows = shape.rows(below.nrows(), offset + n);
        return narrow_under(r, below.subrows_mut(0, rows), t);
    }
    let h = half(n);
    let rows = shape.rows(below.nrows(), offset + h);
    let (mut left, mut right) = below.split_at_col_mut(h);
    let (r00, mut r01, _, r11) = r.split_at_mut(h, h);
    let (mut t00, t01, mut t10, mut t11) = t.split_at_mut(h, h);
    t10.fill(T::zero());
    let first = (shape, offset);
    stacked_panel(backend, r00, left.rb_mut(), first, t00.rb_mut(), scratch);
    let left = left.rb().subrows(0, rows);
    let adjoint = (Side::Left, Op::ConjTranspose);
    reflect(backend, adjoint, t00.rb(), n - h, scratch, |each| {
        each(Rows::Unit(0..h), r01.rb_mut());
        each(Rows::Of(left), right.rb_mut().subrows_mut(0, rows));
    });
    let second = (shape, offset + h);
    stacked_panel(backend, r11, right.rb_mut(), second, t11.rb_mut(), scratch);
    let right = right.rb().subrows(0, rows);
    join(backend, (t00.rb(), t11.rb()), [(left, right)], t01, scratch);
}

/// T₀₁ ← −T₀₀·V₀ᴴ·V₁·T₁₁, with V₀ and V₁ in pieces of rows.
fn join<T: Scalar, const N: usize>(
    backend: Backend,
    (t00, t11): (MatRef<'_, T>, MatRef<'_, T>),
    rows: [(MatRef<'_, T>, MatRef<'_, T>); N],
    mut t01: MatMut<'_, T>,
    work: &mut [T],
) {
    let (m, n) = (t01.nrows(), t01.ncols());
    let (s, y) = work[..2 * m * n].split_at_mut(m * n);
    bytemuck::fill_zeroes(s);
    bytemuck::fill_zeroes(y);
    let mut s = MatMut::from_column_major_slice_mut(s, m, n);
    let mut y = MatMut::from_column_major_slice_mut(y, m, n);
    let plain = Op::NoTranspose;
    for (v0, v1) in rows {
        product(backend, (Op::ConjTranspose, v0), (plain, v1), s.rb_mut());
    }
    product(backend, (plain, t00), (plain, s.rb()), y.rb_mut());
    t01.fill(T::zero());
    product(backend, (plain, y.rb()), (plain, t11), t01);
}

/// The unit lower triangle of a square, with its ones and zeros.
pub(super) fn unit_lower<'a, T: Scalar>(v: MatRef<'_, T>, storage: &'a mut [T]) -> MatRef<'a, T> {
    let n = v.ncols();
    for (j, column) in storage[..n * n].chunks_exact_mut(n).enumerate() {
        let (above, below) = column.split_at_mut(j);
        above.fill(T::zero());
        below[0] = T::one();
        for (i, x) in (j + 1..n).zip(&mut below[1..]) {
            *x = v[(i, j)];
        }
    }
    MatRef::from_column_major_slice(&storage[..n * n], n, n)
}
