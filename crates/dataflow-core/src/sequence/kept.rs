//! One access of a task, kept until it runs: by reading, writing or commuting.
//!
//! # Law
//! A task that accesses a datum otherwise than by [reducing](super::reduce()) ends the series of reductions
//! that is open: the task that merges the last copy is inserted before.

use super::cell::{Beside, CellLeft, CellLoan, CellOwner, Holds, LazyCopy, Open, Series, Shown};
use super::held::{Ahead, Close, Held, Lend, show_after};
use super::law::Mode;
use super::lent::{HasCell, InsertingThread};
use super::mode::{Commute, ModeType, Read, Write, sealed::Sealed};
use super::versions::Woken;
use crate::foreign::in_turn;
use crate::sync::{Ordering, lock};
use std::fmt;
use std::marker::PhantomData;
use std::mem::needs_drop;

/// One access, kept, to `T` in what holds it.
#[doc(hidden)]
pub struct Kept<T, M: ModeType, S = T> {
    lent: CellLoan<S, M>,
    shows: PhantomData<fn() -> T>,
}

impl<T, M: ModeType, S> Kept<T, M, S> {
    #[inline(always)]
    pub(super) fn new(of: &impl HasCell<S, Beside<S>>, by: &InsertingThread) -> Self {
        Kept {
            lent: of.lend(by),
            shows: PhantomData,
        }
    }
}

impl<T, M: ModeType, S> Sealed for Kept<T, M, S> {}

impl<T, M: ModeType, S> fmt::Debug for Kept<T, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

/// How a datum is lent in a mode.
macro_rules! lent {
    ($mode:ident, $show:path, $($reference:tt)+) => {
        impl<'a, T: Send + Sync, S: Holds<T>> Lend<'a> for Kept<T, $mode, S> {
            type Arg = &'a $($reference)+;
        }

        impl<T: Send + Sync, S: Holds<T>> Held for Kept<T, $mode, S> {
            const COMMUTES: bool = matches!(Mode::$mode, Mode::Commute);
            const N_LOUD: usize = needs_drop::<S>() as usize;

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
            where
                Self: 'e,
            {
                Series::close(&self.lent, ahead);
            }

            #[inline(always)]
            fn insert(&mut self, by: &InsertingThread) {
                self.lent.insert(by);
            }

            #[inline(always)]
            fn each_after(
                &self,
                skip: &mut u32,
                show: &mut impl FnMut(Shown<'_>) -> bool,
            ) -> bool {
                show_after(skip, self.lent.shown(), show)
            }

            type Left = CellLeft<S>;

            #[inline(always)]
            fn finish(self, failed: bool, woken: &mut Woken) -> Self::Left {
                let spoils = failed && !matches!(Mode::$mode, Mode::Read);
                self.lent.finish(spoils, woken)
            }

            #[inline(always)]
            fn drop_left(left: Self::Left) {
                drop(left);
            }

            #[inline(always)]
            fn let_go(self) {
                drop(self);
            }

            #[inline]
            fn lend(&mut self) -> &$($reference)+ {
                $show(self.lent.datum())
            }
        }

        impl<'a, T: Send + Sync, S: Holds<T>> Lend<'a> for Vec<Kept<T, $mode, S>> {
            type Arg = Vec<&'a $($reference)+>;
        }

        impl<T: Send + Sync, S: Holds<T>> Held for Vec<Kept<T, $mode, S>> {
            const COMMUTES: bool = Kept::<T, $mode, S>::COMMUTES;
            const N_LOUD: usize = 2 * Kept::<T, $mode, S>::N_LOUD;

            fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
            where
                Self: 'e,
            {
                self.iter_mut().for_each(|kept| kept.prepare(ahead));
            }

            fn insert(&mut self, by: &InsertingThread) {
                self.iter_mut().for_each(|kept| kept.insert(by));
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
                shown.all(|kept| show(kept.lent.shown()))
            }

            type Left = Vec<CellLeft<S>>;

            fn finish(self, failed: bool, woken: &mut Woken) -> Self::Left {
                let left = self.into_iter().map(|kept| kept.finish(failed, woken));
                left.filter(CellLeft::is_some).collect()
            }

            fn drop_left(left: Self::Left) {
                in_turn(left, drop);
            }

            fn let_go(self) {
                in_turn(self, drop);
            }

            fn lend(&mut self) -> Vec<&$($reference)+> {
                self.iter_mut().map(Kept::lend).collect()
            }
        }
    };
}

lent!(Read, S::borrow, T);
lent!(Write, S::borrow_mut, mut T);
lent!(Commute, S::borrow_mut, mut T);

impl<T: Send + Sync> Series<T> {
    /// Inserts the last merge of the series, if one is open.
    #[inline(always)]
    pub fn close<'e>(of: &impl HasCell<T, Beside<T>>, ahead: &mut Ahead<'_, 'e>)
    where
        T: 'e,
    {
        if of.cell().beside.series.is_open() {
            Self::close_open(of, ahead);
        }
    }

    #[cold]
    fn close_open<'e>(of: &impl HasCell<T, Beside<T>>, ahead: &mut Ahead<'_, 'e>)
    where
        T: 'e,
    {
        let series = &of.cell().beside.series;
        series.is_open.store(false, Ordering::Relaxed);
        if let Some(open) = lock(&series.open).take() {
            open.insert_merge(of, ahead);
            ahead.0.closed(open.number);
        }
    }
}

impl<T: Send + Sync> Open<T> {
    /// Inserts the task that merges the copy.
    pub fn insert_merge<'e>(&self, into: &impl HasCell<T, Beside<T>>, ahead: &mut Ahead<'_, 'e>)
    where
        T: 'e,
    {
        let merge = self.merge;
        let held = (
            Kept::<T, Write>::new(into, &ahead.by()),
            Kept::<LazyCopy, Write>::new(&self.copy, &ahead.by()),
        );
        ahead.insert("merge", held, move |(datum, copy)| merge(datum, copy));
    }
}

impl<'e, T: Send + Sync + 'e> Close<'e> for CellOwner<T> {
    fn close(&self, ahead: &mut Ahead<'_, 'e>) {
        Series::close(self, ahead);
    }
}
