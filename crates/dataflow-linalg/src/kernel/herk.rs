//! `herk`: the update of a diagonal tile by the product of a tile with itself.

use std::ops::Range;

use ::faer::prelude::ReborrowMut;
use ::faer::{MatMut, MatRef};

use super::product::{product_add, square};
use super::{Backend, Op};
use crate::matrix::tile::{Tile, TileLayout, cuts};
use crate::scalar::Scalar;

/// `C ← C − A·Aᴴ`, lower triangle: BLAS calls it `syrk` for real, `herk` for complex numbers.
///
/// - `a`: `n × k`
/// - `c`: `n × n`; its lower triangle is overwritten, its strict upper triangle neither read nor
///   written; imaginary parts on its diagonal are not read and become 0
///
/// `k·n·(n + 1)` flops (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, herk};
/// use dataflow_linalg::matrix::tile::Tile;
/// let a = Tile::from_rows([[1.0], [2.0]]);
/// let mut c = Tile::from_rows([[4.0, 7.0], [2.0, 9.0]]);
/// herk(Backend::Auto, &a, &mut c);
/// assert_eq!(c, Tile::from_rows([[3.0, 7.0], [0.0, 5.0]]));
/// ```
#[track_caller]
pub fn herk<T: Scalar>(backend: Backend, a: &Tile<T>, c: &mut Tile<T>) {
    herk_add(backend, -1.0, (Op::NoTranspose, a), c);
}

/// `C ← C + α·A·Aᴴ` or `C + α·Aᴴ·A`, lower triangle, α real: [`herk`] with a choice of sign and side.
///
/// # Panics
/// If the shapes disagree, or the operation is [`Op::Transpose`], which is no `herk` for complex
/// numbers.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, Op, herk_add};
/// use dataflow_linalg::matrix::tile::Tile;
/// let a = Tile::from_rows([[1.0, 2.0]]);
/// let mut c = Tile::from_rows([[4.0, 7.0], [2.0, 9.0]]);
/// herk_add(Backend::Auto, 1.0, (Op::ConjTranspose, &a), &mut c);
/// assert_eq!(c, Tile::from_rows([[5.0, 7.0], [4.0, 13.0]]));
/// ```
#[track_caller]
pub fn herk_add<T: Scalar>(backend: Backend, alpha: f64, (op, a): (Op, &Tile<T>), c: &mut Tile<T>) {
    let (a_layout, c_layout) = (a.layout(), c.layout());
    let (n, inner) = (c_layout.rows, square_agrees(op, a_layout, c_layout));
    let formats = [a_layout.format, c_layout.format];
    let (a, c) = (a.as_slice(), c.as_mut_slice());
    // Block (i, l) of op(A), as it lies in A.
    let block = |i: Range<usize>, l: Range<usize>| match op {
        Op::NoTranspose => (op, a_layout.place(i, l).of(a)),
        _ => (op, a_layout.place(l, i).of(a)),
    };
    for i in cuts(n, formats) {
        for j in cuts(i.end, formats) {
            let mut target = c_layout.place(i.clone(), j.clone()).of_mut(c);
            if i == j {
                make_diagonal_real(target.rb_mut());
            }
            for l in cuts(inner, formats) {
                let left = block(i.clone(), l.clone());
                if i == j {
                    herk_block(backend, alpha, left, target.rb_mut());
                } else {
                    let right = adjoint(block(j.clone(), l));
                    product_add(backend, T::from_real(alpha), left, right, target.rb_mut());
                }
            }
        }
    }
}

/// op(X)ᴴ for the two operations of `herk`.
fn adjoint<T>((op, x): (Op, MatRef<'_, T>)) -> (Op, MatRef<'_, T>) {
    match op {
        Op::NoTranspose => (Op::ConjTranspose, x),
        _ => (Op::NoTranspose, x),
    }
}

/// The inner length of the product of a tile with itself, if there is one.
#[track_caller]
pub(super) fn square_agrees(op: Op, a: TileLayout, c: TileLayout) -> usize {
    let (rows, inner) = match op {
        Op::NoTranspose => (a.rows, a.cols),
        Op::ConjTranspose => (a.cols, a.rows),
        Op::Transpose => panic!("herk: the product of a matrix with its plain transpose"),
    };
    assert!(
        c.cols == c.rows && rows == c.rows,
        "herk: {} × {} ← {rows} × {inner} times its own transpose",
        c.rows,
        c.cols,
    );
    inner
}

/// Largest order of a block whose triangle is left to one call.
const LEAF: usize = 48;

/// `C ← C + α·op(A)·op(A)ᴴ` on blocks: halves of C down to [`LEAF`], the square below them as a
/// product.
pub(super) fn herk_block<T: Scalar>(
    backend: Backend,
    alpha: f64,
    (op, a): (Op, MatRef<'_, T>),
    c: MatMut<'_, T>,
) {
    let (n, mut c) = (c.nrows(), c);
    make_diagonal_real(c.rb_mut());
    if square(backend, alpha, (op, a), c.rb_mut()) {
        return;
    }
    if n <= LEAF {
        return herk_leaf(alpha, (op, a), c);
    }
    let half = half(n);
    let (upper, lower) = match op {
        Op::NoTranspose => a.split_at_row(half),
        _ => a.split_at_col(half),
    };
    let (c00, _, c10, c11) = c.split_at_mut(half, half);
    herk_block(backend, alpha, (op, upper), c00);
    // C10 ← C10 + α·A1·A0ᴴ
    product_add(
        backend,
        T::from_real(alpha),
        (op, lower),
        adjoint((op, upper)),
        c10,
    );
    herk_block(backend, alpha, (op, lower), c11);
}

/// Where a block of order `n` is halved: a multiple of 8 keeps the vector registers full.
pub(super) fn half(n: usize) -> usize {
    (n / 2).next_multiple_of(8)
}

fn herk_leaf<T: Scalar>(alpha: f64, (op, a): (Op, MatRef<'_, T>), mut c: MatMut<'_, T>) {
    make_diagonal_real(c.rb_mut());
    T::faer_herk(alpha, op, a, c.rb_mut());
    // Rounding of fused products leaves imaginary parts.
    make_diagonal_real(c);
}

pub(super) fn make_diagonal_real<T: Scalar>(mut c: MatMut<'_, T>) {
    if T::IS_COMPLEX {
        for i in 0..c.nrows() {
            c[(i, i)] = T::from_real(c[(i, i)].re());
        }
    }
}
