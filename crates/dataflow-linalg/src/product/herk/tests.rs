//! Squares against plain loops: every operation, shape, cut and factor.

use super::*;
use crate::matrix::generate::Random;
use crate::matrix::{Entries, Layout};
use crate::product::cases::{GRIDS, OPS, applied, cut, general, prove, stored, vacant};
use crate::scalar::{c32, c64};
use dataflow_core::port::{Inline, Shuffled};
use proptest::prelude::*;

/// α·op(A)·op(A)ᴴ + β·C, or with the plain transpose, by three loops, against the graph.
fn check<T: Scalar>(
    (n, k): (usize, usize),
    (op, hermitian): (Op, bool),
    (alpha, beta): (T, T),
    cut: Layout,
    on: &dyn Executor,
) {
    let (rows, cols) = stored((n, k), op);
    let a = TiledMatrix::from_entries(general(rows, cols, cut), &Random::new(1));
    let before = |i: usize, j: usize| -> T {
        let entry: T = Random::new(9).entry(i, j);
        match hermitian && i == j {
            true => T::from_real(entry.re()),
            false => entry,
        }
    };
    let layout = Layout::lower(n, cut.nb())
        .unwrap()
        .with_format(cut.format());
    let c = TiledMatrix::from_fn(layout, before);
    let operand = match op {
        Op::NoTranspose => Operand::plain(&a),
        Op::Transpose => Operand::transposed(&a),
        Op::ConjTranspose => Operand::adjoint(&a),
    };
    let (alpha, beta, report) = match hermitian {
        true => {
            let (alpha, beta) = (alpha.re(), beta.re());
            let report = herk(alpha, operand, beta, &c, Backend::Auto, on);
            (T::from_real(alpha), T::from_real(beta), report)
        }
        false => (
            alpha,
            beta,
            syrk(alpha, operand, beta, &c, Backend::Auto, on),
        ),
    };
    assert_eq!(report.unwrap().copies(), 0);
    let at = |i, k| applied(|i, j| a.get(i, j).unwrap(), op, i, k);
    for (i, j) in (0..n).flat_map(|j| (j..n).map(move |i| (i, j))) {
        let other = |k| if hermitian { at(j, k).conj() } else { at(j, k) };
        let sum = (0..k).fold(T::zero(), |sum, k| sum + at(i, k) * other(k));
        let expected = alpha * sum + beta * before(i, j);
        let error = (c.get(i, j).unwrap() - expected).modulus();
        let allowed = 8.0 * (k as f64 + 2.0) * T::EPSILON;
        let what = format!("{n} x {k}, {} {op:?} {hermitian}", T::PRECISION);
        assert!(error <= allowed, "{what}: ({i}, {j}) is off by {error:e}");
    }
}

