//! State: everything in the world, and whose turn it is.
//!
//! # Law
//! Of what is due at the same time comes first what was planned first. So the order depends on the
//! weather and on what actors do, and on nothing else: not on how they are run.
//!
//! While a message arrives that takes long, it is said again and again how much of it has come.

use super::agenda::{Agenda, nanos};
use super::network::{Coming, Delivery, Letter, Network, Parts, Times};
use super::turns::Turns;
use super::weather::{Chance, Weather};
use crate::sync::{Condvar, Mutex, lock};
use crate::waits::Waits;
use dataflow_core::rank::Rank;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// So many entries that are over are not worth a sweep.
const FEW: usize = 1024;

/// How often it is said how much of a message has come, in nanoseconds; as over sockets.
const PULSE: u64 = 20_000_000;

/// Everything in the world; times in nanoseconds.
pub struct State {
    pub now: u64,
    pub chance: Chance,
    pub network: Network,
    agenda: Agenda<Due>,
    /// How much of the agenda is over before its time: ends of sleeps that were broken.
    stale: usize,
    pub actors: Vec<Actor>,
    /// Places of actors that have ended and were joined, for the next.
    vacant: Vec<usize>,
    ready: VecDeque<usize>,
    pub bells: Vec<Clapper>,
    /// Bells that nobody has any more.
    unused: Vec<usize>,
    /// How long who waits looks at least, and how long it takes to get up for one who looks no more.
    awake: Duration,
    waking: u64,
    pub alive: usize,
    pub hung: Option<String>,
    /// Whose turn it is, if that was found out before anybody could take it.
    pub chosen: Option<usize>,
    /// A number for all that has happened.
    pub digest: u64,
}

/// What will happen.
pub enum Due {
    /// An actor has waited long enough, unless it was woken since.
    Wake {
        actor: usize,
        sleep: u64,
    },
    /// The first byte of a message comes. Apart, since the agenda moves its entries often.
    Comes(Box<Coming>),
    Delivery(Delivery),
    Part(Parts),
    /// A packet of a rank leaves, and somebody waits for that there.
    Left(Rank),
}

/// One of those that run by turns.
pub struct Actor {
    pub rank: Rank,
    pub name: String,
    pub runs: Runs,
    /// Which of its sleeps it is in.
    sleep: u64,
    /// Since when.
    since: u64,
    /// How long it has waited of late, where getting up takes time.
    waits: Waits,
    /// Whether the agenda has the end of this sleep.
    has_end: bool,
    /// Time that it owes for messages.
    pub owes: u64,
    pub done: bool,
    /// Whether it ended without a panic.
    pub ended_well: bool,
}

/// How an actor runs.
pub enum Runs {
    /// On a fiber of its own, once it has begun.
    Body(Box<dyn FnOnce() + Send>),
    /// On a thread.
    Thread(Arc<Baton>),
    /// By turns, and the bell that rings when it ends.
    Turns(Box<Turns>, usize),
    /// It has begun, on a fiber, or it is its turn.
    Now,
}

/// A bell of the world.
#[derive(Default)]
pub struct Clapper {
    rung: bool,
    waiting: Option<usize>,
}

/// What threads hand on: who has it runs.
#[derive(Default)]
pub struct Baton {
    here: Mutex<bool>,
    passed: Condvar,
}

impl Baton {
    pub fn give(&self) {
        *lock(&self.here) = true;
        self.passed.notify_one();
    }

    pub fn wait(&self) {
        let mut here = lock(&self.here);
        while !*here {
            here = self
                .passed
                .wait(here)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        *here = false;
    }
}

impl State {
    pub fn new(weather: &Weather) -> Self {
        State {
            now: 0,
            chance: Chance::new(weather.seed),
            network: Network::default(),
            agenda: Agenda::default(),
            stale: 0,
            actors: Vec::new(),
            vacant: Vec::new(),
            ready: VecDeque::new(),
            bells: Vec::new(),
            unused: Vec::new(),
            awake: weather.awake,
            waking: nanos(weather.waking),
            alive: 0,
            hung: None,
            chosen: None,
            digest: 0,
        }
    }

    /// What gives the turn to an actor that is a thread.
    pub fn baton(&self, actor: usize) -> Arc<Baton> {
        match &self.actors[actor].runs {
            Runs::Thread(baton) => baton.clone(),
            _ => unreachable!("on threads every actor is one"),
        }
    }

    /// What all threads wait for.
    pub fn batons(&self) -> impl Iterator<Item = &Baton> {
        self.actors.iter().filter_map(|actor| match &actor.runs {
            Runs::Thread(baton) => Some(&**baton),
            _ => None,
        })
    }

