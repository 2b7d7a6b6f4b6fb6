//! Announce: roots enter the run, lazily and in bounded number.
//!
//! Roots are pulled from the space in chunks, by workers that have nothing else nearby; so a
//! space of 10⁹ independent tasks costs no memory. A chunk stays with the worker that pulled it, but for
//! roots whose data lie on another NUMA node: these are queued there, in any number, until workers of
//! that node have time.
//! Chunks start small, grow with what has been pulled, and shrink towards the end where it is known
//! (guided self-scheduling), so that nobody waits long for work that sits in another's chunk. Most
//! spaces do not know how many of their tasks are roots: each of the last chunks is then a small part
//! of what every worker has had. Roots with a priority go through the queues, where the most urgent is
//! found and everybody finds it: of those more are pulled at once.
//!
//! One worker at a time asks the space for roots, which may take long (by default all tasks are
//! looked at). The others do not wait for it: they take what is queued meanwhile.
//!
//! # Source
//! Polychronopoulos, Kuck, *Guided self-scheduling*, IEEE Transactions on Computers C-36 (1987).

use super::Ledger;
use crate::foreign::drop_quietly;
use smallvec::SmallVec;
use std::sync::{Mutex, TryLockError};

/// Roots in one chunk at most.
const LARGEST_CHUNK: usize = 64;
/// A chunk is at most this part of what may remain for each worker.
const PART: u64 = 4;
/// And at most this part of what each has had.
const PART_OF_PULLED: u64 = 16;

/// What became of looking for roots.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    /// There may be some in hand, or queued.
    Some,
    /// There are no more.
    AllBefore,
    /// Another worker is looking.
    ByAnother,
}

/// Where roots come from; a trait object, so that no type has to name the iterators of a space.
pub(crate) trait RootSource<T>: Send {
    /// How many are left at most, where that is known.
    fn left(&self) -> Option<usize>;
    /// Appends the next ones, so many at most.
    fn pull(&mut self, n: usize, into: &mut Chunk<T>);
}

/// Roots that the space is asked for when the first is pulled.
struct LazyRoots<A, I> {
    ask: Option<A>,
    roots: Option<I>,
}

impl<T, A, I> RootSource<T> for LazyRoots<A, I>
where
    A: FnOnce() -> I + Send,
    I: Iterator<Item = T> + Send,
{
    fn left(&self) -> Option<usize> {
        self.roots.as_ref()?.size_hint().1
    }

    fn pull(&mut self, n: usize, into: &mut Chunk<T>) {
        if let Some(ask) = self.ask.take() {
            self.roots = Some(ask());
        }
        for _ in 0..n {
            let Some(root) = self.roots.as_mut().and_then(Iterator::next) else {
                return;
            };
            into.push(root);
        }
    }
}

/// Roots that a worker has in hand.
pub(crate) type Chunk<T> = SmallVec<[T; LARGEST_CHUNK]>;

/// The roots that have not been announced yet.
pub(crate) struct Roots<'a, T> {
    /// `None` after the last.
    rest: Option<Box<dyn RootSource<T> + 'a>>,
    announced: u64,
    chunk: usize,
}

impl<'a, T> Roots<'a, T> {
    /// Those that the space answers, by a worker, once it pulls the first.
    pub fn new<I: Iterator<Item = T> + Send + 'a>(ask: impl FnOnce() -> I + Send + 'a) -> Self {
        Roots {
            rest: Some(Box::new(LazyRoots {
                ask: Some(ask),
                roots: None,
            })),
            announced: 0,
            chunk: 1,
        }
    }

    /// Takes some in hand, the next one last: fewer towards the end.
    pub fn pull(
        roots: &Mutex<Self>,
        ledger: &Ledger,
        has_priority: impl Fn(&T) -> bool,
        into: &mut Chunk<T>,
    ) -> Pulled {
        let mut roots = match roots.try_lock() {
            Ok(roots) => roots,
            // Or another has looked, and the space has panicked: that worker stops the run, and what the space
            // would say next is not why.
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => return Pulled::ByAnother,
        };
        let roots = &mut *roots;
        let Some(rest) = &mut roots.rest else {
            return Pulled::AllBefore;
        };
        // Of tasks; where the space knows how many roots are left, of those.
        let remain = ledger.count().saturating_sub(roots.announced);
        let remain = rest.left().map_or(remain, |n| remain.min(n as u64));
        let n_workers = ledger.n_workers() as u64;
        let fair = remain / (PART * n_workers) + 1;
        let mut size = roots.chunk.min(fair as usize);
        roots.chunk = (2 * size).min(LARGEST_CHUNK);
        let to_keep = roots.announced / (PART_OF_PULLED * n_workers) + 1;
        let to_keep = size.min(to_keep as usize);
        rest.pull(to_keep, into);
        match into.iter().any(has_priority) {
            true => rest.pull(size - to_keep, into),
            false => size = to_keep,
        }
        let pulled = into.len();
        if pulled < size {
            roots.rest = None;
            ledger.all_announced();
        }
        roots.announced += pulled as u64;
        // Taken from the back, so that roots run in their order.
        into.reverse();
        Pulled::Some
    }
}

