//! What every trace of a run must keep, whatever the space, the executor, the ranks and the end.

#[path = "specimen/layered.rs"]
#[allow(dead_code, reason = "what outcomes must be is tested elsewhere")]
mod layered;
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

#[test]
fn messages_that_came_before_they_were_posted_are_told() {
    let told = |clock_error| {
        let span = Span {
            begin: 0,
            end: 1_000,
        };
        let mut parts = [0, 1].map(|rank| RankTrace::new(Rank(rank), span, Vec::new()));
        for (task, at, there) in [(7, 500, 450), (8, 600, 620)] {
            let (bytes, from, to, left) = (8, Rank(0), Rank(1), None);
            parts[0].posted.push(Posted {
                task,
                at,
                to,
                bytes,
                left,
            });
            let there = Some(there);
            let came = Came {
                task,
                at: 700,
                from,
                bytes,
                there,
                ..Came::default()
            };
            parts[1].came.push(came);
        }
        let parts = parts.map(|part| {
            let mut trace = Trace::new("two", ["Task"], vec![part]);
            trace.clock_error = clock_error;
            trace
        });
        Trace::of_ranks(parts.into()).explanation()
    };
    // The errors of two ranks add up.
    let wrong = told(24);
    assert_eq!(wrong.backwards, (1, 50), "{wrong}");
    assert!(
        wrong
            .to_string()
            .contains("Messages that seem to come before they were posted: 1, by up to 50 ns")
    );
    assert_eq!(told(25).backwards, (0, 0));
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 100 }))]

    #[test]
    fn a_trace_has_each_task_once_and_its_edges_go_forwards(
        graph in graphs(), seed: u64, threads in 0..4usize,
    ) {
        let on = executor(threads, seed);
        let (plain, recorded) = (Layered::new(&graph), Layered::new(&graph));
        run(&plain, &*on).unwrap();
        let (report, trace) = traced(&recorded, &*on);
        let report = report.unwrap();
        // Traced changes no bit.
        prop_assert_eq!(plain.outcome(), recorded.outcome());
        keeps_the_laws(&trace);
        prop_assert_eq!(trace.slices().count() as u64, report.tasks);
        let workers = trace.ranks[0].workers.iter();
        let by_worker: Vec<u64> = workers.map(|worker| worker.slices.len() as u64).collect();
        prop_assert_eq!(by_worker, report.tasks_by_worker.clone());
        let copied = trace.slices().filter(|(_, slice)| slice.copied).count() as u64;
        prop_assert!(copied <= report.copies() && (copied > 0) == (report.copies() > 0));
        let numbers: BTreeSet<_> = trace.slices().map(|(_, slice)| slice.task).collect();
        prop_assert_eq!(numbers.len(), graph.nodes.len(), "each task has a number of its own");
        let shown: BTreeSet<_> = trace.slices().map(|(at, _)| trace.shown(at)).collect();
        prop_assert_eq!(shown.len(), graph.nodes.len(), "and a name, wide ones too");
        let fed = |flow: &(layered::Kind, layered::From)| matches!(flow.1, layered::From::Task(..));
        let edges: usize = graph.nodes.iter().map(|node| node.flows.iter().filter(|flow| fed(flow)).count()).sum();
        let found: usize = trace.slices().map(|(at, _)| trace.inputs(at).count()).sum();
        prop_assert_eq!(found, edges);
    }
}

#[test]
fn a_trace_over_ranks_has_every_task_and_an_arrow_for_each_parcel() {
    for &(p, q) in sizes::GRIDS {
        for seed in 0..if cfg!(miri) { 1 } else { 10 } {
            let (parts, crossed) = on_ranks(p * q, (seed, 2), |courier| {
                let tracer = Tracer::new(ROOM);
                let on = Shuffled::new(seed).with_threads(1 + (seed % 2) as usize);
                let space = Cholesky::new(sizes::TILES, (p, q));
                let on = Context::new(&on).across(courier).traced_by(&tracer);
                let report = run_across(&space, &on).unwrap();
                let trace = tracer.take().remove(0);
                assert_eq!(trace.slices().count() as u64, report.tasks);
                trace
            });
            let mut parts = parts.into_iter();
            let first = parts.next().unwrap();
            let others: Vec<Vec<u8>> = parts.map(|part| part.to_bytes()).collect();
            let others: Vec<&[u8]> = others.iter().map(|part| &part[..]).collect();
            let trace = first.joined(others).unwrap();
            keeps_the_laws(&trace);
            assert_eq!(
                trace.slices().count() as u64,
                Cholesky::n_tasks(sizes::TILES.into())
            );
            // Broadcasts go through others: who gets it is the same, and so is how much.
            let told = trace.messages().iter();
            let mut told: Vec<_> = told.map(|message| message.to as u32).collect();
            let mut sent: Vec<_> = crossed.parcels.iter().map(|(_, to, _)| to.0).collect();
            told.sort_unstable();
            sent.sort_unstable();
            assert_eq!(told, sent, "{p} x {q}, seed {seed}");
            // What goes straight to its receiver is told to have left.
            let left = trace
                .messages()
                .iter()
                .filter(|message| message.left.is_some());
            let most = trace.messages().len();
            let left = left.count();
            assert!(
                0 < left && left <= most && (p * q > 2 || left == most),
                "{left} of {most}"
            );
            let bytes: u64 = trace.messages().iter().map(|message| message.bytes).sum();
            assert_eq!(bytes, crossed.bytes);
            // Potrf { k } is fed by one, Trsm by one or two, and so on: as many as in one's own run.
            let alone = traced(&Cholesky::new(sizes::TILES, (1, 1)), &Inline).1;
            let edges = |trace: &Trace| -> usize {
                trace.slices().map(|(at, _)| trace.inputs(at).count()).sum()
            };
            assert_eq!(edges(&trace), edges(&alone));
        }
    }
}

