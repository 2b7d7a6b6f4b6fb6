//! Spaces that lie at run time end in a named error, or do no harm: never a hang, never a panic
//! out of `run`, never a store with a hole.
//!
//! Small enough for Miri: `cargo +nightly miri test -p dataflow-core-tests --test lies`.

mod specimen;

use dataflow_core::port::{Context, Executor, Inline, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::space::Independent;
use dataflow_core::trace::Tracer;
use dataflow_core::{Error, error::Kind, run, run_across};
use specimen::forgetful::Forgetful;
use specimen::ranks::on_ranks;
use specimen::wavefront::{Naming, Wavefront};
use specimen::{
    Cholesky, Mixed, Mutant, Mutation, Number, Specimen, Twist, mutations, tried, within,
};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Small under Miri, for which a run is a long time.
mod size {
    pub const N_SEEDS: u64 = if cfg!(miri) { 1 } else { 2 };
    /// Mutants of each space that Miri tries.
    pub const BY_MIRI: usize = 12;
    /// Orders, and every which other end of an edge is tried.
    pub const CHOLESKY: &[(u32, usize)] = match cfg!(miri) {
        true => &[(1, 1), (2, 1), (3, 1)],
        false => &[(1, 1), (2, 1), (3, 1), (4, 31)],
    };
    pub const WAVEFRONT: &[u32] = if cfg!(miri) { &[1, 3] } else { &[1, 2, 3] };
    pub const MIXED: &[(u32, usize)] = match cfg!(miri) {
        true => &[(2, 1), (3, 7)],
        false => &[(2, 1), (3, 7), (9, 97)],
    };
    /// Flows that no class has, beside those of wide classes and words.
    pub const FLOWS: &[usize] = match cfg!(miri) {
        true => &[4, usize::MAX],
        false => &[4, 6, 7, 100, usize::MAX / 2, usize::MAX],
    };
}

/// Inline, and some shuffled orders on one and on two threads.
fn executors() -> Vec<(String, Box<dyn Executor>)> {
    let mut all: Vec<(String, Box<dyn Executor>)> = vec![("inline".into(), Box::new(Inline))];
    for seed in 0..size::N_SEEDS {
        for n_threads in [1, 2] {
            let shuffled = Shuffled::new(seed).with_threads(n_threads);
            all.push((format!("{shuffled:?}"), Box::new(shuffled)));
        }
    }
    all
}

/// Runs a mutant in every way, under Miri in one: each way in its turn. `harmless` mutants may end well, whatever the outcome; all others
/// must fail, or leave behind what the right space does.
fn try_mutant<S: Specimen>(
    space: &S,
    (mutation, turn): (&Mutation<S::Task>, usize),
    right: &[u64],
    harmless: bool,
) -> Result<(), String> {
    let executors = executors();
    let ways = executors.iter().flat_map(|on| [(on, false), (on, true)]);
    let n_ways = 2 * executors.len();
    let (first, step) = if cfg!(miri) {
        (turn % n_ways, n_ways)
    } else {
        (0, 1)
    };
    for ((name, executor), follow) in ways.skip(first).step_by(step) {
        let mut mutant = Mutant::new(space, mutation);
        if follow {
            mutant = mutant.with_roots_that_follow();
        }
        let hangs = || format!("{mutation:?} on {name}, roots follow: {follow}");
        let result = within(hangs, || run(&mutant, &**executor));
        let holes = mutant.space().holes();
        if !holes.is_empty() {
            return Err(format!("{}: {holes:?} empty after {result:?}", hangs()));
        }
        match result {
            Ok(_) if !harmless && mutant.space().outcome() != right => {
                let text = "not noticed, and the outcome is wrong";
                return Err(format!("{}: {text}", hangs()));
            }
            Err(error) if error.kind() == Kind::TaskPanicked => {
                return Err(format!("{}: {error}", hangs()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn no_mutant_does_harm<S: Specimen>(
    space: &S,
    stride: usize,
    harmless: impl Fn(&Mutation<S::Task>) -> bool,
) {
    let model = space.fresh();
    run(&model, &Inline).unwrap();
    let right = model.outcome();
    let all = mutations(space, 1, stride);
    let tried = tried(&all, size::BY_MIRI).zip(0..);
    let faults: Vec<_> = tried
        .filter_map(|tried| try_mutant(space, tried, &right, harmless(tried.0)).err())
        .collect();
    let (n, some) = (faults.len(), &faults[..faults.len().min(12)]);
    assert!(faults.is_empty(), "{n} of {}, such as {some:#?}", all.len());
}

#[test]
fn no_mutant_of_the_cholesky_shape_does_harm() {
    use specimen::cholesky::Task;
    for &(nt, stride) in size::CHOLESKY {
        let space = Cholesky::new(nt, (1, 1));
        no_mutant_does_harm(&space, stride, |mutation| match mutation {
            // What comes from or goes home by the wrong flow or slot may go unnoticed: `verify`'s
            // work.
            Mutation::Input(.., Twist::Slot(_)) => true,
            Mutation::Output(Task::Potrf { k }, nth, _) => *nth == (nt - 1 - k) as usize,
            Mutation::Output(Task::Trsm { m, k }, nth, _) => *nth == (nt - k - 1) as usize && m > k,
            _ => false,
        });
    }
}

#[test]
fn no_mutant_of_a_wavefront_does_harm() {
    for naming in [Naming::Packed, Naming::Wide, Naming::Dense, Naming::Huge] {
        for &side in size::WAVEFRONT {
            no_mutant_does_harm(&Wavefront::named(side, naming), 1, |_| false);
        }
    }
}

#[test]
fn no_mutant_of_a_space_with_one_of_everything_does_harm() {
    use specimen::mixed::Task;
    for &(n, stride) in size::MIXED {
        no_mutant_does_harm(&Mixed::new(n), stride, |mutation| {
            matches!(
                mutation,
                // Another datum from home: another space.
                Mutation::Input(.., Twist::Slot(_))
                    // What goes home as another flow, elsewhere or not at all.
                    | Mutation::Output(Task::Work { .. }, 2, _)
            ) || matches!(mutation, Mutation::Output(Task::Sum {}, nth, _) if *nth == n as usize)
        });
    }
}

/// A space written as a table, to tell any lie: by task, its inputs and its outputs.
#[derive(Clone, Default)]
struct Table {
    tasks: Vec<(Vec<End>, Vec<End>)>,
    roots: Option<Vec<u32>>,
    count: Option<u64>,
    elsewhere: Vec<u32>,
    class: usize,
}

/// (own flow, task, its flow), or a slot at home.
#[derive(Clone, Copy)]
enum End {
    Task(usize, u32, usize),
    Home(usize, usize),
}
use End::{Home, Task};

struct Told {
    table: Table,
    store: Store<Number>,
}

/// A name with a class of the teller's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Name {
    task: u32,
    class: u8,
}

impl TaskName for Name {
    fn class(self) -> usize {
        self.class.into()
    }
    fn pack(self) -> Option<u64> {
        Some(u64::from(self.task) << 8 | u64::from(self.class))
    }
    fn unpack(packed: u64) -> Self {
        Name {
            task: (packed >> 8) as u32,
            class: packed as u8,
        }
    }
}

impl Told {
    fn new(table: Table) -> Self {
        Told {
            table,
            store: Store::new("store", (0..4).map(Number)),
        }
    }

    fn name(&self, task: u32) -> Name {
        Name {
            task,
            class: self.table.class as u8,
        }
    }

    fn ends(&self, task: Name) -> Option<&(Vec<End>, Vec<End>)> {
        self.table.tasks.get(task.task as usize)
    }
}

impl TaskSpace for Told {
    type Task = Name;
    type Datum = Number;

    fn describe(&self, about: &mut Description) {
        about.name("told");
        about
            .class("Told")
            .update("MAIN")
            .read("SIDE")
            .new_flow("MADE")
            .order("AFTER");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = Name> + Send {
        (0..self.table.tasks.len() as u32).map(|task| self.name(task))
    }
    fn inputs(&self, task: Name, from: &mut impl Inputs<Self>) {
        for end in self.ends(task).iter().flat_map(|(inputs, _)| inputs) {
            match *end {
                Task(flow, other, other_flow) => from.task(flow, self.name(other), other_flow),
                Home(flow, index) => from.home(flow, &self.store, index),
            }
        }
        // What the table does not say: everybody reads slot 3.
        let of_side = |end: &End| matches!(end, Task(SIDE, ..) | Home(SIDE, _));
        if self
            .ends(task)
            .is_some_and(|(inputs, _)| !inputs.iter().any(of_side))
        {
            from.home(SIDE, &self.store, 3);
        }
    }
    fn successors(&self, task: Name, to: &mut impl Successors<Self>) {
        for end in self.ends(task).iter().flat_map(|(_, outputs)| outputs) {
            match *end {
                Task(flow, other, other_flow) => to.task(flow, self.name(other), other_flow),
                Home(flow, index) => to.home(flow, &self.store, index),
            }
        }
    }
    fn run(&self, _: Name, flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        let [main, side, made, after] = flows.slots();
        let _ = (side, made, after);
        main.update().0 += 1;
        Ok(())
    }
    fn rank(&self, task: Name) -> Rank {
        Rank(u32::from(self.table.elsewhere.contains(&task.task)))
    }
    fn roots(&self, on: Rank) -> impl Iterator<Item = Name> + Send {
        let own = self
            .table
            .roots
            .iter()
            .flatten()
            .map(|&root| self.name(root));
        let found = self.tasks(on).filter(|&task| {
            let ends = self.ends(task);
            self.table.roots.is_none()
                && ends.is_some_and(|(inputs, _)| !inputs.iter().any(|e| matches!(e, Task(..))))
        });
        own.chain(found)
    }
    fn count(&self, on: Rank) -> u64 {
        self.table
            .count
            .unwrap_or_else(|| self.tasks(on).count() as u64)
    }
}

const MAIN: usize = 0;
const SIDE: usize = 1;
const MADE: usize = 2;
const AFTER: usize = 3;

/// Task 0 takes slot 0, changes it and hands it to task 1, which brings it home.
fn pair() -> Table {
    Table {
        tasks: vec![
            (vec![Home(MAIN, 0)], vec![Task(MAIN, 1, MAIN)]),
            (vec![Task(MAIN, 0, MAIN)], vec![Home(MAIN, 0)]),
        ],
        ..Table::default()
    }
}

/// Runs a table everywhere; every error must be of this kind and its text hold these words.
fn ends_in(table: &Table, kind: Kind, words: &[&str]) {
    for (name, executor) in executors() {
        let told = Told::new(table.clone());
        let result = within(|| format!("{kind:?} on {name}"), || run(&told, &*executor));
        let error: Error = result.expect_err("the lie is noticed");
        assert_eq!(error.kind(), kind, "{error} on {name}");
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{text:?} does not name {word:?}");
        }
        assert!(
            (0..4).all(|slot| told.store.get(slot).is_some()),
            "a hole after {error} on {name}"
        );
        run(&Told::new(pair()), &*executor).expect("the executor works afterwards");
    }
}

#[test]
fn the_table_itself_is_right() {
    let told = Told::new(pair());
    verify(&told, 1).unwrap();
    run(&told, &Inline).unwrap();
    assert_eq!(told.store.get(0).unwrap().0, 2);
}

#[test]
fn a_count_that_is_wrong_is_told() {
    ends_in(
        &Table {
            count: Some(3),
            ..pair()
        },
        Kind::Stalled,
        &["1 of 3", "ever reached"],
    );
    ends_in(
        &Table {
            count: Some(1),
            ..pair()
        },
        Kind::CountExceeded,
        &["1"],
    );
    ends_in(
        &Table {
            count: Some(0),
            ..pair()
        },
        Kind::CountExceeded,
        &["0"],
    );
    ends_in(
        &Table {
            count: Some(u64::MAX),
            ..pair()
        },
        Kind::Stalled,
        &["ever reached"],
    );
}

#[test]
fn a_missing_edge_names_who_waits_for_whom() {
    // Task 1 has two inputs; nobody sends the second.
    let mut table = pair();
    table.tasks[1].0.push(Task(AFTER, 2, AFTER));
    table.tasks.push((vec![Home(MAIN, 1)], vec![]));
    let words = ["task: 1", "AFTER from Name { task: 2", "does not list it"];
    ends_in(&table, Kind::Stalled, &words);
}

#[test]
fn a_doubled_edge_is_told() {
    let mut table = pair();
    // Before the datum: task 1 still waits when the second comes.
    table.tasks[0].1.insert(0, Task(AFTER, 1, AFTER));
    table.tasks[0].1.insert(0, Task(AFTER, 1, AFTER));
    table.tasks[1].0.push(Task(AFTER, 0, AFTER));
    table.tasks[1].0.push(Task(SIDE, 2, MAIN));
    table
        .tasks
        .push((vec![Home(MAIN, 1)], vec![Task(MAIN, 1, SIDE)]));
    ends_in(&table, Kind::FedTwice, &["task: 0", "AFTER of", "task: 1"]);
    let mut table = pair();
    table.tasks[1].0.push(Task(MAIN, 0, MAIN));
    ends_in(
        &table,
        Kind::NotExpected,
        &["task: 0", "MAIN of", "task: 1"],
    );
}

/// Task 1 ran twice and task 2 never, and the run ended well.
#[test]
fn an_edge_that_is_named_twice_is_told_even_where_one_input_suffices() {
    // Also beside many others, out of order.
    for n_targets in [2, 3, 16, 17, 40] {
        let mut targets: Vec<u32> = (1..=n_targets).collect();
        targets[n_targets as usize - 1] = 1;
        let to_each = targets.iter().map(|&target| Task(MAIN, target, MAIN));
        let mut table = Table::default();
        let outputs = [Home(MAIN, 0)].into_iter().chain(to_each).collect();
        table.tasks.push((vec![Home(MAIN, 0)], outputs));
        let from_first = || (vec![Task(MAIN, 0, MAIN)], vec![]);
        table.tasks.extend((0..n_targets).map(|_| from_first()));
        ends_in(&table, Kind::FedTwice, &["task: 0", "MAIN of", "task: 1,"]);
    }
}

/// One task feeds so many, but the first of them in place of the last; across ranks if there are several.
struct InPlaceOfTheLast<D> {
    n_targets: u32,
    across: bool,
    datum: fn() -> Option<D>,
}

impl<D: Datum> TaskSpace for InPlaceOfTheLast<D> {
    type Task = u32;
    type Datum = D;
    fn describe(&self, about: &mut Description) {
        about.name("in place of the last");
        match (self.datum)() {
            Some(_) => about.class("Task").new_flow("OUT").optional("IN"),
            None => about.class("Task").order("OUT").order("IN"),
        };
    }
    fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
        (0..=self.n_targets).filter(move |task| self.rank(*task) == on)
    }
    fn rank(&self, task: u32) -> Rank {
        Rank(u32::from(self.across && task > 0))
    }
    fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
        if task > 0 {
            from.task(1, 0, 0);
        }
    }
    fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
        if task == 0 {
            let or_first = |target| if target == self.n_targets { 1 } else { target };
            to.range(0, 1..self.n_targets + 1, or_first, 1);
        }
    }
    fn run(&self, _: u32, flows: &mut Flows<'_, D>) -> Result<(), TaskError> {
        if let Some(datum) = (self.datum)() {
            let [out, _] = flows.slots();
            out.put(datum);
        }
        Ok(())
    }
}

/// The loop of tasks without data is a matter of nanoseconds.
#[test]
fn debug_builds_tell_of_an_edge_without_data_that_is_named_twice() {
    for n_targets in if cfg!(debug_assertions) {
        &[2, 3, 16, 17, 40][..]
    } else {
        &[]
    } {
        let space = InPlaceOfTheLast::<()> {
            n_targets: *n_targets,
            across: false,
            datum: || None,
        };
        for (name, executor) in executors() {
            let error = within(|| name.clone(), || run(&space, &*executor)).unwrap_err();
            assert_eq!((error.kind(), error.task()), (Kind::FedTwice, Some("1")));
            assert_eq!(
                error.message(),
                "0 feeds IN of 1, which had been fed before"
            );
        }
    }
}

/// Whichever lay first in a table was named.
#[test]
fn of_tasks_that_are_fed_after_they_ran_the_first_is_named() {
    /// All are roots, though the first feeds the others, each of which names a second source.
    struct AllRoots;
    const N_FED: u32 = 40;
    impl TaskSpace for AllRoots {
        type Task = u32;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("all roots");
            about.class("Task").order("OUT").order("ONE").order("OTHER");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
            0..=N_FED
        }
        fn roots(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
            0..=N_FED
        }
        fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
            if task > 0 {
                from.task(1, 0, 0);
                from.task(2, task, 0);
            }
        }
        fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
            if task == 0 {
                (1..=N_FED).for_each(|fed| to.task(0, fed, 1));
            }
        }
        fn run(&self, _: u32, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    for (name, executor) in executors() {
        let error = within(|| name, || run(&AllRoots, &*executor)).unwrap_err();
        assert_eq!((error.kind(), error.task()), (Kind::FedTwice, Some("1")));
        let text = "all 41 tasks ran, but 40 were fed once more afterwards";
        assert!(error.message().starts_with(text), "{error}");
        assert!(error.message().contains("OTHER of 1 says"), "{error}");
    }
}

#[test]
fn an_edge_to_another_rank_that_is_named_twice_is_told() {
    let space = InPlaceOfTheLast {
        n_targets: 3,
        across: true,
        datum: || Some(Number(7)),
    };
    let (told, _) = on_ranks(2, (1, 2), |courier| {
        run_across(&space, &Context::new(&Inline).across(courier))
    });
    for told in told {
        let error = told.unwrap_err();
        assert_eq!(
            (error.kind(), error.task()),
            (Kind::FedTwice, Some("1")),
            "{error}"
        );
    }
}

#[test]
fn an_edge_that_its_target_does_not_expect_is_told() {
    let mut table = pair();
    table.tasks[0].1.push(Task(AFTER, 1, AFTER));
    ends_in(
        &table,
        Kind::NotExpected,
        &["task: 0", "AFTER of", "task: 1"],
    );
}

#[test]
fn an_edge_to_the_wrong_task_is_told_even_where_one_input_suffices() {
    // 0 → 1 and 2 → 3, but 2 feeds 1: task 1 would run twice, and task 3 never.
    let mut table = pair();
    table
        .tasks
        .push((vec![Home(MAIN, 1)], vec![Task(MAIN, 1, MAIN)]));
    table
        .tasks
        .push((vec![Task(MAIN, 2, MAIN)], vec![Home(MAIN, 1)]));
    ends_in(
        &table,
        Kind::NotExpected,
        &["task: 2", "MAIN of", "task: 1"],
    );
}

#[test]
fn an_edge_to_a_task_that_is_not_listed_is_told() {
    let mut table = pair();
    table.tasks[0].1.push(Task(MAIN, 7, MAIN));
    ends_in(&table, Kind::NotExpected, &["task: 7"]);
}

#[test]
fn cycles_and_loops_end() {
    // 0 → 1 → 2 → 1 …: all with one input each.
    let mut table = pair();
    table.tasks[1] = (vec![Task(MAIN, 0, MAIN)], vec![Task(MAIN, 2, MAIN)]);
    table
        .tasks
        .push((vec![Task(MAIN, 1, MAIN)], vec![Task(MAIN, 1, MAIN)]));
    ends_in(&table, Kind::NotExpected, &["task: 2", "task: 1"]);
    // A circle that nobody enters, and a task that waits for itself.
    let mut table = pair();
    table
        .tasks
        .push((vec![Task(MAIN, 3, MAIN)], vec![Task(MAIN, 3, MAIN)]));
    table
        .tasks
        .push((vec![Task(MAIN, 2, MAIN)], vec![Task(MAIN, 2, MAIN)]));
    table
        .tasks
        .push((vec![Task(MAIN, 4, MAIN)], vec![Task(MAIN, 4, MAIN)]));
    ends_in(&table, Kind::Stalled, &["3 of 5"]);
    // The same circle, announced as a root: endless, but for the count.
    ends_in(
        &Table {
            roots: Some(vec![0, 4]),
            ..table
        },
        Kind::FlowEmpty,
        &["MAIN", "task: 4"],
    );
}

#[test]
fn a_circle_of_tasks_that_only_order_each_other_ends() {
    struct Circle(u64);
    impl TaskSpace for Circle {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("circle").class("Step").order("AFTER");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..self.0
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            from.task(0, (task + self.0 - 1) % self.0, 0);
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            to.task(0, (task + 1) % self.0, 0);
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
        fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..1
        }
    }
    for n in [1, 2, 10] {
        for (name, executor) in executors() {
            let result = within(
                || format!("circle of {n} on {name}"),
                || run(&Circle(n), &*executor),
            );
            let error = result.unwrap_err();
            assert_eq!(error.kind(), Kind::CountExceeded, "{error}");
        }
    }
}

#[test]
fn slots_that_do_not_exist_or_are_taken_twice_are_told() {
    let mut table = pair();
    table.tasks[0].0[0] = Home(MAIN, 9);
    ends_in(
        &table,
        Kind::HomeEmpty,
        &["slot 9 of store", "4 slots", "task: 0", "MAIN"],
    );
    let mut table = pair();
    table.tasks[1].1[0] = Home(MAIN, 9);
    ends_in(
        &table,
        Kind::HomeEmpty,
        &["slot 9 of store", "4 slots", "task: 1"],
    );
    // Task 2 takes slot 0 while it is lent to the others, unless it comes first or last.
    let mut table = pair();
    table
        .tasks
        .push((vec![Home(MAIN, 0), Home(SIDE, 0)], vec![Home(MAIN, 0)]));
    ends_in(&table, Kind::HomeEmpty, &["slot 0 of store", "lent"]);
}

/// Two tasks put different data into one slot: three hundred runs ended well, with five results.
#[test]
fn a_slot_that_two_tasks_put_is_told_with_both() {
    let mut table = pair();
    table
        .tasks
        .push((vec![Home(MAIN, 1)], vec![Home(MAIN, 0), Home(MAIN, 1)]));
    let words = ["task: 1,", "task: 2,", "both put slot 0 of store"];
    ends_in(&table, Kind::PutTwice, &words);
    let mut table = pair();
    table.tasks[1].1.push(Home(SIDE, 0));
    ends_in(
        &table,
        Kind::PutTwice,
        &["task: 1,", "puts slot 0 of store twice"],
    );
}

#[test]
fn a_datum_that_is_not_brought_back_is_told() {
    let mut table = pair();
    table.tasks[1].1.clear();
    let words = [
        "task: 0,",
        "takes slot 0 of store, which nobody brings back",
    ];
    ends_in(&table, Kind::NotBroughtBack, &words);
    let mut table = pair();
    table.tasks[1].1 = vec![Home(MAIN, 2)];
    ends_in(&table, Kind::NotBroughtBack, &words);
    // Task 2 takes slot 1 before task 1 puts its own datum there, or after.
    let mut table = pair();
    table.tasks[1].1.push(Home(MAIN, 1));
    table.tasks[1].0.push(Task(AFTER, 2, AFTER));
    table.tasks.push((
        vec![Home(MAIN, 1)],
        vec![Task(AFTER, 1, AFTER), Home(MAIN, 1)],
    ));
    ends_in(&table, Kind::PutTwice, &["slot 1 of store"]);
    let mut table = pair();
    table.tasks[1]
        .1
        .extend([Home(MAIN, 1), Task(AFTER, 2, AFTER)]);
    let last = (vec![Home(MAIN, 1), Task(AFTER, 1, AFTER)], vec![]);
    table.tasks.push(last);
    ends_in(
        &table,
        Kind::HomeEmpty,
        &["slot 1 of store", "another has put"],
    );
    // Two that swap bring both back, if neither puts before the other has taken.
    let takes = |slot, then, other| {
        let outputs = vec![Task(MAIN, then, MAIN), Task(AFTER, other, AFTER)];
        (vec![Home(MAIN, slot)], outputs)
    };
    let puts = |slot, first, other| {
        let inputs = vec![Task(MAIN, first, MAIN), Task(AFTER, other, AFTER)];
        (inputs, vec![Home(MAIN, slot)])
    };
    let table = Table {
        tasks: vec![takes(0, 1, 3), puts(1, 0, 2), takes(1, 3, 1), puts(0, 2, 0)],
        ..Table::default()
    };
    for (_, executor) in executors() {
        for _ in 0..2 {
            run(&Told::new(table.clone()), &*executor).unwrap();
        }
    }
}

/// A worker that looked for roots held a lock for which the others waited, while tasks were ready.
#[test]
fn whoever_looks_for_roots_keeps_nobody_from_ready_tasks() {
    /// Task 0 is before 1 and 2, which wait for one another; the next root is looked for until then.
    struct Slow {
        met: AtomicU32,
    }
    impl Slow {
        fn wait(&self) -> bool {
            let begin = Instant::now();
            while self.met.load(Relaxed) < 2 && begin.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            self.met.load(Relaxed) == 2
        }
    }
    impl TaskSpace for Slow {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("slow").class("Task").order("AFTER");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..3
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            if task > 0 {
                from.task(0, 0, 0);
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            if task == 0 {
                (1..3).for_each(|task| to.task(0, task, 0));
            }
        }
        fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            // Two, so that no worker has both in its first chunk.
            (0..2).filter(|&root| root == 0 || !self.wait())
        }
        fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            if task > 0 {
                self.met.fetch_add(1, Relaxed);
                return if self.wait() {
                    Ok(())
                } else {
                    Err("alone".into())
                };
            }
            Ok(())
        }
    }
    let met = AtomicU32::new(0);
    run(&Slow { met }, &Shuffled::new(1).with_threads(3)).unwrap();
}

