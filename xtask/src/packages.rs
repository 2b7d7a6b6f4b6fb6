//! System packages: what the cargo features need from the machine, and how it gets there.
//!
//! # Law
//! A thing counts as present when it is found itself (a command, a pkg-config file, a library),
//! whoever put it there; the package manager is asked only to install what is missing.
//! Nothing is installed without saying so, and only as root or with a `sudo` that asks for no password;
//! otherwise the one line to run is the error.

use crate::out::say;
use crate::steps::{self, Outcome};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// One thing that a feature needs, and the package that brings it on each system.
#[derive(Debug)]
pub struct Package {
    thing: &'static str,
    feature: &'static str,
    /// Any one of these is enough.
    probes: &'static [Probe],
    /// Names in the order of [`Manager`]: apt-get, dnf, pacman, brew.
    names: [&'static str; 4],
}

/// How a thing is recognised.
#[derive(Debug)]
enum Probe {
    /// A program in `PATH`.
    Command(&'static str),
    /// A module of Python's.
    Python(&'static str),
    /// A module that pkg-config knows.
    PkgConfig(&'static str),
    /// A shared library, by the beginning of its file name (`libclang` also finds `libclang-14.so.1`).
    Library(&'static str),
    /// A file below one of the folders of libraries.
    Archive(&'static str),
    /// A file below the folder that brew keeps for a formula outside the linker's path.
    Keg(&'static str, &'static str),
}

/// Every package that some feature needs; rows whose feature does not exist (yet) are not looked at.
#[rustfmt::skip]
const TABLE: &[Package] = &[
    Package { feature: "openblas", thing: "pkg-config", probes: &[Probe::Command("pkg-config")], names: ["pkg-config", "pkgconf-pkg-config", "pkgconf", "pkgconf"] },
    Package { feature: "openblas", thing: "OpenBLAS", probes: &[Probe::PkgConfig("openblas"), Probe::Library("libopenblas.so"), Probe::Keg("openblas", "lib/libopenblas.dylib")], names: ["libopenblas-dev", "openblas-devel", "openblas", "openblas"] },
    Package { feature: "hwloc", thing: "pkg-config", probes: &[Probe::Command("pkg-config")], names: ["pkg-config", "pkgconf-pkg-config", "pkgconf", "pkgconf"] },
    Package { feature: "hwloc", thing: "hwloc", probes: &[Probe::PkgConfig("hwloc")], names: ["libhwloc-dev", "hwloc-devel", "hwloc", "hwloc"] },
    // On Fedora a module brings the two commands into `PATH`: see `unloaded`.
    Package { feature: "mpi", thing: "an MPI compiler (mpicc)", probes: &[Probe::Command("mpicc")], names: ["libopenmpi-dev", "openmpi-devel", "openmpi", "open-mpi"] },
    Package { feature: "mpi", thing: "an MPI launcher (mpirun)", probes: &[Probe::Command("mpirun")], names: ["openmpi-bin", "openmpi", "openmpi", "open-mpi"] },
    Package { feature: "mpi", thing: "libclang", probes: &[Probe::Library("libclang")], names: ["libclang-dev", "clang-devel", "clang", "llvm"] },
    // Not a feature: what `cargo xtask numa-vm` asks for.
    Package { feature: "numa-vm", thing: "QEMU for x86-64", probes: &[Probe::Command("qemu-system-x86_64")], names: ["qemu-system-x86", "qemu-system-x86-core", "qemu-system-x86", "qemu"] },
    Package { feature: "numa-vm", thing: "busybox", probes: &[Probe::Command("busybox")], names: ["busybox-static", "busybox", "busybox", "busybox"] },
    Package { feature: "numa-vm", thing: "cpio", probes: &[Probe::Command("cpio")], names: ["cpio", "cpio", "cpio", "cpio"] },
    // Not a feature: what `cargo xtask lapack --programs` needs.
    Package { feature: "lapack-programs", thing: "gfortran", probes: &[Probe::Command("gfortran")], names: ["gfortran", "gcc-gfortran", "gcc-fortran", "gcc"] },
    Package { feature: "lapack-programs", thing: "make", probes: &[Probe::Command("make")], names: ["make", "make", "make", "make"] },
    Package { feature: "lapack-programs", thing: "LAPACK's generators of matrices", probes: &[Probe::Library("libtmglib.so")], names: ["libtmglib-dev", "lapack-devel", "lapack", "lapack"] },
    Package { feature: "lapack-programs", thing: "the reference LAPACK", probes: &[Probe::Archive("lapack/liblapack.a")], names: ["liblapack-dev", "lapack-static", "lapack", "lapack"] },
    Package { feature: "lapack-programs", thing: "the reference BLAS", probes: &[Probe::Archive("blas/libblas.a")], names: ["libblas-dev", "blas-static", "blas", "lapack"] },
    // Not a feature: who reads files of traces in `cargo xtask viewers`.
    Package { feature: "viewers", thing: "pj_dump", probes: &[Probe::Command("pj_dump")], names: ["pajeng", "pajeng", "pajeng", "pajeng"] },
    Package { feature: "viewers", thing: "Python", probes: &[Probe::Python("ensurepip")], names: ["python3-venv", "python3", "python", "python"] },
    Package { feature: "viewers", thing: "Chromium", probes: &[Probe::Command("chromium")], names: ["chromium", "chromium", "chromium", "chromium"] },
    // Not a feature: what `cargo deny` comes by, where it is not installed.
    Package { feature: "deny", thing: "Python", probes: &[Probe::Python("ensurepip")], names: ["python3-venv", "python3", "python", "python"] },
    // Not a feature: what `cargo xtask platforms` runs programs for another processor with.
    Package { feature: "aarch64", thing: "QEMU for programs of AArch64", probes: &[Probe::Command("qemu-aarch64-static"), Probe::Command("qemu-aarch64")], names: ["qemu-user-static", "qemu-user-static", "qemu-user-static", "qemu"] },
    Package { feature: "aarch64", thing: "a linker for AArch64", probes: &[Probe::Command("aarch64-linux-gnu-gcc")], names: ["gcc-aarch64-linux-gnu", "gcc-aarch64-linux-gnu", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-gcc"] },
    Package { feature: "aarch64", thing: "the C library for AArch64", probes: &[Probe::Archive("../aarch64-linux-gnu/lib/libc.so.6")], names: ["libc6-dev-arm64-cross", "gcc-aarch64-linux-gnu", "aarch64-linux-gnu-glibc", "aarch64-linux-gnu-glibc"] },
    // Not a feature: what `cargo xtask mpich` needs.
    Package { feature: "mpich", thing: "MPICH's compiler (mpicc.mpich)", probes: &[Probe::Command("mpicc.mpich")], names: ["libmpich-dev", "mpich-devel", "mpich", "mpich"] },
    Package { feature: "mpich", thing: "MPICH's launcher (mpirun.mpich)", probes: &[Probe::Command("mpirun.mpich")], names: ["mpich", "mpich", "mpich", "mpich"] },
];

/// Who installs packages here.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manager {
    AptGet,
    Dnf,
    Pacman,
    Brew,
}

/// What this user may do.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rights {
    Root,
    Sudo,
    Neither,
}

/// The machine as far as installing is concerned.
#[derive(Debug)]
struct System {
    manager: Option<Manager>,
    rights: Rights,
    /// The manager has never fetched its lists of packages.
    lists_missing: bool,
}

/// What follows from what is missing and from what this user may do.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    /// Commands to run here, one after another.
    Install(Vec<Vec<String>>),
    /// A sentence for the user, with the one line to run.
    Tell(String),
}

/// Makes sure that everything is there that `features` need.
///
/// # Errors
/// One line that says what is missing and what to run.
pub fn ensure(features: &BTreeSet<String>) -> Result<(), String> {
    // Steps run side by side, and of two package managers one refuses.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = missing(features);
    if let Some(line) = unloaded(&missing, Path::new(FEDORAS_MPI)) {
        return Err(line);
    }
    let system = System::look();
    match plan(&missing, &system) {
        Plan::Nothing => {
            say!("all there: {}", in_words(&needed(features)));
            Ok(())
        }
        Plan::Tell(line) => Err(line),
        Plan::Install(commands) => {
            say!("missing: {}", in_words(&missing));
            install(&commands, &system, |words| run(words, &system))?;
            let still = self::missing(features);
            if still.is_empty() {
                return Ok(());
            }
            let not_found = || {
                format!(
                    "after installing, this is still not found: {}",
                    looked_for(&still)
                )
            };
            Err(unloaded(&still, Path::new(FEDORAS_MPI)).unwrap_or_else(not_found))
        }
    }
}

/// Python in an environment of its own with these packages, by what `pip install` takes.
///
/// # Errors
/// What Python says that could not do it.
pub fn python(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    // The latter comes last, and not at all where Python lacks what environments are made with.
    let is_whole = python.exists() && folder.join("bin/pip").exists();
    if !is_whole {
        let venv = ["-m", "venv", "--clear"];
        steps::output(Command::new("python3").args(venv).arg(folder))?;
    }
    let pip = ["-m", "pip", "install", "--quiet"];
    steps::output(Command::new(&python).args(pip).args(packages))?;
    Ok(python)
}

/// Where Fedora and its kin put Open MPI, so that others may lie beside it.
const FEDORAS_MPI: &str = "/usr/lib64/openmpi/bin";

/// What to do about programs that are installed, but that only a module brings into `PATH`; they need
/// libraries that it brings too.
fn unloaded(missing: &[&Package], folder: &Path) -> Option<String> {
    let probes = missing.iter().flat_map(|package| package.probes);
    let mut programs = probes.filter_map(|probe| match probe {
        Probe::Command(name) => Some(name),
        _ => None,
    });
    let program = programs.find(|name| folder.join(name).is_file())?;
    Some(format!(
        "{program} lies in {}, which is not in PATH; run: module load mpi/openmpi-{} \
         (in a new shell, if it knows no `module`)",
        folder.display(),
        std::env::consts::ARCH
    ))
}

fn needed(features: &BTreeSet<String>) -> Vec<&'static Package> {
    TABLE
        .iter()
        .filter(|package| features.contains(package.feature))
        .collect()
}

fn missing(features: &BTreeSet<String>) -> Vec<&'static Package> {
    let is_missing = |package: &&Package| !package.probes.iter().any(Probe::finds);
    needed(features).into_iter().filter(is_missing).collect()
}

fn plan(missing: &[&Package], system: &System) -> Plan {
    if missing.is_empty() {
        return Plan::Nothing;
    }
    let what = in_words(missing);
    let Some(manager) = system.manager else {
        return Plan::Tell(format!(
            "missing: {what}; neither apt-get, dnf, pacman nor brew is here to install it"
        ));
    };
    let mut commands = Vec::new();
    if system.lists_missing {
        commands.extend(manager.refresh());
    }
    commands.push(manager.install(missing));
    let allowed = match manager {
        Manager::Brew => system.rights != Rights::Root, // brew refuses to run as root
        _ => system.rights != Rights::Neither,
    };
    if allowed {
        return Plan::Install(commands);
    }
    let line = system.line(&commands);
    Plan::Tell(format!(
        "missing: {what}; this user cannot install it, run: {line}"
    ))
}

/// What is missing of what these features need, and the line that brings it; nothing is installed.
pub fn advice(features: &[&str]) -> Option<String> {
    let features = features.iter().map(ToString::to_string).collect();
    let missing = missing(&features);
    let unloaded = unloaded(&missing, Path::new(FEDORAS_MPI));
    unloaded.or_else(|| told(&missing, &System::look()))
}

fn told(missing: &[&Package], system: &System) -> Option<String> {
    match plan(missing, system) {
        Plan::Nothing => None,
        Plan::Tell(line) => Some(line),
        Plan::Install(commands) => {
            let (what, line) = (in_words(missing), system.line(&commands));
            Some(format!("missing: {what}; run: {line}"))
        }
    }
}

/// Runs the commands; an install that fails is tried once more with fresh lists.
fn install(
    commands: &[Vec<String>],
    system: &System,
    run: impl Fn(&[String]) -> bool,
) -> Result<(), String> {
    for words in commands {
        if run(words) {
            continue;
        }
        let refreshed = match system.manager.and_then(Manager::refresh) {
            Some(refresh) if !system.lists_missing => run(&refresh) && run(words),
            _ => false,
        };
        if !refreshed {
            return Err(format!(
                "`{}` failed (its output is above)",
                words.join(" ")
            ));
        }
    }
    Ok(())
}

fn run(words: &[String], system: &System) -> bool {
    say!("installing: {}", words.join(" "));
    let mut line: Vec<&str> = Vec::new();
    if system.rights == Rights::Sudo && system.manager != Some(Manager::Brew) {
        line.extend(["sudo", "-n"]);
    }
    if system.manager == Some(Manager::AptGet) {
        line.extend(["env", "DEBIAN_FRONTEND=noninteractive"]);
    }
    line.extend(words.iter().map(String::as_str));
    steps::status(Command::new(line[0]).args(&line[1..])) == Outcome::Passed
}

impl System {
    fn look() -> Self {
        let manager = Manager::ALL
            .into_iter()
            .find(|manager| in_path(manager.command()).is_some());
        Self {
            manager,
            rights: Rights::look(),
            lists_missing: manager.is_some_and(Manager::lists_missing),
        }
    }

    /// Commands as one line for this user.
    fn line(&self, commands: &[Vec<String>]) -> String {
        let sudo = match (self.manager, self.rights) {
            (Some(Manager::Brew), _) | (_, Rights::Root) => "",
            _ => "sudo ",
        };
        let commands = commands.iter();
        let line: Vec<_> = commands
            .map(|words| format!("{sudo}{}", words.join(" ")))
            .collect();
        line.join(" && ")
    }
}

impl Rights {
    fn look() -> Self {
        let user = Command::new("id").arg("-u").output();
        if user.is_ok_and(|id| id.stdout.trim_ascii() == b"0") {
            Self::Root
        } else if succeeds(Command::new("sudo").args(["-n", "true"])) {
            Self::Sudo
        } else {
            Self::Neither
        }
    }
}

impl Manager {
    const ALL: [Self; 4] = [Self::AptGet, Self::Dnf, Self::Pacman, Self::Brew];

    fn command(self) -> &'static str {
        match self {
            Self::AptGet => "apt-get",
            Self::Dnf => "dnf",
            Self::Pacman => "pacman",
            Self::Brew => "brew",
        }
    }

    fn lists_missing(self) -> bool {
        match self {
            Self::AptGet => !holds_a_name_with(Path::new("/var/lib/apt/lists"), "_Packages"),
            Self::Pacman => !holds_a_name_with(Path::new("/var/lib/pacman/sync"), ".db"),
            Self::Dnf | Self::Brew => false, // both fetch their lists when they need them
        }
    }

    fn refresh(self) -> Option<Vec<String>> {
        match self {
            Self::AptGet => Some(words("apt-get update")),
            Self::Pacman => Some(words("pacman -Sy")),
            Self::Dnf | Self::Brew => None,
        }
    }

    fn install(self, packages: &[&Package]) -> Vec<String> {
        let command = match self {
            Self::AptGet => "apt-get install -y --no-install-recommends",
            Self::Dnf => "dnf install -y",
            Self::Pacman => "pacman -S --needed --noconfirm",
            Self::Brew => "brew install",
        };
        let names: BTreeSet<_> = packages
            .iter()
            .map(|package| package.names[self as usize])
            .collect();
        words(command)
            .into_iter()
            .chain(names.into_iter().map(String::from))
            .collect()
    }
}

impl Probe {
    fn finds(&self) -> bool {
        match self {
            Self::Command(name) => in_path(name).is_some(),
            Self::Python(module) => {
                succeeds(Command::new("python3").args(["-c", &format!("import {module}")]))
            }
            Self::PkgConfig(module) => {
                succeeds(Command::new("pkg-config").args(["--exists", module]))
            }
            Self::Library(start) => library_folders()
                .iter()
                .filter_map(|folder| std::fs::read_dir(folder).ok())
                .any(|files| {
                    files
                        .flatten()
                        .any(|file| is_library(&file.file_name().to_string_lossy(), start))
                }),
            Self::Archive(file) => library_folders()
                .iter()
                .any(|folder| folder.join(file).is_file()),
            Self::Keg(formula, file) => {
                let prefix = Command::new("brew").args(["--prefix", formula]).output();
                prefix.is_ok_and(|out| {
                    Path::new(String::from_utf8_lossy(&out.stdout).trim())
                        .join(file)
                        .is_file()
                })
            }
        }
    }
}

/// Whether a file is the shared library whose name begins with `start`.
///
/// `libclang-cpp` is another library than `libclang`, and bindgen does not take it.
fn is_library(file: &str, start: &str) -> bool {
    let Some(rest) = file.strip_prefix(start) else {
        return false;
    };
    if start.ends_with(".so") {
        return rest.is_empty(); // the linker looks for exactly this name
    }
    let is_shared = rest.contains(".so") || rest.ends_with(".dylib");
    let is_versioned = rest
        .trim_start_matches('-')
        .starts_with(|c: char| c == '.' || c.is_ascii_digit());
    is_shared && is_versioned
}

/// Where shared libraries lie: the linker's folders, Debian's per-architecture ones, LLVM's own.
fn library_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = ["LIBCLANG_PATH", "LIBRARY_PATH"]
        .iter()
        .filter_map(std::env::var_os)
        .flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>())
        .collect();
    folders.extend(
        [
            "/usr/lib",
            "/usr/lib64",
            "/usr/local/lib",
            "/usr/local/lib64",
        ]
        .map(PathBuf::from),
    );
    folders.extend(["/opt/homebrew/opt/llvm/lib", "/usr/local/opt/llvm/lib"].map(PathBuf::from));
    folders.push("/Library/Developer/CommandLineTools/usr/lib".into());
    for folder in ["/usr/lib", "/usr/lib64"] {
        folders.extend(inner_folders(Path::new(folder)));
    }
    folders
}

