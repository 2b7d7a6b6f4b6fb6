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
use cli::simulated::is_simulated_only;
use cli::{Example, Failure, Measured, Outcome, Settings};
use dataflow::core::port::Heap;
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::lu::{
    Check, Exchanges, Factor, Incremental, Pivots, Replay, Unpivoted, default_tile_order,
    expect_regular,
};
use dataflow::linalg::matrix::digest::Digest;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::{Entries, Layout, TiledMatrix};
use dataflow::linalg::needs::{self, Needs};
use dataflow::linalg::product::{Operand, residual};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Report, Runtime};
use problem::{
    COUNTED, File, Generated, InAnyPrecision, Kind, Problem, backend, by_precision, digest,
    in_numbers, is_checked, is_plan_only, judge, kept, over_ranks, say_more,
};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLE: Example = Example {
    name: "lu",
    about: "Factors a matrix of any shape by tiles, with row swaps",
    runs: true,
    honours: COUNTED,
};

/// The flags of this example alone.
#[derive(Clone, Copy, Debug, Args)]
struct Own {
    #[command(flatten)]
    generated: Generated,
    /// Which rows are swapped, so that no pivot is too small
    #[arg(long, value_name = "HOW", default_value = "partial")]
    pivoting: Pivoting,
    /// How many groups of tiles a tournament begins with, whatever the grid [default: 4]
    #[arg(long, value_name = "NUMBER")]
    groups: Option<NonZeroU32>,
}

impl Own {
    /// How many groups a tournament begins with.
    fn groups(&self) -> NonZeroU32 {
        self.groups.unwrap_or(GROUPS)
    }

    /// What a factorisation takes.
    fn needs<T: Scalar>(&self, there: &Layout, workers: usize) -> Needs {
        match self.pivoting {
            Pivoting::Partial => needs::lu::<T>(there, workers),
            Pivoting::Tournament => needs::lu_tournament::<T>(there, self.groups(), workers),
            Pivoting::Incremental => needs::lu_incremental::<T>(there, workers),
            Pivoting::None => needs::lu_unpivoted::<T>(there, workers),
        }
    }

    /// The generated matrix that suits the way pivots are chosen.
    fn kind(&self) -> Kind {
        match self.pivoting {
            Pivoting::Partial | Pivoting::Tournament | Pivoting::Incremental => Kind::Random,
            Pivoting::None => Kind::Spd,
        }
    }

    /// Refuses groups of which nothing begins.
    fn expect_sense(&self) -> Result<(), Failure> {
        self.generated.expect_sense()?;
        match self.groups {
            Some(_) if self.pivoting != Pivoting::Tournament => Err(Failure::refused(
                "--groups: only --pivoting tournament has them",
            )),
            _ => Ok(()),
        }
    }
}

/// Whether factors are checked by a solution with them, as those with incremental pivoting are: it
/// takes a square matrix.
fn is_solved(settings: &Settings<Own>, (m, n): (usize, usize)) -> bool {
    let incremental = settings.own.pivoting == Pivoting::Incremental;
    incremental && m == n && is_checked(settings, n)
}

/// Of a tournament, if nobody says otherwise.
const GROUPS: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// How pivots are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pivoting {
    /// The largest entry of the column, as LAPACK does.
    Partial,
    /// Groups of tiles put forward rows, which play for the top.
    Tournament,
    /// Between the diagonal tile and one tile below it after the other; checked by a solution.
    Incremental,
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
        if is_simulated::<T>(layout, settings, outcome)? {
            return Ok(());
        }
        let needs = |[there]: [Layout; 1]| {
            let workers = runtime.n_threads();
            let run = settings.own.needs::<T>(&there, workers);
            let incremental = settings.own.pivoting == Pivoting::Incremental;
            let all = match is_solved(settings, (m, n)) {
                true => run.then(needs_of_solution::<T>(&there, workers)?),
                false if incremental || !is_checked(settings, m.max(n)) => run,
                false => run.then(needs::lu_check::<T>(&there, workers)),
            };
            Ok(all.and(kept::<T, _>(settings, &there)))
        };
        if is_plan_only::<T, _, 1>(settings, runtime, outcome, [layout], needs)? {
            return Ok(());
        }
        // Kept beside its factors.
        let original =
            self.original::<T>(layout, 2, (&settings.own.generated, settings.own.kind()))?;
        let outcome = &mut *self.outcome;

        let lu = TiledMatrix::vacant(layout, runtime.memory());
        let pivots = Pivots::new(&lu);
        let exchanges = Exchanges::new(&lu);
        let mut runs = Vec::new();
        for _ in 0..settings.repeat {
            // Each tile near the worker that makes it.
            lu.fill(&original, runtime)?;
            lu.scan(runtime)?;
            let run = |monitor: &Monitor| match settings.own.pivoting {
                Pivoting::Partial => {
                    by_columns(Factor::new(&lu, &pivots, backend)?, runtime, monitor)
                }
                Pivoting::Tournament => {
                    let groups = settings.own.groups();
                    let factor = Factor::new(&lu, &pivots, backend)?;
                    by_columns(factor.by_tournament(groups), runtime, monitor)
                }
                Pivoting::Incremental => incremental(&lu, &exchanges, backend, runtime, monitor),
                Pivoting::None => without(&lu, &pivots, backend, runtime, monitor),
            };
            runs.push(settings.measure(runtime, run)?);
        }
        outcome.measured = Measured::median(runs);

        let beside = match settings.own.pivoting {
            Pivoting::Incremental => exchanges.digest(),
            _ => pivots.digest(),
        };
        outcome.digest = Some((digest(&lu, runtime)? + of_all(beside, runtime)?).to_string());
        let regular = expect_regular(&lu, runtime);
        if !is_checked(settings, m.max(n)) {
            // Nobody asks.
        } else if settings.own.pivoting == Pivoting::Incremental {
            // L is a sequence of steps, of which no product with U can be made.
            if !is_solved(settings, (m, n)) {
                outcome.say(format!(
                    "not checked: such factors are judged by a solution, and {m} x {n} has none"
                ));
            } else if regular.is_ok() {
                let ratio = solution(
                    (&lu, &exchanges),
                    &original,
                    (settings.seed, backend),
                    runtime,
                );
                judge(Some(ratio?), outcome)?;
            } else {
                outcome.say("not checked: such factors are judged by a solution, here is none");
            }
        } else {
            let check = Check::new(&original, &lu, &pivots)?;
            check.run(runtime)?;
            judge(check.residual(), outcome)?;
        }
        if !settings.json {
            let kind = settings.own.generated.name(settings.own.kind());
            say_more::<T, _>(settings, runtime, backend, &kind, outcome)?;
        }
        Ok(regular?)
    }
}

