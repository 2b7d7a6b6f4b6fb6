//! The versions of one datum: how many accesses have finished, and which tasks wait for more.
//!
//! # Law
//! A task is in at most one of the two queues of at most one datum. A task that parks reads the count
//! again under the lock; an access that finishes is counted, and looks into the queue, under the same
//! lock: so no task parks for what has come.
//!
//! # Orderings
//! The count is kept under the lock, and written to where it is read without: a release and an acquire, so
//! that a task that sees the count also sees what the counted accesses did. (Nobody loads it before that
//! store: loom's models would then miss it if the store released nothing.) What was inserted is the inserting thread's
//! alone, and neither locked nor ordered.

use super::law::{InsertedByOne, Mode};
use crate::port::Word;
use crate::sync::{AtomicU64, Ordering, SpinLock, lock};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Tasks that may go on.
pub(crate) type Woken = SmallVec<[Word; 8]>;

/// See the [module](self).
pub(crate) struct Versions {
    /// The count of the state, to be read without its lock.
    finished: AtomicU64,
    /// Accesses that require so many, or more, find a datum that a failed task left.
    spoilt_from: AtomicU64,
    inserted: InsertedByOne,
    /// How many loans were made, which the inserting thread alone counts.
    lent: AtomicU64,
    pub state: SpinLock<VersionsState>,
}

pub(crate) struct VersionsState {
    /// How many accesses have finished.
    finished: u64,
    parked: Parked,
    /// Whether a task that commutes is at work.
    busy: bool,
    commuters: BinaryHeap<Commuter>,
    holders: Holders,
}

/// Who has the cell of these versions; see [`lent`](super::lent).
struct Holders {
    owners: u64,
    /// Loans that were given back though their accesses had not finished.
    unfinished: u64,
    /// How many loans were made, as was told last: all, if there is no owner.
    lent: u64,
}

/// A task that waits for the right to commute: by its priority, then by its number.
type Commuter = (i64, Reverse<u64>, Word);

/// Tasks by what they require, least first. Most come in that order.
struct Parked {
    /// What the first of them requires; the largest number if there is none.
    least: u64,
    in_order: VecDeque<(u64, Word)>,
    others: BinaryHeap<Reverse<(u64, Word)>>,
}

/// A queue that has become empty keeps memory for no more than so many: a datum may live long after many have
/// waited for it once.
const KEPT: usize = 64;

impl Parked {
    fn new() -> Self {
        Parked {
            least: u64::MAX,
            in_order: VecDeque::new(),
            others: BinaryHeap::new(),
        }
    }

    fn push(&mut self, required: u64, task: Word) {
        self.least = self.least.min(required);
        match self.in_order.back() {
            Some(&(last, _)) if required < last => self.others.push(Reverse((required, task))),
            _ => self.in_order.push_back((required, task)),
        }
    }

    /// Wakes those that require no more than so many.
    #[inline(always)]
    fn wake(&mut self, finished: u64, woken: &mut Woken) {
        if self.least <= finished {
            self.wake_some(finished, woken);
        }
    }

    fn wake_some(&mut self, finished: u64, woken: &mut Woken) {
        while let Some(task) = self.pop(finished) {
            woken.push(task);
        }
        let first = self.in_order.front().map(|&(required, _)| required);
        let other = self.others.peek().map(|&Reverse((required, _))| required);
        let least = first.into_iter().chain(other).min();
        self.least = least.unwrap_or(u64::MAX);
    }

    /// One that requires no more than so many.
    #[inline]
    fn pop(&mut self, finished: u64) -> Option<Word> {
        if let Some(&(required, task)) = self.in_order.front()
            && required <= finished
        {
            self.in_order.pop_front();
            if self.in_order.is_empty() && self.in_order.capacity() > KEPT {
                self.in_order = VecDeque::new();
            }
            return Some(task);
        }
        let &Reverse((required, task)) = self.others.peek()?;
        (required <= finished).then(|| {
            pop(&mut self.others);
            task
        })
    }
}

