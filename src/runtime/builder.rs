//! The builder: settings of a runtime, and the start of its parts.

use super::{Runtime, Transport};
use dataflow_core::Error;
use dataflow_core::trace::Tracer;
use dataflow_mpi::start::Seat;
use dataflow_mpi::transport;
use dataflow_mpi::{Drive, Machine, Messenger};
use dataflow_numa::topology::share::{self, LocalRank};
use dataflow_numa::{Bind, HugePages, Placing, Policy, Topology, Workers, WorkersBuilder};
use std::sync::atomic::AtomicBool;
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
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is started until `build` is called or it is given to `launch`"]
pub struct RuntimeBuilder {
    threads: Option<usize>,
    bind: Bind,
    policy: Policy,
    placing: Placing,
    /// None: one, or as many as a launcher has started.
    pub(crate) ranks: Option<usize>,
    pub(crate) transport: Option<Transport>,
    pub(crate) seat: Option<Seat>,
    messages: dataflow_mpi::Settings,
    /// These three go before what `messages` say of them.
    silence: Option<Duration>,
    spin: Option<Duration>,
    drive: Option<Drive>,
    pub(super) tracer: Option<Tracer>,
}

impl Runtime {
    /// A builder, to choose settings. It does not heed what the environment says of workers:
    /// [`RuntimeBuilder::from_env`] does.
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
    ///
    /// Threads that a body starts, and children that it starts by `std::process::Command`, are bound to the
    /// same: the system hands the binding on.
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

    /// Number of ranks, which [`launch`](crate::launch()) starts; by default one, or as many as a launcher has
    /// started. If a launcher has started another number than is said here, one included, that is an error.
    pub fn ranks(self, ranks: usize) -> Self {
        let ranks = Some(ranks);
        RuntimeBuilder { ranks, ..self }
    }

    /// How ranks talk to each other; by default as their launcher's, and without one as threads of
    /// this process. Another than [`Transport::Local`] is only for [`launch`](crate::launch()).
    pub fn transport(self, transport: Transport) -> Self {
        let transport = Some(transport);
        RuntimeBuilder { transport, ..self }
    }

    /// Which rank this process is, of several over sockets that were started by hand: only for
    /// [`launch`](crate::launch()), and for no other transport than [`Transport::Tcp`].
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

    /// Records every run, in at most `bytes` on each rank: 32 for each task and for each of the six stamps
    /// of a message. A worker takes a 64th of them at a time, but 2 KiB at least and 64 KiB at most: with less
    /// for each, what the last ones do is not recorded. Traces are kept until they are taken: see [`Tracer`]
    /// and [`Runtime::traces`].
    pub fn trace(self, bytes: usize) -> Self {
        let tracer = Some(Tracer::new(bytes));
        RuntimeBuilder { tracer, ..self }
    }

    /// How long a rank may be silent before the others count it as lost, and fail; by default ten
    /// seconds. Ranks send signs of life at least four times as often.
    pub fn silence(self, silence: Duration) -> Self {
        let silence = Some(silence);
        RuntimeBuilder { silence, ..self }
    }

    /// Minimum time that a thread which waits for messages polls before it sleeps, by default 50 µs; it is
    /// extended to twice this rank's recent waits, at most two milliseconds, unless those were longer. Zero:
    /// never poll, as by default where the workers of all ranks here outnumber the cores.
    pub fn spin(self, spin: Duration) -> Self {
        let spin = Some(spin);
        RuntimeBuilder { spin, ..self }
    }

    /// All other settings of communication: what was or will be said by [`silence`](Self::silence) and
    /// [`spin`](Self::spin) goes before theirs, and their `drive` is ignored.
    pub fn messages(self, messages: dataflow_mpi::Settings) -> Self {
        RuntimeBuilder { messages, ..self }
    }

