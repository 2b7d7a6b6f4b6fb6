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

use super::factor::{expect_general, expect_regular};
use super::pivots::{Pivots, Swaps};
use crate::error::LinalgError;
use crate::kernel::{Backend, Diagonal, Op, Side, Triangle, gemm_op, getrf_unpivoted, trsm_op};
use crate::matrix::{Part, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::data::Version;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Courier, Executor};
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of tile LU without pivoting: m and n are indices of tiles, k the step.
    pub enum UnpivotedTask { Getrf { k }, Right { n, k }, Below { m, k }, Update { m, n, k } }
}
use UnpivotedTask::{Below, Getrf, Right, Update};

/// The tile that a task overwrites.
const TILE: usize = 0;
/// Getrf: the two triangles of the diagonal tile, of which each goes its own way.
const MADE_LOWER: usize = 1;
const MADE_UPPER: usize = 2;
/// Right and Below: the triangle of the diagonal tile that they solve with.
const TRIANGLE: usize = 1;
/// Update: the tile of L in its row, that of U in its column.
const LEFT: usize = 1;
const UPPER: usize = 2;

/// The task space of the factorisation: nt(nt+1)(2nt+1)/6 tasks for nt tiles a side.
#[derive(Clone, Copy)]
pub struct Unpivoted<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    backend: Backend,
    mt: u32,
    nt: u32,
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
    a.scan(on, &Alone)?;
    let report = factor.run_across(on, &Alone, &Monitor::new())?;
    expect_regular(a, on, &Alone)?;
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
                pivots.store().put(k, Version::new(swaps));
            }
        }
        Ok(Unpivoted {
            a,
            backend,
            mt: a.mt() as u32,
            nt: a.nt() as u32,
        })
    }

    /// Runs this rank's part of the factorisation; every rank calls it with its part of the matrix.
    /// Looks neither for entries that are not finite nor for zero pivots. Sends each final tile once
    /// to each rank that needs it: of a diagonal tile L along its row, U down its column.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run_across(
        &self,
        on: &dyn Executor,
        courier: &dyn Courier,
        monitor: &Monitor,
    ) -> Result<Report, LinalgError> {
        T::run_lu_unpivoted(self, (on, courier, monitor)).map_err(LinalgError::Run)
    }

    /// Who changes tile (m, n) in step k.
    fn writer(m: u32, n: u32, k: u32) -> UnpivotedTask {
        match (m == k, n == k) {
            (true, true) => Getrf { k },
            (true, false) => Right { n, k },
            (false, true) => Below { m, k },
            (false, false) => Update { m, n, k },
        }
    }
}

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

