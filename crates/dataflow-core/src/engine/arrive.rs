//! Arrive: what another rank posted is taken in.
//!
//! The space is asked for the successors of the task that ran elsewhere; those of this rank get
//! their inputs, as if it had run here.

use super::drive::Visit;
use super::hand::Hand;
use super::pending::Near;
use super::release::{EdgeList, doubled};
use super::slots::{let_go, set};
use super::{ReadyTask, Run, Slots};
use crate::data::{Datum, Store, Version};
use crate::error::Kind;
use crate::foreign::caught;
use crate::port::{Arrival, Hint, Line};
use crate::space::{Successors, TaskSpace};
use crate::trace::Track;
use smallvec::SmallVec;
use std::time::Duration;

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Moves messages, if that is left to workers, and takes in all that has arrived; successors
    /// that become ready are queued. Says whether there was anything.
    ///
    /// - `look`: how to move them, for a worker with a task in hand or without one
    #[cold]
    pub(super) fn look_for_mail(
        &self,
        look: fn(&dyn Line),
        visit: &mut Visit<'_, Hand<S>>,
    ) -> bool {
        let Some(abroad) = &self.abroad else {
            return false;
        };
        abroad.mail.taken_after(|| look(&*abroad.line));
        if !self.common.ledger.has_mail() {
            return false;
        }
        visit.hand.task = None;
        let mut mail = std::mem::take(&mut visit.hand.mail);
        abroad.mail.take(&mut mail);
        for (from, arrival, there) in mail.drain(..) {
            if let Err(text) = self.arrive(arrival, there, visit) {
                self.fail(Kind::Malformed, None, format!("{from} sent {text}"));
            }
        }
        visit.hand.mail = mail;
        true
    }

    /// Whether a worker without a task shall look again at once: it moves messages itself, tasks
    /// are still to come or others wait for data, and the line wants it.
    #[cold]
    pub(super) fn waits_for_others(&self, since: &mut Option<Duration>) -> bool {
        let Some(abroad) = &self.abroad else {
            return false;
        };
        let finished = self.common.ledger.executed() >= self.common.ledger.count();
        abroad.line.lingers(finished, since)
    }

    /// Takes in what had all come at `there`, if that was noted.
    fn arrive(
        &self,
        arrival: Arrival,
        there: Option<u64>,
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Result<(), String> {
        let source = self.source_of(&arrival)?;
        // Lent to those who fill and read it: moving it would copy half a kilobyte.
        let mut edges = EdgeList::<S>::new();
        self.edges_here(source, &arrival, &mut edges)?;
        if let Some((target, flow)) = doubled(&edges) {
            self.fed_twice(source, target, flow);
            return Ok(());
        }
        if let Some(track) = &mut visit.track {
            self.note(source, &arrival, there, track);
        }
        let poisoned = arrival.poisoned;
        let goods = self.unload(source, arrival)?;
        self.hand_out((source, poisoned), &edges, goods, visit);
        Ok(())
    }

    /// The task of another rank whose outputs these are.
    fn source_of(&self, arrival: &Arrival) -> Result<S::Task, String> {
        let source = self
            .space
            .named_by(&arrival.task)
            .ok_or_else(|| format!("a task that has no name here: {:?}", arrival.task))?;
        if self.space.rank(source) == self.rank {
            return Err(format!("outputs of {source:?}, which runs here"));
        }
        Ok(source)
    }

    /// Lists the edges that end here, one or more for each flow that arrived.
    fn edges_here(
        &self,
        source: S::Task,
        arrival: &Arrival,
        list: &mut EdgeList<S>,
    ) -> Result<(), String> {
        let mut edges = Received {
            run: self,
            flows: CameFlows::of(arrival),
            list,
        };
        self.space.successors(source, &mut edges);
        match edges.flows.left() {
            None => Ok(()),
            Some(flow) => Err(format!(
                "flow {flow} of {source:?}, which nobody here waits for"
            )),
        }
    }

    /// Into the trace: from where the outputs came, how large and when.
    fn note(&self, source: S::Task, arrival: &Arrival, there: Option<u64>, track: &mut Track) {
        let (task, from) = (crate::trace::number(source), self.space.rank(source));
        track.came(task, from, bytes_of(arrival), there);
    }

    /// Brings the data to the successors, the last one of a flow gets the reference itself; those that
    /// become ready are queued.
    fn hand_out(
        &self,
        (source, poisoned): ReadyTask<S>,
        edges: &EdgeList<S>,
        mut goods: Unloaded<S::Datum>,
        visit: &mut Visit<'_, Hand<S>>,
    ) {
        let slots = &mut goods.0;
        let mut uses: SmallVec<[usize; 8]> = SmallVec::from_elem(0, slots.len());
        edges.iter().for_each(|&(flow, ..)| uses[flow] += 1);
        let mut near = Near::default();
        for &(flow, target, target_flow) in edges {
            uses[flow] -= 1;
            let datum = match uses[flow] {
                0 => slots[flow].take(),
                _ => slots[flow].clone(),
            };
            let from = (source, flow);
            let input = (datum, poisoned);
            let next = &mut visit.hand.next;
            let ready = self.activate(from, target, target_flow, input, next, &mut near);
            if let Some(poisoned) = ready {
                near.release();
                let ready: ReadyTask<S> = (target, poisoned);
                let priority = self.space.priority(target);
                let mut hint = Hint::None;
                if Self::tells(visit) {
                    hint = self.hint(target, &visit.hand.next);
                }
                self.share(ready, (priority, hint), visit);
            }
        }
    }

    /// The data of an arrival, each in its place.
    fn unload(&self, source: S::Task, arrival: Arrival) -> Result<Unloaded<S::Datum>, String> {
        let mut unloaded = Unloaded(Slots::new());
        for (flow, goods) in arrival.flows {
            let datum = match (goods, &self.abroad) {
                (Some(goods), Some(abroad)) => {
                    let bytes = goods.body.length();
                    // Where it panics, nobody else knows whose datum it was.
                    let datum = caught(|| (abroad.codec.unload)(goods))
                        .unwrap_or_else(|text| Err(format!("panicked: {text}")))
                        .map_err(|text| format!("flow {flow} of {source:?}: {text}"));
                    Some(Version::came(datum?, bytes))
                }
                _ => None,
            };
            set(&mut unloaded.0, usize::from(flow), datum);
        }
        Ok(unloaded)
    }
}

