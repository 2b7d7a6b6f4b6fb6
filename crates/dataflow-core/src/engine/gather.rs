//! Gather: the data of a task that is about to run, from where they arrived and from home.
//!
//! # Law
//! What a task updates is its own: if others hold it, too, it is copied, and the copy is counted.

use super::drive::Visit;
use super::hand::Hand;
use super::{ReadyTask, Run, Slots};
use crate::data::Store;
use crate::error::Kind;
use crate::space::{Flow, HomeInputs, Mode, TaskName, TaskSpace};
use crate::words::counted;

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Fills the flows that come from home and makes what is updated the task's own.
    pub(super) fn gather(
        &self,
        ready: ReadyTask<S>,
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Option<&[Flow]> {
        let (task, poisoned) = ready;
        let Hand { slots, homes, .. } = &mut visit.hand;
        let flows = self.flows_of(task, slots)?;
        if self.abroad.is_some() {
            self.begin_use(slots);
        }
        if slots.len() < flows.len() {
            slots.resize_with(flows.len(), || None);
        }
        let slots = &mut slots[..flows.len()];
        let mut complete = true;
        let mut take = |flow: usize, store: &Store<S::Datum>, index| {
            let mode = flows.get(flow).map(|flow| flow.mode);
            let version = match mode {
                Some(Mode::Update) => {
                    homes.lent += 1;
                    store.take_in(index, self.number)
                }
                _ => store.get(index),
            };
            match (version, slots.get_mut(flow)) {
                (Some(version), Some(slot @ None)) => *slot = Some(version),
                (_, slot) => {
                    complete = false;
                    let is_fed = slot.map(|slot| slot.is_some());
                    self.not_from_home((task, flow), is_fed, store, index);
                }
            }
        };
        self.space.inputs(task, &mut HomeInputs(&mut take));
        if !complete {
            return None;
        }
        homes.spoilt |= poisoned;
        self.make_sole(ready, flows, visit)?;
        Some(flows)
    }

    /// The flows of a task as its class describes them, unless it was fed through others.
    fn flows_of(&self, task: S::Task, slots: &Slots<S::Datum>) -> Option<&[Flow]> {
        let class = task.class();
        let Some(class_of) = self.description.classes().get(class) else {
            let text = format!("{task:?} is of class {class}, which the space does not describe");
            self.fail(Kind::NotDescribed, Some(task), text);
            return None;
        };
        let flows = &class_of.flows[..];
        if slots.iter().skip(flows.len()).any(Option::is_some) {
            let text = format!("{task:?} was fed through a flow that its class does not describe");
            self.fail(Kind::NotDescribed, Some(task), text);
            return None;
        }
        Some(flows)
    }

    /// Makes what a task updates its own; `None` if it lacks an input.
    fn make_sole(
        &self,
        (task, poisoned): ReadyTask<S>,
        flows: &[Flow],
        visit: &mut Visit<'_, Hand<S>>,
    ) -> Option<()> {
        for (flow, slot) in flows.iter().zip(&mut *visit.hand.slots) {
            match (flow.mode, slot) {
                (Mode::Update, Some(version)) if !poisoned => {
                    let copied = version.make_sole();
                    if copied {
                        self.copies.note(task.class());
                        if let Some(track) = &mut visit.track {
                            track.copied();
                        }
                    }
                }
                (Mode::Read | Mode::Update, None) if !poisoned => {
                    let text = format!("flow {} of {task:?} was not fed with a datum", flow.name);
                    self.fail(Kind::FlowEmpty, Some(task), text);
                    return None;
                }
                _ => {}
            }
        }
        Some(())
    }

    /// What came from other ranks makes room for more when a task begins to use it.
    fn begin_use(&self, slots: &Slots<S::Datum>) {
        let used: u64 = slots.iter().flatten().map(|slot| slot.begin_use()).sum();
        if used > 0 {
            self.common.ledger.note_used(used);
        }
    }

    /// A flow does not get what it should from home: there is no such flow, it has been fed, or home is
    /// empty.
    #[cold]
    fn not_from_home(
        &self,
        (task, flow): (S::Task, usize),
        is_fed: Option<bool>,
        store: &Store<S::Datum>,
        index: usize,
    ) {
        let class = task.class();
        match is_fed {
            None => {
                let flows = self.description.classes().get(class);
                self.not_described(task, flow, flows.map_or(0, |class| class.flows.len()));
            }
            Some(true) => {
                let flow = self.description.flow_name(class, flow);
                let text = format!("{flow} of {task:?} is fed twice, once from home");
                self.fail(Kind::FedTwice, Some(task), text);
            }
            Some(false) => self.home_empty(task, flow, store, index),
        }
    }

    #[cold]
    fn home_empty(&self, task: S::Task, flow: usize, store: &Store<S::Datum>, index: usize) {
        let owner = self.space.owner(task, flow);
        let flow = self.description.flow_name(task.class(), flow);
        let (name, length) = (store.name(), store.len());
        let why = match index < length {
            true if owner != self.rank => {
                format!("which lies on {owner}: let a task there give it, and an edge carry it")
            }
            true => self.why_empty(task, store, index),
            false => "which does not exist".into(),
        };
        let text = format!(
            "{flow} of {task:?} is to come from slot {index} of {name} ({}), {why}",
            counted(length, "slot")
        );
        self.fail(Kind::HomeEmpty, Some(task), text);
    }
}
