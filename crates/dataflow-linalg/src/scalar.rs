//! The four kinds of number: `f32`, `f64`, and their complex numbers [`c32`] and [`c64`].
//!
//! [`Scalar`] is what the rest of the crate is generic over.
//!
//! # Law
//! Real numbers are the complex numbers with imaginary part zero: `conj` is then the identity, and
//! every formula is written once, with the conjugate transpose.
//!
//! # Elsewhere
//! Arithmetic on whole tiles: [`kernel`](crate::kernel).

use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};
use std::ops::{AddAssign, Div, DivAssign, MulAssign, SubAssign};
use std::str::FromStr;

use faer::traits::ComplexField;
use num_complex::Complex;

/// Complex number of two `f32`.
///
/// # Examples
/// See [`c64`](c64#examples).
#[allow(non_camel_case_types)]
pub type c32 = Complex<f32>;
/// Complex number of two `f64`.
///
/// # Examples
/// ```
/// use dataflow_linalg::c64;
/// let z = c64::new(3.0, 4.0);
/// assert_eq!((z.norm(), z * z.conj()), (5.0, c64::new(25.0, 0.0)));
/// ```
#[allow(non_camel_case_types)]
pub type c64 = Complex<f64>;

/// Which of the four kinds of number: what a command line, a file header or a report calls it.
///
/// # Examples
/// ```
/// use dataflow_linalg::scalar::{Precision, Scalar, c64};
/// assert_eq!("c64".parse(), Ok(Precision::C64));
/// assert_eq!(c64::PRECISION.to_string(), "c64");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// `f32`: LAPACK's S.
    F32,
    /// `f64`: LAPACK's D.
    F64,
    /// [`c32`]: LAPACK's C.
    C32,
    /// [`c64`]: LAPACK's Z.
    C64,
}

impl Precision {
    /// All four, in the order of LAPACK's letters S, D, C, Z.
    pub const ALL: [Precision; 4] = [Self::F32, Self::F64, Self::C32, Self::C64];
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::C32 => "c32",
            Self::C64 => "c64",
        })
    }
}

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(name: &str) -> Result<Self, UnknownPrecision> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.to_string() == name)
            .ok_or_else(|| UnknownPrecision(name.to_owned()))
    }
}

/// A name that is none of the four precisions.
///
/// # Examples
/// ```
/// use dataflow_linalg::scalar::Precision;
/// let refused = "f16".parse::<Precision>().unwrap_err();
/// assert_eq!(refused.0, "f16");
/// assert_eq!(refused.to_string(), r#"unknown precision "f16" (must be f32, f64, c32 or c64)"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPrecision(pub String);

impl fmt::Display for UnknownPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown precision {:?} (must be f32, f64, c32 or c64)",
            self.0
        )
    }
}

impl std::error::Error for UnknownPrecision {}

