//! Matrices in tiles on one rank are answered as arrays are.

use crate::{array_of, distance, plain, spread, unit};
use dataflow::core::rank::Rank;
use dataflow::linalg::matrix::digest::digest;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use dataflow::linalg::{cholesky, kernel::Backend, lu, qr};
use dataflow::{Dense, Runtime, Tiled};
use ndarray::Array2;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

/// With the prelude `rank` asked for a cut-off and an executor.
#[test]
fn the_rank_of_a_tiled_matrix_is_where_it_lies_whatever_is_imported() {
    let a = TiledMatrix::from_fn(Layout::general(2, 2, 1).unwrap(), |_, _| 1.0);
    assert_eq!(a.rank(), Rank(0));
    let runtime = Runtime::builder().threads(1).build().unwrap();
    assert_eq!(a.numerical_rank(None, &runtime).unwrap(), 1);
}

#[test]
fn an_answer_has_the_bits_of_the_graph() {
    let n = 300;
    let a = array_of::<f64>((n, n), &PositiveDefinite::new(n, 4), false);
    let layout = cholesky::default_layout::<f64>(n, 2).unwrap();
    let l = TiledMatrix::from_entries(layout, &PositiveDefinite::new(n, 4));
    cholesky::factor(&l, Backend::Auto, Runtime::shared().unwrap()).unwrap();
    assert_eq!(a.cholesky().unwrap(), l.to_ndarray().unwrap());

    let runtime = Runtime::shared().unwrap();
    let a = array_of::<f64>((n, n), &Random::new(4), false);
    let layout = Layout::general(n, n, lu::default_tile_order::<f64>(n, n)).unwrap();
    let both = TiledMatrix::from_entries(layout, &Random::new(4));
    let pivots = lu::Pivots::new(&both);
    lu::factor(&both, &pivots, Backend::Auto, runtime).unwrap();
    let (_, l, u) = a.lu().unwrap();
    // The ones of L are not stored.
    let stored = (l - unit::<f64>(n)) + u;
    assert_eq!(stored, both.to_ndarray().unwrap());

    let nb = qr::default_tile_order::<f64>(n, n);
    let r = TiledMatrix::from_entries(Layout::general(n, n, nb).unwrap(), &Random::new(4));
    qr::factor(&r, qr::Options::of_order(nb), Backend::Auto, runtime).unwrap();
    let r = qr::triangle(&r, runtime).unwrap();
    assert_eq!(a.qr().unwrap().1, r.to_ndarray().unwrap());
}

