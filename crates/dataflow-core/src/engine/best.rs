//! Best: which of the tasks that one task made ready runs next on the same worker.

use crate::port::Lane;

/// The most urgent of the tasks that one task made ready, as far as they have been looked at.
///
/// Its worker runs it next, without a queue between; the others are queued. Spaces, sequences, recorded
/// programs and simulated machines all choose by it.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Best, Offer};
///
/// let mut best = Best::new();
/// assert_eq!(best.offer("a", 1, false), Offer::Best(None));
/// assert_eq!(best.offer("b", 2, false), Offer::Best(Some(("a", 1))));
/// assert_eq!(best.offer("c", 2, false), Offer::Other("c", 2));
/// // A task that belongs elsewhere is queued, however urgent it is.
/// assert_eq!(best.offer("d", 3, true), Offer::Other("d", 3));
/// ```
#[derive(Debug)]
pub struct Best<R>(Option<(R, i64)>);

/// What becomes of a task that was [offered](Best::offer).
///
/// # Examples
/// ```
/// use dataflow_core::port::{Best, Offer};
///
/// let mut best = Best::new();
/// let ready = [("a", 1), ("b", 2), ("c", 0)];
/// let offers = ready.map(|(task, priority)| best.offer(task, priority, false));
/// let queued = offers.into_iter().filter_map(Offer::queued);
/// assert!(queued.eq([("a", 1), ("c", 0)])); // "b" is the best.
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum Offer<R> {
    /// It is the best so far. The one that was the best before is to be queued.
    Best(Option<(R, i64)>),
    /// It is to be queued.
    Other(R, i64),
}

impl<R> Offer<R> {
    /// The task to be queued, and its priority.
    #[inline(always)]
    pub fn queued(self) -> Option<(R, i64)> {
        match self {
            Offer::Best(before) => before,
            Offer::Other(ready, priority) => Some((ready, priority)),
        }
    }
}

/// What becomes of the [best](Best::next).
///
/// # Examples
/// ```
/// use dataflow_core::port::{Best, Lane, Next, Word};
///
/// /// Its most urgent task has this priority.
/// struct Queue(i64);
///
/// impl Lane for Queue {
///     fn outranks(&self, priority: i64) -> bool { self.0 > priority }
/// #   fn worker(&self) -> usize { 0 }
/// #   fn push(&mut self, _word: Word, _priority: i64) {}
/// #   fn pop(&mut self) -> Option<Word> { None }
/// #   fn steal(&mut self) -> Option<Word> { None }
///     // …
/// }
///
/// let next = |queue: Queue| {
///     let mut best = Best::new();
///     best.offer("a", 5, false);
///     best.next(&queue)
/// };
/// assert_eq!(next(Queue(3)), Some(Next::Runs("a")));
/// assert_eq!(next(Queue(7)), Some(Next::Queued("a", 5)));
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum Next<R> {
    /// It runs next.
    Runs(R),
    /// A queued task is more urgent: it is to be queued, too.
    Queued(R, i64),
}

impl<R> Best<R> {
    /// None so far.
    #[inline(always)]
    pub fn new() -> Self {
        Best(None)
    }

    /// One more is ready, of this priority, and belongs to another NUMA node or not. Of equally
    /// urgent tasks the first is the best.
    #[inline(always)]
    pub fn offer(&mut self, ready: R, priority: i64, goes_elsewhere: bool) -> Offer<R> {
        let is_less = |best: &(R, i64)| best.1 >= priority;
        match goes_elsewhere || self.0.as_ref().is_some_and(is_less) {
            true => Offer::Other(ready, priority),
            false => Offer::Best(self.0.replace((ready, priority))),
        }
    }

    /// All have been offered.
    #[inline(always)]
    pub fn next(self, lane: &dyn Lane) -> Option<Next<R>> {
        let (best, priority) = self.0?;
        Some(match lane.outranks(priority) {
            true => Next::Queued(best, priority),
            false => Next::Runs(best),
        })
    }
}

impl<R> Default for Best<R> {
    fn default() -> Self {
        Self::new()
    }
}
