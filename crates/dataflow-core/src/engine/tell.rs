//! Tell: optional hints to the executor of tasks, beyond their priority.
//!
//! Only of spaces whose edges carry data: the tasks of others take some nanoseconds, and their loop
//! holds no trace of this.

use super::drive::Visit;
use super::hand::Hand;
use super::{Run, Slots};
use crate::data::{Datum, Store};
use crate::port::{Hint, Wants, most_bytes};
use crate::space::{HomeInputs, TaskName, TaskSpace};
use smallvec::SmallVec;

/// By which flow a datum comes, on which NUMA node it lies, and its bytes.
type InputPlace = (usize, Option<usize>, u64);

/// Where the inputs of a task lie. Knows no datum, so it is compiled once.
#[derive(Default)]
struct InputPlaces(SmallVec<[InputPlace; 8]>);

impl InputPlaces {
    fn put<D: Datum>(&mut self, flow: usize, datum: &D) {
        let (node, bytes) = (datum.numa_node(), datum.bytes() as u64);
        self.note((flow, node, bytes));
    }

    fn note(&mut self, place: InputPlace) {
        self.0.push(place);
    }

    /// The node where most bytes lie; of equally many that of the first flow, wherever it comes from.
    fn node(&mut self) -> Option<usize> {
        self.0.sort_by_key(|(flow, ..)| *flow);
        let placed = self.0.iter();
        most_bytes(placed.filter_map(|&(_, node, bytes)| Some((node?, bytes))))
    }

    fn have_bytes(&self) -> bool {
        self.0.iter().any(|&(.., bytes)| bytes > 0)
    }
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Whether the lane wants to be told of these tasks.
    #[inline(always)]
    pub(super) fn tells(visit: &Visit<'_, Hand<S>>) -> bool {
        Self::CARRIES && visit.wants > Wants::Priorities
    }

    /// Where the inputs of a task lie: those in `slots`, and those at home.
    pub(super) fn hint(&self, task: S::Task, slots: &Slots<S::Datum>) -> Hint {
        let mut inputs = InputPlaces::default();
        for (flow, slot) in slots.iter().enumerate() {
            if let Some(datum) = slot {
                inputs.put(flow, &**datum);
            }
        }
        let mut look = |flow, store: &Store<S::Datum>, index| {
            store.peek(index, |datum| inputs.put(flow, datum));
        };
        self.space.inputs(task, &mut HomeInputs(&mut look));
        match inputs.node() {
            Some(node) => Hint::Node(node),
            None if !inputs.have_bytes() && self.description.makes(task.class()) => {
                Hint::Initialises
            }
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
