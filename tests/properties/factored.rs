//! Factors that are kept: the answers have the bits of the calls in one go, on arrays and in tiles,
//! over threads and ranks; and they are right by what is known of the matrices.

use dataflow::linalg::determinant::Determinant;
use dataflow::linalg::kernel::{Backend, LARGEST_WHOLE, Op};
use dataflow::linalg::matrix::digest::digest;
use dataflow::linalg::matrix::generate::{
    Conditioned, Hilbert, Laplacian, PositiveDefinite, Random, Trefethen,
};
use dataflow::linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use dataflow::linalg::{cholesky, lu};
use dataflow::{
    CholeskyFactor, Dense, LuFactor, QrFactor, Runtime, Tiled, TiledCholeskyFactor, TiledLuFactor,
    TiledQrFactor, launch,
};
use ndarray::{Array1, Array2, Array3, ArrayView1, ArrayView2, Axis, ShapeBuilder, array, s};
use proptest::prelude::*;

/// The last order that is one tile, and the first that is not.
const AROUND_ONE_TILE: [usize; 2] = [LARGEST_WHOLE, LARGEST_WHOLE + 1];

fn array_of<T: Scalar>((m, n): (usize, usize), entries: &impl Entries<T>) -> Array2<T> {
    Array2::from_shape_fn((m, n), |(i, j)| entries.entry(i, j))
}

fn definite<T: Scalar>(n: usize) -> Array2<T> {
    array_of((n, n), &PositiveDefinite::new(n, 1))
}

fn random<T: Scalar>(m: usize, n: usize, seed: u64) -> Array2<T> {
    array_of((m, n), &Random::new(seed))
}

fn unit<T: Scalar>(n: usize) -> Array2<T> {
    Array2::from_shape_fn((n, n), |(i, j)| if i == j { T::one() } else { T::zero() })
}

fn plain<T: Scalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        (0..a.ncols()).fold(T::zero(), |sum, k| sum + a[(i, k)] * b[(k, j)])
    })
}

fn difference<T: Scalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    assert_eq!(a.dim(), b.dim());
    Array2::from_shape_fn(a.dim(), |at| a[at] - b[at])
}

/// The 1-norm.
fn norm<T: Scalar>(a: ArrayView2<'_, T>) -> f64 {
    let columns = a.columns().into_iter();
    let sums = columns.map(|column| column.iter().map(|x| x.modulus()).sum::<f64>());
    sums.fold(0.0, f64::max)
}

/// ‖B − A·X‖ / (n·ε·‖A‖·‖X‖), of which LAPACK's tests ask that it is below 30.
fn residual<T: Scalar>(a: &Array2<T>, x: &Array2<T>, b: &Array2<T>) -> f64 {
    let rest = norm(difference(plain(a.view(), x.view()).view(), b.view()).view());
    let scale = a.nrows() as f64 * T::EPSILON * norm(a.view()) * norm(x.view());
    match rest {
        0.0 => 0.0,
        rest => rest / scale,
    }
}

/// The same bits: −0 is not 0.
fn assert_bits<T: Scalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, case: &str) {
    assert_eq!(a.dim(), b.dim(), "{case}");
    for (at, x) in a.indexed_iter() {
        assert_eq!(x.bits(), b[at].bits(), "{case}: {at:?}");
    }
}

/// Right-hand sides of either memory order.
fn sides<T: Scalar>(n: usize, cols: usize) -> Vec<Array2<T>> {
    let b = random(n, cols, 3);
    let by_columns = Array2::from_shape_fn((n, cols).f(), |at| b[at]);
    vec![b, by_columns]
}