    /// The number that the next actor will have.
    pub fn next_place(&self) -> usize {
        self.vacant.last().copied().unwrap_or(self.actors.len())
    }

    /// One more actor; it is ready to run.
    pub fn enter(&mut self, rank: Rank, name: String, runs: Runs) -> usize {
        let actor = self.next_place();
        let entered = Actor {
            rank,
            name,
            runs,
            // On the agenda may be ends of sleeps of the actor that had this place before.
            sleep: self.actors.get(actor).map_or(0, |before| before.sleep),
            since: 0,
            waits: Waits::default(),
            has_end: false,
            owes: 0,
            done: false,
            ended_well: false,
        };
        match self.vacant.pop() {
            Some(place) => self.actors[place] = entered,
            None => self.actors.push(entered),
        }
        self.alive += 1;
        self.ready.push_back(actor);
        actor
    }

    /// The next actor to run, the clock put forward as far as necessary; `None` if the world is
    /// over or hangs.
    pub fn next(&mut self, weather: &Weather) -> Option<usize> {
        loop {
            if self.alive == 0 || self.hung.is_some() {
                return None;
            }
            if let Some(actor) = self.take_ready(weather) {
                self.note(actor as u64);
                return Some(actor);
            }
            let Some((time, due)) = self.agenda.next() else {
                self.hang("nobody in the world can run");
                return None;
            };
            self.now = self.now.max(time);
            // Behind the end of time nothing comes, whatever the deadline is.
            if self.now > nanos(weather.deadline) || self.now == u64::MAX {
                self.hang("the world is not over by its deadline");
                return None;
            }
            match due {
                Due::Wake { actor, sleep } if self.actors[actor].sleep == sleep => {
                    self.actors[actor].has_end = false;
                    self.wake(actor);
                }
                Due::Wake { .. } => self.stale -= 1,
                Due::Comes(coming) => self.comes(weather, *coming),
                Due::Delivery(delivery) => self.deliver(weather, delivery),
                Due::Part(parts) => self.part_comes(weather, parts),
                Due::Left(rank) => {
                    let bell = self.network.bell(rank);
                    bell.into_iter().for_each(|bell| self.ring(bell));
                }
            }
        }
    }

    fn take_ready(&mut self, weather: &Weather) -> Option<usize> {
        while !self.ready.is_empty() {
            let chosen = match weather.shuffle {
                true => self.chance.below(self.ready.len() as u64) as usize,
                false => 0,
            };
            let actor = self.ready.remove(chosen)?;
            let Some(thaw) = self.thaw(weather, self.actors[actor].rank) else {
                return Some(actor);
            };
            self.network.faults.frozen += 1;
            self.sleep(actor, Some(thaw.saturating_sub(self.now)));
        }
        None
    }

    /// When a rank that stands still now will move again.
    fn thaw(&self, weather: &Weather, rank: Rank) -> Option<u64> {
        let mine = weather.freezes.iter().filter(|freeze| freeze.0 == rank);
        let spans = mine.map(|&(_, from, length)| {
            let to = from.saturating_add(length);
            (nanos(from), nanos(to))
        });
        let now = spans.filter(|&(from, to)| from <= self.now && self.now < to);
        now.map(|(_, to)| to).max()
    }

