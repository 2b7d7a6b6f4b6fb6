//! The triangle of a block of rows: [R, Qᴴ·B] of [A, B], n rows of as many as there are.
//!
//! # Law
//! R is the Cholesky factor of the Gram matrix AᴴA with columns of length 1, where that is as good as
//! Householder's: the rows then are those of a matrix that differs from A by about ε·‖R⁻¹‖, column by
//! column. If ‖R⁻¹‖ is large, the factor of the first try divides the rows, A·R₁⁻¹, and the second try
//! is made with these; whether it succeeded is seen by ‖R₂⁻¹‖, whatever R₁ was. Where the second fails
//! too, and where squares overflow or vanish, reflectors of Householder do the work.
//! All but reflectors work in f64 or [`c64`].
//!
//! # Source
//! Fukaya, Nakatsukasa, Yanagisawa, Yamamoto, *CholeskyQR2: a simple and communication-avoiding
//! algorithm for computing a tall-skinny QR factorization on a large-scale parallel system*, ScalA
//! 2014.

use super::strip::{self, Planes};
use crate::kernel::gram::{
    PANEL, RowsView, add_products, add_products_of_rows, place, square, suits_rows,
};
use crate::kernel::scratch::with_scratch;
use crate::kernel::{Backend, Diagonal, LARGEST_WHOLE, Op, Side, Triangle, gemqrt, geqrt};
use crate::matrix::{Format, Tile};
use crate::qr::order::default_inner_block;
use crate::scalar::{Scalar, c64};
use dataflow_core::port::Memory;
use faer::{MatMut, MatRef};
use ndarray::{ArrayView2, s};
use pulp::Arch;
use std::array;
use std::ops::Range;
use std::sync::Arc;

/// Rows of A and of B.
pub(super) type RowBlock<'a, T> = (ArrayView2<'a, T>, ArrayView2<'a, T>);

/// [R, Qᴴ·B] by products, if they are good enough and there are not more than [`LARGEST_WHOLE`] columns:
/// n × (n + nrhs), zero below the diagonal.
///
/// m·n² flops and 2·m·n for each column of B; for each try.
pub(super) fn by_products<T: Scalar>(
    rows: RowBlock<'_, T>,
    memory: &Arc<dyn Memory>,
) -> Option<Tile<T>> {
    match T::IS_COMPLEX {
        true => two_tries::<T, c64>(rows, memory),
        false => two_tries::<T, f64>(rows, memory),
    }
}

fn two_tries<T: Scalar, W: Scalar>(
    rows: RowBlock<'_, T>,
    memory: &Arc<dyn Memory>,
) -> Option<Tile<T>> {
    let n = rows.0.ncols();
    if n > LARGEST_WHOLE {
        return None;
    }
    // Of columns that are orthogonal ‖R⁻¹‖ is √n.
    let usual = 4.0 * (n as f64).sqrt();
    // f64 has digits to spare for what f32 keeps.
    let most = (usual * T::EPSILON / <f64 as Scalar>::EPSILON).clamp(usual, 1e6);
    let first = BlockFactor::<W>::of(&Gram::of::<T, W>(rows, None)?)?;
    if first.inverse_norm <= most {
        return Some(first.tile(memory));
    }
    let second = BlockFactor::of(&Gram::of(rows, Some(&first))?)?;
    (second.inverse_norm <= usual).then(|| second.times(&first).tile(memory))
}

/// The same by reflectors, whatever the rows hold that is finite.
///
/// - `shape`: rows, columns of A and of B; no fewer rows than columns of A
///
/// 2·m·n² flops and 4·m·n for each column of B.
pub(super) fn by_reflectors<T: Scalar>(
    (a, b): RowBlock<'_, T>,
    backend: Backend,
    memory: &Arc<dyn Memory>,
) -> Tile<T> {
    let ((m, n), nrhs) = (a.dim(), b.ncols());
    let tile = |x: ArrayView2<'_, T>| {
        Tile::from_fn(m, x.ncols(), Format::ColumnMajor, memory, |i, j| x[(i, j)])
    };
    let (mut r, mut c) = (tile(a), tile(b));
    let mut v = Tile::new(m, n, Format::ColumnMajor, memory);
    let mut t = Tile::new(default_inner_block(n), n, Format::ColumnMajor, memory);
    geqrt(backend, &mut r, &mut v, &mut t);
    gemqrt(backend, (Side::Left, Op::ConjTranspose), &v, &t, &mut c);
    Tile::from_fn(n, n + nrhs, Format::ColumnMajor, memory, |i, j| {
        match j.checked_sub(n) {
            Some(side) => c.get(i, side),
            None => r.get(i, j),
        }
    })
}

