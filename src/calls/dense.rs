//! Dense: the calls for programs that want an answer, not a graph, on ndarray's arrays.
//!
//! # Law
//! Small problems are one tile on the calling thread: no thread is started or woken. Decompositions,
//! solutions, least squares and inverses run their kernels one after the other without a graph
//! ([`whole`](crate::linalg::whole)); norms, conditions, ranks, Q and R of kept factors, and what is made with
//! ranks, are graphs of one tile on [`Inline`](dataflow_core::port::Inline). Larger ones are graphs on
//! [`Runtime::shared`](crate::Runtime::shared). How the matrix is cut depends on its shape
//! and kind of number alone, and so do the bits of the answer.
//!
//! # Elsewhere
//! Factors that are kept: [`factored`](crate::calls::factored). Arrays into tiles and back:
//! [`site`](crate::calls::site).
//! The same calls on tiled matrices, with a runtime of one's own and over ranks: [`Tiled`](crate::Tiled).
//! In place, from files: [`linalg`](crate::linalg).

use crate::Runtime;
use crate::calls::factored::steps::AUTO;
use crate::calls::factored::{self, CholeskyFactor, Factors, Lu, LuFactor, QrFactor, steps};
use crate::calls::site::{
    Site, array, array_of, expect_rows, expect_square, expect_square_system, finite, is_small,
    of_columns,
};
use dataflow_linalg::LinalgError;
use dataflow_linalg::matrix::TiledMatrix;
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{product, qr};
use ndarray::{Array, Array2, ArrayBase, ArrayView2, Data, Dimension, Ix2};

