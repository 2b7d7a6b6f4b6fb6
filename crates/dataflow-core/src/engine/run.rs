//! Run: a space as the engine [drives](super::drive) it, and the life of one task from ready to done.
//!
//! # Law
//! A body starts when all its inputs are there and what it updates is its own.

use super::announce::{Announced, Chunk};
use super::common::{Bytes, Common};
use super::drive::{Front, Left, Visit};
use super::guard::drop_quietly;
use super::homes::Homes;
use super::post::Leaving;
use super::slots::empty;
use super::{Ready, Run, Slots};
use crate::data::Store;
use crate::error::{Error, Kind, TaskError};
use crate::port::{Hint, Word};
use crate::space::{Flow, Flows, HomeInputs, Mode, TaskName, TaskSpace};
use crate::sync::{Ordering, lock};
use crate::trace::{Fate, number};
use smallvec::SmallVec;
use std::time::Duration;

/// Flags in the low byte of a word; the key stands above.
const POISONED: Word = 1;
const PARKED: Word = 2;

/// What a worker has in hand while it is inside.
pub(super) struct Hand<S: TaskSpace> {
    /// The task that runs, for reports of panics; none where the space is asked for others meanwhile.
    pub task: Option<S::Task>,
    /// Roots that were pulled and not started yet, the next one last.
    pub roots: Chunk<S::Task>,
    /// Data of the task that runs. This and the next two change places, which moves no data: a
    /// processor waits before it moves at a time what was written in pieces a moment ago.
    pub slots: Box<Slots<S::Datum>>,
    /// Data of the best successor so far.
    pub best: Box<Slots<S::Datum>>,
    /// Where they lie, if the lane is told.
    pub best_hint: Hint,
    /// Data of the successor that is looked at.
    pub next: Box<Slots<S::Datum>>,
    /// Edges without data that leave the rank, of the task that runs.
    pub leaving: Leaving,
    /// The task that was begun and not ended, if it comes in pieces, and how its body failed.
    pub begun: Option<Box<(Ready<S>, Option<TaskError>)>>,
    /// Whether it has looked for mail since the last task.
    pub looked: bool,
    /// What tasks have read, if the lane wants to know.
    pub read: Bytes,
    /// What tasks have taken from home and put there.
    pub homes: Homes,
}

/// Forgets the task that ran before if what a worker does between two tasks panics; otherwise it is to be
/// forgotten itself, which takes no time.
struct Between<'h, T>(&'h mut Option<T>);

impl<T> Drop for Between<'_, T> {
    fn drop(&mut self) {
        *self.0 = None;
    }
}

/// The flows of a task, and what its body answered.
type Performed<'r> = (&'r [Flow], Result<(), TaskError>);

