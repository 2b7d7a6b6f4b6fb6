//! Both ends of every edge agree, for every tree, shape and grid.

use super::trees::{any_lists, any_tree};
use crate::kernel::{Backend, Below, Op, Side};
use crate::matrix::{Distribution, Grid, Layout, Tile, TiledMatrix};
use crate::needs;
use crate::qr::elimination::RowStep;
use crate::qr::{
    Apply, Arrange, Choice, Compare, Elimination, Factor, Leading, Levels, Lines, Options,
    Reduction, Reflectors, Task, Tree,
};
use dataflow_core::port::{Heap, Inline};
use dataflow_core::prelude::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

fn layout((m, n): (usize, usize), (p, q): (u32, u32)) -> Layout {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    Layout::general(m, n, 1)
        .unwrap()
        .distributed(grid, Rank(0))
        .unwrap()
}

/// A matrix of tiles that do not exist, one a row and column.
fn vacant(shape: (usize, usize), grid: (u32, u32)) -> TiledMatrix<f64> {
    TiledMatrix::vacant(layout(shape, grid), Arc::new(Heap))
}

fn prove(shape: (usize, usize), grid: (u32, u32), tree: Tree) {
    let a = vacant(shape, grid);
    let q = Reflectors::new(a.layout(), Options { tree, ib: 1 });
    prove_with(&a, &q, shape, grid);
}

fn prove_with(
    a: &TiledMatrix<f64>,
    q: &Reflectors<f64>,
    shape: (usize, usize),
    (p, cols): (u32, u32),
) {
    let n_ranks = p * cols;
    let factor = Factor::new(a, q, Backend::Auto).unwrap();
    verify(&factor, n_ranks).unwrap_or_else(|fault| panic!("{shape:?} {q:?}: {fault}"));
    for (side, op) in [
        (Side::Left, Op::NoTranspose),
        (Side::Left, Op::ConjTranspose),
        (Side::Right, Op::NoTranspose),
        (Side::Right, Op::ConjTranspose),
    ] {
        let c = match side {
            Side::Left => vacant((shape.0, 3), (p, cols)),
            Side::Right => vacant((3, shape.0), (p, cols)),
        };
        let apply = Apply::new(a, q, (side, op), &c, Backend::Auto).unwrap();
        verify(&apply, n_ranks).unwrap_or_else(|fault| panic!("{shape:?} {q:?}: {fault}"));
    }
}

#[test]
fn the_spaces_are_proved_for_every_tree_on_every_grid() {
    let (binary, greedy) = (Reduction::Binary, Reduction::Greedy);
    let hierarchical = Tree::Hierarchical {
        p: 2,
        a: 2,
        low: greedy,
        high: binary,
    };
    for grid in [(1, 1), (2, 2), (2, 3)] {
        for tree in [
            Tree::Flat,
            Tree::Binary,
            Tree::Greedy,
            Tree::Fibonacci,
            hierarchical,
        ] {
            for shape in [
                (0, 0),
                (0, 2),
                (2, 0),
                (1, 1),
                (1, 4),
                (4, 1),
                (3, 3),
                (6, 4),
                (4, 6),
                (9, 2),
            ] {
                prove(shape, grid, tree);
            }
        }
    }
}

#[test]
fn columns_are_not_chosen_of_more_than_have_numbers() {
    let most = u32::MAX as usize;
    for (n, fits) in [(most, true), (most + 1, false)] {
        let layout = Layout::general(1, n, 1 << 20).unwrap();
        let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
        let order = OnceLock::new();
        assert_eq!(Choice::new(&a, &order, Backend::Auto).is_ok(), fits, "{n}");
    }
}

