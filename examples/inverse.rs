//! The inverse of a matrix from a file or from a formula, by tiles: of a definite one in place, of any other
//! by its LU factors; either way as one graph.
//!
//! Generation, the search for entries that are not finite, the check and the digest run as tasks
//! too, but only the inversion itself is timed.

use clap::{Args, ValueEnum};
use common::cli::simulated::{SWAPS, Simulator, is_simulated_only};
use common::cli::{self, Example, Failure, Settings};
use common::problem::{
    File, Generated, Job, Kind, Matrix, Problem, by_precision, digest_of_all, is_checked, judge,
    over_ranks, then_checked,
};
use dataflow::core::port::Heap;
use dataflow::linalg::cholesky::Inverse;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::needs::{self, Needs};
use dataflow::linalg::product::{Operand, residual};
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::{cholesky, flops, lu};
use dataflow::{Monitor, Report};
use std::process::ExitCode;
use std::sync::Arc;

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
        "plan",
        "simulate",
    ],
};

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
    /// Of any square matrix.
    Lu,
}

impl Job for Own {
    fn run<T: Scalar>(problem: Problem<'_, Self>) -> Result<(), Failure> {
        match problem.settings.own.method {
            Method::Cholesky => definite::<T>(problem),
            Method::Lu => general::<T>(problem),
        }
    }
}

/// The order of the matrix and of its tiles, noted in the report.
fn orders<T: Scalar>(
    problem: &mut Problem<'_, Own>,
    default_tile_order: impl Fn(usize) -> usize,
    flops: impl Fn(usize) -> f64,
) -> Result<(usize, usize), Failure> {
    let n = match &problem.file {
        Some(file) => order(file)?,
        None => problem.settings.n.unwrap_or(4000),
    };
    let nb = problem.settings.nb.unwrap_or_else(|| default_tile_order(n));
    problem.begin::<T>(n, nb, flops(n));
    Ok((n, nb))
}

/// Of a definite matrix, from the entries to the inverse, and back for the check.
fn definite<T: Scalar>(mut problem: Problem<'_, Own>) -> Result<(), Failure> {
    let (settings, runtime, backend) = (problem.settings, problem.runtime, problem.backend);
    let flops = |n| flops::potrf::<T>(n) as f64 + flops::potri::<T>(n) as f64;
    let (n, nb) = orders::<T>(&mut problem, cholesky::default_tile_order::<T>, flops)?;
    let layout = over_ranks(Layout::lower(n, nb)?, settings, runtime)?;
    let needs = |[there]: [Layout; 1]| {
        let run = needs::inverse::<T>(&there, runtime.n_threads());
        checked::<T>(settings, run, &there, runtime.n_threads())
    };
    if is_simulated::<T>(&mut problem, layout)? || problem.is_plan_only::<T, _>([layout], needs)? {
        return Ok(());
    }
    let generated = &settings.own.generated;
    // Kept beside its inverse, and once more for the check.
    let original = problem.original::<T>(layout, 3, (generated, Kind::Spd))?;

    let a = TiledMatrix::<T>::vacant(layout, runtime.memory());
    problem.outcome.measured = settings.median(|_| -> Result<_, Failure> {
        // Each tile near the worker that makes it.
        a.fill(&original, runtime)?;
        a.scan(runtime)?;
        let inverse = Inverse::new(&a, backend)?;
        let run = |monitor: &Monitor| inverse.run(&runtime.watched_by(monitor));
        settings.measure(runtime, run)
    })?;
    conclude(problem, (&original, &a), Kind::Spd)
}

