//! Measures what kernels, tasks and messages take on this machine, for `--simulate time`.
//!
//! ```text
//! cargo run --release --example calibrate -- --costs costs.json
//! cargo mpirun -n 2 --release --example calibrate -- --costs costs.json
//! cargo run --release --example cholesky -- --n 20000 --simulate time --costs costs.json --ranks 4
//! ```
//!
//! Alone it measures kernels on one worker, on all, and on two ranks that are threads, the runtime, and
//! messages between these ranks. On two ranks (`cargo mpirun -n 2`, or `--ranks 2 --transport tcp`) it
//! measures what there is and adds it to the file. With `--compare` runs are made in the same passes and
//! simulated afterwards, and the table says how far they are apart. Another program beside it makes all
//! of it worthless.
//!
//! Cost: the matrices of one routine at a time, three for products, and of its graph the name of each task.
//!
//! # Elsewhere
//! The file: `common/cli/costs.rs`. What is measured how: `calibrate/`. The guide's page `machines`.

#[path = "calibrate/between.rs"]
mod between;
#[path = "calibrate/compare.rs"]
mod compare;
#[path = "calibrate/ends.rs"]
mod ends;
#[path = "calibrate/kernels.rs"]
mod kernels;
#[path = "calibrate/line.rs"]
mod line;
#[path = "calibrate/messages.rs"]
mod messages;
#[path = "calibrate/quantile.rs"]
mod quantile;
#[path = "ping_pong/rally.rs"]
#[allow(dead_code, reason = "ping_pong sets a table of its own")]
mod rally;
#[path = "calibrate/samples.rs"]
mod samples;
#[path = "ping_pong/space.rs"]
mod space;
#[path = "calibrate/stage.rs"]
mod stage;
#[path = "calibrate/taken.rs"]
mod taken;
#[path = "calibrate/work.rs"]
mod work;

use common::cli::costs::{CostFile, Overhead};
use common::cli::outputs::expect_writable;
use common::cli::settings::ROOM;
use common::cli::{self, Failure, Outcome, Settings};
use common::problem::{self, File, InAnyPrecision, backend, by_precision};
use dataflow::core::rank::Rank;
use dataflow::core::words::counted;
use dataflow::linalg::scalar::Scalar;
use dataflow::{Runtime, RuntimeBuilder, Transport};
use samples::Samples;
use serde_json::json;
use stage::Stage;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use work::Routine;

const EXAMPLE: cli::Example = cli::Example {
    name: "calibrate",
    about: "Measures what kernels, tasks and messages take here, and writes it to a file",
    runs: false, // it records and times runs of its own, so there is none to be traced or watched
    honours: &[
        "threads",
        "bind",
        "policy",
        "repeat",
        "precision",
        "backend",
        "costs",
        "seed",
    ],
};

/// The flags of this example.
#[derive(clap::Args)]
#[command(
    mut_arg("repeat", |repeat| repeat.default_value("2").help(
        "In each pass run each graph so many times, small ones more often, after once that does not count"
    )),
    mut_arg("costs", |costs| costs.help(
        "Write what was measured to this file, for --simulate time; with --keep it is read [default: costs.json]"
    )),
    mut_arg("seed", |seed| seed.help("Seed of what --compare simulates"))
)]
struct Own {
    /// Whose kernels are measured
    #[arg(
        long,
        value_name = "ROUTINE",
        value_delimiter = ',',
        value_enum,
        default_value = "cholesky,lu,lu_swaps,lu_columns,qr,matmul"
    )]
    routines: Vec<Routine>,
    /// Tile orders of the kernels that are measured
    #[arg(long, value_name = "NB", value_delimiter = ',', default_value = "96,192,288,384", value_parser = cli::settings::at_least_one)]
    orders: Vec<usize>,
    /// Orders of the matrices in which they are measured, made multiples of the tiles'
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "768,1536,2688", value_parser = cli::settings::at_least_one)]
    matrices: Vec<usize>,
    /// All is measured so many times, one after the other, so that the hours of a machine count alike
    #[arg(long, value_name = "TIMES", default_value = "3", value_parser = cli::settings::at_least_one)]
    passes: usize,
    /// Compare runs, made in the same passes, with their simulation
    #[arg(long)]
    compare: bool,
    /// Measure no kernels and no messages: compare runs with the file as it is
    #[arg(long, requires = "compare", conflicts_with_all = ["orders", "matrices"])]
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

