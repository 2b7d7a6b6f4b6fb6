//! What a decomposition, a solution or a product can answer instead of a result.

use super::{MatrixError, MatrixLabel, NotFinite, ShapeError, TileError};
use crate::kernel::BackendError;
use crate::matrix::generate::ConditionError;
use crate::matrix::market::{ReadError, WriteError};
use crate::matrix::{GridError, LayoutError};
use crate::qr::{EliminationError, UnknownTree};
use crate::scalar::UnknownPrecision;
use dataflow_core::{Error, TaskError};
use std::fmt;
use std::sync::Arc;

/// Why there is no factor, no solution, no inverse.
///
/// What a task of a graph has found has the failure of the run as its source, which names the task and,
/// over ranks, its rank; what was found without a graph, as in [`whole`](crate::whole), has none. Errors on
/// the way to a matrix, its file, its grid, its tiles, become one by `?`. A `main` that returns one prints its
/// text, and in which task it was found.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::{LinalgError, cholesky, kernel::Backend};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
///
/// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[1.0, 0.0], [2.0, 3.0]][i][j]);
/// match cholesky::factor(&a, Backend::Auto, &Inline) {
///     Err(LinalgError::NotPositiveDefinite { index, source, .. }) => {
///         assert_eq!(index, 2);
///         assert_eq!(source.unwrap().task(), Some("Potrf { k: 1 }"));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), LinalgError>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum LinalgError {
    /// The matrix has `rows` rows and `cols` columns, or not the structure that is asked for.
    Shape(String),
    /// A matrix of this shape cannot be cut into such tiles.
    Layout(LayoutError),
    /// There is no such grid of ranks.
    Grid(GridError),
    /// Two shapes that had to agree do not.
    Misfit(ShapeError),
    /// A tile is not at hand.
    Tile(TileError),
    /// A file of a matrix cannot be read.
    Read(Arc<ReadError>),
    /// A file of a matrix cannot be written.
    Write(Arc<WriteError>),
    /// The leading minor of this order is not positive: LAPACK's INFO, counted from 1.
    #[non_exhaustive]
    NotPositiveDefinite {
        /// Order of the first leading minor that is not positive.
        index: u64,
        /// The pivot found there, in words.
        text: String,
        /// The run in which a task found it.
        source: Option<Box<Error>>,
    },
    /// The pivot with this number, LAPACK's INFO from 1, is exactly zero.
    ///
    /// The factorisation is complete nevertheless, as LAPACK's is; only a solution there is none.
    #[non_exhaustive]
    Singular {
        /// The first zero on the diagonal of U.
        index: u64,
        /// The name of the matrix, if it was [given](crate::matrix::TiledMatrix::named) one.
        matrix: Option<String>,
        /// The run in which a task found it.
        source: Option<Box<Error>>,
    },
    /// The matrix has not the full rank that a solution by least squares takes, or is so near to one
    /// that has not that rounding errors decide.
    #[non_exhaustive]
    RankDeficient {
        /// The rank that QR with column pivoting finds.
        rank: u64,
        /// What it would have to be.
        full: u64,
        /// The name of the matrix, if it was [given](crate::matrix::TiledMatrix::named) one.
        matrix: Option<String>,
    },
    /// A setting is none of those allowed.
    Argument(String),
    /// An entry that would be read is NaN or infinite: the first in column order, from 0.
    #[non_exhaustive]
    NotFinite {
        /// Of which of the matrices that were given.
        of: Given,
        /// Its row.
        row: u64,
        /// Its column.
        col: u64,
        /// The name of that matrix, if it was [given](crate::matrix::TiledMatrix::named) one.
        matrix: Option<String>,
        /// The run in which a task found it.
        source: Option<Box<Error>>,
    },
    /// A number in this column of a factor, or of a solution of least squares, from 0, is NaN or infinite,
    /// though all entries of A and B are finite: numbers on the way are too large. A and B divided by a
    /// power of two have the same X.
    #[non_exhaustive]
    Overflow {
        /// The first such column; of a factor in the order in which the factorisation takes them.
        col: u64,
        /// The name of the matrix whose factor it is, if it was
        /// [given](crate::matrix::TiledMatrix::named) one.
        matrix: Option<String>,
        /// The run in which a task found it.
        source: Option<Box<Error>>,
    },
    /// A solution with factors in a lower precision was not refined by so many corrections.
    NotConverged {
        /// How many there were.
        corrections: u32,
    },
    /// The run itself failed.
    Run(Error),
}

