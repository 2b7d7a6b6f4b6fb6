//! `cargo xtask test`: everything a change must pass, in one command.
//!
//! # Law
//! Nothing is assumed of the machine but Rust: what a feature needs is installed or named first.
//! All steps run, whatever fails before them.
//!
//! # Elsewhere
//! What must be installed: [`packages`]. What the examples owe: [`smoke`]. Features alone: [`release`].
//! Loom and Miri: [`wide`].

use crate::steps::{self, Outcome, Steps};
use crate::{numa_vm, packages, release, repeat, smoke, told, wide};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// What `cargo xtask test` was asked for.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// The inner loop only.
    pub quick: bool,
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
];

/// Beside unit tests, what the inner loop runs: the house rules, the engine from outside, and what people
/// call. The others start processes and wait for them.
const QUICK: &[&str] = &[
    "tidy", "dataflow", "failures", "fronts", "sequence", "verify", "dense",
];

/// What is looked at without features: all that knows of any.
const LINTED_BARE: &[&str] = &[
    "--lib",
    "--benches",
    "--example",
    "distances",
    "--test",
    "cholesky",
    "--test",
    "dataflow",
    "--test",
    "mpi_ranks",
    "--test",
    "simulate",
    "--test",
    "topology",
    "--test",
    "wires",
];

/// Runs the command; see `cargo xtask help`.
pub fn run(options: &Options) -> ExitCode {
    let mut steps = Steps::default();
    if options.quick {
        quick(&mut steps, options);
        return steps.close();
    }
    let packages = || packages::ensure(&features()?);
    if let Err(line) = steps.required("system packages", packages) {
        eprintln!("error: {line}");
        return ExitCode::FAILURE;
    }
    steps.command("format", &mut steps::cargo(&["fmt", "--all", "--check"]));
    steps.command("clippy, default features", &mut clippy(LINTED_BARE));
    let all = [&["--all-targets"], FULL].concat();
    steps.command("clippy, all features", &mut clippy(&all));
    let doc = &["doc", "--no-deps", "--workspace"];
    steps.command(
        "documentation",
        steps::cargo(doc).env("RUSTDOCFLAGS", "-D warnings"),
    );
    release::smoke(&mut steps);
    // The tests of the topology run examples that are built here.
    steps.step("examples, default features", smoke::plain);
    steps.step("tests, default features", || {
        told::tests(&mut test(options, BARE))
    });
    steps.step("tests, all features", || {
        told::tests(&mut test(options, &[WORKSPACE, FULL].concat()))
    });
    steps.step("examples, all features", || smoke::all(FULL));
    repeat::smoke(&mut steps);
    numa_vm::smoke(&mut steps);
    wide::smoke(&mut steps);
    collections(&mut steps, options);
    steps.close()
}

/// Seconds instead of minutes: what one runs after every change.
fn quick(steps: &mut Steps, options: &Options) {
    steps.command("format", &mut steps::cargo(&["fmt", "--all", "--check"]));
    steps.command("clippy, default features", &mut clippy(&["--all-targets"]));
    let inner = [WORKSPACE, &["--lib", "--bins"]].concat();
    let binaries = QUICK.iter().flat_map(|name| ["--test", name]);
    let inner: Vec<&str> = inner.into_iter().chain(binaries).collect();
    steps.step("unit tests and a few more, default features", || {
        told::tests(&mut test(options, &inner))
    });
    collections(steps, options);
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

/// The features of the root package, so that a feature that does not exist asks for no package.
fn features() -> Result<BTreeSet<String>, String> {
    let mut cargo = steps::cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let out = cargo
        .output()
        .map_err(|fault| format!("cargo did not start: {fault}"))?;
    if !out.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        ));
    }
    let metadata: Value =
        serde_json::from_slice(&out.stdout).map_err(|fault| format!("cargo metadata: {fault}"))?;
    root_features(&metadata)
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
    fn a_test_that_knows_a_feature_is_looked_at_without_it() {
        let mut folders = vec![steps::root().join("tests")];
        let crates = fs::read_dir(steps::root().join("crates")).unwrap();
        folders.extend(crates.map(|entry| entry.unwrap().path().join("tests")));
        let files = folders
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok());
        let files = files.flatten().map(|entry| entry.unwrap().path());
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
            quick: false,
            data: Some("/collections".into()),
        };
        let command = steps::shown(&test(&options, &[WORKSPACE, FULL].concat()));
        assert_eq!(
            command,
            "DATAFLOW_DATA=\"/collections\" cargo test --no-fail-fast --workspace --features full"
        );
    }
}
