//! Matrices without full rank, or nearly so: ranks, shortest solutions and pseudo-inverses beside
//! those of the singular values; what is refused, and what is not.

use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::matrix::digest::digest;
use crate::matrix::generate::Random;
use crate::matrix::{Distribution, Entries, Format, Grid, Layout, Tile, TiledMatrix};
use crate::qr::leading::{Compare, is_clearly_regular, leading, leading_of_tile};
use crate::qr::{
    Options, Tree, choose, default_rcond, factor, least_squares, least_squares_minimum_norm,
    least_squares_ratio, pivoted, pseudo_inverse, solution_ratio,
};
use crate::scalar::{Scalar, c32, c64};
use dataflow_core::port::{Block, Executor, Heap, Inline, Memory, Shuffled};
use dataflow_core::rank::Rank;
use faer::Mat;
use std::sync::{Arc, Mutex};

/// LAPACK's threshold.
const LARGEST_RATIO: f64 = 30.0;

/// Real numbers, uniform in (−½, ½).
pub(in crate::qr) fn random(m: usize, n: usize, seed: u64) -> Mat<c64> {
    let random = Random::new(seed);
    Mat::from_fn(m, n, |i, j| {
        let real: f64 = random.entry(i, j);
        c64::new(real, 0.0)
    })
}

/// A matrix of the same singular values as a real one, and with numbers of `T`: of complex ones every
/// row and column gets a phase.
pub(in crate::qr) fn turned<T: Scalar>(a: &Mat<c64>) -> Mat<c64> {
    let phase = |turn: f64| c64::from_polar(1.0, if T::IS_COMPLEX { turn } else { 0.0 });
    let turned = Mat::from_fn(a.nrows(), a.ncols(), |i, j| {
        a[(i, j)] * phase(0.7 * i as f64 - 1.3 * j as f64)
    });
    rounded::<T>(&turned)
}

/// Columns that are orthogonal and of length 1.
fn orthonormal(m: usize, n: usize, seed: u64) -> Mat<c64> {
    let svd = random(m, n, seed).thin_svd().unwrap();
    svd.U() * svd.V().adjoint()
}

/// U·diag(σ)·Vᴴ
fn of_values(m: usize, n: usize, values: &[f64], seed: u64) -> Mat<c64> {
    let k = values.len();
    let (u, v) = (orthonormal(m, k, seed), orthonormal(n, k, seed + 1));
    let scaled = Mat::from_fn(m, k, |i, j| u[(i, j)] * values[j]);
    scaled * v.adjoint()
}

/// Singular values from 1 down to 1/κ, in even steps of their logarithm.
pub(in crate::qr) fn graded(m: usize, n: usize, condition: f64, seed: u64) -> Mat<c64> {
    let k = m.min(n);
    let step = |i: usize| condition.powf(-(i as f64) / (k as f64 - 1.0).max(1.0));
    of_values(m, n, &(0..k).map(step).collect::<Vec<_>>(), seed)
}

/// Kahan's triangle: pivoting finds nothing to exchange, and no diagonal element is as small as its
/// smallest singular value.
pub(super) fn kahan(n: usize) -> Mat<c64> {
    let (sine, cosine) = 1.2f64.sin_cos();
    Mat::from_fn(n, n, |i, j| {
        let row = sine.powi(i as i32);
        let entry = match i.cmp(&j) {
            std::cmp::Ordering::Less => -cosine * row,
            std::cmp::Ordering::Equal => row,
            std::cmp::Ordering::Greater => 0.0,
        };
        c64::new(entry, 0.0)
    })
}

pub(super) fn hilbert(m: usize, n: usize) -> Mat<c64> {
    Mat::from_fn(m, n, |i, j| c64::new(1.0 / (i + j + 1) as f64, 0.0))
}

/// Ones on the diagonal and minus ones above it: a condition of about 2ⁿ.
pub(super) fn minus_ones(n: usize) -> Mat<c64> {
    Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => c64::new(-1.0, 0.0),
        std::cmp::Ordering::Equal => c64::new(1.0, 0.0),
        std::cmp::Ordering::Greater => c64::new(0.0, 0.0),
    })
}

fn ones(m: usize, n: usize) -> Mat<c64> {
    Mat::from_fn(m, n, |_, _| c64::new(1.0, 0.0))
}

/// A product of m × r and r × n.
pub(super) fn of_rank(m: usize, n: usize, r: usize, seed: u64) -> Mat<c64> {
    random(m, r, seed) * random(r, n, seed + 7)
}

pub(super) fn tiled<T: Scalar>(a: &Mat<c64>, nb: usize) -> TiledMatrix<T> {
    let layout = Layout::general(a.nrows(), a.ncols(), nb).unwrap();
    TiledMatrix::from_fn(layout, |i, j| T::from_parts(a[(i, j)].re, a[(i, j)].im))
}

pub(super) fn plain<T: Scalar>(a: &TiledMatrix<T>) -> Mat<c64> {
    Mat::from_fn(a.rows(), a.cols(), |i, j| {
        let x = a.get(i, j).unwrap();
        c64::new(x.re(), x.im())
    })
}

