//! The examples at small sizes, held to their contract: exit status, one JSON object, a small residual.
//!
//! # Law
//! A hang is a failure: every run has a deadline far above what it needs.
//!
//! # Elsewhere
//! What the examples compute is checked in `tests/`; here only what a user of the command line sees.

use crate::out::say;
use crate::steps::{self, Outcome};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// One run of an example.
struct Run {
    example: &'static str,
    arguments: &'static str,
    expected: Expected,
}

/// What a run must end in.
enum Expected {
    /// Exit 0 and one JSON object with these keys and no `error`.
    Done { keys: &'static [&'static str] },
    /// Exit 2, one line that starts with `error:`, nothing on standard output.
    BadArguments,
    /// Exit 1, a line that starts with `error:`, one JSON object whose `error` has a kind.
    Failed,
}

const CHOLESKY: Expected = Expected::Done {
    keys: &["n", "nb", "threads", "tasks", "residual", "digest"],
};
const SOLVE: Expected = Expected::Done {
    keys: &["method", "condition", "log_det", "residual", "digest"],
};

const REFINED: Expected = Expected::Done {
    keys: &["method", "condition", "corrections", "residual", "digest"],
};
const ALIGNMENT: Expected = Expected::Done {
    keys: &["score", "alignment_length", "tasks"],
};
const OVERHEAD: Expected = Expected::Done {
    keys: &[
        "ns_per_task",
        "cpu_ns_per_task",
        "bytes_per_task",
        "max_rss_bytes",
    ],
};
const TASK_BENCH: Expected = Expected::Done {
    keys: &["tasks", "seconds", "errors"],
};

const PING_PONG: Expected = Expected::Done {
    keys: &["ranks", "spin", "rows"],
};

const SEQUENCE: Expected = Expected::Done {
    keys: &["tasks", "seconds", "stops"],
};

const BLOCKS: Expected = Expected::Done {
    keys: &["n", "nb", "precision", "tasks", "digest"],
};

const RECURSION: Expected = Expected::Done {
    keys: &["tasks", "seconds", "value"],
};

/// Runs of every build.
#[rustfmt::skip]
const RUNS: &[Run] = &[
    Run { example: "cholesky", arguments: "--n 300 --nb 64 --check --json", expected: CHOLESKY },
    Run { example: "cholesky", arguments: "--n 0 --json", expected: CHOLESKY },
    Run { example: "cholesky", arguments: "--n 97 --nb 100 --precision c32 --threads 2 --check --json", expected: CHOLESKY },
    Run { example: "qr", arguments: "--n 200 --m 300 --nb 64 --tree greedy --ranks 2 --check --json", expected: CHOLESKY },
    Run { example: "least_squares", arguments: "--n 300 --m 200 --nb 64 --ranks 3 --check --json", expected: CHOLESKY },
    Run { example: "solve", arguments: "--n 300 --nb 64 --method lu --ranks 2 --check --json", expected: SOLVE },
    Run { example: "solve", arguments: "--n 300 --nb 64 --method mixed --check --json", expected: REFINED },
    Run { example: "solve", arguments: "--n 10 --method mixed --precision f32 --json", expected: Expected::BadArguments },
    Run { example: "inverse", arguments: "--n 300 --nb 64 --ranks 2 --check --json", expected: CHOLESKY },
    Run { example: "matmul", arguments: "--n 300 --nb 64 --ranks 3 --check --json", expected: CHOLESKY },
    Run { example: "lu", arguments: "--n 300 --m 200 --nb 64 --ranks 4 --grid 2x2 --check --json", expected: CHOLESKY },
    Run { example: "cholesky", arguments: "--n 300 --nb 32 --levels 2 --block 3 --ranks 2 --check --json", expected: CHOLESKY },
    Run { example: "cholesky_sequence", arguments: "--n 300 --nb 32 --ranks 2 --check --json", expected: CHOLESKY },
    Run { example: "sequence", arguments: "--ranks 2 --json", expected: SEQUENCE },
    Run { example: "fibonacci", arguments: "--n 22 --cutoff 8 --ranks 2 --json", expected: RECURSION },
    Run { example: "powerset", arguments: "--n 14 --cutoff 4 --ranks 2 --json", expected: RECURSION },
    Run { example: "heat", arguments: "--n 60 --nb 7 --steps 5 --ranks 2 --json", expected: BLOCKS },
    Run { example: "ldlt", arguments: "--n 100 --nb 16 --ranks 2 --check --json", expected: BLOCKS },
    Run { example: "floyd_warshall", arguments: "--n 100 --nb 16 --ranks 2 --check --json", expected: BLOCKS },
    Run { example: "alignment", arguments: "--n 400 --json", expected: ALIGNMENT },
    Run { example: "overhead", arguments: "--shape chain --size 10000 --threads 2 --json", expected: OVERHEAD },
    Run { example: "task_bench", arguments: "--pattern fft --width 9 --steps 100 --bytes 1000 --kernel compute --ranks 3 --json", expected: TASK_BENCH },
    Run { example: "ping_pong", arguments: "--largest 65536 --repeat 2 --json", expected: PING_PONG },
    Run { example: "cholesky", arguments: "--no-such-flag --json", expected: Expected::BadArguments },
    Run { example: "alignment", arguments: "--no-such-flag", expected: Expected::BadArguments },
    Run { example: "overhead", arguments: "--shape chain --size 100 --threads 0 --json", expected: Expected::BadArguments },
    Run { example: "cholesky", arguments: "--threads 0 --json", expected: Expected::BadArguments },
    Run { example: "cholesky", arguments: "--input no-such-file.mtx --json", expected: Expected::Failed },
];

