#![doc = include_str!("README.md")]

mod activate;
mod announce;
mod dense;
mod job;
mod ledger;
mod names;
mod pending;
mod release;
mod run;
mod slots;
mod stall;

pub(crate) use job::Offered;
pub use job::{Entered, Job};
pub(crate) use ledger::Ledger;

use crate::error::{Error, Kind};
use crate::monitor::Monitor;
use crate::port::{Alone, Courier, Executor};
use crate::rank::Rank;
use crate::space::{Description, TaskSpace};
use crate::sync::{AtomicU64, Ordering};
use announce::Roots;
use dense::Dense;
use names::Names;
use pending::Pending;
use slots::Slots;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// What a run did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Tasks executed.
    pub tasks: u64,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Tasks executed by each worker.
    pub tasks_by_worker: Vec<u64>,
    /// Data that were copied because an updated version was still shared, by class.
    pub copies_by_class: Vec<(String, u64)>,
}

impl Report {
    /// Data that were copied, in all.
    pub fn copies(&self) -> u64 {
        self.copies_by_class.iter().map(|(_, copies)| copies).sum()
    }
}

/// Runs all tasks of a space on one rank.
///
/// # Errors
/// The smallest failure of a body by (index, task), the same under every schedule; or the fault
/// of the space that was met first. The executor can be used again at once.
pub fn run<S: TaskSpace>(space: &S, on: &dyn Executor) -> Result<Report, Error> {
    run_with(space, on, &Alone, &Monitor::new())
}

/// Runs the tasks that a space places on the courier's rank, watched by a monitor.
///
/// # Errors
/// As [`run`], and [`Kind::Cancelled`].
pub fn run_with<S: TaskSpace>(
    space: &S,
    on: &dyn Executor,
    courier: &dyn Courier,
    monitor: &Monitor,
) -> Result<Report, Error> {
    if run::inside_a_body() {
        let text =
            "a task's body called `run`: a worker cannot wait for tasks that it should run itself";
        return Err(Error::new(Kind::NestedRun, None, text));
    }
    let start = Instant::now();
    let rank = courier.rank();
    let run = Run::new(space, space.roots(rank), courier, on.n_workers());
    let offered = Offered::new(&run, |run| run.ledger.stop());
    monitor.watch(&run.ledger, offered.job());
    on.execute(offered.job());
    // The gate is closed here, whatever the executor did: from now on the run is ours alone.
    drop(offered);
    run.finish(monitor, start.elapsed().as_secs_f64())
}

/// One run: what its steps share.
struct Run<'a, S: TaskSpace, R> {
    space: &'a S,
    description: Description,
    rank: Rank,
    n_ranks: usize,
    names: Names<S::Task>,
    roots: Mutex<Roots<R>>,
    pending: Pending<S::Datum>,
    dense: Dense,
    ledger: Arc<Ledger>,
    copies: Box<[AtomicU64]>,
    failure: Mutex<Option<Failure<S::Task>>>,
}

/// The failure to report, and its place in the order of failures.
struct Failure<T> {
    /// A fault that stopped the run goes before what bodies reported.
    order: (bool, u64, Option<T>),
    error: Error,
}

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Run<'a, S, R> {
    /// Whether edges carry data at all.
    const CARRIES: bool = size_of::<S::Datum>() != 0;

    fn new(space: &'a S, roots: R, courier: &dyn Courier, n_workers: usize) -> Self {
        let description = Description::of(space);
        let copies = description
            .classes()
            .iter()
            .map(|_| AtomicU64::new(0))
            .collect();
        Run {
            space,
            description,
            rank: courier.rank(),
            n_ranks: courier.n_ranks(),
            names: Names::new(),
            roots: Mutex::new(Roots::new(roots)),
            pending: Pending::new(),
            dense: Dense::new(),
            ledger: Arc::new(Ledger::new(n_workers, space.count(courier.rank()))),
            copies,
            failure: Mutex::new(None),
        }
    }

    /// Notes the failure of a body: the smallest by (index, task) is reported.
    #[cold]
    fn note(&self, task: S::Task, error: Error) {
        let order = (true, error.index().unwrap_or(u64::MAX), Some(task));
        self.keep(Failure { order, error });
    }

    /// Notes a fault that ends the run: the first one is reported.
    #[cold]
    fn fail(&self, kind: Kind, task: Option<S::Task>, text: impl Into<String>) {
        if !self.ledger.is_stopped() {
            let error = Error::new(kind, task.map(|task| format!("{task:?}")), text);
            self.keep(Failure {
                order: (false, 0, None),
                error,
            });
        }
        self.ledger.stop();
    }

    fn keep(&self, failure: Failure<S::Task>) {
        let mut kept = self.failure();
        if kept.as_ref().is_none_or(|kept| failure.order < kept.order) {
            *kept = Some(failure);
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<Failure<S::Task>>> {
        self.failure
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What became of the run, once nobody is inside.
    fn finish(self, monitor: &Monitor, seconds: f64) -> Result<Report, Error> {
        let executed = self.ledger.executed();
        if let Some(failure) = self.failure().take() {
            return Err(failure.error);
        }
        if monitor.is_cancelled() && executed < self.ledger.count() {
            let text = format!(
                "cancelled after {executed} of {} tasks",
                self.ledger.count()
            );
            return Err(Error::new(Kind::Cancelled, None, text));
        }
        // The report asks the space about tasks that it may never have listed.
        let complete = AssertUnwindSafe(|| self.check_complete(executed));
        catch_unwind(complete).unwrap_or_else(|panic| Err(self.unexplained(executed, &*panic)))?;
        let classes = self.description.classes().iter().zip(&self.copies);
        Ok(Report {
            tasks: executed,
            seconds,
            tasks_by_worker: self.ledger.executed_by_worker(),
            copies_by_class: classes
                .map(|(class, copies)| (class.name.clone(), copies.load(Ordering::Relaxed)))
                .collect(),
        })
    }
}

thread_local! {
    /// Whether this thread is running tasks.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}
