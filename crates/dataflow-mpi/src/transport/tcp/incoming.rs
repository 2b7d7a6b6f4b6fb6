//! Incoming: the stream of bytes from one rank becomes packets, and data in their rooms.
//!
//! Data go from the socket into the room made for them; only what was read along with the header
//! before them, 4 KiB at most, is copied. Data for which there is no room yet wait, and all that
//! comes behind them.
//!
//! # Law
//! Every length is checked before anything is allocated, and a packet's memory grows as its bytes
//! come: a peer that announces much and sends little costs little.

use super::frame::{FrameHeader, FrameKind};
use crate::transport::{Event, Room};
use dataflow_core::rank::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSliceMut, Read};

/// How many bytes are read ahead of what is needed.
const AHEAD: usize = 4096;

/// How much memory a packet gets before any of it has come.
const FIRST: usize = 64 << 10;

/// How often a socket is read before others get their turn.
const AT_ONCE: usize = 64;

/// The stream from one rank.
#[derive(Debug)]
pub struct Incoming {
    from: Rank,
    longest_packet: usize,
    ahead: Box<[u8; AHEAD]>,
    /// Where what was read ahead begins and ends.
    begin: usize,
    end: usize,
    state: Expecting,
    /// Control messages that have come and were not [taken](Self::control).
    controls: VecDeque<Vec<u8>>,
    rooms: BTreeMap<u32, VecDeque<Filling>>,
    /// Bytes that have come since somebody asked.
    came: usize,
    /// Whether the stream has an end behind what is there.
    ends: bool,
}

/// What comes next.
#[derive(Debug)]
enum Expecting {
    Header,
    Packet {
        is_control: bool,
        bytes: Vec<u8>,
        got: usize,
        length: usize,
    },
    Data {
        tag: u32,
        left: usize,
        is_last: bool,
    },
}

/// A room, and how many bytes have come for it (perhaps more than it holds).
#[derive(Debug)]
struct Filling {
    room: Room,
    got: usize,
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing more is there.
    Empty,
    /// There may be more.
    OthersTurn,
    /// Data wait for their room.
    NoRoom,
}

impl Incoming {
    /// Nothing has come; packets have at most so many bytes.
    pub fn new(from: Rank, longest_packet: usize) -> Self {
        Incoming {
            from,
            longest_packet,
            ahead: Box::new([0; AHEAD]),
            begin: 0,
            end: 0,
            state: Expecting::Header,
            controls: VecDeque::new(),
            rooms: BTreeMap::new(),
            came: 0,
            ends: false,
        }
    }

    /// The next control message that has come.
    pub fn control(&mut self) -> Option<Vec<u8>> {
        self.controls.pop_front()
    }

    /// How many bytes have come since this was last asked.
    pub fn take_came(&mut self) -> usize {
        std::mem::take(&mut self.came)
    }

    /// The stream ends behind what is there, and nobody says so again: it is read that far.
    pub fn ends(&mut self) {
        self.ends = true;
    }

