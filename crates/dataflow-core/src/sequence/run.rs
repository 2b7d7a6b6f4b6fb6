//! Run: the workers of a sequence. One of them inserts, and the others run what is ready meanwhile.
//!
//! # Law
//! A task stays in one place, on the shelf of the worker that inserted it, and is known by the
//! word of that place. While it is parked or queued some datum or some queue holds the word, once;
//! whoever takes the word from there locks the place and runs the task. So a run that is stopped
//! drops every task with its shelves, whoever was to wake it.
//!
//! A task's memory is given back by the worker that got it, when it uses the place again: allocators
//! take a lock, or worse, for memory of another thread.

use super::fault::Faults;
use super::nested::Inside;
use super::pace::Pace;
use super::scope::{Scope, Window};
use super::task::{Fallen, Inserted, Label, Step};
use super::versions::Woken;
use crate::engine::{
    Idle, Job, Keeper, Ledger, Line, Offered, Place, Shelves, Tally, buried, guarded, is_inside,
};
use crate::error::{Error, Kind};
use crate::port::{Executor, Lane, Word, Work};
use crate::rank::Rank;
use crate::sync::{AtomicU64, Ordering, SpinLock, lock};
use crate::trace::{Aside, Fate, Opened, TaskNumber, Told, Track};
use crossbeam_utils::Backoff;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

type Boxed<'env> = Box<dyn Inserted + 'env>;

/// The counts of a run, and the run in one of whose bodies it goes on, if any.
pub(crate) struct Level {
    pub ledger: Arc<Ledger>,
    outer: Option<Arc<Level>>,
    /// In how many scopes it is nested.
    depth: usize,
    /// Tasks that ran inside of bodies.
    nested: AtomicU64,
    /// Where workers note what they do, if the executor has a tracer.
    opened: Option<Arc<Opened>>,
    /// The number of the first task in traces.
    first: TaskNumber,
}

/// In numbers of traces, above the number of a task stands that of its scope.
const SCOPE: u32 = 40;

/// Scopes that may be nested in one another. The worker of the innermost task has them all on its
/// stack, with the frames of the bodies between: some three kilobytes each, ten without optimisation,
/// of the two megabytes that a thread has.
pub(super) const DEEPEST: usize = 100;

