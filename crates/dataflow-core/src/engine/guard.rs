//! Guard: what the engine keeps by thread, and the guard around a worker's visit.
//!
//! # Law
//! Nothing [foreign](crate::foreign) is called, dropped or shown outside of a guard while a worker is inside a
//! job.
//!
//! What the engine keeps by thread lies here, all of it: [`OfThread`] hands it to others.

use crate::error::{Error, Kind};
use crate::foreign::caught;
use std::cell::Cell;

thread_local! {
    /// Whether this thread is running tasks.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// In how many runs, scopes and recursions the task is nested that this thread runs; 0 outside of them.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The inbox into which the worker on this thread looks next, by its address; 0 if into none.
    static LOOKS_INTO: Cell<usize> = const { Cell::new(0) };
}

/// What the engine knows of a thread: whether it runs tasks, and in how many runs, scopes and recursions they
/// are nested.
///
/// For those who run several workers by turns on one thread: each has one of these, which is
/// [swapped](Self::swap) for the thread's when its turn begins and when it ends.
///
/// # Examples
/// ```
/// use dataflow_core::port::OfThread;
///
/// let (mut one, mut other) = (OfThread::default(), OfThread::default());
/// for worker in [&mut one, &mut other] {
///     worker.swap();
///     // … what the worker does until it must wait …
///     worker.swap();
/// }
/// ```
#[derive(Debug, Default)]
pub struct OfThread {
    inside: bool,
    depth: usize,
    looks_into: usize,
}

impl OfThread {
    /// The calling thread's becomes this, and this the thread's.
    pub fn swap(&mut self) {
        self.inside = INSIDE.replace(self.inside);
        self.depth = DEPTH.replace(self.depth);
        self.looks_into = LOOKS_INTO.replace(self.looks_into);
    }
}

/// Whether the current thread runs tasks.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// In how many runs, scopes and recursions the task is nested that the current thread runs.
pub(crate) fn depth() -> usize {
    DEPTH.get()
}

/// From here on it is nested in so many; answers in how many it was before.
pub(crate) fn replace_depth(depth: usize) -> usize {
    DEPTH.replace(depth)
}

/// Runs, scopes and recursions that may be nested in one another. The worker of the innermost task has them all
/// on its stack, with the frames of the bodies between: some three kilobytes each, ten without
/// optimisation, of the two megabytes that a thread has.
const DEEPEST: usize = 100;

/// A run, scope or recursion that is nested in so many, itself included, may begin.
pub(crate) fn refuse_too_deep(depth: usize) -> Result<(), Error> {
    if depth <= DEEPEST {
        return Ok(());
    }
    let text = format!(
        "{depth} runs, scopes and recursions are nested in one another (at most {DEEPEST} may be, for each \
         lies on the stack of a worker; calls that a recursion forks into have no such bound)"
    );
    Err(Error::new(Kind::NestedTooDeep, None, text))
}

/// The inbox into which the worker on the current thread looks next.
pub(crate) fn looks_into() -> usize {
    LOOKS_INTO.get()
}

/// From here on it is another; answers which it was.
pub(crate) fn replace_looks_into(inbox: usize) -> usize {
    LOOKS_INTO.replace(inbox)
}

/// Sets it for a while, and back whatever happens.
struct InsideGuard {
    outer: bool,
}

impl Drop for InsideGuard {
    fn drop(&mut self) {
        INSIDE.set(self.outer);
    }
}

/// A visit of a worker to a job. The text of the panic that ended it, if one did.
pub(crate) fn guarded(visit: impl FnOnce()) -> Option<String> {
    let _inside = InsideGuard {
        outer: INSIDE.replace(true),
    };
    caught(visit).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_share_a_thread_know_only_of_their_own_tasks_and_scopes() {
        let (mut one, mut other) = (OfThread::default(), OfThread::default());
        one.swap();
        INSIDE.set(true);
        replace_depth(3);
        one.swap();
        assert!(!is_inside() && depth() == 0, "the thread's own");
        other.swap();
        assert!(!is_inside() && depth() == 0, "the other's");
        other.swap();
        one.swap();
        assert!(is_inside() && depth() == 3);
        one.swap();
    }
}
