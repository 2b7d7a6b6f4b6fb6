//! Measure: times one graph, and shows on a terminal how far it has come.

use super::process::{cpu_seconds, max_rss_bytes};
use super::statistics::per_worker;
use super::{Failure, Flags};
use dataflow::core::rank::Rank;
use dataflow::core::words::counted;
use dataflow::mpi::Counters;
use dataflow::numa::{Statistics, WorkerStatistics};
use dataflow::trace::{Trace, View};
use dataflow::{Monitor, Progress, Report, Runtime, Transport};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What the timed graph cost, on one rank or on all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Tasks executed.
    pub tasks: u64,
    /// Wall time, seconds; of the slowest rank.
    pub seconds: f64,
    /// User and system time of all threads, seconds.
    pub cpu_seconds: f64,
    /// Tasks taken from another worker's queue.
    pub steals: u64,
    /// Data copied by the engine.
    pub copies: u64,
    /// Bytes read that lay on the reader's NUMA node, and elsewhere.
    pub local_bytes: u64,
    pub remote_bytes: u64,
    /// Whether no byte can be remote.
    pub uniform: bool,
    /// Of several ranks: the largest resident set of one of their processes when the run was over.
    pub max_rss_bytes: u64,
    /// What each worker did, rank by rank.
    pub workers: Vec<Value>,
    /// What each rank sent, by name; of a rank that is alone nothing.
    pub sent: Vec<Value>,
    /// On rank 0, if runs are recorded: of each graph, what all ranks did.
    #[serde(skip)]
    pub traces: Vec<Trace>,
}

impl Measured {
    /// One rank's part of a run of which nothing else is known.
    pub fn of_workers(tasks: u64, seconds: f64, workers: &[WorkerStatistics]) -> Self {
        let total: Statistics = workers.iter().map(WorkerStatistics::total).sum();
        Measured {
            tasks,
            seconds,
            steals: total.steals,
            local_bytes: total.local_bytes,
            remote_bytes: total.remote_bytes,
            workers: per_worker(workers),
            ..Measured::default()
        }
    }

    /// The run with the median wall time; of an even number the faster of the two. `None` of none.
    pub fn median(mut runs: Vec<Measured>) -> Option<Measured> {
        runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let middle = middle(runs.len())?;
        runs.into_iter().nth(middle)
    }

    /// Runs one after the other as one. `Measured::default()` of none.
    pub fn total(runs: Vec<Measured>) -> Measured {
        let (mut runs, mut total) = (runs.into_iter(), Measured::default());
        if let Some(first) = runs.next() {
            total = first;
        }
        for run in runs {
            total.tasks += run.tasks;
            total.seconds += run.seconds;
            total.cpu_seconds += run.cpu_seconds;
            total.steals += run.steals;
            total.copies += run.copies;
            total.local_bytes += run.local_bytes;
            total.remote_bytes += run.remote_bytes;
            total.max_rss_bytes = total.max_rss_bytes.max(run.max_rss_bytes);
            add_up(&mut total.workers, run.workers);
            add_up(&mut total.sent, run.sent);
            total.traces.extend(run.traces);
        }
        total
    }

    /// The parts of all ranks as one; their processor time is the same if they share a process.
    pub(super) fn joined(parts: impl IntoIterator<Item = Measured>, one_process: bool) -> Self {
        parts
            .into_iter()
            .fold(Measured::default(), |all, part| Measured {
                tasks: all.tasks + part.tasks,
                seconds: all.seconds.max(part.seconds),
                cpu_seconds: match one_process {
                    true => all.cpu_seconds.max(part.cpu_seconds),
                    false => all.cpu_seconds + part.cpu_seconds,
                },
                steals: all.steals + part.steals,
                copies: all.copies + part.copies,
                local_bytes: all.local_bytes + part.local_bytes,
                remote_bytes: all.remote_bytes + part.remote_bytes,
                uniform: part.uniform,
                max_rss_bytes: all.max_rss_bytes.max(part.max_rss_bytes),
                workers: [all.workers, part.workers].concat(),
                sent: [all.sent, part.sent].concat(),
                traces: Vec::new(),
            })
    }

    /// Of the bytes read, the share that was local; `None` if nothing is known of any.
    pub fn local_share(&self) -> Option<f64> {
        match self.local_bytes + self.remote_bytes {
            0 => self.uniform.then_some(1.0),
            bytes => Some(self.local_bytes as f64 / bytes as f64),
        }
    }

