//! A job: one run as the executor sees it, and the gate that decides when it is over.
//!
//! The run itself lives on the stack of the thread that called [`run`](crate::run) and borrows the space.
//! Workers outlive both. So each worker counts itself in at a gate, and the gate closes at a
//! moment when nobody is inside.
//!
//! # Law
//! The gate is one word: closed?, how many are inside, how many have ever entered. It is closed
//! only by an exchange from a state with nobody (else) inside, and never opened again. The last
//! to leave asks the ledger whether anything is left; an exchange on the same word proves that
//! nobody entered since. A thread that comes to close it while somebody is inside counts as one more
//! entry: then the last to leave asks again. A thread that finds the gate closed never touches the run.
//!
//! So many may be inside at once as the word can count, [`MANY_INSIDE`]; a worker that knocks beyond
//! that is turned away, for a count that ran over would say that nobody is inside.
//!
//! # Orderings
//! Leaving is a release, entering and closing are acquires on the same word; so the lines of
//! the ledger that a worker wrote before it left are seen by the thread that closes, and everything
//! that happened in the job is seen by a thread that finds it over.

use crate::port::Work;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, LockResult, OnceLock, PoisonError};

const CLOSED: u64 = 1;
const ONE_INSIDE: u64 = 1 << 1;
const ONE_ENTRY: u64 = 1 << 16;
const INSIDE: u64 = ONE_ENTRY - ONE_INSIDE;

/// How many may be inside a job at once.
pub const MANY_INSIDE: usize = (INSIDE / ONE_INSIDE) as usize;

/// One run of a task space, open for workers until it is over.
pub struct Job {
    gate: Gate,
    bell: Arc<JobBell>,
    offered_by: usize,
    work: NonNull<dyn Work>,
}

// SAFETY: `work` points to a `Work`, which is `Sync`; it is reached only through `Entered`.
unsafe impl Send for Job {}
// SAFETY: as above; every other field is `Sync` by itself.
unsafe impl Sync for Job {}

impl Job {
    /// Counts the caller in. `None` once the job is over, or while 32,767 are inside.
    ///
    /// The run does not return before what this answers was dropped: one that is leaked
    /// (`mem::forget`) keeps it for ever.
    pub fn enter(&self) -> Option<Entered<'_>> {
        // Not `then_some`: an `Entered` that is dropped counts out, even of a closed gate.
        self.gate.enter().then(|| Entered { job: self })
    }

    /// The same for those who stay inside from one call to the next, and so keep the job.
    pub fn enter_to_stay(self: &Arc<Self>) -> Option<Stay> {
        self.gate.enter().then(|| Stay { job: self.clone() })
    }

    /// Whether the job is over: nobody is inside, and nobody will be.
    pub fn is_over(&self) -> bool {
        self.gate.is_closed()
    }

    /// Blocks until the job is over.
    pub fn wait_over(&self) {
        self.bell.wait_over();
    }

    /// Whether something has arrived from another rank that no worker has taken in: one should
    /// enter.
    pub fn has_mail(&self) -> bool {
        self.bell.has_mail()
    }

    /// Whether the run is across ranks: it may not end before others have.
    #[cfg(feature = "rayon")]
    pub(crate) fn is_across(&self) -> bool {
        self.bell.across
    }

    /// Blocks until there is [mail](Self::has_mail) or the job is over: for executors whose
    /// workers have nothing else to wait for.
    pub fn wait_mail(&self) {
        self.bell.wait_mail();
    }

    /// What to call when mail comes and when the job is over, from whatever thread: for executors
    /// whose workers sleep. Only the first counts; it is called at once if there is mail already.
    pub fn on_mail(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.bell.on_mail(Box::new(wake));
    }

    /// The worker in one of whose bodies it is offered; 0 if in none, or if nobody needs to know.
    pub(crate) fn offered_by(&self) -> usize {
        self.offered_by
    }

    /// Whether nobody is inside, and `balanced` holds at a moment when nobody is.
    pub(crate) fn is_quiet(&self, balanced: impl Fn() -> bool) -> bool {
        self.gate.is_quiet(balanced)
    }

    /// How many are inside: a hint.
    pub(crate) fn n_inside(&self) -> usize {
        self.gate.n_inside()
    }

    /// Closes the job if nobody is inside; says whether it is closed now. If not, the last to leave sees
    /// what was written before.
    pub(crate) fn close_if_empty(&self) -> bool {
        let closed = self.gate.close_if_empty();
        if closed {
            self.bell.ring_over();
        }
        closed
    }

    fn leave(&self) {
        // The closure runs while we are still counted in.
        let closed = self.gate.leave(|| self.work().is_drained());
        if closed {
            self.bell.ring_over();
        }
    }

    /// Only for those who are counted in.
    fn work(&self) -> &(dyn Work + 'static) {
        // SAFETY: - the caller is counted in at the gate, so the gate is open
        //         - `Offered` keeps the run alive, and borrowed, until the gate is closed
        unsafe { self.work.as_ref() }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("over", &self.is_over())
            .finish_non_exhaustive()
    }
}

