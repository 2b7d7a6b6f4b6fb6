//! Vector: elementary functions as plain arithmetic, so that loops over them become vector code.
//!
//! A loop over an array of numbers that calls only these, arithmetic and comparisons is compiled
//! twice where it is [`dispatch`]ed: for any processor, and for those with AVX2, which is chosen when
//! it runs. Products and sums are never fused, so the bits are the same on all.
//!
//! # Elsewhere
//! One number at a time: the standard library and `libm`, with which the tests compare.

use bytemuck::Pod;
use dataflow::linalg::scalar::Scalar;
use pulp::{Arch, NullaryFnOnce};
use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A loop to be compiled for several kinds of processor.
pub trait Loop {
    /// The loop; give it `#[inline(always)]`, and so all that it calls.
    fn run(self);
}

struct Dispatched<L>(L);

impl<L: Loop> NullaryFnOnce for Dispatched<L> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.run();
    }
}

/// Runs a loop as this processor can do it best.
pub fn dispatch(work: impl Loop) {
    Arch::new().dispatch(Dispatched(work));
}

/// `f32` or `f64`.
pub trait Real:
    Scalar
    + Pod
    + Debug
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The nearest number.
    fn of(value: f64) -> Self;

    /// The same number.
    fn wide(self) -> f64;

    /// The square root, correctly rounded.
    fn root(self) -> Self;

    /// `eˣ`, within two units of the last place for x that leave the result normal (`f64`: −708 to
    /// 709, `f32`: −87 to 88); beyond, as at the end.
    fn exponential(self) -> Self;

    /// `ln x` of a positive normal number, within two units of the last place.
    fn logarithm(self) -> Self;
}

/// `c₀ + c₁x + c₂x² + …`
#[inline(always)]
pub fn polynomial<T: Real, const N: usize>(coefficients: [f64; N], x: T) -> T {
    let mut sum = T::of(coefficients[N - 1]);
    for n in (0..N - 1).rev() {
        sum = sum * x + T::of(coefficients[n]);
    }
    sum
}

/// What differs between the two kinds of number.
struct Format {
    /// Bits behind the point, and what is added to the exponent.
    mantissa: u32,
    bias: f64,
    /// Where `eˣ` stays normal.
    least: f64,
    most: f64,
    /// ln 2 as a sum whose first part has few bits, so that its multiples are exact.
    ln2: [f64; 2],
}

macro_rules! real {
    ($number:ident, $bits:ident, $format:expr, $exponential:expr, $logarithm:expr) => {
        impl Real for $number {
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as $number
            }

            #[inline(always)]
            fn wide(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }

            #[inline(always)]
            fn exponential(self) -> Self {
                const FORMAT: Format = $format;
                const TERMS: [f64; $exponential] = inverse_factorials();
                // x = k·ln 2 + r with |r| ≤ ln 2 / 2: eˣ = 2ᵏ·eʳ, where k + bias is rounded by adding
                // a number so large that its last bit counts ones.
                const ROUND: $number = 1.5 * (1u64 << FORMAT.mantissa) as $number;
                let x = self.clamp(FORMAT.least as $number, FORMAT.most as $number);
                let rounded = x * std::$number::consts::LOG2_E + (ROUND + FORMAT.bias as $number);
                let k = rounded - (ROUND + FORMAT.bias as $number);
                let r = x - k * FORMAT.ln2[0] as $number - k * FORMAT.ln2[1] as $number;
                let power = $number::from_bits(rounded.to_bits() << FORMAT.mantissa);
                polynomial(TERMS, r) * power
            }

            #[inline(always)]
            fn logarithm(self) -> Self {
                const FORMAT: Format = $format;
                const TERMS: [f64; $logarithm] = inverse_odds();
                const FRACTION: $bits = (1 << FORMAT.mantissa) - 1;
                // x = 2ᵏ·m with √½ ≤ m < √2, and s = (m − 1)/(m + 1): ln m = 2s(1 + s²/3 + s⁴/5 + …).
                let half_root = std::$number::consts::FRAC_1_SQRT_2.to_bits();
                let shifted = self
                    .to_bits()
                    .wrapping_add((1.0 as $number).to_bits() - half_root);
                let m = $number::from_bits((shifted & FRACTION) + half_root);
                // The exponent as the last bits of a number whose last bit counts ones.
                let large = (1u64 << FORMAT.mantissa) as $number;
                let k = $number::from_bits((shifted >> FORMAT.mantissa) | large.to_bits())
                    - (large + FORMAT.bias as $number);
                let s = (m - 1.0) / (m + 1.0);
                let series = s * s * polynomial(TERMS, s * s);
                k * FORMAT.ln2[0] as $number
                    + (2.0 * s + (2.0 * s * series + k * FORMAT.ln2[1] as $number))
            }
        }
    };
}

real!(
    f64,
    u64,
    Format {
        mantissa: 52,
        bias: 1023.0,
        least: -708.0,
        most: 709.0,
        ln2: [0.6931471803691238, 1.9082149292705877e-10],
    },
    14,
    10
);
real!(
    f32,
    u32,
    Format {
        mantissa: 23,
        bias: 127.0,
        least: -87.0,
        most: 88.0,
        ln2: [0.693359375, -2.1219444005469057e-4],
    },
    8,
    4
);

/// `1/0!, 1/1!, 1/2!, …`
const fn inverse_factorials<const N: usize>() -> [f64; N] {
    let (mut terms, mut n) = ([1.0; N], 1);
    while n < N {
        terms[n] = terms[n - 1] / n as f64;
        n += 1;
    }
    terms
}

/// `1/3, 1/5, 1/7, …`
const fn inverse_odds<const N: usize>() -> [f64; N] {
    let (mut terms, mut n) = ([0.0; N], 0);
    while n < N {
        terms[n] = 1.0 / (2 * n + 3) as f64;
        n += 1;
    }
    terms
}
