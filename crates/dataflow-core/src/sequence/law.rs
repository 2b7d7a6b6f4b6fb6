//! The law of versions: which access waits for which.
//!
//! A datum has had `n` accesses inserted; the one inserted next is number `n`. It may begin when as
//! many accesses have finished as it *requires*. Accesses that may run side by side, or in any
//! order, form a group and require the same number: all that came before the group.
//!
//! | access | requires | its group |
//! |---|---|---|
//! | read | all but the reads before it | reads |
//! | commute | all but the commuting accesses before it | commuting accesses |
//! | write | all before it | itself |
//!
//! Finished accesses are only counted. That is enough: none of a later group can begin, so as soon
//! as the count reaches what a group requires, all before the group have finished.
//!
//! # Source
//! Tillenius, *SuperGlue*, SIAM J. Sci. Comput. 37 (2015), §2 (paper 001): two counters suffice.

use crate::sync::{AtomicU64, Ordering};

/// What a task does with a datum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It looks at it, as others may at the same time.
    Read,
    /// It changes it, in the order of insertion.
    Write,
    /// It changes it, before or after others that commute, one at a time.
    Commute,
}

/// The accesses to one datum that were inserted so far.
#[derive(Clone, Copy, Debug)]
pub struct Inserted {
    /// What the next read requires.
    before_reads: u64,
    /// What the next commuting access requires.
    before_commuting: u64,
    /// What the next write requires: how many there were.
    all: u64,
}

impl Inserted {
    /// Inserts an access; says how many accesses it requires to have finished.
    pub fn insert(&mut self, mode: Mode) -> u64 {
        let required = match mode {
            Mode::Read => self.before_reads,
            Mode::Commute => self.before_commuting,
            Mode::Write => self.all,
        };
        self.all += 1;
        if mode != Mode::Read {
            self.before_reads = self.all;
        }
        if mode != Mode::Commute {
            self.before_commuting = self.all;
        }
        required
    }
}

/// The same where many see it and one thread inserts, without a lock: loads and stores are relaxed, for
/// what one thread does is in order. Were there two, accesses would be lost, and what they exclude let in: so
/// who inserts shows that [it is the one](super::lent::InsertingThread).
#[derive(Debug)]
pub struct InsertedByOne {
    before_reads: AtomicU64,
    before_commuting: AtomicU64,
    all: AtomicU64,
}

impl InsertedByOne {
    /// None so far.
    pub fn new() -> Self {
        let [before_reads, before_commuting, all] = [(); 3].map(|()| AtomicU64::new(0));
        InsertedByOne {
            before_reads,
            before_commuting,
            all,
        }
    }

    /// What was inserted so far.
    #[inline(always)]
    pub fn read(&self) -> Inserted {
        Inserted {
            before_reads: self.before_reads.load(Ordering::Relaxed),
            before_commuting: self.before_commuting.load(Ordering::Relaxed),
            all: self.all.load(Ordering::Relaxed),
        }
    }

    /// Inserts an access; says how many accesses it requires to have finished.
    #[inline(always)]
    pub fn insert(&self, mode: Mode) -> u64 {
        let mut inserted = self.read();
        let required = inserted.insert(mode);
        let Inserted {
            before_reads,
            before_commuting,
            all,
        } = inserted;
        self.before_reads.store(before_reads, Ordering::Relaxed);
        self.before_commuting
            .store(before_commuting, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        required
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use Mode::{Commute, Read, Write};
    use proptest::prelude::*;

    fn required(modes: &[Mode]) -> Vec<u64> {
        let inserted = InsertedByOne::new();
        modes.iter().map(|&mode| inserted.insert(mode)).collect()
    }

    #[test]
    fn reads_share_a_version_and_writes_wait_for_all() {
        let modes = [Read, Read, Write, Write, Read, Read, Write];
        assert_eq!(required(&modes), [0, 0, 2, 3, 4, 4, 6]);
    }

    #[test]
    fn commuting_accesses_share_a_version_but_not_with_reads() {
        let modes = [Commute, Commute, Read, Read, Commute, Write, Commute];
        assert_eq!(required(&modes), [0, 0, 2, 2, 4, 5, 6]);
    }

    /// Accesses of one datum, fewer under Miri.
    const MANY: usize = if cfg!(miri) { 10 } else { 40 };

    /// Whether two accesses may change places, by the words of the modes.
    fn may_swap(a: Mode, b: Mode) -> bool {
        a == b && a != Write
    }

    proptest! {
        #[test]
        fn an_access_waits_for_those_before_it_up_to_the_last_it_may_not_change_places_with(
            modes in proptest::collection::vec(prop_oneof![Just(Read), Just(Write), Just(Commute)], 0..MANY),
        ) {
            for (at, &required) in required(&modes).iter().enumerate() {
                let last = (0..at).rev().find(|&before| !may_swap(modes[before], modes[at]));
                prop_assert_eq!(required, last.map_or(0, |last| last as u64 + 1));
            }
        }

        /// Counting is enough: whatever order the counts allow, nobody begins before his turn.
        #[test]
        fn whatever_the_order_nobody_overtakes_what_he_requires(
            modes in proptest::collection::vec(prop_oneof![Just(Read), Just(Write), Just(Commute)], 1..MANY / 2),
            choices in proptest::collection::vec(any::<prop::sample::Index>(), MANY / 2),
        ) {
            let required = required(&modes);
            let mut finished = Vec::new();
            for choice in choices.iter().take(modes.len()) {
                let may = |&at: &usize| !finished.contains(&at) && required[at] <= finished.len() as u64;
                let ready: Vec<_> = (0..modes.len()).filter(may).collect();
                let next = *choice.get(&ready);
                let before = (0..next).filter(|&before| !may_swap(modes[before], modes[next]));
                for before in before {
                    prop_assert!(finished.contains(&before), "{next} ran before {before}");
                }
                finished.push(next);
            }
        }
    }
}
