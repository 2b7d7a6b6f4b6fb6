//! The factors Q and R of a matrix, kept: of an array, and of a matrix in tiles.
//!
//! # Law
//! Of a tall matrix A = Q·R is kept. Of a wide one it is Aᴴ = Q·R, the LQ factorisation of A, as
//! LAPACK's `gels` takes it: least squares need no other.

use super::steps::{self, AUTO, alike, options};
use crate::calls::copy::copy;
use crate::calls::site::{
    SMALL, Site, array, array_of, expect_rows, expect_square, finite, heap, in_one_tile, is_small,
    of_columns,
};
use dataflow_core::port::Executor;
use dataflow_linalg::determinant::Determinant;
use dataflow_linalg::kernel::{Op, Side};
use dataflow_linalg::matrix::convert::NdarrayEntries;
use dataflow_linalg::matrix::{Layout, TiledMatrix};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{LinalgError, qr, whole};
use ndarray::{Array, Array2, ArrayBase, ArrayView2, Data, Dimension, ShapeBuilder};
use std::fmt;
use std::sync::OnceLock;

/// Q and R of an array, to solve problems of least squares with as often as there are right-hand
/// sides: [`Dense::qr_factor`](crate::Dense::qr_factor).
///
/// Nothing of it is changed: threads may share one. What takes how long is said for m × n, m ≥ n, and
/// with both exchanged it holds for a wide matrix.
///
/// # Examples
/// ```
/// use dataflow::ndarray::{arr1, array};
/// use dataflow::prelude::*;
///
/// // Lines nearest to points above 0, 1, 2
/// let factor = array![[1.0_f64, 0.0], [1.0, 1.0], [1.0, 2.0]].qr_factor()?;
/// for (heights, line) in [([1.0, 2.0, 6.0], [0.5, 2.5]), ([1.0, 3.0, 5.0], [1.0, 2.0])] {
///     let x = factor.least_squares(&arr1(&heights))?;
///     assert!((x[0] - line[0]).abs() < 1e-14 && (x[1] - line[1]).abs() < 1e-14);
/// }
/// # Ok::<(), dataflow::linalg::LinalgError>(())
/// ```
pub struct QrFactor<T: Scalar> {
    kept: KeptQr<T>,
}

impl<T: Scalar> QrFactor<T> {
    pub(crate) fn new(a: ArrayView2<'_, T>) -> Result<Self, LinalgError> {
        let (m, n) = a.dim();
        if is_small(a.dim()) {
            let kept = KeptQr::at_once(a)?;
            return Ok(QrFactor { kept });
        }
        let site = Site::with_order(m.max(n), qr::default_tile_order::<T>(m, n))?;
        let kept = KeptQr::new(site.general(a)?, site.on())?;
        Ok(QrFactor { kept })
    }

