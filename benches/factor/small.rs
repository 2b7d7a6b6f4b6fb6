//! The newcomer's calls on a small array, beside faer's and OpenBLAS's on one thread.
//!
//! # Law
//! Each reads the arrays, leaves them as they were and makes its answer anew, with memory of its own;
//! all in turn, batches of calls. A round is the least of its batches. OpenBLAS's routines are called as
//! LAPACK has them on a column-major copy, and their answers put into as many arrays as ours.

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

/// Who answers a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Ours,
    Faer,
    #[cfg(feature = "openblas")]
    OpenBlas,
}

const ALL: &[Who] = &[
    Who::Ours,
    Who::Faer,
    #[cfg(feature = "openblas")]
    Who::OpenBlas,
];

/// Microseconds of a call, and how much more ours takes than the fastest of the others.
pub fn measure(calls: &[Call], orders: &[usize], rounds: u32) -> Outcome {
    faer::set_global_parallelism(Par::Seq);
    println!("{}, f64, one thread", machine());
    println!(
        "microseconds a call, median of rounds of the least of {BATCHES} batches ± half the quartile distance;"
    );
    println!("the difference is that to the fastest peer of each round");
    let peers = ["dataflow", "faer", "OpenBLAS"];
    let names = peers.map(|name| format!("{name:>10}     ±"));
    println!(
        "call                n  memory order  {}   difference     ±",
        names[..ALL.len()].concat()
    );
    let calls = match calls {
        [] => Call::value_variants(),
        calls => calls,
    };
    let mut behind = 0;
    for &call in calls {
        for &n in orders {
            for columns in [true, false] {
                let arrays = Arrays::new(call, n, columns)?;
                behind += usize::from(!arrays.race(call, rounds, columns)?);
            }
        }
    }
    println!("{behind} rows are more than 2 µs and more than 5 % behind the fastest peer");
    Ok(())
}

