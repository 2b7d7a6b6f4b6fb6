//! Raw: a space of which only the type of its data is known, and its names as numbers.
//!
//! # Elsewhere
//! A space of which only the type of its names is known, to look at it: [`named`](crate::space::named).

use crate::data::{Datum, Store};
use crate::error::{Error, Kind, TaskError};
use crate::rank::Rank;
use crate::space::{Description, Flows, Inputs, Successors, TaskName, TaskSpace};
use crate::wire::WireName;
use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

/// The values of a name, packed or, where it is too wide, as it travels.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RawName {
    Packed(u64),
    Wide { n: u8, words: [u32; WORDS] },
}

/// So many words a wide name has at most.
const WORDS: usize = 7;

/// What one can do with the names of one type.
pub(super) struct NameVtable {
    pub n_classes: usize,
    pub class: fn(RawName) -> usize,
    pub order: fn(RawName, RawName) -> Ordering,
    pub to_wire: fn(RawName) -> Option<WireName>,
    pub from_wire: fn(&[u32]) -> Option<RawName>,
    pub show: fn(RawName, &mut fmt::Formatter<'_>) -> fmt::Result,
    /// Whether a name means nothing without its space.
    pub is_numbered: bool,
    /// The type, as text.
    pub text: fn() -> &'static str,
}

pub(super) struct Of<T>(T);

impl<T: TaskName> Of<T> {
    pub const NAMES: NameVtable = NameVtable {
        n_classes: T::N_CLASSES,
        class: |raw| raw.task::<T>().class(),
        order: |one, other| one.task::<T>().cmp(&other.task::<T>()),
        to_wire: |raw| raw.task::<T>().to_wire(),
        from_wire: |words| T::from_wire(words).map(RawName::of),
        show: |raw, f| raw.task::<T>().fmt(f),
        is_numbered: T::IS_NUMBERED,
        text: std::any::type_name::<T>,
    };
}

/// A name, to be shown.
pub(super) struct ShownName(pub RawName, pub &'static NameVtable);

impl fmt::Debug for ShownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.1.show)(self.0, f)
    }
}

impl RawName {
    #[inline]
    fn of<T: TaskName>(task: T) -> Self {
        task.pack()
            .map_or_else(|| Self::wide(task), RawName::Packed)
    }

    #[cold]
    fn wide<T: TaskName>(task: T) -> Self {
        let name = task.to_wire().unwrap_or_default();
        let mut words = [0; WORDS];
        let (n, is_told) = (name.len(), T::from_wire(&name) == Some(task));
        assert!(
            n <= WORDS && is_told,
            "{task:?} does not fit 55 bits, nor {WORDS} numbers of 32 bits: its space cannot be erased"
        );
        words[..n].copy_from_slice(&name);
        RawName::Wide { n: n as u8, words }
    }

    #[inline]
    fn task<T: TaskName>(self) -> T {
        match self {
            RawName::Packed(packed) => T::unpack(packed),
            RawName::Wide { n, words } => match T::from_wire(&words[..n.into()]) {
                Some(task) => task,
                None => unreachable!("the words were made from a name and read when it was erased"),
            },
        }
    }
}

/// What the data that leave tasks weigh, and what tasks cost.
pub(super) trait Scales: Send + Sync {
    fn bytes(&self, task: RawName, flow: usize) -> u64;
    fn cost(&self, task: RawName) -> f64;
}

/// The same by the names of a space.
pub(super) struct OwnScales<T, B, C> {
    bytes: B,
    cost: C,
    names: PhantomData<fn(T)>,
}

impl<T, B: Fn(T, usize) -> u64, C: Fn(T) -> f64> OwnScales<T, B, C> {
    pub fn new(bytes: B, cost: C) -> Self {
        OwnScales {
            bytes,
            cost,
            names: PhantomData,
        }
    }
}

impl<T: TaskName, B, C> Scales for OwnScales<T, B, C>
where
    B: Fn(T, usize) -> u64 + Send + Sync,
    C: Fn(T) -> f64 + Send + Sync,
{
    fn bytes(&self, task: RawName, flow: usize) -> u64 {
        (self.bytes)(task.task(), flow)
    }

    fn cost(&self, task: RawName) -> f64 {
        (self.cost)(task.task())
    }
}

