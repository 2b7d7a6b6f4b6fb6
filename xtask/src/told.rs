//! A command that runs tests: its output passes through, and which tests failed, with what each said
//! first, and which were skipped, and why, comes again in the account at the end.
//!
//! A run prints thousands of lines, and whoever looks for the one that matters has the last few.
//!
//! # Law
//! A test that hangs ends the command, and is named.
//! A test that this machine cannot run prints `skipped: ` and the reason, and returns; where it is run
//! with [`SHOW`], or without capture, it is named.
//! A program's last line names it: steps run side by side, and what stands above may be another's.

use crate::out::{self, say};
use crate::steps::{self, Outcome};
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// For so long nothing may be said: ten times what the longest test takes, and Miri is slow.
pub const SILENCE: Duration = Duration::from_secs(1200);

/// Runs tests with their output passing through.
pub fn tests(command: &mut Command) -> Outcome {
    tests_within(SILENCE, command)
}

/// The same, but the command is not killed before it has said nothing for so long.
pub fn tests_within(silence: Duration, command: &mut Command) -> Outcome {
    let heard = Arc::default();
    let fault = match listened(silence, command, &heard) {
        Ok(Some(status)) if status.success() => return locked(&heard).passed(),
        Ok(Some(status)) => format!("`{}` ended with {status}", steps::shown(command)),
        Ok(None) => format!(
            "`{}` was killed: it had said nothing for {silence:?}",
            steps::shown(command)
        ),
        Err(fault) => format!("`{}`: {fault}", steps::shown(command)),
    };
    let told = locked(&heard);
    Outcome::Failed([fault].into_iter().chain(told.lines()).collect())
}

/// Asks the harness for what tests have printed that passed. No more of it than why tests were skipped is
/// passed on.
pub const SHOW: &str = "--show-output";

/// How tests ended that all passed, by what they printed.
pub fn passed(output: &str) -> Outcome {
    let mut heard = Heard::default();
    for line in output.lines() {
        heard.hear(line);
    }
    heard.passed()
}

fn locked(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the command while a thread passes on what it prints; standard output and error share one pipe,
/// so that the order stays. `None` if it was silent for too long, and killed.
fn listened(
    silence: Duration,
    command: &mut Command,
    heard: &Arc<Mutex<Heard>>,
) -> io::Result<Option<ExitStatus>> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    say!("{}", steps::shown(command));
    let child = command.spawn();
    // The command holds the ends that write; with them open nobody would hear the end.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut child = child?;
    let listener = thread::spawn({
        let heard = Arc::clone(heard);
        move || pass_on(reader, &heard)
    });
    let ended = ended(silence, &mut child, heard)?;
    // A process that a test left behind holds them too: it is not waited for.
    for _ in 0..PATIENCE {
        if listener.is_finished() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(ended)
}

/// How often the end of the output is looked for after the command has ended.
const PATIENCE: usize = 20;

/// How the command ended; `None` if it was killed.
fn ended(
    silence: Duration,
    child: &mut Child,
    heard: &Mutex<Heard>,
) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if locked(heard).latest.elapsed() > silence {
            // Killed alone, cargo would leave the test behind.
            kill(&descendants(child.id()));
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The processes that a process has started, and those that they have; none where there is no `/proc`.
fn descendants(process: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name, in which there may be anything: the state, and who has started it.
        let parent = stat.rsplit(") ").next()?.split(' ').nth(1)?;
        Some((process, parent.parse().ok()?))
    });
    let mut others: Vec<(u32, u32)> = processes.collect();
    let mut found = vec![process];
    while let Some(at) = others.iter().position(|(_, by)| found.contains(by)) {
        found.push(others.swap_remove(at).0);
    }
    found.split_off(1)
}

fn kill(processes: &[u32]) {
    let numbers = processes.iter().map(u32::to_string);
    // Those that have ended meanwhile are no fault.
    let mut kill = Command::new("kill");
    kill.arg("-KILL")
        .args(numbers)
        .stderr(Stdio::null())
        .status()
        .ok();
}

fn pass_on(reader: PipeReader, heard: &Mutex<Heard>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line);
        let told = locked(heard).told(&text);
        if let Some(told) = told {
            out::text(&told);
        }
        line.clear();
    }
}

/// What the test harness and cargo said of failures, and of tests that were skipped.
struct Heard {
    /// When anything was said last.
    latest: Instant,
    /// Which program cargo said that it runs.
    program: String,
    /// Tests that have run for long, and run on.
    slow: Vec<String>,
    /// The targets with failures, as cargo names them to run them again.
    targets: Vec<String>,
    /// Each failed test that said something, with its first lines.
    tests: Vec<(String, Vec<String>)>,
    /// Why tests were skipped, and which.
    skipped: Vec<(String, Vec<String>)>,
    part: Part,
}

