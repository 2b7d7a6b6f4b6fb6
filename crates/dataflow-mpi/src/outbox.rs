//! Outbox: when to send. Messages to one rank gather in its open packet.
//!
//! The open packet leaves when no packet to that rank is under way, or when it is full and not too
//! many are. So nothing is held back while the way is free, and under load batches form by
//! themselves. Where a packet is under way for a moment only, as over sockets, whose system takes
//! what it is given, a worker that has more to do may be [patient](Haste::Patient): then packets follow
//! each other in no less than a while, and carry what was said in between. If that rank has sent data
//! since the last of them, nothing is held back: ranks that exchange data wait for each other in turn.
//!
//! # Law
//! Messages to one rank leave in the order in which they were said. A message may begin in one
//! packet and end in another: no message is too long for a transport.

use crate::peers::Peers;
use crate::wire::{Message, PacketHeader};
use dataflow_core::rank::Rank;
use std::time::Duration;

/// What waits to leave one rank for the others.
#[derive(Debug)]
pub struct Outbox {
    rank: Rank,
    /// Bytes of a full packet, without its header.
    full: usize,
    most_in_flight: usize,
    hold: Duration,
    ways: Peers<Way>,
    /// Packets to all ranks.
    in_flight: usize,
    /// Ranks for which something waits, ascending.
    waiting: Vec<u32>,
}

/// Room for so many full packets stays with the way to a rank.
const KEPT_PACKETS: usize = 16;

/// The way to one rank.
#[derive(Clone, Debug, Default)]
struct Way {
    stream: Vec<u8>,
    cut: usize,
    sequence: u64,
    in_flight: usize,
    /// Until then a worker that is patient adds to the open packet.
    held: Duration,
    /// Whether data have come from there since the last packet to it.
    answers: bool,
}

/// How soon what may leave does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// Nothing else is to be done, or somebody waits.
    Now,
    /// There is more to do, and soon another look.
    Patient,
}

impl Outbox {
    /// Packets of at most `packet_bytes`, at most `most_in_flight` of them under way to each rank;
    /// `hold` after one of them the next leaves, patience or not.
    pub fn new(rank: Rank, packet_bytes: usize, most_in_flight: usize, hold: Duration) -> Self {
        Outbox {
            rank,
            full: packet_bytes.saturating_sub(PacketHeader::BYTES).max(1),
            most_in_flight: most_in_flight.max(1),
            hold,
            ways: Peers::default(),
            in_flight: 0,
            waiting: Vec::new(),
        }
    }

    /// Adds a message; says how many bytes it takes.
    pub fn say(&mut self, to: Rank, run: u32, message: &Message<'_>) -> usize {
        let stream = &mut self.ways.meet(to, Way::default).stream;
        let before = stream.len();
        message.encode(run, stream);
        if let Err(at) = self.waiting.binary_search(&to.0) {
            self.waiting.insert(at, to.0);
        }
        stream.len() - before
    }

    /// Whether something waits to leave.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether something waits for that rank.
    pub fn waits_for(&self, to: Rank) -> bool {
        self.waiting.binary_search(&to.0).is_ok()
    }

