//! Doing: where a worker's time went.
//!
//! # Law
//! The activities of a worker follow one another without a gap from the first rank's beginning to the
//! last one's end.

use super::{Message, RankTrace, Slice, Span, Trace};
use std::ops::Range;

/// What a worker did for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// From when to when.
    pub span: Span,
    /// What.
    pub doing: Doing,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs the body of a task, by the index of its slice on its rank.
    Body(usize),
    /// It is in the engine while tasks are at hand, or data that came: between bodies.
    Runtime,
    /// It has nothing to do.
    Idle(Cause),
}

/// Why a worker has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Its rank had not begun, or no task had been announced: opening.
    Opening,
    /// No task of its rank was ready, and no data for it were under way: others compute what it needs.
    NothingReady,
    /// No task of its rank was ready, and data for it were under way: posted, and not all there.
    DataUnderWay,
    /// A task of its rank was ready, or data for it had come, and no worker took them: policy, patience,
    /// waking up.
    Policy,
    /// All tasks of its rank had ended: closing.
    Closing,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 5] = [
        Cause::Opening,
        Cause::NothingReady,
        Cause::DataUnderWay,
        Cause::Policy,
        Cause::Closing,
    ];

    /// As people read it.
    pub fn shown(self) -> &'static str {
        match self {
            Cause::Opening => "opening",
            Cause::NothingReady => "nothing ready",
            Cause::DataUnderWay => "data under way",
            Cause::Policy => "ready elsewhere (policy)",
            Cause::Closing => "closing",
        }
    }
}

impl Trace {
    /// What a worker of a rank did, by their indices, from the beginning to the end.
    ///
    /// Costs a look at the rank's tasks and messages.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn activities(&self, rank: usize, worker: usize) -> Vec<Activity> {
        self.activities_of(rank).swap_remove(worker)
    }

    /// The same of all workers of a rank.
    pub fn activities_of(&self, rank: usize) -> Vec<Vec<Activity>> {
        let states = States::of(self, rank);
        let of_rank = &self.ranks[rank];
        let workers = of_rank.workers.iter();
        let each = workers.map(|worker| {
            let visits = merged(worker.visits.clone());
            let mut activities = Vec::new();
            let mut now = 0;
            for (body, index) in pieces(&of_rank.slices, worker.slices.clone()) {
                let begin = body.begin.max(now);
                states.fill(
                    Span {
                        begin: now,
                        end: begin,
                    },
                    &visits,
                    &mut activities,
                );
                now = body.end.max(begin);
                push(
                    &mut activities,
                    Span { begin, end: now },
                    Doing::Body(index),
                );
            }
            let end = self.length().max(now);
            states.fill(Span { begin: now, end }, &visits, &mut activities);
            activities
        });
        each.collect()
    }
}

/// When which body ran on a worker: of a task with tasks of its own what is left beside those.
pub(super) fn pieces(slices: &[Slice], of: Range<usize>) -> Vec<(Span, usize)> {
    let mut pieces = Vec::with_capacity(of.len());
    // Those that are not over, the innermost last.
    let mut open: Vec<usize> = Vec::new();
    let mut now = 0;
    let mut close = |open: &mut Vec<usize>, now: &mut u64, until: u64| {
        while let Some(&index) = open.last() {
            let end = slices[index].span.end.min(until);
            pieces.push((
                Span {
                    begin: (*now).min(end),
                    end,
                },
                index,
            ));
            *now = end.max(*now);
            if slices[index].span.end > until {
                return;
            }
            open.pop();
        }
    };
    for index in of {
        let begin = slices[index].span.begin;
        close(&mut open, &mut now, begin);
        now = begin.max(now);
        open.push(index);
    }
    close(&mut open, &mut now, u64::MAX);
    pieces
}

/// What a rank could have done, by time.
struct States {
    /// The first worker enters, and the last task ends.
    opened: u64,
    closed: u64,
    /// When a task was ready and did not run.
    ready: Vec<Span>,
    /// When data for the rank were under way.
    under_way: Vec<Span>,
    /// When data for the rank had come and no worker had taken them in.
    lying: Vec<Span>,
}

impl States {
    fn of(trace: &Trace, rank: usize) -> Self {
        let of: &RankTrace = &trace.ranks[rank];
        let visits = of.workers.iter().flat_map(|worker| worker.visits.first());
        let opened = visits.map(|visit| visit.begin).min();
        let ready = of.slices.iter().map(|slice| Span {
            begin: slice.ready,
            end: slice.span.begin,
        });
        let messages = trace.messages().iter();
        let to_here = messages.filter(|message| message.to == rank);
        let lying = to_here.clone().map(Message::lying);
        States {
            opened: opened.unwrap_or(of.span.begin),
            closed: of
                .slices
                .iter()
                .map(|slice| slice.span.end)
                .max()
                .unwrap_or(0),
            ready: merged(ready.collect()),
            under_way: merged(to_here.map(Message::under_way).collect()),
            lying: merged(lying.collect()),
        }
    }

    /// What a worker does in a span without a body, piece by piece.
    fn fill(&self, span: Span, visits: &[Span], into: &mut Vec<Activity>) {
        let mut now = span.begin;
        while now < span.end {
            let lists = [&self.ready[..], &self.lying, &self.under_way, visits];
            let turns = lists.map(|list| turn(list, now));
            let bounds = [self.opened, self.closed]
                .into_iter()
                .filter(|&at| at > now);
            let next = turns.into_iter().flatten().chain(bounds).min();
            let end = next.unwrap_or(span.end).min(span.end);
            push(into, Span { begin: now, end }, self.at(now, visits));
            now = end;
        }
    }

    /// Whether a worker could have taken something.
    fn is_at_hand(&self, now: u64) -> bool {
        covers(&self.ready, now) || covers(&self.lying, now)
    }

    fn at(&self, now: u64, visits: &[Span]) -> Doing {
        match () {
            () if now < self.opened => Doing::Idle(Cause::Opening),
            () if now >= self.closed => Doing::Idle(Cause::Closing),
            () if self.is_at_hand(now) && covers(visits, now) => Doing::Runtime,
            () if self.is_at_hand(now) => Doing::Idle(Cause::Policy),
            () if covers(&self.under_way, now) => Doing::Idle(Cause::DataUnderWay),
            () => Doing::Idle(Cause::NothingReady),
        }
    }
}

/// Spans that do not touch, ascending, which cover the same.
pub(super) fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for span in spans.into_iter().filter(|span| span.length() > 0) {
        match merged.last_mut() {
            Some(last) if span.begin <= last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// The first of merged spans that ends later.
fn next(spans: &[Span], now: u64) -> Option<&Span> {
    spans.get(spans.partition_point(|span| span.end <= now))
}

fn covers(spans: &[Span], now: u64) -> bool {
    next(spans, now).is_some_and(|span| span.begin <= now)
}

/// When it changes next whether one of the spans covers the time.
fn turn(spans: &[Span], now: u64) -> Option<u64> {
    next(spans, now).map(|span| match span.begin <= now {
        true => span.end,
        false => span.begin,
    })
}

/// Appends what is done, as one with what was done before if that is the same.
fn push(into: &mut Vec<Activity>, span: Span, doing: Doing) {
    match into.last_mut() {
        Some(last) if last.doing == doing => last.span.end = span.end,
        _ if span.length() == 0 && !matches!(doing, Doing::Body(_)) => {}
        _ => into.push(Activity { span, doing }),
    }
}
