//! Then: one space after another over the same data, as one graph without a barrier.
//!
//! # Law
//! What the first space brings home to a slot and the second takes from there becomes an edge; nothing
//! else changes. So the second begins wherever the first has ended, and both together do what one run
//! of each after the other does, to the last bit. Where an edge could not order them (the second
//! changes a slot that the first only reads, say) the two are refused.

use super::{
    Class, Description, Flow, Flows, Inputs, Mode, Successors, TaskName, TaskSpace, is_root,
};
use crate::data::{Datum, Store};
use crate::error::{Error, Kind, TaskError};
use crate::rank::Rank;
use crate::wire::WireName;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// Two spaces over the same data as one. What it needs to know is a table of the slots that both touch,
/// made once by asking both spaces for all tasks of some ranks.
///
/// A task keeps its class, flows, rank and body, and in errors its name. Tasks of the first space are
/// more urgent than those of the second.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::prelude::*;
/// use dataflow_core::space::Then;
///
/// /// Adds to each of some numbers.
/// struct Add<'s>(&'s Store<u64>, u64);
///
/// impl TaskSpace for Add<'_> {
///     type Task = u32;
///     type Datum = u64;
///     fn describe(&self, about: &mut Description) {
///         about.name("add").class("Add").update("NUMBER");
///     }
///     fn tasks(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
///         0..self.0.len() as u32
///     }
///     fn inputs(&self, i: u32, from: &mut impl Inputs<Self>) {
///         from.home(0, self.0, i as usize);
///     }
///     fn successors(&self, i: u32, to: &mut impl Successors<Self>) {
///         to.home(0, self.0, i as usize);
///     }
///     fn run(&self, _: u32, flows: &mut Flows<'_, u64>) -> Result<(), TaskError> {
///         let [number] = flows.slots();
///         *number.update() += self.1;
///         Ok(())
///     }
/// }
///
/// let numbers = Store::new("numbers", [1, 2, 3]);
/// let (one, ten) = (Add(&numbers, 1), Add(&numbers, 10));
/// let both = Then::new(&one, &ten, 0..1)?;
/// verify(&both, 1)?;
/// assert_eq!(dataflow_core::run(&both, &Inline)?.tasks, 6);
/// assert_eq!(*numbers.get(2).unwrap(), 14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Then<'s, A: TaskSpace, B: TaskSpace<Datum = A::Datum>> {
    first: &'s A,
    second: &'s B,
    /// Who of the first space brings a slot home, and who of the second takes it, where both do.
    joints: HashMap<Slot, Joint<A::Task, B::Task>>,
    /// By how much tasks of the first are more urgent than they say.
    lead: i64,
}

/// The name of a task of one of two spaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Either<A, B> {
    /// Of the first.
    First(A),
    /// Of the second.
    Second(B),
}
use Either::{First, Second};

impl<A: TaskName, B: TaskName> fmt::Debug for Either<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            First(task) => task.fmt(f),
            Second(task) => task.fmt(f),
        }
    }
}

/// Above the packed name stands the side.
const SIDE: u32 = super::name::PACKED_BITS - 1;

impl<A: TaskName, B: TaskName> TaskName for Either<A, B> {
    const N_CLASSES: usize = A::N_CLASSES + B::N_CLASSES;

    fn class(self) -> usize {
        match self {
            First(task) => task.class(),
            Second(task) => A::N_CLASSES + task.class(),
        }
    }

    fn pack(self) -> Option<u64> {
        let (side, packed) = match self {
            First(task) => (0, task.pack()?),
            Second(task) => (1, task.pack()?),
        };
        (packed >> SIDE == 0).then_some(packed | side << SIDE)
    }

    fn unpack(packed: u64) -> Self {
        match packed >> SIDE {
            0 => First(A::unpack(packed)),
            _ => Second(B::unpack(packed & !(1 << SIDE))),
        }
    }

    fn to_wire(self) -> Option<WireName> {
        let (side, name) = match self {
            First(task) => (0, task.to_wire()?),
            Second(task) => (1, task.to_wire()?),
        };
        Some(std::iter::once(side).chain(name).collect())
    }

