//! Common: what every run has, whatever way its program was written: counts, the failure that it
//! reports, and what is noted of it.
//!
//! # Law
//! What stopped a run goes before what bodies reported, also if it was cancelled from outside before all
//! its tasks had run; of those the smallest by (index, key of the task) is kept, whatever the schedule.

use super::monitor::Monitor;
use super::{Job, Ledger, Report};
use crate::error::{Error, Kind};
use crate::port::{Executor, Lane};
use crate::sync::{AtomicU64, Ordering, held};
use crate::trace::TracedRun;
use crate::words::counted;
use std::sync::{Arc, Mutex, MutexGuard};

/// See the [module](self). `K` orders the failures of tasks.
pub(crate) struct Common<K> {
    pub ledger: Arc<Ledger>,
    /// Where workers note what they do, if the executor has a tracer.
    pub opened: Option<Arc<TracedRun>>,
    /// What one of its tasks is called.
    called: &'static str,
    failure: Mutex<Option<OrderedError<K>>>,
    local_bytes: AtomicU64,
    remote_bytes: AtomicU64,
}

/// The failure to report, and its place in the order of failures.
#[derive(Debug)]
pub(crate) struct OrderedError<K> {
    order: ErrorOrder<K>,
    pub error: Error,
}

/// What is reported goes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ErrorOrder<K> {
    /// It stopped the run.
    Stops,
    /// The body of a task failed, with this index.
    OfBody(u64, K),
}

impl<K> OrderedError<K> {
    /// What stopped the run.
    pub fn stopping(error: Error) -> Self {
        let order = ErrorOrder::Stops;
        OrderedError { order, error }
    }

    /// The task that failed, if the run was not stopped.
    pub fn task(&self) -> Option<&K> {
        match &self.order {
            ErrorOrder::Stops => None,
            ErrorOrder::OfBody(_, task) => Some(task),
        }
    }
}

/// What a worker's tasks have read in one visit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BytesRead {
    /// On its own NUMA node.
    pub local: u64,
    /// On others.
    pub remote: u64,
}

impl BytesRead {
    /// The task that is about to run reads so many bytes on a node; the lane is told.
    pub fn read(&mut self, lane: &mut dyn Lane, node: usize, bytes: u64) {
        match lane.reads(node, bytes) {
            true => self.local += bytes,
            false => self.remote += bytes,
        }
    }
}

/// How many data were copied, by class.
pub(crate) struct Copies(Box<[AtomicU64]>);

impl Copies {
    pub fn none(n_classes: usize) -> Self {
        Copies((0..n_classes).map(|_| AtomicU64::new(0)).collect())
    }

    pub fn note(&self, class: usize) {
        self.0[class].fetch_add(1, Ordering::Relaxed);
    }

    /// By the names of the classes, in their order.
    pub fn by_class<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<(String, u64)> {
        let copies = self.0.iter().map(|copies| copies.load(Ordering::Relaxed));
        names.map(String::from).zip(copies).collect()
    }
}

impl<K: Ord> Common<K> {
    pub fn new(ledger: Arc<Ledger>, opened: Option<Arc<TracedRun>>) -> Self {
        Common {
            ledger,
            opened,
            called: "task",
            failure: Mutex::new(None),
            local_bytes: AtomicU64::new(0),
            remote_bytes: AtomicU64::new(0),
        }
    }

    /// The same, of a run whose tasks are called so.
    pub fn of(self, called: &'static str) -> Self {
        Common { called, ..self }
    }

    /// The body of a task has failed: the smallest by (index, key) is reported.
    #[cold]
    pub fn note(&self, task: K, error: Error) {
        let order = ErrorOrder::OfBody(error.index().unwrap_or(u64::MAX), task);
        self.keep(OrderedError { order, error });
    }

    /// The run ends for this: the first is reported.
    #[cold]
    pub fn stop(&self, error: Error) {
        if !self.ledger.is_stopped() {
            self.keep(OrderedError::stopping(error));
        }
        self.ledger.stop();
    }

    /// Whether anything has gone wrong so far.
    pub fn has_failed(&self) -> bool {
        self.failure().is_some()
    }

