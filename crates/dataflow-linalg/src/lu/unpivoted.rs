//! The factorisation A = L·U without row swaps: tiles of A become tiles of L\U, in place.
//!
//! # Law
//! For k = 0, 1, …: the diagonal tile is factored; the tiles right of it are solved with L, those
//! below with U; every tile right of and below those loses their product. The updates of a tile
//! form one chain in the order of k; so the bits depend on the matrix, the tile order and the
//! backend only.
//!
//! Without swaps rounding errors may grow without bound: for matrices whose diagonal dominates.
//!
//! # Source
//! Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
//! multicore architectures*, Parallel Computing 35 (2009), without its pivoting.

use super::factor::expect_regular;
use super::pivots::{Pivots, Swaps, expect_general};
use crate::error::LinalgError;
use crate::kernel::Op::NoTranspose;
use crate::kernel::{Backend, Diagonal, Side, Triangle, gemm_op, getrf_unpivoted, trsm_op};
use crate::lookahead::Lookahead;
use crate::matrix::{Distribution, Part, Tile, TiledMatrix};
use crate::scalar::Scalar;
use crate::spans::Spans;
use dataflow_core::Report;
use dataflow_core::data::Version;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

/// The task space of the factorisation: nt(nt+1)(2nt+1)/6 tasks for nt tiles a side.
///
/// # Examples
/// A matrix whose diagonal is large needs no swaps:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::{Backend, Op};
/// use dataflow_linalg::lu::{self, Pivots, Unpivoted};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
///
/// let layout = Layout::general(20, 20, 8)?;    // 3 × 3 tiles
/// let a = TiledMatrix::from_fn(layout, |i, j| if i == j { 30.0 } else { 1.0 });
/// let pivots = Pivots::new(&a);
/// let report = Unpivoted::new(&a, &pivots, Backend::Auto)?.run(&Inline)?;
/// assert_eq!(report.tasks, 3 * 4 * 7 / 6);
///
/// let b = TiledMatrix::from_fn(Layout::general(20, 1, 8)?, |_, _| 49.0);
/// lu::solve(&a, &pivots, Op::NoTranspose, &b, Backend::Auto, &Inline)?;
/// assert!((b.get(19, 0).unwrap() - 1.0f64).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Unpivoted<'a, T: Scalar> {
    pub(crate) a: &'a TiledMatrix<T>,
    pub(super) backend: Backend,
    mt: u32,
    nt: u32,
    lookahead: Option<Lookahead>,
}

/// Overwrites `a` by L and U with A = L·U, and `pivots` by swaps that change nothing, so that the
/// factors serve wherever those with row swaps do. About n²·(m − n/3) flops for m ≥ n rows.
///
/// # Errors
/// As [`factor`](super::factor); after a zero pivot the factors mean nothing.
pub fn factor_unpivoted<T: Scalar>(
    a: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let factor = Unpivoted::new(a, pivots, backend)?;
    a.scan(on)?;
    let report = factor.run(on)?;
    expect_regular(a, on)?;
    Ok(report)
}

impl<'a, T: Scalar> Unpivoted<'a, T> {
    /// The space for a matrix of [`Structure::General`](crate::matrix::Structure::General); the
    /// swaps, which change nothing, are written at once.
    ///
    /// # Errors
    /// If the matrix is stored otherwise, or `pivots` are of another one.
    pub fn new(
        a: &'a TiledMatrix<T>,
        pivots: &Pivots<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        expect_general(a)?;
        pivots.expect_of(a)?;
        for k in 0..pivots.store().len() {
            if a.rank_of(k, k) == a.layout().rank() {
                let steps = a.tile_rows(k).min(a.tile_cols(k)) as u32;
                let none: Vec<u32> = (0..steps).collect();
                let swaps = Swaps::pack(&none, a.memory());
                let _ = pivots.store().put(k, Version::new(swaps));
            }
        }
        Ok(Unpivoted {
            a,
            backend,
            mt: a.mt() as u32,
            nt: a.nt() as u32,
            lookahead: None,
        })
    }

    /// The same with panels that run ahead of the other updates by so many columns only, as
    /// [`cholesky::Factor::with_lookahead`](crate::cholesky::Factor::with_lookahead); what it holds then:
    /// [`needs::lu_unpivoted_ahead`](crate::needs::lu_unpivoted_ahead).
    #[must_use]
    pub fn with_lookahead(self, columns: u32) -> Self {
        let lookahead = Some(Lookahead { columns });
        Unpivoted { lookahead, ..self }
    }

