//! Generators: matrices given by a formula of the global index.
//!
//! # Law
//! An entry depends on its row, its column and the generator's parameters only. So every tile
//! order, grid and thread sees the same matrix, bit for bit, and tiles can be made in any order.
//! The `f32` matrix is the rounded `f64` one; `c32` and `c64` matrices are Hermitian where the
//! real ones are symmetric, exactly.
//!
//! # Elsewhere
//! From a closure: every `Fn(usize, usize) -> T` is an [`Entries`].

use super::Entries;
use crate::scalar::{Scalar, c64};
use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::fmt;
use std::ops::Range;

/// Independent entries, uniform in [−½, ½); real and imaginary part alike.
///
/// Entry `(row, col)` is word `2·row` of stream `col` of ChaCha8 (`4·row` for complex types), so
/// that single entries cost one block of the cipher, and runs down a column a few
/// nanoseconds each.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Entries, generate::Random};
/// let (a, b) = (Random::new(1), Random::new(2));
/// let entry: f64 = a.entry(3, 4);
/// assert!((-0.5..0.5).contains(&entry));
/// assert_ne!(entry, b.entry(3, 4));
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    key: [u8; 32],
}

impl Random {
    /// The matrix of a seed.
    pub fn new(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Random { key }
    }

    /// The generator of column `col` from `row` on.
    fn from(&self, row: usize, col: usize, words: u128) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::from_seed(self.key);
        random.set_stream(col as u64);
        random.set_word_pos(row as u128 * words);
        random
    }
}

/// 32-bit words of the cipher that an entry takes.
fn words<T: Scalar>() -> u128 {
    match T::IS_COMPLEX {
        true => 4,
        false => 2,
    }
}

/// Uniform in [−½, ½) with 53 random bits.
fn uniform(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

fn next<T: Scalar>(random: &mut ChaCha8Rng) -> T {
    let re = uniform(random);
    match T::IS_COMPLEX {
        true => T::from_parts(re, uniform(random)),
        false => T::from_real(re),
    }
}

impl<T: Scalar> Entries<T> for Random {
    fn entry(&self, row: usize, col: usize) -> T {
        next(&mut self.from(row, col, words::<T>()))
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        let mut random = self.from(rows.start, col, words::<T>());
        into.fill_with(|| next(&mut random));
    }
}

/// A random Hermitian positive definite matrix that no arithmetic can fail on.
///
/// The lower triangle of [`Random`], mirrored, plus `n` on the diagonal (of which only the real
/// part is kept). By Gershgorin's theorem its condition number κ₂ is below 3, or below 6 if
/// complex.
///
/// # Examples
/// What a factorisation can rely on, and what it cannot:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::{Hilbert, PositiveDefinite}};
/// use dataflow_linalg::{cholesky, kernel::Backend};
/// let layout = Layout::lower(20, 8)?;
/// let a = TiledMatrix::<f64>::from_entries(layout, &PositiveDefinite::new(20, 1));
/// assert!(cholesky::factor(&a, Backend::Auto, &Inline).is_ok());
/// let a = TiledMatrix::<f64>::from_entries(layout, &Hilbert);
/// assert!(cholesky::factor(&a, Backend::Auto, &Inline).is_err());
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PositiveDefinite {
    n: usize,
    random: Random,
}

impl PositiveDefinite {
    /// The matrix of order `n` of a seed.
    pub fn new(n: usize, seed: u64) -> Self {
        PositiveDefinite {
            n,
            random: Random::new(seed),
        }
    }

    fn shift<T: Scalar>(&self, diagonal: T) -> T {
        T::from_real(diagonal.re() + self.n as f64)
    }
}

impl<T: Scalar> Entries<T> for PositiveDefinite {
    fn entry(&self, row: usize, col: usize) -> T {
        let lower: T = self.random.entry(row.max(col), row.min(col));
        match row.cmp(&col) {
            std::cmp::Ordering::Less => lower.conj(),
            std::cmp::Ordering::Equal => self.shift(lower),
            std::cmp::Ordering::Greater => lower,
        }
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        let above = rows.start..col.clamp(rows.start, rows.end);
        let below = above.end..rows.end;
        let (upper, lower) = into.split_at_mut(above.len());
        for (slot, row) in upper.iter_mut().zip(above) {
            *slot = self.entry(row, col);
        }
        self.random.column(below.clone(), col, lower);
        if below.start == col
            && let Some(diagonal) = lower.first_mut()
        {
            *diagonal = self.shift(*diagonal);
        }
    }
}

/// A Hermitian positive definite matrix with a chosen condition number: `H · D · H` with the
/// eigenvalues `dᵢ = κ^(−i/(n−1))`, from 1 down to 1/κ, and the reflector `H = I − 2 v vᴴ` of a
/// random unit vector `v`.
///
/// Written out, entry `(i, j)` is `dᵢ δᵢⱼ + vᵢ v̄ⱼ (4s − 2dᵢ − 2dⱼ)` with `s = vᴴ D v`: a few flops
/// each, after O(n) once. Rounding the entries moves the eigenvalues by about ε: a κ near 1/ε
/// (10⁷ for `f32` and `c32`, 10¹⁶ for `f64` and `c64`) may no longer be definite.
///
/// # Source
/// The spectrum is mode 3 of LAPACK's test generator DLATMS; one reflector for a random
/// orthogonal factor as in G. W. Stewart, *The efficient generation of random orthogonal matrices
/// with an application to condition estimators*, SIAM J. Numer. Anal. 17 (1980).
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::generate::Conditioned;
/// let a = Conditioned::new(100, 1e8, 1)?;
/// assert!((a.log_det() + 50.0 * 1e8f64.ln()).abs() < 1e-9);
/// assert!(Conditioned::new(100, 0.5, 1).is_err());
/// # Ok::<(), dataflow_linalg::matrix::generate::ConditionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conditioned {
    eigenvalues: Vec<f64>,
    real: Reflector,
    complex: Reflector,
    log_det: f64,
}

