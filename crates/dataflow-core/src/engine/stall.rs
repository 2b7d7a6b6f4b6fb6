//! Stall: at quiescence, whether everything ran; and if not, who waits for whom.

use super::Run;
use super::pending::Leftover;
use crate::error::{Error, Kind};
use crate::foreign::caught;
use crate::rank::Rank;
use crate::space::{
    CountedInputs, Description, FEW, NamedSpace, TaskName, TaskSpace, in_order, misplaced,
    wrong_in_small,
};
use crate::sync::Ordering;
use crate::words::counted;
use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::ops::ControlFlow;

/// How many waiting tasks a report names, and how many missing inputs of each.
const NAMED: usize = 3;
const INPUTS_NAMED: usize = 8;
/// Tasks among which the guilty are looked for: a list may have no end.
const LOOKED_AT: usize = if cfg!(miri) { 1_000 } else { 10_000_000 };

/// A number of a task by which sets of tasks are compared: the sums of their marks.
pub(super) fn mark(task: impl TaskName) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(task)
}

/// Looks at the tasks of a rank until one is the guilty one.
pub(super) fn look_at_tasks<T: TaskName>(
    space: &dyn NamedSpace<T>,
    on: Rank,
    is_guilty: &mut dyn FnMut(T) -> bool,
) {
    let mut left = LOOKED_AT;
    space.each_task(on, &mut |task| {
        left -= 1;
        match is_guilty(task) || left == 0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Whether all tasks ran and nothing waits.
    pub(super) fn check_complete(&self, executed: u64) -> Result<(), Error> {
        let count = self.common.ledger.count();
        let leftovers = self.pending.leftovers();
        if executed == count && leftovers.is_empty() {
            self.check_numbers(count)?;
            return self.check_listed(count);
        }
        let n_left = leftovers.len();
        let unpack = |packed| self.space.named(packed);
        let name = |key| self.names.name(key, unpack);
        let mut waiting = Vec::new();
        for left in leftovers {
            if let Some(task) = name(left.key) {
                waiting.push((task, Had::Left(left)));
            }
        }
        if executed < count {
            self.partly_fed(&mut waiting);
        }
        let stalled = Stalled {
            space: self.space,
            about: &self.description,
            rank: self.rank,
            n_ranks: self.n_ranks(),
            count,
            n_left,
        };
        Err(stalled.explain(executed, waiting))
    }

    /// What a check says; its report asks the space about tasks that it may never have listed, and
    /// shows them. If one of these panics, that is said, as an error of this kind.
    pub(super) fn explained(
        &self,
        kind: Kind,
        check: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        caught(check).unwrap_or_else(|why| {
            let ledger = &self.common.ledger;
            let (executed, count) = (ledger.executed(), counted(ledger.count(), "task"));
            let text = format!("{executed} of {count} ran; asked why, the space panicked: {why}");
            Err(Error::new(kind, None, text))
        })
    }

    /// Says which task is listed on a rank where it is not placed, if one is: the first of some rank.
    pub(super) fn strayed(&self) -> Option<String> {
        (0..self.n_ranks()).find_map(|rank| strayed(self.space, Rank(rank)))
    }

    /// Whether all numbered tasks that were fed are listed, as far as numbers tell: those of a space that
    /// leaves none out are below its count. The bytes of others are compared with the tasks of small spaces.
    fn check_numbers(&self, count: u64) -> Result<(), Error> {
        if Self::CARRIES || count > FEW {
            return Ok(());
        }
        let n_fed = self.dense.n_fed_from(count as usize);
        let (mut n_listed, mut left) = (0, count);
        if n_fed > 0 {
            let space: &dyn NamedSpace<S::Task> = self.space;
            space.each_task(self.rank, &mut |task| {
                let index = self.number(task);
                let index = index.filter(|&index| index as u64 >= count);
                n_listed += usize::from(index.is_some_and(|index| self.dense.arrived(index) != 0));
                left = left.saturating_sub(1);
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
        }
        match n_fed.saturating_sub(n_listed) {
            0 => Ok(()),
            n => Err(self.not_listed(&format!("edges lead to {n} that `tasks` does not list"))),
        }
    }

    /// Whether those that ran are those that are listed: in place of one another may have run. A task takes
    /// some nanoseconds where edges carry no data: only debug builds ask, and of small spaces.
    fn check_listed(&self, count: u64) -> Result<(), Error> {
        if !cfg!(debug_assertions) || count > FEW {
            return Ok(());
        }
        let ran = self.ran.load(Ordering::Relaxed);
        // What ran well is not to fail because the space panics when it is asked once more.
        match caught(|| self.listed(count)) {
            Ok(listed) if listed != ran => {
                Err(self.not_listed("they are not those that `tasks` lists"))
            }
            _ => Ok(()),
        }
    }

    /// The sum of the marks of the tasks that are listed, so many at most.
    fn listed(&self, count: u64) -> u64 {
        let (mut sum, mut left) = (0_u64, count);
        let space: &dyn NamedSpace<S::Task> = self.space;
        space.each_task(self.rank, &mut |task| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            sum = sum.wrapping_add(mark(task));
            left -= 1;
            ControlFlow::Continue(())
        });
        sum
    }

    #[cold]
    fn not_listed(&self, what: &str) -> Error {
        let (count, rank) = (self.common.ledger.count(), self.rank);
        let count = counted(count, "task");
        let mut text = format!("all {count} ran on {rank}, and {what}");
        if let Some(wrong) = self.wrong_in_small() {
            text += &format!("; {wrong}");
        }
        Error::new(Kind::Stalled, None, text)
    }

    /// Adds the tasks of a dense space that have some of their inputs, but not all.
    fn partly_fed(&self, waiting: &mut Vec<(S::Task, Had)>) {
        if Self::CARRIES {
            return;
        }
        look_at_tasks(self.space, self.rank, &mut |task| {
            let arrived = self
                .number(task)
                .map_or(0, |index| self.dense.arrived(index));
            let expected = || CountedInputs::of(self.space, task, 0, (task, 0)).byte();
            if arrived != 0 && expected().is_some_and(|awaited| arrived != awaited) {
                waiting.push((task, Had::Flows(arrived)));
            }
            false
        });
    }
}

/// What a task that waits has got.
enum Had {
    /// As the table of records knows it.
    Left(Leftover),
    /// A bit for each flow.
    Flows(u8),
}

impl Had {
    fn misses(&self, flow: usize) -> bool {
        match self {
            Had::Left(left) => left.misses(flow),
            Had::Flows(arrived) => arrived & 1 << flow == 0,
        }
    }
}

/// A rank on which not all has run that was counted, or too much.
struct Stalled<'r, T> {
    space: &'r dyn NamedSpace<T>,
    about: &'r Description,
    rank: Rank,
    n_ranks: u32,
    count: u64,
    /// Tasks that have got some of their inputs, also those whose names are forgotten.
    n_left: usize,
}

impl<T: TaskName> Stalled<'_, T> {
    #[cold]
    fn explain(&self, executed: u64, waiting: Vec<(T, Had)>) -> Error {
        let (count, rank, n_left) = (self.count, self.rank, self.n_left);
        if executed > count {
            let executed = counted(executed, "task");
            let text = format!("{executed} ran, the space counts {count} on {rank}");
            let text = text + &self.wrong();
            return Error::new(Kind::CountExceeded, None, text);
        }
        let by_name = in_order(waiting.len(), &|a, b| waiting[a].0.cmp(&waiting[b].0));
        let mut ordered = by_name.into_iter().map(|place| &waiting[place]).peekable();
        let name = ordered.peek().map(|(task, _)| format!("{task:?}"));
        if executed == count {
            let were = if n_left == 1 { "was" } else { "were" };
            let count = counted(count, "task");
            let text = format!("all {count} ran, but {n_left} {were} fed once more afterwards");
            let text = text + &self.wrong();
            return Error::new(Kind::FedTwice, name, text);
        }
        let n_missing = count - executed;
        let mut text = format!("no task can run, but {n_missing} of {count} have not");
        for (task, had) in ordered.take(NAMED) {
            text += &format!("; {task:?} waits for{}", self.missing(*task, had));
        }
        match waiting.len() {
            0 => text += &self.unreached(),
            n if n > NAMED => text += &format!("; and {} more wait", n - NAMED),
            _ => {}
        }
        text += &self.wrong();
        Error::new(Kind::Stalled, name, text)
    }

    /// What `verify` says of the space, if it is small and something is wrong.
    fn wrong(&self) -> String {
        match wrong_in_small(self.space, self.n_ranks) {
            Some(wrong) => format!("; `verify` says: {wrong}"),
            None => String::new(),
        }
    }

    /// The inputs of a task that are missing, and whether their sources know of them.
    fn missing(&self, task: T, had: &Had) -> String {
        let inputs = self.space.ends(task).inputs;
        let missing: Vec<_> = inputs.iter().filter(|input| had.misses(input.0)).collect();
        let mut text = String::new();
        for &&(flow, source, source_flow) in missing.iter().take(INPUTS_NAMED) {
            let outputs = self.space.ends(source).outputs;
            let known = match outputs.contains(&(source_flow, task, flow)) {
                true => "",
                false => ", which does not list it as a successor",
            };
            let comma = if text.is_empty() { "" } else { "," };
            let name = self.about.flow_name(task.class(), flow);
            text += &format!("{comma} {name} from {source:?}{known}");
        }
        if missing.len() > INPUTS_NAMED {
            let more = counted(missing.len() - INPUTS_NAMED, "more input");
            text += &format!(" and {more}");
        }
        text
    }

    /// Why nothing waits although not all has run.
    fn unreached(&self) -> String {
        let why = strayed(self.space, self.rank).or_else(|| self.dealt_out());
        match why {
            Some(text) => format!("; {text}"),
            None => {
                "; none of them was ever reached: a root or an edge is missing (`verify` names it)"
                    .into()
            }
        }
    }

    /// Says which task waits for one on a rank that this run does not have, if one does.
    fn dealt_out(&self) -> Option<String> {
        let mut found = None;
        look_at_tasks(self.space, self.rank, &mut |task| {
            self.space.each_source(task, &mut |source| {
                let rank = self.space.placed(source);
                if rank.0 >= self.n_ranks {
                    found.get_or_insert((task, source, rank));
                }
            });
            found.is_some()
        });
        let (task, source, rank) = found?;
        let ranks = counted(self.n_ranks, "rank");
        Some(format!(
            "{task:?} waits for {source:?} on {rank}; this run has {ranks}, counted from 0"
        ))
    }
}

/// If the first task that a rank lists is not placed there: what is said of it.
fn strayed<T: TaskName>(space: &dyn NamedSpace<T>, on: Rank) -> Option<String> {
    let mut listed = None;
    space.each_task(on, &mut |task| {
        listed = Some(task);
        ControlFlow::Break(())
    });
    let strayed = listed.filter(|task| space.placed(*task) != on);
    strayed.map(|task| misplaced(space, task, on))
}
