//! Spaces derived from loops: they are proved, run as the loops do, and have the edges that one
//! would have written by hand.

#![cfg(not(miri))] // which finds nothing in formulas that are made at compile time

mod large;
mod names;
mod textbook;

use dataflow_core::port::{Inline, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::space::TaskName;
use dataflow_core::{error::Kind, run};
use std::sync::Mutex;

#[derive(Clone, Debug, PartialEq)]
struct Number(i64);
impl Datum for Number {}

fn numbers(name: &str, values: impl IntoIterator<Item = i64>) -> Store<Number> {
    Store::new(name, values.into_iter().map(Number))
}

fn values(store: &Store<Number>) -> Vec<i64> {
    let all = 0..store.len();
    all.map(|at| store.get(at).expect("a number at home").0)
        .collect()
}

// ── Cholesky ─────────────────────────────────────────────────────────────────────────────────────

struct Cholesky<'a> {
    tiles: &'a Store<Number>,
    nt: u32,
    /// Ranks along both sides of a square grid.
    grid: u32,
}

task_space! {
    /// The tasks of tile Cholesky.
    enum Task;

    impl<'a> TaskSpace for Cholesky<'a> {
        type Datum = Number;
        let nt = self.nt;
        data A[m, n] where n <= m && m < nt
            in self.tiles at m * nt + n
            on (m % self.grid, n % self.grid);

        for k in 0..nt {
            Potrf { k }: update tile = A[k, k] => tile.0 = tile.0.wrapping_add(1);
            for m in k + 1..nt {
                Trsm { m, k }: update tile = A[m, k], read triangle = A[k, k] => tile.0 = tile.0.wrapping_mul(triangle.0);
            }
            for m in k + 1..nt {
                Herk { m, k }: update tile = A[m, m], read left = A[m, k] => tile.0 = tile.0.wrapping_sub(left.0);
                for n in k + 1..m {
                    Gemm { m, n, k }: update tile = A[m, n], read left = A[m, k], read right = A[n, k] => {
                        tile.0 = tile.0.wrapping_sub(left.0.wrapping_mul(right.0));
                    }
                }
            }
        }
    }
}
use Task::{Gemm, Herk, Potrf, Trsm};

/// Hears one end of the edges of a task.
#[derive(Default)]
struct Heard(Vec<(usize, Option<(Task, usize)>)>);

impl Inputs<Cholesky<'_>> for Heard {
    fn task(&mut self, flow: usize, source: Task, its: usize) {
        self.0.push((flow, Some((source, its))));
    }
    fn home(&mut self, flow: usize, _: &Store<Number>, _: usize) {
        self.0.push((flow, None));
    }
}

impl Successors<Cholesky<'_>> for Heard {
    fn task(&mut self, flow: usize, target: Task, its: usize) {
        self.0.push((flow, Some((target, its))));
    }
    fn home(&mut self, flow: usize, _: &Store<Number>, _: usize) {
        self.0.push((flow, None));
    }
}

/// The edges as they are written by hand.
fn by_hand(task: Task, nt: u32) -> (Heard, Heard) {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    let fed = |task| Some((task, 0));
    match task {
        Potrf { k } => {
            from.push((
                0,
                k.checked_sub(1)
                    .and_then(|before| fed(Herk { m: k, k: before })),
            ));
            to.extend((k + 1..nt).map(|m| (0, Some((Trsm { m, k }, 1)))));
            to.push((0, None));
        }
        Trsm { m, k } => {
            from.push((
                0,
                k.checked_sub(1)
                    .and_then(|before| fed(Gemm { m, n: k, k: before })),
            ));
            from.push((1, fed(Potrf { k })));
            to.push((0, Some((Herk { m, k }, 1))));
            to.extend((k + 1..m).map(|n| (0, Some((Gemm { m, n, k }, 1)))));
            to.extend((m + 1..nt).map(|i| (0, Some((Gemm { m: i, n: m, k }, 2)))));
            to.push((0, None));
        }
        Herk { m, k } => {
            from.push((
                0,
                k.checked_sub(1)
                    .and_then(|before| fed(Herk { m, k: before })),
            ));
            from.push((1, fed(Trsm { m, k })));
            let next = if m == k + 1 {
                Potrf { k: m }
            } else {
                Herk { m, k: k + 1 }
            };
            to.push((0, fed(next)));
        }
        Gemm { m, n, k } => {
            from.push((
                0,
                k.checked_sub(1)
                    .and_then(|before| fed(Gemm { m, n, k: before })),
            ));
            from.extend([(1, fed(Trsm { m, k })), (2, fed(Trsm { m: n, k }))]);
            let next = if n == k + 1 {
                Trsm { m, k: n }
            } else {
                Gemm { m, n, k: k + 1 }
            };
            to.push((0, fed(next)));
        }
    }
    (Heard(from), Heard(to))
}

