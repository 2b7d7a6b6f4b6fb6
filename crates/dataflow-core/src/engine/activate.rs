//! Activate: one input reaches a task; the last one makes it ready.
//!
//! The in-degree is asked of the space at each arrival: it costs a formula, and nothing has to
//! be announced before. A task with a single input is ready at once and never touches a table.

use super::dense::LIMIT;
use super::pending::{Arrived, Near, Poisoned};
use super::{Run, Slots, slots};
use crate::data::Version;
use crate::space::{CountedInputs, NARROW, Sources, TaskName, TaskSpace, number_of};

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Brings one input to `task`. If it is ready now, its data are in `slots`.
    /// `near` is what the worker holds of the table from one successor to the next, but not while a fault is
    /// told: that may move messages.
    #[inline(always)]
    pub(super) fn activate<'r>(
        &'r self,
        from: (S::Task, usize),
        task: S::Task,
        flow: usize,
        (datum, poisoned): (Option<Version<S::Datum>>, Poisoned),
        slots: &mut Slots<S::Datum>,
        near: &mut Near<'r, S::Datum>,
    ) -> Option<Poisoned> {
        if flow >= NARROW {
            near.release();
            return self.activate_wide(from, task, flow, (datum, poisoned), slots);
        }
        let expected = CountedInputs::of(self.space, task, flow, from);
        let source = from.0;
        if !expected.named || expected.doubled {
            near.release();
            self.not_expected(source, task, flow);
            return None;
        }
        // Room is made for as many flows as are fed: so a high number is looked up first.
        if flow >= slots::INLINE
            && let Some(n_flows) = self.lacks(task, flow)
        {
            near.release();
            self.not_described(task, flow, n_flows);
            return None;
        }
        if expected.count == 1 {
            if Self::CARRIES {
                slots::empty(slots);
                slots::put(slots, flow, datum);
            }
            return Some(poisoned);
        }
        if !Self::CARRIES
            && let Some(awaited) = expected.byte()
            && let Some(index) = self.number(task)
        {
            return match self.dense.arrive(index, flow, awaited, poisoned) {
                Arrived::StillWaiting => None,
                Arrived::Ready(poisoned) => Some(poisoned),
                Arrived::FedTwice => {
                    near.release();
                    self.fed_twice(source, task, flow)
                }
            };
        }
        let key = self.names.key(task);
        match self
            .pending
            .arrive(key, &expected, (flow, datum, poisoned), slots, near)
        {
            Arrived::StillWaiting => None,
            Arrived::Ready(poisoned) => {
                self.names.forget(key);
                Some(poisoned)
            }
            Arrived::FedTwice => {
                near.release();
                self.fed_twice(source, task, flow)
            }
        }
    }

    /// The same through a flow of a high number: of a task with many inputs. Its space is asked for
    /// all of them once, not once for each.
    #[cold]
    fn activate_wide(
        &self,
        from: (S::Task, usize),
        task: S::Task,
        flow: usize,
        (datum, poisoned): (Option<Version<S::Datum>>, Poisoned),
        slots: &mut Slots<S::Datum>,
    ) -> Option<Poisoned> {
        if let Some(n_flows) = self.lacks(task, flow) {
            self.not_described(task, flow, n_flows);
            return None;
        }
        let key = self.names.key(task);
        let claim = number_of(from.0, from.1);
        let mut input = (flow, datum, poisoned);
        let known = self
            .pending
            .arrive_wide(key, claim, &mut input, None, slots);
        let found = known.unwrap_or_else(|| {
            // Asked outside of all locks.
            let sources = Sources::of(self.space, task)?;
            let learnt = Some(sources);
            self.pending
                .arrive_wide(key, claim, &mut input, learnt, slots)?
        });
        match found {
            None => {
                self.not_expected(from.0, task, flow);
                None
            }
            Some(Arrived::StillWaiting) => None,
            Some(Arrived::Ready(poisoned)) => {
                self.names.forget(key);
                Some(poisoned)
            }
            Some(Arrived::FedTwice) => self.fed_twice(from.0, task, flow),
        }
    }

    /// Where the arrivals at a task are counted, if its space numbers tasks densely.
    #[inline(always)]
    pub(super) fn number(&self, task: S::Task) -> Option<usize> {
        self.space.index(task).filter(|&index| index < LIMIT)
    }

    /// How many flows the class of a task has, if not so many that this is one.
    #[cold]
    fn lacks(&self, task: S::Task, flow: usize) -> Option<usize> {
        let class = self.description.classes().get(task.class());
        let n_flows = class.map_or(0, |class| class.flows.len());
        (flow >= n_flows).then_some(n_flows)
    }
}
