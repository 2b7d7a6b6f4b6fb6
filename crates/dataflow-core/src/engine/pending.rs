//! Pending: the records of tasks that wait for more inputs.
//!
//! A record is made by the first arrival, wherever it comes from, and removed by the last. Only
//! the frontier of the graph is here; the graph itself is nowhere.
//!
//! # Structure
//! A hash table of buckets, each one cache line: a lock, up to five cells of one word (key and
//! the set of flows still missing) and a pointer to the data that have arrived. Names that
//! differ only in their last two bits share a bucket, so that a task's neighbours are found in a
//! line that is warm. The table grows by linear hashing: a bucket is split when it is next
//! touched, so nobody ever waits for a table to be copied. Records that do not fit (bucket full,
//! many flows) lie in a list behind the bucket.
//!
//! # Law
//! A key has at most one record. At quiescence there is none.

use super::slots::Slots;
use crate::data::{Datum, Version};
use crate::space::{Expected, NARROW};
use crate::sync::{AtomicUsize, Ordering, SpinGuard, SpinLock};
use std::sync::OnceLock;

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
type Input<D> = (usize, Option<Version<D>>, Poisoned);

/// A record that is still here at the end.
pub(crate) struct Leftover {
    pub key: Key,
    missing: Missing,
}

#[derive(Clone)]
enum Missing {
    Mask(u8),
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

const POISON: u64 = 1 << NARROW;
const CELLS: usize = 5;
/// Flows whose data lie beside the cells; tasks with more are listed behind the bucket.
pub(super) const INLINE: usize = 4;
/// Buckets of a new table: 32 KiB (in the models a few, so that it grows).
const FIRST: usize = if cfg!(loom) { 2 } else { 512 };
/// Times the table can double.
const DOUBLINGS: usize = 32;

/// The table.
pub(crate) struct Pending<D: Datum> {
    /// The number of buckets, a power of two, less one.
    mask: AtomicUsize,
    listed: AtomicUsize,
    first: Box<[Bucket<D>; FIRST]>,
    /// Each as large as all before together.
    later: [OnceLock<Box<[Bucket<D>]>>; DOUBLINGS],
}

#[repr(align(64))]
struct Bucket<D: Datum>(SpinLock<Records<D>>);

struct Records<D: Datum> {
    /// Mask of the hash bits that this bucket is split to; 0 if nothing was ever put here.
    mask: usize,
    /// `key << 8 | poison | missing flows`; 0 is empty.
    cells: [u64; CELLS],
    behind: Option<Box<Behind<D>>>,
}

struct Behind<D: Datum> {
    data: [[Option<Version<D>>; INLINE]; CELLS],
    list: Vec<Listed<D>>,
}

struct Listed<D: Datum> {
    key: Key,
    missing: usize,
    fed: Vec<bool>,
    poisoned: Poisoned,
    slots: Slots<D>,
}

impl<D: Datum> Pending<D> {
    const CARRIES: bool = size_of::<D>() != 0;

    pub fn new() -> Self {
        let first: Box<[Bucket<D>]> = (0..FIRST).map(|_| Bucket::new(FIRST - 1)).collect();
        Pending {
            mask: AtomicUsize::new(FIRST - 1),
            listed: AtomicUsize::new(0),
            first: first
                .try_into()
                .unwrap_or_else(|_| unreachable!("{FIRST} buckets were made")),
            later: [const { OnceLock::new() }; DOUBLINGS],
        }
    }

    /// Counts one input of a task that has more than one. The last one gets all data in `slots`.
    #[inline(always)]
    pub fn arrive<T>(
        &self,
        key: Key,
        of: &Expected<T>,
        (flow, datum, poisoned): Input<D>,
        slots: &mut Slots<D>,
    ) -> Arrived {
        let mut records = self.lock(key);
        if !of.wide && (!Self::CARRIES || of.mask >> INLINE == 0) {
            if let Some(cell) = records.cell_of(key) {
                return records.feed(cell, (flow, datum, poisoned), slots);
            }
            if records
                .behind
                .as_ref()
                .is_none_or(|behind| behind.list.is_empty())
                && let Some(cell) = records.free_cell()
            {
                records.cells[cell] = key << 8 | u64::from(of.mask);
                return records.feed(cell, (flow, datum, poisoned), slots);
            }
        }
        self.arrive_behind(records, key, of.count, (flow, datum, poisoned), slots)
    }

