//! Under MPI: ranks that are what an MPI launcher has started.

use super::asked::expected;
use crate::runtime::{Runtime, RuntimeBuilder, variable};
use dataflow_core::Error;
use dataflow_mpi::start::{self, Launched};

/// This process is one rank, the others were started by the same launcher.
#[cfg(feature = "mpi")]
pub(super) fn under_mpi<R, E: From<Error>>(
    settings: &RuntimeBuilder,
    program: &(impl Fn(&Runtime) -> Result<R, E> + Sync),
) -> Result<R, E> {
    use crate::runtime::Transport;
    use dataflow_mpi::transport::mpi::{MpiWorld, Sizes};
    use dataflow_numa::topology::share::LocalRank;

    let launched = Launched::of(variable)?;
    let world = MpiWorld::begin()?;
    let (rank, n_ranks) = world.here();
    let mpi = start::Mpi {
        n_ranks: world.n_ranks(),
        library: world.library(),
    };
    let run = || {
        start::check(launched.as_ref(), expected()?, Some(&mpi))?;
        settings.confirmed(mpi.n_ranks)?;
        let transport = Box::new(world.transport(Sizes::default())?);
        let local = LocalRank { rank, n_ranks };
        let runtime = settings.build_rank(local, Transport::Mpi, transport)?;
        runtime.compare_clocks()?;
        program(&runtime)
    };
    let answer = run();
    // MPI begins only once: it is kept for the next launch. A rank that has failed ends it, and does not
    // wait long for others, which may have ended; one that has not waits as long as others compute.
    let ended = match &answer {
        Ok(_) => world.rest(std::time::Duration::MAX),
        Err(_) => world.end(settings.communication().silence),
    };
    let answer = answer?;
    ended?;
    Ok(answer)
}

/// Without MPI there is only an error to give.
#[cfg(not(feature = "mpi"))]
pub(super) fn under_mpi<R, E: From<Error>>(
    _: &RuntimeBuilder,
    _: &(impl Fn(&Runtime) -> Result<R, E> + Sync),
) -> Result<R, E> {
    start::check(Launched::of(variable)?.as_ref(), expected()?, None)?;
    Err(E::from(Error::wrong_settings(
        "ranks under MPI were asked for; this program was built without the feature `mpi`",
    )))
}