/// Which of the two matrices of A·X = B.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::{Given, LinalgError, qr};
/// let a = TiledMatrix::from_fn(Layout::general(3, 1, 2)?, |_, _| 1.0);
/// let b = TiledMatrix::from_fn(Layout::general(3, 1, 2)?, |i, _| [1.0, f64::NAN, 2.0][i]);
/// let solved = qr::least_squares(&a, &b, qr::Options::of_order(2), Backend::Auto, &Inline);
/// assert!(matches!(solved, Err(LinalgError::NotFinite { of: Given::RightHandSides, row: 1, .. })));
/// # Ok::<(), LinalgError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// A, or the only matrix.
    Matrix,
    /// B.
    RightHandSides,
}

/// Kinds of failures of bodies, as reports name them.
const NOT_POSITIVE_DEFINITE: &str = "not_positive_definite";
const SINGULAR: &str = "singular";
const NOT_FINITE: &str = "not_finite";
const RANK_DEFICIENT: &str = "rank_deficient";
const OVERFLOW: &str = "overflow";

impl LinalgError {
    /// The failure in snake_case, as `--json` shows it.
    pub fn name(&self) -> &str {
        match self {
            LinalgError::Shape(_)
            | LinalgError::Layout(_)
            | LinalgError::Misfit(_)
            | LinalgError::Tile(_) => "wrong_shape",
            LinalgError::Read(error) => error.kind(),
            LinalgError::Write(_) => "not_written",
            LinalgError::NotPositiveDefinite { .. } => NOT_POSITIVE_DEFINITE,
            LinalgError::Singular { .. } => SINGULAR,
            LinalgError::RankDeficient { .. } => RANK_DEFICIENT,
            LinalgError::Argument(_) | LinalgError::Grid(_) => "wrong_argument",
            LinalgError::NotFinite { .. } => NOT_FINITE,
            LinalgError::Overflow { .. } => OVERFLOW,
            LinalgError::NotConverged { .. } => "not_converged",
            LinalgError::Run(error) => error.name(),
        }
    }