    fn from_wire(words: &[u32]) -> Option<Self> {
        match words.split_first()? {
            (0, rest) => A::from_wire(rest).map(First),
            (1, rest) => B::from_wire(rest).map(Second),
            _ => None,
        }
    }
}

/// A slot of a store of a rank: the store by its address.
type Slot = (usize, usize, Rank);

fn slot<D: Datum>(store: &Store<D>, index: usize, rank: Rank) -> Slot {
    (std::ptr::from_ref(store).addr(), index, rank)
}

/// Where two spaces meet.
struct Joint<A, B> {
    bringer: (A, usize),
    takers: Vec<(B, usize)>,
    /// Whether a taker changes what it takes: then that one brings it home.
    is_changed: bool,
}

/// What a space does with a slot that it takes from home or brings there.
struct Touched<T> {
    store: String,
    /// Tasks and their flows.
    takers: Vec<(T, usize)>,
    bringer: Option<(T, usize)>,
    is_changed: bool,
}

impl<T> Default for Touched<T> {
    fn default() -> Self {
        Touched {
            store: String::new(),
            takers: Vec::new(),
            bringer: None,
            is_changed: false,
        }
    }
}

impl<T> Touched<T> {
    /// Whether there is another datum in the slot afterwards, or a changed one.
    fn changes(&self) -> bool {
        self.is_changed || self.bringer.is_some()
    }
}

/// The slots that a space touches.
type Touching<S> = HashMap<Slot, Touched<<S as TaskSpace>::Task>>;

/// Notes which slots a task touches.
struct Touches<'t, S: TaskSpace> {
    slots: &'t mut Touching<S>,
    flows: &'t [Flow],
    task: S::Task,
    rank: Rank,
}

impl<S: TaskSpace> Touches<'_, S> {
    fn at(&mut self, store: &Store<S::Datum>, index: usize) -> &mut Touched<S::Task> {
        let touched = self.slots.entry(slot(store, index, self.rank)).or_default();
        if touched.store.is_empty() {
            touched.store = store.name().into();
        }
        touched
    }
}

impl<S: TaskSpace> Inputs<S> for Touches<'_, S> {
    fn task(&mut self, _: usize, _: S::Task, _: usize) {}

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        let updates = |flow: &Flow| flow.mode == Mode::Update;
        let (task, changes) = (self.task, self.flows.get(flow).is_some_and(updates));
        let touched = self.at(store, index);
        touched.takers.push((task, flow));
        touched.is_changed |= changes;
    }
}

impl<S: TaskSpace> Successors<S> for Touches<'_, S> {
    fn task(&mut self, _: usize, _: S::Task, _: usize) {}

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        let task = self.task;
        self.at(store, index).bringer = Some((task, flow));
    }
}

/// What the tasks of some ranks take from home and bring there; and the highest priority among them.
fn touched<S: TaskSpace>(space: &S, ranks: Range<u32>) -> Result<(Touching<S>, i64), Error> {
    let about = Description::of(space);
    let n_classes = S::Task::N_CLASSES;
    if about.classes().len() != n_classes {
        let text = format!(
            "{} describes {} classes, and names of its tasks have {n_classes}: it cannot be one of two \
             spaces",
            about.space_name(),
            about.classes().len(),
        );
        return Err(Error::new(Kind::NotDescribed, None, text));
    }
    let (mut slots, mut highest) = (HashMap::new(), 0);
    for rank in ranks.map(Rank) {
        for task in space.tasks(rank) {
            let class = about.classes().get(task.class());
            let flows = class.map_or(&[][..], |class: &Class| &class.flows);
            let slots = &mut slots;
            let mut touches = Touches::<S> {
                slots,
                flows,
                task,
                rank,
            };
            space.inputs(task, &mut touches);
            space.successors(task, &mut touches);
            highest = highest.max(space.priority(task));
        }
    }
    Ok((slots, highest))
}

