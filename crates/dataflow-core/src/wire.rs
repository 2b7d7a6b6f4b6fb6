//! What ranks send one another about a run: names of tasks, terms to agree on, failures.

use crate::rank::Rank;
use smallvec::SmallVec;

/// A task's name in a form that every rank reads alike: its class, then its parameters.
///
/// Names compare as the tasks themselves do.
pub type WireName = SmallVec<[u32; 6]>;

/// What all ranks of a run must agree on, by name and value: the space, its parameters and
/// the type of its data.
///
/// # Examples
/// See [`Courier`](crate::port::Courier), whose ranks compare them when a run opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// In an order that is the same on every rank.
    pub settings: Vec<(String, String)>,
}

/// Why a run failed on some rank, in a form that travels.
///
/// # Examples
/// See [`Courier`](crate::port::Courier), by which ranks tell it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// Whether a body failed. False for a fault that stopped the run at once; such a fault is
    /// reported rather than those of bodies.
    pub of_body: bool,
    /// The index that a failing body gave, else the largest number.
    pub index: u64,
    /// The task, by which the smallest of several failures is found; empty if none.
    pub name: WireName,
    /// The rank it happened on.
    pub rank: Rank,
    /// The kind, in snake_case.
    pub kind: String,
    /// The task as its `Debug` prints it; empty if there is none, or who found the failure knows only its name.
    pub task: String,
    /// What happened.
    pub message: String,
}
