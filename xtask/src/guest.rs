//! Guest: a small Linux machine with NUMA nodes that runs one program, emulated by QEMU.
//!
//! The guest has the program, its shared libraries, a shell and nothing else: no disk, no network.
//! Distances between its nodes are labels without cost: placing and order can be tested there,
//! speed cannot. Without hardware virtualisation everything is 10 to 50 times slower than outside.
//!
//! # Elsewhere
//! What is run in it: [`numa_vm`](crate::numa_vm). Packages: [`packages`](crate::packages), as those
//! of a feature `numa-vm`.

use crate::out::say;
use crate::packages::in_path;
use crate::steps::{self, quoted};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A machine to be.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    pub nodes: usize,
    /// Processors on each.
    pub cpus: usize,
    /// Memory on each, in MiB.
    pub mib: usize,
    /// What lies between them.
    pub distances: Distances,
}

/// How far nodes are from each other; 10 is a node itself.
#[derive(Clone, Copy, Debug)]
pub enum Distances {
    /// 20 to every other.
    Full,
    /// 10 more for each step on a ring.
    Ring,
}

/// How a program ended.
#[derive(Debug)]
pub struct GuestEnded {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Longest time from power on to power off.
const SECONDS: u64 = 400;

/// What the guest does from its first process on: serial port 1 is standard output, 2 standard
/// error, 3 the exit status.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s 2>/dev/null
export PATH=/usr/sbin:/usr/bin HOME=/tmp
mount -t tmpfs tmp /tmp
ip link set lo up
for port in 1 2 3; do stty -F /dev/ttyS$port raw -echo; done
mkfifo /run/out /run/err
cat /run/out >/dev/ttyS1 & out=$!
cat /run/err >/dev/ttyS2 & err=$!
sh /command </dev/null >/run/out 2>/run/err
status=$?
wait $out $err
echo "$status" >/dev/ttyS3
stty -F /dev/ttyS1 >/dev/null   # returns when the port has drained
sync; poweroff -f
"#;

impl Guest {
    /// Boots the machine and runs a program in it, which finds `environment` and nothing else of
    /// this machine.
    ///
    /// # Errors
    /// One line if there was no guest, or it did not come to its end in time.
    pub fn run(
        &self,
        kernel: &Path,
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<GuestEnded, String> {
        let work = steps::target_folder().join(format!("guest-{}", std::process::id()));
        let ended = self
            .files(&work, program, arguments, environment)
            .and_then(|()| self.boot(kernel, &work));
        // What is left over lies below cargo's own folder.
        fs::remove_dir_all(&work).ok();
        ended
    }

    /// Makes the archive of the guest's files.
    fn files(
        &self,
        work: &Path,
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<(), String> {
        let root = work.join("root");
        let made = |fault: std::io::Error| format!("the guest's files: {fault}");
        let folders = ["proc", "sys", "dev", "tmp", "run", "etc"];
        let usr = ["bin", "sbin", "lib", "lib32", "lib64"];
        for folder in folders.iter().copied().map(PathBuf::from) {
            fs::create_dir_all(root.join(folder)).map_err(made)?;
        }
        for folder in usr {
            fs::create_dir_all(root.join("usr").join(folder)).map_err(made)?;
            unix::symlink(format!("usr/{folder}"), root.join(folder)).map_err(made)?;
        }
        let busybox = in_path("busybox").ok_or("busybox is not there")?;
        fs::copy(&busybox, root.join("usr/bin/busybox")).map_err(made)?;
        fs::copy(program, root.join("program")).map_err(made)?;
        // All files lie in the guest's memory: what debuggers read, most of the program, stays out.
        // Where there is no `strip` it stays in.
        let mut strip = Command::new("strip");
        strip.arg(root.join("program")).status().ok();
        for library in libraries(&[program, &busybox])? {
            let to = root.join(library.strip_prefix("/").unwrap_or(&library));
            fs::create_dir_all(to.parent().unwrap_or(&root)).map_err(made)?;
            fs::copy(&library, to).map_err(made)?;
        }
        if Path::new("/etc/ld.so.cache").exists() {
            fs::copy("/etc/ld.so.cache", root.join("etc/ld.so.cache")).map_err(made)?;
        }
        let mut command = String::from("cd /tmp\n");
        for (name, value) in environment {
            // Writing to a string does not fail.
            let _ = writeln!(command, "export {name}={}", quoted(value));
        }
        let words = arguments.iter().map(|word| quoted(word));
        let words: Vec<String> = words.collect();
        let _ = writeln!(command, "exec /program {}", words.join(" "));
        fs::write(root.join("command"), command).map_err(made)?;
        fs::write(root.join("init"), INIT).map_err(made)?;
        unix::may_run(&root.join("init")).map_err(made)?;
        let archive = "find . | cpio -o -H newc -R 0:0 --quiet >../initramfs";
        let mut shell = Command::new("sh");
        shell.args(["-c", archive]).current_dir(&root);
        match shell.status() {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("the guest's archive was not made: {other:?}")),
        }
    }

    fn boot(&self, kernel: &Path, work: &Path) -> Result<GuestEnded, String> {
        let serial = |name: &str| format!("file:{}", work.join(name).display());
        let log = File::create(work.join("qemu")).map_err(|fault| fault.to_string())?;
        let ports = ["log", "out", "err", "status"];
        let mut qemu = Command::new("timeout");
        qemu.args(["-k", "5", &SECONDS.to_string(), "qemu-system-x86_64"])
            .args(["-nodefaults", "-no-user-config", "-display", "none"])
            .args(["-no-reboot", "-machine", "pc"])
            .args(self.hardware())
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(work.join("initramfs"))
            .args(ports.iter().flat_map(|port| ["-serial".into(), serial(port)]))
            // Calibrating each processor against a noisy clock would take seconds.
            .args(["-append", "console=ttyS0 loglevel=3 panic=-1 8250.nr_uarts=4 no_timer_check lpj=4000000 numa_balancing=disable"])
            .stdin(Stdio::null())
            .stderr(log.try_clone().map_err(|fault| fault.to_string())?)
            .stdout(log);
        let status = qemu.status();
        let status = status.map_err(|fault| format!("qemu did not start: {fault}"))?;
        let read = |name| {
            let bytes = fs::read(work.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\r', "")
        };
        match (read("status").trim().parse(), status.code()) {
            (Ok(status), _) => Ok(GuestEnded {
                status,
                stdout: read("out"),
                stderr: read("err"),
            }),
            (Err(_), Some(124)) => Err(format!(
                "the guest was not done after {SECONDS} s; so far:\n{}{}",
                read("out"),
                read("err")
            )),
            _ => Err(format!(
                "the guest ended without an exit status ({status})\n{}{}",
                read("qemu"),
                read("log")
            )),
        }
    }

    /// Processors, memory, nodes and their distances.
    fn hardware(&self) -> Vec<String> {
        let Guest {
            nodes, cpus, mib, ..
        } = *self;
        let mut words: Vec<String> = match has_virtualisation() {
            true => ["-accel", "kvm", "-cpu", "host"].map(String::from).into(),
            // Processors with five levels of page tables take some kernels aback.
            false => ["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"]
                .map(String::from)
                .into(),
        };
        let mut add = |flag: &str, value: String| words.extend([flag.to_string(), value]);
        add("-m", format!("{}M", nodes * mib));
        add(
            "-smp",
            format!(
                "cpus={},sockets={nodes},cores={cpus},threads=1",
                nodes * cpus
            ),
        );
        for node in 0..nodes {
            let (first, last) = (node * cpus, node * cpus + cpus - 1);
            add(
                "-object",
                format!("memory-backend-ram,id=memory{node},size={mib}M"),
            );
            add(
                "-numa",
                format!("node,nodeid={node},cpus={first}-{last},memdev=memory{node}"),
            );
        }
        for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
            add(
                "-numa",
                format!("dist,src={from},dst={to},val={}", self.distance(from, to)),
            );
        }
        words
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        let gap = from.abs_diff(to);
        match self.distances {
            Distances::Full => 10 + 10 * gap.min(1),
            Distances::Ring => 10 + 10 * gap.min(self.nodes - gap),
        }
    }
}

/// What only the file systems of Unix know.
#[cfg(unix)]
mod unix {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    pub use std::os::unix::fs::symlink;
    use std::path::Path;

