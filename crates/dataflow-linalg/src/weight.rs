//! Weight: what tasks cost and what their outputs weigh, so that a run is counted before it is made.
//!
//! # Law
//! Bytes are exactly those that travel: of tiles that are read in parts, these parts; of factors that an
//! earlier run or space has left, the parts that it left. Only which rows LU swaps, and which columns are
//! chosen, depends on the matrix: there bytes are those that are expected if each is as likely as any
//! other to be a pivot's, as in a random matrix. Flops are LAPACK's
//! count of the kernel where there is one; for eliminations of tile QR, and of LU with incremental
//! pivoting, the leading term, without what is spent on T or on the steps. What only moves or looks at
//! entries has none.
//!
//! # Elsewhere
//! The spaces: a file `weighed.rs` beside those of each room. Counting:
//! [`counts`](dataflow_core::space::counts). The memory that a run takes: [`needs`](crate::needs).

use dataflow_core::prelude::*;
use dataflow_core::space::{AnyName, Erased};

/// A space whose tasks and data have a known weight; none of it needs a matrix to exist.
///
/// # Examples
/// What a factorisation on 2 × 3 ranks sends, and how evenly its work is spread:
/// ```
/// use dataflow_core::space::counts::Counting;
/// use dataflow_core::{port::Heap, rank::Rank};
/// use dataflow_linalg::cholesky::Factor;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
/// use dataflow_linalg::weight::Weight;
/// use std::sync::Arc;
///
/// let grid = Distribution::BlockCyclic(Grid::new(2, 3)?);
/// let layout = Layout::lower(40_000, 1000)?.distributed(grid, Rank(0))?;
/// let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
/// let factor = Factor::new(&a, Backend::Auto)?;
/// let bytes = |task, flow| factor.bytes(task, flow);
/// let flops = |task| factor.flops(task);
/// let counts = Counting::of(&factor, 6).bytes(&bytes).cost(&flops).count()?;
/// assert_eq!((counts.tasks(), counts.sent().messages), (40 * 41 * 42 / 6, 2301));
/// assert!(counts.balance() > 0.9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Weight: TaskSpace {
    /// Bytes of the datum that leaves a task through a flow, wherever it goes: what a task hands on as it
    /// came weighs what it weighed there.
    fn bytes(&self, task: Self::Task, flow: usize) -> u64;

    /// Floating-point operations of a task.
    fn flops(&self, task: Self::Task) -> f64;
}

/// Spaces behind a pointer are weighed where they are put there; so is each of a series.
impl<D: Datum> Weight for Erased<'_, D> {
    fn bytes(&self, task: AnyName, flow: usize) -> u64 {
        self.bytes(task, flow)
    }

    fn flops(&self, task: AnyName) -> f64 {
        self.cost(task)
    }
}
