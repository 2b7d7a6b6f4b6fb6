//! Broadcast: through whom a datum reaches many ranks, and a word all of them.
//!
//! # Law
//! The tree is a function of root, receivers and size: every rank computes the same. Each receiver
//! has one parent; the root has none.

use dataflow_core::rank::Rank;
use smallvec::SmallVec;

/// Ranks one level down.
pub type Children = SmallVec<[Rank; 8]>;

/// The form of a tree over positions `0..n`, 0 being the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The root reaches all.
    Star,
    /// Who has it passes it on to one more in each round: least rounds.
    Binomial,
    /// Each passes it on to two: least work for the busiest.
    Binary,
}

impl Shape {
    /// The positions below one.
    pub fn below(self, position: usize, n: usize) -> SmallVec<[usize; 8]> {
        match self {
            Shape::Star if position == 0 => (1..n).collect(),
            Shape::Star => SmallVec::new(),
            Shape::Binary => [2 * position + 1, 2 * position + 2]
                .into_iter()
                .filter(|&child| child < n)
                .collect(),
            Shape::Binomial => {
                // The largest subtree first.
                let lowest = if position == 0 {
                    n.next_power_of_two()
                } else {
                    1 << position.trailing_zeros()
                };
                let steps = std::iter::successors(Some(lowest >> 1), |step| Some(step >> 1));
                let children = steps
                    .take_while(|&step| step > 0)
                    .map(|step| position + step);
                children.filter(|&child| child < n).collect()
            }
        }
    }

    /// The position above one.
    pub fn above(self, position: usize) -> Option<usize> {
        match (self, position) {
            (_, 0) => None,
            (Shape::Star, _) => Some(0),
            (Shape::Binary, _) => Some((position - 1) / 2),
            (Shape::Binomial, _) => Some(position & (position - 1)),
        }
    }
}

/// Whom `me` passes a datum on to that `root` owes to all of `to` (sorted, without the root).
pub fn children(me: Rank, root: Rank, to: &[Rank], shape: Shape) -> Children {
    let position = if me == root {
        Some(0)
    } else {
        to.binary_search(&me).ok().map(|index| index + 1)
    };
    let below = |position| shape.below(position, to.len() + 1);
    let child = |position: usize| to[position - 1];
    position.map_or(Children::new(), |position| {
        below(position).into_iter().map(child).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_binomial_tree_of_eight_has_three_rounds() {
        let below = |position| Shape::Binomial.below(position, 8).to_vec();
        assert_eq!(below(0), [4, 2, 1]);
        assert_eq!(below(4), [6, 5]);
        assert_eq!(below(6), [7]);
        assert_eq!(below(7), [0usize; 0]);
    }

    #[test]
    fn a_rank_that_gets_nothing_passes_nothing_on() {
        let to = [Rank(1), Rank(3)];
        assert!(children(Rank(2), Rank(0), &to, Shape::Star).is_empty());
        assert_eq!(children(Rank(0), Rank(0), &to, Shape::Star)[..], to);
    }

    proptest! {
        #[test]
        fn every_receiver_has_one_parent_and_hangs_on_the_root(
            n in 2usize..70, root in 0usize..70, kept in any::<u128>(), shape in prop_oneof![Just(Shape::Star), Just(Shape::Binomial), Just(Shape::Binary)],
        ) {
            let root = Rank((root % n) as u32);
            let to: Vec<Rank> = (0..n as u32).map(Rank).filter(|rank| *rank != root && kept >> rank.0 & 1 == 1).collect();
            let (mut reached, mut next) = (vec![], vec![root]);
            while let Some(rank) = next.pop() {
                for child in children(rank, root, &to, shape) {
                    reached.push(child);
                    next.push(child);
                }
            }
            reached.sort();
            prop_assert_eq!(reached, to);
            for position in 1..n {
                let parent = shape.above(position).unwrap();
                prop_assert!(shape.below(parent, n).contains(&position));
            }
        }
    }
}
