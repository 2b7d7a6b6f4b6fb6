//! The builder: settings of a runtime, and the start of its parts.

use super::{Runtime, Transport};
use dataflow_core::Error;
use dataflow_core::port::Executor;
use dataflow_core::trace::Tracer;
use dataflow_mpi::start::Seat;
use dataflow_mpi::transport;
use dataflow_mpi::{Drive, Machine, Messenger};
use dataflow_numa::topology::share::{self, LocalRank};
use dataflow_numa::{Bind, HugePages, Placing, Policy, Topology, Workers, WorkersBuilder};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Settings of a [`Runtime`].
///
/// # Examples
/// ```
/// use dataflow::{Bind, Policy, Runtime};
/// let builder = Runtime::builder().threads(2).bind(Bind::None).policy(Policy::distance());
/// assert_eq!(builder.build()?.n_threads(), 2);
/// # Ok::<(), dataflow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RuntimeBuilder {
    threads: Option<usize>,
    bind: Bind,
    policy: Policy,
    placing: Placing,
    pub(crate) ranks: usize,
    pub(crate) transport: Option<Transport>,
    pub(crate) seat: Option<Seat>,
    pub(crate) messages: dataflow_mpi::Settings,
    drive: Option<Drive>,
    pub(super) tracer: Option<Tracer>,
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        RuntimeBuilder {
            threads: None,
            bind: Bind::default(),
            policy: Policy::default(),
            placing: Placing::default(),
            ranks: 1,
            transport: None,
            seat: None,
            messages: dataflow_mpi::Settings::default(),
            drive: None,
            tracer: None,
        }
    }
}

impl Runtime {
    /// One worker for each core that this process may use, unless the environment says otherwise: as
    /// [`from_env`](Self::from_env).
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env), and if the system does not start the threads.
    pub fn new() -> Result<Self, Error> {
        Runtime::from_env()
    }

    /// A builder, to choose settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }
}

impl RuntimeBuilder {
    /// Number of workers of each rank; by default one for each core that its part of the machine
    /// has, and at least one.
    pub fn threads(self, threads: usize) -> Self {
        RuntimeBuilder {
            threads: Some(threads),
            ..self
        }
    }

    /// What each worker is bound to; by default a core of its own.
    pub fn bind(self, bind: Bind) -> Self {
        RuntimeBuilder { bind, ..self }
    }

    /// How ready tasks are queued, placed and stolen; by default [`Policy::distance`].
    pub fn policy(self, policy: Policy) -> Self {
        RuntimeBuilder { policy, ..self }
    }

    /// Where the runtime's memory lies on machines of several NUMA nodes; by default near the
    /// worker that asks for it.
    pub fn placing(self, placing: Placing) -> Self {
        RuntimeBuilder { placing, ..self }
    }

    /// Number of ranks; by default one, or as many as a launcher has started. More are started by
    /// [`launch`](crate::launch()).
    pub fn ranks(self, ranks: usize) -> Self {
        RuntimeBuilder { ranks, ..self }
    }

    /// How ranks talk to each other; by default as their launcher's, and without one as threads of
    /// this process.
    pub fn transport(self, transport: Transport) -> Self {
        let transport = Some(transport);
        RuntimeBuilder { transport, ..self }
    }

    /// Which rank this process is, of several over sockets that were started by hand.
    pub fn seat(self, seat: Seat) -> Self {
        let seat = Some(seat);
        RuntimeBuilder { seat, ..self }
    }

    /// Who moves messages; by default a thread of its own where each rank of this machine has a
    /// core to spare for it, and the workers elsewhere.
    pub fn drive(self, drive: Drive) -> Self {
        let drive = Some(drive);
        RuntimeBuilder { drive, ..self }
    }

    /// Records every run, in at most `bytes` on each rank: 32 for each task and for each of the four stamps
    /// of a message. Traces are kept
    /// until they are taken: see [`Tracer`] and [`Runtime::traces`].
    pub fn trace(self, bytes: usize) -> Self {
        let tracer = Some(Tracer::new(bytes));
        RuntimeBuilder { tracer, ..self }
    }