/// The data of an arrival, by flow. What is left of them when one cannot be unpacked, or a space panics, is
/// dropped quietly, each by itself.
struct Unloaded<D: Datum>(Slots<D>);

impl<D: Datum> Drop for Unloaded<D> {
    fn drop(&mut self) {
        let_go(&mut self.0);
    }
}

/// The flows that arrived, ascending, and whether anybody here waits for them.
struct CameFlows(SmallVec<[(u16, bool); 4]>);

impl CameFlows {
    fn of(arrival: &Arrival) -> Self {
        let flows = arrival.flows.iter().map(|(flow, _)| (*flow, false));
        let mut flows: SmallVec<_> = flows.collect();
        flows.sort_unstable(); // as they were posted, if the peer is one of ours
        CameFlows(flows)
    }

    /// Somebody here waits for a flow; says whether it arrived.
    fn await_one(&mut self, flow: usize) -> bool {
        // One of a higher number was never sent.
        let at = u16::try_from(flow)
            .ok()
            .and_then(|flow| self.0.binary_search_by_key(&flow, |(flow, _)| *flow).ok());
        if let Some(at) = at {
            self.0[at].1 = true;
        }
        at.is_some()
    }

    /// One that nobody waits for.
    fn left(&self) -> Option<u16> {
        let left = self.0.iter().find(|(_, is_awaited)| !is_awaited);
        left.map(|(flow, _)| *flow)
    }
}

/// How many bytes of data arrived.
fn bytes_of(arrival: &Arrival) -> u64 {
    let goods = arrival.flows.iter().filter_map(|(_, goods)| goods.as_ref());
    goods.map(|goods| goods.body.length() as u64).sum()
}

/// The edges of a task that ran elsewhere.
struct Received<'r, 'a, S: TaskSpace> {
    run: &'r Run<'a, S>,
    flows: CameFlows,
    /// Those of them that end here.
    list: &'r mut EdgeList<S>,
}

impl<S: TaskSpace> Successors<S> for Received<'_, '_, S> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        if self.run.space.rank(target) == self.run.rank && self.flows.await_one(flow) {
            self.list.push((flow, target, target_flow));
        }
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}
