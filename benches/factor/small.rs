//! The newcomer's calls on a small array, beside faer's on one thread.
//!
//! # Law
//! Each reads the arrays, leaves them as they were and makes its answer anew, with memory of its own;
//! both in turn, batches of calls. A round is the least of its batches.

use super::race::{Outcome, machine, quartiles, seconds};
use clap::ValueEnum;
use dataflow::linalg::matrix::Entries;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::{Dense, LuFactor};
use faer::linalg::solvers::{DenseSolveCore, PartialPivLu, Solve, SolveLstsq};
use faer::{MatRef, Par, Side};
use ndarray::{Array1, Array2, ShapeBuilder};
use std::hint::black_box;

/// Batches in a round.
const BATCHES: usize = 5;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Call {
    /// `a.cholesky()`
    Cholesky,
    /// `a.lu()`
    Lu,
    /// `a.qr()`
    Qr,
    /// `a.solve(&b)` of a general matrix, one right-hand side
    Solve,
    /// `a.inverse()` of a general matrix
    Inverse,
    /// `a.least_squares(&b)` with half as many columns as rows
    LeastSquares,
    /// `a.solve(&b)` of a definite matrix
    SolveDefinite,
    /// `a.inverse()` of a definite matrix
    InverseDefinite,
    /// `factor.solve(&b)` with factors that are kept
    KeptLu,
}

impl Call {
    fn is_definite(self) -> bool {
        use Call::{Cholesky, InverseDefinite, SolveDefinite};
        [Cholesky, SolveDefinite, InverseDefinite].contains(&self)
    }

    /// The shape of the matrix that has so many rows.
    fn shape(self, n: usize) -> (usize, usize) {
        match self {
            Call::LeastSquares => (n, n.div_ceil(2)),
            _ => (n, n),
        }
    }
}

/// Microseconds of a call, and how much more ours takes than faer's.
pub fn measure(calls: &[Call], orders: &[usize], quick: bool) -> Outcome {
    faer::set_global_parallelism(Par::Seq);
    println!("{}, f64, one thread", machine());
    println!(
        "microseconds a call, median of rounds of the least of {BATCHES} batches ± half the quartile distance"
    );
    println!(
        "call                n  memory order    dataflow     ±      faer     ±   difference     ±"
    );
    let rounds = if quick { 3 } else { 41 };
    let calls = match calls {
        [] => Call::value_variants(),
        calls => calls,
    };
    for &call in calls {
        for &n in orders {
            for columns in [true, false] {
                let arrays = Arrays::new(call, n, columns)?;
                arrays.race(call, rounds, columns)?;
            }
        }
    }
    Ok(())
}

/// What the calls read.
struct Arrays {
    a: Array2<f64>,
    b: Array1<f64>,
    columns: bool,
    /// Factors of A, for the calls that solve with what is kept.
    kept: (LuFactor<f64>, PartialPivLu<f64>),
}

impl Arrays {
    fn new(call: Call, n: usize, columns: bool) -> Outcome<Self> {
        let (definite, random) = (PositiveDefinite::new(n, 1), Random::new(1));
        let array = |shape: (usize, usize)| {
            Array2::from_shape_fn(shape.set_f(columns), |(i, j)| match call.is_definite() {
                true => definite.entry(i, j),
                false => random.entry(i, j),
            })
        };
        let square = array((n, n));
        let kept = (
            square.lu_factor()?,
            view_of(&square, columns).partial_piv_lu(),
        );
        Ok(Arrays {
            a: array(call.shape(n)),
            b: Array1::from_shape_fn(n, |i| random.entry(i, n)),
            columns,
            kept,
        })
    }

