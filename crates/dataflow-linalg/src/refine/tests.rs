//! What is refined is as good as in full precision, or falls back; errors are below their bounds.

use super::entrywise::combine;
use super::{Bounds, Factors, FallbackCause, Refinement, solve};
use crate::error::{Given, LinalgError};
use crate::kernel::{Backend, Op};
use crate::lu::{self, Pivots};
use crate::matrix::digest::digest;
use crate::matrix::generate::{Conditioned, PositiveDefinite, Random};
use crate::matrix::norm::{Norm, norm};
use crate::matrix::{Distribution, Entries, Format, Grid, Layout, Structure, TiledMatrix};
use crate::scalar::{Scalar, c32, c64};
use crate::{cholesky, refine};
use dataflow_core::port::{Executor, Inline, Shuffled};
use dataflow_core::rank::Rank;

const AUTO: Backend = Backend::Auto;

/// A square matrix, stored as its lower triangle or whole.
fn square<T: Scalar>(structure: Structure, n: usize, entries: &impl Entries<T>) -> TiledMatrix<T> {
    let layout = match structure {
        Structure::Lower => Layout::lower(n, 8),
        Structure::General => Layout::general(n, n, 8),
    };
    let layout = layout.unwrap().with_format(Format::SubTiled { order: 5 });
    TiledMatrix::from_entries(layout, entries)
}

/// Right-hand sides, or solutions.
fn sides<T: Scalar>(n: usize, columns: usize, entries: &impl Entries<T>) -> TiledMatrix<T> {
    TiledMatrix::from_entries(Layout::general(n, columns, 8).unwrap(), entries)
}

/// The largest ‖b − A·x‖_∞ over ‖A‖_∞·‖x‖_∞·ε of all columns, by a plain loop.
fn backward_error<T: Scalar>(a: &impl Entries<T>, b: &TiledMatrix<T>, x: &TiledMatrix<T>) -> f64 {
    let n = b.rows();
    let largest = |of: &dyn Fn(usize) -> f64| (0..n).map(of).fold(0.0, f64::max);
    let of_a = largest(&|i| (0..n).map(|j| a.entry(i, j).modulus()).sum());
    let of_column = |c: usize| {
        let rest = |i: usize| {
            let times = (0..n).map(|j| a.entry(i, j) * x.get(j, c).unwrap());
            times.fold(b.get(i, c).unwrap(), |rest, term| rest - term)
        };
        let rest = largest(&|i| rest(i).modulus());
        let size = largest(&|i| x.get(i, c).unwrap().modulus());
        if rest == 0.0 {
            return 0.0;
        }
        rest / (of_a * size * T::EPSILON)
    };
    (0..b.cols()).map(of_column).fold(0.0, f64::max)
}

/// The solution by factors in full precision, and what it leaves of A.
fn in_full<T: Scalar>(a: &TiledMatrix<T>, b: &TiledMatrix<T>) -> [u64; 2] {
    let (a, x) = (
        square(a.structure(), a.rows(), a),
        sides(b.rows(), b.cols(), b),
    );
    match a.structure() {
        Structure::Lower => {
            cholesky::factor(&a, AUTO, &Inline).unwrap();
            cholesky::solve(&a, &x, AUTO, &Inline).unwrap();
        }
        Structure::General => {
            let pivots = Pivots::new(&a);
            lu::factor(&a, &pivots, AUTO, &Inline).unwrap();
            lu::solve(&a, &pivots, Op::NoTranspose, &x, AUTO, &Inline).unwrap();
        }
    }
    [bits(&x), bits(&a)]
}

fn bits<T: Scalar>(a: &TiledMatrix<T>) -> u64 {
    let text = digest(a).unwrap().to_string();
    u64::from_str_radix(&text, 16).unwrap()
}

