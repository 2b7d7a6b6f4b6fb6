//! Base: compute, then communicate.
//!
//! # Law
//! What tasks of a round make for other ranks waits in `End { round, rank }` until all of them have
//! ended. `Begin { round, rank }` reads all that its rank gets from other ranks for this round, and every
//! task of the round waits for it. So nothing travels while a rank computes what could have hidden it.
//!
//! Who waits for whom is kept in tables, on every rank, in proportion to the space.

use super::Rounds;
use dataflow::core::space::{Class, Flow, Mode, TaskName};
use dataflow::core::wire::WireName;
use dataflow::prelude::*;

/// A task of the space, or the beginning or the end of a round on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RoundTask<T> {
    Begin { round: u32, rank: u32 },
    End { round: u32, rank: u32 },
    Task(T),
}
use RoundTask::{Begin, End, Task};

/// Set in the packed name of a beginning and of an end; names of tasks that have it take the longer way.
const IS_JOINT: u64 = 1 << 54;
const IS_END: u64 = 1 << 53;
const RANK_BITS: u32 = 24;

/// The packed name of a beginning, if it fits.
fn packed(round: u32, rank: u32) -> Option<u64> {
    let fits = round >> 29 == 0 && rank >> RANK_BITS == 0;
    fits.then_some(IS_JOINT | u64::from(round) << RANK_BITS | u64::from(rank))
}

impl<T: TaskName> TaskName for RoundTask<T> {
    fn class(self) -> usize {
        match self {
            Begin { .. } => 0,
            End { .. } => 1,
            Task(task) => 2 + task.class(),
        }
    }

    fn pack(self) -> Option<u64> {
        match self {
            Begin { round, rank } => packed(round, rank),
            End { round, rank } => packed(round, rank).map(|packed| packed | IS_END),
            Task(task) => task.pack().filter(|packed| packed & IS_JOINT == 0),
        }
    }

    fn unpack(packed: u64) -> Self {
        if packed & IS_JOINT == 0 {
            return Task(T::unpack(packed));
        }
        let round = ((packed & !(IS_JOINT | IS_END)) >> RANK_BITS) as u32;
        let rank = packed as u32 & ((1 << RANK_BITS) - 1);
        match packed & IS_END {
            0 => Begin { round, rank },
            _ => End { round, rank },
        }
    }

    fn to_wire(self) -> Option<WireName> {
        match self {
            Begin { round, rank } => Some([0, round, rank].into_iter().collect()),
            End { round, rank } => Some([1, round, rank].into_iter().collect()),
            Task(task) => {
                let name = task.to_wire()?;
                Some(std::iter::once(2).chain(name).collect())
            }
        }
    }

    fn from_wire(words: &[u32]) -> Option<Self> {
        match *words {
            [0, round, rank] => Some(Begin { round, rank }),
            [1, round, rank] => Some(End { round, rank }),
            [2, ref name @ ..] => T::from_wire(name).map(Task),
            _ => None,
        }
    }
}

/// A datum that goes to other ranks: the number of its kind, the task that makes it, and its flow there.
type LeavingDatum<T> = (usize, T, usize);

/// A round on a rank.
struct Round<T> {
    /// Its tasks there, sorted.
    tasks: Vec<T>,
    /// What they get from other ranks, sorted.
    from: Vec<LeavingDatum<T>>,
    /// What they make for other ranks, sorted.
    to: Vec<LeavingDatum<T>>,
}

impl<T> Default for Round<T> {
    fn default() -> Self {
        let (tasks, from, to) = (Vec::new(), Vec::new(), Vec::new());
        Round { tasks, from, to }
    }
}

/// How many flows there are at most for data of each kind.
type Widths = Vec<usize>;

