//! Tiled: the calls of [`Dense`](crate::Dense) on tiled matrices, run by an executor of one's own.
//!
//! # Law
//! Nothing is changed in place: a call copies what it overwrites, tile by tile; a factor that is kept
//! takes its matrix. Over ranks every
//! rank calls it with its parts, and gets its part of the answer or the same error.
//!
//! # Elsewhere
//! In place, with a backend and a tree of one's choice, watched: [`linalg`](crate::linalg).

use crate::calls::copy::{copy, whole};
use crate::calls::factored::steps::{AUTO, alike};
use crate::calls::factored::{TiledCholeskyFactor, TiledLuFactor, TiledQrFactor, steps};
use crate::calls::site::{called, expect_rows, expect_square_system, expect_square_tiles};
use dataflow_core::port::Executor;
use dataflow_linalg::LinalgError;
use dataflow_linalg::matrix::{Layout, Structure, TiledMatrix};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{cholesky, lu, product};

/// Linear algebra on tiled matrices; nothing is changed in place (factors that are kept take the
/// matrix), results are cut and spread like the matrix.
///
/// A matrix that is stored as [`Structure::Lower`] stands for the Hermitian one.
///
/// # Examples
/// ```
/// use dataflow::linalg::matrix::{Layout, TiledMatrix};
/// use dataflow::prelude::*;
///
/// let runtime = Runtime::builder().threads(2).build()?;
/// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 0.0], [2.0, 10.0]][i][j]);
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [8.0, 22.0][i]);
/// assert_eq!(a.solve(&b, &runtime)?.to_column_major()?, [1.0, 2.0]);
/// assert_eq!(a.cholesky(&runtime)?.get(1, 1), Some(3.0));
/// assert_eq!(a.dot_tiled(&b, &runtime)?.to_column_major()?, [76.0, 236.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// A [`Runtime`](crate::Runtime) is one executor, [`Inline`](crate::core::port::Inline) another, and a
/// runtime that is watched a third: a monitor follows all runs of a call, and cancels what is left of
/// it.
/// ```
/// use dataflow::linalg::matrix::{Layout, TiledMatrix};
/// use dataflow::{Monitor, prelude::*};
///
/// let runtime = Runtime::builder().threads(2).build()?;
/// let monitor = Monitor::new();
/// let watched = runtime.watched_by(&monitor);
/// let a = TiledMatrix::from_fn(Layout::general(64, 64, 16)?, |i, j| if i == j { 2.0 } else { 0.5 });
/// let factor = a.lu_factor(&watched)?;
/// assert!(monitor.progress().done > 0);
///
/// monitor.cancel();
/// let b = TiledMatrix::from_fn(Layout::general(64, 1, 16)?, |_, _| 1.0);
/// assert_eq!(factor.solve(&b).unwrap_err().name(), "cancelled");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Tiled<T: Scalar>: Sized {
    /// L with A = L·Lᴴ, stored as [`Structure::Lower`]. Only the lower triangle of A is read.
    ///
    /// # Errors
    /// If A is not square, not finite or not positive definite; then the index is LAPACK's INFO.
    fn cholesky(&self, on: &dyn Executor) -> Result<Self, LinalgError>;

    /// L, kept to solve with as often as there are right-hand sides, for the inverse, the determinant
    /// and the condition. In place of A if that is stored as [`Structure::Lower`].
    ///
    /// # Errors
    /// As [`cholesky`](Self::cholesky); A is lost.
    ///
    /// # Examples
    /// ```
    /// use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// use dataflow::prelude::*;
    ///
    /// let runtime = Runtime::builder().threads(2).build()?;
    /// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 0.0], [2.0, 10.0]][i][j]);
    /// let factor = a.cholesky_factor(&runtime)?;
    /// for (b, x) in [([8.0, 22.0], [1.0, 2.0]), ([6.0, 12.0], [1.0, 1.0])] {
    ///     let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| b[i]);
    ///     assert_eq!(factor.solve(&b)?.to_column_major()?, x);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn cholesky_factor(self, on: &dyn Executor) -> Result<TiledCholeskyFactor<'_, T>, LinalgError>;

    /// P, L and U in place of A, kept to solve with as often as there are right-hand sides, for the
    /// inverse, the determinant and the condition.
    ///
    /// # Errors
    /// If A is not finite, or not stored as [`Structure::General`]: then it is lost. A factor that overflows
    /// is none to solve with.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let factor = a.lu_factor(&runtime)?;
    /// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [4.0, 10.0][i]);
    /// assert_eq!(factor.solve(&b)?.to_column_major()?, [1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn lu_factor(self, on: &dyn Executor) -> Result<TiledLuFactor<'_, T>, LinalgError>;

    /// Q and R in place of A, kept to solve problems of least squares with as often as there are
    /// right-hand sides; of a wide A the adjoint is made and factored.
    ///
    /// # Errors
    /// If A is not finite, or not stored as [`Structure::General`]: then it is lost. A factor that overflows
    /// is none to solve with.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| [1.0_f64, i as f64][j]);
    /// let factor = a.qr_factor(&runtime)?;
    /// let b = TiledMatrix::from_fn(Layout::general(3, 1, 2)?, |i, _| [1.0, 2.0, 6.0][i]);
    /// let x = factor.least_squares(&b)?.to_column_major()?;
    /// assert!((x[0] - 0.5).abs() < 1e-14 && (x[1] - 2.5).abs() < 1e-14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn qr_factor(self, on: &dyn Executor) -> Result<TiledQrFactor<'_, T>, LinalgError>;

    /// X with A·X = B: by Cholesky if A is stored as [`Structure::Lower`], by LU with partial
    /// pivoting otherwise.
    ///
    /// On one rank LU also solves with a Hermitian matrix that is not positive definite.
    ///
    /// # Errors
    /// If shapes, tile orders or grids disagree, A is not square or singular, A or B is not finite; over
    /// ranks if a Hermitian A is not positive definite; [`LinalgError::Overflow`] with the first pivot of LU,
    /// or the first column of X, that is not finite.
    fn solve(&self, b: &Self, on: &dyn Executor) -> Result<Self, LinalgError>;

    /// Pivots and factors of P·A = L·U, for any shape: L unit lower below the diagonal, U on and
    /// above it, as [`lu::solve`] takes them. A singular matrix has factors, too.
    ///
    /// # Errors
    /// If A is not finite, or not stored as [`Structure::General`]; [`LinalgError::Overflow`] with the first
    /// column of the factors that is not finite.
    fn lu(&self, on: &dyn Executor) -> Result<(lu::Pivots<T>, Self), LinalgError>;

    /// Q and R with A = Q·R, for any shape: Q is m × k with orthonormal columns, R k × n and upper
    /// triangular, k = min(m, n).
    ///
    /// # Errors
    /// If A is not finite, or not stored as [`Structure::General`]; [`LinalgError::Overflow`] with the first
    /// column of R that is not finite, or of Q if R is.
    fn qr(&self, on: &dyn Executor) -> Result<(Self, Self), LinalgError>;

    /// The X that makes ‖B − A·X‖₂ least, by QR; the shortest of all solutions if A has more columns
    /// than rows. A must have full rank.
    ///
    /// # Errors
    /// If shapes or tile orders disagree, A or B is not finite; [`LinalgError::RankDeficient`] with
    /// the rank of A if it is not full.
    fn least_squares(&self, b: &Self, on: &dyn Executor) -> Result<Self, LinalgError>;

    /// The shortest of the X that make ‖B − A·X‖₂ least, whatever the rank of A; and that rank. By QR
    /// with column pivoting; what `rcond` is: [`qr::pivoted`](dataflow_linalg::qr::pivoted).
    ///
    /// # Errors
    /// If shapes or tile orders disagree, A or B is not finite, or `rcond` is not allowed.
    fn least_squares_minimum_norm(
        &self,
        b: &Self,
        rcond: Option<f64>,
        on: &dyn Executor,
    ) -> Result<(Self, usize), LinalgError>;

    /// How many columns of A are independent: [`qr::pivoted`](dataflow_linalg::qr::pivoted).
    ///
    /// # Errors
    /// If A is not finite, not stored as [`Structure::General`], or `rcond` is not allowed.
    fn numerical_rank(&self, rcond: Option<f64>, on: &dyn Executor) -> Result<usize, LinalgError>;

    /// A⁺, the pseudo-inverse: [`qr::pseudo_inverse`](dataflow_linalg::qr::pseudo_inverse).
    ///
    /// # Errors
    /// As [`numerical_rank`](Self::numerical_rank).
    fn pseudo_inverse(&self, rcond: Option<f64>, on: &dyn Executor) -> Result<Self, LinalgError>;

    /// A⁻¹, by the decomposition that [`solve`](Self::solve) takes; stored like A.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    fn inverse(&self, on: &dyn Executor) -> Result<Self, LinalgError>;

    /// A·B.
    ///
    /// # Errors
    /// If shapes or tile orders disagree.
    fn dot_tiled(&self, b: &Self, on: &dyn Executor) -> Result<Self, LinalgError>;
}

