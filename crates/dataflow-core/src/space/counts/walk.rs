//! Walk: every task once, after its sources.
//!
//! # Source
//! Kahn, *Topological sorting of large networks*, Communications of the ACM 5 (1962), with in-degrees
//! asked from the space when the first input of a task comes.

use super::held::HeldBytes;
use super::mixer::NameTable;
use super::{CountedWork, Counting, Counts, OfRank, Sending, Traffic};
use crate::data::Store;
use crate::rank::Rank;
use crate::space::edges::CountedInputs;
use crate::space::verify::{fault, room_for};
use crate::space::{Contradiction, Description, Mode, Successors, TaskName, TaskSpace};
use crate::words::there_are;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};

/// How many tasks of a rank are walked before the space is asked how many there are, which may take a look
/// at each: of a space that contradicts itself the walk might never end.
const UNASKED: u64 = if cfg!(miri) { 64 } else { 1 << 20 };

/// A task some of whose inputs are missing, and the longest way to it until now.
struct WaitingTask {
    missing: u32,
    way: CountedWork,
}

/// A task whose sources have all been walked, and the longest way to it.
type WalkedTask<T> = (T, CountedWork);

/// What a task sends to one rank: flow, for how many tasks there, bytes. None of an edge that only orders.
type SentToRank = (u32, u32, Option<u64>);

pub(super) fn count<S: TaskSpace>(asked: &Counting<'_, S>) -> Result<Counts, Contradiction> {
    let about = Description::of(asked.space);
    let of_rank = OfRank {
        classes: vec![0; about.classes().len()],
        ..OfRank::default()
    };
    let mut ranks = room_for(asked.n_ranks as usize)?;
    ranks.resize(asked.n_ranks as usize, of_rank);
    let mut walk = CountingWalk {
        asked,
        about,
        waiting: NameTable::default(),
        ready: Vec::new(),
        leaving: Vec::new(),
        pairs: NameTable::default(),
        held: asked.workers.map(|_| HeldBytes::by(asked.n_ranks)),
        most: vec![None; asked.n_ranks as usize],
        counts: Counts {
            ranks,
            ..Counts::default()
        },
    };
    match asked.workers {
        None => walk.depth_first()?,
        Some(workers) => walk.in_rounds(workers.get())?,
    }
    walk.end()
}

struct CountingWalk<'c, 'a, S: TaskSpace> {
    asked: &'c Counting<'a, S>,
    about: Description,
    waiting: NameTable<S::Task, WaitingTask>,
    ready: Vec<WalkedTask<S::Task>>,
    /// Edges of one task to other ranks.
    leaving: Vec<(Rank, u32)>,
    pairs: NameTable<(u32, u32), Traffic>,
    held: Option<HeldBytes<S::Task>>,
    /// By rank, how many tasks it has, once that was asked.
    most: Vec<Option<u64>>,
    counts: Counts,
}

impl<S: TaskSpace> CountingWalk<'_, '_, S> {
    /// One task after the other, the last that became ready first; a root when there is no other.
    fn depth_first(&mut self) -> Result<(), Contradiction> {
        let Counting { space, n_ranks, .. } = *self.asked;
        for on in (0..n_ranks).map(Rank) {
            for root in space.roots(on) {
                self.ready.push((root, CountedWork::default()));
                while let Some(ready) = self.ready.pop() {
                    self.run(ready)?;
                }
            }
        }
        Ok(())
    }

    /// Some tasks of each rank at a time, the most urgent ones; of equals that which was ready first.
    fn in_rounds(&mut self, workers: usize) -> Result<(), Contradiction> {
        let ranks = (0..self.asked.n_ranks).map(Rank);
        let mut queues: Vec<BinaryHeap<Urgent<S::Task>>> = Vec::new();
        queues.resize_with(ranks.len(), BinaryHeap::new);
        for on in ranks {
            let space = self.asked.space;
            let roots = space.roots(on);
            self.ready
                .extend(roots.map(|root| (root, CountedWork::default())));
        }
        let (mut number, mut rounds, mut running) = (0, 0, Vec::new());
        loop {
            for ready in self.ready.drain(..) {
                let priority = self.asked.space.priority(ready.0);
                let urgency = (priority, Reverse(number));
                let on = self.asked.space.rank(ready.0);
                let Some(queue) = queues.get_mut(on.0 as usize) else {
                    return no_such_rank(ready.0, on, self.asked.n_ranks);
                };
                queue.push(Urgent { urgency, ready });
                number += 1;
            }
            for queue in &mut queues {
                let first = std::iter::from_fn(|| queue.pop());
                running.extend(first.take(workers).map(|urgent| urgent.ready));
            }
            if running.is_empty() {
                self.counts.rounds = Some(rounds);
                return Ok(());
            }
            rounds += 1;
            self.finish_round(&mut running)?;
        }
    }

