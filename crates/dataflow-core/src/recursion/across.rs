//! Across ranks: every rank unfolds the top of the same tree of calls; the subtrees below are dealt out to
//! the ranks.
//!
//! # Law
//! Calls are pure, so all ranks see the same [top](super::top). Its open calls, in the order of the ways
//! to them, are dealt out in turn and are recursions where they are dealt to; their values travel to rank
//! 0, which joins the top, and the outermost value travels back.
//!
//! A top may be narrow or take long. So now and then the ranks agree to go on, by a run of one word: it
//! ends on all of them if one was cancelled meanwhile, and tells them whether rank 0 found the calls slow
//! and, if not, when to agree again. In a simulated world rank 0 goes by the clock of that world.
//!
//! Below the top it is a task space: the engine's protocol, faults and errors are those of any other.

use super::top::{RankAmong, Top, makes_unasked};
use super::{Recursive, recurse, recurse_below};
use crate::engine::{Report, expect_ranks, refuse_inside_a_body, run_across};
use crate::error::{Error, Kind, TaskError};
use crate::fingerprint::fingerprint;
use crate::foreign::{beginning, caught, drop_quietly};
use crate::port::{Context, Executor, Inline, Wire};
use crate::rank::Rank;
use crate::space::{Description, Flows, Inputs, Successors, TaskSpace};
use crate::sync::{AtomicU64, Ordering, held};
use crate::trace::Tracer;
use std::any::type_name;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Calls a problem on all ranks, each of which calls this with the same one and the same argument;
/// returns the value on each rank, and the number of calls made on this one. On a single rank it is the
/// same as [`recurse`], but may not be used inside a body.
///
/// Ranks compare the type of the problem, the first thousand bytes of what `Debug` shows of the argument,
/// which so must be the same on all of them, and the calls at the top of the tree. What is in the problem
/// itself they cannot compare.
///
/// # Errors
/// As [`recurse`] and [`run_across`](crate::run_across); the same on every rank. A rank ends an open call
/// that it has begun if its own monitor is cancelled; if another's is, after it.
pub fn recurse_across<P>(
    problem: &P,
    argument: P::Argument,
    on: &dyn Executor,
) -> Result<(P::Value, Report), Error>
where
    P: Recursive<Argument: fmt::Debug, Value: Wire>,
{
    refuse_inside_a_body()?;
    let courier = on.courier();
    if courier.n_ranks() == 1 {
        return recurse(problem, argument, on);
    }
    let start = Instant::now();
    let seat = RankAmong {
        rank: courier.rank(),
        n_ranks: expect_ranks(courier)? as usize,
    };
    let outermost = &OutermostCall {
        problem: type_name::<P>(),
        argument: beginning(&argument, COMPARED),
    };
    let agree = |made, spent| agree_to_go_on(outermost, (made, makes_unasked(made, spent)), on);
    let now = || courier.simulated_time().unwrap_or_else(|| start.elapsed());
    let unfold = || Top::unfold(problem, argument, seat, now, agree);
    let top = caught(unfold).unwrap_or_else(|text| {
        let text = format!("call panicked: {text}");
        Err(Error::new(Kind::TaskPanicked, None, text))
    });
    let tree = CallTree {
        top: top?,
        outermost,
        problem,
        on,
        seat,
        calls: AtomicU64::new(0),
        value: Mutex::new(None),
    };
    let (value, report) = tree.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((value, Report { seconds, ..report }))
}

/// What ranks compare of the call that they begin with: the type of the problem, and how the argument is
/// shown.
struct OutermostCall {
    problem: &'static str,
    argument: String,
}

/// Bytes of what is shown of an argument that ranks compare, which may be long; and signs that are told.
const COMPARED: usize = 1_000;
const TOLD: usize = 60;

impl OutermostCall {
    fn describe(&self, n_ranks: u32, about: &mut Description) {
        about.name("recursion");
        about.parameter("ranks", n_ranks);
        about.parameter("problem", self.problem);
        let told: String = self.argument.chars().take(TOLD).collect();
        let more = match told.len() < self.argument.len() {
            true => " …",
            false => "",
        };
        about.parameter("argument", format_args!("{told}{more}"));
        let whole = fingerprint(self.argument.bytes().map(u64::from));
        about.parameter("fingerprint of the argument", format_args!("{whole:016x}"));
    }
}

