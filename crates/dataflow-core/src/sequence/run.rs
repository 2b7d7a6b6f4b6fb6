//! Run: a sequence as the engine [drives](crate::engine) it. One worker inserts, and the others run what is ready meanwhile.
//!
//! # Law
//! A task stays in one place, on the shelf of the worker that inserted it, and is known by the
//! word of that place. While it is parked or queued some datum or some queue holds the word, once;
//! the worker that takes the word from there locks the place and runs the task. So a run that is stopped
//! drops every task with its shelves, whatever was to wake it.
//!
//! What a task holds is dropped when it has run. Its own memory is given back by the worker that got it,
//! when it uses the place again: just before it asks for as much, and allocators take a lock, or worse, for
//! memory of another thread.

use super::held::{Fallen, InsertedTask, Label, ScopeInside, Wait};
use super::level::Level;
use super::pace::{InserterShare, Pace};
use super::versions::{Versions, Woken};
use crate::engine::{
    Best, BytesRead, Common, Front, Idle, Keeper, Next, PlaceGuard, Report, Shelves, Visit, chain,
    replace_depth,
};
use crate::error::{Error, Kind};
use crate::foreign::{caught, drop_quietly, text_of};
use crate::port::{Executor, Hint, Wants, Word, most_bytes};
use crate::sync::{AtomicBool, AtomicU64, Ordering, SpinLock, lock};
use crate::trace::{Aside, Fate};
use crossbeam_utils::Backoff;
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;

/// How much may wait in a scope at once. When more waits, the inserting worker runs tasks, or naps while
/// others do, until half as much is left; so the memory of a sequence does not grow with its length.
///
/// # Examples
/// Records of a megabyte, at most sixteen of them at once:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::sequence::{TaskWindow, scope, write};
///
/// scope(&Inline, |s| {
///     s.set_window(TaskWindow { bytes: 16 << 20, ..TaskWindow::default() });
///     let length = s.handle(0);
///     for _ in 0..100 {
///         let record = vec![0u8; 1 << 20];
///         s.name("add").bytes(record.len()).task(write(&length), move |length| *length += record.len());
///     }
/// })?;
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskWindow {
    /// Tasks that were inserted and have not ended: 8192 by default. They are counted once in 64
    /// insertions, so there may be up to 64 more for a moment.
    pub tasks: u64,
    /// Bytes that waiting tasks hold, as they [declare](super::Insertion::bytes): 256 MiB by default.
    pub bytes: u64,
}

impl Default for TaskWindow {
    fn default() -> Self {
        TaskWindow {
            tasks: 8192,
            bytes: 256 << 20,
        }
    }
}

type Boxed<'env> = Box<dyn InsertedTask + 'env>;

/// What the workers of a run share.
pub(crate) struct ScopeRun<'on, 'env> {
    /// Failures are ordered by the numbers of tasks.
    common: Common<u64>,
    level: Arc<Level>,
    on: &'on dyn Executor,
    /// Tasks that have not ended.
    shelves: Shelves<Boxed<'env>>,
    /// By worker, while it is away.
    paces: Box<[SpinLock<Pace>]>,
    /// What waiting tasks hold, of those that say so.
    bytes: Arc<AtomicU64>,
    /// Whether something was left out since the run was stopped: tasks were dropped instead of inserted,
    /// the program was told that it is over, or a task did not do all of its work.
    drops: AtomicBool,
    /// Whether a task has failed, or was skipped: before that no datum is spoilt.
    spoils: AtomicBool,
}

/// What a worker has in hand.
pub(crate) struct ScopeHand<'f, 'env> {
    keeper: Keeper<'f, Boxed<'env>>,
    /// Of a worker beside the one that inserts.
    pace: Option<Pace>,
    /// Tasks inserted, of the worker that inserts.
    pub inserted: u64,
    /// What runs, for reports of panics.
    running: Option<Label>,
    /// In how many scopes and recursions the worker was before.
    outer_depth: usize,
    /// What tasks have read, if the lane wants to know.
    read: BytesRead,
    /// Whether it looks up after each task, for it waits for something: successors are queued.
    looks_up: bool,
}

impl<'f, 'env> ScopeHand<'f, 'env> {
    /// What a worker has in hand while its program inserts: it runs tasks however fine they are.
    pub fn inserting(&mut self) -> Self {
        ScopeHand {
            keeper: std::mem::take(&mut self.keeper),
            pace: None,
            ..*self
        }
    }