    /// The sum over all ranks of what they sent under these names.
    pub fn sent(&self, names: &[&str]) -> u64 {
        let of_rank = |sent: &Value| {
            let numbers = names.iter().filter_map(|name| sent.get(*name)?.as_u64());
            numbers.sum::<u64>()
        };
        self.sent.iter().map(of_rank).sum()
    }
}

/// Switches the recording of runs on or off, if they are to be recorded at all. What is measured begins
/// with it on; a body switches it off for what it does beside.
pub fn record(runtime: &Runtime, on: bool) {
    if let Some(tracer) = runtime.tracer() {
        tracer.set_on(on);
    }
}

impl Flags {
    /// Measures as often as was asked for; of these runs the one with the median wall time.
    ///
    /// # Errors
    /// The first run's that fails.
    pub fn median<E>(
        &self,
        mut run: impl FnMut(usize) -> Result<Measured, E>,
    ) -> Result<Option<Measured>, E> {
        let mut runs = Vec::new();
        for time in 0..self.repeat {
            runs.push(run(time)?);
        }
        Ok(Measured::median(runs))
    }

    /// Runs a graph, `run_with` a monitor, on every rank, and says what it cost. On a terminal a
    /// bar shows rank 0's tasks done and their rate meanwhile; with `--live` each rank has a line a second.
    ///
    /// # Errors
    /// The run's own.
    pub fn measure<E: Into<Failure>>(
        &self,
        runtime: &Runtime,
        run_with: impl FnOnce(&Monitor) -> Result<Report, E>,
    ) -> Result<Measured, Failure> {
        let mut run_with = Some(run_with);
        self.measure_once(runtime, &mut |monitor| match run_with.take() {
            Some(run_with) => run_with(monitor).map_err(Into::into),
            None => unreachable!("it is measured once"),
        })
    }

    /// Compiled once for all graphs.
    fn measure_once(&self, runtime: &Runtime, run_with: Run<'_>) -> Result<Measured, Failure> {
        let monitor = Monitor::new();
        let (sent, before) = (runtime.sent(), runtime.workers().statistics_by_worker());
        let cpu = cpu_seconds();
        record(runtime, true);
        let shown = stderr().is_terminal() && (self.progress || !self.json);
        let report = if self.live {
            let rank = runtime.rank();
            watched(&monitor, run_with, |monitor, over| {
                tell(rank, monitor, over)
            })
        } else if shown && runtime.rank() == Rank(0) {
            watched(&monitor, run_with, draw)
        } else {
            run_with(&monitor)
        };
        record(runtime, false);
        let report = report.map_err(|error| self.failed(runtime, error))?;
        let cpu_seconds = cpu_seconds() - cpu;
        let after = runtime.workers().statistics_by_worker();
        let since = |(after, before): (&WorkerStatistics, _)| after.since(before);
        let workers: Vec<_> = after.iter().zip(&before).map(since).collect();
        let own = Measured {
            cpu_seconds,
            copies: report.copies(),
            local_bytes: report.local_bytes,
            remote_bytes: report.remote_bytes,
            uniform: report.uniform,
            ..Measured::of_workers(report.tasks, report.seconds, &workers)
        };
        let all = match runtime.n_ranks() {
            1 => own,
            _ => joined(runtime, own, &sent)?,
        };
        // After what was sent is counted: they travel too. If nobody asks here, they are `launch`'s.
        let traces = match self.records() {
            true => runtime.traces()?,
            false => Vec::new(),
        };
        Ok(Measured { traces, ..all })
    }

    /// A run that failed leaves rank 0's part of its trace. On all ranks nothing else is left of it, for
    /// another attempt may follow; if nobody asks here, what was recorded is `launch`'s.
    fn failed(&self, runtime: &Runtime, failure: Failure) -> Failure {
        if !self.records() {
            return failure;
        }
        let recorded = runtime.tracer().and_then(|tracer| tracer.take().pop());
        let (Some(trace), Some(path), Rank(0)) = (recorded, &self.trace, runtime.rank()) else {
            return failure;
        };
        let view = View::cut(&trace, self.window.clone());
        match view.write(path) {
            Ok(()) => failure,
            Err(unwritten) => failure.followed_by(&unwritten.into()),
        }
    }
}

/// What tells the entries of a list apart; all else in them counts.
const NAMES: [&str; 4] = ["rank", "worker", "numa_node", "distance"];

