//! The beginning of a packet, and of a message.

use super::bytes::{Malformed, PacketReader, PacketWrite};
use dataflow_core::rank::Rank;

/// The first bytes of every packet.
pub const MAGIC: u32 = u32::from_le_bytes(*b"dfr3");

/// The beginning of a packet; the rest of it is the next part of the sender's stream of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Who sent it.
    pub from: Rank,
    /// How many packets it sent to this rank before.
    pub sequence: u64,
}

impl PacketHeader {
    /// Its length on the wire.
    pub const BYTES: usize = 16;

    /// Appends itself.
    pub fn encode(&self, packet: &mut Vec<u8>) {
        packet.u32(MAGIC);
        packet.u32(self.from.0);
        packet.u64(self.sequence);
    }

    /// The header of a packet, and what follows it.
    ///
    /// # Errors
    /// If the packet is too short or not one of ours.
    pub fn decode(packet: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut reader = PacketReader(packet);
        let magic = reader.u32("a packet's header")?;
        if magic != MAGIC {
            let text = format!("a packet begins with {magic:#010x} ({MAGIC:#010x} is allowed)");
            return Err(Malformed(text));
        }
        let header = PacketHeader {
            from: Rank(reader.u32("a packet's header")?),
            sequence: reader.u64("a packet's header")?,
        };
        Ok((header, reader.0))
    }
}

/// The beginning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Bytes of the body.
    pub length: u32,
    /// The run it belongs to; 0 if none.
    pub run: u32,
    /// What it is.
    pub kind: Kind,
}

impl MessageHeader {
    /// Its length on the wire.
    pub const BYTES: usize = 12;

    /// How the length of a body is told, if it may be so long.
    #[inline]
    pub(super) fn length_of(body: usize, longest: u32) -> Option<u32> {
        let told = u32::try_from(body).ok();
        told.filter(|length| *length <= longest)
    }

    /// The header at the front of a stream; `None` if not all of it is there yet.
    ///
    /// # Errors
    /// If there is no such kind.
    pub fn decode(stream: &[u8]) -> Result<Option<Self>, Malformed> {
        if stream.len() < Self::BYTES {
            return Ok(None);
        }
        let mut reader = PacketReader(stream);
        let length = reader.u32("a header")?;
        let run = reader.u32("a header")?;
        let kind = Kind::decode(reader.u32("a header")?)?;
        Ok(Some(MessageHeader { length, run, kind }))
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal),* $(,)?) => {
        /// The kinds of messages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum Kind { $($(#[$doc])* $name = $number),* }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$name),*];

            fn decode(number: u32) -> Result<Self, Malformed> {
                match number {
                    $($number => Ok(Kind::$name),)*
                    _ => Err(Malformed(format!("a message is of kind {number} (1 to 17 are allowed)"))),
                }
            }
        }
    };
}

kinds! {
    /// Terms of a run, up the tree.
    Hello = 1,
    /// The run begins or is refused, down the tree.
    Welcome = 2,
    /// Outputs of a task.
    Activate = 3,
    /// Outputs that were to be passed on are not.
    Relieve = 4,
    /// Data that were announced are wanted.
    Get = 5,
    /// Inline bytes that have arrived.
    Credit = 6,
    /// An activation has arrived with all its data.
    Receipt = 7,
    /// A rank has nothing to run and has not run everything.
    Dry = 8,
    /// A wave of counting, down the tree.
    Wave = 9,
    /// Its answer, up the tree.
    Tally = 10,
    /// Nothing will happen any more, down the tree.
    Quiet = 11,
    /// A rank and those below it run nothing any more, up the tree.
    Close = 12,
    /// The run has ended, down the tree.
    Closed = 13,
    /// A failure that stops the run.
    Abort = 14,
    /// A rank lives.
    Beat = 15,
    /// A rank leaves.
    Bye = 16,
    /// A failure after which ranks cannot go on together.
    Broken = 17,
}