#[test]
fn bytes_that_are_no_trace_are_refused() {
    let trace = traced(&Cholesky::new(4, (1, 1)), &Inline).1;
    let bytes = trace.to_bytes();
    const STRIDE: usize = if cfg!(miri) { 50 } else { 1 };
    for length in (0..bytes.len()).step_by(STRIDE) {
        assert!(
            trace.clone().joined([&bytes[..length]]).is_err(),
            "{length} of {}",
            bytes.len()
        );
    }
    for at in (0..bytes.len()).step_by(STRIDE) {
        let mut other = bytes.clone();
        other[at] ^= 0xff;
        // Whatever it says now, nothing panics.
        if let Ok(joined) = trace.clone().joined([&other[..]]) {
            _ = joined.limits();
        }
    }
}

/// The slices that ended so, by name.
fn with_fate(trace: &Trace, fate: Fate) -> Vec<String> {
    let slices = trace.slices().filter(|(_, slice)| slice.fate == fate);
    slices.map(|(at, _)| trace.shown(at)).collect()
}

#[test]
fn a_run_that_failed_leaves_its_trace_with_the_failed_task_marked() {
    for panics in [false, true] {
        let failing = Task::Trsm { m: 3, k: 1 };
        let space = Cholesky::new(sizes::TILES, (1, 1)).failing(failing, panics);
        let (result, trace) = traced(&space, &Shuffled::new(1).with_threads(2));
        let kind = result.unwrap_err().kind();
        assert_eq!(kind == Kind::TaskPanicked, panics);
        assert_eq!(with_fate(&trace, Fate::Failed), ["Trsm { m: 3, k: 1 }"]);
        assert_eq!(with_fate(&trace, Fate::Skipped).is_empty(), panics);
        keeps_the_laws(&trace);
    }
}

/// How a run across ranks goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Fails,
    Panics,
    /// A task does not hand on what it should: others wait for ever.
    Stalls,
}

/// Runs it on every rank, and joins what they have recorded; `None` if some has nothing.
fn gone_wrong(
    (trouble, task): (Trouble, Task),
    (p, q): (u32, u32),
    (seed, threads): (u64, usize),
) -> Option<(Vec<Kind>, Trace)> {
    let (told, _) = on_ranks(p * q, (seed, 2), |courier| {
        let tracer = Tracer::new(ROOM);
        let on = executor(threads, seed);
        let on = Context::new(&*on).across(courier).traced_by(&tracer);
        let space = Cholesky::new(sizes::TILES, (p, q));
        let result = match trouble {
            Trouble::Stalls => {
                let mutation = Mutation::Output(task, 0, Twist::Removed);
                run_across(&Mutant::new(&space, &mutation), &on)
            }
            _ => run_across(&space.failing(task, trouble == Trouble::Panics), &on),
        };
        let kind = result.expect_err("it goes wrong").kind();
        (kind, tracer.take().pop())
    });
    let (kinds, parts): (Vec<_>, Vec<_>) = told.into_iter().unzip();
    let mut parts = parts.into_iter().collect::<Option<Vec<_>>>()?.into_iter();
    let first = parts.next()?;
    let others: Vec<Vec<u8>> = parts.map(|part| part.to_bytes()).collect();
    Some((
        kinds,
        first.joined(others.iter().map(Vec::as_slice)).unwrap(),
    ))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 60 }))]

    /// Failed, panicked and stalled runs on one to six ranks: what was recorded keeps every law, and the
    /// task at fault is marked, alone.
    #[test]
    fn a_run_that_goes_wrong_leaves_a_trace_that_keeps_the_laws(
        trouble in prop::sample::select(vec![Trouble::Fails, Trouble::Panics, Trouble::Stalls]),
        at: prop::sample::Index, seed: u64, threads in 0..4usize,
        grid in prop::sample::select([&[(1, 1)], sizes::GRIDS].concat()),
    ) {
        let space = Cholesky::new(sizes::TILES, (1, 1));
        let tasks: Vec<Task> = space.tasks(Rank(0)).collect();
        let task = *at.get(&tasks);
        if let Some((kinds, trace)) = gone_wrong((trouble, task), grid, (seed, threads)) {
            keeps_the_laws(&trace);
            let at_fault = with_fate(&trace, Fate::Failed);
            match trouble {
                Trouble::Stalls => prop_assert!(at_fault.is_empty(), "{kinds:?}"),
                _ => prop_assert_eq!(at_fault, [format!("{task:?}")], "{:?}", kinds),
            }
            prop_assert!(trace.slices().count() <= tasks.len());
        }
    }

    /// A body cancels the run, whichever it is and whoever runs it.
    #[test]
    fn a_run_that_is_cancelled_by_a_body_leaves_a_trace_that_keeps_the_laws(
        n in 1..300u64, at: prop::sample::Index, seed: u64, threads in 0..4usize,
    ) {
        let (tracer, monitor) = (Tracer::new(ROOM), Monitor::new());
        let at = at.index(n as usize) as u64;
        let space = dataflow_core::space::Independent::new("some", n, |task| {
            if task == at {
                monitor.cancel();
            }
            Ok(())
        });
        let on = executor(threads, seed);
        let on = Context::new(&*on).traced_by(&tracer).watched_by(&monitor);
        let ran = run(&space, &on);
        let trace = tracer.take().remove(0);
        keeps_the_laws(&trace);
        let done = trace.slices().filter(|(_, slice)| slice.fate == Fate::Ran).count() as u64;
        match ran {
            Ok(report) => prop_assert_eq!(done, report.tasks),
            Err(error) => prop_assert!(error.kind() == Kind::Cancelled && done >= 1),
        }
    }
}

