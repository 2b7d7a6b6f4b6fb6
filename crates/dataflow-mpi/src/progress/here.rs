//! Here: whether the calling thread moves messages, and when it looked last.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// Whether this thread moves messages right now.
    pub(super) static MOVING: Cell<bool> = const { Cell::new(false) };
    /// When this thread looked last: before the task that it runs.
    pub(super) static LOOKED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// What is kept by thread here: for those who run several by turns on one. (Numbers of threads, which
/// `waits` gives, tell apart who looks for long; in virtual time nobody does.)
#[derive(Default)]
pub(crate) struct OfThread {
    moving: bool,
    looked: Duration,
}

impl OfThread {
    /// The calling thread's becomes this, and this the thread's.
    pub fn swap(&mut self) {
        self.moving = MOVING.replace(self.moving);
        self.looked = LOOKED.replace(self.looked);
    }
}

/// Whether the calling thread moves messages: then it must not wait for any.
pub(crate) fn is_moving() -> bool {
    MOVING.get()
}
