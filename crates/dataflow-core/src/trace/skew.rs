//! Skew: by how much one clock is ahead of another, at some moments.
//!
//! # Law
//! Between two moments it changes evenly, and beyond them as it did last: clocks of machines drift
//! apart by some microseconds a second. Where it was measured by a message there and back, it is known
//! to half of the time that took; a way that is always longer there than back cannot be seen.
//! Where there are more than two moments, the error has in it what the drift may have changed between
//! them, by how much it has changed at them.

use super::Trace;

/// By how much a clock is ahead of another.
///
/// # Examples
/// The other clock sent at 1000 and had the answer at 1080; this one showed 5040 between them:
/// ```
/// use dataflow_core::trace::Skew;
///
/// let mut skew = Skew::default();
/// skew.add([[1000, 5040, 1080], [2000, 6300, 2500]]); // the quicker of two trips counts
/// assert_eq!((skew.ahead(5040), skew.error()), (4000, 40));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// By time.
    points: Vec<SkewPoint>,
}

/// How far ahead a clock is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SkewPoint {
    /// When, by this clock.
    pub at: u64,
    /// Nanoseconds.
    pub ahead: i64,
    /// How wrong that may be.
    pub error: u64,
}

/// Moments closer than this, in nanoseconds, say nothing of how the drift changes.
const CLOSE: u64 = 400_000_000;

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
            self.push(SkewPoint {
                at: answered,
                ahead,
                error: there_and_back.div_ceil(2),
            });
        }
    }

    /// The same of a clock that is the other one itself, as far as is known: ranks of one machine ask one
    /// system for the time. If the trips say that they cannot, it was another after all.
    pub fn add_same(&mut self, trips: impl IntoIterator<Item = [u64; 3]>) {
        let trips: Vec<[u64; 3]> = trips.into_iter().collect();
        let is_between = |[sent, answered, back]: &[u64; 3]| (sent..=back).contains(&answered);
        match trips.last() {
            Some(&[_, at, _]) if trips.iter().all(is_between) => self.push(SkewPoint {
                at,
                ahead: 0,
                error: 0,
            }),
            _ => self.add(trips),
        }
    }

    /// Whether messages say nothing of it: it is known, or was never measured.
    pub(super) fn is_exact(&self) -> bool {
        self.points.iter().all(|point| point.error == 0)
    }

    pub(super) fn push(&mut self, point: SkewPoint) {
        self.points.push(point);
        self.points.sort_unstable();
    }

    /// By how many nanoseconds it is ahead when it shows this.
    pub fn ahead(&self, at: u64) -> i64 {
        let after = self.points.partition_point(|point| point.at <= at);
        let last = self.points.len().saturating_sub(1);
        let first = after.saturating_sub(1).min(last.saturating_sub(1));
        match self.points.get(first..) {
            None | Some([]) => 0,
            Some([one]) => one.ahead,
            Some([from, to, ..]) if from.at == to.at => to.ahead,
            Some([from, to, ..]) => {
                let past = at as i64 - from.at as i64;
                let part = past as f64 / (to.at - from.at) as f64;
                from.ahead + ((to.ahead - from.ahead) as f64 * part).round() as i64
            }
        }
    }

    /// How wrong that may be, nanoseconds.
    pub fn error(&self) -> u64 {
        self.error_during(0, u64::MAX)
    }

    /// The same from one moment to another.
    fn error_during(&self, from: u64, to: u64) -> u64 {
        let last = self.points.len().saturating_sub(2);
        let pairs = self.points.windows(2).enumerate();
        // Beyond the ends it goes on as in the first and the last stretch.
        let counts = pairs.filter(|(number, pair)| {
            (*number == last || pair[1].at >= from) && (*number == 0 || pair[0].at <= to)
        });
        let errors = counts.map(|(number, pair)| {
            pair[0].error.max(pair[1].error) + self.bend(number, pair[1].at - pair[0].at)
        });
        let alone = self.points.first().map_or(0, |point| point.error);
        errors.max().unwrap_or(alone)
    }

    /// How far from a straight line it may be in the stretch behind a point, of that length: if the
    /// drift changes once in it, by as much as it does from before the stretch until after it.
    fn bend(&self, number: usize, length: u64) -> u64 {
        let turns = [self.turn(number), self.turn(number + 1)];
        let bend = match turns {
            [Some(begin), Some(end)] => (begin + end) / 4.0,
            // It may have changed just behind the end at which that is not seen.
            [one, other] => one.or(other).unwrap_or(0.0),
        };
        (bend * length as f64).ceil() as u64
    }

    /// By how much the drift changes at a point at most, nanoseconds a nanosecond; `None` if nothing is
    /// known of it before or after.
    fn turn(&self, number: usize) -> Option<f64> {
        let point = self.points.get(number)?;
        let (before, after) = (&self.points[..number], &self.points[number..]);
        let is_far = |other: &&SkewPoint| other.at.abs_diff(point.at) >= CLOSE;
        let before = before.iter().rev().find(is_far)?;
        let after = after.iter().find(is_far)?;
        let drift = |from: &SkewPoint, to: &SkewPoint| {
            let length = (to.at - from.at) as f64;
            let error = (from.error + to.error) as f64;
            ((to.ahead - from.ahead) as f64 / length, error / length)
        };
        let ((first, wrong), (second, too)) = (drift(before, point), drift(point, after));
        Some((second - first).abs() + wrong + too)
    }
}

impl Trace {
    /// The same by the clock of another rank, of which this one's is ahead so much.
    pub fn by_another_clock(mut self, skew: &Skew) -> Trace {
        let moved = |at: u64| at.saturating_add_signed(-skew.ahead(at));
        let (before, epoch) = (self.epoch, moved(self.epoch));
        self.epoch = epoch;
        self.clock_error += skew.error_during(before, before + self.length());
        let middle = skew.ahead(before + self.length() / 2);
        self.ranks
            .iter_mut()
            .for_each(|rank| rank.clock_ahead += middle);
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
    fn one_clock_of_two_ranks_is_exact_unless_a_message_says_that_there_are_two() {
        let mut skew = Skew::default();
        skew.add_same([[100, 150, 300], [400, 410, 410]]);
        assert_eq!((skew.ahead(250), skew.error()), (0, 0));
        // A machine that was copied while it ran has the name of its original.
        for answered in [399, 411] {
            let mut skew = Skew::default();
            skew.add_same([[100, 150, 300], [400, answered, 410]]);
            assert_eq!(skew.error(), 5, "{answered}");
        }
        let mut skew = Skew::default();
        skew.add_same([]);
        assert_eq!(skew, Skew::default());
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
