//! What can go wrong, as values: each names the task, the value and what would be allowed.

use crate::foreign::shown;
use crate::rank::Rank;
use crate::wire::{Failure, WireName};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// An error of another library, as it is handed on.
type Foreign = dyn std::error::Error + Send + Sync;

/// Why a task's body failed: a fault of its data, named as the theory names it.
///
/// The task's descendants are skipped; everything else runs. Of several failing tasks, the run
/// reports the smallest by ([`index`](Self::with_index), task).
///
/// Any error, and any text, becomes one by `?` or `into`: whatever becomes a boxed error. An error
/// stays the [source](Self::source); its text is the message. For this reason the type is itself
/// no [`std::error::Error`]; what a run returns, an [`Error`], is.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::{TaskError, run, space::Independent};
/// use std::error::Error as _;
/// use std::num::ParseIntError;
///
/// fn positive(text: &str) -> Result<u32, TaskError> {
///     let number: u32 = text.parse()?;
///     match number {
///         0 => Err(TaskError::new("not_positive", "zero is not positive").with_index(17)),
///         1 => Err(format!("{number} is too small"))?,
///         _ => Ok(number),
///     }
/// }
///
/// let read = |text: &str| {
///     run(&Independent::new("read", 1, |_| positive(text).map(drop)), &Inline)
/// };
/// let error = read("two").unwrap_err();
/// assert_eq!((error.name(), error.message()), ("task_failed", "invalid digit found in string"));
/// assert!(error.source().is_some_and(|source| source.is::<ParseIntError>()));
///
/// let error = read("0").unwrap_err();
/// assert_eq!((error.name(), error.index()), ("not_positive", Some(17)));
/// assert_eq!(read("1").unwrap_err().message(), "1 is too small");
/// ```
#[derive(Clone, Debug)]
pub struct TaskError {
    kind: &'static str,
    index: Option<u64>,
    message: String,
    source: Option<Arc<Foreign>>,
    /// What the whole run ends with, if this is no failure of one task.
    ends: Option<Kind>,
    /// Another name for the task that has failed: that of its part.
    part: Option<Box<str>>,
}

impl TaskError {
    /// A failure of the given kind (snake_case, as it appears in reports) and text.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        TaskError {
            kind,
            index: None,
            message: message.into(),
            source: None,
            ends: None,
            part: None,
        }
    }

    /// The global index the failure belongs to: LAPACK's INFO, a row, an item.
    #[must_use]
    pub fn with_index(mut self, index: u64) -> Self {
        self.index = Some(index);
        self
    }

    /// The kind, as it was given to [`new`](Self::new): [`Error::name`] once the run has ended with it.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::TaskError;
    /// let error = TaskError::new("not_positive", "zero is not positive").with_index(17);
    /// assert_eq!((error.kind(), error.index()), ("not_positive", Some(17)));
    /// ```
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The index, if there is one.
    pub fn index(&self) -> Option<u64> {
        self.index
    }

    /// The error of another library that this was made from, if there is one.
    pub fn source(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// What a run inside a body ended with, as that body's own: the text names the task.
    fn of_run(error: Error) -> Self {
        TaskError {
            kind: match error.name {
                Cow::Borrowed(name) => name,
                Cow::Owned(_) => Kind::TaskFailed.name(),
            },
            index: error.index,
            message: match error.task {
                Some(task) => format!("{} (task {task})", error.message),
                None => error.message.into_string(),
            },
            source: error.source,
            ends: None,
            part: None,
        }
    }

    /// What a part of the run ended with that ran inside a body: a failure of a task is the body's own,
    /// anything else ends the whole run. The part's task is named instead of the body's.
    pub(crate) fn of_part(mut error: Error) -> Self {
        let ends = Some(error.kind).filter(|kind| *kind != Kind::TaskFailed);
        let part = error.task.take();
        TaskError {
            ends,
            part,
            ..TaskError::of_run(error)
        }
    }

    /// What the whole run ends with, if it does.
    pub(crate) fn ends(&self) -> Option<Kind> {
        self.ends
    }

    fn of_foreign(error: Box<Foreign>) -> Self {
        TaskError {
            message: error.to_string(),
            source: Some(error.into()),
            ..TaskError::new(Kind::TaskFailed.name(), "")
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Not for `std::error::Error` alone: texts could then not become one, too.
impl<E: Into<Box<Foreign>> + 'static> From<E> for TaskError {
    fn from(error: E) -> Self {
        let value: &dyn Any = &error;
        let is_text = value.is::<String>() || value.is::<&str>() || value.is::<Cow<'static, str>>();
        let boxed: Box<Foreign> = error.into();
        if is_text {
            return TaskError::new(Kind::TaskFailed.name(), boxed.to_string());
        }
        match boxed.downcast() {
            Ok(of_run) => TaskError::of_run(*of_run),
            Err(foreign) => TaskError::of_foreign(foreign),
        }
    }
}

/// Each kind of failure, once, and its name.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal),* $(,)?) => {
        /// What kind of failure ended a run.
        ///
        /// # Examples
        /// ```
        /// use dataflow_core::port::Inline;
        /// use dataflow_core::{Error, Kind, run, space::Independent};
        ///
        /// fn advice(error: &Error) -> &'static str {
        ///     match error.kind() {
        ///         Kind::TaskFailed => "correct the data",
        ///         Kind::RankLost | Kind::Cancelled => "run it again",
        ///         _ => "correct the program",
        ///     }
        /// }
        ///
        /// let failed = run(&Independent::new("fails", 1, |_| Err("no pivot")?), &Inline).unwrap_err();
        /// assert_eq!(advice(&failed), "correct the data");
        /// let panicked = run(&Independent::new("panics", 1, |_| panic!("a bug")), &Inline).unwrap_err();
        /// assert_eq!(advice(&panicked), "correct the program");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Kind { $($(#[$doc])* $kind),* }

        impl Kind {
            fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name),*
                }
            }

            /// The kind that has this name; names that bodies have given are of none of them.
            fn of_name(name: &str) -> Kind {
                match name {
                    $($name => Kind::$kind,)*
                    _ => Kind::TaskFailed,
                }
            }
        }
    };
}

