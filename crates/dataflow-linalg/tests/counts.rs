//! What the library's graphs would do on machines that are not there, counted over their edges.

use dataflow_core::port::Heap;
use dataflow_core::rank::Rank;
use dataflow_core::space::Erased;
use dataflow_core::space::counts::{Counting, Counts};
use dataflow_linalg::cholesky::{Factor, substitution};
use dataflow_linalg::kernel::{Backend, Op, Side};
use dataflow_linalg::lu::{self, Exchanges, Incremental, Pivots, Replay, Solve, Unpivoted};
use dataflow_linalg::matrix::{Distribution, Grid, Layout, Tile, TiledMatrix};
use dataflow_linalg::needs::{self, Needs};
use dataflow_linalg::qr::{self, Options, Reflectors};
use dataflow_linalg::weight::Weight;
use std::num::NonZeroUsize;
use std::sync::Arc;

type OnGrid = (u32, u32);

fn distributed(layout: Layout, (p, q): OnGrid, rank: u32) -> Layout {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    layout.distributed(grid, Rank(rank)).unwrap()
}

/// A matrix without tiles.
fn vacant(layout: Layout, grid: OnGrid) -> TiledMatrix<f64> {
    TiledMatrix::vacant(distributed(layout, grid, 0), Arc::new(Heap))
}

fn lower(nt: usize, nb: usize) -> Layout {
    Layout::lower(nt * nb, nb).unwrap()
}

/// Paper 001, Fig. 7: a matrix of order 99,792 on nine nodes, whose tasks are the coarser of two levels. By
/// blocks a side and grid: the messages and those of diagonal blocks among them, all in GB, and the most work
/// of a node ÷ the mean. The figure is a plot; these numbers are those of another program.
const FIGURE_7: [(usize, OnGrid, [u64; 2], u64, f64); 12] = [
    (18, (9, 1), [804, 108], 198, 1.753),
    (18, (1, 9), [804, 0], 198, 1.123),
    (18, (3, 3), [578, 33], 142, 1.264),
    (36, (9, 1), [4116, 252], 253, 1.355),
    (36, (1, 9), [4116, 0], 253, 1.031),
    (36, (3, 3), [2450, 69], 151, 1.128),
    (54, (9, 1), [10_020, 396], 274, 1.232),
    (54, (1, 9), [10_020, 0], 274, 1.014),
    (54, (3, 3), [5618, 105], 153, 1.085),
    (72, (9, 1), [18_516, 540], 285, 1.172),
    (72, (1, 9), [18_516, 0], 285, 1.008),
    (72, (3, 3), [10_082, 141], 155, 1.063),
];

#[test]
fn the_counts_of_ducteips_simulation_are_those_of_our_graph() {
    for (blocks, grid, [messages, diagonal], gigabytes, balance) in FIGURE_7 {
        let nb = 99_792 / blocks;
        let a = vacant(lower(blocks, nb), grid);
        let factor = Factor::new(&a, Backend::Auto).unwrap();
        let flops = |task| factor.flops(task);
        let (whole, travels) = (
            |_, _| (nb * nb * 8) as u64,
            |task, flow| factor.bytes(task, flow),
        );
        let counting = Counting::of(&factor, 9).cost(&flops);
        let counts = counting.bytes(&whole).count().unwrap();
        let sent = counts.sent();
        let rounded = (sent.bytes as f64 * 1e-9).round() as u64;
        let of = format!("{blocks} blocks on {grid:?}");
        assert_eq!((sent.messages, rounded), (messages, gigabytes), "{of}");
        let times = 1.0 / counts.balance();
        assert!((times - balance).abs() < 0.0005, "{of}: {times}");
        // There blocks travel whole, here diagonal ones as their triangles.
        let ours = counting.bytes(&travels).count().unwrap().sent();
        let saved = diagonal * (nb * (nb - 1) / 2 * 8) as u64;
        assert_eq!(
            (ours.messages, ours.bytes + saved),
            (messages, sent.bytes),
            "{of}"
        );
    }
}

/// What ranks of so many workers hold of each other's data at most, in rounds.
fn held<S: Weight>(space: &S, n_ranks: u32, workers: usize) -> Counts {
    let bytes = |task, flow| space.bytes(task, flow);
    let counting = Counting::of(space, n_ranks).bytes(&bytes);
    let workers = NonZeroUsize::new(workers).unwrap();
    counting.in_rounds(workers).count().unwrap()
}

fn most(counts: &Counts) -> u64 {
    counts.ranks.iter().map(|rank| rank.held).max().unwrap()
}

/// Paper 000's largest comparison in shape: N = 54,400, nb = 340, 81 ranks of eight workers.
#[test]
fn three_columns_of_lookahead_hold_a_quarter_of_what_no_bound_holds() {
    let a = vacant(lower(160, 340), (9, 9));
    let factor = Factor::new(&a, Backend::Auto).unwrap();
    let unbounded = held(&factor, 81, 8);
    let [one, three] = [1, 3].map(|columns| held(&factor.with_lookahead(columns), 81, 8));
    let bytes = [&one, &three, &unbounded].map(most);
    assert!(bytes[0] < bytes[1] && 4 * bytes[1] < bytes[2], "{bytes:?}");
    let rounds = [&unbounded, &three].map(|counts| counts.rounds.unwrap());
    assert!(rounds[1] * 100 < rounds[0] * 103, "{rounds:?}");
    assert_eq!(
        (three.sent(), three.tasks()),
        (unbounded.sent(), unbounded.tasks())
    );
}

