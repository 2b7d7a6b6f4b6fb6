//! Visitors of edges: what a space talks to when it is asked about a task.

use super::{TaskName, TaskSpace};
use crate::data::Store;
use std::ops::Range;

/// Hears where the flows of a task come from.
pub trait Inputs<S: TaskSpace> {
    /// `flow` comes from `source_flow` of the task `source`.
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize);

    /// `flow` comes from home: a slot of a store. Taken if the flow is updated, shared if read.
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize);
}

/// Hears where the flows of a task go.
pub trait Successors<S: TaskSpace> {
    /// `flow` goes to `target_flow` of the task `target`.
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize);

    /// `flow` goes home: to a slot of a store.
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize);

    /// `flow` goes to `target_flow` of one task for each number of a range.
    #[inline(always)]
    fn range(
        &mut self,
        flow: usize,
        range: Range<u32>,
        target: impl Fn(u32) -> S::Task,
        target_flow: usize,
    ) {
        for i in range {
            self.task(flow, target(i), target_flow);
        }
    }
}

/// Bits of a narrow set of flows; see [`Expected::mask`].
pub(crate) const NARROW: usize = 7;

/// Counts the inputs of a task, and tells whether it expects one through a certain flow.
pub(crate) struct Expected<T> {
    asked: usize,
    from: (T, usize),
    /// Whether the asked flow is among them, and comes from the task and flow asked for.
    pub named: bool,
    /// How many inputs come from tasks.
    pub count: usize,
    /// A bit per flow fed by a task, if all of them are below [`NARROW`].
    pub mask: u8,
    /// Whether a flow at or above [`NARROW`] is fed by a task.
    pub wide: bool,
    /// Whether two tasks claim the same flow.
    pub doubled: bool,
}

impl<T: TaskName> Expected<T> {
    #[inline(always)]
    pub fn of<S: TaskSpace<Task = T>>(space: &S, task: T, asked: usize, from: (T, usize)) -> Self {
        let mut expected = Expected {
            asked,
            from,
            named: false,
            count: 0,
            mask: 0,
            wide: false,
            doubled: false,
        };
        space.inputs(task, &mut expected);
        expected
    }
}

impl<S: TaskSpace> Inputs<S> for Expected<S::Task> {
    #[inline(always)]
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.count += 1;
        self.named |= flow == self.asked && (source, source_flow) == self.from;
        if flow < NARROW {
            self.doubled |= self.mask & 1 << flow != 0;
            self.mask |= 1 << flow;
        } else {
            self.wide = true;
        }
    }

    #[inline(always)]
    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

/// Whether a task waits for no other task.
#[inline(always)]
pub(crate) fn is_root<S: TaskSpace>(space: &S, task: S::Task) -> bool {
    Expected::of(space, task, usize::MAX, (task, 0)).count == 0
}

/// Hears only of inputs from home.
pub(crate) struct HomeInputs<F>(pub F);

impl<S: TaskSpace, F: FnMut(usize, &Store<S::Datum>, usize)> Inputs<S> for HomeInputs<F> {
    #[inline(always)]
    fn task(&mut self, _: usize, _: S::Task, _: usize) {}

    #[inline(always)]
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        (self.0)(flow, store, index);
    }
}
