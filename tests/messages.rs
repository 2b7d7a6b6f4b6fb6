//! What Cholesky and LU send between ranks is what their reads and writes need: each final datum
//! once to each rank that reads it, Cholesky's diagonal tiles as triangles.

#[path = "../benches/overlap/world.rs"]
mod world;

use dataflow::core::port::{Block, Courier, Heap, Memory};
use dataflow::core::run_across;
use dataflow::linalg::cholesky::Factor;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::lu::{self, Pivots, Unpivoted};
use dataflow::linalg::matrix::generate::PositiveDefinite;
use dataflow::linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow::mpi::transport::simulated::{VirtualWorkers, Weather};
use dataflow::mpi::{Counters, Settings};
use dataflow::{Monitor, prelude::*};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use world::on_ranks;

type Tile = (usize, usize);

/// A task of the plain loop nest: what it reads and what it overwrites.
fn loop_nest(nt: usize, mut task: impl FnMut(&[Tile], Tile)) {
    for k in 0..nt {
        task(&[], (k, k));
        for m in k + 1..nt {
            task(&[(k, k)], (m, k));
        }
        for m in k + 1..nt {
            task(&[(m, k)], (m, m));
            for n in k + 1..m {
                task(&[(m, k), (n, k)], (m, n));
            }
        }
    }
}

/// A tile as one of its writers left it, where it is needed and does not lie.
fn crossings(nt: usize, (p, q): (usize, usize)) -> BTreeSet<(Tile, usize, usize)> {
    let owner = |(m, n): Tile| m % p * q + n % q;
    let mut writes: BTreeMap<Tile, usize> = BTreeMap::new();
    let mut crossings = BTreeSet::new();
    loop_nest(nt, |reads, tile| {
        for read in reads.iter().filter(|read| owner(**read) != owner(tile)) {
            crossings.insert((*read, writes[read], owner(tile)));
        }
        *writes.entry(tile).or_default() += 1;
    });
    crossings
}

/// Messages, and bytes of `f64`.
fn expected(n: usize, nb: usize, grid: (usize, usize)) -> (u64, u64) {
    let extent = |i: usize| nb.min(n - i * nb);
    let crossings = crossings(n.div_ceil(nb), grid);
    let elements = crossings.iter().map(|&((m, n), ..)| match m == n {
        true => extent(m) * (extent(m) + 1) / 2,
        false => extent(m) * extent(n),
    });
    (crossings.len() as u64, 8 * elements.sum::<usize>() as u64)
}

#[test]
fn the_count_by_reads_and_writes_is_that_of_another_program() {
    // Messages, and diagonal tiles among them, as computed once by another program.
    let grids = [(1, 2), (2, 2), (2, 3), (3, 3), (1, 4)];
    for (nt, figures) in [
        (4, [(6, 0), (12, 3), (15, 3), (18, 5), (10, 0)]),
        (8, [(28, 0), (56, 7), (77, 7), (98, 13), (64, 0)]),
        (16, [(120, 0), (240, 15), (345, 15), (450, 29), (316, 0)]),
        (
            40,
            [(780, 0), (1560, 39), (2301, 39), (3042, 77), (2224, 0)],
        ),
    ] {
        for (grid, figure) in grids.into_iter().zip(figures) {
            let crossings = crossings(nt, grid);
            let diagonal = crossings.iter().filter(|((m, n), ..)| m == n).count();
            assert_eq!((crossings.len(), diagonal), figure, "nt = {nt} on {grid:?}");
        }
    }
}

/// What one rank has of a matrix.
fn part(
    (n, nb): (usize, usize),
    (p, q): (usize, usize),
    rank: Rank,
    memory: Arc<dyn Memory>,
) -> TiledMatrix<f64> {
    let grid = Grid::new(p as u32, q as u32).unwrap();
    let layout = Layout::lower(n, nb).unwrap();
    let layout = layout
        .distributed(Distribution::BlockCyclic(grid), rank)
        .unwrap();
    TiledMatrix::from_entries_in(layout, memory, &PositiveDefinite::new(n, 3))
}

/// Factors a matrix over a grid of simulated ranks of two workers; what all ranks sent.
fn sent(size: (usize, usize), grid: (usize, usize)) -> Counters {
    let n_ranks = (grid.0 * grid.1) as u32;
    let heap = |_| -> Arc<dyn Memory> { Arc::new(Heap) };
    let settings = Settings::default();
    let sent = on_ranks(
        Weather::default(),
        n_ranks,
        &settings,
        heap,
        move |world, messenger| {
            let rank = messenger.rank();
            let a = part(size, grid, rank, Arc::new(Heap));
            let factor = Factor::new(&a, Backend::Faer).unwrap();
            let workers = VirtualWorkers::new(world, rank, 2);
            run_across(&factor, &workers, messenger, &Monitor::new()).unwrap();
            messenger.totals()
        },
    );
    sent.unwrap()[0]
}

