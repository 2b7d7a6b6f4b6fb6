//! Data: which messages workers wait for.

use super::super::explanation::{Explanation, part, time};
use super::super::{Cause, Doing, Span, Trace};
use super::{MUCH, percent};
use crate::words::counted;
use std::collections::BTreeMap;

/// Messages from one rank to another, and nanoseconds that all of them took.
#[derive(Default)]
struct RankPair {
    n: u64,
    bytes: u64,
    /// How long the receiver's workers waited while they were under way, each worker by itself.
    waited: u128,
    /// From post to use; of that until they had left, from announced to asked for, and after they
    /// had come.
    time: u64,
    leaving: u64,
    waiting: u64,
    lying: u64,
}

impl RankPair {
    /// What of their time is not the way's, where it is much.
    fn ends(&self) -> String {
        let much = |spent: u64| part(spent, self.time) >= MUCH;
        let each = |spent: u64| time(spent / self.n.max(1));
        let mut ends = String::new();
        if much(self.leaving) {
            ends = format!(", up to {} of it before they had left", each(self.leaving));
        }
        if much(self.waiting) {
            ends += &format!(", {} of it before they were asked for", each(self.waiting));
        }
        if much(self.lying) {
            ends += &format!(", {} of it after they had come", each(self.lying));
        }
        ends
    }
}

/// How long the workers of a rank had waited for data under way, by time.
struct Waited {
    /// From when on how many wait, and how long all had waited until then.
    turns: Vec<(u64, i64, u128)>,
}

impl Waited {
    /// Costs n·log n for what the rank's workers did.
    fn of(trace: &Trace, rank: usize) -> Self {
        let mut steps = Vec::new();
        trace.each_activity(rank, |_, activity| {
            if activity.doing == Doing::Idle(Cause::DataUnderWay) {
                steps.extend([(activity.span.begin, 1), (activity.span.end, -1)]);
            }
        });
        steps.sort_unstable();
        let mut waited = Waited { turns: Vec::new() };
        let mut n_waiting = 0;
        for (at, step) in steps {
            n_waiting += step;
            waited.turns.push((at, n_waiting, waited.until(at)));
        }
        waited
    }

    /// Until a time, which may be later than all turns.
    fn until(&self, time: u64) -> u128 {
        let later = self.turns.partition_point(|(at, ..)| *at <= time);
        let before = self.turns[..later].last();
        before.map_or(0, |(at, n_waiting, until)| {
            until + u128::from(n_waiting.unsigned_abs()) * u128::from(time - at)
        })
    }

    fn during(&self, span: Span) -> u128 {
        self.until(span.end.max(span.begin)) - self.until(span.begin)
    }
}

/// The messages between each two ranks, by their indices.
fn pairs(trace: &Trace) -> BTreeMap<(usize, usize), RankPair> {
    let mut pairs: BTreeMap<(usize, usize), RankPair> = BTreeMap::new();
    for to in 0..trace.ranks.len() {
        let waited = Waited::of(trace, to);
        for message in trace.messages_to(to) {
            let pair = pairs.entry((message.from, to)).or_default();
            let left = message.left.unwrap_or(message.span.begin);
            let left = left.min(message.under_way().end); // the sender may hear of it late
            pair.n += 1;
            let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
            add(&mut pair.bytes, message.bytes);
            pair.waited += waited.during(message.under_way());
            add(&mut pair.time, message.span.length());
            add(&mut pair.leaving, left.saturating_sub(message.span.begin));
            add(&mut pair.waiting, message.waiting());
            add(&mut pair.lying, message.lying().length());
        }
    }
    pairs
}

/// Between which ranks the data are that others wait for longest: what comes late to who has enough to do
/// keeps nobody waiting.
pub(super) fn waits_for_data(trace: &Trace, told: &Explanation) -> String {
    let pairs = pairs(trace);
    let waited = percent(told.lost_to(Cause::DataUnderWay.shown()));
    match pairs.iter().max_by_key(|(_, pair)| pair.waited) {
        Some((&(from, to), pair)) => format!(
            "Workers wait for data under way {waited} of their time; longest from {} to {}: {} of {} bytes on average, {} from post to use{}.",
            trace.ranks[from].rank,
            trace.ranks[to].rank,
            counted(pair.n, "message"),
            pair.bytes / pair.n.max(1),
            time(pair.time / pair.n.max(1)),
            pair.ends(),
        ),
        None => format!("Workers wait for data under way {waited} of their time."),
    }
}
