//! The topology through hwloc: of this machine, of an XML file, of a synthetic description.
//!
//! All three are read by one walk over the same calls; [`calls`](self) declares those that the
//! crate `hwloc2` lacks, and `loaded` makes them safe.
//!
//! # Law
//! Cores, NUMA nodes and packages keep hwloc's logical order, in which neighbours are close.
//! The home of a core is the NUMA node with the fewest PUs among those that contain it; of equals
//! the one that is not high-bandwidth memory (MCDRAM, HBM), then the first. A core in no NUMA
//! node takes, by the same preference, one below its nearest ancestor that has any.

mod calls;
mod loaded;

use super::{Cache, Core, NumaNode, Topology, TopologyError};
use loaded::{Loaded, Object, TopologySource};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;

/// This machine, without what the process's cgroup forbids.
pub(super) fn live() -> Result<Topology, TopologyError> {
    Ok(walk(&Loaded::load(&TopologySource::Live)?))
}

/// An hwloc XML file of format 1 or 2.
pub(super) fn xml(path: &Path) -> Result<Topology, TopologyError> {
    Ok(walk(&load_xml(path)?))
}

/// A synthetic description, as hwloc's manual defines it.
pub(super) fn synthetic(description: &str) -> Result<Topology, TopologyError> {
    let refused = || TopologyError::NotSynthetic {
        description: description.to_owned(),
    };
    let text = CString::new(description).map_err(|_| refused())?;
    match Loaded::load(&TopologySource::Synthetic(&text)) {
        Err(TopologyError::Refused { .. }) => Err(refused()),
        loaded => Ok(walk(&loaded?)),
    }
}

/// Writes this machine, or the one of an XML file, with these distances between NUMA nodes
/// (row by row, in the order of [`Topology::numa_nodes`]) into an XML file.
pub(super) fn write_with_distances(
    machine: Option<&Path>,
    distances: &[u64],
    path: &Path,
) -> Result<(), TopologyError> {
    let mut loaded = match machine {
        Some(machine) => load_xml(machine)?,
        None => Loaded::load(&TopologySource::Live)?,
    };
    loaded.replace_latencies(distances)?;
    loaded.export(path)
}

fn load_xml(path: &Path) -> Result<Loaded, TopologyError> {
    let text = std::fs::read(path).map_err(|error| TopologyError::Unreadable {
        path: path.to_owned(),
        reason: error.into(),
    })?;
    match Loaded::load(&TopologySource::Xml(&text)) {
        Err(TopologyError::Refused { .. }) => Err(TopologyError::NotATopology {
            path: path.to_owned(),
            version: version(&String::from_utf8_lossy(&text)),
        }),
        loaded => loaded,
    }
}

/// The version that the root element of an XML file claims.
fn version(text: &str) -> Option<String> {
    let (_, root) = text.split_once("<topology")?;
    let (attributes, _) = root.split_once('>')?;
    let (_, version) = attributes.split_once("version=\"")?;
    version
        .split_once('"')
        .map(|(version, _)| version.to_owned())
}

fn walk(loaded: &Loaded) -> Topology {
    let nodes = loaded.objects(calls::NUMA_NODE);
    let packages = Packages::new(loaded.objects(calls::PACKAGE));
    let lookup = NodeLookup::new(&nodes);
    let core = |object: Object| Core {
        numa_node: lookup.of(object),
        package: packages.of(object),
        pus: object.pus(),
    };
    let with_pus = |core: &Core| !core.pus.is_empty();
    let mut cores: Vec<Core> = loaded
        .objects(calls::CORE)
        .into_iter()
        .map(core)
        .filter(with_pus)
        .collect();
    // Where the machine tells of no core, or not of all, a PU is one.
    for pu in loaded
        .objects(calls::PU)
        .into_iter()
        .map(core)
        .filter(with_pus)
    {
        if !cores.iter().any(|core| core.pus.contains(&pu.pus[0])) {
            cores.push(pu);
        }
    }
    let numa_nodes: Vec<NumaNode> = nodes
        .iter()
        .enumerate()
        .map(|(logical, node)| NumaNode {
            os_index: node.os_index().unwrap_or(logical),
        })
        .collect();
    if cores.is_empty() || numa_nodes.is_empty() {
        return Topology::flat(&[]);
    }
    // Only their order counts: what is beyond 32 bits is farthest.
    let narrow = |value| u32::try_from(value).unwrap_or(u32::MAX);
    let distances = loaded
        .latencies()
        .map(|values| values.into_iter().map(narrow).collect());
    Topology::new(cores, numa_nodes, distances)
        .with_packages(packages.numbers)
        .with_caches(caches(loaded))
        .with_speeds(speeds(loaded))
}