thread_local! {
    /// In how many scopes the task is nested that this thread runs; 0 outside of scopes.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

impl Level {
    /// A run of its own, be it in the body of a task of another.
    pub fn outermost(on: &dyn Executor) -> Arc<Self> {
        // What a body runs inside is a part of that body.
        let tracer = on.tracer().filter(|_| !is_inside());
        let opened = tracer.and_then(|tracer| tracer.open(on.n_workers(), None));
        let opened = opened.map(Arc::new);
        Self::new(on.n_workers(), None, DEPTH.get() + 1, opened)
    }

    /// A run inside a body of another.
    pub fn within(n_workers: usize, outer: &Arc<Level>) -> Arc<Self> {
        let opened = outer.opened.clone();
        Self::new(n_workers, Some(outer.clone()), outer.depth + 1, opened)
    }

    fn new(
        n_workers: usize,
        outer: Option<Arc<Level>>,
        depth: usize,
        opened: Option<Arc<Opened>>,
    ) -> Arc<Self> {
        let scope = match (&outer, &opened) {
            (Some(_), Some(opened)) => opened.next_scope(),
            _ => 0,
        };
        Arc::new(Level {
            ledger: Arc::new(Ledger::new(n_workers, 0, false)),
            outer,
            depth,
            nested: AtomicU64::new(0),
            opened,
            first: scope << SCOPE,
        })
    }

    /// The outermost run is over: what was noted becomes a trace.
    pub fn close_trace(&self) {
        let Some(opened) = &self.opened else { return };
        let told = Told {
            name: "sequence".to_string(),
            parameters: Vec::new(),
            classes: Vec::new(),
            rank: Rank(0),
            text: |task| match (task >> SCOPE, task & ((1 << SCOPE) - 1)) {
                (0, number) => number.to_string(),
                (scope, number) => format!("{number} in scope {scope}"),
            },
            wide: BTreeMap::new(),
        };
        opened.close(told, &mut |_, _| {});
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
    /// Tasks that have not ended.
    shelves: Shelves<Boxed<'env>>,
    /// By worker, while it is away.
    paces: Box<[SpinLock<Pace>]>,
    faults: Faults,
    /// What waiting tasks hold, of those that say so.
    bytes: Arc<AtomicU64>,
}

/// What a worker has in hand.
pub(crate) struct Hand<'l> {
    lane: &'l mut dyn Lane,
    on: &'l dyn Executor,
    line: &'l Line,
    tally: Tally,
    keeper: Keeper,
    /// Of a worker beside the one that inserts.
    pace: Option<Pace>,
    /// Tasks inserted, of the worker that inserts.
    pub inserted: u64,
    /// What runs, for reports of panics.
    running: Option<Label>,
    /// Where it notes what it does, if the run is recorded.
    track: Option<Box<Track>>,
    /// When what runs began, by the track's clock.
    began: u64,
}

/// A task whose word nobody else holds.
struct Taken<'s, 'env> {
    word: Word,
    place: Place<'s, Boxed<'env>>,
}

impl<'env> Shared<'env> {
    fn new(level: Arc<Level>) -> Self {
        Shared {
            shelves: Shelves::new(level.ledger.n_workers()),
            paces: (0..level.ledger.n_workers())
                .map(|_| SpinLock::new(Pace::default()))
                .collect(),
            level,
            faults: Faults::default(),
            bytes: Arc::new(AtomicU64::new(0)),
        }
    }

    /// A new task: queued if it is ready, else parked.
    pub fn insert(&self, task: Boxed<'env>, hand: &mut Hand<'_>) {
        let word = self.shelves.place(&mut hand.keeper);
        let mut place = self.shelves.at(word);
        *place = Some(task);
        let mut woken = Woken::new();
        if let Some(ready) = Self::settle(Taken { word, place }, &mut woken) {
            self.note_ready(ready.label(), None, hand);
            Self::queue(ready, hand);
        }
        self.wake(&mut woken, hand);
    }

    /// So many tasks were inserted, for whoever watches.
    pub fn count(&self, inserted: u64) {
        self.level.ledger.set_count(inserted);
    }

    /// Whether no further task starts.
    pub fn is_stopped(&self) -> bool {
        self.level.is_stopped()
    }

    /// Whether a body has failed.
    pub fn has_failed(&self) -> bool {
        self.faults.is_any()
    }

    /// What waiting tasks hold, as far as they say so.
    pub fn bytes(&self) -> &Arc<AtomicU64> {
        &self.bytes
    }

    /// Runs tasks, if more wait than the window is wide, until half as much does.
    pub fn keep_window(&self, window: Window, hand: &mut Hand<'_>) {
        let ledger = &self.level.ledger;
        ledger.set_count(hand.inserted);
        let exceeds = |part: u64, inserted: u64| {
            inserted - ledger.executed() > window.tasks / part
                || self.bytes.load(Ordering::Relaxed) > window.bytes / part
        };
        if !exceeds(1, hand.inserted) {
            return;
        }
        let mut idle = Idle::default();
        while exceeds(2, hand.inserted) && !self.level.is_stopped() {
            match hand.next() {
                Some(word) => {
                    self.run_from(word, hand);
                    idle = Idle::default();
                }
                // The others have it all in hand.
                None => idle.pause(),
            }
        }
    }

    fn take(&self, word: Word) -> Taken<'_, 'env> {
        let place = self.shelves.at(word);
        Taken { word, place }
    }

    /// Parks a task where it has to wait; gives it back if nowhere.
    fn settle<'s>(mut taken: Taken<'s, 'env>, woken: &mut Woken) -> Option<Taken<'s, 'env>> {
        loop {
            let word = taken.word;
            let task = taken.task();
            let step = task.advance(woken);
            if step == Step::Ready {
                return Some(taken);
            }
            // Its place is locked until then: whoever wakes it meanwhile waits for that.
            if task.park(step, word) {
                return None;
            }
        }
    }

    fn queue(taken: Taken<'_, 'env>, hand: &mut Hand<'_>) {
        let Taken { word, .. } = taken;
        let priority = taken.label().priority;
        drop(taken);
        hand.tally.queued += 1;
        hand.lane.push(word, priority);
    }

    /// Queues those of the woken tasks that are ready.
    fn wake(&self, woken: &mut Woken, hand: &mut Hand<'_>) {
        while let Some(word) = woken.pop() {
            if let Some(ready) = Self::settle(self.take(word), woken) {
                self.note_ready(ready.label(), None, hand);
                Self::queue(ready, hand);
            }
        }
    }

    /// Runs a task, and after it one of those that it made ready, the most urgent.
    fn run_from(&self, word: Word, hand: &mut Hand<'_>) {
        let mut next = Some(self.take(word));
        while let Some(taken) = next.take() {
            if self.level.is_stopped() {
                return;
            }
            if hand.pace.as_ref().is_some_and(Pace::is_slice_over) {
                return Self::queue(taken, hand);
            }
            let source = taken.label();
            let mut woken = self.run_one(taken, hand);
            while let Some(word) = woken.pop() {
                let Some(ready) = Self::settle(self.take(word), &mut woken) else {
                    continue;
                };
                self.note_ready(ready.label(), Some(source), hand);
                next = match next {
                    Some(best) if best.label().priority >= ready.label().priority => {
                        Self::queue(ready, hand);
                        Some(best)
                    }
                    Some(other) => {
                        Self::queue(other, hand);
                        Some(ready)
                    }
                    None => Some(ready),
                };
            }
            if let Some(best) = &next
                && hand.lane.outranks(best.label().priority)
                && let Some(best) = next.take()
            {
                Self::queue(best, hand);
            }
        }
    }

    /// Leaves fine tasks to the others for a while, as long as there are any.
    fn rest(&self, hand: &mut Hand<'_>) {
        let Some(pace) = &mut hand.pace else { return };
        if !pace.is_slice_over() {
            return;
        }
        let until = pace.judge();
        let ledger = &self.level.ledger;
        let over = || {
            self.level.is_stopped() || ledger.is_announced() && ledger.executed() >= ledger.count()
        };
        let backoff = Backoff::new();
        while until.is_some_and(|until| Instant::now() < until) && !over() {
            backoff.snooze();
        }
    }

    /// Runs one task; answers whom its end wakes.
    fn run_one(&self, mut taken: Taken<'_, 'env>, hand: &mut Hand<'_>) -> Woken {
        let word = taken.word;
        let task = taken.task();
        let label = task.label();
        let mut failed = task.is_spoilt();
        let mut fate = if failed { Fate::Skipped } else { Fate::Ran };
        hand.began = hand.track.as_ref().map_or(0, |track| track.now());
        if !failed {
            hand.running = Some(label);
            let opened = self.level.opened.as_deref();
            let inside = Inside {
                on: hand.on,
                level: &self.level,
                label,
                watch: hand.pace.as_mut().and_then(Pace::watch),
                aside: Aside::new(hand.track.take(), opened, hand.lane.worker()),
            };
            let result = task.run(&inside);
            let Inside { watch, aside, .. } = inside;
            hand.track = aside.back();
            if let (Some(pace), Some(watch)) = (&mut hand.pace, watch) {
                pace.note(watch);
            }
            hand.running = None;
            if let Err(fallen) = result {
                failed = true;
                fate = Fate::Failed;
                self.note(label, fallen);
            }
        }
        self.note_ran(label, fate, hand);
        let mut woken = Woken::new();
        task.finish(failed, &mut woken);
        if hand.keeper.owns(word) {
            *taken.place = None;
        }
        drop(taken);
        self.shelves.free(word, &mut hand.keeper);
        hand.tally.executed += 1;
        hand.line.publish_executed(hand.tally.executed);
        woken
    }

    /// A task has run, if that is recorded.
    fn note_ran(&self, label: Label, fate: Fate, hand: &mut Hand<'_>) {
        if let Some(track) = &mut hand.track {
            let class = track.class(label.name);
            track.ran(self.level.first + label.number, class, hand.began, fate);
        }
    }

    /// A task has become ready, if that is recorded.
    fn note_ready(&self, label: Label, source: Option<Label>, hand: &mut Hand<'_>) {
        if let Some(track) = &mut hand.track {
            let number = |label: Label| self.level.first + label.number;
            track.ready(number(label), source.map(number));
        }
    }

    /// A body failed, or what it ran inside: of several failures the smallest is reported.
    #[cold]
    fn note(&self, label: Label, fallen: Fallen) {
        let error = match fallen {
            Fallen::Body(error) => Error::of_task(&label, error),
            Fallen::Inside(error) if error.kind() == Kind::TaskFailed => error,
            Fallen::Inside(error) => return self.stop(error),
        };
        self.faults.note(label.number, error);
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
            self.faults.stop(error);
        }
        self.level.ledger.stop();
    }

    /// A body panicked, or else the inserting program.
    #[cold]
    fn panicked(&self, running: Option<Label>, text: &str) {
        let who = match (running, &self.level.outer) {
            (None, None) => "the program that inserts tasks",
            _ => "task",
        };
        let text = format!("{who} panicked: {text}");
        self.fail(Kind::TaskPanicked, running, text);
    }
}

