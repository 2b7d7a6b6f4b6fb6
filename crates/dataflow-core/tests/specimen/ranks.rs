//! Ranks as threads of the test, and a post that mixes parcels up.
//!
//! The smallest courier there can be: what is posted lies in a bag until a thread takes a random
//! one out and delivers it. The real ones are in `dataflow-mpi`.

use dataflow_core::port::{
    Arrival, Block, Courier, Failure, Goods, Heap, Inbox, Line, Memory, Parcel, Terms, drop_quietly,
};
use dataflow_core::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// What crossed ranks in one run.
#[derive(Clone, Debug, Default)]
pub struct Crossed {
    /// From, to, task.
    pub parcels: Vec<(Rank, Rank, Vec<u32>)>,
    pub data: u64,
    /// Of the bodies of data.
    pub bytes: u64,
    /// By rank, the most bytes of such bodies that it held at once.
    pub held: Vec<usize>,
}

/// All ranks of a world.
struct World {
    n_ranks: u32,
    /// Children of a rank in broadcasts are at most so many.
    fan_out: usize,
    state: Mutex<State>,
    bell: Condvar,
    /// By rank.
    arrived: Vec<Arc<Arrived>>,
}

/// Bytes of bodies that a rank has got and not dropped yet, and how many that were at most.
#[derive(Default)]
struct Arrived {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A body that is counted as long as it is held.
struct Body(Box<dyn Block>, Arc<Arrived>);

impl Block for Body {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.1.now.fetch_sub(self.0.bytes().len(), Relaxed);
    }
}

/// A parcel on its way from one rank to another; who is there passes it on.
struct Bagged {
    from: Rank,
    /// Its place among those that get it, the root's being 0.
    place: usize,
    parcel: Arc<Parcel>,
}

impl Drop for Bagged {
    /// Who has it last drops its data one by one: of two that panic as one collection drops them the second
    /// would end the process.
    fn drop(&mut self) {
        if let Some(parcel) = Arc::get_mut(&mut self.parcel) {
            parcel.flows.drain(..).for_each(drop_quietly);
        }
    }
}

#[derive(Default)]
struct State {
    inboxes: Vec<Option<Arc<dyn Inbox>>>,
    bag: Vec<Bagged>,
    /// Whether the postman has one in hand: its data are not back at home.
    in_hand: bool,
    closed: Vec<Option<Failure>>,
    /// Runs that all ranks have closed, and the failure of the last.
    n_runs: u32,
    failure: Option<Failure>,
    /// All bodies have ended.
    over: bool,
    crossed: Crossed,
    random: u64,
}

/// After so long without a post somebody looks whether the ranks wait for what never comes; a look
/// takes Miri many milliseconds.
const LOOK: Duration = Duration::from_millis(if cfg!(miri) { 100 } else { 1 });