/// Of any square matrix; its factors and A⁻ᴴ are on the way.
fn general<T: Scalar>(mut problem: Problem<'_, Own>) -> Result<(), Failure> {
    let (settings, runtime, backend) = (problem.settings, problem.runtime, problem.backend);
    let flops = |n| flops::getrf::<T>(n, n) as f64 + flops::getri::<T>(n) as f64;
    let tile_order = |n| lu::default_tile_order::<T>(n, n);
    let (n, nb) = orders::<T>(&mut problem, tile_order, flops)?;
    let layout = over_ranks(Layout::general(n, n, nb)?, settings, runtime)?;
    let needs = |[there]: [Layout; 1]| {
        let run = needs::lu_inverse::<T>(&there, runtime.n_threads());
        checked::<T>(settings, run, &there, runtime.n_threads())
    };
    if is_simulated::<T>(&mut problem, layout)? || problem.is_plan_only::<T, _>([layout], needs)? {
        return Ok(());
    }
    let generated = &settings.own.generated;
    let original = problem.original::<T>(layout, 3, (generated, Kind::Random))?;

    let mut inverse = None;
    problem.outcome.measured = settings.median(|_| -> Result<_, Failure> {
        drop(inverse.take());
        let a = TiledMatrix::<T>::vacant(layout, runtime.memory());
        a.fill(&original, runtime)?;
        let run = |monitor: &Monitor| -> Result<Report, Failure> {
            let (made, report) = lu::inverse(a, backend, &runtime.watched_by(monitor))?;
            inverse = Some(made);
            Ok(report)
        };
        settings.measure(runtime, run)
    })?;
    match inverse {
        Some(inverse) => conclude(problem, (&original, &inverse), Kind::Random),
        None => Ok(()),
    }
}

/// Whether only a simulation was asked for; I, with which LU begins, is there.
fn is_simulated<T: Scalar>(
    problem: &mut Problem<'_, Own>,
    layout: Layout,
) -> Result<bool, Failure> {
    let (method, backend) = (problem.settings.own.method, problem.backend);
    if problem.settings.simulate.is_some() && method == Method::Lu {
        problem.outcome.say(SWAPS);
    }
    is_simulated_only(problem.settings, problem.outcome, move |simulator| {
        simulated::<T>(method, layout, backend, simulator)
    })
}

/// Lets a simulator hear of the graph, over matrices that are not there.
fn simulated<T: Scalar>(
    method: Method,
    layout: Layout,
    backend: Backend,
    simulator: &Simulator<'_>,
) -> Result<(), Failure> {
    let [a, unit] = [(); 2].map(|()| TiledMatrix::<T>::vacant(layout, Arc::new(Heap)));
    match method {
        Method::Cholesky => simulator.hear(&Inverse::new(&a, backend)?),
        Method::Lu => {
            let pivots = lu::Pivots::new(&a);
            let factor = lu::Factor::new(&a, &pivots, backend)?;
            let workers = simulator.n_workers();
            factor.inverse_stages(&unit, workers, |all| simulator.hear_series(all))?
        }
    }
}

/// What a run takes, and then its check: the matrix as it was, the inverse, and I.
fn checked<T: Scalar>(
    settings: &Settings<Own>,
    run: Needs,
    there: &Layout,
    workers: usize,
) -> Result<Needs, Failure> {
    let check = || {
        let whole = Layout::general(there.rows(), there.cols(), there.nb())?;
        let whole = whole.distributed(*there.distribution(), there.rank())?;
        Ok(needs::gemm::<T>([there, there, &whole], workers))
    };
    then_checked::<T, _>(settings, there, run, check)
}

/// The digest of the inverse, the check, and the rest of the report.
fn conclude<T: Scalar>(
    problem: Problem<'_, Own>,
    (original, inverse): (&Matrix<T>, &TiledMatrix<T>),
    kind: Kind,
) -> Result<(), Failure> {
    let (settings, runtime) = (problem.settings, problem.runtime);
    let (n, nb) = (inverse.rows(), inverse.nb());
    problem.outcome.digest = Some(digest_of_all(inverse, runtime)?.to_string());
    if is_checked(settings, n) {
        let whole = over_ranks(Layout::general(n, n, nb)?, settings, runtime)?;
        let before = TiledMatrix::<T>::vacant(*inverse.layout(), runtime.memory());
        before.fill(original, runtime)?;
        let rest = TiledMatrix::<T>::vacant(whole, runtime.memory());
        let unit = |i: usize, j: usize| if i == j { T::one() } else { T::zero() };
        rest.fill(&unit, runtime)?;
        let (before, after) = (Operand::plain(&before), Operand::plain(inverse));
        // Which of the two products an algorithm promises to be near I.
        let (left, right) = match settings.own.method {
            Method::Cholesky => (before, after),
            Method::Lu => (after, before),
        };
        let residual = residual(left, right, &rest, runtime)?;
        judge(Some(residual.over(n)), problem.outcome)?;
    }
    problem.say_more::<T>(&settings.own.generated.name(kind))
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
        settings.own.generated.expect_sense(settings, false)?;
        by_precision(settings, Problem::open(settings, runtime, outcome)?)
    })
}
