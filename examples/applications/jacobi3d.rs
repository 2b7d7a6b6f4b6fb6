//! Jacobi's iteration for Poisson's equation on a cube: a stencil of seven points, in blocks.
//!
//! ∇²u = f on the unit cube with u given on its border; n³ unknowns, h = 1/(n+1), and in each sweep
//! u'(i,j,k) = (u(i−1) + u(i+1) + u(j−1) + u(j+1) + u(k−1) + u(k+1) − h²f) / 6.
//!
//! A task sweeps a block once, as soon as its neighbours have swept theirs one time less; so sweeps
//! follow one another without a barrier, and with `--depth` a neighbourhood is swept several times
//! while it lies in the cache. The result is exact at every step ([`problem`]), and looked at.
//!
//! Cost: 16n³ bytes and 6n³ flops a sweep, 8n³ with f; faces of 8m² bytes of blocks of m³ cells between ranks.
//!
//! # Source
//! Sorensen, Baden, *Hiding communication latency with non-SPMD, graph-based execution*, ICCS 2009, §3.
//!
//! # Elsewhere
//! Blocks and ranks: [`grid`]. The graph: [`space`]. What a task computes: [`sweep`]. A picture:
//! [`slices`]. The experiment of the source: [`common::variant`].

pub mod grid;
pub mod problem;
pub mod slices;
pub mod space;
pub mod sweep;

use common::cli::counts::is_counts_only;
use common::cli::settings::at_least_one;
use common::cli::{self, Example, Failure, Measured, Outcome, Settings, record};
use common::problem::SLOT;
use common::variant::{self, run_variant};
use dataflow::core::space::Independent;
use dataflow::core::words::counted;
use dataflow::linalg::matrix::digest::Digest;
use dataflow::{Error, Monitor, Report, Runtime};
use grid::{Counts, Grid, Place};
use problem::{Name, Problem};
use space::Jacobi;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use sweep::{Block, Part};

pub const EXAMPLE: Example = Example {
    name: "jacobi3d",
    about: "Solves Poisson's equation on a cube by Jacobi's iteration",
    runs: true,
    honours: &["n", "variant", "check", "simulate"],
};

/// The flags of this example.
#[derive(Clone, Debug, clap::Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Cells along an edge of the cube [default: 160]"
    ))
)]
pub struct Own {
    /// Sweeps; with --until those between two looks at the change
    #[arg(long, value_name = "SWEEPS", default_value = "25", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    iterations: u32,
    /// Blocks along each axis [default: layers that fit into the cache, at least one a rank]
    #[arg(long, value_name = "BxBxB")]
    blocks: Option<Counts>,
    /// Sweeps done on a neighbourhood before the next; with 1 the whole cube is swept, then swept again
    /// [default: as many as fit into the cache]
    #[arg(long, value_name = "SWEEPS", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Sweep until no cell changes by more than this in a sweep
    #[arg(long, value_name = "TOLERANCE", value_parser = tolerance)]
    until: Option<f64>,
    /// Give up before a look that would come after more sweeps than these
    #[arg(
        long,
        value_name = "SWEEPS",
        default_value_t = 1_000_000,
        requires = "until"
    )]
    limit: u64,
    /// What is solved
    #[arg(long, value_name = "NAME", default_value = "mode")]
    problem: Name,
    /// Draw the middle slices into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Cells along an axis of a picture, at most
    #[arg(long, value_name = "CELLS", default_value = "64", value_parser = at_least_one, requires = "svg")]
    pixels: usize,
}

impl Own {
    /// Refuses a limit at which nobody has looked yet.
    fn expect_a_look(&self) -> Result<(), Failure> {
        match self.until.is_some() && self.limit < self.iterations.into() {
            true => Err(Failure::refused(format!(
                "--limit {}: the first look is after {} (--iterations)",
                self.limit,
                counted(self.iterations, "sweep")
            ))),
            false => Ok(()),
        }
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number: Result<f64, _> = text.parse();
    let number = number
        .ok()
        .filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "a tolerance is a positive number".into())
}

/// What may stay in a cache that workers share, bytes.
const CACHE: usize = 12 << 20;
/// A layer of blocks should take so many bytes, or tasks become short.
const LAYER: usize = 512 << 10;

