//! The leaf of LU: a few columns of a panel, one after the other.
//!
//! # Law
//! From each column are subtracted all those before it, first to last; four columns at a time from those
//! before all four, which are then read once for four. Nothing is fused or summed in another order for
//! the vectors, so the bits are those of any machine, and of columns that are subtracted one by one.

use std::array;

use ::faer::MatMut;

use super::larfg::whole;
use super::strips::{load, store};
use super::vectors::{self, InVectors};
use crate::scalar::{Scalar, smallest_normal};

/// Most columns of a leaf.
pub(super) const LEAF: usize = 16;
/// Columns from which those before are subtracted at a time.
const GROUP: usize = 4;
/// Numbers of a line: of `f64` 64 bytes.
const LINE: usize = 8;

/// Which entry of a column becomes its pivot.
#[derive(Clone, Copy)]
pub(super) enum PivotChoice {
    Largest,
    AsItStands,
}

/// `A ← L\U` of at most [`LEAF`] columns.
pub(super) fn factor_columns<T: Scalar>(a: MatMut<'_, T>, pivots: &mut [u32], choice: PivotChoice) {
    let n = a.ncols();
    let mut each = a.col_iter_mut().map(whole);
    let mut columns: [&mut [T]; LEAF] = array::from_fn(|_| each.next().unwrap_or_default());
    vectors::compute(PanelLeaf {
        columns: &mut columns[..n],
        pivots,
        choice,
    });
}

struct PanelLeaf<'a, 'b, T> {
    columns: &'a mut [&'b mut [T]],
    pivots: &'a mut [u32],
    choice: PivotChoice,
}

impl<T: Scalar> InVectors for PanelLeaf<'_, '_, T> {
    #[inline(always)]
    fn compute<const LINES: usize>(mut self) {
        for first in (0..self.columns.len()).step_by(GROUP) {
            let (before, rest) = self.columns.split_at_mut(first);
            let before = &before[..first.min(self.pivots.len())];
            let rest_from = match rest.first_chunk_mut() {
                Some(group) => {
                    subtract_columns::<T, GROUP, LINES>(group, before, 0);
                    first
                }
                None => 0,
            };
            for j in first..self.columns.len().min(first + GROUP) {
                self.column::<LINES>(rest_from, j);
            }
        }
    }
}

impl<T: Scalar> PanelLeaf<'_, '_, T> {
    /// Column `j`, from which those before `first` have been subtracted.
    #[inline(always)]
    fn column<const LINES: usize>(&mut self, first: usize, j: usize) {
        let n = self.pivots.len();
        let (before, rest) = self.columns.split_at_mut(j);
        let before = &before[first.min(n)..j.min(n)];
        subtract_columns::<T, 1, LINES>(array::from_mut(&mut rest[0]), before, first.min(n));
        if j >= n {
            return;
        }
        let pivot = match self.choice {
            PivotChoice::Largest => j + largest(&rest[0][j..]),
            PivotChoice::AsItStands => j,
        };
        self.pivots[j] = pivot as u32;
        for column in &mut *self.columns {
            column.swap(j, pivot);
        }
        let (top, below) = self.columns[j].split_at_mut(j + 1);
        divide(below, top[j]);
    }
}

/// Y ← rows of U from `first` on, and below them Y − L·U, for some columns of L that begin there.
#[inline(always)]
fn subtract_columns<T: Scalar, const COLUMNS: usize, const LINES: usize>(
    y: &mut [&mut [T]; COLUMNS],
    l: &[&mut [T]],
    first: usize,
) {
    let mut u = [[T::zero(); COLUMNS]; LEAF];
    let (last, m) = (first + l.len(), y[0].len());
    let aligned = last.next_multiple_of(LINE).min(m);
    for top in (first / LINE * LINE..last).step_by(LINE) {
        let above = top.saturating_sub(first);
        let end = m.min(top + LINE);
        if end == top + LINE {
            subtract_strip::<T, COLUMNS, 1>(y, &l[..above], &u, top);
        } else {
            subtract_rows(y, &l[..above], &u, (top, end));
        }
        for k in top.max(first)..last.min(end) {
            for j in 0..COLUMNS {
                u[k - first][j] = y[j][k];
                for i in k + 1..end {
                    y[j][i] -= l[k - first][i] * u[k - first][j];
                }
            }
        }
    }
    let lines = aligned + (m - aligned) / LINE * LINE;
    let narrow = aligned + (m - aligned) / (LINE * LINES) * (LINE * LINES);
    for top in (aligned..narrow).step_by(LINE * LINES) {
        subtract_strip::<T, COLUMNS, LINES>(y, l, &u, top);
    }
    for top in (narrow..lines).step_by(LINE) {
        subtract_strip::<T, COLUMNS, 1>(y, l, &u, top);
    }
    subtract_rows(y, l, &u, (lines, m));
}