#[test]
fn the_derived_cholesky_has_the_edges_written_by_hand() {
    let mut edges = 0;
    for nt in 0..=9 {
        let tiles = numbers("tiles", vec![1; (nt * nt) as usize]);
        let space = Cholesky {
            tiles: &tiles,
            nt,
            grid: 1,
        };
        for task in space.tasks(Rank(0)) {
            let (mut from, mut to) = (Heard::default(), Heard::default());
            space.inputs(task, &mut from);
            space.successors(task, &mut to);
            let (mut inputs, mut outputs) = by_hand(task, nt);
            for heard in [&mut from, &mut to, &mut inputs, &mut outputs] {
                heard.0.sort();
            }
            assert_eq!(
                (from.0, &to.0),
                (inputs.0, &outputs.0),
                "{task:?} of nt = {nt}"
            );
            edges += to.0.len();
        }
    }
    assert!(edges > 600, "{edges}");
    assert_eq!(Gemm { m: 5, n: 3, k: 1 }.class(), 3);
}

#[test]
fn the_derived_cholesky_is_proved_on_every_grid() {
    for grid in 1..=3 {
        for nt in 0..=7 {
            let tiles = numbers("tiles", vec![1; (nt * nt) as usize]);
            let space = Cholesky {
                tiles: &tiles,
                nt,
                grid,
            };
            verify(&space, grid * grid).unwrap_or_else(|f| panic!("nt = {nt}, {grid}²: {f}"));
            // One rank more than there are: it has nothing.
            let counts = (0..=grid * grid).map(|on| {
                let own: Vec<Task> = space.tasks(Rank(on)).collect();
                assert!(own.iter().all(|&task| space.rank(task) == Rank(on)));
                assert_eq!(
                    space.count(Rank(on)),
                    own.len() as u64,
                    "{nt}, {grid}², {on}"
                );
                own.len() as u32
            });
            assert_eq!(counts.sum::<u32>(), nt * (nt + 1) * (nt + 2) / 6);
        }
    }
}

#[test]
fn the_formulas_can_be_read() {
    let text = Task::formulas();
    assert!(
        text.contains("Gemm { m, n, k }, for k in 0..nt, for m in k + 1..nt, for n in k + 1..m")
    );
    assert!(text.contains(
        "        <- home A[m, n] if k == 0\n        <- Gemm { m, n, k: k - 1 }.tile otherwise\n"
    ));
    let relations = Task::relations();
    assert!(
        relations
            .contains("Trsm { m, k }.tile -> Gemm { m: i, n: m, k }.right, for i in m + 1..nt;\n")
    );
}

// ── The same graph as relations ──────────────────────────────────────────────────────────────────

struct Related<'a>(Cholesky<'a>);

