//! Kernels: bodies as they take place in runs, with the caches and the neighbours that they have there.

use super::Bench;
use super::work::{Hear, Routine, Shape, Work};
use common::cli::costs::{Kernel, Takes};
use common::cli::{Failure, traced};
use dataflow::Runtime;
use dataflow::core::prelude::{Description, TaskName};
use dataflow::core::rank::Rank;
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::weight::Weight;
use dataflow::trace::Trace;
use std::collections::{BTreeMap, BTreeSet};

/// What bodies of one class took, nanoseconds.
#[derive(Default)]
struct Taken {
    all: Vec<f64>,
    /// The first on each worker.
    cold: Vec<f64>,
}

impl Bench<'_> {
    /// The kernels of all routines, on so many workers of one rank.
    pub fn kernels<T: Scalar>(
        &self,
        n_workers: usize,
        orders: &[usize],
        tiles: usize,
    ) -> Result<Vec<Kernel>, Failure> {
        let builder = Runtime::builder().threads(n_workers).bind(self.bind);
        let runtime = builder.trace(traced::ROOM).build()?;
        let mut kernels = Vec::new();
        for (routine, &nb) in Routine::ALL
            .iter()
            .flat_map(|routine| orders.iter().map(move |nb| (*routine, nb)))
        {
            let shape = Shape {
                n: tiles * nb,
                nb,
                grid: (1, 1),
            };
            let work = Work::<T>::new(routine, shape, Rank(0), runtime.memory(), self.backend)?;
            let mut weights = Weights::default();
            work.show(&mut weights)?;
            let mut taken = self.taken(&work, &runtime)?;
            // Both ways of LU have updates, which are the same.
            taken.retain(|class, _| {
                let known = |kernel: &Kernel| {
                    kernel.nb == Some(nb)
                        && kernel.graph.as_ref() == Some(&weights.graph)
                        && kernel.class.as_ref() == Some(class)
                };
                !kernels.iter().any(known)
            });
            kernels.extend(taken.into_iter().map(|(class, taken)| Kernel {
                precision: Some(T::PRECISION.to_string()),
                nb: Some(nb),
                workers: Some(n_workers),
                ..weights.kernel(class, taken)
            }));
        }
        Ok(kernels)
    }

    /// What the bodies of each class took in some runs.
    fn taken<T: Scalar>(
        &self,
        work: &Work<T>,
        runtime: &Runtime,
    ) -> Result<BTreeMap<String, Taken>, Failure> {
        let mut taken = BTreeMap::new();
        let record = |on| {
            let tracer = runtime.tracer();
            tracer.into_iter().for_each(|tracer| tracer.set_on(on));
        };
        for round in 0..self.rounds {
            record(false);
            work.fill(runtime)?;
            record(true);
            work.run(runtime)?;
            for trace in runtime.traces()? {
                note(&trace, round == 0, &mut taken);
            }
        }
        Ok(taken)
    }
}

/// Adds the bodies of a run; those of the first are cold to begin with.
fn note(trace: &Trace, is_first: bool, taken: &mut BTreeMap<String, Taken>) {
    let mut met = BTreeSet::new();
    for (_, slice) in trace.slices() {
        let of = taken.entry(trace.classes[usize::from(slice.class)].clone());
        let of = of.or_default();
        let length = slice.span.length() as f64;
        match is_first && met.insert((slice.class, slice.worker)) {
            true => of.cold.push(length),
            false => of.all.push(length),
        }
    }
}

/// Operations of the tasks of each class.
#[derive(Default)]
struct Weights {
    graph: String,
    by_class: BTreeMap<String, Vec<f64>>,
}

impl Hear for &mut Weights {
    fn hear<S: Weight>(&mut self, space: &S) -> Result<(), Failure> {
        let mut about = Description::default();
        space.describe(&mut about);
        self.graph = about.space_name().to_string();
        for task in space.tasks(Rank(0)) {
            let class = &about.classes()[task.class()].name;
            let flops = self.by_class.entry(class.clone()).or_default();
            flops.push(space.flops(task));
        }
        Ok(())
    }
}

impl Weights {
    /// The line of a class.
    fn kernel(&mut self, class: String, mut taken: Taken) -> Kernel {
        if taken.all.is_empty() {
            taken.all.clone_from(&taken.cold);
        }
        let [first, median, third] = [0.25, 0.5, 0.75].map(|share| quantile(&mut taken.all, share));
        // That of the median task, whose time is the median.
        let flops = self.by_class.get_mut(&class);
        let flops = flops.map(|flops| quantile(flops, 0.5));
        Kernel {
            graph: Some(self.graph.clone()),
            class: Some(class),
            takes: Takes::Time {
                nanoseconds: median,
                flops: flops.filter(|flops| *flops > 0.0),
            },
            spread: (third - first) / 2.0 / median.max(1.0),
            cold_nanoseconds: Some(quantile(&mut taken.cold, 0.5)),
            ..Kernel::default()
        }
    }
}

/// Below which there is such a share of the numbers; 0 of none.
pub fn quantile(numbers: &mut [f64], share: f64) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let last = numbers.len().saturating_sub(1);
    let at = (share * last as f64).round() as usize;
    numbers.get(at).copied().unwrap_or(0.0)
}
