//! Determinant: as logarithm and phase, so that it neither overflows nor vanishes.
//!
//! # Law
//! Logarithms are added in the order of the diagonal, with what rounding loses carried along: the
//! bits depend on the factors only.
//!
//! # Elsewhere
//! Of factors: [`cholesky::determinant`](crate::cholesky::determinant),
//! [`lu::determinant`](crate::lu::determinant), [`qr::determinant`](crate::qr::determinant).

use crate::error::{LinalgError, TileError};
use crate::matrix::TiledMatrix;
use crate::scalar::{Scalar, c64};

/// det A = phase · e^log_abs.
///
/// # Examples
/// ```
/// use dataflow_linalg::determinant::Determinant;
/// let large = Determinant::of_triangle([1e200, -1e200, 1e-300]);
/// assert!((large.log_abs - 100.0 * 10f64.ln()).abs() < 1e-12);
/// assert_eq!(large.phase.re, -1.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Determinant {
    /// log |det A|; −∞ of a singular matrix, 0 of an empty one.
    pub log_abs: f64,
    /// det A / |det A|: ±1 of a real matrix, 0 of a singular one.
    pub phase: c64,
}

impl Determinant {
    /// Of a triangle with this diagonal.
    pub fn of_triangle<T: Scalar>(diagonal: impl IntoIterator<Item = T>) -> Self {
        let (mut sum, mut lost) = (0.0f64, 0.0);
        let mut phase = c64::one();
        for pivot in diagonal {
            let by = scale_of(pivot);
            let pivot = T::from_parts(pivot.re() * by, pivot.im() * by);
            let (size, more) = (pivot.modulus(), -by.ln());
            if size == 0.0 {
                let (log_abs, phase) = (f64::NEG_INFINITY, c64::zero());
                return Determinant { log_abs, phase };
            }
            // Neumaier's compensated sum.
            let (term, before) = (size.ln() + more, sum);
            sum += term;
            lost += match before.abs() >= term.abs() {
                true => (before - sum) + term,
                false => (term - sum) + before,
            };
            phase *= c64::new(pivot.re() / size, pivot.im() / size);
        }
        let log_abs = sum + lost;
        // (−1)·(−1) has the imaginary part −0.
        phase.im += 0.0;
        Determinant { log_abs, phase }
    }

    /// The number itself: infinite if it is larger than any, 0 if it is too small. From the logarithm, so
    /// its relative error is about that of a number of the logarithm's size.
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::determinant::Determinant;
    /// let determinant = Determinant::of_triangle([2.0, -3.0]);
    /// assert!((determinant.value().re + 6.0).abs() < 1e-14);
    /// assert_eq!(determinant.value().im, 0.0);
    /// ```
    pub fn value(&self) -> c64 {
        let size = self.log_abs.exp();
        // A part that is 0 stays so, also of a number that is too large.
        let part = |of: f64| if of == 0.0 { 0.0 } else { of * size };
        c64::new(part(self.phase.re), part(self.phase.im))
    }

    /// Of a triangle with this diagonal that a finite matrix was factored to.
    ///
    /// # Errors
    /// [`LinalgError::Overflow`] with the first pivot that is not finite, unless one before it is zero.
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::determinant::Determinant;
    /// assert_eq!(Determinant::of_factor(&[2.0, 3.0])?.log_abs, 2f64.ln() + 3f64.ln());
    /// assert!(Determinant::of_factor(&[2.0, f64::INFINITY]).is_err());
    /// # Ok::<(), dataflow_linalg::LinalgError>(())
    /// ```
    pub fn of_factor<T: Scalar>(diagonal: &[T]) -> Result<Self, LinalgError> {
        let mut pivots = diagonal.iter();
        let ends = pivots.position(|pivot| *pivot == T::zero() || !pivot.is_finite());
        match ends.filter(|&k| !diagonal[k].is_finite()) {
            Some(col) => Err(LinalgError::overflow_in(col)),
            None => Ok(Determinant::of_triangle(diagonal.iter().copied())),
        }
    }

    /// Of the matrix whose rows were swapped so many times.
    pub fn swapped(self, times: usize) -> Self {
        match times % 2 {
            0 => self,
            _ => Determinant {
                // −(1 + 0i) is −1 − 0i, whose angle is −π.
                phase: c64::new(0.0, 0.0) - self.phase,
                ..self
            },
        }
    }

    /// Of Q·A, where this is of A, and the determinant of the unitary Q is the product of these.
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::determinant::Determinant;
    /// let mirrored = Determinant::of_triangle([2.0, 3.0]).turned([-1.0, -1.0, -1.0]);
    /// assert_eq!(mirrored.phase.re, -1.0);
    /// ```
    pub fn turned<T: Scalar>(self, phases: impl IntoIterator<Item = T>) -> Self {
        let by = phases
            .into_iter()
            .map(|phase| c64::new(phase.re(), phase.im()));
        let phase = self.phase * by.product::<c64>();
        // Of a product of zeros the sign is left out.
        let phase = phase + c64::zero();
        Determinant { phase, ..self }
    }

