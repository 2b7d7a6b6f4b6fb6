//! Announce: roots enter the run, lazily and in bounded number.
//!
//! Roots are pulled from the space in chunks, by workers that have nothing else nearby; so a
//! space of 10⁹ independent tasks costs no memory. Chunks start small, for long bodies, and grow.

use super::{Ready, Run, Slots};
use crate::port::Lane;
use crate::space::TaskSpace;
use smallvec::SmallVec;

use super::ledger::Tally;

const LARGEST_CHUNK: usize = 64;

/// The roots that have not been announced yet.
pub(super) struct Roots<R> {
    /// `None` after the last.
    rest: Option<R>,
    chunk: usize,
}

impl<R> Roots<R> {
    pub fn new(roots: R) -> Self {
        Roots {
            rest: Some(roots),
            chunk: 1,
        }
    }
}

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Run<'a, S, R> {
    /// Queues a chunk of roots and returns one of them to run at once.
    pub(super) fn announce(&self, lane: &mut dyn Lane, tally: &mut Tally) -> Option<Ready<S>> {
        let mut chunk: SmallVec<[S::Task; LARGEST_CHUNK]> = SmallVec::new();
        {
            let mut roots = self
                .roots
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            let size = roots.chunk;
            let rest = roots.rest.as_mut()?;
            chunk.extend(rest.take(size));
            if chunk.len() < size {
                roots.rest = None;
                self.ledger.all_announced();
            }
            roots.chunk = (2 * size).min(LARGEST_CHUNK);
        }
        let mut chunk = chunk.into_iter();
        let first = chunk.next()?;
        // The last pushed is the first popped: backwards, so that roots run in their order.
        for task in chunk.rev() {
            self.queue(root(task), self.space.priority(task), lane, tally);
        }
        Some(root(first))
    }
}

fn root<S: TaskSpace>(task: S::Task) -> Ready<S> {
    Ready {
        task,
        slots: Slots::new(),
        poisoned: false,
    }
}
