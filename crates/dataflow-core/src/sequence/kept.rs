//! One access of a task, kept until it runs: by reading, writing or commuting.
//!
//! # Law
//! A task that accesses a datum otherwise than by [reducing](super::reduce()) ends the series of reductions
//! that is open: the task that merges the last copy is inserted before.

use super::cell::{Cell, Holds, LazyCopy, Open, Series, Shown};
use super::held::{Ahead, Close, Held, Lend, sealed::Sealed, show_after};
use super::law::Mode;
use crate::foreign::in_turn;
use crate::sync::{Ordering, lock};
use atomic_refcell::{AtomicRef, AtomicRefMut};
use std::fmt;
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::sync::Arc;

/// The body gets `&T`.
///
/// # Examples
/// See [`read`](super::read).
#[derive(Clone, Copy, Debug)]
pub struct Read;
/// The body gets `&mut T`.
///
/// # Examples
/// See [`write`](super::write()).
#[derive(Clone, Copy, Debug)]
pub struct Write;
/// The body gets `&mut T`, before or after others of the same group.
///
/// # Examples
/// See [`commute`](super::commute).
#[derive(Clone, Copy, Debug)]
pub struct Commute;

/// A mode as a type.
#[doc(hidden)]
pub trait ModeType: Sealed + Send {}

/// One access, kept, to `T` in what holds it.
#[doc(hidden)]
pub struct Kept<T, M, S = T> {
    pub(super) cell: Arc<Cell<S>>,
    /// How many accesses must have finished before, once this one is inserted.
    required: u64,
    mode: PhantomData<M>,
    shows: PhantomData<fn() -> T>,
}

impl<T, M, S> Kept<T, M, S> {
    #[inline(always)]
    pub(super) fn new(cell: &Arc<Cell<S>>) -> Self {
        Kept {
            cell: Arc::clone(cell),
            required: 0,
            mode: PhantomData,
            shows: PhantomData,
        }
    }
}

impl<T, M, S> Sealed for Kept<T, M, S> {}

impl<T, M, S> fmt::Debug for Kept<T, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

/// How a datum is lent in a mode.
macro_rules! lent {
    ($mode:ident, $guard:ident, $take:ident, $show:path, $($reference:tt)+) => {
        impl Sealed for $mode {}
        impl ModeType for $mode {}

        impl<'a, T: Send + Sync, S: Holds<T>> Lend<'a> for Kept<T, $mode, S> {
            type Arg = &'a $($reference)+;
        }

        impl<T: Send + Sync, S: Holds<T>> Held for Kept<T, $mode, S> {
            type Guards<'g> = $guard<'g, S> where Self: 'g;
            const COMMUTES: bool = matches!(Mode::$mode, Mode::Commute);
            const N_LOUD: usize = needs_drop::<S>() as usize;

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
            where
                Self: 'e,
            {
                Series::close(&self.cell, ahead);
            }

            #[inline(always)]
            fn insert(&mut self) {
                self.required = self.cell.versions.insert(Mode::$mode);
            }

            #[inline(always)]
            fn each_after(
                &self,
                skip: &mut u32,
                show: &mut impl FnMut(Shown<'_>) -> bool,
            ) -> bool {
                show_after(skip, self.cell.shown(Mode::$mode, self.required), show)
            }

            #[inline]
            fn guards(&self) -> $guard<'_, S> {
                match self.cell.datum.$take() {
                    Ok(guard) => guard,
                    Err(_) => unreachable!("the versions let in two who exclude each other"),
                }
            }

            #[inline(always)]
            fn let_go(self) {
                drop(self);
            }

            #[inline]
            fn lend<'a>(guard: &'a mut $guard<'_, S>) -> &'a $($reference)+ {
                $show(guard)
            }
        }

        impl<'a, T: Send + Sync, S: Holds<T>> Lend<'a> for Vec<Kept<T, $mode, S>> {
            type Arg = Vec<&'a $($reference)+>;
        }

        impl<T: Send + Sync, S: Holds<T>> Held for Vec<Kept<T, $mode, S>> {
            type Guards<'g> = Vec<$guard<'g, S>> where Self: 'g;
            const COMMUTES: bool = Kept::<T, $mode, S>::COMMUTES;
            const N_LOUD: usize = 2 * Kept::<T, $mode, S>::N_LOUD;

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
            where
                Self: 'e,
            {
                self.iter_mut().for_each(|kept| kept.prepare(ahead));
            }

            fn insert(&mut self) {
                self.iter_mut().for_each(Kept::insert);
            }

            #[inline(always)]
            fn each_after(
                &self,
                skip: &mut u32,
                show: &mut impl FnMut(Shown<'_>) -> bool,
            ) -> bool {
                let left_out = self.len().min(*skip as usize);
                *skip -= left_out as u32;
                let mut shown = self[left_out..].iter();
                shown.all(|kept| show(kept.cell.shown(Mode::$mode, kept.required)))
            }

            fn guards(&self) -> Vec<$guard<'_, S>> {
                let mut guards = Vec::with_capacity(self.len());
                for kept in self {
                    guards.push(kept.guards());
                }
                guards
            }

            fn let_go(self) {
                in_turn(self, drop);
            }

            fn lend<'a>(guards: &'a mut Vec<$guard<'_, S>>) -> Vec<&'a $($reference)+> {
                let mut lent = Vec::with_capacity(guards.len());
                for guard in guards {
                    lent.push($show(guard));
                }
                lent
            }
        }
    };
}

/// What is held, for reading.
#[inline(always)]
fn shown<'a, T, S: Holds<T>>(guard: &'a AtomicRef<'_, S>) -> &'a T {
    S::borrow(guard)
}

/// What is held, for changing.
#[inline(always)]
fn shown_mut<'a, T, S: Holds<T>>(guard: &'a mut AtomicRefMut<'_, S>) -> &'a mut T {
    S::borrow_mut(guard)
}

lent!(Read, AtomicRef, try_borrow, shown, T);
lent!(Write, AtomicRefMut, try_borrow_mut, shown_mut, mut T);
lent!(Commute, AtomicRefMut, try_borrow_mut, shown_mut, mut T);

impl<T: Send + Sync> Series<T> {
    /// Inserts the last merge of the series, if one is open.
    #[inline(always)]
    pub fn close<'e>(of: &Arc<Cell<T>>, ahead: &mut Ahead<'_, 'e>)
    where
        T: 'e,
    {
        if of.series.is_open() {
            Self::close_open(of, ahead);
        }
    }

    #[cold]
    fn close_open<'e>(of: &Arc<Cell<T>>, ahead: &mut Ahead<'_, 'e>)
    where
        T: 'e,
    {
        of.series.is_open.store(false, Ordering::Relaxed);
        if let Some(open) = lock(&of.series.open).take() {
            open.insert_merge(of, ahead);
            ahead.0.closed(open.number);
        }
    }
}

impl<T: Send + Sync> Open<T> {
    /// Inserts the task that merges the copy.
    pub fn insert_merge<'e>(&self, into: &Arc<Cell<T>>, ahead: &mut Ahead<'_, 'e>)
    where
        T: 'e,
    {
        let merge = self.merge;
        let held = (
            Kept::<T, Write>::new(into),
            Kept::<LazyCopy, Write>::new(&self.copy),
        );
        ahead.insert("merge", held, move |(datum, copy)| merge(datum, copy));
    }
}

impl<'e, T: Send + Sync + 'e> Close<'e> for Arc<Cell<T>> {
    fn close(&self, ahead: &mut Ahead<'_, 'e>) {
        Series::close(self, ahead);
    }
}
