//! OpenBLAS behind safe calls: its products for the kernels, its own routines for comparison.
//!
//! # Law
//! Nothing of it shows in a public trait: which of the four routines of a name is called is read from
//! [`Scalar::PRECISION`], so code that compiles without the feature compiles with it.
//! The library computes with one thread from the first call on, unless [`set_threads`] says
//! otherwise: tasks are the parallelism here.
//! Every pointer that leaves Rust is checked against the slice or view that it came from.
//!
//! # Elsewhere
//! Which products OpenBLAS serves where it was asked for: the table in `product.rs`.
//! Its `trsm` is never taken: faer's was twice as fast on an AVX-512 machine and is level on an AVX2
//! one.

use std::ffi::{CStr, c_char, c_int};
use std::sync::{Once, OnceLock};

use ::faer::{MatMut, MatRef};
use cblas_sys::CBLAS_LAYOUT::CblasColMajor;
use cblas_sys::CBLAS_TRANSPOSE::{self, CblasConjTrans, CblasNoTrans, CblasTrans};
use cblas_sys::CBLAS_UPLO::CblasLower;

use super::Op;
use crate::scalar::{Precision, Scalar};
use bytemuck::{cast_slice, cast_slice_mut};

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

/// Whether OpenBLAS's kernels use vectors as wide as this machine's: then its products are about as
/// fast as faer's or faster, otherwise down to a fifth as fast. The same answer on every call.
///
/// Nothing here acts on it; a program may. What helps is [`better_core`].
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::{Backend, openblas};
/// let backend = match openblas::suits_this_machine() {
///     true => Backend::OpenBlas,
///     false => Backend::Auto,
/// };
/// ```
pub fn suits_this_machine() -> bool {
    better_core().is_none()
}

/// What to set `OPENBLAS_CORETYPE` to before the program starts, so that OpenBLAS's kernels use
/// vectors as wide as this machine's; `None` if they do, or if nothing is known of the machine. The same
/// answer on every call.
///
/// A library that is older than the processor does not know it, and takes kernels for an earlier
/// one or for any: OpenBLAS 0.3.21 those for Haswell on an AMD Zen 5, those for Prescott, without AVX,
/// on an Intel Emerald Rapids. It reads the variable when it is loaded, so a program that runs is
/// too late.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// if let Some(core) = openblas::better_core() {
///     eprintln!("OpenBLAS has kernels for {}: set OPENBLAS_CORETYPE={core}", openblas::core_name());
/// }
/// ```
pub fn better_core() -> Option<&'static str> {
    static ANSWER: OnceLock<Option<&str>> = OnceLock::new();
    *ANSWER.get_or_init(|| better(&core_name(), widest_vectors()?))
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

/// The earliest processor with vectors of so many bits that OpenBLAS has kernels for, if those for this
/// one use narrower ones.
fn better(core: &str, widest: u32) -> Option<&'static str> {
    let bits = match core.to_ascii_lowercase().as_str() {
        "skylakex" | "cooperlake" | "sapphirerapids" => 512,
        "haswell" | "zen" => 256,
        // Without fused multiplication and addition, or with 128 bits.
        _ => 128,
    };
    match widest {
        _ if bits >= widest => None,
        512 => Some("SkylakeX"),
        _ => Some("Haswell"),
    }
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

