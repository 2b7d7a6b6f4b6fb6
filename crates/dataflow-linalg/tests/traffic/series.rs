//! Stages as one graph: it has their bits and sends what they send, on every grid.

use super::{NB, part};
use crate::ranks::on_ranks;
use dataflow_core::port::{Context, Courier, Executor, Shuffled};
use dataflow_linalg::cholesky;
use dataflow_linalg::kernel::{Backend, Op, Side};
use dataflow_linalg::lu::{self, Exchanges, Pivots};
use dataflow_linalg::matrix::digest::{Digest, digest};
use dataflow_linalg::matrix::generate::PositiveDefinite;
use dataflow_linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow_linalg::qr::{self, Options, Reflectors, Tree};
use std::num::NonZeroU32;

const GRIDS: [(u32, u32); 5] = [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)];
const BACKEND: Backend = Backend::Faer;

/// What a rank does, by its courier and an executor; the digest of what it leaves.
type OfRank<'a> = &'a (dyn Fn(&dyn Courier, &dyn Executor) -> Digest + Sync);

/// Expects the same of some stages and of one graph.
fn alike(what: &str, grid: (u32, u32), ways: [OfRank<'_>; 2]) {
    let [apart, joined] = ways.map(|run| {
        let (digests, crossed) = on_ranks(grid.0 * grid.1, (7, 2), |courier| {
            let on = Shuffled::new(5).with_threads(2);
            run(courier, &Context::new(&on).across(courier))
        });
        let digest: Digest = digests.into_iter().sum();
        (digest, crossed.data, crossed.bytes)
    });
    assert_eq!(joined, apart, "{what} on {grid:?}");
}

fn sum(matrices: [&TiledMatrix<f64>; 2]) -> Digest {
    let digests = matrices.map(|matrix| digest(matrix).unwrap());
    digests.into_iter().sum()
}

#[test]
fn posv_is_its_stages() {
    for grid in GRIDS {
        let made = |courier: &dyn Courier| {
            let grid = Distribution::BlockCyclic(Grid::new(grid.0, grid.1).unwrap());
            let layout = Layout::lower(23, NB).unwrap();
            let layout = layout.distributed(grid, courier.rank()).unwrap();
            TiledMatrix::from_entries(layout, &PositiveDefinite::new(23, 3))
        };
        let apart = |courier: &dyn Courier, on: &dyn Executor| {
            let (a, b) = (made(courier), part((23, 6), grid, courier, 1.0));
            cholesky::Factor::new(&a, BACKEND).unwrap().run(on).unwrap();
            cholesky::solve(&a, &b, BACKEND, on).unwrap();
            sum([&a, &b])
        };
        let joined = |courier: &dyn Courier, on: &dyn Executor| {
            let (a, b) = (made(courier), part((23, 6), grid, courier, 1.0));
            cholesky::factor_and_solve(&a, &b, BACKEND, on).unwrap();
            sum([&a, &b])
        };
        alike("posv", grid, [&apart, &joined]);
    }
}

#[test]
fn gesv_is_its_stages_with_partial_and_tournament_pivoting() {
    for (grid, groups) in GRIDS
        .into_iter()
        .flat_map(|grid| [None, NonZeroU32::new(2)].map(|groups| (grid, groups)))
    {
        let run = |courier: &dyn Courier, on: &dyn Executor, is_joined: bool| {
            let [a, b] = [23, 6].map(|columns| part((23, columns), grid, courier, 0.0));
            let pivots = Pivots::new(&a);
            let factor = lu::Factor::new(&a, &pivots, BACKEND).unwrap();
            let factor = match groups {
                Some(groups) => factor.by_tournament(groups),
                None => factor,
            };
            if is_joined {
                factor.and_solve(&b, on).unwrap();
            } else {
                factor.run(on).unwrap();
                let solve = lu::Solve::new(&a, &pivots, Op::NoTranspose, &b, BACKEND);
                solve.unwrap().run(on).unwrap();
            }
            sum([&a, &b]) + pivots.digest()
        };
        alike(
            &format!("gesv, groups: {groups:?}"),
            grid,
            [&|courier, on| run(courier, on, false), &|courier, on| {
                run(courier, on, true)
            }],
        );
    }
}

#[test]
fn gesv_is_its_stages_with_incremental_pivoting_and_without() {
    for grid in GRIDS {
        let run = |courier: &dyn Courier, on: &dyn Executor, is_joined: bool| {
            let [a, b] = [23, 6].map(|columns| part((23, columns), grid, courier, 0.0));
            let exchanges = Exchanges::new(&a);
            let factor = lu::Incremental::new(&a, &exchanges, BACKEND).unwrap();
            if is_joined {
                factor.and_solve(&b, on).unwrap();
            } else {
                factor.run(on).unwrap();
                let solve = lu::Replay::new(&a, &exchanges, &b, BACKEND).unwrap();
                solve.run(on).unwrap();
            }
            sum([&a, &b]) + exchanges.digest()
        };
        let ways: [OfRank<'_>; 2] = [&|courier, on| run(courier, on, false), &|courier, on| {
            run(courier, on, true)
        }];
        alike("gesv, incremental", grid, ways);
        let run = |courier: &dyn Courier, on: &dyn Executor, is_joined: bool| {
            let [a, b] = [23, 6].map(|columns| part((23, columns), grid, courier, 30.0));
            let pivots = Pivots::new(&a);
            let factor = lu::Unpivoted::new(&a, &pivots, BACKEND).unwrap();
            if is_joined {
                factor.and_solve(&pivots, &b, on).unwrap();
            } else {
                factor.run(on).unwrap();
                let solve = lu::Solve::new(&a, &pivots, Op::NoTranspose, &b, BACKEND);
                solve.unwrap().run(on).unwrap();
            }
            sum([&a, &b])
        };
        let ways: [OfRank<'_>; 2] = [&|courier, on| run(courier, on, false), &|courier, on| {
            run(courier, on, true)
        }];
        alike("gesv, unpivoted", grid, ways);
    }
}

