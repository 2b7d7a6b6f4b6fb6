//! OpenBLAS behind safe calls: its products for the kernels, its own routines for comparison.
//!
//! # Law
//! The library computes with one thread from the first call on, unless [`set_threads`] says
//! otherwise: tasks are the parallelism here.
//! Every pointer that leaves Rust is checked against the slice or view that it came from.
//!
//! # Elsewhere
//! When OpenBLAS is taken at all: the table in `product.rs`, and here whether it suits the machine.
//! Its `trsm` never is: faer's was twice as fast on an AVX-512 machine and is level on an AVX2 one.

use std::ffi::{CStr, c_char, c_int};
use std::sync::{Once, OnceLock};

use ::faer::{MatMut, MatRef};
use cblas_sys::CBLAS_LAYOUT::CblasColMajor;
use cblas_sys::CBLAS_TRANSPOSE::{self, CblasConjTrans, CblasNoTrans, CblasTrans};
use cblas_sys::CBLAS_UPLO::CblasLower;

use super::Op;
use crate::scalar::{Scalar, c32, c64};

unsafe extern "C" {
    fn openblas_set_num_threads(n: c_int);
    fn openblas_get_corename() -> *mut c_char;
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

/// Whether OpenBLAS's products are as fast as faer's on this machine, by [`suits`]: the same answer on
/// every call.
pub(super) fn suits_this_machine() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| suits(&core_name(), widest_vectors()))
}

/// The processor that OpenBLAS's kernels were written for: its choice at start, or that of the
/// environment (`OPENBLAS_CORETYPE`).
///
/// # Examples
/// ```
/// assert!(!dataflow_linalg::kernel::openblas::core_name().is_empty());
/// ```
pub fn core_name() -> String {
    // SAFETY: the symbol is OpenBLAS's own, of this signature since release 0.2.9
    let name = unsafe { openblas_get_corename() };
    // SAFETY: - OpenBLAS answers a constant of its own: never null, ended by a zero, not changed
    //         - it is copied before anybody else can see it
    let name = unsafe { CStr::from_ptr(name) };
    name.to_string_lossy().into_owned()
}

/// Whether kernels for that processor use vectors as wide as this machine's, in bits; faer's do.
///
/// A library that is older than the processor takes kernels for an earlier one: on a Zen 5 with
/// AVX-512, OpenBLAS 0.3.21 runs those for Haswell and reaches half of faer's rate.
/// Where nothing is known of the machine's vectors, OpenBLAS suits.
fn suits(core: &str, widest: Option<u32>) -> bool {
    let bits = match core.to_ascii_lowercase().as_str() {
        "skylakex" | "cooperlake" | "sapphirerapids" => 512,
        "haswell" | "zen" => 256,
        // Without fused multiplication and addition, or with 128 bits.
        _ => 128,
    };
    widest.is_none_or(|widest| bits >= widest)
}

/// Bits of the widest vectors that faer computes with on this machine.
#[cfg(target_arch = "x86_64")]
fn widest_vectors() -> Option<u32> {
    let has_256 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    Some(match is_x86_feature_detected!("avx512f") {
        true => 512,
        false if has_256 => 256,
        false => 128,
    })
}

/// Not known: nothing was measured on such machines.
#[cfg(not(target_arch = "x86_64"))]
fn widest_vectors() -> Option<u32> {
    None
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
    T::potrf(n, a, ld)
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
    T::potri(n, a, ld)
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
    T::getrf((m, n), a, ld, pivots)
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
    T::geqrf((m, n), a, ld, factors)
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
    T::add_product(alpha, (op_a, a), (op_b, b), c);
}

