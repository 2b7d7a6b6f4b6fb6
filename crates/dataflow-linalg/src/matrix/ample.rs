//! Ample: sizes whose exponents neither overflow nor underflow, for ratios of products of norms.
//!
//! # Law
//! Each operation rounds as that of `f64` does: where nothing overflows or underflows on the way, the bits
//! are those of plain numbers.

use super::check::ratio;
use std::ops::{Add, Mul};

/// fraction · 2^exponent, not negative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ample {
    /// At least 1 and less than 2; or zero, infinite or NaN, and the exponent is 0.
    fraction: f64,
    exponent: i32,
}

impl Ample {
    pub(crate) fn of(size: f64) -> Self {
        Ample::new(size, 0)
    }

    /// fraction · 2^exponent, of any fraction.
    fn new(fraction: f64, exponent: i32) -> Self {
        if fraction == 0.0 || !fraction.is_finite() {
            return Ample {
                fraction,
                exponent: 0,
            };
        }
        if !fraction.is_normal() {
            return Ample::new(fraction * power(54), exponent - 54);
        }
        let bits = fraction.to_bits();
        let own = (bits >> 52) as i32 - 1023;
        Ample {
            fraction: f64::from_bits(bits & !f64::INFINITY.to_bits() | 1f64.to_bits()),
            exponent: exponent + own,
        }
    }

    /// That of the largest power of two not above it; none of zero, infinity and NaN.
    pub(crate) fn exponent(self) -> Option<i32> {
        let has_one = self.fraction != 0.0 && self.fraction.is_finite();
        has_one.then_some(self.exponent)
    }

    /// self · 2^by
    pub(crate) fn shifted(self, by: i32) -> Self {
        Ample::new(self.fraction, self.exponent + by)
    }

    /// As [`ratio`] divides.
    pub(crate) fn over(self, scale: Ample) -> f64 {
        let (of, by) = (self.fraction, scale.fraction);
        match ratio(of, by) {
            quotient if quotient.is_nan() => quotient,
            quotient => Ample::new(quotient, self.exponent - scale.exponent).value(),
        }
    }

    fn value(self) -> f64 {
        // Two steps: the whole power need not be a number. The first is exact.
        let exponent = self.exponent.clamp(-2000, 2000);
        let half = exponent / 2;
        self.fraction * power(half) * power(exponent - half)
    }
}

impl Mul for Ample {
    type Output = Ample;

    fn mul(self, by: Ample) -> Ample {
        Ample::new(self.fraction * by.fraction, self.exponent + by.exponent)
    }
}

impl Add for Ample {
    type Output = Ample;

    fn add(self, other: Ample) -> Ample {
        let (Some(own), Some(its)) = (self.exponent(), other.exponent()) else {
            return match () {
                _ if other.fraction == 0.0 => self,
                _ if self.fraction == 0.0 => other,
                _ => Ample::new(self.fraction + other.fraction, 0),
            };
        };
        let larger = own.max(its);
        let term = |of: Ample| of.fraction * power((of.exponent - larger).max(-1000));
        Ample::new(term(self) + term(other), larger)
    }
}

/// 2^exponent, of a normal number.
pub(crate) fn power(exponent: i32) -> f64 {
    debug_assert!((-1022..1024).contains(&exponent), "2^{exponent}");
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ordinary_sizes_keep_the_bits_of_plain_numbers(
            a in 1e-60f64..1e60, b in 1e-60f64..1e60, c in 1e-60f64..1e60, d in 0.0f64..1e60,
        ) {
            let [its_a, its_b, its_c, its_d] = [a, b, c, d].map(Ample::of);
            let found = its_d.over(its_a * (its_b * its_c + its_d));
            prop_assert_eq!(found.to_bits(), (d / (a * (b * c + d))).to_bits());
        }
    }

    #[test]
    fn what_overflows_and_underflows_on_the_way_comes_back() {
        let [tiny, huge, one] = [5e-324, f64::MAX, 1.0].map(Ample::of);
        assert_eq!((tiny * tiny).over(tiny), 5e-324);
        assert_eq!((huge * huge).over(huge * one), f64::MAX);
        assert_eq!((huge * tiny + huge * tiny).over(huge), 1e-323);
        assert_eq!((huge + tiny).over(one), f64::MAX);
        assert_eq!(one.shifted(3000).over(one.shifted(2997)), 8.0);
        assert_eq!((huge.over(tiny), tiny.over(huge)), (f64::INFINITY, 0.0));
    }

    #[test]
    fn zero_infinity_and_nan_are_those_of_a_ratio() {
        let [zero, one, inf, nan] = [0.0, 1.0, f64::INFINITY, f64::NAN].map(Ample::of);
        assert_eq!((zero.over(zero), zero.over(inf)), (0.0, 0.0));
        assert_eq!(
            (one.over(zero), inf.over(one)),
            (f64::INFINITY, f64::INFINITY)
        );
        assert_eq!((zero + one).over(one + zero), 1.0);
        for (of, by) in [
            (one, inf),
            (zero, nan),
            (nan, one),
            (one, zero * inf),
            (one, one + nan),
        ] {
            assert!(of.over(by).is_nan(), "{of:?} {by:?}");
        }
    }
}
