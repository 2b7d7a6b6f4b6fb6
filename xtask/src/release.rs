//! `cargo xtask release`: whether the packages could be published as they are.
//!
//! What lies in each package, each feature alone, the documentation as docs.rs builds it, the lowest
//! Rust version that is promised, dependencies that nothing uses, `cargo deny`; then
//! `cargo semver-checks`, where it is installed. Nothing is published.

use crate::out::{self, say};
use crate::packages::{self, in_path};
use crate::platforms;
use crate::steps::{self, Outcome, Step, Steps, output};
use crate::{deny, wide};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A package that is published.
#[derive(Debug)]
struct PublishedPackage {
    name: String,
    folder: PathBuf,
    rust_version: String,
    features: Vec<String>,
    /// What docs.rs is told to build.
    documented: Vec<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug)]
struct Dependency {
    /// As the manifest calls it.
    name: String,
    /// For tests, benches and examples only.
    is_for_tests: bool,
}

/// Runs the command; see `cargo xtask help`.
pub fn command() -> ExitCode {
    say!("a release is looked at for minutes; nothing is published");
    let mut steps = Steps::default();
    let packages = match published() {
        Ok(packages) => packages,
        Err(fault) => {
            out::error(fault);
            return ExitCode::FAILURE;
        }
    };
    steps.step("what lies in the packages", || {
        faults(&packages, |package| contents(&package.name))
    });
    steps.step("unused dependencies", || faults(&packages, unused));
    steps.step("the promised Rust version", || {
        Outcome::from_faults(promised().unwrap_or_else(|fault| vec![fault]))
    });
    let features = packages.iter().flat_map(|package| package.features.clone());
    if let Err(line) = packages::ensure(&features.collect()) {
        steps.step("system packages", || Outcome::failed(line));
    }
    for package in &packages {
        alone(&mut steps, package);
    }
    let (name, lowest) = lowest(&packages, "libraries and examples", &WITH_EXAMPLES);
    steps.step(&name, lowest);
    for package in &packages {
        documentation(&mut steps, package);
    }
    steps.command(
        "packages build from what lies in them",
        &mut packed(&packages),
    );
    let (name, deny) = deny::step();
    steps.step(&name, deny);
    semver(&mut steps);
    steps.close()
}

fn faults(
    packages: &[PublishedPackage],
    look: impl Fn(&PublishedPackage) -> Vec<String>,
) -> Outcome {
    Outcome::from_faults(packages.iter().flat_map(look).collect())
}

// ── What is published ────────────────────────────────────────────────────────────────────────────

fn published() -> Result<Vec<PublishedPackage>, String> {
    let metadata = steps::metadata()?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // `publish = false` is an empty list of registries.
    let packages = packages.filter(|package| package["publish"].is_null());
    let packages: Option<Vec<PublishedPackage>> = packages.map(package).collect();
    packages.ok_or_else(|| "cargo metadata describes a package otherwise than expected".into())
}

fn package(told: &Value) -> Option<PublishedPackage> {
    let dependency = |told: &Value| {
        let renamed = told["rename"].as_str();
        Some(Dependency {
            name: renamed.or(told["name"].as_str())?.into(),
            is_for_tests: told["kind"] == "dev",
        })
    };
    let manifest = Path::new(told["manifest_path"].as_str()?);
    let documented = told["metadata"]["docs"]["rs"]["features"].as_array();
    let documented = documented.into_iter().flatten().filter_map(Value::as_str);
    let features = told["features"].as_object()?.keys();
    let features = features.filter(|feature| *feature != "default");
    let dependencies = told["dependencies"].as_array()?.iter();
    Some(PublishedPackage {
        name: told["name"].as_str()?.into(),
        folder: manifest.parent()?.into(),
        rust_version: told["rust_version"].as_str().unwrap_or_default().into(),
        features: features.cloned().collect(),
        documented: documented.map(String::from).collect(),
        dependencies: dependencies.map(dependency).collect::<Option<_>>()?,
    })
}

// ── What lies in it ──────────────────────────────────────────────────────────────────────────────

/// Folders whose files belong into a package: what is built from it, and what is read beside it.
const FOLDERS: [&str; 3] = ["src/", "examples/", "docs/guide/"];

/// Files that every package has, those first that are ours to bring.
const FILES: [&str; 8] = [
    "README.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "Cargo.toml",
    "Cargo.toml.orig",
    "Cargo.lock",
    ".cargo_vcs_info.json",
    "CHANGELOG.md",
];
const N_OURS: usize = 3;

