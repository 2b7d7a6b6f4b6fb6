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

use std::array;

use super::larfg::{contiguous, larfg};
use super::scratch::with_scratch;
use super::vectors::{self, InVectors};
use crate::scalar::Scalar;
use ::faer::MatMut;

/// Columns of the widest panel: above the diagonal of V stand zeros of one line.
pub(super) const WIDEST: usize = LINE;
/// Rows of a line: two vectors of four `f64`.
const LINE: usize = 8;
/// Columns that are worked on at a time: as many as vector registers hold sums for.
const GROUP: usize = 4;

type VectorLine<T> = [T; LINE];

/// Makes what is below the diagonal of a panel vanish; `a` has at most [`WIDEST`] columns, and no more
/// than rows.
///
/// `a` becomes R on and above the diagonal and V below it; `t` becomes T, zero below its diagonal.
/// 3·m·n² flops, those of T among them.
pub(super) fn narrow_panel<T: Scalar>(mut a: MatMut<'_, T>, mut t: MatMut<'_, T>) {
    let (m, n) = (a.nrows(), a.ncols());
    let lines = m.div_ceil(LINE);
    t.fill(T::zero());
    with_scratch(2 * n * lines * LINE, |scratch: &mut [T]| {
        let (columns, v) = scratch.as_chunks_mut().0.split_at_mut(n * lines);
        for (j, column) in columns.chunks_exact_mut(lines).enumerate() {
            let (rows, behind) = column.as_flattened_mut().split_at_mut(m);
            rows.copy_from_slice(contiguous(&mut a, j));
            behind.fill(T::zero());
        }
        v.as_flattened_mut().fill(T::zero());
        vectors::compute(Narrow {
            rows: m,
            columns,
            v,
            t,
        });
        for (j, column) in columns.chunks_exact(lines).enumerate() {
            contiguous(&mut a, j).copy_from_slice(&column.as_flattened()[..m]);
        }
    });
}

/// A panel in lines: R and V in one, V with its ones and zeros, and T.
struct Narrow<'a, T> {
    rows: usize,
    columns: &'a mut [VectorLine<T>],
    v: &'a mut [VectorLine<T>],
    t: MatMut<'a, T>,
}

impl<T: Scalar> InVectors for Narrow<'_, T> {
    #[inline(always)]
    fn compute<const LINES: usize>(mut self) {
        let (m, lines) = (self.rows, self.rows.div_ceil(LINE));
        for j in 0..self.t.ncols() {
            let (before, v) = self.v.split_at_mut(j * lines);
            let (left, behind) = self.columns.split_at_mut((j + 1) * lines);
            let column = left[j * lines..].as_flattened_mut();
            let (head, tail) = column[j..m].split_at_mut(1);
            let tau = larfg(&mut head[0], tail);
            let v = &mut v[..lines];
            v[0][j] = T::one();
            v.as_flattened_mut()[j + 1..m].copy_from_slice(tail);
            turn(v, behind, tau.conj());
            let mut products = [T::zero(); WIDEST];
            products_with(v, before, &mut products);
            // T[..j,j] ← −τ · T[..j,..j] · V[..,..j]ᴴ·v
            for i in 0..j {
                let terms = (i..j).map(|k| self.t[(i, k)] * products[k].conj());
                let sum = terms.fold(T::zero(), |sum, term| sum + term);
                self.t[(i, j)] = -tau * sum;
            }
            self.t[(j, j)] = tau;
        }
    }
}

/// C ← (I − τ̄·v·vᴴ)·C.
#[inline(always)]
fn turn<T: Scalar>(v: &[VectorLine<T>], columns: &mut [VectorLine<T>], tau: T) {
    for group in columns.chunks_mut(GROUP * v.len()) {
        // Called by name each: a pointer would lose the vector instructions.
        match group.len() / v.len() {
            1 => turn_group::<T, 1>(v, group, tau),
            2 => turn_group::<T, 2>(v, group, tau),
            3 => turn_group::<T, 3>(v, group, tau),
            _ => turn_group::<T, GROUP>(v, group, tau),
        }
    }
}

#[inline(always)]
fn turn_group<T: Scalar, const N: usize>(v: &[VectorLine<T>], group: &mut [VectorLine<T>], tau: T) {
    let factors = products_of_group::<T, N>(v, group).map(|product| product * tau);
    let mut each = group.chunks_exact_mut(v.len());
    let mut columns: [&mut [VectorLine<T>]; N] =
        array::from_fn(|_| each.next().unwrap_or_default());
    for (line, x) in v.iter().enumerate() {
        for (column, factor) in columns.iter_mut().zip(factors) {
            let y = &mut column[line];
            (0..LINE).for_each(|lane| y[lane] -= x[lane] * factor);
        }
    }
}

/// vᴴ·C.
#[inline(always)]
fn products_with<T: Scalar>(v: &[VectorLine<T>], columns: &[VectorLine<T>], products: &mut [T]) {
    let groups = columns.chunks(GROUP * v.len());
    for (group, to) in groups.zip(products.chunks_mut(GROUP)) {
        let n = group.len() / v.len();
        match n {
            1 => to[..n].copy_from_slice(&products_of_group::<T, 1>(v, group)),
            2 => to[..n].copy_from_slice(&products_of_group::<T, 2>(v, group)),
            3 => to[..n].copy_from_slice(&products_of_group::<T, 3>(v, group)),
            _ => to[..n].copy_from_slice(&products_of_group::<T, GROUP>(v, group)),
        }
    }
}

#[inline(always)]
fn products_of_group<T: Scalar, const N: usize>(
    v: &[VectorLine<T>],
    group: &[VectorLine<T>],
) -> [T; N] {
    let mut each = group.chunks_exact(v.len());
    let columns: [&[VectorLine<T>]; N] = array::from_fn(|_| each.next().unwrap_or_default());
    let mut sums = [[T::zero(); LINE]; N];
    for (line, x) in v.iter().enumerate() {
        for (sums, column) in sums.iter_mut().zip(columns) {
            let y = &column[line];
            (0..LINE).for_each(|lane| sums[lane] += x[lane].conj() * y[lane]);
        }
    }
    sums.map(|[a, b, c, d, e, f, g, h]| ((a + e) + (c + g)) + ((b + f) + (d + h)))
}
