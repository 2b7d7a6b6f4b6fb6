//! Workers in virtual time: real engines run in the world, their bodies [spend](super::spend) it.
//!
//! # Law
//! As many workers are woken as there is work: one for what has come by mail, which it takes in, and one
//! for each queued task that nobody awake comes for. Whoever is woken and finds that another was
//! quicker falls asleep again without coming into the run.

use super::world::World;
use crate::bell::Bell;
use crate::host::{Host, Thread, Turn};
use crate::sync::{Mutex, lock};
use dataflow_core::port::{Executor, Job, Lane, Stay, Word};
use dataflow_core::rank::Rank;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
        let mut presence = Presence::default();
        let turn = move || queue.turn(worker, &job, &mut presence);
        self.host.start_turns(name, Box::new(turn))
    }
}

impl Executor for VirtualWorkers {
    fn n_workers(&self) -> usize {
        self.n_workers
    }

    fn execute(&self, job: &Arc<Job>) {
        let queue = Arc::new(Queue {
            words: Mutex::new(Words::new(self.n_workers)),
            bells: (0..self.n_workers).map(|_| self.host.bell()).collect(),
        });
        let (woken, run) = (queue.clone(), Arc::downgrade(job));
        job.on_mail(move || match run.upgrade() {
            Some(run) if !run.is_over() => woken.wake_one(),
            _ => woken.wake_all(),
        });
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

impl Queue {
    fn serve(&self, worker: usize, job: &Job) {
        while let Some(entered) = job.enter() {
            entered.work(&mut Door {
                queue: self,
                worker,
            });
            drop(entered);
            while self.falls_asleep(worker, job) {
                self.bells[worker].wait(None);
            }
        }
        self.wake_all();
    }

    /// A turn of a worker that is called when the body of its task has taken its time: what it does until
    /// it has begun another, or falls asleep.
    fn turn(&self, worker: usize, job: &Arc<Job>, presence: &mut Presence) -> Turn {
        loop {
            if presence.stay.is_none() {
                if presence.has_been_inside && self.falls_asleep(worker, job) {
                    return Turn::Rests(self.bells[worker].clone(), None);
                }
                presence.has_been_inside = true;
                presence.stay = job.enter_to_stay();
            }
            let Some(inside) = &presence.stay else {
                self.wake_all();
                return Turn::Ends;
            };
            let mut door = Door {
                queue: self,
                worker,
            };
            if inside.begin_next(&mut door) {
                return Turn::Again;
            }
            presence.stay = None;
        }
    }

    fn falls_asleep(&self, worker: usize, job: &Job) -> bool {
        let mut words = lock(&self.words);
        let nothing = words.queued.is_empty() && !job.has_mail() && !job.is_over();
        if nothing {
            words.has_come(worker);
            words.asleep.push(worker);
        }
        nothing
    }

    /// Something has come by mail: whoever comes takes it in.
    fn wake_one(&self) {
        let called = lock(&self.words).calls(1);
        if let Some(worker) = called {
            self.bells[worker].ring();
        }
    }

    /// The run is over.
    fn wake_all(&self) {
        let asleep = std::mem::take(&mut lock(&self.words).asleep);
        asleep
            .into_iter()
            .for_each(|worker| self.bells[worker].ring());
    }
}

/// A worker by turns, from one to the next.
#[derive(Default)]
struct Presence {
    /// While it is inside of the run.
    stay: Option<Stay>,
    /// Once it has looked for roots.
    has_been_inside: bool,
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
        let age = Reverse(words.pushes);
        words.queued.push((priority, age, word));
        let enough = words.queued.len();
        let called = words.calls(enough);
        drop(words);
        if let Some(worker) = called {
            self.queue.bells[worker].ring();
        }
    }

    fn pop(&mut self) -> Option<Word> {
        let mut words = lock(&self.queue.words);
        let (.., word) = words.queued.pop()?;
        words.has_come(self.worker);
        Some(word)
    }

    fn steal(&mut self) -> Option<Word> {
        None
    }

    fn outranks(&self, priority: i64) -> bool {
        let words = lock(&self.queue.words);
        let first = words.queued.peek();
        first.is_some_and(|(first, ..)| *first > priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// How often it was rung.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Bell for Counted {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn wait(&self, _: Option<Duration>) {}
    }

    /// Worker 0 is awake, the others sleep.
    struct Rank {
        queue: Queue,
        bells: Vec<Arc<Counted>>,
    }

    impl Rank {
        fn new(n_workers: usize) -> Self {
            let bells: Vec<Arc<Counted>> = (0..n_workers).map(|_| Arc::default()).collect();
            let as_bell = |bell: &Arc<Counted>| -> Arc<dyn Bell> { bell.clone() };
            let mut words = Words::new(n_workers);
            words.asleep.extend(1..n_workers);
            let queue = Queue {
                words: Mutex::new(words),
                bells: bells.iter().map(as_bell).collect(),
            };
            Rank { queue, bells }
        }

        fn door(&self, worker: usize) -> Door<'_> {
            Door {
                queue: &self.queue,
                worker,
            }
        }

        /// How often each was woken.
        fn woken(&self) -> Vec<usize> {
            let bells = self.bells.iter();
            bells.map(|bell| bell.0.load(Ordering::Relaxed)).collect()
        }
    }

    #[test]
    fn each_queued_task_wakes_one_worker() {
        let rank = Rank::new(4);
        rank.door(0).push(7, 0);
        assert_eq!(rank.woken(), [0, 0, 0, 1]);
        rank.door(0).push(8, 1);
        assert_eq!(rank.woken(), [0, 0, 1, 1]);
        assert_eq!(rank.door(3).pop(), Some(8));
        assert_eq!(rank.door(2).pop(), Some(7));
        rank.door(2).push(9, 0);
        assert_eq!(rank.woken(), [0, 1, 1, 1]);
        rank.door(3).push(10, 0);
        assert_eq!(rank.woken(), [0, 1, 1, 1], "nobody sleeps any more");
    }

    #[test]
    fn mail_wakes_one_worker_and_that_takes_the_first_task_of_it() {
        let rank = Rank::new(4);
        rank.queue.wake_one();
        rank.queue.wake_one();
        assert_eq!(rank.woken(), [0, 0, 0, 1], "the second finds it coming");
        (0..2).for_each(|word| rank.door(3).push(word, 0));
        assert_eq!(rank.woken(), [0, 0, 1, 1]);
        assert_eq!(rank.door(3).pop(), Some(0));
        rank.queue.wake_one();
        assert_eq!(rank.woken(), [0, 0, 1, 1], "another still comes");
        assert_eq!(rank.door(2).pop(), Some(1));
        rank.queue.wake_one();
        assert_eq!(rank.woken(), [0, 1, 1, 1]);
    }
}
