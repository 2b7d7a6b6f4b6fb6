//! The ledger: how many tasks were run, queued and taken, one line per worker.
//!
//! # Law
//! A line is written by the worker that is inside the job with its index, and by nobody else.
//! `queued` and `taken` are published before the worker leaves the job; so when nobody is
//! inside, their sums differ by exactly the words that still lie in queues.

use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// No further task is to start.
const STOP: u8 = 1;
/// Something has arrived.
const MAIL: u8 = 2;
/// There are other ranks; set from the start.
const ACROSS: u8 = 4;

/// Counts of one run.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Tasks the space lists for this rank; of a sequence, those inserted so far.
    count: AtomicU64,
    /// Whether this is one rank of several: tasks may become ready by what arrives.
    across: bool,
    /// Flags that workers look at between tasks.
    attention: CachePadded<AtomicU8>,
    /// Whether the roots have all been announced.
    announced: AtomicBool,
    /// Bytes of data from other ranks that tasks have begun to use.
    used: CachePadded<AtomicU64>,
    lines: Box<[CachePadded<LedgerLine>]>,
}

/// What one worker did.
#[derive(Debug, Default)]
pub(crate) struct LedgerLine {
    /// Whether a worker of this index is on a visit.
    is_taken: AtomicBool,
    executed: AtomicU64,
    queued: AtomicU64,
    taken: AtomicU64,
}

impl Ledger {
    pub fn new(n_workers: usize, count: u64, across: bool) -> Self {
        Ledger {
            count: AtomicU64::new(count),
            across,
            attention: CachePadded::new(AtomicU8::new(if across { ACROSS } else { 0 })),
            announced: AtomicBool::new(false),
            used: CachePadded::new(AtomicU64::new(0)),
            lines: (0..n_workers)
                .map(|_| CachePadded::new(LedgerLine::default()))
                .collect(),
        }
    }

    #[inline]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// So many tasks were inserted.
    pub fn set_count(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    pub fn n_workers(&self) -> usize {
        self.lines.len()
    }

    /// Tasks run so far; exact when nobody is inside.
    pub fn executed(&self) -> u64 {
        self.lines
            .iter()
            .map(|line| line.executed.load(Ordering::Relaxed))
            .sum()
    }

    pub fn executed_by_worker(&self) -> Vec<u64> {
        self.lines
            .iter()
            .map(|line| line.executed.load(Ordering::Relaxed))
            .collect()
    }

    /// No further task is to start.
    pub fn stop(&self) {
        // Relaxed: a worker that sees it late runs one more task, which is allowed.
        self.attention.fetch_or(STOP, Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn is_stopped(&self) -> bool {
        self.attention.load(Ordering::Relaxed) & STOP != 0
    }

    /// Whether there is more to look at between tasks than tasks: other ranks, or a stop.
    #[inline(always)]
    pub fn calls(&self) -> bool {
        self.attention.load(Ordering::Relaxed) != 0
    }

    /// Whether something has arrived that was not taken in.
    pub fn has_mail(&self) -> bool {
        self.attention.load(Ordering::Relaxed) & MAIL != 0
    }

    /// Something has arrived from another rank. Relaxed, as the next: the mail's lock orders it.
    pub fn mail_has_come(&self) {
        self.attention.fetch_or(MAIL, Ordering::Relaxed);
    }

    /// All that had arrived was taken in.
    pub fn mail_is_taken(&self) {
        self.attention.fetch_and(!MAIL, Ordering::Relaxed);
    }

    /// A task begins to use data that came from other ranks.
    pub fn note_used(&self, bytes: u64) {
        // Relaxed: it only paces what else is asked for.
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of data from other ranks that tasks have begun to use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The last root has been announced.
    pub fn all_announced(&self) {
        // Release: see `is_balanced`.
        self.announced.store(true, Ordering::Release);
    }

    /// Whether it has been, as far as one can see.
    pub fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Relaxed)
    }

    /// Whether nothing is left to do. Exact only for a worker that is alone inside the job.
    pub fn is_drained(&self) -> bool {
        self.is_stopped() || self.is_balanced() && (!self.across || self.executed() >= self.count())
    }

    /// Whether all roots were announced and as many words taken as queued. Exact only while
    /// nobody is inside the job.
    pub fn is_balanced(&self) -> bool {
        // Acquire: a thread that looks from outside and sees what was told or published meanwhile must
        // see that its worker came in (see `Gate::is_quiet`).
        let sum = |of: fn(&LedgerLine) -> &AtomicU64| -> u64 {
            self.lines
                .iter()
                .map(|line| of(line).load(Ordering::Acquire))
                .sum()
        };
        self.announced.load(Ordering::Acquire)
            && sum(|line| &line.queued) == sum(|line| &line.taken)
    }

    pub fn line(&self, worker: usize) -> &LedgerLine {
        &self.lines[worker]
    }
}

impl LedgerLine {
    /// A worker of this index begins a visit; false if another one is on a visit.
    #[must_use]
    pub fn take(&self) -> bool {
        // Relaxed, as the next: it orders nothing, the gate does.
        !self.is_taken.swap(true, Ordering::Relaxed)
    }

    /// The visit ends.
    pub fn give_back(&self) {
        self.is_taken.store(false, Ordering::Relaxed);
    }

    /// What this worker has counted in earlier visits: executed, queued, taken.
    pub fn read(&self) -> VisitCounts {
        VisitCounts {
            executed: self.executed.load(Ordering::Relaxed),
            queued: self.queued.load(Ordering::Relaxed),
            taken: self.taken.load(Ordering::Relaxed),
        }
    }

    #[inline(always)]
    pub fn publish_executed(&self, executed: u64) {
        self.executed.store(executed, Ordering::Relaxed);
    }

    pub fn publish(&self, tally: &VisitCounts) {
        self.executed.store(tally.executed, Ordering::Relaxed);
        // Release: see `is_balanced`.
        self.queued.store(tally.queued, Ordering::Release);
        self.taken.store(tally.taken, Ordering::Release);
    }
}

/// A worker's own counts while it is inside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VisitCounts {
    pub executed: u64,
    pub queued: u64,
    pub taken: u64,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn mail_that_is_taken_takes_nothing_else_that_workers_look_at_with_it() {
        for across in [false, true] {
            let ledger = Ledger::new(1, 1, across);
            assert_eq!(ledger.calls(), across, "other ranks have to be polled");
            ledger.mail_has_come();
            assert!(ledger.has_mail() && ledger.calls());
            ledger.mail_is_taken();
            assert!(!ledger.has_mail());
            assert_eq!(ledger.calls(), across);
            ledger.stop();
            ledger.mail_has_come();
            ledger.mail_is_taken();
            assert!(ledger.is_stopped() && ledger.calls());
        }
    }
}
