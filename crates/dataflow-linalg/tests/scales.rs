//! Scales: at the ends of the range of numbers, factors, solutions and checks of matrices around 10⁻³¹⁰
//! and 10³⁰⁰, beside values that were computed once in exact fractions.
//!
//! # Law
//! LAPACK's `posv` and `gesv` do not scale, its `gels` does; nothing does here: what keeps its digits at
//! such scales does so because nothing on the way overflows, divides by a reciprocal that does, or
//! compares with what has underflowed.

use dataflow_core::port::{Heap, Inline, Memory};
use dataflow_linalg::LinalgError;
use dataflow_linalg::cholesky;
use dataflow_linalg::condition::inverse_norm;
use dataflow_linalg::kernel::{Backend, Diagonal, Op, Side, Triangle, trsm_op};
use dataflow_linalg::lu::{self, Pivots};
use dataflow_linalg::matrix::check::solve_backward_error;
use dataflow_linalg::matrix::generate::{Hilbert, PositiveDefinite, Random};
use dataflow_linalg::matrix::{Entries, Format, Layout, Structure, Tile, TiledMatrix};
use dataflow_linalg::product::{Operand, residual};
use dataflow_linalg::qr::{self, Options, least_squares};
use dataflow_linalg::refine::{self, FallbackCause, Refinement};
use dataflow_linalg::scalar::{Scalar, c32, c64};
use dataflow_linalg::whole;
use std::sync::Arc;

const BACKEND: Backend = Backend::Faer;

fn general<T: Scalar>(m: usize, n: usize, entries: &impl Entries<T>) -> TiledMatrix<T> {
    TiledMatrix::from_entries(Layout::general(m, n, 2).unwrap(), entries)
}

fn lower<T: Scalar>(n: usize, entries: &impl Entries<T>) -> TiledMatrix<T> {
    TiledMatrix::from_entries(Layout::lower(n, 2).unwrap(), entries)
}

/// Fails unless X is within so much of what it should be, relative to its largest entry.
fn expect_near<T: Scalar>(x: &TiledMatrix<T>, expected: [f64; 3], within: f64, case: &str) {
    let largest = expected.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    for (i, expected) in expected.into_iter().enumerate() {
        let found = x.get(i, 0).unwrap().re();
        let off = (found - expected).abs() / largest;
        assert!(
            off <= within,
            "{case}: entry {i} is {found:e}, exactly {expected:e}"
        );
    }
}

/// The definite matrix, times s, with the right-hand side s·(1, 2, 4); its exact solution is
/// (−0.1, 0, 0.7), but for the rounding of the entries.
const DEFINITE: [[f64; 3]; 3] = [[4.0, 1.0, 2.0], [1.0, 5.0, 3.0], [2.0, 3.0, 6.0]];

#[test]
fn a_definite_system_keeps_its_digits_at_every_scale() {
    fn check<T: Scalar>(scale: f64, expected: [f64; 3], within: f64) {
        let a = |i: usize, j: usize| T::from_real(DEFINITE[i][j] * scale);
        let side = |i: usize, _: usize| T::from_real([1.0, 2.0, 4.0][i] * scale);
        let (l, x) = (lower(3, &a), general(3, 1, &side));
        cholesky::factor(&l, BACKEND, &Inline).unwrap();
        let case = format!("{} {scale:e}", T::PRECISION);
        let ratio = cholesky::residual(&a, &l).unwrap();
        assert!(ratio < 30.0, "{case}: {ratio}");
        cholesky::solve(&l, &x, BACKEND, &Inline).unwrap();
        expect_near(&x, expected, within, &case);
        let ratio = solve_backward_error(&a, Structure::Lower, &x, &side).unwrap();
        assert!(ratio < 30.0, "{case}: {ratio}");
    }
    for scale in [1e-310, 1e-300, 1.0, 1e300] {
        let within = if scale < 1e-307 { 1e-12 } else { 1e-14 };
        check::<f64>(scale, [-0.1, 0.0, 0.7], within);
        check::<c64>(scale, [-0.1, 0.0, 0.7], within);
    }
    // 6070 units of the last place and their multiples: the solution of what is stored.
    let stored = [-0.1, 0.0, 0.7];
    check::<f64>(3e-320, stored, 1e-2);
    let stored = [
        -0.10000308285578946,
        -2.0019154308047145e-7,
        0.7000027625661517,
    ];
    check::<f32>(1e-40, stored, 1e-4);
    check::<c32>(1e-40, stored, 1e-4);
    check::<f32>(1e35, [-0.1, 0.0, 0.7], 1e-5);
}

