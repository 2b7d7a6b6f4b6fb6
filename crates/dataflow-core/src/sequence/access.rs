//! Accesses: what a task declares to do with which data, and what its body gets for that.

use super::cell::{Cell, CellOwner, Shown, lies};
use super::held::{Ahead, Held, Lend};
use super::kept::Kept;
use super::lent::InsertingThread;
use super::mode::{Commute, ModeType, Read, Write, sealed};
use super::versions::Woken;
use crate::data::Datum;
use crate::foreign::Later;
use sealed::Sealed;
use std::borrow::BorrowMut;
use std::marker::PhantomData;

/// A datum as the tasks of a scope know it.
///
/// - `'c` belongs to one scope: a handle can neither leave it nor be used in another
/// - `T`: what bodies get references to
/// - `S`: what the scope keeps for it, `T` itself or a borrowed `&mut T`
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
///     let (sum, twice) = (add_up(s, &numbers), s.lend(&mut twice));
///     s.task((read(&sum), write(&twice)), |(sum, twice)| *twice = 2 * sum);
/// })?;
/// assert_eq!(twice, 20);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct Handle<'c, T, S = T> {
    pub(super) cell: CellOwner<S>,
    scope: PhantomData<fn(&'c ()) -> &'c ()>,
    shows: PhantomData<fn() -> T>,
}

impl<T, S: BorrowMut<T>> Handle<'_, T, S> {
    pub(super) fn new(datum: S) -> Self {
        Handle::to(Cell::owned(datum))
    }

    fn to(cell: CellOwner<S>) -> Self {
        let (scope, shows) = (PhantomData, PhantomData);
        Handle { cell, scope, shows }
    }
}

impl<D: Datum> Handle<'_, D> {
    /// Of a datum that knows where it lies.
    pub(super) fn of_datum(datum: D) -> Self {
        Handle::to(Cell::lying(datum, Some(lies)))
    }
}

impl<'env, D: Datum> Handle<'_, D, &'env mut D> {
    /// The same, borrowed.
    pub(super) fn of_borrowed(datum: &'env mut D) -> Self {
        Handle::to(Cell::lying(datum, Some(|datum| lies(*datum))))
    }
}

impl<T, S> std::fmt::Debug for Handle<'_, T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// What a task does with one datum; made by [`read`], [`write`](write()), [`commute`] and
/// [`reduce`](super::reduce()).
///
/// # Examples
/// See the [module's](super) example, and [`Handle`](Handle#examples) for accesses that commute.
pub struct Access<'h, H, M> {
    pub(super) handle: &'h H,
    mode: PhantomData<M>,
}

impl<H: std::fmt::Debug, M> std::fmt::Debug for Access<'_, H, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Access").field(self.handle).finish()
    }
}

impl<'h, H, M> Access<'h, H, M> {
    pub(super) fn to(handle: &'h H) -> Self {
        let mode = PhantomData;
        Access { handle, mode }
    }
}

/// What can be accessed: a [`Handle`] of a scope, or a [`Home`](super::record::Home) of a recorded
/// program.
///
/// # Examples
/// See the [module's](super) examples.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that tasks access",
    label = "no handle",
    note = "in a scope `s.lend(&mut datum)` makes a handle of a datum that the scope borrows, `s.handle(datum)` of one that it owns; `s.lend_all(&mut data)` and `s.handles(data)` make one of each of many",
    note = "in a recorded program `r.home(&store, slot, owner)` names a datum of a store"
)]
pub trait Accessible: sealed::Sealed {}

impl<T, S> sealed::Sealed for Handle<'_, T, S> {}
impl<T, S> Accessible for Handle<'_, T, S> {}

/// The task reads the datum as it is after all tasks inserted before it that change the datum.
pub fn read<H: Accessible>(handle: &H) -> Access<'_, H, Read> {
    Access::to(handle)
}

/// The task changes the datum: after all tasks inserted before it that access the datum, and before all
/// that are inserted later and access it.
pub fn write<H: Accessible>(handle: &H) -> Access<'_, H, Write> {
    Access::to(handle)
}

/// The same as [`write()`](write()); for the reader of a program it says that the old value is used.
pub fn update<H: Accessible>(handle: &H) -> Access<'_, H, Write> {
    write(handle)
}

/// The task changes the datum; commuting accesses with no other access between them are made in any
/// order, one at a time: of those that wait for their turn the most urgent is next, then the one that was
/// inserted first; who has not waited may come between. A task has its turn from when it is queued, not only
/// while it runs. The result may depend on the schedule: by rounding, for instance.
pub fn commute<H: Accessible>(handle: &H) -> Access<'_, H, Commute> {
    Access::to(handle)
}