impl<T: Scalar> TaskSpace for Unpivoted<'_, T> {
    type Task = UnpivotedTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("lu").parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend.on_this_machine());
        about.parameter("pivoting", "none");
        let getrf = about.class("Getrf").update("TILE");
        let getrf = getrf.new_flow("LOWER").of("lower");
        getrf.new_flow("UPPER").of("upper");
        let right = about.class("Right").update("TILE");
        right.read("TRIANGLE").of("lower");
        let below = about.class("Below").update("TILE");
        below.read("TRIANGLE").of("upper");
        let update = about.class("Update").update("TILE");
        update.read("LEFT").read("UPPER");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = UnpivotedTask> + Send {
        let mt = self.mt;
        let tiles = (0..self.nt).flat_map(move |n| (0..mt).map(move |m| (m, n)));
        let here = tiles.filter(move |&(m, n)| self.a.rank_of(m as usize, n as usize) == on);
        here.flat_map(|(m, n)| (0..=m.min(n)).map(move |k| Self::writer(m, n, k)))
    }

    fn inputs(&self, task: UnpivotedTask, from: &mut impl Inputs<Self>) {
        let (m, n, k) = task.place();
        match k.checked_sub(1) {
            None => from.home(TILE, self.a.store(), self.a.place(m, n)),
            Some(k) => from.task(TILE, Update { m, n, k }, TILE),
        }
        match task {
            Getrf { .. } => {}
            Right { k, .. } => from.task(TRIANGLE, Getrf { k }, MADE_LOWER),
            Below { k, .. } => from.task(TRIANGLE, Getrf { k }, MADE_UPPER),
            Update { m, n, k } => {
                from.task(LEFT, Below { m, k }, TILE);
                from.task(UPPER, Right { n, k }, TILE);
            }
        }
    }

    fn successors(&self, task: UnpivotedTask, to: &mut impl Successors<Self>) {
        let (mt, nt) = (self.mt, self.nt);
        let (m, n, k) = task.place();
        match task {
            Getrf { k } => {
                to.range(MADE_LOWER, k + 1..nt, |n| Right { n, k }, TRIANGLE);
                to.range(MADE_UPPER, k + 1..mt, |m| Below { m, k }, TRIANGLE);
            }
            Right { n, k } => to.range(TILE, k + 1..mt, |m| Update { m, n, k }, UPPER),
            Below { m, k } => to.range(TILE, k + 1..nt, |n| Update { m, n, k }, LEFT),
            Update { .. } => return to.task(TILE, Self::writer(m, n, k + 1), TILE),
        }
        to.home(TILE, self.a.store(), self.a.place(m, n));
    }

    fn run(&self, task: UnpivotedTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        use Op::NoTranspose;
        match task {
            Getrf { .. } => {
                // A[k,k] ← L\U with A[k,k] = L · U
                let [tile, lower, upper] = flows.slots();
                let tile = tile.update();
                getrf_unpivoted(self.backend, tile);
                lower.put(tile.copy_of(Part::UnitLower));
                upper.put(tile.copy_of(Part::Upper));
            }
            Right { .. } => {
                // A[k,n] ← L[k,k]⁻¹ · A[k,n]
                let [tile, triangle] = flows.slots();
                let lower = (
                    NoTranspose,
                    (Triangle::Lower, Diagonal::Unit),
                    triangle.read(),
                );
                trsm_op(self.backend, Side::Left, lower, tile.update());
            }
            Below { .. } => {
                // A[m,k] ← A[m,k] · U[k,k]⁻¹
                let [tile, triangle] = flows.slots();
                let upper = (
                    NoTranspose,
                    (Triangle::Upper, Diagonal::NonUnit),
                    triangle.read(),
                );
                trsm_op(self.backend, Side::Right, upper, tile.update());
            }
            Update { .. } => {
                // A[m,n] ← A[m,n] − L[m,k] · U[k,n]
                let [tile, left, upper] = flows.slots();
                let (left, upper) = (left.read(), upper.read());
                gemm_op(
                    self.backend,
                    (NoTranspose, left),
                    (NoTranspose, upper),
                    tile.update(),
                );
            }
        }
        Ok(())
    }

    fn rank(&self, task: UnpivotedTask) -> Rank {
        let (m, n, _) = task.place();
        self.a.rank_of(m as usize, n as usize)
    }

    /// The bottom level of a square matrix: the longest way to the end in units of nb³/3 flops,
    /// own weight included. For other shapes as if each tile lay in the square of all steps.
    fn priority(&self, task: UnpivotedTask) -> i64 {
        let last = i64::from(self.mt.min(self.nt)) - 1;
        let (m, n, k) = task.place();
        let (m, n, k) = (i64::from(m).min(last), i64::from(n).min(last), i64::from(k));
        // Getrf 2, Right and Below 3, Update 6; a step down the diagonal is 2 + 3 + 6 = 11.
        let (long, short) = (m.max(n), m.min(n));
        6 * (short - k) + 9 * (long - short) + 11 * (last - long) + 2
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = UnpivotedTask> + Send {
        let first = Getrf { k: 0 };
        let here = self.mt > 0 && self.nt > 0 && self.rank(first) == on;
        here.then_some(first).into_iter()
    }

    fn count(&self, on: Rank) -> u64 {
        let tiles = (0..self.nt).flat_map(|n| (0..self.mt).map(move |m| (m, n)));
        let here = tiles.filter(|&(m, n)| self.a.rank_of(m as usize, n as usize) == on);
        here.map(|(m, n)| u64::from(m.min(n)) + 1).sum()
    }
}