/// The space with a beginning and an end of each round.
pub struct Base<'s, S: Rounds> {
    space: &'s S,
    classes: Vec<Class>,
    kinds: Kinds,
    /// By rank and round.
    rounds: Vec<Round<S::Task>>,
    /// Flows of an end that hear of tasks.
    n_done: usize,
    /// Flows of a beginning that hear from other ranks, and of an end that hear of what leaves.
    n_from: Widths,
    n_to: Widths,
}

/// The flow by which a beginning tells that a round may begin, and an end that it has ended.
const TOLD: usize = 0;
/// The flow by which a beginning hears of the end before, and an end of its beginning.
const HEARD: usize = 1;
/// The first flow of a beginning or an end that carries data. Of an end they come before those that hear of
/// tasks, which are far more: flows that leave a rank have numbers of 16 bits.
const MORE: usize = 2;

impl<'s, S: Rounds> Base<'s, S> {
    /// Bytes of the tables, at least: what travels is known when they are made.
    pub fn bytes(space: &S) -> u128 {
        let n_ranks = space.n_ranks();
        let n_rounds = u128::from(n_ranks) * u128::from(space.n_rounds());
        let n_tasks: u64 = (0..n_ranks).map(|rank| space.count(Rank(rank))).sum();
        let tasks = u128::from(n_tasks) * size_of::<S::Task>() as u128;
        tasks + n_rounds * size_of::<Round<S::Task>>() as u128
    }

    /// Finds the rounds of a space.
    pub fn new(space: &'s S) -> Self {
        let mut about = Description::default();
        space.describe(&mut about);
        let classes = about.classes().to_vec();
        let kinds = Kinds::of(&classes);
        let mut rounds = Vec::new();
        for rank in 0..space.n_ranks() {
            let first = rounds.len();
            rounds.resize_with(first + space.n_rounds() as usize, Round::default);
            for task in space.tasks(Rank(rank)) {
                let number = space.round(task);
                let Some(round) = rounds[first..].get_mut(number as usize) else {
                    panic!("{task:?} is of round {number}, of {}", space.n_rounds());
                };
                let mut remote = Remote {
                    space,
                    kinds: &kinds,
                    task,
                    from: &mut round.from,
                    to: &mut round.to,
                };
                space.inputs(task, &mut remote);
                space.successors(task, &mut remote);
                round.tasks.push(task);
            }
        }
        for round in &mut rounds {
            round.tasks.sort_unstable();
            for data in [&mut round.from, &mut round.to] {
                data.sort_unstable();
                data.dedup();
            }
        }
        let n_tasks = rounds.iter().map(|round| round.tasks.len());
        Base {
            n_done: n_tasks.max().unwrap_or(0),
            n_from: kinds.widths(rounds.iter().map(|round| &round.from[..])),
            n_to: kinds.widths(rounds.iter().map(|round| &round.to[..])),
            space,
            classes,
            kinds,
            rounds,
        }
    }

    fn of(&self, round: u32, rank: u32) -> &Round<S::Task> {
        &self.rounds[rank as usize * self.space.n_rounds() as usize + round as usize]
    }

    /// The flow of a task that only orders: it hears from the beginning, and tells the end.
    fn order(&self, task: S::Task) -> usize {
        self.classes[task.class()].flows.len()
    }

    /// The round and the rank of a task.
    fn place(&self, task: S::Task) -> (u32, u32) {
        (self.space.round(task), self.space.rank(task).0)
    }

    /// The flow by which the end of its round hears of a task.
    fn done(&self, task: S::Task) -> usize {
        let (round, rank) = self.place(task);
        let at = self.of(round, rank).tasks.binary_search(&task);
        let at = at.unwrap_or_else(|_| unreachable!("{task:?} is of its round"));
        MORE + self.n_to.iter().sum::<usize>() + at
    }

