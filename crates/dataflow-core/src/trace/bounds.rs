//! Bounds: how far a clock is ahead while a run goes on, by the messages that its rank exchanges anyway.
//!
//! # Law
//! Nothing comes before it was posted. So a message to a rank says how far its clock is ahead at most,
//! one from it how far at least; and of two that are close together both hold, up to what clocks may go
//! apart between them. Where that agrees with the drift that is known already, nothing is bent.
//!
//! # Source
//! Duda, Harrus, Haddad, Bernard, *Estimating global time in distributed systems*, ICDCS (1987).

use super::skew::{Skew, SkewPoint};
use super::{RankTrace, TaskNumber, Trace};
use crate::rank::Rank;
use std::collections::HashMap;

/// Clocks go apart by less than one part in so many: Linux slews a clock by half a thousandth at most.
const APART: i64 = 2000;
/// One moment is looked for in each stretch of so many nanoseconds, in the middle half of it: so moments
/// are about as far from each other as a stretch is long.
const STRETCH: u64 = 1_000_000_000;
/// Moments that are known less well than the best, by so many times, are left out.
const VAGUE: u64 = 100;

/// What one message says.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// When, by the clock that it is about.
    at: u64,
    /// How far that is ahead.
    ahead: i64,
    is_most: bool,
}

impl Skew {
    /// Adds what the messages of a run say that a rank, whose part is `own`, exchanged with `others`:
    /// their parts are by the clock that its own is compared with. Runs of less than two seconds are
    /// left alone, and so is a clock that was never compared, or is known to be the same one.
    ///
    /// Costs n·log n for n messages.
    pub fn add_messages(&mut self, own: &Trace, others: &[Trace]) {
        if self.is_exact() || own.length() < 2 * STRETCH {
            return;
        }
        let mut bounds = bounds(own, others);
        bounds.sort_unstable_by_key(|bound| bound.at);
        let stretches = bounds.chunk_by(|a, b| stretch(a) == stretch(b));
        let mut moments: Vec<SkewPoint> = stretches.filter_map(moment).collect();
        let best = moments.iter().map(|moment| moment.error).min();
        moments.retain(|moment| moment.error <= VAGUE * best.unwrap_or(0).max(1));
        let line = self.clone();
        for SkewPoint { at, ahead, error } in moments {
            let room = error as i64;
            let kept = line.ahead(at).clamp(ahead - room, ahead + room);
            self.push(SkewPoint {
                at,
                ahead: kept,
                error: error + kept.abs_diff(ahead),
            });
        }
    }
}

fn stretch(bound: &Bound) -> u64 {
    bound.at / STRETCH
}

/// What each message says, by the time of the clock in question.
fn bounds(own: &Trace, others: &[Trace]) -> Vec<Bound> {
    let own = MessageTimes::of(own);
    let mut bounds = Vec::new();
    for of in others {
        let other = MessageTimes::of(of);
        let error = of.clock_error as i64;
        let pairs = |posted: &MessageTimes, came: &MessageTimes| -> Vec<[u64; 2]> {
            let both = posted.posted.iter();
            let both = both.filter_map(|(message, at)| Some([*at, *came.came.get(message)?]));
            both.collect()
        };
        bounds.extend(
            pairs(&other, &own)
                .into_iter()
                .map(|[posted, there]| Bound {
                    at: there,
                    ahead: there as i64 - posted as i64 + error,
                    is_most: true,
                }),
        );
        bounds.extend(
            pairs(&own, &other)
                .into_iter()
                .map(|[posted, there]| Bound {
                    at: posted,
                    ahead: posted as i64 - there as i64 - error,
                    is_most: false,
                }),
        );
    }
    let is_in_the_middle =
        |bound: &Bound| (STRETCH / 4..STRETCH / 4 * 3).contains(&(bound.at % STRETCH));
    bounds.retain(is_in_the_middle);
    bounds
}

/// A message: outputs of which task, from whom, for whom.
type MessageKey = (TaskNumber, Rank, Rank);

/// When messages were posted by some ranks, and when they were there at them.
#[derive(Default)]
struct MessageTimes {
    posted: HashMap<MessageKey, u64>,
    came: HashMap<MessageKey, u64>,
}

impl MessageTimes {
    fn of(trace: &Trace) -> Self {
        let mut ends = MessageTimes::default();
        for RankTrace {
            rank, posted, came, ..
        } in &trace.ranks
        {
            let posted = posted.iter();
            let posted = posted.map(|of| ((of.task, *rank, of.to), trace.epoch + of.at));
            ends.posted.extend(posted);
            let came = came.iter();
            let there = |of: &super::Came| trace.epoch + of.there.unwrap_or(of.at);
            ends.came
                .extend(came.map(|of| ((of.task, of.from, *rank), there(of))));
        }
        ends
    }
}

