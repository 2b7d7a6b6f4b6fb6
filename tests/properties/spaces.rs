//! Every lie about the spaces of linear algebra is found: each edge removed, doubled or redirected, each
//! flow, slot, root and count changed.

#[path = "../edges/mod.rs"]
mod edges;
#[path = "../../crates/dataflow-core/tests/specimen/mod.rs"]
mod specimen;

use dataflow::core::port::Heap;
use dataflow::core::prelude::*;
use dataflow::core::space::Erased;
use dataflow::linalg::cholesky::{Factor, Inverse, InverseTask, Task, substitution};
use dataflow::linalg::kernel::{Backend, Op, Side};
use dataflow::linalg::lu::{self, Pivots, Unpivoted, UnpivotedTask};
use dataflow::linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow::linalg::product::{
    Gemm, Herk, HerkTask, Operand, ProductTask, Substitution, SubstitutionTask, Torus, TorusTask,
    Triangular, TriangularOperand, TriangularTask,
};
use dataflow::linalg::qr::{self, Options, Reduction, Reflectors, Tree};
use edges::every_edge_counts;
use specimen::{Mutant, Mutation, Specimen, Twist, mutations};
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

/// A matrix that lives as long as the program and has no tiles.
fn vacant(layout: Layout) -> &'static TiledMatrix<f64> {
    Box::leak(Box::new(TiledMatrix::vacant(layout, Arc::new(Heap))))
}

/// Tiles of a matrix over a grid of ranks, seen from the first.
fn over(layout: Layout, (p, q): (u32, u32)) -> &'static TiledMatrix<f64> {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    vacant(layout.distributed(grid, Rank(0)).unwrap())
}

/// A space of which nothing is run, so that there is nothing to make anew, and names that are none
/// of its tasks.
macro_rules! specimen {
    ($space:ty, $task:ty, $strangers:expr) => {
        impl Specimen for $space {
            fn fresh(&self) -> Self {
                *self
            }
            fn outcome(&self) -> Vec<u64> {
                Vec::new()
            }
            fn holes(&self) -> Vec<String> {
                Vec::new()
            }
            fn strangers(&self) -> Vec<$task> {
                Vec::from($strangers)
            }
        }
    };
}

specimen!(
    Factor<'static, f64>,
    Task,
    [
        Task::Potrf { k: 20 },
        Task::Trsm { m: 0, k: 0 },
        Task::Herk { m: 20, k: 0 },
        Task::Gemm { m: 2, n: 2, k: 1 },
    ]
);

specimen!(
    Substitution<'static, f64>,
    SubstitutionTask,
    [
        SubstitutionTask::Begin { m: 20, j: 0 },
        SubstitutionTask::Forward { k: 20, j: 0 },
        SubstitutionTask::ForwardUpdate { m: 1, k: 1, j: 0 },
        SubstitutionTask::Backward { k: 0, j: 20 },
        SubstitutionTask::BackwardUpdate { m: 0, k: 0, j: 0 },
        SubstitutionTask::GiveCorner { k: 20 },
        SubstitutionTask::GiveDown { m: 0, k: 1 },
        SubstitutionTask::GiveUp { m: 20, k: 0 },
    ]
);

specimen!(
    Inverse<'static, f64>,
    InverseTask,
    [
        InverseTask::Potrf { k: 20 },
        InverseTask::Trtri { k: 20 },
        InverseTask::TrsmRight { m: 0, k: 0 },
        InverseTask::TrsmLeft { k: 1, n: 1 },
        InverseTask::Invert { m: 2, n: 1, k: 2 },
        InverseTask::Lauum { k: 20 },
        InverseTask::Square { n: 1, k: 1 },
        InverseTask::Multiply { m: 1, n: 0, k: 1 },
    ]
);

specimen!(
    Gemm<'static, f64>,
    ProductTask,
    [
        ProductTask::GiveA { m: 20, k: 0 },
        ProductTask::MirrorB { k: 20 },
        ProductTask::Scale { m: 0, n: 20 },
        ProductTask::Update { m: 0, n: 0, k: 20 },
    ]
);

