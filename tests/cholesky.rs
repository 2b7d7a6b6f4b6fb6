//! The Cholesky factorisation and solution: right answers, the same bits under every schedule, and
//! the same failure.
//!
//! # Elsewhere
//! The graphs themselves: the unit tests of `cholesky/` and `tests/properties/spaces.rs`. Real matrices: the
//! collection, `crates/dataflow-linalg/tests/collection.rs`.

use dataflow::Runtime;
use dataflow::core::data::Version;
use dataflow::core::port::{Executor, Inline, Shuffled};
use dataflow::linalg::LinalgError;
use dataflow::linalg::cholesky::residual;
use dataflow::linalg::cholesky::{Factor, factor, solve};
use dataflow::linalg::kernel::{Backend, gemm, herk, potrf, trsm};
use dataflow::linalg::matrix::check::solve_backward_error;
use dataflow::linalg::matrix::generate::{
    Conditioned, Hilbert, Laplacian, PositiveDefinite, Random, Trefethen,
};
use dataflow::linalg::matrix::{Entries, Format, Layout, Structure, TiledMatrix};
use dataflow::linalg::scalar::{Precision, Scalar, c32, c64};
use dataflow::prelude::{Rank, Store};
use dataflow::sequence::record::record;
use dataflow::sequence::{commute, read, write};

/// LAPACK's tests draw the line here.
const LARGEST_RESIDUAL: f64 = 30.0;

macro_rules! in_every_precision {
    ($check:ident $($argument:expr),*) => {
        $check::<f32>($($argument),*);
        $check::<f64>($($argument),*);
        $check::<c32>($($argument),*);
        $check::<c64>($($argument),*);
    };
}

fn backends() -> Vec<Backend> {
    vec![
        Backend::Faer,
        #[cfg(feature = "openblas")]
        Backend::OpenBlas,
    ]
}

fn formats<T: Scalar>() -> [Format; 3] {
    let small = Format::SubTiled { order: 5 };
    [Format::ColumnMajor, small, Format::sub_tiled::<T>()]
}

fn lower<T: Scalar>(n: usize, nb: usize, entries: &impl Entries<T>) -> TiledMatrix<T> {
    TiledMatrix::from_entries(Layout::lower(n, nb).unwrap(), entries)
}

fn bits<T: Scalar>(a: &TiledMatrix<T>) -> Vec<[u64; 2]> {
    let elements = a.to_column_major().unwrap();
    elements.into_iter().map(Scalar::bits).collect()
}

fn factored<T: Scalar>(n: usize, nb: usize, backend: Backend, on: &dyn Executor) -> Vec<[u64; 2]> {
    let format = Format::SubTiled { order: 4 };
    let layout = Layout::lower(n, nb).unwrap().with_format(format);
    let a = TiledMatrix::<T>::from_entries(layout, &PositiveDefinite::new(n, 1));
    let report = factor(&a, backend, on).unwrap();
    assert_eq!(report.copies(), 0);
    bits(&a)
}

#[test]
fn the_factor_is_bitwise_the_same_on_1_2_3_and_8_threads() {
    fn check<T: Scalar>(runtime: &Runtime) {
        for backend in backends() {
            for (n, nb, repetitions) in [(40, 7, 40), (250, 24, 2)] {
                let expected = factored::<T>(n, nb, backend, &Inline);
                for _ in 0..repetitions {
                    assert!(
                        factored::<T>(n, nb, backend, runtime) == expected,
                        "{} {backend}, n = {n}, {runtime:?}",
                        T::PRECISION
                    );
                }
            }
        }
    }
    for threads in [1, 2, 3, 8] {
        let runtime = Runtime::builder().threads(threads).build().unwrap();
        in_every_precision!(check & runtime);
    }
}

