//! Weather: many seeds of simulated networks, over random graphs, Cholesky and Task Bench.
//!
//! The tests run a small share of the seeds; here they run as many as are asked for, and tell what
//! they have met. A failing seed says how to replay it alone.

use crate::steps::{self, Steps};
use crate::{told, wide};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Seeds if none are asked for.
pub const SEEDS: u64 = 1_000;

/// By name, how cargo is asked for the tests.
const SWEEPS: [(&str, [&str; 2]); 2] = [
    ("random graphs", ["-p", wide::TESTS_OF_MPI]),
    ("Cholesky and Task Bench", ["-p", "dataflow-runtime"]),
];

/// Runs every sweep over the seeds from 0.
pub fn command(seeds: u64) -> ExitCode {
    let mut steps = Steps::default();
    for (name, package) in SWEEPS {
        steps.step(name, || {
            wide::tests_within(silence(seeds), sweep(package, seeds))
        });
    }
    steps.close()
}

/// A sweep says nothing before it has ended; a thousand seeds take some minutes of a core.
fn silence(seeds: u64) -> Duration {
    told::SILENCE.saturating_mul(seeds.div_ceil(1000).try_into().unwrap_or(u32::MAX))
}

fn sweep(package: [&str; 2], seeds: u64) -> Command {
    let mut cargo = steps::cargo(&["test"]);
    cargo.args(package).args(["--test", "weather"]);
    cargo.args(["--", "weather", "--nocapture"]);
    cargo.env("DATAFLOW_SEEDS", seeds.to_string());
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_seeds_may_take_long() {
        assert_eq!(silence(1), told::SILENCE);
        assert_eq!(silence(3000), 3 * told::SILENCE);
        assert!(silence(u64::MAX) > silence(u32::MAX.into()));
    }

    #[test]
    fn the_seeds_reach_the_tests() {
        let command = steps::shown(&sweep(SWEEPS[0].1, 7));
        assert_eq!(
            command,
            "DATAFLOW_SEEDS=\"7\" cargo test -p dataflow-mpi-tests --test weather -- weather --nocapture"
        );
    }
}