kinds! {
    /// A body returned an error; [`Error::name`] is the kind it gave to [`TaskError::new`].
    TaskFailed = "task_failed",
    /// A body panicked, or the space or a datum did.
    TaskPanicked = "task_panicked",
    /// The run was cancelled from outside.
    Cancelled = "cancelled",
    /// No task can run, yet not all have: some wait for inputs that no task sends.
    Stalled = "stalled",
    /// More tasks ran than the space's count: an edge leads to a task that is not listed. Or a recorded
    /// program has more tasks, accesses or data than can be numbered.
    CountExceeded = "count_exceeded",
    /// A task was fed twice through the same flow.
    FedTwice = "fed_twice",
    /// An edge arrived that the task at its end does not name among its inputs.
    NotExpected = "not_expected",
    /// A task ran without the datum that its flow needs.
    FlowEmpty = "flow_empty",
    /// A task of a sequence accesses one handle twice.
    AccessedTwice = "accessed_twice",
    /// A task of a recorded program writes data of two owners, or of another rank than it was put on.
    OwnersDiffer = "owners_differ",
    /// A store has no such slot, or nothing is in it: not put there, or taken by another task.
    HomeEmpty = "home_empty",
    /// Two tasks put a datum into one slot in a run, or somebody fills by hand the slot of a datum that a run
    /// has; or a recorded program names one slot by two handles.
    PutTwice = "put_twice",
    /// A datum was taken from its slot to be updated, and no task put one there again.
    NotBroughtBack = "not_brought_back",
    /// The space contradicts itself: found before it ran, by `verify` or `DATAFLOW_VERIFY`.
    Contradiction = "contradiction",
    /// A task is placed on a rank that does not exist, or an edge leaves the only rank.
    NoSuchRank = "no_such_rank",
    /// A run was begun where none can be: inside a task's body, or across ranks during another such run.
    NestedRun = "nested_run",
    /// Runs, scopes and recursions were nested in one another too deep.
    NestedTooDeep = "nested_too_deep",
    /// A scheduler of the user's own lost a task, handed one out twice, or panicked; or an executor of the
    /// user's own let in a worker whose index is too large.
    SchedulerFailed = "scheduler_failed",
    /// A task belongs to a class that the space does not describe.
    NotDescribed = "not_described",
    /// Ranks that were to run one space together have different spaces or parameters.
    ParametersDiffer = "parameters_differ",
    /// A rank is silent, or its messages do not arrive.
    RankLost = "rank_lost",
    /// Ranks repeat a step together, and it failed on another of them, which has the reason.
    StepFailed = "step_failed",
    /// What arrived from another rank cannot be understood, or a datum is not as long as it says or has no
    /// room on the rank that it is for.
    Malformed = "malformed",
    /// The ranks that were started are not the ranks there are: the launcher is another MPI's, or
    /// the program was built without MPI.
    WrongLauncher = "wrong_launcher",
    /// MPI was initialised for fewer threads than are needed.
    MpiThreadLevel = "mpi_thread_level",
    /// The settings of the runtime are not possible: no workers, an unknown name.
    WrongSettings = "wrong_settings",
}

