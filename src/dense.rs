//! Dense: the calls for whoever wants an answer, not a graph, on ndarray's arrays.
//!
//! # Law
//! Small problems are one tile on the calling thread: no thread is started or woken. Larger ones are
//! graphs on [`Runtime::shared`]. Which it is, and how the matrix is cut, depends on its shape and
//! kind of number alone, and so do the bits of the answer.
//!
//! # Elsewhere
//! The same calls on tiled matrices, with a runtime of one's own and over ranks: [`Tiled`](crate::Tiled).
//! In place, from files: [`linalg`](crate::linalg).

use crate::Runtime;
use crate::tiled::{AUTO, expect_square, factor_lu, form_qr, options, solve_by_lu};
use dataflow_core::port::{Executor, Heap, Inline, Memory};
use dataflow_linalg::LinalgError;
use dataflow_linalg::kernel::{LARGEST_WHOLE, Op, potrf_whole, trsm_left};
use dataflow_linalg::matrix::convert::NdarrayEntries;
use dataflow_linalg::matrix::{Entries, Format, Layout, LayoutError, Tile, TiledMatrix};
use dataflow_linalg::product::{Operand, gemm};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{cholesky, lu, qr};
use ndarray::{Array, Array2, ArrayBase, ArrayView2, Axis, Data, Dimension, Ix2, ShapeBuilder};
use std::cmp::Ordering;
use std::sync::Arc;

/// Up to this extent a problem is one tile.
const SMALL: usize = LARGEST_WHOLE;

/// What [`Dense::lu`] answers: the order of rows P, then L and U.
pub type Lu<T> = (Vec<usize>, Array2<T>, Array2<T>);

/// Linear algebra on an array of any memory order and strides; nothing is changed in place, results
/// are column-major.
///
/// # Examples
/// ```
/// use dataflow::prelude::*;
/// use ndarray::array;
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
pub trait Dense<T: Scalar> {
    /// L with A = L·Lᴴ, zeros above the diagonal. Only the lower triangle of A is read.
    ///
    /// # Errors
    /// If A is not square, not finite or not positive definite; then the index is LAPACK's INFO.
    fn cholesky(&self) -> Result<Array2<T>, LinalgError>;

    /// X with A·X = B, for a vector or the columns of a matrix.
    ///
    /// If A is Hermitian to the bit with a positive diagonal, Cholesky is tried first; if A is not
    /// positive definite after all, and otherwise, LU with partial pivoting solves.
    ///
    /// # Errors
    /// If the shapes disagree, A is not square, not finite or singular.
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
    /// If A is not finite.
    ///
    /// # Examples
    /// ```
    /// use dataflow::prelude::*;
    /// use ndarray::{Axis, array};
    ///
    /// let a = array![[0.0, 3.0, 1.0], [2.0, 4.0, 6.0]];
    /// let (p, l, u) = a.lu()?;
    /// assert_eq!(p, [1, 0]);
    /// assert_eq!(l, array![[1.0, 0.0], [0.0, 1.0]]);
    /// assert_eq!(a.select(Axis(0), &p), l.dot(&u));
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn lu(&self) -> Result<Lu<T>, LinalgError>;

    /// Q and R with A = Q·R, for any shape: Q is m × k with orthonormal columns, R k × n and upper
    /// triangular, k = min(m, n).
    ///
    /// # Errors
    /// If A is not finite.
    ///
    /// # Examples
    /// ```
    /// use dataflow::prelude::*;
    /// use ndarray::array;
    ///
    /// let a = array![[3.0_f64, 1.0], [4.0, 2.0], [0.0, 5.0]];
    /// let (q, r) = a.qr()?;
    /// assert_eq!((q.dim(), r.dim()), ((3, 2), (2, 2)));
    /// assert!((q.dot(&r) - &a).iter().all(|rest| rest.abs() < 1e-14));
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn qr(&self) -> Result<(Array2<T>, Array2<T>), LinalgError>;

    /// The X that makes ‖B − A·X‖₂ least, for a vector or the columns of a matrix; the shortest of
    /// all solutions if A has more columns than rows. By QR; A must have full rank.
    ///
    /// # Errors
    /// If the shapes disagree, A or B is not finite; [`LinalgError::RankDeficient`] with the rank of A
    /// if it is not full.
    ///
    /// # Examples
    /// ```
    /// use dataflow::prelude::*;
    /// use ndarray::array;
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
    /// strongest first, a condition of at most 1/`rcond`; by default rcond is max(m, n)·2ε
    /// ([`qr::default_rcond`]), so that only rounding errors are taken for zero.
    ///
    /// # Errors
    /// If the shapes disagree, A or B is not finite, or `rcond` is negative or not below 1.
    ///
    /// # Examples
    /// ```
    /// use dataflow::prelude::*;
    /// use ndarray::array;
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
    /// If A is not finite, or `rcond` is negative or not below 1.
    ///
    /// # Examples
    /// ```
    /// use dataflow::prelude::*;
    /// use ndarray::array;
    ///
    /// assert_eq!(array![[1.0, 2.0], [2.0, 4.0]].rank(None)?, 1);
    /// # Ok::<(), dataflow::linalg::LinalgError>(())
    /// ```
    fn rank(&self, rcond: Option<f64>) -> Result<usize, LinalgError>;

