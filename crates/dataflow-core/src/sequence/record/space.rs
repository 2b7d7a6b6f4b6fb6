//! A recorded program as a task space.
//!
//! # Law
//! Every flow has one source: a flow of an earlier task that changed the datum, or home. The flows
//! that get a version form a linked list: readers first, and the flow that changes it next at the end.
//! The last version of a datum goes home.

use super::super::task::Label;
use super::accesses::{Loan, Loans, Named};
use super::order::Order;
use super::replay;
use crate::data::{Datum, Store};
use crate::engine::{self, Report};
use crate::error::{Error, Kind, TaskError};
use crate::port::{Executor, Wire};
use crate::rank::Rank;
use crate::space::{Description, Flows, Inputs, Successors, TaskName, TaskSpace};
use crate::wire::WireName;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;

/// No flow.
pub(super) const NONE: u32 = u32::MAX;

/// A recorded task's name: its number in the order of recording, counted from 0, and its class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step {
    number: u32,
    class: u32,
}

/// What a task does with its data.
pub(super) type Body<'env, D> =
    Box<dyn Fn(&mut Loans<'_, D>) -> Result<(), TaskError> + Send + Sync + 'env>;

/// See the [module](super).
pub struct Recorded<'env, D: Datum> {
    name: String,
    pub(super) n_ranks: usize,
    pub(super) classes: Vec<Class>,
    pub(super) tasks: Vec<Task<'env, D>>,
    pub(super) flows: Vec<Flow>,
    pub(super) origins: Vec<Origin<'env, D>>,
    /// Tasks that the program has inserted; those that fetch data are not counted.
    pub(super) n_inserted: u64,
    fingerprint: u64,
    /// The fingerprint after 1, 2, 4, … tasks.
    fingerprints: Vec<u64>,
    roots: Vec<u32>,
    counts: Vec<u64>,
    /// The waits between tasks of a run in place, if there is only one rank.
    order: Option<Order>,
}

pub(super) struct Class {
    pub name: &'static str,
    /// Whether a flow changes its datum.
    pub changes: SmallVec<[bool; 8]>,
}

pub(super) struct Task<'env, D: Datum> {
    pub class: u32,
    pub rank: Rank,
    pub priority: i64,
    pub first_flow: u32,
    /// As its program counts it.
    pub number: u64,
    /// `None` of a task that fetches a datum.
    pub body: Option<Body<'env, D>>,
}

/// An access of a task.
pub(super) struct Flow {
    pub task: u32,
    pub datum: u32,
    /// The flow that it gets its version from; [`NONE`]: from home.
    pub source: u32,
    /// The flows that get the version which it leaves, first and last.
    pub first: u32,
    pub last: u32,
    /// The next one that gets the same version as this one.
    pub next: u32,
}

/// A datum.
pub(super) struct Origin<'env, D: Datum> {
    pub store: &'env Store<D>,
    pub index: usize,
    pub owner: Rank,
    /// The flow that changes it last; [`NONE`] before any.
    pub last: u32,
}

/// After how many tasks, in powers of two, ranks compare what they have recorded.
const CHECKPOINTS: u32 = 32;

impl<'env, D: Datum> Recorded<'env, D> {
    pub(super) fn new(name: String, n_ranks: usize) -> Self {
        Recorded {
            name,
            n_ranks,
            classes: Vec::new(),
            tasks: Vec::new(),
            flows: Vec::new(),
            origins: Vec::new(),
            n_inserted: 0,
            fingerprint: 0,
            fingerprints: Vec::new(),
            roots: Vec::new(),
            counts: Vec::new(),
            order: None,
        }
    }

    /// All has been recorded.
    pub(super) fn complete(mut self) -> Self {
        self.counts = vec![0; self.n_ranks];
        for (number, task) in self.tasks.iter().enumerate() {
            self.counts[task.rank.0 as usize] += 1;
            if self
                .flows_of(number as u32)
                .iter()
                .all(|flow| flow.source == NONE)
            {
                self.roots.push(number as u32);
            }
        }
        if self.n_ranks == 1 {
            self.order = Some(Order::of(&self));
        }
        self
    }

