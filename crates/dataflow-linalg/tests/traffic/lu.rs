//! LU, whichever way pivots are chosen.

use super::{Loops, NB, extent, part, unit_lower, upper, whole, words};
use crate::ranks::on_ranks;
use dataflow_core::port::{Context, Shuffled};
use dataflow_linalg::kernel::Backend;
use dataflow_linalg::lu::{self, Exchanges, Incremental, Pivots, Unpivoted};
use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// Tile LU without pivoting of an m × n matrix.
pub(super) fn lu_loops((m, n): (usize, usize), grid: (u32, u32)) -> Loops {
    let mut loops = Loops::on(grid);
    let (mt, nt) = (m.div_ceil(NB), n.div_ceil(NB));
    let tile = |i, j| whole(('A', i, j), extent(m, NB, i), extent(n, NB, j));
    for k in 0..mt.min(nt) {
        let diagonal = tile(k, k);
        loops.task(loops.rank(k, k), &[diagonal], &[diagonal.0]);
        let shape = (extent(m, NB, k), extent(n, NB, k));
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
                let report = factor.run(&Context::new(&Shuffled::new(5)).across(courier));
                assert_eq!(report.unwrap().copies(), 0);
            });
            lu_loops(shape, grid).expect::<f64>(&crossed, &format!("{shape:?} on {grid:?}"));
        }
    }
    // Tiles a side: messages by grid, and triangles among them, as another program counted them.
    for (nt, figures) in [
        (4, [(9, 3), (18, 6), (25, 8), (32, 10), (20, 6)]),
        (8, [(35, 7), (70, 14), (103, 20), (136, 26), (98, 18)]),
        (16, [(135, 15), (270, 30), (403, 44), (536, 58), (398, 42)]),
    ] {
        for (grid, figure) in [(1, 2), (2, 2), (2, 3), (3, 3), (1, 4)]
            .into_iter()
            .zip(figures)
        {
            let loops = lu_loops((nt * NB, nt * NB), grid);
            let triangles = loops.sent.iter().filter(|sent| sent.1 != 'W').count();
            assert_eq!((loops.sent.len(), triangles), figure, "{nt} on {grid:?}");
        }
    }
}

/// Row swaps of step k, and what follows from them.
struct Swaps {
    height: usize,
    /// The rows below the first `height` that are swapped.
    below: BTreeSet<usize>,
}

impl Swaps {
    fn of(swaps: &[(usize, usize)], k: usize) -> Self {
        let mine = swaps.iter().filter(|(row, _)| row / NB == k);
        let height = mine.clone().count();
        let below = mine.map(|swap| swap.1);
        Swaps {
            height,
            below: below.filter(|row| *row >= k * NB + height).collect(),
        }
    }

    /// How many of these rows a row of ranks has.
    fn touched(&self, r: usize, p: usize) -> usize {
        let here = self.below.iter().filter(|&row| row / NB % p == r % p);
        here.count()
    }

    /// The numbers of 32 bits that say so.
    fn words(&self) -> usize {
        2 + 2 * self.height + 2 * self.below.len()
    }
}

/// Rank rows that have tiles from a tile row on, by the first of these.
fn rank_rows(first: usize, mt: usize, p: usize) -> std::ops::Range<usize> {
    first..mt.min(first + p)
}

/// The tile rows of one of them.
fn of_rank_row(r: usize, first: usize, mt: usize, p: usize) -> impl Iterator<Item = usize> {
    (first..mt).filter(move |i| i % p == r % p)
}

/// The panel of step k with partial pivoting: stacks of tiles go to the diagonal and back.
fn panel_loops(loops: &mut Loops, (m, n): (usize, usize), k: usize, swaps: &Swaps) {
    let (p, mt) = (loops.grid.0, m.div_ceil(NB));
    let cols = extent(n, NB, k);
    let tile = |i| whole(('A', i, k), extent(m, NB, i), cols);
    for r in rank_rows(k, mt, p) {
        let rows = of_rank_row(r, k, mt, p).map(|i| extent(m, NB, i)).sum();
        let (there, back) = (('G', r, k), ('B', r, k));
        loops.task(loops.rank(r, k), &[], &[there]);
        let stack = whole(there, rows, cols);
        let pivots = words(('P', k, k), swaps.words());
        loops.task(loops.rank(k, k), &[stack], &[back, pivots.0]);
        for i in of_rank_row(r, k, mt, p) {
            let reads = [tile(i), whole(back, rows, cols)];
            loops.task(loops.rank(i, k), &reads, &[tile(i).0]);
        }
    }
}

