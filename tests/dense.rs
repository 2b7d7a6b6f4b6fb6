//! The calls on ndarray's arrays: right answers for every shape and memory order, and the named
//! errors; small problems wake no thread.

use dataflow::core::port::{Alone, Arrival, Context, Inline, Parcel, Shuffled};
use dataflow::core::rank::Rank;
use dataflow::core::space::{Erased, Flows, Independent, Slot};
use dataflow::linalg::matrix::digest::digest;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::matrix::norm::{Norm, norm};
use dataflow::linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use dataflow::linalg::{LinalgError, cholesky, kernel::Backend, lu, qr, refine, whole};
use dataflow::{Dense, Monitor, Runtime, Tiled, launch};
use ndarray::{Array1, Array2, ArrayView2, Axis, ShapeBuilder, array, s};
use std::sync::Mutex;

/// The entries of a source in an array of either memory order.
fn array_of<T: Scalar>(
    (m, n): (usize, usize),
    entries: &impl Entries<T>,
    columns: bool,
) -> Array2<T> {
    let entry = |(i, j)| entries.entry(i, j);
    match columns {
        true => Array2::from_shape_fn((m, n).f(), entry),
        false => Array2::from_shape_fn((m, n), entry),
    }
}

/// With the prelude `rank` asked for a cut-off and an executor.
#[test]
fn the_rank_of_a_tiled_matrix_is_where_it_lies_whatever_is_imported() {
    let a = TiledMatrix::from_fn(Layout::general(2, 2, 1).unwrap(), |_, _| 1.0);
    assert_eq!(a.rank(), Rank(0));
    let runtime = Runtime::builder().threads(1).build().unwrap();
    assert_eq!(a.numerical_rank(None, &runtime).unwrap(), 1);
}

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

/// The 1-norm of the difference over that of the second, in units of ε·n.
fn distance<T: Scalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> f64 {
    assert_eq!(a.dim(), b.dim());
    let column = |x: ArrayView2<'_, T>, j| x.column(j).iter().map(|x| x.modulus()).sum::<f64>();
    let rest = Array2::from_shape_fn(a.dim(), |at| a[at] - b[at]);
    let norm = |x: ArrayView2<'_, T>| (0..x.ncols()).map(|j| column(x, j)).fold(0.0, f64::max);
    let scale = norm(b) * T::EPSILON * a.nrows() as f64;
    match norm(rest.view()) {
        // Where nothing differs the scale may be zero.
        0.0 => 0.0,
        difference => difference / scale,
    }
}

/// A·B by three loops.
fn plain<T: Scalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        (0..a.ncols()).fold(T::zero(), |sum, k| sum + a[(i, k)] * b[(k, j)])
    })
}