/// Simulated time begins at 0, which was taken for "no task runs".
#[test]
fn a_body_that_panics_in_the_first_moment_is_in_the_trace_however_the_program_was_written() {
    struct Panics;
    impl Recursive for Panics {
        type Argument = ();
        type Value = ();

        fn call(&self, (): ()) -> Result<Call<Self>, TaskError> {
            panic!("out of luck")
        }
    }
    fn unlucky((): ()) {
        panic!("out of luck")
    }
    let tracer = Tracer::with_clock(ROOM, Clock::given(|| 0));
    let on = Context::new(&Inline).traced_by(&tracer);
    let space = Independent::new("panics", 1, |_| panic!("out of luck"));
    let recorded = record::<u64>("panics", 1, |r| r.task((), unlucky));
    let ended = [
        run(&space, &on).map(|_| ()),
        scope(&on, |s| s.task((), unlucky)).map(|_| ()),
        recorded.unwrap().run(&on).map(|_| ()),
        recurse(&Panics, (), &on).map(|_| ()),
    ];
    for result in ended {
        assert_eq!(result.unwrap_err().kind(), Kind::TaskPanicked);
    }
    for trace in tracer.take() {
        let fates: Vec<_> = trace.slices().map(|(_, slice)| slice.fate).collect();
        assert_eq!(fates, [Fate::Failed], "{}", trace.name);
    }
}

#[test]
fn a_run_that_was_cancelled_leaves_its_trace() {
    let (tracer, monitor) = (Tracer::new(ROOM), Monitor::new());
    monitor.cancel();
    let on = Context::new(&Inline)
        .traced_by(&tracer)
        .watched_by(&monitor);
    let result = run(&Cholesky::new(sizes::TILES, (1, 1)), &on);
    assert_eq!(result.unwrap_err().kind(), Kind::Cancelled);
    let trace = tracer.take().remove(0);
    assert_eq!(trace.slices().count(), 0);
    assert_eq!(trace.explanation().verdict(), "No task ran.");
}

/// The one worker was busy all the time: that the policy keeps tasks apart, and that most of the run came after
/// the last task, was the verdict on what it had noted.
#[test]
fn what_does_not_fit_is_counted_and_blames_nobody() {
    // One chunk of room.
    let tracer = Tracer::new(32 * CHUNK);
    let n = 2 * CHUNK + 904;
    let nothing = dataflow_core::space::Independent::new("many", n as u64, |_| Ok(()));
    run(&nothing, &Context::new(&Inline).traced_by(&tracer)).unwrap();
    let trace = tracer.take().remove(0);
    assert_eq!(
        trace.slices().count() as u64 + trace.ranks[0].missing,
        n as u64
    );
    assert_eq!(trace.slices().count(), CHUNK);
    keeps_the_laws(&trace);
    let told = trace.explanation();
    let missing = format!("Only a part was recorded ({} notes missing). ", n - CHUNK);
    assert!(told.verdict().starts_with(&missing), "{told}");
    assert!(!told.verdict().contains("after it came"), "{told}");
    assert_eq!(told.part(Cause::Policy.shown()), 0.0, "{told}");
    // The room is there again for the next.
    run(
        &Cholesky::new(3, (1, 1)),
        &Context::new(&Inline).traced_by(&tracer),
    )
    .unwrap();
    assert_eq!(tracer.take()[0].ranks[0].missing, 0);
}

