//! Circles: modules of one crate that use each other, so that a reader has to go to and fro.
//!
//! A module uses those that its paths name (`crate::…`, `super::…`, `self::…`, in imports and elsewhere),
//! each as far as files go. What a module says of its own submodules does not count: it declares them and
//! hands their names on. Tests at the foot of a file do not count either.

use crate::rust::{code_only, ends_in_word, without_tests};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// A module of a crate, by its names from the root; the root has none.
type Module = Vec<String>;

/// Which modules each uses.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// The circles of a source folder, each as its modules in order (`engine/run`).
pub fn circles(tree: &Tree, source: &str) -> Vec<Vec<String>> {
    let files = tree.texts("rs");
    let own = files.filter_map(|(file, text)| Some((file.strip_prefix(source)?, text)));
    let texts: BTreeMap<Module, &str> = own
        .map(|(path, text)| (module_of(path), text))
        .filter(|(module, _)| module.iter().all(|name| name != "tests"))
        .collect();
    let modules: BTreeSet<Module> = texts.keys().cloned().collect();
    let uses = texts.iter().map(|(module, text)| {
        let code = code_only(text);
        (module.clone(), used(module, without_tests(&code), &modules))
    });
    closed(&uses.collect())
}

/// `engine/run.rs` is `engine::run`, `engine/mod.rs` is `engine`, and `lib.rs` the root.
fn module_of(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut names: Module = path.split('/').map(String::from).collect();
    if names.last().is_some_and(|last| last == "mod") || names == ["lib"] {
        names.pop();
    }
    names
}

/// The modules that code of `module` names.
fn used(module: &Module, code: &str, modules: &BTreeSet<Module>) -> BTreeSet<Module> {
    let resolved = |path: &Vec<String>| {
        let mut names = match path[0].as_str() {
            "crate" => Module::new(),
            _ => module.clone(),
        };
        for name in path {
            match name.as_str() {
                "crate" | "self" => {}
                "super" => _ = names.pop(),
                name => names.push(name.to_string()),
            }
        }
        while !modules.contains(&names) && names.pop().is_some() {}
        names
    };
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            if ends_in_word(before) || before.ends_with("::") {
                continue;
            }
            let mut paths = Vec::new();
            each_path(&code[at..], &mut Vec::new(), &mut paths);
            found.extend(paths.iter().map(resolved));
        }
    }
    found.retain(|other| !other.starts_with(module));
    found
}

/// Collects the paths of a tree (`a::{b, c::d}`) that the text begins with; returns what follows it.
fn each_path<'t>(text: &'t str, path: &mut Vec<String>, paths: &mut Vec<Vec<String>>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            let before = path.len();
            rest = each_path(rest, path, paths).trim_start();
            path.truncate(before);
            rest = match (rest.strip_prefix(','), rest.find('}')) {
                (Some(next), _) => next,
                (None, Some(end)) => return &rest[end + 1..],
                (None, None) => return "",
            };
        }
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if !name.is_empty() {
        path.push(name.to_string());
    }
    match rest.strip_prefix("::") {
        Some(deeper) if !name.is_empty() => each_path(deeper, path, paths),
        _ => {
            if !path.is_empty() {
                paths.push(path.clone());
            }
            // `a as b`
            let stop = rest.find([',', '}', ';']).unwrap_or(rest.len());
            match rest[..stop].trim_start().starts_with("as ") {
                true => &rest[stop..],
                false => rest,
            }
        }
    }
}

/// The largest groups of modules each of which comes to each other's.
fn closed(uses: &Uses) -> Vec<Vec<String>> {
    let reached = |from: &Module| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            let further = uses.get(module).into_iter().flatten();
            next.extend(further.filter(|module| reached.insert((*module).clone())));
        }
        reached
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> = uses
        .keys()
        .map(|module| (module, reached(module)))
        .collect();
    let mut circles = BTreeSet::new();
    for (module, there) in &reached {
        let back = |other: &&Module| reached.get(other).is_some_and(|of| of.contains(*module));
        let circle: Vec<String> = there.iter().filter(back).map(|on| on.join("/")).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let named = |(name, text): &(&str, &str)| (format!("src/{name}"), text.to_string());
        Tree {
            files: files.iter().map(named).collect(),
        }
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle_however_they_say_so() {
        for (a, b, is_one) in [
            ("use super::b::B;", "use super::a::A;", true),
            (
                "use crate::room::b;",
                "use super::{c, a::{A, D as E}};",
                true,
            ),
            (
                "fn f() { super::b::f() }",
                "impl X for crate::room::a::A {}",
                true,
            ),
            ("use super::b::B;", "use crate::other::A;", false),
            ("use super::b::B;", "// use super::a::A;", false),
            (
                "use super::b;",
                "#[cfg(test)] mod tests { use crate::room::a::A; }",
                false,
            ),
            ("use std::b::self_crate::b;", "use super::a::A;", false),
        ] {
            let files = [
                ("lib.rs", "mod room;"),
                ("room/mod.rs", "mod a; mod b; pub use self::{a::A, b::B};"),
                ("room/a.rs", a),
                ("room/b.rs", b),
                ("other.rs", "use crate::room::a::A;"),
            ];
            let found = circles(&tree(&files), "src/");
            let expected: Vec<Vec<String>> = match is_one {
                true => vec![vec!["room/a".into(), "room/b".into()]],
                false => vec![],
            };
            // The other room is one more on the way back.
            let found: Vec<_> = found.into_iter().filter(|of| of.len() == 2).collect();
            assert_eq!(found, expected, "{a} {b}");
        }
    }

    #[test]
    fn a_circle_of_three_is_found_whole() {
        let files = [
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::{c, d};"),
            ("c/mod.rs", "use crate::a;"),
            ("d.rs", ""),
        ];
        assert_eq!(circles(&tree(&files), "src/"), [["a", "b", "c"]]);
    }
}
