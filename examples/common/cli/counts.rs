//! Counts: what `--simulate counts` tells of a space on any number of ranks, without running it.
//!
//! Nothing is launched and no matrix is made, so `--ranks` may be far more than this machine could start.
//! With `--threads` the tasks are walked in rounds of so many workers a rank, and what ranks hold is told.

use super::settings::Simulation;
use super::{Failure, Flags, Outcome};
use dataflow::core::rank::Rank;
use dataflow::core::space::counts::{Counting, Counts, OfRank, Sending};
use dataflow::core::space::{Contradiction, Description, TaskSpace};
use dataflow::core::words::counted;
use dataflow::linalg::weight::Weight;
use dataflow::mpi;
use serde_json::json;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Instant;

/// What is said of graphs that are not played.
pub const COUNTS_ONLY: &str = "--simulate time: of this only --simulate counts is known";

/// More pairs of ranks than these are not listed.
const MOST_PAIRS: usize = 10_000;

/// Notes what is counted, if that was asked for: then nothing is to be computed.
///
/// # Errors
/// If the space contradicts itself.
pub fn is_counts_only<S: Weight>(
    space: &S,
    flags: &Flags,
    outcome: &mut Outcome,
) -> Result<bool, Failure> {
    match flags.simulate {
        None => Ok(false),
        Some(Simulation::Time) => Err(Failure::refused(COUNTS_ONLY)),
        Some(Simulation::Counts) => {
            let bytes = |task, flow| space.bytes(task, flow);
            let flops = |task| space.flops(task);
            count(space, &bytes, &flops, flags, outcome).map(|()| true)
        }
    }
}

/// Counts a graph whose data have so many bytes, by task and flow, and whose tasks so many operations.
///
/// # Errors
/// As [`is_counts_only`].
pub(super) fn count<S: TaskSpace>(
    space: &S,
    bytes: &dyn Fn(S::Task, usize) -> u64,
    flops: &dyn Fn(S::Task) -> f64,
    flags: &Flags,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let n_ranks = flags.n_simulated()?;
    let settings = mpi::Settings::default();
    let route = |sending: &Sending<'_>, hear: &mut dyn FnMut(Rank, Rank)| {
        settings.each_hop(sending, hear);
    };
    let counting = Counting::of(space, n_ranks).bytes(bytes);
    let mut counting = counting.cost(flops).along(&route);
    if let Some(workers) = flags.threads.and_then(NonZeroUsize::new) {
        counting = counting.in_rounds(workers);
    }
    let start = Instant::now();
    let counts = counting.count();
    let seconds = start.elapsed().as_secs_f64();
    let mut about = Description::default();
    space.describe(&mut about);
    tell(counts, &about, seconds, flags, outcome)
}

/// Notes what was counted.
fn tell(
    counts: Result<Counts, Contradiction>,
    about: &Description,
    seconds: f64,
    flags: &Flags,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let counts = counts.map_err(|fault| Failure::new("contradiction", fault.to_string()))?;
    (outcome.ranks, outcome.threads) = (counts.ranks.len(), flags.threads);
    say(&counts, seconds, outcome);
    set(&counts, about, seconds, outcome);
    Ok(())
}

/// The least, the mean and the most of what ranks have.
fn spread(counts: &Counts, of: impl Fn(&OfRank) -> f64) -> [f64; 3] {
    let all = || counts.ranks.iter().map(&of);
    let mean = all().sum::<f64>() / counts.ranks.len() as f64;
    let least = all().fold(f64::INFINITY, f64::min);
    [least, mean, all().fold(0.0, f64::max)]
}

/// For people.
fn say(counts: &Counts, seconds: f64, outcome: &mut Outcome) {
    let (sent, path, area) = (counts.sent(), counts.path, counts.area());
    let [least, mean, most] = spread(counts, |rank| rank.work.tasks as f64);
    outcome.say(format!(
        "counted, not run: {} in {seconds:.3} s; a rank runs {least} to {most}, {mean:.1} in the mean",
        counted(counts.tasks(), "task")
    ));
    outcome.say(format!(
        "area: {:.4e} of {:.4e} flops on one rank: on the whole at most {:.1} % of the ranks are at work",
        area.cost,
        counts.cost(),
        100.0 * counts.balance()
    ));
    outcome.say(format!(
        "critical path: {}, {:.4e} flops: no run is faster than {:.1} workers that never wait",
        counted(path.tasks, "task"),
        path.cost,
        counts.cost() / path.cost.max(1.0)
    ));
    outcome.say(format!(
        "{} of {}; {} between {} of ranks",
        counted(sent.messages, "message"),
        counted(sent.bytes, "byte"),
        counted(sent.activations, "activation"),
        counted(counts.pairs.len(), "pair")
    ));
    if let Some((busiest, times)) = counts.busiest_sender() {
        outcome.say(format!(
            "{busiest} sends most messages, {times:.2} times the mean"
        ));
    }
    if let Some(rounds) = counts.rounds {
        let [least, mean, most] = spread(counts, |rank| rank.held as f64);
        outcome.say(format!(
            "in {}; received bytes held at once on a rank: {least} to {most}, {mean:.0} in the mean",
            counted(rounds, "round")
        ));
    }
}

/// The same as keys: those that runs have too by their names, the others in an object.
fn set(counts: &Counts, about: &Description, seconds: f64, outcome: &mut Outcome) {
    let sent = counts.sent();
    outcome.set("simulate", Simulation::Counts.to_string());
    outcome.set("tasks", counts.tasks());
    outcome.set("messages", sent.messages);
    outcome.set("bytes", sent.bytes);
    outcome.set("activations", sent.activations);
    let by_rank = |of: &dyn Fn(&OfRank) -> f64| {
        let [min, mean, max] = spread(counts, of);
        json!({ "min": min, "mean": mean, "max": max })
    };
    // Graphs one after another may have classes of the same name.
    let mut classes = BTreeMap::new();
    for (class, described) in about.classes().iter().enumerate() {
        let tasks = counts.ranks.iter().map(|rank| rank.classes[class]);
        *classes.entry(&described.name).or_insert(0) += tasks.sum::<u64>();
    }
    let pairs = counts
        .pairs
        .iter()
        .map(|((from, to), traffic)| json!([from.0, to.0, traffic.messages, traffic.bytes]));
    let is_listed = counts.pairs.len() <= MOST_PAIRS;
    let busiest = counts.busiest_sender();
    let held = counts.rounds.map(|_| by_rank(&|rank| rank.held as f64));
    let object = json!({
        "seconds": seconds,
        "tasks_by_class": classes,
        "tasks_by_rank": by_rank(&|rank| rank.work.tasks as f64),
        "flops_by_rank": by_rank(&|rank| rank.work.cost),
        "messages_sent_by_rank": by_rank(&|rank| rank.sent.messages as f64),
        "busiest_rank": busiest.map(|(rank, _)| rank.0),
        "busiest_over_mean": busiest.map(|(_, times)| times),
        "area_flops": counts.area().cost,
        "area_efficiency": counts.balance(),
        "path_tasks": counts.path.tasks,
        "path_flops": counts.path.cost,
        "most_waiting": counts.waiting,
        "rounds": counts.rounds,
        "held_bytes_by_rank": held,
        "pairs": is_listed.then(|| pairs.collect::<Vec<_>>()),
    });
    outcome.set("counts", object);
}
