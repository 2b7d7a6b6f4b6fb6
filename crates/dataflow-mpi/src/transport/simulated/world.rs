//! The world, and those who act in it: one at a time.

use super::fiber::{Fiber, Stacks, suspend};
use super::here::{Own, ahead};
use super::state::{Baton, Runs, State};
use super::weather::{Faults, Weather};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};
use dataflow_core::rank::Rank;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A world of ranks in virtual time.
///
/// # Examples
/// See the [module's](super) example.
#[derive(Clone)]
pub struct World(Arc<WorldInner>);

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("World");
        shown
            .field("weather", &self.0.weather)
            .finish_non_exhaustive()
    }
}

struct WorldInner {
    weather: Weather,
    on: On,
    state: Mutex<State>,
    /// Rings when the world is over.
    over: Condvar,
}

/// What actors run on; the run is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// Fibers of the thread that runs the world, with stacks of so many bytes.
    Fibers(usize),
    /// A thread each.
    Threads,
}

/// Bytes of a stack, if nothing else is said. Those that are never touched cost address space only.
const STACK: usize = 1 << 20;

/// A world that did not come to its end.
///
/// # Examples
/// ```
/// use dataflow_mpi::transport::simulated::{Weather, World, spend};
/// use std::time::Duration;
///
/// let weather = Weather { deadline: Duration::from_secs(60), ..Weather::default() };
/// let hung = World::new(weather).run(1, |_| spend(Duration::from_secs(100))).unwrap_err();
/// assert!(hung.to_string().contains("the world is not over by its deadline"), "{hung}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hung(String);

impl fmt::Display for Hung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Hung {}

impl World {
    /// Nothing has happened in it yet. Its actors are fibers of one thread, with a megabyte of stack
    /// each; threads where there are no fibers, or if the environment has `DATAFLOW_WORLD=threads` (for
    /// tools that do not know of fibers).
    pub fn new(weather: Weather) -> Self {
        let wants_threads = std::env::var_os("DATAFLOW_WORLD").is_some_and(|on| on == "threads");
        match wants_threads || Stacks::new(STACK).take().is_err() {
            true => World::on_threads(weather),
            false => World::on_fibers(weather, STACK),
        }
    }

    /// The same world with stacks of so many bytes; a fiber that needs more ends the process. Of a stack only
    /// what is touched takes memory (some 8 KiB, if bodies need little more than the engine). On Linux
    /// since 6.13 64 of them share two mappings; before that each takes two, of 65,530 that Linux allows:
    /// so 32,000 actors with stacks.
    ///
    /// # Panics
    /// When it runs, where there are no fibers or no more stacks.
    pub fn on_fibers(weather: Weather, stack: usize) -> Self {
        World::on(On::Fibers(stack), weather)
    }

    /// The same world with a thread for each actor: slower by far, for what cannot run on fibers.
    pub fn on_threads(weather: Weather) -> Self {
        World::on(On::Threads, weather)
    }

    fn on(on: On, weather: Weather) -> Self {
        World(Arc::new(WorldInner {
            state: Mutex::new(State::new(&weather)),
            weather,
            on,
            over: Condvar::new(),
        }))
    }

    /// Virtual time since the beginning.
    pub fn now(&self) -> Duration {
        let ahead = ahead(self);
        let state = self.state();
        // What it owes passes with what it spends.
        let ahead = ahead.map_or(0, |(actor, spent)| {
            spent.saturating_add(state.actors[actor].owes)
        });
        Duration::from_nanos(state.now.saturating_add(ahead))
    }

    /// A number for all that has happened, who acted when and what arrived when: worlds with the same
    /// number have taken the same course.
    pub fn digest(&self) -> u64 {
        self.state().digest
    }

    /// How often each kind of fault has happened.
    pub fn faults(&self) -> Faults {
        self.state().network.faults
    }

    /// What this world's weather is.
    pub fn weather(&self) -> &Weather {
        &self.0.weather
    }