/// Folders of libraries inside of one: of an architecture, or of a version of LLVM.
fn inner_folders(folder: &Path) -> Vec<PathBuf> {
    let mut inner = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.contains("-linux-") {
            inner.push(entry.path());
        } else if name.starts_with("llvm") {
            inner.extend(["lib", "lib64"].map(|of| entry.path().join(of)));
        }
    }
    inner
}

/// The path of a program, searched as a shell would.
pub fn in_path(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    first_in(&std::env::var_os("PATH")?, program.as_ref())
}

/// The first program of this name in some folders.
fn first_in(path: &OsStr, program: &OsStr) -> Option<PathBuf> {
    let mut files = std::env::split_paths(path).map(|folder| folder.join(program));
    files.find(|file| is_program(file))
}

/// Whether a file is there that can be run: a shell goes on to the next folder otherwise.
#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let found = file.metadata();
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn holds_a_name_with(folder: &Path, part: &str) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .into_iter()
        .any(|entry| entry.file_name().to_string_lossy().contains(part))
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

fn in_words(packages: &[&Package]) -> String {
    if packages.is_empty() {
        return "no feature needs a system package".into();
    }
    let things: Vec<_> = packages
        .iter()
        .map(|package| format!("{} (for {})", package.thing, package.feature))
        .collect();
    things.join(", ")
}