fn contents(package: &str) -> Vec<String> {
    let mut list = steps::cargo(&["package", "--list", "--allow-dirty", "-p", package]);
    match output(&mut list) {
        Ok(list) => misplaced(package, &list),
        Err(fault) => vec![fault],
    }
}

/// Files that do not belong into a package, and those that are not there.
fn misplaced(package: &str, list: &str) -> Vec<String> {
    let files: Vec<String> = list.lines().map(|file| file.replace('\\', "/")).collect();
    let belongs =
        |file: &str| FILES.contains(&file) || FOLDERS.iter().any(|folder| file.starts_with(folder));
    let strangers = files.iter().filter(|file| !belongs(file));
    let strangers = strangers.map(|file| format!("{package}: {file} does not belong into it"));
    let is_missing = |file: &&&str| !files.iter().any(|listed| listed == **file);
    let missing = FILES[..N_OURS].iter().filter(is_missing);
    let missing = missing.map(|file| format!("{package}: {file} is missing"));
    strangers.chain(missing).collect()
}

/// Packs all and builds each from its package, as who downloads it does.
fn packed(packages: &[PublishedPackage]) -> Command {
    let mut cargo = steps::cargo(&["package", "--allow-dirty"]);
    let names = packages.iter().flat_map(|package| ["-p", &package.name]);
    cargo.args(names);
    cargo
}

// ── Dependencies ─────────────────────────────────────────────────────────────────────────────────

/// Dependencies that no line names, and why they are there all the same.
const UNNAMED: [(&str, &str); 2] = [
    (
        "openblas-src",
        "its feature `system` says which OpenBLAS blas-src links",
    ),
    (
        ROOT,
        "for itself: so examples and tests have its feature `linalg`",
    ),
];

/// Dependencies that no source of the package names.
fn unused(package: &PublishedPackage) -> Vec<String> {
    let read = |folders: &[&str]| -> String {
        let folders = folders.iter().map(|folder| package.folder.join(folder));
        folders.map(|folder| sources(&folder)).collect()
    };
    let shipped = read(&["src"]);
    let all = read(&["src", "tests", "benches", "examples"]);
    let is_unused = |dependency: &&Dependency| {
        let text = if dependency.is_for_tests {
            &all
        } else {
            &shipped
        };
        let excused = UNNAMED.iter().any(|(name, _)| *name == dependency.name);
        !excused && !names(text, &dependency.name.replace('-', "_"))
    };
    let unused = package.dependencies.iter().filter(is_unused);
    let said =
        unused.map(|dependency| format!("{}: nothing uses {}", package.name, dependency.name));
    said.collect()
}

/// Whether a line of code names a crate: in a path, a `use` or an `extern crate`.
fn names(text: &str, name: &str) -> bool {
    let lines = text.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.starts_with("//"));
    code.into_iter().any(|line| {
        line.match_indices(name).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            let begins = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let is_named = ["use ", "extern crate "]
                .iter()
                .any(|word| before.ends_with(word))
                && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            begins && (after.starts_with("::") || is_named)
        })
    })
}

/// All Rust below a folder.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap_or_default());
        }
    }
    text
}

// ── The compiler ─────────────────────────────────────────────────────────────────────────────────

/// What contradicts the Rust version that is promised, as manifests say it: nothing is built.
fn promised() -> Result<Vec<String>, String> {
    let host = platforms::host();
    let mut cargo = steps::cargo(&["metadata", "--locked", "--format-version", "1"]);
    let out = output(cargo.args(["--filter-platform", &host]))?;
    let metadata =
        serde_json::from_str(&out).map_err(|fault| format!("cargo metadata: {fault}"))?;
    let readme = fs::read_to_string(steps::root().join("README.md"));
    let readme = readme.map_err(|fault| format!("README.md: {fault}"))?;
    Ok(broken_promises(&metadata, &readme))
}

