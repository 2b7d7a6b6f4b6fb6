//! Workers for the dataflow runtime: pinned threads that steal from one another and sleep when
//! there is nothing to do, and memory on huge pages.
//!
//! [`Workers`] implements the engine's port [`Executor`](dataflow_core::port::Executor),
//! [`HugePages`] its port [`Memory`](dataflow_core::port::Memory). To this crate a task is only a
//! number with a priority and hints.
//!
//! # How a task finds a worker
//! As the [policy] says. By default a worker looks for ready tasks in its own queues and in those
//! of its NUMA node, the most urgent first, then at its neighbours', the nearest first. It
//! searches for some microseconds and falls asleep. When a task is queued and a worker sleeps that may
//! take it, one worker is woken at a time. How a policy behaves on another machine can be
//! [simulated](simulate).
//!
//! # Examples
//! ```
//! use dataflow_numa::{Bind, Topology, Workers};
//!
//! let topology = Topology::of_this_process();
//! let workers = Workers::builder().topology(topology.clone()).bind(Bind::Cores).build()?;
//! assert_eq!(workers.places().len(), topology.n_cores());
//! # Ok::<(), dataflow_numa::WorkersError>(())
//! ```

// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod barrier;
mod crew;
mod executor;
mod lacks;
mod memory;
pub mod nearest;
pub mod pages;
pub mod pin;
mod place;
pub mod policy;
mod pool;
mod queue;
pub mod rivals;
pub mod simulate;
mod sleep;
mod statistics;
mod sync;
pub mod topology;
mod worker;

pub use answer::Answer;
pub use executor::{Warning, Workers, WorkersBuilder, WorkersError};
pub use lacks::Lack;
pub use memory::{HugePages, Placing};
pub use place::{Bind, Place, UnknownBind};
pub use policy::{Policy, UnknownPolicy};
pub use statistics::{NodeTraffic, Statistics, WorkerStatistics};
pub use topology::{Cache, Core, NumaNode, Topology, TopologyError};

/// The example of the README, compiled and run like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
