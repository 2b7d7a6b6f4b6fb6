//! A frame: how packets and data lie in the stream of bytes between two ranks.
//!
//! ```text
//!   kind u32 │ tag u32 │ length u64 │ length bytes        little endian
//! ```
//! A packet is one frame. Data go in parts of at most a mebibyte, so that packets need not wait
//! for a long datum: parts of the same tag follow one another, the last one says so. Control messages
//! are what the processes say to one another beside the protocol: who is where, who is lost.

/// A part of data, at most.
pub const PART: usize = 1 << 20;

/// A control message, at most.
pub const CONTROL: usize = 1 << 10;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A packet.
    Packet,
    /// Data; more of the same follow.
    Part,
    /// Data, the end of them.
    Last,
    /// A control message.
    Control,
}

/// The beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What it carries.
    pub kind: FrameKind,
    /// The tag of data; 0 for others.
    pub tag: u32,
    /// How many bytes follow.
    pub length: usize,
}

impl FrameHeader {
    /// Its length on the wire.
    pub const BYTES: usize = 16;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let kind = match self.kind {
            FrameKind::Packet => 1u32,
            FrameKind::Part => 2,
            FrameKind::Last => 3,
            FrameKind::Control => 4,
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..].copy_from_slice(&(self.length as u64).to_le_bytes());
        bytes
    }

    /// From bytes; a packet has at most `longest`.
    ///
    /// # Errors
    /// If no rank would have sent it: what, and what is allowed.
    pub fn decode(bytes: &[u8; Self::BYTES], longest: usize) -> Result<Self, String> {
        let [k0, k1, k2, k3, t0, t1, t2, t3, length @ ..] = *bytes;
        let tag = u32::from_le_bytes([t0, t1, t2, t3]);
        let (kind, allowed) = match u32::from_le_bytes([k0, k1, k2, k3]) {
            1 => (FrameKind::Packet, longest),
            2 => (FrameKind::Part, PART),
            3 => (FrameKind::Last, PART),
            4 => (FrameKind::Control, CONTROL),
            other => {
                return Err(format!(
                    "it sent a frame of kind {other} (1 to 4 are allowed)"
                ));
            }
        };
        let length = u64::from_le_bytes(length);
        if length > allowed as u64 {
            return Err(format!(
                "it sent a frame of {length} bytes ({allowed} are allowed)"
            ));
        }
        if matches!(kind, FrameKind::Packet | FrameKind::Control) != (tag == 0) {
            return Err(format!("it sent a frame of kind {kind:?} under tag {tag}"));
        }
        let length = length as usize;
        Ok(FrameHeader { kind, tag, length })
    }
}
