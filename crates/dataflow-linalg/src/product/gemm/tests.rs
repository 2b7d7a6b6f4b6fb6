//! The product against plain loops: every operand, shape, tile order, format and factor.

use super::*;
use crate::kernel::Op;
use crate::matrix::generate::Random;
use crate::matrix::{Entries, Layout};
use crate::product::cases::{OPS, cut, vacant};
use crate::scalar::{c32, c64};
use dataflow_core::port::{Inline, Shuffled};
use proptest::prelude::*;

/// An operand of `rows × cols`, and its entries as a plain function.
struct Given<T: Scalar> {
    matrix: TiledMatrix<T>,
    op: Op,
}

impl<T: Scalar> Given<T> {
    /// With `hermitian` a square one of which the lower triangle is stored.
    fn new((rows, cols): (usize, usize), op: Op, hermitian: bool, seed: u64, cut: Layout) -> Self {
        let layout = match (hermitian, op) {
            (true, _) => Layout::lower(rows, cut.nb()),
            (false, Op::NoTranspose) => Layout::general(rows, cols, cut.nb()),
            _ => Layout::general(cols, rows, cut.nb()),
        };
        let layout = layout.unwrap().with_format(cut.format());
        let matrix = TiledMatrix::from_entries(layout, &Random::new(seed));
        Given { matrix, op }
    }

    fn operand(&self) -> Operand<'_, T> {
        match self.op {
            Op::NoTranspose => Operand::plain(&self.matrix),
            Op::Transpose => Operand::transposed(&self.matrix),
            Op::ConjTranspose => Operand::adjoint(&self.matrix),
        }
    }

    /// What enters at (i, j).
    fn at(&self, i: usize, j: usize) -> T {
        if self.matrix.structure() == Structure::Lower && i == j {
            return T::from_real(self.matrix.get(i, i).unwrap().re());
        }
        match self.op {
            _ if self.matrix.structure() == Structure::Lower => self.matrix.get(i, j).unwrap(),
            Op::NoTranspose => self.matrix.get(i, j).unwrap(),
            Op::Transpose => self.matrix.get(j, i).unwrap(),
            Op::ConjTranspose => self.matrix.get(j, i).unwrap().conj(),
        }
    }
}

