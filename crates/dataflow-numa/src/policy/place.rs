//! Place: the NUMA node in whose queue a ready task waits.
//!
//! # Law
//! Initialising tasks, whose inputs do not lie on any node yet, go round robin over the NUMA nodes that
//! have workers; any other goes to the node that holds most of its input bytes. No task is sent to a
//! node without workers: the nearest node that has some stands in for it.

use super::Policy;
use dataflow_core::port::Hint;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places the tasks of one job.
#[derive(Debug)]
pub(crate) struct Placer {
    by_data: bool,
    /// NUMA nodes that have workers.
    crewed: Box<[usize]>,
    /// For each NUMA node the nearest one that has workers: itself if it has.
    stand_ins: Box<[usize]>,
    turn: AtomicUsize,
}

impl Placer {
    pub fn new(policy: &Policy, stand_ins: &[usize]) -> Self {
        let crewed = |&(node, &stand_in): &(usize, &usize)| node == stand_in;
        Placer {
            by_data: policy.by_data,
            crewed: stand_ins
                .iter()
                .enumerate()
                .filter(crewed)
                .map(|(node, _)| node)
                .collect(),
            stand_ins: stand_ins.into(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Whether a task goes elsewhere than to this NUMA node.
    pub fn goes_elsewhere(&self, hint: Hint, node: usize) -> bool {
        self.by_data
            && match hint {
                Hint::None => false,
                Hint::Initialises => self.crewed.len() > 1,
                Hint::Node(there) => self
                    .stand_ins
                    .get(there)
                    .is_some_and(|&there| there != node),
            }
    }

    /// Where a task goes; `None`: it stays with the worker that made it ready. A node that does
    /// not exist is taken for no hint.
    pub fn place(&self, hint: Hint) -> Option<usize> {
        match hint {
            _ if !self.by_data => None,
            Hint::None => None,
            Hint::Initialises => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                self.crewed
                    .get(turn.checked_rem(self.crewed.len())?)
                    .copied()
            }
            Hint::Node(node) => self.stand_ins.get(node).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialising_tasks_go_round_the_nodes_that_have_workers() {
        let placer = Placer::new(&Policy::distance(), &[0, 2, 2, 3]);
        let placed: Vec<_> = (0..5).map(|_| placer.place(Hint::Initialises)).collect();
        assert_eq!(placed, [0, 2, 3, 0, 2].map(Some));
        assert_eq!(placer.place(Hint::Node(1)), Some(2));
        assert_eq!(placer.place(Hint::Node(3)), Some(3));
        assert_eq!(placer.place(Hint::Node(4)), None);
        assert_eq!(placer.place(Hint::None), None);
    }

    #[test]
    fn of_one_node_with_workers_nothing_goes_elsewhere() {
        let policy = Policy::distance();
        for (stand_ins, elsewhere) in [(&[0][..], false), (&[0, 0], false), (&[0, 1], true)] {
            let placer = Placer::new(&policy, stand_ins);
            assert_eq!(placer.goes_elsewhere(Hint::Initialises, 0), elsewhere);
            assert_eq!(placer.goes_elsewhere(Hint::Node(1), 0), elsewhere);
            assert!(!placer.goes_elsewhere(Hint::Node(0), 0));
            assert!(!placer.goes_elsewhere(Hint::None, 0));
        }
    }

    #[test]
    fn an_oblivious_policy_follows_no_hint() {
        let placer = Placer::new(&Policy::oblivious(), &[0, 1]);
        for hint in [Hint::Initialises, Hint::Node(1), Hint::None] {
            assert_eq!(placer.place(hint), None);
        }
    }
}
