//! Run: a worker's loop, and the life of one task from ready to done.
//!
//! # Law
//! A body starts when all its inputs are there and what it updates is its own. Whatever the
//! space or a body does, the worker leaves with its line of the ledger published.

use super::ledger::Tally;
use super::{INSIDE, Ready, Run, Slots};
use crate::error::{Error, Kind};
use crate::port::{Lane, Word, Work};
use crate::space::{Flow, Flows, HomeInputs, Mode, TaskName, TaskSpace};
use crate::sync::Ordering;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Flags in the low byte of a word; the key stands above.
const POISONED: Word = 1;
const PARKED: Word = 2;

/// Whether the current thread runs tasks.
pub(super) fn inside_a_body() -> bool {
    INSIDE.get()
}

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Work for Run<'a, S, R> {
    fn work(&self, lane: &mut dyn Lane) {
        let line = self.ledger.line(lane.worker());
        let mut tally = line.read();
        let mut current = None;
        let outer = INSIDE.replace(true);
        // One guard for the whole visit: bodies and the space's own formulas may panic.
        let visit = AssertUnwindSafe(|| self.visit(lane, &mut tally, &mut current));
        if let Err(panic) = catch_unwind(visit) {
            self.fail(
                Kind::TaskPanicked,
                current,
                format!("task panicked: {}", text(&*panic)),
            );
        }
        INSIDE.set(outer);
        line.publish(&tally);
    }

    fn is_drained(&self) -> bool {
        self.ledger.is_drained()
    }
}

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Run<'a, S, R> {
    /// Runs tasks until there is none; after each the most urgent successor it made ready.
    fn visit(&self, lane: &mut dyn Lane, tally: &mut Tally, current: &mut Option<S::Task>) {
        let line = self.ledger.line(lane.worker());
        while let Some(ready) = self.next(lane, tally) {
            let mut next = Some(ready);
            while let Some(ready) = next {
                if self.ledger.is_stopped() {
                    return;
                }
                *current = Some(ready.task);
                next = self.step(ready, lane, tally);
                tally.executed += 1;
                line.publish_executed(tally.executed);
                if tally.executed > self.ledger.count() {
                    self.count_exceeded();
                    return;
                }
            }
        }
    }

    /// The next task: from near queues, else a new root, else from another's queue.
    #[inline]
    fn next(&self, lane: &mut dyn Lane, tally: &mut Tally) -> Option<Ready<S>> {
        if let Some(word) = lane.pop() {
            return self.unpack(word, tally);
        }
        if let Some(root) = self.announce(lane, tally) {
            return Some(root);
        }
        let word = lane.steal()?;
        self.unpack(word, tally)
    }

    /// Runs one task and hands its outputs on. Returns the successor to run next.
    #[inline(always)]
    fn step(
        &self,
        mut ready: Ready<S>,
        lane: &mut dyn Lane,
        tally: &mut Tally,
    ) -> Option<Ready<S>> {
        let flows: &[Flow] = if Self::CARRIES {
            self.gather(&mut ready)?
        } else {
            &[]
        };
        if !ready.poisoned {
            let mut lent = Flows::new(flows, &mut ready.slots);
            if let Err(error) = self.space.run(ready.task, &mut lent) {
                self.note(ready.task, Error::of_task(&ready.task, error));
                ready.poisoned = true;
            }
        }
        self.release(ready, flows, lane, tally)
    }

    /// Fills the flows that come from home and makes what is updated the task's own.
    fn gather(&self, ready: &mut Ready<S>) -> Option<&[Flow]> {
        let task = ready.task;
        let class = task.class();
        let Some(class_of) = self.description.classes().get(class) else {
            let text = format!("{task:?} is of class {class}, which the space does not describe");
            self.fail(Kind::NotDescribed, Some(task), text);
            return None;
        };
        let flows = &class_of.flows[..];
        if ready.slots.len() > flows.len() {
            let text = format!("{task:?} was fed through a flow that its class does not describe");
            self.fail(Kind::NotDescribed, Some(task), text);
            return None;
        }
        ready.slots.resize_with(flows.len(), || None);
        let mut complete = true;
        let slots = &mut ready.slots;
        self.space.inputs(
            task,
            &mut HomeInputs(|flow: usize, store: &crate::data::Store<S::Datum>, index| {
                let mode = flows.get(flow).map(|flow| flow.mode);
                let version = match mode {
                    Some(Mode::Update) => store.take(index),
                    _ => store.get(index),
                };
                match (version, slots.get_mut(flow)) {
                    (Some(version), Some(slot)) => *slot = Some(version),
                    _ => {
                        complete = false;
                        let flow = self.description.flow_name(class, flow);
                        let text = format!(
                            "{flow} of {task:?} is to come from slot {index} of {}, which has {} slots: \
                             it does not exist or is lent to another task",
                            store.name(),
                            store.len(),
                        );
                        self.fail(Kind::HomeEmpty, Some(task), text);
                    }
                }
            }),
        );
        if !complete {
            return None;
        }
        for (flow, slot) in flows.iter().zip(&mut *slots) {
            match (flow.mode, slot) {
                (Mode::Update, Some(version)) if !ready.poisoned => {
                    if version.make_sole() {
                        self.copies[class].fetch_add(1, Ordering::Relaxed);
                    }
                }
                (Mode::Read | Mode::Update, None) if !ready.poisoned => {
                    let text = format!("flow {} of {task:?} was not fed with a datum", flow.name);
                    self.fail(Kind::FlowEmpty, Some(task), text);
                    return None;
                }
                _ => {}
            }
        }
        Some(flows)
    }

    /// Queues a ready task as a word; its inputs wait in the table of pending records.
    pub(super) fn queue(
        &self,
        ready: Ready<S>,
        priority: i64,
        lane: &mut dyn Lane,
        tally: &mut Tally,
    ) {
        let key = self.names.key(ready.task);
        let flags = if Self::CARRIES && ready.slots.iter().any(Option::is_some) {
            self.pending.park(key, ready.slots, ready.poisoned);
            PARKED
        } else if ready.poisoned {
            POISONED
        } else {
            0
        };
        tally.queued += 1;
        lane.push(key << 8 | flags, priority);
    }

    /// The task of a word, with its inputs.
    fn unpack(&self, word: Word, tally: &mut Tally) -> Option<Ready<S>> {
        tally.taken += 1;
        let key = word >> 8;
        let task = self.names.name(key);
        self.names.forget(key);
        if Self::CARRIES && word & PARKED != 0 {
            let Some((slots, poisoned)) = self.pending.take(key) else {
                unreachable!("the inputs of {task:?} were parked before its word was queued")
            };
            return Some(Ready {
                task,
                slots,
                poisoned,
            });
        }
        Some(Ready {
            task,
            slots: Slots::new(),
            poisoned: word & POISONED != 0,
        })
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

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no text)")
}
