//! OpenBLAS behind safe calls: its products for the kernels, its own routines for comparison.
//!
//! # Law
//! The library computes with one thread from the first call on, unless [`set_threads`] says
//! otherwise: tasks are the parallelism here.
//! Every pointer that leaves Rust is checked against the slice or view that it came from.
//!
//! # Elsewhere
//! When OpenBLAS is taken at all: the table in `product.rs`. Its `trsm` never is: faer's was twice as
//! fast on an AVX-512 machine and is level on an AVX2 one.

use std::ffi::c_int;
use std::sync::Once;

use ::faer::{MatMut, MatRef};
use cblas_sys::CBLAS_LAYOUT::CblasColMajor;
use cblas_sys::CBLAS_TRANSPOSE::{self, CblasConjTrans, CblasNoTrans, CblasTrans};
use cblas_sys::CBLAS_UPLO::CblasLower;

use super::Op;
use crate::scalar::{Scalar, c32, c64};

unsafe extern "C" {
    fn openblas_set_num_threads(n: c_int);
}

static ONE_THREAD: Once = Once::new();

/// Holds OpenBLAS to one thread, once in the life of the process.
fn hold_to_one_thread() {
    ONE_THREAD.call_once(|| {
        // SAFETY: - the symbol is OpenBLAS's own, of this signature since its first release
        //         - it accepts every positive number
        unsafe { openblas_set_num_threads(1) }
    });
}

/// Threads that OpenBLAS may use in each of the calls that follow, at least one.
///
/// Kernels of this crate count on one; more are for timing OpenBLAS's own parallel routines, when
/// nothing else runs.
pub fn set_threads(n: usize) {
    hold_to_one_thread();
    let n = c_int::try_from(n.max(1)).unwrap_or(c_int::MAX);
    // SAFETY: - the symbol is OpenBLAS's own, of this signature since its first release
    //         - it accepts every positive number, and takes no more threads than it was built for
    unsafe { openblas_set_num_threads(n) }
}

/// LAPACK's `?potrf('L')` on a column-major matrix of order `n`; returns its INFO.
///
/// Runs on as many threads as [`set_threads`] allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If `a` with leading dimension `ld` is no `n × n` matrix.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let mut a = [4.0, 2.0, 0.0, 10.0];
/// assert_eq!(openblas::potrf(2, &mut a, 2), 0);
/// assert_eq!(a, [2.0, 1.0, 0.0, 3.0]);
/// ```
pub fn potrf<T: Scalar>(n: usize, a: &mut [T], ld: usize) -> i32 {
    hold_to_one_thread();
    let view = MatRef::from_column_major_slice_with_stride(a, n, n, ld);
    let shape = Strided::of(view);
    // SAFETY: the view was taken from the slice, so it holds the matrix that `shape` describes
    unsafe { T::potrf(shape.cols, a, shape.ld) }
}

/// `C ← C − A·B` on dense column-major matrices, `m × k` times `k × n`.
///
/// Runs on as many threads as [`set_threads`] allows: the peak to compare with, not a kernel.
///
/// # Panics
/// If a slice is not as long as its matrix.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let mut c = [10.0];
/// openblas::gemm(1, 1, 2, &[1.0, 2.0], &[3.0, 2.0], &mut c);
/// assert_eq!(c, [3.0]);
/// ```
pub fn gemm<T: Scalar>(m: usize, n: usize, k: usize, a: &[T], b: &[T], c: &mut [T]) {
    let a = MatRef::from_column_major_slice(a, m, k);
    let b = MatRef::from_column_major_slice(b, k, n);
    let c = MatMut::from_column_major_slice_mut(c, m, n);
    subtract_product(Op::NoTranspose, a, Op::NoTranspose, b, c);
}

/// C ← C − op(A)·op(B).
pub(super) fn subtract_product<T: Scalar>(
    op_a: Op,
    a: MatRef<'_, T>,
    op_b: Op,
    b: MatRef<'_, T>,
    c: MatMut<'_, T>,
) {
    hold_to_one_thread();
    let applied = |op, x: MatRef<'_, T>| match op {
        Op::NoTranspose => (x.nrows(), x.ncols()),
        Op::Transpose | Op::ConjTranspose => (x.ncols(), x.nrows()),
    };
    let ((m, k), (l, n)) = (applied(op_a, a), applied(op_b, b));
    assert!(k == l && (m, n) == (c.nrows(), c.ncols()));
    let (a_shape, b_shape) = (Strided::of(a), Strided::of(b));
    let c_shape = Strided::of(c.as_ref());
    let inner = match op_a {
        Op::NoTranspose => a_shape.cols,
        Op::Transpose | Op::ConjTranspose => a_shape.rows,
    };
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_ptr_mut());
    // SAFETY: - the three shapes agree, by the assertion above
    //         - `Strided::of` found each view column-major, with a leading dimension that BLAS
    //           accepts, so BLAS touches elements of the views alone
    //         - C is borrowed for writing, hence apart from A and B
    unsafe {
        T::subtract_product(
            (transposition(op_a), a, a_shape.ld),
            (transposition(op_b), b, b_shape.ld),
            (c, c_shape),
            inner,
        );
    }
}

