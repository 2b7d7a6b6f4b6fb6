//! Needs: the memory that a run takes on one rank, told before anything is allocated.
//!
//! # Law
//! [`Needs::held`] is exact: a rank that has no room for it cannot run. The rest is an upper bound: what
//! other ranks send counts as if all of it were there at once, except for data that only ever take the place
//! of other data.
//!
//! The result is a function of layouts, scalars and options, and costs a look at each tile of the matrix. For a
//! matrix that is too large for any machine the numbers are too large for any machine, too, and say no more.
//!
//! # Elsewhere
//! How much is free: [`available`]. Each routine's formula: under its name, in the file of its family.

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
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::{matrix::Layout, needs};
    /// let layout = Layout::general(100, 100, 25)?;
    /// let (a, lu) = (needs::matrix::<f64>(&layout), needs::lu::<f64>(&layout, 1));
    /// // A, and its factors in another matrix; or in place of A.
    /// assert_eq!(a.and(lu).held, 2 * a.held);
    /// assert_eq!(a.then(lu).held, a.held);
    /// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
    /// ```
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
///
/// # Examples
/// ```
/// use dataflow_linalg::{matrix::Layout, needs};
/// let needs = needs::cholesky::<f64>(&Layout::lower(1000, 100)?, 2);
/// let refused = needs.expect_room(1 << 20).unwrap_err();
/// assert_eq!((refused.needs, refused.available), (needs, 1 << 20));
/// assert!(refused.to_string().ends_with("does not fit (available: 1048576 bytes)"));
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
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

/// More bytes than any machine has; of so many as can be looked at one by one the sum has 128 bits.
const MOST: u128 = 1 << 80;

/// The product of these numbers, or [`MOST`] if it is more.
fn product_of<const N: usize>(numbers: [u128; N]) -> u128 {
    numbers.into_iter().fold(1, u128::saturating_mul).min(MOST)
}

/// Steps beside those that a lookahead spans: what comes of the one under way, and of those that ranks
/// are apart.
const BESIDE: usize = 4;

/// Tiles of a matrix alone.
///
/// # Examples
/// ```
/// use dataflow_linalg::{matrix::Layout, needs};
/// // Of a definite matrix half is kept, and tiles on the diagonal whole.
/// let [whole, half] = [Layout::general(100, 100, 25)?, Layout::lower(100, 25)?]
///     .map(|layout| needs::matrix::<f64>(&layout).held);
/// assert!(whole >= 8 * 100 * 100 && 16 * half == 10 * whole);
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
pub fn matrix<T: Scalar>(layout: &Layout) -> Needs {
    let tiles = layout.n_slots() as u128 * size_of::<Tile<T>>() as u128;
    let elements = layout.n_elements().saturating_mul(size_of::<T>() as u128);
    Needs {
        held: elements.saturating_add(tiles),
        ..Needs::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Op, Side, Triangle};
    use crate::matrix::{Distribution, Grid};
    use crate::qr::Options;
    use crate::scalar::c64;
    use dataflow_core::rank::Rank;
    use std::num::NonZeroU32;

    /// Numbers that 128 bits do not hold ended in a panic, or wrapped around: the run was let in.
    #[test]
    fn a_matrix_that_no_machine_has_needs_more_than_there_is_whatever_is_done_with_it() {
        fn check<T: Scalar>(general: &Layout, lower: &Layout, workers: usize) {
            let (a, l, options) = (general, lower, Options::of_order(32));
            let (groups, square) = (NonZeroU32::new(3).unwrap(), [general; 2]);
            let triangle = (Side::Left, Triangle::Lower, Op::NoTranspose);
            let all = [
                cholesky::<T>(l, workers),
                cholesky_ahead::<T>(l, 3, workers),
                cholesky_solve::<T>([l, a], workers),
                cholesky_check::<T>(l, workers),
                inverse::<T>(l, workers),
                lu::<T>(a, workers),
                lu_check::<T>(a, workers),
                lu_tournament::<T>(a, groups, workers),
                lu_unpivoted::<T>(a, workers),
                lu_unpivoted_ahead::<T>(a, 3, workers),
                lu_incremental::<T>(a, workers),
                lu_replay::<T>(square, workers),
                lu_solve::<T>(square, Op::NoTranspose, workers),
                lu_inverse::<T>(a, workers),
                qr::<T>(a, options, workers),
                qr_apply::<T>((a, options), Side::Left, a, workers),
                qr_check::<T>(a, options, workers).unwrap(),
                least_squares::<T>(square, options, workers).unwrap(),
                least_squares_minimum_norm::<T>(square, options, workers).unwrap(),
                solution_ratio::<T>(square, workers).unwrap(),
                gemm::<T>([l, a, a], workers),
                defect::<T>([a; 3], workers),
                herk::<T>(Op::NoTranspose, [a, l], workers),
                triangular::<T>(triangle, square, workers),
                solve::<T>(square, workers),
                mixed::<T>(square, workers),
                error_bounds::<T>(square, workers),
            ];
            for (which, needs) in all.iter().enumerate() {
                assert!(needs.expect_room(u64::MAX).is_err(), "{which} of {a:?}");
                assert!(needs.at_most() >= needs.held, "{which} of {a:?}");
            }
        }
        let n = usize::MAX;
        for (nb, (p, q), workers) in [
            (n, (1, 1), 1),
            (n, (2, 3), n),
            (n / 5, (1, 1), n),
            (n / 5, (2, 2), 2),
        ] {
            let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
            let spread = |layout: Layout| layout.distributed(grid, Rank(0)).unwrap();
            let general = spread(Layout::general(n, n, nb).unwrap());
            let lower = spread(Layout::lower(n, nb).unwrap());
            check::<f32>(&general, &lower, workers);
            check::<f64>(&general, &lower, workers);
            check::<c64>(&general, &lower, workers);
        }
    }
}