/// A number that tiles may hold: `f32`, `f64`, [`c32`], [`c64`], and no other type.
///
/// `T::Real` is faer's [`ComplexField::Real`], `f32` or `f64`.
/// Parts are passed as `f64`, which holds every `f32` exactly.
///
/// # Examples
/// ```
/// use dataflow_linalg::scalar::{Scalar, c32};
///
/// fn squared_length<T: Scalar>(x: &[T]) -> f64 {
///     x.iter().map(|&element| (element * element.conj()).re()).sum()
/// }
/// assert_eq!(squared_length(&[3.0, 4.0]), 25.0);
/// assert_eq!(squared_length(&[c32::new(3.0, 4.0)]), 25.0);
/// ```
pub trait Scalar:
    sealed::Sealed
    + ComplexField
    + bytemuck::Pod
    + fmt::Debug
    + PartialEq
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + 'static
{
    /// Its name as a value.
    const PRECISION: Precision;
    /// Whether it has an imaginary part.
    const IS_COMPLEX: bool;
    /// LAPACK's `eps`, the unit roundoff: 2⁻²⁴ or 2⁻⁵³.
    const EPSILON: f64;
    /// Order of the sub-tiles to take: in the sweep of `benches/kernels.rs` (48, 64, 96, 128), the
    /// best or as good as the best for each of the four.
    const SUB_TILE_ORDER: usize;
    /// The type of half the size, to factor in when [refining](crate::refine) afterwards; of `f32`
    /// and [`c32`], which have none, themselves.
    type Lower: Scalar;

    /// 0.
    fn zero() -> Self;
    /// 1.
    fn one() -> Self;
    /// `re + i·im`, each rounded to this precision; a real type drops `im`.
    fn from_parts(re: f64, im: f64) -> Self;
    /// The real part.
    fn re(self) -> f64;
    /// The imaginary part, 0 for a real type.
    fn im(self) -> f64;
    /// The bits of the real and the imaginary part, for digests.
    ///
    /// −0 differs from 0; every NaN gives the same bits; a real type gives 0 for the second.
    fn bits(self) -> [u64; 2];

    /// A real number, rounded to this precision.
    #[inline]
    fn from_real(re: f64) -> Self {
        Self::from_parts(re, 0.0)
    }
    /// The complex conjugate.
    #[inline]
    fn conj(self) -> Self {
        Self::from_parts(self.re(), -self.im())
    }
    /// |x|, without overflow on the way.
    #[inline]
    fn modulus(self) -> f64 {
        self.re().hypot(self.im())
    }
    /// Whether neither part is infinite or NaN.
    #[inline]
    fn is_finite(self) -> bool {
        self.re().is_finite() && self.im().is_finite()
    }
}

/// A number as users write it, all its digits.
pub(crate) fn shown<T: Scalar>(number: T) -> String {
    let (re, im) = (number.re(), number.im());
    match T::PRECISION {
        Precision::F32 | Precision::F64 => format!("{number:?}"),
        Precision::C32 => c32::new(re as f32, im as f32).to_string(), // they are of this precision
        Precision::C64 => c64::new(re, im).to_string(),
    }
}

/// The smallest number of the precision of `T` whose reciprocal does not overflow: LAPACK's `sfmin`,
/// 2⁻¹²⁶ or 2⁻¹⁰²².
pub(crate) fn smallest_normal<T: Scalar>() -> f64 {
    match T::PRECISION {
        Precision::F32 | Precision::C32 => f32::MIN_POSITIVE.into(),
        Precision::F64 | Precision::C64 => f64::MIN_POSITIVE,
    }
}

/// The number whose bits stand in the place of an element: of tiles that flow with numbers in them.
pub(crate) fn number<T: Scalar>(element: T) -> u32 {
    bytemuck::cast_slice(&[element])[0]
}

/// Puts the bits of a number in the place of an element.
pub(crate) fn set_number<T: Scalar>(element: &mut T, number: u32) {
    bytemuck::cast_slice_mut(std::slice::from_mut(element))[0] = number;
}

/// The largest power of two that is normal and not above `size`, if there is one; else 1.
pub(crate) fn power_of_two(size: f64) -> f64 {
    match size.is_normal() {
        true => f64::from_bits(size.to_bits() & f64::INFINITY.to_bits()),
        false if size > 0.0 && size.is_finite() => f64::MIN_POSITIVE,
        false => 1.0,
    }
}

/// x / y, without overflow or underflow on the way: a complex number's parts may be subnormal.
///
/// # Source
/// Smith, *Algorithm 116: Complex division*, Communications of the ACM 5 (1962).
pub(crate) fn quotient<T: Scalar>(x: T, y: T) -> T {
    if !T::IS_COMPLEX {
        return x / y;
    }
    // The sum of two parts near the largest number would overflow; over a y below ⅛ so does the quotient.
    let larger = |z: T| z.re().abs().max(z.im().abs());
    let (of_x, of_y) = (larger(x), larger(y));
    let large = f64::MAX / 4.0;
    let by = match of_y > large || (of_x > large && of_y >= 0.125) {
        true => 0.25,
        false => 1.0,
    };
    let ((a, b), (c, d)) = ((x.re() * by, x.im() * by), (y.re() * by, y.im() * by));
    match c.abs() >= d.abs() {
        true => {
            let (ratio, length) = (d / c, c + d * (d / c));
            T::from_parts((a + b * ratio) / length, (b - a * ratio) / length)
        }
        false => {
            let (ratio, length) = (c / d, c * (c / d) + d);
            T::from_parts((a * ratio + b) / length, (b * ratio - a) / length)
        }
    }
}

