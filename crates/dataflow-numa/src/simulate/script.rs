//! Script: what is played: the initialisation of data, then a task space.
//!
//! # Law
//! A datum lies where it was touched first and stays there, whoever changes it. A task becomes
//! ready when every input that its space names has arrived.

use super::machine::{Beginner, Script};
use super::{Costs, SimulateError, Ties};
use crate::crew::Crew;
use crate::policy::{Hint, Ready, most_bytes};
use dataflow_core::data::Store;
use dataflow_core::port::Word;
use dataflow_core::rank::Rank;
use dataflow_core::space::{Description, Inputs, Mode, Successors, TaskName, TaskSpace};
use dataflow_core::trace::{Schedule, Span};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// A task per datum, which touches it first.
pub(super) struct Initialise {
    homes: Vec<usize>,
    seconds: f64,
}

impl Initialise {
    pub fn new(n: usize, seconds: f64) -> Self {
        Initialise {
            homes: vec![0; n],
            seconds,
        }
    }

    /// The NUMA node of each datum.
    pub fn into_homes(self) -> Vec<usize> {
        self.homes
    }
}

impl Script for Initialise {
    fn roots(&mut self, ready: &mut Vec<Ready>) {
        let task = |word| Ready::new(word, 0).with_hint(Hint::Initialises);
        ready.extend((0..self.homes.len() as Word).map(task));
    }

    fn begin(&mut self, word: Word, by: Beginner<'_>) -> f64 {
        self.homes[word as usize] = by.numa_node;
        self.seconds
    }

    fn end(&mut self, _: Word, _: usize, _: &mut Vec<Ready>) {}
}

/// Where the data of a task lie, by flow; `None`: it carries nothing, or nothing yet.
type DataByFlow = Vec<Option<usize>>;

/// A task space, its tasks numbered as they become known.
pub(super) struct NumberedSpace<'g, S: TaskSpace> {
    space: &'g S,
    description: Description,
    costs: &'g Costs,
    /// What a byte costs, from the first node to the second.
    bytes: Vec<Vec<f64>>,
    /// The number of each slot that a task takes from home: store by its address, index.
    slots: HashMap<(usize, usize), usize>,
    /// Where each of them lies.
    homes: Vec<usize>,
    /// Inputs still missing, and data that have come.
    waiting: HashMap<S::Task, (usize, DataByFlow)>,
    /// Ready or running, by word; free places are used again.
    tasks: Vec<Option<(S::Task, DataByFlow)>>,
    free: Vec<usize>,
    /// Sum of seconds and number of tasks, by class.
    spent: Vec<(f64, u64)>,
    /// The tasks that the space lists, and those that ended.
    listed: Tally,
    ended: Tally,
    /// Another rank to which an edge leads.
    other_rank: Option<Rank>,
    /// What ran when, if that is asked for.
    pub schedule: Option<&'g mut Schedule>,
}

fn address<D: dataflow_core::data::Datum>(store: &Store<D>) -> usize {
    std::ptr::from_ref(store).addr()
}

/// How many tasks, and the sum of the hashes of their names: of two lists the same if each names the same
/// tasks as often.
#[derive(Clone, Copy, Default, PartialEq)]
struct Tally {
    tasks: u64,
    hashes: u64,
}

impl Tally {
    fn add(&mut self, task: impl Hash) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(task);
        self.tasks += 1;
        self.hashes = self.hashes.wrapping_add(hash);
    }
}

/// Which other rank a task is on, if it is on one.
fn other_rank<S: TaskSpace>(space: &S, task: S::Task) -> Option<Rank> {
    Some(space.rank(task)).filter(|&rank| rank != Rank(0))
}

/// Lists the slots that tasks take from home, and notes another rank from which a task takes something.
struct Slots<'l, S> {
    space: &'l S,
    slots: HashMap<(usize, usize), usize>,
    other_rank: Option<Rank>,
}

impl<S: TaskSpace> Inputs<S> for Slots<'_, S> {
    fn task(&mut self, _: usize, source: S::Task, _: usize) {
        self.other_rank = self.other_rank.or(other_rank(self.space, source));
    }

    fn home(&mut self, _: usize, store: &Store<S::Datum>, index: usize) {
        let next = self.slots.len();
        self.slots.entry((address(store), index)).or_insert(next);
    }
}

