//! The reference executor: tasks run at once, on the calling thread, always in the same order.
//!
//! # Law
//! What it runs inside a body of a recorded sequence it runs as the worker that runs the body: nobody else
//! has that index. Otherwise as worker 0; each job has its own.

use super::{Executor, Job, Lane, Word};
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Runs jobs on the calling thread: the highest priority first, then the last queued.
///
/// # Examples
/// See the [crate's](crate) example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Executor for Inline {
    fn n_workers(&self) -> usize {
        1
    }

    fn execute(&self, job: &Arc<Job>) {
        let mut lane = PriorityStack {
            worker: job.offered_by(),
            queued: BinaryHeap::new(),
            pushes: 0,
        };
        while let Some(entered) = job.enter() {
            entered.work(&mut lane);
            drop(entered);
            job.wait_mail();
        }
    }
}

/// Ordered by priority, then by age, the youngest first.
struct PriorityStack {
    worker: usize,
    queued: BinaryHeap<(i64, u64, Word)>,
    pushes: u64,
}

impl Lane for PriorityStack {
    fn worker(&self) -> usize {
        self.worker
    }

    fn push(&mut self, word: Word, priority: i64) {
        self.pushes += 1;
        self.queued.push((priority, self.pushes, word));
    }

    fn pop(&mut self) -> Option<Word> {
        self.queued.pop().map(|(.., word)| word)
    }

    fn steal(&mut self) -> Option<Word> {
        None
    }

    fn outranks(&self, priority: i64) -> bool {
        self.queued.peek().is_some_and(|top| top.0 > priority)
    }
}
