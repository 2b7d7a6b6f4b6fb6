//! The network of the world: when a message arrives, and whether.
//!
//! Each host has one way out and one way in; messages go one after another over both, and take
//! their bytes' time on each, overlapping. Ranks of one host may have ways through its memory instead.
//! Between two ranks there may be a slow link besides.
//! That a packet has left is noticed by whoever looks anyway, as between threads; the bell rings for it
//! only where it is awaited.
//! The way in is taken when the first byte comes, so nobody waits there for a message that is still queued
//! at its sender's way out.
//! Packets wait behind data for the time of a part at most, as over sockets; and of a message that
//! takes long it is said again and again how much of it has come. Faults are drawn when a message
//! is sent. What takes for ever, as over a link that carries nothing, never comes.

use super::cluster::{HostOf, carried};
use super::here::actor_of;
use super::state::{Due, State, nanos};
use super::weather::{Faults, Weather};
use super::world::World;
use crate::bell::Bell;
use crate::host::Host;
use crate::peers::Peers;
use crate::sync::MutexGuard;
use crate::transport::{Bonds, Event, Limits, Payload, Room, Transport};
use dataflow_core::rank::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// All ways and mailboxes.
#[derive(Default)]
pub struct Network {
    pub faults: Faults,
    ends: Vec<Endpoint>,
    /// The ways of each host.
    hosts: Vec<Channels>,
}

/// Behind so many bytes of data a packet waits at most.
const PART: usize = 64 << 10;

/// How often it is said how much of a message has come, in nanoseconds; as over sockets.
const PULSE: u64 = 20_000_000;

/// One rank's end of the network.
#[derive(Default)]
struct Endpoint {
    mail: VecDeque<Letter>,
    bell: Option<usize>,
    host: usize,
    /// Through the memory of its host.
    shared: Channels,
    /// Of whoever has sent something here.
    from: Peers<From>,
    /// Packets whose leaving was not noticed yet, by when they leave.
    leaving: VecDeque<LeavingPacket>,
}

/// A packet on its way out.
struct LeavingPacket {
    at: u64,
    to: Rank,
    /// Whether the bell rings then.
    is_awaited: bool,
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
struct Leaving {
    left: u64,
    comes: u64,
    takes: u64,
}

/// When a message begins to arrive, and has arrived.
struct Times {
    begins: u64,
    arrives: u64,
}

/// What is said of a message while it arrives: so often, after such times, that so many bytes have come.
pub struct Parts {
    from: Rank,
    to: Rank,
    bytes: usize,
    every: u64,
    left: u64,
}

/// What arrives where.
pub struct Delivery {
    from: Rank,
    to: Rank,
    letter: Letter,
}

/// A message whose first byte is on its way, and what chance does to it.
pub struct Coming {
    delivery: Delivery,
    takes: u64,
    jitter: u64,
    /// How long after the message its double arrives, if it has one.
    double: Option<u64>,
}

#[derive(Clone)]
enum Letter {
    Packet(Rank, Vec<u8>),
    Data(Rank, u32, InFlight),
    /// So many bytes of something that is not whole yet.
    Part(Rank, usize),
}

/// A payload on its way.
#[derive(Clone)]
enum InFlight {
    Bytes(Arc<[u8]>),
    /// So many that nobody reads.
    Blank(usize),
}

impl InFlight {
    fn len(&self) -> usize {
        match self {
            InFlight::Bytes(bytes) => bytes.len(),
            InFlight::Blank(length) => *length,
        }
    }
}

impl Delivery {
    fn is_packet(&self) -> bool {
        matches!(self.letter, Letter::Packet(..))
    }

