//! A safe task-graph runtime: tasks run as their data become available, on all cores.
//!
//! A program is a set of tasks; a [task space](core::space::TaskSpace) gives the edges between them by
//! formulas. A [`Runtime`] runs it on pinned workers that steal from one another.
//!
//! # Examples
//! The sums of a triangle of numbers, each made of the two above it:
//! ```
//! use dataflow::prelude::*;
//!
//! task_names! { enum Task { Cell { row, column } } }
//!
//! struct Pascal { rows: u32, last: Store<u64> }
//! const LEFT: usize = 0;
//! const RIGHT: usize = 1;
//! const SUM: usize = 2;
//!
//! impl TaskSpace for Pascal {
//!     type Task = Task;
//!     type Datum = u64;
//!
//!     fn describe(&self, about: &mut Description) {
//!         about.name("pascal").parameter("rows", self.rows);
//!         about.class("Cell").optional("LEFT").optional("RIGHT").new_flow("SUM");
//!     }
//!
//!     fn tasks(&self, _: Rank) -> impl Iterator<Item = Task> + Send {
//!         (0..self.rows).flat_map(|row| (0..=row).map(move |column| Task::Cell { row, column }))
//!     }
//!
//!     fn inputs(&self, Task::Cell { row, column }: Task, from: &mut impl Inputs<Self>) {
//!         if column > 0 { from.task(LEFT, Task::Cell { row: row - 1, column: column - 1 }, SUM) }
//!         if column < row { from.task(RIGHT, Task::Cell { row: row - 1, column }, SUM) }
//!     }
//!
//!     fn successors(&self, Task::Cell { row, column }: Task, to: &mut impl Successors<Self>) {
//!         if row + 1 == self.rows { return to.home(SUM, &self.last, column as usize) }
//!         to.task(SUM, Task::Cell { row: row + 1, column }, RIGHT);
//!         to.task(SUM, Task::Cell { row: row + 1, column: column + 1 }, LEFT);
//!     }
//!
//!     fn run(&self, _: Task, flows: &mut Flows<'_, u64>) -> Result<(), TaskError> {
//!         let [left, right, sum] = flows.slots();
//!         let above = [left.get(), right.get()].into_iter().flatten();
//!         let total: u64 = above.sum();
//!         sum.put(total.max(1));
//!         Ok(())
//!     }
//! }
//!
//! let pascal = Pascal { rows: 7, last: Store::empty("last row", 7) };
//! verify(&pascal, 1)?;
//! let report = Runtime::builder().threads(2).build()?.run(&pascal)?;
//! assert_eq!((report.tasks, *pascal.last.get(3).unwrap()), (28, 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! For linear algebra no graph of your own is needed: with the feature `linalg` `Dense` has calls on
//! ndarray's arrays, `Tiled` on tiled matrices. The [`guide`] has a page for each question.
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

/// What most programs need.
pub mod prelude {
    #[cfg(feature = "linalg")]
    pub use crate::{Dense, Tiled};
    pub use crate::{Runtime, launch};
    pub use dataflow_core::prelude::*;
}