    /// Ranks to which packets are under way: all, or those behind whose packets something waits.
    pub fn awaited(&self, all: bool) -> impl Iterator<Item = Rank> + '_ {
        let is_asked = move |to: Rank| all || self.waits_for(to);
        // Nearly always nothing is under way, and then nobody is looked at.
        let ways = (self.in_flight > 0).then(|| self.ways.iter());
        let under_way = ways.into_iter().flatten();
        let under_way = under_way.filter(|(_, way)| way.in_flight > 0);
        under_way.map(|(to, _)| to).filter(move |&to| is_asked(to))
    }

    /// When the first of the packets leaves that only wait for others to join them.
    pub fn held_until(&self) -> Option<Duration> {
        let ways = self.waiting.iter();
        let ways = ways.filter_map(|&to| self.ways.get(Rank(to)));
        let held = ways.filter(|way| way.in_flight == 0).map(|way| way.held);
        held.min()
    }

    /// Data came from that rank: what is said to it next may be what it waits for, and is not held.
    pub fn hears_from(&mut self, from: Rank) {
        if let Some(way) = self.ways.get_mut(from) {
            way.answers = true;
        }
    }

    /// The next packet that may leave, and for whom.
    pub fn next_packet(&mut self, haste: Haste, now: Duration) -> Option<(Rank, Vec<u8>)> {
        let may_leave = |&to: &u32| {
            let Some(way) = self.ways.get(Rank(to)) else {
                return false;
            };
            let is_full = way.stream.len() - way.cut >= self.full;
            let is_urgent = is_full || way.answers;
            let is_held = haste == Haste::Patient && now < way.held;
            (way.in_flight == 0 && !is_held) || (is_urgent && way.in_flight < self.most_in_flight)
        };
        let at = self.waiting.iter().position(may_leave)?;
        let to = self.waiting[at];
        let way = self.ways.get_mut(Rank(to))?;
        let end = way.stream.len().min(way.cut + self.full);
        let mut packet = Vec::with_capacity(PacketHeader::BYTES + end - way.cut);
        let header = PacketHeader {
            from: self.rank,
            sequence: way.sequence,
        };
        header.encode(&mut packet);
        packet.extend_from_slice(&way.stream[way.cut..end]);
        way.sequence += 1;
        way.in_flight += 1;
        self.in_flight += 1;
        way.held = now.saturating_add(self.hold);
        way.answers = false;
        way.cut = end;
        if end == way.stream.len() {
            way.stream.clear();
            way.stream.shrink_to(KEPT_PACKETS * self.full);
            way.cut = 0;
            self.waiting.remove(at);
        } else if way.cut > KEPT_PACKETS * self.full && 2 * way.cut > way.stream.len() {
            // No more moves down than has left: a long queue costs no square.
            way.stream.drain(..way.cut);
            way.cut = 0;
        }
        Some((Rank(to), packet))
    }

    /// How many packets, since the beginning, hold all that was said to that rank.
    pub fn packets_to(&self, to: Rank) -> u64 {
        let Some(way) = self.ways.get(to) else {
            return 0;
        };
        way.sequence + (way.stream.len() - way.cut).div_ceil(self.full) as u64
    }

    /// A packet to that rank has left; says how many have, since the beginning.
    pub fn sent(&mut self, to: Rank) -> u64 {
        let Some(way) = self.ways.get_mut(to) else {
            return 0;
        };
        if way.in_flight > 0 {
            way.in_flight -= 1;
            self.in_flight -= 1;
        }
        way.sequence - way.in_flight as u64
    }

    /// Drops what waits for a rank that cannot be reached, and counts nothing as under way there.
    pub fn forget(&mut self, to: Rank) {
        if let Some(way) = self.ways.get_mut(to) {
            self.in_flight -= way.in_flight;
            *way = Way::default();
        }
        self.waiting.retain(|&waiting| waiting != to.0);
    }

    /// To how many ranks something was ever said.
    pub fn n_peers(&self) -> usize {
        self.ways.len()
    }

    /// Whether everything has left.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_flight == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::{Accepted, Intake, message_at};

    fn outbox(packet_bytes: usize, most: usize) -> Outbox {
        Outbox::new(Rank(0), packet_bytes, most, HOLD)
    }

    fn next_packet(outbox: &mut Outbox) -> Option<(Rank, Vec<u8>)> {
        outbox.next_packet(Haste::Now, Duration::ZERO)
    }

    const HOLD: Duration = Duration::from_micros(50);

    const TO: Rank = Rank(1);

    #[test]
    fn the_first_message_leaves_at_once_and_those_after_it_together() {
        let mut outbox = outbox(16 << 10, 4);
        let bytes = outbox.say(TO, 1, &Message::Dry);
        assert_eq!(next_packet(&mut outbox).unwrap().1.len(), 16 + bytes);
        for _ in 0..10 {
            outbox.say(TO, 1, &Message::Dry);
            assert!(next_packet(&mut outbox).is_none(), "one is under way");
        }
        outbox.sent(TO);
        assert_eq!(next_packet(&mut outbox).unwrap().1.len(), 16 + 10 * bytes);
        assert!(next_packet(&mut outbox).is_none());
        outbox.sent(TO);
        assert!(outbox.is_empty());
    }

    #[test]
    fn the_room_of_a_long_queue_is_given_back() {
        let mut outbox = outbox(256, 1);
        (0..10_000).for_each(|_| _ = outbox.say(TO, 1, &Message::Dry));
        while next_packet(&mut outbox).is_some() {
            outbox.sent(TO);
        }
        let way = outbox.ways.get(TO).unwrap();
        assert!(way.stream.capacity() <= KEPT_PACKETS * 256, "{way:?}");
    }

    #[test]
    fn a_full_packet_leaves_though_others_are_under_way_but_not_too_many() {
        for most in [1, 2, 5] {
            let mut outbox = outbox(116, most);
            for _ in 0..1000 {
                outbox.say(TO, 1, &Message::Dry);
            }
            let left = std::iter::from_fn(|| next_packet(&mut outbox)).count();
            assert_eq!(left, most);
        }
    }

    #[test]
    fn whoever_is_patient_sends_a_packet_in_a_while_unless_it_is_full() {
        let micros = Duration::from_micros;
        let mut outbox = outbox(116, 4);
        outbox.say(TO, 1, &Message::Dry);
        assert_eq!(outbox.held_until(), Some(micros(0)));
        assert!(outbox.next_packet(Haste::Patient, micros(100)).is_some());
        outbox.sent(TO);
        outbox.say(TO, 1, &Message::Dry);
        assert!(outbox.next_packet(Haste::Patient, micros(149)).is_none());
        assert_eq!(outbox.held_until(), Some(micros(150)));
        outbox.say(TO, 1, &Message::Dry);
        assert!(outbox.next_packet(Haste::Patient, micros(150)).is_some());
        outbox.sent(TO);
        assert_eq!(outbox.held_until(), None, "both have left");
        outbox.say(TO, 1, &Message::Dry);
        assert!(outbox.next_packet(Haste::Now, micros(160)).is_some());
        outbox.sent(TO);
        for _ in 0..20 {
            outbox.say(TO, 1, &Message::Dry);
        }
        let full = outbox.next_packet(Haste::Patient, micros(161));
        assert_eq!(full.map(|(_, packet)| packet.len()), Some(116));
    }

    #[test]
    fn what_answers_data_is_not_held() {
        let micros = Duration::from_micros;
        let mut outbox = outbox(116, 4);
        let mut leaves = |hears, now| {
            outbox.say(TO, 1, &Message::Dry);
            if hears {
                outbox.hears_from(TO);
            }
            let left = outbox.next_packet(Haste::Patient, micros(now)).is_some();
            if left {
                outbox.sent(TO);
            }
            left
        };
        assert!(leaves(true, 100) && leaves(true, 101) && leaves(true, 102));
        assert!(!leaves(false, 151) && leaves(true, 151));
    }

    #[test]
    fn what_answers_data_leaves_though_a_packet_is_under_way_but_not_too_many() {
        let mut outbox = outbox(116, 3);
        for expected in [1, 1, 1, 0, 0] {
            outbox.say(TO, 1, &Message::Dry);
            outbox.hears_from(TO);
            let left = std::iter::from_fn(|| next_packet(&mut outbox)).count();
            assert_eq!(left, expected);
        }
        outbox.sent(TO);
        assert!(next_packet(&mut outbox).is_some() && outbox.waiting.is_empty());
    }

    #[test]
    fn word_is_awaited_of_packets_that_something_waits_behind() {
        let mut outbox = outbox(16 << 10, 4);
        let awaited = |outbox: &Outbox, all| outbox.awaited(all).collect::<Vec<_>>();
        outbox.say(TO, 1, &Message::Dry);
        assert!(next_packet(&mut outbox).is_some());
        assert_eq!(awaited(&outbox, false), []);
        assert_eq!(awaited(&outbox, true), [TO]);
        outbox.say(TO, 1, &Message::Dry);
        assert_eq!(awaited(&outbox, false), [TO]);
        outbox.sent(TO);
        assert_eq!(awaited(&outbox, false), [], "it may leave");
        assert_eq!(awaited(&outbox, true), []);
    }

    #[test]
    fn nothing_is_awaited_of_a_rank_that_cannot_be_reached() {
        let mut outbox = outbox(116, 4);
        outbox.say(TO, 1, &Message::Dry);
        assert!(next_packet(&mut outbox).is_some());
        outbox.say(TO, 1, &Message::Dry);
        outbox.say(Rank(2), 1, &Message::Dry);
        outbox.forget(TO);
        assert!(outbox.waits_for(Rank(2)) && !outbox.waits_for(TO));
        assert_eq!(outbox.awaited(true).count(), 0);
        // Word of what had left before may still come.
        outbox.sent(TO);
        assert_eq!(next_packet(&mut outbox).map(|(to, _)| to), Some(Rank(2)));
        outbox.sent(Rank(2));
        assert!(outbox.is_empty());
    }

    #[test]
    fn the_last_packet_to_a_rank_counts_however_little_is_in_it() {
        let mut outbox = outbox(116, 1);
        for n in 1..50 {
            outbox.say(TO, 1, &Message::Dry);
            let said = outbox.packets_to(TO);
            let mut left = 0;
            if n % 3 == 0 {
                while next_packet(&mut outbox).is_some() {
                    left = outbox.sent(TO);
                }
                assert_eq!(left, said);
            }
        }
    }

    #[test]
    fn a_packet_is_full_with_as_many_bytes_as_it_holds() {
        let bytes = outbox(116, 2).say(TO, 1, &Message::Dry);
        let mut outbox = outbox(PacketHeader::BYTES + 2 * bytes, 2);
        outbox.say(TO, 1, &Message::Dry);
        assert!(next_packet(&mut outbox).is_some());
        outbox.say(TO, 1, &Message::Dry);
        assert!(next_packet(&mut outbox).is_none(), "one is under way");
        outbox.say(TO, 1, &Message::Dry);
        assert!(next_packet(&mut outbox).is_some());
        assert_eq!([outbox.sent(TO), outbox.sent(TO)], [1, 2], "of two");
    }

    #[test]
    fn messages_longer_than_a_packet_arrive_whole_and_in_order() {
        let (mut outbox, mut intake) = (outbox(17, 3), Intake::default());
        let said: Vec<_> = (0..50u64)
            .map(|arrived| Message::Credit { arrived })
            .collect();
        for message in &said {
            outbox.say(TO, 7, message);
        }
        while let Some((to, packet)) = next_packet(&mut outbox) {
            assert!(packet.len() <= 17);
            let (header, part) = PacketHeader::decode(&packet).unwrap();
            let accepted = intake.accept(header.sequence, part, Duration::ZERO);
            assert_eq!(accepted, Accepted::Next);
            outbox.sent(to);
        }
        let (stream, mut at, mut heard) = (intake.take(), 0, vec![]);
        while let Some((header, body)) = message_at(&stream, at).unwrap() {
            heard.push(format!("{:?}", Message::decode(header.kind, body).unwrap()));
            at += crate::wire::MessageHeader::BYTES + body.len();
            assert_eq!(header.run, 7);
        }
        assert!(said.iter().map(|message| format!("{message:?}")).eq(heard));
    }
}
