//! Trace: the trace of a run, if the executor has a tracer. What a worker notes is in its
//! [visit](super::drive::Visit).

use super::guard::is_inside;
use crate::foreign::caught;
use crate::port::Executor;
use crate::rank::Rank;
use crate::space::{NamedSpace, TaskName, TaskSpace};
use crate::trace::{Mailed, Named, TracedRun, Track, is_wide};
use std::sync::Arc;

/// Begins to record a run on this rank, of so many tasks if that is known; if the executor wants it. What a
/// body runs inside is a part of that body.
pub(crate) fn open_trace(n_tasks: Option<u64>, on: &dyn Executor) -> Option<TracedRun> {
    let tracer = on.tracer().filter(|_| !is_inside())?;
    tracer.open(on.courier().rank(), on.n_workers(), n_tasks)
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
        caught(|| close_asked::<S::Task>(&opened, space, rank)).ok();
    }
}

fn close_asked<T: TaskName>(opened: &TracedRun, space: &dyn NamedSpace<T>, rank: Rank) {
    let named = Named::of(space, rank, opened.any(is_wide));
    opened.close(named.told(), &mut |task, hear| named.inputs(task, hear));
}
