//! Narrow panels of QR: Householder's reflectors column by column, on vectors as wide as the machine
//! has.
//!
//! # Law
//! Columns are copied into lines of eight rows, with zeros behind the last row and, of a reflector,
//! above its 1. The product of two columns is a sum in each of the eight lanes, and the sum of these in
//! one order. Nothing is fused: the bits are those of any machine.
//!
//! # Elsewhere
//! One reflector: `larfg.rs`. Wider panels: `reflector.rs`.

use std::hint::black_box;

use super::larfg::{contiguous, larfg};
use super::scratch::with_scratch;
use super::vectors::{self, InVectors};
use crate::scalar::Scalar;
use ::faer::MatMut;

/// Columns of the widest panel: above the diagonal of V stand zeros of one line.
pub(super) const WIDEST: usize = LINE;
/// Rows of a line: two vectors of four `f64`.
pub(super) const LINE: usize = 8;
/// Columns that are worked on at a time: as many as vector registers hold sums for.
pub(super) const GROUP: usize = WIDEST / 2;

pub(super) type VectorLine<T> = [T; LINE];
/// A triangle of a panel, column by column.
type NarrowTriangle<T> = [[T; WIDEST]; WIDEST];

/// Makes what is below the diagonal of a panel vanish; `a` has at most [`WIDEST`] columns, and no more
/// than rows.
///
/// `a` becomes R on and above the diagonal and V below it; `t` becomes T, zero below its diagonal.
/// 3·m·n² flops, those of T among them.
pub(super) fn narrow_panel<T: Scalar>(mut a: MatMut<'_, T>, t: MatMut<'_, T>) {
    let (m, n) = (a.nrows(), a.ncols());
    with_lines(m, n, |mut panel| {
        (0..n).for_each(|j| panel.column(j).copy_from_slice(contiguous(&mut a, j)));
        let r = panel.factor(t);
        for j in 0..n {
            let (above, below) = contiguous(&mut a, j).split_at_mut(j + 1);
            above.copy_from_slice(&r[j][..=j]);
            below.copy_from_slice(&panel.column(j)[j + 1..]);
        }
    });
}

/// Makes `below` vanish under the upper triangle `r` of as many columns, at most [`WIDEST`].
///
/// `r` becomes the new R, `below` becomes V, which goes on above as an identity; `t` becomes T, zero
/// below its diagonal. It is a panel that begins with a line of R; the zeros of that stay.
pub(super) fn narrow_under<T: Scalar>(
    mut r: MatMut<'_, T>,
    mut below: MatMut<'_, T>,
    t: MatMut<'_, T>,
) {
    let (m, n) = (below.nrows(), below.ncols());
    with_lines(LINE + m, n, |mut panel| {
        for j in 0..n {
            let (top, rows) = panel.column(j).split_at_mut(LINE);
            let (above, zeros) = top.split_at_mut(j + 1);
            above.copy_from_slice(&contiguous(&mut r, j)[..=j]);
            zeros.fill(T::zero());
            rows.copy_from_slice(contiguous(&mut below, j));
        }
        let new = panel.factor(t);
        for j in 0..n {
            contiguous(&mut r, j)[..=j].copy_from_slice(&new[j][..=j]);
            contiguous(&mut below, j).copy_from_slice(&panel.column(j)[LINE..]);
        }
    });
}

/// A panel, column by column in lines, and columns of zeros up to [`WIDEST`].
struct NarrowLines<'a, T> {
    rows: usize,
    cols: usize,
    columns: &'a mut [VectorLine<T>],
}

/// Calls with room for a panel.
fn with_lines<T: Scalar>(rows: usize, cols: usize, work: impl FnOnce(NarrowLines<'_, T>)) {
    let lines = rows.div_ceil(LINE);
    with_scratch(WIDEST * lines * LINE, |scratch: &mut [T]| {
        let columns = scratch.as_chunks_mut().0;
        let (panel, others) = columns.split_at_mut(cols * lines);
        for column in panel.chunks_exact_mut(lines) {
            column.as_flattened_mut()[rows..].fill(T::zero());
        }
        others.as_flattened_mut().fill(T::zero());
        work(NarrowLines {
            rows,
            cols,
            columns,
        });
    });
}

impl<T: Scalar> NarrowLines<'_, T> {
    fn column(&mut self, j: usize) -> &mut [T] {
        let start = j * self.rows.div_ceil(LINE) * LINE;
        &mut self.columns.as_flattened_mut()[start..start + self.rows]
    }

    /// The columns become V, with its ones and zeros, and `t` becomes T. Returns R.
    fn factor(&mut self, mut t: MatMut<'_, T>) -> NarrowTriangle<T> {
        let mut r = [[T::zero(); WIDEST]; WIDEST];
        let mut triangle = r;
        vectors::compute(Narrow {
            rows: self.rows,
            cols: self.cols,
            columns: &mut *self.columns,
            r: &mut r,
            t: &mut triangle,
        });
        for (j, column) in triangle[..self.cols].iter().enumerate() {
            contiguous(&mut t, j).copy_from_slice(&column[..self.cols]);
        }
        r
    }
}

