//! What a Cholesky factorisation can answer instead of a factor.

use dataflow_core::{Error, TaskError};
use std::fmt;

/// Why there is no factor, or no solution.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CholeskyError {
    /// The matrix has `rows` rows and `cols` columns, or not the structure that is asked for.
    Shape(String),
    /// The leading minor of this order is not positive: LAPACK's INFO, counted from 1.
    NotPositiveDefinite {
        /// Order of the first leading minor that is not positive.
        index: u64,
        /// The pivot found there, in words.
        text: String,
    },
    /// An entry that would be read is NaN or infinite: the first in column order, from 0.
    NotFinite {
        /// Its row.
        row: u64,
        /// Its column.
        col: u64,
    },
    /// The run itself failed.
    Run(Error),
}

/// Kinds of failures of bodies, as reports name them.
const NOT_POSITIVE_DEFINITE: &str = "not_positive_definite";
const NOT_FINITE: &str = "not_finite";

impl CholeskyError {
    /// The failure in snake_case, as `--json` shows it.
    pub fn name(&self) -> &str {
        match self {
            CholeskyError::Shape(_) => "wrong_shape",
            CholeskyError::NotPositiveDefinite { .. } => NOT_POSITIVE_DEFINITE,
            CholeskyError::NotFinite { .. } => NOT_FINITE,
            CholeskyError::Run(error) => error.name(),
        }
    }

    /// LAPACK's INFO, where there is one.
    pub fn index(&self) -> Option<u64> {
        match self {
            CholeskyError::NotPositiveDefinite { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// What a body says of a pivot at global position `index` (from 1).
    pub(super) fn not_positive(index: u64, pivot: f64) -> TaskError {
        let text =
            format!("matrix is not positive definite: pivot {index} is {pivot:e} (must be > 0)");
        TaskError::new(NOT_POSITIVE_DEFINITE, text).with_index(index)
    }

    /// What a body says of an entry; ordered by columns in a matrix of `rows` rows.
    pub(super) fn not_finite(row: usize, col: usize, rows: usize) -> TaskError {
        let order = col as u64 * rows as u64 + row as u64;
        TaskError::new(NOT_FINITE, format!("entry ({row}, {col}) is not finite")).with_index(order)
    }

    /// The failure behind an error of a run over a matrix of `rows` rows.
    pub(super) fn of_run(error: Error, rows: usize) -> Self {
        match (error.name(), error.index()) {
            (NOT_POSITIVE_DEFINITE, Some(index)) => CholeskyError::NotPositiveDefinite {
                index,
                text: error.message().to_owned(),
            },
            (NOT_FINITE, Some(order)) => CholeskyError::NotFinite {
                row: order % rows as u64,
                col: order / rows as u64,
            },
            _ => CholeskyError::Run(error),
        }
    }
}

impl fmt::Display for CholeskyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CholeskyError::Shape(text) => f.write_str(text),
            CholeskyError::NotPositiveDefinite { text, .. } => f.write_str(text),
            CholeskyError::NotFinite { row, col } => write!(
                f,
                "matrix is not finite: entry ({row}, {col}), counted from 0, is NaN or infinite"
            ),
            CholeskyError::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CholeskyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CholeskyError::Run(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::port::Inline;
    use dataflow_core::run;
    use dataflow_core::space::Independent;

    /// What a failing body becomes on its way through a run.
    fn through_a_run(error: impl Fn() -> TaskError + Sync, rows: usize) -> CholeskyError {
        let failing = Independent::new("failing", 1, |_| Err(error()));
        CholeskyError::of_run(run(&failing, &Inline).unwrap_err(), rows)
    }

    #[test]
    fn a_pivot_keeps_its_index_and_its_value() {
        let error = through_a_run(|| CholeskyError::not_positive(1537, -3.2e-4), 2000);
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
            let error = through_a_run(|| CholeskyError::not_finite(row, col, 7), 7);
            assert_eq!((error.name(), error.index()), ("not_finite", None));
            assert!(error.to_string().contains(&format!("({row}, {col})")));
            let CholeskyError::NotFinite { row: r, col: c } = error else {
                panic!("{error:?}");
            };
            assert_eq!((r, c), (row as u64, col as u64));
        }
    }

    #[test]
    fn any_other_failure_of_a_run_stays_what_it_is() {
        let error = through_a_run(|| TaskError::new("other", "something else"), 7);
        assert_eq!((error.name(), error.index()), ("other", None));
        assert!(error.to_string().contains("something else"));
    }
}