    /// What was in hand while it inserted, for whom the run lives longer than the scope.
    pub fn after_inserting<'t>(self) -> ScopeHand<'t, 'env> {
        ScopeHand {
            keeper: self.keeper.unlocked(),
            ..self
        }
    }

    /// Whether a program inserts, which may do anything next but run tasks.
    fn is_inserting(&self) -> bool {
        self.pace.is_none()
    }
}

/// A task whose word nobody else holds.
pub(crate) struct TakenTask<'s, 'env> {
    word: Word,
    place: PlaceGuard<'s, Boxed<'env>>,
}

impl<'env> Front for ScopeRun<'_, 'env> {
    type Key = u64;
    type Ready<'f>
        = TakenTask<'f, 'env>
    where
        Self: 'f;
    type Hand<'f>
        = ScopeHand<'f, 'env>
    where
        Self: 'f;

    #[inline(always)]
    fn common(&self) -> &Common<u64> {
        &self.common
    }

    fn offered_by(&self) -> usize {
        self.level.offered_by
    }

    fn enter(&self, worker: usize) -> ScopeHand<'_, 'env> {
        ScopeHand {
            keeper: self.shelves.keeper(worker),
            pace: Some(std::mem::take(&mut *lock(&self.paces[worker]))),
            inserted: 0,
            running: None,
            outer_depth: replace_depth(self.level.depth),
            read: BytesRead::default(),
            looks_up: false,
        }
    }

    #[inline(always)]
    fn unpack<'f>(
        &'f self,
        word: Word,
        _: &mut Visit<'_, ScopeHand<'f, 'env>>,
    ) -> Option<TakenTask<'f, 'env>> {
        Some(self.take(word))
    }

    /// For its own sake, or with the run that it is inside of.
    #[inline(always)]
    fn is_stopped(&self) -> bool {
        self.level.is_stopped()
    }

    /// Runs a task. Answers the most urgent of those that it made ready, unless a queued one is more
    /// urgent or the worker is to rest.
    #[inline(always)]
    fn step<'f>(
        &'f self,
        taken: TakenTask<'f, 'env>,
        visit: &mut Visit<'_, ScopeHand<'f, 'env>>,
    ) -> Option<TakenTask<'f, 'env>> {
        let source = *taken.label();
        let mut woken = Woken::new();
        self.run_one(taken, &source, visit, &mut woken);
        let mut best = Best::new();
        while let Some(word) = woken.pop() {
            let Some(mut ready) = Self::settle(self.take(word), &mut woken) else {
                continue;
            };
            self.note_ready(ready.label(), Some(&source), visit);
            let priority = ready.label().priority;
            let hint = ready.hint(visit.wants);
            let goes_elsewhere = visit.wants > Wants::Priorities && visit.lane.goes_elsewhere(hint);
            let offered = best.offer((ready, hint), priority, goes_elsewhere);
            if let Some(((other, hint), _)) = offered.queued() {
                self.queue(other, hint, visit);
            }
        }
        let is_slice_over = visit.hand.pace.as_ref().is_some_and(Pace::is_slice_over);
        let goes_on = !is_slice_over && !visit.hand.looks_up;
        match best.next(visit.lane)? {
            Next::Runs((best, _)) if goes_on => Some(best),
            Next::Runs((best, hint)) | Next::Queued((best, hint), _) => {
                self.queue(best, hint, visit);
                None
            }
        }
    }

    /// Leaves fine tasks to the others for a while, as long as there are any.
    fn rest<'f>(&'f self, visit: &mut Visit<'_, ScopeHand<'f, 'env>>) {
        let Some(pace) = &mut visit.hand.pace else {
            return;
        };
        if !pace.is_slice_over() {
            return;
        }
        let until = pace.judge();
        let ledger = &self.common.ledger;
        let over = || {
            self.level.is_stopped() || ledger.is_announced() && ledger.executed() >= ledger.count()
        };
        let backoff = Backoff::new();
        while until.is_some_and(|until| Instant::now() < until) && !over() {
            backoff.snooze();
        }
    }

    /// A body panicked, or else the inserting program.
    #[cold]
    fn panicked<'f>(&'f self, visit: &mut Visit<'_, ScopeHand<'f, 'env>>, text: &str) {
        let running = visit.hand.running;
        if let Some(label) = running {
            let number = self.level.first + label.number;
            visit.ends_by_panic(|track| (number, track.class(label.name)));
        }
        let who = match (running, &self.level.outer) {
            (None, None) => "the program that inserts tasks",
            _ => "task",
        };
        let text = format!("{who} panicked: {text}");
        self.fail(Kind::TaskPanicked, running, text);
    }

    /// The first fault that ends the run is reported, unless that has ended from outside. It is not
    /// complete in either case: children of a task may be what was left out.
    fn stop(&self, error: Error) {
        // Relaxed, as below.
        self.drops.store(true, Ordering::Relaxed);
        if !self.level.is_stopped() {
            self.common.stop(error);
        }
    }

    fn leave<'f>(&'f self, hand: ScopeHand<'f, 'env>) {
        replace_depth(hand.outer_depth);
        self.common.note_read(hand.read);
        if let Some(pace) = hand.pace {
            *lock(&self.paces[hand.keeper.worker()]) = pace;
        }
        self.shelves.keep(hand.keeper);
    }
}