/// Accesses of one task: one, a tuple of up to eight sets, or a `Vec` of accesses of one kind (but for
/// [`reduce`](super::reduce()): a task adds to data that it names one by one). Accesses of different kinds,
/// or of data of different types, go into a tuple: of arrays and vectors of them the compiler says no more
/// than that the types of their elements differ.
///
/// Its body gets references of the same shape: `&T`, `(&T, &mut T)`, `Vec<&T>`. The trait is sealed.
///
/// # Examples
/// See the [module's](super) examples.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a task does with its data",
    label = "no access, no tuple of at most eight, no `Vec` of `read`, of `write` or of `commute`",
    note = "of a handle `h` say `read(&h)`, `write(&h)`, `commute(&h)` or `reduce(&h)`",
    note = "accesses of different kinds, or of data of different types, go into a tuple, `(a, b)`",
    note = "more than eight accesses go into tuples of tuples, `((a, b), (c, d))`, or into a `Vec`; not of `reduce`"
)]
pub trait AccessSet<'c>: sealed::Sealed {
    /// The same, kept until the task runs.
    #[doc(hidden)]
    type Held: Held;

    /// Keeps the data of the accesses.
    #[doc(hidden)]
    fn hold(self, by: &InsertingThread) -> Self::Held;
}

impl<H, M> Sealed for Access<'_, H, M> {}
impl<S: Sealed> Sealed for Vec<S> {}

impl<'c, T, S, M: ModeType> AccessSet<'c> for Access<'_, Handle<'c, T, S>, M>
where
    Kept<T, M, S>: Held,
{
    type Held = Kept<T, M, S>;

    #[inline(always)]
    fn hold(self, by: &InsertingThread) -> Kept<T, M, S> {
        Kept::new(&self.handle.cell, by)
    }
}

impl<'c, T, S, M: ModeType> AccessSet<'c> for Vec<Access<'_, Handle<'c, T, S>, M>>
where
    Kept<T, M, S>: Held,
    Vec<Kept<T, M, S>>: Held,
{
    type Held = Vec<Kept<T, M, S>>;

    fn hold(self, by: &InsertingThread) -> Vec<Kept<T, M, S>> {
        self.into_iter().map(|access| access.hold(by)).collect()
    }
}

macro_rules! tuples {
    ($(($($set:ident $at:tt),*))+) => {$(
        impl<$($set: Sealed),*> Sealed for ($($set,)*) {}

        impl<'c, $($set: AccessSet<'c>),*> AccessSet<'c> for ($($set,)*) {
            type Held = ($($set::Held,)*);

            #[inline(always)]
            fn hold(self, by: &InsertingThread) -> Self::Held {
                ($(self.$at.hold(by),)*)
            }
        }

        impl<'a, $($set: Lend<'a>),*> Lend<'a> for ($($set,)*) {
            type Arg = ($($set::Arg,)*);
        }

        impl<$($set: Held),*> Held for ($($set,)*) {
            const COMMUTES: bool = $($set::COMMUTES)||*;
            const N_LOUD: usize = 0 $(+ $set::N_LOUD)*;

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
            where
                Self: 'e,
            {
                $(self.$at.prepare(ahead);)*
            }

            #[inline(always)]
            fn insert(&mut self, by: &InsertingThread) {
                $(self.$at.insert(by);)*
            }

            #[inline(always)]
            fn each_after(
                &self,
                skip: &mut u32,
                show: &mut impl FnMut(Shown<'_>) -> bool,
            ) -> bool {
                $(self.$at.each_after(skip, show))&&*
            }

            #[inline(always)]
            fn each_named(&self, show: &mut impl FnMut(*const ())) {
                $(self.$at.each_named(show);)*
            }

            type Left = ($($set::Left,)*);

            #[inline(always)]
            fn finish(self, failed: bool, woken: &mut Woken) -> Self::Left {
                ($(self.$at.finish(failed, woken),)*)
            }

            #[inline(always)]
            #[allow(non_snake_case)]
            fn drop_left(left: Self::Left) {
                $(let $set = Later::new(|| $set::drop_left(left.$at));)*
                $($set.now();)*
            }

            #[inline(always)]
            #[allow(non_snake_case)]
            fn let_go(self) {
                $(let $set = Later::new(|| self.$at.let_go());)*
                $($set.now();)*
            }

            fn lend(&mut self) -> <Self as Lend<'_>>::Arg {
                ($(self.$at.lend(),)*)
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

    fn hold(self, _: &InsertingThread) {}
}

impl<'a> Lend<'a> for () {
    type Arg = ();
}

impl Held for () {
    const COMMUTES: bool = false;
    const N_LOUD: usize = 0;

    fn prepare<'e>(&mut self, _: &mut Ahead<'_, 'e>)
    where
        Self: 'e,
    {
    }

    fn insert(&mut self, _: &InsertingThread) {}

    #[inline(always)]
    fn each_after(&self, _: &mut u32, _: &mut impl FnMut(Shown<'_>) -> bool) -> bool {
        true
    }

    type Left = ();

    fn finish(self, _: bool, _: &mut Woken) {}

    fn drop_left((): ()) {}

    fn let_go(self) {}

    fn lend(&mut self) {}
}
