//! Phantom: any space without its data and its arithmetic, for runs that take place in virtual time.
//!
//! # Law
//! Names, edges, ranks, priorities, flows and the order of everything are those of the space; a datum
//! is the number of its bytes; a body is what the caller says. Nothing lies in stores: edges from and to
//! home are left out, and what would come from there is made where it is needed. On [`Land`] a datum also
//! knows its NUMA node, and what comes from home lies there before the run.
//!
//! # Elsewhere
//! Without a clock: [`counts`](crate::space::counts). What bodies take: the caller's business; in a simulated
//! world they `dataflow_mpi::transport::simulated::spend` it.

use crate::data::{Datum, Store};
use crate::error::{Error, Kind, TaskError};
use crate::foreign::caught;
use crate::port::{Block, Head, Wire};
use crate::rank::Rank;
use crate::space::{
    Class, Description, Flows, HomeInputs, Inputs, Mode, Spelling, Successors, TaskName, TaskSpace,
};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// Asks a space about itself, outside of a run.
///
/// # Errors
/// [`Kind::TaskPanicked`] if it panics, as a run of it would.
///
/// # Examples
/// ```
/// use dataflow_core::phantom::asked;
///
/// let error = asked(|| -> u32 { panic!("no such matrix") }).unwrap_err();
/// assert_eq!(error.to_string(), "the space panicked: no such matrix");
/// ```
pub fn asked<R>(ask: impl FnOnce() -> R) -> Result<R, Error> {
    caught(ask).map_err(|text| {
        let text = format!("the space panicked: {text}");
        Error::new(Kind::TaskPanicked, None, text)
    })
}

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
    /// Whether flows are numbered from the last to the first.
    last: Option<usize>,
    land: Option<&'p dyn Land>,
    homes: HomeData,
}

/// Where bodies run and data lie: a machine with NUMA nodes, numbered as its executor numbers them.
///
/// # Examples
/// All workers sit on NUMA node 0, all data lie on node 1:
/// ```
/// # use dataflow_core::prelude::*;
/// # use dataflow_core::port::Inline;
/// # struct Chain { last: Store<Vec<u8>> }
/// # impl TaskSpace for Chain {
/// #     type Task = u64;
/// #     type Datum = Vec<u8>;
/// #     fn describe(&self, about: &mut Description) { about.class("Link").update("VALUE"); }
/// #     fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send { 0..3 }
/// #     fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
/// #         if task == 0 { from.home(0, &self.last, 0) } else { from.task(0, task - 1, 0) }
/// #     }
/// #     fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
/// #         if task == 2 { to.home(0, &self.last, 0) } else { to.task(0, task + 1, 0) }
/// #     }
/// #     fn run(&self, _: u64, _: &mut Flows<'_, Vec<u8>>) -> Result<(), TaskError> { unreachable!() }
/// # }
/// # let chain = Chain { last: Store::new("last", [vec![]]) }; // three tasks, of which each updates the datum
/// use dataflow_core::phantom::{Homes, Land, Phantom};
/// use std::sync::Mutex;
///
/// struct Apart(Mutex<Vec<(usize, u64)>>);
///
/// impl Land for Apart {
///     fn here(&self) -> Option<usize> { Some(0) }
///     fn home(&self, _: usize) -> Option<usize> { Some(1) }
///     fn reads(&self, inputs: &[(usize, u64)]) { self.0.lock().unwrap().extend(inputs) }
/// }
///
/// let apart = Apart(Mutex::default());
/// let phantom = Phantom::of(&chain).bytes(&|_, _| 4096);
/// dataflow_core::run(&phantom.on(&apart, Homes::of(&chain, Rank(0))), &Inline)?;
/// // What is updated stays where it lies: each task reads it from afar.
/// assert_eq!(apart.0.into_inner().unwrap(), [(1, 4096); 3]);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub trait Land: Sync {
    /// The NUMA node of the worker that calls; `None` if it is no worker.
    fn here(&self) -> Option<usize>;

    /// The NUMA node on which the datum of a slot lies before the run; slots are numbered as [`Homes`] says.
    fn home(&self, slot: usize) -> Option<usize>;

    /// The body that the calling worker is about to run has inputs of so many bytes there: pairs of a NUMA
    /// node and bytes that lie on it.
    fn reads(&self, inputs: &[(usize, u64)]);
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
            last: None,
            land: None,
            homes: HomeData::default(),
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

    /// Where bodies run and data lie, for the tasks of a rank; after [`bytes`](Self::bytes). What a task
    /// makes lies where it runs, what it updates stays where it came. What comes from home lies where the
    /// land says, and has as many bytes as when it leaves the first task that takes it.
    pub fn on(self, land: &'p dyn Land, homes: Homes<S>) -> Self {
        let datum = |(slot, (task, flow))| {
            let length = Length::new((self.bytes)(task, flow));
            length.lying_on(land.home(slot))
        };
        let data = homes.takers.into_iter().enumerate().map(datum);
        Phantom {
            homes: HomeData {
                data: Some(Store::new("home", data.collect::<Vec<_>>())),
                slots: homes.slots,
            },
            land: Some(land),
            ..self
        }
    }

    /// The same with flows numbered from the last to the first: where the first of several counts, such as
    /// of inputs that are equally large, it is the last then. Classes have as many flows as the widest;
    /// nothing comes through those that are added.
    pub fn backwards(self) -> Self {
        let widest = self.modes.iter().map(|modes| modes.len()).max();
        Phantom {
            last: widest.and_then(|widest| widest.checked_sub(1)),
            ..self
        }
    }

    /// The number of a flow here as the space has it, and the other way round.
    fn flow(&self, flow: usize) -> usize {
        // A flow that is not described stays one.
        let turned = self.last.and_then(|last| last.checked_sub(flow));
        turned.unwrap_or(flow)
    }
}

