//! Watching a run from outside: its progress, and a way to cancel it.

use crate::engine::{Job, Ledger};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Given to a [`Context`](crate::port::Context) and kept by whoever wants to watch or cancel the runs.
///
/// # Examples
/// ```
/// use dataflow_core::monitor::Monitor;
/// let monitor = Monitor::new();
/// assert_eq!(monitor.progress().done, 0);
/// monitor.cancel(); // any run with this monitor ends with `Kind::Cancelled`
/// ```
#[derive(Debug, Default)]
pub struct Monitor {
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    cancelled: bool,
    /// Runs that may still go on, the one that started last at the end; that one also when it is
    /// over.
    runs: Vec<(Arc<Ledger>, Weak<Job>)>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Tasks that have run (or were skipped).
    pub done: u64,
    /// Tasks in all, on this rank; of a scope those that were inserted so far (to 64 or so), of a
    /// recursion the calls that were made, since nobody knows how many there will be.
    pub count: u64,
}

impl Monitor {
    /// A monitor that watches nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tasks done and tasks in all, of the run that started last.
    pub fn progress(&self) -> Progress {
        match self.watched().runs.last() {
            Some((ledger, _)) => {
                let done = ledger.executed();
                let count = ledger.count().max(done);
                Progress { done, count }
            }
            None => Progress::default(),
        }
    }

    /// Ends all runs with this monitor, those under way and any later one, with an error.
    ///
    /// Bodies under way finish; no further task starts.
    pub fn cancel(&self) {
        let mut watched = self.watched();
        watched.cancelled = true;
        for (ledger, job) in &watched.runs {
            ledger.stop();
            if let Some(job) = job.upgrade() {
                job.close_if_empty();
            }
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.watched().cancelled
    }

    /// Starts watching a run; a monitor that was cancelled stops it at once.
    pub(crate) fn watch(&self, ledger: &Arc<Ledger>, job: &Arc<Job>) {
        let mut watched = self.watched();
        watched.runs.retain(|(_, job)| job.strong_count() > 0);
        watched.runs.push((ledger.clone(), Arc::downgrade(job)));
        if watched.cancelled {
            ledger.stop();
        }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
