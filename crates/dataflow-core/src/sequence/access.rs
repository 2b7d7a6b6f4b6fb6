//! Accesses: what a task declares to do with which data, and what its body gets for that.

use super::law::Mode;
use super::reduce::Series;
use super::scope::Ahead;
use super::versions::Versions;
use crate::data::Datum;
use std::marker::PhantomData;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A datum as the tasks of a scope know it.
///
/// `'c` belongs to one scope: a handle can neither leave it nor be used in another.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::sequence::{Handle, Scope, commute, read, scope, write};
///
/// /// Adds up a slice by tasks, into a datum of the scope that calls it.
/// fn add_up<'c, 'env>(s: &Scope<'c, 'env>, of: &'env [u64]) -> Handle<'c, u64> {
///     let sum = s.handle(0);
///     for &number in of {
///         s.task(commute(&sum), move |sum| *sum += number);
///     }
///     sum
/// }
///
/// let numbers = [1, 2, 3, 4];
/// let mut twice = 0;
/// scope(&Inline, |s| {
///     let (sum, twice) = (add_up(s, &numbers), s.handle(&mut twice));
///     s.task((read(&sum), write(&twice)), |(sum, twice)| **twice = 2 * sum);
/// })?;
/// assert_eq!(twice, 20);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct Handle<'c, T> {
    pub(super) cell: Arc<Cell<T>>,
    scope: PhantomData<fn(&'c ()) -> &'c ()>,
}

/// A datum and its versions. The lock never waits: the versions decide which task may go on, and the
/// lock only proves that they are right.
pub(super) struct Cell<T> {
    pub versions: Versions,
    pub datum: RwLock<T>,
    /// The copies that tasks which reduce are building up.
    pub series: Series<T>,
    lies: Option<Lies<T>>,
}

/// Tells on which NUMA node a datum lies, if anybody knows, and how many bytes it has.
type Lies<T> = fn(&T) -> Option<(usize, u64)>;

fn lies<D: Datum>(datum: &D) -> Option<(usize, u64)> {
    Some((datum.numa_node()?, datum.bytes() as u64))
}

/// A datum of a scope, whatever its type, as executors are told of it.
pub(super) trait Lying {
    /// On which NUMA node it lies, and how many bytes of it, as far as that is known.
    fn lies(&self) -> Option<(usize, u64)>;
}

impl<T> Cell<T> {
    /// An access to it.
    #[inline(always)]
    pub fn shown(&self, mode: Mode) -> Shown<'_> {
        let (versions, lying) = (&self.versions, self as &dyn Lying);
        Shown {
            versions,
            mode,
            lying,
        }
    }
}

impl<T> Lying for Cell<T> {
    fn lies(&self) -> Option<(usize, u64)> {
        let lies = self.lies?;
        let datum = self.datum.try_read().ok()?;
        lies(&datum)
    }
}

impl<T> Cell<T> {
    pub fn new(datum: T) -> Arc<Self> {
        Self::lying(datum, None)
    }

    fn lying(datum: T, lies: Option<Lies<T>>) -> Arc<Self> {
        Arc::new(Cell {
            versions: Versions::new(),
            datum: RwLock::new(datum),
            series: Series::new(),
            lies,
        })
    }
}

impl<'c, T> Handle<'c, T> {
    pub(super) fn new(datum: T) -> Self {
        Handle::to(Cell::new(datum))
    }

    fn to(cell: Arc<Cell<T>>) -> Self {
        let scope = PhantomData;
        Handle { cell, scope }
    }
}

impl<D: Datum> Handle<'_, D> {
    /// Of a datum that knows where it lies.
    pub(super) fn of_datum(datum: D) -> Self {
        Handle::to(Cell::lying(datum, Some(lies)))
    }
}

impl<'env, D: Datum> Handle<'_, &'env mut D> {
    /// The same, borrowed.
    pub(super) fn of_borrowed(datum: &'env mut D) -> Self {
        Handle::to(Cell::lying(datum, Some(|datum| lies(*datum))))
    }
}

impl<T> std::fmt::Debug for Handle<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// What a task does with one datum; made by [`read`], [`write`](write()), [`commute`] and
/// [`reduce`](super::reduce()).
pub struct Access<'h, H, M> {
    pub(super) handle: &'h H,
    mode: PhantomData<M>,
}

impl<'h, H, M> Access<'h, H, M> {
    pub(super) fn to(handle: &'h H) -> Self {
        let mode = PhantomData;
        Access { handle, mode }
    }
}

/// What can be accessed: a [`Handle`] of a scope, or a [`Home`](super::record::Home) of a recorded
/// program.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that tasks access",
    label = "no handle",
    note = "`scope.handle(datum)` makes a handle of a datum, `scope.handles(data)` one of each of many"
)]
pub trait Accessible: sealed::Sealed {}