    /// Adds what was read in a visit.
    pub fn note_read(&self, read: BytesRead) {
        let counts = [
            (&self.local_bytes, read.local),
            (&self.remote_bytes, read.remote),
        ];
        for (count, bytes) in counts.into_iter().filter(|(_, bytes)| *bytes > 0) {
            count.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn keep(&self, failure: OrderedError<K>) {
        let mut kept = self.failure();
        if kept.as_ref().is_none_or(|kept| failure.order < kept.order) {
            *kept = Some(failure);
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<OrderedError<K>>> {
        held(&self.failure)
    }

    /// Runs the job on an executor, watched by its monitor, if it has one.
    pub fn execute(&self, on: &dyn Executor, job: &Arc<Job>) {
        if let Some(monitor) = on.monitor() {
            monitor.watch(&self.ledger, job);
        }
        on.execute(job);
    }

    /// Once nobody is inside: what stopped the run or failed in it, or that it was cancelled, or that
    /// the executor did not run what it was given.
    pub fn ended(&self, is_complete: bool, on: &dyn Executor) -> Result<(), OrderedError<K>> {
        let failure = self.failure().take();
        let is_cancelled = !is_complete && on.monitor().is_some_and(Monitor::is_cancelled);
        match failure {
            // A smaller one may be among the tasks that did not run.
            Some(failure) if !(is_cancelled && failure.task().is_some()) => Err(failure),
            None if is_complete => Ok(()),
            _ if is_cancelled => Err(self.cancelled()),
            _ => {
                let text = format!("the executor has lost {}s: it ran", self.called);
                Err(self.only(Kind::Stalled, &text))
            }
        }
    }

    /// The run was ended from outside.
    pub fn cancelled(&self) -> OrderedError<K> {
        self.only(Kind::Cancelled, "cancelled after")
    }

    /// So many ran, and no more.
    fn only(&self, kind: Kind, text: &str) -> OrderedError<K> {
        let executed = self.ledger.executed();
        // Of a recursion nobody knows how many calls there would have been.
        let ran = match self.ledger.count() {
            0 => counted(executed, self.called),
            count => format!("{executed} of {}", counted(count, self.called)),
        };
        let text = format!("{text} {ran}");
        OrderedError::stopping(Error::new(kind, None, text))
    }

    /// What the run did.
    pub fn report(&self, on: &dyn Executor, seconds: f64) -> Report {
        Report {
            tasks: self.ledger.executed(),
            seconds,
            tasks_by_worker: self.ledger.executed_by_worker(),
            copies_by_class: Vec::new(),
            local_bytes: self.local_bytes.load(Ordering::Relaxed),
            remote_bytes: self.remote_bytes.load(Ordering::Relaxed),
            uniform: on.is_uniform(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::port::{Context, Inline};

    /// What a run that was cancelled before all its tasks had run ends with.
    fn cancelled(fails: impl FnOnce(&Common<u64>)) -> Kind {
        let common = Common::new(Arc::new(Ledger::new(1, 3, false)), None);
        fails(&common);
        let monitor = Monitor::new();
        monitor.cancel();
        let on = Context::new(&Inline).watched_by(&monitor);
        let ended = common.ended(false, &on);
        ended.map_err(|failure| failure.error.kind()).unwrap_err()
    }

    #[test]
    fn of_a_run_that_was_cancelled_what_stopped_it_is_told_and_no_body_that_failed() {
        let error = |kind| Error::new(kind, None, "as told");
        assert_eq!(cancelled(|_| ()), Kind::Cancelled);
        let fails = |run: &Common<u64>| run.note(1, error(Kind::TaskFailed));
        assert_eq!(cancelled(fails), Kind::Cancelled);
        let stops = |run: &Common<u64>| run.stop(error(Kind::TaskPanicked));
        assert_eq!(cancelled(stops), Kind::TaskPanicked);
        let both = |run: &Common<u64>| {
            fails(run);
            stops(run);
        };
        assert_eq!(cancelled(both), Kind::TaskPanicked);
    }
}