/// How many calls more rank 0 makes unasked, which has made so many; ends on all ranks if one was
/// cancelled. No run of the program's: it is not recorded.
fn agree_to_go_on(
    outermost: &OutermostCall,
    (n_calls, unasked): (usize, usize),
    on: &dyn Executor,
) -> Result<usize, Error> {
    let courier = on.courier();
    let asked = Broadcast {
        outermost,
        n_calls,
        n_ranks: courier.n_ranks() as u32,
        unasked: unasked as u64,
        heard: AtomicU64::new(0),
    };
    // `Inline` waits by the machine's clock.
    let is_simulated = courier.simulated_time().is_some();
    let silent = Tracer::new(0);
    silent.set_on(false);
    let mut here = match is_simulated {
        true => Context::new(on).traced_by(&silent),
        false => Context::new(&Inline).across(courier),
    };
    if let Some(monitor) = on.monitor() {
        here = here.watched_by(monitor);
    }
    run_across(&asked, &here)?;
    Ok(usize::try_from(asked.heard.into_inner()).unwrap_or(usize::MAX))
}

crate::task_names! {
    /// Rank 0 says it; a rank hears it.
    enum BroadcastTask { Said {}, Heard { on } }
}
use BroadcastTask::{Heard, Said};

/// One word of rank 0's, heard by all.
struct Broadcast<'o> {
    outermost: &'o OutermostCall,
    /// Made at the top so far.
    n_calls: usize,
    n_ranks: u32,
    unasked: u64,
    heard: AtomicU64,
}

impl TaskSpace for Broadcast<'_> {
    type Task = BroadcastTask;
    type Datum = u64;

    fn describe(&self, about: &mut Description) {
        self.outermost.describe(self.n_ranks, about);
        about.parameter(
            "calls at the top",
            format_args!("more than {}", self.n_calls),
        );
        about.class("Said").new_flow("VALUE");
        about.class("Heard").read("VALUE");
    }

    fn tasks(&self, Rank(on): Rank) -> impl Iterator<Item = BroadcastTask> + Send {
        (on == 0)
            .then_some(Said {})
            .into_iter()
            .chain([Heard { on }])
    }

    fn inputs(&self, task: BroadcastTask, from: &mut impl Inputs<Self>) {
        if let Heard { .. } = task {
            from.task(VALUE, Said {}, VALUE);
        }
    }

    fn successors(&self, task: BroadcastTask, to: &mut impl Successors<Self>) {
        if let Said {} = task {
            to.range(VALUE, 0..self.n_ranks, |on| Heard { on }, VALUE);
        }
    }

    fn run(&self, task: BroadcastTask, flows: &mut Flows<'_, u64>) -> Result<(), TaskError> {
        let [value] = flows.slots();
        match task {
            Said {} => value.put(self.unasked),
            Heard { .. } => self.heard.store(*value.read(), Ordering::Relaxed),
        }
        Ok(())
    }

    fn rank(&self, task: BroadcastTask) -> Rank {
        match task {
            Said {} => Rank(0),
            Heard { on } => Rank(on),
        }
    }
}

crate::task_names! {
    /// An open call; the top, joined; the value, kept on a rank.
    enum TreeTask { Below { number }, Joined {}, Kept { on } }
}
use TreeTask::{Below, Joined, Kept};

struct CallTree<'t, P: Recursive> {
    outermost: &'t OutermostCall,
    problem: &'t P,
    on: &'t dyn Executor,
    top: Top<P>,
    seat: RankAmong,
    calls: AtomicU64,
    value: Mutex<Option<P::Value>>,
}

const VALUE: usize = 0;
/// The flow of the top that its own value leaves through. Before those of the open calls: there may be
/// more of them than numbers of flows that travel.
const OUTERMOST: usize = 0;

impl<P: Recursive<Value: Wire>> CallTree<'_, P> {
    fn n_open(&self) -> u32 {
        self.top.n_open() as u32
    }

    fn n_ranks(&self) -> u32 {
        self.seat.n_ranks as u32
    }

    /// The flow of the top that the value of an open call comes through.
    fn value_of(number: u32) -> usize {
        OUTERMOST + 1 + number as usize
    }

    fn keep(&self, value: P::Value) {
        *held(&self.value) = Some(value);
    }

    /// Runs the open calls and joins the top; the value, and the calls that were made on this rank.
    fn finish(self) -> Result<(P::Value, Report), Error> {
        match run_across(&self, self.on) {
            Ok(report) => {
                let (value, tasks) = self.ended();
                Ok((value, Report { tasks, ..report }))
            }
            Err(error) => {
                drop_quietly(self);
                Err(error)
            }
        }
    }

    /// After a run without an error: the value, and how many calls were made on this rank.
    fn ended(self) -> (P::Value, u64) {
        // The top was called everywhere, and counts once.
        let of_top = match self.seat.rank {
            Rank(0) => self.top.n_calls,
            _ => 0,
        };
        let n_calls = of_top + self.calls.into_inner();
        let value = self.value.into_inner();
        match value.unwrap_or_else(PoisonError::into_inner) {
            Some(value) => (value, n_calls),
            None => unreachable!("a run without an error has kept its value"),
        }
    }
}