#[test]
fn what_is_refined_is_as_good_as_factors_in_full_precision_under_every_schedule() {
    fn check<T: Scalar>(structure: Structure, a: &impl Entries<T>, (n, columns): (usize, usize)) {
        let case = format!("{} {structure:?} n = {n}, {columns} columns", T::PRECISION);
        let b = sides::<T>(n, columns, &Random::new(5));
        let solved = |executor: &dyn Executor| {
            let matrix = square(structure, n, a);
            let before = bits(&matrix);
            let solved = solve(&matrix, &b, AUTO, executor).unwrap();
            let iter = solved.outcome.lapack_iter();
            // Of one or two unknowns rounding alone may leave more than LAPACK's rule allows.
            assert!(
                iter >= 0 || iter == -31 && (1..3).contains(&n),
                "{case}: {}",
                solved.outcome
            );
            assert!(iter < 0 || bits(&matrix) == before, "{case}: A was changed");
            (solved.x, iter)
        };
        let (x, corrections) = solved(&Inline);
        // With factors of 24 bits nothing is right at once, unless there is next to nothing to do.
        assert!(corrections >= 1 || n < 3 || columns == 0, "{case}");
        assert!(corrections < 10, "{case}: {corrections}");
        let (error, least) = (backward_error(a, &b, &x), if n < 3 { 4.0 } else { 0.0 });
        // The plain loop rounds otherwise.
        let allowed = 1.5 * (n as f64).sqrt().max(least);
        assert!(error <= allowed, "{case}: {error}");
        for seed in 0..2 {
            let (again, same) = solved(&Shuffled::new(seed).with_threads(2));
            assert_eq!((bits(&again), same), (bits(&x), corrections), "{case}");
        }
    }
    for (n, columns) in [(0, 1), (1, 1), (2, 2), (13, 15), (45, 1), (31, 0)] {
        check::<f64>(Structure::Lower, &PositiveDefinite::new(n, 3), (n, columns));
        check::<f64>(Structure::General, &Random::new(3), (n, columns));
        check::<c64>(Structure::Lower, &PositiveDefinite::new(n, 3), (n, columns));
        check::<c64>(Structure::General, &Random::new(3), (n, columns));
        let conditioned = Conditioned::new(n, 1e4, 2).unwrap();
        check::<f64>(Structure::Lower, &conditioned, (n, columns));
        check::<c64>(Structure::General, &conditioned, (n, columns));
    }
}

#[test]
fn right_hand_sides_that_are_refused_stay_as_they_were() {
    let definite = PositiveDefinite::new(12, 3);
    let a = square::<c64>(Structure::Lower, 12, &definite);
    let solved = solve(&a, &sides(12, 1, &Random::new(1)), AUTO, &Inline).unwrap();
    assert!(solved.outcome.lapack_iter() >= 0, "{}", solved.outcome);
    for (op, rows) in [(Op::Transpose, 12), (Op::NoTranspose, 11)] {
        for times in [1.0, 0.0] {
            let random = Random::new(2);
            let entry = |i: usize, j: usize| Entries::<c64>::entry(&random, i, j) * times;
            let b = sides::<c64>(rows, 2, &entry);
            let before = bits(&b);
            let refused = solved.factors.solve(&a, op, &b, AUTO, &Inline);
            assert!(
                matches!(refused, Err(LinalgError::Shape(_))),
                "{op:?}, {rows} rows"
            );
            assert_eq!(bits(&b), before, "{op:?}, {rows} rows");
        }
    }
}

#[test]
fn right_hand_sides_that_are_spread_otherwise_are_refused_before_the_work() {
    let elsewhere = |columns: usize| {
        let grid = Distribution::BlockCyclic(Grid::new(1, 2).unwrap());
        let layout = Layout::general(12, columns, 8).unwrap();
        let layout = layout.distributed(grid, Rank(0)).unwrap();
        TiledMatrix::<f64>::from_entries(layout, &Random::new(2))
    };
    let expect_refused = |refused: Result<(), LinalgError>| {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("on 1x2 do not fit a matrix on 1x1"), "{text}");
    };
    // A is too large for the lower precision: it would be overwritten by its factors in the full one.
    let entry = |i: usize, j: usize| Entries::<f64>::entry(&Random::new(1), i, j) * 1e100;
    let (a, b) = (square(Structure::General, 12, &entry), elsewhere(1));
    let before = bits(&a);
    expect_refused(solve(&a, &b, AUTO, &Inline).map(drop));
    assert_eq!(bits(&a), before);
    // Nor are right-hand sides lost that come later.
    let a = square(Structure::General, 12, &PositiveDefinite::new(12, 3));
    let solved = solve(&a, &sides(12, 1, &Random::new(1)), AUTO, &Inline).unwrap();
    assert!(solved.outcome.lapack_iter() >= 0, "{}", solved.outcome);
    let before = bits(&b);
    let refused = solved.factors.solve(&a, Op::NoTranspose, &b, AUTO, &Inline);
    expect_refused(refused.map(drop));
    assert_eq!(bits(&b), before);
}

