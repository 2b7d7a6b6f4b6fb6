//! The network of the world: when a message arrives, and whether.
//!
//! Each rank has one way out and one way in; messages go one after another over both, and take
//! their bytes' time on each, overlapping. Faults are drawn when a message is sent.

use super::actor::{Due, State, World, nanos};
use super::weather::{Faults, Weather};
use crate::host::{Bell, Host};
use crate::transport::{Event, Limits, Payload, Room, Transport};
use dataflow_core::rank::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// All ways and mailboxes.
#[derive(Default)]
pub struct Network {
    pub faults: Faults,
    ends: Vec<End>,
}

/// One rank's end of the network; times at which a way is free again.
#[derive(Default)]
struct End {
    mail: VecDeque<Letter>,
    bell: Option<usize>,
    out_free: u64,
    in_free: u64,
    /// When the last message from each rank arrives.
    last_from: Vec<u64>,
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
}

impl Network {
    pub fn connect(&mut self, n_ranks: usize) {
        let end = || End {
            last_from: vec![0; n_ranks],
            ..End::default()
        };
        self.ends = (0..n_ranks).map(|_| end()).collect();
    }

    /// Puts something into a mailbox; says which bell to ring.
    pub fn deliver(&mut self, weather: &Weather, now: u64, delivery: Delivery) -> Option<usize> {
        if is_dead(weather, now, delivery.from) || is_dead(weather, now, delivery.to) {
            self.faults.cut += u64::from(!matches!(delivery.letter, Letter::Sent(_)));
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
    ) -> (u64, u64) {
        let carried = (bytes as f64 / weather.bytes_per_second * 1e9) as u64;
        let from = &mut self.ends[delivery.from.0 as usize];
        let left = now.max(from.out_free) + carried;
        from.out_free = left;
        let to = &mut self.ends[delivery.to.0 as usize];
        let mut arrives = left + nanos(weather.latency) + jitter;
        if arrives - carried < to.in_free {
            arrives = to.in_free + carried;
        }
        if jitter == 0 {
            to.in_free = arrives;
        }
        let last = &mut to.last_from[delivery.from.0 as usize];
        if arrives < *last && weather.reorder {
            self.faults.reordered += 1;
        } else {
            arrives = arrives.max(*last);
            *last = arrives;
        }
        (left, arrives)
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
        let (left, arrives) = self
            .network
            .times(weather, self.now, &delivery, bytes, jitter);
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
        if self.chance.happens(weather.duplication) {
            self.network.faults.duplicated += 1;
            let letter = delivery.letter.clone();
            let later = arrives + 1 + self.chance.below(2 * nanos(weather.jitter).max(1000));
            self.plan(later, Due::Delivery(Delivery { from, to, letter }));
        }
        self.plan(arrives, Due::Delivery(delivery));
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