    /// The X that makes ‖B − A·X‖₂ least, for a vector or the columns of a matrix; the shortest of all
    /// solutions if A has more columns than rows. 4·m·n operations for each column.
    ///
    /// The bits are those of [`Dense::least_squares`](crate::Dense::least_squares), except for arrays
    /// that are [tall and skinny](qr::is_tall_and_skinny): those it solves without keeping factors.
    ///
    /// # Errors
    /// If the shapes disagree or B is not finite; [`LinalgError::RankDeficient`] with the rank of A if
    /// it is not full, which the first call finds out (4·n² operations more).
    ///
    /// # Examples
    /// ```
    /// use dataflow::linalg::LinalgError;
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// // The shortest solution of x + y = 2
    /// let x = array![[1.0_f64, 1.0]].qr_factor()?.least_squares(&array![2.0])?;
    /// assert!((x[0] - 1.0).abs() < 1e-15 && (x[1] - 1.0).abs() < 1e-15);
    ///
    /// let twice = array![[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]].qr_factor()?;
    /// let refused = twice.least_squares(&array![1.0, 2.0, 3.0]).unwrap_err();
    /// assert!(matches!(refused, LinalgError::RankDeficient { rank: 1, full: 2, .. }));
    /// # Ok::<(), LinalgError>(())
    /// ```
    pub fn least_squares<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        of_columns(b, |b| self.solved(b))
    }

    /// Solves for the columns of an array.
    pub(crate) fn solved(&self, b: ArrayView2<'_, T>) -> Result<Array2<T>, LinalgError> {
        expect_rows(b.dim(), self.kept.n_equations())?;
        if is_small(b.dim())
            && let Some(x) = self.kept.least_squares_at_once(b)
        {
            return x;
        }
        let site = Site::beside(&self.kept.a, b.ncols())?;
        let b = site.general(b)?;
        Ok(array(&self.kept.least_squares(&b, site.on())?))
    }

    /// X with A·X = B for a square A: what least squares answer, at twice the operations of
    /// [`LuFactor::solve`](crate::LuFactor::solve), without the growth that pivoting bounds.
    ///
    /// # Errors
    /// If A is not square; as [`least_squares`](Self::least_squares).
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let x = array![[3.0_f64, 1.0], [4.0, 2.0]].qr_factor()?.solve(&array![4.0, 6.0])?;
    /// assert!((x[0] - 1.0).abs() < 1e-14 && (x[1] - 1.0).abs() < 1e-14);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn solve<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        self.kept.expect_square()?;
        self.least_squares(b)
    }

    /// A⁻¹ of a square A: [`solve`](Self::solve) of the identity. 3·n³ operations, more than twice those of
    /// [`LuFactor::inverse`](crate::LuFactor::inverse).
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let inverse = array![[0.0, 4.0], [2.0, 8.0]].qr_factor()?.inverse()?;
    /// let expected = array![[-1.0_f64, 0.5], [0.25, 0.0]];
    /// assert!((inverse - expected).iter().all(|off| off.abs() < 1e-15));
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn inverse(&self) -> Result<Array2<T>, LinalgError> {
        self.kept.expect_square()?;
        let n = self.kept.n_equations();
        let identity = Array2::from_shape_fn((n, n).f(), |(i, j)| of_identity(i, j));
        self.solved(identity.view())
    }

    /// The determinant of a square A, as logarithm and phase: it neither overflows nor vanishes. n logarithms;
    /// that of a singular matrix is 0, or as small as rounding leaves it.
    ///
    /// # Errors
    /// If A is not square; [`LinalgError::Overflow`] with the first number of R's diagonal that is not
    /// finite, unless one before it is zero.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let determinant = array![[0.0, 4.0], [2.0, 8.0]].qr_factor()?.determinant()?;
    /// assert!((determinant.log_abs - 8f64.ln()).abs() < 1e-15);
    /// assert_eq!(determinant.phase.re, -1.0);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn determinant(&self) -> Result<Determinant, LinalgError> {
        let site = Site::beside(&self.kept.a, 0)?;
        self.kept.determinant(site.on())
    }

    /// The condition κ₁(A) = ‖A‖₁·‖A⁻¹‖₁ of a square A, estimated as
    /// [`LuFactor::condition`](crate::LuFactor::condition) does, but by twice the operations. A matrix that is
    /// singular but for rounding errors, with which [`solve`](Self::solve) does not solve, has one that is as
    /// large as those leave it.
    ///
    /// # Errors
    /// If A is not square; [`LinalgError::Singular`] with the first number of R's diagonal that is zero,
    /// [`LinalgError::Overflow`] with the first that is not finite.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let condition = array![[0.0, 4.0], [2.0, 8.0]].qr_factor()?.condition()?;
    /// assert!((condition - 15.0).abs() < 1e-13);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn condition(&self) -> Result<f64, LinalgError> {
        let site = Site::beside(&self.kept.a, 1)?;
        self.kept.condition(site.on())
    }

    /// Qᴴ·B of a matrix with at least as many rows as columns, with all m columns of Q: its first n rows
    /// are R·X for the X of [`least_squares`](Self::least_squares), and the rest is as long as B − A·X.
    /// At most 4·m·n operations for each column, without Q itself.
    ///
    /// # Errors
    /// If the shapes disagree or B is not finite; as [`q`](Self::q).
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::{array, s};
    /// use dataflow::prelude::*;
    ///
    /// let a = array![[1.0_f64, 0.0], [1.0, 1.0], [1.0, 2.0]];
    /// let b = array![1.0, 2.0, 6.0];
    /// let factor = a.qr_factor()?;
    /// let (x, turned) = (factor.least_squares(&b)?, factor.q_adjoint_times(&b)?);
    /// let above = factor.r()?.dot(&x) - turned.slice(s![..2]);
    /// assert!(above.iter().all(|rest| rest.abs() < 1e-14));
    /// let left = &b - &a.dot(&x);
    /// assert!((turned[2].abs() - left.dot(&left).sqrt()).abs() < 1e-14);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn q_adjoint_times<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        of_columns(b, |b| {
            let site = Site::beside(&self.kept.a, b.ncols())?;
            let b = site.general(b)?;
            self.kept.q_adjoint_times(&b, site.on())?;
            Ok(array(&b))
        })
    }

    /// Q of a matrix with at least as many rows as columns: m × n, with orthonormal columns.
    /// 2·m·n² operations.
    ///
    /// # Errors
    /// If A has more columns than rows: [`Dense::qr`](crate::Dense::qr) has Q and R of such a matrix.
    /// [`LinalgError::Overflow`] with the first column that is not finite.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let a = array![[3.0_f64, 1.0], [4.0, 2.0], [0.0, 5.0]];
    /// let factor = a.qr_factor()?;
    /// let (q, r) = (factor.q()?, factor.r()?);
    /// assert!((q.dot(&r) - &a).iter().all(|rest| rest.abs() < 1e-14));
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn q(&self) -> Result<Array2<T>, LinalgError> {
        let site = Site::beside(&self.kept.a, 0)?;
        Ok(array(&self.kept.q(site.on())?))
    }

    /// R of a matrix with at least as many rows as columns: n × n, with zeros below the diagonal.
    ///
    /// # Errors
    /// As [`q`](Self::q).
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let r = array![[3.0_f64, 1.0], [4.0, 2.0], [0.0, 5.0]].qr_factor()?.r()?;
    /// assert!((r[(0, 0)].abs() - 5.0).abs() < 1e-14 && r[(1, 0)] == 0.0);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    pub fn r(&self) -> Result<Array2<T>, LinalgError> {
        let site = Site::beside(&self.kept.a, 0)?;
        Ok(array(&self.kept.r(site.on())?))
    }
}

