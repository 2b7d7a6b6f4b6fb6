//! The solution of A·X = B, Aᵀ·X = B or Aᴴ·X = B from the factors, as one graph: rows are
//! reordered, then one triangle is solved down the tiles and the other back up; for the transposed
//! systems the rows come last.

use super::factor::expect_regular;
use super::pivots::{Pivots, expect_general};
use super::reorder::Reorder;
use crate::error::LinalgError;
use crate::kernel::{Backend, Op};
use crate::matrix::{LaidOut, Structure, Tile, TiledMatrix, expect_two};
use crate::product::{Substitution, TriangularOperand};
use crate::scalar::Scalar;
use crate::succession::run_series;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::space::Erased;
use dataflow_core::words::counted;

/// The spaces of a solution, one after another: about nt² tasks for each tile column of B.
///
/// # Examples
/// See [`solve`].
#[derive(Clone, Copy, Debug)]
pub struct Solve<'a, T: Scalar> {
    reorder: Reorder<'a, T>,
    substitution: Substitution<'a, T>,
    /// Whether the rows are reordered before the solves, not after.
    rows_first: bool,
}

/// Overwrites `b` by the solution X of op(A)·X = B; `lu` and `pivots` are what
/// [`factor`](super::factor) left. 2n² flops for each column.
///
/// # Errors
/// [`LinalgError::Singular`] if a pivot is zero, [`LinalgError::Overflow`] if one is not finite: `b` is then
/// as it was. If the shapes or tile orders do not fit, B is the factors, or the run fails.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::{Backend, Op};
/// use dataflow_linalg::{lu, matrix::{Layout, TiledMatrix}};
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let pivots = lu::Pivots::new(&a);
/// lu::factor(&a, &pivots, Backend::Auto, &Inline)?;
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [4.0, 10.0][i]);
/// lu::solve(&a, &pivots, Op::NoTranspose, &b, Backend::Auto, &Inline)?;
/// assert_eq!(b.to_column_major()?, [1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve<T: Scalar>(
    lu: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    op: Op,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let solve = Solve::new(lu, pivots, op, b, backend)?;
    if lu.n_told(on) == 1 {
        // Over ranks the run says it, on all of them.
        pivots.expect_filled()?;
    }
    expect_regular(lu, on)?;
    solve.run(on)
}

/// Refuses factors that are not square, and right-hand sides that are not cut and spread alike, or that
/// are the factors.
pub(super) fn expect_sides<T: Scalar>(
    lu: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
) -> Result<(), LinalgError> {
    expect_fit(lu.laid_out(), b.laid_out())?;
    expect_two(("L\\U", lu), ("B", b))
}

/// Refuses factors that are not square, and right-hand sides that are not cut and spread alike.
pub(super) fn expect_fit(of_lu: LaidOut<'_>, of_b: LaidOut<'_>) -> Result<(), LinalgError> {
    let (lu, b) = (of_lu.1, of_b.1);
    let fits = lu.rows() == lu.cols()
        && b.structure() == Structure::General
        && b.rows() == lu.rows()
        && b.nb() == lu.nb()
        && b.distribution() == lu.distribution();
    if fits {
        return Ok(());
    }
    let text = format!(
        "right-hand sides{of_b} do not fit factors{of_lu} (which must be square, and B General, with as many \
         rows, in tiles of one order and spread alike)"
    );
    Err(LinalgError::Shape(text))
}

impl<'a, T: Scalar> Solve<'a, T> {
    /// The space for factors of a square matrix and right-hand sides of the same tile order, on
    /// the same grid.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn new(
        lu: &'a TiledMatrix<T>,
        pivots: &'a Pivots<T>,
        op: Op,
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        expect_general(lu)?;
        pivots.expect_of(lu)?;
        expect_sides(lu, b)?;
        let lower = TriangularOperand::lower(lu).unit().with(op);
        let upper = TriangularOperand::upper(lu).with(op);
        let rows_first = op == Op::NoTranspose;
        let triangles = if rows_first {
            [lower, upper]
        } else {
            [upper, lower]
        };
        let reorder = Reorder::new(pivots, b);
        Ok(Solve {
            reorder: if rows_first { reorder } else { reorder.back() },
            substitution: Substitution::with_both(triangles, b, backend)?,
            rows_first,
        })
    }

    /// The spaces that make a unit matrix `unit`, of the factors' shape, A⁻ᴴ.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn of_unit(
        lu: &'a TiledMatrix<T>,
        pivots: &'a Pivots<T>,
        unit: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        let solve = Solve::new(lu, pivots, Op::ConjTranspose, unit, backend)?;
        if unit.cols() == lu.cols() {
            return Ok(Solve {
                substitution: solve.substitution.of_unit(),
                ..solve
            });
        }
        let text = format!(
            "a unit matrix of {} does not fit factors of order {}",
            counted(unit.cols(), "column"),
            lu.cols()
        );
        Err(LinalgError::Shape(text))
    }

    /// Both spaces, in their order: to be part of a longer series.
    pub fn parts(&self) -> [Erased<'_, Tile<T>>; 2] {
        let (reorder, solve) = (self.reorder.erased(), self.substitution.erased());
        match self.rows_first {
            true => [reorder, solve],
            false => [solve, reorder],
        }
    }

    /// Runs this rank's part of the solution; every rank calls it with its part of the matrices.
    /// Does not look for zero pivots.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        run_series(self.parts(), &self.substitution.matrices(), on).map_err(LinalgError::Run)
    }
}