#[test]
fn gels_is_its_stages_for_tall_matrices_and_wide_ones() {
    let (tree, ib) = (Tree::Greedy, 2);
    let options = Options { tree, ib };
    for (grid, (m, n)) in GRIDS
        .into_iter()
        .flat_map(|grid| [(30, 14), (14, 30), (20, 20)].map(|shape| (grid, shape)))
    {
        let apart = |courier: &dyn Courier, on: &dyn Executor| {
            let [a, b] = [n, 6].map(|columns| part((m, columns), grid, courier, 1.0));
            let zeros = part((n, 6), grid, courier, 0.0);
            zeros.fill(&|_: usize, _: usize| 0.0, on).unwrap();
            let a = match m < n {
                true => qr::adjoint(&a, on).unwrap().0,
                false => a,
            };
            let q = Reflectors::new(a.layout(), options);
            qr::Factor::new(&a, &q, BACKEND).unwrap().run(on).unwrap();
            qr::expect_full_rank(&a, options, BACKEND, on).unwrap();
            let turn = |op, c| {
                let turn = qr::Apply::new(&a, &q, (Side::Left, op), c, BACKEND);
                turn.unwrap().run(on).unwrap();
            };
            let solve = |op| {
                let solve = qr::Solve::new(&a, op, &b, &zeros, BACKEND);
                solve.unwrap().run(on).unwrap();
            };
            if m < n {
                solve(Op::ConjTranspose);
                turn(Op::NoTranspose, &zeros);
            } else {
                turn(Op::ConjTranspose, &b);
                solve(Op::NoTranspose);
            }
            digest(&zeros).unwrap()
        };
        let joined = |courier: &dyn Courier, on: &dyn Executor| {
            let [a, b] = [n, 6].map(|columns| part((m, columns), grid, courier, 1.0));
            let (x, _) = qr::least_squares(&a, &b, options, BACKEND, on).unwrap();
            digest(&x).unwrap()
        };
        alike(&format!("gels of {m} x {n}"), grid, [&apart, &joined]);
    }
}

#[test]
fn getri_is_its_stages() {
    for grid in GRIDS {
        let apart = |courier: &dyn Courier, on: &dyn Executor| {
            let a = part((23, 23), grid, courier, 0.0);
            let pivots = Pivots::new(&a);
            lu::Factor::new(&a, &pivots, BACKEND)
                .unwrap()
                .run(on)
                .unwrap();
            let unit = part((23, 23), grid, courier, 0.0);
            let identity = |i: usize, j: usize| f64::from(u8::from(i == j));
            unit.fill(&identity, on).unwrap();
            let solve = lu::Solve::of_unit(&a, &pivots, &unit, BACKEND).unwrap();
            solve.run(on).unwrap();
            digest(&qr::adjoint(&unit, on).unwrap().0).unwrap()
        };
        let joined = |courier: &dyn Courier, on: &dyn Executor| {
            let a = part((23, 23), grid, courier, 0.0);
            let (inverse, _) = lu::inverse(a, BACKEND, on).unwrap();
            digest(&inverse).unwrap()
        };
        alike("inverse", grid, [&apart, &joined]);
        let factored = |courier: &dyn Courier, on: &dyn Executor| {
            let a = part((23, 23), grid, courier, 0.0);
            let pivots = Pivots::new(&a);
            lu::Factor::new(&a, &pivots, BACKEND)
                .unwrap()
                .run(on)
                .unwrap();
            let (inverse, _) = lu::invert(a, &pivots, BACKEND, on).unwrap();
            digest(&inverse).unwrap()
        };
        alike("getri", grid, [&apart, &factored]);
    }
}

/// Zero pivots, minors that are not positive and ranks that are not full are told by all ranks alike.
#[test]
fn what_has_no_solution_is_the_same_error_on_every_rank() {
    for grid in GRIDS {
        let (errors, _) = on_ranks(grid.0 * grid.1, (3, 1), |courier| {
            let on = Shuffled::new(2);
            let on = Context::new(&on).across(courier);
            let made = |columns: usize, entry: &(dyn Fn(usize, usize) -> f64 + Sync)| {
                let b = part((23, columns), grid, courier, 0.0);
                b.fill(&|i: usize, j: usize| entry(i, j), &on).unwrap();
                b
            };
            let ones = || made(2, &|_, _| 1.0);
            let zero = |i: usize, j: usize| f64::from(u8::from(i == j && ![9, 17].contains(&i)));
            let a = made(23, &zero);
            let solved = lu::factor_and_solve(&a, &Pivots::new(&a), &ones(), BACKEND, &on);
            let inverted = lu::inverse(made(23, &zero), BACKEND, &on);
            let a = made(6, &|i, j| (i * (j % 5) + j % 5 + 1) as f64);
            let options = Options::of_order(NB);
            let nearest = qr::least_squares(&a, &ones(), options, BACKEND, &on);
            let index = [solved.unwrap_err().index(), inverted.unwrap_err().index()];
            (index, nearest.unwrap_err().to_string())
        });
        for (index, rank) in errors {
            assert_eq!(index, [Some(10); 2], "{grid:?}");
            assert!(rank.contains("its rank is about 2 of 6"), "{rank}");
        }
    }
}
