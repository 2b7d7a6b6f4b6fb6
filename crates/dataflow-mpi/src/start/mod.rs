//! Start: how the ranks of a job are started, and which of them this process is.
//!
//! A launcher (`mpirun`, `srun`) starts the ranks and tells each in its environment which it is:
//! [`Launched`]. Without one, ranks talk over sockets and need no MPI: a process starts the others itself
//! and becomes rank 0 ([`start`]), or each is started by hand and given its [`Seat`].

mod addresses;
mod launched;
mod processes;
mod seat;

pub use launched::{Launched, Launcher, Mpi, check};
pub use processes::{Processes, Staying, start};
pub use seat::Seat;
