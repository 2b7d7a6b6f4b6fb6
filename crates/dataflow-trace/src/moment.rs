//! Moment: all that happened, on all workers, in the order of time; for formats that want it so.
//!
//! # Law
//! What a worker did comes in its own order: the end of one thing before the beginning of the next.
//! Of equal times, posting comes before taking in, and both before what workers did.
//! Costs log w for each moment of w workers.

use crate::message::Arrow;
use crate::view::View;
use dataflow_core::trace::Activity;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::iter::Peekable;
use std::vec::IntoIter;

/// Something that happened.
pub(crate) struct Moment {
    pub time: u64,
    pub event: Happened,
}

/// What happened.
pub(crate) enum Happened {
    /// A worker (rank, worker) began something.
    Begin(usize, usize, Activity),
    /// It ended it.
    End(usize, usize, Activity),
    /// It has ended the last thing that is seen of it.
    Last(usize, usize),
    /// A message was posted; its place in the list of arrows.
    Posted(usize),
    /// A message was taken in.
    Taken(usize),
}

/// All moments, by time.
pub(crate) struct Moments {
    streams: Vec<Stream>,
    /// The time of each stream's next moment.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

enum Stream {
    Worker {
        rank: usize,
        worker: usize,
        began: Option<Activity>,
        /// When the last thing ended, until that is told.
        ended: Option<u64>,
        rest: Peekable<IntoIter<Activity>>,
    },
    Messages {
        times: Peekable<IntoIter<(u64, usize)>>,
        event: fn(usize) -> Happened,
    },
}

impl Moments {
    /// The moments of a view and of the arrows in it.
    pub fn of(view: &View<'_>, arrows: &[Arrow]) -> Moments {
        let posted = sorted(arrows, |arrow| arrow.message.span.begin);
        let taken = sorted(arrows, |arrow| arrow.message.span.end);
        let mut streams = vec![
            Stream::Messages {
                times: posted,
                event: Happened::Posted,
            },
            Stream::Messages {
                times: taken,
                event: Happened::Taken,
            },
        ];
        for (rank, _) in view.ranks() {
            let workers = view.flat(rank).into_iter().enumerate();
            streams.extend(workers.map(|(worker, activities)| Stream::Worker {
                rank,
                worker,
                began: None,
                ended: None,
                rest: activities.into_iter().peekable(),
            }));
        }
        let next = streams.iter_mut().enumerate();
        let next = next.filter_map(|(index, stream)| Some(Reverse((stream.time()?, index))));
        let next = next.collect();
        Moments { streams, next }
    }
}

impl Iterator for Moments {
    type Item = Moment;

    fn next(&mut self) -> Option<Moment> {
        let mut first = self.next.peek_mut()?;
        let Reverse((time, index)) = *first;
        let stream = &mut self.streams[index];
        let event = stream.event()?;
        match stream.time() {
            Some(time) => *first = Reverse((time, index)),
            None => _ = PeekMut::pop(first),
        }
        Some(Moment { time, event })
    }
}

impl Stream {
    /// When its next moment is.
    fn time(&mut self) -> Option<u64> {
        match self {
            Stream::Worker {
                began, ended, rest, ..
            } => match (began, rest.peek()) {
                (Some(activity), _) => Some(activity.span.end),
                (None, Some(next)) => Some(next.span.begin),
                (None, None) => *ended,
            },
            Stream::Messages { times, .. } => times.peek().map(|(time, _)| *time),
        }
    }

    /// What happens then.
    fn event(&mut self) -> Option<Happened> {
        match self {
            Stream::Worker {
                rank,
                worker,
                began,
                ended,
                rest,
            } => {
                if let Some(activity) = began.take() {
                    *ended = Some(activity.span.end);
                    return Some(Happened::End(*rank, *worker, activity));
                }
                *began = rest.next();
                match began {
                    Some(activity) => Some(Happened::Begin(*rank, *worker, *activity)),
                    None => ended.take().map(|_| Happened::Last(*rank, *worker)),
                }
            }
            Stream::Messages { times, event } => times.next().map(|(_, index)| event(index)),
        }
    }
}

/// Times of arrows with their places, ascending.
fn sorted(arrows: &[Arrow], time: impl Fn(&Arrow) -> u64) -> Peekable<IntoIter<(u64, usize)>> {
    let times = arrows.iter().enumerate();
    let mut times: Vec<_> = times.map(|(index, arrow)| (time(arrow), index)).collect();
    times.sort_unstable();
    times.into_iter().peekable()
}
