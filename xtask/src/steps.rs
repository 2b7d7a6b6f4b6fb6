//! Steps: each is run to its end, timed and remembered; the account comes last.
//!
//! # Law
//! A failing step never keeps a later one from running, and nothing is left out in silence:
//! what this machine cannot do is a skipped step with its reason, and so is a test of a step that passed.
//! Once nobody reads what is said, no step begins.
//! The last line is `N passed, N failed, N skipped`, of steps. Where none could be run, nothing was looked
//! at, and the command has failed; so it has where one was skipped, if it is strict.

use crate::out::{self, say};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs, io, thread};

/// How a step ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Passed,
    /// The same, but some of its tests were skipped: why and which, one line each.
    PassedBut(Vec<String>),
    /// What went wrong, one line each.
    Failed(Vec<String>),
    /// Why this machine or this call cannot do it.
    Skipped(String),
}

impl Outcome {
    /// Passed without faults, failed with any.
    pub fn from_faults(faults: Vec<String>) -> Self {
        if faults.is_empty() {
            Self::Passed
        } else {
            Self::Failed(faults)
        }
    }

    pub fn failed(fault: impl Into<String>) -> Self {
        Self::Failed(vec![fault.into()])
    }
}

/// The steps that have been run, in order.
pub struct Steps {
    done: Vec<Done>,
    began: Instant,
    is_strict: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Steps {
            done: Vec::new(),
            began: Instant::now(),
            is_strict: false,
        }
    }
}

/// Why no step begins any more.
const UNREAD: &str = "nobody reads what it says";

/// A step that has been run, how it ended and how long it took.
type Done = (String, Outcome, Duration);

/// A step that may run beside others.
pub type Step = Box<dyn FnOnce() -> Outcome + Send>;

impl Steps {
    /// Where a skipped step is as bad as a failed one: for machines that can do them all.
    pub fn strict() -> Self {
        Steps {
            is_strict: true,
            ..Steps::default()
        }
    }

    /// Runs one step and remembers how it ended and how long it took.
    pub fn step(&mut self, name: &str, step: impl FnOnce() -> Outcome) {
        self.done.push(timed(name.to_string(), step));
    }

    /// Runs steps, as many at a time as there are cores; what they print is mixed.
    pub fn side_by_side(&mut self, steps: Vec<(String, Step)>) {
        let n_at_once = thread::available_parallelism().map_or(1, usize::from);
        let mut done: Vec<Option<Done>> = steps.iter().map(|_| None).collect();
        let waiting = Mutex::new(done.iter_mut().zip(steps));
        let next = || {
            waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next()
        };
        thread::scope(|scope| {
            for _ in 0..n_at_once {
                scope.spawn(|| {
                    while let Some((place, (name, step))) = next() {
                        *place = Some(timed(name, step));
                    }
                });
            }
        });
        drop(waiting);
        self.done.extend(done.into_iter().flatten());
    }

    /// A step without which the others make no sense: its fault goes back to the caller.
    pub fn required(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        say!("\n━━ {name}");
        let start = Instant::now();
        if !out::is_open() {
            return Err(UNREAD.into());
        }
        step()?;
        self.done
            .push((name.to_string(), Outcome::Passed, start.elapsed()));
        Ok(())
    }

    /// How the latest step ended.
    pub fn last(&self) -> Option<&Outcome> {
        self.done.last().map(|(_, outcome, _)| outcome)
    }

    /// A step that is one command; its output passes through.
    pub fn command(&mut self, name: &str, command: &mut Command) {
        self.step(name, || status(command));
    }

    /// Prints the account; success if a step passed and none failed, nor, if it is strict, was skipped.
    pub fn close(&self) -> ExitCode {
        out::text(&format!("\n{self}"));
        match self.has_passed() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }

    fn has_passed(&self) -> bool {
        let mut outcomes = self.done.iter().map(|(_, outcome, _)| outcome);
        let has_failed = outcomes.clone().any(|of| match of {
            Outcome::Failed(_) => true,
            Outcome::Skipped(_) => self.is_strict,
            Outcome::Passed | Outcome::PassedBut(_) => false,
        });
        !has_failed && outcomes.any(|of| matches!(of, Outcome::Passed | Outcome::PassedBut(_)))
    }
}

