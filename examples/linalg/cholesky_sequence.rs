//! The Cholesky factorisation once more, in program order: tasks are inserted on the tiles, and
//! what they access says who waits for whom, and what travels between ranks.
//!
//! [`insert`] is the whole graph. The result is that of the example `cholesky`, bit for bit, and
//! so are the messages.
//!
//! # Elsewhere
//! Everything but the factorisation: `cholesky/definite.rs`.

#[path = "cholesky/definite.rs"]
mod definite;

use common::cli::simulated::{Simulator, Weights};
use common::cli::{self, Example, Failure};
use common::problem::OF_A_TASK;
use dataflow::linalg::cholesky::{Factor, Task};
use dataflow::linalg::kernel::{Backend, gemm, herk, potrf, trsm};
use dataflow::linalg::matrix::{Part, Tile, TiledMatrix};
use dataflow::linalg::needs::{Needs, available};
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::weight::Weight;
use dataflow::sequence::record::{Home, Recorded, Recorder, Step, record};
use dataflow::sequence::{read, write};
use dataflow::{Monitor, Report, Runtime, TaskError};
use std::process::ExitCode;

const EXAMPLE: Example = definite::example(
    "cholesky_sequence",
    "Factors a Hermitian positive definite matrix by tiles, in program order",
);

/// Inserts the tasks of A = L·Lᴴ: `tile(m, n)` is that of row m, column n ≤ m; `nb` its order.
fn insert<'c, 'env, 'h, T: Scalar>(
    s: &Recorder<'c, 'env, Tile<T>>,
    nt: usize,
    nb: usize,
    backend: Backend,
    tile: impl Fn(usize, usize) -> &'h Home<'c, Tile<T>>,
) where
    'c: 'h,
{
    for k in 0..nt {
        let urgent = (nt - k) as i64;
        s.priority(urgent)
            .name("Potrf")
            .task(write(tile(k, k)), move |a| {
                // A[k,k] ← L[k,k] with A[k,k] = L[k,k] · L[k,k]ᴴ
                let factored = potrf(backend, a);
                a.set_part(Part::Lower);
                factored.map_err(|failed| not_positive(k * nb + failed.index, failed.pivot))
            });
        for m in k + 1..nt {
            // A[m,k] ← A[m,k] · L[k,k]⁻ᴴ
            let task = s.priority(urgent).name("Trsm");
            task.task((read(tile(k, k)), write(tile(m, k))), move |(l, a)| {
                trsm(backend, l, a)
            });
        }
        for m in k + 1..nt {
            // A[m,m] ← A[m,m] − L[m,k] · L[m,k]ᴴ
            let task = s.name("Herk");
            task.task((read(tile(m, k)), write(tile(m, m))), move |(l, a)| {
                herk(backend, l, a)
            });
            for n in k + 1..m {
                // A[m,n] ← A[m,n] − L[m,k] · L[n,k]ᴴ
                let accesses = (read(tile(m, k)), read(tile(n, k)), write(tile(m, n)));
                s.name("Gemm")
                    .task(accesses, move |(l, r, a)| gemm(backend, l, r, a));
            }
        }
    }
}

fn not_positive(index: usize, pivot: f64) -> TaskError {
    let text = format!("matrix is not positive definite: pivot {index} is {pivot:e} (must be > 0)");
    TaskError::new("not_positive_definite", text).with_index(index as u64)
}

/// The program, recorded for so many ranks.
fn recorded<T: Scalar>(
    a: &TiledMatrix<T>,
    backend: Backend,
    n_ranks: usize,
) -> Result<Recorded<'_, Tile<T>>, Failure> {
    let (nt, nb) = (a.nt(), a.nb());
    let recorded = record("cholesky_sequence", n_ranks, |s| {
        let tiles = (0..nt).flat_map(|m| (0..=m).map(move |n| (m, n)));
        let homes = tiles.map(|(m, n)| {
            // Of other ranks' tiles only the owner counts.
            let slot = a.slot(m, n).unwrap_or(m * nt + n);
            s.home(a.store(), slot, a.rank_of(m, n))
        });
        let homes: Vec<_> = homes.collect();
        insert(s, nt, nb, backend, |m, n| &homes[m * (m + 1) / 2 + n]);
    })?;
    Ok(recorded)
}

/// What the symbolic space calls the tasks, in the order of their insertion.
fn names(nt: u32) -> Vec<Task> {
    let of_step = |k| {
        let trsms = (k + 1..nt).map(move |m| Task::Trsm { m, k });
        let updates = (k + 1..nt).flat_map(move |m| {
            let gemms = (k + 1..m).map(move |n| Task::Gemm { m, n, k });
            [Task::Herk { m, k }].into_iter().chain(gemms)
        });
        [Task::Potrf { k }].into_iter().chain(trsms).chain(updates)
    };
    (0..nt).flat_map(of_step).collect()
}

/// In program order.
#[derive(Clone, Copy)]
struct BySequence;

impl definite::Method for BySequence {
    const LEVELS: usize = 1;

    /// The program, which every rank keeps as a whole.
    fn beside(&self, nt: usize) -> Needs {
        let nt = nt as u128;
        Needs {
            held: OF_A_TASK * (nt * (nt + 1) * (nt + 2) / 6),
            ..Needs::default()
        }
    }

    fn simulate<T: Scalar>(
        &self,
        a: &TiledMatrix<T>,
        backend: Backend,
        simulator: &Simulator<'_>,
    ) -> Result<(), Failure> {
        self.beside(a.nt()).expect_room(available())?;
        let (by_name, names) = (Factor::new(a, backend)?, names(a.nt() as u32));
        let program = recorded(a, backend, simulator.n_ranks()?)?;
        let name = |step: Step| names[program.name_of(step).1 as usize];
        let weights = Weights {
            graph: "cholesky",
            bytes: &|step, flow| by_name.bytes(name(step), flow),
            flops: &|step| by_name.flops(name(step)),
        };
        simulator.hear_weighed(&program, &weights)
    }

    fn factor<T: Scalar>(
        &self,
        a: &mut TiledMatrix<T>,
        backend: Backend,
        runtime: &Runtime,
        monitor: &Monitor,
    ) -> Result<Report, Failure> {
        let factorisation = recorded(a, backend, runtime.n_ranks())?;
        Ok(factorisation.run_across(&runtime.watched_by(monitor))?)
    }
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings, runtime, outcome| {
        definite::solve(BySequence, settings, runtime, outcome)
    })
}
