//! Trace: what a run did when, and why it was not faster.
//!
//! An [executor](crate::port::Executor) may have a [`Tracer`]; then every run on it leaves a
//! [`Trace`]: which worker ran which task when, what the task waited for, what came from other ranks.
//! All that can be computed after the run is computed then: when a task became ready, which input was the
//! last, why a worker had nothing to do.
//!
//! # Law
//! A run writes notes only into memory allocated before it (in virtual time: allocated as needed); notes that
//! do not fit are counted ([`RankTrace::missing`]). The parts of a worker's time sum up to the whole, to the nanosecond.
//! Nested tasks of a sequence are slices of their own inside their parent's; a scope or a recursion that
//! any other body runs is a part of that body. When a call of a recursion completes calls above it, joining
//! their results is one slice of the class `join`, however many calls are joined.
//! A run that ends before all its tasks are done leaves its trace too, which says how many are not
//! ([`RankTrace::undone`]).
//!
//! # Elsewhere
//! Files and pictures: the crate `dataflow-trace`.

mod aside;
mod bounds;
mod clock;
mod doing;
mod explain;
mod explanation;
mod limits;
mod links;
mod mailed;
mod named;
mod note;
mod parameters;
mod schedule;
mod shown;
mod skew;
mod tracer;
mod travel;
mod verdict;

pub(crate) use aside::Aside;
pub use clock::Clock;
pub use doing::{Activity, Cause, Doing};
pub use explanation::{Explanation, Share};
pub use limits::Limits;
pub(crate) use mailed::Mailed;
pub(crate) use named::{Named, is_wide, number};
pub(crate) use note::Track;
pub use parameters::{ShownNumber, shown_numbers};
pub use schedule::Schedule;
pub use skew::Skew;
pub use tracer::Tracer;
pub(crate) use tracer::{Told, TracedRun};

use crate::rank::Rank;
use crate::space::Spelling;
use links::Links;
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of a task in a trace: the same on every rank.
pub type TaskNumber = u64;

/// What ranks recorded of one run, on one axis of time: nanoseconds since the first of them began
/// ([`epoch`](Self::epoch)).
///
/// # Examples
/// See [`Trace::new`], and [`Tracer`](Tracer#examples) for the trace of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The name of the space, of the program or of the recursion.
    pub name: String,
    /// Its parameters by name.
    pub parameters: Vec<(String, String)>,
    /// Names of its classes, each once.
    pub classes: Vec<String>,
    /// The ranks, ascending.
    pub ranks: Vec<RankTrace>,
    /// When the axis begins: nanoseconds since 1970, or of virtual time.
    pub epoch: u64,
    /// By how many nanoseconds the clocks of ranks may differ after correction; of one rank, how well
    /// its clock is known.
    pub clock_error: u64,
    /// Whether the run was across ranks: then each of them has a part. Otherwise it was one rank's own.
    pub is_across: bool,
    /// Which run of all ranks it was, if it was one: the same on every rank
    /// ([`Line::number`](crate::port::Line::number)).
    pub number: u64,
    /// How tasks with packed names are shown.
    pub(crate) text: Option<Spelling>,
    pub(crate) links: Links,
}

/// What one rank recorded.
///
/// # Examples
/// See [`Trace::new`].
#[derive(Clone, Debug, Default)]
pub struct RankTrace {
    /// Which.
    pub rank: Rank,
    /// From when to when it was in the run.
    pub span: Span,
    /// Tasks that ran or were skipped, worker by worker, each worker's in the order of time.
    pub slices: Vec<Slice>,
    /// Which of the slices are whose, and when each worker was in the engine.
    pub workers: Vec<WorkerTrace>,
    /// What left for other ranks, by time.
    pub posted: Vec<Posted>,
    /// What came from other ranks, by the time at which a worker took it in.
    pub came: Vec<Came>,
    /// Notes that found no room, and tasks of nested scopes beyond 2²³.
    pub missing: u64,
    /// Tasks that this rank knew of and had not done when the run was over, because that was cancelled, had
    /// stalled, or had stopped for a panic, another fault or a lost rank: 0 of a run that ended well.
    /// A task whose body panicked is one of them; one that returned an error, or was skipped, is none. What a
    /// sequence would have inserted later is not known, nor is what a call would have forked into; joins do not
    /// count.
    pub undone: u64,
    /// By how many nanoseconds its clock was ahead of the one that times are by, in the middle of the run:
    /// they are corrected. 0 if the clocks were not compared.
    pub clock_ahead: i64,
    /// By slice, the tasks that feed it, as a range of `sources`; one more at the end.
    pub(crate) inputs: Vec<u32>,
    pub(crate) sources: Vec<FeedingTask>,
    /// Names of tasks that do not pack.
    pub(crate) wide: BTreeMap<TaskNumber, String>,
}

/// From when to when, nanoseconds.
///
/// # Examples
/// See [`Trace::new`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// When it begins.
    pub begin: u64,
    /// When it has ended.
    pub end: u64,
}