/// Runs a step and says what went wrong.
fn timed(name: String, step: impl FnOnce() -> Outcome) -> Done {
    say!("\n━━ {name}");
    let start = Instant::now();
    let outcome = match out::is_open() {
        true => step(),
        false => Outcome::Skipped(UNREAD.into()),
    };
    match &outcome {
        Outcome::Passed | Outcome::PassedBut(_) => {}
        Outcome::Failed(faults) => faults.iter().for_each(|fault| say!("{name}: {fault}")),
        Outcome::Skipped(reason) => say!("{name}: skipped: {reason}"),
    }
    (name, outcome, start.elapsed())
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for (name, outcome, time) in &self.done {
            let word = match outcome {
                Outcome::Passed | Outcome::PassedBut(_) => {
                    passed += 1;
                    "passed"
                }
                Outcome::Failed(_) => {
                    failed += 1;
                    "FAILED"
                }
                Outcome::Skipped(_) => {
                    skipped += 1;
                    "skipped"
                }
            };
            writeln!(f, "{:>8.1} s  {word:<7}  {name}", time.as_secs_f64())?;
        }
        // Not their sum: some ran side by side.
        let all = self.began.elapsed();
        writeln!(f, "{:>8.1} s  in all", all.as_secs_f64())?;
        for (name, outcome, _) in &self.done {
            match outcome {
                Outcome::Passed => {}
                Outcome::Failed(faults) => {
                    for fault in faults {
                        writeln!(f, "failed:  {name}: {fault}")?;
                    }
                }
                Outcome::PassedBut(reasons) => {
                    for reason in reasons {
                        writeln!(f, "skipped: {name}: {reason}")?;
                    }
                }
                Outcome::Skipped(reason) => writeln!(f, "skipped: {name}: {reason}")?,
            }
        }
        if passed + failed == 0 {
            writeln!(f, "nothing could be run: this is no success")?;
        } else if self.is_strict && skipped > 0 {
            writeln!(f, "steps were skipped: with --strict this is no success")?;
        }
        writeln!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Runs a command with its output passing through.
pub fn status(command: &mut Command) -> Outcome {
    say!("{}", shown(command));
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::failed(format!("`{}` ended with {status}", shown(command))),
        Err(fault) => Outcome::failed(format!("`{}` did not start: {fault}", shown(command))),
    }
}

/// What a command prints.
///
/// # Errors
/// What it says of its failure.
pub fn output(command: &mut Command) -> Result<String, String> {
    let out = command.output();
    let out = out.map_err(|fault| format!("`{}`: {fault}", shown(command)))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match out.status.success() {
        true => Ok(text(&out.stdout)),
        false => Err(format!(
            "`{}`: {}",
            shown(command),
            text(&out.stderr).trim()
        )),
    }
}

/// A command as one would type it, with the variables it sets.
pub fn shown(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!(
            "{}=\"{}\"",
            name.to_string_lossy(),
            value?.to_string_lossy()
        ))
    });
    let program = PathBuf::from(command.get_program());
    let program = program
        .file_stem()
        .unwrap_or(command.get_program())
        .to_string_lossy()
        .into_owned();
    let arguments = command
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned());
    variables
        .chain([program])
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The folder of the workspace.
pub fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(own)
        .parent()
        .map_or_else(|| ".".into(), PathBuf::from)
}

/// The cargo that runs this tool, in the folder of the workspace.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(arguments).current_dir(root());
    cargo
}

/// What cargo knows of this workspace.
pub fn metadata() -> Result<Value, String> {
    let mut cargo = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let out = cargo
        .output()
        .map_err(|fault| format!("cargo did not start: {fault}"))?;
    if !out.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        ));
    }
    serde_json::from_slice(&out.stdout).map_err(|fault| format!("cargo metadata: {fault}"))
}

/// The folder under which cargo builds: the environment names it, or one of cargo's files.
pub fn target_folder() -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let told = metadata().unwrap_or_default();
        let folder = told["target_directory"].as_str().map(PathBuf::from);
        folder.unwrap_or_else(|| root().join("target"))
    });
    FOLDER.clone()
}

/// Makes a folder that is there whole or not at all: who is interrupted leaves nothing that looks done.
///
/// # Errors
/// What `make` says, to which a folder beside is given, or the file system.
pub fn whole(folder: &Path, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    let said = |fault: io::Error| format!("{}: {fault}", folder.display());
    let beside = folder.with_extension("part");
    for old in [&beside, folder] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(said)?;
        }
    }
    fs::create_dir_all(&beside).map_err(said)?;
    make(&beside)?;
    fs::rename(&beside, folder).map_err(said)
}

