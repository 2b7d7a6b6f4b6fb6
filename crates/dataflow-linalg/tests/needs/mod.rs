//! What was told to be needed, beside what was taken: tiles are counted by their memory, what other
//! ranks send by the post.

use crate::ranks::on_ranks;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Block, Courier, Heap, Memory, Shuffled};
use dataflow_core::rank::Rank;
use dataflow_linalg::cholesky::{Factor, Inverse};
use dataflow_linalg::kernel::Backend;
use dataflow_linalg::lu::{self, Pivots};
use dataflow_linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow_linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow_linalg::needs::{self, Needs};
use dataflow_linalg::product::{Gemm, Operand};
use dataflow_linalg::qr::{self, Options, Reflectors, Tree};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Memory that counts what it has given out, and how much that was at most.
#[derive(Default)]
struct Counting {
    now: AtomicUsize,
    peak: AtomicUsize,
}

struct Counted(Box<dyn Block>, Arc<Counting>);

impl Block for Counted {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.now.fetch_sub(self.0.bytes().len(), Relaxed);
    }
}

struct Counter(Arc<Counting>);

impl Memory for Counter {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        let block = Heap.allocate(bytes);
        let now = self.0.now.fetch_add(block.bytes().len(), Relaxed) + block.bytes().len();
        self.0.peak.fetch_max(now, Relaxed);
        Box::new(Counted(block, self.0.clone()))
    }
}

/// A rank of a grid: its courier, and the memory of its tiles.
struct Seat<'a> {
    courier: &'a dyn Courier,
    grid: (u32, u32),
    memory: Arc<dyn Memory>,
}

impl Seat<'_> {
    fn matrix(&self, layout: Layout, entries: &impl Entries<f64>) -> TiledMatrix<f64> {
        let layout = seen(layout, self.grid, self.courier.rank());
        TiledMatrix::from_entries_in(layout, self.memory.clone(), entries)
    }
}

fn seen(layout: Layout, (p, q): (u32, u32), rank: Rank) -> Layout {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    layout.distributed(grid, rank).unwrap()
}

/// Runs a routine over every grid and compares what each rank took with what it was told to need.
fn compare(what: &str, told: impl Fn((u32, u32), Rank) -> Needs, run: impl Fn(&Seat) + Sync) {
    for grid in [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3)] {
        let (peaks, crossed) = on_ranks(grid.0 * grid.1, (3, 2), |courier| {
            let counting = Arc::new(Counting::default());
            let memory = Arc::new(Counter(counting.clone()));
            run(&Seat {
                courier,
                grid,
                memory,
            });
            counting.peak.load(Relaxed) as u128
        });
        for (rank, peak) in (0..).zip(peaks) {
            let needs = told(grid, Rank(rank));
            let received = crossed.held[rank as usize] as u128;
            let what = format!("{what} on {grid:?}, rank {rank}: {needs:?}, {peak} and {received}");
            assert!(peak <= needs.held + needs.workspace, "{what}");
            assert!(received <= needs.received, "{what}");
            // An estimate that is far off would be of no use.
            assert!(needs.at_most() <= 5 * (peak + received) + 60_000, "{what}");
        }
    }
}

const BACKEND: Backend = Backend::Faer;

#[test]
fn no_rank_takes_more_memory_than_it_was_told_to_need() {
    let monitor = Monitor::new();
    let on = Shuffled::new(1);
    for (n, nb) in [(96, 16), (75, 10)] {
        let (definite, lower) = (PositiveDefinite::new(n, 3), Layout::lower(n, nb).unwrap());
        let told = |grid, rank| needs::cholesky::<f64>(&seen(lower, grid, rank), 1);
        compare("cholesky", told, |seat| {
            let a = seat.matrix(lower, &definite);
            let factor = Factor::new(&a, BACKEND).unwrap();
            factor.run_across(&on, seat.courier, &monitor).unwrap();
        });
        let told = |grid, rank| needs::inverse::<f64>(&seen(lower, grid, rank), 1);
        compare("inverse", told, |seat| {
            let a = seat.matrix(lower, &definite);
            let inverse = Inverse::new(&a, BACKEND).unwrap();
            inverse.run_across(&on, seat.courier, &monitor).unwrap();
        });
    }
    for (m, n) in [(96, 96), (121, 60), (60, 121)] {
        let layout = Layout::general(m, n, 16).unwrap();
        let told = |grid, rank| needs::lu::<f64>(&seen(layout, grid, rank), 1);
        compare("lu", told, |seat| {
            let a = seat.matrix(layout, &Random::new(1));
            let pivots = Pivots::new(&a);
            let factor = lu::Factor::new(&a, &pivots, BACKEND).unwrap();
            factor.run_across(&on, seat.courier, &monitor).unwrap();
        });
        for tree in [Tree::Flat, Tree::Binary, Tree::Greedy] {
            let options = Options { tree, ib: 4 };
            let told = |grid, rank| needs::qr::<f64>(&seen(layout, grid, rank), options, 1);
            compare("qr", told, |seat| {
                let a = seat.matrix(layout, &Random::new(1));
                let q = Reflectors::new(a.layout(), options);
                let factor = qr::Factor::new(&a, &q, BACKEND).unwrap();
                factor.run_across(&on, seat.courier, &monitor).unwrap();
            });
        }
        let k = 70;
        let layouts = [(m, k), (k, n), (m, n)].map(|(m, n)| Layout::general(m, n, 16).unwrap());
        let told = |grid, rank| {
            let [a, b, c] = layouts.map(|layout| seen(layout, grid, rank));
            needs::gemm::<f64>([&a, &b, &c], 1)
        };
        compare("gemm", told, |seat| {
            let [a, b, c] = layouts.map(|layout| seat.matrix(layout, &Random::new(1)));
            let (a, b) = (Operand::plain(&a), Operand::plain(&b));
            let product = Gemm::new(1.0, a, b, 0.0, &c, BACKEND).unwrap();
            product.run_across(&on, seat.courier, &monitor).unwrap();
        });
    }
}

#[test]
fn what_is_held_is_told_exactly_and_what_has_no_room_is_refused_with_the_numbers() {
    for grid in [(1, 1), (2, 2)] {
        for layout in [Layout::lower(50, 8), Layout::general(37, 20, 6)] {
            let layout = seen(layout.unwrap(), grid, Rank(0));
            let tiles = TiledMatrix::<f64>::zeros(layout);
            let elements: usize = tiles
                .tiles()
                .map(|(i, j)| tiles.tile(i, j).unwrap().as_slice().len())
                .sum();
            let tile = size_of::<dataflow_linalg::matrix::Tile<f64>>();
            let expected = elements * 8 + layout.n_slots() * tile;
            let needs = needs::matrix::<f64>(&layout);
            assert_eq!(needs.held, expected as u128);
            assert_eq!(needs.expect_room(expected as u64), Ok(()));
            let refused = needs
                .expect_room(expected as u64 - 1)
                .unwrap_err()
                .to_string();
            assert!(refused.contains(&format!("{expected} bytes")), "{refused}");
        }
    }
}
