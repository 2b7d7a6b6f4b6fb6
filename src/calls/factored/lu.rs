//! The factors P, L and U of a matrix, kept: of an array, and of a matrix in tiles.

use super::steps::{self, AUTO};
use crate::calls::copy::copy;
use crate::calls::site::{
    SMALL, Site, array, array_of, expect_rows, finite, heap, in_one_tile, is_small, of_columns,
};
use crate::calls::site::{expect_square, expect_square_tiles};
use dataflow_core::port::Executor;
use dataflow_linalg::determinant::Determinant;
use dataflow_linalg::kernel::Op;
use dataflow_linalg::matrix::convert::NdarrayEntries;
use dataflow_linalg::matrix::{Layout, TiledMatrix};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{LinalgError, lu, whole};
use ndarray::{Array, Array2, ArrayBase, ArrayView2, Data, Dimension, ShapeBuilder};
use std::cmp::Ordering;
use std::fmt;

/// What [`Dense::lu`](crate::Dense::lu) answers: the order of rows P, then L and U.
///
/// # Examples
/// See [`Dense::lu`](crate::Dense::lu).
pub type Lu<T> = (Vec<usize>, Array2<T>, Array2<T>);

/// P, L and U of an array, to solve with as often as there are right-hand sides:
/// [`Dense::lu_factor`](crate::Dense::lu_factor).
///
/// A matrix that is singular, or not square, has factors, too, and so has one whose U overflows; what it
/// has not is solutions, an inverse, a condition: these are errors. Nothing of a factor is changed: threads may share one.
/// What takes how long is said for order n.
///
/// # Examples
/// ```
/// use dataflow::ndarray::array;
/// use dataflow::prelude::*;
///
/// let factor = array![[0.0, 4.0], [2.0, 8.0]].lu_factor()?;
/// for (b, x) in [(array![4.0, 10.0], array![1.0, 1.0]), (array![4.0, 8.0], array![0.0, 1.0])] {
///     assert_eq!(factor.solve(&b)?, x);
/// }
/// let singular = array![[1.0, 2.0], [2.0, 4.0]].lu_factor()?;
/// assert_eq!(singular.solve(&array![1.0, 1.0]).unwrap_err().index(), Some(2));
/// # Ok::<(), dataflow::linalg::LinalgError>(())
/// ```
pub struct LuFactor<T: Scalar> {
    kept: KeptLu<T>,
}

impl<T: Scalar> LuFactor<T> {
    pub(crate) fn new(a: ArrayView2<'_, T>) -> Result<Self, LinalgError> {
        if is_small(a.dim()) {
            let kept = KeptLu::at_once(a)?;
            return Ok(LuFactor { kept });
        }
        let (site, tiles) = tiles_of(a)?;
        let norm = steps::one_norm(&tiles, site.on())?;
        let kept = KeptLu::of(Factors::in_tiles_of(tiles, &site)?, norm, site.on())?;
        Ok(LuFactor { kept })
    }

