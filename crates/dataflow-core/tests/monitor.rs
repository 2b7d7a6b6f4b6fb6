//! A monitor says of a run what is known: not how many tasks there are before they are counted.

mod specimen;

use dataflow_core::monitor::{Monitor, Progress};
use dataflow_core::port::{Context, Executor, Inline};
use dataflow_core::prelude::*;
use dataflow_core::space::Independent;
use dataflow_core::{run, run_across};
use specimen::ranks::on_ranks;
use std::sync::Mutex;

/// It was `0 of 0`, or all of the run before.
#[test]
fn the_progress_of_a_run_has_no_count_until_its_tasks_are_counted() {
    /// A task a rank, which and whose count look at how far the run is.
    struct Watched<'m> {
        monitor: &'m Monitor,
        counting: Mutex<Option<Progress>>,
        running: Mutex<Option<Progress>>,
    }
    impl TaskSpace for Watched<'_> {
        type Task = u32;
        type Datum = u64;
        fn describe(&self, about: &mut Description) {
            about.name("watched").class("Task");
        }
        fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
            [on.0].into_iter()
        }
        fn inputs(&self, _: u32, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: u32, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u32, _: &mut Flows<'_, u64>) -> Result<(), TaskError> {
            *self.running.lock().unwrap() = Some(self.monitor.progress());
            Ok(())
        }
        fn rank(&self, task: u32) -> Rank {
            Rank(task)
        }
        fn count(&self, _: Rank) -> u64 {
            *self.counting.lock().unwrap() = Some(self.monitor.progress());
            1
        }
    }
    let watch = |on: &dyn Executor, monitor: &Monitor| {
        let watched = Watched {
            monitor,
            counting: Mutex::default(),
            running: Mutex::default(),
        };
        run_across(&watched, on).unwrap();
        let seen = [
            watched.counting,
            watched.running,
            Mutex::new(Some(monitor.progress())),
        ];
        seen.map(|seen| seen.into_inner().unwrap().map(|at| (at.done, at.count)))
    };
    let expected = [(0, None), (0, Some(1)), (1, Some(1))].map(Some);
    on_ranks(2, (5, 2), |courier| {
        let monitor = Monitor::new();
        let on = Context::new(&Inline).across(courier).watched_by(&monitor);
        for _ in 0..2 {
            assert_eq!(watch(&on, &monitor), expected);
        }
    });
    let monitor = Monitor::new();
    let on = Context::new(&Inline).watched_by(&monitor);
    for _ in 0..2 {
        assert_eq!(watch(&on, &monitor), expected);
    }
}

#[test]
fn a_space_that_cannot_be_counted_leaves_the_progress_of_the_run_before() {
    struct Uncountable;
    impl TaskSpace for Uncountable {
        type Task = u32;
        type Datum = ();
        fn describe(&self, _: &mut Description) {}
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
            0..1
        }
        fn inputs(&self, _: u32, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: u32, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u32, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
        fn count(&self, _: Rank) -> u64 {
            panic!("who knows")
        }
    }
    let monitor = Monitor::new();
    let on = Context::new(&Inline).watched_by(&monitor);
    run(&Independent::new("three", 3, |_| Ok(())), &on).unwrap();
    run(&Uncountable, &on).unwrap_err();
    let Progress { done, count, .. } = monitor.progress();
    assert_eq!((done, count), (3, Some(3)));
}