/// Y ← Y − L·U in some rows that fill no line.
#[inline(always)]
fn subtract_rows<T: Scalar, const COLUMNS: usize>(
    y: &mut [&mut [T]; COLUMNS],
    l: &[&mut [T]],
    u: &[[T; COLUMNS]; LEAF],
    (top, end): (usize, usize),
) {
    for k in 0..l.len() {
        for j in 0..COLUMNS {
            for i in top..end {
                y[j][i] -= l[k][i] * u[k][j];
            }
        }
    }
}

/// Y ← Y − L·U in the rows of some lines.
#[inline(always)]
fn subtract_strip<T: Scalar, const COLUMNS: usize, const LINES: usize>(
    y: &mut [&mut [T]; COLUMNS],
    l: &[&mut [T]],
    u: &[[T; COLUMNS]; LEAF],
    top: usize,
) {
    let mut strips = [[[T::zero(); LINE]; LINES]; COLUMNS];
    for j in 0..COLUMNS {
        strips[j] = load(y[j], top);
    }
    for k in 0..l.len() {
        let l: [[T; LINE]; LINES] = load(l[k], top);
        for j in 0..COLUMNS {
            for line in 0..LINES {
                for lane in 0..LINE {
                    strips[j][line][lane] -= l[line][lane] * u[k][j];
                }
            }
        }
    }
    for j in 0..COLUMNS {
        store(&strips[j], y[j], top);
    }
}

