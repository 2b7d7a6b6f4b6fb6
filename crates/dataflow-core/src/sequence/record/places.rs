//! Places: where the data lie while a recorded program runs in place.
//!
//! # Law
//! A datum is taken from its slot when the run begins and brought back when it ends, whatever became
//! of the run, as its tasks have left it; unless something was put there by hand meanwhile. The [order](super::order) decides which task may go on; the
//! cell in which a datum lies only proves that it is right, and never waits.

use super::accesses::Loan;
use super::graph::{NONE, RecordedDatum};
use super::order::PackedAccess;
use crate::data::{Datum, Put, RunNumber, Version};
use crate::engine::new_run_number;
use atomic_refcell::{AtomicRef, AtomicRefCell, AtomicRefMut};

/// The data of a run; dropped, they go home.
pub(super) struct Places<'r, 'env, D: Datum> {
    origins: &'r [RecordedDatum<'env, D>],
    places: Vec<CacheLine<D>>,
    /// What held those that lie in their places themselves.
    versions: Vec<Option<Version<D>>>,
    run: RunNumber,
}

/// A line of the cache to each: neighbours are accessed by different workers.
#[repr(align(64))]
struct CacheLine<D: Datum>(AtomicRefCell<Resident<D>>);

/// A datum in its place.
pub(super) struct Resident<D: Datum> {
    datum: Residence<D>,
    /// Whether a task that changes it has failed, or was skipped.
    is_spoilt: bool,
}

enum Residence<D: Datum> {
    Itself(D),
    /// Somebody outside of the run shares it: a task that changes it copies it first.
    Shared(Version<D>),
    /// No task accesses it.
    Nothing,
}

/// A datum while tasks access it.
pub(super) struct AccessGuard<'p, D: Datum> {
    pub access: PackedAccess,
    guard: Guard<'p, D>,
}

enum Guard<'p, D: Datum> {
    Read(AtomicRef<'p, Resident<D>>),
    Write(AtomicRefMut<'p, Resident<D>>),
}

impl<'r, 'env, D: Datum> Places<'r, 'env, D> {
    /// Takes the data that tasks access; or names the first one that is not in its slot.
    pub fn take(origins: &'r [RecordedDatum<'env, D>]) -> Result<Self, u32> {
        let mut taken = Places {
            origins,
            places: Vec::with_capacity(origins.len()),
            versions: Vec::with_capacity(origins.len()),
            run: new_run_number(),
        };
        for (number, origin) in (0u32..).zip(origins) {
            let (datum, version) = match origin.last {
                NONE => (Residence::Nothing, None),
                _ => {
                    let version = origin.store.lift(origin.index, taken.run);
                    Residence::of(version.ok_or(number)?)
                }
            };
            let is_spoilt = false;
            let resident = Resident { datum, is_spoilt };
            taken.places.push(CacheLine(AtomicRefCell::new(resident)));
            taken.versions.push(version);
        }
        Ok(taken)
    }

    #[inline(always)]
    pub fn hold(&self, access: PackedAccess) -> AccessGuard<'_, D> {
        let place = &self.places[access.datum()].0;
        let guard = match access.changes() {
            true => place.try_borrow_mut().ok().map(Guard::Write),
            false => place.try_borrow().ok().map(Guard::Read),
        };
        match guard {
            Some(guard) => AccessGuard { access, guard },
            None => unreachable!("the order lets in two who exclude each other"),
        }
    }

    /// Brings the data home. Answers the first whose slot was filled by hand meanwhile, which stays so.
    pub fn bring_home(&mut self) -> Option<&'r RecordedDatum<'env, D>> {
        let mut filled = None;
        let places = self.places.drain(..).zip(self.versions.drain(..));
        for (origin, (place, version)) in self.origins.iter().zip(places) {
            let Resident { datum, .. } = place.0.into_inner();
            let Some(version) = datum.into_version(version) else {
                continue;
            };
            let put = origin.store.put_in(origin.index, version, self.run);
            if put == Some(Put::Twice) {
                filled.get_or_insert(origin);
            }
        }
        filled
    }

    /// Looks at a datum that a task which may run accesses.
    pub fn peek<R>(&self, access: PackedAccess, look: impl FnOnce(&D) -> R) -> Option<R> {
        let place = self.places[access.datum()].0.try_borrow().ok()?;
        Some(look(place.get()))
    }
}

impl<D: Datum> Drop for Places<'_, '_, D> {
    fn drop(&mut self) {
        self.bring_home();
    }
}

impl<D: Datum> Residence<D> {
    /// The datum of a version; and the version, if the datum was taken out of it.
    fn of(mut version: Version<D>) -> (Self, Option<Version<D>>) {
        match version.lift() {
            Some(datum) => (Residence::Itself(datum), Some(version)),
            None => (Residence::Shared(version), None),
        }
    }

    fn into_version(self, taken_from: Option<Version<D>>) -> Option<Version<D>> {
        match (self, taken_from) {
            (Residence::Itself(datum), Some(mut version)) => {
                version.put_back(datum);
                Some(version)
            }
            (Residence::Itself(datum), None) => Some(Version::new(datum)),
            (Residence::Shared(version), _) => Some(version),
            (Residence::Nothing, _) => None,
        }
    }
}

impl<D: Datum> AccessGuard<'_, D> {
    pub fn datum(&self) -> &D {
        self.resident().get()
    }

    pub fn is_spoilt(&self) -> bool {
        self.resident().is_spoilt
    }

    /// Spoils it, if it is to be changed.
    #[cold]
    pub fn spoil(&mut self) {
        if let Guard::Write(place) = &mut self.guard {
            place.is_spoilt = true;
        }
    }

    /// What a body gets. Calls `copied` if somebody outside of the run shared what it changes.
    #[inline(always)]
    pub fn lend(&mut self, copied: impl FnOnce()) -> Loan<'_, D> {
        match &mut self.guard {
            Guard::Read(place) => Loan::Read(place.get()),
            Guard::Write(place) => Loan::Write(place.get_mut(copied)),
        }
    }

    #[inline(always)]
    fn resident(&self) -> &Resident<D> {
        match &self.guard {
            Guard::Read(place) => place,
            Guard::Write(place) => place,
        }
    }
}

/// Why there is a datum in a place.
const ACCESSED: &str = "what tasks access was taken at the beginning";

impl<D: Datum> Resident<D> {
    #[inline(always)]
    fn get(&self) -> &D {
        match &self.datum {
            Residence::Itself(datum) => datum,
            Residence::Shared(version) => version,
            Residence::Nothing => unreachable!("{ACCESSED}"),
        }
    }

    #[inline(always)]
    fn get_mut(&mut self, copied: impl FnOnce()) -> &mut D {
        if let Residence::Shared(version) = &self.datum {
            self.datum = Residence::Itself(D::clone(version));
            copied();
        }
        match &mut self.datum {
            Residence::Itself(datum) => datum,
            _ => unreachable!("{ACCESSED}"),
        }
    }
}
