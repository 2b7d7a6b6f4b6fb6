//! The Cholesky factor L of a Hermitian positive definite matrix, kept: of an array, and of a matrix
//! in tiles.

use super::steps::{self, AUTO, alike};
use crate::calls::copy::copy;
use crate::calls::site::{
    SMALL, Site, array, array_of, array_of_hermitian, expect_rows, finite, heap, in_one_tile,
    is_small, of_columns,
};
use crate::calls::site::{expect_square, expect_square_tiles};
use dataflow_core::port::Executor;
use dataflow_linalg::determinant::Determinant;
use dataflow_linalg::kernel::{Backend, Op, trsm_left};
use dataflow_linalg::matrix::convert::NdarrayEntries;
use dataflow_linalg::matrix::{Format, Layout, Structure, Tile, TiledMatrix};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{LinalgError, cholesky, whole};
use ndarray::{Array, Array2, ArrayBase, ArrayView2, Data, Dimension};
use std::fmt;

/// L with A = L·Lᴴ of an array, to solve with as often as there are right-hand sides:
/// [`Dense::cholesky_factor`](crate::Dense::cholesky_factor).
///
/// Nothing of it is changed: threads may share one. What takes how long is said for order n.
///
/// # Examples
/// ```
/// use dataflow::ndarray::array;
/// use dataflow::prelude::*;
///
/// let factor = array![[4.0, 2.0], [2.0, 10.0]].cholesky_factor()?;
/// for (b, x) in [(array![8.0, 22.0], array![1.0, 2.0]), (array![6.0, 12.0], array![1.0, 1.0])] {
///     assert_eq!(factor.solve(&b)?, x);
/// }
/// # Ok::<(), dataflow::linalg::LinalgError>(())
/// ```
pub struct CholeskyFactor<T: Scalar> {
    kept: KeptCholesky<T>,
}

impl<T: Scalar> CholeskyFactor<T> {
    pub(crate) fn new(a: ArrayView2<'_, T>) -> Result<Self, LinalgError> {
        expect_square(a.dim())?;
        if is_small(a.dim()) {
            let kept = KeptCholesky::at_once(a)?;
            return Ok(CholeskyFactor { kept });
        }
        let (site, l) = tiles_of(a)?;
        let norm = steps::one_norm(&l, site.on())?;
        let l = factored(l, &site)?;
        let kept = KeptCholesky { l, norm };
        Ok(CholeskyFactor { kept })
    }

    /// X with A·X = B, for a vector or the columns of a matrix. 2n² operations for each column.
    ///
    /// The bits are those of [`Dense::solve`](crate::Dense::solve) where that goes by Cholesky.
    ///
    /// # Errors
    /// If the shapes disagree, or B is not finite; [`LinalgError::Overflow`] with the first column of X that
    /// is not.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[4.0, 2.0], [2.0, 10.0]].cholesky_factor()?;
    /// let x = factor.solve(&array![[8.0, 6.0], [22.0, 12.0]])?;
    /// assert_eq!(x, array![[1.0, 1.0], [2.0, 1.0]]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn solve<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        of_columns(b, |b| solved(&self.kept.l, b))
    }

    /// A⁻¹. 2n³/3 operations and a copy of L; for A⁻¹·B take [`solve`](Self::solve).
    ///
    /// # Errors
    /// [`LinalgError::Overflow`] with the first column that is not finite; if the run fails.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[4.0, 2.0], [2.0, 2.0]].cholesky_factor()?;
    /// assert_eq!(factor.inverse()?, array![[0.5, -0.5], [-0.5, 1.0]]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn inverse(&self) -> Result<Array2<T>, LinalgError> {
        let site = Site::beside(&self.kept.l, 0)?;
        let inverse = site.tiles(Ok(*self.kept.l.layout()), &self.kept.l)?;
        steps::invert_with_cholesky(&inverse, site.on())?;
        finite(array_of_hermitian(&inverse, &site)?)
    }

    /// The determinant of A, as logarithm and phase: it neither overflows nor vanishes. n logarithms.
    ///
    /// # Errors
    /// If the run fails.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[4.0_f64, 2.0], [2.0, 10.0]].cholesky_factor()?;
    /// let determinant = factor.determinant()?;
    /// assert!((determinant.log_abs.exp() - 36.0).abs() < 1e-12);
    /// assert_eq!(determinant.phase.re, 1.0);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn determinant(&self) -> Result<Determinant, LinalgError> {
        let site = Site::beside(&self.kept.l, 0)?;
        self.kept.determinant(site.on())
    }

    /// The condition κ₁(A) = ‖A‖₁·‖A⁻¹‖₁, estimated from below, rarely by more than a factor 3: a
    /// solution loses about as many digits as it has. Infinite if ‖A‖₁ is larger than any number. Mostly 4
    /// or 5 solutions.
    ///
    /// # Errors
    /// If the run fails.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[4.0_f64, 2.0], [2.0, 2.0]].cholesky_factor()?;
    /// assert!((factor.condition()? - 9.0).abs() < 1e-13);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn condition(&self) -> Result<f64, LinalgError> {
        let site = Site::beside(&self.kept.l, 1)?;
        self.kept.condition(site.on())
    }

    /// L itself, zeros above the diagonal.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let a = array![[4.0, 2.0], [2.0, 10.0]];
    /// assert_eq!(a.cholesky_factor()?.l(), array![[2.0, 0.0], [1.0, 3.0]]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn l(&self) -> Array2<T> {
        array(&self.kept.l)
    }
}