/// The first of a heap, and its memory back with the last.
fn pop<T: Ord>(heap: &mut BinaryHeap<T>) -> Option<T> {
    let first = heap.pop();
    if heap.is_empty() && heap.capacity() > KEPT {
        *heap = BinaryHeap::new();
    }
    first
}

impl VersionsState {
    /// With one owner.
    fn new() -> Self {
        VersionsState {
            finished: 0,
            parked: Parked::new(),
            busy: false,
            commuters: BinaryHeap::new(),
            holders: Holders {
                owners: 1,
                unfinished: 0,
                lent: 0,
            },
        }
    }

    /// The right to commute is free: the most urgent of those that wait for it may try.
    fn wake_commuter(&mut self, woken: &mut Woken) {
        woken.extend(pop(&mut self.commuters).map(|(.., task)| task));
    }

    /// There is an owner more.
    pub fn own(&mut self) {
        self.holders.owners += 1;
    }

    /// So many loans were made.
    pub fn tell_lent(&mut self, lent: u64) {
        self.holders.lent = lent;
    }

    /// There is an owner less; says whether it was the last of all holders.
    pub fn disown(&mut self) -> bool {
        self.holders.owners -= 1;
        self.has_no_holder()
    }

    /// A loan is given back whose access has not finished; says whether it was the last of all holders.
    pub fn give_back(&mut self) -> bool {
        self.holders.unfinished += 1;
        self.has_no_holder()
    }

    /// Whether there is no owner, and all loans were given back.
    #[inline(always)]
    fn has_no_holder(&self) -> bool {
        let Holders {
            owners,
            unfinished,
            lent,
        } = self.holders;
        owners == 0 && self.finished + unfinished == lent
    }
}

impl Versions {
    pub fn new() -> Self {
        Versions {
            finished: AtomicU64::new(0),
            spoilt_from: AtomicU64::new(u64::MAX),
            inserted: InsertedByOne::new(),
            lent: AtomicU64::new(0),
            state: SpinLock::new(VersionsState::new()),
        }
    }

