//! The doors to the network: what ranks send, what comes to them, and what either costs who acts.
//!
//! That a packet has left is noticed by the thread that looks anyway, as between threads; the bell rings for it only
//! where it is awaited. Faults are drawn when a message is sent.

use super::agenda::nanos;
use super::here::actor_of;
use super::network::{Coming, Delivery, InFlight, Leaving, Letter};
use super::state::{Due, State};
use super::weather::Weather;
use super::world::World;
use crate::bell::Bell;
use crate::host::Host;
use crate::sync::MutexGuard;
use crate::transport::{Bonds, Event, MessageLimits, Payload, Room, Transport};
use dataflow_core::port::drop_quietly;
use dataflow_core::rank::Rank;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One rank's door to the simulated network.
pub struct Simulated {
    world: World,
    rank: Rank,
    n_ranks: usize,
    rooms: BTreeMap<(Rank, u32), Room>,
    /// What the network rings by its number: no other bell gets that as long as this rank can be reached.
    bell: Option<Arc<dyn Bell>>,
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simulated({} of {})", self.rank, self.n_ranks)
    }
}

impl World {
    /// The transports of `n_ranks` ranks, by rank; once per world.
    pub fn connect(&self, n_ranks: usize) -> Vec<Simulated> {
        self.state().network.connect(self.weather(), n_ranks);
        let end = |rank| Simulated {
            world: self.clone(),
            rank: Rank(rank),
            n_ranks,
            rooms: BTreeMap::new(),
            bell: None,
        };
        (0..n_ranks as u32).map(end).collect()
    }
}

impl Simulated {
    fn send_letter(&self, to: Rank, letter: Letter) {
        let (weather, from) = (self.world.weather(), self.rank);
        let delivery = Delivery { from, to, letter };
        let by = actor_of(&self.world);
        self.world.state().send(weather, by, delivery);
    }

    /// The next letter; the thread that takes it pays for it.
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

    fn limits(&self) -> MessageLimits {
        let weather = self.world.weather();
        MessageLimits {
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
        drop_quietly(payload);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its thread would fall asleep, and nobody rings for a packet that has left already.
    #[test]
    fn who_awaits_a_packet_hears_whether_it_has_left_and_is_told_so_once() {
        let world = World::new(Weather::default());
        let mut end = world.connect(2).remove(0);
        end.send(Rank(1), vec![0; 10]); // a nanosecond
        assert!(!end.awaits(Rank(1)) && end.poll().is_none());
        world.state().now = 1;
        assert!(end.awaits(Rank(1)));
        assert!(matches!(end.poll(), Some(Event::Sent(Rank(1)))));
        assert!(!end.awaits(Rank(1)) && end.poll().is_none());
    }

    /// Another bell would get its number, and ring for messages of a rank that is not its own.
    #[test]
    fn a_rank_keeps_the_bell_that_the_network_rings_for_as_long_as_it_can_be_reached() {
        let world = World::new(Weather::default());
        let mut end = world.connect(1).remove(0);
        let host = world.host(Rank(0));
        let bell = end.bell(&*host).unwrap();
        let (number, kept) = (bell.number(), Arc::downgrade(&bell));
        drop(bell);
        assert!(kept.upgrade().is_some());
        assert_eq!(world.state().network.bell(Rank(0)), number);
        drop(end);
        assert_eq!(world.state().network.bell(Rank(0)), None);
    }
}