/// Runs `body` once per rank, each on a thread, and returns what each returned. It may run spaces one
/// after the other.
pub fn on_ranks<T: Send>(
    n_ranks: u32,
    (seed, fan_out): (u64, usize),
    body: impl Fn(&dyn Courier) -> T + Sync,
) -> (Vec<T>, Crossed) {
    let state = State {
        inboxes: (0..n_ranks).map(|_| None).collect(),
        random: seed | 1,
        ..State::default()
    };
    let world = Arc::new(World {
        n_ranks,
        fan_out,
        state: Mutex::new(state),
        bell: Condvar::new(),
        arrived: (0..n_ranks).map(|_| Arc::default()).collect(),
    });
    let results = thread::scope(|threads| {
        let postman = world.clone();
        threads.spawn(move || postman.deliver_all());
        let ranks: Vec<_> = (0..n_ranks)
            .map(|rank| {
                let (world, body) = (world.clone(), &body);
                let here = Here {
                    world,
                    rank: Rank(rank),
                };
                threads.spawn(move || body(&here))
            })
            .collect();
        let ended: Vec<_> = ranks.into_iter().map(|rank| rank.join()).collect();
        world.state().over = true;
        world.bell.notify_all();
        ended.into_iter().map(Result::unwrap).collect()
    });
    let most = world.arrived.iter().map(|of| of.most.load(Relaxed));
    let mut crossed = world.state().crossed.clone();
    crossed.held = most.collect();
    (results, crossed)
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait<'w>(&'w self, state: MutexGuard<'w, State>) -> MutexGuard<'w, State> {
        self.bell
            .wait(state)
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn deliver_all(&self) {
        let mut state = self.state();
        loop {
            if !state.bag.is_empty() {
                state.random = state
                    .random
                    .wrapping_mul(0x5851_f42d_4c95_7f2d)
                    .wrapping_add(0x1405_7b7e_f767_814f);
                let chosen = (state.random >> 33) as usize % state.bag.len();
                let bagged = state.bag.swap_remove(chosen);
                let (from, place, parcel) = (bagged.from, bagged.place, &bagged.parcel);
                let to = parcel.to[place - 1];
                self.pass_on(&mut state, (to, place), parcel);
                let inbox = state.inboxes[to.0 as usize].clone();
                let sender = state.inboxes[from.0 as usize].clone();
                state.in_hand = true;
                drop(state);
                if let Some(inbox) = inbox {
                    let arrived = &self.arrived[to.0 as usize];
                    inbox.deliver(from, arrival(parcel, arrived));
                }
                // Who posted it hears that it has left.
                let hears = |sender: &Arc<dyn Inbox>| sender.follows_messages();
                if let Some(sender) = sender.filter(hears)
                    && place <= self.fan_out
                {
                    sender.left(&parcel.task, &[to]);
                }
                drop(bagged);
                state = self.state();
                state.in_hand = false;
                self.bell.notify_all();
            } else if state.over {
                return;
            } else if self.is_stalled(&state) {
                state
                    .inboxes
                    .iter()
                    .flatten()
                    .for_each(|inbox| inbox.stall());
                state = self.wait(state);
            } else {
                let (waited, _) = self
                    .bell
                    .wait_timeout(state, LOOK)
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                state = waited;
            }
        }
    }

    /// Who has a parcel gives it to those below him, in a heap over the ranks that get it, beginning
    /// behind the root.
    fn pass_on(&self, state: &mut State, (from, place): (Rank, usize), parcel: &Arc<Parcel>) {
        let first = place * self.fan_out;
        for below in (first..parcel.to.len()).take(self.fan_out) {
            for cargo in parcel.flows.iter().filter_map(|(_, cargo)| cargo.as_ref()) {
                state.crossed.data += 1;
                state.crossed.bytes += cargo.size() as u64;
            }
            let entry = (from, parcel.to[below], parcel.task.to_vec());
            state.crossed.parcels.push(entry);
            state.bag.push(Bagged {
                from,
                place: below + 1,
                parcel: parcel.clone(),
            });
        }
    }

    /// Whether all ranks are open and can run nothing, though some are not done.
    fn is_stalled(&self, state: &State) -> bool {
        let all = state.inboxes.iter().all(Option::is_some);
        let pulses = || state.inboxes.iter().flatten().map(|inbox| inbox.pulse());
        all && pulses().all(|pulse| pulse.idle)
            && pulses().any(|pulse| pulse.executed < pulse.count)
    }
}

fn arrival(parcel: &Parcel, arrived: &Arc<Arrived>) -> Arrival {
    let flows = parcel.flows.iter().map(|(flow, cargo)| {
        let goods = cargo.as_ref().map(|cargo| {
            let mut body: Box<dyn Block> = Heap.allocate(cargo.size());
            body.bytes_mut().copy_from_slice(&cargo.body());
            let now = arrived.now.fetch_add(cargo.size(), Relaxed) + cargo.size();
            arrived.most.fetch_max(now, Relaxed);
            let body: Box<dyn Block> = Box::new(Body(body, arrived.clone()));
            Goods {
                head: cargo.head(),
                body,
            }
        });
        (*flow, goods)
    });
    Arrival {
        task: parcel.task.clone(),
        poisoned: parcel.poisoned,
        flows: flows.collect(),
    }
}

/// One rank's courier, and its line.
#[derive(Clone)]
struct Here {
    world: Arc<World>,
    rank: Rank,
}

impl Courier for Here {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn n_ranks(&self) -> usize {
        self.world.n_ranks as usize
    }

    fn open(&self, _: &Terms, inbox: Arc<dyn Inbox>) -> Result<Box<dyn Line>, Error> {
        let mut state = self.world.state();
        state.inboxes[self.rank.0 as usize] = Some(inbox);
        self.world.bell.notify_all();
        while state.inboxes.iter().any(Option::is_none) {
            state = self.world.wait(state);
        }
        Ok(Box::new(self.clone()))
    }
}

impl Line for Here {
    fn post(&self, parcel: Parcel) {
        let mut state = self.world.state();
        self.world
            .pass_on(&mut state, (self.rank, 0), &Arc::new(parcel));
        self.world.bell.notify_all();
    }

    fn poll(&self) {}

    fn abort(&self, failure: &Failure) {
        let inboxes: Vec<_> = self
            .world
            .state()
            .inboxes
            .iter()
            .flatten()
            .cloned()
            .collect();
        inboxes.iter().for_each(|inbox| inbox.stop(failure.clone()));
    }

    fn close(&self, own: Option<Failure>) -> Result<Option<Failure>, Error> {
        if let Some(failure) = own.as_ref().filter(|failure| !failure.of_body) {
            self.abort(failure);
        }
        let mut state = self.world.state();
        state.closed.push(own);
        let run = state.n_runs;
        if state.closed.len() == self.world.n_ranks as usize {
            state.failure = state.closed.drain(..).flatten().min();
            state.inboxes.fill_with(|| None);
            state.bag.clear();
            state.n_runs += 1;
            self.world.bell.notify_all();
        }
        // The next run is not closed before this rank has opened it.
        while state.n_runs == run || state.in_hand {
            state = self.world.wait(state);
        }
        Ok(state.failure.clone())
    }
}