    /// LAPACK's INFO, where there is one.
    pub fn index(&self) -> Option<u64> {
        match self {
            LinalgError::NotPositiveDefinite { index, .. }
            | LinalgError::Singular { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// The same of right-hand sides, if it is of an entry: who looks through a matrix does not know what it
    /// is for.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_linalg::LinalgError;
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix};
    /// let b = TiledMatrix::from_fn(Layout::general(2, 1, 2)?, |i, _| [1.0, f64::NAN][i]);
    /// let found = b.scan(&Inline).map_err(LinalgError::in_right_hand_sides).unwrap_err();
    /// assert!(found.to_string().starts_with("right-hand sides are not finite: entry (1, 0)"));
    /// # Ok::<(), LinalgError>(())
    /// ```
    pub fn in_right_hand_sides(mut self) -> Self {
        if let LinalgError::NotFinite { of, .. } = &mut self {
            *of = Given::RightHandSides;
        }
        self
    }

    /// The same of what was made from finite numbers, if it is of an entry: numbers on the way were too large.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_linalg::LinalgError;
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix};
    /// let x = TiledMatrix::from_fn(Layout::general(2, 1, 2)?, |i, _| [1.0, f64::INFINITY][i]);
    /// let found = x.scan(&Inline).map_err(LinalgError::in_result).unwrap_err();
    /// assert!(matches!(found, LinalgError::Overflow { col: 0, .. }));
    /// # Ok::<(), LinalgError>(())
    /// ```
    pub fn in_result(self) -> Self {
        match self {
            LinalgError::NotFinite { col, source, .. } => LinalgError::Overflow {
                col,
                matrix: None,
                source,
            },
            error => error,
        }
    }

    /// [`NotFinite`](Self::NotFinite) of an entry of B that was found without a graph.
    pub fn not_finite_right_hand_side((row, col): (usize, usize)) -> Self {
        LinalgError::NotFinite {
            of: Given::RightHandSides,
            row: row as u64,
            col: col as u64,
            matrix: None,
            source: None,
        }
    }

    /// [`Overflow`](Self::Overflow) that was found without a graph.
    pub fn overflow_in(col: usize) -> Self {
        LinalgError::Overflow {
            col: col as u64,
            matrix: None,
            source: None,
        }
    }

    /// What a body says of a pivot of a matrix at global position `index` (from 1).
    pub(crate) fn not_positive(matrix: MatrixLabel<'_>, index: u64, pivot: f64) -> TaskError {
        let text = format!(
            "matrix{matrix} is not positive definite: pivot {index} is {pivot:e} (must be > 0)"
        );
        TaskError::new(NOT_POSITIVE_DEFINITE, text).with_index(index)
    }

    /// What a body says of a pivot that is zero at global position `index` (from 1).
    pub(crate) fn singular(index: u64) -> TaskError {
        TaskError::new(SINGULAR, format!("pivot {index} is zero")).with_index(index)
    }

    /// What a body says of an entry; ordered by columns in a matrix of `rows` rows.
    pub(crate) fn not_finite(row: usize, col: usize, rows: usize) -> TaskError {
        let order = col as u64 * rows as u64 + row as u64;
        TaskError::new(NOT_FINITE, format!("entry ({row}, {col}) is not finite")).with_index(order)
    }

    /// What a body says of a column of a factor that is not finite.
    pub(crate) fn overflow(col: usize) -> TaskError {
        TaskError::new(
            OVERFLOW,
            format!("column {col} of the factor is not finite"),
        )
        .with_index(col as u64)
    }

    /// The failure behind an error of a run over a matrix of `rows` rows.
    pub(crate) fn of_run(error: Error, rows: usize, matrix: Option<&str>) -> Self {
        let Some(index) = error.index() else {
            return LinalgError::Run(error);
        };
        let matrix = matrix.map(str::to_owned);
        let source = || Some(Box::new(error.clone()));
        match error.name() {
            NOT_POSITIVE_DEFINITE => LinalgError::NotPositiveDefinite {
                index,
                text: error.message().to_owned(),
                source: source(),
            },
            SINGULAR => LinalgError::Singular {
                index,
                matrix,
                source: source(),
            },
            OVERFLOW => LinalgError::Overflow {
                col: index,
                matrix,
                source: source(),
            },
            NOT_FINITE => LinalgError::NotFinite {
                of: Given::Matrix,
                row: index % rows as u64,
                col: index / rows as u64,
                matrix,
                source: source(),
            },
            _ => LinalgError::Run(error),
        }
    }
}

impl From<TileError> for LinalgError {
    fn from(error: TileError) -> Self {
        LinalgError::Tile(error)
    }
}

impl fmt::Display for LinalgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinalgError::Shape(text) | LinalgError::Argument(text) => f.write_str(text),
            LinalgError::Layout(error) => error.fmt(f),
            LinalgError::Grid(error) => error.fmt(f),
            LinalgError::Misfit(error) => error.fmt(f),
            LinalgError::Tile(error) => error.fmt(f),
            LinalgError::Read(error) => error.fmt(f),
            LinalgError::Write(error) => error.fmt(f),
            LinalgError::NotPositiveDefinite { text, .. } => f.write_str(text),
            LinalgError::Singular { index, matrix, .. } => write!(
                f,
                "matrix{} is singular: pivot {index}, counted from 1, is zero (must not be)",
                MatrixLabel(matrix.as_deref())
            ),
            LinalgError::RankDeficient { rank, full, matrix } => write!(
                f,
                "matrix{} is rank deficient: its rank is about {rank} of {full} (must be full; \
                 least_squares_minimum_norm solves whatever the rank)",
                MatrixLabel(matrix.as_deref())
            ),
            LinalgError::NotFinite {
                of,
                row,
                col,
                matrix,
                ..
            } => {
                let (what, are) = match of {
                    Given::Matrix => ("matrix", "is"),
                    Given::RightHandSides => ("right-hand sides", "are"),
                };
                let named = MatrixLabel(matrix.as_deref());
                write!(
                    f,
                    "{what}{named} {are} not finite: entry ({row}, {col}), counted from 0, is NaN or infinite"
                )
            }
            LinalgError::Overflow { col, matrix, .. } => {
                write!(f, "column {col} of the factor ")?;
                match matrix {
                    Some(name) => write!(f, "of matrix {name:?}"),
                    None => f.write_str("or of the solution"),
                }?;
                f.write_str(
                    ", counted from 0, is not finite: numbers on the way are too large (divide A and B by a \
                     power of two: X stays the same)",
                )
            }
            LinalgError::NotConverged { corrections } => write!(
                f,
                "not refined to full precision in {corrections} corrections (factor in full precision)"
            ),
            LinalgError::Run(error) => error.fmt(f),
        }
    }
}

