//! Costs: what kernels, tasks and messages take, as a file that `calibrate` writes and people read.
//!
//! A file is one JSON object; times are nanoseconds.
//!
//! ```json
//! {
//!   "about": "anything, for people",
//!   "cores": 2,
//!   "numa": { "cores": [1, 1], "distances": [[10, 21], [21, 10]], "remote_nanoseconds_per_byte": 0.05 },
//!   "kernels": [
//!     { "graph": "cholesky", "class": "Gemm", "precision": "f64", "nb": 192, "n": 1536,
//!       "workers": 1, "nanoseconds": 480000, "fixed_nanoseconds": 20000, "flops": 14155776,
//!       "spread": 0.02, "cold_nanoseconds": 700000 },
//!     { "gflops": 8.0 }
//!   ],
//!   "runtime": { "task_nanoseconds": 150, "edge_nanoseconds": 60, "run_nanoseconds": 50000 },
//!   "networks": {
//!     "local": { "latency_nanoseconds": 500, "bytes_per_second": 1e10, "send_nanoseconds": 400,
//!                "receive_nanoseconds": 400, "run_nanoseconds": 200000, "ranks_on_a_host": 2 }
//!   }
//! }
//! ```
//!
//! # Law
//! - A kernel is a line with `nanoseconds` of a task of so many `flops`, or with a rate, `gflops`. What it
//!   does not say (graph, class, precision, nb, n, ranks, workers) it leaves open. Of the lines that fit a task count
//!   those that say most of graph, class and precision; of these, those with the most `workers` that are not
//!   more than work on the host, and then with `ranks` likewise; between their two nearest `nb` a rate is interpolated, beyond them it stays,
//!   and so it is with `n`.
//! - `n` is the order of the matrix whose tiles a host holds: where there are several, of one as large as a
//!   host's part. What fits into its caches is faster.
//! - A task of other `flops` than those of the line takes its time in proportion, but for the
//!   `fixed_nanoseconds` of it; without `flops` all take as long.
//! - `numa` says how many cores each NUMA node of a host has; the distances are those of SLIT, 10 within a
//!   node, and without them 20 between two. A byte that a task reads from another node takes longer by
//!   `remote_nanoseconds_per_byte` for every 10 beyond. Workers with patience look again every
//!   `round_nanoseconds` (1000). Without it a rank has one queue, and all memory is equally near.
//! - `spread` is half the range between the quartiles, as a share of the median; times are drawn with it.
//! - A host has at most 65536 cores.
//! - No time is longer than a day, or 1000 ns for a byte from another node, and bytes travel at 1000 a
//!   second at least: ranks that wait in virtual time look at their clocks every second, and a run ends.
//! - What is unknown, missing, negative or too much is refused, with its place in the file.

use dataflow::numa::{Policy, Topology};
use dataflow::simulate::{self, Cluster, MessageCosts, Weather};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostFile {
    /// For people.
    #[serde(default)]
    pub about: Value,
    /// Cores of a host; where `numa` does not say it unknown if absent.
    #[serde(
        default,
        deserialize_with = "some_host",
        skip_serializing_if = "Option::is_none"
    )]
    pub cores: Option<usize>,
    /// What a host has inside; nothing is known of it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<Numa>,
    pub kernels: Vec<Kernel>,
    #[serde(default)]
    pub runtime: Overhead,
    /// By the name of the transport.
    #[serde(default)]
    pub networks: BTreeMap<String, Network>,
}

/// What a task's body takes; see the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Line")]
pub struct Kernel {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nb: Option<usize>,
    /// Order of the matrix on a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<usize>,
    /// On the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// Of the host, of all its ranks, at work at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    #[serde(flatten)]
    pub takes: Takes,
    pub spread: f64,
    /// What the first on each worker takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_nanoseconds: Option<f64>,
}

/// How a line of the file says what a task takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Takes {
    /// Of tasks of so many operations, if they have any; a part of it is fixed.
    Time {
        nanoseconds: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        fixed_nanoseconds: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        flops: Option<f64>,
    },
    /// 10⁹ operations a second.
    Rate { gflops: f64 },
}

