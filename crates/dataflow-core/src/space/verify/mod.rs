//! Verify: proves for concrete parameters that both ends of every edge agree.
//!
//! Everything is enumerated, so a proof takes memory in proportion to the space, and time in proportion
//! to its edges, times the logarithm of those of one task: use small parameters, such as four tiles a
//! side on a grid of 2 × 3. Each space has this as its first test.
//!
//! All answers of a space are read once, with its tasks as numbers; the checks after that do not depend
//! on the type of the space, and are compiled once.

mod check;
mod read;

use super::named::NamedSpace;
use super::{TaskName, TaskSpace};
use crate::error::{Error, Kind};
use crate::foreign::{caught, shown};
use crate::rank::Rank;
use crate::stderr;
use crate::words::counted;
use read::read;
use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;

/// A contradiction in a task space: the edge that it concerns, and what either end says of it.
///
/// # Examples
/// A task says that it precedes another, which does not say so:
/// ```
/// use dataflow_core::Kind;
/// use dataflow_core::prelude::*;
///
/// struct Pair;
/// impl TaskSpace for Pair {
///     type Task = u64;
///     type Datum = ();
///     fn describe(&self, about: &mut Description) { about.class("Step").order("BEFORE"); }
///     fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send { 0..2 }
///     fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
///     fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
///         if task == 0 { to.task(0, 1, 0) }
///     }
///     fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> { Ok(()) }
/// }
///
/// let fault = verify(&Pair, 1).unwrap_err();
/// let text = "BEFORE of 0 says it goes to BEFORE of 1, which does not name it as its source";
/// assert_eq!(fault.to_string(), text);
/// assert_eq!(Error::from(fault).kind(), Kind::Contradiction);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    text: String,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Contradiction {}

/// For programs that hand on what [`verify`] and a run answer as one type.
impl From<Contradiction> for Error {
    fn from(fault: Contradiction) -> Self {
        Error::new(Kind::Contradiction, None, fault.text)
    }
}

pub(super) fn fault<T>(text: String) -> Result<T, Contradiction> {
    Err(Contradiction { text })
}

/// Checks a space on so many ranks, an integer of any type.
///
/// It proves that every task is listed once, on its rank; that no two tasks share a name or an index;
/// that every input names an output that names it back, and the reverse; that both ends agree on the
/// kind of datum; that every flow that is read or updated is fed once; that a datum which is taken from
/// a slot for updating is taken by one task, and that it or a version made of it is brought to a slot, and
/// to each slot one datum at most; that `roots` and `count` are right; and that there is no cycle. Which
/// version is brought back is the space's affair: a task may change a copy that nobody else gets. Tasks on
/// ranks beyond these are found by the edges that lead there, or if the space
/// [says](super::Description::ranks) to how many ranks it deals them out.
///
/// # Errors
/// The first contradiction found; or that the space panicked, and about which task it was asked; or that
/// there are no ranks, or more than can be named or noted: each takes some 50 bytes; or that more than
/// 2³² − 1 tasks are counted.
///
/// # Examples
/// See the [crate's](crate) example.
pub fn verify<S: TaskSpace>(space: &S, n_ranks: impl TryInto<u32>) -> Result<(), Contradiction> {
    match n_ranks.try_into() {
        Ok(n_ranks) if n_ranks > 0 => proved(space, n_ranks),
        _ => fault(format!("a space is verified on 1 to {} ranks", u32::MAX)),
    }
}

/// The text for a task that is listed on a rank where it is not placed; a stalled run uses it too.
pub(crate) fn misplaced<T: TaskName>(space: &dyn NamedSpace<T>, task: T, on: Rank) -> String {
    let placed = space.placed(task);
    let forgotten = match placed {
        Rank(0) => " (has the space a method `rank`? without one all tasks are placed on rank 0)",
        _ => "",
    };
    format!("`tasks` lists {task:?} on {on}, but `rank` places it on {placed}{forgotten}")
}

/// Tasks up to which `DATAFLOW_VERIFY` has a space verified, and a run that has failed asks what is wrong.
pub(crate) const FEW: u64 = 100_000;
/// So many tasks of a rank are looked at that counts so many: there may be no end of them.
pub(super) fn most_listed(count: u64) -> u64 {
    count.saturating_add(FEW)
}

/// What is said of a list that goes on beyond that.
#[cold]
pub(super) fn goes_on(on: Rank, count: u64) -> String {
    let most = most_listed(count);
    format!(
        "{on} counts {} but lists more than {most}",
        counted(count, "task")
    )
}

/// Whether the environment has small spaces verified before they run.
///
/// # Errors
/// If `DATAFLOW_VERIFY` is set to what is neither 0 nor 1.
pub fn is_verify_asked() -> Result<bool, Error> {
    match std::env::var_os("DATAFLOW_VERIFY") {
        Some(asked) if asked == "1" => Ok(true),
        Some(asked) if !asked.is_empty() && asked != "0" => Err(Error::wrong_settings(format!(
            "DATAFLOW_VERIFY is {:?} (0 and 1 are allowed)",
            asked.to_string_lossy()
        ))),
        _ => Ok(false),
    }
}

