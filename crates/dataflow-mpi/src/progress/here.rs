//! Here: whether the calling thread moves messages or acts by turns, and when it looked last.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// Whether this thread moves messages right now.
    pub(super) static MOVING: Cell<bool> = const { Cell::new(false) };
    /// Whether the code that runs on this thread acts by turns: it rests only between them.
    static BY_TURNS: Cell<bool> = const { Cell::new(false) };
    /// When this thread looked last: before the task that it runs, or some short ones before it.
    pub(super) static LOOKED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// So many tasks this thread runs before it looks again, and from one look to the next.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    static PERIOD: Cell<u32> = const { Cell::new(0) };
}

/// A look costs what a short task does, over sockets ten of them: so short tasks share one.
const BETWEEN_LOOKS: Duration = Duration::from_micros(2);
/// Those that follow may be long.
const LONGEST_PERIOD: u32 = 31;

/// Whether the calling thread looks before its next task.
#[inline]
pub(super) fn is_time_to_look() -> bool {
    match LEFT.get() {
        0 => true,
        left => {
            LEFT.set(left - 1);
            false
        }
    }
}

/// The calling thread looks before its next task, whatever that is.
pub(super) fn looks_next() {
    LEFT.set(0);
}

/// From the last look to this one it took so long: more tasks, or fewer, until the next.
pub(super) fn looks_again_after(since: Duration) {
    if since < BETWEEN_LOOKS {
        PERIOD.set((2 * PERIOD.get() + 1).min(LONGEST_PERIOD));
    } else if since > 2 * BETWEEN_LOOKS {
        PERIOD.set(PERIOD.get() / 2);
    }
    LEFT.set(PERIOD.get());
}

/// What is kept by thread here: for those who run several by turns on one. (Numbers of threads, which
/// `waits` gives, tell apart who looks for long; in virtual time nobody does.)
#[derive(Default)]
pub(crate) struct OfThread {
    moving: bool,
    by_turns: bool,
    looked: Duration,
    left: u32,
    period: u32,
}

impl OfThread {
    /// Of one that acts by turns, or waits where it stands.
    pub fn new(by_turns: bool) -> Self {
        OfThread {
            by_turns,
            ..OfThread::default()
        }
    }

    /// The calling thread's becomes this, and this the thread's.
    pub fn swap(&mut self) {
        self.moving = MOVING.replace(self.moving);
        self.by_turns = BY_TURNS.replace(self.by_turns);
        self.looked = LOOKED.replace(self.looked);
        self.left = LEFT.replace(self.left);
        self.period = PERIOD.replace(self.period);
    }
}

/// Whether the calling thread moves messages: then it must not wait for any.
pub(crate) fn is_moving() -> bool {
    MOVING.get()
}

/// Whether the calling thread may wait for a message.
pub(crate) fn may_wait() -> bool {
    !is_moving() && !BY_TURNS.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many tasks this thread runs until it looks.
    fn tasks_until_a_look() -> u32 {
        (0..).find(|_| is_time_to_look()).unwrap_or_default()
    }

    #[test]
    fn short_tasks_share_a_look_and_long_ones_and_those_that_send_have_their_own() {
        let look_after = |nanoseconds| {
            looks_again_after(Duration::from_nanos(nanoseconds));
            tasks_until_a_look()
        };
        assert_eq!(tasks_until_a_look(), 0);
        assert_eq!([300; 6].map(look_after), [1, 3, 7, 15, 31, 31]);
        assert_eq!(look_after(3_000), 31, "as often as it shall be");
        assert_eq!([1 << 20; 6].map(look_after), [15, 7, 3, 1, 0, 0]);
        look_after(300);
        looks_again_after(Duration::ZERO);
        looks_next();
        assert_eq!(tasks_until_a_look(), 0, "it has sent");
    }
}
