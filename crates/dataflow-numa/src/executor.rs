//! Executor: a pool of pinned workers that runs many jobs, until its owner drops it.

use crate::Answer;
use crate::lacks::{self, Lack};
use crate::pages::{self, PagesError};
use crate::pin::{PinError, allowed_pus, become_worker, usable_pus};
use crate::place::{Bind, Place};
use crate::policy::Policy;
use crate::pool::Pool;
use crate::rivals::{Rival, rivals};
use crate::statistics::{Statistics, WorkerStatistics};
use crate::topology::{Topology, TopologyError};
use crate::worker::{self, Worker};
use dataflow_core::port::{Executor, Inline, Job, MANY_INSIDE};
use dataflow_core::stderr;
use dataflow_core::words::counted;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// A pool of workers, one pinned to each allowed core unless asked otherwise.
///
/// The threads are started once, sleep without using the processor while there is nothing to do,
/// and end when the pool is dropped. Jobs may follow one another or be given at once by
/// several threads; then the earlier ones are served first: a job that comes later waits until a
/// worker finds nothing to do in those before it.
///
/// A job that arrives at a sleeping pool waits until a thread is woken: some 5 to 50 µs, and 80 on a
/// busy machine, of which a bare condition variable takes half. A job that follows within 50 µs finds
/// workers awake and waits for less than a microsecond. The calling thread runs no tasks. A body must
/// not wait for a job that another thread gives to the same pool: the body occupies its worker meanwhile,
/// and may wait for ever.
///
/// ```
/// use dataflow_core::port::Executor;
/// use dataflow_numa::Workers;
///
/// let workers = Workers::builder().n_workers(2).build()?;
/// assert_eq!(workers.n_workers(), 2);
/// for warning in workers.warnings() {
///     eprintln!("warning: {warning}");
/// }
/// # Ok::<(), dataflow_numa::WorkersError>(())
/// ```
pub struct Workers {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
    topology: Topology,
    warnings: Vec<Warning>,
}

const _: () = assert!(Workers::MOST <= MANY_INSIDE);

/// Settings of [`Workers`].
///
/// # Examples
/// See [`Workers`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is started until `build` is called"]
pub struct WorkersBuilder {
    n_workers: Option<usize>,
    bind: Bind,
    policy: Policy,
    topology: Option<Topology>,
}

/// Why there are no workers.
///
/// # Examples
/// ```
/// use dataflow_numa::{Workers, WorkersError};
///
/// let refused = Workers::builder().n_workers(10_000).build().unwrap_err();
/// assert_eq!(refused, WorkersError::TooManyWorkers { n_workers: 10_000, most: Workers::MOST });
/// assert_eq!(refused.to_string(), "10000 workers are more than a pool takes (at most 8192)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkersError {
    /// Zero were asked for.
    NoWorkers {
        /// How many can run without sharing a core (or a PU, if bound to PUs).
        allowed: usize,
    },
    /// More were asked for than a pool takes.
    TooManyWorkers {
        /// How many were asked for.
        n_workers: usize,
        /// How many a pool has at most: [`Workers::MOST`].
        most: usize,
    },
    /// The operating system did not start a thread.
    ThreadNotStarted {
        /// The worker's index.
        worker: usize,
        /// What the system answered.
        reason: Answer,
    },
    /// The file that the environment names does not describe a machine.
    Topology(TopologyError),
}

/// What is likely to make workers slow.
///
/// # Examples
/// ```
/// use dataflow_numa::{Bind, Topology, Warning, Workers};
///
/// let two_cores = Workers::builder().topology(Topology::flat(&[0, 1])).bind(Bind::None);
/// let workers = two_cores.n_workers(3).build()?;
/// let crowded = Warning::MoreWorkersThanCores { n_workers: 3, n_cores: 2 };
/// assert!(workers.warnings().contains(&crowded));
/// assert_eq!(crowded.to_string(), "3 workers share 2 cores");
/// # Ok::<(), dataflow_numa::WorkersError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Workers share cores.
    MoreWorkersThanCores {
        /// How many workers there are.
        n_workers: usize,
        /// How many cores this process may use.
        n_cores: usize,
    },
    /// A time quota (a container's) pays for fewer cores than there are workers.
    Quota {
        /// How many workers there are.
        n_workers: usize,
        /// How many cores' time the quota allows.
        n_paid: usize,
    },
    /// A worker runs unpinned.
    NotPinned {
        /// The worker's index.
        worker: usize,
        /// Why.
        error: PinError,
    },
    /// Another pool of threads is to run on the same cores.
    Rival(Rival),
    /// There are several NUMA nodes, and the system does not allow asking on which of them memory lies:
    /// tasks are not placed by their data.
    NoLocality(PagesError),
    /// The system has not all that workers use where it is there; said once for all of them.
    Lacks(Vec<Lack>),
}

