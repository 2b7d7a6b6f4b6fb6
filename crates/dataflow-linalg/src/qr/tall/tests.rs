//! Triangles of blocks beside what Householder's would be; solutions beside those by tiles; what is
//! refused; and the same bits for every order of tasks and, where rows are not added up as they lie, of
//! memory.

use super::{BLOCK, Tall, block, is_tall_and_skinny, tall_least_squares};
use crate::error::{Given, LinalgError};
use crate::kernel::Backend;
use crate::kernel::gram::suits_rows;
use crate::matrix::convert::NdarrayEntries;
use crate::matrix::generate::Random;
use crate::matrix::{Entries, Layout, Tile, TiledMatrix};
use crate::qr::tests::deficient::{graded, random, turned};
use crate::qr::{Options, least_squares, solution_ratio};
use crate::scalar::{Precision, Scalar, c32, c64};
use dataflow_core::port::{Executor, Heap, Inline, Memory, Shuffled};
use dataflow_core::prelude::*;
use faer::Mat;
use ndarray::{Array2, ArrayView2, ShapeBuilder, s};
use proptest::prelude::*;
use std::sync::Arc;

/// LAPACK's threshold.
const LARGEST_RATIO: f64 = 30.0;

fn array<T: Scalar>(a: &Mat<c64>) -> Array2<T> {
    let entry = |(i, j): (usize, usize)| T::from_parts(a[(i, j)].re, a[(i, j)].im);
    Array2::from_shape_fn((a.nrows(), a.ncols()), entry)
}

fn tiled<T: Scalar>(a: ArrayView2<'_, T>, nb: usize) -> TiledMatrix<T> {
    let layout = Layout::general(a.nrows(), a.ncols(), nb).unwrap();
    TiledMatrix::from_entries(layout, &NdarrayEntries(a))
}

/// tᵢʲ for t from 0 to 1: its condition grows like 6ⁿ.
fn vandermonde<T: Scalar>(m: usize, n: usize) -> Array2<T> {
    let t = |i: usize| i as f64 / (m - 1) as f64;
    Array2::from_shape_fn((m, n), |(i, j)| T::from_real(t(i).powi(j as i32)))
}

fn sides<T: Scalar>(m: usize, nrhs: usize) -> Array2<T> {
    let random = Random::new(17);
    Array2::from_shape_fn((m, nrhs), |(i, j)| random.entry(i, j))
}

fn solved<T: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    height: usize,
    on: &dyn Executor,
) -> Result<Array2<T>, LinalgError> {
    let space = Tall::cut((a, b), Backend::Auto, height).unwrap();
    Ok(space.solved(on)?.0)
}

fn ratio<T: Scalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, x: &Array2<T>) -> f64 {
    let (a, b, x) = (tiled(a, 16), tiled(b, 16), tiled(x.view(), 16));
    solution_ratio(&a, &b, &x, &Inline).unwrap()
}

/// ‖QᴴQ − I‖ for Q = A·R⁻¹: ε·κ for the R of a matrix that differs from A by ε, ε·κ² for a Cholesky
/// factor of AᴴA.
fn loss<T: Scalar>(a: ArrayView2<'_, T>, made: &Tile<T>) -> f64 {
    let (m, n) = a.dim();
    let wide = |x: T| c64::new(x.re(), x.im());
    let mut q = Mat::<c64>::from_fn(m, n, |i, j| wide(a[(i, j)]));
    for i in 0..m {
        for j in 0..n {
            let above = (0..j).fold(c64::ZERO, |sum, k| sum + q[(i, k)] * wide(made.get(k, j)));
            q[(i, j)] = (q[(i, j)] - above) / wide(made.get(j, j));
        }
    }
    let unit = Mat::<c64>::identity(n, n);
    (q.adjoint() * &q - unit).norm_l2()
}

#[test]
fn the_triangle_of_a_block_is_that_of_a_matrix_near_by_whatever_its_condition() {
    fn check<T: Scalar>(conditions: &[f64], order: usize) {
        let memory: Arc<dyn Memory> = Arc::new(Heap);
        for (seed, &condition) in conditions.iter().enumerate() {
            let a = turned::<T>(&graded(517, 9, condition, seed as u64));
            let (mut a, b) = (array::<T>(&a), sides::<T>(517, 2));
            if order == 1 {
                a = a
                    .reversed_axes()
                    .as_standard_layout()
                    .to_owned()
                    .reversed_axes();
            }
            let rows = (a.view(), b.view());
            let by_reflectors = block::by_reflectors(rows, Backend::Auto, &memory);
            let expected = condition * T::EPSILON;
            let case = format!("{}, condition {condition:e}", T::PRECISION);
            let found = loss(a.view(), &by_reflectors) / expected;
            assert!(found < LARGEST_RATIO, "{case}: {found} by reflectors");
            let by_products = block::by_products(rows, &memory);
            // Beyond, reflectors are taken.
            let is_good = condition < 1e5;
            assert!(by_products.is_some() || !is_good, "{case}: not by products");
            if let Some(made) = by_products {
                let found = loss(a.view(), &made) / expected;
                assert!(found < LARGEST_RATIO, "{case}: {found} by products");
            }
        }
    }
    let double = [1.0, 3.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e10, 1e13];
    for order in [0, 1] {
        check::<f64>(&double, order);
        check::<c64>(&double, order);
        check::<f32>(&double[..7], order);
        check::<c32>(&double[..7], order);
    }
}