/// What rounding to `T` leaves.
pub(super) fn rounded<T: Scalar>(a: &Mat<c64>) -> Mat<c64> {
    plain(&tiled::<T>(a, 1 + a.nrows().max(a.ncols())))
}

/// The shortest X that makes ‖B − A·X‖ least, by the singular values that are not below rcond·σ₁; and
/// their number.
pub(super) fn by_values(a: &Mat<c64>, b: &Mat<c64>, rcond: f64) -> (Mat<c64>, usize) {
    let svd = a.thin_svd().unwrap();
    let values: Vec<f64> = svd.S().column_vector().iter().map(|s| s.re).collect();
    let rank = values.iter().filter(|&&s| s > rcond * values[0]).count();
    let (u, v) = (svd.U().subcols(0, rank), svd.V().subcols(0, rank));
    let turned = u.adjoint() * b;
    let scaled = Mat::from_fn(rank, b.ncols(), |i, j| turned[(i, j)] / values[i]);
    (v * scaled, rank)
}

/// The largest and the smallest singular value of those that count, and the largest that does not.
pub(super) fn around_the_gap(a: &Mat<c64>, rank: usize) -> [f64; 3] {
    let svd = a.thin_svd().unwrap();
    let at = |i: usize| svd.S().column_vector().iter().nth(i).map_or(0.0, |s| s.re);
    [at(0), at(rank.max(1) - 1), at(rank)]
}

/// What least squares must answer for a matrix of which the rank is clear.
fn expect_shortest<T: Scalar>(what: &str, a: &Mat<c64>, rcond: f64, nb: usize) {
    let (a, b) = (turned::<T>(a), random(a.nrows(), 2, 99));
    let b = rounded::<T>(&b);
    let (m, n) = (a.nrows(), a.ncols());
    let (expected, rank) = by_values(&a, &b, rcond);
    let what = format!("{what}, {m} x {n} in tiles of {nb}, {}", T::PRECISION);
    let options = Options::of_order(nb).with_tree(Tree::Greedy);
    let (left, right) = (tiled::<T>(&a, nb), tiled::<T>(&b, nb));
    let solved =
        least_squares_minimum_norm(&left, &right, Some(rcond), options, Backend::Auto, &Inline);
    let (x, found, _) = solved.unwrap();
    assert_eq!(found, rank, "{what}");
    let [first, last, next] = around_the_gap(&a, rank);
    if first == 0.0 {
        assert_eq!(plain(&x).norm_l2(), 0.0, "{what}");
        return;
    }
    // What rounding errors and the values that were dropped change, times the square of the condition.
    let dropped = next / first + 10.0 * n as f64 * T::EPSILON;
    let condition = first / last;
    let rest = (&b - &a * &expected).norm_l2() / first;
    let bound = 10.0 * dropped * condition * (expected.norm_l2() + condition * rest);
    let off = (plain(&x) - &expected).norm_l2();
    assert!(
        off <= bound,
        "{what}: X is off by {off:e}, more than {bound:e}"
    );
    let (left, right) = (tiled::<T>(&a, nb), tiled::<T>(&b, nb));
    let ratio = least_squares_ratio(&left, &right, &x, rcond, &Inline).unwrap();
    assert!(ratio < LARGEST_RATIO, "{what}: ratio {ratio}");
}

/// Matrices with their rcond, which lies in a gap of their singular values.
pub(super) fn with_clear_rank(epsilon: f64) -> Vec<(&'static str, Mat<c64>, f64)> {
    let gap = epsilon.sqrt();
    let steep = [
        1.0,
        0.5,
        0.1,
        0.02,
        gap * gap.sqrt(),
        gap * gap.sqrt() / 3.0,
    ];
    vec![
        ("ones", ones(13, 4), gap),
        ("ones", ones(4, 13), gap),
        ("zeros", ones(5, 7) * faer::Scale(c64::new(0.0, 0.0)), gap),
        ("rank 9 of 10", of_rank(30, 10, 9, 1), gap),
        ("rank 9 of 10", of_rank(10, 30, 9, 2), gap),
        ("rank 5 of 6", of_rank(6, 15, 5, 3), gap),
        ("rank 7 of 21", of_rank(21, 21, 7, 4), gap),
        ("full", random(17, 9, 5), gap),
        ("full", random(9, 17, 6), gap),
        ("full", random(8, 8, 7), gap),
        ("a gap in the values", of_values(19, 6, &steep, 8), gap),
        ("a gap in the values", of_values(6, 19, &steep, 9), gap),
    ]
}

#[test]
fn the_shortest_solution_is_that_of_the_singular_values_whatever_rank_and_shape() {
    fn check<T: Scalar>(orders: &[usize]) {
        for (what, a, rcond) in with_clear_rank(T::EPSILON) {
            for &nb in orders {
                expect_shortest::<T>(what, &a, rcond, nb);
            }
        }
    }
    check::<f64>(&[1, 3, 4, 8, 40]);
    check::<c64>(&[3, 8]);
    check::<f32>(&[4]);
    check::<c32>(&[4]);
}

