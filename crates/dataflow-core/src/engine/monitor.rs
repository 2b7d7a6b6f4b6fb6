//! Watching a run from outside: its progress, and a way to cancel it.

use super::{Job, Ledger};
use crate::foreign::in_turn;
use crate::sync::held;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Watches runs, and can cancel them. Pass it to a [`Context`](crate::port::Context).
///
/// # Examples
/// ```
/// use dataflow_core::monitor::Monitor;
/// let monitor = Monitor::new();
/// assert_eq!((monitor.progress().done, monitor.progress().count), (0, None));
/// monitor.cancel(); // any run with this monitor ends with `Kind::Cancelled`
/// ```
#[derive(Debug, Default)]
pub struct Monitor {
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    cancelled: bool,
    /// Runs that have begun and whose tasks are being counted.
    n_counting: usize,
    /// Live runs, oldest first; the newest stays listed after its end, for `progress`.
    runs: Vec<(Arc<Ledger>, Weak<Job>)>,
}

/// How far a run has come.
///
/// # Examples
/// See [`Context`](crate::port::Context#examples).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Tasks that have run (or were skipped).
    pub done: u64,
    /// All tasks on this rank, never those of other ranks; `None` as long as no run has begun, or the one
    /// that began last is still asked how many there are, or waits for the other ranks to begin. For a
    /// scope, those that were inserted so far (up to 64 or so fewer); for a recursion, the calls that were
    /// made so far, since their final number is not known; for one across ranks, the calls that were dealt
    /// to this rank and what joins them.
    pub count: Option<u64>,
}

impl Monitor {
    /// A monitor that watches nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The progress of the run that started last, on this rank.
    pub fn progress(&self) -> Progress {
        let watched = self.watched();
        match watched.runs.last() {
            Some((ledger, _)) if watched.n_counting == 0 => {
                let done = ledger.executed();
                let count = Some(ledger.count().max(done));
                Progress { done, count }
            }
            _ => Progress::default(),
        }
    }

    /// Ends all runs with this monitor, those under way and any later one, with an error.
    ///
    /// Bodies that are running finish; no further task starts, nor does the program of a scope. A run without
    /// tasks has nothing that could be left out: it succeeds. A run on several ranks ends on all of them,
    /// by the monitor of any that has tasks left.
    pub fn cancel(&self) {
        let jobs = self.stop_all();
        // Outside of the lock: an executor is called, which may ask whether this was cancelled.
        in_turn(jobs, |job| _ = job.close_if_empty());
    }

    /// No run starts a task any more; answers those that are not over.
    fn stop_all(&self) -> Vec<Arc<Job>> {
        let mut watched = self.watched();
        watched.cancelled = true;
        let runs = watched.runs.iter();
        runs.filter_map(|(ledger, job)| {
            ledger.stop();
            job.upgrade()
        })
        .collect()
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.watched().cancelled
    }

    /// A run has begun, whose tasks are not counted yet.
    pub(crate) fn begin(&self) -> CountingRun<'_> {
        self.watched().n_counting += 1;
        CountingRun(self)
    }

    /// Starts watching a run; a monitor that was cancelled stops it at once.
    pub(crate) fn watch(&self, ledger: &Arc<Ledger>, job: &Arc<Job>) {
        self.list(ledger, job, |n_listed| n_listed);
    }

    /// The same for a run inside a body of another that it watches: progress stays that of the other.
    pub(crate) fn watch_inside(&self, ledger: &Arc<Ledger>, job: &Arc<Job>) {
        self.list(ledger, job, |_| 0);
    }

    fn list(&self, ledger: &Arc<Ledger>, job: &Arc<Job>, place: impl FnOnce(usize) -> usize) {
        let mut watched = self.watched();
        watched.runs.retain(|(_, job)| job.strong_count() > 0);
        let place = place(watched.runs.len());
        let run = (ledger.clone(), Arc::downgrade(job));
        watched.runs.insert(place, run);
        if watched.cancelled {
            ledger.stop();
        }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        held(&self.watched)
    }
}

/// A run whose tasks are being counted, until it is watched or has failed.
pub(crate) struct CountingRun<'m>(&'m Monitor);

impl CountingRun<'_> {
    /// They are counted.
    pub fn watch(self, ledger: &Arc<Ledger>, job: &Arc<Job>) {
        self.0.watch(ledger, job);
    }
}

impl Drop for CountingRun<'_> {
    fn drop(&mut self) {
        self.0.watched().n_counting -= 1;
    }
}