    fn bytes(&self) -> usize {
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
    fn leaves(&mut self, weather: &Weather, (from, to): (Rank, Rank), at: u64) {
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
    fn leaving(&mut self, weather: &Weather, now: u64, delivery: &Delivery) -> Leaving {
        let pace = Pace::of(weather, delivery);
        let ways = self.ways(delivery.from, pace.is_shared);
        let mut left = ways.out.pass(now, (pace.busy, pace.gap), pace.waits);
        let mut takes = pace.busy;
        if let Some(slow) = weather.link(delivery.from, delivery.to) {
            takes = takes.max(carried(delivery.bytes(), slow));
            let waits = delivery.is_packet().then(|| carried(PART, slow));
            let to = &mut self.ends[delivery.to.0 as usize];
            let from = to.from.meet(delivery.from, From::default);
            left = from.link.pass(left, (takes, pace.gap), waits);
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
    fn times(&mut self, weather: &Weather, now: u64, coming: &Coming) -> Times {
        let Coming {
            delivery,
            takes,
            jitter,
            ..
        } = coming;
        let pace = Pace::of(weather, delivery);
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
struct Pace {
    is_shared: bool,
    latency: u64,
    /// How long its bytes take on each of them, and how long the way rests then.
    busy: u64,
    gap: u64,
    /// How long it waits for data at most, if it is a packet.
    waits: Option<u64>,
}

impl Pace {
    fn of(weather: &Weather, delivery: &Delivery) -> Self {
        let Delivery { from, to, .. } = *delivery;
        let shared = weather.cluster.shared(from, to);
        let (rate, latency) = shared
            .map_or((weather.bytes_per_second, weather.latency), |shared| {
                (shared.bytes_per_second, shared.latency)
            });
        Pace {
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

impl State {
    /// By an actor, if one of the world does it, who pays for it.
    fn send(&mut self, weather: &Weather, by: Option<usize>, delivery: Delivery) {
        let Delivery { from, to, .. } = delivery;
        let jitter = if weather.jitter.is_zero() {
            0
        } else {
            self.chance.below(nanos(weather.jitter))
        };
        let costs = weather.cluster.costs(from, to);
        let copying = costs.copying(delivery.is_packet(), delivery.bytes());
        let goes = self.owe(by, nanos(costs.send).saturating_add(copying));
        let Leaving { left, comes, takes } = self.network.leaving(weather, goes, &delivery);
        self.network.faults.delayed += u64::from(jitter > 0);
        if delivery.is_packet() {
            self.network.leaves(weather, (from, to), left);
        }
        if self.chance.happens(weather.loss) {
            self.network.faults.lost += 1;
            return;
        }
        let is_double = self.chance.happens(weather.duplication);
        let latest = nanos(weather.jitter).max(1000).saturating_mul(2);
        let double = is_double.then(|| 1 + self.chance.below(latest));
        self.network.faults.duplicated += u64::from(is_double);
        let coming = Coming {
            delivery,
            takes,
            jitter,
            double,
        };
        self.plan(comes, Due::Comes(Box::new(coming)));
    }

    /// The first byte of a message comes now, and takes the way in.
    pub fn comes(&mut self, weather: &Weather, coming: Coming) {
        let times = self.network.times(weather, self.now, &coming);
        let Coming {
            delivery, double, ..
        } = coming;
        let (ends, arrives) = ((delivery.from, delivery.to), times.arrives);
        self.tell_of_parts(ends, delivery.bytes(), &times);
        if let Some(later) = double {
            let (from, to) = ends;
            let letter = delivery.letter.clone();
            let delivery = Delivery { from, to, letter };
            self.plan(arrives.saturating_add(later), Due::Delivery(delivery));
        }
        self.plan(arrives, Due::Delivery(delivery));
    }

    /// To whom a packet of that rank has left, if nobody has noticed yet.
    fn has_left(&mut self, rank: Rank) -> Option<Rank> {
        let leaving = &mut self.network.ends[rank.0 as usize].leaving;
        let has_left = leaving.front().is_some_and(|first| first.at <= self.now);
        has_left
            .then(|| leaving.pop_front())
            .flatten()
            .map(|first| first.to)
    }

    /// Somebody waits until packets to a rank have left; says whether one has.
    fn awaits(&mut self, rank: Rank, to: Rank) -> bool {
        let end = &mut self.network.ends[rank.0 as usize];
        let Some(first) = end.leaving.iter_mut().find(|leaving| leaving.to == to) else {
            return false;
        };
        let (at, was_awaited) = (first.at, std::mem::replace(&mut first.is_awaited, true));
        if !was_awaited && at > self.now {
            self.plan(at, Due::Left(rank));
        }
        at <= self.now
    }

    /// While a message arrives, its receiver hears how much of it has, a byte at least each time.
    fn tell_of_parts(&mut self, (from, to): (Rank, Rank), bytes: usize, times: &Times) {
        let takes = times.arrives - times.begins;
        let every = PULSE.max(takes / bytes.max(1) as u64);
        let left = takes.div_ceil(every).saturating_sub(1);
        if left == 0 {
            return;
        }
        // No more than the message has: it takes longer than that.
        let part = (bytes as u128 * u128::from(every)).div_ceil(takes.into());
        let parts = Parts {
            from,
            to,
            bytes: part as usize,
            every,
            left,
        };
        self.plan_part(times.begins, parts);
    }

    /// The next part, if there is one, comes a while after that time.
    fn plan_part(&mut self, after: u64, parts: Parts) {
        if parts.left > 0 {
            self.plan(after.saturating_add(parts.every), Due::Part(parts));
        }
    }

    /// Part of a message has come: that is said, and when it will be said again.
    pub fn part_comes(&mut self, weather: &Weather, mut parts: Parts) {
        let Parts {
            from, to, bytes, ..
        } = parts;
        let letter = Letter::Part(from, bytes);
        self.network.faults.parts += 1;
        self.deliver(weather, Delivery { from, to, letter });
        parts.left -= 1;
        self.plan_part(self.now, parts);
    }
}

/// One rank's door to the simulated network.
pub struct Simulated {
    world: World,
    rank: Rank,
    n_ranks: usize,
    rooms: BTreeMap<(Rank, u32), Room>,
    /// What the network rings by its number: no other bell gets that as long as this rank can be reached.
    bell: Option<Arc<dyn Bell>>,
}

impl Simulated {
    pub(super) fn new(world: World, rank: Rank, n_ranks: usize) -> Self {
        Simulated {
            world,
            rank,
            n_ranks,
            rooms: BTreeMap::new(),
            bell: None,
        }
    }

    fn send_letter(&self, to: Rank, letter: Letter) {
        let (weather, from) = (self.world.weather(), self.rank);
        let delivery = Delivery { from, to, letter };
        let by = actor_of(&self.world);
        self.world.state().send(weather, by, delivery);
    }
}

impl Simulated {
    /// The next letter; whoever takes it pays for it.
    fn take_letter(&self, mut state: MutexGuard<'_, State>) -> Option<Letter> {
        let end = &mut state.network.ends[self.rank.0 as usize];
        let letter = end.mail.pop_front()?;
        let (from, is_packet, bytes) = match &letter {
            Letter::Packet(from, bytes) => (*from, true, bytes.len()),
            Letter::Data(from, _, body) => (*from, false, body.len()),
            Letter::Part(..) => return Some(letter),
        };
        let costs = self.world.weather().cluster.costs(from, self.rank);
        let by = actor_of(&self.world);
        let copying = costs.copying(is_packet, bytes);
        state.owe(by, nanos(costs.receive).saturating_add(copying));
        Some(letter)
    }
}

impl Transport for Simulated {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn n_ranks(&self) -> usize {
        self.n_ranks
    }

    fn bonds(&self) -> Bonds {
        Bonds::None
    }

    fn limits(&self) -> Limits {
        let weather = self.world.weather();
        Limits {
            message_bytes: weather.message_bytes,
            largest_tag: weather.largest_tag,
            in_order: false,
        }
    }

    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        debug_assert!(packet.len() <= self.world.weather().message_bytes);
        self.send_letter(to, Letter::Packet(self.rank, packet));
    }

    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        debug_assert!(payload.len() <= self.world.weather().message_bytes);
        let body = match payload.is_blank() {
            true => InFlight::Blank(payload.len()),
            false => InFlight::Bytes(payload.read(|bytes| bytes.into())),
        };
        self.send_letter(to, Letter::Data(self.rank, tag, body));
    }

    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        self.rooms.insert((from, tag), room);
    }

    fn awaits(&mut self, to: Rank) -> bool {
        self.world.state().awaits(self.rank, to)
    }

    fn poll(&mut self) -> Option<Event> {
        let mut state = self.world.state();
        if let Some(to) = state.has_left(self.rank) {
            return Some(Event::Sent(to));
        }
        let letter = self.take_letter(state)?;
        Some(match letter {
            Letter::Packet(from, bytes) => Event::Packet { from, bytes },
            Letter::Part(from, bytes) => Event::Part { from, bytes },
            Letter::Data(from, tag, body) => match self.rooms.remove(&(from, tag)) {
                None => Event::Unexpected(from),
                Some(mut room) => {
                    let bytes = match body {
                        InFlight::Bytes(bytes) => room.fill_with(&bytes),
                        InFlight::Blank(length) => length,
                    };
                    Event::Data {
                        from,
                        tag,
                        room,
                        bytes,
                    }
                }
            },
        })
    }

    fn bell(&mut self, host: &dyn Host) -> Option<Arc<dyn Bell>> {
        let bell = host.bell();
        let number = bell.number()?;
        self.bell = Some(bell.clone());
        let mut state = self.world.state();
        state.network.ends[self.rank.0 as usize].bell = Some(number);
        Some(bell)
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        let mut state = self.world.state();
        state.network.ends[self.rank.0 as usize].bell = None;
    }
}
