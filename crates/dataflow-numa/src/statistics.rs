//! Statistics: what workers did, counted where it costs nothing.
//!
//! # Law
//! A worker's counts are written by that worker alone, on cache lines of its own; the thread that asks
//! for sums computes them, and they may be a moment old.

use crate::crew::Crew;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What workers did since they were started.
///
/// # Examples
/// Of four workers in virtual time, which take turns at eight equal tasks:
/// ```
/// # use dataflow_core::space::Independent;
/// # use dataflow_numa::simulate::{Costs, Ties, simulate};
/// # use dataflow_numa::{Bind, Policy, Topology};
/// # let machine = Topology::flat(&[0, 1, 2, 3]);
/// # let places = Bind::Cores.places(&machine, 4);
/// # let tasks = Independent::new("step", 8, |_| Ok(()));
/// # let costs = Costs { classes: vec![0.5], initialise: 0.0, bytes: 0, remote_byte: 0.0, round: 1e-6,
/// #     ties: Ties::First };
/// let run = simulate(&tasks, &machine, &places, &Policy::default(), &costs)?;
/// assert_eq!(run.total().tasks, 8);
/// assert!(run.workers.iter().all(|worker| worker.total().tasks == 2));
/// # Ok::<(), dataflow_numa::simulate::SimulateError>(())
/// ```
/// Of workers that are there: [`Workers::statistics`](crate::Workers::statistics).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Tasks run; those of a worker that is inside a job are counted when it leaves.
    pub tasks: u64,
    /// Tasks taken from another worker's or another NUMA node's queue. One that is stolen in a
    /// batch and stolen again counts twice.
    pub steals: u64,
    /// Times a worker fell asleep.
    pub sleeps: u64,
    /// Bytes of inputs that lay on the NUMA node of the worker that read them.
    pub local_bytes: u64,
    /// Bytes of inputs that lay on another.
    pub remote_bytes: u64,
}

impl Statistics {
    /// The share of the bytes that were read on the NUMA node where they lay; `None` if that is not
    /// known of any byte.
    ///
    /// ```
    /// # use dataflow_numa::Statistics;
    /// assert_eq!(Statistics::default().local_share(), None);
    /// ```
    pub fn local_share(&self) -> Option<f64> {
        let all = self.local_bytes.saturating_add(self.remote_bytes);
        (all > 0).then(|| self.local_bytes as f64 / all as f64)
    }

    /// What was done since an earlier reading.
    pub fn since(&self, earlier: &Statistics) -> Statistics {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(&self, other: &Statistics, join: impl Fn(u64, u64) -> u64) -> Statistics {
        Statistics {
            tasks: join(self.tasks, other.tasks),
            steals: join(self.steals, other.steals),
            sleeps: join(self.sleeps, other.sleeps),
            local_bytes: join(self.local_bytes, other.local_bytes),
            remote_bytes: join(self.remote_bytes, other.remote_bytes),
        }
    }
}

impl std::iter::Sum for Statistics {
    fn sum<I: Iterator<Item = Statistics>>(all: I) -> Statistics {
        let add = |sum: u64, one: u64| sum.saturating_add(one);
        all.fold(Statistics::default(), |sum, one| sum.with(&one, add))
    }
}

/// What one worker did since it was started.
///
/// # Examples
/// ```
/// use dataflow_core::space::Independent;
/// use dataflow_numa::Workers;
///
/// let workers = Workers::builder().n_workers(2).build()?;
/// dataflow_core::run(&Independent::new("tasks", 100, |_| Ok(())), &workers)?;
/// let each = workers.statistics_by_worker();
/// assert_eq!(each[0].tasks + each[1].tasks, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStatistics {
    /// The worker's index.
    pub worker: usize,
    /// Its NUMA node: an index into [`Topology::numa_nodes`](crate::Topology::numa_nodes).
    pub numa_node: usize,
    /// Tasks run; while it is inside a job they are not counted yet.
    pub tasks: u64,
    /// Times it fell asleep.
    pub sleeps: u64,
    /// What came to it from each NUMA node, by index.
    pub traffic: Vec<NodeTraffic>,
}

/// What came to a worker from a NUMA node.
///
/// # Examples
/// [`WorkerStatistics::steals_by_distance`] sums it up; see [`WorkerStatistics`](WorkerStatistics#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeTraffic {
    /// Where it came from: an index into [`Topology::numa_nodes`](crate::Topology::numa_nodes).
    pub from: usize,
    /// How far that is, in the worker's row.
    pub distance: u32,
    /// Tasks stolen there; from the worker's own node: from its neighbours.
    pub steals: u64,
    /// Bytes of inputs that lay there.
    pub bytes: u64,
}

impl WorkerStatistics {
    /// Tasks stolen, and from how far: distances in ascending order.
    pub fn steals_by_distance(&self) -> Vec<(u32, u64)> {
        let mut by_distance: Vec<(u32, u64)> = Vec::new();
        let mut traffic: Vec<&NodeTraffic> = self.traffic.iter().filter(|t| t.steals > 0).collect();
        traffic.sort_by_key(|traffic| traffic.distance);
        for traffic in traffic {
            match by_distance.last_mut() {
                Some((distance, steals)) if *distance == traffic.distance => {
                    *steals = steals.saturating_add(traffic.steals);
                }
                _ => by_distance.push((traffic.distance, traffic.steals)),
            }
        }
        by_distance
    }

