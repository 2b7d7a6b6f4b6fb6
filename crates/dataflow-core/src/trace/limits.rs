//! Limits: how fast no schedule of these bodies could have been exceeded.

use super::doing::pieces;
use super::{At, Span, Trace};
use crate::rank::Rank;

/// Bounds from below on the time of a run with the bodies that were measured.
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
        let mut limits = Limits::default();
        for rank in &self.ranks {
            let mut busy = 0;
            for worker in &rank.workers {
                let add = |body: Span, _| busy += body.length();
                pieces(&rank.slices, worker.slices.clone(), add);
            }
            let area = busy / rank.workers.len().max(1) as u64;
            if area > limits.area {
                (limits.area, limits.area_rank) = (area, rank.rank);
            }
        }
        (limits.path, limits.path_tasks) = self.links.longest(&self.ranks, |_| true);
        limits
    }
}
