//! The subsets of a set, counted by multiple recursion: a call forks into as many as elements are
//! left.
//!
//! A subset of k elements in a row is empty, or has a largest element: then the rest is a subset of
//! those before it (paper 004, benchmark 8). Up to `--cutoff` elements a call counts one by one.

mod cli;

use cli::{Example, Failure, Outcome, Settings};
use dataflow::recursion::{Call, Recursive};
use dataflow::{Monitor, Runtime, TaskError};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

const EXAMPLE: Example = Example {
    name: "powerset",
    about: "Counts the subsets of a set by multiple recursion",
    runs: true,
    honours: &["n"],
};

#[derive(Clone, Copy, Debug, clap::Args)]
struct Own {
    /// Subsets of so many elements are counted one by one, not by tasks
    #[arg(long, value_name = "C", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=40))]
    cutoff: u64,
}

struct Subsets {
    cutoff: u64,
}

impl Recursive for Subsets {
    type Argument = u64;
    type Value = u64;

    /// The subsets of so many elements.
    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        Ok(match n <= self.cutoff {
            true => Call::Done((0..1u64 << n).map(black_box).count() as u64),
            // The empty one, and those whose largest element has so many before it.
            false => Call::fork(0..n, |values| 1 + values.into_iter().sum::<u64>()),
        })
    }
}

/// The largest set whose subsets are counted in 64 bits.
const LARGEST: usize = 63;

fn powerset(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let n = settings.n.unwrap_or(22);
    outcome.n = Some(n);
    outcome.set("cutoff", settings.own.cutoff);
    if n > LARGEST {
        return Err(Failure::refused(format!("--n {n}: at most {LARGEST}")));
    }
    let problem = Subsets {
        cutoff: settings.own.cutoff,
    };
    let found = Mutex::new(0);
    let run = |monitor: &Monitor| -> Result<_, dataflow::Error> {
        let (value, report) = runtime.recurse_with(&problem, n as u64, monitor)?;
        *found.lock().unwrap_or_else(PoisonError::into_inner) = value;
        Ok(report)
    };
    outcome.measured = Some(settings.measure(runtime, run)?);
    let value = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.set("value", value);
    outcome.say(format!("a set of {n} elements has {value} subsets"));
    match value == 1 << n {
        true => Ok(()),
        false => Err(Failure::new(
            "wrong_value",
            format!("{value} instead of {}", 1u64 << n),
        )),
    }
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, powerset)
}