#[test]
fn a_flow_fed_by_a_task_and_from_home_is_told() {
    let mut table = pair();
    table.tasks[1].0.push(Home(MAIN, 1));
    ends_in(&table, Kind::FedTwice, &["MAIN", "task: 1"]);
}

#[test]
fn roots_that_are_missing_doubled_or_no_roots_are_told() {
    ends_in(
        &Table {
            roots: Some(vec![]),
            ..pair()
        },
        Kind::Stalled,
        &["2 of 2", "ever reached"],
    );
    ends_in(
        &Table {
            roots: Some(vec![1]),
            ..pair()
        },
        Kind::FlowEmpty,
        &["MAIN", "task: 1"],
    );
    // Doubled: slot 0 is taken a second time while lent, or everything runs twice.
    let doubled = Table {
        roots: Some(vec![0, 0]),
        ..pair()
    };
    for (name, executor) in executors() {
        let told = Told::new(doubled.clone());
        let error = within(|| name.clone(), || run(&told, &*executor)).unwrap_err();
        assert!(
            matches!(error.kind(), Kind::HomeEmpty | Kind::CountExceeded),
            "{error}"
        );
        assert!(told.store.get(0).is_some());
    }
}

#[test]
fn flows_and_classes_that_are_not_described_are_told() {
    ends_in(
        &Table { class: 5, ..pair() },
        Kind::NotDescribed,
        &["class 5", "task: 0"],
    );
    let mut table = pair();
    table.tasks[0].1.push(Home(6, 0));
    ends_in(&table, Kind::NotDescribed, &["flow 6", "task: 0"]);
    for &flow in size::FLOWS {
        let mut table = pair();
        table.tasks[0].1.push(Task(AFTER, 1, flow));
        table.tasks[1].0.push(Task(flow, 0, AFTER));
        ends_in(&table, Kind::NotDescribed, &["task: 1"]);
        let mut table = pair();
        table.tasks[0].1[0] = Task(flow, 1, MAIN);
        table.tasks[1].0[0] = Task(MAIN, 0, flow);
        ends_in(&table, Kind::NotDescribed, &["task: 0"]);
        let mut table = pair();
        table.tasks[0].0[0] = Home(flow, 0);
        ends_in(&table, Kind::NotDescribed, &["task: 0"]);
    }
}