    /// A task is recorded: it changes the fingerprint.
    pub(super) fn note(&mut self, name: &str, rank: Rank, accesses: &[Named]) {
        let mut mix = |value: u64| {
            let mixed = (self.fingerprint ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.fingerprint = mixed ^ mixed >> 32;
        };
        name.bytes().for_each(|byte| mix(byte.into()));
        mix(rank.0.into());
        for access in accesses {
            mix(u64::from(access.datum) << 2 | access.mode as u64);
        }
        if (self.n_inserted + 1).is_power_of_two() {
            self.fingerprints.push(self.fingerprint);
        }
    }

    /// `flow` gets the version that `source` leaves.
    pub(super) fn follow(&mut self, source: u32, flow: u32) {
        if source == NONE {
            return;
        }
        let Flow { first, last, .. } = &mut self.flows[source as usize];
        let before = std::mem::replace(last, flow);
        match before {
            NONE => *first = flow,
            before => self.flows[before as usize].next = flow,
        }
    }

    fn task(&self, step: Step) -> &Task<'env, D> {
        &self.tasks[step.number as usize]
    }

    fn step(&self, number: u32) -> Step {
        let class = self.tasks[number as usize].class;
        Step { number, class }
    }

    fn first_flow(&self, number: u32) -> u32 {
        let task = self.tasks.get(number as usize);
        task.map_or(self.flows.len() as u32, |task| task.first_flow)
    }

    pub(super) fn flow_range(&self, number: u32) -> Range<u32> {
        self.first_flow(number)..self.first_flow(number + 1)
    }

    fn flows_of(&self, number: u32) -> &[Flow] {
        let Range { start, end } = self.flow_range(number);
        &self.flows[start as usize..end as usize]
    }

    /// The number of a flow among those of its task.
    fn place(&self, flow: u32) -> usize {
        (flow - self.first_flow(self.flows[flow as usize].task)) as usize
    }

    /// Tasks that the program has inserted, on all ranks.
    pub fn n_tasks(&self) -> u64 {
        self.n_inserted
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The name of a task in the program, and its number there.
    pub fn name_of(&self, step: Step) -> (&'static str, u64) {
        let Label { name, number, .. } = self.label(step.number);
        (name, number)
    }

    /// The same for the task with a given number in the record.
    pub(super) fn label(&self, number: u32) -> Label {
        let task = &self.tasks[number as usize];
        Label {
            number: task.number,
            name: self.classes[task.class as usize].name,
            priority: task.priority,
        }
    }

    /// Runs the program on one rank, any number of times; [in place](super#law), if it was recorded for
    /// one rank.
    ///
    /// # Errors
    /// As [`scope()`](super::super::scope()); and [`Kind::HomeEmpty`] if a datum that it accesses is not in its slot.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, Error> {
        match &self.order {
            Some(order) => replay::run(self, order, on),
            None => engine::run(self, on).map_err(|error| self.explained(error)),
        }
    }

    /// Runs this rank's part of the program, together with the other ranks, which have recorded the
    /// same one. On a single rank the same as [`run`](Self::run).
    ///
    /// # Errors
    /// As [`crate::run_across`], the same on every rank;
    /// [`Kind::ParametersDiffer`] names a number of tasks within which ranks have recorded different
    /// ones.
    pub fn run_across(&self, on: &dyn Executor) -> Result<Report, Error>
    where
        D: Wire,
    {
        match on.courier().n_ranks() {
            1 => self.run(on),
            _ => engine::run_across(self, on).map_err(|error| self.explained(error)),
        }
    }

    /// The first task that accesses a datum does not find it.
    #[cold]
    pub(super) fn not_at_home(&self, datum: u32) -> Error {
        let inserted = |flow: &&Flow| self.tasks[flow.task as usize].body.is_some();
        let mut flows = self.flows.iter().filter(|flow| flow.datum == datum);
        let first = flows.find(inserted);
        let task = first.map(|flow| format!("{:?}", self.label(flow.task)));
        let Origin { store, index, .. } = &self.origins[datum as usize];
        let text = format!(
            "a datum is to come from slot {index} of {}, which has {} slots: it does not exist or is \
             lent to another task",
            store.name(),
            store.len(),
        );
        Error::new(Kind::HomeEmpty, task, text)
    }

    /// The same error, its task named as the program does.
    fn explained(&self, error: Error) -> Error {
        error.renamed(|task| {
            let number = task.strip_prefix(STEP)?.parse().ok()?;
            let (name, number) = self.name_of(self.step(number));
            Some(format!("{name} {number}"))
        })
    }
}

