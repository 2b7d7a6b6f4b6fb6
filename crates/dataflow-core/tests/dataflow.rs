//! Whatever the graph and the schedule, every task sees its inputs and its result arrives.

#[path = "specimen/layered.rs"]
mod layered;

use dataflow_core::port::{Executor, Inline, Job, Lane, Shuffled, Word};
use dataflow_core::prelude::*;
use dataflow_core::{Report, run};
use layered::{Graph, Layered, graphs};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Runs the graph; the outcome must be the model's.
fn check(graph: &Graph, executor: &dyn Executor) -> Result<(), TestCaseError> {
    let space = Layered::new(graph);
    let report = run(&space, executor).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(report.tasks, graph.nodes.len() as u64);
    prop_assert_eq!(space.outcome(), graph.model());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 300 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_graphs_give_the_result_of_topological_execution(graph in graphs(), seed: u64) {
        if let Err(fault) = verify(&Layered::new(&graph), 1) {
            return Err(TestCaseError::fail(format!("the generator is wrong: {fault}")));
        }
        check(&graph, &Inline)?;
        for n_threads in [1, 2, 3] {
            check(&graph, &Shuffled::new(seed).with_threads(n_threads))?;
        }
    }
}

#[cfg(feature = "rayon")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_graphs_give_the_same_result_on_a_pool_of_rayon(graph in graphs(), n in 1usize..5) {
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        check(&graph, &dataflow_core::port::OnRayon(&pool))?;
    }
}

#[derive(Clone)]
struct Number(u64);
impl Datum for Number {}

/// One source whose datum goes to some readers and some updaters; each updater brings its own home.
struct Shared {
    n_readers: u32,
    n_updaters: u32,
    results: Store<Number>,
}

dataflow_core::task_names! { enum Task { Source {}, Reader { i }, Updater { i } } }

impl Shared {
    fn new(n_readers: u32, n_updaters: u32) -> Self {
        let results = Store::empty("results", n_updaters as usize);
        Shared {
            n_readers,
            n_updaters,
            results,
        }
    }
}

impl TaskSpace for Shared {
    type Task = Task;
    type Datum = Number;
    fn describe(&self, about: &mut Description) {
        about.name("shared");
        about.class("Source").new_flow("X");
        about.class("Reader").read("X");
        about.class("Updater").update("X");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = Task> + Send {
        let readers = (0..self.n_readers).map(|i| Task::Reader { i });
        [Task::Source {}]
            .into_iter()
            .chain(readers)
            .chain((0..self.n_updaters).map(|i| Task::Updater { i }))
    }
    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        match task {
            Task::Source {} => {}
            _ => from.task(0, Task::Source {}, 0),
        }
    }
    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        match task {
            Task::Source {} => {
                to.range(0, 0..self.n_readers, |i| Task::Reader { i }, 0);
                to.range(0, 0..self.n_updaters, |i| Task::Updater { i }, 0);
            }
            Task::Reader { .. } => {}
            Task::Updater { i } => to.home(0, &self.results, i as usize),
        }
    }
    fn run(&self, task: Task, flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        let [slot] = flows.slots();
        match task {
            Task::Reader { .. } => assert_eq!(slot.read().0, 6, "no updater is seen"),
            Task::Source {} => slot.put(Number(6)),
            Task::Updater { i } => {
                let x = slot.update();
                assert_eq!(x.0, 6, "nor by another updater");
                x.0 += u64::from(i);
            }
        }
        Ok(())
    }
}