/// Layers of blocks by default: as thin as tasks of some length allow, and one for each rank where there are as
/// many cells.
pub fn default_blocks(n: usize, n_ranks: usize) -> Counts {
    let thickness = LAYER.div_ceil(16 * n * n).min(n);
    let layers = n.div_ceil(thickness).max(n_ranks.min(n));
    Counts([layers.min(8191), 1, 1])
}

/// How many sweeps behind one another have their layers in the cache: a layer for each, one more at
/// both ends, and one for each worker, which are on neighbouring diagonals.
pub fn default_depth(n: usize, blocks: Counts, workers: usize) -> u32 {
    let layer = 16 * n * n * n.div_ceil(blocks.0[0]);
    let layers = CACHE / layer.max(1);
    layers.saturating_sub(1 + workers).clamp(1, 64) as u32
}

/// The program.
pub fn main() -> ExitCode {
    cli::run(&EXAMPLE, solve)
}

/// The whole example.
pub fn solve(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let own = &settings.own;
    own.expect_a_look()?;
    let (grid, depth) = cut(settings, runtime, outcome)?;
    expect_room(&grid, settings.simulate.is_none(), runtime)?;
    let space = || {
        let of = (grid, Problem::new(own.problem, grid.n));
        let memory = runtime.memory();
        match settings.simulate {
            Some(_) => Jacobi::counted(of, own.iterations, depth, memory),
            None => Jacobi::new(of, own.iterations, depth, runtime.rank(), memory),
        }
    };
    if settings.simulate.is_some() {
        if own.until.is_some() || own.svg.is_some() {
            let text =
                "--simulate: nothing is solved, so --until and --svg have nothing to look at";
            return Err(Failure::refused(text));
        }
        return is_counts_only(&space(), settings, outcome).map(drop);
    }

    let mut last = None;
    outcome.measured = settings.median(|_| -> Result<_, Failure> {
        drop(last.take()); // before the next takes as much memory
        let jacobi = space();
        let (measured, swept) = sweeps(settings, runtime, &jacobi)?;
        last = Some((jacobi, swept));
        Ok(measured)
    })?;
    match last {
        Some((jacobi, swept)) => tell(settings, runtime, outcome, (&jacobi, swept)),
        None => Ok(()),
    }
}

