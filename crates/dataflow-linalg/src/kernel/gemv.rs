//! Products of a matrix and a vector, for real numbers: BLAS's `gemv`, four columns at a time.
//!
//! # Law
//! From each entry of y what the columns give is subtracted in their order, each by one fused operation; products
//! with a transposed matrix add up in the lanes of a line of 64 bytes, and these by halves. So the bits do not depend
//! on the width of vectors, nor on how many columns go together. A machine without fused operations leaves these
//! products to faer, and so do complex numbers.

use std::hint::black_box;

use ::faer::MatRef;

use super::Op;
use super::real::Real;
use super::vectors::{self, InVectors};

/// Columns that are taken at a time.
pub(super) const GROUP: usize = 4;

/// y ← y − op(A)·x; `false`, and nothing is done, if columns lie in pieces or the machine does not fuse.
pub(super) fn subtract_product<T: Real, const LINE: usize>(
    (op, a): (Op, MatRef<'_, T>),
    x: &[T],
    y: &mut [T],
) -> bool {
    let is_taken = vectors::fuses() && a.row_stride() == 1;
    if is_taken {
        vectors::compute(Product::<T, LINE> { op, a, x, y });
    }
    is_taken
}

/// y ← y − op(A)·x
struct Product<'a, T, const LINE: usize> {
    op: Op,
    a: MatRef<'a, T>,
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Real, const LINE: usize> InVectors for Product<'_, T, LINE> {
    #[inline(always)]
    fn compute<const LINES: usize>(mut self) {
        let n = self.a.ncols();
        let grouped = n / GROUP * GROUP;
        for j in (0..grouped).step_by(GROUP) {
            self.columns::<GROUP>(j);
        }
        for j in grouped..n {
            self.columns::<1>(j);
        }
    }
}

impl<T: Real, const LINE: usize> Product<'_, T, LINE> {
    /// What the columns from `j` on give.
    #[inline(always)]
    fn columns<const COLUMNS: usize>(&mut self, j: usize) {
        let columns: [&[T]; COLUMNS] = group(self.a, j);
        if self.op == Op::NoTranspose {
            let mut factors = [T::zero(); COLUMNS];
            factors.copy_from_slice(&self.x[j..j + COLUMNS]);
            return subtract::<T, LINE, COLUMNS>(self.y, factors, columns);
        }
        let sums = products::<T, LINE, COLUMNS>(columns, self.x);
        for (i, sum) in sums.iter().enumerate() {
            self.y[j + i] -= *sum;
        }
    }
}

/// Some columns from `j` on.
#[inline(always)]
pub(super) fn group<'a, T: Real, const COLUMNS: usize>(
    a: MatRef<'a, T>,
    j: usize,
) -> [&'a [T]; COLUMNS] {
    let mut columns: [&[T]; COLUMNS] = [&[]; COLUMNS];
    for (i, to) in columns.iter_mut().enumerate() {
        match a.col(j + i).try_as_col_major() {
            Some(column) => *to = &column.as_slice()[..a.nrows()],
            None => unreachable!("columns lie whole: their stride was looked at"),
        }
    }
    columns
}

/// x ← x − A·f
#[inline(always)]
pub(super) fn subtract<T: Real, const LINE: usize, const COLUMNS: usize>(
    x: &mut [T],
    factors: [T; COLUMNS],
    columns: [&[T]; COLUMNS],
) {
    let (lines, last) = x.as_chunks_mut::<LINE>();
    let whole = lines.len();
    for (i, line) in lines.iter_mut().enumerate() {
        let mut x = *line;
        for k in 0..COLUMNS {
            let a: &[T; LINE] = &columns[k].as_chunks().0[i];
            for lane in 0..LINE {
                x[lane] = (-factors[k]).mul_add(a[lane], x[lane]);
            }
        }
        *line = x;
    }
    for i in 0..last.len() {
        for k in 0..COLUMNS {
            last[i] = (-factors[k]).mul_add(columns[k][whole * LINE + i], last[i]);
        }
    }
}

