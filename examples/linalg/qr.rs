//! The QR factorisation A = Q·R of a matrix of any shape from a file or from a formula, by tiles.
//!
//! Generation, the search for entries that are not finite, the check and the digest of R run as
//! tasks too, but only the factorisation itself is timed.
//!
//! # Elsewhere
//! Where the matrix comes from, and what is said of a result: `common/problem`.

use clap::Args;
use common::cli::simulated::is_simulated_only;
use common::cli::{self, Example, Failure, Outcome, Settings};
use common::problem::{
    Generated, Job, Kind, Matrix, PLAYED, Problem, by_precision, digest_of_upper, is_checked,
    judge, over_ranks, then_checked,
};
use dataflow::Monitor;
use dataflow::core::port::Heap;
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::needs;
use dataflow::linalg::qr::{Factor, Options, Reflectors, Tree, check, default_tile_order};
use dataflow::linalg::scalar::Scalar;
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLE: Example = Example {
    name: "qr",
    about: "Factors a matrix of any shape by tiles and along a tree",
    runs: true,
    honours: PLAYED,
};

/// The flags of this example alone.
#[derive(Clone, Copy, Debug, Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Order of the problem [default: 4000]"
    ))
)]
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

impl Own {
    /// The tree, and the order of a block inside of tiles of order `nb`.
    fn options(&self, nb: usize) -> Options {
        let options = Options::of_order(nb).with_tree(self.tree);
        let ib = self.ib.unwrap_or(options.ib);
        Options { ib, ..options }
    }
}

impl Job for Own {
    /// From the entries to the factors, and back for the check.
    fn run<T: Scalar>(mut problem: Problem<'_, Self>) -> Result<(), Failure> {
        let (settings, runtime, own) = (problem.settings, problem.runtime, problem.settings.own);
        let (m, n) = problem.shape((|n| n, 4000));
        let nb = settings.nb.unwrap_or_else(|| default_tile_order::<T>(m, n));
        let options = own.options(nb);
        problem.outcome.m = Some(m);
        problem.outcome.set("tree", own.tree.to_string());
        problem.outcome.set("ib", options.ib);
        problem.begin::<T>(n, nb, flops::geqrf::<T>(m, n) as f64);
        let layout = over_ranks(Layout::general(m, n, nb)?, settings, runtime)?;
        let workers = runtime.n_threads();
        let needs = |[there]: [Layout; 1]| {
            let run = needs::qr::<T>(&there, options, workers);
            let check = || needs::qr_check::<T>(&there, options, workers);
            then_checked::<T, _>(settings, &there, run, check)
        };
        if is_simulated::<T>(layout, options, settings, problem.outcome)?
            || problem.is_plan_only::<T, _>([layout], needs)?
        {
            return Ok(());
        }
        // Kept beside its factors.
        let original = problem.original::<T>(layout, 2, (&own.generated, Kind::Random))?;
        let a = TiledMatrix::vacant(layout, runtime.memory());
        let q = Reflectors::new(&layout, options);
        problem.outcome.measured = settings.median(|_| -> Result<_, Failure> {
            // Each tile near the worker that makes it.
            a.fill(&original, runtime)?;
            a.scan(runtime)?;
            let factor = Factor::new(&a, &q, problem.backend)?;
            let run = |monitor: &Monitor| factor.run(&runtime.watched_by(monitor));
            settings.measure(runtime, run)
        })?;
        problem.outcome.digest = Some(digest_of_upper(&a, runtime)?.to_string());
        compare(&mut problem, &original, (&a, &q))?;
        problem.say_more::<T>(&own.generated.name(Kind::Random))
    }
}

/// Tells how far Q·R is from A, and Q from orthogonal, if that is asked for.
fn compare<T: Scalar>(
    problem: &mut Problem<'_, Own>,
    original: &Matrix<T>,
    (r, q): (&TiledMatrix<T>, &Reflectors<T>),
) -> Result<(), Failure> {
    let outcome = &mut *problem.outcome;
    if !is_checked(problem.settings, r.rows().max(r.cols())) {
        outcome.set("orthogonality", None::<f64>);
        return Ok(());
    }
    let ratios = check(original, r, q, problem.runtime)?;
    outcome.set("orthogonality", ratios.orthogonality);
    judge(Some(ratios.residual), outcome)?;
    expect_orthogonal(ratios.orthogonality)?;
    outcome.say(format!("orthogonality {:.3}", ratios.orthogonality));
    Ok(())
}

/// Whether only a simulation was asked for.
fn is_simulated<T: Scalar>(
    layout: Layout,
    options: Options,
    settings: &Settings<Own>,
    outcome: &mut Outcome,
) -> Result<bool, Failure> {
    if settings.simulate.is_none() {
        return Ok(false);
    }
    let a = TiledMatrix::<T>::vacant(layout, Arc::new(Heap));
    let q = Reflectors::new(&layout, options);
    is_simulated_only(settings, outcome, move |simulator| {
        simulator.hear(&Factor::new(&a, &q, Backend::Auto)?)
    })
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
        settings.own.generated.expect_sense(settings, false)?;
        by_precision(settings, Problem::open(settings, runtime, outcome)?)
    })
}