/// Verifies a space that is about to run, if the environment asks for it and the space is small.
pub(crate) fn verify_if_asked<T: TaskName>(
    space: &dyn NamedSpace<T>,
    n_ranks: u32,
) -> Result<(), Error> {
    match is_verify_asked()? {
        true => verify_small(space, n_ranks),
        false => Ok(()),
    }
}

/// What is wrong with a space whose run did not end well, if it is small and something is.
#[cold]
pub(crate) fn wrong_in_small<T: TaskName>(
    space: &dyn NamedSpace<T>,
    n_ranks: u32,
) -> Option<Contradiction> {
    if !is_small(space, n_ranks) {
        return None;
    }
    let proved = read(space, n_ranks, &Cell::new(None)).and_then(|graph| graph.check());
    proved.err()
}

/// The task about which a small space was asked when it panicked in a run, if it panics again with this text.
#[cold]
pub(crate) fn asked_in_panic<T: TaskName>(
    space: &dyn NamedSpace<T>,
    n_ranks: u32,
    text: &str,
) -> Option<T> {
    let again = told_or_panicked(|asked| {
        if is_small(space, n_ranks) {
            _ = read(space, n_ranks, asked);
        }
    });
    let (asked, told) = again.err()?;
    asked.filter(|_| told == text)
}

/// Whether a space lists, and counts, so few tasks that it is looked at for a report.
fn is_small<T: TaskName>(space: &dyn NamedSpace<T>, n_ranks: u32) -> bool {
    n_tasks(space, n_ranks) <= FEW && !lists_more_than(FEW, space, n_ranks)
}

/// Whether the space lists more tasks than so many, whatever it counts: a list may have no end.
fn lists_more_than<T: TaskName>(most: u64, space: &dyn NamedSpace<T>, n_ranks: u32) -> bool {
    let mut n_listed = 0;
    for on in (0..n_ranks).map(Rank) {
        space.each_task(on, &mut |_| {
            n_listed += 1;
            match n_listed > most {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
    }
    n_listed > most
}

/// How many tasks the space counts on all ranks, or the largest number.
fn n_tasks<T: TaskName>(space: &dyn NamedSpace<T>, n_ranks: u32) -> u64 {
    let counts = (0..n_ranks).map(|on| space.counted(Rank(on)));
    counts.fold(0, u64::saturating_add)
}

#[cold]
fn verify_small<T: TaskName>(space: &dyn NamedSpace<T>, n_ranks: u32) -> Result<(), Error> {
    let n_tasks = n_tasks(space, n_ranks);
    if n_tasks > FEW {
        stderr::say(format_args!(
            "dataflow: DATAFLOW_VERIFY: space {:?} has {n_tasks} tasks and is not verified ({FEW} \
             at most are): try smaller parameters",
            space.about().space_name()
        ));
        return Ok(());
    }
    proved(space, n_ranks).map_err(Error::from)
}

/// Whether a space is right: it is not, if it panics when it is asked. Its tasks are told as the user knows
/// them.
fn proved<T: TaskName>(space: &dyn NamedSpace<T>, n_ranks: u32) -> Result<(), Contradiction> {
    let read = told_or_panicked(|asked| read(space, n_ranks, asked));
    let read = read.unwrap_or_else(|(asked, text)| {
        let about = asked.map_or(String::new(), |task| {
            format!("asked about {}, ", shown(&task))
        });
        fault(format!("{about}the space panicked: {text}"))
    });
    let checked = read.and_then(|graph| graph.check());
    checked.map_err(|fault| Contradiction {
        text: space.told(fault.into()).message().into(),
    })
}

/// What a space tells; or that it panicked: about which task it was asked, and the text.
fn told_or_panicked<T: TaskName, R>(
    ask: impl FnOnce(&Cell<Option<T>>) -> R,
) -> Result<R, (Option<T>, String)> {
    let asked = Cell::new(None);
    caught(|| ask(&asked)).map_err(|text| (asked.get(), text))
}

/// Room for what is noted of each rank, before anything is asked of any.
pub(super) fn room_for<T>(n_ranks: usize) -> Result<Vec<T>, Contradiction> {
    let mut room = Vec::new();
    match room.try_reserve_exact(n_ranks) {
        Ok(()) => Ok(room),
        Err(_) => fault(format!(
            "{n_ranks} ranks are more than there is memory for: ask for fewer"
        )),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Their counters were asked for at once: the process was ended.
    #[test]
    fn more_ranks_than_there_is_memory_for_are_a_fault() {
        assert_eq!(room_for::<u64>(3).map(|room| room.len()), Ok(0));
        let fault = room_for::<u64>(usize::MAX).unwrap_err().to_string();
        assert!(fault.contains("ranks are more than there is memory for"));
    }
}
