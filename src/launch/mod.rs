//! Launch: the same program on every rank.
//!
//! # Elsewhere
//! Which transport, and how many ranks: `asked`. The ranks as threads of one process: `threads`; as
//! processes over sockets: `processes`; as what an MPI launcher has started: `under_mpi`. The trace that the
//! environment wants: `page`.

mod asked;
mod page;
mod processes;
mod threads;
mod under_mpi;

use crate::runtime::{Runtime, RuntimeBuilder, Transport};
use asked::nobody;
use dataflow_core::Error;
use dataflow_mpi::transport;
use dataflow_mpi::transport::local::{self, Local};
use page::LaunchPage;
use processes::over_sockets;
use threads::as_threads;
use under_mpi::under_mpi;

/// Runs `program` once for each rank, each with a runtime of its own, and returns what the lowest
/// rank of this process returned.
///
/// Every rank runs the same program: runs across ranks must come in the same order on each, one after
/// another.
/// The program may fail with an error of its own type, into which an [`Error`] can be turned.
/// If a rank ends early, by an error or a panic, the next run across ranks of the others fails because
/// that rank is lost. An error on any rank of this process, or that this call has started, is returned.
///
/// # Code around the call
/// Code before the call runs in every process: once if ranks are threads, once for each rank otherwise.
/// Code after it:
///
/// | ranks are | how often it runs |
/// |---|---|
/// | threads of this process | once |
/// | processes that this call starts | once, in this process |
/// | processes started by hand or by an MPI launcher | once for each rank |
///
/// A process that this call has started stays in its own call when its part has ended well, and ends
/// there with status 0 when this process ends; destructors of values outside the call are not run.
/// If this process launches again, the other returns from its call, with its own rank's result, and runs
/// the code up to the next launch, in which it is the same rank; so there must be as many ranks.
/// If its part has failed it returns the error, and is expected to end with another status than 0;
/// nothing can be launched after that.
///
/// MPI that this call has initialised is kept for the next, and ends when the processes exit: there each
/// waits for the others. If the part of a rank fails it ends with this call, and nothing can be launched
/// after that. Each launch uses up one of MPI's communicators, of which MPICH has about two thousand.
///
/// This process returns when the parts of all ranks have ended; if its own has ended well it waits for
/// them without limit. Ranks that were started by hand wait for no others. What the others print goes where this process prints.
///
/// # Environment
/// Which ranks there are is told by `settings`, by a launcher's variables, or by those of a process that
/// this call has started. Those of workers count if `settings` were made by [`RuntimeBuilder::from_env`].
///
/// # Traces
/// With `DATAFLOW_TRACE` in the environment of every rank (a file, in the format of its extension) the
/// runs of the program are recorded, unless `settings` ask for [traces](RuntimeBuilder::trace) themselves.
/// When all ranks have ended well, rank 0 writes the longest with the parts of all; if one fails, it writes its
/// own part; not if the process has written that of a longer run before, in another launch or on another
/// runtime. Until then the traces of all runs are kept. Where nothing was recorded, a line on standard error
/// says so.
///
/// # Errors
/// Wrong settings: a [seat](RuntimeBuilder::seat) and another transport than sockets, a file for the trace
/// that rank 0 cannot write or of no known format, a `DATAFLOW_VERIFY` that is neither 0 nor 1, no ranks,
/// another number than a launcher has started, or more than this machine has room for ([`Local::MOST`] as
/// threads). Or an error of the program; of several ranks' errors the first that is not only about another
/// rank's end. If a process that this call has started fails, an error that says so.
///
/// # Panics
/// If the program does on any rank of this process; the others have ended by then.
///
/// # Examples
/// Three ranks tell each other their numbers:
/// ```
/// use dataflow::{Runtime, launch};
/// let all = launch(Runtime::builder().threads(1).ranks(3), |runtime| {
///     runtime.gather(vec![runtime.rank().0 as u8])
/// })?;
/// assert_eq!(all, [[0], [1], [2]]);
/// # Ok::<(), dataflow::Error>(())
/// ```
/// An error of the program's own, on a rank that is not the lowest. A `main` that hands it on by `?` has the
/// same type of errors: `Box<dyn Error>` takes no `Box<dyn Error + Send + Sync>`.
/// ```
/// use dataflow::prelude::*;
/// fn write(runtime: &Runtime) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     runtime.gather(Vec::new())?;
///     if runtime.rank() == Rank(1) {
///         std::fs::write("/nowhere/answer", "42")?;
///     }
///     Ok(())
/// }
/// let failed = launch(Runtime::builder().threads(1).ranks(2), write).unwrap_err();
/// assert!(failed.is::<std::io::Error>());
/// ```
pub fn launch<R: Send, E: From<Error> + Send>(
    settings: RuntimeBuilder,
    program: impl Fn(&Runtime) -> Result<R, E> + Sync,
) -> Result<R, E> {
    let asked = settings.n_asked();
    if asked == 0 {
        return Err(nobody().into());
    }
    let (page, settings) = LaunchPage::wanted(settings)?;
    let program = page.left_by(program);
    match settings.chosen()? {
        Transport::Local if asked == 1 => program(&settings.build()?),
        Transport::Local if asked > Local::MOST => Err(E::from(Error::wrong_settings(format!(
            "{asked} ranks as threads of one process (at most {})",
            Local::MOST
        )))),
        Transport::Local => {
            let transports = local::connect(asked);
            as_threads(&settings, Transport::Local, transports, &program)
        }
        Transport::Own => Err(E::from(Error::wrong_settings(
            "a transport of the program's own was asked for (dataflow::launch_over takes one)",
        ))),
        Transport::Tcp => over_sockets(&settings, &program),
        Transport::Mpi => {
            // Before MPI begins, and also if it is not built in.
            settings.count_ranks()?;
            under_mpi(&settings, &program)
        }
    }
}

