//! Skew: by how much one clock is ahead of another, at some moments.
//!
//! # Law
//! Between two moments it changes evenly, and beyond them as it did last: clocks of machines drift
//! apart by some microseconds a second. Where it was measured by a message there and back, it is known
//! to half of the time that took; a way that is always longer there than back cannot be seen.

use super::Trace;

/// By how much a clock is ahead of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// (when by the one clock, nanoseconds by which it is ahead, how wrong that may be), ascending.
    points: Vec<(u64, i64, u64)>,
}

impl Skew {
    /// Adds what was found when a message was sent and its answer came, by the other clock, and was
    /// answered in between, by this one: nanoseconds, the best of some.
    pub fn add(&mut self, trips: impl IntoIterator<Item = [u64; 3]>) {
        let best = trips
            .into_iter()
            .min_by_key(|[sent, _, back]| back.saturating_sub(*sent));
        if let Some([sent, answered, back]) = best {
            let there_and_back = back.saturating_sub(sent);
            let middle = sent + there_and_back / 2;
            let ahead = answered as i64 - middle as i64;
            self.points
                .push((answered, ahead, there_and_back.div_ceil(2)));
            self.points.sort_unstable();
        }
    }

    /// By how many nanoseconds it is ahead when it shows this.
    pub fn ahead(&self, at: u64) -> i64 {
        let after = self.points.partition_point(|point| point.0 <= at);
        let last = self.points.len().saturating_sub(1);
        let first = after.saturating_sub(1).min(last.saturating_sub(1));
        match self.points.get(first..) {
            None | Some([]) => 0,
            Some([one]) => one.1,
            Some([from, to, ..]) if from.0 == to.0 => to.1,
            Some([from, to, ..]) => {
                let part = (at as f64 - from.0 as f64) / (to.0 - from.0) as f64;
                from.1 + ((to.1 - from.1) as f64 * part).round() as i64
            }
        }
    }

    /// How wrong that may be, nanoseconds.
    pub fn error(&self) -> u64 {
        self.points.iter().map(|point| point.2).max().unwrap_or(0)
    }
}

impl Trace {
    /// The same by the clock of another rank, of which this one's is ahead so much.
    pub fn by_another_clock(mut self, skew: &Skew) -> Trace {
        let moved = |at: u64| at.saturating_add_signed(-skew.ahead(at));
        let (before, epoch) = (self.epoch, moved(self.epoch));
        self.epoch = epoch;
        self.clock_error = self.clock_error.max(skew.error());
        let each = |time: &mut u64| *time = moved(before + *time).saturating_sub(epoch);
        self.ranks
            .iter_mut()
            .for_each(|rank| rank.change_times(each));
        self
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rank::Rank;
    use crate::trace::{RankTrace, Slice, Span};
    use proptest::prelude::*;

    #[test]
    fn the_shortest_way_there_and_back_says_how_far_ahead() {
        let mut skew = Skew::default();
        assert_eq!((skew.ahead(5), skew.error()), (0, 0));
        skew.add([[100, 1_200, 300], [400, 1_455, 410], [500, 1_600, 900]]);
        assert_eq!(
            (skew.ahead(0), skew.ahead(9_999), skew.error()),
            (1_050, 1_050, 5)
        );
    }

    #[test]
    fn between_two_moments_a_clock_drifts_evenly_and_beyond_as_it_did() {
        let mut skew = Skew::default();
        skew.add([[0, 1_000, 0]]);
        skew.add([[1_000_000, 1_001_200, 1_000_000]]);
        let told = [1_000, 501_100, 1_001_200, 2_001_400].map(|at| skew.ahead(at));
        assert_eq!(told, [1_000, 1_100, 1_200, 1_400]);
    }

    proptest! {
        /// A clock that is ahead and drifts, ways of random length: what happens is put where it was,
        /// up to what is stated.
        #[test]
        fn corrected_times_are_right_to_the_stated_error(
            ahead in -1_000_000_000i64..1_000_000_000, drift in -50i64..50,
            trips in prop::collection::vec((100u64..20_000, 100u64..20_000), 2..40),
            event in 0u64..10_000_000_000,
        ) {
            const START: u64 = 2_000_000_000;
            // What the other rank's clock shows; drift in parts of a million.
            let shows = |at: u64| at.saturating_add_signed(ahead + at as i64 / 1_000_000 * drift);
            let mut skew = Skew::default();
            for at in [START, START + 10_000_000_000] {
                skew.add(trips.iter().map(|&(there, back)| [at, shows(at + there), at + there + back]));
            }
            let slice = Slice { span: Span { begin: 0, end: 0 }, ..Slice::default() };
            let rank = RankTrace::new(Rank(1), Span::default(), vec![vec![slice]]);
            let mut trace = Trace::new("one", ["One"], vec![rank]);
            trace.epoch = shows(START + event);
            let corrected = trace.by_another_clock(&skew);
            let wrong = corrected.epoch.abs_diff(START + event);
            // A step of the drift, and roundings.
            prop_assert!(wrong <= corrected.clock_error + 60, "{wrong} of {}", corrected.clock_error);
        }
    }
}
