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
//! The four methods: `solve/factors.rs`. Where a matrix comes from: `common/problem`.

#[path = "solve/factors.rs"]
mod factors;

use clap::Args;
use common::cli::simulated::{SWAPS, is_simulated_only};
use common::cli::{self, Example, Failure, Measured, Outcome, Settings};
use common::problem::{
    File, Generated, InAnyPrecision, Kind, Matrix, Problem, by_precision, digest, is_checked,
    is_hermitian, judge, over_ranks, then_checked,
};
use dataflow::core::rank::Rank;
use dataflow::linalg::condition::condition_number;
use dataflow::linalg::kernel::{Backend, Op};
use dataflow::linalg::matrix::market::{Reader, Storage, Symmetry, write};
use dataflow::linalg::matrix::norm::{Norm, norm};
use dataflow::linalg::matrix::transfer::{Turn, transfer};
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::needs;
use dataflow::linalg::product::{Operand, residual};
use dataflow::linalg::refine::{Refinement, bounds};
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::{LinalgError, cholesky, flops, lu, qr};
use dataflow::trace::replace;
use dataflow::{Monitor, Runtime};
use factors::{By, Factors, Method, gathered};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "solve",
    about: "Solves systems of linear equations, and says how far the solution can be trusted",
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
        "plan",
        "simulate",
    ],
};

/// The flags of this example alone.
#[derive(Clone, Debug, Args)]
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
        let (mut problem, sides) = (self.problem, self.sides);
        let (settings, runtime) = (problem.settings, problem.runtime);
        expect_a_solution(settings)?;
        let asked = Asked::of::<T>(settings, problem.file.as_ref(), sides.as_ref())?;
        asked.tell::<T>(problem.outcome);
        let [whole, of_a, of_sides] = asked.layouts(settings, runtime)?;
        let by = decomposition(asked.method, asked.hermitian);
        problem.outcome.flops = Some(operations::<T>(by, asked.shape, asked.nrhs));
        if is_simulated::<T>(&mut problem, asked.method, [of_a, of_sides])?
            || is_planned::<T>(&mut problem, asked.method, [of_a, of_sides])?
        {
            return Ok(());
        }
        let kind = settings.own.kind(asked.shape);
        // Kept beside its factors, and once more for the check.
        let original = problem.original::<T>(whole, 3, (&settings.own.generated, kind))?;
        let b = right_hand_sides(sides, of_sides, runtime)?;
        let mut task = Task::of(&asked, &problem, (&original, &b));
        let (method, solved) = task.solved_again_and_again(asked.method, &mut problem)?;
        let by = decomposition(method, task.hermitian);
        problem.outcome.flops = Some(operations::<T>(by, asked.shape, asked.nrhs));
        let Some((factors, x)) = solved else {
            return Ok(());
        };
        let outcome = &mut *problem.outcome;
        tell_method(method, factors.outcome(), outcome);
        outcome.digest = Some(digest(&x, runtime)?.to_string());
        task.tell_determinant(&factors, outcome)?;
        let written = task.write_solution(&x);
        task.check(&factors, &x, outcome)?;
        problem.say_more::<T>(&settings.own.generated.name(kind))?;
        written
    }
}

/// What is to be solved, and how.
struct Asked {
    /// Rows and columns of A.
    shape: (usize, usize),
    /// How many right-hand sides there are.
    nrhs: usize,
    /// Whether A says that it is its own adjoint.
    hermitian: bool,
    /// What is tried first.
    method: Method,
    /// The order of a tile.
    nb: usize,
}

