//! Symbolic task spaces: a graph as a set of formulas.
//!
//! A space says for each task where its inputs come from and where its outputs go. Both ends of
//! every edge are written down, so that [`verify`] can prove that they agree; the in-degree is
//! derived. The graph is never stored: the engine asks for a task's inputs when one of them arrives, and for
//! its successors when it has run.

mod collect;
pub mod counts;
mod describe;
mod edges;
mod erased;
mod flows;
mod independent;
mod loops;
mod name;
mod named;
mod verify;
mod walk;

pub use collect::{Collect, CollectTask};
pub use describe::{Class, ClassBuilder, Description, Flow, Mode};
#[doc(hidden)]
pub use edges::is_root;
pub use edges::{Inputs, Successors};
#[doc(hidden)]
pub use erased::AnyName;
pub use erased::Erased;
pub use flows::{Flows, Slot};
pub use independent::Independent;
pub use name::TaskName;
pub(crate) use name::in_order;
#[doc(hidden)]
pub use name::{
    Number, Spelling, pack_parameters, unpack_class, unpack_parameters, wire_parameters,
};
pub(crate) use named::{HomeSlot, NamedSpace};
#[doc(hidden)]
pub use verify::is_verify_asked;
pub use verify::{Contradiction, verify};
pub(crate) use verify::{FEW, asked_in_panic, misplaced, verify_if_asked, wrong_in_small};
#[doc(hidden)]
pub use walk::{Nest, NestWalk, Steps, asked, counted, dealt, narrow, walk};

pub(crate) use edges::{CountedInputs, HomeInputs, NARROW, Sources};
pub(crate) use name::number_of;

use crate::data::Datum;
use crate::error::{Error, TaskError};
use crate::rank::Rank;
use std::any::type_name;
use std::iter;

/// A parameterised set of tasks and the edges between them.
///
/// All methods but `run` must be pure: for the same task they answer the same, on every rank, at any
/// time. They should be formulas, some nanoseconds each: an edge or a priority is asked for more than once,
/// and other workers may wait meanwhile.
/// A space that contradicts itself is never unsound. Its run ends in a named error if an edge has
/// one end only or a wrong one, if a flow is fed twice or not at all (where edges carry no data, that a
/// task names one edge twice is looked for in debug builds alone), if tasks wait for one another in
/// a circle, if counts or ranks are wrong, or if a slot of a store is filled twice, or taken from and
/// not filled again.
///
/// Before any run, with small parameters, [`verify`] finds all that, and names the edge. It also finds
///
/// - a root that is announced twice in place of another;
/// - a datum that is taken from a slot for updating and does not come back, neither itself nor a version of it;
/// - a slot that is replaced while it is read;
/// - an edge whose ends say different kinds;
/// - two names that pack to one number.
///
/// `DATAFLOW_VERIFY=1` has small spaces verified before they run.
///
/// # Examples
/// See the [crate] for a chain, the example `alignment` for a wavefront, and
/// `dataflow_linalg::cholesky` for a factorisation.
pub trait TaskSpace: Sync + Sized {
    /// The name of a task: a class and its parameters; see [`task_names!`](crate::task_names).
    type Task: TaskName;
    /// The type of the data that flow along the edges. If it has no size, as `()`, edges only order tasks:
    /// bodies get no flows, and nothing is taken from home or brought there (but where a body of a
    /// [`task_space!`](crate::task_space!) names a datum, it gets it).
    type Datum: Datum;

    /// Whether edges carry data: what this library lends to bodies itself it lends whatever its size.
    #[doc(hidden)]
    const CARRIES: bool = size_of::<Self::Datum>() != 0;

    /// Names the space, its parameters, its classes and their flows.
    ///
    /// Where edges carry data, a task has a place for each flow of its class, fed or not, and takes time for
    /// each; while it waits there is room for four, and more are allocated. So tasks of very different widths
    /// are better of different classes.
    fn describe(&self, about: &mut Description);

    /// The tasks placed on a rank, lazily, in any order. The list must have an end.
    fn tasks(&self, on: Rank) -> impl Iterator<Item = Self::Task> + Send;

    /// Where each flow of a task comes from: another task's flow, or home.
    fn inputs(&self, task: Self::Task, from: &mut impl Inputs<Self>);

    /// Where each flow of a task goes: to tasks, or home.
    fn successors(&self, task: Self::Task, to: &mut impl Successors<Self>);

