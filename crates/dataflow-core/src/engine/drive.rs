//! Drive: a worker's visit to a run, the same whatever way its program was written: as a space, as a
//! sequence, as a recorded sequence or as a recursion.
//!
//! # Law
//! A visit ends with its line of the ledger published and what it noted given back, whatever a body
//! did. Of the tasks that one task makes ready the [best](super::Best) runs next on the same worker. A
//! run that is stopped starts no further task.

use super::announce::Pulled;
use super::job::JobBell;
use super::ledger::{LedgerLine, VisitCounts};
use super::{Common, Idle, Job, Offered, guarded};
use crate::error::{Error, Kind};
use crate::port::{Hint, Lane, Ready, Wants, Word, Work};
use crate::trace::{Fate, TaskNumber, TracedRun, Track};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A way to write programs, as the engine drives it.
pub(crate) trait Front: Sync {
    /// Orders the failures of tasks.
    type Key: Ord + Send;
    /// A task that may run.
    type Ready<'f>
    where
        Self: 'f;
    /// What a worker has in hand while it is inside, beside its [`Visit`].
    type Hand<'f>
    where
        Self: 'f;

    /// Whether lanes are told more of its tasks than their priorities, if they want it.
    const TELLS: bool = true;

    fn common(&self) -> &Common<Self::Key>;

    /// The worker in one of whose bodies it runs, if it is recorded.
    fn offered_by(&self) -> usize {
        0
    }

    /// A worker comes in.
    fn enter(&self, worker: usize) -> Self::Hand<'_>;

    /// The task of a word that the lane handed out. `None` if there is none; then the run is stopped.
    fn unpack<'f>(
        &'f self,
        word: Word,
        visit: &mut Visit<'_, Self::Hand<'f>>,
    ) -> Option<Self::Ready<'f>>;

    /// A root that the worker has in hand.
    #[inline(always)]
    fn root<'f>(&'f self, _: &mut Visit<'_, Self::Hand<'f>>) -> Option<Self::Ready<'f>> {
        None
    }

    /// Takes roots in hand, or queues them.
    #[inline(always)]
    fn announce<'f>(&'f self, _: &mut Visit<'_, Self::Hand<'f>>) -> Pulled {
        Pulled::AllBefore
    }

    /// Takes in what has arrived from other ranks; says whether there was anything.
    #[inline(always)]
    fn take_mail<'f>(&'f self, _: &mut Visit<'_, Self::Hand<'f>>) -> bool {
        false
    }

    /// Whether a worker without a task shall look again at once.
    #[inline(always)]
    fn lingers(&self, _since: &mut Option<Duration>) -> bool {
        false
    }

    /// Whether no further task starts.
    #[inline(always)]
    fn is_stopped(&self) -> bool {
        self.common().ledger.is_stopped()
    }

    /// What the worker looks at between two tasks; whether it goes on.
    #[inline(always)]
    fn goes_on<'f>(&'f self, _: &mut Visit<'_, Self::Hand<'f>>) -> bool {
        !self.is_stopped()
    }

    /// Runs one task and hands its outputs on. Answers the successor to run next.
    fn step<'f>(
        &'f self,
        ready: Self::Ready<'f>,
        visit: &mut Visit<'_, Self::Hand<'f>>,
    ) -> Option<Self::Ready<'f>>;

    /// The first piece of a step, up to the end of the body. False if there is no second, because of a
    /// fault.
    fn begin<'f>(&'f self, _: Self::Ready<'f>, _: &mut Visit<'_, Self::Hand<'f>>) -> bool {
        let text = "only runs of task spaces come in pieces";
        self.stop(Error::new(Kind::SchedulerFailed, None, text));
        false
    }

    /// The second piece of the step that was begun with this hand.
    fn end<'f>(&'f self, _: &mut Visit<'_, Self::Hand<'f>>) -> Option<Self::Ready<'f>> {
        None
    }

    /// Keeps what a worker has in hand between two pieces.
    fn pause<'f>(&'f self, _worker: usize, _: (LeftVisit, Self::Hand<'f>)) {}

    /// Gives it back, if there is any.
    fn resume<'f>(&'f self, _worker: usize) -> Option<(LeftVisit, Self::Hand<'f>)> {
        None
    }

    /// The worker has run so many tasks.
    #[inline(always)]
    fn counts(&self, _executed: u64) {}

    /// A task without a successor to run next has ended.
    #[inline(always)]
    fn rest<'f>(&'f self, _: &mut Visit<'_, Self::Hand<'f>>) {}

    /// A panic of this text has ended the visit: the run is stopped for it.
    fn panicked<'f>(&'f self, visit: &mut Visit<'_, Self::Hand<'f>>, text: &str);

    /// The run ends for this: the first is reported.
    fn stop(&self, error: Error) {
        self.common().stop(error);
    }

    /// How many tasks are known, once nobody is inside: the ledger counts them.
    fn known(&self) -> u64 {
        self.common().ledger.count()
    }

    /// The worker goes.
    fn leave<'f>(&'f self, _hand: Self::Hand<'f>) {}
}

