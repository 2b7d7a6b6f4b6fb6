//! Traces of sequences and recorded programs.

use super::*;

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
        assert_eq!(trace.ranks[0].undone, if panics { 2 } else { 0 });
        keeps_the_laws(&trace);
    }
}

#[test]
fn children_that_were_not_done_count_with_the_tasks_of_their_parents_scope() {
    let (result, trace) = traced_scope(&Inline, |s| {
        let data = s.handle([0_u64; 5]);
        for _ in 0..3 {
            s.name("parent").nested(write(&data), |children, data| {
                let number = children.lend(&mut data[0]);
                for _ in 0..5 {
                    children.name("child").task(write(&number), |number| {
                        assert!(*number != 1, "out of luck");
                        *number += 1;
                    });
                }
            });
        }
    });
    assert_eq!(result.unwrap_err().kind(), Kind::TaskPanicked);
    assert_eq!(with_fate(&trace, Fate::Ran), ["child 0 in scope 1"]);
    assert_eq!(trace.ranks[0].undone, 4 + 2);
}

/// They are counted once in 64: ten were not known.
#[test]
fn all_tasks_are_known_that_a_program_had_inserted_when_it_panicked() {
    let (result, trace) = traced_scope(&Inline, |s| {
        (0..74).for_each(|_| s.task((), |()| ()));
        panic!("the program");
    });
    assert_eq!(result.unwrap_err().kind(), Kind::TaskPanicked);
    let told = (trace.slices().count(), trace.ranks[0].undone);
    assert_eq!(told, (0, 74));
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
        assert_eq!((trace.slices().count(), trace.ranks[0].undone), (40, 0));
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
