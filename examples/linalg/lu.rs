//! The LU factorisation P·A = L·U of a matrix from a file or from a formula, by tiles.
//!
//! Generation, the search for entries that are not finite, the check and the digest run as tasks
//! too, but only the factorisation itself is timed. A singular matrix is factored to the end, as
//! LAPACK does; the example then says which pivot is zero and fails.
//!
//! # Elsewhere
//! Where the matrix comes from, and what is said of a result: `common/problem`.

use clap::{Args, ValueEnum};
use common::cli::simulated::{SWAPS, is_simulated_only};
use common::cli::{self, Example, Failure, Flags, Measured, Outcome, Settings};
use common::problem::{
    Generated, Job, Kind, Matrix, PLAYED, Problem, by_precision, digest, in_numbers, is_checked,
    judge, n_workers, over_ranks, then_checked,
};
use dataflow::core::port::Heap;
use dataflow::linalg::LinalgError;
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::lu::{
    Check, Columns, Exchanges, Factor, Incremental, Pivots, Replay, Unpivoted, default_layout,
    default_tile_order, expect_regular, suits_columns,
};
use dataflow::linalg::matrix::digest::Digest;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::needs::{self, Needs};
use dataflow::linalg::product::{Operand, residual};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Report, Runtime};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLE: Example = Example {
    name: "lu",
    about: "Factors a matrix of any shape by tiles, with row swaps",
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

    /// Refuses to check factors that nothing can judge.
    fn expect_judge(&self, check: Option<bool>, (m, n): (usize, usize)) -> Result<(), Failure> {
        let has_none = self.pivoting == Pivoting::Incremental && m != n;
        match has_none && check == Some(true) {
            true => Err(Failure::refused(format!(
                "--check: incremental factors are judged by a solution, and {m} x {n} has none"
            ))),
            false => Ok(()),
        }
    }

    /// Refuses groups of which nothing begins.
    fn expect_sense(&self, flags: &Flags) -> Result<(), Failure> {
        // Incremental factors are judged by a solution, whose right-hand side is drawn.
        let draws_side = self.pivoting == Pivoting::Incremental;
        self.generated.expect_sense(flags, draws_side)?;
        match self.groups {
            Some(_) if self.pivoting != Pivoting::Tournament => Err(Failure::refused(
                "--groups: only --pivoting tournament has them",
            )),
            _ => Ok(()),
        }
    }
}

impl Own {
    /// How the matrix is cut. Where rows are swapped as LAPACK does, what suits many workers has the bits of what
    /// suits few, but for OpenBLAS, whose products of rows may depend on the others.
    fn tiles<T: Scalar>(
        &self,
        (m, n): (usize, usize),
        (settings, runtime): (&Settings<Own>, &Runtime),
    ) -> Result<Layout, Failure> {
        const FEW: usize = 2;
        let workers = match settings.backend {
            cli::settings::Backend::Openblas => FEW,
            _ => n_workers(settings, runtime)?,
        };
        Ok(match settings.nb {
            Some(nb) => Layout::general(m, n, nb)?,
            None if self.pivoting == Pivoting::Partial => default_layout::<T>(m, n, workers)?,
            None => Layout::general(m, n, default_tile_order::<T>(m, n))?,
        })
    }
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

impl Job for Own {
    /// From the entries to the factors, and back for the check.
    fn run<T: Scalar>(mut problem: Problem<'_, Self>) -> Result<(), Failure> {
        let (settings, runtime, own) = (problem.settings, problem.runtime, problem.settings.own);
        let (m, n) = problem.shape((|n| n, 4000));
        own.expect_judge(settings.check, (m, n))?;
        let tiles = own.tiles::<T>((m, n), (settings, runtime))?;
        problem.outcome.m = Some(m);
        problem.begin::<T>(n, tiles.nb(), flops::getrf::<T>(m, n) as f64);
        let layout = over_ranks(tiles, settings, runtime)?;
        let needs = |[there]: [Layout; 1]| needs_of::<T>(settings, &there, runtime.n_threads());
        if is_simulated::<T>(layout, settings, problem.outcome)?
            || problem.is_plan_only::<T, _>([layout], needs)?
        {
            return Ok(());
        }
        // Kept beside its factors.
        let original = problem.original::<T>(layout, 2, (&own.generated, own.kind()))?;
        let factors = Factors::vacant(layout, &problem);
        problem.outcome.measured = settings.median(|_| factors.make(&original))?;
        problem.outcome.digest = Some(factors.digest()?.to_string());
        let regular = expect_regular(&factors.lu, runtime);
        let checked = factors.check(&original, regular.is_ok(), problem.outcome);
        // Of a pivot that is 0 no right product comes: it is what is told.
        if regular.is_ok() {
            checked?;
        }
        problem.say_more::<T>(&own.generated.name(own.kind()))?;
        Ok(regular?)
    }
}

/// What the factorisation takes, and then its check.
fn needs_of<T: Scalar>(
    settings: &Settings<Own>,
    there: &Layout,
    workers: usize,
) -> Result<Needs, Failure> {
    let run = settings.own.needs::<T>(there, workers);
    let incremental = settings.own.pivoting == Pivoting::Incremental;
    let check = || match there.rows() == there.cols() {
        _ if !incremental => Ok(needs::lu_check::<T>(there, workers)),
        true => needs_of_solution::<T>(there, workers),
        false => Ok(Needs::default()),
    };
    then_checked::<T, _>(settings, there, run, check)
}

/// A, then its factors.
struct Factors<'a, T: Scalar> {
    settings: &'a Settings<Own>,
    runtime: &'a Runtime,
    backend: Backend,
    lu: TiledMatrix<T>,
    /// Which rows were swapped …
    pivots: Pivots<T>,
    /// … or, with incremental pivoting, by what the factors are completed.
    exchanges: Exchanges<T>,
}

