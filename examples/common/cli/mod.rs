//! The command line that all examples share: flags, exit statuses, JSON, progress.
//!
//! An example says which of the common flags it honours, declares its own, and fills an
//! [`Outcome`]; everything else is here:
//!
//! ```ignore
//! use common::cli;
//!
//! const EXAMPLE: cli::Example = cli::Example {
//!     name: "squares",
//!     about: "Squares numbers",
//!     runs: true, // so --threads, --bind, --policy and --repeat are honoured
//!     honours: &["n", "seed"], // and these; --json and its like are honoured by all
//! };
//!
//! #[derive(clap::Args)]
//! struct Own {
//!     /// What to add to each
//!     #[arg(long, default_value_t = 0)]
//!     plus: u64,
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     // Once for each rank, so --ranks, --transport and --drive are honoured.
//!     cli::run(&EXAMPLE, |settings: &cli::Settings<Own>, runtime, outcome| {
//!         let space = Squares::new(settings.n.unwrap_or(1000), settings.own.plus);
//!         let run = |monitor: &Monitor| run_across(&space, &runtime.watched_by(monitor));
//!         outcome.measured = settings.median(|_| settings.measure(runtime, run))?;
//!         outcome.set("sum", space.sum());                       // a key of its own
//!         outcome.say(format!("the sum is {}", space.sum()));    // a line for people
//!         Ok(())
//!     })
//! }
//! ```
//!
//! An example without flags of its own takes `Settings<cli::NoFlags>`; one that needs no runtime
//! is run by [`run_alone`]. [`Failure`] is made from the runtime's errors by `?`, or by
//! [`Failure::new`]; [`Failure::refused`] is a bad argument. What rank 0 has to tell is told.
//!
//! # The contract
//! Exit status 0: done and verified. 2: bad arguments, one line on stderr, nothing on stdout.
//! 1: everything else that failed; with `--json` the object is printed, `error` filled in.
//! The first line on stderr starts with `error:` and says it all. `--json` prints one object on
//! stdout and nothing else; its first keys are the same, in the same order, in every example.
//!
//! # Elsewhere
//! What the keys mean: [`outcome`]. Time and memory: [`measure`], [`process`]. Files: [`outputs`].

pub mod costs;
pub mod counts;
pub mod measure;
pub mod outcome;
pub mod outputs;
pub mod process;
pub mod settings;
pub mod simulated;
pub mod statistics;
pub mod traced;

pub use measure::{Measured, record};
pub use outcome::Outcome;
pub use settings::{Flags, Settings};

use clap::Args;
use clap::error::{ContextKind, ContextValue};
use dataflow::core::rank::Rank;
use dataflow::mpi::start::Launched;
use dataflow::numa::TopologyError;
use dataflow::{Runtime, RuntimeBuilder, Transport, launch};
use serde_json::{Value, json};
use std::any::Any;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// What an example is.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its name, as cargo knows it.
    pub name: &'static str,
    /// One sentence for `--help`.
    pub about: &'static str,
    /// Whether it runs a graph on workers, or simulates that.
    pub runs: bool,
    /// The flags it honours besides those that all do, or all that run: of `n m nb grid precision input
    /// seed backend variant check plan simulate costs`. With `simulate` alone its graph can only be
    /// counted, with `costs` beside it also be played in virtual time.
    pub honours: &'static [&'static str],
}

/// The flags of an example that has none of its own.
#[derive(Clone, Copy, Debug, Args)]
pub struct NoFlags {}

/// Why an example did not do what it was asked for.
#[derive(Clone, Debug)]
pub struct Failure {
    status: u8,
    kind: String,
    index: Option<u64>,
    message: String,
    /// Whether the message begins with a file's name.
    is_of_file: bool,
}