impl<S: TaskSpace> fmt::Debug for Phantom<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phantom").finish_non_exhaustive()
    }
}

/// The slots from which the tasks of a rank take data, numbered in the order in which they name them; none
/// of a space whose edges carry nothing.
///
/// Cost: all tasks of the rank are asked for their inputs; some 100 bytes for each slot.
///
/// # Examples
/// ```
/// # use dataflow_core::prelude::*;
/// # use dataflow_core::phantom::Homes;
/// # use dataflow_core::space::Independent;
/// let tasks = Independent::new("tasks", 100, |_| Ok(()));
/// assert!(Homes::of(&tasks, Rank(0)).is_empty());
/// ```
pub struct Homes<S: TaskSpace> {
    slots: SlotNumbers,
    /// By slot: the first task that takes from it, and through which flow.
    takers: Vec<(S::Task, usize)>,
}

/// The number of each slot: the store by its address, and the index.
type SlotNumbers = HashMap<(usize, usize), usize>;

impl<S: TaskSpace> Homes<S> {
    /// Those of a rank.
    pub fn of(space: &S, rank: Rank) -> Self {
        let (mut slots, mut takers) = (SlotNumbers::new(), Vec::new());
        if S::CARRIES {
            for task in space.tasks(rank) {
                let mut note = |flow, store: &Store<S::Datum>, index| {
                    slots.entry((address(store), index)).or_insert_with(|| {
                        takers.push((task, flow));
                        takers.len() - 1
                    });
                };
                space.inputs(task, &mut HomeInputs(&mut note));
            }
        }
        Homes { slots, takers }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.takers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.takers.is_empty()
    }
}

impl<S: TaskSpace> fmt::Debug for Homes<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Homes")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// What lies in them, once that is known.
#[derive(Default)]
struct HomeData {
    slots: SlotNumbers,
    data: Option<Store<Length>>,
}

impl HomeData {
    fn find<D: Datum>(&self, store: &Store<D>, index: usize) -> Option<(&Store<Length>, usize)> {
        let data = self.data.as_ref()?;
        let slot = self.slots.get(&(address(store), index))?;
        Some((data, *slot))
    }
}

fn address<D: Datum>(store: &Store<D>) -> usize {
    std::ptr::from_ref(store).addr()
}

/// A datum of which only the length is there, in bytes, and where it would lie, if that is known.
///
/// It travels as so many zeros, which nobody reads: its head tells the length, and nothing where it lay.
///
/// # Examples
/// ```
/// use dataflow_core::data::Datum;
/// use dataflow_core::phantom::Length;
/// use dataflow_core::port::{Heap, Memory, Wire};
///
/// let tile = Length::new(64).lying_on(Some(1));
/// assert_eq!((tile.bytes(), tile.numa_node()), (64, Some(1)));
/// // Where it comes, it is as long as it was; where it lay says nothing there.
/// let come = Length::unpack(&tile.head(), Heap.allocate(tile.size()))?;
/// assert_eq!((come.bytes(), come.numa_node()), (64, None));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length {
    bytes: u64,
    numa_node: Option<u32>,
}

