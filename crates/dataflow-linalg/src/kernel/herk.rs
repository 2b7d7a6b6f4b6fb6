//! `herk`: the update of a diagonal tile by the product of a tile with itself.

use ::faer::prelude::ReborrowMut;
use ::faer::{MatMut, MatRef};

use super::product::{product, square};
use super::{Backend, Op, faer};
use crate::matrix::tile::{Tile, cuts};
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
pub fn herk<T: Scalar>(backend: Backend, a: &Tile<T>, c: &mut Tile<T>) {
    let (a_layout, c_layout) = (a.layout(), c.layout());
    let n = c_layout.rows;
    assert!(
        c_layout.cols == n && a_layout.rows == n,
        "herk: {n} × {} ← {} × {} times its own transpose",
        c_layout.cols,
        a_layout.rows,
        a_layout.cols
    );
    let formats = [a_layout.format, c_layout.format];
    let (a, c) = (a.as_slice(), c.as_mut_slice());
    for i in cuts(n, formats) {
        for j in cuts(i.end, formats) {
            let mut target = c_layout.place(i.clone(), j.clone()).of_mut(c);
            if i == j {
                make_diagonal_real(target.rb_mut());
            }
            for l in cuts(a_layout.cols, formats) {
                let left = a_layout.place(i.clone(), l.clone()).of(a);
                if i == j {
                    herk_block(backend, left, target.rb_mut());
                } else {
                    let right = a_layout.place(j.clone(), l).of(a);
                    let (left, right) = ((Op::NoTranspose, left), (Op::ConjTranspose, right));
                    product(backend, left, right, target.rb_mut());
                }
            }
        }
    }
}

/// Largest order of a block whose triangle is left to one call.
const LEAF: usize = 48;

/// `C ← C − A·Aᴴ` on blocks: halves of C down to [`LEAF`], the square below them as a product.
pub(super) fn herk_block<T: Scalar>(backend: Backend, a: MatRef<'_, T>, c: MatMut<'_, T>) {
    let (n, mut c) = (c.nrows(), c);
    make_diagonal_real(c.rb_mut());
    if square(backend, a, c.rb_mut()) {
        return;
    }
    if n <= LEAF {
        return herk_leaf(a, c);
    }
    let half = half(n);
    let (upper, lower) = a.split_at_row(half);
    let (c00, _, c10, c11) = c.split_at_mut(half, half);
    herk_block(backend, upper, c00);
    // C10 ← C10 − A1·A0ᴴ
    product(
        backend,
        (Op::NoTranspose, lower),
        (Op::ConjTranspose, upper),
        c10,
    );
    herk_block(backend, lower, c11);
}

/// Where a block of order `n` is halved: a multiple of 8 keeps the vector registers full.
pub(super) fn half(n: usize) -> usize {
    (n / 2).next_multiple_of(8)
}

fn herk_leaf<T: Scalar>(a: MatRef<'_, T>, mut c: MatMut<'_, T>) {
    make_diagonal_real(c.rb_mut());
    faer::herk(a, c.rb_mut());
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
