//! Settings: the flags that all examples share, after they were read and found honourable.
//!
//! # Law
//! A flag that an example, or this build, cannot honour is refused; it is never ignored.

use super::outputs::Outputs;
use super::{Example, Failure};
use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, ValueEnum};
use dataflow::core::port::MANY_INSIDE;
use dataflow::core::rank::Rank;
use dataflow::core::words::{counted, there_are};
use dataflow::mpi::start::{Launched, Seat};
use dataflow::numa::Topology;
use dataflow::numa::topology::share::{LocalRank, part};
use dataflow::trace::Window;
use dataflow::{Bind, Policy, Runtime, RuntimeBuilder};
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Bytes of notes on each rank of a run that is traced: eight million tasks.
pub const ROOM: usize = 256 << 20;

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
    /// Order of a tile [default: what suits the matrix]
    #[arg(long, value_name = "NB", value_parser = at_least_one)]
    pub nb: Option<usize>,
    /// Worker threads of each rank [default: DATAFLOW_THREADS, or the allowed cores, divided among the ranks here]
    #[arg(long, value_name = "T", value_parser = at_least_one)]
    pub threads: Option<usize>,
    /// Number of ranks [default: as many as a launcher has started, or as the example needs]
    #[arg(long, value_name = "R", value_parser = at_least_one)]
    pub ranks: Option<usize>,
    /// How ranks talk to each other
    #[arg(long, value_name = "HOW")]
    pub transport: Option<Transport>,
    /// Which rank this process is, of those of --hosts or --peers
    #[arg(long, value_name = "R")]
    pub rank: Option<u32>,
    /// A file that names the host of each rank, one a line, the first with the port it listens at
    #[arg(long, value_name = "FILE", requires = "rank", conflicts_with = "peers")]
    pub hosts: Option<PathBuf>,
    /// The hosts of all ranks, the first with its port, like 10.0.0.1:4000,10.0.0.2
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', requires = "rank")]
    pub peers: Vec<String>,
    /// Where this rank listens [default: at its host, any port]
    #[arg(long, value_name = "ADDRESS", requires = "rank", value_parser = listening_address)]
    pub listen: Option<SocketAddr>,
    /// Of these ports this rank takes one where any would do, like 4001-4100 [default: DATAFLOW_PORTS]
    #[arg(long, value_name = "A-B", requires = "rank", value_parser = port_range)]
    pub ports: Option<RangeInclusive<u16>>,
    /// Who moves messages [default: a thread of its own where each rank has a core to spare]
    #[arg(long, value_name = "WHO")]
    pub drive: Option<Drive>,
    /// After so many silent seconds a rank is lost to the others
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(1..))]
    pub silence: u64,
    /// Rows and columns of the grid of ranks [default: the squarest, P at most Q]
    #[arg(long, value_name = "PxQ")]
    pub grid: Option<Grid>,
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
    /// priority, fifo or lifo, then any of ,own ,adjacent ,all ,patience=ROUNDS ,keep=TASKS; goes before
    /// DATAFLOW_POLICY
    #[arg(long, value_name = "POLICY", default_value = "distance")]
    pub policy: Policy,
    /// Whether the command line says it.
    #[arg(skip)]
    pub says_policy: bool,
    /// Whether it says to what.
    #[arg(skip)]
    says_bind: bool,
    /// Whether it says how often.
    #[arg(skip)]
    says_repeat: bool,
    /// Whether it says from which seed.
    #[arg(skip)]
    says_seed: bool,
    /// What all ranks must have been given alike, as it was given.
    #[arg(skip)]
    pub(super) agreed: Vec<(String, String)>,
    /// Files that are to be written.
    #[arg(skip)]
    pub(super) outputs: Outputs,
    /// What worker threads are pinned to; goes before DATAFLOW_BIND
    #[arg(long, value_name = "TO", default_value = "cores")]
    pub bind: Binding,
    /// Library of the kernels
    #[arg(long, value_name = "LIBRARY", default_value = "auto")]
    pub backend: Backend,
    /// Which edges of the graph are run
    #[arg(long, value_name = "NAME", default_value = "graph")]
    pub variant: Variant,
    /// Verify the result [default: up to n = 8000; ldlt and floyd_warshall up to 1024; heat,
    /// jacobi3d and nas_ft always]; `--check=false` never does, and `--check` fails or is refused where
    /// nothing can judge it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub check: Option<bool>,
    /// Compute nothing: tell the memory that each of --ranks ranks, any number, needs, and what there is
    /// where they would be on this machine
    #[arg(long, conflicts_with_all = OF_MEASURED_RUNS)]
    pub plan: bool,
    /// Compute nothing: tell what --ranks ranks, up to 10,000,000, would do and send, and with --threads
    /// what they would hold; or play it in virtual time. What the environment says of workers here
    /// does not count there
    #[arg(long, value_name = "WHAT", conflicts_with_all = OF_REAL_RUNS)]
    pub simulate: Option<Simulation>,
    /// What kernels and messages take in virtual time: a file that the example calibrate writes
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Record the measured run and write it to this file, of a kind that its extension tells:
    /// pftrace, json, prv, paje, svg or html; a second graph of the run goes to name.2.html, and so on to
    /// the eighth
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(trace_file))]
    pub trace: Option<PathBuf>,
    /// Write of it only some time, in seconds, and some ranks: FROM..TO, FROM..TO@FIRST..END
    #[arg(
        long,
        value_name = "WINDOW",
        requires = "trace",
        default_value = "..",
        hide_default_value = true
    )]
    pub window: Window,
    /// Draw the graph of the measured run, the first of several, for Graphviz (2,000 tasks at most)
    #[arg(long, value_name = "FILE")]
    pub dot: Option<PathBuf>,
    /// Show progress also with --json (only ever on a terminal)
    #[arg(long)]
    pub progress: bool,
    /// Tell on standard error, once a second, how far each rank is
    #[arg(long)]
    pub live: bool,
    /// Print one JSON object on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Flags that every example honours; the others it must list.
