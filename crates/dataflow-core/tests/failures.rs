//! Bodies that fail, bodies that panic, runs that are cancelled.

mod specimen;

use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Context, Executor, Inline, Job, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::recursion::{Call, Recursive, recurse};
use dataflow_core::sequence::record::record;
use dataflow_core::sequence::{scope, scope_inside, write};
use dataflow_core::space::Independent;
use dataflow_core::trace::Tracer;
use dataflow_core::{Error, Report, run, run_across, run_inside};
use specimen::ranks::on_ranks;
use specimen::{Number, within};
use std::error::Error as StdError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A triangle of tasks `(row, column)`: each updates the datum that comes down its column, after
/// its left neighbour. What becomes of each is chosen.
struct Triangle {
    rows: u32,
    store: Store<Number>,
    fails: Vec<((u32, u32), Option<u64>)>,
    panics: Vec<(u32, u32)>,
    ran: Mutex<Vec<(u32, u32)>>,
}

const DOWN: usize = 0;
const LEFT: usize = 1;

impl Triangle {
    fn new(rows: u32) -> Self {
        Triangle {
            rows,
            store: Store::new("columns", (0..rows).map(|c| Number(c.into()))),
            fails: vec![],
            panics: vec![],
            ran: Mutex::new(vec![]),
        }
    }

    /// (0,0) is before all, (rows-1, rows-1) the last.
    fn depends((row, column): (u32, u32), (on_row, on_column): (u32, u32)) -> bool {
        on_row <= row && on_column <= column
    }

    fn ran(&self) -> Vec<(u32, u32)> {
        let mut ran = self.ran.lock().unwrap().clone();
        ran.sort();
        ran
    }

    fn is_full(&self) -> bool {
        (0..self.store.len()).all(|slot| self.store.get(slot).is_some())
    }
}

