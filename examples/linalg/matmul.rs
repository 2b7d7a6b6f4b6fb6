//! The product C = A·B of generated matrices, by tiles.
//!
//! Generation, the check and the digest run as tasks too, but only the product itself is timed.
//! With `--integers` the product is exact, and its trace, sum and sum of squares are told.

#[path = "matmul/steps.rs"]
mod steps;
#[path = "matmul/variants.rs"]
mod variants;

use clap::{Args, ValueEnum};
use common::cli::settings::{Precision, Variant};
use common::cli::simulated::is_simulated_only;
use common::cli::{self, Example, Failure, Measured, Outcome, Settings};
use common::problem::{self, Job, Problem, by_precision, digest, is_checked, judge, over_ranks};
use dataflow::core::port::Heap;
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::{EachTile, Entries, Layout, TiledMatrix};
use dataflow::linalg::needs;
use dataflow::linalg::product::{Gemm, Operand, Torus, default_tile_order, defect};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Runtime};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use variants::{in_f64, multiply, no_variant};

const EXAMPLE: Example = Example {
    name: "matmul",
    about: "Multiplies an m x k by a k x n matrix by tiles",
    runs: true,
    honours: &[
        "n",
        "m",
        "nb",
        "grid",
        "precision",
        "seed",
        "backend",
        "variant",
        "check",
        "plan",
        "simulate",
        "costs",
    ],
};

/// The flags of this example.
#[derive(Clone, Copy, Debug, Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Order of the problem [default: 4000]"
    ))
)]
struct Own {
    /// Columns of A, rows of B [default: n]
    #[arg(long, value_name = "K")]
    k: Option<usize>,
    /// Multiply small integers, exactly, instead of random numbers
    #[arg(long)]
    integers: bool,
    /// How ranks pass tiles on
    #[arg(long, value_name = "NAME", default_value = "summa")]
    algorithm: Algorithm,
}

/// How tiles of A and B come to the ranks that need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Algorithm {
    /// From their owner, along a row or column of ranks
    Summa,
    /// From neighbour to neighbour around a torus, each when it has multiplied by them
    Torus,
}

/// Where the entries of an operand come from.
enum Factor {
    Random(Box<Random>),
    /// (i·rows + j·cols) mod length − half of it.
    Integers {
        row: usize,
        col: usize,
        length: usize,
    },
}

impl<T: Scalar> Entries<T> for Factor {
    fn entry(&self, i: usize, j: usize) -> T {
        match self {
            Factor::Random(random) => random.entry(i, j),
            Factor::Integers { row, col, length } => {
                let middle = (length / 2) as f64;
                T::from_real(((i * row + j * col) % length) as f64 - middle)
            }
        }
    }

    fn column(&self, rows: std::ops::Range<usize>, col: usize, into: &mut [T]) {
        match self {
            Factor::Random(random) => random.column(rows, col, into),
            Factor::Integers { .. } => {
                for (slot, row) in into.iter_mut().zip(rows) {
                    *slot = self.entry(row, col);
                }
            }
        }
    }
}

