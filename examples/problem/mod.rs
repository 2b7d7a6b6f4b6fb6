//! What the examples of linear algebra share: where a matrix comes from, what is said of a result.
//!
//! An example opens its [`Problem`], asks [`by_precision`] for its type of number, makes its matrix
//! by [`Problem::original`], measures its graph, and tells [`digest`], [`judge`] and [`say_more`].
//!
//! # Elsewhere
//! Flags, JSON and exit statuses: `cli/`.

// Each example uses its part.
#![allow(dead_code, unused_imports)]

mod matrix;
mod report;

pub use matrix::{File, Generated, Kind, Matrix, open};
pub use report::{digest, digest_of_all, digest_of_upper, in_numbers, judge, say_more};

use super::cli;
use clap::Args;
use cli::{Failure, Outcome, Settings};
use dataflow::core::rank::Rank;
use dataflow::linalg::LinalgError;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::market::ReadError;
use dataflow::linalg::matrix::{Distribution, Grid, GridError, Layout, LayoutError};
use dataflow::linalg::needs::{self, Needs, available};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use dataflow::{Runtime, Transport};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The common flags of an example that works on one matrix of any shape, and whose graph can be counted.
pub const COUNTED: &[&str] = &[
    "n",
    "m",
    "nb",
    "grid",
    "precision",
    "input",
    "seed",
    "backend",
    "check",
    "plan",
    "simulate",
];

/// The common flags of an example that works on one matrix of any shape.
pub const OF_A_MATRIX: &[&str] = &[
    "n",
    "m",
    "nb",
    "grid",
    "precision",
    "input",
    "seed",
    "backend",
    "check",
    "plan",
];

/// Up to this order a result is checked unless the user says otherwise.
const CHECKED_BY_DEFAULT: usize = 8000;

/// Whether the result of a problem with extents up to `longest` is to be checked.
pub fn is_checked<Own: Args>(settings: &Settings<Own>, longest: usize) -> bool {
    settings.check.unwrap_or(longest <= CHECKED_BY_DEFAULT)
}

/// What an example works on, and where.
pub struct Problem<'a, Own: Args> {
    pub settings: &'a Settings<Own>,
    pub file: Option<File>,
    pub runtime: &'a Runtime,
    pub outcome: &'a mut Outcome,
}

impl<'a, Own: Args> Problem<'a, Own> {
    /// Opens the file, if there is one, and notes what the report begins with.
    pub fn open(
        settings: &'a Settings<Own>,
        runtime: &'a Runtime,
        outcome: &'a mut Outcome,
    ) -> Result<Self, Failure> {
        outcome.grid = Some(settings.grid_of(runtime.n_ranks()).to_string());
        outcome.backend = Some(settings.backend.to_string());
        Ok(Problem {
            settings,
            file: open(settings)?,
            runtime,
            outcome,
        })
    }

    /// Rows and columns: the file's, or those that were asked for, or the example's own.
    pub fn shape(&self, own: (impl Fn(usize) -> usize, usize)) -> (usize, usize) {
        match &self.file {
            Some(file) => (file.header().rows, file.header().cols),
            None => {
                let n = self.settings.n.unwrap_or(own.1);
                (self.settings.m.unwrap_or_else(|| own.0(n)), n)
            }
        }
    }

    /// The matrix: the file's, of which `kept` copies are held at once, or a generated one.
    pub fn original<T: Scalar>(
        &mut self,
        layout: Layout,
        kept: u64,
        (generated, otherwise): (&Generated, Kind),
    ) -> Result<Matrix<T>, Failure> {
        match self.file.take() {
            Some(file) => Matrix::read(file, layout, kept, self.runtime),
            None => {
                self.outcome.seed = Some(self.settings.seed);
                let shape = (layout.rows(), layout.cols());
                generated.make(shape, self.settings.seed, otherwise)
            }
        }
    }
}

/// Something to be done in any of the four types of numbers.
pub trait InAnyPrecision {
    /// The file that it starts from.
    fn file(&self) -> Option<&File>;

    /// Does it.
    fn run<T: Scalar>(self) -> Result<(), Failure>;
}

/// Does it in the type that was asked for; if none was, in f64, or in c64 for a complex file.
pub fn by_precision<Own: Args>(
    settings: &Settings<Own>,
    work: impl InAnyPrecision,
) -> Result<(), Failure> {
    use cli::settings::Precision;
    match settings.precision {
        Some(Precision::F32) => work.run::<f32>(),
        Some(Precision::F64) => work.run::<f64>(),
        Some(Precision::C32) => work.run::<c32>(),
        Some(Precision::C64) => work.run::<c64>(),
        None if work.file().is_some_and(|file| file.header().is_complex()) => work.run::<c64>(),
        None => work.run::<f64>(),
    }
}

/// The kernels' library; what this build does not have was refused with the command line.
pub fn backend(asked: cli::settings::Backend) -> Result<Backend, Failure> {
    let name = asked.to_string();
    name.parse()
        .map_err(|error| Failure::refused(format!("--backend: {error}")))
}

/// Tiles over the grid that was asked for, as the rank of `runtime` sees them.
pub fn over_ranks<Own: Args>(
    layout: Layout,
    settings: &Settings<Own>,
    runtime: &Runtime,
) -> Result<Layout, Failure> {
    let grid: Grid = settings.grid_of(runtime.n_ranks()).to_string().parse()?;
    Ok(layout.distributed(Distribution::BlockCyclic(grid), runtime.rank())?)
}

