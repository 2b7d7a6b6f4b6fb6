//! An executor for tests: it picks the next of all ready tasks at random, by a seed.

use super::{Executor, Job, Lane, Word};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// Runs jobs on one or more threads, each time choosing among all ready tasks at random.
///
/// On one thread a seed gives the same order each time; priorities are ignored.
///
/// # Examples
/// A program that is right leaves the same numbers in any order:
/// ```
/// use dataflow_core::port::Shuffled;
/// use dataflow_core::sequence::{read, scope, write};
///
/// for seed in 0..10 {
///     let mut numbers = [1, 2, 3];
///     scope(&Shuffled::new(seed).with_threads(2), |s| {
///         let n = s.lend_all(&mut numbers);
///         s.task((read(&n[0]), write(&n[1])), |(a, b)| *b += *a);
///         s.task((read(&n[1]), write(&n[2])), |(b, c)| *c *= *b);
///         s.task(write(&n[0]), |a| *a = 0);
///     })?;
///     assert_eq!(numbers, [0, 3, 9], "seed {seed}");
/// }
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shuffled {
    seed: u64,
    n_threads: usize,
}

impl Shuffled {
    /// One thread, and the order that belongs to the seed.
    pub fn new(seed: u64) -> Self {
        Shuffled { seed, n_threads: 1 }
    }

    /// The same with several threads, at least one.
    #[must_use]
    pub fn with_threads(self, n_threads: usize) -> Self {
        Shuffled {
            n_threads: n_threads.max(1),
            ..self
        }
    }
}

impl Executor for Shuffled {
    fn n_workers(&self) -> usize {
        self.n_threads
    }

    fn execute(&self, job: &Arc<Job>) {
        let bag = Arc::new(Bag {
            words: Mutex::new((Vec::new(), self.seed)),
            bell: Condvar::new(),
        });
        let rung = bag.clone();
        job.on_mail(move || rung.ring());
        thread::scope(|threads| {
            for worker in 1..self.n_threads {
                let bag = &bag;
                threads.spawn(move || bag.serve(worker, job));
            }
            bag.serve(0, job);
        });
    }

    /// On as many threads again.
    fn execute_inside(&self, job: &Arc<Job>) {
        self.execute(job);
    }
}

/// All ready words, and the state of the generator.
struct Bag {
    words: Mutex<(Vec<Word>, u64)>,
    bell: Condvar,
}

impl Bag {
    /// Works until the job is over, waiting while the bag is empty.
    fn serve(&self, worker: usize, job: &Job) {
        while let Some(entered) = job.enter() {
            entered.work(&mut BagLane { bag: self, worker });
            drop(entered);
            let mut words = self.words();
            while words.0.is_empty() && !job.has_mail() && !job.is_over() {
                words = self
                    .bell
                    .wait(words)
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }
        self.ring();
    }

    /// Under the lock, so that nobody falls asleep between looking and waiting.
    fn ring(&self) {
        let _words = self.words();
        self.bell.notify_all();
    }

    fn words(&self) -> MutexGuard<'_, (Vec<Word>, u64)> {
        self.words
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

struct BagLane<'b> {
    bag: &'b Bag,
    worker: usize,
}

impl Lane for BagLane<'_> {
    fn worker(&self) -> usize {
        self.worker
    }

    fn push(&mut self, word: Word, _: i64) {
        self.bag.words().0.push(word);
        self.bag.bell.notify_one();
    }

    fn pop(&mut self) -> Option<Word> {
        let mut bag = self.bag.words();
        let (words, state) = &mut *bag;
        if words.is_empty() {
            return None;
        }
        let chosen = (random(state) % words.len() as u64) as usize;
        Some(words.swap_remove(chosen))
    }

    fn steal(&mut self) -> Option<Word> {
        None
    }

    /// Always: the best successor goes into the bag too, and has no better chance than others.
    fn outranks(&self, _: i64) -> bool {
        true
    }
}

/// The generator `SplitMix64` of Steele, Lea and Flood (OOPSLA 2014): ours to keep core lean.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
