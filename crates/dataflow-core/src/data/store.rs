//! Stores: the home of data before and after a run.
//!
//! # Law
//! A slot lends its datum for updating to one task at a time; readers share it.
//! After a run every slot that was full before is full again (as far as transports
//! [let go](crate::run_across)). A slot remembers which run took its
//! datum last, and which run put one there: so a run detects that it puts two, or brings none back.
//! What was lent may come home by itself only until its slot is filled again: who is late finds that the
//! slot has been emptied another time.
//! No datum is copied or dropped under a slot's lock: it may ask for that lock itself.

use super::{Datum, Version};
use crate::sync::held;
use std::fmt;
use std::sync::{Arc, Mutex, TryLockError, Weak};

/// A named array of data that tasks take from home and bring back home.
///
/// Slots are numbered from 0; a matrix maps its tile indices to them.
///
/// # Examples
/// ```
/// use dataflow_core::data::{Store, Version};
///
/// let mut squares = Store::new("squares", [0, 1, 4]);
/// assert_eq!(*squares.get(2).unwrap(), 4);
/// assert!(squares.update(1, |square| *square += 8).is_some());
/// assert_eq!(squares.into_data(), Some(vec![0, 9, 4]));
///
/// // Filled by the tasks of a run, or by hand
/// let sums = Store::empty("sums", 2);
/// assert!(sums.get(0).is_none());
/// sums.put(0, Version::new(7)).expect("there are 2 slots");
/// assert_eq!(sums.get(0).as_deref(), Some(&7));
/// ```
pub struct Store<D: Datum> {
    name: String,
    slots: Arc<StoreSlots<D>>,
}

/// How many slots it has and how many of them hold a datum: the data may be large.
impl<D: Datum> fmt::Debug for Store<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Who looks at a datum may show the store meanwhile.
        let is_filled = |slot: &&Mutex<StoreSlot<D>>| match slot.try_lock() {
            Ok(slot) => slot.version.is_some(),
            Err(TryLockError::Poisoned(slot)) => slot.get_ref().version.is_some(),
            Err(TryLockError::WouldBlock) => true,
        };
        f.debug_struct("Store")
            .field("name", &self.name)
            .field("slots", &self.slots.len())
            .field("filled", &self.slots.iter().filter(is_filled).count())
            .finish()
    }
}

type StoreSlots<D> = [Mutex<StoreSlot<D>>];

/// The number of a run: no two have the same one, as far as chance goes; 0 is none.
pub(crate) type RunNumber = u64;

struct StoreSlot<D: Datum> {
    version: Option<Version<D>>,
    /// How many times its version was taken out: tells lendings apart.
    turn: u64,
    /// The run that has taken the datum, until it puts one.
    taken_in: RunNumber,
    /// The run that put a datum here last, or in whose place one was put by hand.
    put_in: RunNumber,
}

/// What happened when a run put a datum into a slot.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is the run's first there, and the run had not taken the datum that was there.
    New,
    /// The run had taken the datum that was there.
    Back,
    /// The run has put one there before, which stays.
    Twice,
}

impl<D: Datum> StoreSlot<D> {
    fn new(version: Option<Version<D>>) -> Mutex<Self> {
        Mutex::new(StoreSlot {
            version,
            turn: 0,
            taken_in: 0,
            put_in: 0,
        })
    }

    /// Takes the version out.
    fn empty(&mut self) -> Option<Version<D>> {
        let version = self.version.take()?;
        self.turn += 1;
        Some(version)
    }
}

/// Where a lent datum came from.
#[derive(Clone, Debug)]
pub(super) struct Origin<D: Datum> {
    slots: Weak<StoreSlots<D>>,
    index: usize,
    turn: u64,
}

