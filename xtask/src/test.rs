//! `cargo xtask test`: everything a change must pass, in one command.
//!
//! # Law
//! Nothing is assumed of the machine but Rust: what a feature needs is installed or named first.
//! All steps run, whatever fails before them.
//!
//! # Elsewhere
//! What must be installed: [`packages`]. What the examples owe: [`smoke`]. Features alone, the
//! documentation, the promised compiler: [`release`]. Dependencies: [`deny`].
//! Other systems: [`platforms`]. Loom and Miri: [`wide`].

use crate::out;
use crate::steps::{self, Outcome, Step, Steps};
use crate::{deny, numa_vm, packages, platforms, release, repeat, smoke, told, wide};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// What `cargo xtask test` was asked for.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// The inner loop only.
    pub quick: bool,
    /// A step that is skipped has failed.
    pub strict: bool,
    /// Canonical path of the folder with the collections.
    pub data: Option<PathBuf>,
}

/// The variable by which tests find the collections.
const DATA: &str = "DATAFLOW_DATA";

const FULL: &[&str] = &["--features", "full"];
const WORKSPACE: &[&str] = &["--workspace"];

/// What behaves otherwise without features, and cannot be seen with them: the topology from the
/// operating system's files, and programs that refuse what they were built without ([`smoke`]).
///
/// Everything else is tested once, with all features, which change nothing that is not asked for by
/// name: to build and to run it a second time takes minutes. The packages are those that decide the
/// features of what all have in common, or faer and others would be built twice.
const BARE: &[&str] = &[
    "-p",
    "dataflow-runtime",
    "-p",
    "dataflow-numa",
    "-p",
    "dataflow-numa-tests",
    "-p",
    "dataflow-applications",
    "-p",
    "dataflow-properties",
    "--lib",
    "--test",
    "launch",
    "--test",
    "topology",
    "--test",
    "workers",
    "--",
    "--skip",
    SIMULATIONS,
    "--skip",
    ARENA,
    told::SHOW,
];

/// Where there are unit tests. Whoever says `--lib` gets a library without any compiled as well, though its
/// manifest says so.
const LIBRARIES: &[&str] = &["--lib", "--bins", "--exclude", "dataflow-symbols"];

/// Unit tests that compare policies on simulated machines: nearly all the time that those of dataflow-numa
/// take.
const SIMULATIONS: &str = "simulate::tests";

/// Threads that write over all their blocks: without optimisation seconds, and no feature is asked for there.
const ARENA: &str = "blocks_never_overlap";

/// For the tests' own programs: so those that this machine cannot run are heard of.
const TOLD: &[&str] = &["--", told::SHOW];

/// Tests that mostly wait: for processes that they start, kill or let be late, for sockets and silence.
/// They run beside the others.
const WAITING: &[&str] = &["contract", "gather", "mpi_ranks", "parted", "tcp", "wires"];

/// Beside unit tests, what the inner loop runs: the house rules, the engine from outside, and what people
/// call. The others start processes and wait for them.
const QUICK: &[&str] = &[
    "tidy", "dataflow", "failures", "fronts", "sequence", "verify", "dense",
];

/// The unit tests of linear algebra are a third of what the inner loop would compile, and are compiled anew
/// after every change below them; `dense` calls the library.
const QUICK_WITHOUT: &[&str] = &["--exclude", "dataflow-linalg"];

/// What is looked at without features: all that knows of any. Not `--benches`, which has the unit tests of
/// every library built as well.
const LINTED_BARE: &[&str] = &[
    "--lib",
    "--bench",
    "cholesky",
    "--bench",
    "factor",
    "--example",
    "distances",
    "--test",
    "cholesky",
    "--test",
    "dataflow",
    "--test",
    "mpi_ranks",
    "--test",
    "ranks",
    "--test",
    "simulate",
    "--test",
    "topology",
    "--test",
    "wires",
];

/// Runs the command; see `cargo xtask help`.
pub fn run(options: &Options) -> ExitCode {
    let mut steps = match options.strict {
        true => Steps::strict(),
        false => Steps::default(),
    };
    if options.quick {
        quick(&mut steps, options);
        return steps.close();
    }
    let packages = || packages::ensure(&features()?);
    if let Err(line) = steps.required("system packages", packages) {
        out::error(line);
        return ExitCode::FAILURE;
    }
    steps.command("format", &mut steps::cargo(&["fmt", "--all", "--check"]));
    steps.command("clippy, default features", &mut clippy(LINTED_BARE));
    let all = [&["--all-targets"], FULL].concat();
    steps.command("clippy, all features", &mut clippy(&all));
    release::documented(&mut steps);
    release::smoke(&mut steps);
    platforms::smoke(&mut steps);
    // The tests of the topology run examples that are built here.
    steps.step("examples, default features", smoke::plain);
    steps.step("tests, default features", || {
        let bare = [&smoke::unoptimised(), BARE].concat();
        told::tests(&mut test(options, &bare))
    });
    tests(&mut steps, options);
    collections(&mut steps, options);
    steps.close()
}