/// Some runs of a space that panics when it is asked for names left every later trace without room.
#[test]
fn a_run_without_a_trace_leaves_its_room_to_the_next() {
    dataflow_core::task_names! { enum Wide { B { i, j, k } } }
    /// Lists its task until that has run.
    #[derive(Default)]
    struct Forgetful(AtomicBool);
    impl TaskSpace for Forgetful {
        type Task = Wide;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("forgetful").class("B");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = Wide> + Send {
            assert!(!self.0.load(Ordering::Relaxed), "asked again");
            std::iter::once(Wide::B {
                i: u32::MAX,
                j: u32::MAX,
                k: u32::MAX,
            })
        }
        fn inputs(&self, _: Wide, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: Wide, _: &mut impl Successors<Self>) {}
        fn run(&self, _: Wide, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            self.0.store(true, Ordering::Relaxed);
            Ok(())
        }
    }
    // One chunk of room.
    let tracer = Tracer::new(32 * CHUNK);
    let on = Context::new(&Inline).traced_by(&tracer);
    run(&Forgetful::default(), &on).unwrap();
    assert!(tracer.take().is_empty(), "it had a trace");
    run(&Cholesky::new(3, (1, 1)), &on).unwrap();
    assert_eq!(tracer.take()[0].ranks[0].missing, 0);
}

#[test]
fn a_tracer_that_is_off_leaves_nothing() {
    let tracer = Tracer::new(ROOM);
    tracer.set_on(false);
    run(
        &Cholesky::new(3, (1, 1)),
        &Context::new(&Inline).traced_by(&tracer),
    )
    .unwrap();
    assert!(tracer.take().is_empty());
    tracer.set_on(true);
    run(
        &Cholesky::new(3, (1, 1)),
        &Context::new(&Inline).traced_by(&tracer),
    )
    .unwrap();
    assert_eq!(tracer.take().len(), 1);
}

/// A rank whose few tasks hand tiles on was slow, since each took thirteen times as long as elsewhere:
/// microseconds, while the other rank had all the work.
#[test]
fn a_rank_with_little_to_do_is_not_slow() {
    let slice = |task: u64, class, begin, length| Slice {
        task,
        class,
        span: Span {
            begin,
            end: begin + length,
        },
        ..Slice::default()
    };
    let span = Span {
        begin: 0,
        end: 1001,
    };
    let gemms = (0..10).map(|task| slice(task, 0, 100 * task, 100));
    let busy = gemms.chain([slice(10, 1, 1000, 1)]).collect();
    let idle = (11..15).map(|task| slice(task, 1, 13 * (task - 11), 13));
    let ranks = vec![
        RankTrace::new(Rank(0), span, vec![busy]),
        RankTrace::new(Rank(1), span, vec![idle.collect()]),
    ];
    let told = Trace::new("a bad grid", ["Gemm", "Give"], ranks).explanation();
    let begins = "The work is spread unevenly: rank 0 has ";
    assert!(told.verdict().starts_with(begins), "{told}");
}

/// The parent alone bounded the run: by 40, the time of all that its children do on one worker.
#[test]
fn what_nested_tasks_take_is_no_time_of_their_parents() {
    let slice = |task: u64, class, begin, end| Slice {
        task,
        class,
        span: Span { begin, end },
        ..Slice::default()
    };
    let children = (1..=4).map(|task| slice(task, 1, 10 * (task - 1), 10 * task));
    let nested = std::iter::once(slice(0, 0, 0, 40))
        .chain(children)
        .collect();
    let span = Span { begin: 0, end: 40 };
    let rank = RankTrace::new(Rank(0), span, vec![nested, Vec::new()]);
    let told = Trace::new("nested", ["Parent", "Child"], vec![rank]).explanation();
    assert_eq!((told.limits.area, told.limits.path), (20, 10), "{told}");
    assert_eq!(told.efficiency, 0.5);
    assert_eq!(told.chains[0], (10, told.chains[0].1.clone()));
    assert!(told.chains[0].1.starts_with("Child"), "{told}");
    assert!(!told.verdict().contains("Parent"), "{told}");
}

/// Rank 0 was slow, sixty times, beside tasks that took no time since they were skipped.
#[test]
fn tasks_that_were_skipped_make_no_other_rank_slow() {
    let slice = |task: u64, length, fate| Slice {
        task,
        span: Span {
            begin: 60 * task,
            end: 60 * task + length,
        },
        fate,
        ..Slice::default()
    };
    let ran = (0..10).map(|task| slice(task, 60, Fate::Ran));
    let skipped = (10..16).map(|task| slice(task, 1, Fate::Skipped));
    let span = Span {
        begin: 0,
        end: 1000,
    };
    let ranks = vec![
        RankTrace::new(Rank(0), span, vec![ran.collect()]),
        RankTrace::new(Rank(1), span, vec![skipped.collect()]),
    ];
    let told = Trace::new("failed", ["Task"], ranks).explanation();
    assert!(!told.verdict().contains("is slow"), "{told}");
}