impl Default for Takes {
    fn default() -> Self {
        Takes::Time {
            nanoseconds: 0.0,
            fixed_nanoseconds: None,
            flops: None,
        }
    }
}

/// A kernel as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    graph: Option<String>,
    class: Option<String>,
    precision: Option<String>,
    #[serde(default, deserialize_with = "some_positive_count")]
    nb: Option<usize>,
    #[serde(default, deserialize_with = "some_positive_count")]
    n: Option<usize>,
    #[serde(default, deserialize_with = "some_positive_count")]
    ranks: Option<usize>,
    #[serde(default, deserialize_with = "some_positive_count")]
    workers: Option<usize>,
    #[serde(default, deserialize_with = "some_time")]
    nanoseconds: Option<f64>,
    #[serde(default, deserialize_with = "some_time")]
    fixed_nanoseconds: Option<f64>,
    #[serde(default, deserialize_with = "some_positive")]
    flops: Option<f64>,
    #[serde(default, deserialize_with = "some_positive")]
    gflops: Option<f64>,
    #[serde(default, deserialize_with = "not_negative")]
    spread: f64,
    #[serde(default, deserialize_with = "some_time")]
    cold_nanoseconds: Option<f64>,
}

impl TryFrom<Line> for Kernel {
    type Error = &'static str;

    fn try_from(line: Line) -> Result<Self, &'static str> {
        let takes = match (line.nanoseconds, line.gflops) {
            (Some(nanoseconds), None) => Takes::Time {
                nanoseconds,
                fixed_nanoseconds: line.fixed_nanoseconds,
                flops: line.flops,
            },
            (None, Some(gflops)) if line.flops.is_none() => Takes::Rate { gflops },
            _ => {
                return Err(
                    "a kernel has either `nanoseconds`, with or without `flops`, or `gflops`",
                );
            }
        };
        let whole = line.nanoseconds.filter(|_| line.flops.is_some());
        if line.fixed_nanoseconds > whole.or(Some(0.0)) {
            return Err("`fixed_nanoseconds` are a part of the `nanoseconds` of so many `flops`");
        }
        if line.cold_nanoseconds.is_some() && !matches!(takes, Takes::Time { .. }) {
            return Err("`cold_nanoseconds` only goes with `nanoseconds`");
        }
        Ok(Kernel {
            graph: line.graph,
            class: line.class,
            precision: line.precision,
            nb: line.nb,
            n: line.n,
            ranks: line.ranks,
            workers: line.workers,
            takes,
            spread: line.spread,
            cold_nanoseconds: line.cold_nanoseconds,
        })
    }
}

/// What the runtime itself takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    #[serde(default, deserialize_with = "time")]
    pub task_nanoseconds: f64,
    /// Of each edge that leaves a task.
    #[serde(default, deserialize_with = "time")]
    pub edge_nanoseconds: f64,
    /// Of a run on one rank, before its first task and after its last.
    #[serde(default, deserialize_with = "time")]
    pub run_nanoseconds: f64,
}

/// The NUMA nodes of a host; see the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numa {
    #[serde(deserialize_with = "some_cores")]
    pub cores: Vec<usize>,
    #[serde(
        default,
        deserialize_with = "some_distances",
        skip_serializing_if = "Option::is_none"
    )]
    pub distances: Option<Vec<Vec<u32>>>,
    #[serde(default, deserialize_with = "time_of_a_byte")]
    pub remote_nanoseconds_per_byte: f64,
    #[serde(default = "microsecond", deserialize_with = "positive_time")]
    pub round_nanoseconds: f64,
}

