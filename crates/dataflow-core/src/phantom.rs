//! Phantom: any space without its data and its arithmetic, for runs that take place in virtual time.
//!
//! # Law
//! Names, edges, ranks, priorities, flows and the order of everything are those of the space; a datum
//! is the number of its bytes; a body is what the caller says. Nothing lies in stores: edges from and to
//! home are left out, and what would come from there is made where it is needed.
//!
//! # Elsewhere
//! Without a clock: [`counts`](crate::space::counts). What bodies take: the caller's business; in a simulated
//! world they `dataflow_mpi::transport::simulated::spend` it.

use crate::data::{Datum, Store};
use crate::error::TaskError;
use crate::port::{Block, Head, Wire};
use crate::rank::Rank;
use crate::space::{
    Class, Description, Flows, Inputs, Mode, Spelling, Successors, TaskName, TaskSpace,
};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A space whose data are lengths and whose bodies are given.
///
/// A run of it sends between each two ranks as many messages and bytes as a run of the space would, in
/// the order that priorities and the bodies' times make. Control flow that depends on data is not there:
/// all bodies succeed.
///
/// # Examples
/// What a chain would do, with bodies that only say that they were called:
/// ```
/// # use dataflow_core::prelude::*;
/// # use dataflow_core::port::Inline;
/// # use dataflow_core::phantom::Phantom;
/// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// # struct Chain { last: Store<Vec<u8>> }
/// # impl TaskSpace for Chain {
/// #     type Task = u64;
/// #     type Datum = Vec<u8>;
/// #     fn describe(&self, about: &mut Description) { about.class("Link").update("VALUE"); }
/// #     fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send { 0..100 }
/// #     fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
/// #         if task == 0 { from.home(0, &self.last, 0) } else { from.task(0, task - 1, 0) }
/// #     }
/// #     fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
/// #         if task == 99 { to.home(0, &self.last, 0) } else { to.task(0, task + 1, 0) }
/// #     }
/// #     fn run(&self, _: u64, _: &mut Flows<'_, Vec<u8>>) -> Result<(), TaskError> { unreachable!() }
/// # }
/// let chain = Chain { last: Store::new("last", [vec![]]) };
/// let called = AtomicU64::new(0);
/// let body = |_| { called.fetch_add(1, Relaxed); };
/// let phantom = Phantom::of(&chain).bytes(&|_, _| 1 << 40).body(&body);
/// verify(&phantom, 1)?;
/// dataflow_core::run(&phantom, &Inline)?;
/// assert_eq!(called.into_inner(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Phantom<'p, S: TaskSpace> {
    space: &'p S,
    bytes: &'p (dyn Fn(S::Task, usize) -> u64 + Sync),
    body: &'p (dyn Fn(S::Task) + Sync),
    /// The flows of each class, as the space describes them.
    modes: Box<[Box<[Mode]>]>,
}

impl<'p, S: TaskSpace> Phantom<'p, S> {
    /// The space; until told otherwise data have no bytes and bodies do nothing.
    pub fn of(space: &'p S) -> Self {
        let about = Description::of(space);
        let modes = |class: &Class| class.flows.iter().map(|flow| flow.mode).collect();
        Phantom {
            space,
            bytes: &|_, _| 0,
            body: &|_| {},
            modes: about.classes().iter().map(modes).collect(),
        }
    }

    /// The bytes of the datum that leaves a task through a flow; asked of flows that carry data.
    pub fn bytes(self, bytes: &'p (dyn Fn(S::Task, usize) -> u64 + Sync)) -> Self {
        Phantom { bytes, ..self }
    }

    /// What is done in place of a body.
    pub fn body(self, body: &'p (dyn Fn(S::Task) + Sync)) -> Self {
        Phantom { body, ..self }
    }

    /// Whether edges of the space carry data at all.
    const CARRIES: bool = size_of::<S::Datum>() != 0;
}

