//! Measures what kernels, tasks and messages take on this machine, for `--simulate time`.
//!
//! ```text
//! cargo run --release --example calibrate -- --costs costs.json
//! cargo mpirun -n 2 --release --example calibrate -- --costs costs.json
//! cargo run --release --example cholesky -- --n 20000 --simulate time --costs costs.json --ranks 4
//! ```
//!
//! Alone it measures kernels on one worker and on all, the runtime, and messages between two ranks that
//! are threads. On two ranks (`cargo mpirun -n 2`, or `--ranks 2 --transport tcp`) it measures their
//! messages and adds them to the file. With `--compare` runs are then made and simulated, and the table
//! says how far they are apart. Another program beside it makes all of it worthless.
//!
//! # Elsewhere
//! The file: `common/cli/costs.rs`. What is measured how: `calibrate/`. The guide's page `machines`.

#[path = "calibrate/compare.rs"]
mod compare;
#[path = "calibrate/kernels.rs"]
mod kernels;
#[path = "calibrate/messages.rs"]
mod messages;
#[path = "calibrate/overhead.rs"]
mod overhead;
#[path = "ping_pong/rally.rs"]
#[allow(dead_code, reason = "ping_pong sets a table of its own")]
mod rally;
#[path = "ping_pong/space.rs"]
mod space;
#[path = "calibrate/work.rs"]
mod work;

use common::cli::costs::Costs;
use common::cli::{self, Failure, Outcome, Settings};
use common::problem::{File, InAnyPrecision, backend, by_precision};
use dataflow::core::rank::Rank;
use dataflow::linalg::scalar::Scalar;
use dataflow::{Runtime, Transport, launch};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLE: cli::Example = cli::Example {
    name: "calibrate",
    about: "Measures what kernels, tasks and messages take here, and writes it to a file",
    runs: true,
    honours: &["precision", "backend", "costs", "seed"],
};

/// The flags of this example.
#[derive(clap::Args)]
struct Own {
    /// Tile orders of the kernels that are measured
    #[arg(long, value_name = "NB", value_delimiter = ',', default_value = "192,288,384", value_parser = cli::settings::at_least_one)]
    orders: Vec<usize>,
    /// Tiles in a row of the matrices whose kernels are measured
    #[arg(long, value_name = "TILES", default_value = "6", value_parser = cli::settings::at_least_one)]
    tiles: usize,
    /// Compare runs with their simulation afterwards
    #[arg(long)]
    compare: bool,
    /// Measure nothing: compare with the file as it is
    #[arg(long, requires = "compare")]
    keep: bool,
    /// Orders of the matrices that are compared
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "1152,1728,2304",
        requires = "compare"
    )]
    sizes: Vec<usize>,
}

/// How often each graph is run, unless `--repeat` says otherwise.
const ROUNDS: usize = 7;

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        let calibration = Calibration {
            settings,
            runtime,
            outcome,
        };
        by_precision(settings, calibration)
    })
}

/// What is measured where.
struct Calibration<'a> {
    settings: &'a Settings<Own>,
    runtime: &'a Runtime,
    outcome: &'a mut Outcome,
}

impl InAnyPrecision for Calibration<'_> {
    fn file(&self) -> Option<&File> {
        None
    }

    fn run<T: Scalar>(self) -> Result<(), Failure> {
        let backend = backend(self.settings.backend)?;
        self.outcome.precision = Some(T::PRECISION.to_string());
        self.outcome.backend = Some(self.settings.backend.to_string());
        let bench = Bench {
            runtime: self.runtime,
            bind: self.settings.bound_to(),
            backend,
            rounds: match self.settings.repeat {
                1 => ROUNDS,
                rounds => rounds,
            },
            seed: self.settings.seed,
        };
        let own = &self.settings.own;
        let file = self.settings.costs.clone();
        let file = file.unwrap_or_else(|| PathBuf::from("costs.json"));
        let costs = bench.costs::<T>(own, &file)?;
        let is_first = self.runtime.rank() == Rank(0);
        if !own.keep && is_first {
            costs.write(&file)?;
            let (kernels, networks) = (costs.kernels.len(), costs.networks.len());
            let file = file.display();
            let text = format!("{kernels} kernels and {networks} networks in {file}");
            self.outcome.say(text);
        }
        self.outcome.set("costs", file.display().to_string());
        if own.compare {
            let rows = bench.compare::<T>(costs, &own.sizes)?;
            if is_first {
                compare::tell(&rows, self.outcome);
            }
        }
        Ok(())
    }
}

/// What measures.
struct Bench<'a> {
    runtime: &'a Runtime,
    bind: dataflow::Bind,
    backend: dataflow::linalg::kernel::Backend,
    /// How often each graph is run.
    rounds: usize,
    seed: u64,
}

impl Bench<'_> {
    /// Of the file, where they are kept; otherwise measured, by two ranks those of messages alone.
    fn costs<T: Scalar>(&self, own: &Own, file: &Path) -> Result<Costs, Failure> {
        Ok(match (self.runtime.n_ranks(), own.keep) {
            (1 | 2, true) => Costs::read(file)?,
            (1, false) => self.all::<T>(&own.orders, own.tiles)?,
            (2, false) => {
                let mut costs = Costs::read(file)?;
                self.add_network(&mut costs)?;
                costs
            }
            (ranks, _) => {
                let text = format!("--ranks {ranks}: messages are measured between 2");
                return Err(Failure::refused(text));
            }
        })
    }

    /// All that one process can measure.
    fn all<T: Scalar>(&self, orders: &[usize], tiles: usize) -> Result<Costs, Failure> {
        let cores = self.runtime.workers().topology().n_cores();
        let mut costs = Costs {
            cores: Some(cores),
            ..Costs::default()
        };
        let mut workers = vec![1, self.runtime.n_threads()];
        workers.dedup();
        for &n_workers in &workers {
            costs
                .kernels
                .extend(self.kernels::<T>(n_workers, orders, tiles)?);
        }
        costs.runtime = self.overhead()?;
        let ranks = Runtime::builder().ranks(2).threads(1).bind(self.bind);
        let task = costs.runtime.task_nanoseconds;
        let local = launch(ranks.transport(Transport::Local), |runtime| {
            messages::network(runtime, task)
        })?;
        costs.networks.insert("local".into(), local);
        costs.about = json!({
            "workers": workers,
            "precision": T::PRECISION.to_string(),
            "backend": self.backend.to_string(),
            "rounds": self.rounds,
            "system": std::env::consts::ARCH.to_string() + " " + std::env::consts::OS,
        });
        Ok(costs)
    }

    /// Measures the messages of the ranks that there are.
    fn add_network(&self, costs: &mut Costs) -> Result<(), Failure> {
        let name = match self.runtime.transport() {
            Transport::Local => "local",
            Transport::Tcp => "tcp",
            _ => "mpi",
        };
        let network = messages::network(self.runtime, costs.runtime.task_nanoseconds)?;
        costs.networks.insert(name.into(), network);
        Ok(())
    }
}