impl TaskSpace for Triangle {
    type Task = (u32, u32);
    type Datum = Number;
    fn describe(&self, about: &mut Description) {
        about.name("triangle").parameter("rows", self.rows);
        about.class("Cell").update("DOWN").order("LEFT");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = (u32, u32)> + Send {
        (0..self.rows).flat_map(|row| (0..=row).map(move |column| (row, column)))
    }
    fn inputs(&self, (row, column): (u32, u32), from: &mut impl Inputs<Self>) {
        if row == column {
            from.home(DOWN, &self.store, column as usize);
        } else {
            from.task(DOWN, (row - 1, column), DOWN);
        }
        if column > 0 {
            from.task(LEFT, (row, column - 1), LEFT);
        }
    }
    fn successors(&self, (row, column): (u32, u32), to: &mut impl Successors<Self>) {
        if row + 1 < self.rows {
            to.task(DOWN, (row + 1, column), DOWN);
        } else {
            to.home(DOWN, &self.store, column as usize);
        }
        if column < row {
            to.task(LEFT, (row, column + 1), LEFT);
        }
    }
    fn run(&self, task: (u32, u32), flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        self.ran.lock().unwrap().push(task);
        let [down, _] = flows.slots();
        down.update().0 += 100;
        assert!(!self.panics.contains(&task), "{task:?} was told to panic");
        match self.fails.iter().find(|(failing, _)| *failing == task) {
            Some((_, Some(index))) => {
                Err(TaskError::new("told_to", format!("{task:?} fails")).with_index(*index))
            }
            Some((_, None)) => Err(format!("{task:?} fails").into()),
            None => Ok(()),
        }
    }
}

fn schedules(n_seeds: u64) -> impl Iterator<Item = Shuffled> {
    let n_seeds = if cfg!(miri) { 1 } else { n_seeds };
    (0..n_seeds).flat_map(|seed| [1, 2].map(|n| Shuffled::new(seed).with_threads(n)))
}

#[test]
fn the_triangle_is_proved_and_runs() {
    let triangle = Triangle::new(6);
    verify(&triangle, 1).unwrap();
    assert_eq!(run(&triangle, &Inline).unwrap().tasks, 21);
    assert_eq!(triangle.store.get(0).unwrap().0, 600);
}

#[test]
fn a_failing_body_skips_its_descendants_and_nothing_else_under_every_schedule() {
    let first = vec![((0, 0), None)];
    let middle = vec![((3, 1), Some(31))];
    let last = vec![((5, 5), Some(5))];
    let indexed = vec![((2, 2), Some(9)), ((4, 1), Some(3)), ((3, 0), None)];
    let equal = vec![((4, 2), Some(3)), ((5, 0), Some(3))];
    let unindexed = vec![((5, 1), None), ((4, 2), None)];
    let cases = [
        (first, (0, 0)),
        (middle, (3, 1)),
        (last, (5, 5)),
        (indexed, (2, 2)),
        (equal, (4, 2)),
        (unindexed, (4, 2)),
    ];
    for (fails, expected) in cases {
        for executor in schedules(200) {
            let triangle = Triangle {
                fails: fails.clone(),
                ..Triangle::new(6)
            };
            let error = within(|| format!("{fails:?}"), || run(&triangle, &executor)).unwrap_err();
            assert_eq!(error.task(), Some(&*format!("{expected:?}")), "{error}");
            let index = fails.iter().find(|(task, _)| *task == expected).unwrap().1;
            assert_eq!(error.index(), index);
            assert_eq!(error.message(), format!("{expected:?} fails"));
            let kind = if index.is_some() {
                "told_to"
            } else {
                "task_failed"
            };
            assert_eq!((error.kind(), error.name()), (Kind::TaskFailed, kind));
            let skipped = |&task: &(u32, u32)| {
                fails
                    .iter()
                    .any(|&(failing, _)| task != failing && Triangle::depends(task, failing))
            };
            let all = triangle.tasks(Rank(0));
            assert_eq!(
                triangle.ran(),
                all.filter(|task| !skipped(task)).collect::<Vec<_>>()
            );
            assert!(triangle.is_full(), "data are home");
        }
    }
}

#[test]
fn a_panic_is_an_error_with_its_task_and_text() {
    for panics in [
        vec![(0, 0)],
        vec![(3, 1)],
        vec![(5, 5)],
        vec![(2, 2), (4, 1), (3, 0)],
    ] {
        for executor in schedules(30) {
            let triangle = Triangle {
                panics: panics.clone(),
                ..Triangle::new(6)
            };
            let error = within(|| format!("{panics:?}"), || run(&triangle, &executor)).unwrap_err();
            assert_eq!(error.kind(), Kind::TaskPanicked);
            let told = panics.iter().map(|task| format!("{task:?}"));
            let task = told.into_iter().find(|task| error.task() == Some(task));
            let task = task.unwrap_or_else(|| panic!("{:?} was not to panic", error.task()));
            assert!(
                error
                    .message()
                    .contains(&format!("{task} was told to panic")),
                "{error}"
            );
            assert!(triangle.is_full(), "data are home");
            assert_eq!(
                run(&Triangle::new(4), &executor).unwrap().tasks,
                10,
                "usable afterwards"
            );
        }
    }
}

#[test]
fn a_panic_goes_before_failures() {
    let fails = vec![((1, 0), Some(1))];
    for executor in schedules(50) {
        let triangle = Triangle {
            fails: fails.clone(),
            panics: vec![(0, 0)],
            ..Triangle::new(3)
        };
        assert_eq!(
            run(&triangle, &executor).unwrap_err().kind(),
            Kind::TaskPanicked
        );
    }
}

#[test]
fn a_run_inside_a_body_is_refused() {
    let inner = Independent::new("inner", 3, |_| Ok(()));
    for executor in [&Inline as &dyn Executor, &Shuffled::new(1).with_threads(2)] {
        let outer = Independent::new("outer", 5, |task| match run(&inner, &Inline) {
            Err(error) if error.kind() == Kind::NestedRun => Ok(()),
            other => panic!("task {task}: {other:?}"),
        });
        run(&outer, executor).unwrap();
        assert_eq!(
            run(&inner, executor).unwrap().tasks,
            3,
            "not inside any more"
        );
    }
}

#[test]
fn a_body_runs_a_space_inside_with_its_answers_and_its_errors() {
    for executor in [&Inline as &dyn Executor, &Shuffled::new(1).with_threads(2)] {
        let outer = Independent::new("outer", 5, |task| {
            let triangle = Triangle::new(3);
            assert_eq!(run_inside(&triangle, executor).unwrap().tasks, 6);
            let fails = Independent::new("inner", 3, |i| match i {
                0 => Ok(()),
                _ => Err(format!("{i} of {task} fails"))?,
            });
            Err(run_inside(&fails, executor).unwrap_err().to_string())?
        });
        let told = run_inside(&outer, executor).unwrap_err().to_string();
        assert_eq!(told, "1 of 0 fails (task 1) (task 0)");
    }
}

/// A body that runs the space that it is of.
fn run_ever_deeper(begun: &AtomicUsize) -> Result<Report, Error> {
    begun.fetch_add(1, Ordering::Relaxed);
    let deeper = |_| Ok(run_ever_deeper(begun).map(drop)?);
    run_inside(&Independent::new("deeper", 1, deeper), &Inline)
}

#[test]
fn runs_inside_of_one_another_are_refused_before_the_stack_ends() {
    let begun = AtomicUsize::new(0);
    let refused = run_ever_deeper(&begun).unwrap_err();
    let begun = begun.into_inner();
    assert!(refused.to_string().contains("101 "), "{refused}");
    assert_eq!(begun, 102, "one outside, a hundred inside, one refused");
    assert_eq!(
        run(&Triangle::new(2), &Inline).unwrap().tasks,
        3,
        "not nested any more"
    );
}

#[test]
fn a_run_that_was_cancelled_before_it_starts_runs_nothing() {
    let monitor = Monitor::new();
    monitor.cancel();
    for executor in schedules(20) {
        let triangle = Triangle::new(5);
        let error = within(
            || "cancelled".into(),
            || run(&triangle, &Context::new(&executor).watched_by(&monitor)),
        );
        assert_eq!(error.unwrap_err().kind(), Kind::Cancelled);
        assert!(triangle.ran().is_empty() && triangle.is_full());
    }
}

#[test]
fn a_run_is_cancelled_from_another_thread_and_its_progress_only_grows() {
    for n_threads in [1, 2] {
        let executor = Shuffled::new(3).with_threads(n_threads);
        let monitor = Monitor::new();
        let bodies = AtomicU64::new(0);
        let endless = Independent::new("endless", u64::MAX, |_| {
            bodies.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(20));
            Ok(())
        });
        let result = std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut last = 0;
                while last < 50 {
                    let progress = monitor.progress();
                    assert!(progress.done >= last);
                    assert!(progress.count.is_none_or(|count| count == u64::MAX));
                    last = progress.done;
                }
                monitor.cancel();
            });
            within(
                || "cancel".into(),
                || run(&endless, &Context::new(&executor).watched_by(&monitor)),
            )
        });
        let error = result.unwrap_err();
        assert_eq!(error.kind(), Kind::Cancelled);
        assert!(monitor.is_cancelled());
        let ran = bodies.load(Ordering::Relaxed);
        assert!(ran >= 50, "{ran}");
        assert_eq!(
            monitor.progress().done,
            ran,
            "every task that started is counted"
        );
        assert!(error.message().contains(&ran.to_string()), "{error}");
    }
}

