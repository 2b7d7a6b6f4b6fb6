//! Who has a cell: the program by owners, as handles are, and each task by a loan for each of its accesses.
//!
//! # Law
//! Whoever gives back last drops the cell. Owners are counted under the lock of the cell's versions; loans are
//! counted where an access finishes, under the same lock: so a task pays no atomic step for having a datum.
//! How many loans were made the inserting thread alone counts; whoever drops an owner tells it to the others.
//! While there is an owner no loan is the last.
//!
//! A loan lends the datum when it is its access's turn, by the [law of versions](super::law), which it checks;
//! what it lends is borrowed from it, and it is gone when the access has finished.
//!
//! # Unsafe
//! A pointer to a cell is followed, the cell dropped, and its datum lent under these obligations:
//!
//! 1. *The cell is there.* It is dropped when there is no owner and all loans that were made are given back:
//!    an owner, or a loan that is not given back, does not exist then. More are made from these alone.
//! 2. *It is dropped once.* Both counts change under one lock, and reach their ends once, for there is nothing
//!    then to make a loan or an owner from; who makes them do so drops it.
//! 3. *It is not touched after it was given back.* Who gives back may be overtaken by who is last as soon as the
//!    lock is free. The lock is taken by reference and given back by its guard; behind that no reference to the
//!    cell lives on, nor in any caller.
//! 4. *Loans and accesses are counted by one thread at a time.* Who lends and who inserts shows an
//!    [`InsertingThread`]. Whoever drops the last owner has seen all loans: each was made under the lock, or from
//!    an owner, which was then dropped under the lock or handed to the thread that drops it.
//! 5. *One changes the datum, or many look at it.* Of two accesses that exclude each other, and do not commute,
//!    the later requires at least as many finished ones as came before it, the other one among them; no access
//!    finishes before as many have as it requires. So when it is the later one's turn the other one has
//!    finished, and its loan is gone. Of accesses that commute with each other whoever finds that none has the
//!    datum has it.

use super::law::Mode;
use super::mode::{Commute, ModeType, Read, Write};
use super::versions::{Versions, VersionsState, Woken};
use crate::sync::{AtomicBool, Ordering, lock};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

/// A datum, its versions, and what goes with it.
pub struct SharedCell<T, X> {
    pub versions: Versions,
    pub beside: X,
    datum: UnsafeCell<T>,
    /// Whether one of those that commute has the datum: their turn is none that versions count.
    is_taken: AtomicBool,
}

/// Shows that the calling thread is the one that inserts: neither sent nor shared.
#[doc(hidden)]
#[derive(Debug)]
pub struct InsertingThread(PhantomData<*const ()>);

/// What keeps a cell, and so can lend it.
pub trait HasCell<T, X> {
    fn cell(&self) -> &SharedCell<T, X>;

    /// Lends the cell to a task, to do with the datum what the mode says.
    fn lend<M: ModeType>(&self, by: &InsertingThread) -> SharedLoan<T, X, M>;
}

/// What keeps a cell for the program: a handle, or a reduction.
pub struct SharedOwner<T, X> {
    cell: NonNull<SharedCell<T, X>>,
    has: PhantomData<SharedCell<T, X>>,
}

/// What keeps a cell for one access of a task, until that has finished.
pub struct SharedLoan<T, X, M: ModeType> {
    cell: NonNull<SharedCell<T, X>>,
    /// How many accesses must have finished before; more than there will be, until this one is inserted.
    required: u64,
    taken: M::Taken,
    has: PhantomData<SharedCell<T, X>>,
}

/// The cell, for who was the last that had it.
#[doc(hidden)]
pub struct LeftCell<T, X>(Option<Box<SharedCell<T, X>>>);

// SAFETY: as an `Arc` an owner shows what it has, and may drop it, on whatever thread it is; its counts are
// under a lock, or of one thread (4).
unsafe impl<T: Send + Sync, X: Send + Sync> Send for SharedOwner<T, X> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, X: Send + Sync> Sync for SharedOwner<T, X> {}
// SAFETY: as above, and what a loan remembers is a flag.
unsafe impl<T: Send + Sync, X: Send + Sync, M: ModeType> Send for SharedLoan<T, X, M> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, X: Send + Sync, M: ModeType> Sync for SharedLoan<T, X, M> {}

