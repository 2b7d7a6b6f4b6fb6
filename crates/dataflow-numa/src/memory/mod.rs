//! Memory: large blocks on huge pages, on the NUMA node where they are wanted.
//!
//! A factorisation walks over gigabytes; with pages of 4 KiB every tile costs hundreds of
//! address translations, with 2 MiB one or two. [`HugePages`] has an arena for each NUMA node:
//! its regions are placed there before they are touched, and serve no other node, for a block
//! that is used again lies where it lay, and a huge page lies in one place.
//!
//! # Law
//! A node is preferred, never bound to: where it is full the kernel takes the next one instead
//! of killing the process. Blocks say where they really lie.

mod arena;

use crate::pages::{self, Wish};
use crate::pin::{MOST_PUS, current_pu};
use crate::topology::Topology;
use arena::Arena;
use dataflow_core::port::{Block, Memory};
use std::fmt;
use std::sync::Arc;

/// Arenas of huge pages. Clones share them; blocks may outlive them.
///
/// Freed memory stays mapped for the next block, so the resident size follows the peak of what
/// was in use; [`release_unused`](Self::release_unused) gives the rest back.
///
/// ```
/// use dataflow_core::port::Memory;
/// use dataflow_numa::{HugePages, Placing, Topology};
///
/// let memory = HugePages::on(&Topology::of_this_process(), Placing::Near);
/// let mut tile = memory.allocate(512 * 512 * 8);
/// tile.bytes_mut()[0] = 1;
/// assert_eq!(tile.bytes().as_ptr() as usize % 64, 0); // on Linux so large a block starts at a page
/// ```
#[derive(Clone)]
pub struct HugePages {
    /// One for each NUMA node, and one for threads that run nowhere in the topology; or just one.
    arenas: Arc<[Arena]>,
    /// By PU: the NUMA node of its core.
    nodes_of_pus: Arc<[Option<usize>]>,
}

/// Where blocks are to lie.
///
/// # Examples
/// See [`HugePages`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placing {
    /// On the NUMA node of the thread that asks for them: with the task that fills them.
    #[default]
    Near,
    /// Page by page on all NUMA nodes that have cores, in turn: for data that all read. They lie
    /// nowhere in particular, so they draw no task, and no byte of them counts as local or remote.
    Interleaved,
}

impl HugePages {
    /// One arena whose pages lie on the node that touches them first; its blocks do not know where.
    pub fn new() -> Self {
        HugePages::one(RegionSite::Anywhere)
    }

    /// Memory on the NUMA nodes of a machine.
    pub fn on(topology: &Topology, placing: Placing) -> Self {
        let nodes = topology.numa_nodes().iter().map(|node| node.os_index);
        let nodes: Arc<[usize]> = nodes.collect();
        let cores = topology.cores();
        if nodes.len() == 1 {
            return HugePages::one(RegionSite::Only);
        }
        if placing == Placing::Interleaved {
            let has_cores = |node: usize| cores.iter().any(|core| core.numa_node == node);
            let crewed = nodes
                .iter()
                .enumerate()
                .filter(|(node, _)| has_cores(*node));
            let crewed = crewed.map(|(_, &os_index)| os_index).collect();
            return HugePages::one(RegionSite::Interleaved(crewed));
        }
        let site = |node| RegionSite::Node {
            node,
            nodes: nodes.clone(),
        };
        let places = (0..nodes.len()).map(Some).chain([None]);
        HugePages {
            arenas: places.map(|node| Arena::new(site(node))).collect(),
            nodes_of_pus: nodes_of_pus(topology),
        }
    }

    fn one(site: RegionSite) -> Self {
        HugePages {
            arenas: [Arena::new(site)].into(),
            nodes_of_pus: [].into(),
        }
    }

    /// Bytes of address space mapped, in use or not.
    pub fn mapped_bytes(&self) -> usize {
        self.arenas.iter().map(Arena::mapped_bytes).sum()
    }

    /// Unmaps regions that hold no block.
    pub fn release_unused(&self) {
        self.arenas.iter().for_each(Arena::release_unused);
    }

    /// The arena for the calling thread.
    fn near(&self) -> &Arena {
        let strangers = self.arenas.len() - 1;
        if strangers == 0 {
            return &self.arenas[0];
        }
        let node = current_pu().and_then(|pu| *self.nodes_of_pus.get(pu)?);
        &self.arenas[node.unwrap_or(strangers)]
    }
}

impl Default for HugePages {
    fn default() -> Self {
        HugePages::new()
    }
}

impl Memory for HugePages {
    /// One lock and a search among the free ranges, well below a microsecond; a new region now
    /// and then. The first touch of each page costs more than all of this.
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        self.near().allocate(bytes)
    }
}

impl fmt::Debug for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HugePages")
            .field("arenas", &self.arenas.len())
            .field("mapped_bytes", &self.mapped_bytes())
            .finish()
    }
}

