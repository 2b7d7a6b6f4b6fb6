//! Limits: how fast no schedule of these bodies could have been exceeded.

use super::doing::OwnTimes;
use super::{At, Trace};
use crate::rank::Rank;

/// Bounds from below on the time of a run with the bodies that were measured.
///
/// # Examples
/// See [`Explanation`](super::Explanation#examples).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest of all ranks: time in bodies ÷ workers, nanoseconds.
    pub area: u64,
    /// On which rank.
    pub area_rank: Rank,
    /// The longest way through the graph, nanoseconds in bodies.
    pub path: u64,
    /// Its tasks, the first one first.
    pub path_tasks: Vec<At>,
}

impl Limits {
    /// The larger one.
    pub fn most(&self) -> u64 {
        self.area.max(self.path)
    }
}

impl Trace {
    /// What bounds the time of any schedule of these bodies.
    pub fn limits(&self) -> Limits {
        self.limits_by(&OwnTimes::new(&self.ranks))
    }

    /// The same, if the bodies' own times are at hand.
    pub(super) fn limits_by(&self, own: &OwnTimes) -> Limits {
        let mut limits = Limits::default();
        for (rank, own) in self.ranks.iter().zip(&own.0) {
            let busy: u128 = own.iter().copied().map(u128::from).sum();
            // No worker was busy for longer than the run.
            let area = (busy / rank.workers.len().max(1) as u128) as u64;
            if area > limits.area {
                (limits.area, limits.area_rank) = (area, rank.rank);
            }
        }
        (limits.path, limits.path_tasks) = self.links.longest(own, |_| true);
        limits
    }
}
