//! What can go wrong with a matrix, as values: each says what, the value and what is allowed.
//!
//! # Elsewhere
//! Errors of a single module are defined in it: [`GridError`](crate::matrix::GridError),
//! [`LayoutError`](crate::matrix::LayoutError),
//! [`market::ReadError`](crate::matrix::market::ReadError),
//! [`market::WriteError`](crate::matrix::market::WriteError).

mod linalg;

pub use linalg::{Given, LinalgError};

use std::fmt;

/// A tile was asked for that this rank does not have at hand.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// let a = TiledMatrix::from_fn(Layout::lower(5, 2)?, |i, j| (10 * i + j) as f64);
/// let above = a.tile_at(1, 2).unwrap_err();
/// assert_eq!(above.to_string(), "tile (1, 2) is not stored by this matrix");
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TileError {
    /// The matrix does not store such a tile, on any rank.
    NotStored {
        /// Row of tiles.
        i: usize,
        /// Column of tiles.
        j: usize,
    },
    /// The tile belongs to another rank.
    Elsewhere {
        /// Row of tiles.
        i: usize,
        /// Column of tiles.
        j: usize,
        /// Its owner.
        owner: dataflow_core::rank::Rank,
    },
    /// The tile was never filled, or a run that has not ended holds it.
    Absent {
        /// Row of tiles.
        i: usize,
        /// Column of tiles.
        j: usize,
    },
}

impl fmt::Display for TileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TileError::NotStored { i, j } => {
                write!(f, "tile ({i}, {j}) is not stored by this matrix")
            }
            TileError::Elsewhere { i, j, owner } => {
                write!(
                    f,
                    "tile ({i}, {j}) belongs to {owner} (only own tiles can be read)"
                )
            }
            TileError::Absent { i, j } => write!(
                f,
                "tile ({i}, {j}) is empty or lent to a run (fill it, or wait for the run)"
            ),
        }
    }
}

impl std::error::Error for TileError {}

/// Two shapes that had to agree do not.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// let array = ndarray::arr2(&[[1.0, 2.0], [3.0, 4.0]]);
/// let refused = TiledMatrix::from_ndarray(Layout::general(2, 3, 2)?, array.view()).unwrap_err();
/// assert_eq!(refused.to_string(), "the array is 2 x 2 (must be 2 x 3)");
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeError {
    /// What has the wrong shape.
    pub what: &'static str,
    /// Its rows and columns.
    pub found: (usize, usize),
    /// The rows and columns that would be right.
    pub expected: (usize, usize),
    /// What its shape follows from, in words, where the shape alone does not say it.
    more: Option<Box<More>>,
}

/// Words about a shape; behind one pointer, which keeps errors small.
#[derive(Clone, Debug, PartialEq, Eq)]
struct More(String);

impl ShapeError {
    /// `Ok` if the shapes agree.
    pub(crate) fn check(
        what: &'static str,
        found: (usize, usize),
        expected: (usize, usize),
    ) -> Result<(), ShapeError> {
        match found == expected {
            true => Ok(()),
            false => Err(ShapeError {
                what,
                found,
                expected,
                more: None,
            }),
        }
    }

    /// The same, saying also what the shape follows from.
    pub(crate) fn with_more(self, more: String) -> Self {
        let more = Some(Box::new(More(more)));
        ShapeError { more, ..self }
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((m, n), (rows, cols)) = (self.found, self.expected);
        write!(f, "{} is {m} x {n} (must be {rows} x {cols})", self.what)?;
        match &self.more {
            Some(more) => write!(f, ": {}", more.0),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ShapeError {}

/// Why a matrix could not be made, or measured, from another form.
///
/// # Examples
/// ```
/// use dataflow_linalg::error::MatrixError;
/// use dataflow_linalg::matrix::{Layout, Structure, TiledMatrix, check::solve_backward_error};
/// let one = |i: usize, j: usize| f64::from(i == j);
/// let x = TiledMatrix::from_fn(Layout::lower(3, 2)?, one);
/// let refused = solve_backward_error(&one, Structure::General, &x, &one).unwrap_err();
/// assert!(matches!(refused, MatrixError::Lower { rows: 3, .. }));
/// assert!(refused.to_string().contains("solution"));
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatrixError {
    /// A tile is not at hand.
    Tile(TileError),
    /// Shapes disagree.
    Shape(ShapeError),
    /// Only the lower triangle of a matrix is stored, of which all entries are needed.
    Lower {
        /// Which matrix.
        what: &'static str,
        /// Its rows.
        rows: usize,
        /// Its columns.
        cols: usize,
    },
}

impl fmt::Display for MatrixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatrixError::Tile(error) => error.fmt(f),
            MatrixError::Shape(error) => error.fmt(f),
            MatrixError::Lower { what, rows, cols } => write!(
                f,
                "{what} is stored as Lower, {rows} x {cols} (must be General)"
            ),
        }
    }
}

impl std::error::Error for MatrixError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MatrixError::Tile(error) => Some(error),
            MatrixError::Shape(error) => Some(error),
            MatrixError::Lower { .. } => None,
        }
    }
}

impl From<TileError> for MatrixError {
    fn from(error: TileError) -> Self {
        MatrixError::Tile(error)
    }
}

impl From<ShapeError> for MatrixError {
    fn from(error: ShapeError) -> Self {
        MatrixError::Shape(error)
    }
}

/// A NaN or an infinity where only finite numbers are allowed.
///
/// # Examples
/// ```
/// use dataflow_linalg::LinalgError;
/// use dataflow_linalg::matrix::norm::first_not_finite;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
///
/// let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, _| 1.0 / (2.0 - i as f64));
/// let found = first_not_finite(&a)?.expect("1 / 0");
/// assert_eq!((found.row, found.col, found.re), (2, 0, f64::INFINITY));
/// assert_eq!(found.to_string(), "entry in row 2, column 0 (from 0) is inf (must be finite)");
/// // In a function that answers a `LinalgError`, `Err(found)?` makes one of it.
/// assert_eq!(LinalgError::from(found).name(), "not_finite");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NotFinite {
    /// Row of the entry, from 0.
    pub row: usize,
    /// Column of the entry, from 0.
    pub col: usize,
    /// Its real part.
    pub re: f64,
    /// Its imaginary part.
    pub im: f64,
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotFinite { row, col, re, im } = self;
        write!(f, "entry in row {row}, column {col} (from 0) is {re}")?;
        if *im != 0.0 {
            write!(f, " + {im} i")?;
        }
        f.write_str(" (must be finite)")
    }
}

impl std::error::Error for NotFinite {}

/// The name of a matrix in errors, with a blank before it; nothing if it was given none.
#[derive(Clone, Copy)]
pub(crate) struct MatrixLabel<'a>(pub Option<&'a str>);

impl fmt::Display for MatrixLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, " {name:?}"))
    }
}
