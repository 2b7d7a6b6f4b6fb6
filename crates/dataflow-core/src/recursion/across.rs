//! Across ranks: every rank unfolds the top of the same tree of calls; the subtrees below are dealt out to
//! the ranks.
//!
//! # Law
//! Calls are pure, so all ranks see the same top: breadth first, until there are [`PER_RANK`] open
//! calls for each rank or none is left. The open ones, in the order of the ways to them, go to the ranks
//! in turn and are recursions there; their values travel to rank 0, which joins the top, and the
//! outermost value travels back.
//!
//! A narrow tree may be all top. So after as many calls as there are to be open ones, and after twice, four
//! times, … as many, the ranks agree to go on, by a run of nothing: it ends on all of them if one was
//! cancelled meanwhile.
//!
//! Below the top it is a task space: the engine's protocol, faults and errors are those of any other.

use super::run::CallPath;
use super::{Call, Join, Recursive, recurse, recurse_below};
use crate::engine::{Report, buried, refuse_inside_a_body, run_across};
use crate::error::{Error, Kind, TaskError};
use crate::port::{Context, Executor, Inline, Wire};
use crate::rank::Rank;
use crate::space::{Description, Flows, Independent, Inputs, Successors, TaskSpace};
use crate::sync::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Open calls for each rank: enough to keep all ranks busy if the tree is uneven.
const PER_RANK: usize = 16;

/// Calls a problem on all ranks, each of which calls this with the same one and the same argument;
/// returns the value on each rank, and the number of calls made on this one. On a single rank it is the
/// same as [`recurse`], but may not be used inside a body.
///
/// # Errors
/// As [`recurse`] and [`run_across`](crate::run_across); the same on every rank. Of the outermost calls,
/// which every rank makes before any are dealt out, the smallest error is reported if some fail; then no
/// call below them is made. A rank ends an open call that it has begun if its own monitor is cancelled;
/// if another's is, after it.
pub fn recurse_across<P>(
    problem: &P,
    argument: P::Argument,
    on: &dyn Executor,
) -> Result<(P::Value, Report), Error>
where
    P: Recursive<Value: Wire>,
{
    refuse_inside_a_body()?;
    let courier = on.courier();
    let n_ranks = courier.n_ranks();
    if n_ranks == 1 {
        return recurse(problem, argument, on);
    }
    let unfold = || Top::unfold(problem, argument, on);
    let top = catch_unwind(AssertUnwindSafe(unfold)).unwrap_or_else(|panic| {
        let text = format!("call panicked: {}", buried(panic));
        Err(Error::new(Kind::TaskPanicked, None, text))
    });
    let tree = CallTree {
        top: top?,
        problem,
        on,
        n_ranks: n_ranks as u32,
        calls: AtomicU64::new(0),
        value: Mutex::new(None),
    };
    let report = run_across(&tree, on)?;
    // The top was called everywhere, and counts once.
    let top = if courier.rank() == Rank(0) {
        tree.top.n_calls
    } else {
        0
    };
    let tasks = top + tree.calls.into_inner();
    let value = tree.value.into_inner();
    match value.unwrap_or_else(PoisonError::into_inner) {
        Some(value) => Ok((value, Report { tasks, ..report })),
        None => unreachable!("a run without an error has kept its value"),
    }
}

/// The top of a tree of calls.
struct Top<P: Recursive> {
    /// Calls in the order in which they were unfolded; children stand behind their parents.
    nodes: Mutex<Vec<Node<P>>>,
    /// Open calls, by number.
    open: Vec<Mutex<Option<P::Argument>>>,
    /// How many calls were made here.
    n_calls: u64,
}

enum Node<P: Recursive> {
    Done(P::Value),
    /// With its children: so many, from this number on.
    Fork(Join<P>, usize, usize),
    /// Its number among the open ones.
    Open(usize),
    /// Taken.
    Gone,
}

impl<P: Recursive> Top<P> {
    /// # Errors
    /// The smallest of those that calls here have failed with; or that a rank was cancelled meanwhile.
    fn unfold(problem: &P, argument: P::Argument, on: &dyn Executor) -> Result<Self, Error> {
        let enough = PER_RANK * on.courier().n_ranks();
        let mut nodes = vec![Node::Gone];
        let mut above = Ways(vec![(0, 0)]);
        // They are called in the order in which they stand: those that wait are the last nodes.
        let mut waiting = VecDeque::from([argument]);
        let (mut n_calls, mut next_level, mut agree_at) = (0, 0, enough);
        let mut failed = Vec::new();
        while waiting.len() < enough
            && let Some(argument) = waiting.pop_front()
        {
            if n_calls == agree_at {
                agree_to_go_on(on)?;
                agree_at *= 2;
            }
            if n_calls == next_level {
                next_level = nodes.len();
            }
            nodes[n_calls] = match problem.call(argument) {
                Ok(Call::Done(value)) => Node::Done(value),
                Ok(Call::Fork { arguments, join }) => {
                    let (first, n) = (nodes.len(), arguments.len());
                    above.0.extend((0..n).map(|place| (n_calls, place)));
                    nodes.extend((0..n).map(|_| Node::Gone));
                    waiting.extend(arguments);
                    Node::Fork(join, first, n)
                }
                Err(error) => {
                    failed.push((error.index().unwrap_or(u64::MAX), n_calls, error));
                    Node::Gone
                }
            };
            n_calls += 1;
        }
        if let Some((way, error)) = above.smallest(failed) {
            return Err(Error::of_task(&way, error));
        }
        // Of failures with the same index that of the smallest number is reported, and so these are in
        // the order of their ways: those of the next level are below calls before the others.
        let (this, next) = (n_calls..next_level, next_level..nodes.len());
        waiting.rotate_left(this.len());
        for (number, at) in next.chain(this).enumerate() {
            nodes[at] = Node::Open(number);
        }
        let open = waiting
            .into_iter()
            .map(|argument| Mutex::new(Some(argument)));
        Ok(Top {
            nodes: Mutex::new(nodes),
            open: open.collect(),
            n_calls: n_calls as u64,
        })
    }

