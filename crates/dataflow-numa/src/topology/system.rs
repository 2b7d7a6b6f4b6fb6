//! The topology from the operating system's own files, as Linux lays them out in
//! `/sys/devices/system`.
//!
//! Read are `cpu/cpu*/topology/{thread_siblings_list,core_id,physical_package_id}`,
//! `cpu/cpu*/cache/index*/{type,level,size,shared_cpu_list}`, `node/node*/{cpulist,distance}`, and,
//! where cores are of several kinds, `cpu/cpu*/cpu_capacity` or the list `../cpu_atom/cpus` of slow ones.
//! What is missing or malformed is ignored: a PU without siblings is a core of its
//! own, PUs that no NUMA node lists lie on the first, a matrix that is not square is no matrix.
//! So a container without `/sys` has one NUMA node with a core per allowed PU.

use super::{Cache, Core, NumaNode, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where Linux describes the machine.
pub const ROOT: &str = "/sys/devices/system";

/// Reads the tree under `root` ([`ROOT`], or a made-up one) and keeps what the
/// process may use: the cores that have at least one PU among `allowed`.
///
/// NUMA nodes without an allowed core stay listed.
///
/// ```
/// use std::path::Path;
/// let topology = dataflow_numa::topology::system::read(Path::new("/nonexistent"), &[2, 3]);
/// assert_eq!((topology.n_cores(), topology.n_numa_nodes()), (2, 1));
/// ```
pub fn read(root: &Path, allowed: &[usize]) -> Topology {
    let listed = numa_nodes(root);
    let (cores, packages) = cores(root, allowed, &listed);
    if cores.is_empty() {
        return Topology::flat(allowed);
    }
    let n = listed.len();
    let square = n > 0 && listed.iter().all(|node| node.distances.len() == n);
    let distances = square.then(|| {
        let rows = listed.iter().flat_map(|node| &node.distances);
        rows.copied().collect()
    });
    let mut numa_nodes: Vec<usize> = listed.iter().map(|node| node.os_index).collect();
    if numa_nodes.is_empty() {
        numa_nodes.push(0);
    }
    let numa_nodes = numa_nodes.into_iter().map(|os_index| NumaNode { os_index });
    Topology::new(cores, numa_nodes.collect(), distances)
        .with_packages(packages.into_iter().collect())
        .with_caches(caches(root, allowed))
        .with_speeds(speeds(root))
}

/// The cores, by NUMA node, package and smallest PU; and the packages that the machine numbers.
fn cores(root: &Path, allowed: &[usize], nodes: &[ListedNode]) -> (Vec<Core>, BTreeSet<usize>) {
    let numa_node_of = |pu: usize| nodes.iter().position(|node| node.pus.contains(&pu));
    // A core goes by its smallest PU, allowed or not; hyper-threads meet there.
    let mut cores: BTreeMap<usize, Core> = BTreeMap::new();
    let mut packages = BTreeSet::new();
    for &pu in allowed {
        let package = number(root, pu, "physical_package_id");
        packages.extend(package);
        let core = cores.entry(first_sibling(root, pu, allowed));
        let core = core.or_insert_with(|| Core {
            numa_node: numa_node_of(pu).unwrap_or(0),
            package: package.unwrap_or(0),
            pus: Vec::new(),
        });
        if !core.pus.contains(&pu) {
            core.pus.push(pu);
            core.pus.sort_unstable();
        }
    }
    let mut cores: Vec<Core> = cores.into_values().collect();
    cores.sort();
    (cores, packages)
}

/// How fast PUs are: by their capacity (ARM, RISC-V), or by whether they are Intel's slow kind.
fn speeds(root: &Path) -> impl Fn(usize) -> Option<u64> {
    let slow = fs::read_to_string(root.join("../cpu_atom/cpus")).ok();
    let slow = slow.and_then(|text| parse_list(&text));
    move |pu| {
        let capacity = fs::read_to_string(root.join(format!("cpu/cpu{pu}/cpu_capacity")));
        let capacity = capacity.ok().and_then(|text| text.trim().parse().ok());
        let is_fast = |slow: &Vec<usize>| u64::from(!slow.contains(&pu));
        capacity.or_else(|| slow.as_ref().map(is_fast))
    }
}

/// The caches for data of the allowed PUs, by level and smallest PU.
fn caches(root: &Path, allowed: &[usize]) -> Vec<Cache> {
    let mut caches = BTreeSet::new();
    for &pu in allowed {
        for index in 0.. {
            let folder = root.join(format!("cpu/cpu{pu}/cache/index{index}"));
            let text = |name| fs::read_to_string(folder.join(name)).ok();
            let Some(kind) = text("type") else { break };
            let cache = || {
                let mut pus = parse_list(&text("shared_cpu_list")?)?;
                pus.retain(|pu| allowed.contains(pu));
                Some(Cache {
                    level: text("level")?.trim().parse().ok()?,
                    bytes: parse_size(&text("size")?)?,
                    pus,
                })
            };
            if kind.trim() != "Instruction" {
                caches.extend(cache().filter(|cache| !cache.pus.is_empty()));
            }
        }
    }
    let mut caches: Vec<Cache> = caches.into_iter().collect();
    caches.sort_by_key(|cache| (cache.level, cache.pus[0]));
    caches
}

/// A size as the kernel writes it: `48K`.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => (
            text.strip_suffix('M').unwrap_or(text),
            if text.ends_with('M') { 1 << 20 } else { 1 },
        ),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

