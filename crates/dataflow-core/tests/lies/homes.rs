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

#[test]
fn new_data_that_were_not_made_are_told() {
    let mut table = pair();
    table.tasks[0].1.push(Home(MADE, 1));
    ends_in(&table, Kind::FlowEmpty, &["MADE", "task: 0"]);
    let mut table = pair();
    table.tasks[0].1[0] = Task(MADE, 1, MAIN);
    ends_in(&table, Kind::FlowEmpty, &["MADE", "task: 0"]);
}