    /// Makes room for data.
    pub fn receive(&mut self, tag: u32, room: Room) {
        let filling = Filling { room, got: 0 };
        self.rooms.entry(tag).or_default().push_back(filling);
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// If the stream has ended or makes no sense: nothing more will come.
    pub fn read(
        &mut self,
        source: &mut impl Read,
        events: &mut VecDeque<Event>,
    ) -> Result<Stopped, String> {
        for _ in 0..AT_ONCE {
            while self.digest(events)? {}
            if self.waits_for_room() {
                return Ok(Stopped::NoRoom);
            }
            let (asked, got) = match self.fetch(source) {
                Ok(fetched) => fetched,
                Err(fault) if fault.kind() == ErrorKind::Interrupted => continue,
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => {
                    self.ends = false; // or it was another's end
                    return Ok(Stopped::Empty);
                }
                Err(fault) => return Err(format!("its connection failed: {fault}")),
            };
            if got == 0 {
                return Err("it closed its connection".into());
            }
            if got < asked && !self.ends {
                // The socket is empty: who asked it again would only hear so.
                while self.digest(events)? {}
                return Ok(if self.waits_for_room() {
                    Stopped::NoRoom
                } else {
                    Stopped::Empty
                });
            }
        }
        Ok(Stopped::OthersTurn)
    }

    /// How much memory a packet holds that has not come whole.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        match &self.state {
            Expecting::Packet { bytes, .. } => bytes.capacity(),
            _ => 0,
        }
    }

    fn waits_for_room(&self) -> bool {
        matches!(&self.state, Expecting::Data { tag, .. } if !self.rooms.contains_key(tag))
    }

    /// Uses what was read ahead; says whether that led to something new.
    fn digest(&mut self, events: &mut VecDeque<Event>) -> Result<bool, String> {
        let ahead = &self.ahead[self.begin..self.end];
        match &mut self.state {
            Expecting::Header => {
                let Some(header) = ahead.first_chunk() else {
                    return Ok(false);
                };
                let header = FrameHeader::decode(header, self.longest_packet)?;
                self.begin += FrameHeader::BYTES;
                self.state = Expecting::of(header);
                Ok(true)
            }
            Expecting::Packet {
                is_control,
                bytes,
                got,
                length,
            } => {
                grow(bytes, *got, *length);
                let fits = ahead.len().min(bytes.len() - *got);
                bytes[*got..*got + fits].copy_from_slice(&ahead[..fits]);
                *got += fits;
                self.begin += fits;
                if got < length {
                    return Ok(fits > 0);
                }
                let (from, bytes) = (self.from, std::mem::take(bytes));
                match is_control {
                    true => self.controls.push_back(bytes),
                    false => events.push_back(Event::Packet { from, bytes }),
                }
                self.state = Expecting::Header;
                Ok(true)
            }
            Expecting::Data { tag, left, is_last } => {
                let Some(filling) = self.rooms.get_mut(tag).and_then(VecDeque::front_mut) else {
                    return Ok(false);
                };
                let bytes = &ahead[..ahead.len().min(*left)];
                filling.take(bytes);
                self.begin += bytes.len();
                *left -= bytes.len();
                if *left > 0 {
                    return Ok(false);
                }
                let done = is_last.then_some(*tag);
                self.state = Expecting::Header;
                if let Some(tag) = done {
                    self.arrived(tag, events);
                }
                Ok(true)
            }
        }
    }

    /// The data of a tag are complete.
    fn arrived(&mut self, tag: u32, events: &mut VecDeque<Event>) {
        let Some(queue) = self.rooms.get_mut(&tag) else {
            return;
        };
        if let Some(Filling { room, got }) = queue.pop_front() {
            events.push_back(Event::Data {
                from: self.from,
                tag,
                room,
                bytes: got,
            });
        }
        if queue.is_empty() {
            self.rooms.remove(&tag);
        }
    }

    /// Reads once, straight to where the bytes belong, and ahead; says how many bytes were asked
    /// for, and how many came.
    fn fetch(&mut self, source: &mut impl Read) -> io::Result<(usize, usize)> {
        self.ahead.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        let (target, left): (&mut [u8], usize) = match &mut self.state {
            Expecting::Header => (&mut [], 0),
            Expecting::Packet { bytes, got, .. } => (&mut bytes[*got..], 0),
            Expecting::Data { tag, left, .. } => {
                match self.rooms.get_mut(tag).and_then(VecDeque::front_mut) {
                    Some(filling) => (filling.rest(*left), *left),
                    None => (&mut [], *left),
                }
            }
        };
        let straight = target.len();
        let ahead = &mut self.ahead[self.end..];
        let asked = straight + ahead.len();
        let got = source.read_vectored(&mut [IoSliceMut::new(target), IoSliceMut::new(ahead)])?;
        self.came += got;
        let placed = got.min(straight);
        self.end += got - placed;
        match &mut self.state {
            Expecting::Header => {}
            Expecting::Packet { got, .. } => *got += placed,
            Expecting::Data {
                tag, left: rest, ..
            } => {
                *rest = left - placed;
                if let Some(filling) = self.rooms.get_mut(tag).and_then(VecDeque::front_mut) {
                    filling.got += placed;
                }
            }
        }
        Ok((asked, got))
    }
}

impl Expecting {
    fn of(header: FrameHeader) -> Self {
        let FrameHeader { kind, tag, length } = header;
        match kind {
            FrameKind::Packet | FrameKind::Control => Expecting::Packet {
                is_control: kind == FrameKind::Control,
                bytes: Vec::new(),
                got: 0,
                length,
            },
            FrameKind::Part | FrameKind::Last => Expecting::Data {
                tag,
                left: length,
                is_last: kind == FrameKind::Last,
            },
        }
    }
}

/// Makes room for more of a packet: as much as has come, but for the beginning.
fn grow(bytes: &mut Vec<u8>, got: usize, length: usize) {
    if got == bytes.len() && got < length {
        let room = (2 * got).max(FIRST).min(length);
        bytes.reserve_exact(room - got);
        bytes.resize(room, 0);
    }
}

impl Filling {
    /// Where the next bytes go, at most so many; empty if the room is full.
    fn rest(&mut self, left: usize) -> &mut [u8] {
        let room = &mut self.room.block.bytes_mut()[self.room.range.clone()];
        let begin = self.got.min(room.len());
        let end = room.len().min(begin.saturating_add(left));
        &mut room[begin..end]
    }

    /// Copies bytes in, as far as there is room; all of them count.
    fn take(&mut self, bytes: &[u8]) {
        let rest = self.rest(bytes.len());
        let fits = rest.len();
        rest.copy_from_slice(&bytes[..fits]);
        self.got += bytes.len();
    }
}