impl<S: TaskSpace> Front for Run<'_, S> {
    type Key = S::Task;
    type Ready<'f>
        = Ready<S>
    where
        Self: 'f;
    type Hand<'f>
        = Hand<S>
    where
        Self: 'f;

    // The tasks of other spaces take some nanoseconds: their loop holds no trace of this.
    const TELLS: bool = Self::CARRIES;

    #[inline(always)]
    fn common(&self) -> &Common<S::Task> {
        &self.common
    }

    fn enter(&self, _: usize) -> Hand<S> {
        Hand {
            task: None,
            roots: SmallVec::new(),
            slots: Box::default(),
            best: Box::default(),
            best_hint: Hint::None,
            next: Box::default(),
            leaving: Leaving::new(),
            begun: None,
            looked: false,
            read: Bytes::default(),
            homes: Homes::default(),
        }
    }

    /// The task of a word; its data come to `hand.slots`.
    #[inline(always)]
    fn unpack(&self, word: Word, visit: &mut Visit<'_, Hand<S>>) -> Option<Ready<S>> {
        let key = word >> 8;
        let unpack = |packed| self.space.named(packed);
        let between = Between(&mut visit.hand.task);
        let name = self.names.name(key, unpack);
        std::mem::forget(between);
        let Some(task) = name else {
            let text = "a task was fed once more after all its inputs had come";
            self.fail(Kind::FedTwice, None, text);
            return None;
        };
        self.names.forget(key);
        if Self::CARRIES {
            let slots = &mut visit.hand.slots;
            empty(slots);
            if word & PARKED != 0 && self.pending.take(key, slots).is_none() {
                unreachable!("the data of {task:?} were parked before its word was queued");
            }
        }
        Some((task, word & POISONED != 0))
    }

    #[inline(always)]
    fn root(&self, visit: &mut Visit<'_, Hand<S>>) -> Option<Ready<S>> {
        visit.hand.roots.pop().map(|root| (root, false))
    }

    fn announce(&self, visit: &mut Visit<'_, Hand<S>>) -> Announced {
        visit.hand.task = None;
        let roots = &mut visit.hand.roots;
        let has_priority = |&root: &S::Task| self.space.priority(root) != 0;
        let ledger = &self.common.ledger;
        let announced = super::announce::Roots::pull(&self.roots, ledger, has_priority, roots);
        if announced == Announced::Some {
            self.place_roots(visit);
        }
        announced
    }

    #[inline(always)]
    fn take_mail(&self, visit: &mut Visit<'_, Hand<S>>) -> bool {
        let took = self.common.ledger.calls() && self.look_for_mail(|line| line.poll(), visit);
        visit.hand.looked |= took;
        took
    }

    #[inline(always)]
    fn lingers(&self, since: &mut Option<Duration>) -> bool {
        self.common.ledger.calls() && self.waits_for_others(since)
    }

    #[inline(always)]
    fn goes_on(&self, visit: &mut Visit<'_, Hand<S>>) -> bool {
        if self.common.ledger.calls() {
            if self.common.ledger.is_stopped() {
                return false;
            }
            if !std::mem::take(&mut visit.hand.looked) {
                self.look_for_mail(|line| line.glance(), visit);
            }
        }
        true
    }

    /// Runs one task and hands its outputs on. Answers the successor to run next, its data in
    /// `hand.slots`.
    #[inline(always)]
    fn step(&self, ready: Ready<S>, visit: &mut Visit<'_, Hand<S>>) -> Option<Ready<S>> {
        let performed = self.perform(ready, visit)?;
        self.hand_over(ready, performed, visit)
    }

    fn begin(&self, ready: Ready<S>, visit: &mut Visit<'_, Hand<S>>) -> bool {
        let performed = self.perform(ready, visit);
        let has_begun = performed.is_some();
        let failed = performed.and_then(|(_, result)| result.err());
        visit.hand.begun = has_begun.then(|| Box::new((ready, failed)));
        has_begun
    }

    fn end(&self, visit: &mut Visit<'_, Hand<S>>) -> Option<Ready<S>> {
        let (ready, failed) = *visit.hand.begun.take()?;
        let flows: &[Flow] = match Self::CARRIES {
            true => &self.description.classes().get(ready.0.class())?.flows[..],
            false => &[],
        };
        self.hand_over(ready, (flows, failed.map_or(Ok(()), Err)), visit)
    }

    fn pause(&self, worker: usize, paused: (Left, Hand<S>)) {
        let mut all = lock(&self.paused);
        let needed = all.len().max(worker + 1);
        all.resize_with(needed, || None);
        all[worker] = Some(Box::new(paused));
    }

    fn resume(&self, worker: usize) -> Option<(Left, Hand<S>)> {
        let paused = lock(&self.paused).get_mut(worker)?.take();
        paused.map(|paused| *paused)
    }

    #[inline(always)]
    fn counts(&self, executed: u64) {
        if executed > self.common.ledger.count() {
            self.count_exceeded();
        }
    }

    fn panicked(&self, visit: &mut Visit<'_, Hand<S>>, text: &str) {
        let mut what = "panicked between tasks";
        if let Some(task) = visit.hand.task {
            visit.ends_by_panic(|_| (number(task), task.class()));
            what = "task panicked";
        }
        let text = format!("{what}: {text}");
        self.fail(Kind::TaskPanicked, visit.hand.task, text);
    }

    /// The other ranks are told, if this one has not been stopped before.
    fn stop(&self, error: Error) {
        self.abort(&error);
        self.common.stop(error);
    }

    fn leave(&self, mut hand: Hand<S>) {
        for slots in [&mut hand.slots, &mut hand.best, &mut hand.next] {
            slots.drain(..).for_each(drop_quietly);
        }
        self.common.note_read(hand.read);
        self.note_homes(hand.homes);
    }
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Gathers the inputs of a task and runs its body. Its flows, and how the body failed if it did; none
    /// if an input is not there.
    #[inline(always)]
    fn perform(
        &self,
        (task, poisoned): Ready<S>,
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Option<Performed<'_>> {
        visit.hand.task = Some(task);
        let flows: &[Flow] = if Self::CARRIES {
            self.gather((task, poisoned), visit)?
        } else {
            &[]
        };
        if !poisoned && Self::tells(visit) {
            self.tell_reads(visit);
        }
        visit.begins();
        if poisoned {
            return Some((flows, Ok(())));
        }
        let body = |visit: &mut Visit<'_, Hand<S>>| {
            let mut lent = Flows::new(flows, &mut visit.hand.slots[..flows.len()]);
            self.space.run(task, &mut lent)
        };
        let result = if Self::CARRIES {
            visit.timed(task.class(), body)
        } else {
            body(visit)
        };
        Some((flows, result))
    }

    /// Notes how a body has ended, and hands its outputs on.
    #[inline(always)]
    fn hand_over(
        &self,
        (task, mut poisoned): Ready<S>,
        (flows, result): Performed<'_>,
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Option<Ready<S>> {
        let mut fate = if poisoned { Fate::Skipped } else { Fate::Ran };
        if let Err(error) = result {
            self.failed(task, error);
            (poisoned, fate) = (true, Fate::Failed);
        }
        if visit.track.is_some() {
            Self::note_end(fate, visit);
        }
        self.release((task, poisoned), flows, visit)
    }

    /// The body of a task has failed: the others go on, unless it ends the run.
    #[cold]
    fn failed(&self, task: S::Task, error: TaskError) {
        let ends = error.ends().is_some();
        let error = Error::of_task(&task, error);
        match ends {
            true => self.stop(error),
            false => self.common.note(task, error),
        }
    }

    /// The body of the task in hand has ended: in the loop of those that are not recorded nothing is
    /// kept for this.
    #[cold]
    #[inline(never)]
    fn note_end(fate: Fate, visit: &mut Visit<'_, Hand<S>>) {
        if let Some(task) = visit.hand.task {
            visit.ends(fate, |_| (number(task), task.class()));
        }
    }

    /// Fills the flows that come from home and makes what is updated the task's own.
    fn gather(&self, ready: Ready<S>, visit: &mut Visit<'_, Hand<S>>) -> Option<&[Flow]> {
        let (task, poisoned) = ready;
        let Hand { slots, homes, .. } = &mut visit.hand;
        let flows = self.flows_of(task, slots)?;
        if self.abroad.is_some() {
            self.begin_use(slots);
        }
        if slots.len() < flows.len() {
            slots.resize_with(flows.len(), || None);
        }
        let slots = &mut slots[..flows.len()];
        let mut complete = true;
        let mut take = |flow: usize, store: &Store<S::Datum>, index| {
            let mode = flows.get(flow).map(|flow| flow.mode);
            let version = match mode {
                Some(Mode::Update) => {
                    homes.lent += 1;
                    store.take_in(index, self.number)
                }
                _ => store.get(index),
            };
            match (version, slots.get_mut(flow)) {
                (Some(version), Some(slot @ None)) => *slot = Some(version),
                (_, slot) => {
                    complete = false;
                    let is_fed = slot.map(|slot| slot.is_some());
                    self.not_from_home((task, flow), is_fed, store, index);
                }
            }
        };
        self.space.inputs(task, &mut HomeInputs(&mut take));
        if !complete {
            return None;
        }
        homes.spoilt |= poisoned;
        self.make_sole(ready, flows, visit)?;
        Some(flows)
    }

    /// The flows of a task as its class describes them, unless it was fed through others.
    fn flows_of(&self, task: S::Task, slots: &Slots<S::Datum>) -> Option<&[Flow]> {
        let class = task.class();
        let Some(class_of) = self.description.classes().get(class) else {
            let text = format!("{task:?} is of class {class}, which the space does not describe");
            self.fail(Kind::NotDescribed, Some(task), text);
            return None;
        };
        let flows = &class_of.flows[..];
        if slots.iter().skip(flows.len()).any(Option::is_some) {
            let text = format!("{task:?} was fed through a flow that its class does not describe");
            self.fail(Kind::NotDescribed, Some(task), text);
            return None;
        }
        Some(flows)
    }

    /// Makes what a task updates its own; `None` if it lacks an input.
    fn make_sole(
        &self,
        (task, poisoned): Ready<S>,
        flows: &[Flow],
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Option<()> {
        for (flow, slot) in flows.iter().zip(&mut *visit.hand.slots) {
            match (flow.mode, slot) {
                (Mode::Update, Some(version)) if !poisoned => {
                    let copied = version.make_sole();
                    if copied {
                        self.copies[task.class()].fetch_add(1, Ordering::Relaxed);
                        if let Some(track) = &mut visit.track {
                            track.copied();
                        }
                    }
                }
                (Mode::Read | Mode::Update, None) if !poisoned => {
                    let text = format!("flow {} of {task:?} was not fed with a datum", flow.name);
                    self.fail(Kind::FlowEmpty, Some(task), text);
                    return None;
                }
                _ => {}
            }
        }
        Some(())
    }

    /// What came from other ranks makes room for more when a task begins to use it.
    fn begin_use(&self, slots: &Slots<S::Datum>) {
        let used: u64 = slots.iter().flatten().map(|slot| slot.begin_use()).sum();
        if used > 0 {
            self.common.ledger.note_used(used);
        }
    }

    /// Queues a task that another has made ready which has just run here.
    #[inline]
    pub(super) fn queue(
        &self,
        ready: Ready<S>,
        (priority, hint): (i64, Hint),
        visit: &mut Visit<'_, Hand<S>>,
    ) {
        let word = self.pack(ready, visit);
        visit.push(word, priority, || (hint, ready.0.class()));
    }

    /// Queues any other task that is ready.
    pub(super) fn share(
        &self,
        ready: Ready<S>,
        (priority, hint): (i64, Hint),
        visit: &mut Visit<'_, Hand<S>>,
    ) {
        let word = self.pack(ready, visit);
        visit.share(word, priority, || (hint, ready.0.class()));
    }

    /// A ready task as a word; its data, in `hand.next`, wait in the table of records.
    #[inline]
    fn pack(&self, (task, poisoned): Ready<S>, visit: &mut Visit<'_, Hand<S>>) -> Word {
        let key = self.names.key(task);
        let next = &mut visit.hand.next;
        let parked = Self::CARRIES && next.iter().any(Option::is_some);
        if parked {
            self.pending.park(key, next, poisoned);
        }
        let flags = if parked { PARKED } else { 0 } | if poisoned { POISONED } else { 0 };
        key << 8 | flags
    }

    #[cold]
    pub(super) fn not_described(&self, task: S::Task, flow: usize, n: usize) {
        let text = format!("{task:?} has no flow {flow}: its class describes {n} flows");
        self.fail(Kind::NotDescribed, Some(task), text);
    }

    /// A flow does not get what it should from home: there is no such flow, it has been fed, or home is
    /// empty.
    #[cold]
    fn not_from_home(
        &self,
        (task, flow): (S::Task, usize),
        is_fed: Option<bool>,
        store: &Store<S::Datum>,
        index: usize,
    ) {
        let class = task.class();
        match is_fed {
            None => {
                let flows = self.description.classes().get(class);
                self.not_described(task, flow, flows.map_or(0, |class| class.flows.len()));
            }
            Some(true) => {
                let flow = self.description.flow_name(class, flow);
                let text = format!("{flow} of {task:?} is fed twice, once from home");
                self.fail(Kind::FedTwice, Some(task), text);
            }
            Some(false) => self.home_empty(task, flow, store, index),
        }
    }

    #[cold]
    fn home_empty(&self, task: S::Task, flow: usize, store: &Store<S::Datum>, index: usize) {
        let flow = self.description.flow_name(task.class(), flow);
        let (name, length) = (store.name(), store.len());
        let why = match index < length {
            true => {
                "which is empty: nothing was put there, it is lent to another task, or another has \
                 put a datum there"
            }
            false => "which does not exist",
        };
        let text = format!(
            "{flow} of {task:?} is to come from slot {index} of {name} ({length} slots), {why}"
        );
        self.fail(Kind::HomeEmpty, Some(task), text);
    }

    #[cold]
    fn count_exceeded(&self) {
        let (count, rank) = (self.common.ledger.count(), self.rank);
        let why = self
            .strayed()
            .unwrap_or_else(|| "an edge leads to a task that is not listed, or back".into());
        let text =
            format!("more tasks ran than the {count} that the space counts on {rank}: {why}");
        self.fail(Kind::CountExceeded, None, text);
    }
}
