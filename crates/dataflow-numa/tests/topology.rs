//! Machines of every sort, made up here: from hwloc XML files and synthetic descriptions, whole,
//! restricted and cut into parts.
//!
//! # Elsewhere
//! A collection of real machines: the root package's `tests/topology.rs`.

use dataflow_numa::Topology;
use std::path::{Path, PathBuf};

/// (NUMA node, package, PUs) of each core, nodes by the operating system's numbers.
fn cores(topology: &Topology) -> Vec<(usize, usize, Vec<usize>)> {
    let node = |node: usize| topology.numa_nodes()[node].os_index;
    let cores = topology.cores().iter();
    cores
        .map(|core| (node(core.numa_node), core.package, core.pus.clone()))
        .collect()
}

fn awkward() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("topologies/awkward.xml")
}

/// A file of this test run, written anew.
fn written(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
#[cfg(not(feature = "hwloc"))]
fn without_hwloc_what_needs_it_says_so_and_this_machine_is_still_found() {
    let out = written("unused.xml", b"");
    for error in [
        Topology::from_xml(awkward()).unwrap_err(),
        Topology::from_synthetic("Core:2 PU:1").unwrap_err(),
        Topology::write_with_distances(None, &[10], out).unwrap_err(),
    ] {
        assert!(
            error.to_string().contains("needs the feature `hwloc`"),
            "{error}"
        );
    }
    assert!(Topology::discover().unwrap().n_cores() >= 1);
}

#[test]
fn this_machine_has_the_allowed_processors_whoever_describes_it() {
    let pus = |topology: &Topology| {
        let mut pus: Vec<usize> = topology
            .cores()
            .iter()
            .flat_map(|core| core.pus.clone())
            .collect();
        pus.sort_unstable();
        pus
    };
    let allowed = dataflow_numa::pin::allowed_pus();
    let root = Path::new(dataflow_numa::topology::system::ROOT);
    let system = dataflow_numa::topology::system::read(root, &allowed);
    let found = Topology::discover().unwrap();
    assert_eq!((pus(&system), pus(&found)), (allowed.clone(), allowed));
    assert_eq!(system.n_cores(), found.n_cores());
    assert_eq!(system.packages(), found.packages());
    let nodes = |topology: &Topology| {
        let mut cores = cores(topology);
        cores.sort();
        cores
    };
    assert_eq!(nodes(&system), nodes(&found));
}

#[cfg(feature = "hwloc")]
mod with_hwloc {
    use super::*;
    use dataflow_numa::{Bind, TopologyError, nearest};

    fn os(topology: &Topology, nodes: &[usize]) -> Vec<usize> {
        nodes
            .iter()
            .map(|&node| topology.numa_nodes()[node].os_index)
            .collect()
    }

    fn all_os(topology: &Topology) -> Vec<usize> {
        os(topology, &Vec::from_iter(0..topology.n_numa_nodes()))
    }

    /// From a NUMA node, the others with workers, by distance.
    fn groups(topology: &Topology, from_os: usize) -> Vec<Vec<usize>> {
        let places = Bind::Cores.places(topology, topology.n_cores());
        let homes: Vec<usize> = places.iter().map(|place| place.numa_node).collect();
        let from = all_os(topology)
            .iter()
            .position(|&os| os == from_os)
            .unwrap();
        let groups = nearest::groups(topology, &homes, from);
        groups.iter().map(|group| os(topology, group)).collect()
    }

    fn synthetic(description: &str) -> Topology {
        Topology::from_synthetic(description).unwrap()
    }

    #[test]
    fn synthetic_machines_have_what_their_description_says() {
        // packages, NUMA nodes, cores, PUs, homes of the cores
        for (description, counts, homes) in [
            (
                "Package:2 [NUMANode] Core:2 PU:2",
                (2, 2, 4, 8),
                &[0, 0, 1, 1][..],
            ),
            ("PU:3", (0, 1, 3, 3), &[0, 0, 0]),
            ("[NUMANode] Package:2 Core:1 PU:2", (2, 1, 2, 4), &[0, 0]),
            (
                "Package:1 Group:3 [NUMANode] Core:1 PU:1",
                (1, 3, 3, 3),
                &[0, 1, 2],
            ),
            // The smaller of two nodes around a core; of equals the first.
            (
                "Package:2 [NUMANode] Group:2 [NUMANode] Core:1 PU:1",
                (2, 6, 4, 4),
                &[0, 1, 3, 4],
            ),
            (
                "Package:2 [NUMANode] [NUMANode] Core:1 PU:1",
                (2, 4, 2, 2),
                &[0, 2],
            ),
        ] {
            let found = synthetic(description);
            let packages = found.packages().len();
            assert_eq!(
                (
                    packages,
                    found.n_numa_nodes(),
                    found.n_cores(),
                    found.n_pus()
                ),
                counts,
                "{description}"
            );
            let of_cores: Vec<usize> = found.cores().iter().map(|core| core.numa_node).collect();
            assert_eq!(of_cores, homes, "{description}");
            assert!(!found.has_distances(), "{description}");
        }
    }

    #[test]
    fn without_distances_all_others_are_one_group_and_memory_only_nodes_are_in_none() {
        let machine = synthetic("Package:3 [NUMANode] [NUMANode] Core:1 PU:1");
        assert_eq!(groups(&machine, 2), [[4, 0]]);
        assert_eq!(groups(&machine, 5), [[0, 2, 4]]);
        assert_eq!((machine.distance(0, 0), machine.distance(0, 5)), (10, 20));
    }

    #[test]
    fn an_awkward_machine_is_read_by_the_rules() {
        let machine = Topology::from_xml(awkward()).unwrap();
        let expected = [
            (4, 0, vec![0, 1]),
            (4, 0, vec![2]),
            // The smallest around it, whatever it is.
            (3, 0, vec![3]),
            // Not 9, which has high bandwidth.
            (0, 7, vec![4]),
            (0, 7, vec![5]),
            // In no node: the nearest that is not 9.
            (0, 2, vec![6]),
        ];
        assert_eq!(cores(&machine), expected);
        assert_eq!(all_os(&machine), [3, 4, 9, 0, 6]);
        assert_eq!(machine.packages(), [0, 7, 2]);
        // The latencies, not the bandwidths; rows as in the file's own order.
        assert_eq!(
            [(1, 3), (3, 1), (1, 4), (4, 4)].map(|(from, to)| machine.distance(from, to)),
            [21, 31, 14, 10]
        );
        // 6 is nearer than 0, but nobody works there.
        assert_eq!(groups(&machine, 4), vec![vec![3], vec![0]]);
        assert_eq!(groups(&machine, 0), [[3, 4]]);
        assert_eq!(groups(&machine, 9), [[0], [4], [3]]);
        assert_eq!(groups(&machine, 6), [[4], [0], [3]]);
    }

    /// Written in a cgroup that forbade most of it, a machine was read as what was left.
    #[test]
    fn a_machine_is_read_whole_whatever_was_allowed_to_whoever_wrote_the_file() {
        let whole = std::fs::read_to_string(awkward()).unwrap();
        let all = "allowed_cpuset=\"0x0000007f\"";
        assert!(whole.contains(all), "{whole}");
        let two = whole.replace(all, "allowed_cpuset=\"0x00000003\"");
        let read = Topology::from_xml(written("forbidden.xml", two.as_bytes())).unwrap();
        let machine = Topology::from_xml(awkward()).unwrap();
        assert_eq!(
            (cores(&read), all_os(&read)),
            (cores(&machine), all_os(&machine))
        );
    }

    #[test]
    fn a_restricted_machine_keeps_its_nodes_and_loses_cores_and_packages() {
        let machine = Topology::from_xml(awkward()).unwrap();
        let part = machine.restricted_to(&[1, 5, 77]).unwrap();
        assert_eq!(cores(&part), [(4, 0, vec![1]), (0, 7, vec![5])]);
        assert_eq!(
            (all_os(&part), part.packages()),
            (all_os(&machine), &[0, 7][..])
        );
        assert_eq!(part.distance(3, 1), 31);
        let error = machine.restricted_to(&[77]).unwrap_err();
        assert!(error.to_string().contains("77"), "{error}");
    }

    #[test]
    fn the_slots_of_hybrid_cores_are_filled_core_by_core() {
        let machine = Topology::from_xml(awkward()).unwrap();
        let pus = |bind: Bind, n| -> Vec<Vec<usize>> {
            bind.places(&machine, n)
                .into_iter()
                .map(|place| place.pus)
                .collect()
        };
        let first = [[0], [2], [3], [4], [5], [6]];
        assert_eq!(pus(Bind::Cores, 6), first);
        assert_eq!(pus(Bind::Pus, 7), [&first[..], &[[1]]].concat());
        // Cores 2 and 4 are slow: they come last, but in their place.
        assert_eq!(pus(Bind::Cores, 4), [[0], [3], [5], [6]]);
        assert_eq!(pus(Bind::Cores, 5), [[0], [2], [3], [5], [6]]);
    }

    #[test]
    fn measured_distances_come_back_from_the_file_they_were_written_to() {
        let path = written("measured.xml", b"");
        let machine = Topology::from_xml(awkward()).unwrap();
        let n = machine.n_numa_nodes() as u64;
        let entry = |at: u64| {
            if at.is_multiple_of(n + 1) {
                80
            } else {
                100 + at
            }
        };
        let measured: Vec<u64> = (0..n * n).map(entry).collect();
        Topology::write_with_distances(Some(&awkward()), &measured, &path).unwrap();
        let read = Topology::from_xml(&path).unwrap();
        let nodes = 0..n as usize;
        let pairs = nodes
            .clone()
            .flat_map(|from| nodes.clone().map(move |to| (from, to)));
        let back = pairs.map(|(from, to)| read.distance(from, to).into());
        assert_eq!(back.collect::<Vec<u64>>(), measured);
        assert_eq!(
            (cores(&read), all_os(&read)),
            (cores(&machine), all_os(&machine))
        );

        // Written twice is not there twice.
        let other: Vec<u64> = measured.iter().map(|value| value + 1).collect();
        Topology::write_with_distances(Some(&path), &other, &path).unwrap();
        assert_eq!(Topology::from_xml(&path).unwrap().distance(0, 1), 102);
        assert_eq!(
            std::fs::read_to_string(&path)
                .unwrap()
                .matches("NUMALatency")
                .count(),
            1
        );

        let nowhere = Path::new("no/such/folder/machine.xml");
        let error = Topology::write_with_distances(Some(&path), &other, nowhere).unwrap_err();
        assert!(error.to_string().contains("no/such/folder"), "{error}");
    }

    #[test]
    fn what_is_no_topology_is_one_error_that_names_the_file_and_what_is_allowed() {
        let whole = std::fs::read(awkward()).unwrap();
        let text = String::from_utf8(whole.clone()).unwrap();
        let newer = text.replace("version=\"2.0\"", "version=\"3.0\"");
        for (name, content) in [
            ("empty.xml", &b""[..]),
            ("prose.xml", b"a machine with two sockets"),
            ("zero.xml", b"<topology>\0</topology>"),
            ("binary.xml", &[0xff, 0xfe, 0x00, 0x80]),
            ("other.xml", b"<?xml version=\"1.0\"?><html><body/></html>"),
            (
                "bare.xml",
                b"<?xml version=\"1.0\"?><topology version=\"2.0\"></topology>",
            ),
            ("half.xml", &whole[..whole.len() / 2]),
            ("newer.xml", newer.as_bytes()),
        ] {
            let error = Topology::from_xml(written(name, content)).unwrap_err();
            assert!(
                matches!(error, TopologyError::NotATopology { .. }),
                "{name}: {error:?}"
            );
            let text = error.to_string();
            assert!(
                text.contains(name) && text.contains("format 1 or 2"),
                "{text}"
            );
            assert_eq!(text.lines().count(), 1, "{text}");
        }
        let error = Topology::from_xml(written("newer.xml", newer.as_bytes())).unwrap_err();
        assert!(error.to_string().contains("3.0"), "{error}");
        for unreadable in ["no/such/file.xml", env!("CARGO_TARGET_TMPDIR")] {
            let error = Topology::from_xml(unreadable).unwrap_err();
            assert!(
                matches!(error, TopologyError::Unreadable { .. }),
                "{error:?}"
            );
            assert!(error.to_string().contains(unreadable), "{error}");
        }
    }

    #[test]
    fn what_describes_no_machine_is_refused_by_its_text() {
        for text in [
            "",
            "two sockets",
            "Core:0",
            "Package:2 Core",
            "PU:1\0",
            "Core:2 Package:2",
        ] {
            let error = Topology::from_synthetic(text).unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