    /// X with A·X = B, for a vector or the columns of a matrix. 2n² operations for each column.
    ///
    /// The bits are those of [`Dense::solve`](crate::Dense::solve) where that goes by LU.
    ///
    /// # Errors
    /// [`LinalgError::Singular`] with the first zero on the diagonal of U, [`LinalgError::Overflow`] with the
    /// first number on it, or the first column of X, that is not finite; if A is not square, the shapes
    /// disagree, or B is not finite.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[0.0, 4.0], [2.0, 8.0]].lu_factor()?;
    /// let x = factor.solve(&array![[4.0, 4.0], [10.0, 8.0]])?;
    /// assert_eq!(x, array![[1.0, 0.0], [1.0, 1.0]]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn solve<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        self.solve_of(Op::NoTranspose, b)
    }

    /// X with Aᵀ·X = B.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[0.0, 4.0], [2.0, 8.0]].lu_factor()?;
    /// assert_eq!(factor.solve_transposed(&array![2.0, 12.0])?, array![1.0, 1.0]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn solve_transposed<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        self.solve_of(Op::Transpose, b)
    }

    /// X with Aᴴ·X = B.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// use dataflow::linalg::scalar::c64;
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let i = c64::new(0.0, 1.0);
    /// assert_eq!(array![[i]].lu_factor()?.solve_adjoint(&array![i])?, array![-c64::new(1.0, 0.0)]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn solve_adjoint<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        self.solve_of(Op::ConjTranspose, b)
    }

    fn solve_of<S: Data<Elem = T>, D: Dimension>(
        &self,
        op: Op,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        let factors = self.kept.solvable()?;
        of_columns(b, |b| factors.solved(op, b))
    }

    /// A⁻¹. 4n³/3 operations and a copy of the factors; for A⁻¹·B take [`solve`](Self::solve).
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[0.0, 4.0], [2.0, 8.0]].lu_factor()?;
    /// assert_eq!(factor.inverse()?, array![[-1.0, 0.5], [0.25, 0.0]]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn inverse(&self) -> Result<Array2<T>, LinalgError> {
        let Factors { lu, pivots } = self.kept.solvable()?;
        if let Some(tile) = lu.tile(0, 0).filter(|_| is_small((lu.rows(), lu.cols()))) {
            let inverse = whole::invert_with_lu((&tile, &self.permutation()));
            return finite(array_of((lu.rows(), lu.cols()), inverse));
        }
        let site = Site::beside(lu, 0)?;
        let copy = site.tiles(Ok(*lu.layout()), lu)?;
        finite(array(&steps::invert_with_lu(copy, pivots, site.on())?))
    }

    /// The determinant of A, as logarithm and phase: it neither overflows nor vanishes. n logarithms;
    /// that of a singular matrix is 0.
    ///
    /// # Errors
    /// If A is not square; [`LinalgError::Overflow`] with the first pivot that is not finite, unless one
    /// before it is zero.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let determinant = array![[0.0, 4.0], [2.0, 8.0]].lu_factor()?.determinant()?;
    /// assert_eq!((determinant.log_abs, determinant.phase.re), (8f64.ln(), -1.0));
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn determinant(&self) -> Result<Determinant, LinalgError> {
        let factors = &self.kept.factors;
        factors.determinant(Site::beside(&factors.lu, 0)?.on())
    }

    /// The condition κ₁(A) = ‖A‖₁·‖A⁻¹‖₁, estimated from below, rarely by more than a factor 3: a
    /// solution loses about as many digits as it has. Infinite if ‖A‖₁ is larger than any number. Mostly 4
    /// or 5 solutions.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// assert_eq!(array![[0.0, 4.0], [2.0, 8.0]].lu_factor()?.condition()?, 15.0);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn condition(&self) -> Result<f64, LinalgError> {
        let site = Site::beside(&self.kept.factors.lu, 1)?;
        self.kept.condition(site.on())
    }

    /// The order of rows P: row `i` of L·U is row `p[i]` of A.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// assert_eq!(array![[0.0, 4.0], [2.0, 8.0]].lu_factor()?.permutation(), [1, 0]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn permutation(&self) -> Vec<usize> {
        self.kept.factors.permutation()
    }

    /// L, m × min(m, n), with ones on the diagonal and zeros above it.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// assert_eq!(array![[1.0, 4.0], [2.0, 4.0]].lu_factor()?.l(), array![[1.0, 0.0], [0.5, 1.0]]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn l(&self) -> Array2<T> {
        l_of(&array(&self.kept.factors.lu))
    }

    /// U, min(m, n) × n, with zeros below the diagonal; not finite where numbers on the way to it were too
    /// large.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// assert_eq!(array![[1.0, 4.0], [2.0, 4.0]].lu_factor()?.u(), array![[2.0, 4.0], [0.0, 2.0]]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn u(&self) -> Array2<T> {
        u_of(&array(&self.kept.factors.lu))
    }
}

impl<T: Scalar> fmt::Debug for LuFactor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.show("LuFactor", f)
    }
}