/// Linear algebra on an array of any memory order and strides; nothing is changed in place, results
/// are column-major.
///
/// # Examples
/// ```
/// use dataflow::ndarray::array;
/// use dataflow::prelude::*;
///
/// let a = array![[4.0_f64, 2.0], [2.0, 10.0]];
/// let x = a.solve(&array![8.0, 22.0])?;
/// assert_eq!(x, array![1.0, 2.0]);
/// assert_eq!(a.cholesky()?, array![[2.0, 0.0], [1.0, 3.0]]);
/// assert_eq!(a.dot_tiled(&a)?, array![[20.0, 28.0], [28.0, 104.0]]);
/// let unit = a.dot_tiled(&a.inverse()?)?;
/// assert!((unit[(0, 0)] - 1.0).abs() < 1e-15 && unit[(0, 1)].abs() < 1e-15);
/// # Ok::<(), dataflow::linalg::LinalgError>(())
/// ```
/// With workers of one's own, or watched by a [`Monitor`](crate::Monitor), the array is put into tiles
/// and [`Tiled`](crate::Tiled) has the same calls:
/// ```
/// use dataflow::linalg::cholesky::default_tile_order;
/// use dataflow::linalg::matrix::{Layout, TiledMatrix};
/// use dataflow::{Monitor, prelude::*};
/// use dataflow::ndarray::{Array2, array};
///
/// let (a, b) = (array![[4.0, 2.0], [2.0, 10.0]], array![[8.0], [22.0]]);
/// let nb = default_tile_order::<f64>(2);
/// let a = TiledMatrix::from_ndarray(Layout::general(2, 2, nb)?, a.view())?;
/// let b = TiledMatrix::from_ndarray(Layout::general(2, 1, nb)?, b.view())?;
///
/// let (runtime, monitor) = (Runtime::builder().threads(2).build()?, Monitor::new());
/// let x: Array2<f64> = a.solve(&b, &runtime.watched_by(&monitor))?.to_ndarray()?;
/// assert_eq!(x, array![[1.0], [2.0]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Dense<T: Scalar> {
    /// L with A = L·Lᴴ, zeros above the diagonal. Only the lower triangle of A is read.
    ///
    /// # Errors
    /// If A is not square, not finite or not positive definite; then the index is LAPACK's INFO.
    fn cholesky(&self) -> Result<Array2<T>, LinalgError>;

    /// L, kept to solve with as often as there are right-hand sides, for the inverse, the determinant
    /// and the condition. Only the lower triangle of A is read; n³/3 operations.
    ///
    /// # Errors
    /// As [`cholesky`](Self::cholesky).
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[4.0, 2.0], [2.0, 10.0]].cholesky_factor()?;
    /// assert_eq!(factor.solve(&array![8.0, 22.0])?, array![1.0, 2.0]);
    /// assert_eq!(factor.solve(&array![6.0, 12.0])?, array![1.0, 1.0]);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn cholesky_factor(&self) -> Result<CholeskyFactor<T>, LinalgError>;

    /// X with A·X = B, for a vector or the columns of a matrix. For many B one after the other:
    /// [`cholesky_factor`](Self::cholesky_factor), [`lu_factor`](Self::lu_factor).
    ///
    /// If A is Hermitian to the bit with a positive diagonal, Cholesky is tried first; if A is not
    /// positive definite after all, and otherwise, LU with partial pivoting solves.
    ///
    /// # Errors
    /// If the shapes disagree, A is not square or singular, A or B is not finite;
    /// [`LinalgError::Overflow`] with the first pivot of LU, or the first column of X, that is not finite.
    fn solve<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError>;

    /// P, L and U of the factorisation with partial pivoting, for any shape: row `i` of L·U is row
    /// `p[i]` of A.
    ///
    /// L is m × k and unit lower triangular, U k × n and upper triangular, k = min(m, n). A singular
    /// matrix has factors, too: there are zeros on the diagonal of U.
    ///
    /// # Errors
    /// If A is not finite; [`LinalgError::Overflow`] with the first column of L and U that is not.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::{Axis, array};
    /// use dataflow::prelude::*;
    ///
    /// let a = array![[0.0, 3.0, 1.0], [2.0, 4.0, 6.0]];
    /// let (p, l, u) = a.lu()?;
    /// assert_eq!(p, [1, 0]);
    /// assert_eq!(l, array![[1.0, 0.0], [0.0, 1.0]]);
    /// assert_eq!(a.select(Axis(0), &p), l.dot(&u));
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn lu(&self) -> Result<Lu<T>, LinalgError>;

    /// P, L and U, kept to solve with as often as there are right-hand sides, for the inverse, the
    /// determinant and the condition. 2n³/3 operations.
    ///
    /// # Errors
    /// If A is not finite. A singular matrix has factors, and so has one whose U overflows: solving with
    /// them is an error.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[0.0, 4.0], [2.0, 8.0]].lu_factor()?;
    /// assert_eq!(factor.solve(&array![4.0, 10.0])?, array![1.0, 1.0]);
    /// assert_eq!(factor.determinant()?.phase.re, -1.0);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn lu_factor(&self) -> Result<LuFactor<T>, LinalgError>;

    /// Q and R with A = Q·R, for any shape: Q is m × k with orthonormal columns, R k × n and upper
    /// triangular, k = min(m, n).
    ///
    /// # Errors
    /// If A is not finite; [`LinalgError::Overflow`] with the first column of R that is not, or of Q if
    /// R is.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let a = array![[3.0_f64, 1.0], [4.0, 2.0], [0.0, 5.0]];
    /// let (q, r) = a.qr()?;
    /// assert_eq!((q.dim(), r.dim()), ((3, 2), (2, 2)));
    /// assert!((q.dot(&r) - &a).iter().all(|rest| rest.abs() < 1e-14));
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn qr(&self) -> Result<(Array2<T>, Array2<T>), LinalgError>;

    /// Q and R, kept to solve problems of least squares with as often as there are right-hand sides.
    /// 2·n²·(m − n/3) operations, of a wide matrix with both exchanged.
    ///
    /// # Errors
    /// If A is not finite. A matrix that has not full rank has factors, and so has one whose R overflows:
    /// solving with them is an error.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let factor = array![[1.0_f64, 0.0], [1.0, 1.0], [1.0, 2.0]].qr_factor()?;
    /// let x = factor.least_squares(&array![1.0, 2.0, 6.0])?;
    /// assert!((x[0] - 0.5).abs() < 1e-14 && (x[1] - 2.5).abs() < 1e-14);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn qr_factor(&self) -> Result<QrFactor<T>, LinalgError>;

    /// The X that makes ‖B − A·X‖₂ least, for a vector or the columns of a matrix; the shortest of
    /// all solutions if A has more columns than rows. By QR; A must have full rank.
    ///
    /// An array with few columns and very many rows ([`qr::is_tall_and_skinny`]) is read once and not
    /// copied.
    ///
    /// # Errors
    /// If the shapes disagree, A or B is not finite; [`LinalgError::RankDeficient`] with the rank of A
    /// if it is not full.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// // The line nearest to (0, 1), (1, 2), (2, 6)
    /// let a = array![[1.0_f64, 0.0], [1.0, 1.0], [1.0, 2.0]];
    /// let x = a.least_squares(&array![1.0, 2.0, 6.0])?;
    /// assert!((x[0] - 0.5).abs() < 1e-14 && (x[1] - 2.5).abs() < 1e-14);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn least_squares<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
    ) -> Result<Array<T, D>, LinalgError>;

    /// The shortest of the X that make ‖B − A·X‖₂ least, whatever the rank of A; and that rank.
    ///
    /// By QR with column pivoting. Columns of A count as long as those before and they have, the
    /// strongest first, a condition of at most 1/`rcond`; by default rcond is max(m, n)·2ε, at most ⁴√ε
    /// ([`qr::default_rcond`]), so that only rounding errors are taken for zero.
    ///
    /// # Errors
    /// If the shapes disagree, A or B is not finite, or `rcond` is negative or not below 1.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// // Both unknowns enter as their sum: half of it each is the shortest solution.
    /// let a = array![[1.0_f64, 1.0], [1.0, 1.0], [1.0, 1.0]];
    /// let (x, rank) = a.least_squares_minimum_norm(&array![1.0, 2.0, 3.0], None)?;
    /// assert_eq!(rank, 1);
    /// assert!((x[0] - 1.0).abs() < 1e-14 && (x[1] - 1.0).abs() < 1e-14);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn least_squares_minimum_norm<S: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<S, D>,
        rcond: Option<f64>,
    ) -> Result<(Array<T, D>, usize), LinalgError>;

    /// How many columns of A are independent, with `rcond` as for
    /// [`least_squares_minimum_norm`](Self::least_squares_minimum_norm).
    ///
    /// # Errors
    /// If A is not finite, or `rcond` is negative or not below 1; [`LinalgError::Overflow`] with the first
    /// column of R that is not finite, in the order in which columns are taken.
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// assert_eq!(array![[1.0, 2.0], [2.0, 4.0]].numerical_rank(None)?, 1);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn numerical_rank(&self, rcond: Option<f64>) -> Result<usize, LinalgError>;

    /// A⁺, the pseudo-inverse (Moore and Penrose): the shortest least-squares solutions for the unit
    /// vectors. With `rcond` and errors as [`numerical_rank`](Self::numerical_rank).
    ///
    /// # Errors
    /// As [`numerical_rank`](Self::numerical_rank).
    ///
    /// # Examples
    /// ```
    /// use dataflow::ndarray::array;
    /// use dataflow::prelude::*;
    ///
    /// let p = array![[1.0_f64, 1.0], [1.0, 1.0]].pseudo_inverse(None)?;
    /// assert!(p.iter().all(|entry| (entry - 0.25).abs() < 1e-15));
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn pseudo_inverse(&self, rcond: Option<f64>) -> Result<Array2<T>, LinalgError>;

    /// A⁻¹, by the decomposition that [`solve`](Self::solve) takes.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    fn inverse(&self) -> Result<Array2<T>, LinalgError>;

    /// A·B, in parallel.
    ///
    /// # Errors
    /// If the shapes disagree.
    fn dot_tiled<S: Data<Elem = T>>(&self, b: &ArrayBase<S, Ix2>)
    -> Result<Array2<T>, LinalgError>;
}

