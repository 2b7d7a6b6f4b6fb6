//! Strips: some rows of A and B side by side, as columns of f64, whatever order they lie in.
//!
//! # Law
//! A complex column is two: real parts and imaginary parts. First come the columns of A, then those of
//! B. Below the last row stand zeros, which change no product. f32 becomes f64 without rounding.

use crate::kernel::gram::{PANEL, RowsView};
use crate::scalar::Scalar;
use ndarray::{ArrayView1, ArrayView2, Axis, s};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m256d;
use std::array;
use std::hint::black_box;
use std::ops::Range;

/// How columns of A and B become columns of f64.
#[derive(Clone, Copy)]
pub(super) struct Planes {
    n: usize,
    nrhs: usize,
    is_complex: bool,
}

impl Planes {
    pub fn of<T: Scalar>(n: usize, nrhs: usize) -> Self {
        let is_complex = T::IS_COMPLEX;
        Planes {
            n,
            nrhs,
            is_complex,
        }
    }

    /// Columns of A.
    pub fn n(self) -> usize {
        self.n
    }

    /// Columns of B.
    pub fn nrhs(self) -> usize {
        self.nrhs
    }

    fn parts(self) -> usize {
        1 + usize::from(self.is_complex)
    }

    /// Those of A.
    pub fn left(self) -> usize {
        self.n * self.parts()
    }

    /// All.
    pub fn count(self) -> usize {
        (self.n + self.nrhs) * self.parts()
    }

    /// The real parts of a column of A, or counted on from there of B; and the imaginary parts.
    pub fn of_column(self, j: usize) -> (usize, Option<usize>) {
        let (first, columns) = match j < self.n {
            true => (j, self.n),
            false => (self.left() + j - self.n, self.nrhs),
        };
        (first, self.is_complex.then_some(first + columns))
    }
}

/// Rows of real numbers where they lie, if these are f64 side by side.
pub(super) fn rows_in_place<T: Scalar>(rows: ArrayView2<'_, T>) -> Option<RowsView<'_>> {
    let elements = rows.to_slice().filter(|_| is_f64::<T>())?;
    Some(RowsView {
        elements: bytemuck::cast_slice(elements),
        width: rows.ncols(),
    })
}

/// Columns of real numbers where they lie, if each is f64 side by side.
pub(super) fn columns_in_place<T: Scalar>(a: ArrayView2<'_, T>) -> Option<Vec<&[f64]>> {
    let of_column = |j| {
        Some(bytemuck::cast_slice(
            a.index_axis_move(Axis(1), j).to_slice()?,
        ))
    };
    let columns = || (0..a.ncols()).map(of_column).collect();
    is_f64::<T>().then(columns).flatten()
}

fn is_f64<T: Scalar>() -> bool {
    !T::IS_COMPLEX && T::EPSILON == <f64 as Scalar>::EPSILON
}

/// Rows that a strip takes from arrays in which rows lie side by side: a panel stays in the nearest
/// cache.
const OF_ROWS: usize = PANEL;
/// The same where columns do: shorter pieces of so many columns are slow to read.
const OF_COLUMNS: usize = 32 * PANEL;

/// How many rows of A a strip takes.
pub(super) fn height<T>(a: ArrayView2<'_, T>) -> usize {
    match lies_by_rows(a) {
        true => OF_ROWS,
        false => OF_COLUMNS,
    }
}

/// From a column to the next: not a multiple of a page, or the same rows of all columns would compete
/// for the same places of the cache.
pub(super) fn stride(height: usize) -> usize {
    height + if height > PANEL { PANEL } else { 0 }
}

fn lies_by_rows<T>(a: ArrayView2<'_, T>) -> bool {
    a.strides()[1] == 1
}

/// Writes rows of A and B into `elements`, and zeros below them down to a whole number of panels;
/// answers where they end.
pub(super) fn fill<T: Scalar>(
    (a, b): (ArrayView2<'_, T>, ArrayView2<'_, T>),
    rows: Range<usize>,
    (elements, stride): (&mut [f64], usize),
) -> usize {
    let planes = Planes::of::<T>(a.ncols(), b.ncols());
    let height = rows.len().next_multiple_of(PANEL);
    let (of_a, of_b) = elements.split_at_mut(planes.left() * stride);
    write(a.slice(s![rows.clone(), ..]), of_a, (stride, height));
    write(b.slice(s![rows, ..]), of_b, (stride, height));
    height
}

fn write<T: Scalar>(a: ArrayView2<'_, T>, to: &mut [f64], (stride, height): (usize, usize)) {
    let (m, n) = a.dim();
    let (re, im) = to.split_at_mut(n * stride);
    write_part(a, re, stride, T::re);
    if T::IS_COMPLEX {
        write_part(a, im, stride, T::im);
    }
    for column in to.chunks_mut(stride) {
        column[m..height].fill(0.0);
    }
}

fn write_part<T: Scalar>(
    a: ArrayView2<'_, T>,
    to: &mut [f64],
    stride: usize,
    part: impl Fn(T) -> f64,
) {
    if a.ncols() > 1 && lies_by_rows(a) {
        read_ahead(a);
        return write_rows(a, (to, stride), part);
    }
    for (column, to) in a.columns().into_iter().zip(to.chunks_mut(stride)) {
        match column.to_slice() {
            Some(column) => {
                let pairs = to.iter_mut().zip(column);
                pairs.for_each(|(to, x)| *to = part(*x));
            }
            None => {
                let pairs = to.iter_mut().zip(column);
                pairs.for_each(|(to, x)| *to = part(*x));
            }
        }
    }
}

/// Asks memory for all rows, first to last, before any is taken apart: transposing jumps between rows
/// and columns, and would wait for each line of the cache by itself.
fn read_ahead<T: Scalar>(a: ArrayView2<'_, T>) {
    /// At least one number in each line of the cache.
    const STEP: usize = 8;
    let of_row = |row: ArrayView1<'_, T>| {
        let row = row.to_slice().unwrap_or_default();
        row.iter().step_by(STEP).map(|x| x.re()).sum::<f64>()
    };
    black_box(a.rows().into_iter().map(of_row).sum::<f64>());
}