/// Inserts the factorisation of a matrix on one rank: `$a(m, n)` is its tile.
macro_rules! insert_cholesky {
    ($s:ident, $nt:expr, $a:ident, $last:ident) => {
        for k in 0..$nt {
            $s.task(write($a(k, k)), |a| {
                potrf(Backend::Faer, a).map_err(|failed| failed.to_string())
            });
            for m in k + 1..$nt {
                $s.task((read($a(k, k)), write($a(m, k))), |(l, a)| {
                    trsm(Backend::Faer, l, a)
                });
            }
            for m in k + 1..$nt {
                $s.task((read($a(m, k)), $last($a(m, m))), |(l, a)| {
                    herk(Backend::Faer, l, a)
                });
                for n in k + 1..m {
                    let accesses = (read($a(m, k)), read($a(n, k)), $last($a(m, n)));
                    $s.task(accesses, |(l, r, a)| gemm(Backend::Faer, l, r, a));
                }
            }
        }
    };
}

#[test]
fn by_insertion_the_factor_has_the_same_bits_on_1_to_4_threads_recorded_or_not() {
    let (n, nb) = (70, 8);
    let layout = Layout::lower(n, nb).unwrap();
    let matrix = || TiledMatrix::<f64>::from_entries(layout, &PositiveDefinite::new(n, 1));
    let expected = matrix();
    factor(&expected, Backend::Faer, &Inline).unwrap();
    let expected = bits(&expected);
    for threads in 1..=4 {
        let runtime = Runtime::builder().threads(threads).build().unwrap();
        for _ in 0..5 {
            let mut inserted = matrix();
            let ran = Store::with_data(inserted.store_mut(), |tiles| {
                runtime.scope(|s| {
                    let tiles = s.handles(tiles.iter_mut().map(|tile| &mut **tile));
                    let a = |m, n| &tiles[layout.slot(m, n).unwrap()];
                    insert_cholesky!(s, layout.nt(), a, write);
                })
            });
            ran.unwrap().unwrap();
            assert!(bits(&inserted) == expected, "inserted on {threads}");
        }
        let recorded = matrix();
        let program = record("cholesky", 1, |s| {
            let slots = 0..recorded.store().len();
            let tiles: Vec<_> = slots
                .map(|slot| s.home(recorded.store(), slot, Rank(0)))
                .collect();
            let a = |m, n| &tiles[layout.slot(m, n).unwrap()];
            insert_cholesky!(s, layout.nt(), a, commute);
        });
        let report = runtime.replay(&program.unwrap()).unwrap();
        assert_eq!(report.copies(), 0);
        assert!(bits(&recorded) == expected, "recorded on {threads}");
    }
}

#[test]
fn the_factor_is_bitwise_the_same_under_1000_schedules() {
    fn check<T: Scalar>() {
        // Each seed is two schedules; the graph is the same in every precision.
        let n_seeds = if T::PRECISION == Precision::F64 {
            500
        } else {
            50
        };
        for backend in backends() {
            let expected = factored::<T>(30, 6, backend, &Inline);
            for seed in 0..n_seeds {
                let shuffled = Shuffled::new(seed);
                for on in [shuffled, shuffled.with_threads(2)] {
                    assert!(
                        factored::<T>(30, 6, backend, &on) == expected,
                        "{} {backend}, {on:?}",
                        T::PRECISION
                    );
                }
            }
        }
    }
    in_every_precision!(check);
}

/// L·D·Lᴴ for a unit lower triangle L of small Gaussian integers and pivots D: the arithmetic of
/// its factorisation is exact while the pivots are 1 or 4.
struct Exact {
    pivots: Vec<f64>,
}

impl Exact {
    /// Order `n`, with another value at some pivots.
    fn new(n: usize, bad: &[(usize, f64)]) -> Self {
        let mut pivots: Vec<f64> = (0..n).map(|k| [1.0, 4.0][k % 2]).collect();
        for &(place, pivot) in bad {
            pivots[place] = pivot;
        }
        Exact { pivots }
    }

    fn l<T: Scalar>(i: usize, k: usize) -> T {
        match i == k {
            true => T::one(),
            false => T::from_parts(
                ((3 * i + 5 * k) % 3) as f64 - 1.0,
                ((i + 2 * k) % 3) as f64 - 1.0,
            ),
        }
    }
}