impl<T: Scalar> fmt::Debug for QrFactor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.show("QrFactor", f)
    }
}

/// Q and R of a matrix in tiles, a tall one factored in place:
/// [`Tiled::qr_factor`](crate::Tiled::qr_factor).
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
/// let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| [1.0_f64, i as f64][j]);
/// let factor = a.qr_factor(&runtime)?;
/// let b = TiledMatrix::from_fn(Layout::general(3, 1, 2)?, |i, _| [1.0, 2.0, 6.0][i]);
/// let x = factor.least_squares(&b)?.to_column_major()?;
/// assert!((x[0] - 0.5).abs() < 1e-14 && (x[1] - 2.5).abs() < 1e-14);
/// assert_eq!((factor.q()?.rows(), factor.r()?.rows()), (3, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TiledQrFactor<'r, T: Scalar> {
    kept: KeptQr<T>,
    on: &'r dyn Executor,
}

impl<'r, T: Scalar> TiledQrFactor<'r, T> {
    pub(crate) fn new(a: TiledMatrix<T>, on: &'r dyn Executor) -> Result<Self, LinalgError> {
        let kept = KeptQr::new(a, on)?;
        Ok(TiledQrFactor { kept, on })
    }

    /// The X that makes ‖B − A·X‖₂ least, the shortest of all solutions if A has more columns than
    /// rows. 4·m·n operations for each column; copies B.
    ///
    /// # Errors
    /// As [`QrFactor::least_squares`]; if tile orders or grids disagree.
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
    pub fn least_squares(&self, b: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        let b = copy(b, *b.layout(), self.on)?;
        self.kept.least_squares(&b, self.on)
    }

