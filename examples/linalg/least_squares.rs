//! Least squares: the X that makes ‖B − A·X‖ least, of a wide matrix the shortest of all; by QR, or
//! whatever the rank of A by QR with column pivoting (`--method gelsy`).
//!
//! Timed are the graphs that lead from A and B to X, one after the other.
//!
//! # Elsewhere
//! Where the matrix comes from, and what is said of a result: `common/problem`.

use clap::{Args, ValueEnum};
use common::cli::simulated::is_simulated_only;
use common::cli::{self, Example, Failure, Flags, Measured, Outcome, Settings};
use common::problem::{
    COUNTED, Generated, Job, Kind, Matrix, Problem, by_precision, digest, is_checked, judge,
    over_ranks, then_checked,
};
use dataflow::core::port::Heap;
use dataflow::linalg::LinalgError;
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::norm::{Norm, norm};
use dataflow::linalg::matrix::{Entries, Layout, TiledMatrix};
use dataflow::linalg::needs::{self, Needs};
use dataflow::linalg::qr::{
    Options, Tree, default_rcond, default_tile_order, least_squares, least_squares_minimum_norm,
    least_squares_ratio, least_squares_stages, solution_ratio,
};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Runtime};
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLE: Example = Example {
    name: "least_squares",
    about: "Solves tall systems as well as can be, wide ones by the shortest solution; tells the rank",
    runs: true,
    honours: COUNTED,
};

/// The flags of this example alone.
#[derive(Clone, Copy, Debug, Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Columns of the matrix [default: 1000]"
    ))
)]
struct Own {
    #[command(flatten)]
    generated: Generated,
    /// Which rows of tiles vanish under which: flat, binary, greedy, fibonacci or
    /// hierarchical:P,A,LOW,HIGH
    #[arg(long, value_name = "TREE", default_value = "flat")]
    tree: Tree,
    /// By which QR: qr needs full rank, gelsy (with column pivoting) does not, auto takes gelsy with
    /// --rcond, and where qr finds that the rank is not full
    #[arg(long, value_name = "METHOD", default_value = "qr")]
    method: Method,
    /// Columns count as long as their condition is at most 1/RCOND [default: max(m, n)·2ε, at most ⁴√ε]
    #[arg(long, value_name = "RCOND")]
    rcond: Option<f64>,
    /// Right-hand sides
    #[arg(long, value_name = "NRHS", default_value_t = 1)]
    nrhs: usize,
    /// What they are
    #[arg(long, value_name = "KIND", default_value = "random")]
    rhs: Sides,
}

/// How the problem is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// LAPACK's gels: full rank, or an error that tells the rank.
    Qr,
    /// LAPACK's gelsy: the shortest solution whatever the rank.
    Gelsy,
    /// The first, which knows no rcond; with one, and where the first finds no full rank, the second.
    Auto,
}

impl Own {
    /// Refuses an rcond that is none, or that nobody asks for.
    fn expect_sense(&self, flags: &Flags) -> Result<(), Failure> {
        self.generated
            .expect_sense(flags, self.rhs == Sides::Random)?;
        match (self.rcond, self.method) {
            (Some(_), Method::Qr) => Err(Failure::refused(
                "--rcond: --method qr has none (take gelsy or auto)",
            )),
            (Some(rcond), _) if !(0.0..1.0).contains(&rcond) => Err(Failure::refused(format!(
                "--rcond: {rcond} (must be at least 0 and less than 1)"
            ))),
            _ => Ok(()),
        }
    }
}

impl Own {
    /// What a run takes.
    fn needs<T: Scalar>(
        &self,
        layouts: [&Layout; 2],
        options: Options,
        workers: usize,
    ) -> Result<Needs, LinalgError> {
        match self.method {
            Method::Qr => needs::least_squares::<T>(layouts, options, workers),
            Method::Gelsy | Method::Auto => {
                needs::least_squares_minimum_norm::<T>(layouts, options, workers)
            }
        }
    }
}

/// What came out: X, and of gelsy the rank.
type Solved<T> = (TiledMatrix<T>, Option<usize>);

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

