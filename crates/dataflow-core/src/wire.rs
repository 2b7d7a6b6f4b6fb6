//! What ranks tell one another about a run: names of tasks, terms, failures.

use crate::rank::Rank;
use smallvec::SmallVec;

/// A task's name in a form that every rank reads alike: its class, then its parameters.
///
/// Names compare as the tasks themselves do.
pub type WireName = SmallVec<[u32; 6]>;

/// What all ranks of a run must agree on, by name and value: the space and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// In an order that is the same on every rank.
    pub settings: Vec<(String, String)>,
}

/// Why a run failed on some rank, in a form that travels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// False for what stopped the run at once, which goes before what bodies reported.
    pub of_body: bool,
    /// The index that a failing body gave, else the largest number.
    pub index: u64,
    /// The task, so that of several the smallest is reported; empty if none.
    pub name: WireName,
    /// The rank it happened on.
    pub rank: Rank,
    /// The kind, in snake_case.
    pub kind: String,
    /// The task as its `Debug` prints it; empty if none.
    pub task: String,
    /// What happened.
    pub message: String,
}
