//! The edges: nothing, or one, of rows, columns or right-hand sides; zeros; entries that are not finite,
//! wherever they stand; numbers near the smallest and the largest.

use crate::LinalgError;
use crate::error::Given;
use crate::kernel::Backend;
use crate::matrix::generate::Random;
use crate::matrix::{Entries, Layout, TiledMatrix};
use crate::product::{Operand, gemm, residual};
use crate::qr::{
    Options, check, factor, least_squares, least_squares_minimum_norm, least_squares_ratio,
    pivoted, pseudo_inverse, solution_ratio,
};
use crate::scalar::{Scalar, c32, c64};
use dataflow_core::port::Inline;

const SHAPES: [(usize, usize); 11] = [
    (0, 0),
    (0, 2),
    (2, 0),
    (1, 1),
    (1, 3),
    (3, 1),
    (2, 2),
    (2, 5),
    (3, 5),
    (5, 3),
    (5, 5),
];
const AUTO: Backend = Backend::Auto;

fn tiled<T: Scalar>(m: usize, n: usize, nb: usize, entries: &impl Entries<T>) -> TiledMatrix<T> {
    TiledMatrix::from_entries(Layout::general(m, n, nb).unwrap(), entries)
}

#[test]
fn every_shape_has_its_factors_and_solutions_at_every_scale() {
    fn of<T: Scalar>((m, n): (usize, usize), nrhs: usize, nb: usize, scale: f64) {
        let case = format!("{} {m} x {n}, {nrhs}, {nb}, {scale:e}", T::PRECISION);
        let expect = |ratio: f64| assert!(ratio < 30.0, "{case}: {ratio}");
        let (random, scale) = (Random::new(8), T::from_real(scale));
        let entries = |i: usize, j: usize| Entries::<T>::entry(&random, i, j) * scale;
        let side = |i: usize, j: usize| entries(i, 20 + j);
        let (a, b) = (|| tiled(m, n, nb, &entries), || tiled(m, nrhs, nb, &side));
        let options = Options::of_order(nb);

        let factored = a();
        let (q, _) = factor(&factored, options, AUTO, &Inline).unwrap();
        let ratios = check(&entries, &factored, &q, &Inline).unwrap();
        expect(ratios.residual);
        expect(ratios.orthogonality);

        let solved = least_squares(&a(), &b(), options, AUTO, &Inline);
        let (x, _) = solved.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!((x.rows(), x.cols()), (n, nrhs), "{case}");
        expect(solution_ratio(&a(), &b(), &x, &Inline).unwrap());

        let solved = least_squares_minimum_norm(&a(), &b(), None, options, AUTO, &Inline);
        let (x, rank, _) = solved.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!((x.rows(), x.cols(), rank), (n, nrhs, m.min(n)), "{case}");
        expect(solution_ratio(&a(), &b(), &x, &Inline).unwrap());
        expect(least_squares_ratio(&a(), &b(), &x, 0.0, &Inline).unwrap());

        // A·P = Q·R
        let original = a();
        let factors = pivoted(&original, None, options, AUTO, &Inline).unwrap();
        let (q, r) = (
            factors.q(AUTO, &Inline).unwrap(),
            factors.r(&Inline).unwrap(),
        );
        let order = factors.order();
        let moved = tiled(m, n, nb, &|i: usize, j: usize| entries(i, order[j]));
        let rest = residual(Operand::plain(&q), Operand::plain(&r), &moved, &Inline);
        expect(rest.unwrap().over(m.max(n).max(1)));
    }
    for shape in SHAPES {
        for nrhs in 0..3 {
            for nb in [1, 2, 7] {
                for scale in [1e-310, 1.0, 1e300] {
                    of::<f64>(shape, nrhs, nb, scale);
                    of::<c64>(shape, nrhs, nb, scale);
                }
                for scale in [1e-40, 1.0, 1e35] {
                    of::<f32>(shape, nrhs, nb, scale);
                    of::<c32>(shape, nrhs, nb, scale);
                }
            }
        }
    }
}

