//! What a scheduling policy would make of a tile Cholesky factorisation on a machine that is not
//! there, in virtual time.
//!
//! ```text
//! cargo run --release --features hwloc --example simulate -- \
//!     --input machine.xml --policy distance,patience=20 --n 15360 --nb 256 --json
//! ```
//!
//! The tasks are those of the real factorisation, the policy and its queues those that workers
//! use; the machine is this one, that of an hwloc XML file (`--input`), or that of a copy of
//! `/sys/devices/system` (`--input` with a folder; needs no feature). What tasks and bytes cost
//! stands in `examples/simulate/costs.json`, or another file (`--costs`). What the environment says of
//! workers here does not count.
//!
//! `--trace FILE` leaves what each worker would do. With `--beside POLICY`, as often as one likes, the
//! same runs under other policies too, and an SVG has all of them on one axis of time. Each policy is
//! simulated once for both; time measured with `--trace` has the recording in it.

use common::cli::{self, Failure, Measured, Outcome, Settings};
use common::problem::expect_places;
use dataflow::core::port::Heap;
use dataflow::linalg::cholesky::Factor;
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::numa::simulate::{Costs, Simulated, Ties, simulate, simulate_traced};
use dataflow::numa::topology::system;
use dataflow::numa::{Place, Policy, Topology, Warning};
use dataflow::prelude::{Description, TaskSpace};
use dataflow::trace::{self, Trace, View};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const EXAMPLE: cli::Example = cli::Example {
    name: "simulate",
    about: "Says how long a tile Cholesky factorisation would take on another machine",
    runs: true,
    honours: &["n", "nb", "input", "trace", "costs"],
};

#[derive(clap::Args)]
#[command(
    mut_arg("n", |n| n.help("Order of the problem [default: 15360]")),
    mut_arg("nb", |nb| nb.help("Order of a tile [default: 256]")),
    mut_arg("costs", |costs| costs.help(
        "What tasks and bytes cost: a file like the default one [default: examples/simulate/costs.json]"
    )),
    mut_arg("input", |input| input.help(
        "The machine: an hwloc XML file, or a copy of /sys/devices/system [default: this one]"
    )),
    mut_arg("threads", |threads| threads.help(
        "Workers [default: one per core of the machine, whatever the environment says]"
    ))
)]
struct Own {
    /// Where a task goes whose inputs are equally large: to the first of them, the tile that it
    /// changes, as workers do, or to the last, a tile that it reads
    #[arg(long, value_enum, default_value_t = TiesFlag::First)]
    ties: TiesFlag,

    /// Another policy to simulate the same with, also several
    #[arg(long, value_name = "POLICY")]
    beside: Vec<Policy>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum TiesFlag {
    First,
    Last,
}

/// The file of costs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostsFile {
    #[serde(rename = "about")]
    _about: Option<serde_json::Value>,
    /// Which, for errors.
    #[serde(skip)]
    name: String,
    /// Rate of each class of tasks, in units of 10⁹ operations a second.
    gflops: BTreeMap<String, f64>,
    remote_nanoseconds_per_byte: f64,
    initialise_nanoseconds_per_byte: f64,
    idle_round_microseconds: f64,
}

/// Operations of a task on tiles of order nb, in units of nb³.
const OPERATIONS: [(&str, f64); 4] = [
    ("Potrf", 1.0 / 3.0),
    ("Trsm", 1.0),
    ("Herk", 1.0),
    ("Gemm", 2.0),
];

fn main() -> std::process::ExitCode {
    cli::run_alone(&EXAMPLE, run)
}

fn run(settings: &Settings<Own>, outcome: &mut Outcome) -> Result<(), Failure> {
    refuse_several_in_one_file(settings)?;
    let (n, nb) = (settings.n.unwrap_or(15360), settings.nb.unwrap_or(256));
    (outcome.n, outcome.nb) = (Some(n), Some(nb));
    outcome.precision = Some("f64".into());
    let costs = CostsFile::read(settings.costs.as_deref())?;
    let topology = machine(settings.input.as_deref())?;
    let bind = settings.bound_to();
    let n_workers = settings.threads.unwrap_or_else(|| bind.capacity(&topology));
    outcome.threads = Some(n_workers);
    if n_workers > bind.capacity(&topology) {
        let n_cores = topology.n_cores();
        let warning = Warning::MoreWorkersThanCores { n_workers, n_cores };
        outcome.say(format!("warning: {warning}"));
    }

    // Tiles that do not exist: only their edges are walked.
    let layout = Layout::lower(n, nb).map_err(wrong_shape)?;
    expect_places(&layout)?;
    let matrix = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
    let factor = Factor::new(&matrix, Backend::Auto).map_err(wrong_shape)?;
    let mut costs = costs.of(&factor, nb)?;
    costs.ties = match settings.own.ties {
        TiesFlag::First => Ties::First,
        TiesFlag::Last => Ties::Last,
    };
    let question = Question {
        places: bind.places(&topology, n_workers),
        topology,
        costs,
        factor,
        is_traced: settings.trace.is_some(),
    };
    let mut traces = question.measure(settings, outcome)?;
    traces.extend(question.compare(&settings.own.beside, outcome)?);
    match &settings.trace {
        Some(path) => leave(&traces, path),
        None => Ok(()),
    }
}

