//! Named: tasks as numbers, and what a space says of the tasks in a trace.

use super::TaskNumber;
use super::tracer::{Feeds, Told};
use crate::rank::Rank;
use crate::space::{FEW, NamedSpace, Number, TaskName};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Set in numbers of tasks whose names do not pack.
const WIDE: TaskNumber = 1 << 63;

/// The number of a task: its packed name or, of a wide one, a number that stands for it.
#[inline(always)]
pub(crate) fn number<T: TaskName>(task: T) -> TaskNumber {
    noted(Number::of(task))
}

/// The number of a name, as it is noted.
#[inline(always)]
pub(crate) fn noted(number: Number) -> TaskNumber {
    match number {
        Number::Packed(packed) => packed,
        Number::Wide(number) => WIDE | number,
    }
}

/// Whether a number stands for a name that does not pack.
pub(crate) fn is_wide(task: TaskNumber) -> bool {
    task & WIDE != 0
}

/// The parameters that tell a reader something, once each: spaces of a series may have equal ones, and
/// fingerprints of recorded programs are for ranks, which compare them.
fn told(parameters: &[(String, String)]) -> Vec<(String, String)> {
    let mut met = BTreeSet::new();
    let is_told = |(name, _): &&(String, String)| !name.starts_with("fingerprint of ");
    let told = parameters.iter().filter(is_told);
    let first = told.filter(|parameter| met.insert(*parameter));
    first.cloned().collect()
}

/// A space, and its wide names.
pub(crate) struct Named<'s, T> {
    space: &'s dyn NamedSpace<T>,
    names: Vec<T>,
    places: NamePlaces,
}

/// Where names stand, by the numbers of their tasks.
#[derive(Default)]
struct NamePlaces(BTreeMap<TaskNumber, usize>);

impl NamePlaces {
    fn put(&mut self, task: TaskNumber, place: usize) {
        self.0.insert(task, place);
    }

    fn of(&self, task: TaskNumber) -> Option<usize> {
        self.0.get(&task).copied()
    }

    /// What is shown for each task.
    fn shown(&self, text: &dyn Fn(usize) -> String) -> BTreeMap<TaskNumber, String> {
        let all = self.0.iter();
        all.map(|(task, place)| (*task, text(*place))).collect()
    }
}

impl<'s, T: TaskName> Named<'s, T> {
    /// Asks for all names of a rank, if some of those that ran are wide: for as many as are counted, since a
    /// list may have no end.
    pub fn of(space: &'s dyn NamedSpace<T>, rank: Rank, some_are_wide: bool) -> Self {
        let (mut names, mut places) = (Vec::new(), NamePlaces::default());
        if some_are_wide {
            let mut left = space.counted(rank).max(FEW);
            space.each_task(rank, &mut |task| {
                if is_wide(number(task)) {
                    places.put(number(task), names.len());
                    names.push(task);
                }
                left -= 1;
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
        }
        Named {
            space,
            names,
            places,
        }
    }

    /// What a trace tells of the space.
    pub fn told(&self) -> Told {
        let about = self.space.about();
        let classes = about.classes().iter();
        let text = |place: usize| format!("{:?}", self.names[place]);
        Told {
            name: about.space_name().to_string(),
            parameters: told(about.parameters()),
            classes: classes.map(|class| class.name.clone()).collect(),
            text: self.space.spelling(),
            wide: self.places.shown(&text),
        }
    }

    /// The tasks that feed one.
    pub fn inputs(&self, task: TaskNumber, hear: Feeds<'_>) {
        let task = match is_wide(task) {
            false => Some(self.space.named(task)),
            true => self.places.of(task).map(|place| self.names[place]),
        };
        if let Some(task) = task {
            let mut source = |source| hear(number(source), self.space.placed(source));
            self.space.each_source(task, &mut source);
        }
    }
}
