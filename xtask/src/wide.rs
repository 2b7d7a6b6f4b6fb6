//! Wider looks at concurrency and `unsafe`: loom models, Miri, ThreadSanitizer.
//!
//! Each has its own target folder, because each compiles everything with other flags.
//!
//! # Law
//! A run that finds no test to run fails: a filter that matches nothing proves nothing.

use crate::out::say;
use crate::packages::in_path;
use crate::steps::{self, Outcome, Step, Steps};
use crate::told;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// A test that fails hides none of those in other binaries, which cargo would not run after it.
const ALL_BINARIES: &str = "--no-fail-fast";

/// Runs one wide look as a command of its own.
pub fn command(name: &str, look: impl FnOnce(&mut Steps)) -> ExitCode {
    say!(
        "{name} needs minutes; what it makes lies in {}",
        steps::target_folder().join(name).display()
    );
    let mut steps = Steps::default();
    look(&mut steps);
    steps.close()
}

/// The share of `cargo xtask test`: all models, those with a bound of their own up to that; and the core's
/// data under Miri, which takes the better part of an hour for everything.
pub fn smoke() -> [(String, Step); 2] {
    let models = models(None, None);
    [models, under_miri("data", "", &["--lib", "data::"])]
}

/// Every interleaving of the models whose names contain `loom` (or the filter), up to so many preemptions as
/// the user says, or three; small models look up to four.
pub fn loom(steps: &mut Steps, filter: Option<String>) {
    let (name, models) = models(filter, Some("3"));
    steps.step(&name, models);
}

/// What the models spend their time in: nothing else is optimised.
const OF_MODELS: [&str; 2] = [
    "profile.test.package.loom.opt-level=3",
    "profile.test.package.generator.opt-level=3",
];

/// Models up to so many preemptions, if the user does not say how many.
fn models(filter: Option<String>, preemptions: Option<&str>) -> (String, Step) {
    let filter = filter.unwrap_or_else(|| "loom".into());
    let selected = [
        "-p",
        "dataflow-core",
        "-p",
        "dataflow-numa",
        "-p",
        "dataflow-mpi",
        "--lib",
        &filter,
    ];
    let mut cargo = steps::cargo(&["test", ALL_BINARIES]);
    cargo.args(OF_MODELS.map(|level| ["--config", level]).as_flattened());
    cargo
        .args(selected)
        .env("RUSTFLAGS", with_flags("RUSTFLAGS", "--cfg loom"));
    cargo.env("CARGO_TARGET_DIR", steps::target_folder().join("loom"));
    // The models are small, what they are built of is not.
    cargo.env("CARGO_PROFILE_TEST_OPT_LEVEL", "0");
    let is_asked_for = std::env::var_os(PREEMPTIONS).is_some();
    if let Some(preemptions) = preemptions.filter(|_| !is_asked_for) {
        cargo.env(PREEMPTIONS, preemptions);
    }
    let silence = silence_of_models(is_asked_for);
    let step = move || tests_within(silence, cargo);
    ("loom models".into(), Box::new(step))
}

/// Of models whose own bound is less, too.
const PREEMPTIONS: &str = "LOOM_MAX_PREEMPTIONS";

/// A model says nothing before it has ended: with another bound it may take hours.
fn silence_of_models(is_bound_asked_for: bool) -> Duration {
    match is_bound_asked_for {
        true => Duration::MAX,
        false => told::SILENCE,
    }
}

