//! Stall: at quiescence, whether everything ran; and if not, who waits for whom.

use super::Run;
use crate::data::Store;
use crate::error::{Error, Kind};
use crate::space::{Expected, Inputs, Successors, TaskName, TaskSpace};
use std::any::Any;

/// How many waiting tasks a report names.
const NAMED: usize = 3;

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Run<'a, S, R> {
    /// Whether all tasks ran and nothing waits.
    pub(super) fn check_complete(&self, executed: u64) -> Result<(), Error> {
        let count = self.ledger.count();
        let leftovers = self.pending.leftovers();
        if executed == count && leftovers.is_empty() {
            return Ok(());
        }
        let n_left = leftovers.len();
        let mut waiting: Vec<_> = leftovers
            .into_iter()
            .filter_map(|left| Some((self.names.name(left.key)?, Some(left))))
            .collect();
        if executed == count {
            let text = format!("all {count} tasks ran, but {n_left} were fed once more afterwards");
            let first = waiting.first().map(|(task, _)| format!("{task:?}"));
            return Err(Error::new(Kind::FedTwice, first, text));
        }
        if executed > count {
            let text = format!(
                "{executed} tasks ran, the space counts {count} on {}",
                self.rank
            );
            return Err(Error::new(Kind::CountExceeded, None, text));
        }
        waiting.extend(self.partly_fed().map(|task| (task, None)));
        // Keys differ: a stable order is not needed, and is more code in every space.
        waiting.sort_unstable_by_key(|(task, _)| *task);
        let mut text = format!(
            "no task can run, but {} of {count} have not",
            count - executed
        );
        for (task, left) in waiting.iter().take(NAMED) {
            let mut missing = Missing {
                run: self,
                task: *task,
                text: String::new(),
                misses: &|flow| match left {
                    Some(left) => left.misses(flow),
                    None => self.misses(*task, flow),
                },
            };
            self.space.inputs(*task, &mut missing);
            text += &format!("; {task:?} waits for{}", missing.text);
        }
        match waiting.len() {
            0 => text += "; none of them was ever reached: a root or an edge is missing",
            n if n > NAMED => text += &format!("; and {} more wait", n - NAMED),
            _ => {}
        }
        let first = waiting.first().map(|(task, _)| format!("{task:?}"));
        Err(Error::new(Kind::Stalled, first, text))
    }

    /// What is said if the space's own formulas panic while the report is made.
    pub(super) fn unexplained(&self, executed: u64, panic: &(dyn Any + Send)) -> Error {
        let (count, why) = (self.ledger.count(), super::run::text(panic));
        let text = format!("{executed} of {count} tasks ran; asked why, the space panicked: {why}");
        Error::new(Kind::Stalled, None, text)
    }

    /// Tasks of a dense space that have some of their inputs, but not all.
    fn partly_fed(&self) -> impl Iterator<Item = S::Task> {
        let tasks = self.space.tasks(self.rank).filter(|_| !Self::CARRIES);
        tasks.filter(|&task| {
            let Some(index) = self.number(task) else {
                return false;
            };
            let expected = Expected::of(self.space, task, 0, (task, 0));
            let arrived = self.dense.arrived(index);
            !expected.wide && arrived != 0 && arrived != expected.mask
        })
    }

    fn misses(&self, task: S::Task, flow: usize) -> bool {
        self.number(task)
            .is_some_and(|index| self.dense.arrived(index) & 1 << flow == 0)
    }
}

/// Writes down the inputs that are missing, and whether their sources know of them.
struct Missing<'r, 'a, S: TaskSpace, R> {
    run: &'r Run<'a, S, R>,
    task: S::Task,
    misses: &'r dyn Fn(usize) -> bool,
    text: String,
}

impl<S: TaskSpace, R: Iterator<Item = S::Task> + Send> Inputs<S> for Missing<'_, '_, S, R> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        if !(self.misses)(flow) {
            return;
        }
        let mut lists = Lists {
            edge: (source_flow, self.task, flow),
            found: false,
        };
        self.run.space.successors(source, &mut lists);
        let name = self.run.description.flow_name(self.task.class(), flow);
        let known = if lists.found {
            ""
        } else {
            ", which does not list it as a successor"
        };
        let comma = if self.text.is_empty() { "" } else { "," };
        self.text += &format!("{comma} {name} from {source:?}{known}");
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

/// Looks for one edge among the successors of its source.
struct Lists<T> {
    edge: (usize, T, usize),
    found: bool,
}

impl<S: TaskSpace> Successors<S> for Lists<S::Task> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.found |= self.edge == (flow, target, target_flow);
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}
