//! Kernels: bodies as they take place in runs, with the caches and the neighbours that they have there.

use super::Bench;
use super::between::Between;
use super::line::Line;
use super::samples::tracing;
use super::stage::Stage;
use super::work::{Hear, Instance, Routine, Shape};
use common::cli::Failure;
use common::cli::costs::{Kernel, Takes};
use common::cli::simulated::Edges;
use dataflow::Runtime;
use dataflow::core::prelude::Description;
use dataflow::core::rank::Rank;
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::weight::Weight;
use dataflow::trace::{At, Trace};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A matrix in which kernels are measured has at least so many tiles in a row.
const FEWEST_TILES: usize = 3;

/// Runs of a matrix of this order are made as often as it is said, of smaller ones more often: they are soon
/// over, and a neighbour disturbs more of one.
const LARGE: usize = 3072;

/// Whose time is measured, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Of {
    stage: Stage,
    graph: String,
    nb: usize,
    n: usize,
    class: String,
    precision: String,
}

/// What bodies of one class took, nanoseconds.
#[derive(Default)]
pub struct Taken {
    /// With their operations, by runs; without the first run of a pass.
    warm: Vec<Vec<(f64, f64)>>,
    /// The first on each worker in the first run of all.
    cold: Vec<f64>,
}

/// Orders of matrices and of their tiles: multiples of the tiles near the orders that are asked for.
pub fn shapes(orders: &[usize], matrices: &[usize]) -> Vec<(usize, usize)> {
    let of = |nb: usize| {
        let tiles = matrices.iter().map(move |n| (n / nb).max(FEWEST_TILES));
        let tiles: BTreeSet<usize> = tiles.collect();
        tiles
            .into_iter()
            .map(move |tiles| (tiles.saturating_mul(nb), nb))
    };
    orders.iter().flat_map(|&nb| of(nb)).collect()
}

impl Bench<'_> {
    /// What the bodies of a routine take in some runs, by their classes; nothing on other ranks than the
    /// first. In the `first` pass what is cold, too. And what is between them, where ranks have one worker.
    pub fn kernels<T: Scalar>(
        &self,
        routine: Routine,
        shape: Shape,
        is_first: bool,
        runtime: &Runtime,
    ) -> Result<(Vec<(Of, Taken)>, Between), Failure> {
        let stage = Stage::of(runtime);
        let memory = runtime.memory();
        let work = Instance::<T>::new(routine, shape, runtime.rank(), memory, self.backend)?;
        let mut graph = Graph {
            n_ranks: stage.n_ranks as u32,
            ..Graph::default()
        };
        work.show(&mut graph)?;
        let (mut taken, mut between) = (BTreeMap::new(), Between::default());
        let rounds = self.rounds * (LARGE / shape.n).max(1);
        for round in 0..=rounds {
            work.fill(runtime)?;
            tracing(runtime, true);
            work.run(runtime)?;
            tracing(runtime, false);
            let traces = runtime.traces()?.into_iter();
            for trace in traces.filter(|trace| trace.name == graph.name) {
                match round {
                    0 if is_first => note_cold(&trace, &mut taken),
                    0 => {}
                    _ => note_warm(&trace, &graph, &mut taken),
                }
                if round > 0 && stage.threads == 1 {
                    between.note(&trace, &graph);
                }
            }
        }
        let of = |class| Of {
            stage,
            graph: graph.name.clone(),
            nb: shape.nb,
            n: shape.n,
            class,
            precision: T::PRECISION.to_string(),
        };
        let taken = taken.into_iter();
        let taken = taken.map(|(class, taken)| (of(class), taken));
        Ok((taken.collect(), between))
    }
}

/// Adds the first body of each class on each worker.
fn note_cold(trace: &Trace, taken: &mut BTreeMap<String, Taken>) {
    let mut met = BTreeSet::new();
    for (at, slice) in trace.slices() {
        if met.insert((slice.class, at.rank, slice.worker)) {
            let of = trace.classes[usize::from(slice.class)].clone();
            let length = slice.span.length() as f64;
            taken.entry(of).or_default().cold.push(length);
        }
    }
}

