//! Mail: what arrives from other ranks waits here until a worker takes it in.
//!
//! # Law
//! Whoever delivers is no worker and never enters the job. What was delivered is taken in once,
//! by a worker inside; a run of several ranks is not drained before all its tasks have run, so
//! nothing is left here at its end.

use super::Ledger;
use super::job::{Bell, Job};
use crate::port::{Arrival, Failure, Inbox, Pulse};
use crate::rank::Rank;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

/// The inbox of one run.
pub(crate) struct Mail {
    ledger: Arc<Ledger>,
    bell: Arc<Bell>,
    job: OnceLock<Weak<Job>>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    arrived: Vec<(Rank, Arrival)>,
    /// Why the run was ended from outside; what came first counts.
    ended: Option<Ended>,
}

enum Ended {
    /// Another rank failed.
    By(Failure),
    /// No rank could run anything any more: each says who waits there.
    Stalled,
}

impl Mail {
    pub fn new(ledger: &Arc<Ledger>) -> Self {
        Mail {
            ledger: ledger.clone(),
            bell: Arc::default(),
            job: OnceLock::new(),
            kept: Mutex::default(),
        }
    }

    /// What wakes whoever waits for mail.
    pub fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// The job that workers come in by; before this nobody could.
    pub fn set_job(&self, job: &Arc<Job>) {
        self.job.get_or_init(|| Arc::downgrade(job));
    }

    /// Takes out all that has arrived.
    pub fn take(&self) -> Vec<(Rank, Arrival)> {
        let mut kept = self.kept();
        self.ledger.mail_is_taken();
        self.bell.mail_is_taken();
        std::mem::take(&mut kept.arrived)
    }

    /// Why another rank ended the run, if that came first.
    pub fn stopped_by(&self) -> Option<Failure> {
        match &self.kept().ended {
            Some(Ended::By(failure)) => Some(failure.clone()),
            _ => None,
        }
    }

    /// No further task starts; if nobody is inside, the job is over.
    fn end(&self) {
        self.ledger.stop();
        if let Some(job) = self.job.get().and_then(Weak::upgrade) {
            job.close_if_empty();
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inbox for Mail {
    fn deliver(&self, from: Rank, arrival: Arrival) {
        let is_first = {
            let mut kept = self.kept();
            kept.arrived.push((from, arrival));
            self.ledger.mail_has_come();
            self.bell.mail_has_come()
        };
        // Whoever was woken for what came before takes this too.
        if is_first {
            self.bell.ring_mail();
        }
    }

    fn pulse(&self) -> Pulse {
        // Before there is a job, its roots are to run; after it, nothing is, whatever arrives.
        let idle = match self.job.get().map(Weak::upgrade) {
            None => false,
            Some(Some(job)) if !job.is_over() => {
                self.kept().arrived.is_empty() && job.is_quiet(|| self.ledger.is_balanced())
            }
            Some(_) => true,
        };
        Pulse {
            executed: self.ledger.executed(),
            count: self.ledger.count(),
            idle,
        }
    }

    fn stop(&self, failure: Failure) {
        self.kept().ended.get_or_insert(Ended::By(failure));
        self.end();
    }

    fn stall(&self) {
        self.kept().ended.get_or_insert(Ended::Stalled);
        self.end();
    }
}
