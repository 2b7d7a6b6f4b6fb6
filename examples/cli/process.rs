//! What the operating system says about this process: processor time and resident memory.

// Each example and bench uses its part.
#![allow(dead_code)]

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

/// User and system time of all threads so far, seconds; 0 where the system does not tell.
pub fn cpu_seconds() -> f64 {
    // The clock, not `getrusage`: that one is behind by up to a tick for threads that are running.
    let clock = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from);
    clock.map_or(0.0, |time| time.as_secs_f64())
}

/// The largest resident set so far, bytes; since the last [`restart_peak`] if there was one.
pub fn max_rss_bytes() -> u64 {
    // Linux counts in KiB, macOS in bytes.
    let unit = if cfg!(target_vendor = "apple") {
        1
    } else {
        1024
    };
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss() as u64 * unit)
}

/// Makes the peak of the resident set start anew from what is resident now, and returns that, in
/// bytes. Only Linux can; elsewhere the peak so far is returned and stays.
pub fn restart_peak() -> u64 {
    // 5 asks for just that; a kernel that refuses leaves the old peak standing.
    let _refused = fs::write("/proc/self/clear_refs", "5");
    max_rss_bytes()
}