    /// Something happened now.
    fn note(&mut self, what: u64) {
        for part in [self.now, what] {
            let mixed = (self.digest ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.digest = mixed ^ (mixed >> 29);
        }
    }

    fn deliver(&mut self, weather: &Weather, delivery: Delivery) {
        self.note(delivery.digest());
        if let Some(bell) = self.network.deliver(weather, self.now, delivery) {
            self.ring_from_afar(bell);
        }
    }

    /// The first byte of a message comes now, and takes the way in.
    fn comes(&mut self, weather: &Weather, coming: Coming) {
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
    fn part_comes(&mut self, weather: &Weather, mut parts: Parts) {
        let Parts {
            from, to, bytes, ..
        } = parts;
        let letter = Letter::Part(from, bytes);
        self.network.faults.parts += 1;
        self.deliver(weather, Delivery { from, to, letter });
        parts.left -= 1;
        self.plan_part(self.now, parts);
    }

    fn hang(&mut self, what: &str) {
        let asleep = self.actors.iter().filter(|actor| !actor.done);
        let names: Vec<&str> = asleep.map(|actor| &actor.name[..]).collect();
        let at = Duration::from_nanos(self.now);
        self.hung = Some(format!(
            "{what}, at {at:?}; asleep are {}",
            names.join(", ")
        ));
    }

    pub fn plan(&mut self, time: u64, due: Due) {
        self.agenda.plan(time, due);
    }

    pub fn new_bell(&mut self) -> usize {
        let unused = self.unused.pop();
        unused.unwrap_or_else(|| {
            self.bells.push(Clapper::default());
            self.bells.len() - 1
        })
    }

    /// Nobody rings that bell any more, or waits for it.
    pub fn drop_bell(&mut self, bell: usize) {
        self.bells[bell] = Clapper::default();
        self.unused.push(bell);
    }

    pub fn ring(&mut self, bell: usize) {
        if let Some(actor) = self.rung(bell) {
            self.wake(actor);
        }
    }

    /// A message has come: who has fallen asleep takes time to get up. It wakes the others of its rank, in
    /// the same time.
    fn ring_from_afar(&mut self, bell: usize) {
        let Some(actor) = self.rung(bell) else { return };
        if self.waking > 0 && self.has_fallen_asleep(actor) {
            self.break_off(actor);
            self.sleep(actor, Some(self.waking));
        } else {
            self.wake(actor);
        }
    }

    /// Who waits for a bell that rings now.
    fn rung(&mut self, bell: usize) -> Option<usize> {
        self.bells[bell].rung = true;
        self.bells[bell].waiting.take()
    }

    /// Whether an actor that has waited until now looks no more: as [ranks](Waits) do.
    fn has_fallen_asleep(&mut self, actor: usize) -> bool {
        let (begin, end) = (self.actors[actor].since, self.now);
        let waits = &self.actors[actor].waits;
        let looks = waits.look_for(self.awake);
        waits.begin(Duration::from_nanos(begin));
        waits.end(Duration::from_nanos(end));
        Duration::from_nanos(end - begin) > looks
    }

    fn wake(&mut self, actor: usize) {
        self.break_off(actor);
        self.ready.push_back(actor);
    }

    /// The actor's sleep is over, maybe before its time.
    fn break_off(&mut self, actor: usize) {
        self.actors[actor].sleep += 1;
        if std::mem::take(&mut self.actors[actor].has_end) {
            self.stale += 1;
            self.sweep();
        }
    }

    /// Takes out of the agenda what is over before its time, once that is most of it.
    fn sweep(&mut self) {
        if self.stale > FEW && self.stale > self.agenda.len() / 2 {
            let actors = &self.actors;
            self.agenda.retain(|due| match due {
                Due::Wake { actor, sleep } => actors[*actor].sleep == *sleep,
                Due::Comes(_) | Due::Delivery(_) | Due::Part(_) | Due::Left(_) => true,
            });
            self.stale = 0;
        }
    }

    /// The actor sleeps from now on, for that long at most.
    fn sleep(&mut self, actor: usize, at_most: Option<u64>) {
        self.actors[actor].sleep += 1;
        self.actors[actor].since = self.now;
        self.actors[actor].has_end = at_most.is_some();
        let sleep = self.actors[actor].sleep;
        if let Some(time) = at_most {
            self.plan(self.now.saturating_add(time), Due::Wake { actor, sleep });
        }
    }

    /// The actor sleeps for that long, and for what it owes.
    pub fn sleep_through(&mut self, actor: usize, time: u64) {
        let owed = self.takes_owed(actor).unwrap_or(0);
        self.sleep(actor, Some(time.saturating_add(owed)));
    }

    /// Whether the actor must wait for a bell; then it sleeps, for that long at most, and when it is
    /// awake [has waited](Self::has_waited).
    pub fn waits(&mut self, actor: usize, bell: usize, at_most: Option<u64>) -> bool {
        let waits = !self.bells[bell].rung;
        if waits {
            self.bells[bell].waiting = Some(actor);
            self.sleep(actor, at_most);
        } else {
            self.has_waited(bell);
        }
        waits
    }

    /// Nobody waits for the bell any more.
    pub fn has_waited(&mut self, bell: usize) {
        self.bells[bell] = Clapper::default();
    }

    /// What an actor does for messages takes time, which it will let pass. Says when it is done; at
    /// once, if nobody of the world does it.
    pub fn owe(&mut self, by: Option<usize>, time: u64) -> u64 {
        let Some(actor) = by else { return self.now };
        let owes = &mut self.actors[actor].owes;
        *owes = owes.saturating_add(time);
        self.now.saturating_add(*owes)
    }

    /// The time that an actor owes, if any: it is to let it pass now.
    pub fn takes_owed(&mut self, actor: usize) -> Option<u64> {
        let owed = std::mem::take(&mut self.actors[actor].owes);
        (owed > 0).then_some(owed)
    }

    /// Takes out what nobody in a world that hangs will come to.
    pub fn clear(&mut self) -> impl Sized + use<> {
        let bodies = self.actors.iter_mut().map(|actor| {
            let runs = &mut actor.runs;
            matches!(runs, Runs::Body(_)).then(|| std::mem::replace(runs, Runs::Now))
        });
        let bodies: Vec<Option<Runs>> = bodies.collect();
        (
            bodies,
            std::mem::take(&mut self.agenda),
            self.network.clear(),
        )
    }

    /// The actor has ended.
    pub fn leave(&mut self, actor: usize, well: bool) {
        self.actors[actor].done = true;
        self.actors[actor].ended_well = well;
        self.alive -= 1;
    }

    /// Another may have the place of an actor that has ended; says whether that was without a panic.
    pub fn vacate(&mut self, actor: usize) -> bool {
        self.vacant.push(actor);
        self.actors[actor].ended_well
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_that_are_broken_do_not_fill_the_agenda() {
        let weather = Weather::default();
        let mut state = State::new(&weather);
        let actor = state.enter(Rank(0), "one".into(), Runs::Now);
        let other = state.enter(Rank(1), "other".into(), Runs::Now);
        let bell = state.new_bell();
        assert_eq!(state.next(&weather), Some(actor));
        assert_eq!(state.next(&weather), Some(other));
        state.sleep_through(other, 500);
        for _ in 0..10 * FEW {
            assert!(state.waits(actor, bell, Some(1000)));
            state.ring(bell);
            assert_eq!(state.next(&weather), Some(actor));
            state.has_waited(bell);
            assert!(state.agenda.len() <= FEW + 2);
        }
        assert!(state.waits(actor, bell, Some(1000)));
        assert_eq!((state.next(&weather), state.now), (Some(other), 500));
        state.leave(other, true);
        assert_eq!((state.next(&weather), state.now), (Some(actor), 1000));
        assert_eq!((state.agenda.len(), state.stale), (0, 0));
    }

    /// It would be woken when another was to be, which has ended.
    #[test]
    fn an_actor_sleeps_its_own_sleeps_in_the_place_of_another() {
        let weather = Weather::default();
        let mut state = State::new(&weather);
        let first = state.enter(Rank(0), "first".into(), Runs::Now);
        let bell = state.new_bell();
        assert_eq!(state.next(&weather), Some(first));
        assert!(state.waits(first, bell, Some(1000)));
        state.ring(bell);
        assert_eq!(state.next(&weather), Some(first));
        state.leave(first, true);
        assert!(state.vacate(first));
        let next = state.enter(Rank(0), "next".into(), Runs::Now);
        assert_eq!((state.next(&weather), next), (Some(first), first));
        state.sleep_through(next, 5000);
        assert_eq!((state.next(&weather), state.now), (Some(next), 5000));
        // The bell has the number of one that was rung.
        state.drop_bell(bell);
        assert_eq!(state.new_bell(), bell);
        assert!(state.waits(next, bell, Some(1)), "nobody has rung it");
    }

    #[test]
    fn what_happens_at_the_deadline_itself_is_not_too_late() {
        let weather = Weather {
            deadline: Duration::from_nanos(1000),
            ..Weather::default()
        };
        let mut state = State::new(&weather);
        let actor = state.enter(Rank(0), "one".into(), Runs::Now);
        assert_eq!(state.next(&weather), Some(actor));
        state.sleep_through(actor, 1000);
        assert_eq!(state.next(&weather), Some(actor));
        state.sleep_through(actor, 1);
        assert!(state.next(&weather).is_none() && state.hung.is_some());
    }

    #[test]
    fn a_message_finds_asleep_who_has_waited_for_twice_as_long_as_of_late() {
        let micros = Duration::from_micros;
        let weather = Weather {
            awake: micros(50),
            waking: micros(7),
            ..Weather::default()
        };
        let mut state = State::new(&weather);
        let actor = state.enter(Rank(0), "one".into(), Runs::Now);
        let bell = state.new_bell();
        assert_eq!(state.next(&weather), Some(actor));
        let mut gets_up_after = |wait: u64| {
            let far = wait * 10_000;
            assert!(state.waits(actor, bell, Some(far)));
            state.now += wait * 1000;
            let rung = state.now;
            state.ring_from_afar(bell);
            assert_eq!(state.next(&weather), Some(actor));
            state.has_waited(bell);
            (state.now - rung) / 1000
        };
        let takes = [50, 51, 60, 200, 300, 1000, 1000].map(&mut gets_up_after);
        assert_eq!(takes, [0, 7, 0, 7, 7, 7, 0]);
        // Ends of those sleeps, which were broken, and nothing else.
        assert!(state.stale > 0);
        assert_eq!(state.agenda.len(), state.stale);
    }
}
