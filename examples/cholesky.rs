//! The Cholesky factorisation A = L·Lᴴ of a matrix from a file or from a formula, by tiles.
//!
//! Generation, the search for entries that are not finite, the check and the digest run as tasks
//! too, but only the factorisation itself is timed.

mod cli;

use clap::{Args, ValueEnum};
use cli::{Example, Failure, Measured, Outcome, Settings};
use dataflow::core::space::Independent;
use dataflow::linalg::cholesky::{CholeskyError, Factor, default_tile_order};
use dataflow::linalg::error::TileError;
use dataflow::linalg::flops;
use dataflow::linalg::kernel::{Backend, gemm};
use dataflow::linalg::matrix::check::CholeskyCheck;
use dataflow::linalg::matrix::digest::Digest;
use dataflow::linalg::matrix::generate::{
    Conditioned, Hilbert, Laplacian, PositiveDefinite, Trefethen,
};
use dataflow::linalg::matrix::market::{ReadError, Reader, physical_memory};
use dataflow::linalg::matrix::{Entries, Format, Layout, LayoutError, Tile, TiledMatrix};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use dataflow::{Runtime, TaskError};
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};

const EXAMPLE: Example = Example {
    name: "cholesky",
    about: "Factors a Hermitian positive definite matrix by tiles",
    runs: true,
    honours: &[
        "n",
        "nb",
        "grid",
        "precision",
        "input",
        "seed",
        "backend",
        "check",
    ],
};

/// What to factor, if not a file.
#[derive(Clone, Copy, Debug, Args)]
pub struct Own {
    /// The generated matrix [default: spd]
    #[arg(long, value_name = "KIND", conflicts_with = "input")]
    matrix: Option<Kind>,
    /// Condition number of --matrix conditioned [default: 1e6]
    #[arg(long, value_name = "NUMBER", conflicts_with = "input")]
    condition: Option<f64>,
}

/// The matrices that are given by a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Random, its diagonal raised until it is definite.
    Spd,
    /// Random, of a chosen condition number.
    Conditioned,
    /// Of a grid of n points, as square as n allows.
    Laplacian,
    /// Primes on the diagonal.
    Trefethen,
    /// 1/(i + j + 1): too ill-conditioned to be factored from order 14 on.
    Hilbert,
}

/// A residual from here on is a wrong answer; LAPACK's tests draw the same line.
const LARGEST_RESIDUAL: f64 = 30.0;
/// Up to this order the result is checked unless the user says otherwise.
const CHECKED_BY_DEFAULT: usize = 8000;

fn main() -> ExitCode {
    cli::run(&EXAMPLE, cholesky)
}

fn cholesky(settings: &Settings<Own>, outcome: &mut Outcome) -> Result<(), Failure> {
    if settings.input.is_some() && settings.n.is_some() {
        return Err(Failure::refused(
            "--n: with --input the file says the order",
        ));
    }
    if settings.own.condition.is_some() && settings.own.matrix != Some(Kind::Conditioned) {
        return Err(Failure::refused(
            "--condition: only --matrix conditioned has one",
        ));
    }
    outcome.grid = Some(settings.grid.to_string());
    outcome.backend = Some(settings.backend.to_string());
    let file = settings.input.as_ref().map(Reader::open).transpose()?;
    let is_complex = file.as_ref().is_some_and(|file| file.header().is_complex());
    match settings.precision {
        Some(cli::settings::Precision::F32) => factor::<f32>(settings, file, outcome),
        Some(cli::settings::Precision::F64) => factor::<f64>(settings, file, outcome),
        Some(cli::settings::Precision::C32) => factor::<c32>(settings, file, outcome),
        Some(cli::settings::Precision::C64) => factor::<c64>(settings, file, outcome),
        None if is_complex => factor::<c64>(settings, file, outcome),
        None => factor::<f64>(settings, file, outcome),
    }
}

