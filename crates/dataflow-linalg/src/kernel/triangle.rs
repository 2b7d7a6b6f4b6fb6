//! `trtri`, `lauum`, `trmm`: inverse and square of a lower triangle, product with any.
//!
//! # Law
//! A triangle is gathered, without gaps and with zeros in the other one, so that one sequential
//! call of faer sees it whole: bits depend on its order and contents alone, not on its format. What lies in
//! the other triangle of a tile is neither read nor written.

use ::faer::{MatMut, MatRef};

use super::scratch::with_scratch;
use super::{Diagonal, Op, Side, Triangle};
use crate::matrix::tile::Tile;
use crate::scalar::Scalar;

/// `L ← L⁻¹`, lower triangle, non-unit diagonal. n³/3 flops (4 times as many for complex numbers).
///
/// A zero on the diagonal gives infinities: LAPACK's INFO of `trtri` is not looked for, since a
/// factor has none.
///
/// # Panics
/// If the tile is not square.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::trtri;
/// use dataflow_linalg::matrix::tile::Tile;
/// let mut l = Tile::from_rows([[2.0, 7.0], [1.0, 4.0]]);
/// trtri(&mut l);
/// assert_eq!(l, Tile::from_rows([[0.5, 7.0], [-0.125, 0.25]]));
/// ```
#[track_caller]
pub fn trtri<T: Scalar>(l: &mut Tile<T>) {
    replace(l, |triangle, result| T::faer_trtri(triangle, result));
}

/// `L ← Lᴴ·L`, the lower triangle of it; its diagonal is real. n³/3 flops (4 times as many for
/// complex numbers).
///
/// # Panics
/// If the tile is not square.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::lauum;
/// use dataflow_linalg::matrix::tile::Tile;
/// let mut l = Tile::from_rows([[2.0, 7.0], [1.0, 4.0]]);
/// lauum(&mut l);
/// assert_eq!(l, Tile::from_rows([[5.0, 7.0], [4.0, 16.0]]));
/// ```
#[track_caller]
pub fn lauum<T: Scalar>(l: &mut Tile<T>) {
    replace(l, |triangle, mut result| {
        T::faer_lauum(triangle, result.as_mut());
        for j in 0..result.ncols() {
            result[(j, j)] = T::from_real(result[(j, j)].re());
        }
    });
}

/// `B ← α·op(L)·B` with the lower triangle of `l`. n·m² flops (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Op, trmm};
/// use dataflow_linalg::matrix::tile::Tile;
/// let l = Tile::from_rows([[2.0, 7.0], [1.0, 4.0]]);
/// let mut b = Tile::from_rows([[1.0], [10.0]]);
/// trmm(-1.0, (Op::ConjTranspose, &l), &mut b);
/// assert_eq!(b, Tile::from_rows([[-12.0], [-40.0]]));
/// ```
#[track_caller]
pub fn trmm<T: Scalar>(alpha: T, (op, l): (Op, &Tile<T>), b: &mut Tile<T>) {
    let shape = (Triangle::Lower, Diagonal::NonUnit);
    trmm_op(alpha, Side::Left, (op, shape, l), b);
}

/// `B ← α·op(A)·B` or `B ← α·B·op(A)` with any triangle: BLAS's `trmm`. The other triangle, and a
/// diagonal of ones, are not read.
///
/// n·m² flops on the left, m·n² on the right (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Diagonal, Op, Side, Triangle, trmm_op};
/// use dataflow_linalg::matrix::tile::Tile;
/// let u = Tile::from_rows([[2.0, 7.0], [0.0, 4.0]]);
/// let mut b = Tile::from_rows([[1.0, 10.0]]);
/// let shape = (Triangle::Upper, Diagonal::Unit);
/// trmm_op(2.0, Side::Right, (Op::NoTranspose, shape, &u), &mut b);
/// assert_eq!(b, Tile::from_rows([[2.0, 34.0]])); // 2·[1, 7 + 10]
/// ```
#[track_caller]
pub fn trmm_op<T: Scalar>(
    alpha: T,
    side: Side,
    (op, shape, a): (Op, (Triangle, Diagonal), &Tile<T>),
    b: &mut Tile<T>,
) {
    let (m, n) = (b.rows(), b.cols());
    let order = match side {
        Side::Left => m,
        Side::Right => n,
    };
    assert!(
        a.rows() == order && a.cols() == order,
        "trmm: {} × {} triangle for {m} × {n}, {side:?}",
        a.rows(),
        a.cols()
    );
    with_scratch(order * order + 2 * m * n, |scratch: &mut [T]| {
        let (triangle, rest) = scratch.split_at_mut(order * order);
        let (factor, product) = rest.split_at_mut(m * n);
        gather(a, shape, triangle);
        b.write_column_major(factor, m.max(1));
        let triangle = MatRef::from_column_major_slice(triangle, order, order);
        let factor = MatRef::from_column_major_slice(factor, m, n);
        let to = MatMut::from_column_major_slice_mut(product, m, n);
        T::faer_trmm(alpha, side, (op, shape.0, triangle), factor, to);
        b.read_column_major(product, m.max(1));
    });
}

/// Overwrites a lower triangle by what `compute` makes of it.
#[track_caller]
fn replace<T: Scalar>(l: &mut Tile<T>, compute: impl FnOnce(MatRef<'_, T>, MatMut<'_, T>)) {
    let n = l.rows();
    assert!(n == l.cols(), "a triangle in a {n} × {} tile", l.cols());
    with_scratch(2 * n * n, |scratch: &mut [T]| {
        let (triangle, result) = scratch.split_at_mut(n * n);
        gather(l, (Triangle::Lower, Diagonal::NonUnit), triangle);
        result.fill(T::zero());
        let view = MatRef::from_column_major_slice(triangle, n, n);
        compute(view, MatMut::from_column_major_slice_mut(result, n, n));
        // Above the diagonal stays what was there.
        l.write_column_major(triangle, n.max(1));
        for j in 0..n {
            triangle[j * n + j..(j + 1) * n].copy_from_slice(&result[j * n + j..(j + 1) * n]);
        }
        l.read_column_major(triangle, n.max(1));
    });
}

/// A triangle, column-major without gaps, with zeros in the other one and the ones that are not
/// stored.
fn gather<T: Scalar>(a: &Tile<T>, (triangle, diagonal): (Triangle, Diagonal), to: &mut [T]) {
    let n = a.rows();
    a.write_column_major(to, n.max(1));
    for (j, column) in to.chunks_exact_mut(n.max(1)).enumerate() {
        match triangle {
            Triangle::Lower => bytemuck::fill_zeroes(&mut column[..j]),
            Triangle::Upper => bytemuck::fill_zeroes(&mut column[j + 1..]),
        }
        if diagonal == Diagonal::Unit {
            column[j] = T::one();
        }
    }
}
