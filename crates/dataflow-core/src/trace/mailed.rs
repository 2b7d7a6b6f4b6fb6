//! Mailed: what the threads that move messages note of a run: when outputs have left, when others were heard of
//! and asked for, and when they came.
//!
//! # Law
//! Messages are moved by any thread, which may have no track: what it notes lies behind a lock of its
//! own, in the room of the run. What it hears of after the run is not noted.

use super::clock::Clock;
use super::named::noted;
use super::note::Track;
use super::{TaskNumber, Tracer};
use crate::rank::Rank;
use crate::space::Spelling;
use crate::sync::held;
use crate::wire::WireName;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

/// Stamps of messages, of one run that is recorded.
pub(crate) struct Mailed {
    clock: Clock,
    /// Has the number of a task that travelled by its name.
    spelling: Spelling,
    track: Mutex<Option<Track>>,
}

impl Mailed {
    pub fn new(tracer: &Tracer, spelling: Spelling) -> Self {
        Mailed {
            clock: tracer.clock().clone(),
            spelling,
            track: Mutex::new(Some(tracer.track())),
        }
    }

    /// Ticks.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// The transport has taken the last byte of a task's outputs for these ranks.
    pub fn left(&self, task: &WireName, to: &[Rank]) {
        if let (Some(track), Some(number)) = (&mut *self.track(), self.spelling.0.number(task)) {
            to.iter().for_each(|&to| track.left(noted(number), to));
        }
    }

    /// A rank has told of a task's outputs, whose data must be asked for.
    pub fn heard(&self, task: &WireName) {
        self.note(task, Track::heard);
    }

    /// The first of them was asked for.
    pub fn asked(&self, task: &WireName) {
        self.note(task, Track::asked);
    }

    fn note(&self, task: &WireName, what: fn(&mut Track, TaskNumber)) {
        if let (Some(track), Some(number)) = (&mut *self.track(), self.spelling.0.number(task)) {
            what(track, noted(number));
        }
    }

    /// What was noted; from now on nothing is.
    pub fn take(&self) -> Option<Track> {
        self.track().take()
    }

    fn track(&self) -> MutexGuard<'_, Option<Track>> {
        held(&self.track)
    }
}

impl fmt::Debug for Mailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailed").finish_non_exhaustive()
    }
}
