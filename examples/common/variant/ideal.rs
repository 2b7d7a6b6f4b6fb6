//! Ideal: a space without its edges between ranks.

use super::Rounds;
use dataflow::prelude::*;

/// The same tasks with the same work; those that would hear from another rank read what lies at home.
pub struct Ideal<'s, S>(pub &'s S);

/// Passes on the edges of one task that stay on its rank.
struct Cut<'v, S: Rounds, V> {
    space: &'v S,
    task: S::Task,
    to: &'v mut V,
}

impl<S: Rounds, V> Cut<'_, S, V> {
    fn stays(&self, other: S::Task) -> bool {
        self.space.rank(other) == self.space.rank(self.task)
    }
}

impl<'s, S: Rounds + 's, V: Inputs<Ideal<'s, S>>> Inputs<S> for Cut<'_, S, V> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        if self.stays(source) {
            self.to.task(flow, source, source_flow);
        } else if let Some((store, index)) = self.space.stand_in(self.task, flow) {
            self.to.home(flow, store, index);
        }
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.to.home(flow, store, index);
    }
}

impl<'s, S: Rounds + 's, V: Successors<Ideal<'s, S>>> Successors<S> for Cut<'_, S, V> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        if self.stays(target) {
            self.to.task(flow, target, target_flow);
        }
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.to.home(flow, store, index);
    }
}

impl<S: Rounds> TaskSpace for Ideal<'_, S> {
    type Task = S::Task;
    type Datum = S::Datum;

    fn describe(&self, about: &mut Description) {
        self.0.describe(about);
        about.parameter("variant", "ideal");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        self.0.tasks(on)
    }

    fn inputs(&self, task: S::Task, from: &mut impl Inputs<Self>) {
        let space = self.0;
        let mut cut = Cut {
            space,
            task,
            to: from,
        };
        space.inputs(task, &mut cut);
    }

    fn successors(&self, task: S::Task, to: &mut impl Successors<Self>) {
        let space = self.0;
        space.successors(task, &mut Cut { space, task, to });
    }

    fn run(&self, task: S::Task, flows: &mut Flows<'_, S::Datum>) -> Result<(), TaskError> {
        self.0.run(task, flows)
    }

    fn rank(&self, task: S::Task) -> Rank {
        self.0.rank(task)
    }

    fn priority(&self, task: S::Task) -> i64 {
        self.0.priority(task)
    }

    fn count(&self, on: Rank) -> u64 {
        self.0.count(on)
    }
}