    /// Joins all, given the values of the open calls: children first.
    fn join(&self, open: &[&P::Value]) -> Option<P::Value>
    where
        P::Value: Clone,
    {
        let mut nodes = locked(&self.nodes);
        let mut values: Vec<Option<P::Value>> = nodes.iter().map(|_| None).collect();
        for at in (0..nodes.len()).rev() {
            values[at] = match std::mem::replace(&mut nodes[at], Node::Gone) {
                Node::Done(value) => Some(value),
                Node::Open(number) => open.get(number).map(|value| (*value).clone()),
                Node::Fork(join, first, n) => {
                    let children = values[first..first + n].iter_mut().map(Option::take);
                    children.collect::<Option<Vec<_>>>().map(join)
                }
                Node::Gone => None,
            };
        }
        values.into_iter().next().flatten()
    }
}

/// Of each node the one above it, and its place among those below that one.
struct Ways(Vec<(usize, usize)>);

impl Ways {
    /// The way to a node.
    fn to(&self, mut node: usize) -> CallPath {
        let mut way = Vec::new();
        while node > 0 {
            let (above, place) = self.0[node];
            way.push(place);
            node = above;
        }
        way.reverse();
        CallPath(way)
    }

    /// Of failures, each with its index and its node, the smallest by (index, way).
    fn smallest(&self, failed: Vec<(u64, usize, TaskError)>) -> Option<(CallPath, TaskError)> {
        let least = failed.iter().map(|(index, ..)| *index).min()?;
        let alike = failed.into_iter().filter(|(index, ..)| *index == least);
        let alike = alike.map(|(_, node, error)| (self.to(node), error));
        alike.min_by(|one, other| one.0.cmp(&other.0))
    }
}

/// Ends on all ranks if one was cancelled. No run of the program's: it is not recorded.
fn agree_to_go_on(on: &dyn Executor) -> Result<(), Error> {
    let n_ranks = on.courier().n_ranks() as u32;
    let each = Independent::new("calls at the top", n_ranks.into(), |_| Ok(()));
    let mut here = Context::new(&Inline).across(on.courier());
    if let Some(monitor) = on.monitor() {
        here = here.watched_by(monitor);
    }
    run_across(&each.across(n_ranks), &here).map(drop)
}

crate::task_names! {
    /// An open call; the top, joined; the value, kept on a rank.
    enum TreeTask { Below { number }, Joined {}, Kept { on } }
}
use TreeTask::{Below, Joined, Kept};

struct CallTree<'t, P: Recursive> {
    problem: &'t P,
    on: &'t dyn Executor,
    top: Top<P>,
    n_ranks: u32,
    calls: AtomicU64,
    value: Mutex<Option<P::Value>>,
}

const VALUE: usize = 0;
/// The flow of the top that its own value leaves through. Before those of the open calls: there may be
/// more of them than numbers of flows that travel.
const OUTERMOST: usize = 0;

impl<P: Recursive<Value: Wire>> CallTree<'_, P> {
    fn n_open(&self) -> u32 {
        self.top.open.len() as u32
    }

    /// The flow of the top that the value of an open call comes through.
    fn value_of(number: u32) -> usize {
        OUTERMOST + 1 + number as usize
    }

    fn keep(&self, value: P::Value) {
        *locked(&self.value) = Some(value);
    }
}

impl<P: Recursive<Value: Wire>> TaskSpace for CallTree<'_, P> {
    type Task = TreeTask;
    type Datum = P::Value;

    fn describe(&self, about: &mut Description) {
        about.name("recursion");
        about.parameter("ranks", self.n_ranks);
        about.parameter("calls at the top", self.top.n_calls);
        about.parameter("open calls", self.n_open());
        about.class("Below").new_flow("VALUE");
        let mut joined = about.class("Joined").new_flow("OUTERMOST");
        for number in 0..self.n_open() {
            joined = joined.read(&format!("VALUE{number}"));
        }
        about.class("Kept").read("VALUE");
    }

    fn tasks(&self, Rank(on): Rank) -> impl Iterator<Item = TreeTask> + Send {
        let below = (on..self.n_open()).step_by(self.n_ranks as usize);
        let joined = (on == 0).then_some(Joined {});
        let below = below.map(|number| Below { number });
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
            Joined {} => to.range(OUTERMOST, 0..self.n_ranks, |on| Kept { on }, VALUE),
            Kept { .. } => {}
        }
    }

    fn run(&self, task: TreeTask, flows: &mut Flows<'_, P::Value>) -> Result<(), TaskError> {
        match task {
            Below { number } => {
                let argument = locked(&self.top.open[number as usize]).take();
                let Some(argument) = argument else {
                    unreachable!("an open call is called once");
                };
                let below = recurse_below(self.problem, argument, self.on);
                let (value, report) = below.map_err(TaskError::of_part)?;
                self.calls.fetch_add(report.tasks, Ordering::Relaxed);
                let [slot] = flows.slots();
                slot.put(value);
            }
            Joined {} => {
                let mut slots = flows.iter();
                let outermost = slots.next();
                let values: Vec<_> = slots.map(|slot| slot.read()).collect();
                match (self.top.join(&values), outermost) {
                    (Some(value), Some(slot)) => slot.put(value),
                    _ => unreachable!("every call of the top has its value"),
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
            Below { number } => Rank(number % self.n_ranks),
            Joined {} => Rank(0),
            Kept { on } => Rank(on),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
