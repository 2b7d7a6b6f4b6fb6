//! Variants of a graph: the experiment that tells how much communication is hidden.
//!
//! | variant | edges |
//! |---|---|
//! | `graph` | those of the space |
//! | `base` | and one more for each task: it waits until its rank has done with the round before, and has all that comes from other ranks for this one |
//! | `ideal` | none between ranks: what would come from elsewhere lies at home, and is wrong |
//!
//! Hidden is (base − graph) ÷ (base − ideal); communication is (base − ideal) ÷ base.
//!
//! # Source
//! Sorensen, Baden, *Hiding communication latency with non-SPMD, graph-based execution*, ICCS 2009, §3.
//!
//! # Elsewhere
//! The two other spaces: [`Base`], [`Ideal`]; spaces of a library: [`Given`]. Runs of all three in turn: `cargo xtask hidden`.

mod base;
mod given;
mod ideal;

pub use base::{Base, RoundTask};
pub use given::{Answers, Given};
pub use ideal::Ideal;

use super::cli::settings::Variant;
use super::cli::{Failure, Flags, Measured};
use super::problem;
use dataflow::core::port::{Executor, Wire};
use dataflow::core::run_across;
use dataflow::prelude::*;
use dataflow::{Monitor, Report, Runtime};

/// What the experiment asks of a space beside its edges.
pub trait Rounds: TaskSpace {
    /// On how many ranks it runs.
    fn n_ranks(&self) -> u32;

    /// How many rounds there are.
    fn n_rounds(&self) -> u32;

    /// The round a task belongs to: never less than that of a task it waits for, and more than that
    /// of one on another rank whose datum it gets.
    fn round(&self, task: Self::Task) -> u32;

    /// What `ideal` gives a task instead of what would come from another rank: a slot at home that
    /// is full. `None` for a flow that need not be fed.
    fn stand_in(&self, task: Self::Task, flow: usize) -> Option<(&Store<Self::Datum>, usize)>;
}

/// Refuses a variant for whose tables there is no room.
///
/// # Errors
/// If there is none.
pub fn expect_room<S: Rounds>(
    variant: Variant,
    space: &S,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let bytes = match variant {
        Variant::Base => Base::bytes(space),
        Variant::Graph | Variant::Ideal => 0,
    };
    problem::expect_room(&format!("--variant {variant}"), bytes, runtime)
}

/// Runs this rank's part of a space in one of its variants.
///
/// # Errors
/// The run's own.
pub fn run_variant<S: Rounds<Datum: Wire>>(
    variant: Variant,
    space: &S,
    on: &dyn Executor,
) -> Result<Report, Error> {
    match variant {
        Variant::Graph => run_across(space, on),
        Variant::Base => run_across(&Base::new(space), on),
        Variant::Ideal => run_across(&Ideal(space), on),
    }
}

impl Flags {
    /// Runs a space on every rank in the variant that was asked for, and says what it cost.
    ///
    /// # Errors
    /// As of [`expect_room`], or the run's own.
    pub fn measure_variant<S: Rounds<Datum: Wire>>(
        &self,
        runtime: &Runtime,
        space: &S,
    ) -> Result<Measured, Failure> {
        expect_room(self.variant, space, runtime)?;
        self.measure(runtime, |monitor: &Monitor| {
            run_variant(self.variant, space, &runtime.watched_by(monitor))
        })
    }
}