/// P, L and U of a matrix in tiles, factored in place: [`Tiled::lu_factor`](crate::Tiled::lu_factor).
///
/// Over ranks every rank calls each method with its parts, in the same order, and gets its part of
/// the answer or the same error.
///
/// # Examples
/// ```
/// use dataflow::linalg::matrix::{Layout, TiledMatrix};
/// use dataflow::prelude::*;
///
/// let runtime = Runtime::builder().threads(2).build()?;
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let factor = a.lu_factor(&runtime)?;
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [4.0, 10.0][i]);
/// assert_eq!(factor.solve(&b)?.to_column_major()?, [1.0, 1.0]);
/// assert_eq!((factor.condition()?, factor.determinant()?.phase.re), (15.0, -1.0));
/// assert_eq!(factor.inverse()?.to_column_major()?, [-1.0, 0.25, 0.5, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TiledLuFactor<'r, T: Scalar> {
    kept: KeptLu<T>,
    on: &'r dyn Executor,
}

impl<'r, T: Scalar> TiledLuFactor<'r, T> {
    pub(crate) fn new(a: TiledMatrix<T>, on: &'r dyn Executor) -> Result<Self, LinalgError> {
        let kept = KeptLu::new(a, on)?;
        Ok(TiledLuFactor { kept, on })
    }

    /// X with A·X = B. 2n² operations for each column; copies B.
    ///
    /// # Errors
    /// As [`LuFactor::solve`]; if tile orders or grids disagree.
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
    pub fn solve(&self, b: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        self.solve_of(Op::NoTranspose, b)
    }

    /// X with Aᵀ·X = B.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let factor = a.lu_factor(&runtime)?;
    /// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [2.0, 12.0][i]);
    /// assert_eq!(factor.solve_transposed(&b)?.to_column_major()?, [1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn solve_transposed(&self, b: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        self.solve_of(Op::Transpose, b)
    }

    /// X with Aᴴ·X = B.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// use dataflow::prelude::*;
    ///
    /// let runtime = Runtime::builder().threads(2).build()?;
    /// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let factor = a.lu_factor(&runtime)?;
    /// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [2.0, 12.0][i]);
    /// assert_eq!(factor.solve_transposed(&b)?.to_column_major()?, [1.0, 1.0]);
    /// assert_eq!(factor.solve_adjoint(&b)?.to_column_major()?, [1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn solve_adjoint(&self, b: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        self.solve_of(Op::ConjTranspose, b)
    }

    fn solve_of(&self, op: Op, b: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        let factors = self.kept.solvable()?;
        let x = copy(b, *b.layout(), self.on)?;
        factors.solve_in(op, &x, self.on)?;
        Ok(x)
    }

    /// X with A·X = B in the place of B.
    ///
    /// # Errors
    /// As [`solve`](Self::solve); B is lost.
    ///
    /// # Examples
    /// ```
    /// use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// use dataflow::prelude::*;
    ///
    /// let runtime = Runtime::builder().threads(2).build()?;
    /// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [4.0, 10.0][i]);
    /// assert_eq!(a.lu_factor(&runtime)?.solve_into(b)?.to_column_major()?, [1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn solve_into(&self, b: TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        let factors = self.kept.solvable()?;
        factors.solve_in(Op::NoTranspose, &b, self.on)?;
        Ok(b)
    }

    /// A⁻¹. 4n³/3 operations and a copy of the factors.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let factor = a.lu_factor(&runtime)?;
    /// assert_eq!(factor.inverse()?.to_column_major()?, [-1.0, 0.25, 0.5, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inverse(&self) -> Result<TiledMatrix<T>, LinalgError> {
        let Factors { lu, pivots } = self.kept.solvable()?;
        let lu = copy(lu, *lu.layout(), self.on)?;
        let inverse = steps::invert_with_lu(lu, pivots, self.on)?;
        steps::expect_finite(&inverse, self.on)?;
        Ok(inverse)
    }

    /// The determinant of A, the same on every rank; n logarithms, and over ranks two messages from
    /// each to each other.
    ///
    /// # Errors
    /// As [`LuFactor::determinant`]; if the run fails.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let factor = a.lu_factor(&runtime)?;
    /// let determinant = factor.determinant()?;
    /// assert_eq!((determinant.log_abs, determinant.phase.re), (8f64.ln(), -1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn determinant(&self) -> Result<Determinant, LinalgError> {
        self.kept.factors.determinant(self.on)
    }

    /// The condition, as [`LuFactor::condition`]; the same on every rank.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let factor = a.lu_factor(&runtime)?;
    /// assert_eq!(factor.condition()?, 15.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn condition(&self) -> Result<f64, LinalgError> {
        self.kept.condition(self.on)
    }

    /// L, unit lower, below the diagonal, and U on and above it.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let factor = a.lu_factor(&runtime)?;
    /// assert_eq!(factor.lu().to_column_major()?, [2.0, 0.0, 8.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lu(&self) -> &TiledMatrix<T> {
        &self.kept.factors.lu
    }

    /// Which rows were swapped.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let factor = a.lu_factor(&runtime)?;
    /// assert_eq!(factor.pivots().rows().collect::<Vec<_>>(), [(0, 1), (1, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pivots(&self) -> &lu::Pivots<T> {
        &self.kept.factors.pivots
    }
}

