//! Pending: the records of tasks that wait for more inputs.
//!
//! A record is made by the first arrival, wherever it comes from, and removed by the last. Only
//! the frontier of the graph is here; the graph itself is nowhere. Names that differ only in
//! their last bits lie together, so that a task's neighbours are found in a line that is warm.
//!
//! # Law
//! A key has at most one record. At quiescence there is none.
//!
//! # Elsewhere
//! How the table grows: [`table`]. What lies in a bucket: [`blocks`] if inputs only order tasks,
//! [`records`] if they carry data.

mod blocks;
mod list;
mod records;
mod table;

use super::slots::{INLINE, Slots};
use crate::data::{Datum, Version};
use crate::space::{CountedInputs, NARROW, Sources};
use blocks::{Blocks, KeyedInput};
use list::Few;
use records::Records;
use table::{HeldBucket, Table};

/// Key of a task in tables and queues: 56 bits, never 0.
pub(crate) type Key = u64;

/// What an arrival found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// The task waits for more.
    StillWaiting,
    /// That was the last input.
    Ready(Poisoned),
    /// The flow had been fed before.
    FedTwice,
}

/// Whether some ancestor of a task failed, so that its body is skipped.
pub(crate) type Poisoned = bool;

/// One input that reaches a task: its flow, its datum, and whether an ancestor failed.
///
/// Passed in registers: as a struct it went through memory, and that alone was a third of the
/// cost of an arrival.
type ArrivingInput<D> = (usize, Option<Version<D>>, Poisoned);

/// A record that is still here at the end.
pub(crate) struct Leftover {
    pub key: Key,
    missing: Missing,
}

enum Missing {
    Mask(u16),
    Fed(Vec<bool>),
}

impl Leftover {
    /// Whether a flow that is fed by a task has not arrived.
    pub fn misses(&self, flow: usize) -> bool {
        match &self.missing {
            Missing::Mask(mask) => flow < NARROW && mask & 1 << flow != 0,
            Missing::Fed(fed) => !fed.get(flow).copied().unwrap_or(false),
        }
    }
}

/// What a worker holds of a table while it feeds the successors of one task, and asks the space about
/// them. Nothing else of the table may be touched before it is [released](Self::release).
pub(crate) struct Near<'t, D: Datum> {
    order: HeldBucket<'t, Blocks>,
    data: HeldBucket<'t, Records<D>>,
}

impl<D: Datum> Default for Near<'_, D> {
    fn default() -> Self {
        Near {
            order: HeldBucket::default(),
            data: HeldBucket::default(),
        }
    }
}

impl<D: Datum> Near<'_, D> {
    #[inline(always)]
    pub fn release(&mut self) {
        self.order.release();
        self.data.release();
    }
}

/// The table.
pub(crate) enum Pending<D: Datum> {
    /// Inputs carry nothing.
    Order(Table<Blocks>),
    Data(Table<Records<D>>),
}

impl<D: Datum> Pending<D> {
    /// For a run of so many tasks, whose edges carry data or not.
    pub fn new(n_tasks: u64, carries: bool) -> Self {
        match carries {
            false => Pending::Order(Table::new(n_tasks)),
            true => Pending::Data(Table::new(n_tasks)),
        }
    }