impl Span {
    /// Its length, nanoseconds.
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// What one worker recorded.
///
/// # Examples
/// A worker of [`RankTrace::new`] has its slices; see [`Trace::new`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerTrace {
    /// Its slices, in those of its rank.
    pub slices: Range<usize>,
    /// When it was in the engine; at other times it slept, or had not entered the run yet.
    pub visits: Vec<Span>,
}

/// Whether a task ran, failed or was skipped.
///
/// # Examples
/// See [`Trace::new`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Its body ran.
    #[default]
    Ran,
    /// It was skipped, since an ancestor had failed.
    Skipped,
    /// Its body returned an error or panicked.
    Failed,
}

/// A task on a worker.
///
/// # Examples
/// See [`Trace::new`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Which task; [`Trace::shown`] makes a text of it.
    pub task: TaskNumber,
    /// When its body ran.
    pub span: Span,
    /// When its last input was there; when the run began, if it has none.
    pub ready: u64,
    /// Index of its class.
    pub class: u16,
    /// Index of the worker on its rank.
    pub worker: u16,
    /// What became of it.
    pub fate: Fate,
    /// Whether the worker took it from another worker's queue: it had no task of its own, or none as
    /// urgent. If it took several at once, only the first that it ran is marked.
    pub stolen: bool,
    /// Whether a datum was copied for it.
    pub copied: bool,
    /// Whether an input came from another rank.
    pub from_afar: bool,
}

/// Outputs of a task that left for another rank.
///
/// # Examples
/// See [`Trace::new`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Of which task.
    pub task: TaskNumber,
    /// When.
    pub at: u64,
    /// The rank that it went to.
    pub to: Rank,
    /// Bytes of data.
    pub bytes: u64,
    /// When the transport had taken the last byte, as this rank heard; `None` if it did not hear of it
    /// during the run. What reaches `to` through other ranks has left when the first of them has it.
    pub left: Option<u64>,
}

/// Outputs of a task of another rank, taken in by a worker.
///
/// # Examples
/// See [`Trace::new`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Of which task.
    pub task: TaskNumber,
    /// When.
    pub at: u64,
    /// From the rank where it ran.
    pub from: Rank,
    /// Bytes of data.
    pub bytes: u64,
    /// When this rank was told of them, if it had to ask for their data.
    pub heard: Option<u64>,
    /// When it began to ask for them: until then they waited for room in the window.
    pub asked: Option<u64>,
    /// When the last byte had come, if that was noted: until `at` it waited for a worker.
    pub there: Option<u64>,
}

/// A task that feeds another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedingTask {
    pub task: TaskNumber,
    pub rank: u32,
}

/// A slice of a trace: index of the rank in [`Trace::ranks`], and of the slice there.
///
/// # Examples
/// See [`Trace::new`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// Index into [`Trace::ranks`].
    pub rank: usize,
    /// Index into [`RankTrace::slices`].
    pub slice: usize,
}

/// A message: outputs of one task for another rank, from posting until a worker took them in.
///
/// # Examples
/// ```
/// use dataflow_core::rank::Rank;
/// use dataflow_core::trace::{Came, Posted, RankTrace, Slice, Span, Trace};
///
/// let span = |begin, end| Span { begin, end };
/// let slice = Slice { task: 7, span: span(0, 10), ..Slice::default() };
/// let mut here = RankTrace::new(Rank(0), span(0, 40), vec![vec![slice]]);
/// here.posted.push(Posted { task: 7, at: 12, to: Rank(1), bytes: 800, ..Posted::default() });
/// let mut there = RankTrace::new(Rank(1), span(0, 40), vec![Vec::new()]);
/// let came = Came { task: 7, at: 30, from: Rank(0), bytes: 800, ..Came::default() };
/// there.came.push(Came { there: Some(25), ..came });
///
/// let trace = Trace::new("by hand", ["Step"], vec![here, there]);
/// let message = trace.messages()[0];
/// assert_eq!((message.under_way(), message.lying()), (span(12, 25), span(25, 30)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Of which task.
    pub task: TaskNumber,
    /// Indices of the ranks in [`Trace::ranks`].
    pub from: usize,
    /// Where it went.
    pub to: usize,
    /// When it was posted and when a worker took it in.
    pub span: Span,
    /// Bytes of data.
    pub bytes: u64,
    /// When the transport had taken the last byte, as the sender heard: [`Posted::left`]. It may hear of
    /// it after the message was there.
    pub left: Option<u64>,
    /// When the receiver was told of it, if it had to ask for its data: [`Came::heard`].
    pub heard: Option<u64>,
    /// When it began to ask for them: [`Came::asked`].
    pub asked: Option<u64>,
    /// When the last byte had come: [`Came::there`].
    pub there: Option<u64>,
}

impl Message {
    /// From posting until its last byte had come; until a worker took it in, if that is all that is
    /// known.
    pub fn under_way(&self) -> Span {
        let end = self.there.unwrap_or(self.span.end);
        // Clocks of ranks differ a little.
        let end = end.clamp(self.span.begin.min(self.span.end), self.span.end);
        Span { end, ..self.span }
    }

