//! The courier of a rank, as the engine sees it.

use crate::counters::Counters;
use crate::depot::{Depot, Refused, Tamper};
use crate::failure;
use crate::host::{Host, Promise, Thread};
use crate::progress::{Command, Life, MessageProgress, is_moving, may_wait};
use crate::settings::Settings;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::transport::Transport;
use crate::transport::raw::Raw;
use dataflow_core::error::Error;
use dataflow_core::port::{Courier, Failure, Inbox, Line, Memory, Parcel, Terms};
use dataflow_core::rank::Rank;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One rank's courier over a transport.
///
/// Starts one thread, which ends when the messenger and its lines are dropped; it uses no
/// processor between runs.
///
/// # Examples
/// Two ranks as threads open a run and close it:
/// ```
/// use dataflow_core::port::{Arrival, Courier, Failure, Heap, Inbox, Pulse, Terms};
/// use dataflow_core::rank::Rank;
/// use dataflow_mpi::{Machine, Messenger, Settings, transport::local};
/// use std::sync::Arc;
///
/// struct Nothing;
/// impl Inbox for Nothing {
///     fn deliver(&self, _: Rank, _: Arrival) {}
///     fn pulse(&self) -> Pulse { Pulse::default() }
///     fn stop(&self, _: Failure) {}
///     fn stall(&self) {}
/// }
///
/// std::thread::scope(|ranks| {
///     for transport in local::connect(2) {
///         ranks.spawn(move || {
///             let messenger = Messenger::new(Box::new(transport), Settings::default(), Machine::new(), Arc::new(Heap))?;
///             let line = messenger.open(&Terms::default(), Arc::new(Nothing))?;
///             assert_eq!(line.close(None)?, None);
///             Ok::<(), dataflow_core::Error>(())
///         });
///     }
/// });
/// ```
pub struct Messenger {
    rank: Rank,
    n_ranks: usize,
    thread: Arc<Living>,
}

/// The thread of a messenger, as long as somebody needs it.
struct Living {
    progress: Arc<MessageProgress>,
    thread: Mutex<Option<Box<dyn Thread>>>,
}

impl Messenger {
    /// The courier of the transport's rank; received data lie in blocks of `memory`.
    ///
    /// # Errors
    /// If the transport's rank is none of its ranks, if these are more than 2³² − 1, if it carries less than
    /// 64 bytes, if beats are too rare for the silence allowed, or if the thread could not be started.
    pub fn new(
        transport: Box<dyn Transport>,
        settings: Settings,
        host: Arc<dyn Host>,
        memory: Arc<dyn Memory>,
    ) -> Result<Self, Error> {
        let (rank, n_ranks, limits) = (transport.rank(), transport.n_ranks(), transport.limits());
        if rank.0 as usize >= n_ranks {
            let text = format!("the transport is {rank}'s of {n_ranks} (they begin at 0)");
            return Err(Error::wrong_settings(text));
        }
        if u32::try_from(n_ranks).is_err() {
            let most = u32::MAX;
            let text =
                format!("the transport is {rank}'s of {n_ranks} (at most {most} are allowed)");
            return Err(Error::wrong_settings(text));
        }
        if limits.message_bytes < 64 || limits.largest_tag == 0 {
            let text =
                format!("the transport's limits are {limits:?} (64 bytes and a tag are needed)");
            return Err(Error::wrong_settings(text));
        }
        if settings.beat.is_zero() || settings.silence < settings.beat.saturating_mul(2) {
            let text = format!(
                "ranks say every {:?} that they live, and are lost after {:?} (twice as long is needed, and more than 0)",
                settings.beat, settings.silence
            );
            return Err(Error::wrong_settings(text));
        }
        let mut settings = settings;
        if host.is_virtual() {
            settings.spin = Duration::ZERO;
        }
        let mut depot = Depot::new(rank, n_ranks, limits, settings.clone(), memory);
        depot.bind(transport.bonds());
        let progress = MessageProgress::new(transport, depot, settings, host.clone());
        let (moved, mut life) = (progress.clone(), Life::default());
        let name = format!("dataflow-mpi-{}", rank.0);
        let thread = host.start_turns(name, Box::new(move || moved.turn(&mut life)));
        let thread = thread.map_err(|reason| {
            Error::wrong_settings(format!("the thread of {rank} was not started: {reason}"))
        })?;
        let thread = Mutex::new(Some(thread));
        Ok(Messenger {
            rank,
            n_ranks,
            thread: Arc::new(Living { progress, thread }),
        })
    }

    /// What this rank has sent, dropped and held since it was started.
    ///
    /// # Panics
    /// As [`totals`](Self::totals) and [`is_broken`](Self::is_broken) do, if it is asked by code that is
    /// called while messages move: the hook for [warnings](Settings::warn), a datum's size or its end, or who has
    /// the [bare](Self::bare) transport.
    pub fn counters(&self) -> Counters {
        self.thread.progress.with_depot(|depot| depot.counters())
    }

    /// The sum over all ranks (the largest, of peaks), as of the end of the last run.
    pub fn totals(&self) -> Counters {
        self.thread.progress.with_depot(|depot| depot.totals())
    }

    /// Whether ranks cannot go on together any more, by no fault of this rank's program: another was
    /// lost, or said what makes no sense.
    pub fn is_broken(&self) -> bool {
        self.thread.progress.with_depot(|depot| depot.is_broken())
    }

    /// How long nothing may come from a rank during a run before it is lost.
    pub fn silence(&self) -> Duration {
        self.thread.progress.settings.silence
    }

