//! Condition: how much a solution may change when the matrix or the right-hand side does.
//!
//! # Law
//! ‖A⁻¹‖₁ is estimated from a few solutions with A and Aᴴ, one column each: the largest ‖A⁻¹x‖₁ over
//! vectors x of 1-norm 1 that are chosen one after the other. So an estimate is a lower bound, but
//! for rounding errors, and rarely off by more than a factor 3. It depends on the solutions alone,
//! and like them neither on threads nor on the grid.
//!
//! # Source
//! Higham, *FORTRAN codes for estimating the one-norm of a real or complex matrix*, ACM Trans.
//! Math. Softw. 14 (1988); LAPACK's ?LACN2.
//!
//! # Elsewhere
//! With factors at hand: [`cholesky::condition`](crate::cholesky::condition),
//! [`lu::condition`](crate::lu::condition), [`qr::condition`](crate::qr::condition()).

use crate::error::LinalgError;
use crate::kernel::Op;
use crate::scalar::{Scalar, smallest_normal};

/// Of how many unit vectors the largest column of A⁻¹ is looked for.
const MOST_ROUNDS: usize = 5;

/// ‖A⁻¹‖₁ of a matrix of order `n`, estimated from below; infinite if a solution overflows, 0 for an
/// empty matrix.
///
/// - `solve`: overwrites a vector by A⁻¹·x ([`Op::NoTranspose`]) or A⁻ᴴ·x ([`Op::ConjTranspose`]);
///   over ranks, of the whole vector on each of them
///
/// At most 11 solutions, mostly 4 or 5.
///
/// # Errors
/// The first of `solve`.
///
/// # Examples
/// ```
/// use dataflow_linalg::condition::inverse_norm;
/// // A = [2 0; 0 ¼]
/// let solve = |_, x: &mut [f64]| {
///     x[0] /= 2.0;
///     x[1] *= 4.0;
///     Ok::<_, std::convert::Infallible>(())
/// };
/// assert_eq!(inverse_norm(2, solve)?, 4.0);
/// # Ok::<(), std::convert::Infallible>(())
/// ```
pub fn inverse_norm<T: Scalar, E>(
    n: usize,
    mut solve: impl FnMut(Op, &mut [T]) -> Result<(), E>,
) -> Result<f64, E> {
    let mut largest: f64 = 0.0;
    let (mut x, mut at) = (vec![T::from_real(1.0 / n as f64); n], None);
    for _ in 0..MOST_ROUNDS {
        solve(Op::NoTranspose, &mut x)?;
        let size = norm(&x);
        if !size.is_finite() {
            return Ok(f64::INFINITY);
        }
        largest = largest.max(size);
        // The gradient of ‖A⁻¹x‖₁ is A⁻ᴴξ with ξ = sign(A⁻¹x).
        x.iter_mut().for_each(|x| *x = sign(*x));
        solve(Op::ConjTranspose, &mut x)?;
        if !x.iter().all(|x| x.is_finite()) {
            return Ok(f64::INFINITY);
        }
        let steepest = x.iter().map(|x| x.modulus()).enumerate();
        let steepest = steepest.max_by(|(_, a), (_, b)| a.total_cmp(b));
        // Its product with x is ‖A⁻¹x‖₁: no unit vector promises more.
        let Some((j, _)) = steepest.filter(|(j, slope)| *slope > size && at != Some(*j)) else {
            break;
        };
        x.fill(T::zero());
        (x[j], at) = (T::one(), Some(j));
    }
    solve_alternating(&mut x, &mut solve)?;
    let size = 2.0 * norm(&x) / (3 * n.max(1)) as f64;
    match size.is_finite() {
        true => Ok(largest.max(size)),
        false => Ok(f64::INFINITY),
    }
}

/// The solution for a vector of growing entries of alternating sign, which matrices made to deceive
/// the search do not foresee.
fn solve_alternating<T: Scalar, E>(
    x: &mut [T],
    solve: &mut impl FnMut(Op, &mut [T]) -> Result<(), E>,
) -> Result<(), E> {
    let intervals = x.len().saturating_sub(1).max(1) as f64;
    for (i, x) in x.iter_mut().enumerate() {
        let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
        *x = T::from_real(sign * (1.0 + i as f64 / intervals));
    }
    solve(Op::NoTranspose, x)
}