impl Numa {
    /// What one of so many ranks of a host has of it, under a policy: an equal part of the nodes, or of one
    /// node.
    ///
    /// # Errors
    /// If there are no such parts or they are not alike, or the distances are not as many as nodes.
    pub fn of_rank(&self, ranks: usize, policy: Policy) -> Result<simulate::Numa, WrongCosts> {
        let nodes = self.cores.len();
        let rows = |distances: &Vec<Vec<u32>>| {
            distances.len() == nodes && distances.iter().all(|row| row.len() == nodes)
        };
        if !self.distances.as_ref().is_none_or(rows) {
            let text = format!("numa.distances: {nodes} NUMA nodes have as many rows and columns");
            return Err(WrongCosts(text));
        }
        let of_a_part = match (nodes % ranks, ranks % nodes) {
            (0, _) => nodes / ranks,
            (_, 0) => 1,
            _ => {
                return Err(WrongCosts(format!(
                    "numa: {ranks} ranks of a host have no equal parts of {nodes} NUMA nodes"
                )));
            }
        };
        let distance = |from: usize, to: usize| match &self.distances {
            Some(distances) => distances[from][to],
            None if from == to => 10,
            None => 20,
        };
        let is_as_in_the_first = |node: usize| {
            let (place, first) = (node % of_a_part, node - node % of_a_part);
            let is_as_far = |to| distance(node, first + to) == distance(place, to);
            self.cores[node] == self.cores[place] && (0..of_a_part).all(is_as_far)
        };
        if !(0..nodes).all(is_as_in_the_first) {
            return Err(WrongCosts(format!(
                "numa: {ranks} ranks of a host have no equal parts of {nodes} NUMA nodes that are not alike"
            )));
        }
        let mut cores = self.cores[..of_a_part].to_vec();
        if ranks > nodes {
            cores[0] = (cores[0] / (ranks / nodes)).max(1);
        }
        Ok(simulate::Numa {
            policy,
            remote_byte: self.remote_nanoseconds_per_byte * 1e-9,
            round: Duration::from_nanos(self.round_nanoseconds.round().max(1.0) as u64),
            ..simulate::Numa::of(Topology::made_of(&cores, distance))
        })
    }
}

/// What messages between two ranks take: LogGP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// L.
    #[serde(deserialize_with = "time")]
    pub latency_nanoseconds: f64,
    /// 1 ÷ G.
    #[serde(deserialize_with = "bytes_a_second")]
    pub bytes_per_second: f64,
    /// o of the sender.
    #[serde(default, deserialize_with = "time")]
    pub send_nanoseconds: f64,
    /// o of the receiver.
    #[serde(default, deserialize_with = "time")]
    pub receive_nanoseconds: f64,
    /// How long who waits for messages looks before it falls asleep, and how long it then takes to get up.
    #[serde(default, deserialize_with = "time")]
    pub awake_nanoseconds: f64,
    #[serde(default, deserialize_with = "time")]
    pub waking_nanoseconds: f64,
    /// Of a task, beside what it takes on one rank: its worker looks for messages.
    #[serde(default, deserialize_with = "time")]
    pub task_nanoseconds: f64,
    /// Of a run on several ranks, before its first task and after its last, beside its messages.
    #[serde(default, deserialize_with = "time")]
    pub run_nanoseconds: f64,
    /// g.
    #[serde(default, deserialize_with = "time")]
    pub gap_nanoseconds: f64,
    /// At which packets are copied at both ends; none if absent.
    #[serde(
        default,
        deserialize_with = "some_bytes_a_second",
        skip_serializing_if = "Option::is_none"
    )]
    pub copied_bytes_per_second: Option<f64>,
    /// At which data are copied at both ends, where processors carry them; none if absent.
    #[serde(
        default,
        deserialize_with = "some_bytes_a_second",
        skip_serializing_if = "Option::is_none"
    )]
    pub data_copied_bytes_per_second: Option<f64>,
    /// How many ranks share the cores of a host, if there are as many.
    #[serde(default = "one", deserialize_with = "positive_count")]
    pub ranks_on_a_host: usize,
}

/// A file of costs that is none, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongCosts(pub String);

