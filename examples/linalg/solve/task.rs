//! The runs: factors and solution, as often as was asked for, and the solution as a file.

use super::Own;
use super::asked::{Asked, is_planned};
use super::factors::{By, Factors, Method};
use common::cli::{Failure, Measured, Outcome, Settings};
use common::problem::{Matrix, Problem, digest, over_ranks};
use dataflow::core::rank::Rank;
use dataflow::linalg::LinalgError;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::market::{Storage, Symmetry, write};
use dataflow::linalg::matrix::transfer::{Turn, transfer};
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::refine::Refinement;
use dataflow::linalg::scalar::Scalar;
use dataflow::trace::replace;
use dataflow::{Monitor, Runtime};

/// What all methods start from.
pub struct Task<'a, T: Scalar> {
    pub settings: &'a Settings<Own>,
    pub runtime: &'a Runtime,
    pub backend: Backend,
    asked: &'a Asked,
    /// Whether A is taken for its own adjoint.
    hermitian: bool,
    pub original: &'a Matrix<T>,
    pub b: &'a TiledMatrix<T>,
}

/// The solution, and by what it was found.
pub struct Solution<T: Scalar> {
    method: Method,
    pub factors: Factors<T>,
    pub x: TiledMatrix<T>,
}

impl<'a, T: Scalar> Task<'a, T> {
    /// The problem with its data.
    pub fn of(
        asked: &'a Asked,
        problem: &Problem<'a, Own>,
        (original, b): (&'a Matrix<T>, &'a TiledMatrix<T>),
    ) -> Self {
        Task {
            settings: problem.settings,
            runtime: problem.runtime,
            backend: problem.backend,
            asked,
            hermitian: asked.hermitian,
            original,
            b,
        }
    }

    /// Rows and columns of A.
    pub fn shape(&self) -> (usize, usize) {
        self.asked.shape
    }

    /// What graphs run on.
    pub fn by<'m>(&'m self, monitor: &'m Monitor) -> By<'m> {
        By {
            runtime: self.runtime,
            backend: self.backend,
            monitor,
        }
    }

    /// The right-hand sides once more.
    pub fn sides(&self) -> Result<TiledMatrix<T>, Failure> {
        let b = TiledMatrix::vacant(*self.b.layout(), self.runtime.memory());
        b.fill(self.b, self.runtime)?;
        Ok(b)
    }

    /// How A is cut for a method.
    pub fn layout(&self, method: Method) -> Result<Layout, Failure> {
        let layout = method.layout(self.hermitian, self.shape(), self.b.nb())?;
        over_ranks(layout, self.settings, self.runtime)
    }

    /// Solves as often as was asked for, and notes the time and the operations of the method that it came to;
    /// answers the last solution. A matrix that only looked definite is solved by LU.
    pub fn solved_again_and_again(
        &mut self,
        asked: Method,
        problem: &mut Problem<'_, Own>,
    ) -> Result<Option<Solution<T>>, Failure> {
        let (mut method, mut runs, mut last) = (asked, Vec::new(), None);
        while runs.len() < self.settings.repeat {
            drop(last.take());
            if let Some((measured, solution)) = self.solved(method)? {
                runs.push(measured);
                last = Some(solution);
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
        problem.outcome.flops = Some(self.asked.operations::<T>(method, self.hermitian));
        Ok(last)
    }

    /// The solution, and what it cost; `None` if Cholesky was only tried, or tried first in mixed
    /// precision, and the matrix is not definite.
    fn solved(&self, method: Method) -> Result<Option<(Measured, Solution<T>)>, Failure> {
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
        let solved = |x| Solution { method, factors, x };
        Ok(solution.map(|x| (measured, solved(x))))
    }

    /// Notes by what the solution was found, and its digest.
    pub fn tell(&self, solution: &Solution<T>, outcome: &mut Outcome) -> Result<(), Failure> {
        let Solution { method, factors, x } = solution;
        tell_method(*method, factors.outcome(), outcome);
        outcome.digest = Some(digest(x, self.runtime)?.to_string());
        Ok(())
    }

    /// Writes X where it was asked for, all of it from rank 0.
    pub fn write(&self, x: &TiledMatrix<T>) -> Result<(), Failure> {
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