/// What a rank does not wait for since it has not begun was hidden, nine tenths of it.
#[test]
fn only_bodies_hide_what_is_under_way() {
    let slice = |task: u64, begin, end| Slice {
        task,
        span: Span { begin, end },
        ..Slice::default()
    };
    let hidden = |first_visit, bodies: &[(u64, u64)]| {
        let span = Span { begin: 0, end: 120 };
        let mut source = RankTrace::new(Rank(0), span, vec![vec![slice(0, 0, 10)]]);
        source.posted.push(Posted {
            task: 0,
            at: 10,
            to: Rank(1),
            bytes: 8,
            left: None,
        });
        let bodies = bodies.iter().zip(1..);
        let bodies = bodies.map(|(&(begin, end), task)| slice(task, begin, end));
        let mut target = RankTrace::new(Rank(1), span, vec![bodies.collect()]);
        target.workers[0].visits[0].begin = first_visit;
        target.came.push(Came {
            task: 0,
            at: 110,
            from: Rank(0),
            bytes: 8,
            there: Some(110),
            ..Came::default()
        });
        Trace::new("two", ["Task"], vec![source, target])
            .explanation()
            .hidden
    };
    assert_eq!(hidden(100, &[(110, 120)]), Some(0.0));
    assert_eq!(hidden(0, &[(0, 60), (80, 120)]), Some(0.8));
    assert_eq!(hidden(0, &[(0, 120)]), Some(1.0));
}

