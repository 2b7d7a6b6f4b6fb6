//! LAPACK's own acceptance tests, rebuilt: matrix types, ratios, thresholds and INFO of TESTING/LIN
//! for Cholesky, LU and QR, on one rank and on grids of ranks.
//!
//! # Law
//! A ratio at its threshold fails, and so does a NaN. What each rank is told of INFO is exact. Only
//! rank 0 computes ratios, from all entries and in f64.
//!
//! By default a share of the cases is tried, by a fixed seed; `cargo xtask lapack` sets
//! `DATAFLOW_LAPACK` and tries all.
//!
//! # Source
//! Reference LAPACK, TESTING: dtest.in (extents, tile orders), LIN/dlatb4 (types), MATGEN/dlatms
//! (spectra), LIN/dchkpo, dchkge, dchkqr, dchkqrt, dchkqrtp (ratios). In own words, with other
//! random numbers.

mod definite;
mod dense;
mod edges;
mod general;
mod kernels;
mod least;
mod tally;
mod types;
mod world;

use dataflow::linalg::scalar::{Scalar, c32, c64};
use tally::Tally;
use world::World;

/// Rows and columns, N and M of dtest.in.
const EXTENTS: [usize; 7] = [0, 1, 2, 3, 5, 10, 50];
/// Tile orders, its NB.
const TILE_ORDERS: [usize; 3] = [1, 3, 20];
/// Right-hand sides, its NRHS.
const RIGHT_HAND_SIDES: [usize; 3] = [1, 2, 15];
const GRIDS: [(u32, u32); 3] = [(1, 1), (2, 2), (1, 3)];

/// What is tried on every grid.
#[rustfmt::skip]
const ROUTINES: [&str; 11] = [
    "potrf", "potri", "potrs", "getrf", "getri", "getrs", "geqrf", "orgqr", "ormqr", "gels", "INFO",
];
/// What is tried on one rank alone: estimates, and kernels.
const ON_ONE_RANK: [&str; 4] = ["pocon", "gecon", "geqrt", "tpqrt"];

/// Tiles of single numbers are tried at small orders.
fn is_sane(longest: usize, nb: usize) -> bool {
    longest <= 20 * nb
}

/// All paths in one precision on all grids.
fn accept<T: Scalar>() {
    let mut all = Vec::new();
    for grid in GRIDS {
        let tally = World::each(grid, |world| {
            let mut tally = Tally::new(world.share());
            definite::cases::<T>(world, &mut tally);
            general::cases::<T>(world, &mut tally);
            least::cases::<T>(world, &mut tally);
            if grid == (1, 1) {
                kernels::cases::<T>(&mut tally);
            }
            tally
        });
        tally.print(&format!("{} {}x{}", T::PRECISION, grid.0, grid.1));
        all.push((grid, tally));
    }
    for (grid, tally) in all {
        match grid {
            (1, 1) => tally.expect_accepted(&[&ROUTINES[..], &ON_ONE_RANK].concat()),
            _ => tally.expect_accepted(&ROUTINES),
        }
    }
}

#[test]
fn every_ratio_is_below_its_threshold_and_every_info_exact_in_f32() {
    accept::<f32>();
}

#[test]
fn every_ratio_is_below_its_threshold_and_every_info_exact_in_f64() {
    accept::<f64>();
}

#[test]
fn every_ratio_is_below_its_threshold_and_every_info_exact_in_c32() {
    accept::<c32>();
}

#[test]
fn every_ratio_is_below_its_threshold_and_every_info_exact_in_c64() {
    accept::<c64>();
}
