//! Numbers that are needed soon: memory is asked for them a line at a time, between products.
//!
//! What fetches ahead by itself stops while a panel is multiplied, and begins anew with the next one.

/// Where memory is asked next.
///
/// An address is asked for and never read: beyond the end of what is needed it changes nothing.
#[derive(Clone, Copy)]
pub(super) struct Soon {
    next: *const u8,
    /// Bytes to the one after it.
    step: usize,
}

impl Soon {
    /// From the first of these numbers on; if there are none, for what is at hand.
    pub fn of(numbers: &[f64], step: usize, at_hand: &[f64]) -> Self {
        let (numbers, step) = match numbers {
            [] => (at_hand, 0),
            _ => (numbers, step),
        };
        Soon {
            next: numbers.as_ptr().cast(),
            step,
        }
    }

    /// Asks, where the processor can be asked.
    #[inline(always)]
    pub fn fetch(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if let Some(sse) = pulp::core_arch::x86::Sse::try_new() {
            use std::arch::x86_64::_MM_HINT_T0;
            sse._mm_prefetch::<_MM_HINT_T0>(self.next.cast());
        }
        self.next = self.next.wrapping_add(self.step);
    }
}