    /// Starts the workers of a single rank.
    ///
    /// # Errors
    /// If zero threads, more than one rank, a [seat](Self::seat) among others or a
    /// [transport](Self::transport) to others were asked for, or the system does not start the threads.
    pub fn build(self) -> Result<Runtime, Error> {
        if let Some(several) = self.ranks.filter(|&ranks| ranks != 1) {
            return Err(Error::wrong_settings(format!(
                "{several} ranks (1 is built; dataflow::launch starts several)"
            )));
        }
        if let Some(seat) = &self.seat {
            return Err(Error::wrong_settings(format!(
                "a seat as {} of {} (a rank alone is built; dataflow::launch takes a seat)",
                seat.rank, seat.n_ranks
            )));
        }
        if let Some(other) = self.transport.filter(|kind| *kind != Transport::Local) {
            return Err(Error::wrong_settings(format!(
                "the transport {other:?} (a rank alone is built; dataflow::launch takes a transport)"
            )));
        }
        Ok(self.alone(start(self.workers())?))
    }

    /// Starts one rank of several over a transport of your own, which says which rank it is and of how
    /// many; `local` says how many of them share this machine, and gets its part of the cores.
    ///
    /// What was said here of [ranks](Self::ranks), [transport](Self::transport) and [seat](Self::seat)
    /// has no meaning. If the ranks are threads of this process, use [`launch_over`](crate::launch_over).
    ///
    /// # Errors
    /// If `local` is none of the ranks that it counts, zero threads were asked for, the system does not
    /// start them, or the transport carries less than 64 bytes.
    ///
    /// # Examples
    /// Guide: [`transport`](crate::guide::transport).
    pub fn build_over(
        &self,
        local: LocalRank,
        transport: Box<dyn transport::Transport>,
    ) -> Result<Runtime, Error> {
        let LocalRank { rank, n_ranks } = local;
        if rank >= n_ranks {
            return Err(Error::wrong_settings(format!(
                "local rank {rank} of {n_ranks} (they are counted from 0)"
            )));
        }
        self.build_rank(local, Transport::Own, transport)
    }

    /// Starts one rank of several, `local` among those of this machine.
    pub(crate) fn build_rank(
        &self,
        local: impl Into<HereAmong>,
        transport: Transport,
        carrier: Box<dyn transport::Transport>,
    ) -> Result<Runtime, Error> {
        // What a launcher says of itself is in `local`: a part of the part would be too little.
        let machine = Topology::discover_whole().map_err(wrong)?;
        let (part, room) = divide(machine, share::granted().as_deref(), local.into());
        let alone = self.alone(start(self.workers().topology(part))?);
        let n_workers = alone.n_threads();
        let has_cores = room.has_cores(n_workers);
        let messages = dataflow_mpi::Settings {
            drive: self.drive.unwrap_or_else(|| room.drive(n_workers)),
            spin: self.polls_for(has_cores),
            ..self.communication()
        };
        let messenger = Messenger::new(carrier, messages, Machine::new(), alone.memory())?;
        Ok(Runtime {
            messenger: Some(messenger),
            transport,
            n_ranks_here: room.n_ranks,
            has_cores,
            ..alone
        })
    }

    /// The runtime that these workers make, with a memory of its own and no other ranks.
    fn alone(&self, workers: Workers) -> Runtime {
        Runtime {
            messenger: None,
            memory: Arc::new(HugePages::on(workers.topology(), self.placing)),
            workers,
            transport: Transport::Local,
            n_ranks_here: 1,
            tracer: self.tracer.as_ref().map(Tracer::another),
            skews: Mutex::default(),
            has_cores: true,
            other_failed: AtomicBool::new(false),
        }
    }

    /// The settings of communication, but for who moves messages.
    pub(crate) fn communication(&self) -> dataflow_mpi::Settings {
        let mut messages = self.messages.clone();
        if let Some(silence) = self.silence {
            messages.silence = silence;
            messages.beat = messages.beat.min(silence / 4);
        }
        messages.spin = self.spin.unwrap_or(messages.spin);
        messages
    }

