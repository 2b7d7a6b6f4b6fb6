#![doc = include_str!("README.md")]

mod activate;
mod announce;
mod arrive;
mod best;
mod common;
mod dense;
mod drive;
mod fault;
mod gather;
mod guard;
mod hand;
mod homes;
mod idle;
mod job;
mod ledger;
mod mail;
pub(crate) mod monitor;
mod names;
mod pending;
mod post;
mod queue;
mod release;
mod report;
mod run;
mod shelf;
mod slots;
mod stall;
mod tell;
mod trace;

pub use crate::foreign::drop_quietly;
pub(crate) use announce::{Chunk, Pulled, Roots};
pub use best::{Best, Next, Offer};
pub(crate) use common::{BytesRead, Common, Copies, OrderedError};
pub(crate) use drive::{Begin, Front, Visit, chain, drive, next};
pub use guard::OfThread;
pub(crate) use guard::{depth, guarded, is_inside, refuse_too_deep, replace_depth};
pub(crate) use idle::Idle;
pub(crate) use job::Offered;
pub use job::{Entered, Job, MANY_INSIDE, Stay};
pub(crate) use ledger::Ledger;
pub use report::Report;
pub(crate) use shelf::{Keeper, PlaceGuard, Shelves};
pub(crate) use trace::open_trace;

use crate::data::{Datum, RunNumber};
use crate::error::{Error, Kind};
use crate::foreign::{Later, caught, shown};
use crate::port::{Courier, Executor, Failure, Line, Wire};
use crate::rank::Rank;
use crate::space::{Description, NamedSpace, TaskName, TaskSpace, verify_if_asked};
use crate::sync::{AtomicU64, SpinLock};
use dense::DenseRecords;
use drive::LeftVisit;
use hand::Hand;
use homes::HomeTally;
pub(crate) use homes::new_run_number;
use job::JobBell;
use mail::Mail;
use monitor::{CountingRun, Monitor};
use names::Names;
use pending::{Pending, Poisoned};
use post::Codec;
use slots::Slots;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Runs all tasks of a space on this rank, whatever others do.
///
/// A body never waits for another run: one that calls `run` gets an error, and one that waits for a
/// thread that does, on the same executor, may wait for ever, for it keeps its worker meanwhile.
/// Inside a body [`run_inside`], [`scope_inside`](crate::sequence::scope_inside) and
/// [`recurse`](crate::recursion::recurse) run tasks on the same workers.
///
/// # Errors
/// The smallest failure of a body by (index, task), the same under every schedule; or the fault
/// of the space that was met first; [`Kind::Cancelled`] by the executor's
/// [monitor](Executor::monitor). The executor can be used again at once. If the environment has
/// `DATAFLOW_VERIFY=1`, spaces of at most 100,000 tasks are [verified](crate::space::verify) before
/// they run; of larger ones a line on stderr says that they were not.
pub fn run<S: TaskSpace>(space: &S, on: &dyn Executor) -> Result<Report, Error> {
    refuse_inside_a_body()?;
    run_inside(space, on)
}

/// Runs all tasks of a space inside the body of a task of any kind, on the workers of `on`, including the one
/// that runs the body: until the run is over that one runs its tasks, and no others. Outside of bodies it is
/// the same as [`run`]. In a body that another executor runs, the thread of that body runs all tasks alone: it
/// is none of the workers of `on`.
///
/// # Errors
/// As [`run`]; but inside a body no monitor watches the run, and it leaves no trace of its own. A run that is
/// cancelled ends when the body has returned. [`Kind::NestedTooDeep`].
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::space::Independent;
/// use dataflow_core::{run, run_inside};
///
/// let inner = Independent::new("inner", 3, |_| Ok(()));
/// let outer = Independent::new("outer", 2, |_| {
///     assert!(run(&inner, &Inline).is_err());
///     assert_eq!(run_inside(&inner, &Inline)?.tasks, 3);
///     Ok(())
/// });
/// assert_eq!(run(&outer, &Inline)?.tasks, 2);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub fn run_inside<S: TaskSpace>(space: &S, on: &dyn Executor) -> Result<Report, Error> {
    let is_inside = is_inside();
    let depth = depth() + usize::from(is_inside);
    refuse_too_deep(depth)?;
    expect_workers(on)?;
    let monitor = on.monitor().filter(|_| !is_inside);
    let counting = monitor.map(Monitor::begin);
    let (description, count) = ask(space, 1, Rank(0));
    let count = count?;
    let start = Instant::now();
    let ledger = Arc::new(Ledger::new(on.n_workers(), count, false));
    let opened = open_trace(Some(count), on).map(Arc::new);
    let run = Run::new(
        space,
        description,
        Common::new(ledger, opened.clone()),
        None,
    );
    let outer_depth = replace_depth(depth);
    let back = Later::new(|| _ = replace_depth(outer_depth));
    run.execute(on, Arc::default(), counting, |_| {});
    back.now();
    let ended = run.finish(on, start);
    trace::close(opened, space, Rank(0));
    ended.map_err(|ordered| space.explained(ordered.error))
}

