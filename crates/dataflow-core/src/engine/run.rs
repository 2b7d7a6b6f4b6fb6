//! Run: a worker's loop, and the life of one task from ready to done.
//!
//! # Law
//! A body starts when all its inputs are there and what it updates is its own. Whatever the
//! space or a body does, the worker leaves with its line of the ledger published.

use super::announce::{Announced, Chunk};
use super::guard::{drop_quietly, guarded};
use super::homes::Homes;
use super::ledger::{Line, Tally};
use super::pending::Poisoned;
use super::post::Leaving;
use super::tell::Bytes;
use super::{Idle, Run, Slots};
use crate::data::Store;
use crate::error::{Error, Kind};
use crate::port::{Hint, Lane, Wants, Word, Work};
use crate::space::{Flow, Flows, HomeInputs, Mode, TaskName, TaskSpace};
use crate::sync::Ordering;
use crate::trace::Track;
use smallvec::SmallVec;
use std::time::Instant;

/// Flags in the low byte of a word; the key stands above.
const POISONED: Word = 1;
const PARKED: Word = 2;

/// What a worker has in hand while it is inside.
pub(super) struct Hand<S: TaskSpace> {
    pub tally: Tally,
    /// The task that runs, for reports of panics.
    pub task: Option<S::Task>,
    /// Roots that were pulled and not started yet, the next one last.
    pub roots: Chunk<S::Task>,
    /// Data of the task that runs.
    pub slots: Slots<S::Datum>,
    /// Data of the best successor so far.
    pub best: Slots<S::Datum>,
    /// Data of the successor that is looked at.
    pub next: Slots<S::Datum>,
    /// Where the data of the best successor lie, if the lane is told.
    pub best_hint: Hint,
    /// Edges without data that leave the rank, of the task that runs.
    pub leaving: Leaving,
    /// Whether it has looked for mail since the last task.
    pub looked: bool,
    /// What the lane wants to be told.
    pub wants: Wants,
    /// What tasks have read, if the lane wants to know.
    pub read: Bytes,
    /// What tasks have taken from home and put there.
    pub homes: Homes,
    /// Where it notes what it does, if the run is recorded.
    pub track: Option<Track>,
    /// When the task that runs began, by the track's clock.
    pub began: u64,
}

/// A task whose inputs have all come, and whether an ancestor failed.
pub(super) type Ready<S> = (<S as TaskSpace>::Task, Poisoned);