#[test]
fn messages_and_bytes_are_those_that_reads_and_writes_need() {
    for (n, nb) in [
        (64, 16),
        (60, 16),
        (100, 7),
        (300, 100),
        (16, 16),
        (5, 8),
        (0, 8),
    ] {
        for grid in [
            (1, 1),
            (1, 2),
            (2, 1),
            (2, 2),
            (2, 3),
            (3, 2),
            (1, 4),
            (3, 3),
            (1, 7),
        ] {
            let sent = sent((n, nb), grid);
            let of = format!("n = {n}, nb = {nb} on {grid:?}");
            assert_eq!((sent.messages, sent.bytes()), expected(n, nb, grid), "{of}");
            // A tile leaves one task for a rank: an activation each, and none twice.
            assert_eq!(sent.activations, sent.messages, "{of}");
        }
    }
}

#[test]
fn activations_of_fine_tiles_share_packets() {
    let sent = sent((240, 4), (2, 2));
    let shared = sent.activations_per_packet();
    assert!(shared >= 2.0, "{shared:.2} activations in a packet");
}

/// Counts the bytes of its blocks that are alive.
#[derive(Default)]
struct Counting {
    alive: AtomicUsize,
    peak: AtomicUsize,
}

struct Counted {
    block: Box<dyn Block>,
    memory: Arc<Counting>,
}

/// One rank's.
struct Counter(Arc<Counting>);

impl Memory for Counter {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        let memory = self.0.clone();
        let alive = memory.alive.fetch_add(bytes, Ordering::SeqCst) + bytes;
        memory.peak.fetch_max(alive, Ordering::SeqCst);
        let block = Heap.allocate(bytes);
        Box::new(Counted { block, memory })
    }
}