const OF_ALL: [&str; 2] = ["progress", "json"];

/// Flags that every example honours which is launched on ranks.
const OF_RANKS: [&str; 9] = [
    "ranks",
    "transport",
    "rank",
    "hosts",
    "peers",
    "listen",
    "ports",
    "drive",
    "silence",
];

/// Flags of which each rank may be given its own.
const OF_ONE_RANK: [&str; 14] = [
    "rank",
    "hosts",
    "peers",
    "listen",
    "ports",
    "threads",
    "bind",
    "policy",
    "drive",
    "ranks",
    "transport",
    "progress",
    "live",
    "json",
];

/// Flags that every example honours which runs a graph, or simulates one.
const OF_RUNS: [&str; 4] = ["threads", "bind", "policy", "repeat"];

/// Flags that every example honours which does both.
const OF_TRACES: [&str; 4] = ["trace", "window", "dot", "live"];

/// Flags that mean nothing where nothing is run.
const OF_REAL_RUNS: [&str; 12] = [
    "rank", "hosts", "peers", "listen", "ports", "silence", "bind", "backend", "variant", "plan",
    "progress", "live",
];

/// Flags that mean nothing where nothing is measured.
const OF_MEASURED_RUNS: [&str; 5] = ["repeat", "trace", "window", "dot", "live"];

/// Flags that mean nothing where there is no clock.
const OF_TIME: [&str; 9] = [
    "policy",
    "transport",
    "drive",
    "repeat",
    "seed",
    "trace",
    "window",
    "dot",
    "costs",
];

/// Worker threads of one process, unless it has more than an eighth as many processors.
const MOST_THREADS: usize = 1024;
/// Workers of a rank that are only simulated: more cannot be inside a run.
pub(super) const MOST_SIMULATED: usize = MANY_INSIDE;
/// Ranks that are counted for: each has a place in several tables.
const MOST_COUNTED: u32 = 10_000_000;
/// Ranks in virtual time: more have no room for their stacks.
const MOST_PLAYED: u32 = 10_000;
/// Ranks whose memory is told.
const MOST_PLANNED: usize = 10_000;
/// Ranks that are threads of one process: each has threads and mailboxes of its own.
const MOST_LOCAL: usize = 64;
/// Ranks that are processes which this one starts.
const MOST_PROCESSES: usize = 1024;

