//! Queues: where the ready tasks of a run wait for workers in virtual time.
//!
//! # Law
//! As many workers are woken from a [`HeapQueue`] as there is work: one for what has come by mail, which it
//! takes in, and one for each queued task that nobody awake comes for.

use crate::sync::{Mutex, lock};
use dataflow_core::port::{Lane, Word};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Rings for a worker, by its index.
pub type Ringer = Box<dyn Fn(usize) + Send + Sync>;

/// The queues of one run in virtual time, and its workers at rest. One worker acts at a time.
pub trait VirtualQueues: Send + Sync {
    /// Lends a worker its lane for a visit. Answers what is wrong with the queues, if that turned out: the
    /// run ends with an error of this text.
    fn lend(&self, worker: usize, visit: &mut dyn FnMut(&mut dyn Lane)) -> Option<String>;

    /// A worker has begun a task, or its lane was told that it [waits](Lane::waits) inside, and time is about to
    /// pass: a worker that is to be woken must be by now. Called for a task as often as its body
    /// [spends](super::spend) time.
    fn passes(&self, worker: usize) {
        let _ = worker;
    }

    /// Whether a worker that is outside of the run rests, and for how long at most: then it asks again, as
    /// it does when it is woken. If it `is_wanted`, for mail or for the end of the run, it comes in.
    fn rests(&self, worker: usize, is_wanted: bool) -> Option<Option<Duration>>;

    /// Something has come by mail: the worker that comes takes it in.
    fn mail_has_come(&self);

    /// The run is over: all are woken.
    fn is_over(&self);
}

/// One queue for all workers: the most urgent task first, then the oldest.
pub(super) struct HeapQueue {
    words: Mutex<Words>,
    ring: Ringer,
}

struct Words {
    /// The most urgent first, then the oldest.
    queued: BinaryHeap<(i64, Reverse<u64>, Word)>,
    pushes: u64,
    /// Workers that wait for their bell, the one that fell asleep last at the end.
    asleep: Vec<usize>,
    /// Which workers were woken and have not taken a task yet, and how many: they have no roots in hand,
    /// so each takes the next task that is queued, or what has come by mail.
    is_coming: Vec<bool>,
    coming: usize,
}

impl Words {
    fn new(n_workers: usize) -> Self {
        Words {
            queued: BinaryHeap::new(),
            pushes: 0,
            asleep: Vec::new(),
            is_coming: vec![false; n_workers],
            coming: 0,
        }
    }

    /// Who is to be woken, if so many come too few.
    fn calls(&mut self, enough: usize) -> Option<usize> {
        if self.coming >= enough {
            return None;
        }
        let worker = self.asleep.pop()?;
        self.is_coming[worker] = true;
        self.coming += 1;
        Some(worker)
    }

    /// The worker has a task, or none is left for it.
    fn has_come(&mut self, worker: usize) {
        let came = std::mem::take(&mut self.is_coming[worker]);
        self.coming -= usize::from(came);
    }
}

impl HeapQueue {
    pub fn new(n_workers: usize, ring: Ringer) -> Self {
        HeapQueue {
            words: Mutex::new(Words::new(n_workers)),
            ring,
        }
    }
}

impl VirtualQueues for HeapQueue {
    fn lend(&self, worker: usize, visit: &mut dyn FnMut(&mut dyn Lane)) -> Option<String> {
        visit(&mut HeapLane { heap: self, worker });
        None
    }

    fn rests(&self, worker: usize, is_wanted: bool) -> Option<Option<Duration>> {
        let mut words = lock(&self.words);
        let nothing = words.queued.is_empty() && !is_wanted;
        if nothing {
            words.has_come(worker);
            words.asleep.push(worker);
        }
        nothing.then_some(None)
    }

    fn mail_has_come(&self) {
        let called = lock(&self.words).calls(1);
        if let Some(worker) = called {
            (self.ring)(worker);
        }
    }

    fn is_over(&self) {
        let asleep = std::mem::take(&mut lock(&self.words).asleep);
        asleep.into_iter().for_each(|worker| (self.ring)(worker));
    }
}

struct HeapLane<'q> {
    heap: &'q HeapQueue,
    worker: usize,
}

impl Lane for HeapLane<'_> {
    fn worker(&self) -> usize {
        self.worker
    }

    fn push(&mut self, word: Word, priority: i64) {
        let mut words = lock(&self.heap.words);
        words.pushes += 1;
        let age = Reverse(words.pushes);
        words.queued.push((priority, age, word));
        let enough = words.queued.len();
        let called = words.calls(enough);
        drop(words);
        if let Some(worker) = called {
            (self.heap.ring)(worker);
        }
    }

    fn pop(&mut self) -> Option<Word> {
        let mut words = lock(&self.heap.words);
        let (.., word) = words.queued.pop()?;
        words.has_come(self.worker);
        Some(word)
    }

    fn steal(&mut self) -> Option<Word> {
        None
    }

    fn outranks(&self, priority: i64) -> bool {
        let words = lock(&self.heap.words);
        let first = words.queued.peek();
        first.is_some_and(|(first, ..)| *first > priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Worker 0 is awake, the others sleep.
    struct RankUnderTest {
        heap: HeapQueue,
        rung: Arc<Mutex<Vec<usize>>>,
    }

    impl RankUnderTest {
        fn new(n_workers: usize) -> Self {
            let rung = Arc::new(Mutex::new(vec![0; n_workers]));
            let ring = rung.clone();
            let ring = move |worker: usize| lock(&ring)[worker] += 1;
            let heap = HeapQueue::new(n_workers, Box::new(ring));
            lock(&heap.words).asleep.extend(1..n_workers);
            RankUnderTest { heap, rung }
        }

        fn lane(&self, worker: usize) -> HeapLane<'_> {
            let heap = &self.heap;
            HeapLane { heap, worker }
        }

        /// How often each was woken.
        fn woken(&self) -> Vec<usize> {
            lock(&self.rung).clone()
        }
    }

    #[test]
    fn each_queued_task_wakes_one_worker() {
        let rank = RankUnderTest::new(4);
        rank.lane(0).push(7, 0);
        assert_eq!(rank.woken(), [0, 0, 0, 1]);
        rank.lane(0).push(8, 1);
        assert_eq!(rank.woken(), [0, 0, 1, 1]);
        assert_eq!(rank.lane(3).pop(), Some(8));
        assert_eq!(rank.lane(2).pop(), Some(7));
        rank.lane(2).push(9, 0);
        assert_eq!(rank.woken(), [0, 1, 1, 1]);
        rank.lane(3).push(10, 0);
        assert_eq!(rank.woken(), [0, 1, 1, 1], "nobody sleeps any more");
    }

    #[test]
    fn mail_wakes_one_worker_and_that_takes_the_first_task_of_it() {
        let rank = RankUnderTest::new(4);
        rank.heap.mail_has_come();
        rank.heap.mail_has_come();
        assert_eq!(rank.woken(), [0, 0, 0, 1], "the second finds it coming");
        (0..2).for_each(|word| rank.lane(3).push(word, 0));
        assert_eq!(rank.woken(), [0, 0, 1, 1]);
        assert_eq!(rank.lane(3).pop(), Some(0));
        rank.heap.mail_has_come();
        assert_eq!(rank.woken(), [0, 0, 1, 1], "another still comes");
        assert_eq!(rank.lane(2).pop(), Some(1));
        rank.heap.mail_has_come();
        assert_eq!(rank.woken(), [0, 1, 1, 1]);
    }
}