mod sealed {
    /// Keeps the set of scalars closed. The same in every build: a feature that added a method would
    /// make the same name in a trait of a user's ambiguous.
    pub trait Sealed:
        crate::compiled::Compiled + crate::kernel::faer::Leaves + crate::kernel::strips::Strips
    {
    }

    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for super::c32 {}
    impl Sealed for super::c64 {}
}

/// The tile order for a matrix of order n, by a table of orders up to which a side of a tile has so many
/// sub-tiles; of larger matrices it has `largest`.
pub(crate) fn tile_order<T: Scalar>(table: &[(usize, usize)], largest: usize, n: usize) -> usize {
    let row = table.iter().find(|(up_to, _)| n <= *up_to);
    T::SUB_TILE_ORDER * row.map_or(largest, |(_, sub_tiles)| *sub_tiles)
}

macro_rules! real_scalar {
    ($real:ident, $precision:ident, $lower:ident, $epsilon:expr, $order:expr) => {
        impl Scalar for $real {
            const PRECISION: Precision = Precision::$precision;
            const IS_COMPLEX: bool = false;
            const EPSILON: f64 = $epsilon;
            const SUB_TILE_ORDER: usize = $order;
            type Lower = $lower;

            #[inline]
            fn zero() -> Self {
                0.0
            }
            #[inline]
            fn one() -> Self {
                1.0
            }
            #[inline]
            fn from_parts(re: f64, _im: f64) -> Self {
                re as $real
            }
            #[inline]
            fn re(self) -> f64 {
                self.into()
            }
            #[inline]
            fn im(self) -> f64 {
                0.0
            }
            #[inline]
            fn conj(self) -> Self {
                self
            }
            #[inline]
            fn bits(self) -> [u64; 2] {
                let canonical = if self.is_nan() { $real::NAN } else { self };
                [canonical.to_bits().into(), 0]
            }
        }
    };
}

macro_rules! complex_scalar {
    ($complex:ident, $real:ident, $precision:ident, $lower:ident, $order:expr) => {
        impl Scalar for $complex {
            const PRECISION: Precision = Precision::$precision;
            const IS_COMPLEX: bool = true;
            const EPSILON: f64 = <$real as Scalar>::EPSILON;
            const SUB_TILE_ORDER: usize = $order;
            type Lower = $lower;

            #[inline]
            fn zero() -> Self {
                Complex { re: 0.0, im: 0.0 }
            }
            #[inline]
            fn one() -> Self {
                Complex { re: 1.0, im: 0.0 }
            }
            #[inline]
            fn from_parts(re: f64, im: f64) -> Self {
                Complex {
                    re: re as $real,
                    im: im as $real,
                }
            }
            #[inline]
            fn re(self) -> f64 {
                self.re.into()
            }
            #[inline]
            fn im(self) -> f64 {
                self.im.into()
            }
            #[inline]
            fn bits(self) -> [u64; 2] {
                [Scalar::bits(self.re)[0], Scalar::bits(self.im)[0]]
            }
        }
    };
}