impl<T: Scalar, S: Data<Elem = T>> Dense<T> for ArrayBase<S, Ix2> {
    fn cholesky(&self) -> Result<Array2<T>, LinalgError> {
        expect_square(self.dim())?;
        if is_small(self.dim()) {
            let l = factored::factor_at_once(self.view())?;
            return Ok(array_of(self.dim(), l));
        }
        Ok(array(&factored::factor_alone(self.view())?))
    }

    fn cholesky_factor(&self) -> Result<CholeskyFactor<T>, LinalgError> {
        CholeskyFactor::new(self.view())
    }

    fn solve<R: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<R, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        of_columns(b, |b| solve(self.view(), b))
    }

    fn lu(&self) -> Result<Lu<T>, LinalgError> {
        match is_small(self.dim()) {
            true => factored::parts_at_once(self.view()),
            false => Factors::of(self.view())?.parts(),
        }
    }

    fn lu_factor(&self) -> Result<LuFactor<T>, LinalgError> {
        LuFactor::new(self.view())
    }

    fn qr(&self) -> Result<(Array2<T>, Array2<T>), LinalgError> {
        let (m, n) = self.dim();
        if is_small((m, n)) {
            return factored::qr_at_once(self.view());
        }
        let site = Site::with_order(m.max(n), qr::default_tile_order::<T>(m, n))?;
        let (q, r) = steps::qr(&site.general(self.view())?, site.on())?;
        Ok((array(&q), array(&r)))
    }

    fn qr_factor(&self) -> Result<QrFactor<T>, LinalgError> {
        QrFactor::new(self.view())
    }

    fn least_squares<R: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<R, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        of_columns(b, |b| {
            let (m, n) = self.dim();
            expect_rows(b.dim(), m)?;
            if is_small((m, n)) && is_small(b.dim()) {
                return factored::least_squares_at_once(self.view(), b);
            }
            if qr::is_tall_and_skinny(m, n) {
                let runtime = Runtime::shared().map_err(LinalgError::Run)?;
                return Ok(qr::tall_least_squares(self.view(), b, AUTO, runtime)?.0);
            }
            if is_small((m, n)) {
                return QrFactor::new(self.view())?.solved(b);
            }
            let (site, a, b) = sides(self.view(), b)?;
            Ok(array(&steps::least_squares((&a, &b), site.on())?))
        })
    }

    fn least_squares_minimum_norm<R: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<R, D>,
        rcond: Option<f64>,
    ) -> Result<(Array<T, D>, usize), LinalgError> {
        let mut rank = 0;
        let x = of_columns(b, |b| {
            let (site, a, b) = sides(self.view(), b)?;
            let (x, found) = steps::least_squares_minimum_norm((&a, &b), rcond, site.on())?;
            rank = found;
            Ok(array(&x))
        })?;
        Ok((x, rank))
    }

    fn numerical_rank(&self, rcond: Option<f64>) -> Result<usize, LinalgError> {
        let (m, n) = self.dim();
        let site = Site::with_order(m.max(n), qr::default_tile_order::<T>(m, n))?;
        steps::rank(&site.general(self.view())?, rcond, site.on())
    }

    fn pseudo_inverse(&self, rcond: Option<f64>) -> Result<Array2<T>, LinalgError> {
        let (m, n) = self.dim();
        let site = Site::with_order(m.max(n), qr::default_tile_order::<T>(m, n))?;
        let inverse = steps::pseudo_inverse(&site.general(self.view())?, rcond, site.on())?;
        Ok(array(&inverse))
    }

    fn inverse(&self) -> Result<Array2<T>, LinalgError> {
        finite(inverted(self.view())?)
    }

    fn dot_tiled<R: Data<Elem = T>>(
        &self,
        b: &ArrayBase<R, Ix2>,
    ) -> Result<Array2<T>, LinalgError> {
        let ((m, k), (l, n)) = (self.dim(), b.dim());
        product::expect_product((m, k), (l, n))?;
        let site = Site::of::<T>(m.max(n).max(k).max(l))?;
        let (a, b) = (site.general(self.view())?, site.general(b.view())?);
        let c = site.zeros((m, n))?;
        steps::multiply((&a, &b), &c, site.on())?;
        Ok(array(&c))
    }
}