struct ListedNode {
    os_index: usize,
    pus: Vec<usize>,
    distances: Vec<u32>,
}

/// The NUMA nodes under `root`, by number.
fn numa_nodes(root: &Path) -> Vec<ListedNode> {
    let Ok(entries) = fs::read_dir(root.join("node")) else {
        return Vec::new();
    };
    let mut listed: Vec<ListedNode> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let os_index = entry
                .file_name()
                .to_str()?
                .strip_prefix("node")?
                .parse()
                .ok()?;
            let text = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let distance = text("distance");
            let distances: Result<_, _> = distance.split_whitespace().map(str::parse).collect();
            Some(ListedNode {
                os_index,
                pus: parse_list(&text("cpulist")).unwrap_or_default(),
                distances: distances.unwrap_or_default(),
            })
        })
        .collect();
    listed.sort_unstable_by_key(|node| node.os_index);
    listed
}

/// The smallest PU of the core that `pu` belongs to.
fn first_sibling(root: &Path, pu: usize, allowed: &[usize]) -> usize {
    let siblings =
        topology_file(root, pu, "thread_siblings_list").and_then(|text| parse_list(&text));
    if let Some(siblings) = siblings.filter(|siblings| siblings.contains(&pu)) {
        return siblings.into_iter().min().unwrap_or(pu);
    }
    // No list: the same core id in the same package is the same core.
    let name = |pu| {
        Some((
            number(root, pu, "physical_package_id")?,
            number(root, pu, "core_id")?,
        ))
    };
    let Some(core) = name(pu) else { return pu };
    let same = |&other: &usize| name(other) == Some(core);
    allowed.iter().copied().filter(same).min().unwrap_or(pu)
}

fn number(root: &Path, pu: usize, file: &str) -> Option<usize> {
    // Machines without packages write -1.
    topology_file(root, pu, file)?.trim().parse().ok()
}

fn topology_file(root: &Path, pu: usize, file: &str) -> Option<String> {
    fs::read_to_string(root.join(format!("cpu/cpu{pu}/topology")).join(file)).ok()
}

/// The PUs that run, of the tree under `root`: `cpu/online`. `None` if it does not say.
///
/// ```
/// use std::path::Path;
/// assert_eq!(dataflow_numa::topology::system::online(Path::new("/nonexistent")), None);
/// ```
pub fn online(root: &Path) -> Option<Vec<usize>> {
    parse_list(&fs::read_to_string(root.join("cpu/online")).ok()?)
}

