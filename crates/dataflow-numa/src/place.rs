//! Place: which worker runs where.
//!
//! # Law
//! As long as workers do not outnumber what they are bound to, no two share a PU (nor a core,
//! if bound to cores). Otherwise each may use every allowed PU of its NUMA node, so that the
//! kernel can share the time out.

use crate::topology::{Core, Topology};
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// What each worker is bound to.
///
/// # Examples
/// ```
/// use dataflow_numa::Bind;
/// assert_eq!(Bind::default(), Bind::Cores);
/// assert_eq!("pus".parse(), Ok(Bind::Pus));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bind {
    /// A core of its own: the first allowed hyper-thread of it. The default.
    #[default]
    Cores,
    /// A PU (hyper-thread) of its own; all cores get one worker before any gets two.
    Pus,
    /// Nothing: the kernel may move it.
    None,
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bind::Cores => "cores",
            Bind::Pus => "pus",
            Bind::None => "none",
        })
    }
}

/// A text that is no [`Bind`].
///
/// # Examples
/// ```
/// use dataflow_numa::Bind;
/// let refused = "sockets".parse::<Bind>().unwrap_err();
/// assert_eq!(refused.to_string(), r#"workers cannot be bound to "sockets" (cores, pus or none)"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBind(String);

impl fmt::Display for UnknownBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "workers cannot be bound to {text:?} (cores, pus or none)"
        )
    }
}

impl Error for UnknownBind {}

impl FromStr for Bind {
    type Err = UnknownBind;

    /// Reads `cores`, `pus` or `none`.
    fn from_str(text: &str) -> Result<Self, UnknownBind> {
        [Bind::Cores, Bind::Pus, Bind::None]
            .into_iter()
            .find(|bind| bind.to_string() == text)
            .ok_or_else(|| UnknownBind(text.to_owned()))
    }
}

/// Where a worker runs.
///
/// # Examples
/// See [`Bind::places`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The NUMA node whose queue it takes from first: an index into
    /// [`Topology::numa_nodes`](crate::Topology::numa_nodes).
    pub numa_node: usize,
    /// The PUs it may use, by the operating system's numbers; empty if it is not bound.
    pub pus: Vec<usize>,
}

impl Bind {
    /// How many workers fit without sharing what they are bound to.
    pub fn capacity(self, topology: &Topology) -> usize {
        match self {
            Bind::Cores | Bind::None => topology.n_cores(),
            Bind::Pus => topology.n_pus(),
        }
    }

    /// The places of workers `0..n_workers`: cores in their order, so that few workers lie close
    /// together. Where there are fewer workers than cores, [slow](Topology::kind) ones stay free.
    ///
    /// ```
    /// use dataflow_numa::{Bind, Topology};
    /// let places = Bind::Cores.places(&Topology::flat(&[4, 6]), 2);
    /// assert_eq!(places[1].pus, [6]);
    /// ```
    pub fn places(self, topology: &Topology, n_workers: usize) -> Vec<Place> {
        let cores = topology.cores();
        // The first PU of every core, then the second of every core that has one …
        let most = cores.iter().map(|core| core.pus.len()).max().unwrap_or(0);
        let all = (0..most).flat_map(|nth| {
            let with_pu = move |core: &Core| Some((core.numa_node, *core.pus.get(nth)?));
            let rank = move |core: &Core| (nth, topology.kind(core));
            let cores = cores.iter();
            cores.filter_map(move |core| Some((rank(core), with_pu(core)?)))
        });
        let all: Vec<_> = all.take(self.capacity(topology)).collect();
        let mut chosen: Vec<usize> = (0..all.len()).collect();
        chosen.sort_by_key(|&at| all[at].0);
        chosen.truncate(n_workers);
        chosen.sort_unstable();
        let order: Vec<(usize, usize)> = chosen.into_iter().map(|at| all[at].1).collect();
        let shared = n_workers > all.len();
        (0..n_workers)
            .map(|worker| {
                let (numa_node, pu) = order[worker % order.len()];
                let pus = match (self, shared) {
                    (Bind::None, _) => Vec::new(),
                    (_, false) => vec![pu],
                    (_, true) => pus_of(topology, numa_node),
                };
                Place { numa_node, pus }
            })
            .collect()
    }
}

fn pus_of(topology: &Topology, numa_node: usize) -> Vec<usize> {
    let cores = topology
        .cores()
        .iter()
        .filter(|core| core.numa_node == numa_node);
    cores.flat_map(|core| core.pus.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::NumaNode;

    /// Two NUMA nodes with two cores each; only the first core has a second hyper-thread.
    fn machine() -> Topology {
        let core = |numa_node, pus: &[usize]| Core {
            numa_node,
            package: 0,
            pus: pus.to_vec(),
        };
        let cores = vec![
            core(0, &[0, 8]),
            core(0, &[1]),
            core(1, &[2]),
            core(1, &[3]),
        ];
        Topology::new(
            cores,
            vec![NumaNode { os_index: 0 }, NumaNode { os_index: 1 }],
            None,
        )
    }

    #[test]
    fn workers_get_cores_then_hyper_threads_and_share_a_numa_node_when_too_many() {
        let places = |bind: Bind, n| -> Vec<(usize, Vec<usize>)> {
            let places = bind.places(&machine(), n).into_iter();
            places.map(|place| (place.numa_node, place.pus)).collect()
        };
        let pinned = [
            (0, vec![0]),
            (0, vec![1]),
            (1, vec![2]),
            (1, vec![3]),
            (0, vec![8]),
        ];
        assert_eq!(places(Bind::Cores, 3), pinned[..3]);
        assert_eq!(places(Bind::Cores, 4), pinned[..4]);
        assert_eq!(places(Bind::Pus, 5), pinned);

        let near = |numa_node| {
            (
                numa_node,
                if numa_node == 0 {
                    vec![0, 8, 1]
                } else {
                    vec![2, 3]
                },
            )
        };
        assert_eq!(places(Bind::Cores, 5), [0, 0, 1, 1, 0].map(near));
        assert_eq!(
            places(Bind::None, 5),
            [0, 0, 1, 1, 0].map(|numa_node| (numa_node, vec![]))
        );
    }

    #[test]
    fn slow_cores_are_filled_last_and_workers_keep_the_order_of_cores() {
        let slow = [0, 2];
        let speed = |pu| Some(if slow.contains(&pu) { 1 } else { 2 });
        let machine = machine().with_speeds(speed);
        let pus = |bind: Bind, n| -> Vec<usize> {
            let places = bind.places(&machine, n);
            places.iter().map(|place| place.pus[0]).collect()
        };
        assert_eq!(pus(Bind::Cores, 1), [1]);
        assert_eq!(pus(Bind::Cores, 2), [1, 3]);
        assert_eq!(pus(Bind::Cores, 3), [0, 1, 3]);
        assert_eq!(
            pus(Bind::Pus, 4),
            [0, 1, 2, 3],
            "cores before hyper-threads"
        );
        assert_eq!(pus(Bind::Pus, 5), [0, 1, 2, 3, 8]);
    }

    #[test]
    fn bindings_are_read_by_the_names_they_print() {
        for bind in [Bind::Cores, Bind::Pus, Bind::None] {
            assert_eq!(bind.to_string().parse(), Ok(bind));
        }
        let unknown = "core".parse::<Bind>().unwrap_err();
        assert!(unknown.to_string().contains("cores, pus or none"));
    }
}