/// How ranks talk to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    Local,
    Mpi,
    Tcp,
}

/// Who moves messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Drive {
    /// A thread of its own.
    Dedicated,
    /// The workers, between tasks.
    Workers,
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

/// Which edges of a graph are run: the experiment that tells how much communication is hidden.
///
/// # Source
/// Sorensen, Baden, *Hiding communication latency with non-SPMD, graph-based execution*, ICCS 2009.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// All: messages travel while tasks run
    Graph,
    /// One more for each task: a rank has all that an iteration needs before it begins with it
    Base,
    /// None between ranks: as if messages took no time, and with wrong results
    Ideal,
}

/// What is told of a run that is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Simulation {
    /// Tasks, messages and bytes of each rank, and bounds; no clock
    Counts,
    /// The whole run, in virtual time: tasks and messages take what --costs says
    Time,
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
shown_as_on_the_command_line!(
    Transport, Drive, Precision, Binding, Backend, Variant, Simulation
);

impl Flags {
    /// How many ranks are asked about and not started, if that is so: those that were asked for, or the
    /// grid's. They are simulated, or planned where nobody else has started any.
    pub fn n_unstarted(&self) -> Option<usize> {
        let is_planned = self.plan && !self.is_among_others();
        if self.simulate.is_none() && !is_planned {
            return None;
        }
        let of_grid = self.grid.map(|grid| grid.rows * grid.columns);
        self.ranks.or(of_grid).or(Some(1))
    }

    /// The ranks that are simulated.
    ///
    /// # Errors
    /// If they are too many.
    pub fn n_simulated(&self) -> Result<u32, Failure> {
        let n_ranks = self.n_unstarted().unwrap_or(1);
        let (most, what) = match self.simulate {
            Some(Simulation::Time) => (MOST_PLAYED, "in virtual time"),
            _ => (MOST_COUNTED, "are counted"),
        };
        let simulated = u32::try_from(n_ranks).ok();
        simulated.filter(|&n_ranks| n_ranks <= most).ok_or_else(|| {
            let text = format!("--ranks {n_ranks} (or --grid): at most {most} {what}");
            Failure::refused(text)
        })
    }

    /// Whether others have started this process as one of several ranks, as far as can be understood.
    fn is_among_others(&self) -> bool {
        self.rank.is_some() || !matches!(launched(), Ok(1))
    }

    /// Whether so many ranks would be started on this machine.
    pub fn would_be_here(&self, n_ranks: usize) -> bool {
        match self.transport {
            None | Some(Transport::Local) => n_ranks <= MOST_LOCAL,
            Some(Transport::Tcp) => n_ranks <= MOST_PROCESSES,
            Some(Transport::Mpi) => false,
        }
    }
}

/// How many ranks a launcher has started: one where there is none.
fn launched() -> Result<usize, dataflow::Error> {
    let launched = Launched::of(variable)?;
    Ok(launched.map_or(1, |launched| launched.n_ranks))
}

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
        let grid = numbers.ok_or("a grid is two positive numbers, like 2x3")?;
        // Ranks are counted in 32 bits.
        let n_ranks = grid.rows.checked_mul(grid.columns);
        match n_ranks.is_some_and(|n_ranks| u32::try_from(n_ranks).is_ok()) {
            true => Ok(grid),
            false => Err(format!("a grid has at most {} ranks", u32::MAX)),
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

/// A count that is not 0.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("must be at least 1".to_string()),
        Ok(number) => Ok(number),
        Err(error) => Err(match error.kind() {
            IntErrorKind::PosOverflow => format!("must be at most {}", usize::MAX),
            _ => "must be a whole number, 1 or more".to_string(),
        }),
    }
}