/// Where in the output one is.
#[derive(Default, PartialEq)]
enum Part {
    #[default]
    Elsewhere,
    /// What tests printed that passed, this one of them.
    Passed(String),
    /// What the latest of `tests` printed.
    Said,
    /// Cargo's list of targets.
    Targets,
}

/// So many lines of each failed test are said again.
const LINES_OF_A_TEST: usize = 8;

impl Default for Heard {
    fn default() -> Self {
        Heard {
            latest: Instant::now(),
            program: String::new(),
            slow: Vec::new(),
            targets: Vec::new(),
            tests: Vec::new(),
            skipped: Vec::new(),
            part: Part::default(),
        }
    }
}

impl Heard {
    /// Takes in a line; what is passed on of it, if anything is.
    fn told<'l>(&mut self, line: &'l str) -> Option<Cow<'l, str>> {
        let said = line.trim_end();
        if !self.hear(said) {
            return None;
        }
        let is_last = said.starts_with(RESULT) && !self.program.is_empty();
        Some(match is_last {
            true => format!("{said}: {}\n", self.program).into(),
            false => line.into(),
        })
    }

    /// Takes in a line; whether it is to be passed on.
    fn hear(&mut self, line: &str) -> bool {
        self.latest = Instant::now();
        if let Some(program) = program(line) {
            self.program = program.to_string();
        }
        if let Some(rest) = line.strip_prefix("test ") {
            self.hear_of_test(rest);
        }
        let said = line.strip_prefix("---- ");
        let name = said.and_then(|rest| rest.strip_suffix(" stdout ----"));
        if line == "successes:" {
            self.part = Part::Passed(String::new());
        } else if line == "failures:" || line.starts_with(RESULT) {
            self.part = Part::Elsewhere;
        } else if let Part::Passed(test) = &mut self.part {
            let reason = line.strip_prefix(SKIPPED);
            match (name, reason) {
                (Some(name), _) => *test = name.to_string(),
                (None, Some(reason)) => skip(&mut self.skipped, test, reason),
                (None, None) => {}
            }
            return reason.is_some();
        } else if let Some(name) = name {
            self.tests.push((name.to_string(), Vec::new()));
            self.part = Part::Said;
        } else if line.starts_with("error: ") && line.contains(" failed:") {
            self.part = Part::Targets;
        } else {
            self.hear_within(line);
        }
        !matches!(self.part, Part::Passed(_))
    }

    /// What the harness says of a test, and, where nothing is captured, the test behind it.
    fn hear_of_test(&mut self, rest: &str) {
        if let Some(test) = rest.strip_suffix(" has been running for over 60 seconds") {
            return self.slow.push(test.to_string());
        }
        let Some((test, said)) = rest.split_once(" ... ") else {
            return;
        };
        self.slow.retain(|slow| slow != test);
        if let Some(reason) = said.strip_prefix(SKIPPED) {
            skip(&mut self.skipped, test, reason);
        }
    }

    fn hear_within(&mut self, line: &str) {
        match self.part {
            Part::Elsewhere | Part::Passed(_) => {}
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

    /// All passed, but for those that were skipped.
    fn passed(&self) -> Outcome {
        let line =
            |(reason, tests): &(String, Vec<String>)| format!("{reason} ({})", tests.join(", "));
        match self.skipped.is_empty() {
            true => Outcome::Passed,
            false => Outcome::PassedBut(self.skipped.iter().map(line).collect()),
        }
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let targets = self.targets.iter().cloned();
        let tests = self.tests.iter();
        let tests = tests.flat_map(|(name, said)| {
            let said = said.iter().map(|line| format!("    {line}"));
            [format!("test {name}")].into_iter().chain(said)
        });
        let slow = self
            .slow
            .iter()
            .map(|name| format!("test {name} had not ended"));
        targets.chain(tests).chain(slow)
    }
}

/// How the last line of a program of tests begins.
const RESULT: &str = "test result: ";

/// The program of which cargo says that it runs, with its path; or whose documentation is tested.
fn program(line: &str) -> Option<&str> {
    let line = line.trim_start();
    match line.strip_prefix("Running ") {
        Some(program) if program.ends_with(')') => Some(program),
        _ => line.starts_with("Doc-tests ").then_some(line),
    }
}

/// What a test prints first that this machine cannot run.
const SKIPPED: &str = "skipped: ";

fn skip(skipped: &mut Vec<(String, Vec<String>)>, test: &str, reason: &str) {
    let known = skipped.iter_mut().find(|(known, _)| known == reason);
    match known {
        Some((_, tests)) if tests.iter().any(|known| known == test) => {}
        Some((_, tests)) => tests.push(test.to_string()),
        None => skipped.push((reason.to_string(), vec![test.to_string()])),
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
        let mut heard = Heard::default();
        for line in OUTPUT.lines() {
            heard.hear(line);
        }
        let expected = [
            "`-p dataflow-mpi --test gather`",
            "test two",
            "    thread 'two' (7) panicked at tests/x.rs:3:5:",
            "    left is not right",
        ];
        assert_eq!(heard.lines().collect::<Vec<_>>(), expected);
    }

    /// Of steps side by side it stood under the program that another had begun last.
    #[test]
    fn the_last_line_of_a_program_names_it() {
        let ended = "test result: ok. 1 passed; 0 failed; finished in 0.12s";
        let mut heard = Heard::default();
        let mut last = |above: &str| {
            assert_eq!(heard.told(above).as_deref(), Some(above));
            heard.told(&format!("{ended}\n")).map(Cow::into_owned)
        };
        let named = |program: &str| Some(format!("{ended}: {program}\n"));
        assert_eq!(last("running 1 test\n"), Some(format!("{ended}\n")));
        let program = "tests/tcp.rs (target/debug/deps/tcp-0f3a)";
        assert_eq!(last(&format!("     Running {program}\n")), named(program));
        assert_eq!(last("test one ... ok\n"), named(program));
        assert_eq!(last("Running away\n"), named(program));
        let documentation = "Doc-tests dataflow_core";
        assert_eq!(last(&format!("   {documentation}\n")), named(documentation));
    }

    const SHOWN: &str = "\
test one ... ok
test two ... ok
test five ... FAILED

successes:

---- one stdout ----
running 1 test
skipped: no such tool

---- two stdout ----
skipped: no such tool
skipped: no such tool

---- three stdout ----
was not skipped: it is here

successes:
    one
    two
    three

failures:

---- five stdout ----
skipped: it comes before the fault
it failed

failures:
    five

test result: FAILED. 3 passed; 1 failed
test four ... skipped: nobody knows
ok
";

    #[test]
    fn the_account_names_the_tests_that_were_skipped_and_nothing_else_of_what_passed_is_passed_on()
    {
        let mut heard = Heard::default();
        let passed_on: Vec<&str> = SHOWN.lines().filter(|line| heard.hear(line)).collect();
        assert_eq!(
            passed_on
                .iter()
                .filter(|line| line.starts_with(SKIPPED))
                .count(),
            4
        );
        assert!(
            !passed_on
                .iter()
                .any(|line| line.contains("running") || line.contains("three"))
        );
        assert_eq!(
            passed_on[passed_on.len() - 3],
            "test result: FAILED. 3 passed; 1 failed"
        );
        let skipped = ["no such tool (one, two)", "nobody knows (four)"].map(String::from);
        assert_eq!(heard.passed(), Outcome::PassedBut(skipped.into()));
        let failed: Vec<String> = heard.lines().collect();
        assert_eq!(
            failed,
            [
                "test five",
                "    skipped: it comes before the fault",
                "    it failed"
            ]
        );
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
    fn a_command_that_is_silent_for_too_long_is_killed_with_all_it_has_started_and_the_test_is_named()
     {
        let file = std::env::temp_dir().join(format!("told-{}", std::process::id()));
        let said =
            ["one", "two"].map(|test| format!("test {test} has been running for over 60 seconds"));
        let said = format!(
            "echo '{}'; echo '{}'; echo 'test one ... ok'",
            said[0], said[1]
        );
        let mut sh = Command::new("sh");
        let sleeper = format!("sh -c 'sleep 600 & echo $! > {}; wait'", file.display());
        sh.args(["-c", &format!("{said}; {sleeper} & wait")]);
        let Outcome::Failed(faults) = tests_within(Duration::from_secs(1), &mut sh) else {
            panic!("it hangs");
        };
        assert!(faults[0].contains("said nothing for 1s"), "{faults:?}");
        assert_eq!(faults[1..], ["test two had not ended"]);
        let sleeper = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let stat = format!("/proc/{}/stat", sleeper.trim());
        let sleeps = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        // A signal that was sent ends a process a moment later.
        let given_up = Instant::now() + Duration::from_secs(30);
        while sleeps() {
            assert!(Instant::now() < given_up, "it sleeps on");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_command_whose_child_outlives_it_is_not_waited_for_and_one_that_passes_tells_nothing() {
        let mut sh = Command::new("sh");
        sh.args(["-c", "sleep 60 & echo one: test"]);
        assert_eq!(tests(&mut sh), Outcome::Passed);
    }
}