impl<'on, 'env> ScopeRun<'on, 'env> {
    pub fn new(level: Arc<Level>, on: &'on dyn Executor) -> Self {
        let n_workers = level.ledger.n_workers();
        let paces = (0..n_workers).map(|_| SpinLock::new(Pace::default()));
        ScopeRun {
            common: Common::new(level.ledger.clone(), level.opened.clone()),
            shelves: Shelves::new(n_workers),
            paces: paces.collect(),
            level,
            on,
            bytes: Arc::new(AtomicU64::new(0)),
            drops: AtomicBool::new(false),
            spoils: AtomicBool::new(false),
        }
    }

    /// A new task: queued if it is ready, else parked.
    pub fn insert<'f>(&'f self, task: Boxed<'env>, visit: &mut Visit<'_, ScopeHand<'f, 'env>>) {
        let (word, mut place) = self.shelves.place(&mut visit.hand.keeper);
        *place = Some(task);
        let mut woken = Woken::new();
        if let Some(ready) = Self::settle(TakenTask { word, place }, &mut woken) {
            self.queue_ready(ready, visit);
        }
        // Those of the woken tasks that are ready.
        while let Some(word) = woken.pop() {
            if let Some(ready) = Self::settle(self.take(word), &mut woken) {
                self.queue_ready(ready, visit);
            }
        }
    }

    /// Whether a task that is about to be inserted is dropped instead: the run is stopped. A program
    /// that is told so does not do what it would: that is no success.
    #[inline]
    pub fn drops(&self) -> bool {
        let stopped = self.is_stopped();
        if stopped {
            // Relaxed: read when nobody is inside.
            self.drops.store(true, Ordering::Relaxed);
        }
        stopped
    }

    /// So many tasks were inserted, for a monitor and a trace.
    pub fn count(&self, inserted: u64) {
        self.common.ledger.set_count(inserted);
    }

    /// Whether a body has failed.
    pub fn has_failed(&self) -> bool {
        self.common.has_failed()
    }

    /// What waiting tasks hold, as far as they say so.
    pub fn bytes(&self) -> &Arc<AtomicU64> {
        &self.bytes
    }

    /// Runs tasks, if more wait than the window is wide, until half as much does.
    pub fn keep_window<'f>(
        &'f self,
        window: TaskWindow,
        visit: &mut Visit<'_, ScopeHand<'f, 'env>>,
    ) {
        let (ledger, inserted) = (&self.common.ledger, visit.hand.inserted);
        ledger.set_count(inserted);
        let excess = |tasks: u64| (inserted - ledger.executed()).saturating_sub(tasks);
        let exceeds = |bytes: u64| self.bytes.load(Ordering::Relaxed) > bytes;
        if excess(window.tasks) == 0 && !exceeds(window.bytes) {
            return;
        }
        let mut share = InserterShare::default();
        let is_needed = |own: u64| {
            share.is_left(own) || {
                let excess = excess(window.tasks / 2);
                share = InserterShare::of(excess / ledger.n_workers() as u64, own);
                excess > 0 || exceeds(window.bytes / 2)
            }
        };
        self.run_while(is_needed, visit);
    }

    /// Runs tasks until so many accesses of a datum have finished, and looks after each whether they
    /// have. False if the run is stopped before.
    pub fn wait_for<'f>(
        &'f self,
        versions: &Versions,
        required: u64,
        visit: &mut Visit<'_, ScopeHand<'f, 'env>>,
    ) -> bool {
        self.common.ledger.set_count(visit.hand.inserted);
        visit.hand.looks_up = true;
        self.run_while(|_| !versions.have_finished(required), visit);
        visit.hand.looks_up = false;
        versions.have_finished(required)
    }

    /// Runs tasks as long as that is needed, unless the run is stopped: it is asked with the number of
    /// tasks that this worker has run. A body that panics ends the run here: the panic goes on through
    /// the program, which may catch it; unless that is unwinding, where a second one would end the process.
    fn run_while<'f>(
        &'f self,
        is_needed: impl FnMut(u64) -> bool,
        visit: &mut Visit<'_, ScopeHand<'f, 'env>>,
    ) {
        let running = AssertUnwindSafe(|| self.run_needed(is_needed, visit));
        if let Err(panic) = catch_unwind(running) {
            self.program_panicked(visit, text_of(&*panic));
            match std::thread::panicking() {
                true => drop_quietly(panic),
                false => resume_unwind(panic),
            }
        }
    }

    fn run_needed<'f>(
        &'f self,
        mut is_needed: impl FnMut(u64) -> bool,
        visit: &mut Visit<'_, ScopeHand<'f, 'env>>,
    ) {
        let mut idle = Idle::default();
        while is_needed(visit.tally.executed) && !self.level.is_stopped() {
            match crate::engine::next(self, visit) {
                Some(ready) => {
                    chain(self, ready, visit);
                    idle = Idle::default();
                }
                None => match visit.lane.fault() {
                    Some(fault) => self.stop(Error::new(Kind::SchedulerFailed, None, fault)),
                    // The others have it all in hand.
                    None => idle.pause(visit.lane, true),
                },
            }
        }
    }

    /// The program has returned, and has inserted so many.
    pub fn has_inserted(&self, inserted: u64) {
        self.count(inserted);
        self.common.ledger.all_announced();
    }

    /// The program has panicked, or a body that it ran while it waited.
    #[cold]
    pub fn program_panicked<'f>(&'f self, visit: &mut Visit<'_, ScopeHand<'f, 'env>>, text: &str) {
        visit.find_track(self.level.opened.as_deref());
        self.panicked(visit, text);
    }

    /// Nobody is inside any more: the report of the run, if all that was to run has.
    ///
    /// # Errors
    /// The failure that the run reports.
    pub fn ended(&self, has_returned: bool, seconds: f64) -> Result<Report, Error> {
        let ledger = &self.level.ledger;
        let ran_all = ledger.executed() == ledger.count() && !self.drops.load(Ordering::Relaxed);
        let is_complete = has_returned && ran_all;
        let ended = match &self.level.outer {
            Some(outer) if !is_complete && outer.is_stopped() => Err(self.common.cancelled()),
            _ => self.common.ended(is_complete, self.on),
        };
        ended.map_err(|fault| fault.error)?;
        Ok(self.common.report(self.on, seconds))
    }

    fn take(&self, word: Word) -> TakenTask<'_, 'env> {
        let place = self.shelves.at(word);
        TakenTask { word, place }
    }

    /// Parks a task where it has to wait; gives it back if nowhere.
    #[inline]
    fn settle<'s>(
        mut taken: TakenTask<'s, 'env>,
        woken: &mut Woken,
    ) -> Option<TakenTask<'s, 'env>> {
        loop {
            let word = taken.word;
            let task = taken.task();
            let wait = task.advance(woken);
            if wait == Wait::Over {
                return Some(taken);
            }
            // Its place is locked until then: a worker that wakes it meanwhile waits for that.
            if task.park(wait, word) {
                return None;
            }
        }
    }

    fn queue_ready(
        &self,
        mut ready: TakenTask<'_, 'env>,
        visit: &mut Visit<'_, ScopeHand<'_, 'env>>,
    ) {
        self.note_ready(ready.label(), None, visit);
        let hint = ready.hint(visit.wants);
        self.queue(ready, hint, visit);
    }

    fn queue(
        &self,
        taken: TakenTask<'_, 'env>,
        hint: Hint,
        visit: &mut Visit<'_, ScopeHand<'_, 'env>>,
    ) {
        let &Label {
            priority, class, ..
        } = taken.label();
        let TakenTask { word, .. } = taken;
        drop(taken);
        let about = || (hint, class as usize);
        match visit.hand.is_inserting() {
            true => visit.share(word, priority, about),
            false => visit.push(word, priority, about),
        }
    }

    /// Runs one task, and tells whom its end wakes. Not only its body may panic, but also what it drops.
    fn run_one<'f>(
        &self,
        mut taken: TakenTask<'f, 'env>,
        label: &Label,
        visit: &mut Visit<'_, ScopeHand<'f, 'env>>,
        woken: &mut Woken,
    ) {
        let task = taken.task();
        // Relaxed: a worker that spoils a datum writes this before the count that the task has seen.
        let mut failed = self.spoils.load(Ordering::Relaxed) && task.is_spoilt();
        let mut fate = if failed { Fate::Skipped } else { Fate::Ran };
        visit.hand.running = Some(*label);
        visit.begins();
        if !failed && let Err(fallen) = self.call(task, label, visit) {
            (failed, fate) = (true, Fate::Failed);
            self.note(label, fallen);
        }
        let number = self.level.first + label.number;
        visit.ends(fate, |track| (number, track.class(label.name)));
        if failed {
            self.spoils.store(true, Ordering::Relaxed);
        }
        task.finish(failed, woken);
        visit.hand.running = None;
        let TakenTask { word, place } = taken;
        self.shelves.free(word, place, &mut visit.hand.keeper);
    }

    /// Calls the body of a task.
    fn call(
        &self,
        task: &mut (dyn InsertedTask + 'env),
        label: &Label,
        visit: &mut Visit<'_, ScopeHand<'_, 'env>>,
    ) -> Result<(), Fallen> {
        let opened = self.level.opened.as_deref();
        let opened = opened.map(|opened| (opened, visit.lane.worker()));
        let inside = ScopeInside {
            on: self.on,
            level: &self.level,
            label,
            watch: visit.hand.pace.as_mut().and_then(Pace::watch),
            aside: Aside::new(visit.track.take(), opened),
        };
        let result = match visit.wants {
            Wants::Priorities => task.run(&inside),
            _ => {
                let (lane, read) = (&mut *visit.lane, &mut visit.hand.read);
                task.pieces(&mut |node, bytes| read.read(lane, node, bytes));
                visit.timed(label.class as usize, |_| task.run(&inside))
            }
        };
        visit.track = inside.aside.back();
        if let (Some(pace), Some(watch)) = (&mut visit.hand.pace, &inside.watch) {
            pace.note(watch);
        }
        result
    }

    /// A task has become ready, if that is recorded.
    #[inline]
    fn note_ready(
        &self,
        label: &Label,
        source: Option<&Label>,
        visit: &mut Visit<'_, ScopeHand<'_, 'env>>,
    ) {
        if let Some(track) = &mut visit.track {
            let number = |label: &Label| self.level.first + label.number;
            track.ready(number(label), source.map(number));
        }
    }

    /// A body failed, or what it ran inside: of several failures the smallest is reported.
    #[cold]
    fn note(&self, label: &Label, fallen: Fallen) {
        let error = match fallen {
            Fallen::Body(error) => Error::of_task(label, error),
            Fallen::Inside(error) if error.kind() == Kind::TaskFailed => error,
            Fallen::Inside(error) => return self.stop(error),
        };
        self.common.note(label.number, error);
    }

    /// Notes a fault that ends the run.
    #[cold]
    pub fn fail(&self, kind: Kind, task: Option<Label>, text: impl Into<String>) {
        let task = task.map(|label| format!("{label:?}"));
        self.stop(Error::new(kind, task, text));
    }
}

