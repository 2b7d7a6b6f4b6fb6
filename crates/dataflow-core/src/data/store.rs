//! Stores: the home of data before and after a run.
//!
//! # Law
//! A slot lends its datum to one updating lineage at a time; readers share it.
//! After a run every slot that was full before is full again.

use super::{Datum, Version};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// A named array of data that tasks take from home and bring back home.
///
/// Slots are numbered from 0; a matrix maps its tile indices to them.
#[derive(Debug)]
pub struct Store<D: Datum> {
    name: String,
    slots: Arc<Slots<D>>,
}

type Slots<D> = [Mutex<Option<Version<D>>>];

/// Where a lent datum came from.
#[derive(Debug)]
pub(super) struct Origin<D: Datum> {
    slots: Weak<Slots<D>>,
    index: usize,
}

impl<D: Datum> Store<D> {
    /// A store with one slot per datum, called `name` in errors and traces.
    pub fn new(name: impl Into<String>, data: impl IntoIterator<Item = D>) -> Self {
        let slots = data
            .into_iter()
            .map(|datum| Mutex::new(Some(Version::new(datum))))
            .collect();
        Store {
            name: name.into(),
            slots,
        }
    }

    /// A store of `length` empty slots, to be filled by [`put`](Self::put).
    pub fn empty(name: impl Into<String>, length: usize) -> Self {
        let slots = (0..length).map(|_| Mutex::new(None)).collect();
        Store {
            name: name.into(),
            slots,
        }
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
        lock(self.slots.get(index)?).clone()
    }

    /// Looks at the datum in a slot without sharing it, so that whoever takes it meanwhile is its
    /// sole holder; `None` if the index is outside or the slot is lent.
    pub(crate) fn peek<R>(&self, index: usize, look: impl FnOnce(&D) -> R) -> Option<R> {
        lock(self.slots.get(index)?).as_deref().map(look)
    }

    /// Takes the datum out of a slot for updating.
    ///
    /// The slot is empty until a version is put back or the one taken is dropped. If a reader
    /// still holds it, the slot keeps it too, and whoever updates what was taken copies it.
    pub fn take(&self, index: usize) -> Option<Version<D>> {
        let mut slot = lock(self.slots.get(index)?);
        let mut version = slot.take()?;
        let origin = Origin {
            slots: Arc::downgrade(&self.slots),
            index,
        };
        if !version.note_origin(origin) {
            *slot = Some(version.clone());
        }
        Some(version)
    }

    /// Takes the version in a slot, for a time in which nobody else gets it; whoever does so puts it
    /// back. `None` if the index is outside or the slot is lent.
    pub(crate) fn lift(&self, index: usize) -> Option<Version<D>> {
        lock(self.slots.get(index)?).take()
    }

    /// Puts a version into a slot. `None` if the index is outside.
    ///
    /// A version that was taken from another slot fills that one too, until something else is
    /// put there: what goes to the wrong place leaves no hole behind.
    pub fn put(&self, index: usize, version: Version<D>) -> Option<()> {
        let slot = self.slots.get(index)?;
        let elsewhere = version
            .origin()
            .filter(|origin| !origin.is(&self.slots, index));
        let lent_elsewhere =
            elsewhere.and_then(|origin| Some((origin.slots.upgrade()?, origin.index)));
        let shared = lent_elsewhere.is_some().then(|| version.clone());
        let replaced = lock(slot).replace(version);
        // Dropped after the lock was given back: it may ask for the lock to go home itself.
        drop(replaced);
        if let (Some((slots, index)), Some(shared)) = (lent_elsewhere, shared) {
            lock(&slots[index]).get_or_insert(shared);
        }
        Some(())
    }

    /// Changes the datum of a slot outside of runs; copied first if a reader still holds it.
    /// `None` if the index is outside or the slot is lent.
    pub fn update<R>(&mut self, index: usize, change: impl FnOnce(&mut D) -> R) -> Option<R> {
        let mut version = lock(self.slots.get(index)?).take()?;
        version.make_sole();
        let result = version.get_mut().map(change);
        *lock(&self.slots[index]) = Some(version);
        result
    }

    /// Takes all data out, in order, and puts them back when `use_them` is done, whatever it did.
    /// `None` if a slot is empty. Data that a reader still holds are copied first.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::data::{Datum, Store};
    /// #[derive(Clone)]
    /// struct Number(u64);
    /// impl Datum for Number {}
    /// let mut store = Store::new("numbers", [1, 2, 3].map(Number));
    /// let sum = store.with_data(|numbers| {
    ///     numbers[0].0 = 10;
    ///     numbers.iter().map(|number| number.0).sum::<u64>()
    /// });
    /// assert_eq!((sum, store.get(0).unwrap().0), (Some(15), 10));
    /// ```
    pub fn with_data<R>(&mut self, use_them: impl FnOnce(&mut [&mut D]) -> R) -> Option<R> {
        let mut out = Out {
            slots: &self.slots,
            versions: Vec::with_capacity(self.slots.len()),
        };
        for slot in self.slots.iter() {
            let mut version = lock(slot).take()?;
            version.make_sole();
            out.versions.push(version);
        }
        let data = out.versions.iter_mut().map(Version::get_mut);
        let mut data: Vec<&mut D> = data.collect::<Option<_>>()?;
        Some(use_them(&mut data))
    }

    /// All data in order; `None` if a slot is empty.
    pub fn into_data(self) -> Option<Vec<D>> {
        self.slots
            .iter()
            .map(|slot| lock(slot).take().map(Version::into_datum))
            .collect()
    }
}

/// The data of the first slots, while they are out; dropped, they go home.
struct Out<'s, D: Datum> {
    slots: &'s Slots<D>,
    versions: Vec<Version<D>>,
}

impl<D: Datum> Drop for Out<'_, D> {
    fn drop(&mut self) {
        for (slot, version) in self.slots.iter().zip(self.versions.drain(..)) {
            *lock(slot) = Some(version);
        }
    }
}

impl<D: Datum> Origin<D> {
    /// Whether it is this slot.
    fn is(&self, slots: &Arc<Slots<D>>, index: usize) -> bool {
        self.index == index && std::ptr::addr_eq(self.slots.as_ptr(), Arc::as_ptr(slots))
    }

    /// Brings a datum home that nobody put back: only into a slot that is still empty.
    pub(super) fn bring_home(self, datum: D) {
        let Some(slots) = self.slots.upgrade() else {
            return;
        };
        let mut slot = lock(&slots[self.index]);
        if slot.is_none() {
            *slot = Some(Version::new(datum));
        }
    }
}

fn lock<D: Datum>(slot: &Mutex<Option<Version<D>>>) -> MutexGuard<'_, Option<Version<D>>> {
    slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
