//! Settings: the flags that all examples share, after they were read and found honourable.
//!
//! # Law
//! A flag that an example, or this build, cannot honour is refused; it is never ignored.

use super::{Example, Failure};
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, ValueEnum};
use dataflow::{Bind, Policy, Runtime};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The command line of an example: the flags of all, and those of its own.
#[derive(Clone, Debug, Parser)]
pub struct Settings<Own: Args> {
    #[command(flatten)]
    flags: Flags,
    /// The example's own flags.
    #[command(flatten)]
    pub own: Own,
}

/// The flags of all examples.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Order of the problem
    #[arg(long, value_name = "N")]
    pub n: Option<usize>,
    /// Rows, where they differ from columns
    #[arg(long, value_name = "M")]
    pub m: Option<usize>,
    /// Order of a tile
    #[arg(long, value_name = "NB", value_parser = at_least_one)]
    pub nb: Option<usize>,
    /// Worker threads of each rank [default: one per allowed core]
    #[arg(long, value_name = "T", value_parser = at_least_one)]
    pub threads: Option<usize>,
    /// Number of ranks
    #[arg(long, value_name = "R", default_value = "1", value_parser = at_least_one)]
    pub ranks: usize,
    /// How ranks talk to each other
    #[arg(long, value_name = "HOW")]
    pub transport: Option<Transport>,
    /// Rows and columns of the grid of ranks
    #[arg(long, value_name = "PxQ", default_value = "1x1")]
    pub grid: Grid,
    /// Type of the numbers [default: f64, for a complex file c64]
    #[arg(long, value_name = "TYPE")]
    pub precision: Option<Precision>,
    /// Read this file instead of generating data
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Seed of generated data
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// Run the graph so many times and report the median run
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = at_least_one)]
    pub repeat: usize,
    /// How ready tasks are queued, placed and stolen: distance, distance-no-steal, oblivious,
    /// priority, fifo or lifo, then any of ,own ,adjacent ,all ,patience=ROUNDS ,keep=TASKS
    #[arg(long, value_name = "POLICY", default_value = "distance")]
    pub policy: Policy,
    /// What worker threads are pinned to
    #[arg(long, value_name = "TO", default_value = "cores")]
    pub bind: Binding,
    /// Library of the kernels
    #[arg(long, value_name = "LIBRARY", default_value = "auto")]
    pub backend: Backend,
    /// Verify the result [default: up to n = 8000]; `--check=false` never does
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub check: Option<bool>,
    /// Show progress also with --json (only ever on a terminal)
    #[arg(long)]
    pub progress: bool,
    /// Print one JSON object on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Flags that every example honours; the others it must list.
const OF_ALL: [&str; 4] = ["ranks", "transport", "progress", "json"];

/// Flags that every example honours which runs a graph, or simulates one.
const OF_RUNS: [&str; 4] = ["threads", "bind", "policy", "repeat"];

/// How ranks talk to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    Local,
    Mpi,
    Tcp,
}

/// What the numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    F32,
    F64,
    C32,
    C64,
}

/// What worker threads are pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Binding {
    Cores,
    Pus,
    None,
}

/// The library of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    Auto,
    Faer,
    Openblas,
}

macro_rules! shown_as_on_the_command_line {
    ($($name:ty),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let value = self.to_possible_value();
                f.write_str(value.as_ref().map_or("", |value| value.get_name()))
            }
        }
    )+};
}
shown_as_on_the_command_line!(Transport, Precision, Binding, Backend);

/// Rows and columns of the grid of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    pub rows: usize,
    pub columns: usize,
}

impl FromStr for Grid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('x').and_then(|(rows, columns)| {
            let (rows, columns) = (rows.parse().ok()?, columns.parse().ok()?);
            (rows > 0 && columns > 0).then_some(Grid { rows, columns })
        });
        numbers.ok_or_else(|| "a grid is two positive numbers, like 2x3".to_string())
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_string()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

impl<Own: Args> Settings<Own> {
    /// Reads a command line; its first word is the program's name.
    pub(super) fn read<W: Into<std::ffi::OsString> + Clone>(
        example: &Example,
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, clap::Error> {
        let honours = |flag: &str| {
            OF_ALL.contains(&flag)
                || example.runs && OF_RUNS.contains(&flag)
                || example.honours.contains(&flag)
        };
        let shared = Flags::augment_args(clap::Command::new(""));
        let mut command = Settings::<Own>::command()
            .name(example.name)
            .about(example.about)
            .version(env!("CARGO_PKG_VERSION"));
        for flag in shared.get_arguments().map(|flag| flag.get_id().as_str()) {
            command = command.mut_arg(flag, |arg| arg.hide(!honours(flag)));
        }
        let matches = command.try_get_matches_from_mut(words)?;
        let given = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
        let flags = shared.get_arguments().map(|flag| flag.get_id().as_str());
        if let Some(flag) = flags.into_iter().find(|flag| given(flag) && !honours(flag)) {
            let text = format!("the example {} does not honour --{flag}", example.name);
            return Err(command.error(clap::error::ErrorKind::UnknownArgument, text));
        }
        let settings = Settings::from_arg_matches(&matches)?;
        match settings.beyond_this_build() {
            Some(text) => Err(command.error(clap::error::ErrorKind::InvalidValue, text)),
            None => Ok(settings),
        }
    }

    /// What was asked for that this build has no code for.
    fn beyond_this_build(&self) -> Option<String> {
        let Flags {
            ranks,
            transport,
            grid,
            backend,
            ..
        } = &self.flags;
        if grid.rows * grid.columns != *ranks {
            return Some(format!(
                "--grid {grid} needs {} ranks, --ranks is {ranks}",
                grid.rows * grid.columns
            ));
        }
        if *ranks > 1 {
            return Some(format!(
                "--ranks {ranks}: this version runs on one rank only"
            ));
        }
        match transport {
            None | Some(Transport::Local) => {}
            Some(other) => {
                return Some(format!(
                    "--transport {other}: this version runs on one rank only"
                ));
            }
        }
        if *backend == Backend::Openblas && !cfg!(feature = "openblas") {
            return Some(
                "--backend openblas: this program was built without the feature `openblas`".into(),
            );
        }
        None
    }

    /// A runtime with the threads and the binding that were asked for.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn runtime(&self) -> Result<Runtime, Failure> {
        let mut builder = Runtime::builder()
            .bind(self.bound_to())
            .policy(self.policy.clone());
        if let Some(threads) = self.threads {
            builder = builder.threads(threads);
        }
        Ok(builder.build()?)
    }

    /// What workers are bound to.
    pub fn bound_to(&self) -> Bind {
        match self.bind {
            Binding::Cores => Bind::Cores,
            Binding::Pus => Bind::Pus,
            Binding::None => Bind::None,
        }
    }
}

impl<Own: Args> std::ops::Deref for Settings<Own> {
    type Target = Flags;
    fn deref(&self) -> &Flags {
        &self.flags
    }
}