impl Block for Counted {
    fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.block.bytes_mut()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.block.bytes().len();
        self.memory.alive.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// The largest share of a rank's own part that its tiles and what it received take, in bytes: the
/// part, and the most that was alive at once.
fn resident(weather: Weather, size: (usize, usize), settings: &Settings) -> Vec<(usize, usize)> {
    let counters: Vec<Arc<Counting>> = (0..4).map(|_| Arc::default()).collect();
    let counter = move |rank: Rank| Counter(counters[rank.0 as usize].clone());
    let received = counter.clone();
    let memory = move |rank| -> Arc<dyn Memory> { Arc::new(received(rank)) };
    let resident = on_ranks(weather, 4, settings, memory, move |world, messenger| {
        let rank = messenger.rank();
        let Counter(counting) = counter(rank);
        let a = part(size, (2, 2), rank, Arc::new(counter(rank)));
        let own = counting.alive.load(Ordering::SeqCst);
        let factor = Factor::new(&a, Backend::Faer).unwrap();
        let workers = VirtualWorkers::new(world, rank, 2);
        run_across(&factor, &workers, messenger, &Monitor::new()).unwrap();
        assert_eq!(
            counting.alive.load(Ordering::SeqCst),
            own,
            "all that came is gone"
        );
        (own, counting.peak.load(Ordering::SeqCst))
    });
    resident.unwrap()
}

#[test]
fn a_rank_never_holds_half_as_much_again_as_its_part() {
    let settings = Settings {
        window_bytes: 64 << 10,
        ..Settings::default()
    };
    for weather in [Weather::default(), Weather::free()] {
        for (own, peak) in resident(weather, (1280, 32), &settings) {
            assert!(
                peak < own + own / 2 + (64 << 10),
                "{peak} bytes for {own} of its own"
            );
        }
    }
}

/// The plain loop nest of LU without pivoting.
fn lu_nest((mt, nt): (usize, usize), mut task: impl FnMut(&[Tile], Tile)) {
    for k in 0..mt.min(nt) {
        task(&[], (k, k));
        for n in k + 1..nt {
            task(&[(k, k)], (k, n));
        }
        for m in k + 1..mt {
            task(&[(k, k)], (m, k));
            for n in k + 1..nt {
                task(&[(m, k), (k, n)], (m, n));
            }
        }
    }
}

/// What LU without pivoting sends: tiles, and where they go.
fn lu_crossings(tiles: (usize, usize), (p, q): (usize, usize)) -> BTreeSet<(Tile, usize)> {
    let owner = |(m, n): Tile| m % p * q + n % q;
    let mut crossings = BTreeSet::new();
    lu_nest(tiles, |reads, tile| {
        let far = reads.iter().filter(|read| owner(**read) != owner(tile));
        crossings.extend(far.map(|read| (*read, owner(tile))));
    });
    crossings
}

#[test]
fn the_count_for_lu_without_pivoting_is_that_of_another_program() {
    let grids = [(1, 2), (2, 2), (2, 3), (3, 3), (1, 4)];
    for (nt, figures) in [
        (4, [(9, 3), (18, 6), (25, 8), (32, 10), (20, 6)]),
        (8, [(35, 7), (70, 14), (103, 20), (136, 26), (98, 18)]),
        (16, [(135, 15), (270, 30), (403, 44), (536, 58), (398, 42)]),
    ] {
        for (grid, figure) in grids.into_iter().zip(figures) {
            let crossings = lu_crossings((nt, nt), grid);
            let diagonal = crossings.iter().filter(|((m, n), _)| m == n).count();
            assert_eq!((crossings.len(), diagonal), figure, "nt = {nt} on {grid:?}");
        }
    }
}

/// A datum of LU with partial pivoting, and who makes it: by name, step or column, row of ranks.
type Named = (&'static str, usize, usize, usize);

/// What LU with partial pivoting sends, by who reads what; with rows of ranks instead of tiles
/// where rows travel together.
fn pivoted_crossings((mt, nt): (usize, usize), (p, q): (usize, usize)) -> usize {
    let owner = |m: usize, n: usize| m % p * q + n % q;
    let rank_rows = |first: usize| -> BTreeSet<usize> { (first..mt).map(|m| m % p).collect() };
    let mut crossings: BTreeSet<(Named, usize)> = BTreeSet::new();
    let mut read = |datum: Named, from: usize, at: usize| {
        if from != at {
            crossings.insert((datum, at));
        }
    };
    let steps = mt.min(nt);
    for k in 0..steps {
        let top = owner(k, k);
        for r in rank_rows(k) {
            // The panel goes to the diagonal's rank and back.
            read(("stack", k, r, 0), owner(r, k), top);
            read(("factored", k, r, 0), top, owner(r, k));
        }
        for n in k + 1..nt {
            read(("swaps", k, 0, 0), top, owner(k, n));
            read(("tile", k, k, 0), top, owner(k, n));
            for r in rank_rows(k + 1) {
                read(("swaps", k, 0, 0), top, owner(r, n));
                read(("rise", k, n, r), owner(r, n), owner(k, n));
                read(("fall", k, n, r), owner(k, n), owner(r, n));
            }
            for m in k + 1..mt {
                read(("tile", m, k, 0), owner(m, k), owner(m, n));
                read(("tile", k, n, 0), owner(k, n), owner(m, n));
            }
        }
    }
    for n in 0..steps.saturating_sub(1) {
        read(("swaps", n + 1, 0, 0), owner(n + 1, n + 1), owner(n, n));
        if n + 2 < steps {
            read(("order", n + 1, 0, 0), owner(n + 1, n + 1), owner(n, n));
        }
        for from in rank_rows(n + 1) {
            read(("order", n, 0, 0), owner(n, n), owner(from, n));
            for to in rank_rows(n + 1) {
                read(("moved", n, from, to), owner(from, n), owner(to, n));
            }
        }
    }
    crossings.len()
}

/// Factors a matrix with or without pivoting over simulated ranks; what all ranks sent.
fn lu_sent((m, n): (usize, usize), nb: usize, (p, q): (usize, usize), pivoted: bool) -> Counters {
    let heap = |_| -> Arc<dyn Memory> { Arc::new(Heap) };
    let settings = Settings::default();
    let n_ranks = (p * q) as u32;
    let sent = on_ranks(
        Weather::default(),
        n_ranks,
        &settings,
        heap,
        move |world, messenger| {
            let rank = messenger.rank();
            let grid = Distribution::BlockCyclic(Grid::new(p as u32, q as u32).unwrap());
            let layout = Layout::general(m, n, nb).unwrap();
            let layout = layout.distributed(grid, rank).unwrap();
            let entries = PositiveDefinite::new(m.max(n), 3);
            let a = TiledMatrix::<f64>::from_entries(layout, &entries);
            let pivots = Pivots::new(&a);
            let workers = VirtualWorkers::new(world, rank, 2);
            let monitor = Monitor::new();
            if pivoted {
                let factor = lu::Factor::new(&a, &pivots, Backend::Faer).unwrap();
                factor.run_across(&workers, messenger, &monitor).unwrap();
            } else {
                let factor = Unpivoted::new(&a, &pivots, Backend::Faer).unwrap();
                factor.run_across(&workers, messenger, &monitor).unwrap();
            }
            messenger.totals()
        },
    );
    sent.unwrap()[0]
}

#[test]
fn messages_of_lu_are_those_that_reads_and_writes_need() {
    for (m, n, nb) in [
        (64_usize, 64_usize, 16),
        (60, 60, 16),
        (100, 37, 7),
        (37, 100, 7),
        (5, 5, 8),
    ] {
        for grid in [
            (1, 1),
            (1, 2),
            (2, 1),
            (2, 2),
            (2, 3),
            (3, 2),
            (1, 7),
            (5, 1),
        ] {
            let of = format!("{m} x {n}, nb = {nb} on {grid:?}");
            let tiles = (m.div_ceil(nb), n.div_ceil(nb));
            let extent = |length: usize, i: usize| nb.min(length - i * nb);
            let crossings = lu_crossings(tiles, grid);
            let bytes = crossings
                .iter()
                .map(|&((i, j), _)| 8 * extent(m, i) * extent(n, j));
            let expected = (crossings.len() as u64, bytes.sum::<usize>() as u64);
            let sent = lu_sent((m, n), nb, grid, false);
            assert_eq!(
                (sent.messages, sent.bytes()),
                expected,
                "without pivoting, {of}"
            );
            let sent = lu_sent((m, n), nb, grid, true);
            assert_eq!(sent.messages, pivoted_crossings(tiles, grid) as u64, "{of}");
        }
    }
}