/// The name of a task is asked of the space, which lists it: this one does not.
#[test]
fn a_task_that_ran_though_no_one_lists_it_is_shown_by_its_number() {
    dataflow_core::task_names! { enum Named { A { i }, B { i, j, k } } }
    const WIDE: Named = Named::B {
        i: u32::MAX,
        j: 0,
        k: 0,
    };
    struct Unlisted;
    impl TaskSpace for Unlisted {
        type Task = Named;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("unlisted").class("A").order("OUT");
            about.class("B").order("IN");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = Named> + Send {
            std::iter::once(Named::A { i: 0 })
        }
        fn inputs(&self, task: Named, from: &mut impl Inputs<Self>) {
            if task == WIDE {
                from.task(0, Named::A { i: 0 }, 0);
            }
        }
        fn successors(&self, task: Named, to: &mut impl Successors<Self>) {
            if task != WIDE {
                to.task(0, WIDE, 0);
            }
        }
        fn run(&self, _: Named, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let (result, trace) = traced(&Unlisted, &Inline);
    assert_eq!(result.unwrap_err().kind(), Kind::CountExceeded);
    keeps_the_laws(&trace);
    let (at, slice) = trace.slices().last().unwrap();
    assert_eq!(trace.shown(at), format!("B {}", slice.task));
    assert!(trace.parameters_of(at).is_empty());
    assert_eq!(trace.slices().count(), 2);
}

#[test]
fn the_last_input_is_the_one_that_was_there_last() {
    let (_, trace) = traced(&Cholesky::new(sizes::TILES, (1, 1)), &Shuffled::new(7));
    for (at, slice) in trace.slices() {
        let ends = trace.inputs(at).map(|input| trace.slice(input).span.end);
        let last = trace
            .last_input(at)
            .map(|input: At| trace.slice(input).span.end);
        assert_eq!(last, ends.max());
        assert!(last.is_none_or(|last| last == slice.ready));
    }
}

#[test]
fn a_worker_alone_is_never_idle_between_tasks_that_wait() {
    let (_, trace) = traced(&Cholesky::new(sizes::TILES, (1, 1)), &Inline);
    let first = trace.slices().next().unwrap().1.span.begin;
    let last = trace.ranks[0].slices.last().unwrap().span.end;
    for activity in trace.activities(0, 0) {
        let between = activity.span.begin >= first && activity.span.end <= last;
        let idle = matches!(
            activity.doing,
            Doing::Idle(Cause::Policy | Cause::DataUnderWay)
        );
        assert!(!(between && idle), "{activity:?}");
    }
}

#[test]
fn spaces_show_their_tasks_and_iterations() {
    let (_, trace) = traced(&Cholesky::new(3, (1, 1)).fresh(), &Inline);
    assert_eq!(trace.name, "cholesky shape");
    assert_eq!(trace.parameters, [("nt".to_string(), "3".to_string())]);
    let first = trace.slices().next().unwrap().0;
    assert_eq!(
        (trace.shown(first), trace.iteration(first)),
        ("Potrf { k: 0 }".into(), Some(0))
    );
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
    (result.map(|(_, report)| report), traces.remove(0))
}

#[test]
fn a_sequence_leaves_its_tasks_by_name_and_who_made_each_ready() {
    for &threads in sizes::THREADS {
        let (mut sums, on) = ([0_u64; 4], executor(threads, 3));
        let (report, trace) = traced_scope(&*on, |s| {
            let handles = s.handles(&mut sums);
            for step in 0..sizes::STEPS {
                for handle in &handles {
                    s.name("add").task(write(handle), move |sum| **sum += step);
                }
            }
            s.name("look")
                .task((read(&handles[0]), read(&handles[3])), |_| ());
        });
        let report = report.unwrap();
        keeps_the_laws(&trace);
        let n = 4 * sizes::STEPS + 1;
        assert_eq!((trace.slices().count() as u64, report.tasks), (n, n));
        assert_eq!(sums, [(0..sizes::STEPS).sum(); 4]);
        let mut classes = trace.classes.clone();
        classes.sort_unstable();
        assert_eq!(classes, ["add", "look"]);
        let look = trace
            .slices()
            .find(|(_, slice)| trace.class(slice) == "look")
            .unwrap();
        let n = 4 * sizes::STEPS;
        assert_eq!(trace.shown(look.0), format!("look {n}"));
        // Whoever ended last before it, if it had to wait at all.
        if let Some(last) = trace.last_input(look.0) {
            let of_last_step = [n - 4, n - 1].map(|number| format!("add {number}"));
            assert!(of_last_step.contains(&trace.shown(last)));
        }
    }
}

#[test]
fn nested_tasks_are_slices_of_their_own_inside_of_their_parents() {
    for &threads in sizes::THREADS {
        let (mut data, on) = (vec![0_u64; 64], executor(threads, 5));
        let (report, trace) = traced_scope(&*on, |s| {
            let whole = s.handle(&mut data);
            for _ in 0..3 {
                s.name("parent").nested(write(&whole), |children, data| {
                    for piece in data.chunks_mut(16) {
                        let piece = children.handle(piece);
                        children
                            .name("child")
                            .task(write(&piece), |piece| piece[0] += 1);
                    }
                });
            }
        });
        assert_eq!(report.unwrap().tasks, 15);
        // `Shuffled` runs what is inside on other threads of the same numbers.
        if threads < 2 {
            keeps_the_laws(&trace);
        }
        let named = |name: &str| {
            trace
                .slices()
                .filter(|(_, slice)| trace.class(slice) == name)
                .count()
        };
        assert_eq!(named("parent"), 3, "{threads}");
        assert_eq!(named("child"), 12, "{threads}");
    }
}

/// Two workers, each of which runs alone what is inside of its bodies: what an executor does by default.
struct Alone;

impl Executor for Alone {
    fn n_workers(&self) -> usize {
        2
    }
    fn execute(&self, job: &Arc<Job>) {
        Shuffled::new(1).with_threads(2).execute(job);
    }
}

/// They were slices of worker 0, whoever ran them, and what that worker noted later was lost.
#[test]
fn nested_tasks_that_a_worker_runs_alone_are_slices_of_that_worker() {
    const STEPS: usize = 3;
    let both = Barrier::new(2);
    let mut data = [0_u64; 2];
    let (report, trace) = traced_scope(&Alone, |s| {
        let [one, other] = data.each_mut().map(|datum| s.lend(datum));
        for _ in 0..STEPS {
            for datum in [&one, &other] {
                s.name("parent").nested(write(datum), |children, datum| {
                    both.wait();
                    let datum = children.lend(datum);
                    children.name("child").task(write(&datum), |datum| {
                        both.wait();
                        *datum += 1;
                    });
                });
            }
        }
    });
    assert_eq!(report.unwrap().tasks, 4 * STEPS as u64);
    keeps_the_laws(&trace);
    for worker in 0..2 {
        let own = trace.slices().filter(|(_, slice)| slice.worker == worker);
        let mut names: Vec<_> = own.map(|(_, slice)| trace.class(slice)).collect();
        names.sort_unstable();
        assert_eq!(names, [["child"; STEPS], ["parent"; STEPS]].concat());
    }
}

#[test]
fn a_sequence_that_fails_leaves_its_trace() {
    for panics in [false, true] {
        let mut sum = 0_u64;
        let (result, trace) = traced_scope(&Inline, |s| {
            let handle = s.handle(&mut sum);
            for step in 0..5 {
                s.name("add")
                    .task(write(&handle), move |sum| -> Result<(), String> {
                        **sum += 1;
                        match step {
                            3 if panics => panic!("three"),
                            3 => Err("three".to_string()),
                            _ => Ok(()),
                        }
                    });
            }
        });
        assert!(result.is_err());
        assert_eq!(with_fate(&trace, Fate::Failed), ["add 3"]);
        assert_eq!(with_fate(&trace, Fate::Ran).len(), 3);
        keeps_the_laws(&trace);
    }
}

#[test]
fn a_replay_leaves_its_tasks_and_for_whom_each_waited() {
    let store = Store::new("sums", (0..4).map(specimen::Number));
    let program = record("sums", 1, |r| {
        let data: Vec<_> = (0..4).map(|i| r.home(&store, i, Rank(0))).collect();
        for _ in 0..10 {
            for datum in &data {
                r.name("add").task(write(datum), |sum| sum.0 += 1);
            }
        }
    })
    .unwrap();
    for &threads in sizes::THREADS {
        let tracer = Tracer::new(ROOM);
        let on = executor(threads, 1);
        program.run(&Context::new(&*on).traced_by(&tracer)).unwrap();
        let trace = tracer.take().remove(0);
        keeps_the_laws(&trace);
        assert_eq!(trace.slices().count(), 40);
        assert_eq!(trace.classes, ["add"]);
        let edges: usize = trace.slices().map(|(at, _)| trace.inputs(at).count()).sum();
        assert_eq!(edges, 36, "four chains of ten");
    }
}

/// The slots were empty still.
#[test]
fn whoever_hears_of_a_replay_finds_its_data_at_home() {
    let store = Arc::new(Store::new("sums", [specimen::Number(1)]));
    let program = record("sums", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        r.task(write(&home), |sum| sum.0 += 1);
    })
    .unwrap();
    let heard = Arc::new(AtomicU64::new(0));
    let (there, tells) = (store.clone(), heard.clone());
    let tracer = Tracer::new(ROOM).telling(move |_| {
        let found = there.get(0).map_or(u64::MAX, |sum| sum.0);
        tells.store(found, Ordering::Relaxed);
    });
    program
        .run(&Context::new(&Inline).traced_by(&tracer))
        .unwrap();
    assert_eq!(heard.load(Ordering::Relaxed), 2);
}

/// They were numbered together with the tasks that fetch data, which do not run in place.
#[test]
fn a_replay_s_trace_numbers_tasks_as_its_errors_do() {
    let store = Store::new("sums", (0..2).map(specimen::Number));
    for panics in [false, true] {
        let program = record("sums", 1, |r| {
            let [a, b] = [0, 1].map(|i| r.home(&store, i, Rank(0)));
            r.name("copy")
                .task((read(&b), write(&a)), |(b, a)| a.0 = b.0);
            for number in 1..5 {
                r.name("add").task(write(&a), move |sum| match number {
                    3 if panics => panic!("out of luck"),
                    3 => Err("as told"),
                    _ => {
                        sum.0 += 1;
                        Ok(())
                    }
                });
            }
        })
        .unwrap();
        let tracer = Tracer::new(ROOM);
        let error = program.run(&Context::new(&Inline).traced_by(&tracer));
        assert_eq!(error.unwrap_err().task(), Some("add 3"));
        let trace = tracer.take().remove(0);
        keeps_the_laws(&trace);
        assert_eq!(with_fate(&trace, Fate::Failed), ["add 3"]);
        let fed = |(at, _)| trace.inputs(at).map(move |source| (source, at));
        let edges = trace.slices().flat_map(fed);
        let edges = edges.map(|(source, at)| (trace.shown(source), trace.shown(at)));
        let edges: Vec<_> = edges.collect();
        let names = ["copy 0", "add 1", "add 2", "add 3", "add 4"];
        let n_ended = if panics { 4 } else { 5 };
        let expected = names[..n_ended].windows(2);
        let expected: Vec<_> = expected
            .map(|pair| (pair[0].into(), pair[1].into()))
            .collect();
        assert_eq!(edges, expected);
    }
}

#[test]
fn a_recorded_program_shows_no_fingerprints() {
    let store = Store::new("sums", [specimen::Number(0)]);
    let program = record("sums", 1, |r| {
        let sum = r.home(&store, 0, Rank(0));
        r.name("add").task(write(&sum), |sum| sum.0 += 1);
    });
    let (_, trace) = traced(&program.unwrap(), &Inline);
    let parameters = trace.parameters.iter().map(|(name, _)| &name[..]);
    assert_eq!(parameters.collect::<Vec<_>>(), ["ranks", "tasks"]);
}

/// Subsets of n things.
struct Subsets;

impl Recursive for Subsets {
    type Argument = u64;
    type Value = u64;
    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        Ok(Call::fork(0..n, |values| {
            1 + values.into_iter().sum::<u64>()
        }))
    }
}

