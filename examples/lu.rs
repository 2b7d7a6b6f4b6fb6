//! The LU factorisation P·A = L·U of a matrix from a file or from a formula, by tiles.
//!
//! Generation, the search for entries that are not finite, the check and the digest run as tasks
//! too, but only the factorisation itself is timed. A singular matrix is factored to the end, as
//! LAPACK does; the example then says which pivot is zero and fails.
//!
//! # Elsewhere
//! Where the matrix comes from, and what is said of a result: `problem/`.

mod cli;
mod problem;

use clap::{Args, ValueEnum};
use cli::{Example, Failure, Measured, Settings};
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::lu::{Check, Factor, Pivots, Unpivoted, default_tile_order, expect_regular};
use dataflow::linalg::matrix::digest::Digest;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::needs;
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Report, Runtime};
use problem::{
    File, Generated, InAnyPrecision, Kind, OF_A_FACTORISATION, Problem, backend, by_precision,
    digest, in_numbers, is_checked, is_plan_only, judge, over_ranks, say_more,
};
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "lu",
    about: "Factors a matrix of any shape by tiles, with row swaps",
    runs: true,
    honours: OF_A_FACTORISATION,
};

/// The flags of this example alone.
#[derive(Clone, Copy, Debug, Args)]
struct Own {
    #[command(flatten)]
    generated: Generated,
    /// Which rows are swapped, so that no pivot is too small
    #[arg(long, value_name = "HOW", default_value = "partial")]
    pivoting: Pivoting,
}

impl Own {
    /// The generated matrix that suits the way pivots are chosen.
    fn kind(&self) -> Kind {
        match self.pivoting {
            Pivoting::Partial => Kind::Random,
            Pivoting::None => Kind::Spd,
        }
    }
}

/// How pivots are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pivoting {
    /// The largest entry of the column, as LAPACK does.
    Partial,
    /// As they stand: for matrices whose diagonal dominates.
    None,
}

impl InAnyPrecision for Problem<'_, Own> {
    fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// From the entries to the factors, and back for the check.
    fn run<T: Scalar>(mut self) -> Result<(), Failure> {
        let (settings, runtime) = (self.settings, self.runtime);
        let backend = backend(settings.backend)?;
        let (m, n) = self.shape((|n| n, 4000));
        let nb = settings.nb.unwrap_or_else(|| default_tile_order::<T>(m, n));
        let outcome = &mut *self.outcome;
        (outcome.m, outcome.n, outcome.nb) = (Some(m), Some(n), Some(nb));
        outcome.precision = Some(T::PRECISION.to_string());
        outcome.flops = Some(flops::getrf::<T>(m, n) as f64);
        let layout = over_ranks(Layout::general(m, n, nb)?, settings, runtime)?;
        let needs = |[there]: [Layout; 1]| needs::lu::<T>(&there, runtime.n_threads());
        if is_plan_only::<T, _, 1>(settings, runtime, outcome, [layout], needs)? {
            return Ok(());
        }
        // Kept beside its factors.
        let original = self.original::<T>(
            &[&layout],
            2,
            (&settings.own.generated, settings.own.kind()),
        )?;
        let outcome = &mut *self.outcome;

        let lu = TiledMatrix::vacant(layout, runtime.memory());
        let pivots = Pivots::new(&lu);
        let mut runs = Vec::new();
        for _ in 0..settings.repeat {
            // Each tile near the worker that makes it.
            lu.fill(&original, runtime)?;
            lu.scan(runtime, runtime.courier())?;
            let run = |monitor: &Monitor| match settings.own.pivoting {
                Pivoting::Partial => partial(&lu, &pivots, backend, runtime, monitor),
                Pivoting::None => without(&lu, &pivots, backend, runtime, monitor),
            };
            runs.push(settings.measure(runtime, run)?);
        }
        outcome.measured = Measured::median(runs);

        outcome.digest = Some((digest(&lu, runtime)? + swaps(&pivots, runtime)?).to_string());
        if is_checked(settings, m.max(n)) {
            let check = Check::new(&original, &lu, &pivots)?;
            check.run_across(runtime, runtime.courier())?;
            judge(check.residual(), outcome)?;
        }
        if !settings.json {
            let kind = settings.own.generated.name(settings.own.kind());
            say_more::<T, _>(settings, runtime, backend, &kind, outcome)?;
        }
        Ok(expect_regular(&lu, runtime, runtime.courier())?)
    }
}

fn partial<T: Scalar>(
    a: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    backend: Backend,
    runtime: &Runtime,
    monitor: &Monitor,
) -> Result<Report, Failure> {
    let factor = Factor::new(a, pivots, backend)?;
    Ok(match runtime.n_ranks() {
        1 => factor.run_watched(runtime, monitor),
        _ => factor.run_across(runtime, runtime.courier(), monitor),
    }?)
}

fn without<T: Scalar>(
    a: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    backend: Backend,
    runtime: &Runtime,
    monitor: &Monitor,
) -> Result<Report, Failure> {
    let factor = Unpivoted::new(a, pivots, backend)?;
    Ok(match runtime.n_ranks() {
        1 => factor.run_watched(runtime, monitor),
        _ => factor.run_across(runtime, runtime.courier(), monitor),
    }?)
}

/// The digest of all ranks' pivots, the same on every rank.
fn swaps<T: Scalar>(pivots: &Pivots<T>, runtime: &Runtime) -> Result<Digest, dataflow::Error> {
    let Digest(own) = pivots.digest();
    let all = runtime.gather(own.to_le_bytes().to_vec())?;
    Ok(in_numbers(&all).map(Digest).sum())
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        settings.own.generated.expect_sense()?;
        by_precision(settings, Problem::open(settings, runtime, outcome)?)
    })
}
