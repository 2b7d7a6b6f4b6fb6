//! `cargo xtask numa-vm`: the locality tests on machines that really have several NUMA nodes.
//!
//! `tests/numa.rs` checks what a kernel says of threads and pages. On a machine with one node
//! that proves little; so the same program runs in [guests](crate::guest) that have 4 and 8, and there
//! fails if it does not find them.

use crate::guest::{self, Distances, Guest};
use crate::out::{self, say};
use crate::steps::{self, Outcome, Step, Steps};
use crate::{packages, told};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The variable by which the tests know how many nodes they must find.
const NODES: &str = "DATAFLOW_NUMA_NODES";

/// Guests: all pairs of nodes equally far, and not.
const GUESTS: [Guest; 3] = [
    guest(4, 2, Distances::Full),
    guest(4, 1, Distances::Ring),
    guest(8, 1, Distances::Ring),
];

const SMALL: Guest = guest(2, 1, Distances::Full);

const fn guest(nodes: usize, cpus: usize, distances: Distances) -> Guest {
    Guest {
        nodes,
        cpus,
        mib: 192,
        distances,
    }
}

/// Runs the command; see `cargo xtask help`.
pub fn run() -> ExitCode {
    let mut steps = Steps::default();
    match machinery().map(|kernel| (kernel, program(&[]))) {
        Ok((kernel, Ok(program))) => {
            for guest in GUESTS {
                steps.step(&name(guest), || on(guest, &kernel, &program));
            }
        }
        Ok((_, Err(line))) => steps.step("NUMA guests", || Outcome::failed(line)),
        Err(line) => steps.step("NUMA guests", || Outcome::Skipped(line)),
    }
    steps.close()
}

/// The smallest guest, if this machine can have one.
pub fn smoke() -> (String, Step) {
    let step = || match machinery() {
        Ok(kernel) => on_smallest(&kernel, program(&AS_TESTED)),
        Err(line) => Outcome::Skipped(line),
    };
    (name(SMALL), Box::new(step))
}

/// If the tests do not build that is a fault, nothing that this machine lacks.
fn on_smallest(kernel: &Path, program: Result<PathBuf, String>) -> Outcome {
    match program {
        Ok(program) => on(SMALL, kernel, &program),
        Err(line) => Outcome::failed(line),
    }
}

fn name(guest: Guest) -> String {
    let Guest {
        nodes,
        cpus,
        distances,
        ..
    } = guest;
    format!("NUMA guest of {nodes} nodes x {cpus}, distances {distances:?}")
}

/// Runs the tests on a guest.
fn on(guest: Guest, kernel: &Path, program: &Path) -> Outcome {
    let environment = [(NODES, guest.nodes.to_string())];
    // One test at a time: each has workers on all processors.
    let arguments = ["--test-threads=1", "--nocapture"];
    match guest.run(kernel, program, &arguments, &environment) {
        Ok(ended) => {
            out::text(&ended.stdout);
            out::text(&ended.stderr);
            match ended.status {
                0 => told::passed(&ended.stdout),
                status => Outcome::failed(format!("tests/numa.rs ended with {status}")),
            }
        }
        Err(line) => Outcome::failed(line),
    }
}

/// What guests need of this machine; their kernel. Where there is none, nothing is installed.
fn machinery() -> Result<PathBuf, String> {
    let kernel = guest::kernel()?;
    packages::ensure(&["numa-vm".to_string()].into())?;
    Ok(kernel)
}

/// As the tests of the workspace are built: nothing is left to do beside them.
const AS_TESTED: [&str; 3] = ["--workspace", "--features", "full"];

/// Builds the tests. Without features no library has to be installed.
fn program(features: &[&str]) -> Result<PathBuf, String> {
    let mut cargo = steps::cargo(&[
        "test",
        "--test",
        "numa",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    cargo.args(features);
    say!("{}", steps::shown(&cargo));
    let out = cargo.stderr(std::process::Stdio::inherit()).output();
    let out = out.map_err(|fault| format!("cargo did not start: {fault}"))?;
    built(out.status.success(), &String::from_utf8_lossy(&out.stdout))
}

/// The program, if cargo ended well and names it among its messages.
fn built(is_well: bool, messages: &str) -> Result<PathBuf, String> {
    match program_in(messages) {
        Some(program) if is_well => Ok(program),
        _ => Err("cargo built no tests/numa.rs".into()),
    }
}

fn program_in(messages: &str) -> Option<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut built = messages.filter(|message: &Value| message["target"]["name"] == "numa");
    built.find_map(|message| Some(message["executable"].as_str()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_one_that_cargo_names() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"dataflow"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"numa"},"executable":"target/debug/deps/numa-1"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(
            program_in(messages),
            Some("target/debug/deps/numa-1".into())
        );
        assert_eq!(program_in("no message"), None);
        assert!(built(true, messages).is_ok());
    }

    /// It was said to be skipped, as if there were no QEMU, and the command passed.
    #[test]
    fn tests_that_do_not_build_are_a_failed_step() {
        let stale = r#"{"target":{"name":"numa"},"executable":"target/debug/deps/numa-1"}"#;
        let program = built(false, stale);
        assert!(program.is_err(), "{program:?}");
        let ended = on_smallest(Path::new("kernel"), program);
        assert!(matches!(ended, Outcome::Failed(_)), "{ended:?}");
    }
}