#[test]
fn a_general_system_keeps_its_digits_at_every_scale() {
    let entries = [[1.0, 7.0, 2.0], [4.0, 1.0, 3.0], [2.0, 5.0, 1.0]];
    for (scale, of_side, expected) in [
        (
            1e-310,
            1e-310,
            [-0.027777777777777776, 0.3611111111111111, 0.25],
        ),
        (
            1e-310,
            1e-150,
            [
                -2.777777777777792e158,
                3.611111111111122e159,
                2.5000000000000082e159,
            ],
        ),
        (
            1e300,
            1e-5,
            [
                -2.7777777777777928e-307,
                3.6111111111111114e-306,
                2.500000000000002e-306,
            ],
        ),
    ] {
        let a = |i: usize, j: usize| entries[i][j] * scale;
        let side = |i: usize, _: usize| [3.0, 1.0, 2.0][i] * of_side;
        let (factors, x) = (general::<f64>(3, 3, &a), general::<f64>(3, 1, &side));
        let pivots = Pivots::new(&factors);
        lu::factor(&factors, &pivots, BACKEND, &Inline).unwrap();
        let ratio = lu::residual(&a, &factors, &pivots).unwrap();
        assert!(ratio < 30.0, "{scale:e}: {ratio}");
        let solve = lu::Solve::new(&factors, &pivots, Op::NoTranspose, &x, BACKEND).unwrap();
        solve.run(&Inline).unwrap();
        expect_near(&x, expected, 2e-12, &format!("{scale:e} {of_side:e}"));
        let (whole, rest) = (general(3, 3, &a), general(3, 1, &side));
        let left = residual(Operand::plain(&whole), Operand::plain(&x), &rest, &Inline);
        let ratio = left.unwrap().over(3);
        assert!(ratio < 30.0, "{scale:e}: {ratio}");
    }
}

/// Points of which a line, or the shortest solution, is near whatever the scale of A and of B.
#[test]
fn least_squares_keep_their_digits_at_every_scale() {
    for (of_a, of_b) in [
        (1e-310, 1e-310),
        (1e-300, 1e-300),
        (1e-300, 1e-150),
        (1.0, 1e-310),
        (1.0, 1e300),
        (1e300, 1e300),
        (1e300, 1e-5),
    ] {
        let ratio = of_b / of_a;
        let within = if f64::min(of_a, of_b) < 1e-307 {
            1e-9
        } else {
            1e-13
        };
        let case = format!("{of_a:e} {of_b:e}");
        let tall = general::<f64>(3, 2, &|i: usize, j: usize| [1.0, i as f64][j] * of_a);
        let b = general::<f64>(3, 1, &|i: usize, _: usize| [1.0, 2.0, 6.0][i] * of_b);
        let (x, _) = least_squares(&tall, &b, Options::of_order(2), BACKEND, &Inline)
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        for (i, expected) in [0.5, 2.5].into_iter().enumerate() {
            let found = x.get(i, 0).unwrap() / ratio;
            assert!((found - expected).abs() < within, "{case}: {found}");
        }
        let wide = general::<f64>(2, 3, &|i: usize, j: usize| [1.0, j as f64][i] * of_a);
        let b = general::<f64>(2, 1, &|i: usize, _: usize| [3.0, 5.0][i] * of_b);
        let (x, _) = least_squares(&wide, &b, Options::of_order(2), BACKEND, &Inline)
            .unwrap_or_else(|error| panic!("{case}, wide: {error}"));
        for i in 0..3 {
            let found = x.get(i, 0).unwrap() / ratio;
            let shortest = [0.0, 1.0, 2.0][i];
            assert!((found - shortest).abs() < within, "{case}, wide: {found}");
        }
    }
}

