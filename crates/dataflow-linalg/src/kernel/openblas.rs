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

/// LAPACK's `?potri('L')`: the inverse from the factor that [`potrf`] leaves; returns its INFO.
///
/// Runs on as many threads as [`set_threads`] allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If `a` with leading dimension `ld` is no `n × n` matrix.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let mut a = [2.0];
/// assert_eq!(openblas::potri(1, &mut a, 1), 0);
/// assert_eq!(a, [0.25]);
/// ```
pub fn potri<T: Scalar>(n: usize, a: &mut [T], ld: usize) -> i32 {
    hold_to_one_thread();
    let view = MatRef::from_column_major_slice_with_stride(a, n, n, ld);
    let shape = Strided::of(view);
    // SAFETY: the view was taken from the slice, so it holds the matrix that `shape` describes
    unsafe { T::potri(shape.cols, a, shape.ld) }
}

/// LAPACK's `?getrf` on a column-major matrix of `m` rows and `n` columns; returns its INFO.
///
/// `pivots` get the rows that were swapped, counted from 1. Runs on as many threads as
/// [`set_threads`] allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If `a` with leading dimension `ld` is no `m × n` matrix, or `pivots` are not as many as its
/// shorter side is long.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let (mut a, mut pivots) = ([2.0, 4.0, 3.0, 5.0], [0; 2]);
/// assert_eq!(openblas::getrf((2, 2), &mut a, 2, &mut pivots), 0);
/// assert_eq!((a, pivots), ([4.0, 0.5, 5.0, 0.5], [2, 2]));
/// ```
pub fn getrf<T: Scalar>((m, n): (usize, usize), a: &mut [T], ld: usize, pivots: &mut [i32]) -> i32 {
    hold_to_one_thread();
    assert_eq!(pivots.len(), m.min(n), "as many pivots as columns or rows");
    let shape = Strided::of(MatRef::from_column_major_slice_with_stride(a, m, n, ld));
    // SAFETY: - the view was taken from the slice, so it holds the matrix that `shape` describes
    //         - there is a pivot for each step, by the assertion above
    unsafe { T::getrf(shape, a, pivots) }
}

/// LAPACK's `?geqrf` on a column-major matrix of `m` rows and `n` columns; returns its INFO.
///
/// `factors` get the scalar factors of the reflectors. Runs on as many threads as [`set_threads`]
/// allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If `a` with leading dimension `ld` is no `m × n` matrix, or `factors` are not as many as its
/// shorter side is long.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let (mut a, mut factors) = ([3.0, 4.0], [0.0]);
/// assert_eq!(openblas::geqrf((2, 1), &mut a, 2, &mut factors), 0);
/// assert_eq!((a[0], factors), (-5.0, [1.6]));
/// ```
pub fn geqrf<T: Scalar>((m, n): (usize, usize), a: &mut [T], ld: usize, factors: &mut [T]) -> i32 {
    hold_to_one_thread();
    assert_eq!(
        factors.len(),
        m.min(n),
        "as many factors as columns or rows"
    );
    let shape = Strided::of(MatRef::from_column_major_slice_with_stride(a, m, n, ld));
    // SAFETY: - the view was taken from the slice, so it holds the matrix that `shape` describes
    //         - there is a factor for each reflector, by the assertion above
    unsafe { T::geqrf(shape, a, factors) }
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
    add_product(-T::one(), Op::NoTranspose, a, Op::NoTranspose, b, c);
}

/// C ← C + α·op(A)·op(B).
pub(super) fn add_product<T: Scalar>(
    alpha: T,
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
        T::add_product(
            alpha,
            (transposition(op_a), a, a_shape.ld),
            (transposition(op_b), b, b_shape.ld),
            (c, c_shape),
            inner,
        );
    }
}

/// C ← C + α·op(A)·op(A)ᴴ, the lower triangle alone; not for [`Op::Transpose`].
pub(super) fn add_square<T: Scalar>(alpha: f64, op: Op, a: MatRef<'_, T>, c: MatMut<'_, T>) {
    hold_to_one_thread();
    let (a_shape, c_shape) = (Strided::of(a), Strided::of(c.as_ref()));
    let (rows, inner) = match op {
        Op::NoTranspose => (a_shape.rows, a_shape.cols),
        Op::Transpose | Op::ConjTranspose => (a_shape.cols, a_shape.rows),
    };
    assert!(c_shape.rows == c_shape.cols && rows == c_shape.rows);
    // For real numbers the two transpositions are the same, and `?syrk` knows both.
    let (a, c) = ((transposition(op), a.as_ptr(), a_shape.ld), c.as_ptr_mut());
    // SAFETY: - C is square and as high as op(A), by the assertion above
    //         - `Strided::of` found both views column-major, with a leading dimension that BLAS
    //           accepts, so BLAS touches elements of the views alone
    //         - C is borrowed for writing, hence apart from A
    unsafe { T::add_square(alpha, a, (c, c_shape), inner) };
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
    /// `?gemm`: C ← C + α·op(A)·op(B), with the inner length given last.
    ///
    /// # Safety
    /// Each pointer with its leading dimension is a column-major matrix of the shape that the
    /// operation asks for; C is not shared.
    unsafe fn add_product(
        alpha: Self,
        a: (CBLAS_TRANSPOSE, *const Self, c_int),
        b: (CBLAS_TRANSPOSE, *const Self, c_int),
        c: (*mut Self, Strided),
        inner: c_int,
    );

    /// `?syrk` or `?herk` of the lower triangle: C ← C + α·op(A)·op(A)ᴴ, with the inner length given
    /// last.
    ///
    /// # Safety
    /// Each pointer with its leading dimension is a column-major matrix of the shape that the
    /// operation asks for; C is square and not shared.
    unsafe fn add_square(
        alpha: f64,
        a: (CBLAS_TRANSPOSE, *const Self, c_int),
        c: (*mut Self, Strided),
        inner: c_int,
    );

    /// `?potrf` of the lower triangle; returns INFO.
    ///
    /// # Safety
    /// `a` holds a column-major matrix of order `n` with leading dimension `ld`.
    unsafe fn potrf(n: c_int, a: &mut [Self], ld: c_int) -> c_int;

    /// `?potri` of the lower triangle; returns INFO.
    ///
    /// # Safety
    /// `a` holds a column-major matrix of order `n` with leading dimension `ld`.
    unsafe fn potri(n: c_int, a: &mut [Self], ld: c_int) -> c_int;

    /// `?getrf`; returns INFO.
    ///
    /// # Safety
    /// `a` holds a column-major matrix of that shape; `pivots` are as many as its shorter side is
    /// long.
    unsafe fn getrf(shape: Strided, a: &mut [Self], pivots: &mut [c_int]) -> c_int;

    /// `?geqrf` with the work space that it asks for; returns INFO.
    ///
    /// # Safety
    /// `a` holds a column-major matrix of that shape; `factors` are as many as its shorter side is
    /// long.
    unsafe fn geqrf(shape: Strided, a: &mut [Self], factors: &mut [Self]) -> c_int;
}