#[test]
fn a_kept_factor_solves_to_the_bit_as_the_call_in_one_go_does() {
    fn check<T: Scalar>(n: usize, columns: &[usize]) {
        let (a, mut c) = (definite::<T>(n), random::<T>(n, n, 2));
        // One entry may look definite.
        c.diag_mut().fill(-T::one());
        // Every second row and column of a larger array, backwards.
        let larger = Array2::from_shape_fn((2 * n, 2 * n), |(i, j)| c[(i / 2, j / 2)]);
        let strided = larger.slice(s![..;-2, ..;-2]);
        let (l, by_lu) = (a.cholesky_factor().unwrap(), c.lu_factor().unwrap());
        let backwards = strided.lu_factor().unwrap();
        for &cols in columns {
            let case = format!("{} n = {n}, {cols} columns", T::PRECISION);
            for b in sides::<T>(n, cols) {
                let view = b.slice(s![..;-1, ..]);
                assert_bits(
                    l.solve(&b).unwrap().view(),
                    a.solve(&b).unwrap().view(),
                    &case,
                );
                assert_bits(
                    by_lu.solve(&view).unwrap().view(),
                    c.solve(&view).unwrap().view(),
                    &case,
                );
                assert_bits(
                    backwards.solve(&view).unwrap().view(),
                    strided.solve(&view).unwrap().view(),
                    &case,
                );
            }
        }
        let b = random::<T>(n, 1, 5).remove_axis(Axis(1));
        assert_eq!(l.solve(&b).unwrap(), a.solve(&b).unwrap());
        assert_eq!(by_lu.solve(&b).unwrap(), c.solve(&b).unwrap());
        let case = format!("{} inverse of order {n}", T::PRECISION);
        assert_bits(
            l.inverse().unwrap().view(),
            a.inverse().unwrap().view(),
            &case,
        );
        assert_bits(
            by_lu.inverse().unwrap().view(),
            c.inverse().unwrap().view(),
            &case,
        );
        assert_bits(l.l().view(), a.cholesky().unwrap().view(), &case);
        let (p, lower, upper) = c.lu().unwrap();
        assert_eq!(
            (by_lu.permutation(), by_lu.l(), by_lu.u()),
            (p, lower, upper)
        );
    }
    for n in [0, 1, 2, 7, 60] {
        check::<f32>(n, &[0, 1, 3]);
        check::<f64>(n, &[0, 1, 3]);
        check::<c32>(n, &[0, 1, 3]);
        check::<c64>(n, &[0, 1, 3]);
    }
    // Few rows and many columns go to the runtime, with the factor as it is.
    check::<f64>(7, &[LARGEST_WHOLE, LARGEST_WHOLE + 1]);
    for n in AROUND_ONE_TILE {
        check::<f32>(n, &[2]);
        check::<f64>(n, &[2, LARGEST_WHOLE + 1]);
        check::<c32>(n, &[2]);
        check::<c64>(n, &[2]);
    }
}

#[test]
fn kept_q_and_r_answer_to_the_bit_as_the_call_in_one_go_does() {
    fn check<T: Scalar>(m: usize, n: usize) {
        let a = random::<T>(m, n, 2);
        let case = format!("{} {m} x {n}", T::PRECISION);
        let factor = a.qr_factor().unwrap();
        for cols in [0, 1, 3] {
            for b in sides::<T>(m, cols) {
                // Twice: the second time the rank is known.
                for _ in 0..2 {
                    let (kept, at_once) = (factor.least_squares(&b), a.least_squares(&b));
                    assert_bits(kept.unwrap().view(), at_once.unwrap().view(), &case);
                }
            }
        }
        let b = random::<T>(m, 1, 5).remove_axis(Axis(1));
        assert_eq!(
            factor.least_squares(&b).unwrap(),
            a.least_squares(&b).unwrap()
        );
        match m < n {
            true => {
                for refused in [
                    factor.q().unwrap_err(),
                    factor.r().unwrap_err(),
                    factor.q_adjoint_times(&b).unwrap_err(),
                ] {
                    assert_eq!(refused.name(), "wrong_shape", "{case}");
                }
            }
            false => {
                let (q, r) = a.qr().unwrap();
                assert_bits(factor.q().unwrap().view(), q.view(), &case);
                assert_bits(factor.r().unwrap().view(), r.view(), &case);
            }
        }
    }
    for (m, n) in [
        (0, 0),
        (0, 3),
        (3, 0),
        (1, 1),
        (1, 5),
        (31, 7),
        (7, 31),
        (60, 60),
    ] {
        check::<f32>(m, n);
        check::<f64>(m, n);
        check::<c32>(m, n);
        check::<c64>(m, n);
    }
    for m in AROUND_ONE_TILE {
        check::<f64>(m, 40);
        check::<c32>(40, m);
    }
}

