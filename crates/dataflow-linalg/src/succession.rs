//! Graphs one after the other: as one graph, or what they cost together.

use crate::matrix::{Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::rank::Rank;
use dataflow_core::space::{Erased, is_verify_asked};
use dataflow_core::{Error, Report};

/// Runs this rank's part of spaces over matrices one after another, as one graph without a barrier.
pub(crate) fn run_series<'s, T: Scalar>(
    spaces: impl IntoIterator<Item = Erased<'s, Tile<T>>>,
    of: &[&TiledMatrix<T>],
    on: &dyn Executor,
) -> Result<Report, Error> {
    let Rank(rank) = on.courier().rank();
    let ranks = match is_verify_asked()? {
        // What is verified is asked for the tasks of all ranks.
        true => 0..on.courier().n_ranks() as u32,
        false => rank..rank + 1,
    };
    let series = Erased::series(spaces, ranks)?;
    T::run_tiles(&series, of, on)
}

/// What several graphs, one after the other, cost together.
pub(crate) fn joined(reports: impl IntoIterator<Item = Report>) -> Report {
    let all = reports.into_iter().reduce(Report::followed_by);
    all.unwrap_or_default()
}
