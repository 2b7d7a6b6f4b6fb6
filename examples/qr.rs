//! The QR factorisation A = Q·R of a matrix of any shape from a file or from a formula, by tiles.
//!
//! Generation, the search for entries that are not finite, the check and the digest of R run as
//! tasks too, but only the factorisation itself is timed.
//!
//! # Elsewhere
//! Where the matrix comes from, and what is said of a result: `problem/`.

mod cli;
mod problem;

use clap::Args;
use cli::{Example, Failure, Measured, Outcome, Settings};
use dataflow::linalg::flops;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::qr::{
    Factor, Options, Reflectors, Tree, check, default_tile_order, triangle,
};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Runtime};
use problem::{
    File, Generated, InAnyPrecision, Kind, Matrix, backend, by_precision, digest, fits, judge,
    open, over_ranks, say_more,
};
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "qr",
    about: "Factors a matrix of any shape by tiles and along a tree",
    runs: true,
    honours: &[
        "n",
        "m",
        "nb",
        "grid",
        "precision",
        "input",
        "seed",
        "backend",
        "check",
    ],
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
    /// Inner block size of the kernels [default: what suits the tile order]
    #[arg(long, value_name = "IB", value_parser = cli::settings::at_least_one)]
    ib: Option<usize>,
}

/// Up to this order the result is checked unless the user says otherwise.
const CHECKED_BY_DEFAULT: usize = 8000;

/// What is factored, and where.
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

    /// From the entries to the factors, and back for the check.
    fn run<T: Scalar>(self) -> Result<(), Failure> {
        let Problem {
            settings,
            file,
            runtime,
            outcome,
        } = self;
        let backend = backend(settings.backend)?;
        let (m, n) = match &file {
            Some(file) => (file.header().rows, file.header().cols),
            None => {
                let n = settings.n.unwrap_or(4000);
                (settings.m.unwrap_or(n), n)
            }
        };
        let nb = settings.nb.unwrap_or_else(|| default_tile_order::<T>(m, n));
        let Own {
            generated,
            tree,
            ib,
        } = settings.own;
        let options = Options::of_order(nb).with_tree(tree);
        let ib = ib.unwrap_or(options.ib);
        let options = Options { ib, ..options };
        (outcome.m, outcome.n, outcome.nb) = (Some(m), Some(n), Some(nb));
        outcome.set("tree", tree.to_string());
        outcome.set("ib", ib);
        outcome.precision = Some(T::PRECISION.to_string());
        outcome.flops = Some(flops::geqrf::<T>(m, n) as f64);
        let layout = over_ranks(Layout::general(m, n, nb)?, settings, runtime)?;
        let original: Matrix<T> = match file {
            // Kept beside its factors.
            Some(file) => Matrix::read(file, layout, 2, runtime)?,
            None => {
                outcome.seed = Some(settings.seed);
                fits::<T>(&[&layout], runtime)?;
                generated.make((m, n), settings.seed, Kind::Random)?
            }
        };

        let a = TiledMatrix::vacant(layout, runtime.memory());
        let q = Reflectors::new(&layout, options);
        let mut runs = Vec::new();
        for _ in 0..settings.repeat {
            // Each tile near the worker that makes it.
            a.fill(&original, runtime)?;
            a.scan(runtime, runtime.courier())?;
            let factor = Factor::new(&a, &q, backend)?;
            let run = |monitor: &Monitor| match runtime.n_ranks() {
                1 => factor.run_watched(runtime, monitor),
                _ => factor.run_across(runtime, runtime.courier(), monitor),
            };
            runs.push(settings.measure(runtime, run)?);
        }
        outcome.measured = Measured::median(runs);

        outcome.digest = Some(digest(&triangle(&a, runtime)?, runtime)?.to_string());
        if settings.check.unwrap_or(m.max(n) <= CHECKED_BY_DEFAULT) {
            let ratios = check(&original, &a, &q, runtime, runtime.courier())?;
            outcome.set("orthogonality", ratios.orthogonality);
            judge(Some(ratios.residual), outcome)?;
            expect_orthogonal(ratios.orthogonality)?;
            outcome.say(format!("orthogonality {:.3}", ratios.orthogonality));
        } else {
            outcome.set("orthogonality", None::<f64>);
        }
        if !settings.json {
            let kind = generated.name(Kind::Random);
            say_more::<T, _>(settings, runtime, backend, &kind, outcome)?;
        }
        Ok(())
    }
}

/// Where LAPACK's tests draw the line.
const LARGEST_RATIO: f64 = 30.0;

/// Fails if Q is not orthogonal; a NaN is not either.
fn expect_orthogonal(ratio: f64) -> Result<(), Failure> {
    if (0.0..LARGEST_RATIO).contains(&ratio) {
        return Ok(());
    }
    let text = format!("orthogonality is {ratio:.3e} (must be below {LARGEST_RATIO})");
    Err(Failure::new("residual_too_large", text))
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
