//! The inverse of a matrix from a file or from a formula, by tiles: of a definite one in place, of any other
//! by its LU factors; either way as one graph.
//!
//! Without `--method` a matrix that says that it is its own adjoint is taken for definite. With the check, on
//! the whole matrix, whichever triangle was read.
//!
//! Generation, the search for entries that are not finite, the check and the digest run as tasks
//! too, but only the inversion itself is timed.
//!
//! # JSON
//! Beside the keys of every example: `method`.

use clap::{Args, ValueEnum};
use common::cli::simulated::{SWAPS, Simulator, is_simulated_only};
use common::cli::{self, Example, Failure, Settings};
use common::problem::{
    File, Generated, Job, Kind, Matrix, Problem, by_precision, digest_of_all, is_checked,
    is_hermitian, judge, over_ranks, then_checked,
};
use dataflow::core::port::Heap;
use dataflow::linalg::cholesky::Inverse;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::needs::{self, Needs};
use dataflow::linalg::product::{Operand, residual};
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::{LinalgError, cholesky, flops, lu};
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
        "costs",
    ],
};

/// The flags of this example.
#[derive(Clone, Copy, Debug, Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Order of the problem [default: 4000]"
    ))
)]
struct Own {
    #[command(flatten)]
    generated: Generated,
    /// How [default: cholesky for a Hermitian matrix, lu for another]
    #[arg(long, value_name = "METHOD")]
    method: Option<Method>,
}

/// By which decomposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Of a Hermitian positive definite matrix, of which the lower triangle is read.
    Cholesky,
    /// Of any square matrix.
    Lu,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::Cholesky => "cholesky",
            Method::Lu => "lu",
        }
    }

    /// The generated matrix that suits it.
    fn kind(self) -> Kind {
        match self {
            Method::Cholesky => Kind::Spd,
            Method::Lu => Kind::Random,
        }
    }
}

impl Job for Own {
    fn run<T: Scalar>(problem: Problem<'_, Self>) -> Result<(), Failure> {
        let own = &problem.settings.own;
        let hermitian = match &problem.file {
            Some(file) => is_hermitian(file),
            None => own.generated.is_hermitian(Kind::Spd),
        };
        let method = own.method.unwrap_or(match hermitian {
            true => Method::Cholesky,
            false => Method::Lu,
        });
        problem.outcome.set("method", method.name());
        problem.outcome.say(format!("method {}", method.name()));
        match method {
            Method::Cholesky => definite::<T>(problem, hermitian),
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

/// Of a definite matrix, from the entries to the inverse, and back for the check. One that does not say
/// that it is `hermitian` is kept as a whole, so that the check sees what was not read.
fn definite<T: Scalar>(mut problem: Problem<'_, Own>, hermitian: bool) -> Result<(), Failure> {
    let (settings, runtime, backend) = (problem.settings, problem.runtime, problem.backend);
    let flops = |n| flops::potrf::<T>(n) as f64 + flops::potri::<T>(n) as f64;
    let (n, nb) = orders::<T>(&mut problem, cholesky::default_tile_order::<T>, flops)?;
    let layout = over_ranks(Layout::lower(n, nb)?, settings, runtime)?;
    let kept = |there: &Layout| match hermitian {
        true => Ok(*there),
        false => whole(there),
    };
    let needs = |[there]: [Layout; 1]| {
        let run = needs::inverse::<T>(&there, runtime.n_threads());
        checked::<T>(settings, run, [&there, &kept(&there)?], runtime.n_threads())
    };
    let method = Method::Cholesky;
    if is_simulated::<T>(&mut problem, method, layout)?
        || problem.is_plan_only::<T, _>([layout], needs)?
    {
        return Ok(());
    }
    let (generated, kept) = (&settings.own.generated, kept(&layout)?);
    // Kept beside its inverse, and once more for the check.
    let original = problem.original::<T>(kept, 3, (generated, method.kind()))?;

    let a = TiledMatrix::<T>::vacant(layout, runtime.memory());
    problem.outcome.measured = settings.median(|_| -> Result<_, Failure> {
        // Each tile near the worker that makes it.
        a.fill(&original, runtime)?;
        a.scan(runtime)?;
        let inverse = Inverse::new(&a, backend)?;
        let run = |monitor: &Monitor| inverse.run(&runtime.watched_by(monitor));
        settings.measure(runtime, run)
    })?;
    conclude(problem, method, (&original, kept), &a)
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
        checked::<T>(settings, run, [&there, &there], runtime.n_threads())
    };
    let method = Method::Lu;
    if is_simulated::<T>(&mut problem, method, layout)?
        || problem.is_plan_only::<T, _>([layout], needs)?
    {
        return Ok(());
    }
    let generated = &settings.own.generated;
    let original = problem.original::<T>(layout, 3, (generated, method.kind()))?;

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
        Some(inverse) => conclude(problem, method, (&original, layout), &inverse),
        None => Ok(()),
    }
}

/// Whether only a simulation was asked for; I, with which LU begins, is there.
fn is_simulated<T: Scalar>(
    problem: &mut Problem<'_, Own>,
    method: Method,
    layout: Layout,
) -> Result<bool, Failure> {
    let backend = problem.backend;
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

/// What a run takes, and then its check: the matrix as it was and is `kept`, the inverse, and I.
fn checked<T: Scalar>(
    settings: &Settings<Own>,
    run: Needs,
    [there, kept]: [&Layout; 2],
    workers: usize,
) -> Result<Needs, Failure> {
    let check = || Ok(needs::gemm::<T>([kept, there, &whole(there)?], workers));
    then_checked::<T, _>(settings, kept, run, check)
}

/// Both triangles, spread as one is.
fn whole(there: &Layout) -> Result<Layout, LinalgError> {
    let whole = Layout::general(there.rows(), there.cols(), there.nb())?;
    Ok(whole.distributed(*there.distribution(), there.rank())?)
}

/// The digest of the inverse, the check, and the rest of the report.
fn conclude<T: Scalar>(
    problem: Problem<'_, Own>,
    method: Method,
    (original, kept): (&Matrix<T>, Layout),
    inverse: &TiledMatrix<T>,
) -> Result<(), Failure> {
    let (settings, runtime, n) = (problem.settings, problem.runtime, inverse.rows());
    problem.outcome.digest = Some(digest_of_all(inverse, runtime)?.to_string());
    if is_checked(settings, n) {
        let before = TiledMatrix::<T>::vacant(kept, runtime.memory());
        before.fill(original, runtime)?;
        let rest = TiledMatrix::<T>::vacant(whole(inverse.layout())?, runtime.memory());
        let unit = |i: usize, j: usize| if i == j { T::one() } else { T::zero() };
        rest.fill(&unit, runtime)?;
        let (before, after) = (Operand::plain(&before), Operand::plain(inverse));
        // Which of the two products an algorithm promises to be near I.
        let (left, right) = match method {
            Method::Cholesky => (before, after),
            Method::Lu => (after, before),
        };
        let residual = residual(left, right, &rest, runtime)?;
        judge(Some(residual.over(n)), problem.outcome)?;
    }
    problem.say_more::<T>(&settings.own.generated.name(method.kind()))
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
