//! Simulate: any task space on a machine that one does not have, in virtual time.
//!
//! The engine, the protocol between ranks and the order of tasks are those of a real run. Data are
//! lengths, bodies let the time pass that they are said to take, and messages that which the
//! [`Weather`] says. So a run is a function of the machine, the space and the seed, whatever else this
//! machine does meanwhile.
//!
//! # Law
//! A rank's workers take the most urgent task first, then the oldest; those of a rank with [`Numa`] nodes
//! take it as a policy says, and data are near or far. There are no caches and no other programs: what
//! bodies take is all that is known of a processor. Workers that share a core are each as fast as alone.
//!
//! # Examples
//! Ten tasks of a second on two workers:
//! ```
//! use dataflow::core::space::Independent;
//! use dataflow::simulate::Machine;
//! use std::time::Duration;
//!
//! let machine = Machine { threads: 2, ..Machine::default() };
//! let played = machine.run(|stage| {
//!     let space = Independent::new("seconds", 10, |_| Ok(()));
//!     stage.play(&space, &|_, _| 0, &|_| Duration::from_secs(1))
//! })?;
//! assert_eq!(played[0].as_ref().unwrap().report.seconds, 5.0);
//! # Ok::<(), dataflow::simulate::Hung>(())
//! ```
//!
//! # Elsewhere
//! What this machine's kernels and messages take, in a file: the guide's page
//! [`machines`](crate::guide::machines). Counting without a clock:
//! [`counts`](dataflow_core::space::counts).

mod numa;

pub use numa::Numa;

use dataflow_core::phantom::{Homes, Length, Phantom, asked};
use dataflow_core::port::{Context, Lengths, MANY_INSIDE, Memory};
use dataflow_core::rank::Rank;
use dataflow_core::space::{Erased, TaskSpace};
use dataflow_core::trace::{Clock, Trace, Tracer};
use dataflow_core::{Error, Report, run_across};
use dataflow_mpi::transport::Transport;
use dataflow_mpi::transport::simulated::{Simulated, VirtualWorkers, World, spend};
use dataflow_mpi::{Counters, Messenger, Settings};
use dataflow_numa::WorkerStatistics;
use numa::{Floor, Ground, Landing};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use dataflow_mpi::transport::simulated::{Cluster, Hung, MessageCosts, Shared, Weather};

/// Ranks of so many workers each, and what is between them.
///
/// # Examples
/// See the [module's](self) example, and [`Numa`](Numa#examples).
#[derive(Clone, Debug)]
pub struct Machine {
    /// How many ranks.
    pub ranks: usize,
    /// Workers of each rank, [`MANY_INSIDE`] at most; one at least, also if this says 0.
    pub threads: usize,
    /// How messages travel; its seed decides what is left to chance.
    pub weather: Weather,
    /// How the ranks send them.
    pub messages: Settings,
    /// Bytes of notes on each rank, if runs are to be recorded; as of a [`Tracer`].
    pub trace: Option<usize>,
    /// NUMA nodes of each rank, and its policy; none: one heap for all workers of a rank, and all data near.
    pub numa: Option<Numa>,
}

impl Default for Machine {
    /// One rank with one worker.
    fn default() -> Self {
        Machine {
            ranks: 1,
            threads: 1,
            weather: Weather::default(),
            messages: Settings::default(),
            trace: None,
            numa: None,
        }
    }
}

impl Machine {
    /// Runs a program on each rank; all ranks take turns on the thread that calls this. What each rank
    /// returned, by rank.
    ///
    /// Cost: some microseconds for each task and message, some kilobytes for each rank, and a hundred
    /// megabytes of addresses for a hundred ranks. Where runs are recorded, two more kilobytes for each worker
    /// at least, and a hundred bytes or so for each task and message.
    ///
    /// # Errors
    /// If the ranks wait for each other without end, or beyond the weather's deadline.
    ///
    /// # Panics
    /// If the program panics on a rank, or the system has no more room for stacks (before Linux 6.13 at
    /// some 30,000 ranks).
    pub fn run<R: Send + 'static>(
        &self,
        program: impl Fn(&Stage) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, Hung> {
        let (world, machine) = (World::new(self.weather.clone()), self.clone());
        let ends = world.connect(self.ranks).into_iter();
        let ends: Vec<Mutex<Option<Simulated>>> = ends.map(|end| Mutex::new(Some(end))).collect();
        let inside = world.clone();
        let numa = self.numa.as_ref();
        let ground = numa.map(|numa| Ground::new(numa, self.n_workers()));
        world.run(self.ranks, move |rank| {
            let mut end = ends[rank.0 as usize]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let end = end.take();
            let floor = ground.clone().map(Floor::new);
            program(&Stage::new(&machine, floor, &inside, rank, end))
        })
    }

    /// Workers of each rank, as many as are allowed.
    fn n_workers(&self) -> usize {
        self.threads.clamp(1, MANY_INSIDE)
    }

    fn check(&self) -> Result<(), Error> {
        self.weather.check()?;
        let threads = self.threads;
        if threads > MANY_INSIDE {
            let text = format!("{threads} workers of a rank (at most {MANY_INSIDE})");
            return Err(Error::wrong_settings(text));
        }
        match self.numa.as_ref().map_or(0.0, |numa| numa.remote_byte) {
            cost if (0.0..f64::INFINITY).contains(&cost) => Ok(()),
            cost => Err(Error::wrong_settings(format!(
                "the cost remote_byte is {cost} (must be finite and 0 or more)"
            ))),
        }
    }
}