/// From the entries to the factor, and back for the check.
fn factor<T: Scalar>(
    settings: &Settings<Own>,
    file: Option<Reader<BufReader<File>>>,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let backend = backend(settings.backend)?;
    let n = match &file {
        Some(file) => order(file)?,
        None => settings.n.unwrap_or(4000),
    };
    let nb = settings.nb.unwrap_or_else(|| default_tile_order::<T>(n));
    (outcome.n, outcome.nb) = (Some(n), Some(nb));
    outcome.precision = Some(T::PRECISION.to_string());
    outcome.flops = Some(flops::potrf::<T>(n) as f64);
    let layout = Layout::lower(n, nb)?;
    let runtime = settings.runtime()?;
    outcome.threads = Some(runtime.n_threads());
    let original: Matrix<T> = match file {
        Some(file) => Matrix::read(file, layout, &runtime)?,
        None => {
            outcome.seed = Some(settings.seed);
            fits::<T>(&layout)?;
            Matrix::generate(n, settings)?
        }
    };

    let l = TiledMatrix::vacant(layout, runtime.memory());
    let mut runs = Vec::new();
    for _ in 0..settings.repeat {
        fill(&l, &original, &runtime)?;
        let space = Factor::new(&l, backend)?;
        space.scan(&runtime)?;
        let run = settings.measure(&runtime, |monitor| space.run_watched(&runtime, monitor))?;
        runs.push(run);
    }
    outcome.measured = Measured::median(runs);

    outcome.digest = Some(digest(&l, &runtime)?.to_string());
    if settings.check.unwrap_or(n <= CHECKED_BY_DEFAULT) {
        let residual = residual(&original, &l, &runtime)?;
        outcome.residual = Some(residual);
        // A NaN is not below it either.
        if !matches!(residual, 0.0..LARGEST_RESIDUAL) {
            let text = format!("residual is {residual:.3e} (must be below {LARGEST_RESIDUAL})");
            return Err(Failure::new("residual_too_large", text));
        }
    }
    if !settings.json {
        say_more::<T>(settings, &runtime, backend, outcome)?;
    }
    Ok(())
}

/// The kernels' library; what this build does not have was refused with the command line.
fn backend(asked: cli::settings::Backend) -> Result<Backend, Failure> {
    let name = asked.to_string();
    name.parse()
        .map_err(|error| Failure::refused(format!("--backend: {error}")))
}

/// The order of the matrix in a file.
fn order(file: &Reader<BufReader<File>>) -> Result<usize, Failure> {
    let (rows, cols) = (file.header().rows, file.header().cols);
    if rows != cols {
        let text =
            format!("matrix is {rows} x {cols} (a Cholesky factorisation needs a square one)");
        return Err(Failure::new("wrong_shape", text));
    }
    Ok(rows)
}

/// Refuses a matrix that this machine cannot hold.
fn fits<T: Scalar>(layout: &Layout) -> Result<(), Failure> {
    let elements = layout.n_elements().saturating_mul(size_of::<T>() as u128);
    let tiles = layout.n_slots() as u128 * size_of::<Tile<T>>() as u128;
    let needed = elements.saturating_add(tiles);
    let limit = physical_memory();
    if needed > limit.into() {
        let text = format!("a matrix of {needed} bytes does not fit (memory: {limit} bytes)");
        return Err(Failure::new("does_not_fit", text));
    }
    Ok(())
}

/// The matrix to be factored: given by a formula, or kept beside its factor.
enum Matrix<T: Scalar> {
    File(TiledMatrix<T>),
    Spd(PositiveDefinite),
    Conditioned(Conditioned),
    Laplacian(Laplacian),
    Trefethen(Trefethen),
    Hilbert,
}

impl<T: Scalar> Matrix<T> {
    fn read(
        mut file: Reader<BufReader<File>>,
        layout: Layout,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        // The factor takes as much again.
        let limit = physical_memory() / 2;
        Ok(Matrix::File(file.read_tiled(
            layout,
            runtime.memory(),
            limit,
        )?))
    }

    fn generate(n: usize, settings: &Settings<Own>) -> Result<Self, Failure> {
        let seed = settings.seed;
        Ok(match settings.own.matrix.unwrap_or(Kind::Spd) {
            Kind::Spd => Matrix::Spd(PositiveDefinite::new(n, seed)),
            Kind::Conditioned => {
                let condition = settings.own.condition.unwrap_or(1e6);
                let conditioned = Conditioned::new(n, condition, seed);
                Matrix::Conditioned(
                    conditioned.map_err(|error| Failure::refused(error.to_string()))?,
                )
            }
            Kind::Laplacian => {
                let mut sides = (1..=n.isqrt()).rev();
                let height = sides.find(|side| n.is_multiple_of(*side)).unwrap_or(1);
                let width = n / height;
                Matrix::Laplacian(Laplacian { width, height })
            }
            Kind::Trefethen => Matrix::Trefethen(Trefethen::new(n)),
            Kind::Hilbert => Matrix::Hilbert,
        })
    }
}

impl<T: Scalar> Entries<T> for Matrix<T> {
    fn entry(&self, row: usize, col: usize) -> T {
        match self {
            Matrix::File(matrix) => matrix.entry(row, col),
            Matrix::Spd(matrix) => matrix.entry(row, col),
            Matrix::Conditioned(matrix) => matrix.entry(row, col),
            Matrix::Laplacian(matrix) => matrix.entry(row, col),
            Matrix::Trefethen(matrix) => matrix.entry(row, col),
            Matrix::Hilbert => Hilbert.entry(row, col),
        }
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        match self {
            Matrix::File(matrix) => matrix.column(rows, col, into),
            Matrix::Spd(matrix) => matrix.column(rows, col, into),
            Matrix::Conditioned(matrix) => matrix.column(rows, col, into),
            Matrix::Laplacian(matrix) => matrix.column(rows, col, into),
            Matrix::Trefethen(matrix) => matrix.column(rows, col, into),
            Matrix::Hilbert => Hilbert.column(rows, col, into),
        }
    }
}

