//! `cargo xtask platforms`: what of this workspace builds for which system, and what runs there.
//!
//! Other systems are only compiled for, which needs no linker; warnings are faults there too. For
//! Linux on AArch64 the tests of the core and of the workers are linked and run under QEMU.
//!
//! # Law
//! The table tells what was done in this run. What this machine cannot do is a skipped step with its
//! reason, and a dash in the table.

use crate::out::{self, say};
use crate::packages::{self, in_path};
use crate::steps::{self, Outcome, Steps};
use crate::{told, wide};
use std::fmt::Write;
use std::process::{Command, ExitCode};

/// Systems that programs are built for: the compiler's name, and what people call it.
const TARGETS: [(&str, &str); 4] = [
    ("x86_64-unknown-linux-gnu", "Linux, x86-64"),
    (EMULATED, "Linux, AArch64"),
    ("aarch64-apple-darwin", "macOS, Apple silicon"),
    ("x86_64-pc-windows-gnu", "Windows, x86-64"),
];

const EMULATED: &str = "aarch64-unknown-linux-gnu";

/// What is built, with default features.
const PARTS: [(&str, &[&str]); 3] = [
    ("library", &["--lib", "--bins"]),
    ("examples", &["--examples"]),
    ("tests", &["--tests", "--benches"]),
];

/// A line of the table.
struct Row {
    system: &'static str,
    target: &'static str,
    /// A word for each of [`PARTS`].
    words: Vec<String>,
}

/// Runs the command; see `cargo xtask help`.
pub fn command() -> ExitCode {
    say!("building for every system needs minutes");
    let mut steps = Steps::default();
    let host = host();
    let mut rows = Vec::new();
    for (target, system) in TARGETS {
        let words = built(&mut steps, target, target == host);
        rows.push(Row {
            system,
            target,
            words,
        });
    }
    emulated(&mut steps, &host);
    if matches!(steps.last(), Some(Outcome::Passed | Outcome::PassedBut(_))) {
        let emulated = rows.iter_mut().find(|row| row.target == EMULATED);
        let tests = emulated.and_then(|row| row.words.last_mut());
        tests.into_iter().for_each(|word| word.push_str(RUN));
    }
    let closed = steps.close();
    out::text(&format!("\n{}", table(&rows)));
    closed
}

/// The libraries for every other system, without linear algebra, which asks no system for anything: what
/// `cargo xtask test` takes of the above.
pub fn smoke(steps: &mut Steps) {
    let host = host();
    for (target, system) in TARGETS.iter().filter(|(target, _)| *target != host) {
        steps.step(&format!("libraries for {system}"), || match add(target) {
            Some(reason) => Outcome::Skipped(reason),
            None => steps::status(&mut libraries_for(target)),
        });
    }
}

fn libraries_for(target: &str) -> Command {
    let mut clippy = steps::cargo(&["clippy", "--lib", "--target", target]);
    clippy.args(ASK_THE_SYSTEM.map(|package| ["-p", package]).as_flattened());
    clippy.args(["--", "-D", "warnings"]);
    clippy
}

/// The packages with code for one system or another, and who depends on them.
const ASK_THE_SYSTEM: [&str; 5] = [
    "dataflow-core",
    "dataflow-numa",
    "dataflow-mpi",
    "dataflow-trace",
    "dataflow-runtime",
];

/// What the table says besides of tests that were run.
const RUN: &str = "; core and numa run (QEMU)";

/// Builds each part for a target, and says in a word what came of it.
fn built(steps: &mut Steps, target: &str, is_host: bool) -> Vec<String> {
    let missing = if is_host { None } else { add(target) };
    let mut word = |(part, flags): (&str, &[&str])| {
        steps.step(&format!("{target}: {part}"), || match &missing {
            Some(reason) => Outcome::Skipped(reason.clone()),
            None => steps::status(&mut clippy(target, is_host, flags)),
        });
        word_for(steps.last()).to_string()
    };
    PARTS.map(&mut word).into()
}

fn word_for(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Passed | Outcome::PassedBut(_)) => "builds",
        Some(Outcome::Failed(_)) => "FAILS",
        Some(Outcome::Skipped(_)) | None => "–",
    }
}

/// Clippy is the check with warnings as faults in this workspace only; nothing is linked.
fn clippy(target: &str, is_host: bool, flags: &[&str]) -> Command {
    let mut clippy = steps::cargo(&["clippy", "--workspace"]);
    clippy.args(flags);
    if !is_host {
        clippy.args(["--target", target]);
    }
    clippy.args(["--", "-D", "warnings"]);
    clippy
}

/// Brings the standard library for a target; what is in the way, if it cannot be had.
fn add(target: &str) -> Option<String> {
    if in_path("rustup").is_none() {
        return Some(format!(
            "needs the standard library for {target}, and there is no rustup to ask for it"
        ));
    }
    match steps::status(&mut wide::rustup(&["target", "add", target])) {
        Outcome::Passed => None,
        _ => Some(format!(
            "rustup could not add the standard library for {target}"
        )),
    }
}