/// Adds the bodies of a run.
fn note_warm(trace: &Trace, graph: &Graph, taken: &mut BTreeMap<String, Taken>) {
    let mut by_class: BTreeMap<u16, Vec<(f64, f64)>> = BTreeMap::new();
    for (at, slice) in trace.slices() {
        let (flops, _) = graph.task(&trace.shown(at));
        let of = by_class.entry(slice.class).or_default();
        of.push((flops, slice.span.length() as f64));
    }
    for (class, bodies) in by_class {
        let of = trace.classes[usize::from(class)].clone();
        taken.entry(of).or_default().warm.push(bodies);
    }
}

/// A graph's name, and its tasks' operations and edges by their names.
#[derive(Default)]
pub struct Graph {
    n_ranks: u32,
    name: String,
    tasks: HashMap<String, (f64, usize)>,
}

impl Graph {
    /// Operations and edges of a task.
    fn task(&self, name: &str) -> (f64, usize) {
        self.tasks.get(name).copied().unwrap_or_default()
    }

    /// Edges that leave a task of a trace.
    pub fn edges(&self, trace: &Trace, at: At) -> usize {
        self.task(&trace.shown(at)).1
    }
}

impl Hear for &mut Graph {
    fn hear<S: Weight>(&mut self, space: &S) -> Result<(), Failure> {
        let mut about = Description::default();
        space.describe(&mut about);
        self.name = about.space_name().to_string();
        let tasks = (0..self.n_ranks).flat_map(|rank| space.tasks(Rank(rank)));
        self.tasks.extend(tasks.map(|task| {
            let mut edges = Edges::default();
            space.successors(task, &mut edges);
            (format!("{task:?}"), (space.flops(task), edges.0))
        }));
        Ok(())
    }
}

impl Of {
    /// The line of a class.
    pub fn line(&self, taken: &Taken) -> Kernel {
        Kernel {
            graph: Some(self.graph.clone()),
            class: Some(self.class.clone()),
            precision: Some(self.precision.clone()),
            nb: Some(self.nb),
            n: Some(self.n),
            ranks: Some(self.stage.n_ranks),
            workers: Some(self.stage.n_ranks * self.stage.threads),
            ..taken.kernel()
        }
    }
}

impl Taken {
    /// Adds what one run has measured.
    pub fn push(&mut self, run: Vec<(f64, f64)>) {
        self.warm.push(run);
    }

    /// Adds what another pass has measured.
    pub fn extend(&mut self, more: Taken) {
        self.warm.extend(more.warm);
        self.cold.extend(more.cold);
    }

    /// A line through what bodies took, as high as what all of a run took in the median run, so that a few
    /// that were long count; and half the range between the quartiles, as a share of it.
    pub fn line(&self) -> (Line, f64) {
        let all = || self.warm.iter().flatten().copied();
        let line = Line::through(all());
        let height = |run: &Vec<(f64, f64)>| {
            let taken: f64 = run.iter().map(|(_, time)| time).sum();
            let said: f64 = run.iter().map(|(flops, _)| line.at(*flops)).sum();
            taken / said.max(1.0)
        };
        let height = quantile(self.warm.iter().map(height), 0.5);
        let line = line.times(height);
        let shares = || all().map(|(flops, time)| time / line.at(flops).max(1.0));
        let [first, median, third] = [0.25, 0.5, 0.75].map(|share| quantile(shares(), share));
        let spread = (third - first) / 2.0 / median.max(f64::MIN_POSITIVE);
        (line, spread)
    }

    fn kernel(&self) -> Kernel {
        let (line, spread) = self.line();
        let all = self.warm.iter().flatten();
        let flops = quantile(all.map(|(flops, _)| *flops), 0.5);
        let is_fixed = line.slope * flops == 0.0;
        Kernel {
            takes: Takes::Time {
                nanoseconds: line.at(flops),
                fixed_nanoseconds: (!is_fixed && line.fixed > 0.0).then_some(line.fixed),
                flops: (!is_fixed).then_some(flops),
            },
            spread,
            cold_nanoseconds: Some(quantile(self.cold.iter().copied(), 0.5)),
            ..Kernel::default()
        }
    }
}

/// Below which there is such a share of the numbers, between two of them in proportion; 0 of none.
pub fn quantile(numbers: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    let at = share * numbers.len().saturating_sub(1) as f64;
    let near = |place: f64| numbers.get(place as usize).copied().unwrap_or(0.0);
    let rest = at - at.floor();
    (1.0 - rest) * near(at.floor()) + rest * near(at.ceil())
}