/// The product of two norms vanished, and whatever X was had a ratio of 0; or it overflowed, and none had
/// one. Nothing but A and B differs between the cases, so the ratios of powers of two are the same bits.
#[test]
fn factors_and_solutions_by_qr_are_judged_alike_at_every_scale() {
    fn check<T: Scalar>(of_a: f64, of_b: f64) {
        let [scale_a, scale_b] = [of_a, of_b].map(T::from_real);
        let random = Random::new(5);
        let a = |i: usize, j: usize| Entries::<T>::entry(&random, i, j) * scale_a;
        let side = |i: usize, j: usize| Entries::<T>::entry(&random, i, 9 + j) * scale_b;
        for (m, n) in [(7, 4), (5, 5), (4, 7)] {
            let case = format!("{} {m} x {n}, {of_a:e} {of_b:e}", T::PRECISION);
            let factors = general(m, n, &a);
            let (q, _) = qr::factor(&factors, Options::of_order(2), BACKEND, &Inline).unwrap();
            let other = |i: usize, j: usize| match (i, j) {
                (2, 1) => a(i, j) + scale_a,
                _ => a(i, j),
            };
            let right = qr::check(&a, &factors, &q, &Inline).unwrap();
            let wrong = qr::check(&other, &factors, &q, &Inline).unwrap();
            assert!(right.residual < 30.0, "{case}: {right:?}");
            assert!(right.orthogonality < 30.0, "{case}: {right:?}");
            assert!(wrong.residual > 100.0, "{case}: {wrong:?}");

            let (whole, sides) = (general(m, n, &a), || general(m, 2, &side));
            let (x, _) = least_squares(
                &general(m, n, &a),
                &sides(),
                Options::of_order(2),
                BACKEND,
                &Inline,
            )
            .unwrap_or_else(|error| panic!("{case}: {error}"));
            let off = T::from_real(10.0 * (of_b / of_a));
            let far = |i: usize, j: usize| match (i, j) {
                (0, 1) => x.get(i, j).unwrap() + off,
                _ => x.get(i, j).unwrap(),
            };
            let rest = sides();
            let right = qr::solution_ratio(&whole, &rest, &x, &Inline).unwrap();
            let wrong =
                qr::solution_ratio(&whole, &sides(), &general(n, 2, &far), &Inline).unwrap();
            assert!(right < 30.0, "{case}: {right}");
            assert!(wrong > 100.0, "{case}: {wrong}");
            // B − A·X is left in B.
            let left = sides();
            residual(Operand::plain(&whole), Operand::plain(&x), &left, &Inline).unwrap();
            assert_eq!(
                rest.to_column_major().unwrap(),
                left.to_column_major().unwrap(),
                "{case}"
            );
        }
    }
    for (of_a, of_b) in [
        (1e-310, 1e-310),
        (1e-300, 1e-150),
        (1e-170, 1e-170),
        (1e-170, 1e-5),
        (1e-5, 1e-290),
        (1.0, 1.0),
        (1e155, 1e155),
        (1e300, 1e-5),
        (1e300, 1e300),
    ] {
        check::<f64>(of_a, of_b);
        check::<c64>(of_a, of_b);
    }
    for (of_a, of_b) in [
        (1e-40, 1e-40),
        (1e-25, 1e-25),
        (1.0, 1.0),
        (1e20, 1e20),
        (1e35, 1e35),
    ] {
        check::<f32>(of_a, of_b);
        check::<c32>(of_a, of_b);
    }
}