#[test]
fn two_calls_of_a_kernel_have_the_bits_of_the_graph() {
    fn check<T: Scalar>(n: usize, cols: usize) {
        let runtime = Runtime::shared().unwrap();
        let case = format!("{} n = {n}, {cols} columns", T::PRECISION);
        let tiles = |layout, a: &Array2<T>| TiledMatrix::from_fn(layout, |i, j| a[(i, j)]);
        let general = |m, n| Layout::general(m, n, LARGEST_WHOLE).unwrap();
        let b = random::<T>(n, cols, 3);

        let factor = definite::<T>(n).cholesky_factor().unwrap();
        let l = tiles(Layout::lower(n, LARGEST_WHOLE).unwrap(), &factor.l());
        let x = tiles(general(n, cols), &b);
        cholesky::solve(&l, &x, Backend::Auto, runtime).unwrap();
        let kept = factor.solve(&b).unwrap();
        assert_bits(kept.view(), x.to_ndarray().unwrap().view(), &case);

        let a = random::<T>(n, n, 2);
        let factor = a.lu_factor().unwrap();
        let both = tiles(general(n, n), &a);
        let pivots = lu::Pivots::new(&both);
        lu::factor(&both, &pivots, Backend::Auto, runtime).unwrap();
        for op in [Op::NoTranspose, Op::Transpose, Op::ConjTranspose] {
            let x = tiles(general(n, cols), &b);
            lu::solve(&both, &pivots, op, &x, Backend::Auto, runtime).unwrap();
            let kept = match op {
                Op::NoTranspose => factor.solve(&b),
                Op::Transpose => factor.solve_transposed(&b),
                Op::ConjTranspose => factor.solve_adjoint(&b),
            };
            let case = format!("{case}, {op:?}");
            assert_bits(kept.unwrap().view(), x.to_ndarray().unwrap().view(), &case);
        }
    }
    for (n, cols) in [(1, 1), (2, 3), (9, 2), (50, 7), (LARGEST_WHOLE, 5)] {
        check::<f32>(n, cols);
        check::<f64>(n, cols);
        check::<c32>(n, cols);
        check::<c64>(n, cols);
    }
}