/// Runs of a build without features: what it was built without, it says.
#[rustfmt::skip]
const RUNS_PLAIN: &[Run] = &[
    Run { example: "cholesky", arguments: "--n 10 --backend openblas --json", expected: Expected::BadArguments },
    Run { example: "cholesky", arguments: "--n 10 --transport mpi --json", expected: Expected::BadArguments },
    Run { example: "simulate", arguments: "--input no-such-file.xml --json", expected: Expected::BadArguments },
];

/// The examples that know whether a feature is there; all others are the same with and without, and
/// are run with all features.
const KNOWING: [&str; 4] = ["cholesky", "distances", "simulate", "topology"];

/// Runs of a build with feature `openblas`.
#[rustfmt::skip]
const RUNS_OPENBLAS: &[Run] = &[
    Run { example: "cholesky", arguments: "--n 300 --nb 64 --backend openblas --check --json", expected: CHOLESKY },
];

/// Largest scaled residual that passes (LAPACK's own testers use the same threshold).
const RESIDUAL_BOUND: f64 = 30.0;

/// Far above what any run here needs, also on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// Without features our libraries are built once more, for a few small runs: not optimised, which takes a
/// third of the time.
const PLAIN: [&str; 4] = [
    "profile.test.package.dataflow-core.opt-level=0",
    "profile.test.package.dataflow-linalg.opt-level=0",
    "profile.test.package.dataflow-mpi.opt-level=0",
    "profile.test.package.dataflow-numa.opt-level=0",
];

/// What cargo is told of them.
pub fn unoptimised() -> Vec<&'static str> {
    let settings = PLAIN.iter().flat_map(|setting| ["--config", setting]);
    settings.collect()
}

/// Builds the examples that know of features, without them, and runs them.
pub fn plain() -> Outcome {
    let examples = KNOWING.iter().flat_map(|name| ["--example", name]);
    let examples = examples.chain(unoptimised());
    let known = RUNS.iter().filter(|run| KNOWING.contains(&run.example));
    judged(&examples.collect::<Vec<_>>(), known.chain(RUNS_PLAIN))
}

/// Builds all examples with these features, `openblas` among them, and runs them.
pub fn all(features: &[&str]) -> Outcome {
    let examples = [&["--examples"], features].concat();
    judged(&examples, RUNS.iter().chain(RUNS_OPENBLAS))
}

fn judged<'a>(examples: &[&str], runs: impl Iterator<Item = &'a Run>) -> Outcome {
    let programs = match build(examples) {
        Ok(programs) => programs,
        Err(fault) => return Outcome::failed(fault),
    };
    let mut faults = Vec::new();
    for run in runs {
        let verdict = match programs.get(run.example) {
            Some(program) => run.check(program),
            None => Err("no example of this name was built".to_string()),
        };
        let line = format!("{} {}", run.example, run.arguments);
        match verdict {
            Ok(()) => say!("ok  {line}"),
            Err(fault) => faults.push(format!("`{line}`: {fault}")),
        }
    }
    Outcome::from_faults(faults)
}

