//! What the operating system says about this process: processor time and resident memory.

// Each example and bench uses its part.
#![allow(dead_code)]

use std::fs;

/// User and system time of all threads so far, seconds; 0 where the system does not tell.
pub fn cpu_seconds() -> f64 {
    system::cpu_seconds().unwrap_or(0.0)
}

/// The largest resident set so far, bytes; since the last [`restart_peak`] if there was one. 0 where
/// the system does not tell.
pub fn max_rss_bytes() -> u64 {
    system::max_rss_bytes().unwrap_or(0)
}

/// Makes the peak of the resident set start anew from what is resident now, and returns that, in
/// bytes. Only Linux can; elsewhere the peak so far is returned and stays.
pub fn restart_peak() -> u64 {
    // 5 asks for just that; a kernel that refuses leaves the old peak standing.
    let _refused = fs::write("/proc/self/clear_refs", "5");
    max_rss_bytes()
}

#[cfg(unix)]
mod system {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::time::{ClockId, clock_gettime};
    use std::time::Duration;

    pub fn cpu_seconds() -> Option<f64> {
        // The clock, not `getrusage`: that one is behind by up to a tick for threads that are running.
        let clock = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok()?;
        Some(Duration::from(clock).as_secs_f64())
    }

    pub fn max_rss_bytes() -> Option<u64> {
        own_peak().or_else(usage_peak)
    }

    /// Of the program alone, where the system is Linux.
    fn own_peak() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes = peak.trim().strip_suffix(" kB")?;
        Some(kibibytes.parse::<u64>().ok()? * 1024)
    }

    /// On Linux that of whoever started the program counts too: of the same process before.
    fn usage_peak() -> Option<u64> {
        // Linux counts in KiB, macOS in bytes.
        let unit = if cfg!(target_vendor = "apple") {
            1
        } else {
            1024
        };
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        Some(usage.max_rss() as u64 * unit)
    }
}

/// Windows would tell in calls of its own, which are `unsafe`, and this is no room for that.
#[cfg(not(unix))]
mod system {
    pub fn cpu_seconds() -> Option<f64> {
        None
    }

    pub fn max_rss_bytes() -> Option<u64> {
        None
    }
}