specimen!(
    Torus<'static, f64>,
    TorusTask,
    [
        TorusTask::GiveA { i: 20, j: 0 },
        TorusTask::GiveB { i: 0, j: 20 },
        TorusTask::Scale { m: 0, n: 20 },
        TorusTask::Update { m: 0, n: 0, k: 20 },
    ]
);

specimen!(
    Herk<'static, f64>,
    HerkTask,
    [
        HerkTask::Give { n: 20, k: 0 },
        HerkTask::Scale { m: 0, n: 1 },
        HerkTask::OnDiagonal { n: 20, k: 0 },
        HerkTask::Below { m: 1, n: 1, k: 0 },
    ]
);

specimen!(
    Triangular<'static, f64>,
    TriangularTask,
    [
        TriangularTask::Give { m: 20, k: 20 },
        TriangularTask::Begin { m: 0, n: 20 },
        TriangularTask::Multiply { m: 20, n: 0 },
        TriangularTask::Add { m: 1, k: 1, n: 0 },
    ]
);

specimen!(
    lu::Factor<'static, f64>,
    lu::Task,
    [
        lu::Task::Begin { m: 20, n: 0 },
        lu::Task::Gather { r: 20, k: 0 },
        lu::Task::Merge { v: 20, k: 0 },
        lu::Task::Panel { k: 20 },
        lu::Task::Scatter { m: 0, k: 1 },
        lu::Task::Rise { r: 0, n: 0, k: 0 },
        lu::Task::Top { n: 0, k: 0 },
        lu::Task::Update { m: 0, n: 1, k: 0 },
        lu::Task::Order { n: 20 },
        lu::Task::Leave { r: 20, n: 0 },
        lu::Task::Settle { m: 0, n: 0 },
    ]
);
specimen!(
    Unpivoted<'static, f64>,
    UnpivotedTask,
    [
        UnpivotedTask::Getrf { k: 20 },
        UnpivotedTask::Right { n: 0, k: 0 },
        UnpivotedTask::Below { m: 0, k: 0 },
        UnpivotedTask::Update { m: 1, n: 1, k: 1 },
    ]
);
specimen!(
    lu::Incremental<'static, f64>,
    lu::IncrementalTask,
    [
        lu::IncrementalTask::Getrf { k: 20 },
        lu::IncrementalTask::Gessm { n: 0, k: 0 },
        lu::IncrementalTask::Tstrf { m: 0, k: 0 },
        lu::IncrementalTask::Ssssm { m: 1, n: 1, k: 1 },
        lu::IncrementalTask::Stay { n: 20, k: 0 },
        lu::IncrementalTask::Join { k: 20 },
    ]
);
specimen!(
    lu::Replay<'static, f64>,
    lu::ReplayTask,
    [
        lu::ReplayTask::Give { m: 20, n: 0 },
        lu::ReplayTask::GiveSteps { m: 0, k: 20 },
        lu::ReplayTask::Forward { k: 20, j: 0 },
        lu::ReplayTask::Pair { m: 1, k: 1, j: 0 },
        lu::ReplayTask::Backward { k: 0, j: 20 },
        lu::ReplayTask::Update { m: 0, k: 0, j: 0 },
    ]
);
specimen!(
    lu::Reorder<'static, f64>,
    lu::ReorderTask,
    [
        lu::ReorderTask::Order { k: 20 },
        lu::ReorderTask::Begin { m: 0, j: 20 },
        lu::ReorderTask::Leave { r: 20, j: 0 },
        lu::ReorderTask::Settle { m: 20, j: 0 },
    ]
);

/// Of more mutants each third is tried. Counted: every end of every edge keeps two or more of its own, and of
/// smaller orders all are tried.
const MANY: usize = 2000;

