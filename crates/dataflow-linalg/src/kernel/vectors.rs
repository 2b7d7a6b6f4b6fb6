//! Loops in vectors as wide as the machine has.
//!
//! # Law
//! Lanes are numbers of their own: the bits are those of any width, and of no vectors at all.

use pulp::{Arch, NullaryFnOnce};

/// What is computed in lines of 64 bytes.
pub(super) trait InVectors {
    /// Does the work, `LINES` lines of a column at a time: as many as there are registers for.
    ///
    /// Inlined, and so is all that it calls: what is not has no such vectors, and its `mul_add` is a call.
    fn compute<const LINES: usize>(self);
}

/// Whether this machine multiplies and adds in one operation.
pub(super) fn fuses() -> bool {
    #[cfg(target_arch = "x86_64")]
    return !matches!(Arch::new(), Arch::Scalar);
    #[cfg(not(target_arch = "x86_64"))]
    cfg!(target_arch = "aarch64")
}

/// Does some work with the widest vectors that there are.
pub(super) fn compute(work: impl InVectors) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && fuses() {
        // SAFETY: the processor has AVX-512, AVX2 and FMA: the first was just asked for, and `fuses`
        // asks for the others.
        return unsafe { in_512_bits(work) };
    }
    Arch::new().dispatch(FewLines(work));
}

/// Four lines of each of four columns are half of the 32 registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,fma")]
fn in_512_bits(work: impl InVectors) {
    work.compute::<4>();
}

/// A line is two registers or four.
struct FewLines<W>(W);

impl<W: InVectors> NullaryFnOnce for FewLines<W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.compute::<1>();
    }
}
