//! Products with triangles against plain loops: every side, triangle, operation, shape and cut.

use super::*;
use crate::matrix::generate::Random;
use crate::matrix::{Entries, Layout};
use crate::product::Substitution;
use crate::product::cases::{GRIDS, OPS, applied, cut, general, prove, vacant};
use crate::scalar::{c32, c64};
use dataflow_core::port::{Inline, Shuffled};
use dataflow_core::space::Erased;
use proptest::prelude::*;

/// A case: whether it is a solve, the side, the operation, the shape of the triangle, whether the
/// matrix stores it alone.
#[derive(Clone, Copy, Debug)]
struct Case {
    solves: bool,
    side: Side,
    op: Op,
    triangle: Triangle,
    diagonal: Diagonal,
    alone: bool,
}

impl Case {
    /// One of 48, and of those with a lower triangle twice.
    fn new(number: usize) -> Self {
        let bit = |place: usize| number >> place & 1 == 1;
        let lower = bit(2);
        Case {
            solves: bit(0),
            side: if bit(1) { Side::Left } else { Side::Right },
            triangle: if lower {
                Triangle::Lower
            } else {
                Triangle::Upper
            },
            diagonal: if bit(3) {
                Diagonal::Unit
            } else {
                Diagonal::NonUnit
            },
            alone: lower && bit(4),
            op: OPS[number / 32 % 3],
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..96).map(Case::new)
    }

