//! The factorisation: tiles of A become tiles of L, in place.
//!
//! # Law
//! For k = 0, 1, …: potrf on the diagonal tile; trsm on the tiles below; herk and gemm subtract
//! the column's contribution from what is right of it. The updates of a tile form one chain in
//! the order of k; so the bits of L depend on the matrix, the tile order and the backend only.
//!
//! # Source
//! Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
//! multicore architectures*, Parallel Computing 35 (2009); the task graph of Bosilca et al.,
//! *DAGuE*, Parallel Computing 38 (2012), Figure 1.

use crate::error::LinalgError;
use crate::kernel::{Backend, gemm, herk, potrf, trsm};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Courier, Executor};
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of tile Cholesky: indices of tiles, k the step.
    pub enum Task { Potrf { k }, Trsm { m, k }, Herk { m, k }, Gemm { m, n, k } }
}
use Task::{Gemm, Herk, Potrf, Trsm};

/// The tile that a task overwrites.
const TILE: usize = 0;
/// Trsm: the diagonal tile of L.
const TRIANGLE: usize = 1;
/// Herk and Gemm: the panel tile in the row of the tile.
const LEFT: usize = 1;
/// Gemm: the panel tile in the row of the tile's column.
const RIGHT: usize = 2;

/// The task space of the factorisation: nt(nt+1)(nt+2)/6 tasks for nt tiles a side.
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    backend: Backend,
    nt: u32,
}

/// Overwrites the lower triangle of `a` by its Cholesky factor L. n³/3 flops; copies no tile.
///
/// The strict upper triangle is not read. On failure the tiles are all there, in a state between
/// A and L.
///
/// # Errors
/// The first entry that is not finite; the first leading minor that is not positive (the same
/// for every executor, tile order and schedule, up to rounding); a matrix that is not stored as
/// [`Structure::Lower`].
pub fn factor<T: Scalar>(
    a: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let factor = Factor::new(a, backend)?;
    factor.scan(on)?;
    factor.run_watched(on, &Monitor::new())
}

impl<'a, T: Scalar> Factor<'a, T> {
    /// The space for a matrix of [`Structure::Lower`].
    ///
    /// # Errors
    /// If the matrix is stored otherwise.
    pub fn new(a: &'a TiledMatrix<T>, backend: Backend) -> Result<Self, LinalgError> {
        if a.structure() != Structure::Lower {
            let text = format!(
                "a Cholesky factorisation takes a matrix stored as Lower, this one is {:?}, {} x {}",
                a.structure(),
                a.rows(),
                a.cols()
            );
            return Err(LinalgError::Shape(text));
        }
        Ok(Factor {
            a,
            backend,
            nt: a.nt() as u32,
        })
    }

    /// Looks for an entry that is not finite, all tiles in parallel.
    ///
    /// # Errors
    /// [`LinalgError::NotFinite`]: the first in column order.
    pub fn scan(&self, on: &dyn Executor) -> Result<(), LinalgError> {
        self.scan_across(on, &Alone)
    }

    /// The same on all ranks, each of which looks through its tiles.
    ///
    /// # Errors
    /// As [`scan`](Self::scan), the same on every rank.
    pub fn scan_across(&self, on: &dyn Executor, courier: &dyn Courier) -> Result<(), LinalgError> {
        self.a.scan(on, courier)
    }

    /// Runs the factorisation alone, without the scan.
    ///
    /// # Errors
    /// As [`factor`].
    pub fn run_watched(&self, on: &dyn Executor, monitor: &Monitor) -> Result<Report, LinalgError> {
        T::run_factor(self, (on, None, monitor))
            .map_err(|error| LinalgError::of_run(error, self.a.rows()))
    }

    /// Runs this rank's part of the factorisation; every rank calls it with its part of the matrix.
    /// Sends each final tile once to each rank that needs it, diagonal tiles as triangles.
    ///
    /// # Errors
    /// As [`factor`], the same on every rank; and what [`run_across`] answers.
    pub fn run_across(
        &self,
        on: &dyn Executor,
        courier: &dyn Courier,
        monitor: &Monitor,
    ) -> Result<Report, LinalgError> {
        T::run_factor(self, (on, Some(courier), monitor))
            .map_err(|error| LinalgError::of_run(error, self.a.rows()))
    }

    /// The slot of tile (m, n) in the store of its rank; elsewhere a number that stands for it.
    fn slot(&self, m: u32, n: u32) -> usize {
        let (m, n) = (m as usize, n as usize);
        self.a.slot(m, n).unwrap_or_else(|| m + n * self.a.mt())
    }
}

