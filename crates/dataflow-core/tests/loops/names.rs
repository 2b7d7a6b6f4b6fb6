//! No name of the user's is in the way of what is generated, and none of those draws a warning.

#![deny(warnings)]

use dataflow_core::port::Inline;
use dataflow_core::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Functions of the type's own, called as those of the trait are.
struct Owned {
    n: u32,
}

impl Owned {
    fn rank(&self, m: u32, n: u32) -> Rank {
        Rank((m + n) % 2)
    }

    fn tasks(&self) -> u32 {
        self.n
    }
}

task_space! {
    enum Cell;

    impl TaskSpace for Owned {
        type Datum = u64;
        let n = self.tasks();
        data Here[i, j] on self.rank(i, j);

        for m in 0..n { for i in 0..m { Make { m, i }: new Here[m, i]; } }
    }
}

#[test]
fn functions_of_the_type_may_be_called_rank_and_tasks() {
    let space = Owned { n: 4 };
    verify(&space, 2).unwrap();
    let here = TaskSpace::tasks(&space, Rank(1));
    let here: Vec<Cell> = here.collect();
    let expected = [(1, 0), (2, 1), (3, 0), (3, 2)].map(|(m, i)| Cell::Make { m, i });
    assert_eq!((here, space.count(Rank(1))), (expected.to_vec(), 4));
}

/// Where the names of the standard library are those of one's own, and the trait is not at hand.
mod beside {
    use dataflow_core::task_space;

    pub struct Option {
        pub strike: f64,
    }
    pub struct Some;
    pub struct None;
    pub struct Vec;
    pub struct String;
    pub struct Result;
    pub struct Ok;
    pub struct Err;
    pub struct Box;

    pub struct Prices {
        pub options: [Option; 3],
        pub all: (Some, None, Vec, String, Result, Ok, Err, Box),
    }

    task_space! {
        pub enum Price;

        impl TaskSpace for Prices {
            type Datum = f64;
            let n = self.options.len() as u32;
            let p = 2;
            dense if n < 9;
            data Each[i] on i % p;
            data Sum[i];

            for i in 0..n {
                Make { i }: new each = Each[i], priority i => each.put(self.options[i as usize].strike);
            }
            for i in 0..n {
                Add { i }: read each = Each[i], optional before = Sum[i - 1], new sum = Sum[i], on i % p => {
                    sum.put(*each + before.copied().unwrap_or_default());
                }
            }
        }
    }
}

#[test]
fn types_may_be_called_as_those_of_the_standard_library() {
    use beside::*;
    let options = [1.0, 2.0, 4.0].map(|strike| Option { strike });
    let all = (Some, None, Vec, String, Result, Ok, Err, Box);
    let space = Prices { options, all };
    verify(&space, 2).unwrap();
    let (Some, None, ..) = space.all;
    let wire = Price::Add { i: 2 }.to_wire().unwrap();
    assert_eq!(Price::from_wire(&wire).unwrap(), Price::Add { i: 2 });
    assert!(Price::from_wire(&wire[1..]).is_none());
}

/// What is added to the derived functions binds parameters again, and loops are called as spare names are.
struct Bound {
    p: u32,
    q: u32,
    n: u32,
    asked: AtomicU64,
}

task_space! {
    enum Pass;

    impl TaskSpace for Bound {
        type Datum = u64;
        let n = self.n;
        let p = self.p;
        let q = self.q;
        let d = self.n;
        let space = self.n;
        let max = self.n;
        data Part[i] on i % p;
        order Done[i];

        /// Says nothing of `d`.
        #[inline(never)]
        fn describe(&self, d: &mut Description) {
            d.name("bound").parameter("n", n);
            let n = 1;
            d.parameter("one", n);
        }

        #[inline(never)]
        fn inputs(&self, _: Pass, _: &mut impl Inputs<Self>) {
            let n = 1;
            self.asked.fetch_add(n, Ordering::Relaxed);
        }

        #[expect(unused_variables)]
        fn successors(&self, task: Pass, _: &mut impl Successors<Self>) {
            let q = 1;
        }

        for i in 0..n { Give { i }: new part = Part[i] => part.put(u64::from(i)); }
        for i in 0..n {
            for j in 0..q {
                for k in 0..max { Take { i, j, k }: read part = Part[i], on i % p => assert!(*part < u64::from(d + space)); }
            }
        }
    }
}