/// The moment in a stretch at which most is known; bounds by time.
fn moment(stretch: &[Bound]) -> Option<SkewPoint> {
    let start = stretch.first()?.at;
    let since = |bound: &Bound| (bound.at - start) as i64 / APART;
    // The best so far for whatever comes later.
    let (mut least, mut most): (Option<Bound>, Option<Bound>) = (None, None);
    let mut best: Option<SkewPoint> = None;
    for &bound in stretch {
        let point = match bound.is_most {
            true => least.map(|least| between(least, bound)),
            false => most.map(|most| between(bound, most)),
        };
        let is_better = |point: &SkewPoint| best.is_none_or(|best| point.error < best.error);
        best = point.filter(is_better).or(best);
        let grows = |bound: &Bound| bound.ahead + since(bound);
        let shrinks = |bound: &Bound| bound.ahead - since(bound);
        if bound.is_most && most.is_none_or(|most| shrinks(&bound) < shrinks(&most)) {
            most = Some(bound);
        }
        if !bound.is_most && least.is_none_or(|least| grows(&bound) > grows(&least)) {
            least = Some(bound);
        }
    }
    best
}

/// What two bounds say of the moment between them.
fn between(least: Bound, most: Bound) -> SkewPoint {
    let apart = least.at.abs_diff(most.at);
    // Less than nothing if clocks went apart faster than they should: then neither is sure.
    let room = most.ahead - least.ahead + (apart as i64) / APART + 1;
    SkewPoint {
        at: least.at.min(most.at) + apart / 2,
        ahead: least.ahead + (most.ahead - least.ahead) / 2,
        error: room.unsigned_abs().div_ceil(2),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::trace::{Came, Posted, Span};
    use proptest::prelude::*;

    const START: u64 = 1_700_000_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    /// A clock that is ahead by so much, and whose drift in parts of a million changes at some times.
    #[derive(Clone, Debug)]
    struct Drifting {
        ahead: i64,
        /// From when on, after the start, it drifts so.
        drifts: Vec<(u64, i64)>,
    }

    impl Drifting {
        fn ahead(&self, at: u64) -> i64 {
            let since = at - START;
            let ends = self.drifts.iter().skip(1).map(|(from, _)| *from);
            let ends = ends.chain([u64::MAX]);
            let parts = self.drifts.iter().zip(ends);
            let parts = parts.map(|(&(from, drift), end)| {
                since.clamp(from, end).abs_diff(from) as i64 / 1_000 * drift / 1_000
            });
            self.ahead + parts.sum::<i64>()
        }

        fn shows(&self, at: u64) -> u64 {
            at.saturating_add_signed(self.ahead(at))
        }
    }

    /// A run of so many seconds of a rank with the right clock and one with another, with a message each
    /// way so often, each under way for so long.
    fn run(clock: &Drifting, seconds: u64, every: u64, ways: &[u64]) -> [Trace; 2] {
        let span = Span {
            begin: 0,
            end: seconds * SECOND,
        };
        let mut first = RankTrace::new(Rank(0), span, Vec::new());
        let mut second = RankTrace::new(Rank(1), span, Vec::new());
        let began = clock.shows(START);
        let here = |at: u64| at - START;
        let there = |at: u64| clock.shows(at) - began;
        let times = (START..START + span.end).step_by(every as usize);
        for (number, (at, &way)) in times.zip(ways.iter().cycle()).enumerate() {
            let (task, bytes) = (number as u64, 8);
            let (left, is_there) = (None, None);
            let is_to = number % 2 == 0;
            let posted = |at, to| Posted {
                task,
                at,
                to,
                bytes,
                left,
            };
            let came = |at, from| Came {
                task,
                at,
                from,
                bytes,
                there: is_there,
                ..Came::default()
            };
            match is_to {
                true => {
                    first.posted.push(posted(here(at), Rank(1)));
                    second.came.push(came(there(at + way), Rank(0)));
                }
                false => {
                    second.posted.push(posted(there(at), Rank(0)));
                    first.came.push(came(here(at + way), Rank(1)));
                }
            }
        }
        let epochs = [START, began];
        let mut ranks = [first, second].into_iter();
        epochs.map(|epoch| {
            let mut trace = Trace::new("run", ["Task"], ranks.next().into_iter().collect());
            trace.epoch = epoch;
            trace
        })
    }

    /// What was found before and after the run, by messages there and back of 2 µs.
    fn compared(clock: &Drifting, seconds: u64) -> Skew {
        let mut skew = Skew::default();
        for at in [START, START + seconds * SECOND] {
            skew.add([[at, clock.shows(at + 1_000), at + 2_000]]);
        }
        skew
    }

    /// By how much a corrected time is wrong at most.
    fn wrong(clock: &Drifting, skew: &Skew, seconds: u64) -> u64 {
        let times = (START..START + seconds * SECOND).step_by(10_000_007);
        let wrong = times.map(|at| {
            let shown = clock.shows(at);
            shown.saturating_add_signed(-skew.ahead(shown)).abs_diff(at)
        });
        wrong.max().unwrap_or(0)
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, nothing unsafe: minutes of Miri")]
    fn messages_find_what_a_straight_line_between_opening_and_closing_does_not() {
        let drifts = vec![(0, 10), (10 * SECOND, 40)];
        let clock = Drifting {
            ahead: 5_000_000,
            drifts,
        };
        let mut skew = compared(&clock, 20);
        let before = wrong(&clock, &skew, 20);
        // 30 parts of a million, over half of twenty seconds, in the middle of them.
        assert!(
            (149_000..151_000).contains(&before) && skew.error() < 1_100,
            "{before} ns"
        );
        let [first, second] = run(&clock, 20, 4_000_000, &[20_000, 35_000, 9_000]);
        skew.add_messages(&second, &[first]);
        let after = wrong(&clock, &skew, 20);
        assert!(
            after <= skew.error() && after < before / 5,
            "{after} of {}, {before} before",
            skew.error()
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, nothing unsafe: minutes of Miri")]
    fn a_drift_that_messages_agree_with_is_not_bent() {
        let clock = Drifting {
            ahead: -7_000,
            drifts: vec![(0, 20)],
        };
        let line = compared(&clock, 5);
        let mut skew = line.clone();
        let [first, second] = run(&clock, 5, 1_000_000, &[20_000]);
        skew.add_messages(&second, &[first]);
        assert_ne!(skew, line, "moments were found");
        for at in 0..50 {
            let at = START + at * 100_000_000;
            assert!(skew.ahead(at).abs_diff(line.ahead(at)) <= 1, "{at}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, nothing unsafe: minutes of Miri")]
    fn short_runs_and_clocks_that_are_one_or_were_never_compared_are_left_alone() {
        let clock = Drifting {
            ahead: 0,
            drifts: vec![(0, 0)],
        };
        let [first, second] = run(&clock, 1, 1_000_000, &[20_000]);
        let mut skew = compared(&clock, 1);
        skew.add_messages(&second, &[first]);
        assert_eq!(skew, compared(&clock, 1));
        let [first, second] = run(&clock, 5, 1_000_000, &[20_000]);
        let mut skew = Skew::default();
        skew.add_messages(&second, std::slice::from_ref(&first));
        assert_eq!(skew, Skew::default());
        let one = || {
            let mut skew = Skew::default();
            skew.add_same([[START, START + 1, START + 2]]);
            skew
        };
        let mut skew = one();
        skew.add_messages(&second, &[first]);
        assert_eq!(skew, one());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Drifts that change every few seconds, and ways of random length: what is stated holds.
        #[test]
        #[cfg_attr(miri, ignore = "many messages and nothing unsafe: ten minutes of Miri a case")]
        fn times_are_right_to_the_stated_error_though_clocks_drift_unevenly(
            ahead in -1_000_000_000i64..1_000_000_000,
            changes in prop::collection::vec((4 * SECOND..8 * SECOND, -40i64..40), 1..6),
            ways in prop::collection::vec(2_000u64..200_000, 1..40),
            every in 200_000u64..20_000_000,
        ) {
            let mut from = 0;
            let mut drifts = Vec::new();
            for (lasts, drift) in changes {
                drifts.push((from, drift));
                from += lasts;
            }
            let seconds = from / SECOND;
            let clock = Drifting { ahead, drifts };
            let mut skew = compared(&clock, seconds);
            let [first, second] = run(&clock, seconds, every, &ways);
            skew.add_messages(&second, &[first]);
            let wrong = wrong(&clock, &skew, seconds);
            // A step of the drift, and roundings.
            prop_assert!(wrong <= skew.error() + 60, "{wrong} of {}", skew.error());
        }
    }
}