/// All tests of the core that do not refuse Miri (`#[cfg_attr(miri, ignore = "…")]`), binary by
/// binary, and some under several seeds; or those with this in their names.
pub fn miri(steps: &mut Steps, filter: Option<String>) {
    if let Some(filter) = filter {
        let selected = ["-p", TESTS_OF_CORE, "--lib", "--tests", &filter];
        miri_step(steps, "named", "", &selected);
        return steps.side_by_side(forgetful(Some(&filter)));
    }
    let mut all = vec![under_miri("lib", "", &["--lib"])];
    for binary in binaries_for_miri() {
        all.push(under_miri(
            &binary,
            "",
            &["-p", TESTS_OF_CORE, "--test", &binary],
        ));
    }
    for (binary, filter) in RACING {
        let name = format!("{binary}: {filter}, {N_SEEDS} seeds");
        let seeds = format!("-Zmiri-many-seeds=0..{N_SEEDS}");
        let selected = ["-p", TESTS_OF_CORE, "--test", binary, filter];
        all.push(under_miri(&name, &seeds, &selected));
    }
    all.extend(forgetful(None));
    // Each is one thread for Miri, whatever the tests start.
    steps.side_by_side(all);
}

/// The tests that forget what panics, all or those that a filter names: leaks are allowed in them.
fn forgetful(named: Option<&str>) -> Vec<(String, Step)> {
    let is_named = |of: &str| named.is_none_or(|named| named.contains(of) || of.contains(named));
    let asked = FORGETFUL.into_iter().filter(|(_, of)| is_named(of));
    let step = |(binary, filter): (&str, &str)| {
        let name = format!("{binary}: {filter}, leaks allowed");
        let of = ["-p", TESTS_OF_CORE, "--test", binary, filter];
        let selected = [&of[..], &["--", "--ignored"]].concat();
        under_miri(&name, "-Zmiri-ignore-leaks", &selected)
    };
    asked.map(step).collect()
}

/// The tests of the core from outside: a package of their own.
pub const TESTS_OF_CORE: &str = "dataflow-core-tests";

/// Those of dataflow-mpi and dataflow-numa.
pub const TESTS_OF_MPI: &str = "dataflow-mpi-tests";
pub const TESTS_OF_NUMA: &str = "dataflow-numa-tests";

/// Where others look into a run, or end it, while its workers are inside: what the core's `unsafe`
/// is about. A seed is a schedule, and what weak memory lets each thread see.
const RACING: [(&str, &str); 2] = [("failures", "cancel"), ("ranks", "without_data")];
const N_SEEDS: usize = 4;

/// Where the core forgets on purpose what panics when it is dropped: Miri calls that a leak.
const FORGETFUL: [(&str, &str); 8] = [
    ("failures", "data_payloads"),
    ("failures", "data_that_wait"),
    ("failures", "roots_of"),
    ("recursion", "values_that_panic"),
    ("recursion", "values_of_the_top"),
    ("sequence", "of_data_that_panic"),
    ("sequence", "a_program_that_panics"),
    ("sequence", "what_the_program_of"),
];

/// What such a test says to Miri, which otherwise runs it with the rest of its binary.
#[cfg(test)]
const LEAKS: &str = "a leak for Miri";

fn miri_step(steps: &mut Steps, name: &str, flags: &str, selected: &[&str]) {
    let (name, step) = under_miri(name, flags, selected);
    steps.step(&name, step);
}

/// One call of Miri, timed by itself.
fn under_miri(name: &str, flags: &str, selected: &[&str]) -> (String, Step) {
    let mut cargo = nightly(&["cargo", "miri", "test", ALL_BINARIES, "-p", "dataflow-core"]);
    // Tests read the clock and the environment; few random inputs must do.
    let flags = format!("-Zmiri-disable-isolation {flags}");
    cargo.env("MIRIFLAGS", with_flags("MIRIFLAGS", flags.trim()));
    cargo.env("PROPTEST_CASES", "4").args(selected);
    // Under Miri a backtrace takes seconds, in which what a test panics beside goes on.
    cargo.env("RUST_BACKTRACE", "0");
    cargo.env("CARGO_TARGET_DIR", steps::target_folder().join("miri"));
    let step = || with_nightly(&["miri", "rust-src"], || cargo);
    (format!("Miri, dataflow-core ({name})"), Box::new(step))
}

/// Asks the compiler about programs: nothing of ours runs in it, and it wants its usual flags.
pub const STARTS_A_COMPILER: &str = "mistakes";

/// What a test says that starts processes, which Miri does not.
const NOT_FOR_MIRI: &str = "#![cfg(not(miri))]";

