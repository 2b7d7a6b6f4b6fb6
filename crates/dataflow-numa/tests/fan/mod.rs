//! A task that frees many.

use dataflow_core::prelude::*;

/// Task 0 frees all others; what they do is up to `body`.
pub struct Fan<P, B> {
    pub wide: u64,
    pub priority: P,
    pub body: B,
}

impl<P: Fn(u64) -> i64 + Sync, B: Fn(u64) + Sync> TaskSpace for Fan<P, B> {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("fan").parameter("wide", self.wide);
        about.class("Leaf").order("START");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..=self.wide
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > 0 {
            from.task(0, 0, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task == 0 {
            (1..=self.wide).for_each(|leaf| to.task(0, leaf, 0));
        }
    }

    fn priority(&self, task: u64) -> i64 {
        (self.priority)(task)
    }

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        (self.body)(task);
        Ok(())
    }
}