#[test]
fn graded_kahan_and_hilbert_have_the_rank_of_their_values_where_that_is_clear() {
    for nb in [3, 7, 32] {
        for condition in [1e6, 1e9, 1e12] {
            // Steps of the values are small, so the rank is asked for where all count.
            expect_shortest::<f64>("graded", &graded(32, 31, condition, 1), 1e-14, nb);
            expect_shortest::<f64>("graded", &graded(20, 40, condition, 1), 1e-14, nb);
        }
        expect_shortest::<f64>("kahan", &kahan(30), 1e-9, nb);
        expect_shortest::<f64>("a triangle", &minus_ones(24), 1e-10, nb);
        // One value of each is far below the others.
        expect_shortest::<f64>("kahan", &kahan(60), 3e-7, nb);
        expect_shortest::<f64>("a triangle", &minus_ones(40), 1e-8, nb);
        for rank in [3, 6, 9] {
            let a = hilbert(20, 12);
            let [first, last, next] = around_the_gap(&a, rank);
            let rcond = (last / first * next / first).sqrt();
            expect_shortest::<f64>("hilbert", &a, rcond, nb);
        }
    }
}

#[test]
fn pivoted_factors_are_those_of_the_matrix_with_the_strongest_columns_first() {
    fn check<T: Scalar>((m, n): (usize, usize), nb: usize) {
        let a = turned::<T>(&random(m, n, 3));
        let tiles = tiled::<T>(&a, nb);
        let factors = pivoted(&tiles, None, Options::of_order(nb), Backend::Auto, &Inline).unwrap();
        assert_eq!(factors.rank(), m.min(n));
        let q = factors.q(Backend::Auto, &Inline).unwrap();
        let (q, r, order) = (
            plain(&q),
            plain(&factors.r(&Inline).unwrap()),
            factors.order().to_vec(),
        );
        let what = format!("{m} x {n} in tiles of {nb}, {}", T::PRECISION);
        let moved = Mat::from_fn(m, n, |i, j| a[(i, order[j])]);
        let scale = m.max(n) as f64 * T::EPSILON;
        let off = (&moved - &q * &r).norm_l2() / (moved.norm_l2() * scale);
        assert!(off < LARGEST_RATIO, "{what}: A·P − Q·R has ratio {off}");
        let unit = Mat::from_fn(q.ncols(), q.ncols(), |i, j| c64::from(f64::from(i == j)));
        let off = (q.adjoint() * &q - unit).norm_l2() / scale;
        assert!(off < LARGEST_RATIO, "{what}: I − Qᴴ·Q has ratio {off}");
        // In one tile no later column is longer than the diagonal element; in more, not by much.
        let most = if nb >= n { 1.0 + 1e-5 } else { 3.0 };
        for k in 0..m.min(n) {
            let longest = (k..n).map(|j| r.col(j).subrows(k, m.min(n) - k).norm_l2());
            let longest = longest.fold(0.0, f64::max);
            let diagonal = r[(k, k)].norm();
            assert!(
                longest <= most * diagonal,
                "{what}: row {k}, {longest} and {diagonal}"
            );
        }
    }
    for shape in [(1, 1), (5, 1), (1, 5), (12, 12), (21, 13), (13, 21)] {
        for nb in [1, 4, 25] {
            check::<f64>(shape, nb);
        }
        check::<c64>(shape, 4);
        check::<f32>(shape, 5);
        check::<c32>(shape, 25);
    }
}

/// Memory that counts: bytes that are lent, and the most that were at a time.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<[usize; 2]>>);

struct CountedBlock(Box<dyn Block>, Counted);

impl Memory for Counted {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        let mut lent = self.0.lock().unwrap();
        lent[0] += bytes;
        lent[1] = lent[1].max(lent[0]);
        Box::new(CountedBlock(Heap.allocate(bytes), self.clone()))
    }
}