task_space! {
    /// The tasks of tile Cholesky, once more.
    enum Line;

    impl TaskSpace for Related<'_> {
        type Datum = Number;
        let nt = self.0.nt;
        data A[m, n] in self.0.tiles at m * nt + n;

        Potrf { k } for k in 0..nt: update tile = A[k, k] => tile.0 = tile.0.wrapping_add(1);
        Trsm { m, k } for k in 0..nt, m in k + 1..nt:
            update tile = A[m, k], read triangle => tile.0 = tile.0.wrapping_mul(triangle.0);
        Herk { m, k } for k in 0..nt, m in k + 1..nt: update tile = A[m, m], read left => tile.0 = tile.0.wrapping_sub(left.0);
        Gemm { m, n, k } for k in 0..nt, m in k + 1..nt, n in k + 1..m:
            update tile = A[m, n], read left, read right => tile.0 = tile.0.wrapping_sub(left.0.wrapping_mul(right.0));

        Potrf { k }.tile -> Trsm { m, k }.triangle, for m in k + 1..nt;
        Potrf { k }.tile -> home;
        Trsm { m, k }.tile -> Herk { m, k }.left;
        Trsm { m, k }.tile -> Gemm { m, n, k }.left, for n in k + 1..m;
        Trsm { m: n, k }.tile -> Gemm { m, n, k }.right, for m in n + 1..nt;
        Trsm { m, k }.tile -> home;
        Herk { m: k + 1, k }.tile -> Potrf { k: k + 1 }.tile;
        Herk { m, k }.tile -> Herk { m, k: k + 1 }.tile;
        Gemm { m, n: k + 1, k }.tile -> Trsm { m, k: k + 1 }.tile;
        Gemm { m, n, k }.tile -> Gemm { m, n, k: k + 1 }.tile;
    }
}

#[test]
fn relations_are_the_graph_that_loops_are() {
    for nt in 0..=7 {
        let (one, other) = (
            numbers("one", (0..nt * nt).map(i64::from)),
            numbers("other", (0..nt * nt).map(i64::from)),
        );
        let of = |tiles| Cholesky { tiles, nt, grid: 1 };
        let related = Related(of(&other));
        verify(&related, 1).unwrap_or_else(|fault| panic!("nt = {nt}: {fault}"));
        let reports = (
            dataflow_core::run(&of(&one), &Inline).unwrap(),
            dataflow_core::run(&related, &Inline).unwrap(),
        );
        assert_eq!(reports.0.tasks, reports.1.tasks);
        assert_eq!(values(&one), values(&other), "nt = {nt}");
    }
    // What loops derive says the same, line by line, in other words for the same variables.
    let (derived, written) = (Task::relations(), Line::relations());
    assert_eq!(
        derived.lines().count(),
        written.lines().count(),
        "{derived}\n{written}"
    );
}

// ── A wavefront that only orders, with numbers of its tasks ──────────────────────────────────────

struct Wavefront {
    rows: u32,
    columns: u32,
}

task_space! {
    enum Cell;

    impl TaskSpace for Wavefront {
        type Datum = ();
        let rows = self.rows;
        let columns = self.columns;
        order H[i, j];
        dense;

        for i in 0..rows {
            for j in 0..columns {
                Tile { i, j }: new H[i, j], read H[i - 1, j], read H[i, j - 1], priority rows + columns - i - j;
            }
        }
    }
}

#[test]
fn a_wavefront_without_data_is_proved_and_numbered() {
    for (rows, columns) in [(0, 3), (1, 1), (4, 7)] {
        let space = Wavefront { rows, columns };
        verify(&space, 1).unwrap();
        let numbers: Vec<_> = space
            .tasks(Rank(0))
            .filter_map(|tile| space.index(tile))
            .collect();
        let expected: Vec<_> = (0..(rows * columns) as usize).collect();
        assert_eq!(numbers, expected);
        assert_eq!(space.count(Rank(0)), u64::from(rows * columns));
        assert_eq!(space.count(Rank(1)), 0);
        assert_eq!(space.roots(Rank(0)).count(), numbers.len().min(1));
    }
}

// ── A product, with operands that are given ──────────────────────────────────────────────────────

struct Product<'a> {
    a: &'a Store<Number>,
    b: &'a Store<Number>,
    c: &'a Store<Number>,
    shape: (u32, u32, u32),
}

task_space! {
    enum Step;

    impl TaskSpace for Product<'_> {
        type Datum = Number;
        let mt = self.shape.0;
        let nt = self.shape.1;
        let kt = self.shape.2;
        data A[m, k] in self.a at m * kt + k;
        data B[k, n] in self.b at k * nt + n;
        data C[m, n] in self.c at m * nt + n;

        for m in 0..mt {
            for k in 0..kt {
                GiveA { m, k }: give a = A[m, k] => assert!(a.0 >= 0);
            }
        }
        for m in 0..mt {
            for n in 0..nt {
                Zero { m, n }: new c = C[m, n] => c.put(Number(0));
                for k in 0..kt {
                    Update { m, n, k }: update c = C[m, n], read a = A[m, k], read b = B[k, n] => c.0 += a.0 * b.0;
                }
            }
        }
    }
}

