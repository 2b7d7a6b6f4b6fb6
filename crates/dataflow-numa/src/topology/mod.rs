//! Topology: the cores this process may use, the NUMA nodes they lie on, and how far apart.
//!
//! There is one type, which several sources can fill: [`system`] reads the operating system's own files;
//! with the feature `hwloc` the library hwloc describes this machine, an XML file, or a synthetic
//! description. [`share`] selects the part of one rank among several on a machine.
//!
//! # Law
//! NUMA nodes and cores are numbered from 0 without gaps; the operating system's numbers are
//! fields ([`Core::pus`], [`Core::package`], [`NumaNode::os_index`]) and go to system calls only.
//! There is at least one core and one NUMA node; every core has at least one PU and lies on one
//! NUMA node. Cores stand in an order in which neighbours are close.
//! A NUMA node may be without cores (memory only, or its cores are not allowed here).
//!
//! Distances come from firmware, or were measured. Only their order within a row means
//! something, never their ratio; the matrix may be asymmetric.

mod error;
#[cfg(feature = "hwloc")]
mod hwloc;
pub mod share;
pub mod system;

pub use error::TopologyError;

use crate::pin::usable_pus;
use std::collections::BTreeMap;
use std::path::Path;

/// What a process may use of a machine.
///
/// # Examples
/// ```
/// use dataflow_numa::Topology;
///
/// let machine = Topology::made_of(&[2, 1], |from, to| if from == to { 10 } else { 20 });
/// let last = &machine.cores()[2];
/// assert_eq!((last.numa_node, last.pus.as_slice()), (1, [2].as_slice()));
/// assert_eq!(machine.numa_nodes()[last.numa_node].os_index, 1);
///
/// for cache in Topology::of_this_process().caches() {
///     assert!(cache.level >= 1 && !cache.pus.is_empty());
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cores: Vec<Core>,
    numa_nodes: Vec<NumaNode>,
    packages: Vec<usize>,
    caches: Vec<Cache>,
    /// PUs by the kind of their core, the fastest kind first; empty if all are alike, or unknown.
    kinds: Vec<Vec<usize>>,
    distances: Option<Vec<u32>>,
}

/// A core, as far as this process may use it.
///
/// # Examples
/// See [`Topology`](Topology#examples).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Core {
    /// The NUMA node it lies on: an index into [`Topology::numa_nodes`].
    pub numa_node: usize,
    /// The operating system's number of its package (socket); 0 where there are none.
    pub package: usize,
    /// Its allowed PUs (hardware threads) by the operating system's numbers, ascending.
    pub pus: Vec<usize>,
}

/// A NUMA node: memory, and the cores beside it.
///
/// # Examples
/// See [`Topology`](Topology#examples).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NumaNode {
    /// The operating system's number; numbers may have gaps.
    pub os_index: usize,
}

/// A cache for data, and who shares it.
///
/// # Examples
/// See [`Topology`](Topology#examples).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: usize,
    /// Its size.
    pub bytes: u64,
    /// The allowed PUs that share it, by the operating system's numbers, ascending.
    pub pus: Vec<usize>,
}

impl Topology {
    /// As [`discover`](Self::discover), but it never fails: if that returns an error, it uses the cores
    /// of the calling thread's affinity mask, as `/sys` describes them if it exists.
    ///
    /// ```
    /// let topology = dataflow_numa::Topology::of_this_process();
    /// assert!(topology.n_cores() >= 1 && topology.n_pus() >= topology.n_cores());
    /// ```
    pub fn of_this_process() -> Topology {
        let from_system = |_| system::read(Path::new(system::ROOT), &usable_pus());
        Topology::discover().unwrap_or_else(from_system)
    }

    /// What the calling thread may use of this machine: the cores of its affinity mask, which
    /// `taskset`, `mpirun` and cgroups set. If a launcher started several ranks here and gave
    /// them the same mask, the [part](share) of this rank.
    ///
    /// A body's thread is pinned by its pool; there it is what the thread that made the pool might use.
    ///
    /// With the feature `hwloc` the library is asked, and `HWLOC_XMLFILE` or `HWLOC_SYNTHETIC`
    /// are believed to describe this machine (so measured distances come in). Without it, or
    /// where the library finds nothing, the operating system's own files are read.
    ///
    /// Takes milliseconds. Ask before anything is pinned.
    ///
    /// # Errors
    /// If one of these variables names what is no topology, or one that has none of the allowed
    /// PUs.
    pub fn discover() -> Result<Topology, TopologyError> {
        let whole = Topology::discover_whole()?;
        let environment = |name: &str| std::env::var(name).ok();
        let local = share::LocalRank::from_launcher(environment);
        Ok(match local {
            Some(local) => share::part(whole, share::granted().as_deref(), local),
            None => whole,
        })
    }