impl Failure {
    /// A failure of the given kind (snake_case) and text: exit status 1.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Failure {
            status: 1,
            kind: kind.into(),
            index: None,
            message: message.into(),
            is_of_file: false,
        }
    }

    /// An argument that cannot be honoured: exit status 2, and no object.
    pub fn refused(message: impl Into<String>) -> Self {
        Failure {
            status: 2,
            ..Failure::new("bad_argument", message)
        }
    }

    /// A file that cannot be read.
    pub fn input_unreadable(path: &Path, error: impl fmt::Display) -> Self {
        Failure::new("input_unreadable", format!("{}: {error}", path.display()))
    }

    /// A file that is not what it must be; the text names it.
    pub fn malformed_input(message: impl Into<String>) -> Self {
        Failure::new("malformed_input", message)
    }

    /// The same, said of a file, unless it was said of one before.
    pub fn about(self, path: &Path) -> Self {
        let message = match self.is_of_file {
            true => self.message,
            false => format!("{}: {}", path.display(), self.message),
        };
        Failure {
            message,
            is_of_file: true,
            ..self
        }
    }

    /// Whether a matrix has a shape of which nothing can be made.
    pub fn is_of_shape(&self) -> bool {
        self.kind == "wrong_shape"
    }

    /// A file that cannot be written.
    pub fn output_unwritable(path: &Path, error: impl fmt::Display) -> Self {
        Failure::new("output_unwritable", format!("{}: {error}", path.display()))
    }

    /// A result that is not what it must be.
    pub fn wrong_result(message: impl Into<String>) -> Self {
        Failure::new("wrong_result", message)
    }

    /// The index it belongs to: LAPACK's INFO where there is one.
    pub fn with_index(self, index: u64) -> Self {
        Failure {
            index: Some(index),
            ..self
        }
    }

    /// This failure, and what failed after it.
    pub fn followed_by(self, next: &Failure) -> Self {
        let message = format!("{}; then {}", self.message, next.message);
        Failure { message, ..self }
    }

    /// Whether it is more than that another rank was lost.
    fn is_cause(&self) -> bool {
        self.kind != "rank_lost"
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn object(&self) -> Value {
        json!({ "kind": self.kind, "index": self.index, "message": self.message })
    }

    fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Failure::new(
            "panicked",
            format!("the example panicked: {}", text.unwrap_or("(no text)")),
        )
    }
}

impl From<dataflow::Error> for Failure {
    fn from(error: dataflow::Error) -> Self {
        let failure = Failure::new(error.name(), error.to_string());
        Failure {
            index: error.index(),
            ..failure
        }
    }
}

/// What this build, or hwloc's grammar, cannot honour is a bad argument; a bad file is not.
impl From<TopologyError> for Failure {
    fn from(error: TopologyError) -> Self {
        let text = error.to_string();
        match error {
            TopologyError::NeedsHwloc { .. } | TopologyError::NotSynthetic { .. } => {
                Failure::refused(text)
            }
            TopologyError::Unreadable { .. } => Failure::new("input_unreadable", text),
            TopologyError::NotATopology { .. } => Failure::malformed_input(text),
            _ => Failure::new("wrong_settings", text),
        }
    }
}

impl From<dataflow::trace::WriteError> for Failure {
    fn from(error: dataflow::trace::WriteError) -> Self {
        Failure::new("output_unwritable", error.to_string())
    }
}

/// How a body ended.
type Ended = Result<(), Failure>;

/// Runs an example on each rank, with the arguments of this process.
pub fn run<Own: Args + Sync>(
    example: &Example,
    body: impl Fn(&Settings<Own>, &Runtime, &mut Outcome) -> Ended + Sync,
) -> ExitCode {
    run_on(example, |_, builder| Ok(builder), body)
}

/// The same on runtimes with settings that the flags of all examples do not tell.
pub fn run_on<Own: Args + Sync>(
    example: &Example,
    prepare: impl FnOnce(&Settings<Own>, RuntimeBuilder) -> Result<RuntimeBuilder, Failure>,
    body: impl Fn(&Settings<Own>, &Runtime, &mut Outcome) -> Ended + Sync,
) -> ExitCode {
    tell(|| answer_on(example, std::env::args_os(), prepare, body))
}