    /// First what nobody needs any more goes, then what was made comes.
    fn finish_round(
        &mut self,
        running: &mut Vec<WalkedTask<S::Task>>,
    ) -> Result<(), Contradiction> {
        if let Some(held) = &mut self.held {
            for (task, _) in &*running {
                held.has_run(self.asked, *task, self.asked.space.rank(*task));
            }
        }
        for ready in running.drain(..) {
            self.run(ready)?;
        }
        if let Some(held) = &self.held {
            held.note(&mut self.counts.ranks);
        }
        Ok(())
    }

    /// Counts a task, and its outputs at those who wait for them.
    fn run(&mut self, (task, way): WalkedTask<S::Task>) -> Result<(), Contradiction> {
        let space = self.asked.space;
        let on = space.rank(task);
        let cost = self.work(task, on)?;
        let way = CountedWork {
            tasks: way.tasks + 1,
            cost: way.cost + cost,
        };
        self.counts.path = longer(self.counts.path, way);
        let mut edges = WalkedEdges {
            space,
            way,
            on,
            waiting: &mut self.waiting,
            ready: &mut self.ready,
            leaving: &mut self.leaving,
            unexpected: None,
        };
        space.successors(task, &mut edges);
        if let Some(target) = edges.unexpected {
            return fault(format!(
                "{task:?} feeds {target:?}, which says that it has no inputs"
            ));
        }
        self.counts.waiting = self.counts.waiting.max(self.waiting.len());
        match self.leaving.is_empty() {
            true => Ok(()),
            false => self.post(task, on),
        }
    }

    /// Counts the work of a task on its rank, and answers what it costs.
    fn work(&mut self, task: S::Task, on: Rank) -> Result<f64, Contradiction> {
        let Counting { space, n_ranks, .. } = *self.asked;
        let cost = (self.asked.cost)(task);
        let Some(of_rank) = self.counts.ranks.get_mut(on.0 as usize) else {
            return no_such_rank(task, on, n_ranks);
        };
        of_rank.work.tasks += 1;
        of_rank.work.cost += cost;
        if of_rank.work.tasks > UNASKED {
            let most = &mut self.most[on.0 as usize];
            let most = *most.get_or_insert_with(|| space.count(on));
            if of_rank.work.tasks > most {
                return fault(format!(
                    "more tasks run than the {most} that the space counts on {on}, {task:?} among them \
                     (`verify` names the edge)"
                ));
            }
        }
        let Some(of_class) = of_rank.classes.get_mut(task.class()) else {
            return fault(format!("{task:?} is of a class that is not described"));
        };
        *of_class += 1;
        Ok(cost)
    }

    /// Counts what a task sends: one parcel for all ranks if they get the same, otherwise one for each.
    fn post(&mut self, task: S::Task, from: Rank) -> Result<(), Contradiction> {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.sort_unstable();
        let Some(name) = task.to_wire() else {
            return fault(format!(
                "{task:?} has outputs for other ranks, but its name cannot travel"
            ));
        };
        let (mut to, mut each) = (Vec::new(), Vec::new());
        for edges in leaving.chunk_by(|a, b| a.0 == b.0) {
            let rank = edges[0].0;
            if rank.0 >= self.asked.n_ranks {
                return no_such_rank(task, rank, self.asked.n_ranks);
            }
            let outputs = self.outputs(task, rank, edges)?;
            to.push(rank);
            each.push(outputs);
        }
        let flows =
            |outputs: &[SentToRank]| outputs.iter().map(|output| output.0).collect::<Vec<_>>();
        let first = flows(&each[0]);
        match each[1..].iter().all(|outputs| flows(outputs) == first) {
            true => self.send((from, &name[..]), &to, &each[0]),
            false => {
                for (to, outputs) in to.iter().zip(&each) {
                    self.send((from, &name[..]), &[*to], outputs);
                }
            }
        }
        leaving.clear();
        self.leaving = leaving;
        Ok(())
    }

    /// What goes to a rank by these edges, which are in order.
    fn outputs(
        &mut self,
        task: S::Task,
        to: Rank,
        edges: &[(Rank, u32)],
    ) -> Result<Vec<SentToRank>, Contradiction> {
        let mut outputs = Vec::new();
        let flows = &self.about.classes()[task.class()].flows;
        for uses in edges.chunk_by(|a, b| a.1 == b.1) {
            let (flow, n_uses) = (uses[0].1, uses.len() as u32);
            let Some(described) = flows.get(flow as usize) else {
                return fault(format!("flow {flow} of {task:?} is not described"));
            };
            let carries = S::CARRIES && described.mode != Mode::Order;
            let bytes = carries.then(|| (self.asked.bytes)(task, flow as usize));
            outputs.push((flow, n_uses, bytes));
            if let (Some(held), Some(bytes)) = (&mut self.held, bytes) {
                held.come((task, flow, to), n_uses, bytes);
            }
        }
        Ok(outputs)
    }

