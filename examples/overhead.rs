//! What the runtime itself costs: graphs of empty tasks, in nanoseconds and bytes a task.
//!
//! # Elsewhere
//! The graphs: `common/shapes.rs`; over ranks: `overhead/spread.rs`. The same beside rayon and a bare loop: `benches/overhead.rs`.

#[path = "overhead/spread.rs"]
mod spread;

use clap::ValueEnum;
use common::cli::{self, Example, Failure, Measured, Outcome, Settings, process};
use common::problem::SLOT;
use common::shapes::{
    Carried, Chain, Cholesky, Data, Independent, Moved, Shared, Stencil, Updated, WIDTH, Wavefront,
};
use dataflow::core::port::Wire;
use dataflow::core::{self, run_across};
use dataflow::{Monitor, Runtime};
use spread::{Dealt, Spread};
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "overhead",
    about: "Runs graphs of empty tasks and says what a task costs",
    runs: true,
    honours: &["grid"],
};

/// What to run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Own {
    /// The graph
    #[arg(long)]
    shape: Shape,
    /// Its size: number of tasks, length, side, tiles a side, or steps of a stencil 64 wide
    #[arg(long, value_name = "S")]
    size: u32,
    /// Give the Cholesky shape its bottom-level priorities
    #[arg(long)]
    priorities: bool,
    /// Number the tasks, so that the engine counts arrivals in an array (without --data)
    #[arg(long)]
    dense: bool,
    /// What the edges carry
    #[arg(long, default_value = "none")]
    data: Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    Independent,
    Chain,
    Wavefront,
    Cholesky,
    Stencil,
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, overhead)
}

fn overhead(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let own = settings.own;
    if own.priorities && own.shape != Shape::Cholesky {
        return Err(Failure::refused(
            "--priorities: only the Cholesky shape has them",
        ));
    }
    if settings.grid.is_some() && own.shape != Shape::Cholesky {
        return Err(Failure::refused(
            "--grid: only the Cholesky shape is dealt out to one",
        ));
    }
    if own.shape == Shape::Independent && (own.data != Data::None || own.dense) {
        return Err(Failure::refused(
            "--data and --dense: independent tasks have no edges",
        ));
    }
    if own.dense && own.data != Data::None {
        return Err(Failure::refused(
            "--dense: only edges without data are counted in an array",
        ));
    }
    if let Some(name) = own.shape.to_possible_value() {
        outcome.set("shape", name.get_name());
    }
    outcome.set("size", own.size);
    expect_room(&own, runtime)?;
    match own.data {
        Data::None => with_data::<()>(settings, runtime, outcome),
        Data::Moved => with_data::<Moved>(settings, runtime, outcome),
        Data::Shared => with_data::<Shared>(settings, runtime, outcome),
        Data::Updated => with_data::<Updated>(settings, runtime, outcome),
    }
}

/// Refuses more data at home than there is room for, of which every rank has a slot for each; or more numbered
/// tasks, of which it has a byte for each.
fn expect_room(own: &Own, runtime: &Runtime) -> Result<(), Failure> {
    let size = u128::from(own.size);
    let (slots, tasks) = match own.shape {
        Shape::Independent | Shape::Chain => (0, size),
        Shape::Wavefront => (2 * size, size * size),
        Shape::Cholesky => (size * (size + 1) / 2, size * (size + 1) * (size + 2) / 6),
        Shape::Stencil => (0, size * u128::from(WIDTH)),
    };
    let bytes = match own.data {
        Data::None if own.dense => tasks,
        Data::None => 0,
        // The number that a slot holds, and its count of readers.
        _ => slots * (SLOT + 24),
    };
    common::problem::expect_room(&format!("--size {size}"), bytes, runtime)
}

fn with_data<D: Carried + Wire>(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let Own {
        shape,
        size,
        priorities,
        dense,
        ..
    } = settings.own;
    let count = u64::from(size);
    match shape {
        Shape::Independent => run(settings, runtime, outcome, || Independent { count }),
        Shape::Chain => run(settings, runtime, outcome, || Chain::<D>::new(count, dense)),
        Shape::Wavefront => run(settings, runtime, outcome, || {
            Wavefront::<D>::new(size, dense)
        }),
        Shape::Cholesky => run(settings, runtime, outcome, || {
            Cholesky::<D>::new(size, dense, priorities)
        }),
        Shape::Stencil => run(settings, runtime, outcome, || {
            Stencil::<D>::new(size, dense)
        }),
    }
}

/// Runs a graph and says what a task cost: the space is part of the memory, not of the time.
fn run<S: Dealt>(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
    shape: impl FnOnce() -> S,
) -> Result<(), Failure> {
    let grid = settings.grid_of(runtime.n_ranks());
    outcome.grid = Some(grid.to_string());
    let earlier_peak = process::max_rss_bytes();
    let at_start = process::restart_peak();
    let shape = shape();
    let measured = match runtime.n_ranks() {
        1 => {
            let run = |monitor: &Monitor| core::run(&shape, &runtime.watched_by(monitor));
            settings.median(|_| settings.measure(runtime, run))
        }
        n_ranks => {
            let (n_ranks, rows) = (n_ranks as u32, grid.rows as u32);
            let space = Spread {
                shape,
                n_ranks,
                rows,
            };
            let run = |monitor: &Monitor| run_across(&space, &runtime.watched_by(monitor));
            settings.median(|_| settings.measure(runtime, run))
        }
    };
    let measured = measured?.unwrap_or_default();
    let peak = process::max_rss_bytes();
    tell(&measured, peak.saturating_sub(at_start), outcome);
    let largest = measured.max_rss_bytes.max(earlier_peak).max(peak);
    outcome.set("max_rss_bytes", largest);
    outcome.say(format!("{largest:>12} max rss bytes"));
    outcome.measured = Some(measured);
    Ok(())
}

/// What a task cost: time, time of processors, and memory, of `bytes` in all.
fn tell(measured: &Measured, bytes: u64, outcome: &mut Outcome) {
    // No task costs nothing.
    let per_task = |total: f64| total / measured.tasks.max(1) as f64;
    let costs = [
        ("ns_per_task", per_task(measured.seconds * 1e9)),
        ("cpu_ns_per_task", per_task(measured.cpu_seconds * 1e9)),
        ("bytes_per_task", per_task(bytes as f64)),
    ];
    for (key, cost) in costs {
        outcome.set(key, cost);
        outcome.say(format!("{cost:>12.3} {}", key.replace('_', " ")));
    }
}
