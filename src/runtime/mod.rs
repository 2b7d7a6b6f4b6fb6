//! The runtime: workers, memory and messenger of one rank, reusable for many runs.
//!
//! # Elsewhere
//! How it is started: `builder`, `environment`. What it runs: `runs`. What all ranks call: `together`.
//! What they have recorded: `traces`.

mod builder;
mod environment;
mod runs;
mod together;
mod traces;

pub(crate) use builder::HereAmong;
pub use builder::RuntimeBuilder;
pub(crate) use environment::{TRACE_ROOM, variable, write_if_longest};

use dataflow_core::port::{Alone, Courier, Executor, Job, Memory};
use dataflow_core::rank::Rank;
use dataflow_core::trace::{Skew, Tracer};
use dataflow_mpi::{Counters, Messenger};
use dataflow_numa::{HugePages, Statistics, Warning, Workers};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// How ranks talk to each other: by which of the built-in transports, or by one of the program's own. What a
/// transport does is said by the trait [`mpi::transport::Transport`](dataflow_mpi::transport::Transport).
///
/// # Examples
/// ```
/// use dataflow::{Error, Runtime, Transport, launch};
///
/// let settings = Runtime::builder().threads(1).ranks(2).transport(Transport::Local);
/// let how = launch(settings, |runtime| Ok::<_, Error>(runtime.transport()))?;
/// assert_eq!(how, Transport::Local);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Ranks are threads of this process.
    #[default]
    Local,
    /// Ranks are processes over sockets: those that this process starts, or those that were started
    /// by hand, each with its [`Seat`](dataflow_mpi::start::Seat).
    Tcp,
    /// Ranks are what an MPI launcher has started (feature `mpi`).
    Mpi,
    /// The program has brought a transport of its own: [`launch_over`](crate::launch_over) and
    /// [`RuntimeBuilder::build_over`] take one.
    Own,
}

impl Transport {
    /// Whether this build has it: MPI asks for the feature `mpi`, the others for nothing.
    pub fn is_built_in(self) -> bool {
        self != Transport::Mpi || cfg!(feature = "mpi")
    }
}

/// Workers pinned to the cores that this process may use, and memory on huge pages.
///
/// Cheap to keep and to share: idle workers sleep. Runs of one rank alone may follow one another or overlap.
/// Those across ranks, [gathering](Self::gather) and its like included, follow one another, in the same order
/// on every rank.
///
/// # One rank or all
/// | what | this rank alone | all ranks, each of which makes the call |
/// |---|---|---|
/// | a task space | [`run`](Self::run) | [`run_across`](Self::run_across) |
/// | tasks in program order | [`scope`](Self::scope) | record them, then [`replay`](Self::replay) |
/// | a recorded program | [`Recorded::run`](crate::sequence::record::Recorded::run) | [`replay`](Self::replay) |
/// | a recursion | [`recursion::recurse`](crate::recursion::recurse) | [`recurse`](Self::recurse) |
/// | numbers or data of all ranks | – | [`all_reduce`](Self::all_reduce), [`repeat_until`](Self::repeat_until), [`gather`](Self::gather), [`collect`](Self::collect), [`agree`](Self::agree) |
///
/// On a runtime of one rank both columns do the same, but for the data, which must be able to travel
/// ([`Wire`](crate::core::port::Wire)) in the right one. A program that is [launched](crate::launch()) on
/// several ranks takes the right column for what its ranks do together. A call of the middle one is made on
/// each rank that comes to it, with that rank's own graph and data; for [`run`](Self::run) a space has all its
/// tasks on `Rank(0)`, as is the default, whichever rank calls it.
///
/// # Examples
/// ```
/// use dataflow::core::space::Independent;
/// let runtime = dataflow::Runtime::new()?;
/// let report = runtime.run(&Independent::new("nothing", 1000, |_| Ok(())))?;
/// assert_eq!(report.tasks, 1000);
/// # Ok::<(), dataflow::Error>(())
/// ```
pub struct Runtime {
    /// Before the workers: a messenger's thread may still ring them.
    messenger: Option<Messenger>,
    workers: Workers,
    memory: Arc<HugePages>,
    transport: Transport,
    n_ranks_here: usize,
    tracer: Option<Tracer>,
    /// On rank 0, by rank: how far its clock is ahead.
    skews: Mutex<Vec<Skew>>,
    /// Whether each thread of this machine has a core.
    has_cores: bool,
    /// Whether it was told that a step of another rank has failed.
    other_failed: AtomicBool,
}