impl Block for CountedBlock {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl Drop for CountedBlock {
    fn drop(&mut self) {
        let bytes = self.bytes().len();
        self.1.0.lock().unwrap()[0] -= bytes;
    }
}

/// The unit matrix of a tall matrix's height is as large as the square of it.
#[test]
fn the_pseudo_inverse_of_a_tall_matrix_takes_memory_for_matrices_of_its_shape_alone() {
    let (m, n) = (2000, 3);
    let counted = Counted::default();
    let memory: Arc<dyn Memory> = Arc::new(counted.clone());
    let layout = Layout::general(m, n, 8).unwrap();
    let entry = |i: usize, j: usize| ((i * (j + 2)) % 7) as f64 + (i % (j + 2)) as f64;
    let a = TiledMatrix::<f64>::from_entries_in(layout, memory, &entry);
    let options = Options::of_order(8);
    let (inverse, rank, _) = pseudo_inverse(&a, None, options, Backend::Auto, &Inline).unwrap();
    assert_eq!((rank, inverse.rows(), inverse.cols()), (n, n, m));
    let [_, most] = *counted.0.lock().unwrap();
    let of_a = m * n * size_of::<f64>();
    assert!(most < 20 * of_a, "{most} bytes for A of {of_a}");
}

#[test]
fn a_pseudo_inverse_fulfils_the_four_conditions_of_penrose() {
    fn check<T: Scalar>(a: &Mat<c64>, rank: usize) {
        let a = turned::<T>(a);
        let rcond = Some(T::EPSILON.sqrt());
        let options = Options::of_order(4);
        let (inverse, found, _) =
            pseudo_inverse(&tiled::<T>(&a, 4), rcond, options, Backend::Auto, &Inline).unwrap();
        assert_eq!(found, rank);
        let p = plain(&inverse);
        let (left, right) = (&p * &a, &a * &p);
        let condition = a.norm_l2() * p.norm_l2();
        let bound = 100.0 * T::EPSILON * condition;
        for (what, off) in [
            ("A·A⁺·A", (&a - &right * &a).norm_l2() / a.norm_l2()),
            ("A⁺·A·A⁺", (&p - &left * &p).norm_l2() / p.norm_l2()),
            ("(A·A⁺)ᴴ", (&right - right.adjoint()).norm_l2()),
            ("(A⁺·A)ᴴ", (&left - left.adjoint()).norm_l2()),
        ] {
            let (m, n) = (a.nrows(), a.ncols());
            assert!(
                off < bound,
                "{what} of {m} x {n}, {}: {off:e}",
                T::PRECISION
            );
        }
    }
    for ((m, n), rank) in [
        ((11, 7), 7),
        ((7, 11), 7),
        ((11, 7), 3),
        ((7, 11), 3),
        ((9, 9), 4),
    ] {
        check::<f64>(&of_rank(m, n, rank, 1), rank);
        check::<c32>(&of_rank(m, n, rank, 1), rank);
    }
}

/// Solves by QR without pivoting.
fn solved<T: Scalar>(a: &Mat<c64>, nb: usize, tree: Tree) -> Result<TiledMatrix<T>, LinalgError> {
    let (a, b) = (tiled::<T>(a, nb), tiled::<T>(&random(a.nrows(), 2, 99), nb));
    let options = Options::of_order(nb).with_tree(tree);
    let solved = least_squares(&a, &b, options, Backend::Auto, &Inline);
    solved.map(|(x, _)| x)
}

fn ratio_of<T: Scalar>(a: &Mat<c64>, x: &TiledMatrix<T>, nb: usize) -> f64 {
    let (a, b) = (tiled::<T>(a, nb), tiled::<T>(&random(a.nrows(), 2, 99), nb));
    solution_ratio(&a, &b, x, &Inline).unwrap()
}

/// The ratio knew nothing of ‖A‖·‖X‖, and called right answers of ill-conditioned problems
/// wrong.
#[test]
fn a_backward_stable_solution_is_accepted_and_a_wrong_digit_is_not() {
    let mut cases = vec![("kahan", kahan(30)), ("a triangle", minus_ones(24))];
    cases.extend([1e6, 1e8, 1e10, 1e12].map(|condition| ("graded", graded(32, 31, condition, 1))));
    for (what, a) in cases {
        for (nb, tree) in [(4, Tree::Greedy), (16, Tree::Flat)] {
            let mut x = solved::<f64>(&a, nb, tree).unwrap();
            let ratio = ratio_of(&a, &x, nb);
            assert!(ratio < LARGEST_RATIO, "{what}: ratio {ratio}");
            // The largest entry, wrong in its sixth digit
            let size = |x: &TiledMatrix<f64>, i: usize| x.get(i, 0).unwrap().abs();
            let largest = (0..x.rows()).max_by(|&i, &j| size(&x, i).total_cmp(&size(&x, j)));
            let row = largest.unwrap();
            let slot = x.slot(row / nb, 0).unwrap();
            let spoil = |tile: &mut crate::matrix::Tile<f64>| {
                tile.set(row % nb, 0, tile.get(row % nb, 0) * (1.0 + 1e-5));
            };
            x.store_mut().update(slot, spoil).unwrap();
            let ratio = ratio_of(&a, &x, nb);
            assert!(
                ratio > LARGEST_RATIO,
                "{what}, a wrong digit: ratio {ratio}"
            );
        }
    }
}

/// These ended well, with solutions of length 6e30.
#[test]
fn a_deficient_matrix_is_refused_with_its_rank() {
    let four = random(20, 4, 5);
    let in_pairs = Mat::from_fn(20, 8, |i, j| four[(i, j / 2)]);
    let cases = [
        ("ones", ones(40, 10), 1),
        ("wide", of_rank(10, 40, 9, 1), 9),
        ("6 x 15", of_rank(6, 15, 5, 2), 5),
        ("every column twice", in_pairs, 4),
        ("square", of_rank(33, 33, 32, 3), 32),
        ("zeros", ones(7, 3) * faer::Scale(c64::new(0.0, 0.0)), 0),
    ];
    for (what, a, rank) in cases {
        for (nb, tree) in [(4, Tree::Greedy), (16, Tree::Flat)] {
            let full = a.nrows().min(a.ncols()) as u64;
            for refused in [
                solved::<f64>(&a, nb, tree).unwrap_err(),
                solved::<c32>(&turned::<c32>(&a), nb, tree).unwrap_err(),
            ] {
                let found = match refused {
                    LinalgError::RankDeficient { rank, full, .. } => (rank, full),
                    other => panic!("{what}: {other}"),
                };
                assert_eq!(found, (rank, full), "{what} in tiles of {nb}");
            }
        }
    }
}

#[test]
fn columns_in_other_units_are_no_deficiency() {
    let units = |j: usize| 10f64.powi(-(6 * j as i32) + 12);
    let a = random(30, 6, 1);
    let tall = Mat::from_fn(30, 6, |i, j| a[(i, j)] * units(j));
    let wide = tall.adjoint().to_owned();
    for a in [tall, wide] {
        let x = solved::<f64>(&a, 4, Tree::Flat).unwrap();
        let ratio = ratio_of(&a, &x, 4);
        assert!(ratio < LARGEST_RATIO, "ratio {ratio}");
    }
}

/// The length of a part of the last column is more than the largest `f32`: in tiles of order 2 the rank was 2.
#[test]
fn a_column_longer_than_the_largest_number_has_the_same_rank_in_tiles_of_any_order() {
    fn check<T: Scalar>(nb: usize) {
        let large = 3e38;
        let rows = [[1.0, 0.0, large], [0.0, 1.0, large], [0.0, 0.0, large]];
        let layout = |n| Layout::general(3, n, nb).unwrap();
        let a = TiledMatrix::<T>::from_fn(layout(3), |i, j| T::from_real(rows[i][j]));
        let b = TiledMatrix::from_fn(layout(1), |i, _| [T::one(), T::zero(), T::zero()][i]);
        let case = format!("{} in tiles of {nb}", T::PRECISION);
        let solved = least_squares(&a, &b, Options::of_order(nb), Backend::Auto, &Inline);
        let (x, _) = solved.unwrap_or_else(|error| panic!("{case}: {error}"));
        let found = [0, 1, 2].map(|i| x.get(i, 0).unwrap().re());
        assert_eq!(found, [1.0, 0.0, 0.0], "{case}");
        let how = (Compare::ByDirection, T::EPSILON);
        let (found, _) = leading(&a, how, &Inline).unwrap();
        assert_eq!(found.rank, 3, "{case}");
    }
    for nb in [1, 2, 3] {
        check::<f32>(nb);
        check::<c32>(nb);
    }
}

#[test]
fn estimates_of_singular_values_are_within_a_factor_of_them() {
    for (what, a) in [
        ("random", random(20, 20, 1)),
        ("graded", graded(25, 20, 1e8, 2)),
        ("kahan", kahan(20)),
        ("a triangle", minus_ones(20)),
        ("hilbert", hilbert(9, 6)),
    ] {
        for nb in [3, 32] {
            let tiles = tiled::<c64>(&a, nb);
            let how = (Some(0.0), Options::of_order(nb));
            let factors = pivoted(&tiles, how.0, how.1, Backend::Auto, &Inline).unwrap();
            let (found, condition) = (factors.rank(), factors.condition());
            let [first, last, _] = around_the_gap(&a, a.ncols());
            let ratio = first / last / condition;
            assert_eq!(found, a.ncols());
            assert!(
                (0.99..20.0).contains(&ratio),
                "{what} in tiles of {nb}: {ratio}"
            );
        }
    }
}

#[test]
fn rank_and_bits_are_the_same_under_every_schedule_and_every_column_has_its_place() {
    fn bits<T: Scalar>(on: &dyn Executor) -> (Vec<[u64; 2]>, usize) {
        let (a, b) = (of_rank(19, 26, 11, 1), random(19, 3, 2));
        let (a, b) = (tiled::<T>(&a, 4), tiled::<T>(&b, 4));
        let options = Options::of_order(4);
        let (x, rank, _) =
            least_squares_minimum_norm(&a, &b, None, options, Backend::Auto, on).unwrap();
        let entries = x.to_column_major().unwrap();
        (entries.into_iter().map(Scalar::bits).collect(), rank)
    }
    fn check<T: Scalar>() {
        let expected = bits::<T>(&Inline);
        for seed in 0..10 {
            assert!(bits::<T>(&Shuffled::new(seed).with_threads(2)) == expected);
        }
    }
    check::<f64>();
    check::<c32>();
    let (mut order, _) = choose(&tiled::<f64>(&ones(3, 11), 2), Backend::Auto, &Inline).unwrap();
    order.sort_unstable();
    assert_eq!(order, (0..11).collect::<Vec<_>>());
}

/// However low the cut-off is, or though it vanishes: R has a zero on its diagonal.
#[test]
fn a_column_that_depends_on_others_exactly_is_never_counted() {
    fn check<T: Scalar>(first: f64, rcond: Option<f64>) {
        for (what, entries) in [
            ("a zero column", [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]),
            ("one entry", [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]),
        ] {
            let entry = |i: usize, j: usize| c64::from(entries[i][j] * first);
            let tall = Mat::<c64>::from_fn(3, 2, entry);
            for a in [tall.clone(), tall.transpose().to_owned()] {
                let b = ones(a.nrows(), 1) * faer::Scale(c64::from(first));
                let (a, b) = (tiled::<T>(&a, 2), tiled::<T>(&b, 2));
                let options = Options::of_order(2);
                let solved =
                    least_squares_minimum_norm(&a, &b, rcond, options, Backend::Auto, &Inline);
                let (x, rank, _) = solved.unwrap();
                let case = format!("{} {what} {first:e}, {rcond:?}", T::PRECISION);
                assert_eq!(rank, 1, "{case}");
                let is_number = |i: usize| !x.get(i, 0).unwrap().re().is_nan();
                assert!((0..x.rows()).all(is_number), "{case}");
            }
        }
    }
    check::<f32>(1.0, Some(0.0));
    check::<f64>(1.0, Some(0.0));
    check::<c32>(1.0, Some(0.0));
    check::<c64>(1.0, Some(0.0));
    check::<f64>(1e-310, None);
    check::<c64>(1e-310, None);
}

#[test]
fn a_triangle_has_no_adjoint_that_is_copied_tile_by_tile() {
    for n in [2, 4, 6] {
        let lower = TiledMatrix::<f64>::zeros(Layout::lower(n, 2).unwrap());
        let refused = crate::qr::adjoint(&lower, &Inline).unwrap_err().to_string();
        assert!(refused.contains("must be General"), "{refused}");
    }
}

#[test]
fn empty_matrices_have_rank_0_and_other_settings_are_refused() {
    for (m, n) in [(0, 0), (0, 3), (3, 0)] {
        let (a, b) = (tiled::<f64>(&ones(m, n), 2), tiled::<f64>(&ones(m, 1), 2));
        let options = Options::of_order(2);
        let (x, rank, _) =
            least_squares_minimum_norm(&a, &b, None, options, Backend::Auto, &Inline).unwrap();
        assert_eq!((rank, x.rows(), x.cols()), (0, n, 1));
        assert!((0..n).all(|i| x.get(i, 0) == Some(0.0)));
        let (x, _) = least_squares(&a, &b, Options::of_order(2), Backend::Auto, &Inline).unwrap();
        assert_eq!(x.rows(), n);
    }
    let a = tiled::<f64>(&ones(3, 3), 2);
    for rcond in [-1.0, 1.0, f64::NAN] {
        let refused = pivoted(
            &a,
            Some(rcond),
            Options::of_order(2),
            Backend::Auto,
            &Inline,
        )
        .unwrap_err();
        assert!(
            refused.to_string().contains(&format!("rcond is {rcond}")),
            "{refused}"
        );
    }
    assert_eq!(default_rcond::<f64>(3, 100), 100.0 * f64::EPSILON);
}

/// LAPACK looks at shapes, then at settings, then at entries.
#[test]
fn a_wrong_shape_is_told_before_a_wrong_rcond_and_that_before_an_entry() {
    let spoiled = |layout: Layout| TiledMatrix::from_fn(layout, |_, _| f64::NAN);
    let lower = || spoiled(Layout::lower(3, 2).unwrap());
    let general = || spoiled(Layout::general(3, 3, 2).unwrap());
    let (options, auto, wrong) = (Options::of_order(2), Backend::Auto, Some(2.0));
    let b = spoiled(Layout::general(3, 1, 2).unwrap());
    for (a, name) in [(lower(), "wrong_shape"), (general(), "wrong_argument")] {
        for refused in [
            pivoted(&a, wrong, options, auto, &Inline).map(drop),
            pseudo_inverse(&a, wrong, options, auto, &Inline).map(drop),
            least_squares_minimum_norm(&a, &b, wrong, options, auto, &Inline).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().name(), name);
        }
    }
    let refused = least_squares(&lower(), &b, options, auto, &Inline).unwrap_err();
    assert_eq!(refused.name(), "wrong_shape", "{refused}");
}