impl<T: Scalar> fmt::Debug for CholeskyFactor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.show("CholeskyFactor", f)
    }
}

/// L with A = L·Lᴴ of a matrix in tiles, factored in place:
/// [`Tiled::cholesky_factor`](crate::Tiled::cholesky_factor).
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
/// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 0.0], [2.0, 10.0]][i][j]);
/// let factor = a.cholesky_factor(&runtime)?;
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [8.0, 22.0][i]);
/// assert_eq!(factor.solve(&b)?.to_column_major()?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TiledCholeskyFactor<'r, T: Scalar> {
    kept: KeptCholesky<T>,
    on: &'r dyn Executor,
}

impl<'r, T: Scalar> TiledCholeskyFactor<'r, T> {
    pub(crate) fn new(a: TiledMatrix<T>, on: &'r dyn Executor) -> Result<Self, LinalgError> {
        expect_square_tiles(&a)?;
        let l = match a.structure() {
            Structure::Lower => a,
            Structure::General => {
                let lower = alike(&a, Layout::lower(a.rows(), a.nb()))?;
                copy(&a, lower, on)?
            }
        };
        let norm = steps::one_norm(&l, on)?;
        cholesky::factor(&l, AUTO, on)?;
        let kept = KeptCholesky { l, norm };
        Ok(TiledCholeskyFactor { kept, on })
    }

    /// X with A·X = B. 2n² operations for each column; copies B.
    ///
    /// # Errors
    /// If shapes or tile orders disagree, or B is not finite; [`LinalgError::Overflow`] with the first column
    /// of X that is not.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 0.0], [2.0, 10.0]][i][j]);
    /// let factor = a.cholesky_factor(&runtime)?;
    /// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [8.0, 22.0][i]);
    /// assert_eq!(factor.solve(&b)?.to_column_major()?, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn solve(&self, b: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        self.solve_into(copy(b, *b.layout(), self.on)?)
    }

    /// The same in the place of B.
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
    /// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 0.0], [2.0, 10.0]][i][j]);
    /// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [8.0, 22.0][i]);
    /// let x = a.cholesky_factor(&runtime)?.solve_into(b)?;
    /// assert_eq!(x.to_column_major()?, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn solve_into(&self, b: TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        let solve = cholesky::substitution(&self.kept.l, &b, AUTO)?;
        steps::solve_finite(&b, self.on, || solve.run(self.on))?;
        Ok(b)
    }

    /// A⁻¹, stored as [`Structure::Lower`]. 2n³/3 operations and a copy of L.
    ///
    /// # Errors
    /// If the run fails.
    ///
    /// # Examples
    /// ```
    /// use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// use dataflow::prelude::*;
    ///
    /// let runtime = Runtime::builder().threads(2).build()?;
    /// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 0.0], [2.0, 2.0]][i][j]);
    /// let inverse = a.cholesky_factor(&runtime)?.inverse()?;
    /// assert_eq!([inverse.get(0, 0), inverse.get(1, 0)], [Some(0.5), Some(-0.5)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inverse(&self) -> Result<TiledMatrix<T>, LinalgError> {
        let inverse = copy(&self.kept.l, *self.kept.l.layout(), self.on)?;
        steps::invert_with_cholesky(&inverse, self.on)?;
        steps::expect_finite(&inverse, self.on)?;
        Ok(inverse)
    }

    /// The determinant of A, the same on every rank; n logarithms, and over ranks a message from each
    /// to each other.
    ///
    /// # Errors
    /// If the run fails.
    ///
    /// # Examples
    /// ```
    /// use dataflow::linalg::matrix::{Layout, TiledMatrix, generate::Laplacian};
    /// use dataflow::prelude::*;
    ///
    /// let runtime = Runtime::builder().threads(2).build()?;
    /// let laplacian = Laplacian { width: 6, height: 5 };
    /// let a = TiledMatrix::<f64>::from_entries(Layout::lower(30, 8)?, &laplacian);
    /// let determinant = a.cholesky_factor(&runtime)?.determinant()?;
    /// assert!((determinant.log_abs - laplacian.log_det()).abs() < 1e-10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn determinant(&self) -> Result<Determinant, LinalgError> {
        self.kept.determinant(self.on)
    }

    /// The condition, as [`CholeskyFactor::condition`]; the same on every rank.
    ///
    /// # Errors
    /// If the run fails.
    ///
    /// # Examples
    /// ```
    /// use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// use dataflow::prelude::*;
    ///
    /// let runtime = Runtime::builder().threads(2).build()?;
    /// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 0.0], [2.0, 2.0]][i][j]);
    /// let condition: f64 = a.cholesky_factor(&runtime)?.condition()?;
    /// assert!((condition - 9.0).abs() < 1e-13);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn condition(&self) -> Result<f64, LinalgError> {
        self.kept.condition(self.on)
    }

    /// L, stored as [`Structure::Lower`].
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 0.0], [2.0, 10.0]][i][j]);
    /// let factor = a.cholesky_factor(&runtime)?;
    /// assert_eq!(factor.l().to_column_major()?, [2.0, 1.0, 0.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn l(&self) -> &TiledMatrix<T> {
        &self.kept.l
    }
}