/// The integration tests of a package by name: those with a name and a text that are wanted.
pub fn test_binaries(package: &str, is_wanted: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let texts = test_texts(package).into_iter();
    let wanted = texts.filter(|(name, text)| is_wanted(name, text));
    wanted.map(|(name, _)| name).collect()
}

/// The integration tests of a package, each a file, or a folder with a `main.rs`: by name, with their texts.
fn test_texts(package: &str) -> BTreeMap<String, String> {
    let folder = steps::root().join("crates").join(package).join("tests");
    let named = entries(&folder).into_iter().filter_map(|path| {
        let name = path.file_stem()?.to_str()?.to_string();
        if path.join("main.rs").is_file() {
            let texts = entries(&path).into_iter().filter_map(rust_text);
            return Some((name, texts.collect()));
        }
        Some((name, rust_text(path)?))
    });
    named.collect()
}

/// What lies in a folder, in the order of its names.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn rust_text(path: PathBuf) -> Option<String> {
    let is_rust = path.extension().is_some_and(|of| of == "rs");
    is_rust.then(|| std::fs::read_to_string(path).ok())?
}

fn binaries_for_miri() -> Vec<String> {
    test_binaries("dataflow-core", |_, text| !text.contains(NOT_FOR_MIRI))
}

/// Of dataflow-mpi, the test whose ranks are threads: the engine over them, and its traces.
const RANKS_AS_THREADS: [&str; 1] = ["across"];

/// Simulations of dataflow-numa: one thread each, and most of the time that its tests take.
const OF_ONE_THREAD: &str = "simulate::";

/// What the harness is told under ThreadSanitizer: whoever names tests gets them, others no tests of one
/// thread.
fn races(filter: Option<&str>) -> Vec<&str> {
    match filter {
        Some(filter) => vec![filter, told::SHOW],
        None => vec!["--skip", OF_ONE_THREAD, told::SHOW],
    }
}

/// The unit and integration tests of core and numa under ThreadSanitizer, and runs over ranks that are
/// threads.
pub fn tsan(steps: &mut Steps, filter: Option<String>) {
    let ranks = test_binaries("dataflow-mpi", |name, _| RANKS_AS_THREADS.contains(&name));
    steps.step("ThreadSanitizer, core, numa and ranks as threads", || {
        with_nightly(&["rust-src"], || {
            let host = host();
            let mut cargo = nightly(&["cargo", "test", ALL_BINARIES, "-Zbuild-std"]);
            cargo.args(["--target", &host]);
            let packages = ["dataflow-core", "dataflow-numa"];
            let tests = [TESTS_OF_CORE, TESTS_OF_MPI, TESTS_OF_NUMA];
            cargo.args(["-p", "dataflow-mpi"]);
            cargo.args(packages.map(|package| ["-p", package]).as_flattened());
            cargo.args(tests.map(|package| ["-p", package]).as_flattened());
            let of = |package| test_binaries(package, |name, _| name != STARTS_A_COMPILER);
            let binaries = packages.map(of).concat();
            let binaries = binaries.iter().chain(&ranks);
            let selected = binaries.flat_map(|binary| ["--test", binary]);
            cargo.arg("--lib").args(selected);
            cargo.arg("--").args(races(filter.as_deref()));
            // A test asks for more than there can be, and expects to be refused.
            cargo.env("TSAN_OPTIONS", "allocator_may_return_null=1");
            // It does not know of fibers.
            cargo.env("DATAFLOW_WORLD", "threads");
            cargo.env("RUSTFLAGS", with_flags("RUSTFLAGS", "-Zsanitizer=thread"));
            cargo.env("CARGO_TARGET_DIR", steps::target_folder().join("tsan"));
            cargo
        })
    });
}

/// Runs tests, after making sure that there are any.
pub fn tests(command: Command) -> Outcome {
    tests_within(told::SILENCE, command)
}