/// Runs an example that needs no runtime, with the arguments of this process; of those that a
/// launcher has started the first does it, and the others are silent.
pub fn run_alone<Own: Args>(
    example: &Example,
    body: impl FnOnce(&Settings<Own>, &mut Outcome) -> Ended,
) -> ExitCode {
    let launched = Launched::of(settings::variable);
    if matches!(launched, Ok(Some(launched)) if launched.rank > Rank(0)) {
        return ExitCode::SUCCESS;
    }
    tell(|| answer_alone(example, std::env::args_os(), body))
}

fn tell(answer: impl FnOnce() -> Answer) -> ExitCode {
    // Workers that panic say so in the error that `run` returns.
    std::panic::set_hook(Box::new(|_| {}));
    let answer = answer();
    let stdout = std::io::stdout().write_all(answer.stdout.as_bytes());
    let unwritten = match &stdout {
        // A reader that left early, like `head`: nobody is there to be told.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            error_line(&format!("standard output: {error}"))
        }
        _ => String::new(),
    };
    // The first line says what failed first. If nobody takes it, the status says it all the same.
    let _lost = std::io::stderr().write_all((answer.stderr + &unwritten).as_bytes());
    match stdout {
        Ok(()) => ExitCode::from(answer.status),
        Err(_) => ExitCode::FAILURE,
    }
}

/// All that an example gives back to its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u8,
    pub stdout: String,
    pub stderr: String,
}

/// Runs an example on each rank, with a command line whose first word is the program's name.
pub fn answer<Own: Args + Sync, W: Into<OsString> + Clone>(
    example: &Example,
    words: impl IntoIterator<Item = W>,
    body: impl Fn(&Settings<Own>, &Runtime, &mut Outcome) -> Ended + Sync,
) -> Answer {
    answer_on(example, words, |_, builder| Ok(builder), body)
}

/// The same on runtimes that are prepared, as [`run_on`] does.
pub fn answer_on<Own: Args + Sync, W: Into<OsString> + Clone>(
    example: &Example,
    words: impl IntoIterator<Item = W>,
    prepare: impl FnOnce(&Settings<Own>, RuntimeBuilder) -> Result<RuntimeBuilder, Failure>,
    body: impl Fn(&Settings<Own>, &Runtime, &mut Outcome) -> Ended + Sync,
) -> Answer {
    let settings = match Settings::<Own>::read(example, true, words) {
        Ok(settings) => settings,
        Err(error) => return Answer::to_bad_arguments(&error),
    };
    let builder = settings.builder();
    let builder = builder.and_then(|builder| prepare(&settings, builder));
    on_all_ranks(example, &settings, builder, &|runtime, outcome| {
        body(&settings, runtime, outcome)
    })
}

/// What an example does on a rank.
type OnRank<'b> = &'b (dyn Fn(&Runtime, &mut Outcome) -> Ended + Sync);

/// Compiled once for all examples.
fn on_all_ranks(
    example: &Example,
    flags: &Flags,
    builder: Result<RuntimeBuilder, Failure>,
    body: OnRank<'_>,
) -> Answer {
    let ended = Mutex::new(Vec::new());
    let on_rank = |runtime: &Runtime| {
        let (outcome, result) = of_one_rank(example, flags, runtime, body);
        let failed = result.as_ref().err().cloned();
        let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push((runtime.rank(), outcome, result));
        failed.map_or(Ok(()), Err)
    };
    // What is no body's own panics too, such as a scheduler of the user's.
    let launched = builder.and_then(|builder| caught(|| launch(builder, on_rank)));
    let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (outcome, result) = match (lowest(ended), launched) {
        // All went well here, but not to the end.
        (Some((outcome, Ok(()))), Err(failure)) => (outcome, Err(failure)),
        // Here it is only known that a rank was lost; why it did not start, the launch knows.
        (Some((outcome, Err(lost))), Err(cause)) if !lost.is_cause() && cause.is_cause() => {
            (outcome, Err(cause))
        }
        (Some(lowest), _) => lowest,
        // No rank came to life.
        (None, launched) => (Outcome::new(flags), launched),
    };
    let answer = Answer::to(example, flags, &outcome, result);
    match outcome.teller {
        Rank(0) => answer,
        // What there is to tell rank 0 tells.
        _ => Answer {
            stdout: String::new(),
            ..answer
        },
    }
}