#[test]
fn right_hand_sides_on_other_ranks_are_refused_before_the_matrix_is_lost() {
    let a = tiled::<f64>(&ones(5, 3), 2);
    let before = digest(&a).unwrap();
    let grid = Distribution::BlockCyclic(Grid::new(1, 2).unwrap());
    let layout = Layout::general(5, 1, 2).unwrap();
    let layout = layout.distributed(grid, Rank(0)).unwrap();
    let b = TiledMatrix::from_fn(layout, |_, _| 1.0);
    let (options, auto) = (Options::of_order(2), Backend::Auto);
    let refused = least_squares_minimum_norm(&a, &b, None, options, auto, &Inline).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("on 1x2) do not fit a matrix of 5 x 3 (General, tiles of 2, on 1x1"),
        "{text}"
    );
    assert_eq!(digest(&a).unwrap(), before);
}

#[test]
fn the_default_rcond_is_far_below_1_however_large_the_matrix() {
    for size in [1 << 24, usize::MAX] {
        for (m, n) in [(size, 1), (1, size)] {
            assert!(default_rcond::<f32>(m, n) < 0.02);
            assert!(default_rcond::<f64>(m, n) < 0.02);
        }
    }
    let (large, single) = (100_000, f64::from(f32::EPSILON));
    assert_eq!(default_rcond::<f32>(large, 3), single * large as f64);
}

