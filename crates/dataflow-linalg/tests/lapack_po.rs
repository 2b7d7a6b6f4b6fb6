//! LAPACK's acceptance tests for positive definite matrices, PO 1 to 4, in four precisions.
//!
//! # Law
//! A ratio from 30 on fails, and so does a NaN. INFO is exact on every type that has one.
//!
//! # Source
//! Reference LAPACK, TESTING/LIN: dchkpo (orders, tile orders, right-hand sides), dlatb4 (types),
//! dpot01, dpot02, dpot03, dget04 (ratios); TESTING/MATGEN: dlatms (spectra).

use dataflow_core::port::{Alone, Inline};
use dataflow_linalg::cholesky::{factor, inverse, residual, solve};
use dataflow_linalg::kernel::Backend;
use dataflow_linalg::matrix::norm::{Norm, norm};
use dataflow_linalg::matrix::{Adjoint, ColumnMajor, Entries, Format, Layout, TiledMatrix};
use dataflow_linalg::product::{self, Operand};
use dataflow_linalg::scalar::{Scalar, c32, c64};

const THRESHOLD: f64 = 30.0;
const ORDERS: [usize; 7] = [0, 1, 2, 3, 5, 10, 50];
const TILE_ORDERS: [usize; 3] = [1, 3, 20];
const RIGHT_HAND_SIDES: [usize; 3] = [1, 2, 15];

/// Uniform in (−1, 1), the same on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        let Noise(state) = self;
        *state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let mixed = (*state ^ *state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn number<T: Scalar>(&mut self) -> c64 {
        let re = self.next();
        c64::new(re, if T::IS_COMPLEX { self.next() } else { 0.0 })
    }
}

/// One of the nine types, as columns.
struct Definite {
    n: usize,
    elements: Vec<c64>,
    /// What INFO must be.
    info: u64,
}

impl Definite {
    /// `None` if there is no such matrix of order `n`.
    fn new<T: Scalar>(kind: usize, n: usize, noise: &mut Noise) -> Option<Self> {
        let precision = 2.0 * T::EPSILON;
        let bad = 0.1 / precision;
        // The smallest number that LAPACK takes for one whose reciprocal does not overflow.
        let smallest = match T::EPSILON < 1e-10 {
            true => f64::MIN_POSITIVE,
            false => f32::MIN_POSITIVE.into(),
        };
        let small = 0.25 * (smallest / precision);
        let (condition, size) = match kind {
            6 => (bad.sqrt(), 1.0),
            7 => (bad, 1.0),
            8 => (2.0, small),
            9 => (2.0, 1.0 / small),
            _ => (2.0, 1.0),
        };
        let zeroed = match kind {
            3 if n >= 1 => Some(0),
            4 if n >= 2 => Some(n - 1),
            5 if n >= 3 => Some(n / 2),
            3..=5 => return None,
            _ if n == 0 && kind > 1 => return None,
            _ => None,
        };
        let mut elements = vec![c64::new(0.0, 0.0); n * n];
        for i in 0..n {
            let step = i as f64 / (n.max(2) - 1) as f64;
            elements[i * (n + 1)] = c64::new(condition.powf(-step), 0.0);
        }
        if kind > 1 {
            for _ in 0..n.min(8) {
                reflect::<T>(&mut elements, n, noise);
            }
        }
        for (i, j) in (0..n).flat_map(|j| (0..=j).map(move |i| (i, j))) {
            let below = elements[j + i * n];
            let rounded =
                T::from_parts(below.re * size, if i == j { 0.0 } else { below.im * size });
            let entry = match zeroed {
                Some(zero) if i == zero || j == zero => c64::new(0.0, 0.0),
                _ => c64::new(rounded.re(), rounded.im()),
            };
            elements[j + i * n] = entry;
            elements[i + j * n] = entry.conj();
        }
        let info = zeroed.map_or(0, |zero| zero as u64 + 1);
        Some(Definite { n, elements, info })
    }