impl Job for Own {
    /// From the entries of A and B to C, and the check.
    fn run<T: Scalar>(mut problem: Problem<'_, Self>) -> Result<(), Failure> {
        let (settings, runtime) = (problem.settings, problem.runtime);
        let layouts = layouts::<T>(&mut problem)?;
        let [of_a, of_b, of_c] = layouts;
        let is_checked = is_checked(settings, longest(&layouts));
        let needs = |there: [Layout; 3]| {
            let workers = runtime.n_threads();
            let product = needs::gemm::<T>(there.each_ref(), workers);
            Ok(match is_checked {
                true => product.then(needs::defect::<T>(there.each_ref(), workers)),
                false => product,
            })
        };
        if is_simulated::<T>(layouts, problem.backend, settings, problem.outcome)?
            || problem.is_plan_only::<T, _>(layouts, needs)?
        {
            return Ok(());
        }
        let (left, right) = factors(settings, problem.outcome);
        let filled = |layout, entries| {
            let matrix = TiledMatrix::<T>::vacant(layout, runtime.memory());
            matrix.fill(entries, runtime).map(|_| matrix)
        };
        let product = Product {
            settings,
            runtime,
            backend: problem.backend,
            a: filled(of_a, &left)?,
            b: filled(of_b, &right)?,
            c: TiledMatrix::vacant(of_c, runtime.memory()),
        };
        problem.outcome.measured = settings.median(|_| product.make())?;
        product.tell(problem.outcome)?;
        // What `ideal` computes is wrong.
        if is_checked && settings.variant != Variant::Ideal {
            product.check([&left, &right], problem.outcome)?;
        }
        problem.say_more::<T>(match settings.own.integers {
            true => "integers",
            false => "random",
        })
    }
}

/// How A, B and C are cut; noted in the report.
fn layouts<T: Scalar>(problem: &mut Problem<'_, Own>) -> Result<[Layout; 3], Failure> {
    let (settings, runtime) = (problem.settings, problem.runtime);
    let n = settings.n.unwrap_or(4000);
    let (m, k) = (settings.m.unwrap_or(n), settings.own.k.unwrap_or(n));
    let nb = settings.nb;
    let nb = nb.unwrap_or_else(|| default_tile_order::<T>(m.max(n).max(k)));
    problem.outcome.m = Some(m);
    problem.outcome.set("k", k);
    problem.begin::<T>(n, nb, flops::gemm::<T>(m, n, k) as f64);
    let general = |rows, cols| over_ranks(Layout::general(rows, cols, nb)?, settings, runtime);
    Ok([general(m, k)?, general(k, n)?, general(m, n)?])
}

/// The longest side of all.
fn longest(layouts: &[Layout]) -> usize {
    let sides = layouts.iter().flat_map(|of| [of.rows(), of.cols()]);
    sides.max().unwrap_or(0)
}

/// A, B, and C, which is made of them.
struct Product<'a, T: Scalar> {
    settings: &'a Settings<Own>,
    runtime: &'a Runtime,
    backend: Backend,
    a: TiledMatrix<T>,
    b: TiledMatrix<T>,
    c: TiledMatrix<T>,
}

impl<T: Scalar> Product<'_, T> {
    /// C ← A·B, by the algorithm and in the variant that were asked for; only this is timed.
    fn make(&self) -> Result<Measured, Failure> {
        let (settings, runtime, backend, c) = (self.settings, self.runtime, self.backend, &self.c);
        // Each tile near the worker that makes it.
        c.fill(&|_: usize, _: usize| T::zero(), runtime)?;
        let algorithm = settings.own.algorithm;
        if settings.variant != Variant::Graph {
            let matrices = [in_f64(&self.a)?, in_f64(&self.b)?, in_f64(c)?];
            let by = (&**settings, settings.grid_of(runtime.n_ranks()), runtime);
            return multiply(by, algorithm == Algorithm::Torus, matrices, backend);
        }
        let (a, b) = (Operand::plain(&self.a), Operand::plain(&self.b));
        let (one, zero) = (T::one(), T::zero());
        match algorithm {
            Algorithm::Summa => {
                let product = Gemm::new(one, a, b, zero, c, backend)?;
                let run = |monitor: &Monitor| product.run(&runtime.watched_by(monitor));
                settings.measure(runtime, run)
            }
            Algorithm::Torus => {
                let product = Torus::new(one, a, b, zero, c, backend)?;
                let run = |monitor: &Monitor| product.run(&runtime.watched_by(monitor));
                settings.measure(runtime, run)
            }
        }
    }

    /// What is known of C without its check.
    fn tell(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        outcome.set("variant", self.settings.variant.to_string());
        outcome.digest = Some(digest(&self.c, self.runtime)?.to_string());
        match self.settings.own.integers {
            true => tell_sums(&self.c, self.runtime, outcome),
            false => Ok(()),
        }
    }

    /// How far C is from the product of these entries, judged.
    fn check(&self, [left, right]: [&Factor; 2], outcome: &mut Outcome) -> Result<(), Failure> {
        let (a, b) = (Operand::plain(&self.a), Operand::plain(&self.b));
        let defect = defect((a, left), (b, right), &self.c, self.runtime)?;
        judge(Some(defect.over(self.a.cols() + 2)), outcome)
    }
}

