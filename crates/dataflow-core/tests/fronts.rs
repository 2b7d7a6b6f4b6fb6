//! Four ways to write a program, one engine: what an executor is told, and what is said of one that
//! loses tasks, is the same for spaces, sequences, recorded programs and recursions.

mod specimen;

use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Context, Executor, Inline, Job, Lane, Word};
use dataflow_core::prelude::*;
use dataflow_core::recursion::{Call, Recursive, recurse};
use dataflow_core::sequence::record::record;
use dataflow_core::sequence::{read, scope, write};
use dataflow_core::{Report, run};
use specimen::curious::{Asking, Placed};
use std::sync::Arc;

/// The NUMA nodes on which four data lie.
const NODES: [usize; 4] = [0, 0, 1, 0];

/// What an executor was told: sorted hints, classes and priorities of what was queued; bytes read by
/// node; bodies measured by class.
type Told = (Vec<(Option<usize>, Option<usize>, i64)>, [u64; 2], [u64; 2]);

/// What an executor is told of a run, which reports the same bytes.
fn told(go: impl FnOnce(&dyn Executor) -> Report) -> Told {
    let asking = Asking::default();
    let report = go(&asking);
    let mut curious = asking.0.into_inner().unwrap();
    curious.queued.sort();
    assert_eq!(curious.read, [report.local_bytes, report.remote_bytes]);
    (curious.queued, curious.read, curious.measured)
}

/// Four tasks that change a datum each, and two that read one and change another.
#[test]
fn an_executor_is_told_the_same_of_a_space_of_a_run_in_place_and_of_a_sequence() {
    let store = Store::new("placed", NODES.map(Placed));
    let recorded = record("told", 1, |r| {
        let homes = [0, 1, 2, 3].map(|at| r.home(&store, at, Rank(0)));
        for home in &homes {
            r.name("root").task(write(home), |_| ());
        }
        let [near, other, far, last] = &homes;
        let own = r.name("both").priority(3);
        own.task((write(near), read(last)), |_| ());
        let away = r.name("both").priority(2);
        away.task((write(far), read(other)), |_| ());
    })
    .unwrap();
    let mut data = NODES.map(Placed);
    let as_sequence = told(|on| {
        let inserted = scope(on, |s| {
            let [near, other, far, last] = data.each_mut().map(|datum| s.datum_mut(datum));
            for datum in [&near, &other, &far, &last] {
                s.name("root").task(write(datum), |_| ());
            }
            let own = s.name("both").priority(3);
            own.task((write(&near), read(&last)), |_| ());
            let away = s.name("both").priority(2);
            away.task((write(&far), read(&other)), |_| ());
        });
        inserted.unwrap().1
    });
    let in_place = told(|on| recorded.run(on).unwrap());
    let as_space = told(|on| run(&recorded, on).unwrap());
    assert_eq!(in_place, as_space);
    let (queued, read, measured) = in_place;
    assert!(queued.contains(&(Some(1), Some(1), 2)), "{queued:?}");
    assert_eq!((read, measured), ([600, 200], [4, 2]));
    // Whoever inserts runs nothing meanwhile: all that was ready when it came is queued.
    assert_eq!((as_sequence.1, as_sequence.2), (read, measured));
    for of_root in NODES.map(|node| (Some(node), Some(0), 0)) {
        assert!(as_sequence.0.contains(&of_root), "{as_sequence:?}");
    }
    assert!(as_sequence.0.contains(&(Some(1), Some(1), 2)));
}

/// Calls n calls of n - 1, n - 2, …
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
fn an_executor_is_told_of_calls_too() {
    let (queued, read, measured) = told(|on| {
        let (subsets, report) = recurse(&Subsets, 4, on).unwrap();
        assert_eq!(subsets, 16);
        report
    });
    // One call of a fork is kept, the others are queued.
    assert_eq!(queued, [(None, Some(0), 0); 7]);
    assert_eq!((read, measured), ([0; 2], [16, 0]));
}

/// One worker whose queue loses a word, the `loses`th; it gives up when it finds nothing any more.
struct Loses(usize);

#[derive(Default)]
struct Leaky {
    queue: Vec<Word>,
    /// How many words may still be pushed until one is lost.
    left: usize,
}

impl Lane for Leaky {
    fn worker(&self) -> usize {
        0
    }
    fn push(&mut self, word: Word, _: i64) {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.queue.push(word);
            }
            None => self.left = usize::MAX,
        }
    }
    fn pop(&mut self) -> Option<Word> {
        self.queue.pop()
    }
    fn steal(&mut self) -> Option<Word> {
        None
    }
    fn outranks(&self, _: i64) -> bool {
        false
    }
}

impl Executor for Loses {
    fn n_workers(&self) -> usize {
        1
    }
    fn execute(&self, job: &Arc<Job>) {
        let mut lane = Leaky {
            left: self.0,
            ..Leaky::default()
        };
        while let Some(entered) = job.enter()
            && entered.work(&mut lane) > 0
        {}
    }
}

/// One worker that never comes.
struct Closed;

impl Executor for Closed {
    fn n_workers(&self) -> usize {
        1
    }
    fn execute(&self, _: &Arc<Job>) {}
}

