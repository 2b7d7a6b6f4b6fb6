//! `cargo xtask mpich`: the tests under MPI once more, with MPICH instead of the machine's own MPI.
//!
//! MPICH lies beside another MPI without replacing it, and is built into a target folder of its own.

use crate::packages;
use crate::steps::{self, Outcome, Steps};
use crate::{told, wide};
use std::process::Command;

/// The compiler and the launcher by the names that they have beside another MPI.
const COMPILER: &str = "mpicc.mpich";
const LAUNCHER: &str = "mpirun.mpich";

/// Runs the tests so often.
pub fn mpich(steps: &mut Steps, times: usize) {
    if let Err(line) = packages::ensure(&["mpich".to_string()].into()) {
        steps.step("MPICH", || Outcome::Skipped(line));
        return;
    }
    for time in 1..=times {
        steps.step(&format!("tests under MPICH, {time} of {times}"), || {
            told::tests(&mut tests())
        });
    }
}

fn tests() -> Command {
    let mut cargo = steps::cargo(&["test", "-p", wide::TESTS_OF_MPI, "--features", "mpi"]);
    cargo.args([
        "--test",
        "mpi_ranks",
        "--",
        "--test-threads",
        "1",
        told::SHOW,
    ]);
    cargo
        .env("MPICC", COMPILER)
        .env("DATAFLOW_MPIRUN", LAUNCHER);
    cargo.env("CARGO_TARGET_DIR", steps::target_folder().join("mpich"));
    cargo
}
