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

/// What children have said, each once, in the order of their ranks.
#[derive(Debug)]
pub struct FromChildren<T>(Vec<(Rank, T)>);

impl<T> Default for FromChildren<T> {
    fn default() -> Self {
        FromChildren(Vec::new())
    }
}

impl<T> FromChildren<T> {
    fn find(&self, child: Rank) -> Result<usize, usize> {
        self.0.binary_search_by_key(&child, |(child, _)| *child)
    }

    /// A child says this; answers what it had said before, which does not count any more.
    pub fn hear(&mut self, child: Rank, said: T) -> Option<T> {
        match self.find(child) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, said)),
            Err(at) => {
                self.0.insert(at, (child, said));
                None
            }
        }
    }

    /// Whether a child has said anything.
    pub fn has_heard(&self, child: Rank) -> bool {
        self.find(child).is_ok()
    }

    /// Whether all children have.
    pub fn has_heard_all(&self, family: &TreePlace) -> bool {
        family.children.iter().all(|child| self.has_heard(*child))
    }

    /// Who has said what.
    pub fn all(&self) -> &[(Rank, T)] {
        &self.0
    }

    /// Forgets it all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_children_say_is_kept_in_the_order_of_their_ranks_and_the_last_word_counts() {
        let children = [Rank(4), Rank(1), Rank(2)];
        let family = TreePlace {
            parent: None,
            children: children.into_iter().collect(),
        };
        let mut heard = FromChildren::default();
        for child in children {
            assert!(!heard.has_heard(child) && !heard.has_heard_all(&family));
            assert_eq!(heard.hear(child, child.0), None);
        }
        assert_eq!(heard.hear(Rank(1), 7), Some(1));
        assert!(heard.has_heard_all(&family));
        assert_eq!(heard.all(), [(Rank(1), 7), (Rank(2), 2), (Rank(4), 4)]);
        heard.clear();
        assert!(!heard.has_heard(Rank(2)));
    }

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