fn nodes_of_pus(topology: &Topology) -> Arc<[Option<usize>]> {
    let cores = topology.cores().iter();
    let sites = cores.flat_map(|core| core.pus.iter().map(|&pu| (pu, core.numa_node)));
    // No thread runs on any other.
    let sites = sites.filter(|&(pu, _)| pu < MOST_PUS);
    let n_pus = sites.clone().map(|(pu, _)| pu + 1).max().unwrap_or(0);
    let mut nodes = vec![None; n_pus];
    sites.for_each(|(pu, node)| nodes[pu] = Some(node));
    nodes.into()
}

/// Where the regions of an arena are meant to lie.
#[derive(Clone, Debug)]
enum RegionSite {
    /// With the thread that touches them; nobody asks.
    Anywhere,
    /// There is one NUMA node.
    Only,
    /// On one of several, by number, if there is a wish; all of them by the operating system's
    /// numbers.
    Node {
        node: Option<usize>,
        nodes: Arc<[usize]>,
    },
    /// On all of these, by the operating system's numbers.
    Interleaved(Arc<[usize]>),
}

impl RegionSite {
    /// Calls `place` with the wish for untouched pages, if there is one.
    fn with_wish(&self, place: impl FnOnce(Wish) -> Option<()>) -> Option<()> {
        match self {
            RegionSite::Anywhere | RegionSite::Only | RegionSite::Node { node: None, .. } => None,
            RegionSite::Node {
                node: Some(node),
                nodes,
            } => place(Wish::Prefer(nodes[*node])),
            RegionSite::Interleaved(nodes) => place(Wish::Interleave(nodes)),
        }
    }

    /// The NUMA node of the first page; `None` if it is not to be asked about or lies nowhere yet.
    fn node_of(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            RegionSite::Anywhere | RegionSite::Interleaved(_) => None,
            RegionSite::Only => Some(0),
            RegionSite::Node { nodes, .. } => {
                let os_index = pages::node_of(bytes).ok()??;
                nodes.iter().position(|&node| node == os_index)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::machine;
    use crate::topology::{Core, NumaNode};

    #[test]
    fn on_one_node_every_block_lies_there_and_the_kernel_is_not_asked() {
        let memory = HugePages::on(&Topology::flat(&[0]), Placing::Near);
        assert_eq!(memory.allocate(1 << 20).numa_node(), Some(0), "untouched");
        assert_eq!(HugePages::new().allocate(1 << 20).numa_node(), None);
    }

    #[test]
    fn each_numa_node_has_an_arena_and_strangers_have_one() {
        let topology = machine(&[2, 0, 3], |_, _| 20);
        let memory = HugePages::on(&topology, Placing::Near);
        assert_eq!(memory.arenas.len(), 4);
        let nodes: Vec<usize> = memory.nodes_of_pus.iter().flatten().copied().collect();
        assert_eq!(nodes, [0, 0, 2, 2, 2]);
        assert_eq!(
            HugePages::on(&topology, Placing::Interleaved).arenas.len(),
            1
        );
    }

    #[test]
    fn a_thread_that_runs_nowhere_in_the_topology_has_the_arena_of_strangers() {
        let core = |numa_node| Core {
            numa_node,
            package: 0,
            pus: vec![MOST_PUS - 1 - numa_node], // where this thread is not
        };
        let nodes = (0..2).map(|os_index| NumaNode { os_index }).collect();
        let topology = Topology::new((0..2).map(core).collect(), nodes, None);
        let memory = HugePages::on(&topology, Placing::Near);
        assert!(std::ptr::eq(memory.near(), &memory.arenas[2]));
    }

    /// A table up to the highest number had no memory.
    #[test]
    fn a_pu_that_no_system_has_takes_no_memory() {
        let core = |(numa_node, pu)| Core {
            numa_node,
            package: 0,
            pus: vec![pu],
        };
        let cores = [3, MOST_PUS, 1 << 60, usize::MAX].into_iter().enumerate();
        let nodes = (0..4).map(|os_index| NumaNode { os_index }).collect();
        let topology = Topology::new(cores.map(core).collect(), nodes, None);
        let memory = HugePages::on(&topology, Placing::Near);
        assert_eq!(*memory.nodes_of_pus, [None, None, None, Some(0)]);
    }

    /// A made-up second node; what the kernel says counts, not what was wished.
    #[test]
    fn a_block_tells_where_it_really_lies_once_it_was_touched() {
        let here = Topology::of_this_process();
        let made_up = here.n_numa_nodes() == 1 && here.numa_nodes()[0].os_index == 0;
        if !made_up || pages::node_of(&[1]).is_err() {
            println!("skipped: needs one NUMA node, and leave to ask about pages");
            return;
        }
        let memory = HugePages::on(&machine(&[0, 1], |_, _| 20), Placing::Near);
        let mut block = memory.allocate(1 << 20);
        assert_eq!(block.numa_node(), None, "nobody touched it");
        block.bytes_mut()[0] = 1;
        assert_eq!(block.numa_node(), Some(0));
        let site = RegionSite::Node {
            node: None,
            nodes: [5, 0].into(),
        };
        assert_eq!(site.node_of(block.bytes()), Some(1), "the second of two");
        let memory = HugePages::on(&machine(&[0, 1], |_, _| 20), Placing::Interleaved);
        let mut block = memory.allocate(1 << 20);
        block.bytes_mut()[0] = 1;
        assert_eq!(block.numa_node(), None, "it lies on several");
    }
}