#[test]
fn a_complex_matrix_with_sides_that_are_real_or_imaginary_goes_by_products() {
    fn check<T: Scalar>() {
        let memory: Arc<dyn Memory> = Arc::new(Heap);
        let a = array::<T>(&turned::<T>(&graded(517, 9, 2.0, 1)));
        for unit in [T::one(), T::from_parts(0.0, 1.0)] {
            let b = sides::<T>(517, 2).mapv(|x| T::from_real(x.re()) * unit);
            assert!(block::by_products((a.view(), b.view()), &memory).is_some());
        }
    }
    check::<c64>();
    check::<c32>();
}

#[test]
fn columns_that_stay_where_they_are_have_the_bits_of_those_that_are_put_into_strips() {
    let memory: Arc<dyn Memory> = Arc::new(Heap);
    for (m, n) in [(640, 3), (641, 9), (130, 40), (127, 20)] {
        let of_rows = |gap: usize, seed: u64, n: usize| {
            let (shape, random) = ((gap * m, n).f(), Random::new(seed));
            let all: Array2<f64> = Array2::from_shape_fn(shape, |(i, j)| random.entry(i / gap, j));
            all
        };
        let every = |gap: usize| {
            let (a, b) = (of_rows(gap, 5, n), of_rows(gap, 6, 2));
            let rows = s![..;gap, ..];
            let made = block::by_products((a.slice(rows), b.slice(rows)), &memory);
            made.expect("random columns are far from dependent")
        };
        assert_eq!(every(1).as_slice(), every(2).as_slice(), "{m} x {n}");
    }
}

#[test]
fn solutions_are_as_good_as_those_by_tiles() {
    fn check<T: Scalar>(a: Array2<T>, case: &str) {
        let b = sides::<T>(a.nrows(), 3);
        let (left, right) = (tiled(a.view(), 16), tiled(b.view(), 16));
        let options = Options::of_order(16);
        let (by_tiles, _) = least_squares(&left, &right, options, Backend::Auto, &Inline).unwrap();
        let by_tiles = by_tiles.to_ndarray().unwrap();
        let usual = ratio(a.view(), b.view(), &by_tiles);
        for height in [a.ncols(), 50, 1000] {
            let x = solved(a.view(), b.view(), height, &Inline).unwrap();
            let found = ratio(a.view(), b.view(), &x);
            let case = format!("{case}, {}, blocks of {height}", T::PRECISION);
            assert!(found < LARGEST_RATIO, "{case}: {found}, by tiles {usual}");
        }
    }
    fn check_all<T: Scalar>(steps: i32) {
        for step in 0..=steps {
            let a = turned::<T>(&graded(700, 12, 10f64.powi(2 * step), 3));
            check(array::<T>(&a), &format!("condition 1e{}", 2 * step));
        }
        let units = |j: usize| 10f64.powi(3 * j as i32 - 18);
        let a = random(700, 12, 5);
        let a = Mat::from_fn(700, 12, |i, j| a[(i, j)] * units(j));
        check(array::<T>(&turned::<T>(&a)), "columns in other units");
        // Most blocks have none of some columns.
        let sparse = Mat::from_fn(700, 12, |i, j| {
            c64::new(
                if i / 59 == j || i == j {
                    1.0 + i as f64
                } else {
                    0.0
                },
                0.0,
            )
        });
        check(array::<T>(&sparse), "a column for each group of rows");
        check(vandermonde::<T>(700, (steps + 1) as usize), "powers");
    }
    check_all::<f64>(6);
    check_all::<c64>(6);
    check_all::<f32>(2);
    check_all::<c32>(2);
}

#[test]
fn numbers_near_overflow_and_underflow_keep_their_digits() {
    for scale in [1e-305, 1e-200, 1e-140, 1.0, 1e140, 1e200, 1e300] {
        let (a, exact) = (array::<f64>(&random(300, 5, 1)), sides::<f64>(5, 1));
        let b = a.dot(&exact) * scale;
        let a = a * scale;
        let x = solved(a.view(), b.view(), 64, &Inline).unwrap();
        let off = (&x - &exact)
            .iter()
            .fold(0.0, |most: f64, x| most.max(x.abs()));
        assert!(off < 1e-12, "{scale:e}: {off:e}");
    }
}

