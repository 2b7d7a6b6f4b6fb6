//! Task Bench: graphs of many patterns, payloads that check themselves, and METG.
//!
//! # Elsewhere
//! Who needs whom: [`pattern`]. The task space: [`space`]. What tasks compute: [`kernel`]. The
//! measure: [`metg`]. The same steps over a bare transport: [`bare`]. Beside a bare loop on one rank:
//! `benches/task_bench.rs`.

#[path = "task_bench/bare.rs"]
pub(crate) mod bare;
#[path = "task_bench/kernel.rs"]
pub(crate) mod kernel;
#[path = "task_bench/metg.rs"]
pub(crate) mod metg;
#[path = "task_bench/pattern.rs"]
pub(crate) mod pattern;
#[path = "task_bench/space.rs"]
pub(crate) mod space;

use bare::Bare;
use common::cli::{self, Example, Failure, Measured, Outcome, Settings};
use dataflow::core::run_across;
use dataflow::{Monitor, Runtime};
use kernel::{Kernel, Kind};
use metg::{Run, metg};
use pattern::{Graph, Pattern};
use serde_json::json;
use space::{TaskBench, name_of};
use std::process::ExitCode;

pub(crate) const EXAMPLE: Example = Example {
    name: "task_bench",
    about: "Runs a graph of Task Bench, or finds how small its tasks may be",
    runs: true,
    honours: &[],
};

/// What to run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Own {
    /// Who needs whom
    #[arg(long, default_value = "stencil_1d")]
    pattern: Pattern,
    /// Points of a step [default: one for each worker]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    width: Option<u32>,
    /// Time steps
    #[arg(long, value_name = "S", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    steps: u32,
    /// Bytes of each payload
    #[arg(long, value_name = "B", default_value_t = 16, value_parser = clap::value_parser!(u32).range(16..))]
    bytes: u32,
    /// Inputs of a point, of patterns where it can be chosen [default: 3]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(..=1 << 16))]
    radix: Option<u32>,
    /// Dependence sets that take turns, of patterns where it can be chosen [default: 3]
    #[arg(long, value_name = "D")]
    period: Option<u32>,
    /// Share of the inputs that random_nearest picks [default: 0.25]
    #[arg(long, value_name = "F")]
    fraction: Option<f64>,
    /// What tasks compute [default: empty; with --metg compute]
    #[arg(long)]
    kernel: Option<Kind>,
    /// How often the kernel iterates [default: 1; with --metg down from 32768]
    #[arg(long, value_name = "I", value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    iterations: Option<u64>,
    /// Find METG(50 %): run ever smaller tasks, each --repeat times [default: 3]
    #[arg(long)]
    metg: bool,
    /// With --metg, on several ranks: beside a loop over the bare transport, without tasks
    #[arg(long, requires = "metg")]
    bare: bool,
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, task_bench)
}

pub(crate) fn task_bench(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let kernel = settings.own.kernel().map_err(Failure::refused)?;
    // Ranks may have different numbers of them.
    let n_workers = runtime.all_reduce(runtime.n_threads() as u64, |a, b| a + b)?;
    let graph = settings.own.graph(n_workers as u32);
    let graph = graph.map_err(Failure::refused)?;
    for (key, value) in [
        ("pattern", json!(name_of(graph.pattern))),
        ("width", json!(graph.width)),
        ("steps", json!(graph.steps)),
        ("payload_bytes", json!(settings.own.bytes)),
        ("radix", json!(graph.radix)),
        ("period", json!(graph.period)),
        ("fraction", json!(graph.fraction)),
        ("kernel", json!(name_of(kernel.kind))),
        ("iterations", json!(kernel.iterations)),
    ] {
        outcome.set(key, value);
    }
    expect_room(&graph, settings.own.bytes, runtime)?;
    let bench = Bench {
        settings,
        runtime,
        n_workers,
        graph,
    };
    if settings.own.metg {
        return bench.sweep(kernel, outcome);
    }
    let measured = bench.run(kernel, settings.repeat, outcome)?;
    outcome.flops = Some(kernel.flops() * measured.tasks as f64);
    outcome.measured = Some(measured);
    Ok(())
}

