//! BLAS 3: products, and solutions with a triangle.

use crate::call::{Call, given, is_unit, length, op, side, spans, taken, triangle};
use crate::tiles::{done, general, lower, operand, put, put_lower, workers};
use dataflow_linalg::kernel::{Backend, Op, Side, Triangle};
use dataflow_linalg::product::{self, Operand, TriangularOperand};
use dataflow_linalg::scalar::{Scalar, c32, c64};

routine!(gemm(op_a: letter, op_b: letter, m: length, n: length, k: length, alpha: element, a: given,
    lda: length, b: given, ldb: length, beta: element, c: taken, ldc: length):
    sgemm_ of f32, dgemm_ of f64, cgemm_ of c32, zgemm_ of c64);

routine!(symm(side: letter, uplo: letter, m: length, n: length, alpha: element, a: given, lda: length,
    b: given, ldb: length, beta: element, c: taken, ldc: length):
    ssymm_ of f32, dsymm_ of f64, csymm_ of c32, zsymm_ of c64);

routine!(hemm(side: letter, uplo: letter, m: length, n: length, alpha: element, a: given, lda: length,
    b: given, ldb: length, beta: element, c: taken, ldc: length):
    chemm_ of c32, zhemm_ of c64);

routine!(syrk(uplo: letter, trans: letter, n: length, k: length, alpha: element, a: given, lda: length,
    beta: element, c: taken, ldc: length):
    ssyrk_ of f32, dsyrk_ of f64, csyrk_ of c32, zsyrk_ of c64);

routine!(herk(uplo: letter, trans: letter, n: length, k: length, alpha: real, a: given, lda: length,
    beta: real, c: taken, ldc: length):
    cherk_ of c32, zherk_ of c64);

routine!(trmm(side: letter, uplo: letter, trans: letter, diag: letter, m: length, n: length,
    alpha: element, a: given, lda: length, b: taken, ldb: length):
    strmm_ of f32, dtrmm_ of f64, ctrmm_ of c32, ztrmm_ of c64);

routine!(trsm(side: letter, uplo: letter, trans: letter, diag: letter, m: length, n: length,
    alpha: element, a: given, lda: length, b: taken, ldb: length):
    strsm_ of f32, dtrsm_ of f64, ctrsm_ of c32, ztrsm_ of c64);

/// C ← α·op(A)·op(B) + β·C
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn gemm<T: Scalar>(
    name: &str,
    op_a: &u8,
    op_b: &u8,
    m: &i32,
    n: &i32,
    k: &i32,
    alpha: &T,
    a: *const T,
    lda: &i32,
    b: *const T,
    ldb: &i32,
    beta: &T,
    c: *mut T,
    ldc: &i32,
) {
    let (op_a, op_b) = (op(*op_a), op(*op_b));
    let along = |op, rows, cols| {
        if op == Some(Op::NoTranspose) {
            (rows, cols)
        } else {
            (cols, rows)
        }
    };
    let (of_a, of_b) = (along(op_a, *m, *k), along(op_b, *k, *n));
    let mut call = Call::of(name);
    call.expect(1, op_a.is_some()).expect(2, op_b.is_some());
    call.expect(3, *m >= 0)
        .expect(4, *n >= 0)
        .expect(5, *k >= 0);
    call.expect(8, spans(*lda, of_a.0))
        .expect(10, spans(*ldb, of_b.0));
    call.expect(13, spans(*ldc, *m));
    let (0, Some(op_a), Some(op_b)) = (call.refused(), op_a, op_b) else {
        return;
    };
    let (rows, cols, ldc) = (length(*m), length(*n), length(*ldc));
    let nothing = *k == 0 || *alpha == T::zero();
    if rows == 0 || cols == 0 || nothing && *beta == T::one() {
        return;
    }
    let enter = |x, (height, width), ld| {
        let (height, width, ld) = (length(height), length(width), length(ld));
        // SAFETY: what the reference asks of who calls this routine
        let x = unsafe { given(x, (height, width, ld)) };
        general(height, width, move |i, j| {
            if nothing { T::zero() } else { x[i + j * ld] }
        })
    };
    let (a, b) = (enter(a, of_a, *lda), enter(b, of_b, *ldb));
    // SAFETY: what the reference asks of who calls this routine
    let c = unsafe { taken(c, (rows, cols, ldc)) };
    let made = general(rows, cols, |i, j| c[i + j * ldc]);
    let alpha = if nothing { T::zero() } else { *alpha };
    let (a, b) = (operand(op_a, &a), operand(op_b, &b));
    done(product::gemm(
        alpha,
        a,
        b,
        *beta,
        &made,
        Backend::Auto,
        workers(),
    ));
    put(&made, (c, ldc), |_, _| true);
}

/// C ← α·A·B + β·C or α·B·A + β·C, A symmetric.
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn symm<T: Scalar>(
    name: &str,
    side: &u8,
    uplo: &u8,
    m: &i32,
    n: &i32,
    alpha: &T,
    a: *const T,
    lda: &i32,
    b: *const T,
    ldb: &i32,
    beta: &T,
    c: *mut T,
    ldc: &i32,
) {
    let what = (name, Op::Transpose);
    with_half(
        what,
        (*side, *uplo),
        (*m, *n),
        (*alpha, *beta),
        [(a, *lda), (b, *ldb)],
        (c, *ldc),
    );
}