impl Asked {
    /// As the settings and the headers of the files say.
    fn of<T: Scalar>(
        settings: &Settings<Own>,
        file: Option<&File>,
        sides: Option<&File>,
    ) -> Result<Self, Failure> {
        let own = &settings.own;
        let (m, n) = match file {
            Some(file) => (file.header().rows, file.header().cols),
            None => {
                let n = settings.n.unwrap_or(4000);
                (settings.m.unwrap_or(n), n)
            }
        };
        let nrhs = columns(sides, m)?;
        let hermitian = match file {
            Some(file) => is_hermitian(file),
            None => own.generated.is_hermitian(own.kind((m, n))),
        };
        let method = suitable(own.method, (m, n), hermitian)?;
        if method == Method::Mixed && T::Lower::PRECISION == T::PRECISION {
            let text = format!("--method: mixed refines f64 or c64, not {}", T::PRECISION);
            return Err(Failure::refused(text));
        }
        let nb = settings.nb.unwrap_or_else(|| match method {
            Method::Cholesky => cholesky::default_tile_order::<T>(n),
            Method::Mixed if hermitian => cholesky::default_tile_order::<T>(n),
            Method::Lu | Method::Mixed => lu::default_tile_order::<T>(m, n),
            Method::Qr => qr::default_tile_order::<T>(m, n),
        });
        Ok(Asked {
            shape: (m, n),
            nrhs,
            hermitian,
            method,
            nb,
        })
    }

    fn tell<T: Scalar>(&self, outcome: &mut Outcome) {
        let (m, n) = self.shape;
        (outcome.m, outcome.n, outcome.nb) = (Some(m), Some(n), Some(self.nb));
        outcome.precision = Some(T::PRECISION.to_string());
        outcome.set("nrhs", self.nrhs);
    }

    /// How all of A is cut, how what the method takes of it, and how the right-hand sides.
    fn layouts(&self, settings: &Settings<Own>, runtime: &Runtime) -> Result<[Layout; 3], Failure> {
        let ((m, n), nb) = (self.shape, self.nb);
        let general = |rows, cols| over_ranks(Layout::general(rows, cols, nb)?, settings, runtime);
        let (whole, of_sides) = (general(m, n)?, general(m, self.nrhs)?);
        let of_a = self.method.layout(self.hermitian, (m, n), nb)?;
        Ok([whole, over_ranks(of_a, settings, runtime)?, of_sides])
    }
}

/// The right-hand sides of a file, or ones.
fn right_hand_sides<T: Scalar>(
    sides: Option<File>,
    layout: Layout,
    runtime: &Runtime,
) -> Result<TiledMatrix<T>, Failure> {
    let b = TiledMatrix::vacant(layout, runtime.memory());
    match sides {
        Some(file) => b.fill(&Matrix::<T>::read(file, layout, 3, runtime)?, runtime)?,
        None => b.fill(&|_: usize, _: usize| T::one(), runtime)?,
    };
    b.scan(runtime).map_err(LinalgError::in_right_hand_sides)?;
    Ok(b)
}

/// Only what is run has a solution to be written.
fn expect_a_solution(settings: &Settings<Own>) -> Result<(), Failure> {
    let instead = match (settings.plan, settings.simulate) {
        (false, None) => return Ok(()),
        (true, _) => "--plan",
        (false, Some(_)) => "--simulate",
    };
    match settings.own.output {
        None => Ok(()),
        Some(_) => Err(Failure::refused(format!(
            "--output: with {instead} there is no solution"
        ))),
    }
}

/// Whether only a simulation was asked for: of the factorisation and the solution as one graph, by the method
/// that would be tried first.
fn is_simulated<T: Scalar>(
    problem: &mut Problem<'_, Own>,
    method: Method,
    layouts: [Layout; 2],
) -> Result<bool, Failure> {
    let (settings, backend) = (problem.settings, problem.backend);
    if settings.simulate.is_none() {
        return Ok(false);
    }
    problem.outcome.set("method", method.name());
    if method == Method::Lu {
        problem.outcome.say(SWAPS);
    }
    is_simulated_only(settings, problem.outcome, move |simulator| {
        method.simulated::<T>(layouts, backend, simulator)
    })
}

/// Notes what each rank needs, if that is what was asked for; otherwise refuses a run by a method for
/// which there is no room. That is the solution, then the check.
fn is_planned<T: Scalar>(
    problem: &mut Problem<'_, Own>,
    method: Method,
    layouts: [Layout; 2],
) -> Result<bool, Failure> {
    let (settings, workers) = (problem.settings, problem.runtime.n_threads());
    let needs = |[a, b]: [Layout; 2]| {
        let run = method.needs::<T>([&a, &b], workers)?;
        let whole = Layout::general(a.rows(), a.cols(), a.nb())?;
        let whole = whole.distributed(*a.distribution(), a.rank())?;
        let check = || {
            let check = match a.rows() == a.cols() {
                true => needs::error_bounds::<T>([&whole, &b], workers),
                false => needs::solution_ratio::<T>([&whole, &b], workers)?,
            };
            Ok(check.and(method.left::<T>(&a, workers)))
        };
        // B is kept, too.
        let beside = needs::matrix::<T>(&b);
        Ok(then_checked::<T, _>(settings, &whole, run, check)?.and(beside))
    };
    problem.is_plan_only::<T, _>(layouts, needs)
}

