//! What LAPACK's types leave out, on every grid: entries that are not finite, matrices without full
//! rank, nothing at all.

use crate::GRIDS;
use crate::dense::Dense;
use crate::types::{definite, regular};
use crate::world::World;
use dataflow::linalg::LinalgError;
use dataflow::linalg::cholesky::Inverse;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::qr::{Factor, Options, Reflectors, least_squares, triangle};
use dataflow::linalg::scalar::c64;

const NB: usize = 3;

/// X of A·X = B by least squares, as this rank is told.
fn solved(
    world: &World,
    a: &TiledMatrix<f64>,
    b: &TiledMatrix<f64>,
) -> Result<TiledMatrix<f64>, LinalgError> {
    let solution = least_squares(a, b, Options::of_order(NB), Backend::Auto, world.runtime);
    solution.map(|(x, _)| x)
}

fn expect_named<R>(result: Result<R, LinalgError>, (row, col): (usize, usize)) {
    let error = result.err().unwrap();
    let text = error.to_string();
    assert_eq!(error.name(), "not_finite", "{text}");
    assert!(text.contains(&format!("entry ({row}, {col})")), "{text}");
}

#[test]
fn an_entry_that_is_not_finite_is_named_on_every_rank_in_whatever_tile_it_lies() {
    let (n, wrongs) = (7, [f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    let tiles = (0..3).flat_map(|j| (0..3).map(move |i| (NB * i, NB * j)));
    let cases: Vec<_> = tiles
        .flat_map(|at| wrongs.map(|wrong| (at, wrong)))
        .collect();
    for grid in GRIDS {
        World::each(grid, |world| {
            let on = world.runtime;
            for &((row, col), wrong) in &cases {
                let mut a = regular::<f64>(4, n, n);
                a.set(row, col, wrong.into());
                let spoiled = world.general::<f64>(&a, NB);
                let b = world.general::<f64>(&Dense::unit(n), NB);
                expect_named(solved(world, &spoiled, &b), (row, col));
                let sides = world.general::<f64>(&a, NB);
                expect_named(solved(world, &b, &sides), (row, col));
                // Who does not look first gets an answer, too, and it does not hide what is wrong.
                let q = Reflectors::new(spoiled.layout(), Options::of_order(NB));
                let factor = Factor::new(&spoiled, &q, Backend::Auto).unwrap();
                factor.run(on).unwrap();
                let r = world.gather(&triangle(&spoiled, on).unwrap());
                assert!(!r.norm().is_finite(), "({row}, {col}) {wrong}: {r:?}");
            }
        });
    }
}

#[test]
fn an_inverse_of_what_is_not_finite_is_refused_or_failed_on_every_rank() {
    let (n, wrongs) = (7, [f64::NAN, f64::INFINITY]);
    let below = (0..3).flat_map(|j| (j..3).map(move |i| (NB * i, NB * j)));
    let cases: Vec<_> = below
        .flat_map(|at| wrongs.map(|wrong| (at, wrong)))
        .collect();
    for grid in GRIDS {
        World::each(grid, |world| {
            let on = world.runtime;
            for &((row, col), wrong) in &cases {
                let (mut a, _) = definite::<f64>(2, n).unwrap();
                a.set(row, col, wrong.into());
                let entries = |i: usize, j: usize| a.entry::<f64>(i, j);
                let tiles = world.spread(Layout::lower(n, NB).unwrap(), &entries);
                expect_named(tiles.scan(on), (row, col));
                let inverse = Inverse::new(&tiles, Backend::Auto).unwrap();
                let run = inverse.run(on);
                // It reaches the pivot of its row, as in LAPACK; an infinite pivot is positive.
                match run {
                    Err(failed) => assert_eq!(failed.name(), "not_positive_definite", "{failed}"),
                    Ok(_) => assert!(row == col && wrong.is_infinite(), "({row}, {col}) {wrong}"),
                }
            }
        });
    }
}

#[test]
fn the_rank_of_a_deficient_matrix_is_the_same_on_every_rank() {
    for grid in GRIDS {
        World::each(grid, |world| {
            for (m, n) in [(10, 7), (7, 10), (7, 7)] {
                let a = Dense::from_fn(m, n, |i, j| match i == j && i < 4 {
                    true => c64::new(1.0, 0.0),
                    false => c64::new(0.0, 0.0),
                });
                let b = Dense::from_fn(m, 2, |_, _| c64::new(1.0, 0.0));
                let (a, b) = (world.general(&a, NB), world.general(&b, NB));
                let error = solved(world, &a, &b).expect_err("no solution");
                let LinalgError::RankDeficient { rank, full, .. } = error else {
                    panic!("{error}");
                };
                assert_eq!((rank, full), (4, 7));
            }
        });
    }
}

#[test]
fn nothing_and_next_to_nothing_have_solutions_and_inverses_on_every_grid() {
    for grid in GRIDS {
        World::each(grid, |world| {
            for (m, n, n_rhs) in [
                (0, 0, 0),
                (0, 0, 2),
                (5, 0, 2),
                (0, 5, 2),
                (4, 4, 0),
                (1, 1, 1),
            ] {
                let a = world.general::<f64>(&regular::<f64>(1, m, n), NB);
                let b = Dense::from_fn(m, n_rhs, |_, _| c64::new(3.0, 0.0));
                let x = solved(world, &a, &world.general(&b, NB)).unwrap();
                let x = world.gather(&x);
                assert_eq!((x.rows, x.cols), (n, n_rhs));
                let expected = if m == 1 { 3.0 } else { 0.0 };
                assert_eq!(x.norm(), expected, "{m} x {n}");
            }
            for n in [0, 1] {
                let two = |_: usize, _: usize| 2.0;
                let a = world.spread::<f64>(Layout::lower(n, NB).unwrap(), &two);
                let inverse = Inverse::new(&a, Backend::Auto).unwrap();
                let on = world.runtime;
                inverse.run(on).unwrap();
                let inverse = world.gather(&a).norm();
                assert!((inverse - 0.5 * n as f64).abs() < 1e-15, "{inverse}");
            }
        });
    }
}
