//! Verify: proves for concrete parameters that both ends of every edge agree.
//!
//! Everything is enumerated, so a proof takes memory in proportion to the space: use small
//! parameters, such as four tiles a side on a grid of 2 × 3. Each space has this as its first test.

use super::{Class, Description, Inputs, Mode, Successors, TaskName, TaskSpace};
use crate::data::Store;
use crate::rank::Rank;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A contradiction in a task space, with the edge it concerns and both opinions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

fn fault<T>(text: String) -> Result<T, Fault> {
    Err(Fault { text })
}

/// Checks a space on `n_ranks` ranks.
///
/// What is proved: every task is listed once, on its rank; every input names an output that
/// names it back, and the reverse; both ends agree on the kind of datum; every flow that is read
/// or updated is fed once; what is taken from home is taken by one task and brought back by one,
/// as what became of it, not as another datum;
/// `roots` and `count` are right; there is no cycle.
///
/// # Errors
/// The first contradiction found.
///
/// # Examples
/// See the [crate's](crate) example.
pub fn verify<S: TaskSpace>(space: &S, n_ranks: u32) -> Result<(), Fault> {
    let graph = Graph::of(space, n_ranks)?;
    graph.check_inputs()?;
    graph.check_outputs()?;
    graph.check_homes()?;
    graph.check_roots(space, n_ranks)?;
    let order = graph.check_order()?;
    graph.check_lineages(&order)
}

struct Graph<T> {
    about: Description,
    n_ranks: u32,
    tasks: BTreeMap<T, Ends<T>>,
}

/// Both opinions of one task.
struct Ends<T> {
    on: Rank,
    /// (flow, source, source's flow)
    inputs: Vec<(usize, T, usize)>,
    /// (flow, target, target's flow)
    outputs: Vec<(usize, T, usize)>,
    taken: Vec<(usize, Home)>,
    put: Vec<(usize, Home)>,
}

/// A slot of a store on a rank: the store's address (two may share a name), index, name, length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Home {
    on: Rank,
    store: usize,
    index: usize,
    name: String,
    length: usize,
}

impl Home {
    fn of<D: crate::data::Datum>(on: Rank, store: &Store<D>, index: usize) -> Self {
        let address = std::ptr::from_ref(store).addr();
        Home {
            on,
            store: address,
            index,
            name: store.name().into(),
            length: store.len(),
        }
    }
}

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of {}", self.index, self.name)
    }
}

impl<S: TaskSpace> Inputs<S> for Ends<S::Task> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.inputs.push((flow, source, source_flow));
    }
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.taken.push((flow, Home::of(self.on, store, index)));
    }
}

impl<S: TaskSpace> Successors<S> for Ends<S::Task> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.outputs.push((flow, target, target_flow));
    }
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.put.push((flow, Home::of(self.on, store, index)));
    }
}

impl<T: TaskName> Graph<T> {
    fn of<S: TaskSpace<Task = T>>(space: &S, n_ranks: u32) -> Result<Self, Fault> {
        let about = Description::of(space);
        let mut tasks = BTreeMap::new();
        for on in (0..n_ranks).map(Rank) {
            for task in space.tasks(on) {
                if space.rank(task) != on {
                    let placed = space.rank(task);
                    return fault(format!("{task:?} is listed on {on} but placed on {placed}"));
                }
                if about.classes().get(task.class()).is_none() {
                    return fault(format!("{task:?} is of a class that is not described"));
                }
                let mut ends = Ends {
                    on,
                    inputs: vec![],
                    outputs: vec![],
                    taken: vec![],
                    put: vec![],
                };
                space.inputs(task, &mut ends);
                space.successors(task, &mut ends);
                if tasks.insert(task, ends).is_some() {
                    return fault(format!("{task:?} is listed twice"));
                }
            }
        }
        Ok(Graph {
            about,
            n_ranks,
            tasks,
        })
    }

