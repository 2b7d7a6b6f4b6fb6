//! Table: a hash table that grows a bucket at a time.
//!
//! # Structure
//! Each bucket is one cache line with a lock. The table grows by linear hashing: it doubles by
//! raising its mask, and a bucket is split when it is next touched; so nobody ever waits for a
//! table to be copied. What a bucket holds is a [`BucketContents`]; what does not fit there spills behind
//! the line, and many spills make the table double.
//!
//! # Law
//! What belongs to a group is found in the bucket that [`Table::lock`] returns, and nowhere else.
//!
//! # Orderings
//! The mask orders nothing: a bucket says under its lock how far it was split, and is accepted
//! only if that is as far as the mask that led to it.
//!
//! # Source
//! Litwin, *Linear hashing: a new tool for file and table addressing*, VLDB 1980.

use crate::sync::{AtomicIsize, AtomicUsize, Ordering, SpinGuard, SpinLock, lock};
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

/// Buckets of a new table at least and, where there are many tasks, at most: 512 bytes and 32 KiB (in the
/// models and under Miri a few, so that it grows). To make and to drop the larger takes 6 µs.
const LEAST: usize = if cfg!(any(loom, miri)) { 2 } else { 8 };
const FIRST: usize = if cfg!(any(loom, miri)) { 2 } else { 512 };
/// Times a table of one bucket can double (Miri looks at each place for more with every borrow of the
/// table).
const DOUBLINGS: usize = if cfg!(miri) { 8 } else { 32 };
/// One spill for so many buckets, and the table doubles.
const BUCKETS_PER_SPILL: usize = 8;

/// Names that share a bucket: what their keys have in common.
pub(crate) type Group = u64;

/// What lies in a bucket.
pub(crate) trait BucketContents: Default {
    /// Moves what belongs to the groups that `moves` accepts.
    fn move_to(&mut self, child: &mut Self, moves: impl Fn(Group) -> bool);
}

pub(crate) struct Table<S> {
    /// The number of buckets, a power of two, less one.
    mask: AtomicUsize,
    /// What lies behind all buckets together; told without a lock, so that for a moment it may be
    /// less than nothing.
    spilled: AtomicIsize,
    first: Box<[Bucket<S>]>,
    /// By the logarithm of their first, each as large as all before together.
    later: [OnceLock<Box<[Bucket<S>]>>; DOUBLINGS],
}

/// The bucket that was locked last, until another is asked for: tasks that are fed one after the other are
/// often of one group, and to lock is the dearest part of an arrival.
pub(crate) struct HeldBucket<'t, S>(Option<(Group, SpinGuard<'t, Split<S>>)>);

impl<S> Default for HeldBucket<'_, S> {
    fn default() -> Self {
        HeldBucket(None)
    }
}

impl<'t, S: BucketContents> HeldBucket<'t, S> {
    /// The contents of a group, locked; what was held before is let go.
    #[inline(always)]
    pub fn lock(&mut self, table: &'t Table<S>, group: Group) -> &mut S {
        if self.0.as_ref().is_none_or(|(held, _)| *held != group) {
            self.release();
            self.0 = Some((group, table.lock(group)));
        }
        match &mut self.0 {
            Some((_, bucket)) => bucket,
            None => unreachable!("it was locked"),
        }
    }

    /// Before anything else is locked: who holds one bucket waits for no other.
    #[inline(always)]
    pub fn release(&mut self) {
        self.0 = None;
    }
}

#[repr(align(64))]
struct Bucket<S>(SpinLock<Split<S>>);

/// What a bucket holds, and how far its bucket was split.
pub(crate) struct Split<S> {
    /// Mask of the hash bits; 0 if nothing was ever put here.
    mask: u32,
    contents: S,
}

impl<S: BucketContents> Table<S> {
    /// A table for so many tasks: as many buckets at first, if these are not too many.
    pub fn new(n_tasks: u64) -> Self {
        let n_buckets = (n_tasks.min(FIRST as u64) as usize).next_power_of_two();
        let n_buckets = n_buckets.max(LEAST);
        Table {
            mask: AtomicUsize::new(n_buckets - 1),
            spilled: AtomicIsize::new(0),
            first: (0..n_buckets).map(|_| Bucket::new(n_buckets - 1)).collect(),
            later: [const { OnceLock::new() }; DOUBLINGS],
        }
    }