fn unit<T: Scalar>(n: usize) -> Array2<T> {
    Array2::from_shape_fn((n, n), |(i, j)| if i == j { T::one() } else { T::zero() })
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

fn adjoint<T: Scalar>(a: ArrayView2<'_, T>) -> Array2<T> {
    a.t().mapv(Scalar::conj)
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

/// The graph that was to say why is no run that a body may begin.
#[test]
fn small_problems_have_the_same_answers_and_errors_in_the_body_of_a_task() {
    fn answers() -> [Result<Vec<f64>, String>; 12] {
        let regular = array![[4.0, 2.0], [2.0, 10.0]];
        let indefinite = array![[1.0, 2.0], [2.0, 1.0]];
        let singular = array![[1.0, 2.0], [2.0, 4.0]];
        let infinite = array![[1.0, f64::INFINITY], [f64::INFINITY, 1.0]];
        let b = array![1.0, 2.0];
        let all = |x: Array2<f64>| x.into_iter().collect();
        let told = |error: LinalgError| error.to_string();
        let solved = |a: &Array2<f64>| a.solve(&b).map(|x| x.to_vec()).map_err(told);
        let inverted = |a: &Array2<f64>| a.inverse().map(all).map_err(told);
        let factored = |a: &Array2<f64>| a.cholesky().map(all).map_err(told);
        let kept = |a: &Array2<f64>| {
            let factor = a.cholesky_factor().map_err(told)?;
            Ok(factor.solve(&b).map_err(told)?.to_vec())
        };
        [
            solved(&regular),
            solved(&indefinite),
            solved(&singular),
            solved(&infinite),
            inverted(&indefinite),
            inverted(&singular),
            factored(&regular),
            factored(&indefinite),
            factored(&infinite),
            kept(&regular),
            kept(&indefinite),
            kept(&infinite),
        ]
    }
    let runtime = Runtime::builder().threads(1).build().unwrap();
    let inside = std::sync::Mutex::new(None);
    let ran = runtime.scope(|s| s.task((), |()| *inside.lock().unwrap() = Some(answers())));
    ran.unwrap();
    let (outside, inside) = (answers(), inside.into_inner().unwrap().unwrap());
    assert_eq!(inside, outside);
    assert_eq!(outside[1], Ok(vec![1.0, 0.0]));
    assert!(
        outside[2].as_ref().unwrap_err().contains("pivot 2"),
        "{outside:?}"
    );
    assert!(
        outside[7].as_ref().unwrap_err().contains("pivot 2 is -3e0"),
        "{outside:?}"
    );
    assert!(
        outside[8].as_ref().unwrap_err().contains("(1, 0)"),
        "{outside:?}"
    );
    assert_eq!([&outside[7], &outside[8]], [&outside[10], &outside[11]]);
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

/// Only rank 1 has not filled its tiles.
#[test]
fn a_tile_that_was_never_filled_is_told_by_every_call_on_every_rank() {
    let told = |runtime: &Runtime| {
        let memory = runtime.memory();
        let grid = Distribution::BlockCyclic(Grid::new(2, 1).unwrap());
        let half_filled = |layout: Layout| {
            let layout = layout.distributed(grid, runtime.rank()).unwrap();
            let a = TiledMatrix::<f64>::vacant(layout, memory.clone());
            if runtime.rank() == Rank(0) {
                a.fill(&Random::new(1), runtime).unwrap();
            }
            a
        };
        let general = || half_filled(Layout::general(4, 4, 2).unwrap());
        let sides = Layout::general(4, 1, 2).unwrap();
        let sides = sides.distributed(grid, runtime.rank()).unwrap();
        let b = TiledMatrix::from_entries(sides, &Random::new(2));
        let (a, lower) = (general(), half_filled(Layout::lower(4, 2).unwrap()));
        let refused = [
            a.solve(&b, runtime).err(),
            lower.solve(&b, runtime).err(),
            a.inverse(runtime).err(),
            lower.inverse(runtime).err(),
            a.cholesky(runtime).err(),
            lower.cholesky(runtime).err(),
            a.lu(runtime).err(),
            a.qr(runtime).err(),
            a.least_squares(&b, runtime).err(),
            a.least_squares_minimum_norm(&b, None, runtime).err(),
            a.numerical_rank(None, runtime).err(),
            a.pseudo_inverse(None, runtime).err(),
            general().lu_factor(runtime).err(),
            general().qr_factor(runtime).err(),
            general().cholesky_factor(runtime).err(),
        ];
        let lines = refused.map(|refused| format!("{}\n", refused.unwrap()));
        let all = runtime.gather(lines.concat().into_bytes())?;
        Ok::<_, dataflow::Error>(all.concat())
    };
    let settings = Runtime::builder().threads(1).ranks(2);
    let texts = String::from_utf8(launch(settings, told).unwrap()).unwrap();
    assert_eq!(texts.lines().count(), 2 * 15, "{texts}");
    for text in texts.lines() {
        assert!(text.contains("tile (1, 0) is empty"), "{text}");
    }
}

#[test]
fn an_answer_has_the_bits_of_the_graph() {
    let n = 300;
    let a = array_of::<f64>((n, n), &PositiveDefinite::new(n, 4), false);
    let nb = cholesky::default_tile_order::<f64>(n);
    let l = TiledMatrix::from_entries(Layout::lower(n, nb).unwrap(), &PositiveDefinite::new(n, 4));
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

/// A matrix of the runtime's rank, spread over a grid with all ranks in a row.
fn spread<T: Scalar>(
    layout: Layout,
    entries: &impl Entries<T>,
    runtime: &Runtime,
) -> TiledMatrix<T> {
    let grid = Distribution::BlockCyclic(Grid::new(1, runtime.n_ranks() as u32).unwrap());
    let layout = layout.distributed(grid, runtime.rank()).unwrap();
    TiledMatrix::from_entries(layout, entries)
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

#[test]
fn tiled_matrices_have_the_same_answers_over_ranks() {
    /// The sums over ranks of the digests of all answers.
    fn digests(ranks: usize) -> Vec<u64> {
        let answers = |runtime: &Runtime| {
            let (n, nb) = (30, 7);
            let general = |m, n| Layout::general(m, n, nb).unwrap();
            let definite = PositiveDefinite::new(n, 1);
            let a: TiledMatrix<f64> = spread(Layout::lower(n, nb).unwrap(), &definite, runtime);
            let b = spread(general(n, 9), &Random::new(3), runtime);
            let c = spread(general(n, n), &Random::new(2), runtime);
            let (q, r) = c.qr(runtime).unwrap();
            let answers = [
                a.cholesky(runtime).unwrap(),
                a.solve(&b, runtime).unwrap(),
                a.inverse(runtime).unwrap(),
                a.dot_tiled(&b, runtime).unwrap(),
                c.solve(&b, runtime).unwrap(),
                c.inverse(runtime).unwrap(),
                c.lu(runtime).unwrap().1,
                q,
                r,
                c.least_squares(&b, runtime).unwrap(),
            ];
            let all = answers.iter().map(|answer| {
                let own = digest(answer).unwrap();
                let all = runtime.gather(own.to_string().into_bytes()).unwrap();
                let number = |bytes: Vec<u8>| {
                    let digits = String::from_utf8(bytes).unwrap();
                    u64::from_str_radix(&digits, 16).unwrap()
                };
                all.into_iter().map(number).fold(0, u64::wrapping_add)
            });
            Ok::<_, dataflow::Error>(all.collect::<Vec<u64>>())
        };
        let settings = Runtime::builder().threads(1).ranks(ranks);
        launch(settings, answers).unwrap()
    }
    assert_eq!(digests(3), digests(1));
}

#[test]
fn a_matrix_that_nobody_distributed_is_refused_over_ranks_on_all_of_them() {
    let told = launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let (n, nb) = (6, 2);
        let definite = PositiveDefinite::new(n, 1);
        let a = TiledMatrix::<f64>::from_entries(Layout::lower(n, nb).unwrap(), &definite);
        let b = TiledMatrix::from_entries(Layout::general(n, 1, nb).unwrap(), &Random::new(3));
        let ended = [
            a.cholesky(runtime).err(),
            a.solve(&b, runtime).err(),
            norm(&a, Norm::One, runtime).err().map(LinalgError::Run),
        ];
        let told = ended.map(|error| error.unwrap().to_string());
        let all = runtime.gather(told.join("\n").into_bytes())?;
        Ok::<_, dataflow::Error>(all)
    });
    for of_rank in told.unwrap() {
        for error in String::from_utf8(of_rank).unwrap().lines() {
            let expected = "on rank 1 a matrix (6 x 6) is seen from rank 0: make its layout with";
            assert!(error.starts_with(expected), "{error}");
        }
    }
}

/// What a product makes beside such a matrix was made with tiles on rank 1, too, and refused there.
#[test]
fn a_rank_may_hold_a_mere_name_of_a_matrix_that_another_has() {
    launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let (n, nb) = (6, 2);
        let named = |entries: &dyn Entries<f64>| {
            let layout = Layout::general(n, n, nb).unwrap();
            match runtime.rank() {
                Rank(0) => TiledMatrix::from_fn(layout, |i, j| entries.entry(i, j)),
                _ => TiledMatrix::vacant(layout, runtime.memory()),
            }
        };
        let (random, definite) = (Random::new(3), PositiveDefinite::new(n, 1));
        let (a, b) = (named(&definite), named(&random));
        let c = a.dot_tiled(&b, runtime)?;
        if runtime.rank() == Rank(0) {
            let entry = |of: &dyn Entries<f64>, i, j| of.entry(i, j);
            let products = (0..n).map(|k| entry(&definite, 2, k) * entry(&random, k, 3));
            let sum: f64 = products.sum();
            assert!((c.get(2, 3).unwrap() - sum).abs() < 1e-12);
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })
    .unwrap();
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
            wide.inverse(&Inline),
            "matrix is 2 x 3 (must be square): A is \"K\"",
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
}

/// They were refused: a body began a run.
#[test]
fn calls_on_large_arrays_run_in_bodies_on_the_same_workers_or_on_the_thread_of_the_body() {
    let n = 300;
    let a = array_of((n, n), &PositiveDefinite::new(n, 1), true);
    let tall = array_of((2 * n, 3), &Random::new(5), false);
    let (b, c) = (a.column(7).to_owned(), tall.column(1).to_owned());
    let singular = Array2::<f64>::zeros((n, n));
    let answers = || {
        let x = a.solve(&b)?;
        let fit = tall.least_squares(&c)?;
        let rank = tall.numerical_rank(None)?;
        let product = a.dot_tiled(&tall.slice(s![..n, ..]).to_owned())?;
        let inverse = tall.pseudo_inverse(None)?;
        let index = singular.solve(&b).unwrap_err().index();
        Ok::<_, LinalgError>((x, fit, rank, product, inverse, index))
    };
    let expected = answers().unwrap();
    assert_eq!((expected.2, expected.5), (3, Some(1)));
    let bodies = Independent::new("bodies", 6, |_| {
        assert_eq!(answers()?, expected);
        Ok(())
    });
    let own = Runtime::builder().threads(4).build().unwrap();
    let shared = Runtime::shared().unwrap();
    for runtime in [shared, &own] {
        assert_eq!(runtime.run(&bodies).unwrap().tasks, 6);
        let asked = runtime.scope(|s| {
            s.task((), |()| assert_eq!(answers().unwrap(), expected));
            answers().unwrap()
        });
        assert_eq!(asked.unwrap().0, expected);
    }
}

#[test]
fn calls_on_tiles_run_in_bodies_of_the_same_runtime() {
    let runtime = Runtime::builder().threads(4).build().unwrap();
    let (n, nb) = (60, 8);
    let layout = |cols| Layout::general(n, cols, nb).unwrap();
    let a = TiledMatrix::<f64>::from_entries(layout(n), &Random::new(3));
    let b = TiledMatrix::from_entries(layout(2), &Random::new(4));
    let expected = a.solve(&b, &runtime).unwrap().to_ndarray().unwrap();
    let bodies = Independent::new("bodies", 40, |_| {
        assert_eq!(a.solve(&b, &runtime)?.to_ndarray()?, expected);
        Ok(())
    });
    for _ in 0..5 {
        assert_eq!(runtime.run(&bodies).unwrap().tasks, 40);
    }
}

/// What a call answers on each of two ranks, of which the second has another matrix.
fn told_on_both(call: impl Fn(&Runtime, usize) -> Result<(), LinalgError> + Sync) -> [String; 2] {
    let told = Mutex::new([const { String::new() }; 2]);
    let launched = launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let Rank(rank) = runtime.rank();
        let answer = call(runtime, rank as usize).map_err(|error| error.to_string());
        told.lock().unwrap()[rank as usize] = answer.err().unwrap_or_default();
        Ok::<_, LinalgError>(())
    });
    launched.unwrap();
    told.into_inner().unwrap()
}

