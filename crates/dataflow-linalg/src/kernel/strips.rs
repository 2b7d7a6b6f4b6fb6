//! Leaves of Cholesky and of triangular solves for real numbers: strips of rows of four columns, which stay
//! in registers while the columns before are subtracted.
//!
//! faer halves such blocks down to four columns, and each half is a call whose operands are packed.
//!
//! # Law
//! In each row the columns before are subtracted first to last, each by one fused operation. So the bits
//! depend neither on the width of vectors nor on which rows lie in one strip. A machine without fused
//! operations leaves these blocks to faer, and complex numbers are left to it everywhere.

use std::array;
use std::ops::Deref;

use ::faer::{ColMut, ColRef, MatMut, MatRef};

use super::larfg::contiguous;
use super::real::Real;
use super::scratch::with_scratch;
use super::vectors::{self, InVectors};
use super::{Diagonal, Op, Triangle, gemv, trsv};
use crate::scalar::{c32, c64};

/// Columns of the widest block that is taken at a time: a sub-tile.
pub(super) const WIDEST: usize = 96;
/// Columns whose strips stand in registers.
const GROUP: usize = 4;

/// The leaves of one kind of number.
pub trait Strips: Sized {
    /// Whether there are any: for real numbers, on machines that fuse.
    fn has_strips() -> bool;

    /// B ← B·L⁻ᴴ; of `l`, the lower triangle is read, of a unit triangle what is below the diagonal.
    ///
    /// `false`, and nothing is done: for complex numbers, for more than 96 columns, if columns lie in
    /// pieces or the reciprocal of a pivot is not normal, and on machines that do not fuse.
    fn solve_in_strips(diagonal: Diagonal, l: MatRef<'_, Self>, b: MatMut<'_, Self>) -> bool;