/// The traces of several policies fit a picture only.
fn refuse_several_in_one_file(settings: &Settings<Own>) -> Result<(), Failure> {
    let is_picture = |path: &PathBuf| trace::Format::of(path) == Some(trace::Format::Svg);
    match &settings.trace {
        Some(path) if !settings.own.beside.is_empty() && !is_picture(path) => Err(
            Failure::refused("--trace: several runs fit a picture only (.svg)"),
        ),
        _ => Ok(()),
    }
}

/// What is to be simulated with each policy.
struct Question<'m> {
    factor: Factor<'m, f64>,
    topology: Topology,
    places: Vec<Place>,
    costs: Costs,
    is_traced: bool,
}

/// Policies by name, each with the trace of its run.
type Traces = Vec<(String, Trace)>;

impl Question<'_> {
    /// A run with a policy, and its trace if that is wanted.
    fn simulate(&self, policy: &Policy) -> Result<(Simulated, Option<Trace>), Failure> {
        let (space, on) = (&self.factor, (&self.topology, &self.places[..]));
        let run = match self.is_traced {
            true => simulate_traced(space, on.0, on.1, policy, &self.costs)
                .map(|(run, trace)| (run, Some(trace))),
            false => simulate(space, on.0, on.1, policy, &self.costs).map(|run| (run, None)),
        };
        run.map_err(|error| Failure::new("not_simulated", error.to_string()))
    }

    /// Simulates the policy of `--policy` as often as asked for, and tells what it takes.
    fn measure(&self, settings: &Settings<Own>, outcome: &mut Outcome) -> Result<Traces, Failure> {
        let (mut runs, mut last) = (Vec::new(), None);
        for _ in 0..settings.repeat {
            let (start, cpu) = (Instant::now(), cli::process::cpu_seconds());
            let (run, trace) = self.simulate(&settings.policy)?;
            let seconds = start.elapsed().as_secs_f64();
            runs.push(Measured {
                cpu_seconds: cli::process::cpu_seconds() - cpu,
                ..Measured::of_workers(run.tasks, seconds, &run.workers)
            });
            last = Some((run, trace));
        }
        outcome.measured = Measured::median(runs);
        let Some((run, trace)) = last else {
            return Ok(Traces::new());
        };
        tell(&run, outcome.n.unwrap_or(0), &self.topology, outcome);
        let named = |trace| (settings.policy.to_string(), trace);
        Ok(trace.map(named).into_iter().collect())
    }

    /// Simulates other policies, and tells how long each takes.
    fn compare(&self, policies: &[Policy], outcome: &mut Outcome) -> Result<Traces, Failure> {
        let (mut told, mut traces) = (Vec::new(), Traces::new());
        for policy in policies {
            let (run, trace) = self.simulate(policy)?;
            let (name, seconds) = (policy.to_string(), run.seconds);
            outcome.say(format!("with {name}: {seconds:.6} s"));
            told.push(json!({ "policy": name, "simulated_seconds": seconds }));
            traces.extend(trace.map(|trace| (name, trace)));
        }
        if !told.is_empty() {
            outcome.set("beside", told);
        }
        Ok(traces)
    }
}

/// Writes the traces: one as any file, several as one picture.
fn leave(traces: &[(String, Trace)], path: &Path) -> Result<(), Failure> {
    if let [(_, trace)] = traces {
        return Ok(View::of(trace).write(path)?);
    }
    let runs = traces.iter().map(|(name, trace)| (&name[..], trace));
    let runs: Vec<_> = runs.collect();
    let failed = |fault| Failure::output_unwritable(path, fault);
    trace::replace(path, |mut file| trace::write_beside(&runs, &mut file)).map_err(failed)
}

fn tell(run: &Simulated, n: usize, topology: &Topology, outcome: &mut Outcome) {
    let gflops = flops::potrf::<f64>(n) as f64 / run.seconds * 1e-9;
    let gflops = (run.seconds > 0.0).then_some(gflops);
    outcome.set("numa_nodes", topology.n_numa_nodes());
    outcome.set("simulated_seconds", run.seconds);
    outcome.set("simulated_gflops", gflops);
    outcome.set("idle_share", run.idle_share);
    let rate = gflops.map_or(String::new(), |gflops| format!("{gflops:.1} GFLOP/s, "));
    outcome.say(format!(
        "simulated: {:.6} s, {rate}workers idle for {:.1} % of it",
        run.seconds,
        100.0 * run.idle_share
    ));
}