/// One rank's part: what it has to tell, and how it ended.
fn of_one_rank(
    example: &Example,
    flags: &Flags,
    runtime: &Runtime,
    body: OnRank<'_>,
) -> (Outcome, Ended) {
    let mut outcome = Outcome::new(flags);
    outcome.teller = match runtime.transport() {
        // Of threads of one process the others tell if the first has not started.
        Transport::Local => Rank(0),
        _ => runtime.rank(),
    };
    outcome.ranks = flags.n_unstarted().unwrap_or(runtime.n_ranks());
    outcome.threads = Some(runtime.n_threads());
    outcome.policy = runtime.workers().policy().to_string();
    let result = caught(|| {
        // Only what is measured is recorded.
        record(runtime, false);
        flags.agree(example, runtime)?;
        if !flags.can_write(runtime)? {
            return Ok(());
        }
        let ended = body(runtime, &mut outcome);
        // What was measured is told though its result is judged bad.
        let told = match runtime.rank() {
            Rank(0) => traced::tell(&mut outcome, flags),
            _ => Ok(()),
        };
        both(ended, told)
    });
    (outcome, result)
}

/// How two things ended, one after the other: a failure of the second does not hide one of the first.
pub fn both(first: Ended, second: Ended) -> Ended {
    match (first, second) {
        (Err(failure), Err(next)) => Err(failure.followed_by(&next)),
        (first, second) => first.and(second),
    }
}

/// Runs an example that needs no runtime, with a command line.
pub fn answer_alone<Own: Args, W: Into<OsString> + Clone>(
    example: &Example,
    words: impl IntoIterator<Item = W>,
    body: impl FnOnce(&Settings<Own>, &mut Outcome) -> Ended,
) -> Answer {
    let settings = match Settings::<Own>::read(example, false, words) {
        Ok(settings) => settings,
        Err(error) => return Answer::to_bad_arguments(&error),
    };
    let mut outcome = Outcome::new(&settings);
    let result = caught(|| body(&settings, &mut outcome));
    Answer::to(example, &settings, &outcome, result)
}

fn caught(body: impl FnOnce() -> Ended) -> Ended {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(Failure::panicked(&*panic)))
}

/// What the lowest rank has to tell; if it only knows that another rank was lost, why that was.
fn lowest(mut ended: Vec<(Rank, Outcome, Ended)>) -> Option<(Outcome, Ended)> {
    ended.sort_by_key(|(rank, ..)| *rank);
    let mut failures = ended
        .iter()
        .filter_map(|(.., result)| result.as_ref().err());
    let cause = failures.find(|failure| failure.is_cause()).cloned();
    let (_, outcome, result) = ended.into_iter().next()?;
    let result = match (result, cause) {
        (Err(lost), Some(cause)) if !lost.is_cause() => Err(cause),
        (Ok(()), Some(cause)) => Err(cause),
        (result, _) => result,
    };
    Some((outcome, result))
}

impl Flags {
    /// Refuses files that cannot be written, if the run is to write any; what a simulation does not make
    /// the example refuses.
    fn expect_writable(&self) -> Ended {
        match (self.plan, self.simulate) {
            (true, _) => Ok(()),
            (false, Some(_)) => self.outputs.expect_writable(&["trace", "dot"]),
            (false, None) => self.outputs.expect_writable(&outputs::FLAGS),
        }
    }

    /// Refuses a window that shows none of so many ranks.
    fn expect_seen(&self, n_ranks: usize) -> Ended {
        let std::ops::Range { start, end } = self.window.ranks;
        if start < end && (start as usize) < n_ranks {
            return Ok(());
        }
        let end = match end {
            u32::MAX => String::new(),
            end => end.to_string(),
        };
        let text = format!(
            "--window: this run has no rank in {start}..{end} (its ranks are 0..{n_ranks})"
        );
        Err(Failure::refused(text))
    }