    /// One number of our answer.
    fn ours(&self, call: Call) -> Outcome<f64> {
        let (a, last) = (&self.a, self.a.ncols() - 1);
        Ok(match call {
            Call::Cholesky => a.cholesky()?[(last, last)],
            Call::Lu => a.lu()?.2[(last, last)],
            Call::Qr => {
                let (q, r) = a.qr()?;
                q[(0, 0)] * r[(0, 0)]
            }
            Call::Solve | Call::SolveDefinite => a.solve(&self.b)?[last],
            Call::Inverse | Call::InverseDefinite => a.inverse()?[(last, 0)],
            Call::LeastSquares => a.least_squares(&self.b)?[last],
            Call::KeptLu => self.kept.0.solve(&self.b)?[last],
        })
    }

    /// The same number of faer's.
    fn theirs(&self, call: Call) -> Outcome<f64> {
        let (a, last) = (view_of(&self.a, self.columns), self.a.ncols() - 1);
        let definite = || {
            let llt = a.llt(Side::Lower);
            llt.map_err(|error| format!("faer: {error:?}"))
        };
        let b = || {
            let b = self.b.as_slice();
            let b = b.expect("a vector of its own has no gaps");
            MatRef::from_column_major_slice(b, b.len(), 1)
        };
        Ok(match call {
            Call::Cholesky => definite()?.L()[(last, last)],
            Call::Lu => a.partial_piv_lu().U()[(last, last)],
            Call::Qr => {
                let qr = a.qr();
                qr.compute_thin_Q()[(0, 0)] * qr.thin_R()[(0, 0)]
            }
            Call::Solve => a.partial_piv_lu().solve(b())[(last, 0)],
            Call::SolveDefinite => definite()?.solve(b())[(last, 0)],
            Call::Inverse => a.partial_piv_lu().inverse()[(last, 0)],
            Call::InverseDefinite => definite()?.inverse()[(last, 0)],
            Call::LeastSquares => a.qr().solve_lstsq(b())[(last, 0)],
            Call::KeptLu => self.kept.1.solve(b())[(last, 0)],
        })
    }

    fn race(&self, call: Call, rounds: usize, columns: bool) -> Outcome {
        let n = self.a.nrows();
        let (ours, theirs) = (self.ours(call)?, self.theirs(call)?);
        if (ours - theirs).abs() > 1e-8 * theirs.abs() {
            return Err(format!("{call:?}, n = {n}: {ours} is not faer's {theirs}").into());
        }
        // About half a millisecond a batch.
        let calls = 1 + 100_000 / (n * n + 100);
        let batch = |who: usize| {
            let call = || match who {
                0 => self.ours(call).is_ok(),
                _ => self.theirs(call).is_ok(),
            };
            let (time, ()) = seconds(|| (0..calls).for_each(|_| assert!(black_box(call()))));
            1e6 * time / calls as f64
        };
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            let mut least = [f64::INFINITY; 2];
            for turn in 0..BATCHES {
                for who in [turn % 2, 1 - turn % 2] {
                    least[who] = least[who].min(batch(who));
                }
            }
            (0..2).for_each(|who| times[who].push(least[who]));
        }
        let differences = times[0].iter().zip(&times[1]);
        let more: Vec<f64> = differences.map(|(ours, faer)| ours - faer).collect();
        let [ours, faer, more] = [&times[0], &times[1], &more].map(|times| quartiles(times));
        let name = call.to_possible_value();
        println!(
            "{:16} {n:4}  {:12}  {:10.2}  {:4.2}  {:8.2}  {:4.2}  {:+11.2}  {:4.2}",
            name.as_ref().map_or("", |name| name.get_name()),
            if columns { "column-major" } else { "row-major" },
            ours.0,
            ours.1,
            faer.0,
            faer.1,
            more.0,
            more.1
        );
        Ok(())
    }
}

/// An array as faer sees it.
fn view_of(a: &Array2<f64>, columns: bool) -> MatRef<'_, f64> {
    let ((m, n), elements) = (a.dim(), a.as_slice_memory_order());
    let elements = elements.expect("an array of its own has no gaps");
    match columns {
        true => MatRef::from_column_major_slice(elements, m, n),
        false => MatRef::from_row_major_slice(elements, m, n),
    }
}