impl<T> sealed::Sealed for Handle<'_, T> {}
impl<T> Accessible for Handle<'_, T> {}

/// The body gets `&T`.
#[derive(Clone, Copy, Debug)]
pub struct Read;
/// The body gets `&mut T`.
#[derive(Clone, Copy, Debug)]
pub struct Write;
/// The body gets `&mut T`, before or after others of the same group.
#[derive(Clone, Copy, Debug)]
pub struct Commute;

/// The task reads the datum as it is after all tasks inserted before it that change the datum.
pub fn read<H: Accessible>(handle: &H) -> Access<'_, H, Read> {
    Access::to(handle)
}

/// The task changes the datum: after all tasks inserted before it that access the datum, and before all
/// that are inserted later.
pub fn write<H: Accessible>(handle: &H) -> Access<'_, H, Write> {
    Access::to(handle)
}

/// The same as [`write()`](write()); for the reader of a program it says that the old value is used.
pub fn update<H: Accessible>(handle: &H) -> Access<'_, H, Write> {
    write(handle)
}

/// The task changes the datum; commuting accesses with no other access between them are made in any
/// order, one at a time. The result may depend on the schedule: by rounding, for instance.
pub fn commute<H: Accessible>(handle: &H) -> Access<'_, H, Commute> {
    Access::to(handle)
}

/// Accesses of one task: one, a tuple of up to eight sets, or a `Vec` of accesses of one kind.
///
/// Its body gets references of the same shape: `&T`, `(&T, &mut T)`, `Vec<&T>`. The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a task does with its data",
    label = "no access, no tuple of at most eight, no `Vec` of accesses of one kind",
    note = "of a handle `h` say `read(&h)`, `write(&h)`, `commute(&h)` or `reduce(&h)`",
    note = "more than eight accesses go into tuples of tuples, `((a, b), (c, d))`, or into a `Vec`"
)]
pub trait AccessSet<'c>: sealed::Sealed {
    /// The same, kept until the task runs.
    #[doc(hidden)]
    type Held: Held;

    /// Keeps the data of the accesses.
    #[doc(hidden)]
    fn hold(self) -> Self::Held;
}

/// What a body gets from a set of accesses.
#[doc(hidden)]
pub trait Lend<'a, B = &'a Self> {
    /// References, in the shape of the set.
    type Arg: Send;
}

/// A set of accesses while its task waits and runs.
#[doc(hidden)]
pub trait Held: Send + for<'a> Lend<'a> + sealed::Sealed {
    /// What keeps others out while the body runs.
    type Guards<'g>
    where
        Self: 'g;

    /// Inserts what must come before the task.
    fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, '_, 'e>)
    where
        Self: 'e;

    /// Shows each access.
    fn each(&self, show: &mut dyn FnMut(Shown<'_>));

    /// Where each datum lies that was named, even if others stand for it.
    fn each_named(&self, show: &mut dyn FnMut(*const ())) {
        self.each(&mut |shown| show(shown.versions.place()));
    }

    /// Takes the data.
    fn guards(&self) -> Self::Guards<'_>;

    /// What the body gets.
    fn lend<'a>(guards: &'a mut Self::Guards<'_>) -> <Self as Lend<'a>>::Arg;
}

/// One access of a set.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    pub(super) versions: &'a Versions,
    pub(super) mode: Mode,
    pub(super) lying: &'a dyn Lying,
}

pub(super) mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A mode as a type.
#[doc(hidden)]
pub trait Kind: Sealed + Send {}

/// One access, kept.
#[doc(hidden)]
pub struct Kept<T, M> {
    cell: Arc<Cell<T>>,
    mode: PhantomData<M>,
}

impl<T, M> Kept<T, M> {
    pub(super) fn new(cell: &Arc<Cell<T>>) -> Self {
        Kept {
            cell: Arc::clone(cell),
            mode: PhantomData,
        }
    }
}

impl<H, M> Sealed for Access<'_, H, M> {}
impl<T, M> Sealed for Kept<T, M> {}
impl<S: Sealed> Sealed for Vec<S> {}

impl<'c, T: Send + Sync, M: Kind> AccessSet<'c> for Access<'_, Handle<'c, T>, M>
where
    Kept<T, M>: Held,
{
    type Held = Kept<T, M>;

    fn hold(self) -> Kept<T, M> {
        Kept::new(&self.handle.cell)
    }
}