/// What a `main` prints that returns it: the variant, the text, and what there is beside.
impl fmt::Debug for LinalgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (variant, run) = match self {
            LinalgError::Shape(_) => ("Shape", None),
            LinalgError::Layout(_) => ("Layout", None),
            LinalgError::Grid(_) => ("Grid", None),
            LinalgError::Misfit(_) => ("Misfit", None),
            LinalgError::Tile(_) => ("Tile", None),
            LinalgError::Read(_) => ("Read", None),
            LinalgError::Write(_) => ("Write", None),
            LinalgError::NotPositiveDefinite { source, .. } => {
                ("NotPositiveDefinite", source.as_ref())
            }
            LinalgError::Singular { source, .. } => ("Singular", source.as_ref()),
            LinalgError::RankDeficient { .. } => ("RankDeficient", None),
            LinalgError::Argument(_) => ("Argument", None),
            LinalgError::NotFinite { source, .. } => ("NotFinite", source.as_ref()),
            LinalgError::Overflow { source, .. } => ("Overflow", source.as_ref()),
            LinalgError::NotConverged { .. } => ("NotConverged", None),
            LinalgError::Run(error) => return fmt::Debug::fmt(error, f),
        };
        let mut told = f.debug_struct(variant);
        told.field("text", &self.to_string());
        if let Some(index) = self.index() {
            told.field("index", &index);
        }
        if let Some(task) = run.and_then(|run| run.task()) {
            told.field("task", &task);
        }
        if let Some(rank) = run.and_then(|run| run.rank()) {
            told.field("rank", &rank.0);
        }
        told.finish()
    }
}

impl std::error::Error for LinalgError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LinalgError::Layout(error) => Some(error),
            LinalgError::Grid(error) => Some(error),
            LinalgError::Misfit(error) => Some(error),
            LinalgError::Tile(error) => Some(error),
            LinalgError::Read(error) => Some(&**error),
            LinalgError::Write(error) => Some(&**error),
            LinalgError::Run(error) => Some(error),
            LinalgError::NotPositiveDefinite { source, .. }
            | LinalgError::Singular { source, .. }
            | LinalgError::NotFinite { source, .. }
            | LinalgError::Overflow { source, .. } => {
                let source = source.as_deref()?;
                Some(source)
            }
            LinalgError::Shape(_)
            | LinalgError::Argument(_)
            | LinalgError::RankDeficient { .. }
            | LinalgError::NotConverged { .. } => None,
        }
    }
}

