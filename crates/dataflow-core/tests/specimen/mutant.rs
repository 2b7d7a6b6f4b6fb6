//! Mutants: a space in which exactly one answer is changed.

use super::Specimen;
use dataflow_core::prelude::*;

/// One changed answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation<T> {
    /// The `nth` thing that `inputs` says about a task.
    Input(T, usize, Twist<T>),
    /// The `nth` thing that `successors` says about a task.
    Output(T, usize, Twist<T>),
    RootMissing(T),
    /// A task that is no root, or a name that is no task, among the roots of a rank.
    RootAdded(T, Rank),
    /// `count` is wrong by so many.
    Count(i64),
}

/// What is done to one end of an edge.
#[derive(Clone, Debug, PartialEq)]
pub enum Twist<T> {
    Removed,
    Doubled,
    /// The task's own flow is another.
    Flow(usize),
    /// The task at the other end is another.
    Task(T),
    /// The flow at the other end is another.
    OtherFlow(usize),
    /// The slot of the store is another.
    Slot(usize),
}

/// A space with one changed answer.
pub struct Mutant<S: Specimen> {
    space: S,
    mutation: Mutation<S::Task>,
    /// Whether the roots follow from the changed inputs, as the default method of a space does.
    roots_follow: bool,
}

impl<S: Specimen> Mutant<S> {
    pub fn new(space: &S, mutation: &Mutation<S::Task>) -> Self {
        let (space, mutation) = (space.fresh(), mutation.clone());
        Mutant {
            space,
            mutation,
            roots_follow: false,
        }
    }

    pub fn with_roots_that_follow(self) -> Self {
        Mutant {
            roots_follow: true,
            ..self
        }
    }

    pub fn space(&self) -> &S {
        &self.space
    }
}

impl<S: Specimen> Specimen for Mutant<S> {
    fn fresh(&self) -> Self {
        Mutant::new(&self.space, &self.mutation)
    }
    fn outcome(&self) -> Vec<u64> {
        self.space.outcome()
    }
    fn holes(&self) -> Vec<String> {
        self.space.holes()
    }
    fn strangers(&self) -> Vec<S::Task> {
        self.space.strangers()
    }
}

impl<S: Specimen> TaskSpace for Mutant<S> {
    type Task = S::Task;
    type Datum = S::Datum;

    fn describe(&self, about: &mut Description) {
        self.space.describe(about);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        self.space.tasks(on)
    }

    fn inputs(&self, task: S::Task, from: &mut impl Inputs<Self>) {
        let twist = match &self.mutation {
            Mutation::Input(twisted, nth, twist) if *twisted == task => Some((*nth, twist)),
            _ => None,
        };
        self.space.inputs(
            task,
            &mut Twisted {
                inner: from,
                twist,
                seen: 0,
            },
        );
    }

    fn successors(&self, task: S::Task, to: &mut impl Successors<Self>) {
        let twist = match &self.mutation {
            Mutation::Output(twisted, nth, twist) if *twisted == task => Some((*nth, twist)),
            _ => None,
        };
        self.space.successors(
            task,
            &mut Twisted {
                inner: to,
                twist,
                seen: 0,
            },
        );
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

    fn priority(&self, task: S::Task) -> i64 {
        self.space.priority(task)
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        let (missing, added) = match self.mutation {
            Mutation::RootMissing(task) => (Some(task), None),
            Mutation::RootAdded(task, place) if place == on => (None, Some(task)),
            _ => (None, None),
        };
        let follow = self.roots_follow;
        let own = self.space.roots(on).filter(move |_| !follow);
        let following = self
            .tasks(on)
            .filter(move |&task| follow && self.waits_for_none(task));
        let roots = own
            .chain(following)
            .filter(move |&root| Some(root) != missing);
        roots.chain(added)
    }

    fn count(&self, on: Rank) -> u64 {
        let count = self.space.count(on);
        match self.mutation {
            Mutation::Count(by) if on == Rank(0) => count.saturating_add_signed(by),
            _ => count,
        }
    }

    fn index(&self, task: S::Task) -> Option<usize> {
        self.space.index(task)
    }
}

impl<S: Specimen> Mutant<S> {
    fn waits_for_none(&self, task: S::Task) -> bool {
        let mut list = List::default();
        self.inputs(task, &mut list);
        !list.ends.iter().any(|end| matches!(end, End::Task { .. }))
    }
}

/// Passes on what it hears, but for one item.
struct Twisted<'v, V, T> {
    inner: &'v mut V,
    twist: Option<(usize, &'v Twist<T>)>,
    seen: usize,
}

impl<V, T: TaskName> Twisted<'_, V, T> {
    /// The twist of the item that is being heard.
    fn next(&mut self) -> Option<&Twist<T>> {
        self.seen += 1;
        match self.twist {
            Some((nth, twist)) if nth + 1 == self.seen => Some(twist),
            _ => None,
        }
    }

    fn task(
        &mut self,
        flow: usize,
        task: T,
        other: usize,
        mut say: impl FnMut(&mut V, usize, T, usize),
    ) {
        let (mut flow, mut task, mut other) = (flow, task, other);
        match self.next() {
            Some(Twist::Removed) => return,
            Some(Twist::Flow(twisted)) => flow = *twisted,
            Some(Twist::Task(twisted)) => task = *twisted,
            Some(Twist::OtherFlow(twisted)) => other = *twisted,
            Some(Twist::Doubled) => say(self.inner, flow, task, other),
            Some(Twist::Slot(_)) | None => {}
        }
        say(self.inner, flow, task, other);
    }