    /// Counts one input of a task that has more than one. The last one gets all data in `slots`.
    #[inline(always)]
    pub fn arrive<'t, T>(
        &'t self,
        key: Key,
        of: &CountedInputs<T>,
        (flow, datum, poisoned): ArrivingInput<D>,
        slots: &mut Slots<D>,
        near: &mut Near<'t, D>,
    ) -> Arrived {
        match self {
            Pending::Order(table) => {
                let (arrival, near) = ((key, flow, poisoned), &mut near.order);
                if of.wide {
                    listed(table, of.count, arrival, near)
                } else if blocks::fits(blocks::FEW, of.mask) {
                    counted::<{ blocks::FEW }>(table, of.mask, arrival, near)
                } else if blocks::fits(blocks::MANY, of.mask) {
                    counted::<{ blocks::MANY }>(table, of.mask, arrival, near)
                } else {
                    counted::<{ blocks::MOST }>(table, of.mask, arrival, near)
                }
            }
            Pending::Data(table) => {
                let records = near.data.lock(table, records::group(key));
                let mut input = (flow, datum, poisoned);
                if !of.wide
                    && of.mask >> INLINE == 0
                    && let Some(arrived) = records.arrive((key, of.mask as u8), &mut input, slots)
                {
                    // Then `input` still has the datum, which is foreign: it is dropped outside of the lock.
                    if arrived == Arrived::FedTwice {
                        near.data.release();
                    }
                    return arrived;
                }
                let (arrived, spilled) = records.arrive_behind((key, of.count), &mut input, slots);
                near.data.release();
                table.spill(spilled);
                arrived
            }
        }
    }

    /// Counts one input of a task that has many, through a flow of a high number: without asking the
    /// space, if the task's sources are known or given. `None` if they are not; `Some(None)` if the
    /// task does not name this one.
    #[cold]
    pub fn arrive_wide(
        &self,
        key: Key,
        claim: u64,
        input: &mut ArrivingInput<D>,
        sources: Option<Sources>,
        slots: &mut Slots<D>,
    ) -> Option<Option<Arrived>> {
        match self {
            Pending::Order(table) => {
                let mut blocks = table.lock(blocks::tag(blocks::MANY, key));
                let found = blocks.arrive_wide((key, claim), (input.0, input.2), sources);
                drop(blocks);
                let (arrived, spilled) = found?;
                table.spill(spilled);
                Some(arrived)
            }
            Pending::Data(table) => {
                let mut records = table.lock(records::group(key));
                let found = records.arrive_wide((key, claim), input, sources, slots);
                drop(records);
                let (arrived, spilled) = found?;
                table.spill(spilled);
                Some(arrived)
            }
        }
    }

    /// Keeps a ready task's inputs until a worker takes it from a queue, whose word says whether it is
    /// poisoned; leaves `slots` empty.
    pub fn park(&self, key: Key, slots: &mut Slots<D>) {
        if let Pending::Data(table) = self
            && table.lock(records::group(key)).park(key, slots)
        {
            table.spill(1);
        }
    }

    /// Takes a parked task's inputs back; false if nothing was parked under this key.
    pub fn take(&self, key: Key, slots: &mut Slots<D>) -> bool {
        let Pending::Data(table) = self else {
            return false;
        };
        let was_listed = table.lock(records::group(key)).take(key, slots);
        if was_listed == Some(true) {
            table.spill(-1);
        }
        was_listed.is_some()
    }

    /// What is left, when nobody works any more.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let mut left = Vec::new();
        match self {
            Pending::Order(table) => table.for_each(|blocks| blocks.leftovers(&mut left)),
            Pending::Data(table) => table.for_each(|records| records.leftovers(&mut left)),
        }
        left
    }
}

/// An input that carries nothing, of a task with narrow flows.
#[inline(always)]
fn counted<'t, const BITS: u32>(
    table: &'t Table<Blocks>,
    mask: u16,
    arrival: KeyedInput,
    near: &mut HeldBucket<'t, Blocks>,
) -> Arrived {
    let blocks = near.lock(table, blocks::tag(BITS, arrival.0));
    if let Some(arrived) = blocks.arrive::<BITS>(mask, arrival) {
        return arrived;
    }
    let (arrived, spilled) = blocks.arrive_behind(Few::Narrow(mask), arrival);
    near.release();
    table.spill(spilled);
    arrived
}

/// The same, of a task some of whose flows are wide.
#[cold]
fn listed<'t>(
    table: &'t Table<Blocks>,
    count: usize,
    arrival: KeyedInput,
    near: &mut HeldBucket<'t, Blocks>,
) -> Arrived {
    let blocks = near.lock(table, blocks::tag(blocks::MANY, arrival.0));
    let (arrived, spilled) = blocks.arrive_behind(Few::Count(count), arrival);
    near.release();
    table.spill(spilled);
    arrived
}

/// What both kinds of tests need.
#[cfg(test)]
mod specimen {
    use super::*;
    use crate::space::{Description, Flows, Inputs, Successors, TaskSpace};
    use crate::{error::TaskError, rank::Rank};

    /// Task `key` is fed through these flows, each by itself.
    pub struct Fed(pub std::ops::Range<usize>);