/// What the matrix of a file takes, which stays as it was beside the one that is worked on.
pub fn kept<T: Scalar, Own: Args>(settings: &Settings<Own>, layout: &Layout) -> Needs {
    match settings.input {
        Some(_) => needs::matrix::<T>(layout),
        None => Needs::default(),
    }
}

/// Bytes of memory for each of the ranks that share this machine: of what was free when it was
/// asked for first, before anything was made.
pub fn memory_of(runtime: &Runtime) -> u64 {
    static FREE: OnceLock<u64> = OnceLock::new();
    let free = *FREE.get_or_init(available);
    match runtime.transport() {
        Transport::Local => free / runtime.n_ranks() as u64,
        _ => free,
    }
}

/// More tiles than these are not looked at one by one.
const MOST_TILES: u128 = 1 << 26;

/// Notes what each rank needs, if that is what was asked for: then nothing is to be computed, and it
/// fails if not even what is held fits. Otherwise refuses a run for which this rank has no room. Counted are the matrices that an example
/// works on, those that its check makes where it makes whole ones, and the one that a file leaves.
pub fn is_plan_only<T: Scalar, Own: Args, const N: usize>(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
    layouts: [Layout; N],
    needs: impl Fn([Layout; N]) -> Result<Needs, Failure>,
) -> Result<bool, Failure> {
    let available = memory_of(runtime);
    let n_tiles = |layout: &Layout| layout.mt() as u128 * layout.nt() as u128;
    let is_told = layouts.iter().map(n_tiles).fold(0, u128::saturating_add) <= MOST_TILES;
    // Only people are told the rate of gemm, which is measured while all matrices are there.
    let workers = runtime.n_threads();
    let workspace = match settings.json {
        true => 0,
        false => report::tiles_of_peak::<T>(workers),
    };
    let beside = Needs {
        workspace: workspace + needs::process(workers),
        ..Needs::default()
    };
    let of_rank = |rank: Rank| {
        let there = layouts.map(|layout| layout.distributed(*layout.distribution(), rank));
        let there = there.into_iter().collect::<Result<Vec<_>, LayoutError>>()?;
        let matrices = there.iter().map(needs::matrix::<T>);
        let matrices = matrices.fold(Needs::default(), Needs::and);
        match there.try_into() {
            Ok(there) if is_told => needs(there).map(|of| of.and(beside)),
            _ => Ok(matrices),
        }
    };
    if !settings.plan {
        let refused = |error: needs::DoesNotFit| match &settings.input {
            Some(file) => Failure::new("does_not_fit", format!("{}: {error}", file.display())),
            None => error.into(),
        };
        let room = of_rank(runtime.rank())?.expect_room(available);
        return room.map_err(refused).map(|()| false);
    }
    let ranks = (0..runtime.n_ranks() as u32).map(|rank| of_rank(Rank(rank)));
    let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
    for (rank, of) in ranks.iter().enumerate() {
        let held = format!("rank {rank}: {} bytes held", of.held);
        outcome.say(match is_told {
            true => format!(
                "{held}, at most {} received, {} to work in: {}",
                of.received,
                of.workspace,
                of.at_most()
            ),
            false => format!("{held}, the rest is not told of so many tiles"),
        });
    }
    let fits = |bytes: fn(&Needs) -> u128| ranks.iter().all(|of| bytes(of) <= available.into());
    let verdict = match (fits(|of| of.held), is_told && fits(Needs::at_most)) {
        (false, _) => "cannot fit",
        (true, false) => "may not fit",
        (true, true) => "fits",
    };
    outcome.say(format!(
        "{available} bytes available to each rank: {verdict}"
    ));
    let refused = ranks.iter().find_map(|of| of.expect_room(available).err());
    let ranks: Vec<Value> = ranks.iter().map(|of| numbers(of, is_told)).collect();
    let plan = json!({ "ranks": ranks, "available_bytes": available, "verdict": verdict });
    outcome.set("plan", plan);
    match refused {
        Some(error) => Err(error.into()),
        None => Ok(true),
    }
}

/// What a rank needs, as an object; null what is not told.
fn numbers(of: &Needs, is_told: bool) -> Value {
    // Bytes beyond what JSON's readers count exactly fit no machine.
    let bytes = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    let told = |of: u128| is_told.then(|| bytes(of));
    json!({
        "held_bytes": bytes(of.held),
        "received_bytes": told(of.received),
        "workspace_bytes": told(of.workspace),
        "at_most_bytes": told(of.at_most()),
    })
}

impl From<needs::DoesNotFit> for Failure {
    fn from(error: needs::DoesNotFit) -> Self {
        Failure::new("does_not_fit", error.to_string())
    }
}

impl From<LinalgError> for Failure {
    fn from(error: LinalgError) -> Self {
        let failure = Failure::new(error.name(), error.to_string());
        match error.index() {
            Some(index) => failure.with_index(index),
            None => failure,
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Failure::new(error.kind(), error.to_string())
    }
}

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Self {
        Failure::new("does_not_fit", error.to_string())
    }
}

impl From<GridError> for Failure {
    fn from(error: GridError) -> Self {
        Failure::refused(format!("--grid: {error}"))
    }
}
