//! Versions: tasks that read a datum share an immutable version; a task that updates it has its own.
//!
//! # Law
//! A datum is changed in place only through its sole holder; otherwise it is copied first.
//! A version that was taken from a [`Store`](super::Store) returns there if it is dropped before its
//! slot was filled again: so no slot stays empty, however the run ended.

use super::Datum;
use super::store::Origin;
use crate::sync::{AtomicU64, Ordering};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A reference-counted, immutable state of a datum.
///
/// Dereferences to the datum. Cloning shares; [`Version::new`] starts a new lineage.
///
/// # Examples
/// ```
/// use dataflow_core::data::Version;
///
/// let mut row = Version::new(vec![1.0, 2.0]);
/// let shared = row.clone();
/// assert_eq!(shared.iter().sum::<f64>(), 3.0);
/// assert!(row.get_mut().is_none());
/// drop(shared);
/// row.get_mut().expect("the only holder")[0] = 5.0;
/// assert_eq!(row.into_datum(), [5.0, 2.0]);
/// ```
#[derive(Clone)]
pub struct Version<D: Datum> {
    lent: Arc<VersionInner<D>>,
}

struct VersionInner<D: Datum> {
    /// `Some` until `into_datum` or `drop` takes it.
    datum: Option<D>,
    origin: Option<Origin<D>>,
    /// How many bytes came from another rank, until a task begins to use them.
    came: AtomicU64,
}

/// As its datum shows itself.
impl<D: Datum + fmt::Debug> fmt::Debug for Version<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<D: Datum> Version<D> {
    /// The first version of a datum.
    pub fn new(datum: D) -> Self {
        Version::came(datum, 0)
    }

    /// The first version on this rank of a datum that came from another as so many bytes.
    pub(crate) fn came(datum: D, bytes: usize) -> Self {
        Version {
            lent: Arc::new(VersionInner {
                datum: Some(datum),
                origin: None,
                came: AtomicU64::new(bytes as u64),
            }),
        }
    }

    /// Notes that a task begins to use it; returns how many bytes came for it, if this task is the
    /// first.
    pub(crate) fn begin_use(&self) -> u64 {
        let came = &self.lent.came;
        // Relaxed: nothing but the number is told. Nearly all have come from nowhere.
        match came.load(Ordering::Relaxed) {
            0 => 0,
            _ => came.swap(0, Ordering::Relaxed),
        }
    }

    /// The datum for writing, if this is the only holder of the version.
    pub fn get_mut(&mut self) -> Option<&mut D> {
        Arc::get_mut(&mut self.lent)?.datum.as_mut()
    }

    /// The datum itself, or a copy if there are other holders.
    pub fn into_datum(self) -> D {
        match Arc::try_unwrap(self.lent) {
            Ok(mut lent) => {
                lent.origin = None;
                lent.datum
                    .take()
                    .unwrap_or_else(|| unreachable!("a living version has its datum"))
            }
            Err(shared) => (*Version { lent: shared }).clone(),
        }
    }

    /// Takes the datum out of a version with a sole holder; the caller must put it back. `None` if it
    /// is shared.
    pub(crate) fn lift(&mut self) -> Option<D> {
        Arc::get_mut(&mut self.lent)?.datum.take()
    }

    /// Puts back a datum that was taken out.
    pub(crate) fn put_back(&mut self, datum: D) {
        if let Some(lent) = Arc::get_mut(&mut self.lent) {
            lent.datum = Some(datum);
        }
    }

    /// Makes this holder the sole one, copying the datum if it is shared; says whether it copied.
    pub(crate) fn make_sole(&mut self) -> bool {
        // Nobody has weak pointers. Relaxed: a task that changes the datum asks again, by acquire.
        let shared = Arc::strong_count(&self.lent) > 1;
        if shared {
            *self = Version::new((**self).clone());
        }
        shared
    }

    /// The slot that it was taken from.
    pub(super) fn origin(&self) -> Option<&Origin<D>> {
        self.lent.origin.as_ref()
    }

    /// Notes the slot that it was taken from; returns false and notes nothing if it is shared.
    pub(super) fn note_origin(&mut self, origin: Origin<D>) -> bool {
        match Arc::get_mut(&mut self.lent) {
            Some(lent) => {
                lent.origin = Some(origin);
                true
            }
            None => false,
        }
    }
}

impl<D: Datum> Deref for Version<D> {
    type Target = D;
    fn deref(&self) -> &D {
        match &self.lent.datum {
            Some(datum) => datum,
            None => unreachable!("a living version has its datum"),
        }
    }
}

impl<D: Datum> Drop for VersionInner<D> {
    fn drop(&mut self) {
        if let (Some(origin), Some(datum)) = (self.origin.take(), self.datum.take()) {
            origin.bring_home(datum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Store;

    #[derive(Clone, Debug, PartialEq)]
    struct Number(i32);
    impl Datum for Number {}

    #[test]
    fn a_sole_version_is_updated_in_place_and_a_shared_one_is_copied() {
        let mut version = Version::new(Number(1));
        assert!(!version.make_sole());
        let reader = version.clone();
        assert!(version.make_sole());
        version.get_mut().unwrap().0 = 2;
        assert_eq!((reader.0, version.0), (1, 2));
    }

    #[test]
    fn what_came_from_another_rank_is_begun_to_be_used_once() {
        let version = Version::came(Number(1), 8);
        let other = version.clone();
        assert_eq!((other.begin_use(), version.begin_use()), (8, 0));
        assert_eq!(Version::new(Number(1)).begin_use(), 0);
    }

    #[test]
    fn a_version_dropped_on_the_way_goes_home() {
        let store = Store::new("numbers", [Number(7)]);
        let mut taken = store.take(0).unwrap();
        taken.get_mut().unwrap().0 = 8;
        assert!(store.get(0).is_none(), "lent");
        drop(taken);
        assert_eq!(*store.get(0).unwrap(), Number(8));
    }

    #[test]
    fn a_store_is_full_after_any_order_of_puts_and_drops() {
        let store = Store::new("numbers", [Number(1)]);
        let taken = store.take(0).unwrap();
        let reader = taken.clone();
        store.put(0, taken).unwrap();
        let second = store.take(0).unwrap(); // shared with the reader: stays at home too
        assert_eq!(*second, Number(1));
        drop((second, reader));
        assert_eq!(*store.get(0).unwrap(), Number(1));
        store.put(0, Version::new(Number(5))).unwrap();
        assert_eq!(store.into_data().unwrap(), [Number(5)]);
    }

    #[test]
    fn a_version_put_elsewhere_leaves_no_hole_and_two_may_swap() {
        let store = Store::new("numbers", [Number(1), Number(2)]);
        store.put(1, store.take(0).unwrap()).unwrap();
        assert_eq!(store.into_data().unwrap(), [Number(1), Number(1)]);
        let store = Store::new("numbers", [Number(1), Number(2)]);
        let (first, second) = (store.take(0).unwrap(), store.take(1).unwrap());
        store.put(1, first).unwrap();
        store.put(0, second).unwrap();
        assert!(!store.take(0).unwrap().make_sole(), "nobody shares it");
        assert_eq!(store.into_data().unwrap(), [Number(2), Number(1)]);
    }
}
