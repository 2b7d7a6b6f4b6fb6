//! Named: a space of which only the type of its names is known, for code that runs once a run, or only when
//! something is wrong.
//!
//! # Law
//! Such code asks through a table of functions, so it is compiled once for all spaces with the same type
//! of names, not once for each space. The engine itself is compiled for every space, so whatever is
//! rare should not be part of it.
//!
//! # Elsewhere
//! A space of which only the type of its data is known, to run it: [`erased`](super::erased).

use super::{Description, Inputs, Spelling, Successors, TaskName, TaskSpace};
use crate::data::{Datum, Store};
use crate::error::Error;
use crate::rank::Rank;
use std::fmt;
use std::ops::ControlFlow;

/// Receives tasks, one after the other, until it stops the enumeration.
pub(crate) type Hear<'h, T> = dyn FnMut(T) -> ControlFlow<()> + 'h;

/// The questions of [`TaskSpace`], each with an answer whose type is the same for every space.
pub(crate) trait NamedSpace<T> {
    fn about(&self) -> Description;
    fn each_task(&self, on: Rank, hear: &mut Hear<'_, T>);
    fn each_root(&self, on: Rank, hear: &mut Hear<'_, T>);
    fn ends(&self, task: T) -> TaskEdges<T>;
    fn each_source(&self, task: T, hear: &mut dyn FnMut(T));
    fn placed(&self, task: T) -> Rank;
    fn owner(&self, task: T, flow: usize) -> Rank;
    fn number(&self, task: T) -> Option<usize>;
    fn counted(&self, on: Rank) -> u64;
    fn named(&self, packed: u64) -> T;
    fn spelling(&self) -> Spelling;
    fn told(&self, error: Error) -> Error;
}

impl<T: TaskName, S: TaskSpace<Task = T>> NamedSpace<T> for S {
    fn about(&self) -> Description {
        Description::of(self)
    }

    fn each_task(&self, on: Rank, hear: &mut Hear<'_, T>) {
        for task in self.tasks(on) {
            if hear(task).is_break() {
                return;
            }
        }
    }

    fn each_root(&self, on: Rank, hear: &mut Hear<'_, T>) {
        for root in self.roots(on) {
            if hear(root).is_break() {
                return;
            }
        }
    }

    fn ends(&self, task: T) -> TaskEdges<T> {
        let mut ends = TaskEdges::default();
        self.inputs(task, &mut ends);
        self.successors(task, &mut ends);
        ends
    }

    fn each_source(&self, task: T, hear: &mut dyn FnMut(T)) {
        self.inputs(task, &mut Heard(hear));
    }

    fn placed(&self, task: T) -> Rank {
        self.rank(task)
    }

    fn owner(&self, task: T, flow: usize) -> Rank {
        TaskSpace::owner(self, task, flow)
    }

    fn number(&self, task: T) -> Option<usize> {
        self.index(task)
    }

    fn counted(&self, on: Rank) -> u64 {
        self.count(on)
    }

    fn named(&self, packed: u64) -> T {
        TaskSpace::named(self, packed)
    }

    fn spelling(&self) -> Spelling {
        TaskSpace::spelling(self)
    }

    fn told(&self, error: Error) -> Error {
        TaskSpace::explained(self, error)
    }
}

/// Receives the tasks that feed one.
struct Heard<'h, T>(&'h mut dyn FnMut(T));

impl<S: TaskSpace> Inputs<S> for Heard<'_, S::Task> {
    fn task(&mut self, _: usize, source: S::Task, _: usize) {
        (self.0)(source);
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

/// The edges of one task.
pub(crate) struct TaskEdges<T> {
    /// (flow, source, source's flow)
    pub inputs: Vec<(usize, T, usize)>,
    /// (flow, target, target's flow)
    pub outputs: Vec<(usize, T, usize)>,
    /// (flow, slot)
    pub taken: Vec<(usize, HomeSlot)>,
    pub put: Vec<(usize, HomeSlot)>,
}

impl<T> Default for TaskEdges<T> {
    fn default() -> Self {
        TaskEdges {
            inputs: Vec::new(),
            outputs: Vec::new(),
            taken: Vec::new(),
            put: Vec::new(),
        }
    }
}

/// A slot of a store: the store's address (two may share a name), index, name, length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HomeSlot {
    pub store: usize,
    pub index: usize,
    pub name: String,
    pub length: usize,
}

impl HomeSlot {
    pub fn of<D: Datum>(store: &Store<D>, index: usize) -> Self {
        HomeSlot {
            store: std::ptr::from_ref(store).addr(),
            index,
            name: store.name().into(),
            length: store.len(),
        }
    }
}

impl fmt::Display for HomeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of {}", self.index, self.name)
    }
}

impl<S: TaskSpace> Inputs<S> for TaskEdges<S::Task> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.inputs.push((flow, source, source_flow));
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.taken.push((flow, HomeSlot::of(store, index)));
    }
}

impl<S: TaskSpace> Successors<S> for TaskEdges<S::Task> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.outputs.push((flow, target, target_flow));
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.put.push((flow, HomeSlot::of(store, index)));
    }
}
