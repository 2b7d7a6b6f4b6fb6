//! Symbolic task spaces: a graph as a set of formulas.
//!
//! A space says for each task where its inputs come from and where its outputs go. Both ends of
//! every edge are written down, so that [`verify`] can prove that they agree; the in-degree is
//! derived. Nothing is unrolled: the engine asks when a task has run.

mod asked;
mod describe;
mod edges;
mod flows;
mod independent;
mod loops;
mod name;
mod then;
mod verify;

pub(crate) use asked::{Asked, Home};
pub use describe::{Class, ClassBuilder, Description, Flow, Mode};
#[doc(hidden)]
pub use edges::is_root;
pub use edges::{Inputs, Successors};
pub use flows::{Flows, Slot};
pub use independent::Independent;
#[doc(hidden)]
pub use loops::dealt;
pub use name::TaskName;
#[doc(hidden)]
pub use name::{pack_parameters, unpack_class, unpack_parameters};
pub use then::{Either, Then};
pub use verify::{Fault, verify};
pub(crate) use verify::{misplaced, verify_if_asked};

pub(crate) use edges::{Expected, HomeInputs, NARROW, Sources, number_of};

use crate::data::Datum;
use crate::error::TaskError;
use crate::rank::Rank;
use std::iter;

/// A parameterised set of tasks and the edges between them.
///
/// All questions are pure: the same task gets the same answer, on every rank, at any time.
/// A space that contradicts itself is never unsound. Its run ends in a named error if an edge has
/// one end only or a wrong one, a flow is fed twice or not at all, tasks wait for one another, counts
/// or ranks are wrong, a slot of a store is put twice, or taken and not brought back.
/// What a run cannot see [`verify`] proves beforehand, naming the edge: that data are brought back
/// as what became of them, that a slot that is read is not replaced meanwhile, that kinds agree, and
/// that two names never pack to one number. `DATAFLOW_VERIFY=1` has small spaces verified before
/// they run.
///
/// # Examples
/// See the [crate] for a chain, the example `alignment` for a wavefront, and
/// `dataflow_linalg::cholesky` for a factorisation.
pub trait TaskSpace: Sync + Sized {
    /// The name of a task: a class and its parameters; see [`task_names!`](crate::task_names).
    type Task: TaskName;
    /// What flows along the edges; `()` if they only order tasks.
    type Datum: Datum;

    /// Names the space, its parameters, its classes and their flows.
    fn describe(&self, about: &mut Description);

    /// The tasks placed on a rank, lazily, in any order.
    fn tasks(&self, on: Rank) -> impl Iterator<Item = Self::Task> + Send;

    /// Where each flow of a task comes from: another task's flow, or home.
    fn inputs(&self, task: Self::Task, from: &mut impl Inputs<Self>);

    /// Where each flow of a task goes: to tasks, or home.
    fn successors(&self, task: Self::Task, to: &mut impl Successors<Self>);

    /// What the task does. The body never sees the engine and never blocks.
    ///
    /// # Errors
    /// The data's fault; descendants of the task are skipped, everything else runs.
    fn run(&self, task: Self::Task, flows: &mut Flows<'_, Self::Datum>) -> Result<(), TaskError>;

    /// Where the task runs.
    fn rank(&self, _task: Self::Task) -> Rank {
        Rank(0)
    }

    /// The rank whose store has the datum that a flow of the task takes from home or brings there. It
    /// must be the task's own, since a task sees no other's: [`verify`] says where it is not. By
    /// default nothing is known, and it is taken for the task's.
    fn owner(&self, task: Self::Task, _flow: usize) -> Rank {
        self.rank(task)
    }

    /// How urgent the task is; higher runs earlier. Never changes results.
    fn priority(&self, _task: Self::Task) -> i64 {
        0
    }

    /// The tasks of a rank that wait for no other task. By default found among
    /// [`tasks`](Self::tasks), which takes time in proportion to their number (not memory).
    fn roots(&self, on: Rank) -> impl Iterator<Item = Self::Task> + Send {
        let mut tasks = self.tasks(on);
        iter::from_fn(move || {
            loop {
                let task = tasks.next()?;
                if is_root(self, task) {
                    return Some(task);
                }
            }
        })
    }

    /// How many tasks a rank has. By default counted, one by one.
    fn count(&self, on: Rank) -> u64 {
        self.tasks(on).count() as u64
    }

    /// Optional: a number of the task in a dense range from 0, injective over the space.
    ///
    /// Where edges carry no data, the engine then counts arrivals in an array of one byte a task
    /// (allocated by pages when first touched) instead of a hash table of waiting tasks only:
    /// faster, for memory in proportion to the space. A number of 2³⁶ or more counts as none.
    fn index(&self, _task: Self::Task) -> Option<usize> {
        None
    }
}

/// Those of these tasks that a space places on a rank: what [`TaskSpace::tasks`] lists, of all.
///
/// As `filter` would do it, but for the time to compile: `filter` brings the loops of every iterator
/// inside of it, once for each way to ask.
///
/// # Examples
/// ```
/// # use dataflow_core::prelude::*;
/// # use dataflow_core::space::placed;
/// # struct Sums;
/// # impl TaskSpace for Sums {
/// # type Task = u64;
/// # type Datum = ();
/// # fn describe(&self, about: &mut Description) { about.class("Sum"); }
/// fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
///     placed(self, on, 0..100)
/// }
/// fn rank(&self, task: u64) -> Rank {
///     Rank(task as u32 % 2)
/// }
/// # fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
/// # fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
/// # fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> { Ok(()) }
/// # }
/// # assert_eq!(Sums.tasks(Rank(1)).count(), 50);
/// ```
pub fn placed<S: TaskSpace>(
    space: &S,
    on: Rank,
    tasks: impl Iterator<Item = S::Task> + Send,
) -> impl Iterator<Item = S::Task> + Send {
    let mut tasks = tasks;
    iter::from_fn(move || {
        loop {
            let task = tasks.next()?;
            if space.rank(task) == on {
                return Some(task);
            }
        }
    })
}
