//! The leaves in faer: products, triangular solves and small factorisations of strided blocks.
//!
//! # Law
//! All calls are sequential (`Par::Seq`) and none allocates, except scratch once a thread.
//! A triangle is solved with faer where the reciprocals of its pivots, and the quotients of what stands
//! beside them by them, are normal numbers; faer multiplies by these. Otherwise, and for right-hand sides
//! that come out of it not finite, by a plain loop that divides, as LAPACK does. Only the panels of Cholesky
//! are not looked at: there quotients are small, and so is what they are multiplied by.
//!
//! # Elsewhere
//! What is a leaf: [`gemm`](super::gemm), [`trsm`](super::trsm), [`herk`](super::herk) and
//! [`potrf`](super::potrf) cut tiles and blocks down to them. Of Cholesky and of solves with real numbers
//! they are [`strips`](super::strips), where a machine fuses, and for one right-hand side `trsv.rs` and `gemv.rs`.

use std::mem::MaybeUninit;

use ::faer::dyn_stack::MemStack;
use ::faer::linalg::cholesky::llt::factor::cholesky_in_place;
use ::faer::linalg::matmul::matmul_with_conj;
use ::faer::linalg::matmul::triangular::{self, BlockStructure};
use ::faer::linalg::triangular_inverse::invert_lower_triangular;
use ::faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place_with_conj, solve_unit_lower_triangular_in_place_with_conj,
    solve_unit_upper_triangular_in_place_with_conj, solve_upper_triangular_in_place_with_conj,
};
use ::faer::prelude::{Reborrow, ReborrowMut};
use ::faer::{Accum, ColRef, Conj, MatMut, MatRef, Par};

use super::scratch::with_scratch;
use super::transpose::transpose;
use super::{Diagonal, Op, Side, Triangle};
use crate::matrix::norm::all_finite;
use crate::scalar::{Scalar, c32, c64, quotient, smallest_normal};

