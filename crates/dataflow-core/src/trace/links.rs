//! Links: which slice feeds which, on one rank and across ranks.
//!
//! # Law
//! A slice is ready when the last of its inputs is there: when the body that made it ended or, from
//! another rank, when a worker took it in.

use super::doing::OwnTimes;
use super::{At, Came, FeedingTask, Message, RankTrace, TaskNumber};
use crate::rank::Rank;
use std::collections::HashMap;

/// Edges between the slices of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// By rank: by slice, a range of its `inputs`; one more at the end.
    ranks: Vec<RankLinks>,
    messages: Vec<Message>,
    /// By receiver, the places of its messages among them.
    received: Vec<Vec<u32>>,
    /// All slices, who feeds before who is fed.
    order: Vec<At>,
}

#[derive(Clone, Debug, Default)]
struct RankLinks {
    offsets: Vec<u32>,
    inputs: Vec<At>,
    last: Vec<Option<At>>,
}

impl Links {
    /// Finds them, and says of each slice when it was ready.
    pub fn of(ranks: &mut [RankTrace]) -> Self {
        let found = TaskIndex::new(ranks);
        let messages = found.messages(ranks);
        let mut links = Vec::with_capacity(ranks.len());
        for rank in 0..ranks.len() {
            let (of_rank, ready) = found.links(ranks, rank);
            links.push(of_rank);
            for (slice, (ready, from_afar)) in ranks[rank].slices.iter_mut().zip(ready) {
                // Clocks of ranks differ a little.
                slice.ready = ready.min(slice.span.begin);
                slice.from_afar = from_afar;
            }
        }
        let mut received = vec![Vec::new(); ranks.len()];
        for (place, message) in messages.iter().enumerate() {
            received[message.to].push(place as u32);
        }
        Links {
            order: order(ranks, &links),
            ranks: links,
            messages,
            received,
        }
    }

    pub fn inputs(&self, at: At) -> &[At] {
        let of_rank = self.ranks.get(at.rank);
        of_rank.map_or(&[], |of_rank| of_rank.inputs(at.slice))
    }

    pub fn last_input(&self, at: At) -> Option<At> {
        *self.ranks.get(at.rank)?.last.get(at.slice)?
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub fn messages_to(&self, rank: usize) -> impl Iterator<Item = &Message> + Clone {
        let places = self.received.get(rank).into_iter().flatten();
        places.map(|&place| &self.messages[place as usize])
    }

    /// The longest way through slices that `takes` accepts: its time in bodies, and its tasks.
    pub(super) fn longest(&self, own: &OwnTimes, takes: impl Fn(At) -> bool) -> (u64, Vec<At>) {
        // All slices of all ranks in a row: where each rank begins. Twelve bytes a slice.
        let mut n = 0;
        let mut begins = Vec::with_capacity(own.0.len());
        for of in &own.0 {
            begins.push(n);
            n += of.len();
        }
        let place = |at: At| begins[at.rank] + at.slice;
        let mut ways = vec![0_u64; n];
        let mut froms = vec![NO_INPUT; n];
        let mut best: Option<(u64, At)> = None;
        for &at in self.order.iter().filter(|&&at| takes(at)) {
            let (mut way, mut from) = (0, NO_INPUT);
            for (number, &input) in self.inputs(at).iter().enumerate() {
                if takes(input) && ways[place(input)] >= way {
                    (way, from) = (ways[place(input)], number as u32);
                }
            }
            way += own.of(at);
            (ways[place(at)], froms[place(at)]) = (way, from);
            if best.is_none_or(|(most, _)| way > most) {
                best = Some((way, at));
            }
        }
        let Some((length, last)) = best else {
            return (0, Vec::new());
        };
        let before = |at: &At| self.inputs(*at).get(froms[place(*at)] as usize).copied();
        let mut tasks: Vec<At> = std::iter::successors(Some(last), before).collect();
        tasks.reverse();
        (length, tasks)
    }
}

/// In place of the number of an input: a way begins here.
const NO_INPUT: u32 = u32::MAX;

/// All slices by their ends, but none before its inputs: one without length ends when its reader may
/// end too.
fn order(ranks: &[RankTrace], links: &[RankLinks]) -> Vec<At> {
    let all = ranks.iter().enumerate();
    let all = all.flat_map(|(rank, of)| (0..of.slices.len()).map(move |slice| At { rank, slice }));
    let mut by_end: Vec<At> = all.collect();
    by_end.sort_by_key(|at| {
        let span = ranks[at.rank].slices[at.slice].span;
        (span.end, span.begin)
    });
    let met = ranks.iter().map(|of| vec![false; of.slices.len()]);
    let mut met: Vec<Vec<bool>> = met.collect();
    let mut is_new = |at: At| !std::mem::replace(&mut met[at.rank][at.slice], true);
    let mut order = Vec::with_capacity(by_end.len());
    // Slices whose inputs go first, and how many of these have been looked at: seldom more than one.
    let mut open: Vec<(At, usize)> = Vec::new();
    for at in by_end {
        open.extend(is_new(at).then_some((at, 0)));
        while let Some((at, looked_at)) = open.last_mut() {
            match links[at.rank].inputs(at.slice).get(*looked_at) {
                Some(&input) => {
                    *looked_at += 1;
                    open.extend(is_new(input).then_some((input, 0)));
                }
                None => order.extend(open.pop().map(|(at, _)| at)),
            }
        }
    }
    order
}

impl RankLinks {
    fn inputs(&self, slice: usize) -> &[At] {
        match (self.offsets.get(slice), self.offsets.get(slice + 1)) {
            (Some(&from), Some(&to)) => &self.inputs[from as usize..to as usize],
            _ => &[],
        }
    }
}

/// Where tasks are found, and when their outputs came.
struct TaskIndex {
    by_rank: HashMap<Rank, usize>,
    /// By rank, slices by task.
    slices: Vec<Vec<(TaskNumber, usize)>>,
    /// By rank, what came, by task and sender.
    came: Vec<Vec<Came>>,
}

impl TaskIndex {
    fn new(ranks: &[RankTrace]) -> Self {
        let by_task = |of: &RankTrace| {
            let slices = of.slices.iter().enumerate();
            let mut by_task: Vec<_> = slices.map(|(at, slice)| (slice.task, at)).collect();
            by_task.sort_unstable();
            by_task
        };
        let by_sender = |of: &RankTrace| {
            let mut came = of.came.clone();
            came.sort_by_key(|came| (came.task, came.from));
            came
        };
        let by_rank = ranks.iter().enumerate();
        TaskIndex {
            by_rank: by_rank.map(|(at, of)| (of.rank, at)).collect(),
            slices: ranks.iter().map(by_task).collect(),
            came: ranks.iter().map(by_sender).collect(),
        }
    }

