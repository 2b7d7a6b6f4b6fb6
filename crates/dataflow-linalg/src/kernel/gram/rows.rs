//! Products of tall columns with each other, from rows as they lie: a column is multiplied with vectors
//! of its neighbours, so nothing has to be transposed.
//!
//! # Law
//! Each sum runs over the rows of a panel, then over the panels, first to last: it depends on its two
//! columns alone.

use super::place;
use super::soon::Soon;
use pulp::{Arch, Simd, WithSimd};
use std::iter;
use std::ops::RangeInclusive;
use std::slice;

/// Rows of a panel: some twenty columns of them take a sixth of the nearest cache, so that the next
/// ones are on their way while these are multiplied.
const PANEL: usize = 32;
/// Panels from the one that is multiplied to the one that memory is asked for.
const AHEAD: usize = 2;
/// Bytes from one that memory is asked for to the next: each row is multiplied three times at least, and
/// takes a line of the cache for each eight of its numbers.
const STEP: usize = 24;
/// Columns for which this is the faster way. Of fewer, each sum waits for its last addition; of more,
/// what is computed on both sides of the diagonal costs more than to transpose the rows.
const COLUMNS: RangeInclusive<usize> = 8..=32;

/// Whether rows of so many columns are better left as they are.
pub(crate) fn suits_rows(n: usize) -> bool {
    COLUMNS.contains(&n)
}

/// Rows of f64, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct RowsView<'a> {
    /// The elements of all rows.
    pub elements: &'a [f64],
    /// Elements of a row.
    pub width: usize,
}

/// Adds to `sums` the products of columns i ≤ j of [A, B] with i < n, where A has n columns that
/// [suit](suits_rows), over as many rows of both.
///
/// n·(n + 1) flops for each row, of which a third more are made, and 2·n for each column of B. Of sums
/// there are [`place`]`(n, n, count)`.
pub(crate) fn add_products_of_rows(a: RowsView<'_>, b: RowsView<'_>, sums: &mut [f64]) {
    let n = a.width;
    let mut products = Products {
        n,
        nrhs: b.width,
        sums: vec![0.0; (n + b.width) * n],
    };
    products.add(a, b);
    let count = n + b.width;
    for i in 0..n {
        for j in i..count {
            sums[place(i, j, count)] += products.of(i, j);
        }
    }
}

/// Sums of products: of each column of A with all up to its vector's last, and of each column of B with
/// all of A.
struct Products {
    n: usize,
    nrhs: usize,
    sums: Vec<f64>,
}

impl Products {
    /// That of columns i ≤ j of [A, B].
    fn of(&self, i: usize, j: usize) -> f64 {
        match j < self.n {
            true => self.sums[i * self.n + j],
            false => self.sums[j * self.n + i],
        }
    }

    fn add(&mut self, a: RowsView<'_>, b: RowsView<'_>) {
        let panels = || a.elements.chunks(PANEL * a.width);
        let ahead = panels().skip(AHEAD).chain(iter::repeat(&[][..]));
        for ((panel, rows), ahead) in panels().enumerate().zip(ahead) {
            let of_b = &b.elements[panel * PANEL * b.width..];
            let panel = Panel {
                a: RowsView {
                    elements: rows,
                    ..a
                },
                b: RowsView {
                    elements: &of_b[..rows.len() / a.width * b.width],
                    ..b
                },
                to: self,
                soon: Soon::of(ahead, STEP, rows),
            };
            Arch::new().dispatch(panel);
        }
    }

    /// Adds the lanes of a vector but the first few to the sums from a place on.
    #[inline(always)]
    fn add_lanes<S: Simd>(&mut self, simd: S, at: usize, skipped: usize, values: S::f64s) {
        let to = &mut self.sums[at..][..S::F64_LANES];
        if skipped == 0 {
            let to = &mut S::as_mut_simd_f64s(to).0[0];
            return *to = simd.add_f64s(*to, values);
        }
        let values: &[f64] = bytemuck::cast_slice(slice::from_ref(&values));
        for (to, value) in to.iter_mut().zip(values).skip(skipped) {
            *to += value;
        }
    }
}

/// Some rows, and where their products go.
struct Panel<'a> {
    a: RowsView<'a>,
    b: RowsView<'a>,
    to: &'a mut Products,
    /// Of a panel that comes later.
    soon: Soon,
}

/// Neighbouring columns of A or of B that are multiplied with vectors of A.
#[derive(Clone, Copy)]
struct FactorColumns<'a> {
    of: RowsView<'a>,
    first: usize,
    count: usize,
    /// The number of the first among the columns of [A, B].
    number: usize,
}

/// Factors and pairs of vectors: as many sums as vector registers hold beside their operands.
const MOST_FACTORS: usize = 6;
/// Vectors that a column of B is multiplied with at a time, so that sums need not wait.
const MOST_VECTORS: usize = 6;

impl WithSimd for Panel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (n, nrhs) = (self.to.n, self.to.nrhs);
        let n_vectors = n.div_ceil(S::F64_LANES);
        for vector in (0..n_vectors).step_by(2) {
            let pair = 2.min(n_vectors - vector);
            let columns = n.min((vector + pair) * S::F64_LANES);
            self.multiply_columns(simd, columns, (vector, pair));
        }
        let parts = n_vectors.div_ceil(MOST_VECTORS);
        for side in 0..nrhs {
            for part in 0..parts {
                let vector = part * n_vectors / parts;
                let vectors = (part + 1) * n_vectors / parts - vector;
                self.multiply_side(simd, side, (vector, vectors));
            }
        }
    }
}

