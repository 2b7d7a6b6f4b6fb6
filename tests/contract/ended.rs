//! An example that has run: what it said, and how it ended.

use crate::built;
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// The keys of every example, in their order.
pub const KEYS: [&str; 25] = [
    "example",
    "n",
    "m",
    "nb",
    "grid",
    "ranks",
    "threads",
    "precision",
    "backend",
    "policy",
    "seed",
    "tasks",
    "seconds",
    "cpu_seconds",
    "gflops",
    "residual",
    "digest",
    "messages",
    "bytes",
    "activations",
    "packets",
    "control_bytes",
    "steals",
    "copies",
    "max_rss_bytes",
];

pub struct Ended {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    /// From its start to its end.
    pub seconds: f64,
}

/// Runs an example.
pub fn run(example: &str, arguments: &[&str]) -> Ended {
    ended(Command::new(built::example(example)).args(arguments))
}

/// The same after a command of the shell, such as one that sets a limit.
pub fn run_with(before: &str, example: &str, arguments: &[&str]) -> Ended {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{before} && exec \"$0\" \"$@\"")]);
    ended(shell.arg(built::example(example)).args(arguments))
}

fn ended(command: &mut Command) -> Ended {
    for name in ["THREADS", "BIND", "POLICY", "TRACE"] {
        command.env_remove(format!("DATAFLOW_{name}"));
    }
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended {
        status: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
        seconds: began.elapsed().as_secs_f64(),
    }
}

/// Runs `cholesky` with `--json` and reads its object.
pub fn cholesky(arguments: &[&str]) -> (i32, Value) {
    let ended = run("cholesky", &[arguments, &["--json"]].concat());
    let object = ended.object();
    ended.says_what_failed(&object);
    (ended.status, object)
}

impl Ended {
    /// The one object on stdout; its keys are those of the contract, in their order.
    pub fn object(&self) -> Value {
        let Ended {
            status,
            stdout,
            stderr,
            ..
        } = self;
        assert!(matches!(status, 0 | 1), "{status}: {stderr}");
        let object: Value =
            serde_json::from_str(stdout).unwrap_or_else(|e| panic!("{e}: {stdout}"));
        let keys: Vec<_> = object.as_object().unwrap().keys().collect();
        assert_eq!(keys[..KEYS.len()], KEYS, "{stdout}");
        object
    }

    /// Exit status 1 if and only if the object has an `error`, told on stderr in one line.
    pub fn says_what_failed(&self, object: &Value) {
        let Some(error) = object.get("error") else {
            assert_eq!((self.status, &*self.stderr), (0, ""));
            return;
        };
        assert_eq!(self.status, 1, "{error}");
        let keys: Vec<_> = error.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["kind", "index", "message"]);
        let message = error["message"].as_str().unwrap();
        assert_eq!(self.error_line(), message);
    }

    /// The object of a run that succeeded.
    pub fn done(&self) -> Value {
        let object = self.object();
        self.says_what_failed(&object);
        assert!(object.get("error").is_none(), "{object}");
        object
    }

    /// The one line on stderr, without `error: `.
    pub fn error_line(&self) -> &str {
        let line = self.stderr.strip_suffix('\n').unwrap_or(&self.stderr);
        let line = line.strip_prefix("error: ");
        let line = line.unwrap_or_else(|| panic!("stderr: {:?}", self.stderr));
        assert!(!line.contains('\n'), "{line}");
        for trace in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!line.contains(trace), "{line}");
        }
        line
    }

    /// Status 2: a line, and no object.
    pub fn is_a_bad_argument(&self) -> &str {
        assert_eq!((self.status, &*self.stdout), (2, ""), "{}", self.stderr);
        self.error_line()
    }
}

/// All grids of 1, 2, 3, 4 and 6 ranks.
pub const GRIDS: [(usize, usize); 12] = [
    (1, 1),
    (1, 2),
    (2, 1),
    (1, 3),
    (3, 1),
    (1, 4),
    (2, 2),
    (4, 1),
    (1, 6),
    (2, 3),
    (3, 2),
    (6, 1),
];

/// A folder of this test run; files are written anew each time.
pub fn written(name: &str, text: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contract");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What `error` says, whatever the tiles and the threads.
pub fn failure(file: &str, more: &[&str]) -> (String, Option<u64>, String) {
    let mut answers = Vec::new();
    for layout in [
        &[][..],
        &["--nb", "1"],
        &["--nb", "2", "--threads", "1"],
        &["--nb", "3", "--threads", "3"],
    ] {
        let (status, object) = cholesky(&[&["--input", file], layout, more].concat());
        assert_eq!(status, 1, "{object}");
        let error = &object["error"];
        let text = |key: &str| error[key].as_str().unwrap().to_owned();
        answers.push((text("kind"), error["index"].as_u64(), text("message")));
    }
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    answers.swap_remove(0)
}

/// The folder `matrices/`, or `None`, said aloud.
pub fn matrices() -> Option<PathBuf> {
    match std::env::var_os("DATAFLOW_DATA") {
        Some(folder) => Some(Path::new(&folder).join("matrices")),
        None => {
            println!("skipped: DATAFLOW_DATA is not set (a folder that holds matrices/)");
            None
        }
    }
}

pub fn json(path: PathBuf) -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn an_example_that_is_older_than_one_of_its_sources_is_not_tried() {
    let (source, program) = (written("a source.rs", ""), written("program", ""));
    let list = format!("{program}: {}\n", source.replace(' ', "\\ "));
    written("program.d", &list);
    let program = Path::new(&program);
    assert_eq!(built::outdated(program), None);
    let later = SystemTime::now() + Duration::from_secs(60);
    let file = File::options().write(true).open(&source).unwrap();
    file.set_modified(later).unwrap();
    let names = |fault: String| fault.contains(&source);
    assert!(built::outdated(program).is_some_and(names));
    std::fs::remove_file(&source).unwrap();
    assert!(built::outdated(program).is_some_and(names));
}
