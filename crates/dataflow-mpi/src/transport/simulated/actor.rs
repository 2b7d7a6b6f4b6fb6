//! Actors: threads of the world, of which one runs at a time.

use super::Simulated;
use super::network::{Delivery, Network};
use super::weather::{Chance, Faults, Weather};
use crate::host::{Bell, Host, Thread, lock};
use dataflow_core::rank::Rank;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A world of ranks in virtual time.
#[derive(Clone)]
pub struct World(Arc<Shared>);

struct Shared {
    weather: Weather,
    state: Mutex<State>,
    /// Rings when the world is over.
    over: Condvar,
}

/// Everything in the world; times in nanoseconds.
pub(super) struct State {
    pub now: u64,
    pub chance: Chance,
    pub network: Network,
    /// What will happen when, in the order in which it was planned.
    agenda: BTreeMap<(u64, u64), Due>,
    planned: u64,
    actors: Vec<Actor>,
    ready: Vec<usize>,
    bells: Vec<Clapper>,
    alive: usize,
    hung: Option<String>,
}

pub(super) enum Due {
    /// An actor has waited long enough, unless it was woken since.
    Wake {
        actor: usize,
        sleep: u64,
    },
    Delivery(Delivery),
}

struct Actor {
    rank: Rank,
    name: String,
    baton: Arc<Baton>,
    /// Which of its sleeps it is in.
    sleep: u64,
    done: bool,
}

/// A bell of the world.
#[derive(Default)]
struct Clapper {
    rung: bool,
    waiting: Option<usize>,
}

#[derive(Default)]
struct Baton {
    here: Mutex<bool>,
    passed: Condvar,
}

impl Baton {
    fn give(&self) {
        *lock(&self.here) = true;
        self.passed.notify_one();
    }