#[test]
fn tiled_matrices_are_answered_as_arrays_are() {
    fn check<T: Scalar>(runtime: &Runtime) {
        let (n, nb) = (37, 8);
        let near = |of: &TiledMatrix<T>, array: &Array2<T>| {
            let error = distance(of.to_ndarray().unwrap().view(), array.view());
            assert!(error < 1e4, "{}: {error:.1}", T::PRECISION);
        };
        let general = |m, n| Layout::general(m, n, nb).unwrap();
        let sides = spread(general(n, 5), &Random::new(3), runtime);
        let of_sides = array_of::<T>((n, 5), &Random::new(3), true);
        let of_definite = array_of::<T>((n, n), &PositiveDefinite::new(n, 1), true);
        let definite = spread(
            Layout::lower(n, nb).unwrap(),
            &PositiveDefinite::new(n, 1),
            runtime,
        );
        let before = digest(&definite).unwrap();
        near(
            &definite.cholesky(runtime).unwrap(),
            &of_definite.cholesky().unwrap(),
        );
        near(
            &definite.solve(&sides, runtime).unwrap(),
            &of_definite.solve(&of_sides).unwrap(),
        );
        let inverse = definite.inverse(runtime).unwrap();
        let lower = |a: Array2<T>| {
            Array2::from_shape_fn((n, n), |(i, j)| if i < j { T::zero() } else { a[(i, j)] })
        };
        near(&inverse, &lower(of_definite.inverse().unwrap()));
        near(
            &definite.dot_tiled(&sides, runtime).unwrap(),
            &plain(of_definite.view(), of_sides.view()),
        );
        assert_eq!(
            digest(&definite).unwrap(),
            before,
            "nothing is changed in place"
        );

        let random = Random::new(2);
        let (a, of_a) = (
            spread(general(n, n), &random, runtime),
            array_of((n, n), &random, true),
        );
        let before = digest(&a).unwrap();
        near(
            &a.solve(&sides, runtime).unwrap(),
            &of_a.solve(&of_sides).unwrap(),
        );
        near(&a.inverse(runtime).unwrap(), &of_a.inverse().unwrap());
        let (pivots, both) = a.lu(runtime).unwrap();
        let (p, l, u) = of_a.lu().unwrap();
        near(
            &both,
            &Array2::from_shape_fn((n, n), |at| l[at] + u[at] - unit::<T>(n)[at]),
        );
        let mut rows: Vec<usize> = (0..n).collect();
        pivots.rows().for_each(|(row, pivot)| rows.swap(row, pivot));
        assert_eq!(rows, p);
        assert_eq!(digest(&a).unwrap(), before, "nothing is changed in place");

        for (m, n) in [(n, 12), (12, n)] {
            let (a, of_a) = (
                spread(general(m, n), &random, runtime),
                array_of((m, n), &random, true),
            );
            let (q, r) = a.qr(runtime).unwrap();
            let product = plain(
                q.to_ndarray().unwrap().view(),
                r.to_ndarray().unwrap().view(),
            );
            near(&a, &product);
            let (b, of_b) = (
                spread(general(m, 2), &random, runtime),
                array_of((m, 2), &random, true),
            );
            near(
                &a.least_squares(&b, runtime).unwrap(),
                &of_a.least_squares(&of_b).unwrap(),
            );
            let (shortest, rank) = a.least_squares_minimum_norm(&b, None, runtime).unwrap();
            near(&shortest, &of_a.least_squares(&of_b).unwrap());
            assert_eq!(
                (rank, a.numerical_rank(None, runtime).unwrap()),
                (m.min(n), m.min(n))
            );
            let inverse = a.pseudo_inverse(None, runtime).unwrap();
            near(&inverse, &of_a.pseudo_inverse(None).unwrap());
        }
    }
    let runtime = Runtime::builder().threads(2).build().unwrap();
    check::<f32>(&runtime);
    check::<f64>(&runtime);
    check::<c32>(&runtime);
    check::<c64>(&runtime);
}

/// Where Cholesky fails LU takes both triangles, and both must mean the same matrix.
#[test]
fn imaginary_parts_on_the_diagonal_of_a_triangle_are_never_read() {
    let runtime = Runtime::builder().threads(1).build().unwrap();
    let layout = Layout::lower(2, 1).unwrap();
    for im in [5.0, f64::NAN] {
        let entry = |i: usize, j: usize| {
            c64::new(
                [[1.0, 0.0], [2.0, 1.0]][i][j],
                if i == j { im } else { 0.0 },
            )
        };
        let a = TiledMatrix::from_fn(layout, entry);
        let side = |i: usize, _: usize| c64::new([5.0, 4.0][i], 0.0);
        let b = TiledMatrix::from_fn(Layout::general(2, 1, 1).unwrap(), side);
        let x = a.solve(&b, &runtime).unwrap().to_column_major().unwrap();
        assert!((x[0] - 1.0).norm() + (x[1] - 2.0).norm() < 1e-14, "{x:?}");
        let inverse = a.inverse(&runtime).unwrap();
        assert!((inverse.get(0, 0).unwrap() + 1.0 / 3.0).norm() < 1e-14);
    }
}