/// Where |re| + |im|, rounded to the precision of `T`, is largest: the first of equals; a NaN never.
///
/// First how large, then where: neither loop carries an index, so both run on vectors.
#[inline(always)]
fn largest<T: Scalar>(column: &[T]) -> usize {
    let size = |x: T| T::from_real(x.re().abs() + x.im().abs()).re();
    let larger = |most: f64, size: f64| if size > most { size } else { most };
    let (groups, rest) = column.as_chunks::<COMPARED>();
    let (lines, rest) = rest.as_chunks::<LINE>();
    let mut lanes = [f64::NEG_INFINITY; COMPARED];
    for group in groups {
        for i in 0..COMPARED {
            lanes[i] = larger(lanes[i], size(group[i]));
        }
    }
    for line in lines {
        for i in 0..LINE {
            lanes[i] = larger(lanes[i], size(line[i]));
        }
    }
    let mut half = COMPARED / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = larger(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    let mut most = lanes[0];
    for &x in rest {
        most = larger(most, size(x));
    }
    let mut before = 0;
    for group in groups {
        let mut held = false;
        for &x in group {
            held |= size(x) == most;
        }
        if held {
            break;
        }
        before += COMPARED;
    }
    let within = column[before..].iter().position(|&x| size(x) == most);
    within.map_or(0, |within| before + within)
}

/// Entries that are compared at a time.
const COMPARED: usize = 32;

/// Divides by a pivot; by zero not at all.
#[inline(always)]
pub(super) fn divide<T: Scalar>(column: &mut [T], pivot: T) {
    if pivot == T::zero() {
        return;
    }
    let scale = pivot.re().abs().max(pivot.im().abs());
    let is_normal = scale >= smallest_normal::<T>();
    if is_normal && scale < f64::INFINITY && pivot.im() == 0.0 {
        // Without the four divisions below, which wait for each other; the bits are theirs.
        let inverse = T::from_parts(1.0 / pivot.re(), -pivot.im());
        return column.iter_mut().for_each(|x| *x *= inverse);
    }
    // 1 / pivot as conj(unit) / |unit|² / scale, without overflow on the way.
    let (re, im) = (pivot.re() / scale, pivot.im() / scale);
    let square = re * re + im * im;
    let unit = T::from_parts(re / square, -im / square);
    if is_normal {
        let inverse = T::from_parts(unit.re() / scale, unit.im() / scale);
        column.iter_mut().for_each(|x| *x *= inverse);
    } else {
        for x in column {
            let rotated = *x * unit;
            *x = T::from_parts(rotated.re() / scale, rotated.im() / scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::{c32, c64};

    /// Numbers between −1 and 1 in steps of a sixteenth: many are equal in size.
    fn columns<T: Scalar>(m: usize, n: usize, seed: usize) -> Vec<Vec<T>> {
        let number = |i: usize| ((i * 7919 + seed * 613) % 1013 % 33) as f64 / 16.0 - 1.0;
        let entry = |i| T::from_parts(number(i), number(i + 5));
        (0..n)
            .map(|j| (0..m).map(|i| entry(i + j * m)).collect())
            .collect()
    }

    /// As the textbook has it: each column is subtracted from all behind it at once.
    fn by_the_textbook<T: Scalar>(a: &mut [Vec<T>], choice: PivotChoice) -> Vec<u32> {
        let steps = a.len().min(a[0].len());
        let size = |x: T| T::from_real(x.re().abs() + x.im().abs()).re();
        let eliminate = |k: usize| {
            let below = || a[k][k..].iter().map(|x| size(*x));
            let most = below().fold(0.0, f64::max);
            let pivot = match choice {
                PivotChoice::Largest => k + below().position(|x| x == most).unwrap_or(0),
                PivotChoice::AsItStands => k,
            };
            a.iter_mut().for_each(|column| column.swap(k, pivot));
            let (left, right) = a.split_at_mut(k + 1);
            let (top, l) = left[k].split_at_mut(k + 1);
            divide(l, top[k]);
            for column in right {
                let u = column[k];
                let below = column[k + 1..].iter_mut().zip(&*l);
                below.for_each(|(x, l)| *x -= *l * u);
            }
            pivot as u32
        };
        (0..steps).map(eliminate).collect()
    }

    fn leaf<'a, 'b, T>(
        columns: &'a mut [&'b mut [T]],
        pivots: &'a mut [u32],
        choice: PivotChoice,
    ) -> PanelLeaf<'a, 'b, T> {
        PanelLeaf {
            columns,
            pivots,
            choice,
        }
    }

    #[test]
    fn factors_have_the_bits_and_pivots_of_the_textbook_in_vectors_of_any_width() {
        fn check<T: Scalar>() {
            let shapes = [
                (1, 1),
                (3, 8),
                (9, 2),
                (33, 16),
                (40, 7),
                (75, 13),
                (10, 16),
                (16, 16),
            ];
            let choices = [PivotChoice::Largest, PivotChoice::AsItStands];
            for ((m, n), choice) in shapes.into_iter().flat_map(|s| choices.map(|c| (s, c))) {
                let mut expected = columns::<T>(m, n, m + n);
                let pivots = by_the_textbook(&mut expected, choice);
                for way in 0..3 {
                    let mut found = columns::<T>(m, n, m + n);
                    let mut found_pivots = vec![0; m.min(n)];
                    let mut each: Vec<_> = found.iter_mut().map(Vec::as_mut_slice).collect();
                    let leaf = leaf(&mut each, &mut found_pivots, choice);
                    match way {
                        0 => leaf.compute::<1>(),
                        1 => leaf.compute::<4>(),
                        _ => vectors::compute(leaf),
                    }
                    assert!(found_pivots == pivots, "{} {m} x {n}", T::PRECISION);
                    let bits = |of: &[Vec<T>]| -> Vec<_> {
                        of.iter().flatten().map(|x| x.bits()).collect()
                    };
                    assert!(
                        bits(&found) == bits(&expected),
                        "{} {m} x {n}",
                        T::PRECISION
                    );
                }
            }
        }
        check::<f32>();
        check::<f64>();
        check::<c32>();
        check::<c64>();
    }
}