#[test]
fn the_spaces_of_column_pivoting_are_proved_on_every_grid() {
    for (p, q) in [(1, 1), (2, 2), (2, 3), (5, 1)] {
        let shapes = [
            (0, 0),
            (0, 3),
            (1, 1),
            (1, 4),
            (2, 2),
            (3, 7),
            (4, 4),
            (5, 3),
            (6, 1),
        ];
        for (m, n) in shapes {
            let a = vacant((m, n), (p, q));
            if m <= n {
                let order = OnceLock::new();
                let choice = Choice::new(&a, &order, Backend::Auto).unwrap();
                verify(&choice, p * q).unwrap_or_else(|fault| panic!("{m} x {n}: {fault}"));
            }
            let found = OnceLock::new();
            let leading = Leading::new(&a, (Compare::AsTheyAre, 0.5), &found);
            verify(&leading, p * q).unwrap_or_else(|fault| panic!("{m} x {n}: {fault}"));
            for (lines, all) in [(Lines::Rows, m), (Lines::Columns, n)] {
                // Away from the diagonal, and two of the same.
                let order: Vec<usize> =
                    (0..all).map(|at| (3 * at + 1) % all.max(3) % all).collect();
                let made = vacant((m, n), (p, q));
                let arrange = Arrange::new(&a, lines, &order, &made).unwrap();
                verify(&arrange, p * q).unwrap_or_else(|fault| panic!("{m} x {n}: {fault}"));
            }
        }
    }
}

#[test]
fn an_arrangement_moves_whole_lines_between_tiles_and_refuses_what_is_not_there() {
    let entry = |i: usize, j: usize| (10 * i + j) as f64;
    let a = TiledMatrix::from_fn(Layout::general(5, 7, 3).unwrap(), entry);
    let (rows, cols) = ([4, 0, 2, 1, 3], [6, 6, 0, 1, 5, 3, 2]);
    let (b, _) = crate::qr::arrange(&a, Lines::Rows, &rows, &Inline).unwrap();
    let (b, _) = crate::qr::arrange(&b, Lines::Columns, &cols, &Inline).unwrap();
    for (i, j) in (0..7).flat_map(|j| (0..5).map(move |i| (i, j))) {
        assert_eq!(b.get(i, j), Some(entry(rows[i], cols[j])));
    }
    for order in [&rows[..4], &[0, 1, 2, 3, 5]] {
        assert!(crate::qr::arrange(&a, Lines::Rows, order, &Inline).is_err());
    }
}

/// Hears whom a task feeds.
struct Fed(Vec<Task>);

impl Successors<Factor<'_, f64>> for Fed {
    fn task(&mut self, _: usize, target: Task, _: usize) {
        self.0.push(target);
    }
    fn home(&mut self, _: usize, _: &Store<Tile<f64>>, _: usize) {}
}

/// The longest way from a task to the end, its own weight included.
fn bottom_level(space: &Factor<'_, f64>, task: Task, known: &mut HashMap<Task, i64>) -> i64 {
    if let Some(level) = known.get(&task) {
        return *level;
    }
    let mut fed = Fed(Vec::new());
    space.successors(task, &mut fed);
    let levels = fed.0.into_iter();
    let after = levels.map(|next| bottom_level(space, next, known)).max();
    let below = |m, k| space.q.below(k, m) == Below::Square;
    let weight = match task {
        Task::Geqrt { .. } => 4,
        Task::Gemqrt { .. } => 6,
        Task::Tpqrt { m, k } => {
            if below(m, k) {
                6
            } else {
                2
            }
        }
        Task::Tpmqrt { m, k, .. } => {
            if below(m, k) {
                12
            } else {
                6
            }
        }
        Task::Stay { .. } => 0,
    };
    let level = weight + after.unwrap_or(0);
    known.insert(task, level);
    level
}

