//! What becomes of a matrix that is spread over ranks is, bit for bit, what one rank makes of it.

use crate::ranks::on_ranks;
use dataflow_core::port::{Context, Courier, Shuffled};
use dataflow_core::rank::Rank;
use dataflow_linalg::kernel::{Backend, Op};
use dataflow_linalg::lu::{self, Exchanges, Pivots};
use dataflow_linalg::matrix::digest::{Digest, digest};
use dataflow_linalg::matrix::generate::Random;
use dataflow_linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow_linalg::scalar::{Scalar, c64};
use std::num::NonZeroU32;

const N: usize = 50;
const NB: usize = 8;

/// The part of one rank of a matrix of any shape, and of `N` × 11 right-hand sides.
fn lu_part<T: Scalar>(
    (m, n): (usize, usize),
    (p, q): (u32, u32),
    rank: u32,
) -> (TiledMatrix<T>, Pivots<T>, TiledMatrix<T>) {
    let distribution = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let part = |m, n, seed| {
        let layout = Layout::general(m, n, NB).unwrap();
        let layout = layout.distributed(distribution, Rank(rank)).unwrap();
        TiledMatrix::from_entries(layout, &Random::new(seed))
    };
    let a = part(m, n, 3);
    let pivots = Pivots::new(&a);
    (a, pivots, part(m, 11, 4))
}

/// A unit matrix, cut and spread like another.
fn unit_like<T: Scalar>(a: &TiledMatrix<T>) -> TiledMatrix<T> {
    let one = |i: usize, j: usize| if i == j { T::one() } else { T::zero() };
    TiledMatrix::from_fn(*a.layout(), one)
}

/// The digests of the factors, of a solution for each operation and of A⁻ᴴ, and the residual.
fn lu_across<T: Scalar>(
    (m, n): (usize, usize),
    (p, q): (u32, u32),
    seed: u64,
    groups: Option<NonZeroU32>,
) -> (Digest, Vec<Digest>, f64) {
    let n_ranks = p * q;
    let parts: Vec<_> = (0..n_ranks)
        .map(|rank| lu_part::<T>((m, n), (p, q), rank))
        .collect();
    let part = |courier: &dyn Courier| &parts[courier.rank().0 as usize];
    let on = Shuffled::new(seed).with_threads(2);
    let (digests, _) = on_ranks(n_ranks, (seed, 2), |courier| {
        let (a, pivots, _) = part(courier);
        let mut factor = lu::Factor::new(a, pivots, Backend::Faer).unwrap();
        if let Some(groups) = groups {
            factor = factor.by_tournament(groups);
        }
        let report = factor.run(&Context::new(&on).across(courier)).unwrap();
        // A tile of L that still is on its way to another rank is copied before its rows move.
        let may_copy = m < n || n_ranks > 1;
        assert!(
            may_copy || report.copies() == 0,
            "{} copies",
            report.copies()
        );
        digest(a).unwrap() + pivots.digest()
    });
    let (residuals, _) = on_ranks(n_ranks, (seed, 2), |courier| {
        let (a, pivots, _) = part(courier);
        let original = Random::new(3);
        let check = lu::Check::new(&original, a, pivots).unwrap();
        check.run(&Context::new(&on).across(courier)).unwrap();
        check.residual()
    });
    let ops = [Op::NoTranspose, Op::Transpose, Op::ConjTranspose];
    let solved = ops.into_iter().filter(|_| m == n).map(|op| {
        let (digests, _) = on_ranks(n_ranks, (seed, 2), |courier| {
            let (a, pivots, b) = part(courier);
            let solve = lu::Solve::new(a, pivots, op, b, Backend::Faer).unwrap();
            let report = solve.run(&Context::new(&on).across(courier)).unwrap();
            assert_eq!(report.copies(), 0);
            digest(b).unwrap()
        });
        digests.into_iter().sum()
    });
    let mut solved: Vec<_> = solved.collect();
    if m == n {
        let units: Vec<_> = parts.iter().map(|(a, ..)| unit_like(a)).collect();
        let (digests, _) = on_ranks(n_ranks, (seed, 2), |courier| {
            let (a, pivots, _) = part(courier);
            let unit = &units[courier.rank().0 as usize];
            let solve = lu::Solve::of_unit(a, pivots, unit, Backend::Faer).unwrap();
            solve.run(&Context::new(&on).across(courier)).unwrap();
            digest(unit).unwrap()
        });
        solved.push(digests.into_iter().sum());
    }
    let digest = digests.into_iter().sum();
    (digest, solved, residuals[0].unwrap())
}

