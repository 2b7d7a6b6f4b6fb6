//! Release: a finished task hands its outputs to those who wait for them.
//!
//! # Law
//! Every edge is walked once, by its source. What the task only read, and nobody else gets, is
//! dropped first; its own reference to an output moves into the last edge before that edge
//! becomes visible. So a single updating successor finds itself the only holder.
//!
//! A failed or skipped task releases in the same way, poisoned: its descendants are skipped, and
//! its data go on to where they belong.

use super::best::{Best, Next, Offer};
use super::drive::Visit;
use super::hand::Hand;
use super::pending::{Near, Poisoned};
use super::post::LeavingEdges;
use super::{ReadyTask, Run, Slots};
use crate::data::{Put, Store, Version};
use crate::error::Kind;
use crate::port::Hint;
use crate::space::{Flow, Mode, Successors, TaskName, TaskSpace, in_order};
use crate::words::counted;
use smallvec::SmallVec;

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Hands everything on. Returns the most urgent successor that became ready, unless a queued
    /// task is more urgent still; its data are in `hand.slots`.
    #[inline(always)]
    pub(super) fn release(
        &self,
        (source, poisoned): ReadyTask<S>,
        flows: &[Flow],
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Option<ReadyTask<S>> {
        let mut released = Released {
            run: self,
            source,
            poisoned,
            visit,
            best: Best::new(),
            near: Near::default(),
        };
        if Self::CARRIES {
            released.hand_on(flows);
        } else {
            if cfg!(debug_assertions) && self.names_twice(source) {
                return None;
            }
            self.space.successors(source, &mut released);
            released.near.release();
            let visit = &mut *released.visit;
            if !visit.hand.leaving.is_empty() {
                let leaving = std::mem::take(&mut visit.hand.leaving);
                let track = visit.track.as_deref_mut();
                self.post((source, poisoned), leaving, &[], track);
            }
        }
        released.next()
    }

    /// Whether a task names one of its edges twice, which is an error. Where edges carry no data a task
    /// takes some nanoseconds: there only debug builds ask.
    #[cold]
    #[inline(never)]
    fn names_twice(&self, source: S::Task) -> bool {
        let mut edges = AllEdges::<S>(EdgeList::<S>::new());
        self.space.successors(source, &mut edges);
        let twice = doubled(&edges.0);
        if let Some((target, flow)) = twice {
            self.fed_twice(source, target, flow);
        }
        twice.is_some()
    }
}

/// A task whose outputs are being handed on; as a visitor, of edges without data.
struct Released<'r, 'l, 'a, S: TaskSpace> {
    run: &'r Run<'a, S>,
    source: S::Task,
    poisoned: Poisoned,
    visit: &'r mut Visit<'l, Hand<S>>,
    /// Its data are in `hand.best`, and where they lie in `hand.best_hint`.
    best: Best<ReadyTask<S>>,
    /// Let go of before tasks are queued or messages posted.
    near: Near<'r, S::Datum>,
}

impl<S: TaskSpace> Successors<S> for Released<'_, '_, '_, S> {
    #[inline(always)]
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        if self.run.space.rank(target) == self.run.rank {
            self.deliver(flow, target, target_flow, None);
        } else {
            // A fault may be told.
            self.near.release();
            self.run
                .leaves((self.source, flow), target, &mut self.visit.hand.leaving);
        }
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

impl<'a, S: TaskSpace> Released<'_, '_, 'a, S> {
    /// Walks the edges of a task with data.
    fn hand_on(&mut self, flows: &[Flow]) {
        // Lent to the visitor, not part of it: moving them out would copy half a kilobyte.
        let (mut list, mut leaving) = (EdgeList::<S>::new(), LeavingEdges::new());
        let mut edges = Edges {
            run: self.run,
            source: &self.source,
            slots: &self.visit.hand.slots,
            list: &mut list,
            leaving: &mut leaving,
            fault: None,
            nothing: None,
            back: 0,
        };
        self.run.space.successors(self.source, &mut edges);
        let (fault, nothing, back) = (edges.fault, edges.nothing, edges.back);
        self.visit.hand.homes.lent -= back;
        if let Some((kind, text)) = fault {
            return self.run.fail(kind, Some(self.source), text);
        }
        let (mut few, mut many) = ([0; FEW], Vec::new());
        let uses = match few.get_mut(..flows.len()) {
            Some(uses) => uses,
            None => {
                many.resize(flows.len(), 0);
                &mut many[..]
            }
        };
        if !self.are_there((&list, &leaving), nothing, flows, uses) {
            return;
        }
        if let Some((target, flow)) = doubled(&list) {
            self.run.fed_twice(self.source, target, flow);
            return;
        }
        if !leaving.is_empty() {
            let (slots, track) = (&self.visit.hand.slots, self.visit.track.as_deref_mut());
            (self.run).post((self.source, self.poisoned), leaving, slots, track);
        }
        self.deliver_all(&list, uses);
    }