    /// X with A·X = B for a square A, as [`QrFactor::solve`]; copies B.
    ///
    /// # Errors
    /// If A is not square; as [`least_squares`](Self::least_squares).
    ///
    /// # Examples
    /// ```
    /// use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// use dataflow::prelude::*;
    ///
    /// let runtime = Runtime::builder().threads(2).build()?;
    /// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[3.0_f64, 1.0], [4.0, 2.0]][i][j]);
    /// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [4.0, 6.0][i]);
    /// let x = a.qr_factor(&runtime)?.solve(&b)?.to_column_major()?;
    /// assert!((x[0] - 1.0).abs() < 1e-14 && (x[1] - 1.0).abs() < 1e-14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn solve(&self, b: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        self.kept.expect_square()?;
        self.least_squares(b)
    }

    /// A⁻¹ of a square A, as [`QrFactor::inverse`]; spread like A.
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
    /// let inverse = a.qr_factor(&runtime)?.inverse()?.to_column_major()?;
    /// let off = inverse.iter().zip([-1.0_f64, 0.25, 0.5, 0.0]).map(|(x, expected)| (x - expected).abs());
    /// assert!(off.fold(0.0, f64::max) < 1e-15);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inverse(&self) -> Result<TiledMatrix<T>, LinalgError> {
        self.kept.expect_square()?;
        let a = &self.kept.a;
        let identity = TiledMatrix::beside(*a.layout(), a.memory(), &of_identity, self.on);
        let (identity, _) = identity.map_err(LinalgError::Run)?;
        self.kept.least_squares(&identity, self.on)
    }

    /// The determinant of a square A, the same on every rank; n logarithms, and over ranks two messages from
    /// each to each other.
    ///
    /// # Errors
    /// As [`QrFactor::determinant`]; if the run fails.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let determinant = a.qr_factor(&runtime)?.determinant()?;
    /// assert!((determinant.log_abs - 8f64.ln()).abs() < 1e-15);
    /// assert_eq!(determinant.phase.re, -1.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn determinant(&self) -> Result<Determinant, LinalgError> {
        self.kept.determinant(self.on)
    }

    /// The condition of a square A, as [`QrFactor::condition`]; the same on every rank.
    ///
    /// # Errors
    /// As [`QrFactor::condition`]; if the run fails.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
    /// let condition = a.qr_factor(&runtime)?.condition()?;
    /// assert!((condition - 15.0).abs() < 1e-13);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn condition(&self) -> Result<f64, LinalgError> {
        self.kept.condition(self.on)
    }

    /// Qᴴ·B, as [`QrFactor::q_adjoint_times`]; copies B.
    ///
    /// # Errors
    /// As [`QrFactor::q_adjoint_times`]; if tile orders or grids disagree.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| [1.0_f64, i as f64][j]);
    /// let factor = a.qr_factor(&runtime)?;
    /// let b = TiledMatrix::from_fn(Layout::general(3, 1, 2)?, |i, _| [1.0, 2.0, 6.0][i]);
    /// let turned = factor.q_adjoint_times(&b)?.to_column_major()?;
    /// // The line nearest to the heights 1, 2, 6 is missed by 0.5, −1, 0.5.
    /// assert!((turned[2].abs() - 1.5f64.sqrt()).abs() < 1e-14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn q_adjoint_times(&self, b: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        let b = copy(b, *b.layout(), self.on)?;
        self.kept.q_adjoint_times(&b, self.on)?;
        Ok(b)
    }

    /// Q, as [`QrFactor::q`]; spread like A.
    ///
    /// # Errors
    /// As [`QrFactor::q`]; if the run fails.
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| [1.0_f64, i as f64][j]);
    /// let factor = a.qr_factor(&runtime)?;
    /// let q = factor.q()?;
    /// assert_eq!((q.rows(), q.cols()), (3, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn q(&self) -> Result<TiledMatrix<T>, LinalgError> {
        self.kept.q(self.on)
    }

    /// R, as [`QrFactor::r`]; spread like A.
    ///
    /// # Errors
    /// As [`q`](Self::q).
    ///
    /// # Examples
    /// ```
    /// # use dataflow::linalg::matrix::{Layout, TiledMatrix};
    /// # use dataflow::prelude::*;
    /// # let runtime = Runtime::builder().threads(2).build()?;
    /// # let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| [1.0_f64, i as f64][j]);
    /// let factor = a.qr_factor(&runtime)?;
    /// assert!((factor.r()?.get(0, 0).unwrap().abs() - 3f64.sqrt()).abs() < 1e-14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn r(&self) -> Result<TiledMatrix<T>, LinalgError> {
        self.kept.r(self.on)
    }
}