    /// Runs this rank's part of the factorisation; every rank calls it with its part of the matrix.
    /// Looks neither for entries that are not finite nor for zero pivots. Sends each final tile once
    /// to each rank that needs it: of a diagonal tile L along its row, U down its column.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a], on).map_err(LinalgError::Run)
    }
}

task_space! {
    /// The tasks of tile LU without pivoting: m and n are indices of tiles, k the step.
    pub enum UnpivotedTask;

    impl<T: Scalar> TaskSpace for Unpivoted<'_, T> {
        type Datum = Tile<T>;
        let mt = self.mt;
        let nt = self.nt;
        let p = self.a.grid().0;
        let q = self.a.grid().1;
        data A[m, n] where m < mt && n < nt
            in self.a.store() at self.a.place(m, n)
            on (m % p, n % q);
        // The triangles of a diagonal tile, of which each goes its own way.
        data L[k] of "lower";
        data U[k] of "upper";

        for k in 0..nt {
            if k < mt {
                // A[k,k] ← L\U with A[k,k] = L · U
                Getrf { k }: update tile = A[k, k], new lower = L[k], new upper = U[k] => {
                    getrf_unpivoted(self.backend, tile);
                    lower.put(tile.copy_of(Part::UnitLower));
                    upper.put(tile.copy_of(Part::Upper));
                }
                for n in k + 1..nt {
                    // A[k,n] ← L[k,k]⁻¹ · A[k,n]
                    Right { n, k }: update tile = A[k, n], read triangle = L[k] => {
                        let lower = (NoTranspose, (Triangle::Lower, Diagonal::Unit), triangle);
                        trsm_op(self.backend, Side::Left, lower, tile);
                    }
                }
                for m in k + 1..mt {
                    // A[m,k] ← A[m,k] · U[k,k]⁻¹
                    Below { m, k }: update tile = A[m, k], read triangle = U[k] => {
                        let upper = (NoTranspose, (Triangle::Upper, Diagonal::NonUnit), triangle);
                        trsm_op(self.backend, Side::Right, upper, tile);
                    }
                    for n in k + 1..nt {
                        // A[m,n] ← A[m,n] − L[m,k] · U[k,n]
                        Update { m, n, k }:
                            update tile = A[m, n], read left = A[m, k], read upper = A[k, n]
                            => gemm_op(self.backend, (NoTranspose, left), (NoTranspose, upper), tile);
                    }
                }
            }
        }

        fn describe(&self, about: &mut Description) {
            about.name("lu").parameter("m", self.a.rows());
            self.a.layout().describe(about);
            about.parameter("precision", T::PRECISION);
            about.parameter("backend", self.backend);
            about.parameter("pivoting", "none");
            if let Some(ahead) = self.lookahead {
                about.parameter("lookahead", ahead.columns);
            }
        }

        /// Tile (m, n) has min(m, n) + 1 tasks; looks at each row of tiles that is there.
        fn count(&self, on: Rank) -> u64 {
            let Distribution::BlockCyclic(grid) = *self.a.distribution();
            let Some((row, column)) = grid.place(on) else { return 0 };
            let (mt, nt) = (self.mt as usize, self.nt as usize);
            let here = grid.columns_in(column, 0..nt);
            let of_row = |m: usize| {
                let left = grid.columns_in(column, 0..nt.min(m + 1));
                // Those have column + 1, column + 1 + q, … tasks.
                let left_of = left * (column + 1) + grid.q() * left * left.saturating_sub(1) / 2;
                (left_of + (here - left) * (m + 1)) as u64
            };
            (row..mt).step_by(grid.p()).map(of_row).sum()
        }

        /// Panels first, a row of U as the column of L beside it; then updates by spans of steps. With a lookahead
        /// its order.
        fn priority(&self, task: UnpivotedTask) -> i64 {
            let (m, n, k) = task.place();
            if let Some(ahead) = self.lookahead {
                return ahead.urgency(self.nt, k, n);
            }
            let longer = self.mt.max(self.nt);
            let spans = Spans::new(longer, longer);
            let tile = (m.max(n), m.min(n));
            match task {
                Getrf { .. } | Right { .. } | Below { .. } => spans.panel(tile),
                Update { .. } => spans.update(tile, k),
            }
        }
    }
}
use UnpivotedTask::{Below, Getrf, Right, Update};

impl UnpivotedTask {
    /// The tile that a task writes, and its step.
    fn place(self) -> (u32, u32, u32) {
        match self {
            Getrf { k } => (k, k, k),
            Right { n, k } => (k, n, k),
            Below { m, k } => (m, k, k),
            Update { m, n, k } => (m, n, k),
        }
    }
}
