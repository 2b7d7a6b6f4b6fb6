//! Operation counts: what a run of a given size is credited with, whatever it did.
//!
//! A rate in GFLOP/s divides these counts by the time, so that rates of different algorithms for
//! one problem compare as their times do.
//!
//! # Law
//! A complex multiplication counts 6, a complex addition 2; a square root or division counts as one
//! multiplication.
//!
//! # Source
//! Blackford and Dongarra, *Installation guide for LAPACK* (LAPACK Working Note 41), appendix C.

use crate::scalar::Scalar;

/// Cholesky factorisation of an `n × n` matrix: about n³/3.
///
/// # Examples
/// ```
/// assert_eq!(dataflow_linalg::flops::potrf::<f64>(1000), 333_833_500);
/// ```
pub fn potrf<T: Scalar>(n: usize) -> u64 {
    let n = n as u128;
    let square = n * (n + 1);
    let multiplications = square.saturating_mul(n + 2) / 6;
    let additions = square.saturating_mul(n.saturating_sub(1)) / 6;
    count::<T>(multiplications, additions)
}

/// Solution with the factor of an `n × n` matrix, `nrhs` right-hand sides: about 2·n²·nrhs.
pub fn potrs<T: Scalar>(n: usize, nrhs: usize) -> u64 {
    let (n, nrhs) = (n as u128, nrhs as u128);
    let multiplications = nrhs.saturating_mul(n * (n + 1));
    let additions = nrhs.saturating_mul(n * n.saturating_sub(1));
    count::<T>(multiplications, additions)
}

/// Inverse of an `n × n` matrix from its Cholesky factor: about 2·n³/3.
pub fn potri<T: Scalar>(n: usize) -> u64 {
    let n = n as u128;
    let multiplications = (n * (n + 1)).saturating_mul(n + 2) / 3;
    let odd = (2 * n).saturating_sub(1);
    let additions = (n * n.saturating_sub(1)).saturating_mul(odd) / 6;
    count::<T>(multiplications, additions)
}

/// Inverse of a triangle of `n × n`: about n³/3.
pub fn trtri<T: Scalar>(n: usize) -> u64 {
    let n = n as u128;
    let multiplications = (n * (n + 1)).saturating_mul(n + 2) / 6;
    let additions = (n * n.saturating_sub(1)).saturating_mul(n.saturating_sub(2)) / 6;
    count::<T>(multiplications, additions)
}

/// Inverse of an `n × n` matrix from its LU factors: about 4·n³/3.
///
/// # Examples
/// ```
/// assert_eq!(dataflow_linalg::flops::getri::<f64>(1000), 1_332_335_000);
/// ```
pub fn getri<T: Scalar>(n: usize) -> u64 {
    let n = n as u128;
    // Six times the counts: n·(n·(4n + 3) + 5) and n·(n − 1)·(4n − 5).
    let each = n.saturating_mul(4 * n + 3).saturating_add(5);
    let multiplications = n.saturating_mul(each) / 6;
    let pairs = n * n.saturating_sub(1);
    let additions = pairs.saturating_mul((4 * n).saturating_sub(5)) / 6;
    count::<T>(multiplications, additions)
}

/// LU factorisation of an `m × n` matrix: about n²·(m − n/3) for m ≥ n.
///
/// # Examples
/// ```
/// assert_eq!(dataflow_linalg::flops::getrf::<f64>(1000, 1000), 666_167_500);
/// ```
pub fn getrf<T: Scalar>(m: usize, n: usize) -> u64 {
    let (long, short) = (m.max(n) as u128, m.min(n) as u128);
    let square = short * short;
    let multiplications = square
        .saturating_mul(3 * long - short)
        .saturating_add(short.saturating_mul(3 * (long - short) + 4))
        / 6;
    let pairs = short * short.saturating_sub(1);
    let additions = pairs.saturating_mul((3 * long).saturating_sub(short + 1)) / 6;
    count::<T>(multiplications, additions)
}

/// Solution with the factors of an `n × n` matrix, `nrhs` right-hand sides: about 2·n²·nrhs.
pub fn getrs<T: Scalar>(n: usize, nrhs: usize) -> u64 {
    let (n, nrhs) = (n as u128, nrhs as u128);
    let multiplications = nrhs.saturating_mul(n * n);
    let additions = nrhs.saturating_mul(n * n.saturating_sub(1));
    count::<T>(multiplications, additions)
}

