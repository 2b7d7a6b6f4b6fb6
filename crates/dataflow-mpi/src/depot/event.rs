//! Event: what happens at the transport. Packets become messages, which are [heeded](super::heed).

use super::Depot;
use crate::failure;
use crate::intake::{Accepted, Intake, message_at};
use crate::rendezvous::Progressed;
use crate::transport::{Event, Room};
use crate::wire::{Malformed, Message, MessageHeader, PacketHeader};
use dataflow_core::rank::Rank;
use std::time::Duration;

impl Depot {
    /// Something happened at the transport.
    pub fn event(&mut self, event: Event, now: Duration) {
        match event {
            Event::Sent(to) => {
                let sent = self.outbox.sent(to);
                if let Some(peer) = self.run.peers.get_mut(to) {
                    peer.note_sent(sent, now);
                }
                if let Some(followed) = &mut self.run.followed {
                    followed.sent(to, sent);
                }
            }
            Event::Part { from, bytes: 0 } => self.watchdog.connected(from, now),
            Event::Part { from, bytes } if self.broken.is_none() => {
                self.watchdog.heard(from, now);
                self.run.note_bytes(from, bytes, now);
            }
            Event::Part { .. } => {}
            Event::Packet { from, bytes } => self.packet(from, &bytes, now),
            Event::Data {
                from,
                tag,
                room,
                bytes,
            } => self.data(from, tag, room, bytes, now),
            Event::Unexpected(_) => self.counters.duplicates_dropped += 1,
            Event::Lost(rank, reason) => {
                let text = format!("{rank} is lost to {}: {reason}", self.rank);
                self.lose(rank, text);
            }
        }
    }

    fn packet(&mut self, from: Rank, bytes: &[u8], now: Duration) {
        if from.0 as usize >= self.n_ranks {
            return;
        }
        if let Some(failure) = self.broken.clone() {
            // Who has not met this rank was not told.
            if !self.watchdog.has_met(from) {
                self.watchdog.meet(from, now);
                self.say(from, Message::Broken(failure));
            }
            return;
        }
        self.watchdog.heard(from, now);
        if let Err(malformed) = self.unpack(from, bytes, now) {
            self.broke(failure(
                from,
                "malformed",
                format!("{from} sent: {malformed}"),
            ));
        }
    }

    fn unpack(&mut self, from: Rank, bytes: &[u8], now: Duration) -> Result<(), Malformed> {
        let (header, part) = PacketHeader::decode(bytes)?;
        if header.from != from {
            return Err(Malformed(format!(
                "a packet says it comes from {}",
                header.from
            )));
        }
        let intake = self.intakes.meet(from, Intake::default);
        match intake.accept(header.sequence, part, now) {
            Accepted::Duplicate => {
                self.counters.duplicates_dropped += 1;
                return Ok(());
            }
            Accepted::Early => {
                self.gaps.insert(from);
                return Ok(());
            }
            Accepted::Next => {}
        }
        let stream = intake.take();
        let mut at = 0;
        let read = loop {
            match message_at(&stream, at) {
                Ok(Some((header, body))) => {
                    at += MessageHeader::BYTES + body.len();
                    let message = Message::decode(header.kind, body);
                    if let Err(malformed) =
                        message.and_then(|message| self.heed(from, header.run, message, now))
                    {
                        break Err(malformed);
                    }
                }
                Ok(None) => break Ok(()),
                Err(malformed) => break Err(malformed),
            }
        };
        if let Some(intake) = self.intakes.get_mut(from) {
            intake.put_back(stream, at);
        }
        read
    }

    fn data(&mut self, from: Rank, tag: u32, room: Room, bytes: usize, now: Duration) {
        if self.broken.is_some() {
            return;
        }
        self.watchdog.heard(from, now);
        self.run.note_bytes(from, bytes, now);
        self.outbox.hears_from(from);
        match self.run.wanted.arrived(from, tag, room, bytes) {
            Ok(Progressed::Part) => {}
            Ok(Progressed::Datum) => self.run.deeds.fetched += 1,
            Ok(Progressed::Parcel(parcel)) => {
                self.run.deeds.fetched += 1;
                self.deliver(*parcel);
            }
            Err(malformed) => self.broke(failure(from, "malformed", malformed.0)),
        }
    }
}
