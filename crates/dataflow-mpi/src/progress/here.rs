//! Here: whether the calling thread moves messages or acts by turns, and when it looked last.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// Whether this thread moves messages right now.
    pub(super) static MOVING: Cell<bool> = const { Cell::new(false) };
    /// Whether whoever runs on this thread acts by turns: it rests only between them.
    static BY_TURNS: Cell<bool> = const { Cell::new(false) };
    /// When this thread looked last: before the task that it runs.
    pub(super) static LOOKED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// What is kept by thread here: for those who run several by turns on one. (Numbers of threads, which
/// `waits` gives, tell apart who looks for long; in virtual time nobody does.)
#[derive(Default)]
pub(crate) struct OfThread {
    moving: bool,
    by_turns: bool,
    looked: Duration,
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
