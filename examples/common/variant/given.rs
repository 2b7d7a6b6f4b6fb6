//! Given: a space of a library, with what the experiment asks beside it.

use super::Rounds;
use dataflow::prelude::*;
use std::marker::PhantomData;

/// What the experiment asks of a space that does not know of it.
pub trait Answers<S: TaskSpace>: Sync {
    /// As [`Rounds`]' own.
    fn n_ranks(&self) -> u32;
    fn n_rounds(&self) -> u32;
    fn round(&self, task: S::Task) -> u32;
    fn stand_in(&self, task: S::Task, flow: usize) -> Option<(&Store<S::Datum>, usize)>;
}

/// A space as it is, and who answers for it.
pub struct Given<'s, S, A> {
    pub space: &'s S,
    pub answers: A,
}

/// Passes on the edges of a task to a visitor of `Given<S, A>`.
struct Through<'v, 's, S, A, V> {
    to: &'v mut V,
    given: PhantomData<fn(&'s S, A)>,
}

impl<'v, S, A, V> Through<'v, '_, S, A, V> {
    fn new(to: &'v mut V) -> Self {
        let given = PhantomData;
        Through { to, given }
    }
}

macro_rules! passes_on {
    ($($ends:ident),+) => {$(
        impl<'s, S, A, V> $ends<S> for Through<'_, 's, S, A, V>
        where
            S: TaskSpace + 's,
            A: Answers<S> + 's,
            V: $ends<Given<'s, S, A>>,
        {
            fn task(&mut self, flow: usize, other: S::Task, other_flow: usize) {
                self.to.task(flow, other, other_flow);
            }

            fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
                self.to.home(flow, store, index);
            }
        }
    )+};
}
passes_on!(Inputs, Successors);

impl<'s, S: TaskSpace, A: Answers<S> + 's> TaskSpace for Given<'s, S, A> {
    type Task = S::Task;
    type Datum = S::Datum;

    fn describe(&self, about: &mut Description) {
        self.space.describe(about);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        self.space.tasks(on)
    }

    fn inputs(&self, task: S::Task, from: &mut impl Inputs<Self>) {
        self.space.inputs(task, &mut Through::new(from));
    }

    fn successors(&self, task: S::Task, to: &mut impl Successors<Self>) {
        self.space.successors(task, &mut Through::new(to));
    }

    fn run(&self, task: S::Task, flows: &mut Flows<'_, S::Datum>) -> Result<(), TaskError> {
        self.space.run(task, flows)
    }

    fn rank(&self, task: S::Task) -> Rank {
        self.space.rank(task)
    }

    fn priority(&self, task: S::Task) -> i64 {
        self.space.priority(task)
    }

    fn count(&self, on: Rank) -> u64 {
        self.space.count(on)
    }
}

impl<'s, S: TaskSpace, A: Answers<S> + 's> Rounds for Given<'s, S, A> {
    fn n_ranks(&self) -> u32 {
        self.answers.n_ranks()
    }

    fn n_rounds(&self) -> u32 {
        self.answers.n_rounds()
    }

    fn round(&self, task: S::Task) -> u32 {
        self.answers.round(task)
    }

    fn stand_in(&self, task: S::Task, flow: usize) -> Option<(&Store<S::Datum>, usize)> {
        self.answers.stand_in(task, flow)
    }
}