    fn class(&self, task: T) -> &Class {
        &self.about.classes()[task.class()]
    }

    /// `TASK.FLOW`, for texts.
    fn end(&self, task: T, flow: usize) -> String {
        if task.class() < self.about.classes().len() {
            format!("{} of {task:?}", self.about.flow_name(task.class(), flow))
        } else {
            format!("flow {flow} of {task:?}")
        }
    }

    /// The flow's mode and kind.
    fn flow(&self, task: T, flow: usize) -> Result<(Mode, &'static str), Fault> {
        match self.class(task).flows.get(flow) {
            Some(flow) => Ok((flow.mode, flow.kind)),
            None => fault(format!("{} is not described", self.end(task, flow))),
        }
    }

    /// Every input is known at its source; every flow has the inputs that its mode asks for.
    fn check_inputs(&self) -> Result<(), Fault> {
        for (&task, ends) in &self.tasks {
            let mut fed = BTreeSet::new();
            for &(flow, source, source_flow) in &ends.inputs {
                self.flow(task, flow)?;
                if !fed.insert(flow) {
                    return fault(format!("{} has two sources", self.end(task, flow)));
                }
                let Some(known) = self.tasks.get(&source) else {
                    return fault(format!(
                        "{} comes from {source:?}, which is no task",
                        self.end(task, flow)
                    ));
                };
                let named = known
                    .outputs
                    .iter()
                    .filter(|o| **o == (source_flow, task, flow))
                    .count();
                if named != 1 {
                    return fault(format!(
                        "{} says it comes from {}, which names it {named} times among its successors",
                        self.end(task, flow),
                        self.end(source, source_flow),
                    ));
                }
            }
            for (flow, home) in &ends.taken {
                let (mode, _) = self.flow(task, *flow)?;
                if !fed.insert(*flow) {
                    return fault(format!("{} has two sources", self.end(task, *flow)));
                }
                if !matches!(mode, Mode::Read | Mode::Optional | Mode::Update) {
                    return fault(format!(
                        "{} is {mode:?} and cannot come from {home}",
                        self.end(task, *flow)
                    ));
                }
            }
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
        }
        Ok(())
    }

