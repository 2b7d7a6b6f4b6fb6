//! Check: whether what a space has said agrees. Knows no type of the space, so it is compiled once.

use super::{Contradiction, fault};
use crate::rank::Rank;
use crate::space::named::{HomeSlot, TaskEdges};
use crate::space::{Class, Description, Mode};
use crate::words::counted;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many edges of a cycle are named.
const CYCLE_SHOWN: usize = 4;

/// A slot, and the rank whose store it is of.
type HomeOnRank<'g> = (Rank, &'g HomeSlot);

/// What a space says, with tasks as numbers.
pub(super) struct NumberedGraph {
    pub about: Description,
    pub tasks: Vec<MetTask>,
    /// All that were met, in the order of their names.
    pub by_name: Vec<usize>,
    pub ranks: Vec<RankTold>,
}

/// A task that was listed, or named by one that was.
pub(super) struct MetTask {
    /// For texts.
    pub text: String,
    pub class: usize,
    pub listed: Option<TaskTold>,
}

/// Where a task runs, and both opinions of its edges.
pub(super) struct TaskTold {
    pub on: Rank,
    pub ends: TaskEdges<usize>,
    /// The edges from and to tasks, sorted: the task at the other end looks itself up.
    pub named_inputs: Vec<(usize, usize, usize)>,
    pub named_outputs: Vec<(usize, usize, usize)>,
}

/// What a space says of one rank.
pub(super) struct RankTold {
    pub on: Rank,
    /// Each with where it is placed.
    pub roots: Vec<(usize, Rank)>,
    pub count: u64,
}

impl NumberedGraph {
    pub fn check(&self) -> Result<(), Contradiction> {
        self.check_inputs()?;
        self.check_outputs()?;
        self.check_homes()?;
        self.ranks
            .iter()
            .try_for_each(|told| self.check_rank(told))?;
        let order = self.check_order()?;
        self.check_lineages(&order)
    }

    /// The tasks that were listed, in the order of their names.
    fn listed(&self) -> impl Iterator<Item = (usize, &TaskTold)> {
        let listed = |&task: &usize| Some((task, self.tasks[task].listed.as_ref()?));
        self.by_name.iter().filter_map(listed)
    }

    fn ends(&self, task: usize) -> Option<&TaskEdges<usize>> {
        Some(&self.tasks[task].listed.as_ref()?.ends)
    }

    fn text(&self, task: usize) -> &str {
        &self.tasks[task].text
    }

    fn class(&self, task: usize) -> &Class {
        &self.about.classes()[self.tasks[task].class]
    }

    /// `TASK.FLOW`, for texts.
    fn end(&self, task: usize, flow: usize) -> String {
        let MetTask { text, class, .. } = &self.tasks[task];
        if *class < self.about.classes().len() {
            format!("{} of {text}", self.about.flow_name(*class, flow))
        } else {
            format!("flow {flow} of {text}")
        }
    }

    /// What is said of a task that an edge names and no list.
    fn not_listed(&self) -> String {
        match self.ranks.len() {
            1 => "`tasks` does not list".into(),
            n_ranks => format!("`tasks` lists on none of {n_ranks} ranks"),
        }
    }

    /// The flow's mode and kind.
    fn flow(&self, task: usize, flow: usize) -> Result<(Mode, &'static str), Contradiction> {
        match self.class(task).flows.get(flow) {
            Some(flow) => Ok((flow.mode, flow.kind)),
            None => fault(format!("{} is not described", self.end(task, flow))),
        }
    }

