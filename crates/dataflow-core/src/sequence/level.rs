//! Levels: the counts of a scope, and the scope in one of whose bodies it runs, if any.

use crate::engine::{Ledger, depth, open_trace};
use crate::port::Executor;
use crate::space::Spelling;
use crate::sync::{AtomicU64, Ordering};
use crate::trace::{TaskNumber, Told, TracedRun};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The counts of a run, and the run in one of whose bodies it goes on, if any.
pub struct Level {
    pub ledger: Arc<Ledger>,
    pub outer: Option<Arc<Level>>,
    /// In how many scopes and recursions it is nested.
    pub depth: usize,
    /// The worker in one of whose bodies it goes on, if it is recorded.
    pub offered_by: usize,
    /// Tasks that ran inside of bodies.
    nested: AtomicU64,
    /// Where workers note what they do, if the executor has a tracer.
    pub opened: Option<Arc<TracedRun>>,
    /// The number of the first task in traces.
    pub first: TaskNumber,
}

/// In numbers of traces, above the number of a task stands that of its scope.
const SCOPE: u32 = 40;

/// So many scopes have a number: the highest bit is set in numbers of [wide names](crate::trace). The tasks
/// of those beyond are not recorded, but counted as missing.
const SCOPES: u64 = 1 << (63 - SCOPE);

impl Level {
    /// A run of its own, be it in the body of a task of another.
    pub fn outermost(on: &dyn Executor) -> Arc<Self> {
        let opened = open_trace(None, on).map(Arc::new);
        Self::new(on.n_workers(), None, depth() + 1, 0, opened)
    }

    /// A run inside a body of another, which that worker runs.
    pub fn within(n_workers: usize, outer: &Arc<Level>, worker: usize) -> Arc<Self> {
        let (depth, opened) = (outer.depth + 1, outer.opened.clone());
        Self::new(n_workers, Some(outer.clone()), depth, worker, opened)
    }

    fn new(
        n_workers: usize,
        outer: Option<Arc<Level>>,
        depth: usize,
        offered_by: usize,
        opened: Option<Arc<TracedRun>>,
    ) -> Arc<Self> {
        let is_nested = outer.is_some();
        let numbered = opened.and_then(|opened| {
            let scope = if is_nested { opened.next_scope() } else { 0 };
            (scope < SCOPES).then_some((scope, opened))
        });
        let (scope, opened) = numbered.unzip();
        Arc::new(Level {
            ledger: Arc::new(Ledger::new(n_workers, 0, false)),
            outer,
            depth,
            offered_by,
            nested: AtomicU64::new(0),
            opened,
            first: scope.unwrap_or(0) << SCOPE,
        })
    }

    /// The outermost run is over: what was noted becomes a trace.
    pub fn close_trace(&self) {
        let Some(opened) = &self.opened else { return };
        let told = Told {
            name: "sequence".to_string(),
            parameters: Vec::new(),
            classes: Vec::new(),
            text: Spelling::of_numbers(|task| match (task >> SCOPE, task & ((1 << SCOPE) - 1)) {
                (0, number) => number.to_string(),
                (scope, number) => format!("{number} in scope {scope}"),
            }),
            wide: BTreeMap::new(),
        };
        opened.close(told, &mut |_, _| {});
    }

    /// Whether it shall end, for its own sake or with the run that it is inside of.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        let outer_is = |outer: &Arc<Level>| {
            let stopped = outer.is_stopped();
            if stopped {
                self.ledger.stop();
            }
            stopped
        };
        self.ledger.is_stopped() || self.outer.as_ref().is_some_and(outer_is)
    }

    /// A run inside a body is over.
    pub fn count_nested(&self, inner: &Level) {
        let tasks = inner.tasks();
        self.nested.fetch_add(tasks, Ordering::Relaxed);
        if let (Some(opened), None) = (&self.opened, &inner.opened) {
            opened.leave_out(tasks);
        }
    }

    /// How many tasks ran, those inside of bodies too; exact when nobody is inside.
    pub fn tasks(&self) -> u64 {
        self.ledger.executed() + self.nested.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::port::{Context, Inline};
    use crate::trace::{Tracer, is_wide};

    /// Scope 2²⁴ had the numbers of the outermost one, and tasks had the links of others.
    #[test]
    fn a_scope_beyond_the_last_number_is_not_recorded_and_its_tasks_are_missing() {
        let tracer = Tracer::new(1 << 20);
        let outer = Level::outermost(&Context::new(&Inline).traced_by(&tracer));
        let opened = outer.opened.clone().unwrap();
        (1..SCOPES - 1).for_each(|_| _ = opened.next_scope());
        let [last, beyond] = [(); 2].map(|()| Level::within(1, &outer, 0));
        assert_eq!(last.first, (SCOPES - 1) << SCOPE);
        assert!(last.opened.is_some() && !is_wide(last.first));
        assert!(beyond.opened.is_none() && Level::within(1, &beyond, 0).opened.is_none());
        beyond.nested.store(3, Ordering::Relaxed);
        outer.count_nested(&beyond);
        outer.count_nested(&last);
        outer.close_trace();
        assert_eq!(tracer.take()[0].ranks[0].missing, 3);
    }
}