/// Why a run failed.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::{Kind, run, space::Independent};
///
/// let pivots = [4.0, 1.0, -0.5];
/// let check = Independent::new("check", 3, |i| match pivots[i as usize] {
///     pivot if pivot > 0.0 => Ok(()),
///     pivot => Err(format!("pivot {pivot} is not positive"))?,
/// });
/// let error = run(&check, &Inline).unwrap_err();
/// assert_eq!((error.kind(), error.task()), (Kind::TaskFailed, Some("2")));
/// assert_eq!(error.to_string(), "pivot -0.5 is not positive (task 2)");
/// // What a `main` prints that returns it.
/// let printed = r#"Error { kind: TaskFailed, text: "pivot -0.5 is not positive (task 2)" }"#;
/// assert_eq!(format!("{error:?}"), printed);
/// ```
#[derive(Clone)]
pub struct Error {
    kind: Kind,
    name: Cow<'static, str>,
    rank: Option<Rank>,
    task: Option<Box<str>>,
    index: Option<u64>,
    message: Box<str>,
    source: Option<Arc<Foreign>>,
}

impl Error {
    pub(crate) fn new(kind: Kind, task: Option<String>, message: impl Into<String>) -> Self {
        Error {
            kind,
            name: kind.name().into(),
            rank: None,
            task: task.map(String::into_boxed_str),
            index: None,
            message: message.into().into_boxed_str(),
            source: None,
        }
    }

