//! What crosses ranks in LU and QR, counted over the reads and writes of the plain loops.
//!
//! # Law
//! A datum, or the part of it that is read, is sent once to each rank that reads a version of it
//! where it does not lie; nothing else is sent.

use crate::ranks::{Crossed, on_ranks};
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Courier, Shuffled};
use dataflow_linalg::kernel::{Backend, Below};
use dataflow_linalg::lu::{self, Pivots, Unpivoted};
use dataflow_linalg::matrix::generate::Random;
use dataflow_linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow_linalg::qr::{self, Options, Reduction, Reflectors, Tree};
use std::collections::{BTreeMap, BTreeSet};

const NB: usize = 4;
/// Inner block of QR: rows of T.
const IB: usize = 2;

/// What a loop names: a letter and two numbers.
type Name = (char, usize, usize);
/// A datum or a part of it, and how many elements that is.
type Read = (Name, char, usize);

/// Data, where their versions lie, and what was sent.
struct Loops {
    grid: (usize, usize),
    /// Version and place.
    lie: BTreeMap<Name, (usize, usize)>,
    sent: BTreeSet<(Name, char, usize, usize)>,
    elements: usize,
}

/// A tile read as it is, and parts of one.
fn whole(name: Name, rows: usize, cols: usize) -> Read {
    (name, 'W', rows * cols)
}

fn upper(name: Name, rows: usize, cols: usize) -> Read {
    (name, 'U', each(rows, cols).filter(|(i, j)| i <= j).count())
}

fn unit_lower(name: Name, rows: usize, cols: usize) -> Read {
    (name, 'L', each(rows, cols).filter(|(i, j)| i > j).count())
}

fn each(rows: usize, cols: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..cols).flat_map(move |j| (0..rows).map(move |i| (i, j)))
}

impl Loops {
    fn on((p, q): (u32, u32)) -> Self {
        Loops {
            grid: (p as usize, q as usize),
            lie: BTreeMap::new(),
            sent: BTreeSet::new(),
            elements: 0,
        }
    }

    /// The rank of tile (i, j).
    fn rank(&self, i: usize, j: usize) -> usize {
        i % self.grid.0 * self.grid.1 + j % self.grid.1
    }

    /// A task on a rank; what it has not touched before lies where the tile of its numbers does.
    fn task(&mut self, rank: usize, reads: &[Read], writes: &[Name]) {
        for &(name, part, elements) in reads {
            let home = self.rank(name.1, name.2);
            let (version, place) = *self.lie.entry(name).or_insert((0, home));
            if place != rank && self.sent.insert((name, part, version, rank)) {
                self.elements += elements;
            }
        }
        for &name in writes {
            let version = self.lie.get(&name).map_or(0, |(version, _)| version + 1);
            self.lie.insert(name, (version, rank));
        }
    }

    fn expect(&self, crossed: &Crossed, what: &str) {
        let bytes = self.elements * size_of::<f64>();
        let expected = (self.sent.len() as u64, bytes as u64);
        assert_eq!((crossed.data, crossed.bytes), expected, "{what}");
    }
}

/// Rows or columns of a tile.
fn extent(length: usize, tile: usize) -> usize {
    NB.min(length - tile * NB)
}