#[test]
fn a_recursion_leaves_its_calls() {
    for &threads in sizes::THREADS {
        let tracer = Tracer::new(ROOM);
        let on = executor(threads, 1);
        let (value, report) =
            recurse(&Subsets, sizes::N, &Context::new(&*on).traced_by(&tracer)).unwrap();
        let n = 1 << sizes::N;
        assert_eq!((value, report.tasks), (n, n));
        let trace = tracer.take().remove(0);
        keeps_the_laws(&trace);
        let calls = trace
            .slices()
            .filter(|(_, slice)| trace.class(slice) == "call");
        assert_eq!(calls.count() as u64, n);
        let numbers: BTreeSet<_> = trace.slices().map(|(_, slice)| slice.task).collect();
        assert_eq!(numbers.len(), trace.slices().count());
    }
}

/// Halves, until there are single ones: a call takes a nanosecond, a join ten.
struct Halves(Arc<AtomicU64>);

impl Recursive for Halves {
    type Argument = u64;
    type Value = u64;
    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if n == 1 {
            return Ok(Call::Done(1));
        }
        let now = self.0.clone();
        Ok(Call::fork([n / 2, n - n / 2], move |values| {
            now.fetch_add(10, Ordering::Relaxed);
            values.iter().sum()
        }))
    }
}

/// Joins counted as idleness, and calls as ready from the beginning.
#[test]
fn joins_are_bodies_and_calls_are_ready_when_they_are_forked_into() {
    let (now, tracer) = given_time();
    let on = Context::new(&Inline).traced_by(&tracer);
    let (value, _) = recurse(&Halves(now), 8, &on).unwrap();
    assert_eq!(value, 8);
    let trace = tracer.take().remove(0);
    keeps_the_laws(&trace);
    let told = trace.explanation();
    let time = |name: &str| {
        let share = told.shares.iter().find(|share| share.name == name);
        share.map_or(0, |share| share.time)
    };
    assert_eq!((time("call"), time("join")), (15, 70), "{told}");
    assert_eq!(told.in_bodies(), 1.0, "{told}");
    for (at, slice) in trace.slices() {
        let before = trace.last_input(at).map(|input| trace.slice(input));
        let ready = before.map_or(0, |before| before.span.end);
        assert_eq!(slice.ready, ready, "{}", trace.shown(at));
        let is_outermost = trace.shown(at) == "call 0 of worker 0";
        assert_eq!(before.is_none(), is_outermost, "{}", trace.shown(at));
    }
    // The ways to the last call and from it: three forks, itself, three joins.
    assert_eq!(told.limits.path, 4 + 30);
}