impl<T: Scalar> fmt::Debug for TiledCholeskyFactor<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.show("TiledCholeskyFactor", f)
    }
}

/// What is kept, of an array or of a matrix in tiles.
struct KeptCholesky<T: Scalar> {
    l: TiledMatrix<T>,
    /// ‖A‖₁
    norm: f64,
}

impl<T: Scalar> KeptCholesky<T> {
    /// Of a small array, without a graph.
    fn at_once(a: ArrayView2<'_, T>) -> Result<Self, LinalgError> {
        let tile = whole::tile_of(a.dim(), &NdarrayEntries(a), &heap());
        let norm = whole::one_norm_of_hermitian(&tile);
        let l = l_in_one_tile(a)?;
        Ok(KeptCholesky { l, norm })
    }

    fn determinant(&self, on: &dyn Executor) -> Result<Determinant, LinalgError> {
        Ok(steps::determinant(&self.l, on)?.of_square())
    }

    fn condition(&self, on: &dyn Executor) -> Result<f64, LinalgError> {
        cholesky::condition(&self.l, self.norm, AUTO, on)
    }

    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("l", &self.l)
            .finish_non_exhaustive()
    }
}

/// X of L·Lᴴ·X = B.
fn solved<T: Scalar>(l: &TiledMatrix<T>, b: ArrayView2<'_, T>) -> Result<Array2<T>, LinalgError> {
    expect_rows(b.dim(), l.rows())?;
    if is_small(b.dim())
        && let Some(l) = l.tile(0, 0)
    {
        return Ok(solved_by_tile(&l, b));
    }
    let site = Site::beside(l, b.ncols())?;
    let x = site.general(b)?;
    cholesky::solve(l, &x, AUTO, site.on())?;
    Ok(array(&x))
}

/// X of A·X = B for a definite matrix; of a large one in one graph.
pub(crate) fn solved_definite<T: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
) -> Result<Array2<T>, LinalgError> {
    if is_small(a.dim()) {
        return solved(&l_in_one_tile(a)?, b);
    }
    let (site, l) = tiles_of(a)?;
    let x = site.general(b)?;
    match smaller(&l, &site)? {
        None => cholesky::factor_and_solve(&l, &x, AUTO, site.on())?,
        Some(_) => cholesky::solve(&factored(l, &site)?, &x, AUTO, site.on())?,
    };
    Ok(array(&x))
}

