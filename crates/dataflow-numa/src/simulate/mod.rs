//! Simulate: what a policy would do on a machine that is not there, in virtual time.
//!
//! The tasks are those of a real space, the engine is the one that runs it, the [policy](crate::policy), its
//! queues and its lanes are those that workers use; only time, data and bodies are
//! [made up](dataflow_core::phantom). A task takes the time of its class, and more for every byte of input
//! that lies on another NUMA node. First every slot of the space's stores is initialised by a task of its
//! own, which settles where it lies; then the space is run.
//!
//! # Law
//! One thread, no clock, no chance: the same question has the same answer, to the last bit. Time passes in
//! whole nanoseconds.
//!
//! # What the model leaves out
//! Caches, contention for memory and for links (a byte costs the same however many travel), the
//! time of the queues themselves, and migration of pages. What is slow because many do it at
//! once looks faster here than it is; so do workers that share a core: each is as fast as alone.

mod initialise;
mod lanes;
mod machine;
#[cfg(test)]
mod tests;

pub use lanes::{Lanes, Rest};

use crate::place::Place;
use crate::policy::Policy;
use crate::statistics::{Statistics, WorkerStatistics};
use crate::topology::Topology;
use dataflow_core::phantom::{Homes, Length, Phantom, asked};
use dataflow_core::port::{Context, Executor, MANY_INSIDE, OfThread};
use dataflow_core::rank::Rank;
use dataflow_core::space::{Description, Erased, TaskName, TaskSpace};
use dataflow_core::trace::{Clock, Trace, Tracer};
use dataflow_core::{Error, Kind};
use initialise::Initialise;
use lanes::nanoseconds;
use machine::VirtualMachine;
use std::fmt;
use std::time::Duration;

/// No cost is higher, in seconds: nobody simulates such a machine, and sums of times stay below the end of
/// virtual time.
const DAY: f64 = 86_400.0;

/// What tasks and bytes cost: each at most a day.
///
/// # Examples
/// See [`simulate`](simulate()).
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Seconds of a task with all its data at hand, by the index of its class.
    pub classes: Vec<f64>,
    /// Seconds of a task that initialises a datum.
    pub initialise: f64,
    /// Bytes of a datum; spaces whose edges carry nothing have none.
    pub bytes: u64,
    /// Seconds of a byte that lies on another NUMA node, for every 10 by which that is farther
    /// than the own one: what SLIT calls the time of a local access.
    pub remote_byte: f64,
    /// Seconds between two looks that an idle worker with patience makes by itself. When another worker
    /// begins or ends a task it may look as well, in no time, and every look counts as a round of its
    /// patience: so many rounds are the longest that it lasts. Who is given nothing by a user's
    /// [scheduler](crate::policy::Scheduler) that has tasks looks again a hundred times, then ever more seldom, up to
    /// 1,024 rounds apart, and at the next round once anyone has queued or got a task.
    pub round: f64,
    /// Where a task goes whose inputs are equally large.
    pub ties: Ties,
}

/// To whose side a task goes of several inputs that are equally large but lie apart.
///
/// In a tile update all three tiles are equally large, so this decides where nearly all of the work
/// is done: with the tile that it changes, which spreads it evenly, or with a tile that it reads,
/// which crowds the NUMA nodes of the panel.
///
/// # Examples
/// See [`simulate`](simulate()).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ties {
    /// The one that the space names first, by custom the one that is changed. What workers do.
    #[default]
    First,
    /// The one that it names last, by custom one that is only read. Workers never do this; it is
    /// nearer to what the measurements of Al-Omairy et al. (2015) show of a runtime without
    /// stealing.
    Last,
}

/// How a run would have gone.
///
/// # Examples
/// See [`simulate`](simulate()).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Simulated {
    /// From the first task to the end of the last, initialisation not counted.
    pub seconds: f64,
    /// Tasks run.
    pub tasks: u64,
    /// Share of all workers' time in which they ran nothing.
    pub idle_share: f64,
    /// Mean seconds of a task, by the index of its class; 0 where there is none.
    pub mean_seconds: Vec<f64>,
    /// What each worker did.
    pub workers: Vec<WorkerStatistics>,
}

