//! `gemm`: the update of a tile by the product of two others.

use ::faer::prelude::ReborrowMut;

use super::product::{is_by_rows, product_add, product_from_left};
use super::{Backend, Op};
use crate::matrix::tile::{Tile, TileLayout, bands, cuts};
use crate::scalar::Scalar;

/// `C ← C − A·Bᴴ`: the update step of the tile Cholesky factorisation.
///
/// - `a`: `m × k`
/// - `b`: `n × k`
/// - `c`: `m × n`, overwritten
///
/// `2·m·n·k` flops (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Source
/// Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
/// multicore architectures*, Parallel Computing 35 (2009).
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, gemm};
/// use dataflow_linalg::matrix::tile::Tile;
/// let a = Tile::from_rows([[1.0, 2.0], [3.0, 4.0]]);
/// let b = Tile::from_rows([[5.0, 6.0]]);
/// let mut c = Tile::from_rows([[20.0], [40.0]]);
/// gemm(Backend::Auto, &a, &b, &mut c);
/// assert_eq!(c, Tile::from_rows([[3.0], [1.0]]));
/// ```
#[track_caller]
pub fn gemm<T: Scalar>(backend: Backend, a: &Tile<T>, b: &Tile<T>, c: &mut Tile<T>) {
    gemm_op(backend, (Op::NoTranspose, a), (Op::ConjTranspose, b), c);
}

/// `C ← C − op(A)·op(B)`: [`gemm`] with a choice of transposition for each operand.
///
/// # Panics
/// If the shapes disagree.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, Op, gemm_op};
/// use dataflow_linalg::matrix::tile::Tile;
/// let l = Tile::from_rows([[1.0, 2.0], [3.0, 4.0]]);
/// let x = Tile::from_rows([[1.0], [1.0]]);
/// let mut b = Tile::from_rows([[4.0], [6.0]]);
/// gemm_op(Backend::Auto, (Op::ConjTranspose, &l), (Op::NoTranspose, &x), &mut b);
/// assert_eq!(b, Tile::from_rows([[0.0], [0.0]]));
/// ```
#[track_caller]
pub fn gemm_op<T: Scalar>(backend: Backend, a: (Op, &Tile<T>), b: (Op, &Tile<T>), c: &mut Tile<T>) {
    gemm_add(backend, -T::one(), a, b, c);
}

/// `C ← C + α·op(A)·op(B)`: BLAS's `gemm` with β = 1.
///
/// `2·m·n·k` flops (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, Op, gemm_add};
/// use dataflow_linalg::matrix::tile::Tile;
/// let a = Tile::from_rows([[1.0, 2.0]]);
/// let mut c = Tile::from_rows([[1.0]]);
/// gemm_add(Backend::Auto, 3.0, (Op::NoTranspose, &a), (Op::Transpose, &a), &mut c);
/// assert_eq!(c, Tile::from_rows([[16.0]]));
/// ```
#[track_caller]
pub fn gemm_add<T: Scalar>(
    backend: Backend,
    alpha: T,
    (op_a, a): (Op, &Tile<T>),
    (op_b, b): (Op, &Tile<T>),
    c: &mut Tile<T>,
) {
    let (a_layout, b_layout, c_layout) = (a.layout(), b.layout(), c.layout());
    let inner = shapes_agree(op_a, a_layout, op_b, b_layout, c_layout);
    let formats = [a_layout.format, b_layout.format, c_layout.format];
    let (a, b, c) = (a.as_slice(), b.as_slice(), c.as_mut_slice());
    // One row of C after the other: all of B then passes by once a row, from the nearest cache.
    let together = is_by_rows(backend);
    let is_step_of_solve = c_layout.cols == 1 && op_b == Op::NoTranspose && alpha == -T::one();
    for i in bands(c_layout.rows, formats, together) {
        for j in bands(c_layout.cols, formats, together) {
            let mut target = c_layout.place(i.clone(), j.clone()).of_mut(c);
            for l in cuts(inner, formats) {
                let left = match op_a {
                    Op::NoTranspose => a_layout.place(i.clone(), l.clone()),
                    Op::Transpose | Op::ConjTranspose => a_layout.place(l.clone(), i.clone()),
                };
                let right = match op_b {
                    Op::NoTranspose => b_layout.place(l.clone(), j.clone()),
                    Op::Transpose | Op::ConjTranspose => b_layout.place(j.clone(), l.clone()),
                };
                let (left, right) = ((op_a, left.of(a)), right.of(b));
                match is_step_of_solve {
                    true => product_from_left(backend, left, right, target.rb_mut()),
                    false => product_add(backend, alpha, left, (op_b, right), target.rb_mut()),
                }
            }
        }
    }
}

/// The inner length of the product, if there is one.
#[track_caller]
pub(super) fn shapes_agree(
    op_a: Op,
    a: TileLayout,
    op_b: Op,
    b: TileLayout,
    c: TileLayout,
) -> usize {
    let shape = |op, x: TileLayout| match op {
        Op::NoTranspose => (x.rows, x.cols),
        Op::Transpose | Op::ConjTranspose => (x.cols, x.rows),
    };
    let ((m, k), (l, n)) = (shape(op_a, a), shape(op_b, b));
    assert!(
        k == l && (m, n) == (c.rows, c.cols),
        "gemm: {} × {} ← ({m} × {k}) · ({l} × {n})",
        c.rows,
        c.cols
    );
    k
}
