//! Ranks as threads of one process: a mailbox each.
//!
//! Payloads are copied once, from where they lie into the room the receiver has made, as a network
//! between processes of one machine would. A packet counts as sent when its receiver has taken it,
//! so messages gather while a receiver is busy. Word of that comes along with whatever the receiver
//! sends next; who waits for it looks for itself, and is written to if there was nothing yet.

use super::{Event, MessageLimits, Payload, Room, Transport};
use crate::bell::Bell;
use crate::host::Host;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use dataflow_core::port::drop_quietly;
use dataflow_core::rank::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

/// As far as threads are concerned, messages have any length.
const LIMITS: MessageLimits = MessageLimits {
    message_bytes: 1 << 30,
    largest_tag: i32::MAX as u32,
    in_order: true,
};

/// The transports of `n_ranks` ranks of this process, by rank.
///
/// Takes 128 bytes for each pair of ranks.
///
/// # Panics
/// If there are more than [`Local::MOST`].
pub fn connect(n_ranks: usize) -> Vec<Local> {
    connect_with(n_ranks, LIMITS)
}

/// The same with the limits of another transport, for tests.
///
/// # Panics
/// As [`connect`].
pub fn connect_with(n_ranks: usize, limits: MessageLimits) -> Vec<Local> {
    let most = Local::MOST;
    assert!(
        n_ranks <= most,
        "{n_ranks} ranks of one process (at most {most})"
    );
    let (mailboxes, letters): (Vec<_>, Vec<_>) =
        (0..n_ranks).map(|_| Mailbox::new(n_ranks)).unzip();
    let mailboxes: Arc<[Mailbox]> = mailboxes.into();
    let local = |(rank, letters)| Local {
        rank: Rank(rank),
        limits,
        mailboxes: mailboxes.clone(),
        letters,
        counts: vec![PacketCounts::default(); n_ranks],
        rooms: ByEnvelope::new(),
        early: ByEnvelope::new(),
        events: VecDeque::new(),
    };
    (0..n_ranks as u32).zip(letters).map(local).collect()
}

/// One rank's door to the others.
///
/// # Examples
/// See [`Event`](super::Event#examples).
pub struct Local {
    rank: Rank,
    limits: MessageLimits,
    mailboxes: Arc<[Mailbox]>,
    /// What is in the own one.
    letters: Receiver<Letter>,
    /// By rank.
    counts: Vec<PacketCounts>,
    /// Rooms that wait for their data, in the order in which they were made.
    rooms: ByEnvelope<Room>,
    /// Data that came before room was made for them.
    early: ByEnvelope<Payload>,
    events: VecDeque<Event>,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({} of {})", self.rank, self.counts.len())
    }
}

/// From whom, under which tag.
type Envelope = (Rank, u32);

/// What waits under each envelope, in its order.
type ByEnvelope<T> = BTreeMap<Envelope, VecDeque<T>>;

/// Packets between this rank and one other.
#[derive(Clone, Debug, Default)]
struct PacketCounts {
    sent: u64,
    /// How many of those are known to have been taken.
    known: u64,
    /// How many of the other's were taken here.
    taken: u64,
}

/// The slot through which letters for a rank go in.
struct Mailbox {
    slot: Sender<Letter>,
    bell: OnceLock<Arc<dyn Bell>>,
    /// What this rank has taken, by sender.
    taken: Box<[TakenCount]>,
}

/// How many packets of one rank another has taken. In a line of its own: who takes them writes it,
/// and nobody reads it who does not wait.
#[derive(Default)]
#[repr(align(128))]
struct TakenCount {
    packets: AtomicU64,
    /// Whether the sender waits to hear of it.
    awaited: AtomicBool,
}

impl TakenCount {
    /// So many have been taken; says whether the sender, which has asked, must be written to.
    fn note(&self, count: u64) -> bool {
        self.packets.store(count, Ordering::Relaxed);
        // Both sides exchange `awaited`, so one comes first: if this one, its release shows the sender the
        // count; if the other, the question is seen here.
        self.awaited.swap(false, Ordering::Release)
    }

    /// How many have been taken, as far as is known; of the next the sender is told.
    fn ask(&self) -> u64 {
        // Acquire: see `note`.
        self.awaited.swap(true, Ordering::Acquire);
        self.packets.load(Ordering::Relaxed)
    }
}

struct Letter {
    from: Rank,
    /// How many packets of the one it goes to have been taken.
    taken: u64,
    content: Content,
}

enum Content {
    Packet(Vec<u8>),
    Data(u32, Payload),
    /// The number that every letter has, for somebody who waits for it.
    Taken,
    Left,
}

