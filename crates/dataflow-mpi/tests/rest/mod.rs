//! A rank at rest, and what it uses of the processor.

#![allow(dead_code)] // each test uses its part

use dataflow_core::port::{Arrival, Failure, Inbox, Pulse};
use dataflow_core::rank::Rank;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::thread;
use std::time::Duration;

/// An engine that never has anything to do.
pub struct Nothing;

impl Inbox for Nothing {
    fn deliver(&self, _: Rank, _: Arrival) {}
    fn pulse(&self) -> Pulse {
        Pulse {
            idle: true,
            ..Pulse::default()
        }
    }
    fn stop(&self, _: Failure) {}
    fn stall(&self) {}
}

/// Processor time that this process uses in a while.
pub fn processor_millis(while_: Duration) -> i64 {
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
        usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds()
    };
    let before = used();
    thread::sleep(while_);
    used() - before
}
