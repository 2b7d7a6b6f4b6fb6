//! Calls: methods of a type that lie in several files call each other, and no import says so.
//!
//! A type is known by the path that its name leads to, and looked at if files of several modules have methods of
//! its own. A call of one is seen where it names the type (`Self::f`, `Type::f`), and where the last name before
//! the dot does: `self`, or one that the same file gives a type (`run: &Run<…>`, `let run = Run::new(…)`).
//! Methods of traits, and what macros make, are not seen.

use crate::circles::{Names, Path, from_root};
use crate::rust::{ends_in_word, item_length};
use crate::tree::identifiers;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Which modules each calls, by which methods.
pub type Calls = BTreeMap<Path, BTreeMap<Path, BTreeSet<String>>>;

/// Which modules have a type's methods of this name.
type Methods = BTreeMap<(Path, String), BTreeSet<Path>>;

/// The calls from module to module by methods of one type.
pub fn calls(codes: &BTreeMap<Path, String>, names: &Names) -> Calls {
    let files: Vec<File> = codes
        .iter()
        .map(|(module, code)| File::of(module, code, names))
        .collect();
    let methods = methods_apart(&files);
    let mut calls = Calls::new();
    for file in &files {
        for (of, name) in file.called(&methods, names) {
            let Some(modules) = methods.get(&(of, name.to_string())) else {
                continue;
            };
            let others = modules.iter().filter(|_| !modules.contains(file.module));
            for other in others {
                let called = calls.entry(file.module.clone()).or_default();
                let by = called.entry(other.clone()).or_default();
                by.insert(name.to_string());
            }
        }
    }
    calls
}

/// The methods of types that have some in several modules.
fn methods_apart(files: &[File]) -> Methods {
    let (mut methods, mut modules) = (Methods::new(), BTreeMap::<&Path, BTreeSet<&Path>>::new());
    for file in files {
        for block in file.blocks.iter().filter(|block| !block.is_of_trait) {
            modules.entry(&block.of).or_default().insert(file.module);
            for name in functions(&file.code[block.body.clone()]) {
                let of_name = methods.entry((block.of.clone(), name.to_string()));
                of_name.or_default().insert(file.module.clone());
            }
        }
    }
    methods.retain(|(of, _), _| modules[of].len() > 1);
    methods
}

/// The file of a module.
struct File<'c> {
    module: &'c Path,
    code: &'c str,
    blocks: Vec<Block>,
}

/// An `impl`.
struct Block {
    /// Whose.
    of: Path,
    is_of_trait: bool,
    body: Range<usize>,
}

impl<'c> File<'c> {
    fn of(module: &'c Path, code: &'c str, names: &Names) -> Self {
        let block = |at| {
            let begin = at + code[at..].find('{')?;
            let head = code[at..begin].trim_start_matches("impl").trim_start();
            let head = head[angles(head)..].replace('\n', " ");
            let (is_of_trait, of) = match head.split_once(" for ") {
                Some((_, of)) => (true, of),
                None => (false, head.as_str()),
            };
            Some(Block {
                of: type_of(of, module, names)?,
                is_of_trait,
                body: begin..begin + item_length(&code[begin..]),
            })
        };
        let begins_an_item = |at: &usize| {
            let line = code[..*at].rsplit('\n').next().unwrap_or_default().trim();
            let next = code[*at + "impl".len()..].chars().next();
            matches!(line, "" | "unsafe") && matches!(next, Some('<' | ' '))
        };
        let starts = code.match_indices("impl").map(|(at, _)| at);
        let blocks = starts.filter(begins_an_item).filter_map(block).collect();
        File {
            module,
            code,
            blocks,
        }
    }