    /// The same error, made from another, which [`source`](std::error::Error::source) then answers.
    ///
    /// ```
    /// use dataflow_core::Error;
    /// let read = |text: &str| {
    ///     let wrong = |fault| Error::wrong_settings(format!("THREADS: {fault}")).with_source(fault);
    ///     text.parse::<usize>().map_err(wrong)
    /// };
    /// let error = read("many").unwrap_err();
    /// assert!(std::error::Error::source(&error).is_some());
    /// ```
    #[must_use]
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let source = Some(Arc::new(source) as Arc<Foreign>);
        Error { source, ..self }
    }

    /// Settings that are not possible; the text names the setting, its value and what is allowed.
    pub fn wrong_settings(message: impl Into<String>) -> Self {
        Error::new(Kind::WrongSettings, None, message)
    }

    /// The run has another number of ranks than were started; the text says which launcher started
    /// how many, and what to do.
    pub fn wrong_launcher(message: impl Into<String>) -> Self {
        Error::new(Kind::WrongLauncher, None, message)
    }

    /// MPI's thread level is too low; the text says which it is and which is needed.
    pub fn mpi_thread_level(message: impl Into<String>) -> Self {
        Error::new(Kind::MpiThreadLevel, None, message)
    }

    /// Ranks do not agree; the text says which setting differs, and both values.
    pub fn parameters_differ(message: impl Into<String>) -> Self {
        Error::new(Kind::ParametersDiffer, None, message)
    }

    /// A rank that this run does not have; the text says who named it, and how many there are.
    pub fn no_such_rank(message: impl Into<String>) -> Self {
        Error::new(Kind::NoSuchRank, None, message)
    }

    /// A run cannot begin where it was begun; the text says why.
    pub fn nested_run(message: impl Into<String>) -> Self {
        Error::new(Kind::NestedRun, None, message)
    }

    /// A rank is silent; the text says which, and for how long.
    pub fn rank_lost(message: impl Into<String>) -> Self {
        Error::new(Kind::RankLost, None, message)
    }

    /// A step that ranks make together failed on another; the text says on which, and in which step.
    pub fn step_failed(message: impl Into<String>) -> Self {
        Error::new(Kind::StepFailed, None, message)
    }

    /// Something unintelligible has arrived; the text says what, and from whom.
    pub fn malformed(message: impl Into<String>) -> Self {
        Error::new(Kind::Malformed, None, message)
    }

    pub(crate) fn of_task(task: &impl fmt::Debug, error: TaskError) -> Self {
        let kind = error.ends.unwrap_or(Kind::TaskFailed);
        Error {
            name: error.kind.into(),
            index: error.index,
            source: error.source,
            task: error.part.or_else(|| Some(shown(task).into())),
            ..Error::new(kind, None, error.message)
        }
    }

    /// The same error, its task and its text told in other words; what a body says is its own.
    pub(crate) fn told(self, tell: impl Fn(&str) -> String) -> Self {
        let of_body = matches!(self.kind, Kind::TaskFailed | Kind::TaskPanicked);
        let task = self.task.as_deref().map(&tell);
        let task = task.map(String::into_boxed_str);
        let error = Error { task, ..self };
        match of_body {
            true => error,
            false => error.retold(tell),
        }
    }

    /// The same error, said in other words: for what only the caller of a run knows, as the name of its matrix.
    ///
    /// ```
    /// use dataflow_core::Error;
    /// let error = Error::malformed("3 bytes").retold(|text| format!("{text}, in file \"a.mtx\""));
    /// assert_eq!(error.to_string(), "3 bytes, in file \"a.mtx\"");
    /// ```
    #[must_use]
    pub fn retold(self, retell: impl FnOnce(&str) -> String) -> Self {
        let message = retell(&self.message).into_boxed_str();
        Error { message, ..self }
    }

    /// The error of a task that ran inside the body of another, or of that other itself.
    pub(crate) fn within(outer: &impl fmt::Debug, error: Error) -> Self {
        let task = match &error.task {
            Some(inner) => format!("{outer:?} / {inner}"),
            None => format!("{outer:?}"),
        };
        let task = Some(task.into_boxed_str());
        Error { task, ..error }
    }

    /// The error that another rank has sent; `named` shows the task of a failure that has only its name.
    pub(crate) fn of_failure(failure: Failure, named: &dyn Fn(&Failure) -> Option<String>) -> Self {
        // A body may give its failure any name, also that of a kind.
        let kind = match failure.of_body {
            true => Kind::TaskFailed,
            false => Kind::of_name(&failure.kind),
        };
        let task = match failure.task.is_empty() {
            true if failure.name.is_empty() => None,
            true => named(&failure),
            false => Some(failure.task),
        };
        Error {
            name: failure.kind.into(),
            rank: Some(failure.rank),
            index: (failure.index != u64::MAX).then_some(failure.index),
            ..Error::new(kind, task, failure.message)
        }
    }

    /// The same error, with what does not travel of it.
    pub(crate) fn with_source_of(self, own: Error) -> Self {
        let source = own.source;
        Error { source, ..self }
    }

    /// The error in the form in which it is sent to other ranks.
    pub(crate) fn into_failure(self, name: WireName, rank: Rank) -> Failure {
        Failure {
            of_body: self.kind == Kind::TaskFailed,
            index: self.index.unwrap_or(u64::MAX),
            name,
            rank,
            kind: self.name.into_owned(),
            task: self.task.unwrap_or_default().into_string(),
            message: self.message.into_string(),
        }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The kind in snake_case, as reports and `--json` show it; for a failing body the kind that it
    /// gave to [`TaskError::new`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rank on which it happened, if the run was on several.
    pub fn rank(&self) -> Option<Rank> {
        self.rank
    }

    /// The task in which it happened, as its `Debug` prints it.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// The index that a failing body gave: LAPACK's INFO where there is one.
    pub fn index(&self) -> Option<u64> {
        self.index
    }

    /// What happened, without task and rank.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (&self.task, self.rank) {
            (Some(task), Some(rank)) => write!(f, " (task {task} on {rank})"),
            (Some(task), None) => write!(f, " (task {task})"),
            (None, Some(rank)) => write!(f, " (on {rank})"),
            (None, None) => Ok(()),
        }
    }
}

/// What a `main` prints that returns it: the kind, the text, and what there is beside.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("Error");
        told.field("kind", &self.kind)
            .field("text", &self.to_string());
        if let Some(index) = self.index {
            told.field("index", &index);
        }
        if let Some(source) = &self.source {
            told.field("source", &SaidBeside(&**source, &self.message));
        }
        told.finish()
    }
}

/// An error beside a text: what of it is that text, word for word, is not said again.
struct SaidBeside<'e>(&'e Foreign, &'e str);

impl fmt::Debug for SaidBeside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SaidBeside(error, text) = self;
        let shown = match f.alternate() {
            true => format!("{error:#?}"),
            false => format!("{error:?}"),
        };
        f.write_str(&shown.replace(&format!("{text:?}"), "…"))
    }
}

impl std::error::Error for Error {
    /// The error that a body handed on by `?`, on the rank where that happened; other ranks have its
    /// text.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn std::error::Error + 'static))
    }
}
