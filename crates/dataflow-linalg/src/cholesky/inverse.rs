//! The inverse of a positive definite matrix: A = L·Lᴴ, W = L⁻¹, A⁻¹ = Wᴴ·W as one graph, in place
//! and without a barrier; the three stages overlap wherever their data allow it.
//!
//! # Law
//! Each stage updates a tile in the order of k. Tasks that read a tile and the task that overwrites
//! it next do not wait for each other: a task that overwrites too early gets a copy. So the bits depend
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

use super::factor::{Factor, not_positive};
use crate::error::LinalgError;
use crate::kernel::Op::{ConjTranspose, NoTranspose};
use crate::kernel::{
    Backend, Diagonal, Side, Triangle, gemm, gemm_add, gemm_op, herk, herk_add, lauum, potrf, trmm,
    trsm, trsm_op, trtri,
};
use crate::matrix::{Part, Tile, TiledMatrix};
use crate::scalar::Scalar;
use crate::spans::Spans;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

/// The task space of the inversion: nt(nt+1)(nt+2)/2 tasks for nt tiles a side, nt(nt+1)(2nt+7)/6
/// from the factor.
///
/// # Examples
/// See [`of_factor`](Inverse::of_factor) and [`inverse`](inverse()).
#[derive(Clone, Copy, Debug)]
pub struct Inverse<'a, T: Scalar> {
    pub(super) a: &'a TiledMatrix<T>,
    backend: Backend,
    nt: u32,
    /// Whether the matrix holds L already.
    is_factored: bool,
}

/// Overwrites the lower triangle of `a` by that of A⁻¹. n³ flops; copies a tile that is
/// overwritten before all have read it: seldom where tasks run in the order of their priorities, at
/// most four times in any order.
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
    a.scan(on)?;
    inverse.run(on)
}

impl<'a, T: Scalar> Inverse<'a, T> {
    /// The space for a matrix of [`Structure::Lower`](crate::matrix::Structure::Lower).
    ///
    /// # Errors
    /// If the matrix is stored otherwise.
    pub fn new(a: &'a TiledMatrix<T>, backend: Backend) -> Result<Self, LinalgError> {
        Factor::new(a, backend)?;
        Ok(Inverse {
            a,
            backend,
            nt: a.nt() as u32,
            is_factored: false,
        })
    }

    /// The space without its first stage: overwrites L, as [`factor`](super::factor) left it, by A⁻¹,
    /// with the bits that [`inverse`] gives. 2n³/3 flops.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_linalg::{cholesky, kernel::Backend, matrix::{Layout, TiledMatrix}};
    /// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 2.0], [2.0, 2.0]][i][j]);
    /// cholesky::factor(&a, Backend::Auto, &Inline)?;
    /// let inverse = cholesky::Inverse::of_factor(&a, Backend::Auto)?;
    /// inverse.run(&Inline)?;
    /// assert_eq!([a.get(0, 0), a.get(1, 0), a.get(1, 1)], [Some(0.5), Some(-0.5), Some(1.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Source
    /// LAPACK's `potri`.
    pub fn of_factor(l: &'a TiledMatrix<T>, backend: Backend) -> Result<Self, LinalgError> {
        let whole = Inverse::new(l, backend)?;
        Ok(Inverse {
            is_factored: true,
            ..whole
        })
    }

    /// Runs this rank's part of the inversion; every rank calls it with its part of the matrix. Does
    /// not look for entries that are not finite ([`TiledMatrix::scan`]).
    ///
    /// # Errors
    /// As [`inverse`], the same on every rank; and what [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a], on).map_err(|error| self.a.failed(error))
    }
}