#[test]
fn a_column_that_is_right_at_once_does_not_stop_the_others() {
    let conditioned = Conditioned::new(10, 1e5, 2).unwrap();
    let entry = |i: usize, j: usize| match (i.checked_sub(10), j.checked_sub(10)) {
        (Some(i), Some(j)) => conditioned.entry(i, j),
        _ => f64::from(u8::from(i == j)),
    };
    // The first column and the last one meet the unit matrix only.
    let side = |i: usize, c: usize| f64::from(u8::from((i < 10) != (c == 1)));
    let b = sides(20, 3, &side);
    for structure in [Structure::Lower, Structure::General] {
        let a = square(structure, 20, &entry);
        let solved = solve(&a, &b, AUTO, &Inline).unwrap();
        assert!(solved.outcome.lapack_iter() > 0, "{}", solved.outcome);
        let error = backward_error(&entry, &b, &solved.x);
        assert!(error < 7.0, "{structure:?}: {error}");
    }
}

#[test]
fn what_half_the_precision_cannot_do_falls_back_to_the_bits_of_the_full_one_and_says_why() {
    fn check<T: Scalar>(a: &dyn Entries<T>, side: f64, structure: Structure, expected: &[i32]) {
        let n = 20;
        let entry = |i: usize, j: usize| a.entry(i, j);
        let a = square(structure, n, &entry);
        let b = sides(n, 2, &|i: usize, _: usize| {
            T::from_real(side * (1 + i) as f64)
        });
        let [x, factors] = in_full(&a, &b);
        let solved = solve(&a, &b, AUTO, &Inline).unwrap();
        let case = format!("{} {structure:?}: {}", T::PRECISION, solved.outcome);
        assert!(expected.contains(&solved.outcome.lapack_iter()), "{case}");
        assert_eq!([bits(&solved.x), bits(&a)], [x, factors], "{case}");
        // The factors solve on.
        let again = sides(n, 2, &b);
        let solution = solved
            .factors
            .solve(&a, Op::NoTranspose, &again, AUTO, &Inline);
        solution.unwrap();
        assert_eq!(bits(&again), x, "{case}");
    }
    fn check_all<T: Scalar>() {
        let definite = PositiveDefinite::new(20, 1);
        let definite = &definite;
        let scaled = |factor: f64| {
            move |i: usize, j: usize| {
                let entry: T = definite.entry(i, j);
                entry * T::from_real(factor)
            }
        };
        let (huge, tiny, plain) = (scaled(1e60), scaled(1e-60), scaled(1.0));
        // Once rounded, its first two rows are the same.
        let close = move |i: usize, j: usize| match (i, j) {
            (0 | 1, 0) | (0, 1) => T::one(),
            (1, 1) => T::from_real(1.0 + 1e-12),
            _ if i == j => T::one(),
            _ => T::zero(),
        };
        let distant = Conditioned::new(20, 1e11, 4).unwrap();
        // Each entry fits, some sums of two do not.
        let full = |i: usize, j: usize| {
            let entry: T = Random::new(6).entry(i, j);
            entry * T::from_real(6.8e38)
        };
        check::<T>(&full, 1.0, Structure::General, &[-2]);
        for structure in [Structure::Lower, Structure::General] {
            check::<T>(&huge, 1.0, structure, &[-2]);
            check::<T>(&plain, 1e60, structure, &[-2]);
            check::<T>(&tiny, 1e-60, structure, &[-3]);
            check::<T>(&close, 1.0, structure, &[-3]);
        }
        check::<T>(&distant, 1.0, Structure::General, &[-31]);
    }
    check_all::<f64>();
    check_all::<c64>();
    assert_eq!(
        Refinement::FellBack(FallbackCause::NotConverged).to_string(),
        "fell back to full precision: not converged after 30 corrections"
    );
}

#[test]
fn what_has_no_factor_at_all_or_does_not_fit_is_an_error() {
    let failed = |structure, entry: &dyn Entries<f64>, b: &TiledMatrix<f64>| {
        let entry = |i: usize, j: usize| entry.entry(i, j);
        let a = square(structure, 10, &entry);
        let solved = solve(&a, b, AUTO, &Inline);
        solved.err().unwrap()
    };
    let b = sides(10, 1, &|_: usize, _: usize| 1.0);
    let deficient = |i: usize, j: usize| f64::from(u8::from(i == j && i != 4));
    let negative = |i: usize, j: usize| if i == j { 6.5 - i as f64 } else { 0.0 };
    let spoiled = |i: usize, j: usize| if (i, j) == (7, 2) { f64::NAN } else { 1.0 };
    let error = failed(Structure::General, &deficient, &b);
    assert!(
        matches!(error, LinalgError::Singular { index: 5, .. }),
        "{error}"
    );
    let error = failed(Structure::Lower, &negative, &b);
    assert_eq!(
        (error.name(), error.index()),
        ("not_positive_definite", Some(8))
    );
    for structure in [Structure::Lower, Structure::General] {
        let error = failed(structure, &spoiled, &b);
        assert!(
            matches!(error, LinalgError::NotFinite { row: 7, col: 2, .. }),
            "{error}"
        );
    }
    let one = |_: usize, _: usize| 1.0;
    let long = sides(11, 1, &one);
    assert_eq!(
        failed(Structure::General, &one, &long).name(),
        "wrong_shape"
    );
    let spoiled = sides(10, 1, &|i: usize, _: usize| {
        if i == 7 { f64::NAN } else { 1.0 }
    });
    assert_eq!(
        failed(Structure::Lower, &one, &spoiled).name(),
        "not_finite"
    );
}

