//! The simplest space: a number of tasks without edges.

use super::{Description, Flows, Inputs, Successors, TaskSpace};
use crate::error::TaskError;
use crate::rank::Rank;

/// `count` tasks without edges, numbered from 0: a parallel loop with the engine's errors.
///
/// # Examples
/// ```
/// use dataflow_core::{port::Inline, space::Independent};
/// let odd = Independent::new("odd", 10, |i| match i % 4 {
///     3 => Err(dataflow_core::TaskError::new("too_big", "three").with_index(i)),
///     _ => Ok(()),
/// });
/// // Tasks 3 and 7 fail; the smallest is reported, whatever the schedule.
/// assert_eq!(dataflow_core::run(&odd, &Inline).unwrap_err().index(), Some(3));
/// ```
#[derive(Clone, Debug)]
pub struct Independent<F> {
    name: &'static str,
    count: u64,
    body: F,
}

impl<F: Fn(u64) -> Result<(), TaskError> + Sync> Independent<F> {
    /// Tasks `0..count`, each of which calls `body` with its number.
    pub fn new(name: &'static str, count: u64, body: F) -> Self {
        Independent { name, count, body }
    }
}

impl<F: Fn(u64) -> Result<(), TaskError> + Sync> TaskSpace for Independent<F> {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name(self.name).parameter("count", self.count);
        about.class(self.name);
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.count
    }

    fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}

    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        (self.body)(task)
    }

    fn count(&self, _: Rank) -> u64 {
        self.count
    }
}
