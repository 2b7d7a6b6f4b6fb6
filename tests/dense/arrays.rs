//! Arrays of ndarray: right answers for every shape and memory order.

use crate::{adjoint, array_of, distance, plain, unit};
use dataflow::core::port::{Arrival, Context, Parcel};
use dataflow::core::space::{Erased, Flows, Slot};
use dataflow::linalg::matrix::Entries;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use dataflow::linalg::{kernel::Backend, lu, qr, refine, whole};
use dataflow::{Dense, Runtime};
use ndarray::{Array1, Array2, Axis, array, s};

/// So that `unwrap_err`, `expect_err` and `dbg!` compile.
#[test]
fn answers_and_what_bodies_get_can_be_shown() {
    fn show<T: std::fmt::Debug>() {}
    show::<lu::Pivots<f64>>();
    show::<(refine::Mixed<f64>, refine::Factors<c64>)>();
    show::<(whole::Lu<f32>, whole::Qr<c32>)>();
    show::<(Context<'_>, Parcel, Arrival)>();
    show::<(Flows<'_, u64>, Slot<'_, u64>, Erased<'_, u64>)>();
}

#[test]
fn definite_and_general_matrices_of_every_memory_order_are_solved_and_inverted() {
    fn check<T: Scalar>(n: usize) {
        let definite = PositiveDefinite::new(n, 1);
        for columns in [false, true] {
            for definite in [true, false] {
                let a = match definite {
                    true => array_of::<T>((n, n), &PositiveDefinite::new(n, 1), columns),
                    false => array_of((n, n), &Random::new(2), columns),
                };
                // A random matrix may be conditioned like n².
                let bound = if definite { 30.0 } else { 1e5 };
                let exact = array_of::<T>((n, 3), &Random::new(3), !columns);
                let x = a.solve(&plain(a.view(), exact.view())).unwrap();
                let error = distance(x.view(), exact.view());
                assert!(error < bound, "{} n = {n}: {error:.1}", T::PRECISION);
                let inverse = a.inverse().unwrap();
                let error = distance(plain(a.view(), inverse.view()).view(), unit(n).view());
                assert!(error < bound, "{} n = {n}: {error:.1}", T::PRECISION);
                // A view against the grain, every second row and column of a larger array.
                let wide = Array2::from_shape_fn((2 * n, 2 * n), |(i, j)| a[(i / 2, j / 2)]);
                let view = wide.slice(s![..;2, ..;2]);
                assert_eq!(view.solve(&exact).unwrap(), a.solve(&exact).unwrap());
            }
        }
        let a = array_of::<T>((n, n), &definite, false);
        let l = a.cholesky().unwrap();
        let adjoint = l.t().mapv(Scalar::conj);
        let error = distance(plain(l.view(), adjoint.view()).view(), a.view());
        assert!(error < 30.0, "{} n = {n}: {error:.1}", T::PRECISION);
        assert!(
            l.indexed_iter()
                .all(|((i, j), x)| i >= j || *x == T::zero())
        );
    }
    for n in [0, 1, 2, 7, 60] {
        check::<f32>(n);
        check::<f64>(n);
        check::<c32>(n);
        check::<c64>(n);
    }
    // On the runtime.
    check::<f64>(290);
}

/// L·U is A with its rows in the order P, with factors of the right form.
fn check_lu<T: Scalar>(a: &Array2<T>, case: &str) {
    let (m, n) = a.dim();
    let (p, l, u) = a.lu().unwrap();
    assert_eq!((l.dim(), u.dim()), ((m, m.min(n)), (m.min(n), n)), "{case}");
    let mut rows = p.clone();
    rows.sort_unstable();
    assert!(rows.into_iter().eq(0..m), "{case}: {p:?}");
    for ((i, j), x) in l.indexed_iter() {
        let fits = match i.cmp(&j) {
            std::cmp::Ordering::Less => *x == T::zero(),
            std::cmp::Ordering::Equal => *x == T::one(),
            // The largest pivot by the sum of its parts.
            std::cmp::Ordering::Greater => x.modulus() < 1.5,
        };
        assert!(fits, "{case}: L({i}, {j}) = {x:?}");
    }
    assert!(
        u.indexed_iter()
            .all(|((i, j), x)| i <= j || *x == T::zero())
    );
    let error = distance(
        plain(l.view(), u.view()).view(),
        a.select(Axis(0), &p).view(),
    );
    assert!(error < 30.0, "{case}: {error:.1}");
}

/// Q·R is A, Q has orthonormal columns and R is a triangle; Q for what follows.
fn check_qr<T: Scalar>(a: &Array2<T>, case: &str) -> Array2<T> {
    let (m, n) = a.dim();
    let (q, r) = a.qr().unwrap();
    assert_eq!((q.dim(), r.dim()), ((m, m.min(n)), (m.min(n), n)), "{case}");
    assert!(
        r.indexed_iter()
            .all(|((i, j), x)| i <= j || *x == T::zero())
    );
    let gram = plain(adjoint(q.view()).view(), q.view());
    let error = distance(gram.view(), unit(m.min(n)).view());
    assert!(error < 30.0, "{case}: {error:.1}");
    let error = distance(plain(q.view(), r.view()).view(), a.view());
    assert!(error < 30.0, "{case}: {error:.1}");
    q
}

/// Sides of which the nearest, or shortest, solution is known.
fn check_least_squares<T: Scalar>(a: &Array2<T>, q: &Array2<T>, case: &str) {
    let (m, n) = a.dim();
    let random = |rows, seed| array_of::<T>((rows, 3), &Random::new(seed), true);
    let (exact, beside) = match m >= n {
        // What is orthogonal to all columns of A changes nothing.
        true => {
            let of_q = plain(adjoint(q.view()).view(), random(m, 4).view());
            let inside = plain(q.view(), of_q.view());
            let beside = Array2::from_shape_fn((m, 3), |at| random(m, 4)[at] - inside[at]);
            (random(n, 3), beside)
        }
        // The shortest solution is a combination of the rows of A.
        false => {
            let of_rows = plain(adjoint(a.view()).view(), random(m, 3).view());
            (of_rows, Array2::from_elem((m, 3), T::zero()))
        }
    };
    let sides = plain(a.view(), exact.view());
    let sides = Array2::from_shape_fn((m, 3), |at| sides[at] + beside[at]);
    let x = a.least_squares(&sides).unwrap();
    let error = distance(x.view(), exact.view());
    // A random matrix may be conditioned like n².
    assert!(error < 1e5, "{case}: {error:.1}");
    let column = a.least_squares(&sides.column(1)).unwrap();
    assert!(distance(column.insert_axis(Axis(1)).view(), x.slice(s![.., 1..2])) < 1e5);
}

#[test]
fn every_shape_is_factored_by_lu_and_qr_and_solved_by_least_squares() {
    fn check<T: Scalar>(m: usize, n: usize) {
        for columns in [false, true] {
            let case = format!("{m} x {n} {}", T::PRECISION);
            let a = array_of::<T>((m, n), &Random::new(2), columns);
            check_lu(&a, &case);
            let q = check_qr(&a, &case);
            check_least_squares(&a, &q, &case);
            // Views: every second row and column of a larger array, and against the grain.
            let larger = Array2::from_shape_fn((2 * m, 2 * n), |(i, j)| a[(i / 2, j / 2)]);
            let turned = a.slice(s![..;-1, ..;-1]).to_owned();
            let sides = array_of::<T>((m, 2), &Random::new(5), !columns);
            for view in [larger.slice(s![..;2, ..;2]), turned.slice(s![..;-1, ..;-1])] {
                assert_eq!(view.lu().unwrap(), a.lu().unwrap(), "{case}");
                assert_eq!(view.qr().unwrap(), a.qr().unwrap(), "{case}");
                assert_eq!(
                    view.least_squares(&sides).unwrap(),
                    a.least_squares(&sides).unwrap(),
                    "{case}"
                );
            }
        }
    }
    for (m, n) in [
        (0, 0),
        (0, 3),
        (3, 0),
        (1, 1),
        (1, 5),
        (6, 6),
        (31, 7),
        (7, 31),
    ] {
        check::<f32>(m, n);
        check::<f64>(m, n);
        check::<c32>(m, n);
        check::<c64>(m, n);
    }
    // On the runtime.
    for (m, n) in [(290, 40), (40, 290), (270, 270)] {
        check::<f64>(m, n);
    }
}

#[test]
fn a_tall_array_has_the_same_solution_to_the_bit_on_any_number_of_workers() {
    fn check<T: Scalar>(powers: bool) {
        let (m, n) = (30_001, 8);
        let random = Random::new(3);
        // Powers are ill conditioned: their rows are divided by a first factor.
        let entry = |i: usize, j: usize| match powers {
            true => T::from_real((i as f64 / m as f64).powi(j as i32)),
            false => random.entry(i, j),
        };
        let a = array_of((m, n), &entry, false);
        let b = array_of((m, 2), &Random::new(1), true);
        let x = a.least_squares(&b).unwrap();
        // Kept factors come by tiles.
        let by_tiles = a.qr_factor().unwrap().least_squares(&b).unwrap();
        let off = distance(x.view(), by_tiles.view());
        assert!(off < 1e7, "{}: {off:e}", T::PRECISION);
        for (threads, columns) in [(1, false), (2, true), (3, false)] {
            let runtime = Runtime::builder().threads(threads).build().unwrap();
            let a = array_of((m, n), &entry, columns);
            let solved = qr::tall_least_squares(a.view(), b.view(), Backend::Auto, &runtime);
            assert_eq!(solved.unwrap().0, x, "{threads} workers");
        }
    }
    check::<f64>(false);
    check::<f64>(true);
    check::<c64>(true);
    check::<f32>(false);
    check::<c32>(false);
    let mut a = array_of::<f64>((5000, 3), &Random::new(1), true);
    a[(4321, 1)] = f64::NAN;
    let refused = a.least_squares(&Array1::zeros(5000)).unwrap_err();
    assert!(refused.to_string().contains("(4321, 1)"), "{refused}");
}

#[test]
fn a_singular_matrix_has_factors_and_no_least_squares_solution() {
    let singular = array![[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]];
    let (p, l, u) = singular.lu().unwrap();
    assert_eq!(singular.select(Axis(0), &p), l.dot(&u));
    assert_eq!(u[(1, 1)], 0.0);
    let zeros = Array2::<c64>::zeros((3, 2));
    let (q, r) = zeros.qr().unwrap();
    assert!(
        distance(
            plain(adjoint(q.view()).view(), q.view()).view(),
            unit(2).view()
        ) < 10.0
    );
    assert_eq!(r, Array2::zeros((2, 2)));
    for (rows, cols) in [(3, 2), (2, 3), (3, 3)] {
        let zeros = Array2::<f64>::zeros((rows, cols));
        let refused = zeros.least_squares(&Array1::zeros(rows)).unwrap_err();
        assert_eq!((refused.name(), refused.index()), ("rank_deficient", None));
        let found = zeros.least_squares_minimum_norm(&Array1::ones(rows), None);
        assert_eq!(found.unwrap(), (Array1::zeros(cols), 0));
    }
}

#[test]
fn rank_and_pseudo_inverse_are_those_of_small_and_large_matrices_of_every_memory_order() {
    fn check<T: Scalar>((m, n): (usize, usize), rank: usize) {
        let (left, right) = (Random::new(1), Random::new(2));
        let [left, right] = [
            array_of::<T>((m, rank), &left, true),
            array_of::<T>((rank, n), &right, false),
        ];
        let a = plain(left.view(), right.view());
        let rcond = Some(T::EPSILON.sqrt());
        assert_eq!(a.numerical_rank(rcond).unwrap(), rank);
        let inverse = a.pseudo_inverse(rcond).unwrap();
        let again = plain(plain(a.view(), inverse.view()).view(), a.view());
        assert!(distance(again.view(), a.view()) < 1e4);
        let b = array_of::<T>((m, 2), &Random::new(3), true);
        let (x, found) = a.t().t().least_squares_minimum_norm(&b, rcond).unwrap();
        assert_eq!(found, rank);
        assert!(distance(x.view(), plain(inverse.view(), b.view()).view()) < 1e4);
        let (column, _) = a.least_squares_minimum_norm(&b.column(1), rcond).unwrap();
        assert!(distance(column.insert_axis(Axis(1)).view(), x.slice(s![.., 1..])) < 1e4);
    }
    check::<f64>((30, 17), 5);
    check::<c32>((17, 30), 5);
    check::<f64>((270, 40), 23);
    check::<f64>((40, 270), 23);
}

#[test]
fn an_inverse_and_a_determinant_by_qr_are_those_by_lu_of_small_and_large_arrays() {
    fn check<T: Scalar>(n: usize) {
        let a = array_of::<T>((n, n), &Random::new(7), n.is_multiple_of(2));
        let (qr, lu) = (a.qr_factor().unwrap(), a.lu_factor().unwrap());
        let product = plain(a.view(), qr.inverse().unwrap().view());
        assert!(distance(product.view(), unit(n).view()) < 1e6, "{n}");
        let (found, expected) = (qr.determinant().unwrap(), lu.determinant().unwrap());
        let off = (found.log_abs - expected.log_abs).abs() + (found.phase - expected.phase).norm();
        assert!(off < 1e6 * T::EPSILON, "{n}: {found:?}, {expected:?}");
    }
    for n in [0, 1, 2, 9, 120, 300] {
        check::<f64>(n);
        check::<c64>(n);
    }
    let wide = array![[1.0, 2.0]].qr_factor().unwrap();
    for refused in [wide.inverse().err(), wide.determinant().err()] {
        assert_eq!(refused.unwrap().name(), "wrong_shape");
    }
    let singular = array![[1.0, 2.0], [2.0, 4.0]].qr_factor().unwrap();
    assert_eq!(singular.inverse().unwrap_err().name(), "rank_deficient");
    let zeros = Array2::<f64>::zeros((2, 2)).qr_factor().unwrap();
    assert_eq!(zeros.determinant().unwrap().log_abs, f64::NEG_INFINITY);
}

#[test]
fn products_of_every_shape_and_memory_order_are_those_of_three_loops() {
    for (m, n, k) in [(0, 3, 2), (3, 0, 2), (3, 2, 0), (5, 7, 3), (40, 30, 250)] {
        for columns in [false, true] {
            let a = array_of::<c64>((m, k), &Random::new(1), columns);
            let b = array_of::<c64>((k, n), &Random::new(2), !columns);
            let c = a.dot_tiled(&b).unwrap();
            let error = distance(c.view(), plain(a.view(), b.view()).view());
            assert!(error < 30.0 * (k + 1) as f64, "{m} x {n} x {k}: {error:.1}");
            let swapped = b.t().dot_tiled(&a.t()).unwrap();
            assert_eq!(swapped.dim(), (n, m));
        }
    }
}

#[test]
fn a_vector_is_solved_for_as_a_column() {
    let a = array_of::<f64>((9, 9), &Random::new(5), false);
    let b = Array1::from_iter((0..9).map(f64::from));
    let x = a.solve(&b).unwrap();
    let column = a.solve(&b.clone().insert_axis(Axis(1))).unwrap();
    assert_eq!(x, column.column(0));
    assert_eq!(a.solve(&b.slice(s![..;-1])).unwrap().len(), 9);
}

#[test]
fn what_looks_definite_and_is_not_is_solved_by_lu() {
    let a = array![[1.0, 2.0], [2.0, 1.0]];
    assert_eq!(a.solve(&array![5.0, 4.0]).unwrap(), array![1.0, 2.0]);
    let inverse = a.inverse().unwrap();
    assert!(distance(a.dot(&inverse).view(), unit(2).view()) < 10.0);
    let refused = a.cholesky().unwrap_err();
    assert_eq!(
        (refused.name(), refused.index()),
        ("not_positive_definite", Some(2))
    );
}

#[test]
fn the_diagonal_of_a_cholesky_factor_is_real() {
    for n in [2, 7, 50, 256, 300] {
        let definite = PositiveDefinite::new(n, 3);
        let a = Array2::<c64>::from_shape_fn((n, n), |(i, j)| definite.entry(i, j));
        let l = a.cholesky().unwrap();
        assert!((0..n).all(|j| l[(j, j)].im == 0.0), "order {n}");
    }
}

#[test]
fn a_system_is_solved_whose_rows_differ_by_more_than_a_quotient_can_say() {
    let a = array![[2e170_f64, 1e-170], [1e170, 1e-170]];
    let x = a.solve(&array![3.0, 2.0]).unwrap();
    assert!(
        (x[0] / 1e-170 - 1.0).abs() + (x[1] / 1e170 - 1.0).abs() < 1e-14,
        "{x}"
    );
    let a = array![[2e-170_f64, 1e170], [1e-170, 1e170]];
    let x = a.solve(&array![3.0, 2.0]).unwrap();
    assert!(
        (x[0] / 1e170 - 1.0).abs() + (x[1] / 1e-170 - 1.0).abs() < 1e-14,
        "{x}"
    );
}