/// C ← C + α·op(A)·op(A)ᴴ, the lower triangle alone; not for [`Op::Transpose`].
pub(super) fn add_square<T: Scalar>(alpha: f64, op: Op, a: MatRef<'_, T>, c: MatMut<'_, T>) {
    hold_to_one_thread();
    T::add_square(alpha, (op, a), c);
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
struct Strided {
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

    /// The shape of a matrix that lies in a slice; panics if the slice does not hold it.
    fn within<T>(a: &[T], (m, n): (usize, usize), ld: usize) -> Self {
        Self::of(MatRef::from_column_major_slice_with_stride(a, m, n, ld))
    }

    /// Rows and columns of op(X).
    fn after(self, op: Op) -> (c_int, c_int) {
        match op {
            Op::NoTranspose => (self.rows, self.cols),
            Op::Transpose | Op::ConjTranspose => (self.cols, self.rows),
        }
    }
}

/// The foreign routines for one kind of number. Safe to call: each checks its shapes, then calls.
pub trait Routines: Sized {
    /// `?gemm`: C ← C + α·op(A)·op(B).
    fn add_product(
        alpha: Self,
        a: (Op, MatRef<'_, Self>),
        b: (Op, MatRef<'_, Self>),
        c: MatMut<'_, Self>,
    );

    /// `?syrk` or `?herk` of the lower triangle: C ← C + α·op(A)·op(A)ᴴ.
    fn add_square(alpha: f64, a: (Op, MatRef<'_, Self>), c: MatMut<'_, Self>);

    /// `?potrf` of the lower triangle; returns INFO.
    fn potrf(n: usize, a: &mut [Self], ld: usize) -> c_int;

    /// `?potri` of the lower triangle; returns INFO.
    fn potri(n: usize, a: &mut [Self], ld: usize) -> c_int;

    /// `?getrf`, with a pivot for each step; returns INFO.
    fn getrf(shape: (usize, usize), a: &mut [Self], ld: usize, pivots: &mut [c_int]) -> c_int;

    /// `?geqrf` with the work space that it asks for and a factor for each reflector; returns INFO.
    fn geqrf(shape: (usize, usize), a: &mut [Self], ld: usize, factors: &mut [Self]) -> c_int;
}

macro_rules! routines {
    (
        $scalar:ident, $pass:ident, $gemm:ident, $herk:ident, $potrf:ident, $potri:ident,
        $getrf:ident, $geqrf:ident
    ) => {
        impl Routines for $scalar {
            fn add_product(
                alpha: Self,
                (op_a, a): (Op, MatRef<'_, Self>),
                (op_b, b): (Op, MatRef<'_, Self>),
                c: MatMut<'_, Self>,
            ) {
                let (left, right, to) = (Strided::of(a), Strided::of(b), Strided::of(c.as_ref()));
                let ((m, k), (l, n)) = (left.after(op_a), right.after(op_b));
                assert!(
                    k == l && (m, n) == (to.rows, to.cols),
                    "gemm: shapes disagree"
                );
                let (op_a, op_b) = (transposition(op_a), transposition(op_b));
                let (a, b, c) = (a.as_ptr().cast(), b.as_ptr().cast(), c.as_ptr_mut().cast());
                let (order, one) = (CblasColMajor, <Self as Scalar>::one());
                let (alpha, beta) = ($pass!(alpha), $pass!(one));
                // SAFETY: - the three shapes agree, by the assertion above
                //         - `Strided::of` found each view column-major with a leading dimension that
                //           BLAS accepts, so BLAS touches elements of the views alone
                //         - C is borrowed for writing, hence apart from A and B
                //         - a complex number is two adjacent reals on both sides
                unsafe {
                    cblas_sys::$gemm(
                        order, op_a, op_b, m, n, k, alpha, a, left.ld, b, right.ld, beta, c, to.ld,
                    );
                }
            }

            fn add_square(alpha: f64, (op, a): (Op, MatRef<'_, Self>), c: MatMut<'_, Self>) {
                let (from, to) = (Strided::of(a), Strided::of(c.as_ref()));
                let (n, k) = from.after(op);
                assert!((n, n) == (to.rows, to.cols), "herk: shapes disagree");
                // For real numbers the two transpositions are the same, and `?syrk` knows both.
                let (order, part, op) = (CblasColMajor, CblasLower, transposition(op));
                let (a, c) = (a.as_ptr().cast(), c.as_ptr_mut().cast());
                // SAFETY: - C is square and as high as op(A), by the assertion above
                //         - `Strided::of` found both views column-major with a leading dimension that
                //           BLAS accepts, so BLAS touches elements of the views alone
                //         - C is borrowed for writing, hence apart from A
                //         - a complex number is two adjacent reals on both sides
                unsafe {
                    cblas_sys::$herk(order, part, op, n, k, alpha as _, a, from.ld, 1.0, c, to.ld);
                }
            }

            fn potrf(n: usize, a: &mut [Self], ld: usize) -> c_int {
                let (Strided { cols, ld, .. }, mut info) = (Strided::within(a, (n, n), ld), 0);
                // SAFETY: - the slice holds a matrix of that order, by `Strided::within`
                //         - LAPACK writes into that matrix and `info` alone
                unsafe { lapack::$potrf(b'L', cols, a, ld, &mut info) };
                info
            }

            fn potri(n: usize, a: &mut [Self], ld: usize) -> c_int {
                let (Strided { cols, ld, .. }, mut info) = (Strided::within(a, (n, n), ld), 0);
                // SAFETY: - the slice holds a matrix of that order, by `Strided::within`
                //         - LAPACK writes into that matrix and `info` alone
                unsafe { lapack::$potri(b'L', cols, a, ld, &mut info) };
                info
            }

            fn getrf(
                (m, n): (usize, usize),
                a: &mut [Self],
                ld: usize,
                pivots: &mut [c_int],
            ) -> c_int {
                assert_eq!(pivots.len(), m.min(n), "as many pivots as columns or rows");
                let (Strided { rows, cols, ld }, mut info) = (Strided::within(a, (m, n), ld), 0);
                // SAFETY: - the slice holds a matrix of that shape, by `Strided::within`
                //         - there is a pivot for each step, by the assertion above
                //         - LAPACK writes into the matrix, the pivots and `info` alone
                unsafe { lapack::$getrf(rows, cols, a, ld, pivots, &mut info) };
                info
            }

            fn geqrf(
                (m, n): (usize, usize),
                a: &mut [Self],
                ld: usize,
                factors: &mut [Self],
            ) -> c_int {
                assert_eq!(
                    factors.len(),
                    m.min(n),
                    "as many factors as columns or rows"
                );
                let (Strided { rows, cols, ld }, mut info) = (Strided::within(a, (m, n), ld), 0);
                let mut size = [<Self as Scalar>::zero()];
                // SAFETY: a length of −1 asks how much is wanted: only `size` and `info` are written
                unsafe { lapack::$geqrf(rows, cols, a, ld, factors, &mut size, -1, &mut info) };
                // A whole number that a float holds; the routine works with one element a column.
                let length = (Scalar::re(size[0]) as c_int).max(cols).max(1);
                let mut work = vec![size[0]; length as usize];
                // SAFETY: - the slice holds a matrix of that shape, by `Strided::within`
                //         - there is a factor for each reflector, by the assertion above
                //         - `work` has the length that is said
                //         - LAPACK writes into the matrix, the factors, `work` and `info` alone
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openblas_suits_a_machine_whose_widest_vectors_its_kernels_use() {
        for (core, at_128, at_256, at_512) in [
            ("SkylakeX", true, true, true),
            ("Cooperlake", true, true, true),
            ("SapphireRapids", true, true, true),
            ("Haswell", true, true, false),
            ("Zen", true, true, false),
            ("Sandybridge", true, false, false),
            ("Nehalem", true, false, false),
            ("a core of tomorrow", true, false, false),
        ] {
            let found = [128, 256, 512].map(|bits| suits(core, Some(bits)));
            assert_eq!(found, [at_128, at_256, at_512], "{core}");
        }
        assert!(suits("neoversen1", None));
    }

    #[test]
    #[should_panic(expected = "herk: shapes disagree")]
    fn a_square_of_other_height_is_refused() {
        let (a, mut c) = ([1.0; 6], [0.0; 4]);
        let a = MatRef::from_column_major_slice(&a, 3, 2);
        add_square(
            1.0,
            Op::NoTranspose,
            a,
            MatMut::from_column_major_slice_mut(&mut c, 2, 2),
        );
    }

    #[test]
    #[should_panic(expected = "as many pivots")]
    fn pivots_that_are_too_few_are_refused() {
        getrf((2, 2), &mut [1.0; 4], 2, &mut [0]);
    }
}