/// Numbers as the kernel lists them: `0-3,8,10-11`. `None` if it is something else.
pub(super) fn parse_list(text: &str) -> Option<Vec<usize>> {
    /// No machine has more; a longer list is not one of PUs.
    const MOST: usize = 1 << 20;
    let mut numbers = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (
            first.trim().parse::<usize>().ok()?,
            last.trim().parse::<usize>().ok()?,
        );
        if last >= MOST || numbers.len() + (last + 1).saturating_sub(first) > MOST {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A made-up tree, removed when dropped.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let folder = format!("dataflow-numa-{name}-{}", std::process::id());
            Tree(std::env::temp_dir().join(folder))
        }

        fn file(&self, path: &str, content: &str) -> &Tree {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
            self
        }

        fn pu(&self, pu: usize, siblings: &str, package: i32) -> &Tree {
            self.file(
                &format!("cpu/cpu{pu}/topology/thread_siblings_list"),
                &format!("{siblings}\n"),
            );
            self.file(
                &format!("cpu/cpu{pu}/topology/physical_package_id"),
                &format!("{package}\n"),
            )
        }

        fn numa_node(&self, os_index: usize, pus: &str, distance: &str) -> &Tree {
            self.file(&format!("node/node{os_index}/cpulist"), &format!("{pus}\n"));
            self.file(
                &format!("node/node{os_index}/distance"),
                &format!("{distance}\n"),
            )
        }

        fn read(&self, allowed: &[usize]) -> Topology {
            read(&self.0, allowed)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn cores(topology: &Topology) -> Vec<(usize, Vec<usize>)> {
        topology
            .cores()
            .iter()
            .map(|core| (core.numa_node, core.pus.clone()))
            .collect()
    }

    /// Two packages, two NUMA nodes, two cores each; hyper-threads lie 4 apart.
    fn two_packages(name: &str) -> Tree {
        let tree = Tree::new(name);
        for pu in 0..8 {
            let first = pu % 4;
            tree.pu(pu, &format!("{first},{}", first + 4), (first / 2) as i32);
        }
        tree.numa_node(0, "0-1,4-5", "10 21")
            .numa_node(1, "2-3,6-7", "21 10");
        tree.file("node/online", "0-1\n");
        tree
    }

    #[test]
    fn hyper_threads_share_a_core_and_cores_lie_on_their_numa_node() {
        let topology = two_packages("hyper").read(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let expected = [
            (0, vec![0, 4]),
            (0, vec![1, 5]),
            (1, vec![2, 6]),
            (1, vec![3, 7]),
        ];
        assert_eq!(cores(&topology), expected);
        assert_eq!(topology.n_pus(), 8);
        assert_eq!((topology.distance(0, 1), topology.distance(1, 1)), (21, 10));
        assert_eq!(topology.cores()[3].package, 1);
    }

    #[test]
    fn only_allowed_processors_are_there_and_numa_nodes_without_them_stay() {
        let topology = two_packages("allowed").read(&[6, 7, 3]);
        assert_eq!(cores(&topology), [(1, vec![3, 7]), (1, vec![6])]);
        assert_eq!(topology.n_numa_nodes(), 2);
    }

    #[test]
    fn numa_nodes_are_numbered_without_gaps_and_keep_their_own_number() {
        let tree = Tree::new("gaps");
        tree.pu(0, "0", 0).pu(1, "1", 0);
        tree.numa_node(33, "1", "20 40 10")
            .numa_node(0, "0", "10 40 20")
            .numa_node(8, "", "40 10 40");
        let topology = tree.read(&[0, 1]);
        let os: Vec<usize> = topology
            .numa_nodes()
            .iter()
            .map(|node| node.os_index)
            .collect();
        assert_eq!(os, [0, 8, 33]);
        assert_eq!(cores(&topology), [(0, vec![0]), (2, vec![1])]);
        assert_eq!((topology.distance(0, 2), topology.distance(0, 1)), (20, 40));
    }

    #[test]
    fn without_sibling_lists_cores_go_by_package_and_core_id() {
        let tree = Tree::new("ids");
        for (pu, package, core) in [(0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 1, 0), (4, 1, 1)] {
            tree.file(
                &format!("cpu/cpu{pu}/topology/physical_package_id"),
                &package.to_string(),
            );
            tree.file(&format!("cpu/cpu{pu}/topology/core_id"), &core.to_string());
        }
        let topology = tree.read(&[0, 1, 2, 3, 4]);
        assert_eq!(
            cores(&topology),
            [(0, vec![0, 1]), (0, vec![2, 3]), (0, vec![4])]
        );
    }

    #[test]
    fn a_system_that_says_nothing_or_nonsense_still_has_its_allowed_processors() {
        let nothing = Tree::new("nothing").read(&[4, 9]);
        assert_eq!(cores(&nothing), [(0, vec![4]), (0, vec![9])]);
        assert_eq!(nothing.distance(0, 0), 10);

        let tree = Tree::new("nonsense");
        tree.pu(4, "x-y", -1).pu(9, "0-99999999999", -1);
        tree.numa_node(0, "?", "10").numa_node(1, "9", "ten");
        let nonsense = tree.read(&[4, 9]);
        assert_eq!(cores(&nonsense), [(0, vec![4]), (1, vec![9])]);
        // The matrix is not square, so the other node is simply not this one.
        assert_eq!((nonsense.distance(0, 0), nonsense.distance(1, 0)), (10, 20));
        assert_eq!(nonsense.cores()[0].package, 0);

        assert_eq!(cores(&Tree::new("nobody").read(&[])), [(0, vec![0])]);
    }

    #[test]
    fn caches_for_data_are_told_once_with_the_allowed_processors_that_share_them() {
        let tree = two_packages("caches");
        for pu in 0..8 {
            let own = format!("{},{}", pu % 4, pu % 4 + 4);
            let shared = if pu % 4 < 2 { "0-1,4-5" } else { "2-3,6-7" };
            for (index, level, kind, size, pus) in [
                (0, 1, "Data", "48K", &*own),
                (1, 1, "Instruction", "32K", &own),
                (2, 3, "Unified", "105M", shared),
            ] {
                let folder = format!("cpu/cpu{pu}/cache/index{index}");
                tree.file(&format!("{folder}/type"), &format!("{kind}\n"))
                    .file(&format!("{folder}/level"), &format!("{level}\n"))
                    .file(&format!("{folder}/size"), &format!("{size}\n"))
                    .file(&format!("{folder}/shared_cpu_list"), pus);
            }
        }
        let topology = tree.read(&[0, 1, 2, 4]);
        let cache = |level, bytes, pus: &[usize]| Cache {
            level,
            bytes,
            pus: pus.to_vec(),
        };
        let expected = [
            cache(1, 48 << 10, &[0, 4]),
            cache(1, 48 << 10, &[1]),
            cache(1, 48 << 10, &[2]),
            cache(3, 105 << 20, &[0, 1, 4]),
            cache(3, 105 << 20, &[2]),
        ];
        assert_eq!(topology.caches(), expected);
        assert_eq!(topology.packages(), [0, 1]);
        assert_eq!(topology.restricted_to(&[1]).unwrap().packages(), [0]);
    }

    #[test]
    fn fast_cores_are_told_from_slow_ones_by_capacity_or_by_the_list_of_slow_ones() {
        let kinds = |topology: &Topology| -> Vec<usize> {
            let cores = topology.cores().iter();
            cores.map(|core| topology.kind(core)).collect()
        };
        let tree = Tree::new("capacity");
        for (pu, capacity) in [(0, "446\n"), (1, "871"), (2, "1024\n"), (3, "446")] {
            tree.file(&format!("cpu/cpu{pu}/cpu_capacity"), capacity);
        }
        let topology = tree.read(&[0, 1, 2, 3]);
        assert_eq!(kinds(&topology), [2, 1, 0, 2]);
        assert_eq!(kinds(&topology.restricted_to(&[0, 3]).unwrap()), [2, 2]);
        // Of one it is not known, or all are alike.
        assert_eq!(kinds(&tree.read(&[0, 2, 7])), [0, 0, 0]);
        assert_eq!(kinds(&tree.read(&[0, 3])), [0, 0]);

        let tree = Tree::new("atom");
        tree.file("devices/cpu_atom/cpus", "0-1\n");
        tree.file("devices/system/cpu/online", "0-2");
        let topology = read(&tree.0.join("devices/system"), &[0, 1, 2]);
        assert_eq!(kinds(&topology), [1, 1, 0]);
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        for (text, expected) in [
            ("0-3,8,10-11\n", Some(vec![0, 1, 2, 3, 8, 10, 11])),
            ("\n", Some(vec![])),
            ("5", Some(vec![5])),
            ("3-1", Some(vec![])),
            ("0-", None),
            ("a", None),
            ("0-4294967296", None),
            ("0-1048575,1", None),
        ] {
            assert_eq!(parse_list(text), expected, "{text:?}");
        }
    }
}
