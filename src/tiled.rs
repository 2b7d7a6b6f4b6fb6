//! Tiled: the calls of [`Dense`](crate::Dense) on tiled matrices, with a runtime of one's own; and
//! the steps that both take.
//!
//! # Law
//! Nothing is changed in place: a call copies what it overwrites, tile by tile; a factor that is kept
//! takes its matrix. Over ranks every
//! rank calls it with its parts, and gets its part of the answer or the same error.
//!
//! # Elsewhere
//! In place, with a backend and a tree of one's choice, watched: [`linalg`](crate::linalg).

use crate::Runtime;
use crate::factored::{TiledCholeskyFactor, TiledLuFactor, TiledQrFactor, steps};
use crate::place::expect_rows;
use dataflow_linalg::LinalgError;
use dataflow_linalg::kernel::Backend;
use dataflow_linalg::matrix::{Entries, Layout, LayoutError, Structure, TiledMatrix};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{cholesky, lu};

/// The kernels of all calls.
pub(crate) const AUTO: Backend = Backend::Auto;

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
pub trait Tiled<T: Scalar>: Sized {
    /// L with A = L·Lᴴ, stored as [`Structure::Lower`]. Only the lower triangle of A is read.
    ///
    /// # Errors
    /// If A is not square, not finite or not positive definite; then the index is LAPACK's INFO.
    fn cholesky(&self, runtime: &Runtime) -> Result<Self, LinalgError>;

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
    fn cholesky_factor(self, runtime: &Runtime) -> Result<TiledCholeskyFactor<'_, T>, LinalgError>;

    /// P, L and U in place of A, kept to solve with as often as there are right-hand sides, for the
    /// inverse, the determinant and the condition.
    ///
    /// # Errors
    /// As [`lu`](Self::lu); A is lost.
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
    fn lu_factor(self, runtime: &Runtime) -> Result<TiledLuFactor<'_, T>, LinalgError>;

    /// Q and R in place of A, kept to solve problems of least squares with as often as there are
    /// right-hand sides; of a wide A the adjoint is made and factored.
    ///
    /// # Errors
    /// As [`qr`](Self::qr); A is lost.
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
    fn qr_factor(self, runtime: &Runtime) -> Result<TiledQrFactor<'_, T>, LinalgError>;

    /// X with A·X = B: by Cholesky if A is stored as [`Structure::Lower`], by LU with partial
    /// pivoting otherwise.
    ///
    /// On one rank LU also solves with a Hermitian matrix that is not positive definite.
    ///
    /// # Errors
    /// If shapes, tile orders or grids disagree, A is not square, not finite or singular; over ranks
    /// if a Hermitian A is not positive definite.
    fn solve(&self, b: &Self, runtime: &Runtime) -> Result<Self, LinalgError>;

    /// Pivots and factors of P·A = L·U, for any shape: L unit lower below the diagonal, U on and
    /// above it, as [`lu::solve`] takes them. A singular matrix has factors, too.
    ///
    /// # Errors
    /// If A is not finite, or not stored as [`Structure::General`].
    fn lu(&self, runtime: &Runtime) -> Result<(lu::Pivots<T>, Self), LinalgError>;

    /// Q and R with A = Q·R, for any shape: Q is m × k with orthonormal columns, R k × n and upper
    /// triangular, k = min(m, n).
    ///
    /// # Errors
    /// If A is not finite, or not stored as [`Structure::General`].
    fn qr(&self, runtime: &Runtime) -> Result<(Self, Self), LinalgError>;

    /// The X that makes ‖B − A·X‖₂ least, by QR; the shortest of all solutions if A has more columns
    /// than rows. A must have full rank.
    ///
    /// # Errors
    /// If shapes or tile orders disagree, A or B is not finite; [`LinalgError::RankDeficient`] with
    /// the rank of A if it is not full.
    fn least_squares(&self, b: &Self, runtime: &Runtime) -> Result<Self, LinalgError>;