/// A run that was stopped leaves the rest here, whose iterator is foreign.
impl<T> Drop for Roots<'_, T> {
    fn drop(&mut self) {
        drop_quietly(self.rest.take());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::foreign::caught;
    use std::sync::atomic::{AtomicU64, Ordering};

    const N_ROOTS: u64 = 10_000;
    const N_WORKERS: usize = 3;

    /// The roots of a space of so many tasks, chunk by chunk, each in the order in which its worker takes
    /// them.
    fn chunks(
        n_tasks: u64,
        roots: impl Iterator<Item = u64> + Send,
        has_priority: bool,
    ) -> Vec<Vec<u64>> {
        let (roots, ledger) = (
            Mutex::new(Roots::new(|| roots)),
            Ledger::new(N_WORKERS, n_tasks, false),
        );
        let mut chunks = Vec::new();
        loop {
            let mut chunk = Chunk::new();
            match Roots::pull(&roots, &ledger, |_| has_priority, &mut chunk) {
                Pulled::Some => chunks.push(chunk.into_iter().rev().collect()),
                Pulled::AllBefore => break,
                Pulled::ByAnother => unreachable!("there is no other"),
            }
        }
        assert!(ledger.is_announced());
        chunks
    }

    /// A worker that has pulled the last large chunk would run it alone.
    #[test]
    fn chunks_grow_and_shrink_again_whether_or_not_the_space_knows_how_many_roots_are_left() {
        let mut next = [0..N_ROOTS, 0..N_ROOTS];
        let [first, second] = &mut next;
        for chunks in [
            chunks(N_ROOTS, 0..N_ROOTS, false),
            chunks(N_ROOTS, std::iter::from_fn(|| first.next()), false),
            chunks(N_ROOTS, std::iter::from_fn(|| second.next()), true),
        ] {
            assert!(chunks.concat().into_iter().eq(0..N_ROOTS), "in their order");
            let mut left = N_ROOTS as usize;
            for chunk in &chunks {
                let fair = left / (PART as usize * N_WORKERS) + 1;
                assert!(
                    chunk.len() <= fair.min(LARGEST_CHUNK),
                    "{} of {left}",
                    chunk.len()
                );
                left -= chunk.len();
            }
            let largest = chunks.iter().map(Vec::len).max();
            assert!(chunks[0].len() == 1 && largest == Some(LARGEST_CHUNK));
        }
    }

    /// Another was told of the root behind the one that was missing.
    #[test]
    fn a_space_that_has_panicked_is_asked_for_no_further_roots() {
        let asked = AtomicU64::new(0);
        let list = (0..N_ROOTS).inspect(|root| {
            asked.fetch_add(1, Ordering::Relaxed);
            assert!(*root < 1, "no root {root}");
        });
        let (roots, ledger) = (
            Mutex::new(Roots::new(|| list)),
            Ledger::new(N_WORKERS, N_ROOTS, false),
        );
        let pull = || Roots::pull(&roots, &ledger, |_| false, &mut Chunk::new());
        assert_eq!(pull(), Pulled::Some);
        assert_eq!(caught(pull), Err("no root 1".into()));
        assert_eq!([pull(), pull()], [Pulled::ByAnother; 2]);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    /// A hundred long chains of many tasks, on hundreds of workers, would run on a few.
    #[test]
    fn where_few_of_many_tasks_are_roots_nobody_pulls_many_more_than_others() {
        let mut next = 0..N_ROOTS;
        let chunks = chunks(1000 * N_ROOTS, std::iter::from_fn(|| next.next()), false);
        let mut pulled = 0;
        for chunk in &chunks {
            let had = pulled / N_WORKERS;
            assert!(chunk.len() <= had / 16 + 1, "{} after {had}", chunk.len());
            pulled += chunk.len();
        }
    }
}
