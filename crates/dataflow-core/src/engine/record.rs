//! Record: what a run notes of its tasks, if the executor has a tracer.
//!
//! # Law
//! Asked once when a worker enters; a run without a tracer pays a look at a word in its hand.

use super::Run;
use super::guard::buried;
use super::run::Hand;
use crate::port::Executor;
use crate::rank::Rank;
use crate::space::{Asked, TaskName, TaskSpace};
use crate::trace::{Fate, Named, Opened, is_wide, number};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Begins to record a run, if the executor wants it.
pub(super) fn open<S: TaskSpace>(space: &S, rank: Rank, on: &dyn Executor) -> Option<Opened> {
    let tracer = on.tracer()?;
    tracer.open(on.n_workers(), Some(space.count(rank)))
}

/// The run is over: what was noted becomes a trace.
pub(super) fn close<S: TaskSpace>(opened: Option<Opened>, space: &S, rank: Rank) {
    if let Some(opened) = opened {
        // A space that panics when it is asked has no trace.
        let closed = AssertUnwindSafe(|| close_asked::<S::Task>(opened, space, rank));
        if let Err(panic) = catch_unwind(closed) {
            buried(panic);
        }
    }
}

fn close_asked<T: TaskName>(opened: Opened, space: &dyn Asked<T>, rank: Rank) {
    let named = Named::of(space, rank, opened.any(is_wide));
    opened.close(named.told(), &mut |task, hear| named.inputs(task, hear));
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// A body begins.
    #[inline(always)]
    pub(super) fn begins(hand: &mut Hand<S>) {
        if hand.track.is_some() {
            Self::note_begin(hand);
        }
    }

    /// A body has ended, or was skipped: whether the task was poisoned before it, and is now.
    #[inline(always)]
    pub(super) fn ends(task: S::Task, poisoned: (bool, bool), hand: &mut Hand<S>) {
        if hand.track.is_some() {
            let fate = match poisoned {
                (true, _) => Fate::Skipped,
                (false, true) => Fate::Failed,
                (false, false) => Fate::Ran,
            };
            Self::note_end(task, fate, hand);
        }
    }

    // Not in the loop of those that are not recorded: there a nanosecond a task was seen (a chain,
    // 3.4 to 4.4 ns).
    #[cold]
    #[inline(never)]
    fn note_begin(hand: &mut Hand<S>) {
        if let Some(track) = &hand.track {
            hand.began = track.now();
        }
    }

    #[cold]
    #[inline(never)]
    fn note_end(task: S::Task, fate: Fate, hand: &mut Hand<S>) {
        if let Some(track) = &mut hand.track {
            track.ran(number(task), task.class(), hand.began, fate);
            hand.began = 0;
        }
    }

    /// A body panicked: that ends the visit.
    pub(super) fn ends_by_panic(hand: &mut Hand<S>) {
        if let (Some(task), 1..) = (hand.task, hand.began) {
            Self::note_end(task, Fate::Failed, hand);
        }
    }
}
