//! Launch: the same program on every rank.

use crate::runtime::{Runtime, RuntimeBuilder};
use dataflow_core::{Error, Kind};
use dataflow_mpi::start::{self, Place, Seat};
use dataflow_mpi::transport::local;
use dataflow_mpi::transport::tcp::Tcp;
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
    /// Ranks are processes over sockets: those that this process starts, or those that were started
    /// by hand, each with its [`Seat`].
    Tcp,
    /// Ranks are what an MPI launcher has started (feature `mpi`).
    Mpi,
}

/// How many ranks `cargo mpirun` says it starts.
const EXPECTED: &str = "DATAFLOW_EXPECTED_RANKS";

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
    match settings.chosen()? {
        Transport::Local if settings.ranks == 1 => program(&settings.build()?),
        Transport::Local => as_threads(&settings, &program),
        Transport::Tcp => over_sockets(&settings, &program),
        Transport::Mpi => under_mpi(&settings, &program),
    }
}

impl RuntimeBuilder {
    /// The transport that was asked for, or the launcher's.
    fn chosen(&self) -> Result<Transport, Error> {
        if let Some(transport) = self.transport {
            return Ok(transport);
        }
        if self.seated()?.is_some() {
            return Ok(Transport::Tcp);
        }
        let launched = launched_ranks()?.is_some_and(|n_ranks| n_ranks > 1);
        Ok(
            match launched || (cfg!(feature = "mpi") && Place::of(variable)?.is_some()) {
                true => Transport::Mpi,
                false => Transport::Local,
            },
        )
    }

    /// The seat that was given, here or in the environment.
    fn seated(&self) -> Result<Option<Seat>, Error> {
        match self.seat {
            Some(seat) => Ok(Some(seat)),
            None => Seat::of(variable),
        }
    }

    /// How many ranks [`launch`] runs on: as many as a launcher has started, or as were asked for.
    ///
    /// # Errors
    /// If the environment contradicts itself, or what was asked for.
    pub fn count_ranks(&self) -> Result<usize, Error> {
        let launched = match self.chosen()? {
            Transport::Local => None,
            Transport::Tcp => self.seated()?.map(|seat| seat.n_ranks),
            Transport::Mpi => launched_ranks()?,
        };
        match launched {
            None => Ok(self.ranks),
            Some(n_ranks) => self.confirmed(n_ranks),
        }
    }

    /// Whether ranks that are there are those that were asked for, if they were.
    fn confirmed(&self, n_ranks: usize) -> Result<usize, Error> {
        if self.ranks == 1 || self.ranks == n_ranks {
            return Ok(n_ranks);
        }
        Err(Error::wrong_settings(format!(
            "{} ranks were asked for, {n_ranks} were started (leave one of the two out)",
            self.ranks
        )))
    }
}

/// How many ranks a launcher says that it has started.
fn launched_ranks() -> Result<Option<usize>, Error> {
    let place = Place::of(variable)?;
    Ok(place.map(|place| place.n_ranks).or(expected()?))
}

fn expected() -> Result<Option<usize>, Error> {
    let wrong = |value| {
        let text = format!("{EXPECTED} is {value:?} (a number is needed)");
        Error::wrong_launcher(text)
    };
    variable(EXPECTED)
        .map(|value| value.parse().map_err(|_| wrong(value)))
        .transpose()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// This process is one rank, the others are processes that it starts or that were started by hand.
fn over_sockets<R>(
    settings: &RuntimeBuilder,
    program: &(impl Fn(&Runtime) -> Result<R, Error> + Sync),
) -> Result<R, Error> {
    let patience = settings.messages.patience;
    let run = |local: LocalRank, tcp: Tcp| {
        program(&settings.build_rank(local, Transport::Tcp, Box::new(tcp))?)
    };
    if let Some(seat) = settings.seated()? {
        settings.confirmed(seat.n_ranks)?;
        let tcp = seat.take(patience)?;
        let (rank, n_ranks) = seat.here();
        return run(LocalRank { rank, n_ranks }, tcp);
    }
    let (tcp, others) = start::start(settings.ranks, patience)?;
    let n_ranks = settings.ranks;
    let answer = run(LocalRank { rank: 0, n_ranks }, tcp);
    let ended = others.end();
    let answer = answer?;
    ended.map(|()| answer)
}

/// This process is one rank, the others were started by the same launcher.
#[cfg(feature = "mpi")]
fn under_mpi<R>(
    settings: &RuntimeBuilder,
    program: &(impl Fn(&Runtime) -> Result<R, Error> + Sync),
) -> Result<R, Error> {
    use dataflow_mpi::transport::mpi::{Sizes, World};
    let place = Place::of(variable)?;
    let world = World::begin()?;
    let (rank, n_ranks) = world.here();
    let mpi = start::Mpi {
        n_ranks: world.n_ranks(),
        library: world.library(),
    };
    let run = || {
        start::check(place.as_ref(), expected()?, Some(&mpi))?;
        settings.confirmed(mpi.n_ranks)?;
        let transport = Box::new(world.transport(Sizes::default())?);
        let local = LocalRank { rank, n_ranks };
        program(&settings.build_rank(local, Transport::Mpi, transport)?)
    };
    let answer = run();
    // Whoever has failed does not wait long for those who may have ended.
    let patience = match &answer {
        Ok(_) => settings.messages.patience,
        Err(_) => settings.messages.silence,
    };
    let ended = world.end(patience);
    let answer = answer?;
    ended.map(|()| answer)
}

/// Without MPI there is only an error to give.
#[cfg(not(feature = "mpi"))]
fn under_mpi<R>(
    _: &RuntimeBuilder,
    _: &(impl Fn(&Runtime) -> Result<R, Error> + Sync),
) -> Result<R, Error> {
    start::check(Place::of(variable)?.as_ref(), expected()?, None)?;
    Err(Error::wrong_settings(
        "ranks under MPI were asked for; this program was built without the feature `mpi`",
    ))
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
            let program = move || {
                let runtime = settings.build_rank(local, Transport::Local, Box::new(transport))?;
                program(&runtime)
            };
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
