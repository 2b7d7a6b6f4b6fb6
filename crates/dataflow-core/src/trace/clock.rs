//! Clock: what tells the time in a trace.
//!
//! # Law
//! Reading it is a few instructions: the processor's counter of cycles, where that counts evenly in
//! every state of the processor and the system trusts it; else the system's clock. What a cycle is in
//! nanoseconds is known afterwards, from two readings of both clocks, so nothing waits at the start.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock of ticks.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Context, Inline};
/// use dataflow_core::space::Independent;
/// use dataflow_core::trace::{Clock, Tracer};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let time = Arc::new(AtomicU64::new(0));
/// let told = time.clone();
/// let tracer = Tracer::with_clock(1 << 20, Clock::given(move || told.load(Relaxed)));
/// let seconds = Independent::new("seconds", 3, |_| {
///     time.fetch_add(1_000_000_000, Relaxed);
///     Ok(())
/// });
/// dataflow_core::run(&seconds, &Context::new(&Inline).traced_by(&tracer))?;
/// assert_eq!(tracer.take()[0].length(), 3_000_000_000);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Clock {
    given: Option<Arc<dyn Fn() -> u64 + Send + Sync>>,
    counts: bool,
}

impl Clock {
    /// The fastest clock of this machine.
    pub fn of_machine() -> Self {
        Clock {
            given: None,
            counts: counts_evenly(),
        }
    }

    /// Nanoseconds that somebody else tells: virtual time.
    pub fn given(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Clock {
            given: Some(Arc::new(now)),
            counts: false,
        }
    }

    /// Whether somebody else tells it.
    pub(super) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Ticks since some moment: cycles, or nanoseconds.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        if self.counts {
            return count();
        }
        match &self.given {
            Some(now) => now(),
            None => since_start(),
        }
    }

    /// Now, by this clock and by the system's.
    pub(crate) fn moment(&self) -> ClockReading {
        if self.given.is_some() {
            let now = self.now();
            return ClockReading {
                ticks: now,
                steady: now,
                date: now,
                length: 0,
            };
        }
        // A thread that is interrupted between two readings has a moment that is long.
        let mut moments = (0..READINGS).map(|_| self.reading());
        let first = moments.next().unwrap_or_default();
        moments.fold(first, |best, other| match other.length < best.length {
            true => other,
            false => best,
        })
    }

    fn reading(&self) -> ClockReading {
        let before = self.now();
        let date = SystemTime::now().duration_since(UNIX_EPOCH);
        let steady = since_start();
        let length = self.now().saturating_sub(before);
        ClockReading {
            ticks: before + length / 2,
            steady,
            date: date.map_or(0, |date| date.as_nanos() as u64),
            length,
        }
    }
}

/// How often the clocks are read for a moment: the shortest reading counts.
const READINGS: usize = if cfg!(miri) { 1 } else { 8 };

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.given, self.counts) {
            (Some(_), _) => "Clock(given)",
            (None, true) => "Clock(cycles)",
            (None, false) => "Clock(system)",
        })
    }
}

/// One moment by three clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClockReading {
    ticks: u64,
    /// Nanoseconds that never go back.
    steady: u64,
    /// Nanoseconds since 1970.
    date: u64,
    /// Ticks that the readings took.
    length: u64,
}

impl ClockReading {
    /// Nanoseconds since 1970.
    pub fn date(&self) -> u64 {
        self.date
    }

    pub fn ticks(&self) -> u64 {
        self.ticks
    }
}

/// Ticks as nanoseconds since the first of two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickScale {
    from: ClockReading,
    /// Nanoseconds of a tick.
    tick: f64,
    /// Ticks that the second reading took.
    to_length: u64,
}

impl TickScale {
    pub fn new(from: ClockReading, to: ClockReading) -> Self {
        let ticks = to.ticks.saturating_sub(from.ticks);
        let steady = to.steady.saturating_sub(from.steady);
        let tick = match ticks {
            0 => 1.0,
            _ => steady as f64 / ticks as f64,
        };
        TickScale {
            from,
            tick,
            to_length: to.length,
        }
    }

    /// How wrong dates are that are made of ticks, nanoseconds.
    pub fn error(&self) -> u64 {
        let ticks = (self.from.length + self.to_length).div_ceil(2);
        (ticks as f64 * self.tick).ceil() as u64
    }

    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        let since = ticks.saturating_sub(self.from.ticks) as f64 * self.tick;
        since.round() as u64
    }
}

/// Nanoseconds since the first call of this process.
fn since_start() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Whether the counter of cycles counts time.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
fn counts_evenly() -> bool {
    static EVENLY: OnceLock<bool> = OnceLock::new();
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    *EVENLY.get_or_init(|| {
        // What Linux itself tells the time by was found to be even, and the same on all processors.
        std::fs::read_to_string(source).is_ok_and(|source| source.trim() == "tsc")
    })
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
fn counts_evenly() -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn count() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, which only reads a counter
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn count() -> u64 {
    since_start()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_as_long_as_two_moments_say() {
        let at = |ticks, steady, date| ClockReading {
            ticks,
            steady,
            date,
            length: 20,
        };
        let scale = TickScale::new(at(100, 1000, 5_000), at(200, 1050, 9_999));
        let told = [100, 101, 150, 200].map(|ticks| scale.nanoseconds(ticks));
        // Half a nanosecond is rounded away from nothing; dates are not asked, they may jump.
        assert_eq!(told, [0, 1, 25, 50]);
        // Each reading took twenty ticks of half a nanosecond: half of both.
        assert_eq!(scale.error(), 10);
    }

    #[test]
    fn the_clock_of_the_machine_goes_as_the_system_does() {
        let clock = Clock::of_machine();
        let from = clock.moment();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (middle, to) = (clock.now(), clock.moment());
        let scale = TickScale::new(from, to);
        let slept = scale.nanoseconds(middle) - scale.nanoseconds(from.ticks);
        assert!(slept >= 20_000_000, "{slept} ns of 20 ms, {clock:?}");
        assert!(scale.nanoseconds(to.ticks) - scale.nanoseconds(middle) < slept);
    }
}
