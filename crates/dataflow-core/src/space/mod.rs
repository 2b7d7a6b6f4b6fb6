//! Symbolic task spaces: a graph as a set of formulas.
//!
//! A space says for each task where its inputs come from and where its outputs go. Both ends of
//! every edge are written down, so that [`verify`] can prove that they agree; the in-degree is
//! derived. Nothing is unrolled: the engine asks when a task has run.

mod describe;
mod edges;
mod flows;
mod independent;
mod name;
mod verify;

pub use describe::{Class, ClassBuilder, Description, Flow, Mode};
pub use edges::{Inputs, Successors};
pub use flows::{Flows, Slot};
pub use independent::Independent;
pub use name::TaskName;
#[doc(hidden)]
pub use name::{pack_parameters, unpack_class, unpack_parameters};
pub use verify::{Fault, verify};

pub(crate) use edges::{Expected, HomeInputs, NARROW, is_root};

use crate::data::Datum;
use crate::error::TaskError;
use crate::rank::Rank;

/// A parameterised set of tasks and the edges between them.
///
/// All questions are pure: the same task gets the same answer, on every rank, at any time.
/// A space that contradicts itself is never unsound; it ends in a named error, and
/// [`verify`] names the edge beforehand.
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

    /// How urgent the task is; higher runs earlier. Never changes results.
    fn priority(&self, _task: Self::Task) -> i64 {
        0
    }

    /// The tasks of a rank that wait for no other task. By default found among
    /// [`tasks`](Self::tasks), which takes time in proportion to their number (not memory).
    fn roots(&self, on: Rank) -> impl Iterator<Item = Self::Task> + Send {
        self.tasks(on).filter(move |&task| is_root(self, task))
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