/// Calls that of four routines which is for numbers of type `$scalar`; a slice of another type would
/// not be cast to its elements.
macro_rules! lapack_of {
    ($scalar:ident: $s:ident, $d:ident, $c:ident, $z:ident => $arguments:tt) => {
        match $scalar::PRECISION {
            // SAFETY: what the call owes is told where the macro stands
            Precision::F32 => unsafe { lapack::$s $arguments },
            // SAFETY: as above
            Precision::F64 => unsafe { lapack::$d $arguments },
            // SAFETY: as above
            Precision::C32 => unsafe { lapack::$c $arguments },
            // SAFETY: as above
            Precision::C64 => unsafe { lapack::$z $arguments },
        }
    };
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
    let (Strided { cols, ld, .. }, mut info) = (Strided::within(a, (n, n), ld), 0);
    // SAFETY: - the slice holds a matrix of that order, by `Strided::within`
    //         - LAPACK writes into that matrix and `info` alone
    lapack_of!(T: spotrf, dpotrf, cpotrf, zpotrf => (b'L', cols, cast_slice_mut(a), ld, &mut info));
    info
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
    let (Strided { cols, ld, .. }, mut info) = (Strided::within(a, (n, n), ld), 0);
    // SAFETY: - the slice holds a matrix of that order, by `Strided::within`
    //         - LAPACK writes into that matrix and `info` alone
    lapack_of!(T: spotri, dpotri, cpotri, zpotri => (b'L', cols, cast_slice_mut(a), ld, &mut info));
    info
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
    let (Strided { rows, cols, ld }, mut info) = (Strided::within(a, (m, n), ld), 0);
    // SAFETY: - the slice holds a matrix of that shape, by `Strided::within`
    //         - there is a pivot for each step, by the assertion above
    //         - LAPACK writes into the matrix, the pivots and `info` alone
    lapack_of!(T: sgetrf, dgetrf, cgetrf, zgetrf =>
        (rows, cols, cast_slice_mut(a), ld, pivots, &mut info));
    info
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
    let (Strided { rows, cols, ld }, mut info) = (Strided::within(a, (m, n), ld), 0);
    let mut work = vec![T::zero(); 1];
    // SAFETY: a length of −1 asks how much is wanted: only `work` and `info` are written
    lapack_of!(T: sgeqrf, dgeqrf, cgeqrf, zgeqrf =>
        (rows, cols, cast_slice_mut(a), ld, cast_slice_mut(factors), cast_slice_mut(&mut work), -1,
            &mut info));
    // A whole number that a float holds; the routine works with one element a column.
    let length = (work[0].re() as c_int).max(cols).max(1);
    work.resize(length as usize, T::zero());
    // SAFETY: - the slice holds a matrix of that shape, by `Strided::within`
    //         - there is a factor for each reflector, by the assertion above
    //         - `work` has the length that is said
    //         - LAPACK writes into the matrix, the factors, `work` and `info` alone
    lapack_of!(T: sgeqrf, dgeqrf, cgeqrf, zgeqrf =>
        (rows, cols, cast_slice_mut(a), ld, cast_slice_mut(factors), cast_slice_mut(&mut work),
            length, &mut info));
    info
}

/// LAPACK's `?orgqr` (`?ungqr`): the first columns of Q from what [`geqrf`] leaves, in its place;
/// returns its INFO.
///
/// - `a`: m × n with m ≥ n
///
/// Runs on as many threads as [`set_threads`] allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If `a` with leading dimension `ld` is no `m × n` matrix, or there is not a factor for each column.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let (mut a, mut factors) = ([3.0, 4.0], [0.0]);
/// openblas::geqrf((2, 1), &mut a, 2, &mut factors);
/// assert_eq!(openblas::orgqr((2, 1), &mut a, 2, &factors), 0);
/// assert!((a[0] + 0.6_f64).abs() < 1e-15 && (a[1] + 0.8).abs() < 1e-15);
/// ```
pub fn orgqr<T: Scalar>((m, n): (usize, usize), a: &mut [T], ld: usize, factors: &[T]) -> i32 {
    hold_to_one_thread();
    assert!(factors.len() == n && m >= n, "a factor for each column");
    let (Strided { rows, cols, ld }, mut info) = (Strided::within(a, (m, n), ld), 0);
    let mut work = vec![T::zero(); WORK_COLUMNS * n.max(1)];
    let length = length(work.len());
    // SAFETY: - the slice holds a matrix of that shape, by `Strided::within`
    //         - there is a factor for each reflector, by the assertion above
    //         - `work` has the length that is said, which is an element for each column or more
    //         - LAPACK writes into the matrix, `work` and `info` alone
    lapack_of!(T: sorgqr, dorgqr, cungqr, zungqr =>
        (rows, cols, cols, cast_slice_mut(a), ld, cast_slice(factors), cast_slice_mut(&mut work),
            length, &mut info));
    info
}

/// Columns of work space for each column of a matrix: as many as LAPACK's blocks have at most.
const WORK_COLUMNS: usize = 64;