/// Seconds instead of minutes: what one runs after every change.
fn quick(steps: &mut Steps, options: &Options) {
    steps.command("format", &mut steps::cargo(&["fmt", "--all", "--check"]));
    steps.command("clippy, default features", &mut clippy(&["--all-targets"]));
    let inner = [WORKSPACE, QUICK_WITHOUT, LIBRARIES].concat();
    let binaries = QUICK.iter().flat_map(|name| ["--test", name]);
    let inner: Vec<&str> = { inner.into_iter() }.chain(binaries).collect();
    let inner = [&inner, &["--", "--skip", SIMULATIONS, told::SHOW][..]].concat();
    steps.step("unit tests and a few more, default features", || {
        told::tests(&mut test(options, &inner))
    });
    collections(steps, options);
}

/// All tests with all features: first they are built, then all that is left to run goes side by side.
///
/// Nothing of it waits for another's lock on a folder of cargo's: what is built by then is only looked
/// at, the guest's program takes seconds, and loom and Miri have folders of their own.
fn tests(steps: &mut Steps, options: &Options) {
    let build = [WORKSPACE, FULL, &["--no-run"]].concat();
    steps.command("tests, all features, built", &mut test(options, &build));
    steps.step("examples, all features", || smoke::all(FULL));
    let mut all = match steps::metadata() {
        Ok(metadata) => of_targets(options, &test_targets(&metadata)),
        Err(fault) => vec![(
            "tests, all features".into(),
            Box::new(|| Outcome::failed(fault)) as Step,
        )],
    };
    // What takes longest begins first.
    let [models, miri] = wide::smoke();
    all.extend([models, of_documentation(options), numa_vm::smoke()]);
    all.extend([repeat::smoke(), miri, release::lowest_smoke(), deny::step()]);
    steps.side_by_side(all);
}

/// The tests that wait, and the others.
fn of_targets(options: &Options, targets: &BTreeSet<String>) -> Vec<(String, Step)> {
    let (waiting, others): (Vec<&str>, Vec<&str>) = targets
        .iter()
        .map(String::as_str)
        .partition(|name| WAITING.contains(name));
    let named = |names: &[&'_ str]| -> Vec<String> {
        let named = names.iter().flat_map(|&name| ["--test", name]);
        named.map(String::from).collect()
    };
    let libraries: Vec<String> = LIBRARIES.iter().map(|&word| word.into()).collect();
    let others = [libraries, named(&others)].concat();
    vec![
        of(options, "of the libraries and from outside", others, TOLD),
        of(options, "those that wait", named(&waiting), TOLD),
    ]
}

fn of_documentation(options: &Options) -> (String, Step) {
    of(options, "of the documentation", vec!["--doc".into()], &[])
}

/// Some of the tests with all features.
fn of(options: &Options, what: &str, chosen: Vec<String>, harness: &[&str]) -> (String, Step) {
    let mut command = test(options, &[WORKSPACE, FULL].concat());
    command.args(chosen).args(harness);
    let step = move || told::tests(&mut command);
    (format!("tests, all features, {what}"), Box::new(step))
}

fn clippy(what: &[&str]) -> Command {
    let mut clippy = steps::cargo(&["clippy", "--workspace"]);
    clippy.args(what).args(["--", "-D", "warnings"]);
    clippy
}

fn test(options: &Options, more: &[&str]) -> Command {
    let mut test = steps::cargo(&["test", "--no-fail-fast"]);
    test.args(more);
    if let Some(data) = &options.data {
        test.env(DATA, data);
    }
    test
}

/// Says aloud when the tests above had no collections to look at.
fn collections(steps: &mut Steps, options: &Options) {
    if options.data.is_none() && std::env::var_os(DATA).is_none() {
        steps.step("real collections", || {
            Outcome::Skipped("tests over real matrices and topologies need --data DIR".into())
        });
    }
}

/// The names of all tests from outside, each once: those of several packages run together.
fn test_targets(metadata: &Value) -> BTreeSet<String> {
    let names = targets_of_tests(metadata).filter_map(|target| target["name"].as_str());
    names.map(String::from).collect()
}