impl fmt::Display for WrongCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl CostFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is no such file: which key is wrong, in which line, and what is allowed.
    pub fn read(path: &Path) -> Result<CostFile, WrongCosts> {
        let wrong = |error: String| WrongCosts(format!("{}: {error}", path.display()));
        let text = super::text_of(path).map_err(|error| wrong(error.to_string()))?;
        CostFile::parse(&text).map_err(|WrongCosts(error)| wrong(error))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(text: &str) -> Result<CostFile, WrongCosts> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            let text =
                "file is empty (must be an object of JSON, as the example calibrate writes it)";
            return Err(WrongCosts(text.into()));
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = serde_path_to_error::deserialize(&mut reader);
        let costs = read.map_err(|error| WrongCosts(error.to_string()))?;
        let ended = reader.end().map(|()| costs);
        ended.map_err(|error| WrongCosts(error.to_string()))
    }

    /// Writes a file that [`read`](Self::read) reads.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        dataflow::trace::replace(path, |mut file| file.write_all(text.as_bytes()))
    }

    /// How many cores a host has, if that is known: those of its NUMA nodes, if it has any.
    pub fn cores_of_a_host(&self) -> Option<usize> {
        let of_nodes = self.numa.as_ref().map(|numa| numa.cores.iter().sum());
        of_nodes.or(self.cores)
    }

    /// Adds kernels; a line about the same as one of them goes.
    pub fn add(&mut self, kernels: impl Iterator<Item = Kernel>) {
        let kernels: Vec<Kernel> = kernels.collect();
        let is_new = |old: &Kernel| kernels.iter().all(|new| new.is_about() != old.is_about());
        self.kernels.retain(is_new);
        self.kernels.extend(kernels);
    }

    /// What tasks of a class take.
    ///
    /// # Errors
    /// If no line fits.
    pub fn pace(&self, of: &Asked<'_>) -> Result<Pace, WrongCosts> {
        let fitting = self.kernels.iter().filter(|kernel| kernel.fits(of));
        let most = fitting.clone().map(Kernel::says).max();
        let mut fitting: Vec<&Kernel> = fitting
            .filter(|kernel| Some(kernel.says()) == most)
            .collect();
        keep_nearest(&mut fitting, |line| line.workers.unwrap_or(1), of.workers);
        keep_nearest(&mut fitting, |line| line.ranks.unwrap_or(1), of.ranks);
        if fitting.is_empty() {
            return Err(WrongCosts(format!(
                "no kernel is for {} of {} in {} (calibrate measures those of its --routines)",
                of.class, of.graph, of.precision
            )));
        }
        let of_one = |lines: &[&Kernel]| lines[0].pace();
        let of_matrix = |lines: &[&Kernel]| between(lines, |line| line.n, of.n, &of_one);
        Ok(between(&fitting, |line| line.nb, of.nb, &of_matrix))
    }
}

/// Keeps the lines with the most of something that is not more than there is, or else with the least.
fn keep_nearest(lines: &mut Vec<&Kernel>, of: fn(&Kernel) -> usize, there_are: usize) {
    let counts = || lines.iter().map(|line| of(line));
    let most = counts().filter(|&count| count <= there_are).max();
    let nearest = most.or(counts().min());
    lines.retain(|line| Some(of(line)) == nearest);
}

/// What lines say at a value of one of their keys, if `pace` is what those of one value say: between the
/// nearest below and above in proportion, beyond them as they. A line that leaves the key open is there.
fn between(
    lines: &[&Kernel],
    key: fn(&Kernel) -> Option<usize>,
    at: usize,
    pace: &dyn Fn(&[&Kernel]) -> Pace,
) -> Pace {
    let values = || lines.iter().map(|line| key(line).unwrap_or(at));
    let below = values().filter(|&value| value <= at).max();
    let above = values().filter(|&value| value >= at).min();
    let of = |value| {
        let has = |line: &&Kernel| key(line).unwrap_or(at) == value;
        let lines: Vec<&Kernel> = lines.iter().copied().filter(has).collect();
        pace(&lines)
    };
    match (below, above) {
        (Some(from), Some(to)) if from < to => {
            let share = (at - from) as f64 / (to - from) as f64;
            of(from).mixed(of(to), share)
        }
        (Some(one), _) | (None, Some(one)) => of(one),
        (None, None) => Pace::default(),
    }
}

/// Whose pace is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub graph: &'a str,
    pub class: &'a str,
    pub precision: &'a str,
    pub nb: usize,
    /// Order of the matrix on a host.
    pub n: usize,
    /// Ranks of its host, and their workers.
    pub ranks: usize,
    pub workers: usize,
}

