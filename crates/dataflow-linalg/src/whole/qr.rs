//! A = Q·R of one tile, and least squares with it.

use super::{adjoint_of, finite_tile_of};
use crate::error::LinalgError;
use crate::kernel::{
    Backend, LARGEST_WHOLE, Op, SCRATCH_MEMORY, Side, gemqrt, geqrt, orgqr, solve_leading,
};
use crate::matrix::norm::{Extent, tile_first_not_finite};
use crate::matrix::{Entries, Format, Layout, Tile, TiledMatrix};
use crate::qr::{self, Options, default_inner_block, has_full_rank};
use crate::scalar::Scalar;
use dataflow_core::port::Inline;

const AUTO: Backend = Backend::Auto;

/// The factors Q and R of a tile of any shape.
///
/// # Examples
/// ```
/// use dataflow_linalg::whole::Qr;
/// let qr = Qr::of((2, 1), &|i: usize, _: usize| [3.0_f64, 4.0][i])?;
/// assert_eq!((qr.r(), qr.q().len()), (vec![-5.0], 2));
/// # Ok::<(), dataflow_linalg::LinalgError>(())
/// ```
#[derive(Debug)]
pub struct Qr<T: Scalar> {
    r: Tile<T>,
    v: Tile<T>,
    t: Tile<T>,
}

impl<T: Scalar> Qr<T> {
    /// The factors of a matrix, in memory of the thread: for one call.
    ///
    /// # Errors
    /// [`LinalgError::NotFinite`] with the first entry that is not.
    pub fn of(shape: (usize, usize), a: &impl Entries<T>) -> Result<Self, LinalgError> {
        Ok(Qr::of_tile(finite_tile_of(shape, a, &SCRATCH_MEMORY)?))
    }

    /// The factors of a column-major tile, in its memory.
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::{matrix::Tile, whole::Qr};
    /// let (r, v, t) = Qr::of_tile(Tile::from_rows([[3.0], [4.0]])).into_parts();
    /// assert_eq!((r.get(0, 0), v.get(1, 0), t.get(0, 0)), (-5.0, 0.5, 1.6));
    /// ```
    pub fn of_tile(mut a: Tile<T>) -> Self {
        let (m, n, memory) = (a.rows(), a.cols(), a.memory().clone());
        let tile = |rows, cols| Tile::unspecified(rows, cols, Format::ColumnMajor, &memory);
        let (k, ib) = (m.min(n), default_inner_block(m.max(n)));
        let (mut v, mut t) = (tile(m, k), tile(ib, k));
        // A ← R with A = Q·R
        geqrt(AUTO, &mut a, &mut v, &mut t);
        Qr { r: a, v, t }
    }

    /// R above zeros, m × n; V, m × min(m, n); and the triangles T: as
    /// [`geqrt`](crate::kernel::geqrt) leaves them.
    pub fn into_parts(self) -> (Tile<T>, Tile<T>, Tile<T>) {
        (self.r, self.v, self.t)
    }

    /// R, min(m, n) × n, column-major, with its zeros.
    pub fn r(&self) -> Vec<T> {
        let (m, n, k) = (self.r.rows(), self.r.cols(), self.v.cols());
        let mut r = Vec::with_capacity(k * n);
        for column in self.r.as_slice().chunks_exact(m.max(1)).take(n) {
            r.extend_from_slice(&column[..k]);
        }
        r
    }

    /// The first min(m, n) columns of Q, column-major.
    pub fn q(&self) -> Vec<T> {
        let (m, k) = (self.v.rows(), self.v.cols());
        let mut q = Tile::unspecified(m, k, Format::ColumnMajor, &SCRATCH_MEMORY);
        orgqr(AUTO, &self.v, &self.t, &mut q);
        q.as_slice().to_vec()
    }
}

