//! Products: what those of BLAS 3 take.

use super::view::MatrixView;
use super::{Needs, matrix};
use crate::kernel::{Op, Side, Triangle};
use crate::matrix::{Layout, Structure};
use crate::scalar::Scalar;

/// [`product::Gemm`](crate::product::Gemm): C ← A·B of matrices as they are stored; of a lower one
/// the Hermitian one that it stands for.
pub fn gemm<T: Scalar>([a, b, c]: [&Layout; 3], workers: usize) -> Needs {
    let of = [a, b, c].map(matrix::<T>).into_iter();
    let (of_a, of_b, of_c) = (
        MatrixView::of::<T>(a),
        MatrixView::of::<T>(b),
        MatrixView::of::<T>(c),
    );
    // A tile of a lower one is read where it stands, and where its mirror image does.
    let read = |of: &Layout, (i, j): (usize, usize), in_line: &dyn Fn(usize) -> bool, line| {
        usize::from(match of.structure() {
            Structure::General => in_line(line),
            Structure::Lower => i >= j && (in_line(i) || in_line(j)),
        })
    };
    let left = of_a.sum(|m, k| read(a, (m, k), &|m| of_c.in_row(m), m));
    let right = of_b.sum(|k, n| read(b, (k, n), &|n| of_c.in_col(n), n));
    // Mirror images of all tiles on the diagonal of a lower one may be there at once.
    let mirrors = [(a, &of_a), (b, &of_b)].map(|(of, view)| match of.structure() {
        Structure::General => 0,
        Structure::Lower => view.sum_here(|i, j| usize::from(i == j)),
    });
    let run = Needs {
        held: 0,
        received: left + right,
        workspace: of_c.kernels(workers) + mirrors.iter().sum::<u128>(),
    };
    run.beside(of.fold(Needs::default(), Needs::and))
}

/// [`product::defect`](crate::product::defect) of a product: its three matrices and what is left.
pub fn defect<T: Scalar>([a, b, c]: [&Layout; 3], workers: usize) -> Needs {
    let matrices = [a, b, c, c].map(matrix::<T>).into_iter();
    let run = Needs {
        workspace: MatrixView::of::<T>(c).kernels(workers),
        ..Needs::default()
    };
    run.beside(matrices.fold(Needs::default(), Needs::and))
}

/// [`product::Herk`](crate::product::Herk): C ← op(A)·op(A)ᴴ, or with the plain transpose.
pub fn herk<T: Scalar>(op: Op, [a, c]: [&Layout; 2], workers: usize) -> Needs {
    let (of_a, of_c) = (MatrixView::of::<T>(a), MatrixView::of::<T>(c));
    let received = of_a.sum(|i, j| {
        let n = if op == Op::NoTranspose { i } else { j };
        let along = of_c.in_row(n) && of_c.meets_cols(0..n + 1);
        let down = of_c.in_col(n) && of_c.meets_rows(n..of_c.mt);
        usize::from(along || down)
    });
    let run = Needs {
        held: 0,
        received,
        workspace: of_c.kernels(workers),
    };
    run.beside(matrix::<T>(a).and(matrix::<T>(c)))
}

/// [`product::Triangular`](crate::product::Triangular): B ← op(A)·B, or B·op(A); or with the inverse, a
/// [`product::Substitution`](crate::product::Substitution).
///
/// - `triangle`: of A, as it is stored
pub fn triangular<T: Scalar>(
    (side, triangle, op): (Side, Triangle, Op),
    [a, b]: [&Layout; 2],
    workers: usize,
) -> Needs {
    let (of_a, of_b) = (MatrixView::of::<T>(a), MatrixView::of::<T>(b));
    let left = side == Side::Left;
    let factor = of_a.sum(|i, j| {
        let is_inside = match triangle {
            Triangle::Lower => i >= j,
            Triangle::Upper => i <= j,
        };
        // The row of B that is updated with it; from the right the column.
        let line = if left == (op == Op::NoTranspose) {
            i
        } else {
            j
        };
        usize::from(match left {
            true => is_inside && of_b.in_row(line) && of_b.meets_cols(0..of_b.nt),
            false => is_inside && of_b.in_col(line) && of_b.meets_rows(0..of_b.mt),
        })
    });
    let others = of_b.sum(|m, n| match left {
        true => usize::from(of_b.in_col(n)),
        false => usize::from(of_b.in_row(m)),
    });
    let run = Needs {
        held: 0,
        received: factor + others,
        // A tile of B that is still read is copied before it is overwritten.
        workspace: of_b.kernels(workers) + of_b.sum_here(|_, _| 1),
    };
    run.beside(matrix::<T>(a).and(matrix::<T>(b)))
}