/// Aᵀ·x
#[inline(always)]
pub(super) fn products<T: Real, const LINE: usize, const COLUMNS: usize>(
    columns: [&[T]; COLUMNS],
    x: &[T],
) -> [T; COLUMNS] {
    let (lines, last) = x.as_chunks::<LINE>();
    let mut sums = [[T::zero(); LINE]; COLUMNS];
    for (i, x) in lines.iter().enumerate() {
        for k in 0..COLUMNS {
            let a: &[T; LINE] = &columns[k].as_chunks().0[i];
            for lane in 0..LINE {
                sums[k][lane] = a[lane].mul_add(x[lane], sums[k][lane]);
            }
        }
    }
    // Else they lie in memory while they are added up.
    let mut sums = black_box(sums);
    let mut products = [T::zero(); COLUMNS];
    for k in 0..COLUMNS {
        let rest = &columns[k][lines.len() * LINE..];
        for lane in 0..last.len() {
            sums[k][lane] = rest[lane].mul_add(last[lane], sums[k][lane]);
        }
        products[k] = sum_of(sums[k]);
    }
    products
}

/// The halves of a line are added up, and so on.
#[inline(always)]
fn sum_of<T: Real, const LINE: usize>(mut line: [T; LINE]) -> T {
    let mut width = LINE / 2;
    while width > 0 {
        for lane in 0..width {
            line[lane] += line[lane + width];
        }
        width /= 2;
    }
    line[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Scalar;

    #[test]
    fn a_product_with_a_vector_is_the_sum_of_its_terms_and_the_bits_are_those_of_each_column_alone()
    {
        fn check<T: Scalar>() {
            let number = |i: usize| T::from_real((i * 7919 % 1013) as f64 / 507.0 - 1.0);
            let shapes = [0, 1, 3, 4, 5, 8, 17, 38].map(|m| [0, 1, 2, 4, 7, 24].map(|n| (m, n)));
            for (m, n) in shapes.into_iter().flatten() {
                let stride = m + 3;
                let elements: Vec<T> = (0..stride * n).map(number).collect();
                let a = MatRef::from_column_major_slice_with_stride(&elements, m, n, stride);
                let entry = |i: usize, j: usize| elements[i + j * stride].re();
                let (of_rows, of_columns): (Vec<T>, Vec<T>) = (
                    (0..m).map(|i| number(i + 5)).collect(),
                    (0..n).map(|j| number(j + 9)).collect(),
                );
                let (mut y, mut z) = (of_rows.clone(), of_columns.clone());
                assert!(
                    T::subtract_product((Op::NoTranspose, a), &of_columns, &mut y)
                        == vectors::fuses()
                );
                assert!(
                    T::subtract_product((Op::Transpose, a), &of_rows, &mut z) == vectors::fuses()
                );
                if !vectors::fuses() {
                    continue;
                }
                let near = |x: T, y: f64| (x.re() - y).abs() <= 64.0 * T::EPSILON;
                for i in 0..m {
                    let sum: f64 = (0..n).map(|j| entry(i, j) * of_columns[j].re()).sum();
                    assert!(near(y[i], of_rows[i].re() - sum), "{m} x {n}, row {i}");
                }
                for j in 0..n {
                    let sum: f64 = (0..m).map(|i| entry(i, j) * of_rows[i].re()).sum();
                    assert!(
                        near(z[j], of_columns[j].re() - sum),
                        "{m} x {n}, column {j}"
                    );
                }
                let (mut alone, mut each) = (of_rows.clone(), of_columns.clone());
                for j in 0..n {
                    let column = a.subcols(j, 1);
                    T::subtract_product((Op::NoTranspose, column), &of_columns[j..=j], &mut alone);
                    T::subtract_product((Op::Transpose, column), &of_rows, &mut each[j..=j]);
                }
                assert!(alone == y && each == z, "{m} x {n}");
            }
        }
        check::<f32>();
        check::<f64>();
    }
}