/// Packages of the workspace that promise another version, dependencies that need a newer one, and a
/// README that names another.
fn broken_promises(metadata: &Value, readme: &str) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        packages.partition(|package| package["source"].is_null());
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_string();
    let version = |package: &&Value| text(package, "rust_version");
    let promised = own.first().map(version).unwrap_or_default();
    let differing = own.iter().filter(|package| version(package) != promised);
    let differing = differing.map(|package| {
        let (name, version) = (text(package, "name"), version(package));
        format!("{name}: promises Rust `{version}`, others `{promised}`")
    });
    let is_newer = |package: &&&Value| numbers(&version(package)) > numbers(&promised);
    let newer = others.iter().filter(is_newer).map(|package| {
        let (name, of) = (text(package, "name"), text(package, "version"));
        format!(
            "{name} {of}: needs Rust {}, {promised} is promised",
            version(package)
        )
    });
    let said = format!("Rust {promised} suffices");
    let unsaid = (!readme.contains(&said)).then(|| format!("README.md: does not say `{said}`"));
    differing.chain(newer).chain(unsaid).collect()
}

/// `1.89` as [1, 89, 0].
fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

// ── Builds ───────────────────────────────────────────────────────────────────────────────────────

/// The package that only hands features on.
const ROOT: &str = "dataflow-runtime";

/// The share of `cargo xtask test`: a crate with one feature is built with it and without it there
/// anyway; of one that has several, each is built alone.
pub fn smoke(steps: &mut Steps) {
    let packages = match published() {
        Ok(packages) => packages,
        Err(fault) => return steps.step("each feature alone", || Outcome::failed(fault)),
    };
    for package in several(&packages) {
        for feature in &package.features {
            one(steps, package, feature);
        }
    }
    // Examples and tests have its feature `linalg` unasked, so nothing else sees it without.
    steps.command(&format!("{ROOT}, no feature"), &mut checked(ROOT, None));
}

fn several(packages: &[PublishedPackage]) -> impl Iterator<Item = &PublishedPackage> {
    let several = |package: &&PublishedPackage| package.features.len() > 1 && package.name != ROOT;
    packages.iter().filter(several)
}

/// Without features, and with each of them and no other.
fn alone(steps: &mut Steps, package: &PublishedPackage) {
    let name = &package.name;
    steps.command(&format!("{name}, no feature"), &mut checked(name, None));
    for feature in &package.features {
        one(steps, package, feature);
    }
}

fn one(steps: &mut Steps, package: &PublishedPackage, feature: &str) {
    let step = format!("{}, {feature} alone", package.name);
    steps.command(&step, &mut checked(&package.name, Some(feature)));
}

fn checked(package: &str, feature: Option<&str>) -> Command {
    let mut cargo = steps::cargo(&["check", "--lib", "-p", package, "--no-default-features"]);
    cargo.args(feature.iter().flat_map(|feature| ["--features", feature]));
    cargo
}

/// The share of `cargo xtask test`. To check linear algebra takes four times as long as all the others, for
/// others' packages; what the standard library has only later clippy refuses everywhere.
pub fn lowest_smoke() -> (String, Step) {
    match published() {
        Ok(mut packages) => {
            packages.retain(|package| package.name != "dataflow-linalg");
            lowest(&packages, "libraries without linear algebra", &["--lib"])
        }
        Err(fault) => (
            "libraries by the promised Rust version".into(),
            Box::new(|| Outcome::failed(fault)),
        ),
    }
}

/// Libraries and examples, every feature on.
const WITH_EXAMPLES: [&str; 8] = [
    "--lib",
    "--examples",
    "-p",
    "dataflow-applications",
    "-p",
    "dataflow-linalg-examples",
    "--features",
    "dataflow-runtime/full",
];

/// A part of the packages, in words and for cargo, by the compiler that `rust-version` names.
fn lowest(packages: &[PublishedPackage], words: &str, part: &[&str]) -> (String, Step) {
    let version = packages.first().map(|package| package.rust_version.clone());
    let version = version.unwrap_or_default();
    let mut cargo = checked_by(&version, packages, part);
    let name = format!("{words} by Rust {version}");
    let step = move || match brought(&version) {
        Some(reason) => Outcome::Skipped(reason),
        None => steps::status(&mut cargo),
    };
    (name, Box::new(step))
}

fn checked_by(version: &str, packages: &[PublishedPackage], part: &[&str]) -> Command {
    let mut cargo = wide::toolchain(version, &["cargo", "check"]);
    cargo.args(part);
    cargo.args(packages.iter().flat_map(|package| ["-p", &package.name]));
    cargo.env("CARGO_TARGET_DIR", steps::target_folder().join("lowest"));
    cargo
}

/// Brings a compiler, if it is not there; why it cannot be had.
fn brought(version: &str) -> Option<String> {
    if in_path("rustup").is_none() {
        return Some("there is no rustup to ask for another compiler".into());
    }
    let install = [
        "toolchain",
        "install",
        version,
        "--profile",
        "minimal",
        "--no-self-update",
    ];
    let is_there =
        has_toolchain(version) || steps::status(&mut wide::rustup(&install)) == Outcome::Passed;
    (!is_there).then(|| format!("rustup could not bring Rust {version}"))
}

