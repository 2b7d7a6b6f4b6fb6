//! The world: MPI from its beginning to its end, or somebody else's.

use super::calls::{Comm, MpiError, abort, return_errors, serialized, test};
use super::{Mpi, Sizes};
use crate::host::{Host, Machine};
use dataflow_core::error::Error;
use mpi::Threading;
use mpi::environment::Universe;
use mpi::traits::Communicator;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// How often ranks that have come to the end look for the others.
const LOOK: Duration = Duration::from_micros(200);

/// MPI, initialised here or before, and the ranks of a communicator.
///
/// To be [ended](World::end). A world that is dropped instead, by a panic for example, ends all
/// ranks of the job at once: those that wait for this one would wait for ever.
///
/// # Threads
/// MPI must allow calls from any thread, one at a time (`MPI_THREAD_SERIALIZED`). Whoever calls it
/// beside a running [`Mpi`] needs `MPI_THREAD_MULTIPLE`.
///
/// # Examples
/// ```no_run
/// use dataflow_mpi::transport::Transport;
/// use dataflow_mpi::transport::mpi::{Sizes, World};
/// use std::time::Duration;
///
/// let world = World::begin()?;
/// let transport = world.transport(Sizes::default())?;
/// println!("{} of {}", transport.rank(), transport.n_ranks());
/// drop(transport);
/// world.end(Duration::from_secs(10))?;
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct World {
    comm: Comm,
    /// If MPI was initialised here.
    universe: Option<Universe>,
    /// Known to every transport.
    in_use: Arc<()>,
    n_ranks: usize,
    here: (usize, usize),
}

impl World {
    /// All ranks that the launcher has started. Initialises MPI, unless that was done before. All
    /// ranks must call this.
    ///
    /// # Errors
    /// `mpi_thread_level` if MPI allows too few threads; else what MPI answers.
    pub fn begin() -> Result<Self, Error> {
        if mpi::environment::is_finalized() {
            return Err(Error::wrong_settings(
                "MPI has ended in this process (it begins only once)",
            ));
        }
        let begun = {
            let _serialized = serialized();
            mpi::initialize_with_threading(Threading::Serialized)
        };
        check_level()?;
        if begun.is_some() {
            let _serialized = serialized();
            return_errors().map_err(refused)?;
        }
        let world = mpi::topology::SimpleCommunicator::world();
        World::of(&world, begun.map(|(universe, _)| universe))
    }

    /// The ranks of a communicator whose owner has initialised MPI, and ends it. All its ranks must
    /// call this.
    ///
    /// # Errors
    /// `mpi_thread_level` if MPI allows too few threads; else what MPI answers.
    pub fn over(communicator: &impl Communicator) -> Result<Self, Error> {
        check_level()?;
        World::of(communicator, None)
    }

    fn of(communicator: &impl Communicator, universe: Option<Universe>) -> Result<Self, Error> {
        let _serialized = serialized();
        let comm = Comm::copy(communicator.as_raw()).map_err(refused)?;
        let rank = comm.rank().map_err(refused)?;
        let n_ranks = comm.size().map_err(refused)?;
        let machine = Comm::of_this_machine(communicator.as_raw(), rank as i32).map_err(refused)?;
        let here = (
            machine.rank().map_err(refused)?,
            machine.size().map_err(refused)?,
        );
        machine.free();
        Ok(World {
            comm,
            universe,
            in_use: Arc::new(()),
            n_ranks,
            here,
        })
    }

    /// How many ranks there are.
    pub fn n_ranks(&self) -> usize {
        self.n_ranks
    }

    /// Which of the ranks of this machine this is, and how many it has.
    pub fn here(&self) -> (usize, usize) {
        self.here
    }

    /// What this MPI calls itself, in a line.
    pub fn library(&self) -> String {
        let version = mpi::environment::library_version().unwrap_or_default();
        version
            .split(['\n', ','])
            .next()
            .unwrap_or_default()
            .trim()
            .to_string()
    }

    /// A transport between its ranks; all of them must call this.
    ///
    /// # Errors
    /// What MPI answers.
    pub fn transport(&self, sizes: Sizes) -> Result<Mpi, Error> {
        let _serialized = serialized();
        let comm = self.comm.raw();
        Mpi::new(comm, sizes, self.in_use.clone()).map_err(refused)
    }

    /// Waits for all ranks, so long at most, and ends MPI if it was initialised here.
    ///
    /// # Errors
    /// If a transport is still in use (`wrong_settings`), or not all ranks come (`rank_lost`): MPI is
    /// not ended then, which would wait for them, and the launcher ends the job when this process does.
    pub fn end(mut self, patience: Duration) -> Result<(), Error> {
        // Not to be dropped before all is well.
        let universe = self.universe.take().map(std::mem::ManuallyDrop::new);
        if Arc::strong_count(&self.in_use) > 1 {
            return Err(Error::wrong_settings(
                "MPI was to end while a transport still used it",
            ));
        }
        self.meet(patience)?;
        let _serialized = serialized();
        self.comm.free();
        drop(universe.map(std::mem::ManuallyDrop::into_inner));
        Ok(())
    }

    fn meet(&self, patience: Duration) -> Result<(), Error> {
        let host = Machine::new();
        let (nap, deadline) = (host.bell(), host.now().saturating_add(patience));
        let mut barrier = {
            let _serialized = serialized();
            self.comm.barrier().map_err(refused)?
        };
        loop {
            let met = {
                let _serialized = serialized();
                test(&mut barrier).map_err(refused)?
            };
            if met.is_some() {
                return Ok(());
            }
            if host.now() > deadline {
                let text = format!("not all ranks came to the end within {patience:?}");
                return Err(Error::rank_lost(text));
            }
            nap.wait(Some(LOOK));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(universe) = self.universe.take() {
            std::mem::forget(universe);
            std::io::stdout().flush().ok(); // the last words
            abort(1);
        }
    }
}

fn check_level() -> Result<(), Error> {
    if !mpi::environment::is_initialized() {
        return Err(Error::wrong_settings(
            "MPI is not initialised (its owner does that first)",
        ));
    }
    let level = mpi::environment::threading_support();
    if level >= Threading::Serialized {
        return Ok(());
    }
    Err(Error::mpi_thread_level(format!(
        "MPI was initialised at thread level {level:?} (Serialized or Multiple is needed)"
    )))
}

fn refused(fault: MpiError) -> Error {
    Error::wrong_settings(format!("MPI: {fault}"))
}