impl fmt::Display for WorkersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkersError::NoWorkers { allowed: 1 } => {
                f.write_str("0 workers run nothing (1 is needed; this process may use 1 core)")
            }
            WorkersError::NoWorkers { allowed } => write!(
                f,
                "0 workers run nothing (1 at least; 1 to {allowed} have what they are bound to for themselves)"
            ),
            WorkersError::TooManyWorkers { n_workers, most } => {
                write!(
                    f,
                    "{n_workers} workers are more than a pool takes (at most {most})"
                )
            }
            WorkersError::ThreadNotStarted { worker, reason } => {
                write!(f, "the thread of worker {worker} was not started: {reason}")
            }
            WorkersError::Topology(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WorkersError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WorkersError::ThreadNotStarted { reason, .. } => reason.as_source(),
            WorkersError::Topology(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::MoreWorkersThanCores { n_workers, n_cores } => {
                write!(f, "{n_workers} workers share {}", counted(*n_cores, "core"))
            }
            Warning::Quota { n_workers, n_paid } => {
                write!(
                    f,
                    "{n_workers} workers share a quota that pays for {}",
                    counted(*n_paid, "core")
                )
            }
            Warning::NotPinned { worker, error } => {
                write!(f, "worker {worker} is not pinned: {error}")
            }
            Warning::Rival(rival) => rival.fmt(f),
            Warning::NoLocality(error) => {
                write!(f, "tasks are not placed by their data: {error}")
            }
            Warning::Lacks(lacks) => {
                let lacks: Vec<String> = lacks.iter().map(Lack::to_string).collect();
                write!(f, "{} has {}", std::env::consts::OS, lacks.join(", "))
            }
        }
    }
}

impl Workers {
    /// How many workers a pool has at most: as many as Linux supports processors on one machine. (A job
    /// cannot count more than 32,767 inside it.)
    pub const MOST: usize = 8192;

    /// Settings to choose from; [`build`](WorkersBuilder::build) starts the workers.
    pub fn builder() -> WorkersBuilder {
        WorkersBuilder::default()
    }

    /// The machine on which the workers were placed.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Where each worker runs, by index.
    pub fn places(&self) -> &[Place] {
        self.pool.places()
    }

    /// What is likely to make these workers slow; the library prints nothing itself.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// What all workers did since they were started.
    pub fn statistics(&self) -> Statistics {
        self.pool.statistics().map(|worker| worker.total()).sum()
    }

    /// How ready tasks are queued, placed and stolen.
    pub fn policy(&self) -> &Policy {
        self.pool.policy()
    }

    /// What each worker did, by index.
    pub fn statistics_by_worker(&self) -> Vec<WorkerStatistics> {
        self.pool.statistics().collect()
    }
}

impl Executor for Workers {
    fn n_workers(&self) -> usize {
        self.pool.n_workers()
    }

    fn execute(&self, job: &Arc<Job>) {
        let (pool, mail_of) = (Arc::clone(&self.pool), Arc::downgrade(job));
        job.on_mail(move || {
            if mail_of.upgrade().is_some_and(|job| job.has_mail()) {
                pool.wake_for_mail();
            }
        });
        self.pool.execute(job);
    }

    /// With all workers that have nothing else to do. A body of another pool's has no place among them: what it
    /// runs here it runs alone, on its own thread.
    fn execute_inside(&self, job: &Arc<Job>) {
        let Some(worker) = worker::of(&self.pool) else {
            // A body of another executor's.
            return Inline.execute(job);
        };
        self.pool
            .while_offered(job, |offer| Worker::new(&self.pool, worker).help(offer));
    }

    fn is_uniform(&self) -> bool {
        self.topology.n_numa_nodes() == 1
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("places", &self.places())
            .finish_non_exhaustive()
    }
}

impl Drop for Workers {
    /// Ends the threads and waits for them.
    fn drop(&mut self) {
        self.pool.end();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                unreachable!("a worker that unwinds ends the process");
            }
        }
    }
}

impl WorkersBuilder {
    /// How many workers; by default one per allowed core, or per PU if bound to PUs.
    pub fn n_workers(mut self, n_workers: usize) -> Self {
        self.n_workers = Some(n_workers);
        self
    }

    /// What each worker is bound to; by default a core of its own.
    ///
    /// Threads that a body starts, and children that it starts by `std::process::Command`, are bound to the
    /// same: the system hands the binding on.
    pub fn bind(mut self, bind: Bind) -> Self {
        self.bind = bind;
        self
    }

