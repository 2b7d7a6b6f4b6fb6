//! Run: the workers of a sequence. One of them inserts, and the others run what is ready meanwhile.
//!
//! # Law
//! A task is in one place: in the shelf of a worker while it is parked or queued, as a word that
//! some datum or some queue holds once; or in the hands of the worker that runs it. So a run that
//! is stopped drops every task with its shelves, whoever was to wake it.

use super::scope::Scope;
use super::task::{Inserted, Label, Step};
use super::versions::Woken;
use crate::engine::{INSIDE, Ledger, Line, Tally, panic_text};
use crate::error::{Error, Kind};
use crate::port::{Lane, Word, Work};
use crate::sync::{SpinLock, lock};
use crossbeam_utils::{Backoff, CachePadded};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Boxed<'env> = Box<dyn Inserted + 'env>;

/// What the workers of a run share.
pub(crate) struct Shared<'env> {
    pub ledger: Arc<Ledger>,
    shelves: Box<[CachePadded<SpinLock<Shelf<'env>>>]>,
    fault: Mutex<Option<Fault>>,
}

/// Tasks that are parked or queued.
#[derive(Default)]
struct Shelf<'env> {
    tasks: Vec<Option<Boxed<'env>>>,
    free: Vec<u32>,
}

/// What a worker has in hand.
pub(crate) struct Hand<'l> {
    lane: &'l mut dyn Lane,
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

/// How many bits of a word name a place on a shelf; those above name the shelf.
const PLACE: u32 = 32;

impl<'env> Shared<'env> {
    pub fn new(ledger: Arc<Ledger>) -> Self {
        let shelves = (0..ledger.n_workers())
            .map(|_| CachePadded::new(SpinLock::new(Shelf::default())))
            .collect();
        Shared {
            ledger,
            shelves,
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
        self.ledger.set_count(hand.inserted);
        if hand.inserted - self.ledger.executed() <= window {
            return;
        }
        let backoff = Backoff::new();
        while hand.inserted - self.ledger.executed() > window / 2 && !self.ledger.is_stopped() {
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
        let shelf = hand.lane.worker();
        let mut kept = lock(&self.shelves[shelf]);
        let word = kept.next_word(shelf);
        // Under the shelf's lock: whoever wakes it finds it there.
        match task.park(step, word) {
            true => {
                kept.put(word, task);
                None
            }
            false => Some(task),
        }
    }

    fn queue(&self, task: Boxed<'env>, hand: &mut Hand<'_>) {
        let (shelf, priority) = (hand.lane.worker(), task.label().priority);
        let mut kept = lock(&self.shelves[shelf]);
        let word = kept.next_word(shelf);
        kept.put(word, task);
        drop(kept);
        hand.tally.queued += 1;
        hand.lane.push(word, priority);
    }

    fn take(&self, word: Word) -> Boxed<'env> {
        let shelf = (word >> PLACE) as usize;
        let task = lock(&self.shelves[shelf]).take(word);
        task.unwrap_or_else(|| unreachable!("a word that is held once has its task"))
    }

    /// Queues those of the woken tasks that are ready.
    fn wake(&self, woken: &mut Woken, hand: &mut Hand<'_>) {
        while let Some(word) = woken.pop() {
            let task = self.take(word);
            if let Some(ready) = self.settle(task, woken, hand) {
                self.queue(ready, hand);
            }
        }
    }

    /// Runs a task, and after it one of those that it made ready, the most urgent.
    fn run_from(&self, word: Word, hand: &mut Hand<'_>) {
        let mut next = Some(self.take(word));
        while let Some(task) = next.take() {
            if self.ledger.is_stopped() {
                return;
            }
            let mut woken = self.run_one(task, hand);
            while let Some(word) = woken.pop() {
                let task = self.take(word);
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
            let result = task.run();
            hand.running = None;
            if let Err(error) = result {
                failed = true;
                let error = Error::of_task(&label, error);
                let order = (true, error.index().unwrap_or(u64::MAX), label.number);
                self.keep(Fault { order, error });
            }
        }
        let mut woken = Woken::new();
        task.finish(failed, &mut woken);
        hand.tally.executed += 1;
        hand.line.publish_executed(hand.tally.executed);
        woken
    }

    /// Notes a fault that ends the run: the first one is reported.
    #[cold]
    pub fn fail(&self, kind: Kind, task: Option<Label>, text: impl Into<String>) {
        if !self.ledger.is_stopped() {
            let error = Error::new(kind, task.map(|label| format!("{label:?}")), text);
            let order = (false, 0, 0);
            self.keep(Fault { order, error });
        }
        self.ledger.stop();
    }

    /// A body panicked, or else the inserting program.
    #[cold]
    fn panicked(&self, running: Option<Label>, panic: &(dyn Any + Send)) {
        let who = match running {
            Some(_) => "task",
            None => "the program that inserts tasks",
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
    pub fn error(&self) -> Option<Error> {
        self.fault().take().map(|fault| fault.error)
    }
}

impl<'env> Shelf<'env> {
    /// The word of the next task to be put.
    fn next_word(&mut self, shelf: usize) -> Word {
        if self.free.is_empty() {
            self.free.push(self.tasks.len() as u32);
            self.tasks.push(None);
        }
        let place = self.free.last().copied().unwrap_or_default();
        (shelf as u64) << PLACE | u64::from(place)
    }

    fn put(&mut self, word: Word, task: Boxed<'env>) {
        self.free.pop();
        self.tasks[word as u32 as usize] = Some(task);
    }

    fn take(&mut self, word: Word) -> Option<Boxed<'env>> {
        let place = word as u32;
        let task = self.tasks.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(task)
    }
}

impl Hand<'_> {
    /// The same for a while; its counts are to be taken back.
    fn reborrow(&mut self) -> Hand<'_> {
        Hand {
            lane: &mut *self.lane,
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
pub(super) struct Sequence<'env, P, R> {
    pub shared: Shared<'env>,
    pub program: Mutex<Option<P>>,
    pub result: Mutex<Option<R>>,
}

impl<'env, P, R> Work for Sequence<'env, P, R>
where
    P: for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
    R: Send,
{
    fn work(&self, lane: &mut dyn Lane) -> u64 {
        let shared = &self.shared;
        let line = shared.ledger.line(lane.worker());
        let mut hand = Hand {
            tally: line.read(),
            lane,
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
        self.shared.ledger.is_drained()
    }
}

impl<'env, P, R> Sequence<'env, P, R>
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
        while !self.shared.ledger.is_stopped()
            && let Some(word) = hand.next()
        {
            self.shared.run_from(word, hand);
        }
    }

    /// Runs the inserting program.
    fn insert(&self, program: P, hand: &mut Hand<'_>) {
        let scope = Scope::new(&self.shared, hand.reborrow());
        let result = catch_unwind(AssertUnwindSafe(|| program(&scope)));
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
        self.shared.ledger.set_count(inserted);
        self.shared.ledger.all_announced();
    }
}
