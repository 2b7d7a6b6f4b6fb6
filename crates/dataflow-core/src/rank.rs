//! Ranks: the processes (or groups of threads) that a run is spread over.

use std::fmt;

/// One of the `n_ranks` places a task can run on, counted from 0.
///
/// ```
/// use dataflow_core::rank::Rank;
/// let n_ranks = 4;
/// let owners: Vec<Rank> = (0..6).map(|row| Rank(row % n_ranks)).collect();
/// assert_eq!((owners[5], owners[5].to_string()), (Rank(1), "rank 1".into()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(pub u32);

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}