    /// Keeps a ready task's inputs until a worker takes it from a queue; leaves `slots` empty.
    pub fn park(&self, key: Key, slots: &mut Slots<D>, poisoned: Poisoned) {
        let mut records = self.lock(key);
        match records.free_cell() {
            Some(cell) if slots.len() <= INLINE => {
                records.cells[cell] = key << 8 | if poisoned { POISON } else { 0 };
                let data = &mut records.behind().data[cell];
                for (place, version) in data.iter_mut().zip(slots.drain(..)) {
                    *place = version;
                }
            }
            _ => {
                let slots = std::mem::take(slots);
                let parked = Listed {
                    key,
                    missing: 0,
                    fed: Vec::new(),
                    poisoned,
                    slots,
                };
                records.behind().list.push(parked);
                self.grow(records);
            }
        }
    }

    /// Takes a parked task's inputs back. `None` if nothing was parked under this key.
    pub fn take(&self, key: Key, slots: &mut Slots<D>) -> Option<Poisoned> {
        let mut records = self.lock(key);
        if let Some(cell) = records.cell_of(key) {
            return Some(records.remove(cell, slots));
        }
        let behind = records.behind.as_mut()?;
        let at = behind.list.iter().position(|listed| listed.key == key)?;
        let listed = behind.list.swap_remove(at);
        self.listed.fetch_sub(1, Ordering::Relaxed);
        *slots = listed.slots;
        Some(listed.poisoned)
    }

    /// What is left, when nobody works any more.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let mut left = Vec::new();
        let later = self
            .later
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|part| part.iter());
        for bucket in self.first.iter().chain(later) {
            let records = bucket.0.lock();
            for cell in records.cells.iter().filter(|&&cell| cell != 0) {
                let missing = Missing::Mask((cell & (POISON - 1)) as u8);
                left.push(Leftover {
                    key: cell >> 8,
                    missing,
                });
            }
            for listed in records.behind.iter().flat_map(|behind| &behind.list) {
                let missing = Missing::Fed(listed.fed.clone());
                left.push(Leftover {
                    key: listed.key,
                    missing,
                });
            }
        }
        left
    }

    #[cold]
    fn arrive_behind(
        &self,
        mut records: SpinGuard<'_, Records<D>>,
        key: Key,
        count: usize,
        (flow, datum, poisoned): Input<D>,
        slots: &mut Slots<D>,
    ) -> Arrived {
        let list = &mut records.behind().list;
        let at = match list.iter().position(|listed| listed.key == key) {
            Some(at) => at,
            None => {
                let slots = Slots::new();
                list.push(Listed {
                    key,
                    missing: count,
                    fed: Vec::new(),
                    poisoned: false,
                    slots,
                });
                list.len() - 1
            }
        };
        let is_new = list[at].fed.is_empty();
        let listed = &mut list[at];
        if listed.fed.len() <= flow {
            listed.fed.resize(flow + 1, false);
        }
        if listed.missing == 0 || std::mem::replace(&mut listed.fed[flow], true) {
            return Arrived::FedTwice;
        }
        listed.missing -= 1;
        listed.poisoned |= poisoned;
        if Self::CARRIES {
            super::slots::set(&mut listed.slots, flow, datum);
        }
        if listed.missing == 0 {
            let listed = list.swap_remove(at);
            if !is_new {
                self.listed.fetch_sub(1, Ordering::Relaxed);
            }
            *slots = listed.slots;
            return Arrived::Ready(listed.poisoned);
        }
        if is_new {
            self.grow(records);
        }
        Arrived::StillWaiting
    }

    /// One more record lies behind a bucket; too many of them, and the table doubles.
    fn grow(&self, records: SpinGuard<'_, Records<D>>) {
        drop(records);
        let listed = self.listed.fetch_add(1, Ordering::Relaxed) + 1;
        let mask = self.mask.load(Ordering::Relaxed);
        if listed > mask / 16 && mask < FIRST << (DOUBLINGS - 1) {
            // Relaxed: the number orders nothing. A lost race means that another has doubled it.
            let _ = self.mask.compare_exchange(
                mask,
                2 * mask + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// The bucket of a key, locked and split as far as the table is.
    #[inline(always)]
    fn lock(&self, key: Key) -> SpinGuard<'_, Records<D>> {
        let hash = hash(key);
        let mask = self.mask.load(Ordering::Relaxed);
        let records = self.bucket(hash & mask).0.lock();
        if records.mask == mask {
            records
        } else {
            self.lock_and_split(hash, records)
        }
    }

    #[cold]
    fn lock_and_split<'p>(
        &'p self,
        hash: usize,
        mut records: SpinGuard<'p, Records<D>>,
    ) -> SpinGuard<'p, Records<D>> {
        loop {
            drop(records);
            let mask = self.mask.load(Ordering::Relaxed);
            self.split(hash & mask, mask);
            records = self.bucket(hash & mask).0.lock();
            // Deeper than the mask that chose it, and the key may have moved on meanwhile.
            if records.mask == mask {
                return records;
            }
        }
    }

    /// Splits a bucket, and first the one it comes from, until it is as deep as asked.
    fn split(&self, at: usize, mask: usize) {
        if at >= FIRST {
            let top = 1 << at.ilog2();
            self.split(at ^ top, 2 * top - 1);
        }
        let mut records = self.bucket(at).0.lock();
        while records.mask < mask {
            let bit = records.mask + 1;
            let mut child = self.bucket(at | bit).0.lock();
            child.mask = 2 * bit - 1;
            records.move_to(&mut child, bit);
            records.mask = 2 * bit - 1;
        }
    }

    #[inline(always)]
    fn bucket(&self, at: usize) -> &Bucket<D> {
        if at < FIRST {
            &self.first[at]
        } else {
            self.later_bucket(at)
        }
    }

    fn later_bucket(&self, at: usize) -> &Bucket<D> {
        let first = 1 << at.ilog2();
        let part = &self.later[(first / FIRST).ilog2() as usize];
        &part.get_or_init(|| (0..first).map(|_| Bucket::new(0)).collect())[at - first]
    }
}

