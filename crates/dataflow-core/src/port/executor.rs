//! The port below the engine: who runs ready tasks.
//!
//! The engine gives an executor a [`Job`]; workers enter it and call [`Work::work`], each with a
//! [`Lane`] of its own: the door to the queues. What is queued are [`Word`]s, opaque numbers that
//! mean something only to the job they came from.
//!
//! # Law
//! A word that was pushed is handed out once, by `pop` or `steal` of some lane of the same job,
//! unless the job is over. An executor may order words as it likes: results do not depend on it.
//!
//! An executor that loses a word and yet waits for the job's end, by [`Job::wait_mail`] or else, waits for
//! ever: the engine cannot tell a word that is lost from one that is late. If it gives up and returns,
//! the run ends with an error that says that tasks were lost.

use super::{Alone, Courier, Heap, Hint, Inline, Memory, Ready, Wants, Word};
use crate::engine::monitor::Monitor;
pub use crate::engine::{Job, MANY_INSIDE, Stay};
use crate::trace::Tracer;
use std::sync::Arc;

/// Runs jobs.
///
/// # Examples
/// One worker, which runs the oldest task first:
/// ```
/// use dataflow_core::port::{Executor, Job, Lane, Word};
/// use dataflow_core::sequence::scope;
/// use std::collections::VecDeque;
/// use std::sync::{Arc, Mutex};
///
/// struct OldestFirst;
///
/// impl Executor for OldestFirst {
///     fn n_workers(&self) -> usize { 1 }
///     fn execute(&self, job: &Arc<Job>) {
///         let mut queue = Queue(VecDeque::new());
///         while let Some(entered) = job.enter() {
///             entered.work(&mut queue);
///             drop(entered);
///             job.wait_mail(); // of other ranks
///         }
///     }
/// }
///
/// struct Queue(VecDeque<Word>);
///
/// impl Lane for Queue {
///     fn worker(&self) -> usize { 0 }
///     fn push(&mut self, word: Word, _priority: i64) { self.0.push_back(word) }
///     fn pop(&mut self) -> Option<Word> { self.0.pop_front() }
///     fn steal(&mut self) -> Option<Word> { None }
///     fn outranks(&self, _priority: i64) -> bool { !self.0.is_empty() }
/// }
///
/// let ran = Mutex::new(Vec::new());
/// scope(&OldestFirst, |s| {
///     for number in 0..5 {
///         let ran = &ran;
///         s.task((), move |()| ran.lock().unwrap().push(number));
///     }
/// })?;
/// assert_eq!(ran.into_inner().unwrap(), [0, 1, 2, 3, 4]);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
/// Without a queue of your own: [`Inline`], [`Shuffled`](super::Shuffled#examples).
pub trait Executor: Send + Sync {
    /// How many workers may be inside a job at once, [`MANY_INSIDE`] at most, or else its runs are refused;
    /// their indices are `0..n_workers()`.
    fn n_workers(&self) -> usize;

    /// Lets workers enter the job until it [is over](Job::is_over), and blocks until then.
    ///
    /// No two workers inside use the same index at the same time: the run ends when a second one comes.
    fn execute(&self, job: &Arc<Job>);

    /// The same from inside a body that one of the executor's workers runs: that worker runs tasks
    /// of this job, and of no other, until the job is over. By default it does so alone.
    fn execute_inside(&self, job: &Arc<Job>) {
        Inline.execute(job);
    }

    /// Whether all memory is equally near to all workers, as far as anybody knows: then every
    /// byte that a task reads is local, and none is counted.
    fn is_uniform(&self) -> bool {
        false
    }

    /// Who reaches the other ranks, for runs [across](crate::run_across) them; nobody by default.
    fn courier(&self) -> &dyn Courier {
        &Alone
    }

    /// Who watches its runs, if anybody. What runs inside of a body is a part of that body.
    fn monitor(&self) -> Option<&Monitor> {
        None
    }

    /// Where its runs leave traces, if anywhere.
    fn tracer(&self) -> Option<&Tracer> {
        None
    }

    /// Where data lie that are made to be worked on here; by default on the [`Heap`].
    fn memory(&self) -> Arc<dyn Memory> {
        Arc::new(Heap)
    }
}

/// What a worker finds inside a job.
///
/// # Examples
/// See [`Executor`](Executor#examples), whose worker calls it through the job that it has entered.
pub trait Work: Sync {
    /// Runs tasks until neither the lane nor the job's own roots have one more: `steal` has just
    /// answered `None`. It returns earlier only if the run is stopping. Says how many it ran.
    fn work(&self, lane: &mut dyn Lane) -> u64;