#[test]
fn a_power_of_two_in_both_matrices_changes_no_bit_of_a_ratio() {
    let random = Random::new(6);
    for (m, n) in [(6, 3), (3, 6)] {
        let x = general::<f64>(n, 2, &Random::new(7));
        let ratio = |of_a: f64, of_b: f64| {
            let a = general(m, n, &|i: usize, j: usize| {
                Entries::<f64>::entry(&random, i, j) * of_a
            });
            let x = general(n, 2, &|i: usize, j: usize| x.get(i, j).unwrap() * of_b);
            let of_b = of_a * of_b;
            let b = general(m, 2, &|i: usize, j: usize| {
                Entries::<f64>::entry(&random, i, 9 + j) * of_b
            });
            qr::solution_ratio(&a, &b, &x, &Inline).unwrap()
        };
        let usual = ratio(1.0, 1.0);
        for (a, x) in [
            (-700, 0),
            (-450, 0),
            (-200, 500),
            (300, -300),
            (400, 100),
            (900, 0),
        ] {
            let found = ratio(2f64.powi(a), 2f64.powi(x));
            assert_eq!(
                found.to_bits(),
                usual.to_bits(),
                "2^{a} 2^{x}: {found}, {usual}"
            );
        }
    }
}

/// faer's leaf made inf − inf of x₁·(1/u₁₁) − (u₀₁/u₁₁)·x₀, though each quotient was a normal number; and
/// least squares called that an overflow.
#[test]
fn a_side_whose_quotients_overflow_has_the_solution_that_division_gives() {
    fn check<T: Scalar>(small: f64, large: f64) {
        let [small, one, zero, large] = [small, 1.0, 0.0, large].map(T::from_real);
        let upper = [[small, one], [zero, one]];
        let memory: Arc<dyn Memory> = Arc::new(Heap);
        let format = Format::ColumnMajor;
        let systems = [
            (Op::NoTranspose, Triangle::Upper),
            (Op::NoTranspose, Triangle::Lower),
            (Op::ConjTranspose, Triangle::Upper),
            (Op::Transpose, Triangle::Lower),
        ];
        let both = [Side::Left, Side::Right];
        let systems = both.map(|side| systems.map(|(op, triangle)| (side, op, triangle)));
        for (side, op, triangle) in systems.concat() {
            // The unknown that is known first is the last, unless the triangle is seen as a lower one. From the
            // right it is seen transposed.
            let is_as_stored = (op == Op::NoTranspose) == (side == Side::Left);
            let is_lower = (triangle == Triangle::Lower) == is_as_stored;
            let at = |i: usize| if is_lower { 1 - i } else { i };
            let turned = |is_turned: bool, i: usize, j: usize| match is_turned {
                true => (j, i),
                false => (i, j),
            };
            let entry = |i: usize, j: usize| {
                let (i, j) = turned(!is_as_stored, i, j);
                upper[at(i)][at(j)]
            };
            let a = Tile::from_fn(2, 2, format, &memory, entry);
            let solved = |middle: T| {
                let shape = turned(side == Side::Right, 2, 3);
                let sides = |i: usize, j: usize| {
                    let (_, which) = turned(side == Side::Right, i, j);
                    [T::from_real(0.7), middle, T::from_real(0.3)][which]
                };
                let mut b = Tile::from_fn(shape.0, shape.1, format, &memory, sides);
                let shape = (triangle, Diagonal::NonUnit);
                trsm_op(BACKEND, side, (op, shape, &a), &mut b);
                move |i: usize, which: usize| {
                    let (i, j) = turned(side == Side::Right, i, which);
                    b.get(i, j)
                }
            };
            let (found, calm) = (solved(large), solved(one));
            let case = format!("{} {side:?} {op:?} {triangle:?}", T::PRECISION);
            let middle = [found(at(0), 1), found(at(1), 1)];
            assert_eq!(middle, [zero, large], "{case}");
            // Those beside it keep the bits that faer gives them.
            for (i, j) in [(0, 0), (1, 0), (0, 2), (1, 2)] {
                assert_eq!(found(i, j), calm(i, j), "{case}");
            }
        }
        let a = |i: usize, j: usize| upper[i][j];
        let b = |_: usize, _: usize| large;
        let by_qr = whole::least_squares((2, 2), &a, 1, &b).unwrap();
        let by_lu = whole::Lu::of((2, 2), &a).unwrap().solve(1, &b);
        assert_eq!([&by_qr[..], &by_lu], [&[zero, large][..]; 2]);
        let (a, b) = (general(2, 2, &a), general(2, 1, &b));
        lu::factor_and_solve(&a, &Pivots::new(&a), &b, BACKEND, &Inline).unwrap();
        assert_eq!([b.get(0, 0), b.get(1, 0)], [Some(zero), Some(large)]);
    }
    check::<f32>(1e-20, 1e20);
    check::<f64>(1e-100, 1e250);
    check::<c32>(1e-20, 1e20);
    check::<c64>(1e-100, 1e250);
}

