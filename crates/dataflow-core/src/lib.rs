//! Tasks, versioned data, symbolic task spaces, and the engine that runs them.
//!
//! A program is a set of *tasks*; a [task space](space::TaskSpace) gives, by formulas, the inputs,
//! successors and priority of each, so the graph is never stored. The [engine] keeps only the tasks
//! that wait or run. [Ports](port) connect it to the world: an [`Executor`](port::Executor) runs ready
//! tasks, a [`Courier`](port::Courier) reaches other ranks, a [`Memory`](port::Memory) gives memory to
//! data. Tasks may also be inserted in program order, as a [sequence].
//!
//! This crate starts no threads of its own, opens no sockets and knows no matrices.
//!
//! # Examples
//! A chain of tasks that carry a number along:
//! ```
//! use dataflow_core::prelude::*;
//! use dataflow_core::port::Inline;
//!
//! struct Chain { length: u64, last: Store<u64> }
//! const VALUE: usize = 0;
//!
//! impl TaskSpace for Chain {
//!     type Task = u64;
//!     type Datum = u64;
//!     fn describe(&self, about: &mut Description) {
//!         about.name("chain").parameter("length", self.length);
//!         about.class("Link").update("VALUE");
//!     }
//!     fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send { 0..self.length }
//!     fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
//!         if task == 0 { from.home(VALUE, &self.last, 0) } else { from.task(VALUE, task - 1, VALUE) }
//!     }
//!     fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
//!         if task + 1 == self.length { to.home(VALUE, &self.last, 0) } else { to.task(VALUE, task + 1, VALUE) }
//!     }
//!     fn run(&self, _: u64, flows: &mut Flows<'_, u64>) -> Result<(), TaskError> {
//!         let [value] = flows.slots();
//!         *value.update() += 1;
//!         Ok(())
//!     }
//! }
//!
//! let chain = Chain { length: 10, last: Store::new("last", [0]) };
//! verify(&chain, 1)?;
//! let report = dataflow_core::run(&chain, &Inline)?;
//! assert_eq!((report.tasks, *chain.last.get(0).unwrap()), (10, 10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod data;
pub mod engine;
pub mod error;
mod fingerprint;
mod foreign;
pub mod phantom;
pub mod port;
pub mod rank;
pub mod recursion;
pub mod sequence;
pub mod space;
pub mod stderr;
mod sync;
pub mod trace;
pub mod wire;
pub mod words;

// Crates of which types or traits stand in what is public here.
pub use bytemuck;
#[doc(hidden)]
pub use dataflow_macros as macros;
pub use engine::{Report, run, run_across, run_inside};
pub use error::{Error, Kind, TaskError};
#[cfg(feature = "rayon")]
pub use rayon_core;
#[cfg(feature = "serde")]
pub use serde;
pub use smallvec;

/// Progress and cancellation from outside.
pub mod monitor {
    pub use crate::engine::monitor::{Monitor, Progress};
}

/// What an author of a task space or a sequence needs.
pub mod prelude {
    pub use crate::data::{Datum, Store, Version};
    pub use crate::error::{Error, TaskError};
    pub use crate::port::Wire;
    pub use crate::rank::Rank;
    pub use crate::sequence::{commute, read, reduce, update, write};
    pub use crate::space::{Description, Flows, Inputs, Successors, TaskName, TaskSpace, verify};
    pub use crate::{task_names, task_space};
}

/// The example of the README, compiled and run like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
