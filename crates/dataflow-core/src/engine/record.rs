//! Record: what a run notes of its tasks, if the executor has a tracer.
//!
//! # Law
//! Asked once when a worker enters; a run without a tracer pays a look at a word in its hand.

use super::Run;
use super::guard::buried;
use super::run::Hand;
use crate::port::Executor;
use crate::rank::Rank;
use crate::space::{Asked, Description, TaskName, TaskSpace, number_of};
use crate::trace::{Fate, Opened, TaskNumber, Told};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Set in numbers of tasks whose names do not pack.
const WIDE: TaskNumber = 1 << 63;

/// The number of a task: its packed name or, of a wide one, a number that stands for it.
#[inline(always)]
pub(super) fn number<T: TaskName>(task: T) -> TaskNumber {
    match task.pack() {
        Some(packed) => packed,
        None => WIDE | number_of(task, 0),
    }
}

/// Begins to record a run, if the executor wants it.
pub(super) fn open<S: TaskSpace>(space: &S, rank: Rank, on: &dyn Executor) -> Option<Opened> {
    let tracer = on.tracer()?;
    tracer.open(on.n_workers(), Some(space.count(rank)))
}

/// The run is over: what was noted becomes a trace.
pub(super) fn close<S: TaskSpace>(opened: Option<Opened>, space: &S, rank: Rank) {
    if let Some(opened) = opened {
        // A space that panics when it is asked has no trace.
        let closed = AssertUnwindSafe(|| close_asked::<S::Task>(opened, space, rank));
        if let Err(panic) = catch_unwind(closed) {
            buried(panic);
        }
    }
}

fn close_asked<T: TaskName>(opened: Opened, space: &dyn Asked<T>, rank: Rank) {
    let about = space.about();
    // Names that do not pack are found by their numbers.
    let mut names = BTreeMap::new();
    if opened.any(|task| task & WIDE != 0) {
        space.each_task(rank, &mut |task| {
            names.insert(number(task), task);
            ControlFlow::Continue(())
        });
    }
    let wide = names.iter().filter(|(number, _)| **number & WIDE != 0);
    let told = Told {
        wide: wide
            .map(|(number, task)| (*number, format!("{task:?}")))
            .collect(),
        ..told::<T>(&about, rank)
    };
    opened.close(told, &mut |task, hear| {
        let task = match task & WIDE {
            0 => Some(T::unpack(task)),
            _ => names.get(&task).copied(),
        };
        if let Some(task) = task {
            space.each_source(task, &mut |source| {
                hear(number(source), space.placed(source))
            });
        }
    });
}

fn told<T: TaskName>(about: &Description, rank: Rank) -> Told {
    Told {
        name: about.space_name().to_string(),
        parameters: about.parameters().to_vec(),
        classes: about
            .classes()
            .iter()
            .map(|class| class.name.clone())
            .collect(),
        rank,
        text: |task| format!("{:?}", T::unpack(task)),
        wide: BTreeMap::new(),
    }
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// A body begins.
    #[inline(always)]
    pub(super) fn begins(hand: &mut Hand<S>) {
        if let Some(track) = &hand.track {
            hand.began = track.now();
        }
    }

    /// A body has ended, or was skipped.
    #[inline(always)]
    pub(super) fn ends(task: S::Task, fate: Fate, hand: &mut Hand<S>) {
        if let Some(track) = &mut hand.track {
            track.ran(number(task), task.class(), hand.began, fate);
            hand.began = 0;
        }
    }

    /// A body panicked: that ends the visit.
    pub(super) fn ends_by_panic(hand: &mut Hand<S>) {
        if let (Some(task), 1..) = (hand.task, hand.began) {
            Self::ends(task, Fate::Failed, hand);
        }
    }
}