impl<D: Datum> Bucket<D> {
    fn new(mask: usize) -> Self {
        Bucket(SpinLock::new(Records {
            mask,
            cells: [0; CELLS],
            behind: None,
        }))
    }
}

impl<D: Datum> Records<D> {
    const CARRIES: bool = Pending::<D>::CARRIES;

    #[inline(always)]
    fn cell_of(&self, key: Key) -> Option<usize> {
        self.cells.iter().position(|&cell| cell >> 8 == key)
    }

    #[inline(always)]
    fn free_cell(&self) -> Option<usize> {
        self.cells.iter().position(|&cell| cell == 0)
    }

    #[inline(always)]
    fn feed(
        &mut self,
        cell: usize,
        (flow, datum, poisoned): Input<D>,
        slots: &mut Slots<D>,
    ) -> Arrived {
        let before = self.cells[cell];
        let after = before & !(1 << flow) | u64::from(poisoned) << NARROW;
        if after == before | u64::from(poisoned) << NARROW {
            return Arrived::FedTwice;
        }
        self.cells[cell] = after;
        if Self::CARRIES && datum.is_some() {
            self.behind().data[cell][flow] = datum;
        }
        if after & (POISON - 1) != 0 {
            return Arrived::StillWaiting;
        }
        Arrived::Ready(self.remove(cell, slots))
    }

    #[inline(always)]
    fn remove(&mut self, cell: usize, slots: &mut Slots<D>) -> Poisoned {
        let poisoned = self.cells[cell] & POISON != 0;
        self.cells[cell] = 0;
        if Self::CARRIES
            && let Some(behind) = &mut self.behind
        {
            slots.clear();
            slots.extend(behind.data[cell].iter_mut().map(Option::take));
        }
        poisoned
    }

    fn behind(&mut self) -> &mut Behind<D> {
        self.behind.get_or_insert_with(|| {
            Box::new(Behind {
                data: Default::default(),
                list: Vec::new(),
            })
        })
    }