/// Side of the squares that are transposed at a time: a vector of f64.
const SIDE: usize = 4;

type Square = [[f64; SIDE]; SIDE];

/// Rows that lie side by side, into columns.
fn write_rows<T: Scalar>(
    a: ArrayView2<'_, T>,
    (to, stride): (&mut [f64], usize),
    part: impl Fn(T) -> f64,
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(
            #[inline(always)]
            || {
                transpose(
                    a,
                    (to, stride),
                    part,
                    #[inline(always)]
                    |square| turned(simd, square),
                )
            },
        );
    }
    transpose(a, (to, stride), part, |square| {
        array::from_fn(|l| array::from_fn(|k| square[k][l]))
    });
}

/// A square, transposed: pairs within the halves of lines, then halves. Compilers do not find it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn turned(simd: pulp::x86::V3, square: Square) -> Square {
    let [a, b, c, d]: [__m256d; SIDE] = bytemuck::cast(square);
    let avx = simd.avx;
    let even = [avx._mm256_unpacklo_pd(a, b), avx._mm256_unpacklo_pd(c, d)];
    let odd = [avx._mm256_unpackhi_pd(a, b), avx._mm256_unpackhi_pd(c, d)];
    bytemuck::cast([
        avx._mm256_permute2f128_pd::<0x20>(even[0], even[1]),
        avx._mm256_permute2f128_pd::<0x20>(odd[0], odd[1]),
        avx._mm256_permute2f128_pd::<0x31>(even[0], even[1]),
        avx._mm256_permute2f128_pd::<0x31>(odd[0], odd[1]),
    ])
}

/// Four rows at a time.
#[inline(always)]
fn transpose<T: Scalar>(
    a: ArrayView2<'_, T>,
    (to, stride): (&mut [f64], usize),
    part: impl Fn(T) -> f64,
    turned: impl Fn(Square) -> Square,
) {
    let (m, n) = a.dim();
    let line = |i: usize| a.row(i).to_slice().unwrap_or(&[]);
    let whole = m - m % SIDE;
    for top in (0..whole).step_by(SIDE) {
        let lines: [&[T]; SIDE] = array::from_fn(|k| line(top + k));
        let wide = n - n % SIDE;
        for left in (0..wide).step_by(SIDE) {
            let mut square = [[0.0; SIDE]; SIDE];
            for (of_line, line) in square.iter_mut().zip(lines) {
                for (to, x) in of_line.iter_mut().zip(&line[left..left + SIDE]) {
                    *to = part(*x);
                }
            }
            for (l, column) in turned(square).iter().enumerate() {
                to[(left + l) * stride + top..][..SIDE].copy_from_slice(column);
            }
        }
        for j in wide..n {
            let column: [f64; SIDE] = array::from_fn(|k| part(lines[k][j]));
            to[j * stride + top..][..SIDE].copy_from_slice(&column);
        }
    }
    for i in whole..m {
        let entries = line(i).iter().enumerate();
        entries.for_each(|(j, x)| to[j * stride + i] = part(*x));
    }
}
