//! Modes as types: what an access does with its datum, and what its body gets.

use super::law::Mode;
use sealed::Sealed;

/// Traits that only this crate implements.
pub mod sealed {
    pub trait Sealed {}
}

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
pub trait ModeType: Sealed + Send {
    #[doc(hidden)]
    const MODE: Mode;

    /// What a loan remembers: whether it has taken the datum, where its turn is none that versions count.
    #[doc(hidden)]
    type Taken: Copy + Default;

    #[doc(hidden)]
    fn has_taken(taken: Self::Taken) -> bool;
}

macro_rules! modes {
    ($($mode:ident: $taken:ty, $has_taken:expr;)+) => {$(
        impl Sealed for $mode {}

        impl ModeType for $mode {
            const MODE: Mode = Mode::$mode;
            type Taken = $taken;

            #[inline(always)]
            fn has_taken(taken: $taken) -> bool {
                $has_taken(taken)
            }
        }
    )+};
}
modes! {
    Read: (), |()| false;
    Write: (), |()| false;
    Commute: bool, |taken| taken;
}
