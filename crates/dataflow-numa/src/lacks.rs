//! What this system lacks of what workers and their memory use where it is there.
//!
//! # Law
//! A program is right without any of it, and gives the same bits; it may be slower. What is lacking
//! is said once for all workers, as [`Warning::Lacks`](crate::Warning::Lacks).

use crate::barrier::Barrier;
use crate::topology::system;
use std::fmt;
use std::path::Path;

/// One thing that is not there, and what is done instead.
///
/// # Examples
/// See [`Warning::Lacks`](crate::Warning::Lacks) and [`Workers::warnings`](crate::Workers::warnings).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// Threads cannot be pinned: they run where the system puts them.
    Pinning,
    /// The system runs no fence in all threads at the request of one (`membarrier(2)`): a worker that
    /// queues a task runs a fence of its own, which may double the time of an empty task.
    Membarrier,
    /// Memory comes on small pages.
    HugePages,
    /// No files describe the machine, and there is no hwloc: it is taken for one NUMA node with a
    /// core for each processor, unless the program says otherwise.
    Topology,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lack::Pinning => "no pinning (threads run where the system puts them)",
            Lack::Membarrier => "no membarrier (each queued task pays for a fence)",
            Lack::HugePages => "no huge pages (small ones are used)",
            Lack::Topology => "no description of the machine (it counts as one NUMA node)",
        })
    }
}

/// What is lacking here, where threads can or cannot be pinned. Reads two files of the system's.
pub(crate) fn here(can_pin: bool) -> Vec<Lack> {
    let has_topology = cfg!(feature = "hwloc") || Path::new(system::ROOT).exists();
    let has_huge_pages = cfg!(target_os = "linux") && has_huge_pages(Path::new(MEMORY));
    let there = [
        (can_pin, Lack::Pinning),
        (Barrier::new().is_asymmetric(), Lack::Membarrier),
        (has_huge_pages, Lack::HugePages),
        (has_topology, Lack::Topology),
    ];
    let lacking = there.into_iter().filter(|(is_there, _)| !is_there);
    lacking.map(|(_, lack)| lack).collect()
}

/// Where Linux says how it manages memory.
const MEMORY: &str = "/sys/kernel/mm";

/// Whether a program that asks for huge pages gets them; where there are no such files, perhaps.
fn has_huge_pages(memory: &Path) -> bool {
    match std::fs::read_to_string(memory.join("transparent_hugepage/enabled")) {
        Ok(choice) => !choice.contains("[never]"),
        Err(_) => !memory.exists(), // a kernel that was built without them has the folder alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_lacking_where_the_kernel_says_never_or_says_nothing_of_them() {
        let folder = std::env::temp_dir().join(format!("dataflow-lacks-{}", std::process::id()));
        let said = folder.join("transparent_hugepage");
        assert!(has_huge_pages(&folder), "nobody knows");
        std::fs::create_dir_all(&said).unwrap();
        assert!(!has_huge_pages(&folder), "built without them");
        for (choice, expected) in [
            ("always [madvise] never\n", true),
            ("[always] madvise never\n", true),
            ("always madvise [never]\n", false),
        ] {
            std::fs::write(said.join("enabled"), choice).unwrap();
            assert_eq!(has_huge_pages(&folder), expected, "{choice}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_system_without_pinning_is_told_from_one_with_it() {
        assert!(here(false).contains(&Lack::Pinning));
        assert!(!here(true).contains(&Lack::Pinning));
        let elsewhere = cfg!(not(target_os = "linux"));
        assert!(!elsewhere || here(true).contains(&Lack::Membarrier));
    }
}
