//! Solves with R and Rᴴ: the tiles of X one after the other, from below or from above.
//!
//! # Law
//! The updates of a tile of B form one chain. A task runs where its tile of B lies; tiles of R are
//! given by tasks where they lie, those of X by the task that solved them.

use crate::error::LinalgError;
use crate::kernel::{Backend, Op, gemm_op, solve_leading};
use crate::matrix::{Structure, Tile, TiledMatrix, expect_two};
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

/// The task space of X ← R⁻¹·B, or R⁻ᴴ·B, for the R of a factored matrix.
///
/// # Examples
/// See [`least_squares`](super::least_squares()), whose last stage it is.
#[derive(Clone, Copy, Debug)]
pub struct Solve<'a, T: Scalar> {
    pub(super) a: &'a TiledMatrix<T>,
    op: Op,
    pub(super) b: &'a TiledMatrix<T>,
    pub(super) x: &'a TiledMatrix<T>,
    backend: Backend,
    steps: u32,
    columns: u32,
}

impl<'a, T: Scalar> Solve<'a, T> {
    /// The space for the leading square R of a factored matrix with k columns, m ≥ n.
    ///
    /// - `op`: [`Op::NoTranspose`] or [`Op::ConjTranspose`]
    /// - `b`: k rows, or more for R itself; the first k are overwritten
    /// - `x`: k rows, or more for Rᴴ; the first k are overwritten by the solution
    ///
    /// # Errors
    /// If the shapes, tile orders or distributions do not fit, or two of the matrices are one.
    pub fn new(
        a: &'a TiledMatrix<T>,
        op: Op,
        b: &'a TiledMatrix<T>,
        x: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        let k = a.cols();
        let (of_b, of_x) = (b.layout(), x.layout());
        let are_cut_like_r = [of_b, of_x]
            .iter()
            .all(|side| (side.structure(), side.nb()) == (Structure::General, a.nb()));
        let are_as_high = match op {
            Op::NoTranspose => b.rows() >= k && x.rows() == k,
            Op::ConjTranspose => b.rows() == k && x.rows() >= k,
            Op::Transpose => false,
        };
        let are_alike = (of_b.cols(), of_b.distribution()) == (of_x.cols(), of_x.distribution())
            && of_b.distribution().n_ranks() == a.distribution().n_ranks();
        if !(a.rows() >= k && are_cut_like_r && are_as_high && are_alike) {
            let [a, b, x] = [a, b, x].map(TiledMatrix::laid_out);
            let rows = match op {
                Op::NoTranspose => format!("X of {k} rows, A and B of no fewer"),
                Op::ConjTranspose => format!("B of {k} rows, A and X of no fewer"),
                Op::Transpose => "NoTranspose or ConjTranspose".to_owned(),
            };
            return Err(LinalgError::Shape(format!(
                "R of a factored matrix{a} does not fit right-hand sides{b} and solutions{x}, by {op:?} (must be \
                 {rows}; B and X General and alike, in tiles of one order and on as many ranks)"
            )));
        }
        expect_two(("A", a), ("B", b))?;
        expect_two(("A", a), ("X", x))?;
        expect_two(("B", b), ("X", x))?;
        Ok(Solve {
            a,
            op,
            b,
            x,
            backend,
            steps: a.nt() as u32,
            columns: b.nt() as u32,
        })
    }

    /// Looks for a zero on the diagonal of R; every rank calls it with its part.
    ///
    /// # Errors
    /// [`LinalgError::Singular`] with the first zero, the same on every rank; what
    /// [`run_across`](dataflow_core::run_across) answers.
    pub fn expect_regular(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        self.a.expect_regular(on)
    }

    /// Solves with an R that has no zero on its diagonal; every rank calls it with its part.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a, self.b, self.x], on).map_err(LinalgError::Run)
    }

    /// Whether the last rows are solved first.
    fn upwards(&self) -> bool {
        self.op == Op::NoTranspose
    }

    /// The row that has a turn.
    pub(super) fn row(&self, turn: u32) -> u32 {
        match self.upwards() {
            true => self.steps - 1 - turn,
            false => turn,
        }
    }

    /// The tile of R that an update of the row of turn m with that of turn k reads.
    pub(super) fn factor(&self, m: u32, k: u32) -> (u32, u32) {
        let (m, k) = (self.row(m), self.row(k));
        if self.upwards() { (m, k) } else { (k, m) }
    }
}

task_space! {
    /// The tasks of a solve with R: m and k are turns of rows of tiles, k the step, m that of the row that
    /// is updated; j the column of tiles of right-hand sides.
    pub enum SolveTask;

    impl<T: Scalar> TaskSpace for Solve<'_, T> {
        type Datum = Tile<T>;
        let steps = self.steps;
        let columns = self.columns;
        data R[m, k]
            in self.a.store() at { let (i, j) = self.factor(m, k); self.a.place(i, j) }
            on { let (i, j) = self.factor(m, k); self.a.rank_of(i as usize, j as usize) };
        data B[m, j]
            in self.b.store() at self.b.place(self.row(m), j)
            on self.b.rank_of(self.row(m) as usize, j as usize);
        data X[k, j] in self.x.store() at self.x.place(self.row(k), j);

        if columns > 0 {
            for m in 0..steps {
                for k in 0..=m {
                    Give { m, k }: give R[m, k];
                }
            }
        }
        for j in 0..columns {
            for k in 0..steps {
                // X[k,j] ← op(R[k,k])⁻¹·B[k,j]
                Solve { k, j }: update side = B[k, j], read factor = R[k, k], update solved = X[k, j]
                    => solve_leading(self.op, factor, side, solved);
                for m in k + 1..steps {
                    // B[m,j] ← B[m,j] − op(R)[m,k]·X[k,j]
                    Update { m, k, j }: update side = B[m, j], read factor = R[m, k], read solved = X[k, j]
                        => gemm_op(self.backend, (self.op, factor), (Op::NoTranspose, solved), side);
                }
            }
        }

        fn describe(&self, about: &mut Description) {
            about.name("qr solve").parameter("m", self.a.rows());
            self.a.layout().describe(about);
            about.parameter("nrhs", self.b.cols());
            about.parameter("op", format!("{:?}", self.op));
            about.parameter("grid of B", self.b.distribution());
            about.parameter("precision", T::PRECISION);
            about.parameter("backend", self.backend);
        }

        /// Step by step, what is solved first.
        fn priority(&self, task: SolveTask) -> i64 {
            match task {
                Give { k, .. } | SolveTask::Solve { k, .. } => -2 * i64::from(k),
                Update { m, .. } => 1 - 2 * i64::from(m),
            }
        }
    }
}
use SolveTask::{Give, Update};
