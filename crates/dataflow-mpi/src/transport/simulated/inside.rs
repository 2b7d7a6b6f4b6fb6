//! Inside: the workers that are inside of a run, and how one waits there for what others do: a program for
//! a datum, or until less of what it has inserted waits.
//!
//! # Law
//! Who waits is woken when another worker queues a task, looks for the next one or leaves: so in the
//! moment in which a task has ended. Who looks only because it was woken wakes nobody. While nobody else
//! is inside, who waits looks again after a [moment](MOMENT).

use super::queues::VirtualQueues;
use crate::bell::Bell;
use crate::sync::{Mutex, lock};
use dataflow_core::port::{Hint, Lane, Ready, Wants, Word};
use std::sync::Arc;
use std::time::Duration;

/// So long a worker waits for others to come in.
const MOMENT: Duration = Duration::from_millis(1);

/// Who is inside.
pub struct Inside {
    present: Mutex<Present>,
    /// By worker.
    bells: Vec<Arc<dyn Bell>>,
}

#[derive(Default)]
struct Present {
    /// Those that do not wait.
    busy: usize,
    waiting: Vec<usize>,
}

impl Inside {
    pub fn new(bells: Vec<Arc<dyn Bell>>) -> Self {
        Inside {
            present: Mutex::new(Present::default()),
            bells,
        }
    }

    /// A worker is inside for as long as `visit` takes.
    pub fn visit(
        &self,
        lane: &mut dyn Lane,
        queues: &dyn VirtualQueues,
        visit: impl FnOnce(&mut dyn Lane),
    ) {
        lock(&self.present).busy += 1;
        visit(&mut InsideLane {
            lane,
            queues,
            inside: self,
            was_woken: false,
        });
        lock(&self.present).busy -= 1;
        self.wake_all();
    }

    /// Something may have happened for which others wait.
    fn wake_all(&self) {
        let waiting = std::mem::take(&mut lock(&self.present).waiting);
        for worker in waiting {
            self.bells[worker].ring();
        }
    }

    fn wait(&self, worker: usize) {
        let mut present = lock(&self.present);
        present.busy -= 1;
        present.waiting.push(worker);
        let at_most = (present.busy == 0).then_some(MOMENT);
        drop(present);
        self.bells[worker].wait(at_most);
        let mut present = lock(&self.present);
        present.busy += 1;
        present.waiting.retain(|&other| other != worker);
    }
}

/// The lane of a worker that is inside.
struct InsideLane<'l> {
    lane: &'l mut dyn Lane,
    queues: &'l dyn VirtualQueues,
    inside: &'l Inside,
    /// It has waited, and has not looked since.
    was_woken: bool,
}

impl Lane for InsideLane<'_> {
    fn worker(&self) -> usize {
        self.lane.worker()
    }

    fn push(&mut self, word: Word, priority: i64) {
        self.lane.push(word, priority);
        self.inside.wake_all();
    }

    fn pop(&mut self) -> Option<Word> {
        if !std::mem::take(&mut self.was_woken) {
            self.inside.wake_all();
        }
        self.lane.pop()
    }

    fn steal(&mut self) -> Option<Word> {
        self.lane.steal()
    }

    fn has_helped(&mut self) -> bool {
        self.lane.has_helped()
    }

    fn fault(&mut self) -> Option<String> {
        self.lane.fault()
    }

    fn waits(&mut self, in_body: bool) -> bool {
        let worker = self.worker();
        self.lane.waits(in_body); // what it may take then; the waiting is done here
        self.queues.passes(worker);
        self.inside.wait(worker);
        self.was_woken = true;
        true
    }

    fn outranks(&self, priority: i64) -> bool {
        self.inside.wake_all();
        self.lane.outranks(priority)
    }

    fn wants(&self) -> Wants {
        self.lane.wants()
    }

    fn push_ready(&mut self, ready: Ready) {
        self.lane.push_ready(ready);
        self.inside.wake_all();
    }

    fn share(&mut self, word: Word, priority: i64) {
        self.lane.share(word, priority);
        self.inside.wake_all();
    }

    fn share_ready(&mut self, ready: Ready) {
        self.lane.share_ready(ready);
        self.inside.wake_all();
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
