//! Ranks as threads of one process: a mailbox each.
//!
//! Payloads are copied once, from where they lie into the room the receiver has made, as a network
//! between processes of one machine would. A packet counts as sent when its receiver has taken it,
//! so messages gather while a receiver is busy.

use super::{Event, Limits, Payload, Room, Transport};
use crate::host::{Bell, Host};
use dataflow_core::rank::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

/// As far as threads are concerned, messages have any length.
const LIMITS: Limits = Limits {
    message_bytes: 1 << 30,
    largest_tag: i32::MAX as u32,
    in_order: true,
};

/// The transports of `n_ranks` ranks of this process, by rank.
pub fn connect(n_ranks: usize) -> Vec<Local> {
    connect_with(n_ranks, LIMITS)
}

/// The same with the limits of another transport, for tests.
pub fn connect_with(n_ranks: usize, limits: Limits) -> Vec<Local> {
    let (mailboxes, letters): (Vec<_>, Vec<_>) = (0..n_ranks).map(|_| Mailbox::new()).unzip();
    let mailboxes: Arc<[Mailbox]> = mailboxes.into();
    let local = |(rank, letters)| Local {
        rank: Rank(rank),
        limits,
        mailboxes: mailboxes.clone(),
        letters,
        rooms: BTreeMap::new(),
        early: BTreeMap::new(),
        events: VecDeque::new(),
    };
    (0..n_ranks as u32).zip(letters).map(local).collect()
}

/// One rank's door to the others.
pub struct Local {
    rank: Rank,
    limits: Limits,
    mailboxes: Arc<[Mailbox]>,
    /// What is in the own one.
    letters: Receiver<Letter>,
    rooms: BTreeMap<(Rank, u32), VecDeque<Room>>,
    /// Data that came before room was made for them.
    early: BTreeMap<(Rank, u32), VecDeque<Payload>>,
    events: VecDeque<Event>,
}

/// The slot through which letters for a rank go in.
struct Mailbox {
    slot: Sender<Letter>,
    bell: OnceLock<Arc<dyn Bell>>,
}

enum Letter {
    Packet(Rank, Vec<u8>),
    Data(Rank, u32, Payload),
    Taken(Rank),
    Left(Rank),
}

impl Mailbox {
    fn new() -> (Self, Receiver<Letter>) {
        let (slot, letters) = channel();
        let bell = OnceLock::new();
        (Mailbox { slot, bell }, letters)
    }

    fn put(&self, letter: Letter) {
        // A rank that has left gets no letters.
        if self.slot.send(letter).is_ok()
            && let Some(bell) = self.bell.get()
        {
            bell.ring();
        }
    }
}

impl Local {
    fn put(&self, to: Rank, letter: Letter) {
        self.mailboxes[to.0 as usize].put(letter);
    }

    fn open(&mut self, letter: Letter) -> Option<Event> {
        match letter {
            Letter::Packet(from, bytes) => {
                self.put(from, Letter::Taken(self.rank));
                Some(Event::Packet { from, bytes })
            }
            Letter::Taken(by) => Some(Event::Sent(by)),
            Letter::Left(rank) => Some(Event::Lost(rank, "its thread has ended".into())),
            Letter::Data(from, tag, payload) => {
                let rooms = self.rooms.get_mut(&(from, tag));
                match rooms.and_then(VecDeque::pop_front) {
                    Some(room) => Some(arrived(from, tag, room, &payload)),
                    None => {
                        self.early
                            .entry((from, tag))
                            .or_default()
                            .push_back(payload);
                        None
                    }
                }
            }
        }
    }
}

fn arrived(from: Rank, tag: u32, mut room: Room, payload: &Payload) -> Event {
    let bytes = room.fill(payload);
    Event::Data {
        from,
        tag,
        room,
        bytes,
    }
}

impl Transport for Local {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn n_ranks(&self) -> usize {
        self.mailboxes.len()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        debug_assert!(packet.len() <= self.limits.message_bytes);
        self.put(to, Letter::Packet(self.rank, packet));
    }

    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        debug_assert!(payload.len() <= self.limits.message_bytes && tag <= self.limits.largest_tag);
        self.put(to, Letter::Data(self.rank, tag, payload));
    }

    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        let early = self
            .early
            .get_mut(&(from, tag))
            .and_then(VecDeque::pop_front);
        match early {
            Some(payload) => self.events.push_back(arrived(from, tag, room, &payload)),
            None => self.rooms.entry((from, tag)).or_default().push_back(room),
        }
    }

    fn poll(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let letter = self.letters.try_recv().ok()?;
            if let Some(event) = self.open(letter) {
                return Some(event);
            }
        }
    }

    fn bell(&mut self, host: &dyn Host) -> Option<Arc<dyn Bell>> {
        let bell = host.bell();
        let own = &self.mailboxes[self.rank.0 as usize];
        own.bell.set(bell.clone()).ok()?;
        bell.ring(); // for what has come before
        Some(bell)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        for rank in (0..self.mailboxes.len() as u32)
            .map(Rank)
            .filter(|rank| *rank != self.rank)
        {
            self.put(rank, Letter::Left(self.rank));
        }
    }
}