/// How the `Debug` of a step begins.
const STEP: &str = "recorded task ";

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{STEP}{}", self.number)
    }
}

/// Bits of a packed name that hold the number.
const NUMBER_BITS: u32 = 32;

impl TaskName for Step {
    fn class(self) -> usize {
        self.class as usize
    }

    fn pack(self) -> Option<u64> {
        let packed = u64::from(self.class) << NUMBER_BITS | u64::from(self.number);
        (packed >> 55 == 0).then_some(packed)
    }

    fn unpack(packed: u64) -> Self {
        let (class, number) = ((packed >> NUMBER_BITS) as u32, packed as u32);
        Step { number, class }
    }

    fn to_wire(self) -> Option<WireName> {
        Some([self.number, self.class].into_iter().collect())
    }

    fn from_wire(words: &[u32]) -> Option<Self> {
        let &[number, class] = words else { return None };
        Some(Step { number, class })
    }
}

impl<D: Datum> TaskSpace for Recorded<'_, D> {
    type Task = Step;
    type Datum = D;

    fn describe(&self, about: &mut Description) {
        about.name(&self.name);
        about.parameter("ranks", self.n_ranks);
        for checkpoint in 0..CHECKPOINTS {
            let fingerprint = self.fingerprints.get(checkpoint as usize);
            let fingerprint = fingerprint.unwrap_or(&self.fingerprint);
            let name = format!("fingerprint of the first {} tasks", 1u64 << checkpoint);
            about.parameter(name, format_args!("{fingerprint:016x}"));
        }
        about.parameter("tasks", self.n_inserted);
        for class in &self.classes {
            let mut described = about.class(class.name);
            for (flow, changes) in class.changes.iter().enumerate() {
                let name = format!("DATUM{flow}");
                described = match changes {
                    true => described.update(&name),
                    false => described.read(&name),
                };
            }
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Step> + Send {
        let numbered = (0..).zip(&self.tasks);
        let here = numbered.filter(move |(_, task)| task.rank == on);
        here.map(|(number, task)| Step {
            number,
            class: task.class,
        })
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Step> + Send {
        let steps = self.roots.iter().map(|&number| self.step(number));
        steps.filter(move |&step| self.task(step).rank == on)
    }

    fn count(&self, on: Rank) -> u64 {
        self.counts.get(on.0 as usize).copied().unwrap_or(0)
    }

    fn inputs(&self, step: Step, from: &mut impl Inputs<Self>) {
        for (place, flow) in self.flows_of(step.number).iter().enumerate() {
            if flow.source == NONE {
                let origin = &self.origins[flow.datum as usize];
                from.home(place, origin.store, origin.index);
            } else {
                let source = self.flows[flow.source as usize].task;
                from.task(place, self.step(source), self.place(flow.source));
            }
        }
    }

    fn successors(&self, step: Step, to: &mut impl Successors<Self>) {
        let first = self.first_flow(step.number);
        for (place, flow) in self.flows_of(step.number).iter().enumerate() {
            let mut next = flow.first;
            while next != NONE {
                let follower = &self.flows[next as usize];
                to.task(place, self.step(follower.task), self.place(next));
                next = follower.next;
            }
            let origin = &self.origins[flow.datum as usize];
            if origin.last == first + place as u32 {
                to.home(place, origin.store, origin.index);
            }
        }
    }

    fn run(&self, step: Step, flows: &mut Flows<'_, D>) -> Result<(), TaskError> {
        let Some(body) = &self.task(step).body else {
            return Ok(());
        };
        let changes = &self.classes[step.class as usize].changes;
        let slots = flows.iter().zip(changes);
        body(&mut Loan::all(slots.map(|(slot, changes)| match changes {
            true => Loan::Write(slot.update()),
            false => Loan::Read(slot.read()),
        })))
    }

    fn rank(&self, step: Step) -> Rank {
        self.task(step).rank
    }

    fn priority(&self, step: Step) -> i64 {
        self.task(step).priority
    }
}

impl<D: Datum> fmt::Debug for Recorded<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("name", &self.name)
            .field("tasks", &self.n_inserted)
            .finish_non_exhaustive()
    }
}
