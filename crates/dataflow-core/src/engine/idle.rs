//! Idle: a worker that must stay inside, and has nothing to do until others have done something.

use crate::port::Lane;
use crossbeam_utils::Backoff;
use std::time::{Duration, Instant};

/// How long it has been so.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    backoff: Backoff,
    since: Option<Instant>,
}

/// Longest nap.
const NAP: Duration = Duration::from_millis(1);

impl Idle {
    /// Looks away: for moments at first, then for as long as its lane [waits](Lane::waits), or else for
    /// an eighth of what it has waited, so that it burns no core behind a long task and is late by little.
    pub fn pause(&mut self, lane: &mut dyn Lane, in_body: bool) {
        if !self.backoff.is_completed() {
            return self.backoff.snooze();
        }
        if lane.waits(in_body) {
            return;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        std::thread::sleep((waited / 8).min(NAP));
    }
}