/// Name and path of each example, built as `cargo test --workspace` builds them, so that little is left to do.
fn build(examples: &[&str]) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut cargo = steps::cargo(&["build", "--workspace", "--profile", "test"]);
    cargo
        .args(examples)
        .args(["--message-format", "json-render-diagnostics"]);
    say!("{}", steps::shown(&cargo));
    let built = cargo
        .stderr(Stdio::inherit())
        .output()
        .map_err(|fault| format!("cargo did not start: {fault}"))?;
    if !built.status.success() {
        return Err(format!("the examples do not build ({})", built.status));
    }
    Ok(programs(&String::from_utf8_lossy(&built.stdout)))
}

/// The examples among cargo's messages, one JSON object per line.
fn programs(messages: &str) -> BTreeMap<String, PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let examples = messages.filter(|message| message["target"]["kind"][0] == "example");
    let named = examples.filter_map(|message| {
        let name = message["target"]["name"].as_str()?;
        Some((
            name.to_string(),
            PathBuf::from(message["executable"].as_str()?),
        ))
    });
    named.collect()
}

impl Run {
    fn check(&self, program: &Path) -> Result<(), String> {
        let mut command = Command::new(program);
        command
            .args(self.arguments.split_whitespace())
            .current_dir(steps::root());
        let ended = run(&mut command, DEADLINE)?;
        self.judge(&ended).map_err(|fault| {
            format!(
                "{fault}\n--- stdout\n{}\n--- stderr\n{}",
                ended.stdout, ended.stderr
            )
        })
    }

    fn judge(&self, ended: &Ended) -> Result<(), String> {
        match &self.expected {
            Expected::Done { keys } => {
                ended.exited_with(0)?;
                let report = ended.object()?;
                if report.get("error").is_some() {
                    return Err("exit status 0 with an `error` in the object".into());
                }
                if report["example"] != self.example {
                    return Err(format!("key `example` is {}", report["example"]));
                }
                match keys
                    .iter()
                    .find(|key| report.get(**key).is_none_or(Value::is_null))
                {
                    Some(key) => Err(format!("key `{key}` is absent or null")),
                    None => small_residual(&report),
                }
            }
            Expected::BadArguments => {
                ended.exited_with(2)?;
                ended.says_error()?;
                if ended.stdout.is_empty() {
                    Ok(())
                } else {
                    Err("bad arguments, yet something on stdout".into())
                }
            }
            Expected::Failed => {
                ended.exited_with(1)?;
                ended.says_error()?;
                match ended.object()?["error"]["kind"].as_str() {
                    Some(_) => Ok(()),
                    None => Err("a failed run without `error.kind` in its object".into()),
                }
            }
        }
    }
}

fn small_residual(report: &Value) -> Result<(), String> {
    match report.get("residual") {
        None | Some(Value::Null) => Ok(()),
        Some(residual) => match residual.as_f64() {
            Some(value) if value < RESIDUAL_BOUND => Ok(()),
            _ => Err(format!("residual {residual} is not below {RESIDUAL_BOUND}")),
        },
    }
}

/// What a finished process left behind.
pub struct Ended {
    status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn exited_with(&self, expected: i32) -> Result<(), String> {
        match self.status.code() {
            Some(code) if code == expected => Ok(()),
            _ => Err(format!("{} instead of exit status {expected}", self.status)),
        }
    }

    fn says_error(&self) -> Result<(), String> {
        let first = self.stderr.lines().next().unwrap_or("");
        if first.starts_with("error:") {
            Ok(())
        } else {
            Err("stderr does not begin with `error:`".into())
        }
    }

    /// The one JSON object that is all of standard output.
    pub fn object(&self) -> Result<Value, String> {
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&self.stdout)
            .into_iter()
            .collect();
        match values {
            Ok(values) if values.len() == 1 && values[0].is_object() => {
                Ok(values.into_iter().next().unwrap_or_default())
            }
            Ok(values) => Err(format!(
                "{} JSON values on stdout instead of one object",
                values.len()
            )),
            Err(fault) => Err(format!("stdout is not JSON: {fault}")),
        }
    }
}

/// Runs a program to its end, or kills it at the deadline.
pub fn run(command: &mut Command, deadline: Duration) -> Result<Ended, String> {
    let piped = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped
        .spawn()
        .map_err(|fault| format!("did not start: {fault}"))?;
    let stdout = read_aside(child.stdout.take());
    let stderr = read_aside(child.stderr.take());
    let status = wait(&mut child, deadline)?;
    let text = |reader: thread::JoinHandle<String>| {
        reader.join().map_err(|_| "its output was lost".to_string())
    };
    Ok(Ended {
        status,
        stdout: text(stdout)?,
        stderr: text(stderr)?,
    })
}