impl<T: Scalar> TaskSpace for Factor<'_, T> {
    type Task = Task;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("cholesky");
        self.a.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend);
        about.class("Potrf").update("TILE");
        about.class("Trsm").update("TILE").read("TRIANGLE");
        about.class("Herk").update("TILE").read("LEFT");
        about
            .class("Gemm")
            .update("TILE")
            .read("LEFT")
            .read("RIGHT");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let nt = self.nt;
        let of_step = move |k| {
            let below = (k + 1..nt).flat_map(move |m| {
                let row = (k + 1..m).map(move |n| Gemm { m, n, k });
                [Trsm { m, k }, Herk { m, k }].into_iter().chain(row)
            });
            std::iter::once(Potrf { k }).chain(below)
        };
        (0..nt)
            .flat_map(of_step)
            .filter(move |&task| self.rank(task) == on)
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        // The tile was last written by the task before in its chain.
        let (m, n) = task.tile();
        match task {
            Potrf { k: 0 } | Trsm { k: 0, .. } | Herk { k: 0, .. } | Gemm { k: 0, .. } => {
                from.home(TILE, self.a.store(), self.slot(m, n));
            }
            Potrf { k } => from.task(TILE, Herk { m: k, k: k - 1 }, TILE),
            Trsm { m, k } => from.task(TILE, Gemm { m, n: k, k: k - 1 }, TILE),
            Herk { m, k } => from.task(TILE, Herk { m, k: k - 1 }, TILE),
            Gemm { m, n, k } => from.task(TILE, Gemm { m, n, k: k - 1 }, TILE),
        }
        match task {
            Potrf { .. } => {}
            Trsm { k, .. } => from.task(TRIANGLE, Potrf { k }, TILE),
            Herk { m, k } => from.task(LEFT, Trsm { m, k }, TILE),
            Gemm { m, n, k } => {
                from.task(LEFT, Trsm { m, k }, TILE);
                from.task(RIGHT, Trsm { m: n, k }, TILE);
            }
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        let nt = self.nt;
        match task {
            Potrf { k } => {
                to.range(TILE, k + 1..nt, |m| Trsm { m, k }, TRIANGLE);
                to.home(TILE, self.a.store(), self.slot(k, k));
            }
            Trsm { m, k } => {
                to.task(TILE, Herk { m, k }, LEFT);
                to.range(TILE, k + 1..m, |n| Gemm { m, n, k }, LEFT);
                to.range(TILE, m + 1..nt, |i| Gemm { m: i, n: m, k }, RIGHT);
                to.home(TILE, self.a.store(), self.slot(m, k));
            }
            Herk { m, k } if m == k + 1 => to.task(TILE, Potrf { k: m }, TILE),
            Herk { m, k } => to.task(TILE, Herk { m, k: k + 1 }, TILE),
            Gemm { m, n, k } if n == k + 1 => to.task(TILE, Trsm { m, k: n }, TILE),
            Gemm { m, n, k } => to.task(TILE, Gemm { m, n, k: k + 1 }, TILE),
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            Potrf { k } => {
                // A[k,k] ← L[k,k] with A[k,k] = L[k,k] · L[k,k]ᴴ
                let [tile] = flows.slots();
                let tile = tile.update();
                tile.set_lower(true);
                potrf(self.backend, tile).map_err(|failed| {
                    let index = self.a.row_range(k as usize).start + failed.index;
                    LinalgError::not_positive(index as u64, failed.pivot)
                })?;
            }
            Trsm { .. } => {
                // A[m,k] ← A[m,k] · L[k,k]⁻ᴴ
                let [tile, triangle] = flows.slots();
                trsm(self.backend, triangle.read(), tile.update());
            }
            Herk { .. } => {
                // A[m,m] ← A[m,m] − L[m,k] · L[m,k]ᴴ
                let [tile, left] = flows.slots();
                herk(self.backend, left.read(), tile.update());
            }
            Gemm { .. } => {
                // A[m,n] ← A[m,n] − L[m,k] · L[n,k]ᴴ
                let [tile, left, right] = flows.slots();
                gemm(self.backend, left.read(), right.read(), tile.update());
            }
        }
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        let (m, n) = task.tile();
        self.a.rank_of(m as usize, n as usize)
    }

    /// The bottom level: the longest way to the end in units of nb³/3 flops, own weight included.
    fn priority(&self, task: Task) -> i64 {
        let last = i64::from(self.nt) - 1;
        // Potrf 1, Trsm 3, Herk 3, Gemm 6; a step down the subdiagonal is Trsm + Gemm = 9.
        let potrf = |k: i64| if k == last { 1 } else { 9 * (last - k) - 1 };
        let (m, n) = task.tile();
        let (m, n) = (i64::from(m), i64::from(n));
        match task {
            Potrf { .. } => potrf(n),
            Trsm { .. } => 9 * (last - n) - 2,
            Herk { k, .. } => 3 * (m - i64::from(k)) + potrf(m),
            Gemm { k, .. } => 6 * (n - i64::from(k)) + 9 * (last - n) - 2,
        }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let first = Potrf { k: 0 };
        let here = (self.nt > 0 && self.rank(first) == on).then_some(first);
        here.into_iter()
    }

    fn count(&self, on: Rank) -> u64 {
        let nt = u64::from(self.nt);
        match self.a.distribution().n_ranks() {
            1 => nt * (nt + 1) * (nt + 2) / 6,
            // Tile (m, n) is written n + 1 times.
            _ => {
                let columns = (0..self.nt).flat_map(|n| (n..self.nt).map(move |m| (m, n)));
                let here = columns.filter(|&(m, n)| self.a.rank_of(m as usize, n as usize) == on);
                here.map(|(_, n)| u64::from(n) + 1).sum()
            }
        }
    }
}