real_scalar!(f32, F32, f32, 1.0 / (1u32 << 24) as f64, 96);
real_scalar!(f64, F64, f32, 1.0 / (1u64 << 53) as f64, 96);
complex_scalar!(c32, f32, C32, c32, 96);
complex_scalar!(c64, f64, C64, c32, 96);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_others_are_refused_by_name() {
        for precision in Precision::ALL {
            assert_eq!(precision.to_string().parse(), Ok(precision));
        }
        for wrong in ["", "F64", "f16", "complex", " f64"] {
            let refused = wrong.parse::<Precision>().unwrap_err();
            assert_eq!(refused, UnknownPrecision(wrong.to_owned()));
            assert!(refused.to_string().contains("f32, f64, c32 or c64"));
        }
    }

    #[test]
    fn epsilon_is_the_largest_relative_error_of_rounding() {
        fn check<T: Scalar>() {
            let one = T::one();
            assert_eq!(one + T::from_real(T::EPSILON), one, "{}", T::PRECISION);
            assert_ne!(one + T::from_real(2.0 * T::EPSILON), one);
        }
        check::<f32>();
        check::<f64>();
        check::<c32>();
        check::<c64>();
    }

    #[test]
    fn parts_conjugate_and_modulus_agree() {
        fn check<T: Scalar>() {
            let x = T::from_parts(3.0, -4.0);
            let im = if T::IS_COMPLEX { -4.0 } else { 0.0 };
            assert_eq!((x.re(), x.im()), (3.0, im));
            assert_eq!((x.conj().re(), x.conj().im()), (3.0, -im));
            assert_eq!(x.modulus(), 3f64.hypot(im));
            assert_eq!((x * x.conj()).re(), 9.0 + im * im);
            assert!(x.is_finite());
            assert!(!T::from_real(f64::NAN).is_finite());
            assert!(!T::from_real(f64::INFINITY).is_finite());
            assert_eq!(
                T::from_parts(1.0, f64::NAN).is_finite(),
                !T::IS_COMPLEX,
                "{}",
                T::PRECISION
            );
            assert_eq!(T::zero() + T::one(), T::from_real(1.0));
        }
        check::<f32>();
        check::<f64>();
        check::<c32>();
        check::<c64>();
    }

    /// Feature `openblas` gave `Scalar` a supertrait with these names (E0034).
    #[test]
    fn a_trait_of_a_users_may_name_its_functions_as_lapack_does_in_every_build() {
        trait Mine: Scalar {
            fn add_product() -> u32 {
                1
            }
            fn add_square() -> u32 {
                2
            }
            fn potrf(self) -> u32 {
                3
            }
            fn potri() -> u32 {
                4
            }
            fn getrf() -> u32 {
                5
            }
            fn geqrf() -> u32 {
                6
            }
        }
        impl<T: Scalar> Mine for T {}
        fn all<T: Mine>() -> [u32; 6] {
            [
                T::add_product(),
                T::add_square(),
                T::potrf(T::one()),
                T::potri(),
                T::getrf(),
                T::geqrf(),
            ]
        }
        assert_eq!(all::<f64>(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(all::<c32>(), all::<f32>());
        assert_eq!(2.0f64.potrf(), 3);
    }

    #[test]
    fn a_quotient_that_is_a_number_is_found_up_to_the_largest_one() {
        let both = |size: f64| c64::new(size, size);
        let real = |size: f64| c64::new(size, 0.0);
        for (x, y, expected) in [
            (both(1e308), both(1.0), real(1e308)),
            (both(1e308), c64::new(0.0, 1.0), c64::new(1e308, -1e308)),
            (both(1e308), both(1e308), real(1.0)),
            (both(8.0), both(1e308), real(8e-308)),
            (both(2e307), both(0.125), real(1.6e308)),
            (both(1e-310), both(1e-310), real(1.0)),
            (both(1.0), both(2.0), real(0.5)),
        ] {
            let found = quotient(x, y);
            let error = (found - expected).norm() / expected.norm();
            assert!(error < 1e-15, "{x} / {y} is {found}");
        }
        // What is too large is no NaN.
        let too_large = quotient(real(1e308), real(f64::from_bits(1)));
        assert_eq!(too_large.re(), f64::INFINITY);
        let ordinary = quotient(f64::MAX, 2.0);
        assert_eq!(ordinary, f64::MAX / 2.0);
    }

    #[test]
    fn bits_tell_the_zeros_apart_and_all_nans_are_one() {
        assert_ne!(0.0f64.bits(), (-0.0f64).bits());
        assert_eq!(f64::NAN.bits(), (-f64::NAN).bits());
        assert_eq!(f32::NAN.bits(), f32::from_bits(0x7fc0_1234).bits());
        let z = c64::new(-f64::NAN, -0.0);
        assert_eq!(z.bits(), [f64::NAN.to_bits(), (-0.0f64).to_bits()]);
        assert_eq!(1.5f32.bits(), [u64::from(1.5f32.to_bits()), 0]);
    }
}