    fn wait(&self) {
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

/// A world that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hung(String);

impl fmt::Display for Hung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Hung {}

thread_local! {
    static HERE: RefCell<Option<(World, usize)>> = const { RefCell::new(None) };
}

/// Lets virtual time pass for the calling actor; outside of a world it does nothing.
pub fn spend(time: Duration) {
    if let Some((world, actor)) = HERE.with_borrow(Clone::clone) {
        let mut state = world.state();
        state.sleep(actor, Some(time));
        drop(world.pass(state, Some(actor)));
    }
}

impl World {
    /// Nothing has happened in it yet.
    pub fn new(weather: Weather) -> Self {
        let state = State {
            now: 0,
            chance: Chance::new(weather.seed),
            network: Network::default(),
            agenda: BTreeMap::new(),
            planned: 0,
            actors: Vec::new(),
            ready: Vec::new(),
            bells: Vec::new(),
            alive: 0,
            hung: None,
        };
        World(Arc::new(Shared {
            weather,
            state: Mutex::new(state),
            over: Condvar::new(),
        }))
    }

    /// Virtual time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state().now)
    }

    /// How often each kind of fault has happened.
    pub fn faults(&self) -> Faults {
        self.state().network.faults
    }

    /// What this world's weather is.
    pub fn weather(&self) -> &Weather {
        &self.0.weather
    }

    /// What a rank stands on: its clock, bells and threads.
    pub fn host(&self, rank: Rank) -> Arc<dyn Host> {
        Arc::new(Place {
            world: self.clone(),
            rank,
        })
    }

    /// The transports of `n_ranks` ranks, by rank; once per world.
    pub fn connect(&self, n_ranks: usize) -> Vec<Simulated> {
        self.state().network.connect(n_ranks);
        let end = |rank| Simulated::new(self.clone(), Rank(rank), n_ranks);
        (0..n_ranks as u32).map(end).collect()
    }

    /// Runs `body` once per rank, each as an actor, until all actors of the world have ended.
    ///
    /// # Errors
    /// If the world passes its deadline, or nobody in it can ever run again. Its threads are then
    /// left behind asleep.
    ///
    /// # Panics
    /// If a body panics, with what it panicked with.
    pub fn run<R: Send + 'static>(
        &self,
        n_ranks: usize,
        body: impl Fn(Rank) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, Hung> {
        let body = Arc::new(body);
        type Ends<R> = Mutex<Vec<Option<thread::Result<R>>>>;
        let ends: Arc<Ends<R>> = Arc::new(Mutex::new((0..n_ranks).map(|_| None).collect()));
        for rank in 0..n_ranks {
            let (body, ends) = (body.clone(), ends.clone());
            let run = move || {
                let end = catch_unwind(AssertUnwindSafe(|| body(Rank(rank as u32))));
                lock(&ends)[rank] = Some(end);
            };
            let started = self.start(Rank(rank as u32), format!("rank {rank}"), Box::new(run));
            started.map_err(Hung)?;
        }
        let mut state = self.pass(self.state(), None);
        while state.alive > 0 && state.hung.is_none() {
            state = self
                .0
                .over
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        if let Some(hung) = state.hung.clone() {
            return Err(Hung(hung));
        }
        drop(state);
        let ends = std::mem::take(&mut *lock(&ends));
        Ok(ends.into_iter().map(value_or_unwind).collect())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    fn start(
        &self,
        rank: Rank,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<(JoinHandle<bool>, usize, usize), String> {
        let baton = Arc::new(Baton::default());
        let mut state = self.state();
        let actor = state.actors.len();
        state.actors.push(Actor {
            rank,
            name: name.clone(),
            baton: baton.clone(),
            sleep: 0,
            done: false,
        });
        let end = state.new_bell();
        state.alive += 1;
        state.ready.push(actor);
        drop(state);
        let world = self.clone();
        let live = move || {
            baton.wait();
            HERE.set(Some((world.clone(), actor)));
            let ended = catch_unwind(AssertUnwindSafe(body)).is_ok();
            HERE.set(None);
            let mut state = world.state();
            state.actors[actor].done = true;
            state.alive -= 1;
            state.ring(end);
            drop(world.pass(state, None));
            ended
        };
        let thread = thread::Builder::new()
            .name(name)
            .stack_size(1 << 20)
            .spawn(live);
        thread
            .map(|thread| (thread, actor, end))
            .map_err(|error| error.to_string())
    }

    /// Whose turn it is: the baton goes there. An actor that passes it on comes back when it has
    /// it again.
    fn pass<'w>(
        &'w self,
        mut state: MutexGuard<'w, State>,
        me: Option<usize>,
    ) -> MutexGuard<'w, State> {
        let next = state.next(&self.0.weather);
        let Some(next) = next else {
            self.0.over.notify_all();
            return match me {
                None => state,
                Some(_) => self.sleep_for_ever(state),
            };
        };
        if me == Some(next) {
            return state;
        }
        let baton = state.actors[next].baton.clone();
        let own = me.map(|me| state.actors[me].baton.clone());
        drop(state);
        baton.give();
        if let Some(own) = own {
            own.wait();
        }
        self.state()
    }

    /// The world hangs: its threads stay where they are.
    fn sleep_for_ever(&self, state: MutexGuard<'_, State>) -> ! {
        drop(state);
        loop {
            thread::park();
        }
    }
}

fn value_or_unwind<R>(end: Option<Result<R, Box<dyn Any + Send>>>) -> R {
    match end {
        Some(Ok(value)) => value,
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => unreachable!("a world that is over has the ends of all its ranks"),
    }
}

impl State {
    /// The next actor to run, the clock put forward as far as necessary; `None` if the world is
    /// over or hangs.
    fn next(&mut self, weather: &Weather) -> Option<usize> {
        loop {
            if self.alive == 0 || self.hung.is_some() {
                return None;
            }
            if let Some(actor) = self.take_ready(weather) {
                return Some(actor);
            }
            let Some(((time, _), due)) = self.agenda.pop_first() else {
                self.hang("nobody in the world can run");
                return None;
            };
            self.now = self.now.max(time);
            if self.now > nanos(weather.deadline) {
                self.hang("the world is not over by its deadline");
                return None;
            }
            match due {
                Due::Wake { actor, sleep } if self.actors[actor].sleep == sleep => self.wake(actor),
                Due::Wake { .. } => {}
                Due::Delivery(delivery) => self.deliver(weather, delivery),
            }
        }
    }

    fn take_ready(&mut self, weather: &Weather) -> Option<usize> {
        while !self.ready.is_empty() {
            let n = self.ready.len() as u64;
            let chosen = if weather.shuffle {
                self.chance.below(n) as usize
            } else {
                0
            };
            let actor = self.ready.remove(chosen);
            let Some(thaw) = self.thaw(weather, self.actors[actor].rank) else {
                return Some(actor);
            };
            self.network.faults.frozen += 1;
            self.actors[actor].sleep += 1;
            let sleep = self.actors[actor].sleep;
            self.plan(thaw, Due::Wake { actor, sleep });
        }
        None
    }

    /// When a rank that stands still now will move again.
    fn thaw(&self, weather: &Weather, rank: Rank) -> Option<u64> {
        let mine = weather.freezes.iter().filter(|freeze| freeze.0 == rank);
        let spans = mine.map(|&(_, from, length)| (nanos(from), nanos(from + length)));
        let now = spans.filter(|&(from, to)| from <= self.now && self.now < to);
        now.map(|(_, to)| to).max()
    }

    fn deliver(&mut self, weather: &Weather, delivery: Delivery) {
        if let Some(bell) = self.network.deliver(weather, self.now, delivery) {
            self.ring(bell);
        }
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
        self.planned += 1;
        self.agenda.insert((time, self.planned), due);
    }

    pub fn new_bell(&mut self) -> usize {
        self.bells.push(Clapper::default());
        self.bells.len() - 1
    }

    pub fn ring(&mut self, bell: usize) {
        self.bells[bell].rung = true;
        if let Some(actor) = self.bells[bell].waiting.take() {
            self.wake(actor);
        }
    }

    fn wake(&mut self, actor: usize) {
        self.actors[actor].sleep += 1;
        self.ready.push(actor);
    }

    /// The actor sleeps from now on, for that long at most.
    fn sleep(&mut self, actor: usize, at_most: Option<Duration>) {
        self.actors[actor].sleep += 1;
        let sleep = self.actors[actor].sleep;
        if let Some(time) = at_most {
            self.plan(
                self.now.saturating_add(nanos(time)),
                Due::Wake { actor, sleep },
            );
        }
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A rank's place in the world.
struct Place {
    world: World,
    rank: Rank,
}

impl Host for Place {
    fn now(&self) -> Duration {
        self.world.now()
    }

    fn bell(&self) -> Arc<dyn Bell> {
        let bell = self.world.state().new_bell();
        Arc::new(WorldBell {
            world: self.world.clone(),
            bell,
        })
    }

    fn start(
        &self,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        let (thread, actor, end) = self.world.start(self.rank, name, body)?;
        Ok(Box::new(WorldThread {
            world: self.world.clone(),
            thread,
            actor,
            end,
        }))
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// A bell by its number in the world.
pub(super) struct WorldBell {
    world: World,
    pub bell: usize,
}

impl Bell for WorldBell {
    fn ring(&self) {
        self.world.state().ring(self.bell);
    }

    fn wait(&self, at_most: Option<Duration>) {
        let Some(actor) = HERE.with_borrow(|here| here.as_ref().map(|(_, actor)| *actor)) else {
            unreachable!("only actors of a world wait in it");
        };
        let mut state = self.world.state();
        if !state.bells[self.bell].rung {
            state.bells[self.bell].waiting = Some(actor);
            state.sleep(actor, at_most);
            state = self.world.pass(state, Some(actor));
        }
        let bell = &mut state.bells[self.bell];
        bell.rung = false;
        bell.waiting = None;
    }

    fn number(&self) -> Option<usize> {
        Some(self.bell)
    }
}

struct WorldThread {
    world: World,
    thread: JoinHandle<bool>,
    actor: usize,
    end: usize,
}

impl Thread for WorldThread {
    fn join(self: Box<Self>) -> bool {
        let bell = WorldBell {
            world: self.world.clone(),
            bell: self.end,
        };
        while !self.world.state().actors[self.actor].done {
            bell.wait(None);
        }
        // It has passed the baton on and ends by itself.
        self.thread.join().unwrap_or(false)
    }
}