    /// What was done since an earlier reading of the same worker.
    pub fn since(&self, earlier: &WorkerStatistics) -> WorkerStatistics {
        let less = |(now, before): (&NodeTraffic, &NodeTraffic)| NodeTraffic {
            steals: now.steals.saturating_sub(before.steals),
            bytes: now.bytes.saturating_sub(before.bytes),
            ..*now
        };
        WorkerStatistics {
            tasks: self.tasks.saturating_sub(earlier.tasks),
            sleeps: self.sleeps.saturating_sub(earlier.sleeps),
            traffic: self
                .traffic
                .iter()
                .zip(&earlier.traffic)
                .map(less)
                .collect(),
            ..*self
        }
    }

    /// The same, summed up.
    pub fn total(&self) -> Statistics {
        let bytes = |local: bool| {
            let of = |traffic: &&NodeTraffic| (traffic.from == self.numa_node) == local;
            let traffic = self.traffic.iter().filter(of);
            added(traffic.map(|traffic| traffic.bytes))
        };
        Statistics {
            tasks: self.tasks,
            steals: added(self.traffic.iter().map(|traffic| traffic.steals)),
            sleeps: self.sleeps,
            local_bytes: bytes(true),
            remote_bytes: bytes(false),
        }
    }
}

/// Counts of one worker. Relaxed throughout: they order nothing.
#[derive(Debug)]
pub(crate) struct Counters {
    tasks: AtomicU64,
    sleeps: AtomicU64,
    /// By NUMA node.
    steals: Box<[AtomicU64]>,
    bytes: Box<[AtomicU64]>,
    searching: AtomicBool,
}

impl Counters {
    pub fn new(n_numa_nodes: usize) -> Self {
        let zeros = || (0..n_numa_nodes).map(|_| AtomicU64::new(0)).collect();
        Counters {
            tasks: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
            steals: zeros(),
            bytes: zeros(),
            searching: AtomicBool::new(false),
        }
    }

    #[inline]
    pub fn count_tasks(&self, tasks: u64) {
        raise(&self.tasks, tasks);
    }

    #[inline]
    pub fn count_steals(&self, from: usize, tasks: u64) {
        raise(&self.steals[from], tasks);
    }

    /// Tasks stolen so far, from wherever.
    pub fn all_steals(&self) -> u64 {
        let counts = self.steals.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    #[inline]
    pub fn count_bytes(&self, from: usize, bytes: u64) {
        if let Some(count) = self.bytes.get(from) {
            raise(count, bytes);
        }
    }

    pub fn count_sleep(&self) {
        raise(&self.sleeps, 1);
    }

    /// Whether the worker is awake and outside of any job.
    pub fn is_searching(&self) -> bool {
        self.searching.load(Ordering::Relaxed)
    }

    pub fn set_searching(&self, searching: bool) {
        self.searching.store(searching, Ordering::Relaxed);
    }

    pub fn read(&self, worker: usize, crew: &Crew) -> WorkerStatistics {
        let numa_node = crew.numa_node(worker);
        let traffic = |from: usize| NodeTraffic {
            from,
            distance: crew.distance(numa_node, from),
            steals: self.steals[from].load(Ordering::Relaxed),
            bytes: self.bytes[from].load(Ordering::Relaxed),
        };
        WorkerStatistics {
            worker,
            numa_node,
            tasks: self.tasks.load(Ordering::Relaxed),
            sleeps: self.sleeps.load(Ordering::Relaxed),
            traffic: (0..self.steals.len()).map(traffic).collect(),
        }
    }
}

/// Counts some more, for the only writer.
#[inline]
fn raise(count: &AtomicU64, more: u64) {
    let raised = count.load(Ordering::Relaxed).saturating_add(more);
    count.store(raised, Ordering::Relaxed);
}

/// Data may say that they are as long as numbers go.
fn added(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::{crew, in_a_row};
    use crate::policy::Reach;

    #[test]
    fn bytes_beyond_all_numbers_are_the_largest_number() {
        let crew = crew(&in_a_row(&[1, 1, 1]), Reach::All);
        let counters = Counters::new(3);
        for from in [0, 0, 1, 2] {
            counters.count_bytes(from, 1 << 63);
        }
        let total = counters.read(1, &crew).total();
        assert_eq!((total.local_bytes, total.remote_bytes), (1 << 63, u64::MAX));
        assert_eq!(total.local_share(), Some(0.5));
    }

    #[test]
    fn a_workers_counts_are_told_by_node_by_distance_and_in_sum() {
        let crew = crew(&in_a_row(&[1, 1, 1]), Reach::All);
        let counters = Counters::new(3);
        counters.count_tasks(5);
        counters.count_steals(0, 2);
        counters.count_steals(2, 3);
        counters.count_bytes(1, 30);
        counters.count_bytes(2, 10);
        let read = counters.read(1, &crew);
        assert_eq!(read.steals_by_distance(), [(20, 5)]);
        let total = read.total();
        assert_eq!((total.tasks, total.steals), (5, 5));
        assert_eq!(total.local_share(), Some(0.75));
        assert_eq!(total.since(&total), Statistics::default());
        counters.count_steals(2, 1);
        let since = counters.read(1, &crew).since(&read);
        assert_eq!((since.numa_node, since.total().steals), (1, 1));
    }
}
