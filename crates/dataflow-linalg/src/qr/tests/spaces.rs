//! Both ends of every edge agree, for every tree, shape and grid.

use super::trees::{any_lists, any_tree};
use crate::kernel::{Backend, Op, Side};
use crate::matrix::{Distribution, Grid, Layout, TiledMatrix};
use crate::qr::{Apply, Elimination, Factor, Options, Reduction, Reflectors, Tree};
use dataflow_core::port::Heap;
use dataflow_core::prelude::*;
use proptest::prelude::*;
use std::sync::Arc;

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