impl<'a, T: Scalar> Factors<'a, T> {
    /// No factors yet.
    fn vacant(layout: Layout, problem: &Problem<'a, Own>) -> Self {
        let lu = TiledMatrix::vacant(layout, problem.runtime.memory());
        Factors {
            settings: problem.settings,
            runtime: problem.runtime,
            backend: problem.backend,
            pivots: Pivots::new(&lu),
            exchanges: Exchanges::new(&lu),
            lu,
        }
    }

    /// Makes A and factors it; only the factorisation is timed.
    fn make(&self, original: &Matrix<T>) -> Result<Measured, Failure> {
        let (lu, pivots, backend) = (&self.lu, &self.pivots, self.backend);
        // Each tile near the worker that makes it.
        lu.fill(original, self.runtime)?;
        lu.scan(self.runtime)?;
        let own = &self.settings.own;
        let run = |monitor: &Monitor| -> Result<Report, Failure> {
            let on = &self.runtime.watched_by(monitor);
            Ok(match own.pivoting {
                Pivoting::Partial => Factor::new(lu, pivots, backend)?.run(on)?,
                Pivoting::Tournament => {
                    let factor = Factor::new(lu, pivots, backend)?;
                    factor.by_tournament(own.groups()).run(on)?
                }
                Pivoting::Incremental => Incremental::new(lu, &self.exchanges, backend)?.run(on)?,
                Pivoting::None => Unpivoted::new(lu, pivots, backend)?.run(on)?,
            })
        };
        self.settings.measure(self.runtime, run)
    }

    /// Of all that was made, on all ranks.
    fn digest(&self) -> Result<Digest, Failure> {
        let beside = match self.settings.own.pivoting {
            Pivoting::Incremental => self.exchanges.digest(),
            _ => self.pivots.digest(),
        };
        Ok(digest(&self.lu, self.runtime)? + of_all(beside, self.runtime)?)
    }

    /// Judges the factors by their product, or by a solution where they have no such product.
    fn check(
        &self,
        original: &Matrix<T>,
        is_regular: bool,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let (m, n) = (self.lu.rows(), self.lu.cols());
        if !is_checked(self.settings, m.max(n)) {
            return Ok(());
        }
        if self.settings.own.pivoting != Pivoting::Incremental {
            let check = Check::new(original, &self.lu, &self.pivots)?;
            check.run(self.runtime)?;
            return judge(check.residual(), outcome);
        }
        // L is a sequence of steps, of which no product with U can be made.
        if m != n {
            outcome.say(format!(
                "not checked: such factors are judged by a solution, and {m} x {n} has none"
            ));
            return Ok(());
        }
        // Of a singular matrix it is said which pivot is 0.
        match is_regular {
            true => judge(Some(self.of_solution(original)?), outcome),
            false => Ok(()),
        }
    }

