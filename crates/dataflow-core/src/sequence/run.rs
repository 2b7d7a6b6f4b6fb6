//! Run: the workers of a sequence. One of them inserts, and the others run what is ready meanwhile.
//!
//! # Law
//! A task is in one place: in the shelf of a worker while it is parked or queued, as a word that
//! some datum or some queue holds once; or in the hands of the worker that runs it. So a run that
//! is stopped drops every task with its shelves, whoever was to wake it.

use super::nested::Inside;
use super::scope::Scope;
use super::task::{Fallen, Inserted, Label, Step};
use super::versions::Woken;
use crate::engine::{INSIDE, Job, Ledger, Line, Offered, Shelves, Tally, panic_text};
use crate::error::{Error, Kind};
use crate::port::{Executor, Lane, Word, Work};
use crate::sync::{AtomicU64, Ordering};
use crossbeam_utils::Backoff;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Boxed<'env> = Box<dyn Inserted + 'env>;

/// The counts of a run, and the run in one of whose bodies it goes on, if any.
pub(crate) struct Level {
    pub ledger: Arc<Ledger>,
    outer: Option<Arc<Level>>,
    /// Tasks that ran inside of bodies.
    nested: AtomicU64,
}

impl Level {
    /// A run of its own.
    pub fn outermost(n_workers: usize) -> Arc<Self> {
        Self::new(n_workers, None)
    }

    /// A run inside a body of another.
    pub fn within(n_workers: usize, outer: &Arc<Level>) -> Arc<Self> {
        Self::new(n_workers, Some(outer.clone()))
    }

    fn new(n_workers: usize, outer: Option<Arc<Level>>) -> Arc<Self> {
        Arc::new(Level {
            ledger: Arc::new(Ledger::new(n_workers, 0, false)),
            outer,
            nested: AtomicU64::new(0),
        })
    }

    /// Whether it shall end, for its own sake or with the run that it is inside of.
    fn is_stopped(&self) -> bool {
        let outer_is = |outer: &Arc<Level>| {
            let stopped = outer.is_stopped();
            if stopped {
                self.ledger.stop();
            }
            stopped
        };
        self.ledger.is_stopped() || self.outer.as_ref().is_some_and(outer_is)
    }

    /// So many tasks ran inside a body.
    pub fn count_nested(&self, tasks: u64) {
        self.nested.fetch_add(tasks, Ordering::Relaxed);
    }

    /// How many tasks ran, those inside of bodies too; exact when nobody is inside.
    pub fn tasks(&self) -> u64 {
        self.ledger.executed() + self.nested.load(Ordering::Relaxed)
    }
}

/// What the workers of a run share.
pub(crate) struct Shared<'env> {
    level: Arc<Level>,
    /// Tasks that are parked or queued.
    shelves: Shelves<Boxed<'env>>,
    fault: Mutex<Option<Fault>>,
}

/// What a worker has in hand.
pub(crate) struct Hand<'l> {
    lane: &'l mut dyn Lane,
    on: &'l dyn Executor,
    line: &'l Line,
    tally: Tally,
    /// Tasks inserted, of the worker that inserts.
    pub inserted: u64,
    /// What runs, for reports of panics.
    running: Option<Label>,
}

/// The failure to report: what stopped the run goes before what bodies reported.
struct Fault {
    order: (bool, u64, u64),
    error: Error,
}

impl<'env> Shared<'env> {
    fn new(level: Arc<Level>) -> Self {
        Shared {
            shelves: Shelves::new(level.ledger.n_workers()),
            level,
            fault: Mutex::new(None),
        }
    }

    /// A new task: queued if it is ready, else parked.
    pub fn insert(&self, task: Boxed<'env>, hand: &mut Hand<'_>) {
        let mut woken = Woken::new();
        if let Some(ready) = self.settle(task, &mut woken, hand) {
            self.queue(ready, hand);
        }
        self.wake(&mut woken, hand);
    }

    /// Runs tasks until no more than so many wait.
    pub fn keep_window(&self, window: u64, hand: &mut Hand<'_>) {
        let ledger = &self.level.ledger;
        ledger.set_count(hand.inserted);
        if hand.inserted - ledger.executed() <= window {
            return;
        }
        let backoff = Backoff::new();
        while hand.inserted - ledger.executed() > window / 2 && !self.level.is_stopped() {
            match hand.next() {
                Some(word) => {
                    self.run_from(word, hand);
                    backoff.reset();
                }
                // The others have it all in hand.
                None => backoff.snooze(),
            }
        }
    }

