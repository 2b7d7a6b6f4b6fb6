//! What is asked for: of which matrices, by which method, cut how; and answers that need no run.

use super::Own;
use super::factors::Method;
use common::cli::simulated::{SWAPS, is_simulated_only};
use common::cli::{Failure, Outcome, Settings};
use common::problem::{File, Kind, Matrix, Problem, is_hermitian, over_ranks, then_checked};
use dataflow::Runtime;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::{LinalgError, cholesky, flops, lu, needs, qr};

/// What is to be solved, and how.
pub struct Asked {
    /// Rows and columns of A.
    pub shape: (usize, usize),
    /// How many right-hand sides there are.
    pub nrhs: usize,
    /// Whether A says that it is its own adjoint.
    pub hermitian: bool,
    /// What is tried first.
    pub method: Method,
    /// What the matrix is called.
    pub name: String,
    /// The matrix that is made if none is read.
    kind: Kind,
    /// The order of a tile.
    nb: usize,
}

/// How matrices are cut into tiles and spread over ranks.
#[derive(Clone, Copy)]
pub struct Cut {
    /// All of A.
    pub whole: Layout,
    /// What the method takes of A.
    of_a: Layout,
    /// The right-hand sides.
    pub sides: Layout,
}

impl Asked {
    /// As the settings and the headers of the files say.
    pub fn of<T: Scalar>(
        problem: &Problem<'_, Own>,
        sides: Option<&File>,
    ) -> Result<Self, Failure> {
        let (settings, file) = (problem.settings, problem.file.as_ref());
        expect_a_solution(settings)?;
        let own = &settings.own;
        let (m, n) = match file {
            Some(file) => (file.header().rows, file.header().cols),
            None => {
                let n = settings.n.unwrap_or(4000);
                (settings.m.unwrap_or(n), n)
            }
        };
        let of_sides = |failure: Failure| match &own.rhs {
            Some(path) => failure.about(path),
            None => failure,
        };
        let nrhs = columns(sides, m).map_err(of_sides)?;
        let kind = own.kind((m, n));
        let hermitian = match file {
            Some(file) => is_hermitian(file),
            None => own.generated.is_hermitian(kind),
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
            name: own.generated.name(kind),
            kind,
            nb,
        })
    }

    /// Notes what is solved.
    pub fn tell<T: Scalar>(&self, outcome: &mut Outcome) {
        let (m, n) = self.shape;
        (outcome.m, outcome.n, outcome.nb) = (Some(m), Some(n), Some(self.nb));
        outcome.precision = Some(T::PRECISION.to_string());
        outcome.set("nrhs", self.nrhs);
    }

    /// How A and the right-hand sides are cut.
    pub fn cut(&self, problem: &Problem<'_, Own>) -> Result<Cut, Failure> {
        let ((m, n), nb) = (self.shape, self.nb);
        let spread = |layout| over_ranks(layout, problem.settings, problem.runtime);
        let general = |rows, cols| spread(Layout::general(rows, cols, nb)?);
        let (whole, sides) = (general(m, n)?, general(m, self.nrhs)?);
        let of_a = spread(self.method.layout(self.hermitian, (m, n), nb)?)?;
        Ok(Cut { whole, of_a, sides })
    }

    /// Whether a simulation or a plan was all that was asked for, which this makes; otherwise refuses what
    /// there is no room for.
    pub fn is_answered_without_a_run<T: Scalar>(
        &self,
        cut: Cut,
        problem: &mut Problem<'_, Own>,
    ) -> Result<bool, Failure> {
        problem.outcome.flops = Some(self.operations::<T>(self.method, self.hermitian));
        let layouts = [cut.of_a, cut.sides];
        Ok(is_simulated::<T>(problem, self.method, layouts)?
            || is_planned::<T>(problem, self.method, layouts)?)
    }

    /// LAPACK's count of operations by a method, whatever was computed, if A is taken for its own adjoint or is
    /// not.
    pub fn operations<T: Scalar>(&self, method: Method, hermitian: bool) -> f64 {
        let ((m, n), nrhs) = (self.shape, self.nrhs);
        let by_cholesky = || flops::potrf::<T>(n).saturating_add(flops::potrs::<T>(n, nrhs));
        let operations = match method {
            Method::Cholesky => by_cholesky(),
            Method::Mixed if hermitian => by_cholesky(),
            Method::Lu | Method::Mixed => {
                flops::getrf::<T>(m, n).saturating_add(flops::getrs::<T>(n, nrhs))
            }
            Method::Qr => flops::gels::<T>(m, n, nrhs),
        };
        operations as f64
    }

    /// All of A; it is kept beside its factors, and once more for the check.
    pub fn matrix<T: Scalar>(
        &self,
        whole: Layout,
        problem: &mut Problem<'_, Own>,
    ) -> Result<Matrix<T>, Failure> {
        let generated = &problem.settings.own.generated;
        problem.original::<T>(whole, 3, (generated, self.kind))
    }
}

/// The right-hand sides of a file, or ones.
pub fn right_hand_sides<T: Scalar>(
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
pub fn is_planned<T: Scalar>(
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