    fn at(&self, i: usize, j: usize) -> c64 {
        self.elements[i + j * self.n]
    }
}

/// A ← H·A·H with the reflector H = I − 2·v·vᴴ of a random unit vector v.
fn reflect<T: Scalar>(a: &mut [c64], n: usize, noise: &mut Noise) {
    let v: Vec<c64> = (0..n).map(|_| noise.number::<T>()).collect();
    let length: f64 = v.iter().map(|x| x.norm_sqr()).sum();
    for column in a.chunks_exact_mut(n) {
        let along: c64 = column.iter().zip(&v).map(|(x, v)| v.conj() * x).sum();
        for (x, v) in column.iter_mut().zip(&v) {
            *x -= v * along * (2.0 / length);
        }
    }
    for i in 0..n {
        let along: c64 = (0..n).map(|j| a[i + j * n] * v[j]).sum();
        for (j, v) in v.iter().enumerate() {
            a[i + j * n] -= along * v.conj() * (2.0 / length);
        }
    }
}

/// One triangle of the matrix; the other must not be read.
struct Triangle<'a> {
    matrix: &'a Definite,
    upper: bool,
}

impl<T: Scalar> Entries<T> for Triangle<'_> {
    fn entry(&self, i: usize, j: usize) -> T {
        match if self.upper { i > j } else { i < j } {
            true => T::from_real(f64::NAN),
            false => T::from_parts(self.matrix.at(i, j).re, self.matrix.at(i, j).im),
        }
    }
}

/// The lower matrix made of either triangle.
fn tiled<T: Scalar>(matrix: &Definite, upper: bool, nb: usize) -> TiledMatrix<T> {
    let layout = Layout::lower(matrix.n, nb).unwrap();
    let layout = layout.with_format(Format::SubTiled { order: 7 });
    let triangle = Triangle { matrix, upper };
    match upper {
        true => TiledMatrix::from_entries(layout, &Adjoint(&triangle)),
        false => TiledMatrix::from_entries(layout, &triangle),
    }
}

/// Counts ratios, and fails at the first that is too large or no number.
fn expect(what: &str, ratio: f64, n_ratios: &mut usize) {
    assert!(ratio < THRESHOLD, "{what}: {ratio:.2e}");
    *n_ratios += 1;
}

/// All tests of one matrix.
fn run<T: Scalar>(matrix: &Definite, upper: bool, nb: usize, what: &str, n_ratios: &mut usize) {
    let n = matrix.n;
    let l = tiled::<T>(matrix, upper, nb);
    let factored = factor(&l, Backend::Auto, &Inline);
    let inverted = tiled::<T>(matrix, upper, nb);
    let inversion = inverse(&inverted, Backend::Auto, &Inline);
    if matrix.info > 0 {
        for failed in [factored.err(), inversion.err()] {
            let info = failed.and_then(|failed| failed.index());
            assert_eq!(info, Some(matrix.info), "INFO of {what}");
        }
        return;
    }
    factored.unwrap_or_else(|error| panic!("{what}: {error}"));
    inversion.unwrap_or_else(|error| panic!("{what}: {error}"));

    // 1: A − L·Lᴴ, or A − Uᴴ·U
    let whole = Triangle { matrix, upper };
    let ratio = match upper {
        true => residual(&Adjoint(&whole), &l),
        false => residual(&whole, &l),
    };
    expect(&format!("{what}, test 1"), ratio.unwrap(), n_ratios);

    // 2: I − A·A⁻¹
    let original = tiled::<T>(matrix, upper, nb);
    let unit = |i: usize, j: usize| if i == j { T::one() } else { T::zero() };
    let rest = TiledMatrix::from_fn(Layout::general(n, n, nb).unwrap(), unit);
    let (a, x) = (Operand::plain(&original), Operand::plain(&inverted));
    let ratio = product::residual(a, x, &rest, &Inline, &Alone)
        .unwrap()
        .over(n);
    expect(&format!("{what}, test 2"), ratio, n_ratios);

    // 3 and 4: B − A·X, X − X₀
    let of_a = norm(&original, Norm::One).unwrap();
    let condition = of_a * norm(&inverted, Norm::One).unwrap();
    for n_rhs in RIGHT_HAND_SIDES {
        solved::<T>(matrix, (&l, n_rhs), (of_a, condition), what, n_ratios);
    }
}

