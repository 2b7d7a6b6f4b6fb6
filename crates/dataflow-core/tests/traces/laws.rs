//! Traces of random graphs, whatever becomes of their runs.

use super::*;

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
            // What panicked is in the trace and not done; what failed or was skipped is done.
            let undone = trace.explanation().undone as usize;
            let panicked = usize::from(trouble == Trouble::Panics);
            prop_assert_eq!(trace.slices().count() + undone, tasks.len() + panicked);
            prop_assert!(trouble != Trouble::Fails || undone == 0);
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
        prop_assert_eq!(trace.ranks[0].undone, n - done);
    }
}
