//! Solving with factors, applying Q, turning a matrix.

use super::lu::{moving_loops, order_of, steps_of};
use super::qr::{IB, blocks};
use super::{Loops, NB, extent, part, unit_lower, upper, whole, words};
use crate::ranks::on_ranks;
use dataflow_core::port::{Context, Courier, Shuffled};
use dataflow_linalg::kernel::{Backend, Below, Op, Side};
use dataflow_linalg::lu::{self, Exchanges, Incremental, Pivots, Replay, Solve};
use dataflow_linalg::matrix::TiledMatrix;
use dataflow_linalg::qr::{self, Apply, Options, Reflectors, Tree};

const GRIDS: [(u32, u32); 5] = [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)];

/// Right-hand sides of one rank, or a unit matrix.
fn sides(shape: (usize, usize), grid: (u32, u32), courier: &dyn Courier) -> TiledMatrix<f64> {
    part(shape, grid, courier, 1.0)
}

/// Forward and backward substitution, rows before or after; with a unit matrix on the right
/// without the zeros above its diagonal. Both triangles of a diagonal tile are read in the same
/// place: it travels whole.
fn lu_solve_loops(
    (n, columns): (usize, usize),
    grid: (u32, u32),
    op: Op,
    swaps: &[(usize, usize)],
    of_unit: bool,
) -> Loops {
    let mut loops = Loops::on(grid);
    let (nt, jt) = (n.div_ceil(NB), columns.div_ceil(NB));
    let factor = |m: usize, k: usize| {
        let (i, j) = if op == Op::NoTranspose {
            (m, k)
        } else {
            (k, m)
        };
        whole(('A', i, j), extent(n, NB, i), extent(n, NB, j))
    };
    let side = |i: usize, j: usize| whole(('C', i, j), extent(n, NB, i), extent(columns, NB, j));
    for k in (0..nt).rev() {
        let mut reads = Vec::new();
        if k + 1 < nt {
            reads.push(words(('O', k + 1, k + 1), n - (k + 1) * NB));
        }
        loops.task(loops.rank(k, k), &reads, &[('O', k, k)]);
    }
    let mut order = order_of(0..n, swaps.iter());
    if op != Op::NoTranspose {
        let forwards = order.clone();
        (0..n).for_each(|to| order[forwards[to]] = to);
    }
    let reorder = |loops: &mut Loops, j| {
        let shape = (n, extent(columns, NB, j));
        moving_loops(loops, ('C', j), shape, 0, &order, words(('O', 0, 0), n));
    };
    for j in 0..jt {
        if op == Op::NoTranspose {
            reorder(&mut loops, j);
        }
        for k in if of_unit { j } else { 0 }..nt {
            let reads = [side(k, j), factor(k, k)];
            loops.task(loops.rank(k, j), &reads, &[side(k, j).0]);
            for m in k + 1..nt {
                let reads = [side(m, j), factor(m, k), side(k, j)];
                loops.task(loops.rank(m, j), &reads, &[side(m, j).0]);
            }
        }
        for k in (0..nt).rev() {
            let reads = [side(k, j), factor(k, k)];
            loops.task(loops.rank(k, j), &reads, &[side(k, j).0]);
            for m in 0..k {
                let reads = [side(m, j), factor(m, k), side(k, j)];
                loops.task(loops.rank(m, j), &reads, &[side(m, j).0]);
            }
        }
        if op != Op::NoTranspose {
            reorder(&mut loops, j);
        }
    }
    loops
}

#[test]
fn solving_with_lu_sends_each_tile_once_to_each_rank_and_rows_that_move() {
    for grid in GRIDS {
        for (n, columns, op, of_unit) in [
            (23, 6, Op::NoTranspose, false),
            (16, 1, Op::Transpose, false),
            (23, 23, Op::ConjTranspose, true),
        ] {
            let factored = |courier: &dyn Courier| {
                let a = part((n, n), grid, courier, 0.0);
                let pivots = Pivots::new(&a);
                let factor = lu::Factor::new(&a, &pivots, Backend::Faer).unwrap();
                let run = factor.run(&Context::new(&Shuffled::new(5)).across(courier));
                run.unwrap();
                (a, pivots)
            };
            let (parts, _) = on_ranks(grid.0 * grid.1, (7, 2), factored);
            let (_, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                let (a, pivots) = &parts[courier.rank().0 as usize];
                let b = sides((n, columns), grid, courier);
                let solve = match of_unit {
                    true => Solve::of_unit(a, pivots, &b, Backend::Faer),
                    false => Solve::new(a, pivots, op, &b, Backend::Faer),
                };
                let run = solve
                    .unwrap()
                    .run(&Context::new(&Shuffled::new(5)).across(courier));
                run.unwrap();
            });
            let swaps = parts.iter().flat_map(|(_, pivots)| pivots.rows());
            let mut swaps: Vec<_> = swaps.collect();
            swaps.sort_unstable();
            let loops = lu_solve_loops((n, columns), grid, op, &swaps, of_unit);
            let what = format!("{n}, {columns} columns, {op:?} on {grid:?}");
            loops.expect::<f64>(&crossed, &what);
        }
    }
}