/// What tasks of a class take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Nanoseconds of each task, and of each of its operations.
    pub fixed: f64,
    pub per_flop: f64,
    /// Half the range between the quartiles, as a share of the median.
    pub spread: f64,
    /// How many times as long the first takes.
    pub cold: f64,
}

impl Pace {
    /// What a task of so many operations takes; `drawn` are bits by chance, `None` for the median.
    pub fn time(&self, flops: f64, drawn: Option<u64>, is_cold: bool) -> Duration {
        let median = self.fixed + self.per_flop * flops;
        let times = match (is_cold, drawn) {
            (true, _) => self.cold,
            (false, Some(bits)) => 1.0 + self.spread / QUARTILE * normal(bits),
            (false, None) => 1.0,
        };
        Duration::from_nanos((median * times.max(SHORTEST)).round() as u64)
    }

    /// Between two, with such a share of the second.
    fn mixed(self, other: Pace, share: f64) -> Pace {
        let mix = |of: fn(&Pace) -> f64| (1.0 - share) * of(&self) + share * of(&other);
        Pace {
            fixed: mix(|pace| pace.fixed),
            per_flop: mix(|pace| pace.per_flop),
            spread: mix(|pace| pace.spread),
            cold: mix(|pace| pace.cold),
        }
    }
}

/// Half the range between the quartiles of normal numbers, in standard deviations.
const QUARTILE: f64 = 0.6745;

/// No task takes less than this share of the median.
const SHORTEST: f64 = 0.2;

/// A number of mean 0 and variance 1, nearly normal: four uniform ones added up. Without functions that
/// differ between machines.
fn normal(bits: u64) -> f64 {
    let quarters = (0..4).map(|quarter| (bits >> (16 * quarter) & 0xffff) as f64);
    (quarters.sum::<f64>() / 65_536.0 - 2.0) * 1.732_050_807_568_877_2
}

impl Kernel {
    /// Whose time it says.
    fn is_about(&self) -> impl PartialEq + '_ {
        let names = (&self.graph, &self.class, &self.precision);
        (names, self.nb, self.n, self.ranks, self.workers)
    }

    /// Whether it may be about that.
    fn fits(&self, of: &Asked<'_>) -> bool {
        let fits = |own: &Option<String>, asked: &str| own.as_ref().is_none_or(|own| own == asked);
        fits(&self.graph, of.graph)
            && fits(&self.class, of.class)
            && fits(&self.precision, of.precision)
    }

    /// How much it says of graph, class and precision.
    fn says(&self) -> usize {
        let said = [&self.graph, &self.class, &self.precision];
        said.iter().filter(|said| said.is_some()).count()
    }

    fn pace(&self) -> Pace {
        let (fixed, per_flop, whole) = match self.takes {
            Takes::Rate { gflops } => (0.0, 1.0 / gflops, 0.0),
            Takes::Time {
                nanoseconds,
                fixed_nanoseconds,
                flops,
            } => match (flops, fixed_nanoseconds.unwrap_or(0.0)) {
                (Some(flops), fixed) => (fixed, (nanoseconds - fixed) / flops, nanoseconds),
                (None, _) => (nanoseconds, 0.0, nanoseconds),
            },
        };
        let cold = self.cold_nanoseconds.filter(|_| whole > 0.0);
        Pace {
            fixed,
            per_flop,
            spread: self.spread,
            cold: cold.map_or(1.0, |cold| cold / whole),
        }
    }
}

impl Network {
    /// The same as weather, each rank with ways of its own.
    pub fn weather(&self, seed: u64) -> Weather {
        let time = |nanoseconds: f64| Duration::from_nanos(nanoseconds.round() as u64);
        Weather {
            seed,
            latency: time(self.latency_nanoseconds),
            bytes_per_second: self.bytes_per_second,
            awake: time(self.awake_nanoseconds),
            waking: time(self.waking_nanoseconds),
            cluster: Cluster {
                costs: MessageCosts {
                    send: time(self.send_nanoseconds),
                    receive: time(self.receive_nanoseconds),
                    gap: time(self.gap_nanoseconds),
                    copied_bytes_per_second: self.copied_bytes_per_second.unwrap_or(f64::INFINITY),
                    data_copied_bytes_per_second: self
                        .data_copied_bytes_per_second
                        .unwrap_or(f64::INFINITY),
                },
                ..Cluster::default()
            },
            deadline: Duration::MAX,
            ..Weather::default()
        }
    }
}

