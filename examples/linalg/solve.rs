//! The solution of A·X = B from files or formulas, and how far it can be trusted, by tiles.
//!
//! Of a Hermitian matrix Cholesky is tried, and LU taken if it is not definite; of a rectangular one
//! the solution is that of least squares, by QR. Timed are the factorisation and the solution. With
//! the check, on the whole matrix: the backward error, and of a square one an estimate of the condition
//! in the 1-norm and bounds of the errors.
//!
//! # JSON
//! Beside the keys of every example: `method`, `nrhs`; `condition`, `log_det`, `det_phase`,
//! `forward_error_bound` (LAPACK's FERR, the largest of all columns) and `backward_error` (BERR,
//! componentwise), null where there is none: half the precision, for one, knows no determinant. Of `--method mixed`: `corrections`, null if it fell
//! back, and `fell_back`: null, or `overflow`, `no_factor` or `not_converged`.
//!
//! # Elsewhere
//! What is asked for, and what of it needs no run: `solve/asked.rs`. The runs: `solve/task.rs`. The four
//! methods: `solve/factors.rs`. Determinant, condition and errors: `solve/trust.rs`. Where a matrix comes
//! from: `common/problem`.

#[path = "solve/asked.rs"]
mod asked;
#[path = "solve/factors.rs"]
mod factors;
#[path = "solve/task.rs"]
mod task;
#[path = "solve/trust.rs"]
mod trust;

use asked::{Asked, right_hand_sides};
use clap::Args;
use common::cli::{self, Example, Failure, Settings};
use common::problem::{COUNTED, File, Generated, InAnyPrecision, Kind, Problem, by_precision};
use dataflow::linalg::matrix::market::Reader;
use dataflow::linalg::scalar::Scalar;
use factors::Method;
use std::path::PathBuf;
use std::process::ExitCode;
use task::Task;

const EXAMPLE: Example = Example {
    name: "solve",
    about: "Solves systems of linear equations, and says how far the solution can be trusted",
    runs: true,
    honours: COUNTED,
};

/// The flags of this example alone.
#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Order of the problem [default: 4000]"
    ))
)]
struct Own {
    #[command(flatten)]
    generated: Generated,
    /// How [default: cholesky for a Hermitian matrix, and lu if it is not definite; lu for another
    /// square one; qr]
    #[arg(long, value_name = "METHOD")]
    method: Option<Method>,
    /// Matrix Market file with the right-hand sides [default: one, of ones]
    #[arg(long, value_name = "FILE")]
    rhs: Option<PathBuf>,
    /// Write the solution to this Matrix Market file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Own {
    /// The generated matrix that suits the method.
    fn kind(&self, (m, n): (usize, usize)) -> Kind {
        match self.method {
            None | Some(Method::Cholesky | Method::Mixed) if m == n => Kind::Spd,
            _ => Kind::Random,
        }
    }
}

/// A problem with right-hand sides of their own.
struct System<'a> {
    problem: Problem<'a, Own>,
    sides: Option<File>,
}

impl InAnyPrecision for System<'_> {
    fn file(&self) -> Option<&File> {
        let sides = self.sides.as_ref();
        let complex = sides.filter(|file| file.header().is_complex());
        complex.or(self.problem.file.as_ref())
    }

    /// From the entries to the solution, and back for the check.
    fn run<T: Scalar>(self) -> Result<(), Failure> {
        let System { mut problem, sides } = self;
        let asked = Asked::of::<T>(&problem, sides.as_ref())?;
        asked.tell::<T>(problem.outcome);
        let cut = asked.cut(&problem)?;
        if asked.is_answered_without_a_run::<T>(cut, &mut problem)? {
            return Ok(());
        }
        let original = asked.matrix::<T>(cut.whole, &mut problem)?;
        let b = right_hand_sides(sides, cut.sides, problem.runtime)?;
        let mut task = Task::of(&asked, &problem, (&original, &b));
        let Some(solution) = task.solved_again_and_again(asked.method, &mut problem)? else {
            return Ok(());
        };
        task.tell(&solution, problem.outcome)?;
        task.tell_determinant(&solution.factors, problem.outcome)?;
        let written = task.write(&solution.x);
        let checked = task.check(&solution, problem.outcome);
        let checked = checked.and_then(|()| problem.say_more::<T>(&asked.name));
        cli::both(checked, written)
    }
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        settings.own.generated.expect_sense(settings, false)?;
        let problem = Problem::open(settings, runtime, outcome)?;
        let sides = settings.own.rhs.as_ref().map(Reader::open).transpose()?;
        by_precision(settings, System { problem, sides })
    })
}
