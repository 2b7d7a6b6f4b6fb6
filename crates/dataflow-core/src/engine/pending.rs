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
use crate::space::NARROW;
use crate::sync::{AtomicUsize, Ordering, SpinGuard, SpinLock};
use std::sync::OnceLock;

/// Key of a task in tables and queues: 56 bits, never 0.
pub(crate) type Key = u64;

/// What an arrival found.
#[must_use]
pub(crate) enum Arrived<D: Datum> {
    /// The task waits for more.
    StillWaiting,
    /// That was the last input.
    Ready(Slots<D>, Poisoned),
    /// The flow had been fed before.
    FedTwice,
}

/// Whether some ancestor of a task failed, so that its body is skipped.
pub(crate) type Poisoned = bool;

/// One input that reaches a task.
pub(crate) struct Arrival<D: Datum> {
    pub key: Key,
    pub flow: usize,
    pub datum: Option<Version<D>>,
    pub poisoned: Poisoned,
}

/// What the task expects in all.
#[derive(Clone, Copy)]
pub(crate) enum Awaited {
    /// A bit per flow, all below [`NARROW`].
    Few(u8),
    /// A number of flows of any index.
    Many(usize),
}

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
const FIRST_DEPTH: u32 = 8;
const SEGMENTS: usize = 40;

/// The table.
pub(crate) struct Pending<D: Datum> {
    /// The number of buckets is 2 to this.
    depth: AtomicUsize,
    listed: AtomicUsize,
    segments: [OnceLock<Box<[Bucket<D>]>>; SEGMENTS],
}

#[repr(align(64))]
struct Bucket<D: Datum>(SpinLock<Records<D>>);