task_space! {
    /// The tasks of the inversion: m and n name a tile, k the step; a nest for each stage.
    pub enum InverseTask;

    impl<T: Scalar> TaskSpace for Inverse<'_, T> {
        type Datum = Tile<T>;
        let nt = self.nt;
        let factored = u32::from(self.is_factored);
        let p = self.a.grid().0;
        let q = self.a.grid().1;
        data A[m, n] where n <= m && m < nt
            in self.a.store() at self.a.place(m, n)
            on (m % p, n % q);

        if factored > 0 {
            for n in 0..nt {
                for m in n..nt {
                    // L[m,n], as it is, for all who read it before it is overwritten
                    Hand { m, n }: update A[m, n];
                }
            }
        } else {
            // A = L · Lᴴ
            for k in 0..nt {
                // A[k,k] ← L[k,k] with A[k,k] = L[k,k] · L[k,k]ᴴ
                Potrf { k }: update tile = A[k, k] => self.potrf(k, tile)?;
                for m in k + 1..nt {
                    // A[m,k] ← A[m,k] · L[k,k]⁻ᴴ
                    Trsm { m, k }: update tile = A[m, k], read triangle = A[k, k]
                        => trsm(self.backend, triangle, tile);
                }
                for m in k + 1..nt {
                    // A[m,m] ← A[m,m] − L[m,k] · L[m,k]ᴴ
                    Herk { m, k }: update tile = A[m, m], read left = A[m, k]
                        => herk(self.backend, left, tile);
                    for n in k + 1..m {
                        // A[m,n] ← A[m,n] − L[m,k] · L[n,k]ᴴ
                        Gemm { m, n, k }:
                            update tile = A[m, n], read left = A[m, k], read right = A[n, k]
                            => gemm(self.backend, left, right, tile);
                    }
                }
            }
        }

        // W = L⁻¹
        for k in 0..nt {
            for m in k + 1..nt {
                // X[m,k] = L[m,k] · L[k,k]⁻¹
                TrsmRight { m, k }: update tile = A[m, k], read triangle = A[k, k] => {
                    trsm_op(self.backend, Side::Right, (NoTranspose, LOWER, triangle), tile);
                }
                for n in 0..k {
                    // X[m,n] ← X[m,n] − X[m,k] · X[k,n]
                    Invert { m, n, k }:
                        update tile = A[m, n], read left = A[m, k], read right = A[k, n]
                        => gemm_op(self.backend, (NoTranspose, left), (NoTranspose, right), tile);
                }
            }
            for n in 0..k {
                // −W[k,n] = L[k,k]⁻¹ · X[k,n]
                TrsmLeft { k, n }: update tile = A[k, n], read triangle = A[k, k] => {
                    trsm_op(self.backend, Side::Left, (NoTranspose, LOWER, triangle), tile);
                }
            }
            // W[k,k] = L[k,k]⁻¹
            Trtri { k }: update tile = A[k, k] => {
                trtri(tile);
                tile.set_part(Part::Lower);
            }
        }

        // A⁻¹ = Wᴴ · W
        for k in 0..nt {
            for n in 0..k {
                // A⁻¹[n,n] ← A⁻¹[n,n] + W[k,n]ᴴ · W[k,n]
                Square { n, k }: update tile = A[n, n], read left = A[k, n]
                    => herk_add(self.backend, 1.0, (ConjTranspose, left), tile);
                for m in n + 1..k {
                    // A⁻¹[m,n] ← A⁻¹[m,n] + W[k,m]ᴴ · W[k,n]
                    Multiply { m, n, k }:
                        update tile = A[m, n], read left = A[k, m], read right = A[k, n]
                        => {
                            let (left, right) = ((ConjTranspose, left), (NoTranspose, right));
                            gemm_add(self.backend, T::one(), left, right, tile);
                        }
                }
            }
            for n in 0..k {
                // A⁻¹[k,n] ← −W[k,k]ᴴ · (−W[k,n])
                Trmm { k, n }: update tile = A[k, n], read triangle = A[k, k]
                    => trmm(-T::one(), (ConjTranspose, triangle), tile);
            }
            // A⁻¹[k,k] ← W[k,k]ᴴ · W[k,k]
            Lauum { k }: update tile = A[k, k] => lauum(tile);
        }

        fn describe(&self, about: &mut Description) {
            about.name("cholesky_inverse");
            self.a.layout().describe(about);
            about.parameter("precision", T::PRECISION);
            about.parameter("backend", self.backend);
            if self.is_factored {
                about.parameter("of", "factor");
            }
        }

        /// The first stage by spans of steps, before the others. These by about the longest way to the end in
        /// units of nb³/3 flops, with an update's span as if it were its first step; but who reads a tile is
        /// more urgent than who overwrites it, or the tile would be copied.
        fn priority(&self, task: InverseTask) -> i64 {
            let spans = Spans::new(self.nt, self.nt);
            let left = |k: u32| i64::from(self.nt) - i64::from(k);
            match task {
                Hand { n, .. } => self.before_other_stages(left(n)),
                Potrf { k } => self.before_other_stages(spans.panel((k, k))),
                Trsm { m, k } => self.before_other_stages(spans.panel((m, k))),
                Herk { m, k } => self.before_other_stages(spans.update((m, m), k)),
                Gemm { m, n, k } => self.before_other_stages(spans.update((m, n), k)),
                TrsmRight { k, .. } => 6 * left(k) + 6,
                TrsmLeft { k, .. } => 6 * left(k) + 3,
                Invert { k, .. } => 6 * left(spans.first(k)) + 3,
                Trtri { k } => 6 * left(k) - 2,
                Trmm { k, .. } => 6 * left(k) - 3,
                Lauum { k } => 6 * left(k) - 4,
                Square { k, .. } | Multiply { k, .. } => 6 * left(spans.first(k)),
            }
        }

        /// Each tile is written nt + 2 times, n + 1 times of these by the first stage.
        fn count(&self, on: Rank) -> u64 {
            let Some(here) = self.a.layout().seen_from(on) else {
                return 0;
            };
            let all = u64::from(self.nt) + 2;
            match self.is_factored {
                true => here.tiles().map(|(_, n)| all - n as u64).sum(),
                false => here.n_slots() as u64 * all,
            }
        }
    }
}
use InverseTask::{
    Gemm, Hand, Herk, Invert, Lauum, Multiply, Potrf, Square, Trmm, Trsm, TrsmLeft, TrsmRight,
    Trtri,
};

