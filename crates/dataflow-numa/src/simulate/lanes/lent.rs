//! Lent: the lane of a worker for one visit, which notes what it does for those that rest.

use super::resting::{Resting, looked_in_vain};
use crate::policy::{Hint, Ready};
use crate::queue::{KeepingLane, Queues};
use crate::sync::held;
use dataflow_core::port::{Lane, Wants, Word};
use std::sync::Mutex;

/// A lane, and what is in its worker's hand.
pub(super) struct LentLane<'l> {
    pub lane: KeepingLane<'l>,
    pub hand: Option<(Word, bool)>,
    pub has_helped: bool,
    /// It is lent only for roots.
    pub for_roots: bool,
    pub is_custom: bool,
    pub queues: &'l Queues,
    pub resting: &'l Mutex<Resting>,
}

impl LentLane<'_> {
    /// Others may take what it queues, also if it finds nothing itself.
    fn puts(&self) {
        self.exchanges();
        if self.for_roots {
            held(self.resting).has_looked(self.worker());
        }
    }

    fn exchanges(&self) {
        if self.is_custom {
            held(self.resting).of(self.worker()).has_exchanged = true;
        }
    }

    fn gets(&self, word: Option<Word>) -> Option<Word> {
        word.inspect(|_| self.exchanges())
    }
}

impl Lane for LentLane<'_> {
    fn worker(&self) -> usize {
        self.lane.worker()
    }

    fn push(&mut self, word: Word, priority: i64) {
        self.puts();
        self.lane.push(word, priority);
    }

    fn pop(&mut self) -> Option<Word> {
        match self.hand.take() {
            Some((word, stolen)) => {
                self.has_helped = stolen;
                held(self.resting).of(self.worker()).was_called = true;
                self.gets(Some(word))
            }
            None => {
                let word = self.lane.pop();
                self.gets(word)
            }
        }
    }

    fn steal(&mut self) -> Option<Word> {
        // It came for roots; a look now would be counted as a round of patience.
        if self.for_roots && held(self.resting).of(self.worker()).rests {
            return None;
        }
        let word = self.lane.steal();
        self.gets(word)
    }

    fn has_helped(&mut self) -> bool {
        std::mem::take(&mut self.has_helped) || self.lane.has_helped()
    }

    /// Who asks waits in the midst of a program or body, and has no task: like one that rests.
    fn fault(&mut self) -> Option<String> {
        let worker = self.worker();
        held(self.resting).is_busy(worker, false);
        let fault = self.lane.fault();
        fault.or_else(|| looked_in_vain(self.resting, self.queues))
    }

    fn waits(&mut self, in_body: bool) -> bool {
        let worker = self.worker();
        held(self.resting).waits(worker);
        self.lane.waits(in_body)
    }

    fn outranks(&self, priority: i64) -> bool {
        self.lane.outranks(priority)
    }

    fn wants(&self) -> Wants {
        self.lane.wants()
    }

    fn push_ready(&mut self, ready: Ready) {
        self.puts();
        self.lane.push_ready(ready);
    }

    fn share(&mut self, word: Word, priority: i64) {
        self.puts();
        self.lane.share(word, priority);
    }

    fn share_ready(&mut self, ready: Ready) {
        self.puts();
        self.lane.share_ready(ready);
    }

    fn goes_elsewhere(&self, hint: Hint) -> bool {
        self.lane.goes_elsewhere(hint)
    }

    fn reads(&mut self, numa_node: usize, bytes: u64) -> bool {
        self.lane.reads(numa_node, bytes)
    }

    /// What bodies take on this machine says nothing of the time that is made up, and differs from run to
    /// run.
    fn measured(&mut self, _: usize, _: f64) {}
}
