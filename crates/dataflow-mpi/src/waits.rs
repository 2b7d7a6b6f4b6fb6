//! Waits: how long a rank that has nothing to run looks for messages before it sleeps.
//!
//! # Law
//! To be woken takes 50 to 200 µs, because several threads have to get their turn: longer than most
//! waits of a graph of fine tasks. So a rank looks for twice as long as its waits have lasted of late.
//! Beside waits of more than two milliseconds ([`LONG`]) waking costs little: then it looks only for as
//! long as is set, and uses no processor.
//! For longer than that one worker looks for all; the others sleep. Who opens or closes a run waits for
//! other things than workers do, and by an account of its own.

use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// Waits that are worth looking through last at most so long.
const LONG: Duration = Duration::from_millis(2);

/// A lookout that has not looked for so long does something else.
const AWAY: Duration = Duration::from_micros(20);

/// What a rank knows of its waits. Hints for all threads: none orders anything else.
#[derive(Default)]
pub(crate) struct Waits {
    /// When a worker last began to wait, in nanoseconds; 0 if data have come since.
    since: AtomicU64,
    /// How long waits have lasted of late, in nanoseconds: each counts as much as all before it.
    usual: AtomicU64,
    /// Who looks for all, and when it looked last.
    lookout: AtomicU64,
}

impl Waits {
    /// A worker has nothing to run.
    pub fn begin(&self, now: Duration) {
        let now = now.as_nanos().max(1) as u64;
        self.since.store(now, Ordering::Relaxed);
    }

    /// Data have come.
    pub fn end(&self, now: Duration) {
        if self.since.load(Ordering::Relaxed) == 0 {
            return;
        }
        let since = Duration::from_nanos(self.since.swap(0, Ordering::Relaxed));
        self.note(now.saturating_sub(since));
    }

    /// Somebody has waited for so long.
    pub fn note(&self, wait: Duration) {
        let usual = (self.usual() + wait.min(2 * LONG)) / 2;
        self.usual.store(usual.as_nanos() as u64, Ordering::Relaxed);
    }

    /// How long to look, where no less than `spin` is wanted; for no time at all if that is none.
    pub fn look_for(&self, spin: Duration) -> Duration {
        let usual = self.usual();
        match spin.is_zero() || usual > LONG {
            true => spin,
            false => spin.max(LONG.min(2 * usual)),
        }
    }

    /// Whether the calling thread looks for all, since nobody else does.
    pub fn is_lookout(&self, now: Duration) -> bool {
        let (other, looked) = unpack(self.lookout.load(Ordering::Relaxed));
        let is_mine = other == this_thread() || now.saturating_sub(looked) > AWAY;
        if is_mine {
            let mine = pack(this_thread(), now);
            self.lookout.store(mine, Ordering::Relaxed);
        }
        is_mine
    }

    fn usual(&self) -> Duration {
        Duration::from_nanos(self.usual.load(Ordering::Relaxed))
    }
}

/// A thread in 16 bits, and a time in microseconds.
fn pack(thread: u16, time: Duration) -> u64 {
    (time.as_micros() as u64) << 16 | u64::from(thread)
}

fn unpack(packed: u64) -> (u16, Duration) {
    (packed as u16, Duration::from_micros(packed >> 16))
}

/// A number of the calling thread, not 0. Of two that share one both look, which does no harm.
fn this_thread() -> u16 {
    // Of `std`: those of models cannot be static.
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<u16> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        NUMBER.set((number % usize::from(u16::MAX)) as u16 + 1);
    }
    NUMBER.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(50);

    /// What a rank looks for after waits of these lengths, in microseconds.
    fn after(waits: &[u64]) -> Duration {
        let known = Waits::default();
        for (start, &wait) in (1..).zip(waits) {
            let start = Duration::from_secs(start);
            known.begin(start);
            known.end(start + Duration::from_micros(wait));
            known.end(start + Duration::from_secs(1));
        }
        known.look_for(SPIN)
    }

    #[test]
    fn a_rank_looks_through_its_usual_waits_and_sleeps_through_long_ones() {
        assert_eq!(after(&[]), SPIN);
        assert_eq!(after(&[20; 9]), SPIN);
        let through = after(&[300; 9]);
        assert!(through > Duration::from_micros(550), "{through:?}");
        assert!(through <= Duration::from_micros(600), "{through:?}");
        assert_eq!(after(&[1_500; 9]), LONG);
        assert_eq!(after(&[1_000_000]), SPIN.max(LONG));
        assert_eq!(after(&[1_000_000; 2]), SPIN);
        assert_eq!(after(&[1_000_000, 1_000_000, 100]), LONG);
    }

    #[test]
    fn who_shall_not_look_does_not_look() {
        let known = Waits::default();
        known.begin(Duration::from_secs(1));
        known.end(Duration::from_secs(1) + Duration::from_micros(300));
        assert_eq!(known.look_for(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn one_thread_looks_for_all_until_it_has_something_else_to_do() {
        let known = Waits::default();
        let is_lookout = |micros| known.is_lookout(Duration::from_micros(micros));
        let elsewhere =
            |micros| std::thread::scope(|scope| scope.spawn(|| is_lookout(micros)).join().unwrap());
        assert!(is_lookout(1_000));
        assert!(!elsewhere(1_010) && is_lookout(1_020));
        assert!(!elsewhere(1_030));
        assert!(elsewhere(1_041));
        assert!(!is_lookout(1_050));
    }
}
