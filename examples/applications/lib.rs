//! The papers' applications, compiled once: what examples run, tests try and benches race.
//!
//! | module | what |
//! |---|---|
//! | [`alignment`] | two sequences side by side: a task space by hand |
//! | [`blackscholes`], [`swaptions`] | prices of options, by formula and by simulation |
//! | [`jacobi3d`] | a stencil on a cube, in blocks |
//! | [`nas_ft`] | Fourier transforms in three dimensions |
//! | [`shallow_water`] | the shallow water equations on the sphere |
//! | [`vector`] | loops at the processor's width |

#![allow(missing_debug_implementations, reason = "nobody prints them")]
#![allow(
    missing_docs,
    reason = "a name is enough here, and what documents a flag is its help"
)]

pub mod alignment;
pub mod blackscholes;
pub mod jacobi3d;
pub mod nas_ft;
pub mod shallow_water;
pub mod swaptions;
pub mod vector;
