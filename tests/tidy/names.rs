//! Names: one word has one meaning, and keeps its name where it is imported.

use crate::rust::{code_only, ends_in_word, without_tests};
use crate::tree::{Tree, identifiers};
use std::collections::{BTreeMap, BTreeSet};

/// Imports that may rename: file, what becomes what, and why.
const RENAMED: &[(&str, &str, &str)] = &[
    ("src/lib.rs", "dataflow_core as core", OUR_CRATE),
    ("src/lib.rs", "dataflow_linalg as linalg", OUR_CRATE),
    ("src/lib.rs", "dataflow_mpi as mpi", OUR_CRATE),
    ("src/lib.rs", "dataflow_numa as numa", OUR_CRATE),
    (
        "crates/dataflow-core/src/lib.rs",
        "dataflow_macros as macros",
        OUR_CRATE,
    ),
    (
        "crates/dataflow-mpi/src/lib.rs",
        "mpi as rsmpi",
        "the crate `mpi` is the package rsmpi",
    ),
    (
        "crates/dataflow-numa/src/queue/workers.rs",
        "Worker as Deque",
        "crossbeam's worker is a deque; ours is a thread",
    ),
    (
        "crates/dataflow-core/tests/failures.rs",
        "Error as StdError",
        "beside our own",
    ),
    (
        "benches/race/peers.rs",
        "factor as lu",
        "faer's modules have one name",
    ),
    (
        "benches/race/peers.rs",
        "factor as qr",
        "faer's modules have one name",
    ),
];

const OUR_CRATE: &str = "a crate of ours is a module of the one above it";

/// Names of several types, public or private, and why they may be.
const ALIKE: &[(&[&str], &str)] = &[
    (
        &["Check", "CheckTask", "Factor", "Solve", "Task"],
        "one meaning, for each decomposition in its folder: `cholesky::Factor`, `lu::Factor`",
    ),
    (
        &["Options"],
        "one meaning: what stands behind a command's name on the command line, for each command in its file",
    ),
    (
        &["Lu"],
        "one meaning: P, L and U, of one tile and of an array",
    ),
    (
        &["Factors"],
        "one meaning: the factors of a matrix; of a mixed solution in either precision, and of an array by LU",
    ),
    (
        &["Products"],
        "one meaning: sums of products of columns, each file for another shape of the matrix",
    ),
    (
        &["Access", "Mode"],
        "one meaning: what a task does with a datum; in a loop nest, in its text, in a sequence, by a flow",
    ),
    (
        &["End", "Family", "Relation", "Statement"],
        "of loop nests, as dataflow-macros reads them and dataflow-affine has them",
    ),
    (
        &["Part", "Reason"],
        "those of dataflow-affine are read by dataflow-macros only",
    ),
    (
        &["Message"],
        "that of dataflow-mpi's wire stays inside of it; the other is of a trace",
    ),
    (
        &["Onward"],
        "one meaning: to whom a parcel goes on; as the wire has it, and as it is kept",
    ),
    (
        &["Letter"],
        "one meaning: what lies in the mailbox of another rank, in one process and in virtual time",
    ),
    (
        &["Agreement"],
        "one meaning: all ranks agree; by messages before a run, and as a run",
    ),
    (
        &["Next"],
        "the answer to what is to be done next, each of one protocol",
    ),
    (
        &["Visit"],
        "one meaning: a worker inside a run; as the engine has it, and as its queues have it",
    ),
    (
        &["OfThread"],
        "one meaning: what is known of a thread, to be swapped by those who run several by turns on one",
    ),
    (
        &["Words"],
        "one meaning: the words of a queue under its lock, and who sleeps meanwhile",
    ),
    (
        &["Agenda"],
        "one meaning: who acts when in virtual time; of all ranks, and of the workers of one",
    ),
    (
        &["Overflow"],
        "one meaning: what a bucket has no room for; of flows without data, and of those with",
    ),
    (
        &["CacheLine"],
        "one meaning: a line of the cache; as bytes, and around a datum",
    ),
    (
        &["Collect"],
        "one meaning: that of a matrix is that of any data, of tiles",
    ),
    (
        &["Fiber", "Ground", "Stack", "Stacks"],
        "one meaning: each system compiles one of them",
    ),
    (
        &["File"],
        "one meaning: a trace as it is written, for each format in its file",
    ),
    (
        &["Readme"],
        "one meaning: the example of the README of each crate",
    ),
    (&["Object", "Topology"], "hwloc's, and what is made of them"),
    (
        &["Mpi"],
        "what was found at the start, and the transport over it",
    ),
    (
        &["Counts", "Format", "WriteError"],
        "of a kind of file, said with its module: `market::Counts`, `trace::Format`",
    ),
    (
        &["Machine", "Simulated"],
        "said with the module of what is simulated: `simulate::Machine`, `numa::simulate::Simulated`",
    ),
    (
        &["Transport"],
        "a runtime's says which of dataflow-mpi's it takes",
    ),
    (
        &["Turn"],
        "how a matrix is turned, `transfer::Turn`; how a turn of an actor ends",
    ),
];

/// Imports that rename and are not in the list, and what is in the list for nothing.
pub fn wrong_imports(tree: &Tree) -> Vec<String> {
    let (mut offenders, mut met) = (Vec::new(), BTreeSet::new());
    for (file, text) in tree.texts("rs") {
        for (line, import) in renamed(&code_only(text)) {
            match RENAMED
                .iter()
                .find(|(of, what, _)| (*of, &**what) == (file, &*import))
            {
                Some((of, what, _)) => _ = met.insert((*of, *what)),
                None => offenders.push(format!("{file}:{line}: `{import}` in an import")),
            }
        }
    }
    let idle = RENAMED
        .iter()
        .filter(|(of, what, _)| !met.contains(&(*of, *what)));
    offenders.extend(idle.map(|(of, what, _)| format!("{of}: no `{what}`: out of RENAMED")));
    offenders
}

