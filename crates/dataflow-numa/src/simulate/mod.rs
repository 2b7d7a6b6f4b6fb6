//! Simulate: what a policy would do on a machine that is not there, in virtual time.
//!
//! The tasks are those of a real space, the [policy](crate::policy), its queues and its lanes are the
//! ones that workers use; only time is made up. A task takes the time of its class, and more for
//! every byte of input that lies on another NUMA node. First every slot of the space's stores is
//! initialised by a task of its own, which settles where it lies; then the space is run.
//!
//! # Law
//! One thread, no clock, no chance: the same question has the same answer, to the last bit.
//!
//! # What the model leaves out
//! Caches, contention for memory and for links (a byte costs the same however many travel), the
//! time of the queues themselves, and migration of pages. What is slow because many do it at
//! once looks faster here than it is; so do workers that share a core: each is as fast as alone.

mod lanes;
mod machine;
mod script;
#[cfg(test)]
mod tests;

pub use lanes::{Lanes, Rest};

use crate::crew::Crew;
use crate::place::Place;
use crate::policy::Policy;
use crate::statistics::{Statistics, WorkerStatistics};
use crate::topology::Topology;
use dataflow_core::rank::Rank;
use dataflow_core::space::TaskSpace;
use dataflow_core::trace::{Schedule, Trace};
use machine::VirtualMachine;
use script::{Initialise, NumberedSpace};
use std::fmt;

/// What tasks and bytes cost.
///
/// # Examples
/// See [`simulate`](simulate()).
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Seconds of a task with all its data at hand, by the index of its class.
    pub classes: Vec<f64>,
    /// Seconds of a task that initialises a datum.
    pub initialise: f64,
    /// Bytes of a datum.
    pub bytes: u64,
    /// Seconds of a byte that lies on another NUMA node, for every 10 by which that is farther
    /// than the own one: what SLIT calls the time of a local access.
    pub remote_byte: f64,
    /// Seconds between two looks that an idle worker with patience makes by itself. When another worker
    /// begins or ends a task it may look as well, in no time, and every look counts as a round of its
    /// patience: so many rounds are the longest that it lasts.
    pub round: f64,
    /// Where a task goes whose inputs are equally large.
    pub ties: Ties,
}

/// To whose side a task goes of several inputs that are equally large but lie apart.
///
/// In a tile update all three tiles are equally large, so this decides where nearly all of the work
/// is done: with the tile that it changes, which spreads it evenly, or with a tile that it reads,
/// which crowds the NUMA nodes of the panel.
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
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SimulateError {
    /// Zero workers run nothing.
    NoWorkers,
    /// A cost is negative or no number.
    WrongCost {
        /// Which one.
        name: &'static str,
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
    /// The run ended while tasks waited: the space's edges do not agree.
    Stalled {
        /// How many.
        waiting: usize,
    },
    /// Tasks ran twice or never: the space's edges do not agree.
    NotEachOnce {
        /// How many ran.
        ran: u64,
        /// How many the space lists.
        tasks: u64,
    },
    /// An edge joins rank 0, which is simulated, to another.
    OtherRank {
        /// Which one.
        rank: Rank,
    },
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
            SimulateError::WrongCost { name, value } => {
                write!(f, "the cost {name} is {value} (must be 0 or more)")
            }
            SimulateError::NoCost { class, costs } => write!(
                f,
                "tasks of class {class} have no cost: only {costs} classes have one"
            ),
            SimulateError::Stalled { waiting } => write!(
                f,
                "{waiting} tasks still wait for inputs at the end: the edges of the space do not agree"
            ),
            SimulateError::NotEachOnce { ran, tasks } => write!(
                f,
                "{ran} tasks ran of {tasks}, not each of them once: the edges of the space do not agree"
            ),
            SimulateError::OtherRank { rank } => write!(
                f,
                "the space is dealt out: an edge joins rank 0 to rank {}, and only rank 0 is simulated",
                rank.0
            ),
            SimulateError::SchedulerFailed { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for SimulateError {}

impl Simulated {
    /// The same as one worker.
    pub fn total(&self) -> Statistics {
        self.workers.iter().map(WorkerStatistics::total).sum()
    }
}

impl Costs {
    fn check(&self) -> Result<(), SimulateError> {
        let classes = self.classes.iter().map(|&seconds| ("of a class", seconds));
        let others = [
            ("initialise", self.initialise),
            ("remote_byte", self.remote_byte),
            ("round", self.round),
        ];
        match classes
            .chain(others)
            .find(|&(_, value)| value.is_nan() || value < 0.0)
        {
            Some((name, value)) => Err(SimulateError::WrongCost { name, value }),
            None => Ok(()),
        }
    }
}

/// Runs a space on workers at the given places of a machine, in virtual time. Bodies are not run.
///
/// Some microseconds of real time a task, more with patience; memory for the tasks that wait.
///
/// # Errors
/// If a cost is missing or no cost, there are no workers, the space contradicts itself or has edges between
/// ranks, or a user's scheduler broke its law.
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
    let machine = (topology, places, policy);
    play(space, machine, costs, None)
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
    let machine = (topology, places, policy);
    let mut schedule = Schedule::new(places.len());
    let simulated = play(space, machine, costs, Some(&mut schedule))?;
    Ok((simulated, schedule.trace(space)))
}

/// Topology, places of workers on it, and what they do.
type Simulant<'s> = (&'s Topology, &'s [Place], &'s Policy);

fn play<S: TaskSpace>(
    space: &S,
    (topology, places, policy): Simulant<'_>,
    costs: &Costs,
    schedule: Option<&mut Schedule>,
) -> Result<Simulated, SimulateError> {
    costs.check()?;
    if places.is_empty() {
        return Err(SimulateError::NoWorkers);
    }
    let numa_nodes: Vec<usize> = places.iter().map(|place| place.numa_node).collect();
    let crew = Crew::new(topology, &numa_nodes, policy.reach);
    let mut machine = VirtualMachine::new(&crew, policy, costs.round);

    let failed = |what| SimulateError::SchedulerFailed { what };
    let mut graph = NumberedSpace::new(space, &crew, costs)?;
    graph.is_of_one_rank()?;
    let mut initialise = Initialise::new(graph.n_homes(), costs.initialise);
    machine.play(&mut initialise).map_err(failed)?;
    graph.settle(initialise.into_homes());

    let mut machine = VirtualMachine::new(&crew, policy, costs.round);
    graph.schedule = schedule;
    let played = machine.play(&mut graph).map_err(failed)?;
    graph.is_whole()?;
    let available = played.seconds * places.len() as f64;
    Ok(Simulated {
        seconds: played.seconds,
        tasks: played.tasks,
        idle_share: match available > 0.0 {
            true => (1.0 - played.busy / available).max(0.0),
            false => 0.0,
        },
        mean_seconds: graph.mean_seconds(),
        workers: machine.statistics().collect(),
    })
}