/// Runs the tasks that a space places on the rank of the executor's [courier](Executor::courier),
/// together with the other ranks, which call this with the same space. On a single rank the same as
/// [`run`].
///
/// # Errors
/// As [`run`], the same on every rank; [`Kind::ParametersDiffer`] if the ranks' spaces do, or the
/// types of their data, [`Kind::NestedRun`] if another run across ranks is open on this one; [`Kind::WrongSettings`]
/// if the courier has no ranks or more than 2³² − 1; [`Kind::RankLost`] if one is silent, [`Kind::Malformed`].
/// After these last two the ranks make no run together any more, unless a datum was not as long as it
/// [said](Wire::size) or a rank had no room for it, and a slot of a [`Store`](crate::data::Store) may be empty
/// at first: if its datum was being sent, it comes home when the transport lets go of it, at the latest when
/// the messengers of both ranks are gone. What MPI never lets go
/// does not come home.
pub fn run_across<S: TaskSpace<Datum: Wire>>(
    space: &S,
    on: &dyn Executor,
) -> Result<Report, Error> {
    let courier = on.courier();
    if courier.n_ranks() == 1 {
        return run(space, on);
    }
    refuse_inside_a_body()?;
    let (rank, n_ranks) = (courier.rank(), expect_ranks(courier)?);
    let counting = on.monitor().map(Monitor::begin);
    let (description, count) = ask(space, n_ranks, rank);
    // Told when the run is open: the others wait for this rank.
    let count = expect_workers(on).and(count);
    let n_tasks = *count.as_ref().unwrap_or(&0);
    let start = Instant::now();
    let ledger = Arc::new(Ledger::new(on.n_workers(), n_tasks, true));
    let mail = Arc::new(Mail::new(&ledger, trace::mailed(space, on)));
    let line = courier.open(&description.terms::<S::Datum>(), mail.clone())?;
    let opened = open_trace(Some(n_tasks), on);
    let opened = opened.map(|opened| Arc::new(opened.across(line.number())));
    let ended = match count {
        Ok(_) => {
            let abroad = Abroad {
                rank,
                n_ranks: n_ranks as usize,
                line: &*line,
                mail: &mail,
                codec: Codec::new(),
            };
            let common = Common::new(ledger, opened.clone());
            let run = Run::new(space, description, common, Some(abroad));
            let bell = mail.bell().clone();
            run.execute(on, bell, counting, |job| mail.set_job(job));
            run.finish(on, start)
        }
        Err(error) => {
            // Nothing runs here: the others are told why.
            let stopping = OrderedError::<S::Task>::stopping;
            line.abort(&stopping(error.clone()).told_by(rank));
            Err(stopping(error))
        }
    };
    let own = ended.map_err(|ordered| told(ordered, rank, &*line, &mail));
    let closed = line.close(own.as_ref().err().map(|(failure, _)| failure.clone()));
    let seconds = start.elapsed().as_secs_f64();
    trace::add(&opened, mail.noted());
    trace::close(opened, space, rank);
    // A courier knows tasks by their names as ranks send them.
    let named = |failure: &Failure| space.named_by(&failure.name).map(|task| shown(&task));
    let own = own.map(|report| Report { seconds, ..report });
    agree(closed?, own, rank, &named).map_err(|error| space.explained(error))
}

