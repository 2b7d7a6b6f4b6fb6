//! A datum of a scope, with its versions and the reductions that build copies of it.

use super::law::Mode;
use super::lent::{HasCell, LeftCell, SharedCell, SharedLoan, SharedOwner};
use super::mode::ModeType;
use super::versions::Versions;
use crate::data::Datum;
use crate::sync::{AtomicBool, Ordering, SpinLock};
use std::any::Any;
use std::borrow::BorrowMut;
use std::fmt;

/// A datum and its versions, which decide which task may go on.
pub type Cell<T> = SharedCell<T, Beside<T>>;
/// What keeps a cell for the program.
pub type CellOwner<T> = SharedOwner<T, Beside<T>>;
/// What keeps a cell for an access.
pub type CellLoan<T, M> = SharedLoan<T, Beside<T>, M>;
/// What the last of them leaves.
pub type CellLeft<T> = LeftCell<T, Beside<T>>;

/// What goes with a datum.
#[doc(hidden)]
pub struct Beside<T> {
    /// The copies that tasks which reduce are building up.
    pub(super) series: Series<T>,
    lies: Option<Lies<T>>,
}

impl<T> fmt::Debug for Beside<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beside")
    }
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

/// An access to a datum of a scope, whatever its type, as executors are told of it.
pub trait Lying {
    /// On which NUMA node the datum lies, and how many bytes of it, as far as that is known: for an access whose
    /// turn it is.
    fn lies(&self) -> Option<(usize, u64)>;
}

impl<T> Cell<T> {
    /// The first owner of a new cell.
    pub fn owned(datum: T) -> CellOwner<T> {
        Self::lying(datum, None)
    }

    /// The same, of a datum of which it may be told where it lies.
    pub fn lying(datum: T, lies: Option<Lies<T>>) -> CellOwner<T> {
        let series = Series::new();
        SharedOwner::new(datum, Beside { series, lies })
    }
}

impl<T: Send + Sync, M: ModeType> CellLoan<T, M> {
    /// The access as it waits.
    #[inline(always)]
    pub fn shown(&self) -> Shown<'_> {
        Shown {
            versions: &self.cell().versions,
            mode: M::MODE,
            required: self.required(),
            lying: self,
        }
    }
}

impl<T: Send + Sync, M: ModeType> Lying for CellLoan<T, M> {
    fn lies(&self) -> Option<(usize, u64)> {
        let lies = self.cell().beside.lies?;
        self.glance(lies).flatten()
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
    pub neutral: CellOwner<LazyCopy>,
    pub copy: CellOwner<LazyCopy>,
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