/// A rank in virtual time.
///
/// # Examples
/// See the [module's](self) example.
pub struct Stage {
    /// Before the workers: a messenger's thread may still ring them.
    messenger: Result<Option<Messenger>, Error>,
    workers: VirtualWorkers,
    floor: Option<Arc<Floor>>,
    tracer: Option<Tracer>,
    world: World,
    rank: Rank,
    n_ranks: usize,
    n_workers: usize,
}

/// What came of a run in virtual time, on one rank.
///
/// # Examples
/// See the [module's](self) example, and [`Numa`](Numa#examples) for what each worker did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Played {
    /// As of a real run; its seconds are virtual.
    pub report: Report,
    /// What this rank has sent.
    pub sent: Counters,
    /// What it recorded, if it was to.
    pub trace: Option<Trace>,
    /// What each worker did, if the machine has [`Numa`] nodes: tasks, steals, bytes from each NUMA node.
    pub workers: Vec<WorkerStatistics>,
    /// How much longer its bodies took, all together, since inputs lay on other NUMA nodes.
    pub remote: Duration,
}

impl Stage {
    fn new(
        machine: &Machine,
        floor: Option<Arc<Floor>>,
        world: &World,
        rank: Rank,
        end: Option<Simulated>,
    ) -> Self {
        let end = end.filter(|_| machine.ranks > 1);
        let n_workers = machine.n_workers();
        let messenger = end.map(|end| {
            let transport: Box<dyn Transport> = Box::new(end);
            let (settings, host) = (machine.messages.clone(), world.host(rank));
            let memory: Arc<dyn Memory> = match &floor {
                Some(floor) => Arc::new(Landing(floor.clone())),
                None => Arc::new(Lengths),
            };
            Messenger::new(transport, settings, host, memory)
        });
        let clock = world.clone();
        let clock = Clock::given(move || clock.now().as_nanos() as u64);
        let tracer = |bytes| Tracer::with_clock(bytes, clock);
        Stage {
            messenger: machine.check().and(messenger.transpose()),
            workers: match &floor {
                Some(floor) => floor.workers(world, rank),
                None => VirtualWorkers::lean(world, rank, n_workers),
            },
            floor,
            tracer: machine.trace.map(tracer),
            world: world.clone(),
            rank,
            n_ranks: machine.ranks,
            n_workers,
        }
    }

    /// Which rank this is.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many ranks there are.
    pub fn n_ranks(&self) -> usize {
        self.n_ranks
    }

    /// How many workers it has.
    pub fn n_workers(&self) -> usize {
        self.n_workers
    }

    /// Virtual time since the machine was switched on.
    pub fn now(&self) -> Duration {
        self.world.now()
    }

    /// Runs this rank's part of a space whose data are so many `bytes`, by task and flow, and whose bodies
    /// take so much `time`. Every rank calls it with the same space. `time` may hold no lock when it
    /// returns, and is called once for each task.
    ///
    /// # Errors
    /// As [`run_across`]; if the messages' settings are no settings, a rank has more than [`MANY_INSIDE`]
    /// workers, or a byte of another NUMA node no cost.
    pub fn play<S: TaskSpace>(
        &self,
        space: &S,
        bytes: &(dyn Fn(S::Task, usize) -> u64 + Sync),
        time: &(dyn Fn(S::Task) -> Duration + Sync),
    ) -> Result<Played, Error> {
        let longer = || self.floor.as_ref().map_or(Duration::ZERO, |on| on.longer());
        let body = |task| spend(time(task).saturating_add(longer()));
        let phantom = asked(|| Phantom::of(space))?;
        let mut phantom = phantom.bytes(bytes).body(&body);
        if let Some(floor) = &self.floor {
            phantom = phantom.on(&**floor, asked(|| Homes::of(space, self.rank))?);
        }
        self.play_lengths(&Erased::new(&phantom))
    }

    /// Not generic: the engine is compiled once for all spaces.
    fn play_lengths(&self, space: &Erased<'_, Length>) -> Result<Played, Error> {
        let messenger = self.messenger.as_ref().map_err(Error::clone)?.as_ref();
        let sent = || messenger.map_or(Counters::default(), Messenger::counters);
        let remote = || self.floor.as_ref().map_or(Duration::ZERO, |on| on.remote());
        // What a run before it has left that failed is no part of this one.
        remote();
        let (before, begin) = (sent(), self.now());
        let mut on = Context::new(&self.workers);
        if let Some(messenger) = messenger {
            on = on.across(messenger);
        }
        if let Some(tracer) = &self.tracer {
            on = on.traced_by(tracer);
        }
        let mut report = run_across(space, &on)?;
        report.seconds = (self.now() - begin).as_secs_f64();
        Ok(Played {
            report,
            sent: sent().since(&before),
            trace: self.tracer.as_ref().and_then(|tracer| tracer.take().pop()),
            workers: self.floor.as_ref().map_or(Vec::new(), |on| on.statistics()),
            remote: remote(),
        })
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("rank", &self.rank)
            .field("n_ranks", &self.n_ranks)
            .finish_non_exhaustive()
    }
}