    /// The shortest of the X that make ‖B − A·X‖₂ least, whatever the rank of A; and that rank. By QR
    /// with column pivoting; what `rcond` is: [`qr::pivoted`](dataflow_linalg::qr::pivoted).
    ///
    /// # Errors
    /// If shapes or tile orders disagree, A or B is not finite, or `rcond` is not allowed.
    fn least_squares_minimum_norm(
        &self,
        b: &Self,
        rcond: Option<f64>,
        runtime: &Runtime,
    ) -> Result<(Self, usize), LinalgError>;

    /// How many columns of A are independent: [`qr::pivoted`](dataflow_linalg::qr::pivoted).
    ///
    /// # Errors
    /// If A is not finite, not stored as [`Structure::General`], or `rcond` is not allowed.
    fn rank(&self, rcond: Option<f64>, runtime: &Runtime) -> Result<usize, LinalgError>;

    /// A⁺, the pseudo-inverse: [`qr::pseudo_inverse`](dataflow_linalg::qr::pseudo_inverse).
    ///
    /// # Errors
    /// As [`rank`](Self::rank).
    fn pseudo_inverse(&self, rcond: Option<f64>, runtime: &Runtime) -> Result<Self, LinalgError>;

    /// A⁻¹, by the decomposition that [`solve`](Self::solve) takes; stored like A.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    fn inverse(&self, runtime: &Runtime) -> Result<Self, LinalgError>;

    /// A·B.
    ///
    /// # Errors
    /// If shapes or tile orders disagree.
    fn dot_tiled(&self, b: &Self, runtime: &Runtime) -> Result<Self, LinalgError>;
}

impl<T: Scalar> Tiled<T> for TiledMatrix<T> {
    fn cholesky(&self, runtime: &Runtime) -> Result<Self, LinalgError> {
        expect_square((self.rows(), self.cols()))?;
        let l = copy(
            self,
            alike(self, Layout::lower(self.rows(), self.nb()))?,
            runtime,
        )?;
        cholesky::factor(&l, AUTO, runtime)?;
        Ok(l)
    }

    fn solve(&self, b: &Self, runtime: &Runtime) -> Result<Self, LinalgError> {
        expect_square((self.rows(), self.cols()))?;
        if self.structure() == Structure::Lower {
            // Shapes that do not fit are told before the work.
            cholesky::substitution(self, b, Backend::Auto)?;
            let l = copy(self, *self.layout(), runtime)?;
            let x = copy(b, *b.layout(), runtime)?;
            match cholesky::factor_and_solve(&l, &x, AUTO, runtime) {
                Ok(_) => return Ok(x),
                Err(LinalgError::NotPositiveDefinite { .. }) if runtime.n_ranks() == 1 => {}
                Err(error) => return Err(error),
            }
        }
        let (a, x) = (whole(self, runtime)?, copy(b, *b.layout(), runtime)?);
        steps::solve_by_lu(&a, &x, runtime)?;
        Ok(x)
    }

