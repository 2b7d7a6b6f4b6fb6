//! What the compiler says of common mistakes, as a user of the crate reads it.
//!
//! That they do not compile is said where they are described (`compile_fail` in the documentation);
//! here it is what stands in the messages.

#![cfg(not(miri))] // which starts no compiler

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with what was compiled for this test.
fn built() -> PathBuf {
    let own = env::current_exe().expect("the test's own path");
    own.parent().expect("a folder").to_owned()
}

/// The library this test was built with, or one of another selection of features: the newest.
fn library(built: &Path) -> PathBuf {
    let entries = built.read_dir().expect("the folder of this test");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_core = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libdataflow_core-") && name.ends_with(".rlib")
    };
    let age = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let newest = paths.filter(is_core).max_by_key(age);
    newest.expect("the library that this test is built with")
}

/// Whether the compiler takes a program of an edition, and what it says.
fn compiled(name: &str, edition: &str, program: &str) -> (bool, String) {
    let built = built();
    let text = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.rs"));
    std::fs::write(&text, program).expect("a file in the folder for such files");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command
        .arg(format!("--edition={edition}"))
        .args(["--crate-type=lib", "--emit=metadata", "--out-dir"])
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .arg(format!(
            "--extern=dataflow_core={}",
            library(&built).display()
        ))
        .arg(format!("-Ldependency={}", built.display()))
        .arg(&text);
    let out = command.output().expect("a compiler");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.success(), said)
}

/// Whether the library is one with a sanitizer, which asks for its own std.
fn has_sanitizer() -> bool {
    let is_there = env::var("RUSTFLAGS").is_ok_and(|flags| flags.contains("sanitizer"));
    if is_there {
        eprintln!("skipped: the library is one with a sanitizer");
    }
    is_there
}

/// Each of these stands in the first error.
fn says(name: &str, program: &str, parts: &[&str]) {
    says_no_more(name, program, parts, false);
}

/// The same; and, if that is asked for, there is no other error.
fn says_no_more(name: &str, program: &str, parts: &[&str], alone: bool) {
    if has_sanitizer() {
        return;
    }
    let (compiles, said) = compiled(name, "2024", program);
    assert!(!compiles, "{name} compiles: {said}");
    assert!(
        !alone || said.contains("aborting due to 1 previous error"),
        "{name}: {said}"
    );
    let first = said.split("\nerror").next().unwrap_or_default();
    for part in parts {
        assert!(first.contains(part), "{name}: no {part:?} in\n{said}");
    }
}

