//! Threads: ranks that are threads of this process.

use super::asked::nobody;
use crate::runtime::{HereAmong, Runtime, RuntimeBuilder, Transport, variable};
use dataflow_core::Error;
use dataflow_core::port::drop_quietly;
use dataflow_mpi::transport;
use dataflow_numa::topology::share::LocalRank;
use std::panic::resume_unwind;
use std::thread;

/// All ranks are threads of this process.
pub(super) fn as_threads<R: Send, E: From<Error> + Send>(
    settings: &RuntimeBuilder,
    kind: Transport,
    transports: Vec<impl transport::Transport + 'static>,
    program: &(impl Fn(&Runtime) -> Result<R, E> + Sync),
) -> Result<R, E> {
    let n_ranks = transports.len();
    let process = LocalRank::from_launcher(variable);
    let start = |(rank, transport)| {
        let local = HereAmong::one_mask(process, LocalRank { rank, n_ranks });
        let runtime = settings.build_rank(local, kind, Box::new(transport));
        let runtime = runtime.map_err(|error| (E::from(error), FailureCause::Own))?;
        program(&runtime).map_err(|error| (error, FailureCause::of(&runtime)))
    };
    let answers: Vec<_> = thread::scope(|scope| {
        let spawn = |(rank, transport)| {
            let thread = thread::Builder::new().name(format!("rank-{rank}"));
            thread.spawn_scoped(scope, move || start((rank, transport)))
        };
        let started: Vec<_> = transports.into_iter().enumerate().map(spawn).collect();
        let join = |thread: std::io::Result<thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread.join(),
            Err(error) => {
                let text = format!("the thread of a rank was not started: {error}");
                Ok(Err((
                    E::from(Error::wrong_settings(text)),
                    FailureCause::Own,
                )))
            }
        };
        started.into_iter().map(join).collect()
    });
    of_all(answers)
}

/// What the lowest rank returned; or of several errors the first that is not only about another's end.
fn of_all<R, E: From<Error>>(
    answers: Vec<thread::Result<Result<R, (E, FailureCause)>>>,
) -> Result<R, E> {
    let mut lowest = None;
    let mut answers = answers.into_iter();
    while let Some(answer) = answers.next() {
        let answer = answer.unwrap_or_else(|panic| {
            // What the others returned may panic in its turn, as it goes; so everywhere here.
            lowest.take().into_iter().for_each(drop_quietly);
            answers.by_ref().for_each(drop_quietly);
            resume_unwind(panic)
        });
        let is_better = match (&lowest, &answer) {
            (None, _) | (Some(Ok(_)), Err(_)) => true,
            // Somebody was lost: here is why.
            (Some(Err((_, FailureCause::Others))), Err((_, FailureCause::Own))) => true,
            _ => false,
        };
        drop_quietly(match is_better {
            true => lowest.replace(answer),
            false => Some(answer),
        });
    }
    let none = || Err(nobody().into());
    lowest.map_or_else(none, |answer| answer.map_err(|(error, _)| error))
}

/// Why a rank has failed.
enum FailureCause {
    /// For reasons of its own, or the same as all.
    Own,
    /// Because another is lost to it, or has failed in a step of both.
    Others,
}

impl FailureCause {
    fn of(runtime: &Runtime) -> Self {
        match runtime.lacks_another() {
            true => FailureCause::Others,
            false => FailureCause::Own,
        }
    }
}