    /// Moves what belongs to the child that has the bit set.
    fn move_to(&mut self, child: &mut Self, bit: usize) {
        let moves = |key: Key| hash(key) & bit != 0;
        for cell in 0..CELLS {
            let word = self.cells[cell];
            if word != 0 && moves(word >> 8) {
                self.cells[cell] = 0;
                child.cells[cell] = word;
                if let Some(behind) = &mut self.behind {
                    child.behind().data[cell] = std::mem::take(&mut behind.data[cell]);
                }
            }
        }
        if let Some(behind) = &mut self.behind {
            let moved = behind
                .list
                .extract_if(.., |listed| moves(listed.key))
                .collect::<Vec<_>>();
            if !moved.is_empty() {
                child.behind().list.extend(moved);
            }
        }
    }
}

/// Keys that differ in the last two bits have one hash.
#[inline(always)]
fn hash(key: Key) -> usize {
    ((key >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
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

    /// A datum that tells where it belongs.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Belongs {
        pub key: Key,
        pub flow: usize,
    }
    impl Datum for Belongs {}

    /// Feeds one flow of a task; if that was the last, checks that all data are there.
    pub fn feed(
        table: &Pending<Belongs>,
        key: Key,
        flows: std::ops::Range<usize>,
        flow: usize,
    ) -> Arrived {
        let of = Expected::of(&Fed(flows.clone()), key, flow, (key, flow));
        let datum = Some(Version::new(Belongs { key, flow }));
        let mut slots = Slots::new();
        let arrived = table.arrive(key, &of, (flow, datum, flow == 1), &mut slots);
        if let Arrived::Ready(poisoned) = arrived {
            assert_eq!(poisoned, flows.contains(&1));
            let seen = slots.iter().flatten().map(|datum| (**datum).clone());
            let sent = flows.map(|flow| Belongs { key, flow });
            assert!(seen.eq(sent), "all data of {key}, each in its place");
            assert!(
                slots
                    .iter()
                    .enumerate()
                    .all(|(at, d)| d.as_ref().is_none_or(|d| d.flow == at))
            );
        }
        arrived
    }

    pub fn count(table: &Pending<Belongs>) -> (usize, usize) {
        (
            table.leftovers().len(),
            table.listed.load(Ordering::Relaxed),
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::specimen::{Belongs, count, feed};
    use super::*;

    const N_KEYS: u64 = if cfg!(miri) { 40 } else { 30_000 };

    #[test]
    fn a_table_that_grows_by_splitting_loses_nothing() {
        // Up to 4 flows in cells; 5 to 7 and more behind the buckets, which makes it grow.
        for flows in [0..2, 1..4, 2..6, 0..7, 5..12, 60..70] {
            let table = Pending::new();
            let last = flows.end - 1;
            for flow in flows.clone() {
                for key in 1..=N_KEYS {
                    let arrived = feed(&table, key << 1, flows.clone(), flow);
                    assert_eq!(
                        matches!(arrived, Arrived::Ready(_)),
                        flow == last,
                        "{flows:?}"
                    );
                }
                let n_left = if flow == last { 0 } else { N_KEYS as usize };
                assert_eq!(count(&table).0, n_left);
            }
            assert_eq!(
                count(&table),
                (0, 0),
                "{flows:?}: nothing is left, nothing listed"
            );
            let grown = table.mask.load(Ordering::Relaxed) + 1;
            assert!(
                cfg!(miri) || grown > N_KEYS as usize / 8,
                "{flows:?}: {grown} buckets"
            );
        }
    }

    #[test]
    fn records_survive_threads_that_feed_and_split_at_once() {
        for round in 0..if cfg!(miri) { 1 } else { 20 } {
            let table = Pending::new();
            let ready = std::sync::atomic::AtomicU64::new(0);
            std::thread::scope(|threads| {
                for worker in 0..4 {
                    let (table, ready) = (&table, &ready);
                    threads.spawn(move || {
                        for i in 0..N_KEYS / 4 {
                            // Two threads from the front and two from the back, a flow each.
                            let i = if worker % 2 == 0 {
                                i
                            } else {
                                N_KEYS / 4 - 1 - i
                            };
                            let key = (i + 1) * 3 + round;
                            let flows = if i % 3 == 0 { 0..4 } else { 4..8 };
                            let flow = flows.start + worker;
                            if let Arrived::Ready(_) = feed(table, key, flows, flow) {
                                ready.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            assert_eq!(ready.into_inner(), N_KEYS / 4);
            assert_eq!(count(&table), (0, 0));
        }
    }

    #[test]
    fn a_flow_that_is_fed_again_is_told_until_the_record_is_gone() {
        let table = Pending::new();
        for (key, flows) in [(8, 0..3), (9, 3..5), (10, 6..9)] {
            assert_eq!(
                feed(&table, key, flows.clone(), flows.start),
                Arrived::StillWaiting
            );
            assert_eq!(
                feed(&table, key, flows.clone(), flows.start),
                Arrived::FedTwice
            );
            let left = table.leftovers();
            let left = left.iter().find(|left| left.key == key).unwrap();
            assert!(!left.misses(flows.start) && left.misses(flows.start + 1));
            for flow in flows.start + 1..flows.end {
                assert_ne!(feed(&table, key, flows.clone(), flow), Arrived::FedTwice);
            }
        }
        assert_eq!(count(&table), (0, 0));
    }

    #[test]
    fn what_is_parked_comes_back_once_with_its_data_and_its_poison() {
        let table = Pending::new();
        let slots = |key, n: usize| -> Slots<Belongs> {
            (0..n)
                .map(|flow| (flow != 1).then(|| Version::new(Belongs { key, flow })))
                .collect()
        };
        // Eight keys of two buckets: more than there are cells.
        let keys = 64..72;
        for n in [1, 4, 5, 9] {
            for key in keys.clone() {
                table.park(key, &mut slots(key, n), key % 2 == 0);
            }
            assert_eq!(count(&table).0, 8);
            for key in keys.clone() {
                let mut back = Slots::new();
                assert_eq!(table.take(key, &mut back), Some(key % 2 == 0));
                let sent = slots(key, n);
                let data = |slots: &Slots<Belongs>| -> Vec<_> {
                    slots
                        .iter()
                        .flatten()
                        .map(|datum| (**datum).clone())
                        .collect()
                };
                assert_eq!(data(&back), data(&sent));
                assert_eq!(table.take(key, &mut back), None);
            }
            assert_eq!(count(&table), (0, 0));
        }
    }

    #[test]
    fn a_parked_task_that_is_fed_again_is_told() {
        let table = Pending::new();
        for n in [2, 5] {
            let mut slots = (0..n)
                .map(|flow| Some(Version::new(Belongs { key: 5, flow })))
                .collect();
            table.park(5, &mut slots, false);
            assert_eq!(feed(&table, 5, 0..n, 0), Arrived::FedTwice);
            assert!(table.take(5, &mut slots).is_some());
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

    /// A key whose hash ends in these three bits.
    fn key(bits: usize) -> Key {
        (1..)
            .map(|i| i << 2)
            .find(|&key| hash(key) & 7 == bits)
            .unwrap_or(0)
    }

    #[test]
    fn loom_a_record_is_found_again_while_the_table_grows_and_splits() {
        let mut explored = loom::model::Builder::new();
        explored.preemption_bound = Some(3);
        explored.check(|| {
            // Moves at the split of the third bit, not at that of the second.
            let (moves, wide) = (key(4), [key(2), key(0)]);
            let table = Arc::new(Pending::new());
            assert_eq!(feed(&table, moves, 0..2, 0), Arrived::StillWaiting);
            // Wide: lies behind the bucket, so that the table grows; nothing is split yet.
            assert_eq!(feed(&table, wide[0], 8..10, 8), Arrived::StillWaiting);
            let other = table.clone();
            let grows = thread::spawn(move || {
                assert_eq!(feed(&other, wide[1], 8..10, 8), Arrived::StillWaiting);
                assert_ne!(feed(&other, wide[1], 8..10, 9), Arrived::FedTwice);
            });
            assert_eq!(feed(&table, moves, 0..2, 1), Arrived::Ready(true));
            grows.join().unwrap();
            assert_eq!(count(&table).0, 1, "the first wide one waits");
        });
    }

    #[test]
    fn loom_two_who_arrive_first_at_once_make_one_record() {
        loom::model(|| {
            let (stays, moves) = (key(0), key(2));
            let table = Arc::new(Pending::new());
            let other = table.clone();
            let source = thread::spawn(move || {
                assert_eq!(feed(&other, stays, 8..10, 8), Arrived::StillWaiting);
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
