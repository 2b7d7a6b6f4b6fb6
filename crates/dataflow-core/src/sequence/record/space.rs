//! A recorded program as a task space.
//!
//! One that was recorded for one rank also has an [order](super::order), and [runs in place](super::replay).

use super::super::held::Label;
use super::accesses::Loan;
use super::graph::{Graph, NONE, RecordedTask};
use super::order::ReplayOrder;
use super::replay;
use crate::data::Datum;
use crate::engine::{self, Report};
use crate::error::{Error, TaskError};
use crate::port::{Executor, Wire};
use crate::rank::Rank;
use crate::space::{Description, Flows, Inputs, Successors, TaskName, TaskSpace};
use crate::wire::WireName;
use std::collections::BTreeMap;
use std::fmt;

/// A recorded task's name: its number in the order of recording, counted from 0, and its class.
///
/// # Examples
/// See the [module's](super) example: it is the task of a [`Recorded`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step {
    number: u32,
    class: u32,
}

/// See the [module](super).
///
/// # Examples
/// See the [module's](super) example, and [`Recorder`](super::Recorder#examples).
#[must_use = "no task runs until it is replayed"]
pub struct Recorded<'env, D: Datum> {
    pub(super) graph: Graph<'env, D>,
    /// The most urgent first.
    roots: Vec<u32>,
    /// Tasks of each rank that has any.
    counts: BTreeMap<Rank, u64>,
    /// The waits between tasks of a run in place, if there is only one rank.
    order: Option<ReplayOrder>,
}

/// After how many tasks, in powers of two, ranks compare what they have recorded.
const CHECKPOINTS: u32 = 32;

impl<'env, D: Datum> Recorded<'env, D> {
    /// All has been recorded.
    pub(super) fn of(graph: Graph<'env, D>) -> Self {
        let mut counts = BTreeMap::new();
        let mut roots = Vec::new();
        for (number, task) in (0u32..).zip(&graph.tasks) {
            *counts.entry(task.rank).or_default() += 1;
            let mut flows = graph.flows_of(number).iter();
            if flows.all(|flow| flow.source == NONE) {
                roots.push(number);
            }
        }
        graph.most_urgent_first(&mut roots);
        let order = (graph.n_ranks == 1).then(|| ReplayOrder::of(&graph));
        Recorded {
            graph,
            roots,
            counts,
            order,
        }
    }

    fn task(&self, step: Step) -> &RecordedTask<'env, D> {
        &self.graph.tasks[step.number as usize]
    }

    fn step(&self, number: u32) -> Step {
        let class = self.graph.tasks[number as usize].class;
        Step { number, class }
    }

    /// Tasks that the program has inserted, on all ranks.
    pub fn n_tasks(&self) -> u64 {
        self.graph.n_inserted
    }

    /// The name of a task in the program, and its number there.
    pub fn name_of(&self, step: Step) -> (&'static str, u64) {
        let Label { name, number, .. } = self.graph.label(step.number);
        (name, number)
    }

    /// Runs the program on one rank, any number of times; [in place](super#law), if it was recorded for
    /// one rank.
    ///
    /// # Errors
    /// As [`scope()`](super::super::scope()); and [`Kind::HomeEmpty`] if a datum that it accesses is not in
    /// its slot, [`Kind::NoSuchRank`] if it was recorded for several ranks and has tasks on others than the
    /// first, [`Kind::PutTwice`] if the slot of a datum that the run had was filled by hand.
    ///
    /// [`Kind::HomeEmpty`]: crate::error::Kind::HomeEmpty
    /// [`Kind::NoSuchRank`]: crate::error::Kind::NoSuchRank
    /// [`Kind::PutTwice`]: crate::error::Kind::PutTwice
    pub fn run(&self, on: &dyn Executor) -> Result<Report, Error> {
        self.begin()?;
        match &self.order {
            Some(order) => replay::run(&self.graph, order, on),
            None => engine::run(self, on),
        }
    }

    /// Runs this rank's part of the program, together with the other ranks, which have recorded the
    /// same one. On a single rank the same as [`run`](Self::run).
    ///
    /// # Errors
    /// As [`crate::run_across`], the same on every rank; [`Kind::ParametersDiffer`] names a number of tasks
    /// within which ranks have recorded different ones; [`Kind::NoSuchRank`] if it was recorded for more
    /// ranks than run it and has tasks on those.
    ///
    /// [`Kind::ParametersDiffer`]: crate::error::Kind::ParametersDiffer
    /// [`Kind::NoSuchRank`]: crate::error::Kind::NoSuchRank
    pub fn run_across(&self, on: &dyn Executor) -> Result<Report, Error>
    where
        D: Wire,
    {
        if on.courier().n_ranks() == 1 {
            return self.run(on);
        }
        self.begin()?;
        engine::run_across(self, on)
    }

    /// A run begins.
    fn begin(&self) -> Result<(), Error> {
        engine::refuse_inside_a_body()?;
        self.graph.forget_gathered();
        Ok(())
    }

    /// A text in which steps are told by the tasks of the program, and their flows by its data. It has no task
    /// that fetches a datum: this is told as the first task that reads the datum.
    fn told(&self, text: &str) -> String {
        let mut pieces = text.split(STEP);
        let mut told = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let behind = piece.trim_start_matches(|c: char| c.is_ascii_digit());
            let number = piece[..piece.len() - behind.len()].parse().ok();
            let is_there = |number: &u32| (*number as usize) < self.graph.tasks.len();
            let Some(number) = number.filter(is_there) else {
                told += STEP;
                told += piece;
                continue;
            };
            let task = self.graph.label(self.graph.inserted(number));
            match self.accessed(&told, number) {
                Some((length, datum)) => {
                    told.truncate(length);
                    told += &format!("datum {datum} of the program (accessed by {task:?}){behind}");
                }
                None => told += &format!("{task:?}{behind}"),
            }
        }
        told
    }

    /// The datum of the flow of a step that a text ends in, and how long the text before is.
    fn accessed(&self, text: &str, number: u32) -> Option<(usize, u32)> {
        let named = text.strip_suffix(" of ")?;
        let before = named.trim_end_matches(|c: char| c.is_ascii_digit());
        let flow: usize = named[before.len()..].parse().ok()?;
        let length = before.strip_suffix(FLOW)?.len();
        let flow = self.graph.flows_of(number).get(flow)?;
        Some((length, flow.datum))
    }
}