    /// Every input is known at its source; every flow has the inputs that its mode asks for.
    fn check_inputs(&self) -> Result<(), Contradiction> {
        for (task, TaskTold { ends, .. }) in self.listed() {
            let mut fed = BTreeSet::new();
            for &(flow, source, source_flow) in &ends.inputs {
                self.flow(task, flow)?;
                if !fed.insert(flow) {
                    return self.two_sources(task, flow, ends);
                }
                self.check_source((task, flow), (source, source_flow))?;
            }
            for (flow, home) in &ends.taken {
                let (mode, _) = self.flow(task, *flow)?;
                if !fed.insert(*flow) {
                    return self.two_sources(task, *flow, ends);
                }
                if !matches!(mode, Mode::Read | Mode::Optional | Mode::Update) {
                    return fault(format!(
                        "{} is {mode:?} and cannot come from {home}",
                        self.end(task, *flow)
                    ));
                }
            }
            self.check_fed(task, &fed)?;
        }
        Ok(())
    }

    /// The task at the other end of an input is listed, and names it once.
    fn check_source(
        &self,
        (task, flow): (usize, usize),
        (source, source_flow): (usize, usize),
    ) -> Result<(), Contradiction> {
        let Some(known) = &self.tasks[source].listed else {
            return fault(format!(
                "{} comes from {}, which {}",
                self.end(task, flow),
                self.text(source),
                self.not_listed()
            ));
        };
        let edge = (source_flow, task, flow);
        let first = known.named_outputs.partition_point(|other| *other < edge);
        let from_it = known.named_outputs[first..].iter();
        match from_it.take_while(|other| **other == edge).count() {
            1 => Ok(()),
            named => fault(format!(
                "{} says it comes from {}, which names it {named} times among its successors",
                self.end(task, flow),
                self.end(source, source_flow),
            )),
        }
    }