/// Notes by what the solution was found.
fn tell_method(method: Method, refinement: Option<&Refinement>, outcome: &mut Outcome) {
    let (mut corrections, mut fell_back) = (None, None);
    match refinement {
        Some(Refinement::Refined { corrections: n }) => corrections = Some(*n),
        Some(Refinement::FellBack(cause)) => fell_back = Some(cause.name()),
        _ => {}
    }
    outcome.set("method", method.name());
    outcome.set("corrections", corrections);
    outcome.set("fell_back", fell_back);
    outcome.say(match refinement {
        Some(happened) => format!("method {}: {happened}", method.name()),
        None => format!("method {}", method.name()),
    });
}

/// Notes the condition and the bounds of the forward and the backward error.
fn tell_trust(known: Option<[f64; 3]>, outcome: &mut Outcome) {
    let keys = ["condition", "forward_error_bound", "backward_error"];
    for (key, number) in keys.into_iter().zip(0..) {
        outcome.set(key, known.map(|numbers| numbers[number]));
    }
    if let Some([condition, forward, backward]) = known {
        outcome.say(format!(
            "condition {condition:.3e}, estimated in the 1-norm"
        ));
        outcome.say(format!(
            "error of X below {forward:.1e} (estimated), backward error {backward:.1e} componentwise"
        ));
    }
}

/// How many right-hand sides there are, each of `m` rows.
fn columns(sides: Option<&File>, m: usize) -> Result<usize, Failure> {
    let Some(header) = sides.map(|file| *file.header()) else {
        return Ok(1);
    };
    if header.rows != m {
        let text = format!(
            "right-hand sides are {} x {} (must have {m} rows, as the matrix has)",
            header.rows, header.cols
        );
        return Err(Failure::new("wrong_shape", text));
    }
    Ok(header.cols)
}

/// The method that was asked for, if it can be taken; else the one to try first.
fn suitable(
    asked: Option<Method>,
    (m, n): (usize, usize),
    hermitian: bool,
) -> Result<Method, Failure> {
    match asked {
        Some(method) if m == n || method == Method::Qr => Ok(method),
        Some(method) => {
            let name = method.name();
            let text = format!("matrix is {m} x {n} (for {name} it must be square; take qr)");
            Err(Failure::new("wrong_shape", text))
        }
        None if m != n => Ok(Method::Qr),
        None if hermitian => Ok(Method::Cholesky),
        None => Ok(Method::Lu),
    }
}

/// What mixed precision factors by; other methods are what they are.
fn decomposition(method: Method, hermitian: bool) -> Method {
    match method {
        Method::Mixed if hermitian => Method::Cholesky,
        Method::Mixed => Method::Lu,
        _ => method,
    }
}

/// LAPACK's count, whatever was computed.
fn operations<T: Scalar>(method: Method, (m, n): (usize, usize), nrhs: usize) -> f64 {
    let operations = match method {
        Method::Cholesky => flops::potrf::<T>(n).saturating_add(flops::potrs::<T>(n, nrhs)),
        Method::Lu | Method::Mixed => {
            flops::getrf::<T>(m, n).saturating_add(flops::getrs::<T>(n, nrhs))
        }
        Method::Qr => flops::gels::<T>(m, n, nrhs),
    };
    operations as f64
}

/// What all methods start from.
struct Task<'a, T: Scalar> {
    settings: &'a Settings<Own>,
    runtime: &'a Runtime,
    backend: Backend,
    /// Rows and columns of A.
    shape: (usize, usize),
    /// Whether A is taken for its own adjoint.
    hermitian: bool,
    original: &'a Matrix<T>,
    b: &'a TiledMatrix<T>,
}

