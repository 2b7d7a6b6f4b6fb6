//! Family: the tree over all ranks, rank 0 at its root, through which all agree, count and close.

use crate::broadcast::TreeShape;
use dataflow_core::port::Ranks;
use dataflow_core::rank::Rank;

/// A rank's place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreePlace {
    /// Above; none for rank 0.
    pub parent: Option<Rank>,
    /// Below.
    pub children: Ranks,
}

impl TreePlace {
    /// Of one of `n_ranks`.
    pub fn of(rank: Rank, n_ranks: usize) -> Self {
        let (shape, position) = (TreeShape::Binomial, rank.0 as usize);
        let named = |position: usize| Rank(position as u32);
        let above = shape.above(position).filter(|above| *above < n_ranks);
        TreePlace {
            parent: above.map(named),
            children: shape
                .below(position, n_ranks)
                .into_iter()
                .map(named)
                .collect(),
        }
    }

    /// Parent and children.
    pub fn near(&self) -> impl Iterator<Item = Rank> + '_ {
        self.parent.into_iter().chain(self.children.iter().copied())
    }

    /// Whether a word from that rank comes from below.
    pub fn is_child(&self, rank: Rank) -> bool {
        self.children.contains(&rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_root_is_a_child_of_its_parent() {
        for n in 1..40 {
            for rank in (0..n).map(Rank) {
                let family = TreePlace::of(rank, n as usize);
                match family.parent {
                    None => assert_eq!(rank, Rank(0)),
                    Some(parent) => assert!(TreePlace::of(parent, n as usize).is_child(rank)),
                }
            }
        }
    }
}