/// Columns of such numbers have a length that no number is.
#[test]
fn a_factor_that_overflows_is_no_solution() {
    fn check<T: Scalar>(large: f64) {
        let sign = |i: usize| [1.0, -1.0][i % 2];
        let side = |i: usize, _: usize| T::from_real(1.0 + sign(i));
        for (m, n) in [(200, 2), (2, 200)] {
            let entry = |i: usize, j: usize| match i.min(j) {
                0 => T::one(),
                _ => T::from_real(sign(i.max(j)) * large),
            };
            let (a, b) = (general(m, n, &entry), general(m, 1, &side));
            let refused = least_squares(&a, &b, Options::of_order(2), BACKEND, &Inline);
            let refused = refused.err().map(|error| error.to_string());
            let case = format!("{} {m} x {n}: {refused:?}", T::PRECISION);
            assert!(
                refused.is_some_and(|text| text.starts_with("column 1 of the factor")),
                "{case}"
            );
        }
        let refused = whole::least_squares(
            (200, 2),
            &|i: usize, j: usize| [T::one(), T::from_real(sign(i) * large)][j],
            1,
            &side,
        );
        assert_eq!(refused.unwrap_err().name(), "overflow");
        // U has 2·large where large is.
        let grown = |i: usize, j: usize| T::from_real([[1.0, large], [-1.0, large]][i][j]);
        let (a, b) = (
            general(2, 2, &grown),
            general(2, 1, &|_: usize, _: usize| T::one()),
        );
        let refused = lu::factor_and_solve(&a, &Pivots::new(&a), &b, BACKEND, &Inline);
        assert_eq!(refused.unwrap_err().name(), "overflow", "{}", T::PRECISION);
        let refused = whole::Lu::of((2, 2), &grown).and_then(|lu| lu.expect_regular());
        assert_eq!(refused.unwrap_err().name(), "overflow", "{}", T::PRECISION);
    }
    check::<f32>(3e38);
    check::<f64>(1.7e308);
    check::<c32>(3e38);
    check::<c64>(1.7e308);
}