/// Products of the columns of a block with each other.
struct Gram {
    planes: Planes,
    products: Vec<f64>,
}

/// Squares of lengths whose products keep their digits.
const SAFE: Range<f64> = 1e-270..1e300;

impl Gram {
    /// The products over the rows, divided by R if there is one; `None` if one may have lost its digits.
    fn of<T: Scalar, W: Scalar>(
        (a, b): RowBlock<'_, T>,
        by: Option<&BlockFactor<W>>,
    ) -> Option<Self> {
        let RowSums {
            planes,
            products,
            squares,
        } = RowSums::over((a, b), by);
        let gram = Gram { planes, products };
        let has_length = |j: usize| SAFE.contains(&gram.entry::<W>(j, j).re());
        let is_zero = |side: usize| b.column(side).iter().all(|x| *x == T::zero());
        // Real parts of all sides, then imaginary parts.
        let square = |side: usize| squares[side..].iter().step_by(b.ncols()).sum::<f64>();
        let has_digits = |side: usize| match square(side) {
            0.0 => is_zero(side),
            sum => SAFE.contains(&sum),
        };
        let is_safe = (0..planes.n()).all(has_length) && (0..b.ncols()).all(has_digits);
        is_safe.then_some(gram)
    }

    /// Column i of A, conjugated, times column j of [A, B].
    fn entry<W: Scalar>(&self, i: usize, j: usize) -> W {
        let product =
            |i: usize, j: usize| self.products[place(i.min(j), i.max(j), self.planes.count())];
        match (self.planes.of_column(i), self.planes.of_column(j)) {
            ((re_i, Some(im_i)), (re_j, Some(im_j))) => W::from_parts(
                product(re_i, re_j) + product(im_i, im_j),
                product(re_i, im_j) - product(im_i, re_j),
            ),
            ((i, _), (j, _)) => W::from_real(product(i, j)),
        }
    }
}

/// RowSums over rows: the products of columns, and the squares of the sides.
struct RowSums {
    planes: Planes,
    products: Vec<f64>,
    squares: Vec<f64>,
}

impl RowSums {
    /// Of all rows, divided by R if there is one.
    fn over<T: Scalar, W: Scalar>((a, b): RowBlock<'_, T>, by: Option<&BlockFactor<W>>) -> Self {
        let planes = Planes::of::<T>(a.ncols(), b.ncols());
        let (left, count) = (planes.left(), planes.count());
        let mut sums = RowSums {
            planes,
            products: vec![0.0; place(left, left, count)],
            squares: vec![0.0; count - left],
        };
        let in_place = match by {
            None => sums.add_in_place((a, b)),
            Some(_) => 0,
        };
        if in_place < a.nrows() {
            let rest = s![in_place.., ..];
            sums.add_strips((a.slice(rest), b.slice(rest)), by);
        }
        sums
    }

    /// Of the first rows, as far as they can stay where they are; answers how many these are.
    fn add_in_place<T: Scalar>(&mut self, (a, b): RowBlock<'_, T>) -> usize {
        let m = a.nrows();
        if let (Some(a), Some(b)) = (strip::rows_in_place(a), strip::rows_in_place(b))
            && suits_rows(a.width)
        {
            self.add_rows(a, b);
            return m;
        }
        let columns = strip::columns_in_place(a).zip(strip::columns_in_place(b));
        let Some((of_a, of_b)) = columns else {
            return 0;
        };
        let whole = m - m % PANEL;
        self.add_columns(&[of_a, of_b].concat(), whole);
        whole
    }