/// A matrix with a solution that is known, and factors to solve with.
struct Known<T: Scalar> {
    a: TiledMatrix<T>,
    /// L, or L and U.
    factors: TiledMatrix<T>,
    pivots: Option<Pivots<T>>,
    exact: TiledMatrix<T>,
    b: TiledMatrix<T>,
    x: TiledMatrix<T>,
}

impl<T: Scalar> Known<T> {
    /// B is A·X₀ for random X₀, each entry rounded once in f32 and a few times in f64.
    fn new(structure: Structure, n: usize, columns: usize, entry: &dyn Entries<T>) -> Self {
        let entry = |i: usize, j: usize| entry.entry(i, j);
        let (a, factors) = (square(structure, n, &entry), square(structure, n, &entry));
        let exact = sides::<T>(n, columns, &Random::new(9));
        let wide = |x: T| c64::new(x.re(), x.im());
        let times = |i: usize, c: usize| {
            let terms = (0..n).map(|j| wide(a.get(i, j).unwrap()) * wide(exact.get(j, c).unwrap()));
            let sum: c64 = terms.sum();
            T::from_parts(sum.re, sum.im)
        };
        let (b, x) = (sides(n, columns, &times), sides(n, columns, &times));
        let pivots = (structure == Structure::General).then(|| Pivots::new(&factors));
        match &pivots {
            None => {
                cholesky::factor(&factors, AUTO, &Inline).unwrap();
                cholesky::solve(&factors, &x, AUTO, &Inline).unwrap();
            }
            Some(pivots) => {
                lu::factor(&factors, pivots, AUTO, &Inline).unwrap();
                lu::solve(&factors, pivots, Op::NoTranspose, &x, AUTO, &Inline).unwrap();
            }
        }
        Known {
            a,
            factors,
            pivots,
            exact,
            b,
            x,
        }
    }

    fn bounds(&self, executor: &dyn Executor) -> Vec<Bounds> {
        let (a, of_x) = (&self.a, (&self.b, &self.x));
        let bounds = match &self.pivots {
            None => cholesky::error_bounds(a, &self.factors, of_x, AUTO, executor),
            Some(pivots) => lu::error_bounds(a, (&self.factors, pivots), of_x, AUTO, executor),
        };
        bounds.unwrap()
    }

    fn improve(&self) -> Vec<Bounds> {
        let (a, of_x) = (&self.a, (&self.b, &self.x));
        let bounds = match &self.pivots {
            None => cholesky::improve(a, &self.factors, of_x, AUTO, &Inline),
            Some(pivots) => lu::improve(a, (&self.factors, pivots), of_x, AUTO, &Inline),
        };
        bounds.unwrap()
    }

    fn condition(&self) -> f64 {
        let norm = norm(&self.a, Norm::One, &Inline).unwrap();
        let condition = match &self.pivots {
            None => cholesky::condition(&self.factors, norm, AUTO, &Inline),
            Some(pivots) => lu::condition(&self.factors, pivots, norm, AUTO, &Inline),
        };
        condition.unwrap()
    }

    /// ‖x − x₀‖_∞ of a column over ‖x‖_∞.
    fn error(&self, column: usize) -> f64 {
        let largest = |of: &dyn Fn(usize) -> f64| (0..self.a.rows()).map(of).fold(0.0, f64::max);
        let x = |i| self.x.get(i, column).unwrap();
        let error = largest(&|i| (x(i) - self.exact.get(i, column).unwrap()).modulus());
        error / largest(&|i| x(i).modulus())
    }

    /// The componentwise backward error of a column, by a plain loop; nothing is near underflow.
    fn backward(&self, column: usize) -> f64 {
        let n = self.a.rows();
        let of_row = |i: usize| {
            let (b, start) = (self.b.get(i, column).unwrap(), T::zero());
            let terms = (0..n).map(|j| (self.a.get(i, j).unwrap(), self.x.get(j, column).unwrap()));
            let scale: f64 = terms.clone().map(|(a, x)| a.modulus() * x.modulus()).sum();
            let rest = b - terms.fold(start, |sum, (a, x)| sum + a * x);
            rest.modulus() / (scale + b.modulus())
        };
        (0..n).map(of_row).fold(0.0, f64::max)
    }
}

