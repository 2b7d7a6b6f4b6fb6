//! The accesses of a recorded task, and what its body gets from its flows.

use super::super::access::{Access, Accessible};
use super::super::law::Mode;
use super::super::mode::sealed::Sealed;
use super::super::mode::{Commute, Read, Write};
use crate::data::Datum;
use smallvec::SmallVec;
use std::marker::PhantomData;

/// A datum of a recorded program, at home in a slot of a store.
///
/// # Examples
/// See [`Recorder::home`](super::Recorder::home) and the [module's](super) example.
pub struct Home<'c, D> {
    pub(super) datum: u32,
    recorder: PhantomData<fn(&'c D) -> &'c D>,
}

impl<D> Sealed for Home<'_, D> {}
impl<D> Accessible for Home<'_, D> {}

impl<D> Home<'_, D> {
    pub(super) fn new(datum: u32) -> Self {
        let recorder = PhantomData;
        Home { datum, recorder }
    }
}

impl<D> std::fmt::Debug for Home<'_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Home({})", self.datum)
    }
}

/// Accesses of one recorded task: one, a tuple of up to eight sets, or a `Vec` of accesses of one
/// kind; those of different kinds go into a tuple. The trait is sealed.
///
/// # Examples
/// See the [module's](super) example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a recorded task does with its data",
    label = "no access, no tuple of at most eight, no `Vec` of `read`, of `write` or of `commute`",
    note = "of a datum `h` of `Recorder::home` say `read(&h)`, `write(&h)` or `commute(&h)`",
    note = "accesses of different kinds go into a tuple, `(a, b)`",
    note = "more than eight accesses go into tuples of tuples, `((a, b), (c, d))`, or into a `Vec`"
)]
pub trait HomeSet<'c, D: Datum>: Sealed {
    /// Turns data into what a body gets, in the shape of the set.
    #[doc(hidden)]
    type Shape: for<'a> Lent<'a, D> + Send + Sync + 'static;

    /// The shape.
    #[doc(hidden)]
    fn shape(&self) -> Self::Shape;

    /// Shows each access.
    #[doc(hidden)]
    fn each(&self, show: &mut dyn FnMut(NamedAccess));
}

/// One access: the number of its datum, and what is done with it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct NamedAccess {
    pub(super) datum: u32,
    pub(super) mode: Mode,
}

/// What a body gets.
#[doc(hidden)]
pub trait Lent<'a, D: Datum> {
    /// References, in the shape of the set.
    type Arg;

    /// Takes them, one after the other.
    fn lend(&self, loans: &mut Loans<'a, D>) -> Self::Arg;
}

/// A datum as a body gets it.
#[doc(hidden)]
#[derive(Debug)]
pub enum Loan<'a, D> {
    Read(&'a D),
    Write(&'a mut D),
}

/// The data of one task.
#[doc(hidden)]
pub type Loans<'a, D> = smallvec::IntoIter<[Loan<'a, D>; 8]>;

impl<'a, D> Loan<'a, D> {
    /// The data of a task, by what it does with each.
    pub(super) fn all(loans: impl Iterator<Item = Self>) -> Loans<'a, D> {
        loans.collect::<SmallVec<_>>().into_iter()
    }

    fn read(self) -> &'a D {
        match self {
            Loan::Read(datum) => datum,
            Loan::Write(datum) => datum,
        }
    }

    fn update(self) -> &'a mut D {
        match self {
            Loan::Write(datum) => datum,
            Loan::Read(_) => unreachable!("what a task changes is lent to it for that"),
        }
    }
}

/// The shape of one access.
#[doc(hidden)]
#[derive(Debug)]
pub struct One<M>(PhantomData<fn() -> M>);

/// The shape of a list.
#[doc(hidden)]
#[derive(Debug)]
pub struct Many<M>(usize, PhantomData<fn() -> M>);

fn next<'a, D>(loans: &mut Loans<'a, D>) -> Loan<'a, D> {
    match loans.next() {
        Some(loan) => loan,
        None => unreachable!("a recorded task gets a datum for each access"),
    }
}

macro_rules! lent {
    ($mode:ident, $take:ident, $($reference:tt)+) => {
        impl<'c, D: Datum> HomeSet<'c, D> for Access<'_, Home<'c, D>, $mode> {
            type Shape = One<$mode>;

            fn shape(&self) -> One<$mode> {
                One(PhantomData)
            }

            fn each(&self, show: &mut dyn FnMut(NamedAccess)) {
                let (datum, mode) = (self.handle.datum, Mode::$mode);
                show(NamedAccess { datum, mode });
            }
        }

        impl<'c, D: Datum> HomeSet<'c, D> for Vec<Access<'_, Home<'c, D>, $mode>> {
            type Shape = Many<$mode>;

            fn shape(&self) -> Many<$mode> {
                Many(self.len(), PhantomData)
            }

            fn each(&self, show: &mut dyn FnMut(NamedAccess)) {
                self.iter().for_each(|access| access.each(show));
            }
        }

        impl<'a, D: Datum> Lent<'a, D> for One<$mode> {
            type Arg = &'a $($reference)+;

            fn lend(&self, loans: &mut Loans<'a, D>) -> Self::Arg {
                next(loans).$take()
            }
        }

        impl<'a, D: Datum> Lent<'a, D> for Many<$mode> {
            type Arg = Vec<&'a $($reference)+>;

            fn lend(&self, loans: &mut Loans<'a, D>) -> Self::Arg {
                (0..self.0).map(|_| next(loans).$take()).collect()
            }
        }
    };
}
lent!(Read, read, D);
lent!(Write, update, mut D);
lent!(Commute, update, mut D);

macro_rules! tuples {
    ($(($($set:ident $at:tt),*))+) => {$(
        impl<'c, D: Datum, $($set: HomeSet<'c, D>),*> HomeSet<'c, D> for ($($set,)*) {
            type Shape = ($($set::Shape,)*);

            fn shape(&self) -> Self::Shape {
                ($(self.$at.shape(),)*)
            }

            fn each(&self, show: &mut dyn FnMut(NamedAccess)) {
                $(self.$at.each(show);)*
            }
        }

        impl<'a, Datum_: Datum, $($set: Lent<'a, Datum_>),*> Lent<'a, Datum_> for ($($set,)*) {
            type Arg = ($($set::Arg,)*);

            fn lend(&self, loans: &mut Loans<'a, Datum_>) -> Self::Arg {
                ($(self.$at.lend(loans),)*)
            }
        }
    )+};
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, E 3)
    (A 0, B 1, C 2, E 3, F 4)
    (A 0, B 1, C 2, E 3, F 4, G 5)
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6)
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7)
}

/// A task that accesses nothing.
impl<D: Datum> HomeSet<'_, D> for () {
    type Shape = ();

    fn shape(&self) {}

    fn each(&self, _: &mut dyn FnMut(NamedAccess)) {}
}

impl<'a, D: Datum> Lent<'a, D> for () {
    type Arg = ();

    fn lend(&self, _: &mut Loans<'a, D>) {}
}
