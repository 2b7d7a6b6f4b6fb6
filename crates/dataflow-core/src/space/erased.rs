//! Erased: a space behind a pointer, so that the engine is compiled once for a type of data.
//!
//! The engine is generic: each type of space that a program runs brings a copy of it, which takes the
//! compiler a second or so and the binary a hundred kilobytes. A space of nanosecond tasks wants its own
//! copy. One whose bodies take microseconds does not notice some calls through a pointer.
//!
//! # Law
//! Nothing but the time differs: names, messages, errors, traces and results are those of the space.

use super::{Description, Flows, Inputs, Spelling, Successors, TaskName, TaskSpace};
use crate::data::{Datum, Store};
use crate::error::TaskError;
use crate::rank::Rank;
use crate::wire::WireName;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter;

/// Any space whose data are of one type. What runs it is compiled once for that type, whatever the
/// spaces; a task costs some hundred nanoseconds more.
///
/// [`verify`](super::verify) the space itself: two of its names that pack to one number, a fault that it
/// names, are one name here.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::run;
/// use dataflow_core::space::{Erased, Independent};
///
/// let space = Independent::new("any", 100, |_| Ok(()));
/// assert_eq!(run(&Erased::new(&space), &Inline)?.tasks, 100);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct Erased<'s, D: Datum> {
    space: &'s (dyn Behind<D> + 's),
    names: &'static Names,
}

impl<'s, D: Datum> Erased<'s, D> {
    /// The space, its type forgotten.
    pub fn new<S: TaskSpace<Datum = D>>(space: &'s S) -> Self {
        Erased {
            space,
            names: &Of::<S::Task>::NAMES,
        }
    }

    fn name(&self, raw: Raw) -> AnyName {
        AnyName {
            raw,
            names: self.names,
        }
    }
}

/// A task's name, of whatever type.
#[derive(Clone, Copy)]
pub struct AnyName {
    raw: Raw,
    names: &'static Names,
}

/// The values of a name, packed or, where it is too wide, as it travels.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Raw {
    Packed(u64),
    Wide { n: u8, words: [u32; WORDS] },
}

/// So many words a wide name has at most.
const WORDS: usize = 7;

/// What one can do with the names of one type.
struct Names {
    class: fn(Raw) -> usize,
    order: fn(Raw, Raw) -> Ordering,
    to_wire: fn(Raw) -> Option<WireName>,
    from_wire: fn(&[u32]) -> Option<Raw>,
    show: fn(Raw, &mut fmt::Formatter<'_>) -> fmt::Result,
    spelling: Spelling,
}

struct Of<T>(T);

impl<T: TaskName> Of<T> {
    const NAMES: Names = Names {
        class: |raw| raw.task::<T>().class(),
        order: |one, other| one.task::<T>().cmp(&other.task::<T>()),
        to_wire: |raw| raw.task::<T>().to_wire(),
        from_wire: |words| T::from_wire(words).map(Raw::of),
        show: |raw, f| raw.task::<T>().fmt(f),
        spelling: Spelling::of::<T>(),
    };
}

impl Raw {
    #[inline]
    fn of<T: TaskName>(task: T) -> Self {
        task.pack().map_or_else(|| Self::wide(task), Raw::Packed)
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
        Raw::Wide { n: n as u8, words }
    }

    #[inline]
    fn task<T: TaskName>(self) -> T {
        match self {
            Raw::Packed(packed) => T::unpack(packed),
            Raw::Wide { n, words } => match T::from_wire(&words[..n.into()]) {
                Some(task) => task,
                None => unreachable!("the words were made from a name and read when it was erased"),
            },
        }
    }
}

impl PartialEq for AnyName {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for AnyName {}

impl Hash for AnyName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}

impl PartialOrd for AnyName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AnyName {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.names.order)(self.raw, other.raw)
    }
}

impl fmt::Debug for AnyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.names.show)(self.raw, f)
    }
}

impl TaskName for AnyName {
    fn class(self) -> usize {
        (self.names.class)(self.raw)
    }

    fn pack(self) -> Option<u64> {
        match self.raw {
            Raw::Packed(packed) => Some(packed),
            Raw::Wide { .. } => None,
        }
    }

    fn unpack(_: u64) -> Self {
        unreachable!("only the space knows of what type its names are: `TaskSpace::named`")
    }

    fn to_wire(self) -> Option<WireName> {
        (self.names.to_wire)(self.raw)
    }

    fn from_wire(_: &[u32]) -> Option<Self> {
        unreachable!("only the space knows of what type its names are: `TaskSpace::named_by`")
    }
}

/// A space as it is asked through a pointer.
trait Behind<D: Datum>: Sync {
    fn describe(&self, about: &mut Description);
    fn tasks(&self, on: Rank) -> Listing<'_>;
    fn roots(&self, on: Rank) -> Listing<'_>;
    fn inputs(&self, task: Raw, ends: &mut dyn Ends<D>);
    fn successors(&self, task: Raw, ends: &mut dyn Ends<D>);
    fn run(&self, task: Raw, flows: &mut Flows<'_, D>) -> Result<(), TaskError>;
    fn rank(&self, task: Raw) -> Rank;
    fn owner(&self, task: Raw, flow: usize) -> Rank;
    fn priority(&self, task: Raw) -> i64;
    fn count(&self, on: Rank) -> u64;
    fn index(&self, task: Raw) -> Option<usize>;
}

/// Tasks one after the other, from an iterator of any type. A pointer to an `Iterator` would do, but has
/// all its methods compiled.
type Listing<'s> = Box<dyn FnMut() -> Option<Raw> + Send + 's>;

fn listing<'s, T: TaskName>(mut tasks: impl Iterator<Item = T> + Send + 's) -> Listing<'s> {
    Box::new(move || tasks.next().map(Raw::of))
}

