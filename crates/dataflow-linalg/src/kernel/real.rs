//! Real numbers, as lanes of vectors.

use crate::scalar::Scalar;

/// A number of a lane.
pub(super) trait Real: Scalar {
    /// self·factor + sum, rounded once.
    fn mul_add(self, factor: Self, sum: Self) -> Self;
    fn sqrt(self) -> Self;
    /// 1/x, if that is a normal number.
    fn reciprocal(self) -> Option<Self>;
}

macro_rules! lanes {
    ($($real:ident)+) => {$(
        impl Real for $real {
            #[inline(always)]
            fn mul_add(self, factor: Self, sum: Self) -> Self {
                self.mul_add(factor, sum)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn reciprocal(self) -> Option<Self> {
                let reciprocal = self.recip();
                reciprocal.is_normal().then_some(reciprocal)
            }
        }
    )+};
}

lanes!(f32 f64);