/// A turn among those that commute, for as long as it lives.
struct Turn<'c>(&'c AtomicBool);

impl<'c> Turn<'c> {
    fn take(is_taken: &'c AtomicBool) -> Option<Self> {
        let is_free = !is_taken.swap(true, Ordering::Acquire);
        is_free.then(|| Turn(is_taken))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl InsertingThread {
    /// For a scope, which inserts on one thread at a time, and whose data no other scope knows.
    #[inline(always)]
    pub(super) const fn of_a_scope() -> Self {
        InsertingThread(PhantomData)
    }
}

impl<T, X> SharedOwner<T, X> {
    /// The first owner of a new cell.
    pub fn new(datum: T, beside: X) -> Self {
        let cell = Box::new(SharedCell {
            versions: Versions::new(),
            beside,
            datum: UnsafeCell::new(datum),
            is_taken: AtomicBool::new(false),
        });
        Self::of(NonNull::from(Box::leak(cell)))
    }

    fn of(cell: NonNull<SharedCell<T, X>>) -> Self {
        let has = PhantomData;
        SharedOwner { cell, has }
    }

    /// Looks at the datum as it is before what is inserted next. That `look` does not insert: it might be sent,
    /// and what inserts may not.
    pub fn look<R>(&self, _: &InsertingThread, look: impl FnOnce(&T) -> R + Send) -> R {
        let required = self.versions.required(Mode::Read);
        self.versions.expect_finished(required);
        // SAFETY: all have finished that were to change it, and meanwhile nobody inserts others (5).
        look(unsafe { &*self.datum.get() })
    }

    /// Drops the owner, but not yet the cell.
    pub fn give_back(self) -> LeftCell<T, X> {
        // SAFETY: the owner is gone then.
        unsafe { disown(ManuallyDrop::new(self).cell) }
    }
}

impl<T, X, M: ModeType> SharedLoan<T, X, M> {
    #[inline(always)]
    fn of(cell: NonNull<SharedCell<T, X>>) -> Self {
        SharedLoan {
            cell,
            required: u64::MAX,
            taken: M::Taken::default(),
            has: PhantomData,
        }
    }

    /// Inserts the access.
    #[inline(always)]
    pub fn insert(&mut self, _: &InsertingThread) {
        self.required = self.cell().versions.insert(M::MODE);
    }

    /// How many accesses must have finished before.
    #[inline(always)]
    pub fn required(&self) -> u64 {
        self.required
    }

    /// The cell, when all have finished that must have before.
    #[inline(always)]
    fn cell_in_turn(&self) -> &SharedCell<T, X> {
        let cell = self.cell();
        cell.versions.expect_finished(self.required);
        cell
    }

    /// Looks at the datum when it is the access's turn, before it is lent; `None` if another has it.
    pub fn glance<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let cell = self.cell_in_turn();
        let _turn = match M::MODE {
            Mode::Commute => Some(Turn::take(&cell.is_taken)?),
            Mode::Read | Mode::Write => None,
        };
        // SAFETY: it is the turn of this loan, and nobody has borrowed the datum from it: that would need it
        // whole. Of those that commute none has the datum meanwhile (5).
        Some(look(unsafe { &*cell.datum.get() }))
    }

    /// The access has finished, and gives the loan back. `spoils`: its task has failed, and was to change the
    /// datum.
    #[inline(always)]
    pub fn finish(self, spoils: bool, woken: &mut Woken) -> LeftCell<T, X> {
        let cell = self.cell_in_turn();
        if M::has_taken(self.taken) {
            cell.is_taken.store(false, Ordering::Release);
        }
        let access = (M::MODE, self.required);
        let given = |versions: &Versions, state: &mut VersionsState| {
            versions.finish(state, access, spoils, woken)
        };
        // SAFETY: the loan is given back once, for it is gone then.
        unsafe { give_back(ManuallyDrop::new(self).cell, given) }
    }
}

impl<T, X> SharedLoan<T, X, Read> {
    /// The datum.
    #[inline(always)]
    pub fn datum(&self) -> &T {
        // SAFETY: all before have finished, and none that changes it begins before this access has (5).
        unsafe { &*self.cell_in_turn().datum.get() }
    }
}

impl<T, X> SharedLoan<T, X, Write> {
    /// The datum.
    #[inline(always)]
    pub fn datum(&mut self) -> &mut T {
        // SAFETY: all before have finished, and none begins before this access has (5).
        unsafe { &mut *self.cell_in_turn().datum.get() }
    }
}

impl<T, X> SharedLoan<T, X, Commute> {
    /// The datum, once.
    #[inline(always)]
    pub fn datum(&mut self) -> &mut T {
        let is_taken = self.cell_in_turn().is_taken.swap(true, Ordering::Acquire);
        assert!(!is_taken, "of those that commute one has the right");
        self.taken = true;
        // SAFETY: all before have finished, none behind begins before this access has; of those that commute
        // with it none has the datum until it is given back (5).
        unsafe { &mut *self.cell().datum.get() }
    }
}

/// Counts that one who has a cell gives it back, as `give` does, which says whether there is nobody else; then
/// the cell is left to him.
///
/// # Safety
/// The caller has the cell, by an owner or a loan that is counted so, and not any more behind this.
#[inline(always)]
unsafe fn give_back<T, X>(
    cell: NonNull<SharedCell<T, X>>,
    give: impl FnOnce(&Versions, &mut VersionsState) -> bool,
) -> LeftCell<T, X> {
    // SAFETY: the caller has the cell until the lock is free (1), and the reference is not used behind that (3).
    let versions = unsafe { &cell.as_ref().versions };
    let mut state = lock(&versions.state);
    let is_last = give(versions, &mut state);
    drop(state);
    // SAFETY: he is the last of all who had it (2).
    LeftCell(is_last.then(|| unsafe { Box::from_raw(cell.as_ptr()) }))
}

/// One owner less.
///
/// # Safety
/// The caller has an owner, and not any more behind this.
unsafe fn disown<T, X>(cell: NonNull<SharedCell<T, X>>) -> LeftCell<T, X> {
    let given = |versions: &Versions, state: &mut VersionsState| {
        state.tell_lent(versions.n_lent());
        state.disown()
    };
    // SAFETY: the caller's promise.
    unsafe { give_back(cell, given) }
}

impl<T, X> HasCell<T, X> for SharedOwner<T, X> {
    #[inline(always)]
    fn cell(&self) -> &SharedCell<T, X> {
        // SAFETY: an owner is there (1).
        unsafe { self.cell.as_ref() }
    }