/// The leaves of one kind of number, compiled once, here: generic functions would be compiled again
/// in every program that calls a kernel, and faer is most of what there is to compile.
macro_rules! leaves {
    ($($(#[$about:meta])* $name:ident = $leaf:ident($($arg:ident: $type:ty),+) $(-> $answer:ty)?;)+) => {
        /// The leaves for one kind of number.
        pub trait Leaves: Sized {
            $($(#[$about])* fn $name($($arg: $type),+) $(-> $answer)?;)+
        }

        leaves!(f32: $($name = $leaf($($arg: $type),+) $(-> $answer)?;)+);
        leaves!(f64: $($name = $leaf($($arg: $type),+) $(-> $answer)?;)+);
        leaves!(c32: $($name = $leaf($($arg: $type),+) $(-> $answer)?;)+);
        leaves!(c64: $($name = $leaf($($arg: $type),+) $(-> $answer)?;)+);
    };
    ($scalar:ident: $($name:ident = $leaf:ident($($arg:ident: $type:ty),+) $(-> $answer:ty)?;)+) => {
        impl Leaves for $scalar {
            $(fn $name($($arg: $type),+) $(-> $answer)? {
                $leaf($($arg),+)
            })+
        }
    };
}

leaves! {
    /// C ← C + α·op(A)·op(B).
    faer_gemm = gemm(
        alpha: Self,
        op_a: Op,
        a: MatRef<'_, Self>,
        op_b: Op,
        b: MatRef<'_, Self>,
        c: MatMut<'_, Self>
    );
    /// C ← C + α·op(A)·op(A)ᴴ, the lower triangle alone; not for [`Op::Transpose`].
    faer_herk = herk(alpha: f64, op: Op, a: MatRef<'_, Self>, c: MatMut<'_, Self>);
    /// B ← B·L⁻ᴴ, where both are of one Cholesky factorisation; of `l`, the lower triangle is read.
    faer_trsm = trsm(l: MatRef<'_, Self>, b: MatMut<'_, Self>);
    /// B ← op(A)⁻¹·B or B·op(A)⁻¹, with one triangle of `a`. Columns, or from the right rows, that
    /// overflow on their way through faer are solved for again.
    faer_trsm_op = trsm_op(
        side: Side,
        op: Op,
        shape: (Triangle, Diagonal),
        a: MatRef<'_, Self>,
        b: MatMut<'_, Self>
    );
    /// `result` ← α·op(A)·B or α·B·op(A), with one triangle of A.
    faer_trmm = trmm(
        alpha: Self,
        side: Side,
        factor: (Op, Triangle, MatRef<'_, Self>),
        b: MatRef<'_, Self>,
        result: MatMut<'_, Self>
    );
    /// `result` ← L⁻¹, the lower triangle alone.
    faer_trtri = trtri(l: MatRef<'_, Self>, result: MatMut<'_, Self>);
    /// `result` ← Lᴴ·L, the lower triangle alone.
    faer_lauum = lauum(l: MatRef<'_, Self>, result: MatMut<'_, Self>);
    /// A ← L of at most [`LARGEST_POTRF`] rows; `false` if faer met a pivot that it does not take.
    ///
    /// The strict upper triangle is overwritten; an imaginary part on the diagonal must be zero.
    faer_potrf = potrf(a: MatMut<'_, Self>) -> bool;
}

fn gemm<T: Scalar>(
    alpha: T,
    op_a: Op,
    a: MatRef<'_, T>,
    op_b: Op,
    b: MatRef<'_, T>,
    c: MatMut<'_, T>,
) {
    let (a, conj_a) = applied(op_a, a);
    if c.nrows() == 1 {
        return without_gaps(a, |a| {
            let b = applied(op_b, b);
            with_row(c, |c| multiply(alpha, (a, conj_a), b, c));
        });
    }
    let a = (a, conj_a);
    let (rows, cols) = (b.nrows(), b.ncols());
    if op_b != Op::NoTranspose && worth_transposing(c.nrows(), rows, cols) {
        let (_, conj_b) = applied(op_b, b);
        return with_scratch(rows * cols, |copy: &mut [T]| {
            transpose(b, copy);
            let b = MatRef::from_column_major_slice(copy, cols, rows);
            multiply(alpha, a, (b, conj_b), c);
        });
    }
    multiply(alpha, a, applied(op_b, b), c);
}

/// A matrix, if it is a single row so that its elements lie side by side: how faer adds up a row depends on it,
/// and nothing else depends on strides.
fn without_gaps<T: Scalar, R>(x: MatRef<'_, T>, work: impl FnOnce(MatRef<'_, T>) -> R) -> R {
    if x.nrows() != 1 || x.col_stride() == 1 {
        return work(x);
    }
    with_scratch(x.ncols(), |copy: &mut [T]| {
        let row = MatMut::from_column_major_slice_mut(copy, 1, x.ncols());
        { row }.copy_from(x);
        work(MatRef::from_column_major_slice(copy, 1, x.ncols()))
    })
}

/// The same of one that is changed.
pub(super) fn with_row<T: Scalar>(mut x: MatMut<'_, T>, work: impl FnOnce(MatMut<'_, T>)) {
    if x.nrows() != 1 || x.col_stride() == 1 {
        return work(x);
    }
    with_scratch(x.ncols(), |copy: &mut [T]| {
        let mut row = MatMut::from_column_major_slice_mut(copy, 1, x.ncols());
        row.copy_from(x.rb());
        work(row.rb_mut());
        x.copy_from(row.rb());
    });
}

/// C ← C + α·A·B, some rows after the others: faer packs what it takes of A into one block and goes through
/// it for every four columns of B, so it should lie in the nearest large cache. Not all builds of faer
/// see to that themselves. The bits are those of one call.
fn multiply<T: Scalar>(
    alpha: T,
    (a, conj_a): (MatRef<'_, T>, Conj),
    (b, conj_b): (MatRef<'_, T>, Conj),
    mut c: MatMut<'_, T>,
) {
    let depth = a.ncols().clamp(1, DEPTH) * size_of::<T>();
    let n_pieces = c.nrows().div_ceil((PACKED / depth).max(ROWS)).max(1);
    let height = c.nrows().div_ceil(n_pieces).max(1).next_multiple_of(ROWS);
    for top in (0..c.nrows()).step_by(height) {
        let height = height.min(c.nrows() - top);
        let c = c.rb_mut().subrows_mut(top, height);
        let a = a.subrows(top, height);
        matmul_with_conj(c, Accum::Add, a, conj_a, b, conj_b, alpha, Par::Seq);
    }
}

/// Bytes of A that are packed at a time: within the second cache of any machine that is likely, beside
/// what passes through it.
const PACKED: usize = 768 << 10;
/// Columns of A that faer multiplies by at a time.
const DEPTH: usize = 512;
/// A multiple of the rows that faer's innermost loops take at a time, with any vectors and numbers but the
/// widest of f32.
const ROWS: usize = 48;

/// Whether a copy of B whose columns are the rows of B gains more than it costs: faer is about a
/// sixth faster on it, if it is used by enough rows of C.
fn worth_transposing(m: usize, rows: usize, cols: usize) -> bool {
    m >= 64 && rows >= 16 && cols >= 16
}

fn applied<T>(op: Op, x: MatRef<'_, T>) -> (MatRef<'_, T>, Conj) {
    match op {
        Op::NoTranspose => (x, Conj::No),
        Op::Transpose => (x.transpose(), Conj::No),
        Op::ConjTranspose => (x.transpose(), Conj::Yes),
    }
}

fn trsm<T: Scalar>(l: MatRef<'_, T>, b: MatMut<'_, T>) {
    with_row(b, |b| {
        // X·Lᴴ = B is conj(L)·Xᵀ = Bᵀ.
        let b = b.transpose_mut();
        match divides_safely(true, l) {
            true => solve_lower_triangular_in_place_with_conj(l, Conj::Yes, b, Par::Seq),
            false => substitute(true, Conj::Yes, l, b),
        }
    });
}

/// Whether faer may solve with a triangle: it multiplies by 1/aᵢᵢ, and in squares of [`LEAF`] rows on
/// the diagonal by aᵢⱼ/aᵢᵢ, all of which must be normal numbers, or 0.
fn divides_safely<T: Scalar>(is_lower: bool, a: MatRef<'_, T>) -> bool {
    let a = if is_lower { a } else { a.transpose() };
    let (mut pivots, mut beside) = (SizeRange::default(), SizeRange::default());
    for j in 0..a.nrows().min(a.ncols()) {
        pivots.add(a[(j, j)]);
        (j + 1..a.nrows().min(j + LEAF)).for_each(|i| beside.add(a[(i, j)]));
    }
    let (least, most) = (smallest_normal::<T>(), 1.0 / smallest_normal::<T>());
    // A complex number is at most a half more than the larger of its parts.
    least <= pivots.least
        && pivots.most <= most / 2.0
        && least * pivots.most <= beside.least
        && beside.most / (most / 4.0) <= pivots.least
}

/// Rows of the triangles that faer does not halve.
const LEAF: usize = 4;

/// The least and the most of the sizes of finite numbers other than 0.
struct SizeRange {
    least: f64,
    most: f64,
}

impl Default for SizeRange {
    fn default() -> Self {
        let (least, most) = (f64::INFINITY, 0.0);
        SizeRange { least, most }
    }
}

impl SizeRange {
    fn add<T: Scalar>(&mut self, x: T) {
        let size = x.re().abs().max(x.im().abs());
        if 0.0 < size && size < f64::INFINITY {
            self.least = self.least.min(size);
            self.most = self.most.max(size);
        }
    }
}

/// B ← A⁻¹·B, or with conj(A), by dividing by each pivot; A has its diagonal, and is lower or upper.
fn substitute<T: Scalar>(is_lower: bool, conj: Conj, a: MatRef<'_, T>, mut b: MatMut<'_, T>) {
    let n = b.nrows();
    let entry = |i, j| match conj {
        Conj::No => a[(i, j)],
        Conj::Yes => Scalar::conj(a[(i, j)]),
    };
    for j in 0..b.ncols() {
        for step in 0..n {
            let (k, rest) = match is_lower {
                true => (step, step + 1..n),
                false => (n - 1 - step, 0..n - 1 - step),
            };
            let x = quotient(b[(k, j)], entry(k, k));
            b[(k, j)] = x;
            for i in rest {
                b[(i, j)] -= entry(i, k) * x;
            }
        }
    }
}

fn trsm_op<T: Scalar>(
    side: Side,
    op: Op,
    (triangle, diagonal): (Triangle, Diagonal),
    a: MatRef<'_, T>,
    b: MatMut<'_, T>,
) {
    // X·op(A) = B is op(A)ᵀ·Xᵀ = Bᵀ.
    let transposed = (side == Side::Left) != (op == Op::NoTranspose);
    let conj = match op {
        Op::ConjTranspose => Conj::Yes,
        Op::NoTranspose | Op::Transpose => Conj::No,
    };
    let lower = (triangle == Triangle::Lower) != transposed;
    let a = if transposed { a.transpose() } else { a };
    if diagonal == Diagonal::NonUnit && !divides_safely(lower, a) {
        return substitute(lower, conj, a, sides(side, b));
    }
    let solve = match (lower, diagonal) {
        (true, Diagonal::NonUnit) => solve_lower_triangular_in_place_with_conj,
        (true, Diagonal::Unit) => solve_unit_lower_triangular_in_place_with_conj,
        (false, Diagonal::NonUnit) => solve_upper_triangular_in_place_with_conj,
        (false, Diagonal::Unit) => solve_unit_upper_triangular_in_place_with_conj,
    };
    let by_quotients = |b: MatMut<'_, T>| solve(a, conj, sides(side, b), Par::Seq);
    match diagonal {
        Diagonal::NonUnit => solve_sides(side, (lower, conj, a), by_quotients, b),
        Diagonal::Unit => by_quotients(b),
    }
}

/// The right-hand sides as columns: from the right they are rows of B.
fn sides<T: Scalar>(side: Side, b: MatMut<'_, T>) -> MatMut<'_, T> {
    match side {
        Side::Left => b,
        Side::Right => b.transpose_mut(),
    }
}

/// Solves for the right-hand sides in B, with A or conj(A), by quotients; for one that comes out not finite by
/// division. A product with a quotient may overflow where LAPACK divides a small number.
fn solve_sides<T: Scalar>(
    side: Side,
    (is_lower, conj, a): (bool, Conj, MatRef<'_, T>),
    by_quotients: impl FnOnce(MatMut<'_, T>),
    mut b: MatMut<'_, T>,
) {
    let (m, n) = (b.nrows(), b.ncols());
    with_scratch(m * n, |given: &mut [T]| {
        let mut given = MatMut::from_column_major_slice_mut(given, m, n);
        given.copy_from(b.rb());
        by_quotients(b.rb_mut());
        // As they lie in storage: rows are far apart.
        if b.rb().col_iter().all(is_finite) {
            return;
        }
        let (solved, given) = (sides(side, b), sides(side, given));
        for (mut x, given) in solved.col_iter_mut().zip(given.rb().col_iter()) {
            if !is_finite(x.rb()) {
                x.copy_from(given);
                substitute(is_lower, conj, a, x.as_mat_mut());
            }
        }
    });
}

fn is_finite<T: Scalar>(x: ColRef<'_, T>) -> bool {
    match x.try_as_col_major() {
        Some(x) => all_finite(x.as_slice()),
        None => x.iter().all(|x| Scalar::is_finite(*x)),
    }
}

fn herk<T: Scalar>(alpha: f64, op: Op, a: MatRef<'_, T>, c: MatMut<'_, T>) {
    let (left, conj) = applied(op, a);
    let adjoint = match conj {
        Conj::No => Conj::Yes,
        Conj::Yes => Conj::No,
    };
    without_gaps(left, |left| {
        triangular::matmul_with_conj(
            c,
            BlockStructure::TriangularLower,
            Accum::Add,
            left,
            BlockStructure::Rectangular,
            conj,
            left.transpose(),
            BlockStructure::Rectangular,
            adjoint,
            T::from_real(alpha),
            Par::Seq,
        );
    });
}

fn trtri<T: Scalar>(l: MatRef<'_, T>, result: MatMut<'_, T>) {
    invert_lower_triangular(result, l, Par::Seq);
}

fn lauum<T: Scalar>(l: MatRef<'_, T>, result: MatMut<'_, T>) {
    triangular::matmul_with_conj(
        result,
        BlockStructure::TriangularLower,
        Accum::Replace,
        l.transpose(),
        BlockStructure::TriangularUpper,
        Conj::Yes,
        l,
        BlockStructure::TriangularLower,
        Conj::No,
        T::one(),
        Par::Seq,
    );
}

fn trmm<T: Scalar>(
    alpha: T,
    side: Side,
    (op, triangle, a): (Op, Triangle, MatRef<'_, T>),
    b: MatRef<'_, T>,
    result: MatMut<'_, T>,
) {
    // R = B·op(A) is Rᵀ = op(A)ᵀ·Bᵀ.
    let (transposed, b, result) = match side {
        Side::Left => (op != Op::NoTranspose, b, result),
        Side::Right => (op == Op::NoTranspose, b.transpose(), result.transpose_mut()),
    };
    let (_, conj) = applied(op, a);
    let a = if transposed { a.transpose() } else { a };
    let structure = match (triangle == Triangle::Lower) != transposed {
        true => BlockStructure::TriangularLower,
        false => BlockStructure::TriangularUpper,
    };
    triangular::matmul_with_conj(
        result,
        BlockStructure::Rectangular,
        Accum::Replace,
        a,
        structure,
        conj,
        b,
        BlockStructure::Rectangular,
        Conj::No,
        alpha,
        Par::Seq,
    );
}

fn potrf<T: Scalar>(a: MatMut<'_, T>) -> bool {
    let mut storage = [MaybeUninit::uninit(); POTRF_STACK];
    let stack = MemStack::new(&mut storage);
    let (no_regularization, parameters) = (Default::default(), Default::default());
    cholesky_in_place(a, no_regularization, Par::Seq, stack, parameters).is_ok()
}

/// Largest order that [`potrf`] has room for.
pub(super) const LARGEST_POTRF: usize = 256;

/// Bytes that faer asks for: a column of the widest numbers, at an alignment of its own.
const POTRF_STACK: usize = LARGEST_POTRF * 16 + 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_a_product_has_the_same_bits_with_whichever_others_it_is_computed() {
        fn check<T: Scalar>() {
            // More rows than are packed at a time, more columns than are multiplied by at a time.
            let (m, n, k) = (420, 37, 700);
            let entry = |i: usize| {
                let part = |shift| ((i * 7919 + shift) % 1013) as f64 / 509.0 - 1.0;
                T::from_parts(part(0), part(499))
            };
            let numbers = |length: usize| (0..length).map(entry).collect::<Vec<T>>();
            let (a, b, c) = (numbers(m * k), numbers(n * k), numbers(m * n));
            let a = MatRef::from_column_major_slice(&a, m, k);
            let b = MatRef::from_column_major_slice(&b, n, k);
            let (mut ours, mut whole) = (c.clone(), c);
            let of = |c| MatMut::from_column_major_slice_mut(c, m, n);
            gemm(
                T::one(),
                Op::NoTranspose,
                a,
                Op::ConjTranspose,
                b,
                of(&mut ours),
            );
            let (b, conj) = applied(Op::ConjTranspose, b);
            let (one, add) = (T::one(), Accum::Add);
            matmul_with_conj(of(&mut whole), add, a, Conj::No, b, conj, one, Par::Seq);
            assert!(ours == whole, "{}", T::PRECISION);
        }
        check::<f32>();
        check::<f64>();
        check::<c32>();
        check::<c64>();
    }
}