#[test]
fn one_monitor_cancels_all_its_runs() {
    let monitor = Monitor::new();
    let started = AtomicU64::new(0);
    let endless = || {
        Independent::new("endless", u64::MAX, |task| {
            started.fetch_add(u64::from(task == 0), Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(20));
            Ok(())
        })
    };
    let results = within(
        || "two runs".into(),
        || {
            std::thread::scope(|threads| {
                let run = || run(&endless(), &Context::new(&Inline).watched_by(&monitor));
                let runs = [threads.spawn(run), threads.spawn(run)];
                while started.load(Ordering::Relaxed) < 2 {
                    std::thread::yield_now();
                }
                monitor.cancel();
                runs.map(|run| run.join().unwrap())
            })
        },
    );
    for result in results {
        assert_eq!(result.unwrap_err().kind(), Kind::Cancelled);
    }
}

/// Lets nobody in until the run is over; hears then.
struct Closed<F> {
    hears: F,
    begun: AtomicU64,
}

impl<F: Fn() + Clone + Send + Sync + 'static> Executor for Closed<F> {
    fn n_workers(&self) -> usize {
        1
    }
    fn execute(&self, job: &Arc<Job>) {
        job.on_mail(self.hears.clone());
        self.begun.fetch_add(1, Ordering::Relaxed);
        job.wait_over();
    }
}

