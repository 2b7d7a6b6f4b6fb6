//! Least squares: the X that makes ‖B − A·X‖ least, of a wide matrix the shortest of all; by QR.
//!
//! Timed are the graphs that lead from A and B to X, one after the other.
//!
//! # Elsewhere
//! Where the matrix comes from, and what is said of a result: `problem/`.

mod cli;
mod problem;

use clap::{Args, ValueEnum};
use cli::{Example, Failure, Measured, Settings};
use dataflow::Monitor;
use dataflow::linalg::flops;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::norm::{Norm, norm_across};
use dataflow::linalg::matrix::{Entries, Layout, TiledMatrix};
use dataflow::linalg::needs;
use dataflow::linalg::qr::{
    Options, Tree, Where, default_tile_order, least_squares, solution_ratio,
};
use dataflow::linalg::scalar::Scalar;
use problem::{
    File, Generated, InAnyPrecision, Kind, OF_A_MATRIX, Problem, backend, by_precision, digest,
    is_checked, is_plan_only, judge, kept, over_ranks, say_more,
};
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "least_squares",
    about: "Solves tall systems as well as can be, wide ones by the shortest solution",
    runs: true,
    honours: OF_A_MATRIX,
};

/// The flags of this example alone.
#[derive(Clone, Copy, Debug, Args)]
struct Own {
    #[command(flatten)]
    generated: Generated,
    /// Which rows of tiles vanish under which: flat, binary, greedy, fibonacci or
    /// hierarchical:P,A,LOW,HIGH
    #[arg(long, value_name = "TREE", default_value = "flat")]
    tree: Tree,
    /// Right-hand sides
    #[arg(long, value_name = "NRHS", default_value_t = 1)]
    nrhs: usize,
    /// What they are
    #[arg(long, value_name = "KIND", default_value = "random")]
    rhs: Sides,
}

/// The right-hand sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sides {
    /// Uniform in the square around 0.
    Random,
    /// Ones.
    Ones,
    /// i/m in row i, counted from 1.
    Ramp,
}

impl InAnyPrecision for Problem<'_, Own> {
    fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// From the entries to the solution, and back for the check.
    fn run<T: Scalar>(mut self) -> Result<(), Failure> {
        let (settings, runtime) = (self.settings, self.runtime);
        let backend = backend(settings.backend)?;
        let (m, n) = self.shape((|n| 2 * n, 1000));
        let Own {
            generated,
            tree,
            nrhs,
            rhs,
        } = settings.own;
        let nb = settings.nb.unwrap_or_else(|| default_tile_order::<T>(m, n));
        let options = Options::of_order(nb).with_tree(tree);
        let outcome = &mut *self.outcome;
        (outcome.m, outcome.n, outcome.nb) = (Some(m), Some(n), Some(nb));
        outcome.set("nrhs", nrhs);
        outcome.set("tree", tree.to_string());
        outcome.precision = Some(T::PRECISION.to_string());
        outcome.flops = Some(flops::gels::<T>(m, n, nrhs) as f64);
        let layout = over_ranks(Layout::general(m, n, nb)?, settings, runtime)?;
        let of_sides = over_ranks(Layout::general(m, nrhs, nb)?, settings, runtime)?;
        let workers = runtime.n_threads();
        let needs = |[a, b]: [Layout; 2]| {
            let run = needs::least_squares::<T>([&a, &b], options, workers)?;
            let all = match is_checked(settings, m.max(n)) {
                true => run.then(needs::solution_ratio::<T>([&a, &b], workers)?),
                false => run,
            };
            Ok(all.and(kept::<T, _>(settings, &a)))
        };
        if is_plan_only::<T, _, 2>(settings, runtime, outcome, [layout, of_sides], needs)? {
            return Ok(());
        }
        // Kept beside its factors, and once more for the check.
        let original = self.original::<T>(layout, 3, (&settings.own.generated, Kind::Random))?;
        let outcome = &mut *self.outcome;
        outcome.seed = Some(settings.seed);
        let random = Random::new(settings.seed.wrapping_add(1));
        let sides = |row: usize, col: usize| match rhs {
            Sides::Random => random.entry(row, col),
            Sides::Ones => T::one(),
            Sides::Ramp => T::from_real((row + 1) as f64 / m as f64),
        };

        let a = TiledMatrix::<T>::vacant(layout, runtime.memory());
        let b = TiledMatrix::<T>::vacant(of_sides, runtime.memory());
        let (mut runs, mut solution) = (Vec::new(), None);
        for _ in 0..settings.repeat {
            // Each tile near the worker that makes it.
            a.fill(&original, runtime)?;
            b.fill(&sides, runtime)?;
            let run = |monitor: &Monitor| -> Result<_, Failure> {
                let at = Where {
                    on: runtime,
                    courier: runtime.courier(),
                    monitor,
                };
                let (x, report) = least_squares(&a, &b, options, backend, at)?;
                solution = Some(x);
                Ok(report)
            };
            runs.push(settings.measure(runtime, run)?);
        }
        outcome.measured = Measured::median(runs);
        let Some(x) = solution else {
            return Ok(());
        };

        outcome.digest = Some(digest(&x, runtime)?.to_string());
        if is_checked(settings, m.max(n)) {
            let courier = runtime.courier();
            a.fill(&original, runtime)?;
            b.fill(&sides, runtime)?;
            let ratio = solution_ratio(&a, &b, &x, runtime, courier)?;
            outcome.set(
                "residual_norm",
                norm_across(&b, Norm::Frobenius, runtime, courier)?,
            );
            outcome.set(
                "solution_norm",
                norm_across(&x, Norm::Frobenius, runtime, courier)?,
            );
            judge(Some(ratio), outcome)?;
        }
        if !settings.json {
            let kind = generated.name(Kind::Random);
            say_more::<T, _>(settings, runtime, backend, &kind, outcome)?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        settings.own.generated.expect_sense()?;
        by_precision(settings, Problem::open(settings, runtime, outcome)?)
    })
}
