//! Activate: one input reaches a task; the last one makes it ready.
//!
//! The in-degree is asked of the space at each arrival: it costs a formula, and nothing has to
//! be announced before. A task with a single input is ready at once and never touches a table.

use super::dense::Counted;
use super::pending::{Arrival, Arrived, Awaited, Poisoned};
use super::{Ready, Run, Slots, slots};
use crate::data::Version;
use crate::error::Kind;
use crate::space::{Expected, TaskName, TaskSpace};

impl<'a, S: TaskSpace, R: Iterator<Item = S::Task> + Send> Run<'a, S, R> {
    /// Brings one input to `task`. Returns it if it is ready now.
    #[inline(always)]
    pub(super) fn activate(
        &self,
        source: S::Task,
        task: S::Task,
        flow: usize,
        datum: Option<Version<S::Datum>>,
        poisoned: Poisoned,
    ) -> Option<Ready<S>> {
        let expected = Expected::of(self.space, task, flow);
        if !expected.named || expected.doubled {
            self.not_expected(source, task, flow);
            return None;
        }
        if expected.count == 1 {
            let mut arrived = Slots::new();
            if Self::CARRIES {
                slots::set(&mut arrived, flow, datum);
            }
            return Some(Ready {
                task,
                slots: arrived,
                poisoned,
            });
        }
        if !Self::CARRIES
            && !expected.wide
            && let Some(index) = self.space.index(task)
        {
            return match self.dense.arrive(index, flow, expected.mask, poisoned) {
                Counted::StillWaiting => None,
                Counted::Ready(poisoned) => Some(Ready {
                    task,
                    slots: Slots::new(),
                    poisoned,
                }),
                Counted::FedTwice => self.fed_twice(source, task, flow),
            };
        }
        let awaited = if expected.wide {
            Awaited::Many(expected.count)
        } else {
            Awaited::Few(expected.mask)
        };
        let key = self.names.key(task);
        match self.pending.arrive(
            Arrival {
                key,
                flow,
                datum,
                poisoned,
            },
            awaited,
        ) {
            Arrived::StillWaiting => None,
            Arrived::Ready(slots, poisoned) => {
                self.names.forget(key);
                Some(Ready {
                    task,
                    slots,
                    poisoned,
                })
            }
            Arrived::FedTwice => self.fed_twice(source, task, flow),
        }
    }

    #[cold]
    fn not_expected(&self, source: S::Task, task: S::Task, flow: usize) {
        let flow = self.description.flow_name(task.class(), flow);
        let text = format!(
            "{source:?} feeds {flow} of {task:?}, which does not name exactly one task as its source"
        );
        self.fail(Kind::NotExpected, Some(task), text);
    }

    #[cold]
    fn fed_twice(&self, source: S::Task, task: S::Task, flow: usize) -> Option<Ready<S>> {
        let flow = self.description.flow_name(task.class(), flow);
        let text = format!("{source:?} feeds {flow} of {task:?}, which had been fed before");
        self.fail(Kind::FedTwice, Some(task), text);
        None
    }
}
