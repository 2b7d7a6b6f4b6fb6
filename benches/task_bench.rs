//! METG(50 %) of Task Bench's stencil, beside a bare loop that only counts arrivals.
//!
//! ```console
//! $ cargo bench --bench task_bench              # a minute
//! $ cargo bench --bench task_bench -- --quick   # a tenth of the steps
//! ```
//!
//! Tasks of the compute kernel shrink by half from row to row of a sweep. At every size all
//! contestants run in turn, round after round; their rates are medians, and they share one peak: the
//! best rate of all on that number of workers. The bare loop moves no payloads.
//!
//! # Elsewhere
//! The graph, the kernel and the measure: `examples/task_bench`. The loop: `overhead/bare.rs`.

#[path = "overhead/bare.rs"]
mod bare;
#[allow(dead_code)] // verdict reads
mod kept;
#[path = "../examples/task_bench/kernel.rs"]
#[allow(dead_code)] // memory
mod kernel;
#[path = "../examples/task_bench/metg.rs"]
mod metg;
#[path = "../examples/task_bench/pattern.rs"]
#[allow(dead_code)] // what the command line of the example asks
mod pattern;
#[path = "../examples/task_bench/space.rs"]
#[allow(dead_code)]
mod space;
#[path = "overhead/statistics.rs"]
mod statistics;

use bare::{Numbered, run_bare};
use clap::Parser;
use dataflow::Runtime;
use kept::{Row, Unit};
use kernel::{Kernel, Kind};
use metg::{Run, metg};
use pattern::{Graph, Pattern};
use space::TaskBench;
use statistics::{machine, quartiles};
use std::process::ExitCode;
use std::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// METG(50 %) beside a bare loop.
#[derive(Parser)]
struct Settings {
    /// A tenth of the steps and three rounds
    #[arg(long)]
    quick: bool,
    /// Rounds of every size
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match measure_all(&Settings::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(settings: &Settings) -> Outcome {
    // Without `--bench` cargo only wants to see that it runs.
    let quick = settings.quick || !settings.bench;
    let rounds = settings.rounds.unwrap_or(if quick { 3 } else { 7 });
    println!("{}, medians of {rounds} rounds", machine());
    println!(
        "\n{:24} workers  points  steps  METG(50 %)/µs  1 iteration/µs",
        "stencil_1d"
    );
    let mut rows = Vec::new();
    for n_workers in [1, 2] {
        let runtime = Runtime::builder().threads(n_workers).build()?;
        for points in [1, 16] {
            let graph = Graph {
                pattern: Pattern::Stencil,
                width: n_workers as u32 * points,
                steps: if quick { 100 } else { 1000 },
                radix: 0,
                period: 0,
                fraction: 0.0,
            };
            rows.extend(measure(&runtime, graph.checked()?, rounds)?);
        }
    }
    if !quick {
        kept::keep("task_bench", machine(), rows)?;
    }
    Ok(())
}

/// Sweeps both contestants, prints a row for each, and answers that of ours beside the bare loop, if it has
/// a METG.
fn measure(runtime: &Runtime, graph: Graph, rounds: u32) -> Outcome<Option<Row>> {
    let n_workers = runtime.n_threads();
    let ours = |kernel| -> Outcome<f64> {
        let space = TaskBench::new(graph, 1, 16, kernel);
        Ok(runtime.run(&space)?.seconds)
    };
    let bare = |kernel| -> Outcome<f64> {
        let start = Instant::now();
        run_bare(&BareGraph { graph, kernel }, n_workers);
        Ok(start.elapsed().as_secs_f64())
    };
    let contestants: [Contestant; 2] = [
        ("dataflow, 16 B", &ours),
        ("bare dense-counter loop", &bare),
    ];
    let empty = BareGraph {
        graph,
        kernel: kernel_of(0),
    };
    let tasks = empty.count() as f64;
    let mut sweeps = contestants.map(|_| Vec::new());
    for size in (0..16).rev() {
        let kernel = kernel_of(1 << size);
        let medians = in_turns(&contestants, kernel, rounds as usize)?;
        for (sweep, median) in sweeps.iter_mut().zip(medians) {
            sweep.push(Run {
                granularity: median * n_workers as f64 / tasks,
                rate: kernel.flops() * tasks / median,
            });
        }
    }
    let rates = sweeps.iter().flatten().map(|run| run.rate);
    let peak = rates.fold(0.0, f64::max);
    let found = [0, 1].map(|at| metg(&sweeps[at], peak).map(|metg| metg * 1e6));
    for (((name, _), sweep), found) in contestants.iter().zip(&sweeps).zip(found) {
        let found = found.map_or("–".into(), |metg| format!("{metg:.3}"));
        let finest = sweep.last().map_or(f64::NAN, |run| run.granularity * 1e6);
        let (points, steps) = (graph.width, graph.steps);
        println!("{name:24} {n_workers:7}  {points:6}  {steps:5}  {found:>13}  {finest:14.3}");
    }
    let [ours, bare] = found;
    Ok(ours.map(|ours| Row {
        what: format!("METG, {} points, {n_workers} workers", graph.width),
        unit: Unit::Microseconds,
        ours,
        spread: None,
        other: None,
        limit: bare.map(|bare| (contestants[1].0.into(), bare)),
    }))
}

/// A name, and the seconds of a run with a kernel.
type Contestant<'r> = (&'static str, &'r dyn Fn(Kernel) -> Outcome<f64>);

/// The median seconds of each contestant: they run in turns, and each round another one begins.
fn in_turns(contestants: &[Contestant<'_>; 2], kernel: Kernel, rounds: usize) -> Outcome<[f64; 2]> {
    let mut seconds = contestants.map(|_| Vec::new());
    for round in 0..rounds {
        for place in 0..contestants.len() {
            let place = (place + round) % contestants.len();
            seconds[place].push(contestants[place].1(kernel)?);
        }
    }
    Ok(seconds.map(|seconds| quartiles(&seconds).0))
}

fn kernel_of(iterations: u64) -> Kernel {
    Kernel {
        kind: Kind::Compute,
        iterations,
    }
}

/// The graph as the bare loop wants it.
struct BareGraph {
    graph: Graph,
    kernel: Kernel,
}

impl Numbered for BareGraph {
    /// Step and point.
    type Task = (u32, u32);

    fn count(&self) -> usize {
        self.graph.steps as usize * self.graph.width as usize
    }

    fn roots(&self) -> Vec<(u32, u32)> {
        (0..self.graph.width).map(|point| (0, point)).collect()
    }

    #[inline(always)]
    fn number(&self, (step, point): (u32, u32)) -> usize {
        step as usize * self.graph.width as usize + point as usize
    }

    #[inline(always)]
    fn in_degree(&self, (step, point): (u32, u32)) -> u8 {
        self.graph.inputs(step, point).count() as u8
    }

    #[inline(always)]
    fn successors(&self, (step, point): (u32, u32), mut to: impl FnMut((u32, u32))) {
        let readers = self.graph.readers(step, point);
        readers.for_each(|(reader, _)| to((step + 1, reader)));
    }

    #[inline(always)]
    fn body(&self, (step, _): (u32, u32)) {
        self.kernel.run(step);
    }
}