    fn slice(&self, task: TaskNumber, rank: Rank) -> Option<At> {
        let rank = *self.by_rank.get(&rank)?;
        let slices = &self.slices[rank];
        let at = slices.binary_search_by_key(&task, |(task, _)| *task).ok()?;
        let slice = slices[at].1;
        Some(At { rank, slice })
    }

    fn came(&self, task: TaskNumber, from: Rank, to: usize) -> Option<&Came> {
        let came = &self.came[to];
        let at = came.binary_search_by_key(&(task, from), |came| (came.task, came.from));
        at.ok().map(|at| &came[at])
    }

    /// When an output was there for those of a rank, if that is known.
    fn there(&self, ranks: &[RankTrace], source: &FeedingTask, rank: usize) -> Option<u64> {
        let of = Rank(source.rank);
        if of == ranks[rank].rank {
            let at = self.slice(source.task, of)?;
            return Some(ranks[at.rank].slices[at.slice].span.end);
        }
        self.came(source.task, of, rank).map(|came| came.at)
    }

    /// The edges into the slices of a rank; and of each, when it was ready and whether an input came
    /// from another rank.
    fn links(&self, ranks: &[RankTrace], rank: usize) -> (RankLinks, Vec<(u64, bool)>) {
        let of = &ranks[rank];
        let mut links = RankLinks {
            offsets: vec![0],
            ..RankLinks::default()
        };
        let mut known = Vec::with_capacity(of.slices.len());
        for range in of.inputs.windows(2) {
            let noted = of.slices[known.len()].ready;
            let (mut ready, mut from_afar, mut last) = (of.span.begin.max(noted), false, None);
            for source in &of.sources[range[0] as usize..range[1] as usize] {
                let slice = self.slice(source.task, Rank(source.rank));
                links.inputs.extend(slice);
                from_afar |= Rank(source.rank) != of.rank;
                if let Some(there) = self.there(ranks, source, rank)
                    && (there >= ready || last.is_none())
                {
                    (ready, last) = (there.max(ready), slice);
                }
            }
            links.offsets.push(links.inputs.len() as u32);
            links.last.push(last);
            known.push((ready, from_afar));
        }
        (links, known)
    }

    /// What was posted and came.
    fn messages(&self, ranks: &[RankTrace]) -> Vec<Message> {
        let mut messages = Vec::new();
        for (from, of) in ranks.iter().enumerate() {
            for posted in &of.posted {
                let Some(&to) = self.by_rank.get(&posted.to) else {
                    continue;
                };
                let Some(came) = self.came(posted.task, of.rank, to) else {
                    continue;
                };
                messages.push(Message {
                    task: posted.task,
                    from,
                    to,
                    span: super::Span {
                        begin: posted.at,
                        end: came.at,
                    },
                    bytes: came.bytes,
                    left: posted.left,
                    heard: came.heard,
                    asked: came.asked,
                    there: came.there,
                });
            }
        }
        messages.sort_by_key(|message| (message.span.end, message.task, message.to));
        messages
    }
}

#[cfg(test)]
mod tests {
    use crate::rank::Rank;
    use crate::trace::{RankTrace, Slice, Span, Trace};

    /// Of slices that began and ended together those of the first worker came first, whoever fed whom.
    #[test]
    fn the_longest_chain_goes_through_tasks_without_length() {
        let slice = |task, begin, end| Slice {
            task,
            span: Span { begin, end },
            ..Slice::default()
        };
        let chain = [
            slice(0, 0, 10),
            slice(1, 10, 10),
            slice(2, 10, 10),
            slice(3, 10, 20),
        ];
        // Who runs which: the chain goes to and fro, or stays where it is.
        for runs in [[0, 1, 0, 0], [1, 0, 1, 0], [0; 4]] {
            let mut workers = vec![Vec::new(); 2];
            for (&slice, worker) in chain.iter().zip(runs) {
                workers[worker].push(slice);
            }
            let rank = RankTrace::new(Rank(0), Span { begin: 0, end: 20 }, workers);
            let before = |slice: &Slice| slice.task.checked_sub(1).map(|task| (task, Rank(0)));
            let rank = rank.with_inputs(|_, slice| Vec::from_iter(before(slice)));
            let limits = Trace::new("chain", ["Link"], vec![rank]).limits();
            assert_eq!((limits.path, limits.path_tasks.len()), (20, 4), "{runs:?}");
        }
    }
}