    /// Counts a parcel on each of its hops.
    fn send(&mut self, (from, task): (Rank, &[u32]), to: &[Rank], outputs: &[SentToRank]) {
        let bytes = || outputs.iter().filter_map(|output| output.2);
        let parcel = Traffic {
            activations: 1,
            messages: bytes().count() as u64,
            bytes: bytes().fold(0, u64::saturating_add),
        };
        let (ranks, pairs) = (&mut self.counts.ranks, &mut self.pairs);
        let mut hop = |from: Rank, to: Rank| {
            ranks[from.0 as usize].sent.add(parcel);
            ranks[to.0 as usize].received.add(parcel);
            pairs.entry((from.0, to.0)).or_default().add(parcel);
        };
        let bytes = parcel.bytes;
        match self.asked.route {
            Some(route) if to.len() > 1 => route(
                &Sending {
                    from,
                    task,
                    to,
                    bytes,
                },
                &mut hop,
            ),
            _ => to.iter().for_each(|to| hop(from, *to)),
        }
    }

    fn end(mut self) -> Result<Counts, Contradiction> {
        if let Some((task, waiting)) = self.waiting.iter().min_by_key(|(task, _)| **task) {
            let missing = waiting.missing;
            return fault(format!(
                "{task:?} waits for {missing} of its inputs, and nothing is left to run (`verify` names the edge)"
            ));
        }
        self.counts.pairs = in_order(self.pairs);
        Ok(self.counts)
    }
}

/// By the ranks that send, then by those that receive; compiled once for all spaces.
fn in_order(pairs: NameTable<(u32, u32), Traffic>) -> BTreeMap<(Rank, Rank), Traffic> {
    let pairs = pairs.into_iter();
    pairs
        .map(|((from, to), traffic)| ((Rank(from), Rank(to)), traffic))
        .collect()
}

fn no_such_rank<R>(task: impl TaskName, on: Rank, n_ranks: u32) -> Result<R, Contradiction> {
    fault(format!(
        "{task:?} is placed on {on}, or feeds a task there ({})",
        there_are(n_ranks, "rank")
    ))
}

fn longer(one: CountedWork, other: CountedWork) -> CountedWork {
    CountedWork {
        tasks: one.tasks.max(other.tasks),
        cost: one.cost.max(other.cost),
    }
}

/// Hears whom a task feeds.
struct WalkedEdges<'w, S: TaskSpace> {
    space: &'w S,
    /// The longest way that ends with the task.
    way: CountedWork,
    on: Rank,
    waiting: &'w mut NameTable<S::Task, WaitingTask>,
    ready: &'w mut Vec<WalkedTask<S::Task>>,
    leaving: &'w mut Vec<(Rank, u32)>,
    unexpected: Option<S::Task>,
}

impl<S: TaskSpace> Successors<S> for WalkedEdges<'_, S> {
    #[inline(always)]
    fn task(&mut self, flow: usize, target: S::Task, _: usize) {
        let rank = self.space.rank(target);
        if rank != self.on {
            self.leaving.push((rank, flow as u32));
        }
        match self.waiting.entry(target) {
            Entry::Occupied(mut known) => {
                let waiting = known.get_mut();
                waiting.way = longer(waiting.way, self.way);
                waiting.missing -= 1;
                if waiting.missing == 0 {
                    self.ready.push((target, known.remove().way));
                }
            }
            Entry::Vacant(room) => {
                let way = self.way;
                match CountedInputs::of(self.space, target, usize::MAX, (target, 0)).count {
                    0 => self.unexpected = Some(target),
                    1 => self.ready.push((target, way)),
                    n => {
                        let missing = n as u32 - 1;
                        room.insert(WaitingTask { missing, way });
                    }
                }
            }
        }
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

/// A ready task in the order of urgency.
struct Urgent<T> {
    urgency: (i64, Reverse<u64>),
    ready: WalkedTask<T>,
}

impl<T> PartialEq for Urgent<T> {
    fn eq(&self, other: &Self) -> bool {
        self.urgency == other.urgency
    }
}

impl<T> Eq for Urgent<T> {}

impl<T> PartialOrd for Urgent<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Urgent<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.urgency.cmp(&other.urgency)
    }
}
