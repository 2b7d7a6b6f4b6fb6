//! LAPACK: Cholesky and LU with what follows from them, triangles, least squares.

use crate::call::{Call, given, is_unit, length, op, spans, taken, triangle};
use crate::tiles::{done, general, info_of, lower, nb, put, put_lower, workers};
use dataflow_linalg::cholesky;
use dataflow_linalg::kernel::{Backend, Op, Side, Triangle};
use dataflow_linalg::lu::{self, Pivots};
use dataflow_linalg::matrix::TiledMatrix;
use dataflow_linalg::product::{self, TriangularOperand};
use dataflow_linalg::qr::{self, Options};
use dataflow_linalg::scalar::{Scalar, c32, c64};

routine!(potrf(uplo: letter, n: length, a: taken, lda: length, info: info):
    spotrf_ of f32, dpotrf_ of f64, cpotrf_ of c32, zpotrf_ of c64);

routine!(potrs(uplo: letter, n: length, nrhs: length, a: given, lda: length, b: taken, ldb: length,
    info: info):
    spotrs_ of f32, dpotrs_ of f64, cpotrs_ of c32, zpotrs_ of c64);

routine!(potri(uplo: letter, n: length, a: taken, lda: length, info: info):
    spotri_ of f32, dpotri_ of f64, cpotri_ of c32, zpotri_ of c64);

routine!(getrf(m: length, n: length, a: taken, lda: length, pivots: taken_rows, info: info):
    sgetrf_ of f32, dgetrf_ of f64, cgetrf_ of c32, zgetrf_ of c64);

routine!(getrs(trans: letter, n: length, nrhs: length, a: given, lda: length, pivots: given_rows,
    b: taken, ldb: length, info: info):
    sgetrs_ of f32, dgetrs_ of f64, cgetrs_ of c32, zgetrs_ of c64);

routine!(getri(n: length, a: taken, lda: length, pivots: given_rows, work: taken, lwork: length,
    info: info):
    sgetri_ of f32, dgetri_ of f64, cgetri_ of c32, zgetri_ of c64);

routine!(trtri(uplo: letter, diag: letter, n: length, a: taken, lda: length, info: info):
    strtri_ of f32, dtrtri_ of f64, ctrtri_ of c32, ztrtri_ of c64);

routine!(trtrs(uplo: letter, trans: letter, diag: letter, n: length, nrhs: length, a: given,
    lda: length, b: taken, ldb: length, info: info):
    strtrs_ of f32, dtrtrs_ of f64, ctrtrs_ of c32, ztrtrs_ of c64);

routine!(gels(trans: letter, m: length, n: length, nrhs: length, a: taken, lda: length, b: taken,
    ldb: length, work: taken, lwork: length, info: info):
    sgels_ of f32, dgels_ of f64, cgels_ of c32, zgels_ of c64);