/// The machine to simulate.
fn machine(input: Option<&Path>) -> Result<Topology, Failure> {
    Ok(match input {
        None => Topology::discover()?,
        Some(folder) if folder.is_dir() => system::read(folder, &pus_in(folder)?),
        Some(file) => Topology::from_xml(file)?,
    })
}

/// All PUs that run of a copy of `/sys/devices/system`.
fn pus_in(folder: &Path) -> Result<Vec<usize>, Failure> {
    let missing = |error: std::io::Error| {
        Failure::malformed_input(format!("{} has no folder cpu: {error}", folder.display()))
    };
    let entries = std::fs::read_dir(folder.join("cpu")).map_err(missing)?;
    let number = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.strip_prefix("cpu")?.parse().ok()
    };
    let mut pus: Vec<usize> = entries.filter_map(number).collect();
    if let Some(online) = system::online(folder) {
        pus.retain(|pu| online.contains(pu));
    }
    pus.sort_unstable();
    match pus.is_empty() {
        true => {
            let text = format!("{} has no PU that runs (cpu/cpu0)", folder.display());
            Err(Failure::malformed_input(text))
        }
        false => Ok(pus),
    }
}

impl CostsFile {
    fn read(path: Option<&Path>) -> Result<CostsFile, Failure> {
        let (name, text) = match path {
            None => (
                "the costs built in".to_string(),
                include_str!("simulate/costs.json").into(),
            ),
            Some(path) => {
                let name = path.display().to_string();
                let text = cli::text_of(path);
                let text = text.map_err(|error| wrong_costs(&name, error))?;
                (name, text)
            }
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if text.trim().is_empty() {
            let text = "file is empty (must be an object of JSON, as examples/simulate/costs.json)";
            return Err(wrong_costs(&name, text));
        }
        let read = serde_json::from_str(text);
        let costs: CostsFile = read.map_err(|error| wrong_costs(&name, error))?;
        CostsFile { name, ..costs }.checked()
    }

    /// Whether its numbers can be costs, each of them that of a class there is.
    fn checked(self) -> Result<Self, Failure> {
        let costs = [
            (
                "remote_nanoseconds_per_byte",
                self.remote_nanoseconds_per_byte,
            ),
            (
                "initialise_nanoseconds_per_byte",
                self.initialise_nanoseconds_per_byte,
            ),
            ("idle_round_microseconds", self.idle_round_microseconds),
        ];
        if let Some((key, cost)) = costs.iter().find(|(_, cost)| *cost < 0.0) {
            let text = format!("{key}: {cost} (must be a number of at least 0)");
            return Err(wrong_costs(&self.name, text));
        }
        let classes = OPERATIONS.map(|(class, _)| class);
        let mut named = self.gflops.keys();
        if let Some(unknown) = named.find(|class| !classes.contains(&&class[..])) {
            let text = format!(
                "gflops: there is no class {unknown} ({})",
                classes.join(", ")
            );
            return Err(wrong_costs(&self.name, text));
        }
        Ok(self)
    }

    /// The costs of a space's classes for tiles of order nb.
    fn of(&self, space: &impl TaskSpace, nb: usize) -> Result<Costs, Failure> {
        let mut about = Description::default();
        space.describe(&mut about);
        let nb = nb as f64;
        let seconds = |class: &str| {
            let rate = self.gflops.get(class).filter(|&&rate| rate > 0.0);
            let operations = OPERATIONS.iter().find(|(name, _)| *name == class);
            let (rate, (_, operations)) = rate.zip(operations).ok_or_else(|| {
                let text = format!("gflops of {class} is missing or not above 0");
                wrong_costs(&self.name, text)
            })?;
            Ok(operations * nb.powi(3) / (rate * 1e9))
        };
        let classes = about.classes().iter().map(|class| seconds(&class.name));
        let bytes = nb * nb * size_of::<f64>() as f64;
        Ok(Costs {
            classes: classes.collect::<Result<_, Failure>>()?,
            initialise: bytes * self.initialise_nanoseconds_per_byte * 1e-9,
            bytes: bytes as u64,
            remote_byte: self.remote_nanoseconds_per_byte * 1e-9,
            round: self.idle_round_microseconds * 1e-6,
            ties: Ties::First,
        })
    }
}

fn wrong_costs(name: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new("wrong_costs", format!("{name}: {error}"))
}

fn wrong_shape(error: impl std::fmt::Display) -> Failure {
    Failure::new("wrong_shape", error.to_string())
}
