//! Colours: the same for a class or a cause in every picture, readable on white and on black.
//!
//! # Law
//! Red and its neighbours are for what should not be: data under way, failures.

use dataflow_core::trace::Cause;

/// Who has which colour, as 0xRRGGBB.
pub(crate) struct Colours;

const CLASSES: [u32; 10] = [
    0x4e79a7, 0xf28e2b, 0x59a14f, 0x9467bd, 0x2ca6a4, 0xd9b511, 0x9c755f, 0x8cb9e0, 0x8a9a2b,
    0xe39ac0,
];

impl Colours {
    pub const RUNTIME: u32 = 0x6b6f76;
    pub const MESSAGE: u32 = 0x7a7f87;
    pub const FAILED: u32 = 0xd62728;
    pub const SKIPPED: u32 = 0xc9c9c9;

    /// The colour of a class, by its index: ten of them, then mixtures.
    pub fn of_class(class: usize) -> u32 {
        match CLASSES.get(class) {
            Some(colour) => *colour,
            None => mixed(class),
        }
    }

    /// The colour of what keeps a worker idle.
    pub fn of_cause(cause: Cause) -> u32 {
        match cause {
            Cause::Opening => 0xb9b3c9,
            Cause::NothingReady => 0xa9b1ba,
            Cause::DataUnderWay => 0xe15759,
            Cause::Policy => 0xb5458f,
            Cause::Closing => 0xc9c2ab,
        }
    }

    /// As CSS has it.
    pub fn css(colour: u32) -> String {
        format!("#{colour:06x}")
    }
}

/// A colour between two of the ten, another one for each index.
fn mixed(class: usize) -> u32 {
    let one = CLASSES[class % CLASSES.len()].to_be_bytes();
    let other = CLASSES[(class / CLASSES.len() * 3 + class) % CLASSES.len()].to_be_bytes();
    let shade = (class / CLASSES.len() % 3) as u32 * 30;
    let mix = |part: usize| (u32::from(one[part]) + u32::from(other[part])) / 2;
    let part = |part: usize| mix(part).saturating_sub(shade) as u8;
    u32::from_be_bytes([0, part(1), part(2), part(3)])
}