#[test]
fn a_join_that_panics_is_marked() {
    struct Panics;
    impl Recursive for Panics {
        type Argument = u64;
        type Value = ();
        fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
            Ok(match n {
                0 => Call::Done(()),
                n => Call::fork([n - 1], |_| panic!("out of luck")),
            })
        }
    }
    let (_, tracer) = given_time();
    let on = Context::new(&Inline).traced_by(&tracer);
    let failed = recurse(&Panics, 2, &on).map(|_| ()).unwrap_err();
    assert_eq!(failed.kind(), Kind::TaskPanicked);
    let trace = tracer.take().remove(0);
    assert_eq!(with_fate(&trace, Fate::Failed), ["join 2 of worker 0"]);
    assert_eq!(with_fate(&trace, Fate::Ran).len(), 3);
}

/// A clock that goes on when it is told to, and a tracer by it.
fn given_time() -> (Arc<AtomicU64>, Tracer) {
    let now = Arc::new(AtomicU64::new(0));
    let clock = now.clone();
    let clock = Clock::given(move || clock.load(Ordering::Relaxed));
    (now, Tracer::with_clock(ROOM, clock))
}

#[test]
fn what_a_body_runs_inside_is_a_part_of_it() {
    let tracer = Tracer::new(ROOM);
    let on = Context::new(&Inline).traced_by(&tracer);
    let space = Independent::new("outer", 3, |_| {
        let mut sum = 0_u64;
        scope_inside(&on, |s| {
            let handle = s.handle(&mut sum);
            (0..5).for_each(|_| s.task(write(&handle), |sum| **sum += 1));
        })?;
        recurse(&Subsets, 3, &on)?;
        Ok(())
    });
    run(&space, &on).unwrap();
    let traces = tracer.take();
    assert_eq!((traces.len(), traces[0].slices().count()), (1, 3));
}

/// The scope, replay or recursion panicked in its caller's face, and its result was lost; of a space nobody
/// was told.
#[test]
fn who_hears_of_traces_may_panic_and_the_run_has_its_result() {
    struct One;
    impl Recursive for One {
        type Argument = u64;
        type Value = u64;
        fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
            Ok(Call::Done(n))
        }
    }
    let heard = Arc::new(AtomicU64::new(0));
    let hears = heard.clone();
    let tracer = Tracer::new(1 << 16).telling(move |_| {
        hears.fetch_add(1, Ordering::SeqCst);
        panic!("who hears");
    });
    let on = Context::new(&Inline).traced_by(&tracer);
    let store = Store::new("numbers", [1u64]);
    let program = record("one", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        r.task(write(&home), |n| *n += 1);
    });
    let (seven, _) = scope(&on, |s| {
        s.task((), |()| ());
        7
    })
    .unwrap();
    let (five, _) = recurse(&One, 5, &on).unwrap();
    program.unwrap().run(&on).unwrap();
    run(&Independent::new("one", 1, |_| Ok(())), &on).unwrap();
    assert_eq!((seven, five, heard.load(Ordering::SeqCst)), (7, 5, 4));
}

/// Its class was asked for outside of the guard when its body had panicked, for the trace: the panic went
/// on through `run`.
#[test]
fn a_name_that_panics_after_its_body_has_ends_in_an_error() {
    static BROKEN: AtomicBool = AtomicBool::new(false);
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct Brittle;
    impl TaskName for Brittle {
        fn class(self) -> usize {
            assert!(!BROKEN.load(Ordering::SeqCst), "no class");
            0
        }
        fn pack(self) -> Option<u64> {
            Some(0)
        }
        fn unpack(_: u64) -> Self {
            Brittle
        }
    }
    struct Breaks;
    impl TaskSpace for Breaks {
        type Task = Brittle;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("breaks").class("Task");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = Brittle> + Send {
            std::iter::once(Brittle)
        }
        fn inputs(&self, _: Brittle, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: Brittle, _: &mut impl Successors<Self>) {}
        fn run(&self, _: Brittle, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            BROKEN.store(true, Ordering::SeqCst);
            panic!("the body");
        }
    }
    for threads in [0, 2] {
        BROKEN.store(false, Ordering::SeqCst);
        let (executor, tracer) = (executor(threads, 1), Tracer::new(ROOM));
        let on = Context::new(&*executor).traced_by(&tracer);
        let error = run(&Breaks, &on).unwrap_err();
        let told = (error.kind(), error.message());
        let text = "panicked: no class, after: the body";
        assert_eq!(told, (Kind::TaskPanicked, text));
    }
}