#[test]
fn new_data_that_were_not_made_are_told() {
    let mut table = pair();
    table.tasks[0].1.push(Home(MADE, 1));
    ends_in(&table, Kind::FlowEmpty, &["MADE", "task: 0"]);
    let mut table = pair();
    table.tasks[0].1[0] = Task(MADE, 1, MAIN);
    ends_in(&table, Kind::FlowEmpty, &["MADE", "task: 0"]);
}

#[test]
fn an_order_edge_into_a_flow_that_is_read_is_told() {
    let mut table = pair();
    table.tasks[0].1.push(Task(AFTER, 1, SIDE));
    table.tasks[1].0.push(Task(SIDE, 0, AFTER));
    ends_in(&table, Kind::FlowEmpty, &["SIDE", "task: 1"]);
}

#[test]
fn a_task_placed_elsewhere_is_told() {
    ends_in(
        &Table {
            elsewhere: vec![1],
            ..pair()
        },
        Kind::NoSuchRank,
        &["task: 1", "rank 1"],
    );
}

#[test]
fn tasks_dealt_out_to_more_ranks_than_there_are_are_refused_and_not_left_out() {
    let space = Independent::new("squares", 100, |_| Ok(()));
    assert!(run(&space.clone().across(1), &Inline).is_ok());
    let error = run(&space.clone().across(3), &Inline).unwrap_err();
    assert_eq!(error.kind(), Kind::NoSuchRank);
    let text = error.to_string();
    assert!(
        text.contains("squares") && text.contains("3 ranks, and there are 1"),
        "{text}"
    );
    let fault = verify(&space.clone().across(3), 2).unwrap_err().to_string();
    assert!(fault.contains("3 ranks, and there are 2"), "{fault}");
    verify(&space.across(3), 3).unwrap();
}

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
        assert_eq!((error.kind(), error.task()), (Kind::TaskPanicked, None));
        let begins = "panicked between tasks: no name ";
        assert!(error.message().starts_with(begins), "{error}");
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