#[test]
fn many_right_hand_sides_have_the_solutions_that_each_of_them_has() {
    fn check<T: Scalar>(n: usize, cols: usize) {
        let b = random::<T>(n, cols, 3);
        let (a, c) = (definite::<T>(n), random::<T>(n, n, 2));
        let (l, by_lu) = (a.cholesky_factor().unwrap(), c.lu_factor().unwrap());
        let by_qr = c.qr_factor().unwrap();
        let of_one = |j: usize| b.column(j);
        let all = [
            l.solve(&b).unwrap(),
            by_lu.solve(&b).unwrap(),
            by_qr.least_squares(&b).unwrap(),
        ];
        for j in 0..cols {
            let each = [
                l.solve(&of_one(j)).unwrap(),
                by_lu.solve(&of_one(j)).unwrap(),
                by_qr.least_squares(&of_one(j)).unwrap(),
            ];
            for ((all, each), a) in all.iter().zip(each).zip([&a, &c, &c]) {
                let (each, side) = (
                    each.insert_axis(Axis(1)),
                    of_one(j).to_owned().insert_axis(Axis(1)),
                );
                for x in [all.slice(s![.., j..=j]).to_owned(), each] {
                    let residual = residual(a, &x, &side);
                    assert!(
                        residual < 30.0,
                        "{} column {j}: {residual:.1}",
                        T::PRECISION
                    );
                }
            }
        }
    }
    check::<f32>(30, 20);
    check::<c64>(30, 20);
    check::<f64>(LARGEST_WHOLE + 20, 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn solutions_and_inverses_of_any_matrix_have_small_residuals(
        (n, cols, seed) in (1usize..40, 1usize..5, 0u64..1000),
    ) {
        fn check<T: Scalar>(n: usize, cols: usize, seed: u64) {
            let case = format!("{} n = {n}, seed {seed}", T::PRECISION);
            let general = random::<T>(n, n, seed);
            let definite = array_of::<T>((n, n), &PositiveDefinite::new(n, seed));
            let b = random::<T>(n, cols, seed + 1);
            let (l, by_lu) = (definite.cholesky_factor().unwrap(), general.lu_factor().unwrap());
            let by_qr = general.qr_factor().unwrap();
            let transposed = general.t().to_owned();
            let adjoint = transposed.mapv(Scalar::conj);
            for (a, x) in [
                (&definite, l.solve(&b)),
                (&general, by_lu.solve(&b)),
                (&general, by_qr.solve(&b)),
                (&transposed, by_lu.solve_transposed(&b)),
                (&adjoint, by_lu.solve_adjoint(&b)),
            ] {
                let residual = residual(a, &x.unwrap(), &b);
                assert!(residual < 30.0, "{case}: {residual:.1}");
            }
            // The inverse by LU is made row by row: X·A is I, or Aᵀ·Xᵀ.
            let (of_definite, of_general) = (l.inverse().unwrap(), by_lu.inverse().unwrap());
            let of_general = of_general.t().to_owned();
            for (a, inverse) in [(&definite, of_definite), (&transposed, of_general)] {
                let residual = residual(a, &inverse, &unit(n));
                assert!(residual < 30.0, "inverse, {case}: {residual:.1}");
            }
        }
        check::<f32>(n, cols, seed);
        check::<f64>(n, cols, seed);
        check::<c32>(n, cols, seed);
        check::<c64>(n, cols, seed);
    }

    #[test]
    fn q_adjoint_times_b_keeps_lengths_and_begins_with_the_product_by_the_first_columns_of_q(
        (n, more, cols, seed) in (1usize..20, 0usize..20, 1usize..4, 0u64..1000),
    ) {
        fn check<T: Scalar>((m, n): (usize, usize), cols: usize, seed: u64) {
            let case = format!("{} {m} x {n}, seed {seed}", T::PRECISION);
            let (a, b) = (random::<T>(m, n, seed), random::<T>(m, cols, seed + 1));
            let factor = a.qr_factor().unwrap();
            let (q, turned) = (factor.q().unwrap(), factor.q_adjoint_times(&b).unwrap());
            let adjoint = q.t().mapv(Scalar::conj);
            let product = plain(adjoint.view(), b.view());
            let small = 30.0 * m as f64 * T::EPSILON * norm(b.view());
            let above = difference(turned.slice(s![..n, ..]), product.view());
            assert!(norm(above.view()) < small, "{case}");
            let length = |x: ArrayView1<'_, T>| x.iter().map(|x| x.modulus().powi(2)).sum::<f64>().sqrt();
            for (turned, b) in turned.columns().into_iter().zip(b.columns()) {
                assert!((length(turned) - length(b)).abs() < small, "{case}");
            }
        }
        let shape = (n + more, n);
        check::<f32>(shape, cols, seed);
        check::<f64>(shape, cols, seed);
        check::<c32>(shape, cols, seed);
        check::<c64>(shape, cols, seed);
    }

    #[test]
    fn the_determinant_is_the_product_of_the_diagonal_and_that_of_the_inverse_its_reciprocal(
        (n, seed) in (1usize..30, 0u64..1000),
    ) {
        let a = random::<c64>(n, n, seed);
        let factor = a.lu_factor().unwrap();
        let found = factor.determinant().unwrap();
        let swaps = n - cycles(&factor.permutation());
        let sign = if swaps.is_multiple_of(2) { 1.0 } else { -1.0 };
        let product = factor.u().diag().iter().fold(c64::new(sign, 0.0), |all, u| all * u);
        let value = found.phase * found.log_abs.exp();
        prop_assert!((value - product).norm() < 1e-12 * product.norm(), "{found:?}, {product}");
        let of_inverse = factor.inverse().unwrap().lu_factor().unwrap().determinant().unwrap();
        let lost = 1e-14 * factor.condition().unwrap() * n as f64;
        prop_assert!((found.log_abs + of_inverse.log_abs).abs() < lost);
        prop_assert!((found.phase * of_inverse.phase - 1.0).norm() < lost);
    }

    #[test]
    fn a_permutation_has_its_sign_for_determinant(order in Just((0..9).collect::<Vec<usize>>()).prop_shuffle()) {
        let n = order.len();
        let a = Array2::from_shape_fn((n, n), |(i, j)| f64::from(u8::from(order[i] == j)));
        let sign = if (n - cycles(&order)).is_multiple_of(2) { 1.0 } else { -1.0 };
        let found = a.lu_factor().unwrap().determinant().unwrap();
        prop_assert_eq!((found.log_abs, found.phase), (0.0, c64::new(sign, 0.0)));
    }
}

/// How many cycles a permutation has: it is made by as many swaps as there are elements without them.
fn cycles(order: &[usize]) -> usize {
    let mut seen = vec![false; order.len()];
    let begins = (0..order.len()).filter(|&first| {
        let begins = !seen[first];
        let mut at = first;
        while !seen[at] {
            seen[at] = true;
            at = order[at];
        }
        begins
    });
    begins.count()
}

#[test]
fn determinants_and_conditions_of_known_matrices_are_found() {
    // 1 / det of Hilbert's matrix of order 5, and its condition.
    let hilbert = array_of::<f64>((5, 5), &Hilbert);
    let l = hilbert.cholesky_factor().unwrap();
    let by_lu = hilbert.lu_factor().unwrap();
    let by_qr = hilbert.qr_factor().unwrap();
    for (determinant, condition) in [
        (l.determinant().unwrap(), l.condition().unwrap()),
        (by_lu.determinant().unwrap(), by_lu.condition().unwrap()),
        (by_qr.determinant().unwrap(), by_qr.condition().unwrap()),
    ] {
        assert!((determinant.log_abs + 266_716_800_000f64.ln()).abs() < 1e-10);
        assert_eq!(determinant.phase, c64::new(1.0, 0.0));
        assert!((condition / 943_656.0 - 1.0).abs() < 1e-8, "{condition}");
    }
    // Trefethen's matrices of primes, of orders 2 and 3: by hand.
    for (n, determinant) in [(1, 2.0), (2, 5.0), (3, 22.0)] {
        let a = array_of::<f64>((n, n), &Trefethen::new(n));
        for found in [
            a.cholesky_factor().unwrap().determinant().unwrap(),
            a.lu_factor().unwrap().determinant().unwrap(),
        ] {
            assert!(
                (found.log_abs.exp() - determinant).abs() < 1e-12,
                "{n}: {found:?}"
            );
        }
    }
    // On the runtime.
    let laplacian = Laplacian {
        width: 20,
        height: 15,
    };
    let a = array_of::<f64>((300, 300), &laplacian);
    let found = a.cholesky_factor().unwrap().determinant().unwrap();
    assert!((found.log_abs - laplacian.log_det()).abs() < 1e-10);
    let known = Conditioned::new(270, 1e3, 1).unwrap();
    let a = array_of::<f64>((270, 270), &known);
    let found = a.lu_factor().unwrap().determinant().unwrap();
    assert!((found.log_abs - known.log_det()).abs() < 1e-8, "{found:?}");
    // Rows in turn: n − 1 swaps.
    let turn = Array2::from_shape_fn((270, 270), |(i, j)| f64::from(u8::from((i + 1) % 270 == j)));
    let found = turn.lu_factor().unwrap().determinant().unwrap();
    assert_eq!((found.log_abs, found.phase.re), (0.0, -1.0));
    // Without rows.
    let empty = Array2::<f64>::zeros((0, 0));
    assert_eq!(
        empty.lu_factor().unwrap().determinant().unwrap().log_abs,
        0.0
    );
    assert_eq!(empty.cholesky_factor().unwrap().condition().unwrap(), 1.0);
    assert_eq!(empty.qr_factor().unwrap().condition().unwrap(), 1.0);
}

#[test]
fn a_condition_by_qr_is_that_by_lu_and_told_of_what_nothing_solves_with() {
    // Without a graph, and in tiles.
    for n in [6, 300] {
        let a = random::<c64>(n, n, 3);
        let by_lu = a.lu_factor().unwrap().condition().unwrap();
        let by_qr = a.qr_factor().unwrap().condition().unwrap();
        let ratio = by_qr / by_lu;
        assert!((0.3..3.0).contains(&ratio), "{n}: {by_qr} of {by_lu}");
    }
    let nearly = array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]];
    let nearly = nearly.qr_factor().unwrap();
    assert_eq!(
        nearly.solve(&Array1::ones(3)).unwrap_err().name(),
        "rank_deficient"
    );
    assert!(nearly.condition().unwrap() > 1e15);
    let zero = Array2::<f64>::zeros((2, 2)).qr_factor().unwrap();
    let refused = zero.condition().unwrap_err();
    assert_eq!((refused.name(), refused.index()), ("singular", Some(1)));
    for shape in [(3, 2), (2, 3)] {
        let refused = random::<f64>(shape.0, shape.1, 1)
            .qr_factor()
            .unwrap()
            .condition();
        assert_eq!(refused.unwrap_err().name(), "wrong_shape");
    }
}