#[test]
fn a_product_is_that_of_three_loops() {
    let (mt, nt, kt) = (3, 4, 5);
    let a = numbers("A", 0..15);
    let b = numbers("B", 3..23);
    let c = numbers("C", 0..12);
    let space = Product {
        a: &a,
        b: &b,
        c: &c,
        shape: (mt, nt, kt),
    };
    verify(&space, 1).unwrap();
    dataflow_core::run(&space, &Shuffled::new(3)).unwrap();
    let mut expected = Vec::new();
    for (m, n) in (0..3i64).flat_map(|m| (0..4i64).map(move |n| (m, n))) {
        expected.push((0..5i64).map(|k| (m * 5 + k) * (3 + k * 4 + n)).sum());
    }
    assert_eq!(values(&c), expected);
}

// ── Data that are changed, or made, and then given on ────────────────────────────────────────────

struct GivenOn<'a> {
    a: &'a Store<Number>,
    b: &'a Store<Number>,
    sums: &'a Store<Number>,
    n: u32,
}

task_space! {
    enum Handing;

    impl TaskSpace for GivenOn<'_> {
        type Datum = Number;
        let n = self.n;
        data A[i] where i < n in self.a at i;
        data B[i] where i < n in self.b at i;
        data Sum[i] where i < n in self.sums at i;

        for i in 0..n { Change { i }: update a = A[i], new b = B[i] => { a.0 += 1; b.put(Number(70)); } }
        for i in 0..n {
            Hand { i }: give a = A[i], give b = B[i] => assert!(a.0 > 0 && b.0 > 0);
            Sum { i }: new sum = Sum[i], read a = A[i], read b = B[i] => sum.put(Number(a.0 + b.0));
        }
    }
}

/// Who gives a datum on brings nothing home, and it was held to be the last that did: nobody brought home
/// what was changed before.
#[test]
fn what_is_changed_and_then_given_on_comes_home() {
    let [a, b, sums] = ["a", "b", "sums"].map(|name| numbers(name, 1..=4));
    let space = GivenOn {
        a: &a,
        b: &b,
        sums: &sums,
        n: 4,
    };
    verify(&space, 1).unwrap();
    dataflow_core::run(&space, &Shuffled::new(5)).unwrap();
    assert_eq!(values(&a), [2, 3, 4, 5]);
    assert_eq!(values(&b), [70; 4]);
    assert_eq!(values(&sums), [72, 73, 74, 75]);
}

// ── Two ranks, one of which reads what the other one has ─────────────────────────────────────────

struct Prices<'a> {
    prices: &'a Store<Number>,
    sums: &'a Store<Number>,
    given: u32,
}

task_space! {
    enum Deal;

    impl TaskSpace for Prices<'_> {
        type Datum = Number;
        let given = self.given;
        data Price[i] in self.prices at i on i % 2;
        data Sum[i] where i < 2 in self.sums at i on i % 2;

        for i in 0..given {
            Give { i }: give price = Price[i] => assert!(price.0 > 0);
        }
        for i in 0..2 {
            Add { i }: update sum = Sum[i], read own = Price[i], read other = Price[1 - i] => {
                sum.0 += own.0 + other.0;
            }
        }
    }
}

#[test]
fn a_task_that_reads_from_another_ranks_store_is_named() {
    let prices = numbers("prices", [3, 4]);
    let sums = numbers("sums", [0, 0]);
    let deal = |given| Prices {
        prices: &prices,
        sums: &sums,
        given,
    };
    let fault = verify(&deal(0), 2).unwrap_err().to_string();
    let said = "Add { i: 0 } on rank 0 takes other (slot 1 of prices), which lies on rank 1: let a task there \
                give it, and an edge carry it";
    assert!(fault.contains(said), "{fault}");
    verify(&deal(2), 2).unwrap();
    // One rank would leave out what is dealt out to the other.
    let fault = verify(&deal(2), 1).unwrap_err().to_string();
    assert!(fault.contains("2 ranks, and there are 1"), "{fault}");
    let error = run(&deal(2), &Inline).unwrap_err();
    assert_eq!(error.kind(), Kind::NoSuchRank);
}