/// It waited for ever for the lock that it had itself; and if the first panicked, the second run went on.
#[test]
fn what_an_executor_does_when_a_cancelled_run_is_over_may_ask_the_monitor_or_panic() {
    let monitor = Arc::new(Monitor::new());
    let asked = Arc::new(AtomicU64::new(0));
    let (asks, counts) = (monitor.clone(), asked.clone());
    let on = Closed {
        hears: move || {
            let found = u64::from(asks.is_cancelled());
            assert!(counts.fetch_add(found, Ordering::Relaxed) > 0, "the first");
        },
        begun: AtomicU64::new(0),
    };
    let nothing = Independent::new("nothing", 1, |_| Ok(()));
    let ended = within(
        || "two runs".into(),
        || {
            std::thread::scope(|threads| {
                let run = || run(&nothing, &Context::new(&on).watched_by(&monitor));
                let runs = [threads.spawn(run), threads.spawn(run)];
                while on.begun.load(Ordering::Relaxed) < 2 {
                    std::thread::yield_now();
                }
                let cancels = std::panic::AssertUnwindSafe(|| monitor.cancel());
                assert!(std::panic::catch_unwind(cancels).is_err(), "as the first");
                runs.map(|run| run.join().unwrap())
            })
        },
    );
    for result in ended {
        assert_eq!(result.unwrap_err().kind(), Kind::Cancelled);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

/// Bounds were exceeded, somewhere.
#[test]
fn an_executor_without_workers_is_refused_however_the_program_was_written() {
    struct Nobody;
    impl Executor for Nobody {
        fn n_workers(&self) -> usize {
            0
        }
        fn execute(&self, _: &Arc<Job>) {}
    }
    struct One;
    impl Recursive for One {
        type Argument = ();
        type Value = ();
        fn call(&self, (): ()) -> Result<Call<Self>, TaskError> {
            Ok(Call::Done(()))
        }
    }
    let store = Store::new("numbers", [Number(1)]);
    let recorded = record("one", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        r.task(write(&home), |_| ());
    })
    .unwrap();
    let nothing = Independent::new("nothing", 1, |_| Ok(()));
    let inside = Mutex::new(None);
    let asks = Independent::new("asks", 1, |_| {
        *inside.lock().unwrap() = scope_inside(&Nobody, |_| ()).err();
        Ok(())
    });
    run(&asks, &Inline).unwrap();
    let errors = [
        run(&nothing, &Nobody).err(),
        scope(&Nobody, |_| ()).err(),
        recurse(&One, (), &Nobody).err(),
        recorded.run(&Nobody).err(),
        inside.into_inner().unwrap(),
    ];
    for error in errors {
        let error = error.unwrap();
        assert_eq!(error.kind(), Kind::WrongSettings);
        assert!(error.message().starts_with("0 workers"), "{error}");
    }
    assert_eq!(store.get(0).unwrap().0, 1);
}

#[test]
fn progress_is_complete_after_a_run() {
    let monitor = Monitor::new();
    run(
        &Triangle::new(7),
        &Context::new(&Inline).watched_by(&monitor),
    )
    .unwrap();
    assert_eq!(
        (monitor.progress().done, monitor.progress().count),
        (28, Some(28))
    );
}

#[test]
fn several_runs_share_an_executor() {
    let executor = Shuffled::new(11).with_threads(2);
    within(
        || "several runs".into(),
        || {
            std::thread::scope(|threads| {
                for i in 0..6 {
                    let executor = &executor;
                    threads.spawn(move || {
                        for _ in 0..if cfg!(miri) { 2 } else { 20 } {
                            let fails = if i % 2 == 0 {
                                vec![]
                            } else {
                                vec![((3, 2), Some(i))]
                            };
                            let triangle = Triangle {
                                fails,
                                ..Triangle::new(6)
                            };
                            let result = run(&triangle, executor);
                            assert_eq!(result.is_ok(), i % 2 == 0);
                            assert!(triangle.is_full());
                        }
                    });
                }
            })
        },
    );
}

/// A name that cannot be shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Unspeakable(u64);

impl std::fmt::Debug for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 % 2 {
            0 => Err(std::fmt::Error),
            _ => panic!("no words"),
        }
    }
}

