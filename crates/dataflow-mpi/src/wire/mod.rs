//! What ranks say to each other, as bytes.
//!
//! # Law
//! Every message is a header and a body of the length that the header gives. Decoding any bytes
//! ends with a message or a [`Malformed`]; what was encoded decodes to itself.
#![doc = include_str!("PROTOCOL.md")]

mod activate;
pub(crate) mod bytes;
mod header;
mod message;

pub use activate::{Activate, ActivatedFlow, Announced, Onward};
pub use bytes::Malformed;
pub use header::{Kind, MAGIC, MessageHeader, PacketHeader};
pub use message::{Account, Get, Message, RunStage, Tally};

/// The version of all layouts; ranks of different versions do not agree to run.
pub const VERSION: u32 = 3;

#[cfg(test)]
mod tests;
