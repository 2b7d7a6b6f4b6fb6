//! What has no answer is refused by name, on arrays and in tiles.

use crate::unit;
use dataflow::core::port::Inline;
use dataflow::linalg::LinalgError;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::scalar::c32;
use dataflow::{Dense, Runtime, Tiled};
use ndarray::{Array1, Array2, array, s};

/// It had a NaN beside an infinity, and nothing was said.
#[test]
fn a_solution_that_is_larger_than_any_number_is_an_error_and_no_nan() {
    let tiny: [Array2<f64>; 2] = [
        array![[1e-320, 0.0], [0.0, 1e-320]],
        array![[1e-320, 0.0], [0.0, -1e-320]],
    ];
    for a in tiny {
        let x = a.solve(&array![a[(0, 0)], a[(1, 1)]]).unwrap();
        assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-3), "{x}");
        let kept = a.lu_factor().unwrap();
        let b = array![[0.0, 1.0], [0.0, 1.0]];
        for refused in [a.solve(&b), kept.solve(&b), kept.solve_adjoint(&b)] {
            assert_eq!(overflown(refused), 1);
        }
        for refused in [a.inverse(), kept.inverse()] {
            assert_eq!(overflown(refused), 0);
        }
        let unknown = array![0.0, f64::NAN];
        for told in [a.solve(&unknown), kept.solve(&unknown)] {
            let told = told.unwrap_err().to_string();
            assert!(
                told.starts_with("right-hand sides are not finite: entry (1, 0)"),
                "{told}"
            );
        }
    }
    let kept = array![[1e-320]].cholesky_factor().unwrap();
    assert_eq!(overflown(kept.solve(&array![1.0])), 0);
    assert_eq!(overflown(kept.inverse()), 0);
}

/// The same in tiles, where B is in the place of X.
#[test]
fn tiles_of_a_solution_that_is_larger_than_any_number_are_an_error() {
    let runtime = Runtime::builder().threads(1).build().unwrap();
    let general = |cols| Layout::general(3, cols, 2).unwrap();
    let tiny = |i: usize, j: usize| if i == j { 1e-320 } else { 0.0 };
    let refused = |b: f64, name: &str| {
        let sides = || TiledMatrix::from_fn(general(1), |i, _| [0.0, 0.0, b][i]);
        let whole = TiledMatrix::from_fn(general(3), tiny);
        let lower = TiledMatrix::from_fn(Layout::lower(3, 2).unwrap(), tiny);
        let told = [
            whole.solve(&sides(), &runtime),
            lower.solve(&sides(), &runtime),
            whole.lu_factor(&runtime).unwrap().solve(&sides()),
            lower.cholesky_factor(&runtime).unwrap().solve_into(sides()),
        ];
        for told in told {
            assert_eq!(told.unwrap_err().name(), name);
        }
    };
    refused(1.0, "overflow");
    refused(f64::INFINITY, "not_finite");
    let lower = TiledMatrix::from_fn(Layout::lower(3, 2).unwrap(), tiny);
    assert_eq!(overflown(lower.inverse(&runtime)), 0);
    assert_eq!(
        overflown(TiledMatrix::from_fn(general(3), tiny).inverse(&runtime)),
        0
    );
}

#[test]
fn what_cannot_be_answered_is_named() {
    let square = Array2::<f64>::zeros((3, 3));
    let singular = square.solve(&Array1::zeros(3)).unwrap_err();
    assert_eq!((singular.name(), singular.index()), ("singular", Some(1)));
    assert!(matches!(
        square.inverse(),
        Err(LinalgError::Singular { .. })
    ));
    let tall = Array2::<f64>::zeros((3, 2));
    for refused in [
        tall.cholesky().unwrap_err(),
        tall.inverse().unwrap_err(),
        tall.solve(&Array1::zeros(3)).unwrap_err(),
        unit::<f64>(3).solve(&Array1::zeros(2)).unwrap_err(),
        square
            .solve(&ndarray::Array3::zeros((3, 1, 1)))
            .unwrap_err(),
        tall.dot_tiled(&tall).unwrap_err(),
        // Before there is memory for the product.
        Array2::zeros((1 << 20, 1))
            .dot_tiled(&Array2::<f64>::zeros((2, 1 << 20)))
            .unwrap_err(),
        tall.least_squares(&Array1::zeros(2)).unwrap_err(),
        tall.least_squares(&ndarray::Array3::zeros((3, 1, 1)))
            .unwrap_err(),
    ] {
        assert_eq!(refused.name(), "wrong_shape", "{refused}");
    }
    let mut spoiled = unit::<c32>(4);
    spoiled[(3, 1)] = c32::new(0.0, f32::NAN);
    for refused in [
        spoiled.cholesky().unwrap_err(),
        spoiled.inverse().unwrap_err(),
        spoiled.lu().unwrap_err(),
        spoiled.qr().unwrap_err(),
        spoiled.least_squares(&unit(4)).unwrap_err(),
        unit::<c32>(4).least_squares(&spoiled).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("(3, 1)"), "{refused}");
    }
}