    fn add_rows(&mut self, a: RowsView<'_>, b: RowsView<'_>) {
        add_products_of_rows(a, b, &mut self.products);
        let nrhs = b.width;
        // Of eight rows each, so that no addition waits for the one before.
        let mut eighths = vec![0.0; 8 * nrhs];
        for rows in b.elements.chunks(8 * nrhs.max(1)) {
            let all = eighths.iter_mut().zip(rows);
            all.for_each(|(sum, x)| *sum += x * x);
        }
        for (side, sum) in self.squares.iter_mut().enumerate() {
            *sum += eighths[side..].iter().step_by(nrhs).sum::<f64>();
        }
    }

    /// Of the first `rows` rows, a multiple of [`PANEL`].
    fn add_columns(&mut self, columns: &[&[f64]], rows: usize) {
        let left = self.planes.left();
        add_products(columns, rows, left, &mut self.products);
        for (column, sum) in columns[left..].iter().zip(&mut self.squares) {
            *sum += square(column, rows);
        }
    }

    /// Of rows that are put into strips of columns, and divided by R if there is one.
    fn add_strips<T: Scalar, W: Scalar>(
        &mut self,
        (a, b): RowBlock<'_, T>,
        by: Option<&BlockFactor<W>>,
    ) {
        let (m, count) = (a.nrows(), self.planes.count());
        let height = strip::height(a).min(m.next_multiple_of(PANEL));
        let stride = strip::stride(height);
        with_scratch(stride * count, |elements: &mut [f64]| {
            for top in (0..m).step_by(height) {
                let rows = top..m.min(top + height);
                let end = strip::fill((a, b), rows, (&mut *elements, stride));
                if let Some(factor) = by {
                    factor.divide(self.planes, (&mut *elements, stride), end);
                }
                let columns: Vec<&[f64]> = elements.chunks(stride).collect();
                self.add_columns(&columns, end);
            }
        });
    }
}

/// R and Qᴴ·B, column-major.
struct BlockFactor<W> {
    n: usize,
    r: Vec<W>,
    c: Vec<W>,
    /// ‖R⁻¹‖, in the Frobenius norm, of R with columns of length 1.
    inverse_norm: f64,
}

impl<W: Scalar> BlockFactor<W> {
    /// From the products, unless they have no Cholesky factor.
    fn of(gram: &Gram) -> Option<Self> {
        let (n, nrhs) = (gram.planes.n(), gram.planes.nrhs());
        let entry = |i, j| gram.entry::<W>(i, j);
        // Columns of A are brought to length 1.
        let lengths: Vec<f64> = (0..n).map(|j| entry(j, j).re().sqrt()).collect();
        let over = |x: W, length: f64| W::from_parts(x.re() / length, x.im() / length);
        let mut l = triangle(n, Triangle::Lower, |i, j| match i == j {
            true => W::one(),
            false => over(over(entry(j, i).conj(), lengths[i]), lengths[j]),
        });
        if !W::faer_potrf(MatMut::from_column_major_slice_mut(&mut l, n, n)) {
            return None;
        }
        // Rounding leaves imaginary parts, which are no part of the factor.
        (0..n).for_each(|j| l[j + j * n] = W::from_real(l[j + j * n].re()));
        // Qᴴ·B = L⁻¹·Aᴴ·B
        let mut c = Vec::with_capacity(n * nrhs);
        for side in n..n + nrhs {
            for (i, &length) in lengths.iter().enumerate() {
                c.push(over(entry(i, side), length));
            }
        }
        let lower = (Triangle::Lower, Diagonal::NonUnit);
        let columns = MatMut::from_column_major_slice_mut(&mut c, n, nrhs);
        let factor = MatRef::from_column_major_slice(&l, n, n);
        W::faer_trsm_op(Side::Left, Op::NoTranspose, lower, factor, columns);
        Some(BlockFactor {
            n,
            r: triangle(n, Triangle::Upper, |i, j| {
                l[j + i * n].conj() * W::from_real(lengths[j])
            }),
            c,
            inverse_norm: inverse_norm(factor),
        })
    }

