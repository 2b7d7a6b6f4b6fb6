//! Triangular solves with one right-hand side, for real numbers: BLAS's `trsv`.
//!
//! What takes the time is to read the triangle, so it is read once, four columns beside each other.
//!
//! # Law
//! A pivot divides. Of what stands before it, a triangle that is taken as it lies subtracts from each unknown
//! one column after the other, each by one fused operation; a transposed one adds up in the lanes of a line of
//! 64 bytes. So the bits do not depend on the width of vectors. A machine without fused operations leaves these
//! solves to faer, and so do complex numbers.

use ::faer::MatRef;

use super::gemv::{GROUP, group, products, subtract};
use super::real::Real;
use super::vectors::{self, InVectors};
use super::{Diagonal, Op, Triangle};

/// x ← op(A)⁻¹·x with one triangle of A; `false`, and nothing is done, if its columns lie in pieces or the
/// machine does not fuse.
pub(super) fn solve<T: Real, const LINE: usize>(
    (op, (triangle, diagonal), a): (Op, (Triangle, Diagonal), MatRef<'_, T>),
    x: &mut [T],
) -> bool {
    if !vectors::fuses() || a.row_stride() != 1 {
        return false;
    }
    vectors::compute(Solve::<T, LINE> {
        a,
        is_unit: diagonal == Diagonal::Unit,
        is_lower: triangle == Triangle::Lower,
        is_transposed: op != Op::NoTranspose,
        x,
    });
    true
}

/// x ← op(A)⁻¹·x
struct Solve<'a, T, const LINE: usize> {
    a: MatRef<'a, T>,
    is_unit: bool,
    is_lower: bool,
    is_transposed: bool,
    x: &'a mut [T],
}

impl<T: Real, const LINE: usize> InVectors for Solve<'_, T, LINE> {
    #[inline(always)]
    fn compute<const LINES: usize>(mut self) {
        let (n, down) = (self.x.len(), self.is_lower != self.is_transposed);
        // Columns that are no whole group come last.
        let grouped = n / GROUP * GROUP;
        for done in (0..grouped).step_by(GROUP) {
            self.group::<GROUP>(if down { done } else { n - done - GROUP }, down);
        }
        for done in grouped..n {
            self.group::<1>(if down { done } else { n - done - 1 }, down);
        }
    }
}

