//! What is multiplied by powers of two on its way is multiplied by the same on every rank: near the ends of the
//! range answers are, bit for bit, those of one rank, too.

use crate::ranks::on_ranks;
use dataflow_core::port::{Context, Inline};
use dataflow_linalg::kernel::Backend;
use dataflow_linalg::matrix::digest::{Digest, digest};
use dataflow_linalg::matrix::generate::Random;
use dataflow_linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow_linalg::qr::{self, Options};
use dataflow_linalg::refine;
use dataflow_linalg::scalar::{Scalar, c64};

/// The digests of the shortest solution, of a refined one and of a residual, and the ratio that judges the
/// first, of matrices times these factors; of all ranks together.
fn answers<T: Scalar>((p, q): (u32, u32), of_a: f64, of_b: f64) -> ([Digest; 3], u64) {
    let (told, _) = on_ranks(p * q, (5, 2), |courier| {
        let on = &Context::new(&Inline).across(courier);
        let made = |(m, n): (usize, usize), seed, scale: f64| {
            let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
            let layout = Layout::general(m, n, 3).unwrap();
            let layout = layout.distributed(grid, courier.rank()).unwrap();
            let random = Random::new(seed);
            let times = |i: usize, j: usize| -> T {
                let entry: T = random.entry(i, j);
                T::from_parts(entry.re() * scale, entry.im() * scale)
            };
            TiledMatrix::<T>::from_fn(layout, times)
        };
        let (tall, side) = ((11, 7), (11, 2));
        let [a, again] = [0; 2].map(|_| made(tall, 1, of_a));
        let [b, rest] = [0; 2].map(|_| made(side, 2, of_b));
        let options = Options::of_order(3);
        let solved = qr::least_squares_minimum_norm(&a, &b, None, options, Backend::Faer, on);
        let (x, rank, _) = solved.unwrap();
        assert_eq!(rank, 7, "{of_a:e}");
        let ratio = qr::least_squares_ratio(&again, &rest, &x, 0.0, on).unwrap();
        assert!(ratio < 30.0, "{of_a:e} {of_b:e}: {ratio}");
        let (square, column) = (made((9, 9), 3, of_a), made((9, 1), 4, of_b));
        let refined = refine::solve(&square, &column, Backend::Faer, on).unwrap();
        let digests = [&x, &refined.x, &rest].map(|of| digest(of).unwrap());
        (digests, ratio.to_bits())
    });
    let ratio = told[0].1;
    assert!(told.iter().all(|(_, told)| *told == ratio), "{told:?}");
    let sum = |which: usize| told.iter().map(|(digests, _)| digests[which]).sum();
    ([sum(0), sum(1), sum(2)], ratio)
}

#[test]
fn every_grid_scales_as_one_rank_does_near_the_ends_of_the_range() {
    fn check<T: Scalar>() {
        for (of_a, of_b) in [
            (1e-290, 1e-290),
            (1e290, 1e290),
            (1e-290, 1e-20),
            (1e290, 1e20),
            (1.0, 1.0),
        ] {
            let alone = answers::<T>((1, 1), of_a, of_b);
            for grid in [(1, 2), (2, 1), (2, 2)] {
                assert_eq!(
                    answers::<T>(grid, of_a, of_b),
                    alone,
                    "{grid:?} {of_a:e} {of_b:e}"
                );
            }
        }
    }
    check::<f64>();
    check::<c64>();
}