impl TaskName for Unspeakable {
    fn class(self) -> usize {
        0
    }
    fn pack(self) -> Option<u64> {
        Some(self.0)
    }
    fn unpack(packed: u64) -> Self {
        Unspeakable(packed)
    }
}

/// A datum that does not go quietly; the copies in the store do.
#[derive(Clone)]
struct Loud(bool);
impl Datum for Loud {}
impl Drop for Loud {
    fn drop(&mut self) {
        if self.0 && !std::thread::panicking() {
            self.0 = false;
            panic!("a datum is dropped");
        }
    }
}

/// A panic's payload that panics in turn when it is dropped, and so on for a while.
struct Payload(u32);
impl Drop for Payload {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Payload(self.0 - 1));
        }
    }
}

/// What the body of each task does, which makes a datum that is loud.
struct Foreign {
    body: fn(u64) -> Result<(), TaskError>,
    loud: bool,
}

impl TaskSpace for Foreign {
    type Task = Unspeakable;
    type Datum = Loud;
    fn describe(&self, about: &mut Description) {
        about.name("foreign").class("Task").new_flow("LOUD");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = Unspeakable> + Send {
        (0..6).map(Unspeakable)
    }
    fn inputs(&self, _: Unspeakable, _: &mut impl Inputs<Self>) {}
    fn successors(&self, _: Unspeakable, _: &mut impl Successors<Self>) {}
    fn run(&self, task: Unspeakable, flows: &mut Flows<'_, Loud>) -> Result<(), TaskError> {
        let [made] = flows.slots();
        made.put(Loud(self.loud));
        (self.body)(task.0)
    }
}

/// Each of these ended the process: they panic where no guard stood. And where none did, a thread was
/// taken for one that is inside a body, and refused every later run.
#[test]
#[cfg_attr(
    miri,
    ignore = "payloads that panic are forgotten, a leak for Miri: a step of its own"
)]
fn data_payloads_and_names_that_panic_end_the_run_and_nothing_else() {
    let panics: [fn(u64) -> Result<(), TaskError>; 5] = [
        |_| panic!("a body panics"),
        |_| std::panic::panic_any(Payload(0)),
        |_| std::panic::panic_any(Payload(3)),
        |_| Ok(()),
        |_| Err("a body fails".into()),
    ];
    for executor in [&Inline as &dyn Executor, &Shuffled::new(1).with_threads(2)] {
        for (at, body) in panics.into_iter().enumerate() {
            for loud in [false, true] {
                let space = Foreign { body, loud };
                let failed = within(|| format!("{at}"), || run(&space, executor));
                match failed {
                    Ok(_) => assert!(at == 3 && !loud),
                    Err(error) => {
                        let panicked = error.kind() == Kind::TaskPanicked;
                        assert!(panicked || at == 4 && !loud, "{at}: {error}");
                        assert!(error.task().is_some_and(|task| task.contains("`Debug`")));
                    }
                }
                let after = Independent::new("after", 3, |_| Ok(()));
                assert_eq!(run(&after, executor).unwrap().tasks, 3);
            }
        }
    }
}

