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
///
/// All tasks are on rank 0, unless they are [dealt out](Self::across).
#[derive(Clone, Debug)]
pub struct Independent<F> {
    name: &'static str,
    count: u64,
    n_ranks: u32,
    body: F,
}

impl<F: Fn(u64) -> Result<(), TaskError> + Sync> Independent<F> {
    /// Tasks `0..count`, each of which calls `body` with its number.
    pub fn new(name: &'static str, count: u64, body: F) -> Self {
        let n_ranks = 1;
        Independent {
            name,
            count,
            n_ranks,
            body,
        }
    }

    /// The same, its tasks dealt out to so many ranks in turn: as many as run it. Fewer refuse it
    /// ([`Kind::NoSuchRank`](crate::error::Kind::NoSuchRank)).
    ///
    /// ```
    /// use dataflow_core::{prelude::*, space::Independent};
    /// let squares = Independent::new("squares", 100, |_| Ok(())).across(3);
    /// assert_eq!((squares.rank(5), squares.count(Rank(2))), (Rank(2), 33));
    /// ```
    #[must_use]
    pub fn across(self, n_ranks: u32) -> Self {
        let n_ranks = n_ranks.max(1);
        Independent { n_ranks, ..self }
    }

    /// Where the numbers of a rank's tasks end: all of them, or none.
    fn end(&self, on: Rank) -> u64 {
        if on.0 < self.n_ranks { self.count } else { 0 }
    }
}

impl<F: Fn(u64) -> Result<(), TaskError> + Sync> TaskSpace for Independent<F> {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name(self.name).parameter("count", self.count);
        if self.n_ranks > 1 {
            about
                .parameter("ranks", self.n_ranks)
                .ranks(self.n_ranks.into());
        }
        about.class(self.name);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
        (on.0.into()..self.end(on)).step_by(self.n_ranks as usize)
    }

    fn rank(&self, task: u64) -> Rank {
        Rank((task % u64::from(self.n_ranks)) as u32)
    }

    fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}

    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        (self.body)(task)
    }

    fn count(&self, on: Rank) -> u64 {
        let behind = self.end(on).saturating_sub(on.0.into());
        behind.div_ceil(self.n_ranks.into())
    }
}