impl Runtime {
    /// The courier, which reaches the other ranks.
    pub fn courier(&self) -> &dyn Courier {
        match &self.messenger {
            None => &Alone,
            Some(messenger) => messenger,
        }
    }

    /// The messenger, if there are other ranks.
    pub fn messenger(&self) -> Option<&Messenger> {
        self.messenger.as_ref()
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.courier().rank()
    }

    /// Number of ranks.
    pub fn n_ranks(&self) -> usize {
        self.courier().n_ranks()
    }

    /// Number of ranks that share this machine, this one included: so many parts its cores and its memory
    /// have.
    pub fn n_ranks_here(&self) -> usize {
        self.n_ranks_here
    }

    /// How ranks talk to each other; [`Transport::Local`] if they are threads of this process.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// What this rank has sent since the runtime was made; nothing if it is alone.
    ///
    /// # Examples
    /// ```
    /// use dataflow::{Runtime, launch};
    /// let sent = launch(Runtime::builder().threads(1).ranks(2), |runtime| {
    ///     let before = runtime.sent();
    ///     runtime.gather(vec![0; 100])?;
    ///     Ok::<_, dataflow::Error>(runtime.sent().since(&before))
    /// })?;
    /// assert_eq!(sent.messages, 1); // of rank 0: what both gave, to rank 1
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn sent(&self) -> Counters {
        let messenger = self.messenger.as_ref();
        messenger.map_or(Counters::default(), Messenger::counters)
    }

    /// Number of workers.
    pub fn n_threads(&self) -> usize {
        self.workers.n_workers()
    }

    /// Tasks that workers took from each other since the runtime was made.
    pub fn steals(&self) -> u64 {
        self.statistics().steals
    }

    /// What the workers did since the runtime was made.
    pub fn statistics(&self) -> Statistics {
        self.workers.statistics()
    }

    /// What is likely to make the workers slow, to be shown to the user.
    pub fn warnings(&self) -> &[Warning] {
        self.workers.warnings()
    }

    /// The memory of this runtime: huge pages where the system has them.
    pub fn memory(&self) -> Arc<dyn Memory> {
        self.memory.clone()
    }

    /// The tracer that records this runtime's runs, if its builder was [asked](RuntimeBuilder::trace) for
    /// one.
    pub fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_ref()
    }

    /// The workers.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Whether another rank is lost to this one, or a step of it has failed: it has the reason.
    pub(crate) fn lacks_another(&self) -> bool {
        let is_lost = self.messenger().is_some_and(Messenger::is_broken);
        is_lost || self.other_failed.load(Ordering::Relaxed)
    }
}

/// So that a runtime can be handed to whatever asks for an executor.
impl Executor for Runtime {
    fn n_workers(&self) -> usize {
        self.workers.n_workers()
    }

    fn execute(&self, job: &Arc<Job>) {
        self.workers.execute(job);
    }

    fn execute_inside(&self, job: &Arc<Job>) {
        self.workers.execute_inside(job);
    }

    fn is_uniform(&self) -> bool {
        self.workers.is_uniform()
    }

    fn courier(&self) -> &dyn Courier {
        self.courier()
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_ref()
    }

    fn memory(&self) -> Arc<dyn Memory> {
        self.memory()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("threads", &self.n_threads())
            .finish_non_exhaustive()
    }
}