/// Refuses payloads, or inputs by name, for which there is no room: of a point those that it reads and makes;
/// and where points read their neighbours', one for each of a rank's points or for each step, in whatever order
/// they run, as many as a pyramid needs pebbles.
fn expect_room(graph: &Graph, bytes: u32, runtime: &Runtime) -> Result<(), Failure> {
    /// An input as the space describes it, and its name.
    const INPUT: u128 = 32;
    let Graph { width, steps, .. } = *graph;
    let inputs = match graph.pattern {
        _ if steps == 1 => 0,
        Pattern::RandomNearest => 1, // the others are picked by chance
        _ => graph.n_places().min(width),
    };
    let base = match graph.pattern {
        Pattern::Stencil | Pattern::PeriodicStencil => width,
        Pattern::Dom => width.min(steps.div_ceil(2)),
        _ => 1,
    };
    let pyramid = u128::from(base).div_ceil(runtime.n_ranks() as u128);
    let inputs = u128::from(inputs);
    let there = pyramid.min(steps.into()).max(inputs + 1);
    let payloads = there * u128::from(bytes);
    let asked = format!("--width {width} --bytes {bytes}");
    common::problem::expect_room(&asked, payloads + inputs * INPUT, runtime)
}

impl Own {
    /// The graph that was asked for, on so many workers; parameters that its pattern has no use for are
    /// refused.
    fn graph(&self, n_workers: u32) -> Result<Graph, String> {
        let pattern = self.pattern;
        let unused = [
            ("radix", self.radix.is_some() && !pattern.has_radix()),
            ("period", self.period.is_some() && !pattern.has_period()),
            (
                "fraction",
                self.fraction.is_some() && !pattern.has_fraction(),
            ),
        ];
        if let Some((flag, _)) = unused.iter().find(|(_, is_unused)| *is_unused) {
            return Err(format!("--{flag}: {} has none", name_of(pattern)));
        }
        let if_used = |used: bool, value: Option<u32>| if used { value.unwrap_or(3) } else { 0 };
        let picked = if pattern.has_fraction() {
            self.fraction.unwrap_or(0.25)
        } else {
            0.0
        };
        let graph = Graph {
            pattern,
            width: self.width.unwrap_or(n_workers),
            steps: self.steps,
            radix: if_used(pattern.has_radix(), self.radix),
            period: if_used(pattern.has_period(), self.period),
            fraction: picked,
        };
        graph.checked()
    }

    fn kernel(&self) -> Result<Kernel, String> {
        let (kind, iterations) = match self.metg {
            true => (Kind::Compute, 1 << 15),
            false => (Kind::Empty, 1),
        };
        let kind = self.kernel.unwrap_or(kind);
        let iterations = self.iterations.unwrap_or(iterations);
        match kind {
            Kind::Empty if self.metg => Err("--metg: the empty kernel has no rate".into()),
            Kind::Empty if self.iterations.is_some() => {
                Err("--iterations: the empty kernel has none".into())
            }
            Kind::Empty => Ok(Kernel {
                kind,
                iterations: 0,
            }),
            _ => Ok(Kernel { kind, iterations }),
        }
    }
}

struct Bench<'s> {
    settings: &'s Settings<Own>,
    runtime: &'s Runtime,
    /// Of all ranks.
    n_workers: u64,
    graph: Graph,
}