/// The documentation as docs.rs builds it, where a nightly compiler marks what needs a feature.
fn documentation(steps: &mut Steps, package: &PublishedPackage) {
    steps.step(
        &format!("{}, documentation of docs.rs", package.name),
        || {
            if !has_toolchain("nightly") {
                return Outcome::Skipped(
                    "needs a nightly toolchain (rustup toolchain install nightly)".into(),
                );
            }
            let mut cargo = wide::toolchain("nightly", &["cargo", "doc", "--no-deps", "--lib"]);
            cargo.args([
                "-p",
                &package.name,
                "--features",
                &package.documented.join(","),
            ]);
            cargo.env("RUSTDOCFLAGS", "--cfg docsrs -D warnings");
            // As there: openblas-src then looks for no library, and nothing finds one.
            cargo.env("DOCS_RS", "1").env("PKG_CONFIG", "false");
            cargo.env("CARGO_TARGET_DIR", steps::target_folder().join("docs.rs"));
            steps::status(&mut cargo)
        },
    );
}

/// The share of `cargo xtask test`: by the compiler at hand, all packages with what docs.rs builds each
/// with, and what it cannot build.
pub fn documented(steps: &mut Steps) {
    match published() {
        Ok(packages) => steps.command("documentation", &mut together(&packages)),
        Err(fault) => steps.step("documentation", || Outcome::failed(fault)),
    }
    let mpi = ["-p", "dataflow-mpi", "--features", "mpi"];
    steps.command("documentation of the feature mpi", &mut doc(&mpi));
}

/// All that has documentation, and an example: with it others' crates have the features that examples and
/// tests ask for, and are taken as clippy left them; without it faer is checked once more.
const DOCUMENTED: [&str; 7] = [
    "--workspace",
    "--exclude",
    "dataflow-symbols",
    "--lib",
    "--bins",
    "--example",
    "distances",
];

fn together(packages: &[PublishedPackage]) -> Command {
    let features = packages.iter().flat_map(|package| {
        let of = |feature: &String| [&package.name, "/", feature].concat();
        package.documented.iter().map(of)
    });
    let features = features.collect::<Vec<String>>().join(",");
    doc(&[&DOCUMENTED[..], &["--features", &features]].concat())
}

fn doc(what: &[&str]) -> Command {
    let mut doc = steps::cargo(&["doc", "--no-deps"]);
    doc.args(what).env("RUSTDOCFLAGS", "-D warnings");
    doc
}

fn has_toolchain(name: &str) -> bool {
    let mut rustc = wide::toolchain(name, &["rustc", "--version"]);
    in_path("rustup").is_some() && output(&mut rustc).is_ok()
}

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────

