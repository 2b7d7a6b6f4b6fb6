//! Ranks as threads of the test, and a post that mixes parcels up.
//!
//! The smallest courier there can be: what is posted lies in a bag until a thread takes a random
//! one out and delivers it. The real ones are in `dataflow-mpi`.

use dataflow_core::port::{
    Arrival, Block, Courier, Failure, Goods, Heap, Inbox, Line, Memory, Parcel, Ranks, Terms,
};
use dataflow_core::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

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

#[derive(Default)]
struct State {
    inboxes: Vec<Option<Arc<dyn Inbox>>>,
    bag: Vec<(Rank, Parcel)>,
    closed: Vec<Option<Failure>>,
    n_closed: u32,
    /// The first failure of the run before, and how many runs have ended.
    ended: (Option<Failure>, u32),
    /// Ranks whose body has ended.
    n_done: u32,
    crossed: Crossed,
    random: u64,
}

/// Counts a rank whose body ends, be it by a panic.
struct Done(Arc<World>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.state().n_done += 1;
        self.0.bell.notify_all();
    }
}

/// Runs `body` once per rank, each on a thread, and returns what each returned. A body may run several
/// spaces, one after the other, as all others do.
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
                threads.spawn(move || {
                    let _done = Done(here.world.clone());
                    body(&here)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
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
                let (from, parcel) = state.bag.swap_remove(chosen);
                let to = parcel.to.0 as usize;
                let inbox = state.inboxes[to].clone();
                drop(state);
                if let Some(inbox) = inbox {
                    inbox.deliver(from, arrival(parcel, &self.arrived[to]));
                }
                state = self.state();
            } else if state.n_done == self.n_ranks {
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
                    .wait_timeout(state, std::time::Duration::from_millis(1))
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                state = waited;
            }
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

fn arrival(parcel: Parcel, arrived: &Arc<Arrived>) -> Arrival {
    let flows = parcel.flows.into_iter().map(|(flow, cargo)| {
        let goods = cargo.map(|cargo| {
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
        (flow, goods)
    });
    Arrival {
        task: parcel.task,
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
        for cargo in parcel.flows.iter().filter_map(|(_, cargo)| cargo.as_ref()) {
            state.crossed.data += 1;
            state.crossed.bytes += cargo.size() as u64;
        }
        let entry = (self.rank, parcel.to, parcel.task.to_vec());
        state.crossed.parcels.push(entry);
        state.bag.push((self.rank, parcel));
        self.world.bell.notify_all();
    }

    /// A heap over the ranks that get it, beginning behind the root.
    fn children(&self, root: Rank, to: &[Rank], _: usize) -> Ranks {
        let place = match self.rank == root {
            true => 0,
            false => 1 + to.iter().position(|&rank| rank == self.rank).unwrap(),
        };
        let first = place * self.world.fan_out;
        to.iter()
            .skip(first)
            .take(self.world.fan_out)
            .copied()
            .collect()
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
        let run = state.ended.1;
        state.closed.push(own);
        state.n_closed += 1;
        if state.n_closed == self.world.n_ranks {
            // What was not taken belongs to no other run.
            let closed = std::mem::take(&mut state.closed);
            state.ended = (closed.into_iter().flatten().min(), run + 1);
            state.n_closed = 0;
            state.inboxes.fill(None);
            state.bag.clear();
            self.world.bell.notify_all();
        }
        while state.ended.1 == run {
            state = self.world.wait(state);
        }
        Ok(state.ended.0.clone())
    }
}