impl<T: Scalar> fmt::Debug for TiledLuFactor<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.show("TiledLuFactor", f)
    }
}

/// The factors of a matrix, with what of it they do not tell.
struct KeptLu<T: Scalar> {
    factors: Factors<T>,
    /// ‖A‖₁
    norm: f64,
    /// Whether there are solutions.
    solvable: Result<(), LinalgError>,
}

impl<T: Scalar> KeptLu<T> {
    /// Of a matrix in tiles, which is overwritten.
    fn new(a: TiledMatrix<T>, on: &dyn Executor) -> Result<Self, LinalgError> {
        let norm = steps::one_norm(&a, on)?;
        KeptLu::of(Factors::new(a, on)?, norm, on)
    }

    /// Of factors of a matrix that has some 1-norm.
    fn of(factors: Factors<T>, norm: f64, on: &dyn Executor) -> Result<Self, LinalgError> {
        let solvable = match factors.expect_solvable(on) {
            Err(error @ LinalgError::Run(_)) => return Err(error),
            solvable => solvable,
        };
        Ok(KeptLu {
            factors,
            norm,
            solvable,
        })
    }

    /// Of a small array, without a graph.
    fn at_once(a: ArrayView2<'_, T>) -> Result<Self, LinalgError> {
        let tile = whole::finite_tile_of(a.dim(), &NdarrayEntries(a), &heap())?;
        let norm = whole::one_norm(&tile);
        let lu = whole::Lu::of_tile(tile);
        let solvable = expect_square(a.dim()).and_then(|()| lu.expect_regular());
        Ok(KeptLu {
            factors: Factors::of_whole(lu)?,
            norm,
            solvable,
        })
    }

    /// The factors, if there are solutions.
    fn solvable(&self) -> Result<&Factors<T>, LinalgError> {
        self.solvable.clone()?;
        Ok(&self.factors)
    }

    fn condition(&self, on: &dyn Executor) -> Result<f64, LinalgError> {
        let Factors { lu, pivots } = self.solvable()?;
        lu::condition(lu, pivots, self.norm, AUTO, on)
    }

    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("lu", &self.factors.lu)
            .field("solvable", &self.solvable)
            .finish_non_exhaustive()
    }
}

/// P, L and U of a small array, without a graph.
pub(crate) fn parts_at_once<T: Scalar>(a: ArrayView2<'_, T>) -> Result<Lu<T>, LinalgError> {
    let (m, n) = a.dim();
    let (k, lu) = (m.min(n), whole::Lu::of((m, n), &NdarrayEntries(a))?);
    lu.expect_finite()?;
    let (l, u) = (array_of((m, k), lu.l()), array_of((k, n), lu.u()));
    Ok((lu.permutation()?, l, u))
}

/// X of A·X = B for a square matrix, both small, without a graph.
pub(crate) fn solved_by_lu_at_once<T: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
) -> Result<Array2<T>, LinalgError> {
    let lu = whole::Lu::of(a.dim(), &NdarrayEntries(a))?;
    lu.expect_regular()?;
    Ok(array_of(b.dim(), lu.solve(b.ncols(), &NdarrayEntries(b))))
}

