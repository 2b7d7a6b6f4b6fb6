//! Processes: ranks that talk over sockets, of which rank 0 starts the others, or somebody has by hand.

use super::asked::{were, were_asked};
use crate::runtime::{HereAmong, Runtime, RuntimeBuilder, Transport};
use dataflow_core::Error;
use dataflow_mpi::start::{self, Staying};
use dataflow_mpi::transport::tcp::Tcp;
use dataflow_numa::topology::share::LocalRank;
use std::sync::{Mutex, PoisonError};

/// What has become of ranks that are processes, since the launch before.
enum LaunchedBefore {
    /// There was none.
    None,
    /// In the process that started the others: their parts have ended well.
    Staying(Box<Staying>),
    /// In one of the others: the connections for this launch.
    Again(Box<Tcp>),
    /// A launch goes on, or has failed.
    Gone,
}

static PROCESSES: Mutex<LaunchedBefore> = Mutex::new(LaunchedBefore::None);

fn set(processes: LaunchedBefore) -> LaunchedBefore {
    let mut known = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut known, processes)
}

/// This process is one rank, the others are processes that it starts or that were started by hand.
pub(super) fn over_sockets<R, E: From<Error>>(
    settings: &RuntimeBuilder,
    program: &(impl Fn(&Runtime) -> Result<R, E> + Sync),
) -> Result<R, E> {
    let run = |tcp: Tcp, are_started: bool| {
        let (rank, n_ranks) = tcp.here();
        let local = LocalRank { rank, n_ranks };
        let local = match are_started {
            true => HereAmong::one_mask(None, local),
            false => local.into(),
        };
        let runtime = settings.build_rank(local, Transport::Tcp, Box::new(tcp))?;
        runtime.compare_clocks()?;
        program(&runtime)
    };
    let Some(seat) = settings.seated()? else {
        return lead(settings, |tcp| run(tcp, true));
    };
    if seat.started_by.is_none() {
        settings.confirmed(seat.n_ranks)?;
        return run(seat.take(&settings.communication())?, false);
    }
    if settings.ranks.is_some_and(|asked| asked != seat.n_ranks) {
        return Err(E::from(not_as_before(settings.n_asked(), seat.n_ranks)));
    }
    let tcp = match set(LaunchedBefore::Gone) {
        LaunchedBefore::None => seat.take(&settings.communication())?,
        LaunchedBefore::Again(tcp) if settings.n_asked() == seat.n_ranks => *tcp,
        LaunchedBefore::Again(tcp) => {
            set(LaunchedBefore::Again(tcp));
            return Err(E::from(not_as_before(settings.n_asked(), seat.n_ranks)));
        }
        LaunchedBefore::Staying(_) | LaunchedBefore::Gone => return Err(gone().into()),
    };
    let answer = run(tcp, true)?;
    match seat.stay(&settings.communication())? {
        Some(tcp) => set(LaunchedBefore::Again(Box::new(tcp))),
        None => std::process::exit(0),
    };
    Ok(answer)
}

/// This process is rank 0 and has started the others, or does.
fn lead<R, E: From<Error>>(
    settings: &RuntimeBuilder,
    run: impl FnOnce(Tcp) -> Result<R, E>,
) -> Result<R, E> {
    let (tcp, others) = match set(LaunchedBefore::Gone) {
        LaunchedBefore::None => start::start(settings.n_asked(), &settings.communication())?,
        LaunchedBefore::Staying(staying) if staying.n_ranks() == settings.n_asked() => {
            staying.again()?
        }
        LaunchedBefore::Staying(staying) => {
            let (there, asked) = (staying.n_ranks(), settings.n_asked());
            set(LaunchedBefore::Staying(staying));
            return Err(E::from(not_as_before(asked, there)));
        }
        LaunchedBefore::Again(_) | LaunchedBefore::Gone => return Err(gone().into()),
    };
    let answer = run(tcp)?;
    let staying = others.stay(&settings.communication())?;
    set(LaunchedBefore::Staying(Box::new(staying)));
    Ok(answer)
}

fn not_as_before(asked: usize, there: usize) -> Error {
    Error::wrong_settings(format!(
        "{}, and {there} {} started as processes before (as many are needed in every launch)",
        were_asked(asked),
        were(there)
    ))
}

fn gone() -> Error {
    Error::wrong_settings(
        "a launch of ranks as processes before this has failed, or goes on: they would begin the \
         program anew (its error is to be the end of the program)",
    )
}