/// The X that makes ‖B − A·X‖₂ least, the shortest of all for m < n; column-major, n × `cols`.
///
/// - `cols`: of B, which has m rows
///
/// # Errors
/// The first entry of A or of B that is not finite; [`LinalgError::RankDeficient`];
/// [`LinalgError::Overflow`] with the first column of R or of X that is not finite.
///
/// # Examples
/// ```
/// use dataflow_linalg::whole::least_squares;
/// // The line nearest to (0, 1), (1, 2), (2, 6)
/// let a = |i: usize, j: usize| [1.0, i as f64][j];
/// let x = least_squares((3, 2), &a, 1, &|i: usize, _: usize| [1.0, 2.0, 6.0][i])?;
/// assert!((x[0] - 0.5_f64).abs() < 1e-14 && (x[1] - 2.5).abs() < 1e-14);
/// # Ok::<(), dataflow_linalg::LinalgError>(())
/// ```
pub fn least_squares<T: Scalar>(
    (m, n): (usize, usize),
    a: &impl Entries<T>,
    cols: usize,
    b: &impl Entries<T>,
) -> Result<Vec<T>, LinalgError> {
    let a = finite_tile_of((m, n), a, &SCRATCH_MEMORY)?;
    let a = if m < n {
        adjoint_of(&a, &SCRATCH_MEMORY)
    } else {
        a
    };
    let Qr { r, v, t } = Qr::of_tile(a);
    let b =
        finite_tile_of((m, cols), b, &SCRATCH_MEMORY).map_err(LinalgError::in_right_hand_sides)?;
    expect_full_rank(&r)?;
    least_squares_with_qr((&r, &v, &t), m < n, b)
}

/// Fails unless all columns of a factored tile, m ≥ n, are independent.
///
/// # Errors
/// [`LinalgError::RankDeficient`] with the rank, which a graph finds; [`LinalgError::Overflow`] if R is not
/// finite.
///
/// # Examples
/// ```
/// use dataflow_linalg::{LinalgError, matrix::Tile, whole::expect_full_rank};
/// assert!(expect_full_rank(&Tile::from_rows([[1.0, 1.0], [0.0, 2.0]])).is_ok());
/// let refused = expect_full_rank(&Tile::from_rows([[1.0, 1.0], [0.0, 0.0]]));
/// assert!(matches!(refused, Err(LinalgError::RankDeficient { rank: 1, full: 2, .. })));
/// ```
pub fn expect_full_rank<T: Scalar>(r: &Tile<T>) -> Result<(), LinalgError> {
    if has_full_rank(r) {
        return Ok(());
    }
    let (m, n) = (r.rows(), r.cols());
    let layout = Layout::general(m, n, LARGEST_WHOLE.max(m.max(n)))?;
    let entries = |i: usize, j: usize| r.get(i, j);
    let tiles = TiledMatrix::from_entries(layout, &entries);
    let options = Options::of_order(m.max(n));
    qr::expect_full_rank(&tiles, options, AUTO, &Inline).map(drop)
}

/// The same X with what [`Qr`] is made of, of A or, for a wide A, of its adjoint; B is finite, R of
/// full rank. 4·m·n flops a column.
///
/// # Errors
/// [`LinalgError::Overflow`] with the first column of X that is not finite.
///
/// # Examples
/// ```
/// use dataflow_linalg::{matrix::Tile, whole::{Qr, least_squares_with_qr}};
/// // The shortest solution of x + y = 2
/// let (r, v, t) = Qr::of_tile(Tile::from_rows([[1.0_f64], [1.0]])).into_parts();
/// let x = least_squares_with_qr((&r, &v, &t), true, Tile::from_rows([[2.0]]))?;
/// assert!((x[0] - 1.0).abs() < 1e-15 && (x[1] - 1.0).abs() < 1e-15);
/// # Ok::<(), dataflow_linalg::LinalgError>(())
/// ```
pub fn least_squares_with_qr<T: Scalar>(
    (r, v, t): (&Tile<T>, &Tile<T>, &Tile<T>),
    is_adjoint: bool,
    mut b: Tile<T>,
) -> Result<Vec<T>, LinalgError> {
    let rows = if is_adjoint { r.rows() } else { r.cols() };
    let mut x = Tile::new(rows, b.cols(), Format::ColumnMajor, &SCRATCH_MEMORY);
    match is_adjoint {
        // R·X = Qᴴ·B
        false => {
            gemqrt(AUTO, (Side::Left, Op::ConjTranspose), v, t, &mut b);
            solve_leading(Op::NoTranspose, r, &b, &mut x);
        }
        // Rᴴ·Y = B, X = Q·Y
        true => {
            solve_leading(Op::ConjTranspose, r, &b, &mut x);
            gemqrt(AUTO, (Side::Left, Op::NoTranspose), v, t, &mut x);
        }
    }
    match tile_first_not_finite(&x, Extent::Whole) {
        None => Ok(x.as_slice().to_vec()),
        Some(found) => Err(LinalgError::overflow_in(found.col)),
    }
}
