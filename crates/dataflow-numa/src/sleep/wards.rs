//! Wards: sleepers grouped by what they may take.
//!
//! If every worker may take every word there is one ward, and all is as the [protocol](super)
//! says. Where policies forbid stealing from far away, a worker must not be woken for a word that it
//! may not take, while one that may sleeps on. So each NUMA node has a ward of its own, with its own
//! list, flag and duty; a worker that queues a word on a node passes P2 to P4 at each ward whose workers
//! may take it, nearest first, until somebody was woken.
//!
//! # Law
//! The claim of the protocol holds for the words of a NUMA node in that node's ward, which is
//! asked first. The other wards that may take them are a help, not a duty.

use super::{Risen, Sleep};
use crate::crew::Crew;

/// The wards of a pool.
pub(crate) struct Wards {
    wards: Box<[Sleep]>,
    /// By NUMA node: the wards whose workers may take what lies there, the nearest first.
    takers: Box<[Box<[usize]>]>,
}

impl Wards {
    /// One ward if all workers may take all words, else one per NUMA node.
    pub fn new(crew: &Crew, reaches_all: bool) -> Self {
        let n_nodes = crew.n_numa_nodes();
        let (n, takers) = match reaches_all {
            true => (1, vec![Box::from([0]); n_nodes].into()),
            false => (n_nodes, crew.takers()),
        };
        Wards {
            wards: (0..n).map(|_| Sleep::new(crew.n_workers())).collect(),
            takers,
        }
    }

    pub fn is_one(&self) -> bool {
        self.wards.len() == 1
    }

    /// Where the workers of a NUMA node sleep.
    pub fn of(&self, numa_node: usize) -> &Sleep {
        match &*self.wards {
            [one] => one,
            wards => &wards[numa_node],
        }
    }

    /// A word was queued on a NUMA node: wakes a sleeper who may take it, if one is wanted.
    pub fn queued(&self, numa_node: usize) {
        for &ward in &self.takers[numa_node] {
            if self.wards[ward].queued(numa_node) {
                return;
            }
        }
    }

    /// As [`Sleep::wake_all`], in every ward.
    pub fn wake_all(&self, enough: impl Fn() -> bool) {
        for ward in &self.wards {
            ward.wake_all(&enough);
        }
    }

    /// Mail came, which any one worker can take in: wakes one sleeper, of whichever ward has one.
    pub fn wake_for_mail(&self) {
        // A ward where nobody sleeps has woken nobody: the next is asked.
        let wakes = |ward: &Sleep| ward.wake_latest(Risen::ForMail);
        self.wards.iter().any(wakes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::crew::Reach;
    use crate::crew::tests::{crew, in_a_row};

    /// Of a worker on each of three NUMA nodes in a row, each with a ward and asleep if it is named,
    /// those that are called.
    fn called(asleep: &[usize], act: impl FnOnce(&Wards)) -> Vec<usize> {
        let wards = Wards::new(&crew(&in_a_row(&[1; 3]), Reach::Adjacent), false);
        let list = |&node: &usize| wards.of(node).list(node, node, Risen::Free);
        let listed: Vec<_> = asleep.iter().map(list).collect();
        act(&wards);
        let is_called = |node: &usize| wards.of(*node).is_called(*node);
        let called = (0..3).filter(is_called).collect();
        for (&node, listed) in asleep.iter().zip(listed) {
            let _risen = wards.of(node).leave(listed);
        }
        called
    }

    #[test]
    fn a_word_wakes_one_who_may_take_it_the_nearest_first() {
        for (node, asleep, expected) in [
            (1, &[0, 1, 2][..], &[1][..]),
            (1, &[0, 2], &[0]),
            (1, &[2], &[2]),
            (0, &[1, 2], &[1]),
            (0, &[2], &[]),
        ] {
            let called = called(asleep, |wards| wards.queued(node));
            assert_eq!(called, expected, "on {node}, asleep on {asleep:?}");
        }
    }

    #[test]
    fn a_job_wakes_the_sleepers_of_every_ward() {
        assert_eq!(called(&[0, 2], |wards| wards.wake_all(|| false)), [0, 2]);
    }
}
