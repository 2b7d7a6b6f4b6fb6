//! Kernels: bodies as they take place in runs, with the caches and the neighbours that they have there.

use super::Bench;
use super::between::Between;
use super::stage::Stage;
use super::taken::{Graph, Taken};
use super::work::{Instance, Routine, Shape};
use common::cli::Failure;
use common::cli::costs::Kernel;
use dataflow::Runtime;
use dataflow::linalg::scalar::Scalar;
use dataflow::trace::Trace;
use std::collections::{BTreeMap, BTreeSet};

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
    /// first. Of workers that are cold what their first take, too. And what is between them, where ranks
    /// have one worker.
    pub fn kernels<T: Scalar>(
        &self,
        routine: Routine,
        shape: Shape,
        is_cold: bool,
        runtime: &Runtime,
    ) -> Result<(Vec<(Of, Taken)>, Between), Failure> {
        let stage = Stage::of(runtime);
        let memory = runtime.memory();
        let work = Instance::<T>::new(routine, shape, runtime.rank(), memory, self.backend)?;
        let mut graph = Graph::on(stage.n_ranks as u32);
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
                    0 if is_cold => note_cold(&trace, &mut taken),
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
            taken.entry(of).or_default().push_cold(length);
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
        taken.entry(of).or_default().push(bodies);
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

/// Whether runs are recorded from now on.
pub fn tracing(runtime: &Runtime, on: bool) {
    let tracer = runtime.tracer();
    tracer.into_iter().for_each(|tracer| tracer.set_on(on));
}