/// A worker inside a run.
pub(crate) struct Visit<'l, H> {
    pub lane: &'l mut dyn Lane,
    line: &'l LedgerLine,
    pub tally: VisitCounts,
    /// What the lane wants to be told.
    pub wants: Wants,
    /// Where it notes what it does, if the run is recorded.
    pub track: Option<Box<Track>>,
    /// When the task that runs began, by the track's clock, if one does.
    began: Option<u64>,
    pub hand: H,
}

/// What the first worker does before it looks for tasks: runs the program that inserts them, calls the
/// outermost call.
pub(crate) type Begin<'b, F> =
    &'b (dyn for<'l> Fn(&'b F, &mut Visit<'l, <F as Front>::Hand<'b>>) + Sync);

/// Lets workers into a run until it is over, whatever `execute` does with the job.
pub(crate) fn drive<'b, F: Front>(
    front: &'b F,
    bell: Arc<JobBell>,
    begin: Begin<'b, F>,
    execute: impl FnOnce(&Arc<Job>),
) {
    let driven = Driven { front, begin };
    let stop = |driven: &Driven<'_, F>| driven.front.common().ledger.stop();
    let offered = Offered::new(&driven, bell, front.offered_by(), stop);
    execute(offered.job());
    // With it the gate is closed: from now on the run is its owner's alone.
    drop(offered);
    let common = front.common();
    if let Some(opened) = &common.opened {
        let undone = front.known().saturating_sub(common.ledger.executed());
        opened.leave_undone(undone);
    }
}

/// A run, as workers find it inside its job.
struct Driven<'b, F: Front> {
    front: &'b F,
    begin: Begin<'b, F>,
}

impl<F: Front> Work for Driven<'_, F> {
    fn work(&self, lane: &mut dyn Lane) -> u64 {
        if !self.admits(lane.worker()) {
            return 0;
        }
        let Some(mut visit) = self.enter(lane) else {
            return 0;
        };
        let before = visit.tally.executed;
        // One guard for the whole visit: bodies and whatever else the user wrote may panic.
        let work = || {
            (self.begin)(self.front, &mut visit);
            run_tasks(self.front, &mut visit);
        };
        let panicked = guarded(work);
        self.leave(visit, panicked) - before
    }

    fn begin_next(&self, lane: &mut dyn Lane) -> bool {
        let worker = lane.worker();
        if !self.admits(worker) {
            return false;
        }
        let paused = self.front.resume(worker);
        let has_begun = paused.is_some();
        let visit = match paused {
            Some((left, hand)) => Some(self.visit(lane, left, hand)),
            None => self.enter(lane),
        };
        let Some(mut visit) = visit else {
            return false;
        };
        let mut begun = false;
        let piece = || {
            if !has_begun {
                (self.begin)(self.front, &mut visit);
            }
            begun = piece(self.front, &mut visit, has_begun);
        };
        let panicked = guarded(piece);
        if panicked.is_none() && begun {
            self.front.pause(worker, visit.left());
            return true;
        }
        self.leave(visit, panicked);
        false
    }

    fn is_drained(&self) -> bool {
        self.front.common().ledger.is_drained()
    }

    fn refuse(&self, text: String) {
        let error = Error::new(Kind::SchedulerFailed, None, text);
        self.front.stop(error);
    }
}

impl<'b, F: Front> Driven<'b, F> {
    /// Whether there is a worker of this index; if not, the run is stopped.
    fn admits(&self, worker: usize) -> bool {
        let n_workers = self.front.common().ledger.n_workers();
        if worker < n_workers {
            return true;
        }
        self.refuse(format!(
            "worker {worker} of an executor came in, which says that it has {n_workers} (indices below \
             {n_workers} are allowed)"
        ));
        false
    }

