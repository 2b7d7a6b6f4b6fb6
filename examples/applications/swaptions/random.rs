//! Random: the generator of Park and Miller, that can jump ahead, and normal deviates by Moro's inverse
//! of the distribution.
//!
//! # Source
//! Park, Miller, *Random number generators: good ones are hard to find*, Comm. ACM 31 (1988);
//! Moro, *The full Monte*, Risk 8 (1995).

use crate::vector::{Real, polynomial};

/// The modulus, 2³¹ − 1.
const MODULUS: u64 = (1 << 31) - 1;
const MULTIPLIER: u64 = 16807;
/// After so many numbers they repeat: 16807 is a primitive root of the modulus.
pub const PERIOD: u64 = MODULUS - 1;

/// `x ← 16807·x mod 2³¹ − 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random(u32);

impl Random {
    /// Begins with this number, of 1 to 2³¹ − 2.
    pub fn new(seed: u32) -> Self {
        Random(seed)
    }

    /// The next number, and as a deviate between 0 and 1. The factor is PARSEC's, a little less than
    /// `1/(2³¹ − 1)`.
    #[inline(always)]
    pub fn draw(&mut self) -> f64 {
        // Below 2⁴⁶: its upper and its lower 31 bits add up to the same, modulo 2³¹ − 1.
        let product = u64::from(self.0) * MULTIPLIER;
        let folded = (product >> 31) + (product & MODULUS);
        self.0 = match folded >= MODULUS {
            true => folded - MODULUS,
            false => folded,
        } as u32;
        f64::from(self.0 as i32) * 4.656612875e-10
    }

    /// As it is after so many more numbers.
    pub fn after(self, numbers: u64) -> Self {
        // 16807ⁿ, by the bits of n.
        let (mut power, mut square, mut left) = (1, MULTIPLIER, numbers);
        while left > 0 {
            if left % 2 == 1 {
                power = power * square % MODULUS;
            }
            square = square * square % MODULUS;
            left /= 2;
        }
        Random((u64::from(self.0) * power % MODULUS) as u32)
    }
}

/// The normal deviate below which a share `u` of all lie, within 3e-9.
#[inline(always)]
pub fn normal(u: f64) -> f64 {
    const A: [f64; 4] = [
        2.50662823884,
        -18.61500062529,
        41.39119773534,
        -25.44106049637,
    ];
    const B: [f64; 5] = [
        1.0,
        -8.47351093090,
        23.08336743743,
        -21.06224101826,
        3.13082909833,
    ];
    const C: [f64; 9] = [
        0.3374754822726147,
        0.9761690190917186,
        0.1607979714918209,
        0.0276438810333863,
        0.0038405729373609,
        0.0003951896511919,
        0.0000321767881768,
        0.0000002888167364,
        0.0000003960315187,
    ];
    let y = u - 0.5;
    let t = y * y;
    let middle = y * polynomial(A, t) / polynomial(B, t);
    let tail = if y > 0.0 { 1.0 - u } else { u };
    let far = polynomial(C, (-tail.logarithm()).logarithm());
    let far = if y > 0.0 { far } else { -far };
    if y.abs() < 0.42 { middle } else { far }
}