    /// The contents of a group, locked, its bucket split as far as the table is.
    #[inline(always)]
    pub fn lock(&self, group: Group) -> SpinGuard<'_, Split<S>> {
        let hash = hash(group);
        let mask = self.mask.load(Ordering::Relaxed);
        let bucket = lock(&self.bucket(hash & mask).0);
        if bucket.mask as usize == mask {
            bucket
        } else {
            self.lock_and_split(hash, bucket)
        }
    }

    /// So much more lies behind the buckets, or less; too much of it, and the table doubles.
    #[cold]
    pub fn spill(&self, more: isize) {
        if more == 0 {
            return;
        }
        let spilled = self.spilled.fetch_add(more, Ordering::Relaxed) + more;
        let mask = self.mask.load(Ordering::Relaxed);
        let is_too_much = spilled > (mask / BUCKETS_PER_SPILL) as isize;
        if more > 0 && is_too_much && mask < 1 << (DOUBLINGS - 1) {
            // A lost race means that another has doubled it.
            let _ = self.mask.compare_exchange(
                mask,
                2 * mask + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// Looks at what every bucket holds.
    pub fn for_each(&self, mut look: impl FnMut(&S)) {
        let later = self.later.iter().filter_map(OnceLock::get).flatten();
        for bucket in self.first.iter().chain(later) {
            look(&lock(&bucket.0).contents);
        }
    }

    /// How much lies behind the buckets.
    #[cfg(test)]
    pub fn spilled(&self) -> isize {
        self.spilled.load(Ordering::Relaxed)
    }

    /// How many buckets the table has.
    #[cfg(all(test, not(loom)))]
    pub fn n_buckets(&self) -> usize {
        self.mask.load(Ordering::Relaxed) + 1
    }

    #[cold]
    fn lock_and_split<'t>(
        &'t self,
        hash: usize,
        mut bucket: SpinGuard<'t, Split<S>>,
    ) -> SpinGuard<'t, Split<S>> {
        loop {
            drop(bucket);
            let mask = self.mask.load(Ordering::Relaxed);
            self.split(hash & mask, mask);
            bucket = lock(&self.bucket(hash & mask).0);
            // Deeper than the mask that chose it, and the group may have moved on meanwhile.
            if bucket.mask as usize == mask {
                return bucket;
            }
        }
    }

    /// Splits a bucket, and first the one it comes from, until it is as deep as asked.
    fn split(&self, at: usize, mask: usize) {
        if at >= self.first.len() {
            let top = 1 << at.ilog2();
            self.split(at ^ top, 2 * top - 1);
        }
        let mut parent = lock(&self.bucket(at).0);
        while (parent.mask as usize) < mask {
            let bit = parent.mask as usize + 1;
            let mut child = lock(&self.bucket(at | bit).0);
            child.mask = (2 * bit - 1) as u32;
            parent
                .contents
                .move_to(&mut child.contents, |group| hash(group) & bit != 0);
            parent.mask = child.mask;
        }
    }

    #[inline(always)]
    fn bucket(&self, at: usize) -> &Bucket<S> {
        match self.first.get(at) {
            Some(bucket) => bucket,
            None => self.later_bucket(at),
        }
    }

    #[inline]
    fn later_bucket(&self, at: usize) -> &Bucket<S> {
        let first = 1 << at.ilog2();
        let part = &self.later[at.ilog2() as usize];
        &part.get_or_init(|| (0..first).map(|_| Bucket::new(0)).collect())[at - first]
    }
}

impl<S: BucketContents> Bucket<S> {
    fn new(mask: usize) -> Self {
        let contents = S::default();
        let mask = mask as u32;
        Bucket(SpinLock::new(Split { mask, contents }))
    }
}

impl<S> Deref for Split<S> {
    type Target = S;
    #[inline(always)]
    fn deref(&self) -> &S {
        &self.contents
    }
}

impl<S> DerefMut for Split<S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut S {
        &mut self.contents
    }
}

/// Both halves of the product count: one half alone sends the regular
/// names of a space to a quarter of the buckets.
#[inline(always)]
pub(super) fn hash(group: Group) -> usize {
    let product = u128::from(group) * 0x9e37_79b9_7f4a_7c15;
    (product as u64 ^ (product >> 64) as u64) as usize
}
