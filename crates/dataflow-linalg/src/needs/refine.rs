//! Refinement: what solutions of square systems, corrected or not, and bounds of their errors take.

use super::{Needs, cholesky, cholesky_solve, gemm, lu, lu_solve, matrix, product_of};
use crate::kernel::Op;
use crate::matrix::{Layout, Structure};
use crate::scalar::Scalar;

/// The factors of A and the solution of A·X = B with them, both in place and as one graph: by Cholesky of a
/// lower matrix, by LU of another.
pub fn solve<T: Scalar>([a, b]: [&Layout; 2], workers: usize) -> Needs {
    let (factored, solved) = match a.structure() {
        Structure::Lower => {
            let solved = cholesky_solve::<T>([a, b], workers);
            (cholesky::<T>(a, workers), solved)
        }
        Structure::General => {
            let solved = lu_solve::<T>([a, b], Op::NoTranspose, workers);
            (lu::<T>(a, workers), solved)
        }
    };
    factored.and(matrix::<T>(b)).overlapping(solved)
}

/// [`refine::solve`](crate::refine::solve) of A·X = B: both and X; in the lower precision A and B
/// once more, in the full one what is left of B. Where it falls back, what that takes if it is more.
///
/// # Examples
/// ```
/// use dataflow_linalg::{matrix::Layout, needs};
/// let [a, b] = [Layout::general(1000, 1000, 100)?, Layout::general(1000, 1, 100)?];
/// let in_place = needs::solve::<f64>([&a, &b], 1).held;
/// let mixed = needs::mixed::<f64>([&a, &b], 1).held;
/// assert!(mixed > in_place + 4 * 1000 * 1000, "A is there in f32, too");
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
pub fn mixed<T: Scalar>([a, b]: [&Layout; 2], workers: usize) -> Needs {
    let (of_a, of_b) = (matrix::<T>(a), matrix::<T>(b));
    let low = solve::<T::Lower>([a, b], workers);
    let left = gemm::<T>([a, b, b], workers);
    let rest = Needs {
        held: low.held,
        // A correction, and the one before it.
        workspace: left.workspace + product_of([2, matrix::<T::Lower>(b).held]),
        ..left
    };
    let refined = low.then(rest).and(of_a).and(of_b).and(of_b).and(of_b);
    refined.then(solve::<T>([a, b], workers).and(of_b))
}

/// [`refine::bounds`](crate::refine::bounds): A, B and X, their moduli, and what is left of B; not the
/// factors, nor the solutions with them.
pub fn error_bounds<T: Scalar>([a, b]: [&Layout; 2], workers: usize) -> Needs {
    let of_b = matrix::<T>(b);
    // With the three of the product these are six.
    let beside = [of_b; 3].into_iter().fold(matrix::<T>(a), Needs::and);
    // Every rank gets all entries of one, in two parts each.
    let entries = product_of([b.rows() as u128, b.cols() as u128]);
    let is_spread = u128::from(b.distribution().n_ranks() > 1);
    let parts = 2 * size_of::<f64>() as u128 * entries;
    let product = gemm::<T>([a, b, b], workers);
    let weighed = Needs {
        held: 0,
        received: is_spread * parts,
        workspace: parts + entries * size_of::<T>() as u128,
    };
    product.then(weighed).and(beside)
}