macro_rules! routines {
    (
        $scalar:ident, $pass:ident, $gemm:ident, $herk:ident, $potrf:ident, $potri:ident,
        $getrf:ident, $geqrf:ident
    ) => {
        impl Routines for $scalar {
            unsafe fn add_product(
                alpha: Self,
                (op_a, a, lda): (CBLAS_TRANSPOSE, *const Self, c_int),
                (op_b, b, ldb): (CBLAS_TRANSPOSE, *const Self, c_int),
                (c, Strided { rows, cols, ld }): (*mut Self, Strided),
                inner: c_int,
            ) {
                let (a, b, c) = (a.cast(), b.cast(), c.cast());
                let (order, one) = (CblasColMajor, <Self as Scalar>::one());
                let (alpha, beta) = ($pass!(alpha), $pass!(one));
                // SAFETY: - pointers and shapes are as BLAS wants them, by the caller's word
                //         - a complex number is two adjacent reals on both sides
                unsafe {
                    cblas_sys::$gemm(
                        order, op_a, op_b, rows, cols, inner, alpha, a, lda, b, ldb, beta, c, ld,
                    );
                }
            }

            unsafe fn add_square(
                alpha: f64,
                (op, a, lda): (CBLAS_TRANSPOSE, *const Self, c_int),
                (c, to): (*mut Self, Strided),
                inner: c_int,
            ) {
                let (order, part, a, c) = (CblasColMajor, CblasLower, a.cast(), c.cast());
                // SAFETY: - pointers and shapes are as BLAS wants them, by the caller's word
                //         - a complex number is two adjacent reals on both sides
                unsafe {
                    cblas_sys::$herk(
                        order, part, op, to.rows, inner, alpha as _, a, lda, 1.0, c, to.ld,
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

            unsafe fn potri(n: c_int, a: &mut [Self], ld: c_int) -> c_int {
                let mut info = 0;
                // SAFETY: - slice, order and leading dimension agree, by the caller's word
                //         - LAPACK writes into the slice and `info` alone
                unsafe { lapack::$potri(b'L', n, a, ld, &mut info) };
                info
            }

            unsafe fn getrf(shape: Strided, a: &mut [Self], pivots: &mut [c_int]) -> c_int {
                let (Strided { rows, cols, ld }, mut info) = (shape, 0);
                // SAFETY: - slices and shape agree, by the caller's word
                //         - LAPACK writes into the slices and `info` alone
                unsafe { lapack::$getrf(rows, cols, a, ld, pivots, &mut info) };
                info
            }

            unsafe fn geqrf(shape: Strided, a: &mut [Self], factors: &mut [Self]) -> c_int {
                let (Strided { rows, cols, ld }, mut info) = (shape, 0);
                let mut size = [<Self as Scalar>::zero()];
                // SAFETY: a length of −1 asks how much is wanted: only `size` and `info` are written
                unsafe { lapack::$geqrf(rows, cols, a, ld, factors, &mut size, -1, &mut info) };
                // A whole number that a float holds; the routine works with one element a column.
                let length = (Scalar::re(size[0]) as c_int).max(cols).max(1);
                let mut work = vec![size[0]; length as usize];
                // SAFETY: - slices and shape agree, by the caller's word
                //         - `work` has the length that is said
                //         - LAPACK writes into the slices and `info` alone
                unsafe {
                    lapack::$geqrf(rows, cols, a, ld, factors, &mut work, length, &mut info);
                }
                info
            }
        }
    };
}

/// How BLAS is given a real factor.
macro_rules! by_value {
    ($factor:ident) => {
        $factor
    };
}

/// How BLAS is given a complex factor.
macro_rules! by_parts {
    ($factor:ident) => {
        &[$factor.re, $factor.im]
    };
}

routines! { f32, by_value, cblas_sgemm, cblas_ssyrk, spotrf, spotri, sgetrf, sgeqrf }
routines! { f64, by_value, cblas_dgemm, cblas_dsyrk, dpotrf, dpotri, dgetrf, dgeqrf }
routines! { c32, by_parts, cblas_cgemm, cblas_cherk, cpotrf, cpotri, cgetrf, cgeqrf }
routines! { c64, by_parts, cblas_zgemm, cblas_zherk, zpotrf, zpotri, zgetrf, zgeqrf }
