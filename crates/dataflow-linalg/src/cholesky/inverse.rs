//! The inverse of a positive definite matrix: A = L·Lᴴ, W = L⁻¹, A⁻¹ = Wᴴ·W as one graph, in place
//! and without a barrier; the three stages overlap wherever their data allow it.
//!
//! # Law
//! Each stage updates a tile in the order of k. Tasks that read a tile and the task that overwrites
//! it next do not wait for each other: whoever overwrites too early gets a copy. So the bits depend
//! on the matrix, the tile order and the backend only, and the longest way is 3·nt tasks.
//!
//! # Signs
//! The second stage leaves −W below the diagonal: its own updates and the squares of the third stage
//! are the same for both signs, and `Trmm`, where it matters, turns it.
//!
//! # Source
//! Agullo, Bouwmeester, Dongarra, Kurzak, Langou, Rosenberg, *Towards an efficient tile matrix
//! inversion of symmetric positive definite matrices on multicore architectures*, VECPAR 2010,
//! Algorithm 1.

use super::factor::Factor;
use crate::error::LinalgError;
use crate::kernel::{
    Backend, Diagonal, Op, Side, Triangle, gemm, gemm_add, gemm_op, herk, herk_add, lauum, potrf,
    trmm, trsm, trsm_op, trtri,
};
use crate::matrix::{Part, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Courier, Executor};
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of the inversion: m and n name a tile, k the step; a line for each stage.
    pub enum InverseTask {
        Potrf { k }, Trsm { m, k }, Herk { m, k }, Gemm { m, n, k },
        Trtri { k }, TrsmRight { m, k }, TrsmLeft { m, n }, Invert { m, n, k },
        Lauum { k }, Trmm { m, n }, Square { n, k }, Multiply { m, n, k },
    }
}
use InverseTask::{
    Gemm, Herk, Invert, Lauum, Multiply, Potrf, Square, Trmm, Trsm, TrsmLeft, TrsmRight, Trtri,
};

/// The tile that a task overwrites.
const TILE: usize = 0;
/// Solves and Trmm: the diagonal tile.
const TRIANGLE: usize = 1;
/// Updates: the factors of the product.
const LEFT: usize = 1;
const RIGHT: usize = 2;

/// The task space of the inversion: nt(nt+1)(nt+2)/2 tasks for nt tiles a side.
#[derive(Clone, Copy, Debug)]
pub struct Inverse<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    backend: Backend,
    nt: u32,
}

/// Overwrites the lower triangle of `a` by that of A⁻¹. n³ flops; copies at most three versions of
/// each tile, and only those that are overwritten before all have read them.
///
/// The strict upper triangle is not read; imaginary parts on the diagonal are not read and become
/// 0. On failure the tiles are all there, in a state between A and A⁻¹.
///
/// # Errors
/// As [`factor`](super::factor).
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::{cholesky, kernel::Backend, matrix::{Layout, TiledMatrix}};
/// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 2.0], [2.0, 2.0]][i][j]);
/// cholesky::inverse(&a, Backend::Auto, &Inline)?;
/// assert_eq!([a.get(0, 0), a.get(1, 0), a.get(1, 1)], [Some(0.5), Some(-0.5), Some(1.0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn inverse<T: Scalar>(
    a: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let inverse = Inverse::new(a, backend)?;
    a.scan(on, &Alone)?;
    inverse.run_across(on, &Alone, &Monitor::new())
}

impl<'a, T: Scalar> Inverse<'a, T> {
    /// The space for a matrix of [`Structure::Lower`](crate::matrix::Structure::Lower).
    ///
    /// # Errors
    /// If the matrix is stored otherwise.
    pub fn new(a: &'a TiledMatrix<T>, backend: Backend) -> Result<Self, LinalgError> {
        Factor::new(a, backend)?;
        let nt = a.nt() as u32;
        Ok(Inverse { a, backend, nt })
    }

