//! Site: where a problem on an array is worked on, in tiles of which order; arrays into tiles and
//! back.
//!
//! # Law
//! How a matrix is cut depends on its own shape and kind of number alone, never on what it is solved
//! for: so a factor that is kept has the bits of one that is not. Only Cholesky factors in smaller tiles where
//! there are many workers, which changes no bit. Least squares of arrays that are
//! tall and skinny cut nothing: they have bits of their own.

use crate::Runtime;
use dataflow_core::data::Version;
use dataflow_core::port::{Executor, Heap, Inline, Memory};
use dataflow_core::words::counted;
use dataflow_linalg::kernel::LARGEST_WHOLE;
use dataflow_linalg::matrix::convert::NdarrayEntries;
use dataflow_linalg::matrix::norm::all_finite;
use dataflow_linalg::matrix::{Entries, Layout, LayoutError, Tile, TiledMatrix};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{LinalgError, cholesky};
use ndarray::{Array, Array2, ArrayBase, ArrayView2, Axis, Data, Dimension, Ix2, ShapeBuilder};
use std::sync::Arc;

/// Up to this extent a matrix is one tile.
pub(crate) const SMALL: usize = LARGEST_WHOLE;

/// Whether a problem of this shape is one tile, which the calling thread works on without a graph.
pub(crate) fn is_small((rows, cols): (usize, usize)) -> bool {
    rows.max(cols) <= SMALL
}

/// Where a problem is worked on, and in tiles of which order.
pub(crate) struct Site {
    runtime: Option<&'static Runtime>,
    nb: usize,
}

impl Site {
    /// For a matrix of which no extent is larger than `extent`.
    pub fn of<T: Scalar>(extent: usize) -> Result<Self, LinalgError> {
        Site::with_order(extent, cholesky::default_tile_order::<T>(extent))
    }

    /// The same with tiles of this order, if the matrix is more than one tile.
    pub fn with_order(extent: usize, nb: usize) -> Result<Self, LinalgError> {
        Ok(match extent <= SMALL {
            true => Site {
                runtime: None,
                nb: SMALL,
            },
            false => Site {
                runtime: Some(Runtime::shared().map_err(LinalgError::Run)?),
                nb,
            },
        })
    }

    /// For a matrix that is in tiles already, and so many columns beside it, in tiles of its order.
    pub fn beside<T: Scalar>(a: &TiledMatrix<T>, cols: usize) -> Result<Self, LinalgError> {
        Site::with_order(a.rows().max(a.cols()).max(cols), a.nb())
    }

    /// Who works on it.
    pub fn on(&self) -> &'static dyn Executor {
        match self.runtime {
            Some(runtime) => runtime,
            None => &Inline,
        }
    }

    /// Tiles with the given entries.
    pub fn tiles<T: Scalar>(
        &self,
        layout: Result<Layout, LayoutError>,
        entries: &impl Entries<T>,
    ) -> Result<TiledMatrix<T>, LinalgError> {
        let layout = layout?;
        let Some(runtime) = self.runtime else {
            return Ok(TiledMatrix::from_entries_in(layout, heap(), entries));
        };
        let tiles = TiledMatrix::vacant(layout, runtime.memory());
        tiles.fill(entries, runtime).map_err(LinalgError::Run)?;
        Ok(tiles)
    }

    /// A whole array.
    pub fn general<T: Scalar>(&self, a: ArrayView2<'_, T>) -> Result<TiledMatrix<T>, LinalgError> {
        let layout = Layout::general(a.nrows(), a.ncols(), self.nb);
        self.tiles(layout, &NdarrayEntries(a))
    }

    /// Zeros.
    pub fn zeros<T: Scalar>(
        &self,
        (rows, cols): (usize, usize),
    ) -> Result<TiledMatrix<T>, LinalgError> {
        let zero = |_: usize, _: usize| T::zero();
        self.tiles(Layout::general(rows, cols, self.nb), &zero)
    }
}

pub(crate) fn heap() -> Arc<dyn Memory> {
    Arc::new(Heap)
}

/// A small tile as the only one of a matrix.
pub(crate) fn in_one_tile<T: Scalar>(
    layout: Result<Layout, LayoutError>,
    tile: Tile<T>,
) -> Result<TiledMatrix<T>, LinalgError> {
    let layout = layout?;
    let matrix = TiledMatrix::vacant(layout, heap());
    if layout.n_slots() > 0 {
        // There is a slot: the matrix is not empty.
        let _ = matrix.store().put(0, Version::new(tile));
    }
    Ok(matrix)
}

