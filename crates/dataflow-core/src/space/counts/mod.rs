//! Counts: what a run of a space does and sends, counted over its edges.
//!
//! # Law
//! No body runs, there are no data and no clock. Each task is walked once, when all its sources were, in
//! an order that the walk makes itself; kept are only the tasks of which some inputs are still missing.
//! Counted is what the engine does: a task is announced at most once to a rank, and a datum goes once to
//! each rank that waits for it.
//!
//! # Elsewhere
//! How the tree of a broadcast looks: `dataflow_mpi::Settings::each_hop`. Time: `dataflow_numa::simulate`.
//!
//! # Source
//! Zafari, Larsson, Tillenius, *DuctTeip*, Parallel Computing 90 (2019), §5.4 (paper 001): its simulation
//! mode counts in the same way.

mod held;
mod mixer;
mod walk;

use super::{Contradiction, TaskSpace};
use crate::rank::Rank;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;

/// What is to be counted: a space on some ranks, and what its data and tasks weigh.
///
/// # Examples
/// A chain of a hundred tasks, dealt out to two ranks in turn, whose datum has eight bytes:
/// ```
/// # use dataflow_core::prelude::*;
/// # use dataflow_core::space::counts::Counting;
/// # struct Chain { last: Store<u64> }
/// # impl TaskSpace for Chain {
/// #     type Task = u64;
/// #     type Datum = u64;
/// #     fn describe(&self, about: &mut Description) { about.class("Link").update("VALUE"); }
/// #     fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send { (0..100).filter(move |task| self.rank(*task) == on) }
/// #     fn rank(&self, task: u64) -> Rank { Rank(task as u32 % 2) }
/// #     fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
/// #         if task == 0 { from.home(0, &self.last, 0) } else { from.task(0, task - 1, 0) }
/// #     }
/// #     fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
/// #         if task == 99 { to.home(0, &self.last, 0) } else { to.task(0, task + 1, 0) }
/// #     }
/// #     fn run(&self, _: u64, _: &mut Flows<'_, u64>) -> Result<(), TaskError> { Ok(()) }
/// # }
/// # let chain = Chain { last: Store::new("last", [0]) };
/// let counts = Counting::of(&chain, 2).bytes(&|_, _| 8).count()?;
/// assert_eq!((counts.tasks(), counts.path.tasks, counts.area().tasks), (100, 100, 50));
/// assert_eq!((counts.sent().messages, counts.sent().bytes), (99, 99 * 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Counting<'c, S: TaskSpace> {
    space: &'c S,
    n_ranks: u32,
    bytes: &'c dyn Fn(S::Task, usize) -> u64,
    cost: &'c dyn Fn(S::Task) -> f64,
    route: Option<&'c Route<'c>>,
    workers: Option<NonZeroUsize>,
}

impl<S: TaskSpace> Clone for Counting<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: TaskSpace> Copy for Counting<'_, S> {}

impl<S: TaskSpace> fmt::Debug for Counting<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting")
            .field("n_ranks", &self.n_ranks)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

/// Who passes a parcel on to whom: hears each hop, from and to. Every receiver is reached by one.
///
/// # Examples
/// See [`Sending`](Sending#examples).
pub type Route<'r> = dyn Fn(&Sending<'_>, &mut dyn FnMut(Rank, Rank)) + 'r;

/// What a task posts to ranks that get the same of it.
///
/// # Examples
/// Three ranks wait for one task; its parcel goes from each to the next:
/// ```
/// # use dataflow_core::prelude::*;
/// use dataflow_core::space::counts::{Counting, Route};
///
/// # struct Star;
/// # impl TaskSpace for Star {
/// #     type Task = u32;
/// #     type Datum = ();
/// #     fn describe(&self, about: &mut Description) { about.class("Task").order("AFTER"); }
/// #     fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send { on.0..on.0 + 1 }
/// #     fn rank(&self, task: u32) -> Rank { Rank(task) }
/// #     fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
/// #         if task > 0 { from.task(0, 0, 0) }
/// #     }
/// #     fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
/// #         if task == 0 { to.range(0, 1..4, |task| task, 0) }
/// #     }
/// #     fn run(&self, _: u32, _: &mut Flows<'_, ()>) -> Result<(), TaskError> { Ok(()) }
/// # }
/// let row: &Route<'_> = &|sending, hop| {
///     let mut from = sending.from;
///     for &to in sending.to {
///         hop(from, to);
///         from = to;
///     }
/// };
/// let counts = Counting::of(&Star, 4).along(row).count()?;
/// let pairs = [(Rank(0), Rank(1)), (Rank(1), Rank(2)), (Rank(2), Rank(3))];
/// assert!(counts.pairs.keys().eq(&pairs));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sending<'p> {
    /// Where the task runs.
    pub from: Rank,
    /// Its name, as other ranks read it.
    pub task: &'p [u32],
    /// Who gets it, in ascending order.
    pub to: &'p [Rank],
    /// Total bytes of the task's data in this parcel.
    pub bytes: u64,
}

/// What was counted.
///
/// # Examples
/// See [`Counting`](Counting#examples).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Counts {
    /// By rank.
    pub ranks: Vec<OfRank>,
    /// From and to; pairs that send nothing are left out. What is passed on counts where it is passed on.
    pub pairs: BTreeMap<(Rank, Rank), Traffic>,
    /// The longest way through the graph: no run is shorter, whatever the ranks. Tasks and costs are
    /// each the most of any way, and need not be of the same one.
    pub path: CountedWork,
    /// Of the tasks that wait for some of their inputs, the most that did so at once.
    pub waiting: usize,
    /// How many rounds there were, if it was counted [in rounds](Counting::in_rounds).
    pub rounds: Option<u64>,
}

