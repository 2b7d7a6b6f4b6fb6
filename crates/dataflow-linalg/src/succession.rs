//! Graphs one after the other: where they run, and what they cost together.

use dataflow_core::Report;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Courier, Executor};

/// Where the graphs of a solution run; every rank says so of itself.
#[derive(Clone, Copy)]
pub struct Where<'a> {
    /// The workers.
    pub on: &'a dyn Executor,
    /// The way to other ranks.
    pub courier: &'a dyn Courier,
    /// Who watches.
    pub monitor: &'a Monitor,
}

/// What several graphs, one after the other, cost together.
pub(crate) fn joined(reports: impl IntoIterator<Item = Report>) -> Report {
    let mut all = Report::default();
    for report in reports {
        all.tasks += report.tasks;
        all.seconds += report.seconds;
        all.local_bytes += report.local_bytes;
        all.remote_bytes += report.remote_bytes;
        all.uniform = report.uniform;
        let workers = report.tasks_by_worker.len().max(all.tasks_by_worker.len());
        all.tasks_by_worker.resize(workers, 0);
        let pairs = all.tasks_by_worker.iter_mut().zip(report.tasks_by_worker);
        pairs.for_each(|(sum, tasks)| *sum += tasks);
        all.copies_by_class.extend(report.copies_by_class);
    }
    all
}
