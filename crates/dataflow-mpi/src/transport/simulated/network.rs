//! The network of the world: when a message arrives, and whether.
//!
//! Each rank has one way out and one way in; messages go one after another over both, and take
//! their bytes' time on each, overlapping. Between two ranks there may be a slow link besides.
//! Packets wait behind data for the time of a part at most, as over sockets; and of a message that
//! takes long it is said again and again how much of it has come. Faults are drawn when a message
//! is sent.

use super::actor::{Due, State, World, nanos};
use super::weather::{Faults, Weather};
use crate::host::{Bell, Host};
use crate::peers::Peers;
use crate::transport::{Bonds, Event, Limits, Payload, Room, Transport};
use dataflow_core::rank::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// All ways and mailboxes.
#[derive(Default)]
pub struct Network {
    pub faults: Faults,
    ends: Vec<End>,
}

/// Behind so many bytes of data a packet waits at most.
const PART: usize = 64 << 10;

/// How often it is said how much of a message has come, in nanoseconds; as over sockets.
const PULSE: u64 = 20_000_000;

/// One rank's end of the network.
#[derive(Default)]
struct End {
    mail: VecDeque<Letter>,
    bell: Option<usize>,
    way_out: Way,
    way_in: Way,
    /// Of whoever has sent something here.
    from: Peers<From>,
}

/// What comes from one rank.
#[derive(Default)]
struct From {
    link: Way,
    /// When the last packet arrives, and the last message of any kind.
    last_packet: u64,
    last: u64,
}

/// What messages go over one after another.
#[derive(Clone, Copy, Default)]
struct Way {
    /// When it is free again, and when all packets are through.
    free: u64,
    packets_free: u64,
}

impl Way {
    /// When a message is through that comes at a time and takes so long; packets say how long they
    /// wait for data at most.
    fn pass(&mut self, comes: u64, takes: u64, waits: Option<u64>) -> u64 {
        let Some(waits) = waits else {
            self.free = comes.max(self.free) + takes;
            return self.free;
        };
        let begins = comes
            .max(self.packets_free)
            .max(self.free.min(comes.saturating_add(waits)));
        let through = begins + takes;
        self.packets_free = through;
        // Data that it has overtaken are through later.
        let overtakes = self.free > begins;
        self.free = if overtakes {
            self.free + takes
        } else {
            through
        };
        through
    }
}

/// When a message has left its rank, begins to arrive and has arrived.
struct Times {
    left: u64,
    begins: u64,
    arrives: u64,
}

/// What arrives where.
pub struct Delivery {
    from: Rank,
    to: Rank,
    letter: Letter,
}

#[derive(Clone)]
enum Letter {
    Packet(Rank, Vec<u8>),
    Data(Rank, u32, Arc<[u8]>),
    Sent(Rank),
    /// So many bytes of something that is not whole yet.
    Part(Rank, usize),
}