const LOWER: (Triangle, Diagonal) = (Triangle::Lower, Diagonal::NonUnit);

impl<T: Scalar> Inverse<'_, T> {
    /// The urgency of a task of the first stage: no task of another is as urgent.
    fn before_other_stages(&self, urgency: i64) -> i64 {
        let nt = i64::from(self.nt);
        urgency.saturating_add((4 * nt).saturating_mul(nt + 2))
    }

    fn potrf(&self, k: u32, tile: &mut Tile<T>) -> Result<(), TaskError> {
        let factored = potrf(self.backend, tile);
        factored.map_err(|failed| not_positive(self.a, k, failed))?;
        tile.set_part(Part::Lower);
        Ok(())
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

    /// From the factor: two stages, and a task for each tile.
    fn n_tasks_of_factor(nt: u64) -> u64 {
        nt * (nt + 1) * (nt + 2) / 3 + nt * (nt + 1) / 2
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
                let of_factor = Inverse::of_factor(&a, Backend::Auto).unwrap();
                verify(&of_factor, p * q)
                    .unwrap_or_else(|fault| panic!("L of nt = {nt} on {p} x {q}: {fault}"));
                let count: u64 = (0..p * q).map(|on| of_factor.count(Rank(on))).sum();
                assert_eq!(count, n_tasks_of_factor(nt as u64), "L of nt = {nt}");
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
    fn behind_the_first_stage_nothing_but_updates_is_more_urgent_than_what_it_waits_for() {
        for nt in 1..=9 {
            let a = vacant(nt, (1, 1));
            let whole = Inverse::new(&a, Backend::Auto).unwrap();
            let of_factor = Inverse::of_factor(&a, Backend::Auto).unwrap();
            // In the first stage panels come first, and updates of a span before they are ready.
            let is_first =
                |task| matches!(task, Potrf { .. } | Trsm { .. } | Herk { .. } | Gemm { .. });
            let is_update = |task| matches!(task, Invert { .. } | Square { .. } | Multiply { .. });
            for space in [whole, of_factor] {
                for task in space.tasks(Rank(0)) {
                    let mut fed = Fed::default();
                    space.successors(task, &mut fed);
                    for next in fed.0 {
                        let (own, of_next) = (space.priority(task), space.priority(next));
                        let overtakes = is_update(next) || is_first(next);
                        assert!(
                            own >= of_next || overtakes && is_first(task) == is_first(next),
                            "{task:?} {own}, {next:?} {of_next}, nt = {nt}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn who_reads_a_tile_is_as_urgent_as_who_overwrites_it_or_more() {
        for nt in 1..=12 {
            let a = vacant(nt, (1, 1));
            let space = Inverse::new(&a, Backend::Auto).unwrap();
            for task in space.tasks(Rank(0)) {
                let overwrites = match task {
                    Invert { k, n, .. } => vec![TrsmLeft { k, n }],
                    Multiply { m, n, k } => vec![Trmm { k, n }, Trmm { k, n: m }],
                    Square { n, k } => vec![Trmm { k, n }],
                    TrsmRight { k, .. } | TrsmLeft { k, .. } => vec![Trtri { k }],
                    Trmm { k, .. } => vec![Lauum { k }],
                    _ => vec![],
                };
                for next in overwrites {
                    assert!(
                        space.priority(task) >= space.priority(next),
                        "{task:?}, {next:?}"
                    );
                }
            }
        }
    }
}
