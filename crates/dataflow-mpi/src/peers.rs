//! Peers: what is kept of every rank that this one has had to do with, and nothing of the others.
//!
//! A rank gets its place at first contact: so memory follows from the number of peers, not from that
//! of ranks, and a look at all of them meets them in the order of first contact.

use crate::GOLDEN;
use dataflow_core::rank::Rank;

/// Something of each rank that was met.
#[derive(Debug)]
pub struct Peers<T> {
    /// Where each rank's place is found: in its slot, or in one of the next. A power of two, and at
    /// least twice as many as places, so a look or two find one.
    slots: Vec<RankPlace>,
    met: Vec<(Rank, T)>,
}

/// A rank and its place.
#[derive(Clone, Copy, Debug)]
struct RankPlace {
    rank: u32,
    place: u32,
}

/// No rank's.
const EMPTY: RankPlace = RankPlace {
    rank: 0,
    place: u32::MAX,
};

impl<T> Default for Peers<T> {
    fn default() -> Self {
        Peers {
            slots: vec![EMPTY; 8],
            met: Vec::new(),
        }
    }
}

/// The slot of that rank, if there are so many (a power of two). Numbers of ranks are small, follow
/// each other, and nobody chooses them to collide.
#[inline(always)]
fn first_slot(rank: u32, n_slots: usize) -> usize {
    let mixed = u64::from(rank).wrapping_mul(GOLDEN);
    (mixed >> 32) as usize & (n_slots - 1)
}

impl<T> Peers<T> {
    /// How many were met.
    pub fn len(&self) -> usize {
        self.met.len()
    }

    /// The place of a rank, or the slot for it.
    #[inline(always)]
    fn find(&self, rank: Rank) -> Result<usize, usize> {
        let n_slots = self.slots.len();
        let mut at = first_slot(rank.0, n_slots);
        loop {
            let RankPlace { rank: other, place } = self.slots[at];
            if place == EMPTY.place {
                return Err(at);
            }
            if other == rank.0 {
                return Ok(place as usize);
            }
            at = (at + 1) & (n_slots - 1);
        }
    }

    /// What is kept of a rank, if it was met.
    pub fn get(&self, rank: Rank) -> Option<&T> {
        let place = self.find(rank).ok()?;
        Some(&self.met[place].1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, rank: Rank) -> Option<&mut T> {
        let place = self.find(rank).ok()?;
        Some(&mut self.met[place].1)
    }

    /// What is kept of a rank, which is met now if it was not before.
    pub fn meet(&mut self, rank: Rank, first: impl FnOnce() -> T) -> &mut T {
        let place = match self.find(rank) {
            Ok(place) => place,
            Err(slot) => self.add(rank, slot, first()),
        };
        &mut self.met[place].1
    }

    #[cold]
    fn add(&mut self, rank: Rank, slot: usize, kept: T) -> usize {
        let place = self.met.len();
        self.met.push((rank, kept));
        self.slots[slot] = RankPlace {
            rank: rank.0,
            place: place as u32,
        };
        if 2 * self.met.len() > self.slots.len() {
            self.widen();
        }
        place
    }

    /// Twice as many slots.
    fn widen(&mut self) {
        self.slots = vec![EMPTY; 2 * self.slots.len()];
        for place in 0..self.met.len() {
            let rank = self.met[place].0;
            if let Err(slot) = self.find(rank) {
                self.slots[slot] = RankPlace {
                    rank: rank.0,
                    place: place as u32,
                };
            }
        }
    }

    /// All that were met.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, &T)> {
        self.met.iter().map(|(rank, kept)| (*rank, kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_rank_is_found_again_and_nothing_is_kept_of_others() {
        let mut peers = Peers::default();
        let ranks = [7, 0, 99_999, 3];
        for rank in ranks {
            *peers.meet(Rank(rank), || 0) += rank;
            *peers.meet(Rank(rank), || 1_000_000) += 1;
        }
        assert_eq!(peers.len(), ranks.len());
        let kept: Vec<(u32, u32)> = peers.iter().map(|(rank, kept)| (rank.0, *kept)).collect();
        assert_eq!(kept, ranks.map(|rank| (rank, rank + 1)), "in order");
        assert_eq!(peers.get(Rank(3)), Some(&4));
        assert_eq!(peers.get(Rank(1)), None);
        assert_eq!(peers.get_mut(Rank(1)), None);
    }

    #[test]
    fn numbers_that_follow_each_other_or_step_by_a_power_of_two_are_spread() {
        for step in [1, 2, 64, 1 << 12, 1 << 20] {
            let mut taken = [0; 256];
            (0..256).for_each(|i| taken[first_slot(i * step, 256)] += 1);
            let most = taken.iter().max();
            assert!(most <= Some(&8), "{step}: {most:?} at one place");
        }
    }

    #[test]
    fn many_are_found_whatever_their_numbers() {
        for step in [1, 3, 256, 1 << 16] {
            let mut peers = Peers::default();
            let ranks = (0..5_000_u32).map(|i| Rank(i.wrapping_mul(step)));
            for rank in ranks.clone() {
                peers.meet(rank, || rank);
            }
            assert_eq!(peers.len(), 5_000);
            assert!(ranks.clone().all(|rank| peers.get(rank) == Some(&rank)));
            assert_eq!(peers.get(Rank(u32::MAX)), None);
        }
    }
}
