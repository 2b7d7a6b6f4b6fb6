//! Stage: ranks and workers on which something is measured.

use super::Bench;
use common::cli::Failure;
use common::cli::settings::ROOM;
use dataflow::{Runtime, Transport, launch};

/// So many ranks of so many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stage {
    pub n_ranks: usize,
    pub threads: usize,
}

impl Stage {
    /// That of a runtime.
    pub fn of(runtime: &Runtime) -> Self {
        Stage {
            n_ranks: runtime.n_ranks(),
            threads: runtime.n_threads(),
        }
    }
}

impl Bench<'_> {
    /// Does something on a stage: on the ranks that there are, if there are several; else on ranks that are
    /// threads. What rank 0 got of it, or this rank.
    pub fn on<R: Send>(
        &self,
        stage: Stage,
        what: impl Fn(&Runtime) -> Result<R, Failure> + Sync,
    ) -> Result<R, Failure> {
        if self.runtime.n_ranks() > 1 {
            return what(self.runtime);
        }
        let Stage { n_ranks, threads } = stage;
        let builder = self.settings.tuned()?.ranks(n_ranks).threads(threads);
        let builder = builder.transport(Transport::Local);
        launch(builder.trace(ROOM), what)
    }
}
