//! Workers in virtual time: real engines run in the world, their bodies [spend](super::spend) it.

use super::world::World;
use crate::bell::Bell;
use crate::host::{Host, Thread, Turn};
use crate::sync::{Mutex, lock};
use dataflow_core::port::{Executor, Job, Lane, Stay, Word};
use dataflow_core::rank::Rank;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `n` workers of one rank of a world: the most urgent task first, then the oldest.
pub struct VirtualWorkers {
    host: Arc<dyn Host>,
    n_workers: usize,
    by_turns: bool,
}

impl VirtualWorkers {
    /// At least one worker; each has a stack, so bodies may wait in their midst.
    pub fn new(world: &World, rank: Rank, n_workers: usize) -> Self {
        VirtualWorkers {
            host: world.host(rank),
            n_workers: n_workers.max(1),
            by_turns: false,
        }
    }

    /// The same workers, of which only the first, which is the caller of the run, has a stack: a run of a
    /// task space takes the same course with them, in less memory and time.
    ///
    /// A body may [spend](super::spend) time, but not wait for anything else: it runs when it begins, and
    /// its successors when its time has passed. If it panics, the run stops when it has begun. Messages
    /// are [posted](crate::Settings::blocking) without waiting.
    pub fn lean(world: &World, rank: Rank, n_workers: usize) -> Self {
        VirtualWorkers {
            by_turns: true,
            ..VirtualWorkers::new(world, rank, n_workers)
        }
    }

    /// One of the workers beside the caller's own.
    fn start(
        &self,
        worker: usize,
        queue: &Arc<Queue>,
        job: &Arc<Job>,
    ) -> Result<Box<dyn Thread>, String> {
        let (name, queue, job) = (format!("worker {worker}"), queue.clone(), job.clone());
        if !self.by_turns {
            let live = move || queue.serve(worker, &job);
            return self.host.start(name, Box::new(live));
        }
        let mut stay = None;
        let turn = move || queue.turn(worker, &job, &mut stay);
        self.host.start_turns(name, Box::new(turn))
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
            match self.start(worker, &queue, job) {
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

    /// A turn of a worker that is called when the body of its task has taken its time: what it does until
    /// it has begun another, or falls asleep.
    fn turn(&self, worker: usize, job: &Arc<Job>, stay: &mut Option<Stay>) -> Turn {
        loop {
            if stay.is_none() {
                *stay = job.enter_to_stay();
            }
            let Some(inside) = &stay else {
                self.wake();
                return Turn::Ends;
            };
            let mut door = Door {
                queue: self,
                worker,
            };
            if inside.begin_next(&mut door) {
                return Turn::Again;
            }
            *stay = None;
            if self.falls_asleep(worker, job) {
                return Turn::Rests(self.bells[worker].clone(), None);
            }
        }
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
