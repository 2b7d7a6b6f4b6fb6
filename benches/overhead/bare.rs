//! The bare loop: a graph run with nothing but counters and deques.
//!
//! [`Numbered`] graphs know the number of each task and its in-degree by formula. One atomic byte
//! a task counts arrivals, one crossbeam deque a worker holds ready tasks, and the first successor
//! that becomes ready runs at once. There are no names, no errors, no panics caught, no sleep, no
//! data: what is left is the lower bound of any engine that counts arrivals.

use crossbeam_deque::{Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;

/// A graph whose tasks are numbered from 0, all answers by formula.
pub trait Numbered: Sync {
    type Task: Copy + Send;

    fn count(&self) -> usize;
    fn roots(&self) -> Vec<Self::Task>;
    fn number(&self, task: Self::Task) -> usize;
    fn in_degree(&self, task: Self::Task) -> u8;
    fn successors(&self, task: Self::Task, to: impl FnMut(Self::Task));

    /// What the task does: by default nothing.
    #[inline(always)]
    fn body(&self, _: Self::Task) {}
}

/// Runs a graph with nothing but counters and deques.
pub fn run_bare<G: Numbered>(graph: &G, n_workers: usize) {
    let deques: Vec<Worker<G::Task>> = (0..n_workers).map(|_| Worker::new_lifo()).collect();
    for root in graph.roots().into_iter().rev() {
        deques[0].push(root);
    }
    let bare = Bare {
        graph,
        arrivals: (0..graph.count()).map(|_| AtomicU8::new(0)).collect(),
        stealers: deques.iter().map(Worker::stealer).collect(),
        executed: (0..n_workers).map(|_| CachePadded::default()).collect(),
    };
    let mut deques = deques.into_iter().enumerate();
    thread::scope(|threads| {
        let mine = deques.next();
        for (worker, deque) in deques {
            let bare = &bare;
            threads.spawn(move || bare.work(worker, &deque));
        }
        if let Some((worker, deque)) = mine {
            bare.work(worker, &deque);
        }
    });
}

struct Bare<'g, G: Numbered> {
    graph: &'g G,
    arrivals: Box<[AtomicU8]>,
    stealers: Vec<Stealer<G::Task>>,
    /// Tasks run by each worker, as of the last time that it was idle.
    executed: Vec<CachePadded<AtomicU64>>,
}

impl<G: Numbered> Bare<'_, G> {
    fn work(&self, worker: usize, deque: &Worker<G::Task>) {
        let mut executed = 0;
        loop {
            let mut next = deque.pop().or_else(|| self.steal(worker));
            if next.is_none() {
                self.executed[worker].store(executed, Ordering::Relaxed);
                let all = self
                    .executed
                    .iter()
                    .map(|of| of.load(Ordering::Relaxed))
                    .sum::<u64>();
                if all == self.graph.count() as u64 {
                    return;
                }
                spin_loop();
            }
            while let Some(task) = next.take() {
                executed += 1;
                self.graph.body(task);
                self.graph.successors(task, |target| {
                    if !self.arrives_last(target) {
                    } else if next.is_none() {
                        next = Some(target);
                    } else {
                        deque.push(target);
                    }
                });
            }
        }
    }

    #[inline(always)]
    fn arrives_last(&self, target: G::Task) -> bool {
        let before = self.arrivals[self.graph.number(target)].fetch_add(1, Ordering::AcqRel);
        before + 1 == self.graph.in_degree(target)
    }

    fn steal(&self, worker: usize) -> Option<G::Task> {
        let others = (1..self.stealers.len()).map(|step| (worker + step) % self.stealers.len());
        others.map(|other| &self.stealers[other]).find_map(|other| {
            loop {
                match other.steal() {
                    Steal::Success(task) => return Some(task),
                    Steal::Empty => return None,
                    Steal::Retry => {}
                }
            }
        })
    }
}
