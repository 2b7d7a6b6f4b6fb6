//! Random layered graphs, and the result that every schedule must give.
//!
//! Included by other packages' tests too (`#[path]`), with their own executors.

use dataflow_core::prelude::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// What flows: a digest of all that went into it.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest(pub u64);
impl Datum for Digest {}

/// What one flow of a task is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Read,
    Update,
    New,
    Order,
}

/// Where a flow comes from.
#[derive(Clone, Copy, Debug)]
pub enum From {
    Task(usize, usize),
    Home(usize),
    Nowhere,
}

/// One task: its flows, its priority, whether its name is too wide to be packed.
#[derive(Clone, Debug)]
pub struct Node {
    pub flows: Vec<(Kind, From)>,
    pub priority: i64,
    pub wide: bool,
}

/// A graph whose edges point from lower to higher indices.
#[derive(Clone, Debug)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub n_homes: usize,
}

/// A choice that becomes an edge: layers back, task within, flow within, kind.
type Choice = (u8, u16, u16, u8);

/// Graphs have fewer layers than this; under Miri few.
const N_LAYERS: usize = if cfg!(miri) { 3 } else { 8 };

/// Graphs of some layers, in-degrees of 0 … 8 and, now and then, of up to 80.
pub fn graphs() -> impl Strategy<Value = Graph> {
    let few = vec(any::<Choice>(), 0..9);
    let many = vec(any::<Choice>(), 60..80);
    let task = (
        prop_oneof![12 => few, 1 => many],
        -3i64..4,
        prop::bool::weighted(0.2),
    );
    vec(vec(task, 1..8), 1..N_LAYERS).prop_map(graph)
}

fn graph(layers: Vec<Vec<(Vec<Choice>, i64, bool)>>) -> Graph {
    let mut nodes: Vec<Node> = vec![];
    let mut ends = vec![0];
    let mut n_homes = 0;
    for layer in layers {
        // A task may only look at whole layers.
        let mut new = vec![];
        for (choices, priority, wide) in layer {
            let flows = choices
                .into_iter()
                .map(|choice| flow(&nodes, &ends, choice, &mut n_homes));
            let flows = flows.collect();
            new.push(Node {
                flows,
                priority,
                wide,
            });
        }
        nodes.append(&mut new);
        ends.push(nodes.len());
    }
    Graph { nodes, n_homes }
}

fn flow(nodes: &[Node], ends: &[usize], choice: Choice, n_homes: &mut usize) -> (Kind, From) {
    let (back, task, flow, kind) = choice;
    let kind = [Kind::Read, Kind::Update, Kind::New, Kind::Order][usize::from(kind % 4)];
    let mut home = || {
        *n_homes += 1;
        From::Home(*n_homes - 1)
    };
    if kind == Kind::New {
        return (kind, From::Nowhere);
    }
    // One of the last layers that are complete.
    let end = ends[ends.len() - 1 - usize::from(back) % ends.len().min(3)];
    let start = ends
        .iter()
        .rev()
        .find(|&&start| start < end)
        .copied()
        .unwrap_or(0);
    let source = (end > start).then(|| start + usize::from(task) % (end - start));
    let found = source.and_then(|source| {
        let flows = &nodes[source].flows;
        let fits = |&at: &usize| (flows[at].0 == Kind::Order) == (kind == Kind::Order);
        let fitting: Vec<_> = (0..flows.len()).filter(fits).collect();
        (!fitting.is_empty()).then(|| (source, fitting[usize::from(flow) % fitting.len()]))
    });
    match (found, kind) {
        (Some((task, flow)), _) => (kind, From::Task(task, flow)),
        (None, Kind::Order) => (kind, From::Nowhere),
        (None, _) => (kind, home()),
    }
}

/// Mixes a word into a digest; order matters.
fn mix(sum: u64, part: u64) -> u64 {
    let mixed = (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).rotate_left(17).wrapping_add(part)
}

/// What task `node` makes of flow `at`, from all its inputs in slot order.
fn made(node: usize, at: usize, inputs: impl Iterator<Item = Option<u64>>) -> u64 {
    let inputs = inputs.map(|input| input.unwrap_or(0x5eed));
    inputs.fold(mix(node as u64 + 1, at as u64 + 1), mix)
}

impl Graph {
    /// What [`Layered::outcome`] must be, by topological execution.
    pub fn model(&self) -> (Vec<u64>, Vec<u64>) {
        let mut after: Vec<Vec<Option<u64>>> = vec![];
        let mut seen = vec![];
        let mut homes: Vec<_> = (0..self.n_homes as u64).map(|slot| slot + 77).collect();
        for (node, task) in self.nodes.iter().enumerate() {
            let input = |&(kind, from): &(Kind, From)| match from {
                From::Task(source, flow) if kind != Kind::Order => after[source][flow],
                From::Home(slot) => Some(slot as u64 + 77),
                _ => None,
            };
            let inputs: Vec<_> = task.flows.iter().map(input).collect();
            let output = |(at, &(kind, _)): (usize, &(Kind, From))| match kind {
                Kind::Read => inputs[at],
                Kind::Order => None,
                Kind::Update | Kind::New => Some(made(node, at, inputs.iter().copied())),
            };
            seen.push(made(node, 99, inputs.iter().copied()));
            after.push(task.flows.iter().enumerate().map(output).collect());
            for (at, &(kind, from)) in task.flows.iter().enumerate() {
                if let (Kind::Update, From::Home(slot), Some(made)) = (kind, from, after[node][at])
                {
                    homes[slot] = made;
                }
            }
        }
        (seen, homes)
    }