    fn cholesky_factor(self, runtime: &Runtime) -> Result<TiledCholeskyFactor<'_, T>, LinalgError> {
        TiledCholeskyFactor::new(self, runtime)
    }

    fn lu_factor(self, runtime: &Runtime) -> Result<TiledLuFactor<'_, T>, LinalgError> {
        TiledLuFactor::new(self, runtime)
    }

    fn qr_factor(self, runtime: &Runtime) -> Result<TiledQrFactor<'_, T>, LinalgError> {
        TiledQrFactor::new(self, runtime)
    }

    fn lu(&self, runtime: &Runtime) -> Result<(lu::Pivots<T>, Self), LinalgError> {
        let a = copy(self, *self.layout(), runtime)?;
        let pivots = steps::factor_by_lu(&a, runtime)?;
        Ok((pivots, a))
    }

    fn qr(&self, runtime: &Runtime) -> Result<(Self, Self), LinalgError> {
        steps::qr(&copy(self, *self.layout(), runtime)?, runtime)
    }

    fn least_squares(&self, b: &Self, runtime: &Runtime) -> Result<Self, LinalgError> {
        expect_rows((b.rows(), b.cols()), self.rows())?;
        let (a, b) = (
            copy(self, *self.layout(), runtime)?,
            copy(b, *b.layout(), runtime)?,
        );
        steps::least_squares((&a, &b), runtime)
    }

    fn least_squares_minimum_norm(
        &self,
        b: &Self,
        rcond: Option<f64>,
        runtime: &Runtime,
    ) -> Result<(Self, usize), LinalgError> {
        let (a, b) = (
            copy(self, *self.layout(), runtime)?,
            copy(b, *b.layout(), runtime)?,
        );
        steps::least_squares_minimum_norm((&a, &b), rcond, runtime)
    }

    fn rank(&self, rcond: Option<f64>, runtime: &Runtime) -> Result<usize, LinalgError> {
        steps::rank(&copy(self, *self.layout(), runtime)?, rcond, runtime)
    }

    fn pseudo_inverse(&self, rcond: Option<f64>, runtime: &Runtime) -> Result<Self, LinalgError> {
        steps::pseudo_inverse(&copy(self, *self.layout(), runtime)?, rcond, runtime)
    }

    fn inverse(&self, runtime: &Runtime) -> Result<Self, LinalgError> {
        expect_square((self.rows(), self.cols()))?;
        if self.structure() == Structure::Lower {
            let a = copy(self, *self.layout(), runtime)?;
            match cholesky::inverse(&a, AUTO, runtime) {
                Ok(_) => return Ok(a),
                Err(LinalgError::NotPositiveDefinite { .. }) if runtime.n_ranks() == 1 => {}
                Err(error) => return Err(error),
            }
        }
        let x = steps::invert_by_lu(whole(self, runtime)?, runtime)?;
        match self.structure() {
            Structure::General => Ok(x),
            Structure::Lower => copy(&x, *self.layout(), runtime),
        }
    }

    fn dot_tiled(&self, b: &Self, runtime: &Runtime) -> Result<Self, LinalgError> {
        let layout = alike(self, Layout::general(self.rows(), b.cols(), self.nb()))?;
        let c = filled(layout, &|_: usize, _: usize| T::zero(), runtime)?;
        steps::multiply((self, b), &c, runtime)?;
        Ok(c)
    }
}

/// A layout, cut into tiles of the same format and spread over the same grid as a matrix.
pub(crate) fn alike<T: Scalar>(
    a: &TiledMatrix<T>,
    layout: Result<Layout, LayoutError>,
) -> Result<Layout, LinalgError> {
    let spread = layout.and_then(|layout| {
        let layout = layout.with_format(a.format());
        layout.distributed(*a.distribution(), a.layout().rank())
    });
    spread.map_err(|error| LinalgError::Shape(error.to_string()))
}

/// A matrix with the given entries.
fn filled<T: Scalar>(
    layout: Layout,
    entries: &impl Entries<T>,
    runtime: &Runtime,
) -> Result<TiledMatrix<T>, LinalgError> {
    let tiles = TiledMatrix::vacant(layout, runtime.memory());
    tiles.fill(entries, runtime).map_err(LinalgError::Run)?;
    Ok(tiles)
}

/// The entries of a matrix in tiles of another layout, all of whose entries are on this rank.
pub(crate) fn copy<T: Scalar>(
    a: &TiledMatrix<T>,
    layout: Layout,
    runtime: &Runtime,
) -> Result<TiledMatrix<T>, LinalgError> {
    filled(layout, a, runtime)
}

/// Both triangles of a matrix.
fn whole<T: Scalar>(a: &TiledMatrix<T>, runtime: &Runtime) -> Result<TiledMatrix<T>, LinalgError> {
    copy(
        a,
        alike(a, Layout::general(a.rows(), a.cols(), a.nb()))?,
        runtime,
    )
}

/// Fails unless a matrix of this shape is square.
pub(crate) fn expect_square((m, n): (usize, usize)) -> Result<(), LinalgError> {
    match m == n {
        true => Ok(()),
        false => Err(LinalgError::Shape(format!(
            "matrix is {m} x {n} (must be square)"
        ))),
    }
}