/// LAPACK's `?gels('N')`: the X that makes ‖B − A·X‖ least, for m ≥ n and an A of full rank; returns
/// its INFO.
///
/// - `a`: m × n, column-major without gaps; overwritten
/// - `b`: m × nrhs, likewise: B, and X in its first n rows
///
/// Runs on as many threads as [`set_threads`] allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If m < n, or a slice is not as long as its matrix.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let (mut a, mut b) = ([1.0, 1.0], [1.0, 3.0]);
/// assert_eq!(openblas::gels((2, 1), &mut a, 1, &mut b), 0);
/// assert!((b[0] - 2.0_f64).abs() < 1e-15);
/// ```
pub fn gels<T: Scalar>((m, n): (usize, usize), a: &mut [T], nrhs: usize, b: &mut [T]) -> i32 {
    hold_to_one_thread();
    assert!(m >= n, "more columns than rows");
    assert_eq!((a.len(), b.len()), (m * n, m * nrhs), "gels: lengths");
    let (of_a, of_b) = (
        Strided::within(a, (m, n), m),
        Strided::within(b, (m, nrhs), m),
    );
    let mut work = vec![T::zero(); n + WORK_COLUMNS * n.max(nrhs).max(1)];
    let (length, mut info) = (length(work.len()), 0);
    macro_rules! call {
        ($gels:ident $(, $characters:expr)?) => {
            // SAFETY: - the slices hold matrices of those shapes, by the assertions and
            //           `Strided::within`
            //         - `work` has the length that is said, which is not below the
            //           n + max(n, nrhs) that LAPACK documents
            //         - the operation is told by one character, as the last argument says where
            //           the declaration has it
            //         - the elements are those of the routine, by `T::PRECISION`
            //         - LAPACK writes into the matrices, `work` and `info` alone
            unsafe {
                lapack::$gels(
                    b'N',
                    of_a.rows,
                    of_a.cols,
                    of_b.cols,
                    cast_slice_mut(a),
                    of_a.ld,
                    cast_slice_mut(b),
                    of_b.ld,
                    cast_slice_mut(&mut work),
                    length,
                    &mut info
                    $(, $characters)?
                )
            }
        };
    }
    match T::PRECISION {
        Precision::F32 => call!(sgels),
        Precision::F64 => call!(dgels, 1),
        Precision::C32 => call!(cgels),
        Precision::C64 => call!(zgels),
    }
    info
}

/// LAPACK's `?getrs('N')`: X of A·X = B from what [`getrf`] leaves, in the place of B; returns its INFO.
///
/// - `lu`: of order n, column-major without gaps; `pivots` as [`getrf`] numbers them
/// - `b`: n × nrhs, likewise
///
/// Runs on as many threads as [`set_threads`] allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If a slice is not as long as its matrix, or there is not a pivot in range for each row.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let (mut lu, mut pivots, mut b) = ([2.0, 4.0, 3.0, 5.0], [0; 2], [5.0, 9.0]);
/// openblas::getrf((2, 2), &mut lu, 2, &mut pivots);
/// assert_eq!(openblas::getrs(2, &lu, &pivots, 1, &mut b), 0);
/// assert_eq!(b, [1.0, 1.0]);
/// ```
pub fn getrs<T: Scalar>(n: usize, lu: &[T], pivots: &[i32], nrhs: usize, b: &mut [T]) -> i32 {
    hold_to_one_thread();
    assert_eq!((lu.len(), b.len()), (n * n, n * nrhs), "getrs: lengths");
    expect_rows(pivots, n);
    let (of_a, of_b) = (
        Strided::within(lu, (n, n), n),
        Strided::within(b, (n, nrhs), n),
    );
    let mut info = 0;
    // SAFETY: - the slices hold matrices of those shapes, by the assertion and `Strided::within`
    //         - there is a pivot for each row, and each is a row
    //         - LAPACK writes into B and `info` alone
    lapack_of!(T: sgetrs, dgetrs, cgetrs, zgetrs =>
        (b'N', of_a.cols, of_b.cols, cast_slice(lu), of_a.ld, pivots, cast_slice_mut(b), of_b.ld,
            &mut info));
    info
}

