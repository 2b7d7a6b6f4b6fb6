//! Measure: times one graph, and shows on a terminal how far it has come.

use super::process::cpu_seconds;
use super::{Failure, Flags};
use dataflow::numa::WorkerStatistics;
use dataflow::{Monitor, Report, Runtime};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What the timed graph cost.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Tasks executed.
    pub tasks: u64,
    /// Wall time, seconds.
    pub seconds: f64,
    /// User and system time of all threads, seconds.
    pub cpu_seconds: f64,
    /// Tasks taken from another worker's queue.
    pub steals: u64,
    /// Data copied by the engine.
    pub copies: u64,
    /// Of the bytes read, those that lay on the reader's NUMA node; `None` if nothing is known of any.
    pub local_share: Option<f64>,
    /// What each worker did.
    pub workers: Vec<WorkerStatistics>,
}

impl Measured {
    /// The run with the median wall time; of an even number the faster of the two. `None` of none.
    pub fn median(mut runs: Vec<Measured>) -> Option<Measured> {
        runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let middle = runs.len().checked_sub(1)? / 2;
        runs.into_iter().nth(middle)
    }
}

impl Flags {
    /// Runs a graph, `run_with` a monitor, and says what it cost. On a terminal a bar shows the
    /// tasks done and their rate meanwhile.
    ///
    /// # Errors
    /// The run's own.
    pub fn measure<E: Into<Failure>>(
        &self,
        runtime: &Runtime,
        run_with: impl FnOnce(&Monitor) -> Result<Report, E>,
    ) -> Result<Measured, Failure> {
        let monitor = Monitor::new();
        let (cpu, before) = (cpu_seconds(), runtime.workers().statistics_by_worker());
        let report = if stderr().is_terminal() && (self.progress || !self.json) {
            watched(&monitor, run_with)
        } else {
            run_with(&monitor)
        }
        .map_err(Into::into)?;
        let cpu_seconds = cpu_seconds() - cpu;
        let after = runtime.workers().statistics_by_worker();
        let since = |(after, before): (&WorkerStatistics, _)| after.since(before);
        let workers: Vec<_> = after.iter().zip(&before).map(since).collect();
        Ok(Measured {
            tasks: report.tasks,
            seconds: report.seconds,
            cpu_seconds,
            steals: workers.iter().map(|worker| worker.total().steals).sum(),
            copies: report.copies(),
            local_share: report.local_share(),
            workers,
        })
    }
}

/// Draws a bar from a second thread until the run is over.
fn watched<R>(monitor: &Monitor, run_with: impl FnOnce(&Monitor) -> R) -> R {
    thread::scope(|threads| {
        // Dropped when the run is over, also by unwinding; that wakes the thread that draws.
        let (_running, over) = channel();
        threads.spawn(move || draw(monitor, &over));
        run_with(monitor)
    })
}

/// Runs shorter than this show nothing.
const PATIENCE: Duration = Duration::from_millis(250);

fn draw(monitor: &Monitor, over: &Receiver<()>) {
    let passed = |time| over.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !passed(PATIENCE) {
        return;
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} tasks, {per_sec}, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let bar = match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    while passed(Duration::from_millis(100)) {
        let progress = monitor.progress();
        bar.set_length(progress.count);
        bar.set_position(progress.done);
    }
    bar.finish_and_clear();
}