    #[inline(always)]
    fn lend<M: ModeType>(&self, _: &InsertingThread) -> SharedLoan<T, X, M> {
        self.versions.lend();
        SharedLoan::of(self.cell)
    }
}

impl<T, X, N: ModeType> HasCell<T, X> for SharedLoan<T, X, N> {
    #[inline(always)]
    fn cell(&self) -> &SharedCell<T, X> {
        // SAFETY: a loan is there (1).
        unsafe { self.cell.as_ref() }
    }

    /// There may be no owner any more, whose count is then the last word.
    fn lend<M: ModeType>(&self, _: &InsertingThread) -> SharedLoan<T, X, M> {
        let versions = &self.cell().versions;
        let mut state = lock(&versions.state);
        versions.lend();
        state.tell_lent(versions.n_lent());
        SharedLoan::of(self.cell)
    }
}

impl<T, X> Deref for SharedOwner<T, X> {
    type Target = SharedCell<T, X>;

    #[inline(always)]
    fn deref(&self) -> &SharedCell<T, X> {
        self.cell()
    }
}

impl<T, X> Clone for SharedOwner<T, X> {
    fn clone(&self) -> Self {
        lock(&self.versions.state).own();
        Self::of(self.cell)
    }
}

impl<T, X> Drop for SharedOwner<T, X> {
    fn drop(&mut self) {
        // SAFETY: an owner is dropped once, and not if it was given back.
        drop(unsafe { disown(self.cell) });
    }
}

/// Of an access that has not finished.
impl<T, X, M: ModeType> Drop for SharedLoan<T, X, M> {
    #[cold]
    fn drop(&mut self) {
        let given = |_: &Versions, state: &mut VersionsState| state.give_back();
        // SAFETY: a loan is dropped once, and not if it was given back otherwise.
        drop(unsafe { give_back(self.cell, given) });
    }
}

impl<T, X> LeftCell<T, X> {
    /// Whether it is there.
    pub(super) fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl<T, X> fmt::Debug for LeftCell<T, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeftCell")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    const BY: InsertingThread = InsertingThread::of_a_scope();

