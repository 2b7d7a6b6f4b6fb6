//! What the examples of recursion share: a number by calls that fork and join, and its check.

use clap::Args;
use common::cli::{Failure, Outcome, Settings};
use dataflow::recursion::{Recursive, recurse_across};
use dataflow::{Monitor, Runtime};

/// The size of a problem: what was asked for, or the example's own; at most `largest`, so that the
/// result has 64 bits.
pub fn size<Own: Args>(
    settings: &Settings<Own>,
    own: usize,
    largest: usize,
) -> Result<usize, Failure> {
    match settings.n.unwrap_or(own) {
        n if n > largest => Err(Failure::refused(format!("--n {n}: at most {largest}"))),
        n => Ok(n),
    }
}

/// Measures the recursion and tells its value, which must be `expected`.
pub fn measure<R: Recursive<Argument = u64, Value = u64>, Own: Args>(
    problem: &R,
    (n, expected): (usize, u64),
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    outcome.n = Some(n);
    let mut value = 0;
    let mut run = |monitor: &Monitor| -> Result<_, dataflow::Error> {
        let (found, report) = recurse_across(problem, n as u64, &runtime.watched_by(monitor))?;
        value = found;
        Ok(report)
    };
    outcome.measured = settings.median(|_| settings.measure(runtime, &mut run))?;
    outcome.set("value", value);
    match value == expected {
        true => Ok(()),
        false => {
            let text = format!("{value} instead of {expected}");
            Err(Failure::wrong_result(text))
        }
    }
}
