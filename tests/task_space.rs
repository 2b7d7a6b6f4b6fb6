//! What `task_space!` makes of a user's loops draws no warning, and no name of its own is in the way of
//! the user's.

#![deny(warnings)]

use dataflow::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tasks that read from home and hand on nothing.
struct Sum {
    numbers: Store<u64>,
    n: u32,
    sum: AtomicU64,
}

task_space! {
    /// Adds a number.
    enum Look;

    impl TaskSpace for Sum {
        type Datum = u64;
        let n = self.n;
        data Number[i] where i < n in self.numbers at i;

        for i in 0..n {
            Look { i }: read number = Number[i] => {
                self.sum.fetch_add(*number, Ordering::Relaxed);
            }
        }
    }
}

/// Tasks that take nothing; the variable of their outer loop is called as a name of the macro is.
struct Table {
    rows: Store<u64>,
    n: u32,
}

task_space! {
    /// Makes a row.
    enum Make;

    impl TaskSpace for Table {
        type Datum = u64;
        let n = self.n;
        data Row[at, i] where at < n && i < n in self.rows at at * n + i;

        for at in 0..n {
            for i in 0..n {
                Make { at, i }: new row = Row[at, i] => row.put(u64::from(10 * at + i));
            }
        }
    }
}

/// Tasks without a datum, and a parameter that no task is asked for.
struct Ticks {
    n: u32,
    count: AtomicU64,
}

task_space! {
    /// Counts.
    enum Tick;

    impl TaskSpace for Ticks {
        type Datum = u64;
        let n = self.n;
        order Done[i];

        for i in 0..n {
            Tick { i }: new Done[i] => {
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn spaces_whose_edges_go_one_way_or_nowhere_compile_without_a_warning_and_run() {
    let runtime = Runtime::builder().threads(2).build().unwrap();
    let sum = Sum {
        numbers: Store::new("numbers", 0..5),
        n: 5,
        sum: AtomicU64::new(0),
    };
    verify(&sum, 1).unwrap();
    assert_eq!(runtime.run(&sum).unwrap().tasks, 5);
    assert_eq!(sum.sum.into_inner(), 10);
    let ticks = Ticks {
        n: 3,
        count: AtomicU64::new(0),
    };
    verify(&ticks, 1).unwrap();
    assert_eq!(runtime.run(&ticks).unwrap().tasks, 3);
    assert_eq!(ticks.count.into_inner(), 3);
}

#[test]
fn a_loop_may_be_called_at() {
    let table = Table {
        rows: Store::empty("rows", 9),
        n: 3,
    };
    verify(&table, 1).unwrap();
    let runtime = Runtime::builder().threads(2).build().unwrap();
    assert_eq!(runtime.run(&table).unwrap().tasks, 9);
    assert_eq!(*table.rows.get(7).unwrap(), 21);
}
