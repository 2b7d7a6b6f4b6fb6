//! Reductions: tasks add to copies of a datum, which are merged into it in the order of insertion.
//!
//! # Law
//! Accesses that reduce one datum, inserted with no other access between them, are a *series*.
//! Every [`GROUP`] of a series, counted from its first, share a copy: they change it one after the
//! other, in the order of insertion; the copies are merged in that order too. So bits do not depend
//! on the schedule, nor on the number of workers.
//!
//! A task that fails spoils its copy: the tasks after it in its group are skipped, its group is not
//! merged, and neither is any later one. So when the scope returns the error, the datum holds what
//! the groups before have added, under every schedule. If single records may be bad, a
//! [`Sifted`](super::Sifted) datum leaves those out and names them.
//!
//! Reductions are made of reads and writes: a copy is a datum of its own, and a task that the scope
//! inserts merges it when its group is full, or when the datum is accessed otherwise, or at the
//! scope's end. A series begins with a task that reads what a copy is to start from.

use super::access::{Access, AccessSet, Handle};
use super::cell::{Cell, CellLeft, CellOwner, LazyCopy, Open, Shown};
use super::held::{Ahead, Held, Lend};
use super::kept::Kept;
use super::lent::InsertingThread;
use super::mode::{Read, Write, sealed::Sealed};
use super::versions::Woken;
use crate::foreign::Later;
use crate::sync::{Ordering, lock};
use crate::words::counted;
use std::fmt;

/// Tasks that share a copy.
const GROUP: usize = 8;

/// A type that tasks may build up in copies which are merged: numbers by addition, or your own type.
///
/// What a scope inserts for that are tasks, too, which [`Report`](crate::Report) counts: `neutral`, at the
/// beginning, and a `merge` for up to eight tasks that add. An error calls each by the number of the
/// program's task before which it comes.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::sequence::{Reduce, reduce, scope};
///
/// /// The largest of some numbers.
/// struct Largest(u64);
/// impl Reduce for Largest {
///     type Copy = u64;
///     fn neutral(&self) -> u64 { 0 }
///     fn merge(&mut self, copy: u64) { self.0 = self.0.max(copy) }
/// }
///
/// let mut largest = Largest(3);
/// scope(&Inline, |s| {
///     let all = s.lend(&mut largest);
///     for number in [1, 4, 1, 5, 9, 2, 6] {
///         s.task(reduce(&all), move |copy| *copy = number.max(*copy));
///     }
/// })?;
/// assert_eq!(largest.0, 9);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Reduce`: tasks cannot add to copies of it",
    label = "nothing that is reduced",
    note = "numbers, and `Vec`s and arrays of them, are reduced by addition; a type of your own says how by `impl Reduce`"
)]
pub trait Reduce: Send + Sync {
    /// The type that a task changes instead of the datum.
    type Copy: Clone + Send + Sync + 'static;

    /// The copy with which every group begins: merging it changes nothing.
    fn neutral(&self) -> Self::Copy;

    /// Merges the copy of a group into the datum.
    fn merge(&mut self, copy: Self::Copy);
}

impl<T: Reduce> Reduce for &mut T {
    type Copy = T::Copy;

    fn neutral(&self) -> T::Copy {
        (**self).neutral()
    }

    fn merge(&mut self, copy: T::Copy) {
        (**self).merge(copy);
    }
}

macro_rules! sums {
    ($($number:ty: $neutral:literal),+) => {$(
        /// By addition.
        impl Reduce for $number {
            type Copy = $number;

            fn neutral(&self) -> $number {
                $neutral
            }

            fn merge(&mut self, copy: $number) {
                *self += copy;
            }
        }
    )+};
}
// 0.0 would change a datum that is −0.0.
sums!(u32: 0, u64: 0, usize: 0, i32: 0, i64: 0, f32: -0.0, f64: -0.0);