/// The column that is told of a factor that is not finite.
fn overflown<T>(answer: Result<T, LinalgError>) -> u64 {
    match answer.map(drop) {
        Err(LinalgError::Overflow { col, .. }) => col,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_factor_that_overflows_is_refused_by_its_first_column() {
    let runtime = &Runtime::builder().threads(2).build().unwrap();
    for n in [3, 300] {
        // The length of its second column is no number.
        let tall = Array2::from_shape_fn((n, 2), |(i, j)| match (i, j) {
            (0, 0) => 1.0,
            (_, 0) => 0.0,
            _ => 1.5e308,
        });
        assert_eq!(overflown(tall.qr()), 1);
        let factor = tall.qr_factor().unwrap();
        assert_eq!(overflown(factor.r()), 1);
        // Its columns are made backwards: from the second all of them.
        assert_eq!(overflown(factor.q()), 0);
        let layout = Layout::general(n, 2, 2).unwrap();
        let tiles = TiledMatrix::from_ndarray(layout, tall.view()).unwrap();
        assert_eq!(overflown(tiles.qr(runtime)), 1);
        let factor = tiles.qr_factor(runtime).unwrap();
        assert_eq!(overflown(factor.r()), 1);
        // Its columns are made backwards: from the second all of them.
        assert_eq!(overflown(factor.q()), 0);

        // U has 2e308 where the last large number is.
        let mut grown = unit::<f64>(n);
        let block = array![[1e308, 1e308], [-1e308, 1e308]];
        grown.slice_mut(s![..2, ..2]).assign(&block);
        assert_eq!(overflown(grown.lu()), 1);
        let factor = grown.lu_factor().unwrap();
        assert_eq!(overflown(factor.determinant()), 1);
        assert_eq!(overflown(factor.solve(&Array1::zeros(n))), 1);
        let layout = Layout::general(n, n, 40).unwrap();
        let tiles = TiledMatrix::from_ndarray(layout, grown.view()).unwrap();
        assert_eq!(overflown(tiles.lu(runtime)), 1);
        let factor = tiles.lu_factor(runtime).unwrap();
        assert_eq!(overflown(factor.determinant()), 1);
    }
}

#[test]
fn a_condition_is_told_where_the_inverse_is_larger_than_any_number() {
    for n in [3, 300] {
        let tiny = unit::<f64>(n) * 1e-310;
        let lu = tiny.lu_factor().unwrap().condition().unwrap();
        let cholesky = tiny.cholesky_factor().unwrap().condition().unwrap();
        for found in [lu, cholesky] {
            assert!((found - 1.0).abs() < 1e-12, "{found}");
        }
    }
}

#[test]
fn right_hand_sides_of_which_a_triangle_is_stored_are_refused_by_all_least_squares() {
    let a = TiledMatrix::<f64>::from_entries(Layout::general(4, 4, 2).unwrap(), &Random::new(1));
    let b = TiledMatrix::<f64>::from_entries(Layout::lower(4, 2).unwrap(), &Random::new(2));
    let on = &dataflow::core::port::Inline;
    for refused in [
        a.solve(&b, on).err(),
        a.least_squares(&b, on).err(),
        a.least_squares_minimum_norm(&b, None, on).err(),
    ] {
        let refused = refused.unwrap();
        assert_eq!(refused.name(), "wrong_shape");
        assert!(refused.to_string().contains("Lower"), "{refused}");
    }
}

#[test]
fn calls_on_matrices_in_tiles_call_them_by_their_names() {
    let made = |name: &str, (m, n): (usize, usize), entry: f64| {
        TiledMatrix::from_fn(Layout::general(m, n, 2).unwrap(), |_, _| entry).named(name)
    };
    let square = |entry| made("K", (3, 3), entry);
    let (wide, side) = (made("K", (2, 3), 1.0), made("R", (4, 1), 1.0));
    for (refused, expected) in [
        (
            square(1.0).cholesky(&Inline),
            "matrix \"K\" is not positive definite: pivot 2",
        ),
        (square(1.0).inverse(&Inline), "matrix \"K\" is singular"),
        (
            square(f64::NAN).cholesky(&Inline),
            "matrix \"K\" is not finite",
        ),
        (
            square(1.0).least_squares(&made("R", (3, 1), 1.0), &Inline),
            "matrix \"K\" is rank deficient: its rank is about 1 of 3",
        ),
        (
            wide.least_squares(&made("R", (2, 1), 1.0), &Inline),
            "matrix \"K\" is rank deficient: its rank is about 1 of 2",
        ),
        (
            wide.inverse(&Inline),
            "matrix is 2 x 3 (must be square): A is \"K\"",
        ),
        (
            wide.solve(&side, &Inline),
            "matrix is 2 x 3 (must be square; `least_squares` takes any shape): A is \"K\"",
        ),
        (
            wide.least_squares(&side, &Inline),
            "right-hand sides of 4 x 1 for a matrix of 2 rows: A is \"K\", B is \"R\"",
        ),
        (
            wide.dot_tiled(&side, &Inline),
            "a product of 2 x 3 and 4 x 1: the left one has 3 columns and the right one 4 rows (must be as \
             many): A is \"K\", B is \"R\"",
        ),
    ] {
        let told = refused.unwrap_err().to_string();
        assert!(told.starts_with(expected), "{told}");
    }
    for a in [square(1.0), wide, made("K", (4, 3), 1.0)] {
        let side = made("R", (a.rows(), 1), 1.0);
        let kept = a.qr_factor(&Inline).unwrap();
        let told = kept.least_squares(&side).map(drop).unwrap_err().to_string();
        let expected = "matrix \"K\" is rank deficient: its rank is about 1 of";
        assert!(told.starts_with(expected), "{told}");
    }
}
