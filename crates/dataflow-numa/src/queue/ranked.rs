//! Ranked: tasks in an order, under a lock, with the first one's priority in plain sight.
//!
//! # Law
//! What comes out is first in the queue's [`Order`]. `top` is written under the lock only; it is
//! exact for the thread that wrote last and a hint for all others.
//!
//! # Cost
//! A push or a pop takes an uncontended lock (some 14 ns) and moves log₂(n) entries. A queue that
//! two workers use all the time costs each a cache line per entry moved: that is why workers have
//! their own.

use crate::policy::Order;
use crate::sync::held;
use dataflow_core::port::Word;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// What `top` says of an empty queue; priorities are raised above it.
pub(crate) const EMPTY: i64 = i64::MIN;

/// Rank, a number that orders equal ranks, word: the greatest comes first.
pub(crate) type RankedWord = (i64, u64, Word);

/// A queue of tasks in some order.
pub(crate) struct Ranked {
    order: Order,
    /// The rank of the first, or `EMPTY`.
    top: AtomicI64,
    heap: Mutex<RankedHeap>,
}

#[derive(Default)]
struct RankedHeap {
    entries: BinaryHeap<RankedWord>,
    pushes: u64,
}

impl RankedHeap {
    fn top(&self) -> i64 {
        self.entries.peek().map_or(EMPTY, |&(rank, _, _)| rank)
    }
}

impl Ranked {
    pub fn new(order: Order) -> Self {
        Ranked {
            order,
            top: AtomicI64::new(EMPTY),
            heap: Mutex::default(),
        }
    }

    /// Relaxed: sleepers are ordered by the fences of the sleep protocol, words by the lock.
    #[inline(always)]
    pub fn top(&self) -> i64 {
        self.top.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.top() == EMPTY
    }

    pub fn push(&self, word: Word, priority: i64) {
        let mut heap = self.lock();
        heap.pushes += 1;
        let newest = heap.pushes;
        let (rank, among_equals) = match self.order {
            Order::Priority => (priority.max(EMPTY + 1), newest),
            Order::Lifo => (0, newest),
            Order::Fifo => (0, u64::MAX - newest),
        };
        heap.entries.push((rank, among_equals, word));
        if rank > self.top() {
            self.top.store(rank, Ordering::Relaxed);
        }
    }

    pub fn pop(&self) -> Option<Word> {
        self.pop_from(self.lock())
    }

    /// The first, if it is still above `rank` and nobody else is at the queue.
    pub fn try_pop_above(&self, rank: i64) -> Option<Word> {
        let heap = match self.heap.try_lock() {
            Ok(heap) => heap,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if heap.top() > rank {
            self.pop_from(heap)
        } else {
            None
        }
    }

    fn pop_from(&self, mut heap: MutexGuard<'_, RankedHeap>) -> Option<Word> {
        let (_, _, word) = heap.entries.pop()?;
        self.top.store(heap.top(), Ordering::Relaxed);
        Some(word)
    }

    /// The first, and every second of the others into `loot`: both halves keep tasks of every
    /// rank.
    pub fn take_half(&self, loot: &mut Vec<RankedWord>) -> Option<Word> {
        let mut heap = self.lock();
        let (_, _, first) = heap.entries.pop()?;
        let mut rest = std::mem::take(&mut heap.entries).into_vec();
        let mut odd = false;
        rest.retain(|&entry| {
            odd = !odd;
            if !odd {
                loot.push(entry);
            }
            odd
        });
        heap.entries = rest.into();
        self.top.store(heap.top(), Ordering::Relaxed);
        Some(first)
    }

    /// Takes in what was taken from another queue of the same order.
    pub fn absorb(&self, loot: &mut Vec<RankedWord>) {
        let mut heap = self.lock();
        heap.entries.extend(loot.drain(..));
        self.top.store(heap.top(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, RankedHeap> {
        held(&self.heap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(order: Order) -> Ranked {
        let queue = Ranked::new(order);
        for (word, priority) in [(1, 5), (2, -3), (3, 5), (4, 0), (5, i64::MIN), (6, 9)] {
            queue.push(word, priority);
        }
        queue
    }

    fn drain(queue: &Ranked) -> Vec<Word> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn each_order_hands_out_what_it_promises() {
        assert_eq!(drain(&filled(Order::Priority)), [6, 3, 1, 4, 2, 5]);
        assert_eq!(drain(&filled(Order::Fifo)), [1, 2, 3, 4, 5, 6]);
        assert_eq!(drain(&filled(Order::Lifo)), [6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn the_top_is_the_rank_of_the_first_and_empty_at_the_end() {
        let queue = filled(Order::Priority);
        let tops: Vec<i64> = std::iter::from_fn(|| {
            let top = queue.top();
            queue.pop().map(|_| top)
        })
        .collect();
        assert_eq!(tops, [9, 5, 5, 0, -3, EMPTY + 1]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_thief_takes_the_first_and_half_of_the_rest_and_nothing_is_lost() {
        for n in 0..20 {
            let (victim, thief) = (Ranked::new(Order::Priority), Ranked::new(Order::Priority));
            (0..n).for_each(|word| victim.push(word, (word as i64 * 7) % 11));
            let mut loot = Vec::new();
            let first = victim.take_half(&mut loot);
            let most = (0..n).map(|word| (word as i64 * 7) % 11).max();
            assert_eq!(first.map(|word| (word as i64 * 7) % 11), most);
            assert_eq!(loot.len() as u64, n.saturating_sub(1) / 2);
            thief.absorb(&mut loot);
            for queue in [&victim, &thief] {
                // A worker that sees a task that is not there comes for it again and again.
                assert_eq!(queue.top(), queue.lock().top());
            }
            let mut all: Vec<Word> = first.into_iter().collect();
            all.extend(drain(&victim));
            all.extend(drain(&thief));
            all.sort_unstable();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn only_what_is_more_urgent_is_taken_in_passing() {
        let queue = filled(Order::Priority);
        assert_eq!(queue.try_pop_above(9), None);
        assert_eq!(queue.try_pop_above(8), Some(6));
        assert_eq!(Ranked::new(Order::Priority).try_pop_above(EMPTY), None);
    }
}