/// Element by element. Every copy has to keep the length of the vector that it is merged into: if a body
/// makes it longer or shorter, the merge panics, and the scope ends with
/// [`Kind::TaskPanicked`](crate::error::Kind::TaskPanicked).
impl<T: Reduce> Reduce for Vec<T> {
    type Copy = Vec<T::Copy>;

    fn neutral(&self) -> Self::Copy {
        self.iter().map(T::neutral).collect()
    }

    fn merge(&mut self, copy: Self::Copy) {
        let (own, of_copy) = (self.len(), copy.len());
        assert!(
            own == of_copy,
            "a copy of {} cannot be merged into a vector of {own}: it must keep its length",
            counted(of_copy, "element")
        );
        let pairs = self.iter_mut().zip(copy);
        pairs.for_each(|(own, copy)| own.merge(copy));
    }
}

/// Element by element.
impl<T: Reduce, const N: usize> Reduce for [T; N] {
    type Copy = [T::Copy; N];

    fn neutral(&self) -> Self::Copy {
        self.each_ref().map(T::neutral)
    }

    fn merge(&mut self, copy: Self::Copy) {
        let pairs = self.iter_mut().zip(copy);
        pairs.for_each(|(own, copy)| own.merge(copy));
    }
}

/// The body gets `&mut T::Copy`: a copy that it shares with at most seven neighbouring tasks.
///
/// # Examples
/// See [`reduce`](reduce()).
#[derive(Clone, Copy, Debug)]
pub struct Reduced;

/// The task adds to a copy of the datum, in parallel with others that reduce it; the result is the same
/// under every schedule. If one fails, the scope fails, and the sums of its group of eight and of all
/// later groups are lost; see [`Sifted`](super::Sifted) for records that may be bad.
///
/// A datum that is reduced is kept until another access to it is inserted, or the scope ends, even if its
/// handle is gone: who makes a datum for each record of a long stream ends its reduction by a
/// [`read`](super::read) or a [`write`](super::write()).
pub fn reduce<'h, 'c, T, S: Reduce>(
    handle: &'h Handle<'c, T, S>,
) -> Access<'h, Handle<'c, T, S>, Reduced> {
    Access::to(handle)
}

/// Merges a copy, if any task has begun one.
fn merge<T: Reduce>(datum: &mut T, copy: &mut LazyCopy) {
    let copy = copy.take().and_then(|copy| copy.downcast::<T::Copy>().ok());
    if let Some(copy) = copy {
        datum.merge(*copy);
    }
}

/// A place in a group of a series.
#[doc(hidden)]
pub struct ReductionPlace<T> {
    whole: CellOwner<T>,
    copy: Kept<LazyCopy, Write>,
    /// What the copy starts from: for the first of a group.
    neutral: Option<Kept<LazyCopy, Read>>,
}

impl<T> fmt::Debug for ReductionPlace<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReductionPlace")
    }
}

impl<T: Reduce> Open<T> {
    /// Begins a series.
    fn begin<'e>(of: &CellOwner<T>, ahead: &mut Ahead<'_, 'e>) -> Self
    where
        T: 'e,
    {
        of.beside.series.is_open.store(true, Ordering::Relaxed);
        let number = ahead.0.opened(Box::new(of.clone()));
        let neutral: CellOwner<LazyCopy> = Cell::owned(None);
        let held = (
            Kept::<T, Read>::new(of, &ahead.by()),
            Kept::<LazyCopy, Write>::new(&neutral, &ahead.by()),
        );
        ahead.insert("neutral", held, |(datum, neutral)| {
            *neutral = Some(Box::new(datum.neutral()));
        });
        Open {
            neutral,
            copy: Cell::owned(None),
            number,
            n_tasks: 0,
            merge: merge::<T>,
        }
    }

