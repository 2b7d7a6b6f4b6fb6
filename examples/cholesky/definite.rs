//! The problem of both Cholesky examples: a definite matrix, its factor, the check.

use super::cli;
use super::problem::{
    File, Generated, InAnyPrecision, Kind, Matrix, backend, by_precision, digest, fits, judge,
    open, over_ranks, say_more,
};
use cli::{Example, Failure, Measured, Outcome, Settings};
use dataflow::linalg::cholesky::{Check, Factor, default_tile_order};
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Report, Runtime};

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
    /// Overwrites the lower triangle of `a` by its factor, with all ranks.
    fn factor<T: Scalar>(
        &self,
        a: &mut TiledMatrix<T>,
        backend: Backend,
        runtime: &Runtime,
        monitor: &Monitor,
    ) -> Result<Report, Failure>;
}

/// Up to this order the result is checked unless the user says otherwise.
const CHECKED_BY_DEFAULT: usize = 8000;

/// The whole example, but for the way to factor.
pub fn solve(
    method: &impl Method,
    settings: &Settings<Generated>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    settings.own.expect_sense()?;
    outcome.grid = Some(settings.grid_of(runtime.n_ranks()).to_string());
    outcome.backend = Some(settings.backend.to_string());
    let problem = Problem {
        method,
        settings,
        file: open(settings)?,
        runtime,
        outcome,
    };
    by_precision(settings, problem)
}

/// A way, and what it is tried on.
struct Problem<'a, M> {
    method: &'a M,
    settings: &'a Settings<Generated>,
    file: Option<File>,
    runtime: &'a Runtime,
    outcome: &'a mut Outcome,
}

impl<M: Method> InAnyPrecision for Problem<'_, M> {
    fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// From the entries to the factor, and back for the check.
    fn run<T: Scalar>(self) -> Result<(), Failure> {
        let Problem {
            method,
            settings,
            file,
            runtime,
            outcome,
        } = self;
        let backend = backend(settings.backend)?;
        let n = match &file {
            Some(file) => order(file)?,
            None => settings.n.unwrap_or(4000),
        };
        let nb = settings.nb.unwrap_or_else(|| default_tile_order::<T>(n));
        (outcome.n, outcome.nb) = (Some(n), Some(nb));
        outcome.precision = Some(T::PRECISION.to_string());
        outcome.flops = Some(flops::potrf::<T>(n) as f64);
        let layout = over_ranks(Layout::lower(n, nb)?, settings, runtime)?;
        let original: Matrix<T> = match file {
            // Kept beside its factor.
            Some(file) => Matrix::read(file, layout, 2, runtime)?,
            None => {
                outcome.seed = Some(settings.seed);
                fits::<T>(&[&layout], runtime)?;
                settings.own.make((n, n), settings.seed, Kind::Spd)?
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
            check.run_across(runtime, runtime.courier())?;
            judge(check.residual(), outcome)?;
        }
        if !settings.json {
            let kind = settings.own.name(Kind::Spd);
            say_more::<T, _>(settings, runtime, backend, &kind, outcome)?;
        }
        Ok(())
    }
}

/// The order of the matrix in a file.
fn order(file: &File) -> Result<usize, Failure> {
    let (rows, cols) = (file.header().rows, file.header().cols);
    if rows != cols {
        let text =
            format!("matrix is {rows} x {cols} (a Cholesky factorisation needs a square one)");
        return Err(Failure::new("wrong_shape", text));
    }
    Ok(rows)
}
