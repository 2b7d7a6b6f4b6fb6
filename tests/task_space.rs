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

/// Tasks apart from their data; the parameters are called as names in the generated code are.
struct Named {
    numbers: Store<u64>,
    level: u32,
    nest: u32,
    flow: u32,
}

task_space! {
    /// Looks at a number.
    enum Glance;

    impl TaskSpace for Named {
        type Datum = u64;
        let level = self.level;
        let nest = self.nest;
        let flow = self.flow;
        data Number[k] where k < nest in self.numbers at k on Rank(k % flow);

        if level > 1 {
            for k in 0..nest {
                Glance { k }: on Rank(k % level), read number = Number[k] => {
                    assert_eq!(*number, u64::from(k));
                }
            }
        }
    }
}

/// Each diagonal tile is updated by those on its left. Ranks are said by `m`, which names another number in
/// the task that updates.
struct Columns {
    tiles: Store<u64>,
    nt: u32,
    p: u32,
    q: u32,
}

task_space! {
    /// Takes a tile, or updates one on the diagonal.
    enum Column;

    impl TaskSpace for Columns {
        type Datum = u64;
        let nt = self.nt;
        let p = self.p;
        let q = self.q;
        data A[m, n] where n <= m && m < nt in self.tiles at m * nt + n on (m % p, n % q);

        for m in 0..nt {
            for n in 0..m {
                Take { m, n }: update A[m, n];
            }
        }
        for k in 0..nt {
            for m in 0..k {
                Herk { k, m }: update c = A[k, k], read l = A[k, m] => *c += *l;
            }
        }
    }
}

/// A task reads what one of another class wrote: `L { m: k }`, whose parameter is called as another one of
/// its own.
struct Pairs {
    sums: Store<u64>,
    n: u32,
}

task_space! {
    /// Makes numbers, and pairs of them.
    enum Pair;

    impl TaskSpace for Pairs {
        type Datum = u64;
        let n = self.n;
        dense if n < 4;
        data X[i];
        data C[i, j] where i < n && j < n in self.sums at i * n + j;

        for m in 0..n {
            L { m }: new x = X[m] => x.put(u64::from(m));
        }
        for k in 0..n {
            for m in 0..n {
                P { k, m }: read x = X[k], new c = C[k, m] => c.put(*x + u64::from(m));
            }
        }
    }
}

#[test]
fn names_that_stand_only_in_labels_or_are_bound_again_draw_no_warning() {
    let runtime = Runtime::builder().threads(2).build().unwrap();
    let columns = |p, q| Columns {
        tiles: Store::new("tiles", [1, 0, 0, 2, 1, 0, 3, 4, 1]),
        nt: 3,
        p,
        q,
    };
    verify(&columns(2, 2), 4).unwrap();
    let space = columns(1, 1);
    runtime.run(&space).unwrap();
    let diagonal = [0, 4, 8].map(|at| *space.tiles.get(at).unwrap());
    assert_eq!(diagonal, [1, 3, 8]);
    let pairs = Pairs {
        sums: Store::empty("sums", 9),
        n: 3,
    };
    verify(&pairs, 1).unwrap();
    runtime.run(&pairs).unwrap();
    assert_eq!(*pairs.sums.get(7).unwrap(), 3);
}

/// The condition was asked before the parameters were known.
#[test]
fn a_space_is_dense_by_a_condition_on_its_parameters() {
    for (n, expected) in [(3, Some(2)), (4, None)] {
        let sums = Store::empty("sums", 16);
        let index = Pairs { sums, n }.index(Pair::L { m: 2 });
        assert_eq!(index, expected, "n = {n}");
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

/// The tasks under `if level > 1` were none: the guard saw the macro's own `level`, the number of a loop.
#[test]
fn parameters_may_be_called_level_nest_and_flow() {
    let space = |flow| Named {
        numbers: Store::new("numbers", 0..5),
        level: 2,
        nest: 5,
        flow,
    };
    verify(&space(2), 2).unwrap();
    // Some tasks are not where their data are, so that both ranks are told apart.
    let space = space(3);
    let glances = |of: &[u32]| Vec::from_iter(of.iter().map(|&k| Glance::Glance { k }));
    for (rank, expected) in [(0, &[0, 2, 4][..]), (1, &[1, 3]), (2, &[])] {
        let tasks: Vec<Glance> = space.tasks(Rank(rank)).collect();
        assert_eq!(tasks, glances(expected), "rank {rank}");
        let roots: Vec<Glance> = space.roots(Rank(rank)).collect();
        assert_eq!(roots, tasks, "rank {rank}");
    }
    let owners = glances(&[0, 1, 2, 3, 4]).into_iter();
    let owners: Vec<Rank> = owners.map(|task| space.owner(task, 0)).collect();
    assert_eq!(owners, [0, 1, 2, 0, 1].map(Rank));
}
