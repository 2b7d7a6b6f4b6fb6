//! Collect: data that lie in the stores of many ranks, brought to one.
//!
//! # Law
//! The stores stay as they were: what is on that rank is copied at the end, what comes from others is
//! not copied again. A datum is sent once, by its owner.

use super::{Description, Flows, Inputs, Successors, TaskSpace};
use crate::data::{Datum, Store};
use crate::error::TaskError;
use crate::fingerprint::fingerprint;
use crate::rank::Rank;
use crate::task_names;

task_names! {
    /// The owner of a datum gives it; one rank keeps it.
    pub enum CollectTask { Give { datum }, Keep { datum } }
}
use CollectTask::{Give, Keep};

const DATUM: usize = 0;

/// Where each datum is: its owner, and the slot of the owner's store.
type SlotOf<'a> = dyn Fn(usize) -> (Rank, usize) + Sync + 'a;

/// Some numbered data, each in a store of its owner, brought to one rank: two tasks and at most one
/// message for each. Every rank makes it with its own store and runs it.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::prelude::*;
/// use dataflow_core::space::Collect;
///
/// let store = Store::new("numbers", [4, 5, 6]);
/// let reversed = |datum| (Rank(0), 2 - datum);
/// let collect = Collect::new(&store, 3, &reversed, Rank(0));
/// dataflow_core::run(&collect, &Inline)?;
/// assert_eq!(collect.into_data(), Some(vec![6, 5, 4]));
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct Collect<'a, D: Datum> {
    from: &'a Store<D>,
    places: &'a SlotOf<'a>,
    to: Rank,
    n_data: u32,
    all: Store<D>,
}

impl<'a, D: Datum> Collect<'a, D> {
    /// Data `0..n_data`, of which `places` says, the same on every rank, who owns each and in which
    /// slot of the owner's store it is. They go to the rank `to`.
    ///
    /// # Panics
    /// If there are more than 2³² − 1 of them.
    #[track_caller]
    pub fn new(from: &'a Store<D>, n_data: usize, places: &'a SlotOf<'a>, to: Rank) -> Self {
        let Ok(n_data) = u32::try_from(n_data) else {
            panic!(
                "{n_data} data are too many to be named (at most {})",
                u32::MAX
            )
        };
        Collect {
            from,
            places,
            to,
            n_data,
            all: Store::empty(from.name(), n_data as usize),
        }
    }

    /// Once it has run: all data in order on the rank that they went to, `None` on the others, unless
    /// there are no data.
    pub fn into_data(self) -> Option<Vec<D>> {
        self.all.into_data()
    }

    fn owner(&self, datum: u32) -> Rank {
        (self.places)(datum as usize).0
    }

    /// A fingerprint of all owners: ranks that name others learn it before anything is sent.
    fn owners(&self) -> u64 {
        fingerprint((0..self.n_data).map(|datum| self.owner(datum).0.into()))
    }
}

impl<D: Datum> TaskSpace for Collect<'_, D> {
    type Task = CollectTask;
    type Datum = D;
    const CARRIES: bool = true;

    fn describe(&self, about: &mut Description) {
        about.name("collect").parameter("data", self.n_data);
        about.parameter("to", self.to);
        about.parameter("owners", format_args!("{:016x}", self.owners()));
        about.class("Give").read("DATUM");
        about.class("Keep").read("DATUM");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = CollectTask> + Send {
        let own = (0..self.n_data).filter(move |&datum| self.owner(datum) == on);
        let kept = 0..if on == self.to { self.n_data } else { 0 };
        own.map(|datum| Give { datum })
            .chain(kept.map(|datum| Keep { datum }))
    }

    fn inputs(&self, task: CollectTask, from: &mut impl Inputs<Self>) {
        match task {
            Give { datum } => from.home(DATUM, self.from, (self.places)(datum as usize).1),
            Keep { datum } => from.task(DATUM, Give { datum }, DATUM),
        }
    }

    fn successors(&self, task: CollectTask, to: &mut impl Successors<Self>) {
        match task {
            Give { datum } => to.task(DATUM, Keep { datum }, DATUM),
            Keep { datum } => to.home(DATUM, &self.all, datum as usize),
        }
    }

    fn run(&self, _: CollectTask, _: &mut Flows<'_, D>) -> Result<(), TaskError> {
        Ok(())
    }

    fn rank(&self, task: CollectTask) -> Rank {
        match task {
            Give { datum } => self.owner(datum),
            Keep { .. } => self.to,
        }
    }
}

impl<D: Datum> std::fmt::Debug for Collect<'_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collect({} to {})", self.n_data, self.to)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::space::verify;

    #[test]
    fn the_space_is_proved_for_any_owners_and_every_rank_that_keeps() {
        for n_ranks in 1..=4u32 {
            for (n_data, to) in (0..6).flat_map(|n| (0..n_ranks).map(move |to| (n, to))) {
                let store: Store<u64> = Store::empty("numbers", n_data);
                let places = |datum: usize| (Rank((7 * datum as u32 + 1) % n_ranks), datum);
                let collect = Collect::new(&store, n_data, &places, Rank(to));
                verify(&collect, n_ranks)
                    .unwrap_or_else(|fault| panic!("{n_data} data to {to}: {fault}"));
            }
        }
    }
}