/// The same, but they are not killed before they have said nothing for so long.
pub fn tests_within(silence: Duration, mut command: Command) -> Outcome {
    let mut list = Command::new(command.get_program());
    list.args(listing(command.get_args()));
    list.stderr(Stdio::inherit());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => list.env(name, value),
            None => list.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        list.current_dir(folder);
    }
    say!("{}", steps::shown(&command));
    match list.output() {
        Err(fault) => Outcome::failed(format!("did not start: {fault}")),
        Ok(listed) if !listed.status.success() => {
            Outcome::failed("the tests do not build (see above)")
        }
        Ok(listed) if count(&String::from_utf8_lossy(&listed.stdout)) == 0 => {
            Outcome::failed("no test has a name that was asked for")
        }
        Ok(_) => told::tests_within(silence, &mut command),
    }
}

/// The same arguments, to list tests instead of running them.
fn listing<'a>(arguments: impl Iterator<Item = &'a OsStr>) -> Vec<&'a OsStr> {
    let mut listing: Vec<&OsStr> = arguments.collect();
    if !listing.contains(&OsStr::new("--")) {
        listing.push(OsStr::new("--"));
    }
    listing.push(OsStr::new("--list"));
    listing
}

/// The number of tests in what `--list` prints.
fn count(list: &str) -> usize {
    list.lines().filter(|line| line.ends_with(": test")).count()
}

/// Runs tests that need nightly components; skipped aloud where they cannot be had.
fn with_nightly(components: &[&str], command: impl FnOnce() -> Command) -> Outcome {
    if in_path("rustup").is_none() {
        return Outcome::Skipped(
            "needs a nightly toolchain, and there is no rustup to ask for one".into(),
        );
    }
    match missing_components(components) {
        None => {
            return Outcome::Skipped(
                "rustup has no nightly toolchain (rustup toolchain install nightly)".into(),
            );
        }
        Some(missing) if missing.is_empty() => {}
        Some(missing) => {
            let mut add = rustup(&["component", "add", "--toolchain", "nightly"]);
            if steps::status(add.args(&missing)) != Outcome::Passed {
                return Outcome::Skipped(format!(
                    "rustup could not add {} to nightly",
                    missing.join(", ")
                ));
            }
        }
    }
    tests(command())
}

/// Which of the components the nightly toolchain lacks; none if there is no such toolchain.
fn missing_components(components: &[&str]) -> Option<Vec<String>> {
    let out = rustup(&["component", "list", "--installed", "--toolchain", "nightly"])
        .output()
        .ok()?;
    let installed = String::from_utf8_lossy(&out.stdout).into_owned();
    let has = |component: &str| installed.lines().any(|line| line.starts_with(component));
    let missing = components
        .iter()
        .filter(|component| !has(component))
        .map(|name| name.to_string());
    out.status.success().then(|| missing.collect())
}

pub fn rustup(arguments: &[&str]) -> Command {
    let mut rustup = Command::new("rustup");
    rustup.args(arguments).current_dir(steps::root());
    rustup
}

/// A command of the nightly toolchain, unburdened by what the running cargo told its children.
fn nightly(arguments: &[&str]) -> Command {
    toolchain("nightly", arguments)
}

/// The same of any toolchain.
pub fn toolchain(name: &str, arguments: &[&str]) -> Command {
    let mut command = rustup(&["run", name]);
    command.args(arguments);
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

/// The triple of this machine; `-Zbuild-std` wants it named.
fn host() -> String {
    let out = nightly(&["rustc", "--print", "host-tuple"]).output();
    out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_string())
        .unwrap_or_default()
}