/// What a user of the latest release would have to change, by its tag.
fn semver(steps: &mut Steps) {
    let mut git = Command::new("git");
    git.args(["describe", "--tags", "--abbrev=0", "--match", "v*"])
        .current_dir(steps::root());
    steps.step("cargo semver-checks", || {
        let skipped = |reason: &str| Outcome::Skipped(reason.into());
        if in_path("git").is_none() {
            return skipped("there is no git to ask which release was tagged last");
        }
        let Ok(tag) = output(&mut git) else {
            return skipped("no release has been tagged (v*) that this one could differ from");
        };
        if in_path("cargo-semver-checks").is_none() {
            return skipped(
                "cargo-semver-checks is not installed (cargo install --locked cargo-semver-checks)",
            );
        }
        let since = ["semver-checks", "--workspace", "--baseline-rev", tag.trim()];
        steps::status(&mut steps::cargo(&since))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_hold_what_belongs_into_them() {
        let packages = published().unwrap();
        assert_eq!(packages.len(), 8, "{packages:?}");
        let faults: Vec<String> = packages
            .iter()
            .flat_map(|package| contents(&package.name))
            .collect();
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn every_dependency_is_used() {
        let faults: Vec<String> = published().unwrap().iter().flat_map(unused).collect();
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn the_rust_version_that_is_promised_suffices_for_every_dependency() {
        assert_eq!(promised(), Ok(Vec::new()));
    }

    #[test]
    fn the_libraries_are_checked_by_the_compiler_that_is_promised() {
        let packages = published().unwrap();
        let command = steps::shown(&checked_by("1.89", &packages, &WITH_EXAMPLES));
        let begins = "\" rustup run 1.89 cargo check --lib --examples -p ";
        assert!(command.contains(begins), "{command}");
        for package in &packages {
            let named = format!("-p {}", package.name);
            assert!(command.contains(&named), "{named}: {command}");
        }
        let version = env!("CARGO_PKG_RUST_VERSION");
        let (name, _) = lowest_smoke();
        assert!(name.ends_with(&format!("by Rust {version}")), "{name}");
    }

    #[test]
    fn a_newer_compiler_than_promised_is_told_with_who_needs_it() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "a", "source": null, "rust_version": "1.89" },
            { "name": "b", "source": null, "rust_version": "1.90" },
            { "name": "c", "source": "r", "version": "2.0.1", "rust_version": "1.89.0" },
            { "name": "d", "source": "r", "version": "0.3.0", "rust_version": "1.100" },
            { "name": "e", "source": "r", "version": "0.3.0", "rust_version": null },
        ]});
        let expected = [
            "b: promises Rust `1.90`, others `1.89`",
            "d 0.3.0: needs Rust 1.100, 1.89 is promised",
        ];
        assert_eq!(broken_promises(&metadata, "Rust 1.89 suffices."), expected);
        let unsaid = "README.md: does not say `Rust 1.89 suffices`";
        assert_eq!(broken_promises(&metadata, "Rust 1.88 suffices.")[2], unsaid);
    }

    #[test]
    fn of_the_crates_with_several_features_each_is_built_alone_in_every_test() {
        let packages = published().unwrap();
        let names: Vec<&str> = several(&packages).map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["dataflow-core"]);
    }

    #[test]
    fn tests_and_results_do_not_belong_into_a_package_and_a_readme_does() {
        let list = "src/lib.rs\nexamples/a.rs\ntests/a.rs\n.ci/run\nLICENSE-MIT\nLICENSE-APACHE\n";
        let expected = [
            "p: tests/a.rs does not belong into it",
            "p: .ci/run does not belong into it",
            "p: README.md is missing",
        ];
        assert_eq!(misplaced("p", list), expected);
    }

    #[test]
    fn a_crate_is_named_by_a_path_or_a_use_and_not_by_a_word_or_a_comment() {
        for (line, expected) in [
            ("use rand::Rng;", true),
            ("    let x = rand::random();", true),
            ("pub use rand as dice;", true),
            ("extern crate rand as _;", true),
            ("use rand_chacha::ChaCha8Rng;", false),
            ("use other_rand::Rng;", false),
            ("let rand = 1;", false),
            ("// rand::random() would do", false),
        ] {
            assert_eq!(names(line, "rand"), expected, "{line}");
        }
    }

    #[test]
    fn a_feature_is_checked_alone() {
        assert_eq!(
            steps::shown(&checked("p", Some("f"))),
            "cargo check --lib -p p --no-default-features --features f"
        );
        assert!(!steps::shown(&checked("p", None)).contains("--features"));
    }

    #[test]
    fn what_is_not_published_is_left_out_and_a_package_is_told_whole() {
        let told = serde_json::json!({
            "name": "p", "manifest_path": "/w/p/Cargo.toml", "rust_version": "1.90",
            "features": { "default": [], "f": [] },
            "metadata": { "docs": { "rs": { "features": ["f"] } } },
            "dependencies": [{ "name": "a", "rename": "b", "kind": "dev" }, { "name": "c" }],
        });
        let package = package(&told).unwrap();
        assert_eq!(
            (package.features, package.documented),
            (vec!["f".to_string()], vec!["f".to_string()])
        );
        let names = package
            .dependencies
            .iter()
            .map(|of| (of.name.as_str(), of.is_for_tests));
        assert_eq!(names.collect::<Vec<_>>(), [("b", true), ("c", false)]);
        let all = published().unwrap();
        assert!(all.iter().all(|package| package.name != "xtask"), "{all:?}");
    }

    #[test]
    fn the_documentation_is_built_with_the_features_of_docs_rs() {
        let packages = published().unwrap();
        let command = steps::shown(&together(&packages));
        for part in [
            "core/serde",
            "linalg/openblas",
            "numa/hwloc",
            "--lib --bins --example ",
        ] {
            assert!(command.contains(part), "{part}: {command}");
        }
        assert!(!command.contains("mpi"), "{command}");
    }
}
