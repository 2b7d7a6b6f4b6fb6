//! Launch: the same program on every rank.

use crate::runtime::{Runtime, RuntimeBuilder};
use dataflow_core::{Error, Kind};
use dataflow_mpi::transport::local;
use dataflow_numa::topology::share::LocalRank;
use std::panic::resume_unwind;
use std::thread;

/// How ranks talk to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Ranks are threads of this process.
    #[default]
    Local,
}

/// Runs `program` once for each rank, each with a runtime of its own, and returns what the lowest
/// rank of this process returned.
///
/// Every rank runs the same program: runs across ranks must come in the same order on each.
/// A rank that ends early, by an error or a panic, is lost to the others, whose next run across
/// ranks says so.
///
/// # Errors
/// What the runtime's settings or the program answer; of several ranks' errors the first that is
/// not only the loss of another rank.
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
pub fn launch<R: Send>(
    settings: RuntimeBuilder,
    program: impl Fn(&Runtime) -> Result<R, Error> + Sync,
) -> Result<R, Error> {
    match settings.transport {
        Transport::Local if settings.ranks <= 1 => program(&settings.build()?),
        Transport::Local => as_threads(&settings, &program),
    }
}

/// All ranks are threads of this process.
fn as_threads<R: Send>(
    settings: &RuntimeBuilder,
    program: &(impl Fn(&Runtime) -> Result<R, Error> + Sync),
) -> Result<R, Error> {
    let transports = local::connect(settings.ranks);
    let answers: Vec<_> = thread::scope(|scope| {
        let start = |(rank, transport)| {
            let n_ranks = settings.ranks;
            let local = LocalRank { rank, n_ranks };
            let program = move || program(&settings.build_rank(local, Box::new(transport))?);
            thread::Builder::new()
                .name(format!("rank-{rank}"))
                .spawn_scoped(scope, program)
        };
        let started: Vec<_> = transports.into_iter().enumerate().map(start).collect();
        let join = |thread: std::io::Result<thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread.join(),
            Err(error) => Ok(Err(Error::wrong_settings(format!(
                "the thread of a rank was not started: {error}"
            )))),
        };
        started.into_iter().map(join).collect()
    });
    let mut lowest = None;
    for answer in answers {
        let answer = answer.unwrap_or_else(|panic| resume_unwind(panic));
        let lost = |answer: &Result<R, Error>| {
            let error = answer.as_ref().err();
            error.is_some_and(|error| error.kind() == Kind::RankLost)
        };
        match &lowest {
            None => lowest = Some(answer),
            // Somebody was lost: here is why.
            Some(first) if lost(first) && answer.is_err() && !lost(&answer) => {
                lowest = Some(answer);
            }
            Some(_) => {}
        }
    }
    lowest.unwrap_or_else(|| Err(Error::wrong_settings("0 ranks run nothing (1 is needed)")))
}