#[test]
fn every_shape_has_its_pseudo_inverse() {
    for (m, n) in SHAPES {
        for nb in [1, 2, 7] {
            let a = || tiled::<c64>(m, n, nb, &Random::new(9));
            let made = pseudo_inverse(&a(), None, Options::of_order(nb), AUTO, &Inline);
            let (inverse, rank, _) = made.unwrap();
            assert_eq!((inverse.rows(), inverse.cols(), rank), (n, m, m.min(n)));
            // A·A⁺·A is A.
            let (original, projected) = (a(), tiled(m, m, nb, &|_: usize, _: usize| c64::ZERO));
            let operands = [&original, &inverse].map(Operand::plain);
            let [one, zero] = [1.0, 0.0].map(c64::from);
            gemm(
                one,
                operands[0],
                operands[1],
                zero,
                &projected,
                AUTO,
                &Inline,
            )
            .unwrap();
            let rest = residual(Operand::plain(&projected), operands[0], &a(), &Inline).unwrap();
            assert!(rest.difference < 1e-12, "{m} x {n}, {nb}: {rest:?}");
        }
    }
}

#[test]
fn of_zeros_the_rank_is_0_and_the_shortest_solution_is_zero() {
    let (zero, one) = (|_: usize, _: usize| 0.0, |_: usize, _: usize| 1.0);
    for (m, n) in SHAPES {
        for nb in [1, 2, 7] {
            let (a, b) = (|| tiled::<f64>(m, n, nb, &zero), || tiled(m, 2, nb, &one));
            let options = Options::of_order(nb);
            let refused = least_squares(&a(), &b(), options, AUTO, &Inline).map(drop);
            match (refused, m.min(n) as u64) {
                (Ok(()), 0) => {}
                (Err(LinalgError::RankDeficient { rank: 0, full, .. }), k) if full == k => {}
                other => panic!("{m} x {n}, {nb}: {other:?}"),
            }
            let (x, rank, _) =
                least_squares_minimum_norm(&a(), &b(), None, options, AUTO, &Inline).unwrap();
            assert_eq!((rank, x.to_column_major().unwrap()), (0, vec![0.0; 2 * n]));
            let (inverse, rank, _) = pseudo_inverse(&a(), None, options, AUTO, &Inline).unwrap();
            assert_eq!(
                (rank, inverse.to_column_major().unwrap()),
                (0, vec![0.0; m * n])
            );
        }
    }
}

#[test]
fn an_entry_that_is_not_finite_is_named_wherever_it_stands() {
    let named = |error: LinalgError| match error {
        LinalgError::NotFinite { of, row, col, .. } => (of, row as usize, col as usize),
        error => panic!("{error}"),
    };
    for ((m, n), nb) in SHAPES
        .into_iter()
        .flat_map(|shape| [1, 2, 7].map(|nb| (shape, nb)))
    {
        let options = Options::of_order(nb);
        let one = |_: usize, _: usize| 1.0;
        for (bad, at) in (0..m * n).map(|at| ([f64::NAN, f64::NEG_INFINITY][at % 2], at)) {
            let (row, col) = (at % m, at / m);
            let entry = |i: usize, j: usize| if (i, j) == (row, col) { bad } else { 1.0 };
            let (a, b) = (|| tiled(m, n, nb, &entry), || tiled(m, 1, nb, &one));
            for refused in [
                factor(&a(), options, AUTO, &Inline).map(drop),
                pivoted(&a(), None, options, AUTO, &Inline).map(drop),
                pseudo_inverse(&a(), None, options, AUTO, &Inline).map(drop),
                least_squares(&a(), &b(), options, AUTO, &Inline).map(drop),
                least_squares_minimum_norm(&a(), &b(), None, options, AUTO, &Inline).map(drop),
            ] {
                assert_eq!(named(refused.unwrap_err()), (Given::Matrix, row, col));
            }
        }
        for at in 0..2 * m {
            let (row, col) = (at % m, at / m);
            let entry = |i: usize, j: usize| if (i, j) == (row, col) { f64::NAN } else { 1.0 };
            let a = || tiled::<f64>(m, n, nb, &Random::new(3));
            let b = || tiled(m, 2, nb, &entry);
            for refused in [
                least_squares(&a(), &b(), options, AUTO, &Inline).map(drop),
                least_squares_minimum_norm(&a(), &b(), None, options, AUTO, &Inline).map(drop),
            ] {
                assert_eq!(
                    named(refused.unwrap_err()),
                    (Given::RightHandSides, row, col)
                );
            }
        }
    }
}