// ── Floyd and Warshall, with the conditions of the textbook ──────────────────────────────────────

struct Paths<'a> {
    d: &'a Store<Number>,
    n: u32,
}

task_space! {
    enum Relax;

    impl TaskSpace for Paths<'_> {
        type Datum = Number;
        let n = self.n;
        data D[i, j] where i < n && j < n in self.d at i * n + j;

        for k in 0..n {
            Diagonal { k }: update d = D[k, k] => d.0 = d.0.min(0);
            for j in 0..n {
                if j != k {
                    Row { k, j }: update d = D[k, j], read diagonal = D[k, k] => d.0 = d.0.min(diagonal.0 + d.0);
                    Column { k, j }: update d = D[j, k], read diagonal = D[k, k] => d.0 = d.0.min(d.0 + diagonal.0);
                }
            }
            for i in 0..n {
                if i != k {
                    for j in 0..n {
                        if j != k {
                            Rest { k, i, j }: update d = D[i, j], read left = D[i, k], read up = D[k, j] => {
                                d.0 = d.0.min(left.0 + up.0);
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn shortest_paths_are_those_of_three_loops() {
    for n in 0..6i64 {
        let lengths: Vec<i64> = (0..n * n).map(|at| (at * 7919 + 13) % 101 + 1).collect();
        let d = numbers("D", lengths.clone());
        let space = Paths { d: &d, n: n as u32 };
        verify(&space, 1).unwrap();
        dataflow_core::run(&space, &Inline).unwrap();
        let mut expected = lengths;
        let n = n as usize;
        for k in 0..n {
            expected[k * n + k] = expected[k * n + k].min(0);
            for i in 0..n {
                for j in 0..n {
                    let through = expected[i * n + k] + expected[k * n + j];
                    expected[i * n + j] = expected[i * n + j].min(through);
                }
            }
        }
        assert_eq!(values(&d), expected, "n = {n}");
    }
}

// ── Parameters that follow from others ───────────────────────────────────────────────────────────

struct Halves<'a> {
    x: &'a Store<Number>,
    n: u32,
}

task_space! {
    enum Half;

    impl TaskSpace for Halves<'_> {
        type Datum = Number;
        let n = self.n;
        let lower = n / 2;
        let upper = n - lower;
        data X[i] in self.x at i;
        dense;

        for i in 0..lower { Lower { i }: update x = X[i] => x.0 += i64::from(lower); }
        for i in 0..upper { Upper { i }: update x = X[i + lower] => x.0 -= i64::from(upper); }
    }
}

/// A function that needed `lower` alone had no `n` to make it from.
#[test]
fn a_parameter_may_follow_from_those_before_it() {
    let x = numbers("x", [0; 5]);
    let space = Halves { x: &x, n: 5 };
    verify(&space, 1).unwrap();
    dataflow_core::run(&space, &Inline).unwrap();
    assert_eq!(values(&x), [2, 2, -3, -3, -3]);
    assert_eq!(space.index(Half::Upper { i: 2 }), Some(4));
    let mut about = Description::default();
    space.describe(&mut about);
    let said = [("n", "5"), ("lower", "2"), ("upper", "3")];
    let said = said.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(about.parameters(), said);
}

// ── Two nests as one graph, the second from its end; a failing body ──────────────────────────────

struct Sweeps<'a> {
    x: &'a Store<Number>,
    n: u32,
}

task_space! {
    enum Sweep;

    impl TaskSpace for Sweeps<'_> {
        type Datum = Number;
        let n = self.n;
        data X[i] in self.x at i;
        data Sum[i];

        fn describe(&self, about: &mut Description) {
            about.name("sweeps").parameter("length", self.n);
        }

        for i in 0..n {
            There { i }: optional before = Sum[i - 1], update x = X[i], new sum = Sum[i] => {
                x.0 += before.map_or(0, |sum| sum.0);
                if x.0 < 0 {
                    return Err(TaskError::new("negative", format!("at {i}")).with_index(i.into()));
                }
                sum.put(Number(x.0));
            }
        }
        for i in (0..n).rev() {
            if i + 1 < n {
                Back { i }: update x = X[i], read next = X[i + 1] => x.0 += next.0;
            }
        }
    }
}

#[test]
fn nests_follow_each_other_without_a_barrier() {
    for n in 0..7i64 {
        let x = numbers("x", 1..=n);
        let space = Sweeps { x: &x, n: n as u32 };
        verify(&space, 1).unwrap_or_else(|fault| panic!("n = {n}: {fault}"));
        dataflow_core::run(&space, &Shuffled::new(n as u64)).unwrap();
        let mut expected: Vec<i64> = (1..=n).collect();
        for i in 1..expected.len() {
            expected[i] += expected[i - 1];
        }
        for i in (0..expected.len().saturating_sub(1)).rev() {
            expected[i] += expected[i + 1];
        }
        assert_eq!(values(&x), expected, "n = {n}");
    }
    let x = numbers("x", [1, -2, 3]);
    let failed = dataflow_core::run(&Sweeps { x: &x, n: 3 }, &Inline).unwrap_err();
    assert_eq!(failed.index(), Some(1));
}

// ── Ranks of which the number is not the same for all data ───────────────────────────────────────

struct Wedge<'a> {
    a: &'a Store<Number>,
    n: u32,
}

impl Wedge<'_> {
    fn tell(&self, about: &mut Description) {
        about.parameter("n", self.n);
    }
}

task_space! {
    enum Class;

    impl TaskSpace for Wedge<'_> {
        type Datum = Number;
        let n = self.n;
        data A[m, k] in self.a at m * n + k on k % (m + 1);

        fn describe(&self, about: &mut Description) {
            about.name("wedge");
            if self.n == 0 {
                return;
            }
            self.tell(about)
        }

        for k in 0..n {
            for m in 0..n {
                Cell { m, k }: update a = A[m, k] => a.0 += 1;
            }
        }
    }
}