impl<'s, A: TaskSpace, B: TaskSpace<Datum = A::Datum>> Then<'s, A, B> {
    /// The second space after the first, on some ranks: `0..1` on one, `0..n_ranks` where each knows
    /// of all; a rank may know of its own tasks only.
    ///
    /// Cost: both spaces are asked for the ends of all tasks of these ranks, some ten nanoseconds each;
    /// memory for the slots that they touch.
    ///
    /// # Errors
    /// [`Kind::Contradiction`] if the second space changes a slot which the first touches and does not
    /// bring home, or fills one that it does not take; [`Kind::NotDescribed`] if a space does not
    /// describe as many classes as the names of its tasks have.
    pub fn new(first: &'s A, second: &'s B, ranks: Range<u32>) -> Result<Self, Error> {
        let (mut before, _) = touched(first, ranks.clone())?;
        let (after, lead) = touched(second, ranks)?;
        let mut joints = HashMap::new();
        for (slot, after) in after {
            let Some(before) = before.remove(&slot) else {
                continue;
            };
            match before.bringer {
                Some(bringer) if !after.takers.is_empty() => {
                    let joint = Joint {
                        bringer,
                        takers: after.takers,
                        is_changed: after.is_changed,
                    };
                    joints.insert(slot, joint);
                }
                _ if before.changes() || after.changes() => {
                    return Err(out_of_order(slot, &before, &after));
                }
                _ => {}
            }
        }
        Ok(Then {
            first,
            second,
            joints,
            lead,
        })
    }

    fn joint(
        &self,
        store: &Store<A::Datum>,
        index: usize,
        rank: Rank,
    ) -> Option<&Joint<A::Task, B::Task>> {
        self.joints.get(&slot(store, index, rank))
    }
}

#[cold]
fn out_of_order<A: TaskName, B: TaskName>(
    (_, index, rank): Slot,
    before: &Touched<A>,
    after: &Touched<B>,
) -> Error {
    let of_first = before.bringer.or(before.takers.first().copied());
    let of_second = after.bringer.or(after.takers.first().copied());
    let (Some((first, _)), Some((second, _))) = (of_first, of_second) else {
        unreachable!("who touches a slot takes it or brings it");
    };
    let text = format!(
        "{first:?} and then {second:?} touch slot {index} of {} on {rank}, and nothing orders them (what \
         the first space brings home the second may take; both may read)",
        before.store
    );
    Error::new(Kind::Contradiction, Some(format!("{second:?}")), text)
}

/// Edges of a task of the first space, as the visitor of both hears them.
struct OfFirst<'v, 's, A: TaskSpace, B: TaskSpace<Datum = A::Datum>, V> {
    both: &'v Then<'s, A, B>,
    rank: Rank,
    visitor: &'v mut V,
}

/// Edges of a task of the second space.
struct OfSecond<'v, 's, A: TaskSpace, B: TaskSpace<Datum = A::Datum>, V> {
    both: &'v Then<'s, A, B>,
    rank: Rank,
    visitor: &'v mut V,
}

impl<'s, A, B, V> Inputs<A> for OfFirst<'_, 's, A, B, V>
where
    A: TaskSpace,
    B: TaskSpace<Datum = A::Datum>,
    V: Inputs<Then<'s, A, B>>,
{
    fn task(&mut self, flow: usize, source: A::Task, its: usize) {
        self.visitor.task(flow, First(source), its);
    }

    fn home(&mut self, flow: usize, store: &Store<A::Datum>, index: usize) {
        self.visitor.home(flow, store, index);
    }
}

impl<'s, A, B, V> Successors<A> for OfFirst<'_, 's, A, B, V>
where
    A: TaskSpace,
    B: TaskSpace<Datum = A::Datum>,
    V: Successors<Then<'s, A, B>>,
{
    fn task(&mut self, flow: usize, target: A::Task, its: usize) {
        self.visitor.task(flow, First(target), its);
    }

    fn home(&mut self, flow: usize, store: &Store<A::Datum>, index: usize) {
        let joint = self.both.joint(store, index, self.rank);
        for &(task, its) in joint.iter().flat_map(|joint| &joint.takers) {
            self.visitor.task(flow, Second(task), its);
        }
        if joint.is_none_or(|joint| !joint.is_changed) {
            self.visitor.home(flow, store, index);
        }
    }
}

