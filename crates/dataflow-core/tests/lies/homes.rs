//! Slots that are taken or filled twice or not at all, and data that nobody made.

use super::*;

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
    let words = [
        "slot 0 of store",
        "task: 0,",
        "task: 2,",
        "takes to change it",
    ];
    ends_in(&table, Kind::HomeEmpty, &words);
}

#[test]
fn a_slot_that_was_empty_before_the_run_is_told_with_the_task_that_fills_it() {
    for (name, executor) in executors() {
        let mut told = Told::new(pair());
        told.store = Store::empty("store", 4);
        let error = within(|| name.clone(), || run(&told, &*executor)).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), Kind::HomeEmpty, "{text}");
        assert!(
            text.contains("which is empty: nothing was put there, or not yet by Name { task: 1,"),
            "{text}"
        );
    }
}

/// It was told without slot and task: that a datum was not brought back.
#[test]
fn a_body_that_fills_the_slot_of_the_datum_it_has_is_told_with_slot_and_task() {
    struct Meddles(Store<Number>);
    impl TaskSpace for Meddles {
        type Task = u64;
        type Datum = Number;
        fn describe(&self, about: &mut Description) {
            about.name("meddles").class("Task").update("MAIN");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            std::iter::once(7)
        }
        fn inputs(&self, _: u64, from: &mut impl Inputs<Self>) {
            from.home(0, &self.0, 0);
        }
        fn successors(&self, _: u64, to: &mut impl Successors<Self>) {
            to.home(0, &self.0, 0);
        }
        fn run(&self, _: u64, _: &mut Flows<'_, Number>) -> Result<(), TaskError> {
            self.0.put(0, Version::new(Number(9))).expect("a slot");
            Ok(())
        }
    }
    for (name, executor) in executors() {
        let space = Meddles(Store::new("store", [Number(1)]));
        let error = within(|| name.clone(), || run(&space, &*executor)).unwrap_err();
        let text = "7 puts slot 0 of store, which was filled by hand while its datum was lent";
        assert_eq!((error.kind(), error.message()), (Kind::PutTwice, text));
        assert_eq!(error.task(), Some("7"));
        assert!(space.0.get(0).is_some(), "a hole");
    }
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
        &[
            "slot 1 of store",
            "task: 1,",
            "puts a datum there",
            "task: 2,",
        ],
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

#[test]
fn new_data_that_were_not_made_are_told() {
    let mut table = pair();
    table.tasks[0].1.push(Home(MADE, 1));
    ends_in(&table, Kind::FlowEmpty, &["MADE", "task: 0"]);
    let mut table = pair();
    table.tasks[0].1[0] = Task(MADE, 1, MAIN);
    ends_in(&table, Kind::FlowEmpty, &["MADE", "task: 0"]);
}