impl<D: Datum> Store<D> {
    /// A store with one slot per datum, called `name` in errors and traces.
    pub fn new(name: impl Into<String>, data: impl IntoIterator<Item = D>) -> Self {
        let slots = data
            .into_iter()
            .map(|datum| StoreSlot::new(Some(Version::new(datum))))
            .collect();
        Store {
            name: name.into(),
            slots,
        }
    }

    /// A store of `length` empty slots, to be filled by [`put`](Self::put).
    ///
    /// # Panics
    /// If there is no memory for so many slots.
    #[track_caller]
    pub fn empty(name: impl Into<String>, length: usize) -> Self {
        let name = name.into();
        // The slots are collected without a question, so whether there is room is asked before.
        let room = Vec::<Mutex<StoreSlot<D>>>::new().try_reserve_exact(length);
        if room.is_err() {
            panic!("there is no memory for the {length} slots of the store {name:?}");
        }
        let slots = (0..length).map(|_| StoreSlot::new(None)).collect();
        Store { name, slots }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it has no slots.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The current version in a slot, shared; `None` if the index is outside or the slot is lent.
    pub fn get(&self, index: usize) -> Option<Version<D>> {
        held(self.slots.get(index)?).version.clone()
    }

    /// Looks at the datum in a slot without sharing it, so that a task which takes it meanwhile is
    /// its sole holder; `None` if the index is outside or the slot is lent.
    pub(crate) fn peek<R>(&self, index: usize, look: impl FnOnce(&D) -> R) -> Option<R> {
        held(self.slots.get(index)?).version.as_deref().map(look)
    }

    /// Takes the datum out of a slot for updating.
    ///
    /// The slot is empty until a version is put back or the one taken is dropped. If a reader
    /// still holds the version, the slot keeps it too, and an update of what was taken copies it.
    pub fn take(&self, index: usize) -> Option<Version<D>> {
        self.take_in(index, 0)
    }

    /// The same for a run, which must later [put](Self::put_in) a datum there; `None` if it has put one
    /// already: then the slot no longer has the datum that was to be taken.
    pub(crate) fn take_in(&self, index: usize, run: RunNumber) -> Option<Version<D>> {
        let mut slot = held(self.slots.get(index)?);
        if run != 0 && slot.put_in == run {
            return None;
        }
        let mut version = slot.empty()?;
        slot.taken_in = run;
        let origin = Origin {
            slots: Arc::downgrade(&self.slots),
            index,
            turn: slot.turn,
        };
        if !version.note_origin(origin) {
            slot.version = Some(version.clone());
        }
        Some(version)
    }

    /// Takes the version in a slot for a run, which must [put](Self::put_in) it back; nothing else gets it
    /// meanwhile. `None` if the index is outside or the slot is lent.
    pub(crate) fn lift(&self, index: usize, run: RunNumber) -> Option<Version<D>> {
        let mut slot = held(self.slots.get(index)?);
        let version = slot.empty()?;
        slot.taken_in = run;
        Some(version)
    }

    /// Whether a run has taken the datum of a slot and put none there.
    pub(crate) fn is_lent_in(&self, index: usize, run: RunNumber) -> bool {
        let slot = self.slots.get(index);
        slot.is_some_and(|slot| held(slot).taken_in == run)
    }

    /// Puts a version into a slot. `None` if the index is outside.
    ///
    /// A version that was taken from another slot fills that slot too, if that has been empty since, until
    /// something else is put there: so a datum that goes to the wrong slot leaves no slot empty.
    #[must_use = "`None`: there is no such slot, and the datum is dropped"]
    pub fn put(&self, index: usize, version: Version<D>) -> Option<()> {
        self.put_in(index, version, 0).map(|_| ())
    }

    /// The same for a run, which may put at most one datum into each slot.
    pub(crate) fn put_in(&self, index: usize, version: Version<D>, run: RunNumber) -> Option<Put> {
        let slot = self.slots.get(index)?;
        let elsewhere = version
            .origin()
            .filter(|origin| !origin.is(&self.slots, index));
        let elsewhere = elsewhere.map(|origin| (origin.clone(), version.clone()));
        let (replaced, put) = {
            let mut slot = held(slot);
            if run != 0 && slot.put_in == run {
                return Some(Put::Twice);
            }
            // What is put by hand while a run has the datum takes the place of what the run was to put.
            let put = match run == 0 {
                true => {
                    slot.put_in = slot.taken_in;
                    Put::New
                }
                false => {
                    slot.put_in = run;
                    match std::mem::take(&mut slot.taken_in) == run {
                        true => Put::Back,
                        false => Put::New,
                    }
                }
            };
            (slot.version.replace(version), put)
        };
        if let Some((origin, shared)) = elsewhere {
            origin.fill(shared);
        }
        // Dropped after the lock was given back: it may ask for the lock to go home itself. And last of all:
        // it may panic.
        drop(replaced);
        Some(put)
    }

    /// Changes the datum of a slot outside of runs; the datum is copied first if a reader still holds
    /// it.
    /// `None` if the index is outside or the slot is lent.
    #[must_use = "`None`: nothing was changed"]
    pub fn update<R>(&mut self, index: usize, change: impl FnOnce(&mut D) -> R) -> Option<R> {
        let slots = std::slice::from_ref(self.slots.get(index)?);
        let version = held(&slots[0]).empty()?;
        // Goes home also if `change`, or the copy, panics.
        let versions = vec![version];
        let mut out = Out { slots, versions };
        out.versions[0].make_sole();
        out.versions[0].get_mut().map(change)
    }

    /// Takes all data out, in order, and puts them back when `use_them` returns or panics.
    /// `None` if a slot is empty. Data that a reader still holds are copied first.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::data::Store;
    /// let mut store = Store::new("numbers", [1, 2, 3]);
    /// let sum = store.with_data(|numbers| {
    ///     *numbers[0] = 10;
    ///     numbers.iter().map(|number| **number).sum::<u64>()
    /// });
    /// assert_eq!((sum, *store.get(0).unwrap()), (Some(15), 10));
    /// ```
    #[must_use = "`None`: nothing was called"]
    pub fn with_data<R>(&mut self, use_them: impl FnOnce(&mut [&mut D]) -> R) -> Option<R> {
        let mut out = Out {
            slots: &self.slots,
            versions: Vec::with_capacity(self.slots.len()),
        };
        for slot in self.slots.iter() {
            let version = held(slot).empty()?;
            out.versions.push(version);
        }
        for version in &mut out.versions {
            version.make_sole();
        }
        let data = out.versions.iter_mut().map(Version::get_mut);
        let mut data: Vec<&mut D> = data.collect::<Option<_>>()?;
        Some(use_them(&mut data))
    }

    /// All data in order; `None` if a slot is empty.
    pub fn into_data(self) -> Option<Vec<D>> {
        let datum_of = |slot: &Mutex<StoreSlot<D>>| {
            let version = held(slot).empty();
            version.map(Version::into_datum)
        };
        self.slots.iter().map(datum_of).collect()
    }
}

/// The data of the first slots, while they are taken out; when dropped, they go home.
struct Out<'s, D: Datum> {
    slots: &'s StoreSlots<D>,
    versions: Vec<Version<D>>,
}