impl<T: Scalar> fmt::Debug for TiledQrFactor<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.show("TiledQrFactor", f)
    }
}

/// R with reflectors, of A or of Aᴴ.
struct KeptQr<T: Scalar> {
    a: TiledMatrix<T>,
    q: qr::Reflectors<T>,
    /// Whether it is Aᴴ that was factored.
    is_adjoint: bool,
    /// ‖A‖₁, if A is square.
    norm: Option<f64>,
    /// Whether the rank is full, once that was asked for.
    full_rank: OnceLock<Result<(), LinalgError>>,
}

impl<T: Scalar> KeptQr<T> {
    fn new(a: TiledMatrix<T>, on: &dyn Executor) -> Result<Self, LinalgError> {
        a.scan(on)?;
        let is_square = a.rows() == a.cols();
        let norm = is_square.then(|| steps::one_norm(&a, on)).transpose()?;
        let is_adjoint = a.rows() < a.cols();
        let a = match is_adjoint {
            // By the name of A in errors
            true => qr::adjoint(&a, on)?.0.named(a.store().name()),
            false => a,
        };
        let q = steps::factor_by_qr(&a, on)?;
        Ok(KeptQr {
            a,
            q,
            is_adjoint,
            norm,
            full_rank: OnceLock::new(),
        })
    }

    /// The same of a small array, without a graph.
    fn at_once(a: ArrayView2<'_, T>) -> Result<Self, LinalgError> {
        let is_adjoint = a.nrows() < a.ncols();
        let tile = whole::finite_tile_of(a.dim(), &NdarrayEntries(a), &heap())?;
        let norm = a.is_square().then(|| whole::one_norm(&tile));
        let tile = match is_adjoint {
            true => whole::adjoint_of(&tile, &heap()),
            false => tile,
        };
        let (r, v, t) = whole::Qr::of_tile(tile).into_parts();
        let a = in_one_tile(Layout::general(r.rows(), r.cols(), SMALL), r)?;
        let q = qr::Reflectors::of_tile(a.layout(), options(&a), (v, t))?;
        Ok(KeptQr {
            a,
            q,
            is_adjoint,
            norm,
            full_rank: OnceLock::new(),
        })
    }

    /// The nearest, or the shortest, solution for a small B, without a graph, if A is one tile.
    fn least_squares_at_once(
        &self,
        b: ArrayView2<'_, T>,
    ) -> Option<Result<Array2<T>, LinalgError>> {
        let (r, [v, t]) = (self.a.tile(0, 0)?, self.q.tile()?);
        let solved = || {
            let tile = whole::finite_tile_of(b.dim(), &NdarrayEntries(b), &heap())
                .map_err(LinalgError::in_right_hand_sides)?;
            let full = self.full_rank.get_or_init(|| whole::expect_full_rank(&r));
            full.clone()?;
            let x = whole::least_squares_with_qr((&r, &v, &t), self.is_adjoint, tile)?;
            Ok(array_of((self.n_unknowns(), b.ncols()), x))
        };
        Some(solved())
    }

    fn n_unknowns(&self) -> usize {
        match self.is_adjoint {
            true => self.a.rows(),
            false => self.a.cols(),
        }
    }

    /// Rows of A.
    fn n_equations(&self) -> usize {
        match self.is_adjoint {
            true => self.a.cols(),
            false => self.a.rows(),
        }
    }

