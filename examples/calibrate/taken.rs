//! Taken: what bodies of a class took, and the graph whose tasks they were.

use super::line::Line;
use super::quantile::{lower_median, quantile};
use super::work::Hear;
use common::cli::Failure;
use common::cli::costs::{Kernel, Takes};
use common::cli::simulated::Edges;
use dataflow::core::prelude::Description;
use dataflow::core::rank::Rank;
use dataflow::linalg::weight::Weight;
use dataflow::trace::{At, Trace};
use std::collections::HashMap;

/// What bodies of one class took, nanoseconds.
#[derive(Default)]
pub struct Taken {
    /// With their operations, by runs; without the first run of a pass.
    warm: Vec<Vec<(f64, f64)>>,
    /// The first on each worker, in first runs.
    cold: Vec<f64>,
}

/// A graph's name, and its tasks' operations and edges by their names.
#[derive(Default)]
pub struct Graph {
    n_ranks: u32,
    pub name: String,
    tasks: HashMap<String, (f64, usize)>,
}

impl Graph {
    /// None yet, on so many ranks.
    pub fn on(n_ranks: u32) -> Self {
        Graph {
            n_ranks,
            ..Graph::default()
        }
    }

    /// Operations and edges of a task.
    pub fn task(&self, name: &str) -> (f64, usize) {
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

impl Taken {
    /// Adds what one run has measured.
    pub fn push(&mut self, run: Vec<(f64, f64)>) {
        self.warm.push(run);
    }

    /// Adds what a body took that was the first on its worker.
    pub fn push_cold(&mut self, time: f64) {
        self.cold.push(time);
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

    /// The same as the line of a file, without words on whose it is.
    pub fn kernel(&self) -> Kernel {
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
            cold_nanoseconds: Some(lower_median(&self.cold)),
            ..Kernel::default()
        }
    }
}