/// The number was made from what an inner loop did not have yet, and `count` not at all: no Rust, or wrong tasks.
#[test]
fn a_rank_lists_its_tasks_also_where_the_number_of_ranks_depends_on_the_datum() {
    let (n, a) = (4, numbers("A", 0..16));
    let space = Wedge { a: &a, n };
    for on in (0..n).map(Rank) {
        let all = (0..n).flat_map(|k| (0..n).map(move |m| Class::Cell { m, k }));
        let expected: Vec<_> = all.filter(|&task| space.rank(task) == on).collect();
        assert_eq!(space.tasks(on).collect::<Vec<_>>(), expected, "{on}");
        assert_eq!(space.roots(on).collect::<Vec<_>>(), expected, "{on}");
    }
    verify(&space, n).unwrap();
}

#[test]
fn a_description_that_returns_early_or_without_a_semicolon_has_all_classes() {
    let a = numbers("A", 0..16);
    for (n, parameters) in [(0, 0), (4, 1)] {
        let mut about = Description::default();
        Wedge { a: &a, n }.describe(&mut about);
        let found = (about.parameters().len(), about.classes().len());
        assert_eq!(found, (parameters, 1), "n = {n}");
    }
}

// ── A loop that begins below 0, and a condition that leaves this out ─────────────────────────────

struct Beside<'a> {
    sums: &'a Store<Number>,
    n: u32,
}

task_space! {
    enum Pair;

    impl TaskSpace for Beside<'_> {
        type Datum = Number;
        let n = self.n;
        data Sum[i] in self.sums at i;

        for i in 0..n {
            for k in i - 1..n {
                if k >= 0 && k != i {
                    Add { i, k }: update sum = Sum[i] => sum.0 += i64::from(k);
                }
            }
        }
    }
}

#[test]
fn a_loop_may_begin_below_0_where_a_condition_of_several_parts_leaves_that_out() {
    let sums = numbers("sums", [0; 4]);
    let space = Beside { sums: &sums, n: 4 };
    verify(&space, 1).unwrap();
    dataflow_core::run(&space, &Inline).unwrap();
    assert_eq!(values(&sums), [1 + 2 + 3, 2 + 3, 1 + 3, 2]);
}

