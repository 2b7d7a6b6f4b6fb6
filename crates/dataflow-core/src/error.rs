//! What can go wrong, as values: each names the task, the value and what would be allowed.

use std::fmt;

/// Why a task's body gives up: the fault of its data, named as the theory names it.
///
/// The task's descendants are skipped; everything else runs. Of several failing tasks, the run
/// reports the smallest by ([`index`](Self::with_index), task).
#[derive(Debug)]
pub struct TaskError {
    kind: &'static str,
    index: Option<u64>,
    message: String,
}

impl TaskError {
    /// A failure of the given kind (snake_case, as it appears in reports) and text.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        TaskError {
            kind,
            index: None,
            message: message.into(),
        }
    }

    /// The global index the failure belongs to: LAPACK's INFO, a row, an item.
    pub fn with_index(mut self, index: u64) -> Self {
        self.index = Some(index);
        self
    }

    /// The index, if there is one.
    pub fn index(&self) -> Option<u64> {
        self.index
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TaskError {}

impl From<String> for TaskError {
    fn from(message: String) -> Self {
        TaskError::new("task_failed", message)
    }
}

impl From<&str> for TaskError {
    fn from(message: &str) -> Self {
        TaskError::new("task_failed", message)
    }
}

/// What kind of failure ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A body returned an error; the text is the kind it gave to [`TaskError::new`].
    TaskFailed(&'static str),
    /// A body panicked.
    TaskPanicked,
    /// The run was cancelled from outside.
    Cancelled,
    /// No task can run, yet not all have: some wait for inputs that nobody sends.
    Stalled,
    /// More tasks ran than the space counts: an edge leads to a task that is not listed.
    CountExceeded,
    /// A task was fed twice through the same flow.
    FedTwice,
    /// An edge arrived that the task at its end does not name among its inputs.
    NotExpected,
    /// A task ran without the datum that its flow needs.
    FlowEmpty,
    /// A store has no such slot, or its datum is lent to another task.
    HomeEmpty,
    /// A task is placed on a rank that does not exist, or an edge leaves the only rank.
    NoSuchRank,
    /// `run` was called from inside a task's body.
    NestedRun,
    /// A task belongs to a class that the space does not describe.
    NotDescribed,
    /// The runtime was asked for in a way that cannot be had: no workers, an unknown setting.
    WrongSettings,
}

impl Kind {
    /// The kind in snake_case, as reports and `--json` show it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::TaskFailed(name) => name,
            Kind::TaskPanicked => "task_panicked",
            Kind::Cancelled => "cancelled",
            Kind::Stalled => "stalled",
            Kind::CountExceeded => "count_exceeded",
            Kind::FedTwice => "fed_twice",
            Kind::NotExpected => "not_expected",
            Kind::FlowEmpty => "flow_empty",
            Kind::HomeEmpty => "home_empty",
            Kind::NoSuchRank => "no_such_rank",
            Kind::NestedRun => "nested_run",
            Kind::NotDescribed => "not_described",
            Kind::WrongSettings => "wrong_settings",
        }
    }
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    task: Option<String>,
    index: Option<u64>,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, task: Option<String>, message: impl Into<String>) -> Self {
        Error {
            kind,
            task,
            index: None,
            message: message.into(),
        }
    }

    /// Settings that cannot be had; the text says what, the value and what would be allowed.
    pub fn wrong_settings(message: impl Into<String>) -> Self {
        Error::new(Kind::WrongSettings, None, message)
    }

    pub(crate) fn of_task(task: &impl fmt::Debug, error: TaskError) -> Self {
        Error {
            kind: Kind::TaskFailed(error.kind),
            task: Some(format!("{task:?}")),
            index: error.index,
            message: error.message,
        }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The task it happened in, as its `Debug` prints it.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// The index that a failing body gave: LAPACK's INFO where there is one.
    pub fn index(&self) -> Option<u64> {
        self.index
    }

    /// What happened, without the task.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.task {
            Some(task) => write!(f, "{} (task {task})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