/// So that a function which runs graphs of its own and factorises has one type of errors.
impl From<Error> for LinalgError {
    fn from(error: Error) -> Self {
        LinalgError::Run(error)
    }
}

impl From<LayoutError> for LinalgError {
    fn from(error: LayoutError) -> Self {
        LinalgError::Layout(error)
    }
}

impl From<GridError> for LinalgError {
    fn from(error: GridError) -> Self {
        LinalgError::Grid(error)
    }
}

impl From<ShapeError> for LinalgError {
    fn from(error: ShapeError) -> Self {
        LinalgError::Misfit(error)
    }
}

impl From<MatrixError> for LinalgError {
    fn from(error: MatrixError) -> Self {
        match error {
            MatrixError::Tile(error) => LinalgError::Tile(error),
            MatrixError::Shape(error) => LinalgError::Misfit(error),
            MatrixError::Lower { .. } => LinalgError::Shape(error.to_string()),
        }
    }
}

impl From<NotFinite> for LinalgError {
    fn from(NotFinite { row, col, .. }: NotFinite) -> Self {
        LinalgError::NotFinite {
            of: Given::Matrix,
            row: row as u64,
            col: col as u64,
            matrix: None,
            source: None,
        }
    }
}

impl From<BackendError> for LinalgError {
    fn from(error: BackendError) -> Self {
        LinalgError::Argument(error.to_string())
    }
}

impl From<EliminationError> for LinalgError {
    fn from(error: EliminationError) -> Self {
        LinalgError::Argument(error.to_string())
    }
}

impl From<ConditionError> for LinalgError {
    fn from(error: ConditionError) -> Self {
        LinalgError::Argument(error.to_string())
    }
}

impl From<UnknownTree> for LinalgError {
    fn from(error: UnknownTree) -> Self {
        LinalgError::Argument(error.to_string())
    }
}

impl From<UnknownPrecision> for LinalgError {
    fn from(error: UnknownPrecision) -> Self {
        LinalgError::Argument(error.to_string())
    }
}

impl From<ReadError> for LinalgError {
    fn from(error: ReadError) -> Self {
        LinalgError::Read(Arc::new(error))
    }
}

