//! Tell: optional hints to the executor of tasks, beyond their priority.
//!
//! Only of spaces whose edges carry data: the tasks of others take some nanoseconds, and their loop
//! holds no trace of this.

use super::run::{Hand, Ready};
use super::{Run, Slots};
use crate::data::{Datum, Store};
use crate::port::{Hint, Lane, Ready as Told, Wants, Word, most_bytes};
use crate::space::{HomeInputs, Mode, TaskName, TaskSpace};
use crate::sync::Ordering;
use smallvec::SmallVec;

/// What has been read in one visit of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bytes {
    /// On its own NUMA node.
    pub local: u64,
    /// On others.
    pub remote: u64,
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Whether the lane wants to be told of these tasks.
    #[inline(always)]
    pub(super) fn tells(hand: &Hand<S>) -> bool {
        Self::CARRIES && hand.wants > Wants::Priorities
    }

    /// Where the inputs of a task lie: those in `slots`, and those at home.
    pub(super) fn hint(&self, task: S::Task, slots: &Slots<S::Datum>) -> Hint {
        let piece = |datum: &S::Datum| Some((datum.numa_node()?, datum.bytes() as u64));
        let arrived = slots.iter().flatten();
        let mut pieces: SmallVec<[(usize, u64); 8]> =
            arrived.filter_map(|version| piece(version)).collect();
        let mut look = |_, store: &Store<S::Datum>, index| {
            pieces.extend(store.peek(index, piece).flatten());
        };
        self.space.inputs(task, &mut HomeInputs(&mut look));
        let class = || self.description.classes().get(task.class());
        let makes = || class().is_some_and(|class| class.flows.iter().any(|f| f.mode == Mode::New));
        match most_bytes(pieces) {
            Some(node) => Hint::Node(node),
            None if makes() => Hint::Initialises,
            None => Hint::None,
        }
    }

    /// Queues a ready task, as `queue` does, and tells what is known of it.
    pub(super) fn queue_told(
        &self,
        ready: Ready<S>,
        (priority, hint): (i64, Hint),
        lane: &mut dyn Lane,
        hand: &mut Hand<S>,
    ) {
        let class = ready.0.class();
        let mut telling = Telling { lane, hint, class };
        self.queue(ready, priority, &mut telling, hand);
    }

    /// Queues those roots in hand that belong elsewhere, in their order; all, if any has a priority.
    #[cold]
    pub(super) fn announce_told(&self, lane: &mut dyn Lane, hand: &mut Hand<S>) {
        let roots = std::mem::take(&mut hand.roots);
        let ranked = roots.iter().any(|&root| self.space.priority(root) != 0);
        for root in roots.into_iter().rev() {
            let hint = self.hint(root, &Slots::new());
            match ranked || lane.goes_elsewhere(hint) {
                true => {
                    let place = (self.space.priority(root), hint);
                    self.queue_told((root, false), place, lane, hand);
                }
                false => hand.roots.push(root),
            }
        }
        hand.roots.reverse();
    }

    /// Adds what was read in a visit to the run's counts.
    pub(super) fn note_read(&self, read: Bytes) {
        let counts = [
            (&self.local_bytes, read.local),
            (&self.remote_bytes, read.remote),
        ];
        for (count, bytes) in counts.into_iter().filter(|(_, bytes)| *bytes > 0) {
            count.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Tells what the task that is about to run reads, and from where.
    pub(super) fn tell_reads(&self, lane: &mut dyn Lane, hand: &mut Hand<S>) {
        for datum in hand.slots.iter().flatten() {
            if let Some(node) = datum.numa_node() {
                let bytes = datum.bytes() as u64;
                match lane.reads(node, bytes) {
                    true => hand.read.local += bytes,
                    false => hand.read.remote += bytes,
                }
            }
        }
    }
}

/// A lane that is told what is known of the task that is pushed next.
struct Telling<'l> {
    lane: &'l mut dyn Lane,
    hint: Hint,
    class: usize,
}

impl Lane for Telling<'_> {
    fn worker(&self) -> usize {
        self.lane.worker()
    }

    fn push(&mut self, word: Word, priority: i64) {
        let ready = Told::new(word, priority).with_hint(self.hint);
        self.lane.push_ready(ready.with_class(self.class));
    }

    fn pop(&mut self) -> Option<Word> {
        self.lane.pop()
    }

    fn steal(&mut self) -> Option<Word> {
        self.lane.steal()
    }

    fn outranks(&self, priority: i64) -> bool {
        self.lane.outranks(priority)
    }
}