    /// A⁺, the pseudo-inverse (Moore and Penrose): the shortest least-squares solutions for the unit
    /// vectors. With `rcond` and errors as [`rank`](Self::rank).
    ///
    /// # Errors
    /// As [`rank`](Self::rank).
    ///
    /// # Examples
    /// ```
    /// use dataflow::prelude::*;
    /// use ndarray::array;
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
        if let Some(l) = factor_at_once(self.view()) {
            return Ok(array_of(self.dim(), l));
        }
        let place = Place::of::<T>(self.nrows().max(self.ncols()))?;
        let a = place.lower(self.view())?;
        cholesky::factor(&a, AUTO, place.on())?;
        array(&a)
    }

    fn solve<R: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<R, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        of_columns(b, |b| solve(self.view(), (b.dim(), &NdarrayEntries(b))))
    }

    fn lu(&self) -> Result<Lu<T>, LinalgError> {
        let (m, n) = self.dim();
        let place = Place::with_order(m.max(n), lu::default_tile_order::<T>(m, n))?;
        let a = place.general(self.view())?;
        let pivots = factor_lu(&a, place.on())?;
        let mut rows: Vec<usize> = (0..m).collect();
        for (row, pivot) in pivots.rows() {
            rows.swap(row, pivot);
        }
        let (both, k) = (array(&a)?, m.min(n));
        let l = Array2::from_shape_fn((m, k).f(), |(i, j)| match i.cmp(&j) {
            Ordering::Less => T::zero(),
            Ordering::Equal => T::one(),
            Ordering::Greater => both[(i, j)],
        });
        let u = Array2::from_shape_fn((k, n).f(), |(i, j)| match i > j {
            true => T::zero(),
            false => both[(i, j)],
        });
        Ok((rows, l, u))
    }

    fn qr(&self) -> Result<(Array2<T>, Array2<T>), LinalgError> {
        let (m, n) = self.dim();
        let place = Place::with_order(m.max(n), qr::default_tile_order::<T>(m, n))?;
        let (q, r) = form_qr(&place.general(self.view())?, place.on())?;
        Ok((array(&q)?, array(&r)?))
    }

    fn least_squares<R: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<R, D>,
    ) -> Result<Array<T, D>, LinalgError> {
        of_columns(b, |b| {
            let (place, a, b) = sides(self.view(), b)?;
            let (x, _) = qr::least_squares(&a, &b, options(&a), AUTO, place.on())?;
            array(&x)
        })
    }

    fn least_squares_minimum_norm<R: Data<Elem = T>, D: Dimension>(
        &self,
        b: &ArrayBase<R, D>,
        rcond: Option<f64>,
    ) -> Result<(Array<T, D>, usize), LinalgError> {
        let mut rank = 0;
        let x = of_columns(b, |b| {
            let (place, a, b) = sides(self.view(), b)?;
            let (options, on) = (options(&a), place.on());
            let (x, found, _) = qr::least_squares_minimum_norm(&a, &b, rcond, options, AUTO, on)?;
            rank = found;
            array(&x)
        })?;
        Ok((x, rank))
    }

    fn rank(&self, rcond: Option<f64>) -> Result<usize, LinalgError> {
        let (m, n) = self.dim();
        let place = Place::with_order(m.max(n), qr::default_tile_order::<T>(m, n))?;
        let a = place.general(self.view())?;
        Ok(qr::pivoted(&a, rcond, options(&a), AUTO, place.on())?.rank())
    }

    fn pseudo_inverse(&self, rcond: Option<f64>) -> Result<Array2<T>, LinalgError> {
        let (m, n) = self.dim();
        let place = Place::with_order(m.max(n), qr::default_tile_order::<T>(m, n))?;
        let a = place.general(self.view())?;
        let (inverse, ..) = qr::pseudo_inverse(&a, rcond, options(&a), AUTO, place.on())?;
        array(&inverse)
    }

    fn inverse(&self) -> Result<Array2<T>, LinalgError> {
        let n = self.nrows();
        if is_definite_at_a_glance(self.view()) {
            let place = Place::of::<T>(n)?;
            let a = place.lower(self.view())?;
            match cholesky::inverse(&a, AUTO, place.on()) {
                Ok(_) => {
                    let whole = place.tiles(Layout::general(n, n, a.nb()), &a)?;
                    return array(&whole);
                }
                Err(LinalgError::NotPositiveDefinite { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let unit = |i: usize, j: usize| if i == j { T::one() } else { T::zero() };
        by_lu(self.view(), ((n, n), &unit))
    }

    fn dot_tiled<R: Data<Elem = T>>(
        &self,
        b: &ArrayBase<R, Ix2>,
    ) -> Result<Array2<T>, LinalgError> {
        let ((m, k), (l, n)) = (self.dim(), b.dim());
        let place = Place::of::<T>(m.max(n).max(k).max(l))?;
        let (a, b) = (place.general(self.view())?, place.general(b.view())?);
        let c = place.tiles(Layout::general(m, n, place.nb), &|_: usize, _: usize| {
            T::zero()
        })?;
        let (a, b) = (Operand::plain(&a), Operand::plain(&b));
        gemm(T::one(), a, b, T::zero(), &c, AUTO, place.on())?;
        array(&c)
    }
}

/// Where a problem is worked on, and in tiles of which order.
struct Place {
    runtime: Option<&'static Runtime>,
    nb: usize,
}

impl Place {
    /// For a matrix of which no extent is larger than `extent`.
    fn of<T: Scalar>(extent: usize) -> Result<Self, LinalgError> {
        Place::with_order(extent, cholesky::default_tile_order::<T>(extent))
    }

    /// The same with tiles of this order, if the matrix is more than one tile.
    fn with_order(extent: usize, nb: usize) -> Result<Self, LinalgError> {
        Ok(match extent <= SMALL {
            true => Place {
                runtime: None,
                nb: extent.max(1),
            },
            false => Place {
                runtime: Some(Runtime::shared().map_err(LinalgError::Run)?),
                nb,
            },
        })
    }

    fn on(&self) -> &dyn Executor {
        match self.runtime {
            Some(runtime) => runtime,
            None => &Inline,
        }
    }

    /// Tiles with the given entries.
    fn tiles<T: Scalar>(
        &self,
        layout: Result<Layout, LayoutError>,
        entries: &impl Entries<T>,
    ) -> Result<TiledMatrix<T>, LinalgError> {
        let layout = layout.map_err(|error| LinalgError::Shape(error.to_string()))?;
        let Some(runtime) = self.runtime else {
            return Ok(TiledMatrix::from_entries_in(layout, heap(), entries));
        };
        let tiles = TiledMatrix::vacant(layout, runtime.memory());
        tiles.fill(entries, runtime).map_err(LinalgError::Run)?;
        Ok(tiles)
    }

    /// A whole array.
    fn general<T: Scalar>(&self, a: ArrayView2<'_, T>) -> Result<TiledMatrix<T>, LinalgError> {
        let layout = Layout::general(a.nrows(), a.ncols(), self.nb);
        self.tiles(layout, &NdarrayEntries(a))
    }

    /// The lower triangle of a square array.
    fn lower<T: Scalar>(&self, a: ArrayView2<'_, T>) -> Result<TiledMatrix<T>, LinalgError> {
        expect_square(a.dim())?;
        self.tiles(Layout::lower(a.nrows(), self.nb), &NdarrayEntries(a))
    }
}

/// What is computed from the columns of a matrix, or from a vector as the only one.
fn of_columns<T: Scalar, R: Data<Elem = T>, D: Dimension>(
    b: &ArrayBase<R, D>,
    solve: impl FnOnce(ArrayView2<'_, T>) -> Result<Array2<T>, LinalgError>,
) -> Result<Array<T, D>, LinalgError> {
    let wrong = |_| {
        let text = format!(
            "right-hand sides of {} dimensions (1 or 2 are solved)",
            b.ndim()
        );
        LinalgError::Shape(text)
    };
    let columns = match b.ndim() {
        1 => b.view().into_dyn().insert_axis(Axis(1)),
        _ => b.view().into_dyn(),
    };
    let x = solve(columns.into_dimensionality::<Ix2>().map_err(wrong)?)?;
    let x = match b.ndim() {
        1 => x.index_axis_move(Axis(1), 0).into_dyn(),
        _ => x.into_dyn(),
    };
    x.into_dimensionality::<D>().map_err(wrong)
}

/// Whether a square array is its own adjoint to the bit, with a positive diagonal.
fn is_definite_at_a_glance<T: Scalar>(a: ArrayView2<'_, T>) -> bool {
    let is_positive = |i: usize| a[(i, i)].re() > 0.0 && a[(i, i)].im() == 0.0;
    let is_own_mirror = |j: usize| {
        let (above, before) = (a.column(j), a.row(j));
        let mut pairs = above.iter().zip(before).take(j);
        pairs.all(|(above, before)| *above == before.conj())
    };
    a.is_square() && (0..a.nrows()).all(is_positive) && (0..a.ncols()).all(is_own_mirror)
}

/// L of a small matrix, column-major, by one call of the kernels' library. `None` if it is not
/// small, or there is no L: then the graph says why.
fn factor_at_once<T: Scalar>(a: ArrayView2<'_, T>) -> Option<Vec<T>> {
    let n = a.nrows();
    if !a.is_square() || n > SMALL {
        return None;
    }
    let entries = NdarrayEntries(a);
    // What is not finite fails too: a NaN or an infinity below the diagonal reaches a pivot.
    potrf_whole(n, |j, column| entries.column(j..n, j, column))
}

/// X of A·X = B for a small definite matrix. `None` as for [`factor_at_once`].
fn solve_at_once<T: Scalar>(
    a: ArrayView2<'_, T>,
    ((rows, cols), b): ((usize, usize), &impl Entries<T>),
) -> Option<Array2<T>> {
    if rows.max(cols) > SMALL {
        return None;
    }
    let l = factor_at_once(a)?;
    let tile = |rows, cols| Tile::new(rows, cols, Format::ColumnMajor, &heap());
    let (mut factor, mut x) = (tile(rows, rows), tile(rows, cols));
    factor.as_mut_slice().copy_from_slice(&l);
    let columns = x.as_mut_slice().chunks_exact_mut(rows.max(1));
    for (j, column) in columns.enumerate() {
        b.column(0..rows, j, column);
    }
    trsm_left(AUTO, &factor, Op::NoTranspose, &mut x);
    trsm_left(AUTO, &factor, Op::ConjTranspose, &mut x);
    Some(array_of((rows, cols), x.as_slice().to_vec()))
}

fn heap() -> Arc<dyn Memory> {
    Arc::new(Heap)
}

/// Column-major elements as an array.
fn array_of<T>(shape: (usize, usize), elements: Vec<T>) -> Array2<T> {
    let array = Array2::from_shape_vec(shape.f(), elements);
    array.unwrap_or_else(|error| unreachable!("rows · cols elements: {error}"))
}

/// X of A·X = B, with B of the given shape and entries.
fn solve<T: Scalar>(
    a: ArrayView2<'_, T>,
    (shape, b): ((usize, usize), &impl Entries<T>),
) -> Result<Array2<T>, LinalgError> {
    if is_definite_at_a_glance(a) && shape.0 == a.nrows() {
        if let Some(x) = solve_at_once(a, (shape, b)) {
            return Ok(x);
        }
        let place = Place::of::<T>(a.nrows().max(shape.1))?;
        let l = place.lower(a)?;
        match cholesky::factor(&l, AUTO, place.on()) {
            Ok(_) => {
                let x = place.tiles(Layout::general(shape.0, shape.1, place.nb), b)?;
                cholesky::solve(&l, &x, AUTO, place.on())?;
                return array(&x);
            }
            Err(LinalgError::NotPositiveDefinite { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    by_lu(a, (shape, b))
}

/// The same by LU with partial pivoting.
fn by_lu<T: Scalar>(
    a: ArrayView2<'_, T>,
    ((rows, cols), b): ((usize, usize), &impl Entries<T>),
) -> Result<Array2<T>, LinalgError> {
    expect_square(a.dim())?;
    let n = a.nrows();
    if rows != n {
        let text = format!("right-hand sides of {rows} x {cols} for a matrix of order {n}");
        return Err(LinalgError::Shape(text));
    }
    let place = Place::of::<T>(n.max(cols))?;
    let x = place.tiles(Layout::general(n, cols, place.nb), b)?;
    solve_by_lu(&place.general(a)?, &x, place.on())?;
    array(&x)
}

/// Both sides of a problem of least squares in tiles, and where it is worked on.
fn sides<T: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
) -> Result<(Place, TiledMatrix<T>, TiledMatrix<T>), LinalgError> {
    let ((m, n), (rows, cols)) = (a.dim(), b.dim());
    let extent = m.max(n).max(rows).max(cols);
    let place = Place::with_order(extent, qr::default_tile_order::<T>(m, n))?;
    let (a, b) = (place.general(a)?, place.general(b)?);
    Ok((place, a, b))
}

/// The entries as a column-major array.
fn array<T: Scalar>(tiles: &TiledMatrix<T>) -> Result<Array2<T>, LinalgError> {
    // All tiles are at hand: the run that used them is over.
    Ok(tiles
        .to_ndarray()
        .unwrap_or_else(|absent| unreachable!("{absent}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_problem_knows_no_runtime_and_a_large_one_does() {
        let small = Place::of::<f64>(SMALL).unwrap();
        assert!(small.runtime.is_none() && small.on().n_workers() == 1);
        assert_eq!(small.nb, SMALL);
        assert!(Place::of::<f64>(SMALL + 1).unwrap().runtime.is_some());
    }
}