    /// What is called here under the names of these methods, and whose it is.
    fn called(&self, methods: &Methods, names: &Names) -> Vec<(Path, &'c str)> {
        let (code, known) = (self.code, self.types_of_names(names));
        let wanted: BTreeSet<&str> = methods.keys().map(|(_, name)| name.as_str()).collect();
        let mut called = Vec::new();
        for (at, mark) in code.match_indices(['.', ':']) {
            let (before, after) = (&code[..at], &code[at + 1..]);
            let name = beginning(after, is_word);
            if !wanted.contains(name) {
                continue;
            }
            let is_call = after[name.len()..].starts_with(['(', ':']);
            let of: Vec<Path> = match (mark, before.strip_suffix(':').map(path_at_end)) {
                (".", _) if !is_call => vec![],
                (".", _) => match receiver(before) {
                    Some("self") => self.type_at(at).into_iter().collect(),
                    receiver => {
                        let types = receiver.and_then(|receiver| known.get(receiver));
                        types.into_iter().flatten().cloned().collect()
                    }
                },
                (_, Some("Self")) => self.type_at(at).into_iter().collect(),
                (_, Some(path)) => type_of(path, self.module, names).into_iter().collect(),
                (_, None) => vec![],
            };
            called.extend(of.into_iter().map(|of| (of, name)));
        }
        called
    }

    /// The type whose `impl` this place is in.
    fn type_at(&self, at: usize) -> Option<Path> {
        let block = self.blocks.iter().find(|block| block.body.contains(&at));
        block.map(|block| block.of.clone())
    }

    /// Which types names have here: fields, parameters, and variables that an associated function makes.
    fn types_of_names(&self, names: &Names) -> BTreeMap<&'c str, BTreeSet<Path>> {
        let mut known = BTreeMap::<_, BTreeSet<Path>>::new();
        let mut learn = |at: usize, of: &str| {
            let name = end_of(&self.code[..at], is_word);
            if let Some(of) = type_of(of, self.module, names) {
                known.entry(name).or_default().insert(of);
            }
        };
        for (at, mark) in self.code.match_indices(": ") {
            learn(at, bare(&self.code[at + mark.len()..]));
        }
        for (at, mark) in self.code.match_indices(" = ") {
            let made = beginning(&self.code[at + mark.len()..], is_path);
            if let Some((of, _)) = made.trim_end_matches(':').rsplit_once("::") {
                learn(at, of);
            }
        }
        known
    }
}

/// The functions directly in the body of an `impl`.
fn functions(body: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    for (at, start) in body.match_indices("fn ") {
        let between = &body[from..at];
        depth += between.matches('{').count();
        depth -= between.matches('}').count();
        from = at;
        if depth == 1 && !ends_in_word(&body[..at]) {
            found.extend(identifiers(&body[at + start.len()..]).next());
        }
    }
    found
}

/// The path of the type that the text begins with.
fn type_of(text: &str, module: &Path, names: &Names) -> Option<Path> {
    let path = beginning(text.trim_start_matches(['&', ' ']), is_path);
    let path = path.trim_end_matches(':').split("::");
    let path: Path = path.map(String::from).collect();
    let is_type = path.last()?.starts_with(char::is_uppercase);
    is_type.then(|| names.led(from_root(module, &path)))
}

/// A type without references to it and boxes around it.
fn bare(mut text: &str) -> &str {
    loop {
        let before = text;
        text = text.trim_start_matches(['&', ' ']);
        if let Some(lifetime) = text.strip_prefix('\'') {
            text = lifetime.trim_start_matches(is_word);
        }
        for around in ["mut ", "Box<", "Arc<"] {
            text = text.strip_prefix(around).unwrap_or(text);
        }
        if text == before {
            return text;
        }
    }
}

/// The last name before a dot: `run` of `self.run`, `(self.run)` and `&run`; nothing of what a call answers.
fn receiver(before: &str) -> Option<&str> {
    let before = before.trim_end();
    let Some(inside) = before.strip_suffix(')') else {
        return Some(end_of(before, is_word));
    };
    let begin = inside.rfind('(')?;
    let (before, inside) = (&inside[..begin], &inside[begin + 1..]);
    let is_bare = inside.chars().all(|c| is_word(c) || c == '.');
    (is_bare && !ends_in_word(before)).then(|| end_of(inside, is_word))
}

