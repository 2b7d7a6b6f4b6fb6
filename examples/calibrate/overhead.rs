//! Overhead: what the runtime itself takes for a task, and for an edge that carries a datum.

use super::Bench;
use super::kernels::quantile;
use common::cli::Failure;
use common::cli::costs::Overhead;
use common::cli::simulated::Edges;
use dataflow::Runtime;
use dataflow::core::phantom::Phantom;
use dataflow::core::port::Heap;
use dataflow::core::prelude::TaskSpace;
use dataflow::core::rank::Rank;
use dataflow::core::space::{Erased, Independent};
use dataflow::linalg::cholesky::Factor;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use std::sync::Arc;

/// Tasks without edges, and tiles in a row of the graph with edges.
const SIZES: (u64, usize) = (100_000, 40);

impl Bench<'_> {
    /// On one worker: empty tasks without edges, then the graph of Cholesky with empty bodies.
    pub fn overhead(&self) -> Result<Overhead, Failure> {
        let runtime = Runtime::builder().threads(1).bind(self.bind).build()?;
        let (n_tasks, tiles) = SIZES;
        let alone = Independent::new("nothing", n_tasks, |_| Ok(()));
        let alone = self.median(&runtime, &Erased::new(&alone))?;
        let a = TiledMatrix::<f64>::vacant(Layout::lower(tiles, 1)?, Arc::new(Heap));
        let factor = Factor::new(&a, Backend::Auto)?;
        let mut edges = Edges::default();
        for task in factor.tasks(Rank(0)) {
            factor.successors(task, &mut edges);
        }
        let phantom = Phantom::of(&factor);
        let linked = self.median(&runtime, &Erased::new(&phantom))?;
        let task_nanoseconds = alone / n_tasks as f64;
        let of_tasks = task_nanoseconds * factor.count(Rank(0)) as f64;
        Ok(Overhead {
            task_nanoseconds,
            edge_nanoseconds: (linked - of_tasks).max(0.0) / edges.0 as f64,
        })
    }

    /// Nanoseconds of the median run.
    fn median(&self, runtime: &Runtime, space: &impl TaskSpace) -> Result<f64, Failure> {
        let runs = (0..self.rounds).map(|_| Ok(runtime.run(space)?.seconds * 1e9));
        let mut runs = runs.collect::<Result<Vec<f64>, Failure>>()?;
        Ok(quantile(&mut runs, 0.5))
    }
}