/// Tries mutants, all but those that are `right`: another space, without contradiction.
fn every_mutant_is_found<S: Specimen>(
    space: &S,
    n_ranks: u32,
    stride: usize,
    right: impl Fn(&Mutation<S::Task>) -> bool,
) -> usize {
    verify(space, n_ranks).unwrap();
    let all = mutations(space, n_ranks, stride);
    let step = if all.len() > MANY { 3 } else { 1 };
    let misjudged = all.iter().step_by(step).filter(|mutation| {
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

/// Another tile of A, which nobody changes, may be read: no contradiction.
fn solves_with_another(
    mutation: &Mutation<SubstitutionTask>,
    n_slots: usize,
    n_ranks: u32,
) -> bool {
    use SubstitutionTask::{GiveCorner, GiveDown, GiveUp};
    match mutation {
        Mutation::Input(GiveCorner { .. } | GiveDown { .. } | GiveUp { .. }, 0, Twist::Slot(_)) => {
            true
        }
        Mutation::Input(_, 1, Twist::Slot(slot)) => n_ranks == 1 && *slot < n_slots,
        _ => false,
    }
}

#[test]
fn every_mutant_of_the_solution_is_found() {
    for (grid, sizes) in [
        (
            (1, 1),
            &[(1, 1, 1), (2, 2, 1), (3, 1, 1), (3, 2, 3), (5, 2, 11)][..],
        ),
        ((2, 2), &[(2, 1, 1), (5, 2, 11), (7, 1, 17)]),
    ] {
        for &(nt, columns, stride) in sizes {
            let l = over(Layout::lower(nt, 1).unwrap(), grid);
            let b = over(Layout::general(nt, columns, 1).unwrap(), grid);
            let space = substitution(l, b, Backend::Auto).unwrap();
            let n_ranks = grid.0 * grid.1;
            every_mutant_is_found(&space, n_ranks, stride, |mutation| {
                solves_with_another(mutation, l.n_slots(), n_ranks)
            });
        }
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

/// Whether another tile of a matrix that nobody changes is read: no contradiction.
fn reads_another_tile<K>(mutation: &Mutation<K>, n_slots: usize, n_ranks: u32) -> bool {
    matches!(mutation, Mutation::Input(_, 0, Twist::Slot(slot)) if n_ranks > 1 || *slot < n_slots)
}

#[test]
fn every_mutant_of_the_torus_is_found() {
    for (grid, [m, n, k], stride) in [
        ((1, 1), [2, 2, 2], 1),
        ((2, 2), [2, 3, 4], 7),
        ((2, 3), [4, 3, 3], 13),
        ((2, 3), [2, 1, 3], 3),
    ] {
        let general = |rows, cols| over(Layout::general(rows, cols, 1).unwrap(), grid);
        let (a, b, c) = (general(m, k), general(k, n), general(m, n));
        let operands = (Operand::plain(a), Operand::plain(b));
        let space = Torus::new(1.0, operands.0, operands.1, 1.0, c, Backend::Auto).unwrap();
        let n_ranks = grid.0 * grid.1;
        every_mutant_is_found(&space, n_ranks, stride, |mutation| match mutation {
            Mutation::Input(TorusTask::GiveA { .. }, ..) => {
                reads_another_tile(mutation, a.n_slots(), n_ranks)
            }
            Mutation::Input(TorusTask::GiveB { .. }, ..) => {
                reads_another_tile(mutation, b.n_slots(), n_ranks)
            }
            _ => false,
        });
    }
}

#[test]
fn every_mutant_of_the_square_is_found() {
    for (grid, n, k, stride) in [((1, 1), 2, 2, 1), ((2, 2), 3, 6, 7), ((2, 3), 4, 6, 13)] {
        let a = over(Layout::general(n, k, 1).unwrap(), grid);
        let c = over(Layout::lower(n, 1).unwrap(), grid);
        let space = Herk::new(1.0, Operand::plain(a), 1.0, c, Backend::Auto).unwrap();
        let n_ranks = grid.0 * grid.1;
        every_mutant_is_found(&space, n_ranks, stride, |mutation| {
            matches!(mutation, Mutation::Input(HerkTask::Give { .. }, ..))
                && reads_another_tile(mutation, a.n_slots(), n_ranks)
        });
    }
}

#[test]
fn every_mutant_of_products_with_triangles_is_found() {
    for (grid, nt, stride) in [((1, 1), 3, 1), ((2, 2), 6, 11), ((2, 3), 7, 29)] {
        let a = over(Layout::general(nt, nt, 1).unwrap(), grid);
        let wide = over(Layout::general(nt, 2, 1).unwrap(), grid);
        let tall = over(Layout::general(2, nt, 1).unwrap(), grid);
        let (lower, upper) = (TriangularOperand::lower(a), TriangularOperand::upper(a));
        let (left, right) = (Side::Left, Side::Right);
        let n_ranks = grid.0 * grid.1;
        for space in [
            Substitution::new(left, 2.0, lower, wide, Backend::Auto),
            Substitution::new(right, 1.0, lower.with(Op::Transpose), tall, Backend::Auto),
        ] {
            every_mutant_is_found(&space.unwrap(), n_ranks, stride, |mutation| {
                solves_with_another(mutation, a.n_slots(), n_ranks)
            });
        }
        for space in [
            Triangular::new(left, 1.0, upper, wide, Backend::Auto),
            Triangular::new(right, 1.0, upper, tall, Backend::Auto),
        ] {
            every_mutant_is_found(
                &space.unwrap(),
                n_ranks,
                stride,
                |mutation| match mutation {
                    Mutation::Input(TriangularTask::Give { .. }, 0, Twist::Slot(_)) => true,
                    Mutation::Input(_, 1, Twist::Slot(slot)) => n_ranks == 1 && *slot < a.n_slots(),
                    _ => false,
                },
            );
        }
    }
}

#[test]
fn every_mutant_of_lu_is_found() {
    for (p, q) in [(1, 1), (2, 3)] {
        for ((m, n), stride) in [
            ((1, 1), 1),
            ((2, 2), 1),
            ((3, 2), 3),
            ((2, 3), 2),
            ((4, 4), 41),
        ] {
            let a = over(Layout::general(m, n, 1).unwrap(), (p, q));
            let pivots = &*Box::leak(Box::new(Pivots::new(a)));
            let space = lu::Factor::new(a, pivots, Backend::Auto).unwrap();
            let tournament = space.by_tournament(NonZeroU32::new(3).unwrap());
            // How many flows a panel has: stacks and pivots; players, pivots, the top and seats.
            for (space, flows) in [(space, 2 * p), (tournament, 4 + p)] {
                every_mutant_is_found(&space, p * q, stride, |mutation| {
                    // The pivots go to a store that was empty: nothing says what must come there.
                    let Mutation::Output(lu::Task::Panel { k }, nth, twist) = mutation else {
                        return false;
                    };
                    let (below, right) = (m as u32 - k, n as u32 - k - 1);
                    let risers = p.min(below - 1);
                    let last = below + right * (risers + 1) + u32::from(*k > 0);
                    *nth == last as usize
                        && match twist {
                            Twist::Removed => true,
                            Twist::Flow(flow) => *flow < flows as usize,
                            // On the rank of another step this one's slot is free.
                            Twist::Slot(step) => {
                                let owner = |step| a.rank_of(step, step);
                                let beyond = *step >= m.min(n) && p * q > 1;
                                beyond || owner(*step) != owner(*k as usize)
                            }
                            _ => false,
                        }
                });
            }
            let space = Unpivoted::new(a, pivots, Backend::Auto).unwrap();
            every_mutant_is_found(&space, p * q, stride.min(5), |_| false);
        }
    }
}

#[test]
fn every_mutant_of_lu_with_incremental_pivoting_is_found() {
    for (p, q) in [(1, 1), (2, 2), (2, 3)] {
        for ((m, n), stride) in [((2, 2), 1), ((3, 2), 3), ((2, 3), 2), ((4, 4), 31)] {
            let a = over(Layout::general(m, n, 1).unwrap(), (p, q));
            let exchanges = &*Box::leak(Box::new(lu::Exchanges::new(a)));
            let space = lu::Incremental::new(a, exchanges, Backend::Auto).unwrap();
            every_mutant_is_found(&space, p * q, stride, |mutation| {
                use lu::IncrementalTask::{Getrf, Tstrf};
                let Mutation::Output(task, nth, twist) = mutation else {
                    return false;
                };
                // The exchanges go to a store that was empty: nothing says what must come there.
                let (row, k, last, flows) = match *task {
                    Getrf { k } => (k, k, 1, 4),
                    Tstrf { m, k } => (m, k, 1, 3),
                    _ => return false,
                };
                *nth == 2 * (n - 1 - k as usize) + last
                    && match twist {
                        Twist::Removed => true,
                        Twist::Flow(flow) => *flow < flows,
                        // A slot that nobody fills, or who does is on another rank.
                        Twist::Slot(slot) => {
                            let (other, step) = (slot % m, slot / m);
                            let owner = |m, k| a.rank_of(m, k);
                            match step < m.min(n) {
                                true => {
                                    other < step
                                        || owner(other, step) != owner(row as usize, k as usize)
                                }
                                false => p * q > 1,
                            }
                        }
                        _ => false,
                    }
            });
        }
    }
}

#[test]
fn every_mutant_of_rows_in_order_is_found() {
    for (p, q) in [(1, 1), (2, 2), (2, 3)] {
        for (nt, stride) in [(2, 1), (3, 5)] {
            let a = over(Layout::general(nt, nt, 1).unwrap(), (p, q));
            let b = over(Layout::general(nt, 2, 1).unwrap(), (p, q));
            let pivots = &*Box::leak(Box::new(Pivots::new(a)));
            let space = lu::Reorder::new(pivots, b);
            every_mutant_is_found(&space, p * q, stride, |mutation| match mutation {
                // Another step, which nobody changes, may be read: no contradiction.
                Mutation::Input(lu::ReorderTask::Order { k }, nth, Twist::Slot(slot)) => {
                    let is_swaps = *nth == usize::from((*k as usize) + 1 < nt);
                    is_swaps && (p * q > 1 || *slot < nt)
                }
                _ => false,
            });
        }
    }
}

/// Spaces one after another: of a solution, of an inverse, and of factors and solution.
#[test]
fn every_edge_of_a_series_counts() {
    for (p, q) in [(1, 1), (2, 2)] {
        let square = over(Layout::general(3, 3, 1).unwrap(), (p, q));
        let unit = over(Layout::general(3, 3, 1).unwrap(), (p, q));
        let sides = over(Layout::general(3, 2, 1).unwrap(), (p, q));
        let pivots = &*Box::leak(Box::new(Pivots::new(square)));
        let factor = lu::Factor::new(square, pivots, Backend::Auto).unwrap();
        let turn = qr::Adjoint::over(unit, square).unwrap();
        let to_unit = lu::Solve::of_unit(square, pivots, unit, Backend::Auto).unwrap();
        let solve = |op| lu::Solve::new(square, pivots, op, sides, Backend::Auto).unwrap();
        let (plain, transposed) = (solve(Op::NoTranspose), solve(Op::Transpose));
        let with = |first: Vec<_>, rest: [_; 2]| first.into_iter().chain(rest).collect();
        let mut inverse: Vec<_> = with(vec![factor.erased()], to_unit.parts());
        inverse.push(turn.erased());
        let all: [Vec<_>; 3] = [
            Vec::from(transposed.parts()),
            inverse,
            with(vec![factor.erased()], plain.parts()),
        ];
        for spaces in all {
            let series = Erased::series(spaces, 0..p * q).unwrap();
            every_edge_counts(&series, p * q);
        }
    }
}

/// Least squares, and the shortest solution.
#[test]
fn every_edge_of_a_series_with_q_counts() {
    let (left, plain, adjoint) = (Side::Left, Op::NoTranspose, Op::ConjTranspose);
    for (p, q) in [(1, 1), (2, 2)] {
        let general = |rows, cols| over(Layout::general(rows, cols, 1).unwrap(), (p, q));
        let (wide, tall, long, short) =
            (general(2, 3), general(3, 2), general(3, 1), general(2, 1));
        let reflectors = reflectors(tall, Tree::Greedy);
        let turn = qr::Adjoint::new(wide, tall).unwrap();
        let factor = qr::Factor::new(tall, reflectors, Backend::Auto).unwrap();
        let found = OnceLock::new();
        let look = qr::Leading::new(tall, (qr::Compare::ByDirection, 1e-10), &found);
        let apply = |op| qr::Apply::new(tall, reflectors, (left, op), long, Backend::Auto).unwrap();
        let (to_b, to_x) = (apply(adjoint), apply(plain));
        let nearest = qr::Solve::new(tall, plain, long, short, Backend::Auto).unwrap();
        let shortest = qr::Solve::new(tall, adjoint, short, long, Backend::Auto).unwrap();
        let all = [
            vec![
                factor.erased(),
                look.erased(),
                to_b.erased(),
                nearest.erased(),
            ],
            vec![
                turn.erased(),
                factor.erased(),
                look.erased(),
                shortest.erased(),
                to_x.erased(),
            ],
        ];
        for spaces in all {
            let series = Erased::series(spaces, 0..p * q).unwrap();
            every_edge_counts(&series, p * q);
        }
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
    for (p, q) in [(1, 1), (2, 3)] {
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

specimen!(
    qr::Choice<'static, f64>,
    qr::ChoiceTask,
    [
        qr::ChoiceTask::Give { i: 20, j: 0 },
        qr::ChoiceTask::Gather { j: 20 },
        qr::ChoiceTask::Merge { v: 1, k: 0 },
        qr::ChoiceTask::Crown { k: 20 },
        qr::ChoiceTask::Turn { j: 20, k: 0 },
    ]
);

specimen!(
    qr::Leading<'static, f64>,
    qr::LeadingTask,
    [
        qr::LeadingTask::Part { i: 1, j: 1 },
        qr::LeadingTask::Step { j: 20 },
    ]
);

impl Specimen for qr::Arrange<'static, f64> {
    fn fresh(&self) -> Self {
        self.clone()
    }
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
    fn holes(&self) -> Vec<String> {
        Vec::new()
    }
    fn strangers(&self) -> Vec<qr::ArrangeTask> {
        vec![
            qr::ArrangeTask::Give { i: 20, j: 0 },
            qr::ArrangeTask::Make { i: 0, j: 20 },
        ]
    }
}

/// Whether a mutation reads another tile of a matrix that nobody changes: no contradiction.
fn reads_what_is_given<K>(mutation: &Mutation<K>, a: &TiledMatrix<f64>) -> bool {
    let spread = a.distribution().n_ranks() > 1;
    matches!(mutation, Mutation::Input(_, 0, Twist::Slot(slot)) if spread || *slot < a.n_slots())
}

#[test]
fn every_mutant_of_column_pivoting_is_found() {
    for ((p, q), (mt, nt), stride) in [
        ((1, 1), (1, 1), 1),
        ((1, 1), (2, 3), 3),
        ((2, 2), (2, 2), 2),
        ((2, 3), (3, 5), 23),
    ] {
        let a = over(Layout::general(mt, nt, 1).unwrap(), (p, q));
        let order = Box::leak(Box::new(OnceLock::new()));
        let choice = qr::Choice::new(a, order, Backend::Auto).unwrap();
        every_mutant_is_found(&choice, p * q, stride, |mutation| {
            use qr::ChoiceTask::Give;
            let of_a = matches!(mutation, Mutation::Input(Give { .. }, ..));
            of_a && reads_what_is_given(mutation, a)
        });
        let found = Box::leak(Box::new(OnceLock::new()));
        let leading = qr::Leading::new(a, (qr::Compare::AsTheyAre, 0.5), found);
        every_mutant_is_found(&leading, p * q, stride, |mutation| {
            use qr::LeadingTask::{Part, Step};
            let of_r = matches!(mutation, Mutation::Input(Part { .. } | Step { .. }, 0, _));
            of_r && reads_what_is_given(mutation, a)
        });
        let order: Vec<usize> = (0..nt).map(|at| (3 * at + 1) % nt).collect();
        let made = over(Layout::general(mt, nt, 1).unwrap(), (p, q));
        let arrange = qr::Arrange::new(a, qr::Lines::Columns, order.leak(), made).unwrap();
        every_mutant_is_found(&arrange, p * q, stride, |mutation| {
            use qr::ArrangeTask::{Give, Make};
            match mutation {
                // Nobody takes what is made from its place: another, or none, contradicts nothing.
                Mutation::Output(Make { .. }, ..) => {
                    verify(&Mutant::new(&arrange, mutation), p * q).is_ok()
                }
                Mutation::Input(Give { .. }, ..) => reads_what_is_given(mutation, a),
                _ => false,
            }
        });
    }
}
