//! Aside: a worker's track while a body runs that may have tasks of its own.
//!
//! # Law
//! Whatever the body does, the track is back with its run afterwards.

use super::{TracedRun, Track};
use std::cell::Cell;

/// A track that a run inside of a body may use. In a box: of a run that is not recorded a word
/// is moved.
pub(crate) struct Aside<'o> {
    track: Cell<Option<Box<Track>>>,
    /// The run, if it is recorded, and the worker.
    opened: Option<(&'o TracedRun, usize)>,
}

impl<'o> Aside<'o> {
    pub fn new(track: Option<Box<Track>>, opened: Option<(&'o TracedRun, usize)>) -> Self {
        let track = Cell::new(track);
        Aside { track, opened }
    }

    /// The worker that runs the body; 0 of a run that is not recorded.
    pub fn worker(&self) -> usize {
        self.opened.map_or(0, |(_, worker)| worker)
    }

    /// The body has ended.
    pub fn back(&self) -> Option<Box<Track>> {
        self.track.take()
    }

    /// While `inside` runs, its workers find the track where they look for it.
    pub fn during<R>(&self, inside: impl FnOnce() -> R) -> R {
        let (Some((opened, worker)), Some(track)) = (self.opened, self.track.take()) else {
            return inside();
        };
        let entered = track.entered();
        opened.give_back(worker, *track);
        let result = inside();
        let track = opened.take(worker);
        self.track.set(track.map(|mut track| {
            track.set_entered(entered);
            Box::new(track)
        }));
        result
    }
}

impl Drop for Aside<'_> {
    #[inline]
    fn drop(&mut self) {
        if let (Some((opened, worker)), Some(track)) = (self.opened, self.track.take()) {
            opened.give_back(worker, *track);
        }
    }
}
