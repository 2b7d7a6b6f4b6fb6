//! `trsm`: triangular solves with a tile's lower triangle, from the right and from the left.

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::herk::half;
use super::product::product;
use super::scratch::with_scratch;
use super::{Backend, Op};
use crate::matrix::tile::{Layout, Place, Tile, cuts};
use crate::scalar::Scalar;

/// `B ← B·L⁻ᴴ`: the panel step of the tile Cholesky factorisation.
///
/// - `l`: `n × n`, lower triangle, non-unit diagonal; the strict upper triangle is not read
/// - `b`: `m × n`, overwritten
///
/// `m·n²` flops (4 times as many for complex numbers).
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
/// use dataflow_linalg::kernel::{Backend, trsm};
/// use dataflow_linalg::matrix::tile::Tile;
/// let l = Tile::from_rows([[2.0, 0.0], [1.0, 4.0]]);
/// let mut b = Tile::from_rows([[4.0, 10.0]]);
/// trsm(Backend::Auto, &l, &mut b);
/// assert_eq!(b, Tile::from_rows([[2.0, 2.0]])); // [2, 2]·Lᵀ = [4, 10]
/// ```
pub fn trsm<T: Scalar>(backend: Backend, l: &Tile<T>, b: &mut Tile<T>) {
    let (l_layout, b_layout) = (l.layout(), b.layout());
    expect_triangle(l_layout, b_layout.cols, b_layout);
    let formats = [l_layout.format, b_layout.format];
    let (l, b) = (l.as_slice(), b.as_mut_slice());
    for i in cuts(b_layout.rows, formats) {
        for j in cuts(b_layout.cols, formats) {
            let here = b_layout.place(i.clone(), j.clone());
            // Within a row of blocks, columns lie in storage one after the other.
            let (solved, rest) = b.split_at_mut(here.start);
            let mut target = Place { start: 0, ..here }.of_mut(rest);
            for k in cuts(j.start, formats) {
                // B[i,j] ← B[i,j] − B[i,k]·L[j,k]ᴴ
                let left = b_layout.place(i.clone(), k.clone()).of(solved);
                let right = l_layout.place(j.clone(), k).of(l);
                let (left, right) = ((Op::NoTranspose, left), (Op::ConjTranspose, right));
                product(backend, left, right, target.rb_mut());
            }
            trsm_block(backend, l_layout.place(j.clone(), j).of(l), target);
        }
    }
}

/// `B ← op(L)⁻¹·B`: a step of the solution with a factored matrix.
///
/// - `l`: `m × m`, lower triangle, non-unit diagonal; the strict upper triangle is not read
/// - `b`: `m × n`, overwritten
///
/// `n·m²` flops (4 times as many for complex numbers).
///
/// # Panics
/// If the shapes disagree: a fault of the task space, never of the data.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, Op, trsm_left};
/// use dataflow_linalg::matrix::tile::Tile;
/// let l = Tile::from_rows([[2.0, 0.0], [1.0, 4.0]]);
/// let mut b = Tile::from_rows([[4.0], [10.0]]);
/// trsm_left(Backend::Auto, &l, Op::NoTranspose, &mut b);
/// assert_eq!(b, Tile::from_rows([[2.0], [2.0]]));
/// ```
pub fn trsm_left<T: Scalar>(backend: Backend, l: &Tile<T>, op: Op, b: &mut Tile<T>) {
    let (l_layout, b_layout) = (l.layout(), b.layout());
    let m = b_layout.rows;
    expect_triangle(l_layout, m, b_layout);
    let formats = [l_layout.format, b_layout.format];
    let pieces = || cuts(m, formats);
    let steps = pieces().count();
    let (l, b) = (l.as_slice(), b.as_mut_slice());
    for j in cuts(b_layout.cols, formats) {
        for step in 0..steps {
            let at = match op {
                Op::NoTranspose => step,
                Op::ConjTranspose => steps - 1 - step,
            };
            let Some(k) = pieces().nth(at) else { continue };
            let here = b_layout.place(k.clone(), j.clone());
            // B[k,j] ← op(L[k,k])⁻¹·B[k,j]
            let triangle = l_layout.place(k.clone(), k.clone()).of(l);
            T::faer_trsm_left(op, triangle, here.of_mut(b));
            // A copy: in a column-major tile the rows of a column cannot be borrowed apart.
            with_scratch(here.rows * here.cols, |copy: &mut [T]| {
                let dense = Place {
                    start: 0,
                    stride: here.rows,
                    ..here
                };
                dense.of_mut(copy).copy_from(here.of(b));
                let remaining = match op {
                    Op::NoTranspose => at + 1..steps,
                    Op::ConjTranspose => 0..at,
                };
                for i in pieces().skip(remaining.start).take(remaining.len()) {
                    // B[i,j] ← B[i,j] − op(L)[i,k]·B[k,j]
                    let left = match op {
                        Op::NoTranspose => l_layout.place(i.clone(), k.clone()),
                        Op::ConjTranspose => l_layout.place(k.clone(), i.clone()),
                    };
                    let target = b_layout.place(i, j.clone()).of_mut(b);
                    let right = (Op::NoTranspose, dense.of(copy));
                    product(backend, (op, left.of(l)), right, target);
                }
            });
        }
    }
}

/// Panics unless `l` is of order `n`, the side of `b` that it is applied to.
fn expect_triangle(l: Layout, n: usize, b: Layout) {
    assert!(
        l.rows == n && l.cols == n,
        "trsm: {} × {} triangle for {} × {}",
        l.rows,
        l.cols,
        b.rows,
        b.cols
    );
}

/// Largest order of a triangle that is left to one call.
const LEAF: usize = 48;

/// `B ← B·L⁻ᴴ` on blocks: halves of L down to [`LEAF`], the square below them as a product.
pub(super) fn trsm_block<T: Scalar>(backend: Backend, l: MatRef<'_, T>, b: MatMut<'_, T>) {
    let n = l.nrows();
    if n <= LEAF {
        return T::faer_trsm(l, b);
    }
    let half = half(n);
    let (l00, _, l10, l11) = l.split_at(half, half);
    let (mut b0, mut b1) = b.split_at_col_mut(half);
    trsm_block(backend, l00, b0.rb_mut());
    // B1 ← B1 − B0·L10ᴴ
    product(
        backend,
        (Op::NoTranspose, b0.rb()),
        (Op::ConjTranspose, l10),
        b1.rb_mut(),
    );
    trsm_block(backend, l11, b1);
}