impl<'env> Taken<'_, 'env> {
    fn task(&mut self) -> &mut (dyn Inserted + 'env) {
        match &mut *self.place {
            Some(task) => &mut **task,
            None => unreachable!("a word that is held once has its task"),
        }
    }

    fn label(&self) -> Label {
        match &*self.place {
            Some(task) => task.label(),
            None => unreachable!("a word that is held once has its task"),
        }
    }
}

impl Hand<'_> {
    /// The same for a while; its counts and its keeper are to be taken back.
    fn reborrow(&mut self) -> Hand<'_> {
        Hand {
            lane: &mut *self.lane,
            on: self.on,
            line: self.line,
            tally: self.tally,
            keeper: std::mem::take(&mut self.keeper),
            pace: None,
            inserted: self.inserted,
            running: self.running,
            track: self.track.take(),
            began: self.began,
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
    if level.depth > DEEPEST {
        let text = format!(
            "{} scopes are nested in one another (at most {DEEPEST} may be, for each lies on the \
             stack of a worker; a recursion has no such bound)",
            level.depth
        );
        return Err(Error::new(Kind::NestedTooDeep, None, text));
    }
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
    if let Some(error) = sequence.shared.faults.take() {
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
        let keeper = shared.shelves.keeper(lane.worker());
        let (opened, worker) = (shared.level.opened.as_deref(), lane.worker());
        let mut hand = Hand {
            tally: line.read(),
            lane,
            on: self.on,
            line,
            keeper,
            pace: None,
            inserted: 0,
            running: None,
            track: opened.and_then(|opened| opened.enter(worker)).map(Box::new),
            began: 0,
        };
        let is_recorded = hand.track.is_some();
        let before = hand.tally.executed;
        let outer = DEPTH.replace(shared.level.depth);
        let panicked = guarded(|| self.visit(&mut hand));
        if let Some(opened) = opened.filter(|_| is_recorded) {
            // One that a panic has left with its run comes back.
            hand.track = hand
                .track
                .take()
                .or_else(|| opened.take(worker).map(Box::new));
            if let (Some(_), Some(label)) = (&panicked, hand.running) {
                shared.note_ran(label, Fate::Failed, &mut hand);
            }
            if let Some(track) = hand.track.take() {
                opened.leave(worker, *track);
            }
        }
        if let Some(text) = panicked {
            shared.panicked(hand.running, &text);
        }
        DEPTH.set(outer);
        shared.shelves.keep(hand.keeper);
        line.publish(&hand.tally);
        hand.tally.executed - before
    }

    fn is_drained(&self) -> bool {
        self.shared.level.ledger.is_drained()
    }

    fn refuse(&self, text: String) {
        self.shared.fail(Kind::SchedulerFailed, None, text);
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
        let worker = hand.lane.worker();
        match program {
            Some(program) => self.insert(program, hand),
            None => hand.pace = Some(std::mem::take(&mut *lock(&self.shared.paces[worker]))),
        }
        while !self.shared.level.is_stopped()
            && let Some(word) = hand.next()
        {
            self.shared.run_from(word, hand);
            self.shared.rest(hand);
        }
        if let Some(pace) = hand.pace.take() {
            *lock(&self.shared.paces[worker]) = pace;
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
            keeper,
            inserted,
            running,
            track,
            began,
            ..
        } = scope.into_hand();
        hand.tally = tally;
        hand.keeper = keeper;
        (hand.track, hand.began) = (track, began);
        let result = match result {
            Ok(result) => result,
            Err(panic) => return self.shared.panicked(running, &buried(panic)),
        };
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.shared.level.ledger.set_count(inserted);
        self.shared.level.ledger.all_announced();
    }
}