/// What a run on an executor ends in, for each way to write a program; of more than one task that
/// waits at once.
fn ends(on: &dyn Executor) -> [dataflow_core::Error; 4] {
    let store = Store::new("numbers", [0u64; 4]);
    let recorded = record("lost", 1, |r| {
        let homes = [0, 1, 2, 3].map(|at| r.home(&store, at, Rank(0)));
        for home in &homes {
            r.priority(1).task(write(home), |number| *number += 1);
        }
    })
    .unwrap();
    let mut numbers = [0u64; 4];
    let inserted = scope(on, |s| {
        for number in s.handles(numbers.iter_mut()) {
            s.task(write(&number), |number| **number += 1);
        }
    });
    [
        run(&recorded, on).unwrap_err(),
        recorded.run(on).unwrap_err(),
        inserted.unwrap_err(),
        recurse(&Subsets, 4, on).unwrap_err(),
    ]
}

#[test]
fn a_lost_task_is_called_lost_however_the_program_was_written() {
    for (on, ran) in [
        (
            &Loses(2) as &dyn Executor,
            ["3 of 4", "3 of 4", "3 of 4", ""],
        ),
        (&Closed, ["0 of 4", "0 of 4", "0", "0"]),
    ] {
        let errors = ends(on);
        for (error, ran) in errors.iter().zip(ran) {
            assert_eq!(error.kind(), Kind::Stalled, "{error}");
            let text = error.message();
            assert!(text.starts_with("the executor has lost "), "{text}");
            assert!(text.contains(&format!("it ran {ran}")), "{text}");
        }
    }
}

/// An executor of so many workers whose lane has this index.
struct TooLarge(usize, usize);

struct TooLargeLane(usize, Vec<Word>);

impl Lane for TooLargeLane {
    fn worker(&self) -> usize {
        self.0
    }
    fn push(&mut self, word: Word, _: i64) {
        self.1.push(word);
    }
    fn pop(&mut self) -> Option<Word> {
        self.1.pop()
    }
    fn steal(&mut self) -> Option<Word> {
        None
    }
    fn outranks(&self, _: i64) -> bool {
        false
    }
}

impl Executor for TooLarge {
    fn n_workers(&self) -> usize {
        self.0
    }
    fn execute(&self, job: &Arc<Job>) {
        let mut lane = TooLargeLane(self.1, Vec::new());
        while let Some(entered) = job.enter() {
            entered.work(&mut lane);
        }
    }
}

/// It was an index out of bounds, outside of every guard: a panic that left the run.
#[test]
fn a_worker_with_an_index_too_large_is_refused_by_its_index() {
    for (n_workers, index) in [(1, 1), (2, 7), (1, usize::MAX)] {
        for error in ends(&TooLarge(n_workers, index)) {
            assert_eq!(error.kind(), Kind::SchedulerFailed, "{error}");
            let text = format!(
                "worker {index} of an executor came in, which says that it has {n_workers} (indices below \
                 {n_workers} are allowed)"
            );
            assert_eq!(error.message(), text);
        }
    }
}

/// Two workers, both of which say that they are the first.
struct Twins;

/// The first of them; the other comes in while it looks for a task.
struct TwinLane<'j> {
    job: &'j Job,
    words: Vec<Word>,
    is_alone: bool,
}

impl Lane for TwinLane<'_> {
    fn worker(&self) -> usize {
        0
    }
    fn push(&mut self, word: Word, _: i64) {
        self.words.push(word);
    }
    fn pop(&mut self) -> Option<Word> {
        if std::mem::take(&mut self.is_alone) {
            let other = self.job.enter().expect("the run goes on");
            assert_eq!(other.work(&mut TooLargeLane(0, Vec::new())), 0);
        }
        self.words.pop()
    }
    fn steal(&mut self) -> Option<Word> {
        None
    }
    fn outranks(&self, _: i64) -> bool {
        false
    }
}

impl Executor for Twins {
    fn n_workers(&self) -> usize {
        2
    }
    fn execute(&self, job: &Arc<Job>) {
        let (words, is_alone) = (Vec::new(), true);
        let mut lane = TwinLane {
            job,
            words,
            is_alone,
        };
        while let Some(entered) = job.enter() {
            entered.work(&mut lane);
        }
    }
}

/// Both had the same places for their tasks and the same line for their counts: a task that was put where
/// another one lay was lost, and the run hung.
#[test]
fn a_second_worker_of_one_index_is_refused_while_the_first_is_inside() {
    for error in ends(&Twins) {
        assert_eq!(error.kind(), Kind::SchedulerFailed, "{error}");
        let text = "two workers of an executor were inside a run at once as worker 0 (each has an index of \
                    its own)";
        assert_eq!(error.message(), text);
    }
}

