//! What Cholesky and LU send between ranks is what their reads and writes need: each final datum
//! once to each rank that reads it, Cholesky's diagonal tiles as triangles.

#[path = "../benches/overlap/world.rs"]
mod world;

use dataflow::core::port::{Block, Courier, Heap, Memory};
use dataflow::core::run_across;
use dataflow::linalg::cholesky::Factor;
use dataflow::linalg::kernel::{Backend, Below};
use dataflow::linalg::lu::{self, Pivots, Unpivoted};
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow::linalg::qr::{self, Options, Reduction, Reflectors, Tree};
use dataflow::mpi::transport::simulated::{VirtualWorkers, Weather};
use dataflow::mpi::{Counters, Settings};
use dataflow::{Monitor, prelude::*};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
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

/// A datum that steps of tile QR send along their row: V and T of a triangle, of an elimination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    Reflectors(Tile),
    Triangle(Tile),
    Eliminated(Tile),
    ItsTriangle(Tile),
}

/// Rows of T in these tests.
const IB: usize = 3;

/// What the plain loops over an elimination list send: data, and elements of `f64`.
///
/// A step runs where the row lies that is made a triangle or vanishes; tiles are taken from where
/// they were last and end where they began, reflectors are read where they are applied.
struct Crossings {
    at: BTreeMap<Tile, usize>,
    sent: BTreeSet<(Sent, usize)>,
    data: u64,
    elements: usize,
}

impl Crossings {
    fn take(&mut self, tile: Tile, home: usize, here: usize, size: usize) {
        if self.at.insert(tile, here).unwrap_or(home) != here {
            self.data += 1;
            self.elements += size;
        }
    }

    fn read(&mut self, datum: Sent, from: usize, here: usize, size: usize) {
        if from != here && self.sent.insert((datum, here)) {
            self.data += 1;
            self.elements += size;
        }
    }

    fn of(shape: (usize, usize, usize), (p, q): (usize, usize), tree: Tree) -> (u64, u64) {
        let (m, n, nb) = shape;
        let (mt, nt) = (m.div_ceil(nb), n.div_ceil(nb));
        let owner = |i: usize, j: usize| i % p * q + j % q;
        let (rows, cols) = (|i: usize| nb.min(m - i * nb), |j: usize| nb.min(n - j * nb));
        // Below the diagonal; of at least as many rows as columns.
        let below = |rows: usize, cols: usize| rows * cols - cols * (cols + 1) / 2;
        let mut all = Crossings {
            at: BTreeMap::new(),
            sent: BTreeSet::new(),
            data: 0,
            elements: 0,
        };
        for (k, list) in tree.kills(mt as u32, mt.min(nt) as u32).iter().enumerate() {
            let vanishes_as_square = |m: usize| {
                list.iter()
                    .any(|kill| kill.m as usize == m && kill.below == Below::Square)
            };
            for m in (k..mt).filter(|&m| !vanishes_as_square(m)) {
                let (width, from) = (rows(m).min(cols(k)), owner(m, k));
                for n in k..nt {
                    let here = owner(m, n);
                    all.take((m, n), here, here, rows(m) * cols(n));
                    all.read(Sent::Reflectors((m, k)), from, here, below(rows(m), width));
                    all.read(Sent::Triangle((m, k)), from, here, IB * width);
                }
            }
            for kill in list {
                let (m, pivot, from) = (
                    kill.m as usize,
                    kill.pivot as usize,
                    owner(kill.m as usize, k),
                );
                for n in k..nt {
                    let here = owner(m, n);
                    // In the column of the panel R alone goes on, and comes back.
                    let vanishing = match kill.below {
                        Below::Square => rows(m) * cols(k),
                        Below::Triangle => upper(rows(m), cols(k)),
                    };
                    let (above, below) = match n == k {
                        true => (upper(rows(pivot), cols(k)), vanishing),
                        false => (rows(pivot) * cols(n), rows(m) * cols(n)),
                    };
                    all.take((pivot, n), owner(pivot, n), here, above);
                    all.take((m, n), here, here, below);
                    all.read(Sent::Eliminated((m, k)), from, here, vanishing);
                    all.read(Sent::ItsTriangle((m, k)), from, here, IB * cols(k));
                }
            }
            for n in k..nt {
                let size = match n == k {
                    true => upper(rows(k), cols(k)),
                    false => rows(k) * cols(n),
                };
                all.take((k, n), owner(k, n), owner(k, n), size);
            }
        }
        (all.data, all.elements as u64)
    }
}

/// Elements on and above the diagonal.
fn upper(rows: usize, cols: usize) -> usize {
    (0..cols).map(|j| rows.min(j + 1)).sum()
}