    /// Runs `body` once per rank, each as an actor, until all actors of the world have ended.
    ///
    /// # Errors
    /// If the world passes its deadline, or nobody in it can ever run again. Its actors are then left
    /// behind where they are: to unwind them would mean to wait for each other again. And if the system has no
    /// thread for a rank; then no rank begins.
    ///
    /// # Panics
    /// If a body panics, with what it panicked with; also if others then wait for it for ever.
    pub fn run<R: Send + 'static>(
        &self,
        n_ranks: usize,
        body: impl Fn(Rank) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, Hung> {
        let body = Arc::new(body);
        type ThreadResults<R> = Mutex<Vec<Option<thread::Result<R>>>>;
        let ends: Arc<ThreadResults<R>> =
            Arc::new(Mutex::new((0..n_ranks).map(|_| None).collect()));
        self.start_ranks(n_ranks, |rank| {
            let (body, ends) = (body.clone(), ends.clone());
            let run = move || {
                let end = catch_unwind(AssertUnwindSafe(|| body(Rank(rank as u32))));
                lock(&ends)[rank] = Some(end);
            };
            self.start(Rank(rank as u32), format!("rank {rank}"), Box::new(run))
        })?;
        match self.0.on {
            On::Fibers(stack) => self.run_fibers(stack),
            On::Threads => self.run_threads(),
        }
        let hung = self.state().hung.clone();
        if let Some(hung) = hung {
            self.clear();
            // Only the panic is taken: what other bodies gave may not be dropped outside of a world.
            let panicked = |end: &mut Option<thread::Result<R>>| end.take_if(|end| end.is_err());
            let panic = lock(&ends).iter_mut().find_map(panicked);
            return match panic.and_then(Result::err) {
                Some(panic) => std::panic::resume_unwind(panic),
                None => Err(Hung(hung)),
            };
        }
        let ends = std::mem::take(&mut *lock(&ends));
        Ok(ends.into_iter().map(value_or_unwind).collect())
    }

    /// Starts every rank, or none: those that wait for their turn already are sent away.
    fn start_ranks(
        &self,
        n_ranks: usize,
        start: impl Fn(usize) -> Result<Started, String>,
    ) -> Result<(), Hung> {
        for rank in 0..n_ranks {
            if let Err(text) = start(rank) {
                let text =
                    format!("the thread of rank {rank} of {n_ranks} was not started: {text}");
                let mut state = self.state();
                state.hung = Some(text.clone());
                state.batons().for_each(Baton::give);
                return Err(Hung(text));
            }
        }
        Ok(())
    }

    /// Whether this is that world.
    pub(super) fn is(&self, other: &World) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    /// Whether each actor has a thread.
    pub(super) fn is_on_threads(&self) -> bool {
        self.0.on == On::Threads
    }