impl From<WriteError> for LinalgError {
    fn from(error: WriteError) -> Self {
        LinalgError::Write(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Backend;
    use crate::matrix::check::solve_backward_error;
    use crate::matrix::generate::Conditioned;
    use crate::matrix::market::{self, Storage, Symmetry};
    use crate::matrix::norm::first_not_finite;
    use crate::matrix::{Grid, Layout, Structure, TiledMatrix};
    use crate::qr::{Elimination, Tree};
    use crate::scalar::Precision;
    use crate::{cholesky, lu};
    use dataflow_core::port::Inline;
    use dataflow_core::space::Independent;
    use dataflow_core::{Report, run};
    use ndarray::array;

    /// One task with this body, behind a pointer: each type of bodies would have an engine compiled.
    fn run_one(body: &(dyn Fn() -> Result<(), TaskError> + Sync)) -> Result<Report, Error> {
        run(&Independent::new("one", 1, |_| body()), &Inline)
    }

    /// What a failing body becomes on its way through a run.
    fn through_a_run(error: impl Fn() -> TaskError + Sync, rows: usize) -> LinalgError {
        let failed = run_one(&|| Err(error()));
        LinalgError::of_run(failed.unwrap_err(), rows, None)
    }

    #[test]
    fn a_graph_of_ones_own_and_a_factorisation_have_one_type_of_errors() {
        fn both() -> Result<(), LinalgError> {
            run_one(&|| Err(TaskError::new("of_its_own", "it fails")))?;
            Ok(())
        }
        let error = both().unwrap_err();
        assert!(
            matches!(&error, LinalgError::Run(error) if error.name() == "of_its_own"),
            "{error:?}"
        );
        let of_the_run = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(of_the_run, Some(error.to_string()));
    }

    /// Each is an error of its own, and names itself.
    #[test]
    fn what_goes_wrong_on_the_way_to_a_matrix_becomes_one_of_its_errors_by_a_question_mark() {
        fn ones(layout: Layout) -> TiledMatrix<f64> {
            TiledMatrix::from_fn(layout, |_, _| 1.0)
        }
        type Step = fn() -> Result<(), LinalgError>;
        let wrong: [(&str, bool, Step); 13] = [
            ("wrong_argument", false, || {
                "mkl".parse::<Backend>()?;
                Ok(())
            }),
            ("wrong_argument", false, || {
                "oak".parse::<Tree>()?;
                Ok(())
            }),
            ("wrong_argument", false, || {
                "f16".parse::<Precision>()?;
                Ok(())
            }),
            ("wrong_argument", false, || {
                Elimination::of_lists(2, &[vec![]])?;
                Ok(())
            }),
            ("wrong_argument", false, || {
                Conditioned::new(3, 0.5, 1)?;
                Ok(())
            }),
            ("wrong_argument", true, || {
                "0x3".parse::<Grid>()?;
                Ok(())
            }),
            ("wrong_shape", true, || {
                Layout::general(3, 3, 0)?;
                Ok(())
            }),
            ("wrong_shape", true, || {
                TiledMatrix::from_ndarray(Layout::general(3, 3, 2)?, array![[1.0]].view())?;
                Ok(())
            }),
            ("wrong_shape", true, || {
                ones(Layout::general(3, 2, 2)?).write_column_major(&mut [0.0; 5], 3)?;
                Ok(())
            }),
            ("wrong_shape", false, || {
                let x = ones(Layout::lower(3, 2)?);
                solve_backward_error(&x, Structure::Lower, &x, &x)?;
                Ok(())
            }),
            ("not_finite", false, || {
                let a = TiledMatrix::from_fn(Layout::general(1, 1, 1)?, |_, _| f64::NAN);
                first_not_finite(&a)?.map_or(Ok(()), Err)?;
                Ok(())
            }),
            ("input_unreadable", true, || {
                market::Reader::open("no such file")?;
                Ok(())
            }),
            ("not_written", true, || {
                let wide = ones(Layout::general(1, 2, 2)?);
                market::write(Vec::new(), &wide, Storage::Array, Symmetry::Symmetric)?;
                Ok(())
            }),
        ];
        for (name, has_source, wrong) in wrong {
            let error = wrong().unwrap_err();
            assert_eq!(error.name(), name, "{error}");
            let source = std::error::Error::source(&error).map(ToString::to_string);
            assert_eq!(source, has_source.then(|| error.to_string()));
        }
    }

    /// The text stood there twice, in a body three times, and of a singular matrix not at all.
    #[test]
    fn an_error_that_is_returned_says_its_text_once_with_index_and_task() {
        let factored = |entries: [[f64; 2]; 2]| {
            let entry = |i: usize, j: usize| entries[i][j];
            let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, entry);
            lu::factor(&a, &lu::Pivots::new(&a), Backend::Auto, &Inline)
        };
        let definite = || {
            let entry = |i: usize, j: usize| [[1.0, 2.0], [2.0, 3.0]][i][j];
            let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, entry);
            cholesky::factor(&a, Backend::Auto, &Inline)
        };
        let singular = factored([[1.0, 1.0], [1.0, 1.0]]).unwrap_err();
        let shown = format!("{singular:?}");
        let begins = format!("Singular {{ text: \"{singular}\", index: 2, task: ");
        assert!(shown.starts_with(&begins), "{shown}");

        let text = "matrix is not positive definite: pivot 2 is -1e0 (must be > 0)";
        let beside = "index: 2, task: \"Potrf { k: 1 }\" }";
        let found = definite().unwrap_err();
        let shown = format!("NotPositiveDefinite {{ text: \"{text}\", {beside}");
        assert_eq!(format!("{found:?}"), shown);
        let inside = || definite().map(drop).map_err(TaskError::from);
        let passed_on = run_one(&inside).unwrap_err();
        assert_eq!(passed_on.to_string(), format!("{text} (task 0)"));
        let shown = format!("{passed_on:?}");
        assert_eq!(shown.matches(text).count(), 1, "{shown}");
        let source = format!("source: NotPositiveDefinite {{ text: …, {beside} }}");
        assert!(shown.ends_with(&source), "{shown}");
    }