/// Whether only a simulation was asked for: of a factorisation without row swaps, which knows its messages
/// before it knows the matrix.
fn is_simulated<T: Scalar>(
    layout: Layout,
    settings: &Settings<Own>,
    outcome: &mut Outcome,
) -> Result<bool, Failure> {
    if settings.simulate.is_none() {
        return Ok(false);
    }
    if settings.own.pivoting != Pivoting::None {
        return Err(Failure::refused(
            "--simulate: how much rows that are swapped send depends on the matrix; --pivoting none does not",
        ));
    }
    let lu = TiledMatrix::<T>::vacant(layout, Arc::new(Heap));
    let pivots = Pivots::new(&lu);
    is_simulated_only(settings, outcome, move |simulator| {
        simulator.hear(&Unpivoted::new(&lu, &pivots, Backend::Auto)?)
    })
}

fn by_columns<T: Scalar>(
    factor: Factor<'_, T>,
    runtime: &Runtime,
    monitor: &Monitor,
) -> Result<Report, Failure> {
    Ok(factor.run(&runtime.watched_by(monitor))?)
}

fn incremental<T: Scalar>(
    a: &TiledMatrix<T>,
    exchanges: &Exchanges<T>,
    backend: Backend,
    runtime: &Runtime,
    monitor: &Monitor,
) -> Result<Report, Failure> {
    let factor = Incremental::new(a, exchanges, backend)?;
    Ok(factor.run(&runtime.watched_by(monitor))?)
}

fn without<T: Scalar>(
    a: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    backend: Backend,
    runtime: &Runtime,
    monitor: &Monitor,
) -> Result<Report, Failure> {
    let factor = Unpivoted::new(a, pivots, backend)?;
    Ok(factor.run(&runtime.watched_by(monitor))?)
}

/// What that takes beside the factors: the solution, the matrix, and what is left of the right-hand
/// side.
fn needs_of_solution<T: Scalar>(there: &Layout, workers: usize) -> Result<Needs, Failure> {
    let side = Layout::general(there.rows(), 1, there.nb())?;
    let side = side.distributed(*there.distribution(), there.rank())?;
    let solved = needs::lu_replay::<T>([there, &side], workers);
    let beside = Needs {
        held: solved.held - needs::matrix::<T>(&side).held,
        ..Needs::default()
    };
    Ok(solved.then(needs::gemm::<T>([there, &side, &side], workers).and(beside)))
}

/// ‖B − A·X‖₁ / (n ‖A‖₁ ‖X‖₁ ε) of a solution with a random right-hand side, the same on every rank.
fn solution<T: Scalar>(
    (lu, exchanges): (&TiledMatrix<T>, &Exchanges<T>),
    original: &impl Entries<T>,
    (seed, backend): (u64, Backend),
    runtime: &Runtime,
) -> Result<f64, Failure> {
    let layout = Layout::general(lu.rows(), 1, lu.nb())?;
    let layout = layout.distributed(*lu.layout().distribution(), runtime.rank())?;
    let side = || -> Result<TiledMatrix<T>, Failure> {
        let side = TiledMatrix::vacant(layout, runtime.memory());
        side.fill(&Random::new(seed ^ 1), runtime)?;
        Ok(side)
    };
    let (x, b) = (side()?, side()?);
    Replay::new(lu, exchanges, &x, backend)?.run(runtime)?;
    let a = TiledMatrix::<T>::vacant(*lu.layout(), runtime.memory());
    a.fill(original, runtime)?;
    let (a, x) = (Operand::plain(&a), Operand::plain(&x));
    Ok(residual(a, x, &b, runtime)?.over(lu.rows()))
}

/// The sum of all ranks' digests, the same on every rank.
fn of_all(Digest(own): Digest, runtime: &Runtime) -> Result<Digest, dataflow::Error> {
    let all = runtime.gather(own.to_le_bytes().to_vec())?;
    Ok(in_numbers(&all).map(Digest).sum())
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        settings.own.expect_sense()?;
        by_precision(settings, Problem::open(settings, runtime, outcome)?)
    })
}
