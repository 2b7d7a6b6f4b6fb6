//! The network of the world: when a message arrives, and whether.
//!
//! Each host has one way out and one way in; messages go one after another over both, and take
//! their bytes' time on each, overlapping. Ranks of one host may have ways through its memory instead.
//! Between two ranks there may be a slow link besides.
//! The way in is taken when the first byte comes, so nobody waits there for a message that is still queued
//! at its sender's way out.
//! Packets wait behind data for the time of a part at most, as over sockets. What takes for ever, as over a
//! link that carries nothing, never comes.

use super::agenda::nanos;
use super::cluster::{HostOf, carried};
use super::weather::{Faults, Weather};
use crate::peers::Peers;
use dataflow_core::rank::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// All ways and mailboxes.
#[derive(Default)]
pub struct Network {
    pub faults: Faults,
    pub ends: Vec<Endpoint>,
    /// The ways of each host.
    hosts: Vec<Channels>,
}

/// Behind so many bytes of data a packet waits at most.
const PART: usize = 64 << 10;

/// One rank's end of the network.
#[derive(Default)]
pub struct Endpoint {
    pub mail: VecDeque<Letter>,
    pub bell: Option<usize>,
    host: usize,
    /// Through the memory of its host.
    shared: Channels,
    /// Of the ranks that have sent something here.
    from: Peers<From>,
    /// Packets whose leaving was not noticed yet, by when they leave.
    pub leaving: VecDeque<LeavingPacket>,
}

/// A packet on its way out.
pub struct LeavingPacket {
    pub at: u64,
    pub to: Rank,
    /// Whether the bell rings then.
    pub is_awaited: bool,
}

/// Out and in.
#[derive(Clone, Copy, Default)]
struct Channels {
    out: Channel,
    inward: Channel,
}

/// What comes from one rank.
#[derive(Default)]
struct From {
    link: Channel,
    /// When the last packet arrives, and the last message of any kind.
    last_packet: u64,
    last: u64,
}

/// What messages go over one after another.
#[derive(Clone, Copy, Default)]
struct Channel {
    /// When it is free again, and when all packets are through.
    free: u64,
    packets_free: u64,
}

impl Channel {
    /// When a message is through that comes at a time and takes so long, and a gap after it; packets
    /// say how long they wait for data at most.
    fn pass(&mut self, comes: u64, (takes, gap): (u64, u64), waits: Option<u64>) -> u64 {
        let Some(waits) = waits else {
            let through = comes.max(self.free).saturating_add(takes);
            self.free = through.saturating_add(gap);
            return through;
        };
        let begins = comes
            .max(self.packets_free)
            .max(self.free.min(comes.saturating_add(waits)));
        let through = begins.saturating_add(takes);
        self.packets_free = through.saturating_add(gap);
        // Data that it has overtaken are through later.
        let overtakes = self.free > begins;
        self.free = if overtakes {
            self.free.saturating_add(takes).saturating_add(gap)
        } else {
            self.packets_free
        };
        through
    }
}

/// When a message has left its rank, when its first byte comes to the other one, and how long its bytes
/// take on the slowest of its ways.
pub struct Leaving {
    pub left: u64,
    pub comes: u64,
    pub takes: u64,
}

/// When a message begins to arrive, and has arrived.
pub struct Times {
    pub begins: u64,
    pub arrives: u64,
}

/// What is said of a message while it arrives: so often, after such times, that so many bytes have come.
pub struct Parts {
    pub from: Rank,
    pub to: Rank,
    pub bytes: usize,
    pub every: u64,
    pub left: u64,
}

/// What arrives where.
pub struct Delivery {
    pub from: Rank,
    pub to: Rank,
    pub letter: Letter,
}

/// A message whose first byte is on its way, and what chance does to it.
pub struct Coming {
    pub delivery: Delivery,
    pub takes: u64,
    pub jitter: u64,
    /// How long after the message its double arrives, if it has one.
    pub double: Option<u64>,
}

/// What is in the mail.
#[derive(Clone)]
pub enum Letter {
    Packet(Rank, Vec<u8>),
    Data(Rank, u32, InFlight),
    /// So many bytes of something that is not whole yet.
    Part(Rank, usize),
}

/// A payload on its way.
#[derive(Clone)]
pub enum InFlight {
    Bytes(Arc<[u8]>),
    /// So many that nobody reads.
    Blank(usize),
}

impl InFlight {
    pub fn len(&self) -> usize {
        match self {
            InFlight::Bytes(bytes) => bytes.len(),
            InFlight::Blank(length) => *length,
        }
    }
}

impl Delivery {
    pub fn is_packet(&self) -> bool {
        matches!(self.letter, Letter::Packet(..))
    }

