//! Edges that are missing, doubled, wrong or go in a circle.

use super::*;

#[test]
fn the_table_itself_is_right() {
    let told = Told::new(pair());
    verify(&told, 1).unwrap();
    run(&told, &Inline).unwrap();
    assert_eq!(told.store.get(0).unwrap().0, 2);
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
fn a_flow_fed_by_a_task_and_from_home_is_told() {
    let mut table = pair();
    table.tasks[1].0.push(Home(MAIN, 1));
    ends_in(&table, Kind::FedTwice, &["MAIN", "task: 1"]);
}

#[test]
fn an_order_edge_into_a_flow_that_is_read_is_told() {
    let mut table = pair();
    table.tasks[0].1.push(Task(AFTER, 1, SIDE));
    table.tasks[1].0.push(Task(SIDE, 0, AFTER));
    ends_in(&table, Kind::FlowEmpty, &["SIDE", "task: 1"]);
}
