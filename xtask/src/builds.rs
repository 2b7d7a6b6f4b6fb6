//! `cargo xtask builds`: how long one waits for the compiler, each time from an empty folder.
//!
//! The example that the README begins with; then a crate of a user's own with default features, the
//! guide's program of page `loops`: at first, and after a change of a task's body; and one with linear
//! algebra, the program of page `first`. Packages are fetched before the clock starts.
//! Wall time is in the account at the end and means something where nothing else runs; processor
//! time, where the system tells it, is said with each step.

use crate::out::say;
use crate::steps::{self, Outcome, Steps};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The page whose program the user's crate is, and what is changed in a body of it.
const LOOPS: &str = "docs/guide/loops.md";
const CHANGE: (&str, &str) = ("(above + below) / 2.0", "(above + below) * 0.5");

/// The page whose program needs the feature `linalg`.
const SOLVE: &str = "docs/guide/first.md";

/// All of it, below `builds` of the target folder.
pub fn builds(steps: &mut Steps) {
    let folder = steps::target_folder().join("builds");
    steps.step("packages and an empty folder", || prepared(&folder));
    if steps.last() != Some(&Outcome::Passed) {
        return;
    }
    let example = ["build", "--release", "--example", "cholesky"];
    build(steps, "cholesky, --release", &example, &folder);
    let own = folder.join("own");
    for (profile, flag) in [("debug", &[][..]), ("--release", &["--release"])] {
        let arguments = [&["build"], flag].concat();
        build_own(steps, &format!("own crate, {profile}"), &arguments, &own);
        steps.step("a body is changed", || {
            let main = own.join("src/main.rs");
            exchanged(&main).map_or_else(Outcome::failed, |()| Outcome::Passed)
        });
        let name = format!("own crate, {profile}, a body changed");
        build_own(steps, &name, &arguments, &own);
        let name = format!("own crate with linear algebra, {profile}");
        build_own(steps, &name, &arguments, &folder.join("solve"));
    }
    let made = ["release/examples/cholesky", "own/target/release/own"];
    for program in made.map(|program| folder.join(program)) {
        let bytes = fs::metadata(&program).map_or(0, |file| file.len());
        say!("{}: {bytes} bytes", program.display());
    }
}

fn build(steps: &mut Steps, name: &str, arguments: &[&str], folder: &Path) {
    let mut cargo = steps::cargo(arguments);
    cargo.env("CARGO_TARGET_DIR", folder);
    counted(steps, name, &mut cargo);
}

fn build_own(steps: &mut Steps, name: &str, arguments: &[&str], own: &Path) {
    let mut cargo = steps::cargo(arguments);
    cargo.env("CARGO_TARGET_DIR", own.join("target"));
    cargo.current_dir(own);
    counted(steps, name, &mut cargo);
}

/// A step that is one command, and says what processor time it took.
fn counted(steps: &mut Steps, name: &str, command: &mut Command) {
    let before = children_seconds();
    steps.command(name, command);
    if let (Some(before), Some(after)) = (before, children_seconds()) {
        say!("{name}: {:.1} s of processor time", after - before);
    }
}

/// Processor time of all commands that have ended, in seconds.
fn children_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything: user and system time of children are the 14th and 15th.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(13)? + ticks(14)?) / 100.0) // Linux counts in hundredths, whatever its clock
}

/// An empty folder with the user's crate, and every package on this machine.
fn prepared(folder: &Path) -> Outcome {
    let written = written(folder).map_err(|fault| format!("{}: {fault}", folder.display()));
    if let Err(fault) = written {
        return Outcome::failed(fault);
    }
    steps::status(&mut steps::cargo(&["fetch", "--locked"]))
}

fn written(folder: &Path) -> Result<(), String> {
    let said = |fault: std::io::Error| fault.to_string();
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(said)?;
    }
    for (own, page, features) in [("own", LOOPS, "[]"), ("solve", SOLVE, "['linalg']")] {
        let own = folder.join(own);
        fs::create_dir_all(own.join("src")).map_err(said)?;
        let text = fs::read_to_string(steps::root().join(page)).map_err(said)?;
        let program = program(&text).ok_or_else(|| format!("{page} has no program"))?;
        fs::write(own.join("src/main.rs"), program).map_err(said)?;
        fs::write(own.join("Cargo.toml"), manifest(&steps::root(), features)).map_err(said)?;
        // The versions that were fetched, not the newest.
        fs::copy(steps::root().join("Cargo.lock"), own.join("Cargo.lock")).map_err(said)?;
    }
    Ok(())
}

fn manifest(root: &Path, features: &str) -> String {
    let path = root.display();
    format!(
        "[package]\nname = \"own\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\ndataflow-runtime = {{ path = '{path}', features = {features} }}\n"
    )
}

/// The first program of a page, as a documentation test makes one of it.
fn program(page: &str) -> Option<String> {
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            if line == "```" {
                return Some(whole(&block));
            }
        }
    }
    None
}

fn whole(block: &[&str]) -> String {
    let lines = block
        .iter()
        .map(|line| line.strip_prefix("# ").unwrap_or(line));
    let body = lines.collect::<Vec<&str>>().join("\n");
    if body.contains("fn main(") {
        return body + "\n";
    }
    format!("fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{body}\n}}\n")
}

/// Changes the body, or changes it back.
fn exchanged(main: &Path) -> Result<(), String> {
    let text = fs::read_to_string(main).map_err(|fault| fault.to_string())?;
    let (from, to) = match text.contains(CHANGE.0) {
        true => CHANGE,
        false => (CHANGE.1, CHANGE.0),
    };
    fs::write(main, text.replace(from, to)).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_each_page_is_a_whole_one() {
        let of = |page| program(&fs::read_to_string(steps::root().join(page)).unwrap()).unwrap();
        let program = of(LOOPS);
        assert!(program.starts_with("fn main() -> "), "{program}");
        assert!(program.contains("\nOk::<(), "), "{program}");
        assert_eq!(program.matches(CHANGE.0).count(), 1, "{program}");
        let program = of(SOLVE);
        assert_eq!(program.matches("fn main() -> ").count(), 1, "{program}");
        assert!(program.contains("a.solve("), "{program}");
    }

    #[test]
    fn the_time_of_commands_that_have_ended_grows() {
        let Some(before) = children_seconds() else {
            return say!("skipped: this system does not tell the time of commands");
        };
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let ended = Command::new("sh").args(["-c", busy]).status().unwrap();
        assert!(ended.success());
        assert!(children_seconds().unwrap() > before);
    }
}