/// The factors, and X.
type Found<T> = (Factors<T>, TiledMatrix<T>);

/// What it cost, the factors, and X.
type Solved<T> = (Measured, Factors<T>, TiledMatrix<T>);

impl<'a, T: Scalar> Task<'a, T> {
    /// The problem with its data.
    fn of(
        asked: &Asked,
        problem: &Problem<'a, Own>,
        (original, b): (&'a Matrix<T>, &'a TiledMatrix<T>),
    ) -> Self {
        Task {
            settings: problem.settings,
            runtime: problem.runtime,
            backend: problem.backend,
            shape: asked.shape,
            hermitian: asked.hermitian,
            original,
            b,
        }
    }

    fn by<'m>(&'m self, monitor: &'m Monitor) -> By<'m> {
        By {
            runtime: self.runtime,
            backend: self.backend,
            monitor,
        }
    }

    /// The right-hand sides once more.
    fn sides(&self) -> Result<TiledMatrix<T>, Failure> {
        let b = TiledMatrix::vacant(*self.b.layout(), self.runtime.memory());
        b.fill(self.b, self.runtime)?;
        Ok(b)
    }

    /// How A is cut.
    fn layout(&self, method: Method) -> Result<Layout, Failure> {
        let (m, n) = self.shape;
        let layout = method.layout(self.hermitian, (m, n), self.b.nb())?;
        over_ranks(layout, self.settings, self.runtime)
    }

    /// Solves as often as was asked for, and notes the time; answers the method that it came to, and the
    /// last solution. A matrix that only looked definite is solved by LU.
    fn solved_again_and_again(
        &mut self,
        asked: Method,
        problem: &mut Problem<'_, Own>,
    ) -> Result<(Method, Option<Found<T>>), Failure> {
        let (mut method, mut runs, mut last) = (asked, Vec::new(), None);
        while runs.len() < self.settings.repeat {
            drop(last.take());
            if let Some((measured, factors, x)) = self.solved(method)? {
                runs.push(measured);
                last = Some((factors, x));
                continue;
            }
            match method {
                Method::Mixed => self.hermitian = false,
                _ => method = Method::Lu,
            }
            let layouts = [self.layout(method)?, *self.b.layout()];
            is_planned::<T>(problem, method, layouts)?;
        }
        problem.outcome.measured = Measured::median(runs);
        Ok((method, last))
    }

    /// The factors and the solution; `None` if Cholesky was only tried, or tried first in mixed
    /// precision, and the matrix is not definite.
    fn solved(&self, method: Method) -> Result<Option<Solved<T>>, Failure> {
        let layout = self.layout(method)?;
        let factors = Factors::begin(method, layout, self.original, self.runtime)?;
        let (b, mut solution, mut indefinite) = (self.sides()?, None, false);
        let run = |monitor: &Monitor| -> Result<_, Failure> {
            let solved = factors.factor_and_solve(b, self.by(monitor));
            let (x, report) = solved.inspect_err(|error| {
                indefinite = matches!(error, LinalgError::NotPositiveDefinite { .. });
            })?;
            solution = Some(x);
            Ok(report)
        };
        let measured = self.settings.measure(self.runtime, run);
        let is_tried = self.settings.own.method.is_none() || method == Method::Mixed;
        if indefinite && is_tried {
            return Ok(None);
        }
        let measured = measured?;
        Ok(solution.map(|x| (measured, factors, x)))
    }

    /// The determinant of a square matrix.
    fn tell_determinant(&self, factors: &Factors<T>, outcome: &mut Outcome) -> Result<(), Failure> {
        let (m, n) = self.shape;
        let (mut log_det, mut phase) = (None, None);
        if m == n
            && let Some(determinant) = factors.determinant(self.runtime)?
        {
            log_det = Some(determinant.log_abs);
            outcome.say(format!("log |det A| {:.12e}", determinant.log_abs));
            if !matches!(factors, Factors::Qr(..)) {
                phase = Some(vec![determinant.phase.re, determinant.phase.im]);
            }
        }
        outcome.set("log_det", log_det);
        outcome.set("det_phase", phase);
        Ok(())
    }