impl Job for Own {
    /// From the entries to the solution, and back for the check.
    fn run<T: Scalar>(mut problem: Problem<'_, Self>) -> Result<(), Failure> {
        let (settings, runtime, own) = (problem.settings, problem.runtime, problem.settings.own);
        let [of_a, of_b] = layouts::<T>(&mut problem)?;
        let options = Options::of_order(of_a.nb()).with_tree(own.tree);
        let needs = |there: [Layout; 2]| {
            let (layouts, workers) = (there.each_ref(), runtime.n_threads());
            let run = own.needs::<T>(layouts, options, workers)?;
            let check = || needs::solution_ratio::<T>(layouts, workers);
            then_checked::<T, _>(settings, &there[0], run, check)
        };
        if is_simulated::<T>(&mut problem, [of_a, of_b], options)?
            || problem.is_plan_only::<T, _>([of_a, of_b], needs)?
        {
            return Ok(());
        }
        // Kept beside its factors, and once more for the check.
        let original = problem.original::<T>(of_a, 3, (&own.generated, Kind::Random))?;
        let outcome = &mut *problem.outcome;
        outcome.seed = Some(settings.seed);
        let task = Task {
            settings,
            runtime,
            backend: problem.backend,
            options,
            original: &original,
            a: TiledMatrix::vacant(of_a, runtime.memory()),
            b: TiledMatrix::vacant(of_b, runtime.memory()),
        };
        let Some((x, rank)) = task.solved_again_and_again(outcome)? else {
            return Ok(());
        };
        outcome.digest = Some(digest(&x, runtime)?.to_string());
        // What qr has solved is of full rank.
        outcome.set("rank", rank.unwrap_or(of_a.rows().min(of_a.cols())));
        outcome.set("method", if rank.is_some() { "gelsy" } else { "qr" });
        if is_checked(settings, of_a.rows().max(of_a.cols())) {
            task.check(&x, rank, outcome)?;
        }
        problem.say_more::<T>(&own.generated.name(Kind::Random))
    }
}

/// How A and B are cut; noted in the report.
fn layouts<T: Scalar>(problem: &mut Problem<'_, Own>) -> Result<[Layout; 2], Failure> {
    let (settings, runtime) = (problem.settings, problem.runtime);
    let (m, n) = problem.shape((|n| n.saturating_mul(2), 1000));
    let Own { tree, nrhs, .. } = settings.own;
    let nb = settings.nb.unwrap_or_else(|| default_tile_order::<T>(m, n));
    problem.outcome.m = Some(m);
    problem.outcome.set("nrhs", nrhs);
    problem.outcome.set("tree", tree.to_string());
    problem.begin::<T>(n, nb, flops::gels::<T>(m, n, nrhs) as f64);
    let general = |cols| over_ranks(Layout::general(m, cols, nb)?, settings, runtime);
    Ok([general(n)?, general(nrhs)?])
}

/// Whether only a simulation was asked for.
fn is_simulated<T: Scalar>(
    problem: &mut Problem<'_, Own>,
    [a, b]: [Layout; 2],
    options: Options,
) -> Result<bool, Failure> {
    let (settings, backend) = (problem.settings, problem.backend);
    if settings.simulate.is_none() {
        return Ok(false);
    }
    if settings.own.method != Method::Qr {
        return Err(Failure::refused(
            "--simulate: --method gelsy is graphs one after another, and which they are depends on the \
             rank (take qr)",
        ));
    }
    let x = Layout::general(a.cols(), b.cols(), b.nb())?;
    let x = x.distributed(*b.distribution(), b.rank())?;
    let [a, b, x] = [a, b, x].map(|layout| TiledMatrix::<T>::vacant(layout, Arc::new(Heap)));
    is_simulated_only(settings, problem.outcome, move |simulator| {
        let how = (options, backend);
        least_squares_stages(&a, (&b, &x), how, |all| simulator.hear_series(all))?
    })
}

/// What both methods start from: A and B are made of it anew for each run.
struct Task<'a, T: Scalar> {
    settings: &'a Settings<Own>,
    runtime: &'a Runtime,
    backend: Backend,
    options: Options,
    original: &'a Matrix<T>,
    a: TiledMatrix<T>,
    b: TiledMatrix<T>,
}