    /// Runs this rank's part of the inversion; every rank calls it with its part of the matrix. Does
    /// not look for entries that are not finite ([`TiledMatrix::scan`]).
    ///
    /// # Errors
    /// As [`inverse`], the same on every rank; and what [`run_across`](dataflow_core::run_across) answers.
    pub fn run_across(
        &self,
        on: &dyn Executor,
        courier: &dyn Courier,
        monitor: &Monitor,
    ) -> Result<Report, LinalgError> {
        T::run_inverse(self, (on, courier, monitor))
            .map_err(|error| LinalgError::of_run(error, self.a.rows()))
    }

    /// The task that writes tile (m, n), m > n, last before [`TrsmLeft`].
    fn before_left(m: u32, n: u32) -> InverseTask {
        match m - n {
            1 => TrsmRight { m, k: n },
            _ => Invert { m, n, k: m - 1 },
        }
    }

    /// The edges of the tile before `TrsmLeft`: the rows below read it, then it is overwritten.
    fn pass_below(&self, m: u32, n: u32, to: &mut impl Successors<Self>) {
        to.range(TILE, m + 1..self.nt, |i| Invert { m: i, n, k: m }, RIGHT);
        to.task(TILE, TrsmLeft { m, n }, TILE);
    }

    /// The last stage's next step on a tile, or home.
    fn pass_on(&self, task: InverseTask, next: InverseTask, to: &mut impl Successors<Self>) {
        let (m, n) = task.tile();
        match next {
            Square { k, .. } | Multiply { k, .. } if k == self.nt => {
                to.home(TILE, self.a.store(), self.a.place(m, n));
            }
            _ => to.task(TILE, next, TILE),
        }
    }
}

