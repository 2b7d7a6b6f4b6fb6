//! Doing: where a worker's time went.
//!
//! # Law
//! The activities of a worker follow one another without a gap from the first rank's beginning to the
//! last one's end.

use super::{At, Message, RankTrace, Slice, Span, Trace};
use std::ops::Range;

/// What a worker did for a while.
///
/// # Examples
/// A worker that runs one task and then has nothing to do while another one does:
/// ```
/// use dataflow_core::space::Independent;
/// use dataflow_core::trace::{Activity, Cause, Doing, Schedule, Span};
///
/// let mut schedule = Schedule::new(2);
/// schedule.ran(0, 0_u64, Span { begin: 0, end: 200 }, false);
/// schedule.ran(1, 1_u64, Span { begin: 0, end: 100 }, false);
/// let trace = schedule.trace(&Independent::new("tasks", 2, |_| Ok(())));
/// let idle = Activity {
///     span: Span { begin: 100, end: 200 },
///     doing: Doing::Idle(Cause::NothingReady),
/// };
/// assert_eq!(trace.activities(0, 1).last(), Some(&idle));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// From when to when.
    pub span: Span,
    /// What.
    pub doing: Doing,
}

/// What a worker does.
///
/// # Examples
/// See [`Activity`](Activity#examples).
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
///
/// # Examples
/// See [`Activity`](Activity#examples).
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
    /// All tasks of its rank that were recorded had ended: closing.
    Closing,
}

impl Cause {
    /// All of them, each in the place of its number (`cause as usize`).
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
    #[track_caller]
    pub fn activities(&self, rank: usize, worker: usize) -> Vec<Activity> {
        self.activities_of(rank).swap_remove(worker)
    }

    /// The same of all workers of a rank.
    pub fn activities_of(&self, rank: usize) -> Vec<Vec<Activity>> {
        let workers = self.ranks[rank].workers.iter();
        // A body, and what lies before it.
        let room = workers.map(|worker| Vec::with_capacity(2 * worker.slices.len()));
        let mut all: Vec<Vec<Activity>> = room.collect();
        self.each_activity(rank, |worker, activity| push(&mut all[worker], activity));
        all
    }

    /// The same one by one, worker by worker: of two that follow one another the second may only go on
    /// with the first, and some take no time.
    pub(super) fn each_activity(&self, rank: usize, mut hear: impl FnMut(usize, Activity)) {
        let of_rank = &self.ranks[rank];
        let states = States::of(self, rank);
        for (index, worker) in of_rank.workers.iter().enumerate() {
            let visits = merged(worker.visits.clone());
            let mut between = StatesBetween::of(&states, &visits);
            let mut hear = |begin, end, doing| {
                let span = Span { begin, end };
                hear(index, Activity { span, doing });
            };
            let mut now = 0;
            pieces(&of_rank.slices, worker.slices.clone(), |body, slice| {
                let begin = body.begin.max(now);
                between.fill(now, begin, &mut hear);
                now = body.end.max(begin);
                hear(begin, now, Doing::Body(slice));
            });
            between.fill(now, self.length(), &mut hear);
        }
    }
}