/// The panel of step k of a tournament: sets of rows meet, the last winners' factors go to each row
/// of ranks together with the rows that fall there.
fn tournament_loops(
    loops: &mut Loops,
    (m, n): (usize, usize),
    k: usize,
    swaps: &Swaps,
    groups: usize,
) {
    let (p, mt) = (loops.grid.0, m.div_ceil(NB));
    let cols = extent(n, NB, k);
    let tile = |i| whole(('A', i, k), extent(m, NB, i), cols);
    let entrants = groups.min(mt - k);
    // By the number of its node, as leaves of a heap: where a set is, and how many rows it has.
    let mut sets = vec![(0, 0); 2 * entrants];
    let set = |node: usize, rows: usize| whole(('M', node, k), cols + 1, rows);
    for i in 0..entrants {
        let tiles: Vec<_> = (k + i..mt).step_by(groups).map(tile).collect();
        let rows: usize = (k + i..mt).step_by(groups).map(|i| extent(m, NB, i)).sum();
        sets[entrants + i] = (k + i, rows.min(cols));
        let made = set(entrants + i, rows.min(cols)).0;
        loops.task(loops.rank(k + i, k), &tiles, &[made]);
    }
    for node in (2..entrants).rev() {
        let [left, right] = [sets[2 * node], sets[2 * node + 1]];
        sets[node] = (left.0, (left.1 + right.1).min(cols));
        let reads = [set(2 * node, left.1), set(2 * node + 1, right.1)];
        loops.task(loops.rank(left.0, k), &reads, &[set(node, 0).0]);
    }
    let last = if entrants == 1 { 1..2 } else { 2..4 };
    let reads: Vec<_> = last.clone().map(|node| set(node, sets[node].1)).collect();
    let height = last.map(|node| sets[node].1).sum::<usize>().min(cols);
    let pivots = words(('P', k, k), swaps.words());
    loops.task(loops.rank(k, k), &reads, &[pivots.0]);
    for r in rank_rows(k, mt, p) {
        let behind = (1 + swaps.touched(r, p) * (cols + 1)).div_ceil(height);
        let seat = whole(('B', r, k), height, cols + behind);
        loops.task(loops.rank(k, k), &[], &[seat.0]);
        for i in of_rank_row(r, k, mt, p) {
            loops.task(loops.rank(i, k), &[tile(i), seat], &[tile(i).0]);
        }
    }
}

/// Rows of column j in rows of ranks, from tile row `first` on, get to their places: `order` says
/// where they come from.
pub(super) fn moving_loops(
    loops: &mut Loops,
    (column, j): (char, usize),
    (m, cols): (usize, usize),
    first: usize,
    order: &[usize],
    said: super::Read,
) {
    let (p, mt) = (loops.grid.0, m.div_ceil(NB));
    let going = |from: usize, to: usize| {
        let pairs = order.iter().zip(first * NB..);
        let pairs =
            pairs.filter(|(source, row)| *source / NB % p == from % p && row / NB % p == to % p);
        pairs.count()
    };
    let out = |from: usize, to: usize| {
        let name = ('X', (from % p) * p + to % p, j);
        whole(name, cols, going(from, to))
    };
    for from in rank_rows(first, mt, p) {
        let made: Vec<_> = rank_rows(first, mt, p).map(|to| out(from, to).0).collect();
        loops.task(loops.rank(from, j), &[said], &made);
    }
    for i in first..mt {
        let mut reads = vec![said];
        reads.extend(rank_rows(first, mt, p).map(|from| out(from, i)));
        loops.task(loops.rank(i, j), &reads, &[(column, i, j)]);
    }
}

/// LU with partial pivoting, or with a tournament of groups if there are any: rows of the matrix
/// that were swapped decide how long stacks are.
fn pivoted_loops(
    (m, n): (usize, usize),
    grid: (u32, u32),
    all: &[(usize, usize)],
    groups: usize,
) -> Loops {
    let mut loops = Loops::on(grid);
    let (p, mt, nt) = (grid.0 as usize, m.div_ceil(NB), n.div_ceil(NB));
    let steps = mt.min(nt);
    let tile = |i, j| whole(('A', i, j), extent(m, NB, i), extent(n, NB, j));
    for k in 0..steps {
        let swaps = Swaps::of(all, k);
        match groups {
            0 => panel_loops(&mut loops, (m, n), k, &swaps),
            _ => tournament_loops(&mut loops, (m, n), k, &swaps, groups),
        }
        let pivots = words(('P', k, k), swaps.words());
        for j in k + 1..nt {
            let cols = extent(n, NB, j);
            let triangle = unit_lower(('A', k, k), extent(m, NB, k), extent(n, NB, k));
            let mut reads = vec![tile(k, j), pivots, triangle];
            let mut made = vec![tile(k, j).0];
            for r in rank_rows(k + 1, mt, p) {
                let risen = ('R', r, j);
                loops.task(loops.rank(r, j), &[pivots], &[risen]);
                reads.push(whole(risen, cols, swaps.touched(r, p)));
                made.push(('F', r, j));
            }
            loops.task(loops.rank(k, j), &reads, &made);
            for i in k + 1..mt {
                let r = rank_rows(k + 1, mt, p).find(|r| r % p == i % p).unwrap();
                let fallen = whole(('F', r, j), cols + 1, swaps.touched(r, p));
                let reads = [tile(i, j), tile(i, k), tile(k, j), fallen];
                loops.task(loops.rank(i, j), &reads, &[tile(i, j).0]);
            }
        }
    }
    // Columns left of a panel: where each row below goes, by all later swaps at once.
    for k in (0..steps.saturating_sub(1)).rev() {
        let first = (k + 1) * NB;
        let later = all.iter().filter(|(row, _)| *row >= first);
        let order = order_of(first..m, later);
        let said = words(('O', k, k), m - first);
        let mut reads = vec![words(('P', k + 1, k + 1), Swaps::of(all, k + 1).words())];
        if k + 2 < steps {
            reads.push(words(('O', k + 1, k + 1), m - first - NB));
        }
        loops.task(loops.rank(k, k), &reads, &[said.0]);
        let shape = (m, extent(n, NB, k));
        moving_loops(&mut loops, ('A', k), shape, k + 1, &order, said);
    }
    loops
}

