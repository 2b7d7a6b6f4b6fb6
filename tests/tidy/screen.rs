//! Screen: how long functions are.

use crate::rust::{code_only, ends_in_word, without_tests};
use crate::tree::{Tree, identifiers};
use std::collections::BTreeSet;

/// Lines of a function, its head among them: a tall screen.
const MOST_LINES: usize = 64;

/// Longer functions, by their file, and why they may be.
const LONG: &[(&str, &str, &str)] = &[
    (
        "crates/dataflow-linalg/src/matrix/market/error.rs",
        "fmt",
        "a sentence for each thing that can be wrong with a file",
    ),
    (
        "crates/dataflow-macros/src/fault.rs",
        "text",
        "a sentence for each fault of a loop nest",
    ),
];

/// Functions of the crates, tests aside, that are longer than a screen and not in the list, and what is in the
/// list for nothing.
pub fn wrong_lengths(tree: &Tree) -> Vec<String> {
    let sources = tree.sources();
    let is_source = |file: &str| sources.iter().any(|source| file.starts_with(source));
    let is_test = |file: &str| file.ends_with("/tests.rs") || file.contains("/tests/");
    let (mut offenders, mut met) = (Vec::new(), BTreeSet::new());
    let read = |(file, _): &(&str, &str)| is_source(file) && !is_test(file);
    for (file, text) in tree.texts("rs").filter(read) {
        for (line, name, lines) in functions(&without_tests(&code_only(text))) {
            if lines <= MOST_LINES {
                continue;
            }
            match LONG
                .iter()
                .find(|(of, long, _)| (*of, *long) == (file, name))
            {
                Some((of, long, _)) => _ = met.insert((*of, *long)),
                None => offenders.push(format!(
                    "{file}:{line}: `{name}` has {lines} lines ({MOST_LINES} at most)"
                )),
            }
        }
    }
    let idle = LONG
        .iter()
        .filter(|(of, long, _)| !met.contains(&(*of, *long)));
    offenders.extend(idle.map(|(of, long, _)| format!("{of}: `{long}` is short: out of LONG")));
    offenders
}

/// The functions of code that have a body and are no tests: line, name, and lines from `fn` to the last `}`.
fn functions(code: &str) -> Vec<(usize, &str, usize)> {
    let lines = |code: &str| code.matches('\n').count();
    let is_word = |at: &usize| !ends_in_word(&code[..*at]);
    let is_test = |at: &usize| code[..*at].trim_end().ends_with("#[test]");
    let begins = code.match_indices("fn ").map(|(at, _)| at);
    let begins = begins.filter(|at| is_word(at) && !is_test(at));
    let functions = begins.filter_map(|at| {
        let function = &code[at..];
        let name = identifiers(function).nth(1)?;
        let length = function_length(function)?;
        Some((lines(&code[..at]) + 1, name, lines(&function[..length]) + 1))
    });
    functions.collect()
}

/// The length of the function that code begins with, to the end of its body, if it has one.
fn function_length(code: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            '{' => braces += 1,
            '}' => braces -= 1,
            _ => {}
        }
        match c {
            '}' if braces == 0 && brackets == 0 => return Some(at + 1),
            ';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

#[test]
fn functions_are_as_long_as_their_bodies_whatever_stands_in_their_heads() {
    let code = "trait A {\n    fn none(of: [u8; 3]);\n    fn own(&self,\n        of: [u8; { 3 }],\n    ) {\n        if of {}\n    }\n}\ntype F = fn (u8);\n#[test]\nfn test() {}\nfn last() { let b = [0; 2]; }";
    assert_eq!(functions(code), [(3, "own", 5), (12, "last", 1)]);
}
