//! One access of a task, kept until it runs: by reading, writing or commuting.
//!
//! # Law
//! Whoever accesses a datum otherwise than by [reducing](super::reduce()) ends the series of reductions
//! that is open: the task that merges the last copy is inserted before.

use super::cell::{Cell, Open, Series, Shown};
use super::held::{Ahead, Close, Held, Lend, sealed::Sealed};
use super::law::Mode;
use crate::sync::{Ordering, lock};
use std::marker::PhantomData;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};

/// The body gets `&T`.
#[derive(Clone, Copy, Debug)]
pub struct Read;
/// The body gets `&mut T`.
#[derive(Clone, Copy, Debug)]
pub struct Write;
/// The body gets `&mut T`, before or after others of the same group.
#[derive(Clone, Copy, Debug)]
pub struct Commute;

/// A mode as a type.
#[doc(hidden)]
pub trait Kind: Sealed + Send {}

/// One access, kept.
#[doc(hidden)]
pub struct Kept<T, M> {
    pub(super) cell: Arc<Cell<T>>,
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

impl<T, M> Sealed for Kept<T, M> {}

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

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
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

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
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
            Kept::<_, Write>::new(into),
            Kept::<_, Write>::new(&self.copy),
        );
        ahead.insert("merge", held, move |(datum, copy)| merge(datum, copy));
    }
}

impl<'e, T: Send + Sync + 'e> Close<'e> for Arc<Cell<T>> {
    fn is_open(&self) -> bool {
        self.series.is_open()
    }

    fn close(&self, ahead: &mut Ahead<'_, 'e>) {
        Series::close(self, ahead);
    }
}