/// What the calls read.
struct Arrays {
    a: Array2<f64>,
    b: Array1<f64>,
    columns: bool,
    /// Factors of A, for the calls that solve with what is kept.
    kept: (LuFactor<f64>, PartialPivLu<f64>),
    #[cfg(feature = "openblas")]
    kept_openblas: (Vec<f64>, Vec<i32>),
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
        #[cfg(feature = "openblas")]
        let kept_openblas = {
            let (mut lu, mut pivots) = (square.t().iter().copied().collect::<Vec<_>>(), vec![0; n]);
            dataflow::linalg::kernel::openblas::getrf((n, n), &mut lu, n, &mut pivots);
            (lu, pivots)
        };
        Ok(Arrays {
            a: array(call.shape(n)),
            b: Array1::from_shape_fn(n, |i| random.entry(i, n)),
            columns,
            kept,
            #[cfg(feature = "openblas")]
            kept_openblas,
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

    /// The same number of OpenBLAS's: what a caller of LAPACK copies, calls, and does for the same arrays.
    #[cfg(feature = "openblas")]
    fn of_openblas(&self, call: Call) -> Outcome<f64> {
        use dataflow::linalg::kernel::openblas;
        let ((m, n), last) = (self.a.dim(), self.a.ncols() - 1);
        let mut a = match self.columns {
            true => self.a.as_slice_memory_order().unwrap_or_default().to_vec(),
            false => self.a.t().iter().copied().collect(),
        };
        let (mut b, mut pivots) = (self.b.to_vec(), vec![0; n]);
        let corner = n * n - 1;
        let (info, answer) = match call {
            Call::Cholesky => {
                let info = openblas::potrf(n, &mut a, n);
                (0..n).for_each(|j| a[j * n..][..j].fill(0.0));
                (info, a[corner])
            }
            Call::Lu => {
                let info = openblas::getrf((n, n), &mut a, n, &mut pivots);
                let u = upper(&a, n);
                for (j, column) in a.chunks_exact_mut(n).enumerate() {
                    column[..j].fill(0.0);
                    column[j] = 1.0;
                }
                (info, a[corner] * u[corner])
            }
            Call::Qr => {
                let mut factors = vec![0.0; n];
                openblas::geqrf((n, n), &mut a, n, &mut factors);
                let r = upper(&a, n);
                let info = openblas::orgqr((n, n), &mut a, n, &factors);
                (info, a[0] * r[0])
            }
            Call::Solve => {
                openblas::getrf((n, n), &mut a, n, &mut pivots);
                (openblas::getrs(n, &a, &pivots, 1, &mut b), b[last])
            }
            Call::SolveDefinite => {
                openblas::potrf(n, &mut a, n);
                (openblas::potrs(n, &a, 1, &mut b), b[last])
            }
            Call::Inverse => {
                openblas::getrf((n, n), &mut a, n, &mut pivots);
                (openblas::getri(n, &mut a, &pivots), a[last])
            }
            Call::InverseDefinite => {
                openblas::potrf(n, &mut a, n);
                let info = openblas::potri(n, &mut a, n);
                for j in 0..n {
                    (j + 1..n).for_each(|i| a[i * n + j] = a[j * n + i]);
                }
                (info, a[last])
            }
            Call::LeastSquares => (openblas::gels((m, n), &mut a, 1, &mut b), b[last]),
            Call::KeptLu => {
                let (lu, pivots) = &self.kept_openblas;
                (openblas::getrs(n, lu, pivots, 1, &mut b), b[last])
            }
        };
        match info {
            0 => Ok(answer),
            info => Err(format!("OpenBLAS: INFO = {info}").into()),
        }
    }

    fn answer(&self, who: Who, call: Call) -> Outcome<f64> {
        match who {
            Who::Ours => self.ours(call),
            Who::Faer => self.theirs(call),
            #[cfg(feature = "openblas")]
            Who::OpenBlas => self.of_openblas(call),
        }
    }

    /// Fails if a peer's answer is another.
    fn agree(&self, call: Call) -> Outcome {
        let (n, ours) = (self.a.nrows(), self.ours(call)?);
        for &who in ALL {
            let theirs = self.answer(who, call)?;
            let is_near = (ours - theirs).abs() <= 1e-8 * theirs.abs();
            // What is not a number is near nothing.
            if !is_near {
                return Err(format!("{call:?}, n = {n}: {ours} is not a peer's {theirs}").into());
            }
        }
        Ok(())
    }

    /// Whether ours is within 2 µs or 5 % of the fastest.
    fn race(&self, call: Call, rounds: u32, columns: bool) -> Outcome<bool> {
        self.agree(call)?;
        let n = self.a.nrows();
        // About half a millisecond a batch.
        let calls = 1 + 100_000 / (n * n + 100);
        let batch = |who: Who| {
            let (time, ()) = seconds(|| {
                (0..calls).for_each(|_| assert!(black_box(self.answer(who, call)).is_ok()));
            });
            1e6 * time / calls as f64
        };
        let (mut times, mut more) = (vec![Vec::new(); ALL.len()], Vec::new());
        for _ in 0..rounds {
            let mut least = vec![f64::INFINITY; ALL.len()];
            for turn in 0..BATCHES {
                for place in 0..ALL.len() {
                    let who = (turn + place) % ALL.len();
                    least[who] = least[who].min(batch(ALL[who]));
                }
            }
            let fastest = least[1..].iter().copied().fold(f64::INFINITY, f64::min);
            more.push(least[0] - fastest);
            times
                .iter_mut()
                .zip(least)
                .for_each(|(times, least)| times.push(least));
        }
        let each = times.iter().map(|times| quartiles(times));
        let columns_of = each.map(|(time, spread)| format!("{time:10.2}  {spread:4.2}"));
        let (difference, spread) = quartiles(&more);
        let name = call.to_possible_value();
        println!(
            "{:16} {n:4}  {:12}  {}  {difference:+11.2}  {spread:4.2}",
            name.as_ref().map_or("", |name| name.get_name()),
            if columns { "column-major" } else { "row-major" },
            columns_of.collect::<String>(),
        );
        let (ours, _) = quartiles(&times[0]);
        Ok(difference <= 2.0 || difference <= 0.05 * (ours - difference))
    }
}

/// The upper triangle, with its zeros.
#[cfg(feature = "openblas")]
fn upper(a: &[f64], n: usize) -> Vec<f64> {
    let mut upper = vec![0.0; n * n];
    for j in 0..n {
        upper[j * n..][..=j].copy_from_slice(&a[j * n..][..=j]);
    }
    upper
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