/// The steps of incremental pivoting on right-hand sides, and the solution with U.
fn replay_loops((n, columns): (usize, usize), grid: (u32, u32)) -> Loops {
    let mut loops = Loops::on(grid);
    let (nt, jt) = (n.div_ceil(NB), columns.div_ceil(NB));
    let tile = |i: usize, j: usize| whole(('A', i, j), extent(n, NB, i), extent(n, NB, j));
    let side = |i: usize, j: usize| whole(('C', i, j), extent(n, NB, i), extent(columns, NB, j));
    for j in 0..jt {
        for k in 0..nt {
            let rows = extent(n, NB, k);
            let reads = [side(k, j), tile(k, k), words(('P', k, k), rows)];
            loops.task(loops.rank(k, j), &reads, &[side(k, j).0]);
            for m in k + 1..nt {
                let steps = whole(('S', m, k), steps_of(rows), rows);
                let reads = [side(k, j), side(m, j), tile(m, k), steps];
                loops.task(loops.rank(m, j), &reads, &[side(k, j).0, side(m, j).0]);
            }
        }
        for k in (0..nt).rev() {
            let reads = [side(k, j), tile(k, k)];
            loops.task(loops.rank(k, j), &reads, &[side(k, j).0]);
            for m in 0..k {
                let reads = [side(m, j), tile(m, k), side(k, j)];
                loops.task(loops.rank(m, j), &reads, &[side(m, j).0]);
            }
        }
    }
    loops
}

#[test]
fn solving_after_incremental_pivoting_sends_steps_along_rows_and_sides_down_columns() {
    for grid in GRIDS {
        for (n, columns) in [(23, 6), (16, 1)] {
            let (parts, _) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                let a = part((n, n), grid, courier, 0.0);
                let exchanges = Exchanges::new(&a);
                let factor = Incremental::new(&a, &exchanges, Backend::Faer).unwrap();
                let run = factor.run(&Context::new(&Shuffled::new(5)).across(courier));
                run.unwrap();
                (a, exchanges)
            });
            let (_, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                let (a, exchanges) = &parts[courier.rank().0 as usize];
                let b = sides((n, columns), grid, courier);
                let solve = Replay::new(a, exchanges, &b, Backend::Faer).unwrap();
                let run = solve.run(&Context::new(&Shuffled::new(5)).across(courier));
                run.unwrap();
            });
            let what = format!("{n}, {columns} columns on {grid:?}");
            replay_loops((n, columns), grid).expect::<f64>(&crossed, &what);
        }
    }
}

/// Q or Qᴴ of an m × n matrix, applied to `lines` rows or columns.
fn apply_loops(
    (m, n, lines): (usize, usize, usize),
    grid: (u32, u32),
    tree: Tree,
    (side, op): (Side, Op),
) -> Loops {
    let mut loops = Loops::on(grid);
    let (mt, nt) = (m.div_ceil(NB), n.div_ceil(NB));
    let panels = mt.min(nt);
    let (rows, cols) = (|i| extent(m, NB, i), |j| extent(n, NB, j));
    let c = |row: usize, line: usize| {
        let (i, j) = if side == Side::Left {
            (row, line)
        } else {
            (line, row)
        };
        whole(('C', i, j), rows(row), extent(lines, NB, line))
    };
    // What each step reads and the rows that it changes, the last one where it runs.
    let mut steps = Vec::new();
    for (k, kills) in tree.kills(mt as u32, panels as u32).iter().enumerate() {
        let squares = kills.iter().filter(|kill| kill.below == Below::Square);
        let squares: Vec<_> = squares.map(|kill| kill.m as usize).collect();
        for i in (k..mt).filter(|i| !squares.contains(i)) {
            let short = rows(i).min(cols(k));
            let v = unit_lower(('V', i, k), rows(i), short);
            steps.push((vec![v, blocks(('T', i, k), short)], vec![i]));
        }
        for kill in kills {
            let i = kill.m as usize;
            let v = match kill.below {
                Below::Square => whole(('A', i, k), rows(i), cols(k)),
                Below::Triangle => upper(('A', i, k), rows(i), cols(k)),
            };
            let changed = vec![kill.pivot as usize, i];
            steps.push((vec![v, blocks(('S', i, k), cols(k))], changed));
        }
        steps.push((Vec::new(), vec![k]));
    }
    if (side == Side::Left) != (op == Op::ConjTranspose) {
        steps.reverse();
    }
    for line in 0..lines.div_ceil(NB) {
        for (given, changed) in &steps {
            let tiles: Vec<_> = changed.iter().map(|&row| c(row, line)).collect();
            let (_, i, j) = tiles[tiles.len() - 1].0;
            let names: Vec<_> = tiles.iter().map(|tile| tile.0).collect();
            loops.task(loops.rank(i, j), &[&given[..], &tiles].concat(), &names);
        }
    }
    loops
}