/// QR factorisation of an `m × n` matrix: about 2·n²·(m − n/3) for m ≥ n.
///
/// # Examples
/// ```
/// use dataflow_linalg::flops::geqrf;
/// assert_eq!(geqrf::<f64>(1000, 1000) / 1_000_000, 1335);   // 4/3 n³
/// ```
pub fn geqrf<T: Scalar>(m: usize, n: usize) -> u64 {
    let (m, n) = (m as u128, n as u128);
    // Six times the count: n²·(3 + 6m − 2n) or m²·(6n − 3 − 2m), and what is linear.
    let (short, each, linear) = match m > n {
        true => (n, 3 + 6 * m - 2 * n, (6 * m + 23, 5)),
        false => (
            m,
            (6 * n).saturating_sub(3 + 2 * m),
            (12 * n + 23, 6 * n + 5),
        ),
    };
    let square = short.saturating_mul(each);
    let all = |linear| short.saturating_mul(square.saturating_add(linear)) / 6;
    let (of_products, of_sums) = linear;
    count::<T>(all(of_products), all(of_sums))
}

/// Q or Qᴴ of `k` reflectors of length `m` applied to `n` columns: about 2·n·k·(2m − k).
pub fn unmqr<T: Scalar>(m: usize, n: usize, k: usize) -> u64 {
    let (m, n, k) = (m as u128, n as u128, k as u128);
    let each = n.saturating_mul(k);
    let both = each.saturating_mul((2 * m).saturating_sub(k));
    let additions = both.saturating_add(each);
    count::<T>(additions.saturating_add(each), additions)
}

/// Least-squares or shortest solution with an `m × n` matrix by QR or LQ, `nrhs` right-hand sides.
pub fn gels<T: Scalar>(m: usize, n: usize, nrhs: usize) -> u64 {
    let (long, short) = (m.max(n), m.min(n));
    // The triangular solve is half of one with two triangles.
    let solve = potrs::<T>(short, nrhs) / 2;
    let turn = unmqr::<T>(long, nrhs, short);
    geqrf::<T>(long, short)
        .saturating_add(turn)
        .saturating_add(solve)
}

/// Product of an `m × k` with a `k × n` matrix, added to an `m × n` one: 2·m·n·k.
pub fn gemm<T: Scalar>(m: usize, n: usize, k: usize) -> u64 {
    let each = (m as u128 * n as u128).saturating_mul(k as u128);
    count::<T>(each, each)
}

/// The same as a number to be halved or added to others.
pub(crate) fn products<T: Scalar>(m: usize, n: usize, k: usize) -> f64 {
    gemm::<T>(m, n, k) as f64
}

