//! Mixer: hashes of names, which are few small numbers, in a multiplication each.

use crate::fingerprint::GOLDEN;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash table with names for keys.
pub(super) type NameTable<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mixer>>;

#[derive(Default)]
pub(super) struct Mixer(u64);

impl Mixer {
    #[inline(always)]
    fn mix(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(27) ^ number).wrapping_mul(GOLDEN);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        // A product's high bits are mixed best, and the table takes its place from the low ones.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    #[inline(always)]
    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    #[inline(always)]
    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    #[inline(always)]
    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    #[inline(always)]
    fn write_isize(&mut self, number: isize) {
        self.mix(number as u64);
    }
}