    /// Parks a task where it has to wait; gives it back if nowhere.
    fn settle(
        &self,
        mut task: Boxed<'env>,
        woken: &mut Woken,
        hand: &Hand<'_>,
    ) -> Option<Boxed<'env>> {
        loop {
            let step = task.advance(woken);
            if step == Step::Ready {
                return Some(task);
            }
            task = self.park(task, step, hand)?;
        }
    }

    /// Puts a task on the shelf and its word into the queue of a datum; gives it back if what it
    /// waits for has come meanwhile.
    fn park(&self, task: Boxed<'env>, step: Step, hand: &Hand<'_>) -> Option<Boxed<'env>> {
        let worker = hand.lane.worker();
        let mut shelf = self.shelves.of(worker);
        let word = shelf.next_word(worker);
        // Under the shelf's lock: whoever wakes it finds it there.
        match task.park(step, word) {
            true => {
                shelf.put(word, task);
                None
            }
            false => Some(task),
        }
    }

    fn queue(&self, task: Boxed<'env>, hand: &mut Hand<'_>) {
        let priority = task.label().priority;
        let word = self.shelves.put(hand.lane.worker(), task);
        hand.tally.queued += 1;
        hand.lane.push(word, priority);
    }

    /// Queues those of the woken tasks that are ready.
    fn wake(&self, woken: &mut Woken, hand: &mut Hand<'_>) {
        while let Some(word) = woken.pop() {
            let task = self.shelves.take(word);
            if let Some(ready) = self.settle(task, woken, hand) {
                self.queue(ready, hand);
            }
        }
    }

    /// Runs a task, and after it one of those that it made ready, the most urgent.
    fn run_from(&self, word: Word, hand: &mut Hand<'_>) {
        let mut next = Some(self.shelves.take(word));
        while let Some(task) = next.take() {
            if self.level.is_stopped() {
                return;
            }
            let mut woken = self.run_one(task, hand);
            while let Some(word) = woken.pop() {
                let task = self.shelves.take(word);
                let Some(ready) = self.settle(task, &mut woken, hand) else {
                    continue;
                };
                next = match next {
                    Some(best) if best.label().priority >= ready.label().priority => {
                        self.queue(ready, hand);
                        Some(best)
                    }
                    Some(other) => {
                        self.queue(other, hand);
                        Some(ready)
                    }
                    None => Some(ready),
                };
            }
            if let Some(best) = &next
                && hand.lane.outranks(best.label().priority)
                && let Some(best) = next.take()
            {
                self.queue(best, hand);
            }
        }
    }

    /// Runs one task; answers whom its end wakes.
    fn run_one(&self, mut task: Boxed<'env>, hand: &mut Hand<'_>) -> Woken {
        let label = task.label();
        let mut failed = task.is_spoilt();
        if !failed {
            hand.running = Some(label);
            let inside = Inside {
                on: hand.on,
                level: &self.level,
                label,
            };
            let result = task.run(&inside);
            hand.running = None;
            if let Err(fallen) = result {
                failed = true;
                self.note(label, fallen);
            }
        }
        let mut woken = Woken::new();
        task.finish(failed, &mut woken);
        hand.tally.executed += 1;
        hand.line.publish_executed(hand.tally.executed);
        woken
    }

    /// A body failed, or what it ran inside: of several failures the smallest is reported.
    #[cold]
    fn note(&self, label: Label, fallen: Fallen) {
        let error = match fallen {
            Fallen::Body(error) => Error::of_task(&label, error),
            Fallen::Inside(error) if error.kind() == Kind::TaskFailed => error,
            Fallen::Inside(error) => return self.stop(error),
        };
        let order = (true, error.index().unwrap_or(u64::MAX), label.number);
        self.keep(Fault { order, error });
    }

    /// Notes a fault that ends the run.
    #[cold]
    pub fn fail(&self, kind: Kind, task: Option<Label>, text: impl Into<String>) {
        self.stop(Error::new(
            kind,
            task.map(|label| format!("{label:?}")),
            text,
        ));
    }

    /// Ends the run: the first fault that does is reported.
    fn stop(&self, error: Error) {
        if !self.level.is_stopped() {
            let order = (false, 0, 0);
            self.keep(Fault { order, error });
        }
        self.level.ledger.stop();
    }

    /// A body panicked, or else the inserting program.
    #[cold]
    fn panicked(&self, running: Option<Label>, panic: &(dyn Any + Send)) {
        let who = match (running, &self.level.outer) {
            (None, None) => "the program that inserts tasks",
            _ => "task",
        };
        let text = format!("{who} panicked: {}", panic_text(panic));
        self.fail(Kind::TaskPanicked, running, text);
    }

    fn keep(&self, fault: Fault) {
        let mut kept = self.fault();
        if kept.as_ref().is_none_or(|kept| fault.order < kept.order) {
            *kept = Some(fault);
        }
    }

    fn fault(&self) -> MutexGuard<'_, Option<Fault>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the run failed, if it did.
    fn error(&self) -> Option<Error> {
        self.fault().take().map(|fault| fault.error)
    }
}