/// A task with so many inputs, each from a task of its own.
struct Funnel {
    inputs: u64,
    /// This one feeds a flow that the last task names as another's.
    astray: Option<u64>,
    /// This one feeds its flow twice.
    twice: Option<u64>,
    asked: AtomicU32,
}

impl TaskSpace for Funnel {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        let mut class = about.name("funnel").class("Task");
        for flow in 0..self.inputs {
            class = class.order(&format!("IN{flow}"));
        }
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..=self.inputs
    }
    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task == self.inputs {
            self.asked.fetch_add(1, Relaxed);
            (0..self.inputs).for_each(|source| from.task(source as usize, source, 0));
        }
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task < self.inputs {
            let flow = if self.astray == Some(task) { 0 } else { task };
            for _ in 0..1 + u32::from(self.twice == Some(task)) {
                to.task(0, self.inputs, flow as usize);
            }
        }
    }
    fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.inputs
    }
    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        match task {
            9 if self.inputs == 21 => Err("as told".into()),
            _ => Ok(()),
        }
    }
}

/// The space was asked for all inputs of a task at each arrival: forty thousand took 0.8 s.
#[test]
fn a_task_with_many_inputs_is_asked_for_them_a_few_times() {
    let funnel = |inputs, astray, twice| Funnel {
        inputs,
        astray,
        twice,
        asked: AtomicU32::new(0),
    };
    for (_, on) in executors() {
        for inputs in [
            2,
            7,
            8,
            9,
            14,
            15,
            16,
            17,
            40,
            if cfg!(miri) { 50 } else { 3000 },
        ] {
            let space = funnel(inputs, None, None);
            assert_eq!(run(&space, &*on).unwrap().tasks, inputs + 1);
            // One more for the data from home, and some when two workers learn at once.
            let asked = space.asked.into_inner();
            assert!(asked <= 20, "{asked} times of {inputs} inputs");
        }
        let failed = run(&funnel(21, None, None), &*on).unwrap_err();
        assert_eq!(failed.task(), Some("9"));
        for task in [3, 14, 15, 16, 39] {
            let astray = run(&funnel(40, Some(task), None), &*on).unwrap_err();
            assert_eq!(astray.kind(), Kind::NotExpected, "{astray}");
            let twice = run(&funnel(40, None, Some(task)), &*on).unwrap_err();
            assert_eq!(twice.kind(), Kind::FedTwice, "{twice}");
        }
    }
}

