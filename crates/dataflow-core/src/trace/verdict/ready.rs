//! Ready: why workers had too few tasks to choose from.

use super::super::doing::OwnTimes;
use super::super::explanation::{Explanation, part, time};
use super::super::{At, Cause, RankTrace, Slice, Trace};
use super::{MUCH, percent};
use crate::rank::Rank;
use crate::words::counted;

/// The part of the workers' time in which no task of their rank was ready, or none was left.
pub(super) fn too_little(told: &Explanation) -> f64 {
    too_little_by_cause(told).iter().sum()
}

/// Each of the two by itself.
fn too_little_by_cause(told: &Explanation) -> [f64; 2] {
    [Cause::NothingReady, Cause::Closing].map(|cause| told.lost_to(cause.shown()))
}

/// Why nothing was ready: a long body, a long chain, or work that lies on one rank.
pub(super) fn few_ready(trace: &Trace, told: &Explanation, own: &OwnTimes) -> String {
    let limits = &told.limits;
    let length = |at: &At| own.of(*at);
    let longest = limits.path_tasks.iter().max_by_key(|at| length(at));
    let is_path = part(limits.path, told.length) >= 0.7;
    if let Some(at) = longest
        && is_path
        && 2 * length(at) >= limits.path
    {
        return format!(
            "One body is most of the longest chain: {} takes {} of {}.",
            trace.shown(*at),
            time(length(at)),
            time(told.length),
        );
    }
    if !is_path && trace.ranks.len() > 1 && part(limits.area, told.length) >= 0.7 {
        return format!(
            "The work is spread unevenly: {} has {} for each of its workers, of {} in all.",
            limits.area_rank,
            time(limits.area),
            time(told.length),
        );
    }
    if part(limits.path, told.length) < 0.5 {
        let [nothing, done] = too_little_by_cause(told);
        return match nothing < MUCH && nothing < done {
            true => ends_unevenly(trace, told),
            false => runs_late(trace, told, own),
        };
    }
    let bodies = told.in_bodies() * told.n_workers as f64;
    format!(
        "There are too few tasks at a time: {bodies:.1} of {} workers are busy on average, and a chain of {} takes {} of {}.",
        told.n_workers,
        counted(limits.path_tasks.len(), "task"),
        time(limits.path),
        time(told.length),
    )
}

/// How much of their time workers have too little to do, each cause by its name.
fn waited(told: &Explanation) -> String {
    let [nothing, done] = too_little_by_cause(told);
    let is_seen = |part: f64| part >= 0.005; // as a percent
    match (is_seen(nothing), is_seen(done)) {
        (_, false) => format!("find nothing ready {} of their time", percent(nothing)),
        (false, true) => format!("are done before others {} of their time", percent(done)),
        (true, true) => format!(
            "find nothing ready {} of their time and are done before others {}",
            percent(nothing),
            percent(done),
        ),
    }
}

/// While a rank had tasks they were ready; but another one had none left, though it has not less work than
/// others by much.
fn ends_unevenly(trace: &Trace, told: &Explanation) -> String {
    let end = |rank: &&RankTrace| rank.slices.iter().map(|slice| slice.span.end).max();
    let ends = || trace.ranks.iter().filter(|rank| end(rank).is_some());
    let shown = |rank: Option<&RankTrace>| {
        let after = rank.as_ref().and_then(end).unwrap_or(0);
        let number = rank.map_or(Rank(0), |rank| rank.rank);
        format!("{number} after {}", time(after))
    };
    format!(
        "The ranks end unevenly: {}, {}; workers {}.",
        shown(ends().min_by_key(end)),
        shown(ends().max_by_key(end)),
        waited(told),
    )
}

/// Nothing was ready, though no long body, no long chain and no rank with more work than others is known.
fn runs_late(trace: &Trace, told: &Explanation, own: &OwnTimes) -> String {
    let waited = waited(told);
    // What follows a task waits for the tasks of its own too, which is not recorded.
    let is_nested = |(at, slice): (At, &Slice)| own.of(at) < slice.span.length();
    if trace.slices().any(is_nested) {
        return format!(
            "Workers {waited}; how long the longest chain is, is not known where tasks have tasks of their own."
        );
    }
    let limits = &told.limits;
    format!(
        "What is urgent runs late: workers {waited}, though the longest chain, of {}, takes {} of {}.",
        counted(limits.path_tasks.len(), "task"),
        time(limits.path),
        time(told.length),
    )
}
