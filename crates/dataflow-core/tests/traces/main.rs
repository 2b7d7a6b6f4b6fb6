//! What every trace of a run must keep, whatever the space, the executor, the ranks and the end.

mod failing;
mod laws;
mod messages;
mod recursions;
mod room;
mod sequences;
mod shown;

#[path = "../specimen/layered.rs"]
#[allow(dead_code, reason = "what outcomes must be is tested elsewhere")]
mod layered;
#[path = "../specimen/mod.rs"]
mod specimen;

use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Context, Executor, Inline, Job, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::recursion::{Call, Recursive, recurse};
use dataflow_core::sequence::record::record;
use dataflow_core::sequence::{Scope, read, scope, scope_inside, write};
use dataflow_core::space::Independent;
use dataflow_core::trace::{
    Activity, At, Came, Cause, Clock, Doing, Fate, Message, Posted, RankTrace, Slice, Span, Trace,
    Tracer,
};
use dataflow_core::{Report, run, run_across};
use layered::{Layered, graphs};
use proptest::prelude::*;
use specimen::cholesky::Task;
use specimen::ranks::on_ranks;
use specimen::{Cholesky, Mutant, Mutation, Specimen, Twist};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

/// Bytes of records.
const ROOM: usize = if cfg!(miri) { 1 << 16 } else { 1 << 22 };
/// Records in a chunk of room, which one worker fills.
const CHUNK: usize = if cfg!(miri) { 64 } else { 2048 };

/// Sizes; few and small under Miri, where every law that is looked at costs seconds.
mod sizes {
    /// Workers; 0: inline.
    pub const THREADS: &[usize] = if cfg!(miri) { &[2] } else { &[0, 1, 2, 3] };
    pub const GRIDS: &[(u32, u32)] = match cfg!(miri) {
        true => &[(2, 1)],
        false => &[(1, 2), (2, 2), (2, 3)],
    };
    /// Tiles a side, over ranks and on one.
    pub const TILES: u32 = if cfg!(miri) { 4 } else { 7 };
    pub const STEPS: u64 = if cfg!(miri) { 4 } else { 50 };
    /// Things, of subsets.
    pub const N: u64 = if cfg!(miri) { 4 } else { 8 };
}

/// A run with its trace.
fn traced<S: TaskSpace>(space: &S, on: &dyn Executor) -> (Result<Report, Error>, Trace) {
    let tracer = Tracer::new(ROOM);
    let result = run(space, &Context::new(on).traced_by(&tracer));
    let mut traces = tracer.take();
    assert_eq!(traces.len(), 1, "one run, one trace");
    assert!(result.is_err() || traces[0].ranks[0].undone == 0);
    (result, traces.remove(0))
}

/// What holds of each trace.
fn keeps_the_laws(trace: &Trace) {
    for (rank, of) in trace.ranks.iter().enumerate() {
        for (index, worker) in of.workers.iter().enumerate() {
            let slices = &of.slices[worker.slices.clone()];
            for pair in slices.windows(2) {
                let [first, second] = [pair[0].span, pair[1].span];
                // One after the other, or one inside of the other.
                assert!(
                    first.end <= second.begin || second.end <= first.end,
                    "{pair:?}"
                );
            }
            for slice in slices {
                assert!(slice.span.begin <= slice.span.end && slice.ready <= slice.span.begin);
                let is_inside = |visit: &dataflow_core::trace::Span| {
                    visit.begin <= slice.span.begin && slice.span.end <= visit.end
                };
                assert!(worker.visits.iter().any(is_inside), "{slice:?} {worker:?}");
            }
            sums_up(&trace.activities(rank, index), trace.length());
        }
    }
    for message in trace.messages() {
        goes_its_way(message);
    }
    for (at, slice) in trace.slices() {
        for input in trace.inputs(at) {
            let source = trace.slice(input);
            assert!(
                source.span.end <= slice.span.begin,
                "{source:?} feeds {slice:?}"
            );
        }
    }
    let limits = trace.limits();
    assert!(
        limits.area <= trace.length() && limits.path <= trace.length(),
        "{limits:?}"
    );
    let told = trace.explanation();
    let parts: f64 = told.shares.iter().map(|share| share.part).sum();
    assert!((parts - 1.0).abs() < 1e-9 || trace.length() == 0, "{parts}");
    assert!(
        !told.verdict().is_empty() && told.efficiency <= 1.0,
        "{told}"
    );
    assert_eq!(told.backwards, (0, 0), "{told}");
}

/// The stamps of a message follow one another; of those of both ends, by one clock, the sender hears that
/// it has left when it likes.
fn goes_its_way(message: &Message) {
    let Span { begin, end } = message.span;
    assert!(begin <= end, "{message:?}");
    assert!(message.left.is_none_or(|left| begin <= left), "{message:?}");
    let there = message.there.expect("every run notes when something came");
    assert!(begin <= there && there <= end, "{message:?}");
    let stamps = [message.heard, message.asked].into_iter().flatten();
    assert!(stamps.chain([there]).is_sorted(), "{message:?}");
    let parts = message.under_way().length() + message.lying().length();
    assert_eq!(parts, message.span.length());
}

/// Activities follow one another and fill the time.
fn sums_up(activities: &[Activity], length: u64) {
    let mut now = 0;
    for activity in activities {
        assert_eq!(activity.span.begin, now, "{activities:?}");
        now = activity.span.end;
    }
    assert_eq!(now, length);
}

fn executor(threads: usize, seed: u64) -> Box<dyn Executor> {
    match threads {
        0 => Box::new(Inline),
        n => Box::new(Shuffled::new(seed).with_threads(n)),
    }
}

/// The slices that ended so, by name.
fn with_fate(trace: &Trace, fate: Fate) -> Vec<String> {
    let slices = trace.slices().filter(|(_, slice)| slice.fate == fate);
    slices.map(|(at, _)| trace.shown(at)).collect()
}

/// What a sequence leaves.
fn traced_scope<'env>(
    on: &dyn Executor,
    program: impl for<'c> FnOnce(&Scope<'c, 'env>) + Send,
) -> (Result<Report, Error>, Trace) {
    let tracer = Tracer::new(ROOM);
    let result = scope(&Context::new(on).traced_by(&tracer), program);
    let mut traces = tracer.take();
    assert_eq!(traces.len(), 1);
    assert!(result.is_err() || traces[0].ranks[0].undone == 0);
    (result.map(|(_, report)| report), traces.remove(0))
}

/// A clock that goes on when it is told to, and a tracer by it.
fn given_time() -> (Arc<AtomicU64>, Tracer) {
    let now = Arc::new(AtomicU64::new(0));
    let clock = now.clone();
    let clock = Clock::given(move || clock.load(Ordering::Relaxed));
    (now, Tracer::with_clock(ROOM, clock))
}