/// Tile QR of an m × n matrix.
fn qr_loops((m, n): (usize, usize), grid: (u32, u32), tree: Tree) -> Loops {
    let mut loops = Loops::on(grid);
    let (mt, nt) = (m.div_ceil(NB), n.div_ceil(NB));
    let panels = mt.min(nt);
    let (rows, cols) = (|i| extent(m, i), |j| extent(n, j));
    let kills = tree.kills(mt as u32, panels as u32);
    for (k, kills) in kills.into_iter().enumerate() {
        let width = cols(k);
        let squares = kills.iter().filter(|kill| kill.below == Below::Square);
        let squares: Vec<_> = squares.map(|kill| kill.m as usize).collect();
        for i in (k..mt).filter(|i| !squares.contains(i)) {
            let (tile, v, t) = (('A', i, k), ('V', i, k), ('T', i, k));
            let short = rows(i).min(width);
            let rank = loops.rank(i, k);
            loops.task(rank, &[whole(tile, rows(i), width)], &[tile, v, t]);
            for j in k + 1..nt {
                let c = whole(('A', i, j), rows(i), cols(j));
                let reads = [unit_lower(v, rows(i), short), whole(t, IB, short), c];
                loops.task(loops.rank(i, j), &reads, &[c.0]);
            }
        }
        for kill in kills {
            let (i, above) = (kill.m as usize, kill.pivot as usize);
            let (r, tile, t) = (('A', above, k), ('A', i, k), ('S', i, k));
            let part = match kill.below {
                Below::Square => whole,
                Below::Triangle => upper,
            };
            let below = part(tile, rows(i), width);
            let reads = [upper(r, rows(above), width), below];
            loops.task(loops.rank(i, k), &reads, &[r, tile, t]);
            for j in k + 1..nt {
                let c1 = whole(('A', above, j), rows(above), cols(j));
                let c2 = whole(('A', i, j), rows(i), cols(j));
                let reads = [below, whole(t, IB, width), c1, c2];
                loops.task(loops.rank(i, j), &reads, &[c1.0, c2.0]);
            }
        }
        // What stays goes home.
        loops.task(loops.rank(k, k), &[upper(('A', k, k), rows(k), width)], &[]);
        for j in k + 1..nt {
            let home = whole(('A', k, j), rows(k), cols(j));
            loops.task(loops.rank(k, j), &[home], &[]);
        }
    }
    loops
}

/// A rank's part of a random matrix, its diagonal raised by so much.
fn part(
    (m, n): (usize, usize),
    (p, q): (u32, u32),
    courier: &dyn Courier,
    raised: f64,
) -> TiledMatrix<f64> {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let layout = Layout::general(m, n, NB).unwrap();
    let layout = layout.distributed(grid, courier.rank()).unwrap();
    TiledMatrix::from_fn(layout, |i, j| {
        let entry: f64 = Random::new(3).entry(i, j);
        if i == j { entry + raised } else { entry }
    })
}

fn qr_crossed(shape: (usize, usize), grid: (u32, u32), tree: Tree) -> Crossed {
    let (_, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
        let a = part(shape, grid, courier, 0.0);
        let q = Reflectors::new(a.layout(), Options { tree, ib: IB });
        let factor = qr::Factor::new(&a, &q, Backend::Faer).unwrap();
        let report = factor.run_across(&Shuffled::new(5), courier, &Monitor::new());
        assert_eq!(report.unwrap().copies(), 0);
    });
    crossed
}

#[test]
fn qr_sends_each_part_once_to_each_rank_that_reads_it() {
    let hierarchical = Tree::Hierarchical {
        p: 2,
        a: 2,
        low: Reduction::Greedy,
        high: Reduction::Binary,
    };
    let trees = [
        Tree::Flat,
        Tree::Binary,
        Tree::Greedy,
        Tree::Fibonacci,
        hierarchical,
    ];
    for tree in trees {
        for shape in [(16, 16), (23, 14), (14, 23), (30, 6), (3, 3)] {
            for grid in [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3)] {
                let what = format!("{tree} of {shape:?} on {grid:?}");
                qr_loops(shape, grid, tree).expect(&qr_crossed(shape, grid, tree), &what);
            }
        }
    }
}

type Known = (usize, (u32, u32), usize, Option<usize>);

/// Counted by another program from DPLASMA's form of the loops: tiles a side, grid, messages of the
/// flat tree and of the binary one.
const KNOWN: [Known; 10] = [
    (4, (1, 2), 18, None),
    (4, (2, 2), 44, Some(56)),
    (4, (2, 3), 58, None),
    (4, (3, 3), 57, Some(87)),
    (4, (1, 4), 40, None),
    (8, (1, 2), 70, None),
    (8, (2, 2), 258, Some(314)),
    (8, (2, 3), 324, None),
    (8, (3, 3), 328, Some(508)),
    (8, (1, 4), 196, None),
];