impl<T: Scalar> TaskSpace for Inverse<'_, T> {
    type Task = InverseTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("cholesky_inverse");
        self.a.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend.on_this_machine());
        about.class("Potrf").update("TILE");
        about.class("Trsm").update("TILE").read("TRIANGLE");
        about.class("Herk").update("TILE").read("LEFT");
        let gemm = about.class("Gemm").update("TILE");
        gemm.read("LEFT").read("RIGHT");
        about.class("Trtri").update("TILE");
        about.class("TrsmRight").update("TILE").read("TRIANGLE");
        about.class("TrsmLeft").update("TILE").read("TRIANGLE");
        let invert = about.class("Invert").update("TILE");
        invert.read("LEFT").read("RIGHT");
        about.class("Lauum").update("TILE");
        about.class("Trmm").update("TILE").read("TRIANGLE");
        about.class("Square").update("TILE").read("LEFT");
        let multiply = about.class("Multiply").update("TILE");
        multiply.read("LEFT").read("RIGHT");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = InverseTask> + Send {
        let nt = self.nt;
        let of_tile = move |(m, n): (u32, u32)| {
            let diagonal = [Potrf { k: n }, Trtri { k: n }, Lauum { k: n }];
            let below = [
                Trsm { m, k: n },
                TrsmRight { m, k: n },
                TrsmLeft { m, n },
                Trmm { m, n },
            ];
            let ends = match m == n {
                true => diagonal.to_vec(),
                false => below.to_vec(),
            };
            let factor = (0..n).map(move |k| match m == n {
                true => Herk { m, k },
                false => Gemm { m, n, k },
            });
            let invert = (n + 1..m).map(move |k| Invert { m, n, k });
            let square = (m + 1..nt).map(move |k| match m == n {
                true => Square { n, k },
                false => Multiply { m, n, k },
            });
            ends.into_iter().chain(factor).chain(invert).chain(square)
        };
        self.a.layout().tiles_of(on).flat_map(of_tile)
    }

    fn inputs(&self, task: InverseTask, from: &mut impl Inputs<Self>) {
        let (m, n) = task.tile();
        match task {
            Potrf { k: 0 } | Trsm { k: 0, .. } | Herk { k: 0, .. } | Gemm { k: 0, .. } => {
                from.home(TILE, self.a.store(), self.a.place(m, n));
            }
            Potrf { k } => from.task(TILE, Herk { m: k, k: k - 1 }, TILE),
            Trsm { m, k } => from.task(TILE, Gemm { m, n: k, k: k - 1 }, TILE),
            Herk { m, k } => from.task(TILE, Herk { m, k: k - 1 }, TILE),
            Gemm { m, n, k } => from.task(TILE, Gemm { m, n, k: k - 1 }, TILE),
            Trtri { k } => from.task(TILE, Potrf { k }, TILE),
            TrsmRight { m, k } => from.task(TILE, Trsm { m, k }, TILE),
            Invert { m, n, k } if k == n + 1 => from.task(TILE, TrsmRight { m, k: n }, TILE),
            Invert { m, n, k } => from.task(TILE, Invert { m, n, k: k - 1 }, TILE),
            TrsmLeft { m, n } => from.task(TILE, Self::before_left(m, n), TILE),
            Lauum { k } => from.task(TILE, Trtri { k }, TILE),
            Trmm { m, n } => from.task(TILE, TrsmLeft { m, n }, TILE),
            Square { n, k } if k == n + 1 => from.task(TILE, Lauum { k: n }, TILE),
            Square { n, k } => from.task(TILE, Square { n, k: k - 1 }, TILE),
            Multiply { m, n, k } if k == m + 1 => from.task(TILE, Trmm { m, n }, TILE),
            Multiply { m, n, k } => from.task(TILE, Multiply { m, n, k: k - 1 }, TILE),
        }
        match task {
            Potrf { .. } | Trtri { .. } | Lauum { .. } => {}
            Trsm { k, .. } | TrsmRight { k, .. } => from.task(TRIANGLE, Potrf { k }, TILE),
            Herk { m, k } => from.task(LEFT, Trsm { m, k }, TILE),
            Gemm { m, n, k } => {
                from.task(LEFT, Trsm { m, k }, TILE);
                from.task(RIGHT, Trsm { m: n, k }, TILE);
            }
            TrsmLeft { m, .. } => from.task(TRIANGLE, Potrf { k: m }, TILE),
            Invert { m, n, k } => {
                from.task(LEFT, TrsmRight { m, k }, TILE);
                from.task(RIGHT, Self::before_left(k, n), TILE);
            }
            Trmm { m, .. } => from.task(TRIANGLE, Trtri { k: m }, TILE),
            Square { n, k } => from.task(LEFT, TrsmLeft { m: k, n }, TILE),
            Multiply { m, n, k } => {
                from.task(LEFT, TrsmLeft { m: k, n: m }, TILE);
                from.task(RIGHT, TrsmLeft { m: k, n }, TILE);
            }
        }
    }

    fn successors(&self, task: InverseTask, to: &mut impl Successors<Self>) {
        let nt = self.nt;
        match task {
            Potrf { k } => {
                to.range(TILE, k + 1..nt, |m| Trsm { m, k }, TRIANGLE);
                to.range(TILE, k + 1..nt, |m| TrsmRight { m, k }, TRIANGLE);
                to.range(TILE, 0..k, |n| TrsmLeft { m: k, n }, TRIANGLE);
                to.task(TILE, Trtri { k }, TILE);
            }
            Trsm { m, k } => {
                to.task(TILE, Herk { m, k }, LEFT);
                to.range(TILE, k + 1..m, |n| Gemm { m, n, k }, LEFT);
                to.range(TILE, m + 1..nt, |i| Gemm { m: i, n: m, k }, RIGHT);
                to.task(TILE, TrsmRight { m, k }, TILE);
            }
            Herk { m, k } if m == k + 1 => to.task(TILE, Potrf { k: m }, TILE),
            Herk { m, k } => to.task(TILE, Herk { m, k: k + 1 }, TILE),
            Gemm { m, n, k } if n == k + 1 => to.task(TILE, Trsm { m, k: n }, TILE),
            Gemm { m, n, k } => to.task(TILE, Gemm { m, n, k: k + 1 }, TILE),
            Trtri { k } => {
                to.range(TILE, 0..k, |n| Trmm { m: k, n }, TRIANGLE);
                to.task(TILE, Lauum { k }, TILE);
            }
            TrsmRight { m, k } => {
                to.range(TILE, 0..k, |n| Invert { m, n, k }, LEFT);
                match m == k + 1 {
                    true => self.pass_below(m, k, to),
                    false => to.task(TILE, Invert { m, n: k, k: k + 1 }, TILE),
                }
            }
            Invert { m, n, k } if m == k + 1 => self.pass_below(m, n, to),
            Invert { m, n, k } => to.task(TILE, Invert { m, n, k: k + 1 }, TILE),
            TrsmLeft { m, n } => {
                to.task(TILE, Square { n, k: m }, LEFT);
                to.range(TILE, n + 1..m, |i| Multiply { m: i, n, k: m }, RIGHT);
                to.range(TILE, 0..n, |j| Multiply { m: n, n: j, k: m }, LEFT);
                to.task(TILE, Trmm { m, n }, TILE);
            }
            Lauum { k } => self.pass_on(task, Square { n: k, k: k + 1 }, to),
            Square { n, k } => self.pass_on(task, Square { n, k: k + 1 }, to),
            Trmm { m, n } => self.pass_on(task, Multiply { m, n, k: m + 1 }, to),
            Multiply { m, n, k } => self.pass_on(task, Multiply { m, n, k: k + 1 }, to),
        }
    }

    fn run(&self, task: InverseTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        use Op::{ConjTranspose, NoTranspose};
        let backend = self.backend;
        let lower = (Triangle::Lower, Diagonal::NonUnit);
        match task {
            Potrf { k } => {
                // A[k,k] ← L[k,k] with A[k,k] = L[k,k] · L[k,k]ᴴ
                let [tile] = flows.slots();
                let tile = tile.update();
                potrf(backend, tile).map_err(|failed| {
                    let index = self.a.row_range(k as usize).start + failed.index;
                    LinalgError::not_positive(index as u64, failed.pivot)
                })?;
                tile.set_part(Part::Lower);
            }
            Trsm { .. } => {
                // A[m,k] ← A[m,k] · L[k,k]⁻ᴴ
                let [tile, triangle] = flows.slots();
                trsm(backend, triangle.read(), tile.update());
            }
            Herk { .. } => {
                // A[m,m] ← A[m,m] − L[m,k] · L[m,k]ᴴ
                let [tile, left] = flows.slots();
                herk(backend, left.read(), tile.update());
            }
            Gemm { .. } => {
                // A[m,n] ← A[m,n] − L[m,k] · L[n,k]ᴴ
                let [tile, left, right] = flows.slots();
                gemm(backend, left.read(), right.read(), tile.update());
            }
            Trtri { .. } => {
                // W[k,k] = L[k,k]⁻¹
                let [tile] = flows.slots();
                let tile = tile.update();
                trtri(tile);
                tile.set_part(Part::Lower);
            }
            TrsmRight { .. } => {
                // X[m,k] = L[m,k] · L[k,k]⁻¹
                let [tile, triangle] = flows.slots();
                let triangle = (NoTranspose, lower, triangle.read());
                trsm_op(backend, Side::Right, triangle, tile.update());
            }
            Invert { .. } => {
                // X[m,n] ← X[m,n] − X[m,k] · X[k,n]
                let [tile, left, right] = flows.slots();
                let (left, right) = ((NoTranspose, left.read()), (NoTranspose, right.read()));
                gemm_op(backend, left, right, tile.update());
            }
            TrsmLeft { .. } => {
                // −W[m,n] = L[m,m]⁻¹ · X[m,n]
                let [tile, triangle] = flows.slots();
                let triangle = (NoTranspose, lower, triangle.read());
                trsm_op(backend, Side::Left, triangle, tile.update());
            }
            Lauum { .. } => {
                // A⁻¹[k,k] ← W[k,k]ᴴ · W[k,k]
                let [tile] = flows.slots();
                lauum(tile.update());
            }
            Trmm { .. } => {
                // A⁻¹[m,n] ← −W[m,m]ᴴ · (−W[m,n])
                let [tile, triangle] = flows.slots();
                trmm(-T::one(), (ConjTranspose, triangle.read()), tile.update());
            }
            Square { .. } => {
                // A⁻¹[n,n] ← A⁻¹[n,n] + W[k,n]ᴴ · W[k,n]
                let [tile, left] = flows.slots();
                herk_add(backend, 1.0, (ConjTranspose, left.read()), tile.update());
            }
            Multiply { .. } => {
                // A⁻¹[m,n] ← A⁻¹[m,n] + W[k,m]ᴴ · W[k,n]
                let [tile, left, right] = flows.slots();
                let (left, right) = ((ConjTranspose, left.read()), (NoTranspose, right.read()));
                gemm_add(backend, T::one(), left, right, tile.update());
            }
        }
        Ok(())
    }

    fn rank(&self, task: InverseTask) -> Rank {
        let (m, n) = task.tile();
        self.a.rank_of(m as usize, n as usize)
    }

    /// About the longest way to the end in units of nb³/3 flops: exact for the last two stages, and
    /// for the first the way down the diagonal.
    fn priority(&self, task: InverseTask) -> i64 {
        let nt = i64::from(self.nt);
        let left = |k: u32| nt - i64::from(k);
        match task {
            Potrf { k } => 9 * left(k) + 4,
            Trsm { k, .. } => 9 * left(k) + 3,
            Herk { m, k } => 9 * left(m) + 4 + 3 * i64::from(m - k),
            Gemm { n, k, .. } => 9 * left(n) + 3 + 6 * i64::from(n - k),
            TrsmRight { k, .. } => 6 * left(k) + 6,
            Invert { k, .. } => 6 * left(k) + 3,
            TrsmLeft { m, .. } => 6 * left(m) + 3,
            Trtri { k } => 6 * left(k) - 2,
            Trmm { m, .. } => 6 * left(m) - 3,
            Lauum { k } => 3 * left(k) - 2,
            Square { k, .. } => 3 * left(k),
            Multiply { k, .. } => 6 * left(k),
        }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = InverseTask> + Send {
        let first = Potrf { k: 0 };
        let here = (self.nt > 0 && self.rank(first) == on).then_some(first);
        here.into_iter()
    }

    /// Each tile is written nt + 2 times.
    fn count(&self, on: Rank) -> u64 {
        let here = self.a.layout().seen_from(on);
        let tiles = here.map_or(0, |here| here.n_slots() as u64);
        tiles * (u64::from(self.nt) + 2)
    }
}

