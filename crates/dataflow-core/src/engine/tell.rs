//! Tell: optional hints to the executor of tasks, beyond their priority.
//!
//! Only of spaces whose edges carry data: the tasks of others take some nanoseconds, and their loop
//! holds no trace of this.

use super::run::At;
use super::{Run, Slots};
use crate::data::{Datum, Store};
use crate::port::{Hint, Wants, most_bytes};
use crate::space::{HomeInputs, Mode, TaskName, TaskSpace};
use smallvec::SmallVec;

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Whether the lane wants to be told of these tasks.
    #[inline(always)]
    pub(super) fn tells(seat: &At<'_, S>) -> bool {
        Self::CARRIES && seat.wants > Wants::Priorities
    }

    /// Where the inputs of a task lie: those in `slots`, and those at home.
    pub(super) fn hint(&self, task: S::Task, slots: &Slots<S::Datum>) -> Hint {
        let piece = |datum: &S::Datum| Some((datum.numa_node()?, datum.bytes() as u64));
        let arrived = slots.iter().flatten();
        let mut pieces: SmallVec<[(usize, u64); 8]> =
            arrived.filter_map(|version| piece(version)).collect();
        let mut look = |_, store: &Store<S::Datum>, index| {
            pieces.extend(store.peek(index, piece).flatten());
        };
        self.space.inputs(task, &mut HomeInputs(&mut look));
        let class = || self.description.classes().get(task.class());
        let makes = || class().is_some_and(|class| class.flows.iter().any(|f| f.mode == Mode::New));
        match most_bytes(pieces) {
            Some(node) => Hint::Node(node),
            None if makes() => Hint::Initialises,
            None => Hint::None,
        }
    }

    /// Queues those of the roots in hand that have a priority, or belong elsewhere; all, if any has a
    /// priority: of those the most urgent is found in the queues.
    pub(super) fn place_roots(&self, seat: &mut At<'_, S>) {
        let roots = &seat.hand.roots;
        let ranked = roots.iter().any(|&root| self.space.priority(root) != 0);
        if !ranked && !Self::tells(seat) {
            return;
        }
        let roots = std::mem::take(&mut seat.hand.roots);
        for root in roots.into_iter().rev() {
            let mut hint = Hint::None;
            if Self::tells(seat) {
                hint = self.hint(root, &Slots::new());
            }
            match ranked || seat.lane.goes_elsewhere(hint) {
                true => self.queue((root, false), (self.space.priority(root), hint), seat),
                false => seat.hand.roots.push(root),
            }
        }
        seat.hand.roots.reverse();
    }

    /// Tells what the task that is about to run reads, and from where.
    pub(super) fn tell_reads(&self, seat: &mut At<'_, S>) {
        for datum in seat.hand.slots.iter().flatten() {
            if let Some(node) = datum.numa_node() {
                seat.hand.read.read(seat.lane, node, datum.bytes() as u64);
            }
        }
    }
}