    /// ‖B − A·X‖₁ / (n ‖A‖₁ ‖X‖₁ ε) of a solution with a random right-hand side, the same on every rank.
    fn of_solution(&self, original: &Matrix<T>) -> Result<f64, Failure> {
        let (lu, runtime) = (&self.lu, self.runtime);
        let layout = Layout::general(lu.rows(), 1, lu.nb())?;
        let layout = layout.distributed(*lu.layout().distribution(), runtime.rank())?;
        let side = || -> Result<TiledMatrix<T>, Failure> {
            let side = TiledMatrix::vacant(layout, runtime.memory());
            side.fill(&Random::new(self.settings.seed ^ 1), runtime)?;
            Ok(side)
        };
        let (x, b) = (side()?, side()?);
        Replay::new(lu, &self.exchanges, &x, self.backend)?.run(runtime)?;
        let a = TiledMatrix::<T>::vacant(*lu.layout(), runtime.memory());
        a.fill(original, runtime)?;
        let (a, x) = (Operand::plain(&a), Operand::plain(&x));
        Ok(residual(a, x, &b, runtime)?.over(lu.rows()))
    }
}

/// Whether only a simulation was asked for. How many rows are swapped depends on the matrix: what is told is
/// what to expect of a random one.
fn is_simulated<T: Scalar>(
    layout: Layout,
    settings: &Settings<Own>,
    outcome: &mut Outcome,
) -> Result<bool, Failure> {
    if settings.simulate.is_none() {
        return Ok(false);
    }
    let (pivoting, groups) = (settings.own.pivoting, settings.own.groups());
    if let Pivoting::Partial | Pivoting::Tournament = pivoting {
        outcome.say(SWAPS);
    }
    let lu = TiledMatrix::<T>::vacant(layout, Arc::new(Heap));
    let (pivots, exchanges) = (Pivots::new(&lu), Exchanges::new(&lu));
    is_simulated_only(settings, outcome, move |simulator| match pivoting {
        Pivoting::None => simulator.hear(&Unpivoted::new(&lu, &pivots, Backend::Auto)?),
        Pivoting::Incremental => simulator.hear(&Incremental::new(&lu, &exchanges, Backend::Auto)?),
        Pivoting::Tournament => {
            let factor = Factor::new(&lu, &pivots, Backend::Auto)?;
            simulator.hear(&factor.by_tournament(groups))
        }
        _ if suits_columns::<T>(&layout, simulator.n_workers()) => {
            simulator.hear(&Columns::new(&lu, &pivots, Backend::Auto)?)
        }
        _ => simulator.hear(&Factor::new(&lu, &pivots, Backend::Auto)?),
    })
}

/// What a check by a solution takes beside the factors: the solution, the matrix, and what is left of the
/// right-hand side.
fn needs_of_solution<T: Scalar>(there: &Layout, workers: usize) -> Result<Needs, LinalgError> {
    let side = Layout::general(there.rows(), 1, there.nb())?;
    let side = side.distributed(*there.distribution(), there.rank())?;
    let solved = needs::lu_replay::<T>([there, &side], workers);
    let beside = Needs {
        held: solved.held - needs::matrix::<T>(&side).held,
        ..Needs::default()
    };
    Ok(solved.then(needs::gemm::<T>([there, &side, &side], workers).and(beside)))
}

/// The sum of all ranks' digests, the same on every rank.
fn of_all(Digest(own): Digest, runtime: &Runtime) -> Result<Digest, dataflow::Error> {
    let all = runtime.gather(own.to_le_bytes().to_vec())?;
    Ok(in_numbers(&all).map(Digest).sum())
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        settings.own.expect_sense(settings)?;
        by_precision(settings, Problem::open(settings, runtime, outcome)?)
    })
}
