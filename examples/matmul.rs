//! The product C = A·B of generated matrices, by tiles.
//!
//! Generation, the check and the digest run as tasks too, but only the product itself is timed.
//! With `--integers` the product is exact, and its trace, sum and sum of squares are told.

mod cli;
mod problem;
mod variant;
#[path = "matmul/variants.rs"]
mod variants;

use clap::{Args, ValueEnum};
use cli::settings::Variant;
use cli::simulated::is_simulated_only;
use cli::{Example, Failure, Measured, Outcome, Settings};
use dataflow::core::port::Heap;
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::{EachTile, Entries, Layout, TiledMatrix};
use dataflow::linalg::needs;
use dataflow::linalg::product::{Gemm, Operand, Torus, default_tile_order, defect};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Runtime};
use problem::{
    File, InAnyPrecision, backend, by_precision, digest, is_plan_only, judge, over_ranks, say_more,
};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

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
    ],
};

/// Up to this order the result is checked unless the user says otherwise.
const CHECKED_BY_DEFAULT: usize = 8000;

/// The flags of this example.
#[derive(Clone, Copy, Debug, Args)]
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

struct Problem<'a> {
    settings: &'a Settings<Own>,
    runtime: &'a Runtime,
    outcome: &'a mut Outcome,
}

impl InAnyPrecision for Problem<'_> {
    fn file(&self) -> Option<&File> {
        None
    }

    fn run<T: Scalar>(self) -> Result<(), Failure> {
        let (settings, runtime, outcome) = (self.settings, self.runtime, self.outcome);
        let backend = backend(settings.backend)?;
        let n = settings.n.unwrap_or(4000);
        let (m, k) = (settings.m.unwrap_or(n), settings.own.k.unwrap_or(n));
        let largest = m.max(n).max(k);
        let nb = settings
            .nb
            .unwrap_or_else(|| default_tile_order::<T>(largest));
        (outcome.n, outcome.m, outcome.nb) = (Some(n), Some(m), Some(nb));
        outcome.set("k", k);
        outcome.precision = Some(T::PRECISION.to_string());
        outcome.flops = Some(flops::gemm::<T>(m, n, k) as f64);
        let general = |rows, cols| over_ranks(Layout::general(rows, cols, nb)?, settings, runtime);
        let (of_a, of_b, of_c) = (general(m, k)?, general(k, n)?, general(m, n)?);
        let layouts = [of_a, of_b, of_c];
        let workers = runtime.n_threads();
        if is_simulated::<T>(layouts, backend, settings, outcome)? {
            return Ok(());
        }
        let checked = settings.check.unwrap_or(largest <= CHECKED_BY_DEFAULT);
        let needs = |there: [Layout; 3]| {
            let product = needs::gemm::<T>(there.each_ref(), workers);
            Ok(match checked {
                true => product.then(needs::defect::<T>(there.each_ref(), workers)),
                false => product,
            })
        };
        if is_plan_only::<T, _, 3>(settings, runtime, outcome, layouts, needs)? {
            return Ok(());
        }
        let (left, right) = factors(settings, outcome);

        let filled = |layout, entries| {
            let matrix = TiledMatrix::<T>::vacant(layout, runtime.memory());
            matrix.fill(entries, runtime).map(|_| matrix)
        };
        let (a, b) = (filled(of_a, &left)?, filled(of_b, &right)?);
        let c = TiledMatrix::<T>::vacant(of_c, runtime.memory());
        let matrices = (&a, &b);
        let (a, b) = (Operand::plain(&a), Operand::plain(&b));
        let mut runs = Vec::new();
        for _ in 0..settings.repeat {
            // Each tile near the worker that makes it.
            c.fill(&|_: usize, _: usize| T::zero(), runtime)?;
            let (one, zero) = (T::one(), T::zero());
            if settings.variant != Variant::Graph {
                use variants::in_f64;
                let matrices = [in_f64(matrices.0)?, in_f64(matrices.1)?, in_f64(&c)?];
                let is_torus = settings.own.algorithm == Algorithm::Torus;
                let grid = settings.grid_of(runtime.n_ranks());
                let by = (&**settings, grid, runtime);
                runs.push(variants::multiply(by, is_torus, matrices, backend)?);
                continue;
            }
            runs.push(match settings.own.algorithm {
                Algorithm::Summa => {
                    let product = Gemm::new(one, a, b, zero, &c, backend)?;
                    settings.measure(runtime, |monitor: &Monitor| {
                        product.run(&runtime.watched_by(monitor))
                    })?
                }
                Algorithm::Torus => {
                    let product = Torus::new(one, a, b, zero, &c, backend)?;
                    settings.measure(runtime, |monitor: &Monitor| {
                        product.run(&runtime.watched_by(monitor))
                    })?
                }
            });
        }
        outcome.measured = Measured::median(runs);

        outcome.set("variant", settings.variant.to_string());
        outcome.digest = Some(digest(&c, runtime)?.to_string());
        if settings.own.integers {
            tell_sums(&c, runtime, outcome)?;
        }
        // What `ideal` computes is wrong.
        if checked && settings.variant != Variant::Ideal {
            let defect = defect((a, &left), (b, &right), &c, runtime)?;
            judge(Some(defect.over(k + 2)), outcome)?;
        }
        if !settings.json {
            let kind = if settings.own.integers {
                "integers"
            } else {
                "random"
            };
            say_more::<T, _>(settings, runtime, backend, kind, outcome)?;
        }
        Ok(())
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

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings, runtime, outcome| {
        outcome.grid = Some(settings.grid_of(runtime.n_ranks()).to_string());
        outcome.backend = Some(settings.backend.to_string());
        let problem = Problem {
            settings,
            runtime,
            outcome,
        };
        by_precision(settings, problem)
    })
}