/// In tiles of two the last column was told, of which what stands above the diagonal tile overflows.
#[test]
fn the_first_column_of_r_that_overflows_is_told_whichever_tile_it_is_in() {
    let large = 1e308;
    let columns = [
        [1.0, 1.0, 1.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        // Upright on the first one, and longer than any number; and twice as long along it.
        [large, -large, large, -large, 0.0, 0.0],
        [large, large, large, large, 0.0, 0.0],
    ];
    let entry = |i: usize, j: usize| columns[j][i];
    let is_told = |case: &str, refused: Option<LinalgError>| {
        let is_right = matches!(refused, Some(LinalgError::Overflow { col: 2, .. }));
        assert!(is_right, "{case}: {refused:?}");
    };
    for nb in [1, 2, 3, 6] {
        let cut = |cols| Layout::general(6, cols, nb).unwrap();
        let a = TiledMatrix::from_fn(cut(4), entry);
        let b = TiledMatrix::from_fn(cut(1), |_, _| 1.0);
        let refused = least_squares(&a, &b, Options::of_order(nb), BACKEND, &Inline);
        is_told(&format!("tiles of {nb}"), refused.err());
    }
    let refused = whole::least_squares((6, 4), &entry, 1, &|_: usize, _: usize| 1.0);
    is_told("whole", refused.err());
}

/// The head of a reflector less what it becomes is no number, and X was NaN; or the length of what is below
/// it was called infinite.
#[test]
fn columns_nearly_as_long_as_the_largest_number_are_reflected() {
    fn check<T: Scalar>(column: [T; 2]) {
        let (x, one) = (1e-298, T::one());
        let expect = |found: T, expected: f64, case: &str| {
            let off = (found.re() - expected).hypot(found.im()) / expected;
            assert!(off < 1e-13, "{case} of {column:?}: {found:?}");
        };
        let single = |i: usize, _: usize| column[i];
        let second = |i: usize, j: usize| match (i, j) {
            (0, 0) => one,
            (1 | 2, 1) => column[i - 1],
            _ => T::zero(),
        };
        let side = |i: usize, _: usize| column[i] * T::from_real(x);
        let sides = |i: usize, _: usize| match i {
            0 => one,
            _ => column[i - 1] * T::from_real(x),
        };
        let tiled = |a: &TiledMatrix<T>, b: &TiledMatrix<T>| {
            let solved = least_squares(a, b, Options::of_order(2), BACKEND, &Inline);
            let solved = solved.map(|(x, _)| x);
            solved
                .unwrap_or_else(|error| panic!("{} x {}, {column:?}: {error}", a.rows(), a.cols()))
        };
        let of_one = tiled(&general(2, 1, &single), &general(2, 1, &side));
        expect(of_one.get(0, 0).unwrap(), x, "tiled");
        let of_two = tiled(&general(3, 2, &second), &general(3, 1, &sides));
        expect(of_two.get(0, 0).unwrap(), 1.0, "tiled, first");
        expect(of_two.get(1, 0).unwrap(), x, "tiled, second");
        let of_one = whole::least_squares((2, 1), &single, 1, &side).unwrap();
        expect(of_one[0], x, "whole");
        let of_two = whole::least_squares((3, 2), &second, 1, &sides).unwrap();
        expect(of_two[0], 1.0, "whole, first");
        expect(of_two[1], x, "whole, second");
    }
    check([1.5e308, 0.5e308]);
    check([-1.5e308, 0.5e308]);
    check([0.1e308, 1.5e308]);
    check([c64::new(1.5e308, 0.0), c64::new(0.5e308, 0.0)]);
    check([c64::new(0.1e308, 1.2e308), c64::new(0.9e308, 0.0)]);
}

/// Qᴴ·B had a number that is none, and so had X, which was called a solution.
#[test]
fn right_hand_sides_that_overflow_on_their_way_are_no_solution() {
    fn check<T: Scalar>(large: f64) {
        let (one, options) = (|_: usize, _: usize| T::one(), Options::of_order(2));
        let side = |_: usize, j: usize| T::from_real([1.0, large][j]);
        let sides = || general(200, 2, &side);
        let is_refused = |refused: Option<LinalgError>| {
            let is_right = matches!(refused, Some(LinalgError::Overflow { col: 1, .. }));
            assert!(is_right, "{}: {refused:?}", T::PRECISION);
        };
        let a = general(200, 1, &one);
        is_refused(least_squares(&a, &sides(), options, BACKEND, &Inline).err());
        let a = general(200, 1, &one);
        let shortest =
            qr::least_squares_minimum_norm(&a, &sides(), None, options, BACKEND, &Inline);
        is_refused(shortest.err());
        let a = general(200, 1, &one);
        let (q, _) = qr::factor(&a, options, BACKEND, &Inline).unwrap();
        let (b, x) = (sides(), general(1, 2, &|_: usize, _: usize| T::zero()));
        let solved = qr::solve((&a, &q), Op::NoTranspose, (&b, &x), BACKEND, &Inline);
        is_refused(solved.err());
        is_refused(whole::least_squares((200, 1), &one, 2, &side).err());
        // The shortest solution of a sum is far smaller than the sum.
        let (a, b) = (general(1, 200, &one), general(1, 2, &side));
        let (x, _) = least_squares(&a, &b, options, BACKEND, &Inline).unwrap();
        let off = x.get(7, 1).unwrap().re() * (200.0 / large) - 1.0;
        assert!(off.abs() < 100.0 * T::EPSILON, "{}: {off:e}", T::PRECISION);
    }
    check::<f32>(3e38);
    check::<f64>(1.7e308);
    check::<c32>(3e38);
    check::<c64>(1.7e308);
}

#[test]
fn reflectors_take_the_smallest_numbers_that_there_are() {
    fn check<T: Scalar>(scale: f64) {
        // x + i·y nearest to (1, 2, 6): (1/2, 5/2)
        let entry = |i: usize, j: usize| T::from_real([1.0, i as f64][j] * scale);
        let side = |i: usize, _: usize| T::from_real([1.0, 2.0, 6.0][i] * scale);
        let (a, b) = (general(3, 2, &entry), general(3, 1, &side));
        let (x, _) = least_squares(&a, &b, Options::of_order(2), BACKEND, &Inline).unwrap();
        let found = [0, 1].map(|i| x.get(i, 0).unwrap().re());
        let off = (found[0] - 0.5).abs() + (found[1] - 2.5).abs();
        // So few digits has a number of this size.
        assert!(off < 0.05, "{} {scale:e}: {found:?}", T::PRECISION);
    }
    check::<f64>(1e-317);
    check::<c64>(1e-317);
    check::<f32>(1e-42);
    check::<c32>(1e-42);
}

/// Of matrices around 1e-310 the checks said inf.
#[test]
fn checks_of_subnormal_matrices_accept_what_is_right_and_nothing_else() {
    let n = 40;
    let scaled = |i: usize, j: usize| -> f64 {
        let entry: f64 = PositiveDefinite::new(n, 3).entry(i, j);
        entry * 1e-311
    };
    let l = lower(n, &scaled);
    cholesky::factor(&l, BACKEND, &Inline).unwrap();
    let ratio = cholesky::residual(&scaled, &l).unwrap();
    assert!(ratio < 30.0, "{ratio}");
    let wrong = |i: usize, j: usize| scaled(i, j) * if (i, j) == (7, 3) { 1.5 } else { 1.0 };
    let ratio = cholesky::residual(&wrong, &l).unwrap();
    assert!(ratio > 1e3 && ratio.is_finite(), "{ratio}");
    let scaled =
        |i: usize, j: usize| -> f64 { Entries::<f64>::entry(&Random::new(5), i, j) * 1e-310 };
    let factors = general(n, n, &scaled);
    let pivots = Pivots::new(&factors);
    lu::factor(&factors, &pivots, BACKEND, &Inline).unwrap();
    let ratio = lu::residual(&scaled, &factors, &pivots).unwrap();
    assert!(ratio < 30.0, "{ratio}");
    let wrong = |i: usize, j: usize| scaled(i, j) * if (i, j) == (7, 3) { 1.5 } else { 1.0 };
    let ratio = lu::residual(&wrong, &factors, &pivots).unwrap();
    assert!(ratio > 1e3 && ratio.is_finite(), "{ratio}");
}

/// X overflowed in the lower precision, and Inf ≤ Inf was called done.
#[test]
fn an_infinite_solution_is_not_refined_but_made_in_full_precision() {
    for structure in [Structure::Lower, Structure::General] {
        let entry = |_: usize, _: usize| 1e-30;
        let a = match structure {
            Structure::Lower => lower::<f64>(1, &entry),
            Structure::General => general::<f64>(1, 1, &entry),
        };
        let b = general::<f64>(1, 1, &|_: usize, _: usize| 1e30);
        let solved = refine::solve(&a, &b, BACKEND, &Inline).unwrap();
        assert!(
            matches!(
                solved.outcome,
                Refinement::FellBack(FallbackCause::Overflow)
            ),
            "{}",
            solved.outcome
        );
        let x = solved.x.get(0, 0).unwrap();
        assert!((x / 1e60 - 1.0).abs() < 1e-14, "{x:e}");
    }
}

/// Right-hand sides were brought to the size of 1, and solutions with small matrices were too large for
/// the lower precision.
#[test]
fn factors_of_a_small_matrix_take_the_side_again_that_they_were_made_for() {
    let entry = |i: usize, j: usize| if i == j { 2e-39 } else { 0.0 };
    for structure in [Structure::Lower, Structure::General] {
        let a = match structure {
            Structure::Lower => lower::<f64>(4, &entry),
            Structure::General => general::<f64>(4, 4, &entry),
        };
        let side = || general::<f64>(4, 1, &|_: usize, _: usize| 1e-5);
        let solved = refine::solve(&a, &side(), BACKEND, &Inline).unwrap();
        assert!(solved.outcome.lapack_iter() >= 0, "{}", solved.outcome);
        let again = side();
        let plain = Op::NoTranspose;
        let run = solved.factors.solve(&a, plain, &again, BACKEND, &Inline);
        run.unwrap();
        for x in [solved.x.get(0, 0).unwrap(), again.get(3, 0).unwrap()] {
            assert!((x / 5e33 - 1.0).abs() < 1e-14, "{structure:?}: {x:e}");
        }
    }
}

/// With factors in f32 alone the norm is off by κ·6e-8, here by up to some percent.
///
/// ‖H⁻¹‖₁ of the Hilbert matrix of order 5 is 413,280: its inverse has integer entries.
#[test]
fn the_condition_from_lower_factors_is_that_of_the_matrix() {
    let small = |i: usize, j: usize| if i == j { 2e-39 } else { 0.0 };
    let hilbert = |i: usize, j: usize| -> f64 { Hilbert.entry(i, j) };
    let entries: [(&dyn Entries<f64>, f64); 2] = [(&hilbert, 413_280.0), (&small, 5e38)];
    for ((entries, expected), structure) in entries
        .into_iter()
        .flat_map(|of| [Structure::Lower, Structure::General].map(|structure| (of, structure)))
    {
        let entry = |i: usize, j: usize| entries.entry(i, j);
        let a = match structure {
            Structure::Lower => lower::<f64>(5, &entry),
            Structure::General => general::<f64>(5, 5, &entry),
        };
        let b = general::<f64>(5, 1, &|_: usize, _: usize| 1.0 / expected);
        let solved = refine::solve(&a, &b, BACKEND, &Inline).unwrap();
        assert!(solved.outcome.lapack_iter() >= 0, "{}", solved.outcome);
        // Right-hand sides of any size, as weights of bounds are.
        for scale in [1.0, 1e-60, 1e200] {
            let norm = inverse_norm(5, |op, x: &mut [f64]| {
                let side = general::<f64>(5, 1, &|i: usize, _: usize| x[i] * scale);
                solved.factors.solve(&a, op, &side, BACKEND, &Inline)?;
                (0..5).for_each(|i| x[i] = side.get(i, 0).unwrap() / scale);
                Ok::<_, LinalgError>(())
            });
            let norm = norm.unwrap();
            assert!(
                (norm / expected - 1.0).abs() < 1e-9,
                "{structure:?} {scale:e}: {norm}"
            );
        }
    }
}