/// A word for the shell, as it is.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_runs_and_the_last_line_counts_them() {
        let mut steps = Steps::default();
        let mut ran = 0;
        for outcome in [
            Outcome::failed("one"),
            Outcome::Passed,
            Outcome::Skipped("no such tool".into()),
            Outcome::PassedBut(vec!["no such file (a, b)".into()]),
        ] {
            steps.step("step", || {
                ran += 1;
                outcome
            });
        }
        let account = steps.to_string();
        assert_eq!(ran, 4);
        assert_eq!(
            account.lines().last(),
            Some("2 passed, 1 failed, 1 skipped")
        );
        assert!(account.contains("failed:  step: one"), "{account}");
        for reason in ["no such tool", "no such file (a, b)"] {
            let line = format!("\nskipped: step: {reason}\n");
            assert!(account.contains(&line), "{account}");
        }
    }

    /// Without MPICH, `cargo xtask mpich` ended as if its tests had passed.
    #[test]
    fn a_command_of_which_nothing_could_be_run_has_not_passed() {
        let lacks = || Outcome::Skipped("no such tool".into());
        let mut steps = Steps::default();
        steps.step("first", lacks);
        assert!(!steps.has_passed());
        assert!(
            steps.to_string().contains("nothing could be run"),
            "{steps}"
        );
        steps.step("second", || {
            Outcome::PassedBut(vec!["no such file (a)".into()])
        });
        assert!(steps.has_passed());
        assert!(
            !steps.to_string().contains("nothing could be run"),
            "{steps}"
        );
        steps.step("third", || Outcome::failed("one"));
        assert!(!steps.has_passed());
    }

    #[test]
    fn a_strict_command_of_which_a_step_was_skipped_has_not_passed() {
        for (mut steps, is_strict) in [(Steps::default(), false), (Steps::strict(), true)] {
            // One test among many, which says so, is no step.
            let some = vec!["one NUMA node (a)".to_string()];
            steps.step("first", || Outcome::PassedBut(some));
            assert!(steps.has_passed());
            steps.step("second", || Outcome::Skipped("no such tool".into()));
            assert_eq!(steps.has_passed(), !is_strict);
            let told = steps.to_string();
            assert_eq!(told.contains("with --strict"), is_strict, "{told}");
        }
    }

    #[test]
    fn steps_side_by_side_all_run_and_are_told_in_their_order() {
        let mut steps = Steps::default();
        let outcomes = (0..9).map(|i| match i % 3 {
            0 => Outcome::Passed,
            1 => Outcome::failed("one"),
            _ => Outcome::Skipped("no such tool".into()),
        });
        let outcomes: Vec<Outcome> = outcomes.collect();
        let of = |(i, outcome): (usize, &Outcome)| {
            let outcome = outcome.clone();
            let step: Step = Box::new(move || {
                thread::sleep(Duration::from_millis(9 - i as u64));
                outcome
            });
            (format!("step {i}"), step)
        };
        steps.side_by_side(outcomes.iter().enumerate().map(of).collect());
        let told = steps.done.iter().enumerate();
        let right = told.filter(|(i, (name, outcome, _))| {
            *name == format!("step {i}") && *outcome == outcomes[*i]
        });
        assert_eq!(right.count(), 9, "{steps}");
    }

    #[test]
    fn a_command_that_fails_or_is_not_there_is_a_failed_step() {
        for mut command in [
            Command::new("false"),
            Command::new("no-such-command-anywhere"),
        ] {
            let outcome = status(&mut command);
            assert!(
                matches!(outcome, Outcome::Failed(_)),
                "{command:?}: {outcome:?}"
            );
        }
        assert_eq!(status(&mut Command::new("true")), Outcome::Passed);
    }

    /// It may be named by CARGO_BUILD_TARGET_DIR too, and by files.
    #[test]
    fn this_program_lies_in_the_target_folder() {
        let [own, target] = [std::env::current_exe().unwrap(), target_folder()]
            .map(|path| fs::canonicalize(path).unwrap());
        assert!(
            own.starts_with(&target),
            "{} is elsewhere",
            target.display()
        );
    }

    #[test]
    fn a_folder_that_is_half_made_is_not_there_and_is_made_anew() {
        let folder = std::env::temp_dir().join(format!("whole-{}", std::process::id()));
        let begun = |beside: &Path| fs::write(beside.join("half"), "").map_err(|of| of.to_string());
        let interrupted = whole(&folder, |beside| begun(beside).and(Err("no more".into())));
        assert_eq!(interrupted, Err("no more".into()));
        assert!(!folder.exists());
        for name in ["first", "second"] {
            let made = |beside: &Path| fs::write(beside.join(name), "");
            whole(&folder, |beside| made(beside).map_err(|of| of.to_string())).unwrap();
            let names = fs::read_dir(&folder).unwrap();
            let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, [name]);
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_word_comes_through_the_shell_as_it_is() {
        let word = "it's $HOME \"x\" \\";
        let echo = format!("printf %s {}", quoted(word));
        let out = Command::new("sh").args(["-c", &echo]).output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), word);
    }

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/opt/bin/cargo");
        command
            .args(["test", "--lib"])
            .env("RUSTFLAGS", "--cfg loom")
            .env_remove("CARGO_ABSENT");
        assert_eq!(shown(&command), "RUSTFLAGS=\"--cfg loom\" cargo test --lib");
    }
}
