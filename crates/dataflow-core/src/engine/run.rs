//! Run: a space as the engine [drives](super::drive) it, and the life of one task from ready to done.
//!
//! # Law
//! A body starts when all its inputs are there and what it updates is its own.

use super::announce::Pulled;
use super::common::Common;
use super::drive::{Front, LeftVisit, Visit};
use super::hand::Hand;
use super::slots::let_go;
use super::stall::mark;
use super::{ReadyTask, Run};
use crate::error::{Error, Kind, TaskError};
use crate::foreign::shown;
use crate::port::Word;
use crate::space::{Flow, Flows, TaskName, TaskSpace, asked_in_panic};
use crate::sync::{Ordering, lock};
use crate::trace::{Fate, number};
use std::time::Duration;

/// Notes that a body has panicked, where it is dropped: only then. It costs nothing else.
struct Unwinds<'h>(&'h mut bool);

impl Drop for Unwinds<'_> {
    fn drop(&mut self) {
        *self.0 = true;
    }
}

/// The flows of a task, and what its body answered.
type Performed<'r> = (&'r [Flow], Result<(), TaskError>);

impl<S: TaskSpace> Front for Run<'_, S> {
    type Key = S::Task;
    type Ready<'f>
        = ReadyTask<S>
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
        Hand::new()
    }

    #[inline(always)]
    fn unpack(&self, word: Word, visit: &mut Visit<'_, Hand<S>>) -> Option<ReadyTask<S>> {
        self.take_out(word, visit)
    }

    #[inline(always)]
    fn root(&self, visit: &mut Visit<'_, Hand<S>>) -> Option<ReadyTask<S>> {
        visit.hand.roots.pop().map(|root| (root, false))
    }

    fn announce(&self, visit: &mut Visit<'_, Hand<S>>) -> Pulled {
        visit.hand.task = None;
        let ledger = &self.common.ledger;
        // A look first: whoever waits for other ranks comes by here again and again.
        if ledger.is_announced() {
            return Pulled::AllBefore;
        }
        let roots = &mut visit.hand.roots;
        let has_priority = |&root: &S::Task| self.space.priority(root) != 0;
        let announced = super::announce::Roots::pull(&self.roots, ledger, has_priority, roots);
        if announced == Pulled::Some {
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
    fn step(&self, ready: ReadyTask<S>, visit: &mut Visit<'_, Hand<S>>) -> Option<ReadyTask<S>> {
        let performed = self.perform(ready, visit)?;
        self.hand_over(ready, performed, visit)
    }

    fn begin(&self, ready: ReadyTask<S>, visit: &mut Visit<'_, Hand<S>>) -> bool {
        let performed = self.perform(ready, visit);
        let has_begun = performed.is_some();
        let failed = performed.and_then(|(_, result)| result.err());
        visit.hand.begun = has_begun.then(|| Box::new((ready, failed)));
        has_begun
    }

    fn end(&self, visit: &mut Visit<'_, Hand<S>>) -> Option<ReadyTask<S>> {
        let (ready, failed) = *visit.hand.begun.take()?;
        let flows: &[Flow] = match Self::CARRIES {
            true => &self.description.classes().get(ready.0.class())?.flows[..],
            false => &[],
        };
        self.hand_over(ready, (flows, failed.map_or(Ok(()), Err)), visit)
    }

    fn pause(&self, worker: usize, paused: (LeftVisit, Hand<S>)) {
        let mut all = lock(&self.paused);
        while all.len() <= worker {
            all.push(None);
        }
        all[worker] = Some(Box::new(paused));
    }

    fn resume(&self, worker: usize) -> Option<(LeftVisit, Hand<S>)> {
        let paused = lock(&self.paused).get_mut(worker)?.take();
        paused.map(|paused| *paused)
    }

    #[inline(always)]
    fn counts(&self, executed: u64) {
        if executed > self.common.ledger.count() {
            self.count_exceeded();
        }
    }

    /// It was the body of the task in hand, or the space, asked about another one.
    fn panicked(&self, visit: &mut Visit<'_, Hand<S>>, text: &str) {
        let mut what = "panicked between tasks";
        let mut task = visit.hand.task;
        if let Some(task) = task {
            visit.ends_by_panic(|_| (number(task), task.class()));
            what = "task panicked";
        }
        let asked = match visit.hand.broke {
            true => None,
            false => asked_in_panic(self.space, self.n_ranks(), text),
        };
        let text = match asked {
            Some(asked) => format!("asked about {}, the space panicked: {text}", shown(&asked)),
            None => format!("{what}: {text}"),
        };
        task = asked.or(task);
        self.fail(Kind::TaskPanicked, task, text);
    }

    fn stop(&self, error: Error) {
        self.abort(error);
    }

    fn leave(&self, mut hand: Hand<S>) {
        for slots in [&mut hand.slots, &mut hand.best, &mut hand.next] {
            let_go(slots);
        }
        self.common.note_read(hand.read);
        self.note_homes(hand.homes);
        if cfg!(debug_assertions) {
            self.ran.fetch_add(hand.ran, Ordering::Relaxed);
        }
    }
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Gathers the inputs of a task and runs its body. Its flows, and how the body failed if it did; none
    /// if an input is not there.
    #[inline(always)]
    fn perform(
        &self,
        (task, poisoned): ReadyTask<S>,
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Option<Performed<'_>> {
        visit.hand.task = Some(task);
        if cfg!(debug_assertions) {
            visit.hand.ran = visit.hand.ran.wrapping_add(mark(task));
        }
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
            let Hand { slots, broke, .. } = &mut visit.hand;
            let mut lent = Flows::new(flows, &mut slots[..flows.len()]);
            let unwinds = Unwinds(broke);
            let result = self.space.run(task, &mut lent);
            std::mem::forget(unwinds);
            result
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
        (task, mut poisoned): ReadyTask<S>,
        (flows, result): Performed<'_>,
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Option<ReadyTask<S>> {
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
            true => self.abort(error),
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

    #[cold]
    fn count_exceeded(&self) {
        let (count, rank) = (self.common.ledger.count(), self.rank);
        let why = self
            .strayed()
            .or_else(|| self.wrong_in_small())
            .unwrap_or_else(|| "an edge leads to a task that is not listed, or back".into());
        let text =
            format!("more tasks ran than the {count} that the space counts on {rank}: {why}");
        self.fail(Kind::CountExceeded, None, text);
    }
}