impl<T: Scalar> Tiled<T> for TiledMatrix<T> {
    fn cholesky(&self, on: &dyn Executor) -> Result<Self, LinalgError> {
        expect_square_tiles(self)?;
        let l = copy(
            self,
            alike(self, Layout::lower(self.rows(), self.nb()))?,
            on,
        )?;
        cholesky::factor(&l, AUTO, on)?;
        Ok(l)
    }

    fn solve(&self, b: &Self, on: &dyn Executor) -> Result<Self, LinalgError> {
        expect_square_system((self.rows(), self.cols()))
            .map_err(|error| called(error, [("A", self)]))?;
        let x = solved(self, b, on)?;
        let Err(overflow) = steps::expect_finite(&x, on) else {
            return Ok(x);
        };
        // What is not finite in B is not finite in X, either.
        b.scan(on).map_err(LinalgError::in_right_hand_sides)?;
        Err(overflow)
    }

    fn cholesky_factor(self, on: &dyn Executor) -> Result<TiledCholeskyFactor<'_, T>, LinalgError> {
        TiledCholeskyFactor::new(self, on)
    }

    fn lu_factor(self, on: &dyn Executor) -> Result<TiledLuFactor<'_, T>, LinalgError> {
        TiledLuFactor::new(self, on)
    }

    fn qr_factor(self, on: &dyn Executor) -> Result<TiledQrFactor<'_, T>, LinalgError> {
        TiledQrFactor::new(self, on)
    }

    fn lu(&self, on: &dyn Executor) -> Result<(lu::Pivots<T>, Self), LinalgError> {
        let a = copy(self, *self.layout(), on)?;
        let pivots = steps::factor_by_lu(&a, on)?;
        steps::expect_finite(&a, on)?;
        Ok((pivots, a))
    }

    fn qr(&self, on: &dyn Executor) -> Result<(Self, Self), LinalgError> {
        steps::qr(&copy(self, *self.layout(), on)?, on)
    }

    fn least_squares(&self, b: &Self, on: &dyn Executor) -> Result<Self, LinalgError> {
        let fit = expect_rows((b.rows(), b.cols()), self.rows());
        fit.map_err(|error| called(error, [("A", self), ("B", b)]))?;
        let (a, b) = (copy(self, *self.layout(), on)?, copy(b, *b.layout(), on)?);
        steps::least_squares((&a, &b), on)
    }

    fn least_squares_minimum_norm(
        &self,
        b: &Self,
        rcond: Option<f64>,
        on: &dyn Executor,
    ) -> Result<(Self, usize), LinalgError> {
        let (a, b) = (copy(self, *self.layout(), on)?, copy(b, *b.layout(), on)?);
        steps::least_squares_minimum_norm((&a, &b), rcond, on)
    }

    fn numerical_rank(&self, rcond: Option<f64>, on: &dyn Executor) -> Result<usize, LinalgError> {
        steps::rank(&copy(self, *self.layout(), on)?, rcond, on)
    }

    fn pseudo_inverse(&self, rcond: Option<f64>, on: &dyn Executor) -> Result<Self, LinalgError> {
        steps::pseudo_inverse(&copy(self, *self.layout(), on)?, rcond, on)
    }

    fn inverse(&self, on: &dyn Executor) -> Result<Self, LinalgError> {
        expect_square_tiles(self)?;
        let x = inverted(self, on)?;
        steps::expect_finite(&x, on)?;
        Ok(x)
    }

    fn dot_tiled(&self, b: &Self, on: &dyn Executor) -> Result<Self, LinalgError> {
        product::expect_product((self.rows(), self.cols()), (b.rows(), b.cols()))
            .and_then(|()| product::expect_alike([self.nb(), b.nb()], self.nb()))
            .map_err(|error| called(error, [("A", self), ("B", b)]))?;
        let layout = alike(self, Layout::general(self.rows(), b.cols(), self.nb()))?;
        let zeros = |_: usize, _: usize| T::zero();
        let c = TiledMatrix::beside(layout, &on.memory(), &zeros, on);
        let (c, _) = c.map_err(LinalgError::Run)?;
        steps::multiply((self, b), &c, on)?;
        Ok(c)
    }
}

