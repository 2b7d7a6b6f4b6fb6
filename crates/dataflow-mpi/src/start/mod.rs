//! Start: how the ranks of a job come to be, and which of them this process is.
//!
//! A launcher (`mpirun`, `srun`) starts the ranks and tells each in its environment: [`Place`].
//! Without one, a process starts the others itself and becomes rank 0 ([`start`]), or is given its
//! [`Seat`] by hand: over sockets, no MPI needed.

mod place;
mod processes;
mod seat;

pub use place::{Launcher, Mpi, Place, check};
pub use processes::{Processes, Staying, start};
pub use seat::Seat;