impl Panel<'_> {
    /// The first columns of A times one or two vectors of A, in even groups.
    #[inline(always)]
    fn multiply_columns<S: Simd>(
        &mut self,
        simd: S,
        columns: usize,
        (vector, vectors): (usize, usize),
    ) {
        let groups = columns.div_ceil(MOST_FACTORS);
        for group in 0..groups {
            let first = group * columns / groups;
            let of = FactorColumns {
                of: self.a,
                first,
                count: (group + 1) * columns / groups - first,
                number: first,
            };
            // Called by name each: a pointer would lose the vector instructions.
            match (vectors, of.count) {
                (1, 1) => self.block::<S, 1, 1>(simd, of, vector),
                (1, 2) => self.block::<S, 2, 1>(simd, of, vector),
                (1, 3) => self.block::<S, 3, 1>(simd, of, vector),
                (1, 4) => self.block::<S, 4, 1>(simd, of, vector),
                (1, 5) => self.block::<S, 5, 1>(simd, of, vector),
                (1, _) => self.block::<S, MOST_FACTORS, 1>(simd, of, vector),
                (_, 1) => self.block::<S, 1, 2>(simd, of, vector),
                (_, 2) => self.block::<S, 2, 2>(simd, of, vector),
                (_, 3) => self.block::<S, 3, 2>(simd, of, vector),
                (_, 4) => self.block::<S, 4, 2>(simd, of, vector),
                (_, 5) => self.block::<S, 5, 2>(simd, of, vector),
                (_, _) => self.block::<S, MOST_FACTORS, 2>(simd, of, vector),
            }
        }
    }

    /// A column of B times up to [`MOST_VECTORS`] vectors of A.
    #[inline(always)]
    fn multiply_side<S: Simd>(&mut self, simd: S, side: usize, (vector, vectors): (usize, usize)) {
        let of = FactorColumns {
            of: self.b,
            first: side,
            count: 1,
            number: self.to.n + side,
        };
        match vectors {
            1 => self.block::<S, 1, 1>(simd, of, vector),
            2 => self.block::<S, 1, 2>(simd, of, vector),
            3 => self.block::<S, 1, 3>(simd, of, vector),
            4 => self.block::<S, 1, 4>(simd, of, vector),
            5 => self.block::<S, 1, 5>(simd, of, vector),
            _ => self.block::<S, 1, MOST_VECTORS>(simd, of, vector),
        }
    }

    /// `I` factors times `V` vectors, over all rows.
    #[inline(always)]
    fn block<S: Simd, const I: usize, const V: usize>(
        &mut self,
        simd: S,
        factors: FactorColumns<'_>,
        vector: usize,
    ) {
        let (lanes, n) = (S::F64_LANES, self.to.n);
        // The last vector of a row lies over the one before it, if it has to.
        let mut starts = [0; V];
        for (v, start) in starts.iter_mut().enumerate() {
            *start = ((vector + v) * lanes).min(n - lanes);
        }
        let mut sums = [[simd.splat_f64s(0.0); V]; I];
        let rows = self.a.elements.chunks_exact(n);
        let of_rows = factors.of.elements.chunks_exact(factors.of.width);
        let mut soon = self.soon;
        for (row, of_row) in rows.zip(of_rows) {
            soon.fetch();
            let mut x = [simd.splat_f64s(0.0); V];
            for (x, start) in x.iter_mut().zip(starts) {
                *x = S::as_simd_f64s(&row[start..][..lanes]).0[0];
            }
            for (sums, factor) in sums.iter_mut().zip(&of_row[factors.first..][..I]) {
                let factor = simd.splat_f64s(*factor);
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = simd.mul_add_e_f64s(factor, x, *sum);
                }
            }
        }
        self.soon = soon;
        for (i, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let at = (factors.number + i) * n + starts[v];
                let skipped = (vector + v) * lanes - starts[v];
                self.to.add_lanes(simd, at, skipped, *sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_columns_has_its_product_for_any_number_of_columns_rows_and_sides() {
        for n in COLUMNS {
            for (rows, nrhs) in [(1, 0), (PANEL, 1), (3 * PANEL + 7, 2), (64, 7)] {
                let entry = |i: usize, j: usize| ((7 * i + 3 * j + i * j) % 11) as f64 - 5.0;
                let all = |width: usize, first: usize| -> Vec<f64> {
                    let of_row = |i| (0..width).map(move |j| entry(i, first + j));
                    (0..rows).flat_map(of_row).collect()
                };
                let (a, b, count) = (all(n, 0), all(nrhs, n), n + nrhs);
                let view = |elements, width| RowsView { elements, width };
                let mut sums = vec![1.0; place(n, n, count)];
                add_products_of_rows(view(&a, n), view(&b, nrhs), &mut sums);
                for (i, j) in (0..n).flat_map(|i| (i..count).map(move |j| (i, j))) {
                    let expected = (0..rows).map(|row| entry(row, i) * entry(row, j));
                    let found = sums[place(i, j, count)];
                    // Sums of whole numbers are exact.
                    assert_eq!(found, 1.0 + expected.sum::<f64>(), "({i}, {j}) of {n}");
                }
            }
        }
    }
}
