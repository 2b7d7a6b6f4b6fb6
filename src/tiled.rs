//! Tiled: the calls of [`Dense`](crate::Dense) on tiled matrices, with a runtime of one's own; and
//! the steps that both take.
//!
//! # Law
//! Nothing is changed in place: a call copies what it overwrites, tile by tile. Over ranks every
//! rank calls it with its parts, and gets its part of the answer or the same error.
//!
//! # Elsewhere
//! In place, with a backend and a tree of one's choice, watched: [`linalg`](crate::linalg).

use crate::Runtime;
use dataflow_core::port::Executor;
use dataflow_linalg::LinalgError;
use dataflow_linalg::kernel::{Backend, Op};
use dataflow_linalg::matrix::{Entries, Layout, LayoutError, Structure, TiledMatrix};
use dataflow_linalg::product::{Operand, gemm};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{cholesky, lu, qr};

/// The kernels of all calls.
pub(crate) const AUTO: Backend = Backend::Auto;

/// Linear algebra on tiled matrices; nothing is changed in place, results are cut and spread like
/// the matrix.
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
    /// with column pivoting; what `rcond` is: [`qr::pivoted`].
    ///
    /// # Errors
    /// If shapes or tile orders disagree, A or B is not finite, or `rcond` is not allowed.
    fn least_squares_minimum_norm(
        &self,
        b: &Self,
        rcond: Option<f64>,
        runtime: &Runtime,
    ) -> Result<(Self, usize), LinalgError>;

    /// How many columns of A are independent: [`qr::pivoted`].
    ///
    /// # Errors
    /// If A is not finite, not stored as [`Structure::General`], or `rcond` is not allowed.
    fn rank(&self, rcond: Option<f64>, runtime: &Runtime) -> Result<usize, LinalgError>;

    /// A⁺, the pseudo-inverse: [`qr::pseudo_inverse`].
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
            cholesky::Solve::new(self, b, AUTO)?;
            let l = copy(self, *self.layout(), runtime)?;
            match cholesky::factor(&l, AUTO, runtime) {
                Ok(_) => {
                    let x = copy(b, *b.layout(), runtime)?;
                    cholesky::solve(&l, &x, AUTO, runtime)?;
                    return Ok(x);
                }
                Err(LinalgError::NotPositiveDefinite { .. }) if runtime.n_ranks() == 1 => {}
                Err(error) => return Err(error),
            }
        }
        let x = copy(b, *b.layout(), runtime)?;
        solve_by_lu(&whole(self, runtime)?, &x, runtime)?;
        Ok(x)
    }

    fn lu(&self, runtime: &Runtime) -> Result<(lu::Pivots<T>, Self), LinalgError> {
        let a = copy(self, *self.layout(), runtime)?;
        let pivots = factor_lu(&a, runtime)?;
        Ok((pivots, a))
    }

    fn qr(&self, runtime: &Runtime) -> Result<(Self, Self), LinalgError> {
        form_qr(&copy(self, *self.layout(), runtime)?, runtime)
    }

    fn least_squares(&self, b: &Self, runtime: &Runtime) -> Result<Self, LinalgError> {
        let (a, b) = (
            copy(self, *self.layout(), runtime)?,
            copy(b, *b.layout(), runtime)?,
        );
        let (x, _) = qr::least_squares(&a, &b, options(self), AUTO, runtime)?;
        Ok(x)
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
        let options = options(self);
        let solved = qr::least_squares_minimum_norm(&a, &b, rcond, options, AUTO, runtime);
        solved.map(|(x, rank, _)| (x, rank))
    }

    fn rank(&self, rcond: Option<f64>, runtime: &Runtime) -> Result<usize, LinalgError> {
        let a = copy(self, *self.layout(), runtime)?;
        Ok(qr::pivoted(&a, rcond, options(self), AUTO, runtime)?.rank())
    }

    fn pseudo_inverse(&self, rcond: Option<f64>, runtime: &Runtime) -> Result<Self, LinalgError> {
        let a = copy(self, *self.layout(), runtime)?;
        let (x, ..) = qr::pseudo_inverse(&a, rcond, options(self), AUTO, runtime)?;
        Ok(x)
    }

    fn inverse(&self, runtime: &Runtime) -> Result<Self, LinalgError> {
        let n = self.rows();
        expect_square((n, self.cols()))?;
        if self.structure() == Structure::Lower {
            let a = copy(self, *self.layout(), runtime)?;
            match cholesky::inverse(&a, AUTO, runtime) {
                Ok(_) => return Ok(a),
                Err(LinalgError::NotPositiveDefinite { .. }) if runtime.n_ranks() == 1 => {}
                Err(error) => return Err(error),
            }
        }
        let unit = |i: usize, j: usize| if i == j { T::one() } else { T::zero() };
        let x = filled(
            alike(self, Layout::general(n, n, self.nb()))?,
            &unit,
            runtime,
        )?;
        solve_by_lu(&whole(self, runtime)?, &x, runtime)?;
        match self.structure() {
            Structure::General => Ok(x),
            Structure::Lower => copy(&x, *self.layout(), runtime),
        }
    }

    fn dot_tiled(&self, b: &Self, runtime: &Runtime) -> Result<Self, LinalgError> {
        let layout = alike(self, Layout::general(self.rows(), b.cols(), self.nb()))?;
        let c = filled(layout, &|_: usize, _: usize| T::zero(), runtime)?;
        let (a, b) = (Operand::plain(self), Operand::plain(b));
        gemm(T::one(), a, b, T::zero(), &c, AUTO, runtime)?;
        Ok(c)
    }
}

/// A layout, cut into tiles of the same format and spread over the same grid as a matrix.
fn alike<T: Scalar>(
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
fn copy<T: Scalar>(
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

/// A ← L\U, whether singular or not
pub(crate) fn factor_lu<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<lu::Pivots<T>, LinalgError> {
    let pivots = lu::Pivots::new(a);
    let factor = lu::Factor::new(a, &pivots, AUTO)?;
    a.scan(on)?;
    factor.run(on)?;
    Ok(pivots)
}

/// A ← L\U, B ← X of A·X = B
pub(crate) fn solve_by_lu<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(), LinalgError> {
    let pivots = factor_lu(a, on)?;
    lu::solve(a, &pivots, Op::NoTranspose, b, AUTO, on)?;
    Ok(())
}

/// Q and R; of A reflectors are left.
pub(crate) fn form_qr<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, TiledMatrix<T>), LinalgError> {
    let (q, _) = qr::factor(a, options(a), AUTO, on)?;
    let formed = qr::form(a, &q, a.rows().min(a.cols()), AUTO, on)?;
    Ok((formed, qr::triangle(a, on)?))
}

/// Trees and blocks for tiles of the order of A's.
pub(crate) fn options<T: Scalar>(a: &TiledMatrix<T>) -> qr::Options {
    qr::Options::of_order(a.nb())
}