#[test]
fn what_a_factor_cannot_answer_is_named_and_the_rest_is_answered() {
    let singular = array![[1.0, 2.0], [2.0, 4.0]].lu_factor().unwrap();
    for refused in [
        singular.solve(&Array1::zeros(2)).unwrap_err(),
        singular.solve_transposed(&Array1::zeros(2)).unwrap_err(),
        singular.inverse().unwrap_err(),
        singular.condition().unwrap_err(),
    ] {
        assert_eq!((refused.name(), refused.index()), ("singular", Some(2)));
    }
    assert_eq!(singular.u()[(1, 1)], 0.0);
    let zero = singular.determinant().unwrap();
    assert_eq!((zero.log_abs, zero.phase.re), (f64::NEG_INFINITY, 0.0));

    let a = random::<f64>(5, 3, 1);
    let tall = a.lu_factor().unwrap();
    let (l, u) = (tall.l(), tall.u());
    assert_eq!((l.dim(), u.dim()), ((5, 3), (3, 3)));
    let rows = a.select(Axis(0), &tall.permutation());
    assert!(norm(difference(plain(l.view(), u.view()).view(), rows.view()).view()) < 1e-14);
    let regular = unit::<f64>(3);
    for refused in [
        tall.solve(&Array1::zeros(5)).unwrap_err(),
        tall.inverse().unwrap_err(),
        tall.determinant().unwrap_err(),
        tall.condition().unwrap_err(),
        a.cholesky_factor().unwrap_err(),
        regular
            .lu_factor()
            .unwrap()
            .solve(&Array1::zeros(2))
            .unwrap_err(),
        regular
            .cholesky_factor()
            .unwrap()
            .solve(&Array1::zeros(2))
            .unwrap_err(),
        regular
            .cholesky_factor()
            .unwrap()
            .solve(&Array3::zeros((3, 1, 1)))
            .unwrap_err(),
        a.qr_factor()
            .unwrap()
            .least_squares(&Array1::zeros(3))
            .unwrap_err(),
        a.qr_factor().unwrap().solve(&Array1::zeros(5)).unwrap_err(),
        a.qr_factor()
            .unwrap()
            .q_adjoint_times(&Array1::zeros(3))
            .unwrap_err(),
    ] {
        assert_eq!(refused.name(), "wrong_shape", "{refused}");
    }

    let indefinite = array![[1.0, 2.0], [2.0, 1.0]]
        .cholesky_factor()
        .unwrap_err();
    assert_eq!(
        (indefinite.name(), indefinite.index()),
        ("not_positive_definite", Some(2))
    );
    let mut spoiled = unit::<c32>(4);
    spoiled[(3, 1)] = c32::new(0.0, f32::NAN);
    let wide = spoiled.slice(s![2.., ..]);
    for (refused, entry) in [
        (spoiled.cholesky_factor().unwrap_err(), "(3, 1)"),
        (spoiled.lu_factor().unwrap_err(), "(3, 1)"),
        (spoiled.qr_factor().unwrap_err(), "(3, 1)"),
        (wide.qr_factor().unwrap_err(), "(1, 1)"),
        (
            unit::<c32>(4)
                .qr_factor()
                .unwrap()
                .least_squares(&spoiled)
                .unwrap_err(),
            "(3, 1)",
        ),
    ] {
        assert!(refused.to_string().contains(entry), "{refused}");
    }

    for (m, n) in [(3, 2), (2, 3), (300, 3)] {
        let factor = Array2::<f64>::ones((m, n)).qr_factor().unwrap();
        // The first time it is found out, the second it is known.
        for _ in 0..2 {
            let refused = factor.least_squares(&Array1::ones(m)).unwrap_err();
            assert_eq!(refused.name(), "rank_deficient");
            assert!(refused.to_string().contains("about 1 of"), "{refused}");
        }
    }
}