impl<'s, A, B, V> Inputs<B> for OfSecond<'_, 's, A, B, V>
where
    A: TaskSpace,
    B: TaskSpace<Datum = A::Datum>,
    V: Inputs<Then<'s, A, B>>,
{
    fn task(&mut self, flow: usize, source: B::Task, its: usize) {
        self.visitor.task(flow, Second(source), its);
    }

    fn home(&mut self, flow: usize, store: &Store<A::Datum>, index: usize) {
        match self.both.joint(store, index, self.rank) {
            Some(&Joint {
                bringer: (source, its),
                ..
            }) => self.visitor.task(flow, First(source), its),
            None => self.visitor.home(flow, store, index),
        }
    }
}

impl<'s, A, B, V> Successors<B> for OfSecond<'_, 's, A, B, V>
where
    A: TaskSpace,
    B: TaskSpace<Datum = A::Datum>,
    V: Successors<Then<'s, A, B>>,
{
    fn task(&mut self, flow: usize, target: B::Task, its: usize) {
        self.visitor.task(flow, Second(target), its);
    }

    fn home(&mut self, flow: usize, store: &Store<A::Datum>, index: usize) {
        self.visitor.home(flow, store, index);
    }
}

impl<A: TaskSpace, B: TaskSpace<Datum = A::Datum>> TaskSpace for Then<'_, A, B> {
    type Task = Either<A::Task, B::Task>;
    type Datum = A::Datum;

    fn describe(&self, about: &mut Description) {
        let mut second = Description::of(self.second);
        self.first.describe(about);
        let name = format!("{}, then {}", about.space_name(), second.space_name());
        about.name(name);
        about.append(&mut second);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Self::Task> + Send {
        let first = self.first.tasks(on).map(First);
        first.chain(self.second.tasks(on).map(Second))
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Self::Task> + Send {
        let mut second = self.second.roots(on).map(Second);
        let second = std::iter::from_fn(move || second.find(|&task| is_root(self, task)));
        self.first.roots(on).map(First).chain(second)
    }

    fn count(&self, on: Rank) -> u64 {
        self.first.count(on) + self.second.count(on)
    }

    fn inputs(&self, task: Self::Task, visitor: &mut impl Inputs<Self>) {
        let (both, rank) = (self, self.rank(task));
        match task {
            First(task) => self.first.inputs(
                task,
                &mut OfFirst {
                    both,
                    rank,
                    visitor,
                },
            ),
            Second(task) => self.second.inputs(
                task,
                &mut OfSecond {
                    both,
                    rank,
                    visitor,
                },
            ),
        }
    }

    fn successors(&self, task: Self::Task, visitor: &mut impl Successors<Self>) {
        let (both, rank) = (self, self.rank(task));
        match task {
            First(task) => self.first.successors(
                task,
                &mut OfFirst {
                    both,
                    rank,
                    visitor,
                },
            ),
            Second(task) => self.second.successors(
                task,
                &mut OfSecond {
                    both,
                    rank,
                    visitor,
                },
            ),
        }
    }

    fn run(&self, task: Self::Task, flows: &mut Flows<'_, A::Datum>) -> Result<(), TaskError> {
        match task {
            First(task) => self.first.run(task, flows),
            Second(task) => self.second.run(task, flows),
        }
    }

    fn rank(&self, task: Self::Task) -> Rank {
        match task {
            First(task) => self.first.rank(task),
            Second(task) => self.second.rank(task),
        }
    }

    fn owner(&self, task: Self::Task, flow: usize) -> Rank {
        match task {
            First(task) => self.first.owner(task, flow),
            Second(task) => self.second.owner(task, flow),
        }
    }

    fn priority(&self, task: Self::Task) -> i64 {
        match task {
            First(task) => self.lead.saturating_add(self.first.priority(task)),
            Second(task) => self.second.priority(task),
        }
    }
}