/// LAPACK's `?getri`: the inverse from what [`getrf`] leaves, in its place; returns its INFO.
///
/// - `a`: of order n, column-major without gaps; `pivots` as [`getrf`] numbers them
///
/// Runs on as many threads as [`set_threads`] allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If the slice is not as long as the matrix, or there is not a pivot in range for each row.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let (mut a, mut pivots) = ([0.0, 2.0, 4.0, 8.0], [0; 2]);
/// openblas::getrf((2, 2), &mut a, 2, &mut pivots);
/// assert_eq!(openblas::getri(2, &mut a, &pivots), 0);
/// assert_eq!(a, [-1.0, 0.25, 0.5, 0.0]);
/// ```
pub fn getri<T: Scalar>(n: usize, a: &mut [T], pivots: &[i32]) -> i32 {
    hold_to_one_thread();
    assert_eq!(a.len(), n * n, "getri: length");
    expect_rows(pivots, n);
    let (Strided { cols, ld, .. }, mut info) = (Strided::within(a, (n, n), n), 0);
    let mut work = vec![T::zero(); WORK_COLUMNS * n.max(1)];
    let length = length(work.len());
    // SAFETY: - the slice holds a matrix of that order, by the assertion and `Strided::within`
    //         - there is a pivot for each row, and each is a row
    //         - `work` has the length that is said, which is an element for each column or more
    //         - LAPACK writes into the matrix, `work` and `info` alone
    lapack_of!(T: sgetri, dgetri, cgetri, zgetri =>
        (cols, cast_slice_mut(a), ld, pivots, cast_slice_mut(&mut work), length, &mut info));
    info
}

/// Panics unless there is a pivot for each row, and each is a row, counted from 1.
fn expect_rows(pivots: &[i32], n: usize) {
    let is_row = |pivot: &i32| (1..=length(n)).contains(pivot);
    assert!(
        pivots.len() == n && pivots.iter().all(is_row),
        "a pivot for each of {n} rows"
    );
}

/// LAPACK's `?potrs('L')`: X of A·X = B from what [`potrf`] leaves, in the place of B; returns its INFO.
///
/// - `l`: of order n, column-major without gaps
/// - `b`: n × nrhs, likewise
///
/// Runs on as many threads as [`set_threads`] allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If a slice is not as long as its matrix.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// let mut b = [8.0, 22.0];
/// assert_eq!(openblas::potrs(2, &[2.0, 1.0, 0.0, 3.0], 1, &mut b), 0);
/// assert_eq!(b, [1.0, 2.0]);
/// ```
pub fn potrs<T: Scalar>(n: usize, l: &[T], nrhs: usize, b: &mut [T]) -> i32 {
    hold_to_one_thread();
    assert_eq!((l.len(), b.len()), (n * n, n * nrhs), "potrs: lengths");
    let (of_l, of_b) = (
        Strided::within(l, (n, n), n),
        Strided::within(b, (n, nrhs), n),
    );
    let mut info = 0;
    // SAFETY: - the slices hold matrices of those shapes, by the assertion and `Strided::within`
    //         - LAPACK writes into B and `info` alone
    lapack_of!(T: spotrs, dpotrs, cpotrs, zpotrs =>
        (b'L', of_l.cols, of_b.cols, cast_slice(l), of_l.ld, cast_slice_mut(b), of_b.ld, &mut info));
    info
}

