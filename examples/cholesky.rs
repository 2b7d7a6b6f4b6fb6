//! The Cholesky factorisation A = L·Lᴴ of a matrix from a file or from a formula, by tiles.
//!
//! Generation, the search for entries that are not finite, the check and the digest run as tasks
//! too, but only the factorisation itself is timed.
//!
//! # Elsewhere
//! Everything but the factorisation: `cholesky/definite.rs`. The same by a sequence of tasks:
//! `cholesky_sequence`.

#[path = "cholesky/definite.rs"]
mod definite;

use common::cli::{self, Example, Failure, Settings};
use dataflow::linalg::cholesky::Factor;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Format, TiledMatrix};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Report, Runtime};
use definite::Own;
use std::process::ExitCode;

const EXAMPLE: Example = definite::example(
    "cholesky",
    "Factors a Hermitian positive definite matrix by tiles",
);

/// By the symbolic task space.
struct BySpace {
    lookahead: Option<u32>,
}

impl definite::Method for BySpace {
    const LEVELS: usize = 2;

    fn lookahead(&self) -> Option<u32> {
        self.lookahead
    }

    fn factor<T: Scalar>(
        &self,
        a: &mut TiledMatrix<T>,
        backend: Backend,
        runtime: &Runtime,
        monitor: &Monitor,
    ) -> Result<Report, Failure> {
        let mut space = Factor::new(a, backend)?;
        // Blocks of tiles: each task is a sequence inside.
        if let Format::SubTiled { .. } = a.format() {
            space = space.in_two_levels(runtime);
        }
        if let Some(columns) = self.lookahead {
            space = space.with_lookahead(columns);
        }
        Ok(space.run(&runtime.watched_by(monitor))?)
    }
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        let lookahead = settings.own.lookahead;
        definite::solve(&BySpace { lookahead }, settings, runtime, outcome)
    })
}