/// Counts the inputs that come from tasks, and notes where those from home lie.
struct Arrivals<'l> {
    slots: &'l HashMap<(usize, usize), usize>,
    homes: &'l [usize],
    missing: usize,
    data: DataByFlow,
}

impl<S: TaskSpace> Inputs<S> for Arrivals<'_> {
    fn task(&mut self, _: usize, _: S::Task, _: usize) {
        self.missing += 1;
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        let slot = self.slots.get(&(address(store), index));
        let node = slot.and_then(|&slot| self.homes.get(slot));
        if let (Some(place), Some(&node)) = (self.data.get_mut(flow), node) {
            *place = Some(node);
        }
    }
}

/// Lists whom a task feeds: the flow it leaves by, the target and its flow.
struct Edges<T>(Vec<(usize, T, usize)>);

impl<S: TaskSpace> Successors<S> for Edges<S::Task> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.0.push((flow, target, target_flow));
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

impl<'g, S: TaskSpace> NumberedSpace<'g, S> {
    pub fn new(space: &'g S, crew: &Crew, costs: &'g Costs) -> Result<Self, SimulateError> {
        let mut description = Description::default();
        space.describe(&mut description);
        let n_costs = costs.classes.len();
        if let Some(class) = description.classes().get(n_costs) {
            let class = class.name.clone();
            return Err(SimulateError::NoCost {
                class,
                costs: n_costs,
            });
        }
        let (mut listed, slots, other_rank) = (Tally::default(), HashMap::new(), None);
        let mut slots = Slots {
            space,
            slots,
            other_rank,
        };
        for task in space.tasks(Rank(0)) {
            space.inputs(task, &mut slots);
            listed.add(task);
        }
        let n_nodes = crew.n_numa_nodes();
        let farther = |from, to| {
            let beyond = crew
                .distance(from, to)
                .saturating_sub(crew.distance(from, from));
            costs.remote_byte * f64::from(beyond) / 10.0
        };
        let row = |from| (0..n_nodes).map(|to| farther(from, to)).collect();
        Ok(NumberedSpace {
            space,
            spent: vec![(0.0, 0); n_costs],
            description,
            costs,
            bytes: (0..n_nodes).map(row).collect(),
            slots: slots.slots,
            listed,
            ended: Tally::default(),
            other_rank: slots.other_rank,
            homes: Vec::new(),
            waiting: HashMap::new(),
            tasks: Vec::new(),
            free: Vec::new(),
            schedule: None,
        })
    }

    pub fn n_homes(&self) -> usize {
        self.slots.len()
    }

    /// Whether all edges lead from rank 0 to rank 0.
    ///
    /// # Errors
    /// If not, as far as the play has come.
    pub fn is_of_one_rank(&self) -> Result<(), SimulateError> {
        match self.other_rank {
            Some(rank) => Err(SimulateError::OtherRank { rank }),
            None => Ok(()),
        }
    }

    /// Whether each task has run, and once.
    ///
    /// # Errors
    /// If not.
    pub fn is_whole(&self) -> Result<(), SimulateError> {
        self.is_of_one_rank()?;
        let waiting = self.waiting.len();
        if waiting > 0 {
            return Err(SimulateError::Stalled { waiting });
        }
        let (ran, tasks) = (self.ended.tasks, self.listed.tasks);
        match self.ended == self.listed {
            true => Ok(()),
            false => Err(SimulateError::NotEachOnce { ran, tasks }),
        }
    }

    /// Where the data lie at the beginning.
    pub fn settle(&mut self, homes: Vec<usize>) {
        self.homes = homes;
    }

    pub fn mean_seconds(&self) -> Vec<f64> {
        let mean = |&(seconds, tasks): &(f64, u64)| seconds / tasks.max(1) as f64;
        self.spent.iter().map(mean).collect()
    }

    fn mode(&self, class: usize, flow: usize) -> Mode {
        let class = self.description.classes().get(class);
        let flow = class.and_then(|class| class.flows.get(flow));
        flow.map_or(Mode::Order, |flow| flow.mode)
    }