/// A datum that panics whenever it is dropped. Not of size 0: then edges would carry nothing.
#[derive(Clone)]
struct Bomb(u64);
impl Datum for Bomb {}
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("datum {} is dropped", self.0);
    }
}

/// Tasks 0 and 1 make data for 3 and 4, which wait for 2, too; task 0 also feeds 5 and 6, which wait for no
/// other, if these are `queued`. One of them panics.
struct Waiting {
    n_inputs: usize,
    queued: bool,
    panics: u64,
}

impl TaskSpace for Waiting {
    type Task = u64;
    type Datum = Bomb;
    fn describe(&self, about: &mut Description) {
        let class = about.name("waiting").class("Task").optional("FIRST");
        let inputs = (1..self.n_inputs).fold(class, |class, _| class.order("LATER"));
        inputs.new_flow("MADE");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..if self.queued { 7 } else { 5 }
    }
    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        match task {
            3 | 4 => {
                from.task(0, task - 3, self.n_inputs);
                (1..self.n_inputs).for_each(|flow| from.task(flow, 2, flow));
            }
            5.. => from.task(0, 0, self.n_inputs),
            _ => {}
        }
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        match task {
            0 | 1 => to.task(self.n_inputs, task + 3, 0),
            2 => (1..self.n_inputs).for_each(|flow| {
                [3, 4]
                    .into_iter()
                    .for_each(|task| to.task(flow, task, flow));
            }),
            _ => {}
        }
        if task == 0 && self.queued {
            [5, 6]
                .into_iter()
                .for_each(|task| to.task(self.n_inputs, task, 0));
        }
    }
    fn run(&self, task: u64, flows: &mut Flows<'_, Bomb>) -> Result<(), TaskError> {
        assert!(task != self.panics, "{task} was told to panic");
        if task < 2 {
            flows.iter().last().unwrap().put(Bomb(task));
        }
        Ok(())
    }
}

/// They were dropped with the table of records, where no guard stood: one of them unwound out of `run`, two
/// ended the process.
#[test]
#[cfg_attr(
    miri,
    ignore = "payloads that panic are forgotten, a leak for Miri: a step of its own"
)]
fn data_that_wait_for_a_task_that_never_runs_may_panic_as_they_are_dropped() {
    for executor in [&Inline as &dyn Executor, &Shuffled::new(1).with_threads(2)] {
        // With a place in the record and without one; and of tasks that are ready, and queued.
        for (n_inputs, queued) in [(2, false), (6, false), (2, true), (6, true)] {
            let panics = if queued { 5 } else { 2 };
            let space = Waiting {
                n_inputs,
                queued,
                panics,
            };
            let error = within(|| format!("{n_inputs}"), || run(&space, executor)).unwrap_err();
            assert_eq!(error.kind(), Kind::TaskPanicked, "{error}");
        }
    }
}

/// Roots whose iterator panics as it is dropped.
struct Fuse(std::ops::Range<u64>);

impl Iterator for Fuse {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        self.0.next()
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        panic!("roots are dropped");
    }
}

/// Tasks that wait for no other, the second of which panics.
struct Fused;

impl TaskSpace for Fused {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        about.name("fused").class("Task");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..1000
    }
    fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        Fuse(0..1000)
    }
    fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        assert!(task != 1, "{task} was told to panic");
        Ok(())
    }
}