    /// The end that hands on what a task makes for other ranks, and by which of its flows.
    fn end(&self, task: S::Task, flow: usize) -> (RoundTask<S::Task>, usize) {
        let (round, rank) = self.place(task);
        let datum = (self.kinds.of_flow(task.class(), flow), task, flow);
        let at = flow_of(&self.of(round, rank).to, &self.n_to, datum);
        let at = at.unwrap_or_else(|| unreachable!("{task:?} makes it for others"));
        (End { round, rank }, MORE + at)
    }

    /// The beginning that waits for what a task makes, and by which of its flows; `None` if none does.
    fn begin(
        &self,
        (round, rank): (u32, u32),
        (task, flow): (S::Task, usize),
    ) -> Option<(RoundTask<S::Task>, usize)> {
        let datum = (self.kinds.of_flow(task.class(), flow), task, flow);
        let at = flow_of(&self.of(round, rank).from, &self.n_from, datum)?;
        Some((Begin { round, rank }, MORE + at))
    }

    /// Whether a datum goes from a task to one on another rank.
    fn leaves(&self, source: S::Task, flow: usize, target: S::Task) -> bool {
        let carries = self.kinds.of_flow(source.class(), flow) != ORDER;
        carries && self.space.rank(source) != self.space.rank(target)
    }
}

/// The kinds of data that flow.
struct Kinds {
    names: Vec<&'static str>,
    /// By class and flow: the number of the kind.
    of_flows: Vec<Vec<usize>>,
}

/// The kind of a flow that only orders.
const ORDER: usize = usize::MAX;

impl Kinds {
    fn of(classes: &[Class]) -> Self {
        let flows = || classes.iter().flat_map(|class| &class.flows);
        let mut names: Vec<_> = flows().map(|flow| flow.kind).collect();
        names.sort_unstable();
        names.dedup();
        let number = |flow: &Flow| match flow.mode {
            Mode::Order => ORDER,
            _ => names.partition_point(|name| *name < flow.kind),
        };
        let numbers = |class: &Class| class.flows.iter().map(number).collect();
        let of_flows = classes.iter().map(numbers).collect();
        Kinds { names, of_flows }
    }

    fn of_flow(&self, class: usize, flow: usize) -> usize {
        self.of_flows[class][flow]
    }

    /// How many data of each kind there are at most.
    fn widths<'r, T: 'r + Copy>(
        &self,
        rounds: impl Iterator<Item = &'r [LeavingDatum<T>]>,
    ) -> Widths {
        let mut widths = vec![0; self.names.len()];
        for data in rounds {
            for of_kind in data.chunk_by(|a, b| a.0 == b.0) {
                let most: &mut usize = &mut widths[of_kind[0].0];
                *most = of_kind.len().max(*most);
            }
        }
        widths
    }

    /// Each kind as often as it has flows, which are counted.
    fn each(&self, widths: &Widths) -> impl Iterator<Item = (&'static str, usize)> {
        let kinds = self.names.iter().zip(widths);
        kinds.flat_map(|(&kind, &count)| (0..count).map(move |at| (kind, at)))
    }
}

/// The place of a datum among flows that are sorted by kind.
fn flow_of<T: Ord>(
    data: &[LeavingDatum<T>],
    widths: &Widths,
    datum: LeavingDatum<T>,
) -> Option<usize> {
    let at = data.binary_search(&datum).ok()?;
    let first = data.partition_point(|other| other.0 < datum.0);
    let before: usize = widths[..datum.0].iter().sum();
    Some(before + at - first)
}

/// Hears of the data that a task gets from other ranks, and of those that it makes for them.
struct Remote<'v, S: Rounds> {
    space: &'v S,
    kinds: &'v Kinds,
    task: S::Task,
    from: &'v mut Vec<LeavingDatum<S::Task>>,
    to: &'v mut Vec<LeavingDatum<S::Task>>,
}

impl<S: Rounds> Remote<'_, S> {
    /// What leaves its rank on the way from one to the other.
    fn leaving(
        &self,
        source: S::Task,
        flow: usize,
        target: S::Task,
    ) -> Option<LeavingDatum<S::Task>> {
        let kind = self.kinds.of_flow(source.class(), flow);
        let leaves = self.space.rank(source) != self.space.rank(target);
        (leaves && kind != ORDER).then_some((kind, source, flow))
    }
}