impl Bench<'_> {
    /// Runs the graph so many times; the median run.
    fn run(
        &self,
        kernel: Kernel,
        times: usize,
        outcome: &mut Outcome,
    ) -> Result<Measured, Failure> {
        let (runtime, bytes) = (self.runtime, self.settings.own.bytes as usize);
        let space = TaskBench::new(self.graph, runtime.n_ranks(), bytes, kernel);
        let run = |monitor: &Monitor| run_across(&space, &runtime.watched_by(monitor));
        let runs = (0..times).map(|_| self.settings.measure(runtime, run));
        let runs: Result<_, _> = runs.collect();
        let errors = runtime.gather(space.errors().to_le_bytes().into());
        if let Ok(errors) = &errors {
            let of_rank =
                |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |n| u64::from_le_bytes(*n));
            outcome.set("errors", errors.iter().map(of_rank).sum::<u64>());
        }
        // If both failed, the run is why.
        let runs = runs?;
        errors?;
        Ok(Measured::median(runs).unwrap_or_default())
    }

    /// Halves the work of a task until it iterates once.
    fn sweep(&self, largest: Kernel, outcome: &mut Outcome) -> Result<(), Failure> {
        let n_cores = self.n_workers as f64;
        let iterations = std::iter::successors(Some(largest.iterations.max(1)), |i| {
            (*i > 1).then_some(i / 2)
        });
        let bare = self.bare().map_err(Failure::refused)?;
        let mut sweep = Vec::new();
        for iterations in iterations {
            let kernel = Kernel {
                iterations,
                ..largest
            };
            let times = self.settings.repeat_or(3);
            let measured = self.run(kernel, times, outcome)?;
            let tasks = measured.tasks as f64;
            let run = |seconds: f64| Run {
                granularity: seconds * n_cores / tasks,
                rate: (kernel.flops() + kernel.bytes()) * tasks / seconds,
            };
            let bare = bare.as_ref().map(|bare| bare.run(kernel, times));
            let bare = bare.transpose()?.map(run);
            sweep.push(Pair {
                iterations,
                ours: run(measured.seconds),
                bare,
            });
            // Tasks, seconds and rate are told of the largest tasks.
            if outcome.measured.is_none() {
                outcome.flops = Some(kernel.flops() * tasks);
                outcome.measured = Some(measured);
            }
        }
        tell(&sweep, outcome)
    }

    /// The loop to compare with, if that was asked for.
    fn bare(&self) -> Result<Option<Bare<'_>>, String> {
        let own = &self.settings.own;
        let bare = || Bare::new(self.runtime, self.graph, own.bytes as usize);
        own.bare.then(bare).transpose()
    }
}

/// One size of tasks.
struct Pair {
    iterations: u64,
    ours: Run,
    bare: Option<Run>,
}

/// The table, and METG(50 %) of both; the peak is the best rate of all runs.
fn tell(sweep: &[Pair], outcome: &mut Outcome) -> Result<(), Failure> {
    let ours: Vec<Run> = sweep.iter().map(|pair| pair.ours).collect();
    let bare: Vec<Run> = sweep.iter().filter_map(|pair| pair.bare).collect();
    let rates = ours.iter().chain(&bare).map(|run| run.rate);
    let peak = rates.fold(0.0, f64::max);
    let row = |pair: &Pair| {
        let mut row = json!({
            "iterations": pair.iterations,
            "granularity_seconds": pair.ours.granularity,
            "efficiency": pair.ours.rate / peak,
        });
        if let Some(bare) = pair.bare {
            row["bare_granularity_seconds"] = json!(bare.granularity);
        }
        row
    };
    outcome.set("sweep", sweep.iter().map(row).collect::<Vec<_>>());
    outcome.say("  iterations  granularity/µs  efficiency");
    for pair in sweep {
        let (micros, efficiency) = (pair.ours.granularity * 1e6, pair.ours.rate / peak);
        let bare = pair.bare.map(|bare| bare.granularity * 1e6);
        let bare = bare.map_or(String::new(), |bare| format!("  bare {bare:.3} µs"));
        let iterations = pair.iterations;
        outcome.say(format!(
            "{iterations:12}  {micros:14.3}  {efficiency:10.3}{bare}"
        ));
    }
    let none = || {
        Failure::new(
            "no_metg",
            "no run reached half of the peak rate, or every one did",
        )
    };
    if let Some(seconds) = metg(&bare, peak) {
        outcome.set("bare_metg_seconds", seconds);
        outcome.say(format!(
            "METG(50 %) of the bare loop {:.3} µs",
            seconds * 1e6
        ));
    }
    let seconds = metg(&ours, peak).ok_or_else(none)?;
    outcome.set("metg_seconds", seconds);
    outcome.say(format!("METG(50 %) {:.3} µs", seconds * 1e6));
    Ok(())
}