    type Owner = SharedOwner<Arc<()>, ()>;

    /// An owner of a new cell, and what tells whether it is there.
    fn owner() -> (Owner, impl Fn() -> bool) {
        let datum = Arc::new(());
        let seen = Arc::downgrade(&datum);
        (Owner::new(datum, ()), move || seen.strong_count() > 0)
    }

    fn inserted(owner: &Owner) -> SharedLoan<Arc<()>, (), Read> {
        let mut loan = owner.lend(&BY);
        loan.insert(&BY);
        loan
    }

    /// What is done with a cell, by whom of those that have it.
    #[derive(Clone, Copy, Debug)]
    enum Deed {
        Own,
        Lend,
        LendOn,
        Disown,
        Drop,
        Finish,
    }
    use Deed::{Disown, Drop, Finish, Lend, LendOn, Own};

    fn deeds() -> impl Strategy<Value = Vec<Deed>> {
        let deed = prop_oneof![
            Just(Own),
            Just(Lend),
            Just(LendOn),
            Just(Disown),
            Just(Drop),
            Just(Finish)
        ];
        proptest::collection::vec(deed, 0..40)
    }

    proptest! {
        #[test]
        fn a_cell_is_there_until_the_last_owner_and_the_last_loan_are_gone_in_whatever_order(deeds in deeds()) {
            let (first, is_there) = owner();
            let (mut owners, mut loans) = (vec![first], Vec::new());
            let mut woken = Woken::new();
            for deed in deeds {
                match deed {
                    Own => owners.extend(owners.first().cloned()),
                    Lend => loans.extend(owners.first().map(inserted)),
                    LendOn => loans.extend(loans.first().map(|loan| {
                        let mut other = loan.lend(&BY);
                        other.insert(&BY);
                        other
                    })),
                    Disown => drop(owners.pop()),
                    Drop => drop(loans.pop()),
                    Finish => drop(loans.pop().map(|loan| loan.finish(false, &mut woken))),
                }
                prop_assert_eq!(is_there(), !(owners.is_empty() && loans.is_empty()));
            }
            drop((owners, loans));
            prop_assert!(!is_there());
        }
    }

    #[test]
    fn who_is_last_has_the_cell_and_drops_it_when_he_likes() {
        let (owner, is_there) = owner();
        let [first, last] = [(); 2].map(|()| inserted(&owner));
        assert!(!owner.give_back().is_some());
        let mut woken = Woken::new();
        assert!(!first.finish(false, &mut woken).is_some());
        let left = last.finish(false, &mut woken);
        assert!(left.is_some() && is_there());
        drop(left);
        assert!(!is_there());
    }

    /// What an access that comes before its turn is told.
    fn told(act: impl FnOnce()) -> String {
        crate::foreign::caught(act).unwrap_err()
    }

    #[test]
    fn nobody_is_lent_a_datum_or_finishes_before_his_turn() {
        let (owner, _) = owner();
        let early = "an access comes before its turn";
        let mut write = owner.lend::<Write>(&BY);
        let mut read = owner.lend::<Read>(&BY);
        assert_eq!(told(|| _ = write.datum()), early, "it is not inserted");
        write.insert(&BY);
        read.insert(&BY);
        assert_eq!(told(|| _ = read.datum()), early);
        assert_eq!(told(|| _ = read.glance(|_| ())), early);
        assert_eq!(told(|| owner.look(&BY, |_| ())), early);
        let mut woken = Woken::new();
        let finished = told(|| drop(read.finish(false, &mut woken)));
        assert_eq!(finished, early);
        write.datum();
        write.finish(false, &mut woken);
        owner.look(&BY, |_| ());
    }