impl InverseTask {
    /// The tile that a task writes.
    fn tile(self) -> (u32, u32) {
        match self {
            Potrf { k } | Trtri { k } | Lauum { k } => (k, k),
            Trsm { m, k } | TrsmRight { m, k } => (m, k),
            Herk { m, .. } => (m, m),
            Square { n, .. } => (n, n),
            TrsmLeft { m, n } | Trmm { m, n } => (m, n),
            Gemm { m, n, .. } | Invert { m, n, .. } | Multiply { m, n, .. } => (m, n),
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
    fn vacant(nt: usize, (p, q): (u32, u32)) -> TiledMatrix<f64> {
        let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
        let layout = Layout::lower(nt, 1).unwrap().distributed(grid, Rank(0));
        TiledMatrix::vacant(layout.unwrap(), Arc::new(Heap))
    }

    fn n_tasks(nt: u64) -> u64 {
        nt * (nt + 1) * (nt + 2) / 2
    }

    #[test]
    fn the_space_is_proved_for_0_to_9_tiles_on_every_grid() {
        for (p, q) in [(1, 1), (2, 2), (2, 3)] {
            for nt in 0..=9 {
                let a = vacant(nt, (p, q));
                let space = Inverse::new(&a, Backend::Auto).unwrap();
                verify(&space, p * q)
                    .unwrap_or_else(|fault| panic!("nt = {nt} on {p} x {q}: {fault}"));
                let count: u64 = (0..p * q).map(|on| space.count(Rank(on))).sum();
                assert_eq!(count, n_tasks(nt as u64), "nt = {nt} on {p} x {q}");
            }
        }
    }

    /// Hears whom a task feeds.
    #[derive(Default)]
    struct Fed(Vec<InverseTask>);

    impl Successors<Inverse<'_, f64>> for Fed {
        fn task(&mut self, _: usize, target: InverseTask, _: usize) {
            self.0.push(target);
        }
        fn home(&mut self, _: usize, _: &Store<Tile<f64>>, _: usize) {}
    }

    type Known = HashMap<InverseTask, i64>;

    /// The longest way from a task to the end, its own weight included; counts edges on the way.
    fn level(
        space: &Inverse<'_, f64>,
        task: InverseTask,
        weight: fn(InverseTask) -> i64,
        (known, edges): (&mut Known, &mut usize),
    ) -> i64 {
        if let Some(level) = known.get(&task) {
            return *level;
        }
        let mut fed = Fed::default();
        space.successors(task, &mut fed);
        *edges += fed.0.len();
        let mut after = 0;
        for next in fed.0 {
            after = after.max(level(space, next, weight, (known, edges)));
        }
        known.insert(task, weight(task) + after);
        weight(task) + after
    }

    /// In units of nb³/3 flops.
    fn flops(task: InverseTask) -> i64 {
        match task {
            Potrf { .. } | Trtri { .. } | Lauum { .. } => 1,
            Gemm { .. } | Invert { .. } | Multiply { .. } => 6,
            _ => 3,
        }
    }

    #[test]
    fn edges_and_longest_ways_are_those_of_another_program() {
        // Edges, the longest way by weight and by tasks, as computed once by another program.
        for (nt, edges, by_weight, by_tasks) in
            [(4, 110, 40, 12), (8, 828, 76, 24), (20, 12390, 184, 60)]
        {
            let a = vacant(nt, (1, 1));
            let space = Inverse::new(&a, Backend::Auto).unwrap();
            let longest = |weight| {
                let (mut known, mut edges) = (Known::new(), 0);
                let first = Potrf { k: 0 };
                let longest = level(&space, first, weight, (&mut known, &mut edges));
                assert_eq!(
                    known.len() as u64,
                    n_tasks(nt as u64),
                    "all behind the first"
                );
                (edges, longest)
            };
            assert_eq!(longest(flops), (edges, by_weight), "nt = {nt}");
            assert_eq!(longest(|_| 1), (edges, by_tasks), "nt = {nt}");
        }
    }

    #[test]
    fn no_task_is_less_urgent_than_those_that_wait_for_it() {
        for nt in 1..=9 {
            let a = vacant(nt, (1, 1));
            let space = Inverse::new(&a, Backend::Auto).unwrap();
            for task in space.tasks(Rank(0)) {
                let mut fed = Fed::default();
                space.successors(task, &mut fed);
                for next in fed.0 {
                    let (own, of_next) = (space.priority(task), space.priority(next));
                    assert!(
                        own >= of_next,
                        "{task:?} {own}, {next:?} {of_next}, nt = {nt}"
                    );
                }
            }
        }
    }
}