/// When which body ran on a worker: of a task with tasks of its own what is left beside those.
pub(super) fn pieces(slices: &[Slice], of: Range<usize>, mut hear: impl FnMut(Span, usize)) {
    // Those that are not over, the innermost last.
    let mut open: Vec<usize> = Vec::new();
    let mut now = 0;
    let mut close = |open: &mut Vec<usize>, now: &mut u64, until: u64| {
        while let Some(&index) = open.last() {
            let end = slices[index].span.end.min(until);
            let begin = (*now).min(end);
            hear(Span { begin, end }, index);
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
}

/// How long the body of each slice ran itself, by rank: without the tasks of its own, which are slices too.
pub(super) struct OwnTimes(pub Vec<Vec<u64>>);

impl OwnTimes {
    pub fn new(ranks: &[RankTrace]) -> Self {
        let of_rank = |rank: &RankTrace| {
            let mut own = vec![0; rank.slices.len()];
            for worker in &rank.workers {
                let add = |body: Span, slice: usize| own[slice] += body.length();
                pieces(&rank.slices, worker.slices.clone(), add);
            }
            own
        };
        OwnTimes(ranks.iter().map(of_rank).collect())
    }

    pub fn of(&self, at: At) -> u64 {
        self.0[at.rank][at.slice]
    }
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
        let to_here = trace.messages_to(rank);
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
}

/// The states as a worker meets them between bodies, ever later.
struct StatesBetween<'s> {
    opened: u64,
    closed: u64,
    ready: SpansLeft<'s>,
    under_way: SpansLeft<'s>,
    lying: SpansLeft<'s>,
    visits: SpansLeft<'s>,
}

impl<'s> StatesBetween<'s> {
    fn of(states: &'s States, visits: &'s [Span]) -> Self {
        StatesBetween {
            opened: states.opened,
            closed: states.closed,
            ready: SpansLeft(&states.ready),
            under_way: SpansLeft(&states.under_way),
            lying: SpansLeft(&states.lying),
            visits: SpansLeft(visits),
        }
    }

    /// What the worker does in a time without a body, piece by piece.
    fn fill(&mut self, begin: u64, end: u64, hear: &mut impl FnMut(u64, u64, Doing)) {
        let mut now = begin;
        while now < end {
            let (doing, turn) = self.at(now);
            let turn = turn.min(end);
            hear(now, turn, doing);
            now = turn;
        }
    }

    /// What it does, and when that may change next.
    fn at(&mut self, now: u64) -> (Doing, u64) {
        let mut turn = u64::MAX;
        for bound in [self.opened, self.closed] {
            if bound > now {
                turn = turn.min(bound);
            }
        }
        let mut covers = |spans: &mut SpansLeft| {
            let (covers, next) = spans.at(now);
            turn = turn.min(next);
            covers
        };
        // Whether it could have taken something.
        let is_at_hand = covers(&mut self.ready) | covers(&mut self.lying);
        let is_under_way = covers(&mut self.under_way);
        let is_here = covers(&mut self.visits);
        let doing = match () {
            () if now < self.opened => Doing::Idle(Cause::Opening),
            () if now >= self.closed => Doing::Idle(Cause::Closing),
            () if is_at_hand && is_here => Doing::Runtime,
            () if is_at_hand => Doing::Idle(Cause::Policy),
            () if is_under_way => Doing::Idle(Cause::DataUnderWay),
            () => Doing::Idle(Cause::NothingReady),
        };
        (doing, turn)
    }
}

/// Those of merged spans that are not over.
struct SpansLeft<'s>(&'s [Span]);

impl SpansLeft<'_> {
    /// Whether one of them covers a time, which is no earlier than the last one asked for; and when that
    /// changes next.
    fn at(&mut self, now: u64) -> (bool, u64) {
        if self.0.first().is_some_and(|span| span.end <= now) {
            let over = self.0.partition_point(|span| span.end <= now);
            self.0 = &self.0[over..];
        }
        match self.0.first() {
            Some(span) if span.begin <= now => (true, span.end),
            Some(span) => (false, span.begin),
            None => (false, u64::MAX),
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

/// How much of a span is covered by others, which are merged.
pub(super) fn covered(span: Span, by: &[Span]) -> u64 {
    let first = by.partition_point(|other| other.end <= span.begin);
    let touching = by[first..].iter();
    let touching = touching.take_while(|other| other.begin < span.end);
    let common = touching.map(|other| Span {
        begin: other.begin.max(span.begin),
        end: other.end.min(span.end),
    });
    common.map(|both| both.length()).sum()
}

/// Appends what is done, as one with what was done before if that is the same.
fn push(into: &mut Vec<Activity>, activity: Activity) {
    let Activity { span, doing } = activity;
    match into.last_mut() {
        Some(last) if last.doing == doing => last.span.end = span.end,
        _ if span.length() == 0 && !matches!(doing, Doing::Body(_)) => {}
        _ => into.push(activity),
    }
}