#[test]
fn a_lookahead_holds_no_more_than_it_is_told_to_need() {
    for grid in [(1, 2), (2, 1), (1, 5), (4, 1), (2, 3), (3, 2), (4, 4)] {
        for (nt, columns) in [(7, 0), (24, 0), (24, 1), (24, 3), (30, 6), (9, 20)] {
            let of = format!("{nt} tiles, {columns} columns");
            let layout = lower(nt, 10);
            let a = vacant(layout, grid);
            let factor = Factor::new(&a, Backend::Auto).unwrap();
            let factor = factor.with_lookahead(columns);
            expect_told((&of, &factor), (layout, grid), |here| {
                let unbounded = needs::cholesky::<f64>(here, 1);
                [needs::cholesky_ahead::<f64>(here, columns, 1), unbounded]
            });
            let layout = Layout::general(nt * 10, nt * 10, 10).unwrap();
            let a = vacant(layout, grid);
            let factor = Unpivoted::new(&a, &Pivots::new(&a), Backend::Auto).unwrap();
            let factor = factor.with_lookahead(columns);
            expect_told((&of, &factor), (layout, grid), |here| {
                let unbounded = needs::lu_unpivoted::<f64>(here, 1);
                [
                    needs::lu_unpivoted_ahead::<f64>(here, columns, 1),
                    unbounded,
                ]
            });
        }
    }
}

/// What the stages of a solution do one after the other, and as one graph: tasks, messages, and rounds of
/// ranks with so many workers.
fn stages_and_series(
    of: &str,
    stages: impl Fn() -> Vec<Erased<'static, Tile<f64>>>,
    (p, q): OnGrid,
    workers: usize,
) {
    let counted = |space: &Erased<'_, Tile<f64>>| {
        let counting = Counting::of(space, p * q);
        let workers = NonZeroUsize::new(workers).unwrap();
        let counts = counting.in_rounds(workers).count().unwrap();
        [
            counts.tasks(),
            counts.sent().messages,
            counts.rounds.unwrap(),
        ]
    };
    let mut apart = [0; 3];
    for stage in stages() {
        let counts = counted(&stage);
        apart
            .iter_mut()
            .zip(counts)
            .for_each(|(sum, one)| *sum += one);
    }
    let joined = counted(&Erased::series(stages(), 0..p * q).unwrap());
    let of = format!("{of} on {p} x {q}, {workers} workers: {apart:?}, joined {joined:?}");
    println!("{of}");
    assert_eq!(joined[..2], apart[..2], "{of}");
    assert!(joined[2] <= apart[2], "{of}");
}

#[test]
fn one_graph_takes_no_more_rounds_than_its_stages_one_after_the_other() {
    fn lasting<T>(made: T) -> &'static T {
        Box::leak(Box::new(made))
    }
    let nt = 12;
    for grid in [(1, 1), (2, 2), (2, 3)] {
        let general = |columns: usize| {
            let layout = Layout::general(nt * 10, columns * 10, 10).unwrap();
            lasting(vacant(layout, grid))
        };
        let (l, a, b) = (
            lasting(vacant(lower(nt, 10), grid)),
            general(nt),
            general(2),
        );
        let (pivots, exchanges) = (lasting(Pivots::new(a)), lasting(Exchanges::new(a)));
        let q = lasting(Reflectors::new(a.layout(), Options::of_order(10)));
        let backend = Backend::Auto;
        for workers in [1, 4, 1000] {
            let posv = || {
                let factor = Factor::new(l, backend).unwrap();
                let solve = substitution(l, b, backend).unwrap();
                vec![Erased::of(factor), Erased::of(solve)]
            };
            stages_and_series("posv", posv, grid, workers);
            let gesv = || {
                let solve = lasting(Solve::new(a, pivots, Op::NoTranspose, b, backend).unwrap());
                let factor = lu::Factor::new(a, pivots, backend).unwrap();
                let factor = [Erased::of(factor)].into_iter();
                factor.chain(solve.parts()).collect()
            };
            stages_and_series("gesv", gesv, grid, workers);
            let incremental = || {
                let factor = Incremental::new(a, exchanges, backend).unwrap();
                let solve = Replay::new(a, exchanges, b, backend).unwrap();
                vec![Erased::of(factor), Erased::of(solve)]
            };
            stages_and_series("gesv, incremental", incremental, grid, workers);
            let gels = || {
                let factor = qr::Factor::new(a, q, backend).unwrap();
                let way = (Side::Left, Op::ConjTranspose);
                let turn = qr::Apply::new(a, q, way, b, backend).unwrap();
                let solve = qr::Solve::new(a, Op::NoTranspose, b, general(2), backend);
                vec![
                    Erased::of(factor),
                    Erased::of(turn),
                    Erased::of(solve.unwrap()),
                ]
            };
            stages_and_series("gels", gels, grid, workers);
        }
    }
}

/// Expects that each rank holds what was told, at most, and that no bound tells no less.
fn expect_told<S: Weight>(
    (of, space): (&str, &S),
    (layout, grid): (Layout, OnGrid),
    told: impl Fn(&Layout) -> [Needs; 2],
) {
    for workers in [1, 3] {
        let counts = held(space, grid.0 * grid.1, workers);
        for (rank, of_rank) in (0..).zip(&counts.ranks) {
            let [told, unbounded] =
                told(&distributed(layout, grid, rank)).map(|needs| needs.received);
            let of = format!("{of} on {grid:?}, rank {rank} of {workers} workers");
            assert!(
                u128::from(of_rank.held) <= told,
                "{of}: {}, told {told}",
                of_rank.held
            );
            assert!(told <= unbounded, "{of}: {told} of {unbounded}");
        }
    }
}
