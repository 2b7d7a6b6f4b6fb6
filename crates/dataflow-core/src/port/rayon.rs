//! The engine on a `rayon_core::ThreadPool` that the user owns.
//!
//! Rayon's threads become workers of the job while it lasts; no further thread is started. The
//! queue is one heap under a lock: for tasks of some microseconds and more. `dataflow-numa` has
//! the fine-grained workers.
//!
//! # Law
//! A thread that serves a run leaves it when that is over. So a pool serves one run across ranks at a time:
//! of two ranks on one pool, each would wait for what the other may not begin.

use super::{Executor, Job, Lane, Word};
use rayon_core::ThreadPool;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Runs jobs on the threads of a pool.
///
/// A thread of the pool that is busy elsewhere joins when it is free, or finds that the job is over. The
/// job starts without it, but `execute` returns only when each thread has been there.
///
/// Ranks that are threads of one process need a pool each: a run across ranks on a pool that serves another
/// one is refused, on all ranks ([`Kind::SchedulerFailed`](crate::error::Kind::SchedulerFailed)).
///
/// # Examples
/// ```
/// # use dataflow_core::prelude::*;
/// # struct Squares;
/// # impl TaskSpace for Squares {
/// #     type Task = u64;
/// #     type Datum = ();
/// #     fn describe(&self, about: &mut Description) { about.name("squares").class("Square"); }
/// #     fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send { 0..100 }
/// #     fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
/// #     fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
/// #     fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> { Ok(()) }
/// # }
/// use dataflow_core::port::OnRayon;
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build()?;
/// let report = dataflow_core::run(&Squares, &OnRayon(&pool))?;
/// assert_eq!(report.tasks, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OnRayon<'p>(pub &'p ThreadPool);

impl Executor for OnRayon<'_> {
    fn n_workers(&self) -> usize {
        self.0.current_num_threads()
    }

    fn execute(&self, job: &Arc<Job>) {
        let across = job.is_across().then(|| Across::begin(self.0));
        if let Some(None) = across {
            return refuse(job);
        }
        let queue = Arc::new(Queue::default());
        let rung = queue.clone();
        job.on_mail(move || rung.ring());
        self.0.in_place_scope(|scope| {
            let queue = &queue;
            scope.spawn_broadcast(move |_, thread| queue.serve(thread.index(), job));
        });
    }
}

fn refuse(job: &Job) {
    if let Some(inside) = job.enter() {
        let text = "its thread pool serves another run across ranks already, and each would wait for the \
                    other (ranks that are threads of one process need a pool each)";
        inside.refuse(text.into());
    }
}

/// A pool, by its address, as long as it serves a run across ranks.
struct Across(usize);

impl Across {
    /// `None` if the pool serves one already.
    fn begin(pool: &ThreadPool) -> Option<Self> {
        let pool = std::ptr::from_ref(pool).addr();
        // Not `then_some`: one that is dropped ends.
        serving().insert(pool).then(|| Across(pool))
    }
}

impl Drop for Across {
    fn drop(&mut self) {
        serving().remove(&self.0);
    }
}

/// The pools that serve runs across ranks.
fn serving() -> MutexGuard<'static, BTreeSet<usize>> {
    static SERVING: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    SERVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ready words by priority, then by age, the youngest first; shared by all threads of a job.
#[derive(Default)]
struct Queue {
    words: Mutex<Words>,
    bell: Condvar,
}

#[derive(Default)]
struct Words {
    heap: BinaryHeap<(i64, u64, Word)>,
    pushes: u64,
    asleep: usize,
}

impl Queue {
    fn serve(&self, worker: usize, job: &Job) {
        while let Some(entered) = job.enter() {
            entered.work(&mut Server {
                queue: self,
                worker,
            });
            drop(entered);
            let mut words = self.words();
            while words.heap.is_empty() && !job.has_mail() && !job.is_over() {
                words.asleep += 1;
                words = self
                    .bell
                    .wait(words)
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                words.asleep -= 1;
            }
        }
        self.ring();
    }

    /// Under the lock, so that nobody falls asleep between looking and waiting.
    fn ring(&self) {
        let _words = self.words();
        self.bell.notify_all();
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

struct Server<'q> {
    queue: &'q Queue,
    worker: usize,
}

impl Lane for Server<'_> {
    fn worker(&self) -> usize {
        self.worker
    }

    fn push(&mut self, word: Word, priority: i64) {
        let mut words = self.queue.words();
        words.pushes += 1;
        let age = words.pushes;
        words.heap.push((priority, age, word));
        if words.asleep > 0 {
            self.queue.bell.notify_one();
        }
    }

    fn pop(&mut self) -> Option<Word> {
        self.queue.words().heap.pop().map(|(.., word)| word)
    }

    fn steal(&mut self) -> Option<Word> {
        None
    }

    fn outranks(&self, priority: i64) -> bool {
        self.queue
            .words()
            .heap
            .peek()
            .is_some_and(|top| top.0 > priority)
    }
}