/// How many ranks there are by a courier, which may be a user's own: as many as numbers of ranks tell apart.
pub(crate) fn expect_ranks(courier: &dyn Courier) -> Result<u32, Error> {
    let n_ranks = courier.n_ranks();
    match u32::try_from(n_ranks) {
        Ok(n_ranks) if n_ranks > 0 => Ok(n_ranks),
        _ => Err(Error::wrong_settings(format!(
            "the courier is one of {n_ranks} ranks (1 to {} are allowed)",
            u32::MAX
        ))),
    }
}

/// A failure of this rank as the ranks hear of it, or what had stopped the run before; and itself.
#[cold]
fn told<T: TaskName>(
    ordered: OrderedError<T>,
    rank: Rank,
    line: &dyn Line,
    mail: &Mail,
) -> (Failure, Error) {
    let own = ordered.error.clone();
    let failure = mail.stopped_by().unwrap_or_else(|| {
        let failure = ordered.told_by(rank);
        // Of other faults they have heard; that this rank was cancelled only its monitor knows.
        if own.kind() == Kind::Cancelled {
            line.abort(&failure);
        }
        failure
    });
    (failure, own)
}

/// What a run across ranks answers, once it is closed: the failure that the ranks have agreed on; if that is
/// this rank's own, with what does not travel of it.
fn agree(
    agreed: Option<Failure>,
    own: Result<Report, (Failure, Error)>,
    rank: Rank,
    named: &dyn Fn(&Failure) -> Option<String>,
) -> Result<Report, Error> {
    match (agreed, own) {
        (None, Ok(report)) => Ok(report),
        (Some(failure), Ok(_)) => Err(Error::of_failure(failure, named)),
        (agreed, Err((failure, own))) => {
            let error = Error::of_failure(agreed.unwrap_or(failure), named);
            Err(match error.rank() == Some(rank) {
                true => error.with_source_of(own),
                false => error,
            })
        }
    }
}

/// What a space says before it runs: its description, and how many tasks are a rank's; it is verified
/// before, if that is asked for. One that panics has neither: its name says so to other ranks.
fn ask<T: TaskName>(
    space: &dyn NamedSpace<T>,
    n_ranks: u32,
    rank: Rank,
) -> (Description, Result<u64, Error>) {
    let mut description = None;
    let told = caught(|| {
        let about = space.about();
        let missing = about.lacks_ranks(n_ranks);
        description = Some(about);
        missing.map_or(Ok(()), |text| Err(Error::no_such_rank(text)))?;
        verify_if_asked(space, n_ranks)?;
        Ok(space.counted(rank))
    });
    let count = told.unwrap_or_else(|text| {
        let text = format!("the space panicked: {text}");
        Err(Error::new(Kind::TaskPanicked, None, text))
    });
    let description = description.unwrap_or_else(|| {
        let mut unknown = Description::default();
        unknown.name(count.as_ref().map_or_else(Error::message, |_| ""));
        unknown
    });
    (description, count)
}

pub(crate) fn refuse_inside_a_body() -> Result<(), Error> {
    let text = "a body, or the program of a scope, began a run: its worker would wait for tasks that it \
                should run itself (inside, `run_inside`, `scope_inside`, `Scope::nested` and `recursion::recurse` run tasks)";
    match is_inside() {
        true => Err(Error::nested_run(text)),
        false => Ok(()),
    }
}

/// Somebody must run the tasks; and whoever knocks beyond the bound is turned away, and nobody would run what
/// it has in hand.
pub(crate) fn expect_workers(on: &dyn Executor) -> Result<(), Error> {
    match on.n_workers() {
        1..=MANY_INSIDE => Ok(()),
        n_workers => Err(Error::wrong_settings(format!(
            "{n_workers} workers of an executor (1 to {MANY_INSIDE} are allowed)"
        ))),
    }
}

