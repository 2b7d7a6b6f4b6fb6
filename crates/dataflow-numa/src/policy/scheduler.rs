//! Scheduler: a policy of the user's own.
//!
//! # Law
//! A scheduler orders tasks and never changes a result. One that loses a task, hands one out twice,
//! holds tasks back or panics ends the run with
//! [`Kind::SchedulerFailed`](dataflow_core::Kind::SchedulerFailed) and its name: no body runs twice,
//! and nothing hangs. Only where its queues panic as they are dropped the run is over already, and ends
//! as if they had not. What it is told about a task is only a hint, possibly wrong.
//!
//! # Source
//! Sorensen, Baden, *Hiding communication latency with non-SPMD, graph-based execution* (Thyme):
//! the scheduler is the user's to replace, and performance meta-data
//! on the task graph inform it.

use crate::crew::Crew;
use dataflow_core::port::{Hint, Ready};

/// Makes the queues of each job; given to [`Policy::custom`](super::Policy::custom).
///
/// What it is told of a task are an opaque word, class, priority and where the data lie, never the task's name:
/// what else it is to go by the space encodes in the priority.
///
/// ```
/// use dataflow_numa::policy::{Crew, Policy, Ready, ReadyQueue, Scheduler};
/// use dataflow_numa::Workers;
/// use std::sync::{Arc, Mutex};
///
/// /// The least urgent first.
/// #[derive(Debug)]
/// struct Backwards;
///
/// #[derive(Default)]
/// struct Pile(Mutex<Vec<Ready>>);
///
/// impl Scheduler for Backwards {
///     fn name(&self) -> &str {
///         "backwards"
///     }
///     fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
///         Box::new(Pile::default())
///     }
/// }
///
/// impl ReadyQueue for Pile {
///     fn push(&self, _worker: usize, task: Ready) {
///         let mut pile = self.0.lock().unwrap();
///         pile.push(task);
///         pile.sort_by_key(|task| -task.priority);
///     }
///     fn take(&self, _worker: usize) -> Option<Ready> {
///         self.0.lock().unwrap().pop()
///     }
///     fn is_empty(&self) -> bool {
///         self.0.lock().unwrap().is_empty()
///     }
/// }
///
/// let policy = Policy::custom(Arc::new(Backwards));
/// let workers = Workers::builder().n_workers(1).policy(policy).build()?;
/// let ran = Mutex::new(Vec::new());
/// # use dataflow_core::sequence::scope;
/// scope(&workers, |s| {
///     for urgency in [2, 3, 1] {
///         let ran = &ran;
///         s.priority(urgency).task((), move |()| ran.lock().unwrap().push(urgency));
///     }
/// })
/// .unwrap();
/// assert_eq!(ran.into_inner().unwrap(), [1, 2, 3]);
/// # Ok::<(), dataflow_numa::WorkersError>(())
/// ```
pub trait Scheduler: Send + Sync + std::fmt::Debug {
    /// What reports call it.
    fn name(&self) -> &str;

    /// The queues of a job that starts now.
    fn open(&self, crew: &Crew) -> Box<dyn ReadyQueue>;
}

/// The queues of one job, shared by all workers.
///
/// # Law
/// Every task that was pushed is taken once, and *every* worker can take it: a worker that gets `None`
/// from `take` while `is_empty` returns false asks again at once.
/// `is_empty` takes account of what the calling thread has pushed. The run fails if `is_empty` returns false
/// and no worker is given a task for a second, while none has one; in
/// [virtual time](crate::simulate) after a thousand looks for each worker, while no task runs.
///
/// They are dropped by whoever held them last: the caller of the run or a worker, also after the run has returned.
///
/// # Examples
/// See [`Scheduler`], and [`Crew`](Crew#examples) for one that knows of NUMA nodes.
pub trait ReadyQueue: Send + Sync {
    /// A task became ready on a worker.
    fn push(&self, worker: usize, task: Ready);

    /// What the worker is to run next; `None` if nothing is queued.
    fn take(&self, worker: usize) -> Option<Ready>;

    /// Whether nothing is queued. Asked by workers that are about to sleep.
    fn is_empty(&self) -> bool;

    /// Whether something queued should run before a task of this priority, which the worker has
    /// just made ready. If so, that one is queued too.
    fn outranks(&self, _worker: usize, _priority: i64) -> bool {
        false
    }

    /// Whether a task whose data lie so is to be queued, be it the most urgent that the worker has
    /// just made ready, or a root.
    fn goes_elsewhere(&self, _worker: usize, _hint: Hint) -> bool {
        false
    }

    /// A task of a class, an index into the space's description, took so long on a worker. Not told in
    /// virtual time.
    fn measured(&self, _worker: usize, _class: usize, _seconds: f64) {}
}
