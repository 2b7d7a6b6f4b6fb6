//! Every lie about the spaces of linear algebra is found: each edge removed, doubled or redirected, each
//! flow, slot, root and count changed.

#[path = "../crates/dataflow-core/tests/specimen/mod.rs"]
mod specimen;

use dataflow::core::port::Heap;
use dataflow::core::prelude::*;
use dataflow::linalg::cholesky::{Factor, Inverse, InverseTask, Solve, SolveTask, Task};
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow::linalg::product::{Gemm, Operand, ProductTask};
use specimen::{Mutant, Mutation, Specimen, Twist, mutations};
use std::sync::Arc;

/// A matrix that lives as long as the program and has no tiles.
fn vacant(layout: Layout) -> &'static TiledMatrix<f64> {
    Box::leak(Box::new(TiledMatrix::vacant(layout, Arc::new(Heap))))
}

/// Tiles of a matrix over a grid of ranks, seen from the first.
fn over(layout: Layout, (p, q): (u32, u32)) -> &'static TiledMatrix<f64> {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    vacant(layout.distributed(grid, Rank(0)).unwrap())
}

/// Nothing is run here, so there is nothing to make anew.
impl Specimen for Factor<'static, f64> {
    fn fresh(&self) -> Self {
        *self
    }
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
    fn holes(&self) -> Vec<String> {
        Vec::new()
    }
    fn strangers(&self) -> Vec<Task> {
        let nt = 20;
        vec![
            Task::Potrf { k: nt },
            Task::Trsm { m: 0, k: 0 },
            Task::Herk { m: nt, k: 0 },
            Task::Gemm { m: 2, n: 2, k: 1 },
        ]
    }
}

impl Specimen for Solve<'static, f64> {
    fn fresh(&self) -> Self {
        *self
    }
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
    fn holes(&self) -> Vec<String> {
        Vec::new()
    }
    fn strangers(&self) -> Vec<SolveTask> {
        vec![
            SolveTask::Forward { k: 20, j: 0 },
            SolveTask::ForwardUpdate { m: 1, k: 1, j: 0 },
            SolveTask::Backward { k: 0, j: 20 },
            SolveTask::BackwardUpdate { m: 0, k: 0, j: 0 },
            SolveTask::GiveDown { i: 0, k: 1 },
            SolveTask::GiveUp { i: 20, k: 0 },
        ]
    }
}

impl Specimen for Inverse<'static, f64> {
    fn fresh(&self) -> Self {
        *self
    }
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
    fn holes(&self) -> Vec<String> {
        Vec::new()
    }
    fn strangers(&self) -> Vec<InverseTask> {
        vec![
            InverseTask::Potrf { k: 20 },
            InverseTask::Trtri { k: 20 },
            InverseTask::TrsmRight { m: 0, k: 0 },
            InverseTask::TrsmLeft { m: 1, n: 1 },
            InverseTask::Invert { m: 2, n: 1, k: 2 },
            InverseTask::Lauum { k: 20 },
            InverseTask::Square { n: 1, k: 1 },
            InverseTask::Multiply { m: 1, n: 0, k: 1 },
        ]
    }
}

impl Specimen for Gemm<'static, f64> {
    fn fresh(&self) -> Self {
        *self
    }
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
    fn holes(&self) -> Vec<String> {
        Vec::new()
    }
    fn strangers(&self) -> Vec<ProductTask> {
        vec![
            ProductTask::GiveA { i: 20, j: 0 },
            ProductTask::MirrorB { i: 20 },
            ProductTask::Scale { m: 0, n: 20 },
            ProductTask::Update { m: 0, n: 0, k: 20 },
        ]
    }
}

/// Tries every mutant but those that are `right`: another space, without contradiction.
fn every_mutant_is_found<S: Specimen>(
    space: &S,
    n_ranks: u32,
    stride: usize,
    right: impl Fn(&Mutation<S::Task>) -> bool,
) -> usize {
    verify(space, n_ranks).unwrap();
    let all = mutations(space, n_ranks, stride);
    let misjudged = all.iter().filter(|mutation| {
        let mutant = Mutant::new(space, mutation);
        verify(&mutant, n_ranks).is_ok() != right(mutation)
    });
    let misjudged: Vec<_> = misjudged.collect();
    let some = &misjudged[..misjudged.len().min(10)];
    let (n, of) = (misjudged.len(), all.len());
    assert!(
        misjudged.is_empty(),
        "{n} of {of} misjudged, such as {some:#?}"
    );
    of
}