/// The same over transports of your own, one for each rank, in their order: the ranks are threads of this
/// process. What the settings say of ranks and transport has no meaning.
///
/// # Errors
/// As [`launch`]; and if one of them is not of its place in the list, or of as many ranks.
///
/// # Examples
/// Transports of the library, with shorter messages than they have by themselves; the guide has
/// [one written from nothing](crate::guide::transport).
/// ```
/// use dataflow::mpi::transport::{MessageLimits, local};
/// use dataflow::prelude::*;
///
/// let limits = MessageLimits { message_bytes: 100, largest_tag: 7, in_order: true };
/// let ends = local::connect_with(3, limits);
/// let sum = dataflow::launch_over(Runtime::builder().threads(1), ends, |runtime| {
///     runtime.all_reduce(runtime.rank().0, |a, b| a + b)
/// })?;
/// assert_eq!(sum, 0 + 1 + 2);
/// # Ok::<(), dataflow::Error>(())
/// ```
pub fn launch_over<R: Send, E: From<Error> + Send>(
    settings: RuntimeBuilder,
    transports: Vec<impl transport::Transport + 'static>,
    program: impl Fn(&Runtime) -> Result<R, E> + Sync,
) -> Result<R, E> {
    in_their_order(&transports)?;
    let (page, settings) = LaunchPage::wanted(settings)?;
    let program = page.left_by(program);
    as_threads(&settings, Transport::Own, transports, &program)
}

/// Each is the transport of the rank that it stands for in the list.
fn in_their_order(transports: &[impl transport::Transport]) -> Result<(), Error> {
    let n_ranks = transports.len();
    for (place, transport) in transports.iter().enumerate() {
        let (rank, of) = (transport.rank(), transport.n_ranks());
        if (rank.0 as usize, of) != (place, n_ranks) {
            let text = format!(
                "transport {place} of the list is {rank}'s of {of} (rank {place}'s of {n_ranks} is needed)"
            );
            return Err(Error::wrong_settings(text));
        }
    }
    Ok(())
}