impl<T: Scalar> Entries<T> for Exact {
    fn entry(&self, i: usize, j: usize) -> T {
        (0..=i.min(j)).fold(T::zero(), |sum, k| {
            sum + Self::l::<T>(i, k) * Self::l::<T>(j, k).conj() * T::from_real(self.pivots[k])
        })
    }
}

/// The executors under which a failure has to be the same.
fn schedules() -> Vec<Box<dyn Executor>> {
    let mut all: Vec<Box<dyn Executor>> = vec![Box::new(Inline)];
    for threads in [1, 2, 3] {
        all.push(Box::new(
            Runtime::builder().threads(threads).build().unwrap(),
        ));
    }
    for seed in 0..2 {
        all.push(Box::new(Shuffled::new(seed)));
        all.push(Box::new(Shuffled::new(seed).with_threads(2)));
    }
    all
}

#[test]
fn info_is_the_place_of_the_first_pivot_that_is_not_positive() {
    fn check<T: Scalar>(schedules: &[Box<dyn Executor>]) {
        const N: usize = 7;
        let places = (0..N).flat_map(|place| [(place, 0.0), (place, -1.0)]);
        for (place, pivot) in places {
            // A second one further down must not be what is told.
            let entries = Exact::new(N, &[(N - 1, -9.0), (place, pivot)]);
            for (nb, backend) in
                (1..=N + 1).flat_map(|nb| backends().into_iter().map(move |b| (nb, b)))
            {
                for on in schedules {
                    let failed = factor(&lower::<T>(N, nb, &entries), backend, &**on).unwrap_err();
                    assert_eq!(
                        (failed.name(), failed.index()),
                        ("not_positive_definite", Some(place as u64 + 1)),
                        "{}, nb = {nb}: {failed}",
                        T::PRECISION
                    );
                    let value = format!("pivot {} is {pivot:e} ", place + 1);
                    assert!(failed.to_string().contains(&value), "{failed}");
                }
            }
        }
        let sound = lower::<T>(N, 3, &Exact::new(N, &[]));
        factor(&sound, Backend::Auto, &Inline).unwrap();
        for i in 0..N {
            let diagonal = sound.get(i, i).unwrap();
            assert_eq!(
                diagonal,
                T::from_real([1.0, 2.0][i % 2]),
                "L is known exactly"
            );
        }
    }
    in_every_precision!(check & schedules());
}

#[test]
fn info_of_a_nan_is_its_row_even_without_the_scan() {
    fn check<T: Scalar>(schedules: &[Box<dyn Executor>]) {
        const N: usize = 6;
        for (row, col) in (0..N).flat_map(|row| (0..=row).map(move |col| (row, col))) {
            let sound = Exact::new(N, &[]);
            let entries = |i: usize, j: usize| match (i, j) == (row, col) {
                true => T::from_real(f64::NAN),
                false => sound.entry(i, j),
            };
            for nb in 1..=N {
                for on in schedules {
                    let a = lower::<T>(N, nb, &entries);
                    let space = Factor::new(&a, Backend::Auto).unwrap();
                    let failed = space.run(&**on).unwrap_err();
                    assert_eq!(
                        failed.index(),
                        Some(row as u64 + 1),
                        "({row}, {col}), nb = {nb}"
                    );
                }
            }
        }
    }
    in_every_precision!(check & schedules());
}

