//! Needs: the memory that a run takes on one rank, told before anything is allocated.
//!
//! # Law
//! [`Needs::held`] is exact: a rank that has no room for it cannot run. The rest is from above: what
//! other ranks send counts as if all of it were there at once, except what one holds only in the
//! place of something else.
//!
//! A function of layouts, scalars and options; costs a look at each tile of the matrix.
//!
//! # Elsewhere
//! What is free: [`available`]. Each routine's formula: under its name, in the file of its family.

mod available;
mod cholesky;
mod lu;
mod pivoted;
mod product;
mod qr;
mod refine;
mod view;

pub(crate) use available::allowed;
pub use available::available;
pub use cholesky::{cholesky, cholesky_ahead, cholesky_check, cholesky_solve, inverse};
pub use lu::{
    lu, lu_check, lu_incremental, lu_inverse, lu_replay, lu_solve, lu_tournament, lu_unpivoted,
    lu_unpivoted_ahead,
};
pub use pivoted::least_squares_minimum_norm;
pub use product::{defect, gemm, herk, triangular};
pub use qr::{least_squares, qr, qr_apply, qr_check, solution_ratio};
pub use refine::{error_bounds, mixed, solve};

use crate::matrix::{Layout, Tile};
use crate::scalar::Scalar;
use std::fmt;

/// Bytes that one rank needs for a run.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::Layout;
/// use dataflow_linalg::needs;
/// let needs = needs::cholesky::<f64>(&Layout::lower(1000, 100)?, 2);
/// assert!(needs.held > 55 * 100 * 100 * 8 && needs.received == 0);
/// assert!(needs.expect_room(1 << 20).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Tiles that lie here before the run or after it, and what is kept with them.
    pub held: u128,
    /// What other ranks send, at most.
    pub received: u128,
    /// What tasks make and do not leave behind, and what kernels work in, at most.
    pub workspace: u128,
}

impl Needs {
    /// All of it.
    pub fn at_most(&self) -> u128 {
        self.held
            .saturating_add(self.received)
            .saturating_add(self.workspace)
    }

    /// The sum: for two runs that keep separate data.
    pub fn and(self, other: Needs) -> Needs {
        Needs {
            held: self.held.saturating_add(other.held),
            received: self.received.saturating_add(other.received),
            workspace: self.workspace.saturating_add(other.workspace),
        }
    }

    /// The maximum: for two runs, one after the other, over the same data.
    pub fn then(self, other: Needs) -> Needs {
        Needs {
            held: self.held.max(other.held),
            received: self.received.max(other.received),
            workspace: self.workspace.max(other.workspace),
        }
    }

    /// For two graphs over the same data that run as one graph: the maximum of what is held, and the sum of
    /// the rest, which may be there at once.
    pub fn overlapping(self, other: Needs) -> Needs {
        Needs {
            held: self.held.max(other.held),
            ..self.and(other)
        }
    }

    /// Beside what is held already.
    fn beside(self, held: Needs) -> Needs {
        Needs {
            held: held.held,
            ..self
        }
    }

    /// Whether a run is possible with so many bytes.
    ///
    /// # Errors
    /// If not even what is held fits.
    pub fn expect_room(&self, available: u64) -> Result<(), DoesNotFit> {
        match self.held > available.into() {
            true => Err(DoesNotFit {
                needs: *self,
                available,
            }),
            false => Ok(()),
        }
    }
}

/// A run that cannot fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoesNotFit {
    /// What it needs.
    pub needs: Needs,
    /// Bytes that there are.
    pub available: u64,
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "what this rank is to hold takes {} bytes and does not fit (available: {} bytes)",
            self.needs.held, self.available
        )
    }
}

impl std::error::Error for DoesNotFit {}

/// Bytes that a process takes beside its tiles, at most: pages of 2 MiB that its tiles do not fill,
/// what products pack blocks into, and what tasks wait with.
pub fn process(workers: usize) -> u128 {
    const LARGE_PAGE: u128 = 2 << 20;
    const OF_WORKER: u128 = 1 << 20;
    LARGE_PAGE + workers as u128 * OF_WORKER
}

/// Steps beside those that a lookahead spans: what comes of the one under way, and of those that ranks
/// are apart.
const BESIDE: usize = 4;

/// Tiles of a matrix alone.
pub fn matrix<T: Scalar>(layout: &Layout) -> Needs {
    let tiles = layout.n_slots() as u128 * size_of::<Tile<T>>() as u128;
    let elements = layout.n_elements().saturating_mul(size_of::<T>() as u128);
    Needs {
        held: elements.saturating_add(tiles),
        ..Needs::default()
    }
}