/// What is computed from the columns of a matrix, or from a vector as the only one.
///
/// # Errors
/// [`LinalgError::NotFinite`] and [`LinalgError::Overflow`] if B or what is made of it is not finite.
pub(crate) fn of_columns<T: Scalar, R: Data<Elem = T>, D: Dimension>(
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
    let columns = columns.into_dimensionality::<Ix2>().map_err(wrong)?;
    let x = finite_from(columns, solve(columns)?)?;
    let x = match b.ndim() {
        1 => x.index_axis_move(Axis(1), 0).into_dyn(),
        _ => x.into_dyn(),
    };
    x.into_dimensionality::<D>().map_err(wrong)
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

/// The same of one that is solved with: whoever has another meant least squares.
pub(crate) fn expect_square_system((m, n): (usize, usize)) -> Result<(), LinalgError> {
    match m == n {
        true => Ok(()),
        false => Err(LinalgError::Shape(format!(
            "matrix is {m} x {n} (must be square; `least_squares` takes any shape)"
        ))),
    }
}

/// An error about shapes, and by which names the matrices go that were given one.
pub(crate) fn called<T: Scalar, const N: usize>(
    error: LinalgError,
    matrices: [(&str, &TiledMatrix<T>); N],
) -> LinalgError {
    let names = matrices.iter().filter_map(|(role, matrix)| {
        let name = matrix.name()?;
        Some(format!("{role} is {name:?}"))
    });
    let names: Vec<_> = names.collect();
    match names.is_empty() {
        true => error,
        false => LinalgError::Shape(format!("{error}: {}", names.join(", "))),
    }
}

/// The same of one in tiles.
pub(crate) fn expect_square_tiles<T: Scalar>(a: &TiledMatrix<T>) -> Result<(), LinalgError> {
    expect_square((a.rows(), a.cols())).map_err(|error| called(error, [("A", a)]))
}

/// Fails unless right-hand sides have a row for each of a matrix of this order.
pub(crate) fn expect_rows((rows, cols): (usize, usize), n: usize) -> Result<(), LinalgError> {
    match rows == n {
        true => Ok(()),
        false => Err(LinalgError::Shape(format!(
            "right-hand sides of {rows} x {cols} for a matrix of {}",
            counted(n, "row")
        ))),
    }
}

/// Column-major elements as an array.
pub(crate) fn array_of<T>(shape: (usize, usize), elements: Vec<T>) -> Array2<T> {
    let array = Array2::from_shape_vec(shape.f(), elements);
    array.unwrap_or_else(|error| unreachable!("rows · cols elements: {error}"))
}

/// The same if it is finite, as what it was made from is.
///
/// # Errors
/// [`LinalgError::Overflow`] with the first column that is not.
pub(crate) fn finite<T: Scalar>(array: Array2<T>) -> Result<Array2<T>, LinalgError> {
    if array.as_slice_memory_order().is_some_and(all_finite) {
        return Ok(array);
    }
    let mut columns = array.columns().into_iter();
    match columns.position(|column| !column.iter().all(|x| x.is_finite())) {
        Some(col) => Err(LinalgError::overflow_in(col)),
        None => Ok(array),
    }
}

/// The same of what was made from the columns of B, which nobody has looked at before: what is not finite
/// there is not finite in what was made, either.
fn finite_from<T: Scalar>(b: ArrayView2<'_, T>, made: Array2<T>) -> Result<Array2<T>, LinalgError> {
    finite(made).map_err(|overflow| {
        let mut entries = b.axis_iter(Axis(1)).enumerate();
        let found = entries.find_map(|(col, column)| {
            let row = column.iter().position(|x| !x.is_finite())?;
            Some((row, col))
        });
        found.map_or(overflow, LinalgError::not_finite_right_hand_side)
    })
}

/// The entries as a column-major array.
pub(crate) fn array<T: Scalar>(tiles: &TiledMatrix<T>) -> Array2<T> {
    // All tiles are at hand: the run that used them is over.
    tiles
        .to_ndarray()
        .unwrap_or_else(|absent| unreachable!("{absent}"))
}

/// Both triangles of a Hermitian matrix of which one is stored.
pub(crate) fn array_of_hermitian<T: Scalar>(
    lower: &TiledMatrix<T>,
    site: &Site,
) -> Result<Array2<T>, LinalgError> {
    let n = lower.rows();
    let whole = site.tiles(Layout::general(n, n, lower.nb()), lower)?;
    Ok(array(&whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_problem_knows_no_runtime_and_a_large_one_does() {
        let small = Site::of::<f64>(SMALL).unwrap();
        assert!(small.runtime.is_none() && small.on().n_workers() == 1);
        assert_eq!(small.nb, SMALL);
        assert!(Site::of::<f64>(SMALL + 1).unwrap().runtime.is_some());
    }

    #[test]
    fn many_right_hand_sides_go_to_the_runtime_and_leave_the_tile_order_as_it_is() {
        let one_tile = TiledMatrix::<f64>::zeros(Layout::general(3, 3, SMALL).unwrap());
        let few = Site::beside(&one_tile, SMALL).unwrap();
        let many = Site::beside(&one_tile, SMALL + 1).unwrap();
        assert_eq!(
            (few.runtime.is_none(), many.runtime.is_none()),
            (true, false)
        );
        assert_eq!((few.nb, many.nb), (SMALL, SMALL));
    }
}
