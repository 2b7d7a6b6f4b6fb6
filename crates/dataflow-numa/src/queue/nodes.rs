//! Nodes: the lane of a worker that shares all its queues, with its NUMA node or with everybody.
//!
//! # Law
//! A worker takes what is first in the queue's order; so among workers of one queue the order is
//! kept exactly. Thieves take one task at a time, nearest ring first, beginning elsewhere each time.
//!
//! # Cost
//! A lock and log₂(n) moves for each push and pop, on cache lines that all workers of the queue use.

use super::from;
use super::ranked::Ranked;
use super::seat::{Seat, Stay};
use crate::policy::{Order, Placer};
use crate::sleep::Risen;
use crossbeam_utils::CachePadded;
use dataflow_core::port::{Hint, Lane, Ready, Wants, Word};

/// The queues of one job: one per NUMA node, or one.
pub(crate) struct NodeQueues {
    queues: Box<[CachePadded<Ranked>]>,
}

impl NodeQueues {
    pub fn new(order: Order, n_queues: usize) -> Self {
        let queue = |_| CachePadded::new(Ranked::new(order));
        NodeQueues {
            queues: (0..n_queues).map(queue).collect(),
        }
    }

    pub fn has_words_on(&self, node: usize) -> bool {
        !self.of(node).is_empty()
    }

    fn of(&self, node: usize) -> &Ranked {
        match &*self.queues {
            [one] => one,
            queues => &queues[node],
        }
    }
}

/// A worker's lane to the queues of the job it is in.
pub(crate) struct NodesLane<'q, 'p> {
    near: &'q Ranked,
    queues: &'q NodeQueues,
    placer: &'q Placer,
    stay: Stay<'q, 'p>,
}

impl<'q, 'p> NodesLane<'q, 'p> {
    pub fn open(
        queues: &'q NodeQueues,
        placer: &'q Placer,
        seat: &'q Seat<'p>,
        risen: Risen,
    ) -> Self {
        NodesLane {
            near: queues.of(seat.numa_node),
            queues,
            placer,
            stay: Stay::begin(seat, risen),
        }
    }

    pub fn close(self) -> (Risen, bool) {
        self.stay.end()
    }
}

impl Lane for NodesLane<'_, '_> {
    fn worker(&self) -> usize {
        self.stay.seat.worker
    }

    #[inline]
    fn push(&mut self, word: Word, priority: i64) {
        self.near.push(word, priority);
        self.stay.queued_here();
    }

    #[inline]
    fn pop(&mut self) -> Option<Word> {
        if self.near.is_empty() {
            return None;
        }
        let word = self.near.pop()?;
        self.stay.found();
        Some(word)
    }

    fn steal(&mut self) -> Option<Word> {
        if self.queues.queues.len() > 1 {
            let seat = self.stay.seat;
            let sweep = seat.sweep();
            for ring in seat.crew.rings(seat.worker).iter().take(self.stay.rings()) {
                for node in from(&ring.queues, sweep) {
                    let queue = self.queues.of(node);
                    if !queue.is_empty()
                        && let Some(word) = queue.pop()
                    {
                        self.stay.stole(node, 1);
                        return Some(word);
                    }
                }
            }
        }
        self.stay.is_dry();
        None
    }

    #[inline]
    fn outranks(&self, priority: i64) -> bool {
        self.near.top() > priority
    }

    fn wants(&self) -> Wants {
        self.stay.wants()
    }

    fn push_ready(&mut self, ready: Ready) {
        let node = self.placer.place(ready.hint);
        let node = node.unwrap_or(self.stay.seat.numa_node);
        self.queues.of(node).push(ready.word, ready.priority);
        self.stay.seat.queued_on(node);
    }

    fn goes_elsewhere(&self, hint: Hint) -> bool {
        self.placer.goes_elsewhere(hint, self.stay.seat.numa_node)
    }

    fn reads(&mut self, numa_node: usize, bytes: u64) -> bool {
        self.stay.reads(numa_node, bytes)
    }
}
