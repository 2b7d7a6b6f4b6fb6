//! A datum of a scope, with its versions and the reductions that build copies of it.

use super::law::Mode;
use super::versions::Versions;
use crate::data::Datum;
use crate::sync::{AtomicBool, Ordering, SpinLock};
use atomic_refcell::AtomicRefCell;
use std::any::Any;
use std::borrow::BorrowMut;
use std::fmt;
use std::sync::Arc;

/// A datum and its versions, which decide which task may go on: the cell that holds the datum only proves
/// that they are right, and never waits.
pub struct Cell<T> {
    pub versions: Versions,
    pub datum: AtomicRefCell<T>,
    /// The copies that tasks which reduce are building up.
    pub series: Series<T>,
    lies: Option<Lies<T>>,
}

/// What a scope keeps for a datum of type `T`: the datum, or a borrow of it.
#[doc(hidden)]
pub trait Holds<T>: BorrowMut<T> + Send + Sync {}

impl<T, S: BorrowMut<T> + Send + Sync> Holds<T> for S {}

/// Tells on which NUMA node a datum lies, if anybody knows, and how many bytes it has.
pub type Lies<T> = fn(&T) -> Option<(usize, u64)>;

/// The same of a datum that knows.
pub fn lies<D: Datum>(datum: &D) -> Option<(usize, u64)> {
    Some((datum.numa_node()?, datum.bytes() as u64))
}

/// A datum of a scope, whatever its type, as executors are told of it.
pub trait Lying {
    /// On which NUMA node it lies, and how many bytes of it, as far as that is known.
    fn lies(&self) -> Option<(usize, u64)>;
}

impl<T> Cell<T> {
    /// An access to it.
    #[inline(always)]
    pub fn shown(&self, mode: Mode, required: u64) -> Shown<'_> {
        let (versions, lying) = (&self.versions, self as &dyn Lying);
        Shown {
            versions,
            mode,
            required,
            lying,
        }
    }
}

impl<T> Lying for Cell<T> {
    fn lies(&self) -> Option<(usize, u64)> {
        let lies = self.lies?;
        let datum = self.datum.try_borrow().ok()?;
        lies(&datum)
    }
}

impl<T> Cell<T> {
    pub fn new(datum: T) -> Arc<Self> {
        Self::lying(datum, None)
    }

    /// The same, of a datum of which it may be told where it lies.
    pub fn lying(datum: T, lies: Option<Lies<T>>) -> Arc<Self> {
        Arc::new(Cell {
            versions: Versions::new(),
            datum: AtomicRefCell::new(datum),
            series: Series::new(),
            lies,
        })
    }
}

/// One access of a set.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    pub(super) versions: &'a Versions,
    pub(super) mode: Mode,
    /// How many accesses must have finished before, once it is inserted.
    pub(super) required: u64,
    pub(super) lying: &'a dyn Lying,
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Shown");
        shown.field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// A copy, once there is one.
pub type LazyCopy = Option<Box<dyn Any + Send + Sync>>;

/// The open series of a datum, if there is one.
pub struct Series<T> {
    /// The same as `open.is_some()`, for a glance. Only the thread that inserts looks.
    pub is_open: AtomicBool,
    pub open: SpinLock<Option<Open<T>>>,
}

/// A series to which tasks are added.
pub struct Open<T> {
    pub neutral: Arc<Cell<LazyCopy>>,
    pub copy: Arc<Cell<LazyCopy>>,
    /// Counted from 0 in the order in which the scope's series were opened.
    pub number: u64,
    /// How many tasks change the copy.
    pub n_tasks: usize,
    /// Merges the copy into the datum.
    pub merge: fn(&mut T, &mut LazyCopy),
}

impl<T> Series<T> {
    pub fn new() -> Self {
        Series {
            is_open: AtomicBool::new(false),
            open: SpinLock::new(None),
        }
    }

    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}