    /// A worker comes in, unless another one of its index is inside: then the run is stopped, for what both
    /// have in hand is one worker's.
    fn enter<'l>(&'l self, lane: &'l mut dyn Lane) -> Option<Visit<'l, F::Hand<'b>>> {
        let (common, worker) = (self.front.common(), lane.worker());
        if !common.ledger.line(worker).take() {
            self.refuse(format!(
                "two workers of an executor were inside a run at once as worker {worker} (each has an index of its own)"
            ));
            return None;
        }
        let opened = common.opened.as_deref();
        let track = opened.and_then(|opened| opened.enter(worker)).map(Box::new);
        let left = LeftVisit {
            tally: common.ledger.line(worker).read(),
            track,
            began: None,
        };
        Some(self.visit(lane, left, self.front.enter(worker)))
    }

    fn visit<'l>(
        &'l self,
        lane: &'l mut dyn Lane,
        left: LeftVisit,
        hand: F::Hand<'b>,
    ) -> Visit<'l, F::Hand<'b>> {
        Visit {
            tally: left.tally,
            wants: match F::TELLS {
                true => lane.wants(),
                false => Wants::Priorities,
            },
            line: self.front.common().ledger.line(lane.worker()),
            lane,
            track: left.track,
            began: left.began,
            hand,
        }
    }

    /// It goes, for this reason if its visit has ended by a panic. Says how many tasks it has run on all
    /// its visits.
    fn leave(&self, mut visit: Visit<'_, F::Hand<'b>>, panicked: Option<String>) -> u64 {
        let (front, worker) = (self.front, visit.lane.worker());
        let opened = front.common().opened.as_deref();
        visit.find_track(opened);
        if let Some(text) = panicked {
            // Names of tasks are foreign, and so is the error of a body that this one replaces.
            let again = guarded(|| front.panicked(&mut visit, &text));
            if let Some(again) = again {
                let text = format!("panicked: {again}, after: {text}");
                front.stop(Error::new(Kind::TaskPanicked, None, text));
            }
        }
        let Visit {
            line,
            tally,
            track,
            hand,
            ..
        } = visit;
        front.leave(hand);
        line.publish(&tally);
        if let (Some(opened), Some(track)) = (opened, track) {
            opened.leave(worker, *track);
        }
        line.give_back();
        tally.executed
    }
}

/// Ends the task that was begun, if one was, and goes on to the beginning of the next; false if there is
/// none. What [`run_tasks`] does, but for that it stops there.
#[cold]
#[inline(never)]
fn piece<'f, F: Front>(front: &'f F, visit: &mut Visit<'_, F::Hand<'f>>, has_begun: bool) -> bool {
    let mut successor = None;
    if has_begun {
        successor = front.end(visit);
        count_task(front, visit);
        if successor.is_none() {
            front.rest(visit);
        }
    }
    while let Some(ready) = successor.take().or_else(|| next(front, visit)) {
        if !front.goes_on(visit) {
            return false;
        }
        if front.begin(ready, visit) {
            return true;
        }
        count_task(front, visit);
        front.rest(visit);
    }
    false
}

/// One more task has run.
#[inline(always)]
fn count_task<'f, F: Front>(front: &'f F, visit: &mut Visit<'_, F::Hand<'f>>) {
    visit.tally.executed += 1;
    visit.line.publish_executed(visit.tally.executed);
    front.counts(visit.tally.executed);
}

/// Runs tasks until there is none. A function of its own, for whose loop the visit is nobody else's: a
/// nanosecond a task.
#[inline(never)]
fn run_tasks<'f, F: Front>(front: &'f F, visit: &mut Visit<'_, F::Hand<'f>>) {
    while let Some(ready) = next(front, visit) {
        if !chain(front, ready, visit) {
            return;
        }
    }
}

/// Runs a task, after it the successor that it made ready, and so on. False if the run is stopped.
#[inline(always)]
pub(crate) fn chain<'f, F: Front>(
    front: &'f F,
    ready: F::Ready<'f>,
    visit: &mut Visit<'_, F::Hand<'f>>,
) -> bool {
    let mut next = Some(ready);
    while let Some(ready) = next {
        if !front.goes_on(visit) {
            return false;
        }
        next = front.step(ready, visit);
        count_task(front, visit);
    }
    front.rest(visit);
    true
}

/// The next task: from near queues, else a root in hand or a new one, else from what has arrived, else
/// from another's queue.
#[inline(always)]
pub(crate) fn next<'f, F: Front>(
    front: &'f F,
    visit: &mut Visit<'_, F::Hand<'f>>,
) -> Option<F::Ready<'f>> {
    let mut waits_since = None;
    let mut idle = None;
    loop {
        if let Some(word) = visit.lane.pop() {
            visit.tally.taken += 1;
            if visit.track.is_some() {
                visit.note_help();
            }
            return front.unpack(word, visit);
        }
        if let Some(root) = front.root(visit) {
            return Some(root);
        }
        let announced = front.announce(visit);
        if announced == Pulled::Some {
            continue;
        }
        let mail = front.take_mail(visit);
        if front.is_stopped() {
            return None;
        }
        if mail {
            continue;
        }
        if let Some(word) = visit.lane.steal() {
            visit.tally.taken += 1;
            if let Some(track) = &mut visit.track {
                track.stolen();
            }
            return front.unpack(word, visit);
        }
        if announced == Pulled::ByAnother {
            idle.get_or_insert_with(Idle::default)
                .pause(visit.lane, false);
        } else if !front.lingers(&mut waits_since) && !visit.lane.lingers() {
            return None;
        }
    }
}

