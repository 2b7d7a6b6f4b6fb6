//! `geqr2`: a small tile becomes Q·R column by column, in lines as [`narrow`](super::narrow) panels do.
//!
//! # Law
//! A reflector is applied to all columns behind it before the next one is made. As long as they lie in the
//! nearest caches that is faster than products, each of which costs more than it computes. Sums are those of a
//! narrow panel, so up to its width the bits are, too.
//!
//! # Source
//! LAPACK's `geqr2`; `larft` for T.

use super::larfg::larfg;
use super::narrow::{GROUP, LINE, VectorLine, columns_of, products_with};
use super::scratch::with_scratch;
use super::vectors::{self, InVectors};
use crate::matrix::tile::{Format, Tile};
use crate::scalar::Scalar;

/// Up to so many rows and columns products would cost more.
const LARGEST: usize = 64;
/// Columns of the widest inner block.
const LARGEST_INNER_BLOCK: usize = 24;

/// Whether [`geqr2`] takes what `geqrt` is given.
pub(super) fn suits<T: Scalar>(a: &Tile<T>, v: &Tile<T>, t: &Tile<T>) -> bool {
    let is_small = a.rows().max(a.cols()) <= LARGEST && t.rows() <= LARGEST_INNER_BLOCK;
    is_small && [a, v, t].map(Tile::format) == [Format::ColumnMajor; 3]
}

/// What [`geqrt`](super::geqrt) does, of the same shapes, for tiles that it [`suits`].
pub(super) fn geqr2<T: Scalar>(a: &mut Tile<T>, v: &mut Tile<T>, t: &mut Tile<T>) {
    let (m, n, ib) = (a.rows(), a.cols(), t.rows());
    let k = m.min(n);
    if k == 0 {
        return;
    }
    let lines = m.div_ceil(LINE);
    // Columns of zeros make the last group whole.
    let columns = n + GROUP;
    with_scratch(columns * lines * LINE, |scratch: &mut [T]| {
        let columns = scratch.as_chunks_mut().0;
        let (of_a, zeros) = columns.split_at_mut(n * lines);
        zeros.as_flattened_mut().fill(T::zero());
        let each = of_a.chunks_exact_mut(lines);
        for (column, from) in each.zip(a.as_slice().chunks_exact(m)) {
            let (rows, behind) = column.as_flattened_mut().split_at_mut(m);
            rows.copy_from_slice(from);
            behind.fill(T::zero());
        }
        vectors::compute(SmallMatrix {
            shape: (m, n),
            inner_block: ib,
            columns,
            r: a.as_mut_slice(),
            v: v.as_mut_slice(),
            t: t.as_mut_slice(),
        });
    });
}

/// The columns of a matrix in lines, and what becomes of them, column-major.
struct SmallMatrix<'a, T> {
    shape: (usize, usize),
    inner_block: usize,
    columns: &'a mut [VectorLine<T>],
    r: &'a mut [T],
    v: &'a mut [T],
    t: &'a mut [T],
}

/// A triangle T, column by column in lines.
type InnerTriangle<T> = [TriangleColumn<T>; LARGEST_INNER_BLOCK];
type TriangleColumn<T> = [VectorLine<T>; LARGEST_INNER_BLOCK / LINE];

fn zero_column<T: Scalar>() -> TriangleColumn<T> {
    [[T::zero(); LINE]; LARGEST_INNER_BLOCK / LINE]
}