    /// What tells this datum from others.
    pub fn place(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// Inserts an access; says how many accesses it requires to have finished. For the thread that inserts.
    #[inline(always)]
    pub fn insert(&self, mode: Mode) -> u64 {
        self.inserted.insert(mode)
    }

    /// How many accesses one that was inserted now would require to have finished. For the same thread.
    pub fn required(&self, mode: Mode) -> u64 {
        self.inserted.read().insert(mode)
    }

    /// Whether so many accesses have finished.
    #[inline(always)]
    pub fn have_finished(&self, required: u64) -> bool {
        self.finished.load(Ordering::Acquire) >= required
    }

    /// Fails unless so many accesses have finished.
    #[inline(always)]
    pub fn expect_finished(&self, required: u64) {
        let are_finished = self.have_finished(required);
        assert!(are_finished, "an access comes before its turn");
    }

    /// Parks a task until so many accesses have finished; false if they have meanwhile.
    pub fn park(&self, required: u64, task: Word) -> bool {
        let mut state = lock(&self.state);
        let parks = state.finished < required;
        if parks {
            state.parked.push(required, task);
        }
        parks
    }

    /// Whether an access that requires so many finds what a failed task left. Asked after they have
    /// finished.
    #[inline]
    pub fn is_spoilt(&self, required: u64) -> bool {
        // Relaxed: written before the count that the caller has seen.
        self.spoilt_from.load(Ordering::Relaxed) <= required
    }

    /// Takes the right to commute, if no task has it.
    pub fn try_begin_commuting(&self) -> bool {
        let mut state = lock(&self.state);
        let free = !state.busy;
        state.busy = true;
        free
    }

    /// Parks a task of that priority and number until the right is given back; false if it has been meanwhile.
    #[inline(never)]
    pub fn wait_to_commute(&self, task: Word, (priority, number): (i64, u64)) -> bool {
        let mut state = lock(&self.state);
        let waits = state.busy;
        if waits {
            state.commuters.push((priority, Reverse(number), task));
        }
        waits
    }

    /// Gives the right to commute back; the most urgent who waits may try.
    pub fn end_commuting(&self, woken: &mut Woken) {
        let mut state = lock(&self.state);
        state.busy = false;
        state.wake_commuter(woken);
    }

    /// The task that was woken to commute waits elsewhere now: the next one may try, if none is at work.
    pub fn pass_on(&self, woken: &mut Woken) {
        let mut state = lock(&self.state);
        if !state.busy {
            state.wake_commuter(woken);
        }
    }

    /// One loan more. For the thread that inserts.
    #[inline(always)]
    pub fn lend(&self) {
        // Relaxed: of one thread, as what was inserted.
        self.lent.store(self.n_lent() + 1, Ordering::Relaxed);
    }

    /// How many loans were made.
    #[inline(always)]
    pub fn n_lent(&self) -> u64 {
        self.lent.load(Ordering::Relaxed)
    }

    /// An access that required so many has finished, and its loan is given back; says whether it was the last of
    /// all holders. `spoils`: its task failed and was to change the datum.
    ///
    /// Under the lock, whose guard the caller has: as soon as that is gone, others may drop these versions.
    #[inline(always)]
    pub fn finish(
        &self,
        state: &mut VersionsState,
        (mode, required): (Mode, u64),
        spoils: bool,
        woken: &mut Woken,
    ) -> bool {
        if mode == Mode::Commute {
            state.busy = false;
            state.wake_commuter(woken);
        }
        if spoils {
            // Those of its own group required as much, and are not concerned.
            self.spoilt_from.fetch_min(required + 1, Ordering::Relaxed);
        }
        state.finished += 1;
        let finished = state.finished;
        self.finished.store(finished, Ordering::Release);
        state.parked.wake(finished, woken);
        state.has_no_holder()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_less_is_woken_first_in_whatever_order_all_came() {
        let mut parked = Parked::new();
        let came = [(5, 0), (3, 1), (7, 2), (3, 3), (6, 4), (7, 5), (9, 6)];
        for (required, task) in came {
            parked.push(required, task);
        }
        let mut woken = |finished| -> Vec<Word> {
            let mut tasks = Woken::new();
            parked.wake(finished, &mut tasks);
            tasks.sort_unstable();
            tasks.to_vec()
        };
        assert_eq!(woken(2), []);
        assert_eq!(woken(3), [1, 3]);
        assert_eq!(woken(6), [0, 4]);
        assert_eq!(woken(8), [2, 5]);
        assert_eq!(woken(9), [6]);
        assert_eq!(woken(u64::MAX), []);
    }

    /// A datum kept the memory of the most that had ever waited for it.
    #[test]
    fn queues_that_many_have_waited_in_give_their_memory_back() {
        let versions = Versions::new();
        let n = 1000;
        for task in 0..n {
            // Every other one of those that wait for a version comes too late for the queue in order.
            assert!(versions.park(2 - task % 2, task));
            assert_eq!(versions.try_begin_commuting(), task == 0);
            assert!(versions.wait_to_commute(task, (0, task)));
        }
        let room = || {
            let state = lock(&versions.state);
            let Parked {
                in_order, others, ..
            } = &state.parked;
            [
                in_order.capacity(),
                others.capacity(),
                state.commuters.capacity(),
            ]
        };
        assert!(
            room().into_iter().all(|room| room >= n as usize / 2),
            "{:?}",
            room()
        );
        let mut woken = Woken::new();
        for required in 0..2 {
            let mut state = lock(&versions.state);
            versions.finish(&mut state, (Mode::Write, required), false, &mut woken);
        }
        (0..n).for_each(|_| versions.end_commuting(&mut woken));
        assert_eq!(woken.len(), 2 * n as usize);
        assert_eq!(room(), [0; 3]);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p dataflow-core --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;
    use std::sync::Arc;

    /// A datum that orders nothing by itself, behind its versions.
    struct Model {
        versions: Versions,
        datum: AtomicU64,
        /// What the thread that wakes the waiting task tells it.
        woken: AtomicBool,
    }

    impl Model {
        fn new() -> Arc<Self> {
            Arc::new(Model {
                versions: Versions::new(),
                datum: AtomicU64::new(0),
                woken: AtomicBool::new(false),
            })
        }

        /// Not in one step: two at once would lose one.
        fn add(&self) {
            self.datum.store(self.value() + 1, Ordering::Relaxed);
        }

        fn value(&self) -> u64 {
            self.datum.load(Ordering::Relaxed)
        }

        fn tell(&self, woken: &Woken) {
            if !woken.is_empty() {
                self.woken.store(true, Ordering::Release);
            }
        }

        /// A thread that writes, and tells whom that wakes.
        fn write(self: Arc<Self>, required: u64) -> thread::JoinHandle<()> {
            thread::spawn(move || {
                self.add();
                let mut woken = Woken::new();
                {
                    let mut state = lock(&self.versions.state);
                    let access = (Mode::Write, required);
                    self.versions.finish(&mut state, access, false, &mut woken);
                }
                self.tell(&woken);
            })
        }

        /// Reads what one write has left, and waits for it if it must.
        fn read(&self, required: u64) {
            if !self.versions.have_finished(required) && self.versions.park(required, 7) {
                self.wait();
            }
            assert_eq!(self.value(), 1);
        }

        fn wait(&self) {
            while !self.woken.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn loom_a_read_after_a_write_sees_it_whether_it_parked_or_not() {
        loom::model(|| {
            let model = Model::new();
            let (first, second) = (Mode::Write, Mode::Read);
            let (write, read) = (model.versions.insert(first), model.versions.insert(second));
            let writing = model.clone().write(write);
            model.read(read);
            writing.join().unwrap();
        });
    }

    /// What is inserted takes no lock that a finishing task has.
    #[test]
    fn loom_a_read_that_is_inserted_while_the_write_before_it_finishes_sees_it() {
        loom::model(|| {
            let model = Model::new();
            let write = model.versions.insert(Mode::Write);
            let writing = model.clone().write(write);
            let read = model.versions.insert(Mode::Read);
            assert_eq!((write, read), (0, 1));
            model.read(read);
            writing.join().unwrap();
        });
    }

    #[test]
    fn loom_a_write_after_two_reads_changes_nothing_under_them() {
        loom::model(|| {
            let model = Model::new();
            let required =
                [Mode::Read, Mode::Read, Mode::Write].map(|mode| model.versions.insert(mode));
            let reading = [0, 1].map(|at| {
                let reader = model.clone();
                thread::spawn(move || {
                    assert!(reader.versions.have_finished(required[at]));
                    assert_eq!(reader.value(), 0);
                    let mut woken = Woken::new();
                    {
                        let mut state = lock(&reader.versions.state);
                        let access = (Mode::Read, required[at]);
                        reader
                            .versions
                            .finish(&mut state, access, false, &mut woken);
                    }
                    reader.tell(&woken);
                })
            });
            let write = required[2];
            if !model.versions.have_finished(write) && model.versions.park(write, 7) {
                model.wait();
            }
            model.add();
            for thread in reading {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_two_that_commute_do_so_one_at_a_time_and_both_do() {
        loom::model(|| {
            let model = Model::new();
            let other = model.clone();
            let first = thread::spawn(move || {
                if other.versions.try_begin_commuting() {
                    other.add();
                    let mut woken = Woken::new();
                    other.versions.end_commuting(&mut woken);
                    other.tell(&woken);
                    return true;
                }
                false
            });
            let mut began = model.versions.try_begin_commuting();
            if !began && model.versions.wait_to_commute(7, (0, 7)) {
                model.wait();
            }
            if !began {
                began = model.versions.try_begin_commuting();
            }
            assert!(began, "a task that is woken finds it free");
            model.add();
            model.versions.end_commuting(&mut Woken::new());
            let both = first.join().unwrap();
            assert!(model.versions.try_begin_commuting());
            assert_eq!(model.value(), 1 + u64::from(both));
        });
    }
}