fn looked_for(packages: &[&Package]) -> String {
    let things: Vec<_> = packages
        .iter()
        .map(|package| format!("{} (looked for {:?})", package.thing, package.probes))
        .collect();
    things.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn rows(feature: &str) -> Vec<&'static Package> {
        needed(&BTreeSet::from([feature.to_string()]))
    }

    fn system(manager: Option<Manager>, rights: Rights, lists_missing: bool) -> System {
        System {
            manager,
            rights,
            lists_missing,
        }
    }

    #[test]
    fn root_and_sudo_install_and_lists_are_fetched_first_when_they_are_missing() {
        let install =
            words("apt-get install -y --no-install-recommends libopenblas-dev pkg-config");
        for rights in [Rights::Root, Rights::Sudo] {
            for (lists_missing, expected) in [
                (false, vec![install.clone()]),
                (true, vec![words("apt-get update"), install.clone()]),
            ] {
                let system = system(Some(Manager::AptGet), rights, lists_missing);
                assert_eq!(plan(&rows("openblas"), &system), Plan::Install(expected));
            }
        }
    }

    #[test]
    fn an_install_that_fails_is_tried_once_more_with_fresh_lists_where_these_are_old() {
        let install = words("apt-get install -y hwloc");
        for (manager, lists_missing, works_after, expected) in [
            (Manager::AptGet, false, 0, "install"),
            (Manager::AptGet, false, 2, "install update install"),
            (Manager::AptGet, false, 9, "install update install, failed"),
            (Manager::AptGet, true, 2, "install, failed"),
            (Manager::Dnf, false, 2, "install, failed"),
        ] {
            let ran = RefCell::new(Vec::new());
            let system = system(Some(manager), Rights::Root, lists_missing);
            let ended = super::install(std::slice::from_ref(&install), &system, |words| {
                ran.borrow_mut().push(words[1].clone());
                words[1] == "update" || ran.borrow().len() > works_after
            });
            let failed = if ended.is_err() { ", failed" } else { "" };
            assert_eq!(ran.into_inner().join(" ") + failed, expected, "{manager:?}");
        }
    }

    #[test]
    fn without_rights_the_one_line_to_run_is_told() {
        for (manager, lists_missing, line) in [
            (
                Manager::AptGet,
                false,
                "run: sudo apt-get install -y --no-install-recommends libhwloc-dev pkg-config",
            ),
            (
                Manager::AptGet,
                true,
                "run: sudo apt-get update && sudo apt-get install",
            ),
            (
                Manager::Dnf,
                false,
                "run: sudo dnf install -y hwloc-devel pkgconf-pkg-config",
            ),
            (
                Manager::Pacman,
                false,
                "run: sudo pacman -S --needed --noconfirm hwloc pkgconf",
            ),
        ] {
            let Plan::Tell(told) = plan(
                &rows("hwloc"),
                &system(Some(manager), Rights::Neither, lists_missing),
            ) else {
                panic!("{manager:?} would install without rights");
            };
            assert!(told.contains(line) && told.lines().count() == 1, "{told}");
            assert!(told.contains("hwloc (for hwloc)"), "{told}");
        }
    }

    #[test]
    fn brew_wants_no_root_and_needs_no_sudo() {
        let mpi = rows("mpi");
        let install = vec![words("brew install llvm open-mpi")];
        assert_eq!(
            plan(&mpi, &system(Some(Manager::Brew), Rights::Neither, false)),
            Plan::Install(install)
        );
        let Plan::Tell(told) = plan(&mpi, &system(Some(Manager::Brew), Rights::Root, false)) else {
            panic!("brew would run as root");
        };
        assert!(told.ends_with("run: brew install llvm open-mpi"), "{told}");
    }

    #[test]
    fn nothing_missing_is_nothing_to_do_and_an_unknown_system_is_told_what_it_lacks() {
        assert_eq!(
            plan(&[], &system(None, Rights::Neither, true)),
            Plan::Nothing
        );
        let told = plan(&rows("openblas"), &system(None, Rights::Root, true));
        assert!(
            matches!(&told, Plan::Tell(line) if line.contains("OpenBLAS")),
            "{told:?}"
        );
    }

    /// The launcher said that the compiler was not there, or a build script that a library was not.
    #[test]
    fn what_a_build_lacks_is_told_with_the_line_that_brings_it() {
        for (rights, run) in [
            (Rights::Root, "run: apt-get install"),
            (Rights::Sudo, "run: sudo apt-get install"),
            (Rights::Neither, "run: sudo apt-get install"),
        ] {
            let system = system(Some(Manager::AptGet), rights, false);
            let told = told(&rows("mpi"), &system).unwrap();
            for part in [run, "mpicc", "libclang-dev libopenmpi-dev openmpi-bin"] {
                assert!(told.contains(part), "{part}: {told}");
            }
            assert_eq!(super::told(&[], &system), None);
        }
    }

    #[test]
    fn a_package_is_named_once_however_many_things_it_brings() {
        let both: Vec<_> = rows("hwloc").into_iter().chain(rows("openblas")).collect();
        let line = Manager::Pacman.install(&both).join(" ");
        assert_eq!(
            line,
            "pacman -S --needed --noconfirm hwloc openblas pkgconf"
        );
    }

    #[test]
    fn a_library_is_told_from_its_namesakes() {
        for (file, start, expected) in [
            ("libclang.so", "libclang", true),
            ("libclang-14.so.14.0.6", "libclang", true),
            ("libclang.dylib", "libclang", true),
            ("libclang-cpp.so.14", "libclang", false),
            ("libclang.a", "libclang", false),
            ("libopenblas.so", "libopenblas.so", true),
            ("libopenblas.so.0", "libopenblas.so", false),
        ] {
            assert_eq!(is_library(file, start), expected, "{file}");
        }
    }

    #[test]
    fn a_library_is_found_in_the_folder_of_a_version_of_llvm() {
        let folder = folder_with(
            "llvm",
            &["llvm-19/lib/libclang.so", "llvm20/lib64/libclang.so.20"],
        );
        let found = inner_folders(&folder);
        for inner in ["llvm-19/lib", "llvm20/lib64"] {
            assert!(found.contains(&folder.join(inner)), "{found:?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// It was said to be not found although it had been installed.
    #[test]
    fn an_mpi_that_a_module_brings_is_told_with_the_module() {
        let folder = folder_with("module", &["mpicc", "mpirun"]);
        let told = unloaded(&rows("mpi"), &folder).unwrap();
        assert!(told.contains("run: module load mpi/openmpi-"), "{told}");
        assert_eq!(unloaded(&rows("hwloc"), &folder), None);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(unloaded(&rows("mpi"), &folder), None);
    }

    /// A file that is no program hid the one behind it, and was started.
    #[cfg(unix)]
    #[test]
    fn what_cannot_be_run_is_passed_over_as_a_shell_does() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder_with("path", &["a/mpicc", "b/mpicc"]);
        let [first, second] = ["a", "b"].map(|name| folder.join(name));
        let path = std::env::join_paths([&first, &second]).unwrap();
        let found = || first_in(&path, OsStr::new("mpicc"));
        assert_eq!(found(), None);
        for folder in [&second, &first] {
            let program = folder.join("mpicc");
            let can_be_run = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&program, can_be_run).unwrap();
            assert_eq!(found(), Some(program));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    fn folder_with(name: &str, files: &[&str]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("packages-{name}-{}", std::process::id()));
        for file in files.iter().map(|file| folder.join(file)) {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        folder
    }

    #[test]
    fn a_probe_finds_what_is_there_and_nothing_else() {
        assert!(Probe::Command("cargo").finds());
        assert!(!Probe::Command("no-such-command-anywhere").finds());
        assert!(!Probe::PkgConfig("no-such-module-anywhere").finds());
        assert!(!Probe::Library("libno-such-library-anywhere").finds());
        assert!(!Probe::Python("no_such_module_anywhere").finds());
        assert!(!Probe::Keg("no-such-formula", "lib/none").finds());
    }
}