/// κ₁(A) = ‖A‖₁·‖A⁻¹‖₁ of a matrix of order `n`, with ‖A⁻¹‖₁ estimated by [`inverse_norm`], whose `solve`
/// and errors it takes; infinite if `norm` = ‖A‖₁ is.
///
/// Of a matrix of usual size it is that product to the bit. Where ‖A⁻¹‖₁ might overflow or underflow,
/// right-hand sides are scaled.
///
/// # Examples
/// ```
/// use dataflow_linalg::condition::condition_number;
/// // A = 10⁻³¹⁰·I: no number is as large as ‖A⁻¹‖₁
/// let solve = |_, x: &mut [f64]| {
///     x.iter_mut().for_each(|x| *x /= 1e-310);
///     Ok::<_, std::convert::Infallible>(())
/// };
/// assert!((condition_number(2, 1e-310, solve)? - 1.0).abs() < 1e-14);
/// # Ok::<(), std::convert::Infallible>(())
/// ```
pub fn condition_number<T: Scalar, E>(
    n: usize,
    norm: f64,
    mut solve: impl FnMut(Op, &mut [T]) -> Result<(), E>,
) -> Result<f64, E> {
    let scale = scale_of::<T>(norm);
    let estimate = inverse_norm(n, |op, x: &mut [T]| {
        x.iter_mut().for_each(|x| *x *= T::from_real(scale));
        solve(op, x)
    })?;
    Ok(norm / scale * estimate)
}

/// Refuses what is no norm.
pub(crate) fn expect_norm(norm: f64) -> Result<(), LinalgError> {
    match norm >= 0.0 {
        true => Ok(()),
        false => Err(LinalgError::Argument(format!(
            "the norm of the matrix is {norm} (must be at least 0)"
        ))),
    }
}

/// By what right-hand sides are multiplied with a matrix of this norm: a power of two, so that only
/// exponents change.
fn scale_of<T: Scalar>(norm: f64) -> f64 {
    // 2⁻⁵¹¹ or 2⁻⁶³: between this and its reciprocal there is room for ‖A⁻¹‖₁ up to a condition of as much.
    let least = smallest_normal::<T>().sqrt();
    match norm {
        _ if norm < least => least,
        _ if norm > least.recip() => least.recip(),
        _ => 1.0,
    }
}

fn norm<T: Scalar>(x: &[T]) -> f64 {
    x.iter().map(|x| x.modulus()).sum()
}