#[test]
fn every_mutant_of_the_factorisation_is_found() {
    for (p, q) in [(1, 1), (2, 2), (2, 3)] {
        for (nt, stride) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 7), (6, 20)] {
            let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
            let layout = Layout::lower(nt, 1).unwrap();
            let a = vacant(layout.distributed(grid, Rank(0)).unwrap());
            let space = Factor::new(a, Backend::Auto).unwrap();
            let n = every_mutant_is_found(&space, p * q, stride, |_| false);
            assert!(nt < 3 || n > 300, "{n} mutants of nt = {nt}");
        }
    }
}

#[test]
fn every_mutant_of_the_solution_is_found() {
    for (nt, columns, stride) in [(1, 1, 1), (2, 2, 1), (3, 1, 1), (3, 2, 3), (5, 2, 11)] {
        let l = vacant(Layout::lower(nt, 1).unwrap());
        let b = vacant(Layout::general(nt, columns, 1).unwrap());
        let space = Solve::new(l, b, Backend::Auto).unwrap();
        every_mutant_is_found(&space, 1, stride, |mutation| {
            // Another tile of L, which nobody changes, may be read: no contradiction.
            matches!(mutation, Mutation::Input(_, 0, Twist::Slot(slot)) if *slot < l.n_slots())
        });
    }
    for (nt, columns, stride) in [(2, 1, 1), (5, 2, 11), (7, 1, 17)] {
        let l = over(Layout::lower(nt, 1).unwrap(), (2, 2));
        let b = over(Layout::general(nt, columns, 1).unwrap(), (2, 2));
        let space = Solve::new(l, b, Backend::Auto).unwrap();
        every_mutant_is_found(&space, 4, stride, |mutation| {
            use SolveTask::{GiveDown, GiveUp};
            let Mutation::Input(GiveDown { .. } | GiveUp { .. }, 0, Twist::Slot(_)) = mutation
            else {
                return false;
            };
            true
        });
    }
}

#[test]
fn every_mutant_of_the_inversion_is_found() {
    for (grid, sizes) in [
        ((1, 1), [(1, 1), (2, 1), (4, 3)]),
        ((2, 3), [(1, 1), (3, 1), (5, 30)]),
    ] {
        for (nt, stride) in sizes {
            let a = over(Layout::lower(nt, 1).unwrap(), grid);
            let space = Inverse::new(a, Backend::Auto).unwrap();
            let n = every_mutant_is_found(&space, grid.0 * grid.1, stride, |_| false);
            assert!(nt < 3 || n > 1000, "{n} mutants of nt = {nt}");
        }
    }
}

#[test]
fn every_mutant_of_the_product_is_found() {
    // With six steps some tiles are given later than the first.
    for (grid, [m, n, k], stride) in [
        ((1, 1), [2, 2, 2], 1),
        ((1, 1), [3, 3, 3], 7),
        ((2, 2), [2, 3, 6], 13),
        ((2, 3), [3, 2, 7], 17),
    ] {
        let general = |rows, cols| over(Layout::general(rows, cols, 1).unwrap(), grid);
        let hermitian = over(Layout::lower(m, 1).unwrap(), grid);
        let (a, b, c) = (general(m, k), general(k, n), general(m, n));
        for (a, b) in [(a, b), (hermitian, general(m, n))] {
            let operands = (Operand::plain(a), Operand::plain(b));
            let space = Gemm::new(1.0, operands.0, operands.1, 1.0, c, Backend::Auto).unwrap();
            every_mutant_is_found(&space, grid.0 * grid.1, stride, |mutation| {
                use ProductTask::{GiveA, GiveB, MirrorA, MirrorB};
                let Mutation::Input(giver, 0, Twist::Slot(slot)) = mutation else {
                    return false;
                };
                // Another tile of an operand, which nobody changes, may be read.
                let n_slots = match giver {
                    GiveA { .. } | MirrorA { .. } => a.n_slots(),
                    GiveB { .. } | MirrorB { .. } => b.n_slots(),
                    _ => return false,
                };
                grid != (1, 1) || *slot < n_slots
            });
        }
    }
}
