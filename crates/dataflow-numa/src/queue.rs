//! Queues: where the ready tasks of one job wait, and a worker's lane to them.
//!
//! Every worker has a deque: it pushes and pops at one end, last in, first out, and thieves take
//! the oldest from the other. It holds tasks of priority 0. Every NUMA node has a priority
//! queue under a lock for all others; of equal priorities the newest goes first, which
//! keeps the frontier of a task graph small.
//!
//! # Law
//! A word that was pushed comes out once. A worker takes what is near in this order: priorities
//! above 0, its deque, the rest; and steals ring by ring, the nearest first, beginning
//! elsewhere each time. A lane that is closed leaves its deque empty unless the job is stopping.
//!
//! # Cost
//! A push to the deque is a few stores and, if there are other workers, one fence, which
//! the [sleep protocol](crate::sleep) needs. The fast path allocates only when a queue grows.

use crate::nearest::Ring;
use crate::sleep::{Risen, Sleep};
use crate::statistics::Counters;
use crossbeam_deque::{Steal, Stealer, Worker as Deque};
use crossbeam_utils::CachePadded;
use dataflow_core::port::{Lane, Word};
use std::collections::BinaryHeap;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The queues of one job.
pub(crate) struct Queues {
    deques: Box<[CachePadded<Mutex<Deque<Word>>>]>,
    stealers: Box<[Stealer<Word>]>,
    numa: Box<[CachePadded<PriorityQueue>]>,
}

impl Queues {
    pub fn new(n_workers: usize, n_numa_nodes: usize) -> Self {
        let deques: Vec<_> = (0..n_workers).map(|_| Deque::new_lifo()).collect();
        let queue = |_| CachePadded::new(PriorityQueue::default());
        Queues {
            stealers: deques.iter().map(Deque::stealer).collect(),
            deques: deques
                .into_iter()
                .map(|deque| CachePadded::new(Mutex::new(deque)))
                .collect(),
            numa: (0..n_numa_nodes).map(queue).collect(),
        }
    }

    /// Whether a word lies in any queue, as far as the calling thread can see.
    pub fn has_words(&self) -> bool {
        self.numa.iter().any(|queue| queue.top() != EMPTY)
            || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }
}

/// What `top` says of an empty queue; priorities are raised above it.
const EMPTY: i64 = i64::MIN;

/// The priority queue of a NUMA node.
struct PriorityQueue {
    /// The most urgent priority queued, or `EMPTY`. Written under the lock only.
    top: AtomicI64,
    heap: Mutex<Heap>,
}

#[derive(Default)]
struct Heap {
    /// Priority, number of the push, word: so of equal priorities the newest is on top.
    entries: BinaryHeap<(i64, u64, Word)>,
    pushes: u64,
}

impl Default for PriorityQueue {
    fn default() -> Self {
        PriorityQueue {
            top: AtomicI64::new(EMPTY),
            heap: Mutex::default(),
        }
    }
}

impl PriorityQueue {
    /// A hint for everybody but the one who pushed last. Relaxed: sleepers are ordered by the
    /// fences of the sleep protocol, words by the lock.
    #[inline(always)]
    fn top(&self) -> i64 {
        self.top.load(Ordering::Relaxed)
    }

    fn push(&self, word: Word, priority: i64) {
        let priority = priority.max(EMPTY + 1);
        let mut heap = self.lock();
        heap.pushes += 1;
        let push = heap.pushes;
        heap.entries.push((priority, push, word));
        if priority > self.top() {
            self.top.store(priority, Ordering::Relaxed);
        }
    }

    fn pop(&self) -> Option<Word> {
        let mut heap = self.lock();
        let (_, _, word) = heap.entries.pop()?;
        let top = heap
            .entries
            .peek()
            .map_or(EMPTY, |&(priority, _, _)| priority);
        self.top.store(top, Ordering::Relaxed);
        Some(word)
    }

    fn lock(&self) -> MutexGuard<'_, Heap> {
        self.heap
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What a worker brings to every job.
pub(crate) struct Seat<'p> {
    pub worker: usize,
    pub numa_node: usize,
    pub rings: &'p [Ring],
    pub sleep: &'p Sleep,
    pub counters: &'p Counters,
    pub backlog: &'p dyn Backlog,
}

/// Knows whether a word is queued anywhere, for a job that is not over.
pub(crate) trait Backlog {
    /// As far as the calling thread can see; may take locks.
    fn has_words(&self) -> bool;
}