/// X of A·X = B, for a square A.
fn solved<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let copy_of_b = || copy(b, *b.layout(), on);
    if a.structure() == Structure::Lower {
        // Shapes that do not fit are told before the work.
        cholesky::substitution(a, b, AUTO)?;
        let (l, x) = (copy(a, *a.layout(), on)?, copy_of_b()?);
        match cholesky::factor_and_solve(&l, &x, AUTO, on) {
            Ok(_) => return Ok(x),
            Err(LinalgError::NotPositiveDefinite { .. }) if on.courier().n_ranks() == 1 => {}
            Err(error) => return Err(error),
        }
    }
    let (a, x) = (whole(a, on)?, copy_of_b()?);
    steps::solve_by_lu(&a, &x, on)?;
    Ok(x)
}

/// A⁻¹ of a square A, stored like A.
fn inverted<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    if a.structure() == Structure::Lower {
        let inverse = copy(a, *a.layout(), on)?;
        match cholesky::inverse(&inverse, AUTO, on) {
            Ok(_) => return Ok(inverse),
            Err(LinalgError::NotPositiveDefinite { .. }) if on.courier().n_ranks() == 1 => {}
            Err(error) => return Err(error),
        }
    }
    let inverse = steps::invert_by_lu(whole(a, on)?, on)?;
    match a.structure() {
        Structure::General => Ok(inverse),
        Structure::Lower => copy(&inverse, *a.layout(), on),
    }
}