#[test]
fn the_longest_way_to_the_end_is_known_for_every_tree_and_urgent_along_those_that_are_not_flat() {
    for tree in [Tree::Flat, Tree::Binary, Tree::Greedy, Tree::Fibonacci] {
        for shape in [(1, 1), (6, 6), (9, 4), (4, 7)] {
            let a = vacant(shape, (1, 1));
            let q = Reflectors::new(a.layout(), Options { tree, ib: 1 });
            let space = Factor::new(&a, &q, Backend::Auto).unwrap();
            let mut known = HashMap::new();
            for task in space.tasks(Rank(0)) {
                let level = bottom_level(&space, task, &mut known);
                let (m, n) = task.tile();
                let of_table = i64::from(q.levels().of_step(task.step(), m, n));
                assert_eq!(of_table, level, "{task:?} of {shape:?}, {tree}");
                let is_urgency = space.priority(task) == level;
                assert!(is_urgency || tree == Tree::Flat, "{task:?}, {tree}");
            }
        }
    }
    // The critical path of 40 x 40 tiles along the flat tree, as it is known.
    let elimination = Elimination::of_tree(Tree::Flat, 40, 40);
    let levels = Levels::of(&elimination, 40);
    assert_eq!(levels.of_step(RowStep::Reflect { k: 0 }, 0, 0), 1166);
}

#[test]
fn along_the_flat_tree_panels_come_first_and_a_span_goes_down_each_column() {
    for (mt, nt) in [(1, 1), (6, 6), (20, 4), (9, 12)] {
        let a = vacant((mt, nt), (1, 1));
        let options = Options {
            tree: Tree::Flat,
            ib: 1,
        };
        let q = Reflectors::new(a.layout(), options);
        let space = Factor::new(&a, &q, Backend::Auto).unwrap();
        for task in space.tasks(Rank(0)) {
            let urgency = space.priority(task);
            match task {
                Task::Geqrt { .. } | Task::Tpqrt { .. } => assert!(urgency > 0, "{task:?}"),
                Task::Stay { .. } => assert!(urgency <= 0, "{task:?}"),
                Task::Gemqrt { m, k, n } | Task::Tpmqrt { m, k, n } => {
                    assert!(urgency <= 0, "{task:?}");
                    // A span has four steps at least.
                    let next = Task::Tpmqrt { m, k: k + 1, n };
                    if k < 3 && k + 1 < n.min(m) {
                        assert_eq!(space.priority(next), urgency, "{task:?}");
                    }
                    if m + 1 < mt as u32 {
                        let below = Task::Tpmqrt { m: m + 1, k, n };
                        assert!(space.priority(below) < urgency, "{task:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn how_urgent_tasks_are_is_told_among_what_is_held_along_trees_that_keep_it() {
    for (m, n) in [(0, 3), (5, 5), (7, 3), (3, 7)] {
        let levels: usize = (0..m.min(n)).map(|k| 8 * (m - k) * (n - k)).sum();
        assert_eq!(Levels::bytes((m, n)), levels as u128);
    }
    // Of so many tiles of a single element it is the most of all.
    let layout = Layout::general(300, 300, 1).unwrap();
    let held = |tree| needs::qr::<f64>(&layout, Options { tree, ib: 1 }, 1).held;
    assert!(held(Tree::Greedy) > Levels::bytes((300, 300)));
    assert!(held(Tree::Flat) < Levels::bytes((300, 300)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_spaces_are_proved_for_any_tree(
        tree in any_tree(), m in 1usize..9, n in 1usize..6, p in 1u32..4, q in 1u32..3,
    ) {
        prove((m, n), (p, q), tree);
    }

    #[test]
    fn the_spaces_are_proved_for_any_list_that_leaves_triangles(
        lists in any_lists(7, 4), n in 4usize..6,
    ) {
        let a = vacant((7, n), (1, 1));
        let lists = &lists[..n.min(4)];
        let elimination = Elimination::of_lists(7, lists).unwrap();
        prop_assume!(n == 4);
        let q = Reflectors::of(a.layout(), Options { tree: Tree::Flat, ib: 1 }, elimination);
        prove_with(&a, &q, (7, n), (1, 1));
    }
}