/// They were dropped with the run, where no guard stood: the panic unwound out of `run`, on a rank among
/// others before it had told these that the run was over.
#[test]
#[cfg_attr(
    miri,
    ignore = "payloads that panic are forgotten, a leak for Miri: a step of its own"
)]
fn roots_of_a_run_that_was_stopped_may_panic_as_they_are_dropped() {
    for executor in [&Inline as &dyn Executor, &Shuffled::new(1).with_threads(2)] {
        let error = within(|| "roots".to_owned(), || run(&Fused, executor)).unwrap_err();
        assert_eq!(error.kind(), Kind::TaskPanicked, "{error}");
    }
}

#[test]
fn panics_for_a_fault_of_the_space_point_at_the_body() {
    use std::panic::{set_hook, take_hook};
    static SEEN: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
    let wrong: [fn(&mut Flows<'_, Number>); 4] = [
        |flows| _ = flows.slots::<3>(),
        |flows| _ = flows.slots::<1>().map(|slot| slot.read().0),
        |flows| _ = flows.slots::<1>().map(|slot| slot.update().0),
        |flows| {
            flows
                .slots::<1>()
                .into_iter()
                .for_each(|slot| slot.put(Number(1)))
        },
    ];
    struct Wrong(fn(&mut Flows<'_, Number>));
    impl TaskSpace for Wrong {
        type Task = u64;
        type Datum = Number;
        fn describe(&self, about: &mut Description) {
            about.name("wrong").class("Task").optional("ONLY");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..1
        }
        fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u64, flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
            (self.0)(flows);
            Ok(())
        }
    }
    let before = take_hook();
    set_hook(Box::new(|info| {
        let place = info.location().map_or("", |location| location.file());
        let text = info.payload_as_str().unwrap_or_default();
        SEEN.lock().unwrap().push((text.into(), place.into()));
    }));
    for wrong in wrong {
        run(&Wrong(wrong), &Inline).unwrap_err();
    }
    set_hook(before);
    // Other tests may panic meanwhile.
    let seen = SEEN.lock().unwrap().clone();
    let of_flows = |(text, _): &&(String, String)| text.contains("flow");
    let places: Vec<_> = seen
        .iter()
        .filter(of_flows)
        .map(|(_, place)| place)
        .collect();
    assert_eq!(places.len(), 4, "{seen:?}");
    assert!(
        places
            .iter()
            .all(|place| place.ends_with("tests/failures.rs")),
        "{seen:?}"
    );
}

/// A foreign error with an error of its own behind it.
#[derive(Debug)]
struct Unread(std::num::ParseIntError);

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the file has no number")
    }
}

