//! Nearest: in which order a worker looks at the others.
//!
//! # Law
//! Rings of equal distance, the nearest first; the worker's own NUMA node is the first ring. A
//! ring holds NUMA nodes that have workers; together the rings hold every other worker once.
//! The thief's row of the distance matrix counts, since matrices may be asymmetric.

use crate::topology::Topology;

/// NUMA nodes equally far from a worker, and the workers on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// Queues of NUMA nodes; the worker's own is not among them, it pops from that one.
    pub queues: Vec<usize>,
    /// Workers, without the one that looks.
    pub workers: Vec<usize>,
}

/// The rings around a worker, if worker `w` lies on NUMA node `numa_nodes[w]`.
pub(crate) fn rings(topology: &Topology, numa_nodes: &[usize], worker: usize) -> Vec<Ring> {
    let own = numa_nodes[worker];
    let mut by_distance: Vec<(bool, u32, usize)> = (0..topology.n_numa_nodes())
        .filter(|node| numa_nodes.contains(node))
        .map(|node| (node != own, topology.distance(own, node), node))
        .collect();
    by_distance.sort_unstable();
    by_distance
        .chunk_by(|one, next| (one.0, one.1) == (next.0, next.1))
        .map(|ring| {
            let nodes = || ring.iter().map(|&(_, _, node)| node);
            let of = |node| move |&other: &usize| numa_nodes[other] == node && other != worker;
            let workers = nodes().flat_map(|node| (0..numa_nodes.len()).filter(of(node)));
            Ring {
                queues: nodes().filter(|&node| node != own).collect(),
                workers: workers.collect(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Core, NumaNode};

    fn machine(distances: &[u32]) -> Topology {
        let n = distances.len().isqrt();
        let core = |at: usize| Core {
            numa_node: at / 2,
            package: 0,
            pus: vec![at],
        };
        let numa_nodes = (0..n).map(|os_index| NumaNode { os_index }).collect();
        Topology::new(
            (0..2 * n).map(core).collect(),
            numa_nodes,
            Some(distances.to_vec()),
        )
    }

    #[test]
    fn own_numa_node_first_then_by_the_thiefs_row_equals_together() {
        #[rustfmt::skip]
        let topology = machine(&[
            10, 20, 16, 16,
            16, 10, 20, 20,
            16, 20, 10, 20,
             9, 20, 20, 10,
        ]);
        let numa_nodes = [0, 0, 1, 1, 2, 2, 3, 3];
        let ring = |queues: &[usize], workers: &[usize]| Ring {
            queues: queues.to_vec(),
            workers: workers.to_vec(),
        };
        assert_eq!(
            rings(&topology, &numa_nodes, 1),
            [
                ring(&[], &[0]),
                ring(&[2, 3], &[4, 5, 6, 7]),
                ring(&[1], &[2, 3])
            ]
        );
        // Its own comes first, even where firmware calls another one nearer.
        assert_eq!(
            rings(&topology, &numa_nodes, 6),
            [
                ring(&[], &[7]),
                ring(&[0], &[0, 1]),
                ring(&[1, 2], &[2, 3, 4, 5])
            ]
        );
    }

    #[test]
    fn a_numa_node_without_workers_is_in_no_ring() {
        let topology = machine(&[10, 20, 30, 20, 10, 20, 30, 20, 10]);
        let found = rings(&topology, &[0, 2], 0);
        let others: Vec<_> = found
            .iter()
            .map(|ring| (&ring.queues[..], &ring.workers[..]))
            .collect();
        assert_eq!(others, [(&[][..], &[][..]), (&[2][..], &[1][..])]);
    }
}
