//! A command that runs tests: its output passes through, and which tests failed, with what each said
//! first, comes again in the account at the end.
//!
//! A run prints thousands of lines, and whoever looks for the one that matters has the last few.

use crate::steps::{self, Outcome};
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Runs tests with their output passing through.
pub fn tests(command: &mut Command) -> Outcome {
    let failures = Arc::default();
    let mut outcome = match listened(command, &failures) {
        Ok(outcome) => outcome,
        Err(fault) => Outcome::failed(format!("`{}`: {fault}", steps::shown(command))),
    };
    let told = failures.lock().unwrap_or_else(PoisonError::into_inner);
    if let Outcome::Failed(faults) = &mut outcome {
        faults.extend(told.lines());
    }
    outcome
}

/// Runs the command while a thread passes on what it prints; standard output and error share one pipe,
/// so that the order stays.
fn listened(command: &mut Command, failures: &Arc<Mutex<Failures>>) -> io::Result<Outcome> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let failures = Arc::clone(failures);
    let listener = thread::spawn(move || pass_on(reader, &failures));
    let outcome = steps::status(command);
    // The command holds the ends that write; with them open nobody would hear the end.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    // A process that a test left behind holds them too: it is not waited for.
    for _ in 0..PATIENCE {
        if listener.is_finished() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(outcome)
}

/// How often the end of the output is looked for after the command has ended.
const PATIENCE: usize = 20;

fn pass_on(reader: PipeReader, failures: &Mutex<Failures>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        io::stdout().write_all(&line).ok();
        let text = String::from_utf8_lossy(&line);
        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.hear(text.trim_end());
        line.clear();
    }
}

/// What the test harness and cargo said of failures.
#[derive(Default)]
struct Failures {
    /// The targets with failures, as cargo names them to run them again.
    targets: Vec<String>,
    /// Each failed test that said something, with its first lines.
    tests: Vec<(String, Vec<String>)>,
    part: Part,
}

/// Where in the output one is.
#[derive(Default, PartialEq)]
enum Part {
    #[default]
    Elsewhere,
    /// What the latest of `tests` printed.
    Said,
    /// Cargo's list of targets.
    Targets,
}

/// So many lines of each failed test are said again.
const LINES_OF_A_TEST: usize = 8;

impl Failures {
    fn hear(&mut self, line: &str) {
        let said = line.strip_prefix("---- ");
        let name = said.and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            self.tests.push((name.to_string(), Vec::new()));
            self.part = Part::Said;
        } else if line == "failures:" {
            self.part = Part::Elsewhere;
        } else if line.starts_with("error: ") && line.contains(" failed:") {
            self.part = Part::Targets;
        } else {
            self.hear_within(line);
        }
    }

    fn hear_within(&mut self, line: &str) {
        match self.part {
            Part::Elsewhere => {}
            Part::Said => {
                let Some((_, said)) = self.tests.last_mut() else {
                    return;
                };
                if !line.is_empty() && said.len() < LINES_OF_A_TEST {
                    said.push(line.to_string());
                }
            }
            Part::Targets if line.starts_with("    `") => {
                self.targets.push(line.trim().to_string())
            }
            Part::Targets => self.part = Part::Elsewhere,
        }
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let targets = self.targets.iter().cloned();
        let tests = self.tests.iter();
        let tests = tests.flat_map(|(name, said)| {
            let said = said.iter().map(|line| format!("    {line}"));
            [format!("test {name}")].into_iter().chain(said)
        });
        targets.chain(tests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 2 tests
test one ... ok
test two ... FAILED

failures:

---- two stdout ----

thread 'two' (7) panicked at tests/x.rs:3:5:
left is not right


failures:
    two

test result: FAILED. 1 passed; 1 failed
error: test failed, to rerun pass `-p dataflow-mpi --test gather`
error: 1 target failed:
    `-p dataflow-mpi --test gather`
what follows
";

    // The lines are not printed: this test is itself listened to.
    #[test]
    fn the_account_names_the_targets_and_tests_that_failed_and_what_they_said() {
        let mut failures = Failures::default();
        OUTPUT.lines().for_each(|line| failures.hear(line));
        let expected = [
            "`-p dataflow-mpi --test gather`",
            "test two",
            "    thread 'two' (7) panicked at tests/x.rs:3:5:",
            "    left is not right",
        ];
        assert_eq!(failures.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_command_that_fails_is_a_failure_that_names_it() {
        let mut sh = Command::new("sh");
        sh.args(["-c", "exit 101"]);
        let Outcome::Failed(faults) = tests(&mut sh) else {
            panic!("status 101 is a failure");
        };
        assert!(faults[0].contains("exit status: 101"), "{faults:?}");
        assert_eq!(faults.len(), 1, "{faults:?}");
    }

    #[test]
    fn a_command_whose_child_outlives_it_is_not_waited_for_and_one_that_passes_tells_nothing() {
        let mut sh = Command::new("sh");
        sh.args(["-c", "sleep 60 & echo one: test"]);
        assert_eq!(tests(&mut sh), Outcome::Passed);
    }
}