/// Tests 3 and 4 of one number of right-hand sides, column by column.
fn solved<T: Scalar>(
    matrix: &Definite,
    (l, n_rhs): (&TiledMatrix<T>, usize),
    (of_a, condition): (f64, f64),
    what: &str,
    n_ratios: &mut usize,
) {
    let n = matrix.n;
    let mut noise = Noise(7);
    let exact: Vec<T> = (0..n * n_rhs)
        .map(|_| noise.number::<T>())
        .map(|x| T::from_parts(x.re, x.im))
        .collect();
    let wide = |x: T| c64::new(x.re(), x.im());
    let times_a = |x: &[T], i: usize| (0..n).map(|j| matrix.at(i, j) * wide(x[j])).sum::<c64>();
    let mut b = Vec::new();
    for column in exact.chunks_exact(n.max(1)) {
        let entries = (0..n).map(|i| times_a(column, i));
        b.extend(entries.map(|x| T::from_parts(x.re, x.im)));
    }
    let layout = Layout::general(n, n_rhs, l.nb()).unwrap();
    let x = TiledMatrix::from_entries(
        layout,
        &ColumnMajor {
            elements: &b,
            ld: n,
        },
    );
    solve(l, &x, Backend::Auto, &Inline).unwrap();
    let x = x.to_column_major().unwrap();
    let columns = x.chunks_exact(n.max(1)).zip(b.chunks_exact(n.max(1)));
    for ((x, b), exact) in columns.zip(exact.chunks_exact(n.max(1))) {
        let rest: f64 = (0..n).map(|i| (wide(b[i]) - times_a(x, i)).norm()).sum();
        let size: f64 = x.iter().map(|x| x.modulus()).sum();
        let ratio = rest / of_a / size / T::EPSILON;
        expect(&format!("{what}, test 3"), ratio, n_ratios);

        let largest = |of: &dyn Fn(usize) -> f64| (0..n).map(of).fold(0.0, f64::max);
        let error = largest(&|i| (x[i] - exact[i]).modulus());
        let ratio = error / largest(&|i| exact[i].modulus()) / condition / T::EPSILON;
        expect(&format!("{what}, test 4"), ratio, n_ratios);
    }
}

#[test]
fn every_ratio_of_tests_1_to_4_is_below_30_and_every_info_exact() {
    fn check<T: Scalar>() -> (usize, usize) {
        let (mut n_ratios, mut n_infos) = (0, 0);
        for (n, kind) in ORDERS
            .into_iter()
            .flat_map(|n| (1..=9).map(move |kind| (n, kind)))
        {
            let mut noise = Noise(1988 + kind as u64);
            let Some(matrix) = Definite::new::<T>(kind, n, &mut noise) else {
                continue;
            };
            n_infos += usize::from(matrix.info > 0);
            for (upper, nb) in [false, true]
                .into_iter()
                .flat_map(|u| TILE_ORDERS.map(|nb| (u, nb)))
            {
                // Tiles of single numbers are tried at small orders.
                if n > 20 * nb {
                    continue;
                }
                let triangle = if upper { 'U' } else { 'L' };
                let what = format!("{} type {kind} n = {n} nb = {nb} {triangle}", T::PRECISION);
                run::<T>(&matrix, upper, nb, &what, &mut n_ratios);
            }
        }
        (n_ratios, n_infos)
    }
    // What was not tried cannot fail: the numbers of ratios and of failing matrices are known.
    let counts = [
        check::<f32>(),
        check::<f64>(),
        check::<c32>(),
        check::<c64>(),
    ];
    assert_eq!(counts, [(7764, 15); 4]);
}