impl<S: TaskSpace> Work for Run<'_, S> {
    fn work(&self, lane: &mut dyn Lane) -> u64 {
        let line = self.ledger.line(lane.worker());
        let mut hand = Hand {
            tally: line.read(),
            task: None,
            roots: SmallVec::new(),
            slots: Slots::new(),
            best: Slots::new(),
            next: Slots::new(),
            best_hint: Hint::None,
            leaving: Leaving::new(),
            looked: false,
            wants: lane.wants(),
            read: Bytes::default(),
            homes: Homes::default(),
            track: self
                .opened
                .as_ref()
                .and_then(|opened| opened.enter(lane.worker())),
            began: 0,
        };
        let before = hand.tally.executed;
        // One guard for the whole visit: bodies and the space's own formulas may panic.
        if let Some(text) = guarded(|| self.visit(lane, line, &mut hand)) {
            Self::ends_by_panic(&mut hand);
            let text = format!("task panicked: {text}");
            self.fail(Kind::TaskPanicked, hand.task, text);
        }
        for slots in [&mut hand.slots, &mut hand.best, &mut hand.next] {
            slots.drain(..).for_each(drop_quietly);
        }
        line.publish(&hand.tally);
        self.note_read(hand.read);
        self.note_homes(hand.homes);
        if let (Some(opened), Some(track)) = (&self.opened, hand.track) {
            opened.leave(lane.worker(), track);
        }
        hand.tally.executed - before
    }

    fn is_drained(&self) -> bool {
        self.ledger.is_drained()
    }

    fn refuse(&self, text: String) {
        self.fail(Kind::SchedulerFailed, None, text);
    }
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Runs tasks until there is none; after each the most urgent successor it made ready.
    fn visit(&self, lane: &mut dyn Lane, line: &Line, hand: &mut Hand<S>) {
        while let Some(ready) = self.next(lane, hand) {
            let mut next = Some(ready);
            while let Some(ready) = next {
                if self.ledger.calls() {
                    if self.ledger.is_stopped() {
                        return;
                    }
                    if !std::mem::take(&mut hand.looked) {
                        self.take_mail(lane, hand);
                    }
                }
                next = self.step(ready, lane, hand);
                hand.tally.executed += 1;
                line.publish_executed(hand.tally.executed);
                if hand.tally.executed > self.ledger.count() {
                    return self.count_exceeded();
                }
            }
        }
    }

    /// The next task: from near queues, else a root in hand or a new one, else from what has
    /// arrived, else from another's queue.
    #[inline(always)]
    fn next(&self, lane: &mut dyn Lane, hand: &mut Hand<S>) -> Option<Ready<S>> {
        let mut waits_since = None;
        let mut idle = None;
        loop {
            if let Some(word) = lane.pop() {
                return self.unpack(word, hand);
            }
            if let Some(root) = hand.roots.pop() {
                return Some((root, false));
            }
            let announced = self.announce(lane, hand);
            if announced == Announced::Some {
                continue;
            }
            let mail = self.ledger.calls() && self.take_mail(lane, hand);
            if self.ledger.is_stopped() {
                return None;
            }
            if mail {
                hand.looked = true;
                continue;
            }
            if let Some(word) = lane.steal() {
                if let Some(track) = &mut hand.track {
                    track.stolen();
                }
                return self.unpack(word, hand);
            }
            if announced == Announced::ByAnother {
                idle.get_or_insert_with(Idle::default).pause();
            } else if !(self.ledger.calls() && self.lingers(&mut waits_since)) {
                return None;
            }
        }
    }

    /// Runs one task and hands its outputs on. Returns the successor to run next, its data in
    /// `hand.slots`.
    #[inline(always)]
    fn step(
        &self,
        (task, mut poisoned): Ready<S>,
        lane: &mut dyn Lane,
        hand: &mut Hand<S>,
    ) -> Option<Ready<S>> {
        hand.task = Some(task);
        let flows: &[Flow] = if Self::CARRIES {
            self.gather((task, poisoned), hand)?
        } else {
            &[]
        };
        let told = Self::tells(hand) && !poisoned;
        if told {
            self.tell_reads(lane, hand);
        }
        Self::begins(hand);
        let skipped = poisoned;
        let start = (told && hand.wants == Wants::Everything).then(Instant::now);
        if !poisoned {
            let mut lent = Flows::new(flows, &mut hand.slots);
            if let Err(error) = self.space.run(task, &mut lent) {
                self.note(task, Error::of_task(&task, error));
                poisoned = true;
            }
        }
        Self::ends(task, (skipped, poisoned), hand);
        if let Some(start) = start {
            lane.measured(task.class(), start.elapsed().as_secs_f64());
        }
        self.release((task, poisoned), flows, lane, hand)
    }

    /// Fills the flows that come from home and makes what is updated the task's own.
    fn gather(&self, (task, poisoned): Ready<S>, hand: &mut Hand<S>) -> Option<&[Flow]> {
        let Hand {
            slots,
            homes,
            track,
            ..
        } = hand;
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
        if self.abroad.is_some() {
            self.begin_use(slots);
        }
        slots.resize_with(flows.len(), || None);
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
                (_, None) => {
                    complete = false;
                    self.not_described(task, flow, flows.len());
                }
                (_, Some(Some(_))) => {
                    complete = false;
                    let flow = self.description.flow_name(class, flow);
                    let text = format!("{flow} of {task:?} is fed twice, once from home");
                    self.fail(Kind::FedTwice, Some(task), text);
                }
                (Some(version), Some(slot)) => *slot = Some(version),
                _ => {
                    complete = false;
                    let flow = self.description.flow_name(class, flow);
                    let text = format!(
                        "{flow} of {task:?} is to come from slot {index} of {}, which has {} slots: \
                         it does not exist, is lent to another task, or another has put a datum there",
                        store.name(),
                        store.len(),
                    );
                    self.fail(Kind::HomeEmpty, Some(task), text);
                }
            }
        };
        self.space.inputs(task, &mut HomeInputs(&mut take));
        if !complete {
            return None;
        }
        homes.spoilt |= poisoned;
        for (flow, slot) in flows.iter().zip(&mut *slots) {
            match (flow.mode, slot) {
                (Mode::Update, Some(version)) if !poisoned => {
                    let copied = version.make_sole();
                    if copied {
                        self.copies[class].fetch_add(1, Ordering::Relaxed);
                        if let Some(track) = track {
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
        Some(flows)
    }

    /// What came from other ranks makes room for more when a task begins to use it.
    fn begin_use(&self, slots: &Slots<S::Datum>) {
        let used: u64 = slots.iter().flatten().map(|slot| slot.begin_use()).sum();
        if used > 0 {
            self.ledger.note_used(used);
        }
    }

    /// Queues a ready task as a word; its data, in `hand.next`, wait in the table of records.
    pub(super) fn queue(
        &self,
        (task, poisoned): Ready<S>,
        priority: i64,
        lane: &mut dyn Lane,
        hand: &mut Hand<S>,
    ) {
        let key = self.names.key(task);
        let parked = Self::CARRIES && hand.next.iter().any(Option::is_some);
        if parked {
            self.pending.park(key, &mut hand.next, poisoned);
        }
        hand.tally.queued += 1;
        let flags = if parked { PARKED } else { 0 } | if poisoned { POISONED } else { 0 };
        lane.push(key << 8 | flags, priority);
    }

    /// The task of a word; its data come to `hand.slots`.
    #[inline(always)]
    fn unpack(&self, word: Word, hand: &mut Hand<S>) -> Option<Ready<S>> {
        hand.tally.taken += 1;
        let key = word >> 8;
        let Some(task) = self.names.name(key) else {
            let text = "a task was fed once more after all its inputs had come";
            self.fail(Kind::FedTwice, None, text);
            return None;
        };
        self.names.forget(key);
        if Self::CARRIES {
            hand.slots.clear();
            if word & PARKED != 0 && self.pending.take(key, &mut hand.slots).is_none() {
                unreachable!("the data of {task:?} were parked before its word was queued");
            }
        }
        Some((task, word & POISONED != 0))
    }

    #[cold]
    pub(super) fn not_described(&self, task: S::Task, flow: usize, n: usize) {
        let text = format!("{task:?} has no flow {flow}: its class describes {n} flows");
        self.fail(Kind::NotDescribed, Some(task), text);
    }

    #[cold]
    fn count_exceeded(&self) {
        let text = format!(
            "more tasks ran than the {} that the space counts on {}: an edge leads to a task that is not listed, or back",
            self.ledger.count(),
            self.rank,
        );
        self.fail(Kind::CountExceeded, None, text);
    }
}