/// An independent column is found behind two that are one, whatever the numbers are as large as.
#[test]
fn the_rank_is_found_up_to_both_ends_of_the_range() {
    fn check<T: Scalar>(size: f64) {
        let a = [[1.0, 1.0, 0.0], [0.0, 0.0, 0.5]];
        let of_columns = |i: usize, j: usize| T::from_real(a[i][j] * size);
        // A short column, beside others that are not.
        let of_a_short_one = |i: usize, j: usize| T::from_real([a[0][j], a[1][j] * size][i]);
        for nb in 1..=3 {
            let general = || Layout::general(2, 3, nb).unwrap();
            let (all, short) = (
                TiledMatrix::from_fn(general(), of_columns),
                TiledMatrix::from_fn(general(), of_a_short_one),
            );
            let options = Options::of_order(nb);
            let case = format!("{} {size:e} in tiles of {nb}", T::PRECISION);
            let found = pivoted(&all, None, options, Backend::Auto, &Inline).unwrap();
            assert_eq!((found.rank(), found.order()[1]), (2, 2), "{case}");
            if size < 1.0 {
                let found = pivoted(&short, Some(0.0), options, Backend::Auto, &Inline).unwrap();
                assert_eq!(found.rank(), 2, "{case}, beside others");
            }
        }
    }
    for size in [1e-43, 1e-38, 1.0, 2e38] {
        check::<f32>(size);
        check::<c32>(size);
    }
    for size in [1e-320, 1e-308, 1.0, 1e308] {
        check::<f64>(size);
        check::<c64>(size);
    }
}