/// Why there is nothing to tell.
///
/// # Examples
/// ```
/// use dataflow_core::space::Independent;
/// use dataflow_numa::simulate::{Costs, SimulateError, Ties, simulate};
/// use dataflow_numa::{Bind, Policy, Topology};
///
/// let machine = Topology::flat(&[0, 1]);
/// let places = Bind::Cores.places(&machine, 2);
/// let tasks = Independent::new("step", 8, |_| Ok(()));
/// let mut costs = Costs { classes: vec![-1.0], initialise: 0.0, bytes: 0, remote_byte: 0.0,
///     round: 1e-6, ties: Ties::First };
/// let refused = simulate(&tasks, &machine, &places, &Policy::default(), &costs).unwrap_err();
/// assert!(matches!(&refused, SimulateError::WrongCost { value: -1.0, .. }));
/// assert_eq!(refused.to_string(), "the cost of class step is -1 (must be 0 to 86400 s, a day)");
///
/// costs.classes.clear();
/// let refused = simulate(&tasks, &machine, &places, &Policy::default(), &costs).unwrap_err();
/// assert_eq!(refused.to_string(), "tasks of class step have no cost: only 0 classes have one");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SimulateError {
    /// Zero workers run nothing.
    NoWorkers,
    /// More workers than may be inside a run at once.
    TooManyWorkers {
        /// How many places there are.
        n_workers: usize,
        /// How many are allowed: [`MANY_INSIDE`].
        most: usize,
    },
    /// A worker sits where the machine has no NUMA node: its place is one of another topology.
    NoSuchNode {
        /// Its index.
        worker: usize,
        /// On which it sits.
        numa_node: usize,
        /// How many the machine has.
        n_numa_nodes: usize,
    },
    /// A cost is negative, longer than a day, or no number.
    WrongCost {
        /// Which one.
        name: String,
        /// Its value.
        value: f64,
    },
    /// A class of the space has no cost.
    NoCost {
        /// The name of the class.
        class: String,
        /// How many classes have one.
        costs: usize,
    },
    /// The run failed, as it would on a machine: the space's edges do not agree, or one leads to another
    /// rank than rank 0, which is simulated.
    Failed(Error),
    /// A user's [scheduler](crate::policy::Scheduler) broke its law.
    SchedulerFailed {
        /// Its name, and what it did.
        what: String,
    },
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimulateError::NoWorkers => f.write_str("0 workers run nothing (1 at least)"),
            SimulateError::TooManyWorkers { n_workers, most } => {
                write!(f, "{n_workers} workers in virtual time (at most {most})")
            }
            SimulateError::NoSuchNode {
                worker,
                numa_node,
                n_numa_nodes,
            } => {
                write!(f, "worker {worker} sits on NUMA node {numa_node} (")?;
                match n_numa_nodes {
                    0 => f.write_str("there is none)"),
                    1 => f.write_str("there is 1: 0)"),
                    n => write!(f, "there are {n}: 0 to {})", n - 1),
                }
            }
            SimulateError::WrongCost { name, value } => {
                write!(
                    f,
                    "the cost {name} is {value} (must be 0 to {DAY} s, a day)"
                )
            }
            SimulateError::NoCost { class, costs } => {
                write!(f, "tasks of class {class} have no cost: only ")?;
                match costs {
                    1 => f.write_str("1 class has one"),
                    _ => write!(f, "{costs} classes have one"),
                }
            }
            SimulateError::Failed(error) => error.fmt(f),
            SimulateError::SchedulerFailed { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for SimulateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SimulateError::Failed(error) => error.source(),
            _ => None,
        }
    }
}

impl From<Error> for SimulateError {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::SchedulerFailed => SimulateError::SchedulerFailed {
                what: error.message().into(),
            },
            _ => SimulateError::Failed(error),
        }
    }
}