impl Network {
    pub fn connect(&mut self, n_ranks: usize) {
        self.ends = (0..n_ranks).map(|_| End::default()).collect();
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

    /// When a message that is sent now has left, and when it arrives.
    fn times(
        &mut self,
        weather: &Weather,
        now: u64,
        delivery: &Delivery,
        bytes: usize,
        jitter: u64,
    ) -> Times {
        let time = |bytes: usize, rate: f64| (bytes as f64 / rate * 1e9) as u64;
        let is_packet = matches!(delivery.letter, Letter::Packet(..));
        let waits = |rate| is_packet.then(|| time(PART, rate));
        let rate = weather.bytes_per_second;
        let carried = time(bytes, rate);
        let way_out = &mut self.ends[delivery.from.0 as usize].way_out;
        let mut left = way_out.pass(now, carried, waits(rate));
        let to = &mut self.ends[delivery.to.0 as usize];
        let from = to.from.meet(delivery.from, From::default);
        let mut takes = carried;
        if let Some(slow) = weather.link(delivery.from, delivery.to) {
            takes = takes.max(time(bytes, slow));
            left = from.link.pass(left, takes, waits(slow));
            self.faults.slowed += 1;
        }
        let comes = left + nanos(weather.latency) + jitter - takes.min(left);
        let mut way_in = to.way_in;
        let mut arrives = way_in.pass(comes, carried, waits(rate)).max(comes + takes);
        if jitter == 0 {
            to.way_in = way_in;
        }
        let last = if is_packet {
            from.last_packet
        } else {
            from.last
        };
        if arrives < last && weather.reorder {
            self.faults.reordered += 1;
        } else {
            arrives = arrives.max(last);
        }
        from.last = from.last.max(arrives);
        if is_packet {
            from.last_packet = from.last_packet.max(arrives);
        }
        let begins = arrives.saturating_sub(takes);
        Times {
            left,
            begins,
            arrives,
        }
    }
}

fn is_dead(weather: &Weather, now: u64, rank: Rank) -> bool {
    let mut deaths = weather.deaths.iter();
    deaths.any(|&(dead, at)| dead == rank && nanos(at) <= now)
}

impl State {
    fn send(&mut self, weather: &Weather, from: Rank, to: Rank, letter: Letter, bytes: usize) {
        let delivery = Delivery { from, to, letter };
        let jitter = if weather.jitter.is_zero() {
            0
        } else {
            self.chance.below(nanos(weather.jitter))
        };
        let is_packet = matches!(delivery.letter, Letter::Packet(..));
        let times = self
            .network
            .times(weather, self.now, &delivery, bytes, jitter);
        let Times { left, arrives, .. } = times;
        self.network.faults.delayed += u64::from(jitter > 0);
        if is_packet {
            let letter = Letter::Sent(to);
            let sent = Delivery {
                from: to,
                to: from,
                letter,
            };
            self.plan(left, Due::Delivery(sent));
        }
        if self.chance.happens(weather.loss) {
            self.network.faults.lost += 1;
            return;
        }
        self.tell_of_parts((from, to), bytes, &times);
        if self.chance.happens(weather.duplication) {
            self.network.faults.duplicated += 1;
            let letter = delivery.letter.clone();
            let later = arrives + 1 + self.chance.below(2 * nanos(weather.jitter).max(1000));
            self.plan(later, Due::Delivery(Delivery { from, to, letter }));
        }
        self.plan(arrives, Due::Delivery(delivery));
    }

    /// While a message arrives, its receiver hears how much of it has.
    fn tell_of_parts(&mut self, (from, to): (Rank, Rank), bytes: usize, times: &Times) {
        let takes = times.arrives - times.begins;
        for pulse in 1..takes.div_ceil(PULSE) {
            let part = (bytes as u64 * PULSE).div_ceil(takes) as usize;
            let letter = Letter::Part(from, part);
            let delivery = Delivery { from, to, letter };
            self.plan(times.begins + pulse * PULSE, Due::Delivery(delivery));
            self.network.faults.parts += 1;
        }
    }
}

/// One rank's door to the simulated network.
pub struct Simulated {
    world: World,
    rank: Rank,
    n_ranks: usize,
    rooms: BTreeMap<(Rank, u32), Room>,
}

impl Simulated {
    pub(super) fn new(world: World, rank: Rank, n_ranks: usize) -> Self {
        Simulated {
            world,
            rank,
            n_ranks,
            rooms: BTreeMap::new(),
        }
    }

    fn send_letter(&self, to: Rank, letter: Letter, bytes: usize) {
        let weather = self.world.weather();
        self.world
            .state()
            .send(weather, self.rank, to, letter, bytes);
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
        let bytes = packet.len();
        debug_assert!(bytes <= self.world.weather().message_bytes);
        self.send_letter(to, Letter::Packet(self.rank, packet), bytes);
    }

    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        debug_assert!(payload.len() <= self.world.weather().message_bytes);
        let bytes: Arc<[u8]> = payload.read(|bytes| bytes.into());
        let length = bytes.len();
        self.send_letter(to, Letter::Data(self.rank, tag, bytes), length);
    }

    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        self.rooms.insert((from, tag), room);
    }

    fn awaits(&mut self, _: Rank) -> bool {
        false
    }

    fn poll(&mut self) -> Option<Event> {
        let letter = self.world.state().network.ends[self.rank.0 as usize]
            .mail
            .pop_front()?;
        Some(match letter {
            Letter::Packet(from, bytes) => Event::Packet { from, bytes },
            Letter::Sent(to) => Event::Sent(to),
            Letter::Part(from, bytes) => Event::Part { from, bytes },
            Letter::Data(from, tag, bytes) => match self.rooms.remove(&(from, tag)) {
                None => Event::Unexpected(from),
                Some(mut room) => {
                    let bytes = room.fill_with(&bytes);
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
        let mut state = self.world.state();
        state.network.ends[self.rank.0 as usize].bell = Some(number);
        Some(bell)
    }
}