struct Records<D: Datum> {
    /// Hash bits this bucket is split to; 0 if nothing was ever put here.
    depth: u32,
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
        let pending = Pending {
            depth: AtomicUsize::new(FIRST_DEPTH as usize),
            listed: AtomicUsize::new(0),
            segments: [const { OnceLock::new() }; SEGMENTS],
        };
        pending.segment(0);
        pending
    }

    /// Counts one input of a task that has more than one.
    #[inline]
    pub fn arrive(&self, arrival: Arrival<D>, awaited: Awaited) -> Arrived<D> {
        let mut records = self.lock(arrival.key);
        if let Awaited::Few(mask) = awaited
            && (!Self::CARRIES || mask >> INLINE == 0)
        {
            if let Some(cell) = records.cell_of(arrival.key) {
                return records.feed(cell, arrival);
            }
            if records
                .behind
                .as_ref()
                .is_none_or(|behind| behind.list.is_empty())
                && let Some(cell) = records.cells.iter().position(|&cell| cell == 0)
            {
                records.cells[cell] = arrival.key << 8 | u64::from(mask);
                return records.feed(cell, arrival);
            }
        }
        self.arrive_behind(records, arrival, awaited)
    }

    /// Keeps a ready task's inputs until a worker takes it from a queue.
    pub fn park(&self, key: Key, slots: Slots<D>, poisoned: Poisoned) {
        let mut records = self.lock(key);
        match records.cells.iter().position(|&cell| cell == 0) {
            Some(cell) if slots.len() <= INLINE => {
                records.cells[cell] = key << 8 | if poisoned { POISON } else { 0 };
                let data = &mut records.behind().data[cell];
                for (place, version) in data.iter_mut().zip(slots) {
                    *place = version;
                }
            }
            _ => {
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

    /// Takes a parked task's inputs back.
    pub fn take(&self, key: Key) -> Option<(Slots<D>, Poisoned)> {
        let mut records = self.lock(key);
        if let Some(cell) = records.cell_of(key) {
            return Some(records.remove(cell));
        }
        let behind = records.behind.as_mut()?;
        let at = behind.list.iter().position(|listed| listed.key == key)?;
        let listed = behind.list.swap_remove(at);
        self.listed.fetch_sub(1, Ordering::Relaxed);
        Some((listed.slots, listed.poisoned))
    }

    /// What is left, when nobody works any more.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let mut left = Vec::new();
        for bucket in self
            .segments
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|s| s.iter())
        {
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
        arrival: Arrival<D>,
        awaited: Awaited,
    ) -> Arrived<D> {
        let list = &mut records.behind().list;
        let at = match list.iter().position(|listed| listed.key == arrival.key) {
            Some(at) => at,
            None => {
                let missing = match awaited {
                    Awaited::Few(mask) => mask.count_ones() as usize,
                    Awaited::Many(count) => count,
                };
                let slots = Slots::new();
                list.push(Listed {
                    key: arrival.key,
                    missing,
                    fed: Vec::new(),
                    poisoned: false,
                    slots,
                });
                list.len() - 1
            }
        };
        let is_new = list[at].fed.is_empty();
        let listed = &mut list[at];
        if listed.fed.len() <= arrival.flow {
            listed.fed.resize(arrival.flow + 1, false);
        }
        if listed.missing == 0 || std::mem::replace(&mut listed.fed[arrival.flow], true) {
            return Arrived::FedTwice;
        }
        listed.missing -= 1;
        listed.poisoned |= arrival.poisoned;
        if Self::CARRIES {
            super::slots::set(&mut listed.slots, arrival.flow, arrival.datum);
        }
        if listed.missing == 0 {
            let listed = list.swap_remove(at);
            if !is_new {
                self.listed.fetch_sub(1, Ordering::Relaxed);
            }
            return Arrived::Ready(listed.slots, listed.poisoned);
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
        let depth = self.depth.load(Ordering::Acquire);
        if listed > 1 << depth >> 4 && depth + 1 < SEGMENTS {
            self.segment(depth + 1 - FIRST_DEPTH as usize);
            // Release: whoever sees the new depth sees the segment. A lost race has grown it too.
            let _ =
                self.depth
                    .compare_exchange(depth, depth + 1, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// The bucket of a key, locked and split as far as the table is.
    #[inline(always)]
    fn lock(&self, key: Key) -> SpinGuard<'_, Records<D>> {
        let hash = hash(key);
        let depth = self.depth.load(Ordering::Acquire) as u32;
        let records = self.bucket(index(hash, depth)).0.lock();
        if records.depth == depth {
            records
        } else {
            self.lock_and_split(hash, records)
        }
    }

    #[cold]
    fn lock_and_split<'p>(
        &'p self,
        hash: u64,
        mut records: SpinGuard<'p, Records<D>>,
    ) -> SpinGuard<'p, Records<D>> {
        loop {
            drop(records);
            let depth = self.depth.load(Ordering::Acquire) as u32;
            let at = index(hash, depth);
            self.split(at, depth);
            records = self.bucket(at).0.lock();
            if records.depth == depth {
                return records;
            }
        }
    }

    /// Splits a bucket, and first the one it comes from, until it is as deep as asked.
    fn split(&self, at: usize, depth: u32) {
        if at >= 1 << FIRST_DEPTH {
            let top = at.ilog2();
            self.split(at ^ 1 << top, top + 1);
        }
        let mut records = self.bucket(at).0.lock();
        while records.depth < depth {
            let bit = records.depth;
            let child = at | 1 << bit;
            let mut target = self.bucket(child).0.lock();
            target.depth = bit + 1;
            records.move_to(&mut target, bit);
            records.depth = bit + 1;
        }
    }

    fn bucket(&self, at: usize) -> &Bucket<D> {
        // Segment 0 holds the first 2^FIRST_DEPTH buckets, each later one as many as all before.
        let log = (at | ((1 << FIRST_DEPTH) - 1)).ilog2();
        let segment = (log + 1 - FIRST_DEPTH) as usize;
        let first = if segment == 0 { 0 } else { 1 << log };
        &self.segment(segment)[at - first]
    }

    #[inline(always)]
    fn segment(&self, segment: usize) -> &[Bucket<D>] {
        self.segments[segment].get_or_init(|| {
            let length = 1 << (FIRST_DEPTH as usize + segment.saturating_sub(1));
            let depth = if segment == 0 { FIRST_DEPTH } else { 0 };
            (0..length).map(|_| Bucket::new(depth)).collect()
        })
    }
}

impl<D: Datum> Bucket<D> {
    fn new(depth: u32) -> Self {
        Bucket(SpinLock::new(Records {
            depth,
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
    fn feed(&mut self, cell: usize, arrival: Arrival<D>) -> Arrived<D> {
        let bit = 1 << arrival.flow;
        let word = &mut self.cells[cell];
        if *word & bit == 0 {
            return Arrived::FedTwice;
        }
        *word = *word & !bit | if arrival.poisoned { POISON } else { 0 };
        let waiting = *word & (POISON - 1) != 0;
        if Self::CARRIES && arrival.datum.is_some() {
            self.behind().data[cell][arrival.flow] = arrival.datum;
        }
        if waiting {
            return Arrived::StillWaiting;
        }
        let (slots, poisoned) = self.remove(cell);
        Arrived::Ready(slots, poisoned)
    }

    #[inline(always)]
    fn remove(&mut self, cell: usize) -> (Slots<D>, Poisoned) {
        let poisoned = self.cells[cell] & POISON != 0;
        self.cells[cell] = 0;
        let slots = match &mut self.behind {
            Some(behind) if Self::CARRIES => Slots::from(std::mem::take(&mut behind.data[cell])),
            _ => Slots::new(),
        };
        (slots, poisoned)
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
    fn move_to(&mut self, child: &mut Self, bit: u32) {
        let moves = |key: Key| hash(key) >> bit & 1 == 1;
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
fn hash(key: Key) -> u64 {
    (key >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

#[inline(always)]
fn index(hash: u64, depth: u32) -> usize {
    (hash & ((1 << depth) - 1)) as usize
}
