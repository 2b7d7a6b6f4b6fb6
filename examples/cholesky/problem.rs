//! The problem of both Cholesky examples: a matrix from a file or a formula, its factor, the check.

use super::cli;
use clap::{Args, ValueEnum};
use cli::{Example, Failure, Measured, Outcome, Settings};
use dataflow::core::space::Independent;
use dataflow::linalg::cholesky::{Check, CholeskyError, Factor, default_tile_order};
use dataflow::linalg::flops;
use dataflow::linalg::kernel::{Backend, gemm};
use dataflow::linalg::matrix::digest::Digest;
use dataflow::linalg::matrix::generate::{
    Conditioned, Hilbert, Laplacian, PositiveDefinite, Trefethen,
};
use dataflow::linalg::matrix::market::{ReadError, Reader, physical_memory};
use dataflow::linalg::matrix::{
    Distribution, EachTile, Entries, Format, Grid, GridError, Layout, LayoutError, Tile,
    TiledMatrix,
};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use dataflow::{Monitor, Report, Runtime, Transport};
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What both examples are, but for their names.
pub const fn example(name: &'static str, about: &'static str) -> Example {
    Example {
        name,
        about,
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
    }
}

/// A way to factor.
pub trait Method: Sync {
    /// How many levels of tasks it can do.
    const LEVELS: usize;

    /// Overwrites the lower triangle of `a` by its factor, with all ranks.
    fn factor<T: Scalar>(
        &self,
        a: &mut TiledMatrix<T>,
        backend: Backend,
        runtime: &Runtime,
        monitor: &Monitor,
    ) -> Result<Report, Failure>;
}

/// What to factor, if not a file.
#[derive(Clone, Copy, Debug, Args)]
pub struct Own {
    /// The generated matrix [default: spd]
    #[arg(long, value_name = "KIND", conflicts_with = "input")]
    matrix: Option<Kind>,
    /// Condition number of --matrix conditioned [default: 1e6]
    #[arg(long, value_name = "NUMBER", conflicts_with = "input")]
    condition: Option<f64>,
    /// With 2 tasks are blocks of tiles, each a sequence of tasks on its tiles [default: 1]
    #[arg(long, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..=2))]
    levels: Option<u32>,
    /// Tiles in a row of a block, with --levels 2: blocks travel between ranks [default: 4]
    #[arg(long, value_name = "TILES", value_parser = clap::value_parser!(u32).range(1..))]
    block: Option<u32>,
}