fn main() -> ExitCode {
    // What is measured is recorded.
    let traced = |_: &Settings<Own>, builder: RuntimeBuilder| Ok(builder.trace(ROOM));
    cli::run_on(&EXAMPLE, traced, |settings, runtime, outcome| {
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
        let settings = self.settings;
        let own = &settings.own;
        if !own.compare {
            settings.expect_no_seed("only --compare simulates")?;
        }
        let backend = backend(self.settings.backend)?;
        self.outcome.precision = Some(T::PRECISION.to_string());
        self.outcome.backend = Some(self.settings.backend.to_string());
        let bench = Bench {
            runtime: self.runtime,
            settings,
            own,
            backend,
            rounds: self.settings.repeat,
        };
        let file = self.settings.costs.clone();
        let file = file.unwrap_or_else(|| PathBuf::from("costs.json"));
        let before = bench.before(&file)?;
        if !own.keep && self.runtime.rank() == Rank(0) {
            // Minutes of measuring would be for nothing.
            expect_writable(&file)?;
        }
        bench.expect_room::<T>()?;
        let samples = bench.samples::<T>()?;
        let costs = match own.keep {
            true => before,
            false => bench.costs::<T>(before, &samples)?,
        };
        self.outcome.set("costs", file.display().to_string());
        if self.runtime.rank() != Rank(0) {
            return Ok(());
        }
        if !own.keep {
            let written = costs.write(&file);
            written.map_err(|error| Failure::output_unwritable(&file, error))?;
            let (kernels, networks) = (costs.kernels.len(), costs.networks.len());
            let file = file.display();
            let (kernels, networks) = (counted(kernels, "kernel"), counted(networks, "network"));
            let text = format!("{kernels} and {networks} in {file}");
            self.outcome.say(text);
        }
        if own.compare {
            let rows = bench.compare::<T>(costs, samples)?;
            compare::tell(&rows, self.outcome);
        }
        Ok(())
    }
}

/// What measures.
struct Bench<'a> {
    runtime: &'a Runtime,
    settings: &'a Settings<Own>,
    own: &'a Own,
    backend: dataflow::linalg::kernel::Backend,
    /// How often each graph is run in a pass.
    rounds: usize,
}

impl Bench<'_> {
    /// What is known before: of the file, where it is kept or two ranks add to it. Only rank 0 has it, which
    /// alone writes and compares: another host has no such file.
    fn before(&self, file: &Path) -> Result<CostFile, Failure> {
        match (self.runtime.n_ranks(), self.own.keep) {
            (1, false) => Ok(CostFile::default()),
            (2, _) if self.runtime.rank() != Rank(0) => Ok(CostFile::default()),
            (2, false) if !file.exists() => {
                let file = file.display();
                let text = format!(
                    "{file} is not there: two ranks add to it what messages take between them, so let one rank write it first"
                );
                Err(Failure::new("wrong_costs", text))
            }
            (1 | 2, _) => Ok(CostFile::read(file)?),
            (ranks, _) => {
                let text = format!("--ranks {ranks}: messages are measured between 2");
                Err(Failure::refused(text))
            }
        }
    }

    /// Refuses orders for whose matrices there is no room.
    fn expect_room<T: Scalar>(&self) -> Result<(), Failure> {
        let own = self.own;
        for &routine in &own.routines {
            let measured = kernels::shapes(&own.orders, &own.matrices).into_iter();
            let measured = measured.filter(|_| !own.keep);
            let compared = own.sizes.iter().filter(|_| own.compare);
            let compared = compared.map(|&n| (n, routine.default_order::<T>(n)));
            for (n, nb) in measured.chain(compared) {
                let held = routine.bytes::<T>(n, nb)? / self.runtime.n_ranks() as u128;
                let asked = format!("{} of order {n} in tiles of {nb}", routine.name());
                problem::expect_room(&asked, held, self.runtime)?;
            }
        }
        Ok(())
    }

    /// Where things are measured: alone one rank on one worker and on all, and two ranks that are threads;
    /// else the ranks that there are.
    fn stages(&self) -> Vec<Stage> {
        let own = Stage::of(self.runtime);
        let mut stages = match own.n_ranks {
            1 => vec![(1, 1), (1, own.threads), (2, 1)],
            n_ranks => vec![(n_ranks, own.threads)],
        };
        stages.dedup();
        let stages = stages.into_iter();
        stages
            .map(|(n_ranks, threads)| Stage { n_ranks, threads })
            .collect()
    }

    /// The kernels, and the runs with which they are compared, pass by pass.
    fn samples<T: Scalar>(&self) -> Result<Samples, Failure> {
        let mut samples = Samples::default();
        for pass in 0..self.own.passes {
            // One process starts new workers for each; ranks that there are stay as warm as they are.
            let is_cold = pass == 0 || self.runtime.n_ranks() == 1;
            for stage in self.stages() {
                let more = self.on(stage, |runtime| self.pass::<T>(is_cold, runtime))?;
                samples.extend(more);
            }
        }
        Ok(samples)
    }

    /// With what has been measured: kernels, and by one process the runtime as well; messages.
    fn costs<T: Scalar>(&self, before: CostFile, samples: &Samples) -> Result<CostFile, Failure> {
        let mut costs = before;
        costs.add(samples.kernels());
        if self.runtime.n_ranks() == 1 {
            costs.cores = Some(self.runtime.workers().topology().n_cores());
            let engine = samples.between.engine();
            let (n_ranks, threads) = (1, 1);
            costs.runtime = Overhead {
                task_nanoseconds: engine.fixed,
                edge_nanoseconds: engine.slope,
                run_nanoseconds: self.on(Stage { n_ranks, threads }, between::around)?,
            };
            costs.about = json!({
                "precision": T::PRECISION.to_string(),
                "backend": self.backend.to_string(),
                "rounds": self.own.passes * self.rounds,
                "system": std::env::consts::ARCH.to_string() + " " + std::env::consts::OS,
            });
        }
        let name = match self.runtime.transport() {
            Transport::Tcp => "tcp",
            Transport::Mpi => "mpi",
            _ => "local",
        };
        let (n_ranks, threads) = (2, 1);
        let pair = Stage { n_ranks, threads };
        let engine = costs.runtime;
        let mut network = self.on(pair, |runtime| {
            messages::network(runtime, engine, self.own.passes)
        })?;
        let end = network.send_nanoseconds;
        messages::learn(&mut network, samples.between.carrying(engine, end));
        costs.networks.insert(name.into(), network);
        Ok(costs)
    }
}
