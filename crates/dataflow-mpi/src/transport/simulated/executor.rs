//! Workers in virtual time: real engines run in the world, their bodies [spend](super::spend) it.

use super::actor::World;
use crate::host::{Bell, Host, Thread, lock};
use dataflow_core::port::{Executor, Job, Lane, Word};
use dataflow_core::rank::Rank;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// `n` workers of one rank of a world: the most urgent task first, then the oldest.
pub struct VirtualWorkers {
    host: Arc<dyn Host>,
    n_workers: usize,
}

impl VirtualWorkers {
    /// At least one worker.
    pub fn new(world: &World, rank: Rank, n_workers: usize) -> Self {
        VirtualWorkers {
            host: world.host(rank),
            n_workers: n_workers.max(1),
        }
    }
}

impl Executor for VirtualWorkers {
    fn n_workers(&self) -> usize {
        self.n_workers
    }

    fn execute(&self, job: &Arc<Job>) {
        let queue = Arc::new(Queue {
            words: Mutex::new(Words::default()),
            bells: (0..self.n_workers).map(|_| self.host.bell()).collect(),
        });
        let woken = queue.clone();
        job.on_mail(move || woken.wake());
        let mut threads: Vec<Box<dyn Thread>> = Vec::new();
        for worker in 1..self.n_workers {
            let (queue, job) = (queue.clone(), job.clone());
            let live = move || queue.serve(worker, &job);
            match self.host.start(format!("worker {worker}"), Box::new(live)) {
                Ok(thread) => threads.push(thread),
                Err(_) => break, // fewer workers do the same, later
            }
        }
        queue.serve(0, job);
        for thread in threads {
            if !thread.join() {
                unreachable!("the engine catches what bodies throw");
            }
        }
    }
}

struct Queue {
    words: Mutex<Words>,
    bells: Vec<Arc<dyn Bell>>,
}

#[derive(Default)]
struct Words {
    /// By urgency, then age.
    queued: BTreeMap<(std::cmp::Reverse<i64>, u64), Word>,
    pushes: u64,
    /// Workers that wait for their bell, the one that fell asleep last at the end.
    asleep: Vec<usize>,
}

impl Queue {
    fn serve(&self, worker: usize, job: &Job) {
        while let Some(entered) = job.enter() {
            entered.work(&mut Door {
                queue: self,
                worker,
            });
            drop(entered);
            if self.falls_asleep(worker, job) {
                self.bells[worker].wait(None);
            }
        }
        self.wake();
    }

    fn falls_asleep(&self, worker: usize, job: &Job) -> bool {
        let mut words = lock(&self.words);
        let nothing = words.queued.is_empty() && !job.has_mail() && !job.is_over();
        if nothing {
            words.asleep.push(worker);
        }
        nothing
    }

    /// Wakes all.
    fn wake(&self) {
        let asleep = std::mem::take(&mut lock(&self.words).asleep);
        asleep
            .into_iter()
            .for_each(|worker| self.bells[worker].ring());
    }
}

struct Door<'q> {
    queue: &'q Queue,
    worker: usize,
}

impl Lane for Door<'_> {
    fn worker(&self) -> usize {
        self.worker
    }

    fn push(&mut self, word: Word, priority: i64) {
        let mut words = lock(&self.queue.words);
        words.pushes += 1;
        let age = words.pushes;
        words
            .queued
            .insert((std::cmp::Reverse(priority), age), word);
        let woken = words.asleep.pop();
        drop(words);
        if let Some(worker) = woken {
            self.queue.bells[worker].ring();
        }
    }

    fn pop(&mut self) -> Option<Word> {
        lock(&self.queue.words)
            .queued
            .pop_first()
            .map(|(_, word)| word)
    }

    fn steal(&mut self) -> Option<Word> {
        None
    }

    fn outranks(&self, priority: i64) -> bool {
        let words = lock(&self.queue.words);
        words
            .queued
            .first_key_value()
            .is_some_and(|((first, _), _)| first.0 > priority)
    }
}