impl Simulated {
    /// What came of a run, of so many classes of tasks.
    fn of(machine: &VirtualMachine, tasks: u64, n_classes: usize) -> Self {
        let mut course = machine.course();
        course.spent.resize(n_classes, (Duration::ZERO, 0));
        let seconds = course.ended.as_secs_f64();
        let busy: f64 = course.spent.iter().map(|of| of.0.as_secs_f64()).sum();
        let available = seconds * machine.n_workers() as f64;
        let mean = |(all, tasks): &(Duration, u64)| all.as_secs_f64() / (*tasks).max(1) as f64;
        Simulated {
            seconds,
            tasks,
            idle_share: match available > 0.0 {
                true => (1.0 - busy / available).max(0.0),
                false => 0.0,
            },
            mean_seconds: course.spent.iter().map(mean).collect(),
            workers: machine.lanes().statistics(),
        }
    }

    /// The same as one worker.
    pub fn total(&self) -> Statistics {
        self.workers.iter().map(WorkerStatistics::total).sum()
    }
}

impl Costs {
    fn check(&self, about: &Description) -> Result<(), SimulateError> {
        let class = |(at, &seconds): (usize, &f64)| {
            let class = about.classes().get(at);
            let name = class.map_or_else(|| at.to_string(), |class| class.name.clone());
            (format!("of class {name}"), seconds)
        };
        let others = [
            ("initialise".to_string(), self.initialise),
            ("remote_byte".to_string(), self.remote_byte),
            ("round".to_string(), self.round),
        ];
        let all = self.classes.iter().enumerate().map(class).chain(others);
        let mut all = all.filter(|(_, value)| !(0.0..=DAY).contains(value));
        match all.next() {
            Some((name, value)) => Err(SimulateError::WrongCost { name, value }),
            None => Ok(()),
        }
    }

    /// What tasks of each class of a space take.
    fn of(&self, about: &Description) -> Result<Vec<Duration>, SimulateError> {
        let costs = self.classes.len();
        match about.classes().get(costs) {
            Some(class) => Err(SimulateError::NoCost {
                class: class.name.clone(),
                costs,
            }),
            None => Ok(self.classes.iter().copied().map(nanoseconds).collect()),
        }
    }
}

/// Runs a space on workers at the given places of a machine, in virtual time. Bodies are not run.
///
/// Some microseconds of real time a task on a small machine, more with patience; each task that begins or
/// ends asks idle workers, so it takes longer in proportion to the NUMA nodes that have some. Before that tables
/// are made, for `n` nodes `n` times as large as the list of workers. Memory for these and the tasks that wait.
///
/// # Errors
/// If a cost is missing or no cost, there are no workers or more than [`MANY_INSIDE`], one sits on a NUMA node that the
/// machine has not, or the run fails: the space contradicts itself or has
/// edges between ranks, or a user's scheduler broke its law.
///
/// ```
/// use dataflow_core::space::Independent;
/// use dataflow_numa::simulate::{Costs, Ties, simulate};
/// use dataflow_numa::{Bind, Policy, Topology};
///
/// let machine = Topology::flat(&[0, 1, 2, 3]);
/// let places = Bind::Cores.places(&machine, 4);
/// let tasks = Independent::new("tasks", 8, |_| Ok(()));
/// let costs = Costs { classes: vec![0.5], initialise: 0.0, bytes: 0, remote_byte: 0.0, round: 1e-6,
///     ties: Ties::First };
/// let run = simulate(&tasks, &machine, &places, &Policy::default(), &costs)?;
/// assert_eq!((run.seconds, run.idle_share), (1.0, 0.0));
/// # Ok::<(), dataflow_numa::simulate::SimulateError>(())
/// ```
pub fn simulate<S: TaskSpace>(
    space: &S,
    topology: &Topology,
    places: &[Place],
    policy: &Policy,
    costs: &Costs,
) -> Result<Simulated, SimulateError> {
    let played = play(space, (topology, places, policy), costs, false);
    played.map(|(simulated, _)| simulated)
}