impl<T: Real, const LINE: usize> Solve<'_, T, LINE> {
    /// The unknowns from `j` on; those before them, in the order of the solve, are known.
    #[inline(always)]
    fn group<const COLUMNS: usize>(&mut self, j: usize, down: bool) {
        let n = self.x.len();
        let columns = group(self.a, j);
        // What lies beside the square on the diagonal: below it in a lower triangle, above it in an upper one.
        let beside = match self.is_lower {
            true => j + COLUMNS..n,
            false => 0..j,
        };
        let mut parts: [&[T]; COLUMNS] = columns;
        for part in &mut parts {
            *part = &part[beside.clone()];
        }
        if self.is_transposed {
            let sums = products::<T, LINE, COLUMNS>(parts, &self.x[beside]);
            for (i, sum) in sums.iter().enumerate() {
                self.x[j + i] -= *sum;
            }
            self.square::<COLUMNS>(columns, j, down);
        } else {
            let solved = self.square::<COLUMNS>(columns, j, down);
            subtract::<T, LINE, COLUMNS>(&mut self.x[beside], solved, parts);
        }
    }

    /// The square on the diagonal.
    #[inline(always)]
    fn square<const COLUMNS: usize>(
        &mut self,
        columns: [&[T]; COLUMNS],
        j: usize,
        down: bool,
    ) -> [T; COLUMNS] {
        let x = &mut self.x[j..j + COLUMNS];
        for step in 0..COLUMNS {
            let k = if down { step } else { COLUMNS - 1 - step };
            if !self.is_unit {
                x[k] /= columns[k][j + k];
            }
            for after in step + 1..COLUMNS {
                let i = if down { after } else { COLUMNS - 1 - after };
                let factor = match self.is_transposed {
                    true => columns[i][j + k],
                    false => columns[k][j + i],
                };
                x[i] = (-factor).mul_add(x[k], x[i]);
            }
        }
        let mut solved = [T::zero(); COLUMNS];
        solved.copy_from_slice(x);
        solved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Scalar;

    const ORDERS: [usize; 12] = [0, 1, 2, 3, 4, 5, 7, 8, 19, 36, 37, 101];

    /// A matrix with `NaN` in what belongs to no triangle that is read, and behind each column.
    struct Given<T> {
        n: usize,
        shape: (Triangle, Diagonal),
        elements: Vec<T>,
    }

    impl<T: Scalar> Given<T> {
        fn new(n: usize, shape: (Triangle, Diagonal)) -> Self {
            let stride = n + 3;
            let mut given = Given {
                n,
                shape,
                elements: vec![T::from_real(f64::NAN); stride * n],
            };
            for (i, j) in (0..n).flat_map(|j| (0..n).map(move |i| (i, j))) {
                if given.is_read(i, j) {
                    let number = ((i * 7919 + j * 104_729) % 1013) as f64 / 507.0 - 1.0;
                    let diagonal = if i == j { 4.0 } else { 0.0 };
                    given.elements[i + j * stride] = T::from_real(number / 8.0 + diagonal);
                }
            }
            given
        }

        fn is_read(&self, i: usize, j: usize) -> bool {
            match self.shape {
                (_, Diagonal::Unit) if i == j => false,
                (Triangle::Lower, _) => i >= j,
                (Triangle::Upper, _) => i <= j,
            }
        }

        fn view(&self) -> MatRef<'_, T> {
            let (n, stride) = (self.n, self.n + 3);
            MatRef::from_column_major_slice_with_stride(&self.elements, n, n, stride)
        }

        /// Entry (i, j) of op(A), with its ones and zeros.
        fn entry(&self, op: Op, i: usize, j: usize) -> f64 {
            let (i, j) = if op == Op::NoTranspose {
                (i, j)
            } else {
                (j, i)
            };
            match self.is_read(i, j) {
                true => self.elements[i + j * (self.n + 3)].re(),
                false => f64::from(i == j),
            }
        }
    }

    const OPS: [Op; 3] = [Op::NoTranspose, Op::Transpose, Op::ConjTranspose];
    const TRIANGLES: [Triangle; 2] = [Triangle::Lower, Triangle::Upper];
    const DIAGONALS: [Diagonal; 2] = [Diagonal::NonUnit, Diagonal::Unit];

    #[test]
    fn what_is_solved_for_gives_the_right_hand_side_again_and_the_other_triangle_is_not_read() {
        fn check<T: Scalar>() {
            let shapes = TRIANGLES
                .into_iter()
                .flat_map(|triangle| DIAGONALS.map(|diagonal| (triangle, diagonal)));
            for ((n, op), shape) in ORDERS
                .into_iter()
                .flat_map(|n| OPS.map(|op| (n, op)))
                .flat_map(|given| shapes.clone().map(move |shape| (given, shape)))
            {
                let a = Given::<T>::new(n, shape);
                let b: Vec<T> = (0..n)
                    .map(|i| T::from_real((i * 31 % 17) as f64 - 8.0))
                    .collect();
                let mut x = b.clone();
                assert!(T::solve_vector((op, shape, a.view()), &mut x) == vectors::fuses());
                if !vectors::fuses() {
                    continue;
                }
                for (i, b) in b.iter().enumerate() {
                    let terms = || (0..n).map(|j| a.entry(op, i, j) * x[j].re());
                    let size: f64 = terms().map(f64::abs).sum::<f64>() + b.re().abs();
                    let off = (terms().sum::<f64>() - b.re()).abs();
                    let allowed = (n + 2) as f64 * T::EPSILON * size;
                    assert!(
                        off <= allowed,
                        "{op:?} {shape:?} of {n} in row {i}: {off:e}"
                    );
                }
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn vectors_of_any_width_solve_with_the_same_bits() {
        for (op, triangle) in OPS
            .into_iter()
            .flat_map(|op| TRIANGLES.map(|triangle| (op, triangle)))
        {
            let a = Given::<f64>::new(101, (triangle, Diagonal::NonUnit));
            let b: Vec<f64> = (0..101).map(|i| f64::from(i % 7) - 3.3).collect();
            let (mut plain, mut widest) = (b.clone(), b);
            let solve = |x| Solve::<f64, 8> {
                a: a.view(),
                is_unit: false,
                is_lower: triangle == Triangle::Lower,
                is_transposed: op != Op::NoTranspose,
                x,
            };
            solve(&mut plain).compute::<1>();
            vectors::compute(solve(&mut widest));
            assert!(plain == widest, "{op:?} {triangle:?}");
        }
    }

    #[test]
    fn a_pivot_that_is_zero_divides_and_the_unknowns_before_it_are_those_without_it() {
        let mut a = Given::<f64>::new(9, (Triangle::Lower, Diagonal::NonUnit));
        let mut regular = vec![1.0_f64; 9];
        let factor = |a: &Given<f64>, x: &mut [f64]| {
            let factor = (Op::NoTranspose, a.shape, a.view());
            super::solve::<f64, 8>(factor, x)
        };
        let solves = factor(&a, &mut regular);
        a.elements[5 + 5 * 12] = 0.0;
        let mut singular = vec![1.0_f64; 9];
        factor(&a, &mut singular);
        if solves {
            assert_eq!(singular[..5], regular[..5]);
            assert!(singular[5].is_infinite());
        }
    }
}
