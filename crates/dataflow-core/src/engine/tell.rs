//! Tell: optional hints to the executor of tasks, beyond their priority.
//!
//! Only of spaces whose edges carry data: the tasks of others take some nanoseconds, and their loop
//! holds no trace of this.

use super::drive::Visit;
use super::hand::Hand;
use super::{Run, Slots};
use crate::data::{Datum, Store};
use crate::port::{Hint, Wants, most_bytes};
use crate::space::{HomeInputs, Mode, TaskName, TaskSpace};
use smallvec::SmallVec;

/// By which flow a datum comes, on which NUMA node it lies, and its bytes.
type InputPlace = (usize, Option<usize>, u64);

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Whether the lane wants to be told of these tasks.
    #[inline(always)]
    pub(super) fn tells(visit: &Visit<'_, Hand<S>>) -> bool {
        Self::CARRIES && visit.wants > Wants::Priorities
    }

    /// Where the inputs of a task lie: those in `slots`, and those at home. Of equally large ones that of the
    /// first flow counts, wherever it comes from.
    pub(super) fn hint(&self, task: S::Task, slots: &Slots<S::Datum>) -> Hint {
        let input = |flow, datum: &S::Datum| (flow, datum.numa_node(), datum.bytes() as u64);
        let arrived = slots.iter().enumerate();
        let arrived = arrived.filter_map(|(flow, slot)| Some(input(flow, slot.as_deref()?)));
        let mut inputs: SmallVec<[InputPlace; 8]> = arrived.collect();
        let mut look = |flow, store: &Store<S::Datum>, index| {
            inputs.extend(store.peek(index, |datum| input(flow, datum)));
        };
        self.space.inputs(task, &mut HomeInputs(&mut look));
        inputs.sort_by_key(|(flow, ..)| *flow);
        let class = || self.description.classes().get(task.class());
        let makes = || class().is_some_and(|class| class.flows.iter().any(|f| f.mode == Mode::New));
        let reads = inputs.iter().any(|&(.., bytes)| bytes > 0);
        let placed = inputs.iter();
        match most_bytes(placed.filter_map(|&(_, node, bytes)| Some((node?, bytes)))) {
            Some(node) => Hint::Node(node),
            None if !reads && makes() => Hint::Initialises,
            None => Hint::None,
        }
    }

    /// Queues those of the roots in hand that have a priority, or belong elsewhere; all, if any has a
    /// priority: of those the most urgent is found in the queues.
    pub(super) fn place_roots(&self, visit: &mut Visit<'_, Hand<S>>) {
        let roots = &visit.hand.roots;
        let ranked = roots.iter().any(|&root| self.space.priority(root) != 0);
        if !ranked && !Self::tells(visit) {
            return;
        }
        let roots = std::mem::take(&mut visit.hand.roots);
        for root in roots.into_iter().rev() {
            let mut hint = Hint::None;
            if Self::tells(visit) {
                hint = self.hint(root, &Slots::new());
            }
            match ranked || visit.lane.goes_elsewhere(hint) {
                true => self.share((root, false), (self.space.priority(root), hint), visit),
                false => visit.hand.roots.push(root),
            }
        }
        visit.hand.roots.reverse();
    }

    /// Tells what the task that is about to run reads, and from where.
    pub(super) fn tell_reads(&self, visit: &mut Visit<'_, Hand<S>>) {
        for datum in visit.hand.slots.iter().flatten() {
            if let Some(node) = datum.numa_node() {
                visit.hand.read.read(visit.lane, node, datum.bytes() as u64);
            }
        }
    }
}