const IN_SCOPE: &str = "#![allow(unused)]
    use dataflow_core::port::Inline;
    use dataflow_core::sequence::{read, reduce, scope, write};
    pub fn program() { let _ = scope(&Inline, |s| {";

fn in_scope(name: &str, body: &str, parts: &[&str]) {
    says(name, &format!("{IN_SCOPE} {body} }}); }}"), parts);
}

#[test]
fn a_handle_alone_is_told_what_to_say_of_it() {
    in_scope(
        "handle",
        "let n = s.handle(1); s.task(&n, |n| *n += 1);",
        &[
            "does not say what a task does with its data",
            "say `read(&h)`, `write(&h)`",
        ],
    );
}

#[test]
fn a_datum_without_a_handle_is_told_how_it_gets_one() {
    in_scope(
        "lend",
        "let mut n = 1; s.task(write(&mut n), |n| *n += 1);",
        &[
            "is nothing that tasks access",
            "`s.lend(&mut datum)` makes a handle of a datum that the scope borrows",
            "`r.home(&store, slot, owner)` names a datum of a store",
        ],
    );
}

/// Nothing ran, and nothing was said.
#[test]
fn a_recorded_program_that_is_not_replayed_is_told_so() {
    says(
        "unreplayed",
        "#![deny(unused_must_use)]
        use dataflow_core::prelude::*;
        use dataflow_core::sequence::record::record;
        pub fn program(store: &Store<f64>) -> Result<(), Error> {
            record(\"step\", 1, |r| {
                let x = r.home(store, 0, Rank(0));
                r.task(write(&x), |x| *x += 1.0);
            })?;
            Ok(())
        }",
        &["unused `Recorded`", "no task runs until it is replayed"],
    );
}

#[test]
fn nine_accesses_are_told_where_they_go() {
    in_scope(
        "nine",
        "let n = s.handles([0; 9]);
        let [a, b, c, d, e, f, g, h, i] = std::array::from_fn(|at| read(&n[at]));
        s.task((a, b, c, d, e, f, g, h, i), |_| ());",
        &[
            "no tuple of at most eight",
            "tuples of tuples, `((a, b), (c, d))`, or into a `Vec`",
        ],
    );
}

/// Of data of different types, or accesses of different kinds, an array has elements of different types, and
/// the compiler says that alone.
#[test]
fn an_array_of_accesses_is_told_what_takes_its_place() {
    in_scope(
        "array",
        "let n = s.handles([0; 2]); s.task([read(&n[0]), read(&n[1])], |_| ());",
        &[
            "no tuple of at most eight, no `Vec`",
            "accesses of different kinds, or of data of different types, go into a tuple, `(a, b)`",
        ],
    );
}

/// The parameter was `()` from then on, and each of its uses an error.
#[test]
fn a_parameter_of_a_name_of_another_type_is_told_alone() {
    says_no_more(
        "parameter",
        "dataflow_core::task_names! { pub enum Node { Leaf { at: u64 }, Join { level: u32, at: usize } } }
        pub fn half(node: Node) -> u64 { match node { Node::Leaf { at } => at / 2, _ => 0 } }",
        &["parameter `at` of a name is of type `u64` (`u32` and `usize` are allowed)"],
        true,
    );
}

#[test]
fn a_body_that_returns_a_number_is_told_where_results_go() {
    in_scope(
        "outcome",
        "let n = s.handle(1_i32); s.task(write(&n), |n| *n + 1);",
        &[
            "a task's body cannot return `i32`",
            "results go into data that the task writes",
        ],
    );
}

#[test]
fn what_cannot_be_added_to_is_told_how_it_could() {
    in_scope(
        "reduce",
        "let text = s.handle(String::new()); s.task(reduce(&text), |t| t.push('a'));",
        &[
            "`String` does not implement `Reduce`",
            "says how by `impl Reduce`",
        ],
    );
}

#[test]
fn data_of_one_thread_are_named_as_that() {
    in_scope(
        "threads",
        "s.handle(std::rc::Rc::new(1_i32));",
        &["`Rc<i32>` cannot be sent between threads safely"],
    );
}

#[test]
fn a_type_that_is_no_datum_is_told_how_it_becomes_one() {
    says(
        "datum",
        "pub struct Piece;
        pub fn store() -> dataflow_core::data::Store<Piece> {
            dataflow_core::data::Store::new(\"pieces\", vec![Piece])
        }",
        &[
            "`Piece` does not implement `Datum`",
            "and `impl Datum for Piece {}`",
        ],
    );
}

#[test]
fn a_type_that_names_no_task_is_told_what_does() {
    says(
        "name",
        "use dataflow_core::prelude::*;
        fn named<K: TaskName>(_: K) {}
        pub fn program() { named(1.5); }",
        &[
            "does not implement `TaskName`",
            "`task_names!` makes an enum of names",
        ],
    );
}

#[test]
fn a_datum_that_does_not_travel_is_told_who_asks_for_it() {
    says(
        "wire",
        "use dataflow_core::port::Wire;
        fn travels<D: Wire>(_: D) {}
        pub fn program() { travels(std::rc::Rc::new(1_i32)); }",
        &[
            "does not implement `Wire`: it cannot travel between ranks",
            "`run_across` and `replay` ask for it",
        ],
    );
}

/// A space of one statement over `A`, which has `n` data at home.
fn one_statement(name: &str, statement: &str, parts: &[&str]) {
    says(name, &with_statement(statement), parts);
}

/// A program that runs a space of one statement.
fn with_statement(statement: &str) -> String {
    format!(
        "use dataflow_core::prelude::*;
        pub struct Row {{ a: Store<Vec<f64>>, n: u32 }}
        task_space! {{
            pub enum Task;
            impl TaskSpace for Row {{
                type Datum = Vec<f64>;
                let n = self.n;
                data A[i] where i < n in self.a at i;
                for i in 0..n {{
{statement}
                }}
            }}
        }}
        pub fn program(row: &Row) {{ let _ = dataflow_core::run(row, &dataflow_core::port::Inline); }}"
    )
}

#[test]
fn a_subscript_that_is_no_sum_is_shown_where_it_stands() {
    one_statement(
        "subscript",
        "Touch { i }: update own = A[i * i] => { own.clear(); }",
        &[
            "this subscript is not affine",
            "10 | ",
            "multiplies two variables",
        ],
    );
}

/// Nothing is said of a space that is missing: it is there, as far as it could be read.
#[test]
fn an_access_that_there_is_not_is_the_only_error() {
    let statement = "Touch { i }: write own = A[i] => { own.clear(); }";
    let parts = ["`write` of sequences is `update` here"];
    says_no_more("access", &with_statement(statement), &parts, true);
}

/// It was told that a slot cannot be dereferenced.
#[test]
fn a_datum_that_is_new_is_told_how_it_is_filled_and_no_more() {
    let statement = "Touch { i }: new own = A[i] => { *own = vec![1.0]; }";
    let parts = ["fill it by `own.put(…)`", "10 | "];
    says_no_more("put", &with_statement(statement), &parts, true);
}

#[test]
fn an_element_outside_of_its_data_is_shown_where_it_stands() {
    one_statement(
        "outside",
        "Touch { i }: update own = A[i + 1] => { own.clear(); }",
        &[
            "`A[i + 1]` lies outside of its data",
            "narrow the bounds of the loop",
            "10 | ",
        ],
    );
}

/// `u32::try_from` stood in names of tasks, and is not in the prelude of that edition.
#[test]
fn a_space_is_none_in_a_crate_of_the_edition_of_2018() {
    let program = with_statement("Touch { i }: update own = A[i] => { own.clear(); }");
    let (compiles, said) = compiled("edition", "2018", &program);
    assert!(has_sanitizer() || compiles, "{said}");
}