/// A number that is allowed, or why it is not.
fn allowed<E: serde::de::Error>(number: f64, is_it: bool, what: &str) -> Result<f64, E> {
    match is_it {
        true => Ok(number),
        false => Err(E::custom(format!("{number} (must be {what})"))),
    }
}

/// What may be absent, or null; whether a value is allowed, `of` says.
fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
    of: fn(T) -> Result<T, D::Error>,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)?.map(of).transpose()
}

fn not_negative<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(from)?;
    allowed(number, number >= 0.0, "a number of at least 0")
}

/// The longest time that a file says, and that a task takes: nanoseconds.
pub const DAY: f64 = 8.64e13;

fn no_more_than_a_day<E: serde::de::Error>(number: f64) -> Result<f64, E> {
    let is_one = (0.0..=DAY).contains(&number);
    allowed(number, is_one, "a number from 0 to 8.64e13, a day")
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    no_more_than_a_day(f64::deserialize(from)?)
}

fn positive_time<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(from)?;
    let is_one = number > 0.0 && number <= DAY;
    allowed(number, is_one, "a number above 0, to 8.64e13, a day")
}

fn some_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    some(from, no_more_than_a_day)
}

fn time_of_a_byte<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(from)?;
    let is_one = (0.0..=1000.0).contains(&number);
    allowed(number, is_one, "a number from 0 to 1000")
}

fn at_least_1000<E: serde::de::Error>(number: f64) -> Result<f64, E> {
    allowed(number, number >= 1000.0, "a number of at least 1000")
}

fn bytes_a_second<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    at_least_1000(f64::deserialize(from)?)
}

fn some_bytes_a_second<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    some(from, at_least_1000)
}

fn some_positive<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    some(from, |number| {
        allowed(number, number > 0.0, "a number above 0")
    })
}

fn not_zero<E: serde::de::Error>(number: usize) -> Result<usize, E> {
    allowed(number as f64, number > 0, "a whole number above 0").map(|_| number)
}

fn positive_count<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    not_zero(usize::deserialize(from)?)
}

fn some_positive_count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    some(from, not_zero)
}

/// Cores of a host: each has a worker, and a queue.
const MOST_CORES: usize = 1 << 16;
/// NUMA nodes of a host: there is a distance between any two.
const MOST_NODES: usize = 1 << 10;

fn some_host<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    some(from, host)
}

/// So many cores, if a host may have them.
fn host<E: serde::de::Error>(cores: usize) -> Result<usize, E> {
    match (1..=MOST_CORES).contains(&cores) {
        true => Ok(cores),
        false => Err(E::custom(format!(
            "{cores} cores of a host (must be 1 to {MOST_CORES})"
        ))),
    }
}

fn some_cores<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<usize>, D::Error> {
    let cores = Vec::<usize>::deserialize(from)?;
    if cores.contains(&0) || !(1..=MOST_NODES).contains(&cores.len()) {
        return Err(serde::de::Error::custom(format!(
            "each NUMA node has at least one core, and a host 1 to {MOST_NODES} NUMA nodes"
        )));
    }
    let all = cores
        .iter()
        .fold(0, |all: usize, own| all.saturating_add(*own));
    host(all).map(|_| cores)
}

fn some_distances<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Vec<u32>>>, D::Error> {
    some(from, |rows: Vec<Vec<u32>>| {
        let farthest = rows.iter().flatten().max().copied().unwrap_or(0);
        let what = "a number from 0 to 255, as in SLIT";
        allowed(farthest.into(), farthest <= 255, what).map(|_| rows)
    })
}

fn microsecond() -> f64 {
    1000.0
}

fn one() -> usize {
    1
}