/// How far rounding errors are from what is refused: what they leave of a column that depends on
/// others, and the worst condition that LAPACK's own tests ask to be solved.
#[test]
fn what_is_refused_lies_between_rounding_errors_and_what_lapack_solves() {
    let smallest = |a: &Mat<c64>, nb: usize| {
        let tiles = tiled::<f64>(a, nb);
        factor(&tiles, Options::of_order(nb), Backend::Auto, &Inline).unwrap();
        let (found, _) = leading(&tiles, (Compare::ByDirection, 0.0), &Inline).unwrap();
        let limit = 2.0 * f64::EPSILON / 2.0 * (a.nrows().max(a.ncols()) as f64).sqrt();
        match found.rank == a.ncols() {
            true => found.smallest / found.largest / limit,
            false => 0.0,
        }
    };
    for nb in [4, 16, 64] {
        for (what, a) in [
            ("ones", ones(40, 10)),
            ("9 of 10", of_rank(40, 10, 9, 1)),
            ("5 of 6", of_rank(15, 6, 5, 1)),
            ("99 of 100", of_rank(400, 100, 99, 1)),
            ("99 of 100", of_rank(100, 100, 99, 1)),
            ("60 of 100", of_rank(200, 100, 60, 1)),
        ] {
            let noise = smallest(&a, nb);
            assert!(noise < 1.0, "{what} in tiles of {nb}: {noise}");
        }
        for seed in 0..4 {
            for (m, n) in [(50, 50), (50, 10), (10, 10)] {
                let solved = smallest(&graded(m, n, 0.1 / f64::EPSILON, seed), nb);
                assert!(
                    solved > 1.0,
                    "{m} x {n} in tiles of {nb}, seed {seed}: {solved}"
                );
            }
        }
    }
}