    /// Every output is expected at its target, with the same kind.
    fn check_outputs(&self) -> Result<(), Fault> {
        for (&task, ends) in &self.tasks {
            for &(flow, target, target_flow) in &ends.outputs {
                let (_, kind) = self.flow(task, flow)?;
                let Some(known) = self.tasks.get(&target) else {
                    return fault(format!(
                        "{} goes to {target:?}, which is no task",
                        self.end(task, flow)
                    ));
                };
                if !known.inputs.contains(&(target_flow, task, flow)) {
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
    fn check_homes(&self) -> Result<(), Fault> {
        let mut takers: BTreeMap<&Home, (T, Mode)> = BTreeMap::new();
        let mut putters: BTreeMap<&Home, T> = BTreeMap::new();
        for (&task, ends) in &self.tasks {
            for (flow, home) in ends.taken.iter().chain(&ends.put) {
                self.flow(task, *flow)?;
                // Of several ranks the space has the stores of one only: there, indices elsewhere
                // are names that must match, no more.
                if self.n_ranks == 1 && home.index >= home.length {
                    let end = self.end(task, *flow);
                    return fault(format!(
                        "{end} names {home}, which has {} slots",
                        home.length
                    ));
                }
            }
            for (flow, home) in &ends.taken {
                let (mode, _) = self.flow(task, *flow)?;
                match takers.insert(home, (task, mode)) {
                    Some((other, before)) if before == Mode::Update || mode == Mode::Update => {
                        return fault(format!("{other:?} and {task:?} both take {home}"));
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
                if let Some(other) = putters.insert(home, task) {
                    return fault(format!("{other:?} and {task:?} both put {home}"));
                }
            }
        }
        for (home, (task, mode)) in &takers {
            match (mode, putters.get(home)) {
                (Mode::Update, None) => {
                    return fault(format!("{task:?} takes {home}, which nobody brings back"));
                }
                (Mode::Read | Mode::Optional, Some(putter)) => {
                    return fault(format!(
                        "{task:?} reads {home}, which {putter:?} replaces meanwhile"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_roots<S: TaskSpace<Task = T>>(&self, space: &S, n_ranks: u32) -> Result<(), Fault> {
        for on in (0..n_ranks).map(Rank) {
            let mut roots = BTreeSet::new();
            for root in space.roots(on) {
                match self.tasks.get(&root) {
                    None => return fault(format!("root {root:?} is no task")),
                    Some(_) if space.rank(root) != on => {
                        return fault(format!(
                            "root {root:?} is announced on {on}, where it does not run"
                        ));
                    }
                    Some(ends) if !ends.inputs.is_empty() => {
                        return fault(format!("root {root:?} has inputs from tasks"));
                    }
                    Some(_) if !roots.insert(root) => {
                        return fault(format!("root {root:?} is announced twice"));
                    }
                    Some(_) => {}
                }
            }
            let here = || {
                self.tasks
                    .iter()
                    .filter(|(task, _)| space.rank(**task) == on)
            };
            let missing =
                here().find(|(task, ends)| ends.inputs.is_empty() && !roots.contains(task));
            if let Some((task, _)) = missing {
                return fault(format!(
                    "{task:?} waits for no task but is not among the roots of {on}"
                ));
            }
            let (count, listed) = (space.count(on), here().count() as u64);
            if count != listed {
                return fault(format!("{on} counts {count} tasks but lists {listed}"));
            }
        }
        Ok(())
    }

    /// Kahn's algorithm: what cannot be ordered lies on or behind a cycle.
    fn check_order(&self) -> Result<Vec<T>, Fault> {
        let mut order = Vec::with_capacity(self.tasks.len());
        let mut missing: BTreeMap<T, usize> = self
            .tasks
            .iter()
            .map(|(&task, ends)| (task, ends.inputs.len()))
            .collect();
        let mut ready: Vec<T> = missing
            .iter()
            .filter(|(_, n)| **n == 0)
            .map(|(&task, _)| task)
            .collect();
        while let Some(task) = ready.pop() {
            missing.remove(&task);
            order.push(task);
            for (_, target, _) in &self.tasks[&task].outputs {
                if let Some(n) = missing.get_mut(target) {
                    *n -= 1;
                    if *n == 0 {
                        ready.push(*target);
                    }
                }
            }
        }
        match missing.keys().next() {
            Some(task) => fault(format!(
                "{} tasks wait for each other in a cycle, {task:?} among them or behind",
                missing.len()
            )),
            None => Ok(order),
        }
    }

    /// Follows each datum from home through its versions: what is taken comes back to some slot.
    /// (A slot may get another's datum: two tasks may swap. But none may get lost.)
    fn check_lineages(&self, order: &[T]) -> Result<(), Fault> {
        let mut from: BTreeMap<(T, usize), &Home> = BTreeMap::new();
        let mut brought: BTreeSet<&Home> = BTreeSet::new();
        for &task in order {
            let ends = &self.tasks[&task];
            for &(flow, source, source_flow) in &ends.inputs {
                if let Some(&home) = from.get(&(source, source_flow)) {
                    from.insert((task, flow), home);
                }
            }
            from.extend(ends.taken.iter().map(|(flow, home)| ((task, *flow), home)));
            brought.extend(
                ends.put
                    .iter()
                    .filter_map(|(flow, _)| from.get(&(task, *flow)).copied()),
            );
        }
        for (&task, ends) in &self.tasks {
            for (flow, home) in &ends.taken {
                if self.flow(task, *flow)?.0 == Mode::Update && !brought.contains(home) {
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