#[test]
fn threads_share_a_factor() {
    fn shared<F: Send + Sync>() {}
    shared::<CholeskyFactor<f32>>();
    shared::<LuFactor<c64>>();
    shared::<QrFactor<f64>>();
    shared::<TiledCholeskyFactor<'_, f64>>();
    shared::<TiledLuFactor<'_, f64>>();
    shared::<TiledQrFactor<'_, f64>>();
    for n in [40, LARGEST_WHOLE + 20] {
        let (a, c) = (definite::<f64>(n), random::<f64>(n, n, 2));
        let (l, by_lu) = (a.cholesky_factor().unwrap(), c.lu_factor().unwrap());
        let by_qr = c.qr_factor().unwrap();
        let answers = |seed: u64| {
            let b = random::<f64>(n, 2, seed);
            [
                l.solve(&b).unwrap(),
                by_lu.solve(&b).unwrap(),
                by_qr.least_squares(&b).unwrap(),
                l.inverse().unwrap(),
                by_lu.inverse().unwrap(),
            ]
        };
        let alone: Vec<_> = (0..4).map(answers).collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|seed| scope.spawn(move || answers(seed)))
                .collect();
            for (thread, alone) in threads.into_iter().zip(alone) {
                assert_eq!(thread.join().unwrap(), alone);
            }
        });
    }
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
fn factors_of_tiles_answer_to_the_bit_as_the_calls_in_one_go_do() {
    fn check<T: Scalar>(runtime: &Runtime) {
        let (n, nb) = (37, 8);
        let general = |m, n| Layout::general(m, n, nb).unwrap();
        let bits = |of: &TiledMatrix<T>| digest(of).unwrap().to_string();
        let b = spread(general(n, 5), &Random::new(3), runtime);
        let definite = || {
            let layout = Layout::lower(n, nb).unwrap();
            spread(layout, &PositiveDefinite::new(n, 1), runtime)
        };
        let whole = spread(general(n, n), &PositiveDefinite::new(n, 1), runtime);
        let (a, factor) = (definite(), definite().cholesky_factor(runtime).unwrap());
        let of_whole: TiledCholeskyFactor<'_, T> = whole.cholesky_factor(runtime).unwrap();
        assert_eq!(bits(of_whole.l()), bits(factor.l()));
        let x = a.solve(&b, runtime).unwrap();
        let copied = TiledMatrix::from_entries(*b.layout(), &b);
        assert_eq!(bits(&factor.solve(&b).unwrap()), bits(&x));
        assert_eq!(bits(&factor.solve_into(copied).unwrap()), bits(&x));
        assert_eq!(
            bits(&factor.inverse().unwrap()),
            bits(&a.inverse(runtime).unwrap())
        );

        let c = || spread(general(n, n), &Random::new(2), runtime);
        let factor = c().lu_factor(runtime).unwrap();
        let (pivots, both) = c().lu(runtime).unwrap();
        assert_eq!(bits(factor.lu()), bits(&both));
        assert!(factor.pivots().rows().eq(pivots.rows()));
        let x = c().solve(&b, runtime).unwrap();
        let copied = TiledMatrix::from_entries(*b.layout(), &b);
        assert_eq!(bits(&factor.solve(&b).unwrap()), bits(&x));
        assert_eq!(bits(&factor.solve_into(copied).unwrap()), bits(&x));
        assert_eq!(
            bits(&factor.inverse().unwrap()),
            bits(&c().inverse(runtime).unwrap())
        );

        for (m, n) in [(n, 12), (12, n)] {
            let a = || spread(general(m, n), &Random::new(2), runtime);
            let b = spread(general(m, 2), &Random::new(3), runtime);
            let factor = a().qr_factor(runtime).unwrap();
            let x = a().least_squares(&b, runtime).unwrap();
            assert_eq!(bits(&factor.least_squares(&b).unwrap()), bits(&x));
            if m >= n {
                let (q, r) = a().qr(runtime).unwrap();
                assert_eq!(bits(&factor.q().unwrap()), bits(&q));
                assert_eq!(bits(&factor.r().unwrap()), bits(&r));
            }
        }
    }
    let runtime = Runtime::builder().threads(2).build().unwrap();
    check::<f32>(&runtime);
    check::<f64>(&runtime);
    check::<c32>(&runtime);
    check::<c64>(&runtime);
}