/// One input of each of ten thousand was missing, and each was named: 558 kB.
#[test]
fn a_stall_names_a_few_missing_inputs_and_counts_the_rest() {
    struct Short {
        inputs: u64,
    }
    impl TaskSpace for Short {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            let mut class = about.name("short").class("Task");
            for flow in 0..self.inputs {
                class = class.order(&format!("IN{flow}"));
            }
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..2
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            if task == 1 {
                (0..self.inputs).for_each(|flow| from.task(flow as usize, flow * 2, 0));
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            if task == 0 {
                to.task(0, 1, 0);
            }
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    for inputs in [5, 500] {
        let stalled = run(&Short { inputs }, &Inline).unwrap_err();
        let text = stalled.to_string();
        assert_eq!(stalled.kind(), Kind::Stalled);
        assert!(text.contains("IN1 from 2") && text.len() < 1000, "{text}");
        assert_eq!(
            text.contains("and 491 more inputs"),
            inputs == 500,
            "{text}"
        );
    }
}

#[test]
fn a_space_without_rank_is_told_so_on_several_ranks() {
    let told = verify(&Forgetful, 2).unwrap_err().to_string();
    assert!(told.contains("has the space a method `rank`?"), "{told}");
}

#[test]
fn of_many_that_wait_the_first_by_name_are_told_and_the_others_counted() {
    /// Task 0 feeds each of nine others, which wait for tasks that there are none of, too.
    struct Starved;
    impl TaskSpace for Starved {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.class("Task").order("FED").order("UNFED");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..10
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            if task > 0 {
                from.task(0, 0, 0);
                from.task(1, 20 + task, 0);
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            // In an order that is not that of their names.
            for other in [5, 9, 2, 7, 1, 8, 3, 6, 4]
                .into_iter()
                .filter(|_| task == 0)
            {
                to.task(0, other, 0);
            }
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let stalled = run(&Starved, &Inline).unwrap_err();
    let (text, task) = (stalled.to_string(), stalled.task());
    assert_eq!(stalled.kind(), Kind::Stalled, "{text}");
    assert_eq!(task, Some("1"), "{text}");
    let places: Vec<_> = [
        "; 1 waits for",
        "; 2 waits for",
        "; 3 waits for",
        "; and 6 more wait",
    ]
    .into_iter()
    .map(|part| text.find(part))
    .collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{text}"
    );
}

/// Tasks in a row, without data. More may be listed, or announced, than there are.
#[derive(Clone, Copy)]
struct Boundless {
    first: u64,
    n_listed: u64,
    /// How often the first is announced.
    n_roots: usize,
    /// Whether the second waits for one more, which nobody sends.
    starves: bool,
}

impl Boundless {
    const N_TASKS: u64 = 3;
}

impl TaskSpace for Boundless {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        about.class("Task").order("AFTER").order("UNFED");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        self.first..self.first + self.n_listed
    }
    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > self.first {
            from.task(0, task - 1, 0);
        }
        if self.starves && task == self.first + 1 {
            from.task(1, task + Self::N_TASKS, 0);
        }
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task + 1 < self.first + Self::N_TASKS {
            to.task(0, task + 1, 0);
        }
    }
    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }
    fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        std::iter::repeat_n(self.first, self.n_roots)
    }
    fn count(&self, _: Rank) -> u64 {
        Self::N_TASKS
    }
    fn index(&self, task: u64) -> Option<usize> {
        Some((task - self.first) as usize)
    }
}