impl Length {
    /// A datum of so many bytes; where it lies is not known.
    pub const fn new(bytes: u64) -> Self {
        Length {
            bytes,
            numa_node: None,
        }
    }

    /// The same on a NUMA node, if it lies on one.
    pub fn lying_on(self, numa_node: Option<usize>) -> Self {
        let narrow = |node| u32::try_from(node).ok();
        Length {
            numa_node: numa_node.and_then(narrow),
            ..self
        }
    }
}

impl Datum for Length {
    fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    fn numa_node(&self) -> Option<usize> {
        self.numa_node.map(|node| node as usize)
    }
}

impl Wire for Length {
    fn head(&self) -> Head {
        Head::from_slice(&self.bytes.to_le_bytes())
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

    fn unpack(head: &[u8], block: Box<dyn Block>) -> Result<Self, String> {
        let bytes = head.try_into();
        let bytes = bytes.map_err(|_| format!("a length of {} bytes (must be 8)", head.len()))?;
        Ok(Length::new(u64::from_le_bytes(bytes)).lying_on(block.numa_node()))
    }
}

/// Passes on the edges between tasks, and those from home if it is known where data lie there.
struct PhantomEdges<'v, 'p, S: TaskSpace, V>(&'v Phantom<'p, S>, &'v mut V);

impl<'p, S: TaskSpace, V: Inputs<Phantom<'p, S>>> Inputs<S> for PhantomEdges<'_, 'p, S, V> {
    #[inline(always)]
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        let PhantomEdges(phantom, from) = self;
        from.task(phantom.flow(flow), source, phantom.flow(source_flow));
    }

    #[inline(always)]
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        let PhantomEdges(phantom, from) = self;
        if let Some((data, slot)) = phantom.homes.find(store, index) {
            from.home(phantom.flow(flow), data, slot);
        }
    }
}

impl<'p, S: TaskSpace, V: Successors<Phantom<'p, S>>> Successors<S> for PhantomEdges<'_, 'p, S, V> {
    #[inline(always)]
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        let PhantomEdges(phantom, to) = self;
        to.task(phantom.flow(flow), target, phantom.flow(target_flow));
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
        let PhantomEdges(phantom, to) = self;
        to.range(phantom.flow(flow), range, target, phantom.flow(target_flow));
    }
}

impl<S: TaskSpace> TaskSpace for Phantom<'_, S> {
    type Task = S::Task;
    type Datum = Length;

    fn describe(&self, about: &mut Description) {
        self.space.describe(about);
        about.soften(S::CARRIES);
        if let Some(last) = self.last {
            about.turn(last + 1);
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        self.space.tasks(on)
    }

    fn inputs(&self, task: S::Task, from: &mut impl Inputs<Self>) {
        self.space.inputs(task, &mut PhantomEdges(self, from));
    }

    fn successors(&self, task: S::Task, to: &mut impl Successors<Self>) {
        self.space.successors(task, &mut PhantomEdges(self, to));
    }

    fn run(&self, task: S::Task, flows: &mut Flows<'_, Length>) -> Result<(), TaskError> {
        if let Some(land) = self.land {
            let lies = |length: &Length| Some((length.numa_node()?, length.bytes));
            let inputs = flows.iter().filter_map(|slot| lies(slot.get()?));
            land.reads(&inputs.collect::<SmallVec<[_; 8]>>());
        }
        (self.body)(task);
        if S::CARRIES {
            let here = self.land.and_then(Land::here);
            let modes = self.modes.get(task.class());
            for (flow, slot) in flows.iter().enumerate() {
                let flow = self.flow(flow);
                let mode = modes.and_then(|modes| modes.get(flow));
                let is_made = match mode.unwrap_or(&Mode::Order) {
                    Mode::Update | Mode::New => true,
                    // What has come is handed on as it is; what would lie at home is made here.
                    Mode::Read | Mode::Optional => slot.is_vacant(),
                    Mode::Order => false,
                };
                if is_made {
                    slot.fill(|old| {
                        let lies = old.map_or(here, Length::numa_node);
                        Length::new((self.bytes)(task, flow)).lying_on(lies)
                    });
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

    fn explained(&self, error: Error) -> Error {
        self.space.explained(error)
    }

    fn spelling(&self) -> Spelling {
        self.space.spelling()
    }
}