impl<'c, T: Send + Sync, M: Kind> AccessSet<'c> for Vec<Access<'_, Handle<'c, T>, M>>
where
    Kept<T, M>: Held,
    Vec<Kept<T, M>>: Held,
{
    type Held = Vec<Kept<T, M>>;

    fn hold(self) -> Vec<Kept<T, M>> {
        self.into_iter().map(AccessSet::hold).collect()
    }
}

/// How a datum is lent in a mode.
macro_rules! lent {
    ($mode:ident, $guard:ident, $take:ident, $($reference:tt)+) => {
        impl Sealed for $mode {}
        impl Kind for $mode {}

        impl<'a, T: Send + Sync> Lend<'a> for Kept<T, $mode> {
            type Arg = &'a $($reference)+;
        }

        impl<T: Send + Sync> Held for Kept<T, $mode> {
            type Guards<'g> = $guard<'g, T> where Self: 'g;

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, '_, 'e>)
            where
                Self: 'e,
            {
                Series::close(&self.cell, ahead);
            }

            fn each(&self, show: &mut dyn FnMut(Shown<'_>)) {
                show(self.cell.shown(Mode::$mode));
            }

            #[inline]
            fn guards(&self) -> $guard<'_, T> {
                match self.cell.datum.$take() {
                    Ok(guard) => guard,
                    Err(_) => unreachable!("the versions let in two who exclude each other"),
                }
            }

            fn lend<'a>(guard: &'a mut $guard<'_, T>) -> &'a $($reference)+ {
                guard
            }
        }

        impl<'a, T: Send + Sync> Lend<'a> for Vec<Kept<T, $mode>> {
            type Arg = Vec<&'a $($reference)+>;
        }

        impl<T: Send + Sync> Held for Vec<Kept<T, $mode>> {
            type Guards<'g> = Vec<$guard<'g, T>> where Self: 'g;

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, '_, 'e>)
            where
                Self: 'e,
            {
                self.iter_mut().for_each(|kept| kept.prepare(ahead));
            }

            fn each(&self, show: &mut dyn FnMut(Shown<'_>)) {
                self.iter().for_each(|kept| kept.each(show));
            }

            fn guards(&self) -> Vec<$guard<'_, T>> {
                let mut guards = Vec::with_capacity(self.len());
                for kept in self {
                    guards.push(kept.guards());
                }
                guards
            }

            fn lend<'a>(guards: &'a mut Vec<$guard<'_, T>>) -> Vec<&'a $($reference)+> {
                let mut lent = Vec::with_capacity(guards.len());
                for guard in guards {
                    lent.push(Kept::<T, $mode>::lend(guard));
                }
                lent
            }
        }
    };
}
lent!(Read, RwLockReadGuard, try_read, T);
lent!(Write, RwLockWriteGuard, try_write, mut T);
lent!(Commute, RwLockWriteGuard, try_write, mut T);

macro_rules! tuples {
    ($(($($set:ident $at:tt),*))+) => {$(
        impl<$($set: Sealed),*> Sealed for ($($set,)*) {}

        impl<'c, $($set: AccessSet<'c>),*> AccessSet<'c> for ($($set,)*) {
            type Held = ($($set::Held,)*);

            fn hold(self) -> Self::Held {
                ($(self.$at.hold(),)*)
            }
        }

        impl<'a, $($set: Lend<'a>),*> Lend<'a> for ($($set,)*) {
            type Arg = ($($set::Arg,)*);
        }

        impl<$($set: Held),*> Held for ($($set,)*) {
            type Guards<'g> = ($($set::Guards<'g>,)*) where Self: 'g;

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, '_, 'e>)
            where
                Self: 'e,
            {
                $(self.$at.prepare(ahead);)*
            }

            fn each(&self, show: &mut dyn FnMut(Shown<'_>)) {
                $(self.$at.each(show);)*
            }

            fn each_named(&self, show: &mut dyn FnMut(*const ())) {
                $(self.$at.each_named(show);)*
            }

            #[inline]
            fn guards(&self) -> Self::Guards<'_> {
                ($(self.$at.guards(),)*)
            }

            fn lend<'a>(guards: &'a mut Self::Guards<'_>) -> <Self as Lend<'a>>::Arg {
                ($($set::lend(&mut guards.$at),)*)
            }
        }
    )+};
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

/// A task that accesses nothing.
impl Sealed for () {}

impl AccessSet<'_> for () {
    type Held = ();

    fn hold(self) {}
}

impl<'a> Lend<'a> for () {
    type Arg = ();
}

impl Held for () {
    type Guards<'g> = ();

    fn prepare<'e>(&mut self, _: &mut Ahead<'_, '_, 'e>)
    where
        Self: 'e,
    {
    }

    fn each(&self, _: &mut dyn FnMut(Shown<'_>)) {}

    fn guards(&self) {}

    fn lend((): &mut ()) {}
}
