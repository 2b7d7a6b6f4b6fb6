//! What is said of a result.

use super::Problem;
use super::cli::{Failure, Flags, Outcome};
use clap::Args;
use dataflow::Runtime;
use dataflow::linalg::flops;
use dataflow::linalg::kernel::{Backend, gemm};
use dataflow::linalg::matrix::digest::Digest;
use dataflow::linalg::matrix::{
    Distribution, EachTile, Format, Grid, Layout, Structure, Tile, TiledMatrix,
};
use dataflow::linalg::scalar::Scalar;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A residual from here on is a wrong answer; LAPACK's tests draw the same line.
const LARGEST_RESIDUAL: f64 = 30.0;

/// Notes a residual, where rank 0 knows one; fails if it is too large, or no number.
pub fn judge(residual: Option<f64>, outcome: &mut Outcome) -> Result<(), Failure> {
    outcome.residual = residual;
    match residual {
        None | Some(0.0..LARGEST_RESIDUAL) => Ok(()),
        // A NaN is not below it either.
        Some(wrong) => {
            let text = format!("residual is {wrong:.3e} (must be below {LARGEST_RESIDUAL})");
            Err(Failure::new("residual_too_large", text))
        }
    }
}

/// 64 bits over the bits of a matrix, of a lower one those of its triangle; the same on every rank.
pub fn digest<T: Scalar>(a: &TiledMatrix<T>, runtime: &Runtime) -> Result<Digest, dataflow::Error> {
    let lower = a.structure() == Structure::Lower;
    added_up(a, runtime, |tile, row, col| {
        Digest::of_tile(tile, row, col, lower)
    })
}

/// The same over all entries: of a lower matrix those of the Hermitian one that it stands for.
pub fn digest_of_all<T: Scalar>(
    a: &TiledMatrix<T>,
    runtime: &Runtime,
) -> Result<Digest, dataflow::Error> {
    match a.structure() {
        Structure::Lower => added_up(a, runtime, Digest::of_tile_and_mirror),
        _ => digest(a, runtime),
    }
}

/// The same of R alone, where a matrix holds that on and above its diagonal and anything below it.
pub fn digest_of_upper<T: Scalar>(
    a: &TiledMatrix<T>,
    runtime: &Runtime,
) -> Result<Digest, dataflow::Error> {
    let rows = a.rows().min(a.cols());
    added_up(a, runtime, |tile, row, col| {
        Digest::of_upper(tile, row, col, rows)
    })
}

/// The digests of all tiles on all ranks, each told its first row and column.
fn added_up<T: Scalar>(
    a: &TiledMatrix<T>,
    runtime: &Runtime,
    of_tile: impl Fn(&Tile<T>, usize, usize) -> Digest + Sync,
) -> Result<Digest, dataflow::Error> {
    let own = AtomicU64::new(0);
    let digest = EachTile::new("digest", a.layout(), |i, j| {
        let (row, col) = (a.row_range(i).start, a.col_range(j).start);
        let tile = a.tile_at(i, j)?;
        let Digest(of_tile) = of_tile(&tile, row, col);
        // A sum that wraps does not depend on the order.
        own.fetch_add(of_tile, Ordering::Relaxed);
        Ok(())
    });
    digest.run(runtime)?;
    drop(digest);
    let all = runtime.gather(own.into_inner().to_le_bytes().to_vec())?;
    Ok(in_numbers(&all).map(Digest).sum())
}

/// What ranks gathered, each a number.
pub fn in_numbers(gathered: &[Vec<u8>]) -> impl Iterator<Item = u64> {
    let number = |bytes: &Vec<u8>| Some(u64::from_le_bytes(bytes[..].try_into().ok()?));
    gathered.iter().filter_map(number)
}

impl<Own: Args> Problem<'_, Own> {
    /// What only people read; `matrix` is what was generated.
    pub fn say_more<T: Scalar>(self, matrix: &str) -> Result<(), Failure> {
        let (settings, runtime, outcome) = (self.settings, self.runtime, self.outcome);
        if settings.json {
            return Ok(());
        }
        // All ranks at once, as in the graph that was measured.
        let own = peak::<T>(runtime, self.backend)?;
        say_more(own, matrix, settings, runtime, outcome)?;
        if let Some(warning) = self.backend.warning() {
            outcome.say(format!("warning: {warning}"));
        }
        Ok(())
    }
}

/// Says the share of the peak, of which this rank has reached its own part.
fn say_more(
    own: f64,
    matrix: &str,
    flags: &Flags,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let peaks = runtime.gather(own.to_bits().to_le_bytes().to_vec())?;
    let peak: f64 = in_numbers(&peaks).map(f64::from_bits).sum();
    if let Some(gflops) = outcome.gflops() {
        outcome.say(format!(
            "{:.0} % of {peak:.1} GFLOP/s, the rate of gemm on the same workers",
            100.0 * gflops / peak
        ));
    }
    match &flags.input {
        Some(file) => outcome.say(format!("matrix: {}", file.display())),
        None => outcome.say(format!("matrix: generated, {matrix}")),
    }
    for warning in runtime.warnings() {
        outcome.say(format!("warning: {warning}"));
    }
    Ok(())
}

/// Tile order, tasks for each worker and repetitions of the measurement of the peak.
const PEAK: (usize, usize, usize) = (384, 4, 3);

/// Bytes of the tiles that [`Problem::say_more`] measures with, for people.
pub fn tiles_of_peak<T: Scalar>(workers: usize) -> u128 {
    let (nb, tasks_each, _) = PEAK;
    ((2 + tasks_each * workers) * nb * nb * size_of::<T>()) as u128
}

/// The rate of the backend's gemm on tiles, all workers at once, in GFLOP/s: the best of a few runs.
fn peak<T: Scalar>(runtime: &Runtime, backend: Backend) -> Result<f64, Failure> {
    let (nb, tasks_each, repetitions) = PEAK;
    let (memory, format) = (runtime.memory(), Format::ColumnMajor);
    let tile = || Tile::from_fn(nb, nb, format, &memory, |_, _| T::from_real(0.5));
    let (a, b) = (tile(), tile());
    let (n_tasks, n_ranks) = (tasks_each * runtime.n_threads(), runtime.n_ranks());
    let results: Vec<_> = (0..n_tasks).map(|_| Mutex::new(tile())).collect();
    // Places of products, dealt out to the ranks: so this runs on the engine of all such tasks. Each rank has
    // as many places as the one with the most workers, for all must agree on them.
    let most = runtime.all_reduce(n_tasks as u64, u64::max)? as usize;
    let ranks = Distribution::BlockCyclic(Grid::new(n_ranks as u32, 1)?);
    let places = Layout::general(most * n_ranks, 1, 1)?.distributed(ranks, runtime.rank())?;
    let products = EachTile::new("peak", &places, |place, _| {
        // What is beyond this rank's own products is left empty: so all end together.
        let Some(result) = results.get(place / n_ranks) else {
            return Ok(());
        };
        let mut c = result.lock().unwrap_or_else(PoisonError::into_inner);
        // C ← C − A·Bᴴ
        gemm(backend, &a, &b, &mut c);
        Ok(())
    });
    let mut best: f64 = 0.0;
    for _ in 0..repetitions {
        let seconds = products.run(runtime)?.seconds;
        let flops = flops::gemm::<T>(nb, nb, nb) as f64 * n_tasks as f64;
        best = best.max(flops / seconds * 1e-9);
    }
    Ok(best)
}