#[test]
fn the_first_entry_in_column_order_that_is_not_finite_is_named() {
    fn check<T: Scalar>(schedules: &[Box<dyn Executor>]) {
        const N: usize = 6;
        let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let places: Vec<_> = (0..N).flat_map(|j| (j..N).map(move |i| (i, j))).collect();
        for (nth, &first) in places.iter().enumerate() {
            // Another one behind it, in column order.
            let other = places[nth + (places.len() - nth) / 2];
            let bad = T::from_real(values[nth % 3]);
            let entries = |i: usize, j: usize| match (i, j) == first || (i, j) == other {
                true => bad,
                false => T::from_real(if i == j { 9.0 } else { 1.0 }),
            };
            for nb in [1, 2, 4, 6, 7] {
                for on in schedules {
                    let failed = factor(&lower(N, nb, &entries), Backend::Auto, &**on).unwrap_err();
                    assert!(
                        matches!(failed, LinalgError::NotFinite { row, col, .. }
                            if (row, col) == (first.0 as u64, first.1 as u64)),
                        "{first:?}, nb = {nb}: {failed}"
                    );
                }
            }
        }
    }
    in_every_precision!(check & schedules());
}

#[test]
fn nothing_above_the_diagonal_is_read() {
    fn check<T: Scalar>() {
        let n = 11;
        for nb in [1, 3, 4, 11, 20] {
            let nan_above = |i: usize, j: usize| match i < j {
                true => T::from_real(f64::NAN),
                false => PositiveDefinite::new(n, 1).entry(i, j),
            };
            let expected = lower::<T>(n, nb, &PositiveDefinite::new(n, 1));
            let a = lower::<T>(n, nb, &nan_above);
            // Nor in the tiles on the diagonal.
            for k in 0..a.nt() {
                let slot = a.slot(k, k).unwrap();
                let mut tile = a.store().take(slot).unwrap().into_datum();
                for (i, j) in (0..tile.cols()).flat_map(|j| (0..j).map(move |i| (i, j))) {
                    tile.set(i, j, T::from_real(f64::NAN));
                }
                a.store().put(slot, Version::new(tile)).unwrap();
            }
            factor(&expected, Backend::Auto, &Inline).unwrap();
            factor(&a, Backend::Auto, &Inline).unwrap();
            let below = (0..n).flat_map(|j| (j..n).map(move |i| (i, j)));
            for (i, j) in below {
                assert_eq!(a.get(i, j), expected.get(i, j), "({i}, {j}), nb = {nb}");
            }
        }
    }
    in_every_precision!(check);
}

#[test]
fn imaginary_parts_on_the_diagonal_are_not_read() {
    fn check<T: Scalar>() {
        let (n, nb) = (7, 3);
        let sound = lower::<T>(n, nb, &PositiveDefinite::new(n, 1));
        let other = lower::<T>(n, nb, &|i: usize, j: usize| {
            let entry: T = PositiveDefinite::new(n, 1).entry(i, j);
            T::from_parts(entry.re(), if i == j { f64::NAN } else { entry.im() })
        });
        factor(&sound, Backend::Auto, &Inline).unwrap();
        factor(&other, Backend::Auto, &Inline).unwrap();
        assert_eq!(bits(&other), bits(&sound));
    }
    in_every_precision!(check);
}

#[test]
fn the_factor_reproduces_the_matrix_for_every_order_and_tile_order() {
    fn check<T: Scalar>(runtime: &Runtime) {
        for (n, nb) in [0, 1, 2, 5, 16, 17, 33, 100, 211]
            .into_iter()
            .flat_map(|n| [1, 2, 7, 16, 33, 96, 300].map(|nb| (n, nb)))
        {
            // Tiles of a few numbers are tried at a few orders.
            if n > 20 * nb {
                continue;
            }
            for (format, backend) in formats::<T>()
                .into_iter()
                .flat_map(|format| backends().into_iter().map(move |b| (format, b)))
            {
                let layout = Layout::lower(n, nb).unwrap().with_format(format);
                let original = PositiveDefinite::new(n, 7);
                let l = TiledMatrix::<T>::from_entries(layout, &original);
                let report = factor(&l, backend, runtime).unwrap();
                let nt = n.div_ceil(nb) as u64;
                assert_eq!(
                    (report.tasks, report.copies()),
                    (nt * (nt + 1) * (nt + 2) / 6, 0)
                );
                let residual = residual(&original, &l).unwrap();
                let case = format!("{} {backend} n = {n} nb = {nb} {format:?}", T::PRECISION);
                assert!(
                    residual < LARGEST_RESIDUAL,
                    "{case}: residual {residual:.1}"
                );
                assert!(n > 0 || residual == 0.0, "{case}");
            }
        }
    }
    let runtime = Runtime::builder().threads(2).build().unwrap();
    in_every_precision!(check & runtime);
}

