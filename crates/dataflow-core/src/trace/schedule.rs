//! Schedule: who ran which task when, in a run that no engine made.

use super::{Named, RankTrace, Slice, Span, Trace, is_wide, number};
use crate::rank::Rank;
use crate::space::{TaskName, TaskSpace};

/// A run on one rank, as a simulation has computed it or a person has written it down.
///
/// # Examples
/// Two tasks on two workers, half a microsecond each.
/// ```
/// use dataflow_core::space::Independent;
/// use dataflow_core::trace::{Schedule, Span};
/// let space = Independent::new("tasks", 2, |_| Ok(()));
/// let mut schedule = Schedule::new(2);
/// schedule.ran(0, 0_u64, Span { begin: 0, end: 500 }, false);
/// schedule.ran(1, 1_u64, Span { begin: 0, end: 500 }, true);
/// let trace = schedule.trace(&space);
/// assert_eq!((trace.length(), trace.slices().count()), (500, 2));
/// assert_eq!(trace.explanation().limits.area, 500);
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    workers: Vec<Vec<Slice>>,
}

impl Schedule {
    /// Of so many workers, none of which has done anything yet.
    pub fn new(n_workers: usize) -> Self {
        Schedule {
            workers: vec![Vec::new(); n_workers],
        }
    }

    /// A worker ran a task, perhaps from another's queue.
    ///
    /// # Panics
    /// If there is no such worker.
    #[track_caller]
    pub fn ran<T: TaskName>(&mut self, worker: usize, task: T, span: Span, stolen: bool) {
        self.workers[worker].push(Slice {
            task: number(task),
            span,
            class: task.class() as u16,
            stolen,
            ..Slice::default()
        });
    }

    /// The trace that such a run would have left; the space says which tasks feed which.
    ///
    /// Costs n·log n for n tasks and edges.
    ///
    /// # Panics
    /// If a worker beyond the first 65,536 ran a task.
    pub fn trace<S: TaskSpace>(mut self, space: &S) -> Trace {
        for slices in &mut self.workers {
            slices.sort_by_key(|slice| slice.span);
        }
        let slices = || self.workers.iter().flatten();
        let end = slices().map(|slice| slice.span.end).max().unwrap_or(0);
        let some_are_wide = slices().any(|slice| is_wide(slice.task));
        let named = Named::<S::Task>::of(space, Rank(0), some_are_wide);
        let told = named.told();
        let visits: Vec<_> = self
            .workers
            .iter()
            .map(|slices| stretches(slices))
            .collect();
        let mut rank = RankTrace::new(Rank(0), Span { begin: 0, end }, self.workers);
        for (worker, visits) in rank.workers.iter_mut().zip(visits) {
            worker.visits = visits;
        }
        let rank = rank.with_inputs(|_, slice| {
            let mut inputs = Vec::new();
            named.inputs(slice.task, &mut |task, rank| inputs.push((task, rank)));
            inputs
        });
        Trace::of_ranks(vec![Trace {
            name: told.name,
            parameters: told.parameters,
            classes: told.classes,
            ranks: vec![RankTrace {
                wide: told.wide,
                ..rank
            }],
            text: Some(told.text),
            ..Trace::default()
        }])
    }
}

/// From when to when a worker ran one task after the other: between them it was idle, since a schedule
/// tells no time of the runtime.
fn stretches(slices: &[Slice]) -> Vec<Span> {
    let mut stretches: Vec<Span> = Vec::new();
    for Slice { span, .. } in slices {
        match stretches.last_mut() {
            Some(last) if span.begin <= last.end => last.end = last.end.max(span.end),
            _ => stretches.push(*span),
        }
    }
    stretches
}
