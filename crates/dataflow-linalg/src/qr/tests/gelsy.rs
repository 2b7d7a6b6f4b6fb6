//! Ranks, shortest solutions and what they leave, beside those of LAPACK's `gelsy`.

use super::deficient::{
    around_the_gap, by_values, graded, hilbert, kahan, minus_ones, of_rank, plain, random, rounded,
    tiled, turned, with_clear_rank,
};
use crate::kernel::{Backend, openblas};
use crate::qr::{Options, Tree, least_squares_minimum_norm};
use crate::scalar::{Scalar, c32, c64};
use dataflow_core::port::Inline;
use faer::Mat;

/// The entries of a matrix by columns, with as many rows as are asked for.
fn columns<T: Scalar>(a: &Mat<c64>, rows: usize) -> Vec<T> {
    let entry = |i: usize, j: usize| match i < a.nrows() {
        true => T::from_parts(a[(i, j)].re, a[(i, j)].im),
        false => T::zero(),
    };
    let all = (0..a.ncols()).flat_map(|j| (0..rows).map(move |i| (i, j)));
    all.map(|(i, j)| entry(i, j)).collect()
}

/// LAPACK's solution, and the rank that it finds.
fn by_lapack<T: Scalar>(a: &Mat<c64>, b: &Mat<c64>, rcond: f64) -> (Mat<c64>, usize) {
    let (m, n, nrhs) = (a.nrows(), a.ncols(), b.ncols());
    let height = m.max(n);
    let (mut factored, mut x) = (columns::<T>(a, m), columns::<T>(b, height));
    let (info, rank) = openblas::gelsy((m, n), &mut factored, nrhs, &mut x, rcond);
    assert_eq!(info, 0);
    let at = |i: usize, j: usize| x[i + j * height];
    let x = Mat::from_fn(n, nrhs, |i, j| c64::new(at(i, j).re(), at(i, j).im()));
    (x, rank)
}

/// Both libraries find one rank, solutions of one length, and leave as much.
fn expect_agreement<T: Scalar>(what: &str, a: &Mat<c64>, rcond: f64, nb: usize) {
    let a = turned::<T>(a);
    let (m, n) = (a.nrows(), a.ncols());
    let sides = [random(m, 2, 99), &a * random(n, 2, 98)];
    for (b, fits) in sides.into_iter().zip([false, true]) {
        let b = rounded::<T>(&b);
        let options = Options::of_order(nb).with_tree(Tree::Greedy);
        let (left, right) = (tiled::<T>(&a, nb), tiled::<T>(&b, nb));
        let solved =
            least_squares_minimum_norm(&left, &right, Some(rcond), options, Backend::Auto, &Inline);
        let (x, rank, _) = solved.unwrap();
        let x = plain(&x);
        let (theirs, their_rank) = by_lapack::<T>(&a, &b, rcond);
        let side = if fits { "that fits" } else { "at random" };
        let what = format!(
            "{what}, {m} x {n} in tiles of {nb}, {}, B {side}",
            T::PRECISION
        );
        assert_eq!(rank, their_rank, "{what}: ranks");
        let [first, last, next] = around_the_gap(&a, rank);
        if first == 0.0 {
            assert_eq!((x.norm_l2(), theirs.norm_l2()), (0.0, 0.0), "{what}");
            continue;
        }
        // What rounding errors and the values that were dropped change, relative to A: in X times the
        // condition, and times its square what B has beside the range of A.
        let changed = 2.0 * (next / first + n as f64 * T::EPSILON);
        let condition = first / last;
        let exact = by_values(&a, &b, rcond).0;
        let rest = (&b - &a * &exact).norm_l2();
        let length = exact.norm_l2();
        let bound = changed * condition * (length + condition * rest / first);
        let off = (x.norm_l2() - theirs.norm_l2()).abs();
        assert!(
            off <= bound,
            "{what}: lengths are {off:e} apart, more than {bound:e}"
        );
        let [ours, theirs] = [&x, &theirs].map(|x| (&b - &a * x).norm_l2());
        let bound = changed * (first * length + condition * rest + b.norm_l2());
        let off = (ours - theirs).abs();
        assert!(
            off <= bound,
            "{what}: what is left is {off:e} apart, more than {bound:e}"
        );
    }
}

#[test]
fn ranks_and_lengths_are_those_of_lapack_where_the_rank_is_clear() {
    fn check<T: Scalar>(orders: &[usize]) {
        for (what, a, rcond) in with_clear_rank(T::EPSILON) {
            orders
                .iter()
                .for_each(|&nb| expect_agreement::<T>(what, &a, rcond, nb));
        }
        for (shape, rank) in [((40, 25), 11), ((25, 40), 24), ((33, 33), 1)] {
            let a = of_rank(shape.0, shape.1, rank, 5);
            expect_agreement::<T>("random of a rank", &a, T::EPSILON.sqrt(), orders[0]);
        }
    }
    check::<f64>(&[7, 3, 40]);
    check::<c64>(&[7]);
    check::<f32>(&[7]);
    check::<c32>(&[7]);
}

#[test]
fn graded_kahan_and_hilbert_matrices_are_solved_as_lapack_solves_them() {
    for nb in [3, 7, 32] {
        for condition in [1e6, 1e9, 1e12] {
            expect_agreement::<f64>("graded", &graded(32, 31, condition, 1), 1e-14, nb);
            expect_agreement::<f64>("graded", &graded(20, 40, condition, 1), 1e-14, nb);
            expect_agreement::<c64>("graded", &graded(40, 20, condition, 1), 1e-14, nb);
        }
        expect_agreement::<f64>("kahan", &kahan(30), 1e-9, nb);
        expect_agreement::<f64>("kahan", &kahan(60), 3e-7, nb);
        expect_agreement::<f64>("a triangle", &minus_ones(24), 1e-10, nb);
        expect_agreement::<f64>("a triangle", &minus_ones(40), 1e-8, nb);
        for rank in [3, 6, 9] {
            let a = hilbert(20, 12);
            let [first, last, next] = around_the_gap(&a, rank);
            let rcond = (last / first * next / first).sqrt();
            expect_agreement::<f64>("hilbert", &a, rcond, nb);
        }
    }
}