fn targets_of_tests(metadata: &Value) -> impl Iterator<Item = &Value> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.filter_map(|package| package["targets"].as_array());
    targets
        .flatten()
        .filter(|target| target["kind"][0] == "test")
}

/// The features of the root package, so that a feature that does not exist asks for no package.
fn features() -> Result<BTreeSet<String>, String> {
    root_features(&steps::metadata()?)
        .ok_or_else(|| "cargo metadata names no package dataflow-runtime".into())
}

fn root_features(metadata: &Value) -> Option<BTreeSet<String>> {
    let packages = metadata["packages"].as_array()?;
    let root = packages
        .iter()
        .find(|package| package["name"] == "dataflow-runtime")?;
    Some(root["features"].as_object()?.keys().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_features_of_the_root_package_count() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "dataflow-numa", "features": { "hwloc": [] } },
            { "name": "dataflow-runtime", "features": { "full": ["openblas"], "openblas": [] } },
        ]});
        let expected = ["full", "openblas"].map(String::from).into();
        assert_eq!(root_features(&metadata), Some(expected));
        assert_eq!(root_features(&serde_json::json!({ "packages": [] })), None);
    }

    #[test]
    fn tests_that_wait_are_told_from_the_others() {
        let targets = test_targets(&steps::metadata().unwrap());
        for name in WAITING
            .iter()
            .chain(["dataflow", "weather", "jacobi3d", "tidy"].iter())
        {
            assert!(targets.contains(*name), "there is no test {name}");
        }
    }

    /// Some of these packages name their tests one by one: cargo says nothing of a file that none names.
    /// What lies in these folders, and in the crates' own for tests.
    fn files_of_tests(folders: &[&str]) -> impl Iterator<Item = PathBuf> + use<> {
        let crates = fs::read_dir(steps::root().join("crates")).unwrap();
        let of_crates = crates.map(|entry| entry.unwrap().path().join("tests"));
        let root = steps::root();
        let mut all: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
        all.extend(of_crates);
        let files = all
            .into_iter()
            .filter_map(|folder| fs::read_dir(folder).ok());
        files.flatten().map(|entry| entry.unwrap().path())
    }

    fn programs_of_tests() -> BTreeSet<PathBuf> {
        let metadata = steps::metadata().unwrap();
        let paths = targets_of_tests(&metadata);
        paths
            .filter_map(|target| fs::canonicalize(target["src_path"].as_str()?).ok())
            .collect()
    }

    /// Nor does the compiler say anything of a file that no `mod` names.
    #[test]
    fn each_file_beside_the_main_file_of_a_program_of_tests_is_part_of_it() {
        let mains = programs_of_tests();
        let mains: Vec<PathBuf> = { mains.into_iter() }
            .filter(|path| path.ends_with("main.rs"))
            .collect();
        assert!(mains.len() > 10, "{mains:?}");
        for main in mains {
            let text = fs::read_to_string(&main).unwrap();
            let beside = fs::read_dir(main.parent().unwrap()).unwrap();
            let files = beside.map(|entry| entry.unwrap().path());
            for file in files.filter(|path| path.extension().is_some_and(|of| of == "rs")) {
                let name = file.file_stem().unwrap().to_str().unwrap();
                let line = format!("mod {name};");
                let is_part = name == "main" || text.lines().any(|of| of == line);
                assert!(is_part, "{} would not run", file.display());
            }
        }
    }

    #[test]
    fn each_file_of_a_folder_of_tests_is_a_target() {
        let targets = programs_of_tests();
        for path in files_of_tests(&["tests", "tests/applications"])
            .filter(|path| path.extension().is_some_and(|of| of == "rs"))
        {
            let is_target = targets.contains(&fs::canonicalize(&path).unwrap());
            assert!(is_target, "{} would not run", path.display());
        }
    }

    #[test]
    fn a_test_that_knows_a_feature_is_looked_at_without_it() {
        let files = files_of_tests(&["tests"]);
        let knows = |file: &PathBuf| {
            let text = fs::read_to_string(file).unwrap_or_default();
            text.contains(concat!("feature", " = "))
        };
        for file in files.filter(knows) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let named = LINTED_BARE.windows(2).any(|pair| pair == ["--test", name]);
            assert!(named, "{} is not looked at", file.display());
        }
    }

    #[test]
    fn the_collections_reach_the_tests_as_an_absolute_path() {
        let options = Options {
            data: Some("/collections".into()),
            ..Options::default()
        };
        let command = steps::shown(&test(&options, &[WORKSPACE, FULL].concat()));
        assert_eq!(
            command,
            "DATAFLOW_DATA=\"/collections\" cargo test --no-fail-fast --workspace --features full"
        );
    }
}
