//! The runtime: workers, memory and messenger of one rank, reusable for many runs.

use crate::clocks::{Clocks, machine};
use crate::collective::{Agreement, Gather};
use dataflow_core::data::Store;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Context, Courier, Executor, Job, Memory, Wire};
use dataflow_core::rank::Rank;
use dataflow_core::recursion::{Recursive, recurse_across};
use dataflow_core::sequence::record::Recorded;
use dataflow_core::sequence::{self, Scope};
use dataflow_core::space::{Collect, Erased, TaskSpace};
use dataflow_core::trace::{Skew, Trace, Tracer};
use dataflow_core::{Error, Report, run, run_across};
use dataflow_mpi::start::Seat;
use dataflow_mpi::transport::Transport as Carrier;
use dataflow_mpi::{Counters, Drive, Machine, Messenger};
use dataflow_numa::topology::share::{self, LocalRank};
use dataflow_numa::{
    Bind, HugePages, Placing, Policy, Statistics, Topology, Warning, Workers, WorkersBuilder,
};
use std::env;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How ranks talk to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Ranks are threads of this process.
    #[default]
    Local,
    /// Ranks are processes over sockets: those that this process starts, or those that were started
    /// by hand, each with its [`Seat`].
    Tcp,
    /// Ranks are what an MPI launcher has started (feature `mpi`).
    Mpi,
    /// The program has brought a transport of its own: [`launch_over`](crate::launch_over) and
    /// [`RuntimeBuilder::build_over`] take one.
    Own,
}

/// Workers pinned to the cores that this process may use, and memory on huge pages.
///
/// Cheap to keep and to share: idle workers sleep. Runs may follow one another or overlap.
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
    tracer: Option<Tracer>,
    /// On rank 0, by rank: how far its clock is ahead.
    skews: Mutex<Vec<Skew>>,
    /// Whether each thread of this machine has a core.
    has_cores: bool,
}

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
    tracer: Option<Tracer>,
}

impl Runtime {
    /// One worker for each core that this process may use.
    ///
    /// # Errors
    /// If the system does not start the threads.
    pub fn new() -> Result<Self, Error> {
        Runtime::builder().build()
    }

