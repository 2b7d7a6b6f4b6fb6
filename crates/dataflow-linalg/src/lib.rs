//! Tiled dense linear algebra as task graphs.
//!
//! A matrix is cut into tiles ([`matrix`]), tiles are what kernels compute with and what flows
//! between tasks, and a factorisation is a task space over them. Four kinds of number: `f32`,
//! `f64`, `c32`, `c64` ([`scalar`]).
//!
//! # Law
//! A result is a function of the matrix, the tile order and explicit options: never of the grid,
//! the threads or the schedule.
//!
//! # Elsewhere
//! Running a graph: `dataflow_core`. Threads and huge pages: `dataflow-numa`.

// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Named once, so that the linker keeps the library.
#[cfg(feature = "openblas")]
extern crate blas_src as _;

pub mod scalar;

mod compiled;
mod lookahead;
mod spans;
mod succession;

pub mod matrix;

pub mod flops;
pub mod kernel;

pub mod cholesky;
pub mod condition;
pub mod determinant;
pub mod error;
pub mod lu;
pub mod needs;
pub mod product;
pub mod qr;
pub mod refine;
pub mod weight;
pub mod whole;

pub use error::{Given, LinalgError};
pub use scalar::{c32, c64};
// Crates of which types stand in what is public here.
pub use {faer, ndarray, num_complex};

/// The example of the README, compiled and run like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
