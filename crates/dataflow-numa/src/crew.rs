//! Crew: the workers of a pool, where they run, and from which others each may take tasks.
//!
//! # Law
//! A NUMA node's rings hold all workers, the nearest first, its own in the first: so that thousands of
//! workers do not each keep a list of all. Only the first few are within reach. A NUMA node without
//! workers has a stand-in: the nearest one with workers, by its own row.

use crate::nearest::{Ring, by_numa_node, rings_around};
use crate::topology::Topology;
use std::fmt;

/// The workers from which an idle worker may steal.
///
/// One that waits inside a body, for its children or for a datum, takes from all once it has found
/// nothing within reach for some microseconds: the worker that might have come for it may wait as well.
///
/// # Examples
/// See [`Policy`](crate::Policy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reach {
    /// From workers of its own NUMA node.
    Own,
    /// From the nearest other NUMA nodes too: those at the smallest distance in its row.
    Adjacent,
    /// From all workers, the nearest first.
    All,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reach::Own => "own",
            Reach::Adjacent => "adjacent",
            Reach::All => "all",
        })
    }
}

/// The workers a scheduler works for.
///
/// # Examples
/// A stack for each NUMA node, of which a worker looks at its own first:
/// ```
/// use dataflow_core::space::Independent;
/// use dataflow_numa::policy::{Crew, Policy, Ready, ReadyQueue, Scheduler};
/// use dataflow_numa::simulate::{Costs, Ties, simulate};
/// use dataflow_numa::{Bind, Topology};
/// use std::sync::{Arc, Mutex};
///
/// #[derive(Debug)]
/// struct ByNode;
/// struct Stacks { crew: Crew, stacks: Vec<Mutex<Vec<Ready>>> }
///
/// impl Scheduler for ByNode {
///     fn name(&self) -> &str { "by-node" }
///     fn open(&self, crew: &Crew) -> Box<dyn ReadyQueue> {
///         let stacks = (0..crew.n_numa_nodes()).map(|_| Mutex::default()).collect();
///         Box::new(Stacks { crew: crew.clone(), stacks })
///     }
/// }
///
/// impl ReadyQueue for Stacks {
///     fn push(&self, worker: usize, task: Ready) {
///         self.stacks[self.crew.numa_node(worker)].lock().unwrap().push(task);
///     }
///     fn take(&self, worker: usize) -> Option<Ready> {
///         let (own, n) = (self.crew.numa_node(worker), self.stacks.len());
///         (own..own + n).find_map(|node| self.stacks[node % n].lock().unwrap().pop())
///     }
///     fn is_empty(&self) -> bool {
///         self.stacks.iter().all(|stack| stack.lock().unwrap().is_empty())
///     }
/// }
///
/// let machine = Topology::made_of(&[2, 2], |from, to| if from == to { 10 } else { 20 });
/// let places = Bind::Cores.places(&machine, 4);
/// let costs = Costs { classes: vec![0.5], initialise: 0.0, bytes: 0, remote_byte: 0.0, round: 1e-6,
///     ties: Ties::First };
/// let tasks = Independent::new("tasks", 8, |_| Ok(()));
/// let run = simulate(&tasks, &machine, &places, &Policy::custom(Arc::new(ByNode)), &costs)?;
/// assert_eq!((run.tasks, run.seconds), (8, 1.0));
/// # Ok::<(), dataflow_numa::simulate::SimulateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crew {
    /// By worker.
    numa_nodes: Box<[usize]>,
    /// By NUMA node; empty where there are no workers.
    rings: Box<[Box<[Ring]>]>,
    /// How many of them are within reach.
    n_within: usize,
    /// By NUMA node: its workers.
    workers: Box<[Box<[usize]>]>,
    /// By NUMA node: itself, if it has workers.
    stand_ins: Box<[usize]>,
    /// By NUMA node.
    rows: Box<[Box<[u32]>]>,
}

