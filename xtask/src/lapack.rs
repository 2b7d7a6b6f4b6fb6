//! LAPACK's acceptance tests, all of them: Cholesky, LU and QR in four precisions, on one rank and on
//! grids of ranks.
//!
//! The tests run a small share of the cases; here they run all, and tell how many there were and the
//! largest ratio of each routine. A single ratio at its threshold fails the command.
//!
//! # Elsewhere
//! LAPACK's own test programs, which `--programs` runs instead: [`programs`].

use crate::out::say;
use crate::steps::{self, Outcome, Steps};
use crate::{packages, programs, wide};
use std::process::{Command, ExitCode};

/// Runs all cases, with OpenBLAS beside faer where it can be had; or LAPACK's own programs.
pub fn command(programs: bool) -> ExitCode {
    say!("LAPACK's acceptance tests need minutes");
    let mut steps = Steps::default();
    if programs {
        programs::programs(&mut steps);
        return steps.close();
    }
    let openblas = packages::ensure(&["openblas".to_string()].into());
    if let Err(line) = &openblas {
        let line = line.clone();
        steps.step("OpenBLAS", || Outcome::Skipped(line));
    }
    steps.step("LAPACK's types", || wide::tests(all(openblas.is_ok())));
    steps.close()
}

fn all(openblas: bool) -> Command {
    let mut cargo = steps::cargo(&["test", "-p", "dataflow-runtime", "--test", "lapack"]);
    if openblas {
        cargo.args(["--features", "openblas"]);
    }
    cargo.args(["--", "--nocapture"]);
    cargo.env("DATAFLOW_LAPACK", "all");
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_are_told_to_try_all() {
        let command = steps::shown(&all(true));
        assert_eq!(
            command,
            "DATAFLOW_LAPACK=\"all\" cargo test -p dataflow-runtime --test lapack --features openblas -- --nocapture"
        );
    }
}
