//! Topology: the cores this process may use, the NUMA nodes they lie on, and how far apart.
//!
//! One type, filled by a source: [`system`] reads the operating system's own files.
//!
//! # Law
//! Everything is numbered from 0 without gaps inside; the operating system's numbers are fields
//! ([`Core::pus`], [`NumaNode::os_index`]) and go to system calls only.
//! There is at least one core and one NUMA node; every core has at least one PU and lies on one
//! NUMA node; cores are sorted by NUMA node, package and smallest PU.
//! A NUMA node may be without cores (memory only, or its cores are not allowed here).
//!
//! Distances come from firmware. Only their order within a row means something, never their
//! ratio; the matrix may be asymmetric.

pub mod system;

use crate::pin::allowed_pus;
use std::path::Path;

/// What a process may use of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cores: Vec<Core>,
    numa_nodes: Vec<NumaNode>,
    distances: Vec<u32>,
}

/// A core, as far as this process may use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Core {
    /// The NUMA node it lies on: an index into [`Topology::numa_nodes`].
    pub numa_node: usize,
    /// The operating system's number of its package (socket).
    pub package: usize,
    /// Its allowed PUs (hardware threads) by the operating system's numbers, ascending.
    pub pus: Vec<usize>,
}

/// A NUMA node: memory, and the cores beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNode {
    /// The operating system's number; numbers may have gaps.
    pub os_index: usize,
}

impl Topology {
    /// What the calling thread may use of this machine: the cores of its affinity mask (which
    /// `taskset`, `mpirun` and cgroups set), from `/sys` where there is one.
    ///
    /// Reads a few files per PU: milliseconds. Ask before anything is pinned.
    ///
    /// ```
    /// let topology = dataflow_numa::Topology::of_this_process();
    /// assert!(topology.n_cores() >= 1 && topology.n_pus() >= topology.n_cores());
    /// ```
    pub fn of_this_process() -> Topology {
        system::read(Path::new("/sys/devices/system"), &allowed_pus())
    }

    /// A machine of cores with one PU each on one NUMA node, numbered as given.
    ///
    /// This is what is left to say where the system does not describe itself.
    /// Without any PU there is still core 0.
    pub fn flat(pus: &[usize]) -> Topology {
        let pus = if pus.is_empty() { &[0] } else { pus };
        let cores = pus.iter().map(|&pu| Core {
            numa_node: 0,
            package: 0,
            pus: vec![pu],
        });
        Topology::new(cores.collect(), vec![NumaNode { os_index: 0 }], None)
    }

    /// Sorts the cores; without a matrix whose side is the number of NUMA nodes, all others are
    /// equally far.
    pub(crate) fn new(
        mut cores: Vec<Core>,
        numa_nodes: Vec<NumaNode>,
        distances: Option<Vec<u32>>,
    ) -> Topology {
        let n = numa_nodes.len();
        debug_assert!(!cores.is_empty() && cores.iter().all(|core| core.numa_node < n));
        cores.sort();
        let distances = distances
            .filter(|matrix| matrix.len() == n * n)
            .unwrap_or_else(|| {
                let entry = |at: usize| if at / n == at % n { 10 } else { 20 };
                (0..n * n).map(entry).collect()
            });
        Topology {
            cores,
            numa_nodes,
            distances,
        }
    }

    /// The allowed cores, by NUMA node, package and PU.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The NUMA nodes, by the operating system's number; some may have no core here.
    pub fn numa_nodes(&self) -> &[NumaNode] {
        &self.numa_nodes
    }

    /// How many cores are allowed.
    pub fn n_cores(&self) -> usize {
        self.cores.len()
    }

    /// How many PUs are allowed.
    pub fn n_pus(&self) -> usize {
        self.cores.iter().map(|core| core.pus.len()).sum()
    }

    /// How many NUMA nodes there are.
    pub fn n_numa_nodes(&self) -> usize {
        self.numa_nodes.len()
    }

    /// The firmware's distance from one NUMA node to another: 10 is local, more is farther.
    ///
    /// # Panics
    /// If an index is not below [`n_numa_nodes`](Self::n_numa_nodes).
    pub fn distance(&self, from: usize, to: usize) -> u32 {
        assert!(to < self.n_numa_nodes(), "there is no NUMA node {to}");
        self.distances[from * self.n_numa_nodes() + to]
    }
}
