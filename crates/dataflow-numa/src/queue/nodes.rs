//! Nodes: the lane of a worker that shares all its queues, with its NUMA node or with everybody.
//!
//! # Law
//! A worker takes what is first in the queue's order; so among workers of one queue the order is
//! kept exactly. Thieves take one task at a time, nearest ring first, beginning elsewhere each time.
//!
//! # Cost
//! A lock and log₂(n) moves for each push and pop, on cache lines that all workers of the queue use.

use super::from;
use super::kit::{Kit, Parting, Visit};
use super::ranked::Ranked;
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
    visit: Visit<'q, 'p>,
}

impl<'q, 'p> NodesLane<'q, 'p> {
    pub fn open(
        queues: &'q NodeQueues,
        placer: &'q Placer,
        kit: &'q Kit<'p>,
        risen: Risen,
    ) -> Self {
        NodesLane {
            near: queues.of(kit.numa_node),
            queues,
            placer,
            visit: Visit::begin(kit, risen),
        }
    }

    pub fn close(self) -> Parting {
        self.visit.end()
    }
}

impl Lane for NodesLane<'_, '_> {
    fn worker(&self) -> usize {
        self.visit.kit.worker
    }

    #[inline]
    fn push(&mut self, word: Word, priority: i64) {
        self.near.push(word, priority);
        self.visit.queued_here();
    }

    #[inline]
    fn pop(&mut self) -> Option<Word> {
        if self.near.is_empty() {
            return None;
        }
        let word = self.near.pop()?;
        self.visit.found();
        Some(word)
    }

    fn steal(&mut self) -> Option<Word> {
        if self.queues.queues.len() > 1 {
            let sweep = self.visit.kit.sweep();
            for ring in self.visit.rings() {
                for node in from(&ring.queues, sweep) {
                    let queue = self.queues.of(node);
                    if !queue.is_empty()
                        && let Some(word) = queue.pop()
                    {
                        self.visit.stole(node, 1);
                        return Some(word);
                    }
                }
            }
        }
        self.visit.is_dry();
        None
    }

    fn waits(&mut self, in_body: bool) -> bool {
        if in_body {
            self.visit.waits();
        }
        false
    }

    #[inline]
    fn outranks(&self, priority: i64) -> bool {
        self.near.top() > priority
    }

    fn wants(&self) -> Wants {
        self.visit.wants()
    }

    fn push_ready(&mut self, ready: Ready) {
        let node = self.placer.place(ready.hint);
        let node = node.unwrap_or(self.visit.kit.numa_node);
        self.queues.of(node).push(ready.word, ready.priority);
        self.visit.kit.queued_on(node);
    }

    fn goes_elsewhere(&self, hint: Hint) -> bool {
        self.placer.goes_elsewhere(hint, self.visit.kit.numa_node)
    }

    fn reads(&mut self, numa_node: usize, bytes: u64) -> bool {
        self.visit.reads(numa_node, bytes)
    }
}