#[test]
fn what_is_regular_at_a_glance_is_of_full_rank_and_mostly_it_is_told_at_a_glance() {
    fn check<T: Scalar>() {
        let (mut told, mut all) = (0, 0);
        for (m, n, seed) in [(1, 1), (4, 4), (40, 40), (60, 30), (200, 100)]
            .into_iter()
            .flat_map(|(m, n)| (0..4).map(move |seed| (m, n, seed)))
        {
            // Conditions up to where digits end, and dependent columns.
            let nearly = (1..4).map(|k| graded(m, n, T::EPSILON.powi(-k).sqrt(), seed));
            for (kind, a) in [random(m, n, seed), ones(m, n)]
                .into_iter()
                .chain(nearly)
                .enumerate()
            {
                let tiles = tiled::<T>(&a, m.max(n));
                factor(&tiles, Options::of_order(m.max(n)), Backend::Auto, &Inline).unwrap();
                let entry = |i, j| tiles.get(i, j).unwrap();
                let r = Tile::from_fn(m, n, Format::ColumnMajor, tiles.memory(), entry);
                let limit = 2.0 * T::EPSILON * (m as f64).sqrt();
                let is_clear = is_clearly_regular(&r, limit);
                let found = leading_of_tile(&r, (Compare::ByDirection, limit));
                assert!(!is_clear || found.rank == n, "{} {m} x {n}", T::PRECISION);
                if kind == 0 {
                    (told, all) = (told + usize::from(is_clear), all + 1);
                }
            }
        }
        assert!(told >= all / 2, "{}: {told} of {all}", T::PRECISION);
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

#[test]
fn nothing_but_numbers_is_regular_at_a_glance() {
    for bad in [0.0, f64::NAN, f64::INFINITY, 1e-300] {
        let r = Tile::from_rows([[1.0, 2.0, 0.5], [0.0, bad, 1.0], [0.0, 0.0, 1.0]]);
        let is_clear = is_clearly_regular(&r, f64::EPSILON);
        assert!(!is_clear, "{bad}");
    }
    // A short column is as good as any.
    let short = Tile::from_rows([[1.0, 0.0], [0.0, 1e-90]]);
    assert!(is_clearly_regular(&short, f64::EPSILON));
}

/// The largest singular value is no number, though all entries of R are: the second column was called
/// dependent.
#[test]
fn columns_nearly_as_long_as_the_largest_number_count() {
    // Singular values 2.0845e308, four times 1e307, 4.08e306
    let entry = |i: usize, j: usize| match (i, i == j) {
        (0, _) => 0.85e308,
        (_, same) => f64::from(same) * 1e307,
    };
    let a = TiledMatrix::<f64>::from_fn(Layout::general(6, 6, 3).unwrap(), entry);
    let factors = pivoted(&a, None, Options::of_order(3), Backend::Auto, &Inline).unwrap();
    let (rank, condition) = (factors.rank(), factors.condition());
    assert_eq!(rank, 6);
    assert!((20.0..52.0).contains(&condition), "{condition}");
    // Its triangle, in tiles of any order; and columns that are longer than any number, by direction.
    let triangle = [[1.2, 1.2, 1.2], [0.0, 0.17, 0.05], [0.0, 0.0, 0.12]];
    let long = [[1.0, 1.5, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 1.0]];
    for (rows, compare) in [(triangle, Compare::AsTheyAre), (long, Compare::ByDirection)] {
        let of = |scale: f64, nb: usize| {
            let entry = |i: usize, j: usize| rows[i][j] * scale;
            let r = TiledMatrix::<f64>::from_fn(Layout::general(3, 3, nb).unwrap(), entry);
            let (found, _) = leading(&r, (compare, 1e-10), &Inline).unwrap();
            let tile = Tile::from_rows(rows.map(|row| row.map(|x| x * scale)));
            let at_once = leading_of_tile(&tile, (compare, 1e-10));
            [found, at_once].map(|found| (found.rank, found.largest / found.smallest))
        };
        for nb in 1..=3 {
            for ((rank, large), (_, small)) in of(1e308, nb).into_iter().zip(of(1.0, nb)) {
                assert_eq!(rank, 3, "{compare:?} in tiles of {nb}");
                assert!(
                    (large / small - 1.0).abs() < 1e-14,
                    "{compare:?}: {large} {small}"
                );
            }
        }
    }
    // What stands above a tile is longer than any number.
    let entry = |i: usize, j: usize| match (i, j) {
        (0..=2, 2) => 1.5e308,
        _ => f64::from(i == j),
    };
    let r = TiledMatrix::<f64>::from_fn(Layout::general(3, 3, 2).unwrap(), entry);
    let refused = leading(&r, (Compare::ByDirection, 1e-10), &Inline).unwrap_err();
    assert!(
        matches!(refused, LinalgError::Overflow { col: 2, .. }),
        "{refused}"
    );
}

#[test]
fn of_a_triangle_in_tiles_and_with_phases_the_same_is_found() {
    let entry = |i: usize, j: usize| {
        let entry: f64 = Random::new(7).entry(i, j);
        if i <= j { entry + 0.5 } else { 0.0 }
    };
    let (n, how) = (9, (Compare::AsTheyAre, 1e-12));
    let whole = Tile::from_fn(
        n,
        n,
        Format::ColumnMajor,
        &(Arc::new(Heap) as Arc<dyn Memory>),
        entry,
    );
    let expected = leading_of_tile(&whole, how);
    let phase = |turn: usize| c64::from_polar(1.0, turn as f64);
    for nb in [2, 4, 9] {
        let turned = |i: usize, j: usize| phase(i) * entry(i, j) * phase(3 * j);
        let turned = TiledMatrix::from_fn(Layout::general(n, n, nb).unwrap(), turned);
        let (found, _) = leading(&turned, how, &Inline).unwrap();
        assert_eq!(found.rank, expected.rank);
        let ratios = [
            found.smallest / expected.smallest,
            found.largest / expected.largest,
        ];
        assert!(
            ratios.iter().all(|ratio| (ratio - 1.0).abs() < 1e-9),
            "{nb}: {found:?}"
        );
    }
}