/// Whether a square array is its own adjoint to the bit, with a positive diagonal.
fn is_definite_at_a_glance<T: Scalar>(a: ArrayView2<'_, T>) -> bool {
    let is_positive = |i: usize| a[(i, i)].re() > 0.0 && a[(i, i)].im() == 0.0;
    if !a.is_square() || !(0..a.nrows()).all(is_positive) {
        return false;
    }
    // In the order of memory: what is Hermitian is so transposed, too.
    match a.to_slice().or_else(|| a.reversed_axes().to_slice()) {
        Some(elements) => is_hermitian(elements, a.nrows()),
        None => {
            let mut pairs = (0..a.nrows()).flat_map(|i| (0..i).map(move |j| (i, j)));
            pairs.all(|(i, j)| a[(i, j)] == a[(j, i)].conj())
        }
    }
}

/// Whether each entry is the conjugate of its mirror; some columns at a time, of which the mirrors lie
/// side by side.
fn is_hermitian<T: Scalar>(elements: &[T], n: usize) -> bool {
    const SIDE: usize = 8;
    let column = |j: usize| &elements[j * n..][..n];
    (0..n).step_by(SIDE).all(|left| {
        if n - left < SIDE {
            let mut pairs = (left..n).flat_map(|i| (left..i).map(move |j| (i, j)));
            return pairs.all(|(i, j)| column(j)[i] == column(i)[j].conj());
        }
        let columns: [&[T]; SIDE] = std::array::from_fn(|k| column(left + k));
        // On the diagonal itself imaginary parts are known to be zero.
        (left..n).all(|i| {
            let mirrors = &column(i)[left..][..SIDE];
            let pairs = columns.iter().zip(mirrors);
            pairs.fold(true, |all, (column, mirror)| {
                all & (column[i] == mirror.conj())
            })
        })
    })
}

