//! What becomes of a matrix that is spread over ranks is, bit for bit, what one rank makes of it.

use crate::ranks::on_ranks;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Courier, Shuffled};
use dataflow_core::rank::Rank;
use dataflow_linalg::kernel::{Backend, Op};
use dataflow_linalg::lu::{self, Pivots};
use dataflow_linalg::matrix::digest::{Digest, digest};
use dataflow_linalg::matrix::generate::Random;
use dataflow_linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow_linalg::scalar::{Scalar, c64};

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

/// The digests of the factors and of a solution for each operation, and the residual.
fn lu_across<T: Scalar>(
    (m, n): (usize, usize),
    (p, q): (u32, u32),
    seed: u64,
) -> (Digest, Vec<Digest>, f64) {
    let n_ranks = p * q;
    let parts: Vec<_> = (0..n_ranks)
        .map(|rank| lu_part::<T>((m, n), (p, q), rank))
        .collect();
    let part = |courier: &dyn Courier| &parts[courier.rank().0 as usize];
    let on = Shuffled::new(seed).with_threads(2);
    let (digests, _) = on_ranks(n_ranks, (seed, 2), |courier| {
        let (a, pivots, _) = part(courier);
        let factor = lu::Factor::new(a, pivots, Backend::Faer).unwrap();
        let report = factor.run_across(&on, courier, &Monitor::new()).unwrap();
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
        check.run_across(&on, courier).unwrap();
        check.residual()
    });
    let ops = [Op::NoTranspose, Op::Transpose, Op::ConjTranspose];
    let solved = ops.into_iter().filter(|_| m == n).map(|op| {
        let (digests, _) = on_ranks(n_ranks, (seed, 2), |courier| {
            let (a, pivots, b) = part(courier);
            let solve = lu::Solve::new(a, pivots, op, b, Backend::Faer).unwrap();
            let report = solve.run_across(&on, courier, &Monitor::new()).unwrap();
            assert_eq!(report.copies(), 0);
            digest(b).unwrap()
        });
        digests.into_iter().sum()
    });
    let digest = digests.into_iter().sum();
    (digest, solved.collect(), residuals[0].unwrap())
}

#[test]
fn lu_factors_solutions_and_residual_are_those_of_one_rank_on_every_grid() {
    for shape in [(N, N), (61, 37), (37, 61), (5, 5)] {
        let alone = lu_across::<f64>(shape, (1, 1), 1);
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
                lu_across::<f64>(shape, grid, 5),
                alone,
                "{shape:?} on {grid:?}"
            );
        }
    }
    let alone = lu_across::<c64>((N, N), (1, 1), 1);
    assert_eq!(lu_across::<c64>((N, N), (3, 2), 9), alone);
    let alone = lu_across::<f32>((N, N), (1, 1), 1);
    assert_eq!(lu_across::<f32>((N, N), (2, 2), 9), alone);
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
        factor.run_across(&on, courier, &Monitor::new()).unwrap();
    });
    let (results, _) = on_ranks(6, (3, 1), |courier| {
        lu::expect_regular(&parts[courier.rank().0 as usize].1, &on, courier)
    });
    for result in results {
        let error = result.unwrap_err();
        assert_eq!((error.name(), error.index()), ("singular", Some(18)));
    }
}
