//! The world: MPI from its beginning to its end, or somebody else's.

use super::calls::{Comm, MpiError, abort, at_exit, return_errors, serialized, test};
use super::{Mpi, Sizes};
use crate::host::{Host, Machine};
use dataflow_core::error::Error;
use dataflow_core::stderr;
use mpi::Threading;
use mpi::environment::Universe;
use mpi::traits::Communicator;
use std::fmt;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

/// How often ranks that have come to the end look for the others.
const LOOK: Duration = Duration::from_micros(200);

/// What a launcher has to read the last words in: MPICH's reads no more once it hears that the job is to
/// end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// For all that this process knows the others still compute: they are waited for without limit.
const FOREVER: Duration = Duration::MAX;

/// The world between one use and the next. A lock of `std`: those of models cannot be static.
static RESTING: Mutex<Option<MpiWorld>> = Mutex::new(None);

/// MPI, initialised here or before, and the ranks of a communicator.
///
/// To be [ended](MpiWorld::end), or to [rest](MpiWorld::rest) until it is begun again. A world that is dropped
/// instead, by a panic for example, ends all ranks of the job a fifth of a second later: those that wait for
/// this one would wait for ever.
///
/// # Threads
/// MPI must allow calls from any thread, one at a time (`MPI_THREAD_SERIALIZED`). A program that calls it
/// beside a running [`Mpi`] needs `MPI_THREAD_MULTIPLE`.
///
/// # Examples
/// ```no_run
/// use dataflow_mpi::transport::Transport;
/// use dataflow_mpi::transport::mpi::{MpiWorld, Sizes};
/// use std::time::Duration;
///
/// let world = MpiWorld::begin()?;
/// let transport = world.transport(Sizes::default())?;
/// println!("{} of {}", transport.rank(), transport.n_ranks());
/// drop(transport);
/// world.end(Duration::from_secs(10))?;
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct MpiWorld {
    comm: Comm,
    /// If MPI was initialised here.
    universe: Option<Universe>,
    /// Known to every transport.
    in_use: Arc<()>,
    n_ranks: usize,
    here: (usize, usize),
}

impl fmt::Debug for MpiWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MpiWorld")
            .field("n_ranks", &self.n_ranks)
            .field("here", &self.here)
            .finish_non_exhaustive()
    }
}

impl MpiWorld {
    /// All ranks that the launcher has started. Initialises MPI, unless that was done before. All
    /// ranks must call this; if the world [rests](MpiWorld::rest) it is waited for all of them, without limit.
    ///
    /// # Errors
    /// `mpi_thread_level` if MPI allows too few threads; `rank_lost` if the world rested, and the process
    /// of another rank ends instead; else what MPI answers.
    pub fn begin() -> Result<Self, Error> {
        if mpi::environment::is_finalized() {
            return Err(Error::wrong_settings(
                "MPI has ended in this process (it begins only once, and ends when a rank fails)",
            ));
        }
        let resting = resting().take();
        if let Some(world) = resting {
            return world.again();
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
        MpiWorld::of(&world, begun.map(|(universe, _)| universe))
    }

    /// The ranks of a communicator whose owner has initialised MPI, and ends it. All its ranks must
    /// call this.
    ///
    /// # Errors
    /// `mpi_thread_level` if MPI allows too few threads; else what MPI answers.
    ///
    /// # Examples
    /// ```no_run
    /// use dataflow_mpi::rsmpi::{self, Threading};
    /// use dataflow_mpi::transport::mpi::MpiWorld;
    /// use std::time::Duration;
    ///
    /// let begun = rsmpi::initialize_with_threading(Threading::Serialized);
    /// let (universe, _) = begun.expect("MPI was not initialised before");
    /// let world = MpiWorld::over(&universe.world())?;
    /// println!("{} ranks", world.n_ranks());
    /// world.end(Duration::from_secs(10))?;
    /// # Ok::<(), dataflow_core::Error>(())
    /// ```
    pub fn over(communicator: &impl Communicator) -> Result<Self, Error> {
        check_level()?;
        MpiWorld::of(communicator, None)
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
        Ok(MpiWorld {
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
    pub fn end(self, patience: Duration) -> Result<(), Error> {
        self.leave(false, patience)
    }

    /// Waits for all ranks, so long at most. MPI that was initialised here is kept until it is
    /// [begun](MpiWorld::begin) again or the process exits: then it ends, together with that of all other
    /// ranks, which are waited for without limit. If a rank [ends](MpiWorld::end) instead, it ends now.
    ///
    /// # Errors
    /// As [`end`](MpiWorld::end).
    pub fn rest(self, patience: Duration) -> Result<(), Error> {
        self.leave(true, patience)
    }

    fn leave(mut self, goes_on: bool, patience: Duration) -> Result<(), Error> {
        // Not to be dropped before all is well.
        let universe = self.universe.take().map(ManuallyDrop::new);
        if Arc::strong_count(&self.in_use) > 1 {
            return Err(Error::wrong_settings(
                "MPI was to end while a transport still used it",
            ));
        }
        let rests = self.all_go_on(goes_on, patience)?;
        self.universe = universe.map(ManuallyDrop::into_inner);
        if rests && self.universe.is_some() {
            static ENDS_AT_EXIT: Once = Once::new();
            ENDS_AT_EXIT.call_once(|| at_exit(end_resting));
            *resting() = Some(self);
        } else {
            self.finish();
        }
        Ok(())
    }

    /// It is used again, if it is on all ranks.
    fn again(self) -> Result<Self, Error> {
        if self.all_go_on(true, FOREVER)? {
            return Ok(self);
        }
        self.finish();
        let text = "the process of a rank has ended instead of beginning again with the others";
        Err(Error::rank_lost(text))
    }

    /// Waits for all ranks, so long at most; says whether none of them wants to end.
    fn all_go_on(&self, goes_on: bool, patience: Duration) -> Result<bool, Error> {
        self.meet(patience)?;
        let _serialized = serialized();
        let least = self.comm.smallest(u64::from(goes_on)).map_err(refused)?;
        Ok(least > 0)
    }

    /// All ranks do this now.
    fn finish(mut self) {
        let _serialized = serialized();
        self.comm.free();
        drop(self.universe.take());
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

impl Drop for MpiWorld {
    fn drop(&mut self) {
        if let Some(universe) = self.universe.take() {
            std::mem::forget(universe);
            std::io::stdout().flush().ok(); // the last words
            thread::sleep(LAST_WORDS);
            abort(1);
        }
    }
}

fn resting() -> MutexGuard<'static, Option<MpiWorld>> {
    RESTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process exits. A launcher takes one that leaves MPI as it is for one that has failed.
extern "C" fn end_resting() {
    let resting = resting().take().map(ManuallyDrop::new);
    let Some(world) = resting.filter(|_| !mpi::environment::is_finalized()) else {
        return;
    };
    // Those that begin again instead learn that this rank does not.
    if let Err(fault) = ManuallyDrop::into_inner(world).leave(false, FOREVER) {
        stderr::say(format_args!("MPI was not ended: {fault}"));
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