    /// The next place in a group that is not full.
    fn next<'e>(&mut self, of: &CellOwner<T>, ahead: &mut Ahead<'_, 'e>) -> ReductionPlace<T>
    where
        T: 'e,
    {
        if self.n_tasks == GROUP {
            self.insert_merge(of, ahead);
            self.copy = Cell::owned(None);
            self.n_tasks = 0;
        }
        self.n_tasks += 1;
        ReductionPlace {
            whole: of.clone(),
            copy: Kept::new(&self.copy, &ahead.by()),
            neutral: (self.n_tasks == 1).then(|| Kept::new(&self.neutral, &ahead.by())),
        }
    }
}

impl<T> Sealed for ReductionPlace<T> {}

impl<'c, T, S: Reduce> AccessSet<'c> for Access<'_, Handle<'c, T, S>, Reduced> {
    type Held = ReductionPlace<S>;

    fn hold(self, by: &InsertingThread) -> ReductionPlace<S> {
        ReductionPlace {
            whole: self.handle.cell.clone(),
            copy: Kept::new(&Cell::owned(None), by),
            neutral: None,
        }
    }
}

impl<'a, T: Reduce> Lend<'a> for ReductionPlace<T> {
    type Arg = &'a mut T::Copy;
}

impl<T: Reduce> Held for ReductionPlace<T> {
    const COMMUTES: bool = false;
    const N_LOUD: usize = 2;

    fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
    where
        Self: 'e,
    {
        let whole = self.whole.clone();
        let mut series = lock(&whole.beside.series.open);
        let open = series.get_or_insert_with(|| Open::begin(&whole, ahead));
        *self = open.next(&whole, ahead);
    }

    fn insert(&mut self, by: &InsertingThread) {
        self.copy.insert(by);
        let neutral = self.neutral.iter_mut();
        neutral.for_each(|neutral| neutral.insert(by));
    }

    #[inline(always)]
    fn each_after(&self, skip: &mut u32, show: &mut impl FnMut(Shown<'_>) -> bool) -> bool {
        let neutral = self.neutral.as_ref();
        self.copy.each_after(skip, show)
            && neutral.is_none_or(|neutral| neutral.each_after(skip, show))
    }

    #[inline(always)]
    fn each_named(&self, show: &mut impl FnMut(*const ())) {
        show(self.whole.versions.place());
    }

    type Left = (CellLeft<T>, CellLeft<LazyCopy>, Option<CellLeft<LazyCopy>>);

    fn finish(self, failed: bool, woken: &mut Woken) -> Self::Left {
        let ReductionPlace {
            whole,
            copy,
            neutral,
        } = self;
        let copy = copy.finish(failed, woken);
        let neutral = neutral.map(|neutral| neutral.finish(failed, woken));
        (whole.give_back(), copy, neutral)
    }

    fn drop_left((whole, copy, neutral): Self::Left) {
        let whole = Later::new(|| drop(whole));
        let neutral = Later::new(|| drop(neutral));
        drop(copy);
        neutral.now();
        whole.now();
    }

    fn let_go(self) {
        let ReductionPlace {
            whole,
            copy,
            neutral,
        } = self;
        let whole = Later::new(|| drop(whole));
        let neutral = Later::new(|| drop(neutral));
        drop(copy);
        neutral.now();
        whole.now();
    }

    fn lend(&mut self) -> &mut T::Copy {
        let slot = self.copy.lend();
        if let Some(Some(neutral)) = self.neutral.as_mut().map(Kept::lend)
            && let Some(neutral) = neutral.downcast_ref::<T::Copy>()
        {
            *slot = Some(Box::new(neutral.clone()));
        }
        match slot.as_mut().and_then(|copy| copy.downcast_mut()) {
            Some(copy) => copy,
            None => unreachable!("the first task of a group begins its copy"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn merging_what_a_number_begins_with_changes_not_even_a_negative_zero() {
        for mut number in [-0.0f64, 0.0, 2.5] {
            let before = number.to_bits();
            number.merge(number.neutral());
            assert_eq!(number.to_bits(), before);
        }
    }
}