/// C ← C − A·Aᴴ, the lower triangle alone.
pub(super) fn subtract_square<T: Scalar>(a: MatRef<'_, T>, c: MatMut<'_, T>) {
    hold_to_one_thread();
    let (a_shape, c_shape) = (Strided::of(a), Strided::of(c.as_ref()));
    assert!(c_shape.rows == c_shape.cols && a_shape.rows == c_shape.rows);
    let (a, c) = (a.as_ptr(), c.as_ptr_mut());
    // SAFETY: - C is square and as high as A, by the assertion above
    //         - `Strided::of` found both views column-major, with a leading dimension that BLAS
    //           accepts, so BLAS touches elements of the views alone
    //         - C is borrowed for writing, hence apart from A
    unsafe { T::subtract_square((a, a_shape), (c, c_shape)) };
}

fn transposition(op: Op) -> CBLAS_TRANSPOSE {
    match op {
        Op::NoTranspose => CblasNoTrans,
        Op::Transpose => CblasTrans,
        Op::ConjTranspose => CblasConjTrans,
    }
}

/// Shape and leading dimension of a column-major matrix, as BLAS counts.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    rows: c_int,
    cols: c_int,
    ld: c_int,
}

impl Strided {
    /// The shape of a view.
    ///
    /// Panics unless its columns are contiguous and in order, and its numbers fit BLAS's.
    fn of<T>(view: MatRef<'_, T>) -> Self {
        let (rows, cols) = (view.nrows(), view.ncols());
        assert!(rows <= 1 || view.row_stride() == 1, "columns in pieces");
        // BLAS wants a leading dimension of at least 1 and the rows, even where none is used.
        let least = rows.max(1);
        let ld = if cols <= 1 {
            least
        } else {
            usize::try_from(view.col_stride()).map_or(0, |stride| stride.max(1))
        };
        assert!(ld >= least, "columns out of order");
        let [rows, cols, ld] = [rows, cols, ld].map(|n| {
            let Ok(n) = c_int::try_from(n) else {
                panic!("{n} rows or columns are more than BLAS can count");
            };
            n
        });
        Self { rows, cols, ld }
    }
}

/// The foreign routines for one kind of number.
pub trait Routines: Sized {
    /// `?gemm`: C ← C − op(A)·op(B), with the inner length given last.
    ///
    /// # Safety
    /// Each pointer with its leading dimension is a column-major matrix of the shape that the
    /// operation asks for; C is not shared.
    unsafe fn subtract_product(
        a: (CBLAS_TRANSPOSE, *const Self, c_int),
        b: (CBLAS_TRANSPOSE, *const Self, c_int),
        c: (*mut Self, Strided),
        inner: c_int,
    );

    /// `?syrk` or `?herk` of the lower triangle: C ← C − A·Aᴴ.
    ///
    /// # Safety
    /// Each pointer with its shape is a column-major matrix, C square and as high as A; C is not
    /// shared.
    unsafe fn subtract_square(a: (*const Self, Strided), c: (*mut Self, Strided));

    /// `?potrf` of the lower triangle; returns INFO.
    ///
    /// # Safety
    /// `a` holds a column-major matrix of order `n` with leading dimension `ld`.
    unsafe fn potrf(n: c_int, a: &mut [Self], ld: c_int) -> c_int;
}

macro_rules! routines {
    ($scalar:ident, $gemm:ident, $minus_one:expr, $one:expr, $herk:ident, $potrf:ident) => {
        impl Routines for $scalar {
            unsafe fn subtract_product(
                (op_a, a, lda): (CBLAS_TRANSPOSE, *const Self, c_int),
                (op_b, b, ldb): (CBLAS_TRANSPOSE, *const Self, c_int),
                (c, Strided { rows, cols, ld }): (*mut Self, Strided),
                inner: c_int,
            ) {
                let (a, b, c) = (a.cast(), b.cast(), c.cast());
                let (order, alpha, beta) = (CblasColMajor, $minus_one, $one);
                // SAFETY: - pointers and shapes are as BLAS wants them, by the caller's word
                //         - a complex number is two adjacent reals on both sides
                unsafe {
                    cblas_sys::$gemm(
                        order, op_a, op_b, rows, cols, inner, alpha, a, lda, b, ldb, beta, c, ld,
                    );
                }
            }

            unsafe fn subtract_square(
                (a, from): (*const Self, Strided),
                (c, to): (*mut Self, Strided),
            ) {
                let (order, part, a, c) = (CblasColMajor, CblasLower, a.cast(), c.cast());
                let (n, k) = (from.rows, from.cols);
                // SAFETY: - pointers and shapes are as BLAS wants them, by the caller's word
                //         - a complex number is two adjacent reals on both sides
                unsafe {
                    cblas_sys::$herk(
                        order,
                        part,
                        CblasNoTrans,
                        n,
                        k,
                        -1.0,
                        a,
                        from.ld,
                        1.0,
                        c,
                        to.ld,
                    );
                }
            }

            unsafe fn potrf(n: c_int, a: &mut [Self], ld: c_int) -> c_int {
                let mut info = 0;
                // SAFETY: - slice, order and leading dimension agree, by the caller's word
                //         - LAPACK writes into the slice and `info` alone
                unsafe { lapack::$potrf(b'L', n, a, ld, &mut info) };
                info
            }
        }
    };
}

routines!(f32, cblas_sgemm, -1.0, 1.0, cblas_ssyrk, spotrf);
routines!(f64, cblas_dgemm, -1.0, 1.0, cblas_dsyrk, dpotrf);
routines!(
    c32,
    cblas_cgemm,
    &[-1.0, 0.0],
    &[1.0, 0.0],
    cblas_cherk,
    cpotrf
);
routines!(
    c64,
    cblas_zgemm,
    &[-1.0, 0.0],
    &[1.0, 0.0],
    cblas_zherk,
    zpotrf
);