/// X of A·X = B: by Cholesky if A looks definite and is, by LU otherwise.
fn solve<T: Scalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Result<Array2<T>, LinalgError> {
    expect_square_system(a.dim())?;
    expect_rows(b.dim(), a.nrows())?;
    let is_definite = is_definite_at_a_glance(a);
    if is_small(a.dim()) && is_small(b.dim()) {
        let x = is_definite.then(|| factored::solved_definite_at_once(a, b));
        return x
            .flatten()
            .map_or_else(|| factored::solved_by_lu_at_once(a, b), Ok);
    }
    if is_definite {
        match factored::solved_definite(a, b) {
            Err(LinalgError::NotPositiveDefinite { .. }) => {}
            answer => return answer,
        }
    }
    factored::solved_by_lu(a, b)
}

/// A⁻¹: by Cholesky if A looks definite and is, by LU otherwise.
fn inverted<T: Scalar>(a: ArrayView2<'_, T>) -> Result<Array2<T>, LinalgError> {
    expect_square(a.dim())?;
    let is_definite = is_definite_at_a_glance(a);
    if is_small(a.dim()) {
        let inverse = is_definite.then(|| factored::inverted_definite_at_once(a));
        return inverse
            .flatten()
            .map_or_else(|| factored::inverted_at_once(a), Ok);
    }
    if is_definite {
        match factored::inverted_definite(a) {
            Err(LinalgError::NotPositiveDefinite { .. }) => {}
            answer => return answer,
        }
    }
    factored::inverted_by_lu(a)
}

/// Both sides of a problem of least squares in tiles, and where it is worked on.
fn sides<T: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
) -> Result<(Site, TiledMatrix<T>, TiledMatrix<T>), LinalgError> {
    let (m, n) = a.dim();
    expect_rows(b.dim(), m)?;
    let site = Site::with_order(m.max(n), qr::default_tile_order::<T>(m, n))?;
    let a = site.general(a)?;
    let site = Site::beside(&a, b.ncols())?;
    let b = site.general(b)?;
    Ok((site, a, b))
}