    /// Of L·Lᴴ, where this is of L.
    pub fn of_square(self) -> Self {
        Determinant {
            log_abs: 2.0 * self.log_abs,
            phase: c64::new(self.phase.norm_sqr().round(), 0.0),
        }
    }
}

/// A power of two by which a pivot has a modulus that is as exact as its parts: those of a number near the
/// largest one, or below the smallest normal one, have none.
fn scale_of<T: Scalar>(pivot: T) -> f64 {
    match pivot.modulus() {
        size if size.is_infinite() && pivot.is_finite() => 0.25,
        size if size < f64::MIN_POSITIVE => f64::EPSILON.recip(),
        _ => 1.0,
    }
}

/// The diagonal of a matrix whose tiles are all on this rank.
pub(crate) fn diagonal_of<T: Scalar>(a: &TiledMatrix<T>) -> Result<Vec<T>, TileError> {
    let mut diagonal = Vec::with_capacity(a.rows().min(a.cols()));
    for k in 0..a.mt().min(a.nt()) {
        let tile = a.tile_at(k, k)?;
        diagonal.extend((0..tile.rows().min(tile.cols())).map(|d| tile.get(d, d)));
    }
    Ok(diagonal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cholesky;
    use crate::kernel::Backend;
    use crate::lu::{self, Pivots};
    use crate::matrix::Layout;
    use crate::matrix::generate::Random;
    use crate::scalar::c32;
    use dataflow_core::port::Inline;

    #[test]
    fn a_real_determinant_has_no_negative_zero() {
        for diagonal in [&[-1.0, -2.0][..], &[-1.0], &[2.0, -3.0, -4.0], &[]] {
            let found = Determinant::of_triangle(diagonal.iter().copied());
            for phase in [found.phase, found.swapped(1).phase] {
                assert!(phase.im.is_sign_positive(), "{diagonal:?}: {phase:?}");
            }
        }
    }

    /// What rounding loses, one by one, would be some hundred times as much.
    #[test]
    fn a_logarithm_of_many_terms_is_as_exact_as_one_of_few() {
        let (n, pivot) = (100_000, 3.0f64);
        let found = Determinant::of_triangle(std::iter::repeat_n(pivot, n));
        let expected = n as f64 * pivot.ln();
        let off = (found.log_abs - expected).abs() / expected;
        assert!(off <= f64::EPSILON, "{found:?}: {off:e}");
    }

    #[test]
    fn a_determinant_larger_than_any_number_is_infinite_in_the_part_that_it_has() {
        let large = Determinant::of_triangle([1e200, -1e200]).value();
        assert_eq!((large.re, large.im), (f64::NEG_INFINITY, 0.0));
        let turned = Determinant::of_triangle([c64::new(0.0, 1e200); 3]).value();
        assert_eq!(turned.im, f64::NEG_INFINITY);
    }

    /// The determinant by LU in tiles of order 2.
    fn by_lu<T: Scalar>(n: usize, entry: impl Fn(usize, usize) -> T + Sync) -> Determinant {
        let a = TiledMatrix::from_fn(Layout::general(n, n, 2).unwrap(), entry);
        let pivots = Pivots::new(&a);
        match lu::factor(&a, &pivots, Backend::Auto, &Inline) {
            Ok(_) | Err(LinalgError::Singular { .. }) => lu::determinant(&a, &pivots).unwrap(),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn permutations_and_diagonals_have_their_sign_and_phase() {
        for n in 0..8usize {
            // The rows in turn: n − 1 swaps.
            let turn = |i: usize, j: usize| f64::from(u8::from((i + 1) % n.max(1) == j));
            let sign = if n % 2 == 1 || n == 0 { 1.0 } else { -1.0 };
            let found = by_lu(n, turn);
            assert_eq!((found.log_abs, found.phase), (0.0, c64::new(sign, 0.0)));
            // i on the diagonal: phase iⁿ, modulus 2ⁿ.
            let found = by_lu(n, |i, j| match i == j {
                true => c64::new(0.0, 2.0),
                false => c64::zero(),
            });
            let phase = c64::new(0.0, 1.0).powu(n as u32);
            assert!((found.phase - phase).norm() < 1e-15, "{n}: {found:?}");
            assert!((found.log_abs - n as f64 * 2f64.ln()).abs() < 1e-14);
        }
    }

    #[test]
    fn a_negative_determinant_has_the_angle_pi() {
        let swapped = Determinant::of_factor(&[2.0, 3.0]).unwrap().swapped(1);
        assert_eq!(swapped.phase.arg(), std::f64::consts::PI);
    }

    #[test]
    fn a_pivot_whose_modulus_overflows_has_a_logarithm_and_a_phase() {
        let large = Determinant::of_triangle([c64::new(1.5e308, 1.5e308)]);
        let log_abs = 1.5e308f64.ln() + 2f64.ln() / 2.0;
        assert!((large.log_abs - log_abs).abs() < 1e-12, "{large:?}");
        let phase = c64::from_polar(1.0, std::f64::consts::FRAC_PI_4);
        assert!((large.phase - phase).norm() < 1e-15, "{large:?}");
    }

    #[test]
    fn a_pivot_below_the_smallest_normal_number_has_a_logarithm_and_a_phase() {
        fn check<T: Scalar>(least: f64) {
            for (re, im) in [(1.0, 1.0), (-3.0, 4.0), (0.0, -1.0)] {
                let pivot = T::from_parts(re * least, im * least);
                let small = Determinant::of_triangle([pivot]);
                let log_abs = least.ln() + c64::new(re, im).norm().ln();
                assert!((small.log_abs - log_abs).abs() < 1e-12, "{small:?}");
                let phase = c64::new(re, im) / c64::new(re, im).norm();
                assert!((small.phase - phase).norm() < 1e-15, "{small:?}");
            }
        }
        check::<c64>(5e-324);
        check::<c32>(f32::from_bits(1).into());
    }

    #[test]
    fn a_factor_that_overflowed_has_no_determinant_and_one_that_is_singular_before_has() {
        let overflows = |i: usize, j: usize| [[1e308, 1e308], [-1e308, 1e308]][i][j];
        let a = TiledMatrix::from_fn(Layout::general(2, 2, 1).unwrap(), overflows);
        let pivots = Pivots::new(&a);
        let refused = lu::factor(&a, &pivots, Backend::Auto, &Inline).unwrap_err();
        assert!(
            matches!(refused, LinalgError::Overflow { col: 1, .. }),
            "{refused}"
        );
        let refused = lu::determinant(&a, &pivots).unwrap_err();
        assert!(
            matches!(refused, LinalgError::Overflow { col: 1, .. }),
            "{refused}"
        );
        for (diagonal, expected) in [
            ([1.0, f64::NAN, 0.0], Err(1)),
            ([f64::INFINITY, 0.0, 1.0], Err(0)),
            ([1.0, 0.0, f64::NAN], Ok(f64::NEG_INFINITY)),
            ([1.0, 1.0, 1.0], Ok(0.0)),
        ] {
            let found = match Determinant::of_factor(&diagonal) {
                Ok(determinant) => Ok(determinant.log_abs),
                Err(LinalgError::Overflow { col, .. }) => Err(col),
                Err(error) => panic!("{error}"),
            };
            assert_eq!(found, expected, "{diagonal:?}");
        }
    }

    #[test]
    fn a_matrix_that_is_not_square_and_pivots_of_another_have_no_determinant() {
        let of = |m, n| {
            let a = TiledMatrix::<f64>::from_entries(
                Layout::general(m, n, 2).unwrap(),
                &Random::new(1),
            );
            let pivots = lu::Pivots::new(&a);
            lu::factor(&a, &pivots, Backend::Auto, &Inline).unwrap();
            (a, pivots)
        };
        let (square, pivots) = of(4, 4);
        assert!(lu::determinant(&square, &pivots).is_ok());
        for (m, n) in [(3, 2), (2, 3), (6, 6)] {
            let (a, own) = of(m, n);
            assert!(lu::determinant(&a, &pivots).is_err());
            assert_eq!(lu::determinant(&a, &own).is_ok(), m == n);
        }
    }

    #[test]
    fn what_is_not_stored_as_a_cholesky_factor_has_no_determinant() {
        for (m, n) in [(3, 2), (2, 2)] {
            let ones = TiledMatrix::from_fn(Layout::general(m, n, 2).unwrap(), |_, _| 1.0);
            let refused = cholesky::determinant(&ones).unwrap_err();
            assert_eq!(refused.name(), "wrong_shape", "{refused}");
        }
    }

    #[test]
    fn a_singular_matrix_has_determinant_0_and_a_definite_one_that_of_its_lu() {
        let singular = by_lu(5, |i, j| (i * j) as f64);
        assert_eq!(singular.log_abs, f64::NEG_INFINITY);
        assert_eq!(singular.phase, c64::zero());
        // min(i, j), counted from 1, has determinant 1; with 1 more in the corner 1 + its minor.
        let entry = |i: usize, j: usize| (i.min(j) + 1) as f64;
        let corner = |i: usize, j: usize| entry(i, j) + f64::from(u8::from((i, j) == (6, 6)));
        let l = TiledMatrix::from_fn(Layout::lower(7, 3).unwrap(), corner);
        cholesky::factor(&l, Backend::Auto, &Inline).unwrap();
        for found in [cholesky::determinant(&l).unwrap(), by_lu(7, corner)] {
            assert!((found.log_abs - 2f64.ln()).abs() < 1e-14, "{found:?}");
            assert_eq!(found.phase, c64::one());
        }
    }
}
