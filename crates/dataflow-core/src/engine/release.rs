//! Release: a finished task hands its outputs to those who wait for them.
//!
//! # Law
//! Every edge is walked once, by its source. What the task only read, and nobody else gets, is
//! dropped first; its own reference to an output moves into the last edge before that edge
//! becomes visible. So a single updating successor finds itself the only holder.
//!
//! A failed or skipped task releases in the same way, poisoned: its descendants are skipped, and
//! its data go on to where they belong.

use super::ledger::Tally;
use super::pending::Poisoned;
use super::{Ready, Run, Slots};
use crate::data::{Store, Version};
use crate::error::Kind;
use crate::port::Lane;
use crate::space::{Flow, Mode, Successors, TaskSpace};
use smallvec::SmallVec;

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Run<'a, S, R> {
    /// Hands everything on. Returns the most urgent successor that became ready, unless a queued
    /// task is more urgent still.
    #[inline(always)]
    pub(super) fn release(
        &self,
        ready: Ready<S>,
        flows: &[Flow],
        lane: &mut dyn Lane,
        tally: &mut Tally,
    ) -> Option<Ready<S>> {
        let Ready {
            task,
            slots,
            poisoned,
        } = ready;
        let mut released = Released {
            run: self,
            source: task,
            poisoned,
            lane,
            tally,
            best: None,
        };
        if Self::CARRIES {
            released.hand_on(slots, flows);
        } else {
            self.space.successors(task, &mut released);
        }
        released.next()
    }
}

/// A task whose outputs are being handed on; as a visitor, of edges without data.
struct Released<'r, 'a, S: TaskSpace, R> {
    run: &'r Run<'a, S, R>,
    source: S::Task,
    poisoned: Poisoned,
    lane: &'r mut dyn Lane,
    tally: &'r mut Tally,
    best: Option<(Ready<S>, i64)>,
}

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Successors<S>
    for Released<'_, 'a, S, R>
{
    #[inline(always)]
    fn task(&mut self, _: usize, target: S::Task, target_flow: usize) {
        self.deliver(target, target_flow, None);
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Released<'_, 'a, S, R> {
    /// Walks the edges of a task with data.
    fn hand_on(&mut self, mut slots: Slots<S::Datum>, flows: &[Flow]) {
        let mut edges = Edges {
            slots: &slots,
            list: SmallVec::new(),
            fault: None,
        };
        self.run.space.successors(self.source, &mut edges);
        let Edges { list, fault, .. } = edges;
        if let Some(text) = fault {
            return self.run.fail(Kind::HomeEmpty, Some(self.source), text);
        }
        let mut uses: SmallVec<[usize; 8]> = SmallVec::from_elem(0, flows.len());
        for &(flow, ..) in &list {
            match flows.get(flow) {
                Some(described) => {
                    if slots[flow].is_none() && described.mode != Mode::Order && !self.poisoned {
                        return self.left_empty(described);
                    }
                    uses[flow] += 1;
                }
                None => return self.not_described(flow, flows.len()),
            }
        }
        for (slot, _) in slots.iter_mut().zip(&uses).filter(|(_, uses)| **uses == 0) {
            *slot = None;
        }
        for (flow, target, target_flow) in list {
            uses[flow] -= 1;
            let datum = if uses[flow] == 0 {
                slots[flow].take()
            } else {
                slots[flow].clone()
            };
            self.deliver(target, target_flow, datum);
        }
    }

    #[inline(always)]
    fn deliver(&mut self, target: S::Task, flow: usize, datum: Option<Version<S::Datum>>) {
        let rank = self.run.space.rank(target);
        if rank != self.run.rank {
            return self.elsewhere(target);
        }
        if let Some(ready) = self
            .run
            .activate(self.source, target, flow, datum, self.poisoned)
        {
            let priority = self.run.space.priority(target);
            let less_urgent = match &mut self.best {
                None => {
                    self.best = Some((ready, priority));
                    return;
                }
                Some(best) if priority > best.1 => std::mem::replace(best, (ready, priority)),
                Some(_) => (ready, priority),
            };
            self.run
                .queue(less_urgent.0, less_urgent.1, self.lane, self.tally);
        }
    }

    #[inline(always)]
    fn next(self) -> Option<Ready<S>> {
        let (best, priority) = self.best?;
        if self.lane.outranks(priority) {
            self.run.queue(best, priority, self.lane, self.tally);
            return None;
        }
        Some(best)
    }

    #[cold]
    fn elsewhere(&self, target: S::Task) {
        let rank = self.run.space.rank(target);
        let text = format!(
            "{:?} feeds {target:?} on {rank}; this run has {} rank(s) and is {}",
            self.source, self.run.n_ranks, self.run.rank
        );
        self.run.fail(Kind::NoSuchRank, Some(target), text);
    }

    #[cold]
    fn left_empty(&self, flow: &Flow) {
        let text = format!(
            "the body of {:?} left flow {} empty",
            self.source, flow.name
        );
        self.run.fail(Kind::FlowEmpty, Some(self.source), text);
    }

    #[cold]
    fn not_described(&self, flow: usize, n: usize) {
        let text = format!(
            "{:?} hands on flow {flow}, its class describes {n} flows",
            self.source
        );
        self.run.fail(Kind::NotDescribed, Some(self.source), text);
    }
}

/// The edges of a task with data: what goes home goes at once, the rest is listed.
struct Edges<'s, S: TaskSpace> {
    slots: &'s Slots<S::Datum>,
    list: SmallVec<[(usize, S::Task, usize); 16]>,
    fault: Option<String>,
}

impl<S: TaskSpace> Successors<S> for Edges<'_, S> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.list.push((flow, target, target_flow));
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        let Some(version) = self.slots.get(flow).cloned().flatten() else {
            return;
        };
        if store.put(index, version).is_none() {
            let text = format!(
                "slot {index} of {} does not exist: it has {} slots",
                store.name(),
                store.len()
            );
            self.fault = Some(text);
        }
    }
}
