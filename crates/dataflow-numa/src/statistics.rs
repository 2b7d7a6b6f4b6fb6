//! Statistics: what workers did, counted where it costs nothing.
//!
//! # Law
//! A worker's counts are written by that worker alone, on cache lines of its own; sums are made
//! by whoever asks and may be a moment old.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What workers did since they were started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Tasks taken from another worker's or another NUMA node's queue.
    pub steals: u64,
    /// Times a worker fell asleep.
    pub sleeps: u64,
}

impl std::iter::Sum for Statistics {
    fn sum<I: Iterator<Item = Statistics>>(all: I) -> Statistics {
        all.fold(Statistics::default(), |sum, one| Statistics {
            steals: sum.steals + one.steals,
            sleeps: sum.sleeps + one.sleeps,
        })
    }
}

/// Counts of one worker. Relaxed throughout: they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    steals: AtomicU64,
    sleeps: AtomicU64,
    searching: AtomicBool,
}

impl Counters {
    #[inline]
    pub fn count_steal(&self) {
        raise(&self.steals);
    }

    pub fn count_sleep(&self) {
        raise(&self.sleeps);
    }

    /// Whether the worker is awake and outside of any job.
    pub fn is_searching(&self) -> bool {
        self.searching.load(Ordering::Relaxed)
    }

    pub fn set_searching(&self, searching: bool) {
        self.searching.store(searching, Ordering::Relaxed);
    }

    pub fn read(&self) -> Statistics {
        Statistics {
            steals: self.steals.load(Ordering::Relaxed),
            sleeps: self.sleeps.load(Ordering::Relaxed),
        }
    }
}

/// Counts one more, for the only writer.
#[inline]
fn raise(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
