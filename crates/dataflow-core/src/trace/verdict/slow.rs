//! Slow: a rank whose bodies take longer than the same bodies elsewhere.

use super::super::doing::OwnTimes;
use super::super::explanation::{Explanation, part};
use super::super::{Fate, Trace};
use super::MUCH;
use std::collections::BTreeMap;

/// A rank is slow if its bodies take so many times as long as the same bodies elsewhere, and much of its
/// time for that.
const SLOW: f64 = 1.5;

/// The rank whose bodies take longer than the same bodies of the others; what was skipped or failed may have
/// taken no time.
pub(super) fn slow_rank(trace: &Trace, told: &Explanation, own: &OwnTimes) -> Option<String> {
    if trace.ranks.len() < 2 {
        return None;
    }
    let bodies = Bodies::by_class(trace, own);
    let ratio = |rank: usize| -> Option<f64> {
        // What this rank's bodies took, and what they would have taken elsewhere. By the median: one
        // long body makes no slow rank.
        let (mut took, mut would) = (0_u128, 0_u128);
        for of_class in &bodies {
            let here = &of_class.by_rank[rank];
            if let (Some(own), Some(other)) = (here.get(here.len() / 2), of_class.elsewhere(rank)) {
                let n = here.len() as u128;
                took += n * u128::from(*own);
                would += n * u128::from(other);
            }
        }
        // A few short bodies explain nothing, however much longer they take.
        let time = u128::from(told.length) * trace.ranks[rank].workers.len() as u128;
        let is_much = part(took.saturating_sub(would), time) >= MUCH;
        (would > 0 && is_much).then(|| took as f64 / would as f64)
    };
    let ratios = (0..trace.ranks.len()).filter_map(|rank| Some((rank, ratio(rank)?)));
    let (rank, ratio) = ratios.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (ratio >= SLOW).then(|| {
        let rank = trace.ranks[rank].rank;
        format!("{rank} is slow: its bodies take {ratio:.1} times as long as the same elsewhere.")
    })
}

/// How long the bodies of a class took, ascending: on each rank, and on all of them.
struct Bodies {
    by_rank: Vec<Vec<u64>>,
    all: Vec<u64>,
}

impl Bodies {
    fn by_class(trace: &Trace, own: &OwnTimes) -> Vec<Bodies> {
        let mut classes: BTreeMap<u16, Vec<Vec<u64>>> = BTreeMap::new();
        let ran = trace.slices().filter(|(_, slice)| slice.fate == Fate::Ran);
        for (at, slice) in ran {
            let of_class = classes.entry(slice.class);
            let of_class = of_class.or_insert_with(|| vec![Vec::new(); trace.ranks.len()]);
            of_class[at.rank].push(own.of(at));
        }
        classes.into_values().map(Bodies::sorted).collect()
    }

    fn sorted(mut by_rank: Vec<Vec<u64>>) -> Self {
        let mut all = by_rank.concat();
        all.sort_unstable();
        by_rank.iter_mut().for_each(|own| own.sort_unstable());
        Bodies { by_rank, all }
    }

    /// The median of all but those of a rank: found in what is sorted, without a list of theirs.
    fn elsewhere(&self, rank: usize) -> Option<u64> {
        let own = &self.by_rank[rank];
        let middle = (self.all.len() - own.len()) / 2;
        let up_to = |lengths: &[u64], most: u64| lengths.partition_point(|&length| length <= most);
        let is_below = |&length: &u64| up_to(&self.all, length) - up_to(own, length) <= middle;
        self.all.get(self.all.partition_point(is_below)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_elsewhere_is_that_of_the_list_of_all_others() {
        let mut number = 1_u64;
        let mut next = |below: u64| {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1);
            (number >> 33) % below
        };
        for most in [1, 3, 40] {
            let mut bodies = || (0..next(9)).map(|_| next(most)).collect::<Vec<u64>>();
            let by_rank: Vec<_> = (0..7).map(|_| bodies()).collect();
            let sorted = Bodies::sorted(by_rank.clone());
            for rank in 0..by_rank.len() {
                let mut others = by_rank.clone();
                others.remove(rank);
                let mut others = others.concat();
                others.sort_unstable();
                let median = others.get(others.len() / 2).copied();
                assert_eq!(sorted.elsewhere(rank), median, "{by_rank:?} {rank}");
            }
        }
        assert_eq!(Bodies::sorted(vec![vec![5, 3], vec![]]).elsewhere(0), None);
    }
}
