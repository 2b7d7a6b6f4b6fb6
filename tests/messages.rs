//! What Cholesky sends between ranks, over the real protocol, is what its reads and writes need:
//! each final tile once to each rank that reads it, diagonal tiles as triangles. And how much of what
//! others send a rank holds.
//!
//! # Elsewhere
//! Every other routine, by the same count, where whatever is posted crosses: `traffic`, among the
//! tests of `dataflow-linalg`.

#[path = "../benches/overlap/held.rs"]
mod held;
#[path = "../benches/overlap/spaces.rs"]
#[allow(dead_code, reason = "the bench runs another space, too")]
mod spaces;
#[path = "../benches/overlap/world.rs"]
mod world;

use dataflow::core::port::{Context, Courier, Heap, Lengths, Memory};
use dataflow::core::run_across;
use dataflow::linalg::cholesky::Factor;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow::linalg::product::{Gemm, Operand};
use dataflow::mpi::transport::simulated::{VirtualWorkers, Weather};
use dataflow::mpi::{Counters, Settings};
use dataflow::prelude::*;
use held::{Counting, Held};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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
            run_across(&factor, &Context::new(&workers).across(messenger)).unwrap();
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

/// The largest share of a rank's own part that its tiles and what it received take, in bytes: the
/// part, and the most that was alive at once.
fn resident(weather: Weather, size: (usize, usize), settings: &Settings) -> Vec<(usize, usize)> {
    let counters: Vec<Arc<Held>> = (0..4).map(|_| Arc::default()).collect();
    let counter = move |rank: Rank| Counting {
        held: counters[rank.0 as usize].clone(),
        memory: Heap,
    };
    let received = counter.clone();
    let memory = move |rank| -> Arc<dyn Memory> { Arc::new(received(rank)) };
    let resident = on_ranks(weather, 4, settings, memory, move |world, messenger| {
        let rank = messenger.rank();
        let held = counter(rank).held;
        let a = part(size, (2, 2), rank, Arc::new(counter(rank)));
        let own = held.now();
        let factor = Factor::new(&a, Backend::Faer).unwrap();
        let workers = VirtualWorkers::new(world, rank, 2);
        run_across(&factor, &Context::new(&workers).across(messenger)).unwrap();
        assert_eq!(held.now(), own, "all that came is gone");
        (own, held.peak())
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

/// A Cholesky factorisation in virtual time on 4 × 4 ranks of 4 workers: the most bytes of others' tiles that
/// a rank held, and the virtual seconds that it took.
fn held_in_virtual_time(nt: usize, lookahead: Option<u32>) -> (usize, f64) {
    const N_RANKS: u32 = 16;
    let counters: Vec<Arc<Held>> = (0..N_RANKS).map(|_| Arc::default()).collect();
    let received = counters.clone();
    let memory = move |rank: Rank| -> Arc<dyn Memory> {
        Arc::new(Counting {
            held: received[rank.0 as usize].clone(),
            memory: Lengths,
        })
    };
    let settings = Settings::default();
    let kernels = spaces::Kernels::measured().unwrap();
    let ran = on_ranks(
        Weather::default(),
        N_RANKS,
        &settings,
        memory,
        move |world, messenger| {
            let rank = messenger.rank();
            let space = spaces::Cholesky::on(N_RANKS, nt, lookahead, &kernels, rank).unwrap();
            let workers = VirtualWorkers::new(world, rank, 4);
            run_across(&space, &Context::new(&workers).across(messenger)).unwrap();
            world.now()
        },
    );
    let last = ran.unwrap().into_iter().max().unwrap();
    let peaks = counters.iter().map(|held| held.peak());
    (peaks.max().unwrap(), last.as_secs_f64())
}

#[test]
fn three_columns_of_lookahead_hold_two_thirds_of_what_no_bound_holds_and_take_no_longer() {
    let nt = 64;
    let (unbounded, shortest) = held_in_virtual_time(nt, None);
    let (held, seconds) = held_in_virtual_time(nt, Some(3));
    println!("{unbounded} bytes in {shortest} s; with three columns {held} in {seconds}");
    assert!(3 * held < 2 * unbounded, "{held} bytes of {unbounded}");
    assert!(seconds < 1.02 * shortest, "{seconds} s after {shortest}");
}

/// A product of matrices of `nt` × `nt` tiles of order 32 on a grid of four ranks, of which some reach one by
/// a slow link only: the most bytes of others' tiles that a rank held, and what all ranks sent.
fn held_behind_slow_links(
    nt: usize,
    (p, q): (u32, u32),
    slow: &[(u32, u32)],
    settings: &Settings,
) -> (usize, Counters) {
    let counters: Vec<Arc<Held>> = (0..4).map(|_| Arc::default()).collect();
    let received = counters.clone();
    let memory = move |rank: Rank| -> Arc<dyn Memory> {
        let held = received[rank.0 as usize].clone();
        let memory = Heap;
        Arc::new(Counting { held, memory })
    };
    let weather = Weather {
        slow_links: slow
            .iter()
            .map(|&(from, to)| (Rank(from), Rank(to), 1e6))
            .collect(),
        ..Weather::default()
    };
    let sent = on_ranks(weather, 4, settings, memory, move |world, messenger| {
        let rank = messenger.rank();
        let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
        let layout = Layout::general(32 * nt, 32 * nt, 32).unwrap();
        let layout = layout.distributed(grid, rank).unwrap();
        let [a, b, c] = [1, 2, 3].map(|seed| {
            TiledMatrix::<f64>::from_entries_in(layout, Arc::new(Heap), &Random::new(seed))
        });
        let (a, b) = (Operand::plain(&a), Operand::plain(&b));
        let product = Gemm::new(1.0, a, b, 0.0, &c, Backend::Faer).unwrap();
        let workers = VirtualWorkers::new(world, rank, 2);
        product
            .run(&Context::new(&workers).across(messenger))
            .unwrap();
        messenger.totals()
    });
    let peaks = counters.iter().map(|held| held.peak());
    (peaks.max().unwrap(), sent.unwrap()[0])
}

const TILE: usize = 32 * 32 * 8;

/// A rank takes so many tiles that it does not use yet.
fn holding(tiles: usize) -> Settings {
    Settings {
        held_bytes: tiles.saturating_mul(TILE),
        window_bytes: 8 * TILE,
        ..Settings::default()
    }
}

/// All tiles are announced before the first is needed; those of B come at once, those of A slowly.
#[test]
fn a_product_holds_what_it_is_allowed_to_what_is_asked_for_and_two_steps_of_others_tiles() {
    // Of 20 × 20 tiles of A and of B half go to one other rank each.
    let (messages, all) = (800, 200 * TILE);
    let held_with = |tiles| held_behind_slow_links(20, (2, 2), &[(1, 0)], &holding(tiles));
    let (held, sent) = held_with(16);
    assert_eq!(
        (sent.messages, sent.bytes()),
        (messages, messages * TILE as u64)
    );
    // A step takes ten tiles of A and ten of B.
    let allowed = (16 + 8 + 2 * 20) * TILE;
    assert!(held <= allowed, "{held} bytes, {allowed} allowed");
    let (unbounded, sent) = held_with(usize::MAX);
    assert_eq!(sent.messages, messages);
    assert!(2 * unbounded > all, "{unbounded} of {all} bytes");
}

/// A rank kept what it passed on until those below had asked for it, however much that was: 192 tiles
/// of 20 × 20, and 784 of 40 × 40.
#[test]
fn what_a_rank_passes_on_is_bounded_with_what_it_uses_itself_however_large_the_matrix() {
    for nt in [20, 40] {
        let slow = [(1, 3), (2, 3)];
        let held_with = |tiles| held_behind_slow_links(nt, (1, 4), &slow, &holding(tiles));
        let (held, sent) = held_with(16);
        // Each tile of A goes to the three others.
        let messages = (3 * nt * nt) as u64;
        assert_eq!(
            (sent.messages, sent.bytes()),
            (messages, messages * TILE as u64)
        );
        let allowed = (16 + 8 + 2 * nt) * TILE;
        assert!(held <= allowed, "{held} bytes, {allowed} allowed");
        let (unbounded, sent) = held_with(usize::MAX);
        println!("{nt}: {held}, {unbounded}");
        assert_eq!(sent.messages, messages);
        assert!(unbounded > 2 * allowed || nt == 20, "{unbounded} bytes");
    }
}
