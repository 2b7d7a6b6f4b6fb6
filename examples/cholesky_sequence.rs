//! The Cholesky factorisation once more, in program order: tasks are inserted on the tiles, and
//! what they access says who waits for whom.
//!
//! The fifteen lines are [`insert`]. The result is that of the example `cholesky`, bit for bit.
//!
//! # Elsewhere
//! Everything but the factorisation: `cholesky/definite.rs`.

mod cli;
#[path = "cholesky/definite.rs"]
mod definite;
mod problem;

use cli::{Example, Failure};
use dataflow::core::data::Store;
use dataflow::linalg::kernel::{Backend, gemm, herk, potrf, trsm};
use dataflow::linalg::matrix::{Tile, TiledMatrix};
use dataflow::linalg::scalar::Scalar;
use dataflow::sequence::{Handle, Scope, read, scope_with, write};
use dataflow::{Monitor, Report, Runtime, TaskError};
use std::process::ExitCode;

const EXAMPLE: Example = definite::example(
    "cholesky_sequence",
    "Factors a Hermitian positive definite matrix by tiles, in program order",
);

/// Inserts the tasks of A = L·Lᴴ: `tile(m, n)` is that of row m, column n ≤ m; `nb` its order.
fn insert<'c, 'env, 'h, T: Scalar>(
    s: &Scope<'c, 'env>,
    nt: usize,
    nb: usize,
    backend: Backend,
    tile: impl Fn(usize, usize) -> &'h Handle<'c, &'env mut Tile<T>>,
) where
    'c: 'h,
{
    for k in 0..nt {
        let urgent = (nt - k) as i64;
        s.priority(urgent)
            .name("Potrf")
            .task(write(tile(k, k)), move |a| {
                // A[k,k] ← L[k,k] with A[k,k] = L[k,k] · L[k,k]ᴴ
                potrf(backend, a)
                    .map_err(|failed| not_positive(k * nb + failed.index, failed.pivot))
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

/// In program order.
struct BySequence;

impl definite::Method for BySequence {
    fn factor<T: Scalar>(
        &self,
        a: &mut TiledMatrix<T>,
        backend: Backend,
        runtime: &Runtime,
        monitor: &Monitor,
    ) -> Result<Report, Failure> {
        if runtime.n_ranks() > 1 {
            return Err(Failure::refused(
                "--ranks: sequences run on one rank so far",
            ));
        }
        let (layout, nt, nb) = (*a.layout(), a.nt(), a.nb());
        let report = Store::with_data(a.store_mut(), |tiles| {
            let (_, report) = scope_with(runtime, monitor, |s| {
                let tiles = s.handles(tiles.iter_mut().map(|tile| &mut **tile));
                let tile = |m, n| &tiles[layout.slot(m, n).unwrap_or(0)];
                insert(s, nt, nb, backend, tile);
            })?;
            Ok::<_, dataflow::Error>(report)
        });
        Ok(report
            .ok_or_else(|| Failure::new("home_empty", "a tile of the matrix is missing"))??)
    }
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings, runtime, outcome| {
        definite::solve(&BySequence, settings, runtime, outcome)
    })
}