    impl TaskSpace for Fed {
        type Task = u64;
        type Datum = ();
        fn describe(&self, _: &mut Description) {}
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            std::iter::empty()
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            self.0.clone().for_each(|flow| from.task(flow, task, flow));
        }
        fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }

    /// What is sent in the tests: nothing, or where it belongs.
    pub trait Sent: Datum + PartialEq + std::fmt::Debug {
        const NOTHING: bool;
        fn to(key: Key, flow: usize) -> Self;
    }
    impl Sent for () {
        const NOTHING: bool = true;
        fn to(_: Key, _: usize) {}
    }

    /// A datum that tells where it belongs.
    #[cfg(not(loom))]
    #[derive(Clone, Debug, PartialEq)]
    pub struct Belongs {
        pub key: Key,
        pub flow: usize,
    }
    #[cfg(not(loom))]
    impl Datum for Belongs {}
    #[cfg(not(loom))]
    impl Sent for Belongs {
        const NOTHING: bool = false;
        fn to(key: Key, flow: usize) -> Self {
            Belongs { key, flow }
        }
    }

    /// Feeds one flow of a task; if that was the last, checks that all data are there.
    pub fn feed<D: Sent>(
        table: &Pending<D>,
        key: Key,
        flows: std::ops::Range<usize>,
        flow: usize,
    ) -> Arrived {
        feed_near(table, (key, flows, flow), &mut Near::default())
    }

    /// The same, by somebody who has fed others just before.
    pub fn feed_near<'t, D: Sent>(
        table: &'t Pending<D>,
        (key, flows, flow): (Key, std::ops::Range<usize>, usize),
        near: &mut Near<'t, D>,
    ) -> Arrived {
        let of = CountedInputs::of(&Fed(flows.clone()), key, flow, (key, flow));
        let datum = (!D::NOTHING).then(|| Version::new(D::to(key, flow)));
        let mut slots = Slots::new();
        let input = (flow, datum, flow == 1);
        let arrived = table.arrive(key, &of, input, &mut slots, near);
        if let Arrived::Ready(poisoned) = arrived {
            assert_eq!(poisoned, flows.contains(&1));
            let filled = slots.iter().enumerate();
            let filled = filled.filter_map(|(at, datum)| Some((at, datum.as_ref()?)));
            let all = flows
                .filter(|_| !D::NOTHING)
                .map(|flow| (flow, D::to(key, flow)));
            assert!(
                filled.map(|(at, datum)| (at, (**datum).clone())).eq(all),
                "all data of {key}, each in its place"
            );
        }
        arrived
    }

    /// Records in the table, and how much lies behind its buckets.
    pub fn count<D: Datum>(table: &Pending<D>) -> (usize, isize) {
        let spilled = match table {
            Pending::Order(table) => table.spilled(),
            Pending::Data(table) => table.spilled(),
        };
        (table.leftovers().len(), spilled)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::specimen::{Belongs, Sent, count, feed, feed_near};
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Small under Miri, which takes a millisecond for each bucket.
    const N_KEYS: u64 = if cfg!(miri) { 12 } else { 30_000 };
    const N_RACED: u64 = if cfg!(miri) { 10 } else { 7_500 };

    fn n_buckets<D: Datum>(table: &Pending<D>) -> usize {
        match table {
            Pending::Order(table) => table.n_buckets(),
            Pending::Data(table) => table.n_buckets(),
        }
    }

    #[test]
    fn a_table_that_grows_by_splitting_loses_nothing() {
        fn grow<D: Sent>() {
            // Narrow sets of flows, with places for their data and without; and wide ones.
            for flows in [0..2, 1..4, 2..6, 0..7, 5..12, 0..15, 60..70] {
                let table = Pending::<D>::new(0, !D::NOTHING);
                let last = flows.end - 1;
                for flow in flows.clone() {
                    for key in 1..=N_KEYS {
                        let arrived = feed(&table, key << 3, flows.clone(), flow);
                        let ready = matches!(arrived, Arrived::Ready(_));
                        assert_eq!(ready, flow == last, "{flows:?}");
                    }
                    let n_left = if flow == last { 0 } else { N_KEYS as usize };
                    assert_eq!(count(&table).0, n_left);
                }
                assert_eq!(count(&table), (0, 0), "{flows:?}: nothing is left");
                let grown = n_buckets(&table);
                assert!(grown > N_KEYS as usize / 8, "{grown} buckets");
            }
        }
        grow::<()>();
        grow::<Belongs>();
    }

    /// A worker that held on to a bucket while it locks another, or after it was to let go, would wait for ever.
    #[test]
    fn whoever_feeds_neighbours_holds_one_bucket_and_lets_it_go() {
        fn sweep<D: Sent>() {
            let table = Pending::<D>::new(0, !D::NOTHING);
            let mut near = Near::default();
            for flow in 0..2 {
                for key in 1..=N_KEYS {
                    let _ = feed_near(&table, (key, 0..3, flow), &mut near);
                }
            }
            near.release();
            for key in 1..=N_KEYS {
                let arrived = feed(&table, key, 0..3, 2);
                assert_eq!(arrived, Arrived::Ready(true));
            }
            assert_eq!(count(&table), (0, 0));
        }
        sweep::<()>();
        sweep::<Belongs>();
    }

    /// What one worker puts behind a bucket another may have taken before the first has told: then
    /// the count lay below zero, and the first panicked where overflow is checked.
    #[test]
    fn what_is_taken_before_it_was_told_of_makes_no_table_grow() {
        let table = Table::<Blocks>::new(0);
        let n_buckets = table.n_buckets();
        for _ in 0..1000 {
            table.spill(-3);
            table.spill(1);
            table.spill(2);
        }
        assert_eq!((table.spilled(), table.n_buckets()), (0, n_buckets));
    }

    #[test]
    fn sixteen_neighbours_with_few_flows_eight_and_four_with_more_take_two_lines_at_most() {
        for (neighbours, flows) in [(16, 0..3), (8, 0..7), (4, 0..8), (4, 0..15)] {
            let table = Pending::<()>::new(0, false);
            for key in 1 << 20..(1 << 20) + neighbours * N_KEYS {
                assert_eq!(feed(&table, key, flows.clone(), 0), Arrived::StillWaiting);
            }
            assert_eq!(count(&table).0, (neighbours * N_KEYS) as usize);
            let n_lines = n_buckets(&table);
            assert!(n_lines < 2 * N_KEYS as usize, "{n_lines} lines");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a hash of 40,000 names: of fewer it says nothing")]
    fn the_regular_names_of_a_square_spread_over_the_buckets() {
        // As `task_names!` packs three parameters of 17 bits; 40,000 blocks of one step.
        let name = |m: u64, n: u64| 1 << 55 | 3 << 53 | m << 34 | n << 17 | 7;
        let mut filled = vec![false; 1 << 15];
        for (m, n) in (0..200).flat_map(|m| (0..200).map(move |n| (m, n))) {
            let tag = blocks::tag(blocks::FEW, name(m, n));
            filled[table::hash(tag) % (1 << 15)] = true;
        }
        // Of 32,768 buckets a random function would fill 23,098.
        let n_filled = filled.iter().filter(|filled| **filled).count();
        assert!(n_filled > 20_000, "{n_filled}");
    }

    #[test]
    fn records_survive_threads_that_feed_and_split_at_once() {
        fn race<D: Sent>(round: u64) {
            let table = Pending::<D>::new(0, !D::NOTHING);
            let ready = AtomicU64::new(0);
            std::thread::scope(|threads| {
                for worker in 0..4 {
                    let (table, ready) = (&table, &ready);
                    threads.spawn(move || {
                        let mut near = Near::default();
                        for i in 0..N_RACED {
                            // Two threads from the front and two from the back, a flow each.
                            let back = N_RACED - 1 - i;
                            let i = if worker % 2 == 0 { i } else { back };
                            let key = (i + 1) * 3 + round;
                            let flows = if i % 3 == 0 { 0..4 } else { 4..8 };
                            let flow = flows.start + worker;
                            let arrived = feed_near(table, (key, flows, flow), &mut near);
                            if let Arrived::Ready(_) = arrived {
                                ready.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            assert_eq!(ready.into_inner(), N_RACED);
            assert_eq!(count(&table), (0, 0));
        }
        for round in 0..if cfg!(miri) { 1 } else { 20 } {
            race::<()>(round);
            race::<Belongs>(round);
        }
    }

    #[test]
    fn a_flow_that_is_fed_again_is_told_until_the_record_is_gone() {
        fn repeat<D: Sent>() {
            let table = Pending::<D>::new(0, !D::NOTHING);
            for (key, flows) in [(8, 0..3), (9, 3..5), (10, 6..9)] {
                let first = flows.start;
                assert_eq!(
                    feed(&table, key, flows.clone(), first),
                    Arrived::StillWaiting
                );
                assert_eq!(feed(&table, key, flows.clone(), first), Arrived::FedTwice);
                let left = table.leftovers();
                let left = left.iter().find(|left| left.key == key).unwrap();
                assert!(!left.misses(first) && left.misses(first + 1));
                for flow in first + 1..flows.end {
                    assert_ne!(feed(&table, key, flows.clone(), flow), Arrived::FedTwice);
                }
            }
            assert_eq!(count(&table), (0, 0));
        }
        repeat::<()>();
        repeat::<Belongs>();
    }

    #[test]
    fn what_is_parked_comes_back_once_with_its_data() {
        let table = Pending::new(0, true);
        let slots = |key, n: usize| -> Slots<Belongs> {
            (0..n)
                .map(|flow| (flow != 1).then(|| Version::new(Belongs { key, flow })))
                .collect()
        };
        // Eight keys of two buckets: more than there are cells.
        let keys = 64..72;
        for n in [1, 4, 5, 9] {
            for key in keys.clone() {
                table.park(key, &mut slots(key, n));
            }
            assert_eq!(count(&table).0, 8);
            for key in keys.clone() {
                let mut back = Slots::new();
                assert!(table.take(key, &mut back));
                let sent = slots(key, n);
                let data = |slots: &Slots<Belongs>| -> Vec<_> {
                    slots
                        .iter()
                        .flatten()
                        .map(|datum| (**datum).clone())
                        .collect()
                };
                assert_eq!(data(&back), data(&sent));
                assert!(!table.take(key, &mut back));
            }
            assert_eq!(count(&table), (0, 0));
        }
    }

    #[test]
    fn a_parked_task_that_is_fed_again_is_told() {
        let table = Pending::new(0, true);
        for n in [2, 5] {
            let mut slots = (0..n)
                .map(|flow| Some(Version::new(Belongs { key: 5, flow })))
                .collect();
            table.park(5, &mut slots);
            assert_eq!(feed(&table, 5, 0..n, 0), Arrived::FedTwice);
            assert!(table.take(5, &mut slots));
        }
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p dataflow-core --release --lib loom`. The lock of
/// a bucket is loom's here; what is modelled is the mask beside it: splitting while others arrive.
#[cfg(all(test, loom))]
mod loom_models {
    use super::specimen::{count, feed};
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A key of a task with so many bits, whose hash ends in these three.
    fn key(bits: usize, width: u32) -> Key {
        (1..)
            .map(|i| i << 4)
            .find(|&key| table::hash(blocks::tag(width, key)) & 7 == bits)
            .unwrap_or(0)
    }

    #[test]
    fn loom_a_record_is_found_again_while_the_table_grows_and_splits() {
        let mut explored = loom::model::Builder::new();
        explored.preemption_bound = explored.preemption_bound.max(Some(3));
        explored.check(|| {
            // Moves at the split of the third bit, not at that of the second.
            let moves = key(4, blocks::FEW);
            let wide = [key(2, blocks::MANY), key(0, blocks::MANY)];
            let table = Arc::new(Pending::<()>::new(0, false));
            assert_eq!(feed(&table, moves, 0..2, 0), Arrived::StillWaiting);
            // Wide: lies behind the bucket, so that the table grows; nothing is split yet.
            assert_eq!(feed(&table, wide[0], 18..20, 18), Arrived::StillWaiting);
            let other = table.clone();
            let grows = thread::spawn(move || {
                assert_eq!(feed(&other, wide[1], 18..20, 18), Arrived::StillWaiting);
                assert_ne!(feed(&other, wide[1], 18..20, 19), Arrived::FedTwice);
            });
            assert_eq!(feed(&table, moves, 0..2, 1), Arrived::Ready(true));
            grows.join().unwrap();
            assert_eq!(count(&table).0, 1, "the first wide one waits");
        });
    }

    #[test]
    fn loom_two_who_arrive_first_at_once_make_one_record() {
        loom::model(|| {
            let (stays, moves) = (key(0, blocks::MANY), key(2, blocks::FEW));
            let table = Arc::new(Pending::<()>::new(0, false));
            let other = table.clone();
            let source = thread::spawn(move || {
                assert_eq!(feed(&other, stays, 18..20, 18), Arrived::StillWaiting);
                feed(&other, moves, 0..2, 0)
            });
            let both = [feed(&table, moves, 0..2, 1), source.join().unwrap()];
            let ready = both
                .iter()
                .filter(|got| matches!(got, Arrived::Ready(_)))
                .count();
            assert_eq!(ready, 1, "{both:?}");
            assert_eq!(count(&table).0, 1, "the wide one waits");
        });
    }
}