    /// Lends the bare transport, to compare with: what is said over it no protocol sees. Every rank
    /// that is spoken to calls this too, between the same two runs; nothing must be left unread.
    ///
    /// Meanwhile this rank does not say that it lives: others may have opened the next run, and lose it if
    /// it talks for longer than the [silence](Self::silence) allowed.
    ///
    /// # Errors
    /// If a run is open on this rank; if ranks cannot go on together or one has left, the reason; if it is called by `talk`
    /// itself, or by other code that is called while messages move; or if its host is a simulated world: there
    /// the thread that must leave the transport alone could not run meanwhile, and a [`Raw`] has a transport of
    /// its own. What `talk` answers is in the value.
    pub fn bare<R>(&self, spins: bool, talk: impl FnOnce(&mut Raw<'_>) -> R) -> Result<R, Error> {
        let progress = &self.thread.progress;
        if progress.host.is_virtual() {
            let text =
                "the bare transport was asked for in a simulated world (only machines lend it)";
            return Err(Error::wrong_settings(text));
        }
        if is_moving() {
            let text = "the bare transport was asked for by code that has it, or is called while messages move \
                        (a datum's size, or its end; a warning): it would wait for itself";
            return Err(Error::nested_run(text));
        }
        let refused = |refused| match refused {
            Refused::Broken(failure) => error_of(failure),
            Refused::StillOpen | Refused::Differ(_) => Error::nested_run(
                "the bare transport was asked for during a run (only between runs it is lent)",
            ),
        };
        progress.lend(spins, talk).map_err(refused)
    }

    /// Plants a fault, for tests.
    #[doc(hidden)]
    pub fn tamper(&self, tamper: Tamper) {
        self.thread
            .progress
            .with_depot(|depot| depot.tamper(tamper));
    }
}

impl fmt::Debug for Messenger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Messenger({} of {})", self.rank, self.n_ranks)
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.progress.end();
        let thread = lock(&self.thread).take();
        // The thread itself may drop the last line, with an inbox; it ends by itself then.
        if let Some(thread) = thread
            && !is_moving()
            && !thread.join()
            && !std::thread::panicking()
        {
            unreachable!("the thread that moves messages panicked");
        }
    }
}

impl Courier for Messenger {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn n_ranks(&self) -> usize {
        self.n_ranks
    }

    fn simulated_time(&self) -> Option<Duration> {
        let host = &self.thread.progress.host;
        host.is_virtual().then(|| host.now())
    }

    fn open(&self, terms: &Terms, inbox: Arc<dyn Inbox>) -> Result<Box<dyn Line>, Error> {
        let progress = &self.thread.progress;
        if is_moving() {
            return Err(Error::nested_run(
                "a run across ranks was begun by code that is called while messages move (a datum's size, \
                 or its end; a warning; the bare transport's user): it would wait for itself",
            ));
        }
        let answer = Promise::new(&*progress.host);
        progress.command(Command::Open(terms.clone(), inbox, answer.clone()));
        match progress.wait(&answer) {
            Ok(()) => Ok(Box::new(OpenLine {
                rank: self.rank,
                thread: self.thread.clone(),
                closed: AtomicBool::new(false),
            })),
            Err(Refused::Differ(text)) => Err(Error::parameters_differ(text)),
            Err(Refused::Broken(failure)) => Err(error_of(failure)),
            Err(Refused::StillOpen) => Err(Error::nested_run(
                "another run across ranks is still open on this rank (they follow one another, in the \
                 same order on every rank: begin this one when that one has ended)",
            )),
        }
    }
}

fn error_of(failure: Failure) -> Error {
    match &failure.kind[..] {
        "rank_lost" => Error::rank_lost(failure.message),
        _ => Error::malformed(failure.message),
    }
}

/// The line of one run.
struct OpenLine {
    rank: Rank,
    thread: Arc<Living>,
    closed: AtomicBool,
}

impl OpenLine {
    fn progress(&self) -> &MessageProgress {
        &self.thread.progress
    }
}

impl Line for OpenLine {
    fn post(&self, parcel: Parcel) {
        let progress = self.progress();
        if !progress.settings.blocking || !may_wait() {
            progress.command(Command::Post(parcel, None));
            return;
        }
        let answer = Promise::new(&*progress.host);
        progress.command(Command::Post(parcel, Some(answer.clone())));
        progress.wait(&answer);
    }

    fn poll(&self) {
        self.progress().poll();
    }

    fn glance(&self) {
        self.progress().glance();
    }

    fn lingers(&self, finished: bool, since: &mut Option<Duration>) -> bool {
        self.progress().lingers(finished, since)
    }

    fn number(&self) -> u64 {
        self.progress().with_depot(|depot| depot.number().into())
    }

    fn abort(&self, failure: &Failure) {
        self.progress().command(Command::Abort(failure.clone()));
    }

    fn close(&self, own: Option<Failure>) -> Result<Option<Failure>, Error> {
        // Relaxed: it orders nothing, one of two that close is the first.
        if self.closed.swap(true, Ordering::Relaxed) {
            return Err(Error::malformed("the line was closed before"));
        }
        let progress = self.progress();
        let answer = Promise::new(&*progress.host);
        progress.command(Command::Close(own, answer.clone()));
        progress.wait(&answer).map_err(error_of)
    }
}

impl Drop for OpenLine {
    /// A line that is dropped open fails the run on all ranks, and waits until they have closed.
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Relaxed) && !is_moving() {
            let text = "the run was given up before its end";
            let failure = failure(self.rank, "cancelled", text);
            self.abort(&failure);
            // The others hear of it; here nobody is left to be told.
            self.close(Some(failure)).ok();
        }
    }
}