/// Adds entries to those of the same names, and puts the others behind them.
fn add_up(all: &mut Vec<Value>, more: Vec<Value>) {
    let alike = |a: &Value, b: &Value| NAMES.iter().all(|name| a.get(name) == b.get(name));
    // Parts of a run list what they count in the same order.
    let mut next = 0;
    for entry in more {
        let is_next = all.get(next).is_some_and(|other| alike(other, &entry));
        let place = match is_next {
            true => Some(next),
            false => all.iter().position(|other| alike(other, &entry)),
        };
        match (place.map(|place| &mut all[place]), entry) {
            (Some(Value::Object(so_far)), Value::Object(entry)) => add(so_far, entry),
            (_, entry) => all.push(entry),
        }
        next = place.map_or(all.len(), |place| place + 1);
    }
}

/// Adds what one entry counts to what another of the same names does; of peaks the higher one counts.
fn add(all: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, more) in more {
        let so_far = all.entry(&*name).or_insert(Value::Null);
        match (so_far, more) {
            _ if NAMES.contains(&&*name) => {}
            (Value::Array(so_far), Value::Array(more)) => add_up(so_far, more),
            (so_far, more) => {
                let numbers = [so_far.as_u64(), more.as_u64()].into_iter().flatten();
                let is_peak = name.starts_with("peak_");
                let both = numbers.reduce(|a, b| if is_peak { a.max(b) } else { a + b });
                *so_far = both.into();
            }
        }
    }
}

/// The place of the median among so many in their order; of an even number the former of the two.
pub fn middle(n: usize) -> Option<usize> {
    Some(n.checked_sub(1)? / 2)
}

/// This rank's part and all others', as one.
fn joined(runtime: &Runtime, own: Measured, before: &Counters) -> Result<Measured, Failure> {
    let rank = runtime.rank().0;
    let mut sent = Map::from_iter([("rank".to_string(), rank.into())]);
    for (name, number) in runtime.sent().since(before).named() {
        sent.insert(name.to_string(), number.into());
    }
    let mut own = Measured {
        sent: vec![sent.into()],
        max_rss_bytes: max_rss_bytes(),
        ..own
    };
    for worker in own.workers.iter_mut().filter_map(Value::as_object_mut) {
        worker.insert("rank".into(), rank.into());
    }
    let malformed = |error: serde_json::Error| Failure::new("malformed", error.to_string());
    let parts = runtime.gather(serde_json::to_vec(&own).map_err(malformed)?)?;
    let parts: Result<Vec<Measured>, _> = parts
        .iter()
        .map(|part| serde_json::from_slice(part))
        .collect();
    let one_process = runtime.transport() == Transport::Local;
    Ok(Measured::joined(parts.map_err(malformed)?, one_process))
}

/// A graph to be run, with a monitor.
type Run<'r> = &'r mut dyn FnMut(&Monitor) -> Result<Report, Failure>;

/// Runs a graph while a second thread shows how far it is.
fn watched(
    monitor: &Monitor,
    run_with: Run<'_>,
    show: impl FnOnce(&Monitor, &Receiver<()>) + Send,
) -> Result<Report, Failure> {
    thread::scope(|threads| {
        // Dropped when the run is over, also by unwinding; that wakes the thread that shows.
        let (_running, over) = channel();
        threads.spawn(move || show(monitor, &over));
        run_with(monitor)
    })
}

fn is_running(over: &Receiver<()>, after: Duration) -> bool {
    over.recv_timeout(after) == Err(RecvTimeoutError::Timeout)
}

/// A line at the end of each second, and whatever becomes of the run one at its end.
fn tell(Rank(rank): Rank, monitor: &Monitor, over: &Receiver<()>) {
    let mut goes_on = true;
    while goes_on {
        goes_on = is_running(over, Duration::from_secs(1));
        let Progress { done, count, .. } = monitor.progress();
        // At once: other ranks write there too. If nobody reads it, nothing is lost.
        let line = match count {
            Some(count) => format!("rank {rank}: {done} of {}\n", counted(count, "task")),
            None => format!("rank {rank}: its tasks are not counted yet\n"),
        };
        let _unread = stderr().write_all(line.as_bytes());
    }
}

/// Runs shorter than this show nothing.
const PATIENCE: Duration = Duration::from_millis(250);

fn draw(monitor: &Monitor, over: &Receiver<()>) {
    if !is_running(over, PATIENCE) {
        return;
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} tasks, {per_sec}, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let bar = match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    while is_running(over, Duration::from_millis(100)) {
        let Progress { done, count, .. } = monitor.progress();
        if let Some(count) = count {
            bar.set_length(count);
            bar.set_position(done);
        }
    }
    bar.finish_and_clear();
}