/// A = L·Lᴴ or Uᴴ·U
fn potrf<T: Scalar>(name: &str, uplo: &u8, n: &i32, a: *mut T, lda: &i32, info: &mut i32) {
    let stored = triangle(*uplo);
    let mut call = Call::of(name);
    call.expect(1, stored.is_some())
        .expect(2, *n >= 0)
        .expect(4, spans(*lda, *n));
    *info = -call.refused();
    let (0, Some(stored)) = (*info, stored) else {
        return;
    };
    let (n, lda) = (length(*n), length(*lda));
    if n == 0 {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { taken(a, (n, n, lda)) };
    let how = (stored, Op::ConjTranspose);
    let factor = lower(n, how, |i, j| a[i + j * lda]);
    let space = done(cholesky::Factor::new(&factor, Backend::Auto));
    *info = info_of(space.run(workers()));
    put_lower(&factor, how, (a, lda));
}

/// X ← A⁻¹·B
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn potrs<T: Scalar>(
    name: &str,
    uplo: &u8,
    n: &i32,
    nrhs: &i32,
    a: *const T,
    lda: &i32,
    b: *mut T,
    ldb: &i32,
    info: &mut i32,
) {
    let stored = triangle(*uplo);
    let mut call = Call::of(name);
    call.expect(1, stored.is_some())
        .expect(2, *n >= 0)
        .expect(3, *nrhs >= 0);
    call.expect(5, spans(*lda, *n)).expect(7, spans(*ldb, *n));
    *info = -call.refused();
    let (0, Some(stored)) = (*info, stored) else {
        return;
    };
    let [n, nrhs, lda, ldb] = [*n, *nrhs, *lda, *ldb].map(length);
    if n == 0 || nrhs == 0 {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { given(a, (n, n, lda)) };
    // SAFETY: as above
    let b = unsafe { taken(b, (n, nrhs, ldb)) };
    let factor = lower(n, (stored, Op::ConjTranspose), |i, j| a[i + j * lda]);
    let x = general(n, nrhs, |i, j| b[i + j * ldb]);
    done(cholesky::solve(&factor, &x, Backend::Auto, workers()));
    put(&x, (b, ldb), |_, _| true);
}

/// A⁻¹ from its factor, one triangle: the solution for all unit vectors.
fn potri<T: Scalar>(name: &str, uplo: &u8, n: &i32, a: *mut T, lda: &i32, info: &mut i32) {
    let stored = triangle(*uplo);
    let mut call = Call::of(name);
    call.expect(1, stored.is_some())
        .expect(2, *n >= 0)
        .expect(4, spans(*lda, *n));
    *info = -call.refused();
    let (0, Some(stored)) = (*info, stored) else {
        return;
    };
    let (n, lda) = (length(*n), length(*lda));
    if n == 0 {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { taken(a, (n, n, lda)) };
    *info = first_zero(n, |i| a[i + i * lda]);
    if *info != 0 {
        return;
    }
    let factor = lower(n, (stored, Op::ConjTranspose), |i, j| a[i + j * lda]);
    let inverse = unit(n);
    done(cholesky::solve(&factor, &inverse, Backend::Auto, workers()));
    put(&inverse, (a, lda), |i, j| is_in(stored, i, j));
}

/// P·A = L·U
fn getrf<T: Scalar>(
    name: &str,
    m: &i32,
    n: &i32,
    a: *mut T,
    lda: &i32,
    pivots: *mut i32,
    info: &mut i32,
) {
    let mut call = Call::of(name);
    call.expect(1, *m >= 0)
        .expect(2, *n >= 0)
        .expect(4, spans(*lda, *m));
    *info = -call.refused();
    if *info != 0 {
        return;
    }
    let [m, n, lda] = [*m, *n, *lda].map(length);
    if m == 0 || n == 0 {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { taken(a, (m, n, lda)) };
    // SAFETY: as above
    let pivots = unsafe { taken(pivots, (m.min(n), 1, m.min(n))) };
    let factors = general(m, n, |i, j| a[i + j * lda]);
    let found = Pivots::new(&factors);
    let space = done(lu::Factor::new(&factors, &found, Backend::Auto));
    done(space.run(workers()));
    *info = info_of(lu::expect_regular(&factors, workers()));
    put(&factors, (a, lda), |_, _| true);
    for (row, other) in found.rows() {
        pivots[row] = other as i32 + 1;
    }
}

/// The row swaps of factors, counted from 0.
///
/// # Safety
/// There are as many as the matrix has rows.
unsafe fn swaps<T: Scalar>(factors: &TiledMatrix<T>, pivots: *const i32) -> Pivots<T> {
    let n = factors.rows();
    // SAFETY: the contract of this function
    let pivots = unsafe { given(pivots, (n, 1, n)) };
    let rows: Vec<usize> = pivots.iter().map(|&row| length(row - 1)).collect();
    done(Pivots::of_rows(factors, &rows))
}

/// X ← op(A)⁻¹·B
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn getrs<T: Scalar>(
    name: &str,
    trans: &u8,
    n: &i32,
    nrhs: &i32,
    a: *const T,
    lda: &i32,
    pivots: *const i32,
    b: *mut T,
    ldb: &i32,
    info: &mut i32,
) {
    let op = op(*trans);
    let mut call = Call::of(name);
    call.expect(1, op.is_some())
        .expect(2, *n >= 0)
        .expect(3, *nrhs >= 0);
    call.expect(5, spans(*lda, *n)).expect(8, spans(*ldb, *n));
    *info = -call.refused();
    let (0, Some(op)) = (*info, op) else {
        return;
    };
    let [n, nrhs, lda, ldb] = [*n, *nrhs, *lda, *ldb].map(length);
    if n == 0 || nrhs == 0 {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { given(a, (n, n, lda)) };
    // SAFETY: as above
    let b = unsafe { taken(b, (n, nrhs, ldb)) };
    let factors = general(n, n, |i, j| a[i + j * lda]);
    // SAFETY: as above
    let pivots = unsafe { swaps(&factors, pivots) };
    let x = general(n, nrhs, |i, j| b[i + j * ldb]);
    let space = done(lu::Solve::new(&factors, &pivots, op, &x, Backend::Auto));
    done(space.run(workers()));
    put(&x, (b, ldb), |_, _| true);
}

/// A⁻¹ from its factors.
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn getri<T: Scalar>(
    name: &str,
    n: &i32,
    a: *mut T,
    lda: &i32,
    pivots: *const i32,
    work: *mut T,
    lwork: &i32,
    info: &mut i32,
) {
    let is_question = *lwork == -1;
    let mut call = Call::of(name);
    call.expect(1, *n >= 0).expect(3, spans(*lda, *n));
    call.expect(6, is_question || spans(*lwork, *n));
    *info = -call.refused();
    if *info != 0 {
        return;
    }
    let (n, lda) = (length(*n), length(*lda));
    // SAFETY: what the reference asks of who calls this routine: one element at least
    let work = unsafe { taken(work, (1, 1, 1)) };
    work[0] = T::from_real(n.max(1) as f64);
    if is_question || n == 0 {
        return;
    }
    // SAFETY: as above
    let a = unsafe { taken(a, (n, n, lda)) };
    *info = first_zero(n, |i| a[i + i * lda]);
    if *info != 0 {
        return;
    }
    let factors = general(n, n, |i, j| a[i + j * lda]);
    // SAFETY: as above
    let pivots = unsafe { swaps(&factors, pivots) };
    let (inverse, _) = done(lu::invert(factors, &pivots, Backend::Auto, workers()));
    put(&inverse, (a, lda), |_, _| true);
}

/// The inverse of a triangle.
fn trtri<T: Scalar>(
    name: &str,
    uplo: &u8,
    diag: &u8,
    n: &i32,
    a: *mut T,
    lda: &i32,
    info: &mut i32,
) {
    let (stored, is_one) = (triangle(*uplo), is_unit(*diag));
    let mut call = Call::of(name);
    call.expect(1, stored.is_some()).expect(2, is_one.is_some());
    call.expect(3, *n >= 0).expect(5, spans(*lda, *n));
    *info = -call.refused();
    let (0, Some(stored), Some(is_one)) = (*info, stored, is_one) else {
        return;
    };
    let (n, lda) = (length(*n), length(*lda));
    if n == 0 {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { taken(a, (n, n, lda)) };
    let inverse = unit(n);
    *info = solve_triangle((stored, is_one, Op::NoTranspose), (&*a, lda), &inverse);
    if *info == 0 {
        put(&inverse, (a, lda), |i, j| {
            is_in(stored, i, j) && !(is_one && i == j)
        });
    }
}

/// X ← op(A)⁻¹·B with a triangle.
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn trtrs<T: Scalar>(
    name: &str,
    uplo: &u8,
    trans: &u8,
    diag: &u8,
    n: &i32,
    nrhs: &i32,
    a: *const T,
    lda: &i32,
    b: *mut T,
    ldb: &i32,
    info: &mut i32,
) {
    let (stored, op, is_one) = (triangle(*uplo), op(*trans), is_unit(*diag));
    let mut call = Call::of(name);
    call.expect(1, stored.is_some())
        .expect(2, op.is_some())
        .expect(3, is_one.is_some());
    call.expect(4, *n >= 0).expect(5, *nrhs >= 0);
    call.expect(7, spans(*lda, *n)).expect(9, spans(*ldb, *n));
    *info = -call.refused();
    let (0, Some(stored), Some(op), Some(is_one)) = (*info, stored, op, is_one) else {
        return;
    };
    let [n, nrhs, lda, ldb] = [*n, *nrhs, *lda, *ldb].map(length);
    if n == 0 || nrhs == 0 {
        return;
    }
    // SAFETY: what the reference asks of who calls this routine
    let a = unsafe { given(a, (n, n, lda)) };
    // SAFETY: as above
    let b = unsafe { taken(b, (n, nrhs, ldb)) };
    let x = general(n, nrhs, |i, j| b[i + j * ldb]);
    *info = solve_triangle((stored, is_one, op), (a, lda), &x);
    if *info == 0 {
        put(&x, (b, ldb), |_, _| true);
    }
}

/// The least-squares or shortest solution with op(A), of full rank. A stays as it was.
#[allow(clippy::too_many_arguments, reason = "the reference has as many")]
fn gels<T: Scalar>(
    name: &str,
    trans: &u8,
    m: &i32,
    n: &i32,
    nrhs: &i32,
    a: *mut T,
    lda: &i32,
    b: *mut T,
    ldb: &i32,
    work: *mut T,
    lwork: &i32,
    info: &mut i32,
) {
    let strange = if T::IS_COMPLEX {
        Op::Transpose
    } else {
        Op::ConjTranspose
    };
    let op = op(*trans).filter(|&op| op != strange);
    let (shorter, is_question) = ((*m).min(*n), *lwork == -1);
    let least = (shorter + shorter.max(*nrhs)).max(1);
    let mut call = Call::of(name);
    call.expect(1, op.is_some())
        .expect(2, *m >= 0)
        .expect(3, *n >= 0)
        .expect(4, *nrhs >= 0);
    call.expect(6, spans(*lda, *m))
        .expect(8, spans(*ldb, (*m).max(*n)));
    call.expect(10, is_question || *lwork >= least);
    *info = -call.refused();
    let (0, Some(op)) = (*info, op) else {
        return;
    };
    // SAFETY: what the reference asks of who calls this routine: one element at least
    let work = unsafe { taken(work, (1, 1, 1)) };
    work[0] = T::from_real(f64::from(least));
    if is_question {
        return;
    }
    let [m, n, nrhs, lda, ldb] = [*m, *n, *nrhs, *lda, *ldb].map(length);
    // SAFETY: as above
    let a = unsafe { given(a.cast_const(), (m, n, lda)) };
    // SAFETY: as above
    let b = unsafe { taken(b, (m.max(n), nrhs, ldb)) };
    if m.min(n).min(nrhs) == 0 {
        b.chunks_mut(ldb)
            .for_each(|column| column[..m.max(n)].fill(T::zero()));
        return;
    }
    let matrix = match op {
        Op::NoTranspose => general(m, n, |i, j| a[i + j * lda]),
        _ => general(n, m, |i, j| a[j + i * lda].conj()),
    };
    let sides = general(matrix.rows(), nrhs, |i, j| b[i + j * ldb]);
    let options = Options::of_order(nb());
    let (x, _) = done(qr::least_squares(
        &matrix,
        &sides,
        options,
        Backend::Auto,
        workers(),
    ));
    // Below X what no solution removes.
    put(&sides, (&mut *b, ldb), |i, _| i >= x.rows());
    put(&x, (b, ldb), |_, _| true);
}

/// Solves in place; INFO is the first zero on the diagonal, with which nothing is solved.
fn solve_triangle<T: Scalar>(
    (stored, is_one, op): (Triangle, bool, Op),
    (a, lda): (&[T], usize),
    x: &TiledMatrix<T>,
) -> i32 {
    let n = x.rows();
    let info = if is_one {
        0
    } else {
        first_zero(n, |i| a[i + i * lda])
    };
    if info != 0 || n == 0 || x.cols() == 0 {
        return info;
    }
    let a = general(n, n, |i, j| a[i + j * lda]);
    let a = match stored {
        Triangle::Lower => TriangularOperand::lower(&a),
        Triangle::Upper => TriangularOperand::upper(&a),
    };
    let a = if is_one { a.unit() } else { a }.with(op);
    done(product::trsm(
        Side::Left,
        T::one(),
        a,
        x,
        Backend::Auto,
        workers(),
    ));
    0
}

/// The number of the first zero on a diagonal, from 1; 0 if there is none.
fn first_zero<T: Scalar>(n: usize, diagonal: impl Fn(usize) -> T) -> i32 {
    let found = (0..n).position(|i| diagonal(i) == T::zero());
    found.map_or(0, |i| i as i32 + 1)
}

fn unit<T: Scalar>(n: usize) -> TiledMatrix<T> {
    general(n, n, |i, j| if i == j { T::one() } else { T::zero() })
}

fn is_in(stored: Triangle, i: usize, j: usize) -> bool {
    match stored {
        Triangle::Lower => i >= j,
        Triangle::Upper => i <= j,
    }
}
