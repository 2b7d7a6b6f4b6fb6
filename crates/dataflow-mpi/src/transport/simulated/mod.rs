//! A world in virtual time: all ranks of a run in one process, every delay and fault from a seed.
//!
//! Ordinary blocking code runs in it. Each thread of the world is an actor; a baton goes from one to
//! the next, so one runs at a time, and the world's agenda decides which. While an actor waits for a
//! [bell](crate::Bell) or [spends](spend) time, others run; when all wait, the clock jumps to the
//! next thing on the agenda. So the same seed gives the same run, to the last message.
//!
//! # Law
//! Nothing in the world depends on real time or on the threads' own schedule. Actors wait through
//! the world only, and hold no lock while they do.
//!
//! # Examples
//! ```
//! use dataflow_mpi::transport::simulated::{Weather, World, spend};
//! use std::time::Duration;
//!
//! let world = World::new(Weather::default());
//! let clock = world.clone();
//! let ends = world.run(2, move |rank| {
//!     spend(Duration::from_secs(10 + u64::from(rank.0)));
//!     clock.now()
//! })?;
//! assert_eq!(ends, [Duration::from_secs(10), Duration::from_secs(11)]);
//! # Ok::<(), dataflow_mpi::transport::simulated::Hung>(())
//! ```

mod actor;
mod executor;
mod network;
mod weather;

pub use actor::{Hung, World, spend};
pub use executor::VirtualWorkers;
pub use network::Simulated;
pub use weather::{Faults, Weather};