#[test]
fn sides_whose_squares_vanish_keep_their_digits() {
    for (of_a, of_b) in [(1e-20, 1e-300), (1.0, 1e-200), (1e140, 1e-165)] {
        let (a, exact) = (array::<f64>(&random(300, 3, 1)), sides::<f64>(3, 2));
        let b = a.dot(&exact) * of_b;
        let a = a * of_a;
        let x = solved(a.view(), b.view(), 64, &Inline).unwrap();
        for (x, exact) in x.iter().zip(&exact) {
            assert!(
                (x / of_b * of_a - exact).abs() < 1e-11,
                "{of_a:e}, {of_b:e}: {x:e}"
            );
        }
    }
}

#[test]
fn a_solution_that_overflows_on_the_way_is_refused() {
    fn check<T: Scalar>(large: f64) {
        let a = Array2::from_elem((4096, 1), T::one());
        let b = Array2::from_shape_fn((4096, 2), |(_, side)| T::from_real([1.0, large][side]));
        let refused = solved(a.view(), b.view(), 1024, &Inline).unwrap_err();
        assert!(
            matches!(refused, LinalgError::Overflow { col: 1, .. }),
            "{refused}"
        );
    }
    check::<f32>(3e38);
    check::<c32>(3e38);
    check::<f64>(1.7e308);
    check::<c64>(1.7e308);
}

#[test]
fn a_deficient_matrix_is_refused_with_the_rank_that_tiles_find() {
    fn check<T: Scalar>(a: Array2<T>) {
        let b = sides::<T>(a.nrows(), 1);
        let options = Options::of_order(16);
        let (left, right) = (tiled(a.view(), 16), tiled(b.view(), 16));
        let by_tiles = least_squares(&left, &right, options, Backend::Auto, &Inline);
        let by_tiles = by_tiles.unwrap_err().to_string();
        for height in [a.ncols(), 40, 1000] {
            let refused = solved(a.view(), b.view(), height, &Inline).unwrap_err();
            assert!(
                matches!(refused, LinalgError::RankDeficient { .. }),
                "{refused}"
            );
            assert_eq!(refused.to_string(), by_tiles, "blocks of {height}");
        }
    }
    fn check_all<T: Scalar>() {
        let four = array::<T>(&turned::<T>(&random(300, 4, 5)));
        check(Array2::from_shape_fn((300, 8), |(i, j)| four[(i, j / 2)]));
        check(Array2::from_elem((300, 5), T::one()));
        check(Array2::from_elem((300, 3), T::zero()));
        let sum = |i: usize| (0..4).fold(T::zero(), |sum, j| sum + four[(i, j)]);
        check(Array2::from_shape_fn((300, 5), |(i, j)| {
            if j == 4 { sum(i) } else { four[(i, j)] }
        }));
    }
    check_all::<f64>();
    check_all::<c64>();
    check_all::<f32>();
    check_all::<c32>();
}

#[test]
fn the_first_entry_that_is_not_finite_is_named_those_of_a_first() {
    fn check<T: Scalar>(bad: T) {
        let refused = |places: &[(usize, usize)]| {
            let mut both = array::<T>(&random(200, 6, 1));
            places.iter().for_each(|at| both[*at] = bad);
            let (a, b) = (both.slice(s![.., ..4]), both.slice(s![.., 4..]));
            match solved(a, b, 32, &Shuffled::new(1)).unwrap_err() {
                LinalgError::NotFinite { of, row, col, .. } => (of, row, col),
                other => panic!("{other}"),
            }
        };
        let (of_a, of_b) = (Given::Matrix, Given::RightHandSides);
        assert_eq!(refused(&[(7, 2)]), (of_a, 7, 2));
        let several = [(3, 2), (150, 1), (199, 1), (0, 4)];
        assert_eq!(refused(&several), (of_a, 150, 1));
        assert_eq!(refused(&[(199, 4), (0, 5)]), (of_b, 199, 0));
    }
    check(f64::NAN);
    check(f64::NEG_INFINITY);
    check(f32::INFINITY);
    check(c64::new(0.0, f64::NAN));
    check(c32::new(f32::NAN, 1.0));
}

#[test]
fn both_ends_of_every_edge_agree_for_any_number_of_blocks() {
    for m in [1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 300, 4097] {
        let (a, b) = (Array2::<f64>::zeros((m, 1)), Array2::zeros((m, 1)));
        let space = Tall::cut((a.view(), b.view()), Backend::Auto, 1).unwrap();
        verify(&space, 1).unwrap_or_else(|fault| panic!("{m} blocks: {fault}"));
    }
}