#[test]
fn lu_factors_solutions_and_residual_are_those_of_one_rank_on_every_grid() {
    for shape in [(N, N), (61, 37), (37, 61), (5, 5)] {
        let alone = lu_across::<f64>(shape, (1, 1), 1, None);
        assert!(alone.2 > 0.0 && alone.2 < 2.0, "{}", alone.2);
        for grid in [
            (1, 2),
            (2, 1),
            (3, 1),
            (2, 2),
            (2, 3),
            (3, 2),
            (4, 5),
            (1, 30),
            (12, 1),
        ] {
            assert_eq!(
                lu_across::<f64>(shape, grid, 5, None),
                alone,
                "{shape:?} on {grid:?}"
            );
        }
        let groups = NonZeroU32::new(3);
        let alone = lu_across::<f64>(shape, (1, 1), 1, groups);
        assert!(alone.2 > 0.0 && alone.2 < 2.0, "{}", alone.2);
        for grid in [(1, 2), (2, 1), (3, 1), (2, 3), (4, 5), (12, 1)] {
            let what = format!("tournament, {shape:?} on {grid:?}");
            assert_eq!(lu_across::<f64>(shape, grid, 5, groups), alone, "{what}");
        }
    }
    let alone = lu_across::<c64>((N, N), (1, 1), 1, None);
    assert_eq!(lu_across::<c64>((N, N), (3, 2), 9, None), alone);
    let alone = lu_across::<f32>((N, N), (1, 1), 1, None);
    assert_eq!(lu_across::<f32>((N, N), (2, 2), 9, None), alone);
}

#[test]
fn a_zero_pivot_is_the_same_error_on_every_rank() {
    let singular = |i: usize, j: usize| {
        if j % 20 == 17 {
            0.0
        } else {
            (i * j % 7) as f64 + (i == j) as u8 as f64
        }
    };
    let distribution = Distribution::BlockCyclic(Grid::new(2, 3).unwrap());
    let part = |rank| {
        let layout = Layout::general(N, N, NB).unwrap();
        let a = TiledMatrix::from_fn(layout.distributed(distribution, rank).unwrap(), singular);
        (Pivots::new(&a), a)
    };
    let parts: Vec<_> = (0..6).map(|rank| part(Rank(rank))).collect();
    let on = Shuffled::new(2);
    on_ranks(6, (3, 1), |courier| {
        let (pivots, a) = &parts[courier.rank().0 as usize];
        let factor = lu::Factor::new(a, pivots, Backend::Faer).unwrap();
        factor.run(&Context::new(&on).across(courier)).unwrap();
    });
    let (results, _) = on_ranks(6, (3, 1), |courier| {
        lu::expect_regular(
            &parts[courier.rank().0 as usize].1,
            &Context::new(&on).across(courier),
        )
    });
    for result in results {
        let error = result.unwrap_err();
        assert_eq!((error.name(), error.index()), ("singular", Some(18)));
    }
}

#[test]
fn incremental_pivoting_has_the_bits_of_one_rank_on_every_grid() {
    let across = |n: usize, (p, q): (u32, u32)| {
        let parts: Vec<_> = (0..p * q)
            .map(|rank| {
                let (a, _, b) = lu_part::<f64>((n, n), (p, q), rank);
                (Exchanges::new(&a), a, b)
            })
            .collect();
        let on = Shuffled::new(7).with_threads(2);
        let (digests, _) = on_ranks(p * q, (7, 2), |courier| {
            let (exchanges, a, _) = &parts[courier.rank().0 as usize];
            let factor = lu::Incremental::new(a, exchanges, Backend::Faer).unwrap();
            factor.run(&Context::new(&on).across(courier)).unwrap();
            digest(a).unwrap() + exchanges.digest()
        });
        let (solutions, _) = on_ranks(p * q, (7, 2), |courier| {
            let (exchanges, a, b) = &parts[courier.rank().0 as usize];
            let solve = lu::Replay::new(a, exchanges, b, Backend::Faer).unwrap();
            solve.run(&Context::new(&on).across(courier)).unwrap();
            digest(b).unwrap()
        });
        digests.into_iter().chain(solutions).sum::<Digest>()
    };
    for n in [N, 5] {
        let alone = across(n, (1, 1));
        for grid in [(1, 2), (2, 1), (2, 3), (3, 2), (4, 5), (12, 1)] {
            assert_eq!(across(n, grid), alone, "n = {n} on {grid:?}");
        }
    }
}
