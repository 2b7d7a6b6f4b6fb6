//! Every lie about the Cholesky spaces is found: each edge removed, doubled or redirected, each
//! flow, slot, root and count changed.

#[path = "../crates/dataflow-core/tests/specimen/mod.rs"]
mod specimen;

use dataflow::core::port::Heap;
use dataflow::core::prelude::*;
use dataflow::linalg::cholesky::{Factor, Solve, SolveTask, Task};
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow::linalg::qr::{self, Options, Reduction, Reflectors, Tree};
use specimen::{Mutant, Mutation, Specimen, Twist, mutations};
use std::sync::Arc;

/// A matrix that lives as long as the program and has no tiles.
fn vacant(layout: Layout) -> &'static TiledMatrix<f64> {
    Box::leak(Box::new(TiledMatrix::vacant(layout, Arc::new(Heap))))
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
}

/// Reflectors that live as long as the program, of a matrix without tiles.
fn reflectors(a: &TiledMatrix<f64>, tree: Tree) -> &'static Reflectors<f64> {
    Box::leak(Box::new(Reflectors::new(
        a.layout(),
        Options { tree, ib: 1 },
    )))
}

impl Specimen for qr::Factor<'static, f64> {
    fn fresh(&self) -> Self {
        *self
    }
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
    fn holes(&self) -> Vec<String> {
        Vec::new()
    }
    fn strangers(&self) -> Vec<qr::Task> {
        vec![
            qr::Task::Geqrt { m: 20, k: 0 },
            qr::Task::Tpqrt { m: 20, k: 0 },
            qr::Task::Gemqrt { m: 0, k: 0, n: 20 },
            qr::Task::Tpmqrt { m: 1, k: 0, n: 20 },
            qr::Task::Stay { k: 0, n: 20 },
        ]
    }
}

#[test]
fn every_mutant_of_the_qr_factorisation_is_found() {
    let (low, high) = (Reduction::Flat, Reduction::Binary);
    let hierarchical = Tree::Hierarchical {
        p: 2,
        a: 2,
        low,
        high,
    };
    for (p, q) in [(1, 1), (2, 2), (2, 3)] {
        for (mt, nt, stride) in [
            (1, 1, 1),
            (2, 1, 1),
            (1, 2, 1),
            (2, 2, 1),
            (4, 3, 11),
            (6, 3, 50),
        ] {
            for tree in [Tree::Flat, Tree::Greedy, hierarchical] {
                let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
                let layout = Layout::general(mt, nt, 1).unwrap();
                let a = vacant(layout.distributed(grid, Rank(0)).unwrap());
                let space = qr::Factor::new(a, reflectors(a, tree), Backend::Auto).unwrap();
                let n = every_mutant_is_found(&space, p * q, stride, |mutation| {
                    is_of_what_is_kept(mutation, nt as u32)
                        && verify(&Mutant::new(&space, mutation), p * q).is_ok()
                });
                assert!(mt < 4 || n > 100, "{n} mutants of {mt} × {nt}");
            }
        }
    }
}

/// Whether a mutation is about a place for reflectors that the run has made. Nobody takes them from
/// there, so another place, or none, contradicts nothing; that they are found when Q is applied is
/// for other tests.
fn is_of_what_is_kept(mutation: &Mutation<qr::Task>, nt: u32) -> bool {
    let &Mutation::Output(task, nth, _) = mutation else {
        return false;
    };
    let before = match task {
        qr::Task::Geqrt { k, .. } => 1 + 2 * (nt - k - 1),
        qr::Task::Tpqrt { k, .. } => 2 + 2 * (nt - k - 1),
        _ => return false,
    };
    nth >= before as usize
}