impl StdError for Unread {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

fn unread() -> Result<u64, Unread> {
    "seven".parse().map_err(Unread)
}

#[test]
fn an_error_of_another_library_is_handed_on_and_stays_the_source_however_the_program_was_written() {
    let space = Independent::new("read", 1, |_| {
        unread()?;
        Ok(())
    });
    struct Reads;
    impl Recursive for Reads {
        type Argument = ();
        type Value = u64;
        fn call(&self, (): ()) -> Result<Call<Self>, TaskError> {
            Ok(Call::Done(unread()?))
        }
    }
    let mut number = 0;
    let mut again = 0;
    let store = Store::new("number", [0]);
    let recorded = record("read", 1, |r| {
        let number = r.home(&store, 0, Rank(0));
        r.task(write(&number), |number| {
            *number = unread()?;
            Ok::<_, Unread>(())
        });
    })
    .unwrap();
    let ended = [
        run(&space, &Inline).map(drop),
        recurse(&Reads, (), &Inline).map(drop),
        scope(&Inline, |s| {
            let number = s.handle(&mut number);
            s.task(write(&number), |number| {
                **number = unread()?;
                Ok::<_, Unread>(())
            });
        })
        .map(drop),
        scope(&Inline, |s| {
            let number = s.handle(&mut again);
            s.nested(write(&number), |s, number| {
                let number = s.handle(&mut **number);
                s.task(write(&number), |number| {
                    **number = unread()?;
                    Ok::<_, Unread>(())
                });
            });
        })
        .map(drop),
        recorded.run(&Inline).map(drop),
        run(&recorded, &Inline).map(drop),
    ];
    for ended in ended {
        let error = ended.unwrap_err();
        assert_eq!(
            (error.kind(), error.name()),
            (Kind::TaskFailed, "task_failed")
        );
        assert_eq!(error.message(), "the file has no number");
        let source = error.source().expect("the foreign error");
        assert!(
            source.is::<Unread>() && source.source().is_some(),
            "{source:?}"
        );
    }
}

#[test]
fn a_body_hands_on_texts_boxed_errors_and_the_errors_of_runs() {
    let of_run = || TaskError::new("too_hot", "a body").with_index(3);
    let inner = || run(&Independent::new("inner", 1, |_| Err(of_run())), &Inline).unwrap_err();
    let boxed: fn(&str) -> Box<dyn StdError + Send + Sync> = |text| text.into();
    let cases: [(TaskError, &str, &str, bool); 6] = [
        ("a text".into(), "task_failed", "a text", false),
        (
            String::from("a text").into(),
            "task_failed",
            "a text",
            false,
        ),
        (boxed("in a box").into(), "task_failed", "in a box", true),
        (
            unread().unwrap_err().into(),
            "task_failed",
            "the file has no number",
            true,
        ),
        (inner().into(), "too_hot", "a body (task 0)", false),
        (
            inner().with_source(unread().unwrap_err()).into(),
            "too_hot",
            "a body (task 0)",
            true,
        ),
    ];
    for (handed_on, name, message, has_source) in cases {
        assert_eq!(handed_on.source().is_some(), has_source, "{message}");
        let outer = Independent::new("outer", 1, |_| Err(handed_on.clone()));
        let error = run(&outer, &Inline).unwrap_err();
        assert_eq!((error.name(), error.message()), (name, message));
    }
}

/// A space that panics when it is asked what it is, or how many tasks it has, before the run begins.
struct Silent {
    describes: bool,
    on: Rank,
}

impl TaskSpace for Silent {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        assert!(self.describes, "no description");
        about.name("silent").class("Task");
    }
    fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
        (0..u64::MAX).take_while(move |_| match on == self.on {
            true => panic!("no task"),
            false => false,
        })
    }
    fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }
}

/// The panic went on through `run`; over ranks the others were told that one is lost.
#[test]
fn a_space_that_panics_before_it_runs_is_an_error_on_all_ranks() {
    for (describes, text) in [
        (false, "the space panicked: no description"),
        (true, "the space panicked: no task"),
    ] {
        let tracer = Tracer::new(1 << 16);
        let contexts = [
            Context::new(&Inline),
            Context::new(&Inline).traced_by(&tracer),
        ];
        for on in &contexts {
            let on_rank = Rank(0);
            let error = run(
                &Silent {
                    describes,
                    on: on_rank,
                },
                on,
            )
            .unwrap_err();
            assert_eq!((error.kind(), error.message()), (Kind::TaskPanicked, text));
        }
        let across = || {
            on_ranks(3, (1, 2), |courier| {
                let describes = describes || courier.rank() != Rank(1);
                let space = Silent {
                    describes,
                    on: Rank(1),
                };
                run_across(&space, &Context::new(&Inline).across(courier)).unwrap_err()
            })
        };
        let (ended, _) = within(|| "a silent space".to_string(), across);
        for error in ended {
            let told = (error.kind(), error.rank(), error.message());
            assert_eq!(told, (Kind::TaskPanicked, Some(Rank(1)), text));
        }
    }
}
