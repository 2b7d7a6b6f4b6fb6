//! Custom: the lane to the queues of a user's own scheduler.
//!
//! # Law
//! As [`ReadyQueue`] says. What a scheduler hands out is what it was given, or the engine fails
//! the run.

use super::seat::{Seat, Stay};
use crate::policy::ReadyQueue;
use crate::sleep::Risen;
use dataflow_core::port::{Hint, Lane, Ready, Wants, Word};

/// A worker's lane to the queues of the job it is in.
pub(crate) struct CustomLane<'q, 'p> {
    queue: &'q dyn ReadyQueue,
    stay: Stay<'q, 'p>,
}

impl<'q, 'p> CustomLane<'q, 'p> {
    pub fn open(queue: &'q dyn ReadyQueue, seat: &'q Seat<'p>, risen: Risen) -> Self {
        CustomLane {
            queue,
            stay: Stay::begin(seat, risen),
        }
    }

    pub fn close(self) -> (Risen, bool) {
        self.stay.end()
    }
}

impl Lane for CustomLane<'_, '_> {
    fn worker(&self) -> usize {
        self.stay.seat.worker
    }

    fn push(&mut self, word: Word, priority: i64) {
        self.push_ready(Ready::new(word, priority));
    }

    fn pop(&mut self) -> Option<Word> {
        let ready = self.queue.take(self.stay.seat.worker)?;
        self.stay.found();
        Some(ready.word)
    }

    fn steal(&mut self) -> Option<Word> {
        self.stay.is_dry();
        None
    }

    fn outranks(&self, priority: i64) -> bool {
        self.queue.outranks(self.stay.seat.worker, priority)
    }

    fn wants(&self) -> Wants {
        Wants::Everything
    }

    fn push_ready(&mut self, ready: Ready) {
        self.queue.push(self.stay.seat.worker, ready);
        self.stay.queued_here();
    }

    fn goes_elsewhere(&self, hint: Hint) -> bool {
        self.queue.goes_elsewhere(self.stay.seat.worker, hint)
    }

    fn reads(&mut self, numa_node: usize, bytes: u64) -> bool {
        self.stay.reads(numa_node, bytes)
    }

    fn measured(&mut self, class: usize, seconds: f64) {
        self.queue.measured(self.stay.seat.worker, class, seconds);
    }
}