    /// The runtime of the whole process, with the settings of the environment
    /// ([`from_env`](Self::from_env)): started at the first call, kept to the end. [`Dense`](crate::Dense)
    /// uses it; a program with a runtime of its own does not need it.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env), the same at every call.
    pub fn shared() -> Result<&'static Runtime, Error> {
        static SHARED: OnceLock<Result<Runtime, Error>> = OnceLock::new();
        SHARED
            .get_or_init(Runtime::from_env)
            .as_ref()
            .map_err(Error::clone)
    }

    /// A builder, to choose settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// The settings of the environment: `DATAFLOW_THREADS` (a number), `DATAFLOW_BIND`
    /// (`cores`, `pus` or `none`), `DATAFLOW_POLICY` (the text of a [`Policy`]) and `DATAFLOW_TRACE` (a
    /// file for the trace of the longest run of this process, in the format of its extension).
    ///
    /// # Errors
    /// If a variable is set to something else; the text names it, its value and what is allowed.
    pub fn from_env() -> Result<Self, Error> {
        let mut builder = Runtime::builder();
        if let Some(threads) = variable("DATAFLOW_THREADS")? {
            let wrong = || {
                let text = format!("DATAFLOW_THREADS is {threads:?} (must be a number, 1 or more)");
                Error::wrong_settings(text)
            };
            builder = builder.threads(threads.parse().map_err(|_| wrong())?);
        }
        if let Some(bind) = variable("DATAFLOW_BIND")? {
            let wrong = |error| Error::wrong_settings(format!("DATAFLOW_BIND: {error}"));
            builder = builder.bind(bind.parse().map_err(wrong)?);
        }
        if let Some(policy) = variable("DATAFLOW_POLICY")? {
            let wrong = |error| Error::wrong_settings(format!("DATAFLOW_POLICY: {error}"));
            builder = builder.policy(policy.parse().map_err(wrong)?);
        }
        builder.tracer = page()?.map(tracer_to);
        builder.build()
    }

    /// Runs all tasks of a space on this rank alone.
    ///
    /// # Errors
    /// As [`dataflow_core::run`].
    pub fn run<S: TaskSpace>(&self, space: &S) -> Result<Report, Error> {
        run(space, self)
    }

    /// Runs a program that inserts tasks on data with versions, and all tasks that it inserts, on this
    /// rank; returns the program's result and the report of the run. See [`sequence`](crate::sequence).
    ///
    /// # Errors
    /// As [`sequence::scope`].
    ///
    /// # Examples
    /// ```
    /// use dataflow::sequence::{read, write};
    /// let (mut a, mut b) = (1, 2);
    /// dataflow::Runtime::new()?.scope(|s| {
    ///     let (a, b) = (s.handle(&mut a), s.handle(&mut b));
    ///     s.task(write(&a), |a| **a *= 10);
    ///     s.task((read(&a), write(&b)), |(a, b)| **b += **a);
    /// })?;
    /// assert_eq!((a, b), (10, 12));
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn scope<'env, R: Send>(
        &self,
        program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
    ) -> Result<(R, Report), Error> {
        sequence::scope(self, program)
    }

    /// Runs the tasks that a space places on this rank, together with the other ranks, each of
    /// which calls this with the same space. On a single rank the same as [`run`](Self::run).
    ///
    /// # Errors
    /// As [`dataflow_core::run_across`], the same on every rank.
    pub fn run_across<S: TaskSpace<Datum: Wire>>(&self, space: &S) -> Result<Report, Error> {
        run_across(space, self)
    }

    /// Returns on every rank what each rank has given, by rank. For a few numbers, not for large data.
    ///
    /// # Errors
    /// If a rank is lost, or makes another call instead.
    pub fn gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        let gather = Gather::new(own, self.n_ranks());
        self.run_across(&gather)?;
        Ok(gather.into_all())
    }

    /// Brings the data of a store to the rank `to`, in order; `None` on the other ranks. Every rank
    /// calls it with its own store, as many slots on each, and `owner` says in whose a datum is. The
    /// stores stay as they are.
    ///
    /// Costs a message for each datum of another rank, and on `to` memory for all of them. For a matrix
    /// take [`TiledMatrix::collect`](dataflow_linalg::matrix::TiledMatrix::collect).
    ///
    /// # Errors
    /// If a slot is empty on its owner, `to` or an owner is no rank, ranks name different numbers of
    /// data, or a rank is lost.
    ///
    /// # Examples
    /// Numbers that are dealt out to three ranks:
    /// ```
    /// use dataflow::prelude::*;
    ///
    /// let all = launch(Runtime::builder().ranks(3).threads(1), |runtime| {
    ///     let owner = |at: usize| Rank(at as u32 % 3);
    ///     let squares = Store::empty("squares", 7);
    ///     for at in (0..7).filter(|&at| owner(at) == runtime.rank()) {
    ///         squares.put(at, Version::new((at * at) as u64));
    ///     }
    ///     runtime.collect(&squares, owner, Rank(0))
    /// })?;
    /// assert_eq!(all, Some(vec![0, 1, 4, 9, 16, 25, 36]));
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn collect<D: Wire>(
        &self,
        store: &Store<D>,
        owner: impl Fn(usize) -> Rank + Sync,
        to: Rank,
    ) -> Result<Option<Vec<D>>, Error> {
        let places = |datum| (owner(datum), datum);
        let collect = Collect::new(store, store.len(), &places, to);
        self.run_across(&Erased::new(&collect))?;
        Ok(collect.into_data().filter(|_| self.rank() == to))
    }

    /// Combines the values of all ranks into one, on every rank: each folds them with `op` from the
    /// lowest rank to the highest, so all get the same bits. For a number, or an array of a few.
    ///
    /// Costs a message from each rank to each other.
    ///
    /// # Errors
    /// If a rank is lost, or does something else instead.
    ///
    /// # Examples
    /// ```
    /// use dataflow::{Runtime, launch};
    /// let sums = launch(Runtime::builder().ranks(3).threads(1), |runtime| {
    ///     let rank = f64::from(runtime.rank().0);
    ///     runtime.all_reduce([rank, -rank], |a, b| [a[0] + b[0], a[1].min(b[1])])
    /// })?;
    /// assert_eq!(sums, [3.0, -2.0]);
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn all_reduce<T: bytemuck::Pod>(
        &self,
        own: T,
        op: impl FnMut(T, T) -> T,
    ) -> Result<T, Error> {
        let all = self.gather(bytemuck::bytes_of(&own).to_vec())?;
        let differs = |bytes: &[u8]| {
            let (len, own) = (bytes.len(), size_of::<T>());
            Error::malformed(format!(
                "a value of {len} bytes from a rank (here it has {own})"
            ))
        };
        let read =
            |bytes: &Vec<u8>| bytemuck::try_pod_read_unaligned(bytes).map_err(|_| differs(bytes));
        let values = all.iter().map(read).collect::<Result<Vec<T>, _>>()?;
        Ok(values.into_iter().reduce(op).unwrap_or(own))
    }

    /// Repeats a step on all ranks, each of which calls this, until every rank could stop: the step gets
    /// the number of steps before it, and returns whether its rank could stop. Returns the number of
    /// steps; `None` if there were `limit` and a rank would still go on.
    ///
    /// A step finds the data as the last has left them: in the stores of a space, or in the data of a
    /// [replayed](Self::replay) program. The page [`converge`](crate::guide::converge) of the guide
    /// shows it.
    ///
    /// # Errors
    /// The error of a step, on its rank; the others' error names that rank. Or as
    /// [`all_reduce`](Self::all_reduce).
    pub fn repeat_until(
        &self,
        limit: u64,
        mut step: impl FnMut(u64) -> Result<bool, Error>,
    ) -> Result<Option<u64>, Error> {
        const FAILED: u32 = 0;
        const AGAIN: u32 = 1;
        const DONE: u32 = 2;
        let Rank(rank) = self.rank();
        for number in 0..limit {
            let ended = step(number);
            let own = match &ended {
                Err(_) => FAILED,
                Ok(false) => AGAIN,
                Ok(true) => DONE,
            };
            // Also after a failure: the others must not wait for a rank that has left.
            let least = self.all_reduce([own, rank], |a, b| a.min(b));
            ended?;
            match least? {
                [FAILED, of] => {
                    let text = format!("rank {of} failed in step {number}");
                    return Err(Error::rank_lost(text));
                }
                [DONE, _] => return Ok(Some(number + 1)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Compares settings by name and value with the other ranks'.
    ///
    /// # Errors
    /// The first that differs, with both values; the same on every rank.
    pub fn agree(&self, name: &str, settings: &[(&str, String)]) -> Result<(), Error> {
        self.run_across(&Agreement { name, settings }).map(drop)
    }

    /// Runs a recorded program, this rank's part of it if there are several, each of which has
    /// recorded the same; as often as one likes. See [`record`](crate::sequence::record).
    ///
    /// # Errors
    /// As [`Recorded::run_across`], the same on every rank.
    pub fn replay<D: Wire>(&self, program: &Recorded<'_, D>) -> Result<Report, Error> {
        program.run_across(self)
    }

    /// Solves a recursive problem on all ranks, each of which calls this; returns the value on each rank,
    /// and the number of calls made on this one. See
    /// [`recursion`](crate::recursion).
    ///
    /// # Errors
    /// As [`recurse_across`], the same on every rank.
    ///
    /// # Examples
    /// ```
    /// use dataflow::TaskError;
    /// use dataflow::recursion::{Call, Recursive};
    ///
    /// struct Subsets;
    /// impl Recursive for Subsets {
    ///     type Argument = u64;
    ///     type Value = u64;
    ///     fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
    ///         Ok(Call::fork(0..n, |values| 1 + values.into_iter().sum::<u64>()))
    ///     }
    /// }
    /// let (subsets, report) = dataflow::Runtime::new()?.recurse(&Subsets, 10)?;
    /// assert_eq!((subsets, report.tasks), (1024, 1024));
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn recurse<P: Recursive<Value: Wire>>(
        &self,
        problem: &P,
        argument: P::Argument,
    ) -> Result<(P::Value, Report), Error> {
        recurse_across(problem, argument, self)
    }

    /// This runtime with a monitor, which can tell progress and cancel: for whatever takes an
    /// executor.
    ///
    /// # Examples
    /// ```
    /// use dataflow::core::space::Independent;
    /// use dataflow::{Monitor, Runtime, core::run_across};
    /// let (runtime, monitor) = (Runtime::new()?, Monitor::new());
    /// let space = Independent::new("nothing", 1000, |_| Ok(()));
    /// run_across(&space, &runtime.watched_by(&monitor))?;
    /// assert_eq!(monitor.progress().done, 1000);
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn watched_by<'a>(&'a self, monitor: &'a Monitor) -> Context<'a> {
        Context::new(self).watched_by(monitor)
    }

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

    /// How ranks talk to each other; [`Transport::Local`] if they are threads of this process.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// What this rank has sent since the runtime was made; nothing if it is alone.
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

    /// The traces of the runs that all ranks have made since they were last taken, each with the parts
    /// of all ranks, on rank 0; nothing on the others. All ranks call it.
    ///
    /// Sends what the others have recorded to rank 0: some twenty bytes a task.
    ///
    /// # Errors
    /// If a rank is lost, or does something else instead.
    ///
    /// # Examples
    /// ```
    /// use dataflow::core::space::Independent;
    /// let runtime = dataflow::Runtime::builder().trace(1 << 20).build()?;
    /// runtime.run(&Independent::new("sleep", 2, |_| Ok(std::thread::sleep(std::time::Duration::from_millis(1)))))?;
    /// let traces = runtime.traces()?;
    /// let told = traces[0].explanation();
    /// assert!(told.in_bodies() > 0.0 && told.n_tasks == 2);
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn traces(&self) -> Result<Vec<Trace>, Error> {
        let Some(tracer) = &self.tracer else {
            return Ok(Vec::new());
        };
        let own = tracer.take();
        if self.n_ranks() == 1 {
            return Ok(own);
        }
        let was_on = tracer.is_on();
        tracer.set_on(false);
        let joined = self.joined(own);
        tracer.set_on(was_on);
        joined
    }

    /// Compares the clocks of the ranks, if runs are recorded, ranks are no threads of one process, and
    /// so may be on several machines. All ranks call it.
    pub(crate) fn compare_clocks(&self) -> Result<(), Error> {
        if self.tracer.is_none() || self.n_ranks() == 1 || self.transport == Transport::Local {
            return Ok(());
        }
        // The workers have no tracer.
        let context = Context::new(&self.workers).across(self.courier());
        let own = [vec![u8::from(self.has_cores)], machine()].concat();
        let gather = Gather::new(own, self.n_ranks());
        run_across(&gather, &context)?;
        let told = gather.into_all();
        let (cores, machines): (Vec<_>, Vec<_>) =
            told.iter().filter_map(|told| told.split_first()).unzip();
        let clocks = Clocks::new(&machines);
        run_across(&clocks, &context)?;
        // Where each thread has a core, waiting for messages may keep one busy.
        let have_cores = cores.into_iter().all(|&has| has == 1);
        if let (Some(messenger), true) = (&self.messenger, have_cores && clocks.are_several()) {
            clocks.ask_bare(messenger)?;
        }
        if self.rank() == Rank(0) {
            let skews = self.skews.lock();
            clocks.add_to(&mut skews.unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    /// Traces of runs, each with those of the other ranks.
    fn joined(&self, own: Vec<Trace>) -> Result<Vec<Trace>, Error> {
        self.compare_clocks()?;
        let mut traces = Vec::new();
        // As many as on the rank that has least: of a run that failed one may have nothing.
        let n_runs = self.all_reduce(own.len() as u64, u64::min)? as usize;
        for trace in own.into_iter().take(n_runs) {
            let bytes = match self.rank() {
                Rank(0) => Vec::new(),
                _ => trace.to_bytes(),
            };
            let gather = Gather::on_first(bytes, self.n_ranks());
            self.run_across(&gather)?;
            if self.rank() == Rank(0) {
                let joined = self.on_one_clock(trace, &gather.into_all());
                traces.push(joined.map_err(Error::malformed)?);
            }
        }
        Ok(traces)
    }

    /// A run as rank 0 has recorded it with the parts of the others, by rank 0's clock.
    fn on_one_clock(&self, own: Trace, others: &[Vec<u8>]) -> Result<Trace, String> {
        let mut parts = vec![own];
        for (rank, bytes) in others.iter().enumerate().skip(1) {
            let part = parts[0].of_another(bytes)?;
            let mut skew = self.skew(rank);
            skew.add_messages(&part, &parts);
            parts.push(part.by_another_clock(&skew));
        }
        Ok(Trace::of_ranks(parts))
    }

    /// How far the clock of a rank is ahead of rank 0's, as far as that was looked at.
    fn skew(&self, rank: usize) -> Skew {
        let skews = self.skews.lock().unwrap_or_else(PoisonError::into_inner);
        skews.get(rank).cloned().unwrap_or_default()
    }

    /// The workers.
    pub fn workers(&self) -> &Workers {
        &self.workers
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

    /// Where the environment wants a trace, if these settings ask for none.
    pub(crate) fn page(&self) -> Result<Option<PathBuf>, Error> {
        match self.tracer {
            Some(_) => Ok(None),
            None => page(),
        }
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
        transport: Box<dyn Carrier>,
    ) -> Result<Runtime, Error> {
        self.build_rank(local, Transport::Own, transport)
    }

    /// Starts one rank of several, `local` among those of this machine.
    pub(crate) fn build_rank(
        &self,
        local: LocalRank,
        transport: Transport,
        carrier: Box<dyn Carrier>,
    ) -> Result<Runtime, Error> {
        let machine = Topology::discover().map_err(wrong)?;
        let n_cores = machine.n_cores();
        let granted = share::granted();
        let room = granted.as_ref().map_or(0, Vec::len).max(n_cores);
        let topology = share::part(machine, granted.as_deref(), local);
        let workers = start(self.workers().topology(topology))?;
        let n_workers = workers.n_workers();
        let by_cores = || Drive::by_cores(n_cores, local.n_ranks, n_workers);
        let mut messages = dataflow_mpi::Settings {
            drive: self.drive.unwrap_or_else(by_cores),
            ..self.messages.clone()
        };
        let has_cores = local.n_ranks * n_workers <= room;
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

fn start(workers: WorkersBuilder) -> Result<Workers, Error> {
    workers.build().map_err(wrong)
}

fn wrong(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::wrong_settings(error.to_string()).with_source(error)
}

/// Bytes of records, where nobody says how many: eight million tasks.
pub(crate) const TRACE_ROOM: usize = 256 << 20;

/// The file that `DATAFLOW_TRACE` names.
fn page() -> Result<Option<PathBuf>, Error> {
    let Some(path) = variable("DATAFLOW_TRACE")?.map(PathBuf::from) else {
        return Ok(None);
    };
    match dataflow_trace::Format::of(&path) {
        Some(_) => Ok(Some(path)),
        None => {
            let unknown = dataflow_trace::WriteError::Extension(path);
            Err(Error::wrong_settings(format!("DATAFLOW_TRACE: {unknown}")))
        }
    }
}

/// Writes the trace of the longest run so far to a file.
fn tracer_to(path: PathBuf) -> Tracer {
    let longest = Mutex::new(0);
    let write = move |trace: Trace| {
        let mut longest = longest.lock().unwrap_or_else(PoisonError::into_inner);
        if trace.length() > *longest {
            *longest = trace.length();
            if let Err(fault) = dataflow_trace::write(&trace, &path) {
                eprintln!("dataflow: DATAFLOW_TRACE: {fault}");
            }
        }
    };
    Tracer::new(TRACE_ROOM).telling(write)
}

/// A variable of the environment; `None` if it is not set or empty.
fn variable(name: &str) -> Result<Option<String>, Error> {
    match env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Error::wrong_settings(format!(
            "{name} is not valid Unicode"
        ))),
    }
}
