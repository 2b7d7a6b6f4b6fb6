//! Products of tall columns with each other, from columns.
//!
//! # Law
//! Each sum runs in the lanes of a vector within a panel of rows, then over the panels, first to last:
//! it depends on its two columns alone, not on those beside them.

use super::place;
use pulp::{Arch, Simd, WithSimd};
use std::array;

/// Rows of a panel: with some twenty columns it stays in the nearest cache.
pub(crate) const PANEL: usize = 128;
/// Products at a time: as many as vector registers hold sums beside their operands.
const ROWS: usize = 3;
const COLS: usize = 4;

/// Columns of f64, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct ColumnsView<'a> {
    /// The elements of all columns.
    pub elements: &'a [f64],
    /// From a column to the next.
    pub stride: usize,
    /// How many columns there are.
    pub count: usize,
}

/// Adds to `sums` the products of columns i ≤ j with i < `left` over the first `rows` rows, a
/// multiple of [`PANEL`].
///
/// 2 flops for each row and pair. Of sums there are [`place`]`(left, left, count)`.
pub(crate) fn add_products(columns: ColumnsView<'_>, rows: usize, left: usize, sums: &mut [f64]) {
    for top in (0..rows).step_by(PANEL) {
        let panel = RowsOfColumns { columns, top };
        Arch::new().dispatch(Products { panel, left, sums });
    }
}

/// Some rows of all columns.
#[derive(Clone, Copy)]
struct RowsOfColumns<'a> {
    columns: ColumnsView<'a>,
    top: usize,
}

struct Products<'a> {
    panel: RowsOfColumns<'a>,
    left: usize,
    sums: &'a mut [f64],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (panel, sums, count) = (self.panel, self.sums, self.panel.columns.count);
        for i in (0..self.left).step_by(ROWS) {
            for j in (i..count).step_by(COLS) {
                // Called by name each: a pointer would lose the vector instructions.
                match (ROWS.min(self.left - i), COLS.min(count - j)) {
                    (1, 1) => block::<S, 1, 1>(simd, panel, (i, j), sums),
                    (1, 2) => block::<S, 1, 2>(simd, panel, (i, j), sums),
                    (1, 3) => block::<S, 1, 3>(simd, panel, (i, j), sums),
                    (1, _) => block::<S, 1, COLS>(simd, panel, (i, j), sums),
                    (2, 1) => block::<S, 2, 1>(simd, panel, (i, j), sums),
                    (2, 2) => block::<S, 2, 2>(simd, panel, (i, j), sums),
                    (2, 3) => block::<S, 2, 3>(simd, panel, (i, j), sums),
                    (2, _) => block::<S, 2, COLS>(simd, panel, (i, j), sums),
                    (_, 1) => block::<S, ROWS, 1>(simd, panel, (i, j), sums),
                    (_, 2) => block::<S, ROWS, 2>(simd, panel, (i, j), sums),
                    (_, 3) => block::<S, ROWS, 3>(simd, panel, (i, j), sums),
                    (_, _) => block::<S, ROWS, COLS>(simd, panel, (i, j), sums),
                }
            }
        }
    }
}

/// The products of columns i, i + 1, … with columns j, j + 1, … over a panel.
#[inline(always)]
fn block<S: Simd, const I: usize, const J: usize>(
    simd: S,
    RowsOfColumns { columns, top }: RowsOfColumns<'_>,
    (i, j): (usize, usize),
    sums: &mut [f64],
) {
    let column = |k: usize| {
        let elements = &columns.elements[k * columns.stride + top..][..PANEL];
        S::as_simd_f64s(elements).0
    };
    let steps = column(i).len();
    let left: [&[S::f64s]; I] = array::from_fn(|k| &column(i + k)[..steps]);
    let right: [&[S::f64s]; J] = array::from_fn(|k| &column(j + k)[..steps]);
    let mut parts = [[simd.splat_f64s(0.0); I]; J];
    for step in 0..steps {
        let x: [S::f64s; I] = array::from_fn(|k| left[k][step]);
        for (column, parts) in right.iter().zip(&mut parts) {
            let y = column[step];
            for (part, x) in parts.iter_mut().zip(x) {
                *part = simd.mul_add_e_f64s(x, y, *part);
            }
        }
    }
    for (k, parts) in parts.iter().enumerate() {
        for (l, part) in parts.iter().enumerate() {
            // Below the diagonal of the first block stand products that another has.
            if i + l <= j + k {
                sums[place(i + l, j + k, columns.count)] += simd.reduce_sum_f64s(*part);
            }
        }
    }
}

/// The squares of a column over the first `rows` rows, a multiple of [`PANEL`], added up.
pub(crate) fn square(columns: ColumnsView<'_>, rows: usize, column: usize) -> f64 {
    let elements = &columns.elements[column * columns.stride..];
    let one = ColumnsView {
        elements,
        count: 1,
        ..columns
    };
    let mut sum = [0.0];
    add_products(one, rows, 1, &mut sum);
    sum[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_columns_has_its_product_whatever_stands_beside() {
        let (stride, rows) = (3 * PANEL + 8, 2 * PANEL);
        for count in 1..12 {
            let entry = |i: usize, j: usize| ((7 * i + 3 * j + i * j) % 11) as f64 - 5.0;
            let mut elements = vec![f64::NAN; stride * count];
            for j in 0..count {
                (0..rows).for_each(|i| elements[j * stride + i] = entry(i, j));
            }
            let columns = ColumnsView {
                elements: &elements,
                stride,
                count,
            };
            for left in 1..=count {
                let mut sums = vec![1.0; place(left, left, count)];
                add_products(columns, rows, left, &mut sums);
                for (i, j) in (0..left).flat_map(|i| (i..count).map(move |j| (i, j))) {
                    let expected = (0..rows).map(|row| entry(row, i) * entry(row, j));
                    let found = sums[place(i, j, count)];
                    // Sums of whole numbers are exact.
                    assert_eq!(found, 1.0 + expected.sum::<f64>(), "({i}, {j}) of {count}");
                }
                assert_eq!(
                    square(columns, rows, left - 1),
                    (0..rows)
                        .map(|row| entry(row, left - 1).powi(2))
                        .sum::<f64>()
                );
            }
        }
    }
}