impl<'env> TakenTask<'_, 'env> {
    fn task(&mut self) -> &mut (dyn InsertedTask + 'env) {
        match &mut *self.place {
            Some(task) => &mut **task,
            None => unreachable!("a word that is held once has its task"),
        }
    }

    #[inline]
    fn label(&self) -> &Label {
        match &*self.place {
            Some(task) => task.label(),
            None => unreachable!("a word that is held once has its task"),
        }
    }

    /// Where the data of a task that may run lie, if the lane wants to be told.
    #[inline(always)]
    fn hint(&mut self, wants: Wants) -> Hint {
        match wants {
            Wants::Priorities => Hint::None,
            _ => self.told_hint(),
        }
    }

    /// A datum that panics as it is asked has no place here. It is asked again when its task runs, which is
    /// then the one that panicked; a task that is ready is queued in any case.
    #[cold]
    fn told_hint(&mut self) -> Hint {
        let mut pieces: SmallVec<[(usize, u64); 8]> = SmallVec::new();
        let task = self.task();
        let ask = || task.pieces(&mut |node, bytes| pieces.push((node, bytes)));
        if caught(ask).is_err() {
            return Hint::None;
        }
        most_bytes(pieces.iter().copied()).map_or(Hint::None, Hint::Node)
    }
}
