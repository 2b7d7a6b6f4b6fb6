//! A world in virtual time: all ranks of a run in one process, every delay and fault from a seed.
//!
//! Ordinary blocking code runs in it. What would be a thread is an actor: a fiber of the one thread
//! that runs the world. One runs at a time, and the world's agenda decides which. While an actor waits
//! for a [bell](crate::Bell) or [spends](spend) time, others run; when all wait, the clock jumps to the
//! next thing on the agenda. So the same seed gives the same run, to the last message, also if actors
//! are [threads](World::on_threads) after all.
//!
//! # Law
//! Nothing in the world depends on real time or on how actors are run. Actors wait through the world
//! only, and hold no lock while they do.
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

mod agenda;
mod cluster;
mod door;
mod executor;
#[cfg_attr(
    not(all(
        any(unix, windows),
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        ),
        not(miri)
    )),
    path = "no_fiber.rs"
)]
mod fiber;
mod here;
mod inside;
mod network;
mod queues;
mod state;
mod turns;
mod virtual_host;
mod weather;
mod world;

pub use cluster::{Cluster, MessageCosts, Shared};
pub use door::Simulated;
pub use executor::VirtualWorkers;
pub use here::{spend, worker};
pub use queues::{Ringer, VirtualQueues};
pub use weather::{Faults, Weather};
pub use world::{Hung, World};
