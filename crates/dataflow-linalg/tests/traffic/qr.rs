//! Tile QR.

use super::{Loops, NB, Read, extent, part, unit_lower, upper, whole};
use crate::ranks::{Crossed, on_ranks};
use dataflow_core::port::{Context, Shuffled};
use dataflow_linalg::kernel::{Backend, Below};
use dataflow_linalg::qr::{self, Options, Reduction, Reflectors, Tree};

/// Inner block: rows of T.
pub(super) const IB: usize = 3;

/// T of an elimination or a triangle: a triangle of its own for each inner block.
pub(super) fn blocks(name: super::Name, cols: usize) -> Read {
    let rows = (0..cols).map(|j| j % IB + 1);
    (name, 'B', rows.sum())
}

/// Tile QR of an m × n matrix.
pub(super) fn qr_loops((m, n): (usize, usize), grid: (u32, u32), tree: Tree) -> Loops {
    let mut loops = Loops::on(grid);
    let (mt, nt) = (m.div_ceil(NB), n.div_ceil(NB));
    let panels = mt.min(nt);
    let (rows, cols) = (|i| extent(m, NB, i), |j| extent(n, NB, j));
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
                let reads = [unit_lower(v, rows(i), short), blocks(t, short), c];
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
                let reads = [below, blocks(t, width), c1, c2];
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

fn qr_crossed(shape: (usize, usize), grid: (u32, u32), tree: Tree) -> Crossed {
    let (_, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
        let a = part(shape, grid, courier, 0.0);
        let q = Reflectors::new(a.layout(), Options { tree, ib: IB });
        let factor = qr::Factor::new(&a, &q, Backend::Faer).unwrap();
        let report = factor.run(&Context::new(&Shuffled::new(5)).across(courier));
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
                qr_loops(shape, grid, tree).expect::<f64>(&qr_crossed(shape, grid, tree), &what);
            }
        }
    }
}

/// The hierarchical tree with flat reductions of the rows of a rank.
fn by_ranks(p: u32, a: usize) -> Tree {
    let (low, high) = (Reduction::Flat, Reduction::Binary);
    let a = a as u32;
    Tree::Hierarchical { p, a, low, high }
}

#[test]
fn the_loops_of_qr_send_as_many_messages_as_another_program_counted() {
    // From DPLASMA's form of the loops: tiles a side, then messages by grid.
    for (nt, flat, binary, hierarchical) in [
        (4, [18, 44, 58, 57, 40], [56, 87], [42, 75]),
        (8, [70, 258, 324, 328, 196], [314, 508], [154, 289]),
        (16, [270, 1702, 1968, 1981, 796], [1942, 3090], [570, 1053]),
    ] {
        let sent = |grid, tree| qr_loops((nt * NB, nt * NB), grid, tree).counted().0;
        let grids = [(1, 2), (2, 2), (2, 3), (3, 3), (1, 4)];
        assert_eq!(grids.map(|grid| sent(grid, Tree::Flat)), flat, "{nt}");
        let grids = [(2, 2), (3, 3)];
        assert_eq!(grids.map(|grid| sent(grid, Tree::Binary)), binary, "{nt}");
        let found = grids.map(|grid| sent(grid, by_ranks(grid.0, nt)));
        assert_eq!(found, hierarchical, "{nt}");
    }
}