impl Hand<'_> {
    /// The same for a while; its counts are to be taken back.
    fn reborrow(&mut self) -> Hand<'_> {
        Hand {
            lane: &mut *self.lane,
            on: self.on,
            line: self.line,
            tally: self.tally,
            inserted: self.inserted,
            running: self.running,
        }
    }

    /// The next task: from near queues, else from another's.
    fn next(&mut self) -> Option<Word> {
        let word = self.lane.pop().or_else(|| self.lane.steal())?;
        self.tally.taken += 1;
        Some(word)
    }
}

/// One run of a sequence: the inserting program, and what the workers share.
struct Sequence<'env, 'on, P, R> {
    shared: Shared<'env>,
    on: &'on dyn Executor,
    program: Mutex<Option<P>>,
    result: Mutex<Option<R>>,
}

/// Runs an inserting program and all that it inserts: whatever `execute` does with the job, it is
/// over when this returns.
pub(super) fn conduct<'env, P, R>(
    on: &dyn Executor,
    level: &Arc<Level>,
    program: P,
    execute: impl FnOnce(&Arc<Job>),
) -> Result<R, Error>
where
    P: for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
    R: Send,
{
    let sequence = Sequence {
        shared: Shared::new(level.clone()),
        on,
        program: Mutex::new(Some(program)),
        result: Mutex::new(None),
    };
    {
        let offered = Offered::new(&sequence, Arc::default(), |sequence| {
            sequence.shared.level.ledger.stop();
        });
        execute(offered.job());
    }
    if let Some(error) = sequence.shared.error() {
        return Err(error);
    }
    let (tasks, count) = (level.ledger.executed(), level.ledger.count());
    let result = sequence.result.into_inner();
    match result.unwrap_or_else(PoisonError::into_inner) {
        Some(result) if tasks == count => Ok(result),
        _ => {
            let text = format!("cancelled after {tasks} of {count} tasks");
            Err(Error::new(Kind::Cancelled, None, text))
        }
    }
}

impl<'env, P, R> Work for Sequence<'env, '_, P, R>
where
    P: for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
    R: Send,
{
    fn work(&self, lane: &mut dyn Lane) -> u64 {
        let shared = &self.shared;
        let line = shared.level.ledger.line(lane.worker());
        let mut hand = Hand {
            tally: line.read(),
            lane,
            on: self.on,
            line,
            inserted: 0,
            running: None,
        };
        let before = hand.tally.executed;
        let outer = INSIDE.replace(true);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.visit(&mut hand))) {
            shared.panicked(hand.running, &*panic);
        }
        INSIDE.set(outer);
        line.publish(&hand.tally);
        hand.tally.executed - before
    }

    fn is_drained(&self) -> bool {
        self.shared.level.ledger.is_drained()
    }
}

impl<'env, P, R> Sequence<'env, '_, P, R>
where
    P: for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
    R: Send,
{
    fn visit(&self, hand: &mut Hand<'_>) {
        let program = self
            .program
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(program) = program {
            self.insert(program, hand);
        }
        while !self.shared.level.is_stopped()
            && let Some(word) = hand.next()
        {
            self.shared.run_from(word, hand);
        }
    }

    /// Runs the inserting program.
    fn insert(&self, program: P, hand: &mut Hand<'_>) {
        let scope = Scope::new(&self.shared, hand.reborrow());
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = program(&scope);
            scope.end();
            result
        }));
        let Hand {
            tally,
            inserted,
            running,
            ..
        } = scope.into_hand();
        hand.tally = tally;
        let result = match result {
            Ok(result) => result,
            Err(panic) => return self.shared.panicked(running, &*panic),
        };
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.shared.level.ledger.set_count(inserted);
        self.shared.level.ledger.all_announced();
    }
}
