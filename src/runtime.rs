//! The runtime: workers and memory of one rank, reusable for many runs.

use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Executor, Job, Memory};
use dataflow_core::space::TaskSpace;
use dataflow_core::{Error, Report, run_with};
use dataflow_numa::{Bind, HugePages, Placing, Policy, Statistics, Warning, Workers};
use std::env;
use std::fmt;
use std::sync::Arc;

/// Workers pinned to the cores that this process may use, and memory on huge pages.
///
/// Cheap to keep and to share: idle workers sleep. Runs may follow one another or go on at once.
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
    workers: Workers,
    memory: Arc<HugePages>,
}

/// Settings of a [`Runtime`].
#[derive(Clone, Debug, Default)]
pub struct RuntimeBuilder {
    threads: Option<usize>,
    bind: Bind,
    policy: Policy,
    placing: Placing,
}

impl Runtime {
    /// One worker for each core that this process may use.
    ///
    /// # Errors
    /// If the system does not start the threads.
    pub fn new() -> Result<Self, Error> {
        Runtime::builder().build()
    }

    /// Settings to choose from.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// The settings of the environment: `DATAFLOW_THREADS` (a number), `DATAFLOW_BIND`
    /// (`cores`, `pus` or `none`) and `DATAFLOW_POLICY` (the text of a [`Policy`]).
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
        builder.build()
    }

    /// Runs all tasks of a space.
    ///
    /// # Errors
    /// As [`dataflow_core::run`].
    pub fn run<S: TaskSpace>(&self, space: &S) -> Result<Report, Error> {
        self.run_with(space, &Monitor::new())
    }

    /// Runs all tasks of a space, watched by a monitor that can tell progress and cancel.
    ///
    /// # Errors
    /// As [`dataflow_core::run_with`].
    pub fn run_with<S: TaskSpace>(&self, space: &S, monitor: &Monitor) -> Result<Report, Error> {
        run_with(space, &self.workers, monitor)
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

    fn is_uniform(&self) -> bool {
        self.workers.is_uniform()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("threads", &self.n_threads())
            .finish_non_exhaustive()
    }
}

impl RuntimeBuilder {
    /// Number of workers; by default one for each core that this process may use.
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

    /// Starts the workers.
    ///
    /// # Errors
    /// If zero threads were asked for, or the system does not start them.
    pub fn build(self) -> Result<Runtime, Error> {
        let mut workers = Workers::builder().bind(self.bind).policy(self.policy);
        if let Some(threads) = self.threads {
            workers = workers.n_workers(threads);
        }
        let workers = workers
            .build()
            .map_err(|error| Error::wrong_settings(error.to_string()))?;
        let memory = Arc::new(HugePages::on(workers.topology(), self.placing));
        Ok(Runtime { workers, memory })
    }
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