#[test]
fn a_run_that_was_cancelled_says_so_however_the_program_was_written() {
    let monitor = Monitor::new();
    monitor.cancel();
    let store = Store::new("numbers", [0u64]);
    let recorded = record("cancelled", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        r.task(write(&home), |number| *number += 1);
    })
    .unwrap();
    let on = Context::new(&Inline).watched_by(&monitor);
    let ends = [
        run(&recorded, &on).unwrap_err(),
        recorded.run(&on).unwrap_err(),
        scope(&on, |s| s.task((), |()| ())).unwrap_err(),
        recurse(&Subsets, 4, &on).unwrap_err(),
    ];
    for error in ends {
        assert_eq!(error.kind(), Kind::Cancelled, "{error}");
        assert!(error.message().starts_with("cancelled after 0"), "{error}");
    }
    let error = scope(&on, |_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Cancelled, "{error}");
}

/// The task was in no queue, and a program that caught the panic waited for ever.
#[test]
fn a_datum_that_panics_when_asked_where_it_lies_names_the_task_that_accesses_it() {
    #[derive(Clone, Debug)]
    struct Nowhere;
    impl Datum for Nowhere {
        fn numa_node(&self) -> Option<usize> {
            panic!("nowhere")
        }
    }
    let error = scope(&Asking::default(), |s| {
        let datum = s.datum(Nowhere);
        s.name("asks").task(write(&datum), |_| ());
    });
    let error = error.unwrap_err();
    let told = (error.kind(), error.task(), error.message());
    let text = "task panicked: nowhere";
    assert_eq!(told, (Kind::TaskPanicked, Some("asks 0"), text));
}

/// Tasks of a run that fails early and is cancelled later.
const N: u64 = 10;

/// One body fails; another, of a larger number, cancels the run; one after it would be the first failure
/// by its index.
fn falls(number: u64, cancels: u64, monitor: &Monitor) -> Result<(), TaskError> {
    let failed = |index| Err(TaskError::new("bad", "as told").with_index(index));
    match number {
        3 => failed(900),
        7 if cancels < 7 => failed(1),
        _ if number == cancels => {
            monitor.cancel();
            Ok(())
        }
        _ => Ok(()),
    }
}

/// One call forks into tasks of this kind.
struct Falling<'m>(u64, &'m Monitor);

impl Recursive for Falling<'_> {
    type Argument = u64;
    type Value = ();

    fn call(&self, number: u64) -> Result<Call<Self>, TaskError> {
        if number == N {
            return Ok(Call::fork(0..N, |_| ()));
        }
        falls(number, self.0, self.1)?;
        Ok(Call::Done(()))
    }
}

/// The failure that happened to be there was told as the smallest; whoever went by it, as who asks for
/// the first singular pivot, went by a wrong one.
#[test]
fn a_run_that_is_cancelled_with_tasks_left_tells_no_failure_that_may_not_be_the_smallest() {
    for (cancels, kind, index) in [
        (4, Kind::Cancelled, None),
        (N - 1, Kind::TaskFailed, Some(900)),
    ] {
        let store = Store::new("numbers", [0u64; N as usize]);
        let owned = [(); 4].map(|()| Monitor::new());
        let monitors = owned.each_ref();
        let recorded = monitors.map(|monitor| {
            let inserted = record("falling", 1, |r| {
                for number in 0..N {
                    let home = r.home(&store, number as usize, Rank(0));
                    let task = r.priority(-(number as i64));
                    task.task(write(&home), move |_| falls(number, cancels, monitor));
                }
            });
            inserted.unwrap()
        });
        let on = monitors.map(|monitor| Context::new(&Inline).watched_by(monitor));
        let ends = [
            run(&recorded[0], &on[0]).unwrap_err(),
            recorded[1].run(&on[1]).unwrap_err(),
            scope(&on[2], |s| {
                for number in 0..N {
                    let task = s.priority(-(number as i64));
                    task.task((), move |()| falls(number, cancels, monitors[2]));
                }
            })
            .unwrap_err(),
            recurse(&Falling(cancels, monitors[3]), N, &on[3]).unwrap_err(),
        ];
        for error in ends {
            assert_eq!((error.kind(), error.index()), (kind, index), "{error}");
        }
    }
}

/// Task 0 makes two ready: 1, which reads a datum, and then 2, which reads none and is more urgent.
struct Two(Store<Placed>);

const DATUM: usize = 0;
const AFTER: usize = 1;

impl TaskSpace for Two {
    type Task = u64;
    type Datum = Placed;

    fn describe(&self, about: &mut Description) {
        about.name("two");
        about.class("Task").optional("DATUM").order("AFTER");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..3
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task == 1 {
            from.home(DATUM, &self.0, 0);
        }
        if task > 0 {
            from.task(AFTER, 0, AFTER);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task == 0 {
            to.task(AFTER, 1, AFTER);
            to.task(AFTER, 2, AFTER);
        }
    }

    fn priority(&self, task: u64) -> i64 {
        task as i64
    }

    fn run(&self, _: u64, _: &mut Flows<'_, Placed>) -> Result<(), TaskError> {
        Ok(())
    }
}

#[test]
fn a_task_that_gives_way_to_a_more_urgent_one_is_queued_with_the_place_of_its_own_data() {
    let space = Two(Store::new("placed", [Placed(0)]));
    let (queued, ..) = told(|on| run(&space, on).unwrap());
    assert_eq!(queued, [(Some(0), Some(0), 1)]);
}