/// Where the rows of a range come from.
pub(super) fn order_of<'s>(
    rows: std::ops::Range<usize>,
    swaps: impl Iterator<Item = &'s (usize, usize)>,
) -> Vec<usize> {
    let first = rows.start;
    let mut order: Vec<usize> = rows.collect();
    swaps.for_each(|&(row, pivot)| order.swap(row - first, pivot - first));
    order
}

#[test]
fn lu_with_pivoting_sends_l_of_the_diagonal_along_its_row_and_rows_that_move() {
    for shape in [(16, 16), (23, 14), (14, 23), (30, 6), (3, 3)] {
        for grid in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)] {
            for groups in [0, 1, 2, 3, 5] {
                let (swaps, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                    let a = part(shape, grid, courier, 0.0);
                    let pivots = Pivots::new(&a);
                    let mut factor = lu::Factor::new(&a, &pivots, Backend::Faer).unwrap();
                    if let Some(groups) = NonZeroU32::new(groups) {
                        factor = factor.by_tournament(groups);
                    }
                    let run = factor.run(&Context::new(&Shuffled::new(5)).across(courier));
                    run.unwrap();
                    pivots.rows().collect::<Vec<_>>()
                });
                let mut swaps = swaps.concat();
                swaps.sort_unstable();
                let loops = pivoted_loops(shape, grid, &swaps, groups as usize);
                loops.expect::<f64>(&crossed, &format!("{shape:?} on {grid:?}, {groups} groups"));
            }
        }
    }
}

/// Columns of a block of incremental pivoting, one more row than the steps of a tile have.
pub(super) fn steps_of(cols: usize) -> usize {
    cols.clamp(1, INNER_BLOCK) + 1
}

/// That of the library.
const INNER_BLOCK: usize = 32;

/// Tile LU with incremental pivoting.
pub(super) fn incremental_loops((m, n): (usize, usize), grid: (u32, u32)) -> Loops {
    let mut loops = Loops::on(grid);
    let (mt, nt) = (m.div_ceil(NB), n.div_ceil(NB));
    let tile = |i, j| whole(('A', i, j), extent(m, NB, i), extent(n, NB, j));
    for k in 0..mt.min(nt) {
        let (rows, cols) = (extent(m, NB, k), extent(n, NB, k));
        let (swaps, diagonal) = (words(('P', k, k), rows.min(cols)), tile(k, k));
        loops.task(loops.rank(k, k), &[diagonal], &[diagonal.0, swaps.0]);
        for j in k + 1..nt {
            let reads = [tile(k, j), unit_lower(diagonal.0, rows, cols), swaps];
            loops.task(loops.rank(k, j), &reads, &[tile(k, j).0]);
        }
        for i in k + 1..mt {
            let steps = whole(('S', i, k), steps_of(cols), cols);
            let reads = [upper(diagonal.0, rows, cols), tile(i, k)];
            let writes = [diagonal.0, tile(i, k).0, steps.0];
            loops.task(loops.rank(i, k), &reads, &writes);
            for j in k + 1..nt {
                let reads = [tile(k, j), tile(i, j), tile(i, k), steps];
                loops.task(loops.rank(i, j), &reads, &[tile(k, j).0, tile(i, j).0]);
            }
        }
        // What came down a column goes home.
        loops.task(loops.rank(k, k), &[upper(diagonal.0, rows, cols)], &[]);
        for j in k + 1..nt {
            loops.task(loops.rank(k, j), &[tile(k, j)], &[]);
        }
    }
    loops
}

#[test]
fn lu_with_incremental_pivoting_sends_u_of_the_diagonal_down_its_column() {
    for shape in [(16, 16), (23, 14), (14, 23), (30, 6), (3, 3)] {
        for grid in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)] {
            let (_, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                let a = part(shape, grid, courier, 0.0);
                let exchanges = Exchanges::new(&a);
                let factor = Incremental::new(&a, &exchanges, Backend::Faer).unwrap();
                let report = factor.run(&Context::new(&Shuffled::new(5)).across(courier));
                report.unwrap();
            });
            let loops = incremental_loops(shape, grid);
            loops.expect::<f64>(&crossed, &format!("{shape:?} on {grid:?}"));
        }
    }
}