impl<S: Rounds> Inputs<S> for Remote<'_, S> {
    fn task(&mut self, _: usize, source: S::Task, flow: usize) {
        let leaving = self.leaving(source, flow, self.task);
        self.from.extend(leaving);
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

impl<S: Rounds> Successors<S> for Remote<'_, S> {
    fn task(&mut self, flow: usize, target: S::Task, _: usize) {
        let leaving = self.leaving(self.task, flow, target);
        self.to.extend(leaving);
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

/// Passes on the edges of a task; data for other ranks go by the end of its round.
struct ByEnds<'v, 's, S: Rounds, V> {
    base: &'v Base<'s, S>,
    task: S::Task,
    to: &'v mut V,
    /// Flows whose data leave the rank.
    leaving: Vec<usize>,
}

impl<'s, S: Rounds + 's, V: Inputs<Base<'s, S>>> Inputs<S> for ByEnds<'_, 's, S, V> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        let (source, source_flow) = match self.base.leaves(source, source_flow, self.task) {
            true => self.base.end(source, source_flow),
            false => (Task(source), source_flow),
        };
        self.to.task(flow, source, source_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.to.home(flow, store, index);
    }
}

impl<'s, S: Rounds + 's, V: Successors<Base<'s, S>>> Successors<S> for ByEnds<'_, 's, S, V> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        match self.base.leaves(self.task, flow, target) {
            true => self.leaving.push(flow),
            false => self.to.task(flow, Task(target), target_flow),
        }
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.to.home(flow, store, index);
    }
}

/// Passes on where one datum of a task goes on other ranks, as an output of an end.
struct Onward<'v, 's, S: Rounds, V> {
    base: &'v Base<'s, S>,
    /// The task, its flow, and that of the end.
    of: (S::Task, usize, usize),
    to: &'v mut V,
    /// Rounds and ranks of those who get it.
    places: Vec<(u32, u32)>,
}

impl<'s, S: Rounds + 's, V: Successors<Base<'s, S>>> Successors<S> for Onward<'_, 's, S, V> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        let (task, own, of_end) = self.of;
        if flow == own && self.base.leaves(task, flow, target) {
            self.places.push(self.base.place(target));
            self.to.task(of_end, Task(target), target_flow);
        }
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