/// Factors a matrix over a grid of simulated ranks of two workers; what all ranks sent.
fn sent_by_qr((m, n, nb): (usize, usize, usize), grid: (usize, usize), tree: Tree) -> Counters {
    let heap = |_| -> Arc<dyn Memory> { Arc::new(Heap) };
    let n_ranks = (grid.0 * grid.1) as u32;
    let settings = Settings::default();
    let sent = on_ranks(
        Weather::default(),
        n_ranks,
        &settings,
        heap,
        move |world, messenger| {
            let rank = messenger.rank();
            let cyclic = Grid::new(grid.0 as u32, grid.1 as u32).unwrap();
            let layout = Layout::general(m, n, nb).unwrap();
            let layout = layout.distributed(Distribution::BlockCyclic(cyclic), rank);
            let a = TiledMatrix::<f64>::from_entries(layout.unwrap(), &Random::new(3));
            let q = Reflectors::new(a.layout(), Options { tree, ib: IB });
            let factor = qr::Factor::new(&a, &q, Backend::Faer).unwrap();
            let workers = VirtualWorkers::new(world, rank, 2);
            run_across(&factor, &workers, messenger, &Monitor::new()).unwrap();
            messenger.totals()
        },
    );
    sent.unwrap()[0]
}

/// The hierarchical tree with flat reductions of the rows of a rank.
fn by_ranks(p: usize, a: usize) -> Tree {
    let (low, high) = (Reduction::Flat, Reduction::Binary);
    let (p, a) = (p as u32, a as u32);
    Tree::Hierarchical { p, a, low, high }
}

#[test]
fn qr_sends_what_its_reads_and_writes_need() {
    for shape in [
        (64, 64, 16),
        (60, 40, 9),
        (20, 50, 8),
        (16, 16, 16),
        (5, 3, 8),
        (0, 4, 8),
    ] {
        for grid in [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 3), (1, 7)] {
            for tree in [Tree::Flat, Tree::Greedy, by_ranks(2, 2)] {
                let sent = sent_by_qr(shape, grid, tree);
                let (messages, elements) = Crossings::of(shape, grid, tree);
                let found = (sent.messages, sent.bytes());
                assert_eq!(
                    found,
                    (messages, 8 * elements),
                    "{shape:?}, {tree} on {grid:?}"
                );
            }
        }
    }
}