#[test]
fn ranks_that_have_matrices_of_different_sizes_are_told_both_and_the_name() {
    type Call = fn(&TiledMatrix<f64>, &TiledMatrix<f64>, &Runtime) -> Result<(), LinalgError>;
    let calls: [(&str, Call); 6] = [
        ("cholesky", |a, _, on| {
            cholesky::factor(a, Backend::Auto, on).map(drop)
        }),
        ("solved", |a, b, on| a.solve(b, on).map(drop)),
        ("by L", |a, b, on| {
            cholesky::solve(a, b, Backend::Auto, on).map(drop)
        }),
        ("norm", |a, _, on| Ok(norm(a, Norm::One, on).map(drop)?)),
        ("qr", |_, b, on| b.qr(on).map(drop)),
        ("product", |_, b, on| b.dot_tiled(b, on).map(drop)),
    ];
    let sizes = [
        ([(6, 2), (7, 2)], "m is 6 on rank 0 and 7 on rank 1"),
        ([(6, 2), (6, 3)], "nb is 2 on rank 0 and 3 on rank 1"),
    ];
    for (name, call) in calls {
        for (sizes, expected) in sizes {
            let told = told_on_both(|runtime, rank| {
                let ((n, nb), grid) = (sizes[rank], Grid::new(1, 2)?);
                let spread = |layout: Layout| {
                    layout.distributed(Distribution::BlockCyclic(grid), runtime.rank())
                };
                let [a, b] = [Layout::lower(n, nb)?, Layout::general(n, n, nb)?].map(spread);
                let a = TiledMatrix::from_entries(a?, &PositiveDefinite::new(n, 1)).named("K");
                let b = TiledMatrix::from_entries(b?, &PositiveDefinite::new(n, 1)).named("K");
                call(&a, &b, runtime)
            });
            for told in told {
                let is_named = told.starts_with("ranks do not agree on") && told.contains("\"K\"");
                assert!(is_named && told.ends_with(expected), "{name}: {told}");
            }
        }
    }
}