fn read_aside(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            let mut stream = BufReader::new(stream);
            // A broken pipe ends the text early; the judgement of what came says so.
            while stream
                .read_until(b'\n', &mut bytes)
                .is_ok_and(|read| read > 0)
            {}
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, deadline: Duration) -> Result<ExitStatus, String> {
    let start = Instant::now();
    while start.elapsed() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => thread::sleep(Duration::from_millis(5)),
            Err(fault) => return Err(format!("cannot be waited for: {fault}")),
        }
    }
    let killed = child.kill().and_then(|()| child.wait());
    Err(format!(
        "still running after {deadline:?}; killed: {killed:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(script: &str) -> Ended {
        run(Command::new("sh").args(["-c", script]), DEADLINE).expect(script)
    }

    fn judged(expected: Expected, script: &str) -> Result<(), String> {
        Run {
            example: "cholesky",
            arguments: "",
            expected,
        }
        .judge(&ended(script))
    }

    const DONE: Expected = Expected::Done {
        keys: &["n", "residual"],
    };

    #[test]
    fn a_good_run_passes() {
        let good = r#"echo '{"example": "cholesky", "n": 3, "residual": 0.5}'"#;
        assert_eq!(judged(DONE, good), Ok(()));
        let refused = "echo 'error: unknown flag' >&2; exit 2";
        assert_eq!(judged(Expected::BadArguments, refused), Ok(()));
        let failed =
            r#"echo 'error: no file' >&2; echo '{"error": {"kind": "input_unreadable"}}'; exit 1"#;
        assert_eq!(judged(Expected::Failed, failed), Ok(()));
    }

    #[test]
    fn every_breach_of_the_contract_is_seen() {
        let object = r#"echo '{"example": "cholesky", "n": 3, "residual": 0.5}'"#;
        for (expected, script, fault) in [
            (
                DONE,
                format!("{object}; exit 1"),
                "instead of exit status 0",
            ),
            (DONE, format!("{object}; {object}"), "2 JSON values"),
            (DONE, format!("echo hello; {object}"), "not JSON"),
            (DONE, "true".to_string(), "0 JSON values"),
            (DONE, object.replace("0.5", "30.5"), "not below"),
            (
                DONE,
                object.replace("0.5", "null"),
                "`residual` is absent or null",
            ),
            (DONE, object.replace("\"n\"", "\"m\""), "`n` is absent"),
            (DONE, object.replace("cholesky", "lu"), "key `example`"),
            (
                DONE,
                object.replace("\"n\": 3", "\"n\": 3, \"error\": {}"),
                "with an `error`",
            ),
            (
                Expected::BadArguments,
                "echo 'error: x' >&2; exit 1".to_string(),
                "instead of exit status 2",
            ),
            (
                Expected::BadArguments,
                format!("{object}; echo 'error: x' >&2; exit 2"),
                "on stdout",
            ),
            (
                Expected::BadArguments,
                "echo 'thread panicked' >&2; exit 2".to_string(),
                "`error:`",
            ),
            (
                Expected::Failed,
                format!("echo 'error: x' >&2; {object}; exit 1"),
                "error.kind",
            ),
            (Expected::Failed, "kill -9 $$".to_string(), "signal"),
        ] {
            let verdict = judged(expected, &script);
            assert!(
                verdict.as_ref().is_err_and(|text| text.contains(fault)),
                "{script}: {verdict:?}"
            );
        }
    }

    #[test]
    fn a_hanging_run_is_killed_at_its_deadline() {
        let verdict = run(Command::new("sleep").arg("600"), Duration::from_millis(50));
        assert!(verdict.is_err_and(|fault| fault.contains("still running")));
    }

    #[test]
    fn examples_are_found_among_the_messages_of_cargo() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"dataflow"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["example"],"name":"cholesky"},"executable":"/t/cholesky"}"#,
            "\n{\"reason\":\"build-finished\",\"success\":true}\n",
        );
        let expected = BTreeMap::from([("cholesky".to_string(), PathBuf::from("/t/cholesky"))]);
        assert_eq!(programs(messages), expected);
    }
}