/// Solution with R, or with Rᴴ.
fn triangle_loops((n, columns): (usize, usize), grid: (u32, u32), op: Op) -> Loops {
    let mut loops = Loops::on(grid);
    let nt = n.div_ceil(NB);
    let order: Vec<usize> = match op {
        Op::NoTranspose => (0..nt).rev().collect(),
        Op::Transpose | Op::ConjTranspose => (0..nt).collect(),
    };
    let extents = |i| extent(n, NB, i);
    for j in 0..columns.div_ceil(NB) {
        let x = |i| whole(('X', i, j), extents(i), extent(columns, NB, j));
        for (turn, &k) in order.iter().enumerate() {
            let r = upper(('A', k, k), extents(k), extents(k));
            loops.task(loops.rank(k, j), &[r], &[x(k).0]);
            for &m in &order[turn + 1..] {
                let (above, below) = (m.min(k), m.max(k));
                let r = whole(('A', above, below), extents(above), extents(below));
                loops.task(loops.rank(m, j), &[r, x(k)], &[]);
            }
        }
    }
    loops
}

/// The parts of a least-squares solution, and of forming Q, which is Q applied to a unit matrix.
#[test]
fn applying_q_and_solving_with_r_send_v_t_and_r_in_parts() {
    let (left, right) = (Side::Left, Side::Right);
    let (plain, adjoint) = (Op::NoTranspose, Op::ConjTranspose);
    for grid in GRIDS {
        for (m, n, tree) in [
            (24, 12, Tree::Flat),
            (28, 8, Tree::Greedy),
            (16, 20, Tree::Binary),
        ] {
            let (parts, _) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                let a = part((m, n), grid, courier, 0.0);
                let q = Reflectors::new(a.layout(), Options { tree, ib: IB });
                let factor = qr::Factor::new(&a, &q, Backend::Faer).unwrap();
                let run = factor.run(&Context::new(&Shuffled::new(5)).across(courier));
                run.unwrap();
                (a, q)
            });
            let here = |courier: &dyn Courier| &parts[courier.rank().0 as usize];
            for way in [
                (left, adjoint),
                (left, plain),
                (right, adjoint),
                (right, plain),
            ] {
                let shape = if way.0 == left { (m, 7) } else { (7, m) };
                let (_, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                    let (a, q) = here(courier);
                    let c = sides(shape, grid, courier);
                    let apply = Apply::new(a, q, way, &c, Backend::Faer).unwrap();
                    let run = apply.run(&Context::new(&Shuffled::new(5)).across(courier));
                    assert_eq!(run.unwrap().copies(), 0);
                });
                let what = format!("{way:?} of {m} x {n}, {tree} on {grid:?}");
                apply_loops((m, n, 7), grid, tree, way).expect::<f64>(&crossed, &what);
            }
            for op in [plain, adjoint].into_iter().filter(|_| m >= n) {
                let (_, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
                    let ((a, _), heights) = (here(courier), [m, n]);
                    let [tall, short] = heights.map(|height| sides((height, 7), grid, courier));
                    let (b, x) = if op == plain {
                        (tall, short)
                    } else {
                        (short, tall)
                    };
                    let solve = qr::Solve::new(a, op, &b, &x, Backend::Faer).unwrap();
                    let run = solve.run(&Context::new(&Shuffled::new(5)).across(courier));
                    assert_eq!(run.unwrap().copies(), 0);
                });
                let what = format!("R of {m} x {n}, {op:?} on {grid:?}");
                triangle_loops((n, 7), grid, op).expect::<f64>(&crossed, &what);
            }
        }
    }
}

#[test]
fn a_matrix_is_turned_by_sending_each_tile_once_to_where_it_will_lie() {
    for (grid, (m, n)) in GRIDS
        .into_iter()
        .zip([(23, 14), (9, 30), (16, 16), (21, 10), (3, 40)])
    {
        let (_, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
            let a = part((m, n), grid, courier, 0.0);
            qr::adjoint(&a, &Context::new(&Shuffled::new(5)).across(courier)).unwrap();
        });
        let mut loops = Loops::on(grid);
        for (i, j) in super::each(m.div_ceil(NB), n.div_ceil(NB)) {
            let tile = whole(('A', i, j), extent(m, NB, i), extent(n, NB, j));
            loops.task(loops.rank(j, i), &[tile], &[]);
        }
        loops.expect::<f64>(&crossed, &format!("{m} x {n} on {grid:?}"));
    }
}