#[test]
fn the_loops_of_qr_send_as_many_messages_as_were_counted_elsewhere() {
    for (nt, grid, flat, binary) in KNOWN {
        let sent = |tree| qr_loops((nt * NB, nt * NB), grid, tree).sent.len();
        assert_eq!(sent(Tree::Flat), flat, "{nt} tiles on {grid:?}");
        if let Some(binary) = binary {
            assert_eq!(sent(Tree::Binary), binary, "{nt} tiles on {grid:?}");
        }
    }
}

/// Tile LU without pivoting of an m × n matrix.
fn lu_loops((m, n): (usize, usize), grid: (u32, u32)) -> Loops {
    let mut loops = Loops::on(grid);
    let (mt, nt) = (m.div_ceil(NB), n.div_ceil(NB));
    let tile = |i, j| whole(('A', i, j), extent(m, i), extent(n, j));
    for k in 0..mt.min(nt) {
        let diagonal = tile(k, k);
        loops.task(loops.rank(k, k), &[diagonal], &[diagonal.0]);
        let shape = (extent(m, k), extent(n, k));
        for j in k + 1..nt {
            let l = unit_lower(diagonal.0, shape.0, shape.1);
            loops.task(loops.rank(k, j), &[tile(k, j), l], &[tile(k, j).0]);
        }
        for i in k + 1..mt {
            let u = upper(diagonal.0, shape.0, shape.1);
            loops.task(loops.rank(i, k), &[tile(i, k), u], &[tile(i, k).0]);
            for j in k + 1..nt {
                let reads = [tile(i, j), tile(i, k), tile(k, j)];
                loops.task(loops.rank(i, j), &reads, &[tile(i, j).0]);
            }
        }
    }
    loops
}

#[test]
fn lu_without_pivoting_sends_the_diagonal_as_triangles_each_its_way() {
    for shape in [(16, 16), (32, 32), (23, 14), (14, 23), (3, 3)] {
        for grid in [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 3)] {
            let (_, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                let a = part(shape, grid, courier, 64.0);
                let factor = Unpivoted::new(&a, &Pivots::new(&a), Backend::Faer).unwrap();
                let report = factor.run_across(&Shuffled::new(5), courier, &Monitor::new());
                assert_eq!(report.unwrap().copies(), 0);
            });
            lu_loops(shape, grid).expect(&crossed, &format!("{shape:?} on {grid:?}"));
        }
    }
    // Whole tiles, and triangles: 18 messages of 4 x 4 tiles on 2 x 2 ranks, 6 of them triangles.
    let loops = lu_loops((16, 16), (2, 2));
    let triangles = 3 * (NB * (NB - 1) / 2) + 3 * (NB * (NB + 1) / 2);
    let expected = (18, 12 * NB * NB + triangles);
    assert_eq!((loops.sent.len(), loops.elements), expected);
}

