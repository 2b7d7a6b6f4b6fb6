//! Announce: roots enter the run, lazily and in bounded number.
//!
//! Roots are pulled from the space in chunks, by workers that have nothing else nearby; so a
//! space of 10⁹ independent tasks costs no memory. A chunk stays with the worker that pulled it.
//! Chunks start small, grow while there is plenty, and shrink towards the end (guided
//! self-scheduling), so that nobody waits long for work that sits in another's chunk. Roots with
//! a priority go through the queues, where the most urgent is found.
//!
//! # Source
//! Polychronopoulos, Kuck, *Guided self-scheduling*, IEEE Transactions on Computers C-36 (1987).

use super::Run;
use super::run::Hand;
use crate::port::Lane;
use crate::space::TaskSpace;

/// Roots in one chunk at most.
pub(super) const LARGEST_CHUNK: usize = 64;
/// A chunk is at most this part of what may remain for each worker.
const PART: u64 = 4;

/// The roots that have not been announced yet.
pub(super) struct Roots<R> {
    /// `None` after the last.
    rest: Option<R>,
    announced: u64,
    chunk: usize,
}

impl<R> Roots<R> {
    pub fn new(roots: R) -> Self {
        Roots {
            rest: Some(roots),
            announced: 0,
            chunk: 1,
        }
    }
}

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Run<'a, S, R> {
    /// Takes a chunk of roots in hand, or queues them if they have priorities. False after the last.
    pub(super) fn announce(&self, lane: &mut dyn Lane, hand: &mut Hand<S>) -> bool {
        {
            let mut roots = self
                .roots
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            let roots = &mut *roots;
            let Some(rest) = &mut roots.rest else {
                return false;
            };
            // Of tasks; where the space knows how many roots are left, of those.
            let remain = self.ledger.count().saturating_sub(roots.announced);
            let remain = rest.size_hint().1.map_or(remain, |n| remain.min(n as u64));
            let fair = remain / (PART * self.ledger.n_workers() as u64) + 1;
            let size = roots.chunk.min(fair as usize);
            hand.roots.extend(rest.take(size));
            let pulled = hand.roots.len();
            if pulled < size {
                roots.rest = None;
                self.ledger.all_announced();
            }
            roots.announced += pulled as u64;
            roots.chunk = (2 * size).min(LARGEST_CHUNK);
        }
        // Taken from the back, so that roots run in their order.
        hand.roots.reverse();
        if Self::tells(hand) {
            self.announce_told(lane, hand);
        } else if hand
            .roots
            .iter()
            .any(|&root| self.space.priority(root) != 0)
        {
            while let Some(root) = hand.roots.pop() {
                self.queue((root, false), self.space.priority(root), lane, hand);
            }
        }
        true
    }
}