    /// R of this and of the factor that its rows were divided by.
    fn times(self, first: &BlockFactor<W>) -> Self {
        let n = self.n;
        let r = triangle(n, Triangle::Upper, |i, j| {
            let terms = (i..=j).map(|k| self.r[i + k * n] * first.r[k + j * n]);
            terms.fold(W::zero(), |sum, term| sum + term)
        });
        BlockFactor { r, ..self }
    }

    /// A ← A·R⁻¹ in the rows of a strip down to `end`: m·n² flops.
    fn divide(&self, planes: Planes, (elements, stride): (&mut [f64], usize), end: usize) {
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for top in (0..end).step_by(PIECE) {
                    for j in 0..self.n {
                        self.divide_column(planes, (&mut *elements, stride), (top, j));
                    }
                }
            },
        );
    }

    /// aⱼ ← (aⱼ − Σ aᵢ·rᵢⱼ)/rⱼⱼ over i < j, in a few rows.
    #[inline(always)]
    fn divide_column(
        &self,
        planes: Planes,
        (elements, stride): (&mut [f64], usize),
        (top, j): (usize, usize),
    ) {
        let read = |plane: usize| -> [f64; PIECE] {
            let elements = &elements[plane * stride + top..][..PIECE];
            array::from_fn(|row| elements[row])
        };
        let subtract = |from: &mut [f64; PIECE], factor: f64, x: [f64; PIECE]| {
            (0..PIECE).for_each(|row| from[row] -= factor * x[row]);
        };
        let (re_at, im_at) = planes.of_column(j);
        let (mut re, mut im) = (read(re_at), im_at.map(read));
        for i in 0..j {
            let (factor, (re_i, im_i)) = (self.r[i + j * self.n], planes.of_column(i));
            subtract(&mut re, factor.re(), read(re_i));
            if let (Some(im), Some(im_i)) = (&mut im, im_i) {
                subtract(&mut re, -factor.im(), read(im_i));
                subtract(im, factor.re(), read(im_i));
                subtract(im, factor.im(), read(re_i));
            }
        }
        let scale = 1.0 / self.r[j + j * self.n].re();
        let mut write = |plane: usize, part: [f64; PIECE]| {
            let to = &mut elements[plane * stride + top..][..PIECE];
            (0..PIECE).for_each(|row| to[row] = part[row] * scale);
        };
        write(re_at, re);
        if let (Some(at), Some(im)) = (im_at, im) {
            write(at, im);
        }
    }

    fn tile<T: Scalar>(&self, memory: &Arc<dyn Memory>) -> Tile<T> {
        let (n, nrhs) = (self.n, self.c.len() / self.n);
        Tile::from_fn(n, n + nrhs, Format::ColumnMajor, memory, |i, j| {
            let entry = match j.checked_sub(n) {
                Some(side) => self.c[i + side * n],
                None => self.r[i + j * n],
            };
            T::from_parts(entry.re(), entry.im())
        })
    }
}

/// A triangle of order n, column-major, with zeros beside it.
fn triangle<W: Scalar>(n: usize, which: Triangle, entry: impl Fn(usize, usize) -> W) -> Vec<W> {
    let mut elements = vec![W::zero(); n * n];
    for j in 0..n {
        let rows = match which {
            Triangle::Lower => j..n,
            Triangle::Upper => 0..j + 1,
        };
        rows.for_each(|i| elements[i + j * n] = entry(i, j));
    }
    elements
}

/// ‖L⁻¹‖, in the Frobenius norm.
fn inverse_norm<W: Scalar>(l: MatRef<'_, W>) -> f64 {
    let n = l.nrows();
    let mut inverse = vec![W::zero(); n * n];
    W::faer_trtri(l, MatMut::from_column_major_slice_mut(&mut inverse, n, n));
    let squares = inverse.iter().map(|x| x.re() * x.re() + x.im() * x.im());
    squares.sum::<f64>().sqrt()
}

/// Rows that are divided at a time: a column of them in registers.
const PIECE: usize = 32;
