//! Products of tall columns with each other, from columns.
//!
//! # Law
//! Each sum runs in the lanes of a vector within a panel of rows, then over the panels, first to last:
//! it depends on its two columns alone, not on those beside them.

use super::place;
use super::soon::Soon;
use pulp::{Arch, Simd, WithSimd};
use std::array;

/// Rows of a panel: with some twenty columns it stays in the nearest cache.
pub(crate) const PANEL: usize = 128;
/// Products at a time: as many as vector registers hold sums beside their operands.
const ROWS: usize = 3;
const COLS: usize = 4;

/// Adds to `sums` the products of columns i ≤ j with i < `left` over the first `rows` rows, a
/// multiple of [`PANEL`].
///
/// 2 flops for each row and pair. Of sums there are [`place`]`(left, left, count)`.
pub(crate) fn add_products(columns: &[&[f64]], rows: usize, left: usize, sums: &mut [f64]) {
    for top in (0..rows).step_by(PANEL) {
        let panel = RowsOfColumns { columns, top };
        Arch::new().dispatch(Products { panel, left, sums });
    }
}

/// Some rows of all columns.
#[derive(Clone, Copy)]
struct RowsOfColumns<'a> {
    columns: &'a [&'a [f64]],
    top: usize,
}

impl<'a> RowsOfColumns<'a> {
    #[inline(always)]
    fn column(self, k: usize) -> &'a [f64] {
        &self.columns[k][self.top..][..PANEL]
    }

    /// The rows of a column that come next, if there are as many.
    #[inline(always)]
    fn soon<S: Simd>(self, k: usize) -> Soon {
        let at_hand = self.column(0);
        let next = self
            .columns
            .get(k)
            .and_then(|column| column.get(self.top + PANEL..));
        let next = next.filter(|next| next.len() >= PANEL);
        Soon::of(next.unwrap_or_default(), size_of::<S::f64s>(), at_hand)
    }
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
        let (panel, sums, count) = (self.panel, self.sums, self.panel.columns.len());
        let mut blocks = 0..;
        for i in (0..self.left).step_by(ROWS) {
            for (j, asked) in (i..count).step_by(COLS).zip(&mut blocks) {
                let soon = panel.soon::<S>(asked);
                // Called by name each: a pointer would lose the vector instructions.
                match (ROWS.min(self.left - i), COLS.min(count - j)) {
                    (1, 1) => block::<S, 1, 1>(simd, panel, (i, j), soon, sums),
                    (1, 2) => block::<S, 1, 2>(simd, panel, (i, j), soon, sums),
                    (1, 3) => block::<S, 1, 3>(simd, panel, (i, j), soon, sums),
                    (1, _) => block::<S, 1, COLS>(simd, panel, (i, j), soon, sums),
                    (2, 1) => block::<S, 2, 1>(simd, panel, (i, j), soon, sums),
                    (2, 2) => block::<S, 2, 2>(simd, panel, (i, j), soon, sums),
                    (2, 3) => block::<S, 2, 3>(simd, panel, (i, j), soon, sums),
                    (2, _) => block::<S, 2, COLS>(simd, panel, (i, j), soon, sums),
                    (_, 1) => block::<S, ROWS, 1>(simd, panel, (i, j), soon, sums),
                    (_, 2) => block::<S, ROWS, 2>(simd, panel, (i, j), soon, sums),
                    (_, 3) => block::<S, ROWS, 3>(simd, panel, (i, j), soon, sums),
                    (_, _) => block::<S, ROWS, COLS>(simd, panel, (i, j), soon, sums),
                }
            }
        }
    }
}

/// The products of columns i, i + 1, … with columns j, j + 1, … over a panel.
#[inline(always)]
fn block<S: Simd, const I: usize, const J: usize>(
    simd: S,
    panel: RowsOfColumns<'_>,
    (i, j): (usize, usize),
    mut soon: Soon,
    sums: &mut [f64],
) {
    let column = |k: usize| S::as_simd_f64s(panel.column(k)).0;
    let steps = column(i).len();
    let left: [&[S::f64s]; I] = array::from_fn(|k| &column(i + k)[..steps]);
    let right: [&[S::f64s]; J] = array::from_fn(|k| &column(j + k)[..steps]);
    let mut parts = [[simd.splat_f64s(0.0); I]; J];
    for step in 0..steps {
        soon.fetch();
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
                sums[place(i + l, j + k, panel.columns.len())] += simd.reduce_sum_f64s(*part);
            }
        }
    }
}

/// The squares of a column over the first `rows` rows, a multiple of [`PANEL`], added up.
pub(crate) fn square(column: &[f64], rows: usize) -> f64 {
    let mut sum = [0.0];
    add_products(&[column], rows, 1, &mut sum);
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
            let columns: Vec<&[f64]> = elements.chunks(stride).collect();
            for left in 1..=count {
                let mut sums = vec![1.0; place(left, left, count)];
                add_products(&columns, rows, left, &mut sums);
                for (i, j) in (0..left).flat_map(|i| (i..count).map(move |j| (i, j))) {
                    let expected = (0..rows).map(|row| entry(row, i) * entry(row, j));
                    let found = sums[place(i, j, count)];
                    // Sums of whole numbers are exact.
                    assert_eq!(found, 1.0 + expected.sum::<f64>(), "({i}, {j}) of {count}");
                }
                assert_eq!(
                    square(columns[left - 1], rows),
                    (0..rows)
                        .map(|row| entry(row, left - 1).powi(2))
                        .sum::<f64>()
                );
            }
        }
    }
}