/// A worker's lane to the queues of the job it is in.
pub(crate) struct QueueLane<'q, 'p> {
    deque: MutexGuard<'q, Deque<Word>>,
    near: &'q PriorityQueue,
    queues: &'q Queues,
    seat: &'q Seat<'p>,
    has_others: bool,
    risen: Risen,
    /// Whether the last look found all queues empty.
    dry: bool,
    turn: usize,
}

impl<'q, 'p> QueueLane<'q, 'p> {
    /// Opens the lane of the worker on `seat`. The lock on its deque is never waited for, since
    /// no other thread has this seat.
    pub fn open(queues: &'q Queues, seat: &'q Seat<'p>, risen: Risen) -> Self {
        let deque = &queues.deques[seat.worker];
        QueueLane {
            deque: deque
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
            near: &queues.numa[seat.numa_node],
            queues,
            seat,
            has_others: queues.deques.len() > 1,
            risen,
            dry: false,
            turn: seat.worker,
        }
    }

    /// Whether the worker is still on duty, and whether it left because all queues were empty;
    /// otherwise the job itself told it to.
    pub fn close(self) -> (Risen, bool) {
        (self.risen, self.dry)
    }

    /// D1 to D3 of the sleep protocol.
    #[inline]
    fn found(&mut self) {
        if self.risen == Risen::OnDuty {
            self.risen = Risen::Free;
            self.seat
                .sleep
                .end_duty(self.seat.numa_node, || self.seat.backlog.has_words());
        }
    }

    #[inline]
    fn pop_near(&mut self) -> Option<Word> {
        let word = self.near.pop();
        if word.is_some() {
            self.found();
        }
        word
    }

    /// One look at everybody, the nearest ring first.
    fn look_around(&mut self) -> Steal<Word> {
        self.turn = self.turn.wrapping_add(1);
        let mut lost = false;
        for ring in self.seat.rings {
            let urgent = from(&ring.queues, self.turn).map(|queue| &self.queues.numa[queue]);
            if let Some(word) = urgent
                .filter(|queue| queue.top() > 0)
                .find_map(|queue| queue.pop())
            {
                return Steal::Success(word);
            }
            for victim in from(&ring.workers, self.turn) {
                match self.queues.stealers[victim].steal_batch_and_pop(&self.deque) {
                    Steal::Success(word) => return Steal::Success(word),
                    Steal::Retry => lost = true,
                    Steal::Empty => {}
                }
            }
            let rest = from(&ring.queues, self.turn).map(|queue| &self.queues.numa[queue]);
            if let Some(word) = rest
                .filter(|queue| queue.top() != EMPTY)
                .find_map(|queue| queue.pop())
            {
                return Steal::Success(word);
            }
        }
        if lost { Steal::Retry } else { Steal::Empty }
    }
}

/// All of a list, beginning with number `turn` of it.
fn from(list: &[usize], turn: usize) -> impl Iterator<Item = usize> + '_ {
    let (before, after) = list.split_at(turn.checked_rem(list.len()).unwrap_or(0));
    after.iter().chain(before).copied()
}

impl Lane for QueueLane<'_, '_> {
    fn worker(&self) -> usize {
        self.seat.worker
    }

    #[inline]
    fn push(&mut self, word: Word, priority: i64) {
        if priority == 0 {
            self.deque.push(word);
        } else {
            self.near.push(word, priority);
        }
        if self.has_others {
            self.seat.sleep.queued(self.seat.numa_node);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Word> {
        if self.near.top() > 0
            && let Some(word) = self.pop_near()
        {
            return Some(word);
        }
        if let Some(word) = self.deque.pop() {
            return Some(word);
        }
        if self.near.top() != EMPTY {
            self.pop_near()
        } else {
            None
        }
    }

    fn steal(&mut self) -> Option<Word> {
        loop {
            match self.look_around() {
                Steal::Success(word) => {
                    self.seat.counters.count_steal();
                    self.found();
                    return Some(word);
                }
                // Another thief was faster: it has a word now, there may be more.
                Steal::Retry => spin_loop(),
                Steal::Empty => {
                    self.dry = true;
                    return None;
                }
            }
        }
    }

    #[inline]
    fn outranks(&self, priority: i64) -> bool {
        self.near.top() > priority || (priority < 0 && !self.deque.is_empty())
    }
}