/// 2 Σ log Lᵢᵢ
fn log_det<T: Scalar>(l: &TiledMatrix<T>) -> f64 {
    (0..l.rows())
        .map(|i| 2.0 * l.get(i, i).unwrap().re().ln())
        .sum()
}

#[test]
fn an_ill_conditioned_matrix_is_factored_backward_stably() {
    fn check<T: Scalar>() {
        let n = 120;
        for condition in [1.0, 1e3, 0.01 / T::EPSILON] {
            let original = Conditioned::new(n, condition, 5).unwrap();
            let bound = 10.0 * n as f64 * T::EPSILON * condition;
            for nb in [13, 48, 200] {
                let l = lower::<T>(n, nb, &original);
                factor(&l, Backend::Auto, &Inline).unwrap();
                let residual = residual(&original, &l).unwrap();
                assert!(
                    residual < LARGEST_RESIDUAL,
                    "κ = {condition:e}: {residual:.1}"
                );
                let error = (log_det(&l) - original.log_det()).abs();
                assert!(
                    error < bound,
                    "κ = {condition:e}: log det is off by {error:e}"
                );
            }
        }
    }
    in_every_precision!(check);
}

#[test]
fn the_determinants_of_laplacians_are_found() {
    fn check<T: Scalar>() {
        for (width, height) in [(1, 1), (20, 1), (12, 9)] {
            let laplacian = Laplacian { width, height };
            let n = width * height;
            for nb in [4, 30, 200] {
                let l = lower::<T>(n, nb, &laplacian);
                factor(&l, Backend::Auto, &Inline).unwrap();
                let error = (log_det(&l) - laplacian.log_det()).abs();
                assert!(
                    error < 30.0 * n as f64 * T::EPSILON,
                    "{laplacian:?}: {error:e}"
                );
            }
        }
    }
    in_every_precision!(check);
}

#[test]
fn trefethens_matrix_has_the_same_determinant_by_elimination() {
    let n = 150;
    let original = Trefethen::new(n);
    let mut a: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| original.entry(i, j)).collect())
        .collect();
    let mut expected = 0.0;
    for k in 0..n {
        let pivot_row = a[k].clone();
        expected += pivot_row[k].ln();
        for row in &mut a[k + 1..] {
            let factor = row[k] / pivot_row[k];
            for (entry, above) in row.iter_mut().zip(&pivot_row) {
                *entry -= factor * above;
            }
        }
    }
    for nb in [11, 48, 150] {
        let l = lower::<f64>(n, nb, &original);
        factor(&l, Backend::Auto, &Inline).unwrap();
        let error = (log_det(&l) - expected).abs();
        assert!(error < 1e-10, "log det is off by {error:e}, nb = {nb}");
    }
}

#[test]
fn the_hilbert_matrix_is_factored_until_rounding_makes_it_indefinite() {
    for nb in [1, 2, 5, 12, 40] {
        let l = lower::<f64>(12, nb, &Hilbert);
        factor(&l, Backend::Auto, &Inline).unwrap();
        assert!(residual(&Hilbert, &l).unwrap() < LARGEST_RESIDUAL);
        // 1/ε is reached at order 13 to 14 in double precision, 6 to 9 in single.
        let failed = factor(&lower::<f64>(40, nb, &Hilbert), Backend::Auto, &Inline).unwrap_err();
        assert!(
            matches!(failed.index(), Some(13..=18)),
            "nb = {nb}: {failed}"
        );
        let failed = factor(&lower::<f32>(40, nb, &Hilbert), Backend::Auto, &Inline).unwrap_err();
        assert!(
            matches!(failed.index(), Some(7..=12)),
            "nb = {nb}: {failed}"
        );
    }
}

