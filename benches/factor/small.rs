//! The newcomer's calls on a small array, beside faer's on one thread.
//!
//! # Law
//! Each reads the arrays, leaves them as they were and makes its answer anew, with memory of its own;
//! both in turn, batches of calls. A round is the least of its batches.

use super::race::{Outcome, machine, quartiles, seconds};
use dataflow::linalg::matrix::Entries;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::{Dense, LuFactor};
use faer::linalg::solvers::{PartialPivLu, Solve};
use faer::{MatRef, Par, Side};
use ndarray::{Array1, Array2, ShapeBuilder};
use std::hint::black_box;

/// Batches in a round.
const BATCHES: usize = 5;

/// Microseconds of a call, and how much more ours takes than faer's.
pub fn measure(quick: bool) -> Outcome {
    faer::set_global_parallelism(Par::Seq);
    println!("{}, f64, one thread", machine());
    println!(
        "microseconds a call, median of rounds of the least of {BATCHES} batches ± half the quartile distance"
    );
    println!("call          n  memory order    dataflow     ±      faer     ±   difference     ±");
    let rounds = if quick { 3 } else { 41 };
    for call in ["cholesky", "lu", "qr", "solve", "solve, LU", "kept LU"] {
        for n in [10, 50, 100, 200] {
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
    fn new(call: &str, n: usize, columns: bool) -> Outcome<Self> {
        let (definite, random) = (PositiveDefinite::new(n, 1), Random::new(1));
        let is_definite = ["cholesky", "solve"].contains(&call);
        let a = Array2::from_shape_fn((n, n).set_f(columns), |(i, j)| match is_definite {
            true => definite.entry(i, j),
            false => random.entry(i, j),
        });
        let kept = (a.lu_factor()?, view_of(&a, columns).partial_piv_lu());
        Ok(Arrays {
            a,
            b: Array1::from_shape_fn(n, |i| random.entry(i, n)),
            columns,
            kept,
        })
    }

    /// One number of our answer.
    fn ours(&self, call: &str) -> Outcome<f64> {
        let (a, last) = (&self.a, self.a.nrows() - 1);
        Ok(match call {
            "cholesky" => a.cholesky()?[(last, last)],
            "lu" => a.lu()?.2[(last, last)],
            "qr" => {
                let (q, r) = a.qr()?;
                q[(0, 0)] * r[(0, 0)]
            }
            "kept LU" => self.kept.0.solve(&self.b)?[last],
            _ => a.solve(&self.b)?[last],
        })
    }

    /// The same number of faer's.
    fn theirs(&self, call: &str) -> Outcome<f64> {
        let (a, last) = (view_of(&self.a, self.columns), self.a.nrows() - 1);
        let definite = || {
            let llt = a.llt(Side::Lower);
            llt.map_err(|error| format!("faer: {error:?}"))
        };
        let b = || self.b.as_slice().expect("a vector of its own has no gaps");
        let b = || MatRef::from_column_major_slice(b(), last + 1, 1);
        Ok(match call {
            "cholesky" => definite()?.L()[(last, last)],
            "lu" => a.partial_piv_lu().U()[(last, last)],
            "qr" => {
                let qr = a.qr();
                qr.compute_thin_Q()[(0, 0)] * qr.thin_R()[(0, 0)]
            }
            "solve" => definite()?.solve(b())[(last, 0)],
            "kept LU" => self.kept.1.solve(b())[(last, 0)],
            _ => a.partial_piv_lu().solve(b())[(last, 0)],
        })
    }

    fn race(&self, call: &str, rounds: usize, columns: bool) -> Outcome {
        let n = self.a.nrows();
        let (ours, theirs) = (self.ours(call)?, self.theirs(call)?);
        if (ours - theirs).abs() > 1e-8 * theirs.abs() {
            return Err(format!("{call}, n = {n}: {ours} is not faer's {theirs}").into());
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
        println!(
            "{call:9} {n:5}  {:12}  {:10.2}  {:4.2}  {:8.2}  {:4.2}  {:+11.2}  {:4.2}",
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
    let (n, elements) = (a.nrows(), a.as_slice_memory_order());
    let elements = elements.expect("an array of its own has no gaps");
    match columns {
        true => MatRef::from_column_major_slice(elements, n, n),
        false => MatRef::from_row_major_slice(elements, n, n),
    }
}