/// Rings when mail comes and when the job is over.
#[derive(Default)]
pub(crate) struct JobBell {
    heard: Mutex<BellState>,
    /// Waits for the end only: mail must not wake the caller of a run.
    for_over: Condvar,
    /// Waits for mail, and for the end.
    for_mail: Condvar,
    /// Whether there is mail: written under the lock of `heard`, so that nobody who waits there misses it, and
    /// read without it at a glance.
    mail: AtomicBool,
    wake: OnceLock<Wake>,
    /// Whether mail may come at all.
    #[cfg(feature = "rayon")]
    across: bool,
}

type Wake = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct BellState {
    over: bool,
    /// How many wait for mail: without them ringing makes no system call.
    waiting: usize,
}

impl JobBell {
    /// Of a run across ranks.
    pub fn across() -> Self {
        JobBell {
            #[cfg(feature = "rayon")]
            across: true,
            ..JobBell::default()
        }
    }

    /// There is mail; called under the lock that keeps it. Says whether there was none before: then
    /// the caller must [ring](Self::ring_mail) after that lock.
    #[must_use]
    pub fn mail_has_come(&self) -> bool {
        let _heard = self.heard();
        !self.mail.swap(true, Ordering::Relaxed)
    }

    /// All mail was taken; called under the lock that keeps it.
    pub fn mail_is_taken(&self) {
        let _heard = self.heard();
        self.mail.store(false, Ordering::Relaxed);
    }

    /// Whether there is mail, at a glance.
    pub fn has_mail(&self) -> bool {
        // Relaxed: who waits looks under the lock under which it is written, and a worker that falls asleep
        // between two turns of a lock that `wake` takes too.
        self.mail.load(Ordering::Relaxed)
    }

    /// What wakes those who do not wait here.
    pub fn on_mail(&self, wake: Wake) {
        let wake = self.wake.get_or_init(|| wake);
        // Under the lock: mail that this does not see will find `wake`.
        let has_mail = {
            let _heard = self.heard();
            self.has_mail()
        };
        if has_mail {
            wake();
        }
    }

    /// Wakes all that wait for mail.
    pub fn ring_mail(&self) {
        if self.heard().waiting > 0 {
            self.for_mail.notify_all();
        }
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    fn ring_over(&self) {
        self.heard().over = true;
        self.for_over.notify_all();
        self.ring_mail();
    }

    fn wait_over(&self) {
        let mut heard = self.heard();
        while !heard.over {
            heard = waited(self.for_over.wait(heard));
        }
    }

    /// Waits for mail, or for the end.
    pub fn wait_mail(&self) {
        let mut heard = self.heard();
        heard.waiting += 1;
        while !(heard.over || self.has_mail()) {
            heard = waited(self.for_mail.wait(heard));
        }
        heard.waiting -= 1;
    }

    fn heard(&self) -> MutexGuard<'_, BellState> {
        waited(self.heard.lock())
    }
}

/// The lock, also after a panic: nothing here is left half done.
fn waited<'l>(lock: LockResult<MutexGuard<'l, BellState>>) -> MutexGuard<'l, BellState> {
    lock.unwrap_or_else(PoisonError::into_inner)
}

/// Proof of being inside a job; dropping it leaves.
#[derive(Debug)]
pub struct Entered<'j> {
    job: &'j Job,
}