#[test]
fn the_solution_is_found_for_any_number_of_right_hand_sides() {
    fn check<T: Scalar>(runtime: &Runtime) {
        for (n, nb) in [(0, 3), (1, 1), (5, 8), (24, 1), (40, 7), (100, 48)] {
            for (n_rhs, backend) in [0, 1, 2, 7, 50]
                .into_iter()
                .flat_map(|n_rhs| backends().into_iter().map(move |b| (n_rhs, b)))
            {
                let original = PositiveDefinite::new(n, 3);
                let random = Random::new(4);
                let known = |i: usize, j: usize| -> T { random.entry(i, j) };
                let a = |i: usize, j: usize| -> T { original.entry(i, j) };
                // Column j of B = A·X, summed once for each entry.
                let b = TiledMatrix::from_fn(Layout::general(n, n_rhs, nb).unwrap(), |i, j| {
                    (0..n).fold(T::zero(), |sum, k| sum + a(i, k) * known(k, j))
                });
                let right = b.to_column_major().unwrap();
                let right = |i: usize, j: usize| right[i + j * n];
                let l = lower::<T>(n, nb, &original);
                factor(&l, backend, runtime).unwrap();
                let report = solve(&l, &b, backend, runtime).unwrap();
                let (nt, columns) = (l.nt(), b.nt());
                let n_tasks = (columns * nt * (nt + 1)) as u64;
                assert_eq!((report.tasks, report.copies()), (n_tasks, 0));
                let error = solve_backward_error(&original, Structure::Lower, &b, &right).unwrap();
                let case = format!(
                    "{} {backend} n = {n} nb = {nb} nrhs = {n_rhs}",
                    T::PRECISION
                );
                assert!(
                    error < LARGEST_RESIDUAL,
                    "{case}: backward error {error:.1}"
                );
                for (i, j) in (0..n_rhs).flat_map(|j| (0..n).map(move |i| (i, j))) {
                    let off = b.get(i, j).unwrap() - known(i, j);
                    // The condition number is below 6.
                    assert!(
                        off.modulus() < 20.0 * n as f64 * T::EPSILON,
                        "{case}: ({i}, {j})"
                    );
                }
            }
        }
    }
    let runtime = Runtime::builder().threads(2).build().unwrap();
    in_every_precision!(check & runtime);
}

#[test]
fn the_solution_is_bitwise_the_same_under_every_schedule() {
    fn solved<T: Scalar>(on: &dyn Executor) -> Vec<[u64; 2]> {
        let (n, nb) = (22, 5);
        let l = lower::<T>(n, nb, &PositiveDefinite::new(n, 3));
        factor(&l, Backend::Auto, &Inline).unwrap();
        let b = TiledMatrix::from_entries(Layout::general(n, 7, nb).unwrap(), &Random::new(4));
        assert_eq!(solve(&l, &b, Backend::Auto, on).unwrap().copies(), 0);
        bits(&b)
    }
    fn check<T: Scalar>(schedules: &[Box<dyn Executor>]) {
        let expected = solved::<T>(&Inline);
        for on in schedules {
            assert!(solved::<T>(&**on) == expected, "{}", T::PRECISION);
        }
        for seed in 0..100 {
            let on = Shuffled::new(seed).with_threads(2);
            assert!(solved::<T>(&on) == expected, "{} {on:?}", T::PRECISION);
        }
    }
    in_every_precision!(check & schedules());
}

#[test]
fn after_a_failure_the_tiles_are_there_and_the_runtime_works() {
    let runtime = Runtime::builder().threads(2).build().unwrap();
    for place in [0, 9, 19] {
        let a = lower::<f64>(20, 3, &Exact::new(20, &[(place, -1.0)]));
        factor(&a, Backend::Auto, &runtime).unwrap_err();
        assert!(a.tiles().all(|(i, j)| a.tile(i, j).is_some()));
        let sound = lower::<f64>(20, 3, &Exact::new(20, &[]));
        factor(&sound, Backend::Auto, &runtime).unwrap();
    }
}
