//! Queue: a ready task as a word, and the task of a word; meanwhile its data wait in the table of records.

use super::drive::Visit;
use super::hand::Hand;
use super::slots::empty;
use super::{ReadyTask, Run};
use crate::error::Kind;
use crate::port::{Hint, Word};
use crate::space::{TaskName, TaskSpace};

/// Flags in the low byte of a word; the key stands above.
const POISONED: Word = 1;
const PARKED: Word = 2;

/// Forgets the task that ran before if what a worker does between two tasks panics; otherwise it is to be
/// forgotten itself, which takes no time.
struct ForgetsOnPanic<'h, T>(&'h mut Option<T>);

impl<T> Drop for ForgetsOnPanic<'_, T> {
    fn drop(&mut self) {
        *self.0 = None;
    }
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Queues a task that another has made ready which has just run here.
    #[inline]
    pub(super) fn queue(
        &self,
        ready: ReadyTask<S>,
        (priority, hint): (i64, Hint),
        visit: &mut Visit<'_, Hand<S>>,
    ) {
        let word = self.pack(ready, visit);
        visit.push(word, priority, || (hint, ready.0.class()));
    }

    /// Queues any other task that is ready.
    pub(super) fn share(
        &self,
        ready: ReadyTask<S>,
        (priority, hint): (i64, Hint),
        visit: &mut Visit<'_, Hand<S>>,
    ) {
        let word = self.pack(ready, visit);
        visit.share(word, priority, || (hint, ready.0.class()));
    }

    /// A ready task as a word; its data, in `hand.next`, wait in the table of records.
    #[inline]
    fn pack(&self, (task, poisoned): ReadyTask<S>, visit: &mut Visit<'_, Hand<S>>) -> Word {
        let key = self.names.key(task);
        let next = &mut visit.hand.next;
        let parked = Self::CARRIES && next.iter().any(Option::is_some);
        if parked {
            self.pending.park(key, next);
        }
        let flags = if parked { PARKED } else { 0 } | if poisoned { POISONED } else { 0 };
        key << 8 | flags
    }

    /// The task of a word; its data come to `hand.slots`.
    #[inline(always)]
    pub(super) fn take_out(
        &self,
        word: Word,
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Option<ReadyTask<S>> {
        let key = word >> 8;
        let unpack = |packed| self.space.named(packed);
        let between = ForgetsOnPanic(&mut visit.hand.task);
        let name = self.names.name(key, unpack);
        std::mem::forget(between);
        let Some(task) = name else {
            let text = "a task was fed once more after all its inputs had come";
            self.fail(Kind::FedTwice, None, text);
            return None;
        };
        self.names.forget(key);
        if Self::CARRIES {
            let slots = &mut visit.hand.slots;
            empty(slots);
            if word & PARKED != 0 && !self.pending.take(key, slots) {
                unreachable!("the data of {task:?} were parked before its word was queued");
            }
        }
        Some((task, word & POISONED != 0))
    }
}