    /// Delivers what the edges that stay carry: the last one of a flow gets the task's own reference.
    #[inline(always)]
    fn deliver_all(&mut self, list: &EdgeList<S>, uses: &mut [u32]) {
        let slots = self.visit.hand.slots.iter_mut();
        for (slot, _) in slots.zip(&*uses).filter(|(_, uses)| **uses == 0) {
            *slot = None;
        }
        for &(flow, target, target_flow) in list {
            uses[flow] -= 1;
            let slot = &mut self.visit.hand.slots[flow];
            let datum = match uses[flow] {
                0 => slot.take(),
                _ => slot.clone(),
            };
            self.deliver(flow, target, target_flow, datum);
        }
        self.near.release();
    }

    /// Whether the flows that edges begin at are described and hold something; an error if not. `nothing`
    /// is one that was to go home and holds nothing. Counts the edges of each that stay in `uses`.
    #[inline(always)]
    fn are_there(
        &self,
        (stay, leave): (&EdgeList<S>, &LeavingEdges),
        nothing: Option<usize>,
        flows: &[Flow],
        uses: &mut [u32],
    ) -> bool {
        for &(flow, ..) in stay {
            let Some(uses) = uses.get_mut(flow) else {
                self.run.not_described(self.source, flow, flows.len());
                return false;
            };
            *uses += 1;
        }
        let is_left_empty = |flow: &Flow, slot: &Option<_>| {
            slot.is_none() && flow.mode != Mode::Order && !self.poisoned
        };
        for ((flow, slot), uses) in flows.iter().zip(&**self.visit.hand.slots).zip(&*uses) {
            if *uses > 0 && is_left_empty(flow, slot) {
                self.left_empty(flow);
                return false;
            }
        }
        let to_home = nothing.filter(|_| !self.poisoned);
        let elsewhere = leave.iter().map(|edge| usize::from(edge.1));
        for flow in to_home.into_iter().chain(elsewhere) {
            let Some(described) = flows.get(flow) else {
                self.run.not_described(self.source, flow, flows.len());
                return false;
            };
            if is_left_empty(described, &self.visit.hand.slots[flow]) {
                self.left_empty(described);
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn deliver(
        &mut self,
        source_flow: usize,
        target: S::Task,
        flow: usize,
        datum: Option<Version<S::Datum>>,
    ) {
        let (from, input) = ((self.source, source_flow), (datum, self.poisoned));
        let slots = &mut self.visit.hand.next;
        let ready = (self.run).activate(from, target, flow, input, slots, &mut self.near);
        if let Some(poisoned) = ready {
            self.choose((target, poisoned));
        }
    }

    /// Keeps the most urgent successor, its data in `hand.best`, and queues the others; what belongs
    /// elsewhere, too, if the lane is told of that.
    #[inline(always)]
    fn choose(&mut self, ready: ReadyTask<S>) {
        let priority = self.run.space.priority(ready.0);
        let (mut hint, mut goes_elsewhere) = (Hint::None, false);
        if Run::<'a, S>::tells(self.visit) {
            hint = self.run.hint(ready.0, &self.visit.hand.next);
            goes_elsewhere = self.visit.lane.goes_elsewhere(hint);
        }
        let offered = self.best.offer(ready, priority, goes_elsewhere);
        if Run::<'a, S>::CARRIES && matches!(offered, Offer::Best(_)) {
            let hand = &mut self.visit.hand;
            std::mem::swap(&mut hand.best, &mut hand.next);
            std::mem::swap(&mut hand.best_hint, &mut hint);
        }
        if let Some((other, priority)) = offered.queued() {
            self.near.release();
            self.run.queue(other, (priority, hint), self.visit);
        }
    }

    #[inline(always)]
    fn next(self) -> Option<ReadyTask<S>> {
        let hand = &mut self.visit.hand;
        match self.best.next(self.visit.lane)? {
            Next::Runs(best) => {
                if Run::<'a, S>::CARRIES {
                    std::mem::swap(&mut hand.best, &mut hand.slots);
                }
                Some(best)
            }
            Next::Queued(best, priority) => {
                if Run::<'a, S>::CARRIES {
                    std::mem::swap(&mut hand.best, &mut hand.next);
                }
                let place = (priority, hand.best_hint);
                self.run.queue(best, place, self.visit);
                None
            }
        }
    }

    #[cold]
    fn left_empty(&self, flow: &Flow) {
        let text = format!(
            "the body of {:?} left flow {} empty",
            self.source, flow.name
        );
        self.run.fail(Kind::FlowEmpty, Some(self.source), text);
    }
}

/// Flows whose uses are counted without memory of their own.
const FEW: usize = 8;

/// Edges that stay on the rank: flow, task, its flow.
pub(super) type EdgeList<S> = SmallVec<[(usize, <S as TaskSpace>::Task, usize); SOME]>;
/// Edges that are listed without memory of their own, and compared each with each.
const SOME: usize = 16;