/// The sum, weighted by the kind of number; counts beyond 64 bits stop at the largest.
fn count<T: Scalar>(multiplications: u128, additions: u128) -> u64 {
    let (each, other) = if T::IS_COMPLEX { (6, 2) } else { (1, 1) };
    let multiplications = each * u64::try_from(multiplications).map_or(u64::MAX.into(), u128::from);
    let additions = other * u64::try_from(additions).map_or(u64::MAX.into(), u128::from);
    u64::try_from(multiplications + additions).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::{c32, c64};

    #[test]
    fn potrf_counts_what_the_working_note_counts() {
        assert_eq!(potrf::<f64>(1000), 333_833_500);
        assert_eq!(potrf::<f32>(1000), 333_833_500);
        assert_eq!(potrf::<c64>(1000), 1_336_335_000);
        assert_eq!(potrf::<c32>(1000), 1_336_335_000);
        // One square root, no addition.
        assert_eq!((potrf::<f64>(1), potrf::<c64>(1)), (1, 6));
        assert_eq!(potrf::<f64>(0), 0);
    }

    #[test]
    fn potrf_counts_the_operations_of_the_three_loops() {
        for n in 0..20 {
            let (mut multiplications, mut additions) = (0, 0);
            for j in 0..n {
                multiplications += 1 + (n - 1 - j); // the root, the column divided by it
                let updated = (n - 1 - j) * (n - j) / 2; // the triangle right of the column
                multiplications += updated;
                additions += updated;
            }
            assert_eq!(potrf::<f64>(n), (multiplications + additions) as u64);
            assert_eq!(
                potrf::<c64>(n),
                (6 * multiplications + 2 * additions) as u64
            );
        }
    }

    #[test]
    fn getrf_counts_the_operations_of_the_three_loops_and_as_many_for_the_transpose() {
        for (m, n) in (0..12).flat_map(|n| (n..12).map(move |m| (m, n))) {
            let (mut multiplications, mut additions) = (0, 0);
            for j in 0..n {
                multiplications += 1 + (m - 1 - j); // the reciprocal, the column times it
                let updated = (m - 1 - j) * (n - 1 - j);
                multiplications += updated;
                additions += updated;
            }
            let expected = (multiplications + additions) as u64;
            assert_eq!(getrf::<f64>(m, n), expected, "{m} x {n}");
            assert_eq!(getrf::<f64>(n, m), expected);
            let complex = (6 * multiplications + 2 * additions) as u64;
            assert_eq!(getrf::<c64>(m, n), complex);
        }
        assert_eq!(getrs::<f64>(10, 3), 3 * (100 + 90));
    }

    #[test]
    fn solves_and_products_count_by_the_formula() {
        assert_eq!(potrs::<f64>(1000, 3), 3 * 1000 * (1001 + 999));
        assert_eq!(potrs::<c64>(10, 1), 6 * 110 + 2 * 90);
        assert_eq!(potrs::<f64>(0, 5), 0);
        assert_eq!(gemm::<f64>(2, 3, 5), 60);
        assert_eq!(gemm::<c32>(2, 3, 5), 240);
    }

    #[test]
    fn inverses_count_what_the_working_note_counts() {
        assert_eq!(potri::<f64>(1000), 667_167_500);
        assert_eq!(potri::<c32>(1000), 6 * 334_334_000 + 2 * 332_833_500);
        assert_eq!((potri::<f64>(0), potri::<f32>(1)), (0, 2));
        // n/6·(n + 1)·(n + 2) and n/6·(n − 1)·(n − 2)
        assert_eq!(trtri::<f64>(1000), 167_167_000 + 166_167_000);
        assert_eq!((trtri::<f64>(0), trtri::<c64>(1)), (0, 6));
        // n/6·(n·(4n + 3) + 5) and n/6·(n − 1)·(4n − 5)
        assert_eq!(getri::<f64>(1000), 667_167_500 + 665_167_500);
        assert_eq!((getri::<f64>(0), getri::<c64>(1)), (0, 12));
    }

    #[test]
    fn qr_counts_what_the_working_note_counts() {
        // n·(n·(1/2 − n/3 + m) + m + 23/6) and n·(n·(1/2 − n/3 + m) + 5/6), m > n; for m ≤ n
        // m·(m·(−1/2 − m/3 + n) + 2n + 23/6) and m·(m·(−1/2 − m/3 + n) + n + 5/6).
        assert_eq!(geqrf::<f64>(3, 2), 25 + 13);
        assert_eq!(geqrf::<f64>(1, 1), 6 + 2);
        assert_eq!(geqrf::<c64>(1, 1), 6 * 6 + 2 * 2);
        assert_eq!(geqrf::<f64>(0, 5), 0);
        assert_eq!(geqrf::<f64>(5, 0), 0);
        for (m, n) in [(1000, 1000), (3000, 100), (100, 3000)] {
            let (long, short) = (m.max(n) as f64, m.min(n) as f64);
            let leading = 2.0 * short * short * (long - short / 3.0);
            let counted = geqrf::<f64>(m, n) as f64;
            assert!(
                (counted / leading - 1.0).abs() < 0.05,
                "{m} × {n}: {counted}"
            );
        }
        assert_eq!(unmqr::<f64>(10, 3, 4), 2 * 3 * 4 * 16 + 3 * 3 * 4);
        let parts = geqrf::<f64>(20, 7) + unmqr::<f64>(20, 2, 7) + 2 * 7 * 7;
        assert_eq!(
            (gels::<f64>(20, 7, 2), gels::<f64>(7, 20, 2)),
            (parts, parts)
        );
    }

    #[test]
    fn a_count_beyond_64_bits_stops_at_the_largest() {
        assert_eq!(gemm::<f64>(1 << 32, 1 << 32, 1), u64::MAX);
        let most = usize::MAX;
        assert_eq!(gemm::<c64>(most, most, most), u64::MAX);
        assert_eq!(potrf::<f64>(most), u64::MAX);
        assert_eq!(potrf::<c32>(most), u64::MAX);
        assert_eq!(potrs::<c64>(most, most), u64::MAX);
        assert_eq!(potri::<f64>(most), u64::MAX);
        assert_eq!(trtri::<f64>(most), u64::MAX);
        assert_eq!(getrf::<f64>(most, most), u64::MAX);
        for n in [1 << 42, most] {
            assert_eq!(getri::<f64>(n), u64::MAX, "{n}");
            assert_eq!(getri::<c32>(n), u64::MAX, "{n}");
        }
        assert_eq!(getrs::<c64>(most, most), u64::MAX);
        assert_eq!(geqrf::<f64>(most, most), u64::MAX);
        assert_eq!(unmqr::<c64>(most, most, most), u64::MAX);
        assert_eq!(gels::<c64>(most, 1 << 40, most), u64::MAX);
    }
}
