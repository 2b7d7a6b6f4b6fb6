//! Launch: the same program on every rank.

use crate::runtime::{
    HereAmong, Runtime, RuntimeBuilder, TRACE_ROOM, Transport, variable, write_if_longest,
};
use dataflow_core::Error;
use dataflow_core::port::drop_quietly;
use dataflow_core::rank::Rank;
use dataflow_core::stderr;
use dataflow_core::trace::Tracer;
use dataflow_mpi::start::{self, Launched, Seat, Staying};
use dataflow_mpi::transport;
use dataflow_mpi::transport::local::{self, Local};
use dataflow_mpi::transport::tcp::Tcp;
use dataflow_numa::topology::share::LocalRank;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// How many ranks `cargo mpirun` says it starts.
const EXPECTED: &str = "DATAFLOW_EXPECTED_RANKS";

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
    let page = settings.page()?;
    let settings = for_page(settings, page.as_deref());
    let program = with_page(program, page.as_deref());
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

/// The settings, with a trace if there is to be a page.
fn for_page(settings: RuntimeBuilder, page: Option<&Path>) -> RuntimeBuilder {
    match page {
        Some(_) => settings.trace(TRACE_ROOM),
        None => settings,
    }
}

/// The program, which leaves a page when it has ended if there is to be one.
fn with_page<R, E>(
    program: impl Fn(&Runtime) -> Result<R, E> + Sync,
    page: Option<&Path>,
) -> impl Fn(&Runtime) -> Result<R, E> + Sync {
    move |runtime| {
        let answer = program(runtime);
        if let Some(path) = page {
            leave_page(runtime, path, answer.is_ok());
        }
        answer
    }
}

/// Writes the longest trace, of all ranks or of rank 0 alone, unless one before was longer, or says that there
/// is none. The program's answer stands, whatever comes of it.
fn leave_page(runtime: &Runtime, path: &Path, of_all: bool) {
    let own = || runtime.tracer().map_or_else(Vec::new, Tracer::take);
    let traces = match of_all {
        true => runtime.traces().unwrap_or_else(|fault| {
            stderr::say(format_args!("dataflow: DATAFLOW_TRACE: {fault}"));
            own()
        }),
        false => own(),
    };
    if runtime.rank() != Rank(0) {
        return;
    }
    match traces.iter().max_by_key(|trace| trace.length()) {
        Some(trace) => write_if_longest(trace, path),
        None if of_all => {
            stderr::say("dataflow: DATAFLOW_TRACE: nothing was recorded, so there is no page");
        }
        // The program's failure is told first.
        None => {}
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
    let page = settings.page()?;
    let settings = for_page(settings, page.as_deref());
    let program = with_page(program, page.as_deref());
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

impl RuntimeBuilder {
    /// The transport that was asked for, or that of a seat taken by hand, or the launcher's. A process that
    /// rank 0 has started joins those launches that ask for sockets, as rank 0 does.
    fn chosen(&self) -> Result<Transport, Error> {
        let by_hand = |seat: Seat| seat.started_by.is_none();
        match (self.transport, &self.seat) {
            // Without its seat each process would be all ranks there are.
            (Some(other), Some(seat)) if other != Transport::Tcp => {
                return Err(Error::wrong_settings(format!(
                    "the transport {other:?}, and a seat as {} of {} (seats are for sockets: Tcp)",
                    seat.rank, seat.n_ranks
                )));
            }
            (Some(asked), _) => return Ok(asked),
            (None, _) if self.seated()?.is_some_and(by_hand) => return Ok(Transport::Tcp),
            (None, _) => {}
        }
        let launched = launched_ranks()?.is_some_and(|n_ranks| n_ranks > 1);
        Ok(
            match launched || (cfg!(feature = "mpi") && Launched::of(variable)?.is_some()) {
                true => Transport::Mpi,
                false => Transport::Local,
            },
        )
    }

    /// The seat that was given, here or in the environment.
    fn seated(&self) -> Result<Option<Seat>, Error> {
        match &self.seat {
            Some(seat) => Ok(Some(seat.clone())),
            None => Seat::of(variable),
        }
    }

    /// How many ranks [`launch`] runs on: as many as a launcher has started, or as were asked for.
    ///
    /// # Errors
    /// If the environment contradicts itself, or what was asked for.
    pub fn count_ranks(&self) -> Result<usize, Error> {
        let launched = match self.chosen()? {
            Transport::Local | Transport::Own => None,
            Transport::Tcp => self.seated()?.map(|seat| seat.n_ranks),
            Transport::Mpi => launched_ranks()?,
        };
        match launched {
            None => Ok(self.n_asked()),
            Some(n_ranks) => self.confirmed(n_ranks),
        }
    }

    /// How many ranks there are if nobody else has started any.
    fn n_asked(&self) -> usize {
        self.ranks.unwrap_or(1)
    }

    /// Whether ranks that others have started are as many as were asked for, if a number was.
    fn confirmed(&self, n_ranks: usize) -> Result<usize, Error> {
        match self.ranks {
            Some(asked) if asked != n_ranks => Err(Error::wrong_settings(format!(
                "{}, and {n_ranks} {} started by a launcher or by hand (ask for no number, and all \
                 that were started run; or start {asked})",
                were_asked(asked),
                were(n_ranks)
            ))),
            _ => Ok(n_ranks),
        }
    }
}

/// How many ranks a launcher says that it has started.
fn launched_ranks() -> Result<Option<usize>, Error> {
    let launched = Launched::of(variable)?;
    Ok(launched.map(|launched| launched.n_ranks).or(expected()?))
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
fn over_sockets<R, E: From<Error>>(
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

fn were_asked(n_ranks: usize) -> String {
    match n_ranks {
        1 => "1 rank was asked for".into(),
        _ => format!("{n_ranks} ranks were asked for"),
    }
}

fn were(many: usize) -> &'static str {
    if many == 1 { "was" } else { "were" }
}

fn gone() -> Error {
    Error::wrong_settings(
        "a launch of ranks as processes before this has failed, or goes on: they would begin the \
         program anew (its error is to be the end of the program)",
    )
}

/// This process is one rank, the others were started by the same launcher.
#[cfg(feature = "mpi")]
fn under_mpi<R, E: From<Error>>(
    settings: &RuntimeBuilder,
    program: &(impl Fn(&Runtime) -> Result<R, E> + Sync),
) -> Result<R, E> {
    use dataflow_mpi::transport::mpi::{MpiWorld, Sizes};
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
fn under_mpi<R, E: From<Error>>(
    _: &RuntimeBuilder,
    _: &(impl Fn(&Runtime) -> Result<R, E> + Sync),
) -> Result<R, E> {
    start::check(Launched::of(variable)?.as_ref(), expected()?, None)?;
    Err(E::from(Error::wrong_settings(
        "ranks under MPI were asked for; this program was built without the feature `mpi`",
    )))
}

/// All ranks are threads of this process.
fn as_threads<R: Send, E: From<Error> + Send>(
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

fn nobody() -> Error {
    Error::wrong_settings("0 ranks run nothing (1 is needed)")
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