/// How the cube is cut into blocks, and how many sweeps follow one another; noted in the report.
fn cut(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(Grid, u32), Failure> {
    let own = &settings.own;
    let n = settings.n.unwrap_or(160);
    if n == 0 {
        return Err(Failure::refused("--n 0: there must be a cell"));
    }
    let bytes = (n as u64).checked_pow(3).and_then(|n| n.checked_mul(16));
    if bytes.is_none() {
        let text = format!("--n {n}: more cells than 64 bits count the bytes of");
        return Err(Failure::refused(text));
    }
    let n_ranks = settings.n_unstarted().unwrap_or(runtime.n_ranks());
    let blocks = own.blocks.unwrap_or_else(|| default_blocks(n, n_ranks));
    let simulated = settings.simulate.and(settings.threads);
    let workers = simulated.unwrap_or(runtime.n_threads());
    let depth = own.depth;
    let depth = depth.unwrap_or_else(|| default_depth(n, blocks, workers));
    let grid = Grid::new(n, blocks, n_ranks).map_err(Failure::refused)?;
    outcome.n = Some(n);
    outcome.precision = Some("f64".into());
    outcome.grid = Some(grid.ranks.to_string());
    outcome.set("blocks", blocks.to_string());
    outcome.set("depth", depth);
    outcome.set("problem", format!("{:?}", own.problem).to_lowercase());
    Ok((grid, depth))
}

/// Refuses more blocks and cells than there is room for; what is not run has no cells.
fn expect_room(grid: &Grid, is_run: bool, runtime: &Runtime) -> Result<(), Failure> {
    let Grid { n, blocks, .. } = *grid;
    // Each block has a slot, and one for each of its sides; a cell is there as it is and as it was.
    let slots = 7 * blocks.product() as u128 * SLOT;
    let cells = (n as u128).pow(3) * 2 * size_of::<f64>() as u128;
    let own = cells.div_ceil(runtime.n_ranks() as u128);
    let bytes = if is_run { slots + own } else { slots };
    common::problem::expect_room(&format!("--n {n} --blocks {blocks}"), bytes, runtime)
}

/// What the sweeps came to.
struct Swept {
    sweeps: u64,
    /// Of the last sweep; known where it was asked for.
    change: Option<f64>,
    converged: bool,
}

/// Sweeps as often as was asked for, or until nothing changes any more.
fn sweeps(
    settings: &Settings<Own>,
    runtime: &Runtime,
    jacobi: &Jacobi,
) -> Result<(Measured, Swept), Failure> {
    let iterations = u64::from(settings.own.iterations);
    let Some(tolerance) = settings.own.until else {
        let (sweeps, change, converged) = (iterations, None, true);
        let measured = settings.measure_variant(runtime, jacobi)?;
        return Ok((
            measured,
            Swept {
                sweeps,
                change,
                converged,
            },
        ));
    };
    variant::expect_room(settings.variant, jacobi, runtime)?;
    let looks = settings.own.limit / iterations;
    let mut swept = Swept {
        sweeps: 0,
        change: None,
        converged: false,
    };
    let measured = settings.measure(runtime, |monitor: &Monitor| {
        let mut whole: Option<Report> = None;
        let steps = runtime.repeat_until(looks, |_| {
            record(runtime, true);
            let ran = run_variant(settings.variant, jacobi, &runtime.watched_by(monitor));
            // Looks, and what ranks tell each other of them, are no sweeps.
            record(runtime, false);
            let report = ran?;
            whole = Some(match whole.take() {
                Some(before) => before.followed_by(report),
                None => report,
            });
            swept.sweeps += iterations;
            let own = largest(runtime, jacobi, |_, block| block.change().unwrap_or(0.0))?;
            let change = runtime.all_reduce(own, f64::max)?;
            swept.change = Some(change);
            Ok::<_, Error>(change <= tolerance || change.is_infinite())
        })?;
        swept.converged = steps.is_some();
        Ok::<_, Error>(whole.unwrap_or_default())
    })?;
    Ok((measured, swept))
}

/// The largest of what this rank's blocks say, in parallel; 0 of none.
fn largest(
    runtime: &Runtime,
    jacobi: &Jacobi,
    of: impl Fn(Place, &Block) -> f64 + Sync,
) -> Result<f64, Error> {
    let values = of_blocks(runtime, jacobi, of)?;
    Ok(values.into_iter().fold(0.0, f64::max))
}

/// What each of this rank's blocks says, in their order.
fn of_blocks<R: Default + Send>(
    runtime: &Runtime,
    jacobi: &Jacobi,
    of: impl Fn(Place, &Block) -> R + Sync,
) -> Result<Vec<R>, Error> {
    let places: Vec<Place> = jacobi.places_on(runtime.rank()).collect();
    let values: Vec<Mutex<R>> = places.iter().map(|_| Mutex::default()).collect();
    let look = Independent::new("look", places.len() as u64, |at| {
        let place = places[at as usize];
        let part = jacobi.blocks.get(jacobi.grid.number(place));
        if let Some(Part::Block(block)) = part.as_deref() {
            let value = of(place, block);
            *values[at as usize]
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = value;
        }
        Ok(())
    });
    runtime.run(&look)?;
    let values = values.into_iter();
    let inner = |value: Mutex<R>| value.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(values.map(inner).collect())
}

/// Everything about the result.
fn tell(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
    (jacobi, swept): (&Jacobi, Swept),
) -> Result<(), Failure> {
    let own = &settings.own;
    let cells = (jacobi.grid.n as f64).powi(3) * swept.sweeps as f64;
    outcome.flops = Some(jacobi.problem.flops() * cells);
    outcome.rate("mcells_per_second", "million cells a second", cells * 1e-6);
    outcome.set("iterations", swept.sweeps);
    if let Some(change) = swept.change {
        outcome.set("change", change);
        outcome.say(format!(
            "{}, the last changed {change:.2e}",
            counted(swept.sweeps, "sweep")
        ));
        judge(&swept, change, own)?;
    }
    let parts = of_blocks(runtime, jacobi, |place, block| {
        digest(jacobi, place, block).0
    })?;
    let parts = parts.into_iter().fold(0, u64::wrapping_add);
    let whole = Digest(runtime.all_reduce(parts, u64::wrapping_add)?);
    outcome.digest = Some(whole.to_string());
    let error = match settings.check.unwrap_or(true) {
        false => None,
        true => {
            let own = largest(runtime, jacobi, |place, block| {
                error(jacobi, place, block, swept.sweeps)
            })?;
            Some(runtime.all_reduce(own, f64::max)?)
        }
    };
    let verified = verify(settings, outcome, (jacobi, swept.sweeps), error);
    // All ranks bring their cells; whoever asks for a picture gets a wrong one too, to see how.
    let drawn = draw(runtime, jacobi, own, outcome);
    cli::both(verified, drawn)
}

/// Judges the largest error, as far as the solution has not faded.
fn verify(
    settings: &Settings<Own>,
    outcome: &mut Outcome,
    (jacobi, sweeps): (&Jacobi, u64),
    error: Option<f64>,
) -> Result<(), Failure> {
    // Rounding adds up over sweeps.
    let allowed = f64::max(1e-13, sweeps as f64 * f64::EPSILON);
    let size = jacobi.problem.size(sweeps);
    // What is far from a solution that has faded is wrong; what is near may be any that has.
    let is_told = |error: &f64| size > allowed || *error > allowed;
    let faded =
        (size <= allowed).then(|| format!("of the solution no more than {size:.2e} is left"));
    if let Some(faded) = &faded {
        outcome.say(faded);
    }
    outcome.verify(settings.variant, error.filter(is_told), allowed)?;
    match &faded {
        Some(faded) => settings.expect_no_check(faded),
        None => Ok(()),
    }
}

/// Draws the slices, if that was asked for.
fn draw(
    runtime: &Runtime,
    jacobi: &Jacobi,
    own: &Own,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let Some(file) = &own.svg else {
        return Ok(());
    };
    slices::draw(runtime, jacobi, own.pixels, file)?;
    outcome.say(format!("slices in {}", file.display()));
    Ok(())
}

/// Whether sweeping ended as it should.
fn judge(swept: &Swept, change: f64, own: &Own) -> Result<(), Failure> {
    let after = format!("after {}", counted(swept.sweeps, "sweep"));
    if change.is_infinite() {
        let text = format!("a cell is not a finite number {after}");
        return Err(Failure::new("not_finite", text));
    }
    if !swept.converged {
        let tolerance = own.until.unwrap_or_default();
        let text = format!("a sweep still changes {change:.2e} {after} (--until {tolerance:e})");
        return Err(Failure::new("not_converged", text));
    }
    Ok(())
}

/// A block's rows of cells, each with its first two places in the cube.
fn rows<R: Default>(
    jacobi: &Jacobi,
    place: Place,
    block: &Block,
    fold: impl Fn(R, [usize; 2], &[f64]) -> R,
) -> R {
    let [first_i, first_j, _] = jacobi.first(place);
    let [_, along_j, along_k] = block.shape;
    let folded = block.with_cells(|cells| {
        let rows = cells.chunks_exact(along_k).enumerate();
        rows.fold(R::default(), |all, (at, row)| {
            fold(all, [first_i + at / along_j, first_j + at % along_j], row)
        })
    });
    folded.unwrap_or_default()
}

/// The digest of a block's cells: row i·n + j, column k.
fn digest(jacobi: &Jacobi, place: Place, block: &Block) -> Digest {
    let (n, first) = (jacobi.grid.n, jacobi.first(place)[2]);
    rows(jacobi, place, block, |sum: Digest, [i, j], row| {
        let at = (i * n + j) as u64;
        let cells = (first as u64..).zip(row);
        sum + cells.map(|(k, &cell)| Digest::of_entry(at, k, cell)).sum()
    })
}

/// How far a block's cells are from the exact ones, at most; infinite if one is not a number.
fn error(jacobi: &Jacobi, place: Place, block: &Block, sweeps: u64) -> f64 {
    let first = jacobi.first(place)[2] as isize;
    rows(jacobi, place, block, |most: f64, [i, j], row| {
        let errors = (first..).zip(row).map(|(k, cell)| {
            let exact = jacobi.problem.exact([i as isize, j as isize, k], sweeps);
            match (cell - exact).abs() {
                error if error.is_nan() => f64::INFINITY,
                error => error,
            }
        });
        errors.fold(most, f64::max)
    })
}