    pub fn may_run(file: &Path) -> std::io::Result<()> {
        std::fs::set_permissions(file, Permissions::from_mode(0o755))
    }
}

/// Elsewhere no guest comes as far as this: it needs a [`kernel`], which needs Linux.
#[cfg(not(unix))]
mod unix {
    use std::io::{ErrorKind, Result};
    use std::path::{Path, PathBuf};

    pub fn symlink(_: String, _: PathBuf) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    pub fn may_run(_: &Path) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}

/// Whether there is a hypervisor of the processor's own. `/dev/kvm` alone proves nothing: it may
/// belong to one in software that cannot boot a stock kernel.
fn has_virtualisation() -> bool {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let able = flags
        .split_whitespace()
        .any(|flag| flag == "vmx" || flag == "svm");
    able && File::options().write(true).open("/dev/kvm").is_ok()
}

/// The shared libraries of programs; a static one has none.
fn libraries(programs: &[&Path]) -> Result<BTreeSet<PathBuf>, String> {
    let mut all = BTreeSet::new();
    for program in programs {
        let ldd = Command::new("ldd").arg(program).output();
        let ldd = ldd.map_err(|fault| format!("ldd did not start: {fault}"))?;
        let text = String::from_utf8_lossy(&ldd.stdout).into_owned();
        let words = text.split_whitespace().filter(|word| word.starts_with('/'));
        all.extend(words.map(PathBuf::from));
    }
    Ok(all)
}

/// A kernel for guests: Debian's for clouds, downloaded once and unpacked below cargo's folder; it
/// is not installed.
///
/// # Errors
/// One line that says why there is none.
pub fn kernel() -> Result<PathBuf, String> {
    if std::env::consts::ARCH != "x86_64" || std::env::consts::OS != "linux" {
        return Err("guests need Linux on x86-64".into());
    }
    let cache = steps::target_folder().join("guest-kernel");
    let found = || {
        let files = fs::read_dir(cache.join("boot")).ok()?;
        let names = files.flatten().map(|file| file.path());
        names.max().filter(|path| path.is_file())
    };
    if let Some(kernel) = found() {
        return Ok(kernel);
    }
    let package = newest_kernel()?;
    say!("downloading {package} once (about 27 MB); it is unpacked, not installed");
    steps::whole(&cache, |folder| fetched(&package, folder))?;
    found().ok_or(format!("{package} holds no kernel"))
}

/// Brings a package, and of it the kernel alone, into an empty folder.
fn fetched(package: &str, folder: &Path) -> Result<(), String> {
    let fetch = "apt-get -q -o APT::Sandbox::User=root download \"$1\" && dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards './boot/vmlinuz-*' && rm ./*.deb";
    let mut shell = Command::new("sh");
    shell.args(["-c", fetch, "sh", package]).current_dir(folder);
    match steps::status(&mut shell) {
        steps::Outcome::Passed => Ok(()),
        _ => Err(format!("{package} could not be downloaded")),
    }
}

/// The package that Debian's `linux-image-cloud-amd64` stands for at present.
fn newest_kernel() -> Result<String, String> {
    let text = depends("linux-image-cloud-amd64")
        .output()
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    let text = text.unwrap_or_default();
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    let mut kernels = names.filter(|name| name.starts_with("linux-image-"));
    let name = kernels.next().map(String::from);
    name.ok_or("apt knows no linux-image-cloud-amd64 (a Debian kernel boots in guests)".into())
}

/// Asks on what a package depends, in the language in which the answer is read.
fn depends(package: &str) -> Command {
    let mut apt = Command::new("apt-cache");
    apt.args(["depends", package]);
    apt.env("LC_ALL", "C").env_remove("LANGUAGE");
    apt
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's usual shell for guests is static, another one is not, and did not start.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_guest_gets_the_libraries_of_all_its_programs() {
        let own = std::env::current_exe().unwrap();
        let shared = libraries(&[&own]).unwrap();
        let text = steps::root().join("Cargo.toml"); // depends on nothing
        assert!(!shared.is_empty() && libraries(&[&text]).unwrap().is_empty());
        assert_eq!(libraries(&[&text, &own]).unwrap(), shared);
    }

    #[test]
    fn apt_is_asked_in_english() {
        assert_eq!(
            steps::shown(&depends("x")),
            "LC_ALL=\"C\" apt-cache depends x"
        );
    }

    #[test]
    fn distances_are_those_of_the_shape_and_symmetric() {
        let row = |nodes, distances| {
            let guest = Guest {
                nodes,
                cpus: 1,
                mib: 1,
                distances,
            };
            for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
                assert_eq!(guest.distance(from, to), guest.distance(to, from));
            }
            (0..nodes)
                .map(|to| guest.distance(1, to))
                .collect::<Vec<_>>()
        };
        assert_eq!(row(4, Distances::Full), [20, 10, 20, 20]);
        assert_eq!(row(5, Distances::Ring), [20, 10, 20, 30, 30]);
    }
}