impl Own {
    /// Tiles in a row of a block, if there are two levels.
    fn block(&self, levels: usize) -> Result<Option<usize>, Failure> {
        match (self.levels, self.block) {
            (Some(2), _) if levels < 2 => Err(Failure::refused(
                "--levels 2: only the example cholesky has two",
            )),
            (Some(2), block) => Ok(Some(block.unwrap_or(4) as usize)),
            (_, Some(_)) => Err(Failure::refused("--block: only --levels 2 has blocks")),
            (_, None) => Ok(None),
        }
    }
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

/// The whole example, but for the way to factor.
pub fn solve(
    method: &impl Method,
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
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
    outcome.grid = Some(settings.grid_of(runtime.n_ranks()).to_string());
    outcome.backend = Some(settings.backend.to_string());
    let file = settings.input.as_ref().map(Reader::open).transpose()?;
    let is_complex = file.as_ref().is_some_and(|file| file.header().is_complex());
    match settings.precision {
        Some(cli::settings::Precision::F32) => {
            factor::<f32, _>(method, settings, file, runtime, outcome)
        }
        Some(cli::settings::Precision::F64) => {
            factor::<f64, _>(method, settings, file, runtime, outcome)
        }
        Some(cli::settings::Precision::C32) => {
            factor::<c32, _>(method, settings, file, runtime, outcome)
        }
        Some(cli::settings::Precision::C64) => {
            factor::<c64, _>(method, settings, file, runtime, outcome)
        }
        None if is_complex => factor::<c64, _>(method, settings, file, runtime, outcome),
        None => factor::<f64, _>(method, settings, file, runtime, outcome),
    }
}

/// From the entries to the factor, and back for the check.
fn factor<T: Scalar, M: Method>(
    method: &M,
    settings: &Settings<Own>,
    file: Option<Reader<BufReader<File>>>,
    runtime: &Runtime,
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
    let grid: Grid = settings.grid_of(runtime.n_ranks()).to_string().parse()?;
    let layout = match settings.own.block(M::LEVELS)? {
        None => Layout::lower(n, nb)?,
        Some(block) => {
            outcome.set("levels", 2);
            outcome.set("block", block);
            let layout = Layout::lower(n, nb.saturating_mul(block))?;
            layout.with_format(Format::SubTiled { order: nb })
        }
    };
    let layout = layout.distributed(Distribution::BlockCyclic(grid), runtime.rank())?;
    let original: Matrix<T> = match file {
        Some(file) => Matrix::read(file, layout, runtime)?,
        None => {
            outcome.seed = Some(settings.seed);
            fits::<T>(&layout, runtime)?;
            Matrix::generate(n, settings)?
        }
    };

    let mut l = TiledMatrix::vacant(layout, runtime.memory());
    let mut runs = Vec::new();
    for _ in 0..settings.repeat {
        // Each tile near the worker that makes it.
        l.fill(&original, runtime)?;
        Factor::new(&l, backend)?.scan_across(runtime, runtime.courier())?;
        let run = |monitor: &Monitor| method.factor(&mut l, backend, runtime, monitor);
        runs.push(settings.measure(runtime, run)?);
    }
    outcome.measured = Measured::median(runs);

    outcome.digest = Some(digest(&l, runtime)?.to_string());
    if settings.check.unwrap_or(n <= CHECKED_BY_DEFAULT) {
        let check = Check::new(&original, &l);
        runtime.run_across(&check)?;
        // Rank 0 knows.
        outcome.residual = check.residual();
        // A NaN is not below it either.
        if let Some(residual) = check.residual()
            && !matches!(residual, 0.0..LARGEST_RESIDUAL)
        {
            let text = format!("residual is {residual:.3e} (must be below {LARGEST_RESIDUAL})");
            return Err(Failure::new("residual_too_large", text));
        }
    }
    if !settings.json {
        say_more::<T>(settings, runtime, backend, outcome)?;
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

/// Refuses a part of a matrix that this rank's part of the machine cannot hold.
fn fits<T: Scalar>(layout: &Layout, runtime: &Runtime) -> Result<(), Failure> {
    let elements = layout.n_elements().saturating_mul(size_of::<T>() as u128);
    let tiles = layout.n_slots() as u128 * size_of::<Tile<T>>() as u128;
    let needed = elements.saturating_add(tiles);
    let limit = memory_of(runtime);
    if needed > limit.into() {
        let text = format!("a matrix of {needed} bytes does not fit (memory: {limit} bytes)");
        return Err(Failure::new("does_not_fit", text));
    }
    Ok(())
}

/// Bytes of memory for each of the ranks that share this machine.
fn memory_of(runtime: &Runtime) -> u64 {
    match runtime.transport() {
        Transport::Local => physical_memory() / runtime.n_ranks() as u64,
        _ => physical_memory(),
    }
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
        let limit = memory_of(runtime) / 2;
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

/// 64 bits over the bits of the lower triangle, the same on every rank.
fn digest<T: Scalar>(l: &TiledMatrix<T>, runtime: &Runtime) -> Result<Digest, dataflow::Error> {
    let own = AtomicU64::new(0);
    let digest = EachTile::new("digest", l.layout(), |i, j| {
        let (row, col) = (l.row_range(i).start, l.col_range(j).start);
        let tile = l.tile_at(i, j).map_err(|absent| absent.to_string())?;
        let Digest(of_tile) = Digest::of_tile(&*tile, row, col, true);
        // A sum that wraps does not depend on the order.
        own.fetch_add(of_tile, Ordering::Relaxed);
        Ok(())
    });
    runtime.run_across(&digest)?;
    let all = runtime.gather(own.into_inner().to_le_bytes().to_vec())?;
    Ok(in_numbers(&all).map(Digest).sum())
}

/// What ranks gathered, each a number.
fn in_numbers(gathered: &[Vec<u8>]) -> impl Iterator<Item = u64> {
    let number = |bytes: &Vec<u8>| Some(u64::from_le_bytes(bytes[..].try_into().ok()?));
    gathered.iter().filter_map(number)
}

/// What only people read.
fn say_more<T: Scalar>(
    settings: &Settings<Own>,
    runtime: &Runtime,
    backend: Backend,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    // All ranks at once, as in the factorisation.
    let own = peak::<T>(runtime, backend)?.to_bits();
    let peaks = runtime.gather(own.to_le_bytes().to_vec())?;
    let peak: f64 = in_numbers(&peaks).map(f64::from_bits).sum();
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

impl From<GridError> for Failure {
    fn from(error: GridError) -> Self {
        Failure::refused(format!("--grid: {error}"))
    }
}