impl<S: Rounds> TaskSpace for Base<'_, S> {
    type Task = RoundTask<S::Task>;
    type Datum = S::Datum;

    fn describe(&self, about: &mut Description) {
        let mut own = Description::default();
        self.space.describe(&mut own);
        about.name(own.space_name()).parameter("variant", "base");
        for (name, value) in own.parameters() {
            about.parameter(name, value);
        }
        let mut begin = about.class("Begin").order("TOLD").order("HEARD");
        for (kind, at) in self.kinds.each(&self.n_from) {
            begin = begin.optional(&format!("DATA {kind} {at}")).of(kind);
        }
        let mut end = about.class("End").order("TOLD").order("HEARD");
        for (kind, at) in self.kinds.each(&self.n_to) {
            end = end.optional(&format!("DATA {kind} {at}")).of(kind);
        }
        for at in 0..self.n_done {
            end = end.order(&format!("DONE {at}"));
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
            copy.order("ROUND");
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Self::Task> + Send {
        let n_rounds = match on.0 < self.space.n_ranks() {
            true => self.space.n_rounds(),
            false => 0,
        };
        let begins = (1..n_rounds).map(move |round| Begin { round, rank: on.0 });
        let ends = (0..n_rounds).map(move |round| End { round, rank: on.0 });
        let joints = begins.chain(ends);
        joints.chain(self.space.tasks(on).map(Task))
    }

    fn inputs(&self, step: Self::Task, from: &mut impl Inputs<Self>) {
        match step {
            Task(task) => {
                let (base, to, leaving) = (self, &mut *from, Vec::new());
                let mut through = ByEnds {
                    base,
                    task,
                    to,
                    leaving,
                };
                self.space.inputs(task, &mut through);
                let (round, rank) = self.place(task);
                if round > 0 {
                    from.task(self.order(task), Begin { round, rank }, TOLD);
                }
            }
            Begin { round, rank } => {
                let before = round - 1;
                from.task(
                    HEARD,
                    End {
                        round: before,
                        rank,
                    },
                    TOLD,
                );
                for &(_, task, flow) in &self.of(round, rank).from {
                    if let Some((_, data)) = self.begin((round, rank), (task, flow)) {
                        let (end, of_end) = self.end(task, flow);
                        from.task(data, end, of_end);
                    }
                }
            }
            End { round, rank } => {
                if round > 0 {
                    from.task(HEARD, Begin { round, rank }, TOLD);
                }
                for &task in &self.of(round, rank).tasks {
                    from.task(self.done(task), Task(task), self.order(task));
                }
                for &(_, task, flow) in &self.of(round, rank).to {
                    from.task(self.end(task, flow).1, Task(task), flow);
                }
            }
        }
    }

    fn successors(&self, step: Self::Task, to: &mut impl Successors<Self>) {
        match step {
            Task(task) => {
                let leaving = Vec::new();
                let mut through = ByEnds {
                    base: self,
                    task,
                    to: &mut *to,
                    leaving,
                };
                self.space.successors(task, &mut through);
                let mut leaving = through.leaving;
                leaving.sort_unstable();
                leaving.dedup();
                for flow in leaving {
                    let (end, of_end) = self.end(task, flow);
                    to.task(flow, end, of_end);
                }
                let (round, rank) = self.place(task);
                to.task(self.order(task), End { round, rank }, self.done(task));
            }
            Begin { round, rank } => {
                to.task(TOLD, End { round, rank }, HEARD);
                for &task in &self.of(round, rank).tasks {
                    to.task(TOLD, Task(task), self.order(task));
                }
            }
            End { round, rank } => {
                let next = round + 1;
                if next < self.space.n_rounds() {
                    to.task(TOLD, Begin { round: next, rank }, HEARD);
                }
                for &(_, task, flow) in &self.of(round, rank).to {
                    self.onward((task, flow, self.end(task, flow).1), to);
                }
            }
        }
    }

    fn run(&self, step: Self::Task, flows: &mut Flows<'_, S::Datum>) -> Result<(), TaskError> {
        match step {
            Task(task) => self.space.run(task, &mut flows.first(self.order(task))),
            Begin { .. } | End { .. } => Ok(()),
        }
    }

    fn rank(&self, step: Self::Task) -> Rank {
        match step {
            Task(task) => self.space.rank(task),
            Begin { rank, .. } | End { rank, .. } => Rank(rank),
        }
    }

    fn priority(&self, step: Self::Task) -> i64 {
        match step {
            Task(task) => self.space.priority(task),
            Begin { .. } | End { .. } => i64::MAX,
        }
    }
}

impl<S: Rounds> Base<'_, S> {
    /// Where an end hands on a datum of a task, which it has in a flow.
    fn onward(&self, of: (S::Task, usize, usize), to: &mut impl Successors<Self>) {
        let (task, flow, of_end) = of;
        let (base, places) = (self, Vec::new());
        let mut onward = Onward {
            base,
            of,
            to: &mut *to,
            places,
        };
        self.space.successors(task, &mut onward);
        let mut places = onward.places;
        places.sort_unstable();
        places.dedup();
        for place in places {
            if let Some((begin, data)) = self.begin(place, (task, flow)) {
                to.task(of_end, begin, data);
            }
        }
    }
}
