//! Fibonacci numbers by double recursion: a call forks into two, and nobody waits for them.
//!
//! The classic measure of recursion, as in Matheou and Evripidou's FREDDO (paper 004 of DESIGN). Below
//! `--cutoff` a call is plain recursion, above it is a task; across ranks whole subtrees are.

mod recursion;

use common::cli::{self, Example, Failure, Outcome, Settings};
use dataflow::recursion::{Call, Recursive};
use dataflow::{Runtime, TaskError};
use recursion::{measure, size};
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "fibonacci",
    about: "Computes a Fibonacci number by double recursion",
    runs: true,
    honours: &["n"],
};

#[derive(Clone, Copy, Debug, clap::Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Which number [default: 32]"
    ))
)]
struct Own {
    /// Below this number a call is plain recursion, not tasks
    #[arg(long, value_name = "C", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..))]
    cutoff: u64,
}

struct Fibonacci {
    cutoff: u64,
}

impl Recursive for Fibonacci {
    type Argument = u64;
    type Value = u64;

    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        Ok(match n < self.cutoff {
            true => Call::Done(plain(n)),
            false => Call::fork([n - 1, n - 2], |values| values.into_iter().sum()),
        })
    }
}

fn plain(n: u64) -> u64 {
    match n {
        0 | 1 => n,
        _ => plain(n - 1) + plain(n - 2),
    }
}

/// The largest whose number has 64 bits.
const LARGEST: usize = 93;

fn fibonacci(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let n = size(settings, 32, LARGEST)?;
    let cutoff = settings.own.cutoff;
    outcome.set("cutoff", cutoff);
    let (value, _) = (0..n).fold((0u64, 1u64), |(a, b), _| (b, a.wrapping_add(b)));
    measure(
        &Fibonacci { cutoff },
        (n, value),
        settings,
        runtime,
        outcome,
    )?;
    outcome.say(format!("the Fibonacci number {n} is {value}"));
    Ok(())
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, fibonacci)
}