/// LAPACK's `?gelsy`: the shortest X that makes ‖B − A·X‖ least; returns its INFO and the rank that it
/// found.
///
/// - `a`: m × n, column-major without gaps; overwritten
/// - `b`: max(m, n) × nrhs, likewise: B, and X in its place
/// - `rcond`: singular values below rcond·σ₁ count as zero
///
/// Runs on as many threads as [`set_threads`] allows: the peer to compare with, not a kernel.
///
/// # Panics
/// If a slice is not as long as its matrix.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::openblas;
/// // x + y = 1, twice: the shortest solution is (½, ½).
/// let (mut a, mut b) = ([1.0; 4], [1.0; 2]);
/// let (info, rank) = openblas::gelsy((2, 2), &mut a, 1, &mut b, 1e-10);
/// assert_eq!((info, rank), (0, 1));
/// assert!(b.iter().all(|x: &f64| (x - 0.5).abs() < 1e-15));
/// ```
pub fn gelsy<T: Scalar>(
    (m, n): (usize, usize),
    a: &mut [T],
    nrhs: usize,
    b: &mut [T],
    rcond: f64,
) -> (i32, usize) {
    hold_to_one_thread();
    let height = m.max(n);
    assert_eq!((a.len(), b.len()), (m * n, height * nrhs), "gelsy: lengths");
    let of_a = Strided::within(a, (m, n), m);
    let of_b = Strided::within(b, (height, nrhs), height);
    let (mut pivots, mut rank, mut info) = (vec![0; n], 0, 0);
    // At least what LAPACK asks for in either kind of number; in blocks of 64 columns.
    let shorter = m.min(n);
    let least = shorter + (3 * n + 1).max(2 * shorter).max(shorter + nrhs);
    let mut work = vec![T::zero(); least + 64 * (n + nrhs + 1)];
    let length = length(work.len());
    macro_rules! call {
        ($gelsy:ident, $rcond:expr $(, $real_work:expr)?) => {
            // SAFETY: - the slices hold matrices of those shapes, by the assertion and
            //           `Strided::within`; B has a row for each row of A and for each of X
            //         - there is a pivot for each column
            //         - `work` has the length that is said, which is not below the least that
            //           LAPACK documents; a complex routine also has two reals for each column
            //         - the elements are those of the routine, by `T::PRECISION`
            //         - LAPACK writes into these slices, `rank` and `info` alone
            unsafe {
                lapack::$gelsy(
                    of_a.rows,
                    of_a.cols,
                    of_b.cols,
                    cast_slice_mut(a),
                    of_a.ld,
                    cast_slice_mut(b),
                    of_b.ld,
                    &mut pivots,
                    $rcond,
                    &mut rank,
                    cast_slice_mut(&mut work),
                    length,
                    $($real_work,)?
                    &mut info,
                )
            }
        };
    }
    match T::PRECISION {
        Precision::F32 => call!(sgelsy, rcond as f32),
        Precision::F64 => call!(dgelsy, rcond),
        Precision::C32 => call!(cgelsy, rcond as f32, &mut vec![0.0; 2 * n]),
        Precision::C64 => call!(zgelsy, rcond, &mut vec![0.0; 2 * n]),
    }
    (info, usize::try_from(rank).unwrap_or(0))
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

/// C ← C + α·op(A)·op(B): `?gemm`.
pub(super) fn add_product<T: Scalar>(
    alpha: T,
    op_a: Op,
    a: MatRef<'_, T>,
    op_b: Op,
    b: MatRef<'_, T>,
    c: MatMut<'_, T>,
) {
    hold_to_one_thread();
    let (left, right, to) = (Strided::of(a), Strided::of(b), Strided::of(c.as_ref()));
    let ((m, k), (l, n)) = (left.after(op_a), right.after(op_b));
    assert!(
        k == l && (m, n) == (to.rows, to.cols),
        "gemm: shapes disagree"
    );
    let (op_a, op_b) = (transposition(op_a), transposition(op_b));
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_ptr_mut());
    let (re, im) = (alpha.re(), alpha.im());
    macro_rules! call {
        ($gemm:ident, $alpha:expr, $beta:expr) => {
            // SAFETY: - the three shapes agree, by the assertion above
            //         - `Strided::of` found each view column-major with a leading dimension that
            //           BLAS accepts, so BLAS touches elements of the views alone
            //         - C is borrowed for writing, hence apart from A and B
            //         - the elements are those of the routine, by `T::PRECISION`, which no other
            //           type has; a complex number is two adjacent reals on both sides
            unsafe {
                cblas_sys::$gemm(
                    CblasColMajor,
                    op_a,
                    op_b,
                    m,
                    n,
                    k,
                    $alpha,
                    a.cast(),
                    left.ld,
                    b.cast(),
                    right.ld,
                    $beta,
                    c.cast(),
                    to.ld,
                )
            }
        };
    }
    match T::PRECISION {
        Precision::F32 => call!(cblas_sgemm, re as f32, 1.0),
        Precision::F64 => call!(cblas_dgemm, re, 1.0),
        Precision::C32 => call!(cblas_cgemm, &[re as f32, im as f32], &[1.0, 0.0]),
        Precision::C64 => call!(cblas_zgemm, &[re, im], &[1.0, 0.0]),
    }
}