    #[test]
    fn what_a_task_has_found_has_the_run_as_its_source_with_the_task() {
        let entry = |i: usize, j: usize| [[1.0, 2.0, 0.0], [2.0, 3.0, 0.0], [0.0; 3]][i][j];
        let lower = TiledMatrix::from_fn(Layout::lower(3, 1).unwrap(), entry);
        let general = TiledMatrix::from_fn(Layout::general(3, 3, 1).unwrap(), entry);
        let large = [[1e308, 1e308], [-1e308, 1e308]];
        let large = TiledMatrix::from_fn(Layout::general(2, 2, 1).unwrap(), |i, j| large[i][j]);
        let spoiled = TiledMatrix::from_fn(Layout::lower(3, 1).unwrap(), |i, j| {
            [entry(i, j), f64::NAN][i / 2]
        });
        let by_lu = |a: &TiledMatrix<f64>| {
            let pivots = lu::Pivots::new(a);
            lu::factor(a, &pivots, Backend::Auto, &Inline)
        };
        let by_cholesky = |a| cholesky::factor(a, Backend::Auto, &Inline);
        for (error, name, task) in [
            (
                by_cholesky(&lower),
                "not_positive_definite",
                "Potrf { k: 1 }",
            ),
            (by_cholesky(&spoiled), "not_finite", ""),
            (by_lu(&general), "singular", ""),
            (by_lu(&large), "overflow", ""),
        ] {
            let error = error.unwrap_err();
            assert_eq!(error.name(), name, "{error}");
            let source = std::error::Error::source(&error);
            let run: &Error = source.and_then(|source| source.downcast_ref()).unwrap();
            assert!(
                run.task().is_some_and(|found| found.starts_with(task)),
                "{run:?}"
            );
        }
    }

    #[test]
    fn a_pivot_keeps_its_index_and_its_value() {
        let error = through_a_run(
            || LinalgError::not_positive(MatrixLabel(None), 1537, -3.2e-4),
            2000,
        );
        assert_eq!(
            (error.name(), error.index()),
            ("not_positive_definite", Some(1537))
        );
        let text = "matrix is not positive definite: pivot 1537 is -3.2e-4 (must be > 0)";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn an_entry_keeps_its_row_and_its_column() {
        for (row, col) in [(0, 0), (6, 0), (6, 6), (3, 2)] {
            let error = through_a_run(|| LinalgError::not_finite(row, col, 7), 7);
            assert_eq!((error.name(), error.index()), ("not_finite", None));
            assert!(error.to_string().contains(&format!("({row}, {col})")));
            let LinalgError::NotFinite {
                of, row: r, col: c, ..
            } = error
            else {
                panic!("{error:?}");
            };
            assert_eq!((of, r, c), (Given::Matrix, row as u64, col as u64));
        }
    }

    #[test]
    fn any_other_failure_of_a_run_stays_what_it_is() {
        let error = through_a_run(|| TaskError::new("other", "something else"), 7);
        assert_eq!((error.name(), error.index()), ("other", None));
        assert!(error.to_string().contains("something else"));
    }
}