/// A⁻¹ of a small square matrix, without a graph.
pub(crate) fn inverted_at_once<T: Scalar>(a: ArrayView2<'_, T>) -> Result<Array2<T>, LinalgError> {
    let lu = whole::Lu::of(a.dim(), &NdarrayEntries(a))?;
    lu.expect_regular()?;
    Ok(array_of(a.dim(), lu.inverse()))
}

/// X of A·X = B for a square matrix, in one graph where there are few workers.
pub(crate) fn solved_by_lu<T: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
) -> Result<Array2<T>, LinalgError> {
    let (_, a) = tiles_of(a)?;
    let site = Site::beside(&a, b.ncols())?;
    let x = site.general(b)?;
    match smaller(&a, &site)? {
        None => steps::solve_by_lu(&a, &x, site.on())?,
        Some(_) => {
            let factors = Factors::in_tiles_of(a, &site)?;
            factors.expect_solvable(site.on())?;
            factors.substitution(Op::NoTranspose, &x)?.run(site.on())?;
        }
    }
    Ok(array(&x))
}

/// A⁻¹ of a square matrix, in one graph where there are few workers.
pub(crate) fn inverted_by_lu<T: Scalar>(a: ArrayView2<'_, T>) -> Result<Array2<T>, LinalgError> {
    let (site, a) = tiles_of(a)?;
    let inverse = match smaller(&a, &site)? {
        None => steps::invert_by_lu(a, site.on())?,
        Some(_) => {
            let factors = Factors::in_tiles_of(a, &site)?;
            factors.expect_solvable(site.on())?;
            steps::invert_with_lu(factors.lu, &factors.pivots, site.on())?
        }
    };
    Ok(array(&inverse))
}

/// A matrix in tiles that suit few workers: what is computed from its factors has the bits of these tiles, on any
/// number of workers. A small one is a single tile, as beside few right-hand sides.
fn tiles_of<T: Scalar>(a: ArrayView2<'_, T>) -> Result<(Site, TiledMatrix<T>), LinalgError> {
    const FEW: usize = 2;
    let (m, n) = a.dim();
    let layout = match is_small(a.dim()) {
        true => Layout::general(m, n, SMALL)?,
        false => lu::default_layout::<T>(m, n, FEW)?,
    };
    let site = Site::with_order(m.max(n), layout.nb())?;
    let tiles = site.tiles(Ok(layout), &NdarrayEntries(a))?;
    Ok((site, tiles))
}

/// How to cut the same for its factorisation, if there are many workers.
fn smaller<T: Scalar>(a: &TiledMatrix<T>, site: &Site) -> Result<Option<Layout>, LinalgError> {
    let layout = lu::default_layout::<T>(a.rows(), a.cols(), site.on().n_workers())?;
    let is_smaller = layout.nb() < a.nb() && !is_small((a.rows(), a.cols()));
    Ok(is_smaller.then_some(layout))
}

/// L\U in tiles, and the rows that were swapped.
pub(crate) struct Factors<T: Scalar> {
    lu: TiledMatrix<T>,
    pivots: lu::Pivots<T>,
}

impl<T: Scalar> Factors<T> {
    /// Of a large array, for whoever wants nothing else: in tiles that suit the workers.
    pub fn of(a: ArrayView2<'_, T>) -> Result<Self, LinalgError> {
        let ((m, n), site) = (a.dim(), Site::of::<T>(a.nrows().max(a.ncols()))?);
        let layout = lu::default_layout::<T>(m, n, site.on().n_workers());
        let tiles = site.tiles(layout, &NdarrayEntries(a))?;
        Factors::new(tiles, site.on())
    }

    /// In the tiles of A. They have the same bits where A was factored in smaller ones.
    fn in_tiles_of(a: TiledMatrix<T>, site: &Site) -> Result<Self, LinalgError> {
        let Some(layout) = smaller(&a, site)? else {
            return Factors::new(a, site.on());
        };
        let small = Factors::new(site.tiles(Ok(layout), &a)?, site.on())?;
        let lu = site.tiles(Ok(*a.layout()), &small.lu)?;
        let rows: Vec<usize> = small.pivots.rows().map(|(_, row)| row).collect();
        let pivots = lu::Pivots::of_rows(&lu, &rows)?;
        Ok(Factors { lu, pivots })
    }

