//! The environment: what its variables say of a runtime and its trace.

use super::Runtime;
use super::builder::RuntimeBuilder;
use dataflow_core::Error;
use dataflow_core::rank::Rank;
use dataflow_core::space::is_verify_asked;
use dataflow_core::stderr;
use dataflow_core::trace::{Trace, Tracer};
use dataflow_mpi::start::{Launched, Seat};
use std::env;
use std::num::{NonZeroUsize, ParseIntError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// Bytes of notes, where nobody says how many: eight million tasks.
pub(crate) const TRACE_ROOM: usize = 256 << 20;

impl Runtime {
    /// One worker for each core that this process may use, unless the environment says otherwise: as
    /// [`from_env`](Self::from_env).
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env), and if the system does not start the threads.
    pub fn new() -> Result<Self, Error> {
        Runtime::from_env()
    }

    /// The runtime of the whole process, with the settings of the environment
    /// ([`from_env`](Self::from_env)): started at the first call, kept to the end. `Dense` uses
    /// it; a program with a runtime of its own does not need it. It has the cores that the thread of the
    /// first call may use: a program that pins its threads makes that call before. In a body it has those
    /// of the thread that made the body's runtime.
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

    /// The settings of the environment: those of [`RuntimeBuilder::from_env`], and `DATAFLOW_TRACE` (a
    /// file for the trace of the longest run of this process, in the format of its extension; of several
    /// ranks that a launcher or [`launch`](crate::launch()) has started, only rank 0 writes it).
    ///
    /// # Errors
    /// If a variable is set to something else, or the file cannot be written; the text names the variable,
    /// its value and what is allowed.
    pub fn from_env() -> Result<Self, Error> {
        let mut builder = RuntimeBuilder::from_env()?;
        if let Some(path) = page()?
            && is_first()?
        {
            expect_writable(&path)?;
            builder.tracer = Some(tracer_to(path));
        }
        builder.build()
    }
}

impl RuntimeBuilder {
    /// What the environment says of workers: `DATAFLOW_THREADS` (a number), `DATAFLOW_BIND` (`cores`,
    /// `pus` or `none`) and `DATAFLOW_POLICY` (the text of a [`Policy`](crate::Policy)). What is said
    /// afterwards goes before it.
    ///
    /// # Errors
    /// If a variable is set to something else; the text names it, its value and what is allowed. So for
    /// `DATAFLOW_TRACE` and `DATAFLOW_VERIFY`, which count where there is a run.
    ///
    /// # Examples
    /// ```
    /// use dataflow::{RuntimeBuilder, launch};
    /// let settings = RuntimeBuilder::from_env()?.threads(1).ranks(2);
    /// assert_eq!(launch(settings, |runtime| runtime.all_reduce(1, |a, b| a + b))?, 2);
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn from_env() -> Result<Self, Error> {
        let mut builder = Runtime::builder();
        if let Some(threads) = setting("DATAFLOW_THREADS") {
            let wrong = |error: ParseIntError| {
                let text = format!("DATAFLOW_THREADS is {threads:?} (must be a number, 1 or more)");
                Error::wrong_settings(text).with_source(error)
            };
            let threads: NonZeroUsize = threads.parse().map_err(wrong)?;
            builder = builder.threads(threads.get());
        }
        if let Some(bind) = setting("DATAFLOW_BIND") {
            builder = builder.bind(bind.parse().map_err(wrong("DATAFLOW_BIND"))?);
        }
        if let Some(policy) = setting("DATAFLOW_POLICY") {
            builder = builder.policy(policy.parse().map_err(wrong("DATAFLOW_POLICY"))?);
        }
        page()?;
        is_verify_asked()?;
        Ok(builder)
    }

    /// Where the environment wants a trace, if these settings ask for none. Only the rank that writes it
    /// looks whether it can: to the machines of others the folder may be unknown.
    ///
    /// What cannot be understood of what runs heed is told here, too: before a program begins.
    pub(crate) fn page(&self) -> Result<Option<PathBuf>, Error> {
        is_verify_asked()?;
        let Some(path) = page()? else {
            return Ok(None);
        };
        let is_first_seat = self.seat.as_ref().is_none_or(|seat| seat.rank == Rank(0));
        // What a launcher says wrong matters to launches that ask it, and they say so.
        let writes = is_first_seat && is_first().unwrap_or(false);
        if self.tracer.is_some() {
            static SAID: Once = Once::new();
            if writes {
                SAID.call_once(|| stderr::say(ITS_OWN));
            }
            return Ok(None);
        }
        if writes {
            expect_writable(&path)?;
        }
        Ok(Some(path))
    }
}

const ITS_OWN: &str =
    "dataflow: DATAFLOW_TRACE: the program asks for traces itself, so there is no page";

/// The file that `DATAFLOW_TRACE` names.
fn page() -> Result<Option<PathBuf>, Error> {
    let named = env::var_os("DATAFLOW_TRACE").filter(|path| !path.is_empty());
    let Some(path) = named.map(PathBuf::from) else {
        return Ok(None);
    };
    match dataflow_trace::Format::of(&path) {
        Some(_) => Ok(Some(path)),
        None => {
            let unknown = dataflow_trace::WriteError::Extension(path);
            Err(wrong("DATAFLOW_TRACE")(unknown))
        }
    }
}

/// Refuses a trace's file that cannot be written, before there is a trace.
fn expect_writable(path: &Path) -> Result<(), Error> {
    dataflow_trace::expect_writable(path).map_err(|fault| {
        let fault = dataflow_trace::WriteError::File(path.to_path_buf(), fault);
        let text = format!("DATAFLOW_TRACE: {fault} (must be a file that can be written)");
        Error::wrong_settings(text).with_source(fault)
    })
}

/// Whether this process is no rank but 0: all would write one file.
fn is_first() -> Result<bool, Error> {
    let launched = Launched::of(variable)?.map(|launched| launched.rank);
    let seated = Seat::of(variable)?.map(|seat| seat.rank);
    Ok(launched
        .into_iter()
        .chain(seated)
        .all(|rank| rank == Rank(0)))
}

/// Writes the trace of each run that is the longest so far to a file.
fn tracer_to(path: PathBuf) -> Tracer {
    Tracer::new(TRACE_ROOM).telling(move |trace| write_if_longest(&trace, &path))
}

/// Writes a trace to the file that `DATAFLOW_TRACE` names, if its run is the longest of this process,
/// whichever runtime made it.
pub(crate) fn write_if_longest(trace: &Trace, path: &Path) {
    static LONGEST: Mutex<u64> = Mutex::new(0);
    let mut longest = LONGEST.lock().unwrap_or_else(PoisonError::into_inner);
    if trace.length() > *longest {
        *longest = trace.length();
        if let Err(fault) = dataflow_trace::write(trace, path) {
            stderr::say(format_args!("dataflow: DATAFLOW_TRACE: {fault}"));
        }
    }
}

/// What is wrong with a variable, as the error that says which.
fn wrong<E: std::error::Error + Send + Sync + 'static>(name: &str) -> impl Fn(E) -> Error {
    move |error| Error::wrong_settings(format!("{name}: {error}")).with_source(error)
}

/// A variable of the environment, for what reads those that say which rank a process is. One that is not
/// Unicode has its wrong places marked, so that whoever reads it refuses it by name: left out, it would be
/// one that is not set.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// A variable for settings, where an empty one is not set.
fn setting(name: &str) -> Option<String> {
    variable(name).filter(|value| !value.is_empty())
}
