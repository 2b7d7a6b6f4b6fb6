//! Messages, with the tasks at both ends as far as they were recorded.

use crate::view::View;
use dataflow_core::trace::{At, Message, TaskNumber};
use std::collections::HashMap;

/// A message and who was at its ends.
#[derive(Clone, Copy)]
pub(crate) struct Arrow {
    /// Which, counted over the whole trace.
    pub number: usize,
    pub message: Message,
    /// The slice that sent it.
    pub sender: Option<At>,
    /// The slice that read it first.
    pub reader: Option<At>,
    /// When its last reader had ended; when it was taken in, if none was recorded.
    pub released: u64,
}

/// Who read what a task sent to a rank.
struct ReadBy {
    sender: At,
    reader: At,
    begin: u64,
    released: u64,
}

/// The messages that are seen.
///
/// Walks the inputs of all tasks once.
pub(crate) fn arrows(view: &View<'_>) -> Vec<Arrow> {
    let mut seen = view.messages().peekable();
    if seen.peek().is_none() {
        return Vec::new();
    }
    let read = readers(view);
    let arrow = |(number, message): (usize, &Message)| {
        let read = read.get(&(message.task, message.from, message.to));
        Arrow {
            number,
            message: *message,
            sender: read.map(|read| read.sender),
            reader: read.map(|read| read.reader),
            released: read.map_or(0, |read| read.released).max(message.span.end),
        }
    };
    seen.map(arrow).collect()
}

/// The messages of the whole trace: those that are not seen are received and held too.
pub(crate) fn all_arrows(view: &View<'_>) -> Vec<Arrow> {
    arrows(&View::of(view.trace))
}

/// Those of all that are seen.
pub(crate) fn seen(view: &View<'_>, all: &[Arrow]) -> Vec<Arrow> {
    let seen = all
        .iter()
        .filter(|arrow| view.shows_message(&arrow.message));
    seen.copied().collect()
}

/// Arrows by the rank at one of their ends, an index in the trace.
pub(crate) fn by_rank<'a>(
    view: &View<'_>,
    arrows: &'a [Arrow],
    end: impl Fn(&Message) -> usize,
) -> Vec<Vec<&'a Arrow>> {
    let mut by_rank = vec![Vec::new(); view.trace.ranks.len()];
    for arrow in arrows {
        by_rank[end(&arrow.message)].push(arrow);
    }
    by_rank
}

/// For each task, its rank and a rank that read its output: who did.
fn readers(view: &View<'_>) -> HashMap<(TaskNumber, usize, usize), ReadBy> {
    let mut read: HashMap<_, ReadBy> = HashMap::new();
    for (at, slice) in view.trace.slices() {
        for sender in view
            .trace
            .inputs(at)
            .filter(|sender| sender.rank != at.rank)
        {
            let key = (view.trace.slice(sender).task, sender.rank, at.rank);
            let (begin, released) = (slice.span.begin, slice.span.end);
            let found = read.entry(key).or_insert(ReadBy {
                sender,
                reader: at,
                begin,
                released,
            });
            found.released = found.released.max(released);
            if begin < found.begin {
                (found.reader, found.begin) = (at, begin);
            }
        }
    }
    read
}