/// How fast each PU is beside the others.
fn speeds(loaded: &Loaded) -> impl Fn(usize) -> Option<u64> {
    let pus = loaded.objects(calls::PU).into_iter();
    let speed = |pu: Object| Some((*pu.pus().first()?, loaded.speed(pu)?));
    let speeds: HashMap<usize, u64> = pus.filter_map(speed).collect();
    move |pu| speeds.get(&pu).copied()
}

fn caches(loaded: &Loaded) -> Vec<Cache> {
    let level = |(below, &kind)| {
        loaded.objects(kind).into_iter().map(move |object| Cache {
            level: below + 1,
            bytes: object.cache_bytes(),
            pus: object.pus(),
        })
    };
    calls::CACHES.iter().enumerate().flat_map(level).collect()
}

/// Packages by the operating system's numbers, or by ours if those are missing or not unique.
struct Packages<'t> {
    objects: Vec<Object<'t>>,
    numbers: Vec<usize>,
}

impl<'t> Packages<'t> {
    fn new(objects: Vec<Object<'t>>) -> Self {
        let numbers: Option<Vec<usize>> = objects.iter().map(|object| object.os_index()).collect();
        let unique = |numbers: &Vec<usize>| {
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sorted.dedup();
            sorted.len() == numbers.len()
        };
        let numbers = numbers
            .filter(unique)
            .unwrap_or_else(|| (0..objects.len()).collect());
        Packages { objects, numbers }
    }

    fn of(&self, core: Object) -> usize {
        let package = core.ancestors().find(|object| object.is_package());
        let at =
            package.and_then(|package| self.objects.iter().position(|other| *other == package));
        at.map_or(0, |at| self.numbers[at])
    }
}

/// What is asked of the NUMA nodes for every core.
struct NodeLookup<'t> {
    nodes: Vec<NodeFacts<'t>>,
}

struct NodeFacts<'t> {
    pus: Vec<usize>,
    is_high_bandwidth: bool,
    ancestors: Vec<Object<'t>>,
}

impl<'t> NodeLookup<'t> {
    fn new(nodes: &[Object<'t>]) -> Self {
        let facts = |node: &Object<'t>| NodeFacts {
            pus: node.pus(),
            is_high_bandwidth: [&b"MCDRAM"[..], b"HBM"].contains(&node.subtype()),
            ancestors: node.ancestors().collect(),
        };
        NodeLookup {
            nodes: nodes.iter().map(facts).collect(),
        }
    }

    fn of(&self, core: Object) -> usize {
        let pus = core.pus();
        let numbered = || self.nodes.iter().enumerate();
        let contains = |node: &NodeFacts| pus.iter().all(|pu| node.pus.binary_search(pu).is_ok());
        let local = numbered()
            .filter(|(_, node)| contains(node))
            .min_by_key(|(_, node)| (node.pus.len(), node.is_high_bandwidth));
        let below = |ancestor| {
            let below = numbered().filter(|(_, node)| node.ancestors.contains(&ancestor));
            below.min_by_key(|(_, node)| node.is_high_bandwidth)
        };
        let home = local.or_else(|| core.ancestors().find_map(below));
        home.map_or(0, |(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The live machine through another's declarations: the crate `hwloc2`.
    #[test]
    fn the_live_machine_has_the_processors_that_another_binding_sees() {
        let Some(theirs) = hwloc2::Topology::new() else {
            panic!("hwloc2 loads no topology");
        };
        let of_kind = |kind| {
            theirs
                .objects_with_type(&kind)
                .map_or(0, |objects| objects.len())
        };
        let ours = live().unwrap();
        assert_eq!(ours.n_pus(), of_kind(hwloc2::ObjectType::PU));
        assert_eq!(ours.n_cores(), of_kind(hwloc2::ObjectType::Core));
        assert_eq!(ours.packages().len(), of_kind(hwloc2::ObjectType::Package));
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn objects_are_laid_out_as_in_the_header() {
        assert_eq!(offset_of!(calls::Object, parent), 72);
        assert_eq!(offset_of!(calls::Object, cpuset), 184);
        assert_eq!(offset_of!(calls::Distances, values), 24);
    }
}