impl Crew {
    /// Worker `w` sits on NUMA node `numa_nodes[w]`. The rings of `n` NUMA nodes hold `n` times all workers.
    pub(crate) fn new(topology: &Topology, numa_nodes: &[usize], reach: Reach) -> Self {
        let nodes = 0..topology.n_numa_nodes();
        let workers = by_numa_node(topology, numa_nodes);
        let is_crewed = |node: &usize| !workers[*node].is_empty();
        let around = |node| -> Box<[Ring]> {
            match is_crewed(&node) {
                true => rings_around(topology, &workers, node).into(),
                false => Box::default(),
            }
        };
        let row = |from| nodes.clone().map(move |to| topology.distance(from, to));
        let stand_in = |node: usize| {
            let distance = |other: &usize| (topology.distance(node, *other), *other);
            match is_crewed(&node) {
                true => node,
                false => {
                    let crewed = nodes.clone().filter(is_crewed);
                    crewed.min_by_key(distance).unwrap_or(node)
                }
            }
        };
        Crew {
            rings: nodes.clone().map(around).collect(),
            n_within: match reach {
                Reach::Own => 1,
                Reach::Adjacent => 2,
                Reach::All => usize::MAX,
            },
            stand_ins: nodes.clone().map(stand_in).collect(),
            rows: nodes.clone().map(|from| row(from).collect()).collect(),
            workers: workers.into_iter().map(Box::from).collect(),
            numa_nodes: numa_nodes.into(),
        }
    }

    /// How many workers there are; they are numbered from 0.
    pub fn n_workers(&self) -> usize {
        self.numa_nodes.len()
    }

    /// How many NUMA nodes there are, with workers or without.
    pub fn n_numa_nodes(&self) -> usize {
        self.rows.len()
    }

    /// The NUMA node of a worker.
    ///
    /// # Panics
    /// If there is no such worker.
    #[track_caller]
    pub fn numa_node(&self, worker: usize) -> usize {
        self.numa_nodes[worker]
    }

    /// The distance from one NUMA node to another; only the order within a row means something.
    ///
    /// # Panics
    /// If there is no such node.
    #[track_caller]
    pub fn distance(&self, from: usize, to: usize) -> u32 {
        self.rows[from][to]
    }

    /// Whom a worker may steal from; in the first ring it stands itself.
    pub(crate) fn rings(&self, worker: usize) -> &[Ring] {
        let rings = self.all_rings(worker);
        &rings[..self.n_within.min(rings.len())]
    }

    /// All others, within a worker's reach or not.
    pub(crate) fn all_rings(&self, worker: usize) -> &[Ring] {
        &self.rings[self.numa_node(worker)]
    }

    pub(crate) fn workers_on(&self, node: usize) -> &[usize] {
        &self.workers[node]
    }

    pub(crate) fn stand_ins(&self) -> &[usize] {
        &self.stand_ins
    }