#[test]
fn the_error_is_below_its_bound_which_is_not_far_above_it() {
    fn check<T: Scalar>(structure: Structure, entry: &dyn Entries<T>) {
        let mut known = Known::new(structure, 24, 3, entry);
        let case = format!("{} {structure:?}", T::PRECISION);
        let bounds = known.bounds(&Inline);
        let again = known.bounds(&Shuffled::new(3).with_threads(2));
        assert_eq!(bounds, again, "{case}");
        for (column, found) in bounds.iter().enumerate() {
            let error = known.error(column);
            assert!(error <= found.forward, "{case}: {error:e}, {found:?}");
            assert!(found.forward <= 1e3 * error, "{case}: {error:e}, {found:?}");
            assert!(found.backward < 10.0 * T::EPSILON, "{case}: {found:?}");
            let difference = (found.backward - known.backward(column)).abs();
            assert!(difference < 3.0 * T::EPSILON, "{case}: {difference:e}");
        }
        // A solution that is spoiled in one entry of one column has bounds that say so, and of that
        // column alone; it is mended.
        let (slot, wrong) = (known.x.slot(1, 0).unwrap(), T::from_real(0.01));
        let spoil = |tile: &mut crate::matrix::Tile<T>| tile.set(2, 1, tile.get(2, 1) + wrong);
        known.x.store_mut().update(slot, spoil).unwrap();
        let spoiled = known.bounds(&Inline);
        let error = known.error(1);
        assert!(error > 5e-3, "{case}: {error:e}");
        assert!(
            error <= spoiled[1].forward,
            "{case}: {error:e}, {spoiled:?}"
        );
        assert!(
            spoiled[1].forward < 1e3 * error,
            "{case}: {error:e}, {spoiled:?}"
        );
        let difference = (spoiled[1].backward / known.backward(1) - 1.0).abs();
        assert!(difference < 1e-3, "{case}: {difference:e}");
        assert_eq!((spoiled[0], spoiled[2]), (bounds[0], bounds[2]), "{case}");
        let mended = known.improve();
        assert!(mended[1].backward < 10.0 * T::EPSILON, "{case}: {mended:?}");
        assert!(known.error(1) <= mended[1].forward && mended[1].forward < 1e3 * bounds[1].forward);
    }
    fn check_all<T: Scalar>() {
        let conditioned = Conditioned::new(24, 100.0, 2).unwrap();
        check::<T>(Structure::Lower, &PositiveDefinite::new(24, 3));
        check::<T>(Structure::Lower, &conditioned);
        check::<T>(Structure::General, &conditioned);
        check::<T>(Structure::General, &Random::new(3));
    }
    check_all::<f32>();
    check_all::<f64>();
    check_all::<c32>();
    check_all::<c64>();
}