/// A task whose inputs have all come, and whether an ancestor failed.
type ReadyTask<S> = (<S as TaskSpace>::Task, Poisoned);

/// One run: what its steps share.
struct Run<'a, S: TaskSpace> {
    common: Common<S::Task>,
    space: &'a S,
    description: Description,
    rank: Rank,
    /// The other ranks, if there are any.
    abroad: Option<Abroad<'a, S::Datum>>,
    names: Names<S::Task>,
    roots: Mutex<Roots<'a, S::Task>>,
    pending: Pending<S::Datum>,
    dense: DenseRecords,
    /// By which stores know what this run took and put.
    number: RunNumber,
    homes: Mutex<HomeTally>,
    /// The sum of the marks of all tasks that ran, in debug builds.
    ran: AtomicU64,
    copies: Copies,
    /// Visits that go on in pieces, by worker.
    paused: SpinLock<Vec<Option<Paused<S>>>>,
}

/// What a worker has in hand between two pieces of its visit.
type Paused<S> = Box<(LeftVisit, Hand<S>)>;

/// What a rank that is one of several runs with.
struct Abroad<'a, D: Datum> {
    rank: Rank,
    n_ranks: usize,
    line: &'a dyn Line,
    mail: &'a Mail,
    codec: Codec<D>,
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Whether edges carry data at all.
    const CARRIES: bool = S::CARRIES;

    fn new(
        space: &'a S,
        description: Description,
        common: Common<S::Task>,
        abroad: Option<Abroad<'a, S::Datum>>,
    ) -> Self {
        let rank = abroad.as_ref().map_or(Rank(0), |abroad| abroad.rank);
        let n_tasks = common.ledger.count();
        Run {
            common,
            space,
            rank,
            abroad,
            names: Names::new(),
            // Asked by a worker, inside of its guard.
            roots: Mutex::new(Roots::new(move || space.roots(rank))),
            pending: Pending::new(n_tasks, Self::CARRIES),
            dense: DenseRecords::new(if Self::CARRIES { 0 } else { n_tasks }),
            number: homes::new_run_number(),
            homes: Mutex::default(),
            ran: AtomicU64::new(0),
            copies: Copies::none(description.classes().len()),
            paused: SpinLock::new(Vec::new()),
            description,
        }
    }

    /// Lets the executor's workers in until the run is over.
    fn execute(
        &self,
        on: &dyn Executor,
        bell: Arc<JobBell>,
        counting: Option<CountingRun<'_>>,
        offer: impl FnOnce(&Arc<Job>),
    ) {
        drive(self, bell, &|_, _| {}, |job| {
            offer(job);
            if let Some(counted) = counting {
                counted.watch(&self.common.ledger, job);
            }
            match is_inside() {
                true => on.execute_inside(job),
                false => on.execute(job),
            }
        });
    }

    /// What became of the run, once nobody is inside.
    fn finish(self, on: &dyn Executor, start: Instant) -> Result<Report, OrderedError<S::Task>> {
        let seconds = start.elapsed().as_secs_f64();
        let ledger = &self.common.ledger;
        let executed = ledger.executed();
        // What stalls although all was run that was queued is explained below; who was stopped does not.
        let cancelled = on.monitor().is_some_and(Monitor::is_cancelled);
        let mail = self.abroad.as_ref().map(|abroad| abroad.mail);
        let stopped = cancelled || mail.is_some_and(|mail| mail.stopped_by().is_some());
        let stalls = !stopped && ledger.is_balanced();
        let is_complete = executed >= ledger.count();
        self.common.ended(is_complete || stalls, on)?;
        self.explained(Kind::Stalled, &|| self.check_complete(executed))
            .and_then(|()| self.explained(Kind::NotBroughtBack, &|| self.check_homes()))
            .map_err(OrderedError::stopping)?;
        debug_assert!(self.names.is_empty(), "a name was not forgotten");
        let classes = self.description.classes().iter();
        Ok(Report {
            copies_by_class: self.copies.by_class(classes.map(|class| &class.name[..])),
            ..self.common.report(on, seconds)
        })
    }
}