    /// The edges from each output: (flow, target, target's flow).
    fn targets(&self) -> Vec<Vec<(usize, usize, usize)>> {
        let mut targets = vec![vec![]; self.nodes.len()];
        for (node, task) in self.nodes.iter().enumerate() {
            for (at, &(_, from)) in task.flows.iter().enumerate() {
                if let From::Task(source, flow) = from {
                    targets[source].push((flow, node, at));
                }
            }
        }
        targets
    }
}

/// The graph as a space. What is taken from home for updating goes back at once.
pub struct Layered {
    graph: Graph,
    targets: Vec<Vec<(usize, usize, usize)>>,
    homes: Store<Digest>,
    /// A digest of what each task saw, added once per run of it.
    seen: Vec<AtomicU64>,
}

/// A task by its index; a wide one has bits that no packed name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub u128);

const WIDE: u128 = 1 << 90;

impl TaskName for Name {
    fn class(self) -> usize {
        (self.0 & !WIDE) as usize
    }
    fn pack(self) -> Option<u64> {
        (self.0 & WIDE == 0).then_some(self.0 as u64)
    }
    fn unpack(packed: u64) -> Self {
        Name(packed.into())
    }
}

impl Layered {
    pub fn new(graph: &Graph) -> Self {
        Layered {
            graph: graph.clone(),
            targets: graph.targets(),
            homes: Store::new(
                "homes",
                (0..graph.n_homes as u64).map(|slot| Digest(slot + 77)),
            ),
            seen: graph.nodes.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// What each task saw, and what is at home; an empty slot counts as 0.
    pub fn outcome(&self) -> (Vec<u64>, Vec<u64>) {
        let seen = self
            .seen
            .iter()
            .map(|seen| seen.load(Ordering::Relaxed))
            .collect();
        let home = |slot| self.homes.get(slot).map_or(0, |digest| digest.0);
        (seen, (0..self.homes.len()).map(home).collect())
    }

    fn name(&self, node: usize) -> Name {
        Name(node as u128 | if self.graph.nodes[node].wide { WIDE } else { 0 })
    }
}

impl TaskSpace for Layered {
    type Task = Name;
    type Datum = Digest;

    fn describe(&self, about: &mut Description) {
        about.name("layered");
        for (node, task) in self.graph.nodes.iter().enumerate() {
            let mut class = about.class(format!("T{node}"));
            for (at, (kind, _)) in task.flows.iter().enumerate() {
                let name = format!("F{at}");
                class = match kind {
                    Kind::Read => class.read(&name),
                    Kind::Update => class.update(&name),
                    Kind::New => class.new_flow(&name),
                    Kind::Order => class.order(&name),
                };
            }
        }
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = Name> + Send {
        (0..self.graph.nodes.len()).map(|node| self.name(node))
    }

    fn inputs(&self, task: Name, from: &mut impl Inputs<Self>) {
        for (at, &(_, source)) in self.graph.nodes[task.class()].flows.iter().enumerate() {
            match source {
                From::Task(source, flow) => from.task(at, self.name(source), flow),
                From::Home(slot) => from.home(at, &self.homes, slot),
                From::Nowhere => {}
            }
        }
    }

    fn successors(&self, task: Name, to: &mut impl Successors<Self>) {
        let node = task.class();
        for &(flow, target, at) in &self.targets[node] {
            to.task(flow, self.name(target), at);
        }
        for (at, &(kind, from)) in self.graph.nodes[node].flows.iter().enumerate() {
            if let (Kind::Update, From::Home(slot)) = (kind, from) {
                to.home(at, &self.homes, slot);
            }
        }
    }

    fn run(&self, task: Name, flows: &mut Flows<'_, Digest>) -> Result<(), TaskError> {
        let node = task.class();
        let kinds: Vec<_> = self.graph.nodes[node]
            .flows
            .iter()
            .map(|&(kind, _)| kind)
            .collect();
        let inputs: Vec<Option<u64>> = flows
            .iter()
            .zip(&kinds)
            .map(|(slot, kind)| match kind {
                Kind::Read => Some(slot.read().0),
                Kind::Update => Some(slot.update().0),
                Kind::New | Kind::Order => None,
            })
            .collect();
        let seen = made(node, 99, inputs.iter().copied());
        self.seen[node].fetch_add(seen, Ordering::Relaxed);
        for (at, (slot, kind)) in flows.iter().zip(&kinds).enumerate() {
            match kind {
                Kind::Update => slot.update().0 = made(node, at, inputs.iter().copied()),
                Kind::New => slot.put(Digest(made(node, at, inputs.iter().copied()))),
                Kind::Read | Kind::Order => {}
            }
        }
        Ok(())
    }

    fn priority(&self, task: Name) -> i64 {
        self.graph.nodes[task.class()].priority
    }
}