    /// The residual; of a square matrix the condition and the bounds of the errors.
    fn check(
        &self,
        factors: &Factors<T>,
        x: &TiledMatrix<T>,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let ((m, n), runtime) = (self.shape, self.runtime);
        if !is_checked(self.settings, m.max(n)) {
            tell_trust(None, outcome);
            return Ok(());
        }
        let whole = self.layout(Method::Lu)?;
        let a = TiledMatrix::vacant(whole, runtime.memory());
        a.fill(self.original, runtime)?;
        let b = self.sides()?;
        if m != n {
            tell_trust(None, outcome);
            let ratio = qr::solution_ratio(&a, &b, x, runtime)?;
            return judge(Some(ratio), outcome);
        }
        let norm = norm(&a, Norm::One, runtime)?;
        let condition = match n {
            0 => 1.0,
            _ => self.condition(factors, norm)?,
        };
        let [forward, backward] = self.bounds(&a, factors, (&b, x))?;
        tell_trust(Some([condition, forward, backward]), outcome);
        let residual = residual(Operand::plain(&a), Operand::plain(x), &b, runtime)?;
        judge(Some(residual.over(n)), outcome)
    }

    /// The largest bounds of the forward and the backward error of all columns.
    fn bounds(
        &self,
        a: &TiledMatrix<T>,
        factors: &Factors<T>,
        (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    ) -> Result<[f64; 2], Failure> {
        let (runtime, monitor) = (self.runtime, Monitor::new());
        let mut solve = |op: Op, b: &TiledMatrix<T>| {
            let side = TiledMatrix::vacant(*b.layout(), runtime.memory());
            side.fill(b, runtime).map_err(LinalgError::Run)?;
            let (solution, _) = factors.solve(op, side, self.by(&monitor))?;
            transfer(&solution, Turn::Plain, b, runtime)
        };
        let columns = bounds(a, (b, x), self.backend, runtime, &mut solve)?;
        // A NaN is larger than any number.
        let largest = |of: &dyn Fn(usize) -> f64| {
            let numbers = (0..columns.len()).map(of);
            numbers.fold(0.0, |a: f64, b| if a >= b || a.is_nan() { a } else { b })
        };
        let forward = largest(&|column| columns[column].forward);
        Ok([forward, largest(&|column| columns[column].backward)])
    }

    /// The condition of A, whose 1-norm is `norm`, estimated.
    fn condition(&self, factors: &Factors<T>, norm: f64) -> Result<f64, Failure> {
        let runtime = self.runtime;
        let column = Layout::general(self.b.rows(), 1, self.b.nb())?;
        let column = over_ranks(column, self.settings, runtime)?;
        condition_number(
            self.b.rows(),
            norm,
            |op: Op, x: &mut [T]| -> Result<(), Failure> {
                let b = TiledMatrix::vacant(column, runtime.memory());
                b.fill(&|row: usize, _: usize| x[row], runtime)?;
                let monitor = Monitor::new();
                let (solution, _) = factors.solve(op, b, self.by(&monitor))?;
                let piece = |i| Some(solution.tile(i, 0)?.as_slice().to_vec());
                x.copy_from_slice(&gathered(&column, |i| (i, 0), runtime, piece)?);
                Ok(())
            },
        )
    }

    /// Writes X where it was asked for, all of it from rank 0.
    fn write_solution(&self, x: &TiledMatrix<T>) -> Result<(), Failure> {
        let Some(path) = &self.settings.own.output else {
            return Ok(());
        };
        let one_tile = Layout::general(x.rows(), x.cols(), x.rows().max(x.cols()).max(1))?;
        let one_tile = over_ranks(one_tile, self.settings, self.runtime)?;
        let whole = TiledMatrix::vacant(one_tile, self.runtime.memory());
        whole.fill(&|_: usize, _: usize| T::zero(), self.runtime)?;
        transfer(x, Turn::Plain, &whole, self.runtime)?;
        if self.runtime.rank() != Rank(0) {
            return Ok(());
        }
        let written = replace(path, |file| {
            write(file, &whole, Storage::Array, Symmetry::General).map_err(std::io::Error::other)
        });
        written.map_err(|error| Failure::output_unwritable(path, error))
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