/// The same, with the trace that such a run would leave: who runs which task when.
///
/// # Errors
/// As [`simulate`].
///
/// ```
/// # use dataflow_core::space::Independent;
/// # use dataflow_numa::simulate::{Costs, Ties, simulate_traced};
/// # use dataflow_numa::{Bind, Policy, Topology};
/// # let machine = Topology::flat(&[0, 1]);
/// # let places = Bind::Cores.places(&machine, 2);
/// # let costs = Costs { classes: vec![0.5], initialise: 0.0, bytes: 0, remote_byte: 0.0, round: 1e-6,
/// #     ties: Ties::First };
/// let tasks = Independent::new("tasks", 3, |_| Ok(()));
/// let (run, trace) = simulate_traced(&tasks, &machine, &places, &Policy::default(), &costs)?;
/// assert_eq!((run.seconds, trace.length()), (1.0, 1_000_000_000));
/// # Ok::<(), dataflow_numa::simulate::SimulateError>(())
/// ```
pub fn simulate_traced<S: TaskSpace>(
    space: &S,
    topology: &Topology,
    places: &[Place],
    policy: &Policy,
    costs: &Costs,
) -> Result<(Simulated, Trace), SimulateError> {
    let (simulated, trace) = play(space, (topology, places, policy), costs, true)?;
    Ok((simulated, trace.unwrap_or_default()))
}

/// Topology, places of workers on it, and what they do.
type Simulant<'s> = (&'s Topology, &'s [Place], &'s Policy);

fn play<S: TaskSpace>(
    space: &S,
    (topology, places, policy): Simulant<'_>,
    costs: &Costs,
    is_traced: bool,
) -> Result<(Simulated, Option<Trace>), SimulateError> {
    let mut about = Description::default();
    asked(|| space.describe(&mut about))?;
    costs.check(&about)?;
    expect_workers(places, topology.n_numa_nodes())?;
    let classes = costs.of(&about)?;
    let round = nanoseconds(costs.round);
    let lanes = Lanes::new(topology, places, policy, round, costs.remote_byte);

    let homes = asked(|| Homes::of(space, Rank(0)))?;
    let before = VirtualMachine::new(lanes, Vec::new());
    let initialise = Initialise::new(&before, homes.len(), nanoseconds(costs.initialise));
    run(&Erased::new(&initialise), &before)?;

    let machine = VirtualMachine::new(before.lanes().anew(), initialise.nodes());
    let bytes = |_, _| costs.bytes;
    let body = |task: S::Task| machine.spend(task.class(), classes[task.class()]);
    let phantom = asked(|| Phantom::of(space))?;
    let mut phantom = phantom.bytes(&bytes).body(&body);
    if costs.ties == Ties::Last {
        phantom = phantom.backwards();
    }
    let clock = Clock::given(machine.clock());
    let tracer = is_traced.then(|| Tracer::with_clock(usize::MAX, clock));
    let mut on = Context::new(&machine);
    if let Some(tracer) = &tracer {
        on = on.traced_by(tracer);
    }
    let tasks = run(&Erased::new(&phantom.on(&machine, homes)), &on)?;
    let trace = tracer.and_then(|tracer| tracer.take().pop());
    Ok((Simulated::of(&machine, tasks, classes.len()), trace))
}

/// There are workers, not too many, each on a NUMA node that is there.
fn expect_workers(places: &[Place], n_numa_nodes: usize) -> Result<(), SimulateError> {
    if places.is_empty() {
        return Err(SimulateError::NoWorkers);
    }
    if places.len() > MANY_INSIDE {
        return Err(SimulateError::TooManyWorkers {
            n_workers: places.len(),
            most: MANY_INSIDE,
        });
    }
    let is_elsewhere = |place: &Place| place.numa_node >= n_numa_nodes;
    match places.iter().position(is_elsewhere) {
        None => Ok(()),
        Some(worker) => Err(SimulateError::NoSuchNode {
            worker,
            numa_node: places[worker].numa_node,
            n_numa_nodes,
        }),
    }
}

/// Runs a space, also in the midst of a body: no worker of the caller's is waited for. How many tasks ran.
fn run(space: &Erased<'_, Length>, on: &dyn Executor) -> Result<u64, Error> {
    let report = aside(|| dataflow_core::run(space, on));
    report.map(|report| report.tasks)
}

/// Calls something with a state of the thread of its own, and gives the thread back its own one, also if
/// that unwinds.
fn aside<R>(call: impl FnOnce() -> R) -> R {
    struct Swapped(OfThread);
    impl Drop for Swapped {
        fn drop(&mut self) {
            self.0.swap();
        }
    }
    let mut own = Swapped(OfThread::default());
    own.0.swap();
    call()
}