/// The user's flags and ours.
fn with_flags(variable: &str, ours: &str) -> String {
    let theirs = std::env::var(variable).unwrap_or_default();
    format!("{theirs} {ours}").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_from_their_list() {
        let list = "engine::pending::loom: test\n\n1 test, 0 benchmarks\nnot_a_test: benchmark\n";
        assert_eq!(count(list), 1);
        assert_eq!(count("0 tests, 0 benchmarks\n"), 0);
    }

    #[test]
    fn tests_are_listed_by_the_arguments_that_run_them() {
        let listed = |arguments: &[&str]| -> Vec<String> {
            let of_run = arguments.iter().map(OsStr::new);
            let listing = listing(of_run).into_iter();
            listing
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(
            listed(&["test", "--lib"]),
            ["test", "--lib", "--", "--list"]
        );
        let ignored = ["test", "a_name", "--", "--ignored"];
        assert_eq!(listed(&ignored), [&ignored[..], &["--list"]].concat());
    }

    #[test]
    fn every_integration_test_of_the_core_is_a_binary_for_miri() {
        let all = binaries_for_miri();
        let has = |wanted: &str| all.iter().any(|name| name == wanted);
        assert!(RACING.iter().all(|(binary, _)| has(binary)), "{all:?}");
        assert!(has("lies") && !has("specimen"), "{all:?}");
        assert!(has("erased") && !has("loops"), "{all:?}");
        assert!(!has(STARTS_A_COMPILER) && !has("verified"), "{all:?}");
        let of_mpi = test_binaries("dataflow-mpi", |name, _| RANKS_AS_THREADS.contains(&name));
        assert_eq!(of_mpi, RANKS_AS_THREADS);
        let of_numa = test_binaries("dataflow-numa", |_, _| true);
        assert!(of_numa.contains(&"workers".to_string()), "{of_numa:?}");
    }

    /// One in `recursion` was run by no command.
    #[test]
    fn every_test_that_leaks_under_miri_is_run_with_leaks_allowed() {
        let leaking = test_binaries("dataflow-core", |_, text| text.contains(LEAKS));
        let mut binaries = FORGETFUL.map(|(binary, _)| binary).to_vec();
        binaries.dedup();
        assert_eq!(leaking, binaries);
        let texts = test_texts("dataflow-core");
        for binary in binaries {
            let text = &texts[binary];
            let behind = text.split(LEAKS).skip(1);
            let names: Vec<_> = behind.map(|rest| rest.split("fn ").nth(1)).collect();
            let filters = FORGETFUL.iter().filter(|(of, _)| *of == binary);
            let filters: Vec<_> = filters.map(|(_, filter)| filter).collect();
            assert_eq!(names.len(), filters.len(), "{binary}: {filters:?}");
            for (name, filter) in names.into_iter().zip(filters) {
                assert!(name.unwrap().starts_with(filter), "{binary}: {filter}");
            }
        }
    }

    /// By name alone such a test was passed over, and told as passed.
    #[test]
    fn a_test_that_is_named_is_run_though_it_leaks_under_miri() {
        let names = |named| -> Vec<String> {
            let steps = forgetful(named).into_iter();
            steps.map(|(name, _)| name).collect()
        };
        assert_eq!(names(None).len(), FORGETFUL.len());
        assert_eq!(names(Some("a_name")), [""; 0]);
        assert_eq!(names(Some("values")).len(), 2);
        for named in [
            "values_that_panic",
            "values_that_panic_when_they",
            "values_that",
        ] {
            let leaks = "Miri, dataflow-core (recursion: values_that_panic, leaks allowed)";
            assert_eq!(names(Some(named)), [leaks], "{named}");
        }
    }

    #[test]
    fn models_whose_bound_the_user_sets_may_be_silent_for_as_long_as_they_take() {
        assert_eq!(silence_of_models(true), Duration::MAX);
        assert_eq!(silence_of_models(false), told::SILENCE);
    }

    #[test]
    fn only_whoever_names_simulations_looks_for_races_in_them() {
        assert_eq!(races(None), ["--skip", "simulate::", told::SHOW]);
        assert_eq!(races(Some("simulate::")), ["simulate::", told::SHOW]);
    }

    #[test]
    fn a_run_without_tests_fails() {
        let outcome = tests(Command::new("true"));
        assert_eq!(
            outcome,
            Outcome::failed("no test has a name that was asked for")
        );
        let mut quoted = Command::new("sh");
        quoted.args(["-c", "echo one: test"]);
        assert_eq!(tests(quoted), Outcome::Passed);
    }
}