impl Task {
    /// The tile that a task writes.
    fn tile(self) -> (u32, u32) {
        match self {
            Potrf { k } => (k, k),
            Trsm { m, k } => (m, k),
            Herk { m, .. } => (m, m),
            Gemm { m, n, .. } => (m, n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Distribution, Grid, Layout};
    use dataflow_core::port::Heap;
    use std::collections::HashMap;
    use std::sync::Arc;

    /// A matrix of `nt` tiles a side that do not exist.
    fn vacant(nt: usize, grid: Grid) -> TiledMatrix<f64> {
        let layout = Layout::lower(nt, 1).unwrap();
        let layout = layout.distributed(Distribution::BlockCyclic(grid), Rank(0));
        TiledMatrix::vacant(layout.unwrap(), Arc::new(Heap))
    }

    fn n_tasks(nt: u64) -> u64 {
        nt * (nt + 1) * (nt + 2) / 6
    }

    #[test]
    fn the_space_is_proved_for_1_to_12_tiles_on_every_grid() {
        for (p, q) in [(1, 1), (2, 2), (2, 3)] {
            for nt in 0..=12 {
                let a = vacant(nt, Grid::new(p, q).unwrap());
                let space = Factor::new(&a, Backend::Auto).unwrap();
                verify(&space, p * q)
                    .unwrap_or_else(|fault| panic!("nt = {nt} on {p} x {q}: {fault}"));
                let count: u64 = (0..p * q).map(|on| space.count(Rank(on))).sum();
                assert_eq!(count, n_tasks(nt as u64), "nt = {nt} on {p} x {q}");
            }
        }
    }

    /// Hears whom a task feeds.
    #[derive(Default)]
    struct Fed(Vec<Task>);

    impl Successors<Factor<'_, f64>> for Fed {
        fn task(&mut self, _: usize, target: Task, _: usize) {
            self.0.push(target);
        }
        fn home(&mut self, _: usize, _: &Store<Tile<f64>>, _: usize) {}
    }

    /// The longest way from a task to the end, its own weight included.
    fn bottom_level(space: &Factor<'_, f64>, task: Task, known: &mut HashMap<Task, i64>) -> i64 {
        if let Some(level) = known.get(&task) {
            return *level;
        }
        let mut fed = Fed::default();
        space.successors(task, &mut fed);
        let levels = fed.0.into_iter();
        let after = levels.map(|next| bottom_level(space, next, known)).max();
        let weight = match task {
            Potrf { .. } => 1,
            Trsm { .. } | Herk { .. } => 3,
            Gemm { .. } => 6,
        };
        let level = weight + after.unwrap_or(0);
        known.insert(task, level);
        level
    }

    #[test]
    fn priorities_are_the_bottom_levels_of_the_graph() {
        for nt in 1..=12 {
            let a = vacant(nt, Grid::new(1, 1).unwrap());
            let space = Factor::new(&a, Backend::Auto).unwrap();
            let mut known = HashMap::new();
            for task in space.tasks(Rank(0)) {
                let level = bottom_level(&space, task, &mut known);
                assert_eq!(space.priority(task), level, "{task:?} of nt = {nt}");
            }
            assert_eq!(known.len() as u64, n_tasks(nt as u64));
        }
    }

    #[test]
    fn only_a_lower_matrix_is_accepted() {
        let layout = Layout::general(4, 3, 2).unwrap();
        let a = TiledMatrix::<f64>::zeros(layout);
        let refused = Factor::new(&a, Backend::Auto).unwrap_err();
        assert_eq!((refused.name(), refused.index()), ("wrong_shape", None));
        assert!(refused.to_string().contains("4 x 3"), "{refused}");
    }
}