    pub fn bytes(&self) -> usize {
        match &self.letter {
            Letter::Packet(_, bytes) => bytes.len(),
            Letter::Data(_, _, body) => body.len(),
            Letter::Part(_, length) => *length,
        }
    }

    /// A number for it, another than any actor's.
    pub fn digest(&self) -> u64 {
        let kind = match &self.letter {
            Letter::Packet(..) => 1,
            Letter::Data(_, tag, _) => 2 + 4 * u64::from(*tag),
            Letter::Part(..) => 0,
        };
        let ends = u64::from(self.from.0) << 20 ^ u64::from(self.to.0);
        (1 << 63 | ends << 32) ^ kind << 24 ^ self.bytes() as u64
    }
}

impl Network {
    pub fn connect(&mut self, weather: &Weather, n_ranks: usize) {
        let mut numbers: BTreeMap<HostOf, usize> = BTreeMap::new();
        let end = |rank| {
            let next = numbers.len();
            let home = weather.cluster.home(Rank(rank));
            let host = *numbers.entry(home).or_insert(next);
            Endpoint {
                host,
                ..Endpoint::default()
            }
        };
        self.ends = (0..n_ranks as u32).map(end).collect();
        self.hosts = vec![Channels::default(); numbers.len()];
    }

    /// The ways of a rank: its own through memory, or those of its host.
    fn ways(&mut self, rank: Rank, is_shared: bool) -> &mut Channels {
        let end = &mut self.ends[rank.0 as usize];
        match is_shared {
            true => &mut end.shared,
            false => &mut self.hosts[end.host],
        }
    }

    /// What rings where a rank waits for messages.
    pub fn bell(&self, Rank(rank): Rank) -> Option<usize> {
        self.ends[rank as usize].bell
    }

    /// Takes all messages out of the mailboxes.
    pub fn clear(&mut self) -> impl Sized + use<> {
        let mail = |end: &mut Endpoint| std::mem::take(&mut end.mail);
        self.ends.iter_mut().map(mail).collect::<Vec<_>>()
    }

    /// Puts something into a mailbox; says which bell to ring.
    pub fn deliver(&mut self, weather: &Weather, now: u64, delivery: Delivery) -> Option<usize> {
        if is_dead(weather, now, delivery.from) || is_dead(weather, now, delivery.to) {
            let is_whole = matches!(delivery.letter, Letter::Packet(..) | Letter::Data(..));
            self.faults.cut += u64::from(is_whole);
            return None;
        }
        let end = &mut self.ends[delivery.to.0 as usize];
        end.mail.push_back(delivery.letter);
        end.bell
    }

    /// A packet leaves then; nothing is said of one that goes to a rank that is dead by that time.
    pub fn leaves(&mut self, weather: &Weather, (from, to): (Rank, Rank), at: u64) {
        if is_dead(weather, at, to) {
            return;
        }
        let leaving = &mut self.ends[from.0 as usize].leaving;
        let before = leaving.iter().rposition(|other| other.at <= at);
        let leaves = LeavingPacket {
            at,
            to,
            is_awaited: false,
        };
        leaving.insert(before.map_or(0, |before| before + 1), leaves);
    }

    /// When a message that is sent now leaves.
    pub fn leaving(&mut self, weather: &Weather, now: u64, delivery: &Delivery) -> Leaving {
        let pace = MessagePace::of(weather, delivery);
        let ways = self.ways(delivery.from, pace.is_shared);
        let mut left = ways.out.pass(now, (pace.busy, pace.gap), pace.waits);
        let mut takes = pace.busy;
        if let Some(slow) = weather.link(delivery.from, delivery.to) {
            takes = takes.max(carried(delivery.bytes(), slow));
            let waits = delivery.is_packet().then(|| carried(PART, slow));
            let to = &mut self.ends[delivery.to.0 as usize];
            let from = to.from.meet(delivery.from, From::default);
            // The first byte comes to the link as soon as it is out.
            let begins = left.saturating_sub(pace.busy);
            left = from.link.pass(begins, (takes, pace.gap), waits);
            self.faults.slowed += 1;
        }
        // Of what never leaves not even a byte comes.
        let comes = match left {
            u64::MAX => u64::MAX,
            left => (left - takes).saturating_add(pace.latency),
        };
        Leaving { left, comes, takes }
    }

