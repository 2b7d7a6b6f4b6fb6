//! Refinement: solutions that are corrected by their own residual, and how far they can be trusted.
//!
//! [`solve`] factors in half the precision and corrects X until it is as good as one from factors in
//! the full one, or falls back to those and says why. [`bounds`] says how far an X may be from the
//! solution; [`improve`] corrects it first, with factors of its own precision. With factors at hand:
//! [`cholesky::error_bounds`](crate::cholesky::error_bounds),
//! [`lu::error_bounds`](crate::lu::error_bounds) and the two `improve` beside them.
//!
//! # Law
//! Every step is a graph: conversion, factorisation, solution, residual, correction, and the norms
//! that decide. Decisions follow from norms that all ranks know to the bit; so which correction was
//! the last, and the bits of X, depend on A, B, the tile order and the backend only.
//!
//! # Source
//! Langou, Langou, Luszczek, Kurzak, Buttari, Dongarra, *Exploiting the performance of 32 bit
//! floating point arithmetic in obtaining 64 bit accuracy*, SC 2006; LAPACK's `dsposv`, `dsgesv`,
//! `porfs` and `gerfs`; Arioli, Demmel, Duff, *Solving sparse linear systems with sparse backward
//! error*, SIAM J. Matrix Anal. Appl. 10 (1989).

mod bounds;
mod entrywise;
mod mixed;

pub(crate) use bounds::expect_correctable;
pub use bounds::{Bounds, bounds, improve};
pub(crate) use entrywise::expect_system;
pub use mixed::{Factors, FallbackCause, Mixed, Refinement, solve};

#[cfg(test)]
mod tests;
