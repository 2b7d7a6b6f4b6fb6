//! Spread: a shape over several ranks. On one rank shapes run as they are, so that what a task
//! costs there does not change.

use common::shapes::{Carried, Chain, Cholesky, Factor, Independent, Stencil, WIDTH, Wavefront};
use dataflow::core::port::Wire;
use dataflow::prelude::*;
use std::marker::PhantomData;

/// A shape that can be dealt out.
pub trait Dealt: TaskSpace<Datum: Wire> {
    /// The rank of a task among `n_ranks`, which form `rows` rows of a grid.
    fn deal(&self, task: Self::Task, n_ranks: u32, rows: u32) -> u32;
}

/// Every so-and-so-manieth task.
impl Dealt for Independent {
    fn deal(&self, task: u64, n_ranks: u32, _: u32) -> u32 {
        (task % u64::from(n_ranks)) as u32
    }
}

/// The same, so that every link crosses.
impl<D: Carried + Wire> Dealt for Chain<D> {
    fn deal(&self, link: u64, n_ranks: u32, _: u32) -> u32 {
        (link % u64::from(n_ranks)) as u32
    }
}

/// Rows in turn.
impl<D: Carried + Wire> Dealt for Wavefront<D> {
    fn deal(&self, (i, _): (u32, u32), n_ranks: u32, _: u32) -> u32 {
        i % n_ranks
    }
}

/// Columns in runs, as equal as can be.
impl<D: Carried + Wire> Dealt for Stencil<D> {
    fn deal(&self, (_, column): (u32, u32), n_ranks: u32, _: u32) -> u32 {
        column * n_ranks / WIDTH
    }
}

/// Tiles as on a chessboard.
impl<D: Carried + Wire> Dealt for Cholesky<D> {
    fn deal(&self, task: Factor, n_ranks: u32, rows: u32) -> u32 {
        let (m, n) = match task {
            Factor::Potrf { k } => (k, k),
            Factor::Trsm { m, k } => (m, k),
            Factor::Syrk { m, .. } => (m, m),
            Factor::Gemm { m, n, .. } => (m, n),
        };
        let columns = n_ranks / rows;
        (m % rows) * columns + n % columns
    }
}

/// A shape over ranks. Roots and tasks of a rank are found by looking at all.
pub struct Spread<S> {
    pub shape: S,
    pub n_ranks: u32,
    pub rows: u32,
}

/// Passes on what the shape says.
struct Told<'a, S, V>(&'a mut V, PhantomData<S>);

impl<S: Dealt, V: Inputs<Spread<S>>> Inputs<S> for Told<'_, S, V> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.0.task(flow, source, source_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.0.home(flow, store, index);
    }
}

impl<S: Dealt, V: Successors<Spread<S>>> Successors<S> for Told<'_, S, V> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.0.task(flow, target, target_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.0.home(flow, store, index);
    }
}

impl<S: Dealt> TaskSpace for Spread<S> {
    type Task = S::Task;
    type Datum = S::Datum;

    fn describe(&self, about: &mut Description) {
        self.shape.describe(about);
        about.parameter("rows of ranks", self.rows);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        let tasks = self.shape.tasks(Rank(0));
        tasks.filter(move |&task| self.rank(task) == on)
    }

    fn inputs(&self, task: S::Task, from: &mut impl Inputs<Self>) {
        self.shape.inputs(task, &mut Told(from, PhantomData));
    }

    fn successors(&self, task: S::Task, to: &mut impl Successors<Self>) {
        self.shape.successors(task, &mut Told(to, PhantomData));
    }

    fn run(&self, task: S::Task, flows: &mut Flows<'_, S::Datum>) -> Result<(), TaskError> {
        self.shape.run(task, flows)
    }

    fn rank(&self, task: S::Task) -> Rank {
        Rank(self.shape.deal(task, self.n_ranks, self.rows))
    }

    fn priority(&self, task: S::Task) -> i64 {
        self.shape.priority(task)
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        let roots = self.shape.roots(Rank(0));
        roots.filter(move |&task| self.rank(task) == on)
    }

    fn index(&self, task: S::Task) -> Option<usize> {
        self.shape.index(task)
    }
}
