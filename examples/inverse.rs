//! The inverse of a matrix from a file or from a formula, by tiles, in place.
//!
//! Generation, the search for entries that are not finite, the check and the digest run as tasks
//! too, but only the inversion itself is timed.

mod cli;
mod problem;

use clap::{Args, ValueEnum};
use cli::{Example, Failure, Measured, Outcome, Settings};
use dataflow::linalg::cholesky::{Inverse, default_tile_order};
use dataflow::linalg::flops;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::product::{Operand, residual};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Runtime};
use problem::{
    File, Generated, InAnyPrecision, Kind, Matrix, backend, by_precision, digest_of_all, fits,
    judge, open, over_ranks, say_more,
};
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "inverse",
    about: "Inverts a matrix by tiles",
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

/// Up to this order the result is checked unless the user says otherwise.
const CHECKED_BY_DEFAULT: usize = 8000;

/// The flags of this example.
#[derive(Clone, Copy, Debug, Args)]
struct Own {
    #[command(flatten)]
    generated: Generated,
    /// How
    #[arg(long, value_name = "METHOD", default_value = "cholesky")]
    method: Method,
}

/// By which decomposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Of a Hermitian positive definite matrix, of which the lower triangle is read.
    Cholesky,
}

struct Problem<'a> {
    settings: &'a Settings<Own>,
    file: Option<File>,
    runtime: &'a Runtime,
    outcome: &'a mut Outcome,
}

impl InAnyPrecision for Problem<'_> {
    fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    fn run<T: Scalar>(self) -> Result<(), Failure> {
        let Method::Cholesky = self.settings.own.method;
        definite::<T>(self)
    }
}

/// From the entries to the inverse, and back for the check.
fn definite<T: Scalar>(problem: Problem<'_>) -> Result<(), Failure> {
    let Problem {
        settings,
        file,
        runtime,
        outcome,
    } = problem;
    let backend = backend(settings.backend)?;
    let n = match &file {
        Some(file) => order(file)?,
        None => settings.n.unwrap_or(4000),
    };
    let nb = settings.nb.unwrap_or_else(|| default_tile_order::<T>(n));
    (outcome.n, outcome.nb) = (Some(n), Some(nb));
    outcome.precision = Some(T::PRECISION.to_string());
    let flops = flops::potrf::<T>(n) as f64 + flops::potri::<T>(n) as f64;
    outcome.flops = Some(flops);
    let layout = over_ranks(Layout::lower(n, nb)?, settings, runtime)?;
    let original: Matrix<T> = match file {
        // Kept beside its inverse, and once more for the check.
        Some(file) => Matrix::read(file, layout, 3, runtime)?,
        None => {
            outcome.seed = Some(settings.seed);
            fits::<T>(&[&layout], runtime)?;
            let generated = settings.own.generated;
            generated.make((n, n), settings.seed, Kind::Spd)?
        }
    };

    let a = TiledMatrix::<T>::vacant(layout, runtime.memory());
    let mut runs = Vec::new();
    for _ in 0..settings.repeat {
        // Each tile near the worker that makes it.
        a.fill(&original, runtime)?;
        a.scan(runtime, runtime.courier())?;
        let inverse = Inverse::new(&a, backend)?;
        let run = |monitor: &Monitor| match runtime.n_ranks() {
            1 => inverse.run_watched(runtime, monitor),
            _ => inverse.run_across(runtime, runtime.courier(), monitor),
        };
        runs.push(settings.measure(runtime, run)?);
    }
    outcome.measured = Measured::median(runs);

    outcome.digest = Some(digest_of_all(&a, runtime)?.to_string());
    if settings.check.unwrap_or(n <= CHECKED_BY_DEFAULT) {
        let whole = over_ranks(Layout::general(n, n, nb)?, settings, runtime)?;
        fits::<T>(&[&layout, &layout, &whole], runtime)?;
        let before = TiledMatrix::<T>::vacant(layout, runtime.memory());
        before.fill(&original, runtime)?;
        let rest = TiledMatrix::<T>::vacant(whole, runtime.memory());
        let unit = |i: usize, j: usize| if i == j { T::one() } else { T::zero() };
        rest.fill(&unit, runtime)?;
        let (before, after) = (Operand::plain(&before), Operand::plain(&a));
        let residual = residual(before, after, &rest, runtime, runtime.courier())?;
        judge(Some(residual.over(n)), outcome)?;
    }
    if !settings.json {
        let kind = settings.own.generated.name(Kind::Spd);
        say_more::<T, _>(settings, runtime, backend, &kind, outcome)?;
    }
    Ok(())
}

/// The order of the matrix in a file.
fn order(file: &File) -> Result<usize, Failure> {
    let (rows, cols) = (file.header().rows, file.header().cols);
    if rows != cols {
        let text = format!("matrix is {rows} x {cols} (only a square one has an inverse)");
        return Err(Failure::new("wrong_shape", text));
    }
    Ok(rows)
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        settings.own.generated.expect_sense()?;
        outcome.grid = Some(settings.grid_of(runtime.n_ranks()).to_string());
        outcome.backend = Some(settings.backend.to_string());
        let problem = Problem {
            settings,
            file: open(settings)?,
            runtime,
            outcome,
        };
        by_precision(settings, problem)
    })
}