    fn home(&mut self, flow: usize, index: usize, mut say: impl FnMut(&mut V, usize, usize)) {
        let (mut flow, mut index) = (flow, index);
        match self.next() {
            Some(Twist::Removed) => return,
            Some(Twist::Flow(twisted)) => flow = *twisted,
            Some(Twist::Slot(twisted)) => index = *twisted,
            Some(Twist::Doubled) => say(self.inner, flow, index),
            _ => {}
        }
        say(self.inner, flow, index);
    }
}

/// Hears a space, speaks for the mutant of it (or to a list).
impl<S: Specimen, V: Inputs<Mutant<S>>> Inputs<S> for Twisted<'_, V, S::Task> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.task(flow, source, source_flow, |to, flow, task, other| {
            to.task(flow, task, other)
        });
    }
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.home(flow, index, |to, flow, index| to.home(flow, store, index));
    }
}

impl<S: Specimen, V: Successors<Mutant<S>>> Successors<S> for Twisted<'_, V, S::Task> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.task(flow, target, target_flow, |to, flow, task, other| {
            to.task(flow, task, other)
        });
    }
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.home(flow, index, |to, flow, index| to.home(flow, store, index));
    }
}

/// All that one visit says about a task.
struct List<T> {
    ends: Vec<End<T>>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List { ends: vec![] }
    }
}

/// One end of an edge, as its task says it.
#[derive(Clone, Copy)]
enum End<T> {
    Task {
        flow: usize,
        task: T,
        other: usize,
    },
    Home {
        flow: usize,
        index: usize,
        length: usize,
    },
}

impl<S: TaskSpace> Inputs<S> for List<S::Task> {
    fn task(&mut self, flow: usize, task: S::Task, other: usize) {
        self.ends.push(End::Task { flow, task, other });
    }
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.ends.push(End::Home {
            flow,
            index,
            length: store.len(),
        });
    }
}

impl<S: TaskSpace> Successors<S> for List<S::Task> {
    fn task(&mut self, flow: usize, task: S::Task, other: usize) {
        self.ends.push(End::Task { flow, task, other });
    }
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.ends.push(End::Home {
            flow,
            index,
            length: store.len(),
        });
    }
}

/// Every mutant of a space: each end of each edge removed, doubled, with another flow at either
/// end, redirected to each other task (every `stride`-th) and to strangers, to each other slot;
/// each root missing, each task a root, one task more and one less.
pub fn mutations<S: Specimen>(space: &S, n_ranks: u32, stride: usize) -> Vec<Mutation<S::Task>> {
    let mut about = Description::default();
    space.describe(&mut about);
    let widest = about
        .classes()
        .iter()
        .map(|class| class.flows.len())
        .max()
        .unwrap_or(0);
    let tasks: Vec<_> = (0..n_ranks).flat_map(|on| space.tasks(Rank(on))).collect();
    let mut all = vec![Mutation::Count(1), Mutation::Count(-1)];
    all.extend(
        (0..n_ranks)
            .flat_map(|on| space.roots(Rank(on)))
            .map(Mutation::RootMissing),
    );
    let placed = tasks.iter().map(|&task| (task, space.rank(task)));
    let strange = space.strangers().into_iter().map(|name| (name, Rank(0)));
    let added = placed.chain(strange);
    all.extend(added.map(|(task, on)| Mutation::RootAdded(task, on)));
    for (place, &task) in tasks.iter().enumerate() {
        let others: Vec<_> = tasks
            .iter()
            .copied()
            .skip(place % stride)
            .step_by(stride)
            .collect();
        let others = [others, space.strangers(), vec![task]].concat();
        let mut inputs = List::default();
        space.inputs(task, &mut inputs);
        let mut outputs = List::default();
        space.successors(task, &mut outputs);
        for (nth, end) in inputs.ends.into_iter().enumerate() {
            let twists = twists(end, &others, widest);
            all.extend(
                twists
                    .into_iter()
                    .map(|twist| Mutation::Input(task, nth, twist)),
            );
        }
        for (nth, end) in outputs.ends.into_iter().enumerate() {
            let twists = twists(end, &others, widest);
            all.extend(
                twists
                    .into_iter()
                    .map(|twist| Mutation::Output(task, nth, twist)),
            );
        }
    }
    all
}

/// All of them; Miri, which takes each a tenth of a second, tries so many, spread over all.
pub fn tried<T>(all: &[Mutation<T>], by_miri: usize) -> impl Iterator<Item = &Mutation<T>> {
    let step = match cfg!(miri) {
        true => all.len().div_ceil(by_miri).max(1),
        false => 1,
    };
    all.iter().step_by(step)
}

fn twists<T: TaskName>(end: End<T>, others: &[T], widest: usize) -> Vec<Twist<T>> {
    let flows = |but: usize| (0..=widest).filter(move |&flow| flow != but);
    let mut twists = vec![Twist::Removed, Twist::Doubled];
    match end {
        End::Task { flow, task, other } => {
            twists.extend(flows(flow).map(Twist::Flow));
            twists.extend(flows(other).map(Twist::OtherFlow));
            twists.extend(
                others
                    .iter()
                    .filter(|&&t| t != task)
                    .map(|&t| Twist::Task(t)),
            );
        }
        End::Home {
            flow,
            index,
            length,
        } => {
            twists.extend(flows(flow).map(Twist::Flow));
            twists.extend((0..=length).filter(|&i| i != index).map(Twist::Slot));
        }
    }
    twists
}