/// LU with partial pivoting: rows of the matrix that were swapped decide how long stacks are.
fn pivoted_loops((m, n): (usize, usize), grid: (u32, u32), swaps: &[(usize, usize)]) -> Loops {
    let mut loops = Loops::on(grid);
    let (p, mt, nt) = (grid.0 as usize, m.div_ceil(NB), n.div_ceil(NB));
    let steps = mt.min(nt);
    let tile = |i, j| whole(('A', i, j), extent(m, i), extent(n, j));
    // Rank rows that have tiles from a tile row on, by the first of these.
    let rank_rows = |first: usize| first..mt.min(first + p);
    let of_rank_row = |r: usize, first: usize| (first..mt).filter(move |i| i % p == r % p);
    let words = |words: usize| words.div_ceil(size_of::<f64>() / size_of::<u32>());
    let mut reordered = Vec::new();
    for k in 0..steps {
        let mine = swaps.iter().filter(|(row, _)| row / NB == k);
        let height = mine.clone().count();
        let below = mine
            .map(|swap| swap.1)
            .filter(|row| *row >= k * NB + height);
        let below: BTreeSet<usize> = below.collect();
        let touched = |r: usize| below.iter().filter(|&row| row / NB % p == r % p).count();
        let pivots = (('P', k, k), 'W', words(2 + 2 * height + 2 * below.len()));
        let stack = |r: usize| {
            let rows: usize = of_rank_row(r, k).map(|i| extent(m, i)).sum();
            (rows, extent(n, k))
        };
        for r in rank_rows(k) {
            let (rows, cols) = stack(r);
            let (there, back) = (('G', r, k), ('B', r, k));
            loops.task(loops.rank(r, k), &[], &[there]);
            loops.task(
                loops.rank(k, k),
                &[whole(there, rows, cols)],
                &[back, pivots.0],
            );
            for i in of_rank_row(r, k) {
                let reads = [tile(i, k), whole(back, rows, cols)];
                loops.task(loops.rank(i, k), &reads, &[tile(i, k).0]);
            }
        }
        for j in k + 1..nt {
            let cols = extent(n, j);
            let triangle = unit_lower(('A', k, k), extent(m, k), extent(n, k));
            let mut reads = vec![tile(k, j), pivots, triangle];
            let mut made = vec![tile(k, j).0];
            for r in rank_rows(k + 1) {
                let risen = ('R', r, j);
                loops.task(loops.rank(r, j), &[pivots], &[risen]);
                reads.push(whole(risen, cols, touched(r)));
                made.push(('F', r, j));
            }
            loops.task(loops.rank(k, j), &reads, &made);
            for i in k + 1..mt {
                let r = rank_rows(k + 1).find(|r| r % p == i % p).unwrap();
                let fallen = whole(('F', r, j), cols + 1, touched(r));
                let reads = [tile(i, j), tile(i, k), tile(k, j), fallen];
                loops.task(loops.rank(i, j), &reads, &[tile(i, j).0]);
            }
        }
        reordered.push(pivots);
    }
    // Columns left of a panel: where each row below goes, by all later swaps at once.
    for k in (0..steps.saturating_sub(1)).rev() {
        let first = (k + 1) * NB;
        let mut order: Vec<usize> = (first..m).collect();
        let later = swaps.iter().filter(|(row, _)| *row >= first);
        later.for_each(|&(row, pivot)| order.swap(row - first, pivot - first));
        let length = words(m - first);
        let order_name = ('O', k, k);
        let mut reads = vec![reordered[k + 1]];
        if k + 2 < steps {
            reads.push((('O', k + 1, k + 1), 'W', words(m - first - NB)));
        }
        loops.task(loops.rank(k, k), &reads, &[order_name]);
        let going = |from: usize, to: usize| {
            let pairs = order
                .iter()
                .zip(first..)
                .filter(|(source, row)| *source / NB % p == from % p && row / NB % p == to % p);
            pairs.count()
        };
        for r in rank_rows(k + 1) {
            let outs: Vec<_> = rank_rows(k + 1)
                .map(|to| ('X', r * 1000 * p + to, k))
                .collect();
            loops.task(loops.rank(r, k), &[(order_name, 'W', length)], &[]);
            let rank = loops.rank(r, k);
            outs.iter().for_each(|out| {
                loops.lie.insert(*out, (0, rank));
            });
        }
        for i in k + 1..mt {
            let to = rank_rows(k + 1).find(|r| r % p == i % p).unwrap();
            let mut reads = vec![(order_name, 'W', length)];
            for r in rank_rows(k + 1) {
                let out = ('X', r * 1000 * p + to, k);
                reads.push(whole(out, extent(n, k), going(r, to)));
            }
            loops.task(loops.rank(i, k), &reads, &[]);
        }
    }
    loops
}

#[test]
fn lu_with_partial_pivoting_sends_l_of_the_diagonal_along_its_row_and_rows_that_move() {
    for shape in [(16, 16), (23, 14), (14, 23), (3, 3)] {
        for grid in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)] {
            let (swaps, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                let a = part(shape, grid, courier, 0.0);
                let pivots = Pivots::new(&a);
                let factor = lu::Factor::new(&a, &pivots, Backend::Faer).unwrap();
                let run = factor.run_across(&Shuffled::new(5), courier, &Monitor::new());
                run.unwrap();
                pivots.rows().collect::<Vec<_>>()
            });
            let mut swaps = swaps.concat();
            swaps.sort_unstable();
            let what = format!("{shape:?} on {grid:?}");
            pivoted_loops(shape, grid, &swaps).expect(&crossed, &what);
        }
    }
}