impl Mailbox {
    fn new(n_ranks: usize) -> (Self, Receiver<Letter>) {
        let (slot, letters) = channel();
        let mailbox = Mailbox {
            slot,
            bell: OnceLock::new(),
            taken: (0..n_ranks).map(|_| TakenCount::default()).collect(),
        };
        (mailbox, letters)
    }

    fn put(&self, letter: Letter) {
        if let Err(returned) = self.slot.send(letter) {
            return drop_quietly(returned); // a rank that has left gets no letters
        }
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }
}

impl Local {
    /// How many ranks a process has at most: their counts take 128 MiB, and each has threads of its own.
    pub const MOST: usize = 1024;

    fn put(&self, to: Rank, content: Content) {
        let letter = Letter {
            from: self.rank,
            taken: self.counts[to.0 as usize].taken,
            content,
        };
        self.mailboxes[to.0 as usize].put(letter);
    }

    /// What `by` has taken of what `of` sent.
    fn taken(&self, by: Rank, of: Rank) -> &TakenCount {
        &self.mailboxes[by.0 as usize].taken[of.0 as usize]
    }

    fn open(&mut self, letter: Letter) {
        let Letter { from, content, .. } = letter;
        self.learn(from, letter.taken);
        let event = match content {
            Content::Taken => None,
            Content::Packet(bytes) => {
                self.take_from(from);
                Some(Event::Packet { from, bytes })
            }
            Content::Left => Some(Event::Lost(from, "its thread has ended".into())),
            Content::Data(tag, payload) => match first(&mut self.rooms, (from, tag)) {
                Some(room) => Some(arrived(from, tag, room, payload)),
                None => {
                    self.early
                        .entry((from, tag))
                        .or_default()
                        .push_back(payload);
                    None
                }
            },
        };
        self.events.extend(event);
    }

    /// Notes that a packet of `from` was taken.
    fn take_from(&mut self, from: Rank) {
        let of = &mut self.counts[from.0 as usize];
        of.taken += 1;
        let count = of.taken;
        if self.taken(self.rank, from).note(count) {
            self.put(from, Content::Taken);
        }
    }

    /// So many packets have been taken by that rank; says whether that is news.
    fn learn(&mut self, by: Rank, taken: u64) -> bool {
        let of = &mut self.counts[by.0 as usize];
        let news = taken.saturating_sub(of.known);
        of.known += news;
        self.events.extend((0..news).map(|_| Event::Sent(by)));
        news > 0
    }
}

/// Takes out the first that is under that envelope.
fn first<T>(waiting: &mut ByEnvelope<T>, envelope: Envelope) -> Option<T> {
    let under = waiting.get_mut(&envelope)?;
    let first = under.pop_front();
    if under.is_empty() {
        waiting.remove(&envelope);
    }
    first
}