    /// How ready tasks are queued, placed and stolen; by default [`Policy::distance`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The machine to place workers on; by default what the calling thread of
    /// [`build`](Self::build) [may use](Topology::discover).
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Starts the workers and waits until each runs where it belongs.
    ///
    /// A worker that cannot be pinned runs unpinned, with a [warning](Workers::warnings).
    ///
    /// # Errors
    /// If zero workers or more than [`Workers::MOST`] were asked for, a thread could not be started, or the topology file that
    /// the environment names cannot be used.
    pub fn build(self) -> Result<Workers, WorkersError> {
        let topology = match self.topology {
            Some(topology) => topology,
            None => Topology::discover().map_err(WorkersError::Topology)?,
        };
        let capacity = self.bind.capacity(&topology);
        let n_workers = self.n_workers.unwrap_or(capacity);
        if n_workers == 0 {
            return Err(WorkersError::NoWorkers { allowed: capacity });
        }
        let most = Workers::MOST;
        if n_workers > most {
            return Err(WorkersError::TooManyWorkers { n_workers, most });
        }
        let places = self.bind.places(&topology, n_workers);
        let pool = Arc::new(Pool::new(
            &topology,
            places,
            self.policy,
            n_workers > capacity,
        ));
        let warnings = crowding(&topology, n_workers, capacity);
        let mut workers = Workers {
            pool,
            threads: Vec::new(),
            topology,
            warnings,
        };
        workers.start()?;
        Ok(workers)
    }
}

impl Workers {
    fn start(&mut self) -> Result<(), WorkersError> {
        let (report, reports) = channel();
        for worker in 0..self.pool.n_workers() {
            let (pool, report) = (Arc::clone(&self.pool), report.clone());
            let usable = usable_pus();
            let thread = Builder::new()
                .name(format!("dataflow-{worker}"))
                .spawn(move || run_thread(&pool, worker, usable, report))
                .map_err(|error| {
                    let reason = error.into();
                    WorkersError::ThreadNotStarted { worker, reason }
                })?;
            self.threads.push(thread);
        }
        drop(report);
        let mut unpinned: Vec<(usize, PinError)> = reports.iter().collect();
        unpinned.sort_by_key(|&(worker, _)| worker);
        self.warnings.extend(unpinned_and_lacking(unpinned));
        Ok(())
    }
}

fn crowding(topology: &Topology, n_workers: usize, capacity: usize) -> Vec<Warning> {
    let n_cores = topology.n_cores();
    let crowded = n_workers > capacity;
    // The standard library's count knows the quota; the affinity mask does not.
    let n_paid = std::thread::available_parallelism().map_or(usize::MAX, |n| n.get());
    let limited = is_limited(n_paid, allowed_pus().len(), topology.n_pus(), n_workers);
    let warnings = [
        crowded.then_some(Warning::MoreWorkersThanCores { n_workers, n_cores }),
        limited.then_some(Warning::Quota { n_workers, n_paid }),
    ];
    let rivals = rivals(n_workers, n_cores, |name| std::env::var(name).ok());
    let rivals = rivals.into_iter().map(Warning::Rival);
    let unknown = (topology.n_numa_nodes() > 1)
        .then(|| pages::node_of(&[1]).err())
        .flatten();
    let warnings = warnings.into_iter().flatten().chain(rivals);
    warnings.chain(unknown.map(Warning::NoLocality)).collect()
}

/// Whether a quota pays for less than the workers here and those of other ranks want, each with a part as
/// large as this one's, of so many processors, of those that the process may use.
fn is_limited(n_paid: usize, n_allowed: usize, n_pus: usize, n_workers: usize) -> bool {
    n_paid < n_allowed && n_paid * n_pus < n_workers * n_allowed.max(n_pus)
}

/// What to say of workers that were not pinned, and of all that is lacking here. That the system
/// cannot pin is the same for each worker, and said once.
fn unpinned_and_lacking(unpinned: Vec<(usize, PinError)>) -> Vec<Warning> {
    let unsupported = |(_, error): &(usize, PinError)| *error == PinError::Unsupported;
    let lacks = lacks::here(!unpinned.iter().any(unsupported));
    let warning = |(worker, error)| Warning::NotPinned { worker, error };
    let each = unpinned.into_iter().filter(|pin| !unsupported(pin));
    let once = (!lacks.is_empty()).then_some(Warning::Lacks(lacks));
    each.map(warning).chain(once).collect()
}

