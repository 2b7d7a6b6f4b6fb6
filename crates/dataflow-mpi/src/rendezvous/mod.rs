//! Rendezvous: how much at once. Large data are announced, then asked for by their receiver.
//!
//! Three messages each: ACTIVATE names the datum, GET asks for it when room has been made, DATA
//! fills the room. The receiver asks for the most urgent first and has at most a window of bytes
//! under way; one datum (or part of one) is always allowed, so every run moves on.
//! What a transport cannot carry at once is asked for in parts.
//!
//! Who is to pass an activation on and takes no more data is relieved of that: its sender, who has
//! them all until the first is asked for, gives them to those below itself.
//!
//! # Law
//! Room is made before it is asked for. Asked-for bytes never exceed the window, or one part. A
//! datum that was unclaimed is given out once, whole, in order; as many bytes as were announced, whatever
//! it has.

mod unclaimed;
mod wanted;

pub use unclaimed::{Duty, OfferedDatum, Unclaimed, Unsendable, drop_each_flow};
pub use wanted::{Complete, Onward, Progressed, Promised, Wanted};

#[cfg(test)]
mod tests;
