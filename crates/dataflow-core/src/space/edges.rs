//! Callbacks that receive a task's edges when a space is asked for them.

use super::{TaskName, TaskSpace, number_of};
use crate::data::{Datum, Store};
use std::ops::Range;

/// Receives the inputs of a task: where each flow comes from.
///
/// # Examples
/// See the [crate's](crate) example: the first task's flow comes from home, any other's from the task before.
pub trait Inputs<S: TaskSpace> {
    /// `flow` comes from `source_flow` of the task `source`.
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize);

    /// `flow` is read from a slot of a store, its *home*: taken if the flow is updated, shared if read.
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize);
}

/// Receives the outputs of a task: where each flow goes.
///
/// # Examples
/// See the [crate's](crate) example: the last task's flow goes home, any other's to the task after it.
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

/// Bits of a narrow set of flows; see [`CountedInputs::mask`].
pub(crate) const NARROW: usize = 15;
/// Flows of a set that fits a byte, with a bit to spare.
const BYTE: usize = 7;

/// Counts the inputs of a task, and tells whether it expects one through a certain flow.
pub(crate) struct CountedInputs<T> {
    asked: usize,
    from: (T, usize),
    /// Whether the asked flow is among them, and comes from the task and flow asked for.
    pub named: bool,
    /// How many inputs come from tasks.
    pub count: usize,
    /// A bit per flow fed by a task, if all of them are below [`NARROW`].
    pub mask: u16,
    /// Whether a flow at or above [`NARROW`] is fed by a task.
    pub wide: bool,
    /// Whether two tasks claim the same flow.
    pub doubled: bool,
}

impl<T: TaskName> CountedInputs<T> {
    #[inline(always)]
    pub fn of<S: TaskSpace<Task = T>>(space: &S, task: T, asked: usize, from: (T, usize)) -> Self {
        let mut expected = CountedInputs {
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

    /// The mask, if all inputs come through the first seven flows.
    #[inline(always)]
    pub fn byte(&self) -> Option<u8> {
        (!self.wide && self.mask >> BYTE == 0).then_some(self.mask as u8)
    }
}

/// Where all inputs of a task come from, for tasks with many: by flow, the source and its flow as a
/// number that stands for them.
pub(crate) struct Sources {
    by_flow: Vec<(usize, u64)>,
}

impl Sources {
    /// `None` if two tasks feed the same flow.
    pub fn of<S: TaskSpace>(space: &S, task: S::Task) -> Option<Self> {
        let by_flow = Vec::new();
        let mut sources = Sources { by_flow };
        space.inputs(task, &mut sources);
        sources.by_flow.sort_unstable();
        let mut pairs = sources.by_flow.windows(2);
        let doubled = pairs.any(|pair| pair[0].0 == pair[1].0);
        (!doubled).then_some(sources)
    }

    pub fn count(&self) -> usize {
        self.by_flow.len()
    }

    /// Whether a flow comes from there.
    pub fn names(&self, flow: usize, from: u64) -> bool {
        let at = self.by_flow.binary_search(&(flow, from));
        at.is_ok()
    }
}

impl<S: TaskSpace> Inputs<S> for Sources {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.by_flow.push((flow, number_of(source, source_flow)));
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

impl<S: TaskSpace> Inputs<S> for CountedInputs<S::Task> {
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
#[doc(hidden)]
#[inline(always)]
pub fn is_root<S: TaskSpace>(space: &S, task: S::Task) -> bool {
    CountedInputs::of(space, task, usize::MAX, (task, 0)).count == 0
}

/// Passes on only inputs from home. It calls through a pointer, so that one function asks the space
/// whatever is done with the answers.
pub(crate) struct HomeInputs<'h, D: Datum>(pub &'h mut dyn FnMut(usize, &Store<D>, usize));

impl<S: TaskSpace> Inputs<S> for HomeInputs<'_, S::Datum> {
    #[inline(always)]
    fn task(&mut self, _: usize, _: S::Task, _: usize) {}

    #[inline(always)]
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        (self.0)(flow, store, index);
    }
}
