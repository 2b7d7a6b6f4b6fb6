//! The subsets of a set, counted by multiple recursion: a call forks into as many as elements are
//! left.
//!
//! A subset of k elements in a row is empty, or has a largest element: then the rest is a subset of
//! those before it. Up to `--cutoff` elements a call counts one by one. From Matheou and Evripidou's
//! FREDDO (paper 004 of DESIGN).

mod recursion;

use common::cli::{self, Example, Failure, Outcome, Settings};
use dataflow::core::words::counted;
use dataflow::recursion::{Call, Recursive};
use dataflow::{Runtime, TaskError};
use recursion::{measure, size};
use std::hint::black_box;
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "powerset",
    about: "Counts the subsets of a set by multiple recursion",
    runs: true,
    honours: &["n"],
};

#[derive(Clone, Copy, Debug, clap::Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Elements of the set [default: 22]"
    ))
)]
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
    let n = size(settings, 22, LARGEST)?;
    let cutoff = settings.own.cutoff;
    outcome.set("cutoff", cutoff);
    let value = 1 << n;
    measure(&Subsets { cutoff }, (n, value), settings, runtime, outcome)?;
    outcome.say(format!(
        "a set of {} has {}",
        counted(n, "element"),
        counted(value, "subset")
    ));
    Ok(())
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, powerset)
}