/// A⁻¹ of a definite matrix, in one graph where there are few workers.
pub(crate) fn inverted_definite<T: Scalar>(a: ArrayView2<'_, T>) -> Result<Array2<T>, LinalgError> {
    let (site, a) = tiles_of(a)?;
    let inverse = match smaller(&a, &site)? {
        None => {
            cholesky::inverse(&a, AUTO, site.on())?;
            a
        }
        Some(_) => {
            let inverse = factored(a, &site)?;
            steps::invert_with_cholesky(&inverse, site.on())?;
            inverse
        }
    };
    array_of_hermitian(&inverse, &site)
}

/// L of a large definite matrix, for whoever wants nothing else: in tiles that suit the workers.
pub(crate) fn factor_alone<T: Scalar>(a: ArrayView2<'_, T>) -> Result<TiledMatrix<T>, LinalgError> {
    let site = Site::of::<T>(a.nrows())?;
    let layout = cholesky::default_layout::<T>(a.nrows(), site.on().n_workers());
    let l = site.tiles(layout, &NdarrayEntries(a))?;
    cholesky::factor(&l, AUTO, site.on())?;
    Ok(l)
}

/// A large definite matrix in tiles that suit few workers: what is computed from L has the bits of these
/// tiles, on any number of workers.
fn tiles_of<T: Scalar>(a: ArrayView2<'_, T>) -> Result<(Site, TiledMatrix<T>), LinalgError> {
    const FEW: usize = 2;
    expect_square(a.dim())?;
    let layout = cholesky::default_layout::<T>(a.nrows(), FEW)?;
    let site = Site::with_order(a.nrows(), layout.nb())?;
    let tiles = site.tiles(Ok(layout), &NdarrayEntries(a))?;
    Ok((site, tiles))
}

/// How to cut the same for its factorisation, if there are many workers.
fn smaller<T: Scalar>(a: &TiledMatrix<T>, site: &Site) -> Result<Option<Layout>, LinalgError> {
    let layout = cholesky::default_layout::<T>(a.rows(), site.on().n_workers())?;
    Ok((layout.nb() < a.nb()).then_some(layout))
}

/// L in the tiles of A. It has the same bits where it was factored in smaller ones.
fn factored<T: Scalar>(a: TiledMatrix<T>, site: &Site) -> Result<TiledMatrix<T>, LinalgError> {
    let Some(layout) = smaller(&a, site)? else {
        cholesky::factor(&a, AUTO, site.on())?;
        return Ok(a);
    };
    let small = site.tiles(Ok(layout), &a)?;
    cholesky::factor(&small, AUTO, site.on())?;
    site.tiles(Ok(*a.layout()), &small)
}

/// A⁻¹ of a small matrix, without a graph. `None` if it is not definite.
pub(crate) fn inverted_definite_at_once<T: Scalar>(a: ArrayView2<'_, T>) -> Option<Array2<T>> {
    let inverse = whole::invert_definite(a.nrows(), &NdarrayEntries(a))?;
    Some(array_of(a.dim(), inverse))
}

/// X of A·X = B, both small, without a graph. `None` if A is not definite.
pub(crate) fn solved_definite_at_once<T: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
) -> Option<Array2<T>> {
    let (of_a, of_b) = (NdarrayEntries(a), NdarrayEntries(b));
    let x = whole::solve_definite(a.nrows(), &of_a, b.ncols(), &of_b)?;
    Some(array_of(b.dim(), x))
}

/// L of a small square matrix, column-major, without a graph.
pub(crate) fn factor_at_once<T: Scalar>(a: ArrayView2<'_, T>) -> Result<Vec<T>, LinalgError> {
    whole::factor_definite(a.nrows(), &NdarrayEntries(a))
}

/// The same as the only tile of a matrix.
fn l_in_one_tile<T: Scalar>(a: ArrayView2<'_, T>) -> Result<TiledMatrix<T>, LinalgError> {
    let (n, l) = (a.nrows(), factor_at_once(a)?);
    let mut tile = Tile::new(n, n, Format::ColumnMajor, &heap());
    tile.as_mut_slice().copy_from_slice(&l);
    in_one_tile(Layout::lower(n, SMALL), tile)
}

/// X of L·Lᴴ·X = B, both small: no graph for two calls of a kernel.
fn solved_by_tile<T: Scalar>(l: &Tile<T>, b: ArrayView2<'_, T>) -> Array2<T> {
    let mut x = whole::tile_of(b.dim(), &NdarrayEntries(b), &heap());
    trsm_left(Backend::Auto, l, Op::NoTranspose, &mut x);
    trsm_left(Backend::Auto, l, Op::ConjTranspose, &mut x);
    array_of(b.dim(), x.as_slice().to_vec())
}