/// The operations that a square allows.
fn allowed<T: Scalar>(hermitian: bool) -> impl Iterator<Item = Op> {
    let refused = match hermitian {
        true => Op::Transpose,
        false => Op::ConjTranspose,
    };
    let allowed = move |op: &Op| !T::IS_COMPLEX || *op != refused;
    OPS.into_iter().filter(allowed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_square_is_that_of_three_loops(
        shape in (0usize..17, 0usize..17), nb in 1usize..8, sub_tiled: bool, hermitian: bool,
        factors in (-2i32..3, -2i32..3), seed: u64,
    ) {
        let on = Shuffled::new(seed).with_threads(2);
        let (cut, (alpha, beta)) = (cut(nb, sub_tiled), factors);
        for op in allowed::<f64>(hermitian) {
            let factors = (f64::from(alpha), f64::from(beta));
            check(shape, (op, hermitian), factors, cut, &on);
        }
        for op in allowed::<c32>(hermitian) {
            let factors = (c32::new(alpha as f32, 0.5), c32::new(beta as f32, 0.0));
            check(shape, (op, hermitian), factors, cut, &on);
        }
    }
}

#[test]
fn every_square_is_right_in_every_precision_with_ragged_tiles() {
    fn all<T: Scalar>() {
        let factors = (T::from_parts(0.5, -1.0), T::from_real(-1.0));
        for hermitian in [true, false] {
            for op in allowed::<T>(hermitian) {
                for shape in [(13, 6), (4, 11), (1, 1)] {
                    check(shape, (op, hermitian), factors, cut(5, false), &Inline);
                }
            }
        }
    }
    all::<f32>();
    all::<f64>();
    all::<c32>();
    all::<c64>();
}

#[test]
fn the_space_is_proved_on_every_grid() {
    for grid in GRIDS {
        for (n, k) in [(0, 2), (3, 0), (1, 1), (2, 6), (5, 3), (4, 7)] {
            let plain = vacant(Layout::general(n, k, 1).unwrap(), grid);
            let turned = vacant(Layout::general(k, n, 1).unwrap(), grid);
            let c = vacant(Layout::lower(n, 1).unwrap(), grid);
            for a in [Operand::plain(&plain), Operand::adjoint(&turned)] {
                for alpha in [0.0, 1.0] {
                    let space = Herk::new(alpha, a, 1.0, &c, Backend::Auto).unwrap();
                    prove(&space, grid, (n, k));
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let general = |m, n, nb| TiledMatrix::<c64>::zeros(Layout::general(m, n, nb).unwrap());
    let lower = |n, nb| TiledMatrix::<c64>::zeros(Layout::lower(n, nb).unwrap());
    let (a, c) = (general(4, 3, 2), lower(4, 2));
    let refused = |a, c: &TiledMatrix<c64>| {
        let refused = Herk::new(1.0, a, 1.0, c, Backend::Auto).unwrap_err();
        assert_eq!(refused.name(), "wrong_shape");
        refused.to_string()
    };
    assert!(refused(Operand::plain(&a), &lower(3, 2)).contains("3 x 3"));
    assert!(refused(Operand::plain(&a), &lower(4, 3)).contains("order 3"));
    assert!(refused(Operand::plain(&a), &general(4, 4, 2)).contains("General"));
    assert!(refused(Operand::plain(&c), &lower(4, 2)).contains("Lower"));
    assert!(refused(Operand::transposed(&a), &lower(3, 2)).contains("Transpose"));
    let one = c64::new(1.0, 0.0);
    let small = lower(3, 2);
    let adjoint = Herk::symmetric(one, Operand::adjoint(&a), one, &small, Backend::Auto);
    assert_eq!(adjoint.unwrap_err().name(), "wrong_shape");
}

#[test]
fn factors_that_the_precision_does_not_hold_are_refused() {
    let layout = Layout::general(2, 2, 2).unwrap();
    let a = TiledMatrix::<f32>::from_entries(layout, &Random::new(1));
    let c = TiledMatrix::zeros(Layout::lower(2, 2).unwrap());
    let is_refused = |alpha, beta| {
        let space = Herk::new(alpha, Operand::plain(&a), beta, &c, Backend::Auto);
        matches!(space, Err(LinalgError::Argument(_)))
    };
    for factor in [1e-46, -1e39] {
        assert!(is_refused(factor, 0.0), "{factor:e}");
        assert!(is_refused(1.0, factor), "{factor:e}");
    }
    for factor in [0.0, 1e-45, f64::INFINITY, f64::NAN] {
        assert!(!is_refused(factor, factor), "{factor:e}");
    }
}

/// LAPACK's own test of CHERK: with nothing to add the diagonal kept an imaginary part of −10¹⁰.
#[test]
fn a_hermitian_square_has_a_real_diagonal_also_where_nothing_is_added() {
    let strange = |i: usize, j: usize| match i == j {
        true => c64::new(0.3, -1e10),
        false => c64::new(0.5, 0.25),
    };
    for (alpha, k) in [(0.0, 3), (1.3, 0), (1.3, 3)] {
        for beta in [0.0, 1.0, 1.3] {
            let a = TiledMatrix::from_entries(Layout::general(5, k, 2).unwrap(), &Random::new(1));
            let c = TiledMatrix::<c64>::from_fn(Layout::lower(5, 2).unwrap(), strange);
            herk(alpha, Operand::plain(&a), beta, &c, Backend::Auto, &Inline).unwrap();
            for i in 0..5 {
                assert_eq!(c.get(i, i).unwrap().im, 0.0, "{alpha} {k} {beta} {i}");
            }
            let below = c.get(1, 0).unwrap().im;
            assert!((alpha != 0.0 && k > 0) || below == 0.25 * beta, "{below}");
        }
    }
}

#[test]
fn an_imaginary_part_on_the_diagonal_is_not_read_even_if_it_is_not_finite() {
    let a = TiledMatrix::from_entries(Layout::general(5, 3, 2).unwrap(), &Random::new(1));
    for im in [f64::NAN, f64::INFINITY] {
        for (alpha, beta) in [(0.0, 1.3), (1.3, 1.3), (1.3, 1.0), (1.3, -2.0)] {
            let squared = |im: f64| {
                let c = TiledMatrix::from_fn(Layout::lower(5, 2).unwrap(), |i, j| match i == j {
                    true => c64::new(0.3, im),
                    false => c64::new(0.5, 0.25),
                });
                herk(alpha, Operand::plain(&a), beta, &c, Backend::Auto, &Inline).unwrap();
                (0..5).map(|i| c.get(i, i).unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(squared(im), squared(0.0), "{im}, {alpha}, {beta}");
        }
    }
    let infinite = |_: usize, _: usize| c64::new(f64::INFINITY, 1.0);
    let c = TiledMatrix::from_fn(Layout::lower(1, 1).unwrap(), infinite);
    let empty = TiledMatrix::zeros(Layout::general(1, 0, 1).unwrap());
    herk(1.0, Operand::plain(&empty), 2.0, &c, Backend::Auto, &Inline).unwrap();
    assert_eq!(c.get(0, 0), Some(c64::new(f64::INFINITY, 0.0)));
}