/// x/|x|, 1 where x is 0.
fn sign<T: Scalar>(x: T) -> T {
    match x.modulus() {
        0.0 => T::one(),
        size => T::from_parts(x.re() / size, x.im() / size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cholesky;
    use crate::kernel::Backend;
    use crate::lu::{self, Pivots};
    use crate::matrix::generate::{PositiveDefinite, Random};
    use crate::matrix::norm::{self, Norm};
    use crate::matrix::transfer::{Turn, transfer};
    use crate::matrix::{Entries, Layout, TiledMatrix};
    use crate::qr::{self, Options};
    use crate::scalar::{c32, c64};
    use dataflow_core::port::Inline;

    /// An estimate is a lower bound of the true number, up to rounding errors, and not far below.
    fn expect_estimate(estimate: f64, exact: f64, case: &str) {
        let ratio = exact / estimate;
        assert!(
            (0.999..3.0).contains(&ratio),
            "{case}: {estimate} of {exact}"
        );
    }

    #[test]
    fn an_adjoint_solution_that_overflows_makes_the_estimate_infinite() {
        for bad in [f64::NAN, f64::INFINITY] {
            let solve = |op, x: &mut [f64]| {
                if op == Op::ConjTranspose {
                    x[1] = bad;
                }
                Ok::<_, std::convert::Infallible>(())
            };
            assert_eq!(inverse_norm(2, solve), Ok(f64::INFINITY), "{bad}");
        }
    }

    /// ‖A‖₁·‖A⁻¹‖₁ with A⁻¹ column by column.
    fn exact<T: Scalar>(a: &TiledMatrix<T>, mut solve: impl FnMut(&TiledMatrix<T>)) -> f64 {
        let n = a.rows();
        let unit = |i: usize, j: usize| if i == j { T::one() } else { T::zero() };
        let inverse = TiledMatrix::from_fn(Layout::general(n, n, a.nb()).unwrap(), unit);
        solve(&inverse);
        norm::norm(a, Norm::One, &Inline).unwrap()
            * norm::norm(&inverse, Norm::One, &Inline).unwrap()
    }

    fn check_lu<T: Scalar>(n: usize, entries: &impl Entries<T>) {
        let layout = Layout::general(n, n, 4).unwrap();
        let (a, lu) = (
            TiledMatrix::from_entries(layout, entries),
            TiledMatrix::from_entries(layout, entries),
        );
        let pivots = Pivots::new(&lu);
        lu::factor(&lu, &pivots, Backend::Auto, &Inline).unwrap();
        let exact = exact(&a, |b| {
            lu::solve(&lu, &pivots, Op::NoTranspose, b, Backend::Auto, &Inline).unwrap();
        });
        let norm = norm::norm(&a, Norm::One, &Inline).unwrap();
        let estimate = lu::condition(&lu, &pivots, norm, Backend::Auto, &Inline).unwrap();
        expect_estimate(estimate, exact, &format!("LU of {} {n}", T::PRECISION));
    }

    fn check_qr<T: Scalar>(n: usize, entries: &impl Entries<T>) {
        let layout = Layout::general(n, n, 4).unwrap();
        let (a, r) = (
            TiledMatrix::from_entries(layout, entries),
            TiledMatrix::from_entries(layout, entries),
        );
        let (q, _) = qr::factor(&r, Options::of_order(4), Backend::Auto, &Inline).unwrap();
        let exact = exact(&a, |b| {
            let x = TiledMatrix::zeros(layout);
            qr::solve((&r, &q), Op::NoTranspose, (b, &x), Backend::Auto, &Inline).unwrap();
            transfer(&x, Turn::Plain, b, &Inline).unwrap();
        });
        let norm = norm::norm(&a, Norm::One, &Inline).unwrap();
        let estimate = qr::condition(&r, &q, norm, Backend::Auto, &Inline).unwrap();
        expect_estimate(estimate, exact, &format!("QR of {} {n}", T::PRECISION));
    }

    fn check_cholesky<T: Scalar>(n: usize, entries: &impl Entries<T>) {
        let layout = Layout::lower(n, 4).unwrap();
        let (a, l) = (
            TiledMatrix::from_entries(layout, entries),
            TiledMatrix::from_entries(layout, entries),
        );
        cholesky::factor(&l, Backend::Auto, &Inline).unwrap();
        let exact = exact(&a, |b| {
            cholesky::solve(&l, b, Backend::Auto, &Inline).unwrap();
        });
        let norm = norm::norm(&a, Norm::One, &Inline).unwrap();
        let estimate = cholesky::condition(&l, norm, Backend::Auto, &Inline).unwrap();
        expect_estimate(
            estimate,
            exact,
            &format!("Cholesky of {} {n}", T::PRECISION),
        );
    }

    #[test]
    fn estimates_are_within_a_factor_3_of_exact_inverses() {
        fn check<T: Scalar>(n: usize, seed: u64) {
            check_lu::<T>(n, &Random::new(seed));
            check_qr::<T>(n, &Random::new(seed));
            check_cholesky::<T>(n, &PositiveDefinite::new(n, seed));
        }
        for (n, seed) in (1..24).flat_map(|n| [(n, 1), (n, 2)]) {
            check::<f32>(n, seed);
            check::<f64>(n, seed);
            check::<c32>(n, seed);
            check::<c64>(n, seed);
        }
    }

    /// One column of A⁻¹ far larger than the others, wherever it stands: only a search that follows
    /// the gradient meets it.
    #[test]
    fn the_largest_column_is_found_wherever_it_stands() {
        let n = 13;
        for large in 0..n {
            // I + 10⁶·u·eᵀ, of which the inverse is I − 10⁶·u·eᵀ if eᵀu = 0.
            let entry = |i: usize, j: usize| match (i, j) {
                _ if i == j => 1.0,
                _ if j == large => 1e6 * (1 + i) as f64 * [1.0, -1.0][i % 2],
                _ => 0.0,
            };
            check_lu::<f64>(n, &entry);
            check_qr::<f64>(n, &entry);
        }
    }

    /// diag(1, 4)·scale has condition 4, however large ‖A⁻¹‖₁ is.
    #[test]
    fn a_condition_is_told_where_the_norm_of_the_inverse_is_no_number() {
        fn check<T: Scalar>(scale: f64, within: f64) {
            let entry = |i: usize, j: usize| match i == j {
                true => T::from_real([1.0, 4.0][i] * scale),
                false => T::zero(),
            };
            let lu = TiledMatrix::from_fn(Layout::general(2, 2, 1).unwrap(), entry);
            let l = TiledMatrix::from_fn(Layout::lower(2, 1).unwrap(), entry);
            let norm = norm::norm(&lu, Norm::One, &Inline).unwrap();
            let pivots = Pivots::new(&lu);
            lu::factor(&lu, &pivots, Backend::Auto, &Inline).unwrap();
            cholesky::factor(&l, Backend::Auto, &Inline).unwrap();
            for found in [
                lu::condition(&lu, &pivots, norm, Backend::Auto, &Inline).unwrap(),
                cholesky::condition(&l, norm, Backend::Auto, &Inline).unwrap(),
            ] {
                assert!(
                    (found - 4.0).abs() < within,
                    "{} {scale:e}: {found}",
                    T::PRECISION
                );
            }
        }
        for scale in [1e-310, 1e-300, 1.0, 1e300, 4e307] {
            check::<f64>(scale, 1e-12);
            check::<c64>(scale, 1e-12);
        }
        for scale in [1e-40, 1e-30, 1.0, 1e30, 8e37] {
            check::<f32>(scale, 1e-4);
            check::<c32>(scale, 1e-4);
        }
    }

    /// [1 −1; −1 1], which takes the first vector to 0: the search ends there.
    #[test]
    fn a_matrix_that_deceives_the_search_is_met_by_the_alternating_vector() {
        let solve = |_: Op, x: &mut [f64]| {
            let difference = x[0] - x[1];
            x.copy_from_slice(&[difference, -difference]);
            Ok::<_, LinalgError>(())
        };
        assert_eq!(inverse_norm(2, solve).unwrap(), 2.0);
    }

    #[test]
    fn the_sign_of_a_number_has_its_angle_and_of_0_it_is_1() {
        assert_eq!(sign(c64::new(3.0, -4.0)), c64::new(0.6, -0.8));
        assert_eq!([sign(-2.0), sign(-0.0), sign(0.5)], [-1.0, 1.0, 1.0]);
    }

    #[test]
    fn what_is_negative_or_not_a_number_is_no_norm() {
        for norm in [-1.0, f64::NEG_INFINITY, f64::NAN] {
            let text = expect_norm(norm).unwrap_err().to_string();
            assert!(text.contains(&format!("is {norm} (must be")), "{text}");
        }
        for norm in [0.0, 1e-320, f64::INFINITY] {
            expect_norm(norm).unwrap();
        }
    }

    #[test]
    fn what_overflows_is_infinite_and_an_empty_matrix_has_condition_1() {
        let overflows = |_: Op, x: &mut [f64]| {
            x.fill(f64::MAX);
            Ok::<_, LinalgError>(())
        };
        assert_eq!(inverse_norm(3, overflows).unwrap(), f64::INFINITY);
        let spoils = |_: Op, x: &mut [f64]| {
            x.fill(f64::NAN);
            Ok::<_, LinalgError>(())
        };
        assert_eq!(inverse_norm(3, spoils).unwrap(), f64::INFINITY);
        let l = TiledMatrix::<f64>::zeros(Layout::lower(0, 4).unwrap());
        let condition = cholesky::condition(&l, 0.0, Backend::Auto, &Inline).unwrap();
        assert_eq!(condition, 1.0);
    }
}
