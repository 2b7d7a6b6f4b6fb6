//! How far a solution can be trusted: the determinant, the residual, the condition and bounds of errors.

use super::factors::{Factors, Method, gathered};
use super::task::{Solution, Task};
use common::cli::{Failure, Outcome};
use common::problem::{is_checked, judge, over_ranks};
use dataflow::Monitor;
use dataflow::linalg::LinalgError;
use dataflow::linalg::condition::condition_number;
use dataflow::linalg::kernel::Op;
use dataflow::linalg::matrix::norm::{Norm, norm};
use dataflow::linalg::matrix::transfer::{Turn, transfer};
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::linalg::product::{Operand, residual};
use dataflow::linalg::qr;
use dataflow::linalg::refine::bounds;
use dataflow::linalg::scalar::Scalar;

impl<T: Scalar> Task<'_, T> {
    /// The determinant of a square matrix.
    pub fn tell_determinant(
        &self,
        factors: &Factors<T>,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let (m, n) = self.shape();
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
    pub fn check(&self, solution: &Solution<T>, outcome: &mut Outcome) -> Result<(), Failure> {
        let Solution { factors, x, .. } = solution;
        let ((m, n), runtime) = (self.shape(), self.runtime);
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