#[test]
fn a_hermitian_matrix_in_tiles_that_is_not_definite_is_solved_and_inverted_by_lu() {
    let runtime = Runtime::builder().threads(1).build().unwrap();
    let a = TiledMatrix::from_fn(Layout::lower(2, 1).unwrap(), |i, j| {
        [[1.0, 0.0], [2.0, 1.0]][i][j]
    });
    let b = TiledMatrix::from_fn(Layout::general(2, 1, 1).unwrap(), |i, _| [5.0_f64, 4.0][i]);
    let x: Vec<f64> = a.solve(&b, &runtime).unwrap().to_column_major().unwrap();
    assert!((x[0] - 1.0).abs() + (x[1] - 2.0).abs() < 1e-14, "{x:?}");
    let inverse = a.inverse(&runtime).unwrap();
    assert!((inverse.get(1, 0).unwrap() - 2.0 / 3.0).abs() < 1e-14);
    let wide = TiledMatrix::<f64>::zeros(Layout::general(2, 3, 1).unwrap());
    for refused in [
        wide.cholesky(&runtime).err(),
        wide.inverse(&runtime).err(),
        wide.solve(&b, &runtime).err(),
        a.solve(
            &TiledMatrix::zeros(Layout::general(3, 1, 1).unwrap()),
            &runtime,
        )
        .err(),
        a.qr(&runtime).err(),
        a.dot_tiled(
            &TiledMatrix::zeros(Layout::general(3, 1, 1).unwrap()),
            &runtime,
        )
        .err(),
    ] {
        assert_eq!(refused.unwrap().name(), "wrong_shape");
    }
}

/// With twenty workers L is computed in tiles that are half as large.
#[test]
fn what_comes_of_cholesky_has_the_same_bits_on_few_and_many_workers() {
    few_and_many_tell_the_same("tiles::a_program_that_tells_bits_of_cholesky");
}

/// So are L and U of more than 2500 rows.
#[test]
fn what_comes_of_lu_has_the_same_bits_on_few_and_many_workers() {
    few_and_many_tell_the_same("tiles::a_program_that_tells_bits_of_lu");
}

/// Runs a test of this program that tells bits of seven things, with two workers and with twenty.
fn few_and_many_tell_the_same(name: &str) {
    let told = |threads: &str| {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", name, "--ignored", "--nocapture"]);
        let output = program.env("DATAFLOW_THREADS", threads).output().unwrap();
        assert!(output.status.success(), "{threads} workers: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("bits of"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (few, many) = (told("2"), told("20"));
    assert_eq!(few.len(), 7, "{few:?}");
    assert_eq!(few, many);
}

/// One number of a few, all over an array: what is computed otherwise differs nearly everywhere.
fn tell<T: Scalar>(what: &str, numbers: &Array2<T>) {
    const OF: usize = 13;
    let mut hasher = DefaultHasher::new();
    let some = numbers.iter().step_by(OF);
    some.for_each(|x| x.bits().hash(&mut hasher));
    println!("bits of {what}: {:016x}", hasher.finish());
}

fn one(x: f64) -> Array2<f64> {
    Array2::from_elem((1, 1), x)
}

#[test]
#[ignore = "another test runs it, in a process with an environment of its own"]
fn a_program_that_tells_bits_of_cholesky() {
    let n = 1000;
    let a = array_of::<f64>((n, n), &PositiveDefinite::new(n, 4), true);
    let b = array_of::<f64>((n, 3), &Random::new(5), false);
    let factor = a.cholesky_factor().unwrap();
    tell("L", &a.cholesky().unwrap());
    tell("the solution", &a.solve(&b).unwrap());
    tell("the kept factor's solution", &factor.solve(&b).unwrap());
    tell("the inverse", &a.inverse().unwrap());
    tell("the kept factor's inverse", &factor.inverse().unwrap());
    tell("the condition", &one(factor.condition().unwrap()));
    tell(
        "the determinant",
        &one(factor.determinant().unwrap().log_abs),
    );
}

#[test]
#[ignore = "another test runs it, in a process with an environment of its own"]
fn a_program_that_tells_bits_of_lu() {
    let n = 2501;
    let entry = |(i, j)| ((i * 7919 + j * 104_729 + i * j * j) % 10_007) as f32 - 5003.0;
    let a = Array2::from_shape_fn((n, n), entry);
    let b = array_of::<f32>((n, 3), &Random::new(5), false);
    let factor = a.lu_factor().unwrap();
    let (rows, l, u) = a.lu().unwrap();
    tell("L and U", &(l + u));
    tell(
        "P",
        &one(rows.iter().fold(0.0, |sum, &row| sum * 0.5 + row as f64)),
    );
    tell("the solution", &a.solve(&b).unwrap());
    tell("the kept factor's solution", &factor.solve(&b).unwrap());
    tell("the inverse", &a.inverse().unwrap());
    tell("the condition", &one(factor.condition().unwrap()));
    tell(
        "the determinant",
        &one(factor.determinant().unwrap().log_abs),
    );
}