/// Whoever asked what was wrong, or what a trace was to show, looked at all that is listed.
#[test]
fn a_list_of_tasks_or_roots_without_an_end_hides_no_failure() {
    let right = Boundless {
        first: 0,
        n_listed: Boundless::N_TASKS,
        n_roots: 1,
        starves: false,
    };
    verify(&right, 1).unwrap();
    run(&right, &Inline).unwrap();
    let listed = Boundless {
        n_listed: 1 << 40,
        ..right
    };
    let starved = Boundless {
        starves: true,
        ..listed
    };
    let unreached = Boundless {
        n_roots: 0,
        ..listed
    };
    // Names of so many bits have no number.
    let wide = Boundless {
        first: 1 << 62,
        ..starved
    };
    let announced = Boundless {
        n_roots: usize::MAX,
        ..right
    };
    for (space, kind, words) in [
        (starved, Kind::Stalled, "2 of 3 have not; 1 waits for UNFED"),
        (unreached, Kind::Stalled, "ever reached"),
        (wide, Kind::Stalled, "5 waits for UNFED"),
        (announced, Kind::CountExceeded, "root 0 is announced twice"),
    ] {
        let tracer = Tracer::new(1 << 16);
        let traced = Context::new(&Inline).traced_by(&tracer);
        let error = within(|| words.into(), || run(&space, &traced)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}
