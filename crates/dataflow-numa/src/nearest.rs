//! Nearest: in which order a worker looks at the others.
//!
//! # Law
//! Rings of equal distance, the nearest first; the worker's own NUMA node is the first ring. A
//! ring holds NUMA nodes that have workers; together the rings hold every other worker once.
//! Inside a ring the NUMA nodes go round from the one behind the worker's own, so that thieves
//! of different nodes begin at different ones.
//! The thief's row of the distance matrix counts, since matrices may be asymmetric.

use crate::topology::Topology;

/// NUMA nodes equally far from a worker, and the workers on them.
///
/// # Examples
/// See [`rings`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Queues of NUMA nodes; the worker's own is not among them, it pops from that one.
    pub queues: Vec<usize>,
    /// Workers, without the one that looks.
    pub workers: Vec<usize>,
}

/// The rings around a worker, if worker `w` lies on NUMA node `numa_nodes[w]`.
///
/// # Panics
/// If there is no such worker.
///
/// ```
/// use dataflow_numa::{Bind, Topology, nearest};
/// let topology = Topology::flat(&[0, 1]);
/// let places = Bind::Cores.places(&topology, 2);
/// let numa_nodes: Vec<usize> = places.iter().map(|place| place.numa_node).collect();
/// let rings = nearest::rings(&topology, &numa_nodes, 0);
/// assert_eq!(rings[0].workers, [1]);
/// ```
#[track_caller]
pub fn rings(topology: &Topology, numa_nodes: &[usize], worker: usize) -> Vec<Ring> {
    let workers = by_numa_node(topology, numa_nodes);
    let mut rings = rings_around(topology, &workers, numa_nodes[worker]);
    rings[0].workers.retain(|&other| other != worker);
    rings
}

/// The workers of each NUMA node, in order.
pub(crate) fn by_numa_node(topology: &Topology, numa_nodes: &[usize]) -> Vec<Vec<usize>> {
    let mut workers = vec![Vec::new(); topology.n_numa_nodes()];
    for (worker, &node) in numa_nodes.iter().enumerate() {
        if let Some(workers) = workers.get_mut(node) {
            workers.push(worker);
        }
    }
    workers
}

/// The rings around the workers of NUMA node `own`, themselves in the first, if these `workers` sit on each.
pub(crate) fn rings_around(topology: &Topology, workers: &[Vec<usize>], own: usize) -> Vec<Ring> {
    let home = Ring {
        queues: Vec::new(),
        workers: workers[own].clone(),
    };
    let groups = groups_around(topology, own, |node| !workers[node].is_empty());
    let others = groups.into_iter().map(|group| Ring {
        workers: group
            .iter()
            .flat_map(|&node| &workers[node])
            .copied()
            .collect(),
        queues: group,
    });
    std::iter::once(home).chain(others).collect()
}

/// The other NUMA nodes with workers, by distance from NUMA node `from`, each group going round
/// from the one behind `from`. The first group are its neighbours.
///
/// # Panics
/// If there is no such NUMA node.
#[track_caller]
pub fn groups(topology: &Topology, numa_nodes: &[usize], from: usize) -> Vec<Vec<usize>> {
    let workers = by_numa_node(topology, numa_nodes);
    groups_around(topology, from, |node| !workers[node].is_empty())
}

fn groups_around(
    topology: &Topology,
    from: usize,
    has_workers: impl Fn(usize) -> bool,
) -> Vec<Vec<usize>> {
    let n = topology.n_numa_nodes();
    let behind = |node: usize| (node + n - from) % n;
    let mut others: Vec<(u32, usize)> = (0..n)
        .filter(|&node| node != from && has_workers(node))
        .map(|node| (topology.distance(from, node), node))
        .collect();
    others.sort_unstable_by_key(|&(distance, node)| (distance, behind(node)));
    let groups = others.chunk_by(|one, next| one.0 == next.0);
    groups
        .map(|group| group.iter().map(|&(_, node)| node).collect())
        .collect()
}

/// The NUMA nodes that a worker of node `from` tries to steal from in its sweep number `sweep`,
/// in order: round robin among equals.
///
/// # Panics
/// If there is no such NUMA node.
#[track_caller]
pub fn sweep(topology: &Topology, numa_nodes: &[usize], from: usize, sweep: usize) -> Vec<usize> {
    let mut groups = groups(topology, numa_nodes, from);
    for group in &mut groups {
        let by = sweep % group.len();
        group.rotate_left(by);
    }
    groups.concat()
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
    fn sweeps_go_round_among_equals_from_the_node_behind() {
        let topology = machine(&[20; 25]);
        let numa_nodes = [0, 1, 2, 4];
        for (from, number, expected) in [
            (0, 0, [1, 2, 4]),
            (0, 1, [2, 4, 1]),
            (0, 3, [1, 2, 4]),
            (2, 0, [4, 0, 1]),
            (2, 2, [1, 4, 0]),
        ] {
            assert_eq!(sweep(&topology, &numa_nodes, from, number), expected);
        }
        // A node without workers has neighbours too.
        assert_eq!(groups(&topology, &numa_nodes, 3), [[4, 0, 1, 2]]);
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