/// A ready task as a lane is told of it.
#[inline]
fn told(word: Word, priority: i64, (hint, class): (Hint, usize)) -> Ready {
    let ready = Ready::new(word, priority).with_hint(hint);
    ready.with_class(class)
}

impl<H> Visit<'_, H> {
    /// Queues a task that the one which has just run here made ready. `about` is asked where its data lie
    /// and what class it is of, if the lane wants to be told.
    #[inline(always)]
    pub fn push(&mut self, word: Word, priority: i64, about: impl FnOnce() -> (Hint, usize)) {
        self.tally.queued += 1;
        if self.wants > Wants::Priorities {
            self.lane.push_ready(told(word, priority, about()));
        } else {
            self.lane.push(word, priority);
        }
    }

    /// Queues any other ready task.
    pub fn share(&mut self, word: Word, priority: i64, about: impl FnOnce() -> (Hint, usize)) {
        self.tally.queued += 1;
        if self.wants > Wants::Priorities {
            self.lane.share_ready(told(word, priority, about()));
        } else {
            self.lane.share(word, priority);
        }
    }

    /// Runs the body of a task of this class; the lane is told how long it took, if it wants to know.
    #[inline(always)]
    pub fn timed<R>(&mut self, class: usize, body: impl FnOnce(&mut Self) -> R) -> R {
        if self.wants != Wants::Everything {
            return body(self);
        }
        let start = Instant::now();
        let result = body(self);
        self.lane.measured(class, start.elapsed().as_secs_f64());
        result
    }

    /// A body begins, if that is recorded.
    #[inline(always)]
    pub fn begins(&mut self) {
        if self.track.is_some() {
            self.note_begin();
        }
    }

    /// A body has ended, or was skipped, if that is recorded.
    #[inline(always)]
    pub fn ends(&mut self, fate: Fate, task: impl FnOnce(&mut Track) -> (TaskNumber, usize)) {
        if self.track.is_some() {
            self.note_end(fate, task);
        }
    }

    /// What has begun was no body.
    #[inline(always)]
    pub fn ends_without_body(&mut self) {
        self.began = None;
    }

    /// A body has panicked, if one was running and that is recorded.
    pub fn ends_by_panic(&mut self, task: impl FnOnce(&mut Track) -> (TaskNumber, usize)) {
        if self.began.is_some() {
            self.ends(Fate::Failed, task);
        }
    }

    /// Finds its notes again, if a body that panicked had put them aside.
    pub fn find_track(&mut self, opened: Option<&TracedRun>) {
        if let (Some(opened), None) = (opened, &self.track) {
            self.track = opened.take(self.lane.worker()).map(Box::new);
        }
    }

    /// A task was taken from near queues: whether another's was among them, the lane knows.
    #[cold]
    #[inline(never)]
    fn note_help(&mut self) {
        if let (true, Some(track)) = (self.lane.has_helped(), &mut self.track) {
            track.stolen();
        }
    }

    // Not in the loop of those that are not recorded: there a nanosecond a task was seen (a chain,
    // 3.4 to 4.4 ns).
    #[cold]
    #[inline(never)]
    fn note_begin(&mut self) {
        self.began = self.track.as_ref().map(|track| track.now());
    }

    #[cold]
    #[inline(never)]
    fn note_end(&mut self, fate: Fate, task: impl FnOnce(&mut Track) -> (TaskNumber, usize)) {
        if let (Some(track), Some(began)) = (&mut self.track, self.began.take()) {
            let (number, class) = task(track);
            track.ran(number, class, began, fate);
        }
    }

    /// The same visit with something else in hand, for a while: [`back`](Self::back) is to be called
    /// with what is left of it.
    pub fn with<I>(&mut self, hand: I) -> Visit<'_, I> {
        Visit {
            lane: &mut *self.lane,
            line: self.line,
            tally: self.tally,
            wants: self.wants,
            track: self.track.take(),
            began: self.began,
            hand,
        }
    }

    /// What a visit [with](Self::with) something else in hand has left: counts and notes.
    pub fn left(self) -> (LeftVisit, H) {
        let Visit {
            tally,
            track,
            began,
            hand,
            ..
        } = self;
        let left = LeftVisit {
            tally,
            track,
            began,
        };
        (left, hand)
    }

    /// Takes it back.
    pub fn back(&mut self, left: LeftVisit) {
        (self.tally, self.track, self.began) = (left.tally, left.track, left.began);
    }
}

/// See [`Visit::left`].
pub(crate) struct LeftVisit {
    tally: VisitCounts,
    track: Option<Box<Track>>,
    began: Option<u64>,
}