    /// When a message whose first byte comes now arrives.
    pub fn times(&mut self, weather: &Weather, now: u64, coming: &Coming) -> Times {
        let Coming {
            delivery,
            takes,
            jitter,
            ..
        } = coming;
        let pace = MessagePace::of(weather, delivery);
        let ways = self.ways(delivery.to, pace.is_shared);
        let passed = ways.inward.pass(now, (pace.busy, pace.gap), pace.waits);
        // Chance delays what has passed: a late message keeps nobody from the way in.
        let punctual = passed.max(now.saturating_add(*takes));
        let mut arrives = punctual.saturating_add(*jitter);
        let to = &mut self.ends[delivery.to.0 as usize];
        let from = to.from.meet(delivery.from, From::default);
        let last = match delivery.is_packet() {
            true => from.last_packet,
            false => from.last,
        };
        if arrives < last && weather.reorder {
            self.faults.reordered += 1;
        } else {
            arrives = arrives.max(last);
        }
        from.last = from.last.max(arrives);
        if delivery.is_packet() {
            from.last_packet = from.last_packet.max(arrives);
        }
        let begins = arrives.saturating_sub(*takes);
        Times { begins, arrives }
    }
}

/// How fast a message is on its ways, but for a slow link.
struct MessagePace {
    is_shared: bool,
    latency: u64,
    /// How long its bytes take on each of them, and how long the way rests then.
    busy: u64,
    gap: u64,
    /// How long it waits for data at most, if it is a packet.
    waits: Option<u64>,
}

impl MessagePace {
    fn of(weather: &Weather, delivery: &Delivery) -> Self {
        let Delivery { from, to, .. } = *delivery;
        let shared = weather.cluster.shared(from, to);
        let (rate, latency) = shared
            .map_or((weather.bytes_per_second, weather.latency), |shared| {
                (shared.bytes_per_second, shared.latency)
            });
        MessagePace {
            is_shared: shared.is_some(),
            latency: nanos(latency),
            busy: carried(delivery.bytes(), rate),
            gap: nanos(weather.cluster.costs(from, to).gap),
            waits: delivery.is_packet().then(|| carried(PART, rate)),
        }
    }
}

fn is_dead(weather: &Weather, now: u64, rank: Rank) -> bool {
    let mut deaths = weather.deaths.iter();
    deaths.any(|&(dead, at)| dead == rank && nanos(at) <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn connected(weather: &Weather, n_ranks: usize) -> Network {
        let mut network = Network::default();
        network.connect(weather, n_ranks);
        network
    }

    fn packet((from, to): (u32, u32)) -> Delivery {
        let [from, to] = [from, to].map(Rank);
        let letter = Letter::Packet(from, vec![]);
        Delivery { from, to, letter }
    }

    fn data((from, to): (u32, u32)) -> Delivery {
        let [from, to] = [from, to].map(Rank);
        let letter = Letter::Data(from, 1, InFlight::Blank(0));
        Delivery { from, to, letter }
    }

    /// Rank 1 is cut off at 50 ns.
    fn deadly() -> Weather {
        Weather {
            deaths: vec![(Rank(1), Duration::from_nanos(50))],
            ..Weather::default()
        }
    }

    #[test]
    fn a_packet_waits_for_data_for_so_long_at_most_and_they_wait_for_it_then() {
        let mut channel = Channel::default();
        assert_eq!(channel.pass(0, (100, 0), None), 100);
        assert_eq!(channel.pass(20, (10, 0), Some(30)), 60);
        assert_eq!(channel.pass(20, (10, 0), None), 120);
    }

    #[test]
    fn data_do_not_overtake_data_and_packets_do() {
        let weather = Weather::default();
        let mut network = connected(&weather, 2);
        let mut arrives = |delivery, jitter| {
            let (takes, double) = (0, None);
            let coming = Coming {
                delivery,
                takes,
                jitter,
                double,
            };
            network.times(&weather, 0, &coming).arrives
        };
        assert_eq!(arrives(data((0, 1)), 100), 100);
        assert_eq!(arrives(data((0, 1)), 0), 100);
        assert_eq!(arrives(packet((0, 1)), 0), 0);
    }

    #[test]
    fn a_rank_that_is_cut_off_sends_and_gets_nothing_from_that_moment_on() {
        let weather = deadly();
        let mut network = connected(&weather, 2);
        for (ends, now, cut) in [
            ((0, 1), 49, 0),
            ((1, 0), 49, 0),
            ((0, 1), 50, 1),
            ((1, 0), 50, 2),
        ] {
            network.deliver(&weather, now, packet(ends));
            assert_eq!(network.faults.cut, cut, "{ends:?} at {now}");
        }
        assert!(network.ends.iter().all(|end| end.mail.len() == 1));
    }

    #[test]
    fn packets_leave_in_the_order_of_their_times_and_none_to_a_rank_that_is_dead_by_then() {
        let weather = deadly();
        let mut network = connected(&weather, 3);
        for (to, at) in [(2, 20), (1, 50), (2, 10), (1, 20)] {
            network.leaves(&weather, (Rank(0), Rank(to)), at);
        }
        let leaving = network.ends[0].leaving.iter();
        let leaving: Vec<_> = leaving.map(|leaving| (leaving.to.0, leaving.at)).collect();
        assert_eq!(leaving, [(2, 10), (2, 20), (1, 20)]);
    }
}
