//! Graphs one after the other: as one graph, or what they cost together.

use crate::matrix::Tile;
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::rank::Rank;
use dataflow_core::space::Erased;
use dataflow_core::{Error, Report};

/// Runs this rank's part of spaces one after another, as one graph without a barrier.
pub(crate) fn run_series<'s, T: Scalar>(
    spaces: impl IntoIterator<Item = Erased<'s, Tile<T>>>,
    on: &dyn Executor,
) -> Result<Report, Error> {
    let Rank(rank) = on.courier().rank();
    let series = Erased::series(spaces, rank..rank + 1)?;
    T::run_tiles(&series, on)
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