/// The end of an edge that a task names twice. Its target may have no other input: then it is ready each
/// time, and keeps no record of having been fed.
#[inline(always)]
pub(super) fn doubled<T: TaskName>(edges: &[(usize, T, usize)]) -> Option<(T, usize)> {
    // Of few no two are alike if no two neighbours are, round about.
    if let [one, two, three] = edges {
        return [(one, two), (two, three), (three, one)]
            .into_iter()
            .find(|(one, other)| one == other)
            .map(|(one, _)| (one.1, one.2));
    }
    // Most spaces name a task's edges in their order: then it is enough to look at neighbours.
    match edges.is_sorted_by(|one, next| one < next) {
        true => None,
        false => doubled_anywhere(edges),
    }
}

#[cold]
fn doubled_anywhere<T: TaskName>(edges: &[(usize, T, usize)]) -> Option<(T, usize)> {
    let twice = if edges.len() <= SOME {
        let mut places = 1..edges.len();
        places.find(|&place| edges[..place].contains(&edges[place]))
    } else {
        let order = in_order(edges.len(), &|one, other| edges[one].cmp(&edges[other]));
        let mut pairs = order.windows(2);
        let pair = pairs.find(|pair| edges[pair[0]] == edges[pair[1]]);
        pair.map(|pair| pair[1])
    };
    twice.map(|place| (edges[place].1, edges[place].2))
}

/// All edges of a task.
struct AllEdges<S: TaskSpace>(EdgeList<S>);

impl<S: TaskSpace> Successors<S> for AllEdges<S> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.0.push((flow, target, target_flow));
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

/// The edges of a task with data: what goes home goes at once, the rest is listed.
struct Edges<'s, 'a, S: TaskSpace> {
    run: &'s Run<'a, S>,
    source: &'s S::Task,
    slots: &'s Slots<S::Datum>,
    list: &'s mut EdgeList<S>,
    leaving: &'s mut LeavingEdges,
    fault: Option<(Kind, String)>,
    /// How many slots got back what the run had taken from there.
    back: i64,
    /// A flow that was to go home but holds nothing.
    nothing: Option<usize>,
}

impl<S: TaskSpace> Successors<S> for Edges<'_, '_, S> {
    #[inline(always)]
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        if self.run.space.rank(target) == self.run.rank {
            self.list.push((flow, target, target_flow));
        } else {
            self.run.leaves((*self.source, flow), target, self.leaving);
        }
    }

    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        let Some(version) = self.slots.get(flow).cloned().flatten() else {
            self.nothing.get_or_insert(flow);
            return;
        };
        match store.put_in(index, version, self.run.number) {
            Some(Put::Back) => self.back += 1,
            Some(Put::New) => {}
            Some(Put::Twice) => {
                let text = self.run.put_twice(*self.source, store, index);
                self.fault = Some((Kind::PutTwice, text));
            }
            None => {
                let text = format!(
                    "slot {index} of {} does not exist: it has {}",
                    store.name(),
                    counted(store.len(), "slot")
                );
                self.fault = Some((Kind::HomeEmpty, text));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::error::TaskError;
    use crate::port::Inline;
    use crate::rank::Rank;
    use crate::run;
    use crate::space::{Description, Flows, Inputs};
    use UnmadeTask::{Look, Make};

    crate::task_names! {
        /// One is to make a datum, for the other and for home.
        enum UnmadeTask { Make {}, Look {} }
    }

    struct Unmade(Store<u64>);

    impl TaskSpace for Unmade {
        type Task = UnmadeTask;
        type Datum = u64;

        fn describe(&self, about: &mut Description) {
            about.name("unmade");
            about.class("Make").new_flow("MADE");
            about.class("Look").read("MADE");
        }

        fn tasks(&self, _: Rank) -> impl Iterator<Item = UnmadeTask> + Send {
            [Make {}, Look {}].into_iter()
        }

        fn inputs(&self, task: UnmadeTask, from: &mut impl Inputs<Self>) {
            if let Look {} = task {
                from.task(0, Make {}, 0);
            }
        }

        fn successors(&self, task: UnmadeTask, to: &mut impl Successors<Self>) {
            if let Make {} = task {
                to.task(0, Look {}, 0);
                to.home(0, &self.0, 0);
            }
        }

        fn run(&self, task: UnmadeTask, _: &mut Flows<'_, u64>) -> Result<(), TaskError> {
            assert_eq!(task, Make {}, "what has no input is skipped");
            Err("there is no such row".into())
        }
    }

    /// Not that a flow is empty, which is so of every task that fails before it has made its datum.
    #[test]
    fn a_task_that_fails_before_it_has_made_its_datum_is_told_with_its_own_text() {
        let error = run(&Unmade(Store::empty("made", 1)), &Inline).unwrap_err();
        let (kind, text) = (Kind::TaskFailed, "there is no such row");
        assert_eq!((error.kind(), error.message()), (kind, text));
        assert_eq!(error.task(), Some("Make"));
    }
}
