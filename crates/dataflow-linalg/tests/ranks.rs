//! The factor of a matrix that is spread over ranks is, bit for bit, that of one rank.

#[path = "../../dataflow-core/tests/specimen/ranks.rs"]
#[allow(dead_code, reason = "the core's tests use all of it")]
mod ranks;

use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Courier, Inline, Shuffled};
use dataflow_core::rank::Rank;
use dataflow_core::run_across;
use dataflow_linalg::LinalgError;
use dataflow_linalg::cholesky::{Check, Factor, factor, residual};
use dataflow_linalg::kernel::{Backend, Op, Side};
use dataflow_linalg::matrix::digest::{Digest, digest};
use dataflow_linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow_linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow_linalg::qr::{self, Options, Reduction, Reflectors, Tree};
use dataflow_linalg::scalar::{Scalar, c64};
use ranks::on_ranks;

const N: usize = 50;
const NB: usize = 8;

fn alone<T: Scalar>() -> Digest {
    let a =
        TiledMatrix::<T>::from_entries(Layout::lower(N, NB).unwrap(), &PositiveDefinite::new(N, 3));
    factor(&a, Backend::Faer, &Inline).unwrap();
    digest(&a).unwrap()
}

/// The scaled residual of one rank.
fn residual_alone<T: Scalar>() -> f64 {
    let original = PositiveDefinite::new(N, 3);
    let a = TiledMatrix::<T>::from_entries(Layout::lower(N, NB).unwrap(), &original);
    factor(&a, Backend::Faer, &Inline).unwrap();
    residual(&original, &a).unwrap()
}

/// Factors and checks the matrix over a grid: what rank 0 knows of the residual.
fn residual_across<T: Scalar>(p: u32, q: u32, seed: u64) -> f64 {
    let original = PositiveDefinite::new(N, 3);
    let distribution = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let parts: Vec<_> = (0..p * q)
        .map(|rank| {
            let layout = Layout::lower(N, NB).unwrap();
            let layout = layout.distributed(distribution, Rank(rank)).unwrap();
            TiledMatrix::<T>::from_entries(layout, &original)
        })
        .collect();
    let part = |courier: &dyn Courier| &parts[courier.rank().0 as usize];
    on_ranks(p * q, (seed, 2), |courier| {
        let factor = Factor::new(part(courier), Backend::Faer).unwrap();
        factor.run_across(&Shuffled::new(seed), courier, &Monitor::new())
    });
    let (residuals, _) = on_ranks(p * q, (seed, 2), |courier| {
        let check = Check::new(&original, part(courier));
        run_across(&check, &Shuffled::new(seed), courier, &Monitor::new()).unwrap();
        check.residual()
    });
    assert!(residuals[1..].iter().all(Option::is_none));
    residuals[0].unwrap()
}

#[test]
fn every_grid_gives_the_residual_of_one_rank_to_the_bit() {
    for (p, q) in [(1, 2), (3, 1), (2, 2), (2, 3), (4, 5)] {
        let residual = residual_across::<f64>(p, q, 7);
        assert_eq!(residual, residual_alone::<f64>(), "{p} x {q}");
        assert!(residual > 0.0);
    }
    assert_eq!(residual_across::<c64>(2, 2, 1), residual_alone::<c64>());
}

/// Factors the matrix over a grid; the sum of the ranks' digests, and what crossed.
fn across<T: Scalar>(p: u32, q: u32, seed: u64) -> (Digest, u64) {
    let (parts, crossed) = on_ranks(p * q, (seed, 2), |courier| {
        let distribution = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
        let layout = Layout::lower(N, NB)
            .unwrap()
            .distributed(distribution, courier.rank())
            .unwrap();
        let a = TiledMatrix::<T>::from_entries(layout, &PositiveDefinite::new(N, 3));
        let factor = Factor::new(&a, Backend::Faer).unwrap();
        let on = Shuffled::new(seed).with_threads(2);
        let report = factor.run_across(&on, courier, &Monitor::new()).unwrap();
        assert_eq!(report.copies(), 0);
        digest(&a).unwrap()
    });
    (parts.into_iter().sum(), crossed.data)
}

#[test]
fn every_grid_gives_the_digest_of_one_rank_in_every_precision() {
    for (p, q) in [
        (1, 1),
        (1, 2),
        (2, 1),
        (3, 1),
        (2, 2),
        (2, 3),
        (3, 2),
        (4, 5),
        (1, 30),
    ] {
        assert_eq!(across::<f64>(p, q, 1).0, alone::<f64>(), "{p} x {q}");
    }
    assert_eq!(across::<f32>(2, 2, 1).0, alone::<f32>());
    assert_eq!(across::<c64>(2, 2, 1).0, alone::<c64>());
}