    #[test]
    fn of_two_that_commute_the_second_is_lent_the_datum_when_the_first_has_finished() {
        let (owner, _) = owner();
        let [mut first, mut second, mut skipped] = [(); 3].map(|()| owner.lend::<Commute>(&BY));
        for loan in [&mut first, &mut second, &mut skipped] {
            loan.insert(&BY);
        }
        assert_eq!(told(|| _ = first.glance(|_| panic!("seen"))), "seen");
        assert_eq!(first.glance(|_| 1), Some(1));
        first.datum();
        let mut woken = Woken::new();
        // One that never had it gives nothing back.
        skipped.finish(true, &mut woken);
        assert_eq!(second.glance(|_| 1), None);
        let is_taken = "of those that commute one has the right";
        assert_eq!(told(|| _ = second.datum()), is_taken);
        first.finish(false, &mut woken);
        second.datum();
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p dataflow-core --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::AtomicU64;
    use loom::thread;
    use std::sync::Arc;

    const BY: InsertingThread = InsertingThread::of_a_scope();

    /// A datum that orders nothing by itself, and counts how often one is dropped.
    struct Number {
        value: AtomicU64,
        dropped: Arc<std::sync::atomic::AtomicUsize>,
    }

    impl Number {
        /// Not in one step: two at once would lose one.
        fn add(&self) {
            self.value.store(self.value() + 1, Ordering::Relaxed);
        }

        fn value(&self) -> u64 {
            self.value.load(Ordering::Relaxed)
        }
    }

    impl Drop for Number {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    type Owner = SharedOwner<Number, ()>;

    /// Lets a model go on with an owner; then the cell must have been dropped once.
    fn model(run: fn(Owner)) {
        loom::model(move || {
            let dropped = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let value = AtomicU64::new(0);
            let number = Number {
                value,
                dropped: dropped.clone(),
            };
            run(Owner::new(number, ()));
            assert_eq!(dropped.load(Ordering::Relaxed), 1);
        });
    }

    fn finish<M: ModeType>(loan: SharedLoan<Number, (), M>) {
        drop(loan.finish(false, &mut Woken::new()));
    }

    #[test]
    fn loom_whoever_of_an_owner_and_two_loans_is_last_drops_the_cell() {
        model(|owner| {
            let ending = [(); 2].map(|()| {
                let mut loan = owner.lend::<Read>(&BY);
                loan.insert(&BY);
                thread::spawn(move || {
                    assert_eq!(loan.datum().value(), 0);
                    finish(loan);
                })
            });
            drop(owner);
            ending.map(|thread| thread.join().unwrap());
        });
    }

    /// The other thread has the last owner: it knows of the loan that the inserting one made of its own.
    #[test]
    fn loom_who_drops_the_last_owner_knows_of_all_loans() {
        model(|owner| {
            let other = owner.clone();
            let disowning = thread::spawn(move || drop(other));
            let first = owner.lend::<Read>(&BY);
            drop(owner);
            let mut second = first.lend::<Read>(&BY);
            drop(first);
            second.insert(&BY);
            disowning.join().unwrap();
            assert_eq!(second.datum().value(), 0);
            finish(second);
        });
    }

    #[test]
    fn loom_who_comes_when_it_is_his_turn_has_the_datum_to_himself() {
        model(|owner| {
            let mut write = owner.lend::<Write>(&BY);
            let mut next = owner.lend::<Write>(&BY);
            write.insert(&BY);
            next.insert(&BY);
            drop(owner);
            let writing = thread::spawn(move || {
                write.datum().add();
                finish(write);
            });
            let in_turn = next.cell().versions.have_finished(next.required());
            if in_turn {
                next.datum().add();
                assert_eq!(next.datum().value(), 2);
                finish(next);
            } else {
                drop(next);
            }
            writing.join().unwrap();
        });
    }
}
