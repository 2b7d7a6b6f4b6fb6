//! Series: how a count of a rank changes over time.
//!
//! # Law
//! Steps come by time, each time once, and each changes the value.

use crate::message::Arrow;
use crate::view::View;
use dataflow_core::trace::At;
use std::collections::HashMap;

/// From this time on the count has this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub time: u64,
    pub value: u64,
}

/// Tasks of a rank that are ready and do not run yet.
pub(crate) fn ready(view: &View<'_>, rank: usize) -> Vec<Sample> {
    let slices = view.trace.ranks[rank].slices.iter();
    let waits = slices.filter(|slice| slice.ready < slice.span.begin);
    let begin = waits.clone().map(|slice| (slice.span.begin, -1));
    let changes = waits.map(|slice| (slice.ready, 1)).chain(begin);
    seen(view, samples(changes.collect()))
}

/// Tasks of a rank of whose inputs some are there and some are not: the engine has a record of each.
pub(crate) fn pending(view: &View<'_>, rank: usize) -> Vec<Sample> {
    let trace = view.trace;
    let came: HashMap<_, _> = trace
        .messages_to(rank)
        .map(|message| ((message.task, message.from), message.span.end))
        .collect();
    let there = |input: At| {
        let source = trace.slice(input);
        match input.rank == rank {
            true => Some(source.span.end),
            false => came.get(&(source.task, input.rank)).copied(),
        }
    };
    let mut changes = Vec::new();
    for (slice, of) in trace.ranks[rank].slices.iter().enumerate() {
        let first = trace.inputs(At { rank, slice }).filter_map(there).min();
        if let Some(first) = first.filter(|&first| first < of.ready) {
            changes.extend([(first, 1), (of.ready, -1)]);
        }
    }
    seen(view, samples(changes))
}

/// Bytes that a rank has taken in and still holds: until the last reader has ended. Of all
/// messages to it: what came before the window, or from a rank that is not seen, is held in it too.
pub(crate) fn held(view: &View<'_>, received: &[&Arrow]) -> Vec<Sample> {
    let changes = received.iter().flat_map(|arrow| {
        let bytes = i128::from(arrow.message.bytes);
        [(arrow.message.span.end, bytes), (arrow.released, -bytes)]
    });
    seen(view, samples(changes.collect()))
}

/// The sum of several series.
pub(crate) fn sum<'s>(series: impl Iterator<Item = &'s Vec<Sample>>) -> Vec<Sample> {
    let mut changes = Vec::new();
    for samples in series {
        let mut before = 0;
        for sample in samples {
            changes.push((sample.time, i128::from(sample.value) - before));
            before = i128::from(sample.value);
        }
    }
    samples(changes)
}

fn samples(mut changes: Vec<(u64, i128)>) -> Vec<Sample> {
    // Stable, since that merges what is sorted already: what each worker began.
    changes.sort_by_key(|(time, _)| *time);
    let mut samples = Vec::new();
    let mut value = 0;
    for same in changes.chunk_by(|(one, _), (other, _)| one == other) {
        let by: i128 = same.iter().map(|(_, by)| by).sum();
        value += by;
        if by != 0 {
            samples.push(Sample {
                time: same[0].0,
                value: u64::try_from(value.max(0)).unwrap_or(u64::MAX),
            });
        }
    }
    samples
}

/// The samples within the window, beginning with the value that it begins with.
fn seen(view: &View<'_>, mut samples: Vec<Sample>) -> Vec<Sample> {
    let span = view.span();
    let before = samples.partition_point(|sample| sample.time <= span.begin);
    if before > 0 {
        samples[before - 1].time = span.begin;
        samples.drain(..before - 1);
    }
    samples.truncate(samples.partition_point(|sample| sample.time <= span.end));
    samples
}

/// About so many samples: of each stretch of time the lowest, the highest and the last one.
pub(crate) fn thinned(samples: Vec<Sample>, points: usize) -> Vec<Sample> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return samples;
    };
    if samples.len() <= points {
        return samples;
    }
    let (begin, length) = (first.time, last.time - first.time + 1);
    let stretches = (points / 3).max(1) as u128;
    let stretch =
        |sample: &Sample| u128::from(sample.time - begin) * stretches / u128::from(length);
    let mut kept = Vec::new();
    for same in samples.chunk_by(|one, other| stretch(one) == stretch(other)) {
        let places = 0..same.len();
        let lowest = places.clone().min_by_key(|place| same[*place].value);
        let highest = places.max_by_key(|place| same[*place].value);
        let mut some = [lowest.unwrap_or(0), highest.unwrap_or(0), same.len() - 1];
        some.sort_unstable();
        kept.extend(some.map(|place| same[place]));
    }
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_say_each_time_once_and_end_at_nothing() {
        let found = samples(vec![(5, 1), (2, 1), (5, -1), (9, -1), (7, 0)]);
        assert_eq!(
            found,
            [Sample { time: 2, value: 1 }, Sample { time: 9, value: 0 }]
        );
    }

    /// It was nothing, for bytes beyond half of all numbers are negative as others.
    #[test]
    fn what_is_beyond_all_numbers_is_the_largest_number() {
        let most = i128::from(u64::MAX);
        let found = samples(vec![(1, most), (2, 1), (3, -most), (4, -1)]);
        let values = found.iter().map(|sample| sample.value);
        assert_eq!(values.collect::<Vec<_>>(), [u64::MAX, u64::MAX, 1, 0]);
    }

    #[test]
    fn thinned_samples_keep_the_lowest_and_the_highest() {
        let value = |time| (time * 7919) % 1009;
        let samples: Vec<_> = (0..10_000)
            .map(|time| Sample {
                time,
                value: value(time),
            })
            .collect();
        let thin = thinned(samples.clone(), 300);
        assert!(thin.len() <= 300 && thin.is_sorted_by_key(|sample| sample.time));
        let extremes = |samples: &[Sample]| {
            let values = samples.iter().map(|sample| sample.value);
            (values.clone().min(), values.max(), samples.last().copied())
        };
        assert_eq!(extremes(&thin), extremes(&samples));
    }
}
