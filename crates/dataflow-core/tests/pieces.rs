//! Runs in pieces: workers that share a thread, each in the midst of a task while others begin and end
//! theirs.

use dataflow_core::port::{Executor, Inline, Job, Lane, Stay, Word, Work};
use dataflow_core::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Workers that take turns on one thread: a piece each.
struct InPieces(usize);

impl Executor for InPieces {
    fn n_workers(&self) -> usize {
        self.0
    }

    fn execute(&self, job: &Arc<Job>) {
        let mut stays: Vec<_> = (0..self.0).map(|_| None).collect();
        take_turns(job, &mut stays, &RefCell::default());
    }
}

/// To the end of the job.
fn take_turns(job: &Arc<Job>, stays: &mut [Option<Stay>], words: &Words) {
    while !job.is_over() {
        for (worker, stay) in stays.iter_mut().enumerate() {
            if stay.is_none() {
                *stay = job.enter_to_stay();
            }
            let Some(inside) = stay.as_ref() else { break };
            if !inside.begin_next(&mut Door { words, worker }) {
                *stay = None;
            }
        }
    }
}

type Words = RefCell<VecDeque<Word>>;

struct Door<'w> {
    words: &'w Words,
    worker: usize,
}

impl Lane for Door<'_> {
    fn worker(&self) -> usize {
        self.worker
    }
    fn push(&mut self, word: Word, _: i64) {
        self.words.borrow_mut().push_back(word);
    }
    fn pop(&mut self) -> Option<Word> {
        self.words.borrow_mut().pop_front()
    }
    fn steal(&mut self) -> Option<Word> {
        None
    }
    fn outranks(&self, _: i64) -> bool {
        false
    }
}

/// Columns of tasks: each reads what its neighbours to the left and above have made.
struct Table {
    side: u32,
    last: Store<u64>,
    /// Which body ran when.
    ran: Mutex<Vec<(u32, u32)>>,
    fails: Option<(u32, u32)>,
}

task_names! {
    enum Cell { At { row, column } }
}

impl Table {
    fn new(side: u32) -> Self {
        Table {
            side,
            last: Store::new("last", [0]),
            ran: Mutex::default(),
            fails: None,
        }
    }

    fn ran(&self) -> Vec<(u32, u32)> {
        self.ran.lock().unwrap().clone()
    }
}

impl TaskSpace for Table {
    type Task = Cell;
    type Datum = u64;

    fn describe(&self, about: &mut Description) {
        about
            .name("table")
            .class("At")
            .optional("LEFT")
            .optional("ABOVE")
            .new_flow("SUM");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = Cell> + Send {
        let side = self.side;
        (0..side * side).map(move |i| Cell::At {
            row: i / side,
            column: i % side,
        })
    }

    fn inputs(&self, Cell::At { row, column }: Cell, from: &mut impl Inputs<Self>) {
        if column > 0 {
            from.task(
                0,
                Cell::At {
                    row,
                    column: column - 1,
                },
                2,
            );
        }
        if row > 0 {
            from.task(
                1,
                Cell::At {
                    row: row - 1,
                    column,
                },
                2,
            );
        }
    }

    fn successors(&self, Cell::At { row, column }: Cell, to: &mut impl Successors<Self>) {
        if column + 1 < self.side {
            to.task(
                2,
                Cell::At {
                    row,
                    column: column + 1,
                },
                0,
            );
        }
        if row + 1 < self.side {
            to.task(
                2,
                Cell::At {
                    row: row + 1,
                    column,
                },
                1,
            );
        }
        if (row + 1, column + 1) == (self.side, self.side) {
            to.home(2, &self.last, 0);
        }
    }

    fn run(
        &self,
        Cell::At { row, column }: Cell,
        flows: &mut Flows<'_, u64>,
    ) -> Result<(), TaskError> {
        self.ran.lock().unwrap().push((row, column));
        if self.fails == Some((row, column)) {
            return Err(TaskError::new("too_large", "the sum is too large"));
        }
        let [left, above, sum] = flows.slots::<3>();
        let of = |slot: Option<&u64>| slot.copied().unwrap_or(0);
        sum.put(of(left.get()) + of(above.get()) + 1);
        Ok(())
    }
}

#[test]
fn a_run_in_pieces_has_the_result_of_any_other() {
    let whole = Table::new(9);
    dataflow_core::run(&whole, &Inline).unwrap();
    for n_workers in 1..6 {
        let table = Table::new(9);
        let report = dataflow_core::run(&table, &InPieces(n_workers)).unwrap();
        assert_eq!(report.tasks, 81);
        assert_eq!(*table.last.get(0).unwrap(), *whole.last.get(0).unwrap());
    }
}

/// Its successors could begin at once, if what the first task has made were handed on when it begins.
#[test]
fn a_successor_begins_only_when_what_it_waits_for_has_ended() {
    struct Noting<'t>(&'t Table, Mutex<Vec<String>>);
    impl Executor for Noting<'_> {
        fn n_workers(&self) -> usize {
            2
        }
        fn execute(&self, job: &Arc<Job>) {
            let words = Words::default();
            let mut stays = [job.enter_to_stay(), job.enter_to_stay()];
            let mut piece = |worker: usize| {
                let stay = &mut stays[worker];
                let inside: &dyn Work = &**stay.as_ref().unwrap();
                let begun = inside.begin_next(&mut Door {
                    words: &words,
                    worker,
                });
                if !begun {
                    *stay = None;
                }
                let ran = self.0.ran().len();
                self.1
                    .lock()
                    .unwrap()
                    .push(format!("{worker} {begun} {ran}"));
            };
            piece(0); // the first task begins
            piece(1); // nothing else may
            piece(0); // it ends, and one of two that it feeds begins
            take_turns(job, &mut stays, &words);
        }
    }
    let table = Table::new(2);
    let noting = Noting(&table, Mutex::default());
    let ended = dataflow_core::run(&table, &noting);
    let said = noting.1.into_inner().unwrap();
    assert_eq!(said, ["0 true 1", "1 false 1", "0 true 2"]);
    assert_eq!(ended.unwrap().tasks, 4);
}

#[test]
fn a_body_that_fails_in_pieces_skips_what_depends_on_it_and_nothing_else() {
    let mut tables = [Table::new(5), Table::new(5)];
    tables
        .iter_mut()
        .for_each(|table| table.fails = Some((1, 3)));
    let [whole, pieces] = &tables;
    let whole_error = dataflow_core::run(whole, &Inline).unwrap_err();
    let error = dataflow_core::run(pieces, &InPieces(3)).unwrap_err();
    assert_eq!(error.to_string(), whole_error.to_string());
    let sorted = |table: &Table| {
        let mut ran = table.ran();
        ran.sort_unstable();
        ran
    };
    assert_eq!(sorted(pieces), sorted(whole));
}

#[test]
fn what_is_no_task_space_does_not_come_in_pieces_and_says_so() {
    let ended = dataflow_core::sequence::scope(&InPieces(2), |s| {
        let sum = s.handle(0u64);
        s.task(dataflow_core::sequence::write(&sum), |sum| *sum += 1);
    });
    let error = ended.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("only runs of task spaces come in pieces"),
        "{error}"
    );
}
