//! Trace: the trace of a run, if the executor has a tracer. What a worker notes is in its
//! [visit](super::drive::Visit).

use super::guard::buried;
use crate::port::{Executor, Line};
use crate::rank::Rank;
use crate::space::{Asked, TaskName, TaskSpace};
use crate::trace::{Mailed, Named, TracedRun, Track, is_wide};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Begins to record a run of so many tasks on this rank, if the executor wants it.
pub(super) fn open(n_tasks: u64, on: &dyn Executor) -> Option<Arc<TracedRun>> {
    let (tracer, rank) = (on.tracer()?, on.courier().rank());
    let opened = tracer.open(rank, on.n_workers(), Some(n_tasks))?;
    Some(Arc::new(opened))
}

/// The same of a run across ranks, whose line this is.
pub(super) fn open_across(
    n_tasks: u64,
    on: &dyn Executor,
    line: &dyn Line,
) -> Option<Arc<TracedRun>> {
    let (tracer, rank) = (on.tracer()?, on.courier().rank());
    let opened = tracer.open(rank, on.n_workers(), Some(n_tasks))?;
    Some(Arc::new(opened.across(line.number())))
}

/// Who notes what leaves and comes in a run over ranks, if the executor wants it recorded.
pub(super) fn mailed<S: TaskSpace>(space: &S, on: &dyn Executor) -> Option<Mailed> {
    let tracer = on.tracer().filter(|tracer| tracer.is_on())?;
    Some(Mailed::new(tracer, space.spelling()))
}

/// What was noted of messages goes with the rest.
pub(super) fn add(opened: &Option<Arc<TracedRun>>, noted: Option<Track>) {
    if let (Some(opened), Some(track)) = (opened, noted) {
        opened.add(track);
    }
}

/// The run is over: what was noted becomes a trace. `rank` is the one that the space was asked for.
pub(super) fn close<S: TaskSpace>(opened: Option<Arc<TracedRun>>, space: &S, rank: Rank) {
    if let Some(opened) = opened {
        // A space that panics when it is asked has no trace.
        let closed = AssertUnwindSafe(|| close_asked::<S::Task>(&opened, space, rank));
        if let Err(panic) = catch_unwind(closed) {
            buried(panic);
        }
    }
}

fn close_asked<T: TaskName>(opened: &TracedRun, space: &dyn Asked<T>, rank: Rank) {
    let named = Named::of(space, rank, opened.any(is_wide));
    opened.close(named.told(), &mut |task, hear| named.inputs(task, hear));
}
