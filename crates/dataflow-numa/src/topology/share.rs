//! Share: several ranks on one machine each take a part of its cores.
//!
//! # Law
//! If a launcher gave a rank a smaller mask than the machine has, it has divided the cores already, and
//! the rank uses the whole mask. If there are more ranks than such masks (all have the mask of the whole
//! machine, or of one package), the ranks with one mask divide its cores into equal, contiguous parts.
//! If there are at least as many cores as ranks, no two ranks share a core, provided that a launcher that
//! gives one mask to several ranks goes round the packages in turn, and that the launcher, not the user
//! before it, made the mask smaller. If there are more ranks than cores but not than PUs, no two of them
//! share a PU. Ranks that are sure to have one mask, as threads of one process, divide it however small it
//! is.
//!
//! Two launches on one machine are not aware of each other.

use super::{Topology, system};
use std::path::Path;

/// A rank among those of the same launch on the same machine.
///
/// # Examples
/// See [`LocalRank::from_launcher`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalRank {
    /// Counted from 0 on this machine.
    pub rank: usize,
    /// How many there are on this machine.
    pub n_ranks: usize,
}

/// Variables that hold local rank and number of ranks: Open MPI; MPICH and Intel MPI.
const LAUNCHERS: [[&str; 2]; 2] = [
    ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"],
    ["MPI_LOCALRANKID", "MPI_LOCALNRANKS"],
];

impl LocalRank {
    /// Reads the launcher's variables through `variable`, which returns the value of a name. `None` if
    /// there is no launcher, or if its variables make no sense.
    ///
    /// Understands Open MPI, MPICH, Intel MPI and `srun` of Slurm.
    ///
    /// ```
    /// use dataflow_numa::topology::share::LocalRank;
    /// let mpich = |name: &str| match name {
    ///     "MPI_LOCALRANKID" => Some("1".to_owned()),
    ///     "MPI_LOCALNRANKS" => Some("4".to_owned()),
    ///     _ => None,
    /// };
    /// assert_eq!(LocalRank::from_launcher(mpich), Some(LocalRank { rank: 1, n_ranks: 4 }));
    /// ```
    pub fn from_launcher(variable: impl Fn(&str) -> Option<String>) -> Option<LocalRank> {
        let number = |name: &str| variable(name)?.trim().parse::<usize>().ok();
        let of = |[rank, n_ranks]: [&str; 2]| Some((number(rank)?, number(n_ranks)?));
        let slurm = || {
            // A batch script has a local rank too; only `srun` starts a step.
            number("SLURM_STEP_ID")?;
            let tasks = variable("SLURM_STEP_TASKS_PER_NODE");
            let tasks = tasks.or_else(|| variable("SLURM_TASKS_PER_NODE"))?;
            let node = number("SLURM_NODEID").unwrap_or(0);
            Some((number("SLURM_LOCALID")?, tasks_of_node(&tasks, node)?))
        };
        let (rank, n_ranks) = LAUNCHERS.into_iter().find_map(of).or_else(slurm)?;
        // Ranks are counted in 32 bits.
        let is_sense = rank < n_ranks && u32::try_from(n_ranks).is_ok();
        is_sense.then_some(LocalRank { rank, n_ranks })
    }
}