    /// How long a rank may be silent before the others count it as lost, and fail; by default ten
    /// seconds. Ranks send signs of life at least four times as often.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.messages.silence = silence;
        self.messages.beat = self.messages.beat.min(silence / 4);
        self
    }

    /// How long a thread that waits for messages polls at least before it sleeps; by default 50 µs, and up to
    /// two milliseconds where this rank has had to wait so long of late.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.messages.spin = spin;
        self
    }

    /// All other settings of communication; their `drive` is ignored.
    pub fn messages(self, messages: dataflow_mpi::Settings) -> Self {
        RuntimeBuilder { messages, ..self }
    }

    /// Starts the workers of a single rank.
    ///
    /// # Errors
    /// If zero threads or more than one rank were asked for, or the system does not start them.
    pub fn build(self) -> Result<Runtime, Error> {
        if self.ranks != 1 {
            return Err(Error::wrong_settings(format!(
                "{} ranks (1 is built; dataflow::launch starts several)",
                self.ranks
            )));
        }
        let workers = start(self.workers())?;
        Ok(Runtime {
            messenger: None,
            memory: Arc::new(HugePages::on(workers.topology(), self.placing)),
            workers,
            transport: Transport::Local,
            tracer: self.tracer,
            skews: Mutex::default(),
            has_cores: true,
        })
    }

    /// Starts one rank of several over a transport of your own, which says which rank it is and of how
    /// many; `local` says how many of them share this machine, and gets its part of the cores.
    ///
    /// What was said here of [ranks](Self::ranks), [transport](Self::transport) and [seat](Self::seat)
    /// has no meaning. If the ranks are threads of this process, use [`launch_over`](crate::launch_over).
    ///
    /// # Errors
    /// If zero threads were asked for, the system does not start them, or the transport carries less than
    /// 64 bytes.
    ///
    /// # Examples
    /// Guide: [`transport`](crate::guide::transport).
    pub fn build_over(
        &self,
        local: LocalRank,
        transport: Box<dyn transport::Transport>,
    ) -> Result<Runtime, Error> {
        self.build_rank(local, Transport::Own, transport)
    }

    /// Starts one rank of several, `local` among those of this machine.
    pub(crate) fn build_rank(
        &self,
        local: LocalRank,
        transport: Transport,
        carrier: Box<dyn transport::Transport>,
    ) -> Result<Runtime, Error> {
        // What a launcher says of itself is in `local`: a part of the part would be too little.
        let machine = Topology::discover_whole().map_err(wrong)?;
        let (part, room) = divide(machine, share::granted().as_deref(), local);
        let workers = start(self.workers().topology(part))?;
        let n_workers = workers.n_workers();
        let mut messages = dataflow_mpi::Settings {
            drive: self.drive.unwrap_or_else(|| room.drive(n_workers)),
            ..self.messages.clone()
        };
        let has_cores = room.has_cores(n_workers);
        if !has_cores {
            // Whoever looks for messages would take the core from whoever has work.
            messages.spin = Duration::ZERO;
        }
        let memory = Arc::new(HugePages::on(workers.topology(), self.placing));
        let messenger = Messenger::new(carrier, messages, Machine::new(), memory.clone())?;
        Ok(Runtime {
            messenger: Some(messenger),
            workers,
            memory,
            transport,
            tracer: self.tracer.as_ref().map(Tracer::another),
            skews: Mutex::default(),
            has_cores,
        })
    }

    fn workers(&self) -> WorkersBuilder {
        let workers = Workers::builder()
            .bind(self.bind)
            .policy(self.policy.clone());
        match self.threads {
            Some(threads) => workers.n_workers(threads),
            None => workers,
        }
    }
}

/// Of a machine that several ranks share: how much there is for all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SharedRoom {
    n_ranks: usize,
    n_cores: usize,
    /// Hyper-threads, those that only other ranks may use included.
    n_pus: usize,
}

impl SharedRoom {
    /// Who moves messages, if each rank has so many workers.
    fn drive(self, n_workers: usize) -> Drive {
        Drive::by_cores(self.n_cores, self.n_ranks, n_workers)
    }

    /// Whether no worker waits for another's core, if each rank has so many.
    fn has_cores(self, n_workers: usize) -> bool {
        self.n_ranks * n_workers <= self.n_pus
    }
}

/// The part of a whole machine that a rank gets, and what there is for all.
fn divide(
    machine: Topology,
    granted: Option<&[usize]>,
    local: LocalRank,
) -> (Topology, SharedRoom) {
    let n_cores = machine.n_cores();
    let room = SharedRoom {
        n_ranks: local.n_ranks,
        n_cores,
        n_pus: granted.map_or(0, <[usize]>::len).max(n_cores),
    };
    (share::part(machine, granted, local), room)
}

fn start(workers: WorkersBuilder) -> Result<Workers, Error> {
    workers.build().map_err(wrong)
}

fn wrong(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::wrong_settings(error.to_string()).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second of three ranks under MPI had one of eight cores: a part of its part.
    #[test]
    fn ranks_share_all_cores_of_a_machine_and_count_them_all() {
        let pus: Vec<usize> = (0..8).collect();
        for (n_ranks, parts, drives) in [
            (1, &[8][..], [Drive::Dedicated, Drive::Dedicated]),
            (2, &[4, 4], [Drive::Dedicated, Drive::Dedicated]),
            (3, &[2, 3, 3], [Drive::Dedicated, Drive::Workers]),
            (4, &[2, 2, 2, 2], [Drive::Dedicated, Drive::Workers]),
            (5, &[1, 2, 1, 2, 2], [Drive::Workers, Drive::Workers]),
        ] {
            for (rank, &n_cores) in parts.iter().enumerate() {
                let local = LocalRank { rank, n_ranks };
                let (part, room) = divide(Topology::flat(&pus), Some(&pus), local);
                assert_eq!(part.n_cores(), n_cores, "rank {rank} of {n_ranks}");
                let found = [1, 2].map(|n_workers| room.drive(n_workers));
                assert_eq!(found, drives, "rank {rank} of {n_ranks}");
                assert!(room.has_cores(8 / n_ranks) && !room.has_cores(8 / n_ranks + 1));
            }
        }
    }
}