impl<P: Recursive<Value: Wire>> TaskSpace for CallTree<'_, P> {
    type Task = TreeTask;
    type Datum = P::Value;
    const CARRIES: bool = true;

    fn describe(&self, about: &mut Description) {
        self.outermost.describe(self.n_ranks(), about);
        about.parameter("calls at the top", self.top.n_calls);
        about.parameter("open calls", self.n_open());
        let shape = fingerprint(self.top.shape());
        about.parameter("fingerprint of the top", format_args!("{shape:016x}"));
        about.class("Below").new_flow("VALUE");
        let mut joined = about.class("Joined").new_flow("OUTERMOST");
        for number in 0..self.n_open() {
            joined = joined.read(&format!("VALUE{number}"));
        }
        about.class("Kept").read("VALUE");
    }

    fn tasks(&self, Rank(on): Rank) -> impl Iterator<Item = TreeTask> + Send {
        let dealt = self.seat.dealt(Rank(on), self.top.n_open());
        let below = dealt.map(|number| Below {
            number: number as u32,
        });
        let joined = (on == 0).then_some(Joined {});
        below.chain(joined).chain([Kept { on }])
    }

    fn inputs(&self, task: TreeTask, from: &mut impl Inputs<Self>) {
        match task {
            Below { .. } => {}
            Joined {} => {
                for number in 0..self.n_open() {
                    from.task(Self::value_of(number), Below { number }, VALUE);
                }
            }
            Kept { .. } => from.task(VALUE, Joined {}, OUTERMOST),
        }
    }

    fn successors(&self, task: TreeTask, to: &mut impl Successors<Self>) {
        match task {
            Below { number } => to.task(VALUE, Joined {}, Self::value_of(number)),
            Joined {} => to.range(OUTERMOST, 0..self.n_ranks(), |on| Kept { on }, VALUE),
            Kept { .. } => {}
        }
    }

    fn run(&self, task: TreeTask, flows: &mut Flows<'_, P::Value>) -> Result<(), TaskError> {
        match task {
            Below { number } => {
                let (way, argument) = self.top.take(number as usize);
                let below = match argument {
                    Ok(argument) => recurse_below(self.problem, argument, way, self.on),
                    Err(error) => Err(Error::of_task(&way, error)),
                };
                let (value, report) = below.map_err(TaskError::of_part)?;
                self.calls.fetch_add(report.tasks, Ordering::Relaxed);
                let [slot] = flows.slots();
                slot.put(value);
            }
            Joined {} => {
                let mut slots = flows.iter();
                let outermost = slots.next();
                let values: Vec<_> = slots.map(|slot| slot.read()).collect();
                let value = self.top.join(&values).map_err(TaskError::of_part)?;
                if let Some(slot) = outermost {
                    slot.put(value);
                }
            }
            Kept { .. } => {
                let [value] = flows.slots();
                self.keep(value.read().clone());
            }
        }
        Ok(())
    }

    fn rank(&self, task: TreeTask) -> Rank {
        match task {
            Below { number } => self.seat.dealt_to(number as usize),
            Joined {} => Rank(0),
            Kept { on } => Rank(on),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_argument_the_beginning_is_told_and_all_of_it_compared() {
        let told = |argument: &str| {
            let mut about = Description::default();
            let (problem, argument) = ("Sum", argument.to_string());
            OutermostCall { problem, argument }.describe(2, &mut about);
            let parameters = about.parameters();
            [2, 3].map(|at| parameters[at].1.clone())
        };
        let longest = "é".repeat(TOLD);
        let longer = longest.clone() + "0";
        assert_eq!(told(&longest)[0], longest);
        assert_eq!(told(&longer)[0], longest.clone() + " …");
        assert_ne!(told(&longer)[1], told(&(longest + "1"))[1]);
    }
}