/// A thread's life. What cannot be pinned is reported; dropping `report` says that it runs.
fn run_thread(pool: &Pool, worker: usize, usable: Vec<usize>, report: Sender<(usize, PinError)>) {
    let _abort = AbortIfUnwound { worker };
    if let Err(error) = become_worker(&pool.places()[worker].pus, usable) {
        // The builder waits for our end of the channel: it is there to read.
        report.send((worker, error)).ok();
    }
    drop(report);
    Worker::new(pool, worker).live();
}

/// Panics of bodies are caught by the engine. One that comes as far as this is a fault of the
/// runtime itself, and a job would wait for ever for what this worker owed.
struct AbortIfUnwound {
    worker: usize,
}

impl Drop for AbortIfUnwound {
    fn drop(&mut self) {
        if std::thread::panicking() {
            stderr::say(format_args!(
                "error: worker {} of dataflow panicked outside of a task: a bug",
                self.worker
            ));
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::tasks;
    use dataflow_core::sequence::{scope, write};
    use std::sync::{Mutex, Weak};
    use std::thread::yield_now;
    use std::time::{Duration, Instant};

    /// Each of 32 ranks had two workers and saw a quota for two cores, of 64.
    #[test]
    fn a_quota_is_shared_with_the_ranks_that_have_the_other_parts_of_the_machine() {
        for (n_paid, n_allowed, n_pus, n_workers, expected) in [
            (2, 64, 2, 2, true),
            (2, 64, 64, 2, false),
            (2, 64, 64, 3, true),
            (32, 64, 2, 1, false),
            (64, 64, 2, 4, false),
            (2, 4, 8, 3, true),
        ] {
            let found = is_limited(n_paid, n_allowed, n_pus, n_workers);
            let case = format!("{n_paid} of {n_allowed}, {n_workers} on {n_pus}");
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn what_the_system_cannot_do_is_said_once_for_all_workers() {
        let unpinned = |error: PinError| vec![(0, error.clone()), (1, error)];
        let said = unpinned_and_lacking(unpinned(PinError::Unsupported));
        assert_eq!(said.len(), 1, "{said:?}");
        let text = said[0].to_string();
        assert!(
            text.contains("no pinning") && text.contains(std::env::consts::OS),
            "{text}"
        );
        let refused = unpinned_and_lacking(unpinned(PinError::NoProcessor));
        let of_workers = |warning: &&Warning| matches!(warning, Warning::NotPinned { .. });
        assert_eq!(refused.iter().filter(of_workers).count(), 2);
        assert!(
            !refused
                .iter()
                .any(|warning| warning.to_string().contains("no pinning"))
        );
    }

    /// Workers, and the job that they were given last.
    struct Watched {
        workers: Workers,
        job: Mutex<Weak<Job>>,
    }

    impl Executor for Watched {
        fn n_workers(&self) -> usize {
            self.workers.n_workers()
        }
        fn execute(&self, job: &Arc<Job>) {
            *self.job.lock().unwrap() = Arc::downgrade(job);
            self.workers.execute(job);
        }
    }

    /// It would keep the run's queues until the next run.
    #[test]
    fn whoever_fell_asleep_during_a_run_lets_go_of_it() {
        let on = Watched {
            workers: Workers::builder().n_workers(2).build().unwrap(),
            job: Mutex::default(),
        };
        let sleeps = || on.workers.statistics().sleeps;
        let until = |is_so: &dyn Fn() -> bool| {
            let start = Instant::now();
            while !is_so() && start.elapsed() < Duration::from_secs(20) {
                yield_now();
            }
            is_so()
        };
        assert!(until(&|| sleeps() == 2), "both sleep before");
        // One worker runs it; the other finds nothing to do.
        let long = |_| {
            assert!(until(&|| sleeps() > 2), "nobody falls asleep");
            Ok(())
        };
        dataflow_core::run(&tasks(1, &long), &on).unwrap();
        let is_gone = || on.job.lock().unwrap().upgrade().is_none();
        assert!(until(&is_gone), "somebody holds the job");
    }

    /// What stays on offer is looked at by every worker for ever, and keeps its queues.
    #[test]
    fn a_job_that_is_over_is_on_offer_no_more() {
        let workers = Workers::builder().n_workers(2).build().unwrap();
        for fails in [false, true] {
            let body = |_| if fails { Err("as told".into()) } else { Ok(()) };
            let ran = dataflow_core::run(&tasks(100, &body), &workers);
            assert_eq!(ran.is_err(), fails);
            assert_eq!(workers.pool.offers().len(), 0);
            let nested = scope(&workers, |s| {
                let n = s.handle(0);
                s.nested(write(&n), |s, _| s.task((), |()| ()));
            });
            nested.unwrap();
            assert_eq!(workers.pool.offers().len(), 0);
        }
    }
}
