//! Runs that fail, panic or are cancelled leave their trace.

use super::*;

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
    let n = Cholesky::new(sizes::TILES, (1, 1)).tasks(Rank(0)).count();
    let expected = format!("The run ended before {n} of its tasks were done. No task ran.");
    assert_eq!(trace.explanation().verdict(), expected);
}

/// Forks into so many calls, of which one panics.
struct ForksInto(u64);

impl Recursive for ForksInto {
    type Argument = Option<u64>;
    type Value = ();

    fn call(&self, number: Option<u64>) -> Result<Call<Self>, TaskError> {
        Ok(match number {
            None => Call::fork((0..self.0).map(Some), |_| ()),
            Some(3) => panic!("out of luck"),
            Some(_) => Call::Done(()),
        })
    }
}

/// The page of such a run looked as if that had done all its work.
#[test]
fn a_run_that_panicked_says_how_many_tasks_were_not_done_however_the_program_was_written() {
    fn unlucky_at_three(number: &mut u64) {
        assert!(*number != 3, "out of luck");
        *number += 1;
    }
    let tracer = Tracer::new(ROOM);
    let on = Context::new(&Inline).traced_by(&tracer);
    let space = Independent::new("panics", 10, |number| {
        assert!(number != 3, "out of luck");
        Ok(())
    });
    let store = Store::new("numbers", [0_u64]);
    let recorded = record("panics", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        (0..10).for_each(|_| r.task(write(&home), unlucky_at_three));
    });
    let ended = [
        run(&space, &on).map(|_| ()),
        scope(&on, |s| {
            let datum = s.handle(0);
            (0..10).for_each(|_| s.task(write(&datum), unlucky_at_three));
        })
        .map(|_| ()),
        recorded.unwrap().run(&on).map(|_| ()),
        recurse(&ForksInto(9), None, &on).map(|_| ()),
    ];
    for result in ended {
        assert_eq!(result.unwrap_err().kind(), Kind::TaskPanicked);
    }
    let traces = tracer.take();
    assert_eq!(traces.len(), 4);
    let left = traces.iter().map(|trace| trace.ranks[0].undone);
    // The recursion's outermost call is one of its ten.
    assert_eq!(left.collect::<Vec<_>>(), [7, 7, 7, 6]);
    for trace in traces {
        let verdict = trace.explanation().verdict().to_string();
        let expected = format!(
            "The run ended before {} of its tasks were done. The run failed in ",
            trace.ranks[0].undone
        );
        assert!(verdict.starts_with(&expected), "{}: {verdict}", trace.name);
    }
}

#[test]
fn a_run_that_was_cancelled_before_it_began_has_done_none_of_the_tasks_that_are_known() {
    let (tracer, monitor) = (Tracer::new(ROOM), Monitor::new());
    monitor.cancel();
    let on = Context::new(&Inline)
        .traced_by(&tracer)
        .watched_by(&monitor);
    let store = Store::new("numbers", [0_u64]);
    let recorded = record("adds", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        (0..10).for_each(|_| r.task(write(&home), |number| *number += 1));
    });
    let ended = [
        scope(&on, |s| s.task((), |()| ())).map(|_| ()),
        recorded.unwrap().run(&on).map(|_| ()),
        recurse(&ForksInto(3), None, &on).map(|_| ()),
    ];
    for result in ended {
        assert_eq!(result.unwrap_err().kind(), Kind::Cancelled);
    }
    let left = tracer.take().into_iter().map(|trace| trace.ranks[0].undone);
    // Of a sequence no task is known before its program has begun.
    assert_eq!(left.collect::<Vec<_>>(), [0, 10, 1]);
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