    /// Compares the flags that ranks share with the other ranks'.
    fn agree(&self, example: &Example, runtime: &Runtime) -> Ended {
        if runtime.n_ranks() == 1 {
            return Ok(());
        }
        let settings = self.agreed.iter();
        let settings: Vec<_> = settings
            .map(|(name, value)| (&name[..], value.clone()))
            .collect();
        Ok(runtime.agree(example.name, &settings)?)
    }

    /// Rank 0 tries the files that it will write, and fails if it cannot: then no rank begins.
    fn can_write(&self, runtime: &Runtime) -> Result<bool, Failure> {
        let n_ranks = self.n_unstarted().unwrap_or(runtime.n_ranks());
        let tried = match runtime.rank() {
            Rank(0) => self.expect_seen(n_ranks).and(self.expect_writable()),
            _ => Ok(()),
        };
        let all = match runtime.n_ranks() {
            1 => 1,
            _ => runtime.all_reduce(u8::from(tried.is_ok()), u8::min)?,
        };
        tried.map(|()| all == 1)
    }
}

impl Answer {
    fn to(example: &Example, flags: &Flags, outcome: &Outcome, result: Ended) -> Answer {
        let failure = result.err();
        let status = failure.as_ref().map_or(0, |failure| failure.status);
        let stdout = match (status, flags.json) {
            (0 | 1, true) => format!("{}\n", outcome.object(example, failure.as_ref())),
            (0, false) => outcome.page(example),
            _ => String::new(),
        };
        let stderr = failure.map_or(String::new(), |failure| error_line(&failure.message));
        Answer {
            status,
            stdout,
            stderr,
        }
    }

    /// Help and version are no errors; anything else is told in one line.
    fn to_bad_arguments(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        if !error.use_stderr() {
            return Answer {
                status: 0,
                stdout: text,
                stderr: String::new(),
            };
        }
        let first = text.split("\n\n").next().unwrap_or_default();
        let first = first.strip_prefix("error: ").unwrap_or(first);
        let stderr = error_line(&in_words(first, error));
        Answer {
            status: 2,
            stdout: String::new(),
            stderr,
        }
    }
}

/// The text of a bad argument; of one that is no number, or not in its range, with what would be one, and of
/// a flag that there is not with one that is like it.
fn in_words(text: &str, error: &clap::Error) -> String {
    if error.kind() == clap::error::ErrorKind::UnknownArgument {
        return match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(flag)) => format!("{text} (there is '{flag}')"),
            _ => match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(flag)) if is_short(flag) => {
                    format!("{text} (flags begin with two dashes; --help lists them)")
                }
                Some(_) => format!("{text} (--help lists the flags)"),
                None => text.to_string(),
            },
        };
    }
    let (Some(fault), Some(ContextValue::String(value))) =
        (error.source(), error.get(ContextKind::InvalidValue))
    else {
        return text.to_string();
    };
    let told = fault.to_string();
    let meant = settings::number_meant(fault, value).map(String::from);
    let meant = meant.or_else(|| settings::range_meant(&told, value));
    match (text.strip_suffix(&told), meant) {
        (Some(before), Some(meant)) => format!("{before}{meant}"),
        _ => text.to_string(),
    }
}

/// Whether it is a dash and a letter, as other programs have them: `-n 4`, `-t4`.
fn is_short(flag: &str) -> bool {
    let letters = flag.strip_prefix('-').unwrap_or_default();
    letters.starts_with(char::is_alphabetic)
}

/// One line, whatever the text.
fn error_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    format!("error: {}\n", words.join(" "))
}

/// The text of a file that people or programs of ours write, such as costs and hosts: one that goes on without
/// end is none.
pub fn text_of(path: &Path) -> io::Result<String> {
    const MOST: u64 = 64 << 20;
    let mut text = String::new();
    File::open(path)?.take(MOST + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST {
        true => Err(io::Error::other("more than 64 MiB, which no such file has")),
        false => Ok(text),
    }
}