// ── Names that only strings mention ──────────────────────────────────────────────────────────────

struct Sayings {
    n: u32,
    said: Mutex<Vec<String>>,
}

task_space! {
    enum Say;

    impl TaskSpace for Sayings {
        type Datum = ();
        let n = self.n;
        order Said[i];

        for i in 0..n {
            Say { i }: new Said[i] => {
                self.said.lock().unwrap().push(format!(r"{i} \ {n}"));
            }
        }
    }
}

/// Those in raw strings were not found in the body's scope.
#[test]
fn a_body_may_show_loop_variables_and_parameters_in_strings_of_every_kind() {
    let (n, said) = (2, Mutex::default());
    let space = Sayings { n, said };
    dataflow_core::run(&space, &Inline).unwrap();
    let mut said = space.said.into_inner().unwrap();
    said.sort_unstable();
    assert_eq!(said, [r"0 \ 2", r"1 \ 2"]);
}

// ── Sums and multiples that are more than a u32 ──────────────────────────────────────────────────

struct Large {
    n: u32,
}

task_space! {
    enum LargeTask;

    impl TaskSpace for Large {
        type Datum = Number;
        let n = self.n;
        data Sum[i];

        for step in 0..100 * n { Step { step }: order done; }
        for i in 0..n { Make { i }: new sum = Sum[i] => sum.put(Number(i.into())); }
        for i in 0..n { for j in 0..n { Read { i, j }: optional sum = Sum[i + j] => assert!(sum.is_some() == (i + j < n)); } }
    }
}

/// The tasks from which inputs come.
struct Sources<T>(Vec<T>);

impl<S: TaskSpace> Inputs<S> for Sources<S::Task> {
    fn task(&mut self, _: usize, source: S::Task, _: usize) {
        self.0.push(source);
    }
    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}

#[test]
fn a_guard_holds_a_sum_that_is_more_than_a_u32() {
    let space = Large { n: 3_000_000_000 };
    let sources = |i, j| {
        let mut sources = Sources(Vec::new());
        space.inputs(LargeTask::Read { i, j }, &mut sources);
        sources.0
    };
    assert_eq!(sources(1, 2), [LargeTask::Make { i: 3 }]);
    assert_eq!(sources(2_500_000_000, 2_500_000_000), []);
}

struct Shifted {
    n: u32,
}

task_space! {
    enum ShiftedTask;

    impl TaskSpace for Shifted {
        type Datum = ();
        let n = self.n;
        order H[i];

        for i in n..n + 5 { if i != n { T { i }: new H[i]; } }
    }
}

struct Closed {
    n: u32,
}

task_space! {
    enum ClosedTask;

    impl TaskSpace for Closed {
        type Datum = ();
        let n = self.n;
        order H[i];

        for i in 0..=n { T { i }: new H[i]; }
    }
}

struct Near {
    n: u32,
}

task_space! {
    enum NearTask;

    impl TaskSpace for Near {
        type Datum = Number;
        let n = self.n;
        data Sum[i];

        for i in 0..n { Make { i }: new sum = Sum[i] => sum.put(Number(i.into())); }
        for i in 0..n { Read { i }: optional sum = Sum[i + 2] => assert!(sum.is_some() == (u64::from(i) + 2 < n.into())); }
    }
}