impl<D: Datum> Drop for Out<'_, D> {
    fn drop(&mut self) {
        for (slot, version) in self.slots.iter().zip(self.versions.drain(..)) {
            held(slot).version = Some(version);
        }
    }
}

impl<D: Datum> Origin<D> {
    /// Whether it is this slot.
    fn is(&self, slots: &Arc<StoreSlots<D>>, index: usize) -> bool {
        self.index == index && std::ptr::addr_eq(self.slots.as_ptr(), Arc::as_ptr(slots))
    }

    /// Brings home a datum that was not put back.
    pub(super) fn bring_home(self, datum: D) {
        self.fill(Version::new(datum));
    }

    /// Puts a version into the slot: only if that is still empty, and by this lending.
    fn fill(&self, version: Version<D>) {
        let Some(slots) = self.slots.upgrade() else {
            return;
        };
        let mut slot = held(&slots[self.index]);
        if slot.version.is_none() && slot.turn == self.turn {
            slot.version = Some(version);
        }
        // The lock is given back first: what was not kept may be the last of its kind, from this slot.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[derive(Clone, Debug, PartialEq)]
    struct Number(i32);
    impl Datum for Number {}

    /// All data were shown, however many and large; and a type without `Debug` could not be.
    #[test]
    fn a_store_shows_how_many_data_it_holds() {
        #[derive(Clone)]
        struct Unshown;
        impl Datum for Unshown {}
        let store = Store::new("many", vec![Unshown; 1_000]);
        let lent = store.take(7);
        let shown = format!("{store:?}");
        assert_eq!(shown, r#"Store { name: "many", slots: 1000, filled: 999 }"#);
        assert_eq!(store.peek(3, |_| format!("{store:?}")), Some(shown));
        drop(lent);
    }

    /// The text was that of a `Vec`.
    #[test]
    fn a_store_of_more_slots_than_memory_holds_is_refused_by_name_and_count() {
        // Miri ends where an allocator would only refuse.
        let lengths: &[usize] = if cfg!(miri) {
            &[usize::MAX]
        } else {
            &[1 << 50, usize::MAX]
        };
        for &length in lengths {
            let made = catch_unwind(|| Store::<Number>::empty("grid", length));
            let text = *made.unwrap_err().downcast::<String>().unwrap();
            let told = format!("no memory for the {length} slots of the store \"grid\"");
            assert!(text.contains(&told), "{text}");
        }
    }

    /// The datum was gone.
    #[test]
    fn a_change_that_panics_leaves_the_datum_in_its_slot() {
        let mut store = Store::new("numbers", [Number(1), Number(2)]);
        let change = |number: &mut Number| {
            number.0 = 7;
            panic!("as told")
        };
        let changing = AssertUnwindSafe(|| store.update(1, change));
        assert!(catch_unwind(changing).is_err());
        assert_eq!(store.update(1, |number| number.0), Some(7));
        assert_eq!(store.into_data().unwrap(), [Number(1), Number(7)]);
    }

    /// It lay in the slot then, and what had been lent was lost.
    #[test]
    fn an_old_version_does_not_take_the_place_of_what_was_lent_since() {
        let lent_again = || {
            let store = Store::new("numbers", [Number(1), Number(2)]);
            let old = store.take(0).unwrap();
            let reader = old.clone();
            store.put(0, old).unwrap();
            store.put(0, Version::new(Number(5))).unwrap();
            let lent = store.take(0).unwrap();
            (store, reader, lent)
        };
        let (store, reader, lent) = lent_again();
        drop(reader);
        assert!(store.get(0).is_none(), "still lent");
        drop(lent);
        assert_eq!(store.into_data().unwrap(), [Number(5), Number(2)]);

        let (store, reader, lent) = lent_again();
        store.put(1, reader).unwrap();
        assert!(store.get(0).is_none(), "still lent");
        drop(lent);
        assert_eq!(store.into_data().unwrap(), [Number(5), Number(1)]);
    }

    #[derive(Clone, Copy, PartialEq)]
    enum When {
        Never,
        Copied,
        Dropped,
    }

    /// A datum that does something, once, when it is copied or dropped.
    struct Hooked(When, Arc<Mutex<Option<Hook>>>);

    type Hook = Box<dyn FnOnce() + Send>;

    impl Hooked {
        fn new(when: When, hook: impl FnOnce() + Send + 'static) -> Self {
            Hooked(when, Arc::new(Mutex::new(Some(Box::new(hook)))))
        }

        fn plain() -> Self {
            Hooked::new(When::Never, || ())
        }

        fn happens(&self, when: When) {
            let hook = self.1.lock().unwrap().take_if(|_| self.0 == when);
            if let Some(hook) = hook {
                hook();
            }
        }
    }

    impl Clone for Hooked {
        fn clone(&self) -> Self {
            self.happens(When::Copied);
            Hooked::plain()
        }
    }

    impl Drop for Hooked {
        fn drop(&mut self) {
            self.happens(When::Dropped);
        }
    }

    impl Datum for Hooked {}

    /// Fails if it does not end.
    fn in_time(what: impl FnOnce() + Send + 'static) {
        let (done, ended) = channel();
        std::thread::spawn(move || {
            what();
            done.send(())
        });
        let ended = ended.recv_timeout(Duration::from_secs(20));
        assert!(ended.is_ok(), "it waits for ever, or has panicked");
    }

    #[test]
    fn the_data_of_a_store_come_out_though_a_copy_lets_the_last_reader_go() {
        in_time(|| {
            let reader = Arc::new(Mutex::new(None));
            let kept = reader.clone();
            let copied = Hooked::new(When::Copied, move || drop(kept.lock().unwrap().take()));
            let store = Store::new("hooked", [copied]);
            let taken = store.take(0).unwrap();
            *reader.lock().unwrap() = Some(taken.clone());
            store.put(0, taken).unwrap();
            assert_eq!(store.into_data().unwrap().len(), 1);
            assert!(reader.lock().unwrap().is_none(), "it was copied");
        });
    }

    #[test]
    fn a_version_put_elsewhere_may_be_dropped_where_it_came_from() {
        in_time(|| {
            let store = Arc::new(Store::new("hooked", [Hooked::plain(), Hooked::plain()]));
            let filled = store.clone();
            let replaced = Hooked::new(When::Dropped, move || {
                for slot in [0, 1] {
                    filled.put(slot, Version::new(Hooked::plain())).unwrap();
                }
            });
            store.put(1, Version::new(replaced)).unwrap();
            let taken = store.take(0).unwrap();
            // Both slots are full when it is to be put into the first one: nobody else holds it.
            store.put(1, taken).unwrap();
            assert!((0..2).all(|slot| store.get(slot).is_some()));
        });
    }

    /// Its home stayed empty.
    #[test]
    fn a_version_put_elsewhere_is_at_home_too_though_what_it_replaces_panics() {
        let store = Store::new("hooked", [Hooked::plain(), Hooked::plain()]);
        let bad = Hooked::new(When::Dropped, || panic!("as told"));
        store.put(1, Version::new(bad)).unwrap();
        let taken = store.take(0).unwrap();
        let put = catch_unwind(AssertUnwindSafe(|| store.put(1, taken)));
        assert!(put.is_err(), "it panics as it is dropped");
        assert!((0..2).all(|slot| store.get(slot).is_some()));
    }

    #[test]
    fn a_slot_knows_what_a_run_did_to_it_and_forgets_it_with_the_run() {
        let store = Store::new("numbers", [Number(1)]);
        for run in [5, 6] {
            let taken = store.take_in(0, run).unwrap();
            assert!(store.is_lent_in(0, run) && !store.is_lent_in(0, run + 1));
            assert_eq!(store.put_in(0, taken, run), Some(Put::Back));
            assert!(!store.is_lent_in(0, run) && store.take_in(0, run).is_none());
            let second = Version::new(Number(9));
            assert_eq!(store.put_in(0, second, run), Some(Put::Twice));
            assert_eq!(*store.get(0).unwrap(), Number(1), "the first stays");
        }
        assert_eq!(store.put_in(0, Version::new(Number(2)), 7), Some(Put::New));
        store.put(0, Version::new(Number(3))).unwrap();
        store.put(0, Version::new(Number(4))).unwrap();
        assert_eq!(store.put_in(1, Version::new(Number(5)), 7), None);
        assert_eq!(store.into_data().unwrap(), [Number(4)]);
    }
}
