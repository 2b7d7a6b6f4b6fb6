//! Outgoing: what waits to go to one rank becomes a stream of bytes.
//!
//! Header and bytes leave in one call, the bytes from where they lie. Packets go before data, and
//! between the parts of a long datum.

use super::frame::{FrameHeader, FrameKind, PART};
use crate::transport::{Event, Payload};
use dataflow_core::port::drop_quietly;
use dataflow_core::rank::Rank;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};

/// The stream to one rank.
pub struct Outgoing {
    to: Rank,
    /// Packets, and control messages among them.
    packets: VecDeque<(FrameKind, Vec<u8>)>,
    data: VecDeque<Shipment>,
    frame: Option<LeavingFrame>,
}

/// Data on their way.
struct Shipment {
    tag: u32,
    payload: Payload,
    /// In frames that have left whole.
    sent: usize,
}

/// The frame that is leaving: of the first packet, or of the first data.
struct LeavingFrame {
    kind: FrameKind,
    header: [u8; FrameHeader::BYTES],
    length: usize,
    /// How much of header and bytes has left.
    written: usize,
}

impl Outgoing {
    /// Nothing waits.
    pub fn new(to: Rank) -> Self {
        Outgoing {
            to,
            packets: VecDeque::new(),
            data: VecDeque::new(),
            frame: None,
        }
    }

    /// Adds a packet.
    pub fn send(&mut self, packet: Vec<u8>) {
        self.packets.push_back((FrameKind::Packet, packet));
    }

    /// Adds a control message.
    pub fn say(&mut self, control: Vec<u8>) {
        self.packets.push_back((FrameKind::Control, control));
    }

    /// Adds data.
    pub fn send_data(&mut self, tag: u32, payload: Payload) {
        let sent = 0;
        self.data.push_back(Shipment { tag, payload, sent });
    }

    /// Whether nothing waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.data.is_empty()
    }

    /// Writes as much as goes.
    ///
    /// # Errors
    /// If the connection has failed.
    pub fn write(&mut self, sink: &mut impl Write, events: &mut VecDeque<Event>) -> io::Result<()> {
        while self.choose() {
            match self.write_once(sink) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.wrote(written, events),
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Chooses the frame that leaves next, if none is leaving; false if there is nothing to send.
    fn choose(&mut self) -> bool {
        if self.frame.is_some() {
            return true;
        }
        let header = if let Some((kind, packet)) = self.packets.front() {
            FrameHeader {
                kind: *kind,
                tag: 0,
                length: packet.len(),
            }
        } else if let Some(shipment) = self.data.front() {
            shipment.next_part()
        } else {
            return false;
        };
        self.frame = Some(LeavingFrame {
            kind: header.kind,
            header: header.encode(),
            length: header.length,
            written: 0,
        });
        true
    }

    fn write_once(&self, sink: &mut impl Write) -> io::Result<usize> {
        let Some(frame) = &self.frame else {
            return Ok(0);
        };
        if matches!(frame.kind, FrameKind::Packet | FrameKind::Control) {
            let bytes = self.packets.front().map_or(&[][..], |(_, bytes)| bytes);
            return frame.write(bytes, sink);
        }
        let Some(shipment) = self.data.front() else {
            return Ok(0);
        };
        shipment.payload.read(|bytes| {
            let part = bytes.get(shipment.sent..shipment.sent + frame.length);
            let shrunk = || io::Error::other("a datum shrank while it was sent");
            frame.write(part.ok_or_else(shrunk)?, sink)
        })
    }

    /// So many bytes of the frame have left.
    fn wrote(&mut self, written: usize, events: &mut VecDeque<Event>) {
        let Some(frame) = &mut self.frame else {
            return;
        };
        frame.written += written;
        if frame.written < FrameHeader::BYTES + frame.length {
            return;
        }
        match frame.kind {
            FrameKind::Packet => {
                self.packets.pop_front();
                events.push_back(Event::Sent(self.to));
            }
            FrameKind::Control => {
                self.packets.pop_front();
            }
            FrameKind::Part => {
                if let Some(shipment) = self.data.front_mut() {
                    shipment.sent += frame.length;
                }
            }
            FrameKind::Last => drop_quietly(self.data.pop_front()),
        }
        self.frame = None;
    }
}

impl Drop for Outgoing {
    /// One by one: of two data that panic as one collection drops them the second would end the process.
    fn drop(&mut self) {
        self.data.drain(..).for_each(drop_quietly);
    }
}

impl Shipment {
    fn next_part(&self) -> FrameHeader {
        // What the cargo has, whatever it promised: the receiver notices a difference.
        let left = self.payload.read(<[u8]>::len).saturating_sub(self.sent);
        let kind = if left > PART {
            FrameKind::Part
        } else {
            FrameKind::Last
        };
        FrameHeader {
            kind,
            tag: self.tag,
            length: left.min(PART),
        }
    }
}

impl LeavingFrame {
    fn write(&self, bytes: &[u8], sink: &mut impl Write) -> io::Result<usize> {
        let header = &self.header[self.written.min(FrameHeader::BYTES)..];
        let bytes = &bytes[self.written.saturating_sub(FrameHeader::BYTES)..];
        sink.write_vectored(&[IoSlice::new(header), IoSlice::new(bytes)])
    }
}