#[test]
fn a_sole_updater_copies_nothing_and_of_several_users_all_updaters_but_the_last_copy() {
    for (n_readers, n_updaters) in [(0, 1), (1, 0), (0, 2), (0, 5), (1, 1), (3, 1), (2, 3)] {
        for seed in 0..if cfg!(miri) { 1 } else { 100 } {
            for n_threads in [1, 2] {
                let space = Shared::new(n_readers, n_updaters);
                let report = run(&space, &Shuffled::new(seed).with_threads(n_threads)).unwrap();
                let (updates, others) = (u64::from(n_updaters), n_readers > 0);
                let least = updates.saturating_sub(1);
                let most = if others { updates } else { least };
                let copies = report.copies();
                let case = format!("{n_readers} readers, {n_updaters} updaters: {copies} copies");
                // On one thread, or without readers, it is exact; two updaters that look at the
                // same moment both copy.
                let slack = u64::from(n_threads > 1 && n_updaters > 1);
                assert!((least..=most + slack).contains(&copies), "{case}");
                for i in 0..n_updaters {
                    assert_eq!(
                        space.results.get(i as usize).unwrap().0,
                        6 + u64::from(i),
                        "{case}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_shared_update_copies_once_and_is_charged_to_its_class() {
    // The first of two updaters finds the other still waiting; the other is the last holder.
    let report = run(&Shared::new(0, 2), &Inline).unwrap();
    let by_class = report.copies_by_class.iter();
    let copies: Vec<_> = by_class.map(|(class, n)| (&**class, *n)).collect();
    assert_eq!(copies, [("Source", 0), ("Reader", 0), ("Updater", 1)]);
}

dataflow_core::task_names! { enum Step { Make {}, Look {}, Last {}, Other {} } }

/// `Last` updates what `Look` has read, and what `Look` has made.
struct Looked {
    results: Store<Number>,
}

impl TaskSpace for Looked {
    type Task = Step;
    type Datum = Number;
    fn describe(&self, about: &mut Description) {
        about.name("looked");
        about.class("Make").new_flow("READ");
        let look = about.class("Look").read("READ");
        look.new_flow("MADE").new_flow("OTHER");
        about.class("Last").update("READ").update("MADE");
        about.class("Other").update("OTHER");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = Step> + Send {
        [Step::Make {}, Step::Look {}, Step::Last {}, Step::Other {}].into_iter()
    }
    fn inputs(&self, task: Step, from: &mut impl Inputs<Self>) {
        match task {
            Step::Make {} => {}
            Step::Look {} => from.task(0, Step::Make {}, 0),
            Step::Last {} => {
                from.task(0, Step::Make {}, 0);
                from.task(1, Step::Look {}, 1);
            }
            Step::Other {} => from.task(0, Step::Look {}, 2),
        }
    }
    fn successors(&self, task: Step, to: &mut impl Successors<Self>) {
        match task {
            Step::Make {} => {
                to.task(0, Step::Look {}, 0);
                to.task(0, Step::Last {}, 0);
            }
            Step::Look {} => {
                to.task(2, Step::Other {}, 0);
                to.task(1, Step::Last {}, 1);
            }
            Step::Last {} => {
                to.home(0, &self.results, 0);
                to.home(1, &self.results, 1);
            }
            Step::Other {} => to.home(0, &self.results, 2),
        }
    }
    fn run(&self, task: Step, flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        match task {
            Step::Make {} => {
                let [read] = flows.slots();
                read.put(Number(1));
            }
            Step::Look {} => {
                let [_, made, other] = flows.slots();
                made.put(Number(2));
                other.put(Number(3));
            }
            Step::Last {} | Step::Other {} => {}
        }
        Ok(())
    }
}

/// Two workers: what the first one queues the second runs before the first goes on.
struct AtOnce;

struct Second {
    words: Vec<Word>,
}

struct First<'e> {
    give: &'e SyncSender<Word>,
    told: &'e Receiver<()>,
}

impl Lane for Second {
    fn worker(&self) -> usize {
        1
    }
    fn push(&mut self, word: Word, _: i64) {
        self.words.push(word);
    }
    fn pop(&mut self) -> Option<Word> {
        self.words.pop()
    }
    fn steal(&mut self) -> Option<Word> {
        None
    }
    fn outranks(&self, _: i64) -> bool {
        false
    }
}

impl Lane for First<'_> {
    fn worker(&self) -> usize {
        0
    }
    fn push(&mut self, word: Word, _: i64) {
        self.give.send(word).unwrap();
        self.told.recv().unwrap();
    }
    fn pop(&mut self) -> Option<Word> {
        None
    }
    fn steal(&mut self) -> Option<Word> {
        None
    }
    fn outranks(&self, _: i64) -> bool {
        false
    }
}

impl Executor for AtOnce {
    fn n_workers(&self) -> usize {
        2
    }
    fn execute(&self, job: &Arc<Job>) {
        let (give, given) = sync_channel(1);
        let (tell, told) = sync_channel(1);
        thread::scope(|threads| {
            threads.spawn(move || {
                for word in given {
                    let mut lane = Second { words: vec![word] };
                    job.enter().unwrap().work(&mut lane);
                    tell.send(()).unwrap();
                }
            });
            let (give, told) = (give, told);
            while let Some(work) = job.enter() {
                let mut lane = First {
                    give: &give,
                    told: &told,
                };
                work.work(&mut lane);
            }
        });
    }
}

#[test]
fn whoever_hands_a_datum_on_holds_neither_it_nor_what_it_has_read() {
    let space = Looked {
        results: Store::empty("results", 3),
    };
    verify(&space, 1).unwrap();
    let report = run(&space, &AtOnce).unwrap();
    assert_eq!(report.copies(), 0);
    assert_eq!(report.tasks_by_worker, [3, 1], "`Last` is queued");
}

#[test]
fn a_hundred_thousand_tasks_with_wide_names_run() {
    struct Wide(u64);
    impl TaskSpace for Wide {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("wide").class("Step").order("A").order("B");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            (0..self.0).map(|i| u64::MAX - i)
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            if task < u64::MAX {
                from.task(0, task + 1, 0);
                from.task(1, task + 1, 1);
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            if u64::MAX - task + 1 < self.0 {
                to.task(0, task - 1, 0);
                to.task(1, task - 1, 1);
            }
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    verify(&Wide(5), 1).unwrap();
    let n = if cfg!(miri) { 20 } else { 100_000 };
    for executor in [&Inline as &dyn Executor, &Shuffled::new(1).with_threads(2)] {
        assert_eq!(run(&Wide(n), executor).unwrap().tasks, n);
    }
}

#[test]
fn runs_one_after_another_cost_what_each_does() {
    let of_run = |number: u64, class: &str| {
        let mut report = Report::default();
        report.tasks = number;
        report.seconds = number as f64;
        report.tasks_by_worker = vec![1; number as usize];
        report.copies_by_class = vec![("Sweep".into(), 2 * number), (class.into(), 1)];
        (report.local_bytes, report.remote_bytes) = (3 * number, 4 * number);
        report
    };
    let both = of_run(1, "First").followed_by(of_run(2, "Second"));
    assert_eq!((both.tasks, both.seconds), (3, 3.0));
    assert_eq!(both.tasks_by_worker, [2, 1]);
    let copies = [("Sweep", 6), ("First", 1), ("Second", 1)];
    let copies = copies.map(|(class, copies)| (class.to_string(), copies));
    assert_eq!(both.copies_by_class, copies);
    assert_eq!((both.local_bytes, both.remote_bytes), (9, 12));
}

#[test]
fn runs_of_which_one_tells_nothing_of_its_bytes_tell_nothing_together() {
    let of_run = |tasks: u64, uniform: bool| {
        let mut report = Report::default();
        (report.tasks, report.uniform) = (tasks, uniform);
        report
    };
    for (first, next, share) in [
        (of_run(1, false), of_run(1, true), None),
        (of_run(1, true), of_run(1, false), None),
        (of_run(1, true), of_run(1, true), Some(1.0)),
        // One without tasks has read nothing, such as a sum's beginning.
        (Report::default(), of_run(1, true), Some(1.0)),
        (of_run(1, true), Report::default(), Some(1.0)),
    ] {
        let told = format!("{first:?} and {next:?}");
        assert_eq!(first.followed_by(next).local_share(), share, "{told}");
    }
}
