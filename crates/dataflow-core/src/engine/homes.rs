//! Homes: a run puts one datum into a slot at most, and brings back what it took.
//!
//! # Law
//! Stores remember what this run did to a slot, under the lock that is taken anyway; workers count
//! what is lent in their hands. Who the tasks were is asked of the space, when something is wrong.

use super::Run;
use super::stall::look_at_tasks;
use crate::data::{RunNumber, Store};
use crate::error::{Error, Kind};
use crate::space::{Description, HomeInputs, HomeSlot, Mode, NamedSpace, TaskName, TaskSpace};
use crate::sync::held;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// What a worker, or a run, has taken from home and put there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HomeTally {
    /// Slots from which a datum was taken to be updated, less those that got one back.
    pub lent: i64,
    /// Whether tasks were skipped: then what is missing is explained.
    pub spoilt: bool,
}

/// A number that no other run has: the standard library's hashers begin with random keys.
pub(crate) fn new_run_number() -> RunNumber {
    RandomState::new().hash_one(0) | 1
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// A worker leaves.
    pub(super) fn note_homes(&self, homes: HomeTally) {
        if homes.lent != 0 || homes.spoilt {
            let mut all = held(&self.homes);
            all.lent += homes.lent;
            all.spoilt |= homes.spoilt;
        }
    }

    /// Whether every slot got back what was taken from it, once all tasks have run.
    pub(super) fn check_homes(&self) -> Result<(), Error> {
        let homes = *held(&self.homes);
        if homes.lent == 0 || homes.spoilt {
            return Ok(());
        }
        let mut found = None;
        look_at_tasks(self.space, self.rank, &mut |task| {
            let slot = lent(self.space, &self.description, task, self.number);
            found = slot.map(|slot| (task, slot));
            found.is_some()
        });
        let (task, text) = match found {
            Some((task, slot)) => (
                Some(format!("{task:?}")),
                format!("{task:?} takes {slot}, which nobody brings back"),
            ),
            None => (
                None,
                match homes.lent {
                    1 => "1 datum taken from home was not brought back".into(),
                    n => format!("{n} data taken from home were not brought back"),
                },
            ),
        };
        Err(Error::new(Kind::NotBroughtBack, task, text))
    }

    /// Why a slot has no datum for a task that takes it from there.
    #[cold]
    pub(super) fn why_empty(&self, task: S::Task, store: &Store<S::Datum>, index: usize) -> String {
        let slot = HomeSlot::of(store, index);
        let space: &dyn NamedSpace<S::Task> = self.space;
        let (mut taker, mut putter) = (None, None);
        look_at_tasks(space, self.rank, &mut |other| {
            if other != task {
                let ends = space.ends(other);
                let takes = |(flow, home): &(usize, HomeSlot)| {
                    *home == slot && updates(&self.description, other, *flow)
                };
                taker = ends.taken.iter().any(takes).then_some(other);
                if ends.put.iter().any(|(_, home)| *home == slot) {
                    putter.get_or_insert(other);
                }
            }
            taker.is_some()
        });
        // Each rank has a store of its own.
        let here = match self.n_ranks() {
            1 => String::new(),
            _ => format!(" on {}, where the task runs", self.rank),
        };
        match (taker, putter) {
            (Some(other), _) => {
                format!("which {other:?} takes to change it: let an edge carry it from there")
            }
            (None, Some(other)) if store.get(index).is_some() => {
                format!("and {other:?} puts a datum there: let an edge carry it from there")
            }
            (None, Some(other)) => {
                format!("which is empty{here}: nothing was put there, or not yet by {other:?}")
            }
            (None, None) => {
                format!("which is empty{here}: nothing was put there, or it is lent already")
            }
        }
    }

    /// What is said of a slot into which a second task puts a datum.
    #[cold]
    pub(super) fn put_twice(&self, task: S::Task, store: &Store<S::Datum>, index: usize) -> String {
        let slot = HomeSlot::of(store, index);
        let space: &dyn NamedSpace<S::Task> = self.space;
        let mut found = None;
        look_at_tasks(space, self.rank, &mut |other| {
            let puts = || space.ends(other).put.iter().any(|(_, home)| *home == slot);
            found = (other != task && puts()).then_some(other);
            found.is_some()
        });
        match found {
            Some(other) => {
                let (first, second) = (task.min(other), task.max(other));
                format!("{first:?} and {second:?} both put {slot} (one task may in a run)")
            }
            None if store.is_lent_in(index, self.number) => {
                format!("{task:?} puts {slot}, which was filled by hand while its datum was lent")
            }
            None => format!("{task:?} puts {slot} twice (once is allowed)"),
        }
    }
}

/// A slot from which a task has taken what nobody has brought back in a run.
fn lent<S: TaskSpace>(
    space: &S,
    about: &Description,
    task: S::Task,
    run: RunNumber,
) -> Option<String> {
    let mut found = None;
    let mut look = |flow: usize, store: &Store<S::Datum>, index| {
        if updates(about, task, flow) && store.is_lent_in(index, run) {
            found = Some(format!("slot {index} of {}", store.name()));
        }
    };
    space.inputs(task, &mut HomeInputs(&mut look));
    found
}

fn updates(about: &Description, task: impl TaskName, flow: usize) -> bool {
    let class = about.classes().get(task.class());
    let flow = class.and_then(|class| class.flows.get(flow));
    flow.is_some_and(|flow| flow.mode == Mode::Update)
}