impl<S: TaskSpace> fmt::Debug for Phantom<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phantom").finish_non_exhaustive()
    }
}

/// A datum of which only the length is there, in bytes.
///
/// It travels as so many zeros, which nobody reads: its head tells the length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length(pub u64);

impl Datum for Length {
    fn bytes(&self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Wire for Length {
    fn head(&self) -> Head {
        Head::from_slice(&self.0.to_le_bytes())
    }

    fn size(&self) -> usize {
        self.bytes()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        match ZEROS.get(..self.bytes()) {
            Some(zeros) => Cow::Borrowed(zeros),
            // Pages that nobody has touched cost nothing.
            None => Cow::Owned(vec![0; self.bytes()]),
        }
    }

    fn is_blank(&self) -> bool {
        true
    }

    fn unpack(head: &[u8], _: Box<dyn Block>) -> Result<Self, String> {
        let bytes = head.try_into();
        let bytes = bytes.map_err(|_| format!("a length of {} bytes (must be 8)", head.len()))?;
        Ok(Length(u64::from_le_bytes(bytes)))
    }
}

/// Passes on the edges between tasks.
struct Between<'v, V>(&'v mut V);

impl<'p, S: TaskSpace + 'p, V: Inputs<Phantom<'p, S>>> Inputs<S> for Between<'_, V> {
    #[inline(always)]
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.0.task(flow, source, source_flow);
    }

    #[inline(always)]
    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

impl<'p, S: TaskSpace + 'p, V: Successors<Phantom<'p, S>>> Successors<S> for Between<'_, V> {
    #[inline(always)]
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.0.task(flow, target, target_flow);
    }

    #[inline(always)]
    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}

    #[inline(always)]
    fn range(
        &mut self,
        flow: usize,
        range: Range<u32>,
        target: impl Fn(u32) -> S::Task,
        target_flow: usize,
    ) {
        self.0.range(flow, range, target, target_flow);
    }
}

impl<S: TaskSpace> TaskSpace for Phantom<'_, S> {
    type Task = S::Task;
    type Datum = Length;

    fn describe(&self, about: &mut Description) {
        self.space.describe(about);
        about.soften(Self::CARRIES);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        self.space.tasks(on)
    }

    fn inputs(&self, task: S::Task, from: &mut impl Inputs<Self>) {
        self.space.inputs(task, &mut Between(from));
    }

    fn successors(&self, task: S::Task, to: &mut impl Successors<Self>) {
        self.space.successors(task, &mut Between(to));
    }

    fn run(&self, task: S::Task, flows: &mut Flows<'_, Length>) -> Result<(), TaskError> {
        (self.body)(task);
        if Self::CARRIES {
            let modes = self.modes.get(task.class()).into_iter().flatten();
            for (flow, (slot, mode)) in flows.iter().zip(modes).enumerate() {
                let is_made = match mode {
                    Mode::Update | Mode::New => true,
                    // What has come is handed on as it is; what would lie at home is made here.
                    Mode::Read | Mode::Optional => slot.is_vacant(),
                    Mode::Order => false,
                };
                if is_made {
                    slot.fill(Length((self.bytes)(task, flow)));
                }
            }
        }
        Ok(())
    }

    fn rank(&self, task: S::Task) -> Rank {
        self.space.rank(task)
    }

    fn priority(&self, task: S::Task) -> i64 {
        self.space.priority(task)
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        self.space.roots(on)
    }

    fn count(&self, on: Rank) -> u64 {
        self.space.count(on)
    }

    fn index(&self, task: S::Task) -> Option<usize> {
        self.space.index(task)
    }

    fn named(&self, packed: u64) -> S::Task {
        self.space.named(packed)
    }

    fn named_by(&self, words: &[u32]) -> Option<S::Task> {
        self.space.named_by(words)
    }

    fn spelling(&self) -> Spelling {
        self.space.spelling()
    }
}