/// A matrix that rank 0 has, and its mere name elsewhere.
fn named(shape: (usize, usize), entries: &impl Entries<f64>, on: &Runtime) -> TiledMatrix<f64> {
    let layout = Layout::general(shape.0, shape.1, 2).unwrap();
    match on.rank() {
        Rank(0) => TiledMatrix::from_entries(layout, entries),
        _ => TiledMatrix::vacant(layout, on.memory()),
    }
}

/// Whoever had but the name was not told, and the run stalled.
#[test]
fn what_is_found_of_a_matrix_that_one_rank_has_is_told_to_all() {
    fn told(ranks: usize) -> Vec<Vec<u8>> {
        let answers = |runtime: &Runtime| {
            let (definite, random) = (PositiveDefinite::new(6, 1), Random::new(3));
            let square = || named((6, 6), &definite, runtime);
            let tall = || named((7, 4), &random, runtime);
            let side = |rows| named((rows, 1), &random, runtime);
            let lu = square().lu_factor(runtime)?;
            let determinant = lu.determinant()?;
            let wide = named((4, 7), &random, runtime);
            wide.least_squares(&side(4), runtime)?;
            tall().qr(runtime)?;
            tall().pseudo_inverse(None, runtime)?;
            let x = tall().least_squares(&side(7), runtime)?;
            let mixed = refine::solve(&square(), &side(6), Backend::Auto, runtime)?;
            let numbers = [
                norm(&square(), Norm::Frobenius, runtime)?,
                determinant.log_abs,
                determinant.phase.re,
                lu.condition()?,
                tall().numerical_rank(None, runtime)? as f64,
                norm(&x, Norm::One, runtime)?,
                mixed.outcome.lapack_iter().into(),
            ];
            let bytes = numbers.map(f64::to_le_bytes).concat();
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(runtime.gather(bytes)?)
        };
        launch(Runtime::builder().threads(1).ranks(ranks), answers).unwrap()
    }
    let alone = told(1).remove(0);
    assert_eq!(told(2), [alone.clone(), alone]);
}

