//! Verify: proves for concrete parameters that both ends of every edge agree.
//!
//! Everything is enumerated, so a proof takes memory in proportion to the space, and time in proportion
//! to its edges, times the logarithm of those of one task: use small parameters, such as four tiles a
//! side on a grid of 2 × 3. Each space has this as its first test.
//!
//! All answers of a space are read once, with its tasks as numbers; the checks after that do not depend
//! on the type of the space, and are compiled once.

use super::asked::{Asked, HomeSlot, TaskEdges};
use super::name::{PACKED_BITS, in_order};
use super::{Class, Description, Mode, TaskName, TaskSpace};
use crate::error::{Error, Kind, shown, text_of};
use crate::rank::Rank;
use crate::stderr;
use crate::words::counted;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
/// [says](Description::ranks) to how many ranks it deals them out.
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
pub(crate) fn misplaced<T: TaskName>(space: &dyn Asked<T>, task: T, on: Rank) -> String {
    let placed = space.placed(task);
    let forgotten = match placed {
        Rank(0) => " (has the space a method `rank`? without one all tasks are placed on rank 0)",
        _ => "",
    };
    format!("`tasks` lists {task:?} on {on}, but `rank` places it on {placed}{forgotten}")
}

/// Queues and tables know a task as what its name packs to.
fn check_name<T: TaskName>(space: &dyn Asked<T>, task: T) -> Result<(), Contradiction> {
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

/// Tasks up to which `DATAFLOW_VERIFY` has a space verified, and a run that has failed asks what is wrong.
pub(crate) const FEW: u64 = 100_000;
/// How many edges of a cycle are named.
const CYCLE_SHOWN: usize = 4;

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

/// Tasks beyond which no memory holds what is noted of each.
const NOTED: u64 = u32::MAX as u64;

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
    space: &dyn Asked<T>,
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
    space: &dyn Asked<T>,
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
    space: &dyn Asked<T>,
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
fn is_small<T: TaskName>(space: &dyn Asked<T>, n_ranks: u32) -> bool {
    n_tasks(space, n_ranks) <= FEW && !lists_more_than(FEW, space, n_ranks)
}

/// Whether the space lists more tasks than so many, whatever it counts: a list may have no end.
fn lists_more_than<T: TaskName>(most: u64, space: &dyn Asked<T>, n_ranks: u32) -> bool {
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
fn n_tasks<T: TaskName>(space: &dyn Asked<T>, n_ranks: u32) -> u64 {
    let counts = (0..n_ranks).map(|on| space.counted(Rank(on)));
    counts.fold(0, u64::saturating_add)
}

#[cold]
fn verify_small<T: TaskName>(space: &dyn Asked<T>, n_ranks: u32) -> Result<(), Error> {
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
fn proved<T: TaskName>(space: &dyn Asked<T>, n_ranks: u32) -> Result<(), Contradiction> {
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
    catch_unwind(AssertUnwindSafe(|| ask(&asked))).map_err(|panic| {
        let text = text_of(&*panic).to_string();
        // Dropped, it might panic again.
        std::mem::forget(panic);
        (asked.get(), text)
    })
}

/// Reads all that a space says; `asked` is the task of which it speaks.
fn read<T: TaskName>(
    space: &dyn Asked<T>,
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

/// Gives numbers to tasks, in the order in which they are met.
struct Numbering<'s, T> {
    space: &'s dyn Asked<T>,
    asked: &'s Cell<Option<T>>,
    about: Description,
    numbers: HashMap<T, usize>,
    names: Vec<T>,
    tasks: Vec<MetTask>,
    /// Tasks by their own [index](TaskSpace::index).
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

/// A slot, and the rank whose store it is of.
type HomeOnRank<'g> = (Rank, &'g HomeSlot);

/// What a space says, with tasks as numbers.
struct NumberedGraph {
    about: Description,
    tasks: Vec<MetTask>,
    /// All that were met, in the order of their names.
    by_name: Vec<usize>,
    ranks: Vec<RankTold>,
}

/// A task that was listed, or named by one that was.
struct MetTask {
    /// For texts.
    text: String,
    class: usize,
    listed: Option<TaskTold>,
}

/// Where a task runs, and both opinions of its edges.
struct TaskTold {
    on: Rank,
    ends: TaskEdges<usize>,
    /// The edges from and to tasks, sorted: the task at the other end looks itself up.
    named_inputs: Vec<(usize, usize, usize)>,
    named_outputs: Vec<(usize, usize, usize)>,
}

/// What a space says of one rank.
struct RankTold {
    on: Rank,
    /// Each with where it is placed.
    roots: Vec<(usize, Rank)>,
    count: u64,
}

impl NumberedGraph {
    fn check(&self) -> Result<(), Contradiction> {
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