impl<T: Scalar> Task<'_, T> {
    /// Makes A and B, each tile near the worker that makes it.
    fn fill(&self) -> Result<(), Failure> {
        let settings = self.settings;
        let m = self.b.rows();
        let random = Random::new(settings.seed.wrapping_add(1));
        let sides = |row: usize, col: usize| match settings.own.rhs {
            Sides::Random => random.entry(row, col),
            Sides::Ones => T::one(),
            Sides::Ramp => T::from_real((row + 1) as f64 / m as f64),
        };
        self.a.fill(self.original, self.runtime)?;
        self.b.fill(&sides, self.runtime)?;
        Ok(())
    }

    /// Solves as often as was asked for, and notes the time; answers the last solution.
    fn solved_again_and_again(&self, outcome: &mut Outcome) -> Result<Option<Solved<T>>, Failure> {
        let Own { method, rcond, .. } = self.settings.own;
        let begins_with_qr = method != Method::Gelsy && rcond.is_none();
        let (mut runs, mut solution) = (Vec::new(), None);
        for _ in 0..self.settings.repeat {
            let mut deficient = None;
            let mut measured = None;
            if begins_with_qr {
                self.fill()?;
                measured = Some(self.by_qr(&mut solution, &mut deficient));
            }
            if let Some(rank) = deficient {
                outcome.set("rank", rank);
            }
            if !begins_with_qr || method == Method::Auto && deficient.is_some() {
                self.fill()?;
                measured = Some(self.by_gelsy(&mut solution));
            }
            runs.extend(measured.transpose()?);
        }
        outcome.measured = Measured::median(runs);
        Ok(solution)
    }

    /// By QR; if the rank is not full it is told.
    fn by_qr(
        &self,
        solution: &mut Option<Solved<T>>,
        deficient: &mut Option<u64>,
    ) -> Result<Measured, Failure> {
        self.settings.measure(self.runtime, |monitor: &Monitor| {
            let on = &self.runtime.watched_by(monitor);
            let solved = least_squares(&self.a, &self.b, self.options, self.backend, on);
            if let Err(LinalgError::RankDeficient { rank, .. }) = &solved {
                *deficient = Some(*rank);
            }
            let (x, report) = solved?;
            *solution = Some((x, None));
            Ok::<_, Failure>(report)
        })
    }

    /// By QR with column pivoting, whatever the rank.
    fn by_gelsy(&self, solution: &mut Option<Solved<T>>) -> Result<Measured, Failure> {
        let rcond = self.settings.own.rcond;
        self.settings.measure(self.runtime, |monitor: &Monitor| {
            let on = &self.runtime.watched_by(monitor);
            let (a, b) = (&self.a, &self.b);
            let (x, rank, report) =
                least_squares_minimum_norm(a, b, rcond, self.options, self.backend, on)?;
            *solution = Some((x, Some(rank)));
            Ok::<_, Failure>(report)
        })
    }

    /// LAPACK's ratios of the solution; B becomes the residual.
    fn check(
        &self,
        x: &TiledMatrix<T>,
        rank: Option<usize>,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        self.fill()?;
        let (a, b, runtime) = (&self.a, &self.b, self.runtime);
        let ratio = match rank {
            None => solution_ratio(a, b, x, runtime)?,
            Some(rank) => {
                let (m, n) = (a.rows(), a.cols());
                outcome.say(format!("rank {rank} of {}", m.min(n)));
                let rcond = self.settings.own.rcond;
                let rcond = rcond.unwrap_or_else(|| default_rcond::<T>(m, n));
                least_squares_ratio(a, b, x, rcond, runtime)?
            }
        };
        outcome.set("residual_norm", norm(b, Norm::Frobenius, runtime)?);
        outcome.set("solution_norm", norm(x, Norm::Frobenius, runtime)?);
        judge(Some(ratio), outcome)
    }
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        settings.own.expect_sense(settings)?;
        by_precision(settings, Problem::open(settings, runtime, outcome)?)
    })
}