    fn operand<'a, T: Scalar>(&self, matrix: &'a TiledMatrix<T>) -> TriangularOperand<'a, T> {
        let operand = match self.triangle {
            Triangle::Lower => TriangularOperand::lower(matrix),
            Triangle::Upper => TriangularOperand::upper(matrix),
        };
        match self.diagonal {
            Diagonal::Unit => operand.unit().with(self.op),
            Diagonal::NonUnit => operand.with(self.op),
        }
    }

    fn space<'a, T: Scalar>(
        &self,
        alpha: T,
        a: &'a TiledMatrix<T>,
        b: &'a TiledMatrix<T>,
    ) -> Erased<'a, Tile<T>> {
        let a = self.operand(a);
        match self.solves {
            true => Erased::of(Substitution::new(self.side, alpha, a, b, Backend::Auto).unwrap()),
            false => Erased::of(Triangular::new(self.side, alpha, a, b, Backend::Auto).unwrap()),
        }
    }

    /// What the triangle holds: small beside the diagonal, so that a solve is well conditioned.
    fn entry<T: Scalar>(&self, n: usize, i: usize, j: usize) -> T {
        let inside = match self.triangle {
            Triangle::Lower => i > j,
            Triangle::Upper => i < j,
        };
        let random: T = Random::new(7).entry(i, j);
        match (i == j, self.diagonal) {
            (true, Diagonal::Unit) => T::one(),
            (true, Diagonal::NonUnit) => random + T::from_real(2.0),
            (false, _) if inside => random * T::from_real(1.0 / n as f64),
            (false, _) => T::zero(),
        }
    }

    /// The same, with what must not be read spoiled.
    fn stored<T: Scalar>(&self, n: usize, i: usize, j: usize) -> T {
        let entry = self.entry(n, i, j);
        let unread = (i == j && self.diagonal == Diagonal::Unit)
            || (i != j && (i > j) != (self.triangle == Triangle::Lower));
        if unread {
            T::from_real(f64::NAN)
        } else {
            entry
        }
    }

    /// Runs the case on an m × n matrix; compares with the plain loop.
    fn check<T: Scalar>(
        &self,
        (m, n): (usize, usize),
        alpha: T,
        cut: Layout,
        on: &dyn Executor,
    ) -> Result<(), TestCaseError> {
        let order = if self.side == Side::Left { m } else { n };
        let layout = match self.alone {
            true => Layout::lower(order, cut.nb())
                .unwrap()
                .with_format(cut.format()),
            false => general(order, order, cut),
        };
        let a = TiledMatrix::from_fn(layout, |i, j| self.stored::<T>(order, i, j));
        let before = |i: usize, j: usize| -> T { Random::new(9).entry(i, j) };
        let b = TiledMatrix::from_fn(general(m, n, cut), before);
        let space = self.space(alpha, &a, &b);
        let report = T::run_tiles(&space, &[&a, &b], on).unwrap();
        let most = if self.solves { 0 } else { b.n_slots() as u64 };
        prop_assert!(report.copies() <= most, "{} copies", report.copies());
        let after = |i: usize, j: usize| b.get(i, j).unwrap();
        // A solve multiplied back is what was given.
        let [factor, expected]: [&dyn Fn(usize, usize) -> T; 2] = match self.solves {
            true => [&after, &before],
            false => [&before, &after],
        };
        let (given, made) = match self.solves {
            true => (alpha, T::one()),
            false => (T::one(), alpha),
        };
        for (i, j) in (0..n).flat_map(|j| (0..m).map(move |i| (i, j))) {
            let of_a = |i, j| applied(|i, j| self.entry::<T>(order, i, j), self.op, i, j);
            let terms = (0..order).map(|k| match self.side {
                Side::Left => of_a(i, k) * factor(k, j),
                Side::Right => factor(i, k) * of_a(k, j),
            });
            let product = terms.fold(T::zero(), |sum, term| sum + term);
            let error = (made * product - given * expected(i, j)).modulus();
            let allowed = 40.0 * (order as f64 + 2.0) * T::EPSILON;
            let what = format!("{self:?} {} {m} x {n}", T::PRECISION);
            prop_assert!(error <= allowed, "{what}: ({i}, {j}) is off by {error:e}");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn every_product_with_a_triangle_is_that_of_plain_loops(
        case in 0usize..96, shape in (0usize..17, 0usize..17),
        nb in 1usize..8, sub_tiled: bool, alpha in -2i32..3, seed: u64,
    ) {
        let (case, cut) = (Case::new(case), cut(nb, sub_tiled));
        let on = Shuffled::new(seed).with_threads(2);
        case.check(shape, f64::from(alpha), cut, &on)?;
        case.check(shape, c32::new(alpha as f32, 0.5), cut, &on)?;
    }
}

#[test]
fn every_case_is_right_in_every_precision_with_ragged_tiles() {
    fn check<T: Scalar>(case: Case) {
        for shape in [(13, 6), (4, 11), (1, 1)] {
            let alpha = T::from_parts(0.5, -1.0);
            let checked = case.check(shape, alpha, cut(5, false), &Inline);
            checked.unwrap_or_else(|fault| panic!("{case:?}: {fault}"));
        }
    }
    for case in Case::all() {
        check::<f32>(case);
        check::<f64>(case);
        check::<c32>(case);
        check::<c64>(case);
    }
}

/// A triangle of `nt` tiles a side and `columns` tile columns beside it, without tiles.
fn vacant_case(
    case: Case,
    (nt, columns): (usize, usize),
    grid: (u32, u32),
) -> (TiledMatrix<f64>, TiledMatrix<f64>) {
    let a = match case.alone {
        true => Layout::lower(nt, 1),
        false => Layout::general(nt, nt, 1),
    };
    let b = match case.side {
        Side::Left => Layout::general(nt, columns, 1),
        Side::Right => Layout::general(columns, nt, 1),
    };
    (vacant(a.unwrap(), grid), vacant(b.unwrap(), grid))
}

#[test]
fn the_space_is_proved_for_every_case_on_every_grid() {
    for case in Case::all().filter(|case| case.diagonal == Diagonal::NonUnit) {
        for grid in GRIDS {
            for size in [(0, 2), (3, 0), (1, 1), (2, 3), (6, 1), (7, 2)] {
                let (a, b) = vacant_case(case, size, grid);
                for alpha in [0.0, 2.0] {
                    prove(&case.space(alpha, &a, &b), grid, (case, size, alpha));
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let general = |m, n, nb| TiledMatrix::<f64>::zeros(Layout::general(m, n, nb).unwrap());
    let lower = TiledMatrix::zeros(Layout::lower(4, 2).unwrap());
    let (square, b) = (general(4, 4, 2), general(4, 3, 2));
    let refused = |side, a, b: &TiledMatrix<f64>| {
        let refused = Triangular::new(side, 1.0, a, b, Backend::Auto).unwrap_err();
        let of_solve = Substitution::new(side, 1.0, a, b, Backend::Auto).unwrap_err();
        assert_eq!(of_solve.to_string(), refused.to_string());
        assert_eq!(refused.name(), "wrong_shape");
        refused.to_string()
    };
    let fits = TriangularOperand::lower(&square);
    assert!(refused(Side::Right, fits, &b).contains("4 x 4"));
    assert!(refused(Side::Left, TriangularOperand::lower(&b), &b).contains("4 x 3"));
    assert!(refused(Side::Left, fits, &general(4, 3, 3)).contains("tiles of 3"));
    assert!(refused(Side::Left, fits, &lower).contains("Lower"));
    assert!(refused(Side::Left, TriangularOperand::upper(&lower), &b).contains("upper"));
    assert!(refused(Side::Left, fits, &square).contains("another"));
}

/// They were Rust's `Some(TriangleForm { .. })` and `Complex { .. }`.
#[test]
fn parameters_are_shown_as_users_write_them() {
    let square = || TiledMatrix::<c64>::zeros(Layout::general(8, 8, 4).unwrap());
    let (a, b) = (square(), square());
    let lower = TriangularOperand::lower(&a).unit();
    let alpha = c64::new(0.5, -2.0);
    let solve = Substitution::new(Side::Left, alpha, lower, &b, Backend::Auto).unwrap();
    let mut about = Description::default();
    solve.describe(&mut about);
    let expected = [
        ("down", "NoTranspose, Lower, Unit"),
        ("up", "none"),
        ("alpha", "0.5-2i"),
    ];
    for (name, value) in expected {
        let found = about.parameters().iter().find(|(told, _)| told == name);
        assert_eq!(found.unwrap().1, value, "{name}");
    }
}