    /// How long a thread that waits for messages polls: where workers wait for cores it would take one from who
    /// has work, so only if it was asked to.
    fn polls_for(&self, has_cores: bool) -> Duration {
        match has_cores {
            true => self.communication().spin,
            false => self.spin.unwrap_or_default(),
        }
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

/// A rank among those of its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HereAmong {
    /// Its process among those to which a launcher may have given masks of their own.
    process: LocalRank,
    /// It among the ranks that are sure to have the mask of that process: its threads, or processes that
    /// were started by one of them.
    of_one_mask: LocalRank,
}

/// Who shares with nobody.
const ALONE: LocalRank = LocalRank {
    rank: 0,
    n_ranks: 1,
};

impl HereAmong {
    /// A rank among those of one mask; they are all of this machine, or there are as many in each of a
    /// launcher's processes.
    pub fn one_mask(process: Option<LocalRank>, of_one_mask: LocalRank) -> Self {
        HereAmong {
            process: process.unwrap_or(ALONE),
            of_one_mask,
        }
    }

    fn n_ranks(self) -> usize {
        let of_each = self.of_one_mask.n_ranks;
        self.process.n_ranks.saturating_mul(of_each)
    }
}

/// Each rank is a process of its own, and somebody else has started it.
impl From<LocalRank> for HereAmong {
    fn from(process: LocalRank) -> Self {
        HereAmong {
            process,
            of_one_mask: ALONE,
        }
    }
}

/// Of a machine that several ranks share: how much there is for all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SharedRoom {
    n_ranks: usize,
    /// Those that only other ranks may use included.
    n_cores: usize,
    /// Hyper-threads, also of all.
    n_pus: usize,
}

impl SharedRoom {
    /// Who moves messages, if each rank has so many workers.
    fn drive(self, n_workers: usize) -> Drive {
        Drive::by_cores(self.n_cores, self.n_ranks, n_workers)
    }

    /// Whether no worker waits for another's core, if each rank has so many.
    fn has_cores(self, n_workers: usize) -> bool {
        self.n_ranks.saturating_mul(n_workers) <= self.n_pus
    }
}

