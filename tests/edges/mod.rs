//! Edges: a task space of which one end of one edge is wrong.

use dataflow::core::space::TaskSpace;
use dataflow::prelude::*;
use std::cell::Cell;

/// What is wrong with an end.
#[derive(Clone, Copy, Debug)]
pub enum Wrong {
    /// It is not told.
    Missing,
    /// It names the next flow of the other task; if it is from home, it is that of the next flow.
    Other,
}

/// Proves that a space is right, and that it is found wrong as soon as an end of an edge is.
pub fn every_edge_counts<S: TaskSpace>(space: &S, n_ranks: u32) {
    verify(space, n_ranks).unwrap_or_else(|fault| panic!("{fault}"));
    let tasks: Vec<S::Task> = (0..n_ranks).flat_map(|on| space.tasks(Rank(on))).collect();
    let mut changed = 0;
    for &task in &tasks {
        for of_inputs in [true, false] {
            for wrong in [Wrong::Missing, Wrong::Other] {
                for at in 0.. {
                    let mutant = Mutant {
                        space,
                        end: (task, of_inputs, at),
                        wrong,
                    };
                    if !mutant.has_it() {
                        break;
                    }
                    let end = if of_inputs { "input" } else { "output" };
                    let found = verify(&mutant, n_ranks);
                    assert!(
                        found.is_err(),
                        "{wrong:?} {end} {at} of {task:?} is not found"
                    );
                    changed += 1;
                }
            }
        }
    }
    assert!(changed > 0, "{} tasks have no edge", tasks.len());
}

struct Mutant<'s, S: TaskSpace> {
    space: &'s S,
    /// Of which task; whether one of its inputs or of its outputs; which.
    end: (S::Task, bool, usize),
    wrong: Wrong,
}

/// Passes ends on, but for one.
struct Changed<'v, V> {
    to: &'v mut V,
    /// How many ends go before the wrong one; `None` if it is not of this task.
    before: Option<usize>,
    wrong: Wrong,
}

impl<V> Changed<'_, V> {
    /// By how much the number of this end is wrong; `None` if it is missing.
    fn shift(&mut self) -> Option<usize> {
        let Some(before) = self.before else {
            return Some(0);
        };
        self.before = before.checked_sub(1);
        match (before, self.wrong) {
            (0, Wrong::Missing) => None,
            (0, Wrong::Other) => Some(1),
            _ => Some(0),
        }
    }
}

impl<'s, S: TaskSpace + 's, V: Inputs<Mutant<'s, S>>> Inputs<S> for Changed<'_, V> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        if let Some(shift) = self.shift() {
            self.to.task(flow, source, source_flow + shift);
        }
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        if let Some(shift) = self.shift() {
            self.to.home(flow + shift, store, index);
        }
    }
}

impl<'s, S: TaskSpace + 's, V: Successors<Mutant<'s, S>>> Successors<S> for Changed<'_, V> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        if let Some(shift) = self.shift() {
            self.to.task(flow, target, target_flow + shift);
        }
    }

    /// What a task has made may go home or not, and to any slot: no other end says where.
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.to.home(flow, store, index);
    }
}

/// Counts ends.
struct Count(Cell<usize>);

impl<S: TaskSpace> Inputs<S> for Count {
    fn task(&mut self, _: usize, _: S::Task, _: usize) {
        self.0.set(self.0.get() + 1);
    }
    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {
        self.0.set(self.0.get() + 1);
    }
}

impl<S: TaskSpace> Successors<S> for Count {
    fn task(&mut self, _: usize, _: S::Task, _: usize) {
        self.0.set(self.0.get() + 1);
    }
    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

impl<S: TaskSpace> Mutant<'_, S> {
    /// Whether the task has such an end.
    fn has_it(&self) -> bool {
        let (task, of_inputs, at) = self.end;
        let mut count = Count(Cell::new(0));
        match of_inputs {
            true => self.space.inputs(task, &mut count),
            false => self.space.successors(task, &mut count),
        }
        at < count.0.get()
    }

    fn before(&self, task: S::Task, of_inputs: bool) -> Option<usize> {
        let (of, inputs, at) = self.end;
        ((of, inputs) == (task, of_inputs)).then_some(at)
    }
}

impl<S: TaskSpace> TaskSpace for Mutant<'_, S> {
    type Task = S::Task;
    type Datum = S::Datum;

    fn describe(&self, about: &mut Description) {
        self.space.describe(about);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        self.space.tasks(on)
    }

    fn inputs(&self, task: S::Task, from: &mut impl Inputs<Self>) {
        let (before, wrong) = (self.before(task, true), self.wrong);
        let mut changed = Changed {
            to: from,
            before,
            wrong,
        };
        self.space.inputs(task, &mut changed);
    }

    fn successors(&self, task: S::Task, to: &mut impl Successors<Self>) {
        let (before, wrong) = (self.before(task, false), self.wrong);
        self.space
            .successors(task, &mut Changed { to, before, wrong });
    }

    fn run(&self, task: S::Task, flows: &mut Flows<'_, S::Datum>) -> Result<(), TaskError> {
        self.space.run(task, flows)
    }

    fn rank(&self, task: S::Task) -> Rank {
        self.space.rank(task)
    }

    fn owner(&self, task: S::Task, flow: usize) -> Rank {
        self.space.owner(task, flow)
    }

    fn named(&self, packed: u64) -> S::Task {
        self.space.named(packed)
    }

    fn named_by(&self, words: &[u32]) -> Option<S::Task> {
        self.space.named_by(words)
    }
}