/// The tests of core and numa for AArch64, run by QEMU.
fn emulated(steps: &mut Steps, host: &str) {
    steps.step(&format!("{EMULATED}: tests of core and numa, run"), || {
        if host != TARGETS[0].0 {
            let needs = TARGETS[0].1;
            return Outcome::Skipped(format!("the emulator is set up for {needs}"));
        }
        for (test, reason) in SKIPPED {
            say!("without tests named {test}: {reason}");
        }
        match packages::ensure(&["aarch64".to_string()].into()) {
            Ok(()) => told::tests(&mut tests_under_qemu()),
            Err(line) => Outcome::Skipped(line),
        }
    });
}

/// Where Debian and Arch keep the libraries of AArch64.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";

/// What starts a compiler or itself, which would run without the emulator, and mutants of spaces, which
/// take the emulator too long.
const NOT_EMULATED: [&str; 3] = [wide::STARTS_A_COMPILER, "verified", "lies"];

/// Tests by parts of their names, and why they are not run.
const SKIPPED: [(&str, &str); 3] = [
    (
        "simulate::",
        "virtual time is arithmetic, and takes the emulator minutes",
    ),
    (
        "pages::tests",
        "the emulator knows no mbind and no move_pages",
    ),
    (
        "marked_for_huge_pages",
        "the emulator does not tell how pages are marked",
    ),
];

fn tests_under_qemu() -> Command {
    let found = ["qemu-aarch64-static", "qemu-aarch64"];
    let qemu = found.into_iter().find(|name| in_path(name).is_some());
    let packages = ["dataflow-core", "dataflow-numa"];
    let mut cargo = steps::cargo(&["test", "--no-fail-fast", "--target", EMULATED, "--lib"]);
    cargo.args(["-p", wide::TESTS_OF_CORE, "-p", wide::TESTS_OF_NUMA]);
    cargo.args(packages.map(|package| ["-p", package]).as_flattened());
    let of = |package| wide::test_binaries(package, |name, _| !NOT_EMULATED.contains(&name));
    let binaries = packages.map(of).concat();
    cargo.args(binaries.iter().flat_map(|binary| ["--test", binary]));
    let skipped = SKIPPED.iter().flat_map(|(test, _)| ["--skip", test]);
    cargo.args(["--", told::SHOW]).args(skipped);
    cargo.env("PROPTEST_CASES", "16"); // all is some ten times slower
    let variable = |of: &str| format!("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_{of}");
    cargo.env(variable("LINKER"), LINKER);
    let runner = format!("{} -L {LIBRARIES}", qemu.unwrap_or(found[0]));
    cargo.env(variable("RUNNER"), runner);
    cargo
}

/// The triple of the compiler in use.
pub fn host() -> String {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    let out = rustc.args(["--print", "host-tuple"]).output();
    out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_string())
        .unwrap_or_default()
}

/// What was done, as Markdown.
fn table(rows: &[Row]) -> String {
    let parts = PARTS.map(|(part, _)| part).join(" | ");
    let mut text = format!("| system | target | {parts} |\n|---|---|---|---|---|\n");
    for row in rows {
        let words = row.words.join(" | ");
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} | `{}` | {words} |", row.system, row.target);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_named_only_where_it_is_not_this_machine() {
        let shown = |is_host| steps::shown(&clippy("a-b-c", is_host, PARTS[1].1));
        assert_eq!(
            shown(true),
            "cargo clippy --workspace --examples -- -D warnings"
        );
        assert!(shown(false).contains("--examples --target a-b-c -- "));
    }

    #[test]
    fn what_is_looked_at_for_other_systems_is_all_that_asks_the_system() {
        let asks = |package: &str| {
            let folder = steps::root().join("crates").join(package).join("src");
            let mut grep = Command::new("grep");
            grep.args(["-rqE", r"cfg(_attr)?\(.*(unix|windows|target_os)"]);
            grep.arg(folder)
                .status()
                .is_ok_and(|status| status.success())
        };
        let crates = std::fs::read_dir(steps::root().join("crates")).unwrap();
        for package in crates {
            let package = package.unwrap().file_name().into_string().unwrap();
            let looked_at = ASK_THE_SYSTEM.contains(&package.as_str());
            assert!(looked_at || !asks(&package), "{package} is not looked at");
        }
    }

    #[test]
    fn the_emulator_runs_all_tests_but_those_that_are_named() {
        let shown = steps::shown(&tests_under_qemu());
        for word in [
            "--lib",
            "-p dataflow-numa",
            "--test failures",
            "-- --show-output --skip simulate::",
            LINKER,
            "-L /usr",
        ] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        assert!(
            NOT_EMULATED.iter().all(|name| !shown.contains(name)),
            "{shown}"
        );
        let of_core = wide::test_binaries("dataflow-core", |_, _| true);
        assert!(
            NOT_EMULATED
                .iter()
                .all(|name| of_core.iter().any(|of| of == name))
        );
    }

    #[test]
    fn the_table_tells_what_failed_and_what_was_not_tried() {
        let outcomes = [
            Outcome::Passed,
            Outcome::failed("it does not build"),
            Outcome::Skipped("no rustup".into()),
        ];
        let words = outcomes.map(|outcome| word_for(Some(&outcome)).to_string());
        let row = Row {
            system: "Plan 9",
            target: "mips-plan9",
            words: words.into(),
        };
        let expected = "\
| system | target | library | examples | tests |
|---|---|---|---|---|
| Plan 9 | `mips-plan9` | builds | FAILS | – |
";
        assert_eq!(table(&[row]), expected);
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(host().contains(std::env::consts::ARCH), "{}", host());
    }
}