#[test]
fn a_check_of_factors_that_one_rank_has_is_answered_there_alone() {
    launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let definite = PositiveDefinite::new(6, 1);
        let (a, layout) = (named((6, 6), &definite, runtime), Layout::lower(6, 2)?);
        let l = match runtime.rank() {
            Rank(0) => TiledMatrix::from_entries(layout, &definite),
            _ => TiledMatrix::<f64>::vacant(layout, runtime.memory()),
        };
        let pivots = lu::Pivots::new(&a);
        lu::factor(&a, &pivots, Backend::Auto, runtime)?;
        cholesky::factor(&l, Backend::Auto, runtime)?;
        let of_lu = lu::Check::new(&definite, &a, &pivots)?;
        let of_l = cholesky::Check::new(&definite, &l)?;
        for _ in 0..2 {
            of_lu.run(runtime)?;
            of_l.run(runtime)?;
            for residual in [of_lu.residual(), of_l.residual()] {
                assert_eq!(residual.is_some(), runtime.rank() == Rank(0));
                assert!(residual.is_none_or(|residual| residual < 3.0));
            }
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })
    .unwrap();
}

/// By whole columns on the rank with few workers, by tiles on the other: they disagreed on the graph.
#[test]
fn ranks_with_different_numbers_of_workers_run_the_same_lu() {
    /// The factors, a solution and the inverse, as rank 0 has them.
    fn answers(ranks: usize) -> [Array2<f64>; 3] {
        let answers = |runtime: &Runtime| {
            let workers = Shuffled::new(1).with_threads(1 + runtime.rank().0 as usize);
            let on = &Context::new(&workers).across(runtime.courier());
            let (random, auto) = (Random::new(3), Backend::Auto);
            let square = || named((6, 6), &random, runtime);
            let (factored, b) = (square(), named((6, 1), &random, runtime));
            lu::factor(&factored, &lu::Pivots::new(&factored), auto, on)?;
            let a = square();
            lu::factor_and_solve(&a, &lu::Pivots::new(&a), &b, auto, on)?;
            let (inverse, _) = lu::inverse(square(), auto, on)?;
            let answers = [factored, b, inverse].map(|tiles| tiles.to_ndarray());
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answers)
        };
        let settings = Runtime::builder().threads(1).ranks(ranks);
        launch(settings, answers).unwrap().map(Result::unwrap)
    }
    assert_eq!(answers(2), answers(1));
}

