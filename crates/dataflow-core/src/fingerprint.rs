//! Fingerprint: a number by which ranks compare what is too long to be told.

/// 2⁶⁴ ÷ the golden ratio: multiples of it that follow each other lie far apart, whatever is looked at of them
/// (Knuth, volume 3, section 6.4).
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Of numbers in their order.
pub(crate) fn fingerprint(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(1, mixed)
}

/// A fingerprint with one number more.
pub(crate) fn mixed(fingerprint: u64, value: u64) -> u64 {
    let mixed = (fingerprint ^ value).wrapping_mul(GOLDEN);
    mixed ^ mixed >> 32
}