impl<T: Scalar> InVectors for SmallMatrix<'_, T> {
    #[inline(always)]
    fn compute<const LINES: usize>(mut self) {
        let ((m, n), lines) = (self.shape, self.lines());
        let mut triangle: InnerTriangle<T> = [zero_column(); LARGEST_INNER_BLOCK];
        for j in 0..m.min(n) {
            let tau = self.begin(j);
            // Above the line of its 1 the reflector is zero.
            let first = j / LINE;
            let (before, behind) = self.columns.split_at_mut((j + 1) * lines);
            let (v, n_behind) = (&before[j * lines..][first..], n - j - 1);
            let behind = &mut behind[..n_behind.next_multiple_of(GROUP) * lines];
            for group in behind.chunks_exact_mut(GROUP * lines) {
                reflect(v, tau, group, first);
            }
            self.join(j, tau, &mut triangle);
        }
        for j in m.min(n)..n {
            let column = self.columns[j * lines..][..lines].as_flattened();
            self.r[j * m..][..m].copy_from_slice(&column[..m]);
        }
    }
}

impl<T: Scalar> SmallMatrix<'_, T> {
    fn lines(&self) -> usize {
        self.shape.0.div_ceil(LINE)
    }

    /// Column j becomes the reflector v with its 1, and zeros above it in its line. Returns its τ.
    #[inline(always)]
    fn begin(&mut self, j: usize) -> T {
        let (m, lines) = (self.shape.0, self.lines());
        let column = self.columns[j * lines..][..lines].as_flattened_mut();
        let (r, v) = (&mut self.r[j * m..][..m], &mut self.v[j * m..][..m]);
        r[..=j].copy_from_slice(&column[..=j]);
        r[j + 1..].fill(T::zero());
        let tau = larfg(&mut r[j], &mut column[j + 1..m]);
        column[j - j % LINE..j].fill(T::zero());
        column[j] = T::one();
        v[..j].fill(T::zero());
        v[j..].copy_from_slice(&column[j..m]);
        tau
    }

    /// A column of a triangle, the one of column j: T[..i,i] ← −τ·T[..i,..i]·V[..,..i]ᴴ·v.
    #[inline(always)]
    fn join(&mut self, j: usize, tau: T, triangle: &mut InnerTriangle<T>) {
        let (ib, lines, first) = (self.inner_block, self.lines(), j / LINE);
        let (start, i) = (j - j % ib, j % ib);
        let v = &self.columns[j * lines..][first..lines];
        let mut sums = zero_column();
        for from in (0..i).step_by(GROUP) {
            let group = &self.columns[(start + from) * lines..][..GROUP * lines];
            let products = products_with(v, columns_of(group, first));
            for k in from..i.min(from + GROUP) {
                let (known, product) = (&triangle[k], products[k - from].conj());
                for line in 0..known.len() {
                    for lane in 0..LINE {
                        sums[line][lane] += known[line][lane] * product;
                    }
                }
            }
        }
        sums.as_flattened_mut()[..i]
            .iter_mut()
            .for_each(|sum| *sum = -tau * *sum);
        sums.as_flattened_mut()[i] = tau;
        triangle[i] = sums;
        self.t[j * ib..][..ib].copy_from_slice(&sums.as_flattened()[..ib]);
    }
}

/// C ← (I − τ̄·v·vᴴ)·C for a group of columns, of which v begins in line `first`.
#[inline(always)]
fn reflect<T: Scalar>(v: &[VectorLine<T>], tau: T, group: &mut [VectorLine<T>], first: usize) {
    let ([a, b, c, d], tau) = (products_with(v, columns_of(group, first)), tau.conj());
    let factors = [a * tau, b * tau, c * tau, d * tau];
    let (lines, n) = (group.len() / GROUP, v.len());
    let (left, right) = group.split_at_mut(2 * lines);
    let ((a, b), (c, d)) = (left.split_at_mut(lines), right.split_at_mut(lines));
    let (a, b) = (&mut a[first..][..n], &mut b[first..][..n]);
    let (c, d) = (&mut c[first..][..n], &mut d[first..][..n]);
    for line in 0..n {
        let (x, mut y) = (v[line], [a[line], b[line], c[line], d[line]]);
        for column in 0..GROUP {
            for lane in 0..LINE {
                y[column][lane] -= x[lane] * factors[column];
            }
        }
        [a[line], b[line], c[line], d[line]] = y;
    }
}
