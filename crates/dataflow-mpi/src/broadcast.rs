//! Broadcast: through whom a datum reaches many ranks, and a word all of them.
//!
//! # Law
//! The tree is a function of receivers and size. Each receiver has one parent; the root has none. A
//! rank is told who is below it, so it passes on without knowing anything of the task.

use dataflow_core::port::Ranks;
use dataflow_core::rank::Rank;
use smallvec::SmallVec;

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

/// One of those that get a datum at first hand, and those that get it from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Who.
    pub to: Rank,
    /// The others, in the order of the tree: the branches of these in the same shape are its own.
    pub below: Ranks,
}

impl Shape {
    /// The branches of a tree over those who get a datum, from whoever has it.
    pub fn branches(self, to: &[Rank]) -> SmallVec<[Branch; 8]> {
        let n = to.len() + 1;
        let branch = |position| {
            let mut all = self.under(position, n).map(|position| to[position - 1]);
            Some(Branch {
                to: all.next()?,
                below: all.collect(),
            })
        };
        self.below(0, n).into_iter().filter_map(branch).collect()
    }

    /// A position and all that hang on it, in their order.
    fn under(self, position: usize, n: usize) -> Box<dyn Iterator<Item = usize>> {
        match self {
            Shape::Star => Box::new(position..position + 1),
            Shape::Binomial => {
                let length = 1 << position.trailing_zeros();
                Box::new(position..n.min(position + length))
            }
            Shape::Binary => {
                let levels = std::iter::successors(Some((position, position)), |&(first, last)| {
                    Some((2 * first + 1, 2 * last + 2))
                });
                let levels = levels.take_while(move |&(first, _)| first < n);
                Box::new(levels.flat_map(move |(first, last)| first..n.min(last + 1)))
            }
        }
    }
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

    proptest! {
        #[test]
        fn every_receiver_has_one_parent_and_hangs_on_the_root(
            n in 1usize..70, kept in any::<u128>(), shape in prop_oneof![Just(Shape::Star), Just(Shape::Binomial), Just(Shape::Binary)],
        ) {
            let to: Ranks = (1..n as u32).map(Rank).filter(|rank| kept >> rank.0 & 1 == 1).collect();
            // Who passes it on finds below himself whom the tree over all has there.
            let expected = |rank: Rank| {
                let position = to.iter().position(|other| *other == rank).map_or(0, |at| at + 1);
                let below = shape.below(position, to.len() + 1);
                below.into_iter().map(|position| to[position - 1]).collect::<Vec<_>>()
            };
            let (mut reached, mut next) = (vec![], vec![(Rank(0), to.clone())]);
            while let Some((rank, below)) = next.pop() {
                let branches = shape.branches(&below);
                prop_assert_eq!(branches.iter().map(|branch| branch.to).collect::<Vec<_>>(), expected(rank));
                for Branch { to, below } in branches {
                    reached.push(to);
                    next.push((to, below));
                }
            }
            reached.sort();
            prop_assert_eq!(&reached[..], &to[..]);
            for position in 1..n {
                let parent = shape.above(position).unwrap();
                prop_assert!(shape.below(parent, n).contains(&position));
            }
        }
    }
}