/// Sources beside those of the crates, of which each is read for itself.
const FOR_THEMSELVES: [&str; 2] = ["examples/common/", "xtask/src/"];

/// Types of the crates, tests aside, that share their name with another one, those of other sources that do so
/// with one beside them, and names in the list that none share.
pub fn wrong_types(tree: &Tree) -> Vec<String> {
    let for_themselves = FOR_THEMSELVES.map(|source| BTreeSet::from([source.to_string()]));
    let read_as_one = [tree.sources()].into_iter().chain(for_themselves);
    let shared: Vec<(String, Vec<String>)> = read_as_one
        .flat_map(|sources| shared_names(tree, &sources))
        .collect();
    let allowed: BTreeSet<&str> = ALIKE
        .iter()
        .flat_map(|(names, _)| *names)
        .copied()
        .collect();
    let is_shared = |name: &str| shared.iter().any(|(other, _)| other == name);
    let idle = allowed.iter().filter(|name| !is_shared(name));
    let mut offenders: Vec<String> = idle
        .map(|name| format!("`{name}` is the name of one type: out of ALIKE"))
        .collect();
    let wrong = shared.iter().filter(|(name, _)| !allowed.contains(&**name));
    offenders.extend(wrong.map(|(name, places)| {
        format!(
            "{}: `{name}` is the name of several types",
            places.join(", ")
        )
    }));
    offenders
}

/// Names of several types in some source folders, tests aside, and where these are.
fn shared_names(tree: &Tree, sources: &BTreeSet<String>) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let of_sources = |file: &str| sources.iter().any(|source| file.starts_with(source));
    for (file, text) in tree.texts("rs").filter(|(file, _)| of_sources(file)) {
        if file.ends_with("/tests.rs") || file.contains("/tests/") {
            continue;
        }
        for (line, name) in types(&without_tests(&code_only(text))) {
            let places = places.entry(name.to_string()).or_default();
            places.push(format!("{file}:{line}"));
        }
    }
    places.retain(|_, places| places.len() > 1);
    places
}

/// `B as C` of `use a::{B as C, D as _}`, with the line of its `use`.
fn renamed(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        if ends_in_word(&code[..at]) {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let import = code[at..].split(';').next().unwrap_or_default();
        let words: Vec<&str> = identifiers(import).collect();
        let renames = words.windows(3).filter(|of| of[1] == "as" && of[2] != "_");
        found.extend(renames.map(|of| (line, of.join(" "))));
    }
    found
}

/// The macros that declare names of tasks, each an enum.
const OF_TASKS: [&str; 2] = ["task_names! {", "task_space! {"];

/// Names of the types, traits and aliases of a file, whoever sees them, and of the enums of its tasks; outside
/// of other macros, of functions and of modules inside it.
fn types(code: &str) -> Vec<(usize, &str)> {
    const KINDS: [&str; 5] = ["enum", "struct", "trait", "type", "union"];
    let mut of_tasks = false;
    let lines = code.lines().enumerate();
    let types = lines.filter_map(|(index, line)| {
        let is_inside = line.is_empty() || line.starts_with([' ', '}']);
        of_tasks &= is_inside;
        of_tasks |= OF_TASKS.iter().any(|opens| line.ends_with(opens));
        let (line, kinds) = match of_tasks {
            true => (line.trim_start(), &KINDS[..1]),
            false => (line, &KINDS[..]),
        };
        let mut words = without_visibility(line)
            .split(' ')
            .filter(|word| *word != "unsafe");
        words.next().filter(|word| kinds.contains(word))?;
        let name = identifiers(words.next()?).next()?;
        Some((index + 1, name))
    });
    types.collect()
}

/// `struct A` of `pub(in a::b) struct A`.
fn without_visibility(item: &str) -> &str {
    match item.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(rest, |(_, item)| item),
        Some(rest) => rest.trim_start(),
        None => item,
    }
}

mod tests {
    use super::*;

    #[test]
    fn an_import_that_renames_is_seen_however_it_is_written() {
        for (code, expected) in [
            ("use a::B;", vec![]),
            ("use a::B as _;", vec![]),
            ("let b = a as usize;\nreuse a as b;", vec![]),
            ("\nuse a::B as C;", vec![(2, "B as C")]),
            (
                "pub use a::{\n  b::{B as C, D},\n  e as f,\n};",
                vec![(1, "B as C"), (1, "e as f")],
            ),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(line, import)| (line, import.to_string()))
                .collect();
            assert_eq!(renamed(code), expected, "{code}");
        }
    }

    #[test]
    fn a_type_is_seen_whoever_sees_it_and_told_from_one_of_a_function() {
        let code = "pub struct A<T>(T);\npub(crate) struct B;\nenum C {}\npub unsafe trait D: E {\n    \
                    pub type F = u8;\npub enum G {\npub fn h() {}\npub(in a::b) type I<T> = A<T>;\n    struct J;";
        let expected = [(1, "A"), (2, "B"), (3, "C"), (4, "D"), (6, "G"), (8, "I")];
        assert_eq!(types(code), expected);
    }

    #[test]
    fn enums_of_tasks_are_seen_in_the_macros_that_declare_them() {
        let code = "crate::task_names! {\n\n    pub enum A { B {} }\n    enum C { D {} }\n}\nother! {\n    \
                    pub enum E { F {} }\n}\ntask_space! {\n    pub enum G;\n    type H = I;\n}\npub enum J {}";
        let expected = [(3, "A"), (4, "C"), (10, "G"), (13, "J")];
        assert_eq!(types(code), expected);
    }
}
