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

use common::cli::simulated::Simulator;
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
#[derive(Clone, Copy)]
struct BySpace {
    lookahead: Option<u32>,
}

impl definite::Method for BySpace {
    const LEVELS: usize = 2;

    fn lookahead(&self) -> Option<u32> {
        self.lookahead
    }

    fn simulate<T: Scalar>(
        &self,
        a: &TiledMatrix<T>,
        backend: Backend,
        simulator: &Simulator<'_>,
    ) -> Result<(), Failure> {
        simulator.hear(&self.space(a, backend)?)
    }

    fn factor<T: Scalar>(
        &self,
        a: &mut TiledMatrix<T>,
        backend: Backend,
        runtime: &Runtime,
        monitor: &Monitor,
    ) -> Result<Report, Failure> {
        let mut space = self.space(a, backend)?;
        // Blocks of tiles: each task is a sequence inside.
        if let Format::SubTiled { .. } = a.format() {
            space = space.in_two_levels(runtime);
        }
        Ok(space.run(&runtime.watched_by(monitor))?)
    }
}

impl BySpace {
    fn space<'a, T: Scalar>(
        self,
        a: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Factor<'a, T>, Failure> {
        let space = Factor::new(a, backend)?;
        Ok(match self.lookahead {
            Some(columns) => space.with_lookahead(columns),
            None => space,
        })
    }
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, |settings: &Settings<Own>, runtime, outcome| {
        let lookahead = settings.own.lookahead;
        definite::solve(BySpace { lookahead }, settings, runtime, outcome)
    })
}