/// The part that a rank gets of what its mask has of a machine, and what there is for all.
fn divide(masked: Topology, granted: Option<&[usize]>, here: HereAmong) -> (Topology, SharedRoom) {
    let n_masks = share::n_masks(&masked, granted).min(here.process.n_ranks);
    let room = SharedRoom {
        n_ranks: here.n_ranks(),
        n_cores: n_masks * masked.n_cores(),
        n_pus: n_masks * masked.n_pus(),
    };
    let of_process = share::part(masked, granted, here.process);
    (share::part(of_process, None, here.of_one_mask), room)
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
    use dataflow_core::space::Independent;

    #[test]
    fn runtimes_of_one_builder_keep_traces_of_their_own() {
        let builder = Runtime::builder().threads(1).trace(1 << 16);
        let [first, second] = [builder.clone(), builder].map(|builder| builder.build().unwrap());
        let nothing = Independent::new("nothing", 3, |_| Ok(()));
        first.run(&nothing).unwrap();
        let found = [&second, &first].map(|runtime| runtime.traces().unwrap().len());
        assert_eq!(found, [0, 1]);
    }

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
                let local = LocalRank { rank, n_ranks }.into();
                let (part, room) = divide(Topology::flat(&pus), Some(&pus), local);
                assert_eq!(part.n_cores(), n_cores, "rank {rank} of {n_ranks}");
                let found = [1, 2].map(|n_workers| room.drive(n_workers));
                assert_eq!(found, drives, "rank {rank} of {n_ranks}");
                assert!(room.has_cores(8 / n_ranks) && !room.has_cores(8 / n_ranks + 1));
            }
        }
        // A launcher has given each of two its half: of their eight cores two are to spare.
        for (rank, mask) in [&pus[..4], &pus[4..]].into_iter().enumerate() {
            let local = LocalRank { rank, n_ranks: 2 }.into();
            let (part, room) = divide(Topology::flat(mask), Some(&pus), local);
            assert_eq!((part.n_cores(), room.n_cores), (4, 8), "rank {rank}");
            assert_eq!(room.drive(2), Drive::Dedicated, "rank {rank}");
            assert_eq!(room.drive(4), Drive::Workers, "rank {rank}");
            assert!(room.has_cores(4) && !room.has_cores(5));
        }
    }

    fn pus(part: &Topology) -> impl Iterator<Item = usize> + '_ {
        part.cores().iter().flat_map(|core| core.pus.clone())
    }

    #[test]
    fn ranks_that_are_threads_of_several_processes_share_no_core() {
        let machine: Vec<usize> = (0..8).collect();
        for masks in [[&machine[..]; 2], [&machine[..4], &machine[4..]]] {
            let mut taken = Vec::new();
            for (process, mask) in masks.into_iter().enumerate() {
                for thread in 0..3 {
                    let [process, thread] = [(process, 2), (thread, 3)]
                        .map(|(rank, n_ranks)| LocalRank { rank, n_ranks });
                    let here = HereAmong::one_mask(Some(process), thread);
                    let (part, room) = divide(Topology::flat(mask), Some(&machine), here);
                    assert_eq!((room.n_ranks, room.n_cores), (6, 8));
                    taken.extend(pus(&part));
                }
            }
            taken.sort_unstable();
            assert_eq!(taken, machine, "{masks:?}");
        }
    }

    /// Under `taskset -c 0-3` on eight cores each of two took all four, as if a launcher had divided them.
    #[test]
    fn ranks_of_one_mask_divide_it_however_small_it_is() {
        let machine: Vec<usize> = (0..8).collect();
        for (n_pus, n_ranks) in [(4, 2), (2, 2), (3, 2), (4, 4), (8, 2)] {
            let mask = &machine[..n_pus];
            let mut taken = Vec::new();
            for rank in 0..n_ranks {
                let here = HereAmong::one_mask(None, LocalRank { rank, n_ranks });
                let (part, room) = divide(Topology::flat(mask), Some(&machine), here);
                assert_eq!((room.n_cores, room.n_pus), (n_pus, n_pus));
                taken.extend(pus(&part));
            }
            assert_eq!(taken, mask, "{n_ranks} ranks");
        }
    }

    /// Settings that were given as a whole took back what had been said before.
    #[test]
    fn silence_and_spin_go_before_the_other_settings_of_messages_in_either_order() {
        let [silence, spin] = [2, 3].map(Duration::from_secs);
        let others = dataflow_mpi::Settings {
            held_bytes: 77,
            ..dataflow_mpi::Settings::default()
        };
        let first = Runtime::builder().silence(silence).spin(spin);
        let last = Runtime::builder().messages(others.clone());
        for builder in [first.messages(others), last.silence(silence).spin(spin)] {
            let told = builder.communication();
            assert_eq!((told.silence, told.spin), (silence, spin));
            assert_eq!((told.beat, told.held_bytes), (silence / 4, 77));
        }
    }

    /// What was said of it was dropped without a word.
    #[test]
    fn where_workers_outnumber_cores_nobody_polls_unless_a_time_is_said() {
        let (unasked, spin) = (Runtime::builder(), Duration::from_millis(3));
        let usual = dataflow_mpi::Settings::default().spin;
        assert_eq!(
            [true, false].map(|cores| unasked.polls_for(cores)),
            [usual, Duration::ZERO]
        );
        let asked = unasked.spin(spin);
        assert_eq!([true, false].map(|cores| asked.polls_for(cores)), [spin; 2]);
    }
}