#[test]
fn the_bound_is_the_norm_of_the_formula_up_to_what_an_estimate_misses() {
    fn check<T: Scalar>() {
        let n = 12;
        // Rows of very different size: A⁻¹ and A⁻ᴴ have little in common.
        let entry = |i: usize, j: usize| {
            let entry: T = Random::new(2).entry(i, j);
            entry * T::from_real(3f64.powi(i as i32))
        };
        let known = Known::<T>::new(Structure::General, n, 1, &entry);
        let inverse =
            TiledMatrix::from_fn(Layout::general(n, n, 8).unwrap(), |i, j| match i == j {
                true => T::one(),
                false => T::zero(),
            });
        let pivots = known.pivots.as_ref().unwrap();
        lu::solve(
            &known.factors,
            pivots,
            Op::NoTranspose,
            &inverse,
            AUTO,
            &Inline,
        )
        .unwrap();
        let size = |a: &TiledMatrix<T>, i: usize, j: usize| a.get(i, j).unwrap().modulus();
        // |R| is some roundings of W, far below the n + 1 that are added to it.
        let weight = |i: usize| {
            let terms = (0..n).map(|j| size(&known.a, i, j) * size(&known.x, j, 0));
            (n + 1) as f64 * T::EPSILON * (terms.sum::<f64>() + size(&known.b, i, 0))
        };
        let row = |i: usize| {
            (0..n)
                .map(|j| size(&inverse, i, j) * weight(j))
                .sum::<f64>()
        };
        let largest = |of: &dyn Fn(usize) -> f64| (0..n).map(of).fold(0.0, f64::max);
        let exact = largest(&row) / largest(&|i| size(&known.x, i, 0));
        let ratio = known.bounds(&Inline)[0].forward / exact;
        assert!((0.33..1.3).contains(&ratio), "{}: {ratio}", T::PRECISION);
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

/// LAPACK's tests 5 to 7 of PO and GE: dchkpo and dchkge with dget04, dpot05 and dget07; on their
/// condition numbers and sizes.
#[test]
fn every_ratio_of_lapacks_tests_5_to_7_is_below_30() {
    fn check<T: Scalar>(kind: usize, n: usize, structure: Structure, n_ratios: &mut usize) {
        let precision = 2.0 * T::EPSILON;
        let smallest: f64 = match T::EPSILON < 1e-10 {
            true => f64::MIN_POSITIVE,
            false => f32::MIN_POSITIVE.into(),
        };
        let small = 0.25 * (smallest / precision);
        let (condition, size) = match kind {
            2 => ((0.1 / precision).sqrt(), 1.0),
            3 => (2.0, small),
            4 => (2.0, 1.0 / small),
            _ => (2.0, 1.0),
        };
        let conditioned = Conditioned::new(n, condition, 7).unwrap();
        let entry = |i: usize, j: usize| {
            // Of a whole matrix the columns in reverse: no diagonal is large.
            let j = if structure == Structure::Lower {
                j
            } else {
                n - 1 - j
            };
            let x: c64 = conditioned.entry(i, j);
            let kept = if kind > 0 || i == j { size } else { 0.0 };
            T::from_parts(x.re * kept, x.im * kept)
        };
        for columns in [1, 2, 15] {
            let known = Known::<T>::new(structure, n, columns, &entry);
            let condition = known.condition();
            for (column, found) in known.improve().into_iter().enumerate() {
                let error = known.error(column);
                // dget07's allowance for sums near underflow.
                let terms = (n + 1) as f64;
                let scale = |i: usize| {
                    let term = |j| {
                        let (a, x) = (known.a.get(i, j), known.x.get(j, column));
                        a.unwrap().modulus() * x.unwrap().modulus()
                    };
                    (0..n).map(term).sum::<f64>() + known.b.get(i, column).unwrap().modulus()
                };
                let least = (0..n).map(scale).fold(f64::INFINITY, f64::min);
                let allowance = terms * smallest / least.max(terms * smallest);
                let ratios = [
                    error / (condition * T::EPSILON),
                    error / found.forward,
                    found.backward / (terms * T::EPSILON + allowance),
                ];
                for (test, ratio) in (5..).zip(ratios) {
                    let ratio = if error == 0.0 && test < 7 { 0.0 } else { ratio };
                    let name = T::PRECISION;
                    assert!(
                        ratio < 30.0,
                        "{name} {structure:?} kind {kind} n = {n}, test {test}: {ratio}"
                    );
                    *n_ratios += 1;
                }
            }
        }
    }
    fn check_all<T: Scalar>() -> usize {
        let mut n_ratios = 0;
        for (kind, n) in (0..5).flat_map(|kind| [1, 2, 3, 5, 10, 50].map(|n| (kind, n))) {
            check::<T>(kind, n, Structure::Lower, &mut n_ratios);
            check::<T>(kind, n, Structure::General, &mut n_ratios);
        }
        n_ratios
    }
    let counts = [
        check_all::<f32>(),
        check_all::<f64>(),
        check_all::<c32>(),
        check_all::<c64>(),
    ];
    assert_eq!(counts, [5 * 6 * 2 * 18 * 3; 4]);
}

/// The moduli of A·X and B add up to no number; what is left of B was over that, 0, and X was called exact.
#[test]
fn a_wrong_solution_whose_moduli_overflow_is_not_called_exact() {
    fn check<T: Scalar>(large: f64) {
        let entry = |i: usize, j: usize| T::from_real([[large, -large], [0.0, 1.0]][i][j]);
        let (a, factors) = (
            square(Structure::General, 2, &entry),
            square(Structure::General, 2, &entry),
        );
        let pivots = Pivots::new(&factors);
        lu::factor(&factors, &pivots, AUTO, &Inline).unwrap();
        let b = sides(2, 1, &|i: usize, _: usize| T::from_real([large, 1.0][i]));
        // The solution is (2, 1).
        let x = sides(2, 1, &|_: usize, _: usize| T::one());
        let (lu, of_x) = ((&factors, &pivots), (&b, &x));
        let found = lu::error_bounds(&a, lu, of_x, AUTO, &Inline).unwrap()[0];
        let improved = lu::improve(&a, lu, of_x, AUTO, &Inline).unwrap()[0];
        for Bounds { forward, backward } in [found, improved] {
            assert!(backward.is_nan(), "{}: {backward}", T::PRECISION);
            assert!(forward.is_nan() || forward >= 0.5, "{forward}");
        }
    }
    check::<f32>(3e38);
    check::<f64>(1e308);
    check::<c32>(3e38);
    check::<c64>(1e308);
}

#[test]
fn an_empty_system_has_bounds_of_zero_and_nan_stays_nan() {
    let empty = Known::<f64>::new(Structure::Lower, 0, 2, &PositiveDefinite::new(1, 1));
    let zero = Bounds {
        forward: 0.0,
        backward: 0.0,
    };
    assert_eq!(empty.bounds(&Inline), [zero; 2]);
    let mut known = Known::<f64>::new(Structure::General, 9, 1, &Random::new(1));
    let spoil = |tile: &mut crate::matrix::Tile<f64>| tile.set(3, 0, f64::NAN);
    known.x.store_mut().update(0, spoil).unwrap();
    let found = known.bounds(&Inline);
    let Bounds { forward, backward } = found[0];
    assert!(
        backward.is_nan() && (forward.is_nan() || forward >= 1.0),
        "{found:?}"
    );
    let side = sides::<f64>(8, 1, &Random::new(1));
    let mut never = |_: Op, _: &TiledMatrix<f64>| panic!("nothing is solved");
    let refused = refine::bounds(&known.a, (&known.b, &side), AUTO, &Inline, &mut never);
    assert_eq!(refused.unwrap_err().name(), "wrong_shape");
}

/// Its residual over its scale is 0/0.
#[test]
fn a_side_of_zeros_is_solved_and_has_bounds() {
    let a = square::<f64>(Structure::Lower, 5, &PositiveDefinite::new(5, 1));
    let zeros = || sides::<f64>(5, 1, &|_: usize, _: usize| 0.0);
    let (b, x) = (zeros(), zeros());
    let l = square::<f64>(Structure::Lower, 5, &PositiveDefinite::new(5, 1));
    cholesky::factor(&l, AUTO, &Inline).unwrap();
    let mut with = |_: Op, x: &TiledMatrix<f64>| cholesky::solve(&l, x, AUTO, &Inline);
    let found = refine::bounds(&a, (&b, &x), AUTO, &Inline, &mut with).unwrap();
    let Bounds { forward, backward } = found[0];
    assert!(backward == 1.0 && forward < 1e-290, "{found:?}");
}

/// Nothing of X is stored, but what is the largest in a column took 8 bytes for each.
#[test]
fn an_empty_system_of_2_to_the_60_sides_is_solved_and_its_bounds_are_refused() {
    let of = |cols: usize| TiledMatrix::<f64>::zeros(Layout::general(0, cols, 1 << 40).unwrap());
    let (a, b, x) = (of(0), of(1 << 60), of(1 << 60));
    let solved = solve(&a, &b, AUTO, &Inline).unwrap();
    assert_eq!((solved.x.rows(), solved.x.cols()), (0, 1 << 60));
    let mut never = |_: Op, _: &TiledMatrix<f64>| panic!("nothing is solved");
    for refused in [
        refine::bounds(&a, (&b, &x), AUTO, &Inline, &mut never),
        refine::improve(&a, (&b, &x), AUTO, &Inline, &mut never),
    ] {
        assert_eq!(refused.unwrap_err().name(), "wrong_shape");
    }
}

/// A tile was taken from its matrix, and then the one beside it was not there.
#[test]
fn a_matrix_whose_partner_has_no_tiles_keeps_its_own() {
    let a = sides::<f64>(12, 2, &Random::new(2));
    let vacant = TiledMatrix::<f64>::vacant(*a.layout(), a.memory().clone());
    let before = bits(&a);
    assert!(combine("add", &a, &vacant, &Inline, |x, y| x + y).is_err());
    assert_eq!(bits(&a), before);
}

/// B was cleared before the factors were found not to fit.
#[test]
fn factors_of_another_matrix_are_refused_and_right_hand_sides_stay() {
    let definite = PositiveDefinite::new(12, 3);
    let solved = |a: &TiledMatrix<f64>| {
        let b = TiledMatrix::from_fn(Layout::general(a.rows(), 1, a.nb()).unwrap(), |_, _| 1.0);
        let solved = solve(a, &b, AUTO, &Inline).unwrap();
        assert!(matches!(solved.factors, Factors::Lower(..)));
        solved.factors
    };
    let a = |structure, n| square::<f64>(structure, n, &definite);
    let [lower, general] = [Structure::Lower, Structure::General];
    let cut = Layout::general(12, 12, 5).unwrap();
    let others = [
        (solved(&a(lower, 12)), a(general, 12)),
        (solved(&a(general, 12)), a(lower, 12)),
        (solved(&a(lower, 11)), a(lower, 12)),
        (
            solved(&TiledMatrix::from_entries(cut, &definite)),
            a(general, 12),
        ),
    ];
    for (case, (factors, a)) in others.iter().enumerate() {
        let b = sides::<f64>(12, 2, &Random::new(2));
        let before = bits(&b);
        let refused = factors.solve(a, Op::NoTranspose, &b, AUTO, &Inline);
        assert!(matches!(refused, Err(LinalgError::Shape(_))), "case {case}");
        assert_eq!(bits(&b), before, "case {case}");
    }
}

/// They were corrected 30 times without end, since no correction is below the smallest number.
#[test]
fn further_sides_may_be_as_small_as_the_smallest_numbers() {
    let unit = f64::from_bits(1);
    for structure in [Structure::Lower, Structure::General] {
        let a = square::<f64>(structure, 2, &|i: usize, j: usize| {
            [0.0, 3.0][usize::from(i == j)]
        });
        let b = sides::<f64>(2, 1, &|_: usize, _: usize| 1.0);
        let factors = solve(&a, &b, AUTO, &Inline).unwrap().factors;
        assert!(matches!(factors, Factors::Lower(..)));
        let b = sides::<f64>(2, 2, &|i: usize, j: usize| {
            [[20.0 * unit, 3.0], [-30.0 * unit, 6.0]][i][j]
        });
        factors
            .solve(&a, Op::NoTranspose, &b, AUTO, &Inline)
            .unwrap();
        let x = |i, j| b.get(i, j).unwrap();
        assert_eq!([x(0, 0), x(1, 0)], [7.0 * unit, -10.0 * unit]);
        assert_eq!([x(0, 1), x(1, 1)], [1.0, 2.0]);
        // X = 0 leaves so little that no correction would make it less.
        let b = sides::<f64>(2, 1, &|_: usize, _: usize| 2.0 * unit);
        factors
            .solve(&a, Op::NoTranspose, &b, AUTO, &Inline)
            .unwrap();
        assert_eq!(b.get(0, 0), Some(unit));
    }
}

/// With no right-hand sides a factor that does not fit was never noticed.
#[test]
fn bounds_of_no_right_hand_sides_refuse_a_factor_of_another_order() {
    let definite = PositiveDefinite::new(12, 3);
    let [a, l] = [12, 9].map(|n| square::<f64>(Structure::Lower, n, &definite));
    let [b, x] = [1, 2].map(|seed| sides::<f64>(12, 0, &Random::new(seed)));
    let of_x = (&b, &x);
    for refused in [
        cholesky::error_bounds(&a, &l, of_x, AUTO, &Inline),
        cholesky::improve(&a, &l, of_x, AUTO, &Inline),
    ] {
        assert!(matches!(refused, Err(LinalgError::Shape(_))), "{refused:?}");
    }
}

/// All 31 solutions were computed, B was lost, and full factors answered NaN.
#[test]
fn further_sides_that_are_not_finite_are_refused_and_stay() {
    let entry = |i: usize, j: usize| if i == j { 4.0 + i as f64 } else { 1.0 };
    for structure in [Structure::Lower, Structure::General] {
        let a = square(structure, 10, &entry);
        let solved = solve(&a, &sides(10, 1, &|_: usize, _: usize| 1.0), AUTO, &Inline).unwrap();
        assert!(matches!(solved.factors, Factors::Lower(..)));
        let full = square(structure, 10, &entry);
        let pivots = match structure {
            Structure::Lower => {
                cholesky::factor(&full, AUTO, &Inline).unwrap();
                None
            }
            Structure::General => {
                let pivots = lu::Pivots::new(&full);
                lu::factor(&full, &pivots, AUTO, &Inline).unwrap();
                Some(pivots)
            }
        };
        for (a, factors) in [(&a, &solved.factors), (&full, &Factors::Full(pivots))] {
            for bad in [f64::NAN, f64::INFINITY] {
                let side = |i: usize, j: usize| if (i, j) == (7, 1) { bad } else { 2.0 };
                let b = sides(10, 2, &side);
                let refused = factors
                    .solve(a, Op::NoTranspose, &b, AUTO, &Inline)
                    .unwrap_err();
                let is_named = matches!(
                    refused,
                    LinalgError::NotFinite {
                        row: 7,
                        col: 1,
                        of: Given::RightHandSides,
                        ..
                    }
                );
                assert!(is_named, "{structure:?}: {refused}");
                assert_eq!(b.get(3, 0), Some(2.0), "{structure:?}");
            }
        }
    }
}
