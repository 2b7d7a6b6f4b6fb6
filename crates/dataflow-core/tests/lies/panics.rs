//! Formulas, names and lists that panic.

use super::*;

#[test]
fn formulas_that_panic_end_in_an_error_that_names_the_task() {
    /// Task 3 has no formula.
    struct Panicking {
        at_inputs: bool,
        roots: u64,
    }
    impl TaskSpace for Panicking {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("panicking").class("Task").order("A").order("B");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..6
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            assert!(!self.at_inputs || task != 3, "no inputs of 3");
            if task > 0 {
                from.task(0, task - 1, 0);
                from.task(1, task + 1, 0);
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            assert!(task != 2, "no successors of 2");
            to.task(0, task + 1, 0);
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
        fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            let n = self.roots;
            (0..9)
                .inspect(move |&root| assert!(root < n, "no root {root}"))
                .take(n as usize + 1)
        }
    }
    for (at_inputs, roots) in [(false, 0), (true, 0), (true, 2)] {
        for (name, executor) in executors() {
            let space = Panicking { at_inputs, roots };
            let error = within(|| name.clone(), || run(&space, &*executor)).unwrap_err();
            assert!(error.to_string().contains("no "), "{error}");
        }
    }
    // Nobody feeds 1 from 2: the stall report asks for the successors of 2, which panics.
    struct Quiet(Panicking);
    impl TaskSpace for Quiet {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            self.0.describe(about);
        }
        fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
            self.0.tasks(on)
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            if task == 1 {
                from.task(0, 0, 0);
                from.task(1, 2, 0);
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            assert!(task != 2, "no successors of 2");
            to.task(0, task + 1, 0);
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
        fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..1
        }
    }
    let error = run(
        &Quiet(Panicking {
            at_inputs: false,
            roots: 0,
        }),
        &Inline,
    )
    .unwrap_err();
    assert_eq!(error.kind(), Kind::Stalled, "{error}");
    assert!(error.to_string().contains("no successors of 2"), "{error}");
}

/// The task that the worker had run before was named.
#[test]
fn a_space_that_panics_between_two_tasks_is_not_taken_for_the_first_of_them() {
    struct NoSecondRoot;
    impl TaskSpace for NoSecondRoot {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("no second root").class("Task");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            (0..9).inspect(|&task| assert!(task < 1, "no root {task}"))
        }
        fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
        fn count(&self, _: Rank) -> u64 {
            9
        }
    }
    for (name, executor) in executors() {
        let error = within(|| name.clone(), || run(&NoSecondRoot, &*executor)).unwrap_err();
        assert_eq!((error.kind(), error.task()), (Kind::TaskPanicked, None));
        assert_eq!(error.message(), "panicked between tasks: no root 1");
    }
}

/// The task that the worker had run before was named.
#[test]
fn a_name_that_does_not_unpack_is_not_taken_for_the_task_before() {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct OneWay(u64);
    impl TaskName for OneWay {
        fn class(self) -> usize {
            0
        }
        fn pack(self) -> Option<u64> {
            Some(self.0)
        }
        fn unpack(packed: u64) -> Self {
            assert!(packed == 0, "no name {packed}");
            OneWay(0)
        }
    }
    /// Of tasks 1 and 2 one runs at once, and the other is queued.
    struct Pair;
    impl TaskSpace for Pair {
        type Task = OneWay;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("pair").class("Task").order("AFTER");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = OneWay> + Send {
            (0..3).map(OneWay)
        }
        fn inputs(&self, task: OneWay, from: &mut impl Inputs<Self>) {
            if task.0 > 0 {
                from.task(0, OneWay(0), 0);
            }
        }
        fn successors(&self, task: OneWay, to: &mut impl Successors<Self>) {
            if task.0 == 0 {
                to.range(0, 1..3, |target| OneWay(target.into()), 0);
            }
        }
        fn run(&self, _: OneWay, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    for (name, executor) in executors() {
        let error = within(|| name.clone(), || run(&Pair, &*executor)).unwrap_err();
        assert_eq!(error.kind(), Kind::TaskPanicked);
        assert!(error.task() != Some("OneWay(0)"), "{error}");
        assert!(error.message().contains("panicked"), "{error}");
        assert!(error.message().contains(": no name "), "{error}");
    }
}

/// The panic left `run`.
#[test]
fn a_name_that_panics_when_a_report_shows_it_ends_in_an_error() {
    #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct Unspeakable;
    impl std::fmt::Debug for Unspeakable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no words")
        }
    }
    impl TaskName for Unspeakable {
        fn class(self) -> usize {
            0
        }
        fn pack(self) -> Option<u64> {
            Some(0)
        }
        fn unpack(_: u64) -> Self {
            Unspeakable
        }
    }
    /// Takes a datum and keeps it.
    struct Keeps(Store<Number>);
    impl TaskSpace for Keeps {
        type Task = Unspeakable;
        type Datum = Number;
        fn describe(&self, about: &mut Description) {
            about.name("keeps").class("Task").update("MAIN");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = Unspeakable> + Send {
            std::iter::once(Unspeakable)
        }
        fn inputs(&self, _: Unspeakable, from: &mut impl Inputs<Self>) {
            from.home(0, &self.0, 0);
        }
        fn successors(&self, _: Unspeakable, _: &mut impl Successors<Self>) {}
        fn run(&self, _: Unspeakable, _: &mut Flows<'_, Number>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    for (name, executor) in executors() {
        let space = Keeps(Store::new("store", [Number(1)]));
        let error = within(|| name.clone(), || run(&space, &*executor)).unwrap_err();
        assert_eq!(error.kind(), Kind::NotBroughtBack, "{error}");
        assert!(error.message().ends_with("no words"), "{error}");
    }
}

/// The task was named that had fed it, or none.
#[test]
fn inputs_that_panic_are_told_with_the_task_that_they_were_asked_of() {
    struct Chain {
        knows_roots: bool,
    }
    impl TaskSpace for Chain {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("chain").class("Task").order("AFTER");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..6
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            assert!(task != 3, "no inputs here");
            if task > 0 {
                from.task(0, task - 1, 0);
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            if task < 5 {
                to.task(0, task + 1, 0);
            }
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
        fn roots(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
            let only_first = self.knows_roots;
            let is_root = move |&task: &u64| match only_first {
                true => task == 0,
                false => dataflow_core::space::is_root(self, task),
            };
            self.tasks(on).filter(is_root)
        }
    }
    for knows_roots in [true, false] {
        for (name, executor) in executors() {
            let space = Chain { knows_roots };
            let error = within(|| name.clone(), || run(&space, &*executor)).unwrap_err();
            let text = "asked about 3, the space panicked: no inputs here";
            let told = (error.kind(), error.task(), error.message());
            assert_eq!(told, (Kind::TaskPanicked, Some("3"), text));
        }
    }
}
