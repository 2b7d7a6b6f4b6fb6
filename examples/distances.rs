//! How far NUMA nodes really are from each other: latency and bandwidth of every pair, and a
//! topology file with distances that follow from them.
//!
//! Firmware's distances are often defaults. `--xml FILE` writes what was measured in their place
//! (feature `hwloc`); `HWLOC_XMLFILE=FILE` then makes every program built with that feature use it.
//!
//! Run it on a machine that does nothing else:
//!
//! ```text
//! cargo run --release --features hwloc --example distances -- --xml machine.xml --repeat 5
//! ```

#[path = "distances/pairs.rs"]
mod pairs;

use common::cli::{self, Failure, Outcome, Settings};
use dataflow::numa::Topology;
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLE: cli::Example = cli::Example {
    name: "distances",
    about: "Measures latency and bandwidth between NUMA nodes",
    runs: false,
    honours: &["seed", "repeat"],
};

#[derive(clap::Args)]
#[command(
    mut_arg("repeat", |repeat| repeat.help("Measure each pair so many times and report the medians")),
    mut_arg("seed", |seed| seed.help("Seed of the order in which memory is walked through"))
)]
struct Own {
    /// Bytes to walk through on each node, in MiB [default: twice the largest cache, 64 to 512]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(2..=pairs::MOST_MEBIBYTES))]
    mebibytes: Option<u64>,
    /// Latencies closer than this share are the same distance
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    tolerance: f64,
    /// Write a topology with the measured distances
    #[arg(long, value_name = "FILE")]
    xml: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    cli::run_alone(&EXAMPLE, show)
}

fn show(settings: &Settings<Own>, outcome: &mut Outcome) -> Result<(), Failure> {
    let own = &settings.own;
    own.expect_sense()?;
    let topology = Topology::discover()?;
    let mebibytes = own.mebibytes;
    let mebibytes = mebibytes.unwrap_or_else(|| default_mebibytes(&topology));
    let bytes = (mebibytes << 20) as usize;
    pairs::expect_room(bytes).map_err(|error| {
        Failure::new("does_not_fit", format!("--mebibytes {mebibytes}: {error}"))
    })?;
    let measured = pairs::measure(&topology, bytes, settings.repeat, settings.seed)?;
    let distances = corrected(&measured.nanoseconds, own.tolerance);
    outcome.seed = Some(settings.seed);
    tell(&topology, &measured, &distances, outcome);
    match &own.xml {
        Some(file) => write(&distances, file, outcome),
        None => Ok(()),
    }
}

impl Own {
    /// Refuses a tolerance that is none, and a file that this program cannot write.
    fn expect_sense(&self) -> Result<(), Failure> {
        if !(self.tolerance >= 0.0 && self.tolerance.is_finite()) {
            let text = format!("--tolerance {} is no share (0 or more)", self.tolerance);
            return Err(Failure::refused(text));
        }
        if self.xml.is_some() && !cfg!(feature = "hwloc") {
            let text = "--xml needs the feature `hwloc`, which this program was built without";
            return Err(Failure::refused(text));
        }
        Ok(())
    }
}

/// Tables of what was measured, and of the distances before and after.
fn tell(
    topology: &Topology,
    measured: &pairs::Measured,
    distances: &[Vec<u64>],
    outcome: &mut Outcome,
) {
    let nodes = topology.numa_nodes().iter();
    let os: Vec<usize> = nodes.map(|node| node.os_index).collect();
    outcome.set("numa_nodes_os", os.clone());
    outcome.set("latency_ns", json!(measured.nanoseconds));
    outcome.set("bandwidth_gb_per_s", json!(measured.gigabytes));
    outcome.set("distances", json!(distances));
    let mut table = |title, rows: Vec<_>, digits| table(outcome, title, &os, rows, digits);
    if topology.has_distances() {
        let n = topology.n_numa_nodes();
        let distance = |from, to| Some(f64::from(topology.distance(from, to)));
        let row = |from| (0..n).map(|to| distance(from, to)).collect();
        table("distances until now", (0..n).map(row).collect(), 0);
    }
    table("latency in ns", measured.nanoseconds.clone(), 1);
    let title = "bandwidth in GB/s, all cores of a node reading";
    table(title, measured.gigabytes.clone(), 1);
    let whole = |row: &Vec<u64>| row.iter().map(|&value| Some(value as f64)).collect();
    let whole = distances.iter().map(whole).collect();
    table("distances from these latencies", whole, 0);
}

/// Writes the topology of this machine with these distances.
fn write(distances: &[Vec<u64>], file: &Path, outcome: &mut Outcome) -> Result<(), Failure> {
    let refused =
        |error: dataflow::numa::TopologyError| Failure::new("output_unwritable", error.to_string());
    Topology::write_with_distances(None, &distances.concat(), file).map_err(refused)?;
    outcome.say(format!(
        "written: {0} (HWLOC_XMLFILE={0} makes programs built with the feature `hwloc` use it)",
        file.display()
    ));
    Ok(())
}

fn default_mebibytes(topology: &Topology) -> u64 {
    let largest = topology
        .caches()
        .iter()
        .map(|cache| cache.bytes)
        .max()
        .unwrap_or(0);
    ((2 * largest) >> 20).clamp(64, 512)
}

/// Distances in firmware's manner: 10 is the shortest latency, and latencies that differ by less
/// than the tolerance get one value, so that noise does not part equals.
///
/// From a node without cores, and to one without memory, nothing was measured: it is as far from others as
/// they from it, and from its like as far as anything is.
fn corrected(nanoseconds: &[Vec<Option<f64>>], tolerance: f64) -> Vec<Vec<u64>> {
    let mut sorted: Vec<f64> = nanoseconds.iter().flatten().copied().flatten().collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(&shortest), Some(&longest)) = (sorted.first(), sorted.last()) else {
        return vec![vec![10; nanoseconds.len()]; nanoseconds.len()];
    };
    let mut steps: Vec<f64> = Vec::new();
    for value in sorted {
        if steps
            .last()
            .is_none_or(|step| value > step * (1.0 + tolerance))
        {
            steps.push(value);
        }
    }
    let step = |value: f64| {
        let below = steps
            .iter()
            .rev()
            .find(|step| **step <= value)
            .unwrap_or(&shortest);
        (10.0 * below / shortest).round() as u64
    };
    let value = |from: usize, to: usize| {
        let seen = nanoseconds[from][to].or(nanoseconds[to][from]);
        let own = if from == to { shortest } else { longest };
        step(seen.unwrap_or(own))
    };
    let n = nanoseconds.len();
    (0..n)
        .map(|from| (0..n).map(|to| value(from, to)).collect())
        .collect()
}

fn table(
    outcome: &mut Outcome,
    title: &str,
    os: &[usize],
    rows: Vec<Vec<Option<f64>>>,
    digits: usize,
) {
    let heads: Vec<String> = os.iter().map(|head| format!("{head:>8}")).collect();
    outcome.say(format!("{title}\n from\\to{}", heads.concat()));
    for (head, row) in os.iter().zip(rows) {
        let cell = |value: Option<f64>| match value {
            Some(value) => format!("{value:>8.digits$}"),
            None => format!("{:>8}", "-"),
        };
        let row: Vec<String> = row.into_iter().map(cell).collect();
        outcome.say(format!("{head:>8}{}", row.concat()));
    }
}
