//! `strongest_columns`: which columns of a tile pivoting takes first.

use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{MatMut, MatRef};

use super::geqrt::geqrt;
use super::larfg::{contiguous, larfg};
use super::product::product;
use super::{Backend, Op};
use crate::matrix::tile::{Format, Tile};
use crate::scalar::{Scalar, smallest_normal};

/// Inner block size of the triangle that is pivoted.
const INNER_BLOCK: usize = 24;

/// The first `most` columns of A in the order in which QR with column pivoting takes them: each is
/// the one that is farthest from the span of those before it.
///
/// A becomes a triangle without pivoting, and that is pivoted: the distances are the same. The norms
/// of what is left of the columns are updated, and computed anew where an update would cancel.
/// About 2·m·n² flops for `m × n` elements, m ≥ n, and 4/3·n³ for n columns.
///
/// # Source
/// Businger and Golub, *Linear least squares solutions by Householder transformations*, Numer. Math.
/// 7 (1965); Drmač and Bujanović, *On the failure of rank-revealing QR factorization software*, ACM
/// Trans. Math. Softw. 35 (2008); LAPACK's `geqp3`.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, strongest_columns};
/// use dataflow_linalg::matrix::tile::Tile;
/// // The third column is the longest; beside it little of the second is left.
/// let a = Tile::from_rows([[1.0, 0.1, 0.0], [0.0, 2.0, 3.0]]);
/// assert_eq!(strongest_columns(Backend::Auto, &a, 2), [2, 0]);
/// ```
pub fn strongest_columns<T: Scalar>(backend: Backend, a: &Tile<T>, most: usize) -> Vec<usize> {
    let (rows, n) = (a.rows().min(a.cols()), a.cols());
    let mut r = triangle(backend, a);
    let r = MatMut::from_column_major_slice_mut(&mut r, rows, n);
    let mut order: Vec<usize> = (0..n).collect();
    pivot(backend, r, most.min(n), &mut order);
    order.truncate(most);
    order
}

/// R of a tile, column-major.
fn triangle<T: Scalar>(backend: Backend, a: &Tile<T>) -> Vec<T> {
    let (m, n, memory) = (a.rows(), a.cols(), a.memory());
    let k = m.min(n);
    let mut r = Tile::from_fn(m, n, Format::ColumnMajor, memory, |i, j| a.get(i, j));
    let mut v = Tile::new(m, k, Format::ColumnMajor, memory);
    let mut t = Tile::new(INNER_BLOCK, k, Format::ColumnMajor, memory);
    geqrt(backend, &mut r, &mut v, &mut t);
    let mut triangle = Vec::with_capacity(k * n);
    for column in r.as_slice().chunks_exact(m.max(1)) {
        triangle.extend_from_slice(&column[..k]);
    }
    triangle
}

/// Brings the strongest columns to the front, `most` of them, and their numbers with them.
fn pivot<T: Scalar>(backend: Backend, mut r: MatMut<'_, T>, most: usize, order: &mut [usize]) {
    let n = r.ncols();
    let mut left: Vec<f64> = (0..n).map(|j| length(r.rb(), 0, j)).collect();
    let mut known = left.clone();
    for k in 0..most.min(r.nrows()) {
        let mut strongest = k;
        for j in k + 1..n {
            if left[j] > left[strongest] {
                strongest = j;
            }
        }
        if strongest != k {
            swap(r.rb_mut(), k, strongest);
            order.swap(k, strongest);
            left.swap(k, strongest);
            known.swap(k, strongest);
        }
        if k + 1 == most {
            return;
        }
        eliminate(backend, r.rb_mut(), k);
        for j in k + 1..n {
            if left[j] > 0.0 {
                let share = (r[(k, j)].modulus() / left[j]).min(1.0);
                let rest = (1.0 - share) * (1.0 + share);
                let of_known = left[j] / known[j];
                if rest * of_known * of_known <= T::EPSILON.sqrt() {
                    left[j] = length(r.rb(), k + 1, j);
                    known[j] = left[j];
                } else {
                    left[j] *= rest.sqrt();
                }
            }
        }
    }
}

/// Makes column `k` vanish below the diagonal, and applies that to the columns behind it.
fn eliminate<T: Scalar>(backend: Backend, r: MatMut<'_, T>, k: usize) {
    let below = r.nrows() - k;
    let (mut left, mut right) = r.subrows_mut(k, below).split_at_col_mut(k + 1);
    let (head, tail) = contiguous(&mut left, k).split_at_mut(1);
    let tau = larfg(&mut head[0], tail);
    let diagonal = std::mem::replace(&mut head[0], T::one());
    let v = left.rb().get(.., k..);
    // C ← C − v·(τ̄·vᴴ·C)
    let mut w = vec![T::zero(); right.ncols()];
    let mut row = MatMut::from_column_major_slice_mut(&mut w, 1, right.ncols());
    let (plain, adjoint) = (Op::NoTranspose, Op::ConjTranspose);
    product(backend, (adjoint, v), (plain, right.rb()), row.rb_mut());
    (0..row.ncols()).for_each(|j| row[(0, j)] = -row[(0, j)] * tau.conj());
    product(backend, (plain, v), (plain, row.rb()), right.rb_mut());
    left[(0, k)] = diagonal;
}

fn swap<T: Scalar>(mut r: MatMut<'_, T>, a: usize, b: usize) {
    for i in 0..r.nrows() {
        let (x, y) = (r[(i, a)], r[(i, b)]);
        (r[(i, a)], r[(i, b)]) = (y, x);
    }
}

/// The 2-norm of a column from a row on, without overflow or underflow on the way.
fn length<T: Scalar>(r: MatRef<'_, T>, from: usize, j: usize) -> f64 {
    let column = r.col(j).subrows(from, r.nrows() - from);
    let length = T::from_real_impl(&column.norm_l2()).re();
    // faer's is infinite before the length is, and 0 before all elements are.
    match (smallest_normal::<T>()..f64::INFINITY).contains(&length) {
        true => length,
        false => column
            .iter()
            .fold(0.0, |length, x| length.hypot(x.modulus())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order<const N: usize>(rows: [[f64; N]; 3]) -> Vec<usize> {
        strongest_columns(Backend::Auto, &Tile::from_rows(rows), N)
    }

    #[test]
    fn of_equally_long_columns_the_first_is_taken() {
        let unit = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        assert_eq!(order(unit), [0, 1, 2]);
        assert_eq!(order([[1.0, 2.0, 0.0, 2.0], [0.0; 4], [0.0; 4]])[..1], [1]);
    }

    /// Of both nothing was left, by the norms that are only updated.
    #[test]
    fn what_is_left_of_nearly_parallel_columns_is_compared_however_little_it_is() {
        let nearly = [[2.0, 1.0, 1.0], [0.0, 1e-12, 0.0], [0.0, 0.0, 1e-9]];
        assert_eq!(order(nearly), [0, 2, 1]);
    }
}