#[derive(Clone, Debug)]
struct Reflector {
    v: Vec<c64>,
    /// 4 vᴴ D v
    four_s: f64,
}

impl Conditioned {
    /// The matrix of order `n` with condition number κ₂ = `condition` (1 if `n` < 2).
    ///
    /// # Errors
    /// If `condition` is below 1 or not finite.
    pub fn new(n: usize, condition: f64, seed: u64) -> Result<Self, ConditionError> {
        if !(condition >= 1.0 && condition.is_finite()) {
            return Err(ConditionError(condition));
        }
        let steps = n.saturating_sub(1).max(1) as f64;
        let eigenvalues: Vec<f64> = (0..n)
            .map(|i| condition.powf(-(i as f64) / steps))
            .collect();
        let mut v = vec![c64::default(); n];
        Random::new(seed).column(0..n, 0, &mut v);
        let real = v.iter().map(|x| c64::new(x.re, 0.0)).collect();
        let log_det = match n {
            0 | 1 => 0.0,
            _ => -(n as f64) / 2.0 * condition.ln(),
        };
        Ok(Conditioned {
            real: Reflector::new(real, &eigenvalues),
            complex: Reflector::new(v, &eigenvalues),
            eigenvalues,
            log_det,
        })
    }

    /// The eigenvalues, descending.
    pub fn eigenvalues(&self) -> &[f64] {
        &self.eigenvalues
    }

    /// log det A = −(n/2) log κ.
    ///
    /// The matrix with rounded entries differs from it by up to about n ε κ.
    pub fn log_det(&self) -> f64 {
        self.log_det
    }
}