    /// The body of the task. It has no access to the engine, and must not block.
    ///
    /// # Errors
    /// A fault of the data. Descendants of the task are then skipped; all other tasks run.
    fn run(&self, task: Self::Task, flows: &mut Flows<'_, Self::Datum>) -> Result<(), TaskError>;

    /// The rank on which the task runs.
    fn rank(&self, _task: Self::Task) -> Rank {
        Rank(0)
    }

    /// The rank whose store has the datum that a flow of the task takes from home or brings there. It
    /// must be the task's own rank, since a task cannot reach other ranks' stores; [`verify`] names the
    /// flows where it is not. By default nothing is known, and the task's rank is assumed.
    fn owner(&self, task: Self::Task, _flow: usize) -> Rank {
        self.rank(task)
    }

    /// How urgent the task is: of ready tasks the one with the higher number runs earlier, where a root is
    /// ready once a worker has pulled it, a few at a time as work runs out. Results do not depend on it.
    fn priority(&self, _task: Self::Task) -> i64 {
        0
    }

    /// The tasks of a rank that wait for no other task. By default they are searched among
    /// [`tasks`](Self::tasks), which takes time, but no memory, in proportion to their number.
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

    /// How many tasks a rank has. By default they are counted one by one, up to 2³² of them.
    ///
    /// # Panics
    /// By default if more are listed: the list may have no end.
    fn count(&self, on: Rank) -> u64 {
        let mut n = 0;
        // Iterators inside of iterators would be compiled once more, for `count`.
        for _ in self.tasks(on) {
            n += 1;
            if n > MOST_COUNTED {
                too_many_to_count(type_name::<Self>(), on);
            }
        }
        n
    }

    /// Optional: a number of the task in a dense range from 0, injective over the space.
    ///
    /// Where edges carry no data, the engine then counts arrivals in an array of one byte a task
    /// (allocated by pages when first touched) instead of a hash table of the waiting tasks. That is
    /// faster, and takes memory in proportion to the space. A number of 2³⁶ or more counts as none.
    fn index(&self, _task: Self::Task) -> Option<usize> {
        None
    }

    /// The task of a packed name. [`Erased`] alone has names that do not know their own type.
    #[doc(hidden)]
    #[inline(always)]
    fn named(&self, packed: u64) -> Self::Task {
        Self::Task::unpack(packed)
    }

    /// The task of a name as ranks send it.
    #[doc(hidden)]
    fn named_by(&self, words: &[u32]) -> Option<Self::Task> {
        Self::Task::from_wire(words)
    }

    /// An error of a run, its tasks told as the user knows them: those of a recorded program have numbers
    /// here, and names in the program.
    #[doc(hidden)]
    fn explained(&self, error: Error) -> Error {
        error
    }

    /// What traces read of names.
    #[doc(hidden)]
    fn spelling(&self) -> Spelling {
        Spelling::of::<Self::Task>()
    }
}

/// Tasks of a rank that are counted one by one. A few seconds, so that a list without an end is told.
const MOST_COUNTED: u64 = if cfg!(test) { 1 << 16 } else { 1 << 32 };

#[cold]
fn too_many_to_count(space: &str, on: Rank) -> ! {
    panic!(
        "`tasks` of {space} lists more than {MOST_COUNTED} tasks on {on} (the list must have an end; a space \
         with so many needs a method `count`)"
    )
}

/// Selects the tasks that a space places on a rank: write [`TaskSpace::tasks`] with it, from an
/// iterator of all tasks.
///
/// It does what `filter` does and compiles faster: `filter` is compiled with the loops of the iterator
/// inside it, once for each of the ways in which an iterator is consumed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::port::Inline;

    struct Endless;

    impl TaskSpace for Endless {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.class("Task");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            (0..3).cycle()
        }
        fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }

    /// They were counted for ever.
    #[test]
    fn a_list_of_tasks_without_an_end_is_told_before_it_runs() {
        let told = "Endless lists more than 65536 tasks on rank 0 (the list must have an end";
        let error = crate::run(&Endless, &Inline).unwrap_err();
        assert_eq!(error.kind(), Kind::TaskPanicked);
        assert!(error.message().contains(told), "{error}");
        let fault = verify(&Endless, 1).unwrap_err().to_string();
        assert!(fault.contains(told), "{fault}");
    }
}