impl Deref for Entered<'_> {
    type Target = dyn Work;
    fn deref(&self) -> &Self::Target {
        self.job.work()
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.job.leave();
    }
}

/// Proof of being inside a job that it keeps; dropping it leaves.
///
/// # Examples
/// A worker whose thread is free for something else whenever a task has begun:
/// ```
/// use dataflow_core::port::{Executor, Job, Lane, Stay, Word};
/// use dataflow_core::space::Independent;
/// use std::sync::Arc;
///
/// struct InPieces;
///
/// impl Executor for InPieces {
///     fn n_workers(&self) -> usize { 1 }
///     fn execute(&self, job: &Arc<Job>) {
///         let mut stack = Stack(Vec::new());
///         while let Some(stay) = job.enter_to_stay() {
///             while stay.begin_next(&mut stack) {} // Each turn ends one task and begins the next.
///             drop(stay);
///             job.wait_mail(); // of other ranks
///         }
///     }
/// }
///
/// struct Stack(Vec<Word>);
///
/// impl Lane for Stack {
///     fn worker(&self) -> usize { 0 }
///     fn push(&mut self, word: Word, _priority: i64) { self.0.push(word) }
///     fn pop(&mut self) -> Option<Word> { self.0.pop() }
///     fn steal(&mut self) -> Option<Word> { None }
///     fn outranks(&self, _priority: i64) -> bool { false }
/// }
///
/// let report = dataflow_core::run(&Independent::new("nothing", 10, |_| Ok(())), &InPieces)?;
/// assert_eq!(report.tasks, 10);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Stay {
    job: Arc<Job>,
}

impl Deref for Stay {
    type Target = dyn Work;
    fn deref(&self) -> &Self::Target {
        self.job.work()
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.job.leave();
    }
}

/// The loan of a run to workers: ends, whatever happens, with the gate closed.
pub(crate) struct Offered<'a, W: Work + 'a> {
    job: Arc<Job>,
    run: &'a W,
    stop: fn(&W),
}

impl<'a, W: Work + 'a> Offered<'a, W> {
    /// Offers a run, in a body of a [worker](Job::offered_by) or not. `stop` makes workers inside leave
    /// soon.
    pub fn new(run: &'a W, bell: Arc<JobBell>, offered_by: usize, stop: fn(&W)) -> Self {
        let erased: NonNull<dyn Work + 'a> = NonNull::from(run as &(dyn Work + 'a));
        // SAFETY: - only the lifetime changes; both are the same kind of fat pointer
        //         - the pointer is followed only from inside the gate, and `drop` of the value
        //           made here does not return before the gate is closed; `Offered` stays in this
        //           crate, whose runs (of spaces, sequences, records, recursions) do not leak it
        let work = unsafe {
            std::mem::transmute::<NonNull<dyn Work + 'a>, NonNull<dyn Work + 'static>>(erased)
        };
        let gate = Gate::default();
        let job = Arc::new(Job {
            gate,
            bell,
            offered_by,
            work,
        });
        Offered { job, run, stop }
    }

    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }
}

impl<'a, W: Work + 'a> Drop for Offered<'a, W> {
    fn drop(&mut self) {
        // Normally over by now. If the executor gave up or unwound, those inside are asked to
        // leave; the last of them finds the run drained and closes the gate.
        if !self.job.is_over() {
            (self.stop)(self.run);
            if !self.job.close_if_empty() {
                self.job.wait_over();
            }
        }
    }
}

/// The word at the door.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU64);