impl Reflector {
    fn new(mut v: Vec<c64>, eigenvalues: &[f64]) -> Self {
        let norm = v.iter().map(c64::norm_sqr).sum::<f64>().sqrt();
        v.iter_mut().for_each(|x| *x /= norm);
        let weighted = v.iter().zip(eigenvalues).map(|(x, d)| d * x.norm_sqr());
        let four_s = 4.0 * weighted.sum::<f64>();
        Reflector { v, four_s }
    }
}

impl<T: Scalar> Entries<T> for Conditioned {
    fn entry(&self, row: usize, col: usize) -> T {
        let Reflector { v, four_s } = match T::IS_COMPLEX {
            true => &self.complex,
            false => &self.real,
        };
        let d = &self.eigenvalues;
        let entry = v[row] * v[col].conj() * (four_s - 2.0 * (d[row] + d[col]));
        match row == col {
            true => T::from_real(entry.re + d[row]),
            false => T::from_parts(entry.re, entry.im),
        }
    }
}

/// A condition number below 1, or not a number.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::generate::Conditioned;
/// let refused = Conditioned::new(100, 0.5, 1).unwrap_err();
/// assert_eq!(refused.0, 0.5);
/// assert_eq!(refused.to_string(), "condition number 0.5 (must be finite, at least 1)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConditionError(pub f64);

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "condition number {} (must be finite, at least 1)",
            self.0
        )
    }
}

impl std::error::Error for ConditionError {}

/// The Hilbert matrix: 1/(row + col + 1), counted from 0. Positive definite, hopelessly
/// conditioned: in `f64` its Cholesky factorisation breaks down from order 14 on.
///
/// # Examples
/// See [`PositiveDefinite`](PositiveDefinite#examples).
#[derive(Clone, Copy, Debug, Default)]
pub struct Hilbert;

impl<T: Scalar> Entries<T> for Hilbert {
    fn entry(&self, row: usize, col: usize) -> T {
        T::from_real(1.0 / (row as f64 + col as f64 + 1.0))
    }
}

/// Trefethen's matrix: the primes 2, 3, 5, … on the diagonal, 1 wherever |row − col| is a power
/// of two. Positive definite; sparse, stored dense.
///
/// # Source
/// L. N. Trefethen, *A hundred-dollar, hundred-digit challenge*, SIAM News 35 (2002), problem 7.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Entries, generate::Trefethen};
/// let a = Trefethen::new(4);
/// let row = |i| [0, 1, 2, 3].map(|j| Entries::<f64>::entry(&a, i, j));
/// assert_eq!((row(0), row(3)), ([2.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 7.0]));
/// ```
#[derive(Clone, Debug)]
pub struct Trefethen {
    primes: Vec<u32>,
}

impl Trefethen {
    /// The matrix of order `n`.
    pub fn new(n: usize) -> Self {
        // The n-th prime is below n (ln n + ln ln n) for n ≥ 6 (Rosser).
        let x = (n as f64).max(6.0);
        let bound = (x * (x.ln() + x.ln().ln())).ceil() as usize + 1;
        let mut is_composite = vec![false; bound];
        let mut primes = Vec::with_capacity(n);
        for candidate in 2..bound {
            if primes.len() == n {
                break;
            }
            if !is_composite[candidate] {
                primes.push(candidate as u32);
                for multiple in (candidate * candidate..bound).step_by(candidate) {
                    is_composite[multiple] = true;
                }
            }
        }
        Trefethen { primes }
    }
}

impl<T: Scalar> Entries<T> for Trefethen {
    fn entry(&self, row: usize, col: usize) -> T {
        T::from_real(match row.abs_diff(col) {
            0 => f64::from(self.primes[row]),
            distance if distance.is_power_of_two() => 1.0,
            _ => 0.0,
        })
    }
}

