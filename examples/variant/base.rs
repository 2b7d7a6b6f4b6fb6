//! Base: communicate, then compute.
//!
//! # Law
//! `Begin { round, rank }` reads all that tasks of its round get from other ranks, and waits for all
//! tasks of the round before on its own; every task of the round waits for it. So nothing travels
//! while a rank computes what could have hidden it.
//!
//! Who waits for whom is kept in tables, on every rank, in proportion to the space.

use super::Rounds;
use dataflow::core::space::{Class, Mode, TaskName};
use dataflow::core::wire::WireName;
use dataflow::prelude::*;
use std::collections::BTreeMap;

/// A task of the space, or the beginning of a round on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step<T> {
    Begin { round: u32, rank: u32 },
    Task(T),
}
use Step::{Begin, Task};

/// Set in the packed name of a beginning; names of tasks that have it take the longer way.
const IS_BEGIN: u64 = 1 << 54;
const RANK_BITS: u32 = 24;

impl<T: TaskName> TaskName for Step<T> {
    fn class(self) -> usize {
        match self {
            Begin { .. } => 0,
            Task(task) => 1 + task.class(),
        }
    }

    fn pack(self) -> Option<u64> {
        match self {
            Begin { round, rank } => {
                let fits = round >> 30 == 0 && rank >> RANK_BITS == 0;
                let packed = u64::from(round) << RANK_BITS | u64::from(rank);
                fits.then_some(IS_BEGIN | packed)
            }
            Task(task) => task.pack().filter(|packed| packed & IS_BEGIN == 0),
        }
    }

    fn unpack(packed: u64) -> Self {
        match packed & IS_BEGIN {
            0 => Task(T::unpack(packed)),
            _ => Begin {
                round: ((packed & !IS_BEGIN) >> RANK_BITS) as u32,
                rank: packed as u32 & ((1 << RANK_BITS) - 1),
            },
        }
    }

    fn to_wire(self) -> Option<WireName> {
        match self {
            Begin { round, rank } => Some([0, round, rank].into_iter().collect()),
            Task(task) => {
                let name = task.to_wire()?;
                Some(std::iter::once(1).chain(name).collect())
            }
        }
    }

    fn from_wire(words: &[u32]) -> Option<Self> {
        match *words {
            [0, round, rank] => Some(Begin { round, rank }),
            [1, ref name @ ..] => T::from_wire(name).map(Task),
            _ => None,
        }
    }
}

/// A round on a rank.
struct Round<T> {
    /// Its tasks there, sorted.
    tasks: Vec<T>,
    /// What they get from other ranks: its kind, task and flow, sorted.
    from: Vec<(&'static str, T, usize)>,
}

/// The space with a beginning of each round.
pub struct Base<'s, S: Rounds> {
    space: &'s S,
    classes: Vec<Class>,
    rounds: BTreeMap<(u32, u32), Round<S::Task>>,
    /// Flows of a beginning that hear of tasks.
    n_done: usize,
    /// Flows of a beginning that hear from other ranks, of each kind of data.
    n_data: BTreeMap<&'static str, usize>,
}

/// The flow by which a beginning tells that a round may begin.
const BEGIN: usize = 0;
/// The first of the flows by which it hears what has ended: the beginning before, then tasks.
const DONE: usize = 1;