    /// Of what was factored without a graph, on the heap: one tile.
    fn of_whole(lu: whole::Lu<T>) -> Result<Self, LinalgError> {
        let (tile, swaps) = lu.into_parts();
        let lu = in_one_tile(Layout::general(tile.rows(), tile.cols(), SMALL), tile)?;
        let pivots = lu::Pivots::of_rows(&lu, &swaps)?;
        Ok(Factors { lu, pivots })
    }

    /// Of a matrix in tiles, which is overwritten.
    pub fn new(a: TiledMatrix<T>, on: &dyn Executor) -> Result<Self, LinalgError> {
        let pivots = steps::factor_by_lu(&a, on)?;
        Ok(Factors { lu: a, pivots })
    }

    fn expect_solvable(&self, on: &dyn Executor) -> Result<(), LinalgError> {
        expect_square_tiles(&self.lu)?;
        lu::expect_regular(&self.lu, on)
    }

    /// P, L and U, if they are finite.
    pub fn parts(&self) -> Result<Lu<T>, LinalgError> {
        let both = finite(array(&self.lu))?;
        let rows = lu::permutation(both.nrows(), self.pivots.rows())?;
        Ok((rows, l_of(&both), u_of(&both)))
    }

    /// X of op(A)·X = B.
    fn solved(&self, op: Op, b: ArrayView2<'_, T>) -> Result<Array2<T>, LinalgError> {
        expect_rows(b.dim(), self.lu.rows())?;
        if is_small(b.dim())
            && let Some(lu) = self.lu.tile(0, 0)
        {
            let factors = (&*lu, &self.permutation()[..]);
            let x = whole::solve_with_lu(factors, op, b.ncols(), &NdarrayEntries(b));
            return Ok(array_of(b.dim(), x));
        }
        let site = Site::beside(&self.lu, b.ncols())?;
        let x = site.general(b)?;
        self.substitution(op, &x)?.run(site.on())?;
        Ok(array(&x))
    }

    /// B ← X of op(A)·X = B, where both are finite.
    fn solve_in(&self, op: Op, b: &TiledMatrix<T>, on: &dyn Executor) -> Result<(), LinalgError> {
        let solve = self.substitution(op, b)?;
        steps::solve_finite(b, on, || solve.run(on))
    }

    fn substitution<'a>(
        &'a self,
        op: Op,
        b: &'a TiledMatrix<T>,
    ) -> Result<lu::Solve<'a, T>, LinalgError> {
        lu::Solve::new(&self.lu, &self.pivots, op, b, AUTO)
    }

    /// Row `i` of L·U is which one of A; all steps are on this rank.
    fn permutation(&self) -> Vec<usize> {
        let rows = lu::permutation(self.lu.rows(), self.pivots.rows());
        rows.unwrap_or_else(|error| panic!("{error}"))
    }

    fn determinant(&self, on: &dyn Executor) -> Result<Determinant, LinalgError> {
        expect_square_tiles(&self.lu)?;
        let of_u = steps::determinant(&self.lu, on)?;
        Ok(of_u.swapped(steps::is_odd(&self.pivots, on)?.into()))
    }
}

/// L of both factors in one array.
fn l_of<T: Scalar>(both: &Array2<T>) -> Array2<T> {
    let (m, n) = both.dim();
    Array2::from_shape_fn((m, m.min(n)).f(), |(i, j)| match i.cmp(&j) {
        Ordering::Less => T::zero(),
        Ordering::Equal => T::one(),
        Ordering::Greater => both[(i, j)],
    })
}

/// U of both factors in one array.
fn u_of<T: Scalar>(both: &Array2<T>) -> Array2<T> {
    let (m, n) = both.dim();
    Array2::from_shape_fn((m.min(n), n).f(), |(i, j)| match i > j {
        true => T::zero(),
        false => both[(i, j)],
    })
}
