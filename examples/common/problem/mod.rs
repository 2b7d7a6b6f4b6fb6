//! What the examples of linear algebra share: where a matrix comes from, what is said of a result.
//!
//! An example opens its [`Problem`], asks [`by_precision`] for its type of number, notes what is computed
//! by [`Problem::begin`], stops where [`Problem::is_plan_only`], makes its matrix by
//! [`Problem::original`], measures its graph, and tells [`digest`], [`judge`] and [`Problem::say_more`].
//!
//! # Elsewhere
//! Flags, JSON and exit statuses: [`cli`].

mod matrix;
mod plan;
mod report;

pub use matrix::{File, Generated, Kind, Matrix, is_hermitian};
pub use plan::{OF_A_TASK, SLOT, expect_room, then_checked};
pub use report::{digest, digest_of_all, digest_of_upper, in_numbers, judge};

use super::cli;
use clap::Args;
use cli::{Failure, Outcome, Settings};
use dataflow::Runtime;
use dataflow::linalg::LinalgError;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::market::ReadError;
use dataflow::linalg::matrix::{Distribution, Grid, GridError, Layout, LayoutError};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use matrix::open;

/// The common flags of an example that works on one matrix of any shape, and whose graph can be counted, or
/// played in virtual time; what the latter asks for last.
pub const PLAYED: &[&str] = &[
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
    "costs",
];

/// The same of one whose graph can only be counted.
pub const COUNTED: &[&str] = PLAYED.split_at(PLAYED.len() - 1).0;

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
    /// The kernels' library.
    pub backend: Backend,
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
            backend: backend(settings.backend)?,
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

    /// Notes what is computed, in which numbers: order or columns, the order of a tile, LAPACK's count of
    /// operations.
    pub fn begin<T: Scalar>(&mut self, n: usize, nb: usize, flops: f64) {
        let outcome = &mut *self.outcome;
        (outcome.n, outcome.nb) = (Some(n), Some(nb));
        outcome.precision = Some(T::PRECISION.to_string());
        outcome.flops = Some(flops);
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

/// What an example whose own flags are `Self` does with its problem, in any of the four types of
/// numbers.
pub trait Job: Args {
    /// Does it.
    fn run<T: Scalar>(problem: Problem<'_, Self>) -> Result<(), Failure>;
}

impl<Own: Job> InAnyPrecision for Problem<'_, Own> {
    fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    fn run<T: Scalar>(self) -> Result<(), Failure> {
        Own::run::<T>(self)
    }
}

/// Does it in the type that was asked for; if none was, in f64, or in c64 for a complex file.
pub fn by_precision<Own: Args>(
    settings: &Settings<Own>,
    work: impl InAnyPrecision,
) -> Result<(), Failure> {
    use cli::settings::Precision;
    let done = match settings.precision {
        Some(Precision::F32) => work.run::<f32>(),
        Some(Precision::F64) => work.run::<f64>(),
        Some(Precision::C32) => work.run::<c32>(),
        Some(Precision::C64) => work.run::<c64>(),
        None if work.file().is_some_and(|file| file.header().is_complex()) => work.run::<c64>(),
        None => work.run::<f64>(),
    };
    done.map_err(|failure| match &settings.input {
        // It is the file that says the shape.
        Some(file) if failure.is_of_shape() => failure.about(file),
        _ => failure,
    })
}

/// The kernels' library; what this build does not have was refused with the command line.
pub fn backend(asked: cli::settings::Backend) -> Result<Backend, Failure> {
    let name = asked.to_string();
    name.parse()
        .map_err(|error| Failure::refused(format!("--backend: {error}")))
}

/// Of a matrix that is only simulated, a place is kept for each tile: of these, 18 GB.
const MOST_SIMULATED: u128 = 1_000_000_000;

/// Refuses a matrix that is only simulated if there is no room for the places of its tiles.
pub fn expect_places(layout: &Layout) -> Result<(), Failure> {
    let (mt, nt) = (layout.mt(), layout.nt());
    match mt as u128 * nt as u128 > MOST_SIMULATED {
        true => Err(Failure::refused(format!(
            "{mt} x {nt} tiles: at most {MOST_SIMULATED} are simulated (take a larger --nb)"
        ))),
        false => Ok(()),
    }
}

/// Tiles over the grid that was asked for, as the rank of `runtime` sees them.
///
/// # Errors
/// If there is no such grid, or no room for the places of tiles that are only simulated.
pub fn over_ranks<Own: Args>(
    layout: Layout,
    settings: &Settings<Own>,
    runtime: &Runtime,
) -> Result<Layout, Failure> {
    if settings.simulate.is_some() {
        expect_places(&layout)?;
    }
    let grid: Grid = settings.grid_of(runtime.n_ranks()).to_string().parse()?;
    Ok(layout.distributed(Distribution::BlockCyclic(grid), runtime.rank())?)
}

/// How many workers all ranks have, or would have if they were started.
pub fn n_workers<Own: Args>(settings: &Settings<Own>, runtime: &Runtime) -> Result<usize, Failure> {
    let here = settings.threads.unwrap_or(runtime.n_threads());
    if runtime.n_ranks() > 1 {
        return Ok(runtime.all_reduce(here as u64, u64::saturating_add)? as usize);
    }
    let grid = settings.grid_of(1);
    Ok(here.saturating_mul(grid.rows.saturating_mul(grid.columns)))
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
        let reason = error.reason();
        let text = match error.line() {
            Some(line) => format!("line {line}: {reason}"),
            None => reason.to_string(),
        };
        Failure::new(error.kind(), text).about(error.file().as_ref())
    }
}

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Self {
        LinalgError::from(error).into()
    }
}

impl From<GridError> for Failure {
    fn from(error: GridError) -> Self {
        Failure::refused(format!("--grid: {error}"))
    }
}