/// α·A·B + β·C by three loops, against the graph under one schedule.
fn compare<T: Scalar>(
    (m, n, k): (usize, usize, usize),
    (a, b): (&Given<T>, &Given<T>),
    (alpha, beta): (T, T),
    cut: Layout,
    on: &dyn Executor,
) {
    let layout = Layout::general(m, n, cut.nb()).unwrap();
    let layout = layout.with_format(cut.format());
    let before = |i: usize, j: usize| -> T { Random::new(9).entry(i, j) };
    let c = TiledMatrix::from_fn(layout, before);
    let report = gemm(alpha, a.operand(), b.operand(), beta, &c, Backend::Auto, on).unwrap();
    assert_eq!(report.copies(), 0);
    for (i, j) in (0..n).flat_map(|j| (0..m).map(move |i| (i, j))) {
        let sum = (0..k).fold(T::zero(), |sum, l| sum + a.at(i, l) * b.at(l, j));
        let expected = alpha * sum + beta * before(i, j);
        let error = (c.get(i, j).unwrap() - expected).modulus();
        let allowed = 8.0 * (k as f64 + 2.0) * T::EPSILON;
        let what = format!("{m} x {n} x {k}, {} {:?} {:?}", T::PRECISION, a.op, b.op);
        assert!(error <= allowed, "{what}: ({i}, {j}) is off by {error:e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_product_is_that_of_three_loops(
        shape in (0usize..17, 0usize..17, 0usize..17),
        nb in 1usize..8, sub_tiled: bool,
        ops in (0usize..3, 0usize..3), factors in (-2i32..3, -2i32..3),
        seed: u64,
    ) {
        fn check<T: Scalar>(
            shape: (usize, usize, usize), cut: Layout, ops: (usize, usize),
            (alpha, beta): (i32, i32), on: &dyn Executor,
        ) {
            let (m, n, k) = shape;
            let a = Given::<T>::new((m, k), OPS[ops.0], false, 1, cut);
            let b = Given::new((k, n), OPS[ops.1], false, 2, cut);
            let factors = (T::from_parts(alpha.into(), 0.5), T::from_parts(beta.into(), 0.0));
            compare(shape, (&a, &b), factors, cut, on);
        }
        let cut = cut(nb, sub_tiled);
        let on = Shuffled::new(seed).with_threads(2);
        check::<f64>(shape, cut, ops, factors, &on);
        check::<c32>(shape, cut, ops, factors, &on);
    }

    #[test]
    fn a_hermitian_operand_stands_on_either_side_or_both(
        n in 0usize..14, other in 0usize..9, nb in 1usize..7, both: bool, adjoint: bool,
    ) {
        fn check<T: Scalar>(n: usize, other: usize, nb: usize, both: bool, op: Op) {
            let cut = Layout::general(1, 1, nb).unwrap();
            let hermitian = |seed, op| Given::<T>::new((n, n), op, true, seed, cut);
            let right = Given::new((n, other), Op::NoTranspose, false, 5, cut);
            let left = Given::new((other, n), Op::NoTranspose, false, 6, cut);
            let factors = (T::from_real(-1.0), T::one());
            let (a, b) = (hermitian(3, op), hermitian(4, Op::NoTranspose));
            if both {
                return compare((n, n, n), (&a, &b), factors, cut, &Inline);
            }
            compare((n, other, n), (&a, &right), factors, cut, &Inline);
            compare((other, n, n), (&left, &b), factors, cut, &Inline);
        }
        let op = if adjoint { Op::ConjTranspose } else { Op::NoTranspose };
        check::<f32>(n, other, nb, both, op);
        check::<c64>(n, other, nb, both, op);
    }
}

/// Values whose product is exact, by another program: order, trace, sum, sum of squares.
#[test]
fn a_product_of_small_integers_is_exact() {
    let a = |i: usize, j: usize| ((i + 2 * j) % 7) as f64 - 3.0;
    let b = |i: usize, j: usize| ((3 * i + j) % 5) as f64 - 2.0;
    for (n, trace, sum, squares) in [(64, 20.0, 5.0, 186_775.0), (256, -7.0, 9.0, 4_453_195.0)] {
        for nb in [32, 50, 300] {
            let layout = Layout::general(n, n, nb).unwrap();
            let (a, b) = (
                TiledMatrix::from_fn(layout, a),
                TiledMatrix::from_fn(layout, b),
            );
            let c = TiledMatrix::from_fn(layout, |_, _| f64::NAN);
            let (a, b) = (Operand::plain(&a), Operand::plain(&b));
            gemm(1.0, a, b, 0.0, &c, Backend::Auto, &Inline).unwrap();
            let all = c.to_column_major().unwrap();
            let diagonal: f64 = all.iter().step_by(n + 1).sum();
            assert_eq!(diagonal, trace, "n = {n}, nb = {nb}");
            assert_eq!(all.iter().sum::<f64>(), sum, "n = {n}, nb = {nb}");
            assert_eq!(all.iter().map(|x| x * x).sum::<f64>(), squares, "n = {n}");
        }
    }
}

#[test]
fn a_factor_of_zero_reads_nothing() {
    let nan = |m, n| TiledMatrix::from_fn(Layout::general(m, n, 2).unwrap(), |_, _| f32::NAN);
    let (a, b, c) = (nan(5, 3), nan(3, 4), nan(5, 4));
    gemm(
        0.0,
        Operand::plain(&a),
        Operand::plain(&b),
        0.0,
        &c,
        Backend::Auto,
        &Inline,
    )
    .unwrap();
    assert_eq!(c.to_column_major().unwrap(), [0.0; 20]);
}

#[test]
fn the_space_is_proved_for_every_operand_on_every_grid() {
    for grid in [(1, 1), (2, 2), (2, 3)] {
        let general = |m, n| vacant(Layout::general(m, n, 1).unwrap(), grid);
        for (m, n, k) in [
            (0, 2, 2),
            (2, 0, 3),
            (2, 3, 0),
            (1, 1, 1),
            (3, 2, 7),
            (4, 5, 6),
            (2, 7, 9),
        ] {
            let (a, a_adjoint) = (general(m, k), general(k, m));
            let (b, b_adjoint) = (general(k, n), general(n, k));
            let [a_lower, b_lower] = [m, n].map(|n| vacant(Layout::lower(n, 1).unwrap(), grid));
            let (for_a, for_b, c) = (general(m, n), general(m, n), general(m, n));
            let prove = |a, b, alpha, c: &TiledMatrix<f64>| {
                let space = Gemm::new(alpha, a, b, 1.0, c, Backend::Auto).unwrap();
                verify(&space, grid.0 * grid.1)
                    .unwrap_or_else(|fault| panic!("{m} x {n} x {k} on {grid:?}: {fault}"));
            };
            for (a, b) in [
                (Operand::plain(&a), Operand::plain(&b)),
                (Operand::adjoint(&a_adjoint), Operand::plain(&b)),
                (Operand::plain(&a), Operand::transposed(&b_adjoint)),
            ] {
                prove(a, b, 1.0, &c);
                prove(a, b, 0.0, &c);
            }
            prove(Operand::plain(&a_lower), Operand::plain(&for_a), 1.0, &c);
            prove(Operand::plain(&for_b), Operand::adjoint(&b_lower), 1.0, &c);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_all_shapes() {
    let general = |m, n, nb| TiledMatrix::<c64>::zeros(Layout::general(m, n, nb).unwrap());
    let lower = TiledMatrix::<c64>::zeros(Layout::lower(4, 2).unwrap());
    let (a, b, c) = (general(4, 3, 2), general(3, 5, 2), general(4, 5, 2));
    let refused = |a, b, c: &TiledMatrix<c64>| {
        let one = c64::new(1.0, 0.0);
        Gemm::new(one, a, b, one, c, Backend::Auto)
            .unwrap_err()
            .to_string()
    };
    let (plain, square) = (Operand::plain(&a), general(4, 4, 2));
    assert!(refused(plain, plain, &c).contains("4 x 3 and 4 x 3"));
    assert!(refused(plain, Operand::plain(&b), &general(5, 4, 2)).contains("5 x 4"));
    assert!(refused(plain, Operand::plain(&b), &general(4, 5, 3)).contains("order 3"));
    assert!(refused(Operand::plain(&square), Operand::plain(&square), &lower).contains("Lower"));
    assert!(
        refused(Operand::plain(&square), Operand::plain(&square), &square).contains("operands")
    );
    assert!(
        refused(
            Operand::transposed(&lower),
            Operand::plain(&square),
            &general(4, 4, 2)
        )
        .contains("adjoint")
    );
}

/// The parameters that two ranks would not agree on.
fn differing(spaces: [&Gemm<'_, f64>; 2]) -> Vec<String> {
    let [a, b] = spaces.map(|space| {
        let mut about = Description::default();
        space.describe(&mut about);
        about.parameters().to_vec()
    });
    assert_eq!(a.len(), b.len());
    let pairs = a.into_iter().zip(b).filter(|(a, b)| a != b);
    pairs.map(|((name, _), _)| name).collect()
}

#[test]
fn ranks_agree_on_how_the_operands_enter() {
    let general = |m, n| vacant(Layout::general(m, n, 4).unwrap(), (1, 2));
    let (square, triangle) = (general(4, 4), vacant(Layout::lower(4, 4).unwrap(), (1, 2)));
    let (b, c) = (general(4, 8), general(4, 8));
    let space = |a| Gemm::new(1.0, a, Operand::plain(&b), 0.0, &c, Backend::Auto).unwrap();
    let plain = space(Operand::plain(&square));
    assert!(differing([&plain, &plain]).is_empty());
    let adjoint = space(Operand::adjoint(&square));
    assert_eq!(differing([&plain, &adjoint]), ["ops"]);
    let hermitian = space(Operand::plain(&triangle));
    assert_eq!(differing([&plain, &hermitian]), ["structures"]);
}