/// The questions of [`TaskSpace`] that a run asks, with types that are the same for every space with such data.
pub(super) trait RawSpace<D: Datum>: Sync {
    fn describe(&self, about: &mut Description);
    fn tasks(&self, on: Rank) -> Listing<'_>;
    fn roots(&self, on: Rank) -> Listing<'_>;
    fn inputs(&self, task: RawName, ends: &mut dyn Ends<D>);
    fn successors(&self, task: RawName, ends: &mut dyn Ends<D>);
    fn run(&self, task: RawName, flows: &mut Flows<'_, D>) -> Result<(), TaskError>;
    fn rank(&self, task: RawName) -> Rank;
    fn owner(&self, task: RawName, flow: usize) -> Rank;
    fn priority(&self, task: RawName) -> i64;
    fn count(&self, on: Rank) -> u64;
    fn index(&self, task: RawName) -> Option<usize>;
    fn named_by(&self, words: &[u32]) -> Option<RawName>;
    fn explained(&self, error: Error) -> Error;
}

/// A text about a space, its tasks told as the user knows them.
pub(super) fn told<D: Datum>(space: &(impl RawSpace<D> + ?Sized), text: &str) -> String {
    let error = Error::new(Kind::Contradiction, None, text);
    space.explained(error).message().into()
}

/// Tasks one after the other.
pub(super) type Listing<'s> = Box<dyn TaskList + Send + 's>;

/// An iterator of any type over names of tasks. A pointer to an `Iterator` would do, but has all its methods
/// compiled.
pub(super) trait TaskList {
    fn next_name(&mut self) -> Option<RawName>;
}

impl<I: Iterator<Item: TaskName>> TaskList for I {
    fn next_name(&mut self) -> Option<RawName> {
        self.next().map(RawName::of)
    }
}

/// Receives the other ends of a task's edges.
pub(super) trait Ends<D: Datum> {
    fn task(&mut self, flow: usize, other: RawName, other_flow: usize);
    fn home(&mut self, flow: usize, store: &Store<D>, index: usize);
}

impl<D: Datum, S: TaskSpace<Datum = D>> RawSpace<D> for S {
    fn describe(&self, about: &mut Description) {
        self.describe(about);
    }

    fn tasks(&self, on: Rank) -> Listing<'_> {
        Box::new(self.tasks(on))
    }

    fn roots(&self, on: Rank) -> Listing<'_> {
        Box::new(self.roots(on))
    }

    fn inputs(&self, task: RawName, ends: &mut dyn Ends<D>) {
        self.inputs(task.task(), &mut OwnEnds(ends));
    }

    fn successors(&self, task: RawName, ends: &mut dyn Ends<D>) {
        self.successors(task.task(), &mut OwnEnds(ends));
    }

    fn run(&self, task: RawName, flows: &mut Flows<'_, D>) -> Result<(), TaskError> {
        self.run(task.task(), flows)
    }

    fn rank(&self, task: RawName) -> Rank {
        self.rank(task.task())
    }

    fn owner(&self, task: RawName, flow: usize) -> Rank {
        self.owner(task.task(), flow)
    }

    fn priority(&self, task: RawName) -> i64 {
        self.priority(task.task())
    }

    fn count(&self, on: Rank) -> u64 {
        self.count(on)
    }

    fn index(&self, task: RawName) -> Option<usize> {
        self.index(task.task())
    }

    fn named_by(&self, words: &[u32]) -> Option<RawName> {
        self.named_by(words).map(RawName::of)
    }

    fn explained(&self, error: Error) -> Error {
        self.explained(error)
    }
}

/// Passes on what a space says of its own names.
struct OwnEnds<'e, D: Datum>(&'e mut dyn Ends<D>);

impl<S: TaskSpace> Inputs<S> for OwnEnds<'_, S::Datum> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.0.task(flow, RawName::of(source), source_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.0.home(flow, store, index);
    }
}

impl<S: TaskSpace> Successors<S> for OwnEnds<'_, S::Datum> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.0.task(flow, RawName::of(target), target_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.0.home(flow, store, index);
    }
}