/// How the `Debug` of a step begins.
const STEP: &str = "recorded task ";

/// How the name of a flow begins.
const FLOW: &str = "DATUM";

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{STEP}{}", self.number)
    }
}

/// Bits of a packed name that hold the number.
const NUMBER_BITS: u32 = 32;

impl TaskName for Step {
    const IS_NUMBERED: bool = true;

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
    const CARRIES: bool = true;

    fn describe(&self, about: &mut Description) {
        about.name(&self.graph.name);
        // Of ranks without tasks none need be there.
        if let Some((last, _)) = self.counts.last_key_value() {
            about.ranks(u64::from(last.0) + 1);
        }
        about.parameter("ranks", self.graph.n_ranks);
        for checkpoint in 0..CHECKPOINTS {
            let fingerprint = self.graph.fingerprints.get(checkpoint as usize);
            let fingerprint = fingerprint.unwrap_or(&self.graph.fingerprint);
            let first = 1u64 << checkpoint;
            let name = format!("fingerprint of the recorded program's first {first} tasks");
            about.parameter(name, format_args!("{fingerprint:016x}"));
        }
        about.parameter("tasks", self.graph.n_inserted);
        for class in &self.graph.classes {
            let mut described = about.class(class.name);
            for (flow, changes) in class.changes.iter().enumerate() {
                let name = format!("{FLOW}{flow}");
                described = match changes {
                    true => described.update(&name),
                    false => described.read(&name),
                };
            }
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Step> + Send {
        let numbered = (0..).zip(&self.graph.tasks);
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
        self.counts.get(&on).copied().unwrap_or(0)
    }

    fn inputs(&self, step: Step, from: &mut impl Inputs<Self>) {
        for (place, flow) in self.graph.flows_of(step.number).iter().enumerate() {
            if flow.source == NONE {
                let origin = &self.graph.origins[flow.datum as usize];
                from.home(place, origin.store, origin.index);
            } else {
                let source = self.graph.flows[flow.source as usize].task;
                from.task(place, self.step(source), self.graph.place(flow.source));
            }
        }
    }

    fn successors(&self, step: Step, to: &mut impl Successors<Self>) {
        let first = self.graph.first_flow(step.number);
        for (place, flow) in self.graph.flows_of(step.number).iter().enumerate() {
            let mut next = flow.first;
            while next != NONE {
                let follower = &self.graph.flows[next as usize];
                to.task(place, self.step(follower.task), self.graph.place(next));
                next = follower.next;
            }
            let origin = &self.graph.origins[flow.datum as usize];
            if origin.last == first + place as u32 {
                to.home(place, origin.store, origin.index);
            }
        }
    }

    fn run(&self, step: Step, flows: &mut Flows<'_, D>) -> Result<(), TaskError> {
        let Some(body) = &self.task(step).body else {
            return Ok(());
        };
        let changes = &self.graph.classes[step.class as usize].changes;
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

    fn explained(&self, error: Error) -> Error {
        error.told(|text| self.told(text))
    }

    fn named_by(&self, words: &[u32]) -> Option<Step> {
        let step = Step::from_wire(words)?;
        let task = self.graph.tasks.get(step.number as usize)?;
        (task.class == step.class).then_some(step)
    }
}

impl<D: Datum> fmt::Debug for Recorded<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("name", &self.graph.name)
            .field("tasks", &self.graph.n_inserted)
            .finish_non_exhaustive()
    }
}
