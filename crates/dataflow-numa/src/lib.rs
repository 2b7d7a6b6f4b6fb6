//! Workers for the dataflow runtime: pinned threads that steal from one another and sleep when
//! there is nothing to do, and memory on huge pages.
//!
//! [`Workers`] implements the engine's port [`Executor`](dataflow_core::port::Executor),
//! [`HugePages`] its port [`Memory`](dataflow_core::port::Memory). Nothing here knows what a
//! task is.
//!
//! # How a task finds a worker
//! A worker looks for ready tasks in its NUMA node's priority queue if something urgent lies
//! there, then in its own deque, then at its neighbours, the nearest first. It searches for some
//! microseconds and falls asleep. Whoever queues a task while somebody sleeps wakes one
//! worker at a time.
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

mod barrier;
mod executor;
mod memory;
mod nearest;
pub mod pin;
mod place;
mod pool;
mod queue;
mod sleep;
mod statistics;
mod sync;
pub mod topology;
mod worker;

pub use executor::{Warning, Workers, WorkersBuilder, WorkersError};
pub use memory::HugePages;
pub use place::{Bind, Place};
pub use statistics::Statistics;
pub use topology::{Core, NumaNode, Topology};
