//! `trtri`, `lauum`, `trmm`: inverse, square and product of a lower triangle.
//!
//! # Law
//! A triangle is gathered, without gaps and with zeros above the diagonal, so that one sequential
//! call of faer sees it whole: bits depend on its order and contents alone, not on its format. What lies above
//! the diagonal of a tile is neither read nor written.

use ::faer::{MatMut, MatRef};

use super::Op;
use super::scratch::with_scratch;
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
pub fn trmm<T: Scalar>(alpha: T, (op, l): (Op, &Tile<T>), b: &mut Tile<T>) {
    let (m, n) = (b.rows(), b.cols());
    assert!(
        l.rows() == m && l.cols() == m,
        "trmm: {} × {} triangle for {m} × {n}",
        l.rows(),
        l.cols()
    );
    with_scratch(m * m + 2 * m * n, |scratch: &mut [T]| {
        let (triangle, rest) = scratch.split_at_mut(m * m);
        let (factor, product) = rest.split_at_mut(m * n);
        gather(l, triangle);
        b.write_column_major(factor, m.max(1));
        let triangle = MatRef::from_column_major_slice(triangle, m, m);
        let factor = MatRef::from_column_major_slice(factor, m, n);
        let to = MatMut::from_column_major_slice_mut(product, m, n);
        T::faer_trmm(alpha, (op, triangle), factor, to);
        b.read_column_major(product, m.max(1));
    });
}

/// Overwrites a lower triangle by what `compute` makes of it.
fn replace<T: Scalar>(l: &mut Tile<T>, compute: impl FnOnce(MatRef<'_, T>, MatMut<'_, T>)) {
    let n = l.rows();
    assert!(n == l.cols(), "a triangle in a {n} × {} tile", l.cols());
    with_scratch(2 * n * n, |scratch: &mut [T]| {
        let (triangle, result) = scratch.split_at_mut(n * n);
        gather(l, triangle);
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

/// The lower triangle, column-major without gaps, zeros above.
fn gather<T: Scalar>(l: &Tile<T>, to: &mut [T]) {
    let n = l.rows();
    l.write_column_major(to, n.max(1));
    for (j, column) in to.chunks_exact_mut(n.max(1)).enumerate() {
        column[..j].fill(T::zero());
    }
}
