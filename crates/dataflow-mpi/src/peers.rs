//! Peers: what is kept of every rank that this one has had to do with, and nothing of the others.
//!
//! A rank gets its place at first contact: so memory follows from the number of peers, not from that
//! of ranks, and whoever looks at all of them meets them in the order of first contact.

use dataflow_core::rank::Rank;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Something of each rank that was met.
#[derive(Debug)]
pub struct Peers<T> {
    places: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    met: Vec<(Rank, T)>,
}

impl<T> Default for Peers<T> {
    fn default() -> Self {
        Peers {
            places: HashMap::default(),
            met: Vec::new(),
        }
    }
}

impl<T> Peers<T> {
    /// How many were met.
    pub fn len(&self) -> usize {
        self.met.len()
    }

    /// What is kept of a rank, if it was met.
    pub fn get(&self, rank: Rank) -> Option<&T> {
        let place = *self.places.get(&rank.0)?;
        Some(&self.met[place as usize].1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, rank: Rank) -> Option<&mut T> {
        let place = *self.places.get(&rank.0)?;
        Some(&mut self.met[place as usize].1)
    }

    /// What is kept of a rank, which is met now if it was not before.
    pub fn meet(&mut self, rank: Rank, first: impl FnOnce() -> T) -> &mut T {
        let next = self.met.len() as u32;
        let place = *self.places.entry(rank.0).or_insert(next);
        if place == next {
            self.met.push((rank, first()));
        }
        &mut self.met[place as usize].1
    }

    /// All that were met.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, &T)> {
        self.met.iter().map(|(rank, kept)| (*rank, kept))
    }
}

/// Spreads numbers of ranks over a table: they are small, follow each other, and nobody chooses them
/// to collide.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    #[inline(always)]
    fn write_u32(&mut self, number: u32) {
        // 2^64 ÷ the golden ratio (Knuth, volume 3, section 6.4). The table takes its place from the
        // low bits, which a product mixes least, and tells neighbours apart by the high ones.
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
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
            for number in (0..256).map(|i| i * step) {
                let mut spread = Spread::default();
                spread.write_u32(number);
                taken[spread.finish() as usize % 256] += 1;
            }
            let most = taken.iter().max();
            assert!(most <= Some(&8), "{step}: {most:?} at one place");
        }
    }
}
