//! An executor that wants to know everything, and keeps what it is told.

use dataflow_core::data::Datum;
use dataflow_core::port::{Executor, Hint, Job, Lane, Ready, Wants, Word};
use std::sync::{Arc, Mutex};

/// A datum that knows where it lies.
#[derive(Clone, Debug)]
pub struct Placed(pub usize);

impl Datum for Placed {
    fn bytes(&self) -> usize {
        100
    }
    fn numa_node(&self) -> Option<usize> {
        Some(self.0)
    }
}

/// One worker, on NUMA node 0, that wants to know everything.
#[derive(Default)]
pub struct Curious {
    queue: Vec<Word>,
    /// What was queued: hint, class, priority.
    pub queued: Vec<(Option<usize>, Option<usize>, i64)>,
    /// By node.
    pub read: [u64; 2],
    /// By class.
    pub measured: [u64; 2],
}

impl Lane for Curious {
    fn worker(&self) -> usize {
        0
    }
    fn push(&mut self, _: Word, _: i64) {
        unreachable!("it wants to know more")
    }
    fn pop(&mut self) -> Option<Word> {
        self.queue.pop()
    }
    fn steal(&mut self) -> Option<Word> {
        None
    }
    fn outranks(&self, _: i64) -> bool {
        false
    }
    fn wants(&self) -> Wants {
        Wants::Everything
    }
    fn push_ready(&mut self, ready: Ready) {
        self.queue.push(ready.word);
        let node = match ready.hint {
            Hint::Node(node) => Some(node),
            _ => None,
        };
        self.queued.push((node, ready.class, ready.priority));
    }
    fn goes_elsewhere(&self, hint: Hint) -> bool {
        hint == Hint::Node(1)
    }
    fn reads(&mut self, numa_node: usize, bytes: u64) -> bool {
        self.read[numa_node] += bytes;
        numa_node == 0
    }
    fn measured(&mut self, class: usize, _: f64) {
        self.measured[class] += 1;
    }
}

#[derive(Default)]
pub struct Asking(pub Mutex<Curious>);

impl Executor for Asking {
    fn n_workers(&self) -> usize {
        1
    }
    fn execute(&self, job: &Arc<Job>) {
        let mut lane = self.0.lock().unwrap();
        while let Some(work) = job.enter() {
            work.work(&mut *lane);
        }
    }
}