/// Whether only a simulation was asked for.
fn is_simulated<T: Scalar>(
    layouts: [Layout; 3],
    backend: Backend,
    settings: &Settings<Own>,
    outcome: &mut Outcome,
) -> Result<bool, Failure> {
    if settings.simulate.is_none() {
        return Ok(false);
    }
    if settings.own.algorithm == Algorithm::Torus {
        return Err(Failure::refused(
            "--simulate: only --algorithm summa is counted",
        ));
    }
    let [a, b, c] = layouts.map(|layout| TiledMatrix::<T>::vacant(layout, Arc::new(Heap)));
    is_simulated_only(settings, outcome, move |simulator| {
        let (a, b) = (Operand::plain(&a), Operand::plain(&b));
        simulator.hear(&Gemm::new(T::one(), a, b, T::zero(), &c, backend)?)
    })
}

/// A and B.
fn factors(settings: &Settings<Own>, outcome: &mut Outcome) -> (Factor, Factor) {
    let integers = |row, col, length| Factor::Integers { row, col, length };
    match settings.own.integers {
        true => (integers(1, 2, 7), integers(3, 1, 5)),
        false => {
            outcome.seed = Some(settings.seed);
            let random = |seed| Factor::Random(Box::new(Random::new(seed)));
            (random(settings.seed), random(settings.seed.wrapping_add(1)))
        }
    }
}

/// The trace, the sum and the sum of squares of a matrix of integers, exact whatever the order.
fn tell_sums<T: Scalar>(
    c: &TiledMatrix<T>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let own = Mutex::new([0.0; 3]);
    let sums = EachTile::new("sums", c.layout(), |i, j| {
        let tile = c.tile_at(i, j)?;
        let mut of_tile = [0.0; 3];
        for (row, col) in
            (0..tile.cols()).flat_map(|col| (0..tile.rows()).map(move |row| (row, col)))
        {
            let entry = tile.get(row, col).re();
            let diagonal = i == j && row == col;
            let more = [if diagonal { entry } else { 0.0 }, entry, entry * entry];
            of_tile
                .iter_mut()
                .zip(more)
                .for_each(|(sum, more)| *sum += more);
        }
        let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
        own.iter_mut()
            .zip(of_tile)
            .for_each(|(sum, more)| *sum += more);
        Ok(())
    });
    sums.run(runtime)?;
    drop(sums);
    let own = own.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (name, of_rank) in ["trace", "sum", "sum_of_squares"].into_iter().zip(own) {
        let all = runtime.gather(of_rank.to_bits().to_le_bytes().to_vec())?;
        let sum: f64 = problem::in_numbers(&all).map(f64::from_bits).sum();
        outcome.set(name, sum);
        outcome.say(format!("{name} {sum}"));
    }
    Ok(())
}

/// Refuses what the flags beside it leave without a meaning, before any work.
fn expect_sense(settings: &Settings<Own>) -> Result<(), Failure> {
    let precision = settings.precision.unwrap_or(Precision::F64);
    if settings.variant != Variant::Graph && precision != Precision::F64 {
        return Err(no_variant());
    }
    if settings.own.integers {
        settings.expect_no_seed("with --integers a formula says the entries")?;
    }
    Ok(())
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        expect_sense(settings)?;
        by_precision(settings, Problem::open(settings, runtime, outcome)?)
    })
}