impl<'s, S: Rounds> Base<'s, S> {
    /// Finds the rounds of a space.
    pub fn new(space: &'s S) -> Self {
        let mut about = Description::default();
        space.describe(&mut about);
        let classes = about.classes().to_vec();
        let mut rounds = BTreeMap::new();
        for rank in 0..space.n_ranks() {
            for round in 0..space.n_rounds() {
                let (tasks, from) = (Vec::new(), Vec::new());
                rounds.insert((round, rank), Round { tasks, from });
            }
            for task in space.tasks(Rank(rank)) {
                let Some(round) = rounds.get_mut(&(space.round(task), rank)) else {
                    panic!(
                        "{task:?} is of round {}, of {}",
                        space.round(task),
                        space.n_rounds()
                    );
                };
                let classes = &classes;
                let from = &mut round.from;
                space.inputs(
                    task,
                    &mut Remote {
                        space,
                        rank,
                        classes,
                        from,
                    },
                );
                round.tasks.push(task);
            }
        }
        for round in rounds.values_mut() {
            round.tasks.sort_unstable();
            round.from.sort_unstable();
            round.from.dedup();
        }
        let mut n_data = BTreeMap::new();
        for round in rounds.values() {
            for of_kind in round.from.chunk_by(|a, b| a.0 == b.0) {
                let most = n_data.entry(of_kind[0].0).or_default();
                *most = of_kind.len().max(*most);
            }
        }
        Base {
            n_done: 1 + rounds
                .values()
                .map(|round| round.tasks.len())
                .max()
                .unwrap_or(0),
            n_data,
            space,
            classes,
            rounds,
        }
    }

    fn of(&self, round: u32, rank: u32) -> &Round<S::Task> {
        &self.rounds[&(round, rank)]
    }

    /// The flow of a task that only orders: it hears from the beginning, and tells the next one.
    fn order(&self, task: S::Task) -> usize {
        self.classes[task.class()].flows.len()
    }

    /// The flow by which a beginning hears of a task of the round before.
    fn done(&self, task: S::Task) -> usize {
        let Rank(rank) = self.space.rank(task);
        let at = self
            .of(self.space.round(task), rank)
            .tasks
            .binary_search(&task);
        DONE + 1 + at.unwrap_or_else(|_| unreachable!("{task:?} is of its round"))
    }

    /// The flow by which a beginning gets a datum from another rank; `None` if it needs none.
    fn data(&self, (round, rank): (u32, u32), (task, flow): (S::Task, usize)) -> Option<usize> {
        let from = &self.of(round, rank).from;
        let kind = self.classes[task.class()].flows[flow].kind;
        let at = from.binary_search(&(kind, task, flow)).ok()?;
        let first = from.partition_point(|other| other.0 < kind);
        let before: usize = self.n_data.range(..kind).map(|(_, count)| count).sum();
        Some(DONE + self.n_done + before + at - first)
    }
}

/// Hears of the inputs that come from other ranks and carry something.
struct Remote<'v, S: Rounds> {
    space: &'v S,
    rank: u32,
    classes: &'v [Class],
    from: &'v mut Vec<(&'static str, S::Task, usize)>,
}

impl<S: Rounds> Inputs<S> for Remote<'_, S> {
    fn task(&mut self, _: usize, source: S::Task, flow: usize) {
        let shown = &self.classes[source.class()].flows[flow];
        if shown.mode != Mode::Order && self.space.rank(source) != Rank(self.rank) {
            self.from.push((shown.kind, source, flow));
        }
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

/// Passes on the edges of a task, and notes those that leave its rank.
struct Through<'v, S: Rounds, V> {
    space: &'v S,
    rank: Rank,
    to: &'v mut V,
    /// Round and rank of the target, and the flow.
    leaving: Vec<((u32, u32), usize)>,
}

impl<'s, S: Rounds + 's, V: Inputs<Base<'s, S>>> Inputs<S> for Through<'_, S, V> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.to.task(flow, Task(source), source_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.to.home(flow, store, index);
    }
}

impl<'s, S: Rounds + 's, V: Successors<Base<'s, S>>> Successors<S> for Through<'_, S, V> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        let rank = self.space.rank(target);
        if rank != self.rank {
            self.leaving
                .push(((self.space.round(target), rank.0), flow));
        }
        self.to.task(flow, Task(target), target_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.to.home(flow, store, index);
    }
}