/// What one rank does, sends, gets and holds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct OfRank {
    /// What it runs.
    pub work: CountedWork,
    /// How many tasks of each class, in the order of the description.
    pub classes: Vec<u64>,
    /// What it sends and passes on.
    pub sent: Traffic,
    /// What it gets.
    pub received: Traffic,
    /// The most bytes of received data that it held at once, if it was counted
    /// [in rounds](Counting::in_rounds): each from the end of the round in which it was made to the end
    /// of that in which the last task here that gets it has run.
    pub held: u64,
}

/// Tasks, and what they cost.
///
/// # Examples
/// See [`Counting`](Counting#examples).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CountedWork {
    /// How many.
    pub tasks: u64,
    /// The sum of their costs, in the caller's unit.
    pub cost: f64,
}

/// What goes from rank to rank.
///
/// # Examples
/// See [`Counting`](Counting#examples).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Tasks announced, with data or without.
    pub activations: u64,
    /// Data.
    pub messages: u64,
    /// Of these data; the largest number if they are more.
    pub bytes: u64,
}

impl Traffic {
    fn add(&mut self, other: Traffic) {
        self.activations += other.activations;
        self.messages += other.messages;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl<'c, S: TaskSpace> Counting<'c, S> {
    /// A space on so many ranks. Until told otherwise data have no bytes, each task costs 1, and the rank
    /// of a task sends its data to all that get them.
    pub fn of(space: &'c S, n_ranks: u32) -> Self {
        Counting {
            space,
            n_ranks,
            bytes: &|_, _| 0,
            cost: &|_| 1.0,
            route: None,
            workers: None,
        }
    }

    /// The bytes of the datum that leaves a task through a flow; asked once for each that leaves its rank.
    #[must_use]
    pub fn bytes(self, bytes: &'c dyn Fn(S::Task, usize) -> u64) -> Self {
        Counting { bytes, ..self }
    }

    /// What a task costs: operations or seconds.
    #[must_use]
    pub fn cost(self, cost: &'c dyn Fn(S::Task) -> f64) -> Self {
        Counting { cost, ..self }
    }

    /// How parcels for several ranks travel.
    #[must_use]
    pub fn along(self, route: &'c Route<'c>) -> Self {
        let route = Some(route);
        Counting { route, ..self }
    }

    /// Walks the tasks in rounds: in each, every rank runs as many of its ready tasks as it has workers,
    /// the most urgent first, and what they make is everywhere when the next round begins. Then
    /// [`OfRank::held`] and [`Counts::rounds`] are counted too. A task takes a round whatever it costs:
    /// an order to compare others with, no prediction of time. Takes about six times as long, and
    /// memory also for the ready tasks and for the received data that are still needed.
    #[must_use]
    pub fn in_rounds(self, workers: NonZeroUsize) -> Self {
        let workers = Some(workers);
        Counting { workers, ..self }
    }

    /// Counts. Asks for each task's inputs once and for its successors once; memory is in proportion
    /// to the tasks that wait for a part of their inputs, and to the pairs of ranks that talk.
    ///
    /// # Errors
    /// A task on a rank that does not exist or with a flow that is not described, one of which some inputs
    /// never come, and more tasks on a rank than it has, if they are more than a million; and that there is
    /// no memory for so many ranks, of which each takes some 200 bytes. Other
    /// contradictions give wrong numbers: [`verify`](super::verify) finds them.
    pub fn count(&self) -> Result<Counts, Contradiction> {
        walk::count(self)
    }
}

impl Counts {
    /// The tasks of all ranks.
    pub fn tasks(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.work.tasks).sum()
    }

    /// What they cost.
    pub fn cost(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.work.cost).sum()
    }

    /// The most tasks and the highest cost of a rank, each of its own: no run is shorter than either on
    /// one worker a rank, or than their share on several.
    pub fn area(&self) -> CountedWork {
        let works = self.ranks.iter().map(|rank| rank.work);
        works.fold(CountedWork::default(), |most, work| CountedWork {
            tasks: most.tasks.max(work.tasks),
            cost: most.cost.max(work.cost),
        })
    }

    /// The mean cost of a rank ÷ the highest: no run is more efficient. 1 where nothing costs.
    pub fn balance(&self) -> f64 {
        let most = self.area().cost;
        match most > 0.0 {
            true => self.cost() / self.ranks.len() as f64 / most,
            false => 1.0,
        }
    }

    /// What all ranks send.
    pub fn sent(&self) -> Traffic {
        let mut all = Traffic::default();
        self.ranks.iter().for_each(|rank| all.add(rank.sent));
        all
    }

    /// The rank that sends most messages, and how many times the mean; none if nothing is sent.
    pub fn busiest_sender(&self) -> Option<(Rank, f64)> {
        let sent = |rank: &Rank| self.ranks[rank.0 as usize].sent.messages;
        let ranks = (0..self.ranks.len() as u32).map(Rank);
        // The lowest of equals.
        let busiest = ranks.rev().max_by_key(sent)?;
        let mean = self.sent().messages as f64 / self.ranks.len() as f64;
        (mean > 0.0).then(|| (busiest, sent(&busiest) as f64 / mean))
    }
}