impl Gate {
    /// Counts in; false if closed, or as long as no more can be counted.
    pub fn enter(&self) -> bool {
        let mut now = self.0.load(Ordering::Relaxed);
        while now & CLOSED == 0 && now & INSIDE != INSIDE {
            let entered = now.wrapping_add(ONE_ENTRY + ONE_INSIDE);
            // Acquire: pairs with the release of those who left before.
            match self
                .0
                .compare_exchange_weak(now, entered, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Counts out; closes instead if nobody else is inside and `drained` says so.
    /// Returns whether it closed.
    pub fn leave(&self, drained: impl Fn() -> bool) -> bool {
        // Acquire: what the others wrote before they left is seen by `drained`.
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            let close = now & INSIDE == ONE_INSIDE && drained();
            let left = (now - ONE_INSIDE) | if close { CLOSED } else { 0 };
            // Release: what we wrote inside is seen by a thread that enters or closes after us. No
            // acquire: entries are counted, so what it replaces is what was loaded.
            match self
                .0
                .compare_exchange_weak(now, left, Ordering::Release, Ordering::Acquire)
            {
                Ok(_) => return close,
                Err(other) => now = other,
            }
        }
    }

    /// Closes if nobody is inside; returns whether it is closed. If not, the last worker to leave asks
    /// once more whether all is drained, and sees what was written before this.
    pub fn close_if_empty(&self) -> bool {
        // Acquire: a thread that learns that the gate is closed may end the loan of the run, so it sees
        // what was done inside.
        let mut now = self.0.load(Ordering::Acquire);
        while now & CLOSED == 0 {
            let is_empty = now & INSIDE == 0;
            let next = match is_empty {
                true => now | CLOSED,
                // The last one inside may have asked already: its exchange must fail.
                false => now.wrapping_add(ONE_ENTRY),
            };
            // Release: for the worker that asks again. No acquire: entries are counted, so what it replaces is
            // what was loaded.
            match self
                .0
                .compare_exchange_weak(now, next, Ordering::Release, Ordering::Acquire)
            {
                Ok(_) => return is_empty,
                Err(other) => now = other,
            }
        }
        true
    }

    /// Whether nobody is inside, and `balanced` holds while nobody is; it reads by acquire.
    pub fn is_quiet(&self, balanced: impl Fn() -> bool) -> bool {
        // Acquire: what the others wrote before they left is seen by `balanced`. Entries are
        // counted: the same value again means that nobody came in meanwhile. Relaxed the second
        // time: a thread that reads, by acquire, what a later visitor published sees its entry too.
        let before = self.0.load(Ordering::Acquire);
        before & INSIDE == 0 && balanced() && self.0.load(Ordering::Relaxed) == before
    }

    /// How many are inside: a hint.
    pub fn n_inside(&self) -> usize {
        (self.0.load(Ordering::Relaxed) & INSIDE) as usize / ONE_INSIDE as usize
    }

    pub fn is_closed(&self) -> bool {
        // Acquire: everything done inside is seen by a thread that finds the gate closed.
        self.0.load(Ordering::Acquire) & CLOSED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::port::Lane;

    /// Nothing to do, and nothing left.
    struct Done;
    impl Work for Done {
        fn work(&self, _: &mut dyn Lane) -> u64 {
            0
        }
        fn is_drained(&self) -> bool {
            true
        }
        fn refuse(&self, _: String) {}
    }

    #[test]
    fn whoever_knocks_at_a_closed_gate_leaves_no_trace() {
        let done = Done;
        let offered = Offered::new(&done, Arc::default(), 0, |_| {});
        drop(offered.job().enter().unwrap());
        let closed = offered.job().gate.0.load(Ordering::Relaxed);
        for _ in 0..3 {
            assert!(offered.job().enter().is_none());
        }
        assert_eq!(offered.job().gate.0.load(Ordering::Relaxed), closed);
        assert!(offered.job().is_over() && offered.job().is_quiet(|| true));
    }

    #[test]
    fn a_gate_is_quiet_only_if_nobody_is_inside_and_nobody_came_while_one_looked() {
        let gate = Gate::default();
        assert!(gate.is_quiet(|| true) && !gate.is_quiet(|| false));
        let visited = || gate.enter() && !gate.leave(|| false);
        assert!(!gate.is_quiet(visited));
        assert!(gate.enter() && !gate.is_quiet(|| true));
    }

    #[test]
    fn a_gate_knows_how_many_are_inside() {
        let gate = Gate::default();
        let n_inside = [true, true, false, true].map(|enters| {
            match enters {
                true => assert!(gate.enter()),
                false => assert!(!gate.leave(|| false)),
            }
            gate.n_inside()
        });
        assert_eq!(n_inside, [1, 2, 1, 2]);
    }

    /// A run of several ranks hung: the last worker had asked the ledger, then another rank's failure
    /// stopped the run, and the thread that brought it found somebody inside.
    #[test]
    fn the_last_to_leave_closes_a_gate_that_was_to_close_since_it_asked() {
        let gate = Gate::default();
        let stopped = AtomicBool::new(false);
        let is_drained = || {
            let drained = stopped.load(Ordering::Relaxed);
            stopped.store(true, Ordering::Relaxed);
            assert!(drained || !gate.close_if_empty());
            drained
        };
        assert!(gate.enter() && gate.leave(is_drained) && gate.is_closed());
    }

    #[test]
    fn mail_that_came_first_is_told_to_whoever_is_named_later() {
        let (bell, calls) = (JobBell::default(), Arc::new(AtomicU64::new(0)));
        assert!(bell.mail_has_come(), "there was none before");
        bell.ring_mail();
        let called = calls.clone();
        bell.on_mail(Box::new(move || _ = called.fetch_add(1, Ordering::Relaxed)));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_run_whose_executor_gives_up_is_stopped() {
        struct Stops(AtomicBool);
        impl Work for Stops {
            fn work(&self, _: &mut dyn Lane) -> u64 {
                0
            }
            fn is_drained(&self) -> bool {
                self.0.load(Ordering::Relaxed)
            }
            fn refuse(&self, _: String) {}
        }
        let run = Stops(AtomicBool::new(false));
        let stop = |run: &Stops| run.0.store(true, Ordering::Relaxed);
        let offered = Offered::new(&run, Arc::default(), 0, stop);
        let job = Arc::clone(offered.job());
        drop(job.enter());
        assert!(!job.is_over());
        drop(offered);
        assert!(job.is_over() && run.is_drained());
    }

    /// The count of those inside ran over into the count of entries: the gate read that nobody was
    /// inside, the run returned, and a worker that had entered followed a dead frame.
    #[test]
    #[cfg_attr(miri, ignore = "32,767 entries that are all alike to Miri")]
    fn nobody_enters_a_gate_that_counts_as_many_as_it_can() {
        let done = Done;
        let offered = Offered::new(&done, Arc::default(), 0, |_| {});
        let mut inside: Vec<_> = (0..MANY_INSIDE).map(|_| offered.job().enter()).collect();
        assert!(inside.iter().all(Option::is_some));
        for _ in 0..3 {
            assert!(offered.job().enter().is_none());
            assert!(!offered.job().close_if_empty() && !offered.job().is_quiet(|| true));
        }
        inside.pop();
        inside.push(offered.job().enter());
        assert!(inside.iter().all(Option::is_some), "one left, one came");
        drop(inside);
        assert!(offered.job().is_over());
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p dataflow-core --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::engine::Ledger;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// A run as the gate sees it: a ledger, a bag of words, and something that is not atomic.
    struct Model {
        gate: Gate,
        ledger: Ledger,
        /// Words in the queue; the queue itself orders nothing.
        words: AtomicUsize,
        /// What the run owns: written inside, by the worker of that index; freed by the closer.
        owned: [UnsafeCell<u64>; 2],
        closed_by: AtomicUsize,
    }

    // SAFETY: the cells are what the models check.
    unsafe impl Sync for Model {}

    impl Model {
        fn new(n_words: usize) -> Arc<Self> {
            let ledger = Ledger::new(2, n_words as u64, false);
            ledger.all_announced();
            let words = AtomicUsize::new(n_words);
            let mut tally = ledger.line(0).read();
            tally.queued = n_words as u64;
            ledger.line(0).publish(&tally);
            let gate = Gate::default();
            let owned = [UnsafeCell::new(0), UnsafeCell::new(0)];
            Arc::new(Model {
                gate,
                ledger,
                words,
                owned,
                closed_by: AtomicUsize::new(0),
            })
        }

        /// One worker: enters and leaves as long as the gate lets it, as executors do.
        fn work(&self, worker: usize) {
            // Executors sleep when there is nothing to take; here two visits must do.
            for _ in 0..2 {
                if !self.gate.enter() {
                    return;
                }
                let line = self.ledger.line(worker);
                let mut tally = line.read();
                while self.take() {
                    tally.taken += 1;
                    tally.executed += 1;
                    // SAFETY: checked by the model: the cell is this worker's while it is inside
                    self.owned[worker].with_mut(|owned| unsafe { *owned += 1 });
                }
                line.publish(&tally);
                if self.gate.leave(|| self.ledger.is_drained()) {
                    self.close();
                    return;
                }
            }
        }

        fn take(&self) -> bool {
            self.words
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |words| {
                    words.checked_sub(1)
                })
                .is_ok()
        }

        /// What the closer (or a thread that learns of it) may do: anything, for nobody is inside.
        fn close(&self) {
            assert_eq!(
                self.closed_by.fetch_add(1, Ordering::Relaxed),
                0,
                "closed twice"
            );
            self.free();
        }

        fn free(&self) -> u64 {
            // SAFETY: checked by the model: everybody has left, and before us
            let parts = self
                .owned
                .each_ref()
                .map(|cell| cell.with_mut(|owned| unsafe { *owned }));
            parts.iter().sum()
        }
    }

    #[test]
    fn loom_the_gate_closes_once_when_all_words_were_taken_and_nobody_is_inside() {
        let mut explored = loom::model::Builder::new();
        explored.preemption_bound = explored.preemption_bound.max(Some(3));
        explored.check(|| {
            let model = Model::new(2);
            let other = model.clone();
            let worker = thread::spawn(move || other.work(1));
            model.work(0);
            worker.join().unwrap();
            assert!(model.gate.is_closed(), "somebody closed it");
            assert_eq!(model.ledger.executed(), 2);
            assert_eq!(model.closed_by.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn loom_whoever_finds_the_gate_closed_sees_what_was_done_inside() {
        loom::model(|| {
            let model = Model::new(1);
            let other = model.clone();
            let worker = thread::spawn(move || {
                assert!(other.gate.enter());
                assert!(other.take());
                // SAFETY: checked by the model
                other.owned[1].with_mut(|owned| unsafe { *owned += 1 });
                let mut tally = other.ledger.line(1).read();
                tally.taken += 1;
                other.ledger.line(1).publish(&tally);
                assert!(other.gate.leave(|| other.ledger.is_drained()));
            });
            while !model.gate.is_closed() {
                thread::yield_now();
            }
            assert_eq!(model.free(), 1);
            worker.join().unwrap();
        });
    }

    /// `Offered::drop` and `Monitor::cancel`: the run is stopped from outside.
    #[test]
    fn loom_whoever_closes_an_empty_gate_sees_what_was_done_inside() {
        loom::model(|| {
            let model = Model::new(2);
            let other = model.clone();
            let worker = thread::spawn(move || {
                if !other.gate.enter() {
                    return;
                }
                // SAFETY: checked by the model
                other.owned[1].with_mut(|owned| unsafe { *owned += 1 });
                other.gate.leave(|| other.ledger.is_drained());
            });
            model.ledger.stop();
            if model.gate.close_if_empty() {
                model.free();
                assert!(!model.gate.enter(), "closed for ever");
            }
            worker.join().unwrap();
        });
    }

    /// What another rank brings to an end, while the last worker leaves.
    #[test]
    fn loom_a_gate_that_is_to_close_while_the_last_leaves_is_closed_by_one_of_the_two() {
        loom::model(|| {
            let model = Model::new(2);
            assert!(model.gate.enter());
            let other = model.clone();
            let worker = thread::spawn(move || other.gate.leave(|| other.ledger.is_drained()));
            model.ledger.stop();
            let is_closed = model.gate.close_if_empty();
            let by_worker = worker.join().unwrap();
            assert!((is_closed || by_worker) && model.gate.is_closed());
        });
    }

    /// A worker of one index may be another thread on its next visit, if it enters after the
    /// first has left: how executors know that is their affair, and orders nothing.
    #[test]
    fn loom_a_line_is_seen_by_the_next_thread_with_its_index() {
        loom::model(|| {
            let model = Model::new(1);
            let other = model.clone();
            let first = thread::spawn(move || {
                assert!(other.gate.enter());
                // SAFETY: checked by the model
                other.owned[1].with_mut(|owned| unsafe { *owned = 7 });
                assert!(!other.gate.leave(|| false));
                other.closed_by.store(9, Ordering::Relaxed);
            });
            if model.closed_by.load(Ordering::Relaxed) == 9 {
                assert!(model.gate.enter());
                // SAFETY: checked by the model
                let seen = model.owned[1].with(|owned| unsafe { *owned });
                assert_eq!(seen, 7);
            }
            first.join().unwrap();
        });
    }
}