    /// By how many nanoseconds the receiver knew of it before it was posted: so wrong are clocks, at least.
    pub fn backwards(&self) -> u64 {
        let stamps = [self.heard, self.asked, self.there];
        let known = stamps.into_iter().flatten().min();
        let known = known.unwrap_or(self.span.end).min(self.span.end);
        self.span.begin.saturating_sub(known)
    }

    /// Nanoseconds from when the receiver was told of it until it asked for its data.
    pub fn waiting(&self) -> u64 {
        let both = self.heard.zip(self.asked);
        both.map_or(0, |(heard, asked)| asked.saturating_sub(heard))
    }

    /// From then until a worker took it in.
    pub fn lying(&self) -> Span {
        Span {
            begin: self.under_way().end,
            ..self.span
        }
    }
}

impl Trace {
    /// A trace of one run from those of its ranks; all that is computed from the notes is computed here.
    ///
    /// Costs n·log n for n tasks and edges.
    pub fn of_ranks(mut parts: Vec<Trace>) -> Trace {
        parts.sort_by_key(|part| part.ranks.first().map(|rank| rank.rank));
        let epoch = parts.iter().map(|part| part.epoch).min().unwrap_or(0);
        for part in &mut parts {
            let later = part.epoch - epoch;
            let shift = |time: &mut u64| *time += later;
            part.ranks
                .iter_mut()
                .for_each(|rank| rank.change_times(shift));
            part.epoch = epoch;
            part.merge_classes();
        }
        let mut errors: Vec<u64> = parts.iter().map(|part| part.clock_error).collect();
        errors.sort_unstable();
        let mut parts = parts.into_iter();
        let Some(mut trace) = parts.next() else {
            return Trace::default();
        };
        trace.ranks.extend(parts.flat_map(|part| part.ranks));
        // Of two ranks, one may be too early and the other too late.
        trace.clock_error = errors.iter().rev().take(2).sum();
        trace.links = Links::of(&mut trace.ranks);
        trace
    }

    /// Classes of one name become one: spaces in series may each have one of that name.
    fn merge_classes(&mut self) {
        let mut names: Vec<String> = Vec::new();
        let mut places: BTreeMap<String, u16> = BTreeMap::new();
        let of_classes = self.classes.drain(..).map(|name| {
            let place = names.len() as u16; // classes have 16 bits
            *places.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                place
            })
        });
        let of_classes: Vec<u16> = of_classes.collect();
        self.classes = names;
        let slices = self.ranks.iter_mut().flat_map(|rank| &mut rank.slices);
        for slice in slices {
            // One that is none of them stays so.
            if let Some(place) = of_classes.get(usize::from(slice.class)) {
                slice.class = *place;
            }
        }
    }

    /// All tasks, rank by rank and worker by worker.
    pub fn slices(&self) -> impl Iterator<Item = (At, &Slice)> {
        self.ranks.iter().enumerate().flat_map(|(rank, of)| {
            let slices = of.slices.iter().enumerate();
            slices.map(move |(slice, what)| (At { rank, slice }, what))
        })
    }

    /// A slice by its place.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn slice(&self, at: At) -> &Slice {
        &self.ranks[at.rank].slices[at.slice]
    }

    /// From the first rank's beginning to the last one's end, nanoseconds.
    pub fn length(&self) -> u64 {
        self.ranks
            .iter()
            .map(|rank| rank.span.end)
            .max()
            .unwrap_or(0)
    }

    /// How many workers there were, on all ranks.
    pub fn n_workers(&self) -> usize {
        self.ranks.iter().map(|rank| rank.workers.len()).sum()
    }

    /// The tasks that feed one, where they were recorded.
    pub fn inputs(&self, at: At) -> impl Iterator<Item = At> + '_ {
        self.links.inputs(at).iter().copied()
    }

    /// Of the tasks that feed one, the one whose output came last.
    pub fn last_input(&self, at: At) -> Option<At> {
        self.links.last_input(at)
    }

    /// The messages between ranks, ordered by the time at which they were taken in.
    pub fn messages(&self) -> &[Message] {
        self.links.messages()
    }

    /// Those of them that went to a rank, by its index in [`ranks`](Self::ranks), in the same order.
    ///
    /// Costs a look at these alone.
    pub fn messages_to(&self, rank: usize) -> impl Iterator<Item = &Message> + Clone {
        self.links.messages_to(rank)
    }
}

impl RankTrace {
    /// Changes all times.
    fn change_times(&mut self, change: impl Fn(&mut u64)) {
        let span = |span: &mut Span| {
            change(&mut span.begin);
            change(&mut span.end);
        };
        span(&mut self.span);
        for slice in &mut self.slices {
            span(&mut slice.span);
            change(&mut slice.ready);
        }
        let visits = self
            .workers
            .iter_mut()
            .flat_map(|worker| &mut worker.visits);
        visits.for_each(span);
        for posted in &mut self.posted {
            change(&mut posted.at);
            posted.left.iter_mut().for_each(&change);
        }
        for came in &mut self.came {
            change(&mut came.at);
            let stamps = [&mut came.heard, &mut came.asked, &mut came.there];
            stamps.into_iter().flatten().for_each(&change);
        }
    }
}