/// C ← C + α·op(A)·op(A)ᴴ, the lower triangle alone; not for [`Op::Transpose`]: `?syrk` or `?herk`.
pub(super) fn add_square<T: Scalar>(alpha: f64, op: Op, a: MatRef<'_, T>, c: MatMut<'_, T>) {
    hold_to_one_thread();
    let (from, to) = (Strided::of(a), Strided::of(c.as_ref()));
    let (n, k) = from.after(op);
    assert!((n, n) == (to.rows, to.cols), "herk: shapes disagree");
    // For real numbers the two transpositions are the same, and `?syrk` knows both.
    let op = transposition(op);
    let (a, c) = (a.as_ptr(), c.as_ptr_mut());
    macro_rules! call {
        ($herk:ident, $alpha:expr) => {
            // SAFETY: - C is square and as high as op(A), by the assertion above
            //         - `Strided::of` found both views column-major with a leading dimension that
            //           BLAS accepts, so BLAS touches elements of the views alone
            //         - C is borrowed for writing, hence apart from A
            //         - the elements are those of the routine, by `T::PRECISION`, which no other
            //           type has; a complex number is two adjacent reals on both sides
            unsafe {
                cblas_sys::$herk(
                    CblasColMajor,
                    CblasLower,
                    op,
                    n,
                    k,
                    $alpha,
                    a.cast(),
                    from.ld,
                    1.0,
                    c.cast(),
                    to.ld,
                )
            }
        };
    }
    match T::PRECISION {
        Precision::F32 => call!(cblas_ssyrk, alpha as f32),
        Precision::F64 => call!(cblas_dsyrk, alpha),
        Precision::C32 => call!(cblas_cherk, alpha as f32),
        Precision::C64 => call!(cblas_zherk, alpha),
    }
}

fn transposition(op: Op) -> CBLAS_TRANSPOSE {
    match op {
        Op::NoTranspose => CblasNoTrans,
        Op::Transpose => CblasTrans,
        Op::ConjTranspose => CblasConjTrans,
    }
}

/// A length as BLAS counts; panics if it is more than that.
fn length(n: usize) -> c_int {
    let Ok(n) = c_int::try_from(n) else {
        panic!("{n} rows, columns or elements are more than BLAS can count");
    };
    n
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
        let ld = if rows == 0 || cols <= 1 {
            least
        } else {
            usize::try_from(view.col_stride()).unwrap_or(0)
        };
        assert!(ld >= least, "columns out of order");
        let [rows, cols, ld] = [rows, cols, ld].map(length);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_for_narrower_vectors_than_the_machine_has_are_told_which_would_use_them() {
        let (haswell, skylake) = (Some("Haswell"), Some("SkylakeX"));
        for (core, at_256, at_512) in [
            ("SkylakeX", None, None),
            ("Cooperlake", None, None),
            ("SapphireRapids", None, None),
            ("Haswell", None, skylake),
            ("Zen", None, skylake),
            ("Sandybridge", haswell, skylake),
            ("Prescott", haswell, skylake),
            ("a core of tomorrow", haswell, skylake),
        ] {
            let found = [128, 256, 512].map(|bits| better(core, bits));
            assert_eq!(found, [None, at_256, at_512], "{core}");
        }
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

    /// It was given to LAPACK as a row of 64 elements, of which there is one; that LAPACK looked at no other was
    /// luck.
    #[test]
    #[should_panic(expected = "columns out of order")]
    fn a_row_whose_elements_all_lie_at_one_place_is_refused() {
        getrf((1, 64), &mut [1.0; 64][..1], 0, &mut [0]);
    }

    #[test]
    fn a_matrix_without_elements_may_have_any_leading_dimension() {
        for ld in [0, 1, 7] {
            assert_eq!(getrf::<f64>((0, 5), &mut [], ld, &mut []), 0);
        }
    }

    #[test]
    #[should_panic(expected = "as many pivots")]
    fn pivots_that_are_too_few_are_refused() {
        getrf((2, 2), &mut [1.0; 4], 2, &mut [0]);
    }
}
