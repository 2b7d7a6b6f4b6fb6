//! The failure that a run of a sequence reports.
//!
//! # Law
//! A fault that stopped the run is reported rather than errors of bodies; of those the smallest by
//! (index, number of the task) is kept, whatever the schedule.

use crate::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The failures so far that may be reported.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Option<Fault>>);

#[derive(Debug)]
struct Fault {
    order: (bool, u64, u64),
    error: Error,
}

impl Faults {
    /// The body of the task of this number has failed.
    #[cold]
    pub fn note(&self, number: u64, error: Error) {
        let order = (true, error.index().unwrap_or(u64::MAX), number);
        self.keep(Fault { order, error });
    }

    /// The run ends for this: the first one is kept.
    #[cold]
    pub fn stop(&self, error: Error) {
        let order = (false, 0, 0);
        self.keep(Fault { order, error });
    }

    /// Whether anything has gone wrong so far.
    pub fn is_any(&self) -> bool {
        self.kept().is_some()
    }

    /// What is reported, if anything.
    pub fn take(&self) -> Option<Error> {
        self.kept().take().map(|fault| fault.error)
    }

    fn keep(&self, fault: Fault) {
        let mut kept = self.kept();
        if kept.as_ref().is_none_or(|kept| fault.order < kept.order) {
            *kept = Some(fault);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Option<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