    /// The nearest, or the shortest, solution; B is overwritten.
    fn least_squares(
        &self,
        b: &TiledMatrix<T>,
        on: &dyn Executor,
    ) -> Result<TiledMatrix<T>, LinalgError> {
        expect_rows((b.rows(), b.cols()), self.n_equations())?;
        b.scan(on).map_err(LinalgError::in_right_hand_sides)?;
        let layout = alike(b, Layout::general(self.n_unknowns(), b.cols(), b.nb()))?;
        let zeros = |_: usize, _: usize| T::zero();
        let x = TiledMatrix::beside(layout, b.memory(), &zeros, on);
        let (x, _) = x.map_err(LinalgError::Run)?;
        self.expect_full_rank(on)?;
        let op = match self.is_adjoint {
            false => Op::NoTranspose,
            true => Op::ConjTranspose,
        };
        qr::solve((&self.a, &self.q), op, (b, &x), AUTO, on)?;
        Ok(x)
    }

    /// Looks once.
    fn expect_full_rank(&self, on: &dyn Executor) -> Result<(), LinalgError> {
        if let Some(known) = self.full_rank.get() {
            return known.clone();
        }
        let found = qr::expect_full_rank(&self.a, options(&self.a), AUTO, on).map(drop);
        match found {
            Err(error @ LinalgError::Run(_)) => Err(error),
            found => self.full_rank.get_or_init(|| found).clone(),
        }
    }

    fn expect_tall(&self) -> Result<(), LinalgError> {
        if !self.is_adjoint {
            return Ok(());
        }
        let (n, m) = (self.a.rows(), self.a.cols());
        Err(LinalgError::Shape(format!(
            "of a matrix of {m} x {n} the adjoint was factored (`qr` answers Q and R of a wide one)"
        )))
    }

    fn expect_square(&self) -> Result<(), LinalgError> {
        expect_square((self.n_equations(), self.n_unknowns()))
    }

    fn determinant(&self, on: &dyn Executor) -> Result<Determinant, LinalgError> {
        self.expect_square()?;
        steps::determinant_by_qr((&self.a, &self.q), on)
    }

    fn condition(&self, on: &dyn Executor) -> Result<f64, LinalgError> {
        self.expect_square()?;
        let norm = self.norm.unwrap_or_else(|| unreachable!("it is square"));
        qr::condition(&self.a, &self.q, norm, AUTO, on)
    }

    /// B ← Qᴴ·B
    fn q_adjoint_times(&self, b: &TiledMatrix<T>, on: &dyn Executor) -> Result<(), LinalgError> {
        self.expect_tall()?;
        expect_rows((b.rows(), b.cols()), self.n_equations())?;
        b.scan(on).map_err(LinalgError::in_right_hand_sides)?;
        let side = (Side::Left, Op::ConjTranspose);
        qr::apply(&self.a, &self.q, side, b, AUTO, on)?;
        steps::expect_finite(b, on)
    }

    fn q(&self, on: &dyn Executor) -> Result<TiledMatrix<T>, LinalgError> {
        self.expect_tall()?;
        steps::form_q((&self.a, &self.q), on)
    }

    fn r(&self, on: &dyn Executor) -> Result<TiledMatrix<T>, LinalgError> {
        self.expect_tall()?;
        steps::triangle(&self.a, on)
    }

    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("a", &self.a)
            .field("is_adjoint", &self.is_adjoint)
            .field("options", &options(&self.a))
            .finish_non_exhaustive()
    }
}

/// Entry (i, j) of I.
fn of_identity<T: Scalar>(i: usize, j: usize) -> T {
    if i == j { T::one() } else { T::zero() }
}

/// Q and R of a small array, without a graph.
pub(crate) fn qr_at_once<T: Scalar>(
    a: ArrayView2<'_, T>,
) -> Result<(Array2<T>, Array2<T>), LinalgError> {
    let (m, n) = a.dim();
    let (k, qr) = (m.min(n), whole::Qr::of((m, n), &NdarrayEntries(a))?);
    let r = finite(array_of((k, n), qr.r()))?;
    Ok((finite(array_of((m, k), qr.q()))?, r))
}

/// The nearest, or the shortest, solution for a small A and a small B, without a graph.
pub(crate) fn least_squares_at_once<T: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
) -> Result<Array2<T>, LinalgError> {
    let (of_a, of_b) = (NdarrayEntries(a), NdarrayEntries(b));
    let x = whole::least_squares(a.dim(), &of_a, b.ncols(), &of_b)?;
    Ok(array_of((a.ncols(), b.ncols()), x))
}