    /// The NUMA nodes from which a worker takes, its own first.
    pub(crate) fn reach(&self, worker: usize) -> impl Iterator<Item = usize> + '_ {
        let others = self.rings(worker).iter().flat_map(|ring| &ring.queues);
        std::iter::once(self.numa_node(worker)).chain(others.copied())
    }

    /// The NUMA nodes with workers, by their distance to the first.
    pub(crate) fn crewed(&self) -> Box<[usize]> {
        let is_crewed = |node: &usize| !self.workers_on(*node).is_empty();
        let mut crewed: Vec<usize> = (0..self.n_numa_nodes()).filter(is_crewed).collect();
        crewed.sort_by_key(|&node| (node != 0, self.distance(node, 0), node));
        crewed.into()
    }

    /// By NUMA node: those whose workers take from it, itself first, then by their distance to it.
    pub(crate) fn takers(&self) -> Box<[Box<[usize]>]> {
        let mut takers = vec![Vec::new(); self.n_numa_nodes()];
        for (home, workers) in self.workers.iter().enumerate() {
            let somebody = workers.first();
            for reached in somebody.into_iter().flat_map(|&worker| self.reach(worker)) {
                takers[reached].push(home);
            }
        }
        let sorted = |(node, mut takers): (usize, Vec<usize>)| {
            takers.sort_by_key(|&home| (home != node, self.distance(home, node), home));
            takers.into()
        };
        takers.into_iter().enumerate().map(sorted).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::topology::{Core, NumaNode};
    use dataflow_core::TaskError;
    use dataflow_core::space::Independent;

    /// What such a task does.
    pub type Body<'a> = dyn Fn(u64) -> Result<(), TaskError> + Sync + 'a;

    /// Tasks with a body behind a pointer: each type of bodies would have an engine compiled.
    pub fn tasks<'a>(n_tasks: u64, body: &'a Body<'a>) -> Independent<&'a Body<'a>> {
        Independent::new("tasks", n_tasks, body)
    }

    /// The body of a task of which nothing is asked.
    pub fn nothing(_: u64) -> Result<(), TaskError> {
        Ok(())
    }

    /// A machine of NUMA nodes with so many cores each, and a matrix of distances.
    pub fn machine(cores: &[usize], distance: impl Fn(usize, usize) -> u32) -> Topology {
        let n = cores.len();
        let sites = (0..n).flat_map(|node| (0..cores[node]).map(move |_| node));
        let core = |(pu, numa_node)| Core {
            numa_node,
            package: numa_node,
            pus: vec![pu],
        };
        let matrix = (0..n * n).map(|at| distance(at / n, at % n)).collect();
        Topology::new(
            sites.enumerate().map(core).collect(),
            (0..n).map(|os_index| NumaNode { os_index }).collect(),
            Some(matrix),
        )
    }

    /// Nodes in a row: a step costs 10.
    pub fn in_a_row(cores: &[usize]) -> Topology {
        machine(cores, |from, to| 10 + 10 * from.abs_diff(to) as u32)
    }

    /// A worker for each core.
    pub fn crew(topology: &Topology, reach: Reach) -> Crew {
        let numa_nodes: Vec<usize> = topology.cores().iter().map(|core| core.numa_node).collect();
        Crew::new(topology, &numa_nodes, reach)
    }

    #[test]
    fn reach_ends_at_the_own_node_at_the_nearest_or_nowhere() {
        let topology = in_a_row(&[2, 1, 1, 1]);
        let reach = |reach| crew(&topology, reach).reach(0).collect::<Vec<_>>();
        assert_eq!(reach(Reach::Own), [0]);
        assert_eq!(reach(Reach::Adjacent), [0, 1]);
        assert_eq!(reach(Reach::All), [0, 1, 2, 3]);
        let takers = |reach, node: usize| crew(&topology, reach).takers()[node].to_vec();
        assert_eq!(takers(Reach::Own, 1), [1]);
        assert_eq!(takers(Reach::Adjacent, 1), [1, 0, 2]);
        assert_eq!(takers(Reach::All, 3), [3, 2, 1, 0]);
    }

    #[test]
    fn who_takes_from_a_node_need_not_be_taken_from_by_it() {
        let at = [0, 30, 40u32];
        let topology = machine(&[1, 1, 1], |from, to| 10 + at[from].abs_diff(at[to]));
        let crew = crew(&topology, Reach::Adjacent);
        assert_eq!(crew.reach(1).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(*crew.takers()[1], [1, 2, 0]);
        assert_eq!(*crew.takers()[0], [0]);
    }

    /// A list of all others for each of 3,000 workers took 113 MB.
    #[test]
    fn workers_of_a_node_share_their_rings() {
        let crew = crew(&in_a_row(&[4000, 2000]), Reach::All);
        let entries = |rings: &[Ring]| rings.iter().map(|ring| ring.workers.len()).sum::<usize>();
        let kept = crew.rings.iter().map(|rings| entries(rings));
        assert_eq!(kept.sum::<usize>(), 2 * crew.n_workers());
        for worker in [0, 1, 3999, 4000, 5999] {
            assert!(crew.rings(worker)[0].workers.contains(&worker));
            assert_eq!(entries(crew.rings(worker)), crew.n_workers());
        }
    }

    #[test]
    fn a_node_without_workers_has_the_nearest_that_has_some_as_stand_in() {
        let crew = crew(&in_a_row(&[1, 0, 0, 1]), Reach::All);
        assert_eq!(crew.stand_ins(), [0, 0, 3, 3]);
    }

    #[test]
    fn a_stand_in_is_near_by_the_row_of_the_node_without_workers() {
        let rows = [[10, 40, 20], [20, 10, 30], [20, 20, 10]];
        let crew = crew(&machine(&[1, 0, 1], |from, to| rows[from][to]), Reach::All);
        assert_eq!(crew.stand_ins(), [0, 0, 2]);
    }
}
