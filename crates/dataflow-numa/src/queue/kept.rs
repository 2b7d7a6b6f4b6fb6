//! Kept: the tasks a worker keeps for itself before the queues (DAGuE's placeholder).
//!
//! The engine itself keeps one: the best successor of the task that ran. This lane makes it none,
//! or more.
//!
//! # Law
//! What is kept is the most urgent of those successors that were pushed since there was room and are
//! placed here; it goes before what is queued, unless that is more urgent. What is no successor is queued.
//! So a worker that leaves a job keeps nothing, unless the job is stopping; nor does one on duty, which
//! has run no task yet.

use dataflow_core::port::{Hint, Lane, Ready, Wants, Word};

/// A lane before which some tasks are kept.
pub(crate) struct KeepingLane<'l> {
    lane: &'l mut dyn Lane,
    /// Whether even the engine's own is to be queued.
    none: bool,
    /// How many beside the engine's own.
    room: usize,
    /// The most urgent last.
    kept: Vec<Ready>,
}

impl<'l> KeepingLane<'l> {
    /// Keeps `tasks`, the engine's own counted.
    pub fn new(lane: &'l mut dyn Lane, tasks: usize) -> Self {
        KeepingLane {
            lane,
            none: tasks == 0,
            room: tasks.saturating_sub(1),
            kept: Vec::new(),
        }
    }

    /// The same, with what it kept before.
    pub fn with_kept(self, kept: Vec<Ready>) -> Self {
        KeepingLane { kept, ..self }
    }

    /// What it keeps, for the next visit.
    pub fn into_kept(self) -> Vec<Ready> {
        self.kept
    }

    fn top(&self) -> Option<i64> {
        self.kept.last().map(|ready| ready.priority)
    }
}

impl Lane for KeepingLane<'_> {
    fn worker(&self) -> usize {
        self.lane.worker()
    }

    fn push(&mut self, word: Word, priority: i64) {
        self.push_ready(Ready::new(word, priority));
    }

    fn pop(&mut self) -> Option<Word> {
        let is_outranked = self.top().is_some_and(|top| self.lane.outranks(top));
        if is_outranked && let Some(word) = self.lane.pop() {
            return Some(word);
        }
        match self.kept.pop() {
            Some(ready) => Some(ready.word),
            None => self.lane.pop(),
        }
    }

    fn steal(&mut self) -> Option<Word> {
        self.lane.steal()
    }

    fn lingers(&mut self) -> bool {
        self.lane.lingers()
    }

    fn has_helped(&mut self) -> bool {
        self.lane.has_helped()
    }

    fn fault(&mut self) -> Option<String> {
        self.lane.fault()
    }

    fn waits(&mut self, in_body: bool) -> bool {
        self.lane.waits(in_body)
    }

    fn outranks(&self, priority: i64) -> bool {
        self.none || self.top().is_some_and(|top| top > priority) || self.lane.outranks(priority)
    }

    fn wants(&self) -> Wants {
        self.lane.wants()
    }

    fn push_ready(&mut self, ready: Ready) {
        if self.room == 0 || self.lane.goes_elsewhere(ready.hint) {
            return self.lane.push_ready(ready);
        }
        let at = self
            .kept
            .partition_point(|kept| kept.priority <= ready.priority);
        self.kept.insert(at, ready);
        if self.kept.len() > self.room {
            self.lane.push_ready(self.kept.remove(0));
        }
    }

    fn share(&mut self, word: Word, priority: i64) {
        self.lane.share(word, priority);
    }

    fn share_ready(&mut self, ready: Ready) {
        self.lane.share_ready(ready);
    }

    fn goes_elsewhere(&self, hint: Hint) -> bool {
        self.lane.goes_elsewhere(hint)
    }

    fn reads(&mut self, numa_node: usize, bytes: u64) -> bool {
        self.lane.reads(numa_node, bytes)
    }

    fn measured(&mut self, class: usize, seconds: f64) {
        self.lane.measured(class, seconds);
    }
}