#[test]
fn the_count_of_qr_by_reads_and_writes_is_that_of_another_program() {
    for (nt, flat, binary, hierarchical) in [
        (4, [18, 44, 58, 57, 40], [56, 87], [42, 75]),
        (8, [70, 258, 324, 328, 196], [314, 508], [154, 289]),
        (16, [270, 1702, 1968, 1981, 796], [1942, 3090], [570, 1053]),
        (
            40,
            [1638, 23378, 25012, 25125, 4900],
            [24938, 38580],
            [3354, 6033],
        ),
    ] {
        let count = |grid, tree| Crossings::of((nt, nt, 1), grid, tree).0;
        let grids = [(1, 2), (2, 2), (2, 3), (3, 3), (1, 4)];
        assert_eq!(
            grids.map(|grid| count(grid, Tree::Flat)),
            flat,
            "flat, nt = {nt}"
        );
        let grids = [(2, 2), (3, 3)];
        assert_eq!(
            grids.map(|grid| count(grid, Tree::Binary)),
            binary,
            "binary, nt = {nt}"
        );
        let found = grids.map(|grid| count(grid, by_ranks(grid.0, nt)));
        assert_eq!(found, hierarchical, "hierarchical, nt = {nt}");
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

/// The matches of a tournament of so many: the leaves of a heap, in which a parent has half the number.
fn matches(entrants: usize) -> Vec<(usize, usize, usize)> {
    (1..entrants).map(|v| (v, 2 * v, 2 * v + 1)).collect()
}

/// The leaf at the end of the way down to the left.
fn leftmost(node: usize, entrants: usize) -> usize {
    if node >= entrants {
        node - entrants
    } else {
        leftmost(2 * node, entrants)
    }
}

/// What LU with partial or tournament pivoting sends, by who reads what; with rows of ranks instead of tiles
/// where rows travel together.
///
/// - `groups`: of a tournament; 0 takes partial pivoting
fn pivoted_crossings((mt, nt): (usize, usize), (p, q): (usize, usize), groups: usize) -> usize {
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
            if groups == 0 {
                read(("stack", k, r, 0), owner(r, k), top);
            }
            read(("factored", k, r, 0), top, owner(r, k));
        }
        if groups > 0 {
            // Each group's tiles meet at its first; then pairs of winners, halving their number.
            let entrants = groups.min(mt - k);
            let firsts: Vec<usize> = (0..entrants).map(|i| owner(k + i, k)).collect();
            for m in k..mt {
                let first = firsts[(m - k) % groups];
                read(("candidate", m, k, 0), owner(m, k), first);
            }
            for (v, left, right) in matches(entrants) {
                // A match is played where its leftmost group begins, the last at the diagonal.
                let at = if v == 1 {
                    top
                } else {
                    firsts[leftmost(v, entrants)]
                };
                for player in [left, right] {
                    read(
                        ("winners", k, player, 0),
                        firsts[leftmost(player, entrants)],
                        at,
                    );
                }
            }
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

#[derive(Clone, Copy)]
enum Pivoting {
    None,
    /// Partial, or a tournament of so many groups if there are any.
    ByColumns(u32),
    Incremental,
}

/// What LU with incremental pivoting sends: each version of a tile, and what goes with it, once to
/// each rank that reads or changes it next.
fn incremental_crossings((mt, nt): (usize, usize), (p, q): (usize, usize)) -> usize {
    let owner = |m: usize, n: usize| m % p * q + n % q;
    let mut crossings: BTreeSet<(Named, usize)> = BTreeSet::new();
    let mut read = |datum: Named, from: usize, at: usize| {
        if from != at {
            crossings.insert((datum, at));
        }
    };
    for k in 0..mt.min(nt) {
        for n in k + 1..nt {
            read(("swaps", k, 0, 0), owner(k, k), owner(k, n));
            read(("row", k, k, k), owner(k, k), owner(k, n));
        }
        for m in k + 1..mt {
            // Rows go down a column, from the tile that they met last.
            for n in k..nt {
                read(("row", k, n, m - 1), owner(m - 1, n), owner(m, n));
            }
            for n in k + 1..nt {
                read(("multipliers", m, k, 0), owner(m, k), owner(m, n));
                read(("steps", m, k, 0), owner(m, k), owner(m, n));
            }
        }
        for n in k..nt {
            read(("row", k, n, mt - 1), owner(mt - 1, n), owner(k, n));
        }
    }
    crossings.len()
}

/// Factors a matrix with or without pivoting over simulated ranks; what all ranks sent.
fn lu_sent(
    (m, n): (usize, usize),
    nb: usize,
    (p, q): (usize, usize),
    pivoting: Pivoting,
) -> Counters {
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
            match pivoting {
                Pivoting::None => {
                    let factor = Unpivoted::new(&a, &pivots, Backend::Faer).unwrap();
                    factor.run_across(&workers, messenger, &monitor).unwrap();
                }
                Pivoting::ByColumns(groups) => {
                    let mut factor = lu::Factor::new(&a, &pivots, Backend::Faer).unwrap();
                    if let Some(groups) = NonZeroU32::new(groups) {
                        factor = factor.by_tournament(groups);
                    }
                    factor.run_across(&workers, messenger, &monitor).unwrap();
                }
                Pivoting::Incremental => {
                    let exchanges = lu::Exchanges::new(&a);
                    let factor = lu::Incremental::new(&a, &exchanges, Backend::Faer).unwrap();
                    factor.run_across(&workers, messenger, &monitor).unwrap();
                }
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
            // Of a diagonal tile L goes along its row, U down its column.
            let elements = |&((i, j), to): &(Tile, usize)| {
                let (rows, cols) = (extent(m, i), extent(n, j));
                match (i == j, to / grid.1 == i % grid.0) {
                    (false, _) => rows * cols,
                    (true, true) => rows * cols - upper(rows, cols),
                    (true, false) => upper(rows, cols),
                }
            };
            let bytes = crossings.iter().map(|crossing| 8 * elements(crossing));
            let expected = (crossings.len() as u64, bytes.sum::<usize>() as u64);
            let sent = lu_sent((m, n), nb, grid, Pivoting::None);
            assert_eq!(
                (sent.messages, sent.bytes()),
                expected,
                "without pivoting, {of}"
            );
            for groups in [0, 2, 3, 5] {
                let sent = lu_sent((m, n), nb, grid, Pivoting::ByColumns(groups));
                let expected = pivoted_crossings(tiles, grid, groups as usize) as u64;
                assert_eq!(sent.messages, expected, "{of}, {groups} groups");
            }
            let sent = lu_sent((m, n), nb, grid, Pivoting::Incremental);
            let expected = incremental_crossings(tiles, grid) as u64;
            assert_eq!(sent.messages, expected, "incremental pivoting, {of}");
        }
    }
}