    /// The flows of a task that have a source are those that need one, or may have one.
    fn check_fed(&self, task: usize, fed: &BTreeSet<usize>) -> Result<(), Contradiction> {
        for (flow, described) in self.class(task).flows.iter().enumerate() {
            match described.mode {
                Mode::Read | Mode::Update if !fed.contains(&flow) => {
                    return fault(format!("{} has no source", self.end(task, flow)));
                }
                Mode::New if fed.contains(&flow) => {
                    return fault(format!("{} is new but has a source", self.end(task, flow)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Both ends that a task names for one flow.
    fn two_sources(
        &self,
        task: usize,
        flow: usize,
        ends: &TaskEdges<usize>,
    ) -> Result<(), Contradiction> {
        let inputs = ends.inputs.iter().filter(|input| input.0 == flow);
        let taken = ends.taken.iter().filter(|taken| taken.0 == flow);
        let from_tasks = inputs.map(|&(_, source, its)| self.end(source, its));
        let sources: Vec<_> = from_tasks
            .chain(taken.map(|(_, home)| home.to_string()))
            .collect();
        fault(format!(
            "{} has two sources: {}",
            self.end(task, flow),
            sources.join(" and ")
        ))
    }

    /// Every output is expected at its target, with the same kind.
    fn check_outputs(&self) -> Result<(), Contradiction> {
        for (task, TaskTold { ends, .. }) in self.listed() {
            for &(flow, target, target_flow) in &ends.outputs {
                let (_, kind) = self.flow(task, flow)?;
                let Some(known) = &self.tasks[target].listed else {
                    return fault(format!(
                        "{} goes to {}, which {}",
                        self.end(task, flow),
                        self.text(target),
                        self.not_listed()
                    ));
                };
                let edge = (target_flow, task, flow);
                if known.named_inputs.binary_search(&edge).is_err() {
                    return fault(format!(
                        "{} says it goes to {}, which does not name it as its source",
                        self.end(task, flow),
                        self.end(target, target_flow),
                    ));
                }
                let (_, expected) = self.flow(target, target_flow)?;
                if kind != expected {
                    return fault(format!(
                        "{} is of kind {kind:?}, {} expects {expected:?}",
                        self.end(task, flow),
                        self.end(target, target_flow),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Slots exist; each is taken for updating by one task and brought back by one; a slot that
    /// is only read is not replaced.
    fn check_homes(&self) -> Result<(), Contradiction> {
        let mut takers: BTreeMap<HomeOnRank<'_>, (usize, Mode)> = BTreeMap::new();
        let mut putters: BTreeMap<HomeOnRank<'_>, usize> = BTreeMap::new();
        for (task, TaskTold { on, ends, .. }) in self.listed() {
            self.check_slots(task, ends)?;
            for (flow, home) in &ends.taken {
                let (mode, _) = self.flow(task, *flow)?;
                match takers.insert((*on, home), (task, mode)) {
                    Some((other, before)) if before == Mode::Update || mode == Mode::Update => {
                        let (one, other) = (self.text(other), self.text(task));
                        return fault(format!("{one} and {other} both take {home}"));
                    }
                    _ => {}
                }
            }
            for (flow, home) in &ends.put {
                if self.flow(task, *flow)?.0 == Mode::Order {
                    return fault(format!(
                        "{} carries nothing that could go home",
                        self.end(task, *flow)
                    ));
                }
                if let Some(other) = putters.insert((*on, home), task) {
                    let (one, other) = (self.text(other), self.text(task));
                    return fault(format!("{one} and {other} both put {home}"));
                }
            }
        }
        self.check_filled(&takers, &putters)
    }

    /// The slots of a task exist.
    fn check_slots(&self, task: usize, ends: &TaskEdges<usize>) -> Result<(), Contradiction> {
        for (flow, home) in ends.taken.iter().chain(&ends.put) {
            self.flow(task, *flow)?;
            // Of several ranks the space has the stores of one only: there, indices elsewhere
            // are names that must match, no more.
            if self.ranks.len() == 1 && home.index >= home.length {
                let end = self.end(task, *flow);
                let slots = counted(home.length, "slot");
                return fault(format!("{end} names {home}, which has {slots}"));
            }
        }
        Ok(())
    }

    /// What is taken for updating is brought back, and what is read is not replaced.
    fn check_filled(
        &self,
        takers: &BTreeMap<HomeOnRank<'_>, (usize, Mode)>,
        putters: &BTreeMap<HomeOnRank<'_>, usize>,
    ) -> Result<(), Contradiction> {
        for (slot @ (_, home), (task, mode)) in takers {
            let task = self.text(*task);
            match (mode, putters.get(slot)) {
                (Mode::Update, None) => {
                    return fault(format!("{task} takes {home}, which nobody brings back"));
                }
                (Mode::Read | Mode::Optional, Some(putter)) => {
                    return fault(format!(
                        "{task} reads {home}, which {} replaces meanwhile",
                        self.text(*putter)
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Roots and count of a rank are those of the tasks that are listed there.
    fn check_rank(&self, RankTold { on, roots, count }: &RankTold) -> Result<(), Contradiction> {
        let mut announced = BTreeSet::new();
        for &(root, placed) in roots {
            let text = self.text(root);
            match self.ends(root) {
                None => return fault(format!("root {text} is no task")),
                Some(_) if placed != *on => {
                    return fault(format!(
                        "root {text} is announced on {on}, where it does not run"
                    ));
                }
                Some(ends) if !ends.inputs.is_empty() => {
                    return fault(format!("root {text} has inputs from tasks"));
                }
                Some(_) if !announced.insert(root) => {
                    return fault(format!("root {text} is announced twice"));
                }
                Some(_) => {}
            }
        }
        let here = || self.listed().filter(|(_, listed)| listed.on == *on);
        let is_missing = |(task, listed): &(usize, &TaskTold)| {
            listed.ends.inputs.is_empty() && !announced.contains(task)
        };
        if let Some((task, _)) = here().find(is_missing) {
            return fault(format!(
                "{} waits for no task but is not among the roots of {on}",
                self.text(task)
            ));
        }
        let listed = here().count() as u64;
        match *count == listed {
            true => Ok(()),
            false => {
                let count = counted(*count, "task");
                fault(format!("{on} counts {count} but lists {listed}"))
            }
        }
    }

    /// Kahn's algorithm: what cannot be ordered lies on or behind a cycle.
    fn check_order(&self) -> Result<Vec<usize>, Contradiction> {
        let mut missing = vec![0; self.tasks.len()];
        let mut ready = Vec::new();
        for (task, listed) in self.listed() {
            missing[task] = listed.ends.inputs.len();
            if missing[task] == 0 {
                ready.push(task);
            }
        }
        let mut order = Vec::with_capacity(self.tasks.len());
        while let Some(task) = ready.pop() {
            order.push(task);
            let outputs = self.ends(task).map_or(&[][..], |ends| &ends.outputs);
            for &(_, target, _) in outputs {
                missing[target] -= 1;
                if missing[target] == 0 {
                    ready.push(target);
                }
            }
        }
        let mut waiting = self.listed().filter(|(task, _)| missing[*task] > 0);
        match waiting.next() {
            Some((first, _)) => fault(self.cycle(first, 1 + waiting.count(), &missing)),
            None => Ok(order),
        }
    }

    /// A cycle on which a task lies, or behind which it waits, said edge for edge; of what is missing at
    /// each task.
    fn cycle(&self, first: usize, n_waiting: usize, missing: &[usize]) -> String {
        let (mut path, mut places) = (Vec::new(), HashMap::new());
        let mut task = first;
        while !places.contains_key(&task) {
            places.insert(task, path.len());
            let inputs = self.ends(task).map_or(&[][..], |ends| &ends.inputs);
            let Some(&(flow, source, its)) = inputs.iter().find(|input| missing[input.1] > 0)
            else {
                break;
            };
            path.push(format!(
                "{} comes from {}",
                self.end(task, flow),
                self.end(source, its)
            ));
            task = source;
        }
        let cycle = path.split_off(places[&task]);
        let shown = &cycle[..cycle.len().min(CYCLE_SHOWN)];
        let more = match cycle.len() - shown.len() {
            0 => String::new(),
            n => format!(", and so on over {n} more"),
        };
        let waiting = match n_waiting {
            1 => "1 task waits".to_string(),
            _ => format!("{n_waiting} tasks wait"),
        };
        format!(
            "{waiting} in a cycle or behind one: {}{more}",
            shown.join(", ")
        )
    }

    /// Follows each datum from home through its versions: what is taken comes back to some slot.
    /// (A slot may get another's datum: two tasks may swap. But none may get lost. Which version comes
    /// back is the space's affair: a task may change a copy for itself alone.)
    fn check_lineages(&self, order: &[usize]) -> Result<(), Contradiction> {
        let mut from: BTreeMap<(usize, usize), HomeOnRank<'_>> = BTreeMap::new();
        let mut brought: BTreeSet<HomeOnRank<'_>> = BTreeSet::new();
        let listed = |&task: &usize| Some((task, self.tasks[task].listed.as_ref()?));
        for (task, TaskTold { on, ends, .. }) in order.iter().filter_map(listed) {
            for &(flow, source, source_flow) in &ends.inputs {
                if let Some(&slot) = from.get(&(source, source_flow)) {
                    from.insert((task, flow), slot);
                }
            }
            let taken = ends.taken.iter();
            from.extend(taken.map(|(flow, home)| ((task, *flow), (*on, home))));
            let put = ends.put.iter();
            brought.extend(put.filter_map(|(flow, _)| from.get(&(task, *flow)).copied()));
        }
        for (task, TaskTold { on, ends, .. }) in self.listed() {
            for (flow, home) in &ends.taken {
                if self.flow(task, *flow)?.0 == Mode::Update && !brought.contains(&(*on, home)) {
                    return fault(format!(
                        "{} takes the datum of {home}, which nobody brings back",
                        self.end(task, *flow)
                    ));
                }
            }
        }
        Ok(())
    }
}