    /// The same, whatever launcher there is: all cores of the calling thread's affinity mask. For a
    /// program that [divides](share::part) them among ranks.
    ///
    /// # Errors
    /// As [`discover`](Self::discover).
    pub fn discover_whole() -> Result<Topology, TopologyError> {
        let allowed = usable_pus();
        match Self::described()? {
            Some((described, by)) => {
                let restricted = described.restricted_to(&allowed);
                restricted.map_err(|error| error.described_by(by))
            }
            None => Ok(system::read(Path::new(system::ROOT), &allowed)),
        }
    }

    /// What hwloc says of this machine, or of the one that the environment describes, and by which variable.
    #[cfg(feature = "hwloc")]
    fn described() -> Result<Option<(Topology, String)>, TopologyError> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(path) = variable("HWLOC_XMLFILE") {
            let by = format!("HWLOC_XMLFILE={}", path.display());
            return hwloc::xml(Path::new(&path)).map(|read| Some((read, by)));
        }
        if let Some(description) = variable("HWLOC_SYNTHETIC") {
            let description = description.to_string_lossy();
            let by = format!("HWLOC_SYNTHETIC={description}");
            return hwloc::synthetic(&description).map(|read| Some((read, by)));
        }
        // A mask may name PUs that hwloc does not see; then the system's files know more.
        let allowed = usable_pus();
        let live = hwloc::live().and_then(|live| live.restricted_to(&allowed));
        let live = live.ok().filter(|live| live.n_pus() == allowed.len());
        Ok(live.map(|live| (live, "this machine".to_string())))
    }

    #[cfg(not(feature = "hwloc"))]
    fn described() -> Result<Option<(Topology, String)>, TopologyError> {
        Ok(None)
    }

    /// The machine of an hwloc XML file (formats 1 and 2), whole: every PU counts as allowed.
    ///
    /// # Errors
    /// If there is no such file, if it is something else, or without the feature `hwloc`.
    ///
    /// ```
    /// use dataflow_numa::Topology;
    /// let error = Topology::from_xml("no/such/machine.xml").unwrap_err();
    /// assert!(error.to_string().contains("no/such/machine.xml"));
    /// ```
    pub fn from_xml(path: impl AsRef<Path>) -> Result<Topology, TopologyError> {
        let path = path.as_ref();
        #[cfg(feature = "hwloc")]
        return hwloc::xml(path);
        #[cfg(not(feature = "hwloc"))]
        needs_hwloc(format!("reading {}", path.display()))
    }

    /// The machine of a synthetic description, as hwloc's manual defines it.
    ///
    /// # Errors
    /// If the text is no such description, or without the feature `hwloc`.
    ///
    /// ```
    /// use dataflow_numa::Topology;
    /// let machine = Topology::from_synthetic("Package:2 [NUMANode] Core:4 PU:2");
    /// match machine {
    ///     Ok(machine) => assert_eq!((machine.n_numa_nodes(), machine.n_cores()), (2, 8)),
    ///     Err(error) => assert!(error.to_string().contains("hwloc")),
    /// }
    /// ```
    pub fn from_synthetic(description: &str) -> Result<Topology, TopologyError> {
        #[cfg(feature = "hwloc")]
        return hwloc::synthetic(description);
        #[cfg(not(feature = "hwloc"))]
        needs_hwloc(format!("the synthetic description {description:?}"))
    }

    /// Writes an hwloc XML file of format 2 that describes a machine (that of another such file,
    /// or this one) with other distances between its NUMA nodes. `HWLOC_XMLFILE` then brings
    /// them into [`discover`](Self::discover).
    ///
    /// - `distances`: row by row, in the order of [`numa_nodes`](Self::numa_nodes) of the whole
    ///   machine; smaller is nearer
    ///
    /// # Errors
    /// If the machine cannot be read, or the file cannot be written, or without the feature
    /// `hwloc`.
    ///
    /// # Panics
    /// If there are not as many distances as pairs of NUMA nodes.
    #[track_caller]
    pub fn write_with_distances(
        machine: Option<&Path>,
        distances: &[u64],
        path: impl AsRef<Path>,
    ) -> Result<(), TopologyError> {
        let path = path.as_ref();
        #[cfg(feature = "hwloc")]
        return hwloc::write_with_distances(machine, distances, path);
        #[cfg(not(feature = "hwloc"))]
        {
            let _ = (machine, distances);
            needs_hwloc(format!("writing {}", path.display()))
        }
    }

    /// A machine of cores with one PU each on one NUMA node, by ascending number.
    ///
    /// It is used where the system does not describe itself. Without any PU there is still core 0.
    pub fn flat(pus: &[usize]) -> Topology {
        let mut pus = if pus.is_empty() {
            vec![0]
        } else {
            pus.to_vec()
        };
        pus.sort_unstable();
        let cores = pus.iter().map(|&pu| Core {
            numa_node: 0,
            package: 0,
            pus: vec![pu],
        });
        Topology::new(cores.collect(), vec![NumaNode { os_index: 0 }], None)
    }

    /// A machine that need not be there: so many cores with one PU each on each NUMA node, and how far it
    /// is from one NUMA node to another. For simulations; without hwloc.
    ///
    /// # Panics
    /// If no NUMA node has a core.
    ///
    /// ```
    /// use dataflow_numa::Topology;
    ///
    /// let row = Topology::made_of(&[6; 4], |from, to| 10 + 6 * from.abs_diff(to) as u32);
    /// assert_eq!((row.n_numa_nodes(), row.n_cores(), row.distance(0, 3)), (4, 24, 28));
    /// ```
    #[track_caller]
    pub fn made_of(cores: &[usize], distance: impl Fn(usize, usize) -> u32) -> Topology {
        let n = cores.len();
        let sites = (0..n).flat_map(|node| (0..cores[node]).map(move |_| node));
        let core = |(pu, numa_node)| Core {
            numa_node,
            package: 0,
            pus: vec![pu],
        };
        let all: Vec<Core> = sites.enumerate().map(core).collect();
        assert!(!all.is_empty(), "a machine has at least one core");
        let matrix = (0..n * n).map(|at| distance(at / n, at % n)).collect();
        let numa_nodes = (0..n).map(|os_index| NumaNode { os_index }).collect();
        Topology::new(all, numa_nodes, Some(matrix))
    }

    /// The cores keep their order; a matrix whose side is not the number of NUMA nodes is ignored.
    pub(crate) fn new(
        cores: Vec<Core>,
        numa_nodes: Vec<NumaNode>,
        distances: Option<Vec<u32>>,
    ) -> Topology {
        let n = numa_nodes.len();
        debug_assert!(!cores.is_empty() && cores.iter().all(|core| core.numa_node < n));
        Topology {
            packages: Vec::new(),
            caches: Vec::new(),
            kinds: Vec::new(),
            distances: distances.filter(|matrix| matrix.len() == n * n),
            cores,
            numa_nodes,
        }
    }

    pub(crate) fn with_packages(self, packages: Vec<usize>) -> Topology {
        Topology { packages, ..self }
    }

    pub(crate) fn with_caches(self, caches: Vec<Cache>) -> Topology {
        Topology { caches, ..self }
    }

    /// The same, with the relative speed of each PU; if that is not known of every core, all count as
    /// alike.
    pub(crate) fn with_speeds(self, speed: impl Fn(usize) -> Option<u64>) -> Topology {
        let of_core = |core: &Core| speed(core.pus[0]);
        let Some(speeds) = self.cores.iter().map(of_core).collect::<Option<Vec<u64>>>() else {
            return self;
        };
        let mut kinds: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (speed, core) in speeds.into_iter().zip(&self.cores) {
            kinds.entry(speed).or_default().extend(&core.pus);
        }
        let kinds = match kinds.len() {
            1 => Vec::new(),
            _ => kinds.into_values().rev().collect(),
        };
        Topology { kinds, ..self }
    }

    /// The same machine, of which only these PUs may be used: cores, caches and packages without
    /// any of them are gone, NUMA nodes stay.
    ///
    /// # Errors
    /// If none of the PUs is here.
    ///
    /// ```
    /// use dataflow_numa::Topology;
    /// let two = Topology::flat(&[0, 1, 2, 3]).restricted_to(&[2, 3, 99])?;
    /// assert_eq!(two.n_cores(), 2);
    /// assert!(two.restricted_to(&[0]).is_err());
    /// # Ok::<(), dataflow_numa::TopologyError>(())
    /// ```
    pub fn restricted_to(&self, pus: &[usize]) -> Result<Topology, TopologyError> {
        let mut topology = self.clone();
        for core in &mut topology.cores {
            core.pus.retain(|pu| pus.contains(pu));
        }
        topology.cores.retain(|core| !core.pus.is_empty());
        if topology.cores.is_empty() {
            return Err(TopologyError::NothingAllowed {
                pus: pus.to_vec(),
                described_by: None,
            });
        }
        for cache in &mut topology.caches {
            cache.pus.retain(|pu| pus.contains(pu));
        }
        topology.caches.retain(|cache| !cache.pus.is_empty());
        let is_empty = |package: &usize| {
            let on = |cores: &[Core]| cores.iter().any(|core| core.package == *package);
            on(&self.cores) && !on(&topology.cores)
        };
        topology.packages.retain(|package| !is_empty(package));
        Ok(topology)
    }

    /// Part number `part` of `n_parts` equal parts, each of neighbouring cores. If there are more parts
    /// than cores, several parts divide the hyper-threads of a core; only if there are more parts than
    /// those, several have the same.
    ///
    /// # Panics
    /// If `part` is not below `n_parts`.
    #[track_caller]
    pub fn part(&self, part: usize, n_parts: usize) -> Topology {
        assert!(part < n_parts, "part {part} of {n_parts}");
        let pieces = self.pieces(n_parts);
        // At most as many as there are pieces; the product may be more than a `usize` holds.
        let cut = |part: usize| (part as u128 * pieces.len() as u128 / n_parts as u128) as usize;
        let (first, end) = (cut(part), cut(part + 1).max(cut(part) + 1));
        match self.restricted_to(&pieces[first..end].concat()) {
            Ok(part) => part,
            Err(_) => unreachable!("the PUs are those of cores of this topology"),
        }
    }

    /// The PUs of each core; where there are more parts than cores, as many cores are halved as need be,
    /// those with the most PUs first and evenly spread, down to single PUs.
    fn pieces(&self, n_parts: usize) -> Vec<Vec<usize>> {
        let mut pieces: Vec<Vec<usize>> = self.cores.iter().map(|core| core.pus.clone()).collect();
        while pieces.len() < n_parts {
            let most = pieces.iter().map(Vec::len).max().unwrap_or(1);
            if most == 1 {
                break;
            }
            let has_most = |&at: &usize| pieces[at].len() == most;
            let largest: Vec<usize> = (0..pieces.len()).filter(has_most).collect();
            let n_halved = largest.len().min(n_parts - pieces.len());
            // From the last on: a half that comes in moves none of those before it.
            for nth in (0..n_halved).rev() {
                let at = largest[nth * largest.len() / n_halved];
                let half = pieces[at].split_off(most.div_ceil(2));
                pieces.insert(at + 1, half);
            }
        }
        pieces
    }

    /// The allowed cores; neighbours are close.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The NUMA nodes; some may have no core here.
    pub fn numa_nodes(&self) -> &[NumaNode] {
        &self.numa_nodes
    }

    /// The packages (sockets) by the operating system's numbers; some may have no core here.
    pub fn packages(&self) -> &[usize] {
        &self.packages
    }

    /// The caches for data, by level.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The kind of a core where some are faster than others: 0 are the fastest.
    pub fn kind(&self, core: &Core) -> usize {
        let has_core = |pus: &Vec<usize>| pus.contains(&core.pus[0]);
        self.kinds.iter().position(has_core).unwrap_or(0)
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

    /// Whether the distances between NUMA nodes are known; if not, all others are equally far.
    pub fn has_distances(&self) -> bool {
        self.distances.is_some()
    }

    /// The distance from one NUMA node to another: less is nearer. Without known distances 10
    /// for the node itself and 20 for all others.
    ///
    /// # Panics
    /// If an index is not below [`n_numa_nodes`](Self::n_numa_nodes).
    #[track_caller]
    pub fn distance(&self, from: usize, to: usize) -> u32 {
        let n = self.n_numa_nodes();
        assert!(from < n && to < n, "there is no NUMA node {}", from.max(to));
        match &self.distances {
            Some(matrix) => matrix[from * n + to],
            None if from == to => 10,
            None => 20,
        }
    }
}

#[cfg(not(feature = "hwloc"))]
fn needs_hwloc<T>(asked_for: String) -> Result<T, TopologyError> {
    Err(TopologyError::NeedsHwloc { asked_for })
}