/// The same, A Hermitian.
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn hemm<T: Scalar>(
    name: &str,
    side: &u8,
    uplo: &u8,
    m: &i32,
    n: &i32,
    alpha: &T,
    a: *const T,
    lda: &i32,
    b: *const T,
    ldb: &i32,
    beta: &T,
    c: *mut T,
    ldc: &i32,
) {
    let what = (name, Op::ConjTranspose);
    with_half(
        what,
        (*side, *uplo),
        (*m, *n),
        (*alpha, *beta),
        [(a, *lda), (b, *ldb)],
        (c, *ldc),
    );
}

/// Products with a matrix of which one triangle is stored, the other being its transpose.
fn with_half<T: Scalar>(
    (name, turn): (&str, Op),
    (at, uplo): (u8, u8),
    (m, n): (i32, i32),
    (alpha, beta): (T, T),
    [(a, lda), (b, ldb)]: [(*const T, i32); 2],
    (c, ldc): (*mut T, i32),
) {
    let (at, stored) = (side(at), triangle(uplo));
    let order = if at == Some(Side::Left) { m } else { n };
    let mut call = Call::of(name);
    call.expect(1, at.is_some()).expect(2, stored.is_some());
    call.expect(3, m >= 0).expect(4, n >= 0);
    call.expect(7, spans(lda, order))
        .expect(9, spans(ldb, m))
        .expect(12, spans(ldc, m));
    let (0, Some(at), Some(stored)) = (call.refused(), at, stored) else {
        return;
    };
    let (rows, cols, order) = (length(m), length(n), length(order));
    let [lda, ldb, ldc] = [lda, ldb, ldc].map(length);
    if rows == 0 || cols == 0 || alpha == T::zero() && beta == T::one() {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { given(a, (order, order, lda)) };
    // SAFETY: as above
    let b = unsafe { given(b, (rows, cols, ldb)) };
    // SAFETY: as above
    let c = unsafe { taken(c, (rows, cols, ldc)) };
    // A symmetric matrix of complex numbers is no operand of the library: it enters whole.
    let half = match T::IS_COMPLEX && turn == Op::Transpose {
        false => lower(order, (stored, turn), |i, j| a[i + j * lda]),
        true => general(order, order, |i, j| {
            let is_stored = (i >= j) == (stored == Triangle::Lower) || i == j;
            if is_stored {
                a[i + j * lda]
            } else {
                a[j + i * lda]
            }
        }),
    };
    let other = general(rows, cols, |i, j| b[i + j * ldb]);
    let made = general(rows, cols, |i, j| c[i + j * ldc]);
    let (half, other) = (Operand::plain(&half), Operand::plain(&other));
    let (first, second) = match at {
        Side::Left => (half, other),
        Side::Right => (other, half),
    };
    done(product::gemm(
        alpha,
        first,
        second,
        beta,
        &made,
        Backend::Auto,
        workers(),
    ));
    put(&made, (c, ldc), |_, _| true);
}

/// C ← α·op(A)·op(A)ᵀ + β·C, one triangle.
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn syrk<T: Scalar>(
    name: &str,
    uplo: &u8,
    trans: &u8,
    n: &i32,
    k: &i32,
    alpha: &T,
    a: *const T,
    lda: &i32,
    beta: &T,
    c: *mut T,
    ldc: &i32,
) {
    // Of complex numbers the adjoint is no symmetric product.
    let op = op(*trans).filter(|&op| !(T::IS_COMPLEX && op == Op::ConjTranspose));
    let what = (name, op, Op::Transpose);
    let unchanged = (*alpha == T::zero() || *k == 0) && *beta == T::one();
    square(
        what,
        *uplo,
        (*n, *k),
        (a, *lda),
        (c, *ldc),
        unchanged,
        |a, c| {
            let alpha = if *k == 0 { T::zero() } else { *alpha };
            product::syrk(alpha, a, *beta, c, Backend::Auto, workers()).map(drop)
        },
    );
}

/// C ← α·op(A)·op(A)ᴴ + β·C, one triangle.
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn herk<T: Scalar>(
    name: &str,
    uplo: &u8,
    trans: &u8,
    n: &i32,
    k: &i32,
    alpha: &(impl Copy + Into<f64> + Sync),
    a: *const T,
    lda: &i32,
    beta: &(impl Copy + Into<f64> + Sync),
    c: *mut T,
    ldc: &i32,
) {
    let op = op(*trans).filter(|&op| op != Op::Transpose);
    let (alpha, beta): (f64, f64) = ((*alpha).into(), (*beta).into());
    let unchanged = (alpha == 0.0 || *k == 0) && beta == 1.0;
    let what = (name, op, Op::ConjTranspose);
    square(
        what,
        *uplo,
        (*n, *k),
        (a, *lda),
        (c, *ldc),
        unchanged,
        |a, c| {
            let alpha = if *k == 0 { 0.0 } else { alpha };
            product::herk(alpha, a, beta, c, Backend::Auto, workers()).map(drop)
        },
    );
}

/// Both of them: C is the lower triangle of the library's, turned if the caller stores the upper.
fn square<T: Scalar>(
    (name, op, turn): (&str, Option<Op>, Op),
    uplo: u8,
    (n, k): (i32, i32),
    (a, lda): (*const T, i32),
    (c, ldc): (*mut T, i32),
    is_unchanged: bool,
    multiply: impl FnOnce(
        Operand<'_, T>,
        &dataflow_linalg::matrix::TiledMatrix<T>,
    ) -> Result<(), dataflow_linalg::LinalgError>,
) {
    let stored = triangle(uplo);
    let (rows, cols) = if op == Some(Op::NoTranspose) {
        (n, k)
    } else {
        (k, n)
    };
    let mut call = Call::of(name);
    call.expect(1, stored.is_some()).expect(2, op.is_some());
    call.expect(3, n >= 0).expect(4, k >= 0);
    call.expect(7, spans(lda, rows)).expect(10, spans(ldc, n));
    let (0, Some(stored), Some(op)) = (call.refused(), stored, op) else {
        return;
    };
    let [order, rows, cols, lda, ldc] = [n, rows, cols, lda, ldc].map(length);
    if order == 0 || is_unchanged {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { given(a, (rows, cols, lda)) };
    // SAFETY: as above
    let c = unsafe { taken(c, (order, order, ldc)) };
    let a = general(rows, cols, |i, j| a[i + j * lda]);
    let made = lower(order, (stored, turn), |i, j| c[i + j * ldc]);
    // Aᵀ of real numbers is Aᴴ, by which the library knows it.
    let op = match (op, turn) {
        (Op::NoTranspose, _) => op,
        (_, turn) => turn,
    };
    done(multiply(operand(op, &a), &made));
    put_lower(&made, (stored, turn), (c, ldc));
}

/// B ← α·op(A)·B or α·B·op(A)
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn trmm<T: Scalar>(
    name: &str,
    side: &u8,
    uplo: &u8,
    trans: &u8,
    diag: &u8,
    m: &i32,
    n: &i32,
    alpha: &T,
    a: *const T,
    lda: &i32,
    b: *mut T,
    ldb: &i32,
) {
    let letters = [*side, *uplo, *trans, *diag];
    with_triangle(
        (name, false),
        letters,
        (*m, *n),
        *alpha,
        (a, *lda),
        (b, *ldb),
    );
}

/// B ← α·op(A)⁻¹·B or α·B·op(A)⁻¹
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn trsm<T: Scalar>(
    name: &str,
    side: &u8,
    uplo: &u8,
    trans: &u8,
    diag: &u8,
    m: &i32,
    n: &i32,
    alpha: &T,
    a: *const T,
    lda: &i32,
    b: *mut T,
    ldb: &i32,
) {
    let letters = [*side, *uplo, *trans, *diag];
    with_triangle(
        (name, true),
        letters,
        (*m, *n),
        *alpha,
        (a, *lda),
        (b, *ldb),
    );
}

fn with_triangle<T: Scalar>(
    (name, solves): (&str, bool),
    [at, uplo, trans, diag]: [u8; 4],
    (m, n): (i32, i32),
    alpha: T,
    (a, lda): (*const T, i32),
    (b, ldb): (*mut T, i32),
) {
    let (at, stored, op, unit) = (side(at), triangle(uplo), op(trans), is_unit(diag));
    let order = if at == Some(Side::Left) { m } else { n };
    let mut call = Call::of(name);
    call.expect(1, at.is_some()).expect(2, stored.is_some());
    call.expect(3, op.is_some()).expect(4, unit.is_some());
    call.expect(5, m >= 0).expect(6, n >= 0);
    call.expect(9, spans(lda, order)).expect(11, spans(ldb, m));
    let (0, Some(at), Some(stored), Some(op), Some(unit)) = (call.refused(), at, stored, op, unit)
    else {
        return;
    };
    let [rows, cols, order, lda, ldb] = [m, n, order, lda, ldb].map(length);
    if rows == 0 || cols == 0 {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { given(a, (order, order, lda)) };
    // SAFETY: as above
    let b = unsafe { taken(b, (rows, cols, ldb)) };
    let a = general(order, order, |i, j| a[i + j * lda]);
    let made = general(rows, cols, |i, j| b[i + j * ldb]);
    let a = match stored {
        Triangle::Lower => TriangularOperand::lower(&a),
        Triangle::Upper => TriangularOperand::upper(&a),
    };
    let a = if unit { a.unit() } else { a }.with(op);
    done(match solves {
        true => product::trsm(at, alpha, a, &made, Backend::Auto, workers()),
        false => product::trmm(at, alpha, a, &made, Backend::Auto, workers()),
    });
    put(&made, (b, ldb), |_, _| true);
}