/// The entry of a node in a list like `4(x2),3`: 4 tasks on each of two nodes, then 3.
fn tasks_of_node(list: &str, node: usize) -> Option<usize> {
    let mut first: usize = 0;
    for entry in list.split(',') {
        let (tasks, times) = match entry.split_once("(x") {
            Some((tasks, times)) => (tasks, times.trim_end().strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        first = first.checked_add(times)?;
        if node < first {
            return tasks.trim().parse().ok();
        }
    }
    None
}

/// The part of a topology that a rank uses.
///
/// - `topology`: what the rank's own mask allows
/// - `granted`: all PUs that the ranks of this machine may use together; `None` if not known, or if
///   the ranks are sure to have one mask: then every rank is taken to have the same
pub fn part(topology: Topology, granted: Option<&[usize]>, local: LocalRank) -> Topology {
    let n_masks = n_masks(&topology, granted);
    let sharers = local.n_ranks.div_ceil(n_masks);
    match sharers {
        0 | 1 => topology,
        // The first round of ranks went over all masks, then came the second.
        _ => topology.part(local.rank / n_masks % sharers, sharers),
    }
}

/// How many masks as large as a rank's own, `topology`, there is room for in all that is `granted`: as
/// many as a launcher has made if it has divided the PUs, and at least one.
pub fn n_masks(topology: &Topology, granted: Option<&[usize]>) -> usize {
    let n_masks = granted.map_or(1, |granted| granted.len() / topology.n_pus());
    n_masks.max(1)
}

/// The PUs that the kernel grants to this process whatever its mask is: those of its cgroup's
/// cpuset, or all that are online. `None` if it does not say.
pub fn granted() -> Option<Vec<usize>> {
    let list = |path: &Path| system::parse_list(&std::fs::read_to_string(path).ok()?);
    let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let cpuset = cgroups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (mount, file) = match controllers {
            "" => ("/sys/fs/cgroup", "cpuset.cpus.effective"),
            _ if controllers.split(',').any(|one| one == "cpuset") => {
                ("/sys/fs/cgroup/cpuset", "cpuset.effective_cpus")
            }
            _ => return None,
        };
        let folder = Path::new(mount).join(path.trim_start_matches('/'));
        // A cgroup without a cpuset of its own has its parent's.
        let folders = folder
            .ancestors()
            .take_while(|folder| folder.starts_with(mount));
        folders
            .map(|folder| folder.join(file))
            .find_map(|file| list(&file))
    });
    let granted = cpuset.or_else(|| system::online(Path::new(system::ROOT)));
    granted.filter(|granted| !granted.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Core, NumaNode};

    fn local(rank: usize, n_ranks: usize) -> Option<LocalRank> {
        Some(LocalRank { rank, n_ranks })
    }

    #[test]
    fn every_launcher_is_understood_and_nonsense_is_not() {
        for (environment, expected) in [
            ("", None),
            (
                "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2",
                local(1, 2),
            ),
            (
                "MPI_LOCALRANKID=0 MPI_LOCALNRANKS=3 PMI_RANK=6 PMI_SIZE=9",
                local(0, 3),
            ),
            (
                "SLURM_STEP_ID=0 SLURM_LOCALID=2 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4(x2),3",
                local(2, 4),
            ),
            (
                "SLURM_STEP_ID=0 SLURM_LOCALID=2 SLURM_NODEID=2 SLURM_TASKS_PER_NODE=4(x2),3",
                local(2, 3),
            ),
            (
                "SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=8",
                local(0, 8),
            ),
            // Open MPI started inside of Slurm counts, not Slurm.
            (
                "SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=1 OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=4",
                local(3, 4),
            ),
            // A batch script itself is alone on its node.
            ("SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=8", None),
            (
                "SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_NODEID=3 SLURM_TASKS_PER_NODE=4(x2),3",
                None,
            ),
            (
                "SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=four",
                None,
            ),
            ("OMPI_COMM_WORLD_LOCAL_RANK=1", None),
            (
                "OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=2",
                None,
            ),
            (
                "OMPI_COMM_WORLD_LOCAL_RANK=-1 OMPI_COMM_WORLD_LOCAL_SIZE=2",
                None,
            ),
            // Ranks are counted in 32 bits.
            (
                "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=9223372036854775808",
                None,
            ),
            (
                "SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_NODEID=5 SLURM_STEP_TASKS_PER_NODE=1,1(x18446744073709551615)",
                None,
            ),
        ] {
            let pairs = environment
                .split_whitespace()
                .filter_map(|pair| pair.split_once('='));
            let pairs: Vec<_> = pairs.collect();
            let variable = |name: &str| {
                let found = pairs.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| value.to_string())
            };
            assert_eq!(
                LocalRank::from_launcher(variable),
                expected,
                "{environment}"
            );
        }
    }

    fn pus(topology: &Topology) -> Vec<usize> {
        topology
            .cores()
            .iter()
            .flat_map(|core| core.pus.clone())
            .collect()
    }

    #[test]
    fn ranks_cut_a_common_mask_and_leave_a_divided_one_alone() {
        let machine: &[usize] = &[0, 1, 2, 3, 4, 5, 6, 7];
        // (mask of each rank, what each then uses), on a machine of 8 PUs
        type OfEachRank<'a> = &'a [&'a [usize]];
        let cases: [(OfEachRank, OfEachRank); 6] = [
            // Nobody divided.
            (&[machine; 2], &[&[0, 1, 2, 3], &[4, 5, 6, 7]]),
            (&[machine; 3], &[&[0, 1], &[2, 3, 4], &[5, 6, 7]]),
            // The launcher divided.
            (&[&[0], &[1]], &[&[0], &[1]]),
            (
                &[&[0, 1, 2, 3], &[4, 5, 6, 7]],
                &[&[0, 1, 2, 3], &[4, 5, 6, 7]],
            ),
            // It went round two packages.
            (
                &[&[0, 1, 2, 3], &[4, 5, 6, 7], &[0, 1, 2, 3], &[4, 5, 6, 7]],
                &[&[0, 1], &[4, 5], &[2, 3], &[6, 7]],
            ),
            // One rank has what it has.
            (&[&[3, 4]], &[&[3, 4]]),
        ];
        for (masks, expected) in cases {
            for (rank, (mask, expected)) in masks.iter().zip(expected).enumerate() {
                let local = LocalRank {
                    rank,
                    n_ranks: masks.len(),
                };
                let part = part(Topology::flat(mask), Some(machine), local);
                assert_eq!(pus(&part), *expected, "rank {rank} of {masks:?}");
            }
        }
    }

    #[test]
    fn parts_are_disjoint_and_whole_and_repeat_only_when_ranks_outnumber_cores() {
        for n_cores in 1..9 {
            let mask: Vec<usize> = (10..10 + n_cores).collect();
            for n_ranks in 1..12 {
                let of = |rank| {
                    pus(&part(
                        Topology::flat(&mask),
                        None,
                        LocalRank { rank, n_ranks },
                    ))
                };
                let mut all: Vec<usize> = (0..n_ranks).flat_map(of).collect();
                assert!((0..n_ranks).all(|rank| !of(rank).is_empty()));
                if n_ranks > n_cores {
                    all.dedup();
                }
                assert_eq!(all, mask, "{n_ranks} ranks on {n_cores} cores");
            }
        }
    }

    /// Cores with so many PUs each, all of them numbered in turn.
    fn cores(n_pus: &[usize]) -> Topology {
        let mut next = 0..;
        let core = |&n_pus: &usize| Core {
            numa_node: 0,
            package: 0,
            pus: next.by_ref().take(n_pus).collect(),
        };
        let cores = n_pus.iter().map(core).collect();
        Topology::new(cores, vec![NumaNode { os_index: 0 }], None)
    }

    /// Two of four ranks on two cores with two hyper-threads each were both on the first of a core.
    #[test]
    fn more_ranks_than_cores_divide_hyper_threads_and_share_none_while_they_suffice() {
        let parts = |machine: &Topology, n_ranks: usize| -> Vec<Vec<usize>> {
            let of = |rank| pus(&part(machine.clone(), None, LocalRank { rank, n_ranks }));
            (0..n_ranks).map(of).collect()
        };
        let two = cores(&[2, 2]);
        assert_eq!(parts(&two, 2), [[0, 1], [2, 3]]);
        assert_eq!(parts(&two, 3), [vec![0], vec![1], vec![2, 3]]);
        assert_eq!(parts(&two, 4), [[0], [1], [2], [3]]);
        assert_eq!(parts(&two, 5), [[0], [0], [1], [2], [3]]);
        let spread = [vec![0], vec![1], vec![2, 3], vec![4], vec![5], vec![6, 7]];
        assert_eq!(parts(&cores(&[2; 4]), 6), spread);
        for machine in [cores(&[2, 2, 1, 1]), cores(&[1, 4, 2]), cores(&[4; 3])] {
            let all: Vec<usize> = (0..machine.n_pus()).collect();
            for n_ranks in 1..=machine.n_pus() {
                assert_eq!(parts(&machine, n_ranks).concat(), all, "{n_ranks} ranks");
            }
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_granted_contains_what_is_allowed() {
        let granted = granted().unwrap();
        let allowed = crate::pin::allowed_pus();
        assert!(
            allowed.iter().all(|pu| granted.contains(pu)),
            "{granted:?} {allowed:?}"
        );
    }

    /// Their product ran over: the last of so many parts was the first.
    #[test]
    fn of_however_many_parts_the_last_has_the_last_core() {
        let topology = Topology::flat(&[0, 1, 2, 3]);
        for n_parts in [4, 1 << 63, usize::MAX] {
            assert_eq!(topology.part(n_parts - 1, n_parts).cores()[0].pus, [3]);
            let local = LocalRank {
                rank: n_parts - 1,
                n_ranks: n_parts,
            };
            assert_eq!(part(topology.clone(), None, local).cores()[0].pus, [3]);
        }
    }
}