fn arrived(from: Rank, tag: u32, mut room: Room, payload: Payload) -> Event {
    let bytes = room.fill(&payload);
    drop_quietly(payload);
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

    fn limits(&self) -> MessageLimits {
        self.limits
    }

    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        debug_assert!(packet.len() <= self.limits.message_bytes);
        self.counts[to.0 as usize].sent += 1;
        self.put(to, Content::Packet(packet));
    }

    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        debug_assert!(payload.len() <= self.limits.message_bytes && tag <= self.limits.largest_tag);
        self.put(to, Content::Data(tag, payload));
    }

    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        match first(&mut self.early, (from, tag)) {
            Some(payload) => self.events.push_back(arrived(from, tag, room, payload)),
            None => self.rooms.entry((from, tag)).or_default().push_back(room),
        }
    }

    fn awaits(&mut self, to: Rank) -> bool {
        let PacketCounts { sent, known, .. } = self.counts[to.0 as usize];
        if known == sent {
            return false;
        }
        let count = self.taken(to, self.rank).ask();
        self.learn(to, count)
    }

    fn poll(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let letter = self.letters.try_recv().ok()?;
            self.open(letter);
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
            self.put(rank, Content::Left);
        }
        // One by one: of two data that panic as one collection drops them the second would end the process.
        let early = std::mem::take(&mut self.early);
        early.into_values().flatten().for_each(drop_quietly);
        self.letters.try_iter().for_each(drop_quietly);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::explore;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn whoever_waits_for_word_of_a_packet_sees_it_or_is_written_to() {
        explore(4, || {
            let taken = Arc::new(TakenCount::default());
            let taker = thread::spawn({
                let taken = taken.clone();
                move || taken.note(1)
            });
            let seen = taken.ask();
            let is_written_to = taker.join().unwrap();
            assert!(seen == 1 || is_written_to);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Machine;
    use crate::transport::Load;
    use crate::transport::delicate::Delicate;
    use dataflow_core::port::{Heap, Memory};
    use std::time::{Duration, Instant};

    const HERE: Rank = Rank(0);
    const THERE: Rank = Rank(1);

    fn two() -> [Local; 2] {
        let mut ends = connect(2).into_iter();
        [(); 2].map(|()| ends.next().unwrap())
    }

    #[test]
    fn word_of_packets_comes_along_with_the_answer_or_when_it_is_awaited() {
        let [mut here, mut there] = two();
        here.send(THERE, vec![1]);
        assert!(!here.awaits(THERE), "nobody has taken it");
        assert!(matches!(there.poll(), Some(Event::Packet { .. })));
        assert!(matches!(here.poll(), Some(Event::Sent(THERE))), "a letter");
        here.send(THERE, vec![2]);
        assert!(matches!(there.poll(), Some(Event::Packet { .. })));
        assert!(here.poll().is_none(), "nobody waits for word of it");
        there.send(HERE, vec![3]);
        assert!(matches!(here.poll(), Some(Event::Sent(THERE))));
        assert!(matches!(here.poll(), Some(Event::Packet { .. })));
        here.send(THERE, vec![4]);
        assert!(matches!(there.poll(), Some(Event::Sent(HERE))));
        assert!(matches!(there.poll(), Some(Event::Packet { .. })));
        assert!(here.awaits(THERE) && !here.awaits(THERE));
        assert!(matches!(here.poll(), Some(Event::Sent(THERE))));
        assert!(here.poll().is_none());
    }

    #[test]
    fn who_sleeps_until_a_packet_has_left_is_woken() {
        let host = Machine::new();
        for _ in 0..2000 {
            let [mut here, mut there] = two();
            let bell = here.bell(&*host).unwrap();
            let other = std::thread::spawn(move || {
                while there.poll().is_none() {}
                there
            });
            here.send(THERE, vec![1]);
            here.awaits(THERE);
            let patience = Duration::from_secs(20);
            let since = Instant::now();
            while !matches!(here.poll(), Some(Event::Sent(THERE))) {
                assert!(since.elapsed() < patience, "nobody rang");
                bell.wait(Some(patience));
            }
            drop(other.join().unwrap());
        }
    }

    /// Who has a bell may wait for it before anything else.
    #[test]
    fn a_bell_has_been_rung_for_what_came_before_it_was_asked_for() {
        let [mut here, mut there] = two();
        here.send(THERE, vec![1]);
        let bell = there.bell(&*Machine::new()).unwrap();
        let (tell, told) = channel();
        // Not joined: if it sleeps for ever the test must not.
        std::thread::spawn(move || {
            bell.wait(None);
            tell.send(())
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(()));
    }

    /// Two of them ended the process.
    #[test]
    fn data_that_panic_as_they_are_dropped_are_dropped_one_by_one() {
        let [mut here, mut there] = two();
        let early = Delicate::counted(|payload| here.send_data(THERE, 1, payload), 3);
        assert!(there.poll().is_none(), "there is no room");
        let unread = Delicate::counted(|payload| here.send_data(THERE, 1, payload), 3);
        drop(there);
        let returned = Delicate::counted(|payload| here.send_data(THERE, 1, payload), 3);
        assert_eq!((early(), unread(), returned()), (3, 3, 3));
    }

    /// It ended the communication of the rank that had got it.
    #[test]
    fn a_datum_that_panics_as_it_is_dropped_arrives() {
        let [mut here, mut there] = two();
        let room = || Room {
            block: Heap.allocate(8),
            range: 0..8,
        };
        there.receive(HERE, 1, room());
        let in_time = Delicate::counted(|payload| here.send_data(THERE, 1, payload), 1);
        assert!(matches!(there.poll(), Some(Event::Data { bytes: 8, .. })));
        let early = Delicate::counted(|payload| here.send_data(THERE, 2, payload), 1);
        assert!(there.poll().is_none(), "there is no room");
        there.receive(HERE, 2, room());
        assert!(matches!(there.poll(), Some(Event::Data { bytes: 8, .. })));
        assert_eq!((in_time(), early()), (1, 1));
    }

    #[test]
    fn data_leave_nothing_behind() {
        let [mut here, mut there] = two();
        let payload = Load::Packed(vec![7; 8].into()).part(0..8);
        let room = || Room {
            block: Heap.allocate(8),
            range: 0..8,
        };
        for tag in 1..100 {
            here.send_data(THERE, tag, payload.clone());
            if tag % 2 == 0 {
                assert!(there.poll().is_none(), "there is no room yet");
            }
            there.receive(HERE, tag, room());
            assert!(matches!(there.poll(), Some(Event::Data { bytes: 8, .. })));
        }
        assert!(there.rooms.is_empty() && there.early.is_empty() && there.events.is_empty());
    }
}
