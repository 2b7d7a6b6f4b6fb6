//! How many bytes of memory are free for this process: of the machine, and of its control group.

use std::path::{Path, PathBuf};

/// Bytes that this process may still take: what the machine can give without swapping, or less
/// where a control group sets a limit, or a shell on the process (`ulimit -v`). 64 GiB where none can be
/// read.
///
/// A shell's limit is one on addresses, and counts what is only reserved too: stacks of threads, arenas of the
/// allocator, and for each worker twice the largest cache, which faer's products reserve.
/// [`Needs`](super::Needs) know nothing of these, and [`expect_room`](super::Needs::expect_room) looks at what
/// is held alone: just below such a limit a run may be let in and fail.
///
/// # Source
/// Linux: `MemAvailable`, `VmSize` and limits of proc(5); memory.max, memory.current and memory.stat of control groups
/// v2, memory.limit_in_bytes of v1.
pub fn available() -> u64 {
    let left = least(of_machine, of_group);
    let [limits, status] = ["limits", "status"].map(|file| read(format!("/proc/self/{file}")));
    let of_process = limits.and_then(|limits| of_process(&limits, &status?));
    of_process.map_or(left, |of_process| left.min(of_process))
}

/// Bytes that this process may have in all, whoever has taken what of them: what the machine has, or
/// less where a control group sets a limit. 64 GiB where neither can be read.
pub(crate) fn allowed() -> u64 {
    least(|meminfo| line(meminfo, "MemTotal:"), limit)
}

/// The least of what is said of the machine and of the groups that this process is in.
fn least(of_machine: impl Fn(&str) -> Option<u64>, of_group: impl Fn(&Path) -> Option<u64>) -> u64 {
    let machine = read("/proc/meminfo").and_then(|text| of_machine(&text));
    let groups = read("/proc/self/cgroup").map_or(Vec::new(), |text| groups(&text));
    let of_groups = groups.iter().filter_map(|group| of_group(group));
    of_groups.chain(machine).min().unwrap_or(1 << 36)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// What is left of a limit on addresses, if there is one.
fn of_process(limits: &str, status: &str) -> Option<u64> {
    let mut lines = limits.lines();
    let limit = lines.find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(line(status, "VmSize:")?))
}

fn of_machine(meminfo: &str) -> Option<u64> {
    line(meminfo, "MemAvailable:").or_else(|| line(meminfo, "MemTotal:"))
}

/// The bytes on the line of this name.
fn line(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with(name))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The folders of the groups that this process is in, from the lines of `/proc/self/cgroup`; as a
/// container sees them, where they begin at its root.
fn groups(lines: &str) -> Vec<PathBuf> {
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|name| name == "memory") => "/sys/fs/cgroup/memory",
            _ => return None,
        };
        let inner = Path::new(path.trim_start_matches('/'));
        let within = inner
            .ancestors()
            .map(move |part| Path::new(root).join(part));
        Some(within.collect::<Vec<_>>())
    };
    lines.lines().filter_map(of_line).flatten().collect()
}

/// What is left of a group's limit; what it could drop from its caches counts as free.
fn of_group(folder: &Path) -> Option<u64> {
    let limit = limit(folder)?;
    let used = number(folder, ["memory.current", "memory.usage_in_bytes"]);
    let caches = read(folder.join("memory.stat")).and_then(|text| inactive(&text));
    let used = used.unwrap_or(0).saturating_sub(caches.unwrap_or(0));
    Some(limit.saturating_sub(used))
}

/// A group's limit, if it has one.
fn limit(folder: &Path) -> Option<u64> {
    number(folder, ["memory.max", "memory.limit_in_bytes"])
}

/// The number in the first of these files that has one: of v2, then of v1.
fn number(folder: &Path, names: [&str; 2]) -> Option<u64> {
    let number = |name: &str| read(folder.join(name))?.trim().parse().ok();
    names.into_iter().find_map(number)
}

fn inactive(stat: &str) -> Option<u64> {
    let words = stat.lines().filter_map(|line| line.split_once(' '));
    let mut found =
        words.filter(|(name, _)| matches!(*name, "inactive_file" | "total_inactive_file"));
    found.next()?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_system_says() {
        let meminfo = "MemTotal:  4000 kB\nMemFree:  1000 kB\nMemAvailable:  3000 kB\n";
        assert_eq!(of_machine(meminfo), Some(3000 * 1024));
        assert_eq!(of_machine("MemTotal: 4 kB"), Some(4096));
        assert_eq!(of_machine("nothing"), None);
        assert_eq!(line(meminfo, "MemTotal:"), Some(4000 * 1024));
        assert!(available() > 1 << 20 && available() <= allowed());
    }

    #[test]
    fn a_process_has_left_its_limit_of_addresses_without_those_it_has() {
        let limits = |soft: &str| {
            format!(
                "Limit  Soft Limit  Hard Limit  Units\nMax address space  {soft}  unlimited  bytes\n"
            )
        };
        let status = "Name: x\nVmSize:\t     4 kB\n";
        assert_eq!(of_process(&limits("10000"), status), Some(5904));
        assert_eq!(of_process(&limits("1000"), status), Some(0));
        assert_eq!(of_process(&limits("unlimited"), status), None);
        assert_eq!(of_process("nothing", status), None);
    }

    #[test]
    fn groups_are_looked_for_up_to_the_root() {
        let found = groups("0::/system.slice/job\n");
        let folders = ["system.slice/job", "system.slice", ""]
            .map(|part| Path::new("/sys/fs/cgroup").join(part));
        assert_eq!(found, folders);
        let found = groups("5:cpu,memory:/a\n4:cpuset:/\n");
        assert_eq!(
            found,
            ["a", ""].map(|part| Path::new("/sys/fs/cgroup/memory").join(part))
        );
    }

    #[test]
    fn a_group_has_left_its_limit_without_what_it_uses_beside_caches() {
        let folder = std::env::temp_dir().join(format!("dataflow-group-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("memory.max", "max\n");
        assert_eq!((limit(&folder), of_group(&folder)), (None, None));
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 300\ninactive_file 400\n");
        assert_eq!((limit(&folder), of_group(&folder)), (Some(1000), Some(700)));
        std::fs::remove_file(folder.join("memory.max")).unwrap();
        write("memory.limit_in_bytes", "900\n");
        assert_eq!((limit(&folder), of_group(&folder)), (Some(900), Some(600)));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