/// Receives the other ends of a task's edges.
trait Ends<D: Datum> {
    fn task(&mut self, flow: usize, other: Raw, other_flow: usize);
    fn home(&mut self, flow: usize, store: &Store<D>, index: usize);
}

impl<D: Datum, S: TaskSpace<Datum = D>> Behind<D> for S {
    fn describe(&self, about: &mut Description) {
        self.describe(about);
    }

    fn tasks(&self, on: Rank) -> Listing<'_> {
        listing(self.tasks(on))
    }

    fn roots(&self, on: Rank) -> Listing<'_> {
        listing(self.roots(on))
    }

    fn inputs(&self, task: Raw, ends: &mut dyn Ends<D>) {
        self.inputs(task.task(), &mut Told(ends));
    }

    fn successors(&self, task: Raw, ends: &mut dyn Ends<D>) {
        self.successors(task.task(), &mut Told(ends));
    }

    fn run(&self, task: Raw, flows: &mut Flows<'_, D>) -> Result<(), TaskError> {
        self.run(task.task(), flows)
    }

    fn rank(&self, task: Raw) -> Rank {
        self.rank(task.task())
    }

    fn owner(&self, task: Raw, flow: usize) -> Rank {
        self.owner(task.task(), flow)
    }

    fn priority(&self, task: Raw) -> i64 {
        self.priority(task.task())
    }

    fn count(&self, on: Rank) -> u64 {
        self.count(on)
    }

    fn index(&self, task: Raw) -> Option<usize> {
        self.index(task.task())
    }
}

/// Passes on what a space says of its own names.
struct Told<'e, D: Datum>(&'e mut dyn Ends<D>);

impl<S: TaskSpace> Inputs<S> for Told<'_, S::Datum> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.0.task(flow, Raw::of(source), source_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.0.home(flow, store, index);
    }
}

impl<S: TaskSpace> Successors<S> for Told<'_, S::Datum> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.0.task(flow, Raw::of(target), target_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.0.home(flow, store, index);
    }
}

/// Passes on, to whoever asked for inputs, names that know their type.
struct Sources<'e, I>(&'e mut I, &'static Names);

impl<'s, D: Datum, I: Inputs<Erased<'s, D>>> Ends<D> for Sources<'_, I> {
    fn task(&mut self, flow: usize, raw: Raw, source_flow: usize) {
        let names = self.1;
        self.0.task(flow, AnyName { raw, names }, source_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<D>, index: usize) {
        self.0.home(flow, store, index);
    }
}

/// The same for whoever asked for successors.
struct Targets<'e, T>(&'e mut T, &'static Names);

impl<'s, D: Datum, T: Successors<Erased<'s, D>>> Ends<D> for Targets<'_, T> {
    fn task(&mut self, flow: usize, raw: Raw, target_flow: usize) {
        let names = self.1;
        self.0.task(flow, AnyName { raw, names }, target_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<D>, index: usize) {
        self.0.home(flow, store, index);
    }
}

impl<D: Datum> TaskSpace for Erased<'_, D> {
    type Task = AnyName;
    type Datum = D;

    fn describe(&self, about: &mut Description) {
        self.space.describe(about);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = AnyName> + Send {
        iter::from_fn(self.space.tasks(on)).map(|raw| self.name(raw))
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = AnyName> + Send {
        iter::from_fn(self.space.roots(on)).map(|raw| self.name(raw))
    }

    fn inputs(&self, task: AnyName, from: &mut impl Inputs<Self>) {
        self.space.inputs(task.raw, &mut Sources(from, self.names));
    }

    fn successors(&self, task: AnyName, to: &mut impl Successors<Self>) {
        self.space
            .successors(task.raw, &mut Targets(to, self.names));
    }

    fn run(&self, task: AnyName, flows: &mut Flows<'_, D>) -> Result<(), TaskError> {
        self.space.run(task.raw, flows)
    }

    fn rank(&self, task: AnyName) -> Rank {
        self.space.rank(task.raw)
    }

    fn owner(&self, task: AnyName, flow: usize) -> Rank {
        self.space.owner(task.raw, flow)
    }

    fn priority(&self, task: AnyName) -> i64 {
        self.space.priority(task.raw)
    }

    fn count(&self, on: Rank) -> u64 {
        self.space.count(on)
    }

    fn index(&self, task: AnyName) -> Option<usize> {
        self.space.index(task.raw)
    }

    fn named(&self, packed: u64) -> AnyName {
        self.name(Raw::Packed(packed))
    }

    fn named_by(&self, words: &[u32]) -> Option<AnyName> {
        (self.names.from_wire)(words).map(|raw| self.name(raw))
    }

    fn spelling(&self) -> Spelling {
        self.names.spelling
    }
}