    /// A ← L, the lower triangle alone.
    ///
    /// `false`, and nothing is done: as above, and for a pivot that is not positive.
    fn factor_in_strips(a: MatMut<'_, Self>) -> bool;

    /// y ← y − op(A)·x; `false`, and nothing is done, as [`solve_vector`](Self::solve_vector).
    fn subtract_product(a: (Op, MatRef<'_, Self>), x: &[Self], y: &mut [Self]) -> bool;

    /// x ← op(A)⁻¹·x with one triangle of A, of the order of x.
    ///
    /// `false`, and nothing is done: for complex numbers, if columns lie in pieces, and on machines that do
    /// not fuse.
    fn solve_vector(triangle: (Op, (Triangle, Diagonal), MatRef<'_, Self>), x: &mut [Self])
    -> bool;
}

macro_rules! in_lines {
    ($($real:ident: $line:literal),+) => {$(
        impl Strips for $real {
            fn has_strips() -> bool {
                vectors::fuses()
            }
            fn solve_in_strips(
                diagonal: Diagonal,
                l: MatRef<'_, Self>,
                b: MatMut<'_, Self>,
            ) -> bool {
                solve::<Self, $line>(diagonal, l, b)
            }
            fn factor_in_strips(a: MatMut<'_, Self>) -> bool {
                factor::<Self, $line>(a)
            }
            fn subtract_product(a: (Op, MatRef<'_, Self>), x: &[Self], y: &mut [Self]) -> bool {
                gemv::subtract_product::<Self, $line>(a, x, y)
            }
            fn solve_vector(
                triangle: (Op, (Triangle, Diagonal), MatRef<'_, Self>),
                x: &mut [Self],
            ) -> bool {
                trsv::solve::<Self, $line>(triangle, x)
            }
        }
    )+};
}

macro_rules! in_faer {
    ($($complex:ident)+) => {$(
        impl Strips for $complex {
            fn has_strips() -> bool {
                false
            }
            fn solve_in_strips(_: Diagonal, _: MatRef<'_, Self>, _: MatMut<'_, Self>) -> bool {
                false
            }
            fn factor_in_strips(_: MatMut<'_, Self>) -> bool {
                false
            }
            fn subtract_product(_: (Op, MatRef<'_, Self>), _: &[Self], _: &mut [Self]) -> bool {
                false
            }
            fn solve_vector(
                _: (Op, (Triangle, Diagonal), MatRef<'_, Self>),
                _: &mut [Self],
            ) -> bool {
                false
            }
        }
    )+};
}

in_lines!(f32: 16, f64: 8); // lines of 64 bytes
in_faer!(c32 c64);

// ── Strips ───────────────────────────────────────────────────────────────────────────────────────────

/// Some rows of a column.
type Strip<T, const LINE: usize, const LINES: usize> = [[T; LINE]; LINES];
/// The same rows of neighbouring columns.
type StripGroup<T, const LINE: usize, const LINES: usize> = [Strip<T, LINE, LINES>; GROUP];

#[inline(always)]
pub(super) fn load<T: Copy, const LINE: usize, const LINES: usize>(
    column: &[T],
    top: usize,
) -> Strip<T, LINE, LINES> {
    match column[top..].as_chunks().0.first_chunk() {
        Some(strip) => *strip,
        None => unreachable!("a strip ends with its column at last"),
    }
}

#[inline(always)]
pub(super) fn store<T: Copy, const LINE: usize, const LINES: usize>(
    strip: &Strip<T, LINE, LINES>,
    column: &mut [T],
    top: usize,
) {
    if let Some(to) = column[top..].as_chunks_mut().0.first_chunk_mut() {
        *to = *strip;
    }
}

#[inline(always)]
fn load_group<T: Real, const LINE: usize, const LINES: usize>(
    [a, b, c, d]: &[&mut [T]; GROUP],
    top: usize,
) -> StripGroup<T, LINE, LINES> {
    [load(a, top), load(b, top), load(c, top), load(d, top)]
}

#[inline(always)]
fn store_group<T: Real, const LINE: usize, const LINES: usize>(
    group: &StripGroup<T, LINE, LINES>,
    columns: &mut [&mut [T]; GROUP],
    top: usize,
) {
    for i in 0..GROUP {
        store(&group[i], columns[i], top);
    }
}

/// y ← y − factor·x
#[inline(always)]
fn subtract<T: Real, const LINE: usize, const LINES: usize>(
    y: &mut Strip<T, LINE, LINES>,
    factor: T,
    x: &Strip<T, LINE, LINES>,
) {
    let factor = -factor;
    for line in 0..LINES {
        for lane in 0..LINE {
            y[line][lane] = factor.mul_add(x[line][lane], y[line][lane]);
        }
    }
}

#[inline(always)]
fn scale<T: Real, const LINE: usize, const LINES: usize>(x: &mut Strip<T, LINE, LINES>, by: T) {
    for line in x {
        for lane in line {
            *lane *= by;
        }
    }
}

/// Y ← Y − X·Lᴴ for a group of columns Y: rows `j` to `j + 3` of L, and of X those from `top` on.
///
/// By index: in a zip each column would begin with a call.
#[inline(always)]
fn subtract_columns<T: Real, const LINE: usize, const LINES: usize>(
    y: &mut StripGroup<T, LINE, LINES>,
    x: &[&mut [T]],
    l: &[impl Deref<Target = [T]>],
    (j, top): (usize, usize),
) {
    for k in 0..x.len() {
        let (x, l) = (load(x[k], top), &l[k][j..j + GROUP]);
        for i in 0..GROUP {
            subtract(&mut y[i], l[i], &x);
        }
    }
}

/// The square of a group on the diagonal of L: what is below its diagonal, column by column, and the
/// reciprocals of its pivots.
struct PivotSquare<T> {
    below: [[T; GROUP]; GROUP],
    reciprocals: [T; GROUP],
}

impl<T: Real> PivotSquare<T> {
    /// X ← X·L⁻ᴴ
    #[inline(always)]
    fn solve<const LINE: usize, const LINES: usize>(&self, x: &mut StripGroup<T, LINE, LINES>) {
        let PivotSquare { below, reciprocals } = self;
        let [x0, x1, x2, x3] = x;
        scale(x0, reciprocals[0]);
        subtract(x1, below[0][1], x0);
        subtract(x2, below[0][2], x0);
        subtract(x3, below[0][3], x0);
        scale(x1, reciprocals[1]);
        subtract(x2, below[1][2], x1);
        subtract(x3, below[1][3], x1);
        scale(x2, reciprocals[2]);
        subtract(x3, below[2][3], x2);
        scale(x3, reciprocals[3]);
    }
}

// ── Solving ──────────────────────────────────────────────────────────────────────────────────────────

fn solve<T: Real, const LINE: usize>(
    diagonal: Diagonal,
    l: MatRef<'_, T>,
    b: MatMut<'_, T>,
) -> bool {
    let (n, rows) = (l.ncols(), b.nrows());
    if n > WIDEST || !vectors::fuses() || l.row_stride() != 1 || b.row_stride() != 1 {
        return false;
    }
    let mut reciprocals = [T::one(); WIDEST];
    if diagonal == Diagonal::NonUnit {
        for (j, to) in reciprocals[..n].iter_mut().enumerate() {
            match l[(j, j)].reciprocal() {
                Some(reciprocal) => *to = reciprocal,
                None => return false,
            }
        }
    }
    let (mut of_l, mut of_b) = (l.col_iter(), b.col_iter_mut());
    let mut l = || of_l.next()?.try_as_col_major().map(ColRef::as_slice);
    let mut b = || {
        of_b.next()?
            .try_as_col_major_mut()
            .map(ColMut::as_slice_mut)
    };
    let l: [&[T]; WIDEST] = array::from_fn(|_| l().unwrap_or_default());
    let mut b: [&mut [T]; WIDEST] = array::from_fn(|_| b().unwrap_or_default());
    vectors::compute(Solve::<T, LINE> {
        l: &l[..n],
        reciprocals: &reciprocals[..n],
        b: &mut b[..n],
        rows,
    });
    true
}

/// B ← B·L⁻ᴴ, by columns.
struct Solve<'a, 'b, T, const LINE: usize> {
    l: &'a [&'a [T]],
    reciprocals: &'a [T],
    b: &'a mut [&'b mut [T]],
    rows: usize,
}

impl<T: Real, const LINE: usize> InVectors for Solve<'_, '_, T, LINE> {
    #[inline(always)]
    fn compute<const LINES: usize>(mut self) {
        let (wide, lines) = (LINE * LINES, self.rows / LINE * LINE);
        let narrow = self.rows / wide * wide;
        for top in (0..narrow).step_by(wide) {
            self.strip::<LINES>(top);
        }
        for top in (narrow..lines).step_by(LINE) {
            self.strip::<1>(top);
        }
        if lines < self.rows {
            self.last_rows(lines);
        }
    }
}

impl<T: Real, const LINE: usize> Solve<'_, '_, T, LINE> {
    #[inline(always)]
    fn strip<const LINES: usize>(&mut self, top: usize) {
        let n = self.l.len();
        let grouped = n / GROUP * GROUP;
        for j in (0..grouped).step_by(GROUP) {
            self.group::<LINES>(j, top);
        }
        for j in grouped..n {
            self.single::<LINES>(j, top);
        }
    }

    #[inline(always)]
    fn group<const LINES: usize>(&mut self, j: usize, top: usize) {
        let (solved, rest) = self.b.split_at_mut(j);
        let Some(columns) = rest.first_chunk_mut() else {
            return;
        };
        let square = PivotSquare {
            below: array::from_fn(|k| array::from_fn(|i| self.l[j + k][j + i])),
            reciprocals: array::from_fn(|k| self.reciprocals[j + k]),
        };
        let mut x: StripGroup<T, LINE, LINES> = load_group(columns, top);
        subtract_columns(&mut x, solved, self.l, (j, top));
        square.solve(&mut x);
        store_group(&x, columns, top);
    }

    /// One of the last columns, which are no whole group.
    #[inline(always)]
    fn single<const LINES: usize>(&mut self, j: usize, top: usize) {
        let (solved, rest) = self.b.split_at_mut(j);
        let mut x: Strip<T, LINE, LINES> = load(rest[0], top);
        for (k, solved) in solved.iter().enumerate() {
            subtract(&mut x, self.l[k][j], &load(solved, top));
        }
        scale(&mut x, self.reciprocals[j]);
        store(&x, rest[0], top);
    }

    /// The last rows, which do not fill a line, in lines of their own.
    #[inline(always)]
    fn last_rows(&mut self, top: usize) {
        let mut lines = [[T::zero(); LINE]; WIDEST];
        for (line, column) in lines.iter_mut().zip(&*self.b) {
            line[..self.rows - top].copy_from_slice(&column[top..]);
        }
        let mut each = lines.iter_mut().map(|line| &mut line[..]);
        let mut b: [&mut [T]; WIDEST] = array::from_fn(|_| each.next().unwrap_or_default());
        let mut last = Solve::<T, LINE> {
            b: &mut b[..self.l.len()],
            ..*self
        };
        last.strip::<1>(0);
        for (line, column) in lines.iter().zip(&mut *self.b) {
            column[top..].copy_from_slice(&line[..self.rows - top]);
        }
    }
}

// ── Factoring ────────────────────────────────────────────────────────────────────────────────────────

/// Zeros behind the last row, which the strip of the last rows may reach into: four lines of f32.
const BEHIND: usize = 64;

/// In a copy of whole groups and strips: behind the last column stand those of I, behind the last row
/// zeros. What is above the squares on the diagonal is not looked at.
fn factor<T: Real, const LINE: usize>(mut a: MatMut<'_, T>) -> bool {
    let n = a.ncols();
    if n > WIDEST || !vectors::fuses() || a.row_stride() != 1 {
        return false;
    }
    let whole = n.next_multiple_of(GROUP);
    let height = whole + BEHIND;
    let mut is_factored = false;
    with_scratch(whole * height, |copy: &mut [T]| {
        for (j, column) in copy.chunks_exact_mut(height).enumerate() {
            column[j / GROUP * GROUP..j].fill(T::zero());
            column[n..].fill(T::zero());
            match j < n {
                true => column[j..n].copy_from_slice(&contiguous(&mut a, j)[j..]),
                false => column[j] = T::one(),
            }
        }
        let mut each = copy.chunks_exact_mut(height);
        let mut columns: [&mut [T]; WIDEST] = array::from_fn(|_| each.next().unwrap_or_default());
        vectors::compute(Factor::<T, LINE> {
            a: &mut columns[..whole],
            is_factored: &mut is_factored,
        });
        if is_factored {
            for (j, column) in copy.chunks_exact(height).take(n).enumerate() {
                contiguous(&mut a, j)[j..].copy_from_slice(&column[j..n]);
            }
        }
    });
    is_factored
}

/// A ← L, by columns.
struct Factor<'a, 'b, T, const LINE: usize> {
    a: &'a mut [&'b mut [T]],
    /// Whether no pivot was refused.
    is_factored: &'a mut bool,
}

impl<T: Real, const LINE: usize> InVectors for Factor<'_, '_, T, LINE> {
    #[inline(always)]
    fn compute<const LINES: usize>(mut self) {
        *self.is_factored = true;
        for j in (0..self.a.len()).step_by(GROUP) {
            *self.is_factored = *self.is_factored && self.group::<LINES>(j);
        }
    }
}

impl<T: Real, const LINE: usize> Factor<'_, '_, T, LINE> {
    /// Columns `j` to `j + 3`; `false` if a pivot is not taken.
    #[inline(always)]
    fn group<const LINES: usize>(&mut self, j: usize) -> bool {
        let n = self.a.len();
        let (before, rest) = self.a.split_at_mut(j);
        let Some(columns) = rest.first_chunk_mut() else {
            return false;
        };
        // A ← A − L·Lᴴ, of the columns before
        let mut top = j;
        while top + LINE < n {
            Self::subtract::<LINES>(columns, before, (j, top));
            top += LINES * LINE;
        }
        if top < n {
            Self::subtract::<1>(columns, before, (j, top));
        }
        let Some(square) = Self::pivot_square(columns, j) else {
            return false;
        };
        // A ← A·L⁻ᴴ, below
        let mut top = j + GROUP;
        while top + LINE < n {
            Self::solve::<LINES>(columns, &square, top);
            top += LINES * LINE;
        }
        if top < n {
            Self::solve::<1>(columns, &square, top);
        }
        true
    }

    #[inline(always)]
    fn subtract<const LINES: usize>(
        columns: &mut [&mut [T]; GROUP],
        before: &[&mut [T]],
        at: (usize, usize),
    ) {
        let mut x: StripGroup<T, LINE, LINES> = load_group(columns, at.1);
        subtract_columns(&mut x, before, before, at);
        store_group(&x, columns, at.1);
    }

    #[inline(always)]
    fn solve<const LINES: usize>(
        columns: &mut [&mut [T]; GROUP],
        square: &PivotSquare<T>,
        top: usize,
    ) {
        let mut x: StripGroup<T, LINE, LINES> = load_group(columns, top);
        square.solve(&mut x);
        store_group(&x, columns, top);
    }

    /// Factors the square on the diagonal.
    #[inline(always)]
    fn pivot_square(columns: &mut [&mut [T]; GROUP], j: usize) -> Option<PivotSquare<T>> {
        let mut below: [[T; GROUP]; GROUP] =
            array::from_fn(|k| array::from_fn(|i| columns[k][j + i]));
        let mut reciprocals = [T::zero(); GROUP];
        for k in 0..GROUP {
            let pivot = below[k][k].sqrt();
            let reciprocal = pivot.reciprocal()?;
            (below[k][k], reciprocals[k]) = (pivot, reciprocal);
            for x in &mut below[k][k + 1..] {
                *x *= reciprocal;
            }
            for l in k + 1..GROUP {
                for i in l..GROUP {
                    below[l][i] = (-below[k][l]).mul_add(below[k][i], below[l][i]);
                }
            }
        }
        for (column, below) in columns.iter_mut().zip(&below) {
            column[j..j + GROUP].copy_from_slice(below);
        }
        Some(PivotSquare { below, reciprocals })
    }
}

#[cfg(test)]
mod tests {
    use super::super::potrf::potrf_unblocked;
    use super::*;
    use crate::scalar::Scalar;

    /// Columns of numbers between −1 and 1, and behind each some that no kernel may touch.
    struct Block<T> {
        rows: usize,
        stride: usize,
        elements: Vec<T>,
    }

    impl<T: Scalar> Block<T> {
        fn new(rows: usize, cols: usize, seed: usize) -> Self {
            let stride = rows + 3;
            let number = |i: usize| ((i * 7919 + seed) % 1013) as f64 / 507.0 - 1.0;
            let elements = (0..stride * cols).map(|i| T::from_real(number(i)));
            let elements = elements.collect();
            Block {
                rows,
                stride,
                elements,
            }
        }

        /// With a diagonal that makes it the factor of a definite matrix, or one itself, and NaN above.
        fn triangle(n: usize, seed: usize) -> Self {
            let mut block = Self::new(n, n, seed);
            for j in 0..n {
                (0..j).for_each(|i| *block.at(i, j) = T::from_real(f64::NAN));
                *block.at(j, j) = T::from_real(n as f64 + 2.0);
            }
            block
        }

        fn at(&mut self, i: usize, j: usize) -> &mut T {
            &mut self.elements[i + j * self.stride]
        }

        fn get(&self, i: usize, j: usize) -> T {
            self.elements[i + j * self.stride]
        }

        fn cols(&self) -> usize {
            self.elements.len() / self.stride
        }

        fn view(&self) -> MatRef<'_, T> {
            let (rows, cols) = (self.rows, self.cols());
            MatRef::from_column_major_slice_with_stride(&self.elements, rows, cols, self.stride)
        }

        fn view_mut(&mut self) -> MatMut<'_, T> {
            let (rows, cols, stride) = (self.rows, self.cols(), self.stride);
            let elements = &mut self.elements;
            MatMut::from_column_major_slice_with_stride_mut(elements, rows, cols, stride)
        }

        fn bits(&self) -> Vec<[u64; 2]> {
            self.elements.iter().map(|x| x.bits()).collect()
        }

        /// Rows of it, without what stands behind.
        fn part(&self, rows: std::ops::Range<usize>) -> Self {
            let mut part = Self::new(rows.len(), self.cols(), 0);
            for j in 0..self.cols() {
                (0..part.rows).for_each(|i| *part.at(i, j) = self.get(rows.start + i, j));
            }
            part
        }
    }

    impl<T: Clone> Clone for Block<T> {
        fn clone(&self) -> Self {
            let elements = self.elements.clone();
            Block { elements, ..*self }
        }
    }

    const ORDERS: [usize; 9] = [0, 1, 3, 4, 5, 8, 48, 95, 96];
    const ROWS: [usize; 8] = [0, 1, 7, 8, 17, 32, 63, 101];

    #[test]
    fn what_is_solved_for_gives_the_block_again_and_nothing_beside_it_changes() {
        fn check<T: Scalar>(diagonal: Diagonal) {
            for (n, rows) in ORDERS.into_iter().flat_map(|n| ROWS.map(|rows| (n, rows))) {
                let (mut l, given) = (Block::<T>::triangle(n, n), Block::<T>::new(rows, n, 5));
                let mut x = given.clone();
                if diagonal == Diagonal::Unit {
                    // Small below, or the solution grows without bound; NaN where nothing is read.
                    for j in 0..n {
                        (j..n).for_each(|i| *l.at(i, j) *= T::from_real(0.02));
                        *l.at(j, j) = T::from_real(f64::NAN);
                    }
                }
                assert!(T::solve_in_strips(diagonal, l.view(), x.view_mut()) == vectors::fuses());
                let l = |i, j| match i == j && diagonal == Diagonal::Unit {
                    true => T::one(),
                    false => l.get(i, j),
                };
                for j in 0..n {
                    for i in 0..rows {
                        let terms = (0..=j).map(|k| (x.get(i, k) * l(j, k)).re());
                        let off = (terms.sum::<f64>() - given.get(i, j).re()).abs();
                        let near = off <= 32.0 * T::EPSILON || !vectors::fuses();
                        assert!(near, "{} {n} {rows}: {off:e}", T::PRECISION);
                    }
                    for i in rows..x.stride {
                        assert!(x.get(i, j) == given.get(i, j), "{n} {rows}");
                    }
                }
            }
        }
        for diagonal in [Diagonal::NonUnit, Diagonal::Unit] {
            check::<f32>(diagonal);
            check::<f64>(diagonal);
        }
    }

    #[test]
    fn a_row_has_the_same_bits_whichever_others_it_is_solved_with() {
        fn check<T: Scalar>() {
            let (l, given) = (Block::<T>::triangle(94, 1), Block::<T>::new(75, 94, 2));
            let mut whole = given.clone();
            T::solve_in_strips(Diagonal::NonUnit, l.view(), whole.view_mut());
            for rows in [0..1, 31..33, 40..75, 70..71, 74..75] {
                let mut alone = given.part(rows.clone());
                T::solve_in_strips(Diagonal::NonUnit, l.view(), alone.view_mut());
                assert!(alone.bits() == whole.part(rows.clone()).bits(), "{rows:?}");
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn vectors_of_any_width_give_the_same_bits() {
        let lines = |n: usize, height| Block::<f64>::new(height - 3, n, 4);
        let (l, n, rows) = (Block::<f64>::triangle(96, 1), 96, 53);
        let reciprocals: Vec<f64> = (0..n).map(|j| l.get(j, j).recip()).collect();
        let l: Vec<&[f64]> = l.elements.chunks_exact(l.stride).collect();
        let mut solved = [lines(n, rows), lines(n, rows), lines(n, rows)];
        let mut factored = [
            Block::<f64>::triangle(n + BEHIND, 9),
            Block::triangle(n + BEHIND, 9),
        ];
        for (way, block) in solved.iter_mut().enumerate() {
            let stride = block.stride;
            let mut b: Vec<&mut [f64]> = block.elements.chunks_exact_mut(stride).collect();
            let solve = Solve::<f64, 8> {
                l: &l,
                reciprocals: &reciprocals,
                b: &mut b,
                rows,
            };
            match way {
                0 => solve.compute::<1>(),
                1 => solve.compute::<4>(),
                _ => vectors::compute(solve),
            }
        }
        for (way, block) in factored.iter_mut().enumerate() {
            let stride = block.stride;
            let mut a: Vec<&mut [f64]> = block.elements.chunks_exact_mut(stride).collect();
            let mut is_factored = false;
            let factor = Factor::<f64, 8> {
                a: &mut a[..n],
                is_factored: &mut is_factored,
            };
            match way {
                0 => factor.compute::<1>(),
                _ => vectors::compute(factor),
            }
            assert!(is_factored);
        }
        let [one, four, widest] = solved.map(|block| block.bits());
        assert!(one == four && one == widest);
        let lower = |block: &Block<f64>| -> Vec<u64> {
            let places = (0..n).flat_map(|j| (j..n).map(move |i| (i, j)));
            places.map(|(i, j)| block.get(i, j).to_bits()).collect()
        };
        assert!(lower(&factored[0]) == lower(&factored[1]));
    }

    #[test]
    fn a_factor_is_that_of_the_textbook_and_what_is_above_the_diagonal_stays() {
        fn check<T: Scalar>() {
            for n in ORDERS {
                let given = Block::<T>::triangle(n, 3);
                let (mut a, mut expected) = (given.clone(), given.clone());
                assert!(T::factor_in_strips(a.view_mut()) == vectors::fuses());
                potrf_unblocked(expected.view_mut()).unwrap();
                for j in 0..n {
                    (0..j).for_each(|i| assert!(a.get(i, j).re().is_nan(), "{n}: {i}, {j}"));
                    for i in j..n {
                        let off = (a.get(i, j) - expected.get(i, j)).modulus();
                        let near = off <= 8.0 * T::EPSILON * (n as f64 + 2.0);
                        assert!(near || !vectors::fuses(), "{} {n}: {off:e}", T::PRECISION);
                    }
                    for i in n..a.stride {
                        assert!(a.get(i, j) == given.get(i, j), "{n}");
                    }
                }
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn a_pivot_that_is_not_taken_leaves_all_as_it_was() {
        let bad = [-1.0, 0.0, f64::NAN, f64::INFINITY];
        for (at, bad) in [0, 5, 40, 95]
            .into_iter()
            .flat_map(|at| bad.map(|bad| (at, bad)))
        {
            let mut a = Block::<f64>::triangle(96, 3);
            *a.at(at, at) = bad;
            let (given, b) = (a.bits(), Block::<f64>::new(10, 96, 1));
            assert!(!f64::factor_in_strips(a.view_mut()), "{bad} at {at}");
            assert!(a.bits() == given, "{bad} at {at}");
            // What is beside such a pivot is solved for unless its reciprocal is no normal number.
            let mut x = b.clone();
            let is_taken = bad == -1.0 && vectors::fuses();
            assert!(f64::solve_in_strips(Diagonal::NonUnit, a.view(), x.view_mut()) == is_taken);
            assert!(is_taken || x.bits() == b.bits(), "{bad} at {at}");
        }
    }
}