/// The same array with its rows side by side, its columns, and neither.
fn orders<T: Scalar>(a: &Array2<T>) -> [Array2<T>; 3] {
    let (m, n) = a.dim();
    let by_columns = Array2::from_shape_fn((m, n).f(), |at| a[at]);
    let mut wide = Array2::from_elem((2 * m, 3 * n), T::one());
    wide.slice_mut(s![..;2, ..;3]).assign(a);
    [a.clone(), by_columns, wide]
}

fn bits<T: Scalar>(x: &Array2<T>) -> Vec<[u64; 2]> {
    x.iter().map(|x| x.bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn bits_do_not_depend_on_memory_or_schedule_and_each_side_has_its_own_solution(
        (n, rows, nrhs, height) in (1usize..14, 0usize..400, 1usize..7, 14usize..150),
        (seed, hard) in (0u64..1000, any::<bool>()),
    ) {
        fn check<T: Scalar>(shape: [usize; 4], seed: u64, hard: bool) {
            let [m, n, nrhs, height] = shape;
            let condition = if hard { 1e3 } else { 2.0 };
            let a = array::<T>(&turned::<T>(&graded(m, n, condition, seed)));
            let b = sides::<T>(m, nrhs);
            let (of_a, of_b) = (orders(&a), orders(&b));
            let expected = [0, 1].map(|turn: usize| {
                let x = solved(of_a[turn].view(), of_b[turn].view(), height, &Inline).unwrap();
                assert!(ratio(a.view(), b.view(), &x) < LARGEST_RATIO);
                x
            });
            let stays = T::PRECISION == Precision::F64 && suits_rows(n);
            assert!(stays || bits(&expected[0]) == bits(&expected[1]));
            let shuffled = Shuffled::new(seed).with_threads(2);
            for (turn, (a, b)) in of_a.iter().zip(&of_b).enumerate() {
                let (a, b) = match turn {
                    2 => (a.slice(s![..;2, ..;3]), b.slice(s![..;2, ..;3])),
                    _ => (a.view(), b.view()),
                };
                let x = solved(a, b, height, &shuffled).unwrap();
                assert_eq!(bits(&x), bits(&expected[turn.min(1)]), "order {turn}");
            }
        }
        let shape = [n + rows, n, nrhs, height];
        check::<f64>(shape, seed, hard);
        check::<c64>(shape, seed, hard);
        check::<f32>(shape, seed, hard);
        check::<c32>(shape, seed, hard);
    }
}

#[test]
fn the_public_call_takes_its_own_blocks_and_wrong_shapes_are_refused() {
    let m = 2 * BLOCK + 5;
    let (a, exact) = (array::<f64>(&random(m, 3, 1)), sides::<f64>(3, 2));
    let b = a.dot(&exact);
    let (x, report) = tall_least_squares(a.view(), b.view(), Backend::Auto, &Inline).unwrap();
    assert!((&x - &exact).iter().all(|off| off.abs() < 1e-13));
    // Two blocks, one join, and the search for dependent columns.
    assert_eq!(report.tasks, 3 + 2);
    for (rows, cols, sides) in [(10, 0, 10), (3, 4, 3), (10, 2, 9)] {
        let (a, b) = (
            Array2::<f64>::zeros((rows, cols)),
            Array2::zeros((sides, 1)),
        );
        let refused = tall_least_squares(a.view(), b.view(), Backend::Auto, &Inline).unwrap_err();
        assert_eq!(refused.name(), "wrong_shape");
    }
    assert!(is_tall_and_skinny(1_000_000, 20) && is_tall_and_skinny(BLOCK, 1));
    assert!(!is_tall_and_skinny(BLOCK - 1, 1) && !is_tall_and_skinny(1_000_000, 65));
    assert!(!is_tall_and_skinny(1_000_000, 0));
}

/// faer's Cholesky had scratch for 256 columns, and blocks were lower than they were wide.
#[test]
fn wider_matrices_than_products_are_for_are_solved_too() {
    let (m, n) = (300, 280);
    let a = array::<c64>(&turned::<c64>(&random(m, n, 3)));
    let b = sides::<c64>(m, 1);
    let (x, _) = tall_least_squares(a.view(), b.view(), Backend::Auto, &Inline).unwrap();
    assert!(ratio(a.view(), b.view(), &x) < LARGEST_RATIO);
    let zero = Array2::<f64>::zeros((1, 1));
    for (m, n) in [(2 * BLOCK, BLOCK + 4), (3 * BLOCK, BLOCK), (5 * BLOCK, 3)] {
        let (a, b) = (
            zero.broadcast((m, n)).unwrap(),
            zero.broadcast((m, 1)).unwrap(),
        );
        let space = Tall::new(a, b, Backend::Auto).unwrap();
        for i in 0..space.counts[0] {
            assert!(
                space.rows(i).len() >= n.max(BLOCK),
                "block {i} of {m} x {n}"
            );
        }
    }
}