#[test]
fn factors_of_tiles_answer_the_same_over_ranks() {
    /// The sums over ranks of the digests of all answers, and the bits of the numbers.
    fn answers(ranks: usize) -> Vec<u64> {
        let answers = |runtime: &Runtime| {
            let (n, nb) = (30, 7);
            let general = |m, n| Layout::general(m, n, nb).unwrap();
            let a: TiledMatrix<c64> = spread(
                Layout::lower(n, nb).unwrap(),
                &PositiveDefinite::new(n, 1),
                runtime,
            );
            let b = spread(general(n, 9), &Random::new(3), runtime);
            let c = spread(general(n, n), &Random::new(2), runtime);
            let wide = spread(general(11, n), &Random::new(4), runtime);
            let few = spread(general(11, 2), &Random::new(5), runtime);
            let l = a.cholesky_factor(runtime).unwrap();
            let by_lu = c.lu_factor(runtime).unwrap();
            let by_qr = wide.qr_factor(runtime).unwrap();
            let square = spread(general(n, n), &Random::new(6), runtime);
            let square = square.qr_factor(runtime).unwrap();
            let matrices = [
                l.solve(&b).unwrap(),
                l.inverse().unwrap(),
                by_lu.solve(&b).unwrap(),
                by_lu.solve_transposed(&b).unwrap(),
                by_lu.solve_adjoint(&b).unwrap(),
                by_lu.inverse().unwrap(),
                by_qr.least_squares(&few).unwrap(),
                by_qr.least_squares(&few).unwrap(),
                square.solve(&b).unwrap(),
                square.q_adjoint_times(&b).unwrap(),
            ];
            let digests = matrices.iter().map(|answer| {
                let own = digest(answer).unwrap();
                let all = runtime.gather(own.to_string().into_bytes()).unwrap();
                let number = |bytes: Vec<u8>| {
                    let digits = String::from_utf8(bytes).unwrap();
                    u64::from_str_radix(&digits, 16).unwrap()
                };
                all.into_iter().map(number).fold(0, u64::wrapping_add)
            });
            let mut all: Vec<u64> = digests.collect();
            for determinant in [l.determinant().unwrap(), by_lu.determinant().unwrap()] {
                let Determinant { log_abs, phase, .. } = determinant;
                all.extend([log_abs, phase.re, phase.im].map(f64::to_bits));
            }
            let conditions = [
                l.condition().unwrap(),
                by_lu.condition().unwrap(),
                square.condition().unwrap(),
            ];
            all.extend(conditions.map(f64::to_bits));
            let last = all.iter().copied().fold(0, u64::wrapping_add).to_le_bytes();
            let of_all = runtime.gather(last.to_vec()).unwrap();
            assert!(of_all.iter().all(|of| *of == last), "ranks differ");

            let zeros = spread(general(n, n), &|_: usize, _: usize| c64::zero(), runtime);
            let singular = zeros.lu_factor(runtime).unwrap();
            assert_eq!(singular.solve(&b).err().unwrap().index(), Some(1));
            assert_eq!(singular.determinant().unwrap().log_abs, f64::NEG_INFINITY);
            Ok::<_, dataflow::Error>(all)
        };
        let settings = Runtime::builder().threads(1).ranks(ranks);
        launch(settings, answers).unwrap()
    }
    assert_eq!(answers(3), answers(1));
}