/// What a value would have to be that could not be read as a number; nothing of one that fails otherwise.
pub(super) fn number_meant(fault: &(dyn Error + 'static), value: &str) -> Option<&'static str> {
    if fault.is::<ParseFloatError>() {
        return Some("must be a number");
    }
    match fault.downcast_ref::<ParseIntError>()?.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => None,
        // A number with a sign that this flag does not know.
        _ if value.parse::<i128>().is_ok() => Some("must be a whole number, 0 or more"),
        _ => Some("must be a whole number"),
    }
}

/// What a number would have to be that is not in a range, as clap tells it: `1..=9`, or without an end.
pub(super) fn range_meant(fault: &str, value: &str) -> Option<String> {
    let (_, range) = fault.rsplit_once(" is not in ")?;
    let (least, most) = range.split_once("..")?;
    let most = most.strip_prefix('=').unwrap_or(most);
    let ends_with_its_type = [u32::MAX.into(), i64::MAX as u64, u64::MAX]
        .into_iter()
        .any(|largest| most == largest.to_string());
    Some(match (ends_with_its_type, value.starts_with('-')) {
        (false, _) => format!("must be {least} to {most}"),
        (true, false) if is_beyond(value, most) => format!("must be at most {most}"),
        (true, _) => format!("must be at least {least}"),
    })
}

/// Whether a number without a sign is larger than another, however large.
fn is_beyond(value: &str, most: &str) -> bool {
    let digits = value.trim_start_matches(['+', '0']);
    (digits.len(), digits) > (most.len(), most)
}

/// The same error, but of a number that no type holds with the range that its flag tells of a smaller one.
fn with_range(error: clap::Error, command: &mut clap::Command) -> clap::Error {
    use IntErrorKind::{NegOverflow, PosOverflow};
    let fault = error.source().and_then(|fault| fault.downcast_ref());
    let kind = fault.map(ParseIntError::kind);
    let [flag, value] =
        [ContextKind::InvalidArg, ContextKind::InvalidValue].map(|of| error.get(of));
    let (
        Some(PosOverflow | NegOverflow),
        Some(ContextValue::String(flag)),
        Some(ContextValue::String(value)),
    ) = (kind, flag, value)
    else {
        return error;
    };
    let largest = i64::MAX.to_string();
    let name = flag.split(' ').next().unwrap_or_default();
    let tried = command.try_get_matches_from_mut(["", &format!("{name}={largest}")]);
    let refused = tried.err();
    let allowed = match refused.as_ref().and_then(Error::source) {
        Some(range) => {
            let range = range.to_string().replace(&largest, value);
            range_meant(&range, value).unwrap_or(range)
        }
        None => format!("must be at most {}", u64::MAX),
    };
    let text = format!("invalid value '{value}' for '{flag}': {allowed}");
    command.error(clap::error::ErrorKind::ValueValidation, text)
}

impl<Own: Args> Settings<Own> {
    /// Reads a command line; its first word is the program's name.
    pub(super) fn read<W: Into<OsString>>(
        example: &Example,
        launched: bool,
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, clap::Error> {
        let words = words.into_iter().map(Into::into).collect();
        let (mut command, matches) = honoured(example, launched, Self::command(), words)?;
        let mut settings = Self::from_arg_matches(&matches)?;
        settings.flags.finish(example, &mut command, &matches)?;
        // A graph that is run on no rank is simulated.
        match settings.flags.beyond(example.runs && !launched) {
            Some(text) => Err(command.error(clap::error::ErrorKind::InvalidValue, text)),
            None => Ok(settings),
        }
    }
}

/// The flag `--simulate` of an example that does not know what its tasks cost.
fn without_a_clock(simulate: clap::Arg) -> clap::Arg {
    let counts = PossibleValuesParser::new(Simulation::Counts.to_possible_value());
    simulate
        .value_parser(counts.map(|_| Simulation::Counts))
        .help("Compute nothing: tell what --ranks ranks, up to 10,000,000, would do and send, and with --threads what they would hold")
}

/// The command line of an example, matched; every flag that is given is one that it honours.
fn honoured(
    example: &Example,
    launched: bool,
    command: clap::Command,
    words: Vec<OsString>,
) -> Result<(clap::Command, ArgMatches), clap::Error> {
    let honours = |flag: &str| {
        OF_ALL.contains(&flag)
            || launched && OF_RANKS.contains(&flag)
            || example.runs && OF_RUNS.contains(&flag)
            || example.runs && launched && OF_TRACES.contains(&flag)
            || example.honours.contains(&flag)
    };
    let shared = Flags::augment_args(clap::Command::new(""));
    let mut command = command
        .name(example.name)
        .about(example.about)
        .version(env!("CARGO_PKG_VERSION"));
    for flag in shared.get_arguments().map(|flag| flag.get_id().as_str()) {
        command = command.mut_arg(flag, |arg| arg.hide(!honours(flag)));
    }
    if !honours("costs") {
        command = command.mut_arg("simulate", without_a_clock);
    }
    if !honours("input") {
        let help = "Type of the numbers [default: f64]";
        command = command.mut_arg("precision", |arg| arg.help(help));
    }
    // No flag begins with a digit: what looks like a number is a value, and refused as one.
    command = command.mut_args(|arg| {
        let takes_one = arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_one)
    });
    let matches = command.try_get_matches_from_mut(words);
    let matches = matches.map_err(|error| with_range(error, &mut command))?;
    let given = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
    let flags = shared.get_arguments().map(|flag| flag.get_id().as_str());
    if let Some(flag) = flags.into_iter().find(|flag| given(flag) && !honours(flag)) {
        let text = format!("the example {} does not honour --{flag}", example.name);
        return Err(command.error(clap::error::ErrorKind::UnknownArgument, text));
    }
    Ok((command, matches))
}

impl Flags {
    /// Notes what the values alone do not tell, and refuses what does not go together, or not here.
    fn finish(
        &mut self,
        example: &Example,
        command: &mut clap::Command,
        matches: &ArgMatches,
    ) -> Result<(), clap::Error> {
        let given = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
        let timed = OF_TIME.into_iter().find(|flag| given(flag));
        if let (Some(Simulation::Counts), Some(flag)) = (self.simulate, timed) {
            let text = format!("--simulate counts has no clock, and --{flag} asks for one");
            return Err(command.error(clap::error::ErrorKind::ArgumentConflict, text));
        }
        let of_simulation = example.honours.contains(&"simulate");
        if given("costs") && of_simulation && self.simulate != Some(Simulation::Time) {
            let text = "--costs: only --simulate time asks what things cost";
            return Err(command.error(clap::error::ErrorKind::ArgumentConflict, text));
        }
        if self.check == Some(true) && self.simulate.is_some() {
            let text = "--check: nothing is computed that could be judged (--simulate)";
            return Err(command.error(clap::error::ErrorKind::ArgumentConflict, text));
        }
        if self.check == Some(true) && self.variant == Variant::Ideal {
            let text = "--check: what --variant ideal computes is wrong";
            return Err(command.error(clap::error::ErrorKind::ArgumentConflict, text));
        }
        self.outputs = Outputs::of(matches);
        if let Some(text) = self.outputs.shared() {
            return Err(command.error(clap::error::ErrorKind::ArgumentConflict, text));
        }
        self.says_policy = given("policy");
        self.says_bind = given("bind");
        self.says_repeat = given("repeat");
        self.says_seed = given("seed");
        self.agreed = given_alike(command, matches);
        if self.rank.is_some() && self.hosts.is_none() && self.peers.is_empty() {
            let text = "--rank: a rank of which hosts? Name them by --hosts FILE or --peers HOSTS";
            return Err(command.error(clap::error::ErrorKind::MissingRequiredArgument, text));
        }
        if self.rank.is_some() && self.transport.is_some_and(|other| other != Transport::Tcp) {
            let text = "--rank: ranks of --hosts or --peers talk over sockets (--transport tcp)";
            return Err(command.error(clap::error::ErrorKind::ArgumentConflict, text));
        }
        Ok(())
    }

    /// What of all this is more than can be done here; an example that `simulates` never does anything else.
    fn beyond(&self, simulates: bool) -> Option<String> {
        let beyond = match simulates || self.simulate.is_some() {
            true => self.beyond_simulation(),
            false => self.beyond_this_machine(),
        };
        beyond
            .or_else(|| self.beyond_this_build())
            .or_else(|| self.beyond_those_started())
    }

    /// More workers than there is room for, or ranks that are there: this machine's limits are no other's.
    fn beyond_simulation(&self) -> Option<String> {
        let threads = self.threads.unwrap_or(1);
        if threads > MOST_SIMULATED {
            return Some(format!(
                "--threads {threads}: at most {MOST_SIMULATED} are simulated"
            ));
        }
        self.simulate?;
        if let Err(refused) = self.n_simulated() {
            return Some(refused.message);
        }
        match launched() {
            Ok(1) => None,
            Ok(_) => Some("--simulate: one process counts for all ranks; start it alone".into()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// More threads or ranks than start within a second: a slip of the finger would not end.
    fn beyond_this_machine(&self) -> Option<String> {
        let Flags {
            threads,
            ranks,
            transport,
            ..
        } = *self;
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let most = MOST_THREADS.max(8 * processors);
        let threads = threads.or_else(|| said("DATAFLOW_THREADS")).unwrap_or(1);
        let ranks = ranks.unwrap_or(1);
        if threads > most {
            return Some(format!(
                "--threads {threads} (or DATAFLOW_THREADS): at most {most} on this machine"
            ));
        }
        if let Some(ranks) = self.n_unstarted() {
            return (ranks > MOST_PLANNED)
                .then(|| format!("--ranks {ranks}: --plan tells of at most {MOST_PLANNED}"));
        }
        match transport {
            // Ranks that somebody else starts are theirs to count.
            _ if self.is_among_others() => None,
            Some(Transport::Mpi) => None,
            Some(Transport::Tcp) if ranks > MOST_PROCESSES => Some(format!(
                "--ranks {ranks}: at most {MOST_PROCESSES} processes are started here"
            )),
            Some(Transport::Tcp) => None,
            None | Some(Transport::Local) if ranks > MOST_LOCAL => Some(format!(
                "--ranks {ranks}: at most {MOST_LOCAL} are threads of one process \
                 (with --transport tcp up to {MOST_PROCESSES} processes are started)"
            )),
            None | Some(Transport::Local) if ranks * threads > most => Some(format!(
                "--ranks {ranks} --threads {threads}: at most {most} threads in one process"
            )),
            None | Some(Transport::Local) => None,
        }
    }

    /// What was asked for that this build has no code for.
    fn beyond_this_build(&self) -> Option<String> {
        let Flags {
            transport,
            grid,
            backend,
            ..
        } = self;
        // Whatever else is wrong with the ranks is told when they are started.
        let n_ranks = || match self.n_unstarted() {
            Some(n_ranks) => Ok(n_ranks),
            None => self
                .builder()
                .and_then(|builder| Ok(builder.count_ranks()?)),
        };
        if let Some(grid) = grid
            && let Ok(n_ranks) = n_ranks()
            && grid.rows * grid.columns != n_ranks
        {
            return Some(format!(
                "--grid {grid} needs {}, {} (--ranks)",
                counted(grid.rows * grid.columns, "rank"),
                there_are(n_ranks, "rank")
            ));
        }
        let is_run = self.n_unstarted().is_none();
        if is_run && *transport == Some(Transport::Mpi) && !dataflow::Transport::Mpi.is_built_in() {
            return Some(
                "--transport mpi: this program was built without the feature `mpi`".into(),
            );
        }
        if *backend == Backend::Openblas
            && "openblas"
                .parse::<dataflow::linalg::kernel::Backend>()
                .is_err()
        {
            return Some(
                "--backend openblas: this program was built without the feature `openblas`".into(),
            );
        }
        None
    }

    /// Other ranks than a launcher or the hosts say that there are.
    fn beyond_those_started(&self) -> Option<String> {
        let ranks = self.ranks.filter(|_| self.n_unstarted().is_none())?;
        let builder = self.builder().ok()?;
        let refused = builder.count_ranks().err()?;
        let is_of_ranks = refused.kind() == dataflow::Kind::WrongSettings;
        is_of_ranks.then(|| format!("--ranks {ranks}: {refused}"))
    }

    /// The runtimes that were asked for.
    ///
    /// Fails if the ranks' hosts cannot be read, or as [`tuned`](Self::tuned).
    pub(super) fn builder(&self) -> Result<RuntimeBuilder, Failure> {
        if self.simulate.is_some() {
            // It does not count here, but is understood or refused as everywhere.
            let _of_this_machine = self.tuned()?;
            // Nothing is run on it.
            let alone = Runtime::builder().ranks(1).threads(1);
            let alone = alone.policy(self.policy.clone());
            return Ok(alone.transport(dataflow::Transport::Local));
        }
        if let Some(n_ranks) = self.n_unstarted() {
            return self.planner(n_ranks);
        }
        let mut builder = self.tuned()?;
        if let Some(ranks) = self.ranks {
            builder = builder.ranks(ranks);
        }
        if let Some(threads) = self.threads {
            builder = builder.threads(threads);
        }
        if self.records() {
            builder = builder.trace(ROOM);
        }
        if let Some(transport) = self.transport {
            builder = builder.transport(match transport {
                Transport::Local => dataflow::Transport::Local,
                Transport::Mpi => dataflow::Transport::Mpi,
                Transport::Tcp => dataflow::Transport::Tcp,
            });
        }
        Ok(match self.seat()? {
            Some(seat) => builder.seat(seat),
            None => builder,
        })
    }

    /// One rank that tells what each of so many needs: it has as many workers as each of them would have.
    fn planner(&self, n_ranks: usize) -> Result<RuntimeBuilder, Failure> {
        let (threads, bind) = self.workers()?;
        let n_ranks = match self.would_be_here(n_ranks) {
            true => n_ranks,
            false => 1,
        };
        let threads = match threads {
            Some(threads) => threads,
            None => {
                let first = LocalRank { rank: 0, n_ranks };
                bind.capacity(&part(Topology::discover()?, None, first))
            }
        };
        let alone = self.tuned()?.ranks(1).threads(threads);
        Ok(alone.transport(dataflow::Transport::Local))
    }

    /// Runtimes that work as was asked for, here or else in the environment, however many they are and
    /// wherever.
    ///
    /// # Errors
    /// If the environment says what cannot be understood: a bad argument, too.
    pub fn tuned(&self) -> Result<RuntimeBuilder, Failure> {
        let mut builder = RuntimeBuilder::from_env().map_err(wrong_variable)?;
        if self.says_bind {
            builder = builder.bind(self.bound_to());
        }
        if self.says_policy {
            builder = builder.policy(self.policy.clone());
        }
        let builder = builder.silence(Duration::from_secs(self.silence));
        Ok(match self.drive {
            None => builder,
            Some(Drive::Dedicated) => builder.drive(dataflow::mpi::Drive::Dedicated),
            Some(Drive::Workers) => builder.drive(dataflow::mpi::Drive::Workers),
        })
    }

    /// Workers of a runtime here, and what they are pinned to: as was asked for, here or else in the
    /// environment.
    ///
    /// # Errors
    /// As [`tuned`](Self::tuned).
    pub fn workers(&self) -> Result<(Option<usize>, Bind), Failure> {
        // So what the environment says is understood.
        let _tuned = self.tuned()?;
        let bind = match self.says_bind {
            true => None,
            false => said("DATAFLOW_BIND"),
        };
        let threads = self.threads.or_else(|| said("DATAFLOW_THREADS"));
        Ok((threads, bind.unwrap_or_else(|| self.bound_to())))
    }

    /// Whether the measured run is to be recorded.
    pub(super) fn records(&self) -> bool {
        self.trace.is_some() || self.dot.is_some()
    }

    /// How often something is done: what was asked for, or the example's own.
    pub fn repeat_or(&self, own: usize) -> usize {
        match self.says_repeat {
            true => self.repeat,
            false => own,
        }
    }

    /// Refuses a seed where nothing is drawn, for this reason. In virtual time there always is something.
    pub fn expect_no_seed(&self, why: &str) -> Result<(), Failure> {
        match self.says_seed && self.simulate != Some(Simulation::Time) {
            true => Err(Failure::refused(format!("--seed: {why}"))),
            false => Ok(()),
        }
    }

    /// Fails if a check was asked for of a result that nothing can judge, for this reason.
    pub fn expect_no_check(&self, why: &str) -> Result<(), Failure> {
        match self.check {
            Some(true) => Err(Failure::new("not_verified", format!("--check: {why}"))),
            _ => Ok(()),
        }
    }

    /// Which rank this process was to become, as far as it was told.
    pub(super) fn own_rank(&self) -> Rank {
        let seat = || Seat::rank_of(variable);
        let launched = || Launched::rank_of(variable);
        let rank = self.rank.map(Rank);
        rank.or_else(seat).or_else(launched).unwrap_or_default()
    }

    /// This process's seat among hosts that were named; the token is in the environment.
    fn seat(&self) -> Result<Option<Seat>, Failure> {
        let Some(rank) = self.rank else {
            return Ok(None);
        };
        let hosts = match &self.hosts {
            None => self.peers.clone(),
            Some(file) => {
                let unread = |fault| Failure::input_unreadable(file, fault);
                Seat::hosts(&super::text_of(file).map_err(unread)?)
            }
        };
        let token = Seat::token(variable).map_err(wrong_variable)?;
        let mut seat =
            Seat::among(&hosts, Rank(rank), token).map_err(|error| match &self.hosts {
                Some(file) => Failure::from(error).about(file),
                None => error.into(),
            })?;
        if let Some(listen) = self.listen {
            seat.listen = vec![listen];
        }
        seat.ports = match &self.ports {
            Some(ports) => Some(ports.clone()),
            None => Seat::ports(variable).map_err(wrong_variable)?,
        };
        Ok(Some(seat))
    }

    /// The grid that was asked for, or the squarest of so many ranks, or of those that are not started.
    pub fn grid_of(&self, n_ranks: usize) -> Grid {
        let n_ranks = self.n_unstarted().unwrap_or(n_ranks);
        let rows = (1..=n_ranks.isqrt()).rev();
        let rows = rows.into_iter().find(|rows| n_ranks.is_multiple_of(*rows));
        let rows = rows.unwrap_or(1);
        let columns = n_ranks / rows;
        self.grid.unwrap_or(Grid { rows, columns })
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

/// A variable of the environment. One that is not Unicode has its wrong places marked, so that whoever reads
/// it refuses it by name: left out, it would be one that is not set.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// What is wrong with a variable that stands for a flag: a bad argument, as of the flag.
fn wrong_variable(error: dataflow::Error) -> Failure {
    Failure::refused(error.to_string())
}

/// What a variable of the environment says, if it says something.
fn said<T: FromStr>(name: &str) -> Option<T> {
    variable(name)?.parse().ok()
}

/// A file that a trace can be written to.
fn trace_file(path: PathBuf) -> Result<PathBuf, &'static str> {
    match dataflow::trace::Format::of(&path) {
        Some(_) => Ok(path),
        None => Err("its extension must be pftrace, json, prv, paje, svg or html"),
    }
}

fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    Seat::port_range(text).ok_or_else(|| "a range like 4001-4100 is needed".into())
}

fn listening_address(text: &str) -> Result<SocketAddr, String> {
    let needed = "an address of this host and a port are needed, like 10.0.0.2:4001";
    text.parse().map_err(|_| needed.into())
}

/// The flags that ranks share, with what stands behind them on the command line or by default.
fn given_alike(command: &clap::Command, matches: &clap::ArgMatches) -> Vec<(String, String)> {
    let flags = command.get_arguments().map(|flag| flag.get_id().as_str());
    let shared = flags.filter(|flag| !OF_ONE_RANK.contains(flag));
    let value = |flag: &str| match matches.try_get_raw(flag) {
        Ok(Some(words)) => {
            let words = words.map(|word| word.to_string_lossy());
            words.collect::<Vec<_>>().join(" ")
        }
        _ => "(not given)".to_string(),
    };
    shared
        .map(|flag| (format!("--{flag}"), value(flag)))
        .collect()
}

impl<Own: Args> std::ops::Deref for Settings<Own> {
    type Target = Flags;
    fn deref(&self) -> &Flags {
        &self.flags
    }
}
