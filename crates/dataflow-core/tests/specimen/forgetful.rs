//! A space for several ranks that forgets to say where its tasks run.

use dataflow_core::prelude::*;

/// A chain of ten tasks; every other one is listed on rank 1.
pub struct Forgetful;

impl TaskSpace for Forgetful {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        about.name("forgetful").class("Task").order("AFTER");
    }
    fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
        (0..10).filter(move |task| task % 2 == u64::from(on.0))
    }
    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > 0 {
            from.task(0, task - 1, 0);
        }
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task < 9 {
            to.task(0, task + 1, 0);
        }
    }
    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }
}