/// The five-point Laplacian of a `width × height` grid: 4 on the diagonal, −1 for each neighbour
/// on the grid. Positive definite, of order `width · height`.
///
/// Point `(x, y)` has index `x + y · width`.
///
/// # Examples
/// Two neighbours, whose matrix is [4 −1; −1 4]:
/// ```
/// use dataflow_linalg::matrix::{Entries, generate::Laplacian};
/// let laplacian = Laplacian { width: 2, height: 1 };
/// let entries: [f64; 2] = [laplacian.entry(0, 0), laplacian.entry(0, 1)];
/// assert_eq!(entries, [4.0, -1.0]);
/// assert!((laplacian.log_det() - 15f64.ln()).abs() < 1e-14);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Laplacian {
    /// Points in a row of the grid.
    pub width: usize,
    /// Rows of the grid.
    pub height: usize,
}

impl Laplacian {
    /// Its eigenvalues, 4 − 2 cos(π k/(width+1)) − 2 cos(π l/(height+1)), in no special order.
    pub fn eigenvalues(&self) -> impl Iterator<Item = f64> + use<> {
        let Laplacian { width, height } = *self;
        let half = |k: usize, points: usize| {
            // 2 − 2 cos θ = 4 sin²(θ/2) loses no digits.
            let sine = (std::f64::consts::FRAC_PI_2 * k as f64 / (points + 1) as f64).sin();
            4.0 * sine * sine
        };
        (1..=height).flat_map(move |l| (1..=width).map(move |k| half(k, width) + half(l, height)))
    }

    /// log det A, from the eigenvalues: O(width · height).
    pub fn log_det(&self) -> f64 {
        self.eigenvalues().map(f64::ln).sum()
    }
}

