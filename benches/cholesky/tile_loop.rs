//! The tile loop: tile Cholesky as one would make it parallel with OpenMP, on rayon's threads.

use crate::race::{BACKENDS, Bench, Contestant, Dense, Outcome, Shared, Times, locked, seconds};
use dataflow::linalg::kernel::{Backend, NotPositive, gemm, herk, potrf, trsm};
use dataflow::linalg::matrix::{Format, Tile};
use rayon::Scope;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockWriteGuard};
/// How the tile loop is made parallel: as one would with OpenMP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `parallel for` over the tiles below a diagonal tile, then over all tiles right of them.
    Barriers,
    /// `task depend`: a task starts when those that wrote its tiles have ended; no priorities.
    Dependences,
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Style::Barriers => "tile loop with barriers",
            Style::Dependences => "tile loop with dependences",
        })
    }
}

/// Cholesky by column-major tiles, one call of a kernel each, on rayon's threads.
///
/// The kernels are ours: they gain on OpenBLAS's own triangular ones, so this peer is faster than
/// a loop over those.
pub struct TileLoop<'b> {
    pool: &'b rayon::ThreadPool,
    room: Shared,
    n: usize,
    nb: usize,
    style: Style,
    backend: Backend,
    failed: OnceLock<NotPositive>,
    /// By columns; the first tile of each is on the diagonal.
    columns: Vec<Vec<RwLock<Tile<f64>>>>,
}

/// A task of the tile loop: step `k` on tile `(i, j)`.
type Step = (usize, usize, usize);

impl<'b> TileLoop<'b> {
    pub fn new(
        bench: &Bench,
        pool: &'b rayon::ThreadPool,
        room: &Shared,
        nb: usize,
        style: Style,
    ) -> Self {
        let n = locked(room).rows();
        let (nt, side) = (n.div_ceil(nb), |i| nb.min(n - i * nb));
        let tile = |i, j| Tile::new(side(i), side(j), Format::ColumnMajor, &bench.memory);
        let column = |j| (j..nt).map(|i| RwLock::new(tile(i, j))).collect();
        TileLoop {
            pool,
            room: room.clone(),
            n,
            nb,
            style,
            backend: BACKENDS[BACKENDS.len() - 1],
            failed: OnceLock::new(),
            columns: (0..nt).map(column).collect(),
        }
    }

    fn nt(&self) -> usize {
        self.columns.len()
    }

    fn tile(&self, i: usize, j: usize) -> &RwLock<Tile<f64>> {
        &self.columns[j][i - j]
    }

    /// No lock is ever waited for: the order of the steps keeps writers alone.
    fn run_step(&self, (i, j, k): Step) {
        let read = |i, j| {
            let tile = self.tile(i, j).read();
            tile.unwrap_or_else(PoisonError::into_inner)
        };
        let mut tile = self.write(i, j);
        match () {
            () if i == k => {
                if let Err(failed) = potrf(self.backend, &mut tile) {
                    // Only the first of several is told.
                    self.failed.get_or_init(|| failed);
                }
            }
            () if j == k => trsm(self.backend, &read(k, k), &mut tile),
            () if i == j => herk(self.backend, &read(i, k), &mut tile),
            () => gemm(self.backend, &read(i, k), &read(j, k), &mut tile),
        }
    }

    fn write(&self, i: usize, j: usize) -> RwLockWriteGuard<'_, Tile<f64>> {
        let tile = self.tile(i, j).write();
        tile.unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, matrix: &Dense) {
        let tiles = (0..self.nt()).flat_map(|j| (j..self.nt()).map(move |i| (i, j)));
        let tiles: Vec<_> = tiles.collect();
        tiles.into_par_iter().with_max_len(1).for_each(|(i, j)| {
            let mut tile = self.write(i, j);
            let from = &matrix.as_slice()[(i + j * self.n) * self.nb..];
            tile.read_column_major(from, self.n);
        });
    }

    fn leave_result(&self) {
        let mut room = locked(&self.room);
        for (j, column) in self.columns.iter().enumerate() {
            for (below, tile) in column.iter().enumerate() {
                let to = &mut room.as_mut_slice()[((j + below) + j * self.n) * self.nb..];
                let tile = tile.read().unwrap_or_else(PoisonError::into_inner);
                tile.write_column_major(to, self.n);
            }
        }
    }

    fn with_barriers(&self) {
        let nt = self.nt();
        let parallel_for = |steps: Vec<Step>| {
            let steps = steps.into_par_iter().with_max_len(1);
            steps.for_each(|step| self.run_step(step));
        };
        for k in 0..nt {
            self.run_step((k, k, k));
            parallel_for((k + 1..nt).map(|i| (i, k, k)).collect());
            let updates = (k + 1..nt).flat_map(|j| (j..nt).map(move |i| (i, j, k)));
            parallel_for(updates.collect());
        }
    }

    fn with_dependences(&self) {
        let nt = self.nt();
        let waits_for = |place: usize| {
            let (k, j, i) = (place % nt, place / nt % nt, place / nt / nt);
            let panel = match () {
                () if i == k => 0,
                () if i == j || j == k => 1,
                () => 2,
            };
            AtomicU32::new(panel + u32::from(k > 0))
        };
        let waiting: Vec<AtomicU32> = (0..nt * nt * nt).map(waits_for).collect();
        rayon::in_place_scope(|scope| self.spawn(scope, &waiting, (0, 0, 0)));
    }

    /// Runs a step as a task, and then those that waited for it alone.
    fn spawn<'s>(&'s self, scope: &Scope<'s>, waiting: &'s [AtomicU32], step: Step) {
        let nt = self.nt();
        scope.spawn(move |scope| {
            self.run_step(step);
            let ready = |(i, j, k): Step| {
                let count = &waiting[(i * nt + j) * nt + k];
                // AcqRel: whoever counts last sees what the others wrote.
                if count.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.spawn(scope, waiting, (i, j, k));
                }
            };
            match step {
                (i, j, k) if i == k && j == k => (k + 1..nt).for_each(|i| ready((i, k, k))),
                (i, j, k) if j == k => {
                    (k + 1..=i).for_each(|j| ready((i, j, k)));
                    (i + 1..nt).for_each(|m| ready((m, i, k)));
                }
                (i, j, k) => ready((i, j, k + 1)),
            }
        });
    }
}

impl Contestant for TileLoop<'_> {
    fn run(&mut self, matrix: &Dense) -> Outcome<Times> {
        let pool = self.pool;
        pool.install(|| self.fill(matrix));
        let (factor, ()) = seconds(|| {
            pool.install(|| match self.style {
                Style::Barriers => self.with_barriers(),
                Style::Dependences => self.with_dependences(),
            })
        });
        self.leave_result();
        match self.failed.get() {
            None => Ok(Times::of(factor)),
            Some(failed) => Err(failed.to_string().into()),
        }
    }
}
