//! The port beside the engine: who reaches other ranks.

use crate::rank::Rank;

/// What the engine asks of communication.
///
/// The reference member is [`Alone`]: one rank, nobody to talk to.
pub trait Courier: Send + Sync {
    /// This rank.
    fn rank(&self) -> Rank;
    /// Number of ranks; tasks placed on a rank outside `0..n_ranks` are a named error.
    fn n_ranks(&self) -> usize;
}

/// One rank, alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Courier for Alone {
    fn rank(&self) -> Rank {
        Rank(0)
    }
    fn n_ranks(&self) -> usize {
        1
    }
}