/// The path that the code ends with, without generics behind it: `a::B` of `c(a::B::<D>`.
fn path_at_end(mut code: &str) -> &str {
    if code.ends_with('>') {
        let mut depth = 0;
        let begin = code.char_indices().rev().find(|(_, c)| {
            depth += i32::from(*c == '>') - i32::from(*c == '<');
            depth == 0
        });
        code = &code[..begin.map_or(0, |(at, _)| at)];
    }
    end_of(code.trim_end_matches(':'), is_path)
}

/// The length of the generics in angles that the text begins with.
fn angles(text: &str) -> usize {
    let (mut depth, mut last) = (0, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if last != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { 0 } else { at + 1 };
        }
        last = c;
    }
    text.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_path(c: char) -> bool {
    is_word(c) || c == ':'
}

fn beginning(text: &str, is_it: fn(char) -> bool) -> &str {
    &text[..text.len() - text.trim_start_matches(is_it).len()]
}

fn end_of(text: &str, is_it: fn(char) -> bool) -> &str {
    &text[text.trim_end_matches(is_it).len()..]
}

mod tests {
    use super::*;

    /// What `a.rs` calls in `b.rs`, two files of one folder that have methods of `Run`.
    fn called(a: &str) -> Vec<String> {
        let files = [
            ("", "mod room;"),
            (
                "room",
                "mod a; mod b; pub(crate) struct Run<'a>(&'a u8);\nimpl Run<'_> { fn new() -> Self { x } }",
            ),
            ("room/a", a),
            (
                "room/b",
                "use super::Run;\nimpl<'a> Run<'a> {\n fn release(&self) { fn no() {} }\n fn pack() {}\n}",
            ),
        ];
        let module = |path: &str| -> Path {
            let names = path.split('/').filter(|name| !name.is_empty());
            names.map(String::from).collect()
        };
        let codes = files.map(|(path, code)| (module(path), code.to_string()));
        let codes = BTreeMap::from(codes);
        let calls = calls(&codes, &Names::of(&codes));
        let of_a = calls.get(&module("room/a"));
        let in_b = of_a.and_then(|called| called.get(&module("room/b")));
        in_b.into_iter().flatten().cloned().collect()
    }

    #[test]
    fn a_call_is_seen_where_its_type_is_named() {
        for (code, expected) in [
            (
                "use super::Run;\nimpl Run<'_> { fn f(&self) { self.release() } }",
                Some("release"),
            ),
            (
                "use super::Run;\nimpl Run<'_> { fn f(&self) { g(Self::pack) } }",
                Some("pack"),
            ),
            (
                "use super::Run;\nimpl<'a> T for Run<'a> { fn f(&self) { self\n  .release() } }",
                Some("release"),
            ),
            (
                "use super::Run;\nfn f(run: &Run<'_>) { run.release() }",
                Some("release"),
            ),
            (
                "use crate::room::Run;\nfn f() { Run::<'static>::pack() }",
                Some("pack"),
            ),
            ("fn f() { super::Run::pack() }", Some("pack")),
            (
                "use super::Run;\nfn f() { let run = Run::new(); run.release() }",
                Some("release"),
            ),
            (
                "use super::Run;\nstruct A<'r> { run: &'r mut Run<'r> }\nimpl A<'_> { fn f(&self) { (self.run).release() } }",
                Some("release"),
            ),
            // Of another type, one of the same name, a field, a method of its own, and what a call answers.
            (
                "use super::Run;\nfn f(near: &Near) { near.release() }",
                None,
            ),
            (
                "struct Run;\nimpl Run { fn f(&self) { self.release() } }",
                None,
            ),
            (
                "use super::Run;\nimpl Run<'_> { fn f(&self) { self.release } }",
                None,
            ),
            (
                "use super::Run;\nimpl Run<'_> { fn release(&self) { self.release() } }",
                None,
            ),
            (
                "use super::Run;\nimpl Run<'_> { fn f(&self) { g(self).release() } }",
                None,
            ),
            (
                "use super::Run;\nimpl Run<'_> { fn f(&self) { self.no() } }",
                None,
            ),
        ] {
            assert_eq!(called(code), Vec::from_iter(expected), "{code}");
        }
    }
}
