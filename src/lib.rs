//! A safe task-graph runtime: tasks run as their data become available, on all cores.
//!
//! Insert tasks in program order and say what each reads and writes ([`sequence`]). Or write loops: a macro
//! derives the edges from them as formulas, so the graph is never stored ([`task_space!`]). A [`Runtime`] runs
//! both on pinned workers that steal from one another. Task spaces and recorded sequences also run over
//! several ranks.
//!
//! # Examples
//! ```
//! use dataflow::prelude::*;
//!
//! let mut numbers = [1, 2, 3];
//! Runtime::new()?.scope(|s| {
//!     let n = s.lend_all(&mut numbers);
//!     s.task((read(&n[0]), write(&n[1])), |(a, b)| *b += *a);
//!     s.task((read(&n[1]), write(&n[2])), |(b, c)| *c *= *b);
//! })?;
//! assert_eq!(numbers, [1, 3, 9]);
//! # Ok::<(), dataflow::Error>(())
//! ```
//!
//! The [`guide`] has a page for each question; the first is [`which`](guide::which) form of graph to take.
//! For linear algebra no graph of your own is needed: with the feature `linalg`, `Dense` has calls on
//! ndarray's arrays and `Tiled` on tiled matrices ([`solve`](guide::solve)).
//!
//! # The parts
//! | crate | here | what |
//! |---|---|---|
//! | `dataflow-core` | [`core`] | task spaces, data, the engine |
//! | `dataflow-numa` | [`numa`] | workers, topology, huge pages |
//! | `dataflow-mpi` | [`mpi`] | communication between ranks |
//! | `dataflow-linalg` | `linalg`, a feature | tiled matrices, kernels, decompositions, products |
//! | `dataflow-trace` | [`trace`] | files and pictures of what a run did |

// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "linalg")]
mod calls;
mod clocks;
mod collective;
pub mod guide;
mod launch;
mod runtime;
pub mod simulate;
pub mod trace;

pub use dataflow_core as core;
pub use dataflow_core::{recursion, sequence};
#[cfg(feature = "linalg")]
pub use dataflow_linalg as linalg;
pub use dataflow_mpi as mpi;
pub use dataflow_numa as numa;
#[cfg(feature = "linalg")]
pub use ndarray;

pub use dataflow_core::error::{Error, Kind, TaskError};
pub use dataflow_core::monitor::{Monitor, Progress};
#[cfg(feature = "serde")]
pub use dataflow_core::wire_by_serde;
pub use dataflow_core::{Report, task_names, task_space};
pub use dataflow_numa::{Bind, Placing, Policy};
pub use launch::{launch, launch_over};
pub use runtime::{Runtime, RuntimeBuilder, Transport};

#[cfg(feature = "linalg")]
pub use {
    calls::{
        CholeskyFactor, Dense, Lu, LuFactor, QrFactor, Tiled, TiledCholeskyFactor, TiledLuFactor,
        TiledQrFactor,
    },
    dataflow_linalg::LinalgError,
};

/// The program of the README, compiled like those of the documentation.
#[cfg(all(doctest, feature = "linalg"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// What most programs need.
pub mod prelude {
    #[cfg(feature = "linalg")]
    pub use crate::{Dense, Tiled};
    pub use crate::{Runtime, launch};
    pub use dataflow_core::prelude::*;
}