impl<S: Rounds> TaskSpace for Base<'_, S> {
    type Task = Step<S::Task>;
    type Datum = S::Datum;

    fn describe(&self, about: &mut Description) {
        let mut own = Description::default();
        self.space.describe(&mut own);
        about.name(own.space_name()).parameter("variant", "base");
        for (name, value) in own.parameters() {
            about.parameter(name, value);
        }
        let mut begin = about.class("Begin").order("BEGIN");
        for at in 0..self.n_done {
            begin = begin.order(&format!("DONE {at}"));
        }
        for (kind, &count) in &self.n_data {
            for at in 0..count {
                begin = begin.optional(&format!("DATA {kind} {at}")).of(kind);
            }
        }
        for class in &self.classes {
            let mut copy = about.class(&class.name);
            for flow in &class.flows {
                copy = match flow.mode {
                    Mode::Read => copy.read(&flow.name),
                    Mode::Optional => copy.optional(&flow.name),
                    Mode::Update => copy.update(&flow.name),
                    Mode::New => copy.new_flow(&flow.name),
                    Mode::Order => copy.order(&flow.name),
                };
                copy = copy.of(flow.kind);
            }
            copy.order("BEGIN");
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Self::Task> + Send {
        let n_rounds = match on.0 < self.space.n_ranks() {
            true => self.space.n_rounds(),
            false => 0,
        };
        let begins = (1..n_rounds).map(move |round| Begin { round, rank: on.0 });
        begins.chain(self.space.tasks(on).map(Task))
    }

    fn inputs(&self, step: Self::Task, from: &mut impl Inputs<Self>) {
        let space = self.space;
        match step {
            Task(task) => {
                let (round, rank) = (space.round(task), space.rank(task));
                let leaving = Vec::new();
                space.inputs(
                    task,
                    &mut Through {
                        space,
                        rank,
                        to: from,
                        leaving,
                    },
                );
                if round > 0 {
                    from.task(
                        self.order(task),
                        Begin {
                            round,
                            rank: rank.0,
                        },
                        BEGIN,
                    );
                }
            }
            Begin { round, rank } => {
                if round > 1 {
                    from.task(
                        DONE,
                        Begin {
                            round: round - 1,
                            rank,
                        },
                        BEGIN,
                    );
                }
                for (at, &task) in self.of(round - 1, rank).tasks.iter().enumerate() {
                    from.task(DONE + 1 + at, Task(task), self.order(task));
                }
                for &(_, task, flow) in &self.of(round, rank).from {
                    if let Some(data) = self.data((round, rank), (task, flow)) {
                        from.task(data, Task(task), flow);
                    }
                }
            }
        }
    }

    fn successors(&self, step: Self::Task, to: &mut impl Successors<Self>) {
        let space = self.space;
        let is_round = |round: &u32| *round < space.n_rounds();
        match step {
            Task(task) => {
                let (round, rank) = (space.round(task), space.rank(task));
                let leaving = Vec::new();
                let mut through = Through {
                    space,
                    rank,
                    to,
                    leaving,
                };
                space.successors(task, &mut through);
                let mut leaving = through.leaving;
                leaving.sort_unstable();
                leaving.dedup();
                for (place, flow) in leaving {
                    if let Some(data) = self.data(place, (task, flow)) {
                        let (round, rank) = place;
                        to.task(flow, Begin { round, rank }, data);
                    }
                }
                if let Some(round) = Some(round + 1).filter(is_round) {
                    let begin = Begin {
                        round,
                        rank: rank.0,
                    };
                    to.task(self.order(task), begin, self.done(task));
                }
            }
            Begin { round, rank } => {
                if let Some(round) = Some(round + 1).filter(is_round) {
                    to.task(BEGIN, Begin { round, rank }, DONE);
                }
                for &task in &self.of(round, rank).tasks {
                    to.task(BEGIN, Task(task), self.order(task));
                }
            }
        }
    }

    fn run(&self, step: Self::Task, flows: &mut Flows<'_, S::Datum>) -> Result<(), TaskError> {
        match step {
            Task(task) => self.space.run(task, &mut flows.first(self.order(task))),
            Begin { .. } => Ok(()),
        }
    }

    fn rank(&self, step: Self::Task) -> Rank {
        match step {
            Task(task) => self.space.rank(task),
            Begin { rank, .. } => Rank(rank),
        }
    }

    fn priority(&self, step: Self::Task) -> i64 {
        match step {
            Task(task) => self.space.priority(task),
            Begin { .. } => i64::MAX,
        }
    }
}