    /// The inputs of a task before any has arrived.
    fn expected(&self, task: S::Task) -> (usize, DataByFlow) {
        let class = self.description.classes().get(task.class());
        let mut arrivals = Arrivals {
            slots: &self.slots,
            homes: &self.homes,
            missing: 0,
            data: vec![None; class.map_or(0, |class| class.flows.len())],
        };
        self.space.inputs(task, &mut arrivals);
        (arrivals.missing, arrivals.data)
    }

    /// A task became ready.
    fn ready(&mut self, task: S::Task, data: DataByFlow) -> Ready {
        let class = task.class();
        let pieces = data.iter().flatten().map(|&node| (node, self.costs.bytes));
        let makes = || (0..data.len()).any(|flow| self.mode(class, flow) == Mode::New);
        let most = match self.costs.ties {
            Ties::First => most_bytes(pieces),
            Ties::Last => most_bytes(pieces.rev()),
        };
        let hint = match most {
            Some(node) => Hint::Node(node),
            None if makes() => Hint::Initialises,
            None => Hint::None,
        };
        let place = self.free.pop().unwrap_or(self.tasks.len());
        if place == self.tasks.len() {
            self.tasks.push(None);
        }
        self.tasks[place] = Some((task, data));
        let priority = self.space.priority(task);
        let ready = Ready::new(place as Word, priority).with_hint(hint);
        ready.with_class(class)
    }

    fn arrive(&mut self, target: S::Task, flow: usize, datum: Option<usize>) -> Option<Ready> {
        let (mut missing, mut data) = match self.waiting.remove(&target) {
            Some(waiting) => waiting,
            None => self.expected(target),
        };
        if let Some(place) = data.get_mut(flow) {
            *place = datum;
        }
        missing = missing.saturating_sub(1);
        if missing == 0 {
            return Some(self.ready(target, data));
        }
        self.waiting.insert(target, (missing, data));
        None
    }
}

impl<S: TaskSpace> Script for NumberedSpace<'_, S> {
    fn roots(&mut self, ready: &mut Vec<Ready>) {
        let roots: Vec<S::Task> = self.space.roots(Rank(0)).collect();
        for root in roots {
            let (_, data) = self.expected(root);
            ready.push(self.ready(root, data));
        }
    }

    fn begin(&mut self, word: Word, by: Beginner<'_>) -> f64 {
        let Some((task, data)) = &self.tasks[word as usize] else {
            unreachable!("queues hand out what they were given");
        };
        let class = task.class();
        let mut seconds = self.costs.classes[class];
        for &node in data.iter().flatten() {
            by.counters.count_bytes(node, self.costs.bytes);
            seconds += self.costs.bytes as f64 * self.bytes[by.numa_node][node];
        }
        if let Some(schedule) = &mut self.schedule {
            let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
            let (begin, end) = (nanoseconds(by.now), nanoseconds(by.now + seconds));
            schedule.ran(by.worker, *task, Span { begin, end }, by.stole);
        }
        let spent = &mut self.spent[class];
        *spent = (spent.0 + seconds, spent.1 + 1);
        seconds
    }

    fn end(&mut self, word: Word, numa_node: usize, ready: &mut Vec<Ready>) {
        let Some((task, data)) = self.tasks[word as usize].take() else {
            unreachable!("a task ends once");
        };
        self.free.push(word as usize);
        self.ended.add(task);
        // One too many: where edges go round in a circle, there would be no end.
        if self.ended.tasks > self.listed.tasks {
            return;
        }
        let mut edges = Edges(Vec::new());
        self.space.successors(task, &mut edges);
        for (flow, target, target_flow) in edges.0 {
            if let Some(rank) = other_rank(self.space, target) {
                self.other_rank = Some(rank);
                continue;
            }
            let datum = match self.mode(task.class(), flow) {
                Mode::Order => None,
                Mode::New => Some(numa_node),
                _ => data.get(flow).copied().flatten(),
            };
            ready.extend(self.arrive(target, target_flow, datum));
        }
    }
}
