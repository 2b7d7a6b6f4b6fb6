//! `solve_leading`: a solve with the upper triangle that a factored tile begins with.

use ::faer::prelude::ReborrowMut;
use ::faer::{MatMut, MatRef};

use super::basis::{copy_from, copy_to};
use super::scratch::with_scratch;
use super::{Diagonal, Op, Side, Triangle};
use crate::matrix::tile::Tile;
use crate::scalar::Scalar;

/// `X ← op(R)⁻¹·B` with the leading square of a tile, upper triangular of order `k`, the lesser of
/// its rows and columns.
///
/// - `r`: what lies below its diagonal or beyond the square is not read
/// - `b`: at least k rows, of which the first k are read
/// - `x`: at least k rows and as many columns as `b`; the first k rows are overwritten
///
/// `n·k²` flops for n columns; always faer's.
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Op, solve_leading};
/// use dataflow_linalg::matrix::tile::Tile;
/// let r = Tile::from_rows([[2.0, 1.0], [0.0, 4.0], [0.0, 0.0]]);
/// let b = Tile::from_rows([[5.0], [4.0], [9.0]]);
/// let mut x = Tile::from_rows([[0.0], [0.0]]);
/// solve_leading(Op::NoTranspose, &r, &b, &mut x);
/// assert_eq!(x, Tile::from_rows([[2.0], [1.0]]));
/// ```
#[track_caller]
pub fn solve_leading<T: Scalar>(op: Op, r: &Tile<T>, b: &Tile<T>, x: &mut Tile<T>) {
    let (k, n) = (r.rows().min(r.cols()), b.cols());
    assert!(
        b.rows() >= k && x.rows() >= k && x.cols() == n,
        "solve_leading: {k} × {k} triangle for {} × {n}, X {} × {}",
        b.rows(),
        x.rows(),
        x.cols()
    );
    with_scratch(k * k + k * n, |scratch: &mut [T]| {
        let (triangle, sides) = scratch.split_at_mut(k * k);
        let mut square = MatMut::from_column_major_slice_mut(triangle, k, k);
        copy_from(r, 0..k, 0..k, square.rb_mut());
        let mut sides_of = MatMut::from_column_major_slice_mut(sides, k, n);
        copy_from(b, 0..k, 0..n, sides_of.rb_mut());
        let upper = (Triangle::Upper, Diagonal::NonUnit);
        let square = MatRef::from_column_major_slice(triangle, k, k);
        T::faer_trsm_op(Side::Left, op, upper, square, sides_of);
        let solved = MatRef::from_column_major_slice(sides, k, n);
        copy_to(solved, x, 0..k, 0..n);
    });
}