impl<T: Scalar> Entries<T> for Laplacian {
    fn entry(&self, row: usize, col: usize) -> T {
        let point = |index: usize| (index % self.width, index / self.width);
        let ((x, y), (u, v)) = (point(row), point(col));
        T::from_real(match x.abs_diff(u) + y.abs_diff(v) {
            0 => 4.0,
            1 => -1.0,
            _ => 0.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Layout, TiledMatrix};
    use crate::scalar::c32;

    /// 2 Σ log Lᵢᵢ of the textbook's factorisation, `None` at a pivot that is not positive.
    fn log_det<T: Scalar>(entries: &impl Entries<T>, n: usize) -> Option<f64> {
        let mut l: Vec<Vec<T>> = Vec::new();
        let mut log_det = 0.0;
        let dot = |x: &[T], y: &[T]| {
            let terms = x.iter().zip(y);
            terms.fold(T::zero(), |sum, (x, y)| sum + *x * y.conj())
        };
        for row in 0..n {
            let mut next: Vec<T> = Vec::new();
            for (col, known) in l.iter().enumerate() {
                let rest = entries.entry(row, col) - dot(&next, known);
                next.push(rest / known[col]);
            }
            let pivot = (entries.entry(row, row) - dot(&next, &next)).re();
            if pivot.is_nan() || pivot <= 0.0 {
                return None;
            }
            log_det += pivot.ln();
            next.push(T::from_real(pivot.sqrt()));
            l.push(next);
        }
        Some(log_det)
    }

    fn is_hermitian<T: Scalar>(entries: &impl Entries<T>, n: usize) -> bool {
        (0..n).all(|row| {
            (0..=row).all(|col| entries.entry(row, col) == entries.entry(col, row).conj())
        })
    }

    #[test]
    fn every_run_down_a_column_gives_the_single_entries() {
        fn check<T: Scalar>(entries: &impl Entries<T>) {
            for (rows, col) in [
                (0..9, 4),
                (5..9, 4),
                (0..3, 4),
                (4..5, 4),
                (7..7, 0),
                (2..30, 0),
            ] {
                let mut run = vec![T::zero(); rows.len()];
                entries.column(rows.clone(), col, &mut run);
                let single: Vec<T> = rows.map(|row| entries.entry(row, col)).collect();
                assert_eq!(run, single);
            }
        }
        fn check_all<T: Scalar>() {
            check::<T>(&Random::new(5));
            check::<T>(&PositiveDefinite::new(30, 5));
            check::<T>(&Conditioned::new(30, 10.0, 5).unwrap());
        }
        check_all::<f32>();
        check_all::<f64>();
        check_all::<c32>();
        check_all::<c64>();
    }

    #[test]
    fn random_entries_fill_their_range_evenly_and_do_not_repeat() {
        let random = Random::new(7);
        let mut entries: Vec<f64> = (0..100)
            .flat_map(|row| (0..100).map(move |col| (row, col)))
            .map(|(row, col)| random.entry(row, col))
            .collect();
        let mean = entries.iter().sum::<f64>() / 1e4;
        assert!(mean.abs() < 0.02, "mean {mean}: 7 standard deviations");
        entries.sort_by(f64::total_cmp);
        entries.dedup();
        assert_eq!(entries.len(), 10_000);
        assert!(entries[0] > -0.5 && entries[0] < -0.49);
        assert!(entries[9999] < 0.5 && entries[9999] > 0.49);
    }

    #[test]
    fn the_single_precision_matrix_is_the_rounded_double_precision_one() {
        let random = Random::new(3);
        for (row, col) in [(0, 0), (17, 4), (3, 99)] {
            let (wide, narrow): (f64, f32) = (random.entry(row, col), random.entry(row, col));
            assert_eq!(wide as f32, narrow);
            let (wide, narrow): (c64, c32) = (random.entry(row, col), random.entry(row, col));
            assert_eq!(c32::new(wide.re as f32, wide.im as f32), narrow);
        }
    }

    #[test]
    fn tile_orders_do_not_change_the_matrix() {
        let a = PositiveDefinite::new(23, 1);
        let of = |nb| {
            let layout = Layout::lower(23, nb).unwrap();
            TiledMatrix::<c64>::from_entries(layout, &a).to_column_major()
        };
        for nb in [1, 4, 7, 22] {
            assert_eq!(of(nb), of(23));
        }
    }

    #[test]
    fn a_positive_definite_matrix_is_hermitian_and_diagonally_dominant() {
        fn check<T: Scalar>() {
            let n = 40;
            let a = PositiveDefinite::new(n, 9);
            assert!(is_hermitian::<T>(&a, n));
            for row in 0..n {
                let entry = |col| Entries::<T>::entry(&a, row, col).modulus();
                let others: f64 = (0..n).filter(|col| *col != row).map(entry).sum();
                let bound = if T::IS_COMPLEX { 5.83 } else { 3.0 };
                let (low, high) = (entry(row) - others, entry(row) + others);
                assert!(low > 0.0 && high / low < 10.0 * bound);
                assert!(low > 0.2 * n as f64, "Gershgorin's circle of row {row}");
            }
        }
        check::<f64>();
        check::<c64>();
    }

    #[test]
    fn a_conditioned_matrix_has_its_trace_norm_and_determinant() {
        fn check<T: Scalar>(n: usize, condition: f64) {
            let a = Conditioned::new(n, condition, 4).unwrap();
            assert!(is_hermitian::<T>(&a, n));
            let entry = |row, col| Entries::<T>::entry(&a, row, col);
            let close = |found: f64, expected: f64, what| {
                let scale = n.max(1) as f64 * T::EPSILON * expected.abs().max(1.0);
                assert!(
                    (found - expected).abs() <= 8.0 * scale,
                    "{what} of order {n}: {found}, expected {expected}"
                );
            };
            let d = a.eigenvalues();
            let trace = (0..n).map(|i| entry(i, i).re()).sum();
            close(trace, d.iter().sum(), "trace");
            let all = (0..n).flat_map(|row| (0..n).map(move |col| (row, col)));
            let squares = all.map(|(row, col)| entry(row, col).modulus().powi(2));
            close(squares.sum(), d.iter().map(|d| d * d).sum(), "norm");
            let found = log_det::<T>(&a, n).unwrap();
            let bound = 10.0 * n as f64 * T::EPSILON * condition + 1e-9;
            assert!((found - a.log_det()).abs() <= bound, "log det {found}");
        }
        for n in [0, 1, 2, 3, 50] {
            check::<f64>(n, 1e6);
            check::<c64>(n, 1e6);
            check::<f64>(n, 1.0);
            check::<f32>(n, 1e2);
            check::<c32>(n, 1e2);
        }
    }

    #[test]
    fn a_conditioned_matrix_is_full() {
        let a = Conditioned::new(20, 1e3, 1).unwrap();
        let zeros = (0..20)
            .flat_map(|row| (0..20).map(move |col| (row, col)))
            .filter(|(row, col)| Entries::<f64>::entry(&a, *row, *col) == 0.0);
        assert_eq!(zeros.count(), 0);
    }

    #[test]
    fn impossible_condition_numbers_are_refused_with_the_value() {
        for condition in [0.0, 0.99, -3.0, f64::INFINITY, f64::NAN] {
            let refused = Conditioned::new(4, condition, 0).unwrap_err();
            assert!(refused.to_string().contains(&condition.to_string()));
        }
    }

    #[test]
    fn hilbert_has_its_determinants() {
        // 1/det: 1, 12, 2160, 6048000, 266716800000 (OEIS A005249)
        for (n, inverse) in [(1, 1.0), (2, 12.0), (3, 2160.0), (4, 6_048_000.0)] {
            let found = log_det::<f64>(&Hilbert, n).unwrap();
            let expected = -f64::ln(inverse);
            assert!((found - expected).abs() < 1e-10, "{n}: {found}");
        }
        let found = log_det::<f64>(&Hilbert, 5).unwrap();
        assert!((found + 266_716_800_000.0f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn trefethen_500_is_the_one_of_the_collection() {
        let n = 500;
        let a = Trefethen::new(n);
        let entry = |row, col| Entries::<f64>::entry(&a, row, col);
        let column_sum = |col| (0..n).map(|row| entry(row, col)).sum::<f64>();
        let norm1 = (0..n).map(column_sum).fold(0.0, f64::max);
        assert_eq!(norm1, 3580.0);
        assert_eq!((0..n).map(column_sum).sum::<f64>(), 832_671.0);
        let found = log_det::<f64>(&a, n).unwrap();
        assert!((found - 3498.62316943).abs() < 1e-8, "log det {found}");
    }

    #[test]
    fn trefethen_has_as_many_primes_as_rows() {
        for n in [0, 1, 2, 5, 6, 7, 20, 1000, 20_000] {
            assert_eq!(Trefethen::new(n).primes.len(), n);
        }
        assert_eq!(Trefethen::new(1000).primes[999], 7919);
    }

    #[test]
    fn the_laplacian_has_its_eigenvectors_and_determinant() {
        let (width, height) = (5, 3);
        let a = Laplacian { width, height };
        let n = width * height;
        let found = log_det::<f64>(&a, n).unwrap();
        assert!((found - a.log_det()).abs() < 1e-12, "log det {found}");
        // A x = λ x for x = sin(π k x/(width+1)) sin(π l y/(height+1))
        let pi = std::f64::consts::PI;
        let lambdas: Vec<f64> = a.eigenvalues().collect();
        for (k, l, lambda) in [(1, 1, lambdas[0]), (2, 1, lambdas[1]), (4, 3, lambdas[13])] {
            let wave = |k: usize, x: usize, points: usize| {
                (pi * (k * (x + 1)) as f64 / (points + 1) as f64).sin()
            };
            let x: Vec<f64> = (0..n)
                .map(|i| wave(k, i % width, width) * wave(l, i / width, height))
                .collect();
            for row in 0..n {
                let entry = |col| Entries::<f64>::entry(&a, row, col);
                let ax: f64 = (0..n).map(|col| entry(col) * x[col]).sum();
                assert!((ax - lambda * x[row]).abs() < 1e-14);
            }
        }
    }
}