    /// The same in pieces, for workers that share a thread in virtual time: ends the task that this worker
    /// has begun, if it has, and goes on until it has begun another. To begin a task is to gather its
    /// inputs and to run its body, to end it to hand on what the body made. So a worker need not stand
    /// in the midst of a body while its time passes. False where [`work`](Self::work) would return: then
    /// nothing is begun. The caller stays inside the job as long as something is. Only runs of task
    /// spaces come in pieces.
    fn begin_next(&self, lane: &mut dyn Lane) -> bool {
        let _ = lane;
        self.refuse("this run does not come in pieces".into());
        false
    }

    /// Whether nothing is queued and no root is left; asked by a worker alone inside the job.
    fn is_drained(&self) -> bool;

    /// The queues have lost a word, or given one out twice, as their owner has found: the run ends
    /// with an error of this text. Called inside the job.
    fn refuse(&self, text: String);
}

/// A worker's door to the queues of one job.
///
/// None of its calls may panic: the run ends by the panic and quotes it, but what is said to have panicked is the
/// task that the worker has just run, or the program that inserts tasks.
///
/// # Examples
/// See [`Executor`](Executor#examples).
pub trait Lane {
    /// The worker's index, below [`n_workers`](Executor::n_workers): with another the run is refused.
    fn worker(&self) -> usize;

    /// Queues a ready task. Higher priorities are more urgent; 0 is the default.
    fn push(&mut self, word: Word, priority: i64);

    /// Queues a ready task that is no successor of one that has just run here: a root, one whose inputs
    /// came from another rank, or one of a program that may not come back for it. Any worker may take
    /// it. The default is [`push`](Self::push).
    fn share(&mut self, word: Word, priority: i64) {
        self.push(word, priority);
    }

    /// The next task from the queues near this worker.
    fn pop(&mut self) -> Option<Word>;

    /// A task from another worker's queue.
    fn steal(&mut self) -> Option<Word>;

    /// Whether a worker that has found nothing, and would leave the run, shall look once more: the lane
    /// may have waited for a moment until others queued something. By default it leaves.
    fn lingers(&mut self) -> bool {
        false
    }

    /// Whether the task that `pop` has just given came from another worker's queue all the same.
    /// Asked in runs that are recorded, after each `pop` that gave one; by default it never does.
    fn has_helped(&mut self) -> bool {
        false
    }

    /// What is wrong with the queues, if that is known: tasks that were put there will not come. Asked
    /// by a worker that stays inside to wait for some task, and finds nothing; by default nothing is.
    fn fault(&mut self) -> Option<String> {
        None
    }

    /// Called when its worker waits inside the run for others, and has found nothing for some
    /// microseconds. Returns true if other workers could run during this call; otherwise, as by default,
    /// the engine lets the thread sleep.
    ///
    /// - `in_body`: it waits in the midst of a program or body, for tasks that only it might be able to run
    fn waits(&mut self, in_body: bool) -> bool {
        let _ = in_body;
        false
    }

    /// Whether a queued task is known to be more urgent than `priority`; if so, the engine
    /// queues its best successor instead of running it next.
    fn outranks(&self, priority: i64) -> bool;

    /// How much it wants to be told; asked once when a worker enters. What follows is only called
    /// if it wants more than priorities, and of spaces whose edges carry data.
    fn wants(&self) -> Wants {
        Wants::Priorities
    }

    /// Queues a ready task, instead of [`push`](Self::push), and tells what is known of it.
    fn push_ready(&mut self, ready: Ready) {
        self.push(ready.word, ready.priority);
    }

    /// The same instead of [`share`](Self::share).
    fn share_ready(&mut self, ready: Ready) {
        self.push_ready(ready);
    }

    /// Whether a task whose data lie so belongs elsewhere than with this worker; then it is
    /// queued, however urgent.
    fn goes_elsewhere(&self, _hint: Hint) -> bool {
        false
    }

    /// A task of this worker is about to read bytes that lie on a NUMA node. Says whether that
    /// is the worker's own.
    fn reads(&mut self, _numa_node: usize, _bytes: u64) -> bool {
        false
    }

    /// A body of a class took so long here; only for lanes that want [everything](Wants).
    fn measured(&mut self, _class: usize, _seconds: f64) {}
}