#[test]
fn a_final_tile_is_sent_once_to_each_rank_that_needs_it() {
    // 7 × 7 tiles on 2 × 2 ranks, counted by hand for one column and by the formula for all.
    let nt = N.div_ceil(NB);
    let owner = |m: usize, n: usize| (m % 2) * 2 + n % 2;
    let mut crossings = 0;
    for n in 0..nt {
        for m in n..nt {
            let below = (m + 1..nt).map(|i| owner(i, if m == n { n } else { m }));
            let beside = (n + 1..=m).map(|j| owner(m, j));
            let ranks = below.chain(beside).filter(|&rank| rank != owner(m, n));
            crossings += ranks.collect::<std::collections::BTreeSet<_>>().len() as u64;
        }
    }
    assert_eq!(across::<f64>(2, 2, 4).1, crossings);
}

#[test]
fn a_matrix_that_is_not_positive_definite_is_the_same_error_on_every_rank() {
    let spoiled = |i: usize, j: usize| {
        if i == j {
            if i == 37 { -1.0 } else { 100.0 }
        } else {
            1.0
        }
    };
    for seed in 0..5 {
        let (results, _) = on_ranks(6, (seed, 1), |courier| {
            let distribution = Distribution::BlockCyclic(Grid::new(2, 3).unwrap());
            let layout = Layout::lower(N, NB)
                .unwrap()
                .distributed(distribution, courier.rank())
                .unwrap();
            let a = TiledMatrix::from_fn(layout, spoiled);
            let factor = Factor::new(&a, Backend::Faer).unwrap();
            factor.run_across(&Shuffled::new(seed), courier, &Monitor::new())
        });
        for result in results {
            let error = result.unwrap_err();
            assert!(
                matches!(error, LinalgError::NotPositiveDefinite { .. }),
                "{error}"
            );
            assert_eq!(error.index(), Some(38));
        }
    }
}

/// Factors a tall matrix over a grid, forms Q·C and C·Qᴴ: the digests of what all ranks hold.
fn qr_across<T: Scalar>((p, q): (u32, u32), tree: Tree, seed: u64) -> [Digest; 3] {
    let (m, n, other) = (N, 29, 13);
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let part = |rank: Rank, (rows, cols): (usize, usize)| {
        let layout = Layout::general(rows, cols, NB).unwrap();
        let layout = layout.distributed(grid, rank).unwrap();
        TiledMatrix::<T>::from_entries(layout, &Random::new(3))
    };
    let options = Options { tree, ib: 3 };
    let on = Shuffled::new(seed).with_threads(2);
    let (factored, _) = on_ranks(p * q, (seed, 2), |courier| {
        let a = part(courier.rank(), (m, n));
        let reflectors = Reflectors::new(a.layout(), options);
        let factor = qr::Factor::new(&a, &reflectors, Backend::Faer).unwrap();
        let report = factor.run_across(&on, courier, &Monitor::new()).unwrap();
        assert_eq!(report.copies(), 0);
        (a, reflectors)
    });
    let applied = |way: (Side, Op), shape| {
        let (parts, _) = on_ranks(p * q, (seed, 2), |courier| {
            let (a, reflectors) = &factored[courier.rank().0 as usize];
            let c = part(courier.rank(), shape);
            let apply = qr::Apply::new(a, reflectors, way, &c, Backend::Faer).unwrap();
            let report = apply.run_across(&on, courier, &Monitor::new()).unwrap();
            assert_eq!(report.copies(), 0);
            digest(&c).unwrap()
        });
        parts.into_iter().sum()
    };
    [
        factored.iter().map(|(a, _)| digest(a).unwrap()).sum(),
        applied((Side::Left, Op::NoTranspose), (m, other)),
        applied((Side::Right, Op::ConjTranspose), (other, m)),
    ]
}

#[test]
fn every_grid_gives_the_qr_of_one_rank_for_every_tree() {
    let (low, high) = (Reduction::Greedy, Reduction::Binary);
    let hierarchical = Tree::Hierarchical {
        p: 2,
        a: 2,
        low,
        high,
    };
    for tree in [
        Tree::Flat,
        Tree::Binary,
        Tree::Greedy,
        Tree::Fibonacci,
        hierarchical,
    ] {
        let alone = qr_across::<f64>((1, 1), tree, 1);
        for grid in [(1, 2), (3, 1), (2, 2), (2, 3), (4, 5)] {
            assert_eq!(qr_across::<f64>(grid, tree, 2), alone, "{tree} on {grid:?}");
        }
    }
    let alone = qr_across::<c64>((1, 1), hierarchical, 1);
    assert_eq!(qr_across::<c64>((2, 2), hierarchical, 2), alone);
    let alone = qr_across::<f32>((1, 1), Tree::Greedy, 1);
    assert_eq!(qr_across::<f32>((2, 2), Tree::Greedy, 2), alone);
}
