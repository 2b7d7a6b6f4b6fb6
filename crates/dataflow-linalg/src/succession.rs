//! Graphs one after the other: what they cost together.

use dataflow_core::Report;

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