/// Calls a body with each number below `count`, as tasks; the answers in the order of the numbers.
fn in_tasks<R: Send + Sync>(
    runtime: &Runtime,
    name: &'static str,
    count: usize,
    body: impl Fn(usize) -> Result<R, TileError> + Sync,
) -> Result<Vec<R>, dataflow::Error> {
    let answers: Vec<OnceLock<R>> = (0..count).map(|_| OnceLock::new()).collect();
    let body = |task: u64| {
        let absent = |error: TileError| TaskError::new("tile_absent", error.to_string());
        let answer = body(task as usize).map_err(absent)?;
        answers[task as usize].get_or_init(|| answer);
        Ok(())
    };
    runtime.run(&Independent::new(name, count as u64, body))?;
    // Every task has run, so there is none without an answer.
    Ok(answers
        .into_iter()
        .filter_map(OnceLock::into_inner)
        .collect())
}

/// Makes the tiles with their entries, each near the worker that makes it.
fn fill<T: Scalar>(
    l: &TiledMatrix<T>,
    original: &Matrix<T>,
    runtime: &Runtime,
) -> Result<(), dataflow::Error> {
    l.fill(original, runtime)?;
    Ok(())
}

/// 64 bits over the bits of the lower triangle.
fn digest<T: Scalar>(l: &TiledMatrix<T>, runtime: &Runtime) -> Result<Digest, dataflow::Error> {
    let tiles: Vec<_> = l.tiles().collect();
    let parts = in_tasks(runtime, "digest", tiles.len(), |task| {
        let (i, j) = tiles[task];
        let (row, col) = (l.row_range(i).start, l.col_range(j).start);
        Ok(Digest::of_tile(&*l.tile_at(i, j)?, row, col, true))
    })?;
    Ok(parts.into_iter().sum())
}

/// ‖A − L Lᴴ‖₁ / (n ‖A‖₁ ε)
fn residual<T: Scalar>(
    original: &Matrix<T>,
    l: &TiledMatrix<T>,
    runtime: &Runtime,
) -> Result<f64, Failure> {
    let check = CholeskyCheck::new(original, l);
    let parts = in_tasks(runtime, "check", check.n_parts(), |part| check.part(part))?;
    check
        .join(parts.into_iter().map(Ok))
        .map_err(|error| Failure::new("tile_absent", error.to_string()))
}

/// What only people read.
fn say_more<T: Scalar>(
    settings: &Settings<Own>,
    runtime: &Runtime,
    backend: Backend,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let peak = peak::<T>(runtime, backend)?;
    if let Some(gflops) = outcome.gflops() {
        outcome.say(format!(
            "{:.0} % of {peak:.1} GFLOP/s, the rate of gemm on the same workers",
            100.0 * gflops / peak
        ));
    }
    match &settings.input {
        Some(file) => outcome.say(format!("matrix: {}", file.display())),
        None => {
            let kind = settings.own.matrix.unwrap_or(Kind::Spd).to_possible_value();
            let name = kind.as_ref().map_or("", |kind| kind.get_name());
            outcome.say(format!("matrix: generated, {name}"));
        }
    }
    for warning in runtime.warnings() {
        outcome.say(format!("warning: {warning}"));
    }
    Ok(())
}

/// Tile order, tasks for each worker and repetitions of the measurement of the peak.
const PEAK: (usize, usize, usize) = (384, 4, 3);

/// The rate of the backend's gemm on tiles, all workers at once, in GFLOP/s: the best of a few runs.
fn peak<T: Scalar>(runtime: &Runtime, backend: Backend) -> Result<f64, Failure> {
    let (nb, tasks_each, repetitions) = PEAK;
    let (memory, format) = (runtime.memory(), Format::ColumnMajor);
    let tile = || Tile::from_fn(nb, nb, format, &memory, |_, _| T::from_real(0.5));
    let (a, b) = (tile(), tile());
    let n_tasks = tasks_each * runtime.n_threads();
    let results: Vec<_> = (0..n_tasks).map(|_| Mutex::new(tile())).collect();
    let mut best: f64 = 0.0;
    for _ in 0..repetitions {
        let products = Independent::new("peak", n_tasks as u64, |task| {
            let result = results[task as usize].lock();
            let mut c = result.unwrap_or_else(PoisonError::into_inner);
            // C ← C − A·Bᴴ
            gemm(backend, &a, &b, &mut c);
            Ok(())
        });
        let seconds = runtime.run(&products)?.seconds;
        let flops = flops::gemm::<T>(nb, nb, nb) as f64 * n_tasks as f64;
        best = best.max(flops / seconds * 1e-9);
    }
    Ok(best)
}

impl From<CholeskyError> for Failure {
    fn from(error: CholeskyError) -> Self {
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
