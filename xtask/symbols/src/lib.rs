//! Routines of dataflow-linalg under the names by which Fortran knows BLAS's and LAPACK's, so that
//! LAPACK's own test programs test them: `cargo xtask lapack --programs`.
//!
//! # Law
//! Arguments are checked in the order in which the reference checks them, and the first wrong one is
//! told to `XERBLA` by its number. Matrices are copied into tiles and back; what a routine does not
//! promise to write stays as it was. A failure that has no INFO ends the program.
//! Two workers; tiles of the order in the variable `DATAFLOW_SYMBOLS_NB`, 7 without it.
//!
//! # Elsewhere
//! What the names compute: `lapack.rs` and `blas.rs`. Pointers become slices in `call.rs`.

/// Defines a routine under its names, each for one kind of number: what stands in the module under
/// the name of the body, with the name that the reference gives it.
macro_rules! routine {
    ($body:ident $arguments:tt: $($name:ident of $t:ident),+) => {
        $(define!($body $arguments, $name of $t);)+
    };
}

/// One of them.
macro_rules! define {
    ($body:ident($($arg:ident: $type:tt),+), $name:ident of $t:ident) => {
        #[doc = concat!("The reference's `", stringify!($name), "`.")]
        // SAFETY: no other object of a program that links this one defines the name: it stands
        // before the library that does
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: argument!($t, $type)),+) {
            let name = stringify!($name).trim_end_matches('_').to_uppercase();
            $body::<$t>(&name, $($arg),+);
        }
    };
}

/// How Fortran passes an argument: by its address.
macro_rules! argument {
    ($t:ident, letter) => { &u8 };
    ($t:ident, length) => { &i32 };
    ($t:ident, element) => { &$t };
    (f32, real) => { &f32 };
    (f64, real) => { &f64 };
    (c32, real) => { &f32 };
    (c64, real) => { &f64 };
    ($t:ident, given) => { *const $t };
    ($t:ident, taken) => { *mut $t };
    ($t:ident, given_rows) => { *const i32 };
    ($t:ident, taken_rows) => { *mut i32 };
    ($t:ident, info) => { &mut i32 };
}

pub mod blas;
mod call;
pub mod lapack;
mod tiles;