#[test]
fn a_condition_is_the_same_over_ranks_and_a_rank_computes_alone_if_it_says_so() {
    fn conditions(ranks: usize) -> [u64; 3] {
        let answers = |runtime: &Runtime| {
            let (n, nb, auto) = (30, 7, Backend::Auto);
            let triangle = Layout::lower(n, nb).unwrap();
            let whole = Layout::general(n, n, nb).unwrap();
            let definite = PositiveDefinite::new(n, 1);
            let l: TiledMatrix<f64> = spread(triangle, &definite, runtime);
            let of_l = norm(&l, Norm::One, runtime).unwrap();
            cholesky::factor(&l, auto, runtime).unwrap();
            let of_l = cholesky::condition(&l, of_l, auto, runtime).unwrap();
            let lu: TiledMatrix<f64> = spread(whole, &Random::new(2), runtime);
            let (of_lu, pivots) = (norm(&lu, Norm::One, runtime).unwrap(), lu::Pivots::new(&lu));
            lu::factor(&lu, &pivots, auto, runtime).unwrap();
            let of_lu = lu::condition(&lu, &pivots, of_lu, auto, runtime).unwrap();
            let mut own = 0.0;
            if runtime.rank() == Rank(0) {
                // The others know nothing of it.
                let on = Context::new(runtime).across(&Alone);
                let l = TiledMatrix::<f64>::from_entries(triangle, &definite);
                own = norm(&l, Norm::One, &on).unwrap();
                cholesky::factor(&l, auto, &on).unwrap();
                own = cholesky::condition(&l, own, auto, &on).unwrap();
            }
            let same = runtime.all_reduce([of_l, of_lu], |a, b| {
                assert_eq!(a, b);
                a
            })?;
            Ok::<_, dataflow::Error>([same[0], same[1], own].map(f64::to_bits))
        };
        let settings = Runtime::builder().threads(1).ranks(ranks);
        launch(settings, answers).unwrap()
    }
    let [of_l, of_lu, own] = conditions(1);
    assert_eq!(conditions(3), [of_l, of_lu, own]);
    assert_eq!(of_l, own);
}

#[test]
fn a_call_that_one_rank_alone_cancels_ends_as_cancelled_on_every_rank() {
    launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let (n, nb) = (6, 2);
        let made = || -> Result<TiledMatrix<f64>, LinalgError> {
            Ok(spread(Layout::general(n, n, nb)?, &Random::new(2), runtime))
        };
        let definite = PositiveDefinite::new(n, 1);
        let triangle: TiledMatrix<f64> = spread(Layout::lower(n, nb)?, &definite, runtime);
        let (square, b) = (made()?, made()?);
        let monitor = Monitor::new();
        let on = runtime.watched_by(&monitor);
        let factor = made()?.lu_factor(&on)?;
        if runtime.rank() == Rank(1) {
            monitor.cancel();
        }
        let ended = [
            triangle.solve(&b, &on).map(drop),
            triangle.inverse(&on).map(drop),
            square.solve(&b, &on).map(drop),
            square.qr(&on).map(drop),
            square.dot_tiled(&b, &on).map(drop),
            square.least_squares_minimum_norm(&b, None, &on).map(drop),
            factor.condition().map(drop),
        ];
        for (call, ended) in ended.into_iter().enumerate() {
            let refused = ended.expect_err("it is cancelled");
            assert_eq!(refused.name(), "cancelled", "call {call}: {refused}");
        }
        // The ranks are still in step.
        runtime.gather(Vec::new())?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })
    .unwrap();
}

#[test]
fn the_newcomers_program_has_less_than_fifteen_lines() {
    let page = include_str!("../docs/guide/first.md");
    let program = page
        .split("```")
        .find(|block| block.contains("fn main"))
        .unwrap();
    let lines = program.trim().lines().count();
    assert!((5..15).contains(&lines), "{lines} lines");
    assert!(
        program.contains(".solve("),
        "it is the program that is run as a doc test"
    );
}