/// What the panic says with which the tasks of a space are listed.
fn first_of<S: TaskSpace>(space: &S) -> String {
    let listed = std::panic::AssertUnwindSafe(|| space.tasks(Rank(0)).next());
    let panic = std::panic::catch_unwind(listed).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

/// A constant that is added was not seen: such loops had no task, or others than they say.
#[test]
fn a_loop_that_ends_beyond_u32_is_told_and_not_cut_off() {
    verify(&Large { n: 3 }, 1).unwrap();
    verify(&Shifted { n: 3 }, 1).unwrap();
    verify(&Closed { n: 3 }, 1).unwrap();
    let most = u32::MAX;
    for (said, end) in [
        (first_of(&Large { n: 43_000_000 }), 4_300_000_000u64),
        (first_of(&Shifted { n: most - 2 }), u64::from(most) + 3),
        (first_of(&Closed { n: most }), u64::from(most) + 1),
    ] {
        let begins = format!("a loop of a space runs to {end} (its");
        assert!(said.starts_with(&begins), "{said}");
    }
    let last = Shifted { n: most - 5 };
    let tasks: Vec<_> = last.tasks(Rank(0)).collect();
    assert_eq!((tasks.len(), last.count(Rank(0))), (4, 4));
    assert_eq!(tasks[3], ShiftedTask::T { i: most - 1 });
}

/// `i + 2` was 0 where `i` is the last, which so had a source.
#[test]
fn a_condition_is_right_for_the_last_numbers_there_are() {
    verify(&Near { n: 5 }, 1).unwrap();
    let near = Near { n: u32::MAX };
    for (before_end, source) in [(1, None), (2, None), (3, Some(u32::MAX - 1))] {
        let mut sources = Sources(Vec::new());
        let i = u32::MAX - before_end;
        near.inputs(NearTask::Read { i }, &mut sources);
        let source = source.map(|i| NearTask::Make { i });
        assert_eq!(sources.0, Vec::from_iter(source), "{i}");
    }
}

// ── Data without size ────────────────────────────────────────────────────────────────────────────

#[derive(Clone, Debug, PartialEq)]
struct Token;
impl Datum for Token {}

struct Passed<'a> {
    tokens: &'a Store<Token>,
    n: u32,
    sum: Mutex<u32>,
}

task_space! {
    enum PassedTask;

    impl<'a> TaskSpace for Passed<'a> {
        type Datum = Token;
        let n = self.n;
        data X[i] where i < n in self.tokens at i;
        data Made[i];

        for i in 0..n { Make { i }: update x = X[i], new made = Made[i] => made.put(x.clone()); }
        for i in 1..n {
            Use { i }: read before = Made[i - 1], update x = X[i] => {
                *x = before.clone();
                *self.sum.lock().unwrap() += i;
            }
        }
    }
}

/// Its bodies were told that they get no flows.
#[test]
fn bodies_get_the_data_that_they_name_even_those_without_size() {
    let tokens = Store::new("tokens", vec![Token; 4]);
    let space = Passed {
        tokens: &tokens,
        n: 4,
        sum: Mutex::new(0),
    };
    verify(&space, 1).unwrap();
    let report = run(&space, &Inline).unwrap();
    assert_eq!((report.tasks, *space.sum.lock().unwrap()), (7, 6));
    assert!((0..4).all(|at| tokens.get(at).is_some()));
}

// ── Data of another rank ─────────────────────────────────────────────────────────────────────────

struct Elsewhere<'a> {
    numbers: &'a Store<Number>,
}

task_space! {
    enum ElsewhereTask;

    impl<'a> TaskSpace for Elsewhere<'a> {
        type Datum = Number;
        data X[i] in self.numbers at i on Rank(1);

        Look {}: read x = X[2], on Rank(0) => assert_eq!(x.0, 0);
    }
}

/// It was told as of any slot in which nothing was put.
#[test]
fn a_datum_that_lies_on_another_rank_is_told_with_that_rank() {
    let numbers = Store::empty("numbers", 3);
    let error = run(&Elsewhere { numbers: &numbers }, &Inline).unwrap_err();
    assert_eq!(error.kind(), Kind::HomeEmpty);
    assert_eq!(
        error.to_string(),
        "x of Look is to come from slot 2 of numbers (3 slots), which lies on rank 1: let a task \
         there give it, and an edge carry it (task Look)"
    );
}

/// It was told that a remainder was taken by 0.
#[test]
fn a_space_that_is_dealt_out_to_no_ranks_is_told_by_name() {
    let tiles = numbers("tiles", [1]);
    let (tiles, grid) = (&tiles, 0);
    let space = Cholesky { tiles, nt: 1, grid };
    let error = run(&space, &Inline).unwrap_err();
    let text = "space \"cholesky\" deals its tasks out to 0 ranks (1 or more are needed: `on i % p` where p is 0)";
    assert_eq!((error.kind(), error.message()), (Kind::NoSuchRank, text));
    let told = verify(&space, 1).unwrap_err().to_string();
    assert_eq!(told, text);
}
