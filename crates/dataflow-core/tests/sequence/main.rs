//! Sequences against a plain interpreter, on every executor; and what misuse ends in.

mod accesses;
mod failures;
mod nesting;
mod programs;
mod reductions;
mod stopping;
mod windows;

use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Context, Executor, Inline, Shuffled};
use dataflow_core::recursion::{Call, Recursive, recurse};
use dataflow_core::sequence::{
    Handle, Reduce, Scope, Sifted, TaskWindow, commute, read, reduce, scope, scope_inside, update,
    write,
};
use dataflow_core::{TaskError, run, space::Independent};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Small under Miri, for which a task is a long time.
mod size {
    use std::time::Duration;

    /// Random programs, and of how many steps each has fewer.
    pub const N_PROGRAMS: u32 = if cfg!(miri) { 2 } else { 300 };
    pub const N_STEPS: usize = if cfg!(miri) { 8 } else { 60 };
    pub const N_SEEDS: u64 = if cfg!(miri) { 2 } else { 50 };
    pub const N_PAIRS: usize = if cfg!(miri) { 20 } else { 2000 };
    pub const N_INSIDE: u64 = if cfg!(miri) { 200 } else { 10_000 };
    /// Miri takes a tenth of a second for a panic.
    pub const INSIDE: Duration = Duration::from_micros(if cfg!(miri) { 10_000 } else { 200 });
    /// More than the widest window of the tests holds.
    pub const N_WINDOWED: usize = if cfg!(miri) { 250 } else { 2000 };
    /// Tasks that may wait before a program is stopped, and those that it inserts afterwards.
    pub const STOPPED: (u64, u64) = if cfg!(miri) { (16, 30) } else { (8192, 1000) };
    pub const N_REDUCED: usize = if cfg!(miri) { 20 } else { 1000 };
}

fn executors() -> Vec<Box<dyn Executor>> {
    vec![
        Box::new(Inline),
        Box::new(Shuffled::new(1)),
        Box::new(Shuffled::new(2).with_threads(3)),
    ]
}

/// What a scope ends with, whose program may return something loud.
fn failure<R>(ended: Result<(R, dataflow_core::Report), dataflow_core::Error>) -> (String, Kind) {
    match ended {
        Ok((loud, _)) => {
            std::mem::forget(loud);
            panic!("it has not failed")
        }
        Err(error) => (error.to_string(), error.kind()),
    }
}