/// A panel in lines that becomes V, and R and T.
struct Narrow<'a, T> {
    rows: usize,
    cols: usize,
    columns: &'a mut [VectorLine<T>],
    r: &'a mut NarrowTriangle<T>,
    t: &'a mut NarrowTriangle<T>,
}

impl<T: Scalar> InVectors for Narrow<'_, T> {
    #[inline(always)]
    fn compute<const LINES: usize>(self) {
        let lines = self.rows.div_ceil(LINE);
        for j in 0..self.cols {
            let column = self.columns[j * lines..][..lines].as_flattened_mut();
            self.r[j][..=j].copy_from_slice(&column[..=j]);
            let tau = larfg(&mut self.r[j][j], &mut column[j + 1..self.rows]);
            column[..j].fill(T::zero());
            column[j] = T::one();
            let products = products_with_all(&self.columns[j * lines..][..lines], self.columns);
            // C ← (I − τ̄·v·vᴴ)·C in the columns behind
            let (before, behind) = self.columns.split_at_mut((j + 1) * lines);
            for k in j + 1..self.cols {
                let factor = products[k] * tau.conj();
                let to = &mut behind[(k - j - 1) * lines..][..lines];
                subtract(to, factor, &before[j * lines..]);
            }
            // T[..j,j] ← −τ·T[..j,..j]·V[..,..j]ᴴ·v
            for i in 0..j {
                let terms = (i..j).map(|k| self.t[k][i] * products[k].conj());
                let sum = terms.fold(T::zero(), |sum, term| sum + term);
                self.t[j][i] = -tau * sum;
            }
            self.t[j][j] = tau;
        }
    }
}

/// y ← y − factor·x
#[inline(always)]
fn subtract<T: Scalar>(y: &mut [VectorLine<T>], factor: T, x: &[VectorLine<T>]) {
    let x = &x[..y.len()];
    for line in 0..y.len() {
        // Whole lines: in place the compiler would gather a lane of several.
        let (mut to, from) = (y[line], x[line]);
        for lane in 0..LINE {
            to[lane] -= from[lane] * factor;
        }
        y[line] = to;
    }
}

/// vᴴ·C for all columns of a panel.
#[inline(always)]
fn products_with_all<T: Scalar>(v: &[VectorLine<T>], columns: &[VectorLine<T>]) -> [T; WIDEST] {
    let (left, right) = columns.split_at(GROUP * v.len());
    let [a, b, c, d] = products_with(v, columns_of(left, 0));
    let [e, f, g, h] = products_with(v, columns_of(right, 0));
    [a, b, c, d, e, f, g, h]
}

/// The columns of a group, each from this line on.
#[inline(always)]
pub(super) fn columns_of<T>(group: &[VectorLine<T>], first: usize) -> [&[VectorLine<T>]; GROUP] {
    let lines = group.len() / GROUP;
    let (left, right) = group.split_at(2 * lines);
    let ((a, b), (c, d)) = (left.split_at(lines), right.split_at(lines));
    [&a[first..], &b[first..], &c[first..], &d[first..]]
}

/// vᴴ·C for a group of columns.
#[inline(always)]
pub(super) fn products_with<T: Scalar>(
    v: &[VectorLine<T>],
    [a, b, c, d]: [&[VectorLine<T>]; GROUP],
) -> [T; GROUP] {
    let lines = v.len();
    let (a, b, c, d) = (&a[..lines], &b[..lines], &c[..lines], &d[..lines]);
    let mut sums = [[T::zero(); LINE]; GROUP];
    for line in 0..lines {
        let (x, y) = (v[line], [a[line], b[line], c[line], d[line]]);
        for column in 0..GROUP {
            for lane in 0..LINE {
                sums[column][lane] += x[lane].conj() * y[column][lane];
            }
        }
    }
    // Else the compiler adds across columns from the first line on, with a shuffle for each.
    totals(black_box(sums))
}

/// Of each line a to h: ((a + e) + (c + g)) + ((b + f) + (d + h)), by halves of the line.
///
/// By index: `map` of an array is a call, and what is called has no vectors.
#[inline(always)]
fn totals<T: Scalar>(sums: [VectorLine<T>; GROUP]) -> [T; GROUP] {
    let mut halves = [[T::zero(); LINE / 2]; GROUP];
    let mut quarters = [[T::zero(); LINE / 4]; GROUP];
    let mut totals = [T::zero(); GROUP];
    for column in 0..GROUP {
        for lane in 0..LINE / 2 {
            halves[column][lane] = sums[column][lane] + sums[column][lane + LINE / 2];
        }
        for lane in 0..LINE / 4 {
            quarters[column][lane] = halves[column][lane] + halves[column][lane + LINE / 4];
        }
        totals[column] = quarters[column][0] + quarters[column][1];
    }
    totals
}
