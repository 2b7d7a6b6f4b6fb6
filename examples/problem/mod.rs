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
pub use report::{digest, digest_of_all, in_numbers, judge, say_more};

use super::cli;
use clap::Args;
use cli::{Failure, Outcome, Settings};
use dataflow::linalg::LinalgError;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::market::{ReadError, physical_memory};
use dataflow::linalg::matrix::{Distribution, Grid, GridError, Layout, LayoutError, Tile};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use dataflow::{Runtime, Transport};

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
    /// Refuses what does not fit: matrices of these layouts, of which it has the first.
    pub fn original<T: Scalar>(
        &mut self,
        layouts: &[&Layout],
        kept: u64,
        (generated, otherwise): (&Generated, Kind),
    ) -> Result<Matrix<T>, Failure> {
        let layout = *layouts[0];
        match self.file.take() {
            Some(file) => Matrix::read(file, layout, kept, self.runtime),
            None => {
                self.outcome.seed = Some(self.settings.seed);
                fits::<T>(layouts, self.runtime)?;
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

/// Refuses matrices of which this rank's part of the machine cannot hold its tiles.
pub fn fits<T: Scalar>(layouts: &[&Layout], runtime: &Runtime) -> Result<(), Failure> {
    let bytes = layouts.iter().map(|layout| {
        let elements = layout.n_elements().saturating_mul(size_of::<T>() as u128);
        let tiles = layout.n_slots() as u128 * size_of::<Tile<T>>() as u128;
        elements.saturating_add(tiles)
    });
    let needed = bytes.fold(0, u128::saturating_add);
    let limit = memory_of(runtime);
    if needed > limit.into() {
        let text = format!("a matrix of {needed} bytes does not fit (memory: {limit} bytes)");
        return Err(Failure::new("does_not_fit", text));
    }
    Ok(())
}

/// Bytes of memory for each of the ranks that share this machine.
pub fn memory_of(runtime: &Runtime) -> u64 {
    match runtime.transport() {
        Transport::Local => physical_memory() / runtime.n_ranks() as u64,
        _ => physical_memory(),
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
