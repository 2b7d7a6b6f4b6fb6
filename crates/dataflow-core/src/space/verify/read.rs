//! Read: what a space says, asked once, with its tasks as numbers.

use super::check::{MetTask, NumberedGraph, RankTold, TaskTold};
use super::{Contradiction, fault, goes_on, misplaced, most_listed, n_tasks, room_for};
use crate::rank::Rank;
use crate::space::name::{PACKED_BITS, in_order};
use crate::space::named::{NamedSpace, TaskEdges};
use crate::space::{Description, TaskName};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// Tasks beyond which no memory holds what is noted of each.
const NOTED: u64 = u32::MAX as u64;

/// Reads all that a space says; `asked` is the task of which it speaks.
pub(super) fn read<T: TaskName>(
    space: &dyn NamedSpace<T>,
    n_ranks: u32,
    asked: &Cell<Option<T>>,
) -> Result<NumberedGraph, Contradiction> {
    let about = space.about();
    about.lacks_ranks(n_ranks).map_or(Ok(()), fault)?;
    let mut numbering = Numbering {
        space,
        asked,
        about,
        numbers: HashMap::new(),
        names: Vec::new(),
        tasks: Vec::new(),
        by_index: BTreeMap::new(),
    };
    let mut told = room_for(n_ranks as usize)?;
    let n_tasks = n_tasks(space, n_ranks);
    if n_tasks > NOTED {
        return fault(format!(
            "the space counts {n_tasks} tasks, each of which `verify` would note ({NOTED} at most): try \
             smaller parameters"
        ));
    }
    let ranks = (0..n_ranks).map(Rank);
    for on in ranks.clone() {
        numbering.read_tasks(on)?;
    }
    told.extend(ranks.map(|on| numbering.read_rank(on)));
    Ok(numbering.graph(told))
}

/// Gives numbers to tasks, in the order in which they are met.
struct Numbering<'s, T> {
    space: &'s dyn NamedSpace<T>,
    asked: &'s Cell<Option<T>>,
    about: Description,
    numbers: HashMap<T, usize>,
    names: Vec<T>,
    tasks: Vec<MetTask>,
    /// Tasks by their own [index](crate::space::TaskSpace::index).
    by_index: BTreeMap<usize, usize>,
}

impl<T: TaskName> Numbering<'_, T> {
    fn read_tasks(&mut self, on: Rank) -> Result<(), Contradiction> {
        let count = self.space.counted(on);
        let most = most_listed(count);
        let (mut n_listed, mut found) = (0, Ok(()));
        self.space.each_task(on, &mut |task| {
            n_listed += 1;
            found = match n_listed > most {
                true => fault(goes_on(on, count)),
                false => {
                    self.asked.set(Some(task));
                    let read = self.read_task(task, on);
                    self.asked.set(None);
                    read
                }
            };
            match found {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        found
    }

    fn read_task(&mut self, task: T, on: Rank) -> Result<(), Contradiction> {
        if self.space.placed(task) != on {
            return fault(misplaced(self.space, task, on));
        }
        check_name(self.space, task)?;
        let number = self.number(task);
        if let Some(index) = self.space.number(task)
            && let Some(other) = self.by_index.insert(index, number)
            && other != number
        {
            let other = &self.tasks[other].text;
            return fault(format!("{other} and {task:?} both have the index {index}"));
        }
        if self.about.classes().get(task.class()).is_none() {
            return fault(format!("{task:?} is of a class that is not described"));
        }
        let ends = self.space.ends(task);
        self.check_owners(task, on, &ends)?;
        let mut edges = |edges: Vec<(usize, T, usize)>| {
            let numbered = edges.into_iter();
            let numbered = numbered.map(|(flow, other, its)| (flow, self.number(other), its));
            numbered.collect()
        };
        let ends = TaskEdges {
            inputs: edges(ends.inputs),
            outputs: edges(ends.outputs),
            taken: ends.taken,
            put: ends.put,
        };
        let [named_inputs, named_outputs] = [&ends.inputs, &ends.outputs].map(|edges| {
            let mut sorted = edges.clone();
            sorted.sort_unstable();
            sorted
        });
        let told = TaskTold {
            on,
            ends,
            named_inputs,
            named_outputs,
        };
        match self.tasks[number].listed.replace(told) {
            Some(_) => fault(format!("{task:?} is listed twice")),
            None => Ok(()),
        }
    }

    /// Checks that the slots from which a task takes, or into which it puts, lie on its own rank.
    fn check_owners(&self, task: T, on: Rank, ends: &TaskEdges<T>) -> Result<(), Contradiction> {
        let taken = ends.taken.iter().map(|end| (end, "takes", "give"));
        let put = ends.put.iter().map(|end| (end, "brings home", "take"));
        for ((flow, home), does, says) in taken.chain(put) {
            let owner = self.space.owner(task, *flow);
            if owner != on {
                let flow = self.about.flow_name(task.class(), *flow);
                return fault(format!(
                    "{task:?} on {on} {does} {flow} ({home}), which lies on {owner}: let a task there \
                     {says} it, and an edge carry it"
                ));
            }
        }
        Ok(())
    }

    fn number(&mut self, task: T) -> usize {
        let (names, tasks) = (&mut self.names, &mut self.tasks);
        *self.numbers.entry(task).or_insert_with(|| {
            names.push(task);
            tasks.push(MetTask {
                text: format!("{task:?}"),
                class: task.class(),
                listed: None,
            });
            tasks.len() - 1
        })
    }

    fn read_rank(&mut self, on: Rank) -> RankTold {
        let (space, mut roots) = (self.space, Vec::new());
        // If there are more, one is announced twice or is no task, whatever comes after.
        let most = self.tasks.len() + 1;
        space.each_root(on, &mut |root| {
            let number = self.number(root);
            // What is no task has no place either; that it is none is said later.
            let placed = match self.tasks[number].listed {
                Some(_) => space.placed(root),
                None => on,
            };
            roots.push((number, placed));
            match roots.len() < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        let count = space.counted(on);
        RankTold { on, roots, count }
    }

    fn graph(self, ranks: Vec<RankTold>) -> NumberedGraph {
        let names = &self.names;
        NumberedGraph {
            by_name: in_order(names.len(), &|a, b| names[a].cmp(&names[b])),
            about: self.about,
            tasks: self.tasks,
            ranks,
        }
    }
}

/// Queues and tables know a task as what its name packs to.
fn check_name<T: TaskName>(space: &dyn NamedSpace<T>, task: T) -> Result<(), Contradiction> {
    match task.pack() {
        Some(packed) if packed >> PACKED_BITS != 0 => fault(format!(
            "{task:?} packs to {packed}, which is not below 2^{PACKED_BITS}"
        )),
        Some(packed) if space.named(packed) != task => fault(format!(
            "{task:?} packs to {packed}, which unpacks to {:?}: two names must not pack to one number",
            space.named(packed)
        )),
        _ => Ok(()),
    }
}