    /// A new actor: its number, the number of the bell that rings when it ends, and its thread if it
    /// has one.
    pub(super) fn start(
        &self,
        rank: Rank,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Started, String> {
        self.enter(rank, name, body, false)
    }

    /// The same, also of one that acts by turns where actors have threads.
    pub(super) fn enter(
        &self,
        rank: Rank,
        name: String,
        body: Box<dyn FnOnce() + Send>,
        by_turns: bool,
    ) -> Result<Started, String> {
        let mut state = self.state();
        let end = state.new_bell();
        let actor = state.next_place();
        let world = self.clone();
        let live = move || {
            let ended = catch_unwind(AssertUnwindSafe(body)).is_ok();
            let mut state = world.state();
            state.leave(actor, ended);
            state.ring(end);
        };
        let mut thread = None;
        match self.0.on {
            On::Fibers(_) => state.enter(rank, name, Runs::Body(Box::new(live))),
            On::Threads => {
                let baton = Arc::new(Baton::default());
                let world = self.clone();
                let ran = baton.clone();
                let live = move || {
                    ran.wait();
                    let was_sent_away = world.state().hung.is_some();
                    if was_sent_away {
                        return;
                    }
                    let mut own = Own::with_thread(&world, actor, by_turns);
                    own.swap();
                    live();
                    own.swap();
                    world.give_baton(world.state());
                };
                let builder = thread::Builder::new().name(name.clone()).stack_size(STACK);
                // Not under the lock: if there is no thread the body is dropped, and bells with it.
                drop(state);
                thread = Some(builder.spawn(live).map_err(|error| error.to_string())?);
                self.state().enter(rank, name, Runs::Thread(baton))
            }
        };
        Ok(Started { thread, actor, end })
    }

    /// The actor `me` has gone to sleep: others run until it is its turn again.
    pub(super) fn rest<'w>(
        &'w self,
        mut state: MutexGuard<'w, State>,
        me: usize,
    ) -> MutexGuard<'w, State> {
        match self.0.on {
            On::Fibers(_) => {
                state.chosen = state.next(&self.0.weather);
                if state.chosen != Some(me) {
                    drop(state);
                    suspend();
                    state = self.state();
                }
                state.chosen = None;
                state
            }
            On::Threads => {
                let own = state.baton(me);
                self.give_baton(state);
                own.wait();
                self.state()
            }
        }
    }

    /// Resumes fibers, one after the other, until the world is over or hangs.
    fn run_fibers(&self, stack: usize) {
        let mut fibers: Vec<Option<(Fiber, Own)>> = Vec::new();
        let mut stacks = Stacks::new(stack);
        while let Some((actor, runs)) = self.next() {
            match runs {
                Runs::Turns(turns, end) => {
                    self.turn(actor, turns, end);
                    continue;
                }
                Runs::Body(body) => {
                    let stack = stacks.take().unwrap_or_else(|error| panic!("{error}"));
                    let fiber = Fiber::new(stack, body);
                    fibers.resize_with(fibers.len().max(actor + 1), || None);
                    fibers[actor] = Some((fiber, Own::new(self, actor, false)));
                }
                _ => {}
            }
            let Some((fiber, own)) = &mut fibers[actor] else {
                unreachable!("an actor that has ended is not ready");
            };
            own.swap();
            let ended = fiber.resume();
            own.swap();
            if let Some(stack) = ended {
                stacks.give(stack);
                fibers[actor] = None;
            }
        }
    }

    /// Whose turn it is, and how it runs.
    fn next(&self) -> Option<(usize, Runs)> {
        let mut state = self.state();
        let chosen = state.chosen.take();
        let actor = chosen.or_else(|| state.next(&self.0.weather))?;
        let runs = std::mem::replace(&mut state.actors[actor].runs, Runs::Now);
        Some((actor, runs))
    }

    /// Hands the baton to the first thread, and waits until the world is over or hangs.
    fn run_threads(&self) {
        self.give_baton(self.state());
        let mut state = self.state();
        while state.alive > 0 && state.hung.is_none() {
            state = self
                .0
                .over
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Whose turn it is, gets the baton.
    fn give_baton(&self, mut state: MutexGuard<'_, State>) {
        match state.next(&self.0.weather) {
            None => self.0.over.notify_all(),
            Some(next) => {
                let baton = state.baton(next);
                drop(state);
                baton.give();
            }
        }
    }

    /// What a world that hangs still has: bodies that have not begun, and messages under way.
    fn clear(&self) {
        let left = self.state().clear();
        drop(left);
    }
}

/// An actor that was started.
pub struct Started {
    /// Where it runs, if that is a thread.
    pub thread: Option<JoinHandle<()>>,
    /// Its number.
    pub actor: usize,
    /// The bell that rings when it ends.
    pub end: usize,
}

fn value_or_unwind<R>(end: Option<Result<R, Box<dyn Any + Send>>>) -> R {
    match end {
        Some(Ok(value)) => value,
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => unreachable!("a world that is over has the ends of all its ranks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They waited at their batons for ever, and with them what their bodies held.
    #[test]
    fn if_a_rank_has_no_thread_those_before_it_end_without_having_begun() {
        let world = World::on_threads(Weather::default());
        let held = Arc::new(());
        let hung = world.start_ranks(3, |rank| {
            let held = held.clone();
            let run = move || unreachable!("{held:?}");
            match rank {
                2 => Err("no room".into()),
                _ => world.start(Rank(rank as u32), format!("rank {rank}"), Box::new(run)),
            }
        });
        let text = "the thread of rank 2 of 3 was not started: no room";
        assert_eq!(hung, Err(Hung(text.into())));
        let are_gone = || Arc::strong_count(&held) == 1;
        for _ in 0..10_000 {
            if are_gone() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert!(are_gone());
        assert_eq!(world.run(1, |_| ()), Err(Hung(text.into())));
    }
}