#[test]
fn functions_that_are_completed_keep_attributes_and_bind_names_of_parameters() {
    let (p, q, n) = (2, 2, 3);
    let asked = AtomicU64::new(0);
    let space = Bound { p, q, n, asked };
    verify(&space, 2).unwrap();
    assert!(space.asked.into_inner() >= 3 + 18);
}

/// A loop, a parameter and a flow with names that are words of Rust.
struct Words {
    n: u32,
    said: std::sync::Mutex<Vec<String>>,
}

task_space! {
    enum Word;

    impl TaskSpace for Words {
        type Datum = u64;
        let r#fn = self.n;
        data Made[r#type] where r#type < r#fn;

        for r#type in 0..r#fn {
            Make { r#type }: new r#move = Made[r#type] => r#move.put(u64::from(r#type));
        }
        for r#type in 0..r#fn {
            for j in 0..r#type {
                Say { r#type, j }: read r#move = Made[r#type] => self.said.lock().unwrap().push(format!("{type} of {fn}: {move}"));
            }
        }
    }
}

#[test]
fn names_may_be_words_of_rust_and_are_shown_without_their_marks() {
    let said = std::sync::Mutex::default();
    let space = Words { n: 3, said };
    verify(&space, 1).unwrap();
    dataflow_core::run(&space, &Inline).unwrap();
    let mut said = space.said.lock().unwrap().clone();
    said.sort_unstable();
    assert_eq!(said, ["1 of 3: 1", "2 of 3: 2", "2 of 3: 2"]);
    let [formulas, relations] = [Word::formulas(), Word::relations()];
    assert!(!formulas.contains("r#") && !relations.contains("r#"));
    assert!(formulas.contains("<- Make { type }.move"), "{formulas}");
    assert!(
        formulas.contains("-> Say { type, j }.move, for j in 0..type"),
        "{formulas}"
    );
    let mut about = Description::default();
    space.describe(&mut about);
    assert!(!format!("{about:?}").contains("r#"));
}

/// Rows that nobody can read.
struct Unreadable {
    rows: Store<u64>,
    n: u32,
}

task_space! {
    enum Refuse;

    impl TaskSpace for Unreadable {
        type Datum = u64;
        let n = self.n;
        data Row[i] in self.rows at i;

        for i in 0..n { Refuse { i }: read _row = Row[i] => return Err(TaskError::new("unreadable", "no row")); }
    }
}

/// The compiler said at `impl` that an expression is unreachable.
#[test]
fn a_space_whose_only_body_returns_an_error_draws_no_warning() {
    let space = Unreadable {
        rows: Store::new("rows", [7]),
        n: 1,
    };
    let fault = dataflow_core::run(&space, &Inline).unwrap_err();
    assert!(fault.to_string().contains("no row"), "{fault}");
}

/// Where a crate refuses casts that change nothing and results that nobody uses.
mod strict {
    #![deny(trivial_numeric_casts, unused_results)]
    use dataflow_core::prelude::*;

    pub struct Rows {
        pub rows: Store<u64>,
        pub n: u32,
        pub p: u32,
    }

    task_space! {
        pub enum Row;

        impl TaskSpace for Rows {
            type Datum = u64;
            let n = self.n;
            let p = self.p;
            data Row[i] in self.rows at i as usize on i % p of "row";

            for i in 0..n { Double { i }: update row = Row[i] => *row *= 2; }
        }
    }
}

/// The compiler refused `slot as usize` of a slot that is one, and what describes the space.
#[test]
fn what_is_generated_is_no_cast_and_no_result_of_the_users() {
    let rows = Store::new("rows", [1, 2, 3]);
    let space = strict::Rows { rows, n: 3, p: 1 };
    verify(&space, 1).unwrap();
    dataflow_core::run(&space, &Inline).unwrap();
    assert_eq!(space.rows.into_data().unwrap(), [2, 4, 6]);
}
